//! The files of the memory engine: manifest, streams of blocks, index, pages of arrays, rows.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    match kind % 8 {
        0 => spillway_memory::fuzz::manifest(bytes),
        1 => spillway_memory::fuzz::stream(bytes),
        2 => spillway_memory::fuzz::row_record(bytes),
        3 | 4 => spillway_memory::fuzz::index(bytes),
        _ => spillway_memory::fuzz::folder(bytes),
    }
});
