//! Insertion of a key.

use super::Index;
use super::descent::{End, Visit, common, descend};
use super::entry::{Entry, EntryKind};
use super::latch::Conflict;
use super::node::NodeContent;
use crate::rid::Rid;
use spillway_reclaim::epochs::Pin;

impl Index {
    /// One try of an insertion. Answers the RID that was there already, if any.
    pub(super) fn try_insert(
        &self,
        key: &[u8],
        rid: Rid,
        pin: &Pin<'_>,
    ) -> Result<Result<(), Rid>, Conflict> {
        match descend(self.root(pin), key)? {
            End::Entry { edge, entry, depth, .. } => {
                let rest = &key[depth..];
                let new = match entry.kind() {
                    EntryKind::Tail(old_rest, old) if old_rest == rest => {
                        edge.check()?;
                        return Ok(Err(old));
                    }
                    EntryKind::Tail(old_rest, old) => Some((old_rest, old)),
                    EntryKind::Empty => None,
                    EntryKind::Node(_) => unreachable!("a descent goes through nodes"),
                };
                let locked = edge.lock()?;
                edge.slot.store(match new {
                    Some(old) => self.fork(old, (rest, rid)),
                    None => Entry::new_tail(&self.memory, [rest, &[], &[]], rid),
                });
                drop(locked);
                self.retire(entry);
            }
            End::Prefix { visit, depth, shared } => {
                self.fork_prefix(&visit, shared, &key[depth..], rid)?;
            }
            End::Here(visit) => {
                if let Some(old) = visit.node.ends_here() {
                    visit.check()?;
                    return Ok(Err(old));
                }
                let _locked = visit.lock()?;
                visit.node.set_ends_here(Some(rid));
            }
            End::NoChild { visit, depth } => {
                self.insert_child(&visit, key[depth], &key[depth + 1..], rid)?;
            }
        }
        Ok(Ok(()))
    }

    /// A node with two keys by their bytes past the slot.
    fn fork(&self, old: (&[u8], Rid), new: (&[u8], Rid)) -> Entry<'_> {
        let shared = common(old.0, new.0);
        let mut content = NodeContent::default();
        content.add_key(&self.memory, &old.0[shared..], old.1);
        content.add_key(&self.memory, &new.0[shared..], new.1);
        content.build(&self.memory, [&new.0[..shared], &[], &[]])
    }

    /// Puts a node above the visited one, for a key that shares only part of its prefix.
    fn fork_prefix(
        &self,
        visit: &Visit<'_>,
        shared: usize,
        rest: &[u8],
        rid: Rid,
    ) -> Result<(), Conflict> {
        let _locked = visit.lock_both()?;
        let prefix = visit.node.prefix();
        let mut content = NodeContent::default();
        content.insert(prefix[shared], Entry::of_node(visit.node));
        content.add_key(&self.memory, &rest[shared..], rid);
        let above = content.build(&self.memory, [&prefix[..shared], &[], &[]]);
        visit.node.cut_prefix(shared + 1);
        visit.edge.slot.store(above);
        Ok(())
    }

    /// Adds a child to the visited node, or replaces the node by a larger one with the child.
    fn insert_child(
        &self,
        visit: &Visit<'_>,
        byte: u8,
        rest: &[u8],
        rid: Rid,
    ) -> Result<(), Conflict> {
        let node = visit.node;
        let child = || Entry::new_tail(&self.memory, [rest, &[], &[]], rid);
        if !node.is_full() {
            let _locked = visit.lock()?;
            node.insert(byte, child());
            return Ok(());
        }
        let locked = visit.lock_both()?;
        let mut content = node.content();
        content.insert(byte, child());
        visit.edge.slot.store(content.build(&self.memory, [node.prefix(), &[], &[]]));
        drop(locked);
        self.retire(Entry::of_node(node));
        Ok(())
    }
}
