//! What is told of space is what there is.

use super::*;
use crate::extent::ExtentHandle;
use crate::extent_meta::ExtentId;

/// Checks what is told against the slots in use and the extents' own accounts. Answers the dead bytes.
fn check_space(bench: &Bench) -> u64 {
    let told = bench.engine.space();
    let on: Vec<_> = told.iter().map(TableSpace::on_devices).collect();
    let (all, free) = bench.engine.0.space.bytes();
    assert_eq!(on.iter().map(|on| on.slot_bytes).sum::<u64>(), all - free);
    for (space, on) in told.iter().zip(&on) {
        let mut extents: BTreeMap<ExtentId, Arc<ExtentHandle>> = BTreeMap::new();
        let (found, _) = bench.part(space.table.ordinal());
        for part in found.all_parts() {
            let view = part.view();
            let of = view.levels.places().map(|(_, slice)| slice.extent.clone());
            extents.extend(of.map(|extent| (extent.meta.id, extent)));
        }
        let dead = extents.values().map(|extent| extent.meta.data_bytes - extent.live_bytes());
        assert_eq!(on.dead_bytes, dead.sum::<u64>());
        assert_eq!(on.extents as usize, extents.len());
        let live: u64 = space.levels.iter().map(|level| level.block_bytes).sum();
        assert!(live + on.dead_bytes + on.slack_bytes <= on.slot_bytes, "{space:?}");
        assert!(space.newest_bytes() <= space.payload_bytes());
    }
    on.iter().map(|on| on.dead_bytes).sum()
}

/// All slots in use are told of, dead bytes are those that the extents' own accounts leave, and once all is
/// merged the newest versions are what a model has.
#[test]
fn space_is_told_to_the_byte() {
    let disk = SimDisk::new(7);
    let bench = open(&disk).unwrap();
    let mut commits = history(7, 400);
    for (at, commit) in commits.iter().enumerate() {
        bench.install(commit);
        if at % 50 == 49 {
            bench.engine.request_persist(commit.0);
            bench.work().unwrap();
            check_space(&bench);
        }
    }
    // What changes in the middle of an extent leaves its ends where they are.
    for (csn, keys) in [(401, 0..600), (402, 300..308)] {
        let mut batch = WriteBatch::new();
        for key in keys {
            let (key, value) = (format!("wide{key:05}"), noise(csn * 1000 + key, 500));
            batch.push(Op::Put { table: table(1), key: key.as_bytes(), value: &value });
        }
        commits.push((Csn(csn), batch));
        bench.install(commits.last().unwrap());
        bench.engine.compact_all().unwrap();
        let dead = check_space(&bench);
        assert_eq!(dead > 0, csn == 402, "{dead}");
    }
    let rows = model(&commits, Csn(402));
    for space in bench.engine.space() {
        let of = rows.iter().filter(|((table, _), _)| *table == space.table);
        let bytes: usize = of.map(|((_, key), value)| key.len() + value.len()).sum();
        assert_eq!((space.payload_bytes(), space.newest_bytes()), (bytes as u64, bytes as u64));
    }
    let metrics = bench.engine.metrics();
    let amplification = metrics.iter().find(|metric| metric.name == "tiered_space_amplification");
    let (all, free) = bench.engine.0.space.bytes();
    let newest: u64 = bench.engine.space().iter().map(TableSpace::newest_bytes).sum();
    assert_eq!(amplification.unwrap().value, (all - free) as f64 / newest as f64);
}
