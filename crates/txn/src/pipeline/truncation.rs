//! Cuts the logs: decides which segments are still needed, and deletes the others.
//!
//! A cut deletes a segment once all of its commits are in the engines' own files. An engine that
//! keeps its rows in the log may require that the segment stays (LOG-READ-4 of
//! [`spillway_base::log_place`]). So the cut first reports the places of all stable commits to that
//! engine, and then asks the engine about each segment.
//!
//! Before the cut deletes a segment, it makes a note durable in the first lane. The note states the
//! CSN up to which the engines' files have all commits. Without the note, recovery would report the
//! removed commits as lost. The note also states the CSN that each engine's files record as
//! persistent, so that recovery notices if a device has lost such a record. The pipeline reserves
//! the room for the note ahead of time. Otherwise a full log would have no room for the note, so it
//! could not be cut.

use spillway_base::{Csn, EngineKind, EngineSet, ErrorKind, Result};
use spillway_storage::plog::LogSpan;

use super::Pipeline;
use super::lane::{FlushState, Lane};
use super::segments::Newest;
use crate::record::{NOTE_BYTES, Note, put_note};

/// The segments that a cut removes from a lane's log.
struct LaneCut {
    /// The log begins with this segment afterwards.
    begin: u64,
    /// The removed segments that have commits, each with the engines whose tables these commits
    /// write to.
    covered: Vec<(u64, EngineSet)>,
    /// The segments of `covered` that an engine keeps.
    kept: Vec<u64>,
}

impl Lane {
    /// Writes a note.
    fn put_note(&self, state: &mut FlushState, note: Note) -> Result<()> {
        let room = state.note.take().map_or_else(|| self.plog.reserve(NOTE_BYTES as u64), Ok)?;
        let mut bytes = Vec::new();
        put_note(&mut bytes, note);
        let position = self.plog.append(&bytes, true, room)?;
        state.segments.note(position, Newest { commit: note.persisted, ..Newest::default() });
        Ok(())
    }
}

impl Pipeline {
    /// Reserves space for the next note: without it a full log could not be cut.
    pub(super) fn keep_room_for_note(&self) {
        let lane = &self.lanes[0];
        if self.turn(lane).state().note.is_some() {
            return;
        }
        if let Ok(room) = lane.plog.reserve(NOTE_BYTES as u64) {
            let other = self.turn(lane).state().note.replace(room);
            if let Some(other) = other {
                lane.plog.release(other);
            }
        }
    }

    /// Makes room in the logs ahead of the commits that will need it.
    pub(crate) fn prepare(&self) -> Result<()> {
        self.lanes[..self.used].iter().try_for_each(|lane| lane.plog.prepare())
    }

    /// The durable part of each lane's log.
    pub(crate) fn spans(&self) -> Vec<LogSpan> {
        self.lanes.iter().filter_map(|lane| lane.plog.span()).collect()
    }

