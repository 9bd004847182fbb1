//! The queue of a lane: a lock-free ring of words. Any number of threads add commits, and one
//! thread at a time removes them.
//!
//! A thread reserves a place by adding the size of its entry to `tail`. It then owns the place. It
//! waits until the entry that was in these words before has been removed, copies its commit into
//! them, and stores the entry's first word last. So threads copy their commits in parallel; only
//! the reservations are sequential. The *taker* is the thread that removes entries. It goes from
//! place to place, and waits at a place that is reserved and not yet filled. That wait is short,
//! because the place's owner needs nothing but processor time to fill it.
//!
//! ```text
//! entry   word 0   0: the place is reserved and not filled yet; else kind (2 bits), engines
//!                  (4 bits) and payload bytes
//!                  kind: 1 commit, 2 commit whose batch is too large for the ring and is kept
//!                  elsewhere, 3 place that was given up
//!         word 1   of a commit: its CSN; of a place that was given up: its number of words
//!         word 2   of a commit: the room in the log that was reserved for it
//!         then the payload, little-endian, filled up with zeros
//! ```
//!
//! # Invariants
//!
//! - `head <= tail`. The places between `head` and `tail` take at most as many words as the ring
//!   has, not counting places whose owners still wait for room. A place belongs to its owner until
//!   the owner stores the entry's first word. It then belongs to the taker, until the taker
//!   advances `head` past it.
//! - Outside entries every word is 0, because the taker zeroes the words of the entries that it
//!   removes. So the first word of a later entry reads as "reserved" until its owner stores it.
//!
//! Two designs were rejected. The first is a mutex around a vector. It is simpler, but the commits
//! of a lane would contend for one lock, and each would hold the lock while it copies its batch.
//! The second is a linked queue. It allocates memory for each commit, and another thread has to
//! free the memory.

use spillway_base::sync::atomic::{AtomicU64, Ordering};
use spillway_base::{Csn, EngineSet};

/// Words before an entry's payload.
const HEAD_WORDS: u64 = 3;
const KIND_SHIFT: u32 = 62;
const ENGINES_SHIFT: u32 = 58;

/// The kind of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RingEntryKind {
    /// A commit, its batch in the ring.
    Commit = 1,
    /// A commit whose batch is too large for the ring, and is kept elsewhere.
    Large = 2,
    /// An unused place.
    Skip = 3,
}

/// A place in the queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RingPlace {
    pub(super) at: u64,
    words: u64,
}

/// An entry taken from the queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RingEntry {
    pub(super) kind: RingEntryKind,
    /// The engines whose tables the commit writes to.
    pub(super) engines: EngineSet,
    pub(super) csn: Csn,
    pub(super) room: u64,
    pub(super) bytes: usize,
    /// Where the next entry begins.
    pub(super) next: u64,
}

/// A value on cache lines of its own.
#[derive(Default)]
#[repr(align(128))]
struct Apart(AtomicU64);

pub(super) struct Ring {
    words: Box<[AtomicU64]>,
    tail: Apart,
    head: Apart,
}

impl Ring {
    /// A ring of this many words, a power of two.
    pub(super) fn new(words: usize) -> Ring {
        assert!(words.is_power_of_two(), "a ring's size is a power of two");
        Ring {
            words: (0..words).map(|_| AtomicU64::new(0)).collect(),
            tail: Apart::default(),
            head: Apart::default(),
        }
    }

    /// The largest payload that goes into the ring itself, in bytes.
    pub(super) fn payload_max(&self) -> usize {
        self.words.len() / 4 * 8
    }

    /// Bytes of memory taken.
    pub(super) fn bytes(&self) -> usize {
        self.words.len() * 8
    }

    /// Where the next place will begin.
    pub(super) fn tail(&self) -> u64 {
        self.tail.0.load(Ordering::SeqCst)
    }

    /// Reserves a place for a payload. The caller must fill it, or every later place waits.
    pub(super) fn reserve(&self, payload: usize) -> RingPlace {
        let words = HEAD_WORDS + payload.div_ceil(8) as u64;
        RingPlace { at: self.tail.0.fetch_add(words, Ordering::SeqCst), words }
    }

    /// Whether the ring has room for a place.
    pub(super) fn fits(&self, place: RingPlace) -> bool {
        place.at + place.words <= self.head.0.load(Ordering::Acquire) + self.words.len() as u64
    }

    /// Whether more than half of the ring is taken, up to a place.
    pub(super) fn is_half_full(&self, place: RingPlace) -> bool {
        place.at > self.head.0.load(Ordering::Relaxed) + self.words.len() as u64 / 2
    }

    /// Whether more than three quarters of the ring are taken.
    pub(super) fn is_nearly_full(&self) -> bool {
        let head = self.head.0.load(Ordering::Relaxed);
        self.tail.0.load(Ordering::Relaxed) > head + self.words.len() as u64 / 4 * 3
    }

