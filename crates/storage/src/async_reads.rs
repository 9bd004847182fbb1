//! Asynchronous reads: while the device reads a block or a row that a lookup needs, the lookup's
//! thread does other work.
//!
//! A lookup that waits for a device costs more than the time of the read: another thread has to
//! take the waiting thread's place, and the waiting thread must be woken later. A lookup that
//! begins an asynchronous read costs no thread: it returns at once, and is repeated when the read
//! has ended. So the queues can keep as many reads in flight as the device executes in parallel.
//!
//! A thread that finds a completed read passes the bytes to the engine ([`AsyncRead::take`]). The
//! engine decodes them into its cache or its rows, where the repeated lookup finds them. Then the
//! thread wakes the waiters.
//!
//! # Guarantees
//! - **ASYNC-READ-1 (every waiter is woken).** Once a read in flight has ended, with any result,
//!   its queue's descriptor becomes readable, and the next call of [`AsyncReads::end`] wakes its
//!   waiters.
//! - **ASYNC-READ-2 (one read for all).** At most one read of the same block or row is in flight at
//!   a time, and all lookups that need it wait for that read.
//! - **ASYNC-READ-3 (no failure is lost, none is made up).** A queue remembers the last
//!   `FAILED_MAX` reads that failed or found damage. If a repeated lookup asks for such a read
//!   again, [`AsyncReads::begin`] begins no read and returns `false`, once for each failure. The
//!   lookup then reads the block or row itself, and meets the failure if it still exists. So each
//!   failed read ends the repetition of at least one lookup.
//! - **ASYNC-READ-4 (bounded).** Each queue has at most `DEPTH` reads in flight, and their memory
//!   is charged to the budget. If the queue is full, [`AsyncReads::begin`] returns `false`, and the
//!   lookup reads the block or row itself.
//! - **ASYNC-READ-5 (nothing leaks).** A read in flight keeps its [`AsyncRead`], and so everything
//!   that the read uses. After [`AsyncReads::finish`] no read is in flight, and none begins.
//! - **ASYNC-READ-6 (together).** A queue may hold back up to `GATHERED_MAX` reads until
//!   [`AsyncReads::submit`] or [`AsyncReads::end`], so that several are submitted together. If the
//!   device has done only a part of a read, the queue may hold back the rest in the same way. While
//!   a queue holds reads back, and no thread is submitting them, [`AsyncReads::keeps_some`] returns
//!   `true`. The exception is a panic of a thread that completes reads: `keeps_some` may then
//!   return `false`, and the next call of `end` submits what the queue holds back.
//! - **ASYNC-READ-7 (alone).** Queues can be opened for a pool of threads that is sometimes idle.
//!   Such queues begin no read while no other read is in flight and the pool has nothing else to do
//!   ([`thread::is_quiet`]). The lookup then waits for the device itself, which is faster.
//!
//! One system call submits several reads to a device; in a virtual machine this call is a large
//! part of a read's cost. So a thread that begins reads does other ready work first and then
//! submits them. Without other work it submits at once.
//!
//! Asynchronous reads go through the system's page cache, unless they are set to bypass it
//! ([`AsyncReadSettings::direct`]). The reason is that a lookup first asks the page cache
//! ([`crate::File::read_now`]). If the bytes are not there, Linux begins to read them into the page
//! cache. An asynchronous read that bypassed the page cache would make the device read the same
//! bytes again. Lookups whose reads bypass the page cache do not ask it.

use std::hash::{BuildHasher, Hash};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Waker;

use rustc_hash::FxBuildHasher;
use spillway_base::budget::Charge;
use spillway_base::lock::Mutex;
use spillway_base::{Result, thread};

use crate::{ALIGN, AlignedBuffer, Cache, Completion, Disk, File, IoQueue, QueueSettings};

/// The most reads in flight in one queue.
const DEPTH: usize = 128;
/// The most buffers that a queue keeps for later reads, charged to the budget, and their largest
/// size.
const SPARE_MAX: usize = 64;
const SPARE_BYTES: usize = 64 << 10;
/// The most bytes by which a read grows when it is widened to whole pages of its file.
const WIDENED_BYTES: usize = 2 * ALIGN;
/// The most reads that are submitted together.
const GATHERED_MAX: usize = 8;
/// The most attempts in a row to submit the rest of partly completed reads.
const ROUNDS_MAX: usize = 16;
/// The most failed reads that one queue remembers until their lookups return. Older ones are
/// forgotten.
const FAILED_MAX: usize = 64;

