//! Output is complete for any amount of data, and no part of a name or key becomes markup.

use std::time::Duration;

use spillway::{
    CODINGS, CheckpointInspection, ClassSpace, CompactionKind, CompactionRecord, Csn, DeviceClass,
    EngineKind, FilesInspection, LevelSpace, MemoryFigures, MemoryTableInspection,
    MemtableInspection, SegmentHome, SegmentInspection, SliceInspection, StoredTable,
    SubTableInspection, TableInspection, TableMemory, TableSpace,
};

use super::*;

const NASTY: &str = "</title><script>\"&'\u{1}\u{fffe}<svg>";

struct Nasty;

impl Names for Nasty {
    fn table(&self, table: Table) -> String {
        format!("{NASTY}{}", table.ordinal())
    }

    fn key(&self, _: Table, key: &[u8]) -> String {
        format!("{NASTY}{}", readable(key))
    }
}

fn key(number: usize) -> Box<[u8]> {
    (number as u64).to_be_bytes().into()
}

fn slice(at: usize, level: u8, sublevel: u64) -> SliceInspection {
    SliceInspection {
        level,
        sublevel,
        extent: at as u64,
        first_block: 3,
        blocks: 50,
        extent_blocks: 100,
        smallest: key(10 * at),
        largest: key(10 * at + 8),
        block_bytes: 1_000_000,
        slot_bytes: 2 << 20,
        dead_bytes: if at.is_multiple_of(3) { 900_000 } else { 0 },
        payload_bytes: 3_000_000,
        versions: 1000,
        keys: 900,
        tombstones: (at as u64 * 37) % 1000,
        coding: CODINGS[at % 4],
        class: DeviceClass::ALL[at % 3],
        temperature: (level < 2).then_some(at as u32 % 300),
    }
}

/// A table with this many slices in Level2, some in Level1, and a deep Level0, in `parts`
/// sub-tables.
fn table(slices: usize, parts: usize) -> TableInspection {
    let level = |slices: usize| LevelSpace {
        slices: slices as u64,
        extents: slices as u64,
        versions: 1000 * slices as u64,
        slot_bytes: (2 << 20) * slices as u64,
        block_bytes: 1_000_000 * slices as u64,
        dead_bytes: 300_000 * slices as u64,
        ..LevelSpace::default()
    };
    let each = slices.div_ceil(parts);
    let subtables = (0..parts).map(|part| {
        let of = part * each..((part + 1) * each).min(slices);
        let mut all = Vec::new();
        for sublevel in (1..=14).rev() {
            all.extend(of.clone().step_by(7 + sublevel as usize).map(|at| slice(at, 0, sublevel)));
        }
        all.extend(of.clone().filter(|at| at % 5 < 3).map(|at| slice(at, 1, 0)));
        all.extend(of.clone().map(|at| slice(at, 2, 0)));
        SubTableInspection {
            start: if part == 0 { Box::default() } else { key(10 * of.start) },
            end: (part + 1 < parts).then(|| key(10 * of.end)),
            flushed: Csn(7),
            memtables: vec![MemtableInspection { bytes: 1 << 20, keys: 100 }; part % 3],
            sublevels: 14,
            levels: [level(of.len() / 10), level(of.len() / 2), level(of.len())],
            slices: all,
            quarantine: (part == 1).then(|| NASTY.to_owned()),
        }
    });
    let on = ClassSpace { extents: slices as u64, slot_bytes: 5 << 20, ..ClassSpace::default() };
    let space = TableSpace {
        table: Table::new(EngineKind::Tiered, 9),
        levels: [level(slices / 10), level(slices / 2), level(slices)],
        classes: vec![(DeviceClass::Ssd, on)],
    };
    TableInspection { space, subtables: subtables.collect() }
}

