//! The table engines, as SQL and the stored catalog name them.

use spillway::EngineKind;

/// A table engine.
#[derive(Debug)]
pub(crate) struct StorageEngine {
    pub(crate) kind: EngineKind,
    /// The name in `ENGINE=` and SHOW, and in the stored catalog.
    pub(crate) name: &'static str,
    /// Another name that `ENGINE=` accepts.
    alias: &'static str,
    /// One sentence for SHOW ENGINES.
    pub(crate) comment: &'static str,
}

const TIERED: StorageEngine = StorageEngine {
    kind: EngineKind::Tiered,
    name: "TIERED",
    alias: "XENGINE",
    comment: "LSM-tree of 2 MB extents, for data larger than memory (alias XENGINE)",
};

const MEMORY_OPTIMIZED: StorageEngine = StorageEngine {
    kind: EngineKind::Memory,
    name: "MEMORY_OPTIMIZED",
    alias: "HIENGINE",
    comment: "Rows in memory over the log, for data whose keys fit memory (alias HIENGINE)",
};

/// All engines.
pub(crate) const STORAGE_ENGINES: &[StorageEngine; EngineKind::COUNT] = &[TIERED, MEMORY_OPTIMIZED];

/// The engine of tables whose CREATE statement names none, unless `default_storage_engine` is set.
pub(crate) const DEFAULT_ENGINE: &StorageEngine = &STORAGE_ENGINES[0];

impl StorageEngine {
    /// The engine with this name or alias, compared without case.
    pub(crate) fn named(name: &str) -> Option<&'static StorageEngine> {
        let is = |known: &str| known.eq_ignore_ascii_case(name);
        STORAGE_ENGINES.iter().find(|engine| is(engine.name) || is(engine.alias))
    }

    /// The engine of a kind.
    pub(crate) fn of(kind: EngineKind) -> &'static StorageEngine {
        STORAGE_ENGINES.iter().find(|engine| engine.kind == kind).unwrap_or(DEFAULT_ENGINE)
    }
}

/// The name of the engine with this name or alias, compared without case, as
/// `default_storage_engine` shows it.
#[must_use]
pub fn parse_engine(text: &str) -> Option<&'static str> {
    StorageEngine::named(text).map(|engine| engine.name)
}

/// Stores an engine in the catalog as its name.
pub(super) mod by_name {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};
    use spillway::EngineKind;

    use super::StorageEngine;

    pub(crate) fn serialize<S: Serializer>(
        kind: &EngineKind,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(StorageEngine::of(*kind).name)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<EngineKind, D::Error> {
        let name = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        let engine = StorageEngine::named(&name).map(|engine| engine.kind);
        engine.ok_or_else(|| D::Error::custom(format!("unknown engine {name}")))
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
                assert_eq!(parse_engine(name), Some(engine.name));
            }
        }
        assert!(StorageEngine::named("InnoDB").is_none() && StorageEngine::named("").is_none());
    }

    #[test]
    fn every_kind_has_a_name_of_its_own() {
        for kind in EngineKind::ALL {
            assert_eq!(StorageEngine::of(kind).kind, kind);
        }
    }
}
