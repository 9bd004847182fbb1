//! Point reads of data larger than memory, from uniform to very skewed (X-Engine, figure 18).
//!
//! Popular rows are random rows, so a block with one popular row has many unpopular ones. A cache
//! of blocks holds many unpopular rows with each popular one, but a cache of rows does not. So the
//! share of reads that find their row in memory depends on what a store caches. Before each
//! measurement, the same kind of reads runs for a while without being counted, to warm the caches.

mod command;
mod work;

#[cfg(test)]
mod tests;

pub use self::command::SkewArgs;
