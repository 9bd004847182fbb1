//! Scans with interruptions, in both directions, compared with the model.

use super::*;

/// The rows of a scan with all possible interruptions: failing reads, and steps that would wait.
/// After each, a new scan goes on behind the last row, which the interrupted scan reports.
fn interrupted(
    (bench, disk): (&Bench, &SimDisk),
    range: KeyRange<'_>,
    direction: Direction,
    snapshot: Csn,
    rng: &mut Rng,
    met: &mut [u64; 3],
) -> Vec<(Vec<u8>, Vec<u8>)> {
    let engine = &bench.engine;
    let mut cursor = engine.scan(table(1), range, direction, snapshot, Access::MemoryOnly).unwrap();
    let mut rows: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    let data: Vec<PathBuf> = disk.files().into_iter().map(|(path, _)| path).collect();
    loop {
        let (access, fails) = match rng.below(4) {
            0 => (Access::MemoryOnly, false),
            1 => (Access::Blocking, true),
            _ => (Access::Blocking, false),
        };
        if fails {
            data.iter().for_each(|path| disk.fail_reads(path));
        }
        let most = [1, 2, 9, 1000][rng.below(4) as usize];
        let found = cursor.next_rows(access, most);
        disk.heal();
        if let Err(error) = &found {
            let kind = if fails { ErrorKind::Io } else { ErrorKind::WouldBlock };
            assert_eq!(error.kind(), kind);
            met[usize::from(fails)] += 1;
        } else if let Ok(count @ 1..) = found {
            // CURSOR-2, CURSOR-3, CURSOR-4: a failed step has returned no row. Some rows of the
            // last batch are read, or all of them, and then again.
            let (looked, before) = (rng.below(count as u64 + 1) as usize, rows.len());
            let mut seen = Vec::new();
            let mut look = |most: usize| {
                seen.clear();
                cursor.rows(&mut |key, value| {
                    seen.push((key.to_vec(), value.to_vec()));
                    seen.len() < most
                });
                seen.clone()
            };
            let first = look(looked);
            rows.extend(look(usize::MAX));
            assert!(count <= most && rows.len() == before + count);
            assert_eq!(first, rows[before..before + looked.max(1)]);
            met[2] += u64::from(count > 1);
        }
        assert_eq!(cursor.last_key(), rows.last().map(|(key, _)| &key[..]));
        if let Ok(0) = found {
            assert!(!cursor.next(Access::Blocking).unwrap(), "an end is one");
            return rows;
        }
    }
}

#[test]
fn scans_that_fail_or_would_wait_go_on_behind_their_last_row() {
    let mut met = [0; 3];
    for seed in 0..4 {
        let (disk, mut rng) = (SimDisk::new(seed), Rng::new(seed));
        let settings = TieredSettings { cache_bytes: 100 << 10, ..small_parts() };
        let settings = TieredSettings { gaps: seed % 2 == 0, ..settings };
        let bench = open_with(Arc::new(disk.clone()), settings).unwrap();
        let mut commits = history(seed, 500);
        // Half of the tables also have range tombstones. In these, rows come one by one.
        let ranges = if seed < 2 { 100..500 } else { 0..0 };
        for at in ranges.step_by(150) {
            let low = rng.below(100);
            let wide = if at % 300 == 100 { 9 } else { 60 };
            let (low, high) = (format!("key{low:03}"), format!("key{:03}", low + wide));
            let range = KeyRange::new(low.as_bytes(), Some(high.as_bytes()));
            let upto = Csn(at as u64 - 20);
            commits[at].1 = batch(&[Op::DeleteRange { table: table(1), range, upto }]);
        }
        for (at, commit) in commits.iter().enumerate() {
            bench.install(commit);
            if at == 250 {
                *bench.horizon.live.lock() = vec![Csn(251)];
            }
            if at % 60 == 59 {
                bench.engine.request_persist(commit.0);
                bench.work().unwrap();
            }
        }
        for snapshot in [Csn(251), Csn(500)] {
            let all = model(&commits, snapshot);
            for direction in [Direction::Forward, Direction::Backward] {
                for _ in 0..4 {
                    let (low, high) = (rng.below(120), rng.below(130));
                    let (low, high) = (format!("key{low:03}"), format!("key{high:03}"));
                    let range = match rng.below(3) {
                        0 => KeyRange::ALL,
                        _ => KeyRange::new(low.as_bytes(), Some(high.as_bytes())),
                    };
                    let inside =
                        |(of, key): &(TableId, Vec<u8>)| *of == table(1) && range.contains(key);
                    let mut wanted: Vec<_> = all
                        .iter()
                        .filter(|(key, _)| inside(key))
                        .map(|((_, key), value)| (key.clone(), value.clone()))
                        .collect();
                    if direction == Direction::Backward {
                        wanted.reverse();
                    }
                    let rows = interrupted(
                        (&bench, &disk),
                        range,
                        direction,
                        snapshot,
                        &mut rng,
                        &mut met,
                    );
                    assert!(rows == wanted, "seed {seed}, {direction:?} at {snapshot}");
                }
            }
        }
    }
    assert!(met.iter().all(|times| *times > 100), "{met:?}");
}

