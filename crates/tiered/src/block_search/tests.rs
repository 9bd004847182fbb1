use std::cell::Cell;

use spillway_base::rng::Rng;

use super::*;

/// Nodes over these keys, each with its number as its word.
fn nodes_of(keys: &[Vec<u8>], way: Way) -> (Nodes, Vec<u8>) {
    let (first, last) = (&keys[0], &keys[keys.len() - 1]);
    let nodes = Nodes::new(keys.len(), first, last, way);
    let mut bytes = vec![0xAA; bytes_of(keys.len())];
    for index in 0..keys.len() {
        nodes.set(&mut bytes, index, index as u32, 7 * index as u32);
    }
    nodes.fill(&mut bytes, |word, noted| {
        assert_eq!(noted, 7 * word, "what was noted with a word comes with it");
        nodes.head(&keys[word as usize])
    });
    (nodes, bytes)
}

/// Looks up all keys, and keys next to them, in every way of comparing heads.
fn check(mut keys: Vec<Vec<u8>>, mut asked: Vec<Vec<u8>>) {
    keys.sort();
    for key in keys.iter().step_by(keys.len() / 100 + 1) {
        asked.push(key.clone());
        asked.push([key, &[0][..]].concat());
        asked.push(key[..key.len().saturating_sub(1)].to_vec());
        let mut beside = key.clone();
        if let Some(byte) = beside.last_mut() {
            *byte = byte.wrapping_add(1);
        }
        asked.push(beside);
    }
    for way in Way::all() {
        let (nodes, bytes) = nodes_of(&keys, way);
        assert_eq!(nodes.len(), keys.len());
        for index in 0..keys.len() {
            assert_eq!(nodes.word(&bytes, index), index as u32);
        }
        for key in &asked {
            let below = keys.partition_point(|other| other < key);
            let found = nodes.seek(&bytes, key, |index| &keys[index]);
            assert_eq!(found, below, "{way:?}: {key:x?} among {keys:x?}");
            let told = Cell::new(None);
            let tell = |leaf| assert_eq!(told.replace(Some(leaf)), None, "it is told once");
            let found = nodes.seek_told(&bytes, key, |index| &keys[index], tell);
            assert_eq!(found, below);
            let is_told = match told.get() {
                Some(leaf) => (leaf * LEAF_KEYS + 1..=(leaf + 1) * LEAF_KEYS).contains(&found),
                None => found == 0 || found == keys.len(),
            };
            assert!(is_told, "BLOCK-SEARCH-4 {way:?}: {found} by {told:?}");
        }
    }
}

/// Numbers of keys at which nodes are exactly full, are not full, or need another layer.
const COUNTS: [usize; 19] =
    [1, 2, 7, 8, 9, 16, 63, 64, 127, 128, 129, 136, 1000, 1024, 1025, 1153, 2048, 2049, 2500];

/// BLOCK-SEARCH-1, BLOCK-SEARCH-2.
#[test]
fn keys_are_found_in_every_way() {
    let mut rng = Rng::new(1);
    for count in COUNTS {
        let random = |len: u64, rng: &mut Rng| -> Vec<u8> {
            (0..len).map(|_| rng.next_u64() as u8).collect()
        };
        let asked: Vec<Vec<u8>> = (0..200)
            .map(|_| {
                let len = rng.below(20);
                random(len, &mut rng)
            })
            .collect();
        let long = (0..count).map(|_| random(16, &mut rng)).collect();
        check(long, asked.clone());
        let short = (0..count)
            .map(|_| {
                let len = rng.below(6);
                random(len, &mut rng)
            })
            .collect();
        check(short, asked.clone());
        // Keys of few letters, so that many are equal or prefixes of each other.
        let few =
            |rng: &mut Rng| (0..rng.below(12)).map(|_| b'a' + rng.below(2) as u8 * 25).collect();
        check(
            (0..count).map(|_| few(&mut rng)).collect(),
            (0..200).map(|_| few(&mut rng)).collect(),
        );
    }
}

/// BLOCK-SEARCH-1: heads that are all equal or the largest possible, and prefixes longer than the
/// kept part.
#[test]
fn heads_that_say_nothing_are_told_apart_by_keys() {
    for count in COUNTS {
        for prefix in [&b""[..], b"p", &[0xFF; 22], &[7; 23], &[0xFF; 100]] {
            for middle in [[0_u8; 4], [0xFF; 4]] {
                let key =
                    |number: usize| [prefix, &middle, &(number as u16).to_be_bytes()].concat();
                // A key with another head keeps the middle bytes out of the prefix.
                let other = [prefix, &[5; 4][..]].concat();
                let keys = (1..count).map(key).chain([other]).collect();
                let asked = [&b""[..], b"q", &prefix[..prefix.len() / 2], &[0xFF; 120]];
                check(keys, asked.iter().map(|asked| asked.to_vec()).collect());
            }
        }
    }
}

/// Versions of one key are equal keys: the first one is found.
#[test]
fn of_equal_keys_the_first_is_found() {
    let keys = [vec![b"a".to_vec(); 30], vec![b"b".to_vec(); 300], vec![b"c".to_vec(); 3]].concat();
    check(keys, Vec::new());
}