fn compaction(number: u64) -> CompactionRecord {
    let kinds = [CompactionKind::Minor, CompactionKind::Major, CompactionKind::SelfMajor];
    CompactionRecord {
        number,
        table: Table::new(EngineKind::Tiered, 9),
        kind: kinds[number as usize % 3],
        smallest: key(1),
        largest: key(99),
        input_slices: 5,
        input_bytes: 10_000_000,
        level: 1,
        written_extents: 2,
        written_bytes: 4_000_000,
        relinked_slices: 2,
        relinked_bytes: 3_000_000,
        carried_blocks: 20,
        carried_bytes: 320_000,
        merged_blocks: 100,
        merged_bytes: 1_600_000,
        ended: Duration::from_millis(1_000_000 + 700 * number),
        took: Duration::from_millis(40 * (number % 20)),
    }
}

fn inspection(slices: usize, parts: usize, compactions: Option<u64>) -> Inspection {
    let files = FilesInspection { class: DeviceClass::Ssd, bytes: 64 << 20, free_bytes: 1 << 20 };
    Inspection {
        slot_bytes: 2 << 20,
        files: vec![files],
        tables: vec![table(slices, parts)],
        compactions: compactions.map(|many| (1..=many).map(compaction).collect()),
        as_of: None,
    }
}

/// A memory engine with this many kept segments, each with slightly more live bytes than the
/// previous one.
fn memory(segments: u64) -> MemoryInspection {
    let segment = |at: u64| SegmentInspection {
        lane: at.is_multiple_of(2).then_some(3),
        number: 70 + at,
        home: SegmentHome::Kept,
        bytes: Some(1 << 20),
        live_bytes: Some((1 << 20) * at / segments),
    };
    let memory = TableMemory {
        rows: 900,
        evicted_rows: 100,
        version_bytes: 2 << 20,
        index_bytes: 64 << 10,
        array_bytes: 8 << 10,
        deleted_ranges: 1,
    };
    let stored =
        StoredTable { keys: 1000, page_files: 3, pages: 5, bytes: 30 << 10, deleted_ranges: 1 };
    let table = MemoryTableInspection {
        table: Table::new(EngineKind::Memory, 11),
        keys: 1234,
        memory: Some(memory),
        stored: Some(stored),
    };
    let in_log =
        SegmentInspection { number: 99, home: SegmentHome::Log, bytes: None, ..segment(0) };
    MemoryInspection {
        tables: vec![table],
        segments: (0..segments).map(segment).chain([in_log]).collect(),
        checkpoint: Some(CheckpointInspection {
            number: 8,
            csn: Csn(770),
            files: 5,
            bytes: 31 << 10,
            segments,
            age: Some(Duration::from_secs(12)),
        }),
        figures: Some(MemoryFigures {
            version_bytes: 3 << 20,
            index_bytes: 128 << 10,
            array_bytes: 16 << 10,
            stable: Csn(801),
            watermark: Csn(800),
            uncollected_rows: 6,
            uncollected_bytes: 512,
            unplaced_commits: 1,
            evicted_total: 4321,
            log_reads_total: 17,
        }),
        damage: Vec::new(),
    }
}

/// The same engine after the database was closed, with damage.
fn closed_memory() -> MemoryInspection {
    let mut closed = memory(2);
    closed.figures = None;
    closed.tables[0].memory = None;
    closed.checkpoint.as_mut().unwrap().age = None;
    closed.segments.iter_mut().for_each(|segment| segment.live_bytes = None);
    closed.segments[1].home = SegmentHome::Missing;
    closed.damage.push(NASTY.to_owned());
    closed
}

