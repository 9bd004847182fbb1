//! Faults, kills and crashes with operations in flight.

use super::*;

/// A disk with a synced file of this many pages of ones.
fn disk(seed: u64, count: usize) -> (SimDisk, Arc<dyn File>) {
    let disk = SimDisk::new(seed);
    let file = disk.open(Path::new("/f"), OpenMode::Create).unwrap();
    file.write_at(0, &vec![1; count * ALIGN]).unwrap();
    file.sync().unwrap();
    disk.sync_dir(Path::new("/")).unwrap();
    (disk, file)
}

fn queue(disk: &SimDisk) -> Box<dyn IoQueue> {
    disk.queue(QueueSettings { depth: 8, cache: Cache::Bypass }).unwrap()
}

fn read(disk: &SimDisk) -> Vec<u8> {
    content(&*disk.open(Path::new("/f"), OpenMode::Read).unwrap())
}

/// The single value of each page, for pages that hold only one.
fn values(bytes: &[u8]) -> Vec<Option<u8>> {
    let one = |page: &[u8]| page.iter().all(|byte| *byte == page[0]).then_some(page[0]);
    bytes.chunks(ALIGN).map(one).collect()
}

#[test]
fn io_queue_1_operations_come_back_in_any_order() {
    let mut orders = BTreeSet::new();
    for seed in 0..200 {
        let (disk, file) = disk(seed, 1);
        let mut queue = queue(&disk);
        (0..3).for_each(|tag| queue.read(tag, &file, 0, 1, empty()));
        let order: Vec<u64> = std::iter::from_fn(|| queue.wait()).map(|done| done.tag).collect();
        orders.insert(order);
    }
    assert_eq!(orders.len(), 6, "{orders:?}");
}

#[test]
fn io_queue_10_what_the_system_refuses_is_handed_over_later() {
    for gathers in [false, true] {
        let (disk, file) = disk(1, 4);
        let mut queue = queue(&disk);
        queue.gather(gathers);
        disk.refuse_submissions(true);
        (0..3).for_each(|tag| queue.read(tag, &file, tag * PAGE, ALIGN, empty()));
        assert!(!queue.submit() && queue.try_wait().is_none());
        assert_eq!(queue.in_flight(), 3);
        disk.refuse_submissions(false);
        assert!(queue.submit());
        let tags: BTreeSet<u64> = std::iter::from_fn(|| queue.try_wait()).map(|d| d.tag).collect();
        assert_eq!(tags, BTreeSet::from([0, 1, 2]));
    }
}

#[test]
fn io_queue_2_operations_happen_in_any_order() {
    let mut outcomes = BTreeSet::new();
    for seed in 0..200 {
        let (disk, file) = disk(seed, 1);
        let mut queue = queue(&disk);
        queue.write(0, &file, 0, pages(1, 2));
        queue.read(1, &file, 0, ALIGN, empty());
        queue.write(2, &file, 0, pages(1, 3));
        let seen = read(&disk)[0];
        let done = drain(&mut *queue);
        assert_eq!(values(&done[&1].buffer).len(), 1, "each happens at once");
        outcomes.insert((seen, done[&1].buffer[0], read(&disk)[0]));
    }
    let of = |place: fn(&(u8, u8, u8)) -> u8| outcomes.iter().map(place).collect::<BTreeSet<_>>();
    assert_eq!(of(|seen| seen.0), BTreeSet::from([1, 2, 3]));
    assert_eq!(of(|seen| seen.1), BTreeSet::from([1, 2, 3]));
    assert_eq!(of(|seen| seen.2), BTreeSet::from([2, 3]));
}

