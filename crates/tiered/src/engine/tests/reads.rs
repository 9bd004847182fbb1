//! Asynchronous reads (`extent::async_reads`).

use std::sync::atomic::AtomicBool;
use std::task::{Wake, Waker};

use spillway_base::wake_count::counted_waker;

use super::scans::long;
use super::*;

type Rows = Vec<(Vec<u8>, Vec<u8>)>;

/// An engine with nothing in memory, and the rows of its table.
fn cold(disk: &SimDisk, cache_bytes: usize, direct_reads: bool) -> (Bench, Rows) {
    let settings = TieredSettings { cache_bytes, direct_reads, ..small() };
    let (bench, rows) = long(disk, settings.clone());
    drop(bench);
    let bench = open_with(Arc::new(disk.clone()), settings).unwrap();
    bench.horizon.stable.store(5000, Ordering::SeqCst);
    (bench, rows)
}

impl Bench {
    fn look(&self, key: &[u8], access: Access) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        let found = self.engine.get(table(1), key, Csn(5000), access, &mut value)?;
        Ok(found.is_value().then_some(value))
    }

    fn begin(&self, key: &[u8], waker: &Waker) -> bool {
        self.engine.begin_read(table(1), key, Csn(5000), waker)
    }
}

/// E12, ASYNC-READ-1, ASYNC-READ-3: whatever fails, every waker is called, and every reader gets
/// its row or its failure.
#[test]
fn async_read_1_everybody_is_called_and_finds_its_row() {
    let kinds = [(1, false, false), (2, true, false), (3, true, true), (4, false, true)];
    for (seed, fails, direct) in kinds {
        let (disk, mut rng) = (SimDisk::new(seed), Rng::new(seed));
        let (bench, rows) = cold(&disk, 300 << 10, direct);
        assert!(!bench.begin(&rows[0].0, Waker::noop()), "nobody takes back what is read");
        assert_eq!(bench.engine.overlap_reads().len(), 2);
        let data: Vec<PathBuf> = disk.files().into_iter().map(|(path, _)| path).collect();
        let (mut left, mut failed) = (0, 0);
        for _ in 0..400 {
            let wanted: Vec<_> =
                (0..1 + rng.below(8)).map(|_| rng.below(rows.len() as u64)).collect();
            for at in wanted {
                let (key, value) = &rows[at as usize];
                for time in 0.. {
                    let failing = fails && rng.chance(1, 8);
                    if failing {
                        data.iter().for_each(|path| disk.fail_reads(path));
                    }
                    let (waker, called) = counted_waker();
                    let looked = match bench.look(key, Access::AtHand) {
                        Err(error) if error.kind() == ErrorKind::WouldBlock => {
                            if bench.begin(key, &waker) {
                                bench.engine.end_reads();
                                assert_eq!(called(), 1);
                                left += 1;
                                disk.heal();
                                assert!(time < 20, "it comes for ever");
                                continue;
                            }
                            bench.look(key, Access::Blocking)
                        }
                        looked => looked,
                    };
                    disk.heal();
                    match looked {
                        Ok(found) => assert_eq!(found.as_ref(), Some(value)),
                        Err(error) => {
                            assert!(failing && error.kind() == ErrorKind::Io);
                            failed += 1;
                        }
                    }
                    break;
                }
            }
        }
        assert!(left > 100 && (failed > 0) == fails, "{left} left, {failed} failed");
    }
}

