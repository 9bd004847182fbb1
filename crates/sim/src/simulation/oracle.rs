//! The oracle: a model of the state after every commit.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use spillway::{Csn, Error, ErrorKind};
use spillway_sql::SqlError;
use spillway_storage::sim::SyncFault;

/// The number of the library's tables. Tables of SQL have the numbers from here on.
pub const TABLES: usize = 2;

/// A table's number and a key's number.
pub type Key = (usize, u64);

/// All existing keys, and the version of each.
pub type State = BTreeMap<Key, u64>;

/// SIMULATION-8: the longest wait for a commit. It is below the period of log care, 500 ms, because
/// no commit may depend on log care.
pub const WAIT_MAX: Duration = Duration::from_millis(300);

/// MySQL's error of damaged data.
const DAMAGED: u16 = 1034;

/// An error of the database.
#[derive(Debug)]
pub struct Refusal {
    /// What it says.
    pub text: String,
    /// Whether it says that stored data is damaged.
    pub is_damage: bool,
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        let is_damage = error.kind() == ErrorKind::Corruption;
        Refusal { text: error.to_string(), is_damage }
    }
}

impl From<SqlError> for Refusal {
    fn from(error: SqlError) -> Refusal {
        let is_damage = error.code == DAMAGED;
        Refusal { text: format!("{} {}", error.code, error.message), is_damage }
    }
}

/// Fails the history.
pub fn fail(reason: &str) -> ! {
    spillway_base::scheduler::fail(reason)
}

/// Prints an event if `SPILLWAY_EVENTS` is set.
pub fn event(what: impl FnOnce() -> String) {
    if std::env::var_os("SPILLWAY_EVENTS").is_some() {
        println!("{:?}: {}", spillway_base::clock::now(), what());
    }
}

/// The result of a read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Version {
    /// The key does not exist.
    Absent,
    /// The key exists, with any value.
    Some,
    /// The key has this version.
    Is(u64),
    /// The key does not have this version: it has another one, or does not exist.
    Not(u64),
}

impl Version {
    /// The result for a key with this version, or without one.
    #[must_use]
    pub fn of(found: Option<u64>) -> Version {
        found.map_or(Version::Absent, Version::Is)
    }

    /// Whether the result matches a state in which the key has this version, or none.
    #[must_use]
    pub fn is(self, there: Option<u64>) -> bool {
        match self {
            Version::Absent => there.is_none(),
            Version::Some => there.is_some(),
            Version::Is(version) => there == Some(version),
            Version::Not(version) => there != Some(version),
        }
    }

    /// Whether a change of the key from one state to another concerns a read with this result. A
    /// read that only finds whether a key exists does not depend on its value.
    fn depends_on(self, before: Option<u64>, after: Option<u64>) -> bool {
        match self {
            Version::Some => before.is_some() != after.is_some(),
            Version::Not(_) => self.is(before) != self.is(after),
            Version::Absent | Version::Is(_) => true,
        }
    }
}

/// The moment whose state a read sees.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadKind {
    /// The transaction's snapshot.
    Snapshot,
    /// This CSN: the snapshot of a statement.
    At(Csn),
    /// Just before the transaction's commit, because the transaction holds the lock.
    Locked,
    /// This CSN, or any later one: the newest state while a statement ran that began then.
    Since(Csn),
}

/// A read of a key that the transaction had not written.
#[derive(Clone, Copy, Debug)]
pub struct Read {
    /// The key.
    pub key: Key,
    /// The moment whose state it sees.
    pub kind: ReadKind,
    /// Its result.
    pub version: Version,
}

/// A number of keys that exist, of those that the transaction had not written, at its snapshot.
#[derive(Clone, Debug)]
pub struct Count {
    /// The keys.
    pub keys: Vec<Key>,
    /// How many of them exist.
    pub rows: u64,
}

/// A transaction that requested a commit.
#[derive(Clone, Default, Debug)]
pub struct Txn {
    /// Whether it was SERIALIZABLE.
    pub serializable: bool,
    /// Whether an acknowledgement means that it is durable.
    pub durable: bool,
    /// The newest acknowledged commit when it began.
    pub floor: Csn,
    /// Its snapshot, if it took one.
    pub snapshot: Option<Csn>,
    /// Its reads.
    pub reads: Vec<Read>,
    /// Its reads of numbers of rows.
    pub counts: Vec<Count>,
    /// Its writes.
    pub writes: BTreeMap<Key, Option<u64>>,
    /// Its CSN, if it wrote and was ordered.
    pub ordered: Option<Csn>,
    /// Whether its commit was acknowledged.
    pub acknowledged: bool,
    /// Whether it was acknowledged after the disk had begun to lie.
    pub was_lied_to: bool,
    /// How long it waited for the acknowledgement or the failure.
    pub waited: Duration,
}

