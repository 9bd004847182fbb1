//! Tests gaps without concurrency: one thread takes each step at the point that the test chooses.

use std::sync::Arc;

use spillway_base::budget::Budget;
use spillway_base::rng::Rng;

use super::*;
use crate::level::Levels;
use crate::memtable::{Accounts, Memtable};
use crate::view::View;

fn gaps() -> TombstoneSkip {
    TombstoneSkip::new(true, Arc::default())
}

fn gap(start: &str, end: &str, csn: u64) -> Gap {
    Gap {
        start: start.as_bytes().into(),
        end: end.as_bytes().into(),
        first: start.as_bytes().into(),
        csn: Csn(csn),
        walked: 1000,
    }
}

fn view() -> Arc<View> {
    let active = Arc::new(Memtable::new(&Accounts::new(Budget::new(usize::MAX), 0)));
    Arc::new(View { active, immutables: Vec::new(), levels: Arc::new(Levels::default()) })
}

fn insert(gaps: &TombstoneSkip, view: &View, key: &str, csn: u64, value: Option<&[u8]>) {
    let inside = view.active.enter().unwrap();
    view.active.insert(&inside, key.as_bytes(), Csn(csn), value);
    if value.is_some() {
        gaps.cut(key.as_bytes());
    }
}

/// Publishes without concurrent insertions.
fn publish(gaps: &TombstoneSkip, view: &Arc<View>, gap: Gap) -> bool {
    gaps.publish(gap, |act| (act() && view.active.passed()).then(|| view.clone()))
}

fn active(list: &[(&str, &str, u64)]) -> Vec<(String, String, u64)> {
    list.iter().map(|(start, end, csn)| ((*start).into(), (*end).into(), *csn)).collect()
}

fn leaps(gaps: &TombstoneSkip, key: &str, snapshot: u64) -> bool {
    gaps.over(key.as_bytes(), Csn(snapshot)).is_some()
}

#[test]
fn tombstone_skip_1_snapshots_before_it_and_keys_beside_it_do_not_leap() {
    let (gaps, view) = (gaps(), view());
    assert!(publish(&gaps, &view, gap("c", "f", 7)));
    assert!(leaps(&gaps, "c", 7) && leaps(&gaps, "e", 9));
    assert!(!leaps(&gaps, "c", 6), "TOMBSTONE-SKIP-1: an older snapshot");
    assert!(!leaps(&gaps, "b", 7) && !leaps(&gaps, "f", 7));
    let begin = |start: &'static [u8], end: Option<&'static [u8]>, direction| {
        gaps.at_begin(KeyRange::new(start, end), direction, Csn(7)).is_some()
    };
    assert!(begin(b"d", None, Direction::Forward) && !begin(b"b", None, Direction::Forward));
    assert!(begin(b"", Some(b"f"), Direction::Backward));
    assert!(!begin(b"", Some(b"c"), Direction::Backward));
    assert!(!begin(b"", Some(b"g"), Direction::Backward) && !begin(b"", None, Direction::Backward));
}

#[test]
fn what_a_leap_leaves_of_a_range() {
    let gap = gap("c", "f", 1);
    let leave = |start: &'static [u8], end: Option<&'static [u8]>, direction| {
        let left = gap.leave(KeyRange::new(start, end), direction);
        (left.start.to_vec(), left.end.map(<[u8]>::to_vec), left.is_empty())
    };
    assert_eq!(leave(b"d", None, Direction::Forward), (b"f".into(), None, false));
    assert_eq!(leave(b"x", None, Direction::Forward), (b"x".into(), None, false));
    assert!(leave(b"c", Some(b"e"), Direction::Forward).2);
    assert_eq!(leave(b"a", None, Direction::Backward), (b"a".into(), Some(b"c".into()), false));
    assert!(leave(b"c", Some(b"e"), Direction::Backward).2);
    assert_eq!(leave(b"", Some(b"b"), Direction::Backward).1, Some(b"b".into()));
}

#[test]
fn tombstone_skip_2_a_value_cuts_an_active_gap_and_a_tombstone_does_not() {
    let (gaps, view) = (gaps(), view());
    assert!(publish(&gaps, &view, gap("b", "m", 7)));
    insert(&gaps, &view, "d", 9, None);
    insert(&gaps, &view, "m", 9, Some(b"behind"));
    insert(&gaps, &view, "a", 9, Some(b"before"));
    assert_eq!(gaps.all(), active(&[("b", "m", 7)]));
    insert(&gaps, &view, "f", 8, Some(b"in it"));
    assert_eq!(gaps.all(), active(&[("b", "f", 7), ("f+", "m", 7)]));
    insert(&gaps, &view, "b", 10, Some(b"its first"));
    assert_eq!(gaps.all(), active(&[("b+", "f", 7), ("f+", "m", 7)]));
}

