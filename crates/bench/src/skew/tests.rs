use clap::Parser;

use super::*;
use crate::store::SpillwayStores;

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    skew: SkewArgs,
}

#[test]
fn what_is_asked_for_often_is_found_in_memory() {
    let dir = tempfile::tempdir().unwrap();
    let tiny =
        "test --memory-mib 16 --data-times 2 --warm 30000 --reads 30000 --skew 0,1.2 --rounds 1";
    let mut args = Command::parse_from(tiny.split(' ')).skew;
    args.common.dir = dir.path().to_owned();
    let report = args.measure(&[&SpillwayStores::default()]).unwrap();
    // With all, with whole blocks, without a row cache, and with one of a fixed share; two skews.
    assert_eq!(report.rows().len(), 8);
    let figure = |skew: &str, subject: &str, figure: usize| {
        report.median(&[skew.to_owned()], subject, figure)
    };
    assert!(figure("1.2", "spillway", 2) > 50.0);
    assert!(figure("0", "spillway", 2) < figure("1.2", "spillway", 2));
    assert!(figure("1.2", "spillway without row-cache", 2) < 0.1);
    assert!(figure("1.2", "spillway", 4) < figure("0", "spillway", 4));
    // Other rows are requested: recovery takes some reads, and fewer than there were.
    let recovered = [figure("1.2", "spillway", 6), figure("0", "spillway", 6)];
    assert!((0.6..=30.0).contains(&recovered[0]) && recovered[1].is_nan(), "{recovered:?}");
    args.skew = vec![-1.0];
    assert!(args.measure(&[&SpillwayStores::default()]).is_err());
}
