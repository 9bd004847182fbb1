//! Gets that read only parts of blocks (`extent::partial_read`).

use std::ops::Range;

use super::*;

const KEYS: u64 = 4000;
const NEWEST: Csn = Csn(3 * KEYS);

fn settings() -> TieredSettings {
    TieredSettings {
        hot_compression: Compression::None,
        cold_compression: Compression::None,
        row_cache_share: 0.0,
        cache_bytes: 300 << 10,
        ..small()
    }
}

/// Keys with a long common prefix in some blocks, and a short one in others.
fn key(number: u64) -> Vec<u8> {
    let kind = ["a", "much-longer-than-a-head-is"][number as usize / 700 % 2];
    format!("{:02}{kind}{number:05}", number / 700).into_bytes()
}

fn put(number: u64, value: &[u8]) -> WriteBatch {
    batch(&[Op::Put { table: table(1), key: &key(number), value }])
}

/// The value of a key from its first commit on.
fn value(number: u64) -> Vec<u8> {
    noise(number, (number % 400) as usize)
}

/// A table with all data in extents. [`KEYS`] commits later, every eighth key gets a second
/// version, and every eleventh is deleted.
fn filled(disk: &SimDisk, settings: TieredSettings) -> Bench {
    let bench = open_with(Arc::new(disk.clone()), settings).unwrap();
    bench.install(&(Csn(1), batch(&[Op::CreateTable(table(1))])));
    // A live snapshot keeps the first versions.
    bench.horizon.live.lock().push(Csn(2 + KEYS));
    (0..KEYS).for_each(|number| bench.install(&(Csn(2 + number), put(number, &value(number)))));
    for number in 0..KEYS {
        let delete = batch(&[Op::Delete { table: table(1), key: &key(number) }]);
        let change = match number {
            _ if number % 11 == 0 => delete,
            _ if number % 64 == 0 => put(number, b"second"),
            _ => continue,
        };
        bench.install(&(Csn(3 + KEYS + number), change));
    }
    bench.horizon.stable.store(NEWEST.0, Ordering::SeqCst);
    bench.engine.compact_all().unwrap();
    bench
}

fn wanted(number: u64, snapshot: Csn) -> Option<Vec<u8>> {
    let (is_there, is_late) = (number < KEYS, snapshot == NEWEST);
    match number {
        _ if !is_there => None,
        _ if is_late && number.is_multiple_of(11) => None,
        _ if is_late && number.is_multiple_of(64) => Some(b"second".to_vec()),
        _ => Some(value(number)),
    }
}

fn parts_read(bench: &Bench) -> u64 {
    bench.engine.0.context.reads_of_parts.load(Ordering::Relaxed)
}

/// Reads random keys. Returns how many reads failed because of damage.
fn read(bench: &Bench, rng: &mut Rng, reads: u64, least: u64, most: u64) -> u64 {
    let access = |rng: &mut Rng| if rng.chance(1, 2) { Access::Blocking } else { Access::AtHand };
    read_by(bench, rng, reads, least..most, access)
}

/// As [`read`]. Each key is first read with this access, and again if that would wait for a device.
fn read_by(
    bench: &Bench,
    rng: &mut Rng,
    reads: u64,
    keys: Range<u64>,
    access: impl Fn(&mut Rng) -> Access,
) -> u64 {
    let mut damaged = 0;
    for _ in 0..reads {
        let number = keys.start + rng.below(keys.end - keys.start);
        let snapshot = if rng.chance(1, 2) { NEWEST } else { Csn(2 + KEYS) };
        let mut found = Vec::new();
        let mut key = key(number);
        let is_key = rng.chance(7, 8);
        if !is_key {
            key.push(b'x');
        }
        let access = access(rng);
        let answer = match bench.engine.get(table(1), &key, snapshot, access, &mut found) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                bench.engine.get(table(1), &key, snapshot, Access::Blocking, &mut found)
            }
            answer => answer,
        };
        match answer {
            Ok(answer) => {
                let found = answer.is_value().then_some(found);
                let wanted = wanted(number, snapshot).filter(|_| is_key);
                assert_eq!(found, wanted, "key {number} at {snapshot:?}");
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corruption);
                damaged += 1;
            }
        }
    }
    damaged
}

#[test]
fn partial_read_2_parts_answer_what_blocks_do() {
    for (seed, direct_reads, part_reads) in [(1, false, true), (2, true, true), (3, false, false)] {
        let (disk, mut rng) = (SimDisk::new(seed), Rng::new(seed));
        let bench = filled(&disk, TieredSettings { direct_reads, part_reads, ..settings() });
        assert_eq!(read(&bench, &mut rng, 8000, 0, KEYS + 10), 0);
        let parts = parts_read(&bench);
        assert!(if part_reads { parts > 1000 } else { parts == 0 }, "{parts} parts");
    }
}

