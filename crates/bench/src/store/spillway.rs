//! Spillway as a [`Store`].

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use spillway::{
    Database, Direction, Durability, EngineKind, KeyRange, Mechanism, Settings, Table, TableStatus,
    TransactionOptions,
};
use spillway_base::clock::Clock;
use spillway_base::engine::Metric;
use spillway_base::range::successor;
use spillway_storage::Means;

use super::{CacheHits, Done, Pair, Pressure, Store, Stores, Traffic};

/// Opens Spillway with its default settings, except those named here.
#[derive(Clone, Debug)]
pub struct SpillwayStores {
    /// The name in the report.
    pub name: String,
    /// The log's folder, if not in the store's folder.
    pub log_dir: Option<PathBuf>,
    /// Lanes of the log, if not the default number.
    pub lanes: Option<usize>,
    /// Mechanisms that are switched off.
    pub without: Vec<Mechanism>,
    /// Whether reads go past the system's page cache.
    pub direct: bool,
    /// The engine of its table.
    pub engine: EngineKind,
}

/// Parses a mechanism, and lists all of them.
pub(crate) fn mechanisms() -> impl TypedValueParser<Value = Mechanism> {
    let names = PossibleValuesParser::new(Mechanism::ALL.map(Mechanism::name));
    names.map(|name| name.parse().expect("a name of one"))
}

impl Default for SpillwayStores {
    fn default() -> SpillwayStores {
        SpillwayStores {
            name: "spillway".to_owned(),
            log_dir: None,
            lanes: None,
            without: Vec::new(),
            direct: false,
            engine: EngineKind::Tiered,
        }
    }
}

impl SpillwayStores {
    /// With this many lanes of the log, which its name states.
    #[must_use]
    pub fn with_lanes(lanes: usize) -> SpillwayStores {
        let name = format!("spillway {lanes} {}", if lanes == 1 { "lane" } else { "lanes" });
        SpillwayStores { name, lanes: Some(lanes), ..SpillwayStores::default() }
    }

    /// With its table in the memory engine, which its name states.
    #[must_use]
    pub fn in_memory_engine() -> SpillwayStores {
        let name = "spillway memory engine".to_owned();
        SpillwayStores { name, engine: EngineKind::Memory, ..SpillwayStores::default() }
    }

    /// With a mechanism switched off, which its name states.
    #[must_use]
    pub fn without(mechanism: Mechanism) -> SpillwayStores {
        SpillwayStores::without_all(&[mechanism])
    }

    /// The same with reads past the system's page cache, which its name states.
    #[must_use]
    pub fn directly(self) -> SpillwayStores {
        let name = self.name.replacen("spillway", "spillway direct", 1);
        SpillwayStores { name, direct: true, ..self }
    }

    fn without_all(mechanisms: &[Mechanism]) -> SpillwayStores {
        let names: Vec<_> = mechanisms.iter().map(|mechanism| mechanism.name()).collect();
        let name = format!("spillway without {}", names.join("+"));
        SpillwayStores { name, without: mechanisms.to_vec(), ..SpillwayStores::default() }
    }

    /// Without each of these, one at a time.
    #[must_use]
    pub fn each_without(mechanisms: &[Mechanism]) -> Vec<SpillwayStores> {
        mechanisms.iter().map(|mechanism| SpillwayStores::without(*mechanism)).collect()
    }

    /// Without the first of these, without the first two, and so on to all of them.
    #[must_use]
    pub fn one_after_another_without(mechanisms: &[Mechanism]) -> Vec<SpillwayStores> {
        (1..=mechanisms.len())
            .map(|upto| SpillwayStores::without_all(&mechanisms[..upto]))
            .collect()
    }

