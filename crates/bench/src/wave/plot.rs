//! The runs over time, as one picture.

use std::error::Error;
use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;

use super::series::{Run, WaveSecond};

const COLORS: [RGBColor; 4] =
    [RGBColor(0, 90, 181), RGBColor(220, 50, 32), RGBColor(230, 159, 0), RGBColor(90, 90, 90)];

/// A panel: its heading, the figure of a second that it shows, and whether its scale is
/// logarithmic.
type Panel = (&'static str, fn(&WaveSecond) -> f64, bool);

const PANELS: [Panel; 4] = [
    ("operations ended per second", |second| second.ended as f64, false),
    ("p99 latency from the moment due, ms", |second| second.p99_us / 1e3, true),
    (
        "memory as the store counts it, MiB (grey: the budget)",
        |second| mib(second.memory_bytes),
        false,
    ),
    ("seconds that writers waited, over all of them", |second| second.waited_s, false),
];

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Draws the runs into an SVG file. Those of one store have the same colour.
pub(super) fn draw(runs: &[Run], path: &Path) -> Result<(), String> {
    let panels = || -> Result<(), Box<dyn Error>> {
        let area = SVGBackend::new(path, (1000, 1100)).into_drawing_area();
        area.fill(&WHITE)?;
        for (part, panel) in area.split_evenly((PANELS.len(), 1)).iter().zip(PANELS) {
            draw_panel(part, panel, runs)?;
        }
        area.present()?;
        Ok(())
    };
    panels().map_err(|error| format!("{}: {error}", path.display()))
}

fn draw_panel(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    (heading, figure, logarithmic): Panel,
    runs: &[Run],
) -> Result<(), Box<dyn Error>> {
    let seconds = runs.iter().map(|run| run.seconds.len()).max().unwrap_or(1).max(2);
    let every = || runs.iter().flat_map(|run| run.seconds.iter().map(figure));
    let memory = heading.starts_with("memory");
    let budget = runs.first().map_or(0.0, |run| mib(run.budget_bytes));
    let highest = every().fold(if memory { budget } else { 1e-3 }, f64::max) * 1.1;
    let lowest = every().filter(|value| *value > 0.0).fold(highest / 10.0, f64::min);
    let mut chart = ChartBuilder::on(area);
    chart.caption(heading, ("sans-serif", 15)).margin(8);
    chart.x_label_area_size(24).y_label_area_size(64);
    let time = 0.0..(seconds as f64);
    // The two scales have different chart types.
    macro_rules! draw_on {
        ($scale:expr) => {{
            let mut chart = chart.build_cartesian_2d(time, $scale)?;
            chart.configure_mesh().light_line_style(RGBColor(240, 240, 240)).draw()?;
            if let Some(run) = runs.first() {
                let at = run.before_s as f64;
                chart
                    .draw_series(LineSeries::new([(at, lowest), (at, highest)], BLACK.mix(0.4)))?;
                if heading.starts_with("memory") {
                    let budget = mib(run.budget_bytes).min(highest);
                    let line = [(0.0, budget), (seconds as f64, budget)];
                    chart.draw_series(LineSeries::new(line, BLACK.mix(0.4)))?;
                }
            }
            let mut stores: Vec<&str> = Vec::new();
            for run in runs {
                let known = stores.iter().position(|store| *store == run.store);
                let color = COLORS[known.unwrap_or(stores.len()) % COLORS.len()];
                let point = |(at, second): (usize, &WaveSecond)| {
                    (at as f64 + 0.5, figure(second).max(if logarithmic { lowest } else { 0.0 }))
                };
                let points = run.seconds.iter().enumerate().map(point);
                let series = chart.draw_series(LineSeries::new(points, color.stroke_width(2)))?;
                if known.is_none() {
                    stores.push(&run.store);
                    let mark = move |(x, y)| PathElement::new([(x, y), (x + 16, y)], color);
                    series.label(run.store.clone()).legend(mark);
                }
            }
            let mut labels = chart.configure_series_labels();
            labels.background_style(WHITE.mix(0.8)).border_style(BLACK.mix(0.3));
            labels.position(SeriesLabelPosition::UpperLeft).draw()?;
        }};
    }
    if logarithmic {
        draw_on!((lowest * 0.8..highest).log_scale());
    } else {
        draw_on!(0.0..highest);
    }
    Ok(())
}
