//! Moves of extents between devices.
//!
//! A move copies an extent, under the same number, into slots on another device, and then records
//! the new slots in the manifest. Slices and cached blocks of the extent stay as they are. Readers
//! that began before the move continue to read the old slots. When the last of these readers is
//! done, the old slots become free.
//!
//! - **EXTENT-MOVE-1.** A move changes no result of a read, at any snapshot.
//! - **EXTENT-MOVE-2.** After a crash at any moment, the extent is whole at one location, and the
//!   next opening finds the slots of the other copy free.
//! - **EXTENT-MOVE-3.** An extent that cannot be read whole is not copied, and stays where it is.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use spillway_base::{Csn, ErrorKind, Result};

use super::Inner;
use super::debt::SliceSearch;
use super::pending_extents::{PendingExtents, stopped};
use super::table_set::TableSet;
use crate::extent::ExtentHandle;
use crate::extent_meta::{ExtentId, ExtentMeta};
use crate::level::{LevelsEdit, Slice};
use crate::manifest::{Edit, Place};
use crate::picker::{Kind, Lodger, pick_moves};
use crate::space::{DeviceClass, SlotRun, SpaceManager};
use crate::subtable::SubTable;
use crate::table::Table;
use crate::temperature::Temperature;

/// The most extents that are moved at once.
const MOVES_MOST: usize = 8;

/// Where an extent is, and where it should be.
struct ExtentHome {
    meant: DeviceClass,
    slots: SlotRun,
    temperature: Temperature,
}

/// The extents that may move.
struct Candidates {
    lodgers: Vec<Lodger>,
    /// Each extent with its table.
    extents: Vec<(Arc<Table>, ExtentId)>,
}

impl Inner {
    /// Moves some extents of one table to where they should be, if there are any.
    pub(super) fn move_some(&self) -> Result<bool> {
        if !self.space.has_tiers() {
            return Ok(false);
        }
        let epochs = self.context.thermometer.epochs();
        let move_first = || self.move_first();
        self.levels_debt.unless_idle(SliceSearch::Move, epochs, &self.tables, move_first)
    }

    fn move_first(&self) -> Result<bool> {
        let Candidates { lodgers, extents } =
            candidates(&self.tables, &self.space, |place| self.level_storage.class_at(place));
        // If a device does not report its free space, nothing is moved now, and work continues.
        let Ok(rooms) = self.space.rooms() else { return Ok(false) };
        let picked = pick_moves(&lodgers, &rooms, MOVES_MOST);
        let Some((first, _)) = picked.first() else { return Ok(false) };
        let table = extents[*first].0.clone();
        let of_table = picked.iter().filter(|(at, _)| Arc::ptr_eq(&extents[*at].0, &table));
        let moves: Vec<_> = of_table.map(|&(at, class)| (extents[at].1, class)).collect();
        self.move_extents(&table, &moves)
    }

    /// Moves extents of a table to devices of these classes. Returns `false` if none was moved,
    /// because other work holds the table or there is no room.
    pub(super) fn move_extents(
        &self,
        table: &Arc<Table>,
        moves: &[(ExtentId, DeviceClass)],
    ) -> Result<bool> {
        let wanted: FxHashSet<ExtentId> = moves.iter().map(|(id, _)| *id).collect();
        let parts = table.all_parts();
        let has = |part: &Arc<SubTable>| {
            part.view().levels.places().any(|(_, slice)| wanted.contains(&slice.meta.extent))
        };
        let parts: Vec<_> = parts.into_iter().filter(has).collect();
        let held: Vec<_> = parts.iter().filter_map(SubTable::take_whole).collect();
        if held.len() < parts.len() {
            return Ok(false);
        }
        match self.copy_and_record(table, &parts, moves) {
            // The extents stay where they are.
            Err(error) if error.kind() == ErrorKind::DiskFull => Ok(false),
            moved => moved,
        }
    }

