//! Draws the latest compactions over time.

use spillway::CompactionRecord;

use super::WIDTH;
use crate::Report;
use crate::markup::Markup;
use crate::words::{NOT_KNOWN, bytes, count, done, no_compactions, time, utc};

const LEFT: f64 = 110.0;
const RIGHT: f64 = WIDTH - 14.0;
const LANE: f64 = 24.0;
/// The number of compactions that are listed below the picture.
const LISTED: usize = 20;

impl Report<'_> {
    /// Draws the latest compactions, a lane for each kind, and lists the last of them.
    pub(super) fn timeline(&self, main: &mut Markup<'_>) {
        main.element("section", &[], |section| {
            section.line("h2", &[], "Recent compactions");
            let all = match &self.inspection.compactions {
                None => return section.line("p", &[], NOT_KNOWN),
                Some(all) if all.is_empty() => {
                    return section.line("p", &[], no_compactions(self.inspection));
                }
                Some(all) => all,
            };
            self.draw(section, all);
            self.list(section, &all[all.len().saturating_sub(LISTED)..]);
        });
    }

    fn draw(&self, section: &mut Markup<'_>, all: &[CompactionRecord]) {
        let begins = all.iter().map(|record| record.ended.saturating_sub(record.took));
        let (Some(from), Some(to)) = (begins.min(), all.iter().map(|record| record.ended).max())
        else {
            return;
        };
        let span = to.saturating_sub(from).as_secs_f64().max(1e-3);
        let at = |moment: std::time::Duration| {
            LEFT + (RIGHT - LEFT) * moment.saturating_sub(from).as_secs_f64() / span
        };
        let mut kinds: Vec<String> = Vec::new();
        for record in all {
            let kind = record.kind.to_string();
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        let bottom = 10.0 + LANE * kinds.len() as f64;
        let view = format!("0 0 {WIDTH} {}", bottom + 24.0);
        let attributes: [(&str, &dyn std::fmt::Display); 3] =
            [("viewBox", &view), ("role", &"img"), ("aria-label", &"Compactions over time")];
        section.element("svg", &attributes, |svg| {
            for step in 0..5_u32 {
                let x = LEFT + (RIGHT - LEFT) * f64::from(step) / 4.0;
                let before = std::time::Duration::from_secs_f64(span * f64::from(4 - step) / 4.0);
                svg.empty(
                    "line",
                    &[("class", &"tick"), ("x1", &x), ("x2", &x), ("y1", &6), ("y2", &bottom)],
                );
                let text = match step {
                    4 => "the last".to_owned(),
                    _ => format!("{} before", time(before)),
                };
                let (class, y) = (if step == 0 { "tick-first" } else { "tick" }, bottom + 16.0);
                let class = if step == 4 { "tick-last" } else { class };
                svg.line("text", &[("class", &class), ("x", &x), ("y", &y)], text);
            }
            for (number, kind) in kinds.iter().enumerate() {
                let y = 10.0 + LANE * number as f64;
                let (x, text_y) = (LEFT - 8.0, y + 13.0);
                svg.line("text", &[("x", &x), ("y", &text_y), ("class", &"lane")], kind);
                for record in all.iter().filter(|record| record.kind.to_string() == *kind) {
                    let begin = at(record.ended.saturating_sub(record.took));
                    let width = (at(record.ended) - begin).max(3.0);
                    let [x, width] = [begin.min(RIGHT - width), width].map(|f| format!("{f:.2}"));
                    let class = format!("work k{number}");
                    svg.element("g", &[], |group| {
                        let place: [(&str, &dyn std::fmt::Display); 5] = [
                            ("class", &class),
                            ("x", &x),
                            ("y", &y),
                            ("width", &width),
                            ("height", &(LANE - 6.0)),
                        ];
                        group.empty("rect", &place);
                        let table = self.names.table(record.table);
                        group.line(
                            "title",
                            &[],
                            format_args!(
                                "{} {} of {table} into Level{}, {}\n{}",
                                record.kind,
                                record.number,
                                record.level,
                                time(record.took),
                                done(record)
                            ),
                        );
                    });
                }
            }
        });
    }

    fn list(&self, section: &mut Markup<'_>, all: &[CompactionRecord]) {
        section.element("table", &[], |rows| {
            rows.element("tr", &[], |row| {
                for head in [
                    "", "ended", "took", "kind", "table", "into", "slices", "read", "relinked",
                    "slices", "carried", "blocks", "merged", "written", "extents",
                ] {
                    row.line("th", &[], head);
                }
            });
            for record in all.iter().rev() {
                rows.element("tr", &[], |row| {
                    row.line("th", &[], record.number);
                    for cell in [
                        utc(record.ended),
                        time(record.took),
                        record.kind.to_string(),
                        self.names.table(record.table),
                        format!("Level{}", record.level),
                        count(record.input_slices),
                        bytes(record.input_bytes),
                        bytes(record.relinked_bytes),
                        count(record.relinked_slices),
                        bytes(record.carried_bytes),
                        count(record.carried_blocks),
                        bytes(record.merged_bytes),
                        bytes(record.written_bytes),
                        count(record.written_extents),
                    ] {
                        row.line("td", &[], cell);
                    }
                });
            }
        });
    }
}
