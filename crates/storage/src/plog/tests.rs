use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use spillway_base::rng::Rng;

use super::segment::{FRAME_HEAD_BYTES, FrameHead, HEADER_BYTES, Header, file_name, frame_bytes};
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

fn put(plog: &FilePlog, payload: &[u8], durable: bool) -> Result<Position> {
    plog.append(payload, durable, plog.reserve(payload.len() as u64)?)
}

fn open(disk: &SimDisk, fence: u64) -> Result<FilePlog> {
    let dir = Path::new("/log");
    let (_, found) = read(disk, dir)?;
    let (disk, generation) = (Arc::new(disk.clone()), found.generation + 1);
    FilePlog::settle(disk.clone(), settings(dir), &found)?;
    FilePlog::open(disk, settings(dir), &found, generation, fence)
}

fn payload(number: u64, bytes: usize) -> Vec<u8> {
    let mut payload = number.to_le_bytes().to_vec();
    payload.resize(bytes.max(8), number as u8);
    payload
}

#[test]
fn plog_1_frames_come_back_over_segments_and_openings() {
    let disk = SimDisk::new(1);
    let mut wanted = Vec::new();
    for generation in 1..=3 {
        let plog = open(&disk, generation * 10).unwrap();
        assert_eq!(plog.generation(), generation);
        for number in 0..40 {
            // The last is larger than a segment.
            let frame = payload(number, if number == 39 { 50_000 } else { 900 });
            put(&plog, &frame, number % 3 == 0).unwrap();
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
    let plog = FilePlog::open(disk.clone(), settings(dir.path()), &found, 1, 0).unwrap();
    plog.prepare().unwrap();
    let wanted: Vec<_> = (0..100).map(|number| payload(number, 700)).collect();
    for frame in &wanted {
        put(&plog, frame, true).unwrap();
    }
    assert_eq!(read(&*disk, dir.path()).unwrap().0, wanted);
}

/// A log that is not cut, or the segments that are kept when it is.
type Cuts = Option<fn(u64) -> bool>;

/// Appends until the disk stops it. Returns the number of durable frames, and of all.
fn drive(disk: &SimDisk, from: u64, seed: u64, cuts: Cuts) -> (u64, u64) {
    let mut rng = Rng::new(seed);
    let (mut durable, mut written) = (from, from);
    let Ok(plog) = open(disk, from) else { return (durable, written) };
    for number in from..from + 30 {
        let sync = rng.chance(1, 3);
        if rng.chance(1, 8) {
            let _ = plog.prepare();
        }
        written = number + 1;
        match put(&plog, &payload(number, 8 + rng.below(2500) as usize), sync) {
            Ok(place) if sync => {
                durable = number + 1;
                if let (Some(keeps), true) = (cuts, rng.chance(1, 4)) {
                    let kept: Vec<u64> = (1..place.segment).filter(|of| keeps(*of)).collect();
                    let _ = plog.truncate_before(place.segment, &kept);
                }
            }
            Ok(_) => {}
            Err(_) => break,
        }
    }
    (durable, written)
}

fn numbers(frames: &[Vec<u8>]) -> Vec<u64> {
    frames.iter().map(|frame| u64::from_le_bytes(frame[..8].try_into().unwrap())).collect()
}

/// Reads a log and checks that its frames have no gap, and that its kept segments are whole
/// (PLOG-8). Returns the number of the first and the one after the last.
fn run(disk: &SimDisk) -> (u64, u64) {
    let files = KeptFiles::new(Arc::new(disk.clone()), Path::new("/log"));
    let first = LogReader::open(disk, Path::new("/log"), 3).unwrap().first_segment();
    for kept in files.list().unwrap() {
        assert!(first.is_none_or(|first| kept.segment < first), "{kept:?} and {first:?}");
        let mut head = vec![0; HEADER_BYTES as usize];
        files.open(3, kept.segment).unwrap().read_at(0, &mut head).unwrap();
        assert_eq!(Header::decode(&head).unwrap().sequence, kept.segment);
    }
    let found = numbers(&read(disk, Path::new("/log")).unwrap().0);
    let from = found.first().copied().unwrap_or(0);
    assert_eq!(found, (from..from + found.len() as u64).collect::<Vec<_>>());
    (from, from + found.len() as u64)
}

/// PLOG-2, PLOG-3, PLOG-5: the log crashes at every operation of a history, and again at every few
/// of the opening and the appends after it; each time a prefix comes back that includes everything
/// durable. With truncation, files are reused, and their old contents never come back, or kept, and
/// leave the log in order (PLOG-8).
#[test]
fn plog_2_3_5_8_every_crash_leaves_a_prefix_that_holds_what_was_durable() {
    let cuts: [Cuts; 4] = [None, Some(|_| false), Some(|of| of % 2 == 0), Some(|_| true)];
    for cuts in cuts {
        let whole = SimDisk::new(0);
        drive(&whole, 0, 5, cuts);
        for crash_at in 1..=whole.operations() {
            let disk = SimDisk::new(crash_at);
            disk.fail_operation(crash_at, Fault::Crash);
            let (durable, written) = drive(&disk, 0, 5, cuts);
            disk.crash();
            disk.restart();
            let (from, end) = run(&disk);
            assert!(cuts.is_some() || from == 0, "crash at {crash_at}");
            assert!((durable..=written).contains(&end), "crash at {crash_at}");

            for second in [1, 3, 5, 6, 9, 20, 40] {
                let disk = disk.fork();
                disk.fail_operation(disk.operations() + second, Fault::Crash);
                let (durable, written) = drive(&disk, end, crash_at, cuts);
                disk.crash();
                disk.restart();
                let (_, again) = run(&disk);
                assert!((durable..=written).contains(&again), "{crash_at}, then {second}");
            }
        }
    }
}

/// PLOG-3: frames that an opening has read are durable when it ends, even if its writer was killed,
/// or the sync of its last frames failed and only the cache has them.
#[test]
fn plog_3_what_an_opening_read_is_there_after_a_crash() {
    let mut after_failures = BTreeSet::new();
    for seed in 0..60 {
        for fail in [false, true] {
            let disk = SimDisk::new(seed);
            let plog = open(&disk, 0).unwrap();
            put(&plog, &payload(0, 100), true).unwrap();
            for number in 1..5 {
                put(&plog, &payload(number, 700), false).unwrap();
            }
            if fail {
                disk.fail_syncs();
                put(&plog, &payload(5, 700), true).unwrap_err();
                disk.heal();
            }
            disk.kill();
            let read = run(&disk);
            if fail {
                after_failures.insert(read);
            } else {
                assert_eq!(read, (0, 5));
            }
            drop(open(&disk, 0).unwrap());
            disk.crash();
            disk.restart();
            assert_eq!(run(&disk), read, "seed {seed}");
        }
    }
    // A prefix that has the first, which was durable before.
    assert!(after_failures.iter().all(|(from, end)| *from == 0 && (1..=6).contains(end)));
    assert!(after_failures.contains(&(0, 6)) && after_failures.len() > 2, "{after_failures:?}");
}

/// A log of three durable frames in each of two segments, and where each frame begins.
fn sample() -> (SimDisk, Vec<Position>) {
    let disk = SimDisk::new(1);
    let plog = open(&disk, 0).unwrap();
    let places = (0..6).map(|number| put(&plog, &payload(number, 4000), true).unwrap()).collect();
    (disk, places)
}

fn segment_path(sequence: u64) -> PathBuf {
    Path::new("/log").join(file_name(3, sequence))
}

#[test]
fn plog_4_damage_before_the_durable_end_is_reported_where_it_is() {
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
    for segment in [1, 2] {
        for byte in 0..60 {
            let disk = whole.fork();
            disk.rot(&segment_path(segment), byte, 1);
            let error = read(&disk, Path::new("/log")).unwrap_err();
            let wanted = format!("{}: offset 0", file_name(3, segment));
            assert!(error.to_string().contains(&wanted), "{error}");
        }
    }
}

#[test]
fn plog_4_a_segment_missing_between_others_is_reported() {
    let disk = SimDisk::new(1);
    let plog = open(&disk, 0).unwrap();
    for number in 0..9 {
        put(&plog, &payload(number, 5000), true).unwrap();
    }
    disk.remove(&segment_path(2)).unwrap();
    let error = read(&disk, Path::new("/log")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(error.to_string().contains(&file_name(3, 2)), "{error}");
}

/// The last frames of a log have no witness until the next opening has recorded their end.
#[test]
fn plog_4_what_an_opening_found_is_missed() {
    let (disk, places) = sample();
    let last = places[5];
    let whole = disk.fork();
    drop(open(&whole, 0).unwrap());
    for (offset, wanted) in [(last.offset + 100, last.offset), (last.offset + 2, last.offset)] {
        let disk = whole.fork();
        disk.rot(&segment_path(last.segment), offset, 1);
        let error = read(&disk, Path::new("/log")).unwrap_err();
        let wanted = format!("{}: offset {wanted}", file_name(3, last.segment));
        assert!(error.to_string().contains(&wanted), "{error}");
        assert!(open(&disk, 0).is_err());
    }
    let disk = whole.fork();
    disk.remove(&segment_path(last.segment)).unwrap();
    let error = read(&disk, Path::new("/log")).unwrap_err();
    assert!(error.to_string().contains(&file_name(3, last.segment)), "{error}");
    // Bytes after the recorded end are never read, regardless of their contents.
    assert_eq!(read(&whole, Path::new("/log")).unwrap().0.len(), 6);
}

#[test]
fn plog_4_the_last_frame_has_no_witness() {
    let (disk, places) = sample();
    disk.rot(&segment_path(places[5].segment), places[5].offset + 100, 1);
    assert_eq!(run(&disk), (0, 5));
}

/// A payload may have the bytes of frames that would belong to its segment, wherever these would
/// be, as far as a client knows them. Torn, it is no witness against itself.
#[test]
fn plog_4_a_payload_that_looks_like_frames_is_none() {
    let disk = SimDisk::new(3);
    let plog = open(&disk, 0).unwrap();
    let whole = put(&plog, &payload(0, 100), true).unwrap();
    let (end, secret) = (Position::default(), 0);
    let header = Header { lane: 3, sequence: 1, generation: 1, fence: 0, end, secret };
    let at = whole.offset + frame_bytes(100);
    let mut forged = payload(1, 8);
    while forged.len() < 4000 {
        let offset = at + (FRAME_HEAD_BYTES + forged.len()) as u64;
        let head = FrameHead { length: 8, crc: 0, durable: u64::MAX };
        forged.extend_from_slice(&head.encode(&header, offset));
    }
    let torn = put(&plog, &forged, true).unwrap();
    assert_eq!((torn.segment, torn.offset), (1, at));
    assert_eq!(run(&disk), (0, 2));
    disk.rot(&segment_path(1), torn.offset + FRAME_HEAD_BYTES as u64 + 4, 1);
    assert_eq!(run(&disk), (0, 1));
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
fn plog_6_a_full_disk_refuses_room_and_harms_nothing() {
    let disk = SimDisk::new(1);
    let plog = open(&disk, 0).unwrap();
    disk.set_capacity(Some(disk.used() + SEGMENT));
    let room = plog.reserve(5500).unwrap();
    let refused = plog.reserve(60_000).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::DiskFull);
    plog.release(room);
    for number in 0..6 {
        put(&plog, &payload(number, 3000), true).unwrap();
    }
    assert_eq!(plog.health().err().map(|error| error.kind()), None);
    disk.set_capacity(None);
    put(&plog, &payload(6, 60_000), true).unwrap();
    assert_eq!(run(&disk), (0, 7));
}

/// Segments leave the space that the caller asks for. They are then as small as
/// [`Plog::segment_for`] says.
#[test]
fn plog_6_segments_are_small_if_more_space_must_stay_free() {
    for left in [0, 4 * SEGMENT] {
        let disk = SimDisk::new(1);
        let plog = open(&disk, 0).unwrap();
        let before = disk.used();
        disk.set_capacity(Some(before + 4 * SEGMENT + SEGMENT / 2));
        plog.leave_free(left);
        let (mut frames, mut least) = (0, 0);
        while disk.used() == before {
            least = plog.segment_for(500);
            put(&plog, &payload(frames, 500), true).unwrap();
            frames += 1;
        }
        let made = disk.used() - before;
        assert!(least > 0 && if left == 0 { least < made } else { least == made }, "{least}");
        assert!(if left == 0 { made == SEGMENT } else { made <= SEGMENT / 2 }, "{left}: {made}");
        assert_eq!(run(&disk), (0, frames));
    }
}

#[test]
fn plog_6_many_large_rooms_take_no_more_than_their_share() {
    let disk = SimDisk::new(1);
    let plog = open(&disk, 0).unwrap();
    let rooms: Vec<_> = (0..64).map(|_| plog.reserve(SEGMENT / 2).unwrap()).collect();
    let claimed: u64 = rooms.iter().map(Room::size).sum();
    assert!(disk.used() < 5 * claimed, "{} bytes for rooms of {claimed}", disk.used());
    // If there is less space than requested at once, the necessary space suffices.
    disk.set_capacity(Some(disk.used() + 3 * claimed));
    let more = plog.reserve(2 * claimed).unwrap_err();
    assert_eq!(more.kind(), ErrorKind::DiskFull);
    disk.set_capacity(Some(disk.used() + 3 * claimed + SEGMENT));
    plog.release(plog.reserve(2 * claimed - SEGMENT).unwrap());
    rooms.into_iter().for_each(|room| plog.release(room));
}

#[test]
fn plog_6_a_log_is_opened_on_a_full_disk() {
    let disk = SimDisk::new(1);
    let plog = open(&disk, 0).unwrap();
    for number in 0..4 {
        put(&plog, &payload(number, 7000), true).unwrap();
    }
    disk.set_capacity(Some(disk.used()));
    for generation in 2..5 {
        disk.kill();
        let plog = open(&disk, generation).unwrap();
        assert_eq!(plog.reserve(100).unwrap_err().kind(), ErrorKind::DiskFull);
        plog.sync().unwrap();
        assert_eq!(run(&disk), (0, 4));
    }
    disk.kill();
    let plog = open(&disk, 5).unwrap();
    disk.set_capacity(None);
    put(&plog, &payload(4, 100), true).unwrap();
    assert_eq!(run(&disk), (0, 5));
    disk.crash();
    disk.restart();
    assert_eq!(run(&disk), (0, 5));
}

/// PLOG-6: all room reserved until the disk was full can be used, in any order and joined in any
/// way.
#[test]
fn plog_6_rooms_do_not_share_a_byte() {
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let disk = SimDisk::new(seed);
        let plog = open(&disk, 0).unwrap();
        put(&plog, &payload(0, 8 + rng.below(9000) as usize), true).unwrap();
        disk.set_capacity(Some(disk.used() + rng.below(3) * SEGMENT));
        let mut rooms = Vec::new();
        let refused = loop {
            let bytes = 8 + rng.below(3000);
            match plog.reserve(bytes) {
                Ok(room) => rooms.push((bytes as usize, room)),
                Err(error) => break error,
            }
            assert!(rooms.len() < 1000, "more room than the disk has");
        };
        assert_eq!(refused.kind(), ErrorKind::DiskFull);
        let mut number = 1;
        while !rooms.is_empty() {
            let (mut bytes, mut room) = rooms.swap_remove(rng.below(rooms.len() as u64) as usize);
            for _ in 0..rng.below(4).min(rooms.len() as u64) {
                let (more, other) = rooms.pop().unwrap();
                bytes += more;
                room.join(other);
            }
            plog.append(&payload(number, bytes), rng.chance(1, 2), room).unwrap();
            number += 1;
        }
        disk.set_capacity(None);
        put(&plog, &payload(number, 20_000), true).unwrap();
        assert_eq!(run(&disk), (0, number + 1));
    }
}

/// PLOG-6: many threads on a disk that fills up and empties again. A thread that has room is never
/// refused later, and all continue once there is space.
#[test]
fn plog_6_concurrent_users_are_refused_or_served() {
    let disk = SimDisk::new(1);
    let plog = Arc::new(open(&disk, 0).unwrap());
    let writer = Arc::new(parking_lot::Mutex::new(0));
    let refusals = Arc::new(AtomicU64::new(0));
    disk.set_capacity(Some(disk.used() + 3 * SEGMENT));
    let users: Vec<_> = (0..8)
        .map(|seed| {
            let (plog, writer) = (plog.clone(), writer.clone());
            let (refusals, disk) = (refusals.clone(), disk.clone());
            spillway_base::thread::spawn("user", move || {
                let mut rng = Rng::new(seed);
                let mut served = 0;
                while served < 200 {
                    let bytes = 8 + rng.below(4000);
                    let room = match plog.reserve(bytes) {
                        Ok(room) => room,
                        Err(error) => {
                            assert_eq!(error.kind(), ErrorKind::DiskFull);
                            // Space returns once all threads have met the full disk for a while.
                            if refusals.fetch_add(1, Ordering::SeqCst) == 500 {
                                disk.set_capacity(None);
                            }
                            continue;
                        }
                    };
                    if rng.chance(1, 10) {
                        plog.release(room);
                        continue;
                    }
                    let mut number = writer.lock();
                    plog.append(&payload(*number, bytes as usize), true, room).unwrap();
                    *number += 1;
                    served += 1;
                }
            })
            .unwrap()
        })
        .collect();
    for user in users {
        user.join().unwrap();
    }
    plog.health().unwrap();
    assert!(refusals.load(Ordering::SeqCst) > 500);
    assert_eq!(run(&disk), (0, 1600));
}

#[test]
fn plog_7_a_full_disk_met_by_a_frame_is_a_failure_as_any() {
    for operation in 1..=2 {
        let disk = SimDisk::new(1);
        let plog = open(&disk, 0).unwrap();
        put(&plog, &payload(0, 100), true).unwrap();
        disk.fail_operation(disk.operations() + operation, Fault::Full);
        assert_eq!(
            put(&plog, &payload(1, 100), true).unwrap_err().kind(),
            ErrorKind::WritesStopped
        );
        assert_eq!(
            put(&plog, &payload(2, 100), true).unwrap_err().kind(),
            ErrorKind::WritesStopped
        );
        disk.crash();
        disk.restart();
        assert!(run(&disk).1 <= 2);
    }
}

#[test]
fn plog_7_a_failed_write_or_sync_stops_the_log_for_good() {
    for fault in [Fault::Io, Fault::ShortWrite] {
        for later in 1..=2 {
            let disk = SimDisk::new(1);
            let plog = open(&disk, 0).unwrap();
            put(&plog, &payload(0, 100), true).unwrap();
            disk.fail_operation(disk.operations() + later, fault);
            let stopped = put(&plog, &payload(1, 100), true);
            if fault == Fault::ShortWrite && later == 2 {
                // A sync has no bytes to cut short.
                stopped.unwrap();
                continue;
            }
            assert_eq!(stopped.unwrap_err().kind(), ErrorKind::WritesStopped);
            disk.heal();
            for again in [put(&plog, &payload(2, 10), false).map(drop), plog.sync(), plog.health()]
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
fn truncation_keeps_the_rest_and_uses_files_again() {
    let disk = SimDisk::new(1);
    let plog = open(&disk, 0).unwrap();
    let places: Vec<_> =
        (0..12).map(|number| put(&plog, &payload(number, 5000), true).unwrap()).collect();
    let before = (plog.bytes(), disk.used());
    let keep = places[8].segment;
    plog.truncate_before(keep, &[]).unwrap();
    assert!(plog.bytes() < before.0 && disk.used() < before.1);
    let found = numbers(&read(&disk, Path::new("/log")).unwrap().0);
    assert!(found.contains(&8) && found.ends_with(&[8, 9, 10, 11]), "{found:?}");
    // From here on the log reuses its files.
    let steady = disk.used();
    disk.set_capacity(Some(steady));
    for number in 12..200 {
        let place = put(&plog, &payload(number, 5000), true).unwrap();
        plog.truncate_before(place.segment, &[]).unwrap();
        let found = run(&disk);
        assert!(found.0 <= number && found.1 == number + 1, "{found:?}");
    }
    assert!(disk.used() <= steady);
    plog.truncate_before(u64::MAX, &[]).unwrap();
    put(&plog, &payload(200, 10), true).unwrap();
    assert_eq!(run(&disk).1, 201);
    // So does an opening.
    disk.kill();
    put(&open(&disk, 0).unwrap(), &payload(201, 10), true).unwrap();
    assert_eq!(run(&disk).1, 202);
}

/// A retired log is cut without a gap, even if a frame skipped a segment into which it did not fit.
#[test]
fn a_retired_log_that_is_cut_is_whole() {
    for cuts in [[0, 1], [1, 3], [2, 4], [4, 4]] {
        let disk = SimDisk::new(5);
        let plog = open(&disk, 1).unwrap();
        // The first, and one between, leave a segment without a frame behind.
        let sizes = [50_000, 60_000, 900, 15_000, 120_000];
        let places: Vec<Position> =
            sizes.iter().map(|bytes| put(&plog, &payload(7, *bytes), true).unwrap()).collect();
        drop(plog);
        let dir = Path::new("/log");
        let found = read(&disk, dir).unwrap().1;
        assert!(found.segments.iter().any(|segment| segment.frames == 0));
        let retired = FilePlog::retire(Arc::new(disk.clone()), settings(dir), &found).unwrap();
        for cut in cuts {
            retired.truncate_before(places[cut].segment, &[]).unwrap();
            let (frames, found) = read(&disk, dir).unwrap();
            assert!(frames.len() >= sizes.len() - cut, "{cuts:?}");
            assert!(found.segments.iter().all(|left| left.sequence >= places[cut].segment));
        }
    }
}

#[test]
fn a_truncation_that_failed_is_made_up_for() {
    for (operation, kept) in (1..8).flat_map(|at| [(at, &[][..]), (at, &[2]), (at, &[1, 3])]) {
        let disk = SimDisk::new(1);
        let plog = open(&disk, 0).unwrap();
        for number in 0..15 {
            put(&plog, &payload(number, 5000), true).unwrap();
        }
        let used = disk.used();
        disk.fail_operation(disk.operations() + operation, Fault::Io);
        // The next segment is not made from one that must be removed or kept.
        let failed = [plog.truncate_before(4, kept), plog.prepare()];
        plog.truncate_before(4, &[]).unwrap();
        plog.prepare().unwrap();
        assert!(failed.iter().any(Result::is_err) || operation > 4, "{operation}");
        assert!(disk.used() <= used || !kept.is_empty());
        put(&plog, &payload(15, 5000), true).unwrap();
        assert_eq!(run(&disk).1, 16);
        let files = KeptFiles::new(Arc::new(disk.clone()), Path::new("/log"));
        let found = files.list().unwrap().into_iter().map(|kept| kept.segment);
        assert!(found.eq(kept.iter().copied()), "{operation}, {kept:?}");
    }
}

/// PLOG-8, LOG-READ-9: frames are read at their positions concurrently with the writer, past the
/// cache or not, and in the same way once their segment is kept. Also on a real disk.
#[test]
fn plog_8_durable_frames_are_read_beside_the_writer_and_after_a_cut() {
    let dir = tempfile::tempdir().unwrap();
    let sim: Arc<dyn Disk> = Arc::new(SimDisk::new(1));
    let real: Arc<dyn Disk> = Arc::new(RealDisk);
    for (disk, dir) in [(sim, Path::new("/log")), (real, dir.path())] {
        let plog = FilePlog::open(disk.clone(), settings(dir), &Recovered::default(), 1, 0);
        let (plog, files) = (plog.unwrap(), KeptFiles::new(disk, dir));
        let (mut places, mut opened) = (Vec::new(), Vec::new());
        for number in 0..40 {
            let frame = payload(number, 1000 + number as usize * 13);
            let place = put(&plog, &frame, true).unwrap();
            opened.push(files.open(3, place.segment).unwrap());
            places.push((place, frame));
            if number == 30 {
                let kept: Vec<u64> = (1..place.segment).collect();
                plog.truncate_before(place.segment, &kept).unwrap();
                assert_eq!(files.list().unwrap().len(), kept.len());
            }
            for ((place, frame), before) in places.iter().zip(&opened) {
                let now = files.open(3, place.segment).unwrap();
                for file in [before, &now] {
                    let (at, mut bytes) = (place.offset + PAYLOAD_OFFSET as u64, frame.clone());
                    bytes.fill(0);
                    file.read_at(at, &mut bytes).unwrap();
                    assert_eq!(bytes, *frame);
                    let buffer = crate::AlignedBuffer::new(frame.len() + 2 * crate::ALIGN);
                    let (buffer, outcome) = file.clone().read_past(at, frame.len(), buffer);
                    outcome.unwrap();
                    assert_eq!(buffer[..], frame[..]);
                }
            }
        }
        assert!(files.remove(3, 1).unwrap());
        assert_eq!(files.open(3, 1).err().unwrap().kind(), ErrorKind::NotFound);
    }
}

/// A log that continues while segments are kept begins above their numbers, regardless of what is
/// left of it. A segment that is not above all kept ones is an error.
#[test]
fn plog_8_new_segments_are_above_kept_ones() {
    let disk = SimDisk::new(1);
    let plog = open(&disk, 0).unwrap();
    for number in 0..9 {
        put(&plog, &payload(number, 9000), true).unwrap();
    }
    drop(plog);
    let dir = Path::new("/log");
    let found = read(&disk, dir).unwrap().1;
    let retired = FilePlog::retire(Arc::new(disk.clone()), settings(dir), &found).unwrap();
    retired.truncate_before(u64::MAX, &(1..=9).collect::<Vec<_>>()).unwrap();
    assert_eq!(lanes_in(&disk, dir).unwrap(), [0_u32; 0], "nothing is left of it");
    let place = put(&open(&disk, 0).unwrap(), &payload(9, 9000), true).unwrap();
    assert_eq!(place.segment, 10);
    assert_eq!(run(&disk), (9, 10));
    let name = |number: u64, suffix: &str| dir.join(format!("03-{number:016x}.{suffix}"));
    disk.rename(&name(9, "kept"), &name(10, "kept")).unwrap();
    let refused = open(&disk, 0).err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::Corruption, "{refused}");
}

/// A hang fails the test instead of blocking it.
const HANG: Duration = Duration::from_secs(60);

#[test]
fn its_size_is_told_beside_a_sync() {
    let disk = SimDisk::new(8);
    let plog = open(&disk, 0).unwrap();
    put(&plog, &payload(1, 1000), true).unwrap();
    let before = plog.bytes();
    let (told, size) = mpsc::channel();
    std::thread::scope(|scope| {
        let held = disk.hold_syncs();
        let writer = scope.spawn(|| put(&plog, &payload(2, 1000), true));
        held.wait_for(1);
        scope.spawn(|| told.send(plog.bytes()));
        let beside = size.recv_timeout(HANG);
        drop(held);
        writer.join().unwrap().unwrap();
        assert_eq!(beside, Ok(before));
    });
    assert_eq!(plog.bytes(), before + frame_bytes(1000));
}

/// Decision 008: a segment is made in pieces, so that concurrent commits do not wait for the
/// device; an append that waits for the segment itself does not wait for the pieces' syncs.
#[test]
fn a_segment_that_is_waited_for_is_made_at_once() {
    const BYTES: u64 = 16 << 20;
    let disk = SimDisk::new(1);
    let settings = PlogSettings { dir: "/log".into(), lane: 3, segment_bytes: BYTES };
    let (_, found) = read(&disk, Path::new("/log")).unwrap();
    let plog = FilePlog::open(Arc::new(disk.clone()), settings, &found, 1, 0).unwrap();
    // Each segment has room for one, and there is no next segment when it is written.
    let frame = payload(1, 10 << 20);
    put(&plog, &frame, false).unwrap();
    let before = disk.operations();
    plog.prepare().unwrap();
    let beside = disk.operations() - before;
    put(&plog, &frame, false).unwrap();
    let before = disk.operations();
    let held = disk.hold_syncs();
    std::thread::scope(|scope| {
        let making = scope.spawn(|| plog.prepare());
        held.wait_for(1);
        let waiting = scope.spawn(|| plog.reserve(10 << 20));
        while !plog.is_hurried() {
            std::thread::yield_now();
        }
        drop(held);
        making.join().unwrap().unwrap();
        plog.release(waiting.join().unwrap().unwrap());
    });
    let waited_for = disk.operations() - before;
    assert!(waited_for < beside, "{waited_for} operations, {beside} where nobody waits");
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
    let crc = spillway_base::checksum::crc32c(&header[..64]);
    header[64..68].copy_from_slice(&crc.to_le_bytes());
    file.write_at(0, &header).unwrap();
    let error: Error = read(&disk, Path::new("/log")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnsupportedFormat);
}

#[test]
fn stretches_of_any_size_have_the_same_frames() {
    let disk = SimDisk::new(9);
    let mut rng = Rng::new(9);
    for generation in 1..=3 {
        let plog = open(&disk, generation).unwrap();
        for number in 0..60 {
            let bytes = if rng.chance(1, 20) { 40_000 } else { rng.below(1500) as usize };
            put(&plog, &payload(number, bytes), rng.chance(1, 3)).unwrap();
        }
        plog.sync().unwrap();
    }
    let (wanted, found) = read(&disk, Path::new("/log")).unwrap();
    for bytes in [0, 1, 100, 1000, 5000, 100_000] {
        let mut reader = LogReader::open(&disk, Path::new("/log"), 3).unwrap();
        let (mut frames, mut memory) = (Vec::new(), Vec::new());
        while let Some(stretch) = reader.next_stretch(memory, bytes).unwrap() {
            let mut end = 0;
            for (position, payload) in &stretch.frames {
                assert_eq!(position.segment, stretch.segment.sequence);
                frames.push(stretch.bytes[payload.clone()].to_vec());
                end = payload.end;
            }
            assert!(end <= bytes || stretch.frames.len() == 1);
            // The largest frame, or the requested bytes.
            assert!(stretch.bytes.len() <= bytes.max(40_024), "{} bytes", stretch.bytes.len());
            memory = stretch.bytes;
        }
        assert!(frames == wanted, "by {bytes} bytes");
        let again = reader.finish();
        assert_eq!((again.segments, again.end), (found.segments.clone(), found.end));
        assert_eq!((again.tail, again.generation), (found.tail.clone(), found.generation));
    }
}
