//! Formats figures for people.

use std::time::Duration;

use spillway::{
    CompactionRecord, Inspection, LevelSpace, MemoryInspection, SegmentHome, SegmentInspection,
    TableInspection,
};

/// Bytes, in a suitable unit.
pub(crate) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut scaled = bytes as f64 / 1024.0;
    let mut unit = 0;
    while scaled >= 999.95 && unit + 1 < UNITS.len() {
        scaled /= 1024.0;
        unit += 1;
    }
    format!("{scaled:.1} {}", UNITS[unit])
}

/// A count, in groups of three digits.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A count with its noun.
pub(crate) fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(number), if number == 1 { one } else { many })
}

/// The share of a part in a whole; 0 if the whole is 0.
pub(crate) fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

pub(crate) fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// A duration, with about three digits.
pub(crate) fn time(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1e3;
    match ms {
        _ if ms < 1.0 => format!("{ms:.2} ms"),
        _ if ms < 10.0 => format!("{ms:.1} ms"),
        _ if ms < 1e3 => format!("{ms:.0} ms"),
        _ if ms < 120e3 => format!("{:.1} s", ms / 1e3),
        _ => format!("{:.0} min", ms / 60e3),
    }
}

/// A time since 1970, in UTC.
#[must_use]
pub fn utc(since: Duration) -> String {
    let seconds = since.as_secs();
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // The civil calendar from days, by eras of 400 years that begin in March.
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

/// The existing parts of a whole, the largest first: `zstd 90 %, none 10 %`.
pub(crate) fn parts<'a>(parts: impl Iterator<Item = (&'a str, u64)>) -> String {
    let mut parts: Vec<(&str, u64)> = parts.filter(|(_, bytes)| *bytes > 0).collect();
    let whole: u64 = parts.iter().map(|(_, bytes)| bytes).sum();
    parts.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    if let [(only, _)] = parts[..] {
        return only.to_owned();
    }
    let told =
        parts.iter().map(|(name, bytes)| format!("{name} {}", percent(share(*bytes, whole))));
    told.collect::<Vec<_>>().join(", ")
}

/// The codings of a level.
pub(crate) fn codings(level: &LevelSpace) -> String {
    parts(spillway::CODINGS.into_iter().zip(level.coded_bytes))
}

/// The device classes of a level.
pub(crate) fn tiers(level: &LevelSpace) -> String {
    let names = spillway::DeviceClass::ALL.map(spillway::DeviceClass::name);
    parts(names.into_iter().zip(level.class_bytes))
}

/// The work of a compaction.
pub(crate) fn done(record: &CompactionRecord) -> String {
    format!(
        "read {} in {}; {} relinked in {}, {} carried in {}, {} merged; wrote {} in {}",
        bytes(record.input_bytes),
        counted(record.input_slices, "slice", "slices"),
        bytes(record.relinked_bytes),
        counted(record.relinked_slices, "slice", "slices"),
        bytes(record.carried_bytes),
        counted(record.carried_blocks, "block", "blocks"),
        bytes(record.merged_bytes),
        bytes(record.written_bytes),
        counted(record.written_extents, "extent", "extents"),
    )
}

/// The text for unknown recent compactions.
pub(crate) const NOT_KNOWN: &str =
    "not known: the database is not open, and its last process did not record them";

/// The text for no recent compactions.
pub(crate) fn no_compactions(inspection: &Inspection) -> &'static str {
    match inspection.as_of {
        None => "none since the database was opened",
        Some(_) => "none since the database was opened last",
    }
}

/// When temperatures and compactions were recorded, if they are not current.
pub(crate) fn as_of(inspection: &Inspection) -> Option<String> {
    let at = inspection.as_of?;
    Some(format!("temperatures and compactions as of {}", utc(at)))
}

/// The bytes of a level by temperature, or that these are unknown.
pub(crate) fn warmth(level: &LevelSpace, is_known: bool) -> [String; 2] {
    [level.hot_bytes, level.cold_bytes]
        .map(|of| if is_known { bytes(of) } else { "not known".to_owned() })
}

/// Whether the temperatures of a table's slices are known.
pub(crate) fn knows_warmth(table: &TableInspection) -> bool {
    let mut slices = table.subtables.iter().flat_map(|part| &part.slices);
    slices.any(|slice| slice.temperature.is_some())
}

