//! The pipeline over logs that the test can block and fill.

use std::sync::mpsc;
use std::time::Duration;

use spillway_base::batch::Op;
use spillway_base::budget::{Budget, Use};
use spillway_base::lock::Condvar;
use spillway_base::rng::Rng;
use spillway_base::{EngineKind, EngineSet};
use spillway_storage::plog::{LogSpan, Position, Room as LogRoom};

use super::segments::Filled;
use super::*;
use crate::record::NOTE_BYTES;
use crate::sync::Mutex;

/// A hang fails the test instead of blocking it.
const HANG: Duration = Duration::from_secs(60);

#[derive(Default)]
struct LogState {
    closed: bool,
    /// The number of appends begun.
    arrived: usize,
    used: u64,
    /// The used bytes that survive a crash.
    durable: u64,
    syncs: usize,
    claimed: u64,
    /// The bytes of the largest frame.
    largest: usize,
    capacity: Option<u64>,
    panics: bool,
    fails: bool,
}

#[derive(Default)]
struct Log {
    state: Mutex<LogState>,
    changed: Condvar,
    /// Called once, when segments are released.
    cuts: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Log {
    fn close(&self) {
        self.state.lock().closed = true;
    }

    fn open(&self) {
        self.state.lock().closed = false;
        self.changed.notify_all();
    }

    fn wait_for_arrival(&self, count: usize) {
        let mut state = self.state.lock();
        while state.arrived < count {
            self.changed.wait(&mut state);
        }
    }
}

struct FakePlog(Arc<Log>);

impl Plog for FakePlog {
    fn append(&self, payload: &[u8], durable: bool, room: LogRoom) -> Result<Position> {
        assert!(payload.len() as u64 <= room.size());
        let mut state = self.0.state.lock();
        state.arrived += 1;
        assert!(!state.panics, "the log panics");
        if state.fails {
            return Err(Error::new(ErrorKind::Io, "the log fails"));
        }
        self.0.changed.notify_all();
        while state.closed {
            self.0.changed.wait(&mut state);
        }
        state.used += payload.len() as u64;
        if durable {
            state.durable = state.used;
            state.syncs += 1;
        }
        state.claimed -= room.size();
        state.largest = state.largest.max(payload.len());
        Ok(Position { segment: 9, offset: state.used })
    }

    fn sync(&self) -> Result<()> {
        let mut state = self.0.state.lock();
        state.durable = state.used;
        state.syncs += 1;
        Ok(())
    }

    fn reserve(&self, payload: u64) -> Result<LogRoom> {
        let mut state = self.0.state.lock();
        let taken = state.used + state.claimed + payload;
        if state.capacity.is_some_and(|capacity| taken > capacity) {
            return Err(Error::new(ErrorKind::DiskFull, "full"));
        }
        state.claimed += payload;
        Ok(LogRoom::new(payload))
    }

    fn release(&self, room: LogRoom) {
        self.0.state.lock().claimed -= room.size();
    }

    fn segment_for(&self, _payload: u64) -> u64 {
        0
    }

    fn prepare(&self) -> Result<()> {
        Ok(())
    }

    fn truncate_before(&self, _segment: u64, _kept: &[u64]) -> Result<()> {
        let called = self.0.cuts.lock().take();
        called.into_iter().for_each(|called| called());
        Ok(())
    }

    fn span(&self) -> Option<LogSpan> {
        None
    }

    fn bytes(&self) -> u64 {
        self.0.state.lock().used
    }