#[test]
fn io_queue_2_what_was_given_back_before_a_sync_survives_a_crash() {
    for seed in 0..100 {
        let (disk, file) = disk(seed, 8);
        let mut queue = queue(&disk);
        (0..8).for_each(|page| queue.write(page, &file, page * PAGE, pages(1, 2)));
        let written: Vec<u64> = (0..4).map(|_| queue.wait().unwrap().tag).collect();
        file.sync().unwrap();
        disk.crash();
        for done in drain(&mut *queue).values() {
            assert_eq!(kind(done), Some(ErrorKind::Io));
            assert_eq!(done.buffer[..], [2; ALIGN]);
        }
        disk.restart();
        let values = values(&read(&disk));
        assert!(written.iter().all(|page| values[*page as usize] == Some(2)));
        assert!(
            queue.is_idle() && queue.wait().is_none(),
            "nobody else is told of what was in flight"
        );
    }
}

#[test]
fn io_queue_2_a_crash_keeps_any_set_of_the_sectors_in_flight() {
    let (mut outcomes, mut lengths) = (BTreeSet::new(), BTreeSet::new());
    for seed in 0..300 {
        let (disk, file) = disk(seed, 2);
        let mut queue = queue(&disk);
        (0..3).for_each(|page| queue.write(page, &file, page * PAGE, pages(1, 2)));
        disk.crash();
        disk.restart();
        let bytes = read(&disk);
        lengths.insert(bytes.len());
        assert!(bytes[..2 * ALIGN].chunks(512).all(|sector| sector == [sector[0]; 512]));
        outcomes.insert([0, 512, ALIGN].map(|sector| bytes[sector]));
        drop(queue);
        assert_eq!(read(&disk), bytes, "what was in flight does not happen afterwards");
    }
    assert_eq!(outcomes.len(), 8, "every set of sectors happens: {outcomes:?}");
    assert!(lengths.contains(&(2 * ALIGN)) && lengths.contains(&(3 * ALIGN)));
}

#[test]
fn io_queue_8_a_kill_keeps_what_was_given_back_and_any_set_of_what_was_not() {
    let mut outcomes = BTreeSet::new();
    for seed in 0..200 {
        let (disk, file) = disk(seed, 4);
        let mut queue = queue(&disk);
        (0..4).for_each(|page| queue.write(page, &file, page * PAGE, pages(1, 2)));
        let written = queue.wait().unwrap().tag as usize;
        disk.kill();
        let bytes = read(&disk);
        assert!(drain(&mut *queue).values().all(|done| kind(done) == Some(ErrorKind::Io)));
        queue.write(9, &file, 0, pages(1, 3));
        assert_eq!(kind(&queue.wait().unwrap()), Some(ErrorKind::Io), "the handle is dead");
        assert_eq!(read(&disk), bytes, "nothing happens after the end");
        let values = values(&bytes);
        assert_eq!(values[written], Some(2));
        outcomes.extend(values);
    }
    assert_eq!(outcomes, BTreeSet::from([None, Some(1), Some(2)]));
}

#[test]
fn planned_faults_meet_the_write_of_their_number() {
    for seed in 0..50 {
        let (disk, file) = disk(seed, 4);
        let mut queue = queue(&disk);
        let next = disk.operations() + 1;
        disk.fail_operation(next, Fault::Io);
        disk.fail_operation(next + 1, Fault::ShortWrite);
        disk.fail_operation(next + 3, Fault::Full);
        for page in 0..4 {
            // Reads have no number.
            queue.read(10 + page, &file, page * PAGE, 1, empty());
            queue.write(page, &file, page * PAGE, pages(1, 2));
        }
        let done = drain(&mut *queue);
        let kinds = [0, 1, 2, 3].map(|tag| kind(&done[&tag]));
        let (io, full) = (Some(ErrorKind::Io), Some(ErrorKind::DiskFull));
        assert_eq!(kinds, [io, io, None, full]);
        assert!((10..14).all(|tag| done[&tag].outcome.is_ok()));
        let half = [[2; ALIGN / 2], [1; ALIGN / 2]].concat();
        assert_eq!(read(&disk), [&[1; ALIGN][..], &half, &[2; ALIGN], &[1; ALIGN]].concat());
    }
}

