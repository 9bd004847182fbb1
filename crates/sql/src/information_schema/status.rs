//! SHOW ENGINE STATUS: a page for finding the cause of a problem.
//!
//! The page of the tiered engine begins with a summary: how far the engine's background work is
//! behind, and which waits occur. After the summary come the tables, the counters of the commit
//! pipeline, all other counters except those of the memory engine, and the space of the tables. The
//! page of the memory engine has its tables, the readers for which the engine keeps old versions,
//! and its counters.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

use spillway::{ClassSpace, EngineKind, LiveSnapshot, Metric, TableSpace, TableStatus};
use spillway_base::TableId;

use super::labels::Labels;
use super::tiered::Readable;
use crate::catalog::{Catalog, UserDef};
use crate::expression::Server;
use crate::process::ProcessLine;

/// The most readers that the memory engine's page shows.
const READERS: usize = 10;

/// The prefix of the names of the memory engine's metrics.
const MEMORY_ENGINE: &str = "memory_engine_";

/// Metrics by the prefix of their names, in the order of the page.
const SECTIONS: [(&str, &[&str]); 3] = [
    ("COMMIT PIPELINE", &["log_", "commit", "stable_"]),
    ("FLUSHES AND COMPACTIONS", &["tiered_"]),
    ("OTHER FIGURES", &[""]),
];

/// The waits: their names on the page, and the names of their metrics.
const STALLS: [(&str, &str); 10] = [
    ("throttle, slight: flushes are behind", "throttle_slight_flush"),
    ("throttle, slight: Level0 is deep", "throttle_slight_level0"),
    ("throttle, slight: compactions are behind", "throttle_slight_compaction"),
    ("throttle, aggressive: flushes are behind", "throttle_aggressive_flush"),
    ("throttle, aggressive: Level0 is deep", "throttle_aggressive_level0"),
    ("throttle, aggressive: compactions are behind", "throttle_aggressive_compaction"),
    ("memtable memory", "stall_memory"),
    ("room in the log", "stall_log"),
    ("row locks", "stall_lock"),
    ("commits", "stall_commit"),
];

/// The tiered engine's page for a user who sees this part of the catalog. Messages about damage
/// contain keys, so the page hides those of tables whose keys the user may not see (SIGHT-1).
pub(super) fn tiered_status(
    server: &dyn Server,
    catalog: &Catalog,
    user: Option<&UserDef>,
) -> String {
    let db = server.database();
    let (names, labels) = (names(catalog), Labels::of(catalog));
    let readable = Readable::new(user, &labels);
    let mut tables = db.status();
    for table in tables.iter_mut().filter(|table| !readable.is(Some(table.table))) {
        let hidden = || "details need the SELECT privilege".to_owned();
        table.quarantine = table.quarantine.take().map(|_| hidden());
        table.refused_merge = table.refused_merge.take().map(|_| hidden());
    }
    let mut metrics = db.metrics();
    metrics.retain(|metric| !metric.name.starts_with(MEMORY_ENGINE));
    page(&metrics, &tables, &names) + &space_page(&db.space(), &names)
}

/// The memory engine's page. It is for users with the PROCESS privilege only, because it names
/// sessions of other users.
pub(super) fn memory_status(server: &dyn Server, catalog: &Catalog) -> String {
    let db = server.database();
    let mut out = String::new();
    line(&mut out, format_args!("TABLES\n{:<40}{:>12}{:>12}", "", "rows", "memory MB"));
    let in_memory = |space: &u32| TableId(*space).engine() == Some(EngineKind::Memory);
    let named = names(catalog).into_iter().filter(|(space, _)| in_memory(space));
    let named: BTreeMap<String, u32> = named.map(|(space, name)| (name, space)).collect();
    for (name, space) in named {
        let size = db.size(TableId(space));
        let memory = size.used_bytes as f64 / 1e6;
        line(&mut out, format_args!("{name:<40}{:>12}{memory:>12.1}", size.rows));
    }
    let metrics = db.metrics();
    readers_page(&mut out, &db.readers(), &server.process_lines(), &metrics);
    line(&mut out, format_args!("\nFIGURES"));
    for metric in metrics.iter().filter(|metric| metric.name.starts_with(MEMORY_ENGINE)) {
        metric_line(&mut out, metric);
    }
    out
}

