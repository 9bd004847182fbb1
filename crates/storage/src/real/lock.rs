//! Folders that this process has for itself.
//!
//! A lock is the `flock` of a file in the folder, and lasts as long as anything has that open: this process, or one of its rings
//! (`queue::ring`). When a process is killed, the system goes on with what its rings have in flight, and lets go of a ring only
//! when all of that is done. So a ring that writes into a folder has the folder's lock among its files, and who gets the lock
//! next meets no writes of the one before (A8).
//!
//! For this the lock of a process may outlast it for a moment. The file says which process that is, and who finds a
//! folder locked by one that is gone waits for the system.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use spillway_base::clock::Clock;
use spillway_base::{Error, ErrorKind, Result};

use super::failed;
use crate::DiskLock;

/// How long to wait for what a process that is gone had in flight. A device that takes longer is not well.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(2);

/// The locks that this process holds, by their folders.
static HELD: Mutex<BTreeMap<PathBuf, Weak<fs::File>>> = Mutex::new(BTreeMap::new());

struct RealLock {
    file: Arc<fs::File>,
    dir: PathBuf,
}

impl DiskLock for RealLock {}

impl Drop for RealLock {
    fn drop(&mut self) {
        let mut held = HELD.lock();
        if held.get(&self.dir).is_some_and(|file| file.as_ptr() == Arc::as_ptr(&self.file)) {
            held.remove(&self.dir);
        }
    }
}

/// Takes a folder.
pub(super) fn take(dir: &Path) -> Result<Box<dyn DiskLock>> {
    let path = dir.join("LOCK");
    let mut options = fs::OpenOptions::new();
    options.create(true).truncate(false).read(true).write(true);
    let file = options.open(&path).map_err(|error| failed("open", &path, error))?;
    let (clock, mut waited) = (Clock::system(), Duration::ZERO);
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => break,
            Err(Errno::INTR) => {}
            Err(Errno::WOULDBLOCK) if waited < PATIENCE && is_gone(holder(&file)) => {
                clock.sleep(PAUSE);
                waited += PAUSE;
            }
            Err(Errno::WOULDBLOCK) => {
                return Err(Error::new(
                    ErrorKind::InUse,
                    format!(
                        "{} is open in another process; stop that one, or choose another folder",
                        dir.display()
                    ),
                ));
            }
            Err(error) => return Err(failed("lock", &path, error.into())),
        }
    }
    // Who cannot note its number, on a full disk for one, is taken for a process that lives.
    let _ = file.set_len(0);
    let _ = file.write_all_at(std::process::id().to_string().as_bytes(), 0);
    let file = Arc::new(file);
    HELD.lock().insert(dir.to_owned(), Arc::downgrade(&file));
    Ok(Box::new(RealLock { file, dir: dir.to_owned() }))
}

/// The lock of the nearest folder above a path that this process holds one of.
pub(crate) fn over(path: &Path) -> Option<Arc<fs::File>> {
    let held = HELD.lock();
    path.ancestors().find_map(|dir| held.get(dir)?.upgrade())
}

/// The process that a lock's file names.
fn holder(file: &fs::File) -> Option<u32> {
    let mut text = [0; 10];
    let len = file.read_at(&mut text, 0).ok()?;
    std::str::from_utf8(&text[..len]).ok()?.parse().ok()
}

/// Whether a process has ended, as far as this can be known: nobody has waited for it yet, or there is none of its number.
fn is_gone(process: Option<u32>) -> bool {
    let Some(process) = process.filter(|process| *process != std::process::id()) else {
        return false;
    };
    let Ok(stat) = fs::read_to_string(format!("/proc/{process}/stat")) else { return true };
    // The name, in parentheses, may hold anything; the state follows.
    let state = stat.rsplit_once(')').map_or("", |(_, state)| state.trim_start());
    state.starts_with(['Z', 'X'])
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

    use super::*;

    #[test]
    fn a_lock_says_whose_it_is_and_is_found_from_within_its_folder() {
        let dir = tempfile::tempdir().unwrap();
        let lock = take(dir.path()).unwrap();
        let text = fs::read_to_string(dir.path().join("LOCK")).unwrap();
        assert_eq!(text, std::process::id().to_string());
        for inside in ["f", "below/f"] {
            assert!(over(&dir.path().join(inside)).is_some());
        }
        let below = dir.path().join("below");
        fs::create_dir(&below).unwrap();
        let nearer = take(&below).unwrap();
        let of = |path: &str| over(&dir.path().join(path)).map(|file| Arc::as_ptr(&file));
        assert_ne!(of("f"), of("below/f"));
        drop(nearer);
        assert_eq!(of("f"), of("below/f"));
        drop(lock);
        assert!(of("f").is_none() && over(Path::new("/")).is_none());
    }

    #[test]
    fn a_process_is_gone_once_it_has_ended() {
        assert!(!is_gone(None) && !is_gone(Some(std::process::id())) && !is_gone(Some(1)));
        let mut child = Command::new("true").spawn().unwrap();
        let id = child.id();
        let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(Pid::from_child(&child)), ended).unwrap();
        assert!(is_gone(Some(id)), "nobody has waited for it");
        child.wait().unwrap();
        assert!(is_gone(Some(id)));
    }
}
