use clap::Parser;

use super::*;

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    filters: FiltersArgs,
}

#[test]
fn a_tiny_run_says_what_filters_cost() {
    let tiny = "test --keys 30,520 --together 1,10 --all 20000 --rounds 1";
    let report = Command::parse_from(tiny.split(' ')).filters.compare().unwrap();
    assert_eq!((report.cases().len(), report.rows().len()), (4, 8));
    for row in report.rows() {
        let (bits, passed) = (row.figures[4], row.figures[5]);
        let is_ribbon = row.subject.starts_with("ribbon");
        // A Bloom filter of a block with 30 keys has more bits than intended.
        let (most_bits, most_passed) = match (row.case[0].as_str(), is_ribbon) {
            ("30 keys", true) => (10.0, 1.2),
            ("30 keys", false) => (18.0, 1.2),
            ("index, 1 rows a value", true) => (15.0, 1.2),
            ("index, 1 rows a value", false) => (22.0, 1.8),
            (_, true) => (8.4, 1.2),
            (_, false) => (12.0, 1.8),
        };
        assert!(bits < most_bits && passed < most_passed, "{row:?}");
    }
    let none = Command::parse_from(["test", "--all", "10"]).filters;
    assert!(none.compare().is_err());
}
