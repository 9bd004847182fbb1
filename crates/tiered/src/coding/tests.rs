use spillway_base::rng::Rng;
use spillway_base::{Csn, ErrorKind};

use super::dictionary::{coded_bytes, gains_enough};
use super::pack::{Packing, pack, unpack};
use super::*;
use crate::block::{BlockWriter, Entry, FRAME_BYTES};

/// The body of the first block of these entries.
fn body_of(mut writer: BlockWriter) -> Vec<u8> {
    writer.finish().swap_remove(0).frame.split_off(FRAME_BYTES)
}

/// The body of a block of similar rows, of about this many bytes.
fn rows(rng: &mut Rng, bytes: usize) -> Vec<u8> {
    let mut writer = BlockWriter::default();
    let (mut number, mut written) = (rng.below(1 << 40), 0);
    // The size of a block is limited, but one large value can make it as large as needed.
    let value = b"a large value ".repeat(bytes / 14);
    if bytes > 12 << 10 {
        writer.push(&Entry { key: b"large", csn: Csn(1), value: Some(&value) });
        written = bytes;
    }
    while written < bytes.max(1) {
        number += 1 + rng.below(3);
        let key = format!("order/{number:012}");
        let status = ["created", "paid", "shipped", "closed"][rng.below(4) as usize];
        let buyer = rng.below(1 << 20);
        let value = format!("{{\"status\":\"{status}\",\"buyer\":{buyer},\"note\":\"\"}}");
        for csn in (0..=rng.below(2)).rev() {
            let value = (csn > 0 || rng.chance(7, 8)).then_some(value.as_bytes());
            writer.push(&Entry { key: key.as_bytes(), csn: Csn(number + csn), value });
            written += 30 + value.map_or(0, <[u8]>::len);
        }
    }
    body_of(writer)
}

/// The body of a block with one value of this many random bytes.
fn noise(rng: &mut Rng, bytes: usize) -> Vec<u8> {
    let mut value = vec![0; bytes];
    rng.fill(&mut value);
    let mut writer = BlockWriter::default();
    writer.push(&Entry { key: b"k", csn: Csn(1), value: Some(&value) });
    body_of(writer)
}

/// The body of a block of rows of digits, of about this many bytes.
fn numbers(rng: &mut Rng, bytes: usize) -> Vec<u8> {
    let mut writer = BlockWriter::default();
    let mut written = 0;
    for number in 0.. {
        if written > bytes.min(12 << 10) {
            break;
        }
        let key = format!("{number:05}");
        let groups = (0..rng.below(9)).map(|_| (rng.next_u64() >> rng.below(60)).to_string());
        let value = groups.collect::<Vec<_>>().join("-");
        let value = (number % 7 != 3).then_some(value.as_bytes());
        writer.push(&Entry { key: key.as_bytes(), csn: Csn(number), value });
        written += 30 + value.map_or(0, <[u8]>::len);
    }
    body_of(writer)
}

fn dictionary(id: u16, seed: u64) -> Dictionary {
    let mut rng = Rng::new(seed);
    let bodies: Vec<_> = (0..40).map(|_| rows(&mut rng, 8 << 10)).collect();
    let bodies: Vec<_> = bodies.iter().map(|body| &body[..]).collect();
    Dictionary::train(DictionaryId(id), &bodies, 4 << 10).unwrap()
}

/// Every compression, and whether it is used with the dictionary.
const WAYS: [(Compression, bool); 6] = [
    (Compression::None, false),
    (Compression::Lz4, false),
    (Compression::Zstd { level: 1 }, false),
    (Compression::Zstd { level: 3 }, true),
    (Compression::Zstd { level: 9 }, false),
    (Compression::Zstd { level: 19 }, true),
];

fn decoded(
    coding: Coding,
    coded: &[u8],
    dictionary: Option<&Dictionary>,
    bytes_max: usize,
) -> Result<Vec<u8>> {
    let coded = Coded::open(coding, coded, bytes_max)?;
    let mut body = vec![0; coded.body_bytes()];
    coded.decode(dictionary, &mut body)?;
    Ok(body)
}

