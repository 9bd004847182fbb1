//! The command line of a run, and the run.

use std::fmt::Write as _;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::{Args, ValueEnum};
use rustix::fs::{Advice, fadvise};
use spillway_base::clock::Clock;
use spillway_base::rng::Rng;
use spillway_base::thread;

use crate::connections::{Client, ConnectionsResults, Figures, TurnsArgs};
use crate::machine;
use crate::measure::{files_below, progress};
use crate::report::{Figure, Report, Row};

/// How often the data files are dropped from the page cache.
const DROP_EVERY: Duration = Duration::from_millis(100);

/// The figures of the report.
const FIGURES: Figures = Figures {
    rate: "reads/s",
    quantiles: &[("p50 ms", 0.5), ("p99 ms", 0.99)],
    ms_decimals: 3,
    us_decimals: 1,
};

/// What a statement reads.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadKind {
    /// One random row.
    Row,
    /// Several rows, by a list of their primary keys.
    List,
    /// Several rows, by a range of an index whose order is unrelated to theirs.
    Range,
}

/// Random rows that are only on a device, with one statement in flight on each connection.
#[derive(Args, Clone, Debug)]
pub struct ColdArgs {
    /// Folders of the servers' data files, whose pages are dropped from the page cache all the time
    #[arg(long, value_name = "FOLDER")]
    pub folder: Vec<PathBuf>,
    /// Connections
    #[arg(long, value_delimiter = ',', default_values_t = [1, 16, 64])]
    pub connections: Vec<usize>,
    /// Rows
    #[arg(long, default_value_t = 2_000_000)]
    pub rows: u64,
    /// What a statement reads; lists and ranges use the same table, single rows one without an
    /// index
    #[arg(long, value_enum, default_value_t = ReadKind::Row)]
    pub kind: ReadKind,
    /// Rows of a list, or of a range on average
    #[arg(long, default_value_t = 50)]
    pub many: u64,
    /// Bytes of a row's value, which hardly compresses
    #[arg(long, default_value_t = 400)]
    pub value_bytes: usize,
    /// Use the rows of an earlier run
    #[arg(long)]
    pub loaded: bool,
    /// Which servers take turns, and how long each turn is.
    #[command(flatten)]
    pub turns: TurnsArgs,
}

impl ColdArgs {
    /// Runs the reads on each server and prints the report.
    ///
    /// # Errors
    /// Invalid arguments, or the first failure of a run, as text.
    pub fn run(&self) -> Result<(), String> {
        if self.rows == 0 {
            return Err("a run needs a row".to_owned());
        }
        // Checked before anything is created.
        self.turns.time()?;
        for (name, socket) in self.turns.servers.iter().filter(|_| !self.loaded) {
            let loaded = Client::connect(socket).and_then(|mut client| self.load(&mut client));
            loaded.map_err(|error| format!("{name}: {error}"))?;
        }
        let mut report = self.empty();
        let files = data_files(&self.folder)?;
        let ended = Arc::new(AtomicBool::new(false));
        let ends = ended.clone();
        let dropping = thread::spawn("drop-cached", move || {
            while !ends.load(Ordering::Relaxed) {
                drop_cached(&files);
                Clock::system().sleep(DROP_EVERY);
            }
        });
        let dropping = dropping.map_err(|error| error.to_string())?;
        let statement = |_, id| statement(self.kind, id, self.many, self.rows);
        let cell = |server: &(String, PathBuf), connections, seed| {
            self.turns.measure(server, connections, seed, self.rows, &statement)
        };
        let cells = self.turns.run(&self.connections, cell, |(name, _), connections, measured| {
            report.add(row(name, connections, measured));
        });
        ended.store(true, Ordering::Relaxed);
        dropping.join().map_err(|_| "what drops cached pages has panicked")?;
        cells?;
        self.turns.output.give(&report)
    }

