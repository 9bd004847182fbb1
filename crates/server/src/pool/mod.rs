//! The worker pool: a few threads that serve all connections.
//!
//! **Goal.** A statement of a loaded server costs about ten microseconds, and waking a thread costs
//! as much. With one thread for each connection, most of the processor time would go into wake-ups:
//! for the command, for the row lock, for the commit. So a worker takes ready work from a queue,
//! runs a statement to its end, and takes the next without sleeping. A statement that would have to
//! wait gives up its worker. When its wait is over, it becomes ready work again.
//!
//! **The queue** ([`work_queue::WorkQueue`]) is shared by all workers. A connection enters it in
//! these cases:
//!
//! - epoll reports that its client has sent something ([`events`]);
//! - the outcome of its commit is known, so that the response can be sent;
//! - its suspended statement can continue ([`waker`]);
//! - its client has been silent for too long ([`timer`]).
//!
//! **A connection** has a [`connection_slot::ConnectionSlot`] and costs only memory. It is *busy*
//! from the moment at which it enters the queue until it waits for its client again. The slot's
//! atomic state word ensures that one worker at a time serves the connection, and that no event
//! which arrives meanwhile is lost.
//!
//! **Commits** do not hold a worker. A statement that commits leaves its response unsent in the
//! connection. The connection stays busy, so its next command waits. When the commit is durable,
//! the thread that learns this queues the response, and any worker sends it. If that thread itself
//! sent the responses of all commits that one write of the log made durable, the last client would
//! wait until all the others have their responses.
//!
//! Workers also write the log ([`commits`]). A worker without ready work writes it, so a lone
//! client's commit needs no hand-over to another thread. A worker that finds commits older than
//! [`commits::OVERDUE`] writes the log before it takes another command. If no worker writes the
//! log, the log's own flusher does.
//!
//! **Responses** of brief statements are sent together ([`response_batch`]): most of a brief
//! statement's cost is sending its response, and one system call for several responses is cheaper
//! than one for each. A statement that the worker takes for brief may turn out to take long. Such a
//! statement calls [`spillway_base::thread::long_ahead`] before anything that may take long, and
//! when it has met more rows than a brief statement may meet. In this call, the worker sends the
//! responses that it still holds.
//!
//! **Row locks** do not hold a worker. A statement that finds its row locked is suspended
//! ([`spillway_sql::Session::set_waker`]). The thread that releases the row puts the suspended
//! statement's connection into the queue, before all commands ([`waker`]). This thread is usually
//! the worker whose statement held the row. The worker then serves that connection next. So a hot
//! row passes from client to client without a sleep or a wake-up.
//!
//! **Device reads** of a statement that looks up rows by their keys do not hold a worker. The
//! statement is suspended as for a row lock, and its block or log record is read together with
//! those of other statements. Epoll reports finished reads; the thread that receives the event
//! loads the blocks and records, and queues the statements. All other statements keep their worker
//! while they wait for the device. A lookup also keeps its worker if the pool has nothing else to
//! do ([`thread::Pool::is_quiet`]), because a suspension would only delay the lookup.
//!
//! **How many workers run** ([`thread_pool`]): as many as the setting says. A worker reports that
//! it must wait within a statement ([`spillway_base::thread::blocking`]), and another worker takes
//! its place. So even if all clients but one wait for a table lock, a worker is free to read the
//! last client's COMMIT. After such waits, more workers may run than the setting says. In this
//! case, a worker becomes spare before it takes other work. If all workers run long statements
//! while other statements are ready, one more worker starts ([`stall_detector`]).
//!
//! **Busy local clients** get a worker each ([`dedicated_worker`]), as long as these clients are
//! few and their statements are brief.
//!
//! **Few workers for brief statements.** If the next statements are brief, one worker finishes
//! several of them before another worker is awake. One worker also sends more responses together
//! than two workers would. So a worker that has lately served brief statements wakes no other
//! worker for the commands in the queue while they are fewer than [`BACKLOG`]. When such a worker
//! finds no work and another worker sleeps in epoll, it becomes spare ([`thread_pool`]). Before it
//! runs anything long, or waits, it wakes or starts another worker for these commands.
//!
//! # Guarantees
//!
//! - **POOL-1.** If a connection is not busy, epoll will report any bytes of its client that are
//!   unread, and the timer knows the connection's deadline.
//! - **POOL-2.** A busy connection is held by one worker, or is in the queue once, or will be
//!   queued by its commit, its waker or the timer. While a connection has a dedicated worker, epoll
//!   does not report it (DEDICATED-WORKER-1).
//! - **POOL-3.** If the queue is not empty, either a worker is awake and checks the queue before it
//!   waits or runs anything long, or the bell ([`events`]) has been rung (SLEEPERS-1, SLEEPERS-2).
//! - **POOL-4.** If fewer workers run than the setting allows and no worker sleeps in epoll, either
//!   another worker has been started, or at least one running worker runs nothing long.
//!
//! # Rejected
//!
//! An async runtime: statements run deep in blocking code that would have to be rewritten (decision
//! 011).
//!
//! One thread that polls all clients and passes their commands to workers: passing a command on
//! wakes a thread, and avoiding wake-ups is the goal.
//!
//! One epoll instance for each worker, with a fixed set of clients: a command would wait behind a
//! long statement of its worker while another worker is idle.