    fn health(&self) -> Result<()> {
        Ok(())
    }
}

/// The newest commit of a segment of one engine.
fn newest_at(csn: u64) -> Newest {
    let mut newest = Newest::default();
    newest.add(Csn(csn), EngineSet::one(EngineKind::Tiered));
    newest
}

fn segments(segments: impl IntoIterator<Item = u64>) -> Vec<OldSegment> {
    let old = |segment| OldSegment { segment, newest: Newest::default(), discarded: false };
    segments.into_iter().map(old).collect()
}

fn pipeline(lanes: usize, old: Vec<OldSegment>) -> (Pipeline, Vec<Arc<Log>>) {
    let logs: Vec<Arc<Log>> = (0..lanes).map(|_| Arc::default()).collect();
    let opened = |log: &Arc<Log>| OpenedLane {
        lane: 0,
        plog: Box::new(FakePlog(log.clone())),
        segments: old.clone(),
        used: true,
    };
    let opened = logs.iter().map(opened).collect();
    let pipeline = Pipeline::new(opened, 16 << 10, Snapshots::new(), Csn::ZERO);
    assert_eq!(logs[0].state.lock().claimed, NOTE_BYTES as u64);
    (pipeline, logs)
}

fn new() -> (Arc<Pipeline>, Arc<Log>) {
    let (pipeline, logs) = pipeline(1, Vec::new());
    (Arc::new(pipeline), logs[0].clone())
}

fn table(ordinal: u32) -> TableId {
    TableId::new(EngineKind::Tiered, ordinal)
}

fn batch(value: &[u8]) -> WriteBatch {
    let mut batch = WriteBatch::new();
    batch.push(Op::Put { table: table(1), key: b"k", value });
    batch
}

fn order(pipeline: &Pipeline) -> Csn {
    let batch = batch(b"v");
    let room = pipeline.admit(batch.as_bytes().len()).unwrap();
    pipeline.enqueue(room, &batch, Terms::new([table(1)].into_iter(), &[]), |_| ()).unwrap()
}

fn wait_later(pipeline: &Arc<Pipeline>, csn: Csn) -> mpsc::Receiver<Result<()>> {
    let (tell, told) = mpsc::channel();
    let pipeline = pipeline.clone();
    spillway_base::thread::spawn("waits", move || {
        let _ = tell.send(pipeline.wait(csn));
    })
    .unwrap();
    told
}

fn until_waiting(pipeline: &Pipeline, count: usize) {
    while pipeline.waiters.count() < count {
        std::thread::yield_now();
    }
}

#[test]
fn a_commit_that_was_admitted_is_refused_once_the_pipeline_is_closed() {
    let (pipeline, log) = new();
    let batch = batch(b"v");
    let room = pipeline.admit(batch.as_bytes().len()).unwrap();
    let ordered = order(&pipeline);
    pipeline.installed(ordered);
    pipeline.close().unwrap();
    let late = pipeline
        .enqueue(room, &batch, Terms::new([table(1)].into_iter(), &[]), |_| ())
        .unwrap_err();
    assert_eq!(late.kind(), ErrorKind::Closed);
    pipeline.wait(ordered).unwrap();
    assert_eq!(log.state.lock().claimed, NOTE_BYTES as u64);
}

#[test]
fn a_flush_is_handed_to_one_that_needs_it() {
    let (pipeline, log) = new();
    let missing = order(&pipeline);
    // It is durable, and waits for the install of the commit before it.
    let second = order(&pipeline);
    pipeline.installed(second);
    let second = wait_later(&pipeline, second);
    until_waiting(&pipeline, 1);
    // While the next commit leads a flush, another one waits behind it.
    log.close();
    let third = order(&pipeline);
    pipeline.installed(third);
    let third = wait_later(&pipeline, third);
    log.wait_for_arrival(2);
    let fourth = order(&pipeline);
    pipeline.installed(fourth);
    let fourth = wait_later(&pipeline, fourth);
    until_waiting(&pipeline, 2);
    log.open();
    log.wait_for_arrival(3);
    pipeline.installed(missing);
    for told in [second, third, fourth] {
        told.recv_timeout(HANG).expect("an acknowledgement").unwrap();
    }
}

#[test]
fn a_commit_that_met_a_truncation_is_not_forgotten() {
    let (pipeline, logs) = pipeline(1, segments([1, 2]));
    let (pipeline, log) = (Arc::new(pipeline), &logs[0]);
    log.close();
    std::thread::scope(|scope| {
        scope.spawn(|| pipeline.truncate(Csn::ZERO).unwrap());
        log.wait_for_arrival(1);
        let csn = order(&pipeline);
        pipeline.installed(csn);
        let told = wait_later(&pipeline, csn);
        until_waiting(&pipeline, 1);
        log.open();
        told.recv_timeout(HANG).expect("an acknowledgement").unwrap();
    });
}

#[test]
fn room_that_was_admitted_is_not_admitted_again() {
    let (pipeline, log) = new();
    log.state.lock().capacity = Some(10_000);
    let batch = batch(&[7; 900]);
    let admit = || pipeline.admit(batch.as_bytes().len());
    let mut rooms = Vec::new();
    let refused = loop {
        match admit() {
            Ok(room) => rooms.push(room),
            Err(error) => break error,
        }
        assert!(rooms.len() < 20, "the log of 10000 bytes admitted 20 batches of 900");
    };
    assert_eq!(refused.kind(), ErrorKind::DiskFull);
    assert!(rooms.len() > 5);
    rooms.pop();
    rooms.push(admit().unwrap());
    for room in rooms {
        let csn = pipeline
            .enqueue(room, &batch, Terms::new([table(1)].into_iter(), &[]), |_| ())
            .unwrap();
        pipeline.installed(csn);
        // The bytes of a flush in progress count until they are in the log.
        pipeline.flush().unwrap();
    }
    assert_eq!(admit().err().map(|error| error.kind()), Some(ErrorKind::DiskFull));
    assert!(pipeline.health().is_ok());
    // A note has its room all the same.
    let mut state = log.state.lock();
    state.capacity = Some(state.used);
    drop(state);
    let filled =
        Filled { segment: 10, newest: newest_at(u64::MAX), earlier: false, discarded: false };
    pipeline.lanes[0].lock().segments.filled.push_back(filled);
    pipeline.truncate(Csn::MAX).unwrap();
    assert_eq!(log.state.lock().claimed, 0);
    log.state.lock().capacity = None;
    drop(admit().unwrap());
    pipeline.truncate(Csn::MAX).unwrap();
    assert_eq!(log.state.lock().claimed, NOTE_BYTES as u64);
}

#[test]
fn a_batch_past_the_limit_is_refused_and_frames_stay_within_theirs() {
    let (mut pipeline, logs) = pipeline(1, Vec::new());
    let log = &logs[0];
    let refused = pipeline.admit(BATCH_BYTES_MAX + 1).err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::TransactionTooLarge);
    drop(pipeline.admit(BATCH_BYTES_MAX).unwrap());
    pipeline.lanes[0].frame_bytes = 4000;
    let batch = batch(&[7; 900]);
    for _ in 0..20 {
        let room = pipeline.admit(batch.as_bytes().len()).unwrap();
        let csn = pipeline
            .enqueue(room, &batch, Terms::new([table(1)].into_iter(), &[]), |_| ())
            .unwrap();
        pipeline.installed(csn);
    }
    pipeline.flush().unwrap();
    assert_eq!(pipeline.snapshots.stable_csn(), Csn(20));
    let largest = log.state.lock().largest;
    assert!((4000..=5000).contains(&largest), "{largest}");
}

