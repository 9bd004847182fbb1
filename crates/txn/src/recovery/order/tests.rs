use spillway_base::ErrorKind;
use spillway_base::budget::Budget;
use spillway_base::rng::Rng;

use super::super::memory::Memories;
use super::*;

/// Bytes of log of each commit.
const BYTES: usize = 100;

fn dir() -> &'static Path {
    Path::new("/log")
}

fn piece(memories: &Memories, csns: &[u64], alone: &[u64]) -> Piece {
    let commits = csns.iter().map(|csn| (Csn(*csn), alone.contains(csn)));
    Piece::of(memories, commits, BYTES)
}

/// The CSNs of some runs, in order.
fn csns(runs: &[CommitRun]) -> Vec<u64> {
    let mut csns: Vec<u64> =
        runs.iter().flat_map(CommitRun::commits).map(|commit| commit.csn.0).collect();
    csns.sort_unstable();
    csns
}

/// Commits are distributed over the pieces of lanes at random, and the pieces are read in a random
/// order of the lanes. Windows are consecutive, gapless ranges of CSNs of about the requested size,
/// in any order of reading.
#[test]
fn windows_are_gapless_whatever_order_the_lanes_are_read_in() {
    let memories = Memories::new(&Budget::new(1 << 20), 3);
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let (floor, commits) = (rng.below(20), 1 + rng.below(300));
        let missing = if rng.chance(1, 2) { floor + 1 + rng.below(commits) } else { u64::MAX };
        let mut lanes: Vec<Vec<Vec<u64>>> = vec![vec![Vec::new()]; 1 + rng.below(3) as usize];
        let count = lanes.len() as u64;
        for csn in 1..=floor + commits {
            let lane = &mut lanes[rng.below(count) as usize];
            if rng.chance(1, 20) {
                lane.push(Vec::new());
            }
            if csn != missing {
                lane.last_mut().unwrap().push(csn);
            }
        }
        lanes.iter_mut().for_each(|lane| lane.reverse());
        let memory_max = BYTES * (1 + rng.below(100) as usize);
        let (mut pending, mut last) = (Pending::default(), Csn(floor));
        let wanted = missing.min(floor + commits + 1) - 1;
        loop {
            let lane = &mut lanes[rng.below(count) as usize];
            let read = lane.pop();
            pending.add(piece(&memories, &read.unwrap_or_default(), &[]));
            pending.skip_to(Csn(floor));
            let (end, window) = pending.take(last, memory_max, dir()).unwrap();
            assert_eq!(csns(&window.runs), (last.0 + 1..=end.0).collect::<Vec<_>>());
            assert_eq!(window.len() as u64, end.0 - last.0);
            // About the requested bytes of each run, and at least one commit.
            assert!(window.bytes <= memory_max.max(BYTES), "{} of {memory_max}", window.bytes);
            let done = end == last && lanes.iter().all(Vec::is_empty);
            last = end;
            if done {
                break;
            }
        }
        assert_eq!(last.0, wanted, "seed {seed}");
        let left = if missing == u64::MAX { 0 } else { floor + commits - missing };
        assert_eq!(pending.len(), left, "seed {seed}");
    }
}

/// A commit that is in the log twice is damage: in one window, in two, and in place of a missing
/// one.
#[test]
fn a_commit_that_is_in_the_log_twice_is_damage() {
    let memories = Memories::new(&Budget::new(1 << 20), 2);
    let damaged = |runs: &[&[u64]], last: u64| {
        let mut pending = Pending::default();
        runs.iter().for_each(|csns| pending.add(piece(&memories, csns, &[])));
        let error = pending.take(Csn(last), usize::MAX, dir()).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
        assert!(error.to_string().contains("is in the log twice"), "{error}");
    };
    damaged(&[&[5, 6, 7], &[6]], 4);
    damaged(&[&[5, 6], &[6, 8]], 4);
    damaged(&[&[6, 7], &[3]], 5);
}

#[test]
fn a_window_names_the_commits_that_are_installed_alone_and_splits_before_them() {
    let memories = Memories::new(&Budget::new(1 << 20), 2);
    let mut pending = Pending::default();
    pending.add(piece(&memories, &[2, 4, 5], &[4]));
    pending.add(piece(&memories, &[1, 3, 6], &[6]));
    let (end, mut window) = pending.take(Csn::ZERO, usize::MAX, dir()).unwrap();
    assert_eq!((end, window.alone.clone()), (Csn(6), vec![Csn(4), Csn(6)]));
    assert_eq!(csns(&window.split_front(Csn(3))), [1, 2, 3]);
    assert_eq!(csns(&window.split_front(Csn(4))), [4]);
    assert_eq!(csns(&window.runs), [5, 6]);
}
