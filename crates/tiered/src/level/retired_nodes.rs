//! Frees nodes of levels that no view uses.

use std::sync::Arc;

use super::tree::SliceNode;
use crate::deferred_free::Retired;

/// Nodes that runs had. Others may have them too.
struct RetiredNodes(Vec<Arc<SliceNode>>);

impl Retired for RetiredNodes {
    /// A part is a node or a slice. A leaf goes whole.
    fn free(&mut self, mut parts: usize) {
        while parts > 0
            && let Some(node) = self.0.pop()
        {
            // Of several who let go of it at a time, one has it.
            let slices = Arc::into_inner(node).map_or(0, |node| node.take_apart(&mut self.0));
            parts = parts.saturating_sub(1 + slices);
        }
    }

    fn is_gone(&self) -> bool {
        self.0.is_empty()
    }
}

/// Lets go of the trees of runs, all of them together as one reader's (DEFERRED-FREE-1).
pub(super) fn let_go(roots: impl Iterator<Item = Arc<SliceNode>>) {
    let nodes: Vec<_> = roots.filter(|root| root.count() > 0).collect();
    let context = nodes.first().and_then(|root| root.first().extent.context().cloned());
    if let Some(context) = context {
        context.garbage.let_go(RetiredNodes(nodes));
    }
}