/// A pipeline whose batches of more than 4 KiB are outside its ring of 16 KiB.
fn charged_pipeline() -> (Pipeline, Arc<Log>, Budget) {
    let (mut pipeline, logs) = pipeline(1, Vec::new());
    let budget = Budget::new(1 << 30);
    pipeline.lanes[0].charge_to(&budget);
    (pipeline, logs[0].clone(), budget)
}

/// Orders and installs a commit that no thread waits for.
fn commit_relaxed(pipeline: &Pipeline, batch: &WriteBatch) {
    let room = pipeline.admit(batch.as_bytes().len()).unwrap();
    let terms = Terms::new([table(1)].into_iter(), &[]);
    let csn = pipeline.enqueue(room, batch, terms, |_| ()).unwrap();
    pipeline.installed(csn);
}

/// LARGE-BATCH-1, LARGE-BATCH-2.
#[test]
fn large_batches_that_nothing_waits_for_are_bounded_and_charged() {
    let (pipeline, log, budget) = charged_pipeline();
    let queued = || pipeline.lanes[0].large_bytes();
    let (mut written, limit) = (0, 8 * (16 << 10));
    for number in 0..60 {
        let batch = batch(&vec![number; 10_000]);
        commit_relaxed(&pipeline, &batch);
        written += batch.as_bytes().len();
        assert!(queued() <= limit && queued() > 0, "{} bytes", queued());
        assert_eq!(budget.used_for(Use::Transactions), 2 * queued());
    }
    let used = log.state.lock().used as usize;
    assert!(written - used <= limit, "{used} of {written} bytes are in the log");
    commit_relaxed(&pipeline, &batch(&vec![1; 2 * limit]));
    assert!(queued() > 2 * limit, "a batch past the limit is queued alone");
    commit_relaxed(&pipeline, &batch(&[2; 5000]));
    assert!(queued() < 6000, "{} bytes", queued());
    pipeline.flush().unwrap();
    assert_eq!((queued(), budget.used_for(Use::Transactions)), (0, 0));
    assert_eq!(pipeline.snapshots.stable_csn(), Csn(62));
}

