//! Corner cases of the contract: order of installs, CSNs that are used again, dropped tables, and
//! large values.

use std::cell::Cell;

use spillway_base::budget::Use;

use super::*;

fn put(ordinal: u32, key: &'static str, value: &'static str) -> WriteBatch {
    batch(&[Op::Put { table: table(ordinal), key: key.as_bytes(), value: value.as_bytes() }])
}

fn delete(ordinal: u32, key: &'static str) -> WriteBatch {
    batch(&[Op::Delete { table: table(ordinal), key: key.as_bytes() }])
}

/// One table, created by commit 1.
fn with_table(disk: &SimDisk) -> Bench {
    let bench = open(disk).unwrap();
    bench.install(&(Csn(1), batch(&[Op::CreateTable(table(1))])));
    bench
}

#[test]
fn a_batch_past_the_formats_limits_is_refused() {
    let bench = with_table(&SimDisk::new(1));
    let refused = bench.engine.admit(5 << 30).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::TransactionTooLarge);
}

/// A crash discards the commits above the stable CSN, and other commits get their CSNs. Neither the
/// table's flushed CSN nor the engine's persistent CSN may be above the stable CSN, or the other
/// commits would be skipped.
#[test]
fn numbers_of_discarded_commits_are_used_again() {
    let disk = SimDisk::new(1);
    let bench = with_table(&disk);
    bench.install(&(Csn(2), put(1, "a", "stable")));
    bench.horizon.installed.store(9, Ordering::SeqCst);
    bench.engine.request_persist(Csn(2));
    bench.work().unwrap();
    assert_eq!(bench.engine.persisted(), Csn(2));
    drop(bench);

    let bench = open(&disk).unwrap();
    assert!(bench.engine.persisted() <= Csn(2));
    bench.horizon.stable.store(2, Ordering::SeqCst);
    bench.install(&(Csn(3), put(1, "b", "again")));
    assert_eq!(bench.get(table(1), b"a", Csn(3)).unwrap().as_deref(), Some(&b"stable"[..]));
    assert_eq!(bench.get(table(1), b"b", Csn(3)).unwrap().as_deref(), Some(&b"again"[..]));
}

/// If a crash discards the creation of a table, the table does not exist afterwards.
#[test]
fn e7_a_table_is_recorded_once_its_creation_is_stable() {
    let disk = SimDisk::new(1);
    let bench = open(&disk).unwrap();
    bench.engine.install(Csn(1), &batch(&[Op::CreateTable(table(1))]));
    bench.work().unwrap();
    assert_eq!(bench.engine.persisted(), Csn(0));
    assert!(open(&disk.fork()).unwrap().engine.tables().is_empty());
    bench.horizon.stable.store(1, Ordering::SeqCst);
    bench.work().unwrap();
    assert_eq!(bench.engine.persisted(), Csn(1));
    assert_eq!(open(&disk.fork()).unwrap().engine.tables(), [table(1)]);
}

/// E2: a newer commit is installed first, and its memtable is sealed and flushed. Then an older
/// commit of the same key is installed. Reads still see the newer one, through every later flush
/// and compaction.
#[test]
fn e2_an_older_commit_installed_later_stays_older() {
    for (newer, wanted) in [(put(1, "k", "newer"), Some(&b"newer"[..])), (delete(1, "k"), None)] {
        let disk = SimDisk::new(1);
        let bench = with_table(&disk);
        let look = |bench: &Bench, step: &str| {
            let found = bench.get(table(1), b"k", Csn(7)).unwrap();
            assert_eq!(found.as_deref(), wanted, "{step}");
            let mut value = Vec::new();
            let newest = bench.engine.newest(table(1), b"k", Access::Blocking, &mut value).unwrap();
            let csn = Csn(7);
            let same = if wanted.is_some() { Found::Value(csn) } else { Found::Deleted(csn) };
            assert_eq!((newest, &*value), (same, wanted.unwrap_or_default()), "{step}");
            for direction in [Direction::Forward, Direction::Backward] {
                let rows = bench.rows(table(1), KeyRange::ALL, direction, Csn(7)).unwrap();
                let row = rows.iter().find(|(key, _)| key == b"k").map(|(_, value)| &**value);
                assert_eq!(row, wanted, "{step}, {direction:?}");
            }
        };
        bench.engine.install(Csn(7), &newer);
        bench.engine.request_persist(Csn(7));
        bench.work().unwrap();
        bench.engine.install(Csn(5), &put(1, "k", "older"));
        look(&bench, "in two memtables");
        bench.horizon.stable.store(7, Ordering::SeqCst);
        bench.engine.0.flush_one().unwrap();
        look(&bench, "the newer in an extent");
        let (one, part) = bench.part(1);
        bench.engine.0.compact_fully(&one, &part).unwrap();
        look(&bench, "the newer in Level2");
        bench.engine.request_persist(Csn(7));
        bench.work().unwrap();
        look(&bench, "both in extents");
        drop((bench, one, part));
        verify_clean(&disk);
        look(&open(&disk).unwrap(), "reopened");
    }
}