/// The oldest snapshots with their sessions, and how much data is kept until each of them ends.
fn readers_page(
    out: &mut String,
    readers: &[LiveSnapshot],
    sessions: &[ProcessLine],
    metrics: &[Metric],
) {
    line(out, format_args!("\nREADERS"));
    let waiting = figure(metrics, "memory_engine_uncollected_bytes") / 1e6;
    let rows = figure(metrics, "memory_engine_uncollected_rows");
    let stable = figure(metrics, "stable_csn") as u64;
    line(out, format_args!("versions that wait to be collected: {waiting:.1} MB of {rows} rows"));
    if readers.is_empty() {
        return line(out, format_args!("no transaction has a snapshot"));
    }
    line(
        out,
        format_args!(
            "{:>12}{:>14}{:>14}{:>16}{:>10}  of",
            "connection", "transaction", "snapshot", "commits behind", "seconds"
        ),
    );
    for reader in readers.iter().take(READERS) {
        let session = sessions.iter().find(|session| session.transaction == reader.transaction);
        let connection = session.map_or_else(|| "-".to_owned(), |session| session.id.to_string());
        let of = match session {
            Some(session) if session.statement.is_some() => {
                format!("{}@{}, running", session.user, session.host)
            }
            Some(session) => format!("{}@{}, idle", session.user, session.host),
            None => "the server's own, for example an index build".to_owned(),
        };
        let behind = stable.saturating_sub(reader.csn.0);
        let seconds = reader.age.as_secs_f64();
        line(
            out,
            format_args!(
                "{connection:>12}{:>14}{:>14}{behind:>16}{seconds:>10.1}  {of}",
                reader.transaction, reader.csn.0
            ),
        );
    }
    if let Some(more) = readers.len().checked_sub(READERS).filter(|more| *more > 0) {
        line(out, format_args!("and {more} newer ones"));
    }
}

fn figure(metrics: &[Metric], name: &str) -> f64 {
    metrics.iter().find(|metric| metric.name == name).map_or(0.0, |metric| metric.value)
}

fn metric_line(out: &mut String, metric: &Metric) {
    let value = (metric.value * 1e3).round() / 1e3;
    line(out, format_args!("{:<40}{value:>20}  {}", metric.name, metric.help));
}

/// The device space of tables, by tier and by level, in MB.
fn space_page(tables: &[TableSpace], names: &HashMap<u32, String>) -> String {
    let mut out = String::new();
    let head = [
        "newest MB",
        "payload MB",
        "blocks MB",
        "slots MB",
        "dead MB",
        "slack MB",
        "hot MB",
        "cold MB",
    ];
    let head: String = head.iter().map(|name| format!("{name:>12}")).collect();
    line(&mut out, format_args!("\nSPACE\n{:<40}{head}{:>9}", "", "extents"));
    let mut row = |name: &str, bytes: [Option<u64>; 8], extents: u64| {
        let cells = bytes.map(|bytes| {
            let mb = bytes.map(|bytes| format!("{:.1}", bytes as f64 / 1e6));
            format!("{:>12}", mb.unwrap_or_default())
        });
        line(&mut out, format_args!("{name:<40}{}{extents:>9}", cells.concat()));
    };
    for table in tables {
        let unnamed = || format!("(key space {})", table.table.ordinal());
        let name = names.get(&table.table.0).cloned().unwrap_or_else(unnamed);
        let whole = |on: &ClassSpace| {
            let of = [on.newest_bytes, on.payload_bytes, on.block_bytes];
            let on = [on.slot_bytes, on.dead_bytes, on.slack_bytes];
            let all = [of, on].concat();
            std::array::from_fn(|at| all.get(at).copied())
        };
        let on = table.on_devices();
        row(&name, whole(&on), on.extents);
        for (class, on) in &table.classes {
            row(&format!("    on {class}"), whole(on), on.extents);
        }
        for (number, level) in table.levels.iter().enumerate().filter(|(_, l)| l.slices > 0) {
            let of = [level.newest_bytes, level.payload_bytes, level.block_bytes];
            let on = [level.slot_bytes, level.dead_bytes, level.slack_bytes];
            let warmth = [level.hot_bytes, level.cold_bytes];
            let all = [&of[..], &on, &warmth].concat();
            let all = std::array::from_fn(|at| all.get(at).copied());
            row(&format!("    Level{number}"), all, level.extents);
        }
    }
    out
}

