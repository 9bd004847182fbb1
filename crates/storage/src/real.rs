//! The machine's file system.
//!
//! [`File::write_and_sync`] is one system call, `pwritev2` with `RWF_DSYNC`, if the file system
//! supports it, and otherwise a write and an fdatasync. [`File::read_now`] is `preadv2` with
//! `RWF_NOWAIT`. Transfers past the page cache, such as those of [`File::read_past`], use a second
//! descriptor of the file. A transfer that the file system refuses goes through the page cache.
//!
//! - **PRIVATE-1.** Only the user who runs the process can read or write the files and folders that
//!   it creates, whatever the umask.
//! - **PRIVATE-2.** A folder that other users can read or write is refused ([`Disk::lock`]), unless
//!   it is empty: then it is made private.
//! - **PRIVATE-3.** A symbolic link in the place of a file is not followed.

mod carrier;
mod failure;
mod file;
mod lock;
mod operation;
mod queue;
mod ring;
mod threads;
mod writeback;

use std::fs;
use std::io::{ErrorKind as IoKind, IoSlice, IoSliceMut};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::fs::{FallocateFlags, Mode, OFlags, fallocate, statvfs};
use rustix::io::{Errno, ReadWriteFlags, preadv2, pwritev2};
use spillway_base::Result;

use crate::queue::{AlignedBuffer, Completion, IoQueue, QueueSettings};
use crate::{Disk, DiskLock, File, OpenMode};
use failure::{NO_LINK, PRIVATE_FILE, PRIVATE_FOLDER, failed, failed_to_open};
use file::RealFile;
pub use queue::Means;

/// The machine's file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

impl RealDisk {
    /// As [`Disk::queue`], by these means instead of the best that the system has.
    ///
    /// # Errors
    /// As [`Disk::queue`], and [`spillway_base::ErrorKind::Io`] if the system refuses them.
    pub fn queue_by(&self, settings: QueueSettings, means: Means) -> Result<Box<dyn IoQueue>> {
        queue::open_by(settings, means)
    }
}

impl Disk for RealDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn File>> {
        let mut options = fs::OpenOptions::new();
        options.read(true).write(mode != OpenMode::Read).mode(PRIVATE_FILE).custom_flags(NO_LINK);
        if mode == OpenMode::Create {
            options.create(true).truncate(true);
        }
        let file = options.open(path).map_err(|error| failed_to_open(path, error))?;
        Ok(Arc::new(RealFile::new(file, path)))
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        path.try_exists().map_err(|error| failed("look for", path, error))
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        let entries = match fs::read_dir(dir) {
            Err(error) if error.kind() == IoKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(|error| failed("list", dir, error))?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|error| failed("list", dir, error))?;
            let kind = entry.file_type().map_err(|error| failed("list", dir, error))?;
            if let (true, Ok(name)) = (kind.is_file(), entry.file_name().into_string()) {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        fs::remove_file(path).map_err(|error| failed("remove", path, error))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        fs::rename(from, to).map_err(|error| failed("rename", from, error))
    }

    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        let mut above: Vec<&Path> = dir.ancestors().take_while(|up| !up.exists()).collect();
        let made = fs::DirBuilder::new().recursive(true).mode(PRIVATE_FOLDER).create(dir);
        made.map_err(|error| failed("create folder", dir, error))?;
        // Each new name is durable once its parent folder is synced.
        above.reverse();
        for made in above {
            let parent = made.parent().filter(|up| !up.as_os_str().is_empty());
            self.sync_dir(parent.unwrap_or(Path::new(".")))?;
        }
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        let opened = fs::File::open(dir).map_err(|error| failed("open folder", dir, error))?;
        opened.sync_all().map_err(|error| failed("sync folder", dir, error))
    }

    fn lock(&self, dir: &Path) -> Result<Box<dyn DiskLock>> {
        lock::take(dir)
    }

    fn available(&self, path: &Path) -> Result<u64> {
        let stat = statvfs(path).map_err(|error| failed("measure", path, error.into()))?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    fn goes_past_cache(&self, dir: &Path) -> bool {
        let flags = OFlags::TMPFILE | OFlags::DIRECT | OFlags::RDWR | OFlags::CLOEXEC;
        // A file system without unnamed files reveals nothing.
        !matches!(rustix::fs::open(dir, flags, Mode::RUSR | Mode::WUSR), Err(Errno::INVAL))
    }

    fn queue(&self, settings: QueueSettings) -> Result<Box<dyn IoQueue>> {
        queue::open(settings)
    }
}

impl RealFile {
    /// Allocates space up to `end` on a file system that cannot allocate: writes zeros after the
    /// end.
    fn fill_to(&self, end: u64) -> Result<()> {
        let zeros = vec![0; 1 << 20];
        let mut offset = self.len()?;
        while offset < end {
            let count = (end - offset).min(zeros.len() as u64);
            self.write_at(offset, &zeros[..count as usize])?;
            offset += count;
        }
        Ok(())
    }
}