/// Of several operations of one batch on a key, the last one counts. This also holds when the batch
/// is installed again, and when some of its operations went to an older memtable.
#[test]
fn e1_e3_later_operations_of_a_batch_override_earlier_ones() {
    let disk = SimDisk::new(1);
    let bench = with_table(&disk);
    let key = &b"k"[..];
    let twice = batch(&[
        Op::Put { table: table(1), key, value: b"first" },
        Op::Delete { table: table(1), key },
        Op::Put { table: table(1), key, value: b"last" },
    ]);
    bench.install(&(Csn(2), twice.clone()));
    let look = |bench: &Bench| {
        let found = bench.get(table(1), key, Csn(2)).unwrap();
        assert_eq!(found.as_deref(), Some(&b"last"[..]));
    };
    look(&bench);
    bench.install(&(Csn(2), twice.clone()));
    look(&bench);
    bench.engine.flush_all().unwrap();
    bench.install(&(Csn(2), twice));
    look(&bench);
    let rows = bench.rows(table(1), KeyRange::ALL, Direction::Forward, Csn(2)).unwrap();
    assert_eq!(rows.len(), 1);
    bench.engine.compact_all().unwrap();
    look(&bench);
}

/// If a table is reaped while a flush or compaction of it runs, that work records nothing, and its
/// space is freed.
#[test]
fn work_on_a_reaped_table_is_abandoned() {
    let disk = SimDisk::new(1);
    let bench = open(&disk).unwrap();
    let commits = history(6, 120);
    commits.iter().for_each(|commit| bench.install(commit));
    bench.engine.flush_all().unwrap();
    let more = commits[60..].iter().map(|(csn, batch)| (Csn(csn.0 + 100), batch.clone()));
    more.for_each(|commit| bench.install(&commit));
    let inner = &bench.engine.0;
    let (one, part) = bench.part(1);
    let active = part.view().active.clone();
    assert!(part.switch(&active, inner.write_buffer.accounts(), || Csn(220)));
    let memtable = part.view().immutables.last().unwrap().clone();
    let pick = inner.settings.shape().pick_full(&part.view().levels).unwrap();

    bench.install(&(Csn(221), batch(&[Op::DropTable(table(1))])));
    assert!(inner.record_tables().unwrap() && inner.reap_tables().unwrap());
    let free = inner.space.bytes();
    inner.flush(&one, &part, &memtable).unwrap();
    inner.compact(&one, &part, &pick).unwrap();
    let after = inner.space.bytes();
    assert_eq!(after.0 - after.1, free.0 - free.1, "the slots in use are as before");
    assert!(bench.engine.health().is_ok());
    drop((pick, one, part, bench));
    verify_clean(&disk);
    assert_eq!(open(&disk).unwrap().engine.tables(), [table(2)]);
}

/// E4, E5: a cursor goes on reading while its data is flushed, compacted, dropped and reaped. The
/// space is freed when the cursor ends.
#[test]
fn a_cursor_outlives_everything_under_it() {
    let disk = SimDisk::new(1);
    let bench = open(&disk).unwrap();
    let commits = history(8, 300);
    for (at, commit) in commits.iter().enumerate() {
        bench.install(commit);
        if at % 60 == 59 {
            bench.engine.flush_all().unwrap();
        }
    }
    let wanted: Vec<_> = model(&commits, Csn(300))
        .into_iter()
        .filter(|((of, _), _)| *of == table(1))
        .map(|((_, key), value)| (key, value))
        .collect();
    let mut cursor = bench
        .engine
        .scan(table(1), KeyRange::ALL, Direction::Forward, Csn(300), Access::Blocking)
        .unwrap();
    let mut found = Vec::new();
    while cursor.next(Access::Blocking).unwrap() {
        found.push((cursor.key().to_vec(), cursor.value().to_vec()));
        match found.len() {
            5 => {
                let again =
                    commits[3..].iter().map(|(csn, batch)| (Csn(csn.0 + 300), batch.clone()));
                again.for_each(|commit| bench.install(&commit));
                bench.engine.compact_all().unwrap();
            }
            20 => {
                for (csn, ordinal) in [(701, 1), (702, 2)] {
                    bench.install(&(Csn(csn), batch(&[Op::DropTable(table(ordinal))])));
                }
                bench.work().unwrap();
                assert!(bench.engine.0.tables.load().is_empty());
            }
            _ => {}
        }
    }
    assert!(found == wanted);
    let (all, free) = bench.engine.0.space.bytes();
    assert!(free < all, "the cursor holds its extents");
    drop(cursor);
    // The cursor frees a little, and background work frees the rest (DEFERRED-FREE-2 of
    // `deferred_free`).
    bench.work().unwrap();
    let (all, free) = bench.engine.0.space.bytes();
    assert_eq!(free, all);
}

