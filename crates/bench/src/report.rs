//! Medians, spread and ratios of a run, for people and for programs.

use std::fmt::{self, Write as _};
use std::path::{Path, PathBuf};

use clap::Args;

use crate::measure::median;

/// A column of figures.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    /// Its heading, with the unit.
    pub name: &'static str,
    /// Digits after the point.
    pub decimals: usize,
}

/// The figures of one subject under one case, once.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    /// The case, a value for each of the report's case columns.
    pub case: Vec<String>,
    /// The subject of the figures.
    pub subject: String,
    /// A value for each of the report's figures.
    pub figures: Vec<f64>,
}

/// The rows of a run. Displayed, it shows for each case and subject the median over the rounds of
/// every figure, the lowest and highest of the first, and the ratio of the first subject's median
/// of the first figure to that subject's.
#[derive(Clone, Debug, Default)]
pub struct Report {
    settings: Vec<(String, String)>,
    cases: Vec<&'static str>,
    figures: Vec<Figure>,
    rows: Vec<Row>,
    notes: Vec<String>,
}

impl Report {
    /// A report without rows. The first figure is a throughput: more is better.
    #[must_use]
    pub fn new(cases: &[&'static str], figures: &[Figure]) -> Report {
        Report { cases: cases.to_vec(), figures: figures.to_vec(), ..Report::default() }
    }

    /// Records a setting of the run.
    pub fn set(&mut self, name: impl Into<String>, value: impl ToString) {
        self.settings.push((name.into(), value.to_string()));
    }

    /// Adds a row.
    ///
    /// # Panics
    /// If it lacks a value for a case or figure.
    pub fn add(&mut self, row: Row) {
        assert_eq!((row.case.len(), row.figures.len()), (self.cases.len(), self.figures.len()));
        self.rows.push(row);
    }

    /// Adds a sentence under the table.
    pub fn note(&mut self, sentence: String) {
        self.notes.push(sentence);
    }

    /// The sentences under the table.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Every row, in the order run.
    #[must_use]
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// All subjects, in order of their first row.
    #[must_use]
    pub fn subjects(&self) -> Vec<String> {
        self.distinct(|row| row.subject.clone())
    }

    /// All cases, with a value for each of the case columns.
    #[must_use]
    pub fn cases(&self) -> Vec<Vec<String>> {
        self.distinct(|row| row.case.clone())
    }

    /// The median of a figure, by its index, over the rounds.
    #[must_use]
    pub fn median(&self, case: &[String], subject: &str, figure: usize) -> f64 {
        median(self.of(case, subject).map(|row| row.figures[figure]))
    }

    fn of<'a>(&'a self, case: &'a [String], subject: &'a str) -> impl Iterator<Item = &'a Row> {
        self.rows.iter().filter(move |row| row.case == case && row.subject == subject)
    }

    fn distinct<'a, T: PartialEq + 'a>(&'a self, of: impl Fn(&'a Row) -> T) -> Vec<T> {
        let mut seen = Vec::new();
        for value in self.rows.iter().map(of) {
            if !seen.contains(&value) {
                seen.push(value);
            }
        }
        seen
    }

    fn table(&self) -> Vec<Vec<String>> {
        let mut head: Vec<String> = self.cases.iter().map(|name| (*name).to_owned()).collect();
        head.push("of".to_owned());
        for (place, figure) in self.figures.iter().enumerate() {
            head.push(figure.name.to_owned());
            if place == 0 {
                head.extend(["min".to_owned(), "max".to_owned()]);
            }
        }
        let subjects = self.distinct(|row| row.subject.as_str());
        head.push(format!("{} over it", subjects.first().unwrap_or(&"")));
        let mut lines = vec![head];
        for case in self.distinct(|row| row.case.as_slice()) {
            let first = self.median(case, subjects[0], 0);
            for subject in &subjects {
                if self.of(case, subject).next().is_some() {
                    lines.push(self.line(case, subject, first));
                }
            }
        }
        lines
    }

    fn line(&self, case: &[String], subject: &str, first: f64) -> Vec<String> {
        let mut line = case.to_vec();
        line.push(subject.to_owned());
        for (place, figure) in self.figures.iter().enumerate() {
            // A figure that a subject does not report has no value.
            let show = |value: f64| match value.is_finite() {
                true => format!("{value:.*}", figure.decimals),
                false => "-".to_owned(),
            };
            line.push(show(self.median(case, subject, place)));
            if place == 0 {
                let values = || self.of(case, subject).map(|row| row.figures[0]);
                line.push(show(values().fold(f64::INFINITY, f64::min)));
                line.push(show(values().fold(f64::NEG_INFINITY, f64::max)));
            }
        }
        line.push(format!("{:.2}", first / self.median(case, subject, 0)));
        line
    }

    /// Every row as comma-separated values, under a header line.
    #[must_use]
    pub fn csv(&self) -> String {
        let names = self.cases.iter().copied().chain(["of"]);
        let names: Vec<_> = names.chain(self.figures.iter().map(|figure| figure.name)).collect();
        let mut text = names.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(",");
        text.push('\n');
        for row in &self.rows {
            let words = row.case.iter().chain([&row.subject]).map(|word| quoted(word));
            let figures = row.figures.iter().map(f64::to_string);
            text.push_str(&words.chain(figures).collect::<Vec<_>>().join(","));
            text.push('\n');
        }
        text
    }

    /// The settings and every row as JSON.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        let rows = self.rows.iter().map(|row| {
            let mut object = serde_json::Map::new();
            for (name, value) in self.cases.iter().zip(&row.case) {
                object.insert((*name).to_owned(), value.as_str().into());
            }
            object.insert("of".to_owned(), row.subject.as_str().into());
            for (figure, value) in self.figures.iter().zip(&row.figures) {
                object.insert(figure.name.to_owned(), (*value).into());
            }
            serde_json::Value::Object(object)
        });
        let settings = self.settings.iter().map(|(name, value)| (name.clone(), value.as_str()));
        serde_json::json!({
            "settings": settings.collect::<std::collections::BTreeMap<_, _>>(),
            "rows": rows.collect::<Vec<_>>(),
            "notes": self.notes,
        })
    }
}