/// Panics unless every element is closed by its own name, and no text has markup in it. Returns the
/// number of elements of each given name.
fn elements(page: &str, names: &[&str]) -> Vec<usize> {
    let mut rest = page.strip_prefix("<!DOCTYPE html>").unwrap();
    let mut open: Vec<String> = Vec::new();
    let mut counts = vec![0; names.len()];
    while let Some(at) = rest.find('<') {
        let text = &rest[..at];
        let is_style = open.last().is_some_and(|name| name == "style");
        assert!(is_style || !text.contains('>'), "{text}");
        for entity in text.split('&').skip(1) {
            let sound =
                ["amp;", "lt;", "gt;", "quot;"].iter().any(|known| entity.starts_with(known));
            assert!(sound || is_style, "&{entity}");
        }
        let (tag, after) = rest[at + 1..].split_once('>').unwrap();
        rest = after;
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name));
            continue;
        }
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
        let name = tag.split([' ', '/']).next().unwrap();
        if let Some(at) = names.iter().position(|other| *other == name) {
            counts[at] += 1;
        }
        if !tag.ends_with('/') {
            open.push(name.to_owned());
        }
    }
    assert!(open.is_empty() && rest.trim().is_empty(), "{open:?}");
    counts
}

#[test]
fn a_page_is_well_formed_whatever_things_are_called() {
    for (slices, parts, compactions) in
        [(1, 1, None), (1, 1, Some(0)), (30, 3, Some(1)), (300, 40, Some(256))]
    {
        let inspection = inspection(slices, parts, compactions);
        let report = Report { inspection: &inspection, memory: None, names: &Nasty, title: NASTY };
        let page = report.written(Format::Html);
        let counts = elements(&page, &["svg", "script", "h2"]);
        let drawn = 1 + usize::from(compactions.is_some_and(|many| many > 0));
        assert_eq!(counts, [drawn, 0, 2], "{slices} {parts}");
    }
    let nothing = Inspection::default();
    let report = Report { inspection: &nothing, memory: None, names: &Numbered, title: "nothing" };
    assert_eq!(elements(&report.written(Format::Html), &["svg", "section"]), [0, 1]);
}

/// Every slice is in the picture, by itself if it is wide enough and otherwise in a box that counts
/// it, and a picture of many is no larger than one of some.
#[test]
fn a_picture_of_very_many_slices_is_as_large_as_one_of_many() {
    let told = |slices: usize| {
        let inspection = inspection(slices, 8, None);
        let report = Report { inspection: &inspection, memory: None, names: &Numbered, title: "t" };
        let page = report.written(Format::Html);
        let level2 = page.split("<title>Level2: ").skip(1);
        let counted: usize = level2
            .map(|box_| match box_.split_once(" slices\n") {
                Some((many, _)) if !many.contains('\n') => many.replace(',', "").parse().unwrap(),
                _ => 1,
            })
            .sum();
        assert_eq!(counted, slices);
        (page.len(), elements(&page, &["rect"])[0])
    };
    assert!(told(10).1 >= 20);
    let (many, very_many) = (told(2_000), told(50_000));
    assert!(very_many.1 < 2 * many.1 && very_many.0 < 2 * many.0, "{many:?} {very_many:?}");
}

/// Each slice is written singly, for any number of slices, and the result is one document.
#[test]
fn json_of_very_many_slices_lists_each() {
    let inspection = inspection(50_000, 8, None);
    let report = Report { inspection: &inspection, memory: None, names: &Nasty, title: NASTY };
    let json = report.written(Format::Json);
    let listed = inspection.tables.iter().flat_map(|table| &table.subtables);
    let slices: usize = listed.map(|part| part.slices.len()).sum();
    assert_eq!(json.matches("\"first_block\":").count(), slices);
    let whole: serde_json::Value = serde_json::from_str(&json).unwrap();
    let tables = whole["tables"].as_array().unwrap().iter();
    let parts = tables.flat_map(|table| table["sub_tables"].as_array().unwrap());
    let told: usize = parts.map(|part| part["slices"].as_array().unwrap().len()).sum();
    assert_eq!(told, slices);
}

