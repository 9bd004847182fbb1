//! What verification finds in a folder whose manifest is wrong: lost and leaked extents, and slices
//! that are in the wrong place or differ from their records.

use super::*;
use crate::extent_meta::{ExtentId, ExtentMeta};
use crate::manifest::{Manifest, State};

/// A folder of two tables, closed.
fn folder() -> SimDisk {
    let disk = SimDisk::new(1);
    let bench = open(&disk).unwrap();
    history(6, 300).iter().for_each(|commit| bench.install(commit));
    bench.engine.compact_all().unwrap();
    drop(bench);
    verify_clean(&disk);
    disk
}

/// The first finding in a folder, after `change` has changed its manifest.
fn found(disk: &SimDisk, change: impl FnOnce(&mut State)) -> (SimDisk, crate::Finding) {
    let disk = disk.fork();
    let (mut state, slot_bytes) = crate::manifest::read(&disk, &dir()).unwrap().unwrap();
    change(&mut state);
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    Manifest::create(&shared, &dir(), slot_bytes, &state).unwrap();
    let report = crate::verify(&shared, &dir(), &mut |_, _| {}).unwrap();
    let finding = report.findings.into_iter().next().expect("something is wrong");
    assert_eq!(finding.error.kind(), ErrorKind::Corruption);
    (disk, finding)
}

fn extents(state: &State, ordinal: u32) -> Vec<ExtentId> {
    state.tables[&table(ordinal)].extents.keys().collect()
}

fn meta(state: &State, ordinal: u32, id: ExtentId) -> ExtentMeta {
    state.tables[&table(ordinal)].extents.get(id).unwrap().meta.clone()
}

#[test]
fn a_slice_that_is_in_two_subtables_is_found_and_not_opened() {
    let (disk, finding) = found(&folder(), |state| {
        let of = state.tables.get_mut(&table(1)).unwrap();
        let slices = || of.extents.values().flat_map(|extent| extent.slices());
        let wide = slices().find(|(_, slice)| slice.smallest < slice.largest).unwrap();
        let key = wide.1.largest.clone();
        of.parts.insert(key, Csn(1));
    });
    assert_eq!(finding.table, Some(table(1)));
    assert!(finding.error.to_string().contains("is in two sub-tables"), "{finding:?}");
    assert_eq!(open(&disk).err().unwrap().kind(), ErrorKind::Corruption);
}

#[test]
fn an_extent_that_belongs_to_nothing_is_found() {
    let mut lost = None;
    let (_, finding) = found(&folder(), |state| {
        let id = extents(state, 2)[0];
        lost = Some(id);
        let of = state.tables.get_mut(&table(2)).unwrap();
        of.extents.get_mut(id).unwrap().slices.clear();
    });
    let text = finding.error.to_string();
    assert_eq!(finding.table, Some(table(2)));
    assert!(text.contains(&format!("{}: it belongs to no level", lost.unwrap())), "{text}");
}

#[test]
fn an_extent_that_is_nowhere_or_in_the_place_of_another_is_found() {
    let disk = folder();
    let change = |change: &dyn Fn(&mut State, ExtentId, ExtentId)| {
        let (_, finding) = found(&disk, |state| {
            // Two extents of the same size.
            let count = |of, id| meta(state, of, id).slots.count;
            let one = extents(state, 1)[0];
            let mut others = extents(state, 2).into_iter();
            let other = others.find(|other| count(2, *other) == count(1, one)).unwrap();
            change(state, one, other);
        });
        finding.error.to_string()
    };
    let slots = |state: &State, of: u32, id| meta(state, of, id).slots;
    let put = |state: &mut State, of: u32, id, slots| {
        let of = state.tables.get_mut(&table(of)).unwrap();
        of.extents.get_mut(id).unwrap().meta.slots = slots;
    };
    let beyond = change(&|state, one, _| {
        let mut run = slots(state, 1, one);
        run.first = 100_000;
        put(state, 1, one, run);
    });
    assert!(beyond.contains("000001.data") || beyond.contains("slot"), "{beyond}");
    let missing = change(&|state, one, _| {
        let mut run = slots(state, 1, one);
        run.file = 77;
        put(state, 1, one, run);
    });
    assert!(missing.contains("77"), "{missing}");
    // One slot has two owners.
    change(&|state, one, other| put(state, 2, other, slots(state, 1, one)));
    // Two extents have each other's location.
    let swapped = change(&|state, one, other| {
        let (first, second) = (slots(state, 1, one), slots(state, 2, other));
        put(state, 1, one, second);
        put(state, 2, other, first);
    });
    assert!(swapped.contains("extent"), "{swapped}");
}

#[test]
fn a_slice_that_is_not_what_was_recorded_is_found() {
    let (_, finding) = found(&folder(), |state| {
        let of = state.tables.get_mut(&table(1)).unwrap();
        let id = of.extents.keys().next().unwrap();
        let extent = of.extents.get_mut(id).unwrap();
        let (_, slice) = extent.slices.first_mut().unwrap();
        Arc::make_mut(slice).counts.keys -= 1;
    });
    assert!(finding.error.to_string().contains("is not what was recorded"), "{finding:?}");
}

/// A missing file is found, too, and intact extents can still be read.
#[test]
fn a_data_file_that_is_gone_is_found() {
    let disk = folder();
    disk.remove(&dir().join("000001.data")).unwrap();
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let report = crate::verify(&shared, &dir(), &mut |_, _| {}).unwrap();
    assert!(report.findings[0].error.to_string().contains("data file 1"), "{report:?}");
}