fn quoted(word: &str) -> String {
    if word.contains([',', '"', '\n']) {
        format!("\"{}\"", word.replace('"', "\"\""))
    } else {
        word.to_owned()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in &self.settings {
            writeln!(f, "{name}: {value}")?;
        }
        if self.rows.is_empty() {
            return writeln!(f, "nothing was run");
        }
        let table = self.table();
        let width = |column: usize| {
            table.iter().map(|line| line[column].chars().count()).max().unwrap_or(0).max(3)
        };
        let words = self.cases.len() + 1;
        writeln!(f)?;
        for (number, line) in table.iter().enumerate() {
            let mut text = String::new();
            for (column, cell) in line.iter().enumerate() {
                let width = width(column);
                // Words are aligned left, figures right.
                if column < words {
                    write!(text, "| {cell:width$} ")?;
                } else {
                    write!(text, "| {cell:>width$} ")?;
                }
            }
            writeln!(f, "{text}|")?;
            if number == 0 {
                let rule = (0..line.len()).map(|column| {
                    let dashes = "-".repeat(width(column) + 1);
                    if column < words { format!("|-{dashes}") } else { format!("|{dashes}:") }
                });
                writeln!(f, "{}|", rule.collect::<String>())?;
            }
        }
        if !self.notes.is_empty() {
            writeln!(f)?;
        }
        self.notes.iter().try_for_each(|note| writeln!(f, "{note}"))
    }
}

/// The options that every run over stores has.
#[derive(Args, Clone, Debug)]
pub struct CommonArgs {
    /// Seed of all random choices
    #[arg(long, default_value_t = 42)]
    pub seed: u64,
    /// Folder for the stores' data and other files, which are removed when no longer needed
    #[arg(long, default_value = ".bench")]
    pub dir: PathBuf,
    /// Files for the report
    #[command(flatten)]
    pub output: OutputArgs,
}

/// The outputs of a report besides the terminal.
#[derive(Args, Clone, Debug, Default)]
pub struct OutputArgs {
    /// Write settings and every row to this file as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write every row to this file as comma-separated values
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
}

impl OutputArgs {
    /// Prints a report and writes the requested files.
    ///
    /// # Errors
    /// An error that prevents writing a file, as text.
    pub fn give(&self, report: &Report) -> Result<(), String> {
        print!("{report}");
        self.write(report)
    }

    /// Writes the requested files.
    ///
    /// # Errors
    /// An error that prevents writing a file, as text.
    pub fn write(&self, report: &Report) -> Result<(), String> {
        let write = |path: &Path, text: String| {
            std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
        };
        if let Some(path) = &self.json {
            write(path, format!("{:#}\n", report.json()))?;
        }
        if let Some(path) = &self.csv {
            write(path, report.csv())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let figures =
            [Figure { name: "puts/s", decimals: 0 }, Figure { name: "p99 us", decimals: 1 }];
        let mut report = Report::new(&["threads"], &figures);
        report.set("keys", 10);
        report.note("More is better.".into());
        for (subject, throughput) in
            [("ours", 30.0), ("its, other", 10.0), ("ours", 50.0), ("ours", 40.0)]
        {
            let row = Row {
                case: vec!["1".into()],
                subject: subject.into(),
                figures: vec![throughput, 2.0],
            };
            report.add(row);
        }
        report
    }

    #[test]
    fn it_shows_medians_spread_and_ratios() {
        let shown = report().to_string();
        assert!(shown.contains("keys: 10"), "{shown}");
        assert!(shown.ends_with("|\n\nMore is better.\n"), "{shown}");
        let lines: Vec<String> = shown
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        assert!(
            lines.contains(&"| threads | of | puts/s | min | max | p99 us | ours over it |".into())
        );
        assert!(lines.contains(&"| 1 | ours | 40 | 30 | 50 | 2.0 | 1.00 |".into()), "{shown}");
        assert!(
            lines.contains(&"| 1 | its, other | 10 | 10 | 10 | 2.0 | 4.00 |".into()),
            "{shown}"
        );
    }

    #[test]
    fn programs_get_every_row() {
        let report = report();
        assert_eq!(
            report.csv(),
            "threads,of,puts/s,p99 us\n1,ours,30,2\n1,\"its, other\",10,2\n1,ours,50,2\n1,ours,40,2\n"
        );
        let json = report.json();
        assert_eq!(json["settings"]["keys"], "10");
        assert_eq!(json["rows"][1]["of"], "its, other");
        assert_eq!(json["rows"][2]["puts/s"], 50.0);
    }
}
