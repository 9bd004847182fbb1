//! A pin keeps the engine's files as they were at one moment while a backup copies them. This
//! module also creates an engine's folder from such a copy.
//!
//! A pin holds the manifest's state and a handle of each extent in it. The pin takes the state, and
//! the views that hold the extents, under the manifest's lock. Extents never change, so the copy
//! may take any time. Compactions continue meanwhile. If they replace a pinned extent, its space
//! becomes free when the pin is dropped. A pin does not include memtables. Their commits, which
//! come after [`Pin::persisted`], are in the log.

use std::path::Path;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use spillway_base::{Csn, Error, Result, TableId};
use spillway_storage::Disk;

use super::TieredEngine;
use crate::extent::{ExtentHandle, check_extent};
use crate::extent_meta::{ExtentId, ExtentMeta};
use crate::manifest::{Edit, Manifest, State, TableState};
use crate::settings::TieredSettings;
use crate::space::{DeviceClass, Folder, SlotRun, SpaceManager};

/// An extent of a pin. All copies of it are equal byte by byte, wherever they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExtentCopy {
    /// Its table.
    pub table: TableId,
    /// Its number, which no other extent of the database ever has.
    pub id: u64,
    /// Its bytes.
    pub bytes: u64,
    /// Bytes of its data blocks.
    pub data_bytes: u64,
    /// Its data blocks.
    pub blocks: u32,
    /// CRC32C of its bytes.
    pub crc: u32,
}

fn copy_of(table: TableId, meta: &ExtentMeta) -> ExtentCopy {
    let ExtentMeta { id, len, data_bytes, blocks, crc, .. } = *meta;
    ExtentCopy { table, id: id.0, bytes: len, data_bytes, blocks, crc }
}

/// The engine's files at one moment, kept until the pin is dropped.
pub struct Pin {
    state: State,
    stable: Csn,
    slot_bytes: u32,
    extents: Vec<(TableId, Arc<ExtentHandle>)>,
}

impl TieredEngine {
    /// Pins the engine's current files.
    #[must_use]
    pub fn pin(&self) -> Pin {
        let inner = &self.0;
        // Edits wait while the state and the views are taken, but not while the extents are
        // visited.
        let manifest = inner.persistence.manifest();
        let mut state = manifest.state().clone();
        // A flush records its edit and publishes its view under this lock, so everything up to this
        // CSN is in the files of the state, too.
        state.persisted = state.persisted.max(inner.compute_persisted());
        // Only stable commits are flushed, so these files have no commit above the stable CSN.
        let stable = inner.horizon.stable();
        // Work in progress may record numbers that were assigned already. A copy must not assign
        // them again.
        state.next_extent = state.next_extent.max(inner.persistence.next_extent_id());
        let tables = inner.tables.load();
        let views_of = |id| {
            let table = tables.get(id).expect("a table of the manifest is in the engine");
            table.all_parts().iter().map(|part| part.view()).collect::<Vec<_>>()
        };
        let views: Vec<_> = state.tables.keys().map(views_of).collect();
        drop(manifest);
        let mut extents = Vec::new();
        for ((&id, stored), views) in state.tables.iter().zip(views) {
            let mut handles: FxHashMap<ExtentId, Arc<ExtentHandle>> = FxHashMap::default();
            for view in views {
                handles.extend(
                    view.levels
                        .places()
                        .map(|(_, slice)| (slice.meta.extent, slice.extent.clone())),
                );
            }
            extents.extend(stored.extents.keys().map(|extent| {
                let handle = handles.remove(&extent);
                (id, handle.expect("an extent of the manifest belongs to a level"))
            }));
        }
        Pin { state, stable, slot_bytes: inner.settings.slot_bytes as u32, extents }
    }
}

impl Pin {
    /// Commits up to this one are in the pinned files.
    #[must_use]
    pub fn persisted(&self) -> Csn {
        self.state.persisted
    }

    /// The stable CSN when the files were pinned. They have no commit after it.
    #[must_use]
    pub fn stable(&self) -> Csn {
        self.stable
    }

    /// The extents, by table and number.
    pub fn extents(&self) -> impl ExactSizeIterator<Item = ExtentCopy> {
        self.extents.iter().map(|(table, handle)| copy_of(*table, &handle.meta))
    }

