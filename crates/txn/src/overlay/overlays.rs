//! The overlays attached to tables, and reads through them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use arc_swap::ArcSwap;
use spillway_base::engine::{Access, Engine, Found};
use spillway_base::lock::Mutex;
use spillway_base::{Csn, KeyRange, Result, TableId};

use super::{Layer, SPILL, SpillRecord, record_key, row_key, row_value};
use crate::snapshots::{Pin, Snapshots};

/// A committed transaction's spilled rows, until they are folded. It pins a snapshot (SPILL-5).
pub(crate) struct Overlay {
    pub(crate) id: u64,
    /// The CSN of the transaction's commit.
    pub(crate) csn: Csn,
    /// The oldest first.
    pub(crate) layers: Vec<Layer>,
    /// The CSNs of the commits that have folded its rows, ascending.
    pub(crate) folds: Mutex<Vec<Csn>>,
    snapshots: Arc<Snapshots>,
    pin: Option<Pin>,
}

impl Overlay {
    fn new(id: u64, csn: Csn, layers: Vec<Layer>, snapshots: &Arc<Snapshots>) -> Overlay {
        let pin = Some(snapshots.pin(csn));
        Overlay { id, csn, layers, folds: Mutex::default(), snapshots: snapshots.clone(), pin }
    }

    /// Whether this commit has folded rows of the overlay.
    pub(crate) fn has_folded(&self, csn: Csn) -> bool {
        self.folds.lock().binary_search(&csn).is_ok()
    }

    pub(crate) fn covers(&self, table: TableId) -> bool {
        self.layers.iter().any(|layer| layer.tables.contains(&table))
    }

    /// Looks a key's row up: `None` if the overlay has no row of it, otherwise whether the row has
    /// a value (`false` if it is deleted).
    pub(crate) fn find(
        &self,
        engine: &dyn Engine,
        (table, key): (TableId, &[u8]),
        access: Access,
        value: &mut Vec<u8>,
    ) -> Result<Option<bool>> {
        find(engine, (self.id, &self.layers), (table, key), access, value)
    }
}

impl Drop for Overlay {
    fn drop(&mut self) {
        if let Some(pin) = self.pin.take() {
            self.snapshots.unpin(pin);
        }
    }
}

/// Looks a key's row up in the layers, in the newest layer first. Returns the same as
/// [`Overlay::find`].
pub(crate) fn find(
    engine: &dyn Engine,
    (id, layers): (u64, &[Layer]),
    (table, key): (TableId, &[u8]),
    access: Access,
    value: &mut Vec<u8>,
) -> Result<Option<bool>> {
    for layer in layers.iter().rev().filter(|layer| layer.tables.contains(&table)) {
        let key = row_key(id, layer.number, table, key);
        if engine.newest(SPILL, &key, access, value)?.is_value() {
            let there = row_value(value)?.is_some();
            value.pop();
            return Ok(Some(there));
        }
    }
    value.clear();
    Ok(None)
}

type List = Vec<Arc<Overlay>>;

/// All overlays of a database, and the spills to delete.
pub(crate) struct Overlays {
    /// By CSN, ascending.
    list: ArcSwap<List>,
    attached: AtomicUsize,
    /// Counts the changes of the list.
    changes: AtomicU64,
    /// Counts the overlays that left the list because they were folded.
    folded: AtomicU64,
    next_id: AtomicU64,
    /// Numbers of spills that nothing reads, whose rows are to be deleted.
    pub(crate) discarded: Mutex<Vec<u64>>,
    /// Whether the table [`SPILL`] exists.
    pub(crate) created: Mutex<bool>,
}

impl Overlays {
    pub(crate) fn new() -> Overlays {
        Overlays {
            list: ArcSwap::default(),
            attached: AtomicUsize::new(0),
            changes: AtomicU64::new(0),
            folded: AtomicU64::new(0),
            next_id: AtomicU64::new(1),
            discarded: Mutex::default(),
            created: Mutex::new(false),
        }
    }

