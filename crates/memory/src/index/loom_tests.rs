//! Models INDEX-1, INDEX-2 and INDEX-4 under every interleaving, with nodes that have room for two,
//! four, six and 256 children.

use spillway_base::sync::{Arc as LoomArc, model, thread};

use super::*;

struct Shared {
    epochs: Arc<Epochs>,
    index: Index,
}

fn rid(number: u64) -> Rid {
    Rid::new(number, 0)
}

/// An index of these keys. The RID of a key is its position in `keys`.
fn index(keys: &[&[u8]]) -> LoomArc<Shared> {
    let epochs = Arc::new(Epochs::default());
    let index = Index::new(epochs.clone(), Arc::new(NodeMemory::default()));
    let shared = LoomArc::new(Shared { epochs, index });
    for (number, key) in keys.iter().enumerate() {
        assert!(shared.insert(key, number as u64));
    }
    shared
}

impl Shared {
    fn insert(&self, key: &[u8], number: u64) -> bool {
        self.index.insert(key, rid(number), &self.epochs.pin()).is_ok()
    }

    fn remove(&self, key: &[u8], number: u64) -> bool {
        self.index.remove(key, rid(number), &self.epochs.pin())
    }

    fn get(&self, key: &[u8]) -> Option<u64> {
        self.index.get(key, &self.epochs.pin()).map(Rid::slot)
    }

    fn keys(&self, direction: Direction) -> Vec<Vec<u8>> {
        let mut out = Entries::default();
        let all = (Bound::Unbounded, Bound::Unbounded);
        self.index.collect(all, direction, 100, &mut out, &self.epochs.pin());
        // In these models, the RID of a key never changes.
        for (key, rid) in out.iter() {
            assert!(self.get(key).is_none_or(|there| there == rid.slot()));
        }
        out.iter().map(|(key, _)| key.to_vec()).collect()
    }

    fn assert_keys(&self, keys: &[&[u8]]) {
        assert_eq!(self.keys(Direction::Forward), keys);
        assert_eq!(self.index.len(), keys.len() as u64);
    }
}

/// Runs two operations concurrently.
fn beside<T: Send + 'static>(
    shared: &LoomArc<Shared>,
    other: impl FnOnce(&Shared) -> T + Send + 'static,
    own: impl FnOnce(&Shared),
) -> T {
    let theirs = shared.clone();
    let thread = thread::spawn(move || other(&theirs));
    own(shared);
    thread.join().unwrap()
}

#[test]
fn loom_two_insert_one_key() {
    model(3, || {
        let shared = index(&[b"a"]);
        let first = beside(
            &shared,
            |shared| shared.insert(b"k", 1),
            |shared| {
                let inserted = shared.insert(b"k", 2);
                assert!(inserted || shared.get(b"k") == Some(1));
            },
        );
        assert_eq!(shared.get(b"k"), Some(if first { 1 } else { 2 }));
        shared.assert_keys(&[b"a", b"k"]);
    });
}

#[test]
fn loom_two_insert_into_an_empty_index() {
    model(3, || {
        let shared = index(&[]);
        let done = |shared: &Shared| shared.insert(b"ab", 1);
        assert!(beside(&shared, done, |shared| assert!(shared.insert(b"ac", 2))));
        shared.assert_keys(&[b"ab", b"ac"]);
    });
}

/// Both insert into one node, which is full after the first insertion.
#[test]
fn loom_two_insert_into_a_node_that_grows() {
    model(3, || {
        let shared = index(&[b"a", b"b"]);
        let done = |shared: &Shared| shared.insert(b"c", 2);
        assert!(beside(&shared, done, |shared| assert!(shared.insert(b"d", 3))));
        shared.assert_keys(&[b"a", b"b", b"c", b"d"]);
    });
}

#[test]
fn loom_a_reader_of_a_node_that_grows_finds_what_was_there() {
    model(3, || {
        let shared = index(&[b"ax", b"b"]);
        let done = |shared: &Shared| shared.insert(b"aa", 2) && shared.insert(b"c", 3);
        let reader = |shared: &Shared| {
            assert_eq!(shared.get(b"b"), Some(1));
            assert_eq!(shared.get(b"ax"), Some(0));
            assert!(matches!(shared.get(b"c"), None | Some(3)));
        };
        assert!(beside(&shared, done, reader));
        shared.assert_keys(&[b"aa", b"ax", b"b", b"c"]);
    });
}

/// The removed key's node has two entries, so the other entry replaces it.
#[test]
fn loom_a_reader_of_a_node_that_is_merged_finds_what_was_there() {
    model(3, || {
        let shared = index(&[b"abcx", b"abcy", b"abd"]);
        let done = |shared: &Shared| shared.remove(b"abd", 2);
        let reader = |shared: &Shared| {
            assert_eq!(shared.get(b"abcy"), Some(1));
            assert!(matches!(shared.get(b"abd"), None | Some(2)));
        };
        assert!(beside(&shared, done, reader));
        shared.assert_keys(&[b"abcx", b"abcy"]);
    });
}