/// ASYNC-READ-2, ASYNC-READ-4, ASYNC-READ-5.
#[test]
fn async_read_2_one_read_is_for_all_who_want_it_and_none_outlives_the_engine() {
    let disk = SimDisk::new(5);
    let (bench, rows) = cold(&disk, 8 << 20, false);
    bench.engine.overlap_reads();
    // Reads the tables first, because they have the locations of blocks.
    for (key, _) in &rows {
        while let Err(error) = bench.look(key, Access::AtHand) {
            assert_eq!(error.kind(), ErrorKind::WouldBlock);
            assert!(bench.begin(key, Waker::noop()));
            bench.engine.end_reads();
        }
    }
    drop(bench);
    let settings = TieredSettings { cache_bytes: 8 << 20, ..small() };
    let bench = open_with(Arc::new(disk.clone()), settings).unwrap();
    bench.horizon.stable.store(5000, Ordering::SeqCst);
    bench.engine.overlap_reads();
    let held = disk.hold_reads();
    let counts = || bench.engine.0.context.async_reads.begun_and_shared();
    let callers: Vec<_> = (0..50).map(|_| counted_waker()).collect();
    let (key, value) = &rows[7];
    callers.iter().for_each(|(waker, _)| assert!(bench.begin(key, waker)));
    assert_eq!(counts(), (1, 49));
    bench.engine.end_reads();
    assert!(callers.iter().all(|(_, called)| called() == 0));
    assert_eq!(bench.look(key, Access::AtHand).unwrap_err().kind(), ErrorKind::WouldBlock);
    drop(held);
    bench.engine.end_reads();
    assert!(callers.iter().all(|(_, called)| called() == 1));
    assert!(bench.begin(key, &callers[0].0), "the block");
    bench.engine.end_reads();
    assert_eq!(bench.look(key, Access::MemoryOnly).unwrap().as_ref(), Some(value));
    assert!(!bench.begin(key, &callers[0].0), "it is in memory");
    let held = disk.hold_reads();
    let begun = rows.iter().filter(|(key, _)| bench.begin(key, &callers[1].0)).count();
    assert!(begun > 10);
    let under_way = Arc::downgrade(&bench.engine.0.context);
    drop(held);
    bench.engine.close();
    assert!(callers[1].1() > 1, "every waiter is woken at the end");
    assert!(!bench.begin(&rows[rows.len() - 1].0, Waker::noop()));
    drop(bench);
    assert!(under_way.upgrade().is_none(), "a read under way keeps its extent");
}

/// ASYNC-READ-6, E12: reads that are collected for a batch are submitted on request. If the system
/// accepts them only later, they are submitted then.
#[test]
fn async_read_6_what_is_kept_is_handed_over_and_nobody_is_forgotten() {
    let disk = SimDisk::new(6);
    let (bench, rows) = cold(&disk, 8 << 20, true);
    bench.engine.overlap_reads();
    let bring = |key: &[u8]| {
        while bench.begin(key, Waker::noop()) {
            bench.engine.end_reads();
        }
    };
    // From here on, the tables of all extents are in memory, and most blocks are not.
    rows.iter().step_by(60).for_each(|(key, _)| bring(key));
    let lacking: Vec<_> = rows
        .iter()
        .filter(|(key, _)| bench.look(key, Access::MemoryOnly).is_err())
        .step_by(4)
        .collect();
    assert!(lacking.len() > 20, "{}", lacking.len());
    let engine = &bench.engine;
    assert!(!engine.keeps_reads() && engine.submit_reads());
    let mut waiting = Vec::new();
    for (key, value) in lacking.iter().take(3) {
        let (waker, called) = counted_waker();
        assert!(bench.begin(key, &waker) && engine.keeps_reads());
        waiting.push((key, value, called));
    }
    disk.refuse_submissions(true);
    assert!(!engine.submit_reads() && engine.keeps_reads());
    engine.end_reads();
    assert!(engine.keeps_reads() && waiting.iter().all(|(_, _, called)| called() == 0));
    disk.refuse_submissions(false);
    assert!(engine.submit_reads() && !engine.keeps_reads());
    engine.end_reads();
    for (key, value, called) in waiting {
        assert_eq!(called(), 1);
        assert_eq!(bench.look(key, Access::MemoryOnly).unwrap().as_ref(), Some(value));
    }
    // At most this many reads are collected before a submission.
    let held = disk.hold_reads();
    let begun = lacking.iter().skip(3).filter(|(key, _)| bench.begin(key, Waker::noop())).count();
    assert!(begun > 16, "{begun}");
    held.wait_for(16);
    drop(held);
    bench.engine.close();
}

