use clap::Parser;

use super::command::{compare, empty, row};
use super::work::run;
use super::*;
use crate::store::SpillwayStores;

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    pressure: PressureArgs,
}

fn args(more: &str) -> PressureArgs {
    let tiny =
        "test --memory-mib 32 --data-times 0.2 --seconds 0.3 --windows 2 --gets 500 --puts 200";
    Command::parse_from(tiny.split(' ').chain(more.split_whitespace())).pressure
}

#[test]
fn gets_and_puts_are_measured_in_windows_of_each_kind() {
    let dir = tempfile::tempdir().unwrap();
    let ran = run(&SpillwayStores::default(), &args("").plan().unwrap(), dir.path()).unwrap();
    assert_eq!(ran.len(), 2 * 3 * 2);
    let mut report = empty();
    ran.iter().for_each(|latency| report.add(row("spillway", latency)));
    assert_eq!(report.cases().len(), 6);
    for latency in &ran {
        assert!(latency.operations_per_s > 0.0 && latency.p50_us > 0.0, "{latency:?}");
        let compacted = latency.compacted_bytes > 0.0;
        assert!(compacted || latency.beside.name() != "compaction", "{latency:?}");
    }
    compare(&mut report);
    assert_eq!(report.notes().len(), 2);
}

#[test]
fn rates_are_more_than_nothing() {
    for wrong in ["--seconds 0", "--fill 0", "--get-threads 0"] {
        let mut words = vec!["test"];
        words.extend(wrong.split(' '));
        assert!(Command::parse_from(words).pressure.plan().is_err(), "{wrong}");
    }
}
