//! Workers that stay with a client.
//!
//! A client that asks on and on, one brief statement after the other, waits on its core for an
//! answer that comes from another: each command and each answer wakes a thread there, which takes
//! an interrupt, and on a virtual machine a dear one. A thread that does nothing but answer that
//! client can be where the client is: each wakes the other on its own core, and finds its lines in
//! the caches. So such a client gets a worker that waits in its socket. For its commits, for rows
//! and devices, and after all that is long, it goes through the queue as everybody does.
//!
//! The system brings the two together only by chance. Whoever finds a core idle is put there, away
//! from the other; then both wait for interrupts again, and so leave cores idle. So the worker
//! looks now and then where its client sends from, and goes there. It is not bound to that core:
//! that would only have the client put elsewhere.
//!
//! To the crew such a worker is one that *waits*, and another has taken its place: it sees what
//! comes from others, writes the log, and takes in what was read. Epoll is told to keep quiet of
//! the client meanwhile.
//!
//! # Guarantees
//!
//! - **R1.** A seat that is stayed with is busy, and in the hands of that worker alone. What its
//!   client sends is seen, and its end; its time runs out no more than [`QUIET`] later than if it
//!   were not.
//! - **R2.** A worker stays only with who has just had [`AFTER`] answers that nothing was waited
//!   for, and more where it stayed for fewer than
//!   [`WORTH`] the last time; and leaves who keeps quiet for [`QUIET`]. None stays but with clients
//!   of this machine that come by TCP, and not over TLS: of others it is not known where they are.
//! - **R3.** No more stay than there are places ([`PLACES`] for each worker), and soon none where
//!   more clients than that ask for anything: those who are stayed with would have more of the
//!   cores than the others. For the same reason none stays where more clients than there are
//!   workers wait for something, or ask for what is long; nor where nobody would be left to see
//!   what comes. Nor, for [`PILED_FOR`] windows and more, where clients are on few cores all
//!   together: a thread that has many connections asks for several things at once, and is better
//!   served by one worker that answers them together.
//! - **R4.** A worker that stays counts as running again before it does anything that is known to
//!   take long, and leaves its client after that.
//!
//! **Rejected.** A thread for each client, always: commits that wait together are written together
//! by who has nothing else to do, and a row that all want goes from one to the next without a
//! thread that wakes ([`super`]). Each worker in an epoll of its own, with some of the clients: it
//! is on the core of some of them at best. To try now and then whether few for all serve more, and
//! to go on with what did: what is tried scatters those who have come together, and on a busy
//! machine chance decides.

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
use super::seat::{Seat, Sitting};
use crate::connection::{Client, Step};
use crate::transport::{Raw, Socket};

/// So many answers in a row, for none of which anything was waited for, before a worker stays; at
/// the most, where it was not worth it.
const AFTER: u32 = 16;
const AFTER_MOST: u32 = 1 << 12;
/// Answers that it is to stay for.
const WORTH: u64 = 64;
/// Who keeps quiet for so long is left.
const QUIET: Duration = Duration::from_millis(10);
/// Clients that are stayed with, for each worker that may run at once.
const PLACES: usize = 32;
/// However many workers there are.
const PLACES_MOST: usize = 512;
/// Answers from one look at where the client is to the next.
const LOOKS_EACH: u64 = 32;
/// So many clients on few cores, at so many looks and for so long, are no chance; for so many
/// windows nobody is stayed with then, and for twice as many each time that it is found again as
/// soon as it can be.
const PILED_FROM: u32 = 4;
const PILED_LOOKS: u32 = 256;
const PILED_AFTER: Duration = Duration::from_millis(250);
const PILED_FOR: u64 = 20;
const PILED_FOR_MOST: u64 = 16 * PILED_FOR;
/// Windows in which it can be found again.
const PILED_SOON: u64 = 10;
/// Clients are counted that ask for anything within as much time.
const WINDOW: Duration = Duration::from_millis(100);

/// What epoll tells of a client.
pub(super) const HEARD: EventFlags = EventFlags::IN.union(EventFlags::RDHUP).union(EventFlags::ET);

thread_local! {
    /// Whether this worker stays with a client, and counts as one that waits.
    static STAYS: Cell<bool> = const { Cell::new(false) };
    /// Whether it has waited within that.
    static WAITED: Cell<bool> = const { Cell::new(false) };
    /// Whether nothing long was ahead, and nothing waited for, since this worker last began a
    /// command.
    static CALM: Cell<bool> = const { Cell::new(true) };
}

/// What a seat's client was answered lately. Written by whoever has the seat.
#[derive(Default)]
pub(super) struct Calm {
    /// Answers in a row that nothing was waited for.
    answers: AtomicU32,
    /// As many more than [`AFTER`] are asked for before it is stayed with.
    more: AtomicU32,
    /// The last window that it was counted in, and that it was counted in as one that waits.
    window: AtomicU64,
    waited: AtomicU64,
}

