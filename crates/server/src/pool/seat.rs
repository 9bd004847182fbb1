//! A client's seat: its connection, and the word that says whose turn it is to touch it.

use std::net::IpAddr;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicU8, AtomicU64};
use std::time::Duration;

use parking_lot::Mutex;

use super::stay::Calm;
use crate::admission::Slot;
use crate::connection::Client;
use crate::transport::Socket;

/// A worker has it, or will.
const BUSY: u8 = 1;
/// Epoll told of it since it was last looked at.
const STIRRED: u8 = 2;
/// Its client sends nothing any more. Epoll says so once, so this stays.
const ENDED: u8 = 4;
/// The timer told of it since it was last looked at.
const LATE: u8 = 8;
/// Its statement waits for a row, and no worker has it.
const LOCKED: u8 = 16;
/// It was called: its statement need not wait any more.
const CALLED: u8 = 32;

/// Who sits there. The slot is dropped last.
pub(super) enum Sitting {
    /// One who was not greeted yet.
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

impl Sitting {
    /// Its client, if there is one, and whether that was greeted only now.
    pub(super) fn client(
        &mut self,
        greet: impl FnOnce(Socket, Option<IpAddr>, &Slot) -> Client<Socket>,
    ) -> Option<(&mut Client<Socket>, bool)> {
        let came = matches!(self, Sitting::Came { .. });
        *self = match std::mem::replace(self, Sitting::Gone) {
            Sitting::Came { socket, address, slot } => {
                Sitting::Served { client: Box::new(greet(socket, address, &slot)), _slot: slot }
            }
            other => other,
        };
        self.served_mut().map(|client| (client, came))
    }

    /// Its client, if it was greeted and is there.
    pub(super) fn served(&self) -> Option<&Client<Socket>> {
        match self {
            Sitting::Served { client, .. } => Some(client),
            Sitting::Came { .. } | Sitting::Gone => None,
        }
    }

    pub(super) fn served_mut(&mut self) -> Option<&mut Client<Socket>> {
        match self {
            Sitting::Served { client, .. } => Some(client),
            Sitting::Came { .. } | Sitting::Gone => None,
        }
    }
}

/// What a seat's word said when it was looked at.
#[derive(Clone, Copy)]
pub(super) struct Left {
    pub(super) stirred: bool,
    pub(super) ended: bool,
    pub(super) late: bool,
}

pub(super) struct Seat {
    pub(super) id: u64,
    word: AtomicU8,
    /// Until when it waits, in nanoseconds of the clock; while it is not busy.
    until_ns: AtomicU64,
    /// Whether a worker is to stay with it.
    pub(super) calm: Calm,
    /// Locked by whoever has it; nobody else tries.
    pub(super) sitting: Mutex<Sitting>,
}

impl Seat {
    /// A seat that is busy.
    pub(super) fn new(id: u64, sitting: Sitting) -> Seat {
        Seat {
            id,
            word: AtomicU8::new(BUSY),
            until_ns: AtomicU64::new(0),
            calm: Calm::default(),
            sitting: Mutex::new(sitting),
        }
    }

    /// Epoll tells of it. Whether that made it busy: then the caller queues it.
    pub(super) fn stir(&self, ended: bool) -> bool {
        let bits = BUSY | STIRRED | if ended { ENDED } else { 0 };
        self.word.fetch_or(bits, SeqCst) & BUSY == 0
    }

    /// Its time has come. Whether nobody had it: then the caller queues it.
    pub(super) fn expire(&self) -> bool {
        let word = self.word.load(SeqCst);
        if word & LOCKED != 0 {
            return self.call();
        }
        word & BUSY == 0
            && self.word.compare_exchange(word, word | BUSY | LATE, SeqCst, SeqCst).is_ok()
    }

    /// What was told since the last look.
    pub(super) fn look(&self) -> Left {
        let word = self.word.fetch_and(BUSY | ENDED | CALLED, SeqCst);
        Left { stirred: word & STIRRED != 0, ended: word & ENDED != 0, late: word & LATE != 0 }
    }

    /// Is busy no more, and waits. `false` where something was told meanwhile: then it is as busy
    /// as before.
    pub(super) fn rest(&self, until: Duration) -> bool {
        self.until_ns.store(until.as_nanos() as u64, SeqCst);
        let word = self.word.load(SeqCst);
        word & STIRRED == 0
            && self.word.compare_exchange(word, word & ENDED, SeqCst, SeqCst).is_ok()
    }

    /// Its statement is left until it is called, or this time. `false` where it was called
    /// meanwhile: then whoever has it goes on.
    pub(super) fn lock(&self, until: Duration) -> bool {
        self.until_ns.store(until.as_nanos() as u64, SeqCst);
        let called = |word: u8| if word & CALLED == 0 { word | LOCKED } else { word & !CALLED };
        let before = self.word.fetch_update(SeqCst, SeqCst, |word| Some(called(word)));
        before.is_ok_and(|word| word & CALLED == 0)
    }

    /// Its statement need not wait any more. Whether nobody had it: then the caller queues it.
    pub(super) fn call(&self) -> bool {
        let called = |word: u8| if word & LOCKED == 0 { word | CALLED } else { word & !LOCKED };
        let before = self.word.fetch_update(SeqCst, SeqCst, |word| Some(called(word)));
        before.is_ok_and(|word| word & LOCKED != 0)
    }

    /// Until when it waits, if it does.
    pub(super) fn waits_until(&self) -> Option<Duration> {
        let until = Duration::from_nanos(self.until_ns.load(SeqCst));
        let word = self.word.load(SeqCst);
        (word & BUSY == 0 || word & LOCKED != 0).then_some(until)
    }

    pub(super) fn is_late(&self, now: Duration) -> bool {
        self.waits_until().is_some_and(|until| until <= now)
    }
}
