//! Classes of devices, and the folders on them.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use spillway_base::{Error, Result};

use crate::coding::Compression;

/// The class of the device of a folder of data files.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum DeviceClass {
    /// Faster and smaller than others: persistent memory, or the fastest solid-state drives.
    Fast = 0,
    /// Solid-state drives.
    Ssd = 1,
    /// Rotating disks, or devices that are as slow.
    Hdd = 2,
}

impl DeviceClass {
    /// All of them, the fastest first.
    pub const ALL: [DeviceClass; 3] = [DeviceClass::Fast, DeviceClass::Ssd, DeviceClass::Hdd];

    pub(super) fn of(number: u8) -> Result<DeviceClass> {
        let class = DeviceClass::ALL.get(usize::from(number)).copied();
        class.ok_or_else(|| Error::corruption(format!("unknown class of device {number}")))
    }

    /// The classes that substitute for this one, in order: itself, slower ones, then faster ones.
    pub(super) fn stand_ins(self) -> impl Iterator<Item = DeviceClass> {
        let from = self as usize;
        DeviceClass::ALL[from..].iter().chain(DeviceClass::ALL[..from].iter().rev()).copied()
    }

    /// The name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            DeviceClass::Fast => "fast",
            DeviceClass::Ssd => "ssd",
            DeviceClass::Hdd => "hdd",
        }
    }
}

impl fmt::Display for DeviceClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for DeviceClass {
    type Err = Error;

    fn from_str(text: &str) -> Result<DeviceClass> {
        let found = DeviceClass::ALL.into_iter().find(|class| class.name() == text);
        found.ok_or_else(|| {
            Error::invalid(format!("{text} is no class of device; write fast, ssd or hdd"))
        })
    }
}

/// A folder for data files on a device of a class. As text: `hdd=FOLDER`, or `hdd:zstd:9=FOLDER`
/// with a compression of its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tier {
    /// The class of its device.
    pub class: DeviceClass,
    /// The folder. It belongs to this database alone.
    pub dir: PathBuf,
    /// The compression of blocks that are written there, if it does not depend on their level.
    pub compression: Option<Compression>,
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.class)?;
        if let Some(compression) = self.compression {
            write!(f, ":{compression}")?;
        }
        write!(f, "={}", self.dir.display())
    }
}

impl FromStr for Tier {
    type Err = Error;

    fn from_str(text: &str) -> Result<Tier> {
        let wrong =
            || Error::invalid(format!("{text} is no tier; write hdd=FOLDER or hdd:zstd:9=FOLDER"));
        let (kind, dir) = text.split_once('=').ok_or_else(wrong)?;
        let (class, compression) = match kind.split_once(':') {
            Some((class, compression)) => (class, Some(compression.parse()?)),
            None => (kind, None),
        };
        if dir.is_empty() {
            return Err(wrong());
        }
        Ok(Tier { class: class.parse()?, dir: dir.into(), compression })
    }
}

/// A folder of data files that is in use.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Folder {
    pub(crate) dir: PathBuf,
    pub(crate) class: DeviceClass,
    /// Whether it takes no new extents, and its extents must move elsewhere.
    pub(crate) leaving: bool,
}

impl Folder {
    /// The data folder, if there is no other folder.
    pub(crate) fn only(dir: &Path) -> Folder {
        Folder { dir: dir.to_owned(), class: DeviceClass::Ssd, leaving: false }
    }
}
