use std::collections::BTreeSet;

use spillway_base::ErrorKind;
use spillway_base::rng::Rng;

use super::slots::{SlotMap, SlotRun};

#[test]
fn slots_are_never_given_out_twice() {
    let mut rng = Rng::new(3);
    let mut map = SlotMap::default();
    map.resize(0, 130);
    map.resize(4, 64);
    let mut held: Vec<SlotRun> = Vec::new();
    let mut used = BTreeSet::new();
    for _ in 0..20_000 {
        if rng.chance(1, 2) && !held.is_empty() {
            let run = held.swap_remove(rng.below(held.len() as u64) as usize);
            map.release(run);
            (run.first..run.end()).for_each(|slot| assert!(used.remove(&(run.file, slot))));
        } else {
            let count = 1 + rng.below(6) as u32;
            let free_run = [(0, 130), (4, 64)].iter().any(|&(file, slots): &(u32, u32)| {
                (0..slots.saturating_sub(count - 1))
                    .any(|first| (first..first + count).all(|slot| !used.contains(&(file, slot))))
            });
            let run = map.allocate(count);
            assert_eq!(run.is_some(), free_run, "{count} consecutive slots");
            if let Some(run) = run {
                assert_eq!(run.count, count);
                (run.first..run.end()).for_each(|slot| assert!(used.insert((run.file, slot))));
                held.push(run);
            }
        }
        assert_eq!(map.totals(), (194, 194 - used.len() as u64));
    }
    let kept: Vec<_> = map.free_tails().collect();
    for (file, slots) in kept {
        assert!((slots..).take(130).all(|slot| !used.contains(&(file, slot))));
        map.resize(file, slots);
    }
}

#[test]
fn a_slot_referenced_twice_or_past_the_end_is_corruption() {
    let mut map = SlotMap::default();
    map.resize(1, 10);
    map.mark(SlotRun { file: 1, first: 2, count: 3 }).unwrap();
    for (run, message) in [
        (SlotRun { file: 1, first: 4, count: 1 }, "slot 4 of data file 1 is referenced twice"),
        (SlotRun { file: 1, first: 9, count: 2 }, "ends at slot 10"),
        (SlotRun { file: 2, first: 0, count: 1 }, "data file 2 is missing"),
        (SlotRun { file: 1, first: u32::MAX, count: 2 }, "is missing"),
    ] {
        let error = map.mark(run).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
        assert!(error.to_string().contains(message), "{error}");
    }
}
