//! The disk space that the next checkpoint may need.
//!
//! Without a checkpoint, the log is not cut, and the space of deleted rows is not returned. So the
//! log refuses commits that would take the space that the next checkpoint needs (RESERVE-7 of the
//! log's reserve).
//!
//! - **CHECKPOINT-SPACE-1 (enough).** The estimate is at least what a checkpoint of the present
//!   tables writes: all pages of their arrays, and their indexes. It also includes the bytes that
//!   the smallest log compaction on a full disk copies ([`super::compact`]).
//! - **CHECKPOINT-SPACE-2 (growth).** A commit is accepted only if there is space for the estimate
//!   and for [`GROWTH`] times the commit's bytes. The check ignores other commits that are accepted
//!   but not installed yet. Background threads compare the free space with the estimate from time
//!   to time. While the free space exceeds the estimate by [`AHEAD`], only large commits are
//!   checked.
//! - **CHECKPOINT-SPACE-3 (other engines).** For a commit to another engine's table, the estimate
//!   covers only the changed pages, and the indexes with new keys. It is zero if the last
//!   checkpoint includes all commits. So tables that do not change never cause the log to refuse
//!   commits to other engines' tables.

use std::path::Path;
use std::time::Duration;

use spillway_base::Csn;
use spillway_base::clock;
use spillway_base::engine::FlushSpace;
use spillway_base::sync::atomic::Ordering;
use spillway_storage::Disk;

use super::checkpoints::Checkpoints;
use super::table_set::{TableSet, Tables};
use super::work_state::Work;
use crate::index_file;
use crate::rows::{PAGE_BYTES, PAGE_ENTRIES};
use crate::segments::Segments;
use crate::table::DeletedRange;

/// Bytes of a checkpoint for each byte of a batch: a row takes an entry of an array, and its key in
/// the index's file.
const GROWTH: u64 = 2;
/// The background thread sums the tables this often.
const SUM_EVERY: Duration = Duration::from_millis(250);
/// Commits are checked only if less space than this is free beyond the need of a checkpoint. It is
/// the size of several segments of the log.
const AHEAD: u64 = 256 << 20;
/// A page in its file.
const PAGE_RECORD_BYTES: u64 = PAGE_BYTES as u64 + 8;
/// The bytes of a table in a manifest, without deleted ranges, with the unused ends of its two
/// files; of a page, which may have a file of its own; and of a segment.
const TABLE_BYTES: u64 = 256 + 2 * 4096;
const PAGE_FILE_BYTES: u64 = 32;
const SEGMENT_BYTES: u64 = 16;

/// The bytes of a checkpoint of few tables beside their pages and indexes.
const CHECKPOINT_REST: u64 = 16 << 10;
/// On a full disk, segments are compacted if there is room for this many bytes of live records
/// beside a checkpoint,
const ROOM_MIN: u64 = 16 << 10;
/// and for this fraction of the arrays' pages, because each compaction and each search for dead
/// pages searches the arrays.
pub(super) const COST_SHARE: u64 = 16;

/// The room beside a checkpoint from which on segments are compacted on a full disk, if the arrays'
/// pages have this many bytes.
pub(super) fn compaction_room(pages: u64) -> u64 {
    ROOM_MIN.max(pages / COST_SHARE)
}

/// The bytes of the arrays' pages, and of the other files, of a checkpoint of these tables. It
/// writes the indexes of tables with inserts after `since`.
pub(super) fn checkpoint_bytes(tables: &Tables, segments: &Segments, since: Csn) -> [u64; 2] {
    let exist = tables.values().filter(|table| table.dropped() == Csn::MAX);
    let mut bytes = [0, CHECKPOINT_REST + SEGMENT_BYTES * segments.iter().count() as u64];
    for table in exist {
        let pages = table.rows.end().div_ceil(PAGE_ENTRIES);
        bytes[0] += pages * PAGE_RECORD_BYTES;
        bytes[1] += pages * PAGE_FILE_BYTES + TABLE_BYTES;
        if table.last_insert() > since {
            let not_loaded = table.load().map_or(0, |load| load.reader.file_bytes());
            let index = table.index.bytes() as u64;
            bytes[1] += index * index_file::HALF_BYTES_PER_MEMORY_BYTE / 2 + not_loaded;
        }
        if let Some(ranges) = table.ranges_before_read() {
            let ends = |end: &Option<Vec<u8>>| end.as_ref().map_or(0, Vec::len);
            let range = |range: &DeletedRange| range.start.len() + ends(&range.end) + 32;
            bytes[1] += ranges.iter().map(range).sum::<usize>() as u64;
        }
    }
    bytes
}

/// The parts of the engine that decide on its space.
pub(super) struct SpaceCheck<'e> {
    pub(super) disk: &'e dyn Disk,
    pub(super) dir: &'e Path,
    pub(super) segments: &'e Segments,
    pub(super) tables: &'e TableSet,
    pub(super) checkpoints: &'e Checkpoints,
    pub(super) work: &'e Work,
}

impl SpaceCheck<'_> {
    /// The bytes that the next checkpoint may need after a commit (CHECKPOINT-SPACE-1).
    fn need(&self) -> u64 {
        let tables = self.tables.load();
        if tables.is_empty() {
            return 0;
        }
        let [pages, rest] = checkpoint_bytes(&tables, self.segments, Csn::ZERO);
        pages + rest + compaction_room(pages)
    }

    /// The bytes of the next checkpoint after a commit of this many bytes (CHECKPOINT-SPACE-2). For
    /// 0 bytes: what the next checkpoint has to write without a commit (CHECKPOINT-SPACE-3).
    pub(super) fn unwritten(&self, bytes: u64) -> u64 {
        if bytes > 0 {
            return self.need() + GROWTH * bytes;
        }
        if !self.checkpoints.lacks_commits() {
            return 0;
        }
        let (tables, since) = (self.tables.load(), self.checkpoints.recorded());
        let [_, rest] = checkpoint_bytes(&tables, self.segments, since);
        tables.values().map(|table| table.rows.dirty_pages() * PAGE_RECORD_BYTES).sum::<u64>()
            + rest
    }

    fn free(&self) -> u64 {
        self.disk.available(self.dir).unwrap_or(u64::MAX)
    }

    /// Notes whether commits have to ask for space.
    pub(super) fn note(&self) {
        let now = clock::now();
        let mut estimate = self.work.checkpoint_need.lock();
        let (mut needs, estimated_at) = *estimate;
        if needs[0] == 0 || now.saturating_sub(estimated_at) >= SUM_EVERY {
            needs = [self.need(), self.unwritten(0)];
            *estimate = (needs, now);
        }
        let free = self.free();
        for (need, flag) in needs.iter().zip(&self.work.nears_full_disk) {
            flag.store(*need > 0 && free < need + AHEAD, Ordering::Release);
        }
    }

    /// Whether there is space for a checkpoint after a commit of this many bytes, beside `others`.
    pub(super) fn flush_space(&self, bytes: u64, others: u64) -> FlushSpace {
        let (need, free) = (self.unwritten(bytes), self.free());
        // Flushes and a checkpoint may leave enough, because the log is cut after them.
        let checkpoint_helps = || self.checkpoints.lacks_commits() && free >= self.unwritten(0);
        if self.work.lacks_space.load(Ordering::Acquire) {
            FlushSpace::Lacking
        } else if free >= need + others {
            FlushSpace::Enough
        } else if free >= need || checkpoint_helps() {
            FlushSpace::AfterFlush
        } else {
            FlushSpace::Lacking
        }
    }
}
