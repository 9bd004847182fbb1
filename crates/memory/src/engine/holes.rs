//! Returns the space of dead records within kept segments, while the disk is full.
//!
//! Log compaction needs space to copy the live rows of a segment before the segment can be
//! released. A full disk may not have this space. But a kept segment does not change, and the
//! engine never reads its dead records again. So the engine can return the pages of dead records at
//! once, and the live records stay where they are (`fallocate` with `FALLOC_FL_PUNCH_HOLE`).
//!
//! - **HOLE-1 (dead).** A page of a kept segment is returned only if no record in it can be read
//!   again:
//!   - *No place in memory names such a record.* A search of all arrays and chains found none.
//!     Places in a kept segment only vanish: the engine has learned all places there before the
//!     segment left the redo log (LOG-READ-4 of [`spillway_base::log_place`]).
//!   - *No checkpoint that an opening may read names one.* A checkpoint that began after the search
//!     is durable. It contains no place that was gone before it began (SEGMENT-2).
//!   - *Recovery does not read the segment.* The segment's name as a kept segment is durable.
//!   - *No backup copies the segment.*
//! - **HOLE-2 (complete).** A segment is left as it is if the search found fewer bytes of records
//!   in it than it has live bytes (SEGMENT-1).
//! - **HOLE-3 (readers).** A read of a dead record may be in progress when the page is returned.
//!   Such a read gets the record, or fails with a checksum error. The reader then looks the row up
//!   again, as in SEGMENT-4.
//! - **HOLE-4 (failure).** A page that cannot be returned stays as it is, and the next request
//!   tries again. Nothing else fails. Of all steps, only the checkpoint needs space.
//! - **HOLE-5 (cost).** The engine searches the arrays only on a request for space, and only if the
//!   records that died since the last search have at least a [`COST_SHARE`]th of the arrays' bytes.
//!
//! A page with a part of a live record stays. If single rows of 28 KB die, about six sevenths of
//! their space is returned; of rows of 8 KB, a half. Rows that are smaller than a page return space
//! only where several neighbours die. If no dead page is left, log compaction moves as many live
//! records as the free space can hold ([`super::compact`]), so that more pages are dead.
//!
//! The first page of each segment stays: tools that inspect the file read its header there.

use std::ops::Range;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use spillway_base::sync::atomic::Ordering;

use super::checkpoint_space::COST_SHARE;
use super::inner::Counts;
use super::table_set::TableSet;
use super::work_state::Work;
use crate::chain::each_place;
use crate::segments::{Home, Segments};
use crate::store::Store;
use crate::table::Table;
use crate::version::{Place, class_bytes};

/// Space is returned to the file system in pages of this size.
const PAGE: u64 = 4096;
/// The most bytes of segments that are searched at once, so that the engine's other work goes on.
const SEARCHED: u64 = 1 << 30;

/// The pages of a kept segment that have live records.
struct LivePages {
    /// One bit for each page.
    bits: Vec<u64>,
    /// The number of whole pages.
    pages: u64,
    /// Bytes of the live records.
    bytes: u64,
}

impl LivePages {
    fn new(len: u64) -> LivePages {
        let pages = len / PAGE;
        let mut live = LivePages { bits: vec![0; pages.div_ceil(64) as usize], pages, bytes: 0 };
        live.note_page(0);
        live
    }

    fn note_page(&mut self, page: u64) {
        if let Some(bits) = self.bits.get_mut((page / 64) as usize) {
            *bits |= 1 << (page % 64);
        }
    }

    fn note(&mut self, place: Place) {
        let (begin, bytes) = (u64::from(place.offset), class_bytes(place.class));
        self.bytes += bytes;
        for page in begin / PAGE..(begin + bytes).div_ceil(PAGE) {
            self.note_page(page);
        }
    }

    fn is_live(&self, page: u64) -> bool {
        self.bits[(page / 64) as usize] >> (page % 64) & 1 != 0
    }

    /// The ranges of bytes between the live pages.
    fn dead_ranges(&self) -> Vec<Range<u64>> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for page in (0..self.pages).filter(|page| !self.is_live(*page)) {
            let (begin, end) = (page * PAGE, (page + 1) * PAGE);
            match ranges.last_mut() {
                Some(last) if last.end == begin => last.end = end,
                _ => ranges.push(begin..end),
            }
        }
        ranges
    }
}

/// The dead pages of a kept segment.
pub(super) struct DeadPages {
    handle: u32,
    ranges: Vec<Range<u64>>,
    /// The bytes of all ranges.
    bytes: u64,
    /// The segment's live bytes.
    live: u64,
}

/// The parts of the engine that the return of dead pages needs. The caller holds `running`.
pub(super) struct Holes<'e> {
    pub(super) store: &'e Store,
    pub(super) segments: &'e Segments,
    pub(super) tables: &'e TableSet,
    pub(super) work: &'e Work,
    pub(super) counts: &'e Counts,
}

