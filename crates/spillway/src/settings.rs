//! The settings of a database.

use std::path::PathBuf;
use std::time::Duration;

use spillway_base::{Error, Result};
use spillway_tiered::{CompactionKind, Compression, Tier};
use spillway_txn::{Durability, LOCK_WAIT};

use crate::mechanism::Mechanism;

/// Settings of a database. Memory and cores are enough to run well. The other settings have
/// defaults.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Settings {
    /// The memory budget in bytes, for everything: memtables, caches, rows of the memory engine,
    /// open transactions, connections.
    pub memory_bytes: usize,
    /// The estimated bytes of writes that a transaction keeps in memory. It spills further writes
    /// to data files. `None` for a sixteenth of the memory.
    pub transaction_bytes_max: Option<usize>,
    /// Cores to use for background work.
    pub cores: usize,
    /// When a commit is acknowledged, unless its transaction sets it.
    pub durability: Durability,
    /// How long a transaction waits for a lock, unless its options set it.
    pub lock_wait: Duration,
    /// The log's folder, for example on a device of its own; `None` for the folder `log` in the
    /// database's own. Each opening must use the same folder, or that folder moved.
    pub log_dir: Option<PathBuf>,
    /// Size of a log segment, in bytes.
    pub log_segment_bytes: u64,
    /// Lanes of the log: queues of commits, each with files of its own that are written and synced
    /// separately. May differ from one opening to the next. `None` for one lane for eight cores if
    /// the log's device gains from several lanes, which [`crate::Database::open`] measures.
    pub log_lanes: Option<usize>,
    /// Threads that read the log back at an opening.
    pub recovery_threads: usize,
    /// If the log has more bytes than this, the engines are asked to write the oldest commits in it
    /// to their own files.
    pub log_bytes_max: u64,
    /// Whether background work runs on threads of the database. Without them, as in a simulation,
    /// the caller runs [`crate::Database::run_background_job`].
    pub background_threads: bool,
    /// Mechanisms that are switched off, to measure their effect.
    #[cfg(any(test, feature = "ablation"))]
    pub without: Vec<Mechanism>,
    /// Folders for data files on devices of other classes, one of each class; see [`crate::Tier`].
    /// The data folder counts as `ssd` unless another folder is given as `ssd`. Level0 and Level1,
    /// which are written often, are on the fastest device. Level2, which has nearly all data, is on
    /// the slowest. If a device is full, its data goes to another. A folder that is no longer given
    /// is used until it is empty.
    pub tiers: Vec<Tier>,
    /// Compression of recently written data: Level0 and Level1.
    pub hot_compression: Compression,
    /// Compression of all other data: Level2.
    pub cold_compression: Compression,
    /// The ceiling on space amplification, between 1.1 and 10: the bytes that a table's extents may
    /// take for each byte in use in Level2, which has about one version of each row. The size of
    /// six memtables is allowed in addition. Of the part above 1, a quarter may be dead blocks in
    /// Level2, where compactions merge extents ([`CompactionKind::SelfMajor`]); the rest may be
    /// newer versions in the levels above. A value nearer to 1 takes less space, and writes several
    /// times as much, because compactions move versions down sooner. From 2 on, the size of the
    /// levels above Level2 is chosen for speed, and more of Level2 may be dead.
    pub space_max: f64,
    /// The kinds of compactions to choose first if several are due (X-Engine, section 3.3.3). The
    /// kinds of [`CompactionKind::ORDER`] that it does not name follow, in that order. A compaction
    /// without which writers would soon be slowed comes before all of them.
    pub compaction_order: Vec<CompactionKind>,
    /// A compaction removes deleted rows where 2 MB have at least this many of them, if they are a
    /// quarter of the rows there. At least 1. A lower number frees space sooner and writes more.
    pub deletions_min: u64,
    /// Once a table was not written to for this time, its data above Level2 is compressed as Level2
    /// is. [`Duration::MAX`] for never.
    pub settle_after: Duration,
    /// Whether memtable flushes and compactions merge everything a second time in another way and
    /// compare the results byte by byte. This takes about three times the processor time. Use it
    /// when you change merging or distrust a machine. `tiered_checked_merges_total` counts the
    /// merges whose results agree, and `tiered_refused_merges_total` the others. The status of a
    /// table shows its last refused merge.
    pub check_merges: bool,
    /// Whether reads and writes of data files bypass the system's page cache, if the file system
    /// can. Data is then in memory only once, within the budget, and a read from a device takes
    /// half of the system time. If it is off, the system also caches recently read and written
    /// data, in free memory outside the budget.
    pub direct_reads: bool,
    /// Size of an extent's slot, in bytes. It is fixed when the folder is made. Sizes below the
    /// default are useful only in tests.
    pub slot_bytes: usize,
}

