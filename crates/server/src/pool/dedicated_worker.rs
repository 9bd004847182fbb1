//! Dedicated workers: a busy local client gets a worker that waits on the client's socket.
//!
//! A client that sends one brief statement after the other usually runs on another core than its
//! worker. So each command and each response wakes a thread on another core with an interrupt,
//! which is expensive in a virtual machine. A worker that serves only this client can run on the
//! client's core. Then client and worker wake each other without interrupts, and share the core's
//! caches. When the client's statement commits, waits for a row lock or a device read, or takes
//! long, the dedicated worker leaves, and the shared workers serve the client.
//!
//! The kernel rarely puts client and worker on one core, and moves one of them away when another
//! core is idle. So the worker checks from time to time from which core its client sends, and moves
//! there. The worker does not stay bound to that core: otherwise the kernel would move the client.
//!
//! The thread pool counts a dedicated worker as one that *waits*, so another worker runs in its
//! place. While a client has a dedicated worker, epoll does not report the client.
//!
//! # Guarantees
//!
//! - **DEDICATED-WORKER-1.** A connection with a dedicated worker is busy, and only that worker
//!   holds it. The worker notices what the client sends, and when the client disconnects. The
//!   connection's timeouts are late by at most [`QUIET`].
//! - **DEDICATED-WORKER-2.** A client gets a dedicated worker after `AFTER` responses in a row
//!   without a wait; [`super::dedicated_clients`] counts them. If the client's last dedicated
//!   worker sent fewer than `WORTH` responses, the client needs more than `AFTER`. A client that is
//!   silent for [`QUIET`] loses its dedicated worker. Only local clients over TCP without TLS get
//!   one, because the cores of other clients are not known.
//! - **DEDICATED-WORKER-3.** At most [`PLACES`] dedicated workers exist for each worker that may
//!   run, and at most [`PLACES_MOST`] in total. No client gets or keeps one in these cases:
//!   - In a window of time, more clients than this bound send commands. In this case, dedicated
//!     workers would give their clients more of the cores than the other clients get.
//!   - In a window, more clients have commands that wait or take long than workers may run.
//!   - No other worker runs.
//!   - In the last `PILED_FOR` windows, the clients with dedicated workers were found together on
//!     few cores. If this happens again soon, it counts for longer than `PILED_FOR`. These clients
//!     are probably connections of one thread that sends several commands at once. One shared
//!     worker serves them better, because it sends the responses to all of them together.
//! - **DEDICATED-WORKER-4.** Before a dedicated worker does anything that is known to take long, it
//!   counts as running again. After that work, it leaves its client.
//!
//! # Rejected
//!
//! A dedicated worker for every client, at all times. A shared worker ([`super`]) has two
//! advantages that would be lost: it writes the log for the commits of several clients at once, and
//! it passes a hot row from one client to the next without a wake-up.
//!
//! A fixed set of clients and an epoll instance of its own for each worker. A worker can be on the
//! core of only one of its clients at a time, so each wake-up of another client would still need an
//! interrupt.
//!
//! A trial that measures each client with and without a dedicated worker, and keeps the faster
//! mode. For the trial, a client would have to give up a dedicated worker that shares its core. And
//! on a busy machine, chance decides which of two trials is faster.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::thread::Result;
use std::time::Duration;

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use spillway_base::{clock, thread};

use super::connection_slot::{ConnectionSlot, ConnectionState};
use super::dedicated_clients::DedicatedWorkers;
use super::{HEARD, Pool};
use crate::connection::{Client, Step};
use crate::transport::{Raw, Socket};

/// How long a client may be silent before it loses its dedicated worker.
const QUIET: Duration = Duration::from_millis(10);
/// The most dedicated workers for each worker that may run at once.
const PLACES: usize = 32;
/// The most dedicated workers, for any number of workers.
const PLACES_MOST: usize = 512;
/// The worker checks its client's core after each time this many responses.
const LOOKS_EACH: u64 = 32;
thread_local! {
    /// Whether this worker is dedicated to a client, and counts as waiting.
    static IS_DEDICATED: Cell<bool> = const { Cell::new(false) };
    /// Whether this worker has begun a wait within a statement while it was dedicated.
    static WAITED: Cell<bool> = const { Cell::new(false) };
    /// Whether this worker's current command has neither waited nor been long so far.
    static CALM: Cell<bool> = const { Cell::new(true) };
}

/// Moves a dedicated worker to the core of its client.
struct Follower<'a> {
    dedicated: &'a DedicatedWorkers,
    raw: &'a Raw,
    /// The client's core at the last check.
    core: Option<usize>,
    moves: bool,
}

impl Follower<'_> {
    /// Checks from which core the client last sent, and moves the calling worker there. The
    /// scheduler may move the worker elsewhere afterwards. If the system does not allow setting the
    /// core, the worker stays where it is.
    fn look(&mut self, cores: usize, now: Duration) {
        let Some(core) = self.raw.sent_from().filter(|core| *core < CpuSet::MAX_CPU) else {
            return;
        };
        let before = self.core.replace(core);
        if self.dedicated.cores.note(before, core, cores, now) {
            self.dedicated.note_piled();
        }
        if !self.moves || core == sched_getcpu() {
            return;
        }
        let Ok(allowed) = sched_getaffinity(None) else { return };
        if allowed.is_set(core) {
            let mut there = CpuSet::new();
            there.set(core);
            let _ = sched_setaffinity(None, &there);
            // The allowed cores may have changed meanwhile.
            if sched_setaffinity(None, &allowed).is_err() {
                (0..CpuSet::MAX_CPU).for_each(|core| there.set(core));
                let _ = sched_setaffinity(None, &there);
            }
        }
    }
}

