//! A plog in segment files.
//!
//! Segments are created in advance and filled with zeros, so that the write of a commit changes no
//! metadata of the file system. Otherwise the file's new length, or its new extents, would have to
//! reach the file system's journal together with the write. Allocation without zeros is not enough:
//! the first write to an allocated extent marks the extent as written, which is again metadata.
//!
//! The file of a released segment is reused for a new one. Its blocks are allocated and written
//! already, so the new segment needs neither zeros nor free space, and can be made on a full disk.
//! [`Plog::prepare`] makes segments while the writer continues. A reservation waits for a segment
//! only if no room is left.

use std::collections::VecDeque;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use spillway_base::checksum::crc32c;
use spillway_base::lock::{Condvar, Mutex, MutexGuard};
use spillway_base::{Error, ErrorKind, Result};

use super::make::{Leaving, Maker, Segment};
use super::room::Ledger;
use super::segment::{FRAME_HEAD_BYTES, FrameHead, HEADER_BYTES, Header, frame_bytes};
use super::{
    LogSpan, PAYLOAD_MAX, Plog, PlogSettings, Position, Recovered, RecoveredSegment, Room,
};
use crate::Disk;

/// The most released segments that are kept for reuse.
const IDLE_MAX: usize = 2;
/// On a full disk, a new segment has at least this fraction of the usual bytes.
const SMALL_SHARE: u64 = 256;
/// A larger payload is written apart from its frame's head, so that it is not copied.
const COPIED_MAX: usize = if cfg!(test) { 2000 } else { 1 << 20 };

/// A segment before the current one.
#[derive(Clone, Copy)]
struct Older {
    sequence: u64,
    bytes: u64,
    /// Whether its file must be removed, and not reused.
    discarded: bool,
    /// Whether its file is to be kept once the segment leaves the log.
    kept: bool,
}

impl Older {
    /// As an opening found it.
    fn found(found: &RecoveredSegment, discarded: bool) -> Older {
        Older { sequence: found.sequence, bytes: found.bytes, discarded, kept: false }
    }
}

struct PlogState {
    /// The header of the next segment to make.
    next: Header,
    /// The segment being written to; `None` before the first frame.
    current: Option<Segment>,
    /// Where the next frame begins.
    end: u64,
    /// Bytes of the current segment that are durable.
    durable: u64,
    /// Segments made ahead, in order.
    spare: VecDeque<Segment>,
    /// Segments before the current one, in order. The first `idle` are no longer needed.
    older: VecDeque<Older>,
    idle: usize,
    /// Whether a thread makes or removes segments while the writer writes. Only one thread at a
    /// time does so.
    busy: bool,
    /// Memory for the bytes of frames.
    scratch: Vec<u8>,
    failure: Option<Error>,
}

impl PlogState {
    /// The bytes left for frames in the current segment.
    fn rest(&self) -> u64 {
        self.current.as_ref().map_or(0, |current| current.bytes - self.end)
    }

    /// The bytes of the segments that recovery needs.
    fn redo_bytes(&self) -> u64 {
        self.older.range(self.idle..).map(|older| older.bytes).sum::<u64>() + self.end
    }

    /// The most contiguous room.
    fn piece(&self) -> u64 {
        let ahead = self.spare.iter().map(Segment::capacity).max().unwrap_or(0);
        ahead.max(self.rest())
    }
}

/// 64 bits that no client can guess; in a simulation, of its seed.
fn secret() -> u64 {
    #[cfg(debug_assertions)]
    if spillway_base::scheduler::is_task() {
        return spillway_base::scheduler::random();
    }
    // The keys of the hash are the system's random bits.
    RandomState::new().build_hasher().finish()
}

/// A plog in segment files of one folder. [`Plog`] says what it guarantees.
pub struct FilePlog {
    maker: Maker,
    state: Mutex<PlogState>,
    free: Condvar,
    room: Ledger,
    /// The bytes of the segments that recovery needs, for callers that must not wait for a sync.
    redo_bytes: AtomicU64,
    /// The bytes that a segment of the usual size leaves free ([`Plog::leave_free`]).
    left_free: AtomicU64,
}

