//! A lane over a log that the test can hold up and fill.

use std::sync::mpsc;
use std::time::Duration;

use parking_lot::Condvar;
use spillway_base::EngineKind;
use spillway_base::batch::Op;

use super::*;

/// A hang is a failure, not a test that never ends.
const HANG: Duration = Duration::from_secs(60);

#[derive(Default)]
struct LogState {
    closed: bool,
    /// Appends begun.
    arrived: usize,
    used: u64,
    claimed: u64,
    /// Bytes of the largest frame.
    largest: usize,
    capacity: Option<u64>,
}

#[derive(Default)]
struct Log {
    state: Mutex<LogState>,
    changed: Condvar,
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
    fn append(&self, payload: &[u8], _durable: bool, room: LogRoom) -> Result<Position> {
        assert!(payload.len() as u64 <= room.size());
        let mut state = self.0.state.lock();
        state.arrived += 1;
        self.0.changed.notify_all();
        while state.closed {
            self.0.changed.wait(&mut state);
        }
        state.used += payload.len() as u64;
        state.claimed -= room.size();
        state.largest = state.largest.max(payload.len());
        Ok(Position { segment: 9, offset: state.used })
    }

    fn sync(&self) -> Result<()> {
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

    fn prepare(&self) -> Result<()> {
        Ok(())
    }

    fn truncate_before(&self, _segment: u64) -> Result<()> {
        Ok(())
    }

    fn bytes(&self) -> u64 {
        self.0.state.lock().used
    }

    fn health(&self) -> Result<()> {
        Ok(())
    }
}

fn lane() -> (Lane, Arc<Log>) {
    let log = Arc::new(Log::default());
    let lane = Lane::new(Box::new(FakePlog(log.clone())), Snapshots::new(), Csn::ZERO);
    assert_eq!(log.state.lock().claimed, NOTE_BYTES as u64);
    (lane, log)
}

fn new() -> (Arc<Lane>, Arc<Log>) {
    let (lane, log) = lane();
    (Arc::new(lane), log)
}

fn table(ordinal: u32) -> TableId {
    TableId::new(EngineKind::Tiered, ordinal)
}

fn batch(value: &[u8]) -> WriteBatch {
    let mut batch = WriteBatch::new();
    batch.push(Op::Put { table: table(1), key: b"k", value });
    batch
}

fn order(lane: &Lane) -> Csn {
    let batch = batch(b"v");
    let room = lane.admit(batch.as_bytes().len()).unwrap();
    lane.enqueue(room, &batch, [table(1)].into_iter(), &[]).unwrap()
}

fn wait_later(lane: &Arc<Lane>, csn: Csn) -> mpsc::Receiver<Result<()>> {
    let (tell, told) = mpsc::channel();
    let lane = lane.clone();
    spillway_base::thread::spawn("waits", move || {
        let _ = tell.send(lane.wait(csn));
    })
    .unwrap();
    told
}

fn until_waiting(lane: &Lane, count: usize) {
    while lane.waiters.count() < count {
        std::thread::yield_now();
    }
}

#[test]
fn a_commit_that_was_admitted_is_refused_once_the_lane_is_closed() {
    let (lane, log) = new();
    let batch = batch(b"v");
    let room = lane.admit(batch.as_bytes().len()).unwrap();
    let ordered = order(&lane);
    lane.installed(ordered);
    lane.close().unwrap();
    let late = lane.enqueue(room, &batch, [table(1)].into_iter(), &[]).unwrap_err();
    assert_eq!(late.kind(), ErrorKind::Closed);
    lane.wait(ordered).unwrap();
    assert_eq!(log.state.lock().claimed, NOTE_BYTES as u64);
}

#[test]
fn a_flush_is_handed_to_one_that_needs_it() {
    let (lane, log) = new();
    let missing = order(&lane);
    // Durable, and waiting for the install of the commit before it.
    let second = order(&lane);
    lane.installed(second);
    let second = wait_later(&lane, second);
    until_waiting(&lane, 1);
    // While the next one leads a flush, another gets in line behind it.
    log.close();
    let third = order(&lane);
    lane.installed(third);
    let third = wait_later(&lane, third);
    log.wait_for_arrival(2);
    let fourth = order(&lane);
    lane.installed(fourth);
    let fourth = wait_later(&lane, fourth);
    until_waiting(&lane, 2);
    log.open();
    log.wait_for_arrival(3);
    lane.installed(missing);
    for told in [second, third, fourth] {
        told.recv_timeout(HANG).expect("an acknowledgement").unwrap();
    }
}

#[test]
fn a_commit_that_met_a_truncation_is_not_forgotten() {
    let (lane, log) = new();
    lane.adopt_segment(1, Csn::ZERO);
    lane.adopt_segment(2, Csn::ZERO);
    log.close();
    std::thread::scope(|scope| {
        scope.spawn(|| lane.truncate(Csn::ZERO).unwrap());
        log.wait_for_arrival(1);
        let csn = order(&lane);
        lane.installed(csn);
        let told = wait_later(&lane, csn);
        until_waiting(&lane, 1);
        log.open();
        told.recv_timeout(HANG).expect("an acknowledgement").unwrap();
    });
}

#[test]
fn room_that_was_admitted_is_not_admitted_again() {
    let (lane, log) = new();
    log.state.lock().capacity = Some(10_000);
    let batch = batch(&[7; 900]);
    let admit = || lane.admit(batch.as_bytes().len());
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
        let csn = lane.enqueue(room, &batch, [table(1)].into_iter(), &[]).unwrap();
        lane.installed(csn);
        // The bytes of a flush under way count until they are in the log.
        lane.flush().unwrap();
    }
    assert_eq!(admit().err().map(|error| error.kind()), Some(ErrorKind::DiskFull));
    assert!(lane.health().is_ok());
    // A note has its room all the same.
    let mut state = log.state.lock();
    state.capacity = Some(state.used);
    drop(state);
    lane.adopt_segment(10, Csn::MAX);
    lane.truncate(Csn::MAX).unwrap();
    assert_eq!(log.state.lock().claimed, 0);
    log.state.lock().capacity = None;
    drop(admit().unwrap());
    lane.truncate(Csn::MAX).unwrap();
    assert_eq!(log.state.lock().claimed, NOTE_BYTES as u64);
}

