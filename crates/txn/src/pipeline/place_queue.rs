//! The places of a lane's commits that have not been reported to the engines yet (see `places.rs`).

use spillway_base::budget::{Budget, Charge, Use};
use spillway_base::{Csn, EngineSet, LogPlace};
use spillway_storage::plog::{PAYLOAD_OFFSET, Position};

use crate::sync::Mutex;

/// The places for which a queue keeps memory while it is empty.
pub(super) const KEPT_PLACES: usize = 4 << 10;

/// A commit of a frame whose place some engine wants.
#[derive(Clone, Copy)]
pub(super) struct InFrame {
    pub(super) csn: Csn,
    pub(super) engines: EngineSet,
    /// Where its batch begins in the frame's payload.
    pub(super) at: usize,
}

/// A commit in the log.
#[derive(Clone, Copy)]
pub(super) struct Placed {
    pub(super) csn: Csn,
    pub(super) engines: EngineSet,
    pub(super) place: LogPlace,
}

/// The places of a lane's commits that the engines do not know yet.
#[derive(Default)]
pub(super) struct PlaceQueue(Mutex<Queued>);

#[derive(Default)]
struct Queued {
    places: Vec<Placed>,
    charge: Option<Charge>,
}

impl Queued {
    /// Sets the charge to the memory that the queue has now.
    fn recharge(&mut self) {
        let bytes = self.places.capacity() * size_of::<Placed>();
        if let Some(charge) = self.charge.as_mut().filter(|charge| charge.bytes() != bytes) {
            charge.resize(bytes);
        }
    }
}

impl PlaceQueue {
    pub(super) fn charge_to(&self, budget: &Budget) {
        self.0.lock().charge = Some(budget.charge(Use::Transactions, 0));
    }

    /// Adds the commits of a frame that was appended to a lane. Only afterwards may the caller
    /// store that the lane is durable up to them.
    pub(super) fn add(&self, lane: u32, frame: Position, commits: &[InFrame]) {
        if commits.is_empty() {
            return;
        }
        let payload = LogPlace { lane, segment: frame.segment, offset: frame.offset };
        let payload = payload.plus(PAYLOAD_OFFSET);
        let placed = |commit: &InFrame| Placed {
            csn: commit.csn,
            engines: commit.engines,
            place: payload.plus(commit.at),
        };
        let mut queued = self.0.lock();
        queued.places.extend(commits.iter().map(placed));
        queued.recharge();
    }

    /// Moves the commits up to `csn` to `out`. It visits the whole queue: the queue is nearly but
    /// not strictly in CSN order, and most of it is moved.
    pub(super) fn take_to(&self, csn: Csn, out: &mut Vec<Placed>) {
        let mut queued = self.0.lock();
        queued.places.retain(|placed| {
            let taken = placed.csn <= csn;
            if taken {
                out.push(*placed);
            }
            !taken
        });
        let left = queued.places.len();
        if queued.places.capacity() > KEPT_PLACES.max(4 * left) {
            queued.places.shrink_to(KEPT_PLACES.max(2 * left));
        }
        queued.recharge();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use spillway_base::EngineKind;

    use super::*;

    /// A queue is charged for its memory, and frees the memory that a burst has taken.
    #[test]
    fn a_queue_is_charged_and_gives_back() {
        let budget = Budget::new(1 << 10);
        let used = || budget.used_for(Use::Transactions);
        let queue = PlaceQueue::default();
        queue.charge_to(&budget);
        let engines = EngineSet::one(EngineKind::Memory);
        let commits = |from: u64| (from..from + 1000).map(Csn);
        for number in 0..100 {
            let commits = commits(number * 1000);
            let frame: Vec<_> = commits.map(|csn| InFrame { csn, engines, at: 1 }).collect();
            queue.add(3, Position { segment: number, offset: 8 }, &frame);
        }
        assert!(used() >= 100_000 * size_of::<Placed>());
        let mut taken = Vec::new();
        queue.take_to(Csn(98_999), &mut taken);
        assert!(taken.iter().map(|placed| placed.csn.0).eq(0..99_000));
        let place = LogPlace { lane: 3, segment: 7, offset: 9 + PAYLOAD_OFFSET as u64 };
        assert_eq!(taken[7500].place, place);
        assert!((1000..8000).contains(&(used() / size_of::<Placed>())), "{}", used());
        queue.take_to(Csn::MAX, &mut taken);
        assert_eq!(taken.len(), 100_000);
        drop(queue);
        assert_eq!(used(), 0);
    }
}