impl Drop for Follower<'_> {
    fn drop(&mut self) {
        self.dedicated.cores.left(self.core);
    }
}

/// Sends a client its response. Returns whether the socket accepted all of it.
fn send(client: &mut Client<Socket>) -> bool {
    let sent = client.pending_send().map_or(Ok(0), |mut pending_send| {
        pending_send.send();
        pending_send.sent()
    });
    client.posted(sent)
}

impl Pool {
    /// Records how a client was served. Returns whether it gets a dedicated worker; then its place
    /// is taken already.
    pub(super) fn is_to_dedicate(&self, connection: &ConnectionSlot, step: &Step) -> bool {
        // A step that sends the response itself, as with TLS, returns `Again`, which does not
        // count.
        let calm = CALM.get() && matches!(step, Step::Answers(_) | Step::Waits(_));
        if !CALM.get() || matches!(step, Step::Commits(_) | Step::Locked(_)) {
            self.dedicated.note_waited(&connection.calm);
        }
        let (places, workers) = (self.places(), self.thread_pool.most());
        connection.calm.note(calm) && self.sticky && self.dedicated.begin(places, workers)
    }

    fn places(&self) -> usize {
        (PLACES * self.thread_pool.most()).min(PLACES_MOST)
    }

    fn is_crowded(&self) -> bool {
        self.dedicated.is_crowded(self.places(), self.thread_pool.most())
    }

    /// Serves a client as its dedicated worker, until its next step is not a response or a wait for
    /// the client, or the client is silent for [`QUIET`]. Returns the next step. The place is taken
    /// already ([`Pool::is_to_dedicate`]).
    pub(super) fn dedicate(
        &self,
        connection: &ConnectionSlot,
        state: &mut ConnectionState,
        step: Step,
    ) -> Result<Step> {
        let mut answers = 0;
        let mut outcome = Ok(step);
        if let Some(client) = state.served_mut()
            && let Some(raw) = client.transport().map(|socket| socket.raw())
            && raw.sent_from().is_some()
            && self.hear(&raw, connection, EventFlags::ET)
        {
            let (dedicated, moves) = (&self.dedicated, self.follows);
            let mut follower = Follower { dedicated, raw: &raw, core: None, moves };
            self.dedicated.total.fetch_add(1, Relaxed);
            thread::Pool::leave(self);
            IS_DEDICATED.set(true);
            while let Ok(Step::Answers(until) | Step::Waits(until)) = outcome {
                let now = clock::now();
                let answered = matches!(outcome, Ok(Step::Answers(_)));
                if answered && !send(client) {
                    // The worker that serves the client next sends the rest, or finds the end or
                    // the error.
                    outcome = Ok(Step::Again);
                    break;
                }
                outcome = Ok(Step::Waits(until));
                self.dedicated.note_asked(&connection.calm, now);
                if !IS_DEDICATED.get() || self.thread_pool.none_runs() || self.is_crowded() {
                    break;
                }
                if client.transport().is_none_or(|socket| socket.linger(QUIET).is_err()) {
                    break;
                }
                outcome = catch_unwind(AssertUnwindSafe(|| client.step()));
                // If only a part of a command has come, the worker does not wait for the rest.
                let in_vain = client.transport().is_some_and(|socket| socket.lingered_in_vain());
                if in_vain || matches!(outcome, Ok(Step::Waits(_))) && client.is_in_command() {
                    break;
                }
                answers += 1;
                if answers % LOOKS_EACH == 0 {
                    follower.look(self.cores, now);
                }
            }
            self.leave_client();
            let reads_as_before =
                client.transport().is_none_or(|socket| socket.end_linger().is_ok());
            // Once epoll listens again, it reports bytes that are unread.
            if !self.hear(&raw, connection, HEARD) || !reads_as_before {
                outcome = Ok(Step::End);
            }
        }
        if matches!(outcome, Ok(Step::Commits(_) | Step::Locked(_))) {
            self.dedicated.note_waited(&connection.calm);
        }
        connection.calm.left_after(answers);
        self.dedicated.now.fetch_sub(1, SeqCst);
        outcome
    }

    /// If the calling worker is dedicated, it is so no longer, and counts as running again.
    pub(super) fn leave_client(&self) {
        if IS_DEDICATED.take() {
            thread::Pool::come_back(self);
        }
    }

    /// Makes epoll report these events of a client. Returns whether that succeeded.
    fn hear(&self, raw: &Raw, connection: &ConnectionSlot, flags: EventFlags) -> bool {
        epoll::modify(&self.epoll, raw, EventData::new_u64(connection.id), flags).is_ok()
    }
}

/// Records that the calling worker begins a command.
pub(super) fn begin_command() {
    CALM.set(true);
}

/// Records that the command of the calling worker is long, or waits.
pub(super) fn is_not_calm() {
    CALM.set(false);
}

/// Whether the calling worker, which is about to wait within a statement, counts as waiting
/// already.
pub(super) fn waits_already() -> bool {
    WAITED.set(IS_DEDICATED.get());
    IS_DEDICATED.get()
}

/// Whether [`waits_already`] has returned `true` for the wait that ends now. For a worker that
/// continues after a wait.
pub(super) fn waited_already() -> bool {
    WAITED.take()
}
