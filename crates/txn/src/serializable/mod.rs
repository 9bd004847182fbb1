//! Serializable snapshot isolation (Cahill, Röhm, Fekete, SIGMOD 2008; Ports, Grittner, VLDB 2012).
//!
//! Under snapshot isolation every anomaly contains a *pivot*: a transaction that read something a
//! concurrent one overwrote (an outgoing rw-dependency), and that overwrote something another
//! concurrent one had read (an incoming one). So the reads of SERIALIZABLE transactions are
//! remembered, points and ranges, absent keys too; a dependency is noted whichever of read and
//! write comes first; and a transaction that has one of each kind is not allowed to commit. Some
//! that would have been harmless are refused as well; the caller runs them again.
//!
//! # Guarantees
//!
//! - **SSI-1 (outcomes are reads).** Whatever a client learns of rows is noted as a read at the
//!   snapshot, found or not: values of gets and scans; whether a key was there for a locking read,
//!   an insertion ([`ErrorKind::DuplicateKey`] or not, also one that a savepoint takes back), a
//!   change or a deletion; the rows that a change or a deletion by range found. Where the newest
//!   version has told, it is one that the snapshot has, or the transaction is refused.
//! - Not noted: a blind `put` or `delete`, which tells nothing; whether a row is locked (NOWAIT,
//!   SKIP LOCKED), which no serial order is about; and that a row is newer than the snapshot
//!   ([`ErrorKind::WriteConflict`]), after which the transaction is to be run again.
//! - **SSI-2 (memory).** What is noted of reads and writes, and of transactions, is charged to the
//!   budget as long as it is kept. The notes of a transaction are folded into one range for each
//!   table once they are many, and where memory is short; then also those of others. A request that
//!   finds no room after that fails with [`ErrorKind::LockTableFull`] and notes nothing.
//!
//! # What a scan has read
//!
//! A scan has read from where it began up to the row that it gave last, or the whole range once it
//! has said that there are no more: what is behind that row has told nobody anything, and what
//! another writes there is no phantom. So a scan is noted when it ends
//! ([`Serializable::read_range`]), and not when it begins: one that stops at its first row has read
//! no more than it. That is early enough. Writers that come before are remembered as long as the
//! reader runs, and they are looked up then; those that come after find the range. What is found
//! where a scan is let go, and nobody can be told, refuses the reader's next step
//! ([`Serializable::refuse`]).
//!
//! Only SERIALIZABLE transactions come here, under one mutex; the others pay nothing, and are not
//! seen: serializability holds among transactions that ask for it. What a transaction read is kept
//! after its commit until no transaction that ran beside it is left, and none can come: a snapshot
//! to come is at the stable CSN or above, and one that is being taken was announced
//! ([`Serializable::enter`]).

mod notes;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use spillway_base::budget::{Budget, Stepped, Use};
use spillway_base::lock::Mutex;
use spillway_base::{Csn, Error, ErrorKind, KeyRange, Result, TableId};

use crate::snapshots::Snapshots;
use notes::{Notes, POINT_BYTES};

/// Bytes that a transaction takes beside its notes.
const MEMBER_BYTES: usize = 384;

/// A transaction's notes are folded once they take this part of the budget,
const PART_NOTED: usize = 64;

/// but never fewer than these,
const FOLD_FROM: usize = 10_000;

/// and always as many as these.
const FOLD_BY: usize = 1_000_000;

type Id = u64;
type Point = (TableId, Box<[u8]>);

struct Member {
    /// Its snapshot, or what that cannot be below.
    snapshot: Csn,
    /// Its number once it may not be undone any more; `Csn::MAX` while it is being given one.
    committed: Option<Csn>,
    /// Whether it must not be committed, whatever else comes.
    refused: bool,
    /// Those that read what this one overwrote, and those that overwrote what this one read: all
    /// but the undone.
    incoming: HashSet<Id>,
    outgoing: HashSet<Id>,
}

impl Member {
    /// Whether it ran beside a transaction with this snapshot.
    fn beside(&self, snapshot: Csn) -> bool {
        self.committed.is_none_or(|csn| csn > snapshot)
    }

    fn is_pivot(&self) -> bool {
        !self.incoming.is_empty() && !self.outgoing.is_empty()
    }
}

