//! The manifest: the durable record of tables and their extents.
//!
//! A file `MANIFEST-NNNNNN` holds checksummed edits. The file `CURRENT` holds the number of the
//! manifest in force. When a manifest has grown past its limit, and at every opening, the engine
//! writes a fresh manifest that holds only the current state, and switches `CURRENT` by a rename.
//!
//! # Guarantees
//!
//! - **MANIFEST-1 (edits).** The edits of one call are in force together or not at all. After the
//!   call has returned, its edits survive any crash.
//! - **MANIFEST-2 (failure).** On a full disk none of a call's edits is recorded, and a later call
//!   may succeed. After any other failure it is unknown whether the edits survive a restart, and
//!   every later call fails.
//! - **MANIFEST-3 (short waits).** An edit waits for a concurrent rewrite only during two of the
//!   rewrite's steps. In one, the rewrite clones the state, which copies one pointer for all
//!   extents of a table. In the other, it puts the new file in force, which takes a few syncs.
//!   Neither step takes longer if there are more extents.
//! - **MANIFEST-4 (rewrite).** At every moment of a rewrite, the file that a crash leaves in force
//!   has all edits that were recorded until then.
//! - **MANIFEST-5 (a failed rewrite).** If a rewrite fails on a full disk, the file in force stays,
//!   edits continue, and another rewrite begins once the file has grown by half. After any other
//!   failure of a rewrite MANIFEST-2 holds, and no recorded edit is lost.
//! - **MANIFEST-6 (opening).** The state that an opening has read survives any crash, because the
//!   opening writes it to a fresh file, or on a full disk to the existing file again. This is
//!   needed because the bytes that the opening read may be only in the system's page cache: their
//!   writer was killed before it synced them, or its sync failed. After a failed sync, the system
//!   counts the pages as clean, so another sync does not write them. Only writing the bytes again
//!   brings them to the device.

mod edit;
mod extents;
mod fresh;
mod record;
mod rewrite;
#[cfg(all(test, not(loom)))]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use spillway_base::checksum::crc32c;
use spillway_base::{Error, ErrorKind, Result};
use spillway_storage::{Disk, File, OpenMode};

use crate::ranges::RangeTombstones;
pub(crate) use edit::{Edit, Place, State, TableState};
use fresh::Fresh;
#[cfg(fuzzing)]
use record::decode;
use record::{RECORD_HEADER_LEN, encode_header, encode_record, encode_record_of, read_edits};
use rewrite::KeptEdits;

const CURRENT: &str = "CURRENT";

fn file_name(number: u64) -> String {
    format!("MANIFEST-{number:06}")
}

/// An open manifest.
pub(crate) struct Manifest {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    slot_bytes: u32,
    number: u64,
    file: Arc<dyn File>,
    end: u64,
    sequence_next: u64,
    state: State,
    bytes_max: u64,
    failure: Option<Error>,
    /// The edits that a running rewrite has yet to include.
    kept: Option<KeptEdits>,
}

/// Reads the state of a folder's manifest, and the size of its slots; `None` for a folder without
/// one.
pub(crate) fn read(disk: &dyn Disk, dir: &Path) -> Result<Option<(State, u32)>> {
    Ok(load(disk, dir)?.map(|loaded| (loaded.state, loaded.slot_bytes)))
}

struct Loaded {
    number: u64,
    state: State,
    slot_bytes: u32,
    end: u64,
    sequence_next: u64,
    bytes: Vec<u8>,
}

fn load(disk: &dyn Disk, dir: &Path) -> Result<Option<Loaded>> {
    let current = dir.join(CURRENT);
    if !disk.exists(&current)? {
        // A crash during the creation of the first manifest leaves only its file: such a folder
        // counts as empty.
        let first = file_name(1);
        let manifest = |name: &&String| name.starts_with("MANIFEST-") && **name != first;
        let other = |name: &&String| manifest(name) || name.ends_with(".data");
        return match disk.list(dir)?.iter().find(other) {
            None => Ok(None),
            Some(name) => Err(Error::corruption(format!(
                "{} is missing, and {name} is there",
                current.display()
            ))),
        };
    }
    let number = read_current(disk, &current)?;
    let path = dir.join(file_name(number));
    let file = disk.open(&path, OpenMode::Read)?;
    let mut bytes = vec![0; file.len()? as usize];
    file.read_at(0, &mut bytes)?;
    let mut state = State::default();
    let contents = read_edits(&bytes, number, &mut |edit| state.apply(edit))
        .map_err(|error| error.context(path.display()))?;
    Ok(Some(Loaded {
        number,
        state,
        slot_bytes: contents.slot_bytes,
        end: contents.end as u64,
        sequence_next: contents.next_sequence,
        bytes,
    }))
}

