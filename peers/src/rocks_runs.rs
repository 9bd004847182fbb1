//! RocksDB, holding two runs.

use std::path::Path;

use rocksdb::statistics::{StatsLevel, Ticker};
use rocksdb::{
    BottommostLevelCompaction, CompactOptions, DB, IteratorMode, Options, SstFileWriter,
    WriteBatch, WriteOptions,
};
use spillway_bench::compaction::{CompactionWork, Put, Rows, RunsStore, RunsStores};

use crate::rocks::{RocksStores, Way};

/// Opens RocksDB without compactions of its own.
pub struct RocksRuns {
    /// Whether flushes and compactions go past the page cache.
    pub direct: bool,
}

/// For caches; the memtable is as large as the upper run needs it.
const MEMORY_BYTES: usize = 256 << 20;
/// A row in a memtable takes less.
const MEMTABLE_ROW_BYTES: u64 = 256;
/// Rows of a batch.
const BATCH_ROWS: usize = 1000;
/// Files of the bottom level, as large as compactions make them by default.
const FILE_BYTES: u64 = 64 << 20;

impl RunsStores for RocksRuns {
    fn name(&self) -> String {
        if self.direct { "rocksdb direct" } else { "rocksdb" }.to_owned()
    }

    fn settings(&self) -> String {
        if self.direct {
            return "likewise, with use_direct_io_for_flush_and_compaction".to_owned();
        }
        "the lower run ingested as files of 64 MiB, the upper one a memtable flushed to one file of level 0; one compact_range \
         (bottommost_level_compaction skip: files come to the bottom level once), one thread, no compression, files synced, \
         through the page cache, 16 KiB blocks, Bloom filters of 10 bits"
            .to_owned()
    }

    fn open(&self, dir: &Path, upper_rows: u64) -> Result<Box<dyn RunsStore>, String> {
        let mut options = RocksStores::new(Way::Plain).options(MEMORY_BYTES);
        options.set_write_buffer_size((upper_rows * MEMTABLE_ROW_BYTES).max(64 << 20) as usize);
        options.set_disable_auto_compactions(true);
        options.set_max_subcompactions(1);
        options.set_use_direct_io_for_flush_and_compaction(self.direct);
        options.enable_statistics();
        options.set_statistics_level(StatsLevel::ExceptHistogramOrTimers);
        let db = DB::open(&options, dir).map_err(in_words)?;
        Ok(Box::new(RocksRunsStore { db, options }))
    }
}

struct RocksRunsStore {
    db: DB,
    options: Options,
}

impl RocksRunsStore {
    /// Whether level 0 and the bottom level alone have files, level 0 so many.
    fn check(&self, level0: u64) -> Result<(), String> {
        let files = |level: u64| {
            let name = format!("rocksdb.num-files-at-level{level}");
            self.db.property_int_value(&name).ok().flatten()
        };
        let files: Vec<u64> = (0..).map_while(files).collect();
        match &files[..] {
            [first, between @ .., last]
                if *first == level0 && *last > 0 && between.iter().all(|files| *files == 0) =>
            {
                Ok(())
            }
            _ => {
                Err(format!("the runs are not where they should be: {files:?} files in the levels"))
            }
        }
    }
}

impl RunsStore for RocksRunsStore {
    fn lower(&mut self, rows: &Rows<'_>) -> Result<(), String> {
        let mut writer = SstFileWriter::create(&self.options);
        let mut paths = Vec::new();
        let mut written = FILE_BYTES;
        rows(&mut |key, value| {
            if written >= FILE_BYTES {
                if !paths.is_empty() {
                    writer.finish().map_err(in_words)?;
                }
                paths.push(self.db.path().join(format!("lower-{}.sst", paths.len())));
                writer = SstFileWriter::create(&self.options);
                writer.open(&paths[paths.len() - 1]).map_err(in_words)?;
                written = 0;
            }
            written += (key.len() + value.len()) as u64;
            writer.put(key, value).map_err(in_words)
        })?;
        writer.finish().map_err(in_words)?;
        self.db.ingest_external_file(paths.clone()).map_err(in_words)?;
        for path in paths {
            std::fs::remove_file(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        self.check(0)
    }

    fn upper(&mut self, rows: &Rows<'_>) -> Result<(), String> {
        let mut unlogged = WriteOptions::default();
        unlogged.disable_wal(true);
        let mut batch = WriteBatch::default();
        rows(&mut |key, value| {
            batch.put(key, value);
            if batch.len() < BATCH_ROWS {
                return Ok(());
            }
            self.db.write_opt(std::mem::take(&mut batch), &unlogged).map_err(in_words)
        })?;
        self.db.write_opt(batch, &unlogged).and_then(|()| self.db.flush()).map_err(in_words)?;
        self.check(1)
    }

    fn compact(&mut self) -> Result<(), String> {
        let mut how = CompactOptions::default();
        how.set_bottommost_level_compaction(BottommostLevelCompaction::Skip);
        self.db.compact_range_opt(None::<&[u8]>, None::<&[u8]>, &how);
        self.check(0)
    }

    fn work(&self) -> CompactionWork {
        let ticker = |ticker| self.options.get_ticker_count(ticker) as f64;
        CompactionWork {
            read_bytes: ticker(Ticker::CompactReadBytes),
            written_bytes: ticker(Ticker::CompactWriteBytes),
            reuse: None,
        }
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, String> {
        value.clear();
        let found = self.db.get_pinned(key).map_err(in_words)?;
        value.extend(found.iter().flat_map(|found| found.iter()));
        Ok(found.is_some())
    }

    fn scan(&self, visit: &mut Put<'_>) -> Result<(), String> {
        for row in self.db.iterator(IteratorMode::Start) {
            let (key, value) = row.map_err(in_words)?;
            visit(&key, &value)?;
        }
        Ok(())
    }
}

fn in_words(error: rocksdb::Error) -> String {
    error.to_string()
}
