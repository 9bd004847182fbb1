//! Rows of the row cache, for who reads one by itself and has told nobody of a snapshot (E13).
//!
//! Why that is right: the caller took its number when all commits up to it were installed, and the cache has the newest version of a row
//! that is (J1, J2). If that is at or below the number, no version between the two is installed, or will be; so it is what the snapshot
//! sees, whatever a flush or a compaction drops meanwhile. If it is above, the cache answers nothing. What else may hide a row began
//! an era before its commit could be seen (J3), and the era is looked at after the number was taken.

use spillway_base::home::Place as HomePlace;
use spillway_base::{Csn, TableId};

use super::{Inner, mix};
use crate::filter;
use crate::standing::Standing;

impl Inner {
    /// The value that a key has at a snapshot, if its row is cached.
    #[inline]
    pub(super) fn recall(
        &self,
        table: TableId,
        key: &[u8],
        snapshot: Csn,
        value: &mut Vec<u8>,
    ) -> Option<Csn> {
        let rows = self.context.rows.as_ref().filter(|_| self.settings.recall)?;
        let hash = filter::hash(key);
        rows.expect(hash);
        let find = || self.tables.load().get(&table).map(|table| table.standing.clone());
        let tag = |of: &Standing| of.exists_at(snapshot).then(|| of.era(rows)).flatten();
        let tag = Standing::with(self.number, table, find, tag).flatten()?;
        let csn = rows.recall(tag, hash, key, snapshot, value)?;
        // Of those that find nothing here it is counted where they look next.
        let is_sample = mix::is_sample();
        if is_sample || HomePlace::is_asked_for() {
            self.note_read_of(table, key, is_sample);
        }
        Some(csn)
    }

    #[cold]
    fn note_read_of(&self, table: TableId, key: &[u8], is_sample: bool) {
        if let Some(table) = self.tables.load().get(&table) {
            self.note_read(table.parts().of(key), is_sample);
        }
    }
}
