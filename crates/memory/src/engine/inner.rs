//! The parts of an engine.

use std::path::PathBuf;
use std::sync::Arc;

use spillway_base::budget::Budget;
use spillway_base::sync::atomic::AtomicU64;
use spillway_storage::async_reads::{AsyncReadSettings, AsyncReads};
use spillway_storage::{Disk, IdleQueues};

use super::checkpoints::Checkpoints;
use super::collector::Collector;
use super::evictor::Evictor;
use super::page_collapse::PageCollapse;
use super::table_set::TableSet;
use super::unplaced::UnplacedCommits;
use super::work_state::Work;
use crate::log_reads::{LogReads, RowRead};
use crate::pins::Pins;
use crate::segments::Segments;
use crate::store::Store;
use spillway_base::failure::Failure;

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

impl MemorySettings {
    /// The bytes that kept segments with `live` live bytes may take.
    pub(super) fn space_allowed(&self, live: u64) -> u64 {
        (live as f64 * self.space_max) as u64 + self.space_rest
    }
}

/// Counts of the background work since the opening.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) checkpoints: AtomicU64,
    pub(super) checkpoint_bytes: AtomicU64,
    pub(super) compacted_bytes: AtomicU64,
    pub(super) released: AtomicU64,
    pub(super) punched_bytes: AtomicU64,
}

/// The state that the clones of an engine share.
pub(super) struct Inner {
    pub(super) settings: MemorySettings,
    pub(super) disk: Arc<dyn Disk>,
    pub(super) dir: PathBuf,
    pub(super) budget: Budget,
    pub(super) store: Store,
    pub(super) segments: Arc<Segments>,
    pub(super) log: Arc<LogReads>,
    /// Reads that waiting statements have begun.
    pub(super) async_reads: AsyncReads<RowRead>,
    /// I/O queues for callers that read several rows at once.
    pub(super) idle_queues: IdleQueues,
    pub(super) pins: Arc<Pins>,
    pub(super) tables: TableSet,
    pub(super) unplaced: UnplacedCommits,
    pub(super) collector: Collector,
    pub(super) evictor: Evictor,
    pub(super) checkpoints: Checkpoints,
    pub(super) work: Work,
    pub(super) page_collapse: PageCollapse,
    pub(super) health: Failure,
    pub(super) counts: Counts,
}

/// The memory engine. Cheap to clone; clones share the engine.
#[derive(Clone)]
pub struct MemoryEngine(pub(super) Arc<Inner>);
