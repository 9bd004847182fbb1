//! TPC-C (revision 5.11) through the library: its transactions over tables with binary keys and
//! rows of fixed layouts, as in the benchmarks of Silo, ERMIA and Cicada. No SQL is involved.
//!
//! - **TPCC-1 (mix).** Transactions are drawn one by one (clauses 2.4 to 2.8):
//!   - Of a hundred transactions, 45 are new-orders, 43 payments, 4 order-statuses, 4 deliveries
//!     and 4 stock-levels.
//!   - Of the new-orders, 1 % name an item that does not exist, and roll back.
//!   - Of the order lines, 1 % are supplied by another warehouse.
//!   - Of the payments, 15 % are of a customer of another warehouse.
//!   - Of the payments and order-statuses, 60 % name the customer by last name.
//!   - Terminals have no keying times and no think times.
//! - **TPCC-2 (what counts).** A transaction counts once its commit is acknowledged. Rolled-back
//!   new-orders do not count.
//! - **TPCC-3 (conflicts).** A transaction that fails with a write conflict, a deadlock or a
//!   serialization failure is run again with the same inputs. Each failed attempt is counted. The
//!   latency of the transaction is that of all its attempts together.
//! - **TPCC-4 (consistency).** After a run, conditions 1 to 12 of clause 3.3.2 are checked over all
//!   rows, and also a condition 13: both index tables have exactly the entries of the rows that
//!   they index. A violation fails the run.
//! - **TPCC-5 (nothing is invented).** The tables have as many new orders and payments as a run
//!   counted.
//!
//! In the specification, condition 11 holds only for the initial database: it equates the delivered
//! orders of each district with a constant. Here the check adds to this constant the deliveries
//! since the load, which the rows of the district's customers count.
//!
//! STOCK is two tables: one with the columns that change, one with the columns for the districts'
//! texts and S_DATA (clause 1.4.5 allows vertical partitioning). Silo and ERMIA do the same. All
//! other tables have whole rows. HISTORY has no key in the specification. Here the key of a history
//! row is the key of its customer followed by the customer's count of payments.
//!
//! # Locks
//!
//! A transaction begins by locking its most contended row. A new-order locks the district, a
//! payment the warehouse, and a delivery a key that stands for all deliveries of its warehouse. The
//! snapshot is taken after this lock is granted, so it includes the writes of the previous holder
//! of the lock.
//!
//! A transaction that has locked a row may write other rows without locking them (`put_guarded`),
//! if every transaction that writes these rows first locks the same row: the locked row *guards*
//! them. An order's row guards the order's lines, its entry in the queue of new orders and its
//! index entry. A customer's row guards the customer's history.
//!
//! All transactions take their locks in one order, so there are no deadlocks:
//!
//! - a new-order locks its district, then its stock;
//! - a payment locks its warehouse, its district, then its customer;
//! - a delivery locks its key, then an order and a customer of one district after the other.

mod check;
mod command;
mod driver;
mod inputs;
mod keys;
mod layout;
mod load;
mod rows;
mod schema;
mod transactions;

#[cfg(test)]
mod tests;

pub use command::TpccArgs;
