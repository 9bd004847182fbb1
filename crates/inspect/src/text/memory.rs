//! Renders the memory engine as text.

use std::fmt::Write;

use spillway::{MemoryInspection, SegmentInspection};

use super::line;
use crate::Report;
use crate::words::{bytes, count, counted, live_share, memory_lines, memory_summary, segment_home};

/// The number of segments listed, those with the least share of live bytes first; JSON has all of
/// them.
const SEGMENTS_LISTED: usize = 20;

impl Report<'_> {
    /// Writes the memory engine, if the report has it.
    pub(super) fn memory_text(&self, out: &mut dyn Write) {
        let Some(of) = self.memory else { return };
        line(out, format_args!("\nmemory engine: {}", memory_summary(of)));
        for told in memory_lines(of) {
            line(out, format_args!("  {told}"));
        }
        self.memory_tables_text(out, of);
        self.stored_tables_text(out, of);
        segments_text(out, of);
    }

    fn memory_tables_text(&self, out: &mut dyn Write, of: &MemoryInspection) {
        let mut open = of.tables.iter().filter_map(|table| Some((table, table.memory?))).peekable();
        if open.peek().is_none() {
            return;
        }
        line(
            out,
            format_args!(
                "\n  {:>13}{:>13}{:>13}{:>11}{:>11}{:>11}  in memory",
                "keys", "rows", "evicted", "versions", "index", "array"
            ),
        );
        for (table, memory) in open {
            line(
                out,
                format_args!(
                    "  {:>13}{:>13}{:>13}{:>11}{:>11}{:>11}  {}",
                    count(table.keys),
                    count(memory.rows),
                    count(memory.evicted_rows),
                    bytes(memory.version_bytes),
                    bytes(memory.index_bytes),
                    bytes(memory.array_bytes),
                    self.names.table(table.table),
                ),
            );
        }
    }

    fn stored_tables_text(&self, out: &mut dyn Write, of: &MemoryInspection) {
        let stored = of.tables.iter().filter_map(|table| Some((table, table.stored?)));
        let mut stored = stored.peekable();
        if stored.peek().is_none() {
            return;
        }
        line(
            out,
            format_args!(
                "\n  {:>13}{:>13}{:>13}{:>11}{:>11}  in the checkpoint",
                "keys", "page files", "pages", "ranges", "bytes"
            ),
        );
        for (table, stored) in stored {
            line(
                out,
                format_args!(
                    "  {:>13}{:>13}{:>13}{:>11}{:>11}  {}",
                    count(stored.keys),
                    count(stored.page_files),
                    count(stored.pages),
                    count(stored.deleted_ranges),
                    bytes(stored.bytes),
                    self.names.table(table.table),
                ),
            );
        }
    }
}

fn segments_text(out: &mut dyn Write, of: &MemoryInspection) {
    let mut segments: Vec<&SegmentInspection> = of.segments.iter().collect();
    if segments.is_empty() {
        return;
    }
    segments.sort_by(|one, other| live_share(one).total_cmp(&live_share(other)));
    let left_out = segments.len().saturating_sub(SEGMENTS_LISTED);
    segments.truncate(SEGMENTS_LISTED);
    line(
        out,
        format_args!(
            "\n  {:>9}{:>13}{:>11}{:>11}{:>8}  segment",
            "lane", "number", "bytes", "alive", "share"
        ),
    );
    for segment in segments {
        let known = |value: Option<u64>| value.map_or_else(|| "not known".to_owned(), bytes);
        let share = live_share(segment);
        let share = if share.is_finite() { crate::words::percent(share) } else { String::new() };
        line(
            out,
            format_args!(
                "  {:>9}{:>13}{:>11}{:>11}{:>8}  {}",
                segment.lane.map_or_else(|| "compacted".to_owned(), |lane| lane.to_string()),
                segment.number,
                known(segment.bytes),
                known(segment.live_bytes),
                share,
                segment_home(segment),
            ),
        );
    }
    if left_out > 0 {
        let more = counted(left_out as u64, "more segment", "more segments");
        line(out, format_args!("  and {more} with a larger share"));
    }
}
