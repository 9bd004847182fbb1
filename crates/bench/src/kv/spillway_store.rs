//! Spillway as a [`Store`].

use std::path::Path;

use spillway::{
    Database, Direction, Durability, EngineKind, KeyRange, Settings, Table, TransactionOptions,
};

use super::{Store, Stores};

/// Opens Spillway with its default settings.
#[derive(Clone, Copy, Debug)]
pub struct SpillwayStores;

impl Stores for SpillwayStores {
    fn name(&self) -> String {
        "spillway".to_owned()
    }

    fn open(&self, dir: &Path, memory_bytes: usize) -> Result<Box<dyn Store>, String> {
        let mut settings = Settings::default();
        settings.memory_bytes = memory_bytes;
        let db = Database::open(dir, settings).map_err(|error| error.to_string())?;
        let create = || {
            let txn = db.begin(TransactionOptions::new());
            let table = txn.create_table("bench", EngineKind::Tiered)?;
            txn.commit().wait()?;
            Ok(table)
        };
        let table = create().map_err(|error: spillway::Error| error.to_string())?;
        Ok(Box::new(SpillwayStore { db, table }))
    }
}

struct SpillwayStore {
    db: Database,
    table: Table,
}

impl SpillwayStore {
    fn read<T>(
        &self,
        body: impl FnOnce(&spillway::Transaction) -> spillway::Result<T>,
    ) -> Result<T, String> {
        // A session that does not wait for durability reads what it wrote, durable or not.
        let options = TransactionOptions::new().read_only(true).durability(Durability::Relaxed);
        let txn = self.db.begin(options);
        body(&txn).map_err(|error| error.to_string())
    }
}

impl Store for SpillwayStore {
    fn put(&self, key: &[u8], value: &[u8], durable: bool) -> Result<(), String> {
        let durability = if durable { Durability::Commit } else { Durability::Relaxed };
        let txn = self.db.begin(TransactionOptions::new().durability(durability));
        txn.put(self.table, key, value).map_err(|error| error.to_string())?;
        txn.commit().wait().map(drop).map_err(|error| error.to_string())
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, String> {
        self.read(|txn| txn.get(self.table, key, value))
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
}

impl Drop for SpillwayStore {
    fn drop(&mut self) {
        if let Err(error) = self.db.close() {
            eprintln!("spillway: closing failed: {error}");
        }
    }
}
