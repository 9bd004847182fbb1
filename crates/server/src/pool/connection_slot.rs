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

/// A worker holds it, or it is queued.
const BUSY: u8 = 1;
/// Epoll has reported it since the last check.
const STIRRED: u8 = 2;
/// Its client sends no more. Epoll reports that only once, so this bit stays set.
const ENDED: u8 = 4;
/// The timer has reported it since the last check.
const LATE: u8 = 8;
/// Its statement is suspended, and no worker holds it.
const LOCKED: u8 = 16;
/// Its waker was called: its statement can continue.
const CALLED: u8 = 32;

/// The state of a connection. The place among the admitted is dropped last.
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
    /// Its client, if there is one, and whether it was greeted only now.
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

    /// Its client, if it was greeted and is connected.
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

/// The bits of a connection's word at a check.
#[derive(Clone, Copy)]
pub(super) struct Left {
    pub(super) stirred: bool,
    pub(super) ended: bool,
    pub(super) late: bool,
}

pub(super) struct ConnectionSlot {
    pub(super) id: u64,
    word: AtomicU8,
    /// The deadline of its wait, in nanoseconds of the clock, while it is not busy.
    until_ns: AtomicU64,
    /// Counts toward a dedicated worker.
    pub(super) calm: Calm,
    /// Locked by the thread that holds the connection; no other thread tries.
    pub(super) state: Mutex<ConnectionState>,
}

impl ConnectionSlot {
    /// A connection that is busy.
    pub(super) fn new(id: u64, state: ConnectionState) -> ConnectionSlot {
        ConnectionSlot {
            id,
            word: AtomicU8::new(BUSY),
            until_ns: AtomicU64::new(0),
            calm: Calm::default(),
            state: Mutex::new(state),
        }
    }

    /// Called when epoll reports it. Returns whether that made it busy: then the caller queues it.
    pub(super) fn stir(&self, ended: bool) -> bool {
        let bits = BUSY | STIRRED | if ended { ENDED } else { 0 };
        self.word.fetch_or(bits, SeqCst) & BUSY == 0
    }

    /// Called when its deadline has passed. Returns whether no thread held it: then the caller
    /// queues it.
    pub(super) fn expire(&self) -> bool {
        let word = self.word.load(SeqCst);
        if word & LOCKED != 0 {
            return self.call();
        }
        word & BUSY == 0
            && self.word.compare_exchange(word, word | BUSY | LATE, SeqCst, SeqCst).is_ok()
    }

    /// The events since the last check.
    pub(super) fn look(&self) -> Left {
        let word = self.word.fetch_and(BUSY | ENDED | CALLED, SeqCst);
        Left { stirred: word & STIRRED != 0, ended: word & ENDED != 0, late: word & LATE != 0 }
    }

    /// Makes it not busy and waiting. Returns `false` if an event came meanwhile: then it is still
    /// busy.
    pub(super) fn rest(&self, until: Duration) -> bool {
        self.until_ns.store(until.as_nanos() as u64, SeqCst);
        let word = self.word.load(SeqCst);
        word & STIRRED == 0
            && self.word.compare_exchange(word, word & ENDED, SeqCst, SeqCst).is_ok()
    }

    /// Suspends its statement until its waker is called, or until this time. Returns `false` if it
    /// was called meanwhile: then the worker continues.
    pub(super) fn lock(&self, until: Duration) -> bool {
        self.until_ns.store(until.as_nanos() as u64, SeqCst);
        let called = |word: u8| if word & CALLED == 0 { word | LOCKED } else { word & !CALLED };
        let before = self.word.fetch_update(SeqCst, SeqCst, |word| Some(called(word)));
        before.is_ok_and(|word| word & CALLED == 0)
    }

    /// Called when its statement can continue. Returns whether no worker held it: then the caller
    /// queues it.
    pub(super) fn call(&self) -> bool {
        let called = |word: u8| if word & LOCKED == 0 { word | CALLED } else { word & !LOCKED };
        let before = self.word.fetch_update(SeqCst, SeqCst, |word| Some(called(word)));
        before.is_ok_and(|word| word & LOCKED != 0)
    }

    /// The deadline of its wait, if it waits.
    pub(super) fn waits_until(&self) -> Option<Duration> {
        let until = Duration::from_nanos(self.until_ns.load(SeqCst));
        let word = self.word.load(SeqCst);
        (word & BUSY == 0 || word & LOCKED != 0).then_some(until)
    }

    pub(super) fn is_late(&self, now: Duration) -> bool {
        self.waits_until().is_some_and(|until| until <= now)
    }
}
