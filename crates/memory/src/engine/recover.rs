//! Opening: reads the last checkpoint, but not its keys ([`super::load`]). Afterwards recovery
//! passes the commits of the log's tail to `replay`, in any order and from many threads (HiEngine,
//! section 4.3). No row is read.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use spillway_base::budget::{Budget, GiveWay};
use spillway_base::engine::{Access, Horizon};
use spillway_base::lock::Mutex;
use spillway_base::sync::atomic::{AtomicUsize, Ordering};
use spillway_base::{Error, ErrorKind, Result, thread};
use spillway_storage::async_reads::AsyncReads;
use spillway_storage::plog::{KeptSegments, punch_all};
use spillway_storage::{Disk, File, IdleQueues, OpenMode};

use super::checkpoint::CheckpointFiles;
use super::checkpoints::Checkpoints;
use super::collector::{Collector, Item};
use super::evict::Giver;
use super::evictor::Evictor;
use super::inner::{Counts, Inner, MemorySettings};
use super::load_array::LoadedArray;
use super::opening::Opening;
use super::page_collapse::PageCollapse;
use super::put::RowWriter;
use super::table_set::{TableSet, Tables};
use super::unplaced::UnplacedCommits;
use super::work_state::Work;
use crate::index_file::IndexReader;
use crate::index_load::IndexLoad;
use crate::log_reads::LogReads;
use crate::manifest::{INDEX, Manifest, PAGES, ROWS, TableFiles, file_name};
use crate::pins::Pins;
use crate::segments::{CompactedFiles, Home, Origin, Segments};
use crate::store::Store;
use crate::table::Table;
use crate::version::{Content, Fields, Target, Word};
use spillway_base::failure::Failure;

/// The compacted segments of an engine's folder.
struct Files {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
}

pub(super) fn compacted_name(number: u64) -> String {
    file_name(number, ROWS)
}

impl CompactedFiles for Files {
    fn open(&self, number: u64) -> Result<Arc<dyn File>> {
        self.disk.open(&self.dir.join(compacted_name(number)), OpenMode::Read)
    }

    fn remove(&self, number: u64) -> Result<()> {
        match self.disk.remove(&self.dir.join(compacted_name(number))) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            outcome => outcome,
        }
    }

    fn punch(&self, number: u64, ranges: &[Range<u64>]) -> Result<bool> {
        let file = self.disk.open(&self.dir.join(compacted_name(number)), OpenMode::Write)?;
        punch_all(&*file, ranges)
    }
}

pub(super) fn open(
    disk: Arc<dyn Disk>,
    dir: &Path,
    settings: MemorySettings,
    log: Arc<dyn KeptSegments>,
    horizon: Arc<dyn Horizon>,
    budget: Budget,
) -> Result<Arc<Inner>> {
    disk.create_dir_all(dir)?;
    let manifest = Manifest::read(&*disk, dir)?.unwrap_or_default();
    let files = Box::new(Files { disk: disk.clone(), dir: dir.to_owned() });
    let segments = Arc::new(Segments::new(log, files, manifest.number));
    if !segments.restore(&manifest.segments) {
        return Err(Error::corruption("the memory engine's checkpoint names a segment twice"));
    }
    let (store, work) = (Store::new(&budget), Work::default());
    let inner = Arc::new(Inner {
        settings,
        dir: dir.to_owned(),
        tables: TableSet::new(store.epochs.clone(), &budget),
        store,
        log: Arc::new(LogReads::new(&segments, &budget, work.closed.clone())),
        segments,
        async_reads: AsyncReads::default(),
        idle_queues: IdleQueues::default(),
        pins: Pins::new(horizon),
        unplaced: UnplacedCommits::new(),
        collector: Collector::new(),
        evictor: Evictor::default(),
        checkpoints: Checkpoints::new(manifest.clone()),
        work,
        page_collapse: PageCollapse::default(),
        health: Failure::default(),
        counts: Counts::default(),
        disk,
        budget: budget.clone(),
    });
    inner.opening().load(&manifest)?;
    let giver: Arc<dyn GiveWay> = Arc::new(Giver(Arc::downgrade(&inner)));
    budget.gives_way(Arc::downgrade(&giver));
    inner.work.keep_giver(giver);
    inner.space_check().note();
    Ok(inner)
}

