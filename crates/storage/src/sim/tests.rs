use std::collections::BTreeSet;

use super::*;

/// A disk with a folder.
fn disk(seed: u64) -> SimDisk {
    let disk = SimDisk::new(seed);
    disk.create_dir_all(Path::new("/d")).unwrap();
    disk
}

fn read(disk: &SimDisk, path: &str) -> Vec<u8> {
    let file = disk.open(Path::new(path), OpenMode::Read).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_at(0, &mut bytes).unwrap();
    bytes
}

fn create(disk: &SimDisk, path: &str, bytes: &[u8]) -> Arc<dyn File> {
    let file = disk.open(Path::new(path), OpenMode::Create).unwrap();
    file.write_at(0, bytes).unwrap();
    file
}

/// Creates a file, and makes its bytes and its name durable.
fn create_durable(disk: &SimDisk, path: &str, bytes: &[u8]) -> Arc<dyn File> {
    let file = create(disk, path, bytes);
    file.sync().unwrap();
    disk.sync_dir(Path::new("/d")).unwrap();
    file
}

#[test]
fn disk_2_what_is_synced_survives_every_crash() {
    for seed in 0..50 {
        let disk = disk(seed);
        let file = create_durable(&disk, "/d/f", &[1; 5000]);
        disk.crash();
        assert_eq!(file.read_at(0, &mut [0]).unwrap_err().kind(), ErrorKind::Io);
        disk.restart();
        assert_eq!(read(&disk, "/d/f"), [1; 5000]);
        assert!(file.write_at(0, &[2]).is_err(), "a handle from before the crash is dead");
    }
}

#[test]
fn disk_3_unsynced_sectors_survive_alone_and_whole() {
    let mut outcomes = BTreeSet::new();
    for seed in 0..200 {
        let disk = disk(seed);
        let file = create_durable(&disk, "/d/f", &[1; 1536]);
        file.write_at(0, &[2; 1536]).unwrap();
        disk.crash();
        disk.restart();
        let bytes = read(&disk, "/d/f");
        let sectors: Vec<u8> = bytes.chunks(512).map(|sector| sector[0]).collect();
        assert!(bytes.chunks(512).all(|sector| sector.iter().all(|byte| *byte == sector[0])));
        outcomes.insert(sectors);
    }
    assert_eq!(outcomes.len(), 8, "every set of sectors happens: {outcomes:?}");
}

#[test]
fn disk_4_names_survive_as_a_prefix() {
    let mut outcomes = BTreeSet::new();
    for seed in 0..100 {
        let disk = disk(seed);
        create(&disk, "/d/a", b"a").sync().unwrap();
        disk.sync_dir(Path::new("/d")).unwrap();
        create(&disk, "/d/b", b"b").sync().unwrap();
        disk.rename(Path::new("/d/a"), Path::new("/d/c")).unwrap();
        disk.remove(Path::new("/d/b")).unwrap();
        disk.crash();
        disk.restart();
        outcomes.insert(disk.list(Path::new("/d")).unwrap().join(","));
    }
    assert_eq!(outcomes.into_iter().collect::<Vec<_>>(), ["a", "a,b", "b,c", "c"]);
}

#[test]
fn disk_4_names_of_each_folder_survive_by_themselves() {
    let mut outcomes = BTreeSet::new();
    for seed in 0..100 {
        let disk = disk(seed);
        disk.create_dir_all(Path::new("/e")).unwrap();
        create(&disk, "/d/a", b"a");
        create(&disk, "/e/b", b"b");
        create(&disk, "/d/c", b"c");
        if seed >= 50 {
            disk.sync_dir(Path::new("/e")).unwrap();
        }
        disk.crash();
        disk.restart();
        let names = disk.list(Path::new("/d")).unwrap().len();
        outcomes.insert((seed >= 50, names, disk.exists(Path::new("/e/b")).unwrap()));
    }
    // All possible outcomes. A sync of the other folder does not change them.
    assert_eq!(outcomes.len(), 6 + 3);
    assert!(outcomes.iter().all(|(synced, _, there)| *there || !synced));
}