impl Txn {
    /// Whether its acknowledgement means that it is durable. An acknowledgement of a disk that lies
    /// does not, if the lies have lost something.
    fn is_certain(&self, has_losses: bool) -> bool {
        self.acknowledged && self.durable && !(has_losses && self.was_lied_to)
    }
}

/// The observations of the clients of a life.
#[derive(Default)]
pub struct Seen {
    /// Transactions that ended.
    pub transactions: Vec<Txn>,
    /// Gets without a transaction: the key, the newest commit acknowledged before, and the version
    /// found.
    pub gets: Vec<(Key, Csn, Option<u64>)>,
    /// The newest commit whose acknowledgement means that it is durable.
    pub acknowledged: Csn,
    /// Backups: the number, the newest commit acknowledged before, and the last commit in the
    /// backup.
    pub backups: Vec<(u64, Csn, Csn)>,
    /// How syncs lie, or have lied before.
    pub lies: Option<SyncFault>,
    /// Whether the disk is full for a while.
    pub is_full: bool,
    /// Transactions that were refused meanwhile because the disk was full.
    pub refused_on_full_disk: u64,
    /// Transactions that only deleted rows and were acknowledged meanwhile.
    pub freed_on_full_disk: u64,
    /// Tables that were emptied or dropped meanwhile, whose space then took other rows.
    pub emptied_on_full_disk: u64,
}

impl Seen {
    /// Adds a transaction after its end.
    pub fn end(&mut self, mut txn: Txn) {
        txn.was_lied_to = self.lies.is_some();
        if let (true, true, Some(csn)) = (txn.acknowledged, txn.durable, txn.ordered) {
            self.acknowledged = self.acknowledged.max(csn);
        }
        self.transactions.push(txn);
    }
}

/// How a life ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ending {
    /// Whether it ended by a successful close.
    pub is_clean: bool,
    /// Whether syncs lied, and what they did not make durable may be lost (SIMULATION-13).
    pub has_losses: bool,
}

/// A model of one life's commits.
pub struct Model {
    base: State,
    /// The versions of each key in the order of commits, each with the transaction that wrote it.
    versions: BTreeMap<Key, Vec<(Csn, Option<u64>, usize)>>,
}

impl Model {
    /// A model of the commits up to `last` on top of `base`, the state at the start of the life.
    #[must_use]
    pub fn new(base: &State, transactions: &[Txn], last: Csn) -> Model {
        let mut versions: BTreeMap<Key, Vec<(Csn, Option<u64>, usize)>> = BTreeMap::new();
        for (number, txn) in transactions.iter().enumerate() {
            let Some(csn) = txn.ordered.filter(|csn| *csn <= last) else { continue };
            for (key, version) in &txn.writes {
                versions.entry(*key).or_default().push((csn, *version, number));
            }
        }
        versions.values_mut().for_each(|all| all.sort_unstable());
        Model { base: base.clone(), versions }
    }

    fn all(&self, key: Key) -> &[(Csn, Option<u64>, usize)] {
        self.versions.get(&key).map_or(&[], Vec::as_slice)
    }

    /// The version of a key at a commit.
    fn at(&self, key: Key, csn: Csn) -> Option<u64> {
        let newest = self.all(key).iter().rev().find(|(at, ..)| *at <= csn);
        newest.map_or(self.base.get(&key).copied(), |(_, version, _)| *version)
    }

    /// The state at a commit.
    #[must_use]
    pub fn state(&self, csn: Csn) -> State {
        let keys: BTreeSet<Key> = self.base.keys().chain(self.versions.keys()).copied().collect();
        keys.into_iter().filter_map(|key| Some((key, self.at(key, csn)?))).collect()
    }
}

