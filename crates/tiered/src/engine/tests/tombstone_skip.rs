//! Scans that skip the gaps that earlier scans found: they return the same rows, and pass fewer
//! tombstones.

use super::*;
use crate::tombstone_skip::Figures;

fn key(number: u64) -> Vec<u8> {
    format!("key{number:06}").into_bytes()
}

/// A table in which the keys of `rows` were put by the second commit.
fn with_rows(settings: TieredSettings, rows: std::ops::Range<u64>) -> Bench {
    let bench = open_with(Arc::new(SimDisk::new(1)), settings).unwrap();
    bench.install(&(Csn(1), batch(&[Op::CreateTable(table(1))])));
    put(&bench, 2, rows);
    bench
}

fn put(bench: &Bench, csn: u64, rows: std::ops::Range<u64>) {
    let keys: Vec<_> = rows.map(key).collect();
    let ops: Vec<_> =
        keys.iter().map(|key| Op::Put { table: table(1), key, value: b"row" }).collect();
    bench.install(&(Csn(csn), batch(&ops)));
}

fn delete(bench: &Bench, csn: u64, rows: std::ops::Range<u64>) {
    let keys: Vec<_> = rows.map(key).collect();
    let ops: Vec<_> = keys.iter().map(|key| Op::Delete { table: table(1), key }).collect();
    bench.install(&(Csn(csn), batch(&ops)));
}

fn figures(bench: &Bench) -> &Figures {
    bench.engine.0.tables.gap_figures()
}

/// The first row in a direction, and the number of tombstones that the scan passed before it.
fn poll(bench: &Bench, direction: Direction, snapshot: u64) -> (Option<Vec<u8>>, u64) {
    let before = figures(bench).walked.load(Ordering::Relaxed);
    let (all, snapshot) = (KeyRange::ALL, Csn(snapshot));
    let mut cursor =
        bench.engine.scan(table(1), all, direction, snapshot, Access::Blocking).unwrap();
    let found = cursor.next(Access::Blocking).unwrap().then(|| cursor.key().to_vec());
    (found, figures(bench).walked.load(Ordering::Relaxed) - before)
}

fn forward(bench: &Bench, snapshot: u64) -> (Option<Vec<u8>>, u64) {
    poll(bench, Direction::Forward, snapshot)
}

#[test]
fn who_polls_a_queue_walks_over_what_was_deleted_since_and_no_more() {
    let bench = with_rows(small(), 0..2000);
    bench.horizon.live.lock().push(Csn(2));
    let mut csn = 2;
    let mut most = 0;
    for head in (0..1500).step_by(10) {
        put(&bench, csn + 1, 2000 + head..2000 + head + 10);
        delete(&bench, csn + 2, head..head + 10);
        csn += 2;
        let (found, walked) = forward(&bench, csn);
        assert_eq!(found, Some(key(head + 10)));
        most = most.max(walked);
        if head % 300 == 0 {
            bench.engine.flush_all().unwrap();
        }
        if head % 700 == 0 {
            bench.engine.compact_all().unwrap();
        }
    }
    assert!(most < 64 + 10, "{most}");
    assert_eq!(forward(&bench, 2), (Some(key(0)), 0), "an older snapshot sees all of them");
}

/// TOMBSTONE-SKIP-5: another poller with a later snapshot publishes the grown gap before this
/// poller reads.
#[test]
fn who_polls_a_queue_at_a_snapshot_before_anothers_walks_over_little() {
    let bench = with_rows(small(), 0..3000);
    bench.horizon.live.lock().push(Csn(2));
    let mut most = 0;
    for (csn, head) in (3..).zip((0..2000).step_by(100)) {
        delete(&bench, csn, head..head + 100);
        assert_eq!(forward(&bench, csn).0, Some(key(head + 100)));
        if csn > 4 {
            let (found, walked) = forward(&bench, csn - 1);
            assert_eq!(found, Some(key(head)));
            most = most.max(walked);
        }
    }
    assert!(most < 20, "{most}");
    assert_eq!(forward(&bench, 2), (Some(key(0)), 0));
}

