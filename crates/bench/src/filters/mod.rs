//! The cost of filters: bits of memory for each key, false positives, and the processor time of
//! builds and lookups.
//!
//! A case is a number of keys per filter: as many as a block has, for a filter for each block, or
//! 60,000 keys, as many as an extent may have. Cases with fewer keys per filter build more filters,
//! so that all cases have about the same number of keys in total.
//!
//! The cases of an index have keys of two parts, a value and a row's number, like a secondary index
//! of a SQL table. A scan of all rows with one value does not know whole keys, so it cannot look
//! them up in a filter. It could look up the value if the filter also had the values. The subjects
//! "with prefixes" are such filters. Lookups in these filters look up values.

mod command;
#[cfg(test)]
mod tests;

pub use self::command::FiltersArgs;