impl Holes<'_> {
    /// Searches the segments that have lost most for pages that [`Holes::punch`] can return after a
    /// checkpoint (HOLE-1). All keys are loaded.
    pub(super) fn find(&self) -> Vec<DeadPages> {
        let mut live: FxHashMap<u32, LivePages> = self.due().into_iter().collect();
        if live.is_empty() {
            return Vec::new();
        }
        let tables: Vec<Arc<Table>> = self.tables.load().values().cloned().collect();
        for table in &tables {
            each_place(self.store, table, &mut |_, place| {
                if let Some(live) = live.get_mut(&place.handle) {
                    live.note(place);
                }
            });
        }
        let found = live.into_iter().filter_map(|(handle, live)| self.dead_pages(handle, &live));
        let mut found: Vec<DeadPages> = found.collect();
        found.sort_unstable_by_key(|dead| dead.handle);
        found
    }

    /// The dead pages of a segment; `None` if there are none that are not holes already.
    fn dead_pages(&self, handle: u32, live: &LivePages) -> Option<DeadPages> {
        let segment = self.segments.get(handle)?;
        // HOLE-2.
        if live.bytes < segment.live() {
            return None;
        }
        let ranges = live.dead_ranges();
        let bytes = ranges.iter().map(|range| range.end - range.start).sum();
        if bytes <= segment.holes() {
            segment.note_search(live.bytes);
            return None;
        }
        Some(DeadPages { handle, ranges, bytes, live: live.bytes })
    }

    /// The segments to search (HOLE-5).
    fn due(&self) -> Vec<(u32, LivePages)> {
        if self.segments.is_pinned() || !self.segments.can_punch() {
            return Vec::new();
        }
        let mut due: Vec<(u64, u32, u64)> = Vec::new();
        for (handle, segment) in self.segments.iter() {
            // A segment without live bytes is released after a checkpoint.
            if let Home::Kept(len @ 1..) = segment.home()
                && segment.live() > 0
            {
                due.push((segment.unsearched(len), handle, len));
            }
        }
        due.retain(|(lost, ..)| *lost >= PAGE);
        due.sort_unstable_by_key(|(lost, ..)| std::cmp::Reverse(*lost));
        let mut searched = 0;
        due.retain(|(.., len)| {
            searched += len;
            searched - len < SEARCHED
        });
        let lost: u64 = due.iter().map(|(lost, ..)| lost).sum();
        let arrays: u64 = self.tables.load().values().map(|table| table.rows.bytes() as u64).sum();
        if lost < arrays / COST_SHARE {
            return Vec::new();
        }
        due.into_iter().map(|(_, handle, len)| (handle, LivePages::new(len))).collect()
    }

    /// Returns the space of pages that [`Holes::find`] found. A checkpoint that began after that is
    /// durable (HOLE-1). Returns whether any space was returned.
    pub(super) fn punch(&self, found: &[DeadPages]) -> bool {
        let mut any = false;
        for dead in found {
            let Some(segment) = self.segments.get(dead.handle) else { continue };
            // The checkpoint may have released it.
            if self.work.is_closed() || !matches!(segment.home(), Home::Kept(_)) {
                continue;
            }
            // A failure leaves the pages as they are (HOLE-4).
            if let Ok(true) = self.segments.punch(segment, &dead.ranges) {
                let more = dead.bytes - segment.holes();
                self.counts.punched_bytes.fetch_add(more, Ordering::Relaxed);
                segment.set_holes(dead.bytes);
                segment.note_search(dead.live);
                any = true;
            }
        }
        any
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::version::class_of;

    fn place(offset: u64, bytes: usize) -> Place {
        Place { handle: 0, offset: offset as u32, class: class_of(bytes) }
    }

    #[test]
    fn pages_with_any_byte_of_a_live_record_stay() {
        let mut live = LivePages::new(70 * PAGE + 100);
        assert_eq!(live.dead_ranges(), [(1, 70)].map(|(begin, end)| begin * PAGE..end * PAGE));
        live.note(place(3 * PAGE - 8, 8));
        live.note(place(5 * PAGE, 8));
        live.note(place(6 * PAGE + 4090, 12));
        live.note(place(65 * PAGE - 1, 2 * PAGE as usize));
        // The class of a record in the last page may reach past the end of the file.
        live.note(place(70 * PAGE - 8, 4 * PAGE as usize));
        let ends = [(1, 2), (3, 5), (8, 64), (67, 69)];
        assert_eq!(live.dead_ranges(), ends.map(|(begin, end)| begin * PAGE..end * PAGE));
        assert_eq!(live.bytes, 8 + 8 + 12 + 6 * PAGE);
    }

    #[test]
    fn a_file_of_less_than_a_page_has_no_dead_pages() {
        let mut live = LivePages::new(PAGE - 1);
        live.note(place(16, 100));
        assert!(live.dead_ranges().is_empty());
    }
}
