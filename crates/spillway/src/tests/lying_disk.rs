//! Tests a device that reports syncs as done, but loses in a crash the writes that these syncs
//! should have made durable. The next opening detects the loss.

use spillway_storage::sim::SyncFault;

use super::*;
use crate::folders::data_dir;

const VALUE: [u8; 3000] = [7; 3000];
const ROWS: u64 = 80;

fn put(db: &Database, table: Table, number: u64) -> Result<()> {
    let txn = db.begin(TransactionOptions::new());
    txn.put(table, &number.to_be_bytes(), &VALUE)?;
    txn.commit().wait().map(drop)
}

/// The numbers of the rows.
fn numbers(disk: &SimDisk) -> Result<Vec<u64>> {
    let db = open(disk)?;
    let txn = db.begin(TransactionOptions::new());
    let rows = txn.scan(txn.table("t")?, KeyRange::ALL, Direction::Forward)?;
    rows.map(|row| {
        let (key, value) = row?;
        assert!(value == VALUE, "a wrong value");
        Ok(u64::from_be_bytes(key.try_into().unwrap()))
    })
    .collect()
}

/// The log is cut because the engine's files have its commits, and then the device loses what these
/// files recorded. The opening sees that by the note of the cut (E6).
#[test]
fn an_opening_finds_that_the_files_have_lost_what_the_log_was_cut_for() {
    for engine in [EngineKind::Tiered, EngineKind::Memory] {
        let mut damaged = 0;
        for seed in 0..60 {
            let disk = SimDisk::new(seed);
            let db = open(&disk).unwrap();
            let txn = db.begin(TransactionOptions::new());
            let table = txn.create_table("t", engine).unwrap();
            txn.commit().wait().unwrap();
            (0..ROWS).for_each(|number| put(&db, table, number).unwrap());
            disk.disturb_syncs(SyncFault::Lie, 1, Path::new("/"));
            db.persist().unwrap();
            disk.calm_syncs();
            db.0.manager.truncate_log().unwrap();
            put(&db, table, ROWS).unwrap();
            disk.crash();
            drop(db);
            disk.restart();
            match numbers(&disk) {
                Ok(found) => assert!(found.iter().copied().eq(0..=ROWS), "{engine:?} {seed}"),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Corruption, "seed {seed}: {error}");
                    damaged += 1;
                }
            }
        }
        assert!(damaged > 0, "{engine:?}");
    }
}

/// Replaces the data files of a disk by those of another one.
fn replace_data(of: &SimDisk, by: &SimDisk) {
    let dir = data_dir(Path::new("/db"));
    for name in of.list(&dir).unwrap() {
        of.remove(&dir.join(name)).unwrap();
    }
    for name in by.list(&dir).unwrap() {
        let from = by.open(&dir.join(&name), OpenMode::Read).unwrap();
        let mut bytes = vec![0; from.len().unwrap() as usize];
        from.read_at(0, &mut bytes).unwrap();
        of.open(&dir.join(&name), OpenMode::Create).unwrap().write_at(0, &bytes).unwrap();
    }
}

/// The log loses a commit that created a table. The tiered engine's files record that they know of
/// all tables up to this commit, although they lack a row of an earlier one. If the opening did not
/// refuse them (E7), the next commit would get the CSN of the lost one, and the engine would leave
/// out a table that it creates.
#[test]
fn an_opening_finds_that_the_log_has_lost_what_the_files_record() {
    let disk = SimDisk::new(1);
    let db = open(&disk).unwrap();
    let create = |name: &str| {
        let txn = db.begin(TransactionOptions::new());
        let table = txn.create_table(name, EngineKind::Tiered).unwrap();
        txn.commit().wait().unwrap();
        table
    };
    // The row stays in a memtable.
    put(&db, create("t"), 1).unwrap();
    let before = disk.fork();
    create("lost");
    while db.run_background_job().unwrap() {}
    before.crash();
    before.restart();
    replace_data(&before, &disk);
    let shared: Arc<dyn Disk> = Arc::new(before.clone());
    let report = check::check_on(&shared, Path::new("/db"), &mut |_, _| {}).unwrap();
    let found: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
    let text = "/db/log: the log's last commit is 4, and the engines' files record commit 5";
    assert!(found.iter().any(|finding| finding.contains(text)), "{found:?}");
    let refused = open(&before).err().expect("the opening is refused");
    assert_eq!(refused.kind(), ErrorKind::Corruption);
    let text = "/db/log: commit 5 is missing, and commits up to 5 were durable";
    assert_eq!(refused.to_string(), text);
}
