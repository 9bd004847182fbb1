//! Metadata locks: shared by the users of a table, exclusive for its changes.
//!
//! A statement shares its tables until its transaction ends; a change of a table holds it
//! exclusively; LOCK TABLES keeps a table from changes of rows, or from everybody. A database is
//! locked under its name alone: shared by changes of its tables, and held exclusively by DROP
//! DATABASE.
//!
//! A statement takes its locks in one order, the database's first. A waiter for exclusive use lets
//! no newcomers in before it, or it might wait forever; a session that uses the table already may
//! use it in another way as well.
//!
//! Sharing is on the path of every statement, so users are counted in several places, each session
//! in its own: two sessions seldom write the same cache line. A user first counts itself and then
//! checks whether the table is closed; a closer first closes it and then reads the counts; so one
//! of the two sees the other.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use smallvec::SmallVec;
use spillway_base::lock::{Condvar, Mutex, MutexGuard};
use spillway_base::thread::blocking;
use sqlparser::tokenizer::Token;

use super::Session;
use crate::errors::{Result, SqlError};
use crate::names;
use crate::parser::{parts_of, path_of, solid, split_commas, word};
use crate::privilege::{Need, tables_of};
use crate::process::Stop;

/// Database and name of a table; the name is empty for the database itself.
pub(super) type Name = (String, String);

/// How a table is used, from the weakest to the strongest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Mode {
    Read,
    Write,
    /// LOCK TABLES ... READ: rows are read, and nobody changes them.
    Keep,
    Alone,
}

const STRIPES: usize = 16;

/// To whom a table is closed.
const TO_WRITERS: u8 = 1;
const TO_ALL: u8 = 2;
/// Closed to nobody: who leaves tells those that wait.
const WATCHED: u8 = 4;
/// How long one that has all the time keeps newcomers out to have a table alone, and how often at
/// most and at least.
const MOMENT: Duration = Duration::from_millis(100);
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(64);

#[derive(Default)]
#[repr(align(128))]
struct Stripe {
    readers: AtomicU32,
    writers: AtomicU32,
}

/// Those that are not counted in stripes.
#[derive(Default)]
struct Few {
    keeping: usize,
    alone: bool,
    /// Those that wait to have it alone.
    waiting: usize,
    /// Those that wait until nobody uses it, and keep nobody out for that.
    watching: usize,
}

/// One table's lock.
pub(super) struct TableLock {
    name: Name,
    stripes: [Stripe; STRIPES],
    closed: AtomicU8,
    few: Mutex<Few>,
    changed: Condvar,
}

/// The locks of tables: by name, so that a name can be locked before there is a table.
#[derive(Default)]
pub(super) struct MetadataLocks {
    locks: Mutex<HashMap<Name, Arc<TableLock>>>,
}

impl MetadataLocks {
    /// Lets those who wait see whether they are still to.
    pub(super) fn wake(&self) {
        for lock in self.locks.lock().values() {
            if lock.closed.load(SeqCst) != 0 {
                let _few = lock.few.lock();
                lock.changed.notify_all();
            }
        }
    }

    /// Takes locks, in one order. `held` says how the session has a name locked already.
    pub(super) fn take(
        &self,
        mut names: Vec<(Name, Mode)>,
        stripe: usize,
        patience: &Patience<'_>,
        held: impl Fn(&Name) -> Option<Mode>,
    ) -> Result<Held> {
        // The strongest mode of each name stays: nobody waits for itself.
        names.sort_by(|(a, one), (b, other)| a.cmp(b).then(other.cmp(one)));
        names.dedup_by(|(a, _), (b, _)| a == b);
        let mut taken = Held { locks: Vec::new(), stripe, at_hand: SmallVec::new() };
        for (name, mode) in names {
            let before = held(&name);
            if before == Some(Mode::Alone) {
                continue;
            }
            let lock = self.of(&name);
            lock.lock(mode, stripe, before.is_some(), patience)?;
            taken.locks.push((lock, mode));
        }
        Ok(taken)
    }

