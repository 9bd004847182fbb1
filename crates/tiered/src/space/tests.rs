use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use spillway_base::rng::Rng;
use spillway_base::{Error, ErrorKind, Result, thread};

use spillway_storage::sim::{Fault, SimDisk};
use spillway_storage::{Disk, DiskLock, File, IoQueue, OpenMode, QueueSettings};

use super::slots::{PAST_ALL, SlotMap, SlotRun};
use super::{Claimed, DataFile, DeviceClass, Folder, SpaceManager, Tier, claim, find};
use crate::coding::Compression;

mod parts;

#[test]
fn slots_are_never_given_out_twice() {
    let mut rng = Rng::new(3);
    let mut map = SlotMap::default();
    map.resize(0, 130, true);
    map.resize(4, 64, false);
    let mut held: Vec<SlotRun> = Vec::new();
    let mut used = BTreeSet::new();
    let mut backed: BTreeSet<_> = (0..130).map(|slot| (0, slot)).collect();
    for _ in 0..20_000 {
        let slots_of = |run: SlotRun| (run.first..run.end()).map(move |slot| (run.file, slot));
        if rng.chance(1, 100) {
            let (keep, most) = (rng.below(100), rng.below(60) as u32);
            let free = backed.difference(&used).count() as u64;
            let mut left = most;
            let taken = map.take_spare(|_| true, keep, &mut left);
            let spare: BTreeSet<_> = taken.iter().flat_map(|&run| slots_of(run)).collect();
            assert!(spare.is_disjoint(&used) && spare.is_subset(&backed));
            let given = spare.len() as u32;
            assert_eq!((given, left), ((free.saturating_sub(keep) as u32).min(most), most - given));
            taken.into_iter().for_each(|run| map.release(run, false));
            backed.retain(|slot| !spare.contains(slot));
        } else if rng.chance(1, 100) {
            let bare: BTreeSet<_> = [(0, 130), (4, 64)]
                .iter()
                .flat_map(|&(file, slots): &(u32, u32)| (0..slots).map(move |slot| (file, slot)))
                .filter(|slot| !backed.contains(slot))
                .collect();
            let (mut below, mut all) = (PAST_ALL, BTreeSet::new());
            while below != (0, 0) {
                let (taken, next) = map.take_unknown(below, &mut 17);
                taken.iter().for_each(|&run| all.extend(slots_of(run)));
                taken.into_iter().for_each(|run| map.release(run, false));
                below = next;
            }
            assert_eq!(all, bare, "each once, however few go at once");
        } else if rng.chance(1, 2) && !held.is_empty() {
            let run = held.swap_remove(rng.below(held.len() as u64) as usize);
            let keeps_space = rng.chance(1, 2);
            map.release(run, keeps_space);
            slots_of(run).for_each(|slot| {
                assert!(used.remove(&slot));
                if !keeps_space {
                    backed.remove(&slot);
                }
            });
        } else {
            let count = 1 + rng.below(6) as u32;
            let is_run = |with_space: bool| {
                [(0, 130), (4, 64)].iter().any(|&(file, slots): &(u32, u32)| {
                    (0..slots.saturating_sub(count - 1)).any(|first| {
                        (first..first + count).map(|slot| (file, slot)).all(|slot| {
                            !used.contains(&slot) && (!with_space || backed.contains(&slot))
                        })
                    })
                })
            };
            let (any, with_space) = (is_run(false), is_run(true));
            let run = map.allocate(count, |_| true);
            assert_eq!(run.is_some(), any, "{count} consecutive slots");
            if let Some((run, has_space)) = run {
                assert_eq!(has_space, with_space, "such as have their space come first (SPACE-4)");
                assert_eq!(run.count, count);
                assert!(!has_space || slots_of(run).all(|slot| backed.contains(&slot)));
                slots_of(run).for_each(|slot| assert!(used.insert(slot)));
                backed.extend(slots_of(run));
                held.push(run);
            }
        }
        let free = backed.difference(&used).count() as u64;
        assert_eq!(map.totals(|_| true), (backed.len() as u64, free));
    }
    let kept = map.free_tails(|_| true);
    for (file, slots) in kept {
        assert!((slots..).take(130).all(|slot| !used.contains(&(file, slot))));
        map.resize(file, slots, false);
    }
}

#[test]
fn a_slot_referenced_twice_or_past_the_end_is_corruption() {
    let mut map = SlotMap::default();
    map.resize(1, 10, false);
    map.mark(SlotRun { file: 1, first: 2, count: 3 }).unwrap();
    for (run, message) in [
        (SlotRun { file: 1, first: 4, count: 1 }, "slot 4 of data file 1 is referenced twice"),
        (SlotRun { file: 1, first: 9, count: 2 }, "ends at slot 10"),
        (SlotRun { file: 2, first: 0, count: 1 }, "data file 2 is missing"),
        (SlotRun { file: 1, first: u32::MAX, count: 2 }, "is missing"),
    ] {
        let error = map.mark(run).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
        assert!(error.to_string().contains(message), "{error}");
    }
}