impl Calm {
    /// It was answered, or, not `calm`, something was waited for. Whether it has had enough of
    /// answers in a row to be stayed with.
    fn note(&self, calm: bool) -> bool {
        let answers = if calm { self.answers.load(Relaxed).saturating_add(1) } else { 0 };
        self.answers.store(answers, Relaxed);
        answers >= AFTER + self.more.load(Relaxed)
    }

    /// It was stayed with for so many answers.
    fn left_after(&self, answers: u64) {
        let more = self.more.load(Relaxed);
        let more = if answers < WORTH { (2 * more + AFTER).min(AFTER_MOST) } else { more / 2 };
        self.more.store(more, Relaxed);
        self.answers.store(0, Relaxed);
    }
}

/// Which core each client was on that is stayed with, when it was last looked.
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

    /// A client is stayed with no more.
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

/// Who is stayed with, and how many there are beside.
#[derive(Default)]
pub(super) struct Stays {
    cores: Cores,
    /// Until this window nobody is stayed with, since clients were seen that have few threads.
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

impl Stays {
    /// A client asks for something.
    pub(super) fn note_asked(&self, seat: &Seat, now: Duration) {
        let window = now.as_nanos() as u64 / WINDOW.as_nanos() as u64;
        if seat.calm.window.load(Relaxed) == window {
            return;
        }
        seat.calm.window.store(window, Relaxed);
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

    /// Something is waited for that the client of a seat asked for.
    fn note_waited(&self, seat: &Seat) {
        let window = seat.calm.window.load(Relaxed);
        if seat.calm.waited.swap(window, Relaxed) != window {
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

    /// How many are stayed with, and how many were.
    pub(super) fn figures(&self) -> (usize, u64) {
        (self.now.load(SeqCst), self.total.load(SeqCst))
    }
}

/// Goes where a client is.
struct Follower<'a> {
    stays: &'a Stays,
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
        if self.stays.cores.note(before, core, cores, now) {
            self.stays.note_piled();
        }
        if !self.moves || core == sched_getcpu() {
            return;
        }
        let Ok(allowed) = sched_getaffinity(None) else { return };
        if allowed.is_set(core) {
            let mut there = CpuSet::new();
            there.set(core);
            let _ = sched_setaffinity(None, &there);
            // What it may use may have been changed meanwhile.
            if sched_setaffinity(None, &allowed).is_err() {
                (0..CpuSet::MAX_CPU).for_each(|core| there.set(core));
                let _ = sched_setaffinity(None, &there);
            }
        }
    }
}

impl Drop for Follower<'_> {
    fn drop(&mut self) {
        self.stays.cores.left(self.core);
    }
}

/// Sends a client its answer. Whether it took all of it.
fn send(client: &mut Client<Socket>) -> bool {
    let sent = client.parcel().map_or(Ok(0), |mut parcel| {
        parcel.send();
        parcel.sent()
    });
    client.posted(sent)
}

impl Pool {
    /// Notes how a client was served. Whether the calling worker is to stay with it.
    pub(super) fn is_to_stay(&self, seat: &Seat, step: &Step) -> bool {
        // What was sent within its step, as all is by TLS, ends in `Again`, and in a row that
        // counts for nothing.
        let calm = CALM.get() && matches!(step, Step::Answers(_) | Step::Waits(_));
        if !CALM.get() || matches!(step, Step::Commits(_) | Step::Locked(_)) {
            self.stays.note_waited(seat);
        }
        let (places, workers) = (self.places(), self.crew.most());
        seat.calm.note(calm) && self.sticky && self.stays.begin(places, workers)
    }

    fn places(&self) -> usize {
        (PLACES * self.crew.most()).min(PLACES_MOST)
    }

    fn is_crowded(&self) -> bool {
        self.stays.is_crowded(self.places(), self.crew.most())
    }

