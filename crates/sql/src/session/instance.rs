//! An open database that speaks SQL: its catalog, its processes, and its counters.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use rustc_hash::FxHashSet;
use spillway::{
    Csn, Database, Durability, Inspection, Isolation, LockMode, LockWait, Mechanism, Transaction,
    TransactionOptions,
};
use spillway_base::clock::Clock;
use spillway_base::lock::Mutex;
use spillway_base::thread::JoinHandle;
use spillway_inspect::Names;
use spillway_types::Value;

use super::counters::Counters;
use super::metadata::{MetadataLocks, Name};
use super::plan_cache::SharedPlanCache;
use super::refreshing::RefreshPasses;
use crate::api::Front;
use crate::catalog::{CATALOG, Catalog, Newest, TableDef, UserDef, remove_unnamed_spaces};
use crate::ddl::refresh;
use crate::errors::{Result, SqlError};
use crate::executor;
use crate::expression::{Server, Step};
use crate::information_schema::{Labels, virtual_rows};
use crate::privilege::AccountUse;
use crate::process::{Process, ProcessLine, Ran, Stop};
use crate::variables::{NamedLocks, VARIABLES, Variables, durability, storage_settings};

pub(super) struct Inner {
    /// Unique among the instances of the process.
    pub(super) number: u64,
    pub(super) db: Database,
    pub(super) catalog: ArcSwap<Catalog>,
    /// The version of `catalog`, or, while `catalog` is being replaced, of the previous catalog.
    version: AtomicU64,
    pub(super) counters: Counters,
    /// Whether the catalog in memory is behind the stored one. A change of the catalog holds the
    /// lock from before it reads the catalog until other sessions see the change.
    pub(super) changing: Mutex<bool>,
    pub(super) metadata: MetadataLocks,
    pub(super) named: Arc<NamedLocks>,
    pub(super) plan_cache: SharedPlanCache,
    pub(super) processes: Mutex<BTreeMap<u64, Arc<Process>>>,
    pub(super) globals: Mutex<Arc<BTreeMap<String, String>>>,
    pub(super) numbers: AtomicU64,
    /// The number of prepared statements of all sessions.
    pub(super) prepared: AtomicUsize,
    /// The counts of statements of ended sessions.
    pub(super) ran: Ran,
    pub(super) started: Duration,
    /// Whether a query that an index covers reads only the index.
    pub(super) index_only: bool,
    row_batches: bool,
    row_fields: bool,
    /// Whether point reads take their shorter path.
    pub(super) point_reads: bool,
    /// The most rows that a query with several lookups reads at once.
    looks_up_together: usize,
    pub(super) front: Mutex<Option<Weak<dyn Front>>>,
    /// How much accounts have used of their limits.
    pub(super) accounts: Arc<AccountUse>,
    /// Tells background work that the instance is closing.
    pub(super) closing: Arc<Stop>,
    /// The threads that continue or remove builds of indexes, and the thread that rewrites rows.
    pub(super) builders: Mutex<Vec<JoinHandle<()>>>,
    /// The passes that rewrite rows of tables.
    pub(super) refreshing: Arc<RefreshPasses>,
    /// For key spaces that were built since the opening: the commit from which on they are
    /// complete.
    pub(super) since: Mutex<BTreeMap<u32, Csn>>,
}

/// Returns a number that no other instance of this process has.
fn next_instance() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.counters.give_back(&self.db);
        self.refreshing.wake();
    }
}

/// An open database that speaks SQL. Cheap to clone.
#[derive(Clone)]
pub struct Instance(pub(super) Arc<Inner>);

impl Instance {
    /// Opens the catalog of a database. A new catalog has a user `root` without a password and a
    /// database `test`. Only one instance at a time may be open over a database: an opening removes
    /// what an earlier one left unfinished.
    ///
    /// # Errors
    /// 1034 for a damaged catalog, and errors of the database.
    pub fn open(db: Database) -> Result<Instance> {
        Instance::open_with_clock(db, Clock::system())
    }

