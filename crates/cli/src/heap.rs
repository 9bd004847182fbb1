//! The allocator of the `spillway` process: jemalloc, which returns freed pages to the system.
//!
//! glibc's allocator keeps an arena for each thread, and returns to the system only the free memory
//! at the end of an arena. So a process would keep the memory of its largest statements. The
//! library leaves the choice of an allocator to the programs that use it; this program chooses
//! jemalloc.
#![allow(unsafe_code)] // The allocator reads its settings from a symbol.

use std::ffi::{c_char, c_int};
use std::ptr;

use tikv_jemallocator::Jemalloc;

#[global_allocator]
static HEAP: Jemalloc = Jemalloc;

/// A C string.
#[repr(transparent)]
struct Text(*const c_char);

// SAFETY: it points to a constant.
unsafe impl Sync for Text {}

/// The settings that the allocator reads before `main`. A background thread returns freed pages
/// within a second, including those of sleeping threads. Huge pages are off: with them the system
/// would allocate memory that nothing has requested.
// SAFETY: no other symbol has this name, and the allocator expects a pointer to a C string there.
#[unsafe(export_name = "malloc_conf")]
#[used]
static SETTINGS: Text =
    Text(c"background_thread:true,dirty_decay_ms:1000,muzzy_decay_ms:0,thp:never".as_ptr());

/// The allocator's name of a purge of all arenas.
const PURGE_ALL: &std::ffi::CStr = c"arena.4096.purge";

/// Returns the allocator's free memory to the system immediately.
pub(crate) fn release() {
    // SAFETY: the name is a C string, and this request neither takes nor gives a value.
    let refused: c_int = unsafe {
        tikv_jemalloc_sys::mallctl(
            PURGE_ALL.as_ptr(),
            ptr::null_mut(),
            ptr::null_mut(),
            ptr::null_mut(),
            0,
        )
    };
    debug_assert_eq!(refused, 0, "the allocator knows how to purge");
}
