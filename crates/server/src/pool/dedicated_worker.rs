//! Dedicated workers: a busy local client gets a worker that waits in its socket.
//!
//! A client that sends one brief statement after the other waits on its core for a response from
//! another core. Each command and each response wakes a thread there by an interrupt, which is
//! expensive in a virtual machine. A worker that serves only this client can run on the client's
//! core: the two wake each other without interrupts, and share its caches. For commits, row locks,
//! device reads and long statements the client uses the queue, as all do.
//!
//! The system rarely puts the two on one core, and moves one away when it finds another core idle.
//! So the worker looks now and then which core its client sends from, and moves there. It is not
//! bound to that core, because the system would then move the client.
//!
//! To the thread pool a dedicated worker is one that *waits*, so another runs in its place. Epoll
//! does not report the client meanwhile.
//!
//! # Guarantees
//!
//! - **DEDICATED-WORKER-1.** A connection with a dedicated worker is busy and held by that worker
//!   alone. The worker sees what the client sends, and its end. Its timeouts are late by at most
//!   [`QUIET`].
//! - **DEDICATED-WORKER-2.** A client gets a dedicated worker after [`AFTER`] responses in a row
//!   without a wait, and after more if the last one lasted for fewer than [`WORTH`]. It loses it
//!   when it is silent for [`QUIET`]. Only local clients over TCP without TLS get one, because the
//!   cores of others are not known.
//! - **DEDICATED-WORKER-3.** There are at most [`PLACES`] dedicated workers for each worker. There
//!   are none soon after more clients than that ask for anything, because these few would get more
//!   of the cores than the others. There are none either while more clients than there are workers
//!   wait or ask for something long, or if no worker would be left to listen; nor, for
//!   [`PILED_FOR`] windows and more, when the clients are together on few cores: one thread with
//!   many connections asks for several things at once, and is served better by one worker that
//!   responds to them together.
//! - **DEDICATED-WORKER-4.** A dedicated worker counts as running again before it does anything
//!   that is known to take long, and leaves its client after that.
//!
//! **Rejected.** A thread for each client, always: commits that wait together are written together
//! by a worker with nothing else to do, and a hot row passes from one client to the next without a
//! wake-up ([`super`]). Each worker in an epoll instance of its own, with some of the clients: it
//! is on the core of some of them at best. To try both and keep the faster: the trials scatter
//! clients that have come together, and on a busy machine chance decides.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};
use std::thread::Result;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use spillway_base::{clock, thread};

use super::Pool;
use super::connection_slot::{ConnectionSlot, ConnectionState};
use crate::connection::{Client, Step};
use crate::transport::{Raw, Socket};

/// Responses in a row without a wait before a client gets a dedicated worker: at first, and at
/// most.
const AFTER: u32 = 16;
const AFTER_MOST: u32 = 1 << 12;
/// Responses after which a dedicated worker was worth it.
const WORTH: u64 = 64;
/// How long a client may be silent before it loses its dedicated worker.
const QUIET: Duration = Duration::from_millis(10);
/// Dedicated workers, for each worker that may run at once.
const PLACES: usize = 32;
/// Dedicated workers, however many workers there are.
const PLACES_MOST: usize = 512;
/// Responses from one look at the client's core to the next.
const LOOKS_EACH: u64 = 32;
/// When this many clients are on few cores, at so many looks and for so long, it is no chance. Then
/// there are no dedicated workers for `PILED_FOR` windows, and for twice as many each time that it
/// is found again soon.
const PILED_FROM: u32 = 4;
const PILED_LOOKS: u32 = 256;
const PILED_AFTER: Duration = Duration::from_millis(250);
const PILED_FOR: u64 = 20;
const PILED_FOR_MOST: u64 = 16 * PILED_FOR;
/// Windows within which it is found again soon.
const PILED_SOON: u64 = 10;
/// The window in which clients that ask for anything are counted.
const WINDOW: Duration = Duration::from_millis(100);

/// The events of a client that epoll reports.
pub(super) const HEARD: EventFlags = EventFlags::IN.union(EventFlags::RDHUP).union(EventFlags::ET);

thread_local! {
    /// Whether this worker is a client's, and counts as one that waits.
    static IS_DEDICATED: Cell<bool> = const { Cell::new(false) };
    /// Whether it has waited within that.
    static WAITED: Cell<bool> = const { Cell::new(false) };
    /// Whether nothing long was ahead, and nothing waited for, since this worker last began a
    /// command.
    static CALM: Cell<bool> = const { Cell::new(true) };
}