    /// As [`Instance::open`], with a clock for the hours and days of accounts' limits.
    ///
    /// # Errors
    /// As [`Instance::open`].
    pub fn open_with_clock(db: Database, clock: Clock) -> Result<Instance> {
        let mut catalog = Catalog::load(&db)?;
        if refresh::forget_layouts(&db, &catalog)? {
            catalog = Catalog::load(&db)?;
        }
        // Removes what a crash left of an ALTER TABLE. The catalog names indexes that are being
        // built.
        remove_unnamed_spaces(&db, |_| true)?;
        let mut globals: BTreeMap<String, String> = VARIABLES
            .iter()
            .map(|(name, value, _)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        globals.extend(storage_settings(db.settings()));
        let durability = db.settings().durability;
        globals.insert(durability::NAME.to_owned(), durability::text(durability));
        globals.insert(durability::ALIAS.to_owned(), durability::number(durability).to_owned());
        let instance = Instance(Arc::new(Inner {
            number: next_instance(),
            index_only: db.settings().has(Mechanism::IndexOnly),
            row_batches: db.settings().has(Mechanism::RowBatches),
            row_fields: db.settings().has(Mechanism::RowFields),
            point_reads: db.settings().has(Mechanism::PointReads),
            looks_up_together: match db.settings().has(Mechanism::LookupBatches) {
                true => executor::together_max(db.settings().memory_bytes),
                false => 1,
            },
            plan_cache: SharedPlanCache::new(db.budget()),
            metadata: MetadataLocks::new(db.budget()),
            db,
            version: AtomicU64::new(catalog.version),
            catalog: ArcSwap::from_pointee(catalog),
            counters: Counters::default(),
            changing: Mutex::new(false),
            named: Arc::default(),
            processes: Mutex::default(),
            globals: Mutex::new(Arc::new(globals)),
            numbers: AtomicU64::new(1),
            prepared: AtomicUsize::new(0),
            ran: Ran::default(),
            started: spillway_base::clock::now(),
            front: Mutex::new(None),
            accounts: Arc::new(AccountUse::new(clock)),
            closing: Arc::default(),
            builders: Mutex::default(),
            refreshing: Arc::default(),
            since: Mutex::default(),
        }));
        // Waits until the state that the opening read is durable.
        let read = instance
            .0
            .db
            .begin(TransactionOptions::new().durability(Durability::Commit).read_only(true));
        read.take_newest_snapshot();
        read.wait_until_readable()?;
        drop(read);
        let catalog = instance.0.catalog.load_full();
        instance.have_rewritten(catalog.tables.values(), Csn::ZERO);
        instance.resume_builds()?;
        instance.refresh_crowded(catalog.tables.values());
        Ok(instance)
    }

    /// Ends background work, and returns reserved numbers that were not used, so that the next
    /// opening continues with both. Call it after the sessions have ended and before the database
    /// is closed. Without it, the next opening skips numbers, as after a crash.
    pub fn close(&self) {
        self.end_building();
        self.0.counters.give_back(&self.0.db);
    }

    /// The database that holds the tables.
    #[must_use]
    pub fn database(&self) -> &Database {
        &self.0.db
    }

    /// Returns a description of the stored data, with its names. Each sub-table is shown at one
    /// moment. Delays no other work.
    #[must_use]
    pub fn inspect(&self) -> (Inspection, Labels) {
        (self.0.db.inspect(), Labels::of(&self.0.catalog.load()))
    }

    /// Whether queries take adjacent rows in batches.
    pub(crate) fn takes_row_batches(&self) -> bool {
        self.0.row_batches
    }

    /// Whether columns of stored rows are passed on as fields instead of values.
    pub(crate) fn hands_fields_on(&self) -> bool {
        self.0.row_fields
    }

    /// The most rows that are read at once if a query looks up several; one if rows are never read
    /// together.
    pub(crate) fn looks_up_together(&self) -> usize {
        self.0.looks_up_together
    }

    /// The catalog that sessions see now.
    #[cfg(test)]
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        self.0.catalog.load_full()
    }

