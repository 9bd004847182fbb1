use std::path::Path;

use super::child::{Load, reopen, write};
use super::*;
use crate::measure::fresh_folder;

fn copy(from: &Path, to: &Path) {
    fresh_folder(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

#[test]
fn what_is_in_the_log_alone_is_there_after_an_opening() {
    let dir = tempfile::tempdir().unwrap();
    let stores = SpillwayRecovery { lanes: 2, threads: vec![2, 1] };
    let load = Load { log_bytes: 1 << 20, value_bytes: 400, seed: 5 };
    let store = stores.open(&dir.path().join("db"), load.log_bytes, 1).unwrap();
    let mut told = Vec::new();
    let rows = write(&*store, load, |row, rows| told.push((row, rows))).unwrap();
    assert_eq!(told, [(0, rows)]);
    let files = stores.log_files(&dir.path().join("db")).unwrap();
    logs::forget(&files).unwrap();
    assert!(logs::read(&files).unwrap().0 >= load.log_bytes);
    // As a kill leaves it: the store is still open, and never closed before the copy.
    for threads in stores.threads() {
        let crashed = dir.path().join(format!("crashed-{threads}"));
        copy(&dir.path().join("db"), &crashed);
        let (opened, store) = reopen(&stores, &crashed, load, threads, rows).unwrap();
        assert!(opened.seconds > 0.0);
        drop(store);
        // The key of the next number was never committed.
        let error = reopen(&stores, &crashed, load, threads, rows + 1).err().unwrap();
        assert!(error.contains("not there"), "{error}");
    }
    drop(store);
}
