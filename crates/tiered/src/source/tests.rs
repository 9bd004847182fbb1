use std::sync::Arc;

use spillway_base::budget::Budget;

use super::memtable::UNSEEN_MAX;
use super::*;
use crate::memtable::{Accounts, Memtable};

/// A memtable of keys with their commits and values.
fn memtable<'a>(rows: impl IntoIterator<Item = (&'a [u8], u64, &'a [u8])>) -> Arc<Memtable> {
    let memtable = Memtable::new(&Accounts::new(Budget::new(1 << 30), 0));
    for (key, csn, value) in rows {
        memtable.insert(&memtable.enter().unwrap(), key, Csn(csn), Some(value));
    }
    Arc::new(memtable)
}

fn source(memtable: &Arc<Memtable>, direction: Direction, snapshot: Csn) -> Source {
    let bounds = OwnedRange::of(KeyRange::ALL);
    Source::Memtable(MemtableSource::new(memtable.clone(), bounds, direction, snapshot))
}

/// All rows of a source, with an extension after each step: the number of rows of each, and their
/// keys.
fn taken(source: &mut Source) -> (Vec<usize>, Vec<Vec<u8>>) {
    let (mut counts, mut keys) = (Vec::new(), Vec::new());
    while source.advance(Access::Blocking).unwrap() {
        let count = if source.lends() { source.extend(None, 1000) } else { 1 };
        counts.push(count);
        match count {
            1 => keys.push(source.entry().key.to_vec()),
            count => source.rows(count, &mut |key, _| {
                keys.push(key.to_vec());
                true
            }),
        }
    }
    (counts, keys)
}

/// SOURCE-5: keys added past a snapshot's last row cost no work when the first rows are read.
#[test]
fn a_look_ahead_passes_few_keys_that_are_no_rows() {
    let rows = [&b"m1"[..], b"m2", b"m3"];
    let added: Vec<String> =
        (0..5000).flat_map(|number| [format!("a{number}"), format!("z{number}")]).collect();
    let table = memtable(
        rows.map(|key| (key, 1, &b"row"[..]))
            .into_iter()
            .chain(added.iter().map(|key| (key.as_bytes(), 2, &b"new"[..]))),
    );
    for direction in [Direction::Forward, Direction::Backward] {
        let mut one = source(&table, direction, Csn(1));
        assert!(one.advance(Access::Blocking).unwrap());
        met::looked();
        assert_eq!(one.extend(None, 1000), 3);
        let looked = met::looked() as usize;
        assert!((2..=2 + UNSEEN_MAX + 1).contains(&looked), "{looked}");
        let (_, mut keys) = taken(&mut source(&table, direction, Csn(1)));
        keys.sort();
        assert_eq!(keys, rows);
    }
}

/// SOURCE-4: keys that the snapshot does not see may be among rows that are lent together.
#[test]
fn a_look_ahead_passes_some_keys_that_are_no_rows() {
    let keys: Vec<String> = (0..400).map(|number| format!("k{number:03}")).collect();
    let csn = |at: usize| 1 + u64::from(at % 20 == 3);
    let all = keys.iter().enumerate();
    let table = memtable(all.clone().map(|(at, key)| (key.as_bytes(), csn(at), &b"row"[..])));
    let rows: Vec<_> = all.filter(|(at, _)| csn(*at) == 1).map(|(_, key)| key.as_bytes()).collect();
    for direction in [Direction::Forward, Direction::Backward] {
        let (counts, mut keys) = taken(&mut source(&table, direction, Csn(1)));
        keys.sort();
        assert_eq!(keys, rows);
        assert!(counts.iter().any(|count| *count > 100), "{counts:?}");
    }
}

/// A long row is lent alone; the rows before and after it are lent together.
#[test]
fn a_long_row_is_no_end_of_lending() {
    let keys: Vec<String> = (0..400).map(|number| format!("k{number:03}")).collect();
    let long = [7; 200];
    let value = |at: usize| if at == 200 { &long[..] } else { b"short" };
    let table = memtable(keys.iter().enumerate().map(|(at, key)| (key.as_bytes(), 1, value(at))));
    for direction in [Direction::Forward, Direction::Backward] {
        let (counts, mut found) = taken(&mut source(&table, direction, Csn(1)));
        found.sort();
        assert!(found.iter().eq(keys.iter().map(String::as_bytes)));
        let alone = counts.iter().position(|count| *count == 1).expect("the long row");
        let (before, behind) = (&counts[..alone], &counts[alone + 1..]);
        let lent = if direction == Direction::Forward { 200 } else { 199 };
        assert_eq!(before.iter().sum::<usize>(), lent, "{counts:?}");
        assert!(behind.iter().any(|count| *count > 50), "{counts:?}");
    }
}

