//! The reads of a run. Each must return the model's result.

use std::task::Waker;

use super::super::*;
use super::history::{KEYS, QUEUE, key_of};
use super::model::History;
use super::run::Run;

/// A paused scan.
pub(super) struct Begun {
    cursor: Box<dyn Cursor>,
    id: TableId,
    direction: Direction,
    snapshot: Csn,
    /// The number of rows that it has returned.
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
                // CURSOR-1: rows are taken one by one, or several at once.
                let most = [1, 2, 7, 1000][rng.below(4) as usize];
                self.walk(id, range, direction, snapshot, most);
            }
            let keys: Vec<Vec<u8>> = (0..10).map(|_| bound(&mut rng)).collect();
            self.look_up(id, &keys, snapshot, rng.below(3));
            self.seen.reads += 1;
        }
        let unknown = table(999);
        assert!(self.bench.get_and_recall(unknown, b"key", snapshot).is_err());
    }

    /// A scan that takes up to this many rows at once.
    fn walk(
        &self,
        id: TableId,
        range: KeyRange<'_>,
        direction: Direction,
        snapshot: Csn,
        most: usize,
    ) {
        let mut wanted = self.history.rows(id, range, direction, snapshot);
        let engine = &self.bench.engine;
        let mut cursor = engine.scan(id, range, direction, snapshot, Access::Blocking).unwrap();
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
                    panic!(
                        "{told}: {found:?} of {csns:?}, {given} of {rows} up to {at}, not {wanted:?}"
                    );
                }
                true
            });
            assert_eq!(given, rows);
        }
        assert!(wanted.is_empty(), "{id:?} at {snapshot} lacks {}", wanted.len());
    }

    /// Looks keys up in one of three ways: one after the other, with a multi-get's readahead, or
    /// with asynchronous reads.
    fn look_up(&self, id: TableId, keys: &[Vec<u8>], snapshot: Csn, way: u64) {
        match way {
            0 => {}
            1 => {
                let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
                self.bench.engine.prefetch(id, &keys, snapshot);
            }
            _ => self.read_beside(id, keys, snapshot),
        }
        for key in keys {
            let found = self.bench.get_and_recall(id, key, snapshot).unwrap();
            assert!(found.as_deref() == self.history.get(id, key, snapshot), "{key:?}");
        }
    }

    /// Reads the missing data of keys asynchronously until their gets need no device (E12).
    fn read_beside(&self, id: TableId, keys: &[Vec<u8>], snapshot: Csn) {
        let engine = &self.bench.engine;
        // A small cache may evict what was read before it is used.
        for _ in 0..20 {
            let lacking = keys.iter().filter(|key| !self.is_at_hand(id, key, snapshot));
            let begin = |key: &&Vec<u8>| engine.begin_read(id, key, snapshot, Waker::noop());
            if lacking.filter(begin).count() == 0 {
                return;
            }
            engine.end_reads();
        }
    }

    /// Whether a get that may not wait for a device succeeds. If it does, it must return the
    /// model's result.
    fn is_at_hand(&self, id: TableId, key: &[u8], snapshot: Csn) -> bool {
        let mut value = Vec::new();
        match self.bench.engine.get(id, key, snapshot, Access::AtHand, &mut value) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => false,
            found => {
                let found = found.unwrap().is_value().then_some(&*value);
                assert!(found == self.history.get(id, key, snapshot), "{key:?} at hand");
                true
            }
        }
    }

    pub(super) fn read_again_and_again(&self, first: u64) {
        let (start, end) = (key_of(1, first), key_of(1, first + 10));
        let (range, newest) = (KeyRange::new(&start, Some(&end)), self.history.newest());
        (0..200).for_each(|_| self.walk(table(1), range, Direction::Forward, newest, 10));
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
        // Takes rows one by one and several at once, in turn (CURSOR-1, CURSOR-2).
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
