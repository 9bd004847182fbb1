//! Bulk load: builds the index from sorted keys, from the leaves up.
//!
//! The loader keeps the nodes on the path of the last key open. The next key shares a prefix with
//! the last key. The open nodes beyond this prefix get no more children, so the loader builds them.

use super::Index;
use super::descent::common;
use super::entry::Entry;
use super::node::NodeContent;
use crate::rid::Rid;

/// A node that still gets children.
struct OpenNode {
    /// Bytes of the path before the children's bytes.
    depth: usize,
    content: NodeContent<'static>,
}

struct Loader<'i> {
    index: &'i Index,
    /// On the path of the last key, the root first.
    open: Vec<OpenNode>,
    last: Option<Rid>,
    last_key: Vec<u8>,
    /// Contents to use again, with their memory.
    spare: Vec<NodeContent<'static>>,
    keys: u64,
}

impl Index {
    /// Fills an index that has no keys from keys in ascending order, faster than by insertion.
    ///
    /// # Panics
    /// If the index has keys, or a key is not above the one before it.
    pub fn load_sorted<K: AsRef<[u8]>>(&self, entries: impl IntoIterator<Item = (K, Rid)>) {
        let version = self.latch.read();
        assert!(self.slot.load().is_empty(), "an index that loads has no keys");
        let mut loader = Loader {
            index: self,
            open: Vec::new(),
            last: None,
            last_key: Vec::new(),
            spare: Vec::new(),
            keys: 0,
        };
        for (key, rid) in entries {
            loader.add(key.as_ref(), rid);
        }
        let keys = loader.keys;
        if let Some(root) = loader.finish() {
            let locked = self.latch.lock_at(version);
            let _locked = locked.expect("nobody inserts into an index that loads");
            self.slot.store(root);
        }
        self.len.add(keys);
    }
}

impl Loader<'_> {
    fn add(&mut self, key: &[u8], rid: Rid) {
        if self.last.is_some() {
            let shared = common(&self.last_key, key);
            // Where the keys differ, the new one is larger. It does not end there.
            let is_above = match (self.last_key.get(shared), key.get(shared)) {
                (last, Some(byte)) => last.is_none_or(|last| last < byte),
                (_, None) => false,
            };
            assert!(is_above, "keys are loaded in ascending order");
            self.close(shared);
        }
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        self.last = Some(rid);
        self.keys += 1;
    }

    /// Puts the last key into a node, and builds the nodes past so many bytes. A node at that depth
    /// is open then.
    fn close(&mut self, shared: usize) {
        let mut built = None;
        loop {
            if self.open.last().is_none_or(|top| top.depth < shared) {
                let content = self.spare.pop().unwrap_or_default();
                self.open.push(OpenNode { depth: shared, content });
            }
            let depth = self.open.last().expect("a node is open").depth;
            self.attach(built, depth);
            if depth == shared {
                return;
            }
            let node = self.open.pop().expect("a node is open");
            let from = self.open.last().map_or(shared, |above| above.depth.max(shared)) + 1;
            built = Some(self.build(node, from));
        }
    }

    /// Puts a node that was built, or else the last key, into the last open node, which has this
    /// depth.
    fn attach(&mut self, built: Option<Entry<'static>>, depth: usize) {
        let entry = match built {
            None if self.last_key.len() == depth => None,
            None => Some(self.tail(depth + 1)),
            Some(node) => Some(node),
        };
        let content = &mut self.open.last_mut().expect("a node is open").content;
        match entry {
            None => content.ends_here = self.last,
            Some(entry) => content.children.push((self.last_key[depth], entry)),
        }
    }

    /// The last key, past so many bytes.
    fn tail(&self, depth: usize) -> Entry<'static> {
        let rid = self.last.expect("a key was added");
        Entry::new_tail(&self.index.memory, [&self.last_key[depth..], &[], &[]], rid)
    }

    /// An open node on the last key's path, with the prefix from so many bytes on.
    fn build(&mut self, node: OpenNode, from: usize) -> Entry<'static> {
        let OpenNode { depth, mut content } = node;
        let prefix = &self.last_key[from..depth];
        let entry = content.build(&self.index.memory, [prefix, &[], &[]]);
        content.ends_here = None;
        content.children.clear();
        self.spare.push(content);
        entry
    }

    /// Builds all that is left, down to the root; none without keys.
    fn finish(mut self) -> Option<Entry<'static>> {
        self.last?;
        let Some(root) = self.open.first() else { return Some(self.tail(0)) };
        self.close(root.depth);
        let root = self.open.pop().expect("the root is open");
        Some(self.build(root, 0))
    }
}
