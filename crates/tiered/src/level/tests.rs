use spillway_base::rng::Rng;

use super::tree::{ENTRIES_MAX, SliceNode};
use super::*;
use crate::extent_meta::{ExtentId, SliceId};

fn slice(id: u64, first: u64, last: u64) -> Arc<Slice> {
    let keys = [first, last].map(|key| format!("{key:06}"));
    Slice::detached(ExtentId(id), &keys[0], &keys[1], 100 + id % 50, 0)
}

/// An edited run equals one built from the same slices, and an edit by which two slices would share
/// keys is refused.
#[test]
fn a_changed_run_is_one_of_the_same_slices() {
    let mut rng = Rng::new(11);
    let mut next = 1;
    let mut run = Arc::new(Run::default());
    for round in 0..400 {
        // Each slice has keys of certain hundreds, so slices of different hundreds share no key.
        let share = [1, 3, 20][round % 3];
        let (removed, kept): (Vec<_>, Vec<_>) =
            run.slices().iter().cloned().partition(|_| rng.below(20) < share);
        let there: Vec<u64> = kept.iter().map(|slice| hundred(slice)).collect();
        let mut added: Vec<Arc<Slice>> = Vec::new();
        for _ in 0..rng.below(30) {
            let at = rng.below(900);
            if !there.contains(&at) && added.iter().all(|slice| hundred(slice) != at) {
                next += 1;
                added.push(slice(next, 100 * at + rng.below(40), 100 * at + 40 + rng.below(60)));
            }
        }
        // Removing a slice of another run, or one that was removed before, changes nothing.
        let stranger = slice(1 << 40, 100 * rng.below(900), 100 * 900);
        let removed: Vec<_> = removed.into_iter().chain([stranger]).collect();
        let changed = run.edited(&removed, added.clone()).unwrap();
        let made = Run::new(kept.into_iter().chain(added).collect()).unwrap();
        assert_eq!(ids(&changed), ids(&made));
        assert_eq!((changed.bytes(), changed.csn_max()), (made.bytes(), made.csn_max()));
        if let Some(taken) = changed.slices().first() {
            let over = slice(1 << 41, 100 * hundred(taken) + 40, 100 * hundred(taken) + 41);
            assert!(changed.edited(&[], vec![over]).is_err());
        }
        run = changed;
    }
    assert!(Arc::ptr_eq(&run, &run.edited(&[], Vec::new()).unwrap()));
}

fn ids(run: &Run) -> Vec<SliceId> {
    run.slices().iter().map(|slice| slice.meta.id()).collect()
}

/// The nodes of a run, and the depth of its tree. Checks the tree's invariants (SLICE-TREE-1,
/// SLICE-TREE-4).
fn nodes(run: &Run) -> (Vec<&Arc<SliceNode>>, usize) {
    let mut nodes = Vec::new();
    let depth = run.root().walk(true, &mut nodes);
    (nodes, depth)
}

/// The nodes of a run that are not nodes of the previous one.
fn copied(before: &Run, after: &Run) -> usize {
    let old: std::collections::HashSet<_> = nodes(before).0.into_iter().map(Arc::as_ptr).collect();
    nodes(after).0.into_iter().filter(|node| !old.contains(&Arc::as_ptr(node))).count()
}

