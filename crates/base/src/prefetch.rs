//! Prefetches memory before it is needed, so that the wait for one cache line overlaps other waits
//! or computation. A prefetch is a hint: it never fails, and changes nothing but timing.
#![allow(unsafe_code)] // A leaf: one instruction.

/// Bytes of a cache line of the processor.
pub const LINE_BYTES: usize = 64;

/// Prefetches the cache line of an address. Any address is allowed.
#[inline(always)]
pub fn line<T>(at: *const T) {
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    // SAFETY: the instruction has no effect that a program can observe, and does not fault,
    // whatever the address is.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(at.cast());
    }
    #[cfg(all(target_arch = "aarch64", not(loom)))]
    // SAFETY: likewise.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{0}]", in(reg) at, options(nostack, preserves_flags, readonly));
    }
    #[cfg(any(loom, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    let _ = at;
}

/// Prefetches `lines` cache lines, beginning with that of an address.
#[inline(always)]
pub fn lines<T>(at: *const T, lines: usize) {
    (0..lines).for_each(|number| line(at.wrapping_byte_add(number * LINE_BYTES)));
}
