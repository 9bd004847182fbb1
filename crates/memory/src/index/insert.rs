//! Insertion of a key.

use super::Index;
use super::descent::{End, Visit, common, descend};
use super::entry::{Draft, Entry, EntryKind};
use super::latch::Conflict;
use super::node::NodeContent;
use crate::rid::Rid;
use spillway_reclaim::epochs::Pin;

impl Index {
    /// One attempt to insert a key. The inner error is the RID that the key already maps to.
    pub(super) fn try_insert(
        &self,
        key: &[u8],
        rid: Rid,
        pin: &Pin<'_>,
    ) -> Result<Result<(), Rid>, Conflict> {
        match descend(self.root(pin), key)? {
            End::Entry { edge, entry, depth, .. } => {
                let rest = &key[depth..];
                let mut draft = Draft::new(&self.memory);
                let new = match entry.kind() {
                    EntryKind::Tail(old_rest, old) if old_rest == rest => {
                        edge.check()?;
                        return Ok(Err(old));
                    }
                    EntryKind::Tail(old_rest, old) => {
                        fork(&mut draft, (old_rest, old), (rest, rid))
                    }
                    EntryKind::Empty => draft.tail([rest, &[], &[]], rid),
                    EntryKind::Node(_) => unreachable!("a descent goes through nodes"),
                };
                let locked = edge.lock()?;
                edge.slot.store(new);
                drop(locked);
                draft.publish();
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

    /// Inserts a node above the visited one, for a key that shares only part of its prefix.
    fn fork_prefix(
        &self,
        visit: &Visit<'_>,
        shared: usize,
        rest: &[u8],
        rid: Rid,
    ) -> Result<(), Conflict> {
        let prefix = visit.node.prefix();
        visit.check()?;
        let mut draft = Draft::new(&self.memory);
        let mut content = NodeContent::default();
        content.insert(prefix[shared], Entry::of_node(visit.node));
        content.add_key(&mut draft, &rest[shared..], rid);
        let above = draft.node(&content, [&prefix[..shared], &[], &[]]);
        let _locked = visit.lock_both()?;
        visit.node.cut_prefix(shared + 1);
        visit.edge.slot.store(above);
        draft.publish();
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
        let mut draft = Draft::new(&self.memory);
        let child = draft.tail([rest, &[], &[]], rid);
        if !node.is_full() {
            let _locked = visit.lock()?;
            node.insert(byte, child);
            draft.publish();
            return Ok(());
        }
        let mut content = node.content();
        content.insert(byte, child);
        let larger = draft.node(&content, [node.prefix(), &[], &[]]);
        self.replace(visit, larger)?;
        draft.publish();
        self.retire(Entry::of_node(node));
        Ok(())
    }

    /// Replaces the visited node if neither it nor its edge has changed.
    pub(super) fn replace(&self, visit: &Visit<'_>, by: Entry<'_>) -> Result<(), Conflict> {
        let _locked = visit.lock_both()?;
        visit.edge.slot.store(by);
        Ok(())
    }
}

/// A node for two keys, given by their bytes past the slot.
fn fork<'m>(draft: &mut Draft<'m>, old: (&[u8], Rid), new: (&[u8], Rid)) -> Entry<'m> {
    let shared = common(old.0, new.0);
    let mut content = NodeContent::default();
    content.add_key(draft, &old.0[shared..], old.1);
    content.add_key(draft, &new.0[shared..], new.1);
    draft.node(&content, [&new.0[..shared], &[], &[]])
}