/// TOMBSTONE-SKIP-2: if a value is inserted before or after the begin of a trial, one of the two
/// threads sees the other.
#[test]
fn tombstone_skip_2_a_value_that_is_inserted_meanwhile_keeps_a_gap_from_becoming_active() {
    for after in [true, false] {
        let (gaps, view) = (gaps(), view());
        let published = gaps.publish(gap("b", "m", 7), |act| {
            if !after {
                insert(&gaps, &view, "c", 8, Some(b"not seen by the scan"));
            }
            assert!(act());
            if after {
                insert(&gaps, &view, "c", 8, Some(b"not seen by the scan"));
            }
            Some(view.clone())
        });
        // The part before it still is a gap, if the second look found the value.
        assert_eq!(published, !after);
        assert_eq!(gaps.all(), active(if after { &[] } else { &[("b", "c", 7)] }));
        assert!(!leaps(&gaps, "c", 9));
    }
}

/// A key that the scan's snapshot sees as deleted may have a value again, and an old value may be
/// hidden by a tombstone.
#[test]
fn the_second_look_is_for_values_above_the_snapshot() {
    let (gaps, view) = (gaps(), view());
    insert(&gaps, &view, "c", 3, Some(b"old"));
    insert(&gaps, &view, "c", 5, None);
    insert(&gaps, &view, "d", 9, None);
    assert!(publish(&gaps, &view, gap("b", "m", 7)));
    assert_eq!(gaps.all(), active(&[("b", "m", 7)]));
    assert!(publish(&gaps, &view, gap("p", "x", 7)));
    let (gaps, view) = (self::gaps(), self::view());
    insert(&gaps, &view, "c", 8, Some(b"again"));
    insert(&gaps, &view, "c", 9, None);
    assert!(publish(&gaps, &view, gap("b", "m", 7)), "as far as that");
    assert_eq!(gaps.all(), active(&[("b", "c", 7)]), "a snapshot at 8 sees it");
    assert!(!publish(&gaps, &view, gap("c", "m", 7)), "there is nothing before it");
}

/// TOMBSTONE-SKIP-2: the second look visits the leaves of a memtable, and finds a value at each
/// place of a leaf, and before it.
#[test]
fn tombstone_skip_2_the_second_look_finds_a_value_wherever_it_is() {
    let key = |number: usize| format!("k{number:03}");
    for at in 0..80 {
        let (gaps, view) = (gaps(), view());
        for number in (0..80).rev() {
            insert(&gaps, &view, &key(number), 3, Some(b"old"));
            insert(&gaps, &view, &key(number), 5, None);
        }
        // Deleted again, although there is a value below.
        insert(&gaps, &view, &key(at), 8, Some(b"new"));
        insert(&gaps, &view, &key(at), 9, None);
        let all = gap(&key(1), &key(60), 7);
        let published = publish(&gaps, &view, all);
        let left = match at {
            1 => None,
            2..60 => Some(key(at)),
            _ => Some(key(60)),
        };
        assert_eq!(published, left.is_some(), "{at}");
        let expected = left.map(|end| (key(1), end, 7));
        assert_eq!(gaps.all(), expected.into_iter().collect::<Vec<_>>(), "{at}");
    }
}

#[test]
fn gaps_that_touch_are_one_and_those_within_are_looked_over_once() {
    let (gaps, view) = (gaps(), view());
    assert!(publish(&gaps, &view, gap("b", "f", 7)));
    assert!(publish(&gaps, &view, gap("m", "p", 9)));
    assert!(publish(&gaps, &view, gap("f", "h", 8)));
    assert_eq!(gaps.all(), active(&[("b", "h", 8), ("m", "p", 9)]));
    assert!(!publish(&gaps, &view, gap("c", "d", 9)), "it is known");
    // A value that the list does not know: the second look skips active gaps.
    let inside = view.active.enter().unwrap();
    view.active.insert(&inside, b"c", Csn(99), Some(b"hidden"));
    drop(inside);
    assert!(publish(&gaps, &view, gap("a", "q", 10)));
    assert_eq!(gaps.all(), active(&[("a", "q", 10)]));
}

