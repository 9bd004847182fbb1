use super::*;

fn put(memtable: &Memtable, key: &[u8], csn: u64, value: Option<&[u8]>) {
    let inside = memtable.enter().expect("the memtable is open");
    memtable.insert(&inside, key, Csn(csn), value);
}

fn new() -> Memtable {
    Memtable::new(&Accounts::new(Budget::new(usize::MAX), 0))
}

/// The keys next to a place in its leaf.
fn beside(memtable: &Memtable, place: TreePlace, direction: Direction) -> Vec<&[u8]> {
    let mut places = Places::default();
    memtable.beside(place, direction, &mut places);
    places.iter().map(|place| memtable.key(*place).expect("a place beside one has a key")).collect()
}

#[cfg(not(loom))]
mod model {
    use std::collections::BTreeMap;
    use std::ops::Bound::Excluded;

    use spillway_base::rng::Rng;

    use super::*;

    type Model = BTreeMap<Vec<u8>, BTreeMap<u64, Option<Vec<u8>>>>;

    fn check(memtable: &Memtable, model: &Model) {
        assert_eq!(memtable.keys(), model.len());
        let mut place = memtable.seek(b"");
        for (key, versions) in model {
            assert_eq!(memtable.key(place), Some(key.as_slice()));
            let found: Vec<_> = memtable.versions(place).map(|v| (v.csn.0, v.value)).collect();
            let wanted: Vec<_> =
                versions.iter().rev().map(|(csn, value)| (*csn, value.as_deref())).collect();
            assert_eq!(found, wanted);
            place = memtable.after(place);
        }
        assert!(memtable.key(place).is_none());
        let mut bound: Option<Vec<u8>> = None;
        let mut walk = memtable.seek_before(None);
        for key in model.keys().rev() {
            let place = memtable.seek_before(bound.as_deref());
            assert_eq!(memtable.key(place), Some(key.as_slice()));
            assert_eq!(memtable.key(walk), Some(key.as_slice()));
            walk = memtable.before(walk);
            bound = Some(key.clone());
        }
        assert!(memtable.key(memtable.seek_before(bound.as_deref())).is_none());
        assert!(memtable.key(walk).is_none());
    }

    #[test]
    fn versions_stand_by_key_and_csn_whatever_the_order_of_insertion() {
        let mut rng = Rng::new(4);
        let (memtable, mut model) = (new(), Model::new());
        for _ in 0..5000 {
            let mut key = vec![0; rng.below(20) as usize];
            rng.fill(&mut key);
            key.truncate(1 + rng.below(3) as usize);
            let csn = 1 + rng.below(40);
            let value = rng.chance(3, 4).then(|| vec![csn as u8; rng.below(50) as usize]);
            put(&memtable, &key, csn, value.as_deref());
            model.entry(key).or_default().insert(csn, value);
        }
        check(&memtable, &model);
        for key in model.keys() {
            for snapshot in [0, 1, 20, 40] {
                let wanted = model[key].range(..=snapshot).next_back();
                let found = memtable.get(key, Csn(snapshot)).map(|v| (v.csn.0, v.value));
                assert_eq!(found, wanted.map(|(csn, value)| (*csn, value.as_deref())));
            }
        }
        assert_eq!((memtable.csn_min(), memtable.csn_max()), (Csn(1), Csn(40)));
    }

    /// Keys with long, short and no common prefixes, with bytes that look like the end of a key.
    fn key(rng: &mut Rng, family: u64) -> Vec<u8> {
        let mut number = rng.below(3000).to_be_bytes().to_vec();
        match family {
            0 => number,
            1 => [b"shared..".to_vec(), number].concat(),
            2 => [vec![b'p'; rng.below(40) as usize], number].concat(),
            3 => number.repeat(3 + rng.below(2) as usize),
            4 => vec![[0, 0xFF][rng.below(2) as usize]; rng.below(30) as usize],
            5 => format!("a longer prefix than fits a node {:09}", rng.below(3000)).into_bytes(),
            _ => {
                number.truncate(rng.below(9) as usize);
                number
            }
        }
    }