const DATA: &str = "/db/tiered";
const SLOT: u64 = 4096;
/// More slots than there are.
const ALL: u32 = 256;

fn tier(class: DeviceClass, dir: &str) -> Tier {
    Tier { class, dir: dir.into(), compression: None }
}

fn dirs(claimed: Result<Claimed>) -> Vec<(DeviceClass, String, bool)> {
    let folders = claimed.unwrap().folders.into_iter();
    folders.map(|of| (of.class, of.dir.to_str().unwrap().to_owned(), of.leaving)).collect()
}

fn refused(claimed: Result<Claimed>, what: &str) {
    let error = claimed.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains(what), "{error}");
}

/// Writes a data file into a folder.
fn put(disk: &SimDisk, path: &str) {
    disk.open(Path::new(path), OpenMode::Create).unwrap().write_and_sync(0, b"data").unwrap();
}

/// Moves a file to another folder, as an administrator does between devices.
fn move_file(disk: &SimDisk, from: &Path, to: &Path) {
    let old = disk.open(from, OpenMode::Read).unwrap();
    let mut bytes = vec![0; old.len().unwrap() as usize];
    old.read_at(0, &mut bytes).unwrap();
    disk.open(to, OpenMode::Create).unwrap().write_and_sync(0, &bytes).unwrap();
    disk.remove(from).unwrap();
    for path in [from, to] {
        disk.sync_dir(path.parent().unwrap()).unwrap();
    }
}

#[test]
fn without_tiers_the_data_folder_is_all_there_is_and_nothing_is_written() {
    let disk = SimDisk::new(1);
    disk.create_dir_all(Path::new(DATA)).unwrap();
    let all = [(DeviceClass::Ssd, DATA.to_owned(), false)];
    assert_eq!(dirs(claim(&disk, Path::new(DATA), &[])), all);
    assert_eq!(find(&disk, Path::new(DATA)).unwrap(), [Folder::only(Path::new(DATA))]);
    assert!(disk.list(Path::new(DATA)).unwrap().is_empty());
}

#[test]
fn space_1_a_folder_with_data_is_found_where_it_was_or_where_it_was_moved() {
    let disk = SimDisk::new(1);
    disk.create_dir_all(Path::new(DATA)).unwrap();
    let (fast, hdd) = (tier(DeviceClass::Fast, "/fast"), tier(DeviceClass::Hdd, "/hdd"));
    let found = dirs(claim(&disk, Path::new(DATA), &[fast.clone(), hdd.clone()]));
    assert_eq!(found[0], (DeviceClass::Ssd, DATA.to_owned(), false));
    assert_eq!(
        found[1..].iter().map(|folder| folder.0).collect::<Vec<_>>(),
        [DeviceClass::Fast, DeviceClass::Hdd]
    );
    put(&disk, "/hdd/000003.data");
    assert_eq!(dirs(claim(&disk, Path::new(DATA), &[fast.clone(), hdd])), found);
    // The folder was moved, and has another class.
    disk.create_dir_all(Path::new("/moved")).unwrap();
    for name in disk.list(Path::new("/hdd")).unwrap() {
        move_file(&disk, &Path::new("/hdd").join(&name), &Path::new("/moved").join(&name));
    }
    let before = disk.operations();
    refused(claim(&disk, Path::new(DATA), std::slice::from_ref(&fast)), "--tier hdd=");
    refused(claim(&disk, Path::new(DATA), &[tier(DeviceClass::Hdd, "/hdd")]), "hdd=/hdd");
    assert!(find(&disk, Path::new(DATA)).is_err());
    assert_eq!(disk.operations(), before, "nothing was changed");
    let moved = tier(DeviceClass::Ssd, "/moved");
    let found = dirs(claim(&disk, Path::new(DATA), &[fast, moved]));
    assert_eq!(found[0], (DeviceClass::Ssd, DATA.to_owned(), true));
    assert_eq!(found[2], (DeviceClass::Ssd, "/moved".to_owned(), false));
    assert_eq!(find(&disk, Path::new(DATA)).unwrap().len(), 3);
}

#[test]
fn space_2_a_folder_of_another_database_is_refused() {
    let disk = SimDisk::new(1);
    for dir in [DATA, "/other", "/files"] {
        disk.create_dir_all(Path::new(dir)).unwrap();
    }
    let hdd = tier(DeviceClass::Hdd, "/hdd");
    drop(claim(&disk, Path::new("/other"), std::slice::from_ref(&hdd)).unwrap());
    refused(claim(&disk, Path::new(DATA), &[hdd]), "belongs to another database");
    put(&disk, "/files/000001.data");
    let files = tier(DeviceClass::Hdd, "/files");
    refused(claim(&disk, Path::new(DATA), &[files]), "belongs to another database");
    assert!(disk.list(Path::new(DATA)).unwrap().is_empty());
    for twice in [
        [tier(DeviceClass::Fast, "/x"), tier(DeviceClass::Fast, "/y")],
        [tier(DeviceClass::Fast, "/x"), tier(DeviceClass::Hdd, "/x")],
        [tier(DeviceClass::Fast, "/x"), tier(DeviceClass::Hdd, DATA)],
    ] {
        refused(claim(&disk, Path::new(DATA), &twice), "is given twice");
    }
}