impl FilePlog {
    /// Makes the frames found in a lane's log durable, if its writer did not.
    ///
    /// # Errors
    /// [`ErrorKind::Io`].
    pub fn settle(disk: Arc<dyn Disk>, settings: PlogSettings, found: &Recovered) -> Result<()> {
        Maker::new(disk, settings).settle(found)
    }

    /// Opens a lane's log for writing, after [`super::read_log`] has read it and
    /// [`FilePlog::settle`] has made it durable. The generation is larger than any found, and every
    /// segment of it records `fence`. A full disk does not prevent the opening; it only refuses
    /// room.
    ///
    /// # Errors
    /// [`ErrorKind::Io`].
    pub fn open(
        disk: Arc<dyn Disk>,
        settings: PlogSettings,
        found: &Recovered,
        generation: u64,
        fence: u64,
    ) -> Result<FilePlog> {
        assert!(generation > found.generation, "each opening begins a generation (PLOG-5)");
        let maker = Maker::new(disk, settings);
        maker.disk.create_dir_all(&maker.settings.dir)?;
        let again = maker.clear(found)?;
        let used = found
            .segments
            .iter()
            .filter(|segment| again.is_none_or(|(unused, _)| segment.sequence < unused));
        let older: VecDeque<Older> = used.map(|old| Older::found(old, old.discarded)).collect();
        let header = Header {
            lane: maker.settings.lane,
            sequence: maker.next_sequence(found, again.map(|(sequence, _)| sequence))?,
            generation,
            fence,
            end: found.end,
            secret: secret(),
        };
        let wanted = maker.settings.segment_bytes;
        let made = match again {
            Some((sequence, bytes)) if bytes == wanted => maker.reuse(sequence, header, bytes),
            _ => maker.make(header, wanted),
        };
        let (next, spare) = match made {
            Ok(first) => {
                let next = Header { sequence: header.sequence + 1, ..header };
                (next, VecDeque::from([first]))
            }
            // The opening succeeds, because the existing frames can be read. Room is refused until
            // there is space.
            Err(error) if error.kind() == ErrorKind::DiskFull => (header, VecDeque::new()),
            Err(error) => return Err(error),
        };
        Ok(FilePlog::with(maker, next, older, spare))
    }

    /// Opens a lane's log to which nothing more is written. Cut segments are removed, and no room
    /// can be reserved.
    ///
    /// # Errors
    /// [`ErrorKind::Io`].
    pub fn retire(
        disk: Arc<dyn Disk>,
        settings: PlogSettings,
        found: &Recovered,
    ) -> Result<FilePlog> {
        let maker = Maker::new(disk, settings);
        let unused = maker.clear(found)?.map(|(unused, _)| unused);
        if let Some(unused) = unused {
            let unused = Leaving { sequence: unused, kept: false };
            maker.release(&[unused]).map_err(|(_, error)| error)?;
        }
        // Includes segments without frames: a frame that did not fit into one went to the next. If
        // a cut left such a segment behind, the log would have a gap after it.
        let used = |segment: &&RecoveredSegment| unused.is_none_or(|at| segment.sequence < at);
        let older: VecDeque<Older> =
            found.segments.iter().filter(used).map(|old| Older::found(old, true)).collect();
        let header = Header {
            lane: maker.settings.lane,
            sequence: maker.next_sequence(found, None)?,
            generation: found.generation,
            fence: 0,
            end: found.end,
            secret: 0,
        };
        Ok(FilePlog::with(maker, header, older, VecDeque::new()))
    }

