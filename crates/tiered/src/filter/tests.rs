use super::*;
use spillway_base::rng::Rng;

fn key(number: u64) -> [u8; 16] {
    let mut key = *b"user0000........";
    key[8..].copy_from_slice(&number.to_be_bytes());
    key
}

fn hashes(numbers: std::ops::Range<u64>) -> Vec<u64> {
    numbers.map(|number| hash(&key(number))).collect()
}

/// FILTER-1, FILTER-2: for blocks of few keys and of many keys.
#[test]
fn filter_1_2_members_are_found_and_few_others_are() {
    for (kind, least_share) in [(FilterKind::Bloom, 70), (FilterKind::Ribbon, 110)] {
        for count in [1_u64, 7, 30, 58, 64, 130, 520, 3000] {
            // For few keys many filters are built, because the rate of each varies.
            let filters = (200_000 / (count + 1000)).max(1);
            let asked = 2000;
            let mut wrong = 0;
            for number in 0..filters {
                let from = number * 1_000_000;
                let members = hashes(from..from + count);
                let filter = build(kind, &members);
                assert!(
                    members.iter().all(|&hash| may_contain(&filter, hash)),
                    "FILTER-1 {kind} {count}"
                );
                let others = hashes(from + count..from + count + asked);
                wrong += others.iter().filter(|&&hash| may_contain(&filter, hash)).count() as u64;
            }
            let of = filters * asked;
            assert!(wrong * least_share < of, "FILTER-2 {kind} of {count}: {wrong} of {of}");
        }
    }
}

/// The purpose of a ribbon: it takes fewer bits for each key than a Bloom filter, in blocks of any
/// size.
#[test]
fn a_ribbon_is_the_smaller_one() {
    for count in [1_u64, 7, 30, 58, 64, 130, 520, 3000] {
        let members = hashes(0..count);
        let bytes = |kind| build(kind, &members).len();
        let (bloom, ribbon) = (bytes(FilterKind::Bloom), bytes(FilterKind::Ribbon));
        assert!(ribbon * 5 < bloom * 4, "{count} keys: {ribbon} of {bloom} bytes");
    }
}

/// FILTER-3: equal hashes, no hashes, and hashes that differ by a bit.
#[test]
fn filter_3_any_hashes_have_a_filter() {
    let twice = [hashes(0..300), hashes(100..200)].concat();
    let near: Vec<u64> = (0..64).map(|bit| 1 << bit).collect();
    let same = vec![7; 5000];
    for members in [vec![], twice, near, same, vec![0, u64::MAX]] {
        for kind in FilterKind::ALL {
            let filter = build(kind, &members);
            assert!(members.iter().all(|&hash| may_contain(&filter, hash)), "{kind}");
            assert_eq!(filter, build(kind, &members), "FILTER-4");
        }
        assert_ne!(build(FilterKind::Ribbon, &members)[0], BLOOM);
    }
}

#[test]
fn filter_5_any_bytes_can_be_asked() {
    assert!(may_contain(&[], 1) && may_contain(&[BLOOM], 1) && may_contain(&[9], 1));
    assert!(may_contain(&[200, 0, 0, 0], 1), "a kind that is not known");
    let mut rng = Rng::new(1);
    for len in 0..400 {
        let mut bytes = vec![0; len];
        rng.fill(&mut bytes);
        for first in [BLOOM, 1, 127, 128] {
            bytes.iter_mut().take(1).for_each(|byte| *byte = first);
            (0..20).for_each(|_| _ = may_contain(&bytes, rng.next_u64()));
        }
    }
}

/// Ascending distinct keys: numbers far apart or close, or with parts that repeat, all of one
/// length or of several.
fn some_keys(rng: &mut Rng) -> Vec<Vec<u8>> {
    let (count, way, bits) = (1 + rng.below(200), rng.below(4), 1 + rng.below(63));
    let mut keys: Vec<Vec<u8>> = (0..count)
        .map(|number| {
            let any = rng.next_u64() >> (64 - bits);
            match way {
                0 => key(any).to_vec(),
                1 => key(number).to_vec(),
                // In clusters.
                2 => [&(any % 5).to_be_bytes()[..], &number.to_be_bytes()[..]].concat(),
                // Of any length, also with zeros at the end.
                _ => any.to_be_bytes()[..rng.below(9) as usize].to_vec(),
            }
        })
        .collect();
    keys.sort();
    keys.dedup();
    keys
}

fn range_of(keys: &[Vec<u8>]) -> (Vec<u8>, &[u8], &[u8]) {
    let (first, last) = (&*keys[0], &*keys[keys.len() - 1]);
    (build_range((first, last), keys.len(), keys.iter().map(|key| &**key)), first, last)
}

