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
    let bounds = Bounds::of(KeyRange::ALL);
    Source::Memtable(MemtableSource::new(memtable.clone(), bounds, direction, snapshot))
}

/// All rows of a source, by looks for several from each step: how many each gave, and whose keys.
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

/// S5: what is added past a snapshot's last row is no work for a look at the first.
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

/// S4: what the snapshot does not see may lie among rows that are lent together.
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

/// A long row is given alone; those before it, and those behind it, together.
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