    fn with(
        maker: Maker,
        next: Header,
        older: VecDeque<Older>,
        spare: VecDeque<Segment>,
    ) -> FilePlog {
        let state = PlogState {
            next,
            current: None,
            end: 0,
            durable: 0,
            spare,
            older,
            idle: 0,
            busy: false,
            scratch: Vec::new(),
            failure: None,
        };
        let room = Ledger::new(state.piece());
        let redo_bytes = AtomicU64::new(state.redo_bytes());
        FilePlog {
            maker,
            state: Mutex::new(state),
            free: Condvar::new(),
            room,
            redo_bytes,
            left_free: AtomicU64::new(0),
        }
    }

    /// Whether an append waits for the segment that is being made.
    #[cfg(test)]
    pub(super) fn is_hurried(&self) -> bool {
        self.maker.hurry.load(Ordering::Relaxed)
    }

    /// The generation that this opening writes.
    pub fn generation(&self) -> u64 {
        self.state.lock().next.generation
    }

    /// Makes one more segment with at least this much room, while the writer continues. No other
    /// thread is making or removing one.
    fn make_ahead<'s>(
        &'s self,
        mut state: MutexGuard<'s, PlogState>,
        room: u64,
    ) -> (MutexGuard<'s, PlogState>, Result<()>) {
        let standard = self.maker.settings.segment_bytes;
        let enough = standard.max(HEADER_BYTES + room);
        // Without this, many large rooms at once would each make a segment slightly larger than the
        // last.
        let largest = state.spare.iter().map(|spare| spare.bytes).max().unwrap_or(0);
        let wanted =
            if enough > standard && largest > standard { enough.max(2 * largest) } else { enough };
        let header = state.next;
        // A segment that must be removed or kept may still be there, because an attempt failed.
        let reusable = |old: &Older| !old.discarded && !old.kept;
        let old = (state.idle > 0).then(|| state.older[0]).filter(reusable);
        state.busy = true;
        drop(state);
        let (made, gone) = match old {
            Some(old) if old.bytes == wanted => {
                let made = self.maker.reuse(old.sequence, header, wanted);
                let gone = made.is_ok() || self.maker.is_gone(old.sequence);
                (made, gone)
            }
            _ => (self.make_as_fits(header, room, enough, wanted), false),
        };
        let mut state = self.state.lock();
        state.busy = false;
        self.free.notify_all();
        if gone {
            state.older.pop_front();
            state.idle -= 1;
        }
        let outcome = made.map(|segment| {
            state.next.sequence += 1;
            state.spare.push_back(segment);
            self.note_piece(&state);
        });
        (state, outcome)
    }

    /// The bytes of the smallest segment with this much room.
    fn least_segment(&self, room: u64) -> u64 {
        let least = (HEADER_BYTES + room).max(self.maker.settings.segment_bytes / SMALL_SHARE);
        least.next_multiple_of(HEADER_BYTES)
    }

    /// Makes a segment of `wanted` bytes. On a full disk, or if that would leave too little space
    /// free, it tries a smaller one: of `enough` bytes, or the smallest with the room that a caller
    /// waits for.
    fn make_as_fits(&self, header: Header, room: u64, enough: u64, wanted: u64) -> Result<Segment> {
        let least = if room > 0 { self.least_segment(room) } else { enough };
        let mut tried = wanted;
        let left = self.left_free.load(Ordering::Relaxed);
        if left > 0 {
            let free = self.maker.disk.available(&self.maker.settings.dir).unwrap_or(u64::MAX);
            let leaves = |bytes: &u64| free >= bytes.saturating_add(left);
            tried = [wanted, enough].into_iter().find(leaves).unwrap_or(least);
        }
        let mut made = self.maker.make(header, tried);
        for bytes in [enough, least] {
            let full = |error: &Error| error.kind() == ErrorKind::DiskFull;
            if bytes < tried && made.as_ref().err().is_some_and(full) {
                made = self.maker.make(header, bytes);
                tried = bytes;
            }
        }
        made
    }

    fn note_piece(&self, state: &PlogState) {
        let piece = if state.failure.is_some() { 0 } else { state.piece() };
        self.room.set_piece(piece);
    }

    fn note_redo_bytes(&self, state: &PlogState) {
        self.redo_bytes.store(state.redo_bytes(), Ordering::Relaxed);
    }

    /// Moves on to the next segment with room for a frame. Each segment before it is first sealed
    /// and synced, so that a later segment proves an earlier one (PLOG-4).
    fn rotate(&self, state: &mut PlogState, frame: u64) -> Result<()> {
        while state.rest() < frame {
            if let Some(full) = &state.current {
                seal(full, state.end, state.durable)?;
                let (sequence, bytes) = (full.header.sequence, full.bytes);
                state.older.push_back(Older { sequence, bytes, discarded: false, kept: false });
            }
            let next = state.spare.pop_front().expect("a frame's room is in one piece");
            state.current = Some(next);
            state.end = HEADER_BYTES;
            state.durable = HEADER_BYTES;
        }
        Ok(())
    }

    fn write(&self, state: &mut PlogState, payload: &[u8], durable: bool) -> Result<Position> {
        let frame = frame_bytes(payload.len());
        self.rotate(state, frame)?;
        let current = state.current.as_ref().expect("a segment with room");
        let offset = state.end;
        let head = FrameHead {
            length: payload.len() as u32,
            crc: crc32c(payload),
            durable: state.durable,
        };
        let head = head.encode(&current.header, offset);
        let file = &current.file;
        if payload.len() > COPIED_MAX {
            file.write_at(offset + FRAME_HEAD_BYTES as u64, payload)?;
            file.write_at(offset, &head)?;
            if durable {
                file.sync()?;
            }
        } else {
            let scratch = &mut state.scratch;
            scratch.clear();
            scratch.extend_from_slice(&head);
            scratch.extend_from_slice(payload);
            scratch.resize(frame as usize, 0);
            if durable && state.durable == state.end {
                file.write_and_sync(offset, scratch)?;
            } else {
                file.write_at(offset, scratch)?;
                if durable {
                    file.sync()?;
                }
            }
        }
        let segment = current.header.sequence;
        state.end += frame;
        if durable {
            state.durable = state.end;
        }
        Ok(Position { segment, offset })
    }

    /// Records a failure. From now on the contents of the device are unknown, even if the disk was
    /// only full (PLOG-7).
    fn stop(&self, state: &mut PlogState, cause: &Error) -> Error {
        let stopped = Error::new(
            ErrorKind::WritesStopped,
            format!(
                "the log failed, so writes have stopped: {cause}; repair the device and restart the \
                 server"
            ),
        );
        state.failure = Some(stopped.clone());
        self.note_piece(state);
        stopped
    }
}

