//! Reserves room in a log without a lock.
//!
//! `claimed` is the total room that is reserved and not yet used. `piece` is the largest contiguous
//! free part of the log: the free end of the current segment, or one spare segment. Reservations
//! keep `claimed` at most `piece`. So all reserved rooms fit, however appends combine them into
//! frames and in whatever order:
//!
//! - A frame that fits into the current segment reduces the segment's free end by the frame's size,
//!   and `claimed` by at least as much.
//! - If a frame does not fit there, `piece` is the size of a spare segment. This segment has room
//!   for all claims, and the frame begins it.
//!
//! To reserve, a thread adds its claim to `claimed` and then compares `claimed` with `piece`. If
//! `claimed` is larger, the thread removes its claim and the reservation fails. An append first
//! stores the new, smaller `piece`, and then removes its claim from `claimed`. So a reservation
//! that does not see the append's claim any more sees the smaller `piece`. A reservation that still
//! sees the claim gets a total that covers the bytes that the append uses. In both cases, a
//! successful reservation leaves enough room for all other claims.

use spillway_base::sync::atomic::{AtomicU64, Ordering};

/// The claimed room of a log, and the piece from which it is claimed.
pub(super) struct Ledger {
    claimed: AtomicU64,
    piece: AtomicU64,
}

impl Ledger {
    pub(super) fn new(piece: u64) -> Ledger {
        Ledger { claimed: AtomicU64::new(0), piece: AtomicU64::new(piece) }
    }

    /// Claims room, unless the piece would then be exceeded.
    pub(super) fn claim(&self, room: u64) -> bool {
        let claimed = self.claimed.fetch_add(room, Ordering::AcqRel) + room;
        let fits = claimed <= self.piece.load(Ordering::Acquire);
        if !fits {
            self.release(room);
        }
        fits
    }

    /// The piece that one more claim would need.
    pub(super) fn needed(&self, room: u64) -> u64 {
        self.claimed.load(Ordering::Acquire) + room
    }

    /// Removes a claim that was not used, or one that was, after [`Ledger::set_piece`].
    pub(super) fn release(&self, room: u64) {
        self.claimed.fetch_sub(room, Ordering::AcqRel);
    }

    /// Sets the size of the piece. One thread at a time calls it.
    pub(super) fn set_piece(&self, piece: u64) {
        self.piece.store(piece, Ordering::Release);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use spillway_base::sync::{Arc, thread};

    use super::*;

    /// Claimed room can be used, regardless of concurrent claims and uses.
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
            // An append uses the first claim, and needs less than it.
            ledger.set_piece(10 - 3);
            ledger.release(4);
            let held: u64 = users.into_iter().map(|user| user.join().unwrap()).sum();
            assert!(held <= 7 && ledger.needed(0) == held);
            assert!(ledger.claim(7 - held) && !ledger.claim(1));
        });
    }
}
