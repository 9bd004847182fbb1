use clap::Parser;

use super::command::{HotRows, empty, subjects};
use super::work::run;
use super::*;

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    temperature: TemperatureArgs,
}

fn args(more: &str) -> TemperatureArgs {
    let tiny = "test --memory-mib 32 --data-times 0.5 --operations 20000 --together 500";
    Command::parse_from(tiny.split(' ').chain(more.split_whitespace())).temperature
}

#[test]
fn blocks_are_hits_or_reads_and_reads_are_of_a_tier() {
    let dir = tempfile::tempdir().unwrap();
    let args = args("--threads 2");
    let plan = args.plan(HotRows::Tiers).unwrap();
    let mut report = empty();
    for stores in subjects() {
        let ran = run(&stores, &plan, dir.path()).unwrap();
        // Seven of ten operations are gets, of which some end in memtables.
        assert!((13_000.0..15_000.0).contains(&ran.gets), "{ran:?}");
        assert!(ran.hits + ran.reads > 5000.0 && ran.hits + ran.reads < 2.0 * ran.gets, "{ran:?}");
        assert!(ran.reads > 0.0 && ran.fast_reads <= ran.reads, "{ran:?}");
        assert!(ran.written_bytes > 20_000.0 * 0.3 * 216.0, "{ran:?}");
        assert!((0.0..1.0).contains(&ran.fast_share), "{ran:?}");
        report.add(args.row(HotRows::Tiers, &stores.name, &ran));
    }
    assert_eq!(report.subjects().len(), 2);
}

#[test]
fn hot_rows_are_neighbours_or_anywhere() {
    let args = args("");
    assert_eq!(args.plan(HotRows::Scattered).unwrap().together, 1);
    assert_eq!(args.plan(HotRows::Together).unwrap().together, 500);
    assert!(Command::try_parse_from(["test", "--case", "nowhere"]).is_err());
    let nothing = TemperatureArgs { mix: vec![0, 0, 0], ..args };
    assert!(nothing.plan(HotRows::Tiers).is_err());
}