    /// The account that matches a user name and a client's host, for the handshake.
    #[must_use]
    pub fn user(&self, name: &str, host: &str) -> Option<UserDef> {
        self.0.catalog.load().user(name, host).cloned()
    }

    /// The number of accounts that use an authentication plugin, and the number of all accounts.
    #[must_use]
    pub fn accounts_with(&self, plugin: &str) -> (u64, u64) {
        let catalog = self.0.catalog.load();
        let having = catalog.users.values().filter(|user| user.plugin == plugin).count();
        (having as u64, catalog.users.len() as u64)
    }

    /// Whether an account `root` has no password.
    #[must_use]
    pub fn root_password_is_empty(&self) -> bool {
        self.0
            .catalog
            .load()
            .users
            .values()
            .any(|user| user.name == "root" && user.stored.is_empty())
    }

    /// The account of the session with this number.
    pub(super) fn owner_of(&self, connection_id: u64) -> Option<(String, String)> {
        let processes = self.0.processes.lock();
        let process = processes.get(&connection_id)?;
        Some((process.user.clone(), process.user_host.clone()))
    }

    /// Adds to an error the name of the table or index whose data is damaged, or whose row has
    /// changed. The error occurred in a transaction with this isolation.
    pub(super) fn name_table(&self, error: &mut SqlError, isolation: Option<Isolation>) {
        let Some(table) = error.table.take() else { return };
        let name = Labels::of(&self.0.catalog.load()).table(table);
        if !error.conflict {
            error.put_before(&format!("Incorrect key file for table '{name}'; "));
            return;
        }
        // The variable has no effect under SERIALIZABLE.
        let switch = match isolation {
            Some(Isolation::RepeatableRead) => ", or use innodb_snapshot_isolation = OFF",
            _ => "",
        };
        error.message = format!(
            "Row of table '{name}' has changed since the transaction began to read; \
             run the transaction again{switch}"
        );
    }

    /// The sessions that run a statement, each with a number that differs for its next statement.
    #[must_use]
    pub fn running(&self) -> Vec<(u64, u64)> {
        let processes = self.0.processes.lock();
        let running = processes.iter().filter_map(|(id, process)| Some((*id, process.running()?)));
        running.collect()
    }

    /// Interrupts a session's statement, or ends the session. Returns `false` if no session has
    /// this number.
    pub fn kill(&self, connection_id: u64, connection: bool) -> bool {
        let processes = self.0.processes.lock();
        let Some(process) = processes.get(&connection_id) else { return false };
        if connection {
            process.stop.killed.store(true, Ordering::Release);
        }
        process.interrupt(connection);
        drop(processes);
        self.0.metadata.wake();
        self.0.named.wake();
        if connection {
            self.wake(connection_id);
        }
        true
    }

    /// Interrupts every running statement, and all background work.
    pub fn shut_down(&self) {
        self.0.closing.killed.store(true, Ordering::Release);
        for process in self.0.processes.lock().values() {
            process.stop.killed.store(true, Ordering::Release);
            process.cancel();
        }
        self.0.metadata.wake();
        self.0.named.wake();
        self.end_building();
    }

    /// The number of open sessions, and the statements that all sessions have run since the
    /// opening.
    pub(super) fn asked(&self) -> (usize, Ran) {
        let processes = self.0.processes.lock();
        let sum = Ran::default();
        processes.values().for_each(|process| sum.add(&process.ran));
        sum.add(&self.0.ran);
        (processes.len(), sum)
    }

    /// The number of statements that ran as point reads.
    #[must_use]
    pub fn point_reads(&self) -> u64 {
        self.asked().1.points.into_inner()
    }

