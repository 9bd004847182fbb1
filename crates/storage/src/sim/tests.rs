use super::*;

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

#[test]
fn k2_what_is_synced_survives_every_crash() {
    for seed in 0..50 {
        let disk = SimDisk::new(seed);
        let file = create(&disk, "/d/f", &[1; 5000]);
        file.sync().unwrap();
        disk.sync_dir(Path::new("/d")).unwrap();
        disk.crash();
        assert_eq!(file.read_at(0, &mut [0]).unwrap_err().kind(), ErrorKind::Io);
        disk.restart();
        assert_eq!(read(&disk, "/d/f"), [1; 5000]);
        assert!(file.write_at(0, &[2]).is_err(), "a handle from before the crash is dead");
    }
}

#[test]
fn k3_unsynced_sectors_survive_alone_and_whole() {
    let mut outcomes = BTreeSet::new();
    for seed in 0..200 {
        let disk = SimDisk::new(seed);
        let file = create(&disk, "/d/f", &[1; 1536]);
        file.sync().unwrap();
        disk.sync_dir(Path::new("/d")).unwrap();
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
fn k4_names_survive_as_a_prefix() {
    let mut outcomes = BTreeSet::new();
    for seed in 0..100 {
        let disk = SimDisk::new(seed);
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
fn k5_a_failed_sync_loses_what_it_should_have_kept() {
    let disk = SimDisk::new(1);
    let file = create(&disk, "/d/f", &[1; 512]);
    file.sync().unwrap();
    disk.sync_dir(Path::new("/d")).unwrap();
    file.write_at(0, &[2; 512]).unwrap();
    disk.fail_syncs();
    assert_eq!(file.sync().unwrap_err().kind(), ErrorKind::Io);
    disk.heal();
    file.sync().unwrap();
    disk.crash();
    disk.restart();
    assert_eq!(read(&disk, "/d/f"), [1; 512]);
}

#[test]
fn k6_a_full_disk_refuses_growth_only() {
    let disk = SimDisk::new(1);
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
    let disk = SimDisk::new(1);
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
    let disk = SimDisk::new(1);
    create(&disk, "/d/f", b"one");
    let fork = disk.fork();
    create(&disk, "/d/f", b"two");
    assert_eq!((read(&disk, "/d/f"), read(&fork, "/d/f")), (b"two".to_vec(), b"one".to_vec()));
    fork.rot(Path::new("/d/f"), 1, 0x80);
    assert_eq!(read(&fork, "/d/f")[1], b'n' ^ 0x80);
}
