use spillway_base::rng::Rng;

use super::*;

fn pool(page_bytes: usize, spare_bytes: usize) -> (PagePool, Budget) {
    let budget = Budget::new(usize::MAX);
    (PagePool::new(page_bytes, spare_bytes, &budget, Use::Caches), budget)
}

/// A single pool, and the same as a set of pools.
fn pools(page_bytes: usize) -> (PagePool, PagePools, Budget) {
    let (pool, budget) = pool(page_bytes, 0);
    let pools = PagePools { pools: [pool.clone()].into(), slack_bytes: 0 };
    (pool, pools, budget)
}

#[test]
fn pages_are_their_holders_alone_and_serve_again() {
    let (pool, pools, budget) = pools(16 << 10);
    let mut rng = Rng::new(1);
    let mut held: Vec<(Buffer, u8)> = Vec::new();
    for round in 0..3000_u32 {
        if rng.chance(1, 2) && !held.is_empty() {
            let (buffer, value) = held.swap_remove(rng.below(held.len() as u64) as usize);
            assert!(buffer.iter().all(|byte| *byte == value), "of round {value}");
        } else if held.len() < 300 {
            let mut buffer = Buffer::new((9 << 10) + rng.below(7 << 10) as usize, &pools);
            buffer.fill(round as u8);
            held.push((buffer, round as u8));
        }
    }
    let (mapped, free) = pool.mapped_and_free();
    assert!(mapped <= 3 * REGION_BYTES, "{mapped}");
    assert_eq!(budget.used(), free);
    held.clear();
    assert_eq!((pool.mapped_and_free(), budget.used()), ((0, 0), 0));
}

#[test]
fn regions_that_are_free_are_kept_as_far_as_the_pool_may_spare() {
    let (pool, budget) = pool(REGION_BYTES / 4, REGION_BYTES);
    let pages: Vec<_> = (0..11).map(|_| pool.take()).collect();
    assert_eq!((pool.mapped_and_free(), budget.used()), ((3 * REGION_BYTES, 0), 0));
    drop(pages);
    assert_eq!(pool.mapped_and_free(), (REGION_BYTES, budget.used()));
    assert!(budget.used() <= REGION_BYTES);
    let again = pool.take();
    assert_eq!(pool.mapped_and_free().0, REGION_BYTES);
    drop(again);
}

/// Free pages of one size become memory for the other sizes as those need it. Pages in use keep
/// their contents.
#[test]
fn free_pages_of_one_size_make_up_for_new_ones_of_another() {
    let budget = Budget::new(64 << 20);
    let sizes = [8 << 10, 16 << 10];
    let pools = PagePools::new(&sizes, false, &budget, Use::Caches);
    let mut rng = Rng::new(3);
    let mut held: [Vec<Buffer>; 2] = [Vec::new(), Vec::new()];
    let filled = |len: usize, value: u8| {
        let mut buffer = Buffer::new(len, &pools);
        buffer.fill(value);
        buffer
    };
    let bytes = |held: &[Vec<Buffer>; 2]| held[0].len() * sizes[0] + held[1].len() * sizes[1];
    for small in [10, 90, 10, 90] {
        // As in a full cache: a new buffer replaces a random one, most often one of the most
        // frequent size.
        for _ in 0..6000 {
            let which = usize::from(rng.below(100) >= small);
            held[which].push(filled(sizes[which], which as u8 + 1));
            while bytes(&held) > 32 << 20 {
                let all = (held[0].len() + held[1].len()) as u64;
                let gone = usize::from(rng.below(all) >= held[0].len() as u64);
                let place = rng.below(held[gone].len() as u64) as usize;
                held[gone].swap_remove(place);
            }
            // One more page than may be free, because the last returned page was not requested back
            // yet; and the same again, because several pages were returned for one.
            let most = budget.limit() / SLACK_SHARE + 4 * sizes[1];
            assert!(budget.used() <= most, "{} of {most}", budget.used());
        }
        let same = |(which, held): (usize, &Vec<Buffer>)| {
            held.iter().all(|buffer| buffer.iter().all(|byte| *byte == which as u8 + 1))
        };
        assert!(held.iter().enumerate().all(same));
    }
    drop(held);
    assert_eq!(budget.used(), 0);
}

/// The test that mixes the owners of pages: the pool's charge equals the system's memory for its
/// free pages.
#[test]
fn the_system_takes_the_inside_of_free_pages_back() {
    let (pool, pools, budget) = pools(16 << 10 | 64);
    let mut held: Vec<Buffer> = (0..300).map(|_| Buffer::new(16 << 10, &pools)).collect();
    held.iter_mut().for_each(|buffer| buffer.fill(7));
    let mut odd = false;
    held.retain(|_| {
        odd = !odd;
        odd
    });
    assert_eq!(budget.used(), 150 * pool.page_bytes());
    pool.trim();
    let left = budget.used();
    assert!(left <= 150 * (4 << 10 | 64), "{left}");
    pool.trim();
    assert_eq!(budget.used(), left, "there is nothing more to take");
    assert!(held.iter().all(|buffer| buffer.iter().all(|byte| *byte == 7)), "others' stay");
    // They serve again, and the count stays right.
    let again: Vec<Buffer> = (0..150).map(|_| Buffer::new(16 << 10, &pools)).collect();
    assert_eq!(budget.used(), 0);
    drop((held, again));
    assert_eq!((pool.mapped_and_free(), budget.used()), ((0, 0), 0));
}