/// One commit puts and deletes a key, and the memtable is switched in between. Of two sources with
/// the same CSN, the newer source has the commit's last operation.
#[test]
fn of_one_commit_in_two_places_the_newer_place_is_right() {
    let bench = open(&SimDisk::new(1)).unwrap();
    let keys: Vec<String> = (0..40).map(|number| format!("k{number:02}")).collect();
    let puts = keys.iter().map(|key| Op::Put { table: table(1), key: key.as_bytes(), value: b"v" });
    bench.install(&(Csn(1), batch(&[Op::CreateTable(table(1))])));
    bench.install(&(Csn(2), batch(&puts.collect::<Vec<_>>())));
    let (_, part) = bench.part(1);
    let gone = |at: usize| at.is_multiple_of(3);
    for (at, key) in keys.iter().enumerate() {
        if at == 20 {
            // Half of the deletions are merged with extents, and half with a memtable.
            bench.engine.flush_all().unwrap();
        }
        if gone(at) {
            part.insert(key.as_bytes(), Csn(2), None).unwrap();
        }
    }
    for direction in [Direction::Forward, Direction::Backward] {
        let rows = bench.rows(table(1), KeyRange::ALL, direction, Csn(2)).unwrap();
        let mut found: Vec<_> = rows.iter().map(|(key, _)| &key[..]).collect();
        found.sort_unstable();
        let left = keys.iter().enumerate().filter(|(at, _)| !gone(*at));
        let left: Vec<_> = left.map(|(_, key)| key.as_bytes()).collect();
        assert!(found == left, "{direction:?}");
    }
}

/// A table of some hundred blocks, few of which fit the cache.
pub(super) fn long(disk: &SimDisk, settings: TieredSettings) -> (Bench, Vec<(Vec<u8>, Vec<u8>)>) {
    let bench = open_with(Arc::new(disk.clone()), settings).unwrap();
    bench.install(&(Csn(1), batch(&[Op::CreateTable(table(1))])));
    let row = |number: u64| (format!("k{number:04}").into_bytes(), noise(number, 1500));
    let rows: Vec<_> = (0..2000).map(row).collect();
    let put = |(key, value): &(Vec<u8>, Vec<u8>)| {
        let mut all = WriteBatch::new();
        all.push(Op::Put { table: table(1), key, value });
        all
    };
    for (row, csn) in rows.iter().zip(2..) {
        bench.install(&(Csn(csn), put(row)));
    }
    bench.engine.compact_all().unwrap();
    (bench, rows)
}

