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
