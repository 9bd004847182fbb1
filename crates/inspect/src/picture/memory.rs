//! Draws the memory engine: its figures, its tables, and how many bytes of its kept segments are
//! live.

use spillway::{MemoryInspection, SegmentInspection};

use super::WIDTH;
use crate::Report;
use crate::markup::Markup;
use crate::words::{bytes, count, counted, memory_lines, memory_summary, percent, share};

/// The most bars that are drawn. If there are more segments, a bar stands for several.
const BARS: usize = 200;
const BAR_HEIGHT: f64 = 80.0;
const GAP: f64 = 1.0;

impl Report<'_> {
    /// Writes the memory engine, if the report has it.
    pub(super) fn memory_section(&self, main: &mut Markup<'_>) {
        let Some(of) = self.memory else { return };
        main.element("section", &[], |section| {
            section.line("h2", &[], "Memory engine");
            section.line("p", &[], memory_summary(of));
            for told in memory_lines(of) {
                section.line("p", &[], told);
            }
            self.memory_table(section, of);
            let kept: Vec<&SegmentInspection> = of.kept().collect();
            if !kept.is_empty() && kept.iter().all(|segment| segment.live_bytes.is_some()) {
                bars(section, &kept);
            }
        });
    }

    fn memory_table(&self, section: &mut Markup<'_>, of: &MemoryInspection) {
        if of.tables.is_empty() {
            return;
        }
        const HEADS: [&str; 11] = [
            "",
            "keys",
            "rows in memory",
            "evicted",
            "versions",
            "index",
            "array",
            "keys in the checkpoint",
            "page files",
            "pages",
            "bytes",
        ];
        section.element("table", &[], |rows| {
            rows.element("tr", &[], |row| HEADS.iter().for_each(|head| row.line("th", &[], head)));
            for table in &of.tables {
                let memory = table.memory.map(|memory| {
                    [
                        count(memory.rows),
                        count(memory.evicted_rows),
                        bytes(memory.version_bytes),
                        bytes(memory.index_bytes),
                        bytes(memory.array_bytes),
                    ]
                });
                let stored = table.stored.map(|stored| {
                    [
                        count(stored.keys),
                        count(stored.page_files),
                        count(stored.pages),
                        bytes(stored.bytes),
                    ]
                });
                rows.element("tr", &[], |row| {
                    row.line("th", &[], self.names.table(table.table));
                    row.line("td", &[], count(table.keys));
                    memory.unwrap_or_default().iter().for_each(|cell| row.line("td", &[], cell));
                    stored.unwrap_or_default().iter().for_each(|cell| row.line("td", &[], cell));
                });
            }
        });
    }
}

/// Draws a bar for each kept segment, in the order of lanes and numbers: the live part, above the
/// rest.
fn bars(section: &mut Markup<'_>, kept: &[&SegmentInspection]) {
    let each = kept.len().div_ceil(BARS);
    let width = WIDTH / kept.len().div_ceil(each) as f64;
    let view = format!("0 0 {WIDTH} {}", BAR_HEIGHT + 18.0);
    section.element("svg", &[("viewBox", &view)], |svg| {
        let y = BAR_HEIGHT + 14.0;
        let caption = "kept segments by lane and number: what rows need, and the rest";
        svg.line("text", &[("x", &0), ("y", &y)], caption);
        for (at, group) in kept.chunks(each).enumerate() {
            let all: u64 = group.iter().filter_map(|segment| segment.bytes).sum();
            let live: u64 = group.iter().filter_map(|segment| segment.live_bytes).sum();
            let part = share(live, all).min(1.0);
            let (x, bar) = (width * at as f64, (width - GAP).clamp(1.0, 40.0));
            let used = BAR_HEIGHT * part;
            svg.element("g", &[], |bars| {
                let told = format!(
                    "{}\n{}, of them {} alive ({})",
                    name(group),
                    bytes(all),
                    bytes(live),
                    percent(part)
                );
                bars.line("title", &[], told);
                let mut rect = |class: &str, y: f64, height: f64| {
                    bars.empty(
                        "rect",
                        &[
                            ("class", &class),
                            ("x", &format_args!("{x:.1}")),
                            ("y", &format_args!("{y:.1}")),
                            ("width", &format_args!("{bar:.1}")),
                            ("height", &format_args!("{height:.1}")),
                        ],
                    );
                };
                rect("dead-bar", used, BAR_HEIGHT - used);
                rect("used", 0.0, used);
            });
        }
    });
}

/// The names of neighbouring segments.
fn name(group: &[&SegmentInspection]) -> String {
    let one = |segment: &SegmentInspection| match segment.lane {
        Some(lane) => format!("segment {} of lane {lane}", segment.number),
        None => format!("compacted segment {}", segment.number),
    };
    match group {
        [] => String::new(),
        [only] => one(only),
        [first, .., last] => {
            let many = counted(group.len() as u64, "segment", "segments");
            format!("{many}: {} to {}", one(first), one(last))
        }
    }
}
