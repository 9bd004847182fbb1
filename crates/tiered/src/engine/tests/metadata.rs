//! A folder of metadata without data is opened, changed and rewritten like any other.

use spillway_storage::Disk;

use super::super::Metadata;
use super::*;

#[test]
fn metadata_of_what_is_not_there_opens_as_it_was_made() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new(37));
    let all = Metadata { extents: 2400, tables: 2, subtables: 3, seed: 5 };
    let made = all.make(&disk, &dir()).unwrap();
    let engine = Metadata::open(disk.clone(), &dir(), 64 << 20).unwrap();
    let told = engine.inspect();
    // The memory of an inspection is known before it is made, and is not greatly overestimated.
    let (most, taken) = (engine.inspection_bytes(), told.bytes());
    assert!(taken > 2400 * 200 && taken <= most && most < 6 * taken, "{taken} of {most}");
    let parts: Vec<usize> = told.tables.iter().map(|table| table.subtables.len()).collect();
    assert_eq!(parts, [3, 3]);
    let levels = |engine: &TieredEngine| {
        let tables = engine.space().into_iter();
        tables.map(|table| table.levels.map(|level| level.slices)).collect::<Vec<_>>()
    };
    // Six steps of 200 extents, every fifth with two slices.
    let before = levels(&engine);
    assert_eq!(before.concat().iter().sum::<u64>(), 2400 * 6 / 5);
    assert!(before.iter().all(|[level0, level1, level2]| *level0 >= 12 && level1 < level2));
    for _ in 0..3 {
        let cost = engine.rehearse_edit().unwrap().unwrap();
        assert!(cost.recorded > Duration::ZERO);
    }
    assert_eq!(levels(&engine), before);
    for beside in [false, true] {
        let bytes = engine.rewrite_manifest(beside).unwrap();
        assert!(bytes > 2400 * 40 && bytes <= made, "{bytes} of {made}");
    }
    drop(engine);
    let again = Metadata::open(disk.clone(), &dir(), 64 << 20).unwrap();
    assert_eq!(levels(&again), before);
    assert!(Metadata { tables: 0, ..all }.make(&disk, Path::new("/other")).is_err());
}