/// The latest responses to a connection's client. The worker that has the connection writes it.
#[derive(Default)]
pub(super) struct Calm {
    /// Answers in a row that nothing was waited for.
    answers: AtomicU32,
    /// How many more than [`AFTER`] are needed for a dedicated worker.
    more: AtomicU32,
    /// The last window that it was counted in, and that it was counted in as one that waits.
    window: AtomicU64,
    waited: AtomicU64,
}

impl Calm {
    /// It was answered, or, not `calm`, something was waited for. Whether it has had enough of
    /// answers in a row for a dedicated worker.
    fn note(&self, calm: bool) -> bool {
        let answers = if calm { self.answers.load(Relaxed).saturating_add(1) } else { 0 };
        self.answers.store(answers, Relaxed);
        answers >= AFTER + self.more.load(Relaxed)
    }

    /// Its dedicated worker has left it after so many answers.
    fn left_after(&self, answers: u64) {
        let more = self.more.load(Relaxed);
        let more = if answers < WORTH { (2 * more + AFTER).min(AFTER_MOST) } else { more / 2 };
        self.more.store(more, Relaxed);
        self.answers.store(0, Relaxed);
    }
}

/// The core of each client with a dedicated worker, at its last look.
#[derive(Default)]
pub(super) struct Cores(Mutex<Clients>);

#[derive(Default)]
struct Clients {
    /// Of each core, how many there were.
    on: Vec<u32>,
    /// How many looks in a row found them on few, and when the first of these was.
    piled: u32,
    piled_since: Duration,
}

impl Cores {
    /// A client is on a core now, and no more on the one that it was on before. Whether so few of
    /// `all` cores have had the clients for so long that these are likely to be the connections of
    /// fewer threads: half of those that they could be on, or less.
    fn note(&self, before: Option<usize>, core: usize, all: usize, now: Duration) -> bool {
        let mut clients = self.0.lock();
        clients.leave(before);
        if clients.on.len() <= core {
            clients.on.resize(core + 1, 0);
        }
        clients.on[core] += 1;
        let many = clients.on.iter().sum::<u32>();
        let used = clients.on.iter().filter(|&&count| count > 0).count();
        if many < PILED_FROM || 2 * used > all.min(many as usize) {
            clients.piled = 0;
            return false;
        }
        if clients.piled == 0 {
            clients.piled_since = now;
        }
        clients.piled += 1;
        let long = now.saturating_sub(clients.piled_since) >= PILED_AFTER;
        let told = long && clients.piled >= PILED_LOOKS;
        if told {
            clients.piled = 0;
        }
        told
    }

    /// A client has lost its dedicated worker.
    fn left(&self, core: Option<usize>) {
        self.0.lock().leave(core);
    }
}

impl Clients {
    fn leave(&mut self, core: Option<usize>) {
        if let Some(count) = core.and_then(|core| self.on.get_mut(core)) {
            *count -= 1;
        }
    }
}

/// The dedicated workers, and how many clients there are beside them.
#[derive(Default)]
pub(super) struct DedicatedWorkers {
    cores: Cores,
    /// Until this window there are no dedicated workers, because clients have few threads.
    piled_until: AtomicU64,
    /// For how many windows that was.
    piled_for: AtomicU64,
    now: AtomicUsize,
    total: AtomicU64,
    window: AtomicU64,
    /// Clients that asked for something in this window, and in the one before.
    asked: AtomicUsize,
    asked_before: AtomicUsize,
    /// Those of them for whom something was waited for, or that asked for something long.
    waited: AtomicUsize,
    waited_before: AtomicUsize,
}

impl DedicatedWorkers {
    /// A client asks for something.
    pub(super) fn note_asked(&self, connection: &ConnectionSlot, now: Duration) {
        let window = now.as_nanos() as u64 / WINDOW.as_nanos() as u64;
        if connection.calm.window.load(Relaxed) == window {
            return;
        }
        connection.calm.window.store(window, Relaxed);
        let last = self.window.load(Relaxed);
        if last < window && self.window.compare_exchange(last, window, SeqCst, Relaxed).is_ok() {
            let follows = last + 1 == window;
            for (now, before) in
                [(&self.asked, &self.asked_before), (&self.waited, &self.waited_before)]
            {
                let now = now.swap(0, Relaxed);
                before.store(if follows { now } else { 0 }, Relaxed);
            }
        }
        self.asked.fetch_add(1, Relaxed);
    }

