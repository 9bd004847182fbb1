//! Caches of compiled text statements, by their shapes (`parser/shape`): one for each session, and
//! one that all sessions share.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

use rustc_hash::{FxBuildHasher, FxHashMap};
use spillway::Budget;
use spillway_base::lock::Mutex;

use super::compiled::{COMPILED_BYTES, Compiled, MadeFor, Slot};
use crate::parser::{Shape, TextMode};
use crate::variables::Variables;

/// The most shapes that a session keeps.
const SHAPES_MAX: usize = 256;
/// The plans of a session take at most the memory budget divided by this.
const SESSION_SHARE: usize = 256;

/// If a text in a statement is longer, the session does not reuse the memory of its values.
const KEPT_BYTES: usize = 512;

/// The most shapes that one part of the shared cache keeps.
const SHARED_MAX: usize = 256;
/// The shared cache takes at most the memory budget divided by this.
const SHARED_SHARE: usize = 32;
const PARTS: usize = 16;

/// A shape's text, and the session state that its plan depends on.
#[derive(PartialEq, Eq, Hash)]
pub(super) struct ShapeKey {
    text: Box<str>,
    made_for: MadeFor,
}

impl ShapeKey {
    pub(super) fn new(shape: &Shape, made_for: MadeFor) -> ShapeKey {
        ShapeKey { text: shape.key().into(), made_for }
    }
}

/// The compiled shapes that all sessions share.
pub(super) struct SharedPlanCache {
    parts: [Mutex<FxHashMap<ShapeKey, Arc<Compiled>>>; PARTS],
    /// The most shapes that one part keeps.
    most: usize,
}

impl SharedPlanCache {
    /// An empty cache.
    pub(super) fn new(budget: &Budget) -> SharedPlanCache {
        let most = budget.limit() / SHARED_SHARE / COMPILED_BYTES / PARTS;
        SharedPlanCache { parts: Default::default(), most: most.clamp(1, SHARED_MAX) }
    }

    fn part(&self, key: &ShapeKey) -> &Mutex<FxHashMap<ShapeKey, Arc<Compiled>>> {
        let mut hasher = FxBuildHasher.build_hasher();
        hasher.write(key.text.as_bytes());
        &self.parts[(hasher.finish() >> 32) as usize % PARTS]
    }

    pub(super) fn get(&self, key: &ShapeKey) -> Option<Arc<Compiled>> {
        self.part(key).lock().get(key).cloned()
    }

    pub(super) fn insert(&self, key: ShapeKey, compiled: &Arc<Compiled>) {
        let mut part = self.part(&key).lock();
        if part.len() >= self.most {
            // The choice of victims hardly matters: each session has its own cache.
            let some: usize = part.len().div_ceil(2);
            let mut at = 0;
            part.retain(|_, _| {
                at += 1;
                at > some
            });
        }
        part.insert(key, compiled.clone());
    }
}

/// The state of a shape in a session's cache.
pub(super) enum CachedPlan {
    /// The statement. The caller runs it and then puts it back.
    Found(Slot),
    /// The shape could not be compiled for this version of the catalog.
    Uncompilable,
    Unknown,
}

/// A session's statements by their shapes, and the buffers for reading a shape.
#[derive(Default)]
pub(super) struct PlanCache {
    /// The error is the version of the catalog for which the shape could not be compiled.
    plans: HashMap<Box<str>, std::result::Result<Slot, u64>, FxBuildHasher>,
    /// The mode in which the shapes' texts are parsed.
    mode: TextMode,
    buffer: Shape,
}

impl PlanCache {
    /// Takes the buffers to read a shape in this mode. Forgets shapes of another mode.
    pub(super) fn take_buffer(&mut self, mode: TextMode) -> Shape {
        if self.mode != mode {
            *self = PlanCache { mode, ..PlanCache::default() };
        }
        std::mem::take(&mut self.buffer)
    }

    pub(super) fn put_buffer_back(&mut self, mut shape: Shape) {
        if shape.longest > KEPT_BYTES {
            // LARGE-2.
            shape.values = Vec::new();
        }
        self.buffer = shape;
    }

    /// Takes the statement of a shape to run it. Forgets a plan of another version of the catalog,
    /// or for other variables. The shape is then looked up in the shared cache again, so that all
    /// sessions share one plan after a change of the catalog, too.
    pub(super) fn take(
        &mut self,
        shape: &Shape,
        variables: &Variables,
        catalog: u64,
    ) -> CachedPlan {
        match self.plans.get_mut(shape.key()) {
            Some(Ok(slot)) if slot.is_outdated(variables, catalog) => {}
            Some(Ok(slot)) => return CachedPlan::Found(slot.take()),
            Some(Err(failed)) if *failed == catalog => return CachedPlan::Uncompilable,
            Some(Err(_)) | None => return CachedPlan::Unknown,
        }
        self.plans.remove(shape.key());
        CachedPlan::Unknown
    }

    /// Keeps a shape's statement, or that it could not be compiled for this version of the catalog.
    /// The plan is put back when the statement has run.
    pub(super) fn insert(
        &mut self,
        shape: &Shape,
        slot: Option<&Slot>,
        catalog: u64,
        budget: &Budget,
    ) {
        let most = budget.limit() / SESSION_SHARE / COMPILED_BYTES;
        if self.plans.len() >= most.clamp(1, SHAPES_MAX) {
            self.plans.clear();
        }
        let kept = slot.map(Slot::without_plan);
        self.plans.insert(shape.key().into(), kept.ok_or(catalog));
    }

    /// Puts back the plan of a statement that has run.
    pub(super) fn put_back(&mut self, shape: &Shape, slot: Slot) {
        if let Some(Ok(kept)) = self.plans.get_mut(shape.key()) {
            kept.compiled = slot.compiled;
        }
    }

    #[cfg(test)]
    pub(super) fn buffer(&self) -> &Shape {
        &self.buffer
    }
}