    #[test]
    fn keys_of_any_shape_and_order_stand_in_order() {
        for seed in 0..60 {
            let mut rng = Rng::new(seed);
            let (memtable, mut model) = (new(), Model::new());
            let families = 1 + rng.below(7);
            let order = rng.below(4);
            let mut keys: Vec<_> = (0..rng.below(2000))
                .map(|_| {
                    let family = (rng.below(families) + seed) % 7;
                    key(&mut rng, family)
                })
                .collect();
            match order {
                0 => keys.sort(),
                1 => keys.sort_by(|a, b| b.cmp(a)),
                // Two ascending sequences, interleaved.
                2 => keys.sort_by_key(|key| (key.len(), key.clone())),
                _ => {}
            }
            for (csn, key) in (1..).zip(keys) {
                put(&memtable, &key, csn, Some(&key));
                model.entry(key.clone()).or_default().insert(csn, Some(key));
            }
            check(&memtable, &model);
            for _ in 0..500 {
                let family = rng.below(7);
                let key = key(&mut rng, family);
                let after = model.range(key.clone()..).next().map(|(key, _)| key.as_slice());
                assert_eq!(memtable.key(memtable.seek(&key)), after);
                let before = model.range(..key.clone()).next_back().map(|(key, _)| key.as_slice());
                assert_eq!(memtable.key(memtable.seek_before(Some(&key))), before);
                assert_eq!(memtable.get(&key, Csn::MAX).is_some(), model.contains_key(&key));
            }
        }
    }

    /// Descending keys past a leaf that is full, or whose keys have another prefix, do not each
    /// begin a separate leaf.
    #[test]
    fn leaves_are_filled_whatever_the_groups_and_their_order() {
        for descending in [false, true] {
            let memtable = new();
            let mut csn = 0;
            for group in [&b"a long prefix"[..], b"z", b"n", b"a long other"] {
                for number in 0..1000_u64 {
                    csn += 1;
                    let number = if descending { 1000 - number } else { number };
                    let key = [group, format!("{number:09}").as_bytes()].concat();
                    put(&memtable, &key, csn, Some(b"value"));
                }
            }
            assert_eq!(memtable.keys(), 4000);
            let bytes = memtable.bytes() / 4000;
            assert!(bytes < 200, "{bytes} bytes per key, descending: {descending}");
        }
    }

    #[test]
    fn places_stay_good_while_keys_are_added() {
        let mut rng = Rng::new(5);
        let (memtable, mut model) = (new(), Model::new());
        let mut places: Vec<TreePlace> = Vec::new();
        let (mut found, mut lost) = ([0; 2], 0);
        for csn in 1..4000 {
            let family = rng.below(7);
            let key = key(&mut rng, family);
            put(&memtable, &key, csn, None);
            places.push(memtable.seek(&key));
            model.entry(key).or_default().insert(csn, None);
            let place = places[rng.below(places.len() as u64) as usize];
            let key = memtable.key(place).unwrap().to_vec();
            let after = model.range(key.clone()..).nth(1).map(|(key, _)| key.as_slice());
            assert_eq!(memtable.key(memtable.after(place)), after);
            let before = model.range(..key.clone()).next_back().map(|(key, _)| key.as_slice());
            assert_eq!(memtable.key(memtable.before(place)), before);
            // Old places may have moved from their rank. The neighbours of the others must be
            // right.
            let behind = beside(&memtable, place, Direction::Forward);
            let keys = model.range(key.clone()..).skip(1).map(|(key, _)| key.as_slice());
            assert!(behind.iter().copied().eq(keys.take(behind.len())));
            let ahead = beside(&memtable, place, Direction::Backward);
            let keys = model.range(..key.clone()).rev().map(|(key, _)| key.as_slice());
            assert!(ahead.iter().copied().eq(keys.take(ahead.len())));
            found[0] += behind.len();
            found[1] += ahead.len();
            lost += usize::from(behind.is_empty() && ahead.is_empty());
        }
        assert!(lost > 100 && found.iter().all(|keys| *keys > 4000), "{lost}, {found:?}");
    }

