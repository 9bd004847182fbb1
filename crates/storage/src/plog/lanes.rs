//! Measures how many lanes a log's device can use.
//!
//! One more lane helps only if its syncs run in parallel with those of the other lanes. Some
//! devices sync the files of a disk one after another. Then a commit of one lane waits for the
//! syncs of all lanes, since it is acknowledged when all commits with smaller CSNs are durable. No
//! device reports whether it syncs in parallel, so this module measures it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use spillway_base::{Result, clock, thread};

use crate::disk::{Disk, File, OpenMode};

/// The bytes of one write: about those of a frame of some tens of commits.
const WRITE_BYTES: usize = 4 << 10;
/// The number of writes and syncs of each lane.
const WRITES: usize = 16;
/// Doubling the lanes must raise the rate by at least this fraction of it.
const GAIN: f64 = 0.4;

/// The number of lanes, up to `most`, from which the device of a log's folder gains. The
/// measurement takes some milliseconds on a current device, and does nothing if `most` is one. A
/// device that cannot be measured gets one lane; opening the log reports the cause.
pub fn lanes_that_pay(disk: &dyn Disk, dir: &Path, most: usize) -> usize {
    choose(most, |lanes| syncs_per_second(disk, dir, lanes)).unwrap_or(1)
}

fn choose(most: usize, mut rate: impl FnMut(usize) -> Result<f64>) -> Result<usize> {
    if most <= 1 {
        return Ok(1);
    }
    let (mut lanes, mut best) = (1, rate(1)?);
    while lanes < most {
        let more = (2 * lanes).min(most);
        let with_more = rate(more)?;
        if with_more < best * (1.0 + GAIN * (more - lanes) as f64 / lanes as f64) {
            break;
        }
        (lanes, best) = (more, with_more);
    }
    Ok(lanes)
}

/// The total rate of this many files when a thread of its own writes and syncs each.
fn syncs_per_second(disk: &dyn Disk, dir: &Path, lanes: usize) -> Result<f64> {
    let paths: Vec<PathBuf> = (0..lanes).map(|lane| dir.join(format!("probe-{lane}"))).collect();
    let outcome = try_files(disk, &paths);
    for path in &paths {
        if disk.exists(path)? {
            disk.remove(path)?;
        }
    }
    outcome
}

fn try_files(disk: &dyn Disk, paths: &[PathBuf]) -> Result<f64> {
    let files: Vec<Arc<dyn File>> = paths
        .iter()
        .map(|path| {
            let file = disk.open(path, OpenMode::Create)?;
            file.allocate(0, (WRITES * WRITE_BYTES) as u64)?;
            // This allocates the blocks, as in a log's segment.
            file.write_at(0, &[0; WRITES * WRITE_BYTES])?;
            file.sync()?;
            Ok(file)
        })
        .collect::<Result<_>>()?;
    let from = clock::now();
    let writers: Vec<_> = files
        .into_iter()
        .map(|file| {
            thread::spawn("probe", move || {
                let mut places = (0..WRITES).map(|at| (at * WRITE_BYTES) as u64);
                places.try_for_each(|at| file.write_and_sync(at, &[1; WRITE_BYTES]))
            })
        })
        .collect::<Result<_>>()?;
    let written: Vec<Result<()>> =
        writers.into_iter().map(|writer| writer.join().expect("nothing in it panics")).collect();
    written.into_iter().collect::<Result<()>>()?;
    let seconds = (clock::now() - from).as_secs_f64();
    Ok((paths.len() * WRITES) as f64 / seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::SimDisk;
    use crate::{RealDisk, plog};

    /// The choice for a device that runs this many syncs in parallel.
    fn chosen(most: usize, beside: usize) -> usize {
        choose(most, |lanes| Ok(1000.0 * lanes.min(beside) as f64)).unwrap()
    }

    #[test]
    fn lanes_are_added_as_long_as_the_device_gains_by_them() {
        for most in 1..=16 {
            assert_eq!(chosen(most, 1), 1, "a device that syncs one by one");
            assert_eq!(chosen(most, usize::MAX), most);
        }
        assert_eq!((chosen(8, 2), chosen(8, 4), chosen(3, 8)), (2, 4, 3));
        let little = choose(8, |lanes| Ok((lanes as f64).powf(0.3))).unwrap();
        assert_eq!(little, 1);
    }

    #[test]
    fn a_device_is_tried_and_nothing_is_left_behind() {
        let dir = tempfile::tempdir().unwrap();
        assert!((1..=4).contains(&lanes_that_pay(&RealDisk, dir.path(), 4)));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        assert_eq!(plog::lanes_in(&RealDisk, dir.path()).unwrap(), [0; 0]);
    }

    #[test]
    fn a_device_that_fails_gets_one_lane() {
        let disk = SimDisk::new(1);
        disk.create_dir_all(Path::new("/log")).unwrap();
        disk.fail_syncs();
        assert_eq!(lanes_that_pay(&disk, Path::new("/log"), 8), 1);
        assert!(disk.files().is_empty());
        disk.heal();
        disk.set_capacity(Some(8 << 10));
        assert_eq!(lanes_that_pay(&disk, Path::new("/log"), 8), 1);
        assert!(disk.files().is_empty());
    }
}
