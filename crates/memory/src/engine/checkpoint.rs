//! Dataless checkpoints (HiEngine, section 4.3): they write the changed pages of indirection
//! arrays, and the indexes that have new keys, but no rows. They block neither reads nor writes.
//!
//! A checkpoint writes the state at one CSN. The checkpoint pins this CSN, so the versions that a
//! snapshot at this CSN finds stay in memory (PINS-2). For each entry of an array, the checkpoint
//! writes the place of the version that this snapshot finds. If that version is a deletion that all
//! live snapshots see, the checkpoint writes the entry as empty. Otherwise a read may still depend
//! on the deletion ([`spillway_base::engine`], E4), so the checkpoint writes the deletion's place
//! with a mark.
//!
//! If an entry also has a version newer than the checkpoint's CSN, or the version that the snapshot
//! finds is a deletion, the checkpoint marks the entry's page as dirty again (ROWS-3), for the next
//! checkpoint. The file of an index may have keys of rows that were inserted after the checkpoint's
//! CSN. The entries of these rows are empty in the checkpoint, and the opening omits their keys.

use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use spillway_base::clock::{self, Clock};
use spillway_base::sync::atomic::Ordering;
use spillway_base::{Csn, Direction, ErrorKind, Result, thread};
use spillway_reclaim::epochs::Pin;
use spillway_storage::Disk;

use super::checkpoints::Checkpoints;
use super::inner::{Counts, Inner};
use super::table_set::TableSet;
use crate::index::Entries;
use crate::index_file::{IndexFile, IndexWriter};
use crate::manifest::{INDEX, Manifest, PAGES, PageFile, TableFiles, file_name};
use crate::pins::Pinned;
use crate::rows::PAGE_ENTRIES;
use crate::segments::{Home, Segments};
use crate::store::Store;
use crate::stream::Writer;
use crate::table::Table;
use crate::version::Content;
use crate::version::{Target, Word};

/// The number of index entries to collect at a time.
const COLLECTED: usize = 1024;
/// Once a table's page files have more than this many times its pages, they are rewritten as one
/// file.
const PAGES_TIMES: u64 = 2;
/// A checkpoint waits until the places of commits are known: the time between checks, and their
/// number.
const PLACING_NAP: Duration = Duration::from_millis(1);
const PLACING_TRIES: usize = 2000;

/// The snapshot that a checkpoint writes.
struct CheckpointSnapshot {
    csn: Csn,
    /// Deletions up to this CSN are not written. The watermark is held until the index is written,
    /// so that a deletion in a page has its key in the index (PINS-3).
    watermark: Csn,
    _pins: [Pinned; 2],
}

/// The dirty pages that a checkpoint has taken: if it fails, they are marked again.
type Taken = Vec<(Arc<Table>, Vec<u64>)>;

impl Inner {
    /// The snapshot of the next checkpoint: it is stable, and the places of all commits up to it
    /// are known. `None` if the thread that reports the places takes too long.
    fn checkpoint_snapshot(&self) -> Option<CheckpointSnapshot> {
        let (held, watermark) = self.pins.hold();
        let csn = self.pins.stable();
        let pins = [held, self.pins.pin(csn)];
        let snapshot = CheckpointSnapshot { csn, watermark, _pins: pins };
        for _ in 0..PLACING_TRIES {
            if self.unplaced.is_placed(csn, &self.store) {
                return Some(snapshot);
            }
            thread::blocking(|| Clock::system().sleep(PLACING_NAP));
        }
        None
    }

    /// Writes a checkpoint of the stable state (MEMORY-3), if there is anything to write.
    pub(super) fn checkpoint(&self) -> Result<()> {
        self.checkpoint_if(|csn, last| csn > last || self.segments.bytes_waiting() > 0).map(drop)
    }

    /// Writes a checkpoint if `is_due`, which is given the CSNs of this checkpoint and of the last.
    /// Returns `false` if it is not due, or if the places of commits are not known in time.
    pub(super) fn checkpoint_if(&self, is_due: impl FnOnce(Csn, Csn) -> bool) -> Result<bool> {
        let mut last = self.checkpoints.last.lock();
        self.health.check()?;
        let Some(snapshot) = self.checkpoint_snapshot() else { return Ok(false) };
        let csn = snapshot.csn;
        if !is_due(csn, last.csn) {
            return Ok(false);
        }
        let first_file = self.checkpoints.files.load(Ordering::Relaxed);
        let mut taken = Taken::default();
        // The checkpoint needs the whole indexes (LOADING-3).
        let loaded = self.keys().load_all(&self.tables);
        let outcome = loaded
            .and_then(|()| self.checkpoint_files().write_checkpoint(&last, &snapshot, &mut taken));
        match outcome {
            Ok(manifest) => {
                self.segments.end_checkpoint(manifest.number);
                self.checkpoints.recorded.fetch_max(csn.0, Ordering::AcqRel);
                let shown = (Arc::new(manifest.clone()), Some(clock::now()));
                *self.checkpoints.shown.lock() = Some(shown);
                *last = manifest;
                self.counts.checkpoints.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => {
                for (table, pages) in taken {
                    pages.into_iter().for_each(|page| table.rows.mark_again(page));
                }
                if error.kind() == ErrorKind::DiskFull {
                    self.checkpoint_files().remove_unfinished(first_file);
                } else {
                    self.health.record(&error);
                }
                return Err(error);
            }
        }
        let manifest = last.clone();
        drop(last);
        self.checkpoint_files().remove_files(&manifest).map(|()| true)
    }
}

/// The parts of the engine that the files of checkpoints need.
pub(super) struct CheckpointFiles<'e> {
    pub(super) disk: &'e dyn Disk,
    pub(super) dir: &'e Path,
    pub(super) store: &'e Store,
    pub(super) segments: &'e Segments,
    pub(super) tables: &'e TableSet,
    pub(super) checkpoints: &'e Checkpoints,
    pub(super) counts: &'e Counts,
}