/// Earlier snapshots see the same rows through every later compaction.
#[test]
fn snapshots_see_the_same_through_compactions() {
    let disk = SimDisk::new(1);
    let bench = open(&disk).unwrap();
    let commits = history(12, 500);
    let mut rng = Rng::new(1);
    for (at, commit) in commits.iter().enumerate() {
        bench.install(commit);
        if at % 90 == 89 {
            bench.horizon.live.lock().push(commit.0);
        }
        if at % 25 == 24 {
            bench.engine.flush_all().unwrap();
            bench.work().unwrap();
        }
    }
    bench.engine.compact_all().unwrap();
    let live = bench.horizon.live.lock().clone();
    assert!(live.len() > 4 && minor_compactions(&bench) > 1);
    for snapshot in live.iter().chain([&Csn(500)]) {
        check(&bench, &commits, *snapshot, &mut rng);
    }
    let versions = |bench: &Bench| -> u64 {
        bench.engine.status().iter().map(|table| table.levels[2].versions).sum()
    };
    let (many, rows) = (versions(&bench), model(&commits, Csn(500)).len() as u64);
    bench.horizon.live.lock().clear();
    bench.engine.compact_all().unwrap();
    assert!(many > rows && versions(&bench) == rows, "{many}, {} and {rows}", versions(&bench));
    check(&bench, &commits, Csn(500), &mut rng);
}

/// The versions of a key fill several blocks, none of which fits the cache, and the oldest version
/// is read.
#[test]
fn versions_over_several_blocks_are_read_with_no_room_in_the_cache() {
    let disk = Arc::new(SimDisk::new(1));
    let settings = TieredSettings { cache_bytes: 0, ..small() };
    let bench = open_with(disk, settings).unwrap();
    bench.install(&(Csn(1), batch(&[Op::CreateTable(table(1))])));
    bench.horizon.live.lock().push(Csn(2));
    for csn in 2..60 {
        let value = noise(csn, 2000);
        bench.install(&(Csn(csn), batch(&[Op::Put { table: table(1), key: b"k", value: &value }])));
        bench.horizon.live.lock().push(Csn(csn));
    }
    bench.engine.flush_all().unwrap();
    for csn in [2, 30, 59] {
        assert!(bench.get(table(1), b"k", Csn(csn)).unwrap() == Some(noise(csn, 2000)));
    }
}

#[test]
fn values_larger_than_an_extent_and_than_a_data_file_are_kept() {
    let disk = SimDisk::new(1);
    let bench = with_table(&disk);
    let sizes = [1 << 20, 20 << 20, 0, 100];
    let value = |number: usize| vec![number as u8 + 1; sizes[number]];
    for number in 0..sizes.len() {
        let key = [number as u8];
        let op = Op::Put { table: table(1), key: &key, value: &value(number) };
        bench.install(&(Csn(2 + number as u64), batch(&[op])));
    }
    let look = |bench: &Bench| {
        for number in 0..sizes.len() {
            let found = bench.get(table(1), &[number as u8], Csn(5)).unwrap();
            assert!(found == Some(value(number)));
        }
        let rows = bench.rows(table(1), KeyRange::ALL, Direction::Backward, Csn(5)).unwrap();
        let lens: Vec<usize> = rows.iter().rev().map(|(_, value)| value.len()).collect();
        assert_eq!(lens, sizes);
    };
    look(&bench);
    bench.engine.flush_all().unwrap();
    look(&bench);
    bench.install(&(Csn(6), put(1, "z", "small")));
    bench.engine.compact_all().unwrap();
    look(&bench);
    drop(bench);
    verify_clean(&disk);
    let bench = open(&disk).unwrap();
    look(&bench);
    let keys: Vec<[u8; 1]> = (0..sizes.len()).map(|number| [number as u8]).collect();
    let all: Vec<_> = keys.iter().map(|key| Op::Delete { table: table(1), key }).collect();
    bench.horizon.stable.store(6, Ordering::SeqCst);
    bench.install(&(Csn(7), batch(&all)));
    bench.engine.compact_all().unwrap();
    let (all, free) = bench.engine.0.space.bytes();
    assert_eq!(all - free, 64 << 10, "one slot is left, for the small value");
}

