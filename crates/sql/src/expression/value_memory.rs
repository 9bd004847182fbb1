//! The memory of the values that expressions make.
//!
//! A function may make a value of up to `max_allowed_packet` bytes, and may copy the value while
//! the function runs. Values have no owner that could hold a memory charge. So the statement's
//! context counts the values: it derives from the nesting of evaluations which values an expression
//! holds.
//!
//! - **VALUE-MEMORY-1 (charged).** While an expression is evaluated, the budget is charged for the
//!   values of [`LARGE`] bytes or more that the parts of the expression have made, and for the
//!   copies that a function makes of its arguments and of its result. If the charge does not fit,
//!   the statement fails with 1041.
//! - **VALUE-MEMORY-2 (rows).** If a row is passed on or written, its values and the copies of
//!   these values stay charged until the row's [`KeptValues`] is dropped.
//! - **VALUE-MEMORY-3 (returned).** If the value of an expression is not part of such a row,
//!   nothing stays charged after the evaluation: the value is used at once, or its new owner
//!   charges for it.
//!
//! Rejected: a charge inside of each large value. It would make every value larger.

use std::cell::{Cell, RefCell};

use spillway_base::budget::{Charge, Use};
use spillway_types::Value;

use super::Context;
use crate::errors::Result;

/// Smaller values are not charged: those of all workers fit into the fixed memory of the process.
pub(crate) const LARGE: usize = 64 << 10;
/// How many copies of a row's value may exist until the row was passed on or written: as a value,
/// as a stored value or in the client's packet, and in an encoded row.
const COPIES: usize = 3;

/// The bytes of a value on the heap.
pub(crate) fn length(value: &Value) -> usize {
    match value {
        Value::Text(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        _ => 0,
    }
}

/// The bytes of a value on the heap if it is large, else 0.
fn large(value: &Value) -> usize {
    Some(length(value)).filter(|bytes| *bytes >= LARGE).unwrap_or(0)
}

/// The memory that a statement's expressions hold. The module's page states its guarantees.
#[derive(Default)]
pub(crate) struct ValueMemory {
    /// The bytes that are held now.
    bytes: Cell<usize>,
    /// The bytes among them that stay when the outermost evaluation ends.
    base: Cell<usize>,
    /// The evaluations that have begun, each within the one before.
    depth: Cell<usize>,
    /// Whether the results of outermost evaluations stay (VALUE-MEMORY-2).
    keeps: Cell<bool>,
    charge: RefCell<Option<Charge>>,
}

/// While it lives, the values that a context evaluates stay charged (VALUE-MEMORY-2).
pub(crate) struct KeptValues<'c> {
    memory: &'c ValueMemory,
    base: usize,
    keeps: bool,
}

impl Drop for KeptValues<'_> {
    fn drop(&mut self) {
        self.memory.base.set(self.base);
        self.memory.keeps.set(self.keeps);
        if self.memory.depth.get() == 0 {
            self.memory.shrink(self.base);
        }
    }
}

impl ValueMemory {
    /// Reduces the bytes that are held.
    #[inline]
    fn shrink(&self, bytes: usize) {
        if self.bytes.get() > bytes {
            self.bytes.set(bytes);
            if let Some(charge) = &mut *self.charge.borrow_mut() {
                charge.resize(bytes);
            }
        }
    }
}

impl Context<'_> {
    /// Charges `more` bytes until the innermost evaluation ends.
    ///
    /// # Errors
    /// 1041: they do not fit.
    pub(crate) fn hold(&self, more: usize) -> Result<()> {
        let memory = &self.value_memory;
        let bytes = memory.bytes.get().saturating_add(more);
        let mut charge = memory.charge.borrow_mut();
        let charge = charge
            .get_or_insert_with(|| self.server.database().budget().charge(Use::Connections, 0));
        charge.try_resize(bytes)?;
        memory.bytes.set(bytes);
        Ok(())
    }

    /// As [`Context::hold`], but charges nothing if `more` is small.
    #[inline]
    pub(crate) fn hold_if_large(&self, more: usize) -> Result<()> {
        if more < LARGE { Ok(()) } else { self.hold(more) }
    }

    /// Evaluates a part of an expression, and charges for its value as long as the evaluation
    /// around it runs (VALUE-MEMORY-1).
    #[inline]
    pub(super) fn held_value(&self, evaluate: impl FnOnce() -> Result<Value>) -> Result<Value> {
        let memory = &self.value_memory;
        let (before, depth) = (memory.bytes.get(), memory.depth.get());
        memory.depth.set(depth + 1);
        let outcome = evaluate();
        memory.depth.set(depth);
        // The operands, and the copies that were made of them, are gone.
        memory.shrink(before);
        let bytes = outcome.as_ref().map_or(0, large);
        if bytes > 0 {
            self.keep_large(bytes, depth)?;
        }
        outcome
    }

    #[cold]
    fn keep_large(&self, bytes: usize, depth: usize) -> Result<()> {
        let memory = &self.value_memory;
        match (depth, memory.keeps.get()) {
            (0, false) => Ok(()),
            (0, true) => {
                self.hold(bytes * COPIES)?;
                memory.base.set(memory.bytes.get());
                Ok(())
            }
            _ => self.hold(bytes),
        }
    }

    /// Makes the values that are evaluated from now on stay charged until the result is dropped
    /// (VALUE-MEMORY-2). One for each row.
    pub(crate) fn keep_values(&self) -> KeptValues<'_> {
        let memory = &self.value_memory;
        let base = memory.base.replace(memory.bytes.get());
        KeptValues { memory, base, keeps: memory.keeps.replace(true) }
    }

    /// Runs a query within an expression. What its expressions hold is gone when it ends.
    pub(super) fn held_query<T>(&self, query: impl FnOnce() -> Result<T>) -> Result<T> {
        let memory = &self.value_memory;
        let before = memory.bytes.get();
        let base = memory.base.replace(before);
        let (depth, keeps) = (memory.depth.replace(0), memory.keeps.replace(false));
        let outcome = query();
        memory.base.set(base);
        memory.depth.set(depth);
        memory.keeps.set(keeps);
        memory.shrink(before);
        outcome
    }
}
