use spillway_base::rng::Rng;

use super::*;
use crate::extent_meta::ExtentId;

fn slice(id: u64, first: u64, last: u64) -> Arc<Slice> {
    let keys = [first, last].map(|key| format!("{key:06}"));
    Slice::detached(ExtentId(id), &keys[0], &keys[1], 100 + id % 50, 0)
}

/// A run that was changed is the one that would be made of the same slices, and a change that lets two share keys is refused.
#[test]
fn a_changed_run_is_one_of_the_same_slices() {
    let mut rng = Rng::new(11);
    let mut next = 1;
    let mut run = Arc::new(Run::default());
    for round in 0..400 {
        // Slices have keys of their own hundreds, so that those of different hundreds share none.
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
        // What is another's, or was removed before, changes nothing.
        let stranger = slice(1 << 40, 100 * rng.below(900), 100 * 900);
        let removed: Vec<_> = removed.into_iter().chain([stranger]).collect();
        let changed = run.edited(&removed, added.clone()).unwrap();
        let made = Run::new(kept.into_iter().chain(added).collect()).unwrap();
        let ids = |run: &Run| run.slices().iter().map(|s| s.meta.id()).collect::<Vec<_>>();
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

fn hundred(slice: &Slice) -> u64 {
    let key = std::str::from_utf8(&slice.meta.smallest).unwrap();
    key.parse::<u64>().unwrap() / 100
}

/// Keys that begin alike for long, or not at all, whose bytes are zeros or the largest: a run finds what a look at every slice does.
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
        // Made whole, or a few at a time.
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
            let ids = [run.find(key), wanted].map(|slice| slice.map(|slice| slice.meta.id()));
            assert_eq!(ids[0], ids[1], "{key:?} in {ends:?}");
        }
    }
}
