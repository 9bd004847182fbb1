//! A cursor over several sub-tables: the scan of each, one after another.

use spillway_base::engine::{Access, Cursor};
use spillway_base::{Csn, Result};

use super::TableCursor;

/// Consecutive scans of adjacent sub-tables.
pub(crate) struct PartsCursor {
    current: TableCursor,
    /// The remaining scans, the next one last.
    rest: Vec<TableCursor>,
    /// The last key of the scans that have ended.
    left: Option<Vec<u8>>,
}

impl PartsCursor {
    /// A cursor over at least one scan, beginning with the last of these.
    pub(crate) fn new(mut cursors: Vec<TableCursor>) -> PartsCursor {
        let current = cursors.pop().expect("a range is in some sub-table");
        PartsCursor { current, rest: cursors, left: None }
    }

    /// Continues with the next scan; `false` if there is none.
    fn go_on(&mut self) -> bool {
        let Some(next) = self.rest.pop() else { return false };
        if let Some(left) = self.current.last_key() {
            self.left = Some(left.to_vec());
        }
        self.current = next;
        true
    }
}

impl Cursor for PartsCursor {
    #[inline]
    fn next(&mut self, access: Access) -> Result<bool> {
        while !self.current.next(access)? {
            if !self.go_on() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn next_rows(&mut self, access: Access, most: usize) -> Result<usize> {
        loop {
            let rows = self.current.next_rows(access, most)?;
            if rows > 0 || !self.go_on() {
                return Ok(rows);
            }
        }
    }

    fn rows(&self, take: &mut dyn FnMut(&[u8], &[u8]) -> bool) {
        self.current.rows(take);
    }

    fn key(&self) -> &[u8] {
        self.current.key()
    }

    fn value(&self) -> &[u8] {
        self.current.value()
    }

    fn csn(&self) -> Csn {
        self.current.csn()
    }

    fn last_key(&self) -> Option<&[u8]> {
        self.current.last_key().or(self.left.as_deref())
    }
}