/// `CURRENT` is text: the number, a space, and the CRC32C of the number's digits.
fn read_current(disk: &dyn Disk, path: &Path) -> Result<u64> {
    let file = disk.open(path, OpenMode::Read)?;
    let mut bytes = vec![0; file.len()?.min(64) as usize];
    file.read_at(0, &mut bytes)?;
    let parse = || {
        let text = std::str::from_utf8(&bytes).ok()?.trim_end();
        let (number, crc) = text.split_once(' ')?;
        (crc.parse() == Ok(crc32c(number.as_bytes()))).then_some(number.parse().ok()?)
    };
    parse().ok_or_else(|| Error::corruption(format!("{} is damaged", path.display())))
}

/// A state, the number of its file, the file, the file's end, and the next sequence number.
type OpenedManifest = (State, u64, Arc<dyn File>, u64, u64);

/// Writes a state to the file of a number, and puts the file in force. The caller records no edits
/// meanwhile.
fn write(
    (disk, dir): (&Arc<dyn Disk>, &Path),
    slot_bytes: u32,
    number: u64,
    state: &State,
) -> Result<Fresh> {
    let fresh = Fresh::write((disk, dir), slot_bytes, number, state, usize::MAX)?;
    fresh.put_in_force()?;
    Ok(fresh)
}

/// Rewrites the loaded state into a fresh file.
fn go_on(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    slot_bytes: u32,
    loaded: Loaded,
) -> Result<OpenedManifest> {
    if loaded.slot_bytes != slot_bytes {
        return Err(Error::new(
            ErrorKind::InvalidArgument,
            format!(
                "{} has slots of {} bytes, and the settings say {slot_bytes}",
                dir.display(),
                loaded.slot_bytes
            ),
        ));
    }
    let Loaded { number, mut state, end, sequence_next, bytes, .. } = loaded;
    let aside = state.set_aside_unnamed();
    match write((disk, dir), slot_bytes, number + 1, &state) {
        Ok(fresh) => Ok((state, fresh.number, fresh.file, fresh.end, fresh.sequence_next)),
        // On a full disk, the existing file is used.
        Err(error) if error.kind() == ErrorKind::DiskFull => {
            state.put_back(aside);
            let path = dir.join(file_name(number));
            let file = settle(&**disk, &path, &bytes[..end as usize])?;
            disk.sync_dir(dir)?;
            Ok((state, number, file, end, sequence_next))
        }
        Err(error) => Err(error),
    }
}

impl Manifest {
    /// Opens the manifest of a folder, or begins one.
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        dir: &Path,
        slot_bytes: u32,
        bytes_max: u64,
    ) -> Result<Manifest> {
        let (state, number, file, end, sequence_next) = match load(&*disk, dir)? {
            Some(loaded) => go_on(&disk, dir, slot_bytes, loaded)?,
            None => {
                let state = State::default();
                let fresh = write((&disk, dir), slot_bytes, 1, &state)?;
                (state, 1, fresh.file, fresh.end, fresh.sequence_next)
            }
        };
        let (dir, failure, kept) = (dir.to_owned(), None, None);
        let manifest = Manifest {
            disk,
            dir,
            slot_bytes,
            number,
            file,
            end,
            sequence_next,
            state,
            bytes_max,
            failure,
            kept,
        };
        for name in
            manifest.disk.list(&manifest.dir)?.iter().filter(|name| name.starts_with("MANIFEST-"))
        {
            if *name != file_name(manifest.number) {
                manifest.disk.remove(&manifest.dir.join(name))?;
            }
        }
        Ok(manifest)
    }

    /// Creates the first manifest of a folder, with this state.
    pub(crate) fn create(
        disk: &Arc<dyn Disk>,
        dir: &Path,
        slot_bytes: u32,
        state: &State,
    ) -> Result<()> {
        write((disk, dir), slot_bytes, 1, state).map(drop)
    }

    /// The state after all edits.
    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    /// Records edits, which take effect together. They are durable when this returns.
    ///
    /// # Errors
    /// [`ErrorKind::DiskFull`]: nothing was recorded, and a later call may succeed. Any other
    /// failure leaves it unknown whether the edits will be there after a restart; every later call
    /// fails too.
    pub(crate) fn commit(&mut self, edits: Vec<Edit>) -> Result<()> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        let mut bytes = Vec::new();
        encode_record(&mut bytes, self.sequence_next, &edits);
        let sealed_at = bytes.len();
        encode_record(&mut bytes, self.sequence_next + 1, &[]);
        // Allocate room for the edits and the seal first, so that a full disk is met before
        // anything is recorded.
        let (edits_at, seal_at) = (self.end, self.end + sealed_at as u64);
        let room = self.file.allocate(self.end, bytes.len() as u64);
        if let Err(full) = &room
            && full.kind() == ErrorKind::DiskFull
        {
            return Err(full.clone());
        }
        let written = room
            .and_then(|()| self.file.write_and_sync(edits_at, &bytes[..sealed_at]))
            .and_then(|()| self.file.write_and_sync(seal_at, &bytes[sealed_at..]));
        if let Err(error) = written {
            let failure = failed(&error);
            self.failure = Some(failure.clone());
            return Err(failure);
        }
        self.end += bytes.len() as u64;
        self.sequence_next += 2;
        if let Some(kept) = &mut self.kept {
            kept.add(&edits, &bytes[RECORD_HEADER_LEN..sealed_at]);
        }
        for edit in edits {
            self.state.apply(edit).expect("the engine records edits that fit its state");
        }
        Ok(())
    }

    /// Bytes of its file.
    pub(crate) fn bytes(&self) -> u64 {
        self.end
    }

    /// Whether it has grown past its limit, and no rewrite is running.
    pub(crate) fn is_long(&self) -> bool {
        self.failure.is_none() && self.kept.is_none() && self.end > self.bytes_max
    }
}

