//! Defines the measures that colour boxes, and the meaning of each colour.

use spillway::{CODINGS, DeviceClass, HOT_FROM, SliceInspection, WARM_FROM};

/// The measure that colours boxes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Measure {
    Temperature,
    Tombstones,
    Dead,
    Coding,
    Tier,
}

/// The least share for each colour.
const SHARES: [(f64, &str); 5] = [
    (0.0, "none"),
    (1e-9, "up to 5 %"),
    (0.05, "up to 25 %"),
    (0.25, "up to half"),
    (0.5, "more than half"),
];

impl Measure {
    pub(crate) const ALL: [Measure; 5] =
        [Measure::Temperature, Measure::Tombstones, Measure::Dead, Measure::Coding, Measure::Tier];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Measure::Temperature => "temperature",
            Measure::Tombstones => "tombstones",
            Measure::Dead => "dead",
            Measure::Coding => "coding",
            Measure::Tier => "tier",
        }
    }

    pub(crate) fn title(self) -> &'static str {
        match self {
            Measure::Temperature => "how often read",
            Measure::Tombstones => "share of tombstones",
            Measure::Dead => "share of dead blocks",
            Measure::Coding => "coding",
            Measure::Tier => "tier",
        }
    }

    /// The class of each colour, and its meaning.
    pub(crate) fn meanings(self) -> Vec<(String, &'static str)> {
        let named = |letter: &str, names: &[&'static str]| {
            names.iter().enumerate().map(|(at, name)| (format!("{letter}{at}"), *name)).collect()
        };
        let shares = SHARES.map(|(_, name)| name);
        match self {
            Measure::Temperature => {
                let mut all: Vec<_> =
                    named("t", &["not at all", "seldom", "as others", "often", "most often"]);
                all.push(("tu".to_owned(), "not known"));
                all
            }
            Measure::Tombstones => named("s", &shares),
            Measure::Dead => named("d", &shares),
            Measure::Coding => named("c", &CODINGS),
            Measure::Tier => named("f", &DeviceClass::ALL.map(DeviceClass::name)),
        }
    }
}

/// The values that colour a box of one or more slices.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Hue {
    bytes: u64,
    /// The sum of the temperatures of all bytes.
    heat: f64,
    is_known: bool,
    tombstones: u64,
    versions: u64,
    dead: u64,
    codings: [u64; 4],
    tiers: [u64; 3],
}

impl Hue {
    pub(crate) fn add(&mut self, slice: &SliceInspection) {
        self.bytes += slice.block_bytes;
        self.is_known |= slice.temperature.is_some();
        self.heat += f64::from(slice.temperature.unwrap_or(0)) * slice.block_bytes as f64;
        self.tombstones += slice.tombstones;
        self.versions += slice.versions;
        self.dead += slice.dead_bytes;
        let coding = CODINGS.iter().position(|name| *name == slice.coding).unwrap_or(0);
        self.codings[coding] += slice.block_bytes;
        self.tiers[slice.class as usize] += slice.block_bytes;
    }

    /// The temperature, if it is known.
    pub(crate) fn temperature(&self) -> Option<f64> {
        self.is_known.then(|| self.heat / self.bytes.max(1) as f64)
    }

    /// The tier that holds most of the bytes.
    pub(crate) fn tier(&self) -> usize {
        largest(&self.tiers)
    }

    /// The classes by which the style sheet colours the box.
    pub(crate) fn classes(&self) -> String {
        let share = |part: u64, whole: u64| {
            let share = part as f64 / whole.max(1) as f64;
            SHARES.iter().rposition(|(from, _)| share >= *from).unwrap_or(0)
        };
        let heat = match self.temperature() {
            None => "tu".to_owned(),
            Some(heat) => {
                let steps =
                    [1.0, f64::from(WARM_FROM), f64::from(HOT_FROM), 4.0 * f64::from(HOT_FROM)];
                format!("t{}", steps.iter().filter(|from| heat >= **from).count())
            }
        };
        format!(
            "{heat} s{} d{} c{} f{}",
            share(self.tombstones, self.versions),
            share(self.dead, self.bytes + self.dead),
            largest(&self.codings),
            self.tier()
        )
    }
}

fn largest(parts: &[u64]) -> usize {
    (0..parts.len()).max_by_key(|at| (parts[*at], std::cmp::Reverse(*at))).unwrap_or(0)
}