    fn load(&self, client: &mut Client) -> Result<(), String> {
        let bar = progress(self.rows);
        let mut rng = Rng::new(self.turns.seed);
        let bytes = self.value_bytes;
        let more = if self.kind == ReadKind::Row { "" } else { ", k INT NOT NULL, KEY k_1 (k)" };
        let columns =
            format!("id INT PRIMARY KEY, v VARCHAR({bytes}) CHARACTER SET utf8mb4 NOT NULL{more}");
        let row = |out: &mut String, id| {
            _ = write!(out, "{id},'{}'", value(&mut rng, bytes));
            if self.kind != ReadKind::Row {
                _ = write!(out, ",{}", rng.below(self.rows));
            }
        };
        client.make_table(("cold", &columns), self.rows, row, |more| bar.inc(more))?;
        client.run("FLUSH TABLES")?;
        bar.finish_and_clear();
        Ok(())
    }

    fn empty(&self) -> Report {
        let mut figures = FIGURES.columns();
        figures.push(Figure { name: "device KiB", decimals: 1 });
        let mut report = Report::new(&["connections"], &figures);
        report.set("machine", machine::describe(Path::new(".")));
        report.set("load average", machine::load_average());
        let extent = self.turns.extent();
        report.set(
            "run",
            format!(
                "one SELECT of {} of {} rows of {} bytes in flight on each connection, {extent} a \
                 cell, {} rounds in turn, seed {}; the page cache of the data files dropped every \
                 {} ms; processor time for each, and what the device read for it",
                match self.kind {
                    ReadKind::Row => "one".to_owned(),
                    ReadKind::List => format!("a list of {}", self.many),
                    ReadKind::Range => format!("a range of an index, of about {},", self.many),
                },
                self.rows,
                self.value_bytes,
                self.turns.rounds,
                self.turns.seed,
                DROP_EVERY.as_millis()
            ),
        );
        report
    }
}

/// The statement for a row, or for several: the list or the index range begins with that row's
/// number.
pub(super) fn statement(kind: ReadKind, id: u64, many: u64, rows: u64) -> String {
    match kind {
        ReadKind::Row => format!("SELECT v FROM bench.cold WHERE id = {id}"),
        ReadKind::List => {
            let mut rng = Rng::new(id);
            let mut list = id.to_string();
            (1..many).for_each(|_| _ = write!(list, ",{}", rng.below(rows)));
            format!("SELECT v FROM bench.cold WHERE id IN ({list})")
        }
        ReadKind::Range => {
            let to = id + many.saturating_sub(1);
            format!("SELECT v FROM bench.cold WHERE k BETWEEN {id} AND {to}")
        }
    }
}

/// Characters that do not predict each other.
pub(super) fn value(rng: &mut Rng, bytes: usize) -> String {
    const CHARACTERS: &[u8; 64] =
        b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_";
    (0..bytes).map(|_| char::from(CHARACTERS[rng.below(64) as usize])).collect()
}

/// The data files in folders and their subfolders.
pub(super) fn data_files(folders: &[PathBuf]) -> Result<Vec<File>, String> {
    let mut files = Vec::new();
    for folder in folders {
        for path in files_below(folder)? {
            if path.extension().is_some_and(|extension| extension == "data") {
                let failed = |error| format!("{}: {error}", path.display());
                files.push(File::open(&path).map_err(failed)?);
            }
        }
    }
    Ok(files)
}

fn drop_cached(files: &[File]) {
    // If the system keeps them, the report's device reads show it.
    for file in files {
        let _ = fadvise(file, 0, None, Advice::DontNeed);
    }
}

fn row(name: &str, connections: usize, measured: &ConnectionsResults) -> Row {
    let reads = measured.latency_ns.len().max(1) as f64;
    let mut figures = FIGURES.of(measured);
    figures.push(measured.read_bytes as f64 / 1024.0 / reads);
    Row { case: vec![connections.to_string()], subject: name.to_owned(), figures }
}
