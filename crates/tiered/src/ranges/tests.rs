//! Tests lists of range tombstones against a model: sets of keys and marks.

use std::cell::Cell;
use std::collections::BTreeSet;

use spillway_base::rng::Rng;

use super::*;

thread_local! {
    /// The number of fragments that this thread has combined.
    pub(crate) static STEPS: Cell<usize> = const { Cell::new(0) };
}

/// The number of keys, which are single bytes.
const KEYS: u8 = 24;

type Set = BTreeSet<(u8, Mark)>;

fn mark(rng: &mut Rng) -> Mark {
    let csn = 1 + rng.below(6);
    Mark::new(Csn(csn), Csn(rng.below(csn)))
}

fn list(rng: &mut Rng) -> (RangeTombstones, Set) {
    let (mut list, mut set) = (RangeTombstones::NONE, Set::new());
    for _ in 0..rng.below(6) {
        let (start, mark) = (rng.below(u64::from(KEYS)) as u8, mark(rng));
        let end = rng.chance(7, 8).then(|| rng.below(u64::from(KEYS)) as u8);
        let (first, past) = ([start], end.map(|end| [end]));
        let range = KeyRange::new(&first, past.as_ref().map(|past| &past[..]));
        list = list.union(&RangeTombstones::one(range, mark));
        set.extend((start..end.unwrap_or(KEYS)).map(|key| (key, mark)));
    }
    (list, set)
}

/// The marks of each key. Also checks that the list has its unique form.
fn set_of(list: &RangeTombstones) -> Set {
    for fragment in &list.fragments {
        assert!(!fragment.range().is_empty() && !fragment.marks.is_empty());
        assert!(fragment.marks.windows(2).all(|pair| pair[0] > pair[1]));
    }
    for pair in list.fragments.windows(2) {
        let end = pair[0].end.as_deref().expect("only the last has no end");
        assert!(end <= &*pair[1].start);
    }
    let of = |key: u8| {
        let marks = list.find(&[key]).map_or(Vec::new(), |fragment| fragment.marks.clone());
        marks.into_iter().map(move |mark| (key, mark))
    };
    (0..KEYS).flat_map(of).collect()
}

#[test]
fn lists_are_added_taken_and_cut_like_sets() {
    let mut rng = Rng::new(1);
    for _ in 0..3000 {
        let ((one, a), (other, b)) = (list(&mut rng), list(&mut rng));
        assert_eq!(set_of(&one), a);
        assert_eq!(set_of(&one.union(&other)), &a | &b);
        assert_eq!(set_of(&one.minus(&other)), &a - &b);
        // Equal sets have equal lists.
        assert_eq!(one.minus(&other).union(&other), other.union(&one));
        let (low, high) = (rng.below(24) as u8, rng.below(24) as u8);
        let within = one.within(KeyRange::new(&[low], Some(&[high])));
        let inside = a.iter().filter(|(key, _)| (low..high).contains(key)).copied();
        assert_eq!(set_of(&within), inside.collect());
        let bytes: usize = one.fragments.iter().map(|fragment| fragment.marks.len()).sum();
        assert!(one.bytes() >= bytes * size_of::<Mark>());
    }
}

#[test]
fn range_tombstone_1_of_each_key_is_told_what_hides_it() {
    let mut rng = Rng::new(2);
    for _ in 0..3000 {
        let (list, set) = list(&mut rng);
        let of = |key: u8| set.iter().filter(move |(at, _)| *at == key).map(|(_, mark)| *mark);
        for key in 0..KEYS {
            for number in 0..7 {
                let seen = || of(key).filter(|mark| mark.csn.0 <= number);
                let cover = list.cover(&[key], Csn(number));
                assert_eq!(cover.map(|mark| mark.csn), seen().map(|mark| mark.csn).max());
                let upto = seen().map(|mark| mark.upto).max();
                assert_eq!(cover.map(|mark| mark.upto), upto);
                let at = list.at(Csn(number));
                assert_eq!(at.cover(&[key], Csn::MAX), cover);
                for version in 0..7 {
                    assert_eq!(at.hides(&[key], Csn(version)), upto >= Some(Csn(version)));
                }
                let hiding = of(key).filter(|mark| mark.upto.0 >= number);
                let first = hiding.map(|mark| mark.csn).min();
                assert_eq!(list.hidden_from(&[key], Csn(number)), first);
            }
        }
        let (smallest, number) = (rng.below(24) as u8, Csn(rng.below(7)));
        let largest = smallest + rng.below(u64::from(KEYS - smallest)) as u8;
        let hides = |key: u8| of(key).any(|mark| mark.upto >= number);
        // Between two keys of one byte there are longer ones. Adjacent fragments leave no gap for
        // those.
        let all = (smallest..=largest).all(hides);
        assert_eq!(list.hides_all(&[smallest], &[largest], number), all);
        let any = (smallest..=largest).any(hides);
        assert_eq!(list.touches(&[smallest], &[largest], number), any);
    }
}

