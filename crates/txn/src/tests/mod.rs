//! The transaction manager over the model engine and the simulated disk.

mod anomalies;
mod durability;
mod engines;
mod lock_memory;
mod newest;
mod places;
mod ranges;
mod recovery;
mod refresh;
mod reserve;
mod serial;
mod spills;
mod throttle;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use spillway_base::budget::Budget;
use spillway_base::clock::Clock;
use spillway_base::engine::Engine;
use spillway_base::{EngineKind, Result, TableId};
use spillway_storage::sim::SimDisk;

use crate::model::ModelEngine;
use crate::*;

pub(crate) const TABLE: TableId = TableId(1);

pub(crate) struct Db {
    pub(crate) manager: TransactionManager,
    pub(crate) engine: Arc<ModelEngine>,
}

fn settings() -> ManagerSettings {
    ManagerSettings {
        durability: Durability::Commit,
        lock_wait: Duration::from_secs(60),
        transaction_bytes_max: 1 << 20,
        log_bytes_max: 1 << 30,
        throttle: true,
    }
}

fn log(lanes: usize) -> LogSettings {
    LogSettings {
        dir: Path::new("/log").into(),
        segment_bytes: 64 << 10,
        lanes,
        in_turn: true,
        queue_bytes: 4 << 10,
        recovery_threads: 1,
    }
}

fn open(disk: &SimDisk) -> Result<Db> {
    open_with(disk, &log(2))
}

fn open_with(disk: &SimDisk, log: &LogSettings) -> Result<Db> {
    open_on(disk, log, ModelEngine::new(), &Budget::new(64 << 20))
}

fn open_on(disk: &SimDisk, log: &LogSettings, engine: ModelEngine, budget: &Budget) -> Result<Db> {
    open_by(disk, log, engine, budget, Clock::system())
}

fn open_by(
    disk: &SimDisk,
    log: &LogSettings,
    engine: ModelEngine,
    budget: &Budget,
    clock: Clock,
) -> Result<Db> {
    open_as(disk, log, engine, budget, clock, settings())
}

fn open_as(
    disk: &SimDisk,
    log: &LogSettings,
    engine: ModelEngine,
    budget: &Budget,
    clock: Clock,
    settings: ManagerSettings,
) -> Result<Db> {
    let engine = Arc::new(engine);
    let horizon = HorizonHandle::new();
    let disk: Arc<dyn spillway_storage::Disk> = Arc::new(disk.clone());
    let (manager, _) = recover(
        &disk,
        log,
        settings,
        &horizon,
        Engines::new(vec![engine.clone()]),
        budget.clone(),
        clock,
    )?;
    Ok(Db { manager, engine })
}

pub(crate) fn new() -> Db {
    let db = open(&SimDisk::new(1)).unwrap();
    assert_eq!(TABLE.engine(), Some(EngineKind::Tiered));
    let txn = db.begin(Isolation::RepeatableRead);
    txn.create_table(TABLE).unwrap();
    txn.commit().wait().unwrap();
    db
}

impl Db {
    /// Begins a transaction that keeps its snapshot: most tests look for conflicts.
    pub(crate) fn begin(&self, isolation: Isolation) -> Transaction {
        self.manager.begin(TransactionOptions::new().isolation(isolation).keeps_snapshot(true))
    }

    pub(crate) fn set(&self, key: &str, value: &str) {
        let txn = self.begin(Isolation::ReadCommitted);
        txn.put(TABLE, key.as_bytes(), value.as_bytes()).unwrap();
        txn.commit().wait().unwrap();
    }

    pub(crate) fn value(&self, key: &str) -> Option<String> {
        get(&self.begin(Isolation::ReadCommitted), key).unwrap()
    }
}

fn get(txn: &Transaction, key: &str) -> Result<Option<String>> {
    let mut value = Vec::new();
    let found = txn.get(TABLE, key.as_bytes(), &mut value)?;
    Ok(found.then(|| String::from_utf8(value).unwrap()))
}

fn put(txn: &Transaction, key: &str, value: &str) -> Result<()> {
    txn.put(TABLE, key.as_bytes(), value.as_bytes())
}

fn keys(txn: &Transaction, direction: spillway_base::Direction) -> Result<Vec<String>> {
    txn.scan(TABLE, spillway_base::KeyRange::ALL, direction)?
        .map(|row| row.map(|(key, _)| String::from_utf8(key).unwrap()))
        .collect()
}

#[test]
fn the_engine_is_reachable_by_its_tables() {
    let db = new();
    assert_eq!(db.engine.tables(), [TABLE]);
    assert!(db.manager.engines().of(TableId(1 << 28)).is_err());
}
