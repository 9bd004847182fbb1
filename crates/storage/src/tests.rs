//! The common contract of both disks: the guarantees that hold without a crash.

use std::path::Path;
use std::sync::Arc;

use spillway_base::ErrorKind;

use crate::sim::SimDisk;
use crate::{ALIGN, AlignedBuffer, Disk, File, OpenMode, RealDisk};

/// Runs a test on both disks, in a separate folder.
fn on_both(test: impl Fn(&dyn Disk, &Path)) {
    let real = tempfile::tempdir().unwrap();
    test(&RealDisk, &real.path().join("a/b"));
    test(&SimDisk::new(1), Path::new("/a/b"));
}

fn content(disk: &dyn Disk, path: &Path) -> Vec<u8> {
    let file = disk.open(path, OpenMode::Read).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_at(0, &mut bytes).unwrap();
    bytes
}

fn kind<T>(result: spillway_base::Result<T>) -> ErrorKind {
    result.err().unwrap().kind()
}

#[test]
fn disk_1_files_keep_what_is_written() {
    on_both(|disk, dir| {
        disk.create_dir_all(dir).unwrap();
        let file = disk.open(&dir.join("f"), OpenMode::Create).unwrap();
        assert!(file.is_empty().unwrap());
        file.allocate(0, 8192).unwrap();
        file.write_at(4000, b"hello").unwrap();
        file.write_and_sync(8190, b"world").unwrap();
        file.sync().unwrap();
        assert_eq!(file.len().unwrap(), 8195);
        let mut wanted = vec![0; 8195];
        wanted[4000..4005].copy_from_slice(b"hello");
        wanted[8190..].copy_from_slice(b"world");
        assert_eq!(content(disk, &dir.join("f")), wanted);
        file.set_len(4002).unwrap();
        file.set_len(5000).unwrap();
        wanted.truncate(4002);
        wanted.resize(5000, 0);
        assert_eq!(content(disk, &dir.join("f")), wanted, "what is cut off does not come back");
        file.write_at(0, &[7; 5 * 4096]).unwrap();
        let mut wanted = vec![7; 5 * 4096];
        if file.punch(4096, 2 * 4096).unwrap() {
            wanted[4096..3 * 4096].fill(0);
        }
        assert_eq!(content(disk, &dir.join("f")), wanted, "what is given back is zero");
        file.allocate(4096, 4096).unwrap();
        assert_eq!(content(disk, &dir.join("f")), wanted);
        file.write_and_sync(0, b"").unwrap();
        assert!(disk.available(dir).unwrap() > 0);
    });
}

#[test]
fn reading_past_the_end_and_writing_what_is_open_for_reading_are_errors() {
    on_both(|disk, dir| {
        disk.create_dir_all(dir).unwrap();
        let path = dir.join("f");
        disk.open(&path, OpenMode::Create).unwrap().write_at(0, &[1; 10]).unwrap();
        let file = disk.open(&path, OpenMode::Read).unwrap();
        assert_eq!(kind(file.read_at(8, &mut [0; 3])), ErrorKind::Io);
        assert_eq!(kind(file.read_at(u64::MAX - 1, &mut [0; 3])), ErrorKind::Io);
        assert_eq!(kind(file.write_at(0, &[2])), ErrorKind::Io);
        assert_eq!(kind(file.write_and_sync(0, &[2])), ErrorKind::Io);
        assert_eq!(kind(file.allocate(0, 100)), ErrorKind::Io);
        assert_eq!(kind(file.set_len(1)), ErrorKind::Io);
        assert_eq!(kind(file.punch(0, 4096)), ErrorKind::Io);
        assert_eq!(content(disk, &path), [1; 10]);
    });
}

#[test]
fn names_are_made_renamed_and_removed() {
    on_both(|disk, dir| {
        assert!(!disk.exists(dir).unwrap());
        assert_eq!(disk.list(dir).unwrap(), [""; 0]);
        assert_eq!(kind(disk.open(&dir.join("f"), OpenMode::Create)), ErrorKind::NotFound);
        disk.create_dir_all(dir).unwrap();
        disk.create_dir_all(dir).unwrap();
        assert!(disk.exists(dir).unwrap());
        for name in ["b", "a", "c"] {
            let file = disk.open(&dir.join(name), OpenMode::Create).unwrap();
            file.write_at(0, name.as_bytes()).unwrap();
        }
        disk.rename(&dir.join("a"), &dir.join("b")).unwrap();
        disk.remove(&dir.join("c")).unwrap();
        disk.sync_dir(dir).unwrap();
        assert_eq!(disk.list(dir).unwrap(), ["b"]);
        assert_eq!(content(disk, &dir.join("b")), b"a");
        assert!(disk.exists(&dir.join("b")).unwrap() && !disk.exists(&dir.join("a")).unwrap());
        assert_eq!(kind(disk.remove(&dir.join("c"))), ErrorKind::NotFound);
        assert_eq!(kind(disk.rename(&dir.join("c"), &dir.join("b"))), ErrorKind::NotFound);
        for mode in [OpenMode::Read, OpenMode::Write] {
            assert_eq!(kind(disk.open(&dir.join("c"), mode)), ErrorKind::NotFound);
        }
        disk.open(&dir.join("b"), OpenMode::Create).unwrap();
        assert_eq!(content(disk, &dir.join("b")), b"");
    });
}

