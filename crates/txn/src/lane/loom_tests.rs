//! The pipeline's protocols, model-checked: every commit is acknowledged whatever the order of ordering, installing,
//! flushing and going to sleep.

use std::task::Wake;

use spillway_base::sync::Arc as LoomArc;

use super::*;

/// A log that takes everything.
struct FakePlog;

impl Plog for FakePlog {
    fn append(&self, _payload: &[u8], _durable: bool, _room: LogRoom) -> Result<Position> {
        Ok(Position { segment: 2, offset: 0 })
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn reserve(&self, payload: u64) -> Result<LogRoom> {
        Ok(LogRoom::new(payload))
    }

    fn release(&self, _room: LogRoom) {}

    fn prepare(&self) -> Result<()> {
        Ok(())
    }

    fn truncate_before(&self, _segment: u64) -> Result<()> {
        Ok(())
    }

    fn bytes(&self) -> u64 {
        0
    }

    fn health(&self) -> Result<()> {
        Ok(())
    }
}

fn new() -> LoomArc<Lane> {
    LoomArc::new(Lane::new(Box::new(FakePlog), Snapshots::new(), Csn::ZERO))
}

fn order(lane: &Lane) -> Csn {
    let batch = WriteBatch::new();
    let room = lane.admit(0).unwrap();
    lane.enqueue(room, &batch, std::iter::empty(), &[]).unwrap()
}

fn bounded(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

#[test]
fn loom_every_commit_is_acknowledged() {
    bounded(|| {
        let lane = new();
        let other = {
            let lane = lane.clone();
            loom::thread::spawn(move || {
                let csn = order(&lane);
                lane.installed(csn);
                lane.wait(csn).unwrap();
                assert!(lane.snapshots.stable_csn() >= csn);
            })
        };
        let csn = order(&lane);
        lane.installed(csn);
        lane.wait(csn).unwrap();
        assert!(lane.snapshots.stable_csn() >= csn);
        other.join().unwrap();
        assert_eq!(lane.snapshots.stable_csn(), Csn(2));
    });
}

#[test]
fn loom_a_commit_is_acknowledged_beside_a_truncation() {
    bounded(|| {
        let lane = new();
        lane.adopt_segment(0, Csn::ZERO);
        lane.adopt_segment(1, Csn::ZERO);
        let other = {
            let lane = lane.clone();
            loom::thread::spawn(move || lane.truncate(Csn::ZERO).unwrap())
        };
        let csn = order(&lane);
        lane.installed(csn);
        lane.wait(csn).unwrap();
        other.join().unwrap();
    });
}

#[test]
fn loom_a_flush_and_a_late_install_make_a_commit_stable() {
    bounded(|| {
        let lane = new();
        let csn = order(&lane);
        let other = {
            let lane = lane.clone();
            loom::thread::spawn(move || lane.flush().unwrap())
        };
        lane.installed(csn);
        other.join().unwrap();
        assert_eq!(lane.snapshots.stable_csn(), csn);
    });
}

struct Wakes(Arc<Signal>);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.wake();
    }
}

#[test]
fn loom_a_task_is_woken() {
    bounded(|| {
        let lane = new();
        let csn = order(&lane);
        let other = {
            let lane = lane.clone();
            loom::thread::spawn(move || {
                lane.flush().unwrap();
                lane.installed(csn);
            })
        };
        let (mut signal, sleep) = (None, Arc::new(Signal::default()));
        let waker = Waker::from(Arc::new(Wakes(sleep.clone())));
        while lane.poll(csn, &mut signal, &waker).is_none() {
            sleep.wait();
        }
        other.join().unwrap();
    });
}
