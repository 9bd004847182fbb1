//! Multi-gets: a multi-get reads the blocks of later keys while it looks up earlier keys.
//!
//! A single get reads its blocks one after the other. The table of an extent (block index and
//! filters) gives the block that may have the key, and a get reads an older level only if no newer
//! level has the key. A multi-get does this for several keys in parallel. It reads the first
//! missing block of each key. If a key needs another block, the multi-get reads that block as soon
//! as the first one has arrived, without waiting for other keys. It reads as far ahead of the next
//! get as memory allows, so the device and the processor work at the same time.
//!
//! The results come from ordinary gets. If a block could not be read ahead, or if a small cache has
//! evicted it again, the get that needs the block reads it.
//!
//! # Guarantees
//! - **PREFETCH-1 (the gets' results).** Results and errors of gets are the same as without reading
//!   ahead.
//! - **PREFETCH-2 (ahead).** When a get begins, the reads for the keys after it are in flight or
//!   complete: for up to [`KEYS_AHEAD`] keys, as far as memory allows (`extent/readahead`,
//!   READAHEAD-4). New reads begin once a quarter of this memory and a quarter of the I/O queue are
//!   free, so that each submission has several reads.
//! - **PREFETCH-3 (alone).** If only one of the keys needs a read, the get of this key makes the
//!   read itself.
//!
//! A get needs no device if its row or its blocks are cached, or if its blocks are in the system's
//! page cache. A multi-get does not read ahead for such keys. Reading ahead would gain nothing for
//! them, because nothing waits for a device. It would also cost more than the get's own read, which
//! may copy only a part of a block. To find such keys, the multi-get looks each key up without
//! waiting. This lookup is not counted: it changes neither the table's access pattern nor the hits
//! and misses of the row cache, and offers no row to the row cache.

use std::sync::Arc;

use spillway_base::engine::{Access, GetsAhead};
use spillway_base::{Csn, ErrorKind};
use spillway_storage::Disk;

use crate::extent::{Begun, ExtentHandle, Fetcher, Missing, ReadContext};
use crate::filter;
use crate::table::Table;

/// The most keys that are begun ahead of the next get. Their data must stay in the cache until
/// their gets use it.
const KEYS_AHEAD: usize = 64;
/// After this many keys, the reads are submitted to the device. Each submission costs as much as
/// the lookup of a few keys.
const HANDED_OVER: usize = 16;
/// The most reads for one key: it may need a table and a block of each run that may have it. Most
/// keys are found in the first run.
const READS_MAX: usize = 8;

/// The state of a key.
enum KeyState {
    /// The read with this tag is in flight for it.
    Reading(usize),
    /// There was no room yet to read this missing data.
    HeldUp(Lacks),
    /// Nothing more is read ahead for it. Its get reads the rest.
    Ready,
}

type Lacks = (Arc<ExtentHandle>, Missing);

struct PrefetchedKey {
    state: KeyState,
    /// The number of reads for it so far.
    reads: usize,
}

impl PrefetchedKey {
    fn is_ready(&self) -> bool {
        matches!(self.state, KeyState::Ready)
    }

    fn is_held_up(&self) -> bool {
        matches!(self.state, KeyState::HeldUp(_))
    }
}

/// A read-ahead for the gets of some keys.
pub(super) struct GetsReadahead<'k> {
    context: &'k ReadContext,
    table: Arc<Table>,
    snapshot: Csn,
    keys: &'k [&'k [u8]],
    /// The states of the keys that were begun, which are the first of `keys`.
    begun: Vec<PrefetchedKey>,
    /// The only key so far whose data is missing. Its get reads the data: it may need only a part
    /// of a block, and it comes as soon as a read here would.
    lone: Option<(usize, Lacks)>,
    fetcher: Fetcher<'k>,
    /// The number of keys whose gets would have waited for a device.
    lacked: usize,
    value: Vec<u8>,
}