/// While the reader is at a node, its prefix is cut and its parent replaced.
#[test]
fn loom_a_reader_of_a_prefix_that_is_cut_finds_what_was_there() {
    model(3, || {
        let shared = index(&[b"abcx", b"abcy"]);
        let done = |shared: &Shared| shared.insert(b"abz", 2) && shared.insert(b"b", 3);
        let reader = |shared: &Shared| {
            assert_eq!(shared.get(b"abcy"), Some(1));
            // The node would have this key if its prefix were cut without the new parent.
            assert_eq!(shared.get(b"x"), None);
            assert_eq!(shared.get(b"cy"), None);
        };
        assert!(beside(&shared, done, reader));
        shared.assert_keys(&[b"abcx", b"abcy", b"abz", b"b"]);
    });
}

/// One removal merges the node from which the other removes.
#[test]
fn loom_two_remove_from_a_node_and_its_child() {
    model(3, || {
        let shared = index(&[b"aa", b"ab", b"b"]);
        let done = |shared: &Shared| shared.remove(b"b", 2);
        assert!(beside(&shared, done, |shared| assert!(shared.remove(b"aa", 0))));
        shared.assert_keys(&[b"ab"]);
    });
}

#[test]
fn loom_two_cut_one_prefix() {
    model(3, || {
        let shared = index(&[b"abcx", b"abcy"]);
        let done = |shared: &Shared| shared.insert(b"abz", 2);
        assert!(beside(&shared, done, |shared| assert!(shared.insert(b"az", 3))));
        shared.assert_keys(&[b"abcx", b"abcy", b"abz", b"az"]);
    });
}

/// A removal merges the parent with the node into which the key is inserted.
#[test]
fn loom_an_insertion_into_a_node_that_is_merged() {
    model(3, || {
        let shared = index(&[b"aa", b"ab", b"ac", b"b"]);
        let done = |shared: &Shared| shared.remove(b"b", 3);
        assert!(beside(&shared, done, |shared| assert!(shared.insert(b"ad", 4))));
        shared.assert_keys(&[b"aa", b"ab", b"ac", b"ad"]);
    });
}

/// The removal replaces the node by a smaller one.
#[test]
fn loom_an_insertion_into_a_node_that_shrinks() {
    model(3, || {
        let shared = index(&[b"a", b"b", b"c"]);
        let done = |shared: &Shared| shared.remove(b"b", 1);
        assert!(beside(&shared, done, |shared| assert!(shared.insert(b"d", 3))));
        shared.assert_keys(&[b"a", b"c", b"d"]);
    });
}

#[test]
fn loom_two_remove_one_key() {
    model(3, || {
        let shared = index(&[b"a", b"b", b"c"]);
        let mut own = false;
        let other =
            beside(&shared, |shared| shared.remove(b"c", 2), |shared| own = shared.remove(b"c", 2));
        assert!(own != other);
        shared.assert_keys(&[b"a", b"b"]);
    });
}

/// Scans during a change, and checks that it finds the keys that are there before and after.
fn scan_beside(
    keys: &'static [&'static [u8]],
    change: fn(&Shared),
    after: &'static [&'static [u8]],
) {
    for direction in [Direction::Forward, Direction::Backward] {
        model(2, move || {
            let shared = index(keys);
            let scan = |shared: &Shared| {
                let mut found = shared.keys(direction);
                if direction == Direction::Backward {
                    found.reverse();
                }
                assert!(found.is_sorted_by(|one, two| one < two));
                for key in &found {
                    assert!(keys.contains(&&key[..]) || after.contains(&&key[..]), "{key:?}");
                }
                for key in keys.iter().filter(|key| after.contains(key)) {
                    assert!(found.iter().any(|found| found == key), "{key:?}");
                }
            };
            beside(&shared, change, scan);
            shared.assert_keys(after);
        });
    }
}

/// INDEX-2: keys move to another node, or to another slot, during a scan.
#[test]
fn loom_a_scan_beside_changes_finds_what_stays() {
    let grow_and_merge = |shared: &Shared| {
        assert!(shared.insert(b"b", 3) && shared.remove(b"aay", 1));
    };
    scan_beside(&[b"aax", b"aay", b"c"], grow_and_merge, &[b"aax", b"b", b"c"]);
    let cut = |shared: &Shared| assert!(shared.insert(b"abz", 3));
    scan_beside(&[b"abcx", b"abcy"], cut, &[b"abcx", b"abcy", b"abz"]);
    let shift = |shared: &Shared| assert!(shared.insert(b"a", 3));
    scan_beside(&[b"b", b"c", b"d"], shift, &[b"a", b"b", b"c", b"d"]);
    let shift_back = |shared: &Shared| assert!(shared.remove(b"a", 0));
    scan_beside(&[b"a", b"b", b"c", b"d"], shift_back, &[b"b", b"c", b"d"]);
}

