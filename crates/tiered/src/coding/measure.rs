//! Measures the codings over blocks of realistic rows.
//! `cargo test --release -p spillway-tiered coding::measure -- --nocapture` prints the table of
//! `docs/benchmarks.md`. In a debug build, the test measures only a few blocks. In either build, it
//! fails if the blocks become larger than before.

use std::time::Duration;

use spillway_base::Csn;
use spillway_base::rng::Rng;

use super::*;
use crate::block::{BLOCK_BYTES, BlockWriter, Entry, FRAME_BYTES};

/// Bodies of full blocks of these rows, in order of their keys.
fn blocks(count: usize, mut row: impl FnMut(u64) -> (Vec<u8>, Vec<u8>)) -> Vec<Vec<u8>> {
    let mut writer = BlockWriter::default();
    let (mut bodies, mut number) = (Vec::new(), 0);
    while bodies.len() < count {
        number += 1;
        let (key, value) = row(number);
        writer.push(&Entry { key: &key, csn: Csn(1_000_000 + number / 100), value: Some(&value) });
        bodies.extend(writer.ready().map(|mut block| block.frame.split_off(FRAME_BYTES)));
    }
    bodies
}

/// Rows of sysbench's tables: an id, a number, and two texts of groups of random digits.
fn sysbench(count: usize) -> Vec<Vec<u8>> {
    let mut rng = Rng::new(1);
    blocks(count, |id| {
        let mut value = vec![0, 0];
        value.extend_from_slice(&(rng.below(1_000_000) as u32).to_le_bytes());
        for groups in [10_u8, 5] {
            value.push(12 * groups - 1);
            for group in 0..groups {
                value.extend((group > 0).then_some(b'-'));
                value.extend((0..11).map(|_| b'0' + rng.below(10) as u8));
            }
        }
        ((id as u32).to_be_bytes().to_vec(), value)
    })
}

/// Rows of orders: numbers of buyers and goods, amounts, two times, and small texts.
fn orders(count: usize) -> Vec<Vec<u8>> {
    let mut rng = Rng::new(2);
    let states = ["CREATED", "PAID", "SHIPPED", "DELIVERED", "CLOSED", "REFUNDED"];
    let streets = ["West Lake Road", "Wensan Road", "Nanjing Road", "Renmin Street", "Park Lane"];
    let cities = ["Hangzhou", "Shanghai", "Beijing", "Shenzhen", "Guangzhou", "Chengdu", "Wuhan"];
    blocks(count, |number| {
        let order = 4_217_000_000_u64 + number * 3 + rng.below(3);
        let time = 1_541_865_600_000_u64 + number * 2 + rng.below(5);
        let mut value = vec![0; 3];
        let (buyer, good) = (rng.below(30_000_000), rng.below(2_000_000));
        let (pieces, cents) = (1 + rng.below(8) as u32, 99 + rng.below(500) * 100);
        value.extend_from_slice(&buyer.to_le_bytes());
        value.extend_from_slice(&good.to_le_bytes());
        value.extend_from_slice(&pieces.to_le_bytes());
        value.extend_from_slice(&cents.to_le_bytes());
        value.extend_from_slice(&time.to_le_bytes());
        value.extend_from_slice(&(time + rng.below(100_000)).to_le_bytes());
        let mut pick = |texts: &[&'static str]| texts[rng.below(texts.len() as u64) as usize];
        let (state, street, city) = (pick(&states), pick(&streets), pick(&cities));
        let address = format!("{} {street}, {city}", 1 + rng.below(900));
        let phone = format!("+86 1{:010}", rng.below(10_000_000_000));
        let note = if rng.chance(1, 8) { "please call before delivery" } else { "" };
        for text in [state, &address, &phone, note] {
            value.push(text.len() as u8);
            value.extend_from_slice(text.as_bytes());
        }
        (order.to_be_bytes().to_vec(), value)
    })
}

/// The processor time of this thread. Other programs may use the machine at the same time.
fn used() -> Duration {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = told.split_whitespace().next().and_then(|nanos| nanos.parse().ok());
    Duration::from_nanos(nanos.unwrap_or_default())
}

/// Codes and decodes bodies, and prints the time that it took. Returns the coded bytes as a share
/// of the bytes of the bodies.
fn measure(
    name: &str,
    bodies: &[&[u8]],
    compression: Compression,
    dictionary: Option<&Dictionary>,
) -> f64 {
    let mut encoder = Encoder::new(compression, dictionary);
    let mut body = vec![0; 2 * BLOCK_BYTES];
    let mut coded = Vec::new();
    let (mut encoding, mut decoding) = (Duration::MAX, Duration::MAX);
    // Takes the best of several rounds, because other programs may have used the processor.
    for _ in 0..if cfg!(debug_assertions) { 1 } else { 7 } {
        coded.clear();
        let began = used();
        for bytes in bodies {
            let mut out = Vec::with_capacity(2 * BLOCK_BYTES);
            let (coding, _) = encoder.encode(bytes, &mut out);
            coded.push((coding, out));
        }
        let encoded = used();
        for (coding, bytes) in &coded {
            let coded = Coded::open(*coding, bytes, BLOCK_BYTES).unwrap();
            coded.decode(dictionary, &mut body[..coded.body_bytes()]).unwrap();
        }
        encoding = encoding.min(encoded - began);
        decoding = decoding.min(used() - encoded);
    }
    for ((coding, coded), bytes) in coded.iter().zip(bodies) {
        let coded = Coded::open(*coding, coded, BLOCK_BYTES).unwrap();
        coded.decode(dictionary, &mut body[..coded.body_bytes()]).unwrap();
        assert_eq!(body[..coded.body_bytes()], **bytes);
    }
    let all: usize = bodies.iter().map(|body| body.len()).sum();
    let left: usize = coded.iter().map(|(_, bytes)| bytes.len()).sum();
    let ratio = left as f64 / all as f64;
    let speed = |time: Duration| all as f64 / time.as_secs_f64() / 1e6;
    println!(
        "| {name} | {compression}{} | {ratio:.3} | {:.0} | {:.0} |",
        dictionary.map_or(String::new(), |d| format!(", {} KiB", d.bytes().len() >> 10)),
        speed(encoding),
        speed(decoding),
    );
    ratio
}

#[test]
fn rows_become_as_small_as_they_did() {
    let (count, levels) =
        if cfg!(debug_assertions) { (60, &[3][..]) } else { (800, &[1, 3, 6, 9][..]) };
    let table = [("sysbench", sysbench(count), 0.40, 0.39), ("orders", orders(count), 0.37, 0.35)];
    for (name, bodies, plain_most, trained_most) in table {
        let bodies: Vec<_> = bodies.iter().map(|body| &body[..]).collect();
        let (samples, bodies) = bodies.split_at(count / 2);
        let dictionary = Dictionary::train(DictionaryId(1), samples, 16 << 10).unwrap();
        measure(name, bodies, Compression::Lz4, None);
        for &level in levels {
            let zstd = Compression::Zstd { level };
            let plain = measure(name, bodies, zstd, None);
            let trained = measure(name, bodies, zstd, Some(&dictionary));
            assert!(plain < plain_most && trained < trained_most, "{name}: {plain}, {trained}");
        }
    }
}