/// The names of the key spaces.
fn names(catalog: &Catalog) -> HashMap<u32, String> {
    let mut names = HashMap::new();
    for table in catalog.tables.values() {
        let name = format!("{}.{}", table.db, table.name);
        for index in &table.indexes {
            names.insert(index.space, format!("{name}, index {}", index.name));
        }
        names.insert(table.space, name);
    }
    names
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = writeln!(out, "{text}");
}

fn page(metrics: &[Metric], tables: &[TableStatus], names: &HashMap<u32, String>) -> String {
    let figure = |name: &str| figure(metrics, name);
    let mut out = String::new();
    let parts =
        ["flush", "level0", "compaction"].map(|part| figure(&format!("tiered_debt_{part}")));
    let debt = parts.into_iter().fold(0.0, f64::max);
    let rate = figure("throttle_bytes_per_second");
    line(&mut out, format_args!("BACKPRESSURE"));
    line(
        &mut out,
        format_args!(
            "debt {debt:.2}: flush {:.2}, Level0 {:.2}, compaction {:.2}",
            parts[0], parts[1], parts[2]
        ),
    );
    match figure("throttle_stage") as u64 {
        0 => line(&mut out, format_args!("writers are not slowed")),
        stage => {
            let stage = if stage == 1 { "slightly" } else { "aggressively" };
            line(
                &mut out,
                format_args!(
                    "writers are slowed {stage}, to {:.1} MB a second together",
                    rate / 1e6
                ),
            );
        }
    }
    line(
        &mut out,
        format_args!(
            "memory: {:.1} MB of {:.1} MB",
            figure("memory_used_bytes") / 1e6,
            figure("memory_budget_bytes") / 1e6
        ),
    );

    line(&mut out, format_args!("\nSTALLS\n{:<46}{:>12}{:>14}", "waited for", "times", "seconds"));
    for (what, name) in STALLS {
        let [count, seconds] =
            ["_total", "_seconds_total"].map(|end| figure(&format!("{name}{end}")));
        line(&mut out, format_args!("{what:<46}{count:>12}{seconds:>14.3}"));
    }

    line(
        &mut out,
        format_args!(
            "\nTABLES\n{:<40}{:>12}{:>12}{:>12}{:>12}{:>12}",
            "", "memory MB", "sub-levels", "Level0 MB", "Level1 MB", "Level2 MB"
        ),
    );
    for table in tables {
        let unnamed = || format!("(key space {})", table.table.ordinal());
        let name = names.get(&table.table.0).cloned().unwrap_or_else(unnamed);
        let [level0, level1, level2] = table.levels.map(|level| level.bytes as f64 / 1e6);
        let sublevels = format!("{}/{}", table.sublevels, table.sublevels_target);
        let memory = table.memory_bytes as f64 / 1e6;
        line(
            &mut out,
            format_args!(
                "{name:<40}{memory:>12.1}{sublevels:>12}{level0:>12.1}{level1:>12.1}{level2:>12.1}"
            ),
        );
        if let Some(damage) = &table.quarantine {
            line(&mut out, format_args!("    not compacted any more: {damage}"));
        }
        if let Some(refused) = &table.refused_merge {
            line(&mut out, format_args!("    a merge was refused; the last one: {refused}"));
        }
    }

    let shown = |metric: &&Metric| {
        let name = metric.name.trim_end_matches("_total").trim_end_matches("_seconds");
        STALLS.iter().all(|(_, stall)| *stall != name) && !name.starts_with("stall_throttle_")
    };
    let mut rest: Vec<&Metric> = metrics.iter().filter(shown).collect();
    for (title, begins) in SECTIONS {
        line(&mut out, format_args!("\n{title}"));
        let here = |metric: &&Metric| begins.iter().any(|begin| metric.name.starts_with(begin));
        for metric in rest.iter().filter(|metric| here(metric)) {
            metric_line(&mut out, metric);
        }
        rest.retain(|metric| !here(metric));
    }
    out
}

