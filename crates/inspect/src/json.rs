//! As JSON, for programs. Keys are in hexadecimal digits, and as people read them.

use serde_json::{Value, json};
use spillway::{
    ClassSpace, CompactionRecord, LevelSpace, SliceInspection, SubTableInspection, Table,
    TableInspection,
};

use crate::Report;

fn hex(key: &[u8]) -> String {
    key.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Report<'_> {
    /// All of it, single slices too, as one JSON document.
    #[must_use]
    pub fn json(&self) -> String {
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
            "tables": of.tables.iter().map(|table| self.table_json(table)).collect::<Vec<_>>(),
            "compactions": compactions,
        });
        all.to_string()
    }

    fn table_json(&self, table: &TableInspection) -> Value {
        let id = table.space.table;
        let tiers = table.space.classes.iter().map(|(class, on)| {
            let ClassSpace { extents, slot_bytes, dead_bytes, slack_bytes } = *on;
            json!({
                "tier": class.name(),
                "extents": extents,
                "slot_bytes": slot_bytes,
                "dead_bytes": dead_bytes,
                "slack_bytes": slack_bytes,
            })
        });
        let parts = table.subtables.iter().map(|part| self.part_json(id, part));
        json!({
            "table": self.names.table(id),
            "key_space": id.ordinal(),
            "tiers": tiers.collect::<Vec<_>>(),
            "levels": table.space.levels.iter().map(level_json).collect::<Vec<_>>(),
            "sub_tables": parts.collect::<Vec<_>>(),
        })
    }

    fn part_json(&self, table: Table, part: &SubTableInspection) -> Value {
        let memtables = part
            .memtables
            .iter()
            .map(|memtable| json!({ "bytes": memtable.bytes, "keys": memtable.keys }));
        json!({
            "start": hex(&part.start),
            "end": part.end.as_deref().map(hex),
            "bounds": self.bounds(table, &part.start, part.end.as_deref()),
            "flushed": part.flushed.0,
            "memtables": memtables.collect::<Vec<_>>(),
            "sub_levels": part.sublevels,
            "levels": part.levels.iter().map(level_json).collect::<Vec<_>>(),
            "slices": part.slices.iter().map(slice_json).collect::<Vec<_>>(),
            "quarantine": part.quarantine,
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