/// Data that a lookup needs and that is not in memory.
pub trait AsyncRead: Send {
    /// Identifies a read, also after it has failed (ASYNC-READ-3).
    type Name: Eq + Hash + Send;

    /// The name.
    fn name(&self) -> Self::Name;

    /// Whether another lookup needs the same data, so one read serves both (ASYNC-READ-2).
    fn is(&self, other: &Self) -> bool {
        self.name() == other.name()
    }

    /// The file, the offset and the length of its bytes; `None` if they cannot be read alone now.
    fn place(&self) -> Option<(Arc<dyn File>, u64, usize)>;

    /// Charges for the memory of its read. The caller holds a queue's lock, so this must not ask
    /// other holders to give way.
    fn charge(&self, bytes: usize) -> Charge;

    /// Takes its bytes into memory, where the repeated lookup finds them.
    ///
    /// # Errors
    /// [`spillway_base::ErrorKind::Corruption`]: they are damaged.
    fn take(&self, bytes: &[u8]) -> Result<()>;
}

/// A read in flight.
struct AsyncFlight<R> {
    read: R,
    wanted_by: Vec<Waker>,
    _charge: Charge,
}

/// A queue and its reads in flight, by their tags.
struct Lane<R: AsyncRead> {
    queue: Box<dyn IoQueue>,
    /// Whether several reads are submitted at once.
    gathers: bool,
    /// The number of reads that were not submitted yet.
    kept: usize,
    flights: Vec<Option<AsyncFlight<R>>>,
    free: Vec<usize>,
    spare: Vec<(AlignedBuffer, Charge)>,
    failed: Vec<R::Name>,
    /// Whether no read may begin any more.
    closed: bool,
}

impl<R: AsyncRead> Lane<R> {
    fn over(mut queue: Box<dyn IoQueue>, gathers: bool) -> Lane<R> {
        queue.gather(gathers);
        Lane {
            queue,
            gathers,
            kept: 0,
            flights: (0..DEPTH).map(|_| None).collect(),
            free: (0..DEPTH).collect(),
            spare: Vec::new(),
            failed: Vec::new(),
            closed: false,
        }
    }

    fn land(&mut self, done: &Completion) -> Option<AsyncFlight<R>> {
        let at = done.tag as usize;
        self.free.push(at);
        self.flights[at].take()
    }
}

/// Reads in flight, in queues that one thread uses at a time.
pub struct AsyncReads<R: AsyncRead> {
    lanes: OnceLock<Box<[Mutex<Lane<R>>]>>,
    begun: AtomicU64,
    shared: AtomicU64,
    /// Whether reads were begun that may not be submitted yet.
    kept: AtomicBool,
    /// The number of reads that were begun and have not completed.
    count: AtomicUsize,
    /// As [`AsyncReadSettings::waits_alone`].
    waits_alone: AtomicBool,
}

/// The settings of asynchronous reads.
#[derive(Clone, Copy, Debug)]
pub struct AsyncReadSettings {
    /// The number of queues.
    pub lanes: usize,
    /// Whether reads bypass the system's page cache.
    pub direct: bool,
    /// Whether several reads are submitted at once (ASYNC-READ-6).
    pub gathers: bool,
    /// Whether a read that would be the only one in flight is not begun, so its thread waits for
    /// the device itself (ASYNC-READ-7).
    pub waits_alone: bool,
}

impl<R: AsyncRead> Default for AsyncReads<R> {
    fn default() -> AsyncReads<R> {
        AsyncReads {
            lanes: OnceLock::new(),
            begun: AtomicU64::new(0),
            shared: AtomicU64::new(0),
            kept: AtomicBool::new(false),
            count: AtomicUsize::new(0),
            waits_alone: AtomicBool::new(false),
        }
    }
}