/// A scan does not look for a gap at each tombstone, so it passes a few tombstones one by one.
#[test]
fn who_comes_to_a_gap_from_tombstones_leaps_soon() {
    for before in [1, 7, 8, 20, 63] {
        let bench = with_rows(small(), 0..600);
        delete(&bench, 3, 100..500);
        assert_eq!(
            bench.rows(table(1), KeyRange::ALL, Direction::Forward, Csn(3)).unwrap().len(),
            200
        );
        delete(&bench, 4, 100 - before..100);
        let (start, walked) = (key(50 - before / 2), &figures(&bench).walked);
        let already = walked.load(Ordering::Relaxed);
        let range = KeyRange::new(&start, None);
        let rows = bench.rows(table(1), range, Direction::Forward, Csn(4)).unwrap();
        assert_eq!(rows.len() as u64, 600 - 450 + before / 2 - before);
        let walked = walked.load(Ordering::Relaxed) - already;
        assert!((before..before + 8).contains(&walked), "{before}: {walked}");
    }
}

#[test]
fn without_gaps_each_poll_walks_over_all() {
    let bench = with_rows(TieredSettings { gaps: false, ..small() }, 0..500);
    delete(&bench, 3, 0..400);
    for _ in 0..3 {
        assert_eq!(forward(&bench, 3), (Some(key(400)), 400));
    }
    assert_eq!(figures(&bench).published.load(Ordering::Relaxed), 0);
}

/// The same gap serves scans in both directions.
#[test]
fn a_gap_is_leapt_over_in_both_directions() {
    for first in [Direction::Forward, Direction::Backward] {
        let bench = with_rows(small(), 0..600);
        delete(&bench, 3, 100..500);
        let keys = |direction| {
            let before = figures(&bench).walked.load(Ordering::Relaxed);
            let rows = bench.rows(table(1), KeyRange::ALL, direction, Csn(3)).unwrap();
            let walked = figures(&bench).walked.load(Ordering::Relaxed) - before;
            (rows.into_iter().map(|(key, _)| key).collect::<Vec<_>>(), walked)
        };
        let expected: Vec<_> = (0..100).chain(500..600).map(key).collect();
        let reversed: Vec<_> = expected.iter().rev().cloned().collect();
        let both = [(Direction::Forward, &expected), (Direction::Backward, &reversed)];
        let (now, then) =
            if first == Direction::Forward { (&both[0], &both[1]) } else { (&both[1], &both[0]) };
        assert_eq!(keys(now.0), (now.1.clone(), 400));
        assert_eq!(keys(now.0), (now.1.clone(), 0));
        assert_eq!(keys(then.0), (then.1.clone(), 0));
        // Scans that begin in the gap, end in it, or lie inside it.
        for (start, end, rows) in [(200, 510, 10), (90, 300, 10), (200, 300, 0)] {
            let (start, end) = (key(start), key(end));
            for direction in [Direction::Forward, Direction::Backward] {
                let range = KeyRange::new(&start, Some(&end));
                let found = bench.rows(table(1), range, direction, Csn(3)).unwrap();
                assert_eq!(found.len(), rows);
            }
        }
        assert_eq!(figures(&bench).walked.load(Ordering::Relaxed), 400);
    }
}

#[test]
fn a_row_that_is_put_into_a_gap_is_found_and_what_is_beside_it_leapt_over() {
    let bench = with_rows(small(), 0..1000);
    delete(&bench, 3, 0..900);
    assert_eq!(forward(&bench, 3), (Some(key(900)), 900));
    put(&bench, 4, 500..501);
    assert_eq!(forward(&bench, 4), (Some(key(500)), 0));
    assert_eq!(forward(&bench, 3), (Some(key(900)), 1), "before it came");
    delete(&bench, 5, 500..501);
    assert_eq!(forward(&bench, 5), (Some(key(900)), 1));
    assert_eq!(forward(&bench, 5), (Some(key(900)), 0), "they are one again");
}

/// Commits are installed in any order. So a commit above a snapshot may already be installed when a
/// scan of the snapshot finds no row.
#[test]
fn rows_above_the_snapshot_are_in_no_gap_wherever_they_are() {
    for flushed in [false, true] {
        let bench = with_rows(small(), 0..1000);
        delete(&bench, 3, 0..900);
        put(&bench, 4, 700..701);
        if flushed {
            // A flush would drop tombstones that no snapshot needs.
            bench.horizon.live.lock().extend([Csn(2), Csn(3)]);
            bench.engine.flush_all().unwrap();
        }
        assert_eq!(forward(&bench, 3), (Some(key(900)), 900));
        assert_eq!(forward(&bench, 4).0, Some(key(700)), "flushed: {flushed}");
    }
}