struct State {
    members: HashMap<Id, Member>,
    notes: Notes,
    /// What both take.
    memory: Stepped,
    /// Notes of one transaction that are folded.
    fold_from: usize,
}

/// The dependencies among SERIALIZABLE transactions.
pub(crate) struct Serializable {
    snapshots: Arc<Snapshots>,
    state: Mutex<State>,
}

fn refused() -> Error {
    Error::new(
        ErrorKind::SerializationFailure,
        "the transaction cannot be serialized with another that ran beside it; run it again",
    )
}

impl State {
    fn begin(&mut self, id: Id, snapshot: Csn) {
        let member = self.members.entry(id).or_insert_with(|| Member {
            snapshot,
            committed: None,
            refused: false,
            incoming: HashSet::new(),
            outgoing: HashSet::new(),
        });
        member.snapshot = snapshot;
    }

    /// `reader` read what `writer` overwrites.
    fn depends(&mut self, acting: Id, reader: Id, writer: Id) -> Result<()> {
        if reader == writer {
            return Ok(());
        }
        let (Some(read), Some(wrote)) = (self.members.get(&reader), self.members.get(&writer))
        else {
            return Ok(());
        };
        if !read.beside(wrote.snapshot) || !wrote.beside(read.snapshot) {
            return Ok(());
        }
        if let Some(member) = self.members.get_mut(&reader) {
            member.outgoing.insert(writer);
        }
        if let Some(member) = self.members.get_mut(&writer) {
            member.incoming.insert(reader);
        }
        // A pivot that has committed can only be broken by the one acting now; one that has not is
        // refused at its own next step.
        let broken = [reader, writer].iter().any(|id| {
            let member = &self.members[id];
            member.is_pivot() && (*id == acting || member.committed.is_some())
        });
        if broken { Err(refused()) } else { Ok(()) }
    }

    fn check(&self, id: Id) -> Result<()> {
        match self.members.get(&id) {
            Some(member) if member.is_pivot() || member.refused => Err(refused()),
            _ => Ok(()),
        }
    }

    /// Forgets those that nobody runs beside any more, and nobody will whose snapshot is at
    /// `stable` or above.
    fn sweep(&mut self, stable: Csn) {
        let active = self.members.values().filter(|member| member.committed.is_none());
        let oldest = active.map(|member| member.snapshot).fold(stable, Csn::min);
        let before = self.members.len();
        self.members.retain(|_, member| member.beside(oldest));
        if self.members.len() < before {
            self.forget_strangers();
        }
    }

    fn forget_strangers(&mut self) {
        let known: HashSet<Id> = self.members.keys().copied().collect();
        self.notes.keep(&known);
        // To count fewer never fails.
        let _ = self.charge(0);
    }

    /// Charges what is kept, and so much more.
    fn charge(&mut self, more: usize) -> Result<()> {
        let members = self.members.len() * MEMBER_BYTES;
        self.memory.try_set(members + self.notes.bytes() + more)
    }

    /// Makes room for one more note of a transaction (SSI-2).
    fn make_room(&mut self, id: Id, start: &[u8], end: Option<&[u8]>) -> Result<()> {
        let more = Notes::most(start, end);
        if self.notes.unfolded(id) >= self.fold_from {
            self.notes.fold(id);
        }
        if self.charge(more).is_ok() {
            return Ok(());
        }
        self.notes.fold(id);
        if self.charge(more).is_ok() {
            return Ok(());
        }
        for other in self.notes.foldable() {
            self.notes.fold(other);
        }
        self.charge(more).map_err(|full| {
            let message = "the memory budget has no room for another read of a SERIALIZABLE \
                transaction; read fewer rows in one transaction, or let others end";
            Error::with_source(ErrorKind::LockTableFull, message, full)
        })
    }

    /// `id` has read what the others wrote.
    fn depends_on(&mut self, id: Id, writers: Vec<Id>) -> Result<()> {
        writers.into_iter().try_for_each(|writer| self.depends(id, id, writer))
    }
}

impl Serializable {
    /// Of a database with these snapshots.
    pub(crate) fn new(snapshots: Arc<Snapshots>, budget: &Budget) -> Serializable {
        let fold_from = (budget.limit() / PART_NOTED / POINT_BYTES).clamp(FOLD_FROM, FOLD_BY);
        let state = State {
            members: HashMap::new(),
            notes: Notes::default(),
            memory: Stepped::new(budget, Use::Transactions),
            fold_from,
        };
        Serializable { snapshots, state: Mutex::new(state) }
    }

