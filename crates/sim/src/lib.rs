//! Simulation: the whole database, SQL included, over a disk that crashes.
//!
//! The library's own sweeps are with the library; here a client's statements go through a session, and what a client may
//! rely on is checked after every crash.

#[cfg(test)]
mod ddl_crashes;
#[cfg(test)]
mod sql_crashes;

#[cfg(test)]
use std::sync::Arc;

#[cfg(test)]
use spillway::{Database, Settings};
#[cfg(test)]
use spillway_sql::{Instance, Session, SqlError};
#[cfg(test)]
use spillway_storage::sim::SimDisk;

/// A small database that does its background work when it is told to, and a session in it.
#[cfg(test)]
fn open(disk: &SimDisk) -> Result<(Database, Session), SqlError> {
    let mut settings = Settings::default();
    settings.memory_bytes = 16 << 20;
    settings.log_segment_bytes = 64 << 10;
    settings.log_lanes = Some(2);
    settings.slot_bytes = 16 << 10;
    settings.background_threads = false;
    let db = Database::open_on(Arc::new(disk.clone()), "/db", settings)?;
    let mut session = Instance::open(db.clone())?.session("root", "localhost", 1);
    session.use_database("test")?;
    Ok((db, session))
}
