//! The list of passes that are running or wait for their turn, and the record of passes that have
//! ended.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use spillway::Csn;
use spillway_base::lock::{Condvar, Mutex};
use spillway_base::thread;

use crate::catalog::TableDef;
use crate::process::Stop;
use crate::session::metadata::Name;

/// The number of steps in one turn.
pub(super) const TURN: usize = 64;

/// The shortest and the longest pause after failures.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(64);

/// A pass that is running or waits for its turn.
pub(super) struct Refreshing {
    /// The table's definition when the pass began.
    pub(super) written: Arc<TableDef>,
    /// The table's name when the catalog was last read.
    pub(super) name: Name,
    pub(super) last: Vec<u8>,
    /// The steps that are left in this turn.
    pub(super) turn: usize,
}

impl Refreshing {
    pub(super) fn new(table: &Arc<TableDef>) -> Refreshing {
        Refreshing { written: table.clone(), name: name_of(table), last: Vec::new(), turn: TURN }
    }
}

/// The passes of an instance.
#[derive(Default)]
pub(in crate::session) struct RefreshPasses {
    pub(super) state: Mutex<RefreshState>,
    /// Signals that a pass was added, or that the thread must end.
    pub(super) changed: Condvar,
    /// The passes that have ended since the opening, by the key space of the rows: the oldest
    /// version that rows have, and the commit from which on this holds. Sorted by version, without
    /// duplicates.
    ended: Mutex<BTreeMap<u32, Vec<(u16, Csn)>>>,
}

#[derive(Default)]
pub(super) struct RefreshState {
    /// The tables that have a pass, running or waiting.
    pub(super) tables: BTreeSet<u32>,
    /// The passes, except the one that the thread is running.
    pub(super) waiting: VecDeque<Refreshing>,
    pub(super) has_thread: bool,
    /// The number of failures in a row, since the last pause.
    pub(super) failed: usize,
    /// The number of pauses since a pass last succeeded with a step.
    pub(super) pauses: u32,
}

impl RefreshPasses {
    /// Wakes the thread, so that it checks whether it must end.
    pub(in crate::session) fn wake(&self) {
        let _state = self.state.lock();
        self.changed.notify_all();
    }

    /// The oldest version that rows have in `oldest` and later snapshots, as far as ended passes
    /// show.
    pub(super) fn unread_below(&self, space: u32, oldest: Csn) -> u16 {
        let ended = self.ended.lock();
        let ends = ended.get(&space).map_or(&[][..], Vec::as_slice);
        ends.iter().rev().find(|(_, end)| *end <= oldest).map_or(0, |(version, _)| *version)
    }

    /// Records that no row has a version below this one since the commit `end`. Forgets records of
    /// versions below `unread`, which no snapshot reads.
    pub(super) fn note_end(&self, space: u32, (version, end): (u16, Csn), unread: u16) {
        let mut ended = self.ended.lock();
        let ends = ended.entry(space).or_default();
        ends.retain(|(version, _)| *version >= unread);
        if ends.last().is_none_or(|(last, _)| *last < version) {
            ends.push((version, end));
        }
    }

    /// Forgets the passes over a key space whose rows were copied or dropped.
    pub(in crate::session) fn forget(&self, space: u32) {
        self.ended.lock().remove(&space);
    }

    /// Takes the next pass. If there is none, the thread must end.
    pub(super) fn next(&self) -> Option<Refreshing> {
        let mut state = self.state.lock();
        let next = state.waiting.pop_front();
        state.has_thread = next.is_some();
        next
    }

    /// Takes back a pass that is not complete.
    pub(super) fn went(&self, mut refreshing: Refreshing) {
        let mut state = self.state.lock();
        (state.failed, state.pauses) = (0, 0);
        if refreshing.turn > 0 {
            state.waiting.push_front(refreshing);
        } else {
            refreshing.turn = TURN;
            state.waiting.push_back(refreshing);
        }
    }

    /// Takes back a pass that has failed. Pauses if all passes have failed in a row
    /// (REWRITE-THREAD-4).
    pub(super) fn failed(&self, mut refreshing: Refreshing, closing: &Stop) {
        let mut state = self.state.lock();
        refreshing.turn = TURN;
        state.waiting.push_back(refreshing);
        state.failed += 1;
        if state.failed < state.waiting.len() {
            return;
        }
        state.failed = 0;
        let pause = (PAUSE_MIN * 2_u32.pow(state.pauses.min(6))).min(PAUSE_MAX);
        state.pauses += 1;
        if !closing.is_asked() {
            thread::blocking(|| self.changed.wait_for(&mut state, pause));
        }
    }
}

pub(super) fn name_of(table: &TableDef) -> Name {
    (table.db.clone(), table.name.clone())
}
