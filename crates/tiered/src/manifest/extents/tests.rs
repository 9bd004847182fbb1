use std::collections::BTreeMap;

use spillway_base::rng::Rng;

use super::*;
use crate::coding::{Coding, Names};
use crate::extent_meta::ExtentMeta;
use crate::space::SlotRun;

fn extent(id: u64, len: u64) -> ExtentState {
    let (slots, coding) = (SlotRun { file: 1, first: 0, count: 1 }, Coding::Stored);
    let (id, names) = (ExtentId(id), Names::default());
    let meta = ExtentMeta { id, slots, len, blocks: 1, data_bytes: 1, crc: 1, coding, names };
    ExtentState { meta, slices: Vec::new() }
}

/// Checks the entries of each node and the depth (EXTENT-MAP-3).
fn walk(node: &ExtentNode, is_root: bool, nodes: &mut usize) -> usize {
    *nodes += 1;
    assert!(node.entries() <= ENTRIES_MAX);
    assert!(is_root || node.entries() > 0);
    match node {
        ExtentNode::Leaf(_) => 1,
        ExtentNode::Above(below) => {
            assert!(!is_root || below.len() > 1);
            let depths: Vec<_> = below.iter().map(|(_, node)| walk(node, false, nodes)).collect();
            assert!(depths.iter().all(|depth| *depth == depths[0]));
            depths[0] + 1
        }
    }
}

/// EXTENT-MAP-1, EXTENT-MAP-2, EXTENT-MAP-3: the tree and every picture of it equal a model map.
#[test]
fn extents_are_those_of_a_map_and_pictures_stay() {
    for seed in 0..30 {
        let mut rng = Rng::new(seed);
        let (mut extents, mut model) = (Extents::default(), BTreeMap::new());
        let mut pictures = Vec::new();
        let mut next = 0;
        for round in 0..1500 {
            // Numbers mostly ascend, except for flushes and compactions that finish in another
            // order.
            let id = if rng.chance(1, 3) { rng.below(next + 1) } else { next };
            let shrinks = round > 700;
            match rng.below(4) {
                0 | 1 if !shrinks || rng.chance(1, 6) => {
                    let new = model.insert(id, round).is_none();
                    assert_eq!(extents.insert(extent(id, round)), new);
                    if !new {
                        extents.get_mut(ExtentId(id)).unwrap().meta.len = round;
                    }
                    next = next.max(id + 1);
                }
                2 => {
                    let id = rng.below(next + 1);
                    let change = extents.get_mut(ExtentId(id));
                    assert_eq!(change.is_some(), model.contains_key(&id));
                    change.into_iter().for_each(|extent| extent.meta.len = round);
                    model.entry(id).and_modify(|len| *len = round);
                }
                _ => {
                    let id = rng.below(next + 1);
                    let removed = extents.remove(ExtentId(id)).map(|extent| extent.meta.len);
                    assert_eq!(removed, model.remove(&id));
                }
            }
            if rng.chance(1, 50) {
                pictures.push((extents.clone(), model.clone()));
            }
            let id = rng.below(next + 1);
            let found = extents.get(ExtentId(id)).map(|extent| extent.meta.len);
            assert_eq!(found, model.get(&id).copied());
        }
        pictures.push((extents, model));
        for (extents, model) in pictures {
            let all = extents.values().map(|extent| (extent.meta.id.0, extent.meta.len));
            assert!(all.eq(model.iter().map(|(id, len)| (*id, *len))));
            assert_eq!((extents.len, extents.keys().len()), (model.len(), model.len()));
            walk(&extents.root, true, &mut 0);
        }
    }
}

/// EXTENT-MAP-2: with a picture, a change copies the path to the changed entry; without one it
/// copies nothing.
#[test]
fn a_change_copies_its_path_alone() {
    let mut extents = Extents::default();
    (0..1000).for_each(|id| assert!(extents.insert(extent(id, 0))));
    let mut nodes = 0;
    let depth = walk(&extents.root, true, &mut nodes);
    assert!((5..8).contains(&depth) && nodes > 300, "{depth} {nodes}");
    let at = |extents: &Extents| extents.get(ExtentId(500)).map(std::ptr::from_ref);
    let before = at(&extents);
    extents.get_mut(ExtentId(500)).unwrap().meta.len = 1;
    assert_eq!(at(&extents), before);
    let picture = extents.clone();
    extents.get_mut(ExtentId(500)).unwrap().meta.len = 2;
    fn shared(one: &Arc<ExtentNode>, other: &Arc<ExtentNode>) -> usize {
        match (&**one, &**other) {
            _ if Arc::ptr_eq(one, other) => 0,
            (ExtentNode::Above(one), ExtentNode::Above(other)) => {
                1 + one
                    .iter()
                    .zip(other)
                    .map(|(one, other)| shared(&one.1, &other.1))
                    .sum::<usize>()
            }
            _ => 1,
        }
    }
    assert_eq!(shared(&picture.root, &extents.root), depth);
    // After many removals, the remaining entries are joined.
    (0..1000).filter(|id| id % 20 != 0).for_each(|id| drop(extents.remove(ExtentId(id))));
    let mut nodes = 0;
    walk(&extents.root, true, &mut nodes);
    assert!(extents.len == 50 && nodes < 60, "{nodes}");
    assert_eq!(picture.len, 1000);
}