#[test]
fn csn_max_reads_the_newest_version() {
    let disk = SimDisk::new(1);
    let bench = with_table(&disk);
    bench.install(&(Csn(2), put(1, "k", "v")));
    assert_eq!(bench.get(table(1), b"k", Csn::MAX).unwrap().as_deref(), Some(&b"v"[..]));
    let before = bench.get(table(1), b"k", Csn(0)).unwrap_err();
    assert_eq!(before.kind(), ErrorKind::NotFound);
}

/// E3: a replay of the log may create and drop a table again that is gone, or only the one or the
/// other.
#[test]
fn e3_a_table_that_is_gone_may_be_made_and_dropped_again_by_the_log() {
    let disk = SimDisk::new(1);
    let bench = open(&disk).unwrap();
    let life = [
        (Csn(1), batch(&[Op::CreateTable(table(1))])),
        (Csn(2), put(1, "a", "1")),
        (Csn(3), batch(&[Op::DropTable(table(1))])),
        (Csn(4), put(1, "a", "after")),
        (Csn(5), batch(&[Op::CreateTable(table(2))])),
    ];
    life.iter().for_each(|commit| bench.install(commit));
    bench.engine.flush_all().unwrap();
    drop(bench);
    for from in 0..life.len() {
        let disk = disk.fork();
        let bench = open(&disk).unwrap();
        life[from..].iter().for_each(|commit| bench.install(commit));
        bench.work().unwrap();
        assert_eq!(bench.engine.tables(), [table(2)]);
        assert_eq!(bench.engine.persisted(), Csn(5));
        assert!(bench.get(table(1), b"a", Csn(5)).is_err());
    }
}

#[test]
fn a_thousand_tables_of_one_row_cost_little_memory() {
    let disk = SimDisk::new(1);
    let bench = open(&disk).unwrap();
    let tables = 1000;
    for ordinal in 1..=tables {
        let id = table(ordinal);
        let ops = [Op::CreateTable(id), Op::Put { table: id, key: b"k", value: b"v" }];
        bench.install(&(Csn(ordinal.into()), batch(&ops)));
    }
    assert!(bench.engine.0.tables.memtables_bytes() <= tables as usize * 4096);
    assert!(bench.engine.0.write_buffer.accounts().budget.used() <= tables as usize * 4096);
}

/// If a slow cursor holds memtables after their flush, they take memory, but do not count as debt,
/// because no flush would free them.
#[test]
fn what_only_a_reader_holds_is_no_debt() {
    let disk = SimDisk::new(1);
    let bench = with_table(&disk);
    let limit = small().memtables_bytes;
    let value = vec![1; 100_000];
    let fill = |from: u64| {
        for csn in from..from + (limit / value.len()) as u64 {
            let op = Op::Put { table: table(1), key: &csn.to_be_bytes(), value: &value };
            bench.install(&(Csn(csn), batch(&[op])));
        }
    };
    fill(2);
    assert!(bench.engine.debt().flush > 0.5, "{:?}", bench.engine.debt());
    let range = KeyRange::ALL;
    let snapshot = bench.horizon.stable();
    let mut cursor =
        bench.engine.scan(table(1), range, Direction::Forward, snapshot, Access::Blocking).unwrap();
    assert!(cursor.next(Access::Blocking).unwrap());
    bench.engine.flush_all().unwrap();
    assert_eq!(bench.engine.debt().flush, 0.0);
    let memory = || {
        bench
            .engine
            .0
            .write_buffer
            .accounts()
            .budget
            .used_for(spillway_base::budget::Use::Memtables)
    };
    assert!(memory() > limit / 2);
    drop(cursor);
    assert_eq!(memory(), 0);

    fill(1000);
    bench.install(&(Csn(2000), batch(&[Op::DropTable(table(1))])));
    let view = bench.part(1).1.view();
    bench.engine.0.record_tables().unwrap();
    bench.engine.0.reap_tables().unwrap();
    assert_eq!(bench.engine.debt().flush, 0.0);
    drop(view);
}