impl<'k> GetsReadahead<'k> {
    /// A read-ahead that has begun no read yet.
    pub(super) fn new(
        context: &'k ReadContext,
        disk: &'k dyn Disk,
        table: &Arc<Table>,
        keys: &'k [&'k [u8]],
        snapshot: Csn,
    ) -> GetsReadahead<'k> {
        GetsReadahead {
            context,
            table: table.clone(),
            snapshot,
            keys,
            begun: Vec::with_capacity(keys.len()),
            lone: None,
            fetcher: Fetcher::new(context, disk),
            lacked: 0,
            value: Vec::new(),
        }
    }

    /// Reads ahead for all keys. Returns how many gets would have waited.
    pub(super) fn all(mut self) -> usize {
        (0..self.keys.len()).for_each(|at| self.wait_for(at));
        self.lacked
    }

    /// Whether a get would wait for a device.
    fn waits(&mut self, key: &[u8]) -> bool {
        let rows = self.context.rows.as_ref();
        if let Some((rows, tag)) = rows.and_then(|rows| Some((rows, self.table.era(rows)?)))
            && rows.has(tag, filter::hash(key), key, self.snapshot)
        {
            return false;
        }
        // With direct reads, data that is not in memory is on the device. So the caller need only
        // look for missing data.
        let view = self.table.parts().of(key).view_now();
        self.context.reads_directly() || {
            let found = view.get(key, self.snapshot, Access::AtHand, &mut self.value);
            found.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
        }
    }

    /// The data that a key's get misses now.
    fn lacks(&mut self, key: &[u8]) -> Option<Lacks> {
        let view = self.table.parts().of(key).view_now();
        view.missing(key, self.snapshot, &mut self.value)
    }

    /// The data that the get of a new key misses.
    fn lacks_first(&mut self, key: &[u8]) -> Option<Lacks> {
        let lacks = self.waits(key).then(|| self.lacks(key))?;
        if let Some((extent, _)) = &lacks {
            self.lacked += 1;
            self.context.note_ghost_miss_of_row(filter::hash(key), extent);
        }
        lacks
    }

    /// Begins to read missing data of a key.
    fn begin(&mut self, lacks: Lacks) -> KeyState {
        match self.fetcher.begin(&lacks.0, lacks.1) {
            Begun::Read(tag) => KeyState::Reading(tag),
            Begun::Full => KeyState::HeldUp(lacks),
            Begun::Gone => KeyState::Ready,
        }
    }

    /// Begins the next key, where `at` is the key whose get is next. Returns whether there was
    /// room.
    fn begin_next(&mut self, at: usize) -> bool {
        let number = self.begun.len();
        let state = match self.lacks_first(self.keys[number]) {
            None => KeyState::Ready,
            Some(lacks) => match self.lone.take().filter(|(lone, _)| *lone >= at) {
                None if self.fetcher.in_flight() == 0 => {
                    self.lone = Some((number, lacks));
                    KeyState::Ready
                }
                lone => {
                    if let Some((lone, lacks)) = lone {
                        self.begun[lone].state = self.begin(lacks);
                    }
                    self.begin(lacks)
                }
            },
        };
        self.begun.push(PrefetchedKey { state, reads: 1 });
        !self.begun[number].is_held_up()
    }

    /// Begins the keys that were held up, before any other key. Returns whether there was room for
    /// all.
    fn begin_held_up(&mut self, at: usize) -> bool {
        for at in at..self.begun.len() {
            if !self.begun[at].is_held_up() {
                continue;
            }
            let state = std::mem::replace(&mut self.begun[at].state, KeyState::Ready);
            if let KeyState::HeldUp(lacks) = state {
                self.begun[at].state = self.begin(lacks);
            }
            if self.begun[at].is_held_up() {
                return false;
            }
        }
        true
    }

    /// Begins keys, up to [`KEYS_AHEAD`] ahead of the key whose get is next. Begins none if there
    /// is too little room to make a submission worth its cost.
    fn begin_ahead_of(&mut self, at: usize) {
        let upto = self.keys.len().min(at + KEYS_AHEAD);
        let is_busy = self.fetcher.in_flight() > 0;
        if (is_busy && !self.fetcher.has_much_room()) || !self.begin_held_up(at) {
            return;
        }
        let mut kept = 0;
        while self.begun.len() < upto && self.begin_next(at) {
            kept += 1;
            if kept % HANDED_OVER == 0 {
                self.fetcher.submit();
            }
        }
    }

    /// Takes the data of one completed read.
    fn take_one(&mut self, at: usize) {
        let Some((tag, is_kept)) = self.fetcher.wait() else {
            self.begun[at].state = KeyState::Ready;
            return;
        };
        for at in at..self.begun.len() {
            if !matches!(self.begun[at].state, KeyState::Reading(of) if of == tag) {
                continue;
            }
            let goes_on = is_kept && self.begun[at].reads < READS_MAX;
            let lacks = if goes_on { self.lacks(self.keys[at]) } else { None };
            self.begun[at].reads += 1;
            self.begun[at].state = lacks.map_or(KeyState::Ready, |lacks| self.begin(lacks));
        }
    }
}

impl GetsAhead for GetsReadahead<'_> {
    fn wait_for(&mut self, at: usize) {
        if at >= self.keys.len() {
            return;
        }
        self.begin_ahead_of(at);
        while self.begun.get(at).is_some_and(|key| !key.is_ready()) {
            self.take_one(at);
            self.begin_ahead_of(at);
        }
        self.fetcher.submit();
    }
}
