use std::path::Path;

use clap::Parser;

use super::command::engines;
use super::rows::{OwnRows, Rows};
use super::updates::UpdatesArgs;
use crate::store::{Store, Stores};

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    updates: UpdatesArgs,
}

fn updates(dir: &Path, more: &str) -> UpdatesArgs {
    let line = format!("memory --dir {} --rounds 1 {more}", dir.display());
    Cli::parse_from(line.split(' ')).updates
}

fn opened(dir: &Path) -> Box<dyn Store> {
    let [memory, _] = engines();
    crate::measure::fresh_folder(dir).unwrap();
    memory.open(dir, 64 << 20).unwrap()
}

#[test]
fn every_cell_of_updates_runs_on_both_engines() {
    let dir = tempfile::tempdir().unwrap();
    let args = updates(dir.path(), "--rows 500 --seconds 0.05 --memory-mib 64 --in-flight 4");
    let [memory, tiered] = engines();
    let report = args.compare(&[&memory, &tiered]).unwrap();
    assert_eq!(report.rows().len(), 3 * 2 * 2 * 2);
    assert!(report.rows().iter().all(|row| row.figures[0] > 0.0));
    assert_eq!(report.notes().len(), 3 * 2 * 2);
}

#[test]
fn a_value_is_of_one_row_and_one_write() {
    let rows = Rows::new(8, 100, 7).unwrap();
    let mut value = Vec::new();
    rows.value(3, 9, &mut value);
    assert_eq!(value.len(), 100);
    assert_eq!(rows.write_of(3, &value), Ok(9));
    assert!(rows.write_of(4, &value).is_err());
    *value.last_mut().unwrap() ^= 1;
    assert!(rows.write_of(3, &value).is_err());
    assert!(rows.write_of(3, &value[..12]).is_err());
}

#[test]
fn keys_have_their_length_and_the_order_of_their_numbers() {
    for key_bytes in [8, 12, 16] {
        let rows = Rows::new(key_bytes, 16, 7).unwrap();
        assert_eq!(rows.key(1).bytes().len(), key_bytes);
        assert!(rows.key(255).bytes() < rows.key(256).bytes());
    }
    assert!(Rows::new(4, 16, 7).is_err());
    assert!(Rows::new(8, 15, 7).is_err());
}

#[test]
fn a_lost_update_and_a_missing_row_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let store = opened(&dir.path().join("db"));
    let rows = Rows::new(8, 100, 7).unwrap();
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