#[test]
fn a_gap_that_is_cut_again_and_again_goes() {
    let (gaps, view) = (gaps(), view());
    let all = Gap { walked: 160, ..gap("a", "z", 1) };
    assert!(publish(&gaps, &view, all));
    // Each cut lowers the worth of the rest, and a cut in two halves it.
    for (key, left) in [("a", 1), ("b", 2), ("c", 1), ("d", 1), ("a5", 0)] {
        insert(&gaps, &view, key, 2, Some(b"row"));
        assert_eq!(gaps.all().len(), left, "after {key}");
    }
    assert_eq!(gaps.count.load(Ordering::Relaxed), 0);
}

/// TOMBSTONE-SKIP-4.
#[test]
fn tombstone_skip_4_the_gaps_that_spare_the_least_give_way() {
    let (gaps, view) = (gaps(), view());
    let most = GAPS_MAX as u64;
    for at in 0..most + 24 {
        let (start, end) = (format!("{at:04}a"), format!("{at:04}b"));
        let walked = if at == 3 { 1 << 40 } else { 100 + at };
        assert!(publish(&gaps, &view, Gap { walked, ..gap(&start, &end, 1) }));
        assert!(gaps.all().len() <= GAPS_MAX);
    }
    assert_eq!(gaps.all().len(), GAPS_MAX);
    assert!(leaps(&gaps, "0003a", 1), "the one that spares the most");
    for at in most + 24..2 * most {
        let (start, end) = (format!("{at:04}a"), format!("{at:04}b"));
        publish(&gaps, &view, Gap { walked: 1 << 20, ..gap(&start, &end, 1) });
    }
    assert!(!leaps(&gaps, "0003a", 1), "it has become old");
}

#[test]
fn tombstone_skip_4_long_keys_have_fewer_gaps() {
    let (gaps, view) = (gaps(), view());
    let long = "k".repeat(KEY_BYTES_MAX - 8);
    for at in 0..GAPS_MAX {
        let (start, end) = (format!("{at:04}a{long}"), format!("{at:04}b{long}"));
        assert!(publish(&gaps, &view, gap(&start, &end, 1)));
        let bytes = |(start, end, _): &(String, String, u64)| start.len() + end.len();
        assert!(gaps.all().iter().map(bytes).sum::<usize>() <= GAPS_BYTES_MAX);
    }
    let most = GAPS_BYTES_MAX / (2 * KEY_BYTES_MAX);
    assert!((most / 2..=most).contains(&gaps.all().len()), "{} of {most}", gaps.all().len());
}

#[test]
fn tombstone_skip_5_a_gap_that_grew_stays_what_it_was_to_older_snapshots() {
    let (gaps, view) = (gaps(), view());
    assert!(publish(&gaps, &view, gap("b", "f", 7)));
    assert!(publish(&gaps, &view, gap("b", "m", 9)));
    assert_eq!(gaps.all(), active(&[("b", "m", 9)]));
    assert!(leaps(&gaps, "c", 9) && leaps(&gaps, "g", 9));
    assert!(leaps(&gaps, "c", 8) && leaps(&gaps, "c", 7) && !leaps(&gaps, "g", 8));
    assert!(!leaps(&gaps, "c", 6));
    let backward = |end: &'static [u8], snapshot| {
        let range = KeyRange::new(b"", Some(end));
        gaps.at_begin(range, Direction::Backward, Csn(snapshot)).is_some()
    };
    assert!(backward(b"m", 9) && backward(b"f", 8) && !backward(b"g", 8));
    insert(&gaps, &view, "d", 10, Some(b"row"));
    for snapshot in [7, 9, 10] {
        assert!(!leaps(&gaps, "d", snapshot), "TOMBSTONE-SKIP-2");
        assert!(leaps(&gaps, "c", snapshot) && leaps(&gaps, "e", snapshot), "{snapshot}");
    }
}

/// TOMBSTONE-SKIP-5: a scan at an old snapshot publishes a gap for old snapshots, although newer
/// ones know a wider gap.
#[test]
fn tombstone_skip_5_what_is_found_at_an_older_snapshot_is_kept_too() {
    let (gaps, view) = (gaps(), view());
    assert!(publish(&gaps, &view, gap("b", "m", 9)));
    assert!(publish(&gaps, &view, gap("c", "f", 7)));
    assert_eq!(gaps.all(), active(&[("b", "m", 9)]));
    assert!(leaps(&gaps, "d", 7) && !leaps(&gaps, "b", 7) && !leaps(&gaps, "d", 6));
    assert!(!publish(&gaps, &view, gap("d", "e", 8)), "it is known");
    assert!(publish(&gaps, &view, gap("b", "m", 8)));
    assert_eq!(gaps.all(), active(&[("b", "m", 8)]), "all of it to more");
}