    /// The bytes of the logs that recovery needs.
    pub(crate) fn log_bytes(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.plog.bytes()).sum()
    }

    /// The CSN up to which all commits must be persistent before the logs can be cut to
    /// `bytes_max`, or as close to it as possible. `None` if the logs have no more bytes than that.
    /// It is the least such CSN: a larger one would make engines flush memtables earlier than
    /// needed.
    pub(crate) fn persist_target(&self, bytes_max: u64) -> Option<Csn> {
        let bytes = self.log_bytes();
        if bytes <= bytes_max {
            return None;
        }
        let mut full: Vec<Csn> = Vec::new();
        let mut segments = 0;
        for lane in &self.lanes {
            let mut turn = self.turn(lane);
            let state = turn.state();
            segments += state.segments.filled.len() as u64;
            full.extend(state.segments.full());
        }
        full.sort_unstable();
        let wanted = (bytes - bytes_max).div_ceil((bytes / segments.max(1)).max(1)) as usize;
        full.get(wanted.min(full.len()).checked_sub(1)?).copied()
    }

    /// The CSN up to which the engines' own files have all commits. `persisted` is the CSN up to
    /// which the files of each engine have all commits to its tables; every commit up to `stable`
    /// is durable. An engine whose `persisted` CSN is small holds the result back only if the logs
    /// have a commit above that CSN to one of its tables.
    pub(crate) fn persisted(&self, stable: Csn, persisted: [Csn; EngineKind::COUNT]) -> Csn {
        let mut newest = Newest::default();
        for lane in &self.lanes {
            let mut turn = self.turn(lane);
            turn.state().segments.filled.iter().for_each(|filled| newest.join(filled.newest));
        }
        let behind =
            newest.of.iter().zip(persisted).filter(|(newest, persisted)| *newest > persisted);
        behind.map(|(_, persisted)| persisted).fold(stable, Csn::min)
    }

    /// Cuts the logs: commits up to `note.persisted` are in the engines' own files.
    ///
    /// A commit that an opening discarded must never be taken for a later commit with the same CSN.
    /// The segment of a discarded commit has an older generation, and the fence of the next
    /// generation says that the commit is void. That holds as long as some lane has a segment of
    /// the next generation. So segments of earlier openings are deleted first, and segments of this
    /// opening only once no segment with a discarded commit is left on the disk.
    ///
    /// # Errors
    /// [`ErrorKind::DiskFull`]: there is no room for the note, nothing was cut, and a later call
    /// may succeed. Any other error stops the log.
    pub(crate) fn truncate(&self, note: impl Into<Note>) -> Result<()> {
        let note = note.into();
        self.health()?;
        // Every commit up to the note's is stable, so this reports all commits that a cut removes.
        self.tell_all_places();
        self.cut(note, false)?;
        let left =
            |lane: &Lane| self.turn(lane).state().segments.filled.iter().any(|old| old.discarded);
        if self.lanes.iter().any(left) {
            return Ok(());
        }
        self.cut(note, true)
    }

    /// Cuts the segments that are covered at the call, and no others (PIPE-3).
    fn cut(&self, note: Note, own: bool) -> Result<()> {
        let persisted = note.persisted;
        let mut any_covered = false;
        let mut cuts: Vec<LaneCut> = self
            .lanes
            .iter()
            .map(|lane| {
                let mut turn = self.turn(lane);
                let segments = &turn.state().segments;
                let covered = segments.filled.iter().take(segments.covered(persisted, own));
                let covered = covered.map(|filled| (filled.segment, filled.newest.engines()));
                LaneCut {
                    begin: segments.begin_of_rest(persisted, own),
                    covered: covered.collect(),
                    kept: Vec::new(),
                }
            })
            .collect();
        for (lane, cut) in self.lanes.iter().zip(&mut cuts) {
            any_covered |= !cut.covered.is_empty();
            let kept = |(segment, engines): &(u64, EngineSet)| {
                self.is_kept(lane.log, *segment, *engines).then_some(*segment)
            };
            cut.kept = cut.covered.iter().filter_map(kept).collect();
        }
        if any_covered {
            // One lane holds the note that explains where the logs of all lanes begin.
            let mut turn = self.turn(&self.lanes[0]);
            match self.lanes[0].put_note(turn.state(), note) {
                Err(error) if error.kind() == ErrorKind::DiskFull => return Err(error),
                Err(error) => {
                    self.stop(&error);
                    return Err(error);
                }
                Ok(()) => {}
            }
        }
        let mut outcome = Ok(());
        for (lane, LaneCut { begin, kept, .. }) in self.lanes.iter().zip(cuts) {
            self.turn(lane).state().segments.cut_before(begin);
            // The turn has ended, so no commit waits while files are deleted. The call also retries
            // deletions that failed before.
            outcome = outcome.and(lane.plog.truncate_before(begin, &kept));
        }
        self.keep_room_for_note();
        outcome
    }
}