/// The writer shifts children within the node.
#[test]
fn loom_a_reader_of_a_node_whose_children_shift_finds_what_was_there() {
    model(3, || {
        let shared = index(&[b"b", b"c", b"d"]);
        let done = |shared: &Shared| shared.insert(b"a", 3) && shared.remove(b"b", 0);
        let reader = |shared: &Shared| {
            assert_eq!(shared.get(b"c"), Some(1));
            assert_eq!(shared.get(b"d"), Some(2));
        };
        assert!(beside(&shared, done, reader));
        shared.assert_keys(&[b"a", b"c", b"d"]);
    });
}

/// A leaf is removed while a reader is at it. Without the reader's pin it would be freed at once.
#[test]
fn loom_a_leaf_is_kept_for_its_reader() {
    model(2, || {
        let shared = index(&[b"long", b"other"]);
        let done = |shared: &Shared| {
            let done = shared.remove(b"long", 0) && shared.insert(b"lone", 5);
            shared.index.reclaim();
            done
        };
        let reader = |shared: &Shared| {
            assert!(matches!(shared.get(b"long"), None | Some(0)));
            assert!(matches!(shared.get(b"lone"), None | Some(5)));
        };
        assert!(beside(&shared, done, reader));
        shared.assert_keys(&[b"lone", b"other"]);
    });
}

#[test]
fn loom_three_threads_on_one_node() {
    model(2, || {
        let shared = index(&[b"a", b"b"]);
        let (one, two) = (shared.clone(), shared.clone());
        let one = thread::spawn(move || one.insert(b"c", 2));
        let two = thread::spawn(move || two.remove(b"a", 0));
        assert_eq!(shared.get(b"b"), Some(1));
        assert!(one.join().unwrap() && two.join().unwrap());
        shared.assert_keys(&[b"b", b"c"]);
    });
}

const SEVEN: [&[u8]; 7] = [b"a", b"b", b"c", b"d", b"e", b"f", b"g"];

/// Changes an index of the first `count` of seven keys during lookups of the first two. Then looks
/// up all keys. Nothing scans, because a scan of a full node reads 256 slots.
fn change_wide_node(count: usize, change: fn(&Shared), after: &'static [u64]) {
    model(2, move || {
        let shared = index(&SEVEN[..count]);
        beside(&shared, change, |shared| {
            assert_eq!(shared.get(b"a"), Some(0));
            assert_eq!(shared.get(b"b"), Some(1));
        });
        for (number, key) in SEVEN.iter().enumerate() {
            let number = number as u64;
            assert_eq!(shared.get(key), after.contains(&number).then_some(number));
        }
        assert_eq!(shared.index.len(), after.len() as u64);
    });
}

#[test]
fn loom_a_reader_of_a_node_that_becomes_large_or_full_finds_what_was_there() {
    change_wide_node(4, |shared| assert!(shared.insert(b"e", 4)), &[0, 1, 2, 3, 4]);
    change_wide_node(6, |shared| assert!(shared.insert(b"g", 6)), &[0, 1, 2, 3, 4, 5, 6]);
}

#[test]
fn loom_a_reader_of_a_large_or_full_node_that_shrinks_finds_what_stays() {
    let remove = |shared: &Shared| assert!(shared.remove(b"e", 4) && shared.remove(b"d", 3));
    change_wide_node(5, remove, &[0, 1, 2]);
    let remove = |shared: &Shared| assert!(shared.remove(b"g", 6) && shared.remove(b"f", 5));
    change_wide_node(7, remove, &[0, 1, 2, 3, 4]);
}

/// The slot of a large node that a removal frees is used again at once.
#[test]
fn loom_a_reader_of_a_large_node_whose_slot_is_used_again() {
    let exchange = |shared: &Shared| assert!(shared.remove(b"c", 2) && shared.insert(b"f", 5));
    change_wide_node(5, exchange, &[0, 1, 3, 4, 5]);
}

#[test]
fn loom_two_change_a_large_node_and_a_full_one() {
    for count in [5, 7] {
        model(2, move || {
            let shared = index(&SEVEN[..count]);
            let remove = |shared: &Shared| shared.remove(b"a", 0);
            assert!(beside(&shared, remove, |shared| assert!(shared.insert(b"z", 9))));
            assert_eq!((shared.get(b"a"), shared.get(b"z")), (None, Some(9)));
            assert_eq!(shared.get(b"e"), Some(4));
        });
    }
}