/// TOMBSTONE-SKIP-4, TOMBSTONE-SKIP-5: a queue's head that grows with each commit. An old snapshot
/// walks at most a few times its own age of it.
#[test]
fn tombstone_skip_5_what_older_snapshots_miss_is_in_proportion_to_their_age() {
    let key = |number: u64| format!("{number:04}");
    let mut list = List::default();
    for csn in 1..=1000 {
        list.add(gap(&key(0), &key(csn), csn));
        let [known] = &list.active[..] else { panic!("they touch") };
        assert!(known.earlier().len() <= EARLIER_MAX);
        for age in [0, 1, 2, 5, 12, 30].into_iter().filter(|age| *age < csn) {
            let snapshot = csn - age;
            let leapt = list.over(key(0).as_bytes(), Csn(snapshot)).map_or(0, |gap| gap.csn.0);
            assert!(snapshot - leapt <= 16 * age, "{csn}: of {snapshot} up to {leapt}");
        }
    }
}

/// TOMBSTONE-SKIP-1, TOMBSTONE-SKIP-2: with random additions and cuts, a leap at a snapshot covers
/// only keys of a gap with that CSN or an earlier one, which had no value since.
#[test]
fn tombstone_skip_1_leaps_are_over_what_was_found_and_never_cut_since() {
    const KEYS: u64 = 30;
    let name = |key: u64| format!("{key:02}");
    let mut rng = Rng::new(7);
    let mut leapt = 0;
    for _ in 0..200 {
        let mut list = List::default();
        // For each key, the lowest CSN at which it was found without a row.
        let mut found = [u64::MAX; KEYS as usize];
        for csn in 1..60_u64 {
            if rng.chance(3, 10) {
                let key = rng.below(KEYS);
                list.cut(name(key).as_bytes());
                found[key as usize] = u64::MAX;
            } else {
                let csn = csn - rng.below(csn.min(8));
                let start = rng.below(KEYS);
                let end = KEYS.min(start + 1 + rng.below(12));
                let new = gap(&name(start), &name(end), csn);
                if list.may_try(&new) {
                    list.add(new);
                    for key in start..end {
                        found[key as usize] = found[key as usize].min(csn);
                    }
                }
            }
            assert!(list.active.is_sorted_by(|one, next| one.gap.end < next.gap.start));
            for (key, snapshot) in (0..KEYS).flat_map(|key| [(key, csn), (key, csn / 2)]) {
                let Some(gap) = list.over(name(key).as_bytes(), Csn(snapshot)) else { continue };
                assert!(gap.covers(name(key).as_bytes()) && gap.csn.0 <= snapshot);
                let within = (0..KEYS).filter(|key| gap.covers(name(*key).as_bytes()));
                assert!(within.into_iter().all(|key| found[key as usize] <= snapshot));
                leapt += 1;
            }
        }
    }
    assert!(leapt > 10_000, "{leapt}");
}

#[test]
fn nothing_is_kept_where_it_is_off_or_the_view_is_not_to_be_had_or_keys_are_long() {
    let (gaps, view) = (gaps(), view());
    assert!(!gaps.publish(gap("b", "f", 1), |_| None));
    assert!(!gaps.publish(gap("b", "f", 1), |act| (!act()).then(|| view.clone())));
    let long = "k".repeat(KEY_BYTES_MAX + 1);
    assert!(!publish(&gaps, &view, gap("b", &long, 1)));
    assert_eq!(gaps.count.load(Ordering::Relaxed), 0, "what was on trial is withdrawn");
    let off = TombstoneSkip::new(false, Arc::default());
    assert!(!publish(&off, &view, gap("b", "f", 1)));
}

#[test]
fn who_stays_inside_keeps_a_gap_away() {
    let (gaps, view) = (gaps(), view());
    let inside = view.active.enter().unwrap();
    assert!(!publish(&gaps, &view, gap("b", "f", 1)));
    drop(inside);
    assert!(publish(&gaps, &view, gap("b", "f", 1)));
    view.active.seal();
    assert!(!publish(&gaps, &view, gap("h", "k", 1)), "others come into another memtable");
}

mod stretches {
    use super::*;