/// A history of small and large edits that grow and shrink the tree. Each run equals a flat list,
/// its tree is balanced, and earlier runs are unchanged (SLICE-TREE-1, SLICE-TREE-2, SLICE-TREE-4).
#[test]
fn a_tree_has_what_a_flat_list_has_and_old_ones_stay() {
    let mut rng = Rng::new(13);
    let mut flat: std::collections::BTreeMap<u64, Arc<Slice>> = Default::default();
    let mut run = Arc::new(Run::default());
    let mut old: Vec<(Arc<Run>, Vec<SliceId>)> = Vec::new();
    let (mut deepest, mut next) = (0, 1);
    for round in 0..1500 {
        // It grows for a third of the time and shrinks for the next third, at the end to nothing.
        let (grows, shrinks) = [(12, 4), (2, 12), (6, 6)][round / 100 % 3];
        let mut removed: Vec<Arc<Slice>> = Vec::new();
        let from = rng.below(6000);
        // Some adjacent slices, as in an edit, or random ones.
        for (&at, slice) in flat.range(from..).take(rng.below(shrinks) as usize) {
            removed.extend(rng.chance(4, 5).then(|| slice.clone()).filter(|_| at < 6000));
        }
        if round % 500 == 499 {
            removed = flat.values().cloned().collect();
        }
        let mut added = Vec::new();
        removed.iter().for_each(|slice| drop(flat.remove(&hundred(slice))));
        for _ in 0..rng.below(grows) {
            let at = if rng.chance(1, 2) { from + rng.below(30) } else { rng.below(6000) };
            flat.entry(at).or_insert_with(|| {
                next += 1;
                added.push(slice(next, 100 * at, 100 * at + rng.below(100)));
                added[added.len() - 1].clone()
            });
        }
        let after = run.edited(&removed, added).unwrap();
        let listed: Vec<SliceId> = flat.values().map(|slice| slice.meta.id()).collect();
        assert_eq!(ids(&after), listed);
        let mut backward: Vec<_> = after.slices().iter().rev().map(|s| s.meta.id()).collect();
        backward.reverse();
        assert_eq!(backward, listed);
        deepest = deepest.max(nodes(&after).1);
        let slices: Vec<&Arc<Slice>> = flat.values().collect();
        assert_eq!(after.bytes(), slices.iter().map(|slice| slice.meta.bytes).sum::<u64>());
        let [a, b] = [(); 2].map(|()| format!("{:06}", rng.below(610_000)));
        let (low, high) = (a.as_bytes().min(b.as_bytes()), a.as_bytes().max(b.as_bytes()));
        let in_flat = |past: &dyn Fn(&Slice) -> bool| {
            let within = slices.iter().filter(|slice| *slice.meta.largest >= *low && past(slice));
            within.map(|slice| slice.meta.id()).collect::<Vec<_>>()
        };
        let found = |found: Slices<'_>| found.iter().map(|s| s.meta.id()).collect::<Vec<_>>();
        assert_eq!(found(after.between(low, high)), in_flat(&|s| *s.meta.smallest <= *high));
        let range = KeyRange::new(low, Some(high));
        assert_eq!(found(after.within(range)), in_flat(&|s| *s.meta.smallest < *high));
        // From both ends at once.
        let mut ends = after.within(range).iter();
        let mut both: Vec<SliceId> = Vec::new();
        let mut back: Vec<SliceId> = Vec::new();
        while ends.len() > 0 {
            match rng.chance(1, 2) {
                true => both.extend(ends.next().map(|slice| slice.meta.id())),
                false => back.extend(ends.next_back().map(|slice| slice.meta.id())),
            }
        }
        both.extend(back.into_iter().rev());
        assert_eq!(both, found(after.within(range)));
        if round % 50 == 0 {
            old.push((run, ids(&after)));
            old.last_mut().unwrap().0 = after.clone();
        }
        for (run, listed) in &old {
            assert!(round % 50 > 0 || ids(run) == *listed);
        }
        run = after;
    }
    assert!(deepest >= 4, "{deepest}");
}

/// An edit of one place copies a few nodes at each level of the path to it and shares all others
/// (SLICE-TREE-3). An edit of many places does so for each of them.
#[test]
fn an_edit_copies_the_paths_to_what_it_changes() {
    let mut rng = Rng::new(14);
    let slices: Vec<Arc<Slice>> =
        (0..9000).map(|at| slice(at + 1, 100 * at, 100 * at + 50)).collect();
    let mut run = Arc::new(Run::new(slices).unwrap());
    let (all, depth) = nodes(&run);
    let all = all.len();
    assert!(depth >= 4 && all > 9000 / ENTRIES_MAX);
    for round in 0..600 {
        let places = 1 + round % 3 * 4;
        let (mut removed, mut added) = (Vec::new(), Vec::new());
        for _ in 0..places {
            let slices = run.slices();
            let at = rng.below(slices.len() as u64) as usize;
            let own = slices.at(at);
            // It is removed, is replaced, or gets a new successor.
            let first = 100 * hundred(own);
            match rng.below(3) {
                0 => removed.push(own.clone()),
                1 => {
                    removed.push(own.clone());
                    added.push(slice(10_000 + round as u64, first, first + 50));
                }
                _ => added.push(slice(20_000 + round as u64, first + 60, first + 70)),
            }
        }
        let Ok(after) = run.edited(&removed, added) else {
            // Two new slices have the same place.
            continue;
        };
        // At each level the node on the path, and the nodes that it is split into or joined with.
        let copied = copied(&run, &after);
        assert!(copied <= 3 * places as usize * nodes(&after).1, "{copied} for {places}");
        run = after;
    }
}