/// Judges a life after the next opening, which recovered the state `recovered` and `last` as the
/// last commit.
pub fn judge(base: &State, seen: &Seen, recovered: &State, last: Csn, ending: Ending) {
    let Ending { is_clean, has_losses } = ending;
    let transactions = &seen.transactions;
    for txn in transactions {
        if txn.waited > WAIT_MAX {
            fail(&format!("SIMULATION-8: a commit waited for {:?}: {txn:?}", txn.waited));
        }
        let told = txn.acknowledged && is_clean && !has_losses || txn.is_certain(has_losses);
        if told && txn.ordered.is_some_and(|csn| csn > last) {
            fail(&format!("SIMULATION-4: {last:?} is the last commit recovered, without {txn:?}"));
        }
    }
    let survived = Model::new(base, transactions, last);
    let expected = survived.state(last);
    if *recovered != expected {
        let differs = |(key, version): &(&Key, &u64)| expected.get(key) != Some(version);
        let more: Vec<_> = recovered.iter().filter(differs).collect();
        let differs = |(key, version): &(&Key, &u64)| recovered.get(key) != Some(version);
        let less: Vec<_> = expected.iter().filter(differs).collect();
        fail(&format!("SIMULATION-5: at {last:?} there is {more:x?} in place of {less:x?}"));
    }
    let all = Model::new(base, transactions, Csn::MAX);
    for txn in transactions {
        check_reads(&all, txn, last, has_losses);
    }
    for (key, before, found) in &seen.gets {
        check_get(&all, *key, *before, *found);
    }
    check_serializable(&all, transactions, last);
}

/// SIMULATION-11: judges the state restored from a backup. The backup's last commit is `through`,
/// and `floor` had been acknowledged before the backup began.
pub fn judge_backup(
    base: &State,
    seen: &Seen,
    (floor, through): (Csn, Csn),
    restored: &State,
    last: Csn,
    has_losses: bool,
) {
    if through < floor || through > last && !has_losses {
        fail(&format!(
            "SIMULATION-11: a backup has the commits through {through:?}: {floor:?} had been \
             acknowledged before it, and {last:?} was recovered after it"
        ));
    }
    let expected = Model::new(base, &seen.transactions, through).state(through);
    if *restored != expected {
        fail(&format!(
            "SIMULATION-11: at {through:?} there is {restored:x?} in place of {expected:x?}"
        ));
    }
}

/// SIMULATION-6: checks the reads of a transaction.
fn check_reads(model: &Model, txn: &Txn, last: Csn, has_losses: bool) {
    if txn.snapshot.is_some_and(|snapshot| snapshot < txn.floor) {
        fail(&format!("SIMULATION-6: a snapshot misses what was acknowledged before: {txn:?}"));
    }
    for read in &txn.reads {
        let at = match (read.kind, txn.ordered) {
            (ReadKind::Since(floor), _) => {
                check_since(model, read, floor, txn);
                continue;
            }
            (ReadKind::Snapshot, _) => txn.snapshot,
            (ReadKind::At(csn), _) => Some(csn),
            (ReadKind::Locked, Some(csn)) => Some(Csn(csn.0 - 1)),
            (ReadKind::Locked, None) => None,
        };
        let Some(at) = at else { continue };
        let there = model.at(read.key, at);
        if !read.version.is(there) {
            fail(&format!(
                "SIMULATION-6: at {at:?} {:?} is {there:x?}, but {read:x?} in {txn:x?}",
                read.key
            ));
        }
        check_lasts(model, read.key, at, txn, last, has_losses);
    }
    let Some(at) = txn.snapshot else { return };
    for count in &txn.counts {
        let there = count.keys.iter().filter(|key| model.at(**key, at).is_some()).count() as u64;
        if there != count.rows {
            fail(&format!("SIMULATION-6: at {at:?} there are {there}, but {count:?} in {txn:x?}"));
        }
        for key in &count.keys {
            check_lasts(model, *key, at, txn, last, has_losses);
        }
    }
}

/// SIMULATION-4: what an acknowledged transaction has read is not lost. A transaction without an
/// acknowledgement may have seen commits that are lost, because its client received no results.
fn check_lasts(model: &Model, key: Key, at: Csn, txn: &Txn, last: Csn, has_losses: bool) {
    let written = model.all(key).iter().rev().find(|(csn, ..)| *csn <= at);
    if txn.is_certain(has_losses) && written.is_some_and(|(csn, ..)| *csn > last) {
        fail(&format!("SIMULATION-4: {last:?} is the last commit recovered, but {txn:?} saw more"));
    }
}

