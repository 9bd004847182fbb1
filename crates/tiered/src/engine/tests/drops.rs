//! Dropped tables that snapshots still read, and dropped tables that a replay of the log must not
//! create again.

use super::*;

fn put(bench: &Bench, csn: u64, ordinal: u32, bytes: usize) {
    let key = csn.to_be_bytes();
    let op = Op::Put { table: table(ordinal), key: &key, value: &vec![csn as u8; bytes] };
    bench.install(&(Csn(csn), batch(&[op])));
}

/// Two tables, created by the commits 1 and 2.
fn with_tables(disk: &SimDisk) -> Bench {
    let bench = open(disk).unwrap();
    for ordinal in [1, 2] {
        bench.install(&(Csn(ordinal.into()), batch(&[Op::CreateTable(table(ordinal))])));
    }
    bench
}

fn drop_table(bench: &Bench, csn: u64, ordinal: u32) {
    bench.install(&(Csn(csn), batch(&[Op::DropTable(table(ordinal))])));
}

fn memory(bench: &Bench, ordinal: u32) -> usize {
    bench.engine.0.tables.load()[&table(ordinal)].memory_bytes()
}

/// A dropped table that an old snapshot still reads holds back neither the log nor memory, and the
/// snapshot can still read the table. After a crash, nothing of the table is left.
#[test]
fn e5_e6_a_dropped_table_under_an_old_snapshot_holds_nothing_back() {
    let disk = SimDisk::new(1);
    let bench = with_tables(&disk);
    put(&bench, 3, 1, 100);
    bench.engine.flush_all().unwrap();
    put(&bench, 4, 1, 50_000);
    *bench.horizon.live.lock() = vec![Csn(4)];
    drop_table(&bench, 5, 1);
    put(&bench, 6, 2, 100);
    bench.engine.request_persist(Csn(6));
    bench.work().unwrap();
    assert_eq!(bench.engine.persisted(), Csn(6));
    assert!(memory(&bench, 1) < 10_000, "{}", memory(&bench, 1));
    let look = |bench: &Bench| {
        let rows = bench.rows(table(1), KeyRange::ALL, Direction::Forward, Csn(4)).unwrap();
        assert_eq!(rows.len(), 2);
    };
    look(&bench);

    // The slots of its extents are not reused while the snapshot reads them.
    (7..60).for_each(|csn| put(&bench, csn, 2, 20_000));
    bench.engine.compact_all().unwrap();
    look(&bench);
    let crashed = disk.fork();
    crashed.crash();
    crashed.restart();
    verify_clean(&crashed);
    assert_eq!(open(&crashed).unwrap().engine.tables(), [table(2)]);

    bench.horizon.live.lock().clear();
    bench.work().unwrap();
    assert!(!bench.engine.0.tables.load().contains_key(&table(1)));
    drop(bench);
    verify_clean(&disk);
    let bench = open(&disk).unwrap();
    let free = bench.engine.0.space.bytes().1;
    bench.horizon.stable.store(60, Ordering::SeqCst);
    drop_table(&bench, 61, 2);
    bench.work().unwrap();
    let (all, after) = bench.engine.0.space.bytes();
    assert!(after == all, "{free} {after} {all}");
}

/// If memory is short, a dropped table is flushed too.
#[test]
fn a_dropped_table_under_an_old_snapshot_gives_memory_back() {
    let disk = SimDisk::new(1);
    let bench = with_tables(&disk);
    let half = small().memtables_bytes / 2;
    let mut csn = 2;
    while memory(&bench, 1) <= half - (900 << 10) {
        csn += 1;
        put(&bench, csn, 1, 100_000);
    }
    *bench.horizon.live.lock() = vec![Csn(csn)];
    drop_table(&bench, csn + 1, 1);
    for more in csn + 2..csn + 16 {
        put(&bench, more, 2, 100_000);
    }
    bench.work().unwrap();
    assert!(memory(&bench, 1) < half / 4, "{}", memory(&bench, 1));
    let rows = bench.rows(table(1), KeyRange::ALL, Direction::Forward, Csn(csn)).unwrap();
    assert_eq!(rows.len() as u64, csn - 2);
}

