//! Many gets: what later ones lack is read while earlier ones go on.
//!
//! A get finds its blocks one after the other: an extent's table tells which block may have the key, and an older level is asked when a newer
//! one does not have it. Many gets go that way side by side, each by itself: what a key lacks is read, and when that is there, what it lacks then,
//! without waiting for others. As far ahead of the get that is next as memory allows, so that the device has something to do while keys are
//! looked up, and the processor while it reads. What the gets answer is told by gets, and nothing here: a block that could not be read, or has
//! left a small cache again, is read by who needs it, as if nobody had read it ahead.
//!
//! # Guarantees
//! - **P1 (the gets').** What gets answer, and what they meet, is as if nothing were read ahead, but that they wait less.
//! - **P2 (ahead).** When a get is next, what those behind it lack is under way, as far as [`KEYS_AHEAD`] and memory (`extent/ahead`, F4) go: a quarter of
//!   that may have come back and not be under way again.
//! - **P3 (one by itself).** What only one of them lacks is left to its get.
//!
//! What the system has in its own memory is no reason to read anything beside others, and a get may do with a part of a block there. So keys whose
//! gets need no device are left out. The look that finds that out is not a get: it counts nowhere, and offers no row to the cached ones.

use std::sync::Arc;

use spillway_base::engine::{Access, GetsAhead};
use spillway_base::{Csn, ErrorKind};
use spillway_storage::Disk;

use crate::extent::{Begun, ExtentHandle, Fetcher, ReadContext};
use crate::filter;
use crate::subtable::Missing;
use crate::table::Table;

/// Keys that are begun before the get that is next is done: what they need is to stay in a cache until it is used.
const KEYS_AHEAD: usize = 64;
/// Keys after which what they lack is handed over, so that the device begins: each time costs as much as looking at a few keys.
const HANDED_OVER: usize = 16;
/// A key lacks a table and a block of each run that seems to have it; most are found in the first.
const READS_MAX: usize = 8;

/// Where a key is on its way.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// What the read by this tag brings comes next.
    Reading(usize),
    /// Its get is to look by itself.
    Ready,
}

type Lacks = (Arc<ExtentHandle>, Missing);

struct Key {
    state: State,
    /// Reads for it so far.
    reads: usize,
}

/// What gets of some keys lack, read ahead of them.
pub(super) struct Ahead<'k> {
    context: &'k ReadContext,
    table: Arc<Table>,
    snapshot: Csn,
    keys: &'k [&'k [u8]],
    /// Those that were begun, the first of `keys`.
    begun: Vec<Key>,
    /// What the next one lacks, where there was no room to read it.
    held_up: Option<Lacks>,
    /// The only one that lacks something, as far as was seen: it is read no sooner here than by its get, which may do with a part of a block.
    lone: Option<(usize, Lacks)>,
    fetcher: Fetcher<'k>,
    /// Keys whose gets would have waited.
    lacked: usize,
    value: Vec<u8>,
}

impl<'k> Ahead<'k> {
    /// Begins nothing yet. `None` where there is no queue to read by, or no other key to read beside.
    pub(super) fn new(
        context: &'k ReadContext,
        disk: &dyn Disk,
        table: &Arc<Table>,
        keys: &'k [&'k [u8]],
        snapshot: Csn,
    ) -> Option<Ahead<'k>> {
        let fetcher = if keys.len() > 1 { Fetcher::new(context, disk)? } else { return None };
        let (table, begun) = (table.clone(), Vec::with_capacity(keys.len()));
        Some(Ahead {
            context,
            table,
            snapshot,
            keys,
            begun,
            held_up: None,
            lone: None,
            fetcher,
            lacked: 0,
            value: Vec::new(),
        })
    }

    /// Goes through all keys, and answers how many gets would have waited.
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
        // Past the page cache, what is not in memory is on the device: what is missing tells.
        let view = self.table.parts().of(key).view_now();
        self.context.reads_directly() || {
            let found = view.find(key, self.snapshot, Access::AtHand, &mut self.value);
            found.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
        }
    }

    /// What a key lacks now.
    fn lacks(&mut self, key: &[u8]) -> Option<Lacks> {
        let view = self.table.parts().of(key).view_now();
        view.missing(key, self.snapshot, &mut self.value)
    }

    /// What a key lacks that was not begun before.
    fn lacks_first(&mut self, key: &[u8]) -> Option<Lacks> {
        let lacks = self.waits(key).then(|| self.lacks(key))?;
        if let Some((extent, _)) = &lacks {
            self.lacked += 1;
            self.context.regret_row_of(filter::hash(key), extent);
        }
        lacks
    }

    /// Begins the next key, unless there is no room to read what it lacks. `at` is the one whose get is next.
    fn begin_next(&mut self, at: usize) -> bool {
        let number = self.begun.len();
        let held_up = self.held_up.take();
        let state = match held_up.or_else(|| self.lacks_first(self.keys[number])) {
            None => State::Ready,
            Some(lacks) => match self.lone.take().filter(|(lone, _)| *lone >= at) {
                None if self.fetcher.under_way() == 0 => {
                    self.lone = Some((number, lacks));
                    State::Ready
                }
                lone => {
                    if let Some((lone, (extent, missing))) = lone
                        && let Begun::Read(tag) = self.fetcher.begin(&extent, missing)
                    {
                        self.begun[lone].state = State::Reading(tag);
                    }
                    match self.fetcher.begin(&lacks.0, lacks.1) {
                        Begun::Read(tag) => State::Reading(tag),
                        Begun::Gone => State::Ready,
                        Begun::Full => {
                            self.held_up = Some(lacks);
                            return false;
                        }
                    }
                }
            },
        };
        self.begun.push(Key { state, reads: 1 });
        true
    }

    /// Begins keys up to so far ahead of the one whose get is next, where that is worth handing over.
    fn begin_ahead_of(&mut self, at: usize) {
        let upto = self.keys.len().min(at + KEYS_AHEAD);
        let is_busy = self.fetcher.under_way() > 0;
        if self.begun.len() >= upto || (is_busy && !self.fetcher.has_much_room()) {
            return;
        }
        let mut kept = 0;
        while self.begun.len() < upto && self.begin_next(at) {
            kept += 1;
            if kept % HANDED_OVER == 0 {
                self.fetcher.submit();
            }
        }
        self.fetcher.submit();
    }

    /// Takes what one read has brought.
    fn take_one(&mut self, at: usize) {
        let Some((tag, is_kept)) = self.fetcher.wait() else {
            self.begun[at].state = State::Ready;
            return;
        };
        for at in at..self.begun.len() {
            if self.begun[at].state != State::Reading(tag) {
                continue;
            }
            self.begun[at].state = State::Ready;
            let goes_on = is_kept && self.begun[at].reads < READS_MAX;
            let lacks = if goes_on { self.lacks(self.keys[at]) } else { None };
            if let Some((extent, missing)) = lacks
                && let Begun::Read(tag) = self.fetcher.begin(&extent, missing)
            {
                self.begun[at].state = State::Reading(tag);
                self.begun[at].reads += 1;
            }
        }
    }
}

impl GetsAhead for Ahead<'_> {
    fn wait_for(&mut self, at: usize) {
        if at >= self.keys.len() {
            return;
        }
        self.begin_ahead_of(at);
        while self.begun.get(at).is_some_and(|key| key.state != State::Ready) {
            self.take_one(at);
            self.begin_ahead_of(at);
        }
    }
}
