//! Caches of compiled text statements, by their shapes (`parser/shape`): one of each session, and
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

/// Shapes that a session keeps.
const SHAPES_MAX: usize = 256;
/// The part of the memory budget that a session's plans take, at the most.
const SESSION_SHARE: usize = 256;

/// Where a text in a statement is longer, the memory of its values is not kept for the next one.
const KEPT_BYTES: usize = 512;

/// Shapes that one part of the shared cache keeps, at the most.
const SHARED_MAX: usize = 256;
/// The part of the memory budget that the shared cache takes, at the most.
const SHARED_SHARE: usize = 32;
const PARTS: usize = 16;

/// The text that a shape was compiled from, and the session state that its plan depends on.
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

/// What sessions made of shapes, for those that come later.
pub(super) struct SharedPlanCache {
    parts: [Mutex<FxHashMap<ShapeKey, Arc<Compiled>>>; PARTS],
    /// What one part keeps, at the most.
    most: usize,
}

impl SharedPlanCache {
    /// An empty one. It takes a small part of the budget.
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
            // Which go hardly matters: a session keeps its own.
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

/// What a session's cache knows of a shape.
pub(super) enum CachedPlan {
    /// Its statement, which the caller runs and then puts back.
    Found(Slot),
    /// It could not be compiled for this version of the catalog.
    Uncompilable,
    Unknown,
}

/// A session's statements by their shapes, and the buffers that shapes are read into.
#[derive(Default)]
pub(super) struct PlanCache {
    /// In place of a shape that could not be compiled, the version of the catalog that this was so
    /// for.
    plans: HashMap<Box<str>, std::result::Result<Slot, u64>, FxBuildHasher>,
    /// How the texts of the shapes are read.
    mode: TextMode,
    buffer: Shape,
}

impl PlanCache {
    /// Takes the buffers to read a shape of text of this mode. Shapes of another mode are
    /// forgotten.
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

    /// Takes the statement of a shape to run it. A plan of another version of the catalog, or of
    /// other variables, is forgotten, so that its shape is compiled anew, and all sessions share
    /// one plan after a change of the catalog, too.
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

    /// Keeps what a shape was compiled to for a version of the catalog, or that it could not be.
    /// Its plan is put back when it has run.
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
