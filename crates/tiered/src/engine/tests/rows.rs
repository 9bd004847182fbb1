//! The row cache under the engine: with it, reads see the same versions as without it (ROW-CACHE-1
//! to ROW-CACHE-3).

use spillway_base::budget::Use;

use super::*;

/// A table whose keys are all in extents.
pub(super) fn flushed(disk: &SimDisk, settings: TieredSettings, keys: u64) -> Bench {
    let bench = open_with(Arc::new(disk.clone()), settings).unwrap();
    bench.install(&(Csn(1), batch(&[Op::CreateTable(table(1))])));
    for number in 0..keys {
        bench.install(&(Csn(2 + number), put(number, "first")));
    }
    flush(&bench);
    bench
}

pub(super) fn flush(bench: &Bench) {
    let stable = bench.horizon.stable();
    bench.horizon.installed.store(stable.0, Ordering::SeqCst);
    bench.engine.request_persist(stable);
    bench.work().unwrap();
}

pub(super) fn key(number: u64) -> Vec<u8> {
    format!("key{number:05}").into_bytes()
}

pub(super) fn put(number: u64, value: &str) -> WriteBatch {
    batch(&[Op::Put { table: table(1), key: &key(number), value: value.as_bytes() }])
}

fn hits(bench: &Bench) -> u64 {
    bench.engine.0.context.rows.as_ref().unwrap().hits_and_misses().0
}

/// Reads a key until it is in the row cache. Returns what the reads found.
pub(super) fn warm(bench: &Bench, number: u64, snapshot: Csn) -> Option<String> {
    let read = || bench.get(table(1), &key(number), snapshot).unwrap();
    let before = hits(bench);
    let found = (0..3).map(|_| read()).collect::<Vec<_>>();
    assert!(found.iter().all(|other| *other == found[0]));
    assert!(found[0].is_none() || hits(bench) > before, "{number} did not come in");
    found[0].clone().map(|value| String::from_utf8(value).unwrap())
}

fn see(bench: &Bench, number: u64, snapshot: u64) -> Option<String> {
    let found = bench.get(table(1), &key(number), Csn(snapshot)).unwrap();
    found.map(|value| String::from_utf8_lossy(&value).into_owned())
}

#[test]
fn each_snapshot_sees_its_version_through_commits_and_flushes() {
    let bench = flushed(&SimDisk::new(1), small(), 100);
    bench.horizon.live.lock().push(Csn(200));
    assert_eq!(warm(&bench, 7, Csn(200)).as_deref(), Some("first"));
    bench.install(&(Csn(201), put(7, "second")));
    for flushes in 0..2 {
        let before = hits(&bench);
        let seen = [200, 201, 300].map(|snapshot| see(&bench, 7, snapshot));
        let wanted = ["first", "second", "second"].map(|value| Some(value.to_owned()));
        assert_eq!(seen, wanted, "after {flushes} flushes");
        assert_eq!(hits(&bench) - before, 2, "the commit brought the new version");
        flush(&bench);
    }
    bench.install(&(Csn(202), batch(&[Op::Delete { table: table(1), key: &key(7) }])));
    let seen = [200, 201, 202].map(|snapshot| see(&bench, 7, snapshot).is_some());
    assert_eq!(seen, [true, true, false]);
}

/// A range tombstone hides cached rows without naming them. A later row is visible.
#[test]
fn row_cache_3_a_deleted_range_hides_cached_rows() {
    let bench = flushed(&SimDisk::new(1), small(), 100);
    bench.horizon.live.lock().push(Csn(200));
    (0..20).for_each(|number| assert!(warm(&bench, number, Csn(200)).is_some()));
    let (start, end) = (key(5), key(15));
    let range = KeyRange::new(&start, Some(&end));
    let delete = Op::DeleteRange { table: table(1), range, upto: Csn(200) };
    bench.install(&(Csn(201), batch(&[delete])));
    bench.install(&(Csn(202), put(6, "again")));
    for _ in 0..3 {
        for number in 0..20 {
            let gone = (5..15).contains(&number);
            let now = match (number, gone) {
                (6, _) => Some("again"),
                (_, true) => None,
                (_, false) => Some("first"),
            };
            assert_eq!(see(&bench, number, 202).as_deref(), now, "{number}");
            assert_eq!(see(&bench, number, 200).as_deref(), Some("first"), "{number}");
            let between = see(&bench, number, 201);
            assert_eq!(between.is_none(), gone, "{number}");
        }
        flush(&bench);
    }
    // The same after no snapshot sees the old rows, and the tombstone is gone, too.
    bench.horizon.live.lock().clear();
    flush(&bench);
    assert_eq!(warm(&bench, 7, Csn(300)), None);
}

