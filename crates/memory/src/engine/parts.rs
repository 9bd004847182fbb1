//! The parts of an engine that each operation needs.

use super::checkpoint::CheckpointFiles;
use super::checkpoint_space::SpaceCheck;
use super::compact::LogCompaction;
use super::evict::Eviction;
use super::holes::Holes;
use super::inner::Inner;
use super::install::Installer;
use super::load::KeyLoader;
use super::opening::Opening;
use super::prefetch::ReadAhead;
use super::put::RowWriter;
use super::read::RowReader;
use super::removal::Removal;

impl Inner {
    #[inline]
    pub(super) fn rows(&self) -> RowWriter<'_> {
        let Inner { store, segments, pins, collector, .. } = self;
        RowWriter { store, segments, pins, collector }
    }

    #[inline]
    pub(super) fn keys(&self) -> KeyLoader<'_> {
        KeyLoader { rows: self.rows(), health: &self.health, closed: &self.work.closed }
    }

    #[inline]
    pub(super) fn reader(&self) -> RowReader<'_> {
        RowReader { keys: self.keys(), log: &self.log, budget: &self.budget }
    }

    #[inline]
    pub(super) fn ahead(&self) -> ReadAhead<'_> {
        ReadAhead { reader: self.reader(), queues: &self.idle_queues, disk: &*self.disk }
    }

    #[inline]
    pub(super) fn installer(&self) -> Installer<'_> {
        let Inner { tables, checkpoints, unplaced, .. } = self;
        Installer { keys: self.keys(), tables, checkpoints, unplaced }
    }

    pub(super) fn eviction(&self) -> Eviction<'_> {
        let Inner { store, pins, tables, evictor, .. } = self;
        Eviction { store, pins, tables, evictor }
    }

    pub(super) fn removal(&self) -> Removal<'_> {
        Removal { rows: self.rows(), tables: &self.tables, log: &self.log }
    }

    pub(super) fn checkpoint_files(&self) -> CheckpointFiles<'_> {
        let Inner { dir, store, segments, tables, checkpoints, counts, .. } = self;
        let disk = &*self.disk;
        CheckpointFiles { disk, dir, store, segments, tables, checkpoints, counts }
    }

    pub(super) fn space_check(&self) -> SpaceCheck<'_> {
        let Inner { dir, segments, tables, checkpoints, work, .. } = self;
        SpaceCheck { disk: &*self.disk, dir, segments, tables, checkpoints, work }
    }

    pub(super) fn log_compaction(&self) -> LogCompaction<'_> {
        let Inner { settings, dir, store, segments, pins, tables, .. } = self;
        let Inner { checkpoints, counts, budget, .. } = self;
        LogCompaction {
            settings,
            disk: &*self.disk,
            dir,
            store,
            segments,
            pins,
            tables,
            checkpoints,
            counts,
            budget,
        }
    }

    pub(super) fn holes(&self) -> Holes<'_> {
        let Inner { store, segments, tables, work, counts, .. } = self;
        Holes { store, segments, tables, work, counts }
    }

    pub(super) fn opening(&self) -> Opening<'_> {
        let Inner { settings, dir, budget, tables, checkpoints, .. } = self;
        let (disk, keys) = (&*self.disk, self.keys());
        Opening { settings, disk, dir, budget, keys, tables, checkpoints }
    }
}