/// SIMULATION-6: a statement found what was the newest when it began, or later. Nothing in it is
/// after the transaction's own commit.
fn check_since(model: &Model, read: &Read, floor: Csn, txn: &Txn) {
    let end = txn.ordered.unwrap_or(Csn::MAX);
    let later = model.all(read.key).iter().filter(|(csn, ..)| *csn > floor && *csn < end);
    let mut states = later.map(|(_, version, _)| *version);
    if !read.version.is(model.at(read.key, floor)) && !states.any(|there| read.version.is(there)) {
        fail(&format!("SIMULATION-6: {read:x?} was never so, in {txn:x?}"));
    }
}

/// SIMULATION-6: a get without a transaction found a version that was the newest when the get
/// began, or a later one.
fn check_get(model: &Model, key: Key, before: Csn, found: Option<u64>) {
    if model.at(key, before) == found {
        return;
    }
    let later = model.all(key).iter().filter(|(csn, ..)| *csn > before);
    if !later.into_iter().any(|(_, version, _)| *version == found) {
        fail(&format!("SIMULATION-6: a get of {key:?} after {before:?} found {found:x?}"));
    }
}

/// SIMULATION-7: looks for a cycle of dependencies among the SERIALIZABLE transactions that
/// committed.
fn check_serializable(model: &Model, transactions: &[Txn], last: Csn) {
    let committed = |txn: &Txn| match txn.ordered {
        Some(csn) => txn.acknowledged || csn <= last,
        None => txn.acknowledged,
    };
    let counts =
        |number: usize| transactions[number].serializable && committed(&transactions[number]);
    let mut edges: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); transactions.len()];
    let mut add = |from: usize, to: usize| {
        if from != to && counts(from) && counts(to) {
            edges[from].insert(to);
        }
    };
    for (number, txn) in transactions.iter().enumerate().filter(|(number, _)| counts(*number)) {
        // A number of rows depends on which of the keys exist.
        let counted = txn.counts.iter().flat_map(|count| &count.keys).map(|key| Read {
            key: *key,
            kind: ReadKind::Snapshot,
            version: Version::Some,
        });
        for read in txn.reads.iter().copied().chain(counted) {
            let at = match (read.kind, txn.ordered) {
                // Of no single state.
                (ReadKind::Since(_), _) => None,
                (ReadKind::Locked, Some(csn)) => Some(Csn(csn.0 - 1)),
                (ReadKind::Locked, None) => txn.snapshot,
                (ReadKind::Snapshot, _) => txn.snapshot,
                (ReadKind::At(csn), _) => Some(csn),
            };
            let Some(at) = at else { continue };
            let mut before = model.base.get(&read.key).copied();
            for (csn, version, writer) in model.all(read.key) {
                let matters = read.version.depends_on(before, *version);
                before = *version;
                if matters && *csn <= at {
                    add(*writer, number);
                } else if matters {
                    add(number, *writer);
                }
            }
        }
    }
    for all in model.versions.values() {
        for (before, after) in all.iter().zip(all.iter().skip(1)) {
            add(before.2, after.2);
        }
    }
    if let Some(cycle) = cycle(&edges) {
        let told: Vec<_> =
            cycle.iter().map(|number| format!("{:x?}", transactions[*number])).collect();
        fail(&format!("SIMULATION-7: a cycle:\n{}", told.join("\n")));
    }
}

/// A cycle of a graph, if there is one.
fn cycle(edges: &[BTreeSet<usize>]) -> Option<Vec<usize>> {
    fn visit(
        at: usize,
        edges: &[BTreeSet<usize>],
        state: &mut [u8],
        path: &mut Vec<usize>,
    ) -> bool {
        state[at] = 1;
        path.push(at);
        for next in &edges[at] {
            if state[*next] == 1 {
                let begin = path.iter().position(|on| on == next).unwrap_or(0);
                path.drain(..begin);
                return true;
            }
            if state[*next] == 0 && visit(*next, edges, state, path) {
                return true;
            }
        }
        state[at] = 2;
        path.pop();
        false
    }
    let mut state = vec![0; edges.len()];
    let mut path = Vec::new();
    (0..edges.len())
        .any(|at| state[at] == 0 && visit(at, edges, &mut state, &mut path))
        .then_some(path)
}
