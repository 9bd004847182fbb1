//! Checks that every slot in use has exactly one owner: no extent is leaked or lost.

use std::path::Path;
use std::sync::Arc;

use spillway::{Database, TableInspection, check_on};
use spillway_base::TableId;
use spillway_storage::Disk;
use spillway_storage::sim::SimDisk;

/// More background jobs in a row mean that the work does not end.
const JOBS_MAX: usize = 2000;

/// Verifies the folder, if it exists, as `spillway check` does: every byte is as written, every
/// table's extents exist and belong to a level, and no two extents share a slot. `at` is the
/// moment, for messages.
pub(crate) fn verify_clean(disk: &SimDisk, at: &str) {
    // A fork, so that the check does not lock the folder for the next opening.
    let disk: Arc<dyn Disk> = Arc::new(disk.fork());
    if disk.exists(Path::new("/db/tiered")).unwrap() {
        let report = check_on(&disk, Path::new("/db"), &mut |_, _| {}).unwrap();
        assert!(report.findings.is_empty(), "{at}: {:?}", report.findings);
    }
}

/// Runs background jobs until none is left.
pub(crate) fn work(db: &Database) {
    let jobs = (0..JOBS_MAX).take_while(|_| db.run_background_job().unwrap()).count();
    assert!(jobs < JOBS_MAX, "the background work has no end");
}

/// Whether to call [`nothing_is_left_over`] after this many operations. It is slower than all other
/// checks, so a sweep calls it only at some of them.
pub(crate) fn looks_closely(operations: u64) -> bool {
    operations.is_multiple_of(5)
}

/// Completes the background work and checks the owners of space: on every device, the slots in use
/// belong to extents of tables that transactions see, and the manifest has exactly these tables.
/// `named` is the number of tables with names.
pub(crate) fn nothing_is_left_over(disk: &SimDisk, db: Database, named: usize, at: &str) {
    db.flush().unwrap();
    work(&db);
    let inspection = db.inspect();
    // In addition to the named tables: the table of names, and the table of spilled writes.
    let spilled = |table: &TableInspection| table.space.table == TableId(TableId::ORDINAL_MAX);
    let tables = named + 1 + inspection.tables.iter().filter(|table| spilled(table)).count();
    assert_eq!(inspection.tables.len(), tables, "{at}: tables");
    for files in &inspection.files {
        let classes = inspection.tables.iter().flat_map(|table| &table.space.classes);
        let owned = classes.filter(|(class, _)| *class == files.class);
        let owned: u64 = owned.map(|(_, space)| space.slot_bytes).sum();
        assert_eq!(files.bytes - files.free_bytes, owned, "{at}: {:?}", files.class);
    }
    db.close().unwrap();
    drop(db);
    let disk: Arc<dyn Disk> = Arc::new(disk.fork());
    let report = check_on(&disk, Path::new("/db"), &mut |_, _| {}).unwrap();
    assert!(report.findings.is_empty(), "{at}, closed: {:?}", report.findings);
    assert_eq!(report.tables, tables as u64, "{at}: tables of the manifest");
}