#[test]
fn a_crash_that_is_planned_for_a_write_meets_all_in_flight() {
    let mut first = BTreeSet::new();
    for seed in 0..200 {
        let (disk, file) = disk(seed, 2);
        let mut queue = queue(&disk);
        queue.write(0, &file, 0, pages(1, 2));
        disk.fail_operation(disk.operations() + 1, Fault::Crash);
        queue.write(1, &file, PAGE, pages(1, 2));
        assert!(disk.is_crashed());
        queue.read(2, &file, 0, 1, empty());
        assert!(drain(&mut *queue).values().all(|done| kind(done) == Some(ErrorKind::Io)));
        disk.restart();
        let bytes = read(&disk);
        assert_eq!(values(&bytes)[1], Some(1), "the machine stopped before it");
        // A sector at each end of the write that was in flight.
        first.insert((bytes[0], bytes[ALIGN - 1]));
    }
    assert_eq!(first, BTreeSet::from([(1, 1), (1, 2), (2, 1), (2, 2)]));
}

#[test]
fn disk_6_a_full_disk_is_met_by_those_that_it_has_no_room_for() {
    for seed in 0..50 {
        let (disk, file) = disk(seed, 4);
        disk.set_capacity(Some(6 * PAGE));
        let mut queue = queue(&disk);
        (0..8).for_each(|page| queue.write(page, &file, page * PAGE, pages(1, 2)));
        let done = drain(&mut *queue);
        assert!((0..4).all(|page| done[&page].outcome.is_ok()), "there was room for these");
        let full: Vec<_> = (4..8).filter_map(|page| kind(&done[&page])).collect();
        assert_eq!(full, [ErrorKind::DiskFull; 2]);
        assert_eq!(disk.used(), 6 * PAGE);
        disk.set_capacity(None);
        (0..8).for_each(|page| queue.write(page, &file, page * PAGE, pages(1, 3)));
        assert!(drain(&mut *queue).values().all(|done| done.outcome.is_ok()));
        assert_eq!(read(&disk), [3; 8 * ALIGN]);
    }
}

#[test]
fn io_queue_4_reads_that_fail_leave_writes_alone() {
    let (disk, file) = disk(1, 2);
    let mut queue = queue(&disk);
    disk.fail_reads(Path::new("/f"));
    queue.read(0, &file, 0, 1, empty());
    queue.write(1, &file, PAGE, pages(1, 2));
    let done = drain(&mut *queue);
    assert_eq!((kind(&done[&0]), kind(&done[&1])), (Some(ErrorKind::Io), None));
}

#[test]
fn a_fork_has_what_has_happened_and_the_queue_goes_on() {
    let mut outcomes = BTreeSet::new();
    for seed in 0..100 {
        let (disk, file) = disk(seed, 1);
        let mut queue = queue(&disk);
        queue.write(0, &file, 0, pages(1, 2));
        let fork = disk.fork();
        outcomes.extend(values(&read(&fork)));
        queue.wait().unwrap().outcome.unwrap();
        assert_eq!(read(&disk), [2; ALIGN]);
    }
    assert_eq!(outcomes, BTreeSet::from([None, Some(1), Some(2)]));
}

#[test]
fn what_is_to_be_done_after_a_write_is_done_when_it_is_given_back() {
    let disk = SimDisk::new(1);
    let file = disk.open(Path::new("/f.data"), OpenMode::Create).unwrap();
    let (mut queue, forked) = (queue(&disk), Arc::new(parking_lot::Mutex::new(None)));
    let (inner, slot) = (disk.clone(), forked.clone());
    disk.after_next_write("data", move || *slot.lock() = Some(inner.fork()));
    queue.write(0, &file, 0, pages(1, 2));
    assert!(forked.lock().is_none());
    queue.wait().unwrap().outcome.unwrap();
    let fork = forked.lock().take().unwrap();
    let file = fork.open(Path::new("/f.data"), OpenMode::Read).unwrap();
    assert_eq!(content(&*file), [2; ALIGN]);
}

