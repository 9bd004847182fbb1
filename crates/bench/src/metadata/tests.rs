use clap::Parser;

use super::*;

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    metadata: MetadataArgs,
}

#[test]
fn every_case_is_made_opened_and_changed() {
    let dir = tempfile::tempdir().unwrap();
    let args = "test --extents 3000 --tables 2 --subtables 1,4 --edits 3 --rounds 2 --dir";
    let args = args.split(' ').chain([dir.path().to_str().unwrap()]);
    let args = Command::parse_from(args).metadata;
    let report = args.compare(|folder, _| args.open(folder)).unwrap();
    let cases: Vec<&str> = report.rows().iter().map(|row| row.case[0].as_str()).collect();
    assert_eq!(cases, ["1", "4", "1", "4"]);
    // Memory that was used before may be reused; everything else takes something.
    for row in report.rows() {
        let taken = [0, 1, 2, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15].map(|at| row.figures[at]);
        assert!(taken.iter().all(|figure| *figure > 0.0), "{row:?}");
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}