#[test]
fn disk_7_an_open_file_outlives_its_name() {
    on_both(|disk, dir| {
        disk.create_dir_all(dir).unwrap();
        let open: Vec<Arc<dyn File>> = ["f", "g"]
            .iter()
            .map(|name| {
                let file = disk.open(&dir.join(name), OpenMode::Create).unwrap();
                file.write_and_sync(0, name.as_bytes()).unwrap();
                file
            })
            .collect();
        disk.remove(&dir.join("f")).unwrap();
        let other = disk.open(&dir.join("h"), OpenMode::Create).unwrap();
        other.write_at(0, b"other").unwrap();
        disk.rename(&dir.join("h"), &dir.join("g")).unwrap();
        disk.sync_dir(dir).unwrap();
        for (file, name) in open.iter().zip(["f", "g"]) {
            let mut byte = [0];
            file.read_at(0, &mut byte).unwrap();
            assert_eq!(byte, name.as_bytes());
            file.write_at(1, b"more").unwrap();
            file.sync().unwrap();
            assert_eq!(file.len().unwrap(), 5);
        }
        assert_eq!(content(disk, &dir.join("g")), b"other");
    });
}

#[test]
fn disk_8_what_is_read_at_once_is_what_the_file_holds() {
    on_both(|disk, dir| {
        disk.create_dir_all(dir).unwrap();
        let file = disk.open(&dir.join("f"), OpenMode::Create).unwrap();
        let written: Vec<u8> = (0..100_000_u32).map(|at| (at / 7) as u8).collect();
        file.write_at(0, &written).unwrap();
        for (offset, len) in [(0, 100_000), (4095, 2), (99_999, 1), (70_000, 29_000)] {
            let mut bytes = vec![0; len];
            if file.read_now(offset, &mut bytes) {
                assert_eq!(bytes, written[offset as usize..offset as usize + len]);
            }
        }
        for offset in [99_999, 100_000, u64::MAX] {
            assert!(!file.read_now(offset, &mut [0; 2]), "there is not that much");
        }
        let mut byte = [0];
        assert!(!file.read_now(5, &mut byte) || byte[0] == written[5]);
    });
}

/// DISK-9, and IO-QUEUE-3 for a blocking read.
#[test]
fn disk_9_what_is_read_past_the_cache_is_what_the_file_holds() {
    on_both(|disk, dir| {
        disk.create_dir_all(dir).unwrap();
        let file = disk.open(&dir.join("f"), OpenMode::Create).unwrap();
        let written: Vec<u8> = (0..100_000_u32).map(|at| (at / 7) as u8).collect();
        file.write_at(0, &written).unwrap();
        let mut buffer = AlignedBuffer::with_capacity(2 * ALIGN + 30_000);
        let memory = buffer.capacity();
        for (offset, len) in [(0, 30_000), (4095, 2), (99_999, 1), (8192, 8192), (70_001, 29_999)] {
            let (read, outcome) = file.clone().read_past(offset, len, buffer);
            outcome.unwrap();
            assert_eq!(read[..], written[offset as usize..offset as usize + len]);
            assert_eq!(read.capacity(), memory, "it keeps its memory");
            buffer = read;
        }
        for offset in [99_999, 100_000, u64::MAX - 1] {
            let (read, outcome) = file.clone().read_past(offset, 2, buffer);
            assert_eq!(kind(outcome), ErrorKind::Io, "there is not that much");
            buffer = read;
        }
    });
}

/// DISK-9, for the simulated disk's failures.
#[test]
fn disk_9_a_read_past_the_cache_fails_as_any() {
    let disk = SimDisk::new(1);
    let file = disk.open(Path::new("/f"), OpenMode::Create).unwrap();
    file.write_at(0, &[3; 5000]).unwrap();
    disk.fail_reads(Path::new("/f"));
    let (buffer, outcome) = file.clone().read_past(0, 10, AlignedBuffer::with_capacity(0));
    assert_eq!(kind(outcome), ErrorKind::Io);
    disk.heal();
    let (buffer, outcome) = file.clone().read_past(0, 10, buffer);
    outcome.unwrap();
    assert_eq!(buffer[..], [3; 10]);
    disk.kill();
    assert_eq!(kind(file.read_past(0, 10, buffer).1), ErrorKind::Io);
}

#[test]
fn a_folder_is_locked_once() {
    on_both(|disk, dir| {
        disk.create_dir_all(dir).unwrap();
        let lock = disk.lock(dir).unwrap();
        let again = disk.lock(dir).err().unwrap();
        assert_eq!(again.kind(), ErrorKind::InUse);
        assert!(again.to_string().contains(&dir.display().to_string()), "{again}");
        drop(lock);
        disk.lock(dir).unwrap();
    });
}