/// ASYNC-READ-1, ASYNC-READ-6: if a read completes only in part, the thread that takes completed
/// reads submits the rest. If the system does not accept the rest, it is kept and reported for the
/// next submission.
#[test]
fn async_read_6_what_is_left_of_a_read_is_handed_over() {
    let disk = SimDisk::new(8);
    let (bench, rows) = cold(&disk, 8 << 20, true);
    let engine = &bench.engine;
    engine.overlap_reads();
    let (waker, called) = counted_waker();
    let (first, last) = (&rows[0].0, &rows[rows.len() - 1].0);
    disk.part_reads(2);
    assert!(bench.begin(first, &waker) && engine.keeps_reads());
    assert!(bench.begin(last, &waker));
    assert!(engine.submit_reads() && !engine.keeps_reads());
    assert_eq!(called(), 2, "both are over, whatever of them was done at first");
    // The rest of a read that the system did not accept is requested again.
    while bench.begin(first, &waker) {
        engine.submit_reads();
    }
    let (waker, called) = counted_waker();
    let lacks = rows.iter().find(|(key, _)| bench.begin(key, &waker)).expect("a block");
    let held = disk.hold_reads();
    assert!(engine.submit_reads() && !engine.keeps_reads());
    disk.part_reads(1);
    disk.refuse_submissions(true);
    drop(held);
    engine.end_reads();
    assert!(called() == 0 && engine.keeps_reads(), "nobody would come for it");
    assert!(!engine.submit_reads() && engine.keeps_reads());
    disk.refuse_submissions(false);
    assert!(engine.submit_reads() && !engine.keeps_reads());
    assert_eq!(called(), 1);
    assert_eq!(bench.look(&lacks.0, Access::MemoryOnly).unwrap().as_ref(), Some(&lacks.1));
}

/// A waker that panics when it is called.
struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        std::panic::resume_unwind(Box::new(()));
    }
}

/// ASYNC-READ-1, ASYNC-READ-6: if a panic ends the submission of one queue's reads, the reads of
/// other queues are still submitted.
#[test]
fn async_read_6_a_panic_keeps_no_other_queue_from_its_device() {
    let disk = SimDisk::new(9);
    let (bench, rows) = cold(&disk, 8 << 20, true);
    let engine = &bench.engine;
    assert_eq!(engine.overlap_reads().len(), 2);
    for (key, _) in rows.iter().step_by(60) {
        while bench.begin(key, Waker::noop()) {
            engine.end_reads();
        }
    }
    let lacking: Vec<_> =
        rows.iter().filter(|(key, _)| bench.look(key, Access::MemoryOnly).is_err()).collect();
    let mut rounds = 0;
    let shared = || engine.0.context.async_reads.begun_and_shared().1;
    let lacking: Vec<_> = lacking.into_iter().step_by(24).collect();
    for keys in lacking.chunks_exact(4) {
        let panics = Waker::from(Arc::new(Panics));
        let callers: Vec<_> = keys[1..].iter().map(|_| counted_waker()).collect();
        if !bench.begin(&keys[0].0, &panics) {
            continue;
        }
        let begun: Vec<_> = keys[1..]
            .iter()
            .zip(&callers)
            .filter(|((key, _), (waker, _))| {
                // Only reads of different blocks.
                let before = shared();
                bench.begin(key, waker) && shared() == before
            })
            .collect();
        let submit = std::panic::AssertUnwindSafe(|| engine.submit_reads());
        assert!(std::panic::catch_unwind(submit).is_err());
        let kept = engine.0.context.async_reads.kept();
        assert!(kept == 0 || engine.keeps_reads(), "nobody would hand over {kept}");
        engine.end_reads();
        assert!(begun.iter().all(|(_, (_, called))| called() == 1), "a read was forgotten");
        rounds += usize::from(begun.len() > 1);
    }
    assert!(rounds > 3, "{rounds}");
}

