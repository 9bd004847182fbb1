//! Serializable snapshot isolation (Cahill, Röhm, Fekete, SIGMOD 2008; Ports, Grittner, VLDB 2012).
//!
//! Under snapshot isolation every anomaly contains a *pivot*. A pivot is a transaction with two
//! rw-dependencies: an outgoing one, because it read something that a concurrent transaction
//! overwrote, and an incoming one, because it overwrote something that a concurrent transaction had
//! read.
//!
//! So this module notes the reads of SERIALIZABLE transactions (keys, also absent ones, and ranges)
//! and their writes. It finds the dependencies, whether the read or the write comes first. A pivot
//! may not commit. Some of the transactions that this rule refuses would have been harmless. The
//! caller runs a refused transaction again.
//!
//! # Guarantees
//!
//! - **SSI-1 (outcomes are reads).** Everything that a client learns about rows is noted as a read
//!   at the snapshot, whether or not a row exists:
//!   - the values that gets and scans return;
//!   - whether a key existed, if the client learns it from a locking read, a change, a deletion or
//!     an insertion ([`ErrorKind::DuplicateKey`] or not), even if a savepoint undoes the operation;
//!   - the rows that a change or a deletion by range found.
//!
//!   If an outcome depends on a row's newest version, the snapshot has that version, or the
//!   transaction is refused. These are not noted as reads:
//!   - a blind `put` or `delete`, because it reveals nothing;
//!   - whether a row is locked (NOWAIT, SKIP LOCKED), because that concerns no serial order;
//!   - that a row is newer than the snapshot ([`ErrorKind::WriteConflict`]), because the
//!     transaction must then be run again.
//! - **SSI-2 (memory).** The notes of reads and writes, the tracked transactions, and the
//!   dependencies among these are charged to the budget while they are kept. A transaction with
//!   many notes *folds* them: in each table its reads become one range, and its writes become
//!   another ([`notes`]). If memory is short, a request folds its own transaction's notes, and then
//!   those of other transactions. If there is still no room, the request fails with
//!   [`ErrorKind::LockTableFull`] and neither reads nor writes. If a scan ends and there is no room
//!   for its note, it has returned its rows already. So its transaction may not commit any more.
//!
//! # The range that a scan has read
//!
//! A scan has read the part of its range up to the last row that it returned, or the whole range
//! once it has reported its end. The client has learned nothing about later rows, so another
//! transaction's write there is no phantom. Therefore a scan is noted when it ends
//! ([`Serializable::read_range`]), and not when it begins: a scan that stops at its first row has
//! read no more than that row.
//!
//! It is early enough to note the range at the end of the scan. The scan then finds the
//! transactions that have already written into the range, because their writes stay noted while the
//! reader runs. Transactions that write into the range later find the scan's note. If the scan is
//! dropped before its end, no call returns an error for the note: after a conflict the
//! transaction's next step fails ([`Serializable::refuse`]).
//!
//! # Which transactions are tracked, and how long
//!
//! Only SERIALIZABLE transactions are tracked, under one mutex. Other transactions pay nothing, and
//! their reads and writes are not noted. So serializability holds among the transactions that
//! request it.
//!
//! Let a transaction commit at CSN C. A transaction that is active at that time, or begins later,
//! is concurrent with it exactly if its own snapshot is below C. So the notes of the committed
//! transaction are kept while the stable CSN, or the snapshot of an active SERIALIZABLE
//! transaction, is below C. Afterwards no later transaction needs these notes: it registers with
//! the current stable CSN before it takes its snapshot ([`Serializable::enter`]), and the snapshot
//! is not below that CSN.

mod notes;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use spillway_base::budget::{Budget, Stepped, Use};
use spillway_base::lock::Mutex;
use spillway_base::{Csn, Error, ErrorKind, KeyRange, Result, TableId};

use crate::snapshots::Snapshots;
use notes::{Notes, POINT_BYTES, TransactionId};

/// The size of a transaction without its notes.
const MEMBER_BYTES: usize = 384;

/// Bytes that a dependency takes at each of its two ends: a transaction's number in a set, and a
/// share of the set's free places.
const LINK_BYTES: usize = 24;

/// A transaction's notes are folded once they take this fraction of the budget.
const PART_NOTED: usize = 64;

/// A transaction with fewer notes than this folds them only if memory is short.
const FOLD_FROM: usize = 10_000;

/// A transaction with this many notes always folds them.
const FOLD_BY: usize = 1_000_000;

