//! TPC-C (revision 5.11) through the library: its transactions over tables with binary keys and
//! rows of fixed layouts, as in the benchmarks of Silo, ERMIA and Cicada. No SQL is involved.
//!
//! - **TPCC-1 (mix).** Of a hundred transactions 45 are new-orders, 43 payments, 4 order-statuses,
//!   4 deliveries and 4 stock-levels, drawn one by one. Of the new-orders 1 % name an item that
//!   does not exist and roll back. Of the order lines 1 % are supplied by another warehouse, and of
//!   the payments 15 % are of a customer of another warehouse. Of the payments and order-statuses
//!   60 % name the customer by last name (clauses 2.4 to 2.8). Terminals neither key in nor think.
//! - **TPCC-2 (what counts).** A transaction counts once its commit is acknowledged. Rolled-back
//!   new-orders do not count.
//! - **TPCC-3 (conflicts).** A transaction that fails with a write conflict, a deadlock or a
//!   serialization failure is run again with the same inputs. Each failed attempt is counted, and
//!   the latency is that of all attempts together.
//! - **TPCC-4 (consistency).** After a run the conditions 1 to 12 of clause 3.3.2 are checked over
//!   all rows, and as condition 13 that both index tables have the entries of their rows and no
//!   others. A violation fails the run.
//! - **TPCC-5 (nothing is invented).** The tables have as many new orders and payments as a run
//!   counted.
//!
//! Condition 11 concerns the initial database: the delivered orders of each district are the
//! initial ones. Here they also include those that deliveries counted in the district's customers.
//!
//! STOCK is two tables: one with the columns that change, one with the districts' texts and the
//! data (clause 1.4.5 allows vertical partitioning). Silo and ERMIA do the same. All other tables
//! have whole rows. A history row's key is its customer's with the customer's count of payments,
//! since HISTORY has no key in the specification.
//!
//! # Locks
//!
//! A transaction locks the row that is contended first, so that its snapshot includes the last
//! holder's writes: the district, the warehouse, or a key that stands for a warehouse's deliveries.
//! An order's row guards its lines, its entry in the queue of new orders and its index entry
//! (`put_guarded`): these take no locks of their own. Locks are taken in one order (district,
//! stock; warehouse, district, customer; deliveries, order, customer), so that there are no
//! deadlocks.

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
