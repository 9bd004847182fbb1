//! `spillway inspect`: what a folder has in it.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use spillway::{ClosedFolder, ErrorKind, Table};
use spillway_inspect::{Names, Numbered, Report};
use spillway_sql::Labels;

#[derive(Args)]
#[command(
    after_help = "It reads what the folder's records say of its tables, sub-tables, levels and extents, and changes nothing. What is in the log \
                        alone is in no level yet. In the picture keys go from left to right and levels from top to bottom; hover over \
                        a box to see what it is.

A folder that a server has open tells nothing from outside. Ask the server:
  mariadb -e 'SHOW ENGINE TIERED STATUS\\G'
  mariadb -e 'SELECT * FROM information_schema.TIERED_LEVELS'                   and TIERED_SLICES, TIERED_COMPACTIONS
  mariadb -N -r -e 'SELECT PICTURE FROM information_schema.TIERED_PICTURE' > picture.html

Examples:
  spillway inspect ./data                                      a table of levels for each table
  spillway inspect ./data --table shop.orders                  one table and its indexes
  spillway inspect ./data --format html --output data.html     a picture, for a browser
  spillway inspect ./data --format json | jq '.tables[].levels'"
)]
pub(crate) struct InspectArgs {
    /// The data folder, which no server has open
    data: PathBuf,
    /// How it is told
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Only this table, as DATABASE.TABLE, with its indexes [default: all]
    #[arg(long, value_name = "NAME")]
    table: Option<String>,
    /// Where it is written to [default: the standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Tables of figures
    Text,
    /// Everything, single slices too, for programs
    Json,
    /// A picture, as a page that needs nothing from elsewhere
    Html,
}

pub(crate) fn run(args: &InspectArgs) -> Result<(), String> {
    let folder = ClosedFolder::open(&args.data).map_err(|error| match error.kind() {
        ErrorKind::InUse => format!(
            "{error}\nAsk the server that has it open: spillway inspect --help tells the statements."
        ),
        _ => error.to_string(),
    })?;
    let mut inspection = folder.inspect();
    let names = names_of(&folder);
    if let Some(wanted) = &args.table {
        let index_of = format!("{wanted}, index ");
        let is_wanted = |table: Table| {
            let name = names.table(table);
            name == *wanted || name.starts_with(&index_of)
        };
        let all: Vec<String> =
            inspection.tables.iter().map(|table| names.table(table.space.table)).collect();
        inspection.tables.retain(|table| is_wanted(table.space.table));
        if inspection.tables.is_empty() {
            let there = if all.is_empty() { "none".to_owned() } else { all.join("; ") };
            return Err(format!(
                "nothing of a table {wanted} is in data files. There are: {there}"
            ));
        }
    }
    let title = args.data.display().to_string();
    let report = Report { inspection: &inspection, names: &*names, title: &title };
    let told = match args.format {
        Format::Text => report.text(),
        Format::Json => report.json() + "\n",
        Format::Html => report.html(),
    };
    match &args.output {
        None => match std::io::stdout().write_all(told.as_bytes()) {
            // Who listens has heard enough.
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.to_string()),
            _ => Ok(()),
        },
        Some(path) => write(path, &told),
    }
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

/// What tables are called, as far as the folder tells.
fn names_of(folder: &ClosedFolder) -> Box<dyn Names> {
    let read = || -> Result<Labels, String> {
        let names = folder.names().map_err(|error| error.to_string())?;
        let rows = match names.get(Labels::CATALOG) {
            Some(catalog) => folder.rows(*catalog).map_err(|error| error.to_string())?,
            None => Default::default(),
        };
        Labels::of_rows(&rows, &names).map_err(|error| error.to_string())
    };
    match read() {
        Ok(labels) => Box::new(labels),
        Err(error) => {
            eprintln!("spillway: tables have numbers, for their names cannot be read: {error}");
            Box::new(Numbered)
        }
    }
}
