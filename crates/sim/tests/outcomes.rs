//! Histories of SQL sessions in which every outcome counts as a read (SIMULATION-14), under the
//! isolation levels that keep one snapshot for a transaction and under READ COMMITTED.
#![cfg(debug_assertions)]

mod runs;

#[test]
fn simulation_14_outcomes_of_statements_are_reads() {
    for figures in [
        &["serializable=100", "keys=2", "engines=0"],
        &["serializable=100", "keys=4", "engines=1"],
        &["serializable=0", "keys=4", "engines=3"],
        &["committed=100", "keys=4", "engines=2"],
    ] {
        let more = ["sql=1", "clients=4", "transactions=30", "faults=0"];
        runs::histories(&[&figures[..], &more[..]].concat(), 12);
    }
}
