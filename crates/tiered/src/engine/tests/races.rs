//! Races between two pieces of background work. Each test makes them meet at a fixed point.

use super::*;

/// DISK-5: while a flush is between its write and its sync, a compaction syncs the same file, and
/// only the compaction's sync reports the failure. The device then reports success for the sync of
/// the flush, although the bytes of the flush are lost. The engine must not claim more commits as
/// persistent than before, whatever the reason for the failure.
#[test]
fn a_failed_sync_that_another_was_told_of_fails_the_flush_too() {
    for fault in [Fault::Io, Fault::Full] {
        for seed in 0..8 {
            let disk = SimDisk::new(seed);
            let bench = open(&disk).unwrap();
            let commits = history(6, 100);
            commits[..50].iter().for_each(|commit| bench.install(commit));
            bench.engine.flush_all().unwrap();
            let claimed = bench.engine.persisted();
            assert_eq!(claimed, Csn(50));

            commits[50..].iter().for_each(|commit| bench.install(commit));
            let (engine, failing) = (bench.engine.clone(), disk.clone());
            let met = Arc::new(Mutex::new(None));
            let told = met.clone();
            disk.after_next_write("data", move || {
                let (table, part) = {
                    let mut parts = engine.0.tables.all_parts();
                    parts.retain(|(of, _)| of.id == table(1));
                    parts.swap_remove(0)
                };
                failing.fail_next_sync(fault);
                *told.lock() = engine.0.compact_fully(&table, &part).err();
            });
            let refused = bench.engine.flush_all().unwrap_err();
            let told = met.lock().take().expect("the compaction is told");
            assert_eq!(
                (told.kind(), refused.kind()),
                (ErrorKind::WritesStopped, ErrorKind::WritesStopped)
            );
            assert!(bench.engine.health().is_err());
            assert_eq!(bench.engine.persisted(), claimed, "E8: the figure rises no more");
            check(&bench, &commits, Csn(100), &mut Rng::new(seed));

            disk.crash();
            disk.restart();
            verify_clean(&disk);
            let bench = open(&disk).unwrap();
            commits[50..].iter().for_each(|commit| bench.install(commit));
            bench.horizon.stable.store(100, Ordering::SeqCst);
            check(&bench, &commits, Csn(100), &mut Rng::new(seed));
        }
    }
}

/// E6, E8: threads flush, compact, record and reap at the same time. One of them gets a failed
/// sync, and then the machine stops. All commits that the engine ever claimed as persistent are
/// there.
#[test]
fn e8_threads_lose_nothing_that_was_persisted_by_a_failed_sync() {
    let mut failed = 0;
    for seed in 0..30 {
        let disk = SimDisk::new(seed);
        let mut rng = Rng::new(seed);
        let commits = faults::with_drops(seed, 200);
        let last = commits.last().unwrap().0;
        let bench = open(&disk).unwrap();
        let background = bench.engine.start_background(2).unwrap();
        let fails_at = rng.below(commits.len() as u64) as usize;
        let mut claimed = Csn::ZERO;
        for (at, commit) in commits.iter().enumerate() {
            bench.install(commit);
            bench.horizon.live.lock().retain(|snapshot| snapshot.0 + 50 > commit.0.0);
            if rng.chance(1, 30) {
                bench.horizon.live.lock().push(commit.0);
            }
            if rng.chance(1, 6) {
                bench.engine.request_persist(commit.0);
            }
            if at == fails_at {
                disk.fail_next_sync(Fault::Io);
            }
            let now = bench.engine.persisted();
            assert!(now >= claimed, "E6: the figure never falls");
            claimed = now;
        }
        failed += u32::from(bench.engine.flush_all().is_err());
        check(&bench, &commits, last, &mut rng);
        drop(background);
        claimed = bench.engine.persisted();
        disk.crash();
        disk.restart();
        verify_clean(&disk);
        let bench = open(&disk).unwrap();
        commits.iter().filter(|(csn, _)| *csn > claimed).for_each(|commit| bench.install(commit));
        bench.horizon.stable.store(last.0, Ordering::SeqCst);
        check(&bench, &commits, last, &mut rng);
        bench.engine.compact_all().unwrap();
        check(&bench, &commits, last, &mut rng);
    }
    assert!(failed > 20, "{failed}");
}

/// A thread that waits for a flush rings, and a background thread looks for work. If that thread
/// finds none and wakes the first one, the two wake each other for as long as the flush takes.
#[cfg(debug_assertions)]
#[test]
fn a_job_that_finds_no_work_wakes_no_thread_that_waits_for_work() {
    use spillway_base::clock::Clock;
    use spillway_base::scheduler::{self, Plan};

    let plan = Plan {
        seed: 1,
        steps_max: 1_000_000,
        time_max: Duration::from_secs(60),
        operation_max: Duration::ZERO,
        stacks: false,
    };
    scheduler::run(plan, || {
        let bench = open(&SimDisk::new(1)).unwrap();
        bench.work().unwrap();
        let engine = bench.engine.clone();
        let waits = move || !engine.0.wakeups.wait_for_room(Duration::from_secs(1));
        let waits = spillway_base::thread::spawn("waits", waits).unwrap();
        // Time passes once the other thread waits.
        Clock::system().sleep(Duration::from_millis(1));
        assert_eq!(bench.engine.run_background_job().unwrap(), JobOutcome::Idle);
        assert!(waits.join().unwrap(), "its time ends the wait");
    });
}

