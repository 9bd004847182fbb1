//! Waking a seat whose statement was left for a row.

use std::sync::{Arc, Weak};
use std::task::{Wake, Waker};

use super::Pool;
use super::seat::Seat;

/// What is called when a seat's statement can go on. It keeps neither the pool nor the seat.
pub(super) fn waker(pool: Weak<Pool>, seat: &Arc<Seat>) -> Waker {
    Waker::from(Arc::new(Call { pool, seat: Arc::downgrade(seat) }))
}

struct Call {
    pool: Weak<Pool>,
    seat: Weak<Seat>,
}

impl Wake for Call {
    fn wake(self: Arc<Self>) {
        if let (Some(pool), Some(seat)) = (self.pool.upgrade(), self.seat.upgrade())
            && seat.call()
        {
            pool.push_called(seat);
        }
    }
}

impl Pool {
    /// Queues a seat whose statement need not wait any more.
    fn push_called(&self, seat: Arc<Seat>) {
        let mut work = self.work.lock();
        work.put_called(seat);
        let others = work.called() > 1;
        drop(work);
        // Whoever looks soon goes on with one, and may be some time at what queues the rest.
        if others {
            self.ring_if_asleep();
        } else {
            self.tell_of_it();
        }
    }
}
