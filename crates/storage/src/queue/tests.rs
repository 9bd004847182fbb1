//! The common contract of all queues, and the behaviour of each at a crash.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use spillway_base::ErrorKind;
use spillway_base::rng::Rng;

use super::*;
use crate::sim::{Fault, SimDisk};
use crate::{Disk, Means, OpenMode, RealDisk};

mod kill;
mod sim;

const PAGE: u64 = ALIGN as u64;

/// A disk with a folder, and a constructor of its queues.
struct Place<'a> {
    name: String,
    disk: &'a dyn Disk,
    dir: &'a Path,
    means: Option<Means>,
    cache: Cache,
}

impl Place<'_> {
    fn queue(&self, depth: usize) -> Box<dyn IoQueue> {
        let settings = QueueSettings { depth, cache: self.cache };
        let queue = match self.means {
            Some(means) => RealDisk.queue_by(settings, means),
            None => self.disk.queue(settings),
        };
        queue.unwrap()
    }

    /// A file with these bytes.
    fn file(&self, name: &str, bytes: &[u8]) -> Arc<dyn File> {
        let file = self.disk.open(&self.dir.join(name), OpenMode::Create).unwrap();
        file.write_at(0, bytes).unwrap();
        file
    }
}

/// Runs a test with queues of each kind, past the cache and through it, each in its own folder.
fn everywhere(test: impl Fn(&Place<'_>)) {
    for cache in [Cache::Through, Cache::Bypass] {
        for means in Means::ALL.into_iter().filter(|means| means.is_there()) {
            let dir = tempfile::tempdir().unwrap();
            let name = format!("{means:?}, {cache:?}");
            test(&Place { name, disk: &RealDisk, dir: dir.path(), means: Some(means), cache });
        }
        let disk = SimDisk::new(1);
        let name = format!("simulated, {cache:?}");
        test(&Place { name, disk: &disk, dir: Path::new("/"), means: None, cache });
    }
}

fn pages(count: usize, value: u8) -> AlignedBuffer {
    let mut buffer = AlignedBuffer::new(count * ALIGN);
    buffer.fill(value);
    buffer
}

fn empty() -> AlignedBuffer {
    AlignedBuffer::with_capacity(0)
}

/// Waits for everything in flight, by tag.
fn drain(queue: &mut dyn IoQueue) -> BTreeMap<u64, Completion> {
    let mut done = BTreeMap::new();
    while let Some(completion) = queue.wait() {
        assert!(done.insert(completion.tag, completion).is_none());
    }
    assert!(queue.is_idle());
    done
}

fn kind(completion: &Completion) -> Option<ErrorKind> {
    completion.outcome.as_ref().err().map(|error| error.kind())
}

fn content(file: &dyn File) -> Vec<u8> {
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_at(0, &mut bytes).unwrap();
    bytes
}

#[test]
fn io_queue_9_who_is_told_when_to_look_waits_for_nothing_and_misses_nothing() {
    everywhere(|place| {
        let bytes: Vec<u8> = (0..40 * PAGE).map(|at| (at / 512) as u8).collect();
        let file = place.file("f", &bytes);
        let mut queue = place.queue(8);
        let descriptor = queue.descriptor();
        assert!(queue.try_wait().is_none());
        let (mut next, mut done) = (0, BTreeSet::new());
        while done.len() < 40 {
            while next < 40 && !queue.is_full() {
                // The last one does not exist.
                let offset = if next == 39 { 40 * PAGE } else { next * PAGE + 100 };
                queue.read(next, &file, offset, 1000, AlignedBuffer::with_capacity(0));
                next += 1;
            }
            let mut any = false;
            while let Some(read) = queue.try_wait() {
                any = true;
                assert!(done.insert(read.tag), "{} is given back twice", read.tag);
                assert_eq!(read.outcome.is_ok(), read.tag != 39, "{}", place.name);
                let from = (read.tag * PAGE + 100) as usize;
                assert!(read.tag == 39 || read.buffer[..] == bytes[from..from + 1000]);
            }
            match &descriptor {
                Some(descriptor) if !any => {
                    let mut readable = [PollFd::new(descriptor, PollFlags::IN)];
                    let patience = Timespec { tv_sec: 30, tv_nsec: 0 };
                    assert_eq!(poll(&mut readable, Some(&patience)), Ok(1), "{}", place.name);
                }
                _ => std::thread::yield_now(),
            }
        }
        assert!(queue.is_idle() && queue.try_wait().is_none() && queue.wait().is_none());
        assert_eq!(descriptor.is_none(), place.means == Some(Means::Threads));
    });
}

#[test]
fn io_queue_10_what_is_gathered_comes_back_once_it_was_handed_over() {
    everywhere(|place| {
        let bytes: Vec<u8> = (0..8 * PAGE).map(|at| (at / 512) as u8).collect();
        let file = place.file("f", &bytes);
        let mut queue = place.queue(8);
        queue.gather(true);
        let read = |queue: &mut dyn IoQueue, tag| {
            queue.read(tag, &file, tag * PAGE + 9, 4000, AlignedBuffer::with_capacity(0));
        };
        for round in 0..3 {
            (0..8).for_each(|tag| read(&mut *queue, tag));
            assert!(queue.is_full(), "what is kept counts as in flight");
            if place.means != Some(Means::Threads) {
                assert!(queue.try_wait().is_none(), "{}: it was kept", place.name);
            }
            // Any of these calls may submit it.
            let mut done = match round {
                0 => drain(&mut *queue),
                _ => {
                    assert!(queue.submit() && queue.submit());
                    drain(&mut *queue)
                }
            };
            assert_eq!(done.len(), 8);
            for (tag, read) in &mut done {
                let from = (tag * PAGE + 9) as usize;
                read.outcome.as_ref().unwrap();
                assert_eq!(read.buffer[..], bytes[from..from + 4000], "{}", place.name);
            }
        }
        // Dropping a queue waits for operations that it held back.
        read(&mut *queue, 1);
        drop(queue);
    });
}

#[test]
fn io_queue_1_each_operation_comes_back_once_with_its_tag_and_its_buffer() {
    everywhere(|place| {
        let mut queue = place.queue(3);
        assert!(queue.is_idle() && queue.wait().is_none());
        let file = place.file("f", &[1; 5 * ALIGN]);
        let buffers = [AlignedBuffer::new(2 * ALIGN), pages(1, 2), AlignedBuffer::new(10)];
        let memory = buffers.each_ref().map(|buffer| buffer.as_ptr());
        let [first, second, third] = buffers;
        queue.read(7, &file, 0, 2 * ALIGN, first);
        queue.write(u64::MAX, &file, 4 * PAGE, second);
        assert!(!queue.is_full() && !queue.is_idle());
        queue.read(0, &file, 3 * PAGE, 1, third);
        assert_eq!((queue.in_flight(), queue.depth(), queue.is_full()), (3, 3, true));
        let done = drain(&mut *queue);
        assert_eq!(done.keys().copied().collect::<Vec<_>>(), [0, 7, u64::MAX], "{}", place.name);
        assert_eq!(done[&7].buffer[..], [1; 2 * ALIGN]);
        assert_eq!(done[&u64::MAX].buffer[..], [2; ALIGN]);
        assert_eq!(done[&0].buffer[..], [1]);
        assert_eq!([7, u64::MAX, 0].map(|tag| done[&tag].buffer.as_ptr()), memory);
        assert!(done.values().all(|completion| completion.outcome.is_ok()));
        assert_eq!(content(&*file)[4 * ALIGN..], [2; ALIGN]);
    });
}

#[test]
fn io_queue_3_a_read_may_begin_and_end_anywhere_in_its_file() {
    everywhere(|place| {
        let mut rng = Rng::new(3);
        let mut bytes = vec![0; 3 * ALIGN + 1234];
        rng.fill(&mut bytes);
        let file = place.file("f", &bytes);
        let mut queue = place.queue(4);
        let len = bytes.len();
        let edges = [0, 1, 511, 512, ALIGN - 1, ALIGN, ALIGN + 1, 3 * ALIGN, len - 1, len];
        for from in edges {
            for to in edges.into_iter().filter(|to| *to > from) {
                queue.read(0, &file, from as u64, to - from, AlignedBuffer::new(ALIGN));
                let read = queue.wait().unwrap();
                read.outcome.unwrap();
                assert_eq!(read.buffer[..], bytes[from..to], "{}: {from} to {to}", place.name);
            }
        }
    });
}

#[test]
fn io_queue_3_what_was_read_can_be_written_as_it_is() {
    everywhere(|place| {
        let file = place.file("f", &[[1; ALIGN], [2; ALIGN], [3; ALIGN]].concat());
        let mut queue = place.queue(1);
        queue.read(0, &file, 10, ALIGN, empty());
        let moved = queue.wait().unwrap().buffer;
        queue.write(0, &file, 2 * PAGE, moved);
        queue.wait().unwrap().outcome.unwrap();
        let wanted = [&[1; ALIGN][..], &[2; ALIGN], &[1; ALIGN - 10], &[2; 10]].concat();
        assert_eq!(content(&*file), wanted);
    });
}

#[test]
fn io_queue_3_a_read_beyond_the_end_fails_and_a_write_makes_the_file_longer() {
    everywhere(|place| {
        let file = place.file("f", &[1; 100]);
        let mut queue = place.queue(4);
        for (tag, offset, len) in
            [(0, 0, 101), (1, 99, 2), (2, 3 * PAGE, 1), (3, u64::MAX - 1, 100)]
        {
            queue.read(tag, &file, offset, len, empty());
        }
        for (tag, completion) in drain(&mut *queue) {
            assert_eq!(kind(&completion), Some(ErrorKind::Io), "{}: read {tag}", place.name);
        }
        queue.write(0, &file, 2 * PAGE, pages(2, 2));
        queue.wait().unwrap().outcome.unwrap();
        let wanted = [&[1; 100][..], &[0; 2 * ALIGN - 100], &[2; 2 * ALIGN]].concat();
        assert_eq!(content(&*file), wanted, "{}", place.name);
    });
}

#[test]
fn io_queue_4_a_failure_is_of_one_operation() {
    everywhere(|place| {
        let file = place.file("f", &[1; 2 * ALIGN]);
        let reader = place.disk.open(&place.dir.join("f"), OpenMode::Read).unwrap();
        let mut queue = place.queue(8);
        for round in 0..3_u64 {
            queue.write(0, &file, round * PAGE, pages(1, 2));
            queue.write(1, &reader, 5 * PAGE, pages(1, 3));
            queue.read(2, &file, 9 * PAGE, ALIGN, empty());
            queue.write(3, &file, (round + 1) * PAGE, pages(1, 4));
            let done = drain(&mut *queue);
            let kinds = [0, 1, 2, 3].map(|tag| kind(&done[&tag]));
            let io = Some(ErrorKind::Io);
            assert_eq!(kinds, [None, io, io, None], "{}", place.name);
            assert_eq!(done[&1].buffer[..], [3; ALIGN], "what could not be written is still there");
            assert!(done[&1].outcome.as_ref().unwrap_err().to_string().contains('f'));
        }
        assert_eq!(content(&*file), [[2; ALIGN], [2; ALIGN], [2; ALIGN], [4; ALIGN]].concat());
    });
}

#[test]
fn io_queue_4_a_full_device_is_told_apart() {
    for means in Means::ALL.into_iter().filter(|means| means.is_there()) {
        for cache in [Cache::Through, Cache::Bypass] {
            let mut queue = RealDisk.queue_by(QueueSettings { depth: 2, cache }, means).unwrap();
            let full = RealDisk.open(Path::new("/dev/full"), OpenMode::Write).unwrap();
            queue.write(1, &full, 0, pages(1, 1));
            assert_eq!(kind(&queue.wait().unwrap()), Some(ErrorKind::DiskFull));
        }
    }
}

#[test]
fn io_queue_6_what_is_in_flight_keeps_its_file_open_and_a_drop_waits_for_it() {
    everywhere(|place| {
        let path = place.dir.join("f");
        let file = place.file("f", &[1; ALIGN]);
        let other = place.disk.open(&path, OpenMode::Write).unwrap();
        let mut queue = place.queue(16);
        for page in 0..15 {
            queue.write(page, &other, page * PAGE, pages(1, page as u8));
        }
        queue.read(15, &other, 0, 1, empty());
        place.disk.remove(&path).unwrap();
        drop(other);
        drop(queue);
        let wanted: Vec<u8> = (0..15).flat_map(|page| [page; ALIGN]).collect();
        assert_eq!(content(&*file), wanted, "{}", place.name);
    });
}

#[test]
fn a_caller_that_does_not_keep_to_its_part_meets_a_panic() {
    everywhere(|place| {
        let file = place.file("f", &[1; ALIGN]);
        let elsewhere = SimDisk::new(1).open(Path::new("f"), OpenMode::Create).unwrap();
        type Wrong = fn(&mut dyn IoQueue, &Arc<dyn File>, &Arc<dyn File>);
        let wrongs: [Wrong; 7] = [
            |queue, file, _| queue.write(0, file, 512, pages(1, 0)),
            |queue, file, _| queue.write(0, file, 0, AlignedBuffer::new(ALIGN + 1)),
            |queue, file, _| queue.write(0, file, 0, empty()),
            |queue, file, _| queue.read(0, file, 0, 0, empty()),
            |queue, _, elsewhere| queue.read(0, elsewhere, 0, 1, empty()),
            |queue, _, elsewhere| queue.write(0, elsewhere, 0, pages(1, 0)),
            |queue, file, _| (0..3).for_each(|tag| queue.read(tag, file, 0, 1, empty())),
        ];
        for (number, wrong) in wrongs.into_iter().enumerate() {
            let mut queue = place.queue(2);
            let outcome = catch_unwind(AssertUnwindSafe(|| wrong(&mut *queue, &file, &elsewhere)));
            assert!(outcome.is_err(), "{}: {number}", place.name);
        }
        for depth in [0, QueueSettings::DEPTH_MAX + 1] {
            let queue = place.disk.queue(QueueSettings { depth, cache: place.cache });
            assert_eq!(queue.err().unwrap().kind(), ErrorKind::InvalidArgument);
        }
    });
}

/// A file of pages, its known bytes, and the operations in flight on it.
struct Model {
    bytes: Vec<u8>,
    /// By tag: the range, and the bytes written there.
    in_flight: BTreeMap<u64, (std::ops::Range<usize>, Option<u8>)>,
}

impl Model {
    const PAGES_MAX: usize = 40;

    fn is_free(&self, range: &std::ops::Range<usize>, of_writes_only: bool) -> bool {
        self.in_flight
            .values()
            .filter(|(_, value)| value.is_some() || !of_writes_only)
            .all(|(taken, _)| taken.end <= range.start || range.end <= taken.start)
    }

    fn write(&mut self, range: std::ops::Range<usize>, value: u8) {
        self.bytes.resize(self.bytes.len().max(range.end), 0);
        self.bytes[range].fill(value);
    }

    fn give_back(&mut self, done: Completion, place: &Place<'_>) {
        let (range, value) = self.in_flight.remove(&done.tag).expect("it was in flight");
        done.outcome.unwrap();
        match value {
            Some(value) => self.write(range, value),
            None => assert_eq!(done.buffer[..], self.bytes[range], "{}", place.name),
        }
    }

    /// A range within the known bytes.
    fn some_range(&self, rng: &mut Rng) -> std::ops::Range<usize> {
        let from = rng.below(self.bytes.len() as u64) as usize;
        let len = 1 + rng.below((self.bytes.len() - from).min(5 * ALIGN) as u64) as usize;
        from..from + len
    }

    fn some_pages(rng: &mut Rng) -> std::ops::Range<usize> {
        let from = rng.below(Self::PAGES_MAX as u64) as usize;
        from * ALIGN..(from + 1 + rng.below(4) as usize) * ALIGN
    }
}

/// Random operations concurrently with plain calls on the same file, checked against a model.
fn random_operations(place: &Place<'_>, seed: u64, operations: u64) {
    let mut rng = Rng::new(seed);
    let file = place.file("f", &[0; 1000]);
    let mut model = Model { bytes: vec![0; 1000], in_flight: BTreeMap::new() };
    let mut queue = place.queue(1 + rng.below(12) as usize);
    let mut spare = Vec::new();
    for tag in 0..operations {
        while queue.is_full() || rng.chance(1, 3) {
            let Some(done) = queue.wait() else { break };
            spare.push(done.buffer.clone());
            model.give_back(done, place);
        }
        let mut buffer: AlignedBuffer = spare.pop().unwrap_or_else(empty);
        match rng.below(10) {
            0..4 => {
                let range = model.some_range(&mut rng);
                if model.is_free(&range, true) {
                    queue.read(tag, &file, range.start as u64, range.len(), buffer);
                    model.in_flight.insert(tag, (range, None));
                }
            }
            4..8 => {
                let range = Model::some_pages(&mut rng);
                if model.is_free(&range, false) {
                    let value = rng.next_u64() as u8;
                    buffer.clear();
                    buffer.extend_from_slice(&vec![value; range.len()]);
                    queue.write(tag, &file, range.start as u64, buffer);
                    model.in_flight.insert(tag, (range, Some(value)));
                }
            }
            8 => {
                let range = model.some_range(&mut rng);
                if model.is_free(&range, false) {
                    let value = rng.next_u64() as u8;
                    file.write_at(range.start as u64, &vec![value; range.len()]).unwrap();
                    model.write(range, value);
                }
            }
            _ => {
                let range = model.some_range(&mut rng);
                if model.is_free(&range, true) {
                    let mut bytes = vec![0; range.len()];
                    file.read_at(range.start as u64, &mut bytes).unwrap();
                    assert_eq!(bytes, model.bytes[range], "{}", place.name);
                }
            }
        }
        assert_eq!(queue.in_flight(), model.in_flight.len());
    }
    while let Some(done) = queue.wait() {
        model.give_back(done, place);
    }
    assert_eq!(content(&*file), model.bytes, "{}", place.name);
}

#[test]
fn io_queue_7_random_operations_beside_plain_ones_do_as_a_model_says() {
    everywhere(|place| {
        for seed in 0..4 {
            random_operations(place, seed, 2500);
        }
    });
}
