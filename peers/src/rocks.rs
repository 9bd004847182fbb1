//! RocksDB as a store, set up for the best of several ways to write.

use std::path::{Path, PathBuf};

use rocksdb::statistics::{StatsLevel, Ticker};
use rocksdb::{
    BlockBasedOptions, Cache, ColumnFamilyDescriptor, DB, DBCompressionType,
    DEFAULT_COLUMN_FAMILY_NAME, Options, WaitForCompactOptions, WriteBatch, WriteOptions,
    properties,
};
use spillway_bench::recovery::{Recoverable, files_in};
use spillway_bench::store::{CacheHits, Pair, Pressure, Store, Stores, Traffic};

/// How its writers work together. All have a concurrent memtable.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// One group writes to the log and the memtable before the next begins.
    Plain,
    /// The next group writes to the log while the one before is at the memtable.
    Pipelined,
    /// Memtable writes follow in any order: a reader's snapshot is weaker than Spillway's.
    Unordered,
    /// Pipelined, into log files that are there already: syncs need not write file sizes.
    Recycled,
}

impl Way {
    /// All of them.
    pub const ALL: [Way; 4] = [Way::Plain, Way::Pipelined, Way::Unordered, Way::Recycled];
}

/// Opens RocksDB.
#[derive(Clone)]
pub struct RocksStores {
    /// How its writers work together.
    pub way: Way,
    /// Where the log is, if not in the store's folder.
    pub log_dir: Option<PathBuf>,
    /// Whether it counts what it does, which takes a little time.
    pub statistics: bool,
    /// Whether it reads and writes data past the page cache, which is memory beyond its budget otherwise.
    pub direct: bool,
    /// Whether its blocks have all of the memory, for runs that only read.
    pub for_reads: bool,
    /// Whether its block cache is a HyperClockCache, which takes no lock on hits, and not an LRU.
    pub hyper_clock: bool,
    /// Whether half of the memory for blocks is a cache of rows instead.
    pub row_cache: bool,
    /// KiB of a block: 16 as Spillway's, or 4 as it comes, which reads less at once and takes four times the index beside its memory.
    pub block_kib: usize,
}

impl RocksStores {
    /// With the log in the store's folder.
    pub fn new(way: Way) -> RocksStores {
        RocksStores {
            way,
            log_dir: None,
            statistics: false,
            direct: false,
            for_reads: false,
            hyper_clock: false,
            row_cache: false,
            block_kib: 16,
        }
    }

    /// With half of the memory for blocks as a cache of rows.
    pub fn with_row_cache(self) -> RocksStores {
        RocksStores { row_cache: true, ..self }
    }

    /// What both kinds of database are opened with.
    pub fn options(&self, memory_bytes: usize) -> Options {
        let mut blocks = BlockBasedOptions::default();
        blocks.set_block_size(self.block_kib << 10);
        blocks.set_bloom_filter(10.0, false);
        let all_bytes = if self.for_reads { memory_bytes } else { memory_bytes / 2 };
        let cache_bytes = if self.row_cache { all_bytes / 2 } else { all_bytes };
        blocks.set_block_cache(&match self.hyper_clock {
            true => Cache::new_hyper_clock_cache(cache_bytes, self.block_kib << 10),
            false => Cache::new_lru_cache(cache_bytes),
        });
        blocks.set_data_block_index_type(rocksdb::DataBlockIndexType::BinaryAndHash);
        let mut options = Options::default();
        if self.row_cache {
            options.set_row_cache(&Cache::new_lru_cache(all_bytes - cache_bytes));
        }
        options.create_if_missing(true);
        options.set_block_based_table_factory(&blocks);
        options.set_compression_type(DBCompressionType::None);
        options.set_use_direct_reads(self.direct);
        options.set_use_direct_io_for_flush_and_compaction(self.direct);
        options.set_write_buffer_size(memory_bytes / 16);
        options.set_max_write_buffer_number(4);
        options.set_max_background_jobs(4);
        options.set_allow_concurrent_memtable_write(true);
        options.set_enable_pipelined_write(matches!(self.way, Way::Pipelined | Way::Recycled));
        options.set_unordered_write(self.way == Way::Unordered);
        if self.way == Way::Recycled {
            options.set_recycle_log_file_num(8);
            options.set_write_buffer_size(RECYCLED_BYTES);
        }
        if let Some(log_dir) = &self.log_dir {
            options.set_wal_dir(log_dir);
        }
        options
    }
}

