//! The passes that are running or wait for their turn, and the passes that have ended.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use spillway::Csn;
use spillway_base::lock::{Condvar, Mutex};
use spillway_base::thread;

use crate::catalog::TableDef;
use crate::process::Stop;
use crate::session::metadata::Name;

/// Steps in one turn.
pub(super) const TURN: usize = 64;

/// The shortest and the longest pause after failures.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(64);

/// A pass that is under way, or waits for its turn.
pub(super) struct Refreshing {
    /// The table as the pass began.
    pub(super) written: Arc<TableDef>,
    /// The table's name when the catalog was last read.
    pub(super) name: Name,
    pub(super) last: Vec<u8>,
    /// Steps that are left in its turn.
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
    /// A pass has come, or the thread is to end.
    pub(super) changed: Condvar,
    /// By the key space of the rows, passes that ended in this life: from which version on rows
    /// are, as of which commit. In order, the versions all different.
    ended: Mutex<BTreeMap<u32, Vec<(u16, Csn)>>>,
}

#[derive(Default)]
pub(super) struct RefreshState {
    /// Those that are passed over, or are to be.
    pub(super) tables: BTreeSet<u32>,
    /// Their passes, but for one that the thread has.
    pub(super) waiting: VecDeque<Refreshing>,
    pub(super) has_thread: bool,
    /// Passes that failed since one did not, or since the last pause.
    pub(super) failed: usize,
    /// How many pauses there were since a pass did not fail.
    pub(super) pauses: u32,
}

impl RefreshPasses {
    /// Lets the thread see whether it is still to wait.
    pub(in crate::session) fn wake(&self) {
        let _state = self.state.lock();
        self.changed.notify_all();
    }

    /// From which version on rows are, in each snapshot from `oldest` on, as far as passes tell.
    pub(super) fn unread_below(&self, space: u32, oldest: Csn) -> u16 {
        let ended = self.ended.lock();
        let ends = ended.get(&space).map_or(&[][..], Vec::as_slice);
        ends.iter().rev().find(|(_, end)| *end <= oldest).map_or(0, |(version, _)| *version)
    }

    /// Notes that rows are from a version on as of a commit, and, where nobody reads earlier ones,
    /// forgets what told so of those.
    pub(super) fn note_end(&self, space: u32, (version, end): (u16, Csn), unread: u16) {
        let mut ended = self.ended.lock();
        let ends = ended.entry(space).or_default();
        ends.retain(|(version, _)| *version >= unread);
        if ends.last().is_none_or(|(last, _)| *last < version) {
            ends.push((version, end));
        }
    }

    /// Nothing is known any more of the rows of a key space, which are copied or gone.
    pub(in crate::session) fn forget(&self, space: u32) {
        self.ended.lock().remove(&space);
    }

    /// The pass whose turn it is. With none, the thread is to end.
    pub(super) fn next(&self) -> Option<Refreshing> {
        let mut state = self.state.lock();
        let next = state.waiting.pop_front();
        state.has_thread = next.is_some();
        next
    }

    /// Takes back a pass that is not at its end.
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

    /// Takes back a pass that has failed, and pauses where all have (REWRITE-THREAD-4).
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
