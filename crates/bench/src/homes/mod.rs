//! Threads bound to cores and to their tables, beside threads that are not: the experiment of
//! X-Engine's shared-nothing readers, with the library alone.
//!
//! Several tables of small rows lie in one run each, in memory. As many threads as there are cores
//! get random rows: of all tables, or each of its own tables, by thread and table numbers; each on
//! its core, or on any. All four take turns over one database.

mod command;
#[cfg(test)]
mod tests;
mod work;

pub use self::command::HomesArgs;
