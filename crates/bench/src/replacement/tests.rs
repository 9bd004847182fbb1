use clap::Parser;
use spillway::Mechanism;

use super::command::empty;
use super::series::{Series, Share};
use super::*;

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    replacement: ReplacementArgs,
}

#[test]
fn a_tiny_run_has_all_shares() {
    let dir = tempfile::tempdir().unwrap();
    let tiny = "test --memory-mib 32 --data-times 0.1 --operations 5000 --shares 20 --threads 2";
    let mut args = Command::parse_from(tiny.split(' ')).replacement;
    args.common.dir = dir.path().into();
    let series = args.series_of(("without replacement", &[Mechanism::Replacement])).unwrap();
    assert_eq!(series.shares.len(), 20);
    assert!(series.shares.iter().any(|share| share.hits > 0.0), "{series:?}");
    let mut report = empty();
    report.add(args.row("spillway", &series));
    assert!(report.to_string().contains("deepest dip"));
    let path = dir.path().join("replacement.svg");
    crate::plot::draw("hits", &[("spillway".to_owned(), series.rates())], &path).unwrap();
    assert!(std::fs::metadata(path).unwrap().len() > 1000);
    args.shares = 0;
    assert!(args.plan().is_err());
}

#[test]
fn a_dip_is_what_lies_below_the_ten_before() {
    let share = |hits, misses| Share { hits, misses, ..Share::default() };
    let mut series = Series { shares: vec![share(80.0, 20.0); 12], each: 100, ..Series::default() };
    assert_eq!(series.dips(0), [0.0, 0.0]);
    series.shares.push(share(70.0, 30.0));
    series.shares.push(share(90.0, 10.0));
    assert_eq!(series.dips(0), [0.0, 0.0, 10.0, -10.0]);
    assert_eq!((series.dips(13), series.dips(20)), (vec![-10.0], vec![]));
    assert!((series.rate() - 80.0).abs() < 1e-9 && series.misses() == 12.0 * 20.0 + 40.0);
}

/// Where as much is read, and less is asked for, the rate falls and nobody waits for it.
#[test]
fn what_is_asked_for_no_more_is_no_loss() {
    let share = |hits, misses| Share { hits, misses, ..Share::default() };
    let mut series = Series { shares: vec![share(80.0, 20.0); 10], each: 50, ..Series::default() };
    series.shares.extend([share(20.0, 20.0), share(80.0, 30.0)]);
    assert_eq!(series.dips(10)[0], 30.0);
    assert_eq!(series.rises(10), [0.0, 20.0]);
}
