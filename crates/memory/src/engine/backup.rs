//! Pins the engine's files at one moment, for backups.

use std::sync::Arc;

use spillway_base::{Csn, Result, thread};
use spillway_storage::plog::kept_file_name;
use spillway_storage::{File, OpenMode};

use super::checkpoint::CheckpointFiles;
use super::inner::{Inner, MemoryEngine};
use super::recover::compacted_name;
use crate::manifest::{INDEX, Manifest, NAME, PAGES, ROWS, file_name};
use crate::segments::Origin;

/// A file of a pin.
pub struct PinnedFile {
    /// Whether it belongs in the log's folder; otherwise in the engine's.
    pub in_log: bool,
    /// Its name in that folder.
    pub name: String,
    /// Its length, in bytes.
    pub len: u64,
    content: PinnedContent,
}

enum PinnedContent {
    File(Arc<dyn File>),
    Bytes(Vec<u8>),
}

impl PinnedFile {
    fn of(file: Arc<dyn File>, in_log: bool, name: String) -> Result<PinnedFile> {
        let len = file.len()?;
        Ok(PinnedFile { in_log, name, len, content: PinnedContent::File(file) })
    }

    /// Fills `bytes` from `offset`.
    ///
    /// # Errors
    /// [`spillway_base::ErrorKind::Io`].
    pub fn read_at(&self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        match &self.content {
            PinnedContent::File(file) => thread::blocking(|| file.read_at(offset, bytes)),
            PinnedContent::Bytes(content) => {
                let begin = offset as usize;
                bytes.copy_from_slice(&content[begin..begin + bytes.len()]);
                Ok(())
            }
        }
    }
}

/// A checkpoint and the segments that it names. None of its files is removed before this is
/// dropped. Meanwhile checkpoints and compactions continue, but release no segments.
pub struct MemoryPin {
    engine: Arc<Inner>,
    /// The checkpoint has exactly what a snapshot at this CSN sees.
    pub csn: Csn,
    /// Its files.
    pub files: Vec<PinnedFile>,
}

impl Drop for MemoryPin {
    fn drop(&mut self) {
        self.engine.segments.unpin();
    }
}

impl MemoryEngine {
    /// Writes a checkpoint and pins its files.
    ///
    /// # Errors
    /// Those of a checkpoint, [`spillway_base::ErrorKind::Corruption`],
    /// [`spillway_base::ErrorKind::Io`].
    pub fn pin(&self) -> Result<MemoryPin> {
        let _running = self.0.work.lock_running();
        self.0.settle_once()?;
        self.0.segments.pin();
        let mut pin = MemoryPin { engine: self.0.clone(), csn: Csn::ZERO, files: Vec::new() };
        self.0.checkpoint()?;
        let manifest = self.0.checkpoints.last();
        pin.csn = manifest.csn;
        if manifest.number > 0 {
            pin.files = self.0.checkpoint_files().pinned_files(&manifest)?;
        }
        Ok(pin)
    }
}

impl CheckpointFiles<'_> {
    fn pinned_files(&self, manifest: &Manifest) -> Result<Vec<PinnedFile>> {
        let mut files = Vec::new();
        let own = |name: String| {
            let file = self.disk.open(&self.dir.join(&name), OpenMode::Read)?;
            PinnedFile::of(file, false, name)
        };
        for table in &manifest.tables {
            let pages = table.pages.iter().map(|file| (file.number, PAGES));
            for (number, kind) in pages.chain([(table.index.number, INDEX)]) {
                files.push(own(file_name(number, kind))?);
            }
        }
        for (handle, origin) in &manifest.segments {
            let was_alive = |segment| self.segments.was_alive_in(segment, manifest.number);
            if !self.segments.get(*handle).is_some_and(was_alive) {
                continue;
            }
            match *origin {
                Origin::Compacted { number } => files.push(own(compacted_name(number))?),
                Origin::Log { lane, segment } => {
                    let file = self.segments.file(*handle)?;
                    files.push(PinnedFile::of(file, true, kept_file_name(lane, segment))?);
                }
            }
        }
        // Copied, because a later checkpoint replaces this file.
        let checkpoint = own(NAME.to_owned())?;
        let mut bytes = vec![0; checkpoint.len as usize];
        checkpoint.read_at(0, &mut bytes)?;
        files.push(PinnedFile { content: PinnedContent::Bytes(bytes), ..checkpoint });
        Ok(files)
    }
}

/// Whether [`MemoryPin::files`] may have a file of this name. A restore writes to no other names.
#[must_use]
pub fn is_pinned_name(in_log: bool, name: &str) -> bool {
    let of =
        |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
    match name.split_once('.') {
        Some((number, "kept")) => in_log && of(number),
        Some((number, PAGES | INDEX | ROWS)) => !in_log && of(number),
        _ => !in_log && name == NAME,
    }
}