    /// Takes a table alone, or gives up after a moment.
    pub(super) fn take_briefly(&self, name: &Name, stripe: usize, stop: &Stop) -> Result<Held> {
        let patience = Patience::new(MOMENT, stop);
        self.take(vec![(name.clone(), Mode::Alone)], stripe, &patience, |_| None)
    }

    /// Takes a table alone for who has all the time: newcomers are kept out for moments only, when
    /// nobody uses the table, or else ever more seldom.
    pub(super) fn take_gently(&self, name: &Name, stripe: usize, stop: &Stop) -> Result<Held> {
        let mut pause = PAUSE_MIN;
        loop {
            match self.take_briefly(name, stripe, stop) {
                Err(error) if error.code == 1205 => {}
                outcome => return outcome,
            }
            match self.of(name).watch(&Patience::new(pause, stop)) {
                Err(error) if error.code == 1205 => pause = (pause * 2).min(PAUSE_MAX),
                outcome => outcome?,
            }
        }
    }

    /// The lock of a table.
    pub(super) fn of(&self, name: &Name) -> Arc<TableLock> {
        let mut locks = self.locks.lock();
        if let Some(lock) = locks.get(name) {
            return lock.clone();
        }
        if locks.len() >= 1024 && locks.len().is_power_of_two() {
            // Those that nobody holds or keeps for a statement.
            locks.retain(|_, lock| Arc::strong_count(lock) > 1);
        }
        let lock = Arc::new(TableLock::new(name.clone()));
        locks.insert(name.clone(), lock.clone());
        lock
    }
}

/// When a wait ends without what it was for.
pub(super) struct Patience<'a> {
    pub(super) wait: Duration,
    pub(super) stop: &'a Stop,
    /// Whether the client that the wait is for has gone. A wait asks before it begins, and every
    /// [`LOOK`].
    pub(super) gone: &'a dyn Fn() -> bool,
}

/// How often a wait looks whether its client has gone. Until then it keeps newcomers out for
/// nobody.
const LOOK: Duration = Duration::from_secs(1);

