//! A disk in memory whose syncs wait while its gate is shut.

use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};

use spillway_base::Result;
use spillway_storage::disk::{Disk, DiskLock, File, OpenMode};
use spillway_storage::sim::SimDisk;

#[derive(Default)]
struct Gate {
    shut: Mutex<bool>,
    changed: Condvar,
}

impl Gate {
    fn pass(&self) {
        let shut = self.shut.lock().unwrap();
        drop(self.changed.wait_while(shut, |shut| *shut).unwrap());
    }
}

#[derive(Clone)]
pub(crate) struct GateDisk {
    disk: SimDisk,
    gate: Arc<Gate>,
}

impl GateDisk {
    pub(crate) fn new() -> GateDisk {
        GateDisk { disk: SimDisk::new(1), gate: Arc::default() }
    }

    pub(crate) fn shut(&self, shut: bool) {
        *self.gate.shut.lock().unwrap() = shut;
        self.gate.changed.notify_all();
    }
}

struct GateFile {
    file: Arc<dyn File>,
    gate: Arc<Gate>,
}

impl Disk for GateDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn File>> {
        let file = self.disk.open(path, mode)?;
        Ok(Arc::new(GateFile { file, gate: self.gate.clone() }))
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        self.disk.exists(path)
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        self.disk.list(dir)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.disk.remove(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.disk.rename(from, to)
    }

    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        self.disk.create_dir_all(dir)
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.disk.sync_dir(dir)
    }

    fn lock(&self, dir: &Path) -> Result<Box<dyn DiskLock>> {
        self.disk.lock(dir)
    }

    fn available(&self, path: &Path) -> Result<u64> {
        self.disk.available(path)
    }
}

impl File for GateFile {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        self.file.read_at(offset, bytes)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.file.write_at(offset, bytes)
    }

    fn sync(&self) -> Result<()> {
        self.gate.pass();
        self.file.sync()
    }

    fn write_and_sync(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.gate.pass();
        self.file.write_and_sync(offset, bytes)
    }

    fn len(&self) -> Result<u64> {
        self.file.len()
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.file.set_len(len)
    }

    fn allocate(&self, offset: u64, len: u64) -> Result<()> {
        self.file.allocate(offset, len)
    }
}