/// Small memtables, so that there are old log files to use from the start.
const RECYCLED_BYTES: usize = 8 << 20;

impl Stores for RocksStores {
    fn name(&self) -> String {
        let way = match self.way {
            Way::Plain => "rocksdb plain",
            Way::Pipelined => "rocksdb pipelined",
            Way::Unordered => "rocksdb unordered",
            Way::Recycled => "rocksdb recycled",
        };
        let data = if self.direct { " direct" } else { "" };
        let blocks =
            if self.block_kib == 16 { String::new() } else { format!(" {}k", self.block_kib) };
        let cache = if self.hyper_clock { " hyper" } else { "" };
        let rows = if self.row_cache { " rows" } else { "" };
        format!("{way}{data}{cache}{rows}{blocks}")
    }

    fn settings(&self) -> String {
        let own = match self.way {
            Way::Plain => "",
            Way::Pipelined => "enable_pipelined_write, ",
            Way::Unordered => "unordered_write, ",
            Way::Recycled => {
                "enable_pipelined_write, recycle_log_file_num 8 (used from the start), write buffers of 8 MiB, "
            }
        };
        let data = if self.direct {
            "use_direct_reads, use_direct_io_for_flush_and_compaction, "
        } else {
            ""
        };
        let cache = if self.for_reads {
            "all memory, with filters and indexes beside it"
        } else {
            "memory/2"
        };
        let kib = self.block_kib;
        let kind = if self.hyper_clock { "HyperClockCache" } else { "block cache" };
        let rows = if self.row_cache { " (half of it a row cache)" } else { "" };
        format!(
            "{own}{data}allow_concurrent_memtable_write, 4 write buffers of memory/16, \
             {kind} of {cache}{rows}, {kib} KiB blocks, Bloom filters of 10 bits, no compression, max_background_jobs 4"
        )
    }

    fn open(&self, dir: &Path, memory_bytes: usize) -> Result<Box<dyn Store>, String> {
        let mut options = self.options(memory_bytes);
        if self.statistics {
            options.enable_statistics();
            options.set_statistics_level(StatsLevel::ExceptDetailedTimers);
        }
        // By its name, for calls that take a family.
        let family = ColumnFamilyDescriptor::new(DEFAULT_COLUMN_FAMILY_NAME, options.clone());
        let db =
            DB::open_cf_descriptors(&options, dir, [family]).map_err(|error| error.to_string())?;
        if self.way == Way::Recycled {
            fill_logs(&db)?;
        }
        let (statistics, relaxed) = (self.statistics, WriteOptions::default());
        Ok(Box::new(RocksStore { db, options, durable: durable(), relaxed, statistics }))
    }
}

/// Writes and deletes a row until enough log files have been used to be used again.
fn fill_logs(db: &DB) -> Result<(), String> {
    let value = vec![7; 64 << 10];
    for _ in 0..12 * RECYCLED_BYTES / value.len() {
        db.put(b"", &value).map_err(|error| error.to_string())?;
    }
    db.delete(b"").and_then(|()| db.flush()).map_err(|error| error.to_string())
}

/// Durable when the write returns.
pub fn durable() -> WriteOptions {
    let mut durable = WriteOptions::default();
    durable.set_sync(true);
    durable
}

struct RocksStore {
    db: DB,
    options: Options,
    durable: WriteOptions,
    relaxed: WriteOptions,
    statistics: bool,
}

