//! Stand-in for the ordered index.
use std::collections::BTreeMap;
use std::ops::Bound;

use spillway_base::Direction;
use spillway_base::lock::RwLock;
use spillway_reclaim::epochs::Pin;

use crate::rid::Rid;

#[derive(Default)]
pub(crate) struct Entries {
    bytes: Vec<u8>,
    ends: Vec<(usize, Rid)>,
}

impl Entries {
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }
    pub(crate) fn key(&self, at: usize) -> &[u8] {
        let begin = at.checked_sub(1).map_or(0, |at| self.ends[at].0);
        &self.bytes[begin..self.ends[at].0]
    }
    pub(crate) fn rid(&self, at: usize) -> Rid {
        self.ends[at].1
    }
    fn push(&mut self, key: &[u8], rid: Rid) {
        self.bytes.extend_from_slice(key);
        self.ends.push((self.bytes.len(), rid));
    }
}

#[derive(Default)]
pub(crate) struct Index(RwLock<BTreeMap<Vec<u8>, Rid>>);

impl Index {
    pub(crate) fn get(&self, key: &[u8], _pin: &Pin<'_>) -> Option<Rid> {
        self.0.read().get(key).copied()
    }
    pub(crate) fn insert(&self, key: &[u8], rid: Rid, _pin: &Pin<'_>) -> Result<(), Rid> {
        let mut map = self.0.write();
        if let Some(rid) = map.get(key) {
            return Err(*rid);
        }
        map.insert(key.to_vec(), rid);
        Ok(())
    }
    pub(crate) fn remove(&self, key: &[u8], rid: Rid, _pin: &Pin<'_>) -> bool {
        let mut map = self.0.write();
        map.get(key) == Some(&rid) && map.remove(key).is_some()
    }
    pub(crate) fn collect(
        &self,
        from: Bound<&[u8]>,
        until: Bound<&[u8]>,
        direction: Direction,
        most: usize,
        out: &mut Entries,
        _pin: &Pin<'_>,
    ) {
        out.bytes.clear();
        out.ends.clear();
        let map = self.0.read();
        let (low, high) = match direction {
            Direction::Forward => (from, until),
            Direction::Backward => (until, from),
        };
        let empty = match (low, high) {
            (Bound::Included(a), Bound::Included(b)) => a > b,
            (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
            (Bound::Included(a) | Bound::Excluded(a), Bound::Included(b) | Bound::Excluded(b)) => {
                a >= b
            }
        };
        if empty {
            return;
        }
        let range = map.range::<[u8], _>((low, high));
        match direction {
            Direction::Forward => range.take(most).for_each(|(key, rid)| out.push(key, *rid)),
            Direction::Backward => {
                range.rev().take(most).for_each(|(key, rid)| out.push(key, *rid));
            }
        }
    }
    pub(crate) fn len(&self) -> u64 {
        self.0.read().len() as u64
    }
    pub(crate) fn estimate(&self, _from: Bound<&[u8]>, _until: Bound<&[u8]>) -> u64 {
        self.len()
    }
}

pub(crate) struct Loader<'i>(&'i mut Index);

impl<'i> Loader<'i> {
    pub(crate) fn new(index: &'i mut Index) -> Loader<'i> {
        Loader(index)
    }
    pub(crate) fn push(&mut self, key: &[u8], rid: Rid) {
        self.0.0.get_mut().insert(key.to_vec(), rid);
    }
}