/// The fraction of the memory that a transaction's writes may take before it spills them.
const TRANSACTION_SHARE: usize = 16;
/// The least memory that a database runs with.
const MEMORY_BYTES_MIN: usize = 16 << 20;

impl Default for Settings {
    fn default() -> Settings {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        Settings {
            memory_bytes: 1 << 30,
            transaction_bytes_max: None,
            cores,
            log_lanes: None,
            recovery_threads: cores,
            durability: Durability::Commit,
            lock_wait: LOCK_WAIT,
            log_dir: None,
            log_segment_bytes: 64 << 20,
            log_bytes_max: 1 << 30,
            background_threads: true,
            #[cfg(any(test, feature = "ablation"))]
            without: Vec::new(),
            tiers: Vec::new(),
            hot_compression: Compression::None,
            cold_compression: Compression::ZSTD,
            space_max: 2.0,
            compaction_order: CompactionKind::ORDER.into(),
            deletions_min: 1000,
            settle_after: Duration::from_secs(10),
            check_merges: false,
            direct_reads: false,
            slot_bytes: 2 << 20,
        }
    }
}

/// The allowed range of the ceiling on space amplification. A lower ceiling could not be kept,
/// because no extent is filled to its last block. A higher one, at which less than a tenth would be
/// in use, limits nothing.
const SPACE_MAX: std::ops::RangeInclusive<f64> = 1.1..=10.0;
/// The most lanes that a log can have.
const LANES_MAX: usize = 64;

/// According to the paper, one queue serves eight threads well (X-Engine, section 3.2.2).
fn lanes_for(cores: usize) -> usize {
    cores.div_ceil(8).clamp(1, LANES_MAX)
}

/// Joins the values with commas, as the command line takes them.
fn listed<T: ToString>(all: &[T]) -> String {
    all.iter().map(T::to_string).collect::<Vec<_>>().join(",")
}

impl Settings {
    /// The lanes of the log, or their maximum if `log_lanes` is unset and the log's device decides.
    #[must_use]
    pub fn lanes_most(&self) -> usize {
        self.log_lanes.unwrap_or_else(|| lanes_for(self.cores))
    }

    /// The bytes of one transaction's writes that are kept in memory.
    #[must_use]
    pub fn transaction_bytes(&self) -> usize {
        self.transaction_bytes_max.unwrap_or(self.memory_bytes / TRANSACTION_SHARE)
    }

    /// Whether a mechanism is switched on. It always is, except in benchmark builds (feature
    /// `ablation`).
    #[doc(hidden)]
    #[must_use]
    pub fn has(&self, mechanism: Mechanism) -> bool {
        #[cfg(any(test, feature = "ablation"))]
        let off = self.without.contains(&mechanism);
        #[cfg(not(any(test, feature = "ablation")))]
        let off = {
            let _ = mechanism;
            false
        };
        !off
    }

    /// All kinds of compactions in the requested order.
    pub(crate) fn all_in_order(&self) -> Vec<CompactionKind> {
        let mut all = self.compaction_order.clone();
        all.extend(
            CompactionKind::ORDER.into_iter().filter(|kind| !self.compaction_order.contains(kind)),
        );
        all
    }

