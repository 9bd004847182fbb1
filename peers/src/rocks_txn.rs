//! RocksDB's transactions, pessimistic and optimistic, as stores.

use std::path::Path;

use rocksdb::{
    OptimisticTransactionDB, OptimisticTransactionOptions, TransactionDB, TransactionDBOptions,
    TransactionOptions, WriteOptions,
};
use spillway_bench::store::{Pair, Store, Stores};

use crate::rocks::{RocksStores, Way, durable};

/// Opens RocksDB with transactions.
#[derive(Clone, Copy)]
pub enum RocksTxnStores {
    /// Locks rows.
    Pessimistic,
    /// Looks for conflicts at commit.
    Optimistic,
}

enum Db {
    Pessimistic(TransactionDB),
    Optimistic(OptimisticTransactionDB),
}

struct RocksTxnStore {
    db: Db,
    durable: WriteOptions,
    relaxed: WriteOptions,
}

impl Stores for RocksTxnStores {
    fn name(&self) -> String {
        match self {
            RocksTxnStores::Pessimistic => "rocksdb TransactionDB",
            RocksTxnStores::Optimistic => "rocksdb OptimisticTransactionDB",
        }
        .to_owned()
    }

    fn settings(&self) -> String {
        match self {
            RocksTxnStores::Pessimistic => "as rocksdb pipelined".to_owned(),
            RocksTxnStores::Optimistic => {
                "as rocksdb plain: it refuses pipelined writes".to_owned()
            }
        }
    }

    fn open(&self, dir: &Path, memory_bytes: usize) -> Result<Box<dyn Store>, String> {
        let db = match self {
            RocksTxnStores::Pessimistic => {
                let options = RocksStores::new(Way::Pipelined).options(memory_bytes);
                TransactionDB::open(&options, &TransactionDBOptions::default(), dir)
                    .map(Db::Pessimistic)
            }
            RocksTxnStores::Optimistic => {
                let options = RocksStores::new(Way::Plain).options(memory_bytes);
                OptimisticTransactionDB::open(&options, dir).map(Db::Optimistic)
            }
        };
        let db = db.map_err(|error| error.to_string())?;
        Ok(Box::new(RocksTxnStore { db, durable: durable(), relaxed: WriteOptions::default() }))
    }
}

impl Store for RocksTxnStore {
    fn commit(&self, rows: &[Pair<'_>], durable: bool) -> Result<(), String> {
        let options = if durable { &self.durable } else { &self.relaxed };
        let committed = match &self.db {
            Db::Pessimistic(db) => {
                let txn = db.transaction_opt(options, &TransactionOptions::default());
                rows.iter()
                    .try_for_each(|(key, value)| txn.put(key, value))
                    .and_then(|()| txn.commit())
            }
            Db::Optimistic(db) => loop {
                let txn = db.transaction_opt(options, &OptimisticTransactionOptions::default());
                let put = rows.iter().try_for_each(|(key, value)| txn.put(key, value));
                match put.and_then(|()| txn.commit()) {
                    // Another got in between: its user begins again, and so does this one.
                    Err(error) if error.kind() == rocksdb::ErrorKind::Busy => {}
                    outcome => break outcome,
                }
            },
        };
        committed.map_err(|error| error.to_string())
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, String> {
        value.clear();
        let found = match &self.db {
            Db::Pessimistic(db) => db.get(key),
            Db::Optimistic(db) => db.get(key),
        };
        let found = found.map_err(|error| error.to_string())?;
        if let Some(found) = &found {
            value.extend_from_slice(found);
        }
        Ok(found.is_some())
    }

    fn seek(&self, _: &[u8], _: usize, _: &mut dyn FnMut(&[u8], &[u8])) -> Result<usize, String> {
        Err("these stores are for commits".to_owned())
    }
}
