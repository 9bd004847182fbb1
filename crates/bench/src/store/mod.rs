//! The interface between a workload and a store, so that the same code measures Spillway and its
//! peers in the same run.

mod done;
mod load;
mod spillway;

use std::path::Path;

use serde::{Deserialize, Serialize};
use spillway_base::Direction;

pub use self::done::{Completions, Done, Sink};
pub(crate) use self::load::{by_threads, load};
pub use self::spillway::{SpillwayStore, SpillwayStores};
pub(crate) use self::spillway::{mechanisms, metrics_sum};

/// A key and its value.
pub type Pair<'a> = (&'a [u8], &'a [u8]);

/// The operations that a workload uses. Methods may be called from several threads.
pub trait Store: Send + Sync {
    /// Sets the values of keys atomically: durable on return if `durable`, otherwise visible.
    ///
    /// # Errors
    /// The error, as text.
    fn commit(&self, rows: &[Pair<'_>], durable: bool) -> Result<(), String>;

    /// Begins a durable commit without waiting; `done` is called when it is durable. Only for
    /// stores that are [`Stores::asynchronous`].
    ///
    /// # Errors
    /// The error that prevented it from beginning, as text.
    fn begin(&self, rows: &[Pair<'_>], done: Done) -> Result<(), String> {
        done.tell(self.commit(rows, true));
        Ok(())
    }

    /// Works on the commits that have begun, for an otherwise idle caller; `false` if there was
    /// nothing to do.
    fn lead(&self) -> bool {
        false
    }

    /// Reads `key` into `value`; returns whether it exists.
    ///
    /// # Errors
    /// The error, as text.
    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, String>;

    /// Visits up to `count` pairs from the first key at or past `key`; returns their number.
    ///
    /// # Errors
    /// The error, as text.
    fn seek(
        &self,
        key: &[u8],
        count: usize,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<usize, String> {
        let _ = (key, count, visit);
        Err("this store is not for seeks".to_owned())
    }

    /// Visits up to `count` pairs in a direction: from the first key at or past `from`, or from the
    /// last at or before it; without `from`, from the end of the table. Returns their number.
    ///
    /// # Errors
    /// The error, as text.
    fn scan(
        &self,
        from: Option<&[u8]>,
        direction: Direction,
        count: usize,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<usize, String> {
        let _ = (from, direction, count, visit);
        Err("this store is not for scans".to_owned())
    }

    /// Reads several keys at once; `visit` receives each one's index among them, in any order, and
    /// its value.
    ///
    /// # Errors
    /// The error, as text.
    fn multi_get(
        &self,
        keys: &[&[u8]],
        visit: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<(), String> {
        let mut value = Vec::new();
        for (at, key) in keys.iter().enumerate() {
            let found = self.get(key, &mut value)?;
            visit(at, found.then_some(&value[..]));
        }
        Ok(())
    }

    /// Removes keys atomically, with the durability of [`Store::commit`].
    ///
    /// # Errors
    /// The error, as text.
    fn delete(&self, keys: &[&[u8]], durable: bool) -> Result<(), String> {
        let _ = (keys, durable);
        Err("this store is for commits".to_owned())
    }

    /// Flushes all memtables, and waits until no compaction is due.
    ///
    /// # Errors
    /// The error, as text.
    fn settle(&self) -> Result<(), String> {
        Err("this store is for commits".to_owned())
    }

    /// Merges everything into one level.
    ///
    /// # Errors
    /// The error, as text.
    fn compact(&self) -> Result<(), String> {
        Err("this store is for commits".to_owned())
    }

    /// The memory use and the waits of writers.
    fn pressure(&self) -> Pressure {
        Pressure::default()
    }

    /// The hits of its caches, if it reports them.
    fn cache_hits(&self) -> Option<CacheHits> {
        None
    }

    /// The bytes that it has written and read itself, if it reports them.
    fn traffic(&self) -> Option<Traffic> {
        None
    }
}

/// The hits of a store's caches since it was opened.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct CacheHits {
    /// Reads that found their row in a cache of rows.
    pub rows_hit: f64,
    /// Blocks that were in a cache.
    pub blocks_hit: f64,
    /// Blocks that were read from a device.
    pub blocks_missed: f64,
}

impl CacheHits {
    /// The hits since an earlier sample.
    #[must_use]
    pub fn since(self, earlier: CacheHits) -> CacheHits {
        CacheHits {
            rows_hit: self.rows_hit - earlier.rows_hit,
            blocks_hit: self.blocks_hit - earlier.blocks_hit,
            blocks_missed: self.blocks_missed - earlier.blocks_missed,
        }
    }
}

/// The bytes that a store has written and read since it was opened.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Traffic {
    /// Written to the log.
    pub log_bytes: f64,
    /// Written by flushes.
    pub flushed_bytes: f64,
    /// Written by compactions.
    pub compaction_written_bytes: f64,
    /// Read by compactions.
    pub compaction_read_bytes: f64,
    /// Read without calls that the kernel counts ([`crate::machine::Io::read_calls_bytes`]).
    pub uncounted_read_bytes: f64,
}

impl Traffic {
    /// The bytes written and read since an earlier sample.
    #[must_use]
    pub fn since(self, earlier: Traffic) -> Traffic {
        Traffic {
            log_bytes: self.log_bytes - earlier.log_bytes,
            flushed_bytes: self.flushed_bytes - earlier.flushed_bytes,
            compaction_written_bytes: self.compaction_written_bytes
                - earlier.compaction_written_bytes,
            compaction_read_bytes: self.compaction_read_bytes - earlier.compaction_read_bytes,
            uncounted_read_bytes: self.uncounted_read_bytes - earlier.uncounted_read_bytes,
        }
    }

    /// All bytes written.
    #[must_use]
    pub fn written_bytes(self) -> f64 {
        self.log_bytes + self.flushed_bytes + self.compaction_written_bytes
    }
}

/// The memory use and the waits of writers.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Pressure {
    /// Memory that the store accounts for, in bytes.
    pub memory_bytes: u64,
    /// Seconds that writers had to wait since it was opened, over all of them.
    pub waited_s: f64,
    /// Bytes written to the log since it was opened, if the store reports them.
    pub log_bytes: u64,
    /// Syncs of the log since it was opened, and their total seconds, if the store reports them.
    pub syncs: u64,
    /// See `syncs`.
    pub sync_s: f64,
}

/// Opens stores of one kind.
pub trait Stores: Sync {
    /// The name in the report.
    fn name(&self) -> String;

    /// Its settings, as text, besides its memory.
    fn settings(&self) -> String;

    /// Whether one thread can keep many commits in flight.
    fn asynchronous(&self) -> bool {
        false
    }

    /// Opens an empty store in an empty folder, with a memory budget in bytes.
    ///
    /// # Errors
    /// The error, as text.
    fn open(&self, dir: &Path, memory_bytes: usize) -> Result<Box<dyn Store>, String>;
}