    /// What a scan passed, as a gap: `d` for a tombstone, `g` for a gap from there to the next key.
    fn passed(direction: Direction, from: Option<&str>, steps: &[&str]) -> Option<Gap> {
        let mut stretch = Stretch::default();
        for step in steps {
            match step.split_once("..") {
                None => stretch.walk(direction, step.as_bytes(), from.map(str::as_bytes)),
                Some((start, end)) => stretch.leap(direction, &gap(start, end, 1)),
            }
        }
        // Enough for the gap to be worth it.
        stretch.walked += WALKED_MIN;
        stretch.finish(direction, None, Csn(5), &gaps())
    }

    fn of(gap: Option<Gap>) -> (String, String, String) {
        let text = |key: &[u8]| String::from_utf8_lossy(key).replace('\0', "+");
        let gap = gap.unwrap();
        (text(&gap.start), text(&gap.first), text(&gap.end))
    }

    fn is(start: &str, first: &str, end: &str) -> (String, String, String) {
        (start.into(), first.into(), end.into())
    }

    #[test]
    fn it_is_from_where_the_scan_began_to_behind_the_last_tombstone() {
        let (forward, backward) = (Direction::Forward, Direction::Backward);
        let steps = ["c", "d", "e"];
        assert_eq!(of(passed(forward, Some("a"), &steps)), is("a", "c", "e+"));
        assert_eq!(of(passed(forward, None, &steps)), is("c", "c", "e+"));
        assert_eq!(of(passed(backward, None, &["e", "d", "c"])), is("c", "c", "e+"));
    }

    #[test]
    fn gaps_that_were_leapt_over_are_in_it() {
        let (forward, backward) = (Direction::Forward, Direction::Backward);
        assert_eq!(of(passed(forward, None, &["b..e", "f"])), is("b", "b", "f+"));
        assert_eq!(of(passed(forward, Some("a"), &["b", "c..e"])), is("a", "b", "e"));
        assert_eq!(of(passed(backward, None, &["f", "b..e"])), is("b", "b", "f+"));
        assert_eq!(of(passed(backward, None, &["b..e", "a"])), is("a", "a", "e"));
    }

    /// TOMBSTONE-SKIP-1: ranges that sources leapt out of count as passed up to the row that was
    /// found, and not if the scan ended without a row.
    #[test]
    fn what_was_leapt_out_of_is_in_it_up_to_the_row_that_was_found() {
        let passed = |direction, found: Option<&str>| {
            let mut stretch = Stretch::default();
            stretch.walk(direction, b"m", None);
            stretch.leap_hidden(direction, KeyRange::new(b"f", Some(b"r")));
            stretch.leap_hidden(direction, KeyRange::new(b"h", Some(b"p")));
            stretch.finish(direction, found.map(str::as_bytes), Csn(5), &gaps())
        };
        let (forward, backward) = (Direction::Forward, Direction::Backward);
        assert_eq!(of(passed(forward, Some("x"))), is("m", "m", "r"));
        assert_eq!(of(passed(forward, Some("o"))), is("m", "m", "o"));
        assert_eq!(of(passed(backward, Some("a"))), is("f", "m", "m+"));
        assert_eq!(of(passed(backward, Some("g"))), is("g+", "m", "m+"));
        assert_eq!((passed(forward, None), passed(backward, None)), (None, None));
    }

    #[test]
    fn few_tombstones_are_not_worth_one_but_two_gaps_are() {
        let gaps = gaps();
        let mut stretch = Stretch::default();
        for _ in 0..2 {
            for at in 1..WALKED_MIN {
                stretch.walk(Direction::Forward, format!("{at:03}").as_bytes(), None);
            }
            assert!(stretch.finish(Direction::Forward, None, Csn(1), &gaps).is_none());
        }
        assert!(
            stretch.finish(Direction::Forward, None, Csn(1), &gaps).is_none(),
            "nothing was passed since"
        );
        stretch.leap(Direction::Forward, &gap("b", "d", 1));
        assert!(stretch.finish(Direction::Forward, None, Csn(1), &gaps).is_none());
        stretch.leap(Direction::Forward, &gap("b", "d", 1));
        stretch.leap(Direction::Forward, &gap("e", "g", 1));
        assert!(stretch.finish(Direction::Forward, None, Csn(1), &gaps).is_some());
        assert_eq!(gaps.figures.walked.load(Ordering::Relaxed), 2 * (WALKED_MIN - 1));
    }
}
