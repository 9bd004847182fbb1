//! What is left of a run that nobody reads any more.

use std::sync::Arc;

use super::tree::Node;
use crate::garbage::Remains;

/// Nodes that a run had. Others may have them too.
pub(super) struct Nodes(Vec<Arc<Node>>);

impl Nodes {
    pub(super) fn below(root: Arc<Node>) -> Nodes {
        Nodes(vec![root])
    }
}

impl Remains for Nodes {
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