impl Opening<'_> {
    /// Loads the tables of a checkpoint, several at a time. Threads that are left share a table.
    fn load(&self, manifest: &Manifest) -> Result<()> {
        let next = AtomicUsize::new(0);
        let loaded: Mutex<Result<Tables>> = Mutex::new(Ok(Tables::default()));
        let threads = self.settings.recovery_threads;
        let threads_each = (threads / manifest.tables.len().max(1)).max(1);
        let work = |_: usize| {
            while let number = next.fetch_add(1, Ordering::Relaxed)
                && let Some(files) = manifest.tables.get(number)
            {
                let table = self.load_table(files, threads_each);
                let tables = &mut *loaded.lock();
                match (tables, table) {
                    (Ok(tables), Ok(table)) => _ = tables.insert(table.id, table),
                    (tables @ Ok(_), Err(error)) => *tables = Err(error),
                    (Err(_), _) => {}
                }
            }
        };
        match threads.min(manifest.tables.len()) {
            0 | 1 => work(0),
            threads => thread::together(threads, work),
        }
        self.tables.set(loaded.into_inner()?);
        Ok(())
    }

    fn load_table(&self, files: &TableFiles, threads: usize) -> Result<Arc<Table>> {
        let mut table = self.tables.new_table(files.id, files.created);
        table.note_insert(self.checkpoints.opened_at());
        for range in &files.ranges {
            table.add_range(range.clone());
        }
        let LoadedArray { empty, deletions } = self.load_array(&table, files, threads)?;
        let path = self.path_of(files.index.number, INDEX);
        let reader = IndexReader::open(self.disk, &path, &files.index)?;
        let has_keys = !reader.blocks.is_empty();
        table.begin_load(IndexLoad::new(reader, empty.rows(), empty, self.budget));
        let table = Arc::new(table);
        if let Some(load) = table.load().filter(|_| !has_keys) {
            self.keys.end_load(&table, load);
        }
        for slot in deletions {
            self.load_deletion(&table, files, slot)?;
        }
        Ok(table)
    }

    /// Makes the version of a row that was deleted, from its record. If the record is lost, the
    /// entry keeps its place, so that a read of the row reports the damage (LOG-READ-8 of
    /// [`spillway_base::log_place`]).
    fn load_deletion(&self, table: &Arc<Table>, files: &TableFiles, slot: u64) -> Result<()> {
        let RowWriter { store, segments, collector, .. } = self.keys.rows;
        let pin = store.pin();
        let mut entry = table.rows.lock(slot);
        let Target::Place(place) = entry.word().target() else {
            return Err(self.damaged(files, "a deletion is not at a place"));
        };
        let mut buffer = Vec::new();
        let record = match segments.read(place, true, &mut buffer) {
            Err(error) if error.kind() == ErrorKind::Corruption => return Ok(()),
            read => read?.expect("it was waited for"),
        };
        self.keys.load_key(table, record.key, Access::Blocking)?;
        let rid = table.index.get(record.key, &pin).filter(|rid| rid.slot() == slot);
        let Some(rid) = rid.filter(|_| record.value.is_none() && record.table == table.id) else {
            return Err(self.damaged(files, "another record is where a deletion ought to be"));
        };
        let version = store.make(&Fields {
            csn: record.csn,
            table: table.id.ordinal(),
            slot,
            place: Ok(place),
            content: Content::Deleted(record.key),
            next: Word::EMPTY,
        });
        entry.set(Word::version(version));
        drop(entry);
        collector.push(Item { table: table.clone(), rid, until: record.csn });
        Ok(())
    }
}

impl CheckpointFiles<'_> {
    /// After the log was replayed: notes which segments are there, and removes segments and files
    /// of checkpoints that nothing names.
    pub(super) fn settle(&self) -> Result<()> {
        for origin in self.segments.note_kept()? {
            self.segments.remove(origin)?;
        }
        for (handle, segment) in self.segments.iter() {
            let is_compacted = matches!(segment.origin, Origin::Compacted { .. });
            if segment.live() == 0 && !is_compacted {
                // If it is not there, the log may give its number to a new segment.
                continue;
            }
            match self.segments.file(handle) {
                Ok(file) if is_compacted => segment.set_home(Home::Kept(file.len()?)),
                Ok(_) => {}
                Err(error) if error.kind() != ErrorKind::Corruption => return Err(error),
                Err(_) if segment.live() == 0 => segment.set_home(Home::Released),
                Err(_) => segment.set_home(Home::Missing),
            }
        }
        let mut named: Vec<u64> = self.checkpoints.last().file_numbers().collect();
        named.sort_unstable();
        for name in self.disk.list(self.dir)? {
            let Some((number, kind)) = name.split_once('.') else { continue };
            let Ok(number) = u64::from_str_radix(number, 16) else { continue };
            let is_orphan = match kind {
                ROWS => self.segments.find(Origin::Compacted { number }).is_none(),
                // A checkpoint that a crash ended.
                PAGES | INDEX => named.binary_search(&number).is_err(),
                _ => false,
            };
            if is_orphan {
                self.disk.remove(&self.dir.join(name))?;
            }
        }
        Ok(())
    }
}
