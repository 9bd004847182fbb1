#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    spillway_tiered::fuzz::block_body(bytes);
    spillway_tiered::fuzz::block_changed(bytes);
});