/// A dropped table is not compacted, so its levels must not count as debt that writers wait for.
#[test]
fn the_levels_of_a_dropped_table_are_no_debt() {
    let disk = SimDisk::new(1);
    let bench = with_tables(&disk);
    for csn in 3..40 {
        put(&bench, csn, 1, 30_000);
        bench.engine.flush_all().unwrap();
    }
    assert!(bench.engine.debt().level0 >= 1.0, "{:?}", bench.engine.debt());
    *bench.horizon.live.lock() = vec![Csn(39)];
    put(&bench, 40, 1, 30_000);
    drop_table(&bench, 41, 1);
    bench.engine.request_persist(Csn(41));
    bench.work().unwrap();
    assert_eq!(bench.engine.debt().total(), 0.0, "{:?}", bench.engine.debt());
}

/// However often commits are requested that cannot be flushed yet, only one memtable of a table
/// waits to be flushed.
#[test]
fn a_memtable_is_not_switched_while_an_older_one_waits() {
    let disk = SimDisk::new(1);
    let bench = with_tables(&disk);
    bench.work().unwrap();
    for csn in 3..13 {
        let op = Op::Put { table: table(1), key: b"k", value: b"v" };
        bench.engine.install(Csn(csn), &batch(&[op]));
        bench.engine.request_persist(Csn(csn));
        bench.work().unwrap();
    }
    let waiting = || bench.part(1).1.view().immutables.len();
    assert_eq!(waiting(), 1);
    bench.horizon.stable.store(12, Ordering::SeqCst);
    bench.work().unwrap();
    assert_eq!((waiting(), bench.engine.persisted()), (0, Csn(12)));
}

/// A log may still have the creation and the rows of a table that was dropped and forgotten. A
/// replay does not create the table again: at an opening, nothing limits the memory that its rows
/// would fill. In this test, another table holds the log back.
#[test]
fn e3_the_log_does_not_fill_memory_with_a_table_that_is_gone() {
    let disk = SimDisk::new(1);
    let bench = with_tables(&disk);
    let mut log: Vec<Commit> = vec![(Csn(3), batch(&[Op::CreateTable(table(3))]))];
    let put = |csn: u64, ordinal: u32| {
        let op = Op::Put { table: table(ordinal), key: &csn.to_be_bytes(), value: &[1; 60_000] };
        (Csn(csn), batch(&[op]))
    };
    log.push(put(4, 1));
    log.extend((5..30).map(|csn| put(csn, 3)));
    log.push((Csn(30), batch(&[Op::DropTable(table(3))])));
    log.push(put(31, 2));
    log.iter().for_each(|commit| bench.install(commit));
    bench.work().unwrap();
    assert!(bench.engine.persisted() < Csn(4), "the log is not cut");
    assert!(!bench.engine.0.tables.load().contains_key(&table(3)));
    let before = bench.engine.0.tables.memtables_bytes();
    for rewritten in [false, true] {
        if rewritten {
            bench.engine.0.persistence.manifest().rewrite().unwrap();
        }
        let bench = open(&disk.fork()).unwrap();
        log.iter().for_each(|commit| bench.install(commit));
        assert_eq!(bench.engine.0.tables.memtables_bytes(), before);
        bench.horizon.stable.store(31, Ordering::SeqCst);
        bench.work().unwrap();
        assert_eq!(bench.engine.tables(), [table(1), table(2)]);
        for (csn, ordinal) in [(4_u64, 1), (31, 2)] {
            let found = bench.get(table(ordinal), &csn.to_be_bytes(), Csn(31)).unwrap();
            assert_eq!(found.map(|value| value.len()), Some(60_000));
        }
    }
}
