//! The target of the reads: a store within the process, or a server.

use std::fmt::Write as _;
use std::path::PathBuf;

use crate::connections::Client;
use crate::measure::{key, progress};
use crate::store::Store;

/// Reads a row; created by the thread that uses it.
pub(super) type Reader<'a> = Box<dyn FnMut(u64) -> Result<(), String> + 'a>;

/// The target of the reads, already filled with rows.
pub(super) trait ReadTarget: Sync {
    /// The reader of one thread.
    fn reader(&self) -> Result<Reader<'_>, String>;

    /// The blocks or pages that it has read because they were not in memory, since it was started.
    fn missed(&self) -> Result<f64, String>;
}

/// A store within the process.
pub(super) struct Within<'a> {
    pub(super) store: &'a dyn Store,
    pub(super) value_bytes: usize,
}

impl ReadTarget for Within<'_> {
    fn reader(&self) -> Result<Reader<'_>, String> {
        let mut value = Vec::new();
        Ok(Box::new(move |row| {
            if !self.store.get(&key(row), &mut value)? || value.len() != self.value_bytes {
                return Err(format!("row {row} is missing"));
            }
            Ok(())
        }))
    }

    fn missed(&self) -> Result<f64, String> {
        let hits = self.store.cache_hits().ok_or("this store does not tell of its caches")?;
        Ok(hits.blocks_missed)
    }
}

/// A server, with the socket on which it listens.
pub(super) struct Server {
    pub(super) socket: PathBuf,
}

/// The names of that counter: Spillway, InnoDB.
const MISSED: [&str; 2] = ["Spillway_tiered_block_cache_misses_total", "Innodb_buffer_pool_reads"];

impl Server {
    /// Creates the table with this many rows, each with a number and a text of this many
    /// characters.
    pub(super) fn load(&self, rows: u64, value_bytes: usize) -> Result<(), String> {
        let mut client = Client::connect(&self.socket)?;
        let bar = progress(rows);
        let columns =
            format!("id INT PRIMARY KEY, c INT NOT NULL, v VARCHAR({value_bytes}) NOT NULL");
        let row = |out: &mut String, id| _ = write!(out, "{id},{id},'{id:0value_bytes$}'");
        client.make_table(("moving", &columns), rows, row, |more| bar.inc(more))?;
        client.run("FLUSH TABLES")?;
        bar.finish_and_clear();
        Ok(())
    }
}

impl ReadTarget for Server {
    fn reader(&self) -> Result<Reader<'_>, String> {
        let mut client = Client::connect(&self.socket)?;
        Ok(Box::new(move |row| {
            let found = client.number(&format!("SELECT c FROM bench.moving WHERE id = {row}"))?;
            if found == row { Ok(()) } else { Err(format!("row {row} has {found}")) }
        }))
    }

    fn missed(&self) -> Result<f64, String> {
        let mut client = Client::connect(&self.socket)?;
        for name in MISSED {
            if let Some(figure) = client.status(name)? {
                return figure.parse().map_err(|_| format!("{name}: {figure:?} is no number"));
            }
        }
        Err(format!("the server has none of {}", MISSED.join(", ")))
    }
}