    /// The given stores, with these inserted after the first.
    pub(crate) fn among<'a>(
        these: &'a [SpillwayStores],
        stores: &[&'a dyn Stores],
    ) -> Vec<&'a dyn Stores> {
        let (first, others) = stores.split_at(1.min(stores.len()));
        let these = these.iter().map(|these| these as &dyn Stores);
        first.iter().copied().chain(these).chain(others.iter().copied()).collect()
    }

    /// The settings of its databases.
    #[must_use]
    pub fn database_settings(&self, memory_bytes: usize) -> Settings {
        let mut settings = Settings::default();
        settings.memory_bytes = memory_bytes;
        settings.log_dir.clone_from(&self.log_dir);
        settings.log_lanes = self.lanes;
        settings.without.extend(&self.without);
        settings.direct_reads = self.direct;
        // Peers also run without compression.
        settings.hot_compression = spillway::Compression::None;
        settings.cold_compression = spillway::Compression::None;
        settings
    }

    /// Opens the store in a folder, or creates it.
    ///
    /// # Errors
    /// The error, as text.
    pub fn open_with(&self, dir: &Path, settings: Settings) -> Result<SpillwayStore, String> {
        let open = || {
            let db = Database::open(dir, settings)?;
            let txn = db.begin(TransactionOptions::new());
            let table = if txn.table_names()?.is_empty() {
                txn.create_table(TABLE, self.engine)?
            } else {
                txn.table(TABLE)?
            };
            txn.commit().wait()?;
            Ok(SpillwayStore { db, table })
        };
        open().map_err(|error: spillway::Error| error.to_string())
    }
}

const TABLE: &str = "bench";

impl Stores for SpillwayStores {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn settings(&self) -> String {
        let settings = self.database_settings(0);
        format!("{} lanes, {} cores, no compression", settings.lanes_most(), settings.cores)
    }

    fn asynchronous(&self) -> bool {
        true
    }

    fn open(&self, dir: &Path, memory_bytes: usize) -> Result<Box<dyn Store>, String> {
        let store = self.open_with(dir, self.database_settings(memory_bytes))?;
        Ok(Box::new(store))
    }
}

/// A table of a database.
pub struct SpillwayStore {
    /// The database.
    pub db: Database,
    table: Table,
}

impl SpillwayStore {
    /// A new table of the same database, in this engine. Either store's end closes the database.
    ///
    /// # Errors
    /// The error, as text.
    pub fn another(&self, name: &str, engine: EngineKind) -> Result<SpillwayStore, String> {
        let create = || {
            let txn = self.db.begin(TransactionOptions::new());
            let table = txn.create_table(name, engine)?;
            txn.commit().wait()?;
            Ok(SpillwayStore { db: self.db.clone(), table })
        };
        create().map_err(|error: spillway::Error| error.to_string())
    }

    /// A session that does not wait for durability reads its own writes, durable or not.
    fn reads() -> TransactionOptions {
        TransactionOptions::new().read_only(true).durability(Durability::Relaxed)
    }

    fn read<T>(
        &self,
        body: impl FnOnce(&spillway::Transaction) -> spillway::Result<T>,
    ) -> Result<T, String> {
        let txn = self.db.begin(Self::reads());
        body(&txn).map_err(|error| error.to_string())
    }

    fn write(
        &self,
        durability: Durability,
        body: impl FnOnce(&spillway::Transaction) -> spillway::Result<()>,
    ) -> Result<spillway::CommitFuture, String> {
        let txn = self.db.begin(TransactionOptions::new().durability(durability));
        body(&txn).map_err(|error| error.to_string())?;
        Ok(txn.commit())
    }

