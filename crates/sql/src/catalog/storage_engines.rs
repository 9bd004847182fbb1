//! The table engines, as SQL names them.

use spillway::{EngineKind, Table};

/// A table engine.
pub(crate) struct StorageEngine {
    pub(crate) kind: EngineKind,
    /// The name in `ENGINE=` and SHOW.
    pub(crate) name: &'static str,
    /// Another name that `ENGINE=` takes.
    alias: &'static str,
    /// One sentence for SHOW ENGINES.
    pub(crate) comment: &'static str,
}

/// All engines, the default first. There is only one: a table's definition records no engine, and
/// each key space is created in the default.
pub(crate) const STORAGE_ENGINES: &[StorageEngine] = &[StorageEngine {
    kind: EngineKind::Tiered,
    name: "TIERED",
    alias: "XENGINE",
    comment: "LSM-tree of 2 MB extents, for data larger than memory (alias XENGINE)",
}];

const _: () = assert!(STORAGE_ENGINES.len() == 1, "record a table's engine in its definition");

/// The engine of tables whose statement names none.
pub(crate) const DEFAULT_ENGINE: &StorageEngine = &STORAGE_ENGINES[0];

impl StorageEngine {
    /// The engine with this name or alias, in any case.
    pub(crate) fn named(name: &str) -> Option<&'static StorageEngine> {
        let is = |known: &str| known.eq_ignore_ascii_case(name);
        STORAGE_ENGINES.iter().find(|engine| is(engine.name) || is(engine.alias))
    }

    /// The engine that keeps a key space.
    pub(crate) fn of(space: Table) -> &'static StorageEngine {
        let kind = space.engine();
        STORAGE_ENGINES.iter().find(|engine| Some(engine.kind) == kind).unwrap_or(DEFAULT_ENGINE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_aliases_are_known_in_any_case() {
        for engine in STORAGE_ENGINES {
            for name in [engine.name, engine.alias, &engine.name.to_lowercase()] {
                assert_eq!(StorageEngine::named(name).map(|found| found.kind), Some(engine.kind));
            }
        }
        assert!(StorageEngine::named("InnoDB").is_none() && StorageEngine::named("").is_none());
    }
}
