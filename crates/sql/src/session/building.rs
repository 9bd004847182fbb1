//! Who runs the steps of building indexes online (`ddl/online`): the statement that asked for them, or, after a crash or a shutdown
//! in the middle, a thread from the opening on.
//!
//! A build has its table's definition to itself from its beginning to its end, so that no other statement changes it, and the table
//! alone only for moments.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use spillway::{Csn, Transaction};
use spillway_base::thread;

use super::instance::{Inner, Instance, Stop};
use super::metadata::{Held, Mode, Name, Patience, definition_of};
use crate::catalog::{Catalog, Change, Progress, TableDef, unawaited};
use crate::ddl::{Pass, online};
use crate::errors::{Result, SqlError};

/// A wait that only a shutdown ends.
const LONG: Duration = Duration::from_secs(365 * 24 * 3600);

/// Whose build it is.
pub(super) struct Owner<'a> {
    pub(super) stop: &'a Stop,
    /// How long it waits to have the table alone.
    pub(super) wait: Duration,
    pub(super) stripe: usize,
    /// Whether it has the table alone already, by LOCK TABLES.
    pub(super) has_table: bool,
    pub(super) begun: &'a dyn Fn(&Transaction),
    pub(super) progress: &'a dyn Fn(u64),
}

/// A build that is under way.
pub(super) struct Build {
    table: Name,
    id: u32,
    last: Vec<u8>,
    _definition: Held,
}

impl Build {
    /// The build of a table that the catalog says becomes another, by who has its definition.
    pub(super) fn new(table: &TableDef, last: Vec<u8>, definition: Held) -> Build {
        let name = (table.db.clone(), table.name.clone());
        Build { table: name, id: table.id, last, _definition: definition }
    }

    fn alone(&self, instance: &Instance, owner: &Owner<'_>) -> Result<Held> {
        if owner.has_table {
            return Ok(Held::default());
        }
        let patience = Patience { wait: owner.wait, stop: owner.stop };
        let names = vec![(self.table.clone(), Mode::Alone)];
        instance.0.metadata.take(names, owner.stripe, &patience, |_| false)
    }

    /// Changes the table's entry in the catalog. The caller has the table alone.
    fn turn(
        &self,
        instance: &Instance,
        wait: Duration,
        body: impl FnOnce(&Change<'_>, &TableDef) -> Result<()>,
        committed: impl FnOnce(Csn),
    ) -> Result<()> {
        let body = |txn: &Transaction, catalog: &Catalog| {
            body(&Change::new(txn)?, catalog.table(&self.table.0, &self.table.1)?)
        };
        instance.change_catalog(wait, body, |(), csn| committed(csn))
    }

    /// Takes one step. `true` after the last.
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
        // Who reads through the index must see this.
        let since = |csn| {
            let mut newest = instance.0.since.lock();
            newest.extend(table.building.iter().map(|index| (index.space, csn)));
        };
        self.turn(instance, owner.wait, online::finish, since)?;
        Ok(true)
    }

    /// Runs it to its end. A build that fails is gone, but for one that a shutdown ends.
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

    /// Drops what was built, unless the instance is closed. What cannot be dropped now is dropped at the next opening.
    fn give_up(&self, instance: &Instance, owner: &Owner<'_>) {
        let closing = &instance.0.closing;
        if closing.is_asked() {
            return;
        }
        let _ = self.doom(instance);
        let patient = Owner { stop: closing, wait: LONG, ..*owner };
        let _ = self.abandon(instance, &patient);
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

/// Goes on with builds that were cut off, or drops those that were to be dropped: in a thread, or at once where the
/// database has no threads of its own.
pub(super) fn resume(instance: &Instance) -> Result<()> {
    let catalog = instance.0.catalog.load_full();
    let closing = instance.0.closing.clone();
    let owner = Owner {
        stop: &closing,
        wait: LONG,
        stripe: 0,
        has_table: false,
        begun: &|_| {},
        progress: &|_| {},
    };
    let mut builds = Vec::new();
    for table in catalog.tables.values().filter(|table| table.becoming.is_some()) {
        let progress = {
            let txn = instance.database().begin(unawaited().read_only(true));
            Change::new(&txn)?.progress(table.id)?
        };
        let name = (table.db.clone(), table.name.clone());
        let patience = Patience { wait: LONG, stop: &closing };
        let definition = instance.0.metadata.take(definition_of(&name), 0, &patience, |_| false)?;
        let build = Build::new(table, progress.last, definition);
        if progress.doomed {
            build.abandon(instance, &owner)?;
        } else if instance.database().settings().background_threads {
            builds.push(build);
        } else {
            match build.run(instance, &owner) {
                // It is gone: nobody is there to be told.
                Err(error) if error.code == 1062 => {}
                other => other?,
            }
        }
    }
    if builds.is_empty() {
        return Ok(());
    }
    let weak = Arc::downgrade(&instance.0);
    let thread = thread::spawn("index builder", move || run_all(builds, &weak, &closing))?;
    *instance.0.builder.lock() = Some(thread);
    Ok(())
}

/// Holds the instance only while a step is taken, so that it ends with its last user.
fn run_all(builds: Vec<Build>, instance: &Weak<Inner>, closing: &Stop) {
    let owner = Owner {
        stop: closing,
        wait: LONG,
        stripe: 0,
        has_table: false,
        begun: &|_| {},
        progress: &|_| {},
    };
    for mut build in builds {
        loop {
            let Some(instance) = instance.upgrade().map(Instance) else { return };
            match build.step(&instance, &owner) {
                Ok(false) => {}
                Ok(true) => break,
                Err(_) if closing.is_asked() => return,
                Err(_) => {
                    build.give_up(&instance, &owner);
                    break;
                }
            }
        }
    }
}

impl Instance {
    /// Ends the thread that builds. The next opening goes on with what it leaves.
    pub(super) fn end_building(&self) {
        self.0.closing.killed.store(true, Ordering::Release);
        self.0.metadata.wake();
        let thread = self.0.builder.lock().take();
        if let Some(thread) = thread {
            // A builder that panicked has said so.
            let _ = thread::blocking(|| thread.join());
        }
    }
}

/// 1205: the catalog is being changed.
pub(super) fn catalog_is_busy() -> SqlError {
    SqlError::new(1205, "Lock wait timeout exceeded; try restarting transaction")
}