/// A pool in which one thread has work, or several.
struct Quiet(AtomicBool);

impl spillway_base::thread::Pool for Quiet {
    fn leave(&self) {}
    fn come_back(&self) {}

    fn is_quiet(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// ASYNC-READ-7: no read is begun for a reader that is the only one with work. A reader beside
/// others, or one that may not wait, is not affected.
#[test]
fn async_read_7_who_is_alone_waits_for_the_device() {
    for lone_waits in [true, false] {
        let disk = SimDisk::new(7);
        let (bench, rows) = cold(&disk, 8 << 20, true);
        drop(bench);
        let settings = TieredSettings { cache_bytes: 8 << 20, lone_waits, ..small() };
        let bench = open_with(Arc::new(disk.clone()), settings).unwrap();
        bench.horizon.stable.store(5000, Ordering::SeqCst);
        bench.engine.overlap_reads();
        let pool = Arc::new(Quiet(AtomicBool::new(true)));
        spillway_base::thread::together(1, |_| {
            spillway_base::thread::join_pool(pool.clone());
            let (first, last) = (&rows[0].0, &rows[rows.len() - 1].0);
            assert_eq!(bench.begin(first, Waker::noop()), !lone_waits);
            bench.engine.end_reads();
            pool.0.store(false, Ordering::SeqCst);
            assert!(bench.begin(first, Waker::noop()), "others have something to do");
            pool.0.store(true, Ordering::SeqCst);
            assert!(bench.begin(last, Waker::noop()), "another read is under way");
            bench.engine.end_reads();
            assert_eq!(bench.begin(last, Waker::noop()), !lone_waits, "all are over");
            bench.engine.end_reads();
        });
    }
}

/// The estimate of a range with few keys is small, wherever the keys are, and whether the index is
/// in memory or not.
#[test]
fn an_estimate_of_a_range_is_near_its_keys() {
    let (rows, step) = (30_000_u64, 7_919);
    let key = |number: u64| [b"index".as_slice(), &(number * step).to_be_bytes()].concat();
    let settings =
        TieredSettings { memtables_bytes: 64 << 20, memtable_bytes: 32 << 20, ..small() };
    for place in ["memtable", "levels", "levels, index in memory"] {
        let bench = open_with(Arc::new(SimDisk::new(3)), settings.clone()).unwrap();
        bench.install(&(Csn(1), batch(&[Op::CreateTable(table(1))])));
        for number in 0..rows {
            let op = Op::Put { table: table(1), key: &key(number), value: &[] };
            bench.install(&(Csn(number + 2), batch(&[op])));
        }
        if place != "memtable" {
            bench.engine.request_persist(Csn(rows + 1));
            bench.work().unwrap();
            bench.engine.compact_all().unwrap();
        }
        if place.ends_with("in memory") {
            (0..rows)
                .step_by(50)
                .for_each(|number| _ = bench.get(table(1), &key(number), Csn(rows)));
        }
        for wanted in [1, 10, 100, 1000, 10_000] {
            for from in [0, 5, 7000, 15_001, 19_000] {
                let (low, high) = (key(from), key(from + wanted));
                let range = KeyRange::new(&low, Some(&high));
                let keys = bench.engine.estimate(table(1), range).keys;
                let near = wanted / 2..=wanted * 3 / 2 + 2;
                assert!(near.contains(&keys), "{place}: {wanted} keys from {from}: {keys}");
            }
        }
        let all = bench.engine.estimate(table(1), KeyRange::ALL).keys;
        assert!((rows * 9 / 10..=rows * 11 / 10).contains(&all), "{place}: {all}");
    }
}