/// An insertion enters a sub-table's memtable before a split and ends after it. It cuts gaps of the
/// old sub-table, which is no longer read.
#[test]
fn an_insertion_that_a_split_overtakes_is_in_no_gap() {
    let bench = with_rows(small(), 0..0);
    for at in 0..60 {
        let (key, value) = (key(at), noise(at, 4000));
        let op = Op::Put { table: table(1), key: &key, value: &value };
        bench.install(&(Csn(3 + at), batch(&[op])));
    }
    bench.engine.flush_all().unwrap();
    delete(&bench, 100, 0..60);
    put(&bench, 101, 1000..1100);
    delete(&bench, 102, 1000..1099);
    let (whole, part) = bench.part(1);
    let view = part.view();
    let inside = view.active.enter().unwrap();
    assert!(bench.engine.0.split(&whole, &part).unwrap());
    assert_eq!(forward(&bench, 102).0, Some(key(1099)));
    let published = figures(&bench).published.load(Ordering::Relaxed);
    view.active.insert(&inside, &key(1050), Csn(103), Some(b"late"));
    part.gaps.cut(&key(1050));
    drop(inside);
    bench.horizon.stable.store(103, Ordering::SeqCst);
    assert_eq!(forward(&bench, 103).0, Some(key(1050)), "{published} gaps before it");
    assert_eq!(published, 0, "nobody could know that it would come");
}

#[test]
fn a_device_is_not_waited_for_behind_a_gap() {
    let bench = with_rows(TieredSettings { cache_bytes: 0, ..small() }, 0..3000);
    // A snapshot sees the rows, so no flush drops their tombstones.
    bench.horizon.live.lock().push(Csn(2));
    delete(&bench, 3, 0..2900);
    bench.engine.flush_all().unwrap();
    assert_eq!(forward(&bench, 3), (Some(key(2900)), 2900));
    delete(&bench, 4, 2900..2901);
    let mut cursor = bench
        .engine
        .scan(table(1), KeyRange::ALL, Direction::Forward, Csn(4), Access::MemoryOnly)
        .unwrap();
    let error = cursor.next(Access::MemoryOnly).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    assert!(cursor.next(Access::Blocking).unwrap());
    assert_eq!(cursor.key(), key(2901));
}

/// Commits of several threads, which get CSNs in one order and are installed in any order, and
/// snapshots at the installed prefix.
struct Shared {
    bench: Bench,
    history: Mutex<History>,
    /// Commits that are installed above the prefix.
    done: Mutex<std::collections::BTreeSet<u64>>,
    /// The number of scans with the right result.
    checks: AtomicUsize,
}

/// The newest commit, and for each key the commits that put it (`true`) or deleted it.
struct History {
    newest: u64,
    keys: Vec<Vec<(u64, bool)>>,
}

