//! What filters cost: bits of memory for each key, the keys that pass though they are not there, and processor time to build and to ask.
//!
//! Each case is a number of keys that one filter is of: those of a block, where each block has its own, or 60,000, as an extent may
//! have. Of so few keys that a filter says little, there are more filters: all cases have about as many keys.
//!
//! The cases of an index have keys of two parts, a value and a row's number, as a SQL table's secondary index has. A scan of a value's
//! rows could ask a filter that has the values as well: "with prefixes" is such a one, asked for values.

mod command;
#[cfg(test)]
mod tests;

pub use self::command::FiltersArgs;
