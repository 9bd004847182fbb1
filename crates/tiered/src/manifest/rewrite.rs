//! Rewrites the manifest into a fresh file while edits continue.
//!
//! The goal: the time for which an edit waits for a rewrite does not grow with the manifest
//! (MANIFEST-3). A crash at any moment of a rewrite loses no edit (MANIFEST-4).
//!
//! 1. Under the manifest's lock, the rewrite clones the state, which copies one pointer for all
//!    extents of a table ([`super::extents`]). The clone is the *picture*. From then on, edits
//!    still go into the file in force, and the manifest also keeps their bytes in memory.
//! 2. Without the lock, the rewrite writes the picture to a new file, in pieces with a sync after
//!    each. The pieces keep the syncs of concurrent edits short: such a sync may have to wait until
//!    the file system has written other dirty data, and at most one piece of the picture is dirty
//!    at a time. The rewrite then writes the new `CURRENT` under a temporary name beside the old
//!    one.
//! 3. Without the lock, the rewrite appends the edits that were kept in memory meanwhile to the new
//!    file, in rounds, until few remain.
//! 4. Under the lock, the rewrite appends and syncs the remaining edits, switches `CURRENT` by a
//!    rename, and syncs the folder. Later edits go into the new file. The rewrite removes the old
//!    file after it has released the lock.
//!
//! Until the rename, the file in force has every edit. At the rename, both files have every edit.
//! So a crash at any operation leaves one file in force with all acknowledged edits, and a failure
//! before the rename changes nothing.
//!
//! Rejected: writing edits into both files from the beginning. Each edit would need two more syncs
//! during a rewrite.
//!
//! Rejected: reading the old file again to build the state that is written, instead of cloning the
//! state in memory. This would take the memory of a second state.
//!
//! Rejected: writing the state in parts under the lock, and releasing the lock between the parts.
//! It would need no copy-on-write tree, but every edit would have to check whether the part of the
//! state that it changes was already written.
//! state that it changes was already written.

use std::mem;
use std::path::PathBuf;
use std::sync::Arc;

use spillway_base::lock::Mutex;
use spillway_base::{Error, ErrorKind, Result, TableId};
use spillway_storage::{Disk, File};

use super::edit::{Edit, SetAside, State};
use super::fresh::Fresh;
use super::{Manifest, failed, file_name};
use crate::coding::Names;

/// The bytes of a piece. Tests have small pieces.
const PIECE_BYTES: usize = if cfg!(test) { 512 } else { 1 << 20 };
/// Kept edits of at most this many bytes are appended under the manifest's lock.
const KEPT_MOST: usize = if cfg!(test) { 128 } else { 256 << 10 };
/// The most rounds of appends without the lock. If threads record edits so fast that many are still
/// left, these are appended under the lock, and the threads wait meanwhile.
const ROUNDS_MAX: usize = 8;

/// Edits that were recorded since the rewrite took its picture, and that the fresh file lacks.
#[derive(Default)]
pub(super) struct KeptEdits {
    edits: Vec<u8>,
    /// The dictionaries that the added extents name.
    names: Vec<(TableId, Names)>,
}

impl KeptEdits {
    /// Adds edits that were just recorded; `payload` is that of their record.
    pub(super) fn add(&mut self, edits: &[Edit], payload: &[u8]) {
        self.edits.extend_from_slice(payload);
        self.names.extend(edits.iter().filter_map(|edit| match edit {
            Edit::AddExtent { table, meta } => Some((*table, meta.names.clone())),
            _ => None,
        }));
    }
}

/// A rewrite that has begun. Its owner ends it by [`Rewrite::run`].
#[must_use]
pub(crate) struct Rewrite {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    slot_bytes: u32,
    number: u64,
    picture: State,
}

/// The picture as a file, and the dictionaries left out of it, which no extent named.
struct WrittenPicture {
    fresh: Fresh,
    unnamed: SetAside,
}

/// A manifest's file that is no longer in force. It is kept open so that its space is freed only
/// when this is dropped.
struct Replaced {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    file: Arc<dyn File>,
}

impl Manifest {
    /// Begins a rewrite by taking its picture; `None` during another rewrite, and after a failure.
    pub(crate) fn begin_rewrite(&mut self) -> Option<Rewrite> {
        if self.kept.is_some() || self.failure.is_some() {
            return None;
        }
        self.kept = Some(KeptEdits::default());
        let (disk, dir, slot_bytes) = (self.disk.clone(), self.dir.clone(), self.slot_bytes);
        let (number, picture) = (self.number + 1, self.state.clone());
        Some(Rewrite { disk, dir, slot_bytes, number, picture })
    }