impl<'a> Patience<'a> {
    /// The patience of one that no client waits for.
    pub(super) fn new(wait: Duration, stop: &'a Stop) -> Patience<'a> {
        Patience { wait, stop, gone: &|| false }
    }
}

/// What is locked by who changes a table's definition, from before it looks at it until it is done:
/// the database, and the definition, which has a name that no table has. Rows are read and written
/// meanwhile, but for when the table is had alone, too.
pub(super) fn definition_of(table: &Name) -> Vec<(Name, Mode)> {
    let definition = (table.0.clone(), format!("\0{}", table.1));
    vec![((table.0.clone(), String::new()), Mode::Read), (definition, Mode::Alone)]
}

impl TableLock {
    fn new(name: Name) -> TableLock {
        TableLock {
            name,
            stripes: Default::default(),
            closed: AtomicU8::new(0),
            few: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    pub(super) fn name(&self) -> &Name {
        &self.name
    }

    fn count(&self, stripe: usize, mode: Mode) -> &AtomicU32 {
        let stripe = &self.stripes[stripe % STRIPES];
        if mode == Mode::Write { &stripe.writers } else { &stripe.readers }
    }

    fn writers(&self) -> u32 {
        self.stripes.iter().map(|stripe| stripe.writers.load(SeqCst)).sum()
    }

    fn readers(&self) -> u32 {
        self.stripes.iter().map(|stripe| stripe.readers.load(SeqCst)).sum()
    }

    /// Closes the table to those that must stay out.
    fn close(&self, few: &Few) {
        let all = if few.alone || few.waiting > 0 { TO_ALL } else { 0 };
        let writers = if few.keeping > 0 { TO_WRITERS } else { 0 };
        let watched = if few.watching > 0 { WATCHED } else { 0 };
        self.closed.store(all | writers | watched, SeqCst);
        self.changed.notify_all();
    }

    /// Locks the table; `held` says whether the session has it in another mode, which is not
    /// [`Mode::Alone`].
    ///
    /// # Errors
    /// 1205 after its patience, 1317 where it is stopped; 1213 at once where the session would wait
    /// for itself.
    fn lock(&self, mode: Mode, stripe: usize, held: bool, patience: &Patience<'_>) -> Result<()> {
        if held && mode > Mode::Write {
            let text = "Deadlock found when trying to get lock; try restarting transaction";
            return Err(SqlError::new(1213, text));
        }
        match mode {
            Mode::Read | Mode::Write => self.share(mode, stripe, held, patience),
            Mode::Keep => {
                let mut few = self.few.lock();
                self.wait(&mut few, patience, |few| !few.alone && few.waiting == 0)?;
                few.keeping += 1;
                self.close(&few);
                self.wait(&mut few, patience, |_| self.writers() == 0).inspect_err(|_| {
                    few.keeping -= 1;
                    self.close(&few);
                })
            }
            Mode::Alone => {
                let mut few = self.few.lock();
                few.waiting += 1;
                self.close(&few);
                let outcome = self.wait(&mut few, patience, |few| {
                    !few.alone && few.keeping == 0 && self.readers() + self.writers() == 0
                });
                few.waiting -= 1;
                few.alone |= outcome.is_ok();
                self.close(&few);
                outcome
            }
        }
    }

    /// Waits until nobody uses the table, which stays open.
    fn watch(&self, patience: &Patience<'_>) -> Result<()> {
        let mut few = self.few.lock();
        few.watching += 1;
        self.close(&few);
        let outcome = self.wait(&mut few, patience, |few| {
            !few.alone && few.keeping == 0 && self.readers() + self.writers() == 0
        });
        few.watching -= 1;
        self.close(&few);
        outcome
    }

    fn share(&self, mode: Mode, stripe: usize, held: bool, patience: &Patience<'_>) -> Result<()> {
        let mut shut = if mode == Mode::Write { TO_ALL | TO_WRITERS } else { TO_ALL };
        if held {
            // Nobody is alone then, and who waits for that waits for this session.
            shut &= !TO_ALL;
        }
        while !self.enter(mode, stripe, shut) {
            let mut few = self.few.lock();
            self.wait(&mut few, patience, |_| self.closed.load(SeqCst) & shut == 0)?;
        }
        Ok(())
    }

    /// Shares the table, unless it is closed to those who are `shut` out.
    fn enter(&self, mode: Mode, stripe: usize, shut: u8) -> bool {
        self.count(stripe, mode).fetch_add(1, SeqCst);
        let is_open = self.closed.load(SeqCst) & shut == 0;
        if !is_open {
            self.leave(mode, stripe);
        }
        is_open
    }

    /// Shares the table for reading, if it is open.
    pub(super) fn read_at_once(&self, stripe: usize) -> bool {
        self.enter(Mode::Read, stripe, TO_ALL)
    }

    pub(super) fn leave(&self, mode: Mode, stripe: usize) {
        self.count(stripe, mode).fetch_sub(1, SeqCst);
        if self.closed.load(SeqCst) != 0 {
            let _few = self.few.lock();
            self.changed.notify_all();
        }
    }

    fn unlock(&self, mode: Mode, stripe: usize) {
        match mode {
            Mode::Read | Mode::Write => return self.leave(mode, stripe),
            _ => {}
        }
        let mut few = self.few.lock();
        if mode == Mode::Keep {
            few.keeping -= 1;
        } else {
            few.alone = false;
        }
        self.close(&few);
    }

    fn wait(
        &self,
        few: &mut MutexGuard<'_, Few>,
        patience: &Patience<'_>,
        ready: impl Fn(&Few) -> bool,
    ) -> Result<()> {
        let clock = spillway_base::clock::Clock::system();
        let end = clock.now() + patience.wait;
        while !ready(few) {
            if clock.now() >= end {
                let text = "Lock wait timeout exceeded; try restarting transaction";
                return Err(SqlError::new(1205, text));
            }
            if patience.stop.is_asked() || (patience.gone)() {
                return Err(SqlError::new(1317, "Query execution was interrupted"));
            }
            let left = end.saturating_sub(clock.now());
            blocking(|| self.changed.wait_for(few, left.min(LOOK)));
        }
        Ok(())
    }
}

/// Locks that a session had, and may soon have again, are kept at hand: so many. To count a
/// reference anew is to change memory that all sessions share.
const AT_HAND: usize = 4;

/// Locks that are held; dropping it gives them back.
#[derive(Default)]
pub(super) struct Held {
    locks: Vec<(Arc<TableLock>, Mode)>,
    stripe: usize,
    /// Of those that were given back, some; nothing is locked by that.
    at_hand: SmallVec<[Arc<TableLock>; AT_HAND]>,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.clear();
    }
}

impl Held {
    fn clear(&mut self) {
        for (lock, mode) in self.locks.drain(..) {
            lock.unlock(mode, self.stripe);
            if self.at_hand.len() < AT_HAND {
                self.at_hand.push(lock);
            }
        }
    }