#[test]
fn space_3_a_folder_that_is_not_named_any_more_leaves_once_it_is_empty() {
    let disk = SimDisk::new(1);
    disk.create_dir_all(Path::new(DATA)).unwrap();
    drop(claim(&disk, Path::new(DATA), &[tier(DeviceClass::Hdd, "/hdd")]).unwrap());
    put(&disk, "/hdd/000001.data");
    let found = dirs(claim(&disk, Path::new(DATA), &[]));
    assert_eq!(found[1], (DeviceClass::Hdd, "/hdd".to_owned(), true));
    disk.open(Path::new("/hdd/000001.data"), OpenMode::Write).unwrap().set_len(0).unwrap();
    assert_eq!(dirs(claim(&disk, Path::new(DATA), &[])).len(), 1);
    assert_eq!(find(&disk, Path::new(DATA)).unwrap().len(), 1);
    assert_eq!(disk.list(Path::new("/hdd")).unwrap(), ["tier-owner"]);
    // It may be added again, also if a crash prevented the removal of its files.
    put(&disk, "/hdd/000001.data");
    refused(claim(&disk, Path::new(DATA), &[tier(DeviceClass::Hdd, "/hdd")]), "another database");
    disk.open(Path::new("/hdd/000001.data"), OpenMode::Write).unwrap().set_len(0).unwrap();
    let found = dirs(claim(&disk, Path::new(DATA), &[tier(DeviceClass::Hdd, "/hdd")]));
    assert_eq!(found[1], (DeviceClass::Hdd, "/hdd".to_owned(), false));
    assert_eq!(disk.list(Path::new("/hdd")).unwrap(), ["tier-owner"]);
}

/// After a crash between any two operations of a claim, the next claim accepts the folders.
/// SPACE-1: a folder that was given up, or that a crash kept from being recorded, is never confused
/// with a later one.
#[test]
fn space_1_numbers_of_folders_are_never_used_twice() {
    let (hdd, ssd) = (tier(DeviceClass::Hdd, "/hdd"), tier(DeviceClass::Ssd, "/ssd"));
    let claimed = |disk: &SimDisk, tiers: &[Tier]| dirs(claim(disk, Path::new(DATA), tiers));
    let has_both = |disk: &SimDisk| {
        put(disk, "/ssd/000001.data");
        let found = claimed(disk, std::slice::from_ref(&hdd));
        let dirs: Vec<_> = found.iter().map(|(_, dir, _)| &**dir).collect();
        assert_eq!(dirs, [DATA, "/hdd", "/ssd"]);
    };
    let disk = SimDisk::new(1);
    disk.create_dir_all(Path::new(DATA)).unwrap();
    claimed(&disk, std::slice::from_ref(&hdd));
    claimed(&disk, &[]);
    claimed(&disk, std::slice::from_ref(&ssd));
    has_both(&disk);

    let whole = SimDisk::new(1);
    whole.create_dir_all(Path::new(DATA)).unwrap();
    let before = whole.operations();
    claimed(&whole, std::slice::from_ref(&hdd));
    for crash_at in before + 1..=whole.operations() {
        let disk = SimDisk::new(crash_at);
        disk.create_dir_all(Path::new(DATA)).unwrap();
        disk.fail_operation(crash_at, Fault::Crash);
        assert!(claim(&disk, Path::new(DATA), std::slice::from_ref(&hdd)).is_err());
        disk.crash();
        disk.restart();
        claimed(&disk, std::slice::from_ref(&ssd));
        has_both(&disk);
    }
}

#[test]
fn a_claim_that_a_crash_cut_short_is_made_again() {
    let tiers = [tier(DeviceClass::Fast, "/fast"), tier(DeviceClass::Hdd, "/hdd")];
    let begin = |seed| {
        let disk = SimDisk::new(seed);
        disk.create_dir_all(Path::new(DATA)).unwrap();
        disk
    };
    let whole = begin(0);
    let from = whole.operations();
    drop(claim(&whole, Path::new(DATA), &tiers).unwrap());
    let operations = whole.operations();
    for at in from + 1..=operations {
        let disk = begin(at);
        disk.fail_operation(at, Fault::Crash);
        assert!(claim(&disk, Path::new(DATA), &tiers).is_err());
        disk.crash();
        disk.restart();
        let found = dirs(claim(&disk, Path::new(DATA), &tiers));
        assert_eq!(found.len(), 3);
        assert_eq!(find(&disk, Path::new(DATA)).unwrap().len(), 3);
    }
    assert!(operations - from > 10, "{operations}");
}

