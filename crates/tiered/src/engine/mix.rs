//! What a table is used for lately, and how its Level0 is kept for that (the 3D XPoint study, V-B).
//!
//! Each sub-level of Level0 is one more place where a read has to look, and a smaller memtable takes writes faster and is
//! flushed sooner. So a table that is mostly read has few large sub-levels, and one that is written has more and
//! smaller ones, of about the same size together.
//!
//! Reads and writes are counted by sampling: a thread keeps count for itself, and tells one in [`EACH`] to the table that it
//! is at. No cache line is shared by all reads, and none is written by most.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Of so many reads and writes of a thread one is counted; a prime, so that it keeps no step with transactions.
const EACH: u32 = 61;
/// Counted reads and writes after which the table is looked at, and the past weighs half: some 60,000 uses.
const WINDOW: u32 = 1000;
/// A table is written to from this share of writes on, in percent, and read again from the other one down.
const WRITTEN_FROM: u32 = 30;
const READ_FROM: u32 = 20;

thread_local! {
    static USES: Cell<u32> = const { Cell::new(0) };
}

/// How many of a thread's uses of tables are over, as far as sampling goes.
fn is_sample() -> bool {
    USES.with(|uses| {
        let next = uses.get() + 1;
        uses.set(if next == EACH { 0 } else { next });
        next == EACH
    })
}

/// Reads and writes of one table.
#[derive(Default)]
pub(crate) struct Mix {
    reads: AtomicU32,
    writes: AtomicU32,
    /// Whether it is mostly read.
    mostly_read: AtomicBool,
}

impl Mix {
    /// Whether the table is mostly read.
    pub(crate) fn is_mostly_read(&self) -> bool {
        self.mostly_read.load(Ordering::Relaxed)
    }

    /// Counts a read. Answers whether the table is another kind of table from now on.
    pub(super) fn read(&self) -> bool {
        is_sample() && self.count(&self.reads)
    }

    /// Counts a write, as [`Mix::read`] does.
    pub(super) fn write(&self) -> bool {
        is_sample() && self.count(&self.writes)
    }

    #[cold]
    fn count(&self, of: &AtomicU32) -> bool {
        of.fetch_add(1, Ordering::Relaxed);
        // Two threads at once may look twice, and no harm is done.
        let reads = self.reads.load(Ordering::Relaxed);
        let writes = self.writes.load(Ordering::Relaxed);
        let all = reads + writes;
        if all < WINDOW {
            return false;
        }
        self.reads.store(reads / 2, Ordering::Relaxed);
        self.writes.store(writes / 2, Ordering::Relaxed);
        let written = writes * 100;
        let mostly_read = match self.is_mostly_read() {
            true => written < WRITTEN_FROM * all,
            false => written < READ_FROM * all,
        };
        self.mostly_read.swap(mostly_read, Ordering::Relaxed) != mostly_read
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn use_it(mix: &Mix, reads: u32, writes: u32, rounds: u32) -> u32 {
        let mut changes = 0;
        for _ in 0..rounds {
            changes += (0..reads).filter(|_| mix.read()).count();
            changes += (0..writes).filter(|_| mix.write()).count();
        }
        changes as u32
    }

    #[test]
    fn a_table_is_what_it_was_used_for_lately() {
        let mix = Mix::default();
        assert!(!mix.is_mostly_read());
        assert_eq!(use_it(&mix, 9, 1, 20_000), 1);
        assert!(mix.is_mostly_read());
        assert_eq!(use_it(&mix, 0, 1, 200_000), 1);
        assert!(!mix.is_mostly_read());
    }

    #[test]
    fn a_table_at_the_edge_stays_what_it_is() {
        for reads in [0, 100] {
            let mix = Mix::default();
            use_it(&mix, reads, 1, 10_000 + 100_000 / (reads + 1));
            assert_eq!(mix.is_mostly_read(), reads > 0);
            assert_eq!(use_it(&mix, 3, 1, 100_000), 0);
        }
    }
}