    /// Notes a lock that was taken.
    fn took(&mut self, lock: &Arc<TableLock>, mode: Mode) {
        let known = self.at_hand.iter().position(|known| Arc::ptr_eq(known, lock));
        let lock = match known {
            Some(at) => self.at_hand.swap_remove(at),
            None => {
                // The sessions' tables are others now.
                self.at_hand.clear();
                lock.clone()
            }
        };
        self.locks.push((lock, mode));
    }

    /// How a table is held.
    fn mode(&self, name: &Name) -> Option<Mode> {
        self.locks.iter().find(|(held, _)| held.name == *name).map(|(_, mode)| *mode)
    }

    /// Has a table for reading as well, if that is so or to be had at once.
    pub(super) fn read_at_once(&mut self, lock: &Arc<TableLock>, stripe: usize) -> bool {
        if self.has(lock, Mode::Read) {
            return true;
        }
        self.stripe = stripe;
        let shared = lock.read_at_once(stripe);
        if shared {
            self.took(lock, Mode::Read);
        }
        shared
    }

    fn has(&self, lock: &TableLock, mode: Mode) -> bool {
        self.locks.iter().any(|(held, has)| {
            std::ptr::eq(&**held, lock)
                && (*has == mode || (mode, *has) == (Mode::Read, Mode::Write))
        })
    }
}

/// How the tables are held that a statement needs, in their order (NEED-5).
pub(super) fn modes_of(needs: &[Need]) -> Vec<(Name, Mode)> {
    let mode = |writes: bool| if writes { Mode::Write } else { Mode::Read };
    tables_of(needs).into_iter().map(|(name, writes)| (name, mode(writes))).collect()
}

/// The locks that a statement takes, in order.
pub(super) fn locks_of(locks: &MetadataLocks, needs: &[Need]) -> Vec<(Arc<TableLock>, Mode)> {
    modes_of(needs).into_iter().map(|(name, mode)| (locks.of(&name), mode)).collect()
}

impl Session {
    /// Takes names. The session has those that its transaction uses, and `before`.
    fn lock_names(&self, names: Vec<(Name, Mode)>, before: &Held) -> Result<Held> {
        let (instance, id) = (&self.instance, self.connection_id);
        let gone = || instance.is_gone(id);
        let patience = Patience { wait: self.lock_wait(), stop: &self.process.stop, gone: &gone };
        let stripe = id as usize;
        let held = |name: &Name| self.held.mode(name).max(before.mode(name));
        instance.0.metadata.take(names, stripe, &patience, held)
    }

