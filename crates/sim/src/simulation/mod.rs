//! Runs the whole database under a deterministic scheduler, over a disk that fails, and checks it
//! against a model.
//!
//! The simulation exists in builds with debug assertions. `make simulate` builds and runs it, see
//! docs/testing.md. One process runs one history: a few lives of one database folder. A life lasts
//! from an opening of the database to a close, a kill or a crash. Each life has clients, background
//! threads and callers of flush, compaction and backup. All of them are tasks of
//! [`spillway_base::scheduler`]. Locks, atomics of the lock-free cores and operations of the disk
//! are scheduling points.
//!
//! [`shape`] draws the parameters of a history (its *shape*), and [`world`] runs the history's
//! lives. [`client`] runs the clients' transactions, and `beside` runs tasks that disturb the
//! clients. In histories of SQL sessions, [`sql`] runs the transfers of the clients, `own` runs the
//! statements on the tables that belong to one client, and `outcomes` runs transactions in which
//! every outcome counts as a read. [`oracle`] checks the results. [`runner`] runs thousands of
//! histories, and shrinks a failing one.
//!
//! # The simulated parts
//!
//! - **SIMULATION-1 (replay).** A seed fixes a history: its shape, the order of its tasks, its
//!   faults, and every byte on its disk. Two runs of a seed report the same trace.
//! - **SIMULATION-2 (whole database).** Every background thread of a [`spillway::Database`] runs.
//!   Clients commit to tables of one engine or of both while these threads run, and during `close`.
//!   The threads are:
//!   - of the log: the flushers, and the thread that cuts the log (*log care*);
//!   - in an opening: the threads that read the log;
//!   - of large transactions: the thread that folds spilled writes into their tables;
//!   - of the tiered engine: memtable flushes, compactions, and moves between devices;
//!   - of the memory engine: collection, checkpoints and log compaction.
//!
//!   A shape decides whether the rarer jobs have work: transactions that spill (`spill_bytes`),
//!   devices that come and go (`tiers`), and a task that takes memory, so that rows and blocks are
//!   evicted (`beside`). Each history prints how much work each of these jobs did.
//! - **SIMULATION-3 (faults).** A life ends by a crash of the machine, a kill, a close while
//!   clients run, or a close after the clients have ended. After a crash or a kill, the next
//!   opening begins while tasks of the previous life still exist.
//!
//!   During a life, operations of the disk fail, writes are short, disks are full, and syncs fail.
//!   Such faults can occur several times in a life. Openings meet the same faults, and crashes of
//!   the machine. A disk may also stay full for a part of a life; meanwhile some clients delete
//!   rows to make room. Syncs may also fail or lie for a part of a life (SIMULATION-13). After a
//!   failed sync, pages may read as stale.
//!
//! # Checks
//!
//! A commit carries its position in the commit order (CSN). So the model knows the state at every
//! CSN, and the checks need not search for a serial order.
//!
//! - **SIMULATION-4 (durability).** If the acknowledgement of a commit means that the commit is
//!   durable, the next opening recovers the commit, and every commit that its transaction has read.
//!   After a clean close, the next opening recovers every acknowledged commit, even one that was
//!   not acknowledged as durable.
//! - **SIMULATION-5 (atomicity).** An opening recovers, for every key, exactly the state at the
//!   last commit that it recovers. No state contains a refused commit.
//! - **SIMULATION-6 (isolation).** A read returns the transaction's own write if there is one.
//!   Otherwise the read matches the model's state at one CSN. The kind of read determines this CSN:
//!   - Reads without locks are gets, scans, keys that a read did not find, and ranges that the
//!     transaction has deleted. Under REPEATABLE READ and SERIALIZABLE they match the state at the
//!     transaction's snapshot. Under READ COMMITTED they match the state at the statement's
//!     snapshot.
//!   - Locking reads, increments, rows that a deletion of a range has locked, and duplicate-key
//!     errors match the state just before the transaction's commit.
//!   - A snapshot contains every commit that was acknowledged before the transaction (or, under
//!     READ COMMITTED, the statement) began. A get without a transaction misses no acknowledged
//!     commit.
//! - **SIMULATION-7 (serializability).** Committed SERIALIZABLE transactions have no cycle of
//!   dependencies. Every outcome that a client sees counts as a read.
//! - **SIMULATION-8 (time).** Every wait for a commit ends within [`oracle::WAIT_MAX`] of simulated
//!   time, by an acknowledgement or an error. A close ends within the same time, and no task waits
//!   forever (SCHED-4).
//! - **SIMULATION-9 (openings).** An opening without faults succeeds, and the files that a history
//!   leaves pass the check of the whole folder.
//! - **SIMULATION-10 (SQL).** In histories of SQL sessions, clients do two kinds of work.
//!   - Clients move amounts between accounts and record each transfer in a ledger. At every check,
//!     the balances of the accounts match the ledger. The ledger has every acknowledged transfer,
//!     and no transfer that was refused or rolled back.
//!   - Each client has a table of its own. The client creates, alters, truncates and drops this
//!     table, moves it between the engines, and changes ranges of its rows. The table and its index
//!     have the content that the acknowledged statements produced.
//! - **SIMULATION-11 (backups).** The last backup of a life is taken while clients run. It restores
//!   to the state at the last commit that it contains. It contains every commit that was
//!   acknowledged before the backup began.
//! - **SIMULATION-12 (bounds).** After the last life, once everything is flushed and compacted, the
//!   charged memory is within the budget. The files of each kind take no more space than the live
//!   rows and the settings allow, with the slack that `space` states. SQL histories are left out,
//!   because the model does not know the bytes of their rows. Histories in which lies of the disk
//!   lost something are left out, too.
//!
//! - **SIMULATION-13 (lying syncs).** In some histories the disk breaks its contract (DISK-2) for a
//!   part of a life, in all folders or in the folder of one part of the database. Syncs of files
//!   and folders then report success, but a seeded choice of sectors and names is not durable. In
//!   some of these lives, pages also read as stale.
//!   - Nothing is lost, and every check holds, if the life ends without a crash of the machine, no
//!     page was stale and no sync failed.
//!   - Otherwise acknowledged commits may be lost. The next opening fails as damaged
//!     ([`spillway::ErrorKind::Corruption`]), or it recovers exactly the state at a commit
//!     (SIMULATION-5), or reads of the recovered state fail as damaged. The recovered state has
//!     every commit that was acknowledged before the first lie.
//!   - Later lives begin on a disk that is honest again. In them, a read, an opening, a close, a
//!     restore and the check of the folder may still fail as damaged. No read returns a wrong
//!     value, and all other checks hold. In histories of SQL sessions, the accounts match the
//!     ledger, and indexes match their rows.
//! - **SIMULATION-14 (outcomes of SQL).** In histories of SQL sessions, clients also run
//!   transactions at all isolation levels. In these, every outcome counts as a read under the rules
//!   of SIMULATION-6 and SIMULATION-7: rows of selects, with locks and without; numbers of rows;
//!   numbers of matched, changed, deleted, inserted, replaced and duplicate rows; changes that
//!   found no row; and duplicate keys. An outcome counts even if a savepoint undoes its statement.
//!
//!   Rows that a change finds and locks match the state just before the commit. Rows that it does
//!   not find match
//!   - the state at the snapshot, if the transaction acts on its snapshot (SERIALIZABLE, or
//!     REPEATABLE READ with `innodb_snapshot_isolation`);
//!   - otherwise, and in a statement that commits by itself, a state that was the newest during the
//!     statement.
//! - **SIMULATION-15 (full disk).** In some histories (`EMPTYING`), a table in either engine fills
//!   the disk. While the disk stays full and the clients continue, a task frees space:
//!   - Either it drops or empties this table (in SQL by DROP TABLE or TRUNCATE TABLE). Then at
//!     least half of the bytes of the table's rows are free, and later rows find room.
//!   - Or it deletes every other row of this table. It does this only in the memory engine, with
//!     rows of several pages each. Then a quarter of the number of rows finds room again.
//!
//!   The commits of the task succeed. All this happens within 12 s of simulated time and without a
//!   restart. Rows that were not deleted have their values, also after a crash.
//!
//! # Not simulated
//!
//! Weak memory orders (loom checks them), the server and its sockets, io_uring, the memory watch,
//! statements that are suspended for a device read, a log in a folder of its own, and tables that
//! are larger than the memory.

mod beside;
pub mod client;
pub mod oracle;
mod outcomes;
mod own;
pub mod runner;
pub mod shape;
mod space;
pub mod sql;
pub mod world;
