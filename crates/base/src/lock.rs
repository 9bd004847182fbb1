//! Locks: those of `parking_lot`, and in builds with debug assertions those of the deterministic
//! scheduler, which wrap `parking_lot`'s.

#[cfg(not(debug_assertions))]
pub use parking_lot::{
    Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, WaitTimeoutResult,
};

#[cfg(debug_assertions)]
pub use crate::scheduler::lock::{
    Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, WaitTimeoutResult,
};