    /// Takes tables for a change of them: their definitions, and then the tables.
    pub(super) fn have_alone(&self, tables: &[Name]) -> Result<(Held, Held)> {
        let definitions = self.have_definitions(tables)?;
        let tables = self.have_tables_alone(tables, &definitions)?;
        Ok((definitions, tables))
    }

    /// Takes the definitions of tables, which keeps others from changing them, and not from their
    /// rows. A table that does not exist has a name that one may have (NAME-2).
    pub(super) fn have_definitions(&self, tables: &[Name]) -> Result<Held> {
        let catalog = self.instance.0.catalog.load();
        let new = |(db, name): &&Name| catalog.table(db, name).is_err();
        tables.iter().filter(new).try_for_each(|(db, name)| names::check_table(db, name))?;
        for table in tables {
            match self.locked.as_ref().map(|locked| locked.mode(table)) {
                Some(Some(Mode::Alone)) | None => {}
                Some(Some(_)) => return Err(read_locked(table)),
                Some(None) => return Err(not_locked(table)),
            }
        }
        let names = tables.iter().flat_map(definition_of);
        // LOCK TABLES has the definitions, and not the database.
        let wanted = |(name, _): &(Name, Mode)| self.locked.is_none() || name.1.is_empty();
        self.lock_names(names.filter(wanted).collect(), &Held::default())
    }

    /// Takes tables alone whose definitions the session has, unless LOCK TABLES has them so
    /// already.
    pub(super) fn have_tables_alone(&self, tables: &[Name], definitions: &Held) -> Result<Held> {
        if self.locked.is_some() {
            return Ok(Held::default());
        }
        let alone = |table: &Name| (table.clone(), Mode::Alone);
        self.lock_names(tables.iter().map(alone).collect(), definitions)
    }

    /// Takes tables for using them beside the session's transaction.
    pub(super) fn share_tables(&self, tables: Vec<(Name, Mode)>) -> Result<Held> {
        let Some(locked) = &self.locked else { return self.lock_names(tables, &Held::default()) };
        for (name, mode) in &tables {
            check_mode(locked, name, *mode)?;
        }
        Ok(Held::default())
    }

    /// Takes databases alone, and then the tables that are in them.
    pub(super) fn have_databases_alone(&self, databases: &[String]) -> Result<(Held, Held)> {
        if self.locked.is_some() {
            let text = "Can't execute the given command because you have active locked tables or an active transaction";
            return Err(SqlError::new(1192, text));
        }
        let whole = |db: &String| ((db.clone(), String::new()), Mode::Alone);
        let catalog = self.instance.0.catalog.load_full();
        let new = databases.iter().filter(|name| !catalog.has_database(name));
        new.clone().try_for_each(|name| names::check_database(name))?;
        let names = databases.iter().map(whole).collect();
        let databases_held = self.lock_names(names, &Held::default())?;
        let catalog = self.instance.0.catalog.load_full();
        let tables = databases.iter().flat_map(|db| catalog.tables_of(db));
        let tables =
            tables.map(|table| ((table.db.clone(), table.name.clone()), Mode::Alone)).collect();
        let tables_held = self.lock_names(tables, &databases_held)?;
        Ok((databases_held, tables_held))
    }

    pub(super) fn release_tables(&mut self) {
        self.held.clear();
    }

    /// Takes the tables that a statement names, until its transaction ends.
    pub(super) fn use_tables(&mut self, tables: &[(Arc<TableLock>, Mode)]) -> Result<()> {
        if self.locked.is_some() {
            // It has them, or would not have come here.
            return Ok(());
        }
        let (instance, id) = (&self.instance, self.connection_id);
        let gone = || instance.is_gone(id);
        let patience = Patience { wait: self.lock_wait(), stop: &self.process.stop, gone: &gone };
        let held = &mut self.held;
        held.stripe = id as usize;
        for (lock, mode) in tables {
            if held.has(lock, *mode) {
                continue;
            }
            let more = held.locks.iter().any(|(other, _)| Arc::ptr_eq(other, lock));
            lock.lock(*mode, held.stripe, more, &patience)?;
            held.took(lock, *mode);
        }
        Ok(())
    }

