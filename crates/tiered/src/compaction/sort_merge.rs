//! A second implementation of the merge, to check [`Cpu`](super::Cpu) against. It sorts all
//! entries, and decides for each version which snapshots see it.

use spillway_base::{Csn, Result};

use super::offload::{Accelerator, MergeTask};
use super::rule::DropRule;
use crate::block::{BlockWriter, BuiltBlock, Entry};

/// Merges by sorting, three tasks at once. It takes about twice as long as [`Cpu`](super::Cpu), and
/// [`Checked`](super::Checked) compares the two.
#[derive(Clone, Copy, Debug)]
pub struct Sorts;

impl Accelerator for Sorts {
    fn batch(&self) -> usize {
        3
    }

    fn merge(&self, tasks: &[MergeTask], rule: &DropRule<'_>) -> Result<Vec<Vec<BuiltBlock>>> {
        Ok(tasks.iter().map(|task| merge(task, rule)).collect())
    }
}

fn merge(task: &MergeTask, rule: &DropRule<'_>) -> Vec<BuiltBlock> {
    let pieces = task.sources().iter().flatten();
    let mut entries: Vec<_> =
        pieces.flat_map(|piece| piece.entries().map(|at| piece.block.entry(at))).collect();
    // The sort is stable. Of the versions of one commit, that of the newest source comes first, and
    // is kept.
    entries.sort_by(|a, b| a.key.cmp(b.key).then(b.csn.cmp(&a.csn)));
    entries.dedup_by(|later, first| (later.key, later.csn) == (first.key, first.csn));
    let mut writer = BlockWriter::new(task.block_bytes());
    for versions in entries.chunk_by(|a, b| a.key == b.key) {
        for (at, entry) in versions.iter().enumerate() {
            let newer = at.checked_sub(1).map(|before| versions[before].csn);
            if is_needed(entry, newer, rule) {
                put(entry, rule, &mut writer);
            }
        }
    }
    writer.finish()
}

/// Whether a present or future snapshot sees a version, and would see something else without it.
/// `newer` is the CSN of the next newer version.
fn is_needed(entry: &Entry<'_>, newer: Option<Csn>, rule: &DropRule<'_>) -> bool {
    let hides = entry.csn >= rule.others_from || rule.live.iter().any(|live| *live < entry.csn);
    if entry.value.is_none() && !hides {
        return false;
    }
    let until = newer.into_iter().chain(rule.ranges.hidden_from(entry.key, entry.csn)).min();
    let Some(until) = until else { return true };
    let is_seen = rule.live.iter().any(|live| entry.csn <= *live && *live < until);
    is_seen || rule.live.iter().all(|live| *live < entry.csn)
}

fn put(entry: &Entry<'_>, rule: &DropRule<'_>, writer: &mut BlockWriter) {
    let mut rewritten = Vec::new();
    let shorter = rule.rewrite.zip(entry.value).is_some_and(|(rewrite, value)| {
        rewrite.rewrite(value, &mut rewritten) && rewritten.len() <= value.len()
    });
    match shorter {
        true => writer.push(&Entry { value: Some(&rewritten), ..*entry }),
        false => writer.push(entry),
    }
}
