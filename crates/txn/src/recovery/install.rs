//! Installs a window of commits with all threads.
//!
//! If most keys of the window are written once, the commits are installed in the order of the log.
//! A thread repeatedly takes the next few commits that no thread has taken. This is the cheapest
//! way: nothing is sorted.
//!
//! If some keys are written many times, the writes are partitioned into ranges of keys. A thread
//! takes one range at a time, and sorts the range's writes by key and CSN. So no two threads
//! install the same key, and the versions of a key arrive in CSN order, each at the front of the
//! key's list of versions. If the threads installed these writes in the order of the log, the
//! versions of such a key would arrive out of order, because several threads install them. A thread
//! with an older version would have to walk past all newer versions in the list.
//!
//! With partitioned writes, recovery leaves a version out if a later version of its key is in a
//! commit that is known to have been durable. No transaction reads before the opening ends, so the
//! older version would be needed only if another crash lost the later one. A commit that was
//! durable is not lost. If a later version is in a commit that is not known to have been durable,
//! recovery installs both versions: a crash may still lose the later one, and the engine's files
//! must then have the older one.
//!
//! Two designs were rejected. In the first, every window is partitioned. If no key is written
//! often, the install of a window takes a quarter longer than in the order of the log, although the
//! threads fill memtables in key order. In the second, a window in log order is divided into one
//! large share for each thread. The versions of a key then arrive far out of order, and the install
//! of a key that is written often takes quadratic time.

use std::sync::OnceLock;
use std::sync::atomic::{self, AtomicUsize};

use spillway_base::batch::{Op, WriteBatch, ops};
use spillway_base::budget::{Budget, Charge, Use};
use spillway_base::codec::key_head;
use spillway_base::engine::Replayed;
use spillway_base::lock::Mutex;
use spillway_base::{Csn, TableId, thread};

use super::order::{CommitRun, Window};
use super::source::{CHECKED, Logged, Piece};
use crate::engines::Engines;

/// The ranges of keys for each thread. With several small ranges, no thread waits long for the last
/// one to finish.
const RANGES_PER_THREAD: usize = 4;
/// The keys that are sampled for each range, to make ranges of about the same number of writes.
const SAMPLES_PER_RANGE: usize = 16;
/// The least number of sampled keys. Keys are written many times if more than one sample in
/// `SAME_SHARE` equals another one.
const SAMPLES_MIN: usize = 128;
const SAME_SHARE: usize = 64;
/// The commits that a thread takes at a time. So the versions of a key are out of order by at most
/// this number for each thread.
const STRIDE: usize = if cfg!(test) { 1 } else { 128 };
/// The number of commits from which other threads are worth starting. It is small in tests, which
/// have few commits.
const SHARED_FROM: usize = if cfg!(test) { 3 } else { 256 };

/// Bytes of memory for each operation of a window while it is installed.
pub(super) const OP_BYTES: usize = 2 * size_of::<Write<'_>>();

/// The order of a write by table and key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct WriteKey<'w> {
    table: TableId,
    /// Some bytes of the key as a number ([`Prefixes::head`]). In a table, a smaller head means a
    /// smaller key; different keys may have equal heads.
    head: u64,
    key: &'w [u8],
}

/// A put or a delete.
#[derive(Clone, Copy)]
struct Write<'w> {
    head: u64,
    csn: Csn,
    op: Op<'w>,
    piece: &'w Piece,
    /// The offset of its record in the memory of its piece. Of two writes of a commit, the later
    /// one has the larger offset.
    at: u32,
    /// Bytes of its record.
    bytes: u32,
}

impl<'w> Write<'w> {
    fn place(&self) -> WriteKey<'w> {
        let (table, key) = row(&self.op);
        WriteKey { table, head: self.head, key }
    }

    fn order(&self) -> (WriteKey<'w>, Csn, u32) {
        (self.place(), self.csn, self.at)
    }

    fn replayed(&self) -> Replayed<'w> {
        let place = self.piece.begin.plus(self.at as usize);
        Replayed { csn: self.csn, op: self.op, place, bytes: self.bytes }
    }
}

/// The table and the key of a write.
fn row<'w>(op: &Op<'w>) -> (TableId, &'w [u8]) {
    match *op {
        Op::Put { table, key, .. } | Op::Delete { table, key } => (table, key),
        // Commits with these operations are installed alone.
        Op::DeleteRange { table, .. } | Op::CreateTable(table) | Op::DropTable(table) => {
            (table, &[])
        }
    }
}

