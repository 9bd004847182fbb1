//! Removal of a key.

use super::Index;
use super::descent::{End, Visit, descend};
use super::entry::{Draft, Entry, EntryKind};
use super::latch::Conflict;
use super::node::NodeContent;
use crate::rid::Rid;
use spillway_reclaim::epochs::Pin;

impl Index {
    /// One attempt to remove a key. Returns whether it removed the key.
    pub(super) fn try_remove(&self, key: &[u8], rid: Rid, pin: &Pin<'_>) -> Result<bool, Conflict> {
        match descend(self.root(pin), key)? {
            End::Entry { edge, entry, depth, holder } => {
                let found = matches!(
                    entry.kind(),
                    EntryKind::Tail(rest, old) if old == rid && *rest == key[depth..]
                );
                if !found {
                    edge.check()?;
                    return Ok(false);
                }
                match holder {
                    Some(visit) => self.remove_from(&visit, Some(key[depth - 1]))?,
                    None => {
                        let _locked = edge.lock()?;
                        edge.slot.store(Entry::EMPTY);
                    }
                }
                self.retire(entry);
                Ok(true)
            }
            End::Here(visit) if visit.node.ends_here() == Some(rid) => {
                self.remove_from(&visit, None)?;
                Ok(true)
            }
            End::Here(visit) | End::Prefix { visit, .. } | End::NoChild { visit, .. } => {
                visit.check()?;
                Ok(false)
            }
        }
    }

    /// Removes from the visited node the child with this byte, or, without a byte, the key that
    /// ends at the node. If one entry is left, it replaces the node. If few children are left, a
    /// smaller node replaces the node.
    fn remove_from(&self, visit: &Visit<'_>, byte: Option<u8>) -> Result<(), Conflict> {
        let node = visit.node;
        let children = node.count().saturating_sub(usize::from(byte.is_some()));
        let ends_here = byte.is_some() && node.ends_here().is_some();
        let left = children + usize::from(ends_here);
        if left > 1 && !(byte.is_some() && node.is_too_large_for(children)) {
            let _locked = visit.lock()?;
            match byte {
                Some(byte) => node.remove(byte),
                None => node.set_ends_here(None),
            }
            return Ok(());
        }
        let mut content = node.content();
        match byte {
            Some(byte) => content.children.retain(|child| child.0 != byte),
            None => content.ends_here = None,
        }
        visit.check()?;
        if content.entries() == 1 {
            self.merge(visit, &content)?;
        } else {
            let mut draft = Draft::new(&self.memory);
            let smaller = draft.node(&content, [node.prefix(), &[], &[]]);
            self.replace(visit, smaller)?;
            draft.publish();
        }
        self.retire(Entry::of_node(node));
        Ok(())
    }

    /// Replaces the visited node by its only remaining entry.
    fn merge(&self, visit: &Visit<'_>, content: &NodeContent<'_>) -> Result<(), Conflict> {
        let mut draft = Draft::new(&self.memory);
        let prefix = visit.node.prefix();
        let Some((byte, child)) = content.children.first().copied() else {
            let rid = content.ends_here.expect("one entry is left");
            let key = draft.tail([prefix, &[], &[]], rid);
            self.replace(visit, key)?;
            draft.publish();
            return Ok(());
        };
        match child.kind() {
            EntryKind::Empty => unreachable!("a node that did not change has no such child"),
            EntryKind::Tail(rest, rid) => {
                let key = draft.tail([prefix, &[byte], rest], rid);
                self.replace(visit, key)?;
            }
            EntryKind::Node(below) => {
                // A copy, because a node has no room for a longer prefix.
                let version = below.latch().read();
                let copy = draft.node(&below.content(), [prefix, &[byte], below.prefix()]);
                let _locked = visit.lock_both()?;
                let _below = below.latch().lock_at(version)?;
                visit.edge.slot.store(copy);
            }
        }
        draft.publish();
        self.retire(child);
        Ok(())
    }
}
