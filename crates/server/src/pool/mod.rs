//! The threads that serve clients: few, and none waits for a client but who stays with one.
//!
//! **Goal.** A statement of a loaded server costs some ten microseconds; waking a thread costs as
//! much. With a thread for each client most of the processor's time went into wake-ups: one for the
//! command, one for the row's lock, one for the commit. Here a worker takes whatever is ready, runs
//! a statement to its end, and goes on to the next without sleeping between; what it would have
//! waited for is handed to it, or to another worker, as one more thing that is ready.
//!
//! **What is ready** comes from three sides, and goes through one queue that all workers take from
//! ([`work::Work`]): clients whose bytes have come, which one epoll instance tells; answers whose
//! commits have become durable, which go first; and clients who have kept quiet for too long
//! ([`timer`]).
//!
//! **A client** has a [`seat::Seat`], and costs memory only. Epoll tells of changes (`EPOLLET`) and
//! not of states, so nothing has to be armed again after each command; the seat's word of state
//! sees to it that one worker serves it at a time, and that nothing is overlooked that came
//! meanwhile.
//!
//! **Commits are not waited for.** A statement that has committed leaves its answer, made up but
//! unsent, in its connection, which stays busy: its next command is not begun before. Whoever
//! learns that the commit lasts queues the answer. The log is driven by the workers ([`commits`]):
//! one that finds nothing ready writes what is buffered, so that a lone client's commit costs no
//! hand-over, and one that finds commits older than [`commits::OVERDUE`] does so before anything
//! else. What is committed meanwhile gathers for the next write. The log's own flusher is the
//! backstop. All workers take answers from the queue: with one sender for a whole batch of commits
//! the last client waits for all the others.
//!
//! **Answers go out together** where their statements were brief ([`tray`]): what connections cost
//! is mostly the system's, and most of that are sends. A statement is brief that is over in some
//! microseconds so far as can be known, as one that looks a row up; whoever begins another says so
//! before ([`spillway_base::thread::long_ahead`]), and so does one that meets more rows than was
//! thought.
//!
//! **Rows are not waited for.** A statement that finds its row locked is left
//! ([`spillway_sql::Session::set_waker`]), and its seat is queued, before all else, by whoever
//! gives the row to it: mostly the worker whose statement had it, which then goes on with that seat
//! itself. So a row that all clients want goes from one to the next without a thread that sleeps or
//! wakes.
//!
//! **Devices are not waited for** where a statement looks rows up by their keys. It is left as for
//! a row that is locked, and its block is read meanwhile, beside others'; that reads are over is
//! one more thing that epoll tells, and whoever hears it takes the blocks into memory and queues
//! those who want them. Other statements wait for their device as for anything else within a
//! statement, and so does one with which nothing else is to be done ([`thread::Pool::is_quiet`]):
//! to be left and to begin anew would only cost it time.
//!
//! **How many** ([`crew`]): as many run at once as the setting says. One that has to wait within a
//! statement says so ([`spillway_base::thread::blocking`]), and another takes its place: at once
//! where nobody is left to watch. So, if all clients but one wait for a lock, that one's COMMIT is
//! still read. So does one whose row is on a device. Threads beyond the setting go to rest as soon
//! as they have nothing in hand. And where all are long at a statement each while others are ready
//! ([`watch`]), one more runs.
//!
//! **Who asks on and on** is stayed with, where it is on this machine ([`stay`]): a worker waits in
//! that client's socket, on the client's core, as long as there are few such clients and their
//! statements are brief.
//!
//! **As few as will do.** One worker is through with a few brief statements before another is
//! awake, and sends more answers together than two do. So one that has met nothing long of late
//! calls nobody for a few commands, and steps back where another listens already. Before it does
//! anything long, or waits, it sees to it that another listens, or has been called.
//!
//! Invariants:
//! 1. A seat that is not busy has nothing to be read that no event will tell of, and its time is
//!    known to the timer.
//! 2. A busy seat is in the hands of one worker, or in the queue once, or its commit's outcome will
//!    queue it, or the waker of its statement, or the timer. Epoll is quiet of it while a worker
//!    stays with it (R1).
//! 3. Where something is in the queue, a worker is awake and will look there before it waits or
//!    does anything long, or the bell has been rung.
//! 4. Where fewer run than may and none of them sleeps in epoll, another has been called, or one
//!    that runs is at nothing long.
//!
//! **Rejected:** an async runtime: statements run deep in code that blocks rarely, and would have
//! to be rewritten for nothing (DESIGN, D11). A thread that only polls, handing over to workers:
//! that is the wake-up again. One epoll instance for each worker: a client's command would wait
//! behind a long statement of its worker while another is idle.

