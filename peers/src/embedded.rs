//! LMDB and redb as stores: B-trees that are copied on write, with one writer at a time.

use std::path::Path;

use heed::types::Bytes;
use heed::{Env, EnvFlags, EnvOpenOptions, WithTls};
use redb::{Durability, ReadableDatabase, TableDefinition};
use spillway_bench::store::{Pair, Store, Stores};

/// Opens LMDB.
pub struct LmdbStores;

struct LmdbStore {
    env: Env<WithTls>,
    table: heed::Database<Bytes, Bytes>,
}

/// Opens redb.
pub struct RedbStores;

struct RedbStore(redb::Database);

const TABLE: TableDefinition<&[u8], &[u8]> = TableDefinition::new("bench");

fn text(error: impl ToString) -> String {
    error.to_string()
}

impl Stores for LmdbStores {
    fn name(&self) -> String {
        "lmdb".to_owned()
    }

    fn settings(&self) -> String {
        "MDB_NOSYNC, a map of 8 times the memory, in the page cache; a waited-for commit calls mdb_env_sync behind it: one \
         sync, where a commit without MDB_NOSYNC takes two"
            .to_owned()
    }

    fn open(&self, dir: &Path, memory_bytes: usize) -> Result<Box<dyn Store>, String> {
        let mut options = EnvOpenOptions::new().read_txn_with_tls();
        options.map_size(8 * memory_bytes);
        // SAFETY: the folder is fresh, and only this process opens it; a crash loses a benchmark.
        let env = unsafe { options.flags(EnvFlags::NO_SYNC).open(dir) }.map_err(text)?;
        let mut txn = env.write_txn().map_err(text)?;
        let table = env.create_database(&mut txn, None).map_err(text)?;
        txn.commit().map_err(text)?;
        Ok(Box::new(LmdbStore { env, table }))
    }
}

impl Store for LmdbStore {
    fn commit(&self, rows: &[Pair<'_>], durable: bool) -> Result<(), String> {
        let mut txn = self.env.write_txn().map_err(text)?;
        for (key, value) in rows {
            self.table.put(&mut txn, key, value).map_err(text)?;
        }
        txn.commit().map_err(text)?;
        if durable { self.env.force_sync().map_err(text) } else { Ok(()) }
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, String> {
        value.clear();
        let txn = self.env.read_txn().map_err(text)?;
        let found = self.table.get(&txn, key).map_err(text)?;
        value.extend_from_slice(found.unwrap_or_default());
        Ok(found.is_some())
    }
}

impl Stores for RedbStores {
    fn name(&self) -> String {
        "redb".to_owned()
    }

    fn settings(&self) -> String {
        "a cache of all memory; Durability::Immediate where waited for, None where not".to_owned()
    }

    fn open(&self, dir: &Path, memory_bytes: usize) -> Result<Box<dyn Store>, String> {
        let mut builder = redb::Database::builder();
        let db = builder.set_cache_size(memory_bytes).create(dir.join("redb")).map_err(text)?;
        let txn = db.begin_write().map_err(text)?;
        txn.open_table(TABLE).map_err(text)?;
        txn.commit().map_err(text)?;
        Ok(Box::new(RedbStore(db)))
    }
}

impl Store for RedbStore {
    fn commit(&self, rows: &[Pair<'_>], durable: bool) -> Result<(), String> {
        let mut txn = self.0.begin_write().map_err(text)?;
        let durability = if durable { Durability::Immediate } else { Durability::None };
        txn.set_durability(durability).map_err(text)?;
        {
            let mut table = txn.open_table(TABLE).map_err(text)?;
            for (key, value) in rows {
                table.insert(*key, *value).map_err(text)?;
            }
        }
        txn.commit().map_err(text)
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, String> {
        value.clear();
        let txn = self.0.begin_read().map_err(text)?;
        let table = txn.open_table(TABLE).map_err(text)?;
        let found = table.get(key).map_err(text)?;
        if let Some(found) = &found {
            value.extend_from_slice(found.value());
        }
        Ok(found.is_some())
    }
}
