use std::collections::BTreeSet;

use clap::Parser;

use super::groups::Runs;
use super::*;

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    compaction: CompactionArgs,
}

fn args(more: &str) -> CompactionArgs {
    Command::parse_from(["test", "--rounds", "1"].into_iter().chain(more.split(' '))).compaction
}

#[test]
fn runs_have_as_many_keys_of_each_kind_as_was_asked_for() {
    let runs = Runs::new((2000, 20_000), 10, 70, 3).unwrap();
    let rows: Vec<_> = runs.iter().collect();
    let count =
        |lower, upper| rows.iter().filter(|row| (row.lower, row.upper) == (lower, upper)).count();
    assert_eq!((count(true, false), count(true, true), count(false, true)), (19_400, 600, 1400));
    assert!(rows.windows(2).all(|pair| pair[0].number < pair[1].number));
    // The upper run's groups are spread over the whole lower run.
    let tenths: BTreeSet<_> =
        rows.iter().filter(|row| row.upper).map(|row| row.number / ((1 << 62) / 10)).collect();
    assert!(tenths.len() >= 10, "{tenths:?}");
    assert!(Runs::new((2000, 20_000), 0x1_0000, 70, 3).is_none());
}

#[test]
fn a_compaction_with_reuse_leaves_alone_what_one_without_merges() {
    let dir = tempfile::tempdir().unwrap();
    let mut args = args("--group 1,10000 --upper 20000 --lower 200000 --distinct 50");
    args.common.dir = dir.path().to_owned();
    let report = args.measure(&SpillwayRuns::ALL.each_ref().map(|runs| runs as _)).unwrap();
    let written = |group: &str, subject| report.median(&[group.into(), "50".into()], subject, 4);
    for group in ["1", "10000"] {
        for (with, without) in [
            ("spillway", "spillway without overlap"),
            ("spillway without reuse", "spillway without reuse and overlap"),
        ] {
            assert_eq!(written(group, with), written(group, without), "the same extents");
        }
    }
    assert!(written("1", "spillway") >= written("1", "spillway without reuse") * 0.9);
    assert!(written("10000", "spillway") < written("10000", "spillway without reuse") / 2.0);
    assert!(report.notes()[0].contains("groups of 1"));
}

/// Loses a row when its runs are merged.
struct Losing;

impl RunsStores for Losing {
    fn name(&self) -> String {
        "losing".to_owned()
    }

    fn settings(&self) -> String {
        String::new()
    }

    fn open(&self, _: &Path, _: u64) -> Result<Box<dyn RunsStore>, String> {
        Ok(Box::new(LosingStore::default()))
    }
}

#[derive(Default)]
struct LosingStore(std::collections::BTreeMap<Vec<u8>, Vec<u8>>);

impl RunsStore for LosingStore {
    fn lower(&mut self, rows: &Rows<'_>) -> Result<(), String> {
        rows(&mut |key, value| {
            self.0.insert(key.to_vec(), value.to_vec());
            Ok(())
        })
    }

    fn upper(&mut self, rows: &Rows<'_>) -> Result<(), String> {
        self.lower(rows)
    }

    fn compact(&mut self) -> Result<(), String> {
        self.0.pop_last();
        Ok(())
    }

    fn work(&self) -> CompactionWork {
        CompactionWork { read_bytes: 0.0, written_bytes: 0.0, reuse: None }
    }

    fn get(&self, _: &[u8], _: &mut Vec<u8>) -> Result<bool, String> {
        Ok(false)
    }

    fn scan(&self, visit: &mut Put<'_>) -> Result<(), String> {
        self.0.iter().try_for_each(|(key, value)| visit(key, value))
    }
}

#[test]
fn a_lost_row_fails_the_run() {
    let dir = tempfile::tempdir().unwrap();
    let mut args = args("--upper 2000 --lower 20000 --distinct 90 --group 10");
    args.common.dir = dir.path().to_owned();
    let error = args.measure(&[&Losing]).unwrap_err();
    assert!(error.contains("losing") && error.contains("is gone"), "{error}");
}