    /// Something is waited for that the client of a connection asked for.
    fn note_waited(&self, connection: &ConnectionSlot) {
        let window = connection.calm.window.load(Relaxed);
        if connection.calm.waited.swap(window, Relaxed) != window {
            self.waited.fetch_add(1, Relaxed);
        }
    }

    /// Clients were found that have few threads.
    fn note_piled(&self) {
        let (window, until) = (self.window.load(Relaxed), self.piled_until.load(Relaxed));
        let again = until > 0 && window <= until + PILED_SOON;
        let twice = if again { 2 * self.piled_for.load(Relaxed) } else { 0 };
        let windows = twice.clamp(PILED_FOR, PILED_FOR_MOST);
        self.piled_for.store(windows, Relaxed);
        self.piled_until.store(window + windows, Relaxed);
    }

    /// Whether more ask for anything than there are places, or more wait than there are workers for
    /// them.
    fn is_crowded(&self, places: usize, workers: usize) -> bool {
        if self.window.load(Relaxed) < self.piled_until.load(Relaxed) {
            return true;
        }
        let most =
            |now: &AtomicUsize, before: &AtomicUsize| now.load(Relaxed).max(before.load(Relaxed));
        most(&self.asked, &self.asked_before) > places
            || most(&self.waited, &self.waited_before) > workers
    }

    fn begin(&self, places: usize, workers: usize) -> bool {
        let place = |now: usize| (now < places).then_some(now + 1);
        !self.is_crowded(places, workers) && self.now.fetch_update(SeqCst, SeqCst, place).is_ok()
    }

    /// How many there are, and how many there were.
    pub(super) fn figures(&self) -> (usize, u64) {
        (self.now.load(SeqCst), self.total.load(SeqCst))
    }
}

/// Goes where a client is.
struct Follower<'a> {
    dedicated: &'a DedicatedWorkers,
    raw: &'a Raw,
    /// Where it was when it was last looked.
    core: Option<usize>,
    moves: bool,
}

impl Follower<'_> {
    /// Looks where the client last sent from, and has the calling worker go on there. It may go
    /// anywhere from there; where the system does not let it say where, it stays where it is.
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

/// Sends a client its answer. Whether it took all of it.
fn send(client: &mut Client<Socket>) -> bool {
    let sent = client.pending_send().map_or(Ok(0), |mut pending_send| {
        pending_send.send();
        pending_send.sent()
    });
    client.posted(sent)
}

impl Pool {
    /// Records how a client was served. Returns whether it gets a dedicated worker; its place is
    /// then taken.
    pub(super) fn is_to_dedicate(&self, connection: &ConnectionSlot, step: &Step) -> bool {
        // A response that is sent within its step, as by TLS, ends in `Again`, and in a row that
        // counts for nothing.
        let calm = CALM.get() && matches!(step, Step::Answers(_) | Step::Waits(_));
        if !CALM.get() || matches!(step, Step::Commits(_) | Step::Locked(_)) {
            self.dedicated.note_waited(connection);
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

    /// Serves a client as its dedicated worker, until something must be done other than to send a
    /// response, or the client is silent; returns that step. The place is taken already
    /// ([`Pool::is_to_dedicate`]).
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
                    // The worker that serves it next waits for it.
                    outcome = Ok(Step::Again);
                    break;
                }
                outcome = Ok(Step::Waits(until));
                self.dedicated.note_asked(connection, now);
                if !IS_DEDICATED.get() || self.thread_pool.none_runs() || self.is_crowded() {
                    break;
                }
                if client.transport().is_none_or(|socket| socket.linger(QUIET).is_err()) {
                    break;
                }
                outcome = catch_unwind(AssertUnwindSafe(|| client.step()));
                // No worker waits for the pieces of a command.
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
            // Epoll reports unread bytes at once.
            if !self.hear(&raw, connection, HEARD) || !reads_as_before {
                outcome = Ok(Step::End);
            }
        }
        if matches!(outcome, Ok(Step::Commits(_) | Step::Locked(_))) {
            self.dedicated.note_waited(connection);
        }
        connection.calm.left_after(answers);
        self.dedicated.now.fetch_sub(1, SeqCst);
        outcome
    }

    /// The calling worker stays no more: it runs, as others do.
    pub(super) fn leave_client(&self) {
        if IS_DEDICATED.take() {
            thread::Pool::come_back(self);
        }
    }

    /// Has epoll tell of this of a client. Whether it will.
    fn hear(&self, raw: &Raw, connection: &ConnectionSlot, flags: EventFlags) -> bool {
        epoll::modify(&self.epoll, raw, EventData::new_u64(connection.id), flags).is_ok()
    }
}

