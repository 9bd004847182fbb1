//! Locks: `parking_lot`'s. In builds with debug assertions, the deterministic scheduler's, which
//! wrap `parking_lot`'s.

#[cfg(not(debug_assertions))]
pub use parking_lot::{
    Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, WaitTimeoutResult,
};

#[cfg(debug_assertions)]
pub use crate::scheduler::lock::{
    Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, WaitTimeoutResult,
};
