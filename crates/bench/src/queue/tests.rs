use clap::Parser;

use super::*;
use crate::store::{Pair, Pressure, SpillwayStores, Store, Stores};

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    queue: QueueArgs,
}

fn args(dir: &std::path::Path) -> QueueArgs {
    let tiny = "test --after 300,2000 --length 20 --batch 50 --polls 5 --pause-ms 0 --pollers 2 --limit 1,30";
    let mut args = Command::parse_from(tiny.split(' ')).queue;
    args.common.dir = dir.to_owned();
    args
}

#[test]
fn the_head_is_found_after_few_changes_and_after_more() {
    let dir = tempfile::tempdir().unwrap();
    let report = args(dir.path()).measure(&[&SpillwayStores::default()]).unwrap();
    // With gaps and without, two moments, two limits, at rest and during changes.
    assert_eq!(report.rows().len(), 16);
    assert!(report.rows().iter().all(|row| row.figures[4] > 0.0));
    assert_eq!(report.notes().len(), 4);
    let mut wrong = args(dir.path());
    wrong.after = vec![2000, 300];
    assert!(wrong.measure(&[&SpillwayStores::default()]).is_err());
}

#[test]
fn a_rate_is_not_passed() {
    let dir = tempfile::tempdir().unwrap();
    let mut paced = args(dir.path());
    (paced.after, paced.rate, paced.limit) = (vec![400, 800], 8000, vec![1]);
    let report = paced.measure(&[&SpillwayStores::default()]).unwrap();
    // There is no pause after the last commit of 50 rows.
    let most = 2.0 * 8000.0 * 400.0 / 350.0;
    assert!(report.rows().iter().all(|row| row.figures[4] <= most), "{:?}", report.rows());
}

/// Deletes nothing.
struct Keeping;
struct KeepingStore(Box<dyn Store>);

impl Stores for Keeping {
    fn name(&self) -> String {
        "keeping".to_owned()
    }

    fn settings(&self) -> String {
        String::new()
    }

    fn open(&self, dir: &std::path::Path, memory_bytes: usize) -> Result<Box<dyn Store>, String> {
        Ok(Box::new(KeepingStore(SpillwayStores::default().open(dir, memory_bytes)?)))
    }
}

impl Store for KeepingStore {
    fn commit(&self, rows: &[Pair<'_>], durable: bool) -> Result<(), String> {
        self.0.commit(rows, durable)
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, String> {
        self.0.get(key, value)
    }

    fn seek(
        &self,
        key: &[u8],
        count: usize,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<usize, String> {
        self.0.seek(key, count, visit)
    }

    fn delete(&self, _: &[&[u8]], _: bool) -> Result<(), String> {
        Ok(())
    }

    fn pressure(&self) -> Pressure {
        self.0.pressure()
    }
}

#[test]
fn a_poll_that_does_not_find_the_head_fails_the_run() {
    let dir = tempfile::tempdir().unwrap();
    let error = args(dir.path()).measure(&[&Keeping]).unwrap_err();
    assert!(error.contains("keeping") && error.contains("a poll of row 300"), "{error}");
}
