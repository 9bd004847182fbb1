//! Wakes a connection whose statement was suspended for a row lock.

use std::sync::{Arc, Weak};
use std::task::{Wake, Waker};

use super::Pool;
use super::connection_slot::ConnectionSlot;

/// Called when a connection's statement can continue. It keeps neither the pool nor the connection
/// alive.
pub(super) fn waker(pool: Weak<Pool>, connection: &Arc<ConnectionSlot>) -> Waker {
    Waker::from(Arc::new(Call { pool, connection: Arc::downgrade(connection) }))
}

struct Call {
    pool: Weak<Pool>,
    connection: Weak<ConnectionSlot>,
}

impl Wake for Call {
    fn wake(self: Arc<Self>) {
        if let (Some(pool), Some(connection)) = (self.pool.upgrade(), self.connection.upgrade())
            && connection.call()
        {
            pool.push_called(connection);
        }
    }
}

impl Pool {
    /// Queues a connection whose statement can continue.
    fn push_called(&self, connection: Arc<ConnectionSlot>) {
        let mut work = self.work.lock();
        work.put_called(connection);
        let others = work.called() > 1;
        drop(work);
        // A worker that checks the queue soon continues with one of them, and may be busy before it
        // takes the rest.
        if others {
            self.ring_if_asleep();
        } else {
            self.tell_of_it();
        }
    }
}