#[test]
fn equal_seeds_give_equal_disks() {
    let run = |seed| {
        let (disk, file) = disk(seed, 4);
        let mut queue = queue(&disk);
        let mut order = Vec::new();
        for page in 0..20 {
            if queue.is_full() {
                order.push(queue.wait().unwrap().tag);
            }
            queue.write(page, &file, page % 4 * PAGE, pages(1, page as u8));
        }
        disk.crash();
        disk.restart();
        (order, read(&disk))
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5), run(6));
}

/// The possible contents of each sector after a crash: the first is the synced one, the others were
/// submitted since.
struct Hopes(Vec<Vec<u8>>);

impl Hopes {
    const PAGES: u64 = 12;
    const SECTORS: u64 = PAGE / 512;

    fn of_page(&mut self, page: u64) -> &mut [Vec<u8>] {
        &mut self.0[(page * Self::SECTORS) as usize..((page + 1) * Self::SECTORS) as usize]
    }

    fn submitted(&mut self, page: u64, value: u8) {
        self.of_page(page).iter_mut().for_each(|sector| sector.push(value));
    }

    /// For a page without a write in flight, a sync keeps the bytes read, since every successful
    /// write was returned.
    fn synced(&mut self, page: u64, now: &[u8]) {
        for (sector, now) in self.of_page(page).iter_mut().zip(now.chunks(512)) {
            assert!(sector.contains(&now[0]));
            *sector = vec![now[0]];
        }
    }
}

/// Random writes, some of which fail, with syncs and reads between, up to a crash or a kill.
fn history(seed: u64) {
    let (disk, file) = disk(seed, Hopes::PAGES as usize);
    let mut rng = Rng::new(seed);
    let mut hopes = Hopes(vec![vec![1]; (Hopes::PAGES * Hopes::SECTORS) as usize]);
    let mut queue = queue(&disk);
    let mut in_flight = BTreeSet::new();
    let mut told = BTreeMap::new();
    for number in 0..rng.below(120) {
        let value = (number % 250) as u8 + 2;
        let page = rng.below(Hopes::PAGES);
        match rng.below(8) {
            0..4 if !queue.is_full() && !in_flight.contains(&page) => {
                match rng.below(10) {
                    0 => disk.fail_operation(disk.operations() + 1, Fault::Io),
                    1 => disk.fail_operation(disk.operations() + 1, Fault::ShortWrite),
                    _ => {}
                }
                queue.write(page << 8 | u64::from(value), &file, page * PAGE, pages(1, value));
                in_flight.insert(page);
                hopes.submitted(page, value);
            }
            0..7 => {
                let Some(done) = queue.wait() else { continue };
                let page = done.tag >> 8;
                in_flight.remove(&page);
                if done.outcome.is_ok() {
                    told.insert(page, done.tag as u8);
                } else {
                    told.remove(&page);
                }
            }
            _ => {
                file.sync().unwrap();
                let now = content(&*file);
                for page in (0..Hopes::PAGES).filter(|page| !in_flight.contains(page)) {
                    let now = &now[(page * PAGE) as usize..][..ALIGN];
                    assert!(told.get(&page).is_none_or(|value| *now == [*value; ALIGN]));
                    hopes.synced(page, now);
                }
            }
        }
    }
    let killed = rng.chance(1, 3);
    if killed {
        disk.kill();
    } else {
        disk.crash();
        disk.restart();
    }
    let bytes = read(&disk);
    for (sector, hopes) in bytes.chunks(512).zip(&hopes.0) {
        assert!(sector.iter().all(|byte| *byte == sector[0]) && hopes.contains(&sector[0]));
    }
    for (page, value) in told.iter().filter(|(page, _)| killed && !in_flight.contains(page)) {
        assert_eq!(bytes[(page * PAGE) as usize..][..ALIGN], [*value; ALIGN], "DISK-1");
    }
}

#[test]
fn io_queue_2_after_a_crash_each_sector_is_as_synced_or_as_submitted_since() {
    for seed in 0..1000 {
        history(seed);
    }
}
