//! Writes a report as JSON, for programs. Keys appear as hexadecimal digits and in readable form.
//!
//! Slices are written one by one: as a single JSON value, the slices of 100,000 extents took 700
//! MiB of memory.

use std::fmt::{self, Write};

use serde_json::{Value, json};
use spillway::{
    ClassSpace, CompactionRecord, LevelSpace, MemoryFigures, MemoryInspection,
    MemoryTableInspection, SegmentHome, SegmentInspection, SliceInspection, SubTableInspection,
    Table, TableInspection,
};

use crate::Report;

/// Writes an object with members and a list as its last member, writing the list's elements one by
/// one.
fn with_list<T>(
    out: &mut dyn Write,
    object: &Value,
    name: &str,
    list: impl Iterator<Item = T>,
    write: impl Fn(&mut dyn Write, T) -> fmt::Result,
) -> fmt::Result {
    begin(out, object)?;
    write_list(out, name, list, write)?;
    out.write_char('}')
}

/// Writes an object up to the position of a further member, without the closing brace.
fn begin(out: &mut dyn Write, object: &Value) -> fmt::Result {
    let object = object.to_string();
    out.write_str(object.strip_suffix('}').expect("an object ends so"))
}

/// Writes a list as a further member of an object.
fn write_list<T>(
    out: &mut dyn Write,
    name: &str,
    list: impl Iterator<Item = T>,
    write: impl Fn(&mut dyn Write, T) -> fmt::Result,
) -> fmt::Result {
    write!(out, ",\"{name}\":[")?;
    for (at, member) in list.enumerate() {
        if at > 0 {
            out.write_char(',')?;
        }
        write(out, member)?;
    }
    out.write_char(']')
}

fn hex(key: &[u8]) -> String {
    key.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Report<'_> {
    /// Writes everything, including single slices, as one JSON document.
    pub(crate) fn json(&self, out: &mut dyn Write) -> fmt::Result {
        let of = self.inspection;
        let files = of.files.iter().map(|files| {
            json!({ "tier": files.class.name(), "bytes": files.bytes, "free_bytes": files.free_bytes })
        });
        let compactions = of
            .compactions
            .as_ref()
            .map(|all| all.iter().map(|record| self.compaction_json(record)).collect::<Vec<_>>());
        let all = json!({
            "of": self.title,
            "slot_bytes": of.slot_bytes,
            "files": files.collect::<Vec<_>>(),
            "compactions": compactions,
            "as_of_unix_s": of.as_of.map(|at| at.as_secs_f64()),
        });
        begin(out, &all)?;
        if let Some(memory) = self.memory {
            out.write_str(",\"memory_engine\":")?;
            self.memory_json(out, memory)?;
        }
        write_list(out, "tables", of.tables.iter(), |out, table| self.table_json(out, table))?;
        out.write_char('}')
    }

    fn memory_json(&self, out: &mut dyn Write, of: &MemoryInspection) -> fmt::Result {
        let checkpoint = of.checkpoint.as_ref().map(|checkpoint| {
            json!({
                "number": checkpoint.number,
                "csn": checkpoint.csn.0,
                "files": checkpoint.files,
                "bytes": checkpoint.bytes,
                "segments": checkpoint.segments,
                "age_s": checkpoint.age.map(|age| age.as_secs_f64()),
            })
        });
        let all = json!({
            "checkpoint": checkpoint,
            "figures": of.figures.as_ref().map(figures_json),
            "damage": of.damage,
        });
        begin(out, &all)?;
        write_list(out, "tables", of.tables.iter(), |out, table| {
            write!(out, "{}", self.memory_table_json(table))
        })?;
        write_list(out, "segments", of.segments.iter(), |out, segment| {
            write!(out, "{}", segment_json(segment))
        })?;
        out.write_char('}')
    }

    fn memory_table_json(&self, table: &MemoryTableInspection) -> Value {
        let memory = table.memory.map(|memory| {
            json!({
                "rows": memory.rows,
                "evicted_rows": memory.evicted_rows,
                "version_bytes": memory.version_bytes,
                "index_bytes": memory.index_bytes,
                "array_bytes": memory.array_bytes,
                "deleted_ranges": memory.deleted_ranges,
            })
        });
        let stored = table.stored.map(|stored| {
            json!({
                "keys": stored.keys,
                "page_files": stored.page_files,
                "pages": stored.pages,
                "bytes": stored.bytes,
                "deleted_ranges": stored.deleted_ranges,
            })
        });
        json!({
            "table": self.names.table(table.table),
            "key_space": table.table.ordinal(),
            "keys": table.keys,
            "memory": memory,
            "checkpoint": stored,
        })
    }

    fn table_json(&self, out: &mut dyn Write, table: &TableInspection) -> fmt::Result {
        let id = table.space.table;
        let tiers = table.space.classes.iter().map(|(class, on)| {
            let ClassSpace { extents, payload_bytes, newest_bytes, .. } = *on;
            let ClassSpace { block_bytes, slot_bytes, dead_bytes, slack_bytes, .. } = *on;
            json!({
                "tier": class.name(),
                "extents": extents,
                "payload_bytes": payload_bytes,
                "newest_bytes": newest_bytes,
                "block_bytes": block_bytes,
                "slot_bytes": slot_bytes,
                "dead_bytes": dead_bytes,
                "slack_bytes": slack_bytes,
            })
        });
        let all = json!({
            "table": self.names.table(id),
            "key_space": id.ordinal(),
            "tiers": tiers.collect::<Vec<_>>(),
            "levels": table.space.levels.iter().map(level_json).collect::<Vec<_>>(),
        });
        with_list(out, &all, "sub_tables", table.subtables.iter(), |out, part| {
            self.part_json(out, id, part)
        })
    }

    fn part_json(
        &self,
        out: &mut dyn Write,
        table: Table,
        part: &SubTableInspection,
    ) -> fmt::Result {
        let memtables = part
            .memtables
            .iter()
            .map(|memtable| json!({ "bytes": memtable.bytes, "keys": memtable.keys }));
        let all = json!({
            "start": hex(&part.start),
            "end": part.end.as_deref().map(hex),
            "bounds": self.bounds(table, &part.start, part.end.as_deref()),
            "flushed": part.flushed.0,
            "memtables": memtables.collect::<Vec<_>>(),
            "sub_levels": part.sublevels,
            "levels": part.levels.iter().map(level_json).collect::<Vec<_>>(),
            "quarantine": part.quarantine,
        });
        with_list(out, &all, "slices", part.slices.iter(), |out, slice| {
            write!(out, "{}", slice_json(slice))
        })
    }

    fn compaction_json(&self, of: &CompactionRecord) -> Value {
        json!({
            "number": of.number,
            "table": self.names.table(of.table),
            "kind": of.kind.to_string(),
            "smallest": hex(&of.smallest),
            "largest": hex(&of.largest),
            "input_slices": of.input_slices,
            "input_bytes": of.input_bytes,
            "level": of.level,
            "written_extents": of.written_extents,
            "written_bytes": of.written_bytes,
            "relinked_slices": of.relinked_slices,
            "relinked_bytes": of.relinked_bytes,
            "carried_blocks": of.carried_blocks,
            "carried_bytes": of.carried_bytes,
            "merged_blocks": of.merged_blocks,
            "merged_bytes": of.merged_bytes,
            "ended_unix_s": of.ended.as_secs_f64(),
            "took_s": of.took.as_secs_f64(),
        })
    }
}

