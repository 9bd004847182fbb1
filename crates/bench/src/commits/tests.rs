use clap::Parser;

use super::*;
use crate::store::SpillwayStores;

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    commits: CommitsArgs,
}

fn tiny(dir: &Path) -> CommitsArgs {
    let dir = dir.to_str().unwrap();
    let args =
        "test --in-flight 1,7 --rows 1,4 --commits 60 --rounds 2 --keys 50 --memory-mib 64 --dir";
    Command::parse_from(args.split(' ').chain([dir])).commits
}

#[test]
fn all_styles_commit_what_they_are_told_to() {
    let dir = tempfile::tempdir().unwrap();
    let stores = SpillwayStores::default();
    let stores = [stores];
    let report = tiny(dir.path()).compare(&Subject::in_all_styles(&stores, &[2])).unwrap();
    assert_eq!(report.rows().len(), 2 * 2 * 2 * 3);
    let threads = |in_flight: &str, subject: &str| {
        report.median(&["4".to_owned(), in_flight.to_owned()], subject, 6)
    };
    let subjects = ["spillway async x2", "spillway sync x2", "spillway"];
    assert_eq!(subjects.map(|subject| threads("1", subject)), [1.0, 1.0, 1.0]);
    assert_eq!(subjects.map(|subject| threads("7", subject)), [2.0, 2.0, 7.0]);
    assert!(report.rows().iter().all(|row| row.figures.iter().all(|figure| *figure > 0.0)));
    assert_eq!(report.notes().len(), 4);
    assert!(report.notes()[0].starts_with("spillway async x2, 1 rows, 1 in flight: "));
}

#[test]
fn a_cell_counts_each_commit_once() {
    let dir = tempfile::tempdir().unwrap();
    let stores = SpillwayStores::default();
    let plan = tiny(dir.path()).plan().unwrap();
    for style in [Style::Asynchronous(3), Style::Few(3), Style::Waiting] {
        let measured =
            measure(&Subject { stores: &stores, style }, &plan, 8, 4, dir.path()).unwrap();
        assert_eq!(measured.latency_ns.len(), 60);
    }
}

/// Reports commits that it has not done.
struct Forgetful;

impl Stores for Forgetful {
    fn name(&self) -> String {
        "forgetful".to_owned()
    }

    fn settings(&self) -> String {
        String::new()
    }

    fn open(&self, _: &Path, _: usize) -> Result<Box<dyn Store>, String> {
        Ok(Box::new(Forgetful))
    }
}

impl Store for Forgetful {
    fn commit(&self, _: &[crate::store::Pair<'_>], _: bool) -> Result<(), String> {
        Ok(())
    }

    fn get(&self, _: &[u8], _: &mut Vec<u8>) -> Result<bool, String> {
        Ok(false)
    }

    fn seek(&self, _: &[u8], _: usize, _: &mut dyn FnMut(&[u8], &[u8])) -> Result<usize, String> {
        Ok(0)
    }
}

#[test]
fn a_store_that_forgets_is_found_out() {
    let dir = tempfile::tempdir().unwrap();
    for style in [Style::Waiting, Style::Asynchronous(1)] {
        let subject = Subject { stores: &Forgetful, style };
        let error = tiny(dir.path()).compare(&[subject]).unwrap_err();
        assert!(error.contains("not there"), "{error}");
    }
}

#[test]
fn arguments_that_make_no_sense_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let refused = |change: &dyn Fn(&mut CommitsArgs)| {
        let mut args = tiny(dir.path());
        change(&mut args);
        args.compare(&[]).unwrap_err()
    };
    assert!(refused(&|args| args.in_flight = vec![0]).contains("in flight"));
    assert!(refused(&|args| args.rows = vec![9]).contains("rows"));
    refused(&|args| args.seconds = -1.0);
}

#[test]
fn processors_and_syncs_take_turns() {
    // 100 of 1 us on two threads, then 50 us.
    assert_eq!(notes::in_turn(100.0, 2.0, 1.0, 50.0), 1e6);
}