impl<R: AsyncRead> AsyncReads<R> {
    /// Opens queues, unless they are open, if the disk has queues that report completions through a
    /// descriptor. Returns the descriptors.
    pub fn open(&self, disk: &dyn Disk, how: AsyncReadSettings) -> Vec<OwnedFd> {
        self.waits_alone.store(how.waits_alone, Ordering::Relaxed);
        let cache = if how.direct { Cache::Bypass } else { Cache::Through };
        let settings = QueueSettings { depth: DEPTH, cache };
        let open = || {
            let queues = (0..how.lanes).map_while(|_| disk.queue(settings).ok());
            let telling = queues.take_while(|queue| queue.descriptor().is_some());
            telling.map(|queue| Mutex::new(Lane::over(queue, how.gathers))).collect()
        };
        let lanes = self.lanes.get_or_init(open);
        lanes.iter().filter_map(|lane| lane.lock().queue.descriptor()).collect()
    }

    /// The number of reads that were begun, and of requests whose read was already in flight.
    #[must_use]
    pub fn begun_and_shared(&self) -> (u64, u64) {
        (self.begun.load(Ordering::Relaxed), self.shared.load(Ordering::Relaxed))
    }

    /// Begins a read, unless it is in flight. `waker` is called when it completes. Returns `false`
    /// if the read is not in flight and `waker` will not be called: the queue is full, or an
    /// earlier attempt failed.
    pub fn begin(&self, read: R, waker: &Waker) -> bool {
        let Some(lanes) = self.lanes.get().filter(|lanes| !lanes.is_empty()) else { return false };
        let waits_alone = self.waits_alone.load(Ordering::Relaxed);
        if waits_alone && self.count.load(Ordering::Relaxed) == 0 && thread::is_quiet() {
            return false;
        }
        let name = read.name();
        let hash = FxBuildHasher.hash_one(&name);
        let whole = &lanes[(hash >> 32) as usize % lanes.len()];
        let mut lane = whole.lock();
        if let Some(flight) = lane.flights.iter_mut().flatten().find(|one| one.read.is(&read)) {
            self.shared.fetch_add(1, Ordering::Relaxed);
            if !flight.wanted_by.iter().any(|other| other.will_wake(waker)) {
                flight.wanted_by.push(waker.clone());
            }
            return true;
        }
        if let Some(at) = lane.failed.iter().position(|failed| *failed == name) {
            lane.failed.swap_remove(at);
            return false;
        }
        if lane.closed {
            return false;
        }
        let Some((file, offset, len)) = read.place() else { return false };
        let Some(at) = lane.free.pop() else { return false };
        // From here on, the read's charge includes the buffer.
        let buffer = lane.spare.pop().map(|(buffer, _)| buffer);
        let buffer = buffer.unwrap_or_else(|| AlignedBuffer::with_capacity(len + WIDENED_BYTES));
        let _charge = read.charge(len);
        lane.flights[at] = Some(AsyncFlight { read, wanted_by: vec![waker.clone()], _charge });
        self.begun.fetch_add(1, Ordering::Relaxed);
        self.count.fetch_add(1, Ordering::Relaxed);
        lane.queue.read(at as u64, &file, offset, len, buffer);
        lane.kept += 1;
        if lane.gathers && lane.kept < GATHERED_MAX {
            self.kept.store(true, Ordering::SeqCst);
            return true;
        }
        self.submit_of(&mut lane);
        drop(lane);
        self.end_of(whole);
        true
    }

    /// Submits the reads that a lane has kept. Returns whether the system accepted them.
    fn submit_of(&self, lane: &mut Lane<R>) -> bool {
        let taken = lane.queue.submit();
        if taken {
            lane.kept = 0;
        } else {
            lane.kept = lane.kept.max(1);
            self.kept.store(true, Ordering::SeqCst);
        }
        taken
    }

    /// Takes a lane's completed reads into memory, and submits the rest of reads that the device
    /// has done in part. It is also called after each submission, because no descriptor reports
    /// reads that complete as they are submitted.
    fn end_of(&self, whole: &Mutex<Lane<R>>) {
        let mut rounds = 0;
        loop {
            let mut lane = whole.lock();
            if let Some(done) = lane.queue.try_wait() {
                let flight = lane.land(&done);
                drop(lane);
                self.land(whole, flight, done);
            } else if !lane.queue.keeps() || !self.submit_of(&mut lane) {
                return;
            } else if rounds == ROUNDS_MAX {
                // If the device makes no progress, try again later.
                lane.kept = lane.kept.max(1);
                return self.kept.store(true, Ordering::SeqCst);
            } else {
                rounds += 1;
            }
        }
    }

