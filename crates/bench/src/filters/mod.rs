//! The cost of filters: bits of memory for each key, false positives, and the processor time of
//! builds and lookups.
//!
//! Each case is a number of keys that one filter has: those of a block, if each block has its own,
//! or 60,000, as an extent may have. Cases with few keys use more filters, so that all cases have
//! about as many keys.
//!
//! The cases of an index have keys of two parts, a value and a row's number, as a SQL table's
//! secondary index has. A scan of a value's rows could look up the value in a filter that also has
//! the values: "with prefixes" is such a filter, with lookups of values.

mod command;
#[cfg(test)]
mod tests;

pub use self::command::FiltersArgs;
