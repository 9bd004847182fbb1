//! Tables of several sub-tables: they are split and joined while others read and write, and through
//! crashes.

use super::*;

fn parts(bench: &Bench, ordinal: u32) -> Vec<Arc<SubTable>> {
    bench.part(ordinal).0.all_parts()
}

/// A flushed table with this many keys of a kilobyte each.
fn filled(disk: &SimDisk, keys: u64) -> (Bench, Vec<Commit>) {
    let bench = open(disk).unwrap();
    let mut commits =
        vec![(Csn(1), batch(&[Op::CreateTable(table(1)), Op::CreateTable(table(2))]))];
    for number in 0..keys {
        let key = format!("key{:03}", number % 120).into_bytes();
        let value = noise(number, 1000);
        let op = Op::Put { table: table(1), key: &key, value: &value };
        commits.push((Csn(number + 2), batch(&[op])));
    }
    commits.iter().for_each(|commit| bench.install(commit));
    bench.engine.flush_all().unwrap();
    (bench, commits)
}

/// E1, E4: readers that began before a split read the same rows after it. Each half flushes its
/// part of the memtable that both share.
#[test]
fn e1_e4_a_split_and_a_join_change_nothing_that_is_read() {
    let disk = SimDisk::new(3);
    let (bench, mut commits) = filled(&disk, 120);
    let inner = &bench.engine.0;
    let (whole, part) = bench.part(1);
    // At the split, both a sealed memtable and the active one have rows of each half.
    for round in 0..2 {
        for key in ["key001", "key119"] {
            let csn = Csn(commits.len() as u64 + 1);
            let op = Op::Put { table: table(1), key: key.as_bytes(), value: &[round; 30_000] };
            commits.push((csn, batch(&[op])));
            bench.install(&commits[commits.len() - 1]);
        }
        if round == 0 {
            assert!(part.switch(
                &part.view().active.clone(),
                inner.write_buffer.accounts(),
                || Csn(124)
            ));
        }
    }
    let newest = Csn(commits.len() as u64);
    let mut old = bench
        .engine
        .scan(table(1), KeyRange::ALL, Direction::Forward, newest, Access::Blocking)
        .unwrap();
    assert!(old.next(Access::Blocking).unwrap());
    assert!(inner.split(&whole, &part).unwrap());
    let halves = parts(&bench, 1);
    assert_eq!((halves.len(), halves[0].end.as_ref()), (2, Some(&halves[1].start)));
    let mut rng = Rng::new(1);
    check(&bench, &commits, newest, &mut rng);
    let mut rows = 1;
    while old.next(Access::Blocking).unwrap() {
        rows += 1;
    }
    assert_eq!(rows, 120, "the scan goes on over what it began with");

    let unflushed = || inner.write_buffer.accounts().unflushed.used();
    assert!(unflushed() > 0);
    assert_eq!(bench.engine.persisted(), Csn(121));
    inner.flushes.request(newest);
    while inner.flush_one().unwrap() {}
    assert_eq!((bench.engine.persisted(), unflushed()), (newest, 0));
    check(&bench, &commits, newest, &mut rng);

    let csn = newest.next();
    let op = Op::Put { table: table(1), key: b"key060", value: b"in the active one" };
    commits.push((csn, batch(&[op])));
    bench.install(&commits[commits.len() - 1]);
    assert!(inner.join(&whole, &halves[0], &halves[1]).unwrap());
    assert_eq!(parts(&bench, 1).len(), 1);
    check(&bench, &commits, csn, &mut rng);
    drop((old, whole, part, halves, bench));
    verify_clean(&disk);
    let bench = open(&disk).unwrap();
    bench.horizon.stable.store(newest.0, Ordering::SeqCst);
    check(&bench, &commits[..commits.len() - 1], newest, &mut rng);
}

/// If the versions of a key fill several blocks, no split divides them.
#[test]
fn versions_of_a_key_stay_in_one_subtable() {
    let disk = SimDisk::new(5);
    let bench = open(&disk).unwrap();
    let mut commits =
        vec![(Csn(1), batch(&[Op::CreateTable(table(1)), Op::CreateTable(table(2))]))];
    for csn in 2..600_u64 {
        let key = if csn % 3 != 0 { format!("key{:03}", csn % 100) } else { "key050".to_owned() };
        let op = Op::Put { table: table(1), key: key.as_bytes(), value: &noise(csn, 900) };
        commits.push((Csn(csn), batch(&[op])));
    }
    // Some snapshot sees each version.
    *bench.horizon.live.lock() = (1..600).map(Csn).collect();
    for (at, commit) in commits.iter().enumerate() {
        bench.install(commit);
        if at % 200 == 199 {
            bench.engine.flush_all().unwrap();
        }
    }
    bench.engine.flush_all().unwrap();
    for _ in 0..6 {
        let (whole, _) = bench.part(1);
        for part in whole.all_parts() {
            bench.engine.0.split(&whole, &part).unwrap();
        }
    }
    assert!(parts(&bench, 1).len() > 2);
    for snapshot in [Csn(40), Csn(320), Csn(599)] {
        check(&bench, &commits, snapshot, &mut Rng::new(1));
    }
    bench.engine.compact_all().unwrap();
    check(&bench, &commits, Csn(599), &mut Rng::new(1));
    drop(bench);
    verify_clean(&disk);
}

