//! Opening: replays the logs into the engines (decision 005).
//!
//! Recovery reads the lanes in parallel, segment by segment, and restores the CSN order of their
//! commits. It installs them in *windows*. A window has consecutive CSNs, and begins after the last
//! commit of the previous window. All threads install a window together, in any order; the engines
//! allow this ([`spillway_base::engine`], E2).
//!
//! A commit that creates or drops a table, or deletes a range, is installed alone: after all
//! commits with smaller CSNs and before all with larger ones (E10). The stable CSN advances after
//! each window, so the engines can flush memtables, and free memory, while recovery still reads the
//! rest.
//!
//! Recovery begins after the largest CSN up to which the files of *every* engine have all commits.
//! If the files of an engine have later commits, recovery installs these again, and they change
//! nothing in that engine (E3).
//!
//! Recovery ends at the first CSN that no lane has. It discards later commits, which were never
//! acknowledged (decision 002). Then it starts a new log generation in every lane, and records the
//! last recovered CSN as the generation's *fence*. The fence tells later openings which commits
//! were discarded: those of an earlier generation with CSNs above the fence. Later openings do not
//! install them.
//!
//! A fence in any lane holds for all lanes, because an opening that was interrupted may have
//! started its generation in some lanes only. A fence also states that the commits up to it are
//! durable. So recovery makes the commits that it has read durable in all lanes before it starts
//! the generation in the first lane.
//!
//! A gap is normal only above the largest CSN that is known to have been durable. Recovery learns
//! this CSN from three sources. Each frame of commits states the stable CSN at the time when it was
//! written. Each fence is a CSN up to which every commit was durable. The engines' files record no
//! CSN that was not stable (E7). In three cases acknowledged commits were lost, and the opening
//! reports corruption:
//!
//! - The log ends below that CSN.
//! - The files of an engine record a smaller CSN than the note of a cut says they did when the log
//!   was cut. So a device has lost data that it had reported as durable.
//! - The log begins later than the first commit that the engines' files may lack. Recovery learns
//!   this commit from the engines, and from the note that precedes each cut of the log.

mod install;
mod memory;
mod order;
mod source;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use spillway_base::budget::Budget;
use spillway_base::clock::Clock;
use spillway_base::{Csn, EngineKind, Error, ErrorKind, Result};
use spillway_storage::Disk;
use spillway_storage::plog::{FilePlog, LogReader, PlogSettings, Recovered, lanes_in};

use crate::engines::Engines;
use crate::manager::{HorizonHandle, TransactionManager};
use crate::pipeline::{OldSegment, OpenedLane, Pipeline};
use crate::record::Note;
use crate::reserve::Reserve;
use crate::shared::ManagerSettings;
use install::WriteMemory;
use memory::Memories;
use order::Pending;
pub(crate) use source::Fences;
use source::{Next, Piece, PieceSource, newest_note};

/// A window takes this fraction of the bytes of writes that one transaction may keep in memory.
const WINDOW_SHARE: usize = 4;
/// The most bytes of a window for each thread. A larger window does not make installing faster.
const WINDOW_BYTES_MAX: usize = 8 << 20;
const WINDOW_BYTES_MIN: usize = 64 << 10;

/// The location of the logs and their settings.
#[derive(Clone, Debug)]
pub struct LogSettings {
    /// Their folder.
    pub dir: PathBuf,
    /// The size of a segment's file, in bytes.
    pub segment_bytes: u64,
    /// The number of lanes that commits go to. Other lanes that an opening finds are read, and
    /// removed once nothing in them is needed.
    pub lanes: usize,
    /// Whether commits go to the lanes in turn, and not by their threads. For simulations, which
    /// have one thread.
    pub in_turn: bool,
    /// Memory for each lane's queue, in bytes.
    pub queue_bytes: usize,
    /// The number of threads that read and install at an opening. With one, the opening thread does
    /// everything.
    pub recovery_threads: usize,
}

/// The results of an opening.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RecoveryReport {
    /// Commits read from the logs and installed.
    pub commits: u64,
    /// Commits that were never acknowledged and were discarded.
    pub discarded: u64,
    /// Bytes of log read.
    pub bytes: u64,
    /// The last commit of the database.
    pub last: Csn,
}

/// A lane that is being read.
struct LaneReader {
    number: u32,
    source: PieceSource,
    /// The contents of its log, once it was read completely.
    found: Option<Recovered>,
    segments: Vec<OldSegment>,
    /// The largest CSN read.
    reached: Csn,
}

struct Replay<'r> {
    engines: &'r Engines,
    horizon: &'r HorizonHandle,
    dir: &'r Path,
    threads: usize,
    lanes: Vec<LaneReader>,
    /// The commits that were read and are not yet in a window.
    pending: Pending,
    scratch: WriteMemory,
    /// The memory that installing a window may take.
    window_bytes_max: usize,
    /// The last commit in a window, or in the engines' own files.
    last: Csn,
    /// The CSN up to which the engines' own files have all commits.
    floor: Csn,
    /// Of each engine, the CSN that its files recorded as persistent when it was opened.
    recorded: [Csn; EngineKind::COUNT],
    /// The largest CSN up to which all commits are known to have been durable.
    known: Csn,
    report: RecoveryReport,
}