    pub(crate) fn new_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether there is any overlay. Callers take their snapshot first.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.attached.load(Ordering::Acquire) > 0
    }

    /// The number of overlays.
    pub(crate) fn count(&self) -> usize {
        self.attached.load(Ordering::Acquire)
    }

    /// How many overlays there have been since the opening, and how many of them were folded.
    pub(crate) fn attached_and_folded(&self) -> [u64; 2] {
        let folded = self.folded.load(Ordering::Relaxed);
        // Each attached overlay is one change of the list, and each folded one another.
        [self.changes().saturating_sub(folded), folded]
    }

    /// Whether a table has an overlay.
    pub(crate) fn covers(&self, table: TableId) -> bool {
        self.any() && self.list.load().iter().any(|overlay| overlay.covers(table))
    }

    /// The number of changes of the list, or `None` while there is an overlay. A reader at an
    /// unregistered snapshot calls this before it takes its CSN, and again after it has read. If
    /// both calls return the same number, there was no overlay in between, so the rows that it read
    /// are complete.
    #[inline]
    pub(crate) fn quiet(&self) -> Option<u64> {
        let changes = self.changes();
        (!self.any()).then_some(changes)
    }

    /// The number of changes of the list.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// The overlays of a table that a snapshot sees, the newest first.
    pub(crate) fn of(&self, table: TableId, snapshot: Csn) -> Vec<Arc<Overlay>> {
        let seen = |overlay: &&Arc<Overlay>| overlay.csn <= snapshot && overlay.covers(table);
        self.list.load().iter().rev().filter(seen).cloned().collect()
    }

    /// All overlays, by CSN.
    pub(crate) fn all(&self) -> Arc<List> {
        self.list.load_full()
    }

    /// Attaches the spill of a commit, before the commit is visible (SPILL-1).
    pub(crate) fn attach(&self, id: u64, csn: Csn, layers: Vec<Layer>, snapshots: &Arc<Snapshots>) {
        let overlay = Arc::new(Overlay::new(id, csn, layers, snapshots));
        // The count is incremented first. So a thread that has taken a snapshot at `csn` or above
        // sees a count above 0, and looks at the list.
        self.attached.fetch_add(1, Ordering::AcqRel);
        self.list.rcu(|list| {
            let mut list = List::clone(list);
            let at = list.partition_point(|other| other.csn < csn);
            list.insert(at, overlay.clone());
            list
        });
        self.changes.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn detach(&self, id: u64) {
        self.list.rcu(|list| {
            let mut list = List::clone(list);
            list.retain(|overlay| overlay.id != id);
            list
        });
        self.changes.fetch_add(1, Ordering::AcqRel);
        self.folded.fetch_add(1, Ordering::Relaxed);
        self.attached.fetch_sub(1, Ordering::AcqRel);
    }

    /// Schedules the rows of a spill that does not commit for deletion.
    pub(crate) fn discard(&self, id: u64) {
        self.discarded.lock().push(id);
    }

    /// The CSN that a version of a table counts as: that of the overlay if a fold wrote the version
    /// (SPILL-7), otherwise its own.
    pub(crate) fn effective(&self, csn: Csn) -> Csn {
        if !self.any() {
            return csn;
        }
        let list = self.list.load();
        let folded = list.iter().find(|one| one.has_folded(csn));
        folded.map_or(csn, |overlay| overlay.csn)
    }

    /// Combines the result of a lookup in a table with the overlays that the snapshot sees. `value`
    /// holds the table's value. If an overlay has a newer version, `value` receives that one.
    pub(crate) fn resolve(
        &self,
        engine: &dyn Engine,
        seen: &[Arc<Overlay>],
        (table, key): (TableId, &[u8]),
        access: Access,
        (found, value): (Found, &mut Vec<u8>),
    ) -> Result<Found> {
        let mut over = Vec::new();
        for overlay in seen.iter().filter(|overlay| found.csn() <= Some(overlay.csn)) {
            if let Some(there) = overlay.find(engine, (table, key), access, &mut over)? {
                *value = over;
                let csn = overlay.csn;
                return Ok(if there { Found::Value(csn) } else { Found::Deleted(csn) });
            }
        }
        Ok(match found {
            Found::Value(csn) => Found::Value(self.effective(csn)),
            Found::Deleted(csn) => Found::Deleted(self.effective(csn)),
            Found::Nothing => Found::Nothing,
        })
    }

    /// Reads the records found at an opening: attaches committed spills, and schedules the others
    /// for deletion. Called before any reader or writer.
    pub(crate) fn open(
        &self,
        engine: &dyn Engine,
        stable: Csn,
        snapshots: &Arc<Snapshots>,
    ) -> Result<()> {
        if !engine.tables().contains(&SPILL) {
            return Ok(());
        }
        *self.created.lock() = true;
        let (start, end) = (record_key(0), [super::ROW]);
        let range = KeyRange::new(&start, Some(&end));
        let direction = spillway_base::Direction::Forward;
        let mut cursor = engine.scan(SPILL, range, direction, stable, Access::Blocking)?;
        while cursor.next(Access::Blocking)? {
            let number = cursor.key()[1..].try_into().map(u64::from_be_bytes);
            let id = number.map_err(|_| {
                spillway_base::Error::corruption("a spilled transaction's record has no number")
            })?;
            self.next_id.fetch_max(id + 1, Ordering::Relaxed);
            let record = SpillRecord::decode(cursor.value())?;
            if record.committed {
                self.attach(id, cursor.csn(), record.layers, snapshots);
            } else {
                self.discard(id);
            }
        }
        Ok(())
    }
}
