//! The allocator of the `spillway` process: jemalloc, which returns freed pages to the system.
//!
//! glibc keeps an arena for each thread and returns only the end of its heap, so a process keeps what
//! its largest statements took. An embedded library leaves the choice to its process; only this
//! binary makes one.
#![allow(unsafe_code)] // The allocator's settings are a symbol that it looks for.

use std::ffi::c_char;

use tikv_jemallocator::Jemalloc;

#[global_allocator]
static HEAP: Jemalloc = Jemalloc;

/// A C string.
#[repr(transparent)]
struct Text(*const c_char);

// SAFETY: it points to a constant.
unsafe impl Sync for Text {}

/// What the allocator reads before `main`. A thread of its own returns freed pages within a second, also
/// those of threads that sleep. Huge pages are refused: the system would fill them with memory that
/// nobody has asked for.
// SAFETY: no other symbol has this name, and the allocator expects a pointer to a C string there.
#[unsafe(export_name = "malloc_conf")]
#[used]
static SETTINGS: Text =
    Text(c"background_thread:true,dirty_decay_ms:1000,muzzy_decay_ms:0,thp:never".as_ptr());
