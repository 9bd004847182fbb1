//! Multi-gets: the engine reads evicted rows of later keys while it looks up earlier keys.
//!
//! The entry of an evicted row has the place of the row's record, so a key needs at most one read.
//! During the get of one key, the engine reads the records of the following keys in parallel. To
//! find the places of these records, it looks the keys up in the index before their gets come. The
//! engine holds a record until the get of its key takes it ([`crate::log_reads`]). The results come
//! from ordinary gets: if a record could not be read, or is no longer held, the get of its key
//! reads it.
//!
//! # Guarantees
//! - **AHEAD-1 (the gets' results).** Gets return the same results and errors as without reading
//!   ahead.
//! - **AHEAD-2 (ahead).** The engine keeps a window of keys: the next key to get, and the keys
//!   after it that need no read, or whose reads are in flight or complete. The window has at most
//!   [`KEYS_AHEAD`] keys, and the records to read for them take at most half of the space for held
//!   records (LOG-ROW-4). A single larger record is allowed, too. Before a get, the engine refills
//!   the window if at most three quarters of the keys and of this space are in use.
//! - **AHEAD-3 (alone).** If a refill finds only one key that needs a read, and no read is in
//!   flight, the get of this key does the read.
//!
//! If a record is in the operating system's page cache, the engine holds it at once, and its key
//! does not count as one that needs a read. A scan reads evicted rows ahead in the same way
//! (`cursor`).

use std::sync::Arc;

use rustc_hash::FxHashMap;
use spillway_base::Csn;
use spillway_base::budget::Charge;
use spillway_base::engine::GetsAhead;
use spillway_storage::async_reads::AsyncRead;
use spillway_storage::{ALIGN, AlignedBuffer, Cache, Disk, IdleQueues, IoQueue, QueueSettings};

use super::read::RowReader;
use crate::log_reads::RowRead;
use crate::table::Table;

/// The number of keys for which the engine reads ahead of a get.
pub(super) const KEYS_AHEAD: usize = 64;
/// The most reads in flight.
const DEPTH: usize = KEYS_AHEAD;
/// One multi-get may use the memory for held records divided by this.
const HELD_PART: usize = 2;
/// The most idle I/O queues that the engine keeps.
const IDLE_MAX: usize = 8;
/// Buffers that a multi-get keeps for its next reads, and the most bytes of one.
const SPARE_MAX: usize = 16;
const SPARE_BYTES: usize = 64 << 10;
/// Widening a read to whole pages of its file adds at most this.
const WIDENED_BYTES: usize = 2 * ALIGN;

/// The parts of the engine that reads ahead need.
#[derive(Clone, Copy)]
pub(super) struct ReadAhead<'e> {
    pub(super) reader: RowReader<'e>,
    pub(super) queues: &'e IdleQueues,
    pub(super) disk: &'e dyn Disk,
}

impl<'e> ReadAhead<'e> {
    /// Reads for gets of some keys. Begins none yet.
    pub(super) fn of<'k>(
        self,
        table: Arc<Table>,
        keys: &'k [&'k [u8]],
        snapshot: Csn,
    ) -> Ahead<'e, 'k> {
        Ahead {
            engine: self,
            table,
            snapshot,
            keys,
            begun: Vec::with_capacity(keys.len()),
            queue: None,
            reads: FxHashMap::default(),
            spare: Vec::new(),
            lacked: 0,
            of_scan: false,
        }
    }
}

/// Reads ahead for gets of some keys. Dropping it waits for the reads in flight.
pub(super) struct Ahead<'e, 'k> {
    engine: ReadAhead<'e>,
    table: Arc<Table>,
    snapshot: Csn,
    keys: &'k [&'k [u8]],
    /// For each key that was looked up so far, in the order of `keys`, the bytes to read; 0 if it
    /// needs no read.
    begun: Vec<usize>,
    /// `None` before the first read.
    queue: Option<Box<dyn IoQueue>>,
    /// Reads in flight by the positions of their keys, with the charges for their buffers.
    reads: FxHashMap<usize, (RowRead, Charge)>,
    spare: Vec<AlignedBuffer>,
    /// The number of keys whose gets would have waited.
    lacked: usize,
    of_scan: bool,
}

impl Ahead<'_, '_> {
    /// Counts the reads as reads of a scan.
    pub(super) fn of_scan(mut self) -> Self {
        self.of_scan = true;
        self
    }

