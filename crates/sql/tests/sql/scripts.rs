//! Runs SQL scripts and compares the results. Each file `scripts/*.sql` holds statements. The lines
//! after a statement, each behind `-- `, are its expected result. With `SPILLWAY_REWRITE=1`, the
//! test writes the actual results into the files.

use std::path::PathBuf;

use crate::common::engines::{Placement, next_engine};
use spillway::{Database, Settings};
use spillway_sql::{Instance, Outcome, ResultColumn, ResultSink, SqlError};
use spillway_types::ValueRef;
use spillway_types::value::write_text;

#[derive(Default)]
struct Lines(Vec<String>);

impl ResultSink for Lines {
    fn columns(&mut self, columns: &[ResultColumn]) -> Result<(), SqlError> {
        let names: Vec<&str> = columns.iter().map(|column| &*column.name).collect();
        self.0.push(format!("[{}]", names.join(", ")));
        Ok(())
    }

    fn row(&mut self, values: &[ValueRef<'_>]) -> Result<(), SqlError> {
        let cells = values.iter().map(|value| {
            let mut out = Vec::new();
            write_text(value, &mut out);
            if value.is_null() {
                "NULL".to_owned()
            } else {
                String::from_utf8_lossy(&out).replace('\n', "\\n")
            }
        });
        self.0.push(cells.collect::<Vec<_>>().join(" | "));
        Ok(())
    }

    fn end_rows(&mut self, _: &Outcome) -> Result<(), SqlError> {
        Ok(())
    }

    fn ok(&mut self, outcome: &Outcome) -> Result<(), SqlError> {
        let id = if outcome.last_insert_id > 0 {
            format!(", id {}", outcome.last_insert_id)
        } else {
            String::new()
        };
        let warnings = if outcome.warnings > 0 {
            format!(", {} warnings", outcome.warnings)
        } else {
            String::new()
        };
        self.0.push(format!("ok, {} rows{id}{warnings}", outcome.affected_rows));
        Ok(())
    }
}

/// The script for engines, which selects the engines of its tables.
const ENGINES: &str = "engines.sql";

fn scripts() -> Vec<PathBuf> {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sql/scripts");
    let mut paths: Vec<_> =
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty());
    paths
}

/// A script's text with the results of its statements.
fn played(text: &str, placement: Placement) -> String {
    let instance = Instance::open(Database::open_in_memory(Settings::default()).unwrap()).unwrap();
    if let Placement::In(engine) = placement {
        instance.set_global("default_storage_engine", engine);
    }
    let mut session = instance.session("root", "localhost", 1);
    session.use_database("test").unwrap();
    let (mut out, mut statement) = (String::new(), String::new());
    for line in text.lines().filter(|line| !line.starts_with("-- ")) {
        out += &format!("{line}\n");
        if line.starts_with('#') {
            continue;
        }
        statement += &format!("{line}\n");
        if line.trim_end().ends_with(';') {
            if placement == Placement::Mixed && statement.starts_with("CREATE TABLE") {
                let set = format!("SET default_storage_engine = {}", next_engine());
                session.query(&set, &mut Lines::default()).unwrap();
            }
            let mut lines = Lines::default();
            if let Err(error) = session.query(&statement, &mut lines) {
                lines.0.push(error.to_string());
            }
            lines.0.iter().for_each(|line| out += &format!("-- {line}\n"));
            statement.clear();
        }
    }
    out
}

#[test]
fn scripts_answer_what_they_say() {
    for path in scripts() {
        let text = std::fs::read_to_string(&path).unwrap();
        let out = played(&text, Placement::Default);
        if std::env::var_os("SPILLWAY_REWRITE").is_some() {
            std::fs::write(&path, out).unwrap();
        } else {
            assert!(out == text, "{} answers otherwise:\n{out}", path.display());
        }
    }
}

/// Plays the scripts with their tables in another engine. Only the name of the engine may differ.
fn play_elsewhere(placement: Placement) {
    for path in scripts().into_iter().filter(|path| !path.ends_with(ENGINES)) {
        let text = std::fs::read_to_string(&path).unwrap();
        let out = played(&text, placement).replace("MEMORY_OPTIMIZED", "TIERED");
        let differs = text.lines().zip(out.lines()).position(|(text, out)| text != out);
        let at = differs.unwrap_or_else(|| text.lines().count());
        let near = out.lines().skip(at.saturating_sub(3)).take(5).collect::<Vec<_>>().join("\n");
        assert!(out == text, "{}:{} answers otherwise:\n{near}", path.display(), at + 1);
    }
}

#[test]
fn scripts_answer_the_same_in_memory() {
    play_elsewhere(Placement::In("MEMORY_OPTIMIZED"));
}

#[test]
fn scripts_answer_the_same_over_both_engines() {
    play_elsewhere(Placement::Mixed);
}
