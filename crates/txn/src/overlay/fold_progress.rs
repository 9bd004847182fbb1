//! The progress of folding an overlay.

use spillway_base::lock::Mutex;
use spillway_base::{Csn, TableId};

use super::Overlay;

/// The progress of folding. The thread that has locked it is the only one that folds.
#[derive(Default)]
pub(crate) struct Folder(pub(crate) Mutex<Option<FoldProgress>>);

/// An overlay that is being folded.
pub(crate) struct FoldProgress {
    pub(crate) id: u64,
    /// The tables that are not completely folded. The last of them is folded next.
    pub(crate) tables: Vec<TableId>,
    /// The last key that was folded, in the table that is folded now.
    pub(crate) last: Option<Vec<u8>>,
    /// Snapshots at this CSN or above find the folded rows, or newer ones, without the overlay.
    pub(crate) folded: Csn,
    /// The CSN of the commit that deleted the overlay's record, once it is deleted.
    pub(crate) ended: Option<Csn>,
}

impl FoldProgress {
    pub(crate) fn of(overlay: &Overlay) -> FoldProgress {
        let mut tables: Vec<TableId> =
            overlay.layers.iter().flat_map(|layer| layer.tables.iter().copied()).collect();
        tables.sort_unstable();
        tables.dedup();
        let (id, folded) = (overlay.id, overlay.csn);
        FoldProgress { id, tables, last: None, folded, ended: None }
    }

    pub(crate) fn next_table(&mut self) {
        self.tables.pop();
        self.last = None;
    }
}