/// READAHEAD-1, READAHEAD-2: with and without readahead, and with failing reads.
#[test]
fn readahead_2_what_cannot_be_read_ahead_is_read_by_who_comes_to_it() {
    for fails in [false, true] {
        let (disk, mut rng) = (SimDisk::new(3), Rng::new(3));
        let (bench, mut rows) = long(&disk, TieredSettings { cache_bytes: 200 << 10, ..small() });
        let data: Vec<PathBuf> = disk.files().into_iter().map(|(path, _)| path).collect();
        let (range, direction) = (KeyRange::ALL, Direction::Backward);
        let access = Access::Blocking;
        let mut cursor = bench.engine.scan(table(1), range, direction, Csn(5000), access).unwrap();
        let (mut found, mut failed) = (Vec::new(), 0);
        loop {
            let failing = fails && rng.chance(1, 10);
            if failing {
                data.iter().for_each(|path| disk.fail_reads(path));
            }
            let access = if rng.chance(1, 5) { Access::MemoryOnly } else { Access::Blocking };
            let next = cursor.next(access);
            disk.heal();
            match next {
                Ok(true) => found.push((cursor.key().to_vec(), cursor.value().to_vec())),
                Ok(false) => break,
                Err(error) if error.kind() == ErrorKind::Io => failed += 1,
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
        }
        rows.reverse();
        assert!(found == rows && (failed > 0) == fails);
        let (taken, _) = bench.engine.0.context.queues.taken_and_fetched();
        assert!(taken > if fails { 0 } else { 100 }, "{taken}");
    }
}

/// READAHEAD-3: a scan that is dropped in the middle waits for nothing, and the next scan can use
/// its queue.
#[test]
fn readahead_3_a_scan_that_is_dropped_leaves_a_queue_that_others_use() {
    let (bench, rows) =
        long(&SimDisk::new(4), TieredSettings { cache_bytes: 200 << 10, ..small() });
    let scan = || {
        let (range, access) = (KeyRange::ALL, Access::Blocking);
        bench.engine.scan(table(1), range, Direction::Backward, Csn(5000), access).unwrap()
    };
    for steps in [100, 300, 200] {
        let mut cursor = scan();
        for (key, value) in rows.iter().rev().take(steps) {
            assert!(cursor.next(Access::Blocking).unwrap());
            assert!(cursor.key() == key && cursor.value() == value);
        }
    }
    let used = bench.engine.0.context.queues.taken_and_fetched().0;
    assert!(used > 20, "{used}");
}

/// SOURCE-1, SOURCE-2: which blocks of many sparse runs a short scan reads. It finds all its rows
/// in both directions.
#[test]
fn a_short_scan_leaves_runs_alone_that_have_nothing_for_it() {
    let (sparse, rows) = (8, 20_000_u64);
    let key = |number: u64| (number * 1_000_003).to_be_bytes();
    let mut reads = Vec::new();
    for range_filters in [true, false] {
        let settings = TieredSettings {
            range_filters,
            compaction_order: Vec::new(),
            level0_bytes: 1 << 30,
            level0_target: 100,
            level0_limit: 100,
            cache_bytes: 0,
            row_cache_share: 0.0,
            ..small()
        };
        let bench = open_with(Arc::new(SimDisk::new(3)), settings).unwrap();
        let mut csn = 1_u64;
        bench.install(&(Csn(csn), batch(&[Op::CreateTable(table(1))])));
        let mut newest = std::collections::BTreeMap::<[u8; 8], Option<[u8; 8]>>::new();
        for run in 0..=sparse {
            for number in (0..rows).filter(|number| run == 0 || number % 200 == 13 * run) {
                csn += 1;
                let (key, value) = (key(number), csn.to_be_bytes());
                let deleted = number % 1000 == 13;
                let op = match deleted {
                    false => Op::Put { table: table(1), key: &key, value: &value },
                    true => Op::Delete { table: table(1), key: &key },
                };
                bench.install(&(Csn(csn), batch(&[op])));
                newest.insert(key, (!deleted).then_some(value));
            }
            bench.engine.request_persist(Csn(csn));
            bench.work().unwrap();
        }
        let runs = bench.part(1).1.view().levels.runs().count();
        assert!(runs as u64 > sparse, "nothing was brought together: {runs} runs");
        newest.retain(|_, value| value.is_some());
        let read = || bench.engine.0.context.reads.iter().map(|r| r.load(Ordering::Relaxed)).sum();
        let before: u64 = read();
        let mut rng = Rng::new(9);
        for _ in 0..300 {
            let from = rng.below(rows * 1_000_003).to_be_bytes();
            let (forward, backward) = (newest.range(from..), newest.range(..from).rev());
            let wanted: [Vec<_>; 2] = [forward.take(5).collect(), backward.take(5).collect()];
            let ranges = [KeyRange::new(&from, None), KeyRange::new(&[], Some(&from))];
            for ((range, direction), wanted) in
                ranges.into_iter().zip([Direction::Forward, Direction::Backward]).zip(wanted)
            {
                let cursor =
                    bench.engine.scan(table(1), range, direction, Csn(csn), Access::Blocking);
                let mut cursor = cursor.unwrap();
                for (key, value) in wanted {
                    assert!(cursor.next(Access::Blocking).unwrap());
                    let value: &[u8] = value.as_ref().unwrap();
                    assert!(cursor.key() == key && cursor.value() == value);
                }
            }
        }
        reads.push(read() - before);
    }
    assert!(reads[0] * 2 < reads[1], "blocks read with range filters and without: {reads:?}");
}

/// The first scan over rows that a range tombstone hides passes them by seeks, and finds the later
/// rows.
#[test]
fn what_a_range_hides_is_leapt_over_by_the_first_scan() {
    let rows = 20_000_u64;
    let key = |number: u64| number.to_be_bytes();
    for (late, gaps) in [(true, false), (false, false), (true, true)] {
        let settings = TieredSettings {
            memtables_bytes: 64 << 20,
            memtable_bytes: 32 << 20,
            compaction_order: Vec::new(),
            range_filters: late,
            gaps,
            ..small()
        };
        let bench = open_with(Arc::new(SimDisk::new(3)), settings).unwrap();
        bench.install(&(Csn(1), batch(&[Op::CreateTable(table(1))])));
        let mut csn = 1_u64;
        let mut put = |number: u64| {
            csn += 1;
            let op = Op::Put { table: table(1), key: &key(number), value: &csn.to_be_bytes() };
            bench.install(&(Csn(csn), batch(&[op])));
            csn
        };
        let flush = || {
            bench.engine.request_persist(bench.horizon.stable());
            bench.work().unwrap();
        };
        (0..rows).for_each(|number| _ = put(number));
        flush();
        let upto = put(rows - 5);
        flush();
        let csn = upto + 1;
        let (low, high) = (key(10), key(rows - 10));
        let range = KeyRange::new(&low, Some(&high));
        let op = Op::DeleteRange { table: table(1), range, upto: Csn(upto) };
        bench.install(&(Csn(csn), batch(&[op])));
        let later = Op::Put { table: table(1), key: &key(7000), value: b"later" };
        bench.install(&(Csn(csn + 1), batch(&[later])));
        let (forward, backward) = (Direction::Forward, Direction::Backward);
        let walked = || bench.engine.0.tables.gap_figures().walked.load(Ordering::Relaxed);
        let mut walked_by_each = Vec::new();
        for direction in [forward, backward, forward, backward] {
            let (before, all) = (walked(), KeyRange::ALL);
            let scan = bench.engine.scan(table(1), all, direction, Csn(csn + 1), Access::Blocking);
            let (mut cursor, mut found) = (scan.unwrap(), Vec::new());
            while cursor.next(Access::Blocking).unwrap() {
                found.push(u64::from_be_bytes(cursor.key().try_into().unwrap()));
            }
            let mut wanted: Vec<u64> = (0..10).chain([7000]).chain(rows - 10..rows).collect();
            if direction == Direction::Backward {
                wanted.reverse();
            }
            assert_eq!(found, wanted);
            walked_by_each.push(walked() - before);
        }
        assert!(walked_by_each.iter().all(|walked| *walked < 100), "{walked_by_each:?} of {rows}");
        // Later scans know gaps and skip them, on both sides of the row.
        assert!(!gaps || walked_by_each[2..] == [0; 2], "{walked_by_each:?}");
    }
}

/// Keys whose heads are often equal: they have long common prefixes, are shorter than a head, or
/// differ only in zeros at their ends. Each key is in some of several runs, and deleted in some.
/// The newest of these decides whether it is a row.
#[test]
fn layers_merge_by_whole_keys_where_heads_are_equal() {
    let mut keys: Vec<Vec<u8>> = Vec::new();
    let prefixes = ["", "a", "warehouse-0017/", "warehouse-0017/district-0002/", "warehouse-0018/"];
    for prefix in prefixes {
        let with = |rest: &[u8]| [prefix.as_bytes(), rest].concat();
        keys.extend((1..12).map(|zeros| with(&vec![0; zeros])));
        keys.extend((0..60_u8).map(|number| with(&[number])));
        keys.extend((0..120_u64).map(|number| with(&(number * 77).to_be_bytes())));
        keys.extend((0..120_u64).map(|number| with(format!("{number:016}").as_bytes())));
    }
    keys.sort();
    keys.dedup();
    for (seed, layers) in [(1, 2), (2, 4), (3, 9)] {
        let settings = TieredSettings {
            compaction_order: Vec::new(),
            level0_bytes: 1 << 30,
            level0_target: 100,
            level0_limit: 100,
            range_filters: seed != 2,
            gaps: false,
            ..small()
        };
        let bench = open_with(Arc::new(SimDisk::new(seed)), settings).unwrap();
        let mut rng = Rng::new(seed);
        let mut commits = vec![(Csn(1), batch(&[Op::CreateTable(table(1))]))];
        bench.install(&commits[0]);
        for layer in 0..layers {
            let csn = Csn(2 + layer);
            let mut ops = Vec::new();
            let value = csn.0.to_be_bytes();
            for key in &keys {
                if layer > 0 && rng.chance(2, 3) {
                    continue;
                }
                ops.push(match rng.chance(1, 8) {
                    true => Op::Delete { table: table(1), key },
                    false => Op::Put { table: table(1), key, value: &value },
                });
            }
            commits.push((csn, batch(&ops)));
            bench.install(&commits[1 + layer as usize]);
            // The last layer of keys stays in the memtable.
            if layer + 1 < layers {
                bench.engine.request_persist(csn);
                bench.work().unwrap();
            }
        }
        let snapshot = Csn(1 + layers);
        let all = model(&commits, snapshot);
        let rows: Vec<(Vec<u8>, Vec<u8>)> =
            all.into_iter().map(|((_, key), value)| (key, value)).collect();
        assert!(rows.len() > 1000);
        for _ in 0..40 {
            let [low, high] = [0; 2].map(|_| &keys[rng.below(keys.len() as u64) as usize]);
            let range = KeyRange::new(low, Some(high).filter(|_| rng.chance(3, 4)).map(|k| &k[..]));
            for direction in [Direction::Forward, Direction::Backward] {
                let mut wanted: Vec<_> =
                    rows.iter().filter(|(key, _)| range.contains(key)).cloned().collect();
                if direction == Direction::Backward {
                    wanted.reverse();
                }
                let found = bench.rows(table(1), range, direction, snapshot).unwrap();
                assert!(found == wanted, "{layers} layers, {direction:?}, {range:?}");
            }
        }
    }
}