#[test]
fn damage_to_the_record_or_an_owner_is_noticed() {
    for path in ["/db/tiered/tiers", "/hdd/tier-owner"] {
        let disk = SimDisk::new(1);
        disk.create_dir_all(Path::new(DATA)).unwrap();
        drop(claim(&disk, Path::new(DATA), &[tier(DeviceClass::Hdd, "/hdd")]).unwrap());
        let file = disk.open(Path::new(path), OpenMode::Write).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_at(0, &mut bytes).unwrap();
        for at in 0..bytes.len() {
            let mut bad = bytes.clone();
            bad[at] ^= 1;
            file.write_at(0, &bad).unwrap();
            let error = claim(&disk, Path::new(DATA), &[]).err().unwrap();
            let kinds = [ErrorKind::Corruption, ErrorKind::UnsupportedFormat];
            assert!(kinds.contains(&error.kind()), "byte {at}: {error}");
        }
    }
}

/// A disk on which some folders are full, and some keep the space of ranges.
struct FullFolders {
    disk: SimDisk,
    full: Vec<(PathBuf, Arc<AtomicBool>)>,
    keeping: Option<PathBuf>,
}

/// A file, whether its folder is full, and whether it keeps the space of ranges.
struct FullFile(Arc<dyn File>, Arc<AtomicBool>, bool);

impl Disk for FullFolders {
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn File>> {
        let file = self.disk.open(path, mode)?;
        let full = self.full.iter().find(|(dir, _)| path.starts_with(dir));
        let keeps = self.keeping.as_ref().is_some_and(|dir| path.starts_with(dir));
        Ok(full.map_or(file.clone(), |(_, full)| Arc::new(FullFile(file, full.clone(), keeps))))
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        self.disk.exists(path)
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        self.disk.list(dir)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.disk.remove(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.disk.rename(from, to)
    }

    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        self.disk.create_dir_all(dir)
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.disk.sync_dir(dir)
    }

    fn lock(&self, dir: &Path) -> Result<Box<dyn DiskLock>> {
        self.disk.lock(dir)
    }

    fn available(&self, path: &Path) -> Result<u64> {
        self.disk.available(path)
    }

    fn queue(&self, settings: QueueSettings) -> Result<Box<dyn IoQueue>> {
        self.disk.queue(settings)
    }
}

impl File for FullFile {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        self.0.read_at(offset, bytes)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.0.write_at(offset, bytes)
    }

    fn sync(&self) -> Result<()> {
        self.0.sync()
    }

    fn write_and_sync(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.0.write_and_sync(offset, bytes)
    }

    fn len(&self) -> Result<u64> {
        self.0.len()
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.0.set_len(len)
    }

    fn allocate(&self, offset: u64, len: u64) -> Result<()> {
        if self.1.load(Ordering::SeqCst) {
            return Err(Error::new(ErrorKind::DiskFull, "no space left"));
        }
        self.0.allocate(offset, len)
    }

    fn punch(&self, offset: u64, len: u64) -> Result<bool> {
        if self.2 { Ok(false) } else { self.0.punch(offset, len) }
    }
}

/// Slots are allocated in the requested class, or where there is room if that is full. The numbers
/// of their files are unique.
#[test]
fn slots_are_on_their_class_or_the_next_with_room() {
    let folders = || {
        let leaving = Folder { leaving: true, ..Folder::only(Path::new(DATA)) };
        let of = |class, dir: &str| Folder { dir: dir.into(), class, leaving: false };
        let fast = of(DeviceClass::Fast, "/fast");
        vec![leaving, of(DeviceClass::Ssd, "/ssd"), of(DeviceClass::Hdd, "/hdd"), fast]
    };
    let sim = SimDisk::new(1);
    let full = ["/fast", "/ssd", "/hdd"].map(|dir| (PathBuf::from(dir), Arc::default()));
    let [fast_full, ssd_full, hdd_full] = full.clone().map(|(_, full): (_, Arc<AtomicBool>)| full);
    for Folder { dir, .. } in folders() {
        sim.create_dir_all(&dir).unwrap();
    }
    let disk = Arc::new(FullFolders { disk: sim.clone(), full: full.to_vec(), keeping: None });
    let open =
        |used: &[SlotRun]| SpaceManager::open(disk.clone(), folders(), SLOT, 4 * SLOT, whole(used));
    let space = open(&[]).unwrap();
    let mut held = Vec::new();
    let mut take = |wanted, got| {
        let run = space.allocate(1, wanted).unwrap();
        assert_eq!(space.classes_of_files()[&run.file], (got, false));
        held.push(run);
    };
    for class in DeviceClass::ALL {
        (0..6).for_each(|_| take(class, class));
    }
    fast_full.store(true, Ordering::SeqCst);
    while space.bytes_by_class()[0].free > 0 {
        take(DeviceClass::Fast, DeviceClass::Fast);
    }
    assert_eq!(space.displaced_slots(), 0);
    take(DeviceClass::Fast, DeviceClass::Ssd);
    ssd_full.store(true, Ordering::SeqCst);
    while space.bytes_by_class()[1].free > 0 {
        take(DeviceClass::Ssd, DeviceClass::Ssd);
    }
    take(DeviceClass::Ssd, DeviceClass::Hdd);
    take(DeviceClass::Fast, DeviceClass::Hdd);
    assert_eq!(space.displaced_slots(), 3);
    fast_full.store(false, Ordering::SeqCst);
    hdd_full.store(true, Ordering::SeqCst);
    while space.bytes_by_class()[2].free > 0 {
        take(DeviceClass::Hdd, DeviceClass::Hdd);
    }
    assert_eq!(space.allocate_on(1, DeviceClass::Hdd).unwrap_err().kind(), ErrorKind::DiskFull);
    take(DeviceClass::Hdd, DeviceClass::Fast);
    fast_full.store(true, Ordering::SeqCst);
    while space.bytes_by_class()[0].free > 0 {
        take(DeviceClass::Fast, DeviceClass::Fast);
    }
    assert_eq!(space.allocate(1, DeviceClass::Ssd).unwrap_err().kind(), ErrorKind::DiskFull);
    let distinct: BTreeSet<_> = held.iter().collect();
    assert_eq!(distinct.len(), held.len());
    drop(space);
    let again = open(&held).unwrap();
    assert!(again.bytes_by_class().iter().all(|class| class.free == 0));
    held.iter().for_each(|run| again.release(*run));
    assert!(again.shrink(1000, 2, false).unwrap());
    assert_eq!(again.bytes(), (0, 0));
    let name = |dir: &str| {
        let names = sim.list(Path::new(dir)).unwrap();
        Path::new(dir).join(&names[0])
    };
    let twice = Path::new("/fast").join(name("/ssd").file_name().unwrap());
    move_file(&sim, &name("/hdd"), &twice);
    assert_eq!(open(&[]).err().unwrap().kind(), ErrorKind::Corruption);
}

