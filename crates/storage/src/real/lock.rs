//! Folders that this process has locked.
//!
//! A lock is the `flock` of a file in the folder. It lasts while any descriptor of that open file
//! exists, in this process or in one of its rings (`ring.rs`). When a process is killed, the system
//! continues the I/O that its rings have in flight, and closes a ring only when all of this I/O is
//! done. So a ring that writes into a folder has the folder's lock file among its registered files:
//! the lock becomes free only after the ring's last write (IO-QUEUE-8).
//!
//! Therefore a lock may outlast its process for a moment. The lock file names the process. A
//! process that finds a folder locked by a process that has ended waits until the system has
//! released the lock.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use spillway_base::clock::Clock;
use spillway_base::lock::Mutex;
use spillway_base::{Error, ErrorKind, Result};

use super::failure::{NO_LINK, PRIVATE_FILE, PRIVATE_FOLDER, failed, failed_to_open};
use crate::DiskLock;

/// How long to wait for the I/O in flight of a process that has ended. A device that takes longer
/// is faulty.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(2);

/// The locks of this process, by folder, including released ones.
static HELD: Mutex<BTreeMap<PathBuf, Weak<fs::File>>> = Mutex::new(BTreeMap::new());

struct RealLock {
    _file: Arc<fs::File>,
}

impl DiskLock for RealLock {}

/// Locks a folder.
pub(super) fn take(dir: &Path) -> Result<Box<dyn DiskLock>> {
    check_private(dir)?;
    let path = dir.join("LOCK");
    let mut options = fs::OpenOptions::new();
    options.create(true).truncate(false).read(true).write(true);
    options.mode(PRIVATE_FILE).custom_flags(NO_LINK);
    let file = options.open(&path).map_err(|error| failed_to_open(&path, error))?;
    let (clock, mut waited) = (Clock::system(), Duration::ZERO);
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => break,
            Err(Errno::INTR) => {}
            Err(Errno::WOULDBLOCK) if waited < PATIENCE && is_orphan(&file) => {
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
    // If the process number cannot be written, for example on a full disk, the holder counts as
    // alive.
    let _ = file.set_len(0);
    let _ = file.write_all_at(std::process::id().to_string().as_bytes(), 0);
    let file = Arc::new(file);
    let mut held = HELD.lock();
    held.retain(|_, file| file.strong_count() > 0);
    held.insert(dir.to_owned(), Arc::downgrade(&file));
    Ok(Box::new(RealLock { _file: file }))
}

/// Refuses a folder that other users can read or write, or makes it private if it is empty
/// (PRIVATE-2).
fn check_private(dir: &Path) -> Result<()> {
    let mode = || -> Result<u32> {
        let metadata = fs::metadata(dir).map_err(|error| failed("look at", dir, error))?;
        Ok(metadata.permissions().mode() & 0o777)
    };
    let is_private = |mode: u32| mode & !PRIVATE_FOLDER == 0;
    if is_private(mode()?) {
        return Ok(());
    }
    let mut entries = fs::read_dir(dir).map_err(|error| failed("list", dir, error))?;
    if entries.next().is_none() {
        let private = fs::Permissions::from_mode(PRIVATE_FOLDER);
        fs::set_permissions(dir, private).map_err(|error| failed("make private", dir, error))?;
    }
    let mode = mode()?;
    if is_private(mode) {
        return Ok(());
    }
    let dir = dir.display();
    Err(Error::invalid(format!(
        "other users can read or write {dir}, whose permissions are {mode:03o}; \
         make it private first: chmod 700 {dir}"
    )))
}

/// The lock of the nearest folder above a path that this process has locked.
pub(crate) fn over(path: &Path) -> Option<Arc<fs::File>> {
    let held = HELD.lock();
    path.ancestors().find_map(|dir| held.get(dir)?.upgrade())
}

/// Whether a held lock belongs to a process that has ended.
fn is_orphan(file: &fs::File) -> bool {
    let Some(process) = holder(file) else { return false };
    if process != std::process::id() {
        return is_gone(process);
    }
    // In a container successive processes often have the same number.
    let Ok(wanted) = file.metadata() else { return false };
    let is_it = |file: &fs::File| {
        file.metadata().is_ok_and(|had| (had.dev(), had.ino()) == (wanted.dev(), wanted.ino()))
    };
    !HELD.lock().values().filter_map(Weak::upgrade).any(|file| is_it(&file))
}

/// The process that a lock's file names.
fn holder(file: &fs::File) -> Option<u32> {
    let mut text = [0; 11];
    let len = file.read_at(&mut text, 0).ok()?;
    std::str::from_utf8(&text[..len]).ok()?.parse().ok()
}

/// Whether a process has ended, as far as this can be known: no process has its number, or its
/// parent has not reaped it yet.
fn is_gone(process: u32) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{process}/stat")) else { return true };
    // The name, in parentheses, may contain any character; the state follows.
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
    fn private_2_a_folder_that_others_can_use_is_not_taken_unless_it_is_empty() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("data");
        for mode in [0o755, 0o750, 0o701, 0o720, 0o1777] {
            fs::create_dir(&path).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            drop(take(&path).unwrap());
            let mode_of = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
            assert_eq!((mode_of(&path), mode_of(&path.join("LOCK"))), (0o700, 0o600));
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let refused = take(&path).err().unwrap();
            assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
            assert!(refused.to_string().contains("chmod 700"), "{refused}");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
            drop(take(&path).unwrap());
            fs::remove_dir_all(&path).unwrap();
        }
    }

    #[test]
    fn private_3_the_lock_follows_no_link() {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let victim = dir.path().join("victim");
        fs::write(&victim, "kept").unwrap();
        std::os::unix::fs::symlink(&victim, dir.path().join("LOCK")).unwrap();
        let refused = take(dir.path()).err().unwrap();
        assert!(refused.to_string().contains("symbolic link"), "{refused}");
        assert_eq!(fs::read_to_string(&victim).unwrap(), "kept");
    }

    #[test]
    fn a_process_is_gone_once_it_has_ended() {
        assert!(!is_gone(std::process::id()) && !is_gone(1));
        let mut child = Command::new("true").spawn().unwrap();
        let id = child.id();
        let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(Pid::from_child(&child)), ended).unwrap();
        assert!(is_gone(id), "nobody has waited for it");
        child.wait().unwrap();
        assert!(is_gone(id));
    }

    #[test]
    fn a_lock_of_this_process_s_number_may_be_that_of_one_before_it() {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let path = dir.path().join("LOCK");
        fs::write(&path, std::process::id().to_string()).unwrap();
        let file = fs::File::open(&path).unwrap();
        assert!(is_orphan(&file));
        let lock = take(dir.path()).unwrap();
        assert!(!is_orphan(&file));
        let in_use = over(&path);
        drop(lock);
        assert!(!is_orphan(&file), "a ring has it");
        drop(in_use);
        assert!(is_orphan(&file));
        for text in ["", "x", "12345678901"] {
            fs::write(&path, text).unwrap();
            assert!(!is_orphan(&file), "nobody knows whose it is");
        }
    }
}
