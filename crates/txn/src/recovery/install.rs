//! Installing a window of commits, by all threads.
//!
//! Where each key is written about once, a thread takes the next few commits that nobody has begun,
//! as they stand in the log. That costs nothing but to read them again.
//!
//! Where some keys are written many times, the writes are dealt by their keys: each thread has a
//! range of keys at a time, and puts its writes in order first. So two threads are never at one
//! key, and the versions of a hot key come in the order of their CSNs, each to the front of its
//! list. A thread that came with older versions than another one's would have to go past all of
//! those, each time. And of what one key had in turn only the last is needed, since nobody reads
//! before the opening is over, as long as the last is certain to be there whenever an older one is.
//! So what is past the commits that were durable once is installed in full: an engine may write a
//! part of it to its files, and the rest may be lost yet.
//!
//! To deal the writes of every window takes a quarter longer where no key is hot, though the
//! memtable is then filled in its own order. Shares as large as a window has threads, in the order
//! of the log, make a hot key's installing quadratic.

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{self, AtomicUsize};

use spillway_base::batch::{Op, WriteBatch, ops};
use spillway_base::budget::{Budget, Charge, Use};
use spillway_base::lock::Mutex;
use spillway_base::{Csn, TableId, thread};

use super::order::{Ordered, Window};
use crate::manager::Engines;

/// Ranges of keys for each thread, so that none waits long for another in the end.
const RANGES_PER_THREAD: usize = 4;
/// Keys that are looked at for each range, to make ranges of about the same number of writes.
const SAMPLES_PER_RANGE: usize = 16;
/// Keys that are looked at, at least, to tell whether some are written many times: if so many of
/// them are the same as another one.
const SAMPLES_MIN: usize = 128;
const SAME_SHARE: usize = 64;
/// Commits that a thread takes at a time. A key's versions are out of order by no more than those
/// in hand.
const STRIDE: usize = if cfg!(test) { 1 } else { 128 };
/// Commits from which on it pays to start other threads. Few in tests, which are of few.
const SHARED_FROM: usize = if cfg!(test) { 3 } else { 256 };

/// Why a batch of a window can be decoded.
const CHECKED: &str = "it was checked as it was read";

/// Bytes of memory for each operation of a window while it is installed.
pub(super) const OP_BYTES: usize = 2 * size_of::<Write<'_>>();

/// Where a write belongs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place<'w> {
    table: TableId,
    /// Some bytes of the key, ordered as the keys of a table are, but for those that are equal in
    /// them.
    head: u64,
    key: &'w [u8],
}

/// A put or a delete.
#[derive(Clone, Copy)]
struct Write<'w> {
    head: u64,
    csn: Csn,
    /// Its number in its commit.
    number: u32,
    op: Op<'w>,
}

impl<'w> Write<'w> {
    fn place(&self) -> Place<'w> {
        let (table, key) = row(&self.op);
        Place { table, head: self.head, key }
    }

    fn order(&self) -> (Place<'w>, Csn, u32) {
        (self.place(), self.csn, self.number)
    }
}

/// The table and the key of a write.
fn row<'w>(op: &Op<'w>) -> (TableId, &'w [u8]) {
    match *op {
        Op::Put { table, key, .. } | Op::Delete { table, key } => (table, key),
        // These are installed alone.
        Op::DeleteRange { table, .. } | Op::CreateTable(table) | Op::DropTable(table) => {
            (table, &[])
        }
    }
}

/// What the keys of a table begin with, as far as was looked at, of each table: what follows tells
/// keys apart.
struct Prefixes<'w>(Vec<(TableId, &'w [u8])>);

