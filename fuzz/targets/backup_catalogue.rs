#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| spillway::fuzz::backup_catalogue(bytes));