    /// Under LOCK TABLES, only those tables may be used, and as they were locked.
    pub(super) fn check_locked(&self, tables: &[(Name, Mode)]) -> Result<()> {
        let Some(locked) = &self.locked else { return Ok(()) };
        tables.iter().try_for_each(|(name, mode)| check_mode(locked, name, *mode))
    }

    /// LOCK TABLES: for this session until UNLOCK TABLES, the next transaction that is begun, or
    /// its end.
    pub(super) fn lock_tables(&mut self, tokens: &[Token]) -> Result<()> {
        self.commit()?;
        self.locked = None;
        let database = self.variables.borrow().database.clone();
        let catalog = self.instance.0.catalog.load_full();
        let mut names = Vec::new();
        for part in split_commas(tokens) {
            let part = solid(&part);
            let words: Vec<String> = part.iter().map(|token| word(Some(token))).collect();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let (mode, rest) = match words.as_slice() {
                [rest @ .., "read"] | [rest @ .., "read", "local"] => (Mode::Keep, rest.len()),
                [rest @ .., "low_priority", "write"] | [rest @ .., "write"] => {
                    (Mode::Alone, rest.len())
                }
                _ => return Err(SqlError::syntax("LOCK TABLES t READ or WRITE")),
            };
            // An alias may follow the name.
            let len = if part.get(1) == Some(&Token::Period) { 3 } else { 1 };
            if rest < len {
                return Err(SqlError::syntax("LOCK TABLES t READ or WRITE"));
            }
            let name = path_of(&parts_of(&part[..len])?, database.as_deref())?;
            self.check_table(&["LOCK TABLES"], &name.0, Some(&name.1))?;
            self.check_table(&["SELECT"], &name.0, Some(&name.1))?;
            catalog.table(&name.0, &name.1)?;
            if mode == Mode::Alone {
                // It may change them, and the holder of a definition may wait for the table.
                names.extend(
                    definition_of(&name).into_iter().filter(|(name, _)| !name.1.is_empty()),
                );
            }
            names.push((name, mode));
        }
        if names.is_empty() {
            return Err(SqlError::syntax("LOCK TABLES t READ or WRITE"));
        }
        self.locked = Some(self.lock_names(names, &Held::default())?);
        Ok(())
    }

    pub(super) fn unlock_tables(&mut self) -> Result<()> {
        if self.locked.is_some() {
            self.commit()?;
            self.locked = None;
        }
        Ok(())
    }