impl File for RealFile {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        self.file.read_exact_at(bytes, offset).map_err(|error| self.failed("read", error))
    }

    fn read_now(&self, offset: u64, bytes: &mut [u8]) -> bool {
        // The system misinterprets larger offsets, and takes the last one for the descriptor's
        // current position.
        if offset.checked_add(bytes.len() as u64).is_none_or(|end| end > i64::MAX as u64) {
            return false;
        }
        let mut read = 0;
        while read < bytes.len() && self.now.load(Ordering::Relaxed) {
            let (at, rest) = (offset + read as u64, &mut bytes[read..]);
            match preadv2(&self.file, &mut [IoSliceMut::new(rest)], at, ReadWriteFlags::NOWAIT) {
                Ok(more @ 1..) => read += more,
                Err(Errno::INTR) => {}
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                    self.now.store(false, Ordering::Relaxed);
                }
                // The end of the file or a failure: a blocking read reports it.
                Ok(0) | Err(_) => return false,
            }
        }
        read == bytes.len()
    }

    fn read_past(
        self: Arc<Self>,
        offset: u64,
        len: usize,
        buffer: AlignedBuffer,
    ) -> (AlignedBuffer, Result<()>) {
        let Completion { buffer, outcome, .. } =
            operation::read_now_past(self, offset, len, buffer);
        (buffer, outcome)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.file.write_all_at(bytes, offset).map_err(|error| self.failed("write", error))
    }

    fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(|error| self.failed("sync", error))
    }

    fn write_and_sync(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let (mut offset, mut bytes) = (offset, bytes);
        while self.one_call.load(Ordering::Relaxed) && !bytes.is_empty() {
            match pwritev2(&self.file, &[IoSlice::new(bytes)], offset, ReadWriteFlags::DSYNC) {
                Ok(0) => return Err(self.failed("write", IoKind::WriteZero.into())),
                Ok(written) => {
                    bytes = &bytes[written..];
                    offset += written as u64;
                }
                Err(Errno::INTR) => {}
                Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {
                    self.one_call.store(false, Ordering::Relaxed);
                }
                Err(error) => return Err(self.failed("write", error.into())),
            }
        }
        if bytes.is_empty() {
            return Ok(());
        }
        self.write_at(offset, bytes)?;
        self.sync()
    }

    fn len(&self) -> Result<u64> {
        Ok(self.file.metadata().map_err(|error| self.failed("measure", error))?.len())
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.file.set_len(len).map_err(|error| self.failed("resize", error))
    }

    fn allocate(&self, offset: u64, len: u64) -> Result<()> {
        loop {
            match fallocate(&self.file, FallocateFlags::empty(), offset, len) {
                Ok(()) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => return self.fill_to(offset + len),
                Err(error) => return Err(self.failed("allocate", error.into())),
            }
        }
    }

    fn punch(&self, offset: u64, len: u64) -> Result<bool> {
        loop {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            match fallocate(&self.file, flags, offset, len) {
                Ok(()) => return Ok(true),
                Err(Errno::INTR) => {}
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(false),
                Err(error) => return Err(self.failed("give space back of", error.into())),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::os::unix::fs::MetadataExt;

    use rustix::fs::fcntl_getfl;
    use spillway_base::ErrorKind;

    use super::*;

    #[test]
    fn private_1_files_and_folders_are_for_their_user_alone() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("a").join("b");
        RealDisk.create_dir_all(&folder).unwrap();
        RealDisk.open(&folder.join("f"), OpenMode::Create).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!([mode(&dir.path().join("a")), mode(&folder)], [0o700; 2]);
        assert_eq!(mode(&folder.join("f")), 0o600);
    }

    #[test]
    fn private_3_no_link_is_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (victim, link) = (dir.path().join("victim"), dir.path().join("link"));
        fs::write(&victim, "kept").unwrap();
        std::os::unix::fs::symlink(&victim, &link).unwrap();
        for mode in [OpenMode::Create, OpenMode::Write, OpenMode::Read] {
            let refused = RealDisk.open(&link, mode).err().unwrap();
            assert!(refused.to_string().contains("symbolic link"), "{refused}");
        }
        assert_eq!(fs::read(&victim).unwrap(), b"kept");
    }

    #[test]
    fn space_is_taken_by_writing_where_the_file_system_cannot_allocate() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let file = fs::File::create_new(&path).unwrap();
        let file = RealFile::new(file, &path);
        file.one_call.store(false, Ordering::Relaxed);
        file.write_and_sync(0, b"kept").unwrap();
        file.fill_to(3 << 20).unwrap();
        file.fill_to(1).unwrap();
        let content = fs::read(&file.path).unwrap();
        assert_eq!((content.len(), &content[..4]), (3 << 20, &b"kept"[..]));
        assert!(content[4..].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn disk_7_what_goes_past_the_cache_goes_to_the_open_file_whatever_has_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let open =
            |options: &mut fs::OpenOptions| RealFile::new(options.open(&path).unwrap(), &path);
        let mine = open(fs::OpenOptions::new().create(true).truncate(true).read(true).write(true));
        let reader = open(fs::OpenOptions::new().read(true));
        fs::remove_file(&path).unwrap();
        fs::write(&path, b"another").unwrap();
        for (file, access) in [(&mine, OFlags::RDWR), (&reader, OFlags::RDONLY)] {
            // A file system without direct transfers has nothing to check.
            let Some(direct) = file.direct() else { return };
            let inode = |file: &fs::File| file.metadata().unwrap().ino();
            assert_eq!(inode(direct), inode(&file.file));
            let flags = fcntl_getfl(direct).unwrap();
            assert_eq!((flags.contains(OFlags::DIRECT), flags & OFlags::RWMODE), (true, access));
        }
    }

    #[test]
    fn a_full_device_is_told_apart_from_a_broken_one() {
        let full = failed("write", Path::new("f"), io::Error::from_raw_os_error(28));
        let broken = failed("write", Path::new("f"), io::Error::from_raw_os_error(5));
        assert_eq!((full.kind(), broken.kind()), (ErrorKind::DiskFull, ErrorKind::Io));
    }
}