/// SOURCE-6.
#[test]
fn source_6_what_is_behind_a_second_deletion_is_asked_for_by_leaves() {
    let table = memtable([]);
    let put = |key: &str, csn, value| {
        table.insert(&table.enter().unwrap(), key.as_bytes(), Csn(csn), value);
    };
    let keys: Vec<String> = (0..600).map(|number| format!("k{number:03}")).collect();
    keys.iter().for_each(|key| put(key, 1, Some(&b"row"[..])));
    let asked = |direction, snapshot| {
        let mut source = source(&table, direction, Csn(snapshot));
        let mut keys = 0;
        met::asked();
        while source.advance(Access::Blocking).unwrap() {
            keys += 1;
        }
        assert_eq!(keys, 600);
        met::asked()
    };
    keys.iter().step_by(2).for_each(|key| put(key, 2, None));
    keys.iter().for_each(|key| put(key, 3, None));
    for direction in [Direction::Forward, Direction::Backward] {
        assert_eq!(asked(direction, 1), 0, "there is nothing to pass");
        assert_eq!(asked(direction, 2), 0, "a deletion by itself");
        let asked = asked(direction, 3);
        assert!((400..600).contains(&asked), "{direction:?}: {asked}");
    }
}

/// SOURCE-6, SOURCE-2: all rows that the snapshot sees are returned in order, with concurrent
/// insertions among them, leaps, and rows taken together.
#[test]
fn source_6_deletions_that_were_asked_for_are_given_as_they_are() {
    use spillway_base::rng::Rng;

    let text = |number: u64| format!("k{number:04}");
    let (mut passed, mut leaps) = (0, [0, 0]);
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let table = memtable([]);
        let put = |number: u64, csn, value| {
            table.insert(&table.enter().unwrap(), text(number).as_bytes(), Csn(csn), value);
        };
        let mut seen = std::collections::BTreeMap::new();
        let mut number = 0;
        while number < 2000 {
            // Runs of deletions, of rows, and of later versions.
            let (run, kind) = (1 + rng.below(60), rng.below(3));
            for number in (number..number + run).step_by(2) {
                put(number, 1, Some(&b"row"[..]));
                if kind == 1 {
                    put(number, 2, None);
                }
                if kind == 2 {
                    put(number, 9, rng.chance(1, 2).then_some(&b"later"[..]));
                }
                seen.insert(number, kind != 1);
            }
            number += run;
        }
        let forward = rng.chance(1, 2);
        let direction = if forward { Direction::Forward } else { Direction::Backward };
        let mut expected: Vec<_> = seen.into_iter().map(|(at, row)| (text(at), row)).collect();
        if !forward {
            expected.reverse();
        }
        let mut source = source(&table, direction, Csn(2));
        let (mut at, mut leapt) = (0, false);
        while source.advance_near() || source.advance(Access::Blocking).unwrap() {
            let (key, is_row) = &expected[at];
            assert_eq!(source.entry().key, key.as_bytes(), "{seed}");
            assert_eq!(source.entry().value.is_some(), *is_row, "{seed}");
            at += 1;
            if rng.chance(1, 5) {
                // Between existing keys, so that leaves are split.
                put(1 + 2 * rng.below(1000), 5, rng.chance(1, 2).then_some(&b"new"[..]));
            }
            if *is_row && rng.chance(1, 8) {
                at += source.extend(None, 20) - 1;
            } else if !leapt && !is_row && rng.chance(1, 50) {
                leapt = true;
                let past = (at + 10).min(expected.len());
                let (last, behind) = (&expected[past - 1].0, format!("{key}+"));
                let (start, end) = if forward { (key, format!("{last}+")) } else { (last, behind) };
                let hidden = KeyRange::new(start.as_bytes(), Some(end.as_bytes()));
                assert!(source.leap_hidden(hidden, Csn(9)));
                at = past;
                leaps[usize::from(forward)] += 1;
            }
        }
        assert_eq!(at, expected.len(), "{seed}");
        passed += met::asked();
    }
    assert!(passed > 5000, "{passed}");
    assert!(leaps.into_iter().all(|leaps| leaps > 10), "{leaps:?}");
}
