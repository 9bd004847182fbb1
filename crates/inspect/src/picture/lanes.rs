//! Draws the levels of a table: a lane for each level, and for each sub-level of Level0. Beside the
//! lanes is each level's device space.

use spillway::{DeviceClass, LevelSpace, SliceInspection, TableInspection};

use super::WIDTH;
use super::measure::Hue;
use crate::Report;
use crate::markup::Markup;
use crate::words::{bytes, count, counted, percent, share};

/// The left and right ends of lanes; the bars are to their right.
const LEFT: f64 = 96.0;
const RIGHT: f64 = 862.0;
const BARS: f64 = 882.0;
const BAR_WIDTH: f64 = 132.0;
/// The top of the first lane; the bounds of sub-tables are named above it.
const TOP: f64 = 40.0;
/// The least width of a box. A narrower box is drawn together with its neighbours.
const BOX_LEAST: f64 = 3.0;
/// The number of sub-levels of Level0 that have their own lane. Older ones share one.
const SUBLEVELS_DRAWN: usize = 10;
/// The width that the name of a bound needs.
const BOUND_ROOM: f64 = 150.0;

/// The positions of keys, from left to right: all bounds of slices.
struct Scale<'a>(Vec<&'a [u8]>);

impl<'a> Scale<'a> {
    fn of(table: &'a TableInspection) -> Scale<'a> {
        let mut keys: Vec<&[u8]> = Vec::new();
        for part in &table.subtables {
            keys.extend(part.slices.iter().flat_map(|slice| [&*slice.smallest, &*slice.largest]));
        }
        keys.sort_unstable();
        keys.dedup();
        Scale(keys)
    }

    fn at(&self, rank: usize) -> f64 {
        LEFT + (RIGHT - LEFT) * rank as f64 / self.0.len().max(1) as f64
    }

    /// The position where a key begins.
    fn begin(&self, key: &[u8]) -> f64 {
        self.at(self.0.partition_point(|other| *other < key))
    }

    /// The position where a key ends, so that even a slice of one key is visible.
    fn end(&self, key: &[u8]) -> f64 {
        self.at(self.0.partition_point(|other| *other <= key))
    }
}

/// Slices that are drawn as one box.
struct Drawn<'a> {
    from: f64,
    to: f64,
    slices: u64,
    bytes: u64,
    versions: u64,
    tombstones: u64,
    dead: u64,
    hue: Hue,
    first: &'a SliceInspection,
    last: &'a SliceInspection,
}

/// Boxes of slices in key order, each wide enough to be visible.
fn boxes<'a>(scale: &Scale<'_>, slices: &[&'a SliceInspection]) -> Vec<Drawn<'a>> {
    let mut all: Vec<Drawn<'a>> = Vec::new();
    for slice in slices {
        let (from, to) = (scale.begin(&slice.smallest), scale.end(&slice.largest));
        let joins = all.last().is_some_and(|last| {
            let narrow = last.to - last.from < BOX_LEAST || to - from < BOX_LEAST;
            narrow && from - last.to < 1.0 && to - last.from < 2.0 * BOX_LEAST
        });
        if !joins {
            let (slices, bytes, versions, tombstones, dead) = (0, 0, 0, 0, 0);
            let (hue, first, last) = (Hue::default(), *slice, *slice);
            all.push(Drawn {
                from,
                to,
                slices,
                bytes,
                versions,
                tombstones,
                dead,
                hue,
                first,
                last,
            });
        }
        let Some(drawn) = all.last_mut() else { continue };
        drawn.to = drawn.to.max(to);
        drawn.last = slice;
        drawn.slices += 1;
        drawn.bytes += slice.block_bytes;
        drawn.versions += slice.versions;
        drawn.tombstones += slice.tombstones;
        drawn.dead += slice.dead_bytes;
        drawn.hue.add(slice);
    }
    all
}

/// A lane: its name, its height, and its slices in key order.
struct Lane<'a> {
    name: String,
    height: f64,
    level: usize,
    slices: Vec<&'a SliceInspection>,
}

fn lanes_of(table: &TableInspection) -> Vec<Lane<'_>> {
    let slices = || table.subtables.iter().flat_map(|part| &part.slices);
    let mut numbers: Vec<u64> =
        slices().filter(|slice| slice.level == 0).map(|slice| slice.sublevel).collect();
    numbers.sort_unstable_by(|a, b| b.cmp(a));
    numbers.dedup();
    let drawn = match numbers.len() {
        many if many > SUBLEVELS_DRAWN => SUBLEVELS_DRAWN - 1,
        few => few,
    };
    let mut lanes: Vec<Lane<'_>> = Vec::new();
    for (at, number) in numbers[..drawn].iter().enumerate() {
        let of = slices().filter(|slice| slice.level == 0 && slice.sublevel == *number);
        let name = if at == 0 { "Level0".to_owned() } else { String::new() };
        lanes.push(Lane { name, height: 15.0, level: 0, slices: of.collect() });
    }
    if let Some(oldest) = numbers.get(drawn) {
        let older = slices().filter(|slice| slice.level == 0 && slice.sublevel <= *oldest);
        let mut older: Vec<_> = older.collect();
        older.sort_by(|a, b| a.smallest.cmp(&b.smallest));
        let name = format!("{} older", numbers.len() - drawn);
        lanes.push(Lane { name, height: 15.0, level: 0, slices: older });
    }
    for level in 1..3 {
        let of = slices().filter(|slice| usize::from(slice.level) == level);
        let of: Vec<_> = of.collect();
        if !of.is_empty() {
            lanes.push(Lane { name: format!("Level{level}"), height: 34.0, level, slices: of });
        }
    }
    lanes
}

