//! Events: how workers learn that clients have sent bytes and that reads have finished, and how
//! workers sleep.
//!
//! All workers share one epoll instance. Client sockets are registered edge-triggered, so no socket
//! need be registered again after a command. The bell is an eventfd in the same instance; another
//! thread writes to it to wake a sleeping worker ([`spillway_base::sleepers`]). A third kind of
//! event reports finished device reads of suspended statements.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, Event, EventData, EventFlags};
use spillway_base::clock;

use super::{BACKLOG, BELL, LOOKS_SOON, Pool, READS, STEPS_BACK};

/// How many events a worker takes from epoll at once while no other worker sleeps there.
const EVENTS: usize = 32;

/// A time for `kept_since_ns` that is so early that every worker submits the reads at once.
const LONG_AGO_NS: u64 = 1;

/// The time after which reads that the device refused are submitted again.
const REFUSED: Duration = Duration::from_millis(1);

/// How often loading finished reads is retried after a panic.
const PANICS: usize = 16;

/// What a call of epoll reported.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    Nothing,
    Others,
    /// Finished reads, and perhaps other events.
    Reads,
}

impl Pool {
    /// Submits the reads of suspended statements, if the first of them has waited for `after`.
    pub(super) fn hand_over(&self, after: Duration) {
        let database = self.shared.instance.database();
        if !database.keeps_reads() {
            if self.kept_since_ns.load(Ordering::Relaxed) != 0 {
                // The next reads begin later than the recorded time.
                self.kept_since_ns.store(0, Ordering::Relaxed);
            }
            return;
        }
        // If a worker sleeps, the pool is not busy, and few more reads will join these: submit them
        // now. If none sleeps, hold them until `after` has passed, because more will join.
        if !after.is_zero() && self.thread_pool.sleeping() == 0 {
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
        // Reads that finish at once are loaded here. The panic hook reports a panic there, and only
        // the block that met it is lost.
        if catch_unwind(AssertUnwindSafe(|| database.submit_reads())).is_err() {
            self.end_reads();
        }
    }

    /// Makes another worker submit the reads that are held back. The caller cannot do that itself,
    /// because it may hold locks that are needed to load blocks.
    pub(super) fn have_kept_reads_handed_over(&self) {
        if self.shared.instance.database().keeps_reads() {
            self.kept_since_ns.store(LONG_AGO_NS, Ordering::Relaxed);
            self.ring_if_asleep();
        }
    }

    /// Sleeps until epoll reports something.
    pub(super) fn sleep(&self, events: &mut Vec<Event>) {
        if self.is_brief() && self.thread_pool.sleeping() > 0 {
            // One listening worker is enough.
            STEPS_BACK.set(true);
            return;
        }
        let is_idle = || self.work.lock().is_empty() && self.thread_pool.goes_on();
        let found = self.thread_pool.sleepers.sleep(is_idle, || {
            // If the device has refused reads, wake after a while to submit them again.
            let keeps = self.shared.instance.database().keeps_reads();
            self.listen(events, keeps.then_some(REFUSED))
        });
        let found = found.unwrap_or(Found::Nothing);
        if !self.is_brief() || self.work.lock().commands() >= BACKLOG {
            self.call_if_missed();
        }
        self.see_to_reads(found, true);
    }

    /// Queues what epoll reports, without waiting. Returns whether epoll reported anything.
    pub(super) fn collect(&self, events: &mut Vec<Event>, looks_soon: bool) -> bool {
        let found = self.listen(events, Some(Duration::ZERO));
        self.see_to_reads(found, looks_soon);
        found != Found::Nothing
    }

    /// If `found` says so, loads finished reads and queues the statements that wait for them. A
    /// worker (`looks_soon`) continues with the first statement itself; another worker is woken for
    /// the rest. A panic loses only the block that it met, and the statements are queued
    /// nevertheless.
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
            // The panic hook has reported the panic. Epoll does not report the remaining reads
            // again, so retry.
            if catch_unwind(AssertUnwindSafe(|| database.end_reads())).is_ok() {
                break;
            }
        }
    }

    /// Queues the connections that epoll reports.
    fn listen(&self, events: &mut Vec<Event>, wait: Option<Duration>) -> Found {
        // Each sleeper is woken for one event and must find it, so take only one while others
        // sleep.
        let others = self.thread_pool.sleeping() - usize::from(wait.is_none());
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
            let connections = self.connections.read();
            let mut work = self.work.lock();
            for event in events.iter() {
                let (number, flags) = (event.data.u64(), event.flags);
                if number == BELL {
                    self.thread_pool.sleepers.heard();
                } else if number == READS {
                    read = true;
                } else if let Some(connection) = connections.get(&number) {
                    let ended = EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR;
                    if connection.stir(flags.intersects(ended)) {
                        work.put_command(connection.clone());
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
}
