use std::path::Path;

use clap::{Args, Parser};

use super::bytes::BytesArgs;
use super::checkpoint::CheckpointArgs;
use super::eviction::MemoryEvictionArgs;
use super::recovery::MemoryRecoveryArgs;
use super::rows::{OwnRows, StampedRows};
use super::space::MemorySpaceArgs;
use super::updates::UpdatesArgs;
use super::work::engines;
use crate::measure::{Permutation, fresh_folder};
use crate::store::{Store, Stores};

#[derive(Parser)]
struct Cli<A: Args> {
    #[command(flatten)]
    section: A,
}

fn section<A: Args>(dir: &Path, more: &str) -> A {
    let line = format!("memory --dir {} {more}", dir.display());
    Cli::parse_from(line.split(' ')).section
}

fn opened(dir: &Path) -> Box<dyn Store> {
    let [memory, _] = engines();
    crate::measure::fresh_folder(dir).unwrap();
    memory.open(dir, 64 << 20).unwrap()
}

#[test]
fn every_cell_of_updates_runs_on_both_engines() {
    let dir = tempfile::tempdir().unwrap();
    let args: UpdatesArgs = section(
        dir.path(),
        "--rows 500 --seconds 0.05 --memory-mib 64 --in-flight 4 --rounds 1 --key-bytes 8",
    );
    let [memory, tiered] = engines();
    let report = args.compare(&[&memory, &tiered]).unwrap();
    assert_eq!(report.rows().len(), 3 * 2 * 2);
    assert!(report.rows().iter().all(|row| row.figures[0] > 0.0));
    assert_eq!(report.notes().len(), 3 * 2);
}

#[test]
fn a_value_is_of_one_row_and_one_write() {
    let rows = StampedRows::new(8, 100, 7).unwrap();
    let mut value = Vec::new();
    rows.value(3, 9, &mut value);
    assert_eq!((value.len(), rows.row_bytes()), (100, 108));
    assert_eq!(rows.write_of(3, &value), Ok(9));
    assert!(rows.write_of(4, &value).is_err());
    *value.last_mut().unwrap() ^= 1;
    assert!(rows.write_of(3, &value).is_err());
    assert!(rows.write_of(3, &value[..12]).is_err());
}

#[test]
fn keys_have_their_length_and_the_order_of_their_numbers() {
    for key_bytes in [8, 12, 16] {
        let rows = StampedRows::new(key_bytes, 16, 7).unwrap();
        assert_eq!(rows.key(1).bytes().len(), key_bytes);
        assert!(rows.key(255).bytes() < rows.key(256).bytes());
    }
    assert!(StampedRows::new(4, 16, 7).is_err());
    assert!(StampedRows::new(8, 15, 7).is_err());
}

#[test]
fn a_lost_update_and_a_missing_row_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let store = opened(&dir.path().join("db"));
    let rows = StampedRows::new(8, 100, 7).unwrap();
    rows.load(&*store, 10).unwrap();
    let mut own = OwnRows::new(10, 1, 3);
    assert_eq!(own.count(), 3);
    own.check(&rows, &*store, 1).unwrap();
    assert_eq!(own.update(2), (7, 1));
    let error = own.check(&rows, &*store, 1).unwrap_err();
    assert_eq!(error, "row 7 is from write 0, and not 1");
    let mut value = Vec::new();
    rows.value(7, 1, &mut value);
    store.commit(&[(rows.key(7).bytes(), &value)], true).unwrap();
    own.check(&rows, &*store, 1).unwrap();
    let error = OwnRows::new(12, 1, 3).check(&rows, &*store, 1).unwrap_err();
    assert!(error.contains("row 10 is missing") || error.contains("row 7 is from"), "{error}");
}

#[test]
fn an_opening_finds_the_rows_and_the_tail() {
    let dir = tempfile::tempdir().unwrap();
    let args: MemoryRecoveryArgs = section(dir.path(), "--data-mib 2 --tail-mib 1");
    fresh_folder(&dir.path().join("memory-recovery")).unwrap();
    drop(args.load().unwrap());
    let (opened, store) = args.reopen(1, false).unwrap();
    assert!(opened.seconds > 0.0);
    // The tail was not written yet.
    drop(store);
    let error = args.reopen(1, true).err().unwrap();
    assert!(error.contains("is from write 0, and not"), "{error}");
    let store = args.open(1).unwrap();
    args.each_update(&mut |rows, number, write, last| {
        let mut value = Vec::new();
        rows.value(number, write, &mut value);
        store.commit(&[(rows.key(number).bytes(), &value)], last)
    })
    .unwrap();
    drop(store);
    assert!(args.reopen(2, true).unwrap().0.commits > 5000);
}

#[test]
fn a_checkpoint_is_measured_beside_updates() {
    let dir = tempfile::tempdir().unwrap();
    let line = "--rows 3000 --seconds 0.05 --every 0.01 --rounds 1 --memory-mib 64";
    let args: CheckpointArgs = section(dir.path(), line);
    let report = args.measure().unwrap();
    assert_eq!(report.rows().len(), 3 * 2);
    let share = report.median(&["1".to_owned()], "one of all rows", 3);
    assert!(share > 0.02 && share < 1.0, "{share}");
    assert_eq!(report.notes().len(), 2 * 2);
}

#[test]
fn the_parts_of_a_row_are_measured() {
    let dir = tempfile::tempdir().unwrap();
    let args: BytesArgs = section(dir.path(), "--rows 20000 --memory-mib 64");
    for at_random in [false, true] {
        let (found, store) = args.measure(at_random).unwrap();
        assert!(found.iter().all(|figures| figures[0] > 108.0 && figures[0] < 400.0), "{found:?}");
        drop(store);
    }
}

#[test]
fn data_larger_than_the_budget_is_read_from_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let line = "--memory-mib 16 --times 0.2,2 --seconds 0.1 --rounds 1 --skew 0";
    let args: MemoryEvictionArgs = section(dir.path(), line);
    let report = args.measure().unwrap();
    assert_eq!(report.rows().len(), 2 * 2 * 2);
    let missed = |times: &str| {
        let case = ["gets", "0", times].map(str::to_owned);
        report.median(&case, &engines()[0].name, 2)
    };
    assert!(missed("0.2 times") < 0.01);
    assert!(missed("2 times") > 0.1, "{}", missed("2 times"));
}

#[test]
fn overwritten_rows_and_the_table_beside_them_are_checked() {
    let dir = tempfile::tempdir().unwrap();
    let args: MemorySpaceArgs =
        section(dir.path(), "--data-mib 2 --passes 2 --skew 0 --memory-mib 64");
    let report = args.measure().unwrap();
    assert_eq!(report.rows().len(), 2);
    assert!(report.rows().iter().all(|row| row.figures[3] >= row.figures[2]));
}

#[test]
fn a_permutation_has_every_place_once() {
    for count in [1, 2, 10, 97, 1000] {
        let order = Permutation::new(count, 42);
        let mut all: Vec<_> = (0..count).map(|place| order.of(place)).collect();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..count));
    }
}
