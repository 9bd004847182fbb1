//! The persistent state of an engine: the manifest, and the figures that the manifest records.
//!
//! - **PERSISTENCE-1 (never falls).** The persistent CSN never falls (E6).
//! - **PERSISTENCE-2 (no record after a failure).** Once the engine has failed, no more edits are
//!   recorded (E8): [`Persistence::record`] returns the failure.
//! - **PERSISTENCE-3 (extent numbers).** Between an opening of the engine and the next one, no two
//!   extents get the same number. The next opening may reuse a number that the manifest never
//!   recorded.

use std::sync::atomic::{AtomicU64, Ordering};

use spillway_base::lock::{Mutex, MutexGuard};
use spillway_base::{Csn, ErrorKind, Result};

use super::health::Health;
use crate::extent_meta::ExtentId;
use crate::manifest::{Edit, Manifest};

/// The manifest of an engine, and what is persistent.
pub(super) struct Persistence {
    manifest: Mutex<Manifest>,
    /// The persistent CSN as it was last computed.
    persisted: AtomicU64,
    /// The persistent CSN that the manifest records.
    recorded: AtomicU64,
    /// Each table that a commit up to this CSN created is in the manifest, or was dropped.
    known: AtomicU64,
    next_extent: AtomicU64,
}

impl Persistence {
    /// What an opened manifest records.
    pub(super) fn new(manifest: Manifest) -> Persistence {
        let state = manifest.state();
        Persistence {
            persisted: AtomicU64::new(state.persisted.0),
            recorded: AtomicU64::new(state.persisted.0),
            known: AtomicU64::new(state.known.0),
            next_extent: AtomicU64::new(state.next_extent.0),
            manifest: Mutex::new(manifest),
        }
    }

    /// Locks the manifest to read it.
    pub(super) fn manifest(&self) -> MutexGuard<'_, Manifest> {
        self.manifest.lock()
    }

    /// Locks the manifest to record edits. If the engine has failed meanwhile, returns the failure:
    /// running work ends here, and the failure stays recorded.
    pub(super) fn record(&self, health: &Health) -> Result<MutexGuard<'_, Manifest>> {
        let manifest = self.manifest.lock();
        health.check()?;
        Ok(manifest)
    }

    /// Writes a fresh manifest when the old one is long, while other work records edits. A full
    /// disk does not stop the work: the old manifest stays in force.
    pub(super) fn rewrite_long_manifest(&self, health: &Health) -> Result<bool> {
        let Some(mut manifest) = self.manifest.try_lock() else { return Ok(false) };
        health.check()?;
        let Some(rewrite) = manifest.is_long().then(|| manifest.begin_rewrite()).flatten() else {
            return Ok(false);
        };
        drop(manifest);
        match rewrite.run(&self.manifest) {
            Err(error) if error.kind() == ErrorKind::DiskFull => Ok(false),
            rewritten => rewritten.map(|()| true),
        }
    }

    /// Writes a fresh manifest. If `beside`, other work records edits meanwhile; otherwise it
    /// waits. Returns the bytes of the manifest.
    pub(super) fn rewrite_manifest(&self, health: &Health, beside: bool) -> Result<u64> {
        let mut manifest = self.record(health)?;
        let rewrite = beside.then(|| manifest.begin_rewrite()).flatten();
        let Some(rewrite) = rewrite else {
            manifest.rewrite()?;
            return Ok(manifest.bytes());
        };
        drop(manifest);
        rewrite.run(&self.manifest)?;
        Ok(self.manifest.lock().bytes())
    }

    /// Records the persistent CSN in the manifest, if the recorded one is below the persistent CSN
    /// and below `csn`. `compute` returns the persistent CSN.
    pub(super) fn record_persisted(
        &self,
        health: &Health,
        csn: Csn,
        compute: impl FnOnce() -> Csn,
    ) -> Result<()> {
        let mut manifest = self.record(health)?;
        let persisted = compute();
        if manifest.state().persisted < csn.min(persisted) {
            manifest.commit(vec![Edit::Persisted { csn: persisted }])?;
            self.note_recorded(persisted);
        }
        Ok(())
    }

    /// Everything up to this CSN is persistent.
    pub(super) fn raise_persisted(&self, csn: Csn) {
        self.persisted.fetch_max(csn.0, Ordering::AcqRel);
    }

    /// The manifest records that everything up to this CSN is persistent.
    pub(super) fn note_recorded(&self, csn: Csn) {
        self.recorded.fetch_max(csn.0, Ordering::AcqRel);
        self.raise_persisted(csn);
    }

    /// The persistent CSN that the manifest records.
    pub(super) fn recorded(&self) -> Csn {
        Csn(self.recorded.load(Ordering::Acquire))
    }

    /// The persistent CSN as it was last computed.
    pub(super) fn persisted(&self) -> Csn {
        Csn(self.persisted.load(Ordering::Acquire))
    }

    /// The manifest knows of each table that a commit up to this CSN created or dropped.
    pub(super) fn raise_known(&self, csn: Csn) {
        self.known.fetch_max(csn.0, Ordering::AcqRel);
    }

    /// Whether the manifest knows of a table that this commit creates, or knew of it before it was
    /// dropped.
    pub(super) fn knows(&self, created: Csn) -> bool {
        created.0 <= self.known.load(Ordering::Acquire)
    }

    /// A number for a new extent.
    pub(super) fn new_extent_id(&self) -> ExtentId {
        ExtentId(self.next_extent.fetch_add(1, Ordering::Relaxed))
    }

    /// A number above those that were assigned so far.
    pub(super) fn next_extent_id(&self) -> ExtentId {
        ExtentId(self.next_extent.load(Ordering::Relaxed))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use spillway_base::Error;
    use spillway_storage::Disk;
    use spillway_storage::sim::SimDisk;

    use super::*;

    fn opened(disk: &SimDisk) -> Persistence {
        let (disk, dir): (Arc<dyn Disk>, _) = (Arc::new(disk.clone()), Path::new("/data"));
        disk.create_dir_all(dir).unwrap();
        Persistence::new(Manifest::open(disk, dir, 64 << 10, 1 << 20).unwrap())
    }

    #[test]
    fn persistence_1_and_2_the_persistent_csn_never_falls_and_a_failure_ends_records() {
        let disk = SimDisk::new(1);
        let (persistence, health) = (opened(&disk), Health::default());
        persistence.record_persisted(&health, Csn(9), || Csn(7)).unwrap();
        persistence.raise_persisted(Csn(5));
        assert_eq!(persistence.persisted(), Csn(7));
        health.fail(&Error::new(ErrorKind::WritesStopped, "a test"));
        let refused = persistence.record_persisted(&health, Csn(9), || Csn(8));
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::WritesStopped);
        assert_eq!(persistence.manifest().state().persisted, Csn(7));
        drop(persistence);
        assert_eq!(opened(&disk).persisted(), Csn(7));
    }
}