fn figures_json(figures: &MemoryFigures) -> Value {
    json!({
        "version_bytes": figures.version_bytes,
        "index_bytes": figures.index_bytes,
        "array_bytes": figures.array_bytes,
        "stable_csn": figures.stable.0,
        "watermark_csn": figures.watermark.0,
        "uncollected_rows": figures.uncollected_rows,
        "uncollected_bytes": figures.uncollected_bytes,
        "unplaced_commits": figures.unplaced_commits,
        "evicted_total": figures.evicted_total,
        "log_reads_total": figures.log_reads_total,
    })
}

fn segment_json(segment: &SegmentInspection) -> Value {
    json!({
        "lane": segment.lane,
        "number": segment.number,
        "home": match segment.home {
            SegmentHome::Log => "log",
            SegmentHome::Kept => "kept",
            SegmentHome::Missing => "missing",
        },
        "bytes": segment.bytes,
        "live_bytes": segment.live_bytes,
    })
}

fn level_json(level: &LevelSpace) -> Value {
    let by = |names: &[&str], bytes: &[u64]| -> Value {
        let all = names.iter().zip(bytes).filter(|(_, bytes)| **bytes > 0);
        all.map(|(name, bytes)| ((*name).to_owned(), Value::from(*bytes))).collect()
    };
    let tiers = spillway::DeviceClass::ALL.map(spillway::DeviceClass::name);
    json!({
        "slices": level.slices,
        "extents": level.extents,
        "versions": level.versions,
        "keys": level.keys,
        "tombstones": level.tombstones,
        "payload_bytes": level.payload_bytes,
        "newest_bytes": level.newest_bytes,
        "block_bytes": level.block_bytes,
        "slot_bytes": level.slot_bytes,
        "dead_bytes": level.dead_bytes,
        "slack_bytes": level.slack_bytes,
        "hot_bytes": level.hot_bytes,
        "cold_bytes": level.cold_bytes,
        "coding_bytes": by(&spillway::CODINGS, &level.coded_bytes),
        "tier_bytes": by(&tiers, &level.class_bytes),
    })
}

fn slice_json(slice: &SliceInspection) -> Value {
    json!({
        "level": slice.level,
        "sub_level": (slice.level == 0).then_some(slice.sublevel),
        "extent": slice.extent,
        "first_block": slice.first_block,
        "blocks": slice.blocks,
        "extent_blocks": slice.extent_blocks,
        "smallest": hex(&slice.smallest),
        "largest": hex(&slice.largest),
        "block_bytes": slice.block_bytes,
        "slot_bytes": slice.slot_bytes,
        "dead_bytes": slice.dead_bytes,
        "payload_bytes": slice.payload_bytes,
        "versions": slice.versions,
        "keys": slice.keys,
        "tombstones": slice.tombstones,
        "coding": slice.coding,
        "tier": slice.class.name(),
        "temperature": slice.temperature,
    })
}