impl Report<'_> {
    /// Draws a table.
    pub(super) fn lanes(&self, section: &mut Markup<'_>, table: &TableInspection) {
        let scale = Scale::of(table);
        let lanes = lanes_of(table);
        let in_memory = table.subtables.iter().any(|part| !part.memtables.is_empty());
        let memory_height = if in_memory { 24.0 } else { 0.0 };
        let mut tops = Vec::new();
        let mut y = TOP + memory_height;
        for (at, lane) in lanes.iter().enumerate() {
            // Sub-levels stand closer than levels.
            y += if at > 0 && lane.level == 0 { 3.0 } else { 10.0 };
            tops.push(y);
            y += lane.height;
        }
        let height = y + 12.0;
        let view = format!("0 0 {WIDTH} {height}");
        let label = format!("The levels of {}", self.names.table(table.space.table));
        let attributes: [(&str, &dyn std::fmt::Display); 3] =
            [("viewBox", &view), ("role", &"img"), ("aria-label", &label)];
        section.element("svg", &attributes, |svg| {
            self.bounds_of_parts(svg, table, &scale, height);
            if in_memory {
                memory(svg, table, &scale);
            }
            for (lane, top) in lanes.iter().zip(&tops) {
                self.lane(svg, table, &scale, lane, *top);
            }
            for level in 0..3 {
                let first = lanes.iter().position(|lane| lane.level == level);
                if let Some(first) = first {
                    bar(svg, table, level, tops[first], lanes[first].height);
                }
            }
        });
    }

    /// Draws lines at the bounds of sub-tables, with their names if there is room.
    fn bounds_of_parts(
        &self,
        svg: &mut Markup<'_>,
        table: &TableInspection,
        scale: &Scale<'_>,
        height: f64,
    ) {
        let mut free_from = LEFT - 1.0;
        for part in &table.subtables {
            let x = scale.begin(&part.start);
            let end = height - 8.0;
            let from = TOP - 10.0;
            svg.element("g", &[("class", &"bound")], |group| {
                group.empty("line", &[("x1", &x), ("x2", &x), ("y1", &from), ("y2", &end)]);
                let bounds = self.bounds(table.space.table, &part.start, part.end.as_deref());
                group.line("title", &[], format_args!("sub-table {bounds}"));
                if x > free_from && x + BOUND_ROOM < RIGHT + 60.0 {
                    let name = match &part.start[..] {
                        [] => "first key".to_owned(),
                        start => self.key(table.space.table, start),
                    };
                    let (x, y) = (x + 3.0, TOP - 14.0);
                    group.line("text", &[("x", &x), ("y", &y)], name);
                    free_from = x + BOUND_ROOM;
                }
            });
        }
        let (x, from, end) = (RIGHT, TOP - 10.0, height - 8.0);
        svg.element("g", &[("class", &"bound")], |group| {
            group.empty("line", &[("x1", &x), ("x2", &x), ("y1", &from), ("y2", &end)]);
        });
    }

    fn lane(
        &self,
        svg: &mut Markup<'_>,
        table: &TableInspection,
        scale: &Scale<'_>,
        lane: &Lane<'_>,
        top: f64,
    ) {
        let id = table.space.table;
        let (x, y) = (LEFT - 8.0, top + lane.height / 2.0 + 4.0);
        svg.line("text", &[("x", &x), ("y", &y), ("class", &"lane")], &lane.name);
        let (width, height) = (RIGHT - LEFT, lane.height);
        let place: [(&str, &dyn std::fmt::Display); 5] = [
            ("class", &"ground"),
            ("x", &LEFT),
            ("y", &top),
            ("width", &width),
            ("height", &height),
        ];
        svg.empty("rect", &place);
        for drawn in boxes(scale, &lane.slices) {
            let x = format!("{:.2}", drawn.from);
            // Leaves a line of background between neighbours, if there is room.
            let wide = drawn.to - drawn.from;
            let width = format!("{:.2}", if wide > 4.0 { wide - 1.0 } else { wide });
            let stripe = if lane.height > 20.0 { 4.0 } else { 2.0 };
            let body = lane.height - stripe;
            let below = top + body;
            let (colour, tier) = (drawn.hue.classes(), format!("tier f{}", drawn.hue.tier()));
            svg.element("g", &[], |group| {
                let place: [(&str, &dyn std::fmt::Display); 5] = [
                    ("class", &format_args!("slice {colour}").to_string()),
                    ("x", &x),
                    ("y", &top),
                    ("width", &width),
                    ("height", &body),
                ];
                group.empty("rect", &place);
                let place: [(&str, &dyn std::fmt::Display); 5] = [
                    ("class", &tier),
                    ("x", &x),
                    ("y", &below),
                    ("width", &width),
                    ("height", &stripe),
                ];
                group.empty("rect", &place);
                group.line("title", &[], self.told(id, lane, &drawn));
            });
        }
    }

    /// The text of a box's tooltip.
    fn told(&self, table: spillway::Table, lane: &Lane<'_>, drawn: &Drawn<'_>) -> String {
        let what = match drawn.slices {
            1 => format!(
                "extent {}, {} of {} blocks",
                drawn.first.extent, drawn.first.blocks, drawn.first.extent_blocks
            ),
            many => format!("{} slices", count(many)),
        };
        let keys = [&drawn.first.smallest, &drawn.last.largest].map(|key| self.key(table, key));
        let heat = match drawn.hue.temperature() {
            Some(heat) => format!("\ntemperature {heat:.0} (16 to 32 is the average)"),
            None => String::new(),
        };
        format!(
            "Level{}: {what}\nfrom {} to {}\n{} in blocks, {} dead beside them\n{} versions, {} tombstones{heat}\n{}, on {}",
            lane.level,
            keys[0],
            keys[1],
            bytes(drawn.bytes),
            bytes(drawn.dead),
            count(drawn.versions),
            percent(share(drawn.tombstones, drawn.versions)),
            drawn.first.coding,
            DeviceClass::ALL[drawn.hue.tier()],
        )
    }
}

