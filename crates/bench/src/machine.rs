//! A process's use of the machine, and a description of the machine, from Linux's `/proc`.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// `USER_HZ` of every Linux that Rust runs on.
const TICKS_PER_S: u64 = 100;

/// Processor time of a process, over all its threads.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cpu {
    /// In its own code.
    pub user: Duration,
    /// In the kernel on its behalf.
    pub system: Duration,
}

impl Cpu {
    /// The time that a process has used so far; zero if it no longer exists.
    #[must_use]
    pub fn of(process: u32) -> Cpu {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        // The name, in parentheses, may contain any character; numbers follow it.
        let numbers = stat.rsplit_once(')').map_or("", |(_, numbers)| numbers);
        let ticks = |place: usize| {
            let ticks: u64 = numbers.split_whitespace().nth(place)?.parse().ok()?;
            Some(Duration::from_millis(ticks * 1000 / TICKS_PER_S))
        };
        Cpu { user: ticks(11).unwrap_or_default(), system: ticks(12).unwrap_or_default() }
    }

    /// The time that this process has used so far.
    #[must_use]
    pub fn own() -> Cpu {
        Cpu::of(std::process::id())
    }

    /// The time used since an earlier sample.
    #[must_use]
    pub fn since(self, earlier: Cpu) -> Cpu {
        Cpu {
            user: self.user.saturating_sub(earlier.user),
            system: self.system.saturating_sub(earlier.system),
        }
    }

    /// The sum of both.
    #[must_use]
    pub fn total(self) -> Duration {
        self.user + self.system
    }
}

/// Processor time of this process, over all its threads, to the nanosecond.
#[must_use]
pub fn own_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// Processor time of the calling thread, to a few milliseconds; zero if the system does not report
/// it.
#[must_use]
pub fn thread_time() -> Duration {
    let stat = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let ns = stat.split_whitespace().next().and_then(|ns| ns.parse().ok());
    Duration::from_nanos(ns.unwrap_or_default())
}

/// The bytes that a process has read and written, over all its threads.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Io {
    /// By read calls, from the page cache or a device. Reads through an `io_uring` are not counted.
    pub read_calls_bytes: u64,
    /// By write calls, likewise.
    pub write_calls_bytes: u64,
    /// From devices, by any method.
    pub device_read_bytes: u64,
    /// To devices: direct writes, and dirtied parts of the page cache, in units that may be much
    /// larger than the write.
    pub device_written_bytes: u64,
}

impl Io {
    /// The bytes that this process has read and written so far.
    #[must_use]
    pub fn own() -> Io {
        let text = fs::read_to_string("/proc/self/io").unwrap_or_default();
        let of = |label: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(label));
            line.and_then(|bytes| bytes.trim().parse().ok()).unwrap_or(0)
        };
        Io {
            read_calls_bytes: of("rchar:"),
            write_calls_bytes: of("wchar:"),
            device_read_bytes: of("read_bytes:"),
            device_written_bytes: of("write_bytes:"),
        }
    }

    /// The bytes read and written since an earlier sample.
    #[must_use]
    pub fn since(self, earlier: Io) -> Io {
        Io {
            read_calls_bytes: self.read_calls_bytes - earlier.read_calls_bytes,
            write_calls_bytes: self.write_calls_bytes - earlier.write_calls_bytes,
            device_read_bytes: self.device_read_bytes - earlier.device_read_bytes,
            device_written_bytes: self.device_written_bytes - earlier.device_written_bytes,
        }
    }
}

/// The resident memory of this process, in bytes.
#[must_use]
pub fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}

/// The number of runnable processes, averaged over the last minute: if it exceeds those of the run,
/// other programs ran beside it.
#[must_use]
pub fn load_average() -> String {
    let loads = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    loads.split(' ').next().filter(|load| !load.is_empty()).unwrap_or("?").to_owned()
}

/// The machine in one line: processor, cores, memory, kernel, and the file system of a folder.
#[must_use]
pub fn describe(folder: &Path) -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let after = |text: &str, label: &str| {
        let line = text.lines().find(|line| line.starts_with(label));
        line.and_then(|line| line.split(':').nth(1)).unwrap_or("?").trim().to_owned()
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let memory: u64 = after(&read("/proc/meminfo"), "MemTotal")
        .split_whitespace()
        .next()
        .and_then(|kib| kib.parse().ok())
        .unwrap_or(0);
    format!(
        "{}, {cores} cores, {:.0} GiB, Linux {}, {}",
        after(&read("/proc/cpuinfo"), "model name"),
        memory as f64 / f64::from(1 << 20),
        read("/proc/sys/kernel/osrelease").trim(),
        file_system(folder, &read("/proc/self/mounts")),
    )
}

/// The file system of a folder, by the longest mount point above it.
fn file_system(folder: &Path, mounts: &str) -> String {
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let mount = mounts
        .lines()
        .filter_map(|line| {
            let mut words = line.split(' ');
            Some((words.next()?, words.next()?, words.next()?))
        })
        .filter(|(_, point, _)| folder.starts_with(point))
        .max_by_key(|(_, point, _)| point.len());
    mount.map_or_else(|| "?".to_owned(), |(device, _, kind)| format!("{kind} on {device}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_memory_and_its_time_only_grows() {
        assert!(resident_bytes() > 0);
        let before = Cpu::own();
        assert!(Cpu::own().total() >= before.total());
        assert_eq!(Cpu::of(u32::MAX), Cpu::default());
        let time = own_time();
        assert!(own_time() > time);
        let io = Io::own();
        assert!(fs::read("/proc/self/status").unwrap().len() > 100);
        assert!(Io::own().since(io).read_calls_bytes > 100);
    }

    #[test]
    fn a_folder_is_in_the_file_system_that_is_mounted_nearest() {
        let mounts = "/dev/a / ext4 rw 0 0\ntmpfs /dev/shm tmpfs rw 0 0\n";
        assert_eq!(file_system(Path::new("/dev/shm"), mounts), "tmpfs on tmpfs");
        assert_eq!(file_system(Path::new("/no/such"), mounts), "ext4 on /dev/a");
    }
}
