//! Histories of the simulation on a disk whose syncs lie or fail for a part of a life
//! (SIMULATION-13). The test fails if no sync lied, no acknowledged commit was lost, or no database
//! was refused as damaged.
#![cfg(debug_assertions)]

mod runs;

use runs::histories;

/// Both engines, tiers, and clients of SQL.
const SHAPES: [&[&str]; 4] = [
    &["engines=0", "sql=0", "beside=3"],
    &["engines=3", "sql=0", "beside=3"],
    &["engines=1", "sql=0", "beside=7", "tiers=7"],
    &["engines=1", "sql=1"],
];

#[test]
fn simulation_13_a_disk_that_lies_makes_no_half_commit_and_no_wrong_value() {
    let all = SHAPES.map(|shape| {
        let figures = [&["faults=129", "lives=3", "clients=3"], shape].concat();
        histories(&figures, 30)
    });
    for name in ["lying_syncs", "lost_by_lies", "damaged_by_lies"] {
        assert!(all.iter().any(|sums| sums[name] > 0), "{name}: {all:?}");
    }
}
