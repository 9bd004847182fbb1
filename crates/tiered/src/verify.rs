//! Verification of a folder that nobody has open: every checksum, every order, every count, and that every slot has
//! one owner.

use std::path::Path;
use std::sync::Arc;

use spillway_base::budget::Budget;
use spillway_base::engine::Access;
use spillway_base::{Error, Result, TableId};
use spillway_storage::Disk;

use crate::block::Block;
use crate::cache::{BlockCache, TableCache};
use crate::extent::{ExtentHandle, ReadContext};
use crate::level::{Levels, LevelsEdit};
use crate::manifest;
use crate::space::SpaceManager;

/// Something that is not as it should be.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The table concerned, where it is known.
    pub table: Option<TableId>,
    /// What is wrong, and where.
    pub error: Error,
}

/// What a verification saw.
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
    /// What is wrong; empty when all is well.
    pub findings: Vec<Finding>,
}

/// Verifies the tables of a folder. `progress` is told the extents done and those there are.
///
/// # Errors
/// What kept it from looking; what it found wrong is in the report.
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
    let budget = Budget::new(usize::MAX);
    let context = Arc::new(ReadContext {
        blocks: BlockCache::new(0, &budget),
        pages: Block::pool(&budget),
        tables: TableCache::new(64 << 20, &budget),
    });
    let all = || state.tables.values().flat_map(|table| table.extents.values());
    let used = all().map(|(_, meta)| meta.slots);
    let opened = SpaceManager::open(disk.clone(), dir, u64::from(slot_bytes), u64::MAX / 2, used);
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
        let mut edit = LevelsEdit::default();
        for (place, meta) in stored.extents.values() {
            let handle = ExtentHandle::new(id, meta.clone(), &space, &context)?;
            if let Err(error) = verify_extent(&handle, &mut report) {
                report.findings.push(Finding { table: Some(id), error });
            }
            edit.added.push((*place, handle));
            report.extents += 1;
            progress(report.extents, total);
        }
        if let Err(error) = Levels::default().apply(&edit) {
            report.findings.push(Finding { table: Some(id), error });
        }
    }
    Ok(report)
}

fn verify_extent(handle: &Arc<ExtentHandle>, report: &mut VerifyReport) -> Result<()> {
    let resident = handle.resident(Access::Blocking)?;
    let meta = &handle.meta;
    let wrong = |what: &str| Err(Error::corruption(format!("{}: {what}", meta.id)));
    let (mut versions, mut tombstones, mut keys) = (0, 0, 0);
    let mut last: Option<Vec<u8>> = None;
    for index in 0..resident.blocks() {
        let block = handle.read_block(&resident, index)?;
        report.blocks += 1;
        for at in 0..block.len() {
            let entry = block.entry(at);
            versions += 1;
            tombstones += u64::from(entry.value.is_none());
            if entry.csn < meta.csn_min || entry.csn > meta.csn_max {
                return wrong("a version lies outside of the CSNs it was recorded with");
            }
            if !resident.may_contain(crate::filter::hash(entry.key)) {
                return wrong("a key is missing from its filter");
            }
            match &last {
                Some(last) if last.as_slice() == entry.key => continue,
                Some(last) if last.as_slice() > entry.key => return wrong("keys are out of order"),
                None if entry.key != &*meta.smallest => {
                    return wrong("its first key is not the one recorded");
                }
                _ => {}
            }
            keys += 1;
            last = Some(entry.key.to_vec());
        }
    }
    report.versions += versions;
    report.bytes += meta.len;
    if last.as_deref() != Some(&*meta.largest) {
        return wrong("its last key is not the one recorded");
    }
    if (versions, tombstones, keys) != (meta.versions, meta.tombstones, meta.keys)
        || handle.stated_versions()? != versions
    {
        return wrong("it does not hold as many versions as were recorded");
    }
    Ok(())
}
