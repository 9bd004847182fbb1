//! Chooses extents to move to devices of other classes, as a pure function of the classes, levels
//! and temperatures of the extents and of the free space of each class.
//!
//! # Rules of a pick
//! - **MOVE-PICK-1.** Extents on a device that is to be emptied go first.
//! - **MOVE-PICK-2.** An extent goes to the class that is meant for its level. If this is the
//!   slowest class, a hot extent goes to the next faster class instead, and one of the hottest
//!   extents goes to a class two steps faster.
//! - **MOVE-PICK-3.** No extent moves to a class with little or no free space: the remaining space
//!   is for new extents.
//! - **MOVE-PICK-4.** The temperature below which an extent moves down again is much lower than the
//!   temperature from which it moves up. So no extent moves back and forth.
//! - **MOVE-PICK-5.** A class may have no space for a hot extent that should move there. Then the
//!   coolest of the extents that are in this class only because of their temperature moves down, if
//!   it is much cooler than the hot extent.

use crate::space::{DeviceClass, Room};
use crate::temperature::{COLD, HOT, HOTTEST, Temperature};

/// The least temperature at which an extent moves up, and the least at which it then stays: for one
/// class up, and for two.
const STEPS: [(u32, u32); 2] = [(HOT, COLD), (HOTTEST, HOT)];
/// An extent yields to another one that is this many times as hot.
const YIELDS: u32 = 4;
/// The share of a device that moves leave free.
const SPARED: f64 = 0.05;

/// An extent, as the picker sees it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Lodger {
    pub(crate) bytes: u64,
    /// Its present class.
    pub(crate) class: DeviceClass,
    /// Whether it must leave its folder.
    pub(crate) leaving: bool,
    /// The class that its level is meant for.
    pub(crate) meant: DeviceClass,
    /// Its temperature, for each slot that it takes.
    pub(crate) temperature: Temperature,
}

/// Whether a class has room for an extent of this many bytes.
fn takes(room: &Room, bytes: u64) -> bool {
    room.free.saturating_sub(bytes) as f64 > room.all as f64 * SPARED
}

/// Picks at most `most` moves: the indexes of the lodgers, and their targets. `rooms` are the
/// existing classes, the fastest first.
pub(crate) fn pick_moves(
    lodgers: &[Lodger],
    rooms: &[Room],
    most: usize,
) -> Vec<(usize, DeviceClass)> {
    let mut rooms = rooms.to_vec();
    let classes: Vec<DeviceClass> = rooms.iter().map(|room| room.class).collect();
    let mut wishes: Vec<(u8, Temperature, usize, DeviceClass)> = Vec::new();
    for (at, lodger) in lodgers.iter().enumerate() {
        let target = target(lodger, &classes);
        // Extents that warmed up come before those that cooled down: the warmest first of the
        // former, the coolest first of the latter.
        let (rank, order) = match (lodger.leaving, target < lodger.class) {
            (true, _) => (0, lodger.temperature),
            (false, true) => (1, Temperature(u32::MAX - lodger.temperature.0)),
            (false, false) => (2, lodger.temperature),
        };
        if lodger.leaving || target != lodger.class {
            wishes.push((rank, order, at, target));
        }
    }
    wishes.sort_unstable();
    let mut guests = guests(lodgers, &classes).into_iter().peekable();
    let mut picked: Vec<(usize, DeviceClass)> = Vec::new();
    for (_, _, at, target) in wishes {
        if picked.len() == most {
            break;
        }
        let lodger = &lodgers[at];
        // An extent that must leave takes any room.
        let room = rooms
            .iter_mut()
            .filter(|room| room.class == target || lodger.leaving)
            .filter(|room| takes(room, lodger.bytes))
            .min_by_key(|room| (room.class as u8).abs_diff(target as u8));
        if let Some(room) = room {
            room.free -= lodger.bytes;
            picked.push((at, room.class));
            continue;
        }
        // MOVE-PICK-5: the next pick finds the room that this one frees.
        let yields = |guest: &usize| {
            let guest = &lodgers[*guest];
            guest.class == target && guest.temperature.0 * YIELDS <= lodger.temperature.0
        };
        if target < lodger.class
            && let Some(guest) = guests.next_if(yields)
            && let Some(room) = rooms
                .iter_mut()
                .find(|room| room.class > target && takes(room, lodgers[guest].bytes))
        {
            room.free -= lodgers[guest].bytes;
            picked.push((guest, room.class));
        }
    }
    picked
}

/// The extents that are on a device only because they are warm, the coolest first.
fn guests(lodgers: &[Lodger], classes: &[DeviceClass]) -> Vec<usize> {
    let is_guest = |lodger: &Lodger| {
        !lodger.leaving && lodger.class < lodger.meant && target(lodger, classes) <= lodger.class
    };
    let mut guests: Vec<usize> = (0..lodgers.len()).filter(|at| is_guest(&lodgers[*at])).collect();
    guests.sort_by_key(|at| lodgers[*at].temperature);
    guests
}