#[test]
fn filter_6_no_key_is_between_a_place_and_what_is_answered_for_it() {
    let (mut rng, mut told) = (Rng::new(6), 0);
    for round in 0..400 {
        let keys = some_keys(&mut rng);
        let (bits, first, last) = range_of(&keys);
        assert!(bits.len() <= keys.len(), "a byte for each key");
        let Some(range) = RangeFilter::new(&bits, first, last) else { continue };
        assert!(keys.iter().all(|key| range.may_contain(key)), "round {round}");
        let mut bound = Vec::new();
        for _ in 0..50 {
            let mut place = keys[rng.below(keys.len() as u64) as usize].clone();
            match rng.below(4) {
                0 => {}
                1 => place.push(0),
                2 => place.extend_from_slice(&rng.next_u64().to_be_bytes()),
                _ => {
                    let at = rng.below(place.len().max(1) as u64) as usize;
                    place.iter_mut().skip(at).for_each(|byte| *byte = rng.next_u64() as u8);
                }
            }
            if !(first..=last).contains(&&*place) {
                continue;
            }
            range.least_from(&place, &mut bound);
            assert!(place <= bound, "round {round}");
            let next = keys.iter().find(|key| **key >= place).unwrap();
            assert!(bound <= *next, "round {round}: {place:?} {bound:?} {next:?}");
            told += u64::from(place < bound);
            range.past_before(&place, &mut bound);
            assert!(bound <= place, "round {round}");
            let before = keys.iter().rfind(|key| **key < place);
            assert!(before.is_none_or(|before| *before < bound), "round {round}: {place:?}");
            told += u64::from(bound < place);
        }
    }
    assert!(told > 2000, "it has told of places without keys {told} times");
}

/// The purpose of a range filter: among evenly spread keys, few positions are in a cell with a key.
#[test]
fn a_range_filter_tells_of_most_places_that_no_key_is_near() {
    let mut rng = Rng::new(7);
    let mut keys: Vec<Vec<u8>> = (0..75).map(|_| key(rng.next_u64()).to_vec()).collect();
    keys.sort();
    let (bits, first, last) = range_of(&keys);
    let range = RangeFilter::new(&bits, first, last).unwrap();
    let (mut asked, mut near, mut bound) = (0, 0, Vec::new());
    while asked < 2000 {
        let place = key(rng.next_u64());
        if (first..=last).contains(&&place[..]) {
            asked += 1;
            range.least_from(&place, &mut bound);
            near += u64::from(bound == place);
        }
    }
    assert!(near * 6 < asked, "{near} of {asked}");
}

#[test]
fn a_range_filter_stands_before_another_and_is_left_out_of_it() {
    let filter = build(FilterKind::Ribbon, &hashes(0..70));
    let both = with_range(&[1, 2, 3], filter.clone());
    assert_eq!(split_range(&both), (Some(&[1, 2, 3][..]), &filter[..]));
    assert_eq!(split_range(&filter), (None, &filter[..]));
    assert_eq!(with_range(&[], filter.clone()), filter);
    assert!(hashes(0..70).iter().all(|hash| may_contain(&both, *hash)));
    let others = hashes(70..2000).iter().filter(|hash| may_contain(&both, **hash)).count();
    assert!(others < 40, "{others}");
}

/// A cell begins at a key that is shorter than a head.
#[test]
fn filter_6_what_is_answered_for_a_short_key_is_not_past_it() {
    let (first, last) = (&[0, 255, 255, 255, 255, 255, 255, 200][..], &[1][..]);
    let range = RangeFilter::new(&[0x40], first, last).unwrap();
    let mut bound = Vec::new();
    range.past_before(last, &mut bound);
    assert_eq!(bound, last);
}

/// FILTER-5 for range filters: arbitrary bytes, with any two keys as first and last.
#[test]
fn filter_5_any_bytes_can_be_a_range_filter() {
    let (mut rng, mut bound) = (Rng::new(5), Vec::new());
    for len in 0..300 {
        let mut bits = vec![0; len % 40];
        rng.fill(&mut bits);
        let mut ends = [rng.next_u64(), rng.next_u64()];
        ends.sort_unstable();
        let [first, last] = ends.map(|end| key(end >> rng.below(64)));
        if let Some(range) = RangeFilter::new(&bits, &first, &last) {
            for place in [first, last, key(rng.next_u64()).clamp(first, last)] {
                range.least_from(&place, &mut bound);
                assert!(*bound >= place[..]);
                range.past_before(&place, &mut bound);
                assert!(*bound <= place[..]);
                range.may_contain(&place);
            }
        }
        let mut cut = with_range(&bits, vec![9; 3]);
        cut.truncate(rng.below(cut.len() as u64 + 1) as usize);
        let _ = may_contain(&cut, 1);
    }
}