/// Memtables of different tables are flushed at the same time. Those of one table are flushed one
/// after another, so that newer sub-levels have newer versions.
#[test]
fn tables_are_flushed_beside_each_other_and_one_tables_memtables_in_order() {
    for tables in [1, 2] {
        let disk = SimDisk::new(1);
        let bench = open(&disk).unwrap();
        for ordinal in 1..=tables {
            bench.install(&(Csn(ordinal.into()), batch(&[Op::CreateTable(table(ordinal))])));
        }
        bench.work().unwrap();
        for csn in 3..5 {
            let id = table(if tables == 2 { csn as u32 - 2 } else { 1 });
            let op = Op::Put { table: id, key: b"key", value: &[csn as u8] };
            bench.install(&(Csn(csn), batch(&[op])));
            bench.engine.request_persist(Csn(csn));
            // The second memtable of one table must be switched explicitly, because the engine does
            // not switch it while an older one waits.
            let of = bench.part(id.ordinal()).1;
            of.switch(&of.view().active.clone(), bench.engine.0.write_buffer.accounts(), || {
                Csn(csn)
            });
        }
        let (engine, met) = (bench.engine.clone(), Arc::new(Mutex::new(None)));
        let told = met.clone();
        disk.after_next_write("data", move || {
            *told.lock() = Some(engine.run_background_job().unwrap())
        });
        assert_eq!(bench.engine.run_background_job().unwrap(), JobOutcome::Worked);
        let beside = met.lock().take();
        let expected = if tables == 2 { JobOutcome::Worked } else { JobOutcome::Idle };
        assert_eq!(beside, Some(expected), "{tables} tables");
        let waiting = |bench: &Bench| -> usize {
            let tables = bench.engine.0.tables.load();
            tables
                .values()
                .flat_map(|t| t.all_parts())
                .map(|part| part.view().immutables.len())
                .sum()
        };
        assert_eq!(waiting(&bench), if tables == 2 { 0 } else { 1 });
        bench.work().unwrap();
        assert_eq!((waiting(&bench), bench.engine.persisted()), (0, Csn(4)));
        let newest = bench.get(table(tables), b"key", Csn(4)).unwrap();
        assert_eq!(newest, Some(vec![4]));
    }
}

/// A call that requests flushes leaves them to the background threads, and flushes itself if these
/// have ended. When it returns success, everything is flushed. If the threads cannot flush, it
/// returns their error.
#[test]
fn flushes_that_are_asked_for_end_whatever_becomes_of_the_threads() {
    let waiting = |bench: &Bench| {
        let parts = bench.engine.0.tables.all_parts();
        let views = parts.iter().map(|(_, part)| part.view());
        views.filter(|view| !view.active.is_empty() || !view.immutables.is_empty()).count()
    };
    for seed in 0..6 {
        let disk = SimDisk::new(seed);
        let bench = open(&disk).unwrap();
        let commits = history(seed, 120);
        let background = (seed % 2 == 0).then(|| bench.engine.start_background(2).unwrap());
        if background.is_none() {
            // Pretends that there are background threads.
            bench.engine.0.wakeups.add_group();
        }
        for half in commits.chunks(60) {
            half.iter().for_each(|commit| bench.install(commit));
            bench.engine.flush_all().unwrap();
            assert_eq!(waiting(&bench), 0);
            assert_eq!(bench.engine.persisted(), half.last().unwrap().0);
        }
        let mut batch = WriteBatch::new();
        for number in 0..60 {
            // More than fits into the freed slots.
            let (key, value) = (format!("last{number:02}"), noise(seed << 8 | number, 50_000));
            batch.push(Op::Put { table: table(1), key: key.as_bytes(), value: &value });
        }
        bench.install(&(Csn(121), batch));
        if seed < 4 {
            disk.set_capacity(Some(disk.used()));
            assert_eq!(bench.engine.flush_all().unwrap_err().kind(), ErrorKind::DiskFull);
            disk.set_capacity(None);
            bench.engine.flush_all().unwrap();
            assert_eq!(waiting(&bench), 0);
        } else {
            disk.fail_next_sync(Fault::Io);
            assert_eq!(bench.engine.flush_all().unwrap_err().kind(), ErrorKind::WritesStopped);
        }
    }
}

/// E5: after a thread has read the stable CSN, and before it records its edits, a table is dropped,
/// and another thread finds that the manifest never had the table. The first thread must not record
/// the table, because nobody would remove it again.
#[test]
fn e5_a_table_that_another_thread_found_dropped_is_not_recorded() {
    let disk = SimDisk::new(1);
    let bench = open(&disk).unwrap();
    bench.install(&(Csn(1), batch(&[Op::CreateTable(table(1))])));
    let (engine, horizon) = (bench.engine.clone(), bench.horizon.clone());
    *bench.horizon.after_stable.lock() = Some(Box::new(move || {
        engine.install(Csn(2), &batch(&[Op::DropTable(table(1))]));
        horizon.stable.store(2, Ordering::SeqCst);
        assert!(engine.0.record_tables().unwrap());
    }));
    bench.engine.0.record_tables().unwrap();
    assert!(bench.engine.0.persistence.manifest().state().tables.is_empty());
    assert!(bench.engine.0.reap_tables().unwrap());
    drop(bench.engine.pin());
    drop(bench);
    verify_clean(&disk);
    assert!(open(&disk).unwrap().engine.tables().is_empty());
}
