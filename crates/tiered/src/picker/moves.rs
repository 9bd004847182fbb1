//! Which extents are moved to devices of other classes: a pure function of where they are, how warm they are, and what room there is.
//!
//! # What a pick must keep
//! - **M1.** What is on a device that it is to leave goes before anything else.
//! - **M2.** An extent goes where its level is meant to be; one that is meant for the slowest device and is warm, to the next faster one.
//! - **M3.** Nothing is moved to where there is no room, or hardly any: the last of it is for what is written anew.
//! - **M4.** What was moved stays until it is much warmer or cooler, so nothing goes back and forth.

use crate::space::DeviceClass;

/// An extent from which a temperature on is worth a faster device, and below which it is worth none.
const WARM: u32 = 16;
const COOL: u32 = 4;
/// The share of a device that moves leave free.
const SPARED: f64 = 0.05;

/// An extent, as the picker sees it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Lodger {
    pub(crate) bytes: u64,
    /// Where it is.
    pub(crate) class: DeviceClass,
    /// Whether it is to leave from there.
    pub(crate) leaving: bool,
    /// Where its level is meant to be.
    pub(crate) meant: DeviceClass,
    /// How often it was read lately; 0 where that is not counted.
    pub(crate) temperature: u32,
}

/// A class that takes extents.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Room {
    pub(crate) class: DeviceClass,
    /// Bytes that could still be written there.
    pub(crate) free: u64,
    /// Bytes in all.
    pub(crate) all: u64,
}

impl Room {
    fn takes(&self, bytes: u64) -> bool {
        self.free.saturating_sub(bytes) as f64 > self.all as f64 * SPARED
    }
}

/// At most so many moves: which of the lodgers, and where to. `rooms` are those of the classes that there are, the fastest
/// first.
pub(crate) fn pick_moves(
    lodgers: &[Lodger],
    rooms: &[Room],
    most: usize,
) -> Vec<(usize, DeviceClass)> {
    let mut rooms = rooms.to_vec();
    let slowest = rooms.last().map(|room| room.class);
    let mut wishes: Vec<(u8, u32, usize, DeviceClass)> = Vec::new();
    for (at, lodger) in lodgers.iter().enumerate() {
        let Some(target) = target(lodger, &rooms, slowest) else { continue };
        // Those that warmed up come before those that cooled down; of the first the warmest, of the others the coolest.
        let (rank, order) = match (lodger.leaving, target < lodger.class) {
            (true, _) => (0, lodger.temperature),
            (false, true) => (1, u32::MAX - lodger.temperature),
            (false, false) => (2, lodger.temperature),
        };
        if lodger.leaving || target != lodger.class {
            wishes.push((rank, order, at, target));
        }
    }
    wishes.sort_unstable();
    let mut picked = Vec::new();
    for (_, _, at, target) in wishes {
        if picked.len() == most {
            break;
        }
        let lodger = &lodgers[at];
        // One that must leave takes what room there is.
        let room = rooms
            .iter_mut()
            .filter(|room| room.class == target || lodger.leaving)
            .filter(|room| room.takes(lodger.bytes))
            .min_by_key(|room| (room.class as u8).abs_diff(target as u8));
        if let Some(room) = room {
            room.free -= lodger.bytes;
            picked.push((at, room.class));
        }
    }
    picked
}

/// Where an extent should be.
fn target(lodger: &Lodger, rooms: &[Room], slowest: Option<DeviceClass>) -> Option<DeviceClass> {
    if Some(lodger.meant) != slowest {
        return Some(lodger.meant);
    }
    let faster = rooms.iter().rev().map(|room| room.class).nth(1);
    let is_up = faster.is_some_and(|faster| lodger.class <= faster) && !lodger.leaving;
    let warm = lodger.temperature >= if is_up { COOL } else { WARM };
    faster.filter(|_| warm).or(Some(lodger.meant))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use DeviceClass::{Fast, Hdd, Ssd};

    fn lodger(class: DeviceClass, meant: DeviceClass, temperature: u32) -> Lodger {
        Lodger { bytes: 10, class, leaving: false, meant, temperature }
    }

    fn room(class: DeviceClass, free: u64) -> Room {
        Room { class, free, all: 1000 }
    }

    fn all() -> [Room; 3] {
        [room(Fast, 500), room(Ssd, 500), room(Hdd, 500)]
    }

    #[test]
    fn m1_what_must_leave_goes_first_and_wherever_there_is_room() {
        let leaves = |meant| Lodger { leaving: true, ..lodger(Ssd, meant, 0) };
        let lodgers = [lodger(Hdd, Fast, 90), leaves(Ssd), leaves(Hdd)];
        assert_eq!(pick_moves(&lodgers, &all(), 2), [(1, Ssd), (2, Hdd)]);
        let rooms = [room(Fast, 500), room(Ssd, 20), room(Hdd, 20)];
        assert_eq!(pick_moves(&lodgers, &rooms, 9), [(1, Fast), (2, Fast), (0, Fast)]);
    }

    #[test]
    fn m2_levels_have_their_places_and_the_warm_are_one_up() {
        let lodgers = [
            lodger(Fast, Fast, 0),
            lodger(Hdd, Hdd, 0),
            lodger(Ssd, Fast, 0),
            lodger(Ssd, Hdd, 0),
            lodger(Hdd, Hdd, WARM + 1),
            lodger(Hdd, Hdd, WARM),
            lodger(Fast, Hdd, 3),
        ];
        let picked = pick_moves(&lodgers, &all(), 9);
        assert_eq!(picked, [(4, Ssd), (5, Ssd), (2, Fast), (3, Hdd), (6, Hdd)]);
        assert_eq!(pick_moves(&lodgers, &all(), 1), [(4, Ssd)]);
        // With one class there is nowhere to go.
        let lodgers = [lodger(Ssd, Ssd, 0), lodger(Ssd, Ssd, 99)];
        assert_eq!(pick_moves(&lodgers, &[room(Ssd, 500)], 9), []);
    }

    #[test]
    fn m3_the_last_room_is_left() {
        let lodgers = [lodger(Ssd, Hdd, 1), lodger(Ssd, Hdd, 0), lodger(Ssd, Hdd, 2)];
        let rooms = |free| [room(Ssd, 500), room(Hdd, free)];
        assert_eq!(pick_moves(&lodgers, &rooms(60), 9), []);
        assert_eq!(pick_moves(&lodgers, &rooms(61), 9), [(1, Hdd)]);
        assert_eq!(pick_moves(&lodgers, &rooms(75), 9), [(1, Hdd), (0, Hdd)]);
        let full = Room { class: Hdd, free: 0, all: 0 };
        assert_eq!(pick_moves(&lodgers, &[room(Ssd, 500), full], 9), []);
    }

    #[test]
    fn m4_between_cool_and_warm_all_stay() {
        for temperature in COOL..WARM {
            let lodgers = [lodger(Ssd, Hdd, temperature), lodger(Hdd, Hdd, temperature)];
            assert_eq!(pick_moves(&lodgers, &all(), 9), []);
        }
        assert_eq!(pick_moves(&[lodger(Ssd, Hdd, COOL - 1)], &all(), 9), [(0, Hdd)]);
    }
}
