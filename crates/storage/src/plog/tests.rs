use std::path::{Path, PathBuf};
use std::sync::Arc;

use spillway_base::rng::Rng;

use super::segment::{HEADER_BYTES, file_name};
use super::*;
use crate::sim::{Fault, SimDisk};
use crate::{Disk, File, OpenMode, RealDisk};
use spillway_base::{Error, ErrorKind};

const SEGMENT: u64 = 16 << 10;

fn settings(dir: &Path) -> PlogSettings {
    PlogSettings { dir: dir.to_owned(), lane: 3, segment_bytes: SEGMENT }
}

fn read(disk: &dyn Disk, dir: &Path) -> Result<(Vec<Vec<u8>>, Recovered)> {
    let mut frames = Vec::new();
    let found = read_log(disk, dir, 3, &mut |_, _, payload| {
        frames.push(payload.to_vec());
        Ok(())
    })?;
    Ok((frames, found))
}

fn open(disk: &SimDisk, fence: u64) -> Result<FilePlog> {
    let dir = Path::new("/log");
    let (_, found) = read(disk, dir)?;
    FilePlog::open(Arc::new(disk.clone()), settings(dir), &found, fence)
}

fn payload(number: u64, bytes: usize) -> Vec<u8> {
    let mut payload = number.to_le_bytes().to_vec();
    payload.resize(bytes.max(8), number as u8);
    payload
}

#[test]
fn l1_frames_come_back_over_segments_and_openings() {
    let disk = SimDisk::new(1);
    let mut wanted = Vec::new();
    for generation in 1..=3 {
        let plog = open(&disk, generation * 10).unwrap();
        assert_eq!(plog.generation(), generation);
        for number in 0..40 {
            // The last is larger than a segment.
            let frame = payload(number, if number == 39 { 50_000 } else { 900 });
            plog.append(&frame, number % 3 == 0).unwrap();
            wanted.push(frame);
        }
        plog.sync().unwrap();
    }
    let (frames, found) = read(&disk, Path::new("/log")).unwrap();
    assert_eq!(frames, wanted);
    assert_eq!(found.generation, 3);
    assert!(found.segments.iter().all(|segment| segment.fence == segment.generation * 10));
}

#[test]
fn the_real_file_system_keeps_a_log_too() {
    let dir = tempfile::tempdir().unwrap();
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let found = read(&*disk, dir.path()).unwrap().1;
    let plog = FilePlog::open(disk.clone(), settings(dir.path()), &found, 0).unwrap();
    plog.prepare().unwrap();
    let wanted: Vec<_> = (0..100).map(|number| payload(number, 700)).collect();
    for frame in &wanted {
        plog.append(frame, true).unwrap();
    }
    assert_eq!(read(&*disk, dir.path()).unwrap().0, wanted);
}

/// Appends until the disk stops it. Answers the number of frames that were durable, and of all.
fn drive(disk: &SimDisk, from: u64, seed: u64) -> (u64, u64) {
    let mut rng = Rng::new(seed);
    let (mut durable, mut written) = (from, from);
    let Ok(plog) = open(disk, from) else { return (durable, written) };
    for number in from..from + 30 {
        let sync = rng.chance(1, 3);
        if rng.chance(1, 8) {
            let _ = plog.prepare();
        }
        written = number + 1;
        match plog.append(&payload(number, 8 + rng.below(2500) as usize), sync) {
            Ok(_) if sync => durable = number + 1,
            Ok(_) => {}
            Err(_) => break,
        }
    }
    (durable, written)
}

fn numbers(frames: &[Vec<u8>]) -> Vec<u64> {
    frames.iter().map(|frame| u64::from_le_bytes(frame[..8].try_into().unwrap())).collect()
}

/// L2, L3, L5: the log is crashed at every operation of a history, and again at every few of the
/// opening and appends after it; each time a prefix comes back that holds all that was durable.
#[test]
fn l2_l3_l5_every_crash_leaves_a_prefix_that_holds_what_was_durable() {
    let whole = SimDisk::new(0);
    drive(&whole, 0, 5);
    for crash_at in 1..=whole.operations() {
        let disk = SimDisk::new(crash_at);
        disk.fail_operation(crash_at, Fault::Crash);
        let (durable, written) = drive(&disk, 0, 5);
        disk.crash();
        disk.restart();
        let first = numbers(&read(&disk, Path::new("/log")).unwrap().0);
        assert_eq!(first, (0..first.len() as u64).collect::<Vec<_>>(), "crash at {crash_at}");
        assert!((durable..=written).contains(&(first.len() as u64)), "crash at {crash_at}");

        for second in [1, 3, 5, 6, 9, 20] {
            let disk = disk.fork();
            let from = first.len() as u64;
            disk.fail_operation(disk.operations() + second, Fault::Crash);
            let (durable, written) = drive(&disk, from, crash_at);
            disk.crash();
            disk.restart();
            let again = numbers(&read(&disk, Path::new("/log")).unwrap().0);
            assert_eq!(again, (0..again.len() as u64).collect::<Vec<_>>());
            assert!((durable..=written).contains(&(again.len() as u64)));
        }
    }
}

/// A log of three durable frames in each of two segments, and where each frame begins.
fn sample() -> (SimDisk, Vec<Position>) {
    let disk = SimDisk::new(1);
    let plog = open(&disk, 0).unwrap();
    let places = (0..6).map(|number| plog.append(&payload(number, 4000), true).unwrap()).collect();
    (disk, places)
}

fn segment_path(sequence: u64) -> PathBuf {
    Path::new("/log").join(file_name(3, sequence))
}

