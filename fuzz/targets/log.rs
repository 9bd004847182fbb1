#![no_main]
//! A log is written, damaged and read: what is read is a prefix of what was written, or an error that says where.

use std::path::Path;
use std::sync::Arc;

use spillway_base::ErrorKind;
use spillway_base::codec::Reader;
use spillway_storage::plog::{FilePlog, Plog, PlogSettings, read_log};
use spillway_storage::sim::SimDisk;
use spillway_storage::{Disk, OpenMode};

const LANE: u32 = 1;

fn read(disk: &SimDisk) -> spillway_base::Result<Vec<Vec<u8>>> {
    let mut frames = Vec::new();
    read_log(disk, Path::new("/log"), LANE, &mut |_, _, payload| {
        frames.push(payload.to_vec());
        Ok(())
    })?;
    Ok(frames)
}

fn open(disk: &SimDisk) -> spillway_base::Result<FilePlog> {
    let dir = Path::new("/log");
    let settings = PlogSettings { dir: dir.into(), lane: LANE, segment_bytes: 8 << 10 };
    let found = read_log(disk, dir, LANE, &mut |_, _, _| Ok(()))?;
    FilePlog::open(Arc::new(disk.clone()), settings, &found, found.generation + 1, 0)
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut reader = Reader::new(bytes);
    let disk = SimDisk::new(1);
    let mut written: Vec<Vec<u8>> = Vec::new();
    for _ in 0..2 {
        let plog = open(&disk).expect("an undamaged log");
        let frames = reader.u8().unwrap_or(1) % 6;
        for _ in 0..frames {
            let mut payload = reader.bytes().unwrap_or(b"frame").to_vec();
            payload.push(written.len() as u8);
            let room = plog.reserve(payload.len() as u64).expect("a disk without end");
            let durable = reader.u8().is_ok_and(|byte| byte & 1 == 1);
            plog.append(&payload, durable, room).expect("a sound disk");
            written.push(payload);
        }
    }
    assert_eq!(read(&disk).expect("an undamaged log"), written);
    while let (Ok(file), Ok(at), Ok(damage)) = (reader.u8(), reader.u16(), reader.bytes()) {
        let files = disk.files();
        let (path, _) = &files[usize::from(file) % files.len()];
        match damage {
            [] => disk.remove(path).expect("a file that is there"),
            [0] => {
                let file = disk.open(path, OpenMode::Write).expect("a file that is there");
                file.set_len(at.into()).expect("a sound disk");
            }
            damage => {
                let file = disk.open(path, OpenMode::Write).expect("a file that is there");
                file.write_at(at.into(), damage).expect("a sound disk");
            }
        }
        if disk.files().is_empty() {
            return;
        }
    }
    match read(&disk) {
        // Segments may be gone from the front, as after a truncation.
        Ok(frames) => assert!(
            written.windows(frames.len().max(1)).any(|run| run == frames) || frames.is_empty(),
            "{frames:?} of {written:?}"
        ),
        Err(error) => assert_eq!(error.kind(), ErrorKind::Corruption, "{error}"),
    }
    let _ = open(&disk);
});