impl Store for RocksStore {
    fn commit(&self, rows: &[Pair<'_>], durable: bool) -> Result<(), String> {
        let options = if durable { &self.durable } else { &self.relaxed };
        let written = match rows {
            [(key, value)] => self.db.put_opt(key, value, options),
            _ => {
                let mut batch = WriteBatch::default();
                rows.iter().for_each(|(key, value)| batch.put(key, value));
                self.db.write_opt(batch, options)
            }
        };
        written.map_err(|error| error.to_string())
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, String> {
        value.clear();
        let found = self.db.get_pinned(key).map_err(|error| error.to_string())?;
        if let Some(found) = &found {
            value.extend_from_slice(found);
        }
        Ok(found.is_some())
    }

    fn seek(
        &self,
        key: &[u8],
        count: usize,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<usize, String> {
        self.scan(Some(key), spillway_base::Direction::Forward, count, visit)
    }

    fn scan(
        &self,
        from: Option<&[u8]>,
        direction: spillway_base::Direction,
        count: usize,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<usize, String> {
        // The iterator that copies nothing.
        let mut rows = self.db.raw_iterator();
        let forward = direction == spillway_base::Direction::Forward;
        match (from, forward) {
            (Some(key), true) => rows.seek(key),
            (Some(key), false) => rows.seek_for_prev(key),
            (None, true) => rows.seek_to_first(),
            (None, false) => rows.seek_to_last(),
        }
        let mut seen = 0;
        while seen < count
            && let Some((key, value)) = rows.item()
        {
            visit(key, value);
            seen += 1;
            if seen < count {
                if forward { rows.next() } else { rows.prev() }
            }
        }
        rows.status().map_err(|error| error.to_string())?;
        Ok(seen)
    }

    fn multi_get(
        &self,
        keys: &[&[u8]],
        visit: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<(), String> {
        let family = self.db.cf_handle("default").ok_or("there is no default column family")?;
        for (at, found) in self.db.batched_multi_get_cf(family, keys, false).into_iter().enumerate()
        {
            let found = found.map_err(|error| error.to_string())?;
            visit(at, found.as_deref());
        }
        Ok(())
    }

    fn delete(&self, keys: &[&[u8]], durable: bool) -> Result<(), String> {
        let options = if durable { &self.durable } else { &self.relaxed };
        let mut batch = WriteBatch::default();
        keys.iter().for_each(|key| batch.delete(key));
        self.db.write_opt(batch, options).map_err(|error| error.to_string())
    }

    fn settle(&self) -> Result<(), String> {
        let mut options = WaitForCompactOptions::default();
        options.set_flush(true);
        self.db.wait_for_compact(&options).map_err(|error| error.to_string())
    }

    fn compact(&self) -> Result<(), String> {
        self.db.flush().map_err(|error| error.to_string())?;
        self.db.compact_range(None::<&[u8]>, None::<&[u8]>);
        Ok(())
    }

    fn traffic(&self) -> Option<Traffic> {
        let ticker = |ticker| self.options.get_ticker_count(ticker) as f64;
        self.statistics.then(|| Traffic {
            log_bytes: ticker(Ticker::WalFileBytes),
            flushed_bytes: ticker(Ticker::FlushWriteBytes),
            compaction_written_bytes: ticker(Ticker::CompactWriteBytes),
            compaction_read_bytes: ticker(Ticker::CompactReadBytes),
            uncounted_read_bytes: 0.0,
        })
    }

    fn cache_hits(&self) -> Option<CacheHits> {
        let ticker = |ticker| self.options.get_ticker_count(ticker) as f64;
        self.statistics.then(|| CacheHits {
            rows_hit: 0.0,
            blocks_hit: ticker(Ticker::BlockCacheHit),
            blocks_missed: ticker(Ticker::BlockCacheMiss),
        })
    }

    fn pressure(&self) -> Pressure {
        let property = |name| self.db.property_int_value(name).ok().flatten().unwrap_or(0);
        Pressure {
            memory_bytes: property(properties::SIZE_ALL_MEM_TABLES)
                + property(properties::BLOCK_CACHE_USAGE)
                + property(properties::ESTIMATE_TABLE_READERS_MEM),
            waited_s: self.options.get_ticker_count(Ticker::StallMicros) as f64 / 1e6,
            log_bytes: self.options.get_ticker_count(Ticker::WalFileBytes),
            ..Pressure::default()
        }
    }
}

/// RocksDB, left with its log alone: a memtable for all of it. An opening flushes that, as it does by
/// default; the crate has no way to say otherwise.
pub struct RocksRecovery;

impl Recoverable for RocksRecovery {
    fn name(&self) -> String {
        "rocksdb".to_owned()
    }

    fn settings(&self) -> String {
        "write buffer of twice the log; it has one thread for this, and flushes what it has read"
            .to_owned()
    }

    fn threads(&self) -> Vec<usize> {
        vec![1]
    }

    fn open(&self, dir: &Path, log_bytes: u64, _: usize) -> Result<Box<dyn Store>, String> {
        let mut options = RocksStores::new(Way::Pipelined).options(256 << 20);
        options.set_write_buffer_size(2 * log_bytes as usize);
        options.set_max_total_wal_size(4 * log_bytes);
        let db = DB::open(&options, dir).map_err(|error| error.to_string())?;
        let (statistics, relaxed) = (false, WriteOptions::default());
        Ok(Box::new(RocksStore { db, options, durable: durable(), relaxed, statistics }))
    }

    fn log_files(&self, dir: &Path) -> Result<Vec<PathBuf>, String> {
        files_in(dir, |name| name.ends_with(".log"))
    }
}