struct Member {
    /// Its snapshot, or a lower bound of it.
    snapshot: Csn,
    /// `None` until [`Serializable::prepare`] has succeeded, after which it may no longer be
    /// refused. Then `Csn::MAX` until its CSN is known, and then its CSN.
    committed: Option<Csn>,
    /// Whether it must not commit in any case.
    refused: bool,
    /// The transactions that read what this one overwrote (incoming), and those that overwrote what
    /// this one read (outgoing). Transactions that were undone are removed.
    incoming: HashSet<TransactionId>,
    outgoing: HashSet<TransactionId>,
}

impl Member {
    /// Whether it ran concurrently with a transaction with this snapshot.
    fn beside(&self, snapshot: Csn) -> bool {
        self.committed.is_none_or(|csn| csn > snapshot)
    }

    fn is_pivot(&self) -> bool {
        !self.incoming.is_empty() && !self.outgoing.is_empty()
    }
}

struct SerializableState {
    members: HashMap<TransactionId, Member>,
    notes: Notes,
    /// The entries of all members' sets, incoming and outgoing.
    links: usize,
    /// The memory charged for all of these.
    memory: Stepped,
    /// A transaction with this many notes folds them.
    fold_from: usize,
}

/// The dependencies among SERIALIZABLE transactions.
pub(crate) struct Serializable {
    snapshots: Arc<Snapshots>,
    state: Mutex<SerializableState>,
}

fn refused() -> Error {
    Error::new(
        ErrorKind::SerializationFailure,
        "the transaction cannot be serialized with another that ran beside it; run it again",
    )
}

impl SerializableState {
    fn begin(&mut self, id: TransactionId, snapshot: Csn) {
        let member = self.members.entry(id).or_insert_with(|| Member {
            snapshot,
            committed: None,
            refused: false,
            incoming: HashSet::new(),
            outgoing: HashSet::new(),
        });
        member.snapshot = snapshot;
    }

    /// Notes that `reader` read what `writer` overwrites.
    fn depends(
        &mut self,
        acting: TransactionId,
        reader: TransactionId,
        writer: TransactionId,
    ) -> Result<()> {
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
        if !read.outgoing.contains(&writer) || !wrote.incoming.contains(&reader) {
            self.find_room(acting, 2 * LINK_BYTES)?;
            let outgoing = self.members.get_mut(&reader).map(|read| read.outgoing.insert(writer));
            let incoming = self.members.get_mut(&writer).map(|wrote| wrote.incoming.insert(reader));
            self.links += [outgoing, incoming].iter().filter(|new| **new == Some(true)).count();
        }
        // If a pivot has committed, the acting transaction is refused in its place. A pivot that
        // has not committed, and is not the acting transaction, is refused at its own next step.
        let broken = [reader, writer].iter().any(|id| {
            let member = &self.members[id];
            member.is_pivot() && (*id == acting || member.committed.is_some())
        });
        if broken { Err(refused()) } else { Ok(()) }
    }

    fn check(&self, id: TransactionId) -> Result<()> {
        match self.members.get(&id) {
            Some(member) if member.is_pivot() || member.refused => Err(refused()),
            _ => Ok(()),
        }
    }

    /// Forgets the members whose CSN is at or below `stable` and at or below the snapshots of all
    /// active members: they ran concurrently with no active transaction, and with no later one.
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
        let known: HashSet<TransactionId> = self.members.keys().copied().collect();
        self.notes.keep(&known);
        let links = |member: &Member| member.incoming.len() + member.outgoing.len();
        self.links = self.members.values().map(links).sum();
        // Reducing a charge never fails.
        let _ = self.charge(0);
    }

    /// Charges the kept members and notes, and `more` bytes.
    fn charge(&mut self, more: usize) -> Result<()> {
        let members = self.members.len() * MEMBER_BYTES + self.links * LINK_BYTES;
        self.memory.try_set(members + self.notes.bytes() + more)
    }

    /// Makes room for one more note of a transaction (SSI-2).
    fn make_room(&mut self, id: TransactionId, start: &[u8], end: Option<&[u8]>) -> Result<()> {
        if self.notes.unfolded(id) >= self.fold_from {
            self.notes.fold(id);
        }
        self.find_room(id, Notes::most(start, end))
    }

    /// Charges `more` bytes for a transaction; if memory is short, folds notes and retries.
    fn find_room(&mut self, id: TransactionId, more: usize) -> Result<()> {
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

    /// Notes that `id` has read what the writers overwrote.
    fn depends_on(&mut self, id: TransactionId, writers: Vec<TransactionId>) -> Result<()> {
        writers.into_iter().try_for_each(|writer| self.depends(id, id, writer))
    }
}