#[test]
fn l4_damage_before_the_durable_end_is_reported_where_it_is() {
    let (whole, places) = sample();
    assert_eq!(places.iter().filter(|place| place.segment == 1).count(), 3);
    // The last frame has no witness; every byte of every other has one.
    for place in &places[..5] {
        for byte in (0..4024).step_by(13).chain(0..20) {
            let disk = whole.fork();
            disk.rot(&segment_path(place.segment), place.offset + byte, 0x10);
            match read(&disk, Path::new("/log")) {
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Corruption);
                    let wanted =
                        format!("{}: offset {}", file_name(3, place.segment), place.offset);
                    assert!(error.to_string().contains(&wanted), "{error}");
                }
                // Padding is not part of the frame.
                Ok((frames, _)) => assert!(frames.len() == 6 && byte >= 4020),
            }
        }
    }
    for byte in 0..44 {
        let disk = whole.fork();
        disk.rot(&segment_path(1), byte, 1);
        assert!(read(&disk, Path::new("/log")).is_err());
    }
}

#[test]
fn l4_the_last_frame_has_no_witness() {
    let (disk, places) = sample();
    disk.rot(&segment_path(places[5].segment), places[5].offset + 100, 1);
    assert_eq!(read(&disk, Path::new("/log")).unwrap().0.len(), 5);
}

#[test]
fn any_bytes_are_a_log_or_an_error() {
    let mut rng = Rng::new(9);
    let (whole, _) = sample();
    for round in 0..300 {
        let disk = whole.fork();
        let file = disk.open(&segment_path(1 + round % 2), OpenMode::Write).unwrap();
        let mut noise = vec![0; 1 + rng.below(6000) as usize];
        rng.fill(&mut noise);
        file.write_at(rng.below(SEGMENT), &noise).unwrap();
        file.set_len(rng.below(SEGMENT)).unwrap();
        if let Ok((frames, _)) = read(&disk, Path::new("/log")) {
            let numbers = numbers(&frames);
            assert!(numbers.iter().is_sorted(), "{numbers:?}");
        }
    }
}

#[test]
fn l6_a_full_disk_refuses_room_and_harms_nothing() {
    let disk = SimDisk::new(1);
    let plog = open(&disk, 0).unwrap();
    disk.set_capacity(Some(disk.used() + SEGMENT));
    plog.reserve(5500).unwrap();
    let refused = plog.reserve(60_000).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::DiskFull);
    for number in 0..4 {
        plog.append(&payload(number, 3000), true).unwrap();
    }
    assert_eq!(plog.health().err().map(|error| error.kind()), None);
    disk.set_capacity(None);
    plog.reserve(60_000).unwrap();
    plog.append(&payload(4, 60_000), true).unwrap();
    assert_eq!(read(&disk, Path::new("/log")).unwrap().0.len(), 5);
}

#[test]
fn l7_a_failed_write_or_sync_stops_the_log_for_good() {
    for fault in [Fault::Io, Fault::ShortWrite] {
        for later in 1..=2 {
            let disk = SimDisk::new(1);
            let plog = open(&disk, 0).unwrap();
            plog.append(&payload(0, 100), true).unwrap();
            disk.fail_operation(disk.operations() + later, fault);
            let stopped = plog.append(&payload(1, 100), true);
            if fault == Fault::ShortWrite && later == 2 {
                // A sync has no bytes to cut short.
                stopped.unwrap();
                continue;
            }
            assert_eq!(stopped.unwrap_err().kind(), ErrorKind::WritesStopped);
            disk.heal();
            for again in [plog.append(&payload(2, 10), false).map(drop), plog.sync(), plog.health()]
            {
                let again = again.unwrap_err();
                assert_eq!(again.kind(), ErrorKind::WritesStopped);
                assert!(again.to_string().contains("injected"), "{again}");
            }
            disk.crash();
            disk.restart();
            let frames = read(&disk, Path::new("/log")).unwrap().0;
            assert!(matches!(frames.len(), 1 | 2));
        }
    }
}

#[test]
fn truncation_gives_segments_back_and_keeps_the_rest() {
    let disk = SimDisk::new(1);
    let plog = open(&disk, 0).unwrap();
    let places: Vec<_> =
        (0..12).map(|number| plog.append(&payload(number, 5000), true).unwrap()).collect();
    let before = (plog.bytes(), disk.used());
    let keep = places[8].segment;
    plog.truncate_before(keep).unwrap();
    assert!(plog.bytes() < before.0 && disk.used() < before.1);
    let wanted: Vec<u64> =
        (0..12).filter(|number| places[*number as usize].segment >= keep).collect();
    assert_eq!(numbers(&read(&disk, Path::new("/log")).unwrap().0), wanted);
    plog.truncate_before(u64::MAX).unwrap();
    plog.append(&payload(12, 10), true).unwrap();
    assert_eq!(numbers(&read(&disk, Path::new("/log")).unwrap().0).last(), Some(&12));
}

#[test]
fn a_newer_format_is_told_apart_from_damage() {
    let disk = SimDisk::new(1);
    open(&disk, 0).unwrap();
    let path = segment_path(1);
    let file: Arc<dyn File> = disk.open(&path, OpenMode::Write).unwrap();
    let mut header = vec![0; HEADER_BYTES as usize];
    file.read_at(0, &mut header).unwrap();
    header[8] = 9;
    let crc = spillway_base::checksum::crc32c(&header[..40]);
    header[40..44].copy_from_slice(&crc.to_le_bytes());
    file.write_at(0, &header).unwrap();
    let error: Error = read(&disk, Path::new("/log")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnsupportedFormat);
}