    fn put(
        &self,
        rows: &[Pair<'_>],
        durability: Durability,
    ) -> Result<spillway::CommitFuture, String> {
        self.write(durability, |txn| {
            rows.iter().try_for_each(|(key, value)| txn.put(self.table, key, value))
        })
    }

    /// Whether a compaction is due.
    fn is_behind(&self) -> bool {
        let crowded = |table: &TableStatus| table.sublevels >= table.sublevels_target;
        self.db.status().iter().any(crowded) || self.sum_of(&["tiered_debt_compaction"]) > 0.0
    }

    fn sum_of(&self, names: &[&str]) -> f64 {
        metrics_sum(&self.db.metrics(), names)
    }
}

/// The sum of metrics, each of which must exist: a benchmark that finds none would report that
/// nothing happened.
pub(crate) fn metrics_sum(metrics: &[Metric], names: &[&str]) -> f64 {
    let value = |name: &&str| {
        let metric = metrics.iter().find(|metric| metric.name == *name);
        metric.unwrap_or_else(|| panic!("there is no metric {name}")).value
    };
    names.iter().map(value).sum()
}

impl Store for SpillwayStore {
    fn commit(&self, rows: &[Pair<'_>], durable: bool) -> Result<(), String> {
        let durability = if durable { Durability::Commit } else { Durability::Relaxed };
        self.put(rows, durability)?.wait().map(drop).map_err(|error| error.to_string())
    }

    fn begin(&self, rows: &[Pair<'_>], done: Done) -> Result<(), String> {
        self.put(rows, Durability::Commit)?
            .then(move |outcome| done.tell(outcome.map(drop).map_err(|error| error.to_string())));
        Ok(())
    }

    fn lead(&self) -> bool {
        self.db.lead_flush()
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, String> {
        let got = self.db.get(Self::reads(), self.table, key, value);
        got.map_err(|error| error.to_string())
    }

    fn seek(
        &self,
        key: &[u8],
        count: usize,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<usize, String> {
        self.read(|txn| {
            let mut scan = txn.scan(self.table, KeyRange::new(key, None), Direction::Forward)?;
            let mut seen = 0;
            while seen < count && scan.advance()? {
                visit(scan.key(), scan.value());
                seen += 1;
            }
            Ok(seen)
        })
    }

    fn scan(
        &self,
        from: Option<&[u8]>,
        direction: Direction,
        count: usize,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<usize, String> {
        let past = from.map(successor);
        let range = match direction {
            Direction::Forward => KeyRange::new(from.unwrap_or_default(), None),
            Direction::Backward => KeyRange::new(&[], past.as_deref()),
        };
        self.read(|txn| {
            let mut scan = txn.scan(self.table, range, direction)?;
            let mut seen = 0;
            while seen < count && scan.advance()? {
                visit(scan.key(), scan.value());
                seen += 1;
            }
            Ok(seen)
        })
    }

    fn multi_get(
        &self,
        keys: &[&[u8]],
        visit: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<(), String> {
        let values = self.read(|txn| txn.multi_get(self.table, keys))?;
        values.iter().enumerate().for_each(|(at, value)| visit(at, value.as_deref()));
        Ok(())
    }

    fn delete(&self, keys: &[&[u8]], durable: bool) -> Result<(), String> {
        let durability = if durable { Durability::Commit } else { Durability::Relaxed };
        let deleted = self
            .write(durability, |txn| keys.iter().try_for_each(|key| txn.delete(self.table, key)))?;
        deleted.wait().map(drop).map_err(|error| error.to_string())
    }

    fn settle(&self) -> Result<(), String> {
        self.db.flush().map_err(|error| error.to_string())?;
        while self.is_behind() {
            self.db.health().map_err(|error| error.to_string())?;
            Clock::system().sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    fn compact(&self) -> Result<(), String> {
        self.db.compact().map_err(|error| error.to_string())
    }

    fn traffic(&self) -> Option<Traffic> {
        let compaction_read_bytes = self.sum_of(&["tiered_compaction_read_bytes_total"]);
        // Compactions read through a ring if the system has one, and the kernel counts only calls.
        let uncounted = if Means::Ring.is_there() { compaction_read_bytes } else { 0.0 };
        Some(Traffic {
            log_bytes: self.sum_of(&["log_flushed_bytes_total"]),
            flushed_bytes: self.sum_of(&["tiered_flushed_bytes_total"]),
            compaction_written_bytes: self.sum_of(&["tiered_compaction_written_bytes_total"]),
            compaction_read_bytes,
            uncounted_read_bytes: uncounted,
        })
    }

    fn cache_hits(&self) -> Option<CacheHits> {
        Some(CacheHits {
            rows_hit: self.sum_of(&["tiered_row_cache_hits_total"]),
            blocks_hit: self.sum_of(&["tiered_block_cache_hits_total"]),
            blocks_missed: self.sum_of(&["tiered_block_cache_misses_total"]),
        })
    }

    fn pressure(&self) -> Pressure {
        Pressure {
            memory_bytes: self.db.budget().used() as u64,
            waited_s: self.sum_of(&[
                "stall_throttle_flush_seconds_total",
                "stall_throttle_level0_seconds_total",
                "stall_throttle_compaction_seconds_total",
                "stall_memory_seconds_total",
                "stall_log_seconds_total",
            ]),
            log_bytes: self.sum_of(&["log_flushed_bytes_total"]) as u64,
            syncs: self.sum_of(&["log_flushes_total"]) as u64,
            sync_s: self.sum_of(&["log_flush_seconds_total"]),
        }
    }
}

impl Drop for SpillwayStore {
    fn drop(&mut self) {
        if let Err(error) = self.db.close() {
            eprintln!("spillway: closing failed: {error}");
        }
    }
}
