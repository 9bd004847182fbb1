//! Large pages of the system, for memory that is completely in use, and the return of memory to the
//! system.
//!
//! If memory consists of pages of 4 KiB, nearly every access to a row, to a node of an index or to
//! an entry of an array misses the processor's TLB. Memory starts with small pages, because at the
//! first access to a large page the system clears all of it, and the engine may not use all of it.
//! Once a piece of memory is completely in use, the background work makes it a large page: the
//! system copies the contents. Threads that access the piece meanwhile wait for this copy.

#![allow(unsafe_code)] // A leaf: advice about mapped memory.

use std::ptr::NonNull;

/// Bytes of a large page, on x86-64 and on most systems of aarch64. On other systems
/// [`make_large`] fails.
pub(crate) const LARGE_PAGE_BYTES: usize = 2 << 20;

/// Whether the system's administrator lets processes use large pages.
pub(crate) fn are_allowed() -> bool {
    let setting = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    setting.is_ok_and(|setting| !setting.contains("[never]"))
}

/// Makes `LARGE_PAGE_BYTES` of memory one large page. `false` if the system has none to give, or
/// cannot do this (Linux before 6.1).
///
/// # Safety
/// The memory is mapped, and begins at a multiple of `LARGE_PAGE_BYTES`.
pub(crate) unsafe fn make_large(begin: NonNull<u8>) -> bool {
    // SAFETY: this does not change the contents of the memory.
    unsafe { libc::madvise(begin.as_ptr().cast(), LARGE_PAGE_BYTES, libc::MADV_COLLAPSE) == 0 }
}

/// Takes memory from the system at once, which costs half of a page fault for each page. Has no
/// effect before Linux 5.14.
///
/// # Safety
/// The memory is mapped, and begins and ends at multiples of the system's page.
pub(crate) unsafe fn populate(begin: NonNull<u8>, bytes: usize) {
    // SAFETY: this does not change the contents of the memory.
    let _ = unsafe { libc::madvise(begin.as_ptr().cast(), bytes, libc::MADV_POPULATE_WRITE) };
}

/// Returns memory to the system. `is_large` if it may be a part of a large page: the system then
/// splits that page first, because otherwise it would keep all of the page's memory.
///
/// # Safety
/// The memory is mapped, and begins and ends at multiples of the system's page. No thread uses it,
/// and it is written before it is read again.
pub(crate) unsafe fn give_back(begin: NonNull<u8>, bytes: usize, is_large: bool) {
    let memory = begin.as_ptr().cast();
    if is_large {
        // SAFETY: the caller does not need the contents. The system splits a large page of which
        // only a part is free.
        let _ = unsafe { libc::madvise(memory, bytes, libc::MADV_FREE) };
    }
    // SAFETY: as above.
    let given = unsafe { libc::madvise(memory, bytes, libc::MADV_DONTNEED) };
    debug_assert_eq!(given, 0, "the system takes pages back");
}

/// The bytes of mapped memory that the system has given.
#[cfg(all(test, not(loom)))]
pub(crate) fn resident_bytes(begin: NonNull<u8>, bytes: usize) -> usize {
    const SYSTEM_PAGE_BYTES: usize = 4 << 10;
    let mut pages = vec![0_u8; bytes / SYSTEM_PAGE_BYTES];
    // SAFETY: there is a byte for each page of the system.
    let found = unsafe { libc::mincore(begin.as_ptr().cast(), bytes, pages.as_mut_ptr()) };
    assert_eq!(found, 0, "the memory is mapped");
    pages.iter().filter(|page| **page & 1 != 0).count() * SYSTEM_PAGE_BYTES
}
