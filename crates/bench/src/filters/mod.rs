//! The cost of filters: bits of memory for each key, false positives, and the processor time of
//! builds and lookups.
//!
//! A case is a number of keys for each filter: the keys of one block, if each block has a filter of
//! its own, or 60,000 keys, as an extent may have. Cases with fewer keys per filter build more
//! filters, so that all cases have about as many keys in total.
//!
//! The cases of an index have keys of two parts, a value and a row's number, like a secondary index
//! of a SQL table. A scan of all rows with one value cannot look up whole keys in a filter, but it
//! could look up the value, if the filter also had the values. The subjects "with prefixes" are
//! such filters, and their lookups are of values.

mod command;
#[cfg(test)]
mod tests;

pub use self::command::FiltersArgs;
