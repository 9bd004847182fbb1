//! What an engine puts down of temperatures and compactions, for who looks at its folder later.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    spillway_tiered::fuzz::recent(bytes);
});
