//! Slots that have only a part of their space (SPACE-4).

use super::*;

/// SPACE-4: on a full disk a small extent gets the space of its bytes alone, and the next extent in
/// its slot gets the space of the whole slot again, also after another opening.
#[test]
fn space_4_a_small_extent_needs_no_whole_slot_on_a_full_disk() {
    const LARGE: u64 = 4 * SLOT;
    let disk = Arc::new(SimDisk::new(1));
    disk.create_dir_all(Path::new(DATA)).unwrap();
    disk.set_capacity(Some(8 * LARGE));
    let open = |used: &[(SlotRun, u64)]| {
        let folders = vec![Folder::only(Path::new(DATA))];
        let used = used.iter().copied();
        SpaceManager::open(disk.clone(), folders, LARGE, 64 * LARGE, used).unwrap()
    };
    let available = || disk.available(Path::new(DATA)).unwrap();
    let is_full = |taken: Result<SlotRun>| taken.unwrap_err().kind() == ErrorKind::DiskFull;
    let space = open(&[]);
    // As many as the file grows by.
    let first = space.allocate(2, DeviceClass::Ssd).unwrap();
    let other = disk.open(Path::new("/db/other"), OpenMode::Create).unwrap();
    other.allocate(0, available() - 3 * SLOT).unwrap();
    assert!(is_full(space.allocate(1, DeviceClass::Ssd)));
    assert!(is_full(space.allocate_for(1, 3 * SLOT + 1, DeviceClass::Ssd)));
    let part = space.allocate_for(1, SLOT, DeviceClass::Ssd).unwrap();
    assert_eq!(available(), 2 * SLOT);
    let (file, offset) = space.locate(part).unwrap();
    file.file().write_at(offset, &[7; SLOT as usize]).unwrap();
    file.sync().unwrap();
    assert_eq!(available(), 2 * SLOT);
    // Its slot is not taken for a whole one, by this manager or by the next.
    space.release(part);
    assert!(is_full(space.allocate(1, DeviceClass::Ssd)));
    assert_eq!(space.allocate_for(1, SLOT, DeviceClass::Ssd).unwrap(), part);
    drop((space, file));
    let space = open(&[(first, 2 * LARGE), (part, SLOT)]);
    space.release(part);
    assert!(is_full(space.allocate(1, DeviceClass::Ssd)));
    disk.set_capacity(Some(9 * LARGE));
    let before = available();
    assert_eq!(space.allocate(1, DeviceClass::Ssd).unwrap(), part);
    assert_eq!(available(), before - 3 * SLOT);
}

/// SPACE-4: a slot with all its space keeps that of a small extent's bytes, and gets the rest again
/// for the next extent in it.
#[test]
fn space_4_a_slot_is_trimmed_to_a_small_extent() {
    const LARGE: u64 = 4 * SLOT;
    let disk = Arc::new(SimDisk::new(1));
    disk.create_dir_all(Path::new(DATA)).unwrap();
    disk.set_capacity(Some(8 * LARGE));
    let folders = vec![Folder::only(Path::new(DATA))];
    let space =
        SpaceManager::open(disk.clone(), folders, LARGE, 64 * LARGE, [].into_iter()).unwrap();
    let available = || disk.available(Path::new(DATA)).unwrap();
    let run = space.allocate_for(1, 2 * SLOT - 1, DeviceClass::Ssd).unwrap();
    let before = available();
    assert!(!space.trim(run, 3 * SLOT + 1).unwrap());
    assert_eq!(available(), before, "it leaves too little");
    assert!(space.trim(run, 2 * SLOT - 1).unwrap());
    assert!(!space.trim(run, 2 * SLOT - 1).unwrap(), "it was trimmed before");
    assert_eq!(available(), before + 2 * SLOT);
    let (file, offset) = space.locate(run).unwrap();
    file.file().write_at(offset, &[7; 2 * SLOT as usize]).unwrap();
    assert_eq!(available(), before + 2 * SLOT);
    space.release(run);
    assert_eq!(space.allocate(1, DeviceClass::Ssd).unwrap(), run);
    assert_eq!(available(), before);
}