impl CheckpointFiles<'_> {
    fn path_of(&self, number: u64, kind: &str) -> PathBuf {
        self.dir.join(file_name(number, kind))
    }

    /// Returns the space of a checkpoint that met a full disk. If the sync of its manifest's name
    /// failed, an opening may find this manifest, so the files that it names stay.
    fn remove_unfinished(&self, first_file: u64) {
        let Ok(found) = Manifest::read(self.disk, self.dir) else { return };
        let named: Vec<u64> = found.iter().flat_map(Manifest::file_numbers).collect();
        let files = first_file..self.checkpoints.files.load(Ordering::Relaxed);
        for number in files.filter(|number| !named.contains(number)) {
            for kind in [PAGES, INDEX] {
                // Most of these files do not exist. The next checkpoint removes what stays here.
                let _ = self.disk.remove(&self.path_of(number, kind));
            }
        }
        Manifest::remove_unfinished(self.disk, self.dir);
        // The file system may free the space only once the names are gone for good.
        let _ = self.disk.sync_dir(self.dir);
    }

    fn write_checkpoint(
        &self,
        last: &Manifest,
        at: &CheckpointSnapshot,
        taken: &mut Taken,
    ) -> Result<Manifest> {
        let csn = at.csn;
        let number = self.segments.begin_checkpoint();
        let mut tables: Vec<Arc<Table>> = self.tables.load().values().cloned().collect();
        tables.retain(|table| table.exists_at(csn));
        tables.sort_unstable_by_key(|table| table.id);
        let mut manifest = Manifest { number, csn, ..Manifest::default() };
        for table in &tables {
            let before = last.tables.iter().find(|files| files.id == table.id);
            taken.push((table.clone(), Vec::new()));
            let (_, pages) = taken.last_mut().expect("it was pushed");
            manifest.tables.push(self.write_table(table, before, last.csn, at, pages)?);
        }
        // Read after the pages were written, so that it includes every segment that they name.
        let named = self.segments.iter().filter(|(_, segment)| segment.home() != Home::Released);
        manifest.segments = named.map(|(handle, segment)| (handle, segment.origin)).collect();
        manifest.files = self.checkpoints.files.load(Ordering::Relaxed);
        self.disk.sync_dir(self.dir)?;
        let bytes = manifest.write(self.disk, self.dir)?;
        self.counts.checkpoint_bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(manifest)
    }

    fn write_table(
        &self,
        table: &Table,
        before: Option<&TableFiles>,
        last: Csn,
        at: &CheckpointSnapshot,
        taken: &mut Vec<u64>,
    ) -> Result<TableFiles> {
        // Read before any page is written: rows that are folded meanwhile are hidden from this
        // snapshot.
        let mut ranges = table.ranges().to_vec();
        ranges.retain(|range| range.csn <= at.csn);
        let mut files = TableFiles {
            id: table.id,
            created: table.created,
            index: IndexFile::default(),
            pages: before.map_or_else(Vec::new, |before| before.pages.clone()),
            ranges,
        };
        let pages = table.rows.end().div_ceil(PAGE_ENTRIES);
        let written: u64 = files.pages.iter().map(|file| file.pages).sum();
        let whole = before.is_none() || written > PAGES_TIMES * pages;
        if whole {
            files.pages.clear();
            table.rows.mark_all();
        }
        files.pages.extend(self.write_pages(table, pages, at, taken)?);
        match before {
            Some(before) if table.last_insert() <= last => {
                files.index = before.index;
            }
            _ => files.index = self.write_index(table)?,
        }
        Ok(files)
    }

    /// Writes the dirty pages into a stream ([`crate::stream`]). Writes no file if there are none.
    /// Of each page: its number (u64), then the words of its [`PAGE_ENTRIES`] entries
    /// (`version/word.rs`; u64 each, little-endian). A block of the stream has whole pages.
    fn write_pages(
        &self,
        table: &Table,
        pages: u64,
        at: &CheckpointSnapshot,
        taken: &mut Vec<u64>,
    ) -> Result<Option<PageFile>> {
        let mut file: Option<(u64, Writer)> = None;
        let mut written = 0;
        for page in 0..pages {
            if !table.rows.take_mark(page) {
                continue;
            }
            taken.push(page);
            let (words, newer) = self.page_at(table, page, at);
            if newer {
                table.rows.mark_again(page);
            }
            if file.is_none() {
                let number = self.checkpoints.next_file();
                let path = self.path_of(number, PAGES);
                file = Some((number, Writer::create(self.disk, &path, number)?));
            }
            let (_, writer) = file.as_mut().expect("it was created");
            writer.put(|out| {
                out.extend_from_slice(&page.to_le_bytes());
                words.iter().for_each(|word| out.extend_from_slice(&word.0.to_le_bytes()));
            })?;
            written += 1;
        }
        let Some((number, writer)) = file else { return Ok(None) };
        let bytes = writer.finish()?;
        self.counts.checkpoint_bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(Some(PageFile { number, pages: written }))
    }

    /// The entries of a page as a snapshot sees them ([`entry_at`]). Also returns whether
    /// the next checkpoint must write the page again.
    fn page_at(&self, table: &Table, page: u64, at: &CheckpointSnapshot) -> (Vec<Word>, bool) {
        let (pin, mut again) = (self.store.pin(), false);
        let begin = page * PAGE_ENTRIES;
        let words = (begin..begin + PAGE_ENTRIES).map(|slot| {
            let (word, newer) = entry_at(self.store, table, slot, at.csn, at.watermark, &pin);
            again |= newer;
            word
        });
        (words.collect(), again)
    }

    fn write_index(&self, table: &Table) -> Result<IndexFile> {
        let number = self.checkpoints.next_file();
        let path = self.path_of(number, INDEX);
        let mut writer = IndexWriter::create(self.disk, &path, number)?;
        let (mut entries, mut last) = (Entries::default(), None::<Vec<u8>>);
        loop {
            let from = last.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
            let pin = self.store.pin();
            let direction = Direction::Forward;
            let until = Bound::Unbounded;
            table.index.collect((from, until), direction, COLLECTED, &mut entries, &pin);
            drop(pin);
            entries.iter().try_for_each(|(key, rid)| writer.add(key, rid))?;
            let count = entries.len();
            if count < COLLECTED {
                break;
            }
            last = Some(entries.key(count - 1).to_vec());
        }
        let (file, bytes) = writer.finish()?;
        self.counts.checkpoint_bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(file)
    }

    /// Removes the files that the last checkpoint does not name, and releases dead segments.
    pub(super) fn remove_files(&self, manifest: &Manifest) -> Result<()> {
        self.segments.note_kept_if_changed()?;
        if self.segments.is_pinned() {
            return Ok(());
        }
        for (segment, _) in self.segments.kept() {
            if self.segments.is_dead(segment) && self.segments.release(segment)? {
                self.counts.released.fetch_add(1, Ordering::Relaxed);
            }
        }
        let mut named: Vec<u64> = manifest.file_numbers().collect();
        named.sort_unstable();
        for name in self.disk.list(self.dir)? {
            let Some((number, kind)) = name.split_once('.') else { continue };
            let Ok(number) = u64::from_str_radix(number, 16) else { continue };
            let of_checkpoint = matches!(kind, PAGES | INDEX);
            // Files with larger numbers may belong to a checkpoint in progress.
            if of_checkpoint && number < manifest.files && named.binary_search(&number).is_err() {
                self.disk.remove(&self.dir.join(name))?;
            }
        }
        Ok(())
    }
}

/// An entry as the snapshot at `csn` sees it. The lock bit marks a deletion; a deletion up to
/// `watermark` is left out. Also returns whether the entry has a newer version or is a
/// deletion.
pub(super) fn entry_at(
    store: &Store,
    table: &Table,
    slot: u64,
    csn: Csn,
    watermark: Csn,
    pin: &Pin<'_>,
) -> (Word, bool) {
    let mut newer = false;
    let mut word = table.rows.entry(slot).map_or(Word::EMPTY, |entry| entry.load());
    while let Target::Version(at) = word.target() {
        let version = store.version(at, pin);
        if version.csn() > csn {
            newer = true;
            word = version.next();
            continue;
        }
        newer |= version.is_deletion();
        word = match (version.content(), version.place()) {
            (Content::Deleted(_), _) if version.csn() <= watermark => Word::EMPTY,
            (Content::Deleted(_), Ok(place)) => Word::place(place).locked(),
            (_, Ok(place)) => Word::place(place),
            (_, Err(_)) => unreachable!("commits up to the checkpoint are placed"),
        };
    }
    (word, newer)
}
