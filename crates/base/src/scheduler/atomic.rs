//! Atomics under the scheduler: a scheduling point precedes each access.
//!
//! Memory is sequentially consistent under the scheduler. Weaker orderings are checked with loom.

pub use std::sync::atomic::Ordering;

use super::point;

/// As [`std::sync::atomic::fence`].
pub fn fence(order: Ordering) {
    point();
    std::sync::atomic::fence(order);
}

macro_rules! atomic {
    ($name:ident $(<$t:ident>)?, $value:ty, [$($operation:ident),*]) => {
        /// As that of `std`.
        pub struct $name $(<$t>)? (std::sync::atomic::$name $(<$t>)?);

        impl $(<$t>)? std::fmt::Debug for $name $(<$t>)? {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }

        impl $(<$t>)? Default for $name $(<$t>)? {
            fn default() -> Self {
                Self(Default::default())
            }
        }

        #[allow(missing_docs)]
        impl $(<$t>)? $name $(<$t>)? {
            #[inline]
            pub const fn new(value: $value) -> Self {
                Self(std::sync::atomic::$name::new(value))
            }

            #[inline]
            pub fn load(&self, order: Ordering) -> $value {
                point();
                self.0.load(order)
            }

            #[inline]
            pub fn store(&self, value: $value, order: Ordering) {
                point();
                self.0.store(value, order);
            }

            #[inline]
            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                point();
                self.0.swap(value, order)
            }

            #[inline]
            pub fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                point();
                self.0.compare_exchange(current, new, success, failure)
            }

            #[inline]
            pub fn compare_exchange_weak(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                point();
                self.0.compare_exchange(current, new, success, failure)
            }

            #[inline]
            pub fn fetch_update(
                &self,
                set: Ordering,
                fetch: Ordering,
                change: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                point();
                self.0.fetch_update(set, fetch, change)
            }

            #[inline]
            pub fn get_mut(&mut self) -> &mut $value {
                self.0.get_mut()
            }

            #[inline]
            pub fn into_inner(self) -> $value {
                self.0.into_inner()
            }

            $(
                #[inline]
                pub fn $operation(&self, value: $value, order: Ordering) -> $value {
                    point();
                    self.0.$operation(value, order)
                }
            )*
        }
    };
}

macro_rules! numbers {
    ($($name:ident, $value:ty;)*) => {
        $(atomic!($name, $value, [
            fetch_add, fetch_sub, fetch_max, fetch_min, fetch_or, fetch_and, fetch_xor
        ]);)*
    };
}

numbers! {
    AtomicU8, u8;
    AtomicU16, u16;
    AtomicU32, u32;
    AtomicU64, u64;
    AtomicUsize, usize;
    AtomicI32, i32;
    AtomicI64, i64;
}
atomic!(AtomicBool, bool, [fetch_or, fetch_and, fetch_xor]);
atomic!(AtomicPtr<T>, *mut T, []);