    /// Each thread adds its own keys among those of the others, sees them at once, and sees all
    /// keys in order.
    #[test]
    fn threads_that_split_nodes_at_once_lose_nothing() {
        const THREADS: u64 = 4;
        for seed in 0..6 {
            let memtable = new();
            let added = Mutex::new(Model::new());
            spillway_base::thread::together(THREADS as usize, |thread| {
                let (thread, memtable) = (thread as u64, &memtable);
                let mut rng = Rng::new(seed * THREADS + thread);
                let mut mine = Model::new();
                for step in 0..3000 {
                    let csn = step * THREADS + thread + 1;
                    let family = [seed, rng.below(7)][rng.below(2) as usize];
                    // The last byte is the thread's number, or all threads use the same key.
                    let mut key = key(&mut rng, family);
                    key.push([thread as u8, 9][usize::from(rng.chance(1, 4))]);
                    put(memtable, &key, csn, Some(&csn.to_le_bytes()));
                    mine.entry(key.clone())
                        .or_default()
                        .insert(csn, Some(csn.to_le_bytes().into()));
                    let seen = memtable.get(&key, Csn(csn)).expect("what was put is there");
                    assert_eq!((seen.csn, seen.value), (Csn(csn), Some(&csn.to_le_bytes()[..])));
                    let place = memtable.seek(&key);
                    assert_eq!(memtable.key(place), Some(key.as_slice()));
                    let next = memtable.key(memtable.after(place));
                    assert!(next.is_none_or(|next| next > key.as_slice()));
                    let before = match rng.chance(1, 2) {
                        true => memtable.before(place),
                        false => memtable.seek_before(Some(&key)),
                    };
                    assert!(memtable.key(before).is_none_or(|before| before < key.as_slice()));
                    for direction in [Direction::Forward, Direction::Backward] {
                        let keys = beside(memtable, place, direction);
                        let all = || std::iter::once(key.as_slice()).chain(keys.iter().copied());
                        assert!(match direction {
                            Direction::Forward => all().is_sorted_by(|a, b| a < b),
                            Direction::Backward => all().is_sorted_by(|a, b| a > b),
                        });
                        // Up to the last of them, no key is missed that existed before.
                        if let Some(last) = keys.last() {
                            let (from, to) = (key.as_slice().min(last), key.as_slice().max(last));
                            let mut between = mine.range::<[u8], _>((Excluded(from), Excluded(to)));
                            assert!(between.all(|(key, _)| keys.contains(&&key[..])));
                        }
                    }
                    let known =
                        mine.range(..key.clone()).next_back().map(|(key, _)| key.as_slice());
                    assert!(memtable.key(before) >= known);
                    let known = mine.range(key.clone()..).nth(1).map(|(key, _)| key.as_slice());
                    assert!(known.is_none_or(|known| next.is_some_and(|next| next <= known)));
                }
                let mut added = added.lock();
                for (key, versions) in mine {
                    added.entry(key).or_default().extend(versions);
                }
            });
            check(&memtable, &added.into_inner());
        }
    }