    /// A transaction is about to take its snapshot: from now on nothing that it may run beside is
    /// forgotten.
    pub(crate) fn enter(&self, id: Id) {
        let mut state = self.state.lock();
        // Under the lock, so that no sweep with a later stable CSN comes in between.
        let stable = self.snapshots.stable_csn();
        state.begin(id, stable);
    }

    /// A transaction, which has a snapshot, begins to read.
    pub(crate) fn check(&self, id: Id, snapshot: Csn) -> Result<()> {
        let mut state = self.state.lock();
        state.begin(id, snapshot);
        state.check(id)
    }

    /// A transaction that runs yet must not be committed.
    pub(crate) fn refuse(&self, id: Id) {
        if let Some(member) = self.state.lock().members.get_mut(&id) {
            member.refused = true;
        }
    }

    /// A transaction read a key at its snapshot, whether it had a value or not.
    pub(crate) fn read(&self, id: Id, snapshot: Csn, table: TableId, key: &[u8]) -> Result<()> {
        let mut state = self.state.lock();
        state.begin(id, snapshot);
        state.check(id)?;
        state.make_room(id, key, None)?;
        let writers = state.notes.read(id, table, key);
        state.depends_on(id, writers)
    }

    /// A transaction has read a range at its snapshot.
    pub(crate) fn read_range(
        &self,
        id: Id,
        snapshot: Csn,
        table: TableId,
        range: KeyRange<'_>,
    ) -> Result<()> {
        let mut state = self.state.lock();
        state.begin(id, snapshot);
        state.check(id)?;
        state.make_room(id, range.start, range.end)?;
        let writers = state.notes.read_range(id, table, range);
        state.depends_on(id, writers)
    }

    /// A transaction, which has a snapshot or takes one at `snapshot`, writes a key.
    pub(crate) fn write(&self, id: Id, snapshot: Csn, table: TableId, key: &[u8]) -> Result<()> {
        let mut state = self.state.lock();
        state.begin(id, snapshot);
        state.check(id)?;
        state.make_room(id, key, None)?;
        let readers = state.notes.write(id, table, key);
        readers.into_iter().try_for_each(|reader| state.depends(id, reader, id))
    }

    /// The last check. After success the transaction cannot be refused any more.
    pub(crate) fn prepare(&self, id: Id) -> Result<()> {
        let mut state = self.state.lock();
        state.check(id)?;
        if let Some(member) = state.members.get_mut(&id) {
            member.committed = Some(Csn::MAX);
        }
        Ok(())
    }

    /// The transaction has its number; a read-only one has that of its snapshot. It must be told
    /// before the commit can be seen: one whose snapshot has the commit did not run beside it.
    pub(crate) fn committed(&self, id: Id, csn: Csn) {
        let mut state = self.state.lock();
        if let Some(member) = state.members.get_mut(&id) {
            member.committed = Some(csn);
        }
        state.sweep(self.snapshots.stable_csn());
    }

    /// The transaction was undone, or begins anew: nothing that it read or wrote counts.
    pub(crate) fn aborted(&self, id: Id) {
        let mut state = self.state.lock();
        if let Some(undone) = state.members.remove(&id) {
            // What was undone is in no history: those it would have broken may go on.
            for other in undone.incoming.iter().chain(&undone.outgoing) {
                if let Some(other) = state.members.get_mut(other) {
                    other.incoming.remove(&id);
                    other.outgoing.remove(&id);
                }
            }
            state.forget_strangers();
            state.sweep(self.snapshots.stable_csn());
        }
    }

    /// Numbers of those that have one and are remembered yet.
    #[cfg(test)]
    pub(crate) fn numbers(&self) -> Vec<Csn> {
        self.state.lock().members.values().filter_map(|member| member.committed).collect()
    }

    /// Has notes folded from so many on.
    #[cfg(test)]
    pub(crate) fn fold_from(&self, notes: usize) {
        self.state.lock().fold_from = notes;
    }

    /// Transactions remembered.
    #[cfg(test)]
    pub(crate) fn members(&self) -> usize {
        self.state.lock().members.len()
    }
}