    /// Writes a fresh manifest while the caller has this one exclusively.
    ///
    /// # Errors
    /// As [`Rewrite::run`], which does not make edits wait.
    pub(crate) fn rewrite(&mut self) -> Result<()> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        let rewrite = self.begin_rewrite().expect("who has the manifest alone begins a rewrite");
        let told = rewrite.tell().map_err(|error| self.give_up(&error))?;
        self.switch(told).map(Replaced::remove)
    }

    /// Ends a failed rewrite, and returns its failure (MANIFEST-5).
    fn give_up(&mut self, error: &Error) -> Error {
        self.kept = None;
        if error.kind() == ErrorKind::DiskFull {
            // Without this, each edit would retry the rewrite.
            self.bytes_max = self.end + self.end / 2;
            return error.clone();
        }
        // `CURRENT` may name the fresh file now, so no edit may go into the old one.
        let failure = failed(error);
        self.failure.get_or_insert(failure).clone()
    }

    /// The kept edits, if they are too many to be appended under the manifest's lock.
    fn take_long(&mut self) -> Option<KeptEdits> {
        let kept = self.kept.as_mut()?;
        (kept.edits.len() > KEPT_MOST).then(|| mem::take(kept))
    }

    /// Appends the rest of the kept edits, and puts the fresh file in force.
    fn switch(&mut self, told: WrittenPicture) -> Result<Replaced> {
        let rest = self.kept.take().unwrap_or_default();
        if let Some(failure) = &self.failure {
            told.fresh.discard();
            return Err(failure.clone());
        }
        let switched = told.and(rest).and_then(|told| told.fresh.put_in_force().map(|()| told));
        let WrittenPicture { fresh, unnamed } = switched.map_err(|error| self.give_up(&error))?;
        for (table, id, _) in unnamed {
            // The table may have been dropped meanwhile.
            self.state.tables.get_mut(&table).map(|stored| stored.dictionaries.remove(&id));
        }
        let (number, file) = (mem::replace(&mut self.number, fresh.number), fresh.file);
        let file = mem::replace(&mut self.file, file);
        (self.end, self.sequence_next) = (fresh.end, fresh.sequence_next);
        self.bytes_max = self.bytes_max.max(2 * self.end);
        Ok(Replaced { disk: self.disk.clone(), path: self.dir.join(file_name(number)), file })
    }
}

impl Rewrite {
    /// Writes the fresh manifest and puts it in force. The manifest is locked only at the end, for
    /// a few syncs, regardless of its length.
    ///
    /// # Errors
    /// [`ErrorKind::DiskFull`]: the old one stays in force, and a later rewrite may succeed. After
    /// any other error the manifest has failed ([`Manifest::commit`]).
    pub(crate) fn run(self, manifest: &Mutex<Manifest>) -> Result<()> {
        self.run_with(manifest, &mut |_| ())
    }

    /// Calls `between` at each point where edits may be recorded, with nothing locked.
    pub(super) fn run_with(
        self,
        manifest: &Mutex<Manifest>,
        between: &mut dyn FnMut(&Mutex<Manifest>),
    ) -> Result<()> {
        between(manifest);
        let mut told = self.tell().map_err(|error| manifest.lock().give_up(&error))?;
        between(manifest);
        for _ in 0..ROUNDS_MAX {
            let Some(kept) = manifest.lock().take_long() else { break };
            told = told.and(kept).map_err(|error| manifest.lock().give_up(&error))?;
            between(manifest);
        }
        let replaced = manifest.lock().switch(told)?;
        between(manifest);
        replaced.remove();
        Ok(())
    }

    /// Writes the picture without the dictionaries that no extent names (DICTIONARY-2 of
    /// `coding/names`).
    fn tell(mut self) -> Result<WrittenPicture> {
        let unnamed = self.picture.set_aside_unnamed();
        let Rewrite { disk, dir, slot_bytes, number, picture } = &self;
        let fresh = Fresh::write((disk, dir), *slot_bytes, *number, picture, PIECE_BYTES)?;
        Ok(WrittenPicture { fresh, unnamed })
    }
}

impl WrittenPicture {
    /// Appends the kept edits, after the left-out dictionaries that their extents name
    /// (DICTIONARY-2 of `coding/names`).
    fn and(mut self, kept: KeptEdits) -> Result<WrittenPicture> {
        let mut edits = Vec::new();
        self.unnamed.retain(|(table, id, bytes)| {
            let named = kept.names.iter().any(|(of, names)| of == table && names.may_have(*id));
            if named {
                let (table, id, bytes) = (*table, *id, bytes.clone());
                Edit::AddDictionary { table, id, bytes }.encode(&mut edits);
            }
            !named
        });
        edits.extend(kept.edits);
        if edits.is_empty() {
            return Ok(self);
        }
        match self.fresh.append(&edits) {
            Ok(()) => Ok(self),
            Err(error) => {
                self.fresh.discard();
                Err(error)
            }
        }
    }
}

impl Replaced {
    fn remove(self) {
        // If the file stays, the next opening removes it.
        let _ = self.disk.remove(&self.path);
        drop(self.file);
    }
}