    fn word(&self, at: u64) -> &AtomicU64 {
        &self.words[at as usize & (self.words.len() - 1)]
    }

    /// Fills a place that fits.
    pub(super) fn put(
        &self,
        place: RingPlace,
        (kind, engines): (RingEntryKind, EngineSet),
        csn: Csn,
        room: u64,
        payload: &[u8],
    ) {
        debug_assert!(self.fits(place));
        self.word(place.at + 1).store(csn.0, Ordering::Relaxed);
        self.word(place.at + 2).store(room, Ordering::Relaxed);
        let at = place.at + HEAD_WORDS;
        let (words, rest) = payload.as_chunks::<8>();
        // Up to the end of the ring, then from its beginning.
        let from = at as usize & (self.words.len() - 1);
        let (before, after) = words.split_at(words.len().min(self.words.len() - from));
        let fill = |places: &[AtomicU64], words: &[[u8; 8]]| {
            for (place, word) in places.iter().zip(words) {
                place.store(u64::from_le_bytes(*word), Ordering::Relaxed);
            }
        };
        fill(&self.words[from..], before);
        fill(&self.words, after);
        if !rest.is_empty() {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            self.word(at + words.len() as u64).store(u64::from_le_bytes(last), Ordering::Relaxed);
        }
        let engines = u64::from(engines.bits()) << ENGINES_SHIFT;
        let state = (kind as u64) << KIND_SHIFT | engines | payload.len() as u64;
        self.word(place.at).store(state, Ordering::Release);
    }

    /// Leaves a place that fits unused.
    pub(super) fn skip(&self, place: RingPlace) {
        self.word(place.at + 1).store(place.words, Ordering::Relaxed);
        let state = (RingEntryKind::Skip as u64) << KIND_SHIFT;
        self.word(place.at).store(state, Ordering::Release);
    }

    /// Takes the entry at `at`: appends the output of `before`, and then the entry's payload, to
    /// `out`. Returns `None` if the entry's owner has not filled it. Only one thread at a time may
    /// call this. It then frees the space with [`Ring::release`].
    pub(super) fn take(
        &self,
        at: u64,
        out: &mut Vec<u8>,
        before: impl FnOnce(&RingEntry, &mut Vec<u8>),
    ) -> Option<RingEntry> {
        let state = self.word(at).load(Ordering::Acquire);
        let bytes = (state & ((1 << ENGINES_SHIFT) - 1)) as usize;
        let engines = EngineSet::from_bits((state >> ENGINES_SHIFT) as u8);
        let kind = match state >> KIND_SHIFT {
            0 => return None,
            1 => RingEntryKind::Commit,
            2 => RingEntryKind::Large,
            _ => RingEntryKind::Skip,
        };
        let second = self.clear(at + 1);
        let words = match kind {
            RingEntryKind::Skip => second,
            RingEntryKind::Commit | RingEntryKind::Large => HEAD_WORDS + bytes.div_ceil(8) as u64,
        };
        let room = self.clear(at + 2);
        let entry = RingEntry { kind, engines, csn: Csn(second), room, bytes, next: at + words };
        if kind != RingEntryKind::Skip {
            before(&entry, out);
            // Whole words first: a copy whose length is known takes one instruction.
            out.reserve(bytes);
            let payload = at + HEAD_WORDS;
            let last = payload + bytes as u64 / 8;
            (payload..last).for_each(|word| out.extend_from_slice(&self.clear(word).to_le_bytes()));
            if last < entry.next {
                out.extend_from_slice(&self.clear(last).to_le_bytes()[..bytes % 8]);
            }
        }
        self.word(at).store(0, Ordering::Relaxed);
        Some(entry)
    }

    fn clear(&self, at: u64) -> u64 {
        let word = self.word(at);
        let value = word.load(Ordering::Relaxed);
        word.store(0, Ordering::Relaxed);
        value
    }

    /// The position up to which entries were taken out and released.
    pub(super) fn head(&self) -> u64 {
        self.head.0.load(Ordering::Acquire)
    }

