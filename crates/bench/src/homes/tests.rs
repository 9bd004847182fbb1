use clap::Parser;

use super::HomesArgs;

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    homes: HomesArgs,
}

fn args(words: &str, dir: &std::path::Path) -> HomesArgs {
    let mut args = Command::parse_from(words.split(' ')).homes;
    args.common.dir = dir.to_owned();
    args
}

#[test]
fn every_way_runs_and_finds_its_rows() {
    let dir = tempfile::tempdir().unwrap();
    let tiny = "test --tables 3 --rows 250 --threads 1,3 --gets 300 --rounds 2 --memory-mib 64";
    let report = args(tiny, dir.path()).compare().unwrap();
    // Ways, numbers of threads, rounds.
    assert_eq!(report.rows().len(), 4 * 2 * 2);
    assert!(report.rows().iter().all(|row| row.figures[0] > 0.0));
    let more = "test --tables 3 --rows 250 --threads 4 --gets 300 --memory-mib 64";
    let error = args(more, dir.path()).compare().unwrap_err();
    assert!(error.contains("fewer tables than threads"), "{error}");
}