#[test]
fn disk_6_a_full_disk_refuses_growth_only() {
    let disk = disk(1);
    disk.set_capacity(Some(8192));
    let file = create(&disk, "/d/f", &[1; 4096]);
    file.allocate(4096, 4096).unwrap();
    assert_eq!(file.write_at(8192, &[1]).unwrap_err().kind(), ErrorKind::DiskFull);
    file.write_at(4096, &[2; 4096]).unwrap();
    disk.set_capacity(None);
    file.write_at(8192, &[1]).unwrap();
    assert_eq!(disk.used(), 3 * 4096);
}

#[test]
fn planned_faults_meet_their_operation() {
    let disk = disk(1);
    let file = create(&disk, "/d/f", &[0; 10]);
    let next = disk.operations() + 1;
    disk.fail_operation(next, Fault::ShortWrite);
    disk.fail_operation(next + 1, Fault::Full);
    disk.fail_operation(next + 2, Fault::Crash);
    assert_eq!(file.write_at(0, &[1; 10]).unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(read(&disk, "/d/f"), [1, 1, 1, 1, 1, 0, 0, 0, 0, 0]);
    assert_eq!(file.write_at(0, &[2; 10]).unwrap_err().kind(), ErrorKind::DiskFull);
    assert!(file.write_at(0, &[2; 10]).is_err());
    assert!(disk.is_crashed() && disk.exists(Path::new("/d/f")).is_err());
}

#[test]
fn a_fork_goes_its_own_way() {
    let disk = disk(1);
    create(&disk, "/d/f", b"one");
    let fork = disk.fork();
    create(&disk, "/d/f", b"two");
    assert_eq!((read(&disk, "/d/f"), read(&fork, "/d/f")), (b"two".to_vec(), b"one".to_vec()));
    fork.rot(Path::new("/d/f"), 1, 0x80);
    assert_eq!(read(&fork, "/d/f")[1], b'n' ^ 0x80);
}

#[test]
fn disk_1_a_kill_takes_handles_and_locks_and_no_bytes() {
    let disk = disk(1);
    let file = create(&disk, "/d/f", &[1; 600]);
    let lock = disk.lock(Path::new("/d")).unwrap();
    let fork = disk.fork();
    assert!(fork.lock(Path::new("/d")).is_ok(), "nobody lives that holds the lock of a copy");
    disk.kill();
    assert_eq!(read(&disk, "/d/f"), [1; 600]);
    assert_eq!(file.sync().unwrap_err().kind(), ErrorKind::Io);
    let again = disk.lock(Path::new("/d")).unwrap();
    drop(lock);
    assert!(disk.lock(Path::new("/d")).is_err(), "a dead holder gives nothing back");
    drop(again);
    assert!(disk.lock(Path::new("/d")).is_ok());
}

#[test]
fn disk_2_write_and_sync_keeps_its_own_bytes_and_no_others() {
    let mut lost = false;
    for seed in 0..50 {
        let disk = disk(seed);
        let file = create(&disk, "/d/f", &[1; 8192]);
        disk.sync_dir(Path::new("/d")).unwrap();
        file.write_and_sync(4000, &[2; 200]).unwrap();
        disk.crash();
        disk.restart();
        let bytes = read(&disk, "/d/f");
        assert_eq!(bytes[4000..4200], [2; 200]);
        lost |= bytes.len() < 8192 || bytes[..512] == [0; 512];
    }
    assert!(lost, "what another call wrote is not made durable by it");
}

#[test]
fn disk_3_a_length_grows_in_part_and_what_is_beyond_it_is_zero() {
    let mut lengths = BTreeSet::new();
    for seed in 0..100 {
        let disk = disk(seed);
        let file = create_durable(&disk, "/d/f", &[1; 1000]);
        file.write_at(1000, &[2; 4000]).unwrap();
        disk.crash();
        disk.restart();
        let file = disk.open(Path::new("/d/f"), OpenMode::Write).unwrap();
        let len = file.len().unwrap();
        lengths.insert(len);
        file.set_len(6000).unwrap();
        let bytes = read(&disk, "/d/f");
        assert_eq!(bytes[..1000], [1; 1000]);
        assert!(bytes[len as usize..].iter().all(|byte| *byte == 0), "seed {seed}");
    }
    assert!(lengths.contains(&1000) && lengths.contains(&5000) && lengths.len() > 5);
}

#[test]
fn disk_5_a_failed_sync_keeps_some_sectors_and_hides_which() {
    let mut outcomes = BTreeSet::new();
    for seed in 0..60 {
        let disk = disk(seed);
        let file = create_durable(&disk, "/d/f", &[1; 1024]);
        file.write_at(0, &[2; 1024]).unwrap();
        disk.fail_syncs();
        file.sync().unwrap_err();
        disk.heal();
        // Neither another sync nor a write next to the lost bytes recovers them.
        file.write_at(1024, &[3; 512]).unwrap();
        file.sync().unwrap();
        let before = read(&disk, "/d/f");
        disk.crash();
        disk.restart();
        let bytes = read(&disk, "/d/f");
        let stale = before[..1024] == bytes[..1024];
        assert!(stale || before[..1024] == [2; 1024], "it is read back until the crash");
        outcomes.insert((bytes[0], bytes[512], stale));
    }
    assert_eq!(outcomes.len(), 7, "all but a lost page of which nothing is lost: {outcomes:?}");
}

#[test]
fn disk_5_a_failed_sync_is_told_to_one_of_those_whose_writes_it_lost() {
    let mut outcomes = BTreeSet::new();
    for seed in 0..20 {
        let disk = disk(seed);
        let mine = create(&disk, "/d/f", &[1; 512]);
        let other = disk.open(Path::new("/d/f"), OpenMode::Write).unwrap();
        mine.sync().unwrap();
        disk.sync_dir(Path::new("/d")).unwrap();
        mine.write_at(0, &[2; 512]).unwrap();
        disk.fail_next_sync(Fault::Io);
        other.sync().unwrap_err();
        mine.sync().unwrap();
        disk.crash();
        disk.restart();
        outcomes.insert(read(&disk, "/d/f")[0]);
    }
    assert_eq!(outcomes, BTreeSet::from([1, 2]));
}

#[test]
fn disk_5_writing_again_after_a_failed_sync_keeps_it() {
    for seed in 0..20 {
        let disk = disk(seed);
        let file = create(&disk, "/d/f", &[1; 1024]);
        disk.sync_dir(Path::new("/d")).unwrap();
        disk.fail_syncs();
        file.sync().unwrap_err();
        disk.heal();
        file.write_and_sync(0, &[1; 1024]).unwrap();
        disk.crash();
        disk.restart();
        assert_eq!(read(&disk, "/d/f"), [1; 1024]);
    }
}

#[test]
fn a_removal_that_a_crash_undoes_brings_the_file_back() {
    let mut outcomes = BTreeSet::new();
    for seed in 0..60 {
        let disk = disk(seed);
        create(&disk, "/d/f", b"f").sync().unwrap();
        // Neither the creation nor the removal is durable.
        disk.remove(Path::new("/d/f")).unwrap();
        disk.crash();
        disk.restart();
        outcomes.insert(disk.files());
    }
    assert_eq!(outcomes.len(), 2);
}

#[test]
fn reads_can_be_made_to_fail() {
    let disk = disk(1);
    create(&disk, "/d/f", b"f");
    disk.fail_reads(Path::new("/d/f"));
    let file = disk.open(Path::new("/d/f"), OpenMode::Read).unwrap();
    assert_eq!(file.read_at(0, &mut [0]).unwrap_err().kind(), ErrorKind::Io);
    disk.heal();
    file.read_at(0, &mut [0]).unwrap();
}

/// Operations of a thread that outlives its process in a simulation fail.
#[test]
fn a_process_that_is_gone_changes_no_names() {
    let disk = SimDisk::new(1);
    let dir = Path::new("/log");
    disk.create_dir_all(dir).unwrap();
    for crash in [false, true] {
        let process = disk.process();
        let path = dir.join(format!("of-{crash}"));
        process.open(&path, OpenMode::Create).unwrap();
        process.sync_dir(dir).unwrap();
        if crash {
            disk.crash();
            disk.restart();
        } else {
            disk.kill();
        }
        assert!(process.open(&path, OpenMode::Write).is_err());
        assert!(process.rename(&path, &dir.join("other")).is_err());
        assert!(process.remove(&path).is_err() && process.sync_dir(dir).is_err());
        assert!(process.list(dir).is_err() && process.lock(dir).is_err());
        assert!(disk.process().exists(&path).unwrap() && disk.exists(&path).unwrap());
    }
}

/// A sync that lies reports success. A crash then keeps a choice of the sectors, and none of a
/// folder's names for certain; a later honest sync keeps all of them.
#[test]
fn a_sync_that_lies_makes_nothing_durable_for_certain() {
    for (honest, expected) in [(false, 5), (true, 1)] {
        let mut outcomes = BTreeSet::new();
        for seed in 0..60 {
            let disk = disk(seed);
            let file = create_durable(&disk, "/d/f", &[1; 1024]);
            disk.disturb_syncs(SyncFault::Lie, 1, Path::new("/"));
            file.write_and_sync(0, &[2; 512]).unwrap();
            file.write_at(512, &[2; 512]).unwrap();
            file.sync().unwrap();
            create(&disk, "/d/g", &[]);
            disk.sync_dir(Path::new("/d")).unwrap();
            assert_eq!(disk.lies(), 3);
            assert_eq!(read(&disk, "/d/f"), [2; 1024], "no page is stale");
            disk.calm_syncs();
            if honest {
                file.sync().unwrap();
                disk.sync_dir(Path::new("/d")).unwrap();
            }
            disk.crash();
            disk.restart();
            let bytes = read(&disk, "/d/f");
            outcomes.insert((bytes[0], bytes[512], disk.files().len()));
        }
        assert!(outcomes.len() >= expected, "{outcomes:?}");
        assert!(!honest || outcomes == BTreeSet::from([(2, 2, 2)]), "{outcomes:?}");
    }
}

/// The bytes that a stale lying sync lost are stale at once, or at a crash.
#[test]
fn a_sync_that_lies_can_leave_stale_pages() {
    let mut outcomes = BTreeSet::new();
    for seed in 0..60 {
        let disk = disk(seed);
        let file = create_durable(&disk, "/d/f", &[1; 512]);
        disk.disturb_syncs(SyncFault::Stale, 1, Path::new("/"));
        file.write_and_sync(0, &[2; 512]).unwrap();
        disk.calm_syncs();
        let before = read(&disk, "/d/f")[0];
        file.sync().unwrap();
        disk.crash();
        disk.restart();
        outcomes.insert((before, read(&disk, "/d/f")[0]));
    }
    assert_eq!(outcomes, BTreeSet::from([(1, 1), (2, 1), (2, 2)]));
}

#[test]
fn a_device_that_empties_its_cache_makes_up_for_lies() {
    for seed in 0..20 {
        let disk = disk(seed);
        disk.disturb_syncs(SyncFault::Lie, 1, Path::new("/"));
        create(&disk, "/d/f", &[2; 512]).sync().unwrap();
        disk.sync_dir(Path::new("/d")).unwrap();
        disk.write_back();
        disk.crash();
        disk.restart();
        assert_eq!(read(&disk, "/d/f"), [2; 512]);
    }
}
