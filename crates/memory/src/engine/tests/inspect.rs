//! The descriptions of an engine and of a closed folder.

use super::*;
use crate::inspect::{MemoryInspection, SegmentHome, inspect_folder};
use crate::manifest::{INDEX, NAME, PAGES};

const ROWS: u32 = 300;

/// A world with two tables. The first has rows, in several segments.
fn filled() -> (World, TableId) {
    let mut world = World::new(5);
    let table = world.tables()[0];
    for row in 0..ROWS {
        put(&mut world, table, row);
    }
    world.tell();
    (world, table)
}

fn put(world: &mut World, table: TableId, row: u32) {
    let mut batch = WriteBatch::new();
    batch.push(Op::Put { table, key: &row.to_be_bytes(), value: &[7; 200] });
    world.commit(batch);
}

fn folder(world: &World) -> MemoryInspection {
    let disk: Arc<dyn Disk> = world.disk.clone();
    let log = KeptFiles::new(disk.clone(), Path::new(LOG));
    inspect_folder(&disk, Path::new(DATA), &log)
}

fn files(world: &World, kind: &str) -> Vec<PathBuf> {
    let files = world.disk.files().into_iter().map(|(path, _)| path);
    files.filter(|path| path.extension() == Some(kind.as_ref())).collect()
}

/// The description of an open engine has the rows in memory, the evicted rows, the segments with
/// their live bytes, and the last checkpoint.
#[test]
fn an_open_engine_tells_what_it_has() {
    let (mut world, table) = filled();
    let fresh = world.engine.inspect();
    assert!(fresh.checkpoint.is_none() && fresh.kept().next().is_none());
    assert!(fresh.segments.iter().all(|segment| segment.home == SegmentHome::Log));
    let (first, other) = (&fresh.tables[0], &fresh.tables[1]);
    let memory = first.memory.unwrap();
    assert_eq!((fresh.tables.len(), first.table, first.keys), (2, table, ROWS.into()));
    assert_eq!((memory.rows, memory.evicted_rows), (ROWS.into(), 0));
    let least = u64::from(ROWS) * 200;
    assert!((least..2 * least).contains(&memory.version_bytes), "{memory:?}");
    assert!(memory.index_bytes > 0 && memory.array_bytes > 0);
    assert_eq!((other.keys, other.memory.unwrap().rows), (0, 0));

    world.engine.persist_all().unwrap();
    world.cut();
    world.engine.run_background_job().unwrap();
    world.engine.0.eviction().evict(1 << 20);
    world.engine.0.eviction().evict(1 << 20);
    let (hidden, range) = (world.csn, KeyRange::new(b"x", None));
    let mut batch = WriteBatch::new();
    batch.push(Op::DeleteRange { table, range, upto: hidden });
    world.commit(batch);
    let evicted = world.engine.inspect();
    let memory = evicted.tables[0].memory.unwrap();
    assert_eq!(memory.rows + memory.evicted_rows, ROWS.into());
    assert!(memory.evicted_rows > 0 && memory.deleted_ranges == 1, "{memory:?}");
    let figures = evicted.figures.unwrap();
    assert!(figures.evicted_total >= memory.evicted_rows && figures.stable >= figures.watermark);
    let kept: Vec<_> = evicted.kept().collect();
    assert!(kept.len() > 1 && kept.iter().all(|segment| segment.bytes.unwrap() > 0), "{kept:?}");
    let live: u64 = evicted.segments.iter().filter_map(|segment| segment.live_bytes).sum();
    let inner = &world.engine.0;
    let counted: u64 = inner.segments.iter().map(|(_, segment)| segment.live()).sum();
    assert_eq!(live, counted);
    let checkpoint = evicted.checkpoint.unwrap();
    assert_eq!(checkpoint.csn, hidden);
    assert!(checkpoint.age.is_some() && checkpoint.files >= 4 && checkpoint.bytes > 0);
    let stored = evicted.tables[0].stored.unwrap();
    assert_eq!((stored.keys, stored.page_files, stored.pages), (ROWS.into(), 1, 1));
    assert!(evicted.bytes() <= 2 * world.engine.inspection_bytes());
}

