#![no_main]

use spillway_base::batch::WriteBatch;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(batch) = WriteBatch::from_bytes(bytes.to_vec()) else { return };
    let mut again = WriteBatch::new();
    batch.iter().for_each(|op| again.push(op));
    assert_eq!((again.len(), batch.is_empty()), (batch.len(), batch.len() == 0));
    assert!(batch.iter().eq(again.iter()));
});