/// LARGE-BATCH-2: a frame that could not be written has no memory, and no charge.
#[test]
fn a_large_batch_that_cannot_be_written_is_charged_no_more() {
    let (pipeline, log, budget) = charged_pipeline();
    commit_relaxed(&pipeline, &batch(&[1; 50_000]));
    assert!(budget.used_for(Use::Transactions) > 50_000);
    log.state.lock().fails = true;
    assert_eq!(pipeline.flush().unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(pipeline.lanes[0].large_bytes(), 0);
    assert_eq!(budget.used_for(Use::Transactions), 0);
}

/// LARGE-BATCH-1: a commit that is refused gives its claim back.
#[test]
fn a_large_batch_that_is_refused_leaves_its_room_to_others() {
    let (pipeline, _, budget) = charged_pipeline();
    let small = batch(b"v");
    let room = pipeline.admit(small.as_bytes().len()).unwrap();
    let dropped = [table(1)];
    let terms = Terms::new([table(1)].into_iter(), &dropped);
    let csn = pipeline.enqueue(room, &small, terms, |_| ()).unwrap();
    pipeline.installed(csn);
    for _ in 0..30 {
        let batch = batch(&[1; 100_000]);
        let room = pipeline.admit(batch.as_bytes().len()).unwrap();
        let terms = Terms::new([table(1)].into_iter(), &[]);
        let refused = pipeline.enqueue(room, &batch, terms, |_| ()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::NotFound);
        assert_eq!(pipeline.lanes[0].large_bytes(), 0);
        assert_eq!(budget.used_for(Use::Transactions), 0);
    }
}

/// LARGE-BATCH-1, beside other threads: none waits for a later place.
#[test]
fn threads_commit_large_and_small_batches_together() {
    let (pipeline, _, budget) = charged_pipeline();
    let pipeline = Arc::new(pipeline);
    let commit = |seed: u64| {
        let pipeline = pipeline.clone();
        let run = move || {
            let mut rng = Rng::new(seed);
            for _ in 0..300 {
                let bytes = if rng.chance(1, 2) { 300_000 } else { 6000 };
                commit_relaxed(&pipeline, &batch(&vec![1; rng.below(bytes) as usize]));
            }
        };
        spillway_base::thread::spawn("commits", run).unwrap()
    };
    let threads: Vec<_> = (0..6).map(commit).collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    pipeline.flush().unwrap();
    assert_eq!(pipeline.snapshots.stable_csn(), Csn(1800));
    assert_eq!(pipeline.lanes[0].large_bytes(), 0);
    assert_eq!(budget.used_for(Use::Transactions), 0);
}

#[test]
fn a_write_to_a_table_that_was_dropped_first_is_refused() {
    let (pipeline, log) = new();
    let enqueue = |touched: &[TableId], dropped: &[TableId]| {
        let batch = batch(b"v");
        let room = pipeline.admit(batch.as_bytes().len()).unwrap();
        pipeline.enqueue(room, &batch, Terms::new(touched.iter().copied(), dropped), |_| ())
    };
    enqueue(&[table(1), table(2)], &[table(2)]).unwrap();
    let refused = enqueue(&[table(1), table(2)], &[]).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotFound);
    assert_eq!(enqueue(&[table(2)], &[table(2)]).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(enqueue(&[table(1)], &[]).unwrap(), Csn(2));
    pipeline.flush().unwrap();
    assert_eq!(log.state.lock().claimed, NOTE_BYTES as u64, "what was refused gave its room back");
}

#[test]
fn a_commit_is_stable_once_every_lane_has_those_before_it() {
    let (pipeline, logs) = pipeline(2, Vec::new());
    let on = |lane: usize| {
        let batch = batch(b"v");
        let room = pipeline.lanes[lane].admit(batch.as_bytes().len()).unwrap();
        let csn = pipeline
            .enqueue(room, &batch, Terms::new([table(1)].into_iter(), &[]), |_| ())
            .unwrap();
        pipeline.installed(csn);
        csn
    };
    let (first, second) = (on(0), on(1));
    let stable = || pipeline.snapshots.stable_csn();
    pipeline.flush_lane(1, Task::Flush);
    assert_eq!((stable(), logs[1].state.lock().arrived), (Csn::ZERO, 1));
    assert!(pipeline.known(first).is_none() && pipeline.known(second).is_none());
    pipeline.flush_lane(0, Task::Flush);
    assert_eq!(stable(), second);
    // An empty lane blocks no commit.
    let third = on(1);
    pipeline.wait(third).unwrap();
    assert_eq!((stable(), logs[0].state.lock().arrived), (third, 1));
}

#[test]
fn a_queue_that_is_full_is_emptied_by_whoever_comes() {
    let (pipeline, logs) = pipeline(1, Vec::new());
    // Two batches are too large for the queue and kept separately.
    let sizes = [3000, 3000, 60_000, 3000, 3000, 3000, 3000, 60_000, 3000];
    for bytes in sizes {
        let batch = batch(&vec![7; bytes]);
        let room = pipeline.admit(batch.as_bytes().len()).unwrap();
        let csn = pipeline
            .enqueue(room, &batch, Terms::new([table(1)].into_iter(), &[]), |_| ())
            .unwrap();
        pipeline.installed(csn);
    }
    assert!(pipeline.waits_for_queues().0 > 0);
    pipeline.flush().unwrap();
    assert_eq!(pipeline.snapshots.stable_csn(), Csn(sizes.len() as u64));
    let state = logs[0].state.lock();
    assert!(state.used as usize > sizes.iter().sum());
    assert_eq!(state.claimed, NOTE_BYTES as u64);
}

/// Room in the queue costs no sync, and entries that were only written do not count as durable.
#[test]
fn d2_what_is_written_for_room_is_stable_once_it_is_synced() {
    let (pipeline, logs) = pipeline(1, Vec::new());
    let log = || {
        let state = logs[0].state.lock();
        (state.arrived > 0, state.durable, state.syncs)
    };
    let batch = batch(&[7; 3000]);
    let mut last = Csn::ZERO;
    // More than the queue holds.
    for _ in 0..30 {
        let room = pipeline.admit(batch.as_bytes().len()).unwrap();
        last = pipeline
            .enqueue(room, &batch, Terms::new([table(1)].into_iter(), &[]), |_| ())
            .unwrap();
        pipeline.installed(last);
    }
    assert_eq!(log(), (true, 0, 0));
    pipeline.flush_lane(0, Task::MakeRoom);
    let bytes = logs[0].state.lock().used;
    assert!(bytes > 30 * 3000);
    assert_eq!((log(), pipeline.snapshots.stable_csn()), ((true, 0, 0), Csn::ZERO));
    assert!(pipeline.known(last).is_none() && pipeline.has_unflushed());
    // Nothing is left to write, and one sync covers everything.
    pipeline.wait(last).unwrap();
    assert_eq!((log(), pipeline.snapshots.stable_csn()), ((true, bytes, 1), last));
    pipeline.flush().unwrap();
    assert_eq!(log().2, 1);
}

/// A flusher that stands by lets others flush, is not woken again while the queue is not empty, and
/// flushes entries that no other thread flushed.
#[test]
fn a_flusher_that_stands_by_flushes_what_nobody_does() {
    let (pipeline, _logs) = pipeline(1, Vec::new());
    let commit = |time| {
        let csn = order(&pipeline);
        pipeline.installed(csn);
        pipeline.flush_by(Urgency::Soon, || time + SOON);
    };
    let task = |time| pipeline.next_task(0, time);
    let at = |looks: u32| SOON * looks;
    assert_eq!((task(at(0)), pipeline.stands_by(0)), (None, false));
    commit(at(0));
    assert_eq!((task(at(0)), pipeline.stands_by(0)), (None, true));
    // Others flush the first commit, and not yet the second.
    pipeline.flush().unwrap();
    commit(at(0));
    assert_eq!((task(at(1)), pipeline.stands_by(0)), (None, true));
    assert_eq!((task(at(2)), pipeline.stands_by(0)), (Some(Task::Flush), false));
    pipeline.flush_lane(0, Task::Flush);
    assert!(!pipeline.has_unflushed());
    // Nothing is left when it checks.
    commit(at(2));
    pipeline.flush().unwrap();
    assert_eq!((task(at(3)), pipeline.stands_by(0)), (None, false));
    // A request for a flush leads to one.
    commit(at(3));
    pipeline.flush_by(Urgency::Now, || at(3));
    assert_eq!((task(at(3)), task(at(9)), pipeline.stands_by(0)), (Some(Task::Flush), None, false));
}

/// Among the lanes without a waiting thread, the one that holds the stable CSN back goes first.
#[test]
fn the_lane_that_is_furthest_behind_is_flushed_first() {
    let (pipeline, _logs) = pipeline(4, Vec::new());
    let order = [2, 0, 3, 1];
    for lane in order {
        let batch = batch(b"v");
        let room = pipeline.lanes[lane].admit(batch.as_bytes().len()).unwrap();
        let csn = pipeline
            .enqueue(room, &batch, Terms::new([table(1)].into_iter(), &[]), |_| ())
            .unwrap();
        pipeline.installed(csn);
        // A lane that was flushed once is further along than one that was not.
        pipeline.flush_lane(lane, Task::Flush);
        let room = pipeline.lanes[lane].admit(batch.as_bytes().len()).unwrap();
        let csn = pipeline
            .enqueue(room, &batch, Terms::new([table(1)].into_iter(), &[]), |_| ())
            .unwrap();
        pipeline.installed(csn);
    }
    let flushed = || order.map(|lane| !pipeline.lanes[lane].has_unflushed());
    for count in 1..=order.len() {
        assert!(pipeline.try_flush());
        assert_eq!(flushed(), std::array::from_fn(|place| place < count));
    }
    assert!(!pipeline.try_flush());
}

/// Many threads over few small queues, with tables dropped in between.
#[test]
fn commits_of_many_threads_become_stable() {
    let (pipeline, _logs) = pipeline(3, Vec::new());
    let (threads, each) = (6, 300);
    spillway_base::thread::together(threads, |thread| {
        for number in 0..each {
            let batch = batch(&vec![thread as u8; number % 200]);
            let room = pipeline.admit(batch.as_bytes().len()).unwrap();
            let own = table(2 + (thread * each + number) as u32);
            let dropped = if number % 50 == 7 { vec![own] } else { Vec::new() };
            let csn = pipeline
                .enqueue(room, &batch, Terms::new([own].into_iter(), &dropped), |_| ())
                .unwrap();
            pipeline.installed(csn);
            if number % 3 == 0 {
                pipeline.wait(csn).unwrap();
                assert!(pipeline.snapshots.stable_csn() >= csn);
            }
        }
    });
    pipeline.flush().unwrap();
    assert_eq!(pipeline.snapshots.stable_csn(), Csn((threads * each) as u64));
}

/// Discarded commits are cut before any segment that proves that they were discarded.
#[test]
fn a_log_is_cut_only_once_nothing_discarded_is_left() {
    let (pipeline, _logs) = pipeline(2, Vec::new());
    let filled = |segment, newest, earlier, discarded| Filled {
        segment,
        newest: newest_at(newest),
        earlier,
        discarded,
    };
    let left = |lane: usize| {
        let state = pipeline.lanes[lane].lock();
        state.segments.filled.iter().map(|segment| segment.segment).collect::<Vec<_>>()
    };
    pipeline.lanes[0]
        .lock()
        .segments
        .filled
        .extend([filled(3, 5, false, false), filled(4, 9, false, false)]);
    pipeline.lanes[1].lock().segments.filled.extend([filled(1, 6, true, true)]);
    pipeline.truncate(Csn(5)).unwrap();
    assert_eq!((left(0), left(1)), (vec![3, 4], vec![1]));
    pipeline.truncate(Csn(6)).unwrap();
    // The fake log has every note in segment 9.
    assert_eq!((left(0), left(1)), (vec![4, 9], vec![]));
}

/// The engines are asked only for as much as brings the logs down to their limit: the oldest
/// segments of all lanes go first.
#[test]
fn engines_are_asked_for_the_oldest_segments_only() {
    let (pipeline, logs) = pipeline(2, Vec::new());
    let filled = |segment, newest| Filled {
        segment,
        newest: newest_at(newest),
        earlier: false,
        discarded: false,
    };
    pipeline.lanes[0].lock().segments.filled.extend([filled(1, 30), filled(2, 50), filled(3, 60)]);
    pipeline.lanes[1].lock().segments.filled.extend([filled(1, 20), filled(2, 70)]);
    logs.iter().for_each(|log| log.state.lock().used = 250);
    // 500 bytes in five segments, of which the last of each lane stays.
    let asked = |bytes_max| pipeline.persist_target(bytes_max).map(|csn| csn.0);
    assert_eq!(
        [500, 499, 400, 399, 299, 0].map(asked),
        [None, Some(20), Some(20), Some(30), Some(50), Some(50)]
    );
}

/// A commit that notices the failure of another lane's log leaves without filling its place:
/// threads that wait for the place leave too.
#[test]
fn d6_a_place_that_is_never_filled_holds_nobody_up() {
    let (pipeline, _logs) = pipeline(2, Vec::new());
    let pipeline = Arc::new(pipeline);
    let before = pipeline.lanes[1].reserve(&batch(b"v"));
    pipeline.lanes[1].skip(before, &batch(b"v"));
    let _never_filled = pipeline.lanes[1].reserve(&batch(b"v"));
    let (tell, told) = mpsc::channel();
    let flusher = pipeline.clone();
    spillway_base::thread::spawn("flushes", move || {
        flusher.flush_lane(1, Task::Flush);
        let _ = tell.send(());
    })
    .unwrap();
    // It has taken the entries before, and waits.
    while !pipeline.lanes[1].has_taken(1) {
        std::thread::yield_now();
    }
    pipeline.stop(&Error::new(ErrorKind::Io, "another lane's disk is gone"));
    told.recv_timeout(HANG).expect("the flush ends");
    assert_eq!(pipeline.close().unwrap_err().kind(), ErrorKind::WritesStopped);
}

/// A thread has its place, has found the gate open, and has no CSN yet when the pipeline closes.
#[test]
fn pipe_1_a_close_waits_for_every_place_that_is_reserved() {
    let (pipeline, log) = new();
    let first = order(&pipeline);
    pipeline.installed(first);
    pipeline.wait(first).unwrap();
    let late = batch(b"late");
    let room = pipeline.admit(late.as_bytes().len()).unwrap();
    let place = pipeline.lanes[0].reserve(&late);
    assert_eq!(pipeline.gate.passage(), Passage::Open);
    let (tell, told) = mpsc::channel();
    let closer = pipeline.clone();
    spillway_base::thread::spawn("closes", move || {
        let _ = tell.send(closer.close());
    })
    .unwrap();
    while pipeline.gate.passage() != Passage::Closed || pipeline.lanes[0].try_lock().is_some() {
        assert!(told.try_recv().is_err(), "the place is reserved, and close has returned");
        std::thread::yield_now();
    }
    let csn = Csn(pipeline.ordered.fetch_add(1, Ordering::SeqCst) + 1);
    pipeline.lanes[0].put(place, csn, room, &late);
    told.recv_timeout(HANG).expect("close returns").unwrap();
    assert_eq!(pipeline.durable(), csn);
    let state = log.state.lock();
    assert_eq!(state.durable, state.used);
}

/// A lane moves on to another segment between the check and its cut, once concurrently with a cut
/// that wrote a note, and once with one that needed none.
#[test]
fn pipe_3_a_cut_removes_no_more_than_it_looked_at() {
    let filled = |segment, newest| Filled {
        segment,
        newest: newest_at(newest),
        earlier: false,
        discarded: false,
    };
    for first in [vec![filled(1, 3), filled(2, 9)], vec![filled(2, 9)]] {
        let noted = first.len() > 1;
        let (pipeline, logs) = pipeline(2, Vec::new());
        let pipeline = Arc::new(pipeline);
        let put = |lane: usize, filled: &[Filled]| {
            pipeline.lanes[lane].lock().segments.filled.extend(filled.iter().copied());
        };
        put(0, &first);
        put(1, &[filled(1, 4)]);
        let other = pipeline.clone();
        let rotate = move || other.lanes[1].lock().segments.filled.push_back(filled(2, 9));
        // The second pass is the one that cuts segments of this opening.
        let hooked = logs[0].clone();
        *logs[0].cuts.lock() = Some(Box::new(move || {
            *hooked.cuts.lock() = Some(Box::new(rotate));
        }));
        let left = || {
            let state = pipeline.lanes[1].lock();
            state.segments.filled.iter().map(|filled| filled.segment).collect::<Vec<_>>()
        };
        pipeline.truncate(Csn(5)).unwrap();
        assert_eq!((left(), logs[0].state.lock().arrived > 0), (vec![1, 2], noted));
        pipeline.truncate(Csn(5)).unwrap();
        assert_eq!(left(), [2]);
        assert_eq!(logs[0].state.lock().arrived, 1 + usize::from(noted));
    }
}

/// Runs a panicking closure in its own thread.
fn panics(name: &str, body: impl FnOnce() + Send + 'static) {
    let thread = spillway_base::thread::spawn(name, body).unwrap();
    assert!(thread.join().is_err(), "{name} panics");
}

fn in_time<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
    let (tell, told) = mpsc::channel();
    spillway_base::thread::spawn("in time", move || tell.send(body())).unwrap();
    told.recv_timeout(HANG).expect("an end")
}

