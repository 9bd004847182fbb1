//! Renders a report as a picture: a self-contained page for a browser.
//!
//! A table is drawn with its keys from left to right and its levels from top to bottom. The scale
//! of keys is their rank: neighbouring bounds of slices are always the same distance apart. So key
//! ranges with more slices get more room. Slices that would be too narrow to see are drawn together
//! as one box, which states their number.

mod lanes;
mod measure;
mod memory;
mod timeline;

use std::fmt::Write;

use spillway::TableInspection;

use crate::Report;
use crate::markup::Markup;
use crate::words::{
    as_of, bytes, codings, count, counted, knows_warmth, percent, share, tiers, warmth,
};
pub(crate) use measure::Measure;

/// The number of tables drawn, the largest first; the text has all of them.
const TABLES_DRAWN: usize = 40;

/// The width of pictures.
const WIDTH: f64 = 1180.0;

const STYLE: &str = include_str!("style.css");

impl Report<'_> {
    /// Writes a page with a picture of each table and of the newest compactions.
    pub(crate) fn html(&self, out: &mut dyn Write) {
        Markup::page(out, |page| {
            page.element("html", &[("lang", &"en")], |page| {
                page.element("head", &[], |head| {
                    head.empty("meta", &[("charset", &"utf-8")]);
                    let viewport = "width=device-width, initial-scale=1";
                    head.empty("meta", &[("name", &"viewport"), ("content", &viewport)]);
                    head.line("title", &[], format_args!("Spillway: {}", self.title));
                    head.style(STYLE);
                });
                page.element("body", &[], |body| self.body(body));
            });
        })
    }

    fn body(&self, body: &mut Markup<'_>) {
        body.line("h1", &[], self.title);
        let summary = self.summary();
        let summary = summary.strip_prefix(self.title).unwrap_or(&summary);
        body.line("p", &[], summary.trim_start_matches(": "));
        if let Some(as_of) = as_of(self.inspection) {
            body.line("p", &[], as_of);
        }
        let how = "Keys from left to right, levels from top to bottom; a stripe beneath a box is its tier. Bars: in use, dead, unused \
                   ends. Hover over anything to see what it is.";
        body.line("p", &[], how);
        self.controls(body);
        body.element("main", &[], |main| {
            let tables = self.inspection.tables.iter();
            let (mut largest, in_memory): (Vec<&TableInspection>, Vec<_>) = tables
                .partition(|table| table.subtables.iter().any(|part| !part.slices.is_empty()));
            largest.sort_by_key(|table| std::cmp::Reverse(table.space.on_devices().slot_bytes));
            let left_out = largest.len().saturating_sub(TABLES_DRAWN);
            largest.truncate(TABLES_DRAWN);
            for table in largest {
                self.table(main, table);
            }
            if left_out > 0 {
                let smaller = counted(left_out as u64, "smaller table is", "smaller tables are");
                main.line("p", &[], format_args!("{smaller} not drawn."));
            }
            if !in_memory.is_empty() {
                let names = in_memory.iter().map(|table| self.names.table(table.space.table));
                let names = names.collect::<Vec<_>>().join("; ");
                main.line("p", &[], format_args!("Nothing in data files yet: {names}."));
            }
            self.timeline(main);
            self.memory_section(main);
        });
    }

    /// The choice of the measure that colours boxes, and the legend. There is no script: the style
    /// sheet acts on the checked input, so the inputs come before everything that they change.
    fn controls(&self, body: &mut Markup<'_>) {
        let warm = self.inspection.compactions.is_some();
        let first = if warm { Measure::Temperature } else { Measure::Dead };
        for measure in Measure::ALL {
            let id = format_args!("by-{}", measure.name()).to_string();
            let mut attributes: Vec<(&str, &dyn std::fmt::Display)> =
                vec![("type", &"radio"), ("name", &"by"), ("id", &id)];
            if measure == first {
                attributes.push(("checked", &"checked"));
            }
            body.empty("input", &attributes);
            body.line("label", &[("for", &id)], measure.title());
        }
        body.element("div", &[("class", &"legend")], |legend| {
            for measure in Measure::ALL {
                legend.element("p", &[("class", &measure.name())], |line| {
                    for (class, meaning) in measure.meanings() {
                        let class = format!("swatch {class}");
                        line.line("span", &[("class", &class)], "");
                        line.line("span", &[], meaning);
                    }
                });
            }
        });
    }

    fn table(&self, main: &mut Markup<'_>, table: &TableInspection) {
        let id = table.space.table;
        main.element("section", &[], |section| {
            section.line("h2", &[], self.names.table(id));
            let on = table.space.on_devices();
            section.line(
                "p",
                &[],
                format_args!(
                    "{}, {} of {}, {} dead",
                    counted(table.subtables.len() as u64, "sub-table", "sub-tables"),
                    counted(on.extents, "extent", "extents"),
                    bytes(on.slot_bytes),
                    bytes(on.dead_bytes)
                ),
            );
            if table
                .subtables
                .iter()
                .any(|part| !part.slices.is_empty() || !part.memtables.is_empty())
            {
                self.lanes(section, table);
            }
            levels_table(section, table);
        });
    }
}

/// The figures of a table's levels, and of its tiers.
fn levels_table(section: &mut Markup<'_>, table: &TableInspection) {
    let levels = table.space.levels.iter().enumerate().filter(|(_, level)| level.slices > 0);
    section.element("table", &[], |rows| {
        rows.element("tr", &[], |row| {
            for head in [
                "",
                "slices",
                "extents",
                "newest",
                "payload",
                "blocks",
                "slots",
                "dead",
                "dense",
                "versions",
                "tombstones",
                "hot",
                "cold",
                "coding",
                "tier",
            ] {
                row.line("th", &[], head);
            }
        });
        for (number, level) in levels {
            let [hot, cold] = warmth(level, knows_warmth(table));
            rows.element("tr", &[], |row| {
                row.line("th", &[], format_args!("Level{number}"));
                for cell in [
                    count(level.slices),
                    count(level.extents),
                    bytes(level.newest_bytes),
                    bytes(level.payload_bytes),
                    bytes(level.block_bytes),
                    bytes(level.slot_bytes),
                    bytes(level.dead_bytes),
                    percent(level.density()),
                    count(level.versions),
                    percent(share(level.tombstones, level.versions)),
                    hot,
                    cold,
                    codings(level),
                    tiers(level),
                ] {
                    row.line("td", &[], cell);
                }
            });
        }
        for (class, on) in &table.space.classes {
            rows.element("tr", &[], |row| {
                row.line("th", &[], format_args!("on {class}"));
                for cell in [
                    String::new(),
                    count(on.extents),
                    bytes(on.newest_bytes),
                    bytes(on.payload_bytes),
                    bytes(on.block_bytes),
                    bytes(on.slot_bytes),
                    bytes(on.dead_bytes),
                    percent(share(on.block_bytes, on.slot_bytes)),
                ] {
                    row.line("td", &[], cell);
                }
            });
        }
    });
}