    /// Frees the space before `head`, from which every entry was taken.
    pub(super) fn release(&self, head: u64) {
        self.head.0.store(head, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use spillway_base::EngineKind;

    use super::*;

    const ENGINES: EngineSet = EngineSet::one(EngineKind::Memory);

    fn take_all(ring: &Ring, mut at: u64) -> (Vec<(RingEntryKind, u64, Vec<u8>)>, u64) {
        let mut taken = Vec::new();
        while at < ring.tail() {
            let mut out = Vec::new();
            let Some(entry) = ring.take(at, &mut out, |_, _| {}) else { break };
            let csn = if entry.kind == RingEntryKind::Skip { 0 } else { entry.csn.0 };
            let engines = match entry.kind {
                RingEntryKind::Commit => ENGINES,
                RingEntryKind::Large => EngineSet::ALL,
                RingEntryKind::Skip => EngineSet::EMPTY,
            };
            assert_eq!(entry.engines, engines);
            taken.push((entry.kind, csn, out));
            at = entry.next;
            ring.release(at);
        }
        (taken, at)
    }

    #[test]
    fn entries_come_out_as_they_were_reserved_round_after_round() {
        let ring = Ring::new(64);
        let mut at = 0;
        for round in 0..1000_u64 {
            let payload: Vec<u8> = (0..round % 40).map(|byte| byte as u8 + 1).collect();
            let first = ring.reserve(payload.len());
            let unused = ring.reserve(round as usize % 17);
            let second = ring.reserve(0);
            assert!([first, unused, second].iter().all(|place| ring.fits(*place)));
            ring.put(second, (RingEntryKind::Large, EngineSet::ALL), Csn(2 * round + 1), 7, b"");
            assert_eq!(take_all(&ring, at), (vec![], at), "the first is not filled");
            ring.put(first, (RingEntryKind::Commit, ENGINES), Csn(2 * round), 9, &payload);
            ring.skip(unused);
            let wanted = vec![
                (RingEntryKind::Commit, 2 * round, payload),
                (RingEntryKind::Skip, 0, vec![]),
                (RingEntryKind::Large, 2 * round + 1, vec![]),
            ];
            let (taken, next) = take_all(&ring, at);
            assert_eq!(taken, wanted);
            at = next;
        }
    }

    #[test]
    fn a_place_fits_once_the_ring_has_come_round_to_it() {
        let ring = Ring::new(16);
        let places: Vec<RingPlace> = (0..3).map(|_| ring.reserve(16)).collect();
        let fit = || places.iter().map(|place| ring.fits(*place)).collect::<Vec<_>>();
        assert_eq!(fit(), [true, true, true]);
        let fourth = ring.reserve(0);
        assert!(!ring.fits(fourth) && ring.is_half_full(fourth));
        ring.put(places[0], (RingEntryKind::Commit, ENGINES), Csn(1), 0, &[1; 16]);
        let entry = ring.take(0, &mut Vec::new(), |_, _| {}).unwrap();
        assert!(!ring.fits(fourth));
        ring.release(entry.next);
        assert!(ring.fits(fourth));
    }

    #[test]
    fn many_threads_fill_what_one_takes() {
        let ring = Ring::new(1 << 8);
        let (threads, each) = (4, 5000_u64);
        let next = std::sync::atomic::AtomicU64::new(0);
        spillway_base::thread::together(threads + 1, |thread| {
            if thread < threads {
                for number in 0..each {
                    let payload = vec![thread as u8 + 1; (number % 50) as usize];
                    let place = ring.reserve(payload.len());
                    while !ring.fits(place) {
                        std::thread::yield_now();
                    }
                    let csn = next.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                    ring.put(
                        place,
                        (RingEntryKind::Commit, ENGINES),
                        Csn(csn),
                        thread as u64,
                        &payload,
                    );
                }
                return;
            }
            let (mut at, mut seen, mut csns) = (0, vec![0; threads], Vec::new());
            while csns.len() < threads * each as usize {
                let mut out = Vec::new();
                let Some(entry) = ring.take(at, &mut out, |_, _| {}) else {
                    std::thread::yield_now();
                    continue;
                };
                at = entry.next;
                ring.release(at);
                let writer = entry.room as usize;
                assert_eq!(out, vec![writer as u8 + 1; (seen[writer] % 50) as usize]);
                seen[writer] += 1;
                csns.push(entry.csn.0);
            }
            csns.sort_unstable();
            assert!(csns.iter().copied().eq(0..threads as u64 * each));
        });
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use spillway_base::sync::{Arc, thread};

    use super::*;

    /// Entries are taken out complete, even if their place is used a second time.
    #[test]
    fn loom_what_is_taken_is_whole() {
        spillway_base::sync::model(3, || {
            let ring = Arc::new(Ring::new(8));
            let writers: Vec<_> = [1_u64, 2]
                .into_iter()
                .map(|number| {
                    let ring = ring.clone();
                    thread::spawn(move || {
                        let place = ring.reserve(8);
                        while !ring.fits(place) {
                            thread::yield_now();
                        }
                        let kind = (RingEntryKind::Commit, EngineSet::EMPTY);
                        ring.put(place, kind, Csn(number), number, &number.to_le_bytes());
                    })
                })
                .collect();
            let (mut at, mut seen) = (0, 0);
            while seen < 3 {
                let mut out = Vec::new();
                match ring.take(at, &mut out, |_, _| {}) {
                    Some(entry) => {
                        assert_eq!(out, entry.csn.0.to_le_bytes());
                        assert_eq!(entry.room, entry.csn.0);
                        seen += entry.csn.0;
                        at = entry.next;
                        ring.release(at);
                    }
                    None => thread::yield_now(),
                }
            }
            for writer in writers {
                writer.join().unwrap();
            }
        });
    }
}
