//! The pipeline's protocols, model-checked: every commit is acknowledged, in every interleaving of
//! threads that order, install and flush commits and fall asleep.

use std::task::{Wake, Waker};

use spillway_base::batch::Op;
use spillway_base::budget::Budget;
use spillway_base::engine::Replayed;
use spillway_base::sync::{Arc as LoomArc, model};
use spillway_base::{EngineKind, EngineSet, LogPlace};
use spillway_storage::plog::{LogSpan, Position, Room as LogRoom};

use super::place_queue::InFrame;
use super::*;
use crate::engines::Engines;
use crate::model::{ModelEngine, SeesLog};

/// A log that accepts everything, and counts the frames that are not synced.
#[derive(Default)]
struct FakePlog(Counter);

impl Plog for FakePlog {
    fn append(&self, _payload: &[u8], durable: bool, _room: LogRoom) -> Result<Position> {
        self.0.fetch_add(1, Ordering::Relaxed);
        if durable {
            self.sync()?;
        }
        Ok(Position { segment: 2, offset: 0 })
    }

    fn sync(&self) -> Result<()> {
        self.0.store(0, Ordering::Relaxed);
        Ok(())
    }

    fn reserve(&self, payload: u64) -> Result<LogRoom> {
        Ok(LogRoom::new(payload))
    }

    fn release(&self, _room: LogRoom) {}

    fn segment_for(&self, _payload: u64) -> u64 {
        0
    }

    fn prepare(&self) -> Result<()> {
        Ok(())
    }

    fn truncate_before(&self, _segment: u64, _kept: &[u64]) -> Result<()> {
        Ok(())
    }

    fn span(&self) -> Option<LogSpan> {
        None
    }

    /// The number of frames that a crash would lose.
    fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn health(&self) -> Result<()> {
        Ok(())
    }
}

type Csns = std::sync::Mutex<std::collections::BTreeSet<Csn>>;

/// Records which commits are installed, and which places the pipeline reports to an engine. Every
/// commit writes to the engine's tables.
#[derive(Default)]
struct ToldCommits {
    told: Csns,
    installed: Csns,
}

impl SeesLog for ToldCommits {
    fn installed(&self, csn: Csn, _batch: &WriteBatch) {
        assert!(self.installed.lock().unwrap().insert(csn));
    }