    /// The name, with its unit, and the text of each setting, as `SHOW VARIABLES` shows them. The
    /// lock wait time is not among them, because each session sets its own.
    #[must_use]
    pub fn shown(&self) -> Vec<(&'static str, String)> {
        let Settings {
            memory_bytes,
            transaction_bytes_max: _,
            cores,
            durability,
            lock_wait: _,
            log_dir,
            log_segment_bytes,
            log_lanes,
            recovery_threads,
            log_bytes_max,
            background_threads,
            #[cfg(any(test, feature = "ablation"))]
                without: _,
            tiers,
            hot_compression,
            cold_compression,
            space_max,
            compaction_order: _,
            deletions_min,
            settle_after,
            check_merges,
            direct_reads,
            slot_bytes,
        } = self;
        let flag = |on: &bool| if *on { "ON" } else { "OFF" }.to_owned();
        let dir = log_dir.as_ref().map(|dir| dir.display().to_string());
        vec![
            ("background_threads", flag(background_threads)),
            ("check_merges", flag(check_merges)),
            ("cold_compression", cold_compression.to_string()),
            ("compaction_order", listed(&self.all_in_order())),
            ("cores", cores.to_string()),
            ("deletions_min", deletions_min.to_string()),
            ("direct_reads", flag(direct_reads)),
            ("durability", durability.to_string()),
            ("hot_compression", hot_compression.to_string()),
            ("log_bytes_max", log_bytes_max.to_string()),
            ("log_dir", dir.unwrap_or_default()),
            ("log_lanes", log_lanes.map_or("auto".to_owned(), |lanes| lanes.to_string())),
            ("log_segment_bytes", log_segment_bytes.to_string()),
            ("memory_bytes", memory_bytes.to_string()),
            ("recovery_threads", recovery_threads.to_string()),
            ("settle_after", settle_after.as_secs_f64().to_string()),
            ("slot_bytes", slot_bytes.to_string()),
            ("space_max", space_max.to_string()),
            ("tiers", listed(tiers)),
            ("transaction_bytes_max", self.transaction_bytes().to_string()),
        ]
    }

    pub(crate) fn validate(&self) -> Result<()> {
        if self.memory_bytes < MEMORY_BYTES_MIN {
            return Err(Error::invalid(format!(
                "memory_bytes is {}; a database needs at least {MEMORY_BYTES_MIN}",
                self.memory_bytes
            )));
        }
        if self.cores == 0 {
            return Err(Error::invalid("cores is 0; a database needs at least 1"));
        }
        if !(1..=LANES_MAX).contains(&self.log_lanes.unwrap_or(1)) {
            return Err(Error::invalid("log_lanes must be between 1 and 64"));
        }
        if self.recovery_threads == 0 {
            return Err(Error::invalid("recovery_threads is 0; an opening needs at least 1"));
        }
        if !(8 << 10..=1 << 40).contains(&self.log_segment_bytes) {
            return Err(Error::invalid("log_segment_bytes must be between 8 KiB and 1 TiB"));
        }
        if !(4 << 10..=64 << 20).contains(&self.slot_bytes) || !self.slot_bytes.is_multiple_of(4096)
        {
            return Err(Error::invalid(
                "slot_bytes must be a multiple of 4096 between 4 KiB and 64 MiB",
            ));
        }
        if !SPACE_MAX.contains(&self.space_max) {
            let (least, most) = (SPACE_MAX.start(), SPACE_MAX.end());
            return Err(Error::invalid(format!(
                "space_max is {}; it must be between {least} and {most}",
                self.space_max
            )));
        }
        if self.deletions_min == 0 {
            return Err(Error::invalid("deletions_min is 0; it must be at least 1"));
        }
        for (at, kind) in self.compaction_order.iter().enumerate() {
            if !CompactionKind::ORDER.contains(kind) {
                return Err(Error::invalid(format!(
                    "compaction_order names {kind}, which no order is for"
                )));
            }
            if self.compaction_order[..at].contains(kind) {
                return Err(Error::invalid(format!("compaction_order names {kind} twice")));
            }
        }
        Ok(())
    }
}