fn assert_stopped<T>(outcome: Result<T>, doing: &str) {
    let error = outcome.err().expect("writes have stopped");
    assert_eq!(error.kind(), ErrorKind::WritesStopped);
    assert!(error.to_string().contains(doing), "{error}");
}

#[test]
fn pipe_4_those_behind_an_install_that_panics_are_told() {
    let (pipeline, _log) = new();
    let missing = order(&pipeline);
    let second = order(&pipeline);
    pipeline.installed(second);
    let told = wait_later(&pipeline, second);
    until_waiting(&pipeline, 1);
    let snapshots = pipeline.snapshots.clone();
    let waits = move || snapshots.installed.wait(missing);
    let installed = spillway_base::thread::spawn("waits for an install", waits).unwrap();
    let installing = pipeline.clone();
    panics("installs", move || {
        let _guard = installing.guard("installing a commit");
        panic!("in an engine");
    });
    assert_stopped(told.recv_timeout(HANG).expect("an answer"), "installing a commit");
    assert!(!installed.join().unwrap());
    assert_stopped(pipeline.health(), "installing a commit");
    assert_eq!(pipeline.snapshots.stable_csn(), Csn::ZERO);
}

/// The place is reserved, and will never be filled.
#[test]
fn pipe_4_a_panic_before_the_csn_stops_commits() {
    let (pipeline, _log) = new();
    let ordering = pipeline.clone();
    panics("orders", move || {
        let batch = batch(b"v");
        let room = ordering.admit(batch.as_bytes().len()).unwrap();
        let check = || panic!("in a check");
        let terms = Terms { check: &check, ..Terms::of(table(1)) };
        let _ = ordering.enqueue(room, &batch, terms, |_| ());
    });
    assert_stopped(pipeline.admit(10).map(drop), "ordering a commit");
    let flushing = pipeline.clone();
    assert_stopped(in_time(move || flushing.flush()), "ordering a commit");
    assert_stopped(in_time(move || pipeline.close()), "ordering a commit");
}