/// Without background threads, the caller that needs room makes it.
#[test]
fn admit_makes_room_or_says_why_there_is_none() {
    let disk = SimDisk::new(1);
    let bench = with_table(&disk);
    let limit = small().memtables_bytes;
    let value = vec![1; 100_000];
    let mut csn = 1;
    let mut fill = |bench: &Bench, stable: bool| -> Result<()> {
        for _ in 0..3 * limit / value.len() {
            csn += 1;
            let key = format!("{:03}", csn % 500);
            let op = Op::Put { table: table(1), key: key.as_bytes(), value: &value };
            bench.engine.admit(value.len())?;
            bench.engine.install(Csn(csn), &batch(&[op]));
            if stable {
                bench.horizon.stable.store(csn, Ordering::SeqCst);
            }
        }
        Ok(())
    };
    fill(&bench, true).unwrap();
    assert!(bench.engine.0.tables.memtables_bytes() <= limit + limit / 4);
    let refused = fill(&bench, false).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::MemoryFull, "what is not stable cannot be flushed");
    disk.set_capacity(Some(disk.used()));
    bench.horizon.stable.store(10_000, Ordering::SeqCst);
    let refused = (0..10).find_map(|_| fill(&bench, true).err()).unwrap();
    assert_eq!(refused.kind(), ErrorKind::DiskFull);
    disk.set_capacity(None);
    fill(&bench, true).unwrap();
}

/// Decision 007: a caller waits for memory only if background work holds some.
#[test]
fn memory_is_waited_for_while_work_in_the_background_holds_any() {
    let bench = open(&SimDisk::new(1)).unwrap();
    let budget = bench.engine.0.write_buffer.accounts().budget.clone();
    let fits = Cell::new(false);
    // No background work holds memory, and without threads there is nothing to wait for.
    assert!(!bench.engine.await_memory(&mut || fits.get()));
    let held = Cell::new(Some(budget.charge(Use::Compactions, 1)));
    assert!(!bench.engine.await_memory(&mut || fits.get()));
    let background = bench.engine.start_background(1).unwrap();
    let looks = Cell::new(0);
    let come_back = || {
        looks.set(looks.get() + 1);
        if looks.get() == 5 {
            drop(held.take());
        }
    };
    let waited = bench.engine.await_memory(&mut || {
        come_back();
        looks.get() > 5
    });
    assert!(waited, "what it held came back between two looks");
    assert!(!bench.engine.await_memory(&mut || fits.get()));
    drop(background);
}

/// A rewrite that removes what follows an `x` in a value. It would make values from `l` on longer.
#[derive(Debug)]
pub(super) struct SplitPoints;

impl Rewrite for SplitPoints {
    fn rewrite(&self, value: &[u8], out: &mut Vec<u8>) -> bool {
        let end = value.iter().position(|byte| *byte == b'x');
        out.extend_from_slice(&value[..end.unwrap_or(value.len())]);
        out.extend_from_slice(if value.first() == Some(&b'l') { b"much longer" } else { b"" });
        end.is_some()
    }
}

/// E11: once the commit of a rewrite is stable, merged values are rewritten, for all snapshots,
/// unless they would become longer.
#[test]
fn e11_values_are_rewritten_as_they_are_merged() {
    // Rows in the row cache stay as they were written.
    let settings = TieredSettings { row_cache_share: 0.0, ..small() };
    let bench = open_with(Arc::new(SimDisk::new(1)), settings).unwrap();
    bench.install(&(Csn(1), batch(&[Op::CreateTable(table(1))])));
    bench.install(&(Csn(2), put(1, "a", "axold")));
    bench.install(&(Csn(3), put(1, "a", "bxnew")));
    bench.install(&(Csn(4), put(1, "b", "lx")));
    bench.install(&(Csn(5), put(1, "c", "as it is")));
    bench.install(&(Csn(6), delete(1, "d")));
    bench.horizon.live.lock().push(Csn(2));
    let read = |at: u64, key: &'static str| {
        let value = bench.get(table(1), key.as_bytes(), Csn(at)).unwrap();
        value.map(|value| String::from_utf8(value).unwrap())
    };
    let all = || [read(2, "a"), read(7, "a"), read(7, "b"), read(7, "c"), read(7, "d")];
    let told = |values: [Option<&str>; 5]| values.map(|value| value.map(str::to_owned));
    let as_written = told([Some("axold"), Some("bxnew"), Some("lx"), Some("as it is"), None]);
    bench.engine.set_rewrite(table(1), Csn(7), Some(Arc::new(SplitPoints)));
    bench.engine.request_persist(Csn(6));
    bench.work().unwrap();
    assert_eq!(all(), as_written);
    // The commit that came with the rewrite is stable.
    bench.install(&(Csn(7), put(1, "a0", "0")));
    assert_eq!(bench.engine.newest_recorded(), Csn(6));
    bench.engine.compact_all().unwrap();
    let cut = told([Some("a"), Some("b"), Some("lx"), Some("as it is"), None]);
    assert_eq!(all(), cut);
    bench.engine.set_rewrite(table(1), Csn::ZERO, None);
    bench.horizon.live.lock().push(Csn(7));
    bench.install(&(Csn(8), put(1, "a", "cxyz")));
    bench.engine.compact_all().unwrap();
    assert_eq!(read(8, "a").as_deref(), Some("cxyz"));
    assert_eq!(all(), cut);
}

