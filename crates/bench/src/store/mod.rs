//! What a workload needs of a store, so that peers are measured by the same code in the same run.

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

/// What a workload needs of a store. Methods may be called from several threads.
pub trait Store: Send + Sync {
    /// Gives keys their values, all or none: durable when this returns if `durable`, else visible.
    ///
    /// # Errors
    /// Whatever went wrong, in words.
    fn commit(&self, rows: &[Pair<'_>], durable: bool) -> Result<(), String>;

    /// Begins a durable commit and goes on; `done` is told when it is durable. Only for stores that
    /// [`Stores::asynchronous`].
    ///
    /// # Errors
    /// Whatever kept it from beginning, in words.
    fn begin(&self, rows: &[Pair<'_>], done: Done) -> Result<(), String> {
        done.tell(self.commit(rows, true));
        Ok(())
    }

    /// Works on the commits that have begun, for a caller that has nothing else to do; `false` when
    /// there was nothing to do.
    fn lead(&self) -> bool {
        false
    }

    /// Reads `key` into `value`; answers whether it is there.
    ///
    /// # Errors
    /// Whatever went wrong, in words.
    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, String>;

    /// Visits up to `count` pairs from the first key at or past `key`; answers how many there were.
    ///
    /// # Errors
    /// Whatever went wrong, in words.
    fn seek(
        &self,
        key: &[u8],
        count: usize,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<usize, String>;

    /// Visits up to `count` pairs in a direction: from the first key at or past `from`, or the last
    /// at or before it; all, without it. Answers how many there were.
    ///
    /// # Errors
    /// Whatever went wrong, in words.
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

    /// Reads several keys at once; `visit` is given each one's place among them, in any order, and
    /// its value.
    ///
    /// # Errors
    /// Whatever went wrong, in words.
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

    /// Takes keys and their values away, all or none, as [`Store::commit`] gives them.
    ///
    /// # Errors
    /// Whatever went wrong, in words.
    fn delete(&self, keys: &[&[u8]], durable: bool) -> Result<(), String> {
        let _ = (keys, durable);
        Err("this store is for commits".to_owned())
    }

    /// Writes all that is in memory to data files, and waits until no compaction is due.
    ///
    /// # Errors
    /// Whatever went wrong, in words.
    fn settle(&self) -> Result<(), String> {
        Err("this store is for commits".to_owned())
    }

    /// Brings everything together in one level.
    ///
    /// # Errors
    /// Whatever went wrong, in words.
    fn compact(&self) -> Result<(), String> {
        Err("this store is for commits".to_owned())
    }

    /// How it stands with memory and writers.
    fn pressure(&self) -> Pressure;

    /// What its caches have answered, where it tells.
    fn cache_hits(&self) -> Option<CacheHits> {
        None
    }

    /// What it has written and read on its own account, where it tells.
    fn traffic(&self) -> Option<Traffic> {
        None
    }
}

/// What the caches of a store have answered since it was opened.
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
    /// What they have answered since an earlier look.
    #[must_use]
    pub fn since(self, earlier: CacheHits) -> CacheHits {
        CacheHits {
            rows_hit: self.rows_hit - earlier.rows_hit,
            blocks_hit: self.blocks_hit - earlier.blocks_hit,
            blocks_missed: self.blocks_missed - earlier.blocks_missed,
        }
    }
}

/// What a store has written and read since it was opened, in bytes.
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
    /// Read by no calls that the kernel counts ([`crate::machine::Io::read_calls_bytes`]).
    pub uncounted_read_bytes: f64,
}

impl Traffic {
    /// What was written and read since an earlier look.
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

    /// All that was written.
    #[must_use]
    pub fn written_bytes(self) -> f64 {
        self.log_bytes + self.flushed_bytes + self.compaction_written_bytes
    }
}

/// How a store stands with memory and writers.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Pressure {
    /// Memory that the store counts as its own, in bytes.
    pub memory_bytes: u64,
    /// Seconds that writers were made to wait since it was opened, over all of them.
    pub waited_s: f64,
    /// Bytes written to the log since it was opened, where the store tells.
    pub log_bytes: u64,
    /// Syncs of the log since it was opened, and the seconds that they took, where the store tells.
    pub syncs: u64,
    /// See `syncs`.
    pub sync_s: f64,
}

/// Opens stores of one kind.
pub trait Stores: Sync {
    /// The name in the report.
    fn name(&self) -> String;

    /// What it is set to, in words, besides its memory.
    fn settings(&self) -> String;

    /// Whether one thread of it keeps many commits on their way.
    fn asynchronous(&self) -> bool {
        false
    }

    /// Opens an empty store in an empty folder, with a memory budget in bytes.
    ///
    /// # Errors
    /// Whatever went wrong, in words.
    fn open(&self, dir: &Path, memory_bytes: usize) -> Result<Box<dyn Store>, String>;
}
