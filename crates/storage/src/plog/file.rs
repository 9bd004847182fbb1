//! A plog in segment files.
//!
//! Segments are made ahead, full of zeros, so that a commit's write changes no metadata of the file
//! system: neither a length nor an extent map has to reach the journal with it. Writing zeros, not
//! only allocating, is what makes that true: an allocated extent is marked as written at its first write,
//! which is metadata again. [`Plog::prepare`] makes them beside the writer; only a writer that ran out
//! of room waits for one.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Condvar, Mutex};
use spillway_base::checksum::crc32c;
use spillway_base::{Error, ErrorKind, Result};

use super::segment::{
    FRAME_HEAD_BYTES, FrameHead, HEADER_BYTES, Header, PAYLOAD_MAX, file_name, frame_bytes,
};
use super::{Plog, Position, Recovered};
use crate::{Disk, File, OpenMode};

/// Where and how a lane's log is kept.
#[derive(Clone, Debug)]
pub struct PlogSettings {
    /// The folder.
    pub dir: PathBuf,
    /// The lane.
    pub lane: u32,
    /// The size of a segment's file, in bytes.
    pub segment_bytes: u64,
}

struct Segment {
    header: Header,
    file: Arc<dyn File>,
    bytes: u64,
}

struct State {
    /// Given to frames; the last is written to.
    current: Segment,
    /// Where the next frame begins.
    end: u64,
    /// Bytes of the current segment that are durable.
    durable: u64,
    /// Made ahead, in order.
    spare: VecDeque<Segment>,
    /// Sequence number and file size of those before the current one.
    older: VecDeque<(u64, u64)>,
    sequence_next: u64,
    /// Whether a thread makes a segment beside the writer; no other is made meanwhile.
    making: bool,
    scratch: Vec<u8>,
    failure: Option<Error>,
}

/// A plog in segment files of one folder. [`Plog`] says what it guarantees.
pub struct FilePlog {
    disk: Arc<dyn Disk>,
    settings: PlogSettings,
    state: Mutex<State>,
    made: Condvar,
    /// Room for payload in the current segment and the spare ones; a hint that saves the lock.
    room: AtomicU64,
}

impl FilePlog {
    /// Opens a lane's log for writing, after what [`super::read_log`] found there. `fence` is noted in
    /// every segment of the new generation.
    ///
    /// # Errors
    /// [`ErrorKind::DiskFull`], [`ErrorKind::Io`].
    pub fn open(
        disk: Arc<dyn Disk>,
        settings: PlogSettings,
        found: &Recovered,
        fence: u64,
    ) -> Result<FilePlog> {
        disk.create_dir_all(&settings.dir)?;
        // A process that was killed between a write and its sync left frames that only the cache has. They were
        // read back, so they count from now on, and must be durable before anybody acts on them.
        for segment in &found.segments {
            let path = settings.dir.join(file_name(settings.lane, segment.sequence));
            disk.open(&path, OpenMode::Write)?.sync()?;
        }
        let last = found.segments.last().map_or(0, |segment| segment.sequence);
        let header = Header {
            lane: settings.lane,
            sequence: last + 1,
            generation: found.generation + 1,
            fence,
        };
        let current = make(&*disk, &settings, header, settings.segment_bytes)?;
        let state = State {
            end: HEADER_BYTES,
            durable: HEADER_BYTES,
            spare: VecDeque::new(),
            older: found.segments.iter().map(|old| (old.sequence, old.bytes)).collect(),
            sequence_next: header.sequence + 1,
            making: false,
            scratch: Vec::new(),
            failure: None,
            current,
        };
        let plog = FilePlog {
            disk,
            settings,
            state: Mutex::new(state),
            made: Condvar::new(),
            room: AtomicU64::new(0),
        };
        plog.update_room(&plog.state.lock());
        Ok(plog)
    }

    /// The generation this opening writes.
    pub fn generation(&self) -> u64 {
        self.state.lock().current.header.generation
    }

