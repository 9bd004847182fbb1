//! The share of the cache memory that cached rows get, under two kinds of reads (`crate::cache`,
//! BALANCER-1 to BALANCER-5).

use super::*;

const ROWS: u64 = 40_000;

fn key(number: u64) -> Vec<u8> {
    format!("key{number:05}").into_bytes()
}

/// A table in extents, of which a small part fits memory.
fn larger_than_memory(adaptive: bool) -> (Bench, Budget) {
    let budget = Budget::new(4 << 20);
    let settings = TieredSettings {
        adaptive_share: adaptive,
        hot_block_bytes: TieredSettings::BLOCK_BYTES / 2,
        cache_bytes: 4 << 20,
        hot_compression: Compression::None,
        cold_compression: Compression::None,
        memtables_bytes: 1 << 20,
        memtable_bytes: 256 << 10,
        ..small()
    };
    let bench = open_within(Arc::new(SimDisk::new(1)), settings, budget.clone()).unwrap();
    bench.install(&(Csn(1), batch(&[Op::CreateTable(table(1))])));
    for number in 0..ROWS {
        let value = noise(number, 200);
        let put = Op::Put { table: table(1), key: &key(number), value: &value };
        bench.install(&(Csn(2 + number), batch(&[put])));
        if number % 1000 == 0 {
            bench.work().unwrap();
        }
    }
    bench.engine.request_persist(bench.horizon.stable());
    bench.work().unwrap();
    (bench, budget)
}

impl Bench {
    fn share(&self) -> f64 {
        self.engine.0.context.rows.as_ref().unwrap().share()
    }
}

/// Gets mostly of few rows, each in a block with rows that are not read.
fn get_some(bench: &Bench, budget: &Budget, rng: &mut Rng, reads: u64) {
    for _ in 0..reads {
        let part = rng.below(1 << 30) as f64 / f64::from(1 << 30);
        let rank = (ROWS as f64).powf(part) as u64;
        let number = rank * 7919 % ROWS;
        assert!(bench.get(table(1), &key(number), Csn::MAX).unwrap().is_some());
        // BALANCER-4, whatever the share is.
        assert!(budget.used() <= budget.limit() + (256 << 10), "{}", budget.used());
    }
}

/// Scans of adjacent rows, from the beginning of a few ranges.
fn scan_some(bench: &Bench, budget: &Budget, rng: &mut Rng, scans: u64) {
    for _ in 0..scans {
        let start = key(rng.below(300) * 100);
        let range = KeyRange::new(&start, None);
        let scan =
            bench.engine.scan(table(1), range, Direction::Forward, Csn::MAX, Access::Blocking);
        let mut cursor = scan.unwrap();
        (0..100).for_each(|_| assert!(cursor.next(Access::Blocking).unwrap()));
        assert!(budget.used() <= budget.limit() + (256 << 10), "{}", budget.used());
    }
}

/// BLOCK-CACHE-3: memory of evicted blocks is reused for later blocks of any size, without further
/// evictions.
#[test]
fn what_others_leave_is_full_of_blocks_and_rows_while_extents_come_and_go() {
    let (bench, budget) = larger_than_memory(false);
    let mut rng = Rng::new(5);
    let context = &bench.engine.0.context;
    let held = || {
        let (blocks, tables) = context.cache.bytes();
        blocks + tables + context.rows.as_ref().unwrap().bytes()
    };
    get_some(&bench, &budget, &mut rng, 6000);
    let mut csn = 2 + ROWS;
    for _ in 0..30 {
        for _ in 0..300 {
            let (key, value) = (key(rng.below(ROWS)), noise(csn, 200));
            let put = Op::Put { table: table(1), key: &key, value: &value };
            bench.install(&(Csn(csn), batch(&[put])));
            csn += 1;
            get_some(&bench, &budget, &mut rng, 2);
            if csn.is_multiple_of(10) {
                scan_some(&bench, &budget, &mut rng, 1);
            }
        }
        let most = budget.limit() - budget.used_for(spillway_base::budget::Use::Memtables);
        let before = held();
        assert!(before >= most / 10 * 8, "{before} of {most} before the flush");
        bench.engine.request_persist(bench.horizon.stable());
        bench.work().unwrap();
        // The blocks of the compacted extents have left the cache with these extents. Misses fill
        // their memory again.
        get_some(&bench, &budget, &mut rng, 2000);
        scan_some(&bench, &budget, &mut rng, 25);
        let most = budget.limit() - budget.used_for(spillway_base::budget::Use::Memtables);
        let held = held();
        assert!(held >= most / 10 * 8, "{held} of {most}, {} free", context.pages.free_bytes());
    }
}

/// BUDGET-1, BLOCK-CACHE-4: memory of evicted blocks is available to other uses, even if it is
/// still charged.
#[test]
fn a_charge_that_may_be_refused_has_what_blocks_give() {
    let (bench, budget) = larger_than_memory(false);
    let mut rng = Rng::new(9);
    get_some(&bench, &budget, &mut rng, 6000);
    (0..50).for_each(|_| scan_some(&bench, &budget, &mut rng, 20));
    let context = &bench.engine.0.context;
    let (before, _) = context.cache.bytes();
    let bytes = budget.limit() / 4;
    assert!(budget.used() + bytes > budget.limit() && before > 2 * bytes, "{before}");
    let charge = budget.try_charge(spillway_base::budget::Use::Transactions, bytes).unwrap();
    let (after, _) = context.cache.bytes();
    assert!(before - after < bytes + budget.limit() / 8, "{before} and then {after}");
    assert!(budget.used() <= budget.limit());
    drop(charge);
}

/// BALANCER-1, BALANCER-3, BALANCER-4: the share falls, rises, and falls again.
#[test]
fn balancer_1_the_share_follows_what_is_asked_for() {
    let (bench, budget) = larger_than_memory(true);
    let mut rng = Rng::new(3);
    for _ in 0..2 {
        scan_some(&bench, &budget, &mut rng, 2500);
        let of_scans = bench.share();
        assert!(of_scans < 0.02, "{of_scans}");
        get_some(&bench, &budget, &mut rng, 12_000);
        // It moves to and fro, because the rows that few gets read say little.
        let shares = (0..6).map(|_| {
            get_some(&bench, &budget, &mut rng, 2_000);
            bench.share()
        });
        let of_gets = shares.sum::<f64>() / 6.0;
        assert!(of_gets > 0.1, "{of_gets}");
    }
    scan_some(&bench, &budget, &mut rng, 2500);
    assert!(bench.share() < 0.02, "{}", bench.share());
}

/// If the share may not move, it stays that of the settings.
#[test]
fn a_share_that_does_not_follow_stays() {
    let (bench, budget) = larger_than_memory(false);
    let mut rng = Rng::new(3);
    get_some(&bench, &budget, &mut rng, 1000);
    scan_some(&bench, &budget, &mut rng, 200);
    assert!((bench.share() - 0.25).abs() < 1e-6);
}