#[test]
fn partial_read_1_a_part_that_was_damaged_meanwhile_is_told_and_never_read() {
    let (disk, mut rng) = (SimDisk::new(1), Rng::new(1));
    let bench = filled(&disk, settings());
    assert_eq!(read(&bench, &mut rng, 8000, 0, KEYS), 0);
    let before = parts_read(&bench);
    assert!(before > 1000, "{before} parts");
    for (path, start, len) in super::faults::extents(&bench, 1) {
        disk.rot(&path, start + rng.below(len), 1 << rng.below(8));
    }
    let damaged = read(&bench, &mut rng, 4000, 0, KEYS);
    assert!((1..4000).contains(&damaged), "{damaged}");
    assert!(parts_read(&bench) > before + 100, "others are read on");
}

#[test]
fn partial_read_3_while_there_is_room_blocks_come_in() {
    let bench = filled(&SimDisk::new(1), TieredSettings { cache_bytes: 8 << 20, ..settings() });
    assert_eq!(read(&bench, &mut Rng::new(1), 4000, 0, KEYS), 0);
    assert_eq!(parts_read(&bench), 0);
}

#[test]
fn partial_read_4_blocks_that_are_asked_for_again_soon_come_in() {
    let (bench, mut rng) = (filled(&SimDisk::new(1), settings()), Rng::new(1));
    read(&bench, &mut rng, 8000, 0, KEYS);
    let context = &bench.engine.0.context;
    let misses = || context.cache.hits_and_misses().1;
    // About a tenth of the rows, and less than half of what fits.
    read(&bench, &mut rng, 2000, 1000, 1400);
    let before = misses();
    read(&bench, &mut rng, 2000, 1000, 1400);
    assert!(misses() - before < 20, "{} misses", misses() - before);
}

#[test]
fn partial_read_4_a_get_that_is_tried_twice_is_one_miss() {
    let parts = [Access::Blocking, Access::AtHand].map(|access| {
        let bench = filled(&SimDisk::new(1), TieredSettings { direct_reads: true, ..settings() });
        assert_eq!(read_by(&bench, &mut Rng::new(1), 8000, 0..KEYS, |_| access), 0);
        parts_read(&bench)
    });
    assert!(parts[0] > 3000 && parts[1] > parts[0] / 2, "{parts:?}");
}

#[test]
fn partial_read_5_scans_note_nothing() {
    let tables = [true, false].map(|part_reads| {
        let bench = filled(&SimDisk::new(1), TieredSettings { part_reads, ..settings() });
        for _ in 0..2 {
            let all = KeyRange::new(&[], None);
            let rows = bench.rows(table(1), all, Direction::Forward, NEWEST).unwrap();
            assert!(rows.len() > 3000, "{}", rows.len());
        }
        bench.engine.0.context.cache.bytes().1
    });
    assert_eq!(tables[0], tables[1]);
}

#[test]
fn partial_read_5_of_blocks_that_are_read_once_little_is_noted() {
    let bench = filled(&SimDisk::new(1), settings());
    let context = &bench.engine.0.context;
    let tables = || context.cache.bytes().1;
    // Keys of different blocks are read in rounds, after other reads have used up the memory.
    let gets = || {
        let mut found = Vec::new();
        for number in (0..KEYS).step_by(100).filter(|number| number % 11 != 0) {
            let answer =
                bench.engine.get(table(1), &key(number), NEWEST, Access::Blocking, &mut found);
            assert!(answer.unwrap().is_value());
        }
        (tables(), parts_read(&bench))
    };
    bench.rows(table(1), KeyRange::new(&[], None), Direction::Forward, NEWEST).unwrap();
    let noted: Vec<_> = std::iter::once((tables(), 0)).chain((0..3).map(|_| gets())).collect();
    let grown: Vec<_> = noted.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    assert!(2 * grown[0] < grown[1], "{grown:?}");
    assert_eq!([noted[1].1, noted[2].1], [0, 0]);
    assert!(noted[3].1 > 5, "{noted:?}");
}

#[test]
fn partial_read_5_what_is_noted_is_charged_with_tables() {
    let tables = [true, false].map(|part_reads| {
        let bench = filled(&SimDisk::new(1), TieredSettings { part_reads, ..settings() });
        read(&bench, &mut Rng::new(1), 8000, 0, KEYS);
        bench.engine.0.context.cache.bytes().1
    });
    assert!(tables[0] > tables[1], "{tables:?}");
}
