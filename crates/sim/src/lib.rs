//! Simulation of the whole database, SQL included, on a disk that crashes.
//!
//! The tests of the `spillway` crate crash the library in the same way, without SQL. The sweeps
//! here ([`sweep`]) run the statements of a client through a session. After every crash, a sweep
//! checks the guarantees on which the client relies.

#[cfg(any(test, debug_assertions))]
mod client;
#[cfg(test)]
mod ddl_crashes;
#[cfg(test)]
mod extents;
#[cfg(test)]
mod row_forms;
#[cfg(debug_assertions)]
pub mod simulation;
#[cfg(test)]
mod sql_crashes;
pub mod sweep;
#[cfg(test)]
mod table_crashes;

#[cfg(test)]
use std::path::Path;
#[cfg(test)]
use std::sync::Arc;

#[cfg(test)]
use spillway::{Database, DeviceClass, Settings, Tier};
#[cfg(test)]
use spillway_sql::{Instance, Session, SqlError};
#[cfg(test)]
use spillway_storage::Disk;
#[cfg(test)]
use spillway_storage::sim::SimDisk;

/// The devices that a machine may have besides that of the data folder.
#[cfg(test)]
const DEVICES: [(DeviceClass, &str); 2] =
    [(DeviceClass::Fast, "/fast"), (DeviceClass::Hdd, "/hdd")];

/// An empty machine with one device, or with devices of all three classes. `seed` determines its
/// random choices.
#[cfg(test)]
fn machine(seed: u64, has_tiers: bool) -> SimDisk {
    let disk = SimDisk::new(seed);
    let more = DEVICES.iter().filter(|_| has_tiers);
    more.for_each(|(_, dir)| disk.create_dir_all(Path::new(dir)).unwrap());
    disk
}

/// Opens a small database over all devices of the machine, and a session. The database does
/// background work only on request.
#[cfg(test)]
fn open(disk: &SimDisk) -> Result<(Database, Session), SqlError> {
    let mut settings = settings(disk)?;
    if !settings.tiers.is_empty() {
        // Nearly every transaction is larger, and spills its writes.
        settings.transaction_bytes_max = Some(400);
    }
    let db = Database::open_on(Arc::new(disk.clone()), "/db", settings)?;
    let session = open_session(&db)?;
    Ok((db, session))
}

/// As [`open`], without SQL, which would resume statements that a crash interrupted.
#[cfg(test)]
fn open_database(disk: &SimDisk) -> Result<Database, SqlError> {
    Ok(Database::open_on(Arc::new(disk.clone()), "/db", settings(disk)?)?)
}

#[cfg(test)]
fn settings(disk: &SimDisk) -> Result<Settings, SqlError> {
    let mut settings = Settings::default();
    settings.memory_bytes = 16 << 20;
    settings.log_segment_bytes = 64 << 10;
    settings.log_lanes = Some(2);
    settings.slot_bytes = 16 << 10;
    settings.background_threads = false;
    for (class, dir) in DEVICES {
        if disk.exists(Path::new(dir))? {
            settings.tiers.push(Tier { class, dir: dir.into(), compression: None });
        }
    }
    Ok(settings)
}

/// Opens a session with its own SQL instance.
#[cfg(test)]
fn open_session(db: &Database) -> Result<Session, SqlError> {
    let mut session = Instance::open(db.clone())?.session("root", "localhost", 1);
    session.use_database("test")?;
    Ok(session)
}
