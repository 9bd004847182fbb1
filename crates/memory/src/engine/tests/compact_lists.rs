use spillway_base::budget::Use;

use super::loading::key;
use super::*;
use crate::engine::compact::{LISTED_BYTES, LISTED_SHARE};

/// Log compaction lists as many records as fit into its share of the budget, and charges for the
/// list. The next compaction moves the rest.
#[test]
fn a_compaction_lists_no_more_records_than_its_share_of_the_budget_has_room_for() {
    const ROWS: u64 = 30_000;
    let mut world = World::new(23);
    let table = world.tables()[0];
    for begin in (0..ROWS).step_by(500) {
        let mut batch = WriteBatch::new();
        for number in begin..begin + 500 {
            batch.push(Op::Put { table, key: &key(number), value: b"small" });
        }
        world.commit(batch);
    }
    world.keep_segments();
    let inner = &world.engine.0;
    let kept = inner.segments.iter().filter(|(_, segment)| segment.kept_bytes() > Some(0));
    let victims: Vec<u32> = kept.map(|(handle, _)| handle).collect();
    let live = || victims.iter().map(|one| inner.segments.get(*one).unwrap().live()).sum::<u64>();

    let compaction = inner.log_compaction();
    let most = world.budget.limit() / LISTED_SHARE / LISTED_BYTES;
    let (listed, charge) = compaction.list(&[inner.tables.load()[&table].clone()], &victims);
    assert_eq!(listed.len(), most);
    let (used, least) = (world.budget.used_for(Use::Compactions), most * LISTED_BYTES);
    assert!(used >= least && used <= least + (3 << 20), "{used} bytes, {least} in the list");
    drop(charge);
    assert_eq!(world.budget.used_for(Use::Compactions), 0);

    let before = live();
    assert!(compaction.move_live(&victims, u64::MAX).unwrap());
    assert!(live() > 0 && live() < before, "{} of {before}", live());
    assert!(compaction.move_live(&victims, u64::MAX).unwrap());
    assert_eq!(live(), 0);
    assert!(!compaction.move_live(&victims, u64::MAX).unwrap());
    world.assert_is_whole(table);
    world.crash();
    world.assert_is_whole(table);
    world.check_live();
}
