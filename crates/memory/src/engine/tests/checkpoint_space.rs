//! The estimate of a checkpoint's space (`engine/checkpoint_space`).

use spillway_base::engine::FlushSpace;

use super::loading::key;
use super::*;
use crate::engine::checkpoint_space::checkpoint_bytes;

/// Enough that the parts of the estimate that do not grow with the rows hide no error.
const ROWS: u64 = if cfg!(debug_assertions) { 8000 } else { 200_000 };

/// Keys of a shape, by their numbers.
type Shape = fn(u64, &mut Rng) -> Vec<u8>;

/// Those past the first four are too long for the small blocks of debug builds.
const SHAPES: [(&str, Shape); 6] = [
    ("numbers", |number, _| number.to_be_bytes().to_vec()),
    ("short", |number, _| (number as u16).to_be_bytes().to_vec()),
    ("scattered", |_, rng| rng.next_u64().to_be_bytes().to_vec()),
    ("one prefix", |number, _| [&[7; 60][..], &number.to_be_bytes()].concat()),
    ("one long prefix", |number, _| [&[7; 900][..], &number.to_be_bytes()].concat()),
    ("long", |_, rng| {
        let mut key = vec![0; 500 + rng.below(500) as usize];
        rng.fill(&mut key);
        key
    }),
];

fn shapes() -> impl Iterator<Item = (u64, (&'static str, Shape))> {
    (0..).zip(SHAPES).take(if cfg!(debug_assertions) { 4 } else { SHAPES.len() })
}

impl World {
    /// Writes a checkpoint and checks that it takes no more space than was estimated.
    pub(super) fn persist_within_estimate(&mut self) {
        let inner = &self.engine.0;
        let written = || inner.counts.checkpoint_bytes.load(Ordering::Relaxed);
        let before = written();
        let [pages, rest] = checkpoint_bytes(&inner.tables.load(), &inner.segments, Csn::ZERO);
        self.engine.persist_all().unwrap();
        let (bytes, most) = (written() - before, pages + rest);
        assert!(bytes <= most, "CHECKPOINT-SPACE-1: {bytes} bytes, {most} estimated");
    }
}

/// CHECKPOINT-SPACE-1: for keys of several shapes, and after an opening that has yet to load them.
#[test]
fn checkpoint_space_1_a_checkpoint_takes_no_more_than_was_estimated() {
    for (seed, (name, shape)) in shapes() {
        println!("{name}");
        let mut world = World::new(seed);
        let table = world.tables()[0];
        let mut rng = Rng::new(seed);
        for first in (0..ROWS).step_by(100) {
            let mut batch = WriteBatch::new();
            for number in first..first + 100 {
                batch.push(Op::Put { table, key: &shape(number, &mut rng), value: b"value" });
            }
            world.commit(batch);
            if first % (ROWS / 4) == 0 {
                world.tell();
                world.persist_within_estimate();
            }
        }
        world.tell();
        world.persist_within_estimate();
        world.restart();
        let mut batch = WriteBatch::new();
        batch.push(Op::Put { table, key: b"another", value: b"value" });
        world.commit(batch);
        world.tell();
        world.persist_within_estimate();
    }
}

/// CHECKPOINT-SPACE-2, CHECKPOINT-SPACE-3: commits are accepted as long as a checkpoint fits after
/// them, and then refused. When they are, a checkpoint can be written.
#[test]
fn checkpoint_space_2_commits_leave_room_for_a_checkpoint() {
    for (seed, (name, shape)) in shapes() {
        let mut world = World::new(seed);
        let table = world.tables()[0];
        let mut rng = Rng::new(seed);
        world.tell();
        world.persist_within_estimate();
        world.disk.set_capacity(Some(world.disk.used() + (4 << 20)));
        let mut accepted = 0;
        loop {
            let key = shape(accepted, &mut rng);
            let mut batch = WriteBatch::new();
            batch.push(Op::Put { table, key: &key, value: &[7; 1000] });
            world.engine.0.space_check().note();
            assert!(world.engine.is_short_of_space(true), "{name}");
            // The log takes space, too.
            let bytes = batch.as_bytes().len() as u64;
            if world.engine.flush_space(bytes, bytes + 4096) != FlushSpace::Enough {
                break;
            }
            world.commit(batch);
            accepted += 1;
        }
        world.tell();
        assert!(accepted > 1000, "{name}: {accepted} rows");
        let free = world.disk.available(Path::new("/")).unwrap();
        assert!(free < 1 << 20, "{name}: {free} bytes are free after {accepted} rows");
        assert!(world.engine.unwritten_bytes(0) > 0, "{name}");
        world.persist_within_estimate();
        // CHECKPOINT-SPACE-3: there is nothing to write for the commits of other engines.
        world.disk.set_capacity(Some(world.disk.used()));
        assert_eq!(world.engine.unwritten_bytes(0), 0, "{name}");
        assert_eq!(world.engine.flush_space(0, 0), FlushSpace::Enough, "{name}");
        assert_eq!(world.engine.flush_space(100, 0), FlushSpace::Lacking, "{name}");
        world.disk.set_capacity(None);
        assert!(world.engine.is_short_of_space(true));
        // As log care does.
        world.engine.unwritten_bytes(0);
        assert!(!world.engine.is_short_of_space(true));
    }
}

/// CHECKPOINT-SPACE-3: other engines' commits ask only while the next checkpoint has much to write.
/// A commit that a checkpoint would make room for waits for it.
#[test]
fn checkpoint_space_3_only_what_a_checkpoint_writes_counts_for_others() {
    let mut world = World::new(40);
    let table = world.tables()[0];
    for number in 0..8000 {
        world.put(table, &key(number), b"value");
    }
    world.tell();
    world.engine.persist_all().unwrap();
    let need = world.engine.unwritten_bytes(1);
    world.disk.set_capacity(Some(world.disk.used() + need / 2));
    assert_eq!(world.engine.unwritten_bytes(0), 0);
    assert!(world.engine.is_short_of_space(true) && !world.engine.is_short_of_space(false));
    assert_eq!(world.engine.flush_space(0, need / 4), FlushSpace::Enough);
    assert_eq!(world.engine.flush_space(1, 0), FlushSpace::Lacking);
    world.put(table, &key(1), b"other");
    let unwritten = world.engine.unwritten_bytes(0);
    assert!(unwritten > 0 && unwritten < need / 4, "{unwritten} of {need}");
    assert_eq!(world.engine.flush_space(1, 0), FlushSpace::AfterFlush);
    world.tell();
    let inner = &world.engine.0;
    let before = inner.counts.checkpoint_bytes.load(Ordering::Relaxed);
    world.engine.persist_all().unwrap();
    let written = inner.counts.checkpoint_bytes.load(Ordering::Relaxed) - before;
    assert!(written > 0 && written <= unwritten, "{written} bytes, {unwritten} estimated");
    assert_eq!(world.engine.flush_space(1, 0), FlushSpace::Lacking);
}
