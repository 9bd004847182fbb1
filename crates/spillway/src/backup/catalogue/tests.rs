//! A catalogue byte by byte, as it was when its version was given: `testdata/formats/backup-1.hex`.
//!
//! It is of a small database. Who means to change the format gives it another version, says so
//! where it is described, sees to repositories with the old one, and rewrites the file with
//! `SPILLWAY_REWRITE`.

use std::fmt::Write;
use std::time::Duration;

use spillway_storage::sim::SimDisk;

use super::*;
use crate::backup::tests::{back_up, filled, repository};
use crate::{ErrorKind, TransactionOptions};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/formats/backup-1.hex");

/// The catalogue of a backup that was taken now, but for what no two backups have alike.
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

fn kept() -> Vec<u8> {
    if std::env::var_os("SPILLWAY_REWRITE").is_some() {
        let mut text = String::new();
        for line in made().chunks(32) {
            line.iter().for_each(|byte| write!(text, "{byte:02x}").unwrap());
            text.push('\n');
        }
        std::fs::write(FILE, text).unwrap();
    }
    let text = std::fs::read_to_string(FILE).unwrap();
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

#[test]
fn a_catalogue_is_what_its_version_says() {
    let bytes = kept();
    let read = RECORD.decode(&bytes, Catalogue::decode).unwrap();
    let wanted = Backup {
        number: 12,
        taken: Duration::from_millis(1_700_000_000_123),
        through: Csn(4),
        extents: 5,
        data_bytes: 66_321,
        log_commits: 1,
        log_bytes: 38,
        new_extents: 5,
        new_bytes: 66_321,
        version: "0.1.0".to_owned(),
    };
    assert_eq!(read.backup, wanted);
    let figures = (read.identity, read.persisted, read.log_crc, read.segment_bytes);
    assert_eq!(figures, ([7; 16], Csn(3), 1_214_729_159, 64 << 10));
    let extents: Vec<_> =
        read.extents.iter().map(|(copy, crc)| (copy.table.0, copy.id, copy.bytes, *crc)).collect();
    let wanted = [
        (0, 5, 221, 2_148_631_676),
        (1, 1, 16_525, 1_149_773_336),
        (1, 2, 16_525, 965_788_418),
        (1, 3, 16_525, 3_348_672_376),
        (1, 4, 16_525, 1_701_790_491),
    ];
    assert_eq!(extents, wanted);
    assert!(RECORD.encode(&read.encode()) == bytes, "bump the version, if this is meant");
}

/// Its checksum holds, and it makes no sense.
#[test]
fn a_catalogue_that_makes_no_sense_is_damage() {
    let bytes = kept();
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