    fn update_room(&self, state: &State) {
        let ahead: u64 = state.spare.iter().map(|spare| spare.bytes - HEADER_BYTES).sum();
        let here = state.current.bytes.saturating_sub(state.end);
        self.room.store(here + ahead, Ordering::Release);
    }

    /// Makes one more segment ahead, large enough for `frame` bytes.
    fn make_spare(&self, state: &mut State, frame: u64) -> Result<()> {
        let header = Header { sequence: state.sequence_next, ..state.current.header };
        let bytes = self.settings.segment_bytes.max(HEADER_BYTES + frame);
        let segment = make(&*self.disk, &self.settings, header, bytes)?;
        state.sequence_next += 1;
        state.spare.push_back(segment);
        Ok(())
    }

    /// Goes on to the next segment. The current one is sealed and durable first, so that a later
    /// segment proves an earlier one (L4).
    fn rotate(&self, state: &mut State, frame: u64) -> Result<()> {
        if state.spare.iter().all(|spare| spare.bytes - HEADER_BYTES < frame) {
            self.make_spare(state, frame)?;
        }
        loop {
            seal(&state.current, state.end, state.durable)?;
            let Some(next) = state.spare.pop_front() else { return Ok(()) };
            let full = std::mem::replace(&mut state.current, next);
            state.older.push_back((full.header.sequence, full.bytes));
            state.end = HEADER_BYTES;
            state.durable = HEADER_BYTES;
            // One that is too small for this frame is passed over.
            if state.current.bytes - HEADER_BYTES >= frame {
                return Ok(());
            }
        }
    }

    fn write(&self, state: &mut State, payload: &[u8], durable: bool) -> Result<Position> {
        let frame = frame_bytes(payload.len());
        if state.end + frame > state.current.bytes {
            self.rotate(state, frame)?;
        }
        let offset = state.end;
        let head = FrameHead {
            length: payload.len() as u32,
            crc: crc32c(payload),
            durable: state.durable,
        };
        let mut scratch = std::mem::take(&mut state.scratch);
        scratch.clear();
        scratch.extend_from_slice(&head.encode(&state.current.header, offset));
        scratch.extend_from_slice(payload);
        scratch.resize(frame as usize, 0);
        let written = if durable && state.durable == state.end {
            state.current.file.write_and_sync(offset, &scratch)
        } else if durable {
            let file = &state.current.file;
            file.write_at(offset, &scratch).and_then(|()| file.sync())
        } else {
            state.current.file.write_at(offset, &scratch)
        };
        state.scratch = scratch;
        written?;
        state.end += frame;
        if durable {
            state.durable = state.end;
        }
        Ok(Position { segment: state.current.header.sequence, offset })
    }

    fn stop(&self, state: &mut State, cause: &Error) -> Error {
        let stopped = Error::new(
            ErrorKind::WritesStopped,
            format!("the log failed, so writes have stopped: {cause}"),
        );
        state.failure = Some(stopped.clone());
        stopped
    }
}

/// Ends a segment, durably, with all before.
fn seal(segment: &Segment, end: u64, durable: u64) -> Result<()> {
    if end + FRAME_HEAD_BYTES as u64 <= segment.bytes {
        segment.file.write_at(end, &FrameHead::seal(durable).encode(&segment.header, end))?;
    }
    segment.file.sync()
}

/// Makes a segment's file: a durable name, a durable header, and zeros behind it.
fn make(disk: &dyn Disk, settings: &PlogSettings, header: Header, bytes: u64) -> Result<Segment> {
    let path = settings.dir.join(file_name(header.lane, header.sequence));
    let filled = || -> Result<Arc<dyn File>> {
        let file = disk.open(&path, OpenMode::Create)?;
        file.allocate(0, bytes)?;
        file.write_at(0, &header.encode())?;
        let zeros = vec![0; (1 << 20).min(bytes as usize)];
        let mut offset = HEADER_BYTES;
        while offset < bytes {
            let count = (bytes - offset).min(zeros.len() as u64);
            file.write_at(offset, &zeros[..count as usize])?;
            offset += count;
        }
        file.sync()?;
        disk.sync_dir(&settings.dir)?;
        Ok(file)
    };
    match filled() {
        Ok(file) => Ok(Segment { header, file, bytes }),
        Err(error) => {
            // Give the space back; a file that stays is met again as a last segment without frames.
            let _ = disk.remove(&path);
            Err(error)
        }
    }
}

