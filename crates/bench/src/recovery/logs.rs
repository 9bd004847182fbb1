//! Reads the files of a log directly.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use rustix::fs::{Advice, fadvise};
use spillway_base::clock;

/// Bytes of each read.
const READ_BYTES: usize = 4 << 20;
/// Readers at once, so that the disk always has a read to work on.
const READERS: usize = 2;

/// The files directly in a folder whose name matches.
///
/// # Errors
/// An error that prevents listing the folder, as text.
pub fn files_in(dir: &Path, wanted: impl Fn(&str) -> bool) -> Result<Vec<PathBuf>, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", dir.display());
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entry.path().is_file() && entry.file_name().to_str().is_some_and(&wanted) {
            files.push(entry.path());
        }
    }
    files.sort();
    Ok(files)
}

/// Drops the files from the page cache.
pub(crate) fn forget(files: &[PathBuf]) -> Result<(), String> {
    for path in files {
        let failed = |error: std::io::Error| format!("{}: {error}", path.display());
        let file = File::open(path).map_err(failed)?;
        file.sync_all().map_err(failed)?;
        fadvise(&file, 0, None, Advice::DontNeed).map_err(|error| failed(error.into()))?;
    }
    Ok(())
}

/// Reads the files from start to end; returns their bytes and the time.
pub(crate) fn read(files: &[PathBuf]) -> Result<(u64, Duration), String> {
    let begin = clock::now();
    let (next, bytes) = (AtomicUsize::new(0), AtomicU64::new(0));
    let read = || {
        let mut buffer = vec![0; READ_BYTES];
        while let Some(path) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
            let failed = |error: std::io::Error| format!("{}: {error}", path.display());
            let mut file = File::open(path).map_err(failed)?;
            loop {
                match file.read(&mut buffer).map_err(failed)? {
                    0 => break,
                    length => bytes.fetch_add(length as u64, Ordering::Relaxed),
                };
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..READERS).map(|_| scope.spawn(read)).collect();
        readers.into_iter().try_for_each(|reader| {
            reader.join().unwrap_or_else(|_| Err("a reader panicked".to_owned()))
        })
    })?;
    Ok((bytes.into_inner(), clock::now() - begin))
}
