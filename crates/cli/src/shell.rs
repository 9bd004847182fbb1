//! `spillway sql`: runs SQL on a folder without a server.

use std::io::{BufRead, IsTerminal, Write};
use std::path::PathBuf;

use clap::Args;
use spillway::{Database, Settings};
use spillway_sql::{Instance, Outcome, ResultColumn, ResultSink, Session, SqlError, printable};
use spillway_types::ValueRef;
use spillway_types::value::write_text;

#[derive(Args)]
#[command(
    after_help = "Statements end with a semicolon at the end of a line. Results are tables on a terminal and tab-separated \
                        lines elsewhere. The first error ends a script and the command.

Examples:
  spillway sql --data ./data                              type statements; exit leaves
  spillway sql --data ./data -e 'SHOW TABLES'
  spillway sql --data ./data --database shop < dump.sql"
)]
pub(crate) struct SqlArgs {
    /// The data folder, which is created if it does not exist
    #[arg(long, default_value = "data")]
    data: PathBuf,
    /// The log's folder, if it is not in the data folder
    #[arg(long, value_name = "FOLDER")]
    log_dir: Option<PathBuf>,
    /// Run these statements and stop; without this option, read statements from standard input
    #[arg(short, long)]
    execute: Option<String>,
    /// The database to begin in
    #[arg(long, default_value = "test")]
    database: String,
}

/// Prints results: as tables on a terminal, tab-separated elsewhere.
struct Printer {
    table: bool,
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Printer {
    /// A name or a value as it is printed. For a terminal, control characters are escaped.
    fn shown(&self, text: &str) -> String {
        if self.table { printable(text).into_owned() } else { text.to_owned() }
    }
}

impl ResultSink for Printer {
    fn columns(&mut self, columns: &[ResultColumn]) -> Result<(), SqlError> {
        self.columns = columns.iter().map(|column| self.shown(&column.name)).collect();
        self.rows.clear();
        Ok(())
    }

    fn row(&mut self, values: &[ValueRef<'_>]) -> Result<(), SqlError> {
        let cells = values.iter().map(|value| {
            if value.is_null() {
                return "NULL".to_owned();
            }
            let mut text = Vec::new();
            write_text(value, &mut text);
            self.shown(&String::from_utf8_lossy(&text))
        });
        let cells = cells.collect();
        self.rows.push(cells);
        Ok(())
    }

    fn end_rows(&mut self, _outcome: &Outcome) -> Result<(), SqlError> {
        let print = || -> std::io::Result<()> {
            let mut out = std::io::stdout().lock();
            if !self.table {
                writeln!(out, "{}", self.columns.join("\t"))?;
                return self.rows.iter().try_for_each(|row| writeln!(out, "{}", row.join("\t")));
            }
            let width = |at: usize| {
                let cells = self.rows.iter().map(|row| row[at].chars().count());
                cells.chain([self.columns[at].chars().count()]).max().unwrap_or(0)
            };
            let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
            let line: String =
                widths.iter().map(|width| format!("+{}", "-".repeat(width + 2))).collect();
            let show = |row: &[String]| -> String {
                row.iter()
                    .zip(&widths)
                    .map(|(cell, width)| format!("| {cell:width$} ", width = *width))
                    .collect()
            };
            writeln!(out, "{line}+\n{}|\n{line}+", show(&self.columns))?;
            for row in &self.rows {
                writeln!(out, "{}|", show(row))?;
            }
            writeln!(out, "{line}+\n{} rows", self.rows.len())
        };
        print().map_err(|error| SqlError::new(1026, error.to_string()))
    }

    fn ok(&mut self, outcome: &Outcome) -> Result<(), SqlError> {
        if self.table {
            println!("OK, {} rows affected", outcome.affected_rows);
        }
        Ok(())
    }
}

pub(crate) fn run(args: &SqlArgs) -> Result<(), String> {
    let mut settings = Settings::default();
    settings.log_dir.clone_from(&args.log_dir);
    let db = Database::open(&args.data, settings).map_err(|error| error.to_string())?;
    let instance = Instance::open(db.clone()).map_err(|error| error.to_string())?;
    let mut session = instance.session_of_owner(1);
    // The initial database may have been dropped.
    let _ = session.use_database(&args.database);
    let table = std::io::stdout().is_terminal();
    let outcome = match &args.execute {
        Some(sql) => run_one(&mut session, sql, table),
        None => read_loop(&mut session, table),
    };
    drop(session);
    instance.close();
    db.close().map_err(|error| error.to_string())?;
    outcome
}

fn run_one(session: &mut Session, sql: &str, table: bool) -> Result<(), String> {
    let mut printer = Printer { table, columns: Vec::new(), rows: Vec::new() };
    session.query(sql, &mut printer).map_err(|error| error.to_string())
}

/// Reads statements up to a semicolon at the end of a line. After an error an interactive session
/// continues, and a script stops.
fn read_loop(session: &mut Session, table: bool) -> Result<(), String> {
    let people = std::io::stdin().is_terminal();
    let mut statement = String::new();
    let prompt = |statement: &str| {
        if people {
            print!("{}", if statement.is_empty() { "spillway> " } else { "       -> " });
            let _ = std::io::stdout().flush();
        }
    };
    prompt(&statement);
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|error| error.to_string())?;
        if statement.is_empty()
            && ["exit", "quit", "\\q"].contains(&line.trim().trim_end_matches(';'))
        {
            break;
        }
        statement.push_str(&line);
        statement.push('\n');
        if line.trim_end().ends_with(';') {
            match run_one(session, &statement, table) {
                Err(error) if people => eprintln!("{error}"),
                Err(error) => return Err(error),
                Ok(()) => {}
            }
            statement.clear();
        }
        prompt(&statement);
    }
    if statement.trim().is_empty() { Ok(()) } else { run_one(session, &statement, table) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A terminal gets no control characters from names and values; other readers get values as
    /// they are.
    #[test]
    fn a_terminal_gets_no_control_characters() {
        let printer = |table| Printer { table, columns: Vec::new(), rows: Vec::new() };
        let wild = "a\u{1b}[2J\0\n\u{9b}\u{7f}";
        let shown = printer(true).shown(wild);
        assert!(!shown.contains(char::is_control), "{shown:?}");
        assert!(shown.starts_with("a\\x1B[2J"), "{shown}");
        assert_eq!(printer(false).shown(wild), wild);
        let mut printer = printer(true);
        printer.row(&[ValueRef::Text(wild), ValueRef::Bytes(wild.as_bytes())]).unwrap();
        assert!(printer.rows[0].iter().all(|cell| !cell.contains(char::is_control)));
    }
}
