use super::*;
use spillway_base::rng::Rng;

const ID: FrameId = FrameId { table: TableId(3), extent: ExtentId(7), offset: 4096 };

fn sample() -> (Vec<(Vec<u8>, u64, Option<Vec<u8>>)>, Vec<u8>) {
    let mut rows = Vec::new();
    for key in 0..200_u32 {
        for csn in (0..=key % 3).rev() {
            let value = (csn != 1).then(|| vec![key as u8; key as usize % 40]);
            rows.push((format!("key{key:05}").into_bytes(), u64::from(csn) + 1, value));
        }
    }
    let mut writer = BlockWriter::default();
    for (key, csn, value) in &rows {
        writer.push(&Entry { key, csn: Csn(*csn), value: value.as_deref() });
    }
    let [mut block] = <[BuiltBlock; 1]>::try_from(writer.finish()).unwrap();
    assert_eq!((block.counts.keys, block.counts.versions), (200, rows.len() as u64));
    seal_frame(&mut block.frame, ID);
    (rows, block.frame)
}

#[test]
fn entries_come_back_and_are_found() {
    let (rows, frame) = sample();
    let block = Block::open(&frame[..], ID).unwrap();
    assert_eq!(block.len(), rows.len());
    for (index, (key, csn, value)) in rows.iter().enumerate() {
        let entry = Entry { key, csn: Csn(*csn), value: value.as_deref() };
        assert_eq!(block.entry(index), entry);
        let first = rows.iter().position(|(other, ..)| other == key).unwrap();
        assert_eq!(block.seek(key), first);
    }
    assert_eq!((block.seek(b""), block.seek(b"z")), (0, rows.len()));
}

#[test]
fn every_flipped_bit_is_noticed() {
    let (_, frame) = sample();
    for at in 0..frame.len() {
        let mut bad = frame.clone();
        bad[at] ^= 1 << (at % 8);
        // Two bytes of the frame mean nothing yet, and are under the checksum all the same.
        assert!(Block::open(&bad[..], ID).is_err(), "byte {at}");
    }
    for len in 0..frame.len() {
        assert!(Block::open(&frame[..len], ID).is_err());
    }
}

#[test]
fn a_frame_in_the_place_of_another_is_noticed() {
    let (_, frame) = sample();
    let table = TableId(4);
    for id in [
        FrameId { table, ..ID },
        FrameId { extent: ExtentId(8), ..ID },
        FrameId { offset: 0, ..ID },
    ] {
        assert!(Block::open(&frame[..], id).is_err(), "{id:?}");
    }
}

#[test]
fn any_body_is_a_block_or_an_error() {
    let mut rng = Rng::new(2);
    let (_, frame) = sample();
    let body = open_frame(&frame, ID).unwrap();
    for _ in 0..3000 {
        let mut body = body.to_vec();
        for _ in 0..1 + rng.below(4) {
            let at = rng.below(body.len() as u64) as usize;
            body[at] = rng.next_u64() as u8;
        }
        body.truncate(body.len() - rng.below(20) as usize);
        let mut frame = Vec::new();
        put_frame(&mut frame, &body);
        seal_frame(&mut frame, ID);
        if let Ok(block) = Block::open(&frame[..], ID) {
            (0..block.len()).for_each(|index| drop(block.entry(index).key.to_vec()));
        }
    }
}