/// E7: the files record the commit of a rewrite, although no version of theirs has its CSN: a log
/// that lacks it lacks the form of the rewritten values.
#[test]
fn e7_the_commit_of_a_rewrite_is_recorded() {
    for compacts in [false, true] {
        let disk = SimDisk::new(1);
        let bench = with_table(&disk);
        bench.install(&(Csn(2), put(1, "a", "axb")));
        if compacts {
            bench.engine.flush_all().unwrap();
        }
        bench.install(&(Csn(3), batch(&[Op::CreateTable(table(2))])));
        bench.engine.set_rewrite(table(1), Csn(3), Some(Arc::new(SplitPoints)));
        bench.engine.compact_all().unwrap();
        assert_eq!(bench.engine.0.persistence.manifest().state().rewritten, Csn(3));
    }
}

/// E7: the engine reports the commit that a flush waits for, so that no thread syncs the log only
/// for an earlier commit.
#[test]
fn a_flush_says_which_commit_is_to_be_durable() {
    let bench = with_table(&SimDisk::new(1));
    bench.install(&(Csn(2), put(1, "a", "stable")));
    assert_eq!(bench.engine.awaits_durable(), Csn::ZERO);
    bench.engine.install(Csn(3), &put(1, "b", "not stable yet"));
    let (_, part) = bench.part(1);
    let (active, inner) = (part.view().active.clone(), &bench.engine.0);
    assert!(part.switch(&active, inner.write_buffer.accounts(), || inner.horizon.installed()));
    while bench.engine.run_background_job().unwrap() == JobOutcome::Worked {}
    assert_eq!((part.view().immutables.len(), bench.engine.awaits_durable()), (1, Csn(3)));
    bench.horizon.stable.store(3, Ordering::SeqCst);
    while bench.engine.run_background_job().unwrap() == JobOutcome::Worked {}
    assert_eq!(part.view().immutables.len(), 0);
}

/// If the accelerator refuses a merge, the CPU does it (OFFLOAD-3), and the status of the table
/// reports the refusal.
#[test]
fn a_merge_that_is_refused_is_told_of_with_its_table() {
    use crate::compaction::{Accelerator, DropRule, MergeTask};
    use crate::offload::BuiltBlock;

    struct Refuses;
    impl Accelerator for Refuses {
        fn batch(&self) -> usize {
            2
        }

        fn merge(&self, _: &[MergeTask], _: &DropRule<'_>) -> Result<Vec<Vec<BuiltBlock>>> {
            Err(Error::invalid("not today"))
        }
    }
    let bench = rows::flushed(&SimDisk::new(31), small(), 200);
    bench.engine.offload_to(Box::new(Refuses));
    assert_eq!(bench.engine.status()[0].refused_merge, None);
    for number in 0..200 {
        bench.install(&(Csn(300 + number), rows::put(number, "second")));
    }
    rows::flush(&bench);
    bench.engine.compact_all().unwrap();
    let told = bench.engine.status()[0].refused_merge.clone().unwrap();
    assert!(told.starts_with("keys from \"key00000\" to \"key00199\": "), "{told}");
    assert!(told.contains("not today"), "{told}");
    let found = bench.get(table(1), &rows::key(7), Csn(499)).unwrap();
    assert_eq!(found.as_deref(), Some(&b"second"[..]));
}
