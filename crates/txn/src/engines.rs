//! The engines of a database, and the CSNs up to which each engine's files have all commits.

use std::sync::Arc;

use spillway_base::engine::Engine;
use spillway_base::{Csn, EngineKind, EngineSet, Error, ErrorKind, Result, TableId};

/// The engines of a database, by kind.
#[derive(Clone, Default)]
pub struct Engines {
    engines: [Option<Arc<dyn Engine>>; EngineKind::COUNT],
}

impl Engines {
    /// Creates the set of these engines.
    ///
    /// # Panics
    /// When two engines have the same kind.
    #[must_use]
    pub fn new(engines: Vec<Arc<dyn Engine>>) -> Engines {
        let mut by_kind: [Option<Arc<dyn Engine>>; EngineKind::COUNT] = Default::default();
        for engine in engines {
            let kind = engine.kind();
            let other = by_kind[kind.index()].replace(engine);
            assert!(other.is_none(), "a database has one {kind:?} engine");
        }
        Engines { engines: by_kind }
    }

    /// The engine of this kind.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] when the database has none.
    pub fn of_kind(&self, kind: EngineKind) -> Result<&Arc<dyn Engine>> {
        self.engines[kind.index()].as_ref().ok_or_else(|| {
            Error::new(ErrorKind::NotFound, format!("this database has no {kind:?} engine"))
        })
    }

    /// The engines of a set that the database has.
    pub(crate) fn in_set(&self, engines: EngineSet) -> impl Iterator<Item = &Arc<dyn Engine>> {
        let of_set = self.by_kind().filter(move |(kind, _)| engines.contains(*kind));
        of_set.map(|(_, engine)| engine)
    }

    /// All engines, each with its kind. It is cheaper than a call of [`Engine::kind`] on each.
    pub(crate) fn by_kind(&self) -> impl Iterator<Item = (EngineKind, &Arc<dyn Engine>)> {
        let engines = EngineKind::ALL.into_iter().zip(&self.engines);
        engines.filter_map(|(kind, engine)| Some((kind, engine.as_ref()?)))
    }

    /// The engine that keeps this table.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] when the database has none.
    pub fn of(&self, table: TableId) -> Result<&Arc<dyn Engine>> {
        let Some(kind) = table.engine() else {
            return Err(Error::new(ErrorKind::NotFound, format!("{table:?} has no known engine")));
        };
        self.of_kind(kind)
    }

    /// All engines.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn Engine>> {
        self.engines.iter().flatten()
    }

    /// The files of every engine have all commits up to this one (E6).
    pub(crate) fn persisted_by_all(&self) -> Csn {
        self.iter().map(|engine| engine.persisted()).min().unwrap_or(Csn::ZERO)
    }

    /// The largest CSN that the files of any engine record (E7).
    pub(crate) fn newest_recorded(&self) -> Csn {
        self.iter().map(|engine| engine.newest_recorded()).max().unwrap_or(Csn::ZERO)
    }

    /// Of each engine, the CSN that its files record as persistent; zero for a kind that the
    /// database lacks.
    pub(crate) fn recorded(&self) -> [Csn; EngineKind::COUNT] {
        EngineKind::ALL.map(|kind| self.of_kind(kind).map_or(Csn::ZERO, |one| one.recorded()))
    }

    /// Of each engine, the CSN up to which its files have all commits to its tables. It is zero for
    /// an engine that has failed, because its figure is no longer reliable, and for a kind that the
    /// database lacks.
    pub(crate) fn persisted(&self) -> [Csn; EngineKind::COUNT] {
        EngineKind::ALL.map(|kind| match self.of_kind(kind) {
            Ok(engine) if engine.health().is_ok() => engine.persisted(),
            _ => Csn::ZERO,
        })
    }
}
