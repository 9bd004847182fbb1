//! A reader that drops an old view frees only a little of it at once (`deferred_free`), and nothing
//! leaks.

use std::sync::Weak;

use spillway_storage::Disk;

use super::super::Metadata;
use super::*;
use crate::extent::ReadContext;
use crate::view::View;

/// A dropped table with very many slices, of which only a view is left.
fn view_of_what_is_gone() -> (TieredEngine, Arc<View>) {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new(38));
    Metadata { extents: 3000, tables: 1, subtables: 1, seed: 6 }.make(&disk, &dir()).unwrap();
    let engine = Metadata::open(disk, &dir(), 64 << 20).unwrap();
    let (table, part) = engine.0.tables.all_parts().pop().unwrap();
    let view = part.view();
    let dropped = batch(&[Op::DropTable(table.id)]);
    drop((table, part));
    engine.install(Csn((1 << 40) - 1), &dropped);
    idle(&engine);
    assert!(engine.0.tables.all_parts().is_empty());
    (engine, view)
}

fn idle(engine: &TieredEngine) {
    while engine.run_background_job().unwrap() == JobOutcome::Worked {}
}

/// The bytes of used slots.
fn taken(engine: &TieredEngine) -> u64 {
    let (all, free) = engine.0.space.bytes();
    all - free
}

/// DEFERRED-FREE-1, DEFERRED-FREE-2, DEFERRED-FREE-3: dropping the view frees slots: a few at once,
/// and the others in the background.
#[test]
fn who_lets_go_of_a_large_view_leaves_most_of_it_to_the_background() {
    let (engine, view) = view_of_what_is_gone();
    let garbage = &engine.0.context.garbage;
    let (held, other, before) = (taken(&engine), view.clone(), garbage.handed_over());
    drop(view);
    assert_eq!((taken(&engine), garbage.len()), (held, 0), "somebody else reads it");
    drop(other);
    let at_once = taken(&engine);
    assert!(held / 2 < at_once && at_once < held, "{at_once} of {held}");
    assert!(garbage.len() > 0 && garbage.handed_over() > before);
    assert_eq!(engine.run_background_job().unwrap(), JobOutcome::Worked);
    idle(&engine);
    assert_eq!((taken(&engine), garbage.len()), (0, 0));
}

/// DEFERRED-FREE-3: parts that an old view shares with the current view stay.
#[test]
fn what_is_still_read_stays() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new(39));
    Metadata { extents: 3000, tables: 1, subtables: 1, seed: 7 }.make(&disk, &dir()).unwrap();
    let engine = Metadata::open(disk, &dir(), 64 << 20).unwrap();
    let listed = || {
        let (_, part) = engine.0.tables.all_parts().pop().unwrap();
        let levels = part.view().levels.clone();
        levels.places().map(|(place, slice)| (place, slice.meta.id())).collect::<Vec<_>>()
    };
    let (before, space) = (listed(), engine.0.space.bytes());
    for slices in [1, 200, 2000] {
        let handed_over = engine.0.context.garbage.handed_over();
        engine.rehearse_letting_go(slices).unwrap();
        let more = engine.0.context.garbage.handed_over() > handed_over;
        assert!(more || slices == 1, "{slices} slices");
        assert!(listed() == before && engine.0.space.bytes() == space);
    }
}

/// DEFERRED-FREE-4.
#[test]
fn nothing_is_left_once_the_engine_is_closed_or_gone() {
    let (engine, view) = view_of_what_is_gone();
    drop(view);
    assert!(taken(&engine) > 0);
    engine.close();
    assert_eq!(taken(&engine), 0);

    let (engine, view) = view_of_what_is_gone();
    engine.close();
    drop(view);
    assert_eq!(taken(&engine), 0);

    for first in [true, false] {
        let (engine, view) = view_of_what_is_gone();
        let context: Weak<ReadContext> = Arc::downgrade(&engine.0.context);
        if first {
            drop(view);
            assert!(engine.0.context.garbage.len() > 0);
            drop(engine);
        } else {
            drop(engine);
            drop(view);
        }
        assert!(context.upgrade().is_none(), "it is held by what it would free");
    }
}

/// DEFERRED-FREE-4: threads that end because of a failure free what was deferred. Readers that drop
/// views afterwards defer nothing.
#[test]
fn threads_that_end_for_a_failure_free_what_is_left() {
    let (engine, view) = view_of_what_is_gone();
    let other = engine.0.context.garbage.handed_over();
    drop(view);
    assert!(engine.0.context.garbage.len() > 0 && engine.0.context.garbage.handed_over() > other);
    engine.0.fail(&Error::new(ErrorKind::Io, "a test"));
    let background = engine.start_background(1).unwrap();
    let clock = spillway_base::clock::Clock::system();
    for _ in 0..10_000 {
        if taken(&engine) == 0 {
            break;
        }
        clock.sleep(Duration::from_millis(1));
    }
    assert_eq!((engine.0.context.garbage.len(), taken(&engine)), (0, 0));
    drop(background);
}

/// DEFERRED-FREE-3: two threads that drop the same nodes at the same time free each node exactly
/// once.
#[test]
fn views_that_share_nodes_are_let_go_of_at_a_time() {
    for _ in 0..20 {
        let (engine, view) = view_of_what_is_gone();
        let all = view.levels.level2.slices().to_vec();
        let removed = all.iter().step_by(40).cloned().collect();
        drop(all);
        let edit = LevelsEdit { removed, ..LevelsEdit::default() };
        let other = view.levels.apply(&edit).unwrap();
        drop(edit);
        std::thread::scope(|scope| {
            scope.spawn(|| drop(view));
            scope.spawn(|| drop(other));
            scope.spawn(|| idle(&engine));
        });
        idle(&engine);
        assert_eq!(taken(&engine), 0);
    }
}

/// DEFERRED-FREE-4: a verification of a folder, which has no engine, leaves nothing deferred.
#[test]
fn verification_leaves_nothing_behind() {
    let disk = SimDisk::new(40);
    let all = Metadata { extents: 600, tables: 1, subtables: 1, seed: 8 };
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    all.make(&shared, &dir()).unwrap();
    let before = Arc::strong_count(&shared);
    let report = crate::verify(&shared, &dir(), &mut |_, _| {}).unwrap();
    assert!(!report.findings.is_empty(), "there is nothing of the data");
    assert_eq!(Arc::strong_count(&shared), before);
}