    /// Reads for the keys, as far as their records fit into memory together. Returns how many gets
    /// would have waited.
    pub(super) fn all(mut self) -> usize {
        for at in 0..self.keys.len() {
            self.wait_for(at);
            if self.begun.iter().sum::<usize>() >= self.engine.reader.log.held_max() {
                break;
            }
        }
        self.lacked
    }

    /// The read that the get of a key needs, unless its record is held or being read.
    fn lacks(&self, key: &[u8], lacking: &[(usize, RowRead)]) -> Option<RowRead> {
        let read = self.engine.reader.lacks(&self.table, key, self.snapshot)?;
        let mut others = self.reads.values().map(|(other, _)| other);
        let is_read =
            others.any(|other| other.is(&read)) || lacking.iter().any(|(_, other)| other.is(&read));
        (!is_read).then_some(read)
    }

    /// Begins reads for the keys from `at` on, as far as there is room.
    fn begin_ahead_of(&mut self, at: usize) {
        let upto = self.keys.len().min(at + KEYS_AHEAD);
        let room = self.engine.reader.log.held_max() / HELD_PART;
        // Keys that the caller has skipped need no reads.
        self.begun.resize(self.begun.len().max(at), 0);
        let mut bytes: usize = self.begun[at..].iter().sum();
        let ahead = self.begun.len() - at;
        if ahead > KEYS_AHEAD * 3 / 4 || bytes > room * 3 / 4 {
            return;
        }
        let mut lacking = Vec::new();
        while self.begun.len() < upto && (bytes == 0 || bytes < room) {
            let number = self.begun.len();
            let lacks = self.lacks(self.keys[number], &lacking);
            let more = lacks.as_ref().map_or(0, RowRead::bytes);
            if bytes > 0 && bytes + more > room {
                break;
            }
            self.begun.push(more);
            bytes += more;
            let waits = lacks.filter(|read| !self.engine.reader.log.hold_at_hand(read));
            lacking.extend(waits.map(|read| (number, read)));
        }
        self.lacked += lacking.len();
        if lacking.len() > 1 || !self.reads.is_empty() {
            lacking.into_iter().for_each(|(number, read)| self.begin(number, read));
        }
        if let Some(queue) = &mut self.queue {
            queue.submit();
        }
    }

    fn begin(&mut self, number: usize, read: RowRead) {
        let engine = self.engine;
        let open = || {
            let settings = QueueSettings { depth: DEPTH, cache: Cache::Through };
            let mut queue = engine.disk.queue(settings).ok()?;
            queue.gather(true);
            Some(queue)
        };
        if self.queue.is_none() {
            self.queue = engine.queues.take(open);
        }
        while self.queue.as_ref().is_some_and(|queue| queue.is_full()) && self.take_one() {}
        let Some(queue) = &mut self.queue else { return };
        let Some((file, offset, len)) = read.place() else { return };
        let buffer = self.spare.pop();
        let buffer = buffer.unwrap_or_else(|| AlignedBuffer::with_capacity(len + WIDENED_BYTES));
        let charge = engine.reader.log.charge(len + WIDENED_BYTES);
        queue.read(number as u64, &file, offset, len, buffer);
        self.reads.insert(number, (read, charge));
    }

    /// Waits for the first read to complete, and holds its record. `false` if no reads are in
    /// flight.
    fn take_one(&mut self) -> bool {
        let Some(done) = self.queue.as_mut().and_then(|queue| queue.wait()) else { return false };
        let Some((read, _charge)) = self.reads.remove(&(done.tag as usize)) else { return true };
        // After a failure, the key's get reads the record itself and reports the error.
        if done.outcome.and_then(|()| read.take(&done.buffer)).is_ok() {
            self.engine.reader.log.note_read_at_once(self.of_scan);
        }
        if self.spare.len() < SPARE_MAX && done.buffer.capacity() <= SPARE_BYTES {
            self.spare.push(done.buffer);
        }
        true
    }
}

impl GetsAhead for Ahead<'_, '_> {
    fn wait_for(&mut self, at: usize) {
        if at >= self.keys.len() {
            return;
        }
        self.begin_ahead_of(at);
        while self.reads.contains_key(&at) && self.take_one() {}
    }
}

impl Drop for Ahead<'_, '_> {
    fn drop(&mut self) {
        while self.take_one() {}
        if let Some(queue) = self.queue.take() {
            self.engine.queues.keep(queue, IDLE_MAX);
        }
    }
}