impl Plog for FilePlog {
    fn append(&self, payload: &[u8], durable: bool) -> Result<Position> {
        assert!(!payload.is_empty(), "a log frame has a payload");
        if payload.len() > PAYLOAD_MAX {
            return Err(Error::invalid(format!(
                "a log frame of {} bytes is past the limit of {PAYLOAD_MAX}",
                payload.len()
            )));
        }
        let mut state = self.state.lock();
        if let Some(failure) = &state.failure {
            return Err(failure.clone());
        }
        let full = state.end + frame_bytes(payload.len()) > state.current.bytes;
        while full && state.making {
            self.made.wait(&mut state);
        }
        let outcome = self.write(&mut state, payload, durable);
        self.update_room(&state);
        match outcome {
            // No file was changed: the segment for the frame could not be made.
            Err(error) if error.kind() == ErrorKind::DiskFull => Err(error),
            Err(error) => Err(self.stop(&mut state, &error)),
            Ok(position) => Ok(position),
        }
    }

    fn sync(&self) -> Result<()> {
        let mut state = self.state.lock();
        if let Some(failure) = &state.failure {
            return Err(failure.clone());
        }
        if state.durable == state.end {
            return Ok(());
        }
        match state.current.file.sync() {
            Ok(()) => {
                state.durable = state.end;
                Ok(())
            }
            Err(error) => Err(self.stop(&mut state, &error)),
        }
    }

    fn reserve(&self, bytes: u64) -> Result<()> {
        // Twice the need, for heads, padding and the ends of segments.
        let need = 2 * (bytes + FRAME_HEAD_BYTES as u64 + 8);
        if self.room.load(Ordering::Acquire) >= need {
            return Ok(());
        }
        let mut state = self.state.lock();
        loop {
            if let Some(failure) = &state.failure {
                return Err(failure.clone());
            }
            self.update_room(&state);
            if self.room.load(Ordering::Acquire) >= need {
                return Ok(());
            }
            if state.making {
                self.made.wait(&mut state);
            } else {
                self.make_spare(&mut state, need)?;
            }
        }
    }

    fn prepare(&self) -> Result<()> {
        let mut state = self.state.lock();
        if state.making || !state.spare.is_empty() || state.failure.is_some() {
            return Ok(());
        }
        let header = Header { sequence: state.sequence_next, ..state.current.header };
        state.making = true;
        drop(state);
        let segment = make(&*self.disk, &self.settings, header, self.settings.segment_bytes);
        let mut state = self.state.lock();
        state.making = false;
        self.made.notify_all();
        state.spare.push_back(segment?);
        state.sequence_next += 1;
        self.update_room(&state);
        Ok(())
    }

    fn truncate_before(&self, segment: u64) -> Result<()> {
        let gone: Vec<u64> = {
            let mut state = self.state.lock();
            let count = state.older.iter().take_while(|(sequence, _)| *sequence < segment).count();
            state.older.drain(..count).map(|(sequence, _)| sequence).collect()
        };
        for sequence in &gone {
            self.disk.remove(&self.settings.dir.join(file_name(self.settings.lane, *sequence)))?;
        }
        if gone.is_empty() { Ok(()) } else { self.disk.sync_dir(&self.settings.dir) }
    }

    fn bytes(&self) -> u64 {
        let state = self.state.lock();
        state.older.iter().map(|(_, bytes)| bytes).sum::<u64>() + state.end
    }

    fn health(&self) -> Result<()> {
        self.state.lock().failure.clone().map_or(Ok(()), Err)
    }
}