    /// Stays with a client whose seat the calling worker has, until something is to be done but for
    /// an answer to be sent, or the client keeps quiet; answers what. The place is taken already
    /// ([`Pool::is_to_stay`]).
    pub(super) fn stay(&self, seat: &Seat, sitting: &mut Sitting, step: Step) -> Result<Step> {
        let mut answers = 0;
        let mut outcome = Ok(step);
        if let Some(client) = sitting.served_mut()
            && let Some(raw) = client.transport().map(|socket| socket.raw())
            && raw.sent_from().is_some()
            && self.hear(&raw, seat, EventFlags::ET)
        {
            let (stays, moves) = (&self.stays, self.follows);
            let mut follower = Follower { stays, raw: &raw, core: None, moves };
            self.stays.total.fetch_add(1, Relaxed);
            thread::Pool::leave(self);
            STAYS.set(true);
            while let Ok(Step::Answers(until) | Step::Waits(until)) = outcome {
                let now = clock::now();
                let answered = matches!(outcome, Ok(Step::Answers(_)));
                if answered && !send(client) {
                    // Whoever goes on waits for it.
                    outcome = Ok(Step::Again);
                    break;
                }
                outcome = Ok(Step::Waits(until));
                self.stays.note_asked(seat, now);
                if !STAYS.get() || self.crew.none_runs() || self.is_crowded() {
                    break;
                }
                if client.transport().is_none_or(|socket| socket.linger(QUIET).is_err()) {
                    break;
                }
                outcome = catch_unwind(AssertUnwindSafe(|| client.step()));
                // What comes piece by piece is waited for by nobody.
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
            // What is there and was not read is told of at once.
            if !self.hear(&raw, seat, HEARD) || !reads_as_before {
                outcome = Ok(Step::End);
            }
        }
        if matches!(outcome, Ok(Step::Commits(_) | Step::Locked(_))) {
            self.stays.note_waited(seat);
        }
        seat.calm.left_after(answers);
        self.stays.now.fetch_sub(1, SeqCst);
        outcome
    }

    /// The calling worker stays no more: it runs, as others do.
    pub(super) fn leave_client(&self) {
        if STAYS.take() {
            thread::Pool::come_back(self);
        }
    }

    /// Has epoll tell of this of a client. Whether it will.
    fn hear(&self, raw: &Raw, seat: &Seat, flags: EventFlags) -> bool {
        epoll::modify(&self.epoll, raw, EventData::new_u64(seat.id), flags).is_ok()
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
    WAITED.set(STAYS.get());
    STAYS.get()
}

/// The same, of one that goes on.
pub(super) fn waited_already() -> bool {
    WAITED.take()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seats(count: usize) -> Vec<Seat> {
        (0..count).map(|id| Seat::new(id as u64, Sitting::Gone)).collect()
    }

    /// R2: more of them where it was not worth it, and fewer again where it was.
    #[test]
    fn r2_a_client_is_stayed_with_after_so_many_answers_in_a_row() {
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

    /// R3: each client counts once in a window, and those of the last one count, too.
    #[test]
    fn r3_clients_are_counted_that_ask_lately() {
        let (stays, seats) = (Stays::default(), seats(10));
        let ask = |window: u32, seats: &[Seat]| {
            for part in 1..4 {
                seats
                    .iter()
                    .for_each(|seat| stays.note_asked(seat, WINDOW * window + WINDOW * part / 4));
            }
        };
        let counts = |most: usize| !stays.is_crowded(most, 9) && stays.is_crowded(most - 1, 9);
        ask(5, &seats[..4]);
        assert!(counts(4));
        ask(6, &seats);
        assert!(counts(10));
        ask(7, &seats[..2]);
        assert!(counts(10));
        ask(8, &seats[..2]);
        assert!(counts(2));
        ask(9, &seats);
        ask(11, &seats[..1]);
        assert!(counts(1), "that was before a pause");
        // Somebody's clock was read before.
        ask(10, &seats[1..2]);
        assert!(counts(2));
    }

    #[test]
    fn r3_clients_of_few_threads_are_on_few_cores() {
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
    fn r3_one_client_elsewhere_for_a_moment_begins_it_anew() {
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
    fn r3_who_is_found_again_is_left_alone_for_longer() {
        let (stays, seats) = (Stays::default(), seats(1));
        let mut window = 100;
        let mut left_for = || {
            stays.note_piled();
            let from = window;
            while stays.is_crowded(9, 9) {
                window += 1;
                stays.note_asked(&seats[0], WINDOW * window as u32);
            }
            window - from
        };
        stays.note_asked(&seats[0], WINDOW * 100);
        let found: Vec<u64> = (0..6).map(|_| left_for()).collect();
        assert_eq!(found, [1, 2, 4, 8, 16, 16].map(|times| times * PILED_FOR));
        window += PILED_SOON + 1;
        stays.note_asked(&seats[0], WINDOW * window as u32);
        let left_for = || {
            stays.note_piled();
            stays.piled_until.load(Relaxed) - stays.window.load(Relaxed)
        };
        assert_eq!((left_for(), left_for()), (PILED_FOR, 2 * PILED_FOR));
    }

    /// R3: each of them once in a window.
    #[test]
    fn r3_none_stays_where_more_wait_than_there_are_workers() {
        let (stays, seats) = (Stays::default(), seats(4));
        let wait = |window: u32, seats: &[Seat]| {
            for seat in seats.iter().chain(seats) {
                stays.note_asked(seat, WINDOW * window);
                stays.note_waited(seat);
            }
        };
        wait(5, &seats[..2]);
        assert!(stays.begin(9, 2) && !stays.begin(9, 1));
        wait(6, &seats[1..]);
        assert!(stays.begin(9, 3) && !stays.begin(9, 2));
        stays.note_asked(&seats[0], WINDOW * 7);
        assert!(!stays.begin(9, 2));
        stays.note_asked(&seats[0], WINDOW * 8);
        assert!(stays.begin(9, 0));
    }

    #[test]
    fn r3_no_more_begin_than_there_are_places() {
        let (stays, seats) = (Stays::default(), seats(4));
        assert!((0..3).all(|_| stays.begin(3, 1)) && !stays.begin(3, 1));
        stays.now.fetch_sub(1, SeqCst);
        assert!(stays.begin(3, 1));
        stays.now.store(0, SeqCst);
        seats.iter().for_each(|seat| stays.note_asked(seat, WINDOW));
        assert!(!stays.begin(3, 1));
    }
}