/// E3, E6: after a join, the memtables of the two sub-tables stay separate. A flush of one memtable
/// does not make the rows of the other persistent.
#[test]
fn e6_a_crash_between_the_flushes_of_two_that_were_joined_loses_neither() {
    for order in [["key001", "key119"], ["key119", "key001"]] {
        let disk = SimDisk::new(2);
        let (bench, mut commits) = filled(&disk, 120);
        let inner = &bench.engine.0;
        let (whole, part) = bench.part(1);
        assert!(inner.split(&whole, &part).unwrap());
        let claimed = bench.engine.persisted();
        for key in order {
            let csn = Csn(commits.len() as u64 + 1);
            let op = Op::Put { table: table(1), key: key.as_bytes(), value: b"after" };
            commits.push((csn, batch(&[op])));
            bench.install(&commits[commits.len() - 1]);
        }
        let halves = parts(&bench, 1);
        assert!(inner.join(&whole, &halves[0], &halves[1]).unwrap());
        assert!(inner.flush_one().unwrap());
        drop((halves, whole, part, bench));
        disk.crash();
        disk.restart();
        verify_clean(&disk);
        let bench = open(&disk).unwrap();
        commits.iter().filter(|(csn, _)| *csn > claimed).for_each(|commit| bench.install(commit));
        let newest = commits.last().unwrap().0;
        bench.horizon.stable.store(newest.0, Ordering::SeqCst);
        check(&bench, &commits, newest, &mut Rng::new(1));
    }
}

/// E3, E6: before a join, one sub-table was flushed to a later commit than the other. The joined
/// one counts as flushed only up to the earlier commit of the two.
#[test]
fn e6_a_crash_after_one_of_two_that_are_joined_was_flushed_loses_nothing_of_the_other() {
    for (order, flushed) in [(["key001", "key119"], 1), (["key119", "key001"], 0)] {
        let disk = SimDisk::new(2);
        let (bench, mut commits) = filled(&disk, 120);
        let inner = &bench.engine.0;
        let (whole, part) = bench.part(1);
        assert!(inner.split(&whole, &part).unwrap());
        let halves = parts(&bench, 1);
        for key in order {
            let csn = Csn(commits.len() as u64 + 1);
            let op = Op::Put { table: table(1), key: key.as_bytes(), value: b"after" };
            commits.push((csn, batch(&[op])));
            bench.install(&commits[commits.len() - 1]);
        }
        let newest = commits.last().unwrap().0;
        let active = halves[flushed].view().active.clone();
        assert!(halves[flushed].switch(&active, inner.write_buffer.accounts(), || newest));
        while halves[flushed].flushed() < newest {
            assert!(inner.flush_one().unwrap());
        }
        let claimed = bench.engine.persisted();
        assert!(claimed < newest && halves[1 - flushed].flushed() < newest);
        assert!(inner.join(&whole, &halves[0], &halves[1]).unwrap());
        drop((halves, whole, part, bench));
        disk.crash();
        disk.restart();
        verify_clean(&disk);
        let bench = open(&disk).unwrap();
        assert_eq!(parts(&bench, 1).len(), 1);
        commits.iter().filter(|(csn, _)| *csn > claimed).for_each(|commit| bench.install(commit));
        bench.horizon.stable.store(newest.0, Ordering::SeqCst);
        check(&bench, &commits, newest, &mut Rng::new(1));
    }
}

/// Commits by which tables repeatedly grow until they are split, and shrink until their sub-tables
/// are joined. Rows are inserted at random keys, and then all but a few are deleted.
fn waxing_and_waning() -> Vec<Commit> {
    let mut commits = Vec::new();
    let mut add = |batch| commits.push((Csn(commits.len() as u64 + 1), batch));
    (1..=2).for_each(|ordinal| add(batch(&[Op::CreateTable(table(ordinal))])));
    let key = |number: u64| format!("key{:03}", number % 120).into_bytes();
    let mut rng = Rng::new(9);
    for round in 0..3 {
        for turn in 0..30 {
            let mut grown = WriteBatch::new();
            for number in 0..4 {
                let (key, value) =
                    (key(turn * 4 + number), noise(round << 32 | turn << 8 | number, 1500));
                let id = table(1 + u32::from(rng.chance(1, 8)));
                grown.push(Op::Put { table: id, key: &key, value: &value });
            }
            add(grown);
        }
        for turn in 0..12 {
            let mut gone = WriteBatch::new();
            for number in (turn * 10..turn * 10 + 10).filter(|number| number % 15 != 0) {
                let key = key(number);
                (1..=2)
                    .for_each(|ordinal| gone.push(Op::Delete { table: table(ordinal), key: &key }));
            }
            add(gone);
        }
    }
    commits
}

