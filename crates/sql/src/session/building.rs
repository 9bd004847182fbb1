//! Runs the steps of online index builds (`ddl/online`), in the session of the CREATE INDEX or
//! ALTER TABLE statement. After a crash or a shutdown, the next opening of the database starts a
//! thread that resumes the build.
//!
//! From its beginning to its end, a build holds an exclusive lock on the table's definition, so
//! that no other statement changes the definition. Other sessions can still read and change rows.
//! The build locks the table itself exclusively only for moments.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use spillway::{Csn, Transaction};
use spillway_base::thread;

use super::instance::{Inner, Instance};
use super::metadata::{HeldLocks, MetadataLockMode, Name, WaitLimits, definition_of};
use crate::catalog::{Catalog, Change, Progress, TableDef, unawaited};
use crate::ddl::{Pass, online};
use crate::errors::Result;
use crate::process::Stop;

/// A wait for the catalog that must not fail. Nobody holds the catalog for long.
const LONG: Duration = Duration::from_secs(365 * 24 * 3600);

/// The owner of a build: a statement, or the database itself.
pub(super) struct Owner<'a> {
    pub(super) stop: &'a Stop,
    /// How long the build waits for an exclusive lock of the table, while newcomers queue behind
    /// it. `None`: it waits without a limit, and lets newcomers go first.
    pub(super) wait: Option<Duration>,
    pub(super) stripe: usize,
    /// Whether LOCK TABLES already holds the table exclusively.
    pub(super) has_table: bool,
    /// Whether the owner's client has disconnected.
    pub(super) gone: &'a dyn Fn() -> bool,
    pub(super) begun: &'a dyn Fn(&Transaction),
    pub(super) progress: &'a dyn Fn(u64),
}

impl Owner<'_> {
    /// The database itself. No client waits for its build.
    fn background(stop: &Stop) -> Owner<'_> {
        Owner {
            stop,
            wait: None,
            stripe: 0,
            has_table: false,
            gone: &|| false,
            begun: &|_| {},
            progress: &|_| {},
        }
    }
}

/// A build that is under way.
pub(super) struct Build {
    table: Name,
    id: u32,
    last: Vec<u8>,
    _definition: HeldLocks,
}

impl Build {
    /// The build of a table that has one recorded in the catalog. The caller passes its exclusive
    /// lock of the table's definition.
    pub(super) fn new(table: &TableDef, last: Vec<u8>, definition: HeldLocks) -> Build {
        let name = (table.db.clone(), table.name.clone());
        Build { table: name, id: table.id, last, _definition: definition }
    }

    fn alone(&self, instance: &Instance, owner: &Owner<'_>) -> Result<HeldLocks> {
        if owner.has_table {
            return Ok(HeldLocks::default());
        }
        let metadata = &instance.0.metadata;
        let Some(wait) = owner.wait else {
            return metadata.take_gently(&self.table, owner.stripe, owner.stop);
        };
        let limits = WaitLimits { wait, stop: owner.stop, gone: owner.gone };
        let names = vec![(self.table.clone(), MetadataLockMode::Alone)];
        metadata.take(names, owner.stripe, &limits, |_| None)
    }