mod call;
mod commits;
mod crew;
mod seat;
mod stay;
#[cfg(test)]
mod tests;
mod timer;
mod tray;
mod watch;
mod work;

use std::cell::Cell;
use std::io;
use std::net::IpAddr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use rustc_hash::FxHashMap;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use spillway::{Mechanism, Metric};
use spillway_base::{clock, thread};
use spillway_sql::SqlError;

use self::commits::Commits;
use self::crew::Crew;
use self::seat::{Left, Seat, Sitting};
use self::stay::Stays;
use self::timer::Timer;
use self::work::{Item, Work};
use crate::admission::Slot;
use crate::connection::{Client, Step};
use crate::login::Peer;
use crate::server::Shared;
use crate::transport::Socket;
use crate::vanished::Vanished;

/// Events that are taken from epoll at once where all other workers have something to do.
const EVENTS: usize = 32;
/// In place of a seat's number: the bell.
const BELL: u64 = u64::MAX;
/// In place of a seat's number: reads that are over.
const READS: u64 = u64::MAX - 1;
/// So many answers are worth waking another worker for.
const SHARE_AT: usize = 4;

/// Reads of statements that were left are handed over to the device together, and the first of them
/// this long after it was begun, where so much else is ready.
const GATHER: Duration = Duration::from_micros(50);
/// In place of when the first was begun: they are to be handed over by whoever comes by.
const LONG_AGO_NS: u64 = 1;
/// A device that does not take them is asked again after this.
const REFUSED: Duration = Duration::from_millis(1);

/// So often what panics while reads are seen to is gone on with.
const PANICS: usize = 16;

/// What epoll told of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Found {
    Nothing,
    Others,
    /// Reads that are over, perhaps beside others.
    Reads,
}

/// A worker that has served so many without anything that took long may count on the next to be
/// like them; more than so many say no more; and one that took longer takes as much away as so many
/// add.
const BRIEF_AFTER: u32 = 64;
const BRIEF_MOST: u32 = 128;
const LONGER: u32 = 8;
/// What takes as long, again and again, is worth another worker's time.
const BRIEF_FOR: Duration = Duration::from_micros(8);
/// So many commands at once are worth another worker's time, where they are likely to be brief.
const BACKLOG: usize = 8;

thread_local! {
    /// What this worker has served since something last took long.
    static BRIEF: Cell<u32> = const { Cell::new(0) };
    /// Whether it is to step back.
    static STEPS_BACK: Cell<bool> = const { Cell::new(false) };
    /// Whether this thread will look at the queue by itself after what it is doing.
    static LOOKS_SOON: Cell<bool> = const { Cell::new(false) };
    /// The same, from before it waited.
    static LOOKED_SOON: Cell<bool> = const { Cell::new(false) };
    /// Whether it has queued something since, and told nobody.
    static OWES: Cell<bool> = const { Cell::new(false) };
}