/// E6: crashes at every operation of splits and joins, before and after these are recorded, and at
/// some operations in between.
#[test]
fn e6_a_crash_at_every_operation_of_splits_and_joins_loses_nothing_that_was_persisted() {
    let commits = waxing_and_waning();
    let newest = commits.last().unwrap().0;
    let settings = || TieredSettings { subtable_bytes: 60 << 10, ..small_parts() };
    // The operations of the background jobs that split and joined.
    let whole = SimDisk::new(0);
    let mut changes: [Vec<std::ops::Range<u64>>; 2] = Default::default();
    let mut done = [0; 2];
    let mut before = whole.operations();
    let mut worked = |inner: &Inner| {
        let figures = inner.statistics.figures();
        let now = [figures.splits, figures.joins];
        for (at, changes) in changes.iter_mut().enumerate().filter(|(at, _)| now[*at] > done[*at]) {
            assert_eq!(now[at], done[at] + 1);
            changes.push(before..whole.operations());
        }
        (done, before) = (now, whole.operations());
    };
    drive_and(&whole, &commits, 3, settings(), &mut worked);
    println!("{} operations, splits and joins at {changes:?}", whole.operations());
    assert!(changes.iter().all(|changes| changes.len() > 1), "{changes:?}");

    // The numbers of crashes within splits and within joins, apart by whether the change was there
    // after the crash.
    let mut within = [[0; 2]; 2];
    for crash_at in 1..=whole.operations() {
        let is_within = changes.each_ref().map(|changes| {
            changes.iter().any(|change| (change.start + 1..=change.end).contains(&crash_at))
        });
        if crash_at % 4 != 0 && is_within == [false, false] {
            continue;
        }
        // The same seed as in the complete run, so that the operations up to the crash are the
        // same.
        let disk = SimDisk::new(0);
        disk.fail_operation(crash_at, Fault::Crash);
        let mut parts_then = 0;
        let mut worked = |inner: &Inner| parts_then = inner.tables.all_parts().len();
        let claimed = drive_and(&disk, &commits, 3, settings(), &mut worked);
        disk.crash();
        disk.restart();
        verify_clean(&disk);
        let bench = open_with(Arc::new(disk.clone()), settings()).unwrap();
        let parts = bench.engine.0.tables.all_parts().len();
        for at in (0..2).filter(|at| is_within[*at]) {
            within[at][usize::from(parts != parts_then)] += 1;
        }
        for commit in commits.iter().filter(|(csn, _)| *csn > claimed) {
            bench.install(commit);
        }
        bench.horizon.stable.store(newest.0, Ordering::SeqCst);
        check(&bench, &commits, newest, &mut Rng::new(crash_at));
        bench.engine.compact_all().unwrap();
        check(&bench, &commits, newest, &mut Rng::new(crash_at));
        drop(bench);
        // The remains of the crash are gone, and nothing else is.
        verify_clean(&disk);
    }
    println!("crashes within splits and joins, undone and done: {within:?}");
    assert!(within[0].iter().chain(&within[1]).all(|crashes| *crashes > 0), "{within:?}");
}