/// A crash may undo the removal of a data file that a full device could not hold, also if the
/// process ended after the removal. No other folder has been given a file of its number.
#[test]
fn a_crash_brings_no_second_file_of_a_number_back() {
    for reopens in [false, true] {
        let mut back = 0;
        for seed in 0..40 {
            let sim = SimDisk::new(seed);
            let of = |class, dir: &str| Folder { dir: dir.into(), class, leaving: false };
            let folders = vec![of(DeviceClass::Ssd, DATA), of(DeviceClass::Hdd, "/hdd")];
            folders.iter().for_each(|folder| sim.create_dir_all(&folder.dir).unwrap());
            let full = vec![(PathBuf::from(DATA), Arc::new(AtomicBool::new(true)))];
            let disk = Arc::new(FullFolders { disk: sim.clone(), full, keeping: None });
            let open = |used: &[SlotRun]| {
                let used = whole(used);
                SpaceManager::open(disk.clone(), folders.clone(), SLOT, 4 * SLOT, used)
            };
            let mut space = open(&[]).unwrap();
            if reopens {
                space.allocate_on(1, DeviceClass::Ssd).unwrap_err();
                drop(space);
                sim.kill();
                space = open(&[]).unwrap();
            }
            let wanted = if reopens { DeviceClass::Hdd } else { DeviceClass::Ssd };
            let run = space.allocate(1, wanted).unwrap();
            assert_eq!(space.classes_of_files()[&run.file].0, DeviceClass::Hdd);
            drop(space);
            sim.crash();
            sim.restart();
            back += sim.list(Path::new(DATA)).unwrap().len();
            if let Err(error) = open(&[run]) {
                panic!("seed {seed}, reopens: {reopens}: {error}");
            }
        }
        // An opening makes the removal durable.
        assert_eq!(back > 0, !reopens, "{back}");
    }
}

/// A folder that was given up stays empty after a crash, and may be added again: neither an emptied
/// file nor a removed one reappears with data.
#[test]
fn a_crash_brings_no_data_back_in_a_folder_that_was_left() {
    let hdd = [tier(DeviceClass::Hdd, "/hdd")];
    let file = Path::new("/hdd/000001.data");
    let mut back = [0, 0];
    for seed in 0..80 {
        let (disk, removed) = (SimDisk::new(seed), seed % 2 == 1);
        disk.create_dir_all(Path::new(DATA)).unwrap();
        drop(claim(&disk, Path::new(DATA), &hdd).unwrap());
        put(&disk, "/hdd/000001.data");
        if removed {
            disk.remove(file).unwrap();
        } else {
            disk.sync_dir(Path::new("/hdd")).unwrap();
            disk.open(file, OpenMode::Write).unwrap().set_len(0).unwrap();
        }
        assert_eq!(dirs(claim(&disk, Path::new(DATA), &[])).len(), 1);
        disk.crash();
        disk.restart();
        back[usize::from(removed)] += u32::from(disk.exists(file).unwrap());
        let found = dirs(claim(&disk, Path::new(DATA), &hdd));
        assert_eq!(found[1], (DeviceClass::Hdd, "/hdd".to_owned(), false), "seed {seed}");
    }
    assert!(back[0] > 0 && back[1] == 0, "{back:?}");
}

