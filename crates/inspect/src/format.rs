//! The formats of a report.

use std::fmt;
use std::str::FromStr;

/// The format of a report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// Tables of figures, for a terminal.
    Text,
    /// Everything, including single slices, for programs.
    Json,
    /// A picture, as a self-contained page.
    Html,
}

impl Format {
    /// All of them.
    pub const ALL: [Format; 3] = [Format::Text, Format::Json, Format::Html];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Format::Text => "text",
            Format::Json => "json",
            Format::Html => "html",
        }
    }

    /// Its content type in HTTP.
    #[must_use]
    pub fn content_type(self) -> &'static str {
        match self {
            Format::Text => "text/plain; charset=utf-8",
            Format::Json => "application/json",
            Format::Html => "text/html; charset=utf-8",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Format, String> {
        let format = Format::ALL.into_iter().find(|format| format.name() == text);
        format.ok_or_else(|| format!("{text} is not a format; use text, json or html"))
    }
}
