//! The executor: runs planned queries as nested loops over their sources, and reads and writes the
//! stored rows and index entries.

mod aggregate;
mod batched_join;
mod explain;
mod index_entries;
mod index_ranges;
mod join;
mod lookups;
mod min_max;
mod point;
mod pushdown;
mod row_buffer;
mod row_reads;
mod row_sink;
mod run;
mod scan;
mod sort;
mod span_scan;
mod spans;
mod spool;
pub(crate) mod store;
mod subquery;
mod to_lock;
mod verify;

pub(crate) use explain::{explain, explain_change, explain_columns, explain_insert};
pub(crate) use lookups::together_max;
pub(crate) use point::Point;
pub(crate) use row_reads::Reading;
pub(crate) use row_sink::TakeRow;
pub(crate) use run::{count, run_query, run_refs};
pub(crate) use scan::{delete_rows, scan_table};
pub(crate) use sort::{HeldMemory, order_of};
pub(crate) use spool::{KeySet, Spool};
pub(crate) use to_lock::{STARTS_MAX, note_moved, turns};
pub(crate) use verify::check_table;