impl Replay<'_> {
    fn run(&mut self) -> Result<()> {
        loop {
            if self.pending.memory() >= self.window_bytes_max {
                self.install()?;
            }
            // The next commits to install are most likely in the lane that was read least far.
            let behind = self.lanes.iter_mut().filter(|lane| lane.found.is_none());
            let Some(lane) = behind.min_by_key(|lane| lane.reached) else { break };
            match lane.source.next()? {
                Next::Piece(piece) => self.take(piece)?,
                Next::End(found) => lane.found = Some(found),
            }
        }
        while self.install()? {}
        self.report.last = self.last;
        self.report.discarded = self.pending.len();
        if self.last < self.known {
            return Err(Error::corruption(format!(
                "{}: commit {} is missing, and commits up to {} were durable",
                self.dir.display(),
                self.last.next(),
                self.known
            )));
        }
        Ok(())
    }

    fn take(&mut self, piece: Piece) -> Result<()> {
        let lane = &mut self.lanes[piece.lane];
        lane.reached = lane.reached.max(piece.newest.commit);
        // A segment stays until a cut whose own note says at least as much as those in it: the
        // engines' figures may be lower now, as they are not always recorded, and an engine that
        // fails has none.
        let mut newest = piece.newest;
        newest.commit = newest.commit.max(piece.note.persisted);
        match lane.segments.last_mut().filter(|old| old.segment == piece.begin.segment) {
            Some(old) => {
                old.newest.join(newest);
                old.discarded |= piece.discarded;
            }
            None => lane.segments.push(OldSegment {
                segment: piece.begin.segment,
                newest,
                discarded: piece.discarded,
            }),
        }
        self.report.bytes += piece.bytes;
        self.known = self.known.max(piece.stable);
        check_files(&piece.note, self.recorded, self.dir)?;
        self.skip_to(piece.note.persisted)?;
        self.pending.add(piece);
        Ok(())
    }

    /// Skips the commits up to `note`, which the engines' own files have. The log may lack some of
    /// them.
    fn skip_to(&mut self, note: Csn) -> Result<()> {
        if self.last < note {
            while self.install()? {}
        }
        self.floor = self.floor.max(note);
        self.last = self.last.max(note);
        self.pending.skip_to(self.floor);
        Ok(())
    }

    /// Installs a window of commits that begins after `last`, and lets the engines write it to
    /// their files. Returns `false` if the commit after `last` was not read.
    fn install(&mut self) -> Result<bool> {
        self.pending.skip_to(self.floor);
        let (last, window) = self.pending.take(self.last, self.window_bytes_max, self.dir)?;
        if last == self.last {
            return Ok(false);
        }
        self.last = last;
        let certain = self.known.max(self.floor);
        self.report.commits += window.len() as u64;
        let bytes = window.bytes;
        install::install(self.engines, window, &self.scratch, certain, self.threads);
        // Commits above `certain` may be in the system's cache only, and a crash may still lose
        // them.
        self.horizon.0.recovered(self.last.min(certain));
        for engine in self.engines.iter() {
            match engine.admit_replay(bytes) {
                // The opening continues: the commits in the log must be read, whether there is room
                // or not.
                Err(error)
                    if matches!(error.kind(), ErrorKind::MemoryFull | ErrorKind::DiskFull) => {}
                admitted => admitted?,
            }
        }
        Ok(true)
    }
}