/// An inspection does not wait for a checkpoint that is being written, which may take long.
#[test]
fn an_inspection_does_not_wait_for_a_checkpoint() {
    let (world, _) = filled();
    world.engine.persist_all().unwrap();
    let number = world.engine.inspect().checkpoint.unwrap().number;
    let running = world.engine.0.checkpoints.hold();
    assert_eq!(world.engine.inspect().checkpoint.unwrap().number, number);
    drop(running);
}

/// The description of a closed folder has the content of its checkpoint, and the segments that it
/// names.
#[test]
fn a_closed_folder_tells_what_its_checkpoint_says() {
    let mut world = World::new(5);
    let nothing = folder(&world);
    assert!(nothing.is_empty() && nothing.checkpoint.is_none(), "{nothing:?}");
    let table = world.tables()[0];
    (0..ROWS).for_each(|row| put(&mut world, table, row));
    world.tell();
    world.engine.persist_all().unwrap();
    world.cut();
    world.engine.run_background_job().unwrap();
    let open = world.engine.inspect();
    let closed = folder(&world);
    assert!(closed.damage.is_empty() && closed.figures.is_none(), "{:?}", closed.damage);
    let (was, is) = (open.checkpoint.unwrap(), closed.checkpoint.unwrap());
    assert_eq!(
        (was.number, was.csn, was.files, was.bytes),
        (is.number, is.csn, is.files, is.bytes)
    );
    assert_eq!((is.csn, is.age), (world.csn, None));
    assert_eq!(is.segments, closed.segments.len() as u64);
    for (was, is) in open.tables.iter().zip(&closed.tables) {
        assert_eq!((was.table, was.keys, was.stored), (is.table, is.keys, is.stored));
        assert!(is.memory.is_none());
    }
    let numbers = |of: &MemoryInspection| -> Vec<(u64, Option<u64>)> {
        of.kept().map(|segment| (segment.number, segment.bytes)).collect()
    };
    assert!(numbers(&open).len() > 1);
    assert_eq!(numbers(&open), numbers(&closed));

    // A reopened engine does not know when the checkpoint was written.
    world.crash();
    let reopened = world.engine.inspect().checkpoint.unwrap();
    assert_eq!((reopened.number, reopened.age), (is.number, None));
}

/// The description of a closed folder names the damage, and has everything else.
#[test]
fn the_damage_of_a_closed_folder_is_told() {
    let (mut world, _) = filled();
    world.engine.persist_all().unwrap();
    world.cut();
    world.engine.close();
    let gone = files(&world, "kept")[0].clone();
    world.disk.remove(&gone).unwrap();
    let missing = folder(&world);
    let lost = missing.segments.iter().filter(|segment| segment.home == SegmentHome::Missing);
    assert_eq!(lost.map(|segment| segment.number).collect::<Vec<_>>(), [1]);
    for kind in [INDEX, PAGES] {
        let file = files(&world, kind)[0].clone();
        world.disk.remove(&file).unwrap();
        let damage = folder(&world).damage;
        let told = format!("{} is missing", file.display());
        assert!(damage.contains(&told), "{damage:?}");
    }
    assert_eq!(folder(&world).tables.len(), 2);

    // Damage to any byte of the manifest is reported in the same way.
    let path = Path::new(DATA).join(NAME);
    let manifest = world.disk.open(&path, OpenMode::Write).unwrap();
    let mut bytes = vec![0; manifest.len().unwrap() as usize];
    manifest.read_at(0, &mut bytes).unwrap();
    for (at, byte) in bytes.iter().enumerate() {
        manifest.write_at(at as u64, &[byte ^ 0x55]).unwrap();
        let damaged = folder(&world);
        assert_eq!((damaged.damage.len(), damaged.tables.len()), (1, 0), "byte {at}");
        assert!(damaged.damage[0].contains("checkpoint"), "{:?}", damaged.damage);
        assert!(damaged.checkpoint.is_none() && damaged.kept().next().is_some());
        manifest.write_at(at as u64, &[*byte]).unwrap();
    }
}
