//! Tests that the catalogue of a small backup is read back as it was written.

use std::time::Duration;

use spillway_storage::sim::SimDisk;

use super::*;
use crate::backup::tests::{back_up, filled, repository};
use crate::{ErrorKind, TransactionOptions};

/// The catalogue of a backup taken now, without the parts that differ in every backup.
fn made() -> Vec<u8> {
    let disk = SimDisk::new(1);
    let db = filled(&disk, &["one"]);
    let txn = db.begin(TransactionOptions::new());
    let table = txn.table("one").unwrap();
    txn.put(table, b"in", b"the log").unwrap();
    txn.commit().wait().unwrap();
    let repository = repository(&disk).unwrap();
    back_up(&db, &repository).unwrap();
    let read = Catalogue::read(&*repository.disk, &repository.dir, 1).unwrap();
    let mut catalogue = read.unwrap();
    catalogue.identity = [7; 16];
    catalogue.backup.number = 12;
    catalogue.backup.taken = Duration::from_millis(1_700_000_000_123);
    catalogue.backup.version = "0.1.0".to_owned();
    RECORD.encode(&catalogue.encode())
}

#[test]
fn a_catalogue_is_read_as_it_was_written() {
    let bytes = made();
    let read = RECORD.decode(&bytes, Catalogue::decode).unwrap();
    let data_bytes = read.extents.iter().map(|copy| copy.bytes).sum();
    let memory_bytes = read.memory.iter().map(|file| file.bytes).sum();
    assert!(memory_bytes > 0, "a checkpoint, also of no tables");
    let extents = read.extents.len() as u64;
    let wanted = Backup {
        number: 12,
        taken: Duration::from_millis(1_700_000_000_123),
        through: Csn(4),
        extents,
        data_bytes,
        memory_bytes,
        log_commits: 1,
        log_bytes: 38,
        new_extents: extents,
        new_bytes: data_bytes + memory_bytes,
        version: "0.1.0".to_owned(),
    };
    assert_eq!(read.backup, wanted);
    let figures = (read.identity, read.persisted, read.segment_bytes);
    assert_eq!(figures, ([7; 16], Csn(3), 64 << 10));
    let tables: Vec<u32> = read.extents.iter().map(|copy| copy.table.0).collect();
    assert_eq!(tables, [0, 1, 1, 1, 1, 1]);
    assert!(RECORD.encode(&read.encode()) == bytes);
}

/// The checksum is valid, and the contents are inconsistent.
#[test]
fn a_catalogue_that_makes_no_sense_is_damage() {
    let bytes = made();
    let body = &bytes[6..bytes.len() - 4];
    let version_at = 92 + 4;
    let changes: [&dyn Fn(&mut Vec<u8>); 5] = [
        &|body| body.push(0),
        &|body| body.truncate(body.len() - 1),
        // The commits in its log do not lead from the extents to its end.
        &|body| body[40] += 1,
        &|body| body[version_at] = 0xFF,
        // Its manifest ends where no length reaches.
        &|body| body[version_at + 5..version_at + 13].fill(0xFF),
    ];
    for (at, change) in changes.into_iter().enumerate() {
        let mut body = body.to_vec();
        assert!(RECORD.decode(&RECORD.encode(&body), Catalogue::decode).is_ok());
        change(&mut body);
        let error = RECORD.decode(&RECORD.encode(&body), Catalogue::decode).err();
        assert_eq!(error.map(|error| error.kind()), Some(ErrorKind::Corruption), "{at}");
    }
}
