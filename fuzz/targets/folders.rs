//! The records of folders: where a database's data files are, and where its log.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    spillway_tiered::fuzz::folders(bytes);
    spillway::fuzz::log_home(bytes);
});
