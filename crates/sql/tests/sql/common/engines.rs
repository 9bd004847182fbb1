//! Selects the engine of the tests' tables. `SPILLWAY_ENGINE` is the name of an engine, or `MIXED`,
//! which alternates with each CREATE TABLE. If it is not set, tables are in the default engine.

use std::borrow::Cow;
use std::cell::Cell;

use spillway::Database;
use spillway_sql::{Instance, SqlError, parse_engine};

/// The names of the engines.
const ENGINES: [&str; 2] = ["MEMORY_OPTIMIZED", "TIERED"];

/// The engines in which tables are created.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Placement {
    Default,
    /// In the engine of this name.
    In(&'static str),
    /// In each engine by turns.
    Mixed,
}

impl Placement {
    /// The placement that `SPILLWAY_ENGINE` selects.
    pub(crate) fn chosen() -> Placement {
        match std::env::var("SPILLWAY_ENGINE").as_deref() {
            Err(_) | Ok("") => Placement::Default,
            Ok("MIXED") => Placement::Mixed,
            Ok(name) => Placement::In(parse_engine(name).expect("SPILLWAY_ENGINE names an engine")),
        }
    }
}

/// An instance over a database, with the placement that `SPILLWAY_ENGINE` selects.
pub(crate) fn instance_of(db: Database) -> Result<Instance, SqlError> {
    let instance = Instance::open(db)?;
    if let Placement::In(engine) = Placement::chosen() {
        instance.set_global("default_storage_engine", engine);
    }
    Ok(instance)
}

/// The engine whose turn it is, in this test's thread.
pub(crate) fn next_engine() -> &'static str {
    thread_local!(static TURNS: Cell<usize> = const { Cell::new(0) });
    let turn = TURNS.replace(TURNS.get() + 1);
    ENGINES[turn % ENGINES.len()]
}

/// The statements, changed to create each table in the engine whose turn it is, if
/// `SPILLWAY_ENGINE` selects that.
pub(crate) fn placed(sql: &str) -> Cow<'_, str> {
    if Placement::chosen() != Placement::Mixed || !sql.contains("CREATE TABLE") {
        return Cow::Borrowed(sql);
    }
    let mut parts = sql.split("CREATE TABLE");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        // Not in SHOW CREATE TABLE, a string literal or a list of privileges.
        let begins = matches!(out.trim_end().as_bytes().last(), None | Some(b';'));
        if begins {
            out += &format!("SET default_storage_engine = {}; ", next_engine());
        }
        out += "CREATE TABLE";
        out += part;
    }
    Cow::Owned(out)
}
