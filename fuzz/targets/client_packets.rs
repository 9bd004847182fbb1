//! The commands of a client that is logged in.
#![no_main]

use std::sync::LazyLock;

use spillway_server::fuzz::Fed;

static FED: LazyLock<Fed> = LazyLock::new(Fed::in_memory);

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| FED.serve_commands(bytes));
