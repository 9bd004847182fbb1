//! Handing out room in a log without a lock.
//!
//! The rooms handed out and not yet used add up to `claimed`, and the largest piece of free log in
//! one place, the rest of the current segment or one spare, is `piece`. `claimed` is at most
//! `piece`, so whatever frames the rooms are put together to, and in whatever order, they fit: a
//! frame that fits in the current segment takes as much from the rest as from the claims, and one
//! that does not goes on to the spare that holds all of them.
//!
//! A claim is added first and compared after; an append stores the smaller piece before it takes
//! its claim out. A claim that comes after the second therefore sees the first, and one that comes
//! before counts what the append uses: either way it is not compared with a piece larger than what
//! is left once all other claims are used.

use spillway_base::sync::atomic::{AtomicU64, Ordering};

/// What is claimed of a log's room, and the piece it is claimed from.
pub(super) struct Ledger {
    claimed: AtomicU64,
    piece: AtomicU64,
}

impl Ledger {
    pub(super) fn new(piece: u64) -> Ledger {
        Ledger { claimed: AtomicU64::new(0), piece: AtomicU64::new(piece) }
    }

    /// Claims room, unless more would be claimed then than the piece has.
    pub(super) fn claim(&self, room: u64) -> bool {
        let claimed = self.claimed.fetch_add(room, Ordering::AcqRel) + room;
        let fits = claimed <= self.piece.load(Ordering::Acquire);
        if !fits {
            self.release(room);
        }
        fits
    }

    /// The piece that one more claim would take.
    pub(super) fn needed(&self, room: u64) -> u64 {
        self.claimed.load(Ordering::Acquire) + room
    }

    /// Takes back a claim that was not used, or one that was, after [`Ledger::set_piece`].
    pub(super) fn release(&self, room: u64) {
        self.claimed.fetch_sub(room, Ordering::AcqRel);
    }

    /// The piece is this large now. One thread at a time says so.
    pub(super) fn set_piece(&self, piece: u64) {
        self.piece.store(piece, Ordering::Release);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use spillway_base::sync::{Arc, thread};

    use super::*;

    /// What was handed out can be used, whatever is used and handed out meanwhile.
    #[test]
    fn loom_what_was_claimed_fits() {
        loom::model(|| {
            let ledger = Arc::new(Ledger::new(10));
            assert!(ledger.claim(4));
            let users: Vec<_> = [4, 5]
                .into_iter()
                .map(|room| {
                    let ledger = ledger.clone();
                    thread::spawn(move || if ledger.claim(room) { room } else { 0 })
                })
                .collect();
            // An append uses the first claim up, and less than it.
            ledger.set_piece(10 - 3);
            ledger.release(4);
            let held: u64 = users.into_iter().map(|user| user.join().unwrap()).sum();
            assert!(held <= 7 && ledger.needed(0) == held);
            assert!(ledger.claim(7 - held) && !ledger.claim(1));
        });
    }
}