    #[test]
    fn a_large_value_and_the_charge_are_kept() {
        let budget = Budget::new(1 << 30);
        let accounts = Accounts::new(budget.clone(), 0);
        let memtable = Memtable::new(&accounts);
        put(&memtable, b"k", 1, Some(&vec![7; 3 << 20]));
        assert_eq!(memtable.get(b"k", Csn(1)).unwrap().value.unwrap().len(), 3 << 20);
        assert!(budget.used_for(Use::Memtables) > 3 << 20);
        assert_eq!(budget.used_for(Use::Memtables), memtable.bytes());
        assert_eq!(accounts.unflushed.used(), memtable.bytes());
        memtable.retire();
        assert_eq!(budget.used_for(Use::Memtables), memtable.bytes());
        assert_eq!(accounts.unflushed.used(), 0);
        drop(memtable);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn a_sealed_memtable_is_quiet_once_the_last_has_left() {
        let memtable = new();
        let inside = memtable.enter().unwrap();
        memtable.seal();
        assert!(memtable.enter().is_none() && !memtable.is_quiet());
        assert_eq!(memtable.csn_max(), Csn(0));
        memtable.insert(&inside, b"k", Csn(1), None);
        assert_eq!(memtable.csn_max(), Csn(1));
        memtable.insert(&inside, b"k", Csn(3), None);
        drop(inside);
        assert!(memtable.is_quiet());
        for _ in 0..2 {
            assert_eq!((memtable.csn_max(), memtable.keys()), (Csn(3), 1));
        }
    }

    #[test]
    fn threads_insert_and_read_at_once() {
        let memtable = new();
        let threads = 4;
        spillway_base::thread::together(threads as usize, |thread| {
            let (thread, memtable) = (thread as u64, &memtable);
            let mut rng = Rng::new(thread);
            for step in 0..5000_u64 {
                let csn = step * threads + thread + 1;
                let key = [rng.below(200) as u8, 0xAA];
                put(memtable, &key, csn, Some(&csn.to_le_bytes()));
                let seen = memtable.get(&key, Csn(csn)).unwrap();
                assert!(seen.csn <= Csn(csn));
                assert_eq!(seen.value.unwrap(), seen.csn.0.to_le_bytes());
                assert_eq!(memtable.get(&key, Csn::MAX).map(|v| v.csn >= seen.csn), Some(true));
            }
        });
        let (mut place, mut versions, mut last) = (memtable.seek(b""), 0, Vec::new());
        while let Some(key) = memtable.key(place) {
            assert!(key > last.as_slice());
            last = key.to_vec();
            let csns: Vec<_> = memtable.versions(place).map(|version| version.csn).collect();
            assert!(csns.is_sorted_by(|a, b| a > b));
            versions += csns.len();
            place = memtable.after(place);
        }
        assert_eq!(versions, 20_000);
    }
}

#[cfg(loom)]
mod loom_models {
    use super::*;
    use spillway_base::sync::Arc;

    fn csns(memtable: &Memtable, key: &[u8]) -> Vec<u64> {
        let place = memtable.seek(key);
        memtable.versions(place).map(|version| version.csn.0).collect()
    }

    #[test]
    fn loom_two_insert_one_key() {
        loom::model(|| {
            let memtable = Arc::new(new());
            let other = memtable.clone();
            let thread = loom::thread::spawn(move || put(&other, b"k", 1, Some(b"one")));
            put(&memtable, b"k", 2, Some(b"two"));
            thread.join().unwrap();
            assert_eq!(csns(&memtable, b"k"), [2, 1]);
            assert_eq!(memtable.keys(), 1);
        });
    }

    #[test]
    fn loom_two_insert_neighbours() {
        loom::model(|| {
            let memtable = Arc::new(new());
            let other = memtable.clone();
            let thread = loom::thread::spawn(move || put(&other, b"a", 1, Some(b"a")));
            put(&memtable, b"b", 2, Some(b"b"));
            thread.join().unwrap();
            let first = memtable.seek(b"");
            assert_eq!(memtable.key(first), Some(&b"a"[..]));
            assert_eq!(memtable.key(memtable.after(first)), Some(&b"b"[..]));
        });
    }

    #[test]
    fn loom_a_reader_sees_whole_versions() {
        loom::model(|| {
            let memtable = Arc::new(new());
            put(&memtable, b"k", 1, Some(b"old"));
            let other = memtable.clone();
            let thread = loom::thread::spawn(move || put(&other, b"k", 2, Some(b"new")));
            let seen =
                memtable.get(b"k", Csn(2)).map(|version| (version.csn.0, version.value.unwrap()));
            assert!(matches!(seen, Some((1, b"old") | (2, b"new"))));
            assert_eq!(memtable.get(b"k", Csn(1)).unwrap().csn, Csn(1));
            thread.join().unwrap();
        });
    }

    /// A memtable whose only leaf is full: it holds three keys in models.
    fn full(keys: &[&[u8]]) -> Arc<Memtable> {
        let memtable = new();
        for key in keys {
            put(&memtable, key, 1, None);
        }
        Arc::new(memtable)
    }

    fn keys(memtable: &Memtable) -> Vec<&[u8]> {
        let next = |place: &TreePlace| Some(memtable.after(*place));
        std::iter::successors(Some(memtable.seek(b"")), next)
            .map_while(|place| memtable.key(place))
            .collect()
    }

