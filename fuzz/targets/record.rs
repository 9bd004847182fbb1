#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = spillway_txn::check_frame(bytes);
});
