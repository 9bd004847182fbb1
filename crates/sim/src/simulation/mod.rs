//! The whole database under a deterministic scheduler, over a disk that fails, checked by a model.
//!
//! It exists in builds with debug assertions; `make simulate` builds and runs it, docs/testing.md
//! says how. One process runs one history: a few lives of one database folder, each with clients,
//! background threads and callers of flush, compaction and backup, all of them tasks of
//! [`spillway_base::scheduler`]. Locks, atomics of the lock-free cores and operations of the disk
//! are scheduling points. [`shape`] draws what a history is made of, [`world`] runs its lives,
//! [`client`] the transactions (or [`sql`] the sessions, with `own` tables), [`oracle`] judges
//! them, [`runner`] runs histories by the thousand and shrinks one that fails.
//!
//! # The simulated parts
//!
//! - **SIMULATION-1 (replay).** A seed fixes a history: its shape, the order of its tasks, its
//!   faults, and every byte on its disk. Two runs of a seed report the same trace.
//! - **SIMULATION-2 (whole database).** Every background thread of a [`spillway::Database`] runs:
//!   flushers, log care, folds, flushes, compactions, readers of a recovery, and the collection,
//!   checkpoints and log compaction of the memory engine. Clients commit to tables of one engine or
//!   of both beside them, and beside `close`.
//! - **SIMULATION-3 (faults).** A life ends by a crash of the machine, a kill, a close beside
//!   clients, or a quiet close. After a crash or a kill the next opening begins while the tasks of
//!   the life before are still there. Operations fail, writes are short, disks are full, syncs
//!   fail, several times in a life, and openings are crashed and fail like anything else.
//!
//! # Checks
//!
//! Commits carry their place in the one order of commits (CSN), so the model knows the state at
//! every CSN: no search for an order is needed.
//!
//! - **SIMULATION-4 (durability).** Every acknowledged commit is at or below the last commit that
//!   the next opening recovers, and what a committed transaction has read is too. After a clean
//!   close that holds for commits of any durability.
//! - **SIMULATION-5 (atomicity).** What an opening recovers is the state at its last commit, in
//!   every key. A refused commit is in no state.
//! - **SIMULATION-6 (isolation).** Gets, scans, absent keys and deleted ranges of a transaction
//!   under REPEATABLE READ and above are the state at its snapshot, with its own writes; under
//!   READ COMMITTED they are the state at the statement's. Locking reads, increments, rows that a
//!   deletion of a range has locked, and duplicate-key errors are the state just before its commit.
//!   A snapshot has every commit that was acknowledged before the transaction, or the statement,
//!   began. A get without a transaction misses no acknowledged commit.
//! - **SIMULATION-7 (serializability).** Committed SERIALIZABLE transactions have no cycle of
//!   dependencies, where every outcome that a client sees is a read.
//! - **SIMULATION-8 (time).** Every wait for a commit ends within [`oracle::WAIT_MAX`] of simulated
//!   time, by an acknowledgement or an error. A close ends within that, and no task waits for ever
//!   (SCHED-4).
//! - **SIMULATION-9 (openings).** An opening that meets no fault succeeds, and the files that a
//!   history leaves pass the check of the whole folder.
//!
//! - **SIMULATION-10 (SQL).** In histories of SQL sessions, which move amounts between accounts and
//!   note each transfer, accounts hold what the ledger says, at every look; every acknowledged
//!   transfer is in it, and none that was refused or rolled back. Each client creates, alters,
//!   truncates and drops a table of its own, moves it between the engines, and changes ranges of
//!   its rows: it is there as the statements left it that were acknowledged, in the table and in
//!   its index.
//! - **SIMULATION-11 (backups).** The last backup of a life, taken beside clients, restores to the
//!   state at its last commit. It has every commit that was acknowledged before it began.
//!
//! # Not simulated
//!
//! Weak memory orders (loom's), the server and its sockets, io_uring, and the memory watch.

pub mod client;
pub mod oracle;
mod own;
pub mod runner;
pub mod shape;
pub mod sql;
pub mod world;
