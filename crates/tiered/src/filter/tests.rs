use super::*;
use crate::fixtures;
use spillway_base::rng::Rng;

fn key(number: u64) -> [u8; 16] {
    let mut key = *b"user0000........";
    key[8..].copy_from_slice(&number.to_be_bytes());
    key
}

fn hashes(numbers: std::ops::Range<u64>) -> Vec<u64> {
    numbers.map(|number| hash(&key(number))).collect()
}

/// I1, I2: of blocks of few keys and of many.
#[test]
fn i1_i2_members_are_found_and_few_others_are() {
    for (kind, least_share) in [(FilterKind::Bloom, 70), (FilterKind::Ribbon, 110)] {
        for count in [1_u64, 7, 30, 58, 64, 130, 520, 3000] {
            // Of few keys many filters, as each says yes of its own.
            let filters = (200_000 / (count + 1000)).max(1);
            let asked = 2000;
            let mut wrong = 0;
            for number in 0..filters {
                let from = number * 1_000_000;
                let members = hashes(from..from + count);
                let filter = build(kind, &members);
                assert!(
                    members.iter().all(|&hash| may_contain(&filter, hash)),
                    "I1 {kind} {count}"
                );
                let others = hashes(from + count..from + count + asked);
                wrong += others.iter().filter(|&&hash| may_contain(&filter, hash)).count() as u64;
            }
            let of = filters * asked;
            assert!(wrong * least_share < of, "I2 {kind} of {count}: {wrong} of {of}");
        }
    }
}

/// What it is for: fewer bits than the Bloom filter for each key, of any block there is.
#[test]
fn a_ribbon_is_the_smaller_one() {
    for count in [1_u64, 7, 30, 58, 64, 130, 520, 3000] {
        let members = hashes(0..count);
        let bytes = |kind| build(kind, &members).len();
        let (bloom, ribbon) = (bytes(FilterKind::Bloom), bytes(FilterKind::Ribbon));
        assert!(ribbon * 5 < bloom * 4, "{count} keys: {ribbon} of {bloom} bytes");
    }
}

/// I3: equal hashes, no hashes, and hashes that differ by a bit.
#[test]
fn i3_any_hashes_have_a_filter() {
    let twice = [hashes(0..300), hashes(100..200)].concat();
    let near: Vec<u64> = (0..64).map(|bit| 1 << bit).collect();
    let same = vec![7; 5000];
    for members in [vec![], twice, near, same, vec![0, u64::MAX]] {
        for kind in FilterKind::ALL {
            let filter = build(kind, &members);
            assert!(members.iter().all(|&hash| may_contain(&filter, hash)), "{kind}");
            assert_eq!(filter, build(kind, &members), "I4");
        }
        assert_ne!(build(FilterKind::Ribbon, &members)[0], BLOOM);
    }
}

#[test]
fn i5_any_bytes_can_be_asked() {
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

/// Stored filters are read as they were written.
#[test]
fn the_format_is_what_its_version_says() {
    for (name, count) in [("few", 30), ("many", 520)] {
        let members = hashes(0..count);
        let filter = build(FilterKind::Ribbon, &members);
        let kept = fixtures::same(&format!("ribbon-{name}"), filter);
        assert!(members.iter().all(|&hash| may_contain(&kept, hash)));
    }
    let kept = fixtures::same("bloom-few", build(FilterKind::Bloom, &hashes(0..30)));
    assert!(hashes(0..30).iter().all(|&hash| may_contain(&kept, hash)));
}