    /// Changes the table's entry in the catalog. The caller holds the table exclusively.
    fn turn(
        &self,
        instance: &Instance,
        wait: Option<Duration>,
        body: impl FnOnce(&Change<'_>, &TableDef) -> Result<()>,
        committed: impl FnOnce(Csn),
    ) -> Result<()> {
        let body = |txn: &Transaction, catalog: &Catalog| {
            body(&Change::new(txn)?, catalog.table(&self.table.0, &self.table.1)?)
        };
        instance.change_catalog(wait.unwrap_or(LONG), body, |(), csn| committed(csn))
    }

    /// Takes one step. Returns `true` after the last.
    fn step(&mut self, instance: &Instance, owner: &Owner<'_>) -> Result<bool> {
        let table = instance.0.catalog.load().table(&self.table.0, &self.table.1)?.clone();
        let stopped = || owner.stop.is_asked();
        let (db, begun) = (instance.database(), owner.begun);
        let pass = Pass { db, table: &table, stopped: &stopped, begun };
        let filled = table.becoming.as_ref().is_some_and(|becoming| becoming.filled);
        if !filled && pass.fill(&mut self.last)? {
            (owner.progress)(pass.percent(&self.last));
            return Ok(false);
        }
        if !filled && pass.is_unique() {
            let _alone = self.alone(instance, owner)?;
            self.turn(instance, owner.wait, online::note_filled, |_| {})?;
            return Ok(false);
        }
        if filled {
            pass.check()?;
        }
        let _alone = self.alone(instance, owner)?;
        // Only a snapshot that sees this commit may read through the index.
        let since = |csn| {
            let mut newest = instance.0.since.lock();
            newest.extend(table.building.iter().map(|index| (index.space, csn)));
        };
        self.turn(instance, owner.wait, online::finish, since)?;
        Ok(true)
    }

    /// Runs the build to its end. A failure removes the build, unless a shutdown caused it.
    pub(super) fn run(mut self, instance: &Instance, owner: &Owner<'_>) -> Result<()> {
        loop {
            match self.step(instance, owner) {
                Ok(false) => {}
                Ok(true) => return Ok(()),
                Err(error) => {
                    self.give_up(instance, owner);
                    return Err(error);
                }
            }
        }
    }

    /// Removes the build, unless the instance is closing: at once if nobody uses the table, else in
    /// a thread, so that neither the statement nor newcomers wait for the table's users. If that
    /// fails, the next opening removes it.
    fn give_up(self, instance: &Instance, owner: &Owner<'_>) {
        let closing = &instance.0.closing;
        if closing.is_asked() {
            return;
        }
        let _ = self.doom(instance);
        let alone = match owner.has_table {
            true => Ok(HeldLocks::default()),
            false => instance.0.metadata.take_briefly(&self.table, owner.stripe, closing),
        };
        if alone.is_ok() {
            let _ = self.turn(instance, None, online::abandon, |_| {});
        } else if instance.database().settings().background_threads {
            let _ = spawn(instance, vec![(self, true)]);
        }
    }

    fn doom(&self, instance: &Instance) -> Result<()> {
        let txn = instance.database().begin(unawaited());
        let progress = Progress { doomed: true, last: Vec::new() };
        Change::new(&txn)?.put_progress(self.id, &progress)?;
        Ok(txn.commit().wait().map(drop)?)
    }

    fn abandon(&self, instance: &Instance, owner: &Owner<'_>) -> Result<()> {
        let _alone = self.alone(instance, owner)?;
        self.turn(instance, owner.wait, online::abandon, |_| {})
    }
}

impl Instance {
    /// Removes builds that had failed before a crash or a shutdown, and resumes the others: in a
    /// thread, or at once if the database has no threads of its own.
    pub(super) fn resume_builds(&self) -> Result<()> {
        let catalog = self.0.catalog.load_full();
        let closing = self.0.closing.clone();
        let owner = Owner::background(&closing);
        let mut builds = Vec::new();
        for table in catalog.tables.values().filter(|table| table.becoming.is_some()) {
            let progress = {
                let txn = self.database().begin(unawaited().read_only(true));
                Change::new(&txn)?.progress(table.id)?
            };
            let name = (table.db.clone(), table.name.clone());
            let limits = WaitLimits::new(LONG, &closing);
            let definition = self.0.metadata.take(definition_of(&name), 0, &limits, |_| None)?;
            let build = Build::new(table, progress.last, definition);
            if progress.doomed {
                build.abandon(self, &owner)?;
            } else if self.database().settings().background_threads {
                builds.push((build, false));
            } else {
                match build.run(self, &owner) {
                    // The build has been removed, and no client waits for its error.
                    Err(error) if error.code == 1062 => {}
                    other => other?,
                }
            }
        }
        if builds.is_empty() { Ok(()) } else { spawn(self, builds) }
    }
}

/// Starts a thread that continues builds, or removes those that are marked `true`.
fn spawn(instance: &Instance, builds: Vec<(Build, bool)>) -> Result<()> {
    let (weak, closing) = (Arc::downgrade(&instance.0), instance.0.closing.clone());
    let mut builders = instance.0.builders.lock();
    builders.retain(|builder| !builder.is_finished());
    builders.push(thread::spawn("index builder", move || run_all(builds, &weak, &closing))?);
    Ok(())
}

/// Holds the instance only during a step, so that its last user can still drop it.
fn run_all(builds: Vec<(Build, bool)>, instance: &Weak<Inner>, closing: &Stop) {
    let owner = Owner::background(closing);
    for (mut build, mut doomed) in builds {
        loop {
            let Some(instance) = instance.upgrade().map(Instance) else { return };
            if doomed {
                let _ = build.abandon(&instance, &owner);
                break;
            }
            match build.step(&instance, &owner) {
                Ok(false) => {}
                Ok(true) => break,
                Err(_) if closing.is_asked() => return,
                Err(_) => {
                    let _ = build.doom(&instance);
                    doomed = true;
                }
            }
        }
    }
}

impl Instance {
    /// Ends the threads that build indexes, and the thread that rewrites rows. The next opening
    /// resumes their work.
    pub(super) fn end_building(&self) {
        self.0.closing.killed.store(true, Ordering::Release);
        self.0.metadata.wake();
        self.0.refreshing.wake();
        let threads = std::mem::take(&mut *self.0.builders.lock());
        for thread in threads {
            // A thread that panicked has reported it.
            let _ = thread::blocking(|| thread.join());
        }
    }
}

#[cfg(test)]
mod tests;
