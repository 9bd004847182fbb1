//! What is asked in a run, and has to be answered as the model does.

use super::super::*;
use super::history::{KEYS, QUEUE, key_of};
use super::model::History;
use super::run::Run;

/// A scan that stays somewhere.
pub(super) struct Begun {
    cursor: Box<dyn Cursor>,
    id: TableId,
    direction: Direction,
    snapshot: Csn,
    /// Rows that it has given.
    given: usize,
}

impl Run<'_> {
    pub(super) fn read(&mut self, snapshot: Csn, seed: u64) {
        let mut rng = Rng::new(seed);
        let tables = self.history.tables(snapshot);
        for &id in &tables {
            let number = |rng: &mut Rng| rng.below(if id == table(QUEUE) { 600 } else { KEYS + 5 });
            let bound = |rng: &mut Rng| {
                let number = number(rng);
                key_of(id.ordinal(), number)
            };
            let (start, end) = (bound(&mut rng), bound(&mut rng));
            let some = KeyRange::new(&start, Some(&end));
            let from = KeyRange::new(&start, None);
            let range = [KeyRange::ALL, some, from][rng.below(3) as usize];
            for direction in [Direction::Forward, Direction::Backward] {
                let mut wanted = self.history.rows(id, range, direction, snapshot);
                let all = Access::Blocking;
                let mut cursor =
                    self.bench.engine.scan(id, range, direction, snapshot, all).unwrap();
                // C1: one by one, or some at once.
                let most = [1, 2, 7, 1000][rng.below(4) as usize];
                loop {
                    let rows = cursor.next_rows(Access::Blocking, most).unwrap();
                    if rows == 0 {
                        break;
                    }
                    let mut given = 0;
                    cursor.rows(&mut |found, value| {
                        given += 1;
                        let next = wanted.pop_front();
                        if next != Some((found, value)) {
                            let versions = &self.history.versions[&(id, found.to_vec())];
                            let csns: Vec<_> = versions.iter().map(|(csn, _)| *csn).collect();
                            let wanted = next.map(|(key, _)| key);
                            let told = format!("{id:?} at {snapshot}, {direction:?} in {range:?}");
                            let at = cursor.csn();
                            panic!("{told}: {found:?} of {csns:?}, {given} of {rows} up to {at}, not {wanted:?}");
                        }
                        true
                    });
                    assert_eq!(given, rows);
                }
                assert!(wanted.is_empty(), "{id:?} at {snapshot} lacks {}", wanted.len());
            }
            for _ in 0..10 {
                let key = bound(&mut rng);
                let found = self.bench.get_and_recall(id, &key, snapshot).unwrap();
                assert!(found.as_deref() == self.history.get(id, &key, snapshot), "{key:?}");
            }
            self.seen.reads += 1;
        }
        let unknown = table(999);
        assert!(self.bench.get_and_recall(unknown, b"key", snapshot).is_err());
    }

    pub(super) fn begin(&mut self, seed: u64) {
        let mut rng = Rng::new(seed);
        let snapshot = self.history.newest();
        let tables = self.history.tables(snapshot);
        let id = tables[rng.below(tables.len() as u64) as usize];
        let direction = [Direction::Forward, Direction::Backward][rng.below(2) as usize];
        let (all, access) = (KeyRange::ALL, Access::Blocking);
        let cursor = self.bench.engine.scan(id, all, direction, snapshot, access).unwrap();
        let mut begun = Begun { cursor, id, direction, snapshot, given: 0 };
        let most = rng.below(60);
        go_on(&self.history, &mut begun, most as usize);
        self.begun.push_back(begun);
    }

    pub(super) fn resume(&mut self) {
        let mut begun = self.begun.pop_front().unwrap();
        go_on(&self.history, &mut begun, usize::MAX);
        self.seen.reads += 1;
    }
}

fn go_on(history: &History, begun: &mut Begun, most: usize) {
    let Begun { id, direction, snapshot, .. } = *begun;
    let mut wanted =
        history.rows(id, KeyRange::ALL, direction, snapshot).into_iter().skip(begun.given);
    let mut left = most;
    while left > 0 {
        // One by one and some at once, in turns (C1, C2).
        let most = left.min([1, 3, 40][begun.given % 3]);
        let rows = match most {
            1 => usize::from(begun.cursor.next(Access::Blocking).unwrap()),
            most => begun.cursor.next_rows(Access::Blocking, most).unwrap(),
        };
        if rows == 0 {
            assert!(wanted.next().is_none(), "{id:?} at {snapshot}");
            return;
        }
        assert!(rows <= most);
        let mut last = None;
        begun.cursor.rows(&mut |key, value| {
            last = wanted.next();
            assert!(last == Some((key, value)), "{id:?} at {snapshot}");
            true
        });
        assert!(last == Some((begun.cursor.key(), begun.cursor.value())));
        begun.given += rows;
        left -= rows;
    }
}