impl Serializable {
    /// The tracker of a database with these snapshots.
    pub(crate) fn new(snapshots: Arc<Snapshots>, budget: &Budget) -> Serializable {
        let fold_from = (budget.limit() / PART_NOTED / POINT_BYTES).clamp(FOLD_FROM, FOLD_BY);
        let state = SerializableState {
            members: HashMap::new(),
            notes: Notes::default(),
            links: 0,
            memory: Stepped::new(budget, Use::Transactions),
            fold_from,
        };
        Serializable { snapshots, state: Mutex::new(state) }
    }

    /// Called before a transaction takes its snapshot. From now on no transaction is forgotten that
    /// may be concurrent with it.
    pub(crate) fn enter(&self, id: TransactionId) {
        let mut state = self.state.lock();
        // The stable CSN is read under the lock, so that no sweep with a larger stable CSN comes in
        // between.
        let stable = self.snapshots.stable_csn();
        state.begin(id, stable);
    }

    /// Called when a transaction with a snapshot begins to read.
    pub(crate) fn check(&self, id: TransactionId, snapshot: Csn) -> Result<()> {
        let mut state = self.state.lock();
        state.begin(id, snapshot);
        state.check(id)
    }

    /// Bars an active transaction from committing.
    pub(crate) fn refuse(&self, id: TransactionId) {
        if let Some(member) = self.state.lock().members.get_mut(&id) {
            member.refused = true;
        }
    }

    /// Notes that a transaction read a key at its snapshot, whether it had a value or not.
    pub(crate) fn read(
        &self,
        id: TransactionId,
        snapshot: Csn,
        table: TableId,
        key: &[u8],
    ) -> Result<()> {
        let mut state = self.state.lock();
        state.begin(id, snapshot);
        state.check(id)?;
        state.make_room(id, key, None)?;
        let writers = state.notes.read(id, table, key);
        state.depends_on(id, writers)
    }

    /// Notes that a transaction read a range at its snapshot. Its client has the rows already, so a
    /// transaction whose read cannot be noted may not commit any more.
    pub(crate) fn read_range(
        &self,
        id: TransactionId,
        snapshot: Csn,
        table: TableId,
        range: KeyRange<'_>,
    ) -> Result<()> {
        let mut state = self.state.lock();
        state.begin(id, snapshot);
        state.check(id)?;
        let noted = state.make_room(id, range.start, range.end).and_then(|()| {
            let writers = state.notes.read_range(id, table, range);
            state.depends_on(id, writers)
        });
        if let (Err(_), Some(member)) = (&noted, state.members.get_mut(&id)) {
            member.refused = true;
        }
        noted
    }

    /// Notes that a transaction with a snapshot at `snapshot` writes a key.
    pub(crate) fn write(
        &self,
        id: TransactionId,
        snapshot: Csn,
        table: TableId,
        key: &[u8],
    ) -> Result<()> {
        let mut state = self.state.lock();
        state.begin(id, snapshot);
        state.check(id)?;
        state.make_room(id, key, None)?;
        let readers = state.notes.write(id, table, key);
        readers.into_iter().try_for_each(|reader| state.depends(id, reader, id))
    }

    /// The last check before the commit. If it succeeds, the transaction cannot be refused any
    /// more.
    pub(crate) fn prepare(&self, id: TransactionId) -> Result<()> {
        let mut state = self.state.lock();
        state.check(id)?;
        if let Some(member) = state.members.get_mut(&id) {
            member.committed = Some(Csn::MAX);
        }
        Ok(())
    }

    /// Notes a transaction's CSN; for a read-only transaction it is that of its snapshot. Called
    /// before the commit is visible. So any transaction whose snapshot includes the commit finds
    /// that it is not concurrent with it.
    pub(crate) fn committed(&self, id: TransactionId, csn: Csn) {
        let mut state = self.state.lock();
        if let Some(member) = state.members.get_mut(&id) {
            member.committed = Some(csn);
        }
        state.sweep(self.snapshots.stable_csn());
    }

    /// Forgets a transaction that was undone or starts over, with its reads and writes.
    pub(crate) fn aborted(&self, id: TransactionId) {
        let mut state = self.state.lock();
        if let Some(undone) = state.members.remove(&id) {
            // An undone transaction is in no history, so its dependencies break no other
            // transaction.
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

    /// The CSNs of remembered transactions that have one.
    #[cfg(test)]
    pub(crate) fn numbers(&self) -> Vec<Csn> {
        self.state.lock().members.values().filter_map(|member| member.committed).collect()
    }

    /// Sets the number of notes from which they are folded.
    #[cfg(test)]
    pub(crate) fn fold_from(&self, notes: usize) {
        self.state.lock().fold_from = notes;
    }

    /// The number of remembered transactions.
    #[cfg(test)]
    pub(crate) fn members(&self) -> usize {
        self.state.lock().members.len()
    }
}
