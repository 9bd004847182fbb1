//! A manifest file that is being written and is not in force yet.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use spillway_base::Result;
use spillway_base::checksum::crc32c;
use spillway_storage::{Disk, File, OpenMode};

use super::edit::State;
use super::record::{encode_record, encode_record_of};
use super::{CURRENT, encode_state, failed, file_name};

/// The first sequence number after the two records, state and seal, of a fresh manifest.
const SEQUENCE_FIRST: u64 = 3;

/// A fresh manifest file, which only a rename puts in force.
pub(super) struct Fresh {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    pub(super) number: u64,
    pub(super) file: Arc<dyn File>,
    pub(super) end: u64,
    pub(super) sequence_next: u64,
}

fn pointer(dir: &Path) -> PathBuf {
    dir.join("CURRENT.new")
}

impl Fresh {
    /// Writes this state to the file of a number, in pieces of `piece` bytes, each durable before
    /// the next. After a failure the file is removed if possible.
    ///
    /// # Errors
    /// [`spillway_base::ErrorKind::DiskFull`], [`spillway_base::ErrorKind::Io`]. The manifest in
    /// force is unchanged.
    pub(super) fn write(
        (disk, dir): (&Arc<dyn Disk>, &Path),
        slot_bytes: u32,
        number: u64,
        state: &State,
        piece: usize,
    ) -> Result<Fresh> {
        let bytes = encode_state(state, slot_bytes, number);
        let path = dir.join(file_name(number));
        let digits = number.to_string();
        let text = format!("{digits} {}\n", crc32c(digits.as_bytes()));
        let made = || -> Result<Arc<dyn File>> {
            let file = disk.open(&path, OpenMode::Create)?;
            file.allocate(0, bytes.len() as u64)?;
            let mut at = 0;
            for bytes in bytes.chunks(piece) {
                file.write_and_sync(at, bytes)?;
                at += bytes.len() as u64;
            }
            let current = disk.open(&pointer(dir), OpenMode::Create)?;
            current.write_at(0, text.as_bytes())?;
            // Of the whole file: a crash may have left a longer one of this name, and
            // `write_and_sync` does not make it durable that the file was emptied.
            current.sync()?;
            disk.sync_dir(dir)?;
            Ok(file)
        };
        let file = made().inspect_err(|_| remove(&**disk, dir, number))?;
        let (disk, dir) = (disk.clone(), dir.to_owned());
        let (end, sequence_next) = (bytes.len() as u64, SEQUENCE_FIRST);
        Ok(Fresh { disk, dir, number, file, end, sequence_next })
    }

    /// Appends edits, which take effect together. They are durable in this file when this returns.
    ///
    /// # Errors
    /// As [`Fresh::write`]; then the file must not be used.
    pub(super) fn append(&mut self, edits: &[u8]) -> Result<()> {
        let mut bytes = Vec::with_capacity(edits.len() + 64);
        encode_record_of(&mut bytes, self.sequence_next, |out| out.extend_from_slice(edits));
        encode_record(&mut bytes, self.sequence_next + 1, &[]);
        // No opening reads the file before it is in force, so edits and seal need only one sync.
        self.file.write_and_sync(self.end, &bytes)?;
        self.end += bytes.len() as u64;
        self.sequence_next += 2;
        Ok(())
    }

    /// Puts the file in force.
    ///
    /// # Errors
    /// [`spillway_base::ErrorKind::DiskFull`]: it is not in force. After any other error it is
    /// unknown whether it is.
    pub(super) fn put_in_force(&self) -> Result<()> {
        self.disk.rename(&pointer(&self.dir), &self.dir.join(CURRENT))?;
        // From here on it is unknown which manifest a crash would leave in force.
        self.disk.sync_dir(&self.dir).map_err(|error| failed(&error))
    }

    /// Removes the file, which was not put in force.
    pub(super) fn discard(self) {
        remove(&*self.disk, &self.dir, self.number);
    }
}

/// Tries to remove a manifest file and a `CURRENT.new` that no opening uses. If that fails, a later
/// rewrite overwrites or removes them.
fn remove(disk: &dyn Disk, dir: &Path, number: u64) {
    let _ = (disk.remove(&dir.join(file_name(number))), disk.remove(&pointer(dir)));
}