/// If that cannot be made durable, the opening fails, and the folder stays recorded.
#[test]
fn a_folder_whose_sync_fails_is_not_left() {
    let disk = SimDisk::new(1);
    disk.create_dir_all(Path::new(DATA)).unwrap();
    drop(claim(&disk, Path::new(DATA), &[tier(DeviceClass::Hdd, "/hdd")]).unwrap());
    put(&disk, "/hdd/000001.data");
    let file = disk.open(Path::new("/hdd/000001.data"), OpenMode::Write).unwrap();
    file.set_len(0).unwrap();
    for operation in [1, 2] {
        disk.fail_operation(disk.operations() + operation, Fault::Io);
        let error = claim(&disk, Path::new(DATA), &[]).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        assert_eq!(find(&disk, Path::new(DATA)).unwrap().len(), 2);
    }
    assert_eq!(dirs(claim(&disk, Path::new(DATA), &[])).len(), 1);
}

/// Used slots whose extents fill them.
fn whole(used: &[SlotRun]) -> impl Iterator<Item = (SlotRun, u64)> + '_ {
    used.iter().map(|run| (*run, u64::from(run.count) * SLOT))
}

/// A disk with room for this many slots and a few bytes more.
fn small(slots: u64) -> (Arc<SimDisk>, impl Fn(&[SlotRun]) -> SpaceManager) {
    let disk = Arc::new(SimDisk::new(1));
    disk.create_dir_all(Path::new(DATA)).unwrap();
    disk.set_capacity(Some(slots * SLOT));
    let on = disk.clone();
    let open = move |used: &[SlotRun]| {
        let folders = vec![Folder::only(Path::new(DATA))];
        SpaceManager::open(on.clone(), folders, SLOT, 64 * SLOT, whole(used)).unwrap()
    };
    (disk, open)
}

#[test]
fn space_4_5_what_is_given_back_is_the_file_systems_and_is_taken_before_it_is_used() {
    let (disk, open) = small(40);
    let space = open(&[]);
    let runs: Vec<_> = (0..40).map(|_| space.allocate(1, DeviceClass::Ssd).unwrap()).collect();
    assert_eq!(space.bytes(), (40 * SLOT, 0));
    let (kept, given) = runs.split_at(8);
    let content = |run: SlotRun| [run.first as u8 + 1; SLOT as usize];
    for run in kept.iter().chain(given.iter().skip(1).step_by(2)) {
        let (file, offset) = space.locate(*run).unwrap();
        file.file().write_at(offset, &content(*run)).unwrap();
    }
    given.iter().step_by(2).for_each(|run| space.release(*run));
    assert!(space.give_back(8, 2, ALL).unwrap() > 0);
    // One for each eight used slots, and the lowest ones in the file.
    assert_eq!(space.bytes(), (27 * SLOT, 3 * SLOT));
    assert_eq!(disk.available(Path::new(DATA)).unwrap(), 13 * SLOT);
    assert_eq!(space.give_back(8, 2, ALL).unwrap(), 0, "what is left is kept");
    // Other files take the room. Only free slots with their space can be allocated.
    let other = disk.open(Path::new("/db/other"), OpenMode::Create).unwrap();
    other.allocate(0, 12 * SLOT).unwrap();
    for _ in 0..4 {
        let run = space.allocate(1, DeviceClass::Ssd).unwrap();
        let (file, offset) = space.locate(run).unwrap();
        file.file().write_at(offset, &[1; SLOT as usize]).unwrap();
    }
    let full = space.allocate(1, DeviceClass::Ssd).unwrap_err();
    assert_eq!((full.kind(), space.bytes()), (ErrorKind::DiskFull, (28 * SLOT, 0)));
    disk.set_capacity(Some(60 * SLOT));
    space.allocate(1, DeviceClass::Ssd).unwrap();
    // Slots in use were not touched.
    for run in kept.iter().chain(given.iter().skip(1).step_by(2)) {
        let ((file, offset), mut bytes) = (space.locate(*run).unwrap(), [0; SLOT as usize]);
        file.read_at(offset, &mut bytes).unwrap();
        assert_eq!(bytes, content(*run), "{run}");
    }
}

/// SPACE-5: slots that could not be allocated together because the disk is full keep the space that
/// they had, and it is still released.
#[test]
fn space_5_a_full_disk_makes_no_space_forgotten() {
    let (disk, open) = small(40);
    let space = open(&[]);
    let runs: Vec<_> = (0..40).map(|_| space.allocate(1, DeviceClass::Ssd).unwrap()).collect();
    runs[30..].iter().for_each(|run| space.release(*run));
    assert!(space.give_back(1000, 4, ALL).unwrap() > 0);
    assert_eq!(space.bytes(), (34 * SLOT, 4 * SLOT));
    let other = disk.open(Path::new("/db/other"), OpenMode::Create).unwrap();
    other.allocate(0, 6 * SLOT).unwrap();
    assert_eq!(space.allocate(8, DeviceClass::Ssd).unwrap_err().kind(), ErrorKind::DiskFull);
    assert!(space.give_back(1000, 0, ALL).unwrap() > 0);
    assert_eq!(disk.available(Path::new(DATA)).unwrap(), 4 * SLOT);
}