    /// The number of reads that were not submitted.
    #[must_use]
    pub fn kept(&self) -> usize {
        self.lanes.get().into_iter().flatten().map(|lane| lane.lock().kept).sum()
    }

    /// Whether [`AsyncReads::submit`] has something to do.
    #[must_use]
    pub fn keeps_some(&self) -> bool {
        // Sequentially consistent, so that a thread that goes to sleep after this check and a
        // thread that begins a read and then checks for sleepers do not miss each other.
        self.kept.load(Ordering::SeqCst)
    }

    /// Submits the reads that were begun and kept. Returns `false` if the caller must call it again
    /// soon.
    pub fn submit(&self) -> bool {
        if !self.kept.swap(false, Ordering::SeqCst) {
            return true;
        }
        // Submit all reads first. The device then works on the others while the reads that complete
        // at once are taken into memory.
        let mut handed_over = Vec::new();
        for whole in self.lanes.get().into_iter().flatten() {
            let mut lane = whole.lock();
            if lane.kept > 0 {
                self.submit_of(&mut lane);
                handed_over.push(whole);
            }
        }
        handed_over.into_iter().for_each(|lane| self.end_of(lane));
        !self.kept.load(Ordering::SeqCst)
    }

    /// Takes completed reads into memory and calls the wakers of their waiters (ASYNC-READ-1).
    pub fn end(&self) {
        self.submit();
        self.lanes.get().into_iter().flatten().for_each(|lane| self.end_of(lane));
    }

    /// Waits for all reads in flight, and prevents further ones from beginning (ASYNC-READ-5).
    pub fn finish(&self) {
        // Report the wait to the pool before locking a queue, because the pool's other threads may
        // lock queues.
        thread::blocking(|| {
            self.submit();
            for lane in self.lanes.get().into_iter().flatten() {
                lane.lock().closed = true;
                loop {
                    let mut taken = lane.lock();
                    let Some(done) = taken.queue.wait() else { break };
                    let flight = taken.land(&done);
                    drop(taken);
                    self.land(lane, flight, done);
                }
            }
        });
    }

    /// Completes a read whose I/O has finished. The queue is not locked.
    fn land(&self, lane: &Mutex<Lane<R>>, flight: Option<AsyncFlight<R>>, done: Completion) {
        let Some(AsyncFlight { read, wanted_by, _charge }) = flight else { return };
        self.count.fetch_sub(1, Ordering::Relaxed);
        let wanted = ReadWaiters(wanted_by);
        let kept = done.outcome.and_then(|()| read.take(&done.buffer));
        let mut taken = lane.lock();
        if kept.is_err() {
            if taken.failed.len() >= FAILED_MAX {
                taken.failed.remove(0);
            }
            taken.failed.push(read.name());
        }
        let bytes = done.buffer.capacity();
        if taken.spare.len() < SPARE_MAX && bytes <= SPARE_BYTES {
            let charge = read.charge(bytes);
            taken.spare.push((done.buffer, charge));
        }
        drop(taken);
        drop(wanted);
    }
}

/// Calls the wakers of a read's waiters when dropped, also by a panic (ASYNC-READ-1).
struct ReadWaiters(Vec<Waker>);

impl Drop for ReadWaiters {
    fn drop(&mut self) {
        self.0.drain(..).for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use spillway_base::wake_count::counted_waker;

    use super::*;

    /// ASYNC-READ-1, also if the thread that takes the read into memory panics.
    #[test]
    fn async_read_1_a_panic_calls_those_who_want_a_read() {
        let (waker, called) = counted_waker();
        let wanted = ReadWaiters(vec![waker.clone(), waker]);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _wanted = wanted;
            panic!("a block that is decoded wrong");
        }));
        assert!(panicked.is_err());
        assert_eq!(called(), 2);
    }
}