impl<'w> Prefixes<'w> {
    /// Of rows that are in order.
    fn of(rows: &[(TableId, &'w [u8])]) -> Prefixes<'w> {
        let tables = rows.chunk_by(|a, b| a.0 == b.0);
        let prefixes = tables.map(|rows| {
            let ((table, least), (_, most)) = (rows[0], rows[rows.len() - 1]);
            let shared = least.iter().zip(most).take_while(|(a, b)| a == b).count();
            (table, &least[..shared])
        });
        Prefixes(prefixes.collect())
    }

    /// The head of a key: after the prefix, or at one end where it does not begin with that.
    fn head(&self, (table, key): (TableId, &[u8])) -> u64 {
        let known = self.0.iter().find(|(of, _)| *of == table);
        let prefix = known.map_or(&[][..], |(_, prefix)| prefix);
        match key.strip_prefix(prefix) {
            Some(rest) => first_word(rest),
            None if key < prefix => 0,
            None => u64::MAX,
        }
    }
}

/// The first eight bytes, with zeros where there are fewer.
fn first_word(bytes: &[u8]) -> u64 {
    if let Some(first) = bytes.first_chunk::<8>() {
        return u64::from_be_bytes(*first);
    }
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_be_bytes(word)
}

/// Memory for writes, charged and used again: fresh memory costs a page fault for each of its
/// pages.
pub(super) struct Scratch(Mutex<Free>);

struct Free {
    writes: Vec<Vec<Write<'static>>>,
    charge: Charge,
}

impl Scratch {
    pub(super) fn new(budget: &Budget) -> Scratch {
        let charge = budget.charge(Use::Recovery, 0);
        Scratch(Mutex::new(Free { writes: Vec::new(), charge }))
    }

    fn take<'w>(&self) -> Vec<Write<'w>> {
        self.0.lock().writes.pop().unwrap_or_default()
    }

    fn give_back(&self, mut writes: Vec<Write<'_>>) {
        writes.clear();
        // Nothing is moved: what is collected lies where it lay.
        let writes = writes.into_iter().map(|_| unreachable!("it was cleared")).collect();
        self.0.lock().writes.push(writes);
    }

    /// Charges what is about to be taken for so many operations, if that is more than there is.
    fn expect(&self, ops: usize) {
        let free = &mut *self.0.lock();
        free.charge.resize(free.charge.bytes().max(ops * OP_BYTES));
    }

    /// Charges what there is, all of it given back.
    fn count(&self) {
        let free = &mut *self.0.lock();
        let room: usize = free.writes.iter().map(Vec::capacity).sum();
        free.charge.resize(room * size_of::<Write<'_>>());
    }
}

/// Installs all commits of a window. Those up to `certain` were durable once.
pub(super) fn install(
    engines: &Engines,
    window: &Window,
    scratch: &Scratch,
    certain: Csn,
    threads: usize,
) {
    // A table is there for all that is written to it, and gone for nothing that came before. And
    // when a range is deleted, all is there that it hides (E10).
    let mut begin = 0;
    while begin < window.len() {
        let mut apart = begin..window.len();
        let alone = apart.find(|index| window.get(*index).is_alone);
        let end = alone.unwrap_or(window.len());
        let together = Together { engines, window, scratch, begin, end, certain };
        together.install(threads);
        if let Some(alone) = alone {
            let Ordered { csn, batch, .. } = window.get(alone);
            let batch = WriteBatch::from_bytes(batch.to_vec()).expect(CHECKED);
            engines.iter().for_each(|engine| engine.install(csn, &batch));
        }
        begin = end + 1;
    }
}

/// Commits of a window that write single keys.
struct Together<'w> {
    engines: &'w Engines,
    window: &'w Window,
    scratch: &'w Scratch,
    begin: usize,
    end: usize,
    certain: Csn,
}

impl<'w> Together<'w> {
    fn install(&self, threads: usize) {
        let is_small = self.end - self.begin < SHARED_FROM;
        let threads = if is_small { 1 } else { threads };
        let samples =
            self.samples(SAMPLES_MIN.max(threads * RANGES_PER_THREAD * SAMPLES_PER_RANGE));
        let same = samples.windows(2).filter(|pair| pair[0] == pair[1]).count();
        if same <= samples.len() / SAME_SHARE {
            self.install_as_logged(threads);
        } else {
            self.install_by_keys(&samples, threads);
        }
    }

    fn install_as_logged(&self, threads: usize) {
        let count = (self.end - self.begin).div_ceil(STRIDE);
        in_turn(threads, count, |number| {
            let begin = self.begin + number * STRIDE;
            for engine in self.engines.iter() {
                let commits = begin..(begin + STRIDE).min(self.end);
                let commits = commits.map(|index| self.window.get(index));
                engine.replay(&mut commits.flat_map(|commit| {
                    ops(commit.batch).map(move |op| (commit.csn, op.expect(CHECKED)))
                }));
            }
        });
    }

    fn install_by_keys(&self, samples: &[(TableId, &'w [u8])], threads: usize) {
        self.scratch.expect((self.begin..self.end).map(|index| self.window.ops_of(index)).sum());
        let prefixes = Prefixes::of(samples);
        let ranges = threads * RANGES_PER_THREAD;
        // Each begins a range. There are fewer where one key has many writes.
        let mut bounds: Vec<_> = (1..ranges)
            .filter_map(|range| samples.get(range * samples.len() / ranges))
            .map(|&(table, key)| Place { table, head: prefixes.head((table, key)), key })
            .collect();
        bounds.dedup();
        let share = (self.end - self.begin).div_ceil(ranges);
        let shares: Vec<_> = (self.begin..self.end).step_by(share).collect();
        let dealt: Vec<_> = shares.iter().map(|_| OnceLock::new()).collect();
        in_turn(threads, shares.len(), |number| {
            let mut ranges: Vec<_> = (0..=bounds.len()).map(|_| self.scratch.take()).collect();
            let begin = shares[number];
            self.each(begin..(begin + share).min(self.end), &prefixes, |write| {
                let place = write.place();
                ranges[bounds.partition_point(|bound| *bound <= place)].push(write);
            });
            assert!(dealt[number].set(ranges).is_ok(), "a share is dealt once");
        });
        in_turn(threads, bounds.len() + 1, |range| {
            let parts = dealt.iter().filter_map(OnceLock::get).map(|ranges| &ranges[range]);
            let mut writes = self.scratch.take();
            parts.for_each(|part| writes.extend_from_slice(part));
            self.install_range(&mut writes);
            self.scratch.give_back(writes);
        });
        let ranges = dealt.into_iter().filter_map(OnceLock::into_inner).flatten();
        ranges.for_each(|range| self.scratch.give_back(range));
        self.scratch.count();
    }

    /// Shows the writes of some of the commits.
    fn each(
        &self,
        commits: Range<usize>,
        prefixes: &Prefixes<'_>,
        mut visit: impl FnMut(Write<'w>),
    ) {
        for index in commits {
            let Ordered { csn, batch, .. } = self.window.get(index);
            for (number, op) in ops(batch).enumerate() {
                let op = op.expect(CHECKED);
                visit(Write { head: prefixes.head(row(&op)), csn, number: number as u32, op });
            }
        }
    }

    /// Some rows that are written to, in order.
    fn samples(&self, wanted: usize) -> Vec<(TableId, &'w [u8])> {
        let step = (self.end - self.begin).div_ceil(wanted).max(1);
        let mut samples = Vec::with_capacity(wanted);
        for index in (self.begin..self.end).step_by(step) {
            // Not the first of each: transactions often begin with the same table.
            let nth = index / step % self.window.ops_of(index).max(1);
            let op = ops(self.window.get(index).batch).nth(nth).and_then(Result::ok);
            samples.extend(op.map(|op| row(&op)));
        }
        samples.sort_unstable();
        samples
    }

    /// Installs all writes of a range of keys.
    fn install_range(&self, writes: &mut [Write<'w>]) {
        writes.sort_unstable_by_key(Write::order);
        let needed = || {
            let next = writes.iter().skip(1).map(Some).chain([None]);
            writes.iter().zip(next).filter_map(|(write, next)| {
                let needless = next.is_some_and(|next| {
                    next.place() == write.place()
                        && (next.csn <= self.certain || next.csn == write.csn)
                });
                (!needless).then_some((write.csn, write.op))
            })
        };
        for engine in self.engines.iter() {
            engine.replay(&mut needed());
        }
    }
}

/// Has so many threads do so many pieces of work, each the next one that nobody has begun.
fn in_turn(threads: usize, count: usize, work: impl Fn(usize) + Sync) {
    if threads == 1 {
        return (0..count).for_each(work);
    }
    let next = AtomicUsize::new(0);
    thread::together(threads.min(count), |_| {
        while let number = next.fetch_add(1, atomic::Ordering::Relaxed)
            && number < count
        {
            work(number);
        }
    });
}