/// The workers, and those whom they serve.
pub(crate) struct Pool {
    me: Weak<Pool>,
    shared: Arc<Shared>,
    epoll: OwnedFd,
    /// Written to wake one who sleeps in epoll.
    bell: OwnedFd,
    /// Readable when reads are over that go on beside statements.
    _reads: Vec<OwnedFd>,
    seats: RwLock<FxHashMap<u64, Arc<Seat>>>,
    work: Mutex<Work>,
    commits: Commits,
    crew: Crew,
    timer: Timer,
    /// Since when reads are kept that are not handed over to the device yet, in nanoseconds of the
    /// clock; zero where it is not known.
    kept_since_ns: AtomicU64,
    /// Whether brief statements are answered together, by as few workers as will do.
    together: bool,
    /// Whether workers stay with clients.
    sticky: bool,
    vanished: Vanished,
    /// Whether those go to the cores of their clients.
    follows: bool,
    /// How many there are that clients could be on.
    cores: usize,
    stays: Stays,
    /// What was taken from the queue.
    taken: AtomicU64,
    /// As much as that was when it was last looked at whether all workers are stuck.
    taken_before: AtomicU64,
    /// When that is to be looked at, in nanoseconds of the clock, as it is while no worker sleeps;
    /// zero for never.
    watch_at_ns: AtomicU64,
}