/// Threads that write and read while sub-tables are split and joined all the time.
#[test]
fn e1_e2_splits_under_writers_and_readers_lose_nothing() {
    use spillway_base::thread;

    const WRITERS: u64 = 3;
    const EACH: u64 = 400;
    let disk = SimDisk::new(8);
    let (bench, _) = filled(&disk, 120);
    let first = bench.horizon.stable().0 + 1;
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let engine = bench.engine.clone();
            let write = move || {
                for turn in 0..EACH {
                    let csn = Csn(first + turn * WRITERS + writer);
                    let key = format!("key{:03}w{writer}", turn % 120);
                    let op = Op::Put {
                        table: table(1),
                        key: key.as_bytes(),
                        value: &csn.0.to_le_bytes(),
                    };
                    engine.install(csn, &batch(&[op]));
                    // Read it now: no other thread writes this key.
                    let mut value = Vec::new();
                    let found =
                        engine.newest(table(1), key.as_bytes(), Access::Blocking, &mut value);
                    assert_eq!(found.unwrap(), Found::Value(csn));
                }
            };
            thread::spawn(format!("writer-{writer}"), write).unwrap()
        })
        .collect();
    let inner = &bench.engine.0;
    let (whole, _) = bench.part(1);
    let (mut changes, mut turns) = (0, 0);
    // Each split or join leaves a memtable, and no thread flushes here.
    while changes < 60 {
        turns += 1;
        assert!(turns < 1000, "{changes} changes only");
        let parts = whole.all_parts();
        changes += match &parts[..] {
            [only] => u64::from(inner.split(&whole, only).unwrap()),
            [one, two, ..] => u64::from(inner.join(&whole, one, two).unwrap()),
            [] => unreachable!("a table has a sub-table"),
        };
    }
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    let last = Csn(first + WRITERS * EACH - 1);
    bench.horizon.stable.store(last.0, Ordering::SeqCst);
    let rows = bench.rows(table(1), KeyRange::ALL, Direction::Forward, last).unwrap();
    assert_eq!(rows.len() as u64, 120 + WRITERS * 120);
    bench.engine.flush_all().unwrap();
    assert_eq!(bench.engine.persisted(), last);
    assert_eq!(bench.rows(table(1), KeyRange::ALL, Direction::Forward, last).unwrap(), rows);
    drop((bench, whole));
    verify_clean(&disk);
}

/// Writes rows of a kilobyte with keys of these numbers, a few hundred kilobytes for each flush,
/// and does all work that follows.
fn written(bench: &Bench, of: u32, flushes: u64, key: impl Fn(u64) -> u64) {
    for _ in 0..flushes {
        let first = bench.horizon.stable().0 + 1;
        for csn in first..first + 200 {
            let key = format!("{:06}", key(csn)).into_bytes();
            let op = Op::Put { table: table(of), key: &key, value: &noise(csn, 1000) };
            bench.install(&(Csn(csn), batch(&[op])));
        }
        rows::flush(bench);
    }
}

/// If a crash ends a full compaction, what the compaction has recorded stays. A second full
/// compaction writes only the rest.
#[test]
fn a_compaction_of_everything_goes_on_where_a_crash_left_it() {
    let settings = || TieredSettings { subtable_bytes: 500 << 10, ..small() };
    let filled = |disk: &SimDisk| {
        let bench = open_with(Arc::new(disk.clone()), settings()).unwrap();
        bench.install(&(Csn(1), batch(&[Op::CreateTable(table(1)), Op::CreateTable(table(2))])));
        written(&bench, 1, 10, |csn| csn * 7919 % 2000);
        assert!(parts(&bench, 1).len() > 3, "{}", parts(&bench, 1).len());
        // The rows that are merged into all these.
        let newest = bench.horizon.stable().0;
        for csn in newest + 1..newest + 400 {
            let key = format!("{:06}", csn * 31 % 2000).into_bytes();
            let op = Op::Put { table: table(1), key: &key, value: &noise(csn, 1000) };
            bench.install(&(Csn(csn), batch(&[op])));
        }
        bench.engine.flush_all().unwrap();
        bench
    };
    let bytes = |bench: &Bench| bench.engine.0.statistics.figures().compaction_written_bytes;
    let disk = SimDisk::new(1);
    let bench = filled(&disk);
    let (before, first) = (bytes(&bench), disk.operations());
    bench.engine.compact_all().unwrap();
    let (whole, operations) = (bytes(&bench) - before, disk.operations() - first);
    let newest = bench.horizon.stable();
    let rows = bench.rows(table(1), KeyRange::ALL, Direction::Forward, newest).unwrap();
    assert_eq!(rows.len(), 2000);
    let mut left = vec![whole];
    for quarter in 1..4 {
        let disk = SimDisk::new(1);
        let bench = filled(&disk);
        disk.fail_operation(disk.operations() + operations * quarter / 4, Fault::Crash);
        bench.engine.compact_all().unwrap_err();
        drop(bench);
        disk.crash();
        disk.restart();
        verify_clean(&disk);
        let bench = open_with(Arc::new(disk), settings()).unwrap();
        bench.horizon.stable.store(newest.0, Ordering::SeqCst);
        bench.engine.compact_all().unwrap();
        left.push(bytes(&bench));
        let found = bench.rows(table(1), KeyRange::ALL, Direction::Forward, newest).unwrap();
        assert_eq!(found, rows);
    }
    // The first quarter of the operations may be all flushes.
    assert!(left.windows(2).all(|pair| pair[1] <= pair[0]), "{left:?}");
    assert!(left[3] < left[2] && left[3] * 2 < whole, "{left:?}");
}
