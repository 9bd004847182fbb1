#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| spillway_tiered::fuzz::filter(bytes));
