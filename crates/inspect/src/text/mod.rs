//! Renders a report as text, for a terminal.

mod memory;

use std::fmt::Write;

use spillway::{ClassSpace, CompactionRecord, LevelSpace, SubTableInspection, TableInspection};

use crate::words::{
    NOT_KNOWN, as_of, bytes, codings, count, counted, knows_warmth, no_compactions, percent, share,
    tiers, time, utc, warmth,
};
use crate::{Report, shortened};

/// Writes a line. If the output fails, this line and all later ones are dropped; the owner of the
/// output knows.
/// Writes a line, perhaps after an empty one. Control characters in names are escaped, because a
/// terminal would obey them, and a newline would forge a line.
fn line(out: &mut dyn Write, text: std::fmt::Arguments<'_>) {
    let text = text.to_string();
    let written = match text.strip_prefix('\n') {
        Some(text) => {
            let _ = writeln!(out);
            text
        }
        None => &text,
    };
    for letter in written.chars() {
        let _ = match letter.is_control() {
            true => write!(out, "{}", letter.escape_default()),
            false => write!(out, "{letter}"),
        };
    }
    let _ = writeln!(out);
}

impl Report<'_> {
    /// Writes everything except single slices, as lines of text.
    pub(crate) fn text(&self, out: &mut dyn Write) {
        line(out, format_args!("{}", self.summary()));
        for files in &self.inspection.files {
            let (class, all, free) = (files.class, bytes(files.bytes), bytes(files.free_bytes));
            line(out, format_args!("data files on {class}: {all}, of them free {free}"));
        }
        if let Some(as_of) = as_of(self.inspection) {
            line(out, format_args!("{as_of}"));
        }
        let tables = self.inspection.tables.iter();
        let (stored, fresh): (Vec<&TableInspection>, Vec<_>) =
            tables.partition(|table| table.subtables.iter().any(|part| !part.slices.is_empty()));
        for table in stored {
            self.table_text(out, table);
        }
        if !fresh.is_empty() {
            line(out, format_args!("\nnothing in data files yet:"));
        }
        for table in fresh {
            let memory: u64 = table.subtables.iter().map(memory_of).sum();
            let name = self.names.table(table.space.table);
            line(out, format_args!("  {name}, in memory {}", bytes(memory)));
        }
        self.compactions_text(out);
        self.memory_text(out);
    }

    /// A summary in one sentence.
    pub(crate) fn summary(&self) -> String {
        let tables = &self.inspection.tables;
        let parts: usize = tables.iter().map(|table| table.subtables.len()).sum();
        let on = tables.iter().map(|table| table.space.on_devices());
        let (extents, slots, dead) = on.fold((0, 0, 0), |sum, on| {
            (sum.0 + on.extents, sum.1 + on.slot_bytes, sum.2 + on.dead_bytes)
        });
        let payload: u64 = tables.iter().map(|table| table.space.payload_bytes()).sum();
        format!(
            "{}: {} in {}; {} of {} with {} of keys and values, {} dead",
            self.title,
            counted(tables.len() as u64, "table", "tables"),
            counted(parts as u64, "sub-table", "sub-tables"),
            counted(extents, "extent", "extents"),
            bytes(slots),
            bytes(payload),
            bytes(dead),
        )
    }

    fn table_text(&self, out: &mut dyn Write, table: &TableInspection) {
        let id = table.space.table;
        let on = table.space.on_devices();
        let memory: u64 = table.subtables.iter().map(memory_of).sum();
        line(
            out,
            format_args!(
                "\n{}: {}, {} of {}, dead {}, unused ends {}, in memory {}",
                self.names.table(id),
                counted(table.subtables.len() as u64, "sub-table", "sub-tables"),
                counted(on.extents, "extent", "extents"),
                bytes(on.slot_bytes),
                bytes(on.dead_bytes),
                bytes(on.slack_bytes),
                bytes(memory),
            ),
        );
        let coding_width = coding_width_of(table);
        line(
            out,
            format_args!(
                "  {:<10}{:>8}{:>9}{:>11}{:>11}{:>11}{:>11}{:>11}{:>7}{:>14}{:>13}{:>11}{:>11}  {:<coding_width$}  tiers",
                "",
                "slices",
                "extents",
                "newest",
                "payload",
                "blocks",
                "slots",
                "dead",
                "dense",
                "versions",
                "tombstones",
                "hot",
                "cold",
                "coding",
            ),
        );
        for (at, part) in table.subtables.iter().enumerate() {
            let bounds = self.bounds(id, &part.start, part.end.as_deref());
            let memory = memory_of(part);
            let memtables = match part.memtables.len() as u64 {
                0 => String::new(),
                many => {
                    format!("; {}, {}", counted(many, "memtable", "memtables"), bytes(memory))
                }
            };
            line(out, format_args!("  sub-table {}, {bounds}{memtables}", at + 1));
            levels_text(out, part, coding_width, knows_warmth(table));
            if let Some(damage) = &part.quarantine {
                line(out, format_args!("    not compacted any more: {damage}"));
            }
        }
        for (class, on) in &table.space.classes {
            line(out, format_args!("  {}", tier_text(class.name(), on)));
        }
    }

    fn compactions_text(&self, out: &mut dyn Write) {
        let Some(all) = &self.inspection.compactions else {
            line(out, format_args!("\nrecent compactions: {NOT_KNOWN}"));
            return;
        };
        line(out, format_args!("\nrecent compactions, the newest last"));
        if all.is_empty() {
            line(out, format_args!("  {}", no_compactions(self.inspection)));
            return;
        }
        line(
            out,
            format_args!(
                "  {:>7}  {:<23}{:>10}  {:<13}{:<8}{:>7}{:>11}{:>8}{:>11}{:>8}{:>11}{:>11}{:>9}{:>11}  table",
                "number",
                "ended",
                "took",
                "kind",
                "into",
                "slices",
                "read",
                "relinked",
                "",
                "carried",
                "",
                "merged",
                "extents",
                "written"
            ),
        );
        for record in all {
            self.compaction_text(out, record);
        }
    }

    fn compaction_text(&self, out: &mut dyn Write, of: &CompactionRecord) {
        let keys = [&of.smallest, &of.largest].map(|key| self.key(of.table, key));
        line(
            out,
            format_args!(
                "  {:>7}  {:<23}{:>10}  {:<13}{:<8}{:>7}{:>11}{:>8}{:>11}{:>8}{:>11}{:>11}{:>9}{:>11}  {}, {} to {}",
                of.number,
                utc(of.ended),
                time(of.took),
                of.kind,
                format!("Level{}", of.level),
                count(of.input_slices),
                bytes(of.input_bytes),
                count(of.relinked_slices),
                bytes(of.relinked_bytes),
                count(of.carried_blocks),
                bytes(of.carried_bytes),
                bytes(of.merged_bytes),
                count(of.written_extents),
                bytes(of.written_bytes),
                shortened(&self.names.table(of.table)),
                keys[0],
                keys[1],
            ),
        );
    }
}