/// CODING-1 and CODING-3, for bodies of any size.
#[test]
fn bodies_come_back_and_are_never_longer() {
    let mut rng = Rng::new(1);
    let dictionary = dictionary(9, 2);
    for (compression, with) in WAYS {
        let mut encoder = Encoder::new(compression, with.then_some(&dictionary));
        let mut coded_ones = 0;
        for size in (0..13).map(|power| 1 << power).chain([16 << 10, 100 << 10, 1 << 20]) {
            let mut raw = vec![0; size];
            rng.fill(&mut raw);
            let blocks = [rows(&mut rng, size), noise(&mut rng, size), numbers(&mut rng, size)];
            for body in blocks.into_iter().chain([raw, vec![0; size], vec![]]) {
                let mut out = b"before".to_vec();
                let (coding, id) = encoder.encode(&body, &mut out);
                let coded = out.strip_prefix(b"before").unwrap();
                assert_eq!(Coding::of(coding as u8).unwrap(), coding);
                assert_eq!(id, DictionaryId(if coding == Coding::ZstdDictionary { 9 } else { 0 }));
                if coding == Coding::Stored {
                    assert_eq!(coded, body);
                } else {
                    assert!(coded.len() * 16 <= body.len() * 15);
                    coded_ones += 1;
                }
                let back = decoded(coding, coded, Some(&dictionary), body.len()).unwrap();
                assert_eq!(back, body, "{compression} of {size} bytes");
            }
        }
        let least = if compression == Compression::None { 0 } else { 10 };
        assert!((least..60).contains(&coded_ones), "{coded_ones} by {compression}");
    }
}

/// CODING-2: after any change and any cut, a body decodes to some bytes, or is reported as damage.
#[test]
fn any_bytes_are_decoded_or_are_damage() {
    let mut rng = Rng::new(3);
    let dictionary = dictionary(1, 2);
    let (mut sound, mut unsound) = (0, 0);
    let mut look =
        |coding, bytes: &[u8], most| match decoded(coding, bytes, Some(&dictionary), most) {
            Ok(body) => {
                assert!(body.len() <= most);
                sound += 1;
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corruption);
                unsound += 1;
            }
        };
    for (compression, with) in WAYS {
        let bodies = [rows(&mut rng, 8 << 10), numbers(&mut rng, 8 << 10)];
        let mut encoder = Encoder::new(compression, with.then_some(&dictionary));
        for round in 0..800 {
            let body = &bodies[round % 2];
            let mut coded = Vec::new();
            let (coding, _) = encoder.encode(body, &mut coded);
            let mut bad = coded.clone();
            for _ in 0..=rng.below(3) {
                let at = rng.below(bad.len() as u64) as usize;
                bad[at] ^= 1 << rng.below(8);
            }
            look(coding, &bad, body.len());
            look(coding, &coded[..rng.below(coded.len() as u64) as usize], body.len());
            let mut any = vec![0; rng.below(200) as usize];
            rng.fill(&mut any);
            // The length is plausible, so that the bytes after it are read.
            if let Some(length) = any.get_mut(1..4) {
                length.fill(0);
            }
            look(coding, &any, 1 << 10);
        }
    }
    assert!(sound > 100 && unsound > 2000, "{sound} sound, {unsound} unsound");
}

/// CODING-2: a length is accepted only within the bound.
#[test]
fn a_length_past_the_bound_is_damage() {
    for coding in [Coding::Lz4, Coding::Zstd, Coding::ZstdDictionary] {
        let mut bytes = 5000_u32.to_le_bytes().to_vec();
        bytes.extend_from_slice(&[0; 40]);
        assert_eq!(Coded::open(coding, &bytes, 5000).unwrap().body_bytes(), 5000);
        assert_eq!(Coded::open(coding, &bytes, 4999).err().unwrap().kind(), ErrorKind::Corruption);
        bytes[..4].fill(0xFF);
        let error = Coded::open(coding, &bytes, usize::MAX).err().unwrap();
        assert!(error.to_string().contains("4294967295 bytes"), "{error}");
        assert!(Coded::open(coding, &bytes[..3], 5000).is_err());
    }
    assert!(Coded::open(Coding::Stored, &[0; 10], 9).is_err());
    assert!(Coding::of(4).is_err());
}