/// Entries that were taken out of the queue and not written are not reported durable by the next
/// flush.
#[test]
fn pipe_4_a_panic_in_a_flush_loses_nothing_that_is_acknowledged() {
    let (pipeline, log) = new();
    let csn = order(&pipeline);
    pipeline.installed(csn);
    log.state.lock().panics = true;
    let flushing = pipeline.clone();
    panics("flushes", move || drop(flushing.flush()));
    log.state.lock().panics = false;
    let waiting = pipeline.clone();
    assert_stopped(in_time(move || waiting.wait(csn)), "writing to the log");
    assert_eq!(pipeline.snapshots.stable_csn(), Csn::ZERO);
    assert!(log.state.lock().durable == 0);
}

#[test]
fn pipe_4_a_call_that_panics_keeps_nobody_from_being_told() {
    let (pipeline, _log) = new();
    let csn = order(&pipeline);
    pipeline.installed(csn);
    let (tell, told) = mpsc::channel();
    for number in 0..4 {
        let tell = tell.clone();
        let call = move |_| {
            assert_ne!(number, 1, "a call panics");
            let _ = tell.send(number);
        };
        pipeline.waiters.register_call(csn, Box::new(call));
    }
    let flushing = pipeline.clone();
    panics("flushes", move || drop(flushing.flush()));
    let mut all: Vec<i32> = told.try_iter().collect();
    all.sort_unstable();
    assert_eq!(all, [0, 2, 3]);
    assert!(pipeline.health().is_ok() && pipeline.known(csn).is_some());
}