fn memory_of(part: &SubTableInspection) -> u64 {
    part.memtables.iter().map(|memtable| memtable.bytes).sum()
}

/// The width of a table's widest coding text; a level may have several codings.
fn coding_width_of(table: &TableInspection) -> usize {
    let levels = table.subtables.iter().flat_map(|part| &part.levels);
    levels.map(|level| codings(level).len()).max().unwrap_or_default().max("coding".len())
}

fn levels_text(
    out: &mut dyn Write,
    part: &SubTableInspection,
    coding_width: usize,
    knows_warmth: bool,
) {
    for (number, level) in part.levels.iter().enumerate().filter(|(_, level)| level.slices > 0) {
        let name = match (number, part.sublevels) {
            (0, sublevels) => format!("Level0 x{sublevels}"),
            _ => format!("Level{number}"),
        };
        line(out, format_args!("    {}", level_text(&name, level, coding_width, knows_warmth)));
    }
}

fn level_text(name: &str, level: &LevelSpace, coding_width: usize, knows_warmth: bool) -> String {
    let [hot, cold] = warmth(level, knows_warmth);
    let tombstones = share(level.tombstones, level.versions);
    format!(
        "{name:<10}{:>6}{:>9}{:>11}{:>11}{:>11}{:>11}{:>11}{:>7}{:>14}{:>13}{hot:>11}{cold:>11}  {:<coding_width$}  {}",
        count(level.slices),
        count(level.extents),
        bytes(level.newest_bytes),
        bytes(level.payload_bytes),
        bytes(level.block_bytes),
        bytes(level.slot_bytes),
        bytes(level.dead_bytes),
        percent(level.density()),
        count(level.versions),
        percent(tombstones),
        codings(level),
        tiers(level),
    )
}

/// A line for a table's data on a tier, below those of its levels.
fn tier_text(name: &str, on: &ClassSpace) -> String {
    format!(
        "on {name:<15}{:>9}{:>11}{:>11}{:>11}{:>11}{:>11}{:>7}",
        count(on.extents),
        bytes(on.newest_bytes),
        bytes(on.payload_bytes),
        bytes(on.block_bytes),
        bytes(on.slot_bytes),
        bytes(on.dead_bytes),
        percent(share(on.block_bytes, on.slot_bytes)),
    )
}