    /// The caller makes sure that `parts` are not compacted, split or joined meanwhile.
    fn copy_and_record(
        &self,
        table: &Table,
        parts: &[Arc<SubTable>],
        moves: &[(ExtentId, DeviceClass)],
    ) -> Result<bool> {
        let mut homes = homes(table, parts);
        let mut written = PendingExtents::begin(self, DeviceClass::Ssd)?;
        written.set_pace(Kind::Recode);
        let mut copied: Vec<(Arc<ExtentHandle>, ExtentMeta)> = Vec::new();
        let (mut damaged, mut bytes) = (false, Vec::new());
        for (id, class) in moves {
            let Some(slices) = homes.get(id).and_then(Option::as_ref) else { continue };
            let old = &slices[0].2.extent;
            if let Err(error) = old.read_all(&mut bytes) {
                for (at, _, slice) in slices {
                    parts[*at].quarantine(&slice.meta, error.clone());
                }
                damaged = true;
                continue;
            }
            let slots = match self.space.allocate_on(old.meta.slots.count, *class) {
                Err(full) if full.kind() == ErrorKind::DiskFull => break,
                taken => taken.map_err(stopped)?,
            };
            let meta = ExtentMeta { slots, ..old.meta.clone() };
            written.put_at(meta.clone(), Vec::new(), &bytes)?;
            copied.push((old.clone(), meta));
        }
        if damaged {
            self.refresh_debt();
        }
        if copied.is_empty() {
            return Ok(damaged);
        }
        written.sync()?;
        let mut manifest = self.persistence.record(&self.health)?;
        if table.is_gone() {
            return Ok(false);
        }
        let mut changes: Vec<LevelsEdit> = parts.iter().map(|_| LevelsEdit::default()).collect();
        let mut edits = Vec::new();
        for (old, meta) in &copied {
            edits.push(Edit::MoveExtent { table: table.id, id: meta.id, slots: meta.slots });
            let new = ExtentHandle::new(table.id, meta.clone(), &self.space, &self.context)?;
            new.take_over(old);
            for (at, place, slice) in homes.remove(&meta.id).flatten().unwrap_or_default() {
                let moved = Slice::new(slice.meta.clone(), new.clone());
                changes[at].added.push((place, moved));
                changes[at].removed.push(slice);
            }
        }
        written.commit(&mut manifest, edits)?;
        parts.iter().zip(&changes).for_each(|(part, change)| part.edit(change, None));
        drop(manifest);
        copied.iter().for_each(|(old, _)| old.mark_obsolete());
        self.statistics.note_moved(copied.len() as u64, written.bytes);
        Ok(true)
    }
}

/// The extents that may move. `class_at` is the class of device for data at a place.
fn candidates(
    tables: &TableSet,
    space: &SpaceManager,
    class_at: impl Fn(Place) -> DeviceClass,
) -> Candidates {
    let mut found = Candidates { lodgers: Vec::new(), extents: Vec::new() };
    let on = space.classes_of_files();
    let tables = tables.load_full();
    for table in tables.values().filter(|table| table.dropped() == Csn::MAX) {
        // An extent may have slices in several levels. It belongs where the fastest of these
        // levels should be.
        let mut places: FxHashMap<ExtentId, ExtentHome> = FxHashMap::default();
        let mut busy: FxHashSet<ExtentId> = FxHashSet::default();
        for part in table.all_parts() {
            let compacting = part.is_compacting();
            let stays = compacting || part.quarantined().is_some();
            for (place, slice) in part.view().levels.places() {
                let meant = class_at(place);
                let meta = &slice.extent.meta;
                let known = places.entry(meta.id).or_insert_with(|| {
                    let temperature = slice.extent.temperature(0..meta.blocks as usize);
                    let each = temperature.0 / meta.slots.count.max(1);
                    ExtentHome { meant, slots: meta.slots, temperature: Temperature(each) }
                });
                known.meant = known.meant.min(meant);
                if stays {
                    busy.insert(meta.id);
                }
            }
        }
        for (id, ExtentHome { meant, slots, temperature }) in places {
            let Some(&(class, leaving)) = on.get(&slots.file) else { continue };
            if busy.contains(&id) {
                continue;
            }
            let bytes = u64::from(slots.count) * space.slot_bytes() as u64;
            found.lodgers.push(Lodger { bytes, class, leaving, meant, temperature });
            found.extents.push((table.clone(), id));
        }
    }
    found
}

/// Where the slices of each extent are: the index of the part, and the place. `None` for an extent
/// that also has slices in other parts.
fn homes(
    table: &Table,
    parts: &[Arc<SubTable>],
) -> FxHashMap<ExtentId, Option<Vec<(usize, Place, Arc<Slice>)>>> {
    let mut homes: FxHashMap<ExtentId, Option<Vec<_>>> = FxHashMap::default();
    for part in table.all_parts() {
        let at = parts.iter().position(|held| Arc::ptr_eq(held, &part));
        for (place, slice) in part.view().levels.places() {
            let home = homes.entry(slice.meta.extent).or_insert_with(|| Some(Vec::new()));
            match (at, home.as_mut()) {
                (Some(at), Some(slices)) => slices.push((at, place, slice.clone())),
                _ => *home = None,
            }
        }
    }
    homes
}