    #[test]
    fn loom_a_reader_of_a_leaf_that_is_split_finds_what_was_there() {
        loom::model(|| {
            let memtable = full(&[b"b", b"d", b"f"]);
            let other = memtable.clone();
            let thread = loom::thread::spawn(move || put(&other, b"c", 2, None));
            assert!(memtable.get(b"f", Csn(1)).is_some());
            let before = memtable.key(memtable.seek_before(Some(b"d")));
            assert!(before == Some(b"b") || before == Some(b"c"));
            thread.join().unwrap();
            assert_eq!(keys(&memtable), [b"b", b"c", b"d", b"f"]);
        });
    }

    #[test]
    fn loom_a_scan_over_a_leaf_that_is_split_goes_on() {
        loom::model(|| {
            let memtable = full(&[b"b", b"d", b"f"]);
            let other = memtable.clone();
            let thread = loom::thread::spawn(move || put(&other, b"e", 2, None));
            let place = memtable.seek(b"d");
            assert_eq!(memtable.key(place), Some(&b"d"[..]));
            // The neighbours are unknown if the place has moved.
            let behind = beside(&memtable, place, Direction::Forward);
            assert!(matches!(&behind[..], [] | [b"e"] | [b"f"] | [b"e", b"f"]), "{behind:?}");
            let ahead = beside(&memtable, place, Direction::Backward);
            assert!(matches!(&ahead[..], [] | [b"b"]), "{ahead:?}");
            let after = memtable.key(memtable.after(place));
            assert!(after == Some(b"e") || after == Some(b"f"));
            assert_eq!(memtable.key(memtable.seek_before(None)), Some(&b"f"[..]));
            thread.join().unwrap();
        });
    }

    /// The split frees slots of the left leaf, and both insertions take one.
    #[test]
    fn loom_a_reader_is_not_misled_by_a_slot_with_another_entry() {
        loom::model(|| {
            let memtable = full(&[b"b", b"d", b"f"]);
            let other = memtable.clone();
            let thread = loom::thread::spawn(move || {
                put(&other, b"c", 2, None);
                put(&other, b"a", 2, None);
            });
            assert!(memtable.get(b"d", Csn(1)).is_some());
            assert!(memtable.get(b"e", Csn(2)).is_none());
            thread.join().unwrap();
            assert_eq!(keys(&memtable), [b"a", b"b", b"c", b"d", b"f"]);
        });
    }

    #[test]
    fn loom_two_split_one_leaf() {
        // Two writers have far more interleavings than a writer and a reader.
        spillway_base::sync::model(3, || {
            let memtable = full(&[b"b", b"d", b"f"]);
            let other = memtable.clone();
            let thread = loom::thread::spawn(move || put(&other, b"c", 2, None));
            put(&memtable, b"e", 2, None);
            thread.join().unwrap();
            assert_eq!(keys(&memtable), [b"b", b"c", b"d", b"e", b"f"]);
            assert!(memtable.get(b"c", Csn(2)).is_some() && memtable.get(b"e", Csn(2)).is_some());
        });
    }

    #[test]
    fn loom_two_append_to_one_leaf() {
        spillway_base::sync::model(2, || {
            let memtable = full(&[b"b", b"d", b"f"]);
            let other = memtable.clone();
            let thread = loom::thread::spawn(move || put(&other, b"g", 2, None));
            put(&memtable, b"h", 2, None);
            thread.join().unwrap();
            assert_eq!(keys(&memtable), [b"b", b"d", b"f", b"g", b"h"]);
        });
    }

    #[test]
    fn loom_a_quiet_gate_has_nobody_inside() {
        loom::model(|| {
            let memtable = Arc::new(new());
            let other = memtable.clone();
            let thread = loom::thread::spawn(move || match other.gate.enter_by(1) {
                Some(inside) => {
                    other.insert(&inside, b"k", Csn(1), None);
                    true
                }
                None => false,
            });
            memtable.seal();
            if memtable.is_quiet() {
                let before = memtable.is_empty();
                let entered = thread.join().unwrap();
                assert_eq!(entered, !before);
            } else {
                thread.join().unwrap();
            }
        });
    }
}