mod commits;
mod connection_slot;
mod dedicated_clients;
mod dedicated_worker;
mod events;
mod response_batch;
mod serving;
mod stall_detector;
#[cfg(test)]
mod tests;
mod thread_pool;
mod timer;
mod waker;
mod work_queue;

use std::cell::Cell;
use std::io;
use std::net::IpAddr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use rustc_hash::FxHashMap;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use spillway::{Mechanism, Metric};
use spillway_base::{clock, thread};

use self::commits::Commits;
use self::connection_slot::{ConnectionSlot, ConnectionState};
use self::dedicated_clients::DedicatedWorkers;
use self::thread_pool::ThreadPool;
use self::timer::Timer;
use self::work_queue::{Item, WorkQueue};
use crate::admission::Slot;
use crate::server::Shared;
use crate::transport::Socket;
use crate::vanished::Vanished;

/// The event id of the bell, where other events have a connection's id.
const BELL: u64 = u64::MAX;

/// The event id of finished reads, where other events have a connection's id.
const READS: u64 = u64::MAX - 1;

/// How long a suspended statement's read is held back, so that the device gets several together.
const GATHER: Duration = Duration::from_micros(50);

/// The events of a client for which epoll is asked.
const HEARD: EventFlags = EventFlags::IN.union(EventFlags::RDHUP).union(EventFlags::ET);

/// With this many queued responses, another worker is woken.
const SHARE_AT: usize = 4;

/// After this many brief items, a worker expects that the next item is brief too. It counts at most
/// `BRIEF_MOST` brief items, and subtracts `LONGER` for an item that is not brief.
const BRIEF_AFTER: u32 = 64;
const BRIEF_MOST: u32 = 128;
const LONGER: u32 = 8;
/// An item that takes this long is not brief.
const BRIEF_FOR: Duration = Duration::from_micros(8);
/// With this many queued commands, another worker is woken although they are probably brief.
const BACKLOG: usize = 8;

thread_local! {
    /// How many brief items this worker has served recently.
    static BRIEF: Cell<u32> = const { Cell::new(0) };
    /// Whether the worker becomes spare next, because another worker sleeps in epoll.
    static STEPS_BACK: Cell<bool> = const { Cell::new(false) };
    /// Whether this thread checks the queue as soon as its current call returns.
    static LOOKS_SOON: Cell<bool> = const { Cell::new(false) };
    /// The value of [`LOOKS_SOON`] from before the thread began to wait.
    static LOOKED_SOON: Cell<bool> = const { Cell::new(false) };
    /// Whether the thread has since queued work without waking another worker.
    static OWES: Cell<bool> = const { Cell::new(false) };
}

