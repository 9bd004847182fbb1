use clap::Parser;

use super::*;
use crate::store::SpillwayStores;

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    scan: ScanArgs,
}

#[test]
fn every_task_runs_and_reads_what_it_should() {
    let dir = tempfile::tempdir().unwrap();
    let tiny = "test --rows 3000 --seeks 20 --nexts 7 --gets 90 --at-once 1,40 --threads 1,3 --memory-mib 64 --cold --turns 1 --rounds 2";
    let mut args = Command::parse_from(tiny.split(' ')).scan;
    args.common.dir = dir.path().to_owned();
    let report = args.compare(&[&SpillwayStores::default()]).unwrap();
    // Tasks, of which shared ones come twice; layouts, sizes, rounds.
    assert_eq!(report.rows().len(), (4 + 3 * 2) * 2 * 2 * 2);
    assert!(report.rows().iter().all(|row| row.figures[0] > 0.0));
}
