//! Where the data of each level is stored: the class of device, and the compression.
//!
//! Both follow from the settings and from the folders of the engine, which do not change while the
//! engine is open. Level0 and Level1 are stored alike.

use crate::coding::Compression;
use crate::manifest::Place;
use crate::picker::Kind;
use crate::settings::TieredSettings;
use crate::space::{DeviceClass, SpaceManager};

/// How the data of some levels is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct LevelClass {
    class: DeviceClass,
    compression: Compression,
    /// The compression of cold data that a recode compaction leaves there.
    cold: Compression,
}

/// Where the data of each level is stored.
pub(super) struct LevelStorage {
    /// Of Level0 and Level1.
    upper: LevelClass,
    /// Of Level2.
    lower: LevelClass,
}

impl LevelStorage {
    pub(super) fn new(settings: &TieredSettings, space: &SpaceManager) -> LevelStorage {
        let of = |place| {
            let class = space.class_for(TieredSettings::class_at(place));
            let compression = settings.compression_at(place, class);
            LevelClass { class, compression, cold: settings.compression_at(Place::Level2, class) }
        };
        LevelStorage { upper: of(Place::Level1), lower: of(Place::Level2) }
    }

    fn at(&self, place: Place) -> &LevelClass {
        match place {
            Place::Level0(_) | Place::Level1 => &self.upper,
            Place::Level2 => &self.lower,
        }
    }

    /// The class of device for data at a place.
    pub(super) fn class_at(&self, place: Place) -> DeviceClass {
        self.at(place).class
    }

    /// The compression of blocks at a place.
    pub(super) fn compression_at(&self, place: Place) -> Compression {
        self.at(place).compression
    }

    /// The compression of the blocks that a compaction of a kind writes to a place. A recode
    /// compaction writes cold data, at any place.
    pub(super) fn compression_of(&self, kind: Kind, place: Place) -> Compression {
        match kind {
            Kind::Recode => self.at(place).cold,
            _ => self.compression_at(place),
        }
    }

    /// Whether a read of Level1 is cheaper than one of Level2, so that hot data should stay in
    /// Level1.
    pub(super) fn keeps_hot(&self) -> bool {
        (self.upper.class, self.upper.compression) != (self.lower.class, self.lower.compression)
    }
}