/// Another table may later get the number of a dropped table.
#[test]
fn rows_of_a_dropped_table_are_not_found_in_the_next() {
    let bench = flushed(&SimDisk::new(1), small(), 100);
    assert!(warm(&bench, 7, Csn(200)).is_some());
    bench.install(&(Csn(201), batch(&[Op::DropTable(table(1))])));
    flush(&bench);
    bench.install(&(Csn(202), batch(&[Op::CreateTable(table(1))])));
    assert_eq!(warm(&bench, 7, Csn(202)), None);
}

/// After a split, a lookup of the newest version reads the sub-table that receives commits.
#[test]
fn a_split_hides_no_commit_from_what_comes_in() {
    let settings = TieredSettings { subtables_max: 1, ..small() };
    let bench = flushed(&SimDisk::new(1), settings, 2000);
    for number in 0..2000 {
        let (key, value) = (key(number), noise(number, 500));
        let put = Op::Put { table: table(1), key: &key, value: &value };
        bench.install(&(Csn(2002 + number), batch(&[put])));
    }
    flush(&bench);
    let (whole, part) = bench.part(1);
    assert!(bench.engine.0.split(&whole, &part).unwrap());
    for number in [3, 1000, 1999] {
        let seen = |number| bench.get(table(1), &key(number), Csn(9000)).unwrap();
        (0..3).for_each(|_| assert_eq!(seen(number).unwrap(), noise(number, 500)));
        bench.install(&(Csn(5000 + number), put(number, "second")));
        assert_eq!(warm(&bench, number, Csn(9000)).as_deref(), Some("second"));
    }
}

/// Decision 007: blocks fill the memory first, and make room for rows.
#[test]
fn rows_and_blocks_together_stay_within_the_budget() {
    let budget = Budget::new(4 << 20);
    let settings = TieredSettings {
        cache_bytes: 4 << 20,
        memtable_bytes: 256 << 10,
        memtables_bytes: 1 << 20,
        cold_compression: Compression::None,
        // The keys that are read are adjacent, so the balancer would give the memory to blocks.
        adaptive_share: false,
        ..small()
    };
    let disk = Arc::new(SimDisk::new(1));
    let bench = open_within(disk, settings, budget.clone()).unwrap();
    bench.install(&(Csn(1), batch(&[Op::CreateTable(table(1))])));
    let keys = 20_000;
    for number in 0..keys {
        let (key, value) = (key(number), noise(number, 300));
        let put = Op::Put { table: table(1), key: &key, value: &value };
        bench.install(&(Csn(2 + number), batch(&[put])));
        if number % 500 == 0 {
            flush(&bench);
        }
    }
    flush(&bench);
    let rows = bench.engine.0.context.rows.as_ref().unwrap();
    let mut rng = Rng::new(3);
    let mut most = 0;
    for round in 0..60_000 {
        let number = if round % 3 == 0 { rng.below(keys) } else { rng.below(2000) };
        assert!(see(&bench, number, 90_000).is_some());
        most = most.max(budget.used());
    }
    assert!(rows.held_bytes() > 300 << 10 && hits(&bench) > 20_000);
    assert!(most <= budget.limit() + (200 << 10), "{most} of {}", budget.limit());
    // Rows may exceed the budget for a moment, but the next charge gets its memory (BUDGET-2).
    drop(budget.charge(Use::Transactions, 64 << 10));
    assert!(budget.used() <= budget.limit());
}

