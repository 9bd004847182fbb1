//! Checks that space has exactly one owner: no extent is leaked, and none is lost.

use std::path::Path;
use std::sync::Arc;

use spillway::{Database, TableInspection, check_on};
use spillway_base::TableId;
use spillway_storage::Disk;
use spillway_storage::sim::SimDisk;

/// Background jobs after which there must be nothing left to do.
const JOBS_MAX: usize = 2000;

/// What `spillway check` says of the folder, if there is one: every byte is as it was written,
/// every table's extents are there and belong to a level, and no slot belongs to two of them. `at`
/// says when that is.
pub(crate) fn verify_clean(disk: &SimDisk, at: &str) {
    // The folder of what is read is not to be locked for who opens it.
    let disk: Arc<dyn Disk> = Arc::new(disk.fork());
    if disk.exists(Path::new("/db/tiered")).unwrap() {
        let report = check_on(&disk, Path::new("/db"), &mut |_, _| {}).unwrap();
        assert!(report.findings.is_empty(), "{at}: {:?}", report.findings);
    }
}

/// Does what is to be done in the background, until there is nothing.
pub(crate) fn work(db: &Database) {
    let jobs = (0..JOBS_MAX).take_while(|_| db.run_background_job().unwrap()).count();
    assert!(jobs < JOBS_MAX, "the background work has no end");
}

/// Whether so much is looked at after this many operations: at some of them, for it takes longer
/// than all else that is.
pub(crate) fn looks_closely(operations: u64) -> bool {
    operations.is_multiple_of(5)
}

/// Brings the database to rest, and checks the owners of its space: on every device the slots in
/// use are those of extents of tables that transactions see, and the manifest on disk names these
/// tables and no others. `named` are the tables that have names.
pub(crate) fn nothing_is_left_over(disk: &SimDisk, db: Database, named: usize, at: &str) {
    db.flush().unwrap();
    work(&db);
    let inspection = db.inspect();
    // And the one that has the names, and the one that writes are spilled to.
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
