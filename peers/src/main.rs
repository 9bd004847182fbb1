//! Spillway beside RocksDB under db_bench's shapes, in one run with equal durability.
//!
//! RocksDB runs with a concurrent memtable, pipelined writes, Bloom filters and no compression; both stores have the same
//! memory, and both sync each put of `fillsync`.

use std::path::Path;
use std::process::ExitCode;

use clap::Parser;
use rocksdb::{BlockBasedOptions, Cache, DB, DBCompressionType, IteratorMode, Direction, Options, WriteOptions};
use spillway_bench::kv::{KvArgs, SpillwayStores, Store, Stores};

#[derive(Parser)]
#[command(about = "Spillway beside RocksDB under db_bench's shapes")]
struct Cli {
    #[command(flatten)]
    kv: KvArgs,
}

struct RocksStores;

struct RocksStore {
    db: DB,
    durable: WriteOptions,
    relaxed: WriteOptions,
}

impl Stores for RocksStores {
    fn name(&self) -> String {
        "rocksdb".to_owned()
    }

    fn open(&self, dir: &Path, memory_bytes: usize) -> Result<Box<dyn Store>, String> {
        let mut blocks = BlockBasedOptions::default();
        blocks.set_block_size(16 << 10);
        blocks.set_bloom_filter(10.0, false);
        blocks.set_block_cache(&Cache::new_lru_cache(memory_bytes / 2));
        blocks.set_data_block_index_type(rocksdb::DataBlockIndexType::BinaryAndHash);
        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_block_based_table_factory(&blocks);
        options.set_compression_type(DBCompressionType::None);
        options.set_write_buffer_size(memory_bytes / 16);
        options.set_max_write_buffer_number(4);
        options.set_allow_concurrent_memtable_write(true);
        options.set_enable_pipelined_write(true);
        let db = DB::open(&options, dir).map_err(|error| error.to_string())?;
        let mut durable = WriteOptions::default();
        durable.set_sync(true);
        Ok(Box::new(RocksStore { db, durable, relaxed: WriteOptions::default() }))
    }
}

impl Store for RocksStore {
    fn put(&self, key: &[u8], value: &[u8], durable: bool) -> Result<(), String> {
        let options = if durable { &self.durable } else { &self.relaxed };
        self.db.put_opt(key, value, options).map_err(|error| error.to_string())
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, String> {
        value.clear();
        let found = self.db.get_pinned(key).map_err(|error| error.to_string())?;
        if let Some(found) = &found {
            value.extend_from_slice(found);
        }
        Ok(found.is_some())
    }

    fn seek(&self, key: &[u8], count: usize, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<usize, String> {
        let mut seen = 0;
        for row in self.db.iterator(IteratorMode::From(key, Direction::Forward)).take(count) {
            let (key, value) = row.map_err(|error| error.to_string())?;
            visit(&key, &value);
            seen += 1;
        }
        Ok(seen)
    }
}

fn main() -> ExitCode {
    match Cli::parse().kv.run(&[&SpillwayStores, &RocksStores]) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("spillway-peers: {error}");
            ExitCode::FAILURE
        }
    }
}
