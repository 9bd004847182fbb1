//! Verifies a data folder that no database has open: checks all checksums, orders and counts, and
//! that no two extents share a slot.

use std::path::Path;
use std::sync::Arc;

use spillway_base::budget::Budget;
use spillway_base::engine::Access;
use spillway_base::{Csn, Error, Result, TableId};
use spillway_storage::Disk;

use crate::block::dictionary_of;
use crate::extent::{ExtentHandle, ReadContext, ReadSettings};
use crate::extent_meta::{Counts, SliceMeta};
use crate::level::{Levels, LevelsEdit, Slice};
use crate::manifest;
use crate::space::{SpaceManager, find};

/// A finding of a verification.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The table, if it is known.
    pub table: Option<TableId>,
    /// The damage and its place.
    pub error: Error,
}

/// The result of a verification.
#[derive(Clone, Debug, Default)]
pub struct VerifyReport {
    /// Tables.
    pub tables: u64,
    /// Extents read.
    pub extents: u64,
    /// Blocks read.
    pub blocks: u64,
    /// Versions read.
    pub versions: u64,
    /// Bytes read.
    pub bytes: u64,
    /// The largest CSN that the manifest records ([`spillway_base::engine`], E7).
    pub newest: Csn,
    /// The findings; empty if the folder is sound.
    pub findings: Vec<Finding>,
}

/// Verifies the tables of a folder. `progress` receives the number of extents that are done and of
/// all.
///
/// # Errors
/// The reason why the verification could not run. Findings are in the report.
pub fn verify(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<VerifyReport> {
    let mut report = VerifyReport::default();
    let (state, slot_bytes) = match manifest::read(&**disk, dir) {
        Ok(Some(read)) => read,
        Ok(None) => return Ok(report),
        Err(error) => {
            report.findings.push(Finding { table: None, error });
            return Ok(report);
        }
    };
    report.newest = state.newest();
    let budget = Budget::new(usize::MAX);
    let context = ReadContext::new(ReadSettings::once(64 << 20), None, &budget);
    let all = || state.tables.values().flat_map(|table| table.extents.values());
    let used = all().map(|extent| (extent.meta.slots, extent.meta.len));
    let opened = find(&**disk, dir).and_then(|folders| {
        SpaceManager::open(disk.clone(), folders, u64::from(slot_bytes), u64::MAX / 2, used)
    });
    let space = match opened {
        Ok(space) => Arc::new(space),
        Err(error) => {
            report.findings.push(Finding { table: None, error });
            return Ok(report);
        }
    };
    let total = all().count() as u64;
    for (&id, stored) in &state.tables {
        report.tables += 1;
        let dictionaries = context.dictionaries.of(id);
        let opened = stored.dictionaries(|dictionary| dictionaries.add(Arc::new(dictionary)));
        if let Err(error) = opened {
            report.findings.push(Finding { table: Some(id), error });
        }
        let mut edit = LevelsEdit::default();
        for extent in stored.extents.values() {
            let handle = ExtentHandle::new(id, extent.meta.clone(), &space, &context)?;
            let slices = extent.slices();
            edit.added.extend(
                slices.map(|(place, meta)| (*place, Slice::new(meta.clone(), handle.clone()))),
            );
            let slices = extent.slices().map(|(_, slice)| &**slice);
            if let Err(error) = verify_extent(&handle, slices, &mut report) {
                report.findings.push(Finding { table: Some(id), error });
            }
            report.extents += 1;
            progress(report.extents, total);
        }
        if let Err(error) = Levels::default().apply(&edit) {
            report.findings.push(Finding { table: Some(id), error });
        }
        if let Some(slice) = stored.astride() {
            let error =
                Error::corruption(format!("a slice of {} is in two sub-tables", slice.extent));
            report.findings.push(Finding { table: Some(id), error });
        }
    }
    Ok(report)
}

fn verify_extent<'a>(
    handle: &Arc<ExtentHandle>,
    slices: impl ExactSizeIterator<Item = &'a SliceMeta>,
    report: &mut VerifyReport,
) -> Result<()> {
    let resident = handle.resident(Access::Blocking)?;
    let meta = &handle.meta;
    let wrong = |what: &str| Err(Error::corruption(format!("{}: {what}", meta.id)));
    if slices.len() == 0 {
        return wrong("it belongs to no level, and its space is lost");
    }
    let mut versions = 0;
    let mut last: Option<Vec<u8>> = None;
    for index in 0..resident.blocks() {
        let frame = handle.read_blocks(&resident, index..index + 1)?;
        let dictionary = dictionary_of(&frame);
        let block = handle.open_block(&resident, index, frame)?;
        if !meta.names.may_have(dictionary) {
            let block = resident.name(index);
            return wrong(&format!("{block} names a dictionary that was not recorded"));
        }
        report.blocks += 1;
        let mut counts = Counts::NONE;
        for at in 0..block.len() {
            let entry = block.entry(at);
            if !resident.may_contain(index, crate::filter::hash(entry.key)) {
                return wrong("a key is missing from its filter");
            }
            let range = resident.range_filter(index);
            if range.is_some_and(|range| !range.may_contain(entry.key)) {
                return wrong("a key is missing from its range filter");
            }
            let begins = last.as_deref() != Some(entry.key);
            if begins && last.as_deref().is_some_and(|last| last > entry.key) {
                return wrong("keys are out of order");
            }
            counts.add(&Counts {
                versions: 1,
                keys: u64::from(begins),
                tombstones: u64::from(entry.value.is_none()),
                payload_bytes: entry.payload() as u64,
                csn_min: entry.csn,
                csn_max: entry.csn,
            });
            if begins {
                last = Some(entry.key.to_vec());
            }
        }
        if counts != resident.counts(index) {
            return wrong("a block does not hold what its index counted");
        }
        let bounds = (block.entry(0).key, block.entry(block.len() - 1).key);
        if bounds != (resident.first(index), resident.last(index)) {
            return wrong("a block does not begin or end as its index says");
        }
        versions += counts.versions;
    }
    for slice in slices {
        let blocks = slice.block_range();
        if *slice != resident.slice(meta.id, blocks.clone()) {
            return wrong("a slice is not what was recorded of it");
        }
        let cut = |block: Option<usize>| block.is_some_and(|block| resident.goes_on(block));
        if cut(blocks.start.checked_sub(1)) || cut(Some(blocks.end - 1)) {
            return wrong("a slice ends within a key");
        }
    }
    report.versions += versions;
    report.bytes += meta.len;
    if handle.stated_versions()? != versions {
        return wrong("it does not hold as many versions as it says");
    }
    Ok(())
}
