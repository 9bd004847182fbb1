use spillway_base::Direction;
use spillway_base::rng::Rng;

use super::key_prefixes::KeyPrefixes;
use super::merge_queue::{Contest, MergeQueue};

/// Keys with common prefixes longer and shorter than a head, keys shorter than a head, and keys
/// that differ only in the number of zeros at their ends.
fn any_key(rng: &mut Rng) -> Vec<u8> {
    let prefix = [&b""[..], b"t", b"tenant", b"tenant-7", b"tenant-7/orders/", b"\xFF\xFF"];
    let mut key = prefix[rng.below(prefix.len() as u64) as usize].to_vec();
    let bytes = [0, 1, b'a', 0x7F, 0x80, 0xFE, 0xFF];
    key.extend((0..rng.below(14)).map(|_| bytes[rng.below(bytes.len() as u64) as usize]));
    key
}

#[test]
fn of_two_keys_the_first_has_no_larger_head_whatever_the_prefix() {
    let mut rng = Rng::new(1);
    let (mut equal, mut told) = (0, 0);
    for _ in 0..3000 {
        let mut keys: Vec<_> = (0..2 + rng.below(9)).map(|_| any_key(&mut rng)).collect();
        for direction in [Direction::Forward, Direction::Backward] {
            let mut heads = KeyPrefixes::new(direction);
            // The prefix is that of some of the keys, but not of the others.
            let some = 1 + rng.below(keys.len() as u64) as usize;
            heads.choose(keys[..some].iter().map(|key| &key[..]));
            keys.sort();
            if direction == Direction::Backward {
                keys.reverse();
            }
            for pair in keys.windows(2).filter(|pair| pair[0] != pair[1]) {
                let [one, other] = [&pair[0], &pair[1]].map(|key| heads.of(key));
                assert!(one <= other, "{direction:?} {pair:x?}: {one:x} and {other:x}");
                equal += u32::from(one == other);
                told += u32::from(one < other);
            }
        }
    }
    assert!(equal > 1000 && told > 10_000, "{equal} equal, {told} told");
}

#[test]
fn keys_that_differ_behind_the_prefix_have_different_heads() {
    let key = |tenant: &str, number: u64| [tenant.as_bytes(), &number.to_be_bytes()].concat();
    for tenant in ["", "t", "tenant-7", "tenant-7/orders/of-yesterday/"] {
        for direction in [Direction::Forward, Direction::Backward] {
            let keys: Vec<_> = (0..400).map(|number| key(tenant, number * number)).collect();
            let mut heads = KeyPrefixes::new(direction);
            heads.choose([&keys[3], &keys[5]].into_iter().map(|key| &key[..]));
            let all: std::collections::BTreeSet<u64> =
                keys.iter().map(|key| heads.of(key)).collect();
            assert_eq!(all.len(), keys.len(), "{tenant}");
        }
    }
}

/// A prefix that no longer helps is replaced. If there is no better one, searches become rarer and
/// rarer.
#[test]
fn another_prefix_is_looked_for_once_heads_tell_nothing() {
    let mut heads = KeyPrefixes::new(Direction::Forward);
    let key = |tenant: &str, number: u64| [tenant.as_bytes(), &number.to_be_bytes()].concat();
    let keys = |tenant| [1, 2].map(|number| key(tenant, number));
    let choose = |heads: &mut KeyPrefixes, tenant| {
        let keys = keys(tenant);
        let is_other = heads.choose(keys.iter().map(|key| &key[..]));
        (is_other, heads.of(&keys[0]) == heads.of(&keys[1]))
    };
    assert_eq!(choose(&mut heads, "tenant-17/"), (true, false));
    let far = keys("tenant-18/");
    assert_eq!(heads.of(&far[0]), heads.of(&far[1]), "both are behind the prefix");
    assert!(!heads.is_vain(7) && heads.is_vain(1));
    assert_eq!(choose(&mut heads, "tenant-18/"), (true, false));
    let mut borne = Vec::new();
    for _ in 0..10 {
        assert_eq!(choose(&mut heads, "tenant-18/"), (false, false));
        borne.push((1..).find(|_| heads.is_vain(1)).unwrap());
    }
    assert_eq!(borne, [16, 32, 64, 128, 256, 512, 1024, 1024, 1024, 1024]);
}

/// Ascending lists of keys. The version of a key is the number of its list, and a smaller number is
/// newer. Several keys have equal heads.
struct Lists(Vec<Vec<u64>>);

impl Lists {
    fn head(&self, one: usize) -> Option<u64> {
        self.0[one].last().map(|key| key / 4)
    }
}

impl Contest for Lists {
    fn beats(&self, one: usize, other: usize) -> (bool, bool) {
        let [a, b] = [one, other].map(|list| self.0[list].last().expect("it is in the line"));
        assert_eq!(a / 4, b / 4, "keys are compared where heads are equal, and nowhere else");
        ((a, one) < (b, other), a == b)
    }
}

#[test]
fn merge_queue_1_2_3_all_keys_come_in_order_once_and_of_equal_ones_the_first() {
    let mut rng = Rng::new(8);
    let (mut ties, mut vain) = (0, 0);
    for round in 0..3000 {
        let (many, most) = (1 + rng.below(9), 1 + rng.below(20));
        let list = |rng: &mut Rng| {
            let mut keys: Vec<u64> = (0..rng.below(8)).map(|_| rng.below(most)).collect();
            keys.sort_unstable_by(|a, b| b.cmp(a));
            keys.dedup();
            keys
        };
        let mut lists = Lists((0..many).map(|_| list(&mut rng)).collect());
        let mut expected: Vec<(u64, usize)> = Vec::new();
        for (at, keys) in lists.0.iter().enumerate() {
            expected.extend(keys.iter().map(|key| (*key, at)));
        }
        expected.sort_unstable();
        expected.dedup_by_key(|(key, _)| *key);
        let mut line = MergeQueue::new();
        for one in 0..lists.0.len() {
            if let Some(head) = lists.head(one) {
                vain += line.enter(one, head, true, &lists);
            }
        }
        let mut seen = Vec::new();
        while let Some(first) = line.first() {
            seen.push((*lists.0[first].last().unwrap(), first));
            let others = (0..lists.0.len()).filter(|other| *other != first);
            let ahead = |other: usize| lists.0[other].last().map(|key| (*key, other));
            assert_eq!(line.second(), others.filter_map(ahead).min().map(|(_, other)| other));
            while let Some(tied) = line.tied() {
                assert_eq!(lists.0[tied].pop(), lists.0[first].last().copied());
                ties += 1;
                match lists.head(tied) {
                    Some(head) => vain += line.step_tied(head, true, &lists),
                    None => line.end_tied(),
                }
            }
            lists.0[first].pop();
            let Some(head) = lists.head(first) else {
                line.end();
                continue;
            };
            let stays = line.stays(head);
            vain += line.step(head, true, &lists);
            assert!(!stays || line.first() == Some(first));
        }
        assert_eq!(seen, expected, "round {round}");
    }
    assert!(ties > 1000 && vain > 1000, "{ties} ties, {vain} comparisons in vain");
}
