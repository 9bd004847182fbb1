//! A connection's slot in the pool: its client, and an atomic word that says which thread may use
//! the client.

use std::net::IpAddr;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicU8, AtomicU64};
use std::time::Duration;

use parking_lot::Mutex;

use super::dedicated_clients::Calm;
use crate::admission::Slot;
use crate::connection::Client;
use crate::transport::Socket;

/// A worker holds the connection, or it is queued.
const BUSY: u8 = 1;
/// Epoll has reported the client since the last [`ConnectionSlot::look`].
const STIRRED: u8 = 2;
/// The client sends no more. Epoll reports that only once, so this bit stays set.
const ENDED: u8 = 4;
/// The connection's deadline has passed since the last [`ConnectionSlot::look`].
const LATE: u8 = 8;
/// The statement is suspended, and no worker holds the connection.
const LOCKED: u8 = 16;
/// The waker was called: the suspended statement can continue.
const CALLED: u8 = 32;

/// The state of a connection. Its slot of [`crate::admission`] is dropped last.
pub(super) enum ConnectionState {
    /// A client that was not greeted yet.
    Came {
        socket: Socket,
        address: Option<IpAddr>,
        slot: Slot,
    },
    Served {
        client: Box<Client<Socket>>,
        _slot: Slot,
    },
    Gone,
}

impl ConnectionState {
    /// The client, if there is one, and whether this call greeted it.
    pub(super) fn client(
        &mut self,
        greet: impl FnOnce(Socket, Option<IpAddr>, &Slot) -> Client<Socket>,
    ) -> Option<(&mut Client<Socket>, bool)> {
        let came = matches!(self, ConnectionState::Came { .. });
        *self = match std::mem::replace(self, ConnectionState::Gone) {
            ConnectionState::Came { socket, address, slot } => ConnectionState::Served {
                client: Box::new(greet(socket, address, &slot)),
                _slot: slot,
            },
            other => other,
        };
        self.served_mut().map(|client| (client, came))
    }

    /// The client, if it was greeted and is connected.
    pub(super) fn served(&self) -> Option<&Client<Socket>> {
        match self {
            ConnectionState::Served { client, .. } => Some(client),
            ConnectionState::Came { .. } | ConnectionState::Gone => None,
        }
    }

    pub(super) fn served_mut(&mut self) -> Option<&mut Client<Socket>> {
        match self {
            ConnectionState::Served { client, .. } => Some(client),
            ConnectionState::Came { .. } | ConnectionState::Gone => None,
        }
    }
}

/// The bits that [`ConnectionSlot::look`] found.
#[derive(Clone, Copy)]
pub(super) struct Left {
    pub(super) stirred: bool,
    pub(super) ended: bool,
    pub(super) late: bool,
}

pub(super) struct ConnectionSlot {
    pub(super) id: u64,
    word: AtomicU8,
    /// The deadline of the connection's wait, in nanoseconds of the clock, while it is not busy.
    until_ns: AtomicU64,
    /// Counts the client's responses, to decide whether it gets a dedicated worker.
    pub(super) calm: Calm,
    /// Only the thread that holds the connection locks this, so no thread waits for the lock.
    pub(super) state: Mutex<ConnectionState>,
}

impl ConnectionSlot {
    /// A slot for a connection that is busy.
    pub(super) fn new(id: u64, state: ConnectionState) -> ConnectionSlot {
        ConnectionSlot {
            id,
            word: AtomicU8::new(BUSY),
            until_ns: AtomicU64::new(0),
            calm: Calm::default(),
            state: Mutex::new(state),
        }
    }

    /// Called when epoll reports the client. Returns whether the connection was not busy and now
    /// is; then the caller queues it.
    pub(super) fn stir(&self, ended: bool) -> bool {
        let bits = BUSY | STIRRED | if ended { ENDED } else { 0 };
        self.word.fetch_or(bits, SeqCst) & BUSY == 0
    }

    /// Called when the deadline has passed. Returns whether no thread held the connection; then it
    /// is busy now, and the caller queues it.
    pub(super) fn expire(&self) -> bool {
        let word = self.word.load(SeqCst);
        if word & LOCKED != 0 {
            return self.call();
        }
        word & BUSY == 0
            && self.word.compare_exchange(word, word | BUSY | LATE, SeqCst, SeqCst).is_ok()
    }

    /// Takes the events since the last call.
    pub(super) fn look(&self) -> Left {
        let word = self.word.fetch_and(BUSY | ENDED | CALLED, SeqCst);
        Left { stirred: word & STIRRED != 0, ended: word & ENDED != 0, late: word & LATE != 0 }
    }

    /// Makes the connection wait, not busy any more. Returns `false` if an event came meanwhile;
    /// then it is still busy.
    pub(super) fn rest(&self, until: Duration) -> bool {
        self.until_ns.store(until.as_nanos() as u64, SeqCst);
        let word = self.word.load(SeqCst);
        word & STIRRED == 0
            && self.word.compare_exchange(word, word & ENDED, SeqCst, SeqCst).is_ok()
    }

    /// Suspends the statement until its waker is called, or until this time. Returns `false` if the
    /// waker was called meanwhile; then the worker continues with the statement.
    pub(super) fn lock(&self, until: Duration) -> bool {
        self.until_ns.store(until.as_nanos() as u64, SeqCst);
        let called = |word: u8| if word & CALLED == 0 { word | LOCKED } else { word & !CALLED };
        let before = self.word.fetch_update(SeqCst, SeqCst, |word| Some(called(word)));
        before.is_ok_and(|word| word & CALLED == 0)
    }

    /// Called when the suspended statement can continue. Returns whether no worker held the
    /// connection; then the caller queues it.
    pub(super) fn call(&self) -> bool {
        let called = |word: u8| if word & LOCKED == 0 { word | CALLED } else { word & !LOCKED };
        let before = self.word.fetch_update(SeqCst, SeqCst, |word| Some(called(word)));
        before.is_ok_and(|word| word & LOCKED != 0)
    }

    /// The deadline of the connection's wait, if it waits.
    pub(super) fn waits_until(&self) -> Option<Duration> {
        let until = Duration::from_nanos(self.until_ns.load(SeqCst));
        let word = self.word.load(SeqCst);
        (word & BUSY == 0 || word & LOCKED != 0).then_some(until)
    }

    pub(super) fn is_late(&self, now: Duration) -> bool {
        self.waits_until().is_some_and(|until| until <= now)
    }
}