/// The workers and the connections that they serve.
pub(crate) struct Pool {
    me: Weak<Pool>,
    shared: Arc<Shared>,
    epoll: OwnedFd,
    /// Written to in order to wake a worker that sleeps in epoll.
    bell: OwnedFd,
    /// Readable when asynchronous reads have completed.
    _reads: Vec<OwnedFd>,
    connections: RwLock<FxHashMap<u64, Arc<ConnectionSlot>>>,
    work: Mutex<WorkQueue>,
    commits: Commits,
    thread_pool: ThreadPool,
    timer: Timer,
    /// Since when reads are held back from the device, in nanoseconds of the clock; zero if
    /// unknown.
    kept_since_ns: AtomicU64,
    /// Whether responses of brief statements are sent together, by as few workers as suffice.
    together: bool,
    /// Whether busy local clients get dedicated workers.
    sticky: bool,
    vanished: Vanished,
    /// Whether dedicated workers move to the cores of their clients.
    follows: bool,
    /// Cores that clients can be on.
    cores: usize,
    dedicated: DedicatedWorkers,
    /// Items taken from the queue.
    taken: AtomicU64,
    /// The value of `taken` when the stall detector last checked.
    taken_before: AtomicU64,
    /// When the stall detector checks next, in nanoseconds of the clock; zero while a worker
    /// sleeps.
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
            connections: RwLock::default(),
            work: Mutex::default(),
            commits: Commits::default(),
            thread_pool: ThreadPool::new(workers),
            timer,
            kept_since_ns: AtomicU64::new(0),
            together,
            sticky,
            vanished: Vanished::default(),
            follows,
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            dedicated: DedicatedWorkers::default(),
            taken: AtomicU64::new(0),
            taken_before: AtomicU64::new(0),
            watch_at_ns: AtomicU64::new(0),
        });
        pool.thread_pool.call(|| pool.spawn()).map_err(io::Error::other)?;
        Ok(pool)
    }

    /// Adds a connection that was just accepted.
    pub(crate) fn add(
        &self,
        socket: Socket,
        slot: Slot,
        address: Option<IpAddr>,
    ) -> io::Result<()> {
        let id = slot.id;
        let raw = socket.raw();
        let connection =
            Arc::new(ConnectionSlot::new(id, ConnectionState::Came { socket, address, slot }));
        self.connections.write().insert(id, connection.clone());
        let id_of_event = EventData::new_u64(id);
        if let Err(error) = epoll::add(&self.epoll, &*raw, id_of_event, HEARD) {
            self.leave(&connection);
            return Err(error.into());
        }
        self.push(connection);
        Ok(())
    }

    /// A descriptor that becomes readable when a call of [`Pool::sweep`] is due before the time
    /// that the last call returned.
    pub(crate) fn alarm(&self) -> BorrowedFd<'_> {
        self.timer.alarm()
    }

    /// Queues connections whose deadline has passed, and adds a worker if all workers run long
    /// statements. Returns when to call it again.
    pub(crate) fn sweep(&self) -> Option<Duration> {
        let now = clock::now();
        let watch_at = self.watch(now);
        let look_at = self.vanished.look(&self.shared, now);
        let mut late = Vec::new();
        let next = self.timer.sweep(|| {
            let connections = self.connections.read();
            late.extend(connections.values().filter(|connection| connection.is_late(now)).cloned());
            connections.values().filter_map(|connection| connection.waits_until()).min()
        });
        for connection in late {
            if connection.expire() {
                self.push(connection);
            }
        }
        next.into_iter().chain(watch_at).chain(look_at).min()
    }

    /// The pool's metrics.
    pub(crate) fn metrics(&self) -> [Metric; 4] {
        let figure =
            |name, help, value: usize| Metric { name, help, counter: false, value: value as f64 };
        let (dedicated_now, dedicated_total) = self.dedicated.figures();
        [
            figure(
                "workers_now",
                "Threads that serve connections, with dedicated ones and those that wait for locks.",
                self.thread_pool.threads(),
            ),
            figure(
                "dedicated_workers_now",
                "Connections that have a dedicated worker now.",
                dedicated_now,
            ),
            Metric {
                name: "dedicated_workers_total",
                help: "Times that a connection got a dedicated worker.",
                counter: true,
                value: dedicated_total as f64,
            },
            figure(
                "commits_waiting_now",
                "Responses that wait until their commit is durable.",
                self.commits.waiting(),
            ),
        ]
    }

    /// Ends the workers; with `wait`, waits until they have finished their current work.
    pub(crate) fn stop(&self, wait: bool) {
        let workers = self.thread_pool.end();
        self.ring();
        if wait {
            // The panic hook has reported a panic in one of them.
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

    /// Starts another worker, if POOL-4 requires it.
    fn call_if_missed(&self) {
        if self.thread_pool.is_short() {
            // Without memory for a thread, the existing workers continue when they can.
            let _ = self.thread_pool.call(|| self.spawn());
        }
    }

    /// Whether the next item of the calling worker is probably brief.
    fn is_brief(&self) -> bool {
        self.together && BRIEF.get() >= BRIEF_AFTER
    }

    /// Makes other workers see the queued work that the calling worker kept for itself, and expects
    /// no brief work any more.
    fn share(&self) {
        if self.is_brief() {
            self.show_work();
        }
        BRIEF.set(0);
    }

    /// Records that an item took longer than a brief one. The processor may have run another thread
    /// meanwhile, so one such item does not start the count of brief items anew.
    fn was_longer(&self) {
        let was_brief = self.is_brief();
        BRIEF.set(BRIEF.get().saturating_sub(LONGER));
        if was_brief && !self.is_brief() {
            self.show_work();
            self.call_if_missed();
        }
    }

    /// Wakes a sleeping worker, if the queue is not empty.
    fn show_work(&self) {
        if !self.work.lock().is_empty() {
            self.ring_if_asleep();
        }
    }

    /// Wakes a sleeping worker, unless a ring is on its way.
    fn ring_if_asleep(&self) {
        self.thread_pool.sleepers.wake_one(|| self.ring());
    }

    fn ring(&self) {
        // The counter never overflows.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }

    /// Queues a connection that has just become busy.
    fn push(&self, connection: Arc<ConnectionSlot>) {
        self.work.lock().put_command(connection);
        self.ring_if_asleep();
    }

    /// Makes sure that a worker will look at the queue.
    fn tell_of_it(&self) {
        if LOOKS_SOON.get() {
            OWES.set(true);
        } else {
            self.ring_if_asleep();
        }
    }

    /// The loop of a worker.
    fn work(&self) {
        let mut events = Vec::new();
        // When the worker finished the previous item, if it has done nothing else since.
        let mut began = None;
        loop {
            let stays = match STEPS_BACK.take() {
                true => self.thread_pool.steps_back(|| self.rest()),
                false => self.thread_pool.stays(|| self.rest()),
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
            if self.thread_pool.sleeping() == 0
                && self.watch_at_ns.load(Ordering::SeqCst) == 0
                && self.begin_watch(clock::now())
            {
                self.timer.ring();
            }
            let since = began.take().unwrap_or_else(clock::now);
            let (connection, outcome) = match item {
                Item::Answer(connection, outcome) => (connection, Some(outcome)),
                Item::Command(connection) => (connection, None),
            };
            self.dedicated.note_asked(&connection.calm, since);
            self.serve(connection, outcome);
            let now = clock::now();
            if now >= since + BRIEF_FOR {
                self.was_longer();
            }
            began = (!self.send_enough(now)).then_some(now);
        }
        self.send_kept();
        self.hand_over(Duration::ZERO);
        // A ring wakes only one worker. The worker that ends passes it on.
        self.ring();
    }

    /// Before a worker becomes spare: finishes or passes on what it was responsible for.
    fn rest(&self) {
        self.send_kept();
        self.hand_over(Duration::ZERO);
        let keeps = self.shared.instance.database().keeps_reads();
        if keeps || self.commits.waiting() > 0 || !self.work.lock().is_empty() {
            self.ring_if_asleep();
        }
        // No worker listens to epoll, and the running workers may run long statements.
        if self.thread_pool.sleeping() == 0 && self.begin_watch(clock::now()) {
            self.timer.ring();
        }
    }

    /// The next item. Returns `None` after a sleep, or a write of the log.
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

    /// Writes the log. Returns whether there was anything to write.
    fn lead(&self) -> bool {
        thread::Pool::long_ahead(self);
        let database = self.shared.instance.database();
        let flush = || {
            LOOKS_SOON.set(true);
            database.lead_flush()
        };
        let led = self
            .commits
            .lead(|| if self.thread_pool.most() == 1 { thread::blocking(flush) } else { flush() });
        LOOKS_SOON.set(false);
        led
    }
}

impl thread::Pool for Pool {
    fn leave(&self) {
        dedicated_worker::is_not_calm();
        if dedicated_worker::waits_already() {
            return self.have_kept_reads_handed_over();
        }
        self.send_kept();
        self.share();
        // From now on, other workers must be woken for work that the current call queues.
        LOOKED_SOON.set(LOOKS_SOON.replace(false));
        if OWES.take() {
            self.ring_if_asleep();
        }
        self.thread_pool.leave();
        self.have_kept_reads_handed_over();
        self.call_if_missed();
    }

    fn come_back(&self) {
        if dedicated_worker::waited_already() {
            return;
        }
        self.thread_pool.come_back();
        LOOKS_SOON.set(LOOKED_SOON.get());
    }

    fn long_ahead(&self) {
        dedicated_worker::is_not_calm();
        self.leave_client();
        self.send_kept();
        if OWES.take() {
            self.ring_if_asleep();
        }
        self.share();
        self.call_if_missed();
    }

    fn is_quiet(&self) -> bool {
        // A worker may be alone because its statements are brief. Then it waits for its read
        // itself: another worker is called meanwhile, and this one is not alone any more.
        let alone = || self.is_brief() && self.thread_pool.is_alone();
        (self.thread_pool.is_one_at_work(self.dedicated.figures().0) || alone())
            && self.work.lock().is_empty()
    }
}