/// Regions that are large pages begin at a multiple of their size, and the memory returned of them
/// belongs to no other mapping.
#[test]
fn pages_of_large_regions_are_as_all_others() {
    let budget = Budget::new(usize::MAX);
    let pools = PagePools::new(&[16 << 10], true, &budget, Use::FreePages);
    let filled = |number: usize| {
        let mut buffer = Buffer::new(16 << 10, &pools);
        buffer.fill(number as u8);
        buffer
    };
    let mut held: Vec<Option<Buffer>> = (0..300).map(|number| Some(filled(number))).collect();
    let first = held[0].as_ref().unwrap().as_ptr();
    assert_eq!(first.align_offset(REGION_BYTES), 0);
    for taken_back in [16 << 10, 2 << 20, usize::MAX] {
        held.iter_mut().step_by(2).for_each(|buffer| *buffer = None);
        let free = pools.free_bytes();
        assert_eq!(free, 150 * (16 << 10));
        let left = free - taken_back.min(free);
        assert_eq!(pools.give_back(taken_back), free - left);
        assert_eq!((pools.free_bytes(), budget.used()), (left, left));
        for (number, buffer) in held.iter_mut().enumerate() {
            let buffer = buffer.get_or_insert_with(|| filled(number));
            assert!(buffer.iter().all(|byte| *byte == number as u8), "of page {number}");
        }
    }
    held.clear();
    let kept = pools.pools[0].mapped_and_free();
    assert_eq!(kept, (REGION_BYTES, budget.used()));
    assert!(budget.used() <= REGION_BYTES);
    drop(pools);
    assert_eq!(budget.used(), 0);
}

/// A user that takes and returns one page at a time does not make the system clear a large page for
/// each.
#[test]
fn a_large_region_that_is_free_serves_again() {
    let budget = Budget::new(usize::MAX);
    let pools = PagePools::new(&[16 << 10], true, &budget, Use::FreePages);
    let mut first = Buffer::new(16 << 10, &pools);
    first.fill(7);
    drop(first);
    let again = Buffer::new(16 << 10, &pools);
    // A newly mapped region has zeros; in tests, returned pages are overwritten.
    let left = if cfg!(debug_assertions) { 0xDD } else { 7 };
    assert!(again.iter().all(|byte| *byte == left));
}

/// The system's flags of the mapping of an address ("hg": large pages are wanted, "nh": they are
/// not), if it has large pages and reports them.
fn noted_of(at: *const u8) -> Option<String> {
    std::fs::metadata("/sys/kernel/mm/transparent_hugepage").ok()?;
    let maps = std::fs::read_to_string("/proc/self/smaps").ok()?;
    let holds = |line: &str| {
        let (from, to) = line.split_once(' ')?.0.split_once('-')?;
        let [from, to] = [from, to].map(|end| usize::from_str_radix(end, 16));
        Some((from.ok()?..to.ok()?).contains(&at.addr()))
    };
    let mut lines = maps.lines().skip_while(|line| holds(line) != Some(true));
    lines.find_map(|line| line.strip_prefix("VmFlags:")).map(str::to_owned)
}

#[test]
fn the_system_is_told_which_regions_are_to_be_large() {
    let budget = Budget::new(usize::MAX);
    let pools = PagePools::new(&[16 << 10], true, &budget, Use::FreePages);
    let held: Vec<Buffer> = (0..2).map(|_| Buffer::new(16 << 10, &pools)).collect();
    let Some(noted) = noted_of(held[0].as_ptr()) else { return };
    assert!(noted.contains(" hg"), "{noted}");
    let mut held = held.into_iter();
    drop(held.next());
    pools.give_back(usize::MAX);
    let noted = noted_of(held.next().unwrap().as_ptr()).unwrap();
    assert!(noted.contains(" nh") && !noted.contains(" hg"), "{noted}");
}

#[test]
fn regions_are_large_where_memory_is_plenty() {
    let large = |may_be, limit| {
        let pools =
            PagePools::new(&[8 << 10, 16 << 10], may_be, &Budget::new(limit), Use::FreePages);
        pools.pools.iter().map(|pool| pool.0.large).collect::<Vec<_>>()
    };
    let least = 2 * REGION_BYTES * LARGE_SHARE;
    assert_eq!(large(true, least), [true, true]);
    assert_eq!(large(true, least - 1), [false, false]);
    assert_eq!(large(false, least), [false, false]);
}

#[test]
fn arrays_in_large_pages_have_their_values() {
    for bytes in [0, 1 << 10, LARGE_PAGES_MIN * REGION_BYTES, 11 << 20] {
        let values = 0..bytes / size_of::<u32>();
        let array = in_large(values.clone().map(|value| value as u32), true);
        assert!(array.iter().map(|value| *value as usize).eq(values));
    }
}

#[test]
fn what_is_made_longer_begins_as_it_was() {
    let (_, pools, _) = pools(1 << 10);
    for (before, after, stays) in [(600, 1024, true), (600, 1025, false), (100, 900, false)] {
        for given in [Some(&pools), None] {
            let mut buffer = Buffer::new(before, &pools);
            buffer.fill(7);
            let at = buffer.as_ptr();
            let longer = buffer.lengthened(after, given);
            assert!(longer.len() == after && longer[..before].iter().all(|byte| *byte == 7));
            assert_eq!(longer.as_ptr() == at, stays);
        }
    }
}

#[test]
fn what_would_waste_half_of_a_page_is_in_the_heap() {
    let pools = PagePools::new(&[512, 1280], false, &Budget::new(usize::MAX), Use::Caches);
    let bytes = |len| Buffer::new(len, &pools).memory_bytes();
    let lens = [256, 257, 512, 513, 640, 641, 1280, 1281];
    assert_eq!(lens.map(bytes), [256, 512, 512, 513, 640, 1280, 1280, 1281]);
}
