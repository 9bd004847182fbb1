//! Threads bound to cores and to their tables, compared with threads that are not: the experiment
//! of X-Engine's shared-nothing readers, with the library alone.
//!
//! Several tables of small rows lie in one run each, in memory. As many threads as there are cores
//! get random rows: from all tables, or each from its own, by thread and table numbers; each on its
//! own core, or on any. All four combinations take turns over one database.

mod command;
#[cfg(test)]
mod tests;
mod work;

pub use self::command::HomesArgs;
