//! Turns memory that has been in use for a while into large pages of the system.

use std::time::Duration;

use spillway_base::lock::Mutex;

use super::table_set::TableSet;
use crate::large_pages::are_allowed;
use crate::slab::Slabs;

/// How often the background work makes memory large pages of the system.
const EVERY: Duration = Duration::from_secs(1);
/// How many large pages it makes at most. The copy of one takes less than a millisecond.
const AT_ONCE: usize = 128;

/// When memory was last made large pages, and whether the system lets processes do so.
#[derive(Default)]
pub(super) struct PageCollapse(Mutex<Option<(Duration, bool)>>);

impl PageCollapse {
    /// Makes memory of indexes, arrays and versions large pages of the system, if it has been in
    /// use for [`EVERY`].
    pub(super) fn run(&self, now: Duration, tables: &TableSet, versions: &Slabs) {
        let mut last = self.0.lock();
        let (then, are_allowed) = *last.get_or_insert_with(|| (now, are_allowed()));
        if now.saturating_sub(then) < EVERY || !are_allowed {
            return;
        }
        let mut left = AT_ONCE;
        left -= tables.nodes().make_large(left);
        for table in tables.load().values() {
            left -= table.rows.make_large(left);
        }
        versions.make_large(left);
        *last = Some((now, are_allowed));
    }
}
