//! Percentages over time, as a picture.

use std::error::Error;
use std::path::{Path, PathBuf};

use clap::Args;
use plotters::prelude::*;

const COLORS: [RGBColor; 4] =
    [RGBColor(0, 90, 181), RGBColor(220, 50, 32), RGBColor(230, 159, 0), RGBColor(90, 90, 90)];

/// The files for the results of every window.
#[derive(Args, Clone, Debug, Default)]
pub struct SeriesArgs {
    /// Write every window of each run to this file
    #[arg(long, value_name = "FILE")]
    pub series: Option<PathBuf>,
    /// Draw the last round into this file
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

impl SeriesArgs {
    /// Writes the requested files: comma-separated values, and a picture of lines.
    pub(crate) fn write(
        &self,
        text: impl FnOnce() -> String,
        heading: &str,
        lines: impl FnOnce() -> Vec<(String, Vec<f64>)>,
    ) -> Result<(), String> {
        if let Some(path) = &self.series {
            std::fs::write(path, text()).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        match &self.svg {
            Some(path) => draw(heading, &lines(), path),
            None => Ok(()),
        }
    }
}

/// Draws lines into an SVG file, each with a name and its values window by window.
pub(crate) fn draw(heading: &str, lines: &[(String, Vec<f64>)], path: &Path) -> Result<(), String> {
    chart(heading, lines, path).map_err(|error| format!("{}: {error}", path.display()))
}

fn chart(heading: &str, lines: &[(String, Vec<f64>)], path: &Path) -> Result<(), Box<dyn Error>> {
    let area = SVGBackend::new(path, (1000, 400)).into_drawing_area();
    area.fill(&WHITE)?;
    let shares = || lines.iter().flat_map(|(_, shares)| shares.iter().copied());
    let windows = lines.iter().map(|(_, shares)| shares.len()).max().unwrap_or(1).max(2);
    let lowest = (shares().fold(100.0, f64::min) - 2.0).max(0.0);
    let mut chart = ChartBuilder::on(&area)
        .caption(heading, ("sans-serif", 15))
        .margin(8)
        .x_label_area_size(24)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..windows as f64, lowest..100.0)?;
    chart.configure_mesh().light_line_style(RGBColor(240, 240, 240)).draw()?;
    for (number, (name, shares)) in lines.iter().enumerate() {
        let color = COLORS[number % COLORS.len()];
        let points = shares.iter().enumerate().map(|(at, share)| (at as f64 + 0.5, *share));
        let mark = move |(x, y)| PathElement::new([(x, y), (x + 16, y)], color);
        let line = chart.draw_series(LineSeries::new(points, color.stroke_width(2)))?;
        line.label(name.clone()).legend(mark);
    }
    let mut labels = chart.configure_series_labels();
    labels.background_style(WHITE.mix(0.8)).border_style(BLACK.mix(0.3));
    labels.position(SeriesLabelPosition::LowerRight).draw()?;
    area.present()?;
    Ok(())
}