#[test]
fn a_batch_past_the_limit_is_refused_and_frames_stay_within_theirs() {
    let (lane, log) = lane();
    let refused = lane.admit(BATCH_BYTES_MAX + 1).err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::TransactionTooLarge);
    drop(lane.admit(BATCH_BYTES_MAX).unwrap());
    let lane = Lane { frame_bytes_max: 5000, ..lane };
    let batch = batch(&[7; 900]);
    for _ in 0..20 {
        let room = lane.admit(batch.as_bytes().len()).unwrap();
        let csn = lane.enqueue(room, &batch, [table(1)].into_iter(), &[]).unwrap();
        lane.installed(csn);
    }
    lane.flush().unwrap();
    assert_eq!(lane.snapshots.stable_csn(), Csn(20));
    let largest = log.state.lock().largest;
    assert!((4000..=5000).contains(&largest), "{largest}");
}

#[test]
fn a_write_to_a_table_that_was_dropped_first_is_refused() {
    let (lane, log) = new();
    let enqueue = |touched: &[TableId], dropped: &[TableId]| {
        let batch = batch(b"v");
        let room = lane.admit(batch.as_bytes().len()).unwrap();
        lane.enqueue(room, &batch, touched.iter().copied(), dropped)
    };
    enqueue(&[table(1), table(2)], &[table(2)]).unwrap();
    let refused = enqueue(&[table(1), table(2)], &[]).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotFound);
    assert_eq!(enqueue(&[table(2)], &[table(2)]).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(enqueue(&[table(1)], &[]).unwrap(), Csn(2));
    let claimed = log.state.lock().claimed - NOTE_BYTES as u64;
    assert_eq!(claimed, lane.order.lock().room.size(), "what was refused gave its room back");
}
