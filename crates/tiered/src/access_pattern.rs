//! The access pattern of a table: mostly read, mostly written or mixed. The engine derives the
//! shape of Level0 and the size of memtables from it (the 3D XPoint study, V-B).
//!
//! - In a mostly read table, Level0 may hold only a fixed number of bytes. Intra-Level0 compactions
//!   begin at a quarter of the usual number of sub-levels, because a scan visits each sub-level.
//! - In all other tables, Level0 may also hold a share of the bytes of the levels below it
//!   ([`crate::picker`]).
//! - A mostly written table gets memtables of half the size, because the memory of a smaller
//!   memtable is free again sooner.
//!
//! Of the two limits for a mostly read table, the limit in bytes has the larger effect, because a
//! compaction of Level0 rewrites the bytes that Level0 holds. The number of sub-levels has a small
//! effect, because filters let gets skip most sub-levels. With fewer sub-levels, a scan of 20 rows
//! takes 11 us of processor time instead of 14.
//!
//! Reads and writes are sampled: each thread counts its own operations, and adds one in [`EACH`] to
//! the counts of the table. So most operations write no cache line that other threads share.

use std::cell::Cell;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

/// One in `EACH` reads and writes of a thread is counted. It is a prime, so the sample does not
/// correlate with transactions.
const EACH: u32 = 61;
/// The counted reads and writes after which the table's use is decided and the counts are halved:
/// some 60,000 operations.
const WINDOW: u32 = 1000;
/// Shares of writes, in percent. A table becomes mostly read below the first share, and stays so
/// below the second. It becomes mostly written at the fourth share or above, and stays so at the
/// third or above.
const READ_BELOW: u32 = 20;
const STAYS_READ_BELOW: u32 = 30;
const STAYS_WRITTEN_FROM: u32 = 60;
const WRITTEN_FROM: u32 = 70;

/// The dominant use of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TableUse {
    /// Mostly writes, as in a table that is being filled. All tables begin with this use.
    #[default]
    MostlyWritten,
    /// Reads and writes.
    Mixed,
    /// Mostly reads.
    MostlyRead,
}

impl TableUse {
    pub(crate) const ALL: [TableUse; 3] =
        [TableUse::MostlyWritten, TableUse::Mixed, TableUse::MostlyRead];

    /// The next use of a table that has this use now, if `written` percent of its operations are
    /// writes.
    fn with(self, written: u32) -> TableUse {
        match self {
            TableUse::MostlyRead if written < STAYS_READ_BELOW => self,
            TableUse::MostlyWritten if written >= STAYS_WRITTEN_FROM => self,
            _ if written < READ_BELOW => TableUse::MostlyRead,
            _ if written >= WRITTEN_FROM => TableUse::MostlyWritten,
            _ => TableUse::Mixed,
        }
    }
}

thread_local! {
    static USES: Cell<u32> = const { Cell::new(0) };
}

/// Whether this use of a table by this thread is counted: one in [`EACH`] is.
#[inline]
pub(crate) fn is_sample() -> bool {
    USES.with(|uses| {
        let next = uses.get() + 1;
        uses.set(if next == EACH { 0 } else { next });
        next == EACH
    })
}

/// Reads and writes of one table.
#[derive(Default)]
pub(crate) struct AccessPattern {
    reads: AtomicU32,
    writes: AtomicU32,
    /// The table's [`TableUse`] as a number.
    used_for: AtomicU8,
}

impl AccessPattern {
    /// The use of the table.
    pub(crate) fn used_for(&self) -> TableUse {
        TableUse::ALL[usize::from(self.used_for.load(Ordering::Relaxed))]
    }

    /// Counts a read. Returns whether the table's use changed.
    pub(crate) fn read(&self) -> bool {
        is_sample() && self.count_read()
    }

    /// As [`AccessPattern::read`], for a read that [`is_sample`] has already selected.
    pub(crate) fn count_read(&self) -> bool {
        self.count(&self.reads)
    }

    /// Counts a write, as [`AccessPattern::read`] does.
    pub(crate) fn write(&self) -> bool {
        is_sample() && self.count(&self.writes)
    }

    #[cold]
    fn count(&self, of: &AtomicU32) -> bool {
        of.fetch_add(1, Ordering::Relaxed);
        // Two threads may decide at the same time, which is harmless.
        let reads = self.reads.load(Ordering::Relaxed);
        let writes = self.writes.load(Ordering::Relaxed);
        let all = reads + writes;
        if all < WINDOW {
            return false;
        }
        self.reads.store(reads / 2, Ordering::Relaxed);
        self.writes.store(writes / 2, Ordering::Relaxed);
        let used_for = self.used_for().with(writes * 100 / all) as u8;
        self.used_for.swap(used_for, Ordering::Relaxed) != used_for
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn use_it(mix: &AccessPattern, reads: u32, writes: u32, rounds: u32) -> u32 {
        let mut changes = 0;
        for _ in 0..rounds {
            changes += (0..reads).filter(|_| mix.read()).count();
            changes += (0..writes).filter(|_| mix.write()).count();
        }
        changes as u32
    }

    #[test]
    fn a_table_is_what_it_was_used_for_lately() {
        let mix = AccessPattern::default();
        assert_eq!(mix.used_for(), TableUse::MostlyWritten);
        for (reads, writes, changes, used_for) in [
            (9, 1, 1, TableUse::MostlyRead),
            (1, 1, 1, TableUse::Mixed),
            (0, 1, 1, TableUse::MostlyWritten),
            // Through the mixed use.
            (1, 0, 2, TableUse::MostlyRead),
        ] {
            assert_eq!(use_it(&mix, reads, writes, 600_000 / (reads + writes)), changes);
            assert_eq!(mix.used_for(), used_for);
        }
    }

    #[test]
    fn a_table_at_the_edge_stays_what_it_is() {
        // A quarter and two thirds of writes, each from both sides.
        for (reads, writes, edge_reads, edge_writes) in
            [(100, 1, 3, 1), (1, 1, 3, 1), (1, 1, 1, 2), (0, 1, 1, 2)]
        {
            let mix = AccessPattern::default();
            use_it(&mix, reads, writes, 300_000 / (reads + writes));
            assert_eq!(use_it(&mix, edge_reads, edge_writes, 100_000), 0);
        }
    }
}