/// Adjacent slices that share keys are refused, in one leaf and in two, whether one of them is new
/// or both (SLICE-TREE-1).
#[test]
fn an_edit_that_would_share_keys_is_refused_anywhere() {
    let slices: Vec<Arc<Slice>> =
        (0..500).map(|at| slice(at + 1, 100 * at, 100 * at + 50)).collect();
    let run = Arc::new(Run::new(slices).unwrap());
    let before = ids(&run);
    for at in 0..499 {
        let own = run.slices().at(at as usize).clone();
        // Past the next slice's first key, or just below it.
        for (last, is_refused) in [(100 * at + 100, true), (100 * at + 99, false)] {
            let behind = slice(1000, 100 * at + 51, last);
            assert_eq!(run.edited(&[], vec![behind.clone()]).is_err(), is_refused);
            assert_eq!(run.edited(std::slice::from_ref(&own), vec![behind]).is_err(), is_refused);
            // Two new slices in free places.
            let next = run.slices().at(at as usize + 1).clone();
            let pair =
                vec![slice(1000, 100 * at, last), slice(1001, 100 * at + 100, 100 * at + 110)];
            assert_eq!(run.edited(&[own.clone(), next], pair).is_err(), is_refused);
        }
    }
    assert_eq!(ids(&run), before);
}

fn hundred(slice: &Slice) -> u64 {
    let key = std::str::from_utf8(&slice.meta.smallest).unwrap();
    key.parse::<u64>().unwrap() / 100
}

/// Keys with a long common prefix or none, and with zero or largest bytes: a run finds the same
/// slices as a search of every slice.
#[test]
fn slices_are_found_as_by_a_look_at_each() {
    let mut rng = Rng::new(12);
    let prefixes =
        ["", "t", "a-prefix-that-is-longer-than-what-is-kept-of-it-", "\0\0", "\x7f\x7f"];
    for round in 0..200 {
        let prefix = prefixes[round % prefixes.len()];
        let key = |rng: &mut Rng| {
            let bytes = (0..rng.below(14)).map(|_| ['\0', 'a', 'b', '\x7f'][rng.below(4) as usize]);
            format!("{prefix}{}", bytes.collect::<String>())
        };
        let mut ends: Vec<String> = (0..2 + rng.below(60)).map(|_| key(&mut rng)).collect();
        ends.sort_unstable();
        ends.dedup();
        let pairs = ends.chunks_exact(2).enumerate();
        let slices = pairs
            .map(|(id, pair)| Slice::detached(ExtentId(id as u64 + 1), &pair[0], &pair[1], 100, 0));
        let slices: Vec<Arc<Slice>> = slices.collect();
        // Built at once, or a few slices at a time.
        let mut run = Arc::new(Run::new(slices.clone()).unwrap());
        if round % 2 == 0 {
            run = Arc::new(Run::default());
            let mut left = slices.clone();
            while !left.is_empty() {
                let some = left.split_off(left.len() - (1 + left.len() / 3));
                run = run.edited(&[], some).unwrap();
            }
        }
        let others = (0..50).map(|_| {
            let long = key(&mut rng);
            let cut = rng.below(long.len() as u64 + 1) as usize;
            if rng.chance(1, 2) { long } else { long[..cut].to_owned() }
        });
        for key in others.chain(ends.iter().cloned()).chain(["\x7f\x7f\x7f".to_owned()]) {
            let key = key.as_bytes();
            let seek = slices.iter().take_while(|slice| *slice.meta.largest < *key).count();
            assert_eq!(run.seek(key), seek, "{key:?} in {ends:?}");
            let wanted = slices.get(seek).filter(|slice| *slice.meta.smallest <= *key);
            let ids = [run.slice_of(key), wanted].map(|slice| slice.map(|slice| slice.meta.id()));
            assert_eq!(ids[0], ids[1], "{key:?} in {ends:?}");
        }
    }
}