/// Seals a segment, and makes it and everything before durable.
fn seal(segment: &Segment, end: u64, durable: u64) -> Result<()> {
    if end + FRAME_HEAD_BYTES as u64 <= segment.bytes {
        segment.file.write_at(end, &FrameHead::seal(durable).encode(&segment.header, end))?;
    }
    segment.file.sync()
}

impl Plog for FilePlog {
    fn append(&self, payload: &[u8], durable: bool, room: Room) -> Result<Position> {
        let frame = frame_bytes(payload.len());
        assert!(!payload.is_empty() && payload.len() <= PAYLOAD_MAX, "a payload of a valid size");
        assert!(frame <= room.0, "a frame of {frame} bytes with room for {}", room.0);
        let mut state = self.state.lock();
        if let Some(failure) = &state.failure {
            return Err(failure.clone());
        }
        match self.write(&mut state, payload, durable) {
            Ok(position) => {
                self.note_piece(&state);
                self.note_redo_bytes(&state);
                self.release(room);
                Ok(position)
            }
            Err(error) => Err(self.stop(&mut state, &error)),
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
        match state.current.as_ref().map_or(Ok(()), |current| current.file.sync()) {
            Ok(()) => {
                state.durable = state.end;
                Ok(())
            }
            Err(error) => Err(self.stop(&mut state, &error)),
        }
    }

    fn reserve(&self, payload: u64) -> Result<Room> {
        let room = frame_bytes(payload as usize);
        if self.room.claim(room) {
            return Ok(Room(room));
        }
        let mut state = self.state.lock();
        loop {
            if let Some(failure) = &state.failure {
                return Err(failure.clone());
            }
            if self.room.claim(room) {
                return Ok(Room(room));
            }
            self.maker.hurry.store(true, Ordering::Relaxed);
            if state.busy {
                self.free.wait(&mut state);
                continue;
            }
            let needed = self.room.needed(room);
            let (again, outcome) = self.make_ahead(state, needed);
            outcome?;
            state = again;
        }
    }

    fn release(&self, room: Room) {
        self.room.release(room.0);
    }

    fn leave_free(&self, bytes: u64) {
        self.left_free.store(bytes, Ordering::Relaxed);
    }

    fn segment_for(&self, payload: u64) -> u64 {
        let room = frame_bytes(payload as usize);
        if self.room.claim(room) {
            self.room.release(room);
            return 0;
        }
        self.least_segment(self.room.needed(room))
    }

    fn prepare(&self) -> Result<()> {
        let state = self.state.lock();
        if state.busy || !state.spare.is_empty() || state.failure.is_some() {
            return Ok(());
        }
        // A thread that waits for this segment sets it again.
        self.maker.hurry.store(false, Ordering::Relaxed);
        self.make_ahead(state, 0).1
    }

    fn truncate_before(&self, segment: u64, kept: &[u64]) -> Result<()> {
        let mut state = self.state.lock();
        while state.busy {
            self.free.wait(&mut state);
        }
        let given = state.older.iter().take_while(|older| older.sequence < segment).count();
        let idle = state.idle;
        for older in state.older.range_mut(idle.min(given)..given) {
            older.kept = kept.contains(&older.sequence);
        }
        state.idle = idle.max(given);
        self.note_redo_bytes(&state);
        let surplus = state.idle.saturating_sub(IDLE_MAX);
        let standard = self.maker.settings.segment_bytes;
        let mut idle = state.older.range(..state.idle);
        // Segments leave in order: all before one that cannot be used again leave with it.
        let stays = |older: &Older| !older.discarded && !older.kept && older.bytes == standard;
        let odd = idle.rposition(|older| !stays(older));
        let count = surplus.max(odd.map_or(0, |odd| odd + 1));
        if count == 0 {
            return Ok(());
        }
        let leaving = |older: &Older| Leaving { sequence: older.sequence, kept: older.kept };
        let leaving: Vec<Leaving> = state.older.range(..count).map(leaving).collect();
        state.busy = true;
        drop(state);
        let outcome = self.maker.release(&leaving);
        let mut state = self.state.lock();
        state.busy = false;
        self.free.notify_all();
        let removed = *outcome.as_ref().unwrap_or_else(|(removed, _)| removed);
        state.older.drain(..removed);
        state.idle -= removed;
        outcome.map(drop).map_err(|(_, error)| error)
    }

    fn span(&self) -> Option<LogSpan> {
        let state = self.state.lock();
        let older = state.older.range(state.idle..);
        let first = older.clone().next().map(|older| older.sequence);
        let current = state.current.as_ref().map(|current| current.header.sequence);
        let end = match (current, older.last()) {
            (Some(segment), _) => Position { segment, offset: state.durable },
            (None, Some(last)) => Position { segment: last.sequence, offset: u64::MAX },
            (None, None) => return None,
        };
        Some(LogSpan { lane: self.maker.settings.lane, first: first.unwrap_or(end.segment), end })
    }

    fn bytes(&self) -> u64 {
        self.redo_bytes.load(Ordering::Relaxed)
    }

    fn health(&self) -> Result<()> {
        self.state.lock().failure.clone().map_or(Ok(()), Err)
    }
}
