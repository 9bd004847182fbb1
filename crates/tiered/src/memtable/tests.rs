use super::*;

fn put(memtable: &Memtable, key: &[u8], csn: u64, value: Option<&[u8]>) {
    let inside = memtable.enter().expect("the memtable is open");
    memtable.insert(&inside, key, Csn(csn), value);
}

fn new() -> Memtable {
    Memtable::new(&Accounts::new(Budget::new(usize::MAX)))
}

#[cfg(not(loom))]
mod model {
    use std::collections::BTreeMap;

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
        for key in model.keys().rev() {
            let place = memtable.seek_before(bound.as_deref());
            assert_eq!(memtable.key(place), Some(key.as_slice()));
            bound = Some(key.clone());
        }
        assert!(memtable.key(memtable.seek_before(bound.as_deref())).is_none());
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

    #[test]
    fn a_large_value_and_the_charge_are_kept() {
        let budget = Budget::new(1 << 30);
        let accounts = Accounts::new(budget.clone());
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
        memtable.insert(&inside, b"k", Csn(1), None);
        drop(inside);
        assert!(memtable.is_quiet());
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

    #[test]
    fn loom_a_quiet_gate_has_nobody_inside() {
        loom::model(|| {
            let memtable = Arc::new(new());
            let other = memtable.clone();
            let thread = loom::thread::spawn(move || match other.enter() {
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