#[cfg(test)]
mod tests {
    use spillway::{DeviceClass, LevelSpace, LevelStatus};

    use super::*;

    #[test]
    fn the_space_of_a_table_is_told_by_tier_and_level() {
        let id = TableId::new(EngineKind::Tiered, 3);
        let level = LevelSpace {
            slices: 3,
            extents: 2,
            payload_bytes: 4_000_000,
            newest_bytes: 3_000_000,
            block_bytes: 2_000_000,
            slot_bytes: 4_200_000,
            dead_bytes: 1_000_000,
            slack_bytes: 100_000,
            hot_bytes: 500_000,
            cold_bytes: 1_200_000,
            ..LevelSpace::default()
        };
        let on = ClassSpace {
            extents: 2,
            payload_bytes: 4_000_000,
            newest_bytes: 3_000_000,
            block_bytes: 2_000_000,
            slot_bytes: 4_200_000,
            dead_bytes: 1_000_000,
            slack_bytes: 100_000,
        };
        let table = TableSpace {
            table: id,
            levels: [LevelSpace::default(), level, LevelSpace::default()],
            classes: vec![(DeviceClass::Ssd, on)],
        };
        let text = space_page(&[table], &HashMap::from([(id.0, "test.seats".to_owned())]));
        let words =
            |at: usize| text.lines().nth(at).unwrap().split_whitespace().collect::<Vec<_>>();
        let all = ["3.0", "4.0", "2.0", "4.2", "1.0", "0.1", "2"];
        assert_eq!(words(3), [&["test.seats"], &all[..]].concat());
        assert_eq!(words(4), [&["on", "ssd"], &all[..]].concat());
        assert_eq!(words(5), [&["Level1"], &all[..6], &["0.5", "1.2"], &all[6..]].concat());
        assert!(!text.contains("Level0"), "{text}");
    }

    fn metric(name: &'static str, value: f64) -> Metric {
        Metric { name, help: "What it is.", counter: false, value }
    }

    #[test]
    fn a_page_begins_with_who_waits_for_what_and_leaves_nothing_out() {
        let id = TableId::new(EngineKind::Tiered, 3);
        let level = LevelStatus { slices: 2, bytes: 3_000_000, versions: 10 };
        let table = TableStatus {
            table: id,
            subtables: 1,
            memory_bytes: 1_500_000,
            sublevels: 5,
            sublevels_target: 8,
            levels: [level; 3],
            quarantine: Some("block 7 is damaged".to_owned()),
            refused_merge: Some("keys from \"a\" to \"b\": they differ".to_owned()),
        };
        let metrics = [
            metric("tiered_debt_level0", 0.8125),
            metric("throttle_stage", 2.0),
            metric("throttle_bytes_per_second", 32e6),
            metric("throttle_aggressive_level0_total", 7.0),
            metric("throttle_aggressive_level0_seconds_total", 0.25),
            metric("log_flushes_total", 12.0),
            metric("something_new", 3.25),
        ];
        let text = page(&metrics, &[table], &HashMap::from([(id.0, "test.seats".to_owned())]));
        for line in [
            "debt 0.81: flush 0.00, Level0 0.81, compaction 0.00",
            "writers are slowed aggressively, to 32.0 MB a second together",
            "throttle, aggressive: Level0 is deep                     7         0.250",
            "test.seats                                       1.5         5/8         3.0         3.0         3.0",
            "    not compacted any more: block 7 is damaged",
            "    a merge was refused; the last one: keys from \"a\" to \"b\": they differ",
            "log_flushes_total                                         12  What it is.",
            "something_new                                           3.25  What it is.",
        ] {
            assert!(text.lines().any(|shown| shown == line), "{line}\n{text}");
        }
    }
}
