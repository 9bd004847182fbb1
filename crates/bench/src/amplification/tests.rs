use clap::Parser;

use super::command::empty;
use super::work::run;
use super::*;
use crate::store::SpillwayStores;

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    amplification: AmplificationArgs,
}

fn args(more: &str) -> AmplificationArgs {
    let tiny = "test --memory-mib 32 --data-times 0.1 --operations 5000";
    Command::parse_from(tiny.split(' ').chain(more.split_whitespace())).amplification
}

#[test]
fn what_was_asked_for_is_written_at_the_least() {
    let dir = tempfile::tempdir().unwrap();
    let args = args("--threads 2");
    let plan = args.plan(50).unwrap();
    let ran = run(&SpillwayStores::default(), &plan, dir.path()).unwrap();
    // 48 of 100 operations write.
    let writes = ran.asked_bytes / 216.0;
    assert!((2200.0..2600.0).contains(&writes), "{writes}");
    let traffic = ran.traffic;
    assert!(traffic.log_bytes > ran.asked_bytes, "{ran:?}");
    // Updates of one row may combine in memory; inserts, a third of the writes, may not.
    assert!(traffic.flushed_bytes > ran.asked_bytes / 3.0, "{ran:?}");
    let mut report = empty();
    report.add(args.row(50, "spillway".to_owned(), &ran));
    let written = report.median(&["50".to_owned()], "spillway", 1) * 5000.0;
    assert!((written - traffic.written_bytes()).abs() < 1.0);
}

#[test]
fn a_mix_without_writes_writes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let plan = args("--mix 3,1,0,0").plan(0).unwrap();
    let ran = run(&SpillwayStores::default(), &plan, dir.path()).unwrap();
    let traffic = ran.traffic;
    assert_eq!(
        (ran.asked_bytes, traffic.flushed_bytes, traffic.compaction_written_bytes),
        (0.0, 0.0, 0.0)
    );
    assert!(args("--mix 0,0,0,0").plan(0).is_err() && args("--skew 1").plan(0).is_err());
}