/// CODING-4.
#[test]
fn another_dictionary_or_none_is_damage() {
    let (own, other) = (dictionary(1, 2), dictionary(1, 77));
    let mut rng = Rng::new(4);
    let body = rows(&mut rng, 12 << 10);
    let mut coded = Vec::new();
    let mut encoder = Encoder::new(Compression::ZSTD, Some(&own));
    assert_eq!(encoder.encode(&body, &mut coded), (Coding::ZstdDictionary, DictionaryId(1)));
    assert_eq!(decoded(Coding::ZstdDictionary, &coded, Some(&own), body.len()).unwrap(), body);
    for wrong in [Some(&other), None] {
        let error = decoded(Coding::ZstdDictionary, &coded, wrong, body.len()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
        assert!(error.to_string().to_lowercase().contains("dictionary"), "{error}");
    }
}

#[test]
fn dictionaries_come_from_bytes_or_are_damage() {
    let good = dictionary(3, 5);
    let again = Dictionary::open(good.id(), good.bytes()).unwrap();
    assert_eq!((again.id(), again.bytes()), (good.id(), good.bytes()));
    assert!(again.memory_bytes() > good.bytes().len());
    assert!(Dictionary::open(DictionaryId::NONE, good.bytes()).is_err());
    let mut rng = Rng::new(6);
    let body = rows(&mut rng, 4 << 10);
    let mut refused = 0;
    for round in 0..300 {
        let mut bytes = good.bytes().to_vec();
        match round % 3 {
            0 => bytes[rng.below(150) as usize] ^= 1 << rng.below(8),
            1 => bytes.truncate(rng.below(bytes.len() as u64) as usize),
            _ => rng.fill(&mut bytes),
        }
        let Ok(changed) = Dictionary::open(DictionaryId(1), &bytes) else {
            refused += 1;
            continue;
        };
        let mut coded = Vec::new();
        let (coding, _) = Encoder::new(Compression::ZSTD, Some(&changed)).encode(&body, &mut coded);
        assert_eq!(decoded(coding, &coded, Some(&changed), body.len()).unwrap(), body);
    }
    assert!((100..300).contains(&refused), "{refused}");
    assert!(Dictionary::train(DictionaryId(1), &[], 4096).is_none());
    assert!(Dictionary::train(DictionaryId(1), &[b"short"], 4096).is_none());
}

#[test]
fn a_dictionary_is_kept_for_what_it_spares() {
    let mut rng = Rng::new(7);
    let bodies: Vec<_> = (0..20).map(|_| rows(&mut rng, 2 << 10)).collect();
    let bodies: Vec<_> = bodies.iter().map(|body| &body[..]).collect();
    let dictionary = dictionary(1, 8);
    let plain = coded_bytes(&mut Encoder::new(Compression::ZSTD, None), &bodies);
    let with = coded_bytes(&mut Encoder::new(Compression::ZSTD, Some(&dictionary)), &bodies);
    assert!(gains_enough(plain, with, false), "{with} of {plain}");
    assert!(!gains_enough(with, plain, false));
    assert!(gains_enough(1000, 979, false) && !gains_enough(1000, 980, false));
    assert!(gains_enough(1000, 949, true) && !gains_enough(1000, 950, true));
    assert!(!gains_enough(0, 0, false));
}

/// Unpacking returns the bytes that were packed. Bytes that are not a block's body are not packed.
#[test]
fn packing_is_undone_or_refused() {
    let mut rng = Rng::new(9);
    let mut packing = Packing::default();
    let mut refused = 0;
    for round in 0..2000 {
        let size = rng.below(600) as usize;
        let mut body = if round % 3 == 0 { numbers(&mut rng, size) } else { rows(&mut rng, size) };
        if round % 2 == 0 {
            let at = rng.below(body.len() as u64) as usize;
            body[at] ^= 1 << rng.below(8);
        }
        let mut packed = Vec::new();
        if pack(&body, round % 4 < 2, &mut packing, &mut packed).is_none() {
            assert_eq!(round % 2, 0, "a block's body is packed");
            refused += 1;
            continue;
        }
        let mut again = vec![0xEE; body.len()];
        unpack(&packed, &packing.digits, &mut again).unwrap();
        assert_eq!(again, body);
        assert!(unpack(&packed, &packing.digits, &mut vec![0; body.len() + 1]).is_err());
        assert!(unpack(&packed, &packing.digits, &mut again[1..]).is_err());
        let cut = rng.below(packed.len() as u64) as usize;
        assert!(unpack(&packed[..cut], &packing.digits, &mut again).is_err());
    }
    assert!((50..900).contains(&refused), "{refused}");
}

#[test]
fn compressions_are_read_as_they_are_written() {
    for text in ["none", "lz4", "zstd:1", "zstd:3", "zstd:19"] {
        assert_eq!(text.parse::<Compression>().unwrap().to_string(), text);
    }
    assert_eq!("zstd".parse::<Compression>().unwrap(), Compression::ZSTD);
    for text in ["", "LZ5", "zstd:", "zstd:0", "zstd:20", "lz4:1", "zstd:3:3"] {
        let error = text.parse::<Compression>().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{text}");
    }
}