#[test]
fn space_6_after_an_opening_no_free_slot_is_relied_on_and_all_of_them_are_given_back() {
    let (disk, open) = small(40);
    let space = open(&[]);
    let runs: Vec<_> = (0..8).map(|_| space.allocate(1, DeviceClass::Ssd).unwrap()).collect();
    runs[..4].iter().for_each(|run| space.release(*run));
    drop(space);
    let space = open(&runs[4..]);
    assert_eq!(space.bytes(), (4 * SLOT, 0));
    assert!(space.give_back(8, 2, ALL).unwrap() > 0);
    assert_eq!(disk.available(Path::new(DATA)).unwrap(), 36 * SLOT);
    // A disk that cannot release them keeps them for later allocations.
    let before = disk.operations();
    disk.fail_operation(before + 1, Fault::Io);
    space.release(runs[4]);
    space.release(runs[5]);
    space.release(runs[6]);
    assert_eq!(space.give_back(8, 0, ALL).unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(space.bytes(), (SLOT, 0));
    for _ in 0..39 {
        space.allocate(1, DeviceClass::Ssd).unwrap();
    }
}

#[test]
fn tiers_are_read_from_text() {
    let read = |text: &str| text.parse::<Tier>();
    assert_eq!(read("hdd=/mnt/a=b").unwrap(), tier(DeviceClass::Hdd, "/mnt/a=b"));
    let compressed = read("fast:zstd:9=x").unwrap();
    assert_eq!(compressed.compression, Some(Compression::Zstd { level: 9 }));
    assert_eq!(read("ssd:lz4=x").unwrap().class, DeviceClass::Ssd);
    for text in ["hdd", "hdd=", "=/x", "disk=/x", "hdd:=/x", "hdd:zstd:40=/x", ""] {
        assert_eq!(read(text).unwrap_err().kind(), ErrorKind::InvalidArgument, "{text}");
    }
}

/// `tiers` and `tier-owner`, composed by hand.
#[test]
fn records_of_folders_are_what_their_versions_say() {
    let sealed = |mut bytes: Vec<u8>| {
        bytes.extend_from_slice(&spillway_base::checksum::crc32c(&bytes).to_le_bytes());
        bytes
    };
    let database = [7; 16];
    let record = [
        &b"SWTR\x01\x00"[..],
        &database,
        // The last assigned number, and two folders: 3, an hdd, and 4, the fast one.
        b"\x05\x00\x02\x00",
        b"\x03\x00\x02\x05\x00\x00\x00/slow",
        b"\x04\x00\x00\x05\x00\x00\x00/fast",
    ];
    let disk = SimDisk::new(1);
    let put = |path: &str, bytes: Vec<u8>| {
        let path = Path::new(path);
        disk.create_dir_all(path.parent().unwrap()).unwrap();
        disk.open(path, OpenMode::Create).unwrap().write_at(0, &sealed(bytes)).unwrap();
    };
    put(&format!("{DATA}/tiers"), record.concat());
    for (path, number) in [("/slow/tier-owner", 3), ("/fast/tier-owner", 4)] {
        put(path, [&b"SWTO\x01\x00"[..], &database, &[number, 0]].concat());
    }
    let of = |class, dir: &str| Folder { dir: dir.into(), class, leaving: false };
    let wanted = [of(DeviceClass::Hdd, "/slow"), of(DeviceClass::Fast, "/fast")];
    assert_eq!(find(&disk, Path::new(DATA)).unwrap()[1..], wanted);
    // The next assigned number was not assigned before.
    put("/slow/000001.data", b"data".to_vec());
    drop(claim(&disk, Path::new(DATA), &[tier(DeviceClass::Ssd, "/new")]).unwrap());
    let file = disk.open(Path::new("/new/tier-owner"), OpenMode::Read).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_at(0, &mut bytes).unwrap();
    let owner = [&b"SWTO\x01\x00"[..], &database, &[6, 0]].concat();
    assert_eq!(bytes, sealed(owner), "bump the version, if this is meant");
    // Another version is refused.
    put("/other/tiers", [&b"SWTR\x02\x00"[..], &record.concat()[6..]].concat());
    let error = find(&disk, Path::new("/other")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnsupportedFormat, "{error}");
}

/// Counts the waits of its threads.
#[derive(Default)]
struct Waits(AtomicU32);

impl thread::Pool for Waits {
    fn leave(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn come_back(&self) {}
}

#[test]
fn a_pool_is_told_of_each_wait_for_a_device() {
    let disk = SimDisk::new(1);
    let file = disk.open(Path::new("/f"), OpenMode::Create).unwrap();
    file.write_at(0, &[3; 9000]).unwrap();
    let file = DataFile::new(file, DeviceClass::Ssd);
    let waits = Arc::new(Waits::default());
    thread::together(1, |_| {
        thread::join_pool(waits.clone());
        for reads in 1..4 {
            let mut bytes = [0; 5000];
            file.read_at(1000, &mut bytes).unwrap();
            assert_eq!((bytes, waits.0.load(Ordering::Relaxed)), ([3; 5000], reads));
        }
        assert!(file.read_at(8000, &mut [0; 5000]).is_err());
        assert_eq!(waits.0.load(Ordering::Relaxed), 4);
    });
}

/// SPACE-7: space is released in as many pieces as requested. Only afterwards can the end of a file
/// be cut off.
#[test]
fn space_7_space_goes_back_piece_by_piece_and_files_end_where_it_has() {
    let (disk, open) = small(40);
    let space = open(&[]);
    let runs: Vec<_> = (0..16).map(|_| space.allocate(1, DeviceClass::Ssd).unwrap()).collect();
    runs[4..].iter().for_each(|run| space.release(*run));
    let len = || disk.open(&Path::new(DATA).join("000001.data"), OpenMode::Write).unwrap().len();
    let whole = len().unwrap();
    space.shrink(1000, 2, true).unwrap();
    assert_eq!(len().unwrap(), whole, "its slots have their space");
    // Three of twelve free slots keep their space, and releasing the space of only a few is not
    // worth the work.
    for left in [13, 10, 7] {
        assert_eq!(space.give_back(1000, 2, 3).unwrap(), 3);
        assert_eq!(space.bytes().0, left * SLOT);
    }
    space.shrink(1000, 2, true).unwrap();
    assert_eq!(len().unwrap(), whole, "it is not known yet what the others have (SPACE-6)");
    while space.give_back(1000, 2, 3).unwrap() > 0 {}
    assert_eq!(space.bytes().0, 7 * SLOT);
    space.shrink(1000, 2, true).unwrap();
    assert_eq!(len().unwrap(), 8 * SLOT);
    drop(space);
    // After an opening no slot is known to have space, or to have none.
    let space = open(&runs[..2]);
    space.shrink(1000, 2, true).unwrap();
    assert_eq!(len().unwrap(), 8 * SLOT);
    assert_eq!(space.give_back(1000, 2, 3).unwrap(), 3);
    space.shrink(1000, 2, true).unwrap();
    assert_eq!(len().unwrap(), 6 * SLOT);
    assert_eq!(space.give_back(1000, 2, 3).unwrap(), 3);
    space.shrink(1000, 2, true).unwrap();
    assert_eq!(len().unwrap(), 2 * SLOT);
}

/// SPACE-7: a device with less room than free slots have is short of it.
#[test]
fn space_7_a_device_with_little_room_is_short() {
    let (disk, open) = small(40);
    let space = open(&[]);
    let runs: Vec<_> = (0..16).map(|_| space.allocate(1, DeviceClass::Ssd).unwrap()).collect();
    assert!(!space.is_short(), "no slot is free");
    runs.iter().for_each(|run| space.release(*run));
    assert!(!space.is_short());
    let other = disk.open(Path::new("/db/other"), OpenMode::Create).unwrap();
    other.allocate(0, disk.available(Path::new(DATA)).unwrap() - 8 * SLOT).unwrap();
    assert!(space.is_short());
    drop(space);
    assert!(open(&[]).is_short(), "SPACE-6: after an opening it is not known what they have");
}

/// SPACE-7: if a file system keeps the space of ranges, ends of files are cut off even if less than
/// half of a device is free; otherwise only slots without space.
#[test]
fn space_7_where_ranges_keep_their_space_files_end_sooner() {
    let sim = SimDisk::new(1);
    let folder = |class, dir: &str| Folder { dir: dir.into(), class, leaving: false };
    let folders = vec![folder(DeviceClass::Ssd, "/ssd"), folder(DeviceClass::Fast, "/fast")];
    folders.iter().for_each(|folder| sim.create_dir_all(&folder.dir).unwrap());
    let full = folders.iter().map(|folder| (folder.dir.clone(), Arc::default())).collect();
    let disk = FullFolders { disk: sim.clone(), full, keeping: Some("/ssd".into()) };
    let space =
        SpaceManager::open(Arc::new(disk), folders, SLOT, 64 * SLOT, std::iter::empty()).unwrap();
    let len = |dir: &str| {
        let path = Path::new(dir).join(&sim.list(Path::new(dir)).unwrap()[0]);
        sim.open(&path, OpenMode::Write).unwrap().len().unwrap() / SLOT
    };
    for (class, used) in [(DeviceClass::Ssd, 9), (DeviceClass::Fast, 4)] {
        let runs: Vec<_> = (0..16).map(|_| space.allocate_on(1, class).unwrap()).collect();
        runs[used..].iter().for_each(|run| space.release(*run));
    }
    assert!(!space.shrink(1000, 2, true).unwrap(), "it is not known yet");
    assert_eq!((len("/ssd"), len("/fast")), (16, 16));
    assert_eq!(space.give_back(1000, 2, 6).unwrap(), 1);
    assert!(space.shrink(1000, 2, true).unwrap());
    assert_eq!(
        (len("/ssd"), len("/fast")),
        (12, 16),
        "two are left to be taken, and files end by two"
    );
    while space.give_back(1000, 2, 8).unwrap() > 0 {}
    assert!(space.shrink(1000, 2, true).unwrap());
    assert_eq!((len("/ssd"), len("/fast")), (12, 8));
    assert!(!space.shrink(1000, 2, true).unwrap(), "what is left stays");
}