impl Pool {
    /// Starts with one worker; others follow when they are needed.
    pub(crate) fn start(shared: Arc<Shared>, workers: usize) -> io::Result<Arc<Pool>> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &bell, EventData::new_u64(BELL), EventFlags::IN | EventFlags::ET)?;
        let reads = shared.instance.database().overlap_reads();
        for over in &reads {
            let flags = EventFlags::IN | EventFlags::ET;
            epoll::add(&epoll, over, EventData::new_u64(READS), flags)?;
        }
        let timer = Timer::new()?;
        let has = |mechanism| shared.instance.database().settings().has(mechanism);
        let together = has(Mechanism::AnswerBatches);
        let follows = has(Mechanism::FollowedClients);
        let sticky = has(Mechanism::StickyWorkers);
        let pool = Arc::new_cyclic(|me| Pool {
            me: me.clone(),
            shared,
            epoll,
            bell,
            _reads: reads,
            seats: RwLock::default(),
            work: Mutex::default(),
            commits: Commits::default(),
            crew: Crew::new(workers),
            timer,
            kept_since_ns: AtomicU64::new(0),
            together,
            sticky,
            vanished: Vanished::default(),
            follows,
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            stays: Stays::default(),
            taken: AtomicU64::new(0),
            taken_before: AtomicU64::new(0),
            watch_at_ns: AtomicU64::new(0),
        });
        pool.crew.call(|| pool.spawn()).map_err(io::Error::other)?;
        Ok(pool)
    }

    /// Seats a client that has just come.
    pub(crate) fn seat(
        &self,
        socket: Socket,
        slot: Slot,
        address: Option<IpAddr>,
    ) -> io::Result<()> {
        let id = slot.id;
        let raw = socket.raw();
        let seat = Arc::new(Seat::new(id, Sitting::Came { socket, address, slot }));
        self.seats.write().insert(id, seat.clone());
        let id_of_event = EventData::new_u64(id);
        if let Err(error) = epoll::add(&self.epoll, &*raw, id_of_event, stay::HEARD) {
            self.leave(&seat);
            return Err(error.into());
        }
        self.push(seat);
        Ok(())
    }

    /// What is readable when [`Pool::sweep`] is due earlier than it was said to be.
    pub(crate) fn alarm(&self) -> BorrowedFd<'_> {
        self.timer.alarm()
    }

    /// Lets go of clients whose time has come, and helps out where all workers are long at
    /// something. Answers when to come again.
    pub(crate) fn sweep(&self) -> Option<Duration> {
        let now = clock::now();
        let watch_at = self.watch(now);
        let look_at = self.vanished.look(&self.shared, now);
        let mut late = Vec::new();
        let next = self.timer.sweep(|| {
            let seats = self.seats.read();
            late.extend(seats.values().filter(|seat| seat.is_late(now)).cloned());
            seats.values().filter_map(|seat| seat.waits_until()).min()
        });
        for seat in late {
            if seat.expire() {
                self.push(seat);
            }
        }
        next.into_iter().chain(watch_at).chain(look_at).min()
    }

    /// What is counted of it.
    pub(crate) fn metrics(&self) -> [Metric; 4] {
        let figure =
            |name, help, value: usize| Metric { name, help, counter: false, value: value as f64 };
        let (stays_now, stays) = self.stays.figures();
        [
            figure(
                "workers_now",
                "Worker threads, including those that wait for locks and those dedicated to one connection.",
                self.crew.threads(),
            ),
            figure("stays_now", "Connections that have a dedicated worker now.", stays_now),
            Metric {
                name: "stays_total",
                help: "Times that a connection got a dedicated worker.",
                counter: true,
                value: stays as f64,
            },
            figure(
                "commits_waiting_now",
                "Responses that wait until their commit is durable.",
                self.commits.waiting(),
            ),
        ]
    }

    /// Ends the workers; with `wait`, after what they have in hand.
    pub(crate) fn stop(&self, wait: bool) {
        let workers = self.crew.end();
        self.ring();
        if wait {
            // A panic in one of them has been reported by the panic hook.
            workers.into_iter().for_each(|worker| drop(worker.join()));
        }
    }

    fn spawn(&self) -> spillway_base::Result<thread::JoinHandle<()>> {
        let pool = self.me.upgrade();
        thread::spawn("worker", move || {
            if let Some(pool) = pool {
                thread::join_pool(pool.clone());
                pool.work();
            }
        })
    }

    /// Calls another worker, where invariant 4 asks for one.
    fn call_if_missed(&self) {
        if self.crew.is_short() {
            // Without memory for a thread those there are go on when they can.
            let _ = self.crew.call(|| self.spawn());
        }
    }

    /// Whether the calling worker will soon be through with what it takes next, so far as it can
    /// tell.
    fn is_brief(&self) -> bool {
        self.together && BRIEF.get() >= BRIEF_AFTER
    }

    /// What the calling worker meant to see to itself is others' to find as well.
    fn share(&self) {
        if self.is_brief() {
            self.show_work();
        }
        BRIEF.set(0);
    }

    /// A statement took longer than brief ones do. Now and then the processor is somebody else's
    /// for as long.
    fn was_longer(&self) {
        let was_brief = self.is_brief();
        BRIEF.set(BRIEF.get().saturating_sub(LONGER));
        if was_brief && !self.is_brief() {
            self.show_work();
            self.call_if_missed();
        }
    }

    /// Wakes one who sleeps, where there is something to do.
    fn show_work(&self) {
        if !self.work.lock().is_empty() {
            self.ring_if_asleep();
        }
    }

    /// Wakes one who sleeps, unless somebody is on the way.
    fn ring_if_asleep(&self) {
        self.crew.sleepers.wake_one(|| self.ring());
    }

    fn ring(&self) {
        // It counts to more than there will ever be.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }

    /// Queues a seat that has just become busy.
    fn push(&self, seat: Arc<Seat>) {
        self.work.lock().put_command(seat);
        self.ring_if_asleep();
    }

    /// Has somebody look at the queue.
    fn tell_of_it(&self) {
        if LOOKS_SOON.get() {
            OWES.set(true);
        } else {
            self.ring_if_asleep();
        }
    }

    /// A worker.
    fn work(&self) {
        let mut events = Vec::with_capacity(EVENTS);
        // When it was through with what it had before, if it did nothing else since.
        let mut began = None;
        loop {
            let stays = match STEPS_BACK.take() {
                true => self.crew.steps_back(|| self.rest()),
                false => self.crew.stays(|| self.rest()),
            };
            if !stays {
                break;
            }
            let Some(item) = self.next(&mut events) else {
                began = None;
                continue;
            };
            self.taken.fetch_add(1, Ordering::SeqCst);
            BRIEF.set((BRIEF.get() + 1).min(BRIEF_MOST));
            if self.crew.sleeping() == 0
                && self.watch_at_ns.load(Ordering::SeqCst) == 0
                && self.begin_watch(clock::now())
            {
                self.timer.ring();
            }
            let since = began.take().unwrap_or_else(clock::now);
            let (seat, outcome) = match item {
                Item::Answer(seat, outcome) => (seat, Some(outcome)),
                Item::Command(seat) => (seat, None),
            };
            self.stays.note_asked(&seat, since);
            self.serve(seat, outcome);
            let now = clock::now();
            if now >= since + BRIEF_FOR {
                self.was_longer();
            }
            began = (!self.send_enough(now)).then_some(now);
        }
        self.send_kept();
        self.hand_over(Duration::ZERO);
        // The next one is to hear it as well.
        self.ring();
    }

    /// Leaves to others what a worker would have seen to that goes to rest.
    fn rest(&self) {
        self.send_kept();
        self.hand_over(Duration::ZERO);
        let keeps = self.shared.instance.database().keeps_reads();
        if keeps || self.commits.waiting() > 0 || !self.work.lock().is_empty() {
            self.ring_if_asleep();
        }
        // Nobody hears what comes, and those who run may be long at something.
        if self.crew.sleeping() == 0 && self.begin_watch(clock::now()) {
            self.timer.ring();
        }
    }

    /// Something to do. `None` after a sleep, or a write of the log.
    fn next(&self, events: &mut Vec<Event>) -> Option<Item> {
        let overdue = self.commits.are_overdue();
        OWES.set(false);
        let (item, shares) = {
            let mut work = self.work.lock();
            let item = work.next(overdue);
            (item, work.called() > 0 || work.answers() >= SHARE_AT)
        };
        if item.is_some() {
            if shares {
                self.ring_if_asleep();
            }
            self.hand_over(GATHER);
            return item;
        }
        self.send_kept();
        self.hand_over(Duration::ZERO);
        let waiting = self.commits.waiting() > 0;
        if !overdue && waiting && self.collect(events, true) {
            return None;
        }
        if !(waiting && self.lead()) {
            self.sleep(events);
        }
        None
    }

    /// Hands over to the device what statements were left for, where that has been kept for so
    /// long.
    fn hand_over(&self, after: Duration) {
        let database = self.shared.instance.database();
        if !database.keeps_reads() {
            if self.kept_since_ns.load(Ordering::Relaxed) != 0 {
                // What is kept from now on is not as old.
                self.kept_since_ns.store(0, Ordering::Relaxed);
            }
            return;
        }
        // Where somebody sleeps little comes that could go along, and nobody else looks while what
        // comes next is long.
        if !after.is_zero() && self.crew.sleeping() == 0 {
            let now = clock::now();
            let since = self.kept_since_ns.load(Ordering::Relaxed);
            if since == 0 {
                return self.kept_since_ns.store(now.as_nanos() as u64, Ordering::Relaxed);
            }
            if now < Duration::from_nanos(since) + after {
                return;
            }
        }
        self.kept_since_ns.store(0, Ordering::Relaxed);
        self.send_kept();
        // What is over at once comes into memory here: a panic there is reported by the panic hook,
        // and ends no more than its block.
        if catch_unwind(AssertUnwindSafe(|| database.submit_reads())).is_err() {
            self.end_reads();
        }
    }

    /// Writes the log. Whether there was anything to be written by this thread.
    fn lead(&self) -> bool {
        thread::Pool::long_ahead(self);
        let database = self.shared.instance.database();
        let flush = || {
            LOOKS_SOON.set(true);
            database.lead_flush()
        };
        let led = self
            .commits
            .lead(|| if self.crew.most() == 1 { thread::blocking(flush) } else { flush() });
        LOOKS_SOON.set(false);
        led
    }

    /// Waits until something is ready.
    fn sleep(&self, events: &mut Vec<Event>) {
        if self.is_brief() && self.crew.sleeping() > 0 {
            // One is enough to see what comes.
            STEPS_BACK.set(true);
            return;
        }
        let is_idle = || self.work.lock().is_empty() && self.crew.goes_on();
        let found = self.crew.sleepers.sleep(is_idle, || {
            // What the device has not taken is handed over again.
            let keeps = self.shared.instance.database().keeps_reads();
            self.listen(events, keeps.then_some(REFUSED))
        });
        let found = found.unwrap_or(Found::Nothing);
        if !self.is_brief() || self.work.lock().commands() >= BACKLOG {
            self.call_if_missed();
        }
        self.see_to_reads(found, true);
    }

    /// Queues what epoll tells of, without waiting; whether that was anything.
    fn collect(&self, events: &mut Vec<Event>, looks_soon: bool) -> bool {
        let found = self.listen(events, Some(Duration::ZERO));
        self.see_to_reads(found, looks_soon);
        found != Found::Nothing
    }

    /// Takes into memory what has been read, and queues those who want it. Who does so counts as at
    /// work. A worker, `looks_soon`, goes on with the first of them itself; another is woken once
    /// there is one more. A panic ends no more than the block that it met, and those who want that
    /// are called all the same.
    fn see_to_reads(&self, found: Found, looks_soon: bool) {
        if found != Found::Reads {
            return;
        }
        self.send_kept();
        LOOKS_SOON.set(looks_soon);
        self.end_reads();
        LOOKS_SOON.set(false);
    }

    fn end_reads(&self) {
        let database = self.shared.instance.database();
        for _ in 0..PANICS {
            // The panic hook has reported it, and nothing tells a second time of the reads that are
            // left.
            if catch_unwind(AssertUnwindSafe(|| database.end_reads())).is_ok() {
                break;
            }
        }
    }

    /// Queues what epoll tells of, but for reads.
    fn listen(&self, events: &mut Vec<Event>, wait: Option<Duration>) -> Found {
        // Those who sleep are woken for one event each, and are to find it.
        let others = self.crew.sleeping() - usize::from(wait.is_none());
        events.clear();
        events.reserve_exact(if others > 0 { 1 } else { EVENTS });
        let wait = wait.and_then(|wait| Timespec::try_from(wait).ok());
        let found = if others > 0 {
            let mut one = [Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; 1];
            let found = epoll::wait(&self.epoll, &mut one, wait.as_ref());
            events.extend(one.into_iter().take(*found.as_ref().unwrap_or(&0)));
            found
        } else {
            epoll::wait(&self.epoll, spare_capacity(events), wait.as_ref())
        };
        if found.is_err() || events.is_empty() {
            return Found::Nothing;
        }
        let (mut queued, mut read) = (0, false);
        {
            let seats = self.seats.read();
            let mut work = self.work.lock();
            for event in events.iter() {
                let (number, flags) = (event.data.u64(), event.flags);
                if number == BELL {
                    self.crew.sleepers.heard();
                } else if number == READS {
                    read = true;
                } else if let Some(seat) = seats.get(&number) {
                    let ended = EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR;
                    if seat.stir(flags.intersects(ended)) {
                        work.put_command(seat.clone());
                        queued += 1;
                    }
                }
            }
        }
        if queued > 1 && (!self.is_brief() || queued >= BACKLOG) {
            self.ring_if_asleep();
        }
        if read { Found::Reads } else { Found::Others }
    }

    /// Serves a client, whose seat is busy, until it has to be waited for, or others are ready.
    fn serve(&self, seat: Arc<Seat>, outcome: Option<Result<(), SqlError>>) {
        let mut outcome = outcome;
        let mut sitting = seat.sitting.lock();
        loop {
            let left = seat.look();
            LOOKS_SOON.set(true);
            stay::begin_command();
            let step = catch_unwind(AssertUnwindSafe(|| {
                self.step(&seat, &mut sitting, outcome.take(), left)
            }));
            LOOKS_SOON.set(false);
            let step = match step {
                Ok(step) if self.is_to_stay(&seat, &step) => self.stay(&seat, &mut sitting, step),
                step => step,
            };
            if !matches!(step, Ok(Step::Answers(_))) {
                self.send_kept();
            }
            if matches!(step, Ok(Step::Again | Step::End) | Err(_)) {
                // One who sends command after command keeps a worker, and the end of a session may
                // have much to undo.
                self.share();
                self.call_if_missed();
            }
            match step {
                Ok(Step::Again) => {
                    if !self.work.lock().is_empty() {
                        drop(sitting);
                        return self.push(seat);
                    }
                }
                Ok(Step::Commits(commit)) => {
                    drop(sitting);
                    return self.answer_after(commit, seat);
                }
                Ok(Step::Locked(until)) => {
                    drop(sitting);
                    if seat.lock(until) {
                        return self.timer.note(until);
                    }
                    sitting = seat.sitting.lock();
                }
                Ok(Step::Answers(until)) => {
                    drop(sitting);
                    return self.keep(seat, until);
                }
                Ok(Step::Waits(until)) => {
                    drop(sitting);
                    if seat.rest(until) {
                        return self.timer.note(until);
                    }
                    sitting = seat.sitting.lock();
                }
                Ok(Step::End) | Err(_) => {
                    drop(sitting);
                    return self.leave(&seat);
                }
            }
        }
    }

    fn step(
        &self,
        seat: &Arc<Seat>,
        sitting: &mut Sitting,
        outcome: Option<Result<(), SqlError>>,
        left: Left,
    ) -> Step {
        let greet = |socket, address, slot: &Slot| {
            let waker = call::waker(self.me.clone(), seat);
            let peer = Peer { id: slot.id, address, entrance: slot.entrance };
            Client::greet(socket, self.shared.clone(), peer, waker)
        };
        let Some((client, greeted)) = sitting.client(greet) else { return Step::End };
        if greeted && !left.stirred {
            // Who it is can be read once it has said something.
            return Step::Waits(client.deadline());
        }
        if left.stirred {
            client.stir(left.ended);
        }
        if let Some(outcome) = outcome {
            return client.committed(outcome);
        }
        match client.step() {
            Step::Waits(until) if left.late && until <= clock::now() => client.expire(),
            step => step,
        }
    }

    /// Has a client told once its commit is known to last.
    fn answer_after(&self, commit: spillway::CommitFuture, seat: Arc<Seat>) {
        self.commits.begin();
        let pool = self.me.clone();
        LOOKS_SOON.set(true);
        commit.then(move |outcome| {
            if let Some(pool) = pool.upgrade() {
                pool.tell(seat, outcome.map(drop).map_err(SqlError::from));
            }
        });
        LOOKS_SOON.set(false);
    }

    fn tell(&self, seat: Arc<Seat>, outcome: Result<(), SqlError>) {
        self.work.lock().put_answer(seat, outcome);
        self.commits.end();
        self.tell_of_it();
    }

    /// Has others hand over what is kept for the device: the caller may hold what blocks need that
    /// come into memory.
    fn have_kept_reads_handed_over(&self) {
        if self.shared.instance.database().keeps_reads() {
            self.kept_since_ns.store(LONG_AGO_NS, Ordering::Relaxed);
            self.ring_if_asleep();
        }
    }

    /// Lets go of a client, its place last.
    fn leave(&self, seat: &Seat) {
        self.seats.write().remove(&seat.id);
        let gone = std::mem::replace(&mut *seat.sitting.lock(), Sitting::Gone);
        // A panic ends no more than what it met.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(gone)));
    }
}

impl thread::Pool for Pool {
    fn leave(&self) {
        stay::is_not_calm();
        if stay::waits_already() {
            return self.have_kept_reads_handed_over();
        }
        self.send_kept();
        self.share();
        // What it makes ready from now on is others' to find.
        LOOKED_SOON.set(LOOKS_SOON.replace(false));
        if OWES.take() {
            self.ring_if_asleep();
        }
        self.crew.leave();
        self.have_kept_reads_handed_over();
        self.call_if_missed();
    }

    fn come_back(&self) {
        if stay::waited_already() {
            return;
        }
        self.crew.come_back();
        LOOKS_SOON.set(LOOKED_SOON.get());
    }

    fn long_ahead(&self) {
        stay::is_not_calm();
        self.leave_client();
        self.send_kept();
        if OWES.take() {
            self.ring_if_asleep();
        }
        self.share();
        self.call_if_missed();
    }

    fn is_quiet(&self) -> bool {
        // Where it is alone because its statements are brief, another is called when it waits,
        // once.
        let alone = || self.is_brief() && self.crew.is_alone();
        (self.crew.is_one_at_work(self.stays.figures().0) || alone()) && self.work.lock().is_empty()
    }
}
