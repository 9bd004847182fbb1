use clap::Parser;

use super::raw::{self, RawLog, Sync};
use super::*;
use crate::store::SpillwayStores;

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    lone: LoneArgs,
}

#[test]
fn spillway_and_all_raw_writers_take_turns() {
    let dir = tempfile::tempdir().unwrap();
    let args = "test --commits 20 --rounds 2 --keys 9 --memory-mib 64 --raw-file-mib 1 --dir";
    let args = args.split(' ').chain([dir.path().to_str().unwrap()]);
    let args = Command::parse_from(args).lone;
    let report = args.compare(&[&SpillwayStores::default()]).unwrap();
    let subjects: Vec<_> = report.rows().iter().map(|row| row.subject.as_str()).collect();
    let raw = Sync::ALL.into_iter().filter(|sync| *sync != Sync::Ring || raw::has_rings());
    let mut wanted: Vec<_> = std::iter::once("spillway").chain(raw.map(Sync::name)).collect();
    assert_eq!(subjects[..wanted.len()], wanted);
    wanted.rotate_left(1);
    assert_eq!(subjects[wanted.len()..], wanted);
    assert!(report.rows().iter().all(|row| row.figures.iter().all(|figure| *figure > 0.0)));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn logs_may_be_elsewhere() {
    let (dir, logs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let args = "test --commits 9 --rounds 1 --keys 9 --memory-mib 64 --raw-file-mib 1 --dir";
    let args = args.split(' ').chain([dir.path().to_str().unwrap(), "--log-dir"]);
    let args = Command::parse_from(args.chain([logs.path().to_str().unwrap()])).lone;
    let log_dir = args.log_dir_of("spillway");
    assert!(log_dir.as_ref().unwrap().starts_with(logs.path()));
    let report = args.compare(&[&SpillwayStores { log_dir, ..SpillwayStores::default() }]).unwrap();
    assert_eq!(report.rows()[0].case, [logs.path().to_str().unwrap()]);
    for folder in [dir, logs] {
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}

#[test]
fn raw_writes_stay_in_their_file_and_change_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("raw");
    for sync in Sync::ALL.into_iter().filter(|sync| *sync != Sync::Ring || raw::has_rings()) {
        let mut raw = RawLog::new(&path, sync, 1000, 2500).unwrap();
        for _ in 0..5 {
            raw.write().unwrap();
        }
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(bytes.len(), 2500);
        assert!(bytes[..2000].iter().all(|byte| *byte != 0));
        assert!(bytes[2000..].iter().all(|byte| *byte == 0));
    }
}
