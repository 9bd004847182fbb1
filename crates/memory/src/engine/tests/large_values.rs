//! Rows that are too large for a page of the slabs.

use super::loading::key;
use super::*;

impl World {
    /// Commits a row with a value of this many bytes, as the transaction manager does.
    fn put_large(&mut self, table: TableId, number: u64, bytes: usize) {
        let mut value = vec![0; bytes];
        self.rng.fill(&mut value[..100]);
        let mut batch = WriteBatch::new();
        batch.push(Op::Put { table, key: &key(number), value: &value });
        let room = self.engine.admit(batch.as_bytes().len()).unwrap();
        self.commit_untold(batch);
        self.tell();
        drop(room);
    }

    fn is_in_memory(&self, table: TableId, number: u64) -> bool {
        let mut value = Vec::new();
        let found = self.engine.get(table, &key(number), self.csn, Access::MemoryOnly, &mut value);
        found.is_ok_and(|found| found.is_value())
    }
}

/// RUN-2 and MEMORY-5: large rows are charged whole, and eviction keeps them within the budget.
#[test]
fn a_table_of_large_values_stays_within_the_budget() {
    let mut world = World::new(40);
    let table = world.tables()[0];
    let limit = world.budget.limit();
    let mut written = 0;
    for number in 0..100 {
        let bytes = (16 << 10 << (number % 7)) - world.rng.below(5000) as usize;
        world.put_large(table, number % 80, bytes);
        written += bytes;
        assert!(world.budget.used() <= limit, "{} bytes charged", world.budget.used());
    }
    assert!(written > 3 * limit);
    let slabs = &world.engine.0.store.slabs;
    assert!(slabs.large.len() > 0 && slabs.charged_bytes() > slabs.used_bytes());
    let mut value = Vec::new();
    for round in 0..2 {
        for number in 0..80 {
            let (key, csn) = (key(number), world.csn);
            let found = world.engine.get(table, &key, csn, Access::Blocking, &mut value);
            assert!(found.unwrap().is_value(), "{round}");
            assert!(Some(&value) == world.model.get(table, &key, csn), "{number}");
            assert!(world.budget.used() <= limit, "{} bytes charged", world.budget.used());
        }
        world.crash();
    }
    world.check_live();
}

/// The CLOCK hand for large rows spares those that were read since its last visit.
#[test]
fn eviction_spares_large_rows_that_are_read() {
    let mut world = World::new(41);
    let table = world.tables()[0];
    for number in 0..20 {
        world.put_large(table, number, 50_000);
    }
    while world.engine.run_background_job().unwrap() {}
    for left in (1..20).rev() {
        assert!(world.is_in_memory(table, 7), "{left}");
        // The version is read, but is the only one that was.
        let evicted = world.engine.0.eviction().evict(1);
        assert!((50_000..60_000).contains(&evicted), "{evicted}");
        world.release();
        assert_eq!(world.engine.0.store.slabs.large.len(), left);
    }
    assert!(world.is_in_memory(table, 7));
    // Now nobody reads it.
    assert!(world.engine.0.eviction().evict(1) > 0);
    assert!(!world.is_in_memory(table, 7));
}