/// Names cannot move the cursor of a terminal or add lines.
#[test]
fn text_has_no_control_characters_whatever_things_are_called() {
    struct Wild;
    impl Names for Wild {
        fn table(&self, _: Table) -> String {
            "t\u{1b}[2J\n\0\u{9b}forged".to_owned()
        }

        fn key(&self, _: Table, _: &[u8]) -> String {
            "\rk\u{7f}".to_owned()
        }
    }
    let inspection = inspection(30, 3, Some(2));
    let lines = |names: &dyn Names, title: &str| {
        let text =
            Report { inspection: &inspection, memory: None, names, title }.written(Format::Text);
        assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
        text.lines().count()
    };
    assert_eq!(lines(&Wild, "./da\nta\u{1b}"), lines(&Numbered, "./data"));
}

#[test]
fn text_and_json_tell_the_same_figures() {
    let inspection = inspection(30, 3, Some(2));
    let report =
        Report { inspection: &inspection, memory: None, names: &Numbered, title: "./data" };
    let text = report.written(Format::Text);
    for part in [
        "./data: 1 table in 3 sub-tables; 30 extents",
        "(key space 9): 3 sub-tables",
        "sub-table 1, from the first key to 0x0000000000000064",
        "to the last; 2 memtables, 2.0 MiB",
        "Level0 x14",
        "Level2        10       10",
        "on ssd                   30",
        "not compacted any more",
        "self-major",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    let json: serde_json::Value = serde_json::from_str(&report.written(Format::Json)).unwrap();
    let parts = json["tables"][0]["sub_tables"].as_array().unwrap();
    let slices = parts.iter().flat_map(|part| part["slices"].as_array().unwrap());
    let level2: Vec<_> = slices.filter(|slice| slice["level"] == 2).collect();
    assert_eq!((parts.len(), level2.len()), (3, 30));
    assert_eq!(json["tables"][0]["levels"][2]["slices"], 30);
    assert_eq!(
        (&level2[0]["temperature"], &level2[0]["tier"]),
        (&serde_json::Value::Null, &"fast".into())
    );
    assert_eq!(json["compactions"][1]["kind"], "self-major");
    let offline = super::tests::inspection(3, 1, None);
    let report = Report { inspection: &offline, ..report };
    assert!(report.written(Format::Text).contains("compactions: not known: the database"));
    let json: serde_json::Value = serde_json::from_str(&report.written(Format::Json)).unwrap();
    assert!(json["compactions"].is_null() && json["as_of_unix_s"].is_null());
    // A closed folder, in which the engine recorded its temperatures and compactions.
    let as_of = Some(Duration::from_secs(1_700_000_000));
    let closed = Inspection { as_of, ..super::tests::inspection(3, 1, Some(0)) };
    let report = Report { inspection: &closed, ..report };
    for told in [report.written(Format::Text), report.written(Format::Html)] {
        assert!(
            told.contains("temperatures and compactions as of 2023-11-14 22:13:20 UTC"),
            "{told}"
        );
        assert!(told.contains("none since the database was opened last"), "{told}");
    }
    let json: serde_json::Value = serde_json::from_str(&report.written(Format::Json)).unwrap();
    assert_eq!(json["as_of_unix_s"], 1_700_000_000.0);
}

/// Each format shows the memory engine, open and closed.
#[test]
fn the_memory_engine_is_told_of() {
    let (nothing, open) = (Inspection::default(), memory(4));
    let report =
        Report { inspection: &nothing, memory: Some(&open), names: &Numbered, title: "./data" };
    let text = report.written(Format::Text);
    for part in [
        "memory engine: 1 table with 1,234 keys; in memory 3.0 MiB of versions, 128.0 KiB of indexes",
        "4,321 rows have left memory since the opening, 17 rows were read from the log; 1 commit is not",
        "commits up to 800 (stable: 801) keep only the newest version of each row; 6 rows wait with 512 B",
        "checkpoint 8: commit 770, 5 files with 31.0 KiB in all, names 4 segments, written 12.0 s ago",
        "kept segments: 4, 4.0 MiB in all, 1.5 MiB alive (38 %)",
        "segments with rows in the redo log: 1, 0 B alive",
        "1,234          900          100    2.0 MiB   64.0 KiB    8.0 KiB  (key space 11)",
        "1,000            3            5          1   30.0 KiB  (key space 11)",
        "compacted           71    1.0 MiB  256.0 KiB    25 %  kept",
        "99  not known        0 B          in the redo log",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    let json: serde_json::Value = serde_json::from_str(&report.written(Format::Json)).unwrap();
    let engine = &json["memory_engine"];
    assert_eq!(engine["tables"][0]["memory"]["evicted_rows"], 100);
    assert_eq!(engine["tables"][0]["checkpoint"]["page_files"], 3);
    assert_eq!(
        (&engine["checkpoint"]["csn"], &engine["checkpoint"]["age_s"]),
        (&770.into(), &12.0.into())
    );
    assert_eq!(engine["figures"]["watermark_csn"], 800);
    assert_eq!(
        (&engine["segments"][2]["lane"], &engine["segments"][2]["live_bytes"]),
        (&3.into(), &(1 << 19).into())
    );
    assert_eq!(engine["segments"][4]["home"], "log");
    let page = report.written(Format::Html);
    assert_eq!(elements(&page, &["svg", "rect", "table"]), [1, 8, 1]);
    assert!(
        page.contains("segment 72 of lane 3\n1.0 MiB, of them 512.0 KiB alive (50 %)"),
        "{page}"
    );

    let closed = closed_memory();
    let report = Report { memory: Some(&closed), names: &Nasty, ..report };
    let text = report.written(Format::Text);
    for part in [
        "1 table with 1,234 keys in the last checkpoint; the rows that only the log has",
        "names 2 segments\n",
        "kept segments: 1, 1.0 MiB in all\n",
        "1 segment is missing although the checkpoint names it",
        "damage: </title>",
        "70    1.0 MiB  not known          kept",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    assert!(!text.contains("evict") && !text.contains("collect"), "{text}");
    assert_eq!(elements(&report.written(Format::Html), &["svg", "section"]), [0, 2]);
    let json: serde_json::Value = serde_json::from_str(&report.written(Format::Json)).unwrap();
    let engine = &json["memory_engine"];
    assert!(engine["figures"].is_null() && engine["tables"][0]["memory"].is_null());
    assert_eq!(engine["damage"][0], NASTY);

    let report = Report { memory: Some(&MemoryInspection::default()), ..report };
    assert!(!report.written(Format::Text).contains("kept"));
    let in_log = MemoryInspection { segments: open.segments[4..].to_vec(), ..open.clone() };
    let report = Report { memory: Some(&in_log), ..report };
    assert!(report.written(Format::Text).contains("kept segments: none"));

    // Without the engine, the report has no section about it.
    let report = Report { memory: None, ..report };
    for format in Format::ALL {
        assert!(!report.written(format).to_lowercase().contains("memory engine"));
    }
}

/// For any number of segments, the text lists some, the picture stays small, and JSON has all.
#[test]
fn very_many_segments_are_drawn_together() {
    let inspection = Inspection::default();
    let told = |segments: u64| {
        let memory = memory(segments);
        let report =
            Report { inspection: &inspection, memory: Some(&memory), names: &Nasty, title: "t" };
        let json: serde_json::Value = serde_json::from_str(&report.written(Format::Json)).unwrap();
        let listed = json["memory_engine"]["segments"].as_array().unwrap().len() as u64;
        assert_eq!(listed, segments + 1);
        let (text, page) = (report.written(Format::Text), report.written(Format::Html));
        assert!(elements(&page, &["rect"])[0] <= 400);
        (text.len(), page.len(), text)
    };
    let (many, very_many) = (told(1000), told(50_000));
    assert!(very_many.0 < many.0 + 100 && very_many.1 < 2 * many.1);
    assert!(very_many.2.contains("and 49,981 more segments"), "{}", very_many.2);
}

/// One table of either engine can be shown alone, without the figures of the whole engine.
#[test]
fn one_table_is_kept_of_either_engine() {
    let kept = |wanted: &str| {
        let (mut tiered, mut memory) = (inspection(3, 1, Some(2)), memory(4));
        let kept = keep_only(&mut tiered, &mut memory, &Numbered, wanted);
        kept.map(|()| (tiered.tables.len(), memory))
    };
    let (tiered, memory) = kept("(key space 11)").unwrap();
    assert_eq!((tiered, memory.tables.len(), memory.segments.len()), (0, 1, 0));
    assert!(memory.figures.is_none() && memory.checkpoint.is_some());
    let (tiered, memory) = kept("(key space 9)").unwrap();
    assert!(tiered == 1 && memory.is_empty());
    let told = kept("c.t").unwrap_err();
    assert!(told.contains("Tables found: (key space 9); (key space 11)"), "{told}");
}

/// With any codings of a level, the columns after them are below their headings.
#[test]
fn columns_stand_beneath_their_headings() {
    for coded_bytes in [[9, 0, 0, 0], [0, 0, 0, 9], [1, 2, 30, 40]] {
        let mut inspection = inspection(30, 3, None);
        for level in inspection.tables[0].subtables.iter_mut().flat_map(|part| &mut part.levels) {
            level.coded_bytes = coded_bytes;
            level.class_bytes[DeviceClass::Hdd as usize] = 1;
        }
        let text = Report { inspection: &inspection, memory: None, names: &Numbered, title: "t" }
            .written(Format::Text);
        let heading = text.lines().find(|line| line.ends_with("tiers")).unwrap();
        let (coding, tiers) = (heading.find("coding").unwrap(), heading.find("tiers").unwrap());
        let levels: Vec<_> =
            text.lines().filter(|line| line.trim_start().starts_with("Level")).collect();
        assert_eq!(levels.len(), 9);
        for level in levels {
            assert_eq!(&level[tiers - 2..], "  hdd", "{text}");
            assert_eq!(&level[coding - 2..coding], "  ", "{text}");
            assert!(!level[coding..tiers].starts_with(' '), "{text}");
        }
    }
}

#[test]
fn figures_are_written_as_people_write_them() {
    use words::{bytes, count, percent, time};
    assert_eq!(
        [0, 1023, 1024, 2 << 20, 1 << 40].map(bytes),
        ["0 B", "1023 B", "1.0 KiB", "2.0 MiB", "1.0 TiB"]
    );
    assert_eq!([0, 999, 1000, 1234567].map(count), ["0", "999", "1,000", "1,234,567"]);
    assert_eq!(percent(0.256), "26 %");
    let times = [0.0004, 0.0024, 0.25, 61.0, 300.0].map(|s| time(Duration::from_secs_f64(s)));
    assert_eq!(times, ["0.40 ms", "2.4 ms", "250 ms", "61.0 s", "5 min"]);
    assert_eq!(
        words::parts([("zstd", 3), ("none", 1), ("lz4", 0)].into_iter()),
        "zstd 75 %, none 25 %"
    );
    assert_eq!(readable(b"seat 7"), "\"seat 7\"");
    assert_eq!(readable(&[0, 255]), "0x00ff");
}

#[test]
fn times_are_told_by_the_calendar() {
    let told = |seconds| utc(Duration::from_secs(seconds));
    assert_eq!(told(0), "1970-01-01 00:00:00 UTC");
    assert_eq!(told(951_782_400), "2000-02-29 00:00:00 UTC");
    assert_eq!(told(1_735_689_599), "2024-12-31 23:59:59 UTC");
    assert_eq!(told(4_107_542_400), "2100-03-01 00:00:00 UTC");
}