    /// The lines of SHOW STATUS about all sessions.
    pub(crate) fn status_lines(&self) -> Vec<(String, String)> {
        let (connected, ran) = self.asked();
        let number = |count: AtomicU64| count.into_inner().to_string();
        let mut lines = vec![
            ("Questions".to_owned(), number(ran.all)),
            ("Spillway_point_reads_total".to_owned(), number(ran.points)),
            ("Threads_connected".to_owned(), connected.to_string()),
            (
                "Uptime".to_owned(),
                (spillway_base::clock::now() - self.0.started).as_secs().to_string(),
            ),
        ];
        let metrics = self.0.db.metrics().into_iter();
        lines.extend(
            metrics.map(|metric| (format!("Spillway_{}", metric.name), metric.value.to_string())),
        );
        lines
    }

    /// The lines of the process list.
    pub(crate) fn process_lines(&self) -> Vec<ProcessLine> {
        let processes = self.0.processes.lock();
        processes.iter().map(|(id, process)| process.line(*id)).collect()
    }

    /// Returns a number that was not returned before, since the opening.
    pub(crate) fn next_number(&self) -> u64 {
        self.0.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Changes the catalog: `body` writes the change, a commit makes it durable, and then other
    /// sessions see it. One change runs at a time. Calls `committed` after the commit, before other
    /// sessions see the change.
    pub(super) fn change_catalog<T>(
        &self,
        wait: Duration,
        body: impl FnOnce(&Transaction, &Catalog) -> Result<T>,
        committed: impl FnOnce(T, Csn),
    ) -> Result<()> {
        let Some(mut behind) = self.0.changing.try_lock_for(wait) else {
            return Err(catalog_is_busy());
        };
        if *behind {
            self.reload()?;
            *behind = false;
        }
        let txn = self.0.db.begin(TransactionOptions::new());
        // The snapshot of a transaction that locks before it reads is the newest state.
        let space = txn.table(CATALOG)?;
        txn.forget_snapshot();
        txn.lock_name(space, b"ddl", LockMode::Exclusive, LockWait::Wait)?;
        let catalog = self.0.catalog.load_full();
        let outcome = body(&txn, &catalog)?;
        let written = txn.written(space)?;
        let csn = txn.commit().wait()?;
        committed(outcome, csn);
        *behind = true;
        self.take_in(&catalog, &written, csn)?;
        *behind = false;
        Ok(())
    }

    /// Publishes the catalog with the entries that a change has written. Unchanged tables cost
    /// nothing.
    fn take_in(
        &self,
        before: &Catalog,
        written: &[(Vec<u8>, Option<Vec<u8>>)],
        csn: Csn,
    ) -> Result<()> {
        let mut fresh = before.clone();
        fresh.version += 1;
        let (old, new) = fresh.change(written)?;
        let mut since = self.0.since.lock();
        let tables = new.iter().filter_map(|name| fresh.tables.get(name));
        let named: FxHashSet<u32> = tables.flat_map(|table| table.spaces()).collect();
        let gone = old.iter().flat_map(|table| table.spaces());
        for space in gone.filter(|space| !named.contains(space)) {
            since.remove(&space);
            self.0.refreshing.forget(space);
        }
        for name in &new {
            fresh.tell_since(name, &since);
        }
        drop(since);
        self.have_rewritten(new.iter().filter_map(|name| fresh.tables.get(name)), csn);
        self.forget_forms(&fresh, new.iter());
        let changed: Vec<_> =
            new.iter().filter_map(|name| fresh.tables.get(name).cloned()).collect();
        self.replace_catalog(fresh);
        self.refresh_crowded(changed.iter());
        Ok(())
    }

    /// Switches sessions to another catalog. A session that changes a table holds it exclusively
    /// until this returns.
    fn replace_catalog(&self, fresh: Catalog) {
        let version = fresh.version;
        self.0.catalog.store(Arc::new(fresh));
        self.0.version.store(version, Ordering::SeqCst);
    }

    /// The version of the catalog. A catalog that is loaded afterwards has this version or a newer
    /// one.
    pub(super) fn catalog_version(&self) -> u64 {
        self.0.version.load(Ordering::SeqCst)
    }

    /// Makes flushes and compactions write rows of these tables in the newest version, once `since`
    /// is durable.
    fn have_rewritten<'t>(&self, tables: impl Iterator<Item = &'t Arc<TableDef>>, since: Csn) {
        for table in tables {
            self.0.db.set_rewrite(table.rows(), since, Newest::of(table));
        }
    }

