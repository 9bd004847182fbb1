//! The open parts of a database, and their shutdown.

use std::path::PathBuf;
use std::sync::Arc;

use spillway_base::budget::Budget;
use spillway_base::lock::{Condvar, Mutex, RwLock, RwLockReadGuard};
use spillway_base::managed::{BackgroundThreads, ManagedEngine};
use spillway_base::{Error, ErrorKind, Result, TableId, thread};
use spillway_memory::MemoryEngine;
use spillway_storage::{Disk, DiskLock};
use spillway_tiered::TieredEngine;
use spillway_txn::{RecoveryReport, TransactionManager};

use crate::directory::Numbers;
use crate::settings::Settings;

/// The threads and locks of an open database.
pub(crate) struct Running {
    pub(crate) background: Vec<Box<dyn BackgroundThreads>>,
    /// The threads that end once `Care::stop` is set.
    pub(crate) care: Vec<thread::JoinHandle<()>>,
    /// The locks of the database's folder, and of the log's folder if that is elsewhere.
    pub(crate) locks: Vec<Box<dyn DiskLock>>,
}

/// Asks the threads of a database to stop.
#[derive(Default)]
pub(crate) struct Care {
    pub(crate) stop: Mutex<bool>,
    pub(crate) changed: Condvar,
}

/// The state that the clones of a database share.
pub(crate) struct Inner {
    pub(crate) manager: TransactionManager,
    pub(crate) numbers: Numbers,
    /// All engines. The functions that only one kind of engine has are called on `tiered` or
    /// `memory`.
    pub(crate) engines: Vec<Arc<dyn ManagedEngine>>,
    pub(crate) tiered: TieredEngine,
    pub(crate) memory: MemoryEngine,
    pub(crate) budget: Budget,
    pub(crate) settings: Settings,
    pub(crate) recovered: RecoveryReport,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) path: PathBuf,
    pub(crate) log_dir: PathBuf,
    pub(crate) running: Mutex<Running>,
    /// Whether it was closed. Calls that work on the folder hold the lock for reading.
    pub(crate) closed: RwLock<bool>,
    pub(crate) care: Arc<Care>,
}

impl Inner {
    /// The engine that keeps a table; none if the database lacks it.
    pub(crate) fn engine(&self, table: TableId) -> Option<&Arc<dyn ManagedEngine>> {
        self.engines.iter().find(|engine| Some(engine.kind()) == table.engine())
    }

    /// Keeps the database from being closed completely while the caller works on the folder.
    pub(crate) fn open(&self) -> Result<RwLockReadGuard<'_, bool>> {
        let closed = self.closed.read();
        if *closed {
            return Err(Error::new(ErrorKind::Closed, "the database has been closed"));
        }
        Ok(closed)
    }

    /// The folders of the database: its own, that of its log, and those of its tiers.
    pub(crate) fn folders(&self) -> Vec<PathBuf> {
        let tiers = self.settings.tiers.iter().map(|tier| tier.dir.clone());
        [self.path.clone(), self.log_dir.clone()].into_iter().chain(tiers).collect()
    }

    /// The size of a segment of its log.
    pub(crate) fn segment_bytes(&self) -> u64 {
        self.settings.log_segment_bytes
    }

    /// Fails once a close has begun. Long work on the folder calls it between its steps.
    pub(crate) fn check_open(&self) -> Result<()> {
        let closing = *self.care.stop.lock();
        if closing {
            Err(Error::new(ErrorKind::Closed, "the database is being closed"))
        } else {
            Ok(())
        }
    }

    pub(crate) fn close(&self) -> Result<()> {
        let closed = self.manager.close();
        *self.care.stop.lock() = true;
        self.care.changed.notify_all();
        let (background, care) = {
            let mut running = self.running.lock();
            (std::mem::take(&mut running.background), std::mem::take(&mut running.care))
        };
        // The engines are closed before their threads end. Otherwise threads that wait for room in
        // memory would do the work of the background threads that have ended.
        self.engines.iter().for_each(|engine| engine.close());
        drop(background);
        for care in care {
            // The result is ignored: if the thread panicked, the panic hook has reported it.
            let _ = care.join();
        }
        *self.closed.write() = true;
        self.running.lock().locks.clear();
        closed
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // The result is ignored. A failure loses no acknowledged commit: the next opening reads the
        // log.
        let _ = self.close();
    }
}