/// The class where an extent should be. An extent that is meant for the slowest device is as many
/// steps above it as its temperature allows.
fn target(lodger: &Lodger, classes: &[DeviceClass]) -> DeviceClass {
    if classes.last() != Some(&lodger.meant) {
        return lodger.meant;
    }
    let steps = classes.iter().rev().skip(1).zip(STEPS);
    let warm_enough = steps.take_while(|(class, (rises, stays))| {
        let is_up = lodger.class <= **class && !lodger.leaving;
        lodger.temperature.0 >= if is_up { *stays } else { *rises }
    });
    warm_enough.last().map_or(lodger.meant, |(class, _)| *class)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use DeviceClass::{Fast, Hdd, Ssd};

    fn lodger(class: DeviceClass, meant: DeviceClass, temperature: u32) -> Lodger {
        let temperature = Temperature(temperature);
        Lodger { bytes: 10, class, leaving: false, meant, temperature }
    }

    fn room(class: DeviceClass, free: u64) -> Room {
        Room { class, free, all: 1000 }
    }

    fn all() -> [Room; 3] {
        [room(Fast, 500), room(Ssd, 500), room(Hdd, 500)]
    }

    #[test]
    fn move_pick_1_what_must_leave_goes_first_and_wherever_there_is_room() {
        let leaves = |meant| Lodger { leaving: true, ..lodger(Ssd, meant, 0) };
        let lodgers = [lodger(Hdd, Fast, 90), leaves(Ssd), leaves(Hdd)];
        assert_eq!(pick_moves(&lodgers, &all(), 2), [(1, Ssd), (2, Hdd)]);
        let rooms = [room(Fast, 500), room(Ssd, 20), room(Hdd, 20)];
        assert_eq!(pick_moves(&lodgers, &rooms, 9), [(1, Fast), (2, Fast), (0, Fast)]);
    }

    #[test]
    fn move_pick_2_levels_have_their_places_and_the_hot_are_one_up() {
        let lodgers = [
            lodger(Fast, Fast, 0),
            lodger(Hdd, Hdd, 0),
            lodger(Ssd, Fast, 0),
            lodger(Ssd, Hdd, 0),
            lodger(Hdd, Hdd, HOT + 1),
            lodger(Hdd, Hdd, HOT),
            lodger(Fast, Hdd, COLD - 1),
            lodger(Ssd, Hdd, HOTTEST),
            lodger(Hdd, Hdd, HOTTEST + 1),
        ];
        let picked = pick_moves(&lodgers, &all(), 9);
        let up = [(8, Fast), (7, Fast), (4, Ssd), (5, Ssd), (2, Fast)];
        assert_eq!(picked, [&up[..], &[(3, Hdd), (6, Hdd)]].concat());
        assert_eq!(pick_moves(&lodgers, &all(), 1), [(8, Fast)]);
        // Between two classes there is one step.
        let rooms = [room(Fast, 500), room(Hdd, 500)];
        let lodgers = [lodger(Hdd, Hdd, HOT), lodger(Hdd, Hdd, HOTTEST)];
        assert_eq!(pick_moves(&lodgers, &rooms, 9), [(1, Fast), (0, Fast)]);
        // With one class there is no move.
        let lodgers = [lodger(Ssd, Ssd, 0), lodger(Ssd, Ssd, 999)];
        assert_eq!(pick_moves(&lodgers, &[room(Ssd, 500)], 9), []);
    }

    #[test]
    fn move_pick_3_the_last_room_is_left() {
        let lodgers = [lodger(Ssd, Hdd, 1), lodger(Ssd, Hdd, 0), lodger(Ssd, Hdd, 2)];
        let rooms = |free| [room(Ssd, 500), room(Hdd, free)];
        assert_eq!(pick_moves(&lodgers, &rooms(60), 9), []);
        assert_eq!(pick_moves(&lodgers, &rooms(61), 9), [(1, Hdd)]);
        assert_eq!(pick_moves(&lodgers, &rooms(75), 9), [(1, Hdd), (0, Hdd)]);
        let full = Room { class: Hdd, free: 0, all: 0 };
        assert_eq!(pick_moves(&lodgers, &[room(Ssd, 500), full], 9), []);
    }

    #[test]
    fn move_pick_4_what_is_warm_stays_where_it_is() {
        for temperature in COLD..HOT {
            let lodgers = [lodger(Ssd, Hdd, temperature), lodger(Hdd, Hdd, temperature)];
            assert_eq!(pick_moves(&lodgers, &all(), 9), []);
        }
        assert_eq!(pick_moves(&[lodger(Ssd, Hdd, COLD - 1)], &all(), 9), [(0, Hdd)]);
        for temperature in HOT..HOTTEST {
            let lodgers = [lodger(Fast, Hdd, temperature), lodger(Ssd, Hdd, temperature)];
            assert_eq!(pick_moves(&lodgers, &all(), 9), []);
        }
        assert_eq!(pick_moves(&[lodger(Fast, Hdd, HOT - 1)], &all(), 9), [(0, Ssd)]);
    }

    #[test]
    fn move_pick_5_the_coolest_guest_makes_room_for_one_much_hotter() {
        let full = [room(Fast, 55), room(Hdd, 500)];
        let of = |temperature| {
            [
                lodger(Fast, Fast, 0),
                lodger(Fast, Hdd, HOT),
                lodger(Fast, Hdd, HOT / 2),
                lodger(Fast, Hdd, HOT / 4),
                lodger(Hdd, Hdd, temperature),
            ]
        };
        assert_eq!(pick_moves(&of(HOT - 1), &full, 9), []);
        assert_eq!(pick_moves(&of(HOT), &full, 9), [(3, Hdd)]);
        let rooms = [room(Fast, 65), room(Hdd, 490)];
        let after = [lodger(Hdd, Hdd, HOT / 4), lodger(Hdd, Hdd, HOT)];
        assert_eq!(pick_moves(&after, &rooms, 9), [(1, Fast)]);
        // Two extents that move up take two places, and no place is taken twice.
        let two = [&of(4 * HOT)[..], &[lodger(Hdd, Hdd, 2 * HOT)]].concat();
        assert_eq!(pick_moves(&two, &full, 9), [(3, Hdd), (2, Hdd)]);
        assert_eq!(
            pick_moves(&two, &[room(Fast, 55), room(Hdd, 55)], 9),
            [],
            "there is no room below"
        );
    }
}