    /// Makes caches drop rows in layouts that `fresh` removes, before sessions see `fresh`. A
    /// compaction may have rewritten such a row and left the cached one as it was (`ddl/refresh`,
    /// ROW-REWRITE-3).
    fn forget_forms<'n>(&self, fresh: &Catalog, names: impl Iterator<Item = &'n Name>) {
        let seen = self.0.catalog.load();
        for (name, table) in names.filter_map(|name| fresh.tables.get_key_value(name)) {
            let is_it = |before: &&Arc<TableDef>| before.space == table.space;
            let named = seen.tables.get(name).filter(is_it);
            let before = named.or_else(|| seen.tables.values().find(is_it));
            if before.is_some_and(|before| before.oldest_layout() < table.oldest_layout()) {
                self.0.db.forget_forms(table.rows());
            }
        }
    }

    /// Loads the catalog again.
    fn reload(&self) -> Result<()> {
        let mut fresh = Catalog::load(&self.0.db)?;
        fresh.version = self.0.catalog.load().version + 1;
        let since = self.0.since.lock();
        let names: Vec<Name> = fresh.tables.keys().cloned().collect();
        names.iter().for_each(|name| fresh.tell_since(name, &since));
        drop(since);
        self.forget_forms(&fresh, names.iter());
        self.replace_catalog(fresh);
        Ok(())
    }

    /// Records that these key spaces were filled in several commits before `csn`, the commit that
    /// put them into the catalog. Only snapshots that see `csn` may read them.
    pub(super) fn note_built(&self, spaces: &[u32], csn: Csn) {
        self.0.since.lock().extend(spaces.iter().map(|space| (*space, csn)));
    }
}

/// 1205: the catalog is being changed.
fn catalog_is_busy() -> SqlError {
    SqlError::new(1205, "Lock wait timeout exceeded; try restarting transaction")
}

impl Server for Instance {
    fn database(&self) -> &Database {
        self.database()
    }

    fn takes_row_batches(&self) -> bool {
        self.takes_row_batches()
    }

    fn hands_fields_on(&self) -> bool {
        self.hands_fields_on()
    }

    fn looks_up_together(&self) -> usize {
        self.looks_up_together()
    }

    fn next_number(&self) -> u64 {
        self.next_number()
    }

    fn next_row_number(&self, txn: &Transaction, table: &TableDef) -> Result<u64> {
        self.0.counters.next_row_number(&self.0.db, txn, table)
    }

    fn next_auto_increment(&self, txn: &Transaction, table: &TableDef, step: Step) -> Result<u64> {
        self.0.counters.next_auto_increment(&self.0.db, txn, table, step)
    }

    fn note_auto_increment(&self, txn: &Transaction, table: &TableDef, given: u64) -> Result<()> {
        self.0.counters.note_auto_increment(&self.0.db, txn, table, given)
    }

    fn auto_increment_of(&self, table: &TableDef) -> u64 {
        self.0.counters.auto_increment_of(&self.0.db, table)
    }

    fn process_lines(&self) -> Vec<ProcessLine> {
        self.process_lines()
    }

    fn virtual_rows(
        &self,
        catalog: &Catalog,
        variables: &RefCell<Variables>,
        name: &str,
    ) -> Vec<Vec<Value>> {
        virtual_rows(self, catalog, variables, name)
    }
}