/// The bytes of a manifest with only a state.
fn encode_state(state: &State, slot_bytes: u32, number: u64) -> Vec<u8> {
    let mut bytes = encode_header(slot_bytes, number);
    encode_record_of(&mut bytes, 1, |out| tell(state, &mut |edit| edit.encode(out)));
    encode_record(&mut bytes, 2, &[]);
    bytes
}

/// Rewrites in place the bytes that were read from a manifest. Cuts off a torn tail first, so that
/// no bytes of it come after a later record. It needs no disk space.
fn settle(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> Result<Arc<dyn File>> {
    let file = disk.open(path, OpenMode::Write)?;
    file.set_len(bytes.len() as u64)?;
    file.write_at(0, bytes)?;
    file.sync()?;
    Ok(file)
}

/// The error of a manifest that has failed: every later edit returns it.
fn failed(error: &Error) -> Error {
    Error::new(ErrorKind::WritesStopped, format!("the manifest failed: {error}"))
}

impl State {
    /// The state as a manifest with slots of this size.
    pub(crate) fn to_bytes(&self, slot_bytes: u32) -> Vec<u8> {
        encode_state(self, slot_bytes, 1)
    }

    /// Reads [`State::to_bytes`] back, with the size of slots.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<(State, u32)> {
        let mut state = State::default();
        let contents = read_edits(bytes, 1, &mut |edit| state.apply(edit))?;
        if contents.end != bytes.len() || contents.next_sequence != 3 {
            return Err(Error::corruption("the manifest's state is cut off"));
        }
        Ok((state, contents.slot_bytes))
    }
}

/// Passes the edits that lead from an empty state to this one to `give`.
fn tell(state: &State, give: &mut dyn FnMut(Edit)) {
    for (&table, contents) in &state.tables {
        give(Edit::CreateTable { table, created: contents.created });
        for (&id, bytes) in &contents.dictionaries {
            give(Edit::AddDictionary { table, id, bytes: bytes.clone() });
        }
        for (start, &csn) in &contents.parts {
            let start = start.clone();
            give(match start.is_empty() {
                true => Edit::Flushed { table, start, csn },
                false => Edit::Split { table, start, csn },
            });
        }
        let ranges = Edit::of_ranges(table, &RangeTombstones::NONE, &contents.ranges);
        ranges.into_iter().for_each(&mut *give);
        for extent in contents.extents.values() {
            give(Edit::AddExtent { table, meta: extent.meta.clone() });
            for (place, meta) in extent.slices() {
                give(Edit::AddSlice { table, place: *place, meta: meta.clone() });
            }
        }
    }
    give(Edit::Persisted { csn: state.persisted });
    give(Edit::NextExtent { id: state.next_extent });
    give(Edit::Known { csn: state.known });
    give(Edit::Rewritten { csn: state.rewritten });
}

#[cfg(fuzzing)]
pub(crate) mod fuzz {
    use super::*;

    /// Decodes arbitrary bytes after a valid header.
    pub(crate) fn file(bytes: &[u8]) {
        let mut file = encode_header(4096, 1);
        file.extend_from_slice(bytes);
        if let Ok((contents, _)) = decode(&file, 1) {
            assert!(contents.end <= file.len());
        }
        let _ = decode(bytes, 1);
    }

    /// Bytes for [`State::from_bytes`], with these bytes as the edits.
    pub(crate) fn of(edits: &[u8]) -> Vec<u8> {
        let mut file = encode_header(4096, 1);
        encode_record_of(&mut file, 1, |out| out.extend_from_slice(edits));
        encode_record(&mut file, 2, &[]);
        file
    }

    /// Checks that a state can replace the edits that led to it.
    pub(crate) fn edits(bytes: &[u8]) {
        let Ok(edits) = Edit::decode_all(bytes) else { return };
        let mut file = encode_header(4096, 1);
        encode_record(&mut file, 1, &edits);
        assert_eq!(decode(&file, 1).ok().map(|(_, edits)| edits), Some(edits.clone()));
        let mut state = State::default();
        if edits.into_iter().try_for_each(|edit| state.apply(edit)).is_ok() {
            let mut again = State::default();
            let mut told = Ok(());
            tell(&state, &mut |edit| told = told.clone().and(again.apply(edit)));
            assert_eq!((told.is_ok(), again), (true, state));
        }
    }
}
