//! Locks: `parking_lot`'s, or under `--cfg spillway_sim` those of the deterministic scheduler.

#[cfg(not(spillway_sim))]
pub use parking_lot::{
    Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, WaitTimeoutResult,
};

#[cfg(spillway_sim)]
pub use crate::scheduler::lock::{
    Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, WaitTimeoutResult,
};