    fn replayed(&self, _write: Replayed<'_>) {}

    fn placed(&self, commits: &[(Csn, LogPlace)], through: Csn) {
        let mut told = self.told.lock().unwrap();
        for (csn, _) in commits {
            assert!(told.insert(*csn), "LOG-READ-2: {csn} comes once");
            let is_installed = self.installed.lock().unwrap().contains(csn);
            assert!(is_installed, "LOG-READ-2: {csn} is installed");
        }
        assert!((1..=through.0).all(|csn| told.contains(&Csn(csn))), "{through} of {told:?}");
    }

    fn keeps(&self, _lane: u32, _segment: u64) -> bool {
        true
    }
}

fn with_engine(lanes: usize) -> (LoomArc<Pipeline>, Arc<ToldCommits>) {
    let (engine, told) = (ModelEngine::of(EngineKind::Memory), Arc::<ToldCommits>::default());
    engine.watch_log(told.clone());
    let engines = Engines::new(vec![Arc::new(engine)]);
    let pipeline = new_pipeline(lanes, &[]).telling(&engines, &Budget::new(1 << 20));
    (LoomArc::new(pipeline), told)
}

/// Orders a commit to a table of the engine.
fn order_row_on(pipeline: &Pipeline, lane: usize) -> Csn {
    let mut batch = WriteBatch::new();
    batch.push(Op::Delete { table: TableId::new(EngineKind::Memory, 1), key: b"" });
    let room = pipeline.lanes[lane].admit(batch.as_bytes().len()).unwrap();
    let terms = Terms::new(std::iter::empty(), &[]);
    pipeline.enqueue(room, &batch, terms, |_| ()).unwrap()
}

/// Installs a commit to a table of the engine.
fn install_row(pipeline: &Pipeline, told: &ToldCommits, csn: Csn) {
    told.installed(csn, &WriteBatch::new());
    pipeline.installed(csn);
}

/// Orders a commit to a table of the engine, and installs it.
fn commit_on(pipeline: &Pipeline, told: &ToldCommits, lane: usize) {
    let csn = order_row_on(pipeline, lane);
    install_row(pipeline, told, csn);
}

/// Two threads flush a lane each, and report places to the engine. They miss no commit up to the
/// CSN that they pass as `through`, and report none twice.
#[test]
fn loom_log_read_3_no_commit_is_missed() {
    model(2, || {
        let (pipeline, told) = with_engine(2);
        let other = {
            let (pipeline, told) = (pipeline.clone(), told.clone());
            loom::thread::spawn(move || {
                commit_on(&pipeline, &told, 1);
                pipeline.flush_lane(1, Task::Flush);
            })
        };
        commit_on(&pipeline, &told, 0);
        pipeline.flush_lane(0, Task::Flush);
        other.join().unwrap();
        assert_eq!(pipeline.tell_all_places(), Csn(2));
        assert_eq!(told.told.lock().unwrap().len(), 2);
    });
}

/// One thread reports places to the engine, as before a cut, while another one flushes.
#[test]
fn loom_log_read_4_a_cut_is_told_of_beside_a_flush() {
    model(3, || {
        let (pipeline, told) = with_engine(1);
        let other = {
            let pipeline = pipeline.clone();
            loom::thread::spawn(move || {
                let stable = pipeline.snapshots.stable_csn();
                assert!(pipeline.tell_all_places() >= stable);
            })
        };
        commit_on(&pipeline, &told, 0);
        pipeline.flush_lane(0, Task::Flush);
        other.join().unwrap();
        assert_eq!(pipeline.tell_all_places(), Csn(1));
        assert_eq!(told.told.lock().unwrap().len(), 1);
    });
}

/// Three threads report places at once. When the last of them returns, the engine knows all stable
/// commits.
#[test]
fn loom_log_read_10_three_threads_leave_nothing_untold() {
    model(3, || {
        let (pipeline, told) = with_engine(1);
        // The places of three commits are in the queue, and the threads make these stable in turn.
        for csn in 1..=3 {
            told.installed(Csn(csn), &WriteBatch::new());
            let engines = EngineSet::one(EngineKind::Memory);
            let frame = [InFrame { csn: Csn(csn), engines, at: 0 }];
            pipeline.lanes[0].places.add(0, Position { segment: 2, offset: 0 }, &frame);
        }
        let tell = |csn: u64| {
            let pipeline = pipeline.clone();
            move || {
                pipeline.snapshots.advance_stable(Csn(csn));
                pipeline.tell_places();
            }
        };
        let others = [loom::thread::spawn(tell(1)), loom::thread::spawn(tell(2))];
        tell(3)();
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!(told.told.lock().unwrap().len(), 3);
    });
}

/// A cut holds the lock when a flush ends. The cut's thread then reports the places that the flush
/// left.
#[test]
fn loom_log_read_10_a_cut_leaves_nothing_untold() {
    model(3, || {
        let (pipeline, told) = with_engine(1);
        commit_on(&pipeline, &told, 0);
        let other = {
            let pipeline = pipeline.clone();
            loom::thread::spawn(move || pipeline.tell_all_places())
        };
        pipeline.flush_lane(0, Task::Flush);
        other.join().unwrap();
        assert_eq!(told.told.lock().unwrap().len(), 1);
    });
}

/// A flush makes a commit durable before its install. The engine learns the place after the
/// install, and without another flush.
#[test]
fn loom_log_read_10_a_late_install_is_told_of() {
    model(3, || {
        let (pipeline, told) = with_engine(1);
        let csn = order_row_on(&pipeline, 0);
        let other = {
            let pipeline = pipeline.clone();
            loom::thread::spawn(move || pipeline.flush_lane(0, Task::Flush))
        };
        install_row(&pipeline, &told, csn);
        other.join().unwrap();
        assert_eq!(told.told.lock().unwrap().len(), 1);
    });
}

/// As before, concurrently with a second commit in another lane, which the late install holds back.
#[test]
fn loom_log_read_10_a_late_install_holds_a_later_commit_back() {
    model(2, || {
        let (pipeline, told) = with_engine(2);
        let csn = order_row_on(&pipeline, 0);
        let other = {
            let (pipeline, told) = (pipeline.clone(), told.clone());
            loom::thread::spawn(move || {
                commit_on(&pipeline, &told, 1);
                pipeline.flush().unwrap();
            })
        };
        install_row(&pipeline, &told, csn);
        other.join().unwrap();
        assert_eq!(told.told.lock().unwrap().len(), 2);
    });
}

fn new_pipeline(lanes: usize, segments: &[OldSegment]) -> Pipeline {
    let opened = |_| OpenedLane {
        lane: 0,
        plog: Box::new(FakePlog::default()),
        segments: segments.to_vec(),
        used: true,
    };
    let opened = (0..lanes).map(opened).collect();
    Pipeline::new(opened, 64, Snapshots::new(), Csn::ZERO)
}

fn with(lanes: usize, segments: &[OldSegment]) -> LoomArc<Pipeline> {
    LoomArc::new(new_pipeline(lanes, segments))
}

fn new() -> LoomArc<Pipeline> {
    with(1, &[])
}

fn order_on(pipeline: &Pipeline, lane: usize) -> Csn {
    let batch = WriteBatch::new();
    let room = pipeline.lanes[lane].admit(0).unwrap();
    pipeline.enqueue(room, &batch, Terms::new(std::iter::empty(), &[]), |_| ()).unwrap()
}

fn order(pipeline: &Pipeline) -> Csn {
    order_on(pipeline, 0)
}

#[test]
fn loom_every_commit_is_acknowledged() {
    model(3, || {
        let pipeline = new();
        let other = {
            let pipeline = pipeline.clone();
            loom::thread::spawn(move || {
                let csn = order(&pipeline);
                pipeline.installed(csn);
                pipeline.wait(csn).unwrap();
                assert!(pipeline.snapshots.stable_csn() >= csn);
            })
        };
        let csn = order(&pipeline);
        pipeline.installed(csn);
        pipeline.wait(csn).unwrap();
        assert!(pipeline.snapshots.stable_csn() >= csn);
        other.join().unwrap();
        assert_eq!(pipeline.snapshots.stable_csn(), Csn(2));
    });
}

#[test]
fn loom_pipe_2_a_commit_is_acknowledged_beside_a_truncation() {
    model(3, || {
        let old = |segment| OldSegment { segment, newest: Newest::default(), discarded: false };
        let pipeline = with(1, &[old(0), old(1)]);
        let other = {
            let pipeline = pipeline.clone();
            loom::thread::spawn(move || pipeline.truncate(Csn::ZERO).unwrap())
        };
        let csn = order(&pipeline);
        pipeline.installed(csn);
        pipeline.wait(csn).unwrap();
        other.join().unwrap();
    });
}

/// A thread that found the turn taken by a thread which only reads the segments is woken (PIPE-2).
#[test]
fn loom_pipe_2_a_commit_is_acknowledged_beside_a_look_at_segments() {
    model(3, || {
        let pipeline = new();
        let other = {
            let pipeline = pipeline.clone();
            loom::thread::spawn(move || {
                let mut turn = pipeline.turn(&pipeline.lanes[0]);
                turn.state().segments.full().count()
            })
        };
        let csn = order(&pipeline);
        pipeline.installed(csn);
        pipeline.wait(csn).unwrap();
        other.join().unwrap();
    });
}

/// A thread that found the turn taken by a thread which only makes room is woken to sync.
#[test]
fn loom_a_commit_is_acknowledged_beside_a_write_for_room() {
    model(3, || {
        let pipeline = new();
        let other = {
            let pipeline = pipeline.clone();
            loom::thread::spawn(move || pipeline.flush_lane(0, Task::MakeRoom))
        };
        let csn = order(&pipeline);
        pipeline.installed(csn);
        pipeline.wait(csn).unwrap();
        assert_eq!(pipeline.log_bytes(), 0, "what is acknowledged is synced");
        other.join().unwrap();
    });
}

#[test]
fn loom_a_flush_and_a_late_install_make_a_commit_stable() {
    model(3, || {
        let pipeline = new();
        let csn = order(&pipeline);
        let other = {
            let pipeline = pipeline.clone();
            loom::thread::spawn(move || pipeline.flush().unwrap())
        };
        pipeline.installed(csn);
        other.join().unwrap();
        assert_eq!(pipeline.snapshots.stable_csn(), csn);
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
    model(3, || {
        let pipeline = new();
        let csn = order(&pipeline);
        let other = {
            let pipeline = pipeline.clone();
            loom::thread::spawn(move || {
                pipeline.flush().unwrap();
                pipeline.installed(csn);
            })
        };
        let (mut signal, sleep) = (None, Arc::new(Signal::default()));
        let waker = Waker::from(Arc::new(Wakes(sleep.clone())));
        while pipeline.poll(csn, &mut signal, &waker).is_none() {
            sleep.wait();
        }
        other.join().unwrap();
    });
}

/// Two lanes, and a commit in each: neither is acknowledged before both are durable, and both are.
#[test]
fn loom_commits_of_two_lanes_are_acknowledged() {
    model(2, || {
        let pipeline = with(2, &[]);
        let other = {
            let pipeline = pipeline.clone();
            loom::thread::spawn(move || {
                let csn = order_on(&pipeline, 1);
                pipeline.installed(csn);
                pipeline.wait(csn).unwrap();
            })
        };
        let csn = order_on(&pipeline, 0);
        pipeline.installed(csn);
        pipeline.wait(csn).unwrap();
        other.join().unwrap();
        assert_eq!(pipeline.snapshots.stable_csn(), Csn(2));
    });
}

/// A thread that reports "durable through" has seen every place that was reserved before.
#[test]
fn loom_a_lane_does_not_claim_what_it_has_not_flushed() {
    model(2, || {
        let pipeline = with(2, &[]);
        let other = {
            let pipeline = pipeline.clone();
            // Ordered and installed, and not flushed by any thread.
            loom::thread::spawn(move || {
                let csn = order_on(&pipeline, 1);
                pipeline.installed(csn);
                csn
            })
        };
        let own = order_on(&pipeline, 0);
        pipeline.installed(own);
        pipeline.flush_lane(0, Task::Flush);
        let stable = pipeline.snapshots.stable_csn();
        let others = other.join().unwrap();
        assert!(stable < others, "{others:?} is in no frame, and {stable:?} is stable");
    });
}

/// A flusher that stands by and stops, because its queue is empty, concurrently with a commit that
/// relies on it.
#[test]
fn loom_a_flusher_stands_by_for_every_commit() {
    model(3, || {
        let pipeline = new();
        let earlier = order(&pipeline);
        pipeline.installed(earlier);
        pipeline.flush_by(Urgency::Soon, || Duration::ZERO);
        pipeline.flush().unwrap();
        let other = {
            let pipeline = pipeline.clone();
            loom::thread::spawn(move || {
                let csn = order(&pipeline);
                pipeline.installed(csn);
                pipeline.flush_by(Urgency::Soon, || Duration::ZERO);
            })
        };
        let task = pipeline.next_task(0, Duration::ZERO);
        other.join().unwrap();
        assert!(task.is_some() || pipeline.stands_by(0), "nobody looks for the commit");
    });
}

/// A commit concurrent with a close is refused, or has its CSN and is durable once close has
/// returned.
#[test]
fn loom_pipe_1_nothing_is_ordered_after_a_close() {
    model(3, || {
        let pipeline = new();
        let other = {
            let pipeline = pipeline.clone();
            loom::thread::spawn(move || {
                let batch = WriteBatch::new();
                let room = pipeline.lanes[0].admit(0).unwrap();
                pipeline.enqueue(room, &batch, Terms::new(std::iter::empty(), &[]), |_| ()).ok()
            })
        };
        pipeline.close().unwrap();
        let durable = pipeline.durable();
        if let Some(csn) = other.join().unwrap() {
            assert!(csn <= durable, "{csn:?} was ordered, and close made {durable:?} durable");
        }
    });
}