#[test]
fn marks_that_tell_nobody_anything_go() {
    let mut rng = Rng::new(3);
    let mut gone = 0;
    for _ in 0..3000 {
        let (list, set) = list(&mut rng);
        let mut live: Vec<Csn> = (0..7).filter(|_| rng.chance(1, 3)).map(Csn).collect();
        let stable = Csn(rng.below(7));
        live.retain(|snapshot| *snapshot < stable);
        live.push(stable);
        let pruned = list.pruned(&live);
        gone += set.len() - set_of(&pruned).len();
        for key in 0..KEYS {
            for snapshot in live.iter().copied().chain((stable.0..8).map(Csn)) {
                let upto = |list: &RangeTombstones| Some(list.cover(&[key], snapshot)?.upto);
                assert_eq!(upto(&pruned), upto(&list), "{list:?} at {snapshot} of {live:?}");
            }
        }
    }
    assert!(gone > 1000, "{gone}");
}

#[test]
fn range_tombstone_4_what_is_needed_of_a_range_stays() {
    let range = KeyRange::new(b"b", Some(b"k"));
    let (old, new) = (Mark::new(Csn(5), Csn(4)), Mark::new(Csn(9), Csn(8)));
    let list = RangeTombstones::one(range, old).union(&RangeTombstones::one(range, new));
    let needed =
        |_: KeyRange<'_>, mark: &Mark| (mark.upto > Csn(4)).then_some((&b"a"[..], &b"d"[..]));
    let trimmed = list.trimmed(|_| true, needed);
    assert_eq!(trimmed.cover(b"d", Csn::MAX), Some(new), "the last key that is needed");
    assert_eq!(trimmed.cover(b"d\0", Csn::MAX), None);
    assert_eq!(trimmed.cover(b"b", Csn(8)), None, "nothing needs the older one");
    assert_eq!(trimmed.cover(b"a", Csn::MAX), None, "it grows nowhere");
    assert_eq!(list.trimmed(|mark| *mark == old, needed).cover(b"j", Csn::MAX), Some(new));
    assert_eq!(Mark::new(Csn(5), Csn(7)).upto, Csn(4), "RANGE-TOMBSTONE-2");
}

#[test]
fn range_tombstone_4_much_is_cut_in_little_more_than_one_pass() {
    const COUNT: u32 = 4096;
    let one = |number: u32| {
        let (start, end) = ((2 * number).to_be_bytes(), (2 * number + 1).to_be_bytes());
        let range = KeyRange::new(&start, Some(&end));
        RangeTombstones::one(range, Mark::new(Csn(5), Csn(4))).fragments
    };
    let list = RangeTombstones { fragments: (0..COUNT).flat_map(one).collect() };
    let before = STEPS.get();
    let needed = |range: KeyRange<'_>, _: &Mark| {
        let keep = range.start[3].is_multiple_of(16);
        keep.then_some((&b"\0"[..], &b"\xFF"[..]))
    };
    let trimmed = list.trimmed(|_| true, needed);
    assert_eq!(trimmed.len(), COUNT as usize / 8);
    let steps = STEPS.get() - before;
    assert!(steps < 40 * COUNT as usize, "{steps}");
}