/// The memory engine in one sentence.
pub(crate) fn memory_summary(of: &MemoryInspection) -> String {
    let keys = of.tables.iter().map(|table| table.keys).sum();
    let mut told = format!(
        "{} with {}",
        counted(of.tables.len() as u64, "table", "tables"),
        counted(keys, "key", "keys")
    );
    if let Some(figures) = &of.figures {
        told += &format!(
            "; in memory {} of versions, {} of indexes, {} of arrays",
            bytes(figures.version_bytes),
            bytes(figures.index_bytes),
            bytes(figures.array_bytes),
        );
    } else if of.tables.iter().all(|table| table.memory.is_none()) {
        told += " in the last checkpoint; the rows that only the log has are not included";
    }
    told
}

/// The figures of the memory engine, a line each.
pub(crate) fn memory_lines(of: &MemoryInspection) -> Vec<String> {
    let mut told = Vec::new();
    if let Some(figures) = &of.figures {
        told.push(format!(
            "eviction: {} left memory since the opening, {} read from the log; {} not placed in \
             the log yet",
            counted(figures.evicted_total, "row has", "rows have"),
            counted(figures.log_reads_total, "row was", "rows were"),
            counted(figures.unplaced_commits, "commit is", "commits are"),
        ));
        told.push(format!(
            "collection: commits up to {} (stable: {}) keep only the newest version of each row; {} \
             with {} to collect",
            figures.watermark.0,
            figures.stable.0,
            counted(figures.uncollected_rows, "row waits", "rows wait"),
            bytes(figures.uncollected_bytes),
        ));
    }
    told.push(match &of.checkpoint {
        None => "checkpoint: none".to_owned(),
        Some(checkpoint) => {
            let age = match checkpoint.age {
                Some(age) => format!(", written {} ago", time(age)),
                None if of.figures.is_some() => ", written before the opening".to_owned(),
                None => String::new(),
            };
            format!(
                "checkpoint {}: commit {}, {} with {} in all, names {}{age}",
                checkpoint.number,
                checkpoint.csn.0,
                counted(checkpoint.files, "file", "files"),
                bytes(checkpoint.bytes),
                counted(checkpoint.segments, "segment", "segments"),
            )
        }
    });
    if !of.segments.is_empty() {
        told.push(kept_line(of));
        let in_log = || of.segments.iter().filter(|segment| segment.home == SegmentHome::Log);
        if in_log().next().is_some() {
            let live = in_log().map(|segment| segment.live_bytes).sum::<Option<u64>>();
            let live = live.map_or_else(String::new, |live| format!(", {} alive", bytes(live)));
            told.push(format!("segments with rows in the redo log: {}{live}", in_log().count()));
        }
        let missing = of.segments.iter().filter(|segment| segment.home == SegmentHome::Missing);
        match missing.count() as u64 {
            0 => {}
            many => told.push(format!(
                "{} although the checkpoint names it. No row may need it, or rows are lost: run \
                 spillway check",
                counted(many, "segment is missing", "segments are missing")
            )),
        }
    }
    told.extend(of.damage.iter().map(|damage| format!("damage: {damage}")));
    told
}

/// The totals of the kept segments.
fn kept_line(of: &MemoryInspection) -> String {
    if of.kept().next().is_none() {
        return "kept segments: none".to_owned();
    }
    let all: u64 = of.kept().filter_map(|segment| segment.bytes).sum();
    let live = of.kept().map(|segment| segment.live_bytes).sum::<Option<u64>>();
    let live = live.map_or_else(String::new, |live| {
        format!(", {} alive ({})", bytes(live), percent(share(live, all)))
    });
    format!("kept segments: {}, {} in all{live}", of.kept().count(), bytes(all))
}

/// The place of a segment, in words.
pub(crate) fn segment_home(segment: &SegmentInspection) -> &'static str {
    match segment.home {
        SegmentHome::Log => "in the redo log",
        SegmentHome::Kept => "kept",
        SegmentHome::Missing => "missing",
    }
}

/// The share of a segment's bytes that a row needs; infinite if it is not known.
pub(crate) fn live_share(segment: &SegmentInspection) -> f64 {
    match (segment.live_bytes, segment.bytes) {
        (Some(live), Some(all)) => share(live, all),
        _ => f64::INFINITY,
    }
}