/// The calling worker begins a command.
pub(super) fn begin_command() {
    CALM.set(true);
}

/// The command that it runs is long, or has it wait.
pub(super) fn is_not_calm() {
    CALM.set(false);
}

/// Whether the calling worker, which is about to wait within a statement, counts as one that waits
/// already.
pub(super) fn waits_already() -> bool {
    WAITED.set(IS_DEDICATED.get());
    IS_DEDICATED.get()
}

/// The same, of one that goes on.
pub(super) fn waited_already() -> bool {
    WAITED.take()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connections(count: usize) -> Vec<ConnectionSlot> {
        (0..count).map(|id| ConnectionSlot::new(id as u64, ConnectionState::Gone)).collect()
    }

    /// DEDICATED-WORKER-2: more of them where it was not worth it, and fewer again where it was.
    #[test]
    fn dedicated_worker_2_a_client_gets_a_worker_after_enough_answers_in_a_row() {
        let calm = Calm::default();
        let answers = || (1..=2 * AFTER_MOST).find(|_| calm.note(true)).unwrap();
        assert!((1..AFTER).all(|_| !calm.note(true)) && !calm.note(false));
        assert_eq!(answers(), AFTER);
        let mut asked = Vec::new();
        for _ in 0..10 {
            calm.left_after(WORTH - 1);
            asked.push(answers());
        }
        assert_eq!(asked[..4], [2 * AFTER, 4 * AFTER, 8 * AFTER, 16 * AFTER]);
        assert_eq!(asked[8..], [AFTER + AFTER_MOST; 2]);
        for _ in 0..20 {
            calm.left_after(WORTH);
        }
        assert_eq!(answers(), AFTER);
    }

    /// DEDICATED-WORKER-3: each client counts once in a window, and those of the last one count,
    /// too.
    #[test]
    fn dedicated_worker_3_clients_are_counted_that_ask_lately() {
        let (dedicated, connections) = (DedicatedWorkers::default(), connections(10));
        let ask = |window: u32, connections: &[ConnectionSlot]| {
            for part in 1..4 {
                connections.iter().for_each(|connection| {
                    dedicated.note_asked(connection, WINDOW * window + WINDOW * part / 4)
                });
            }
        };
        let counts =
            |most: usize| !dedicated.is_crowded(most, 9) && dedicated.is_crowded(most - 1, 9);
        ask(5, &connections[..4]);
        assert!(counts(4));
        ask(6, &connections);
        assert!(counts(10));
        ask(7, &connections[..2]);
        assert!(counts(10));
        ask(8, &connections[..2]);
        assert!(counts(2));
        ask(9, &connections);
        ask(11, &connections[..1]);
        assert!(counts(1), "that was before a pause");
        // Somebody's clock was read before.
        ask(10, &connections[1..2]);
        assert!(counts(2));
    }

    #[test]
    fn dedicated_worker_3_clients_of_few_threads_are_on_few_cores() {
        // Each is looked at in turn, so often in a second; how long until it is said.
        let told = |on: &[usize], all: usize, looks_a_second: u32| {
            let cores = Cores::default();
            let at = |look: u32| Duration::from_secs(1) * look / looks_a_second;
            on.iter().for_each(|&core| assert!(!cores.note(None, core, all, at(0))));
            let turns = (1..=4 * looks_a_second).zip(on.iter().cycle());
            let mut told =
                turns.filter(|(look, core)| cores.note(Some(**core), **core, all, at(*look)));
            told.next().map(|(look, _)| at(look))
        };
        // However many there are.
        for clients in [4, 32, 200] {
            assert_eq!(told(&vec![1; clients], 2, 4000), Some(PILED_AFTER));
        }
        let few = told(&[1; 4], 2, 200).unwrap();
        assert!(few > Duration::from_secs(1), "that were few looks: {few:?}");
        assert_eq!(told(&[1; 3], 2, 4000), None, "they may be there by chance");
        assert_eq!(told(&[0, 1, 1, 1, 1, 1], 2, 4000), None);
        assert_eq!(told(&[0; 9], 1, 4000), None, "there is no other");
        // Of sixteen cores they could be on as many as they are.
        assert_eq!(told(&[0, 1, 2, 3, 4, 5, 6, 7], 16, 4000), None);
        assert!(told(&[0, 1, 2, 3, 0, 1, 2, 3], 16, 4000).is_some());
    }

    #[test]
    fn dedicated_worker_3_one_client_elsewhere_for_a_moment_begins_it_anew() {
        let cores = Cores::default();
        let now = Cell::new(Duration::from_secs(5));
        let look = |before, core| {
            now.set(now.get() + PILED_AFTER / PILED_LOOKS + Duration::from_nanos(1));
            cores.note(before, core, 2, now.get())
        };
        let looks = |many| (0..many).filter(|_| look(Some(1), 1)).count();
        (0..4).for_each(|_| assert!(!look(None, 1)));
        assert_eq!(looks(PILED_LOOKS - 1), 0);
        assert!(!look(Some(1), 0));
        assert_eq!(looks(PILED_LOOKS), 0);
        assert!(!look(Some(0), 1));
        assert_eq!((looks(PILED_LOOKS - 1), looks(1)), (0, 1));
        assert_eq!((looks(PILED_LOOKS), looks(1)), (0, 1), "and after as long again");
        // One has gone.
        cores.left(Some(1));
        assert_eq!(looks(4 * PILED_LOOKS), 0);
    }

    #[test]
    fn dedicated_worker_3_who_is_found_again_is_left_alone_for_longer() {
        let (dedicated, connections) = (DedicatedWorkers::default(), connections(1));
        let mut window = 100;
        let mut left_for = || {
            dedicated.note_piled();
            let from = window;
            while dedicated.is_crowded(9, 9) {
                window += 1;
                dedicated.note_asked(&connections[0], WINDOW * window as u32);
            }
            window - from
        };
        dedicated.note_asked(&connections[0], WINDOW * 100);
        let found: Vec<u64> = (0..6).map(|_| left_for()).collect();
        assert_eq!(found, [1, 2, 4, 8, 16, 16].map(|times| times * PILED_FOR));
        window += PILED_SOON + 1;
        dedicated.note_asked(&connections[0], WINDOW * window as u32);
        let left_for = || {
            dedicated.note_piled();
            dedicated.piled_until.load(Relaxed) - dedicated.window.load(Relaxed)
        };
        assert_eq!((left_for(), left_for()), (PILED_FOR, 2 * PILED_FOR));
    }

    /// DEDICATED-WORKER-3: each of them once in a window.
    #[test]
    fn dedicated_worker_3_none_stays_where_more_wait_than_there_are_workers() {
        let (dedicated, connections) = (DedicatedWorkers::default(), connections(4));
        let wait = |window: u32, connections: &[ConnectionSlot]| {
            for connection in connections.iter().chain(connections) {
                dedicated.note_asked(connection, WINDOW * window);
                dedicated.note_waited(connection);
            }
        };
        wait(5, &connections[..2]);
        assert!(dedicated.begin(9, 2) && !dedicated.begin(9, 1));
        wait(6, &connections[1..]);
        assert!(dedicated.begin(9, 3) && !dedicated.begin(9, 2));
        dedicated.note_asked(&connections[0], WINDOW * 7);
        assert!(!dedicated.begin(9, 2));
        dedicated.note_asked(&connections[0], WINDOW * 8);
        assert!(dedicated.begin(9, 0));
    }

    #[test]
    fn dedicated_worker_3_no_more_begin_than_there_are_places() {
        let (dedicated, connections) = (DedicatedWorkers::default(), connections(4));
        assert!((0..3).all(|_| dedicated.begin(3, 1)) && !dedicated.begin(3, 1));
        dedicated.now.fetch_sub(1, SeqCst);
        assert!(dedicated.begin(3, 1));
        dedicated.now.store(0, SeqCst);
        connections.iter().for_each(|connection| dedicated.note_asked(connection, WINDOW));
        assert!(!dedicated.begin(3, 1));
    }
}
