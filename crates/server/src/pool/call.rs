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
        self.work.lock().called.push_back(seat);
        self.tell_of_it();
    }
}
