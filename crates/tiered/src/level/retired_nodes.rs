//! Frees nodes of levels that no view uses.

use std::sync::Arc;

use super::tree::SliceNode;
use crate::deferred_free::Retired;

/// The nodes of dropped runs. Other runs may share them.
struct RetiredNodes(Vec<Arc<SliceNode>>);

impl Retired for RetiredNodes {
    /// A part is a node or a slice. A leaf is freed whole.
    fn free(&mut self, mut parts: usize) {
        while parts > 0
            && let Some(node) = self.0.pop()
        {
            // If several threads drop it at the same time, one of them frees it.
            let slices = Arc::into_inner(node).map_or(0, |node| node.take_apart(&mut self.0));
            parts = parts.saturating_sub(1 + slices);
        }
    }

    fn is_gone(&self) -> bool {
        self.0.is_empty()
    }
}

/// Drops the trees of runs. One limit holds for all of them, because one reader drops them
/// (DEFERRED-FREE-1).
pub(super) fn let_go(roots: impl Iterator<Item = Arc<SliceNode>>) {
    let nodes: Vec<_> = roots.filter(|root| root.count() > 0).collect();
    let context = nodes.first().and_then(|root| root.first().extent.context().cloned());
    if let Some(context) = context {
        context.garbage.let_go(RetiredNodes(nodes));
    }
}
