//! Verifies the files of a closed engine.

use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use spillway_base::budget::Budget;
use spillway_base::engine::Access;
use spillway_base::{Csn, Direction, Error, Result};
use spillway_storage::Disk;
use spillway_storage::plog::KeptSegments;

use super::inner::{MemoryEngine, MemorySettings};
use super::read::{RowReader, Seen, see};
use crate::index::Entries;
use crate::manifest::NAME;
use crate::pins::FixedHorizon;
use crate::table::Table;

/// Keys that are verified under one pin.
const LOOKED_AT: usize = 1024;

/// The result of a check.
#[derive(Debug, Default)]
pub struct MemoryVerified {
    /// The number of tables.
    pub tables: u64,
    /// The number of rows. The check has read the record of each.
    pub rows: u64,
    /// Bytes of the records' keys and values.
    pub bytes: u64,
    /// The largest CSN that the checkpoint records ([`spillway_base::engine`], E7).
    pub newest: Csn,
    /// The errors that the check found.
    pub findings: Vec<Error>,
}

/// Reads the last checkpoint and the record of every row in it.
///
/// # Errors
/// An error that prevents the check. Damage is in the report, and is no error.
pub fn verify(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    log: Arc<dyn KeptSegments>,
) -> Result<MemoryVerified> {
    let mut report = MemoryVerified::default();
    if !disk.exists(&dir.join(NAME))? {
        return Ok(report);
    }
    let (settings, budget) = (MemorySettings::default(), Budget::new(usize::MAX / 16));
    let opened = MemoryEngine::open(
        disk.clone(),
        dir,
        settings,
        log,
        Arc::new(FixedHorizon(Csn::ZERO)),
        budget,
    );
    let engine = match opened {
        Ok(engine) => engine.0,
        Err(error) => {
            report.findings.push(error);
            return Ok(report);
        }
    };
    report.newest = engine.checkpoints.recorded();
    for table in engine.tables.load().values() {
        report.tables += 1;
        verify_table(&engine.reader(), table, &mut report);
    }
    Ok(report)
}

fn verify_table(reader: &RowReader<'_>, table: &Arc<Table>, report: &mut MemoryVerified) {
    let (keys, store) = (&reader.keys, reader.keys.rows.store);
    if let Err(error) = keys.load_table_whole(table).and_then(|()| keys.health.check()) {
        report.findings.push(error);
        return;
    }
    let (mut entries, mut last, mut value) = (Entries::default(), None::<Vec<u8>>, Vec::new());
    loop {
        let from = last.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let range = (from, Bound::Unbounded);
        let pin = store.pin();
        table.index.collect(range, Direction::Forward, LOOKED_AT, &mut entries, &pin);
        for (key, rid) in entries.iter() {
            // The opening has read the records of deletions.
            let Seen::Place(place) = see(store, table, rid, Csn::MAX, &pin) else { continue };
            report.rows += 1;
            match reader.read_place(table, key, place, Access::Blocking, &mut value) {
                Ok(_) => report.bytes += (key.len() + value.len()) as u64,
                Err(error) => report.findings.push(error.context(format!("{:?}", table.id))),
            }
        }
        let Some(end) = entries.len().checked_sub(1) else { return };
        last = Some(entries.key(end).to_vec());
    }
}
