//! Checks an extent's bytes outside of a data file, when a backup copies or restores the extent.

use spillway_base::checksum::crc32c;
use spillway_base::{Error, Result, TableId};

use super::footer::{FOOTER_BYTES, Footer};
use super::handle::ExtentHandle;
use super::resident::Resident;
use crate::block::{BlockSearch, FrameId, check_frame, dictionary_of, open_frame};
use crate::extent_meta::ExtentMeta;

/// Checks that bytes are this extent, and verifies every checksum.
///
/// # Errors
/// [`spillway_base::ErrorKind::Corruption`].
pub(crate) fn check_extent(bytes: &[u8], table: TableId, meta: &ExtentMeta) -> Result<()> {
    check(bytes, table, meta).map_err(|error| error.context(format_args!("{table:?}, {}", meta.id)))
}

impl ExtentHandle {
    /// Reads all its bytes, and verifies every checksum.
    ///
    /// # Errors
    /// [`spillway_base::ErrorKind::Corruption`], [`spillway_base::ErrorKind::Io`].
    pub(crate) fn read_all(&self, bytes: &mut Vec<u8>) -> Result<()> {
        let home = self.home();
        bytes.resize(self.meta.len as usize, 0);
        home.file.read_at(home.offset, bytes)?;
        let place = || self.with_keys(&self.meta.slots.to_string());
        check_extent(bytes, home.table, &self.meta).map_err(|error| error.context(place()))
    }
}

fn check(bytes: &[u8], table: TableId, meta: &ExtentMeta) -> Result<()> {
    let wrong = |what: &str| Err(Error::corruption(what));
    if bytes.len() as u64 != meta.len || bytes.len() < FOOTER_BYTES {
        return wrong("it has another length than was recorded");
    }
    let footer = Footer::decode(&bytes[bytes.len() - FOOTER_BYTES..])
        .map_err(|error| error.context("footer"))?;
    if (footer.id, footer.table) != (meta.id, table) {
        return wrong("it belongs elsewhere");
    }
    let frame = |offset: u64, len: u32| {
        let end = offset.checked_add(len.into()).filter(|end| *end <= meta.len);
        let range = end.map(|end| offset as usize..end as usize);
        range
            .map(|range| (&bytes[range], FrameId { table, extent: meta.id, offset }))
            .ok_or_else(|| Error::corruption("a part of it lies outside"))
    };
    let (index, id) = frame(footer.index.0, footer.index.1)?;
    let index = open_frame(index, id).map_err(|error| error.context("index"))?;
    let (filter, id) = frame(footer.filter.0, footer.filter.1)?;
    let filter = open_frame(filter, id).map_err(|error| error.context("filters"))?;
    let resident = Resident::decode(index, filter, meta.len, BlockSearch::Halving)?;
    if resident.blocks() != meta.blocks as usize {
        return wrong("it has another number of blocks than was recorded");
    }
    for block in 0..resident.blocks() {
        let place = resident.place(block);
        let (bytes, id) = frame(place.offset, place.len)?;
        check_frame(bytes, id).map_err(|error| error.context(resident.name(block)))?;
        if !meta.names.may_have(dictionary_of(bytes)) {
            return wrong("a block names a dictionary that was not recorded");
        }
    }
    if crc32c(bytes) != meta.crc {
        return wrong("it has another checksum than was recorded");
    }
    Ok(())
}