/// The memtables of each sub-table.
fn memory(svg: &mut Markup<'_>, table: &TableInspection, scale: &Scale<'_>) {
    let (x, y) = (LEFT - 8.0, TOP + 13.0);
    svg.line("text", &[("x", &x), ("y", &y), ("class", &"lane")], "memory");
    let memory = |part: &spillway::SubTableInspection| {
        part.memtables.iter().map(|memtable| memtable.bytes).sum::<u64>()
    };
    let most = table.subtables.iter().map(memory).max().unwrap_or(0).max(1);
    for part in &table.subtables {
        let from = scale.begin(&part.start);
        let to = part.end.as_deref().map_or(RIGHT, |end| scale.begin(end));
        let full = (18.0 * memory(part) as f64 / most as f64).max(1.0);
        let (width, y) = ((to - from - 1.0).max(1.0), TOP + 18.0 - full);
        let (x, height) = (format!("{from:.2}"), format!("{full:.2}"));
        svg.element("g", &[], |group| {
            let place: [(&str, &dyn std::fmt::Display); 5] = [
                ("class", &"memory"),
                ("x", &x),
                ("y", &y),
                ("width", &width),
                ("height", &height),
            ];
            group.empty("rect", &place);
            let memtables = counted(part.memtables.len() as u64, "memtable", "memtables");
            let keys = part.memtables.iter().map(|memtable| memtable.keys).sum();
            let told = format!("{memtables}, {}, {} keys", bytes(memory(part)), count(keys));
            group.line("title", &[], told);
        });
    }
    let all: u64 = table.subtables.iter().map(memory).sum();
    let y = TOP + 13.0;
    svg.line("text", &[("x", &BARS), ("y", &y), ("class", &"figure")], bytes(all));
}

/// The device space of a level: used, dead, and unused ends.
fn bar(svg: &mut Markup<'_>, table: &TableInspection, level: usize, top: f64, lane_height: f64) {
    let most = table.space.levels.iter().map(|level| level.slot_bytes).max().unwrap_or(0).max(1);
    let space: &LevelSpace = &table.space.levels[level];
    let height = 12.0;
    let y = top + (lane_height - height) / 2.0;
    let used = space.slot_bytes.saturating_sub(space.dead_bytes + space.slack_bytes);
    let mut x = BARS;
    svg.element("g", &[], |group| {
        let parts = [("used", used), ("dead-bar", space.dead_bytes), ("slack", space.slack_bytes)];
        for (class, of) in parts {
            let width = BAR_WIDTH * of as f64 / most as f64;
            let [from, wide] = [x, width].map(|figure| format!("{figure:.2}"));
            let place: [(&str, &dyn std::fmt::Display); 5] =
                [("class", &class), ("x", &from), ("y", &y), ("width", &wide), ("height", &height)];
            group.empty("rect", &place);
            x += width;
        }
        let told = format!(
            "{} in use, {} dead, {} unused ends",
            bytes(used),
            bytes(space.dead_bytes),
            bytes(space.slack_bytes)
        );
        group.line("title", &[], told);
    });
    let (x, y) = (x + 8.0, y + 10.0);
    let text = format!("{}, {} dense", bytes(space.slot_bytes), percent(space.density()));
    svg.line("text", &[("x", &format!("{x:.2}")), ("y", &y), ("class", &"figure")], text);
}
