//! The state of the engine. Each part of the state has its own file.

use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustc_hash::FxHashMap;
use spillway_base::budget::Budget;
use spillway_base::lock::Mutex;
use spillway_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use spillway_base::{Csn, Error, ErrorKind, Result, TableId};
use spillway_storage::async_reads::{AsyncReadSettings, AsyncReads};
use spillway_storage::{Disk, IdleQueues};

use super::checkpoints::Checkpoints;
use super::collector::Collector;
use super::evictor::Evictor;
use super::unplaced::UnplacedCommits;
use super::work_state::Work;
use crate::index::{Index, NodeMemory};
use crate::log_reads::{LogReads, RowRead};
use crate::pins::Pins;
use crate::segments::Segments;
use crate::store::Store;
use crate::table::Table;

/// The engine's settings.
#[derive(Clone, Debug)]
pub struct MemorySettings {
    /// Kept segments may take this many times their live bytes.
    pub space_max: f64,
    /// Bytes that kept segments may take in addition, so that small databases are not compacted.
    pub space_rest: u64,
    /// Settings of the asynchronous reads that callers begin
    /// ([`spillway_base::engine::Engine::begin_read`]). They always use the operating system's page
    /// cache, as the log's writer does.
    pub async_reads: AsyncReadSettings,
    /// Whether gets of many keys, and scans, read evicted rows ahead.
    pub read_ahead: bool,
    /// Whether memory that is in use for a while becomes large pages of the system.
    pub large_pages: bool,
    /// The number of threads that load a checkpoint at an opening, at least 1.
    pub recovery_threads: usize,
}

impl Default for MemorySettings {
    fn default() -> MemorySettings {
        MemorySettings {
            space_max: 1.75,
            space_rest: 64 << 20,
            async_reads: AsyncReadSettings {
                lanes: 1,
                direct: false,
                gathers: true,
                waits_alone: true,
            },
            read_ahead: true,
            large_pages: true,
            recovery_threads: 2,
        }
    }
}

pub(super) type Tables = FxHashMap<TableId, Arc<Table>>;

/// Counts since the opening.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) evicted: AtomicU64,
    pub(super) collected: AtomicU64,
    pub(super) checkpoints: AtomicU64,
    pub(super) checkpoint_bytes: AtomicU64,
    pub(super) compacted_bytes: AtomicU64,
    pub(super) released: AtomicU64,
}

/// The state that the clones of an engine share.
pub(super) struct Inner {
    pub(super) settings: MemorySettings,
    pub(super) disk: Arc<dyn Disk>,
    pub(super) dir: PathBuf,
    pub(super) budget: Budget,
    pub(super) store: Store,
    /// The allocator of the indexes.
    pub(super) nodes: Arc<NodeMemory>,
    pub(super) segments: Arc<Segments>,
    pub(super) log: Arc<LogReads>,
    /// Reads that waiting statements have begun.
    pub(super) async_reads: AsyncReads<RowRead>,
    /// I/O queues for callers that read several rows at once.
    pub(super) idle_queues: IdleQueues,
    pub(super) pins: Arc<Pins>,
    pub(super) tables: ArcSwap<Tables>,
    /// Held while the set of tables changes.
    pub(super) changing: Mutex<()>,
    pub(super) unplaced: UnplacedCommits,
    pub(super) collector: Collector,
    pub(super) evictor: Evictor,
    /// Held while the engine writes places into versions.
    pub(super) placing: Mutex<()>,
    /// The newest commit that was installed.
    pub(super) newest: AtomicU64,
    pub(super) checkpoints: Checkpoints,
    pub(super) work: Work,
    pub(super) failed: AtomicBool,
    pub(super) failure: Mutex<Option<Error>>,
    pub(super) counts: Counts,
}

/// The memory engine. Cheap to clone; clones share the engine.
#[derive(Clone)]
pub struct MemoryEngine(pub(super) Arc<Inner>);

impl Inner {
    /// The table, if it exists at this snapshot.
    pub(super) fn table_at(&self, id: TableId, snapshot: Csn) -> Result<Arc<Table>> {
        let tables = self.tables.load();
        let table = tables.get(&id).filter(|table| table.exists_at(snapshot));
        table.cloned().ok_or_else(|| missing(id, snapshot))
    }

    /// Changes the set of tables.
    pub(super) fn change_tables(&self, change: impl FnOnce(&mut Tables)) {
        let _changing = self.changing.lock();
        let mut tables = Tables::clone(&self.tables.load());
        change(&mut tables);
        self.tables.store(Arc::new(tables));
    }

    pub(super) fn fail(&self, error: &Error) {
        self.failure.lock().get_or_insert_with(|| error.clone());
        self.failed.store(true, Ordering::Release);
    }

    pub(super) fn health(&self) -> Result<()> {
        if !self.failed.load(Ordering::Acquire) {
            return Ok(());
        }
        self.failure.lock().clone().map_or(Ok(()), Err)
    }

    pub(super) fn new_index(&self) -> Index {
        Index::new(self.store.epochs.clone(), self.nodes.clone())
    }

    /// Commits up to this CSN survive without the log (E6): the commits of the last checkpoint or,
    /// if nothing was installed since, all stable commits.
    pub(super) fn persisted(&self) -> Csn {
        // Read before `newest`: a stable commit is installed, so `newest` includes it.
        let stable = self.pins.stable();
        let recorded = self.checkpoints.recorded();
        let newest = Csn(self.newest.load(Ordering::SeqCst));
        if newest <= recorded { recorded.max(stable) } else { recorded }
    }
}

pub(super) fn missing(table: TableId, snapshot: Csn) -> Error {
    Error::new(ErrorKind::NotFound, format!("{table:?} does not exist at {snapshot:?}"))
}