/// For each table, the common prefix of the sampled keys. The bytes after it distinguish keys.
struct Prefixes<'w>(Vec<(TableId, &'w [u8])>);

impl<'w> Prefixes<'w> {
    /// The prefixes of sampled rows, which are in order.
    fn of(rows: &[(TableId, &'w [u8])]) -> Prefixes<'w> {
        let tables = rows.chunk_by(|a, b| a.0 == b.0);
        let prefixes = tables.map(|rows| {
            let ((table, least), (_, most)) = (rows[0], rows[rows.len() - 1]);
            let shared = least.iter().zip(most).take_while(|(a, b)| a == b).count();
            (table, &least[..shared])
        });
        Prefixes(prefixes.collect())
    }

    /// The head of a key: the bytes after the prefix, or the least or largest value if the key does
    /// not begin with the prefix.
    fn head(&self, (table, key): (TableId, &[u8])) -> u64 {
        let known = self.0.iter().find(|(of, _)| *of == table);
        let prefix = known.map_or(&[][..], |(_, prefix)| prefix);
        match key.strip_prefix(prefix) {
            Some(rest) => key_head(rest),
            None if key < prefix => 0,
            None => u64::MAX,
        }
    }
}

/// Memory for writes, charged and reused, because new memory costs a page fault for each of its
/// pages.
pub(super) struct WriteMemory(Mutex<Free>);

struct Free {
    writes: Vec<Vec<Write<'static>>>,
    charge: Charge,
}

impl WriteMemory {
    pub(super) fn new(budget: &Budget) -> WriteMemory {
        let charge = budget.charge(Use::Recovery, 0);
        WriteMemory(Mutex::new(Free { writes: Vec::new(), charge }))
    }

    fn take<'w>(&self) -> Vec<Write<'w>> {
        self.0.lock().writes.pop().unwrap_or_default()
    }

    fn give_back(&self, mut writes: Vec<Write<'_>>) {
        writes.clear();
        // Collecting reuses the allocation; nothing is moved.
        let writes = writes.into_iter().map(|_| unreachable!("it was cleared")).collect();
        self.0.lock().writes.push(writes);
    }

    /// Raises the charge to the memory for `ops` operations, which is about to be taken.
    fn expect(&self, ops: usize) {
        let free = &mut *self.0.lock();
        free.charge.resize(free.charge.bytes().max(ops * OP_BYTES));
    }

    /// Sets the charge to the memory that exists. Called once all of it was returned.
    fn count(&self) {
        let free = &mut *self.0.lock();
        let room: usize = free.writes.iter().map(Vec::capacity).sum();
        free.charge.resize(room * size_of::<Write<'_>>());
    }
}

/// Installs all commits of a window. Those up to `certain` were durable once.
pub(super) fn install(
    engines: &Engines,
    mut window: Window,
    scratch: &WriteMemory,
    certain: Csn,
    threads: usize,
) {
    // A commit that creates or drops a table, or deletes a range, is installed after all earlier
    // commits and before all later ones. So a table exists when it is written to, and the versions
    // that a deleted range hides are installed before it (E10).
    for alone in std::mem::take(&mut window.alone) {
        let before = window.split_front(Csn(alone.0 - 1));
        Together::new(engines, before, scratch, certain).install(threads);
        for run in window.split_front(alone) {
            let commits = run.commits().iter();
            commits.for_each(|commit| install_alone(engines, run.piece(), commit));
        }
    }
    Together::new(engines, window.runs, scratch, certain).install(threads);
}

fn install_alone(engines: &Engines, piece: &Piece, commit: &Logged) {
    let batch = WriteBatch::from_bytes(piece.batch(commit).to_vec()).expect(CHECKED);
    for engine in engines.in_set(batch.engines()) {
        engine.install(commit.csn, &batch);
        if engine.wants_places() {
            engine.place_commits(&[(commit.csn, piece.place(commit))], Csn::ZERO);
        }
    }
}

/// Commits of a window that write single keys.
struct Together<'w> {
    engines: &'w Engines,
    runs: Vec<CommitRun>,
    /// The number of commits.
    len: usize,
    scratch: &'w WriteMemory,
    certain: Csn,
}

impl<'w> Together<'w> {
    fn new(
        engines: &'w Engines,
        runs: Vec<CommitRun>,
        scratch: &'w WriteMemory,
        certain: Csn,
    ) -> Self {
        let len = runs.iter().map(|run| run.commits().len()).sum();
        Together { engines, runs, len, scratch, certain }
    }

    fn install(&self, threads: usize) {
        let threads = if self.len < SHARED_FROM { 1 } else { threads };
        let samples =
            self.samples(SAMPLES_MIN.max(threads * RANGES_PER_THREAD * SAMPLES_PER_RANGE));
        let same = samples.windows(2).filter(|pair| pair[0] == pair[1]).count();
        if same <= samples.len() / SAME_SHARE {
            self.install_as_logged(threads);
        } else {
            self.install_by_keys(&samples, threads);
        }
    }

    /// Its commits in runs of at most `most` commits.
    fn shares(&self, most: usize) -> Vec<CommitRun> {
        let shares = self.runs.iter().flat_map(|run| {
            let len = run.commits().len();
            (0..len).step_by(most).map(move |at| run.slice(at..(at + most).min(len)))
        });
        shares.collect()
    }

    fn install_as_logged(&self, threads: usize) {
        let shares = self.shares(STRIDE);
        in_turn(threads, shares.len(), |number| {
            let share = &shares[number];
            for engine in self.engines.iter() {
                let kind = engine.kind();
                let commits = share.commits().iter().filter(|commit| commit.engines.contains(kind));
                engine.replay(&mut commits.flat_map(|commit| share.piece().replayed(commit)));
            }
        });
    }

    fn install_by_keys(&self, samples: &[(TableId, &[u8])], threads: usize) {
        let commits = self.runs.iter().flat_map(CommitRun::commits);
        self.scratch.expect(commits.map(|commit| commit.ops as usize).sum());
        let prefixes = Prefixes::of(samples);
        let ranges = threads * RANGES_PER_THREAD;
        // Each bound begins a range. Equal bounds, of a key with many writes, make one range.
        let mut bounds: Vec<_> = (1..ranges)
            .filter_map(|range| samples.get(range * samples.len() / ranges))
            .map(|&(table, key)| WriteKey { table, head: prefixes.head((table, key)), key })
            .collect();
        bounds.dedup();
        let shares = self.shares(self.len.div_ceil(ranges));
        let dealt: Vec<_> = shares.iter().map(|_| OnceLock::new()).collect();
        in_turn(threads, shares.len(), |number| {
            let mut ranges: Vec<_> = (0..=bounds.len()).map(|_| self.scratch.take()).collect();
            each(&shares[number], &prefixes, |write| {
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

    /// Samples of the written rows, in order.
    fn samples(&self, wanted: usize) -> Vec<(TableId, &[u8])> {
        let step = self.len.div_ceil(wanted).max(1);
        let mut samples = Vec::with_capacity(wanted);
        let mut before = 0_usize;
        for run in &self.runs {
            let commits = run.commits();
            for index in (before.next_multiple_of(step)..before + commits.len()).step_by(step) {
                let commit = &commits[index - before];
                // The samples are not all of first writes, because transactions often begin with
                // the same table.
                let nth = index / step % (commit.ops as usize).max(1);
                let op = ops(run.piece().batch(commit)).nth(nth).and_then(Result::ok);
                samples.extend(op.map(|op| row(&op)));
            }
            before += commits.len();
        }
        samples.sort_unstable();
        samples
    }

    /// Installs all writes of a range of keys.
    fn install_range(&self, writes: &mut [Write<'_>]) {
        writes.sort_unstable_by_key(Write::order);
        let needed = || {
            let next = writes.iter().skip(1).map(Some).chain([None]);
            writes.iter().zip(next).filter_map(|(write, next)| {
                let needless = next.is_some_and(|next| {
                    next.place() == write.place()
                        && (next.csn <= self.certain || next.csn == write.csn)
                });
                (!needless).then(|| write.replayed())
            })
        };
        for engine in self.engines.iter() {
            let kind = engine.kind();
            let of_engine = |write: &Replayed<'_>| write.op.table().engine() == Some(kind);
            engine.replay(&mut needed().filter(of_engine));
        }
    }
}

/// Passes the writes of some commits to `visit`.
fn each<'r>(run: &'r CommitRun, prefixes: &Prefixes<'_>, mut visit: impl FnMut(Write<'r>)) {
    for commit in run.commits() {
        let piece = run.piece();
        for Replayed { csn, op, place, bytes } in piece.replayed(commit) {
            let at = (place.offset - piece.begin.offset) as u32;
            visit(Write { head: prefixes.head(row(&op)), csn, op, piece, at, bytes });
        }
    }
}

/// Runs `count` pieces of work in `threads` threads. Each thread takes the next piece that no
/// thread has begun.
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