    pub(super) fn lock_wait(&self) -> Duration {
        self.variables.borrow().often.table_wait
    }
}

/// Refuses a use of a table for which LOCK TABLES does not have it.
fn check_mode(locked: &Held, name: &Name, mode: Mode) -> Result<()> {
    match locked.mode(name) {
        _ if name.0.eq_ignore_ascii_case("information_schema") => Ok(()),
        None => Err(not_locked(name)),
        Some(Mode::Keep) if mode == Mode::Write => Err(read_locked(name)),
        Some(_) => Ok(()),
    }
}

fn not_locked(name: &Name) -> SqlError {
    SqlError::new(1100, format!("Table '{}' was not locked with LOCK TABLES", name.1))
}

fn read_locked(name: &Name) -> SqlError {
    let text = format!("Table '{}' was locked with a READ lock and can't be updated", name.1);
    SqlError::new(1099, text)
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;
    use std::sync::atomic::AtomicU32;

    use super::*;

    fn lock() -> TableLock {
        TableLock::new(("db".to_owned(), "t".to_owned()))
    }

    fn code(outcome: Result<()>) -> u16 {
        outcome.map_or_else(|error| error.code, |()| 0)
    }

    static NEVER: LazyLock<Stop> = LazyLock::new(Stop::default);
    const SOON: Duration = Duration::ZERO;
    const LATE: Duration = Duration::from_secs(60);

    impl TableLock {
        fn take(&self, mode: Mode, stripe: usize, held: bool, wait: &Duration) -> Result<()> {
            self.lock(mode, stripe, held, &Patience::new(*wait, &NEVER))
        }
    }

    #[test]
    fn modes_admit_what_they_should() {
        use Mode::{Alone, Keep, Read, Write};
        let admitted = [(Read, Read), (Read, Write), (Read, Keep), (Write, Write), (Keep, Keep)];
        for first in [Read, Write, Keep, Alone] {
            for second in [Read, Write, Keep, Alone] {
                let lock = lock();
                lock.take(first, 1, false, &SOON).unwrap();
                let both =
                    admitted.contains(&(first, second)) || admitted.contains(&(second, first));
                let expected = if both { 0 } else { 1205 };
                assert_eq!(
                    code(lock.take(second, 2, false, &SOON)),
                    expected,
                    "{first:?} {second:?}"
                );
                // Who gave up keeps nobody out.
                if both {
                    lock.unlock(second, 2);
                }
                lock.unlock(first, 1);
                lock.take(Alone, 3, false, &SOON).unwrap();
            }
        }
    }

    #[test]
    fn what_is_at_hand_is_not_locked() {
        let (lock, mut held) = (Arc::new(lock()), Held::default());
        for _ in 0..3 {
            lock.take(Mode::Write, 0, false, &SOON).unwrap();
            held.took(&lock, Mode::Write);
            assert!(held.has(&lock, Mode::Write));
            held.clear();
            assert!(!held.has(&lock, Mode::Write));
            assert_eq!(Arc::strong_count(&lock), 2, "the same one each time");
            lock.take(Mode::Alone, 1, false, &SOON).unwrap();
            lock.unlock(Mode::Alone, 1);
        }
        for _ in 0..3 * AT_HAND {
            let other = Arc::new(super::tests::lock());
            other.take(Mode::Read, 0, false, &SOON).unwrap();
            held.took(&other, Mode::Read);
            held.clear();
        }
        assert_eq!((held.at_hand.len(), Arc::strong_count(&lock)), (1, 1));
    }

    #[test]
    fn one_name_has_one_lock() {
        let locks = MetadataLocks::default();
        let name = |table: &str| ("db".to_owned(), table.to_owned());
        assert!(Arc::ptr_eq(&locks.of(&name("a")), &locks.of(&name("a"))));
        assert!(!Arc::ptr_eq(&locks.of(&name("a")), &locks.of(&name("b"))));
    }

    #[test]
    fn a_killed_wait_ends() {
        let lock = lock();
        lock.take(Mode::Read, 3, false, &SOON).unwrap();
        let stop = Stop::default();
        stop.interrupted.store(true, SeqCst);
        let killed = Patience::new(LATE, &stop);
        assert_eq!(code(lock.lock(Mode::Alone, 4, false, &killed)), 1317);
        lock.take(Mode::Write, 4, false, &SOON).unwrap();
    }

    /// A wait whose client has gone ends, and keeps nobody out any more.
    #[test]
    fn a_wait_for_nobody_ends() {
        let lock = lock();
        lock.take(Mode::Read, 3, false, &SOON).unwrap();
        let left = Patience { wait: LATE, stop: &NEVER, gone: &|| true };
        assert_eq!(code(lock.lock(Mode::Alone, 4, false, &left)), 1317);
        lock.take(Mode::Write, 5, false, &SOON).unwrap();
    }

    /// A name that comes twice is locked once, in the stronger way, and one that is held is not
    /// waited for.
    #[test]
    fn nobody_waits_for_itself() {
        use Mode::{Alone, Keep, Read, Write};
        let name: Name = ("d".to_owned(), "t".to_owned());
        let patience = Patience::new(SOON, &NEVER);
        for (one, other) in
            [(Read, Write), (Write, Read), (Keep, Alone), (Alone, Keep), (Alone, Alone)]
        {
            let locks = MetadataLocks::default();
            let names = vec![(name.clone(), one), (name.clone(), other)];
            let held = locks.take(names, 1, &patience, |_| None).unwrap();
            assert_eq!(held.mode(&name), Some(one.max(other)));
        }
        let locks = MetadataLocks::default();
        let take = |mode, held: Option<&Held>| {
            let mode_held = |name: &Name| held.and_then(|held| held.mode(name));
            locks.take(vec![(name.clone(), mode)], 1, &Patience::new(LATE, &NEVER), mode_held)
        };
        let alone = take(Alone, None).unwrap();
        for mode in [Read, Write, Keep, Alone] {
            drop(take(mode, Some(&alone)).unwrap());
        }
        drop(alone);
        let shared = take(Read, None).unwrap();
        drop(take(Write, Some(&shared)).unwrap());
        for mode in [Keep, Alone] {
            assert_eq!(take(mode, Some(&shared)).map(drop).map_err(|error| error.code), Err(1213));
        }
    }

    #[test]
    fn who_waits_to_be_alone_goes_before_newcomers_only() {
        let lock = lock();
        lock.take(Mode::Read, 1, false, &SOON).unwrap();
        std::thread::scope(|scope| {
            let alone = scope.spawn(|| lock.take(Mode::Alone, 2, false, &LATE));
            while lock.closed.load(SeqCst) == 0 {
                std::thread::yield_now();
            }
            assert_eq!(code(lock.take(Mode::Read, 3, false, &SOON)), 1205);
            lock.take(Mode::Write, 1, true, &SOON).unwrap();
            lock.unlock(Mode::Write, 1);
            lock.unlock(Mode::Read, 1);
            alone.join().unwrap().unwrap();
        });
        assert_eq!(code(lock.take(Mode::Read, 3, false, &SOON)), 1205);
        lock.unlock(Mode::Alone, 2);
        lock.take(Mode::Read, 3, false, &SOON).unwrap();
    }

    #[test]
    fn who_watches_keeps_nobody_out() {
        let lock = lock();
        lock.take(Mode::Read, 1, false, &SOON).unwrap();
        std::thread::scope(|scope| {
            let watch = scope.spawn(|| lock.watch(&Patience::new(LATE, &NEVER)));
            while lock.closed.load(SeqCst) == 0 {
                std::thread::yield_now();
            }
            for mode in [Mode::Read, Mode::Write, Mode::Keep] {
                lock.take(mode, 3, false, &SOON).unwrap();
                lock.unlock(mode, 3);
            }
            lock.unlock(Mode::Read, 1);
            watch.join().unwrap().unwrap();
        });
        assert_eq!(lock.closed.load(SeqCst), 0);
    }

    #[test]
    fn alone_means_alone() {
        let lock = lock();
        let inside = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for session in 0..4 {
                let (lock, inside) = (&lock, &inside);
                scope.spawn(move || {
                    for round in 0..500 {
                        let (mode, weight) = match (session, round % 10) {
                            (0, 0) => (Mode::Alone, 1000),
                            (_, 1) => (Mode::Write, 1),
                            _ => (Mode::Read, 1),
                        };
                        lock.take(mode, session, false, &LATE).unwrap();
                        let others = inside.fetch_add(weight, SeqCst);
                        assert!(if weight == 1 { others < 1000 } else { others == 0 });
                        inside.fetch_sub(weight, SeqCst);
                        lock.unlock(mode, session);
                    }
                });
            }
        });
        assert_eq!(lock.readers() + lock.writers(), 0);
    }
}