    /// Reads an extent, and verifies each of its checksums, and the checksum of the whole.
    ///
    /// # Errors
    /// [`spillway_base::ErrorKind::Corruption`], [`spillway_base::ErrorKind::Io`].
    pub fn read(&self, index: usize, bytes: &mut Vec<u8>) -> Result<()> {
        self.extents[index].1.read_all(bytes)
    }

    /// The state of the manifest: the tables, their slices and extents.
    #[must_use]
    pub fn manifest(&self) -> Vec<u8> {
        self.state.to_bytes(self.slot_bytes)
    }
}

/// A copy of an engine's files, described by the bytes of [`Pin::manifest`].
pub struct Copied {
    state: State,
    slot_bytes: u32,
    metas: Vec<(TableId, ExtentMeta)>,
}

impl Copied {
    /// Reads the bytes of [`Pin::manifest`].
    ///
    /// # Errors
    /// [`spillway_base::ErrorKind::Corruption`], [`spillway_base::ErrorKind::UnsupportedFormat`].
    pub fn decode(manifest: &[u8]) -> Result<Copied> {
        let (state, slot_bytes) = State::from_bytes(manifest)?;
        let of = |(id, table): (&TableId, _)| (*id, table);
        let metas = state.tables.iter().map(of).flat_map(|(id, table): (_, &TableState)| {
            table.extents.values().map(move |extent| (id, extent.meta.clone()))
        });
        let metas: Vec<_> = metas.collect();
        let slots = |meta: &ExtentMeta| u64::from(meta.slots.count) * u64::from(slot_bytes);
        if let Some((_, meta)) = metas.iter().find(|(_, meta)| meta.len > slots(meta)) {
            return Err(Error::corruption(format!("{} is larger than its slots", meta.id)));
        }
        Ok(Copied { state, slot_bytes, metas })
    }

    /// The extents, by table and number.
    #[must_use]
    pub fn extents(&self) -> Vec<ExtentCopy> {
        self.metas.iter().map(|(table, meta)| copy_of(*table, meta)).collect()
    }

    /// Verifies each checksum in the bytes of the extent at `index` of [`Copied::extents`], and the
    /// checksum of the whole.
    ///
    /// # Errors
    /// [`spillway_base::ErrorKind::Corruption`].
    ///
    /// # Panics
    /// When there are not as many extents.
    pub fn check(&self, index: usize, bytes: &[u8]) -> Result<()> {
        let (table, meta) = &self.metas[index];
        check_extent(bytes, *table, meta)
    }

    /// Creates an engine's folder from the copy. `fetch` returns the extents' bytes, each once. The
    /// folder can be opened only after this call has succeeded.
    ///
    /// # Errors
    /// [`spillway_base::ErrorKind::DiskFull`], [`spillway_base::ErrorKind::Io`], and the errors of
    /// `fetch`.
    pub fn restore(
        mut self,
        disk: &Arc<dyn Disk>,
        dir: &Path,
        fetch: &mut dyn FnMut(usize, &mut Vec<u8>) -> Result<()>,
    ) -> Result<()> {
        disk.create_dir_all(dir)?;
        if !disk.list(dir)?.is_empty() {
            return Err(Error::invalid(format!("{} is not empty", dir.display())));
        }
        let defaults = TieredSettings::for_memory(64 << 20);
        let slot_bytes = u64::from(self.slot_bytes);
        let none = std::iter::empty();
        let space = SpaceManager::open(
            disk.clone(),
            vec![Folder::only(dir)],
            slot_bytes,
            defaults.file_bytes,
            none,
        )?;
        let mut files: Vec<SlotRun> = Vec::new();
        let mut bytes = Vec::new();
        for (index, (table, meta)) in self.metas.iter().enumerate() {
            fetch(index, &mut bytes)?;
            let run = space.allocate(meta.slots.count, DeviceClass::Ssd)?;
            let (file, offset) = space.locate(run)?;
            file.file().write_at(offset, &bytes)?;
            let id = meta.id;
            self.state.apply(Edit::MoveExtent { table: *table, id, slots: run })?;
            if files.iter().all(|known| known.file != run.file) {
                files.push(run);
            }
        }
        files.iter().try_for_each(|run| space.locate(*run)?.0.sync())?;
        Manifest::create(disk, dir, self.slot_bytes, &self.state)
    }
}