#[test]
fn without_a_share_there_is_no_row_cache() {
    let settings = TieredSettings { row_cache_share: 0.0, ..small() };
    let bench = flushed(&SimDisk::new(1), settings, 10);
    assert!(bench.engine.0.context.rows.is_none());
    (0..3).for_each(|_| assert!(see(&bench, 7, 200).is_some()));
}

/// ROW-CACHE-5: if keys are read together, each key counts as one lookup, which is that of its get.
#[test]
fn row_cache_5_a_look_that_comes_before_gets_is_none() {
    let bench = flushed(&SimDisk::new(1), small(), 100);
    let rows = bench.engine.0.context.rows.as_ref().unwrap();
    let keys: Vec<Vec<u8>> = (0..100).map(key).collect();
    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let read = || {
        let lacking = bench.engine.prefetch(table(1), &keys, Csn(200));
        keys.iter().for_each(|key| assert!(bench.get(table(1), key, Csn(200)).unwrap().is_some()));
        lacking
    };
    let counts = [(0, 100), (0, 200), (100, 200), (200, 200)];
    for counted in counts {
        read();
        assert_eq!(rows.hits_and_misses(), counted, "a second get brings a row in, and no look");
    }
    assert_eq!(read(), 0);
}

/// E11: a cached row keeps its old form when a compaction rewrites the row, until earlier forms are
/// forgotten.
#[test]
fn e11_forms_that_were_cached_are_forgotten() {
    let bench = flushed(&SimDisk::new(1), small(), 100);
    bench.install(&(Csn(200), put(7, "cut x here")));
    flush(&bench);
    assert_eq!(warm(&bench, 7, Csn(200)).as_deref(), Some("cut x here"));
    bench.engine.set_rewrite(table(1), Csn(200), Some(Arc::new(edges::SplitPoints)));
    bench.engine.compact_all().unwrap();
    assert_eq!(see(&bench, 7, 200).as_deref(), Some("cut x here"));
    bench.engine.forget_forms(table(1));
    assert_eq!(see(&bench, 7, 200).as_deref(), Some("cut "));
    assert_eq!(warm(&bench, 7, Csn(200)).as_deref(), Some("cut "), "later ones are cached");
}

/// E6, E11: rows that the files record as persistent keep the form that a compaction gave them,
/// even if the log still has them. This also holds if the commit itself filled and sealed the
/// memtable, so that its sub-table counts as flushed only up to the commit before.
#[test]
fn e6_what_is_persistent_is_not_installed_again() {
    let uncached = || TieredSettings { row_cache_share: 0.0, ..small() };
    for says_so in [true, false] {
        let disk = SimDisk::new(1);
        let bench = flushed(&disk, uncached(), 100);
        let last = (Csn(301), put(7, "cut x here"));
        bench.install(&last);
        let (_, part) = bench.part(1);
        let active = part.view().active.clone();
        assert!(part.switch(&active, bench.engine.0.write_buffer.accounts(), || Csn(300)));
        // Another table has an earlier commit in memory while this one is flushed.
        bench.install(&(Csn(290), batch(&[Op::CreateTable(table(2))])));
        let other = batch(&[Op::Put { table: table(2), key: b"k", value: b"v" }]);
        bench.install(&(Csn(291), other));
        bench.engine.set_rewrite(table(1), Csn(301), Some(Arc::new(edges::SplitPoints)));
        while bench.engine.0.flush_one().unwrap() {}
        assert_eq!((see(&bench, 7, 301).as_deref(), part.flushed()), (Some("cut "), Csn(300)));
        assert!(bench.engine.persisted() < Csn(291), "it waits for the other table");
        if says_so {
            flush(&bench);
            bench.engine.record_persisted(Csn(301)).unwrap();
            assert!(bench.engine.0.persistence.manifest().state().persisted >= Csn(301));
        }
        drop((active, part));
        disk.crash();
        drop(bench);
        disk.restart();
        let bench = open_with(Arc::new(disk.clone()), uncached()).unwrap();
        bench.install(&last);
        let seen = if says_so { "cut " } else { "cut x here" };
        assert_eq!(see(&bench, 7, 301).as_deref(), Some(seen));
    }
}
