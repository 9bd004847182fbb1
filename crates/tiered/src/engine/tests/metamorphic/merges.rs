//! Runs each merge with two executors, and compares the results.

use super::super::*;
use crate::compaction::{Accelerator, Checked, Cpu, DropRule, MergeTask, Sorts};
use crate::offload::BuiltBlock;

/// The results of merging the same tasks in two ways. This records a difference, because the engine
/// would hide it: after an error of the accelerator, the engine merges on its own (OFFLOAD-3).
#[derive(Clone, Default)]
pub(super) struct Merges(Arc<Mutex<(u64, Option<Error>)>>);

impl Merges {
    /// The number of merges with equal results since the last call. Panics if any results differed.
    pub(super) fn compared(&self) -> u64 {
        let (alike, differs) = std::mem::take(&mut *self.0.lock());
        assert!(differs.is_none(), "OFFLOAD-1: {differs:?}");
        alike
    }
}

impl Accelerator for Merges {
    fn batch(&self) -> usize {
        Checked(Cpu, Sorts).batch()
    }

    fn compares(&self) -> bool {
        true
    }

    fn merge(&self, tasks: &[MergeTask], rule: &DropRule<'_>) -> Result<Vec<Vec<BuiltBlock>>> {
        let merged = Checked(Cpu, Sorts).merge(tasks, rule);
        let (alike, differs) = &mut *self.0.lock();
        match &merged {
            Ok(_) => *alike += tasks.len() as u64,
            Err(error) => *differs = Some(error.clone()),
        }
        merged
    }
}