impl Shared {
    fn commit(&self, number: u64, is_there: bool) {
        let csn = {
            let mut history = self.history.lock();
            history.newest += 1;
            let csn = history.newest;
            history.keys[number as usize].push((csn, is_there));
            csn
        };
        let key = key(number);
        let op = if is_there {
            Op::Put { table: table(1), key: &key, value: b"row" }
        } else {
            Op::Delete { table: table(1), key: &key }
        };
        self.bench.engine.install(Csn(csn), &batch(&[op]));
        let mut done = self.done.lock();
        done.insert(csn);
        let stable = &self.bench.horizon.stable;
        while done.remove(&(stable.load(Ordering::SeqCst) + 1)) {
            stable.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// A registered snapshot.
    fn snapshot(&self) -> Csn {
        let mut live = self.bench.horizon.live.lock();
        let csn = Csn(self.bench.horizon.stable.load(Ordering::SeqCst));
        live.push(csn);
        csn
    }

    fn let_go(&self, snapshot: Csn) {
        let mut live = self.bench.horizon.live.lock();
        let at = live.iter().position(|csn| *csn == snapshot).unwrap();
        live.swap_remove(at);
    }

    fn expected(&self, snapshot: Csn, from: u64, to: u64) -> Vec<Vec<u8>> {
        let history = self.history.lock();
        let is_there = |number: &u64| {
            let versions = &history.keys[*number as usize];
            let seen = versions.partition_point(|(csn, _)| *csn <= snapshot.0);
            seen > 0 && versions[seen - 1].1
        };
        (from..to).filter(is_there).map(key).collect()
    }

    fn check(&self, snapshot: Csn, rng: &mut Rng) {
        let (from, to) = (rng.below(KEYS), rng.below(KEYS + 1));
        let (from, to) = if rng.chance(1, 2) { (0, KEYS) } else { (from, to) };
        let (start, end) = (key(from), key(to));
        let range = KeyRange::new(&start, Some(&end));
        let direction = if rng.chance(1, 2) { Direction::Forward } else { Direction::Backward };
        let found = self.bench.rows(table(1), range, direction, snapshot).unwrap();
        let mut expected = self.expected(snapshot, from, to);
        if direction == Direction::Backward {
            expected.reverse();
        }
        let found: Vec<_> = found.into_iter().map(|(key, _)| key).collect();
        assert!(found == expected, "{direction:?} {from}..{to} at {snapshot}");
        self.checks.fetch_add(1, Ordering::Relaxed);
    }
}

const KEYS: u64 = 1000;

/// TOMBSTONE-SKIP-1, TOMBSTONE-SKIP-2: rows are inserted into gaps while scans find, widen, cut and
/// skip these gaps. Every scan returns what its snapshot sees, in both directions, through switches
/// of memtables, flushes, compactions, splits and joins.
#[test]
fn tombstone_skip_1_2_scans_of_any_snapshot_give_their_rows_while_others_insert_into_gaps() {
    for seed in 0..4 {
        let settings = if seed % 2 == 0 { small() } else { small_parts() };
        let bench = open_with(Arc::new(SimDisk::new(seed)), settings).unwrap();
        bench.install(&(Csn(1), batch(&[Op::CreateTable(table(1))])));
        let keys = vec![Vec::new(); KEYS as usize];
        let history = Mutex::new(History { newest: 1, keys });
        let checks = AtomicUsize::new(0);
        let shared = Shared { bench, history, done: Mutex::default(), checks };
        let over = AtomicUsize::new(2);
        std::thread::scope(|scope| {
            let mut running = Vec::new();
            for writer in 0..2 {
                let (shared, over) = (&shared, &over);
                running.push(scope.spawn(move || {
                    let mut rng = Rng::new(seed * 10 + writer);
                    for _ in 0..2000 {
                        let checks = shared.checks.load(Ordering::Relaxed);
                        let published = &figures(&shared.bench).published;
                        if checks >= 200 && published.load(Ordering::Relaxed) > 20 {
                            break;
                        }
                        let from = rng.below(KEYS);
                        // Ranges are deleted, and single rows are put among them.
                        for number in from..(from + 50 + rng.below(150)).min(KEYS) {
                            shared.commit(number, false);
                            if rng.chance(1, 20) {
                                shared.commit(rng.below(KEYS), true);
                            }
                        }
                    }
                    over.fetch_sub(1, Ordering::SeqCst);
                }));
            }
            for reader in 0..2 {
                let (shared, over) = (&shared, &over);
                running.push(scope.spawn(move || {
                    let mut rng = Rng::new(seed * 10 + 5 + reader);
                    let mut old = shared.snapshot();
                    while over.load(Ordering::SeqCst) > 0 {
                        let snapshot = shared.snapshot();
                        shared.check(snapshot, &mut rng);
                        shared.check(old, &mut rng);
                        shared.let_go(snapshot);
                        if rng.chance(1, 20) {
                            shared.let_go(old);
                            old = shared.snapshot();
                        }
                    }
                }));
            }
            let (shared, over) = (&shared, &over);
            running.push(scope.spawn(move || {
                let mut rng = Rng::new(seed);
                while over.load(Ordering::SeqCst) > 0 {
                    let (whole, part) = shared.bench.part(1);
                    match rng.below(4) {
                        0 => shared.bench.engine.compact_all().unwrap(),
                        1 => drop(shared.bench.engine.0.split(&whole, &part).unwrap()),
                        2 => {
                            let active = part.view().active.clone();
                            let inner = &shared.bench.engine.0;
                            part.switch(&active, inner.write_buffer.accounts(), || {
                                inner.horizon.installed()
                            });
                        }
                        _ => shared.bench.work().unwrap(),
                    }
                }
            }));
            running.into_iter().for_each(|thread| thread.join().unwrap());
        });
        let last = shared.snapshot();
        shared.check(last, &mut Rng::new(seed));
        let published = figures(&shared.bench).published.load(Ordering::Relaxed);
        assert!(published > 20, "{published} gaps");
    }
}
