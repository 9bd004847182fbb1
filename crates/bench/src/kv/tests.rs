use super::*;
use crate::store::SpillwayStores;

fn tiny() -> KvPlan {
    KvPlan {
        workloads: Workload::ALL.to_vec(),
        keys: 300,
        operations: 200,
        durable_operations: 50,
        value_bytes: vec![10, 500],
        threads: vec![1, 2],
        rounds: 1,
        memory_bytes: 64 << 20,
        seed: 7,
    }
}

#[test]
fn every_workload_runs_and_equal_seeds_read_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let run = || compare(&[&SpillwayStores::default()], &tiny(), dir.path()).unwrap();
    let (first, second) = (run(), run());
    assert_eq!(first.len(), Workload::ALL.len() * 4);
    let checksums =
        |rows: &[KvRow]| rows.iter().map(|row| (row.workload, row.checksum)).collect::<Vec<_>>();
    assert_eq!(checksums(&first), checksums(&second));
    let read = |row: &&KvRow| row.workload == Workload::ReadRandom;
    assert!(first.iter().filter(read).all(|row| row.checksum != 0));
}

#[test]
fn another_seed_reads_something_else() {
    let dir = tempfile::tempdir().unwrap();
    let mut plan = tiny();
    plan.workloads = vec![Workload::SeekRandom];
    plan.value_bytes = vec![10];
    let first = compare(&[&SpillwayStores::default()], &plan, dir.path()).unwrap();
    plan.seed = 8;
    let second = compare(&[&SpillwayStores::default()], &plan, dir.path()).unwrap();
    assert_ne!(first[0].checksum, second[0].checksum);
}
