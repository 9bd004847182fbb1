//! Background work that meets a full disk returns the space that it took, and continues once there
//! is space again.

use spillway_storage::sim::Fault;

use super::loading::key;
use super::*;

impl World {
    pub(super) fn files(&self) -> Vec<String> {
        let mut names = self.disk.list(Path::new(DATA)).unwrap();
        names.sort_unstable();
        names
    }

    /// Overwrites most rows of a table, so that its log segments have little left.
    fn overwrite(&mut self, table: TableId) {
        for round in 0..6_u64 {
            for number in 0..400 {
                let value = [round as u8; 100];
                if round == 0 || number % 8 != 0 {
                    self.put(table, &key(number), &value);
                }
            }
        }
        self.tell();
    }
}

#[test]
fn a_checkpoint_on_a_full_disk_leaves_no_files_and_loses_no_pages() {
    for room in (0..40).map(|step| step * 700) {
        let mut world = World::new(21);
        let table = world.tables()[0];
        world.overwrite(table);
        let files = world.files();
        world.disk.set_capacity(Some(world.disk.used() + room));
        world.engine.request_persist(world.csn);
        let worked = world.engine.run_background_job().unwrap();
        if worked {
            assert!(room > 0, "a checkpoint takes no space");
            continue;
        }
        assert!(world.engine.meets_full_disk(), "{room}");
        assert_eq!(world.files(), files, "{room}");
        world.disk.set_capacity(None);
        assert!(world.engine.run_background_job().unwrap());
        assert!(!world.engine.meets_full_disk());
        assert!(world.engine.persisted() >= world.csn);
        world.cut();
        world.crash();
        world.assert_is_whole(table);
        world.check_live();
    }
}

/// The checkpoint meets a full disk at any of its operations, also when it has renamed its manifest
/// and syncs the folder. Then the process ends, or does so after a while.
#[test]
fn a_manifest_whose_name_may_not_be_durable_keeps_its_files() {
    let mut kept = 0;
    for (at, goes_on) in (1..).flat_map(|at| [(at, true), (at, false)]) {
        let mut world = World::new(25);
        let table = world.tables()[0];
        world.overwrite(table);
        world.engine.request_persist(world.csn);
        let before = world.files();
        world.disk.fail_operation(world.disk.operations() + at, Fault::Full);
        let worked = world.engine.run_background_job();
        world.disk.heal();
        worked.unwrap();
        if !world.engine.meets_full_disk() {
            break;
        }
        kept += u64::from(world.files() != before);
        if goes_on {
            world.overwrite(table);
            while world.engine.run_background_job().unwrap() {}
        }
        // As after a kill: what was renamed stays so.
        world.disk.sync_dir(Path::new(DATA)).unwrap();
        world.restart();
        world.assert_is_whole(table);
        world.check_live();
    }
    assert!(kept > 0);
}

#[test]
fn a_compaction_on_a_full_disk_leaves_no_file_and_no_segment() {
    let mut refused = 0;
    for room in (0..40).map(|step| step * 2000) {
        let mut world = World::new(22);
        let table = world.tables()[0];
        world.overwrite(table);
        world.engine.persist_all().unwrap();
        world.cut();
        world.engine.0.segments.note_kept().unwrap();
        let (files, segments) = (world.files(), world.engine.0.segments.handles_end());
        world.disk.set_capacity(Some(world.disk.used() + room));
        let compacted = world.engine.0.log_compaction().compact();
        if compacted.is_err_and(|error| error.kind() == ErrorKind::DiskFull) {
            refused += 1;
            assert_eq!(world.files(), files, "{room}");
            assert_eq!(world.engine.0.segments.handles_end(), segments);
        }
        world.disk.set_capacity(None);
        world.engine.compact_all().unwrap();
        world.crash();
        world.assert_is_whole(table);
        world.check_live();
    }
    assert!((1..40).contains(&refused), "{refused}");
}

/// Commits to tables of other engines cause no checkpoint, which would take space.
#[test]
fn nothing_is_written_for_commits_to_other_engines() {
    let mut world = World::new(23);
    let table = world.tables()[0];
    world.overwrite(table);
    while world.engine.run_background_job().unwrap() {}
    world.engine.persist_all().unwrap();
    let (written, files) = (world.engine.0.checkpoints.last().number, world.files());
    world.csn = Csn(world.csn.0 + 10);
    world.horizon.0.lock().0 = world.csn;
    world.engine.request_persist(world.csn);
    assert!(!world.engine.run_background_job().unwrap());
    world.engine.persist_all().unwrap();
    assert_eq!((world.engine.0.checkpoints.last().number, world.files()), (written, files));
    assert!(world.engine.persisted() >= world.csn);
    // A caller that needs the CSN in the files gets a checkpoint.
    world.engine.record_persisted(world.csn).unwrap();
    assert_eq!(world.engine.0.checkpoints.last().csn, world.csn);
}