/// Reads the logs into the engines and opens them for writing.
///
/// # Errors
/// [`spillway_base::ErrorKind::Corruption`], [`spillway_base::ErrorKind::UnsupportedFormat`],
/// [`spillway_base::ErrorKind::DiskFull`], [`spillway_base::ErrorKind::Io`].
pub fn recover(
    disk: &Arc<dyn Disk>,
    log: &LogSettings,
    settings: ManagerSettings,
    horizon: &HorizonHandle,
    engines: Engines,
    budget: Budget,
    clock: Clock,
) -> Result<(TransactionManager, RecoveryReport)> {
    let transaction_bytes = settings.transaction_bytes_max;
    let (mut lanes, report) = replay(disk, log, horizon, &engines, &budget, transaction_bytes)?;
    let present = |number: u32| lanes.iter().any(|lane| lane.number == number);
    let missing: Vec<u32> = (0..log.lanes as u32).filter(|number| !present(*number)).collect();
    lanes.extend(missing.into_iter().map(|number| ReadLane {
        number,
        found: Recovered::default(),
        segments: Vec::new(),
    }));
    lanes.sort_by_key(|lane| lane.number);
    let files = |number| PlogSettings {
        dir: log.dir.clone(),
        lane: number,
        segment_bytes: log.segment_bytes,
    };
    for lane in &lanes {
        FilePlog::settle(disk.clone(), files(lane.number), &lane.found)?;
    }
    let generation = lanes.iter().map(|lane| lane.found.generation).max().unwrap_or(0) + 1;
    let mut opened = Vec::new();
    for lane in lanes {
        let used = (lane.number as usize) < log.lanes;
        let (disk, files) = (disk.clone(), files(lane.number));
        let plog = if used {
            FilePlog::open(disk, files, &lane.found, generation, report.last.0)?
        } else {
            FilePlog::retire(disk, files, &lane.found)?
        };
        let (plog, segments) = (Box::new(plog), lane.segments);
        opened.push(OpenedLane { lane: lane.number, plog, segments, used });
    }
    horizon.0.recovered(report.last);
    let pipeline = Pipeline::new(opened, log.queue_bytes, horizon.0.clone(), report.last);
    let pipeline = if log.in_turn { pipeline.dealing_in_turn() } else { pipeline };
    let pipeline = pipeline.telling(&engines, &budget);
    let reserve = Reserve::open(disk.clone(), &log.dir, log.segment_bytes);
    if reserve.is_full() {
        // A commit before the opening may have freed space that background work has not returned
        // yet.
        reserve.hope(clock.now());
    }
    let manager = TransactionManager::new(settings, engines, pipeline, reserve, budget, clock);
    manager.0.open_overlays(report.last)?;
    horizon.opened();
    Ok((manager, report))
}

/// A lane that was read.
struct ReadLane {
    number: u32,
    found: Recovered,
    segments: Vec<OldSegment>,
}

fn replay(
    disk: &Arc<dyn Disk>,
    log: &LogSettings,
    horizon: &HorizonHandle,
    engines: &Engines,
    budget: &Budget,
    transaction_bytes: usize,
) -> Result<(Vec<ReadLane>, RecoveryReport)> {
    let numbers = lanes_in(&**disk, &log.dir)?;
    let readers = numbers
        .iter()
        .map(|number| LogReader::open(&**disk, &log.dir, *number))
        .collect::<Result<Vec<_>>>()?;
    let fences = Fences::new(readers.iter().flat_map(LogReader::fences));
    let known = fences.last().max(engines.newest_recorded());
    let recorded = engines.recorded();
    let note = newest_note(&readers)?;
    check_files(&note, recorded, &log.dir)?;
    let floor = note.persisted.max(engines.persisted_by_all());
    let memories = Memories::new(budget, numbers.len());
    let threads = log.recovery_threads.max(1);
    let mut lanes = Vec::new();
    for (index, (number, reader)) in numbers.iter().zip(readers).enumerate() {
        let (fences, memories) = (fences.clone(), memories.clone());
        let ahead_bytes = memories.0.ahead_bytes;
        let source = PieceSource::inline((index, *number), reader, fences, memories, &log.dir);
        let source = if threads > 1 { source.ahead(ahead_bytes)? } else { source };
        lanes.push(LaneReader {
            number: *number,
            source,
            found: None,
            segments: Vec::new(),
            reached: Csn::ZERO,
        });
    }
    let mut replay = Replay {
        engines,
        horizon,
        dir: &log.dir,
        threads,
        lanes,
        pending: Pending::default(),
        scratch: WriteMemory::new(budget),
        window_bytes_max: (transaction_bytes / WINDOW_SHARE)
            .min(WINDOW_BYTES_MAX * threads)
            .max(WINDOW_BYTES_MIN),
        last: floor,
        floor,
        recorded,
        known,
        report: RecoveryReport::default(),
    };
    replay.run()?;
    let report = replay.report;
    let lanes = replay.lanes.into_iter().map(|lane| read_lane(lane, report.last)).collect();
    Ok((lanes, report))
}

/// Checks that the files of each engine record what they recorded when a note was written.
fn check_files(note: &Note, recorded: [Csn; EngineKind::COUNT], dir: &Path) -> Result<()> {
    for ((kind, noted), recorded) in EngineKind::ALL.into_iter().zip(note.recorded).zip(recorded) {
        if recorded < noted {
            return Err(Error::corruption(format!(
                "{}: the files of the {kind:?} engine have commits up to {recorded} only, and had \
                 those up to {noted} when the log was cut",
                dir.display()
            )));
        }
    }
    Ok(())
}

/// Marks the segments that have commits above `last`. These commits are discarded.
fn read_lane(lane: LaneReader, last: Csn) -> ReadLane {
    let mut found = lane.found.expect("a replay ends when all lanes were read");
    let mut segments = lane.segments;
    for old in &mut segments {
        old.discarded |= old.newest.commit > last;
        old.newest.discard_after(last);
        let file = found.segments.iter_mut().find(|file| file.sequence == old.segment);
        if let Some(file) = file {
            file.discarded = old.discarded;
        }
    }
    segments.retain(|old| {
        let file = found.segments.iter().find(|file| file.sequence == old.segment);
        file.is_some_and(|file| file.frames > 0)
    });
    ReadLane { number: lane.number, found, segments }
}
