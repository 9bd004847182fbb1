//! Wakes a connection whose statement was suspended for a row lock or a device read.

use std::sync::{Arc, Weak};
use std::task::{Wake, Waker};

use super::Pool;
use super::connection_slot::ConnectionSlot;

/// A waker for a connection's suspended statement. It keeps neither the pool nor the connection
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
        // A worker that looks at the queue soon takes one of these statements, and may be busy with
        // it before it takes the others.
        if others {
            self.ring_if_asleep();
        } else {
            self.tell_of_it();
        }
    }
}
