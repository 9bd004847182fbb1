//! What is in a database, for people: as text, as JSON, and as a picture.
//!
//! A [`Report`] is what `Database::inspect` or a closed folder tells, with names for its tables and keys. [`Report::text`] and
//! [`Report::json`] tell all of it; [`Report::html`] draws it: a page of its own, which needs nothing from elsewhere.

mod json;
mod markup;
mod picture;
#[cfg(test)]
mod tests;
mod text;
mod words;

use std::fmt::Write;

use spillway::{Inspection, Table};

/// What tables and keys are called.
pub trait Names {
    /// What a table is called.
    fn table(&self, table: Table) -> String;

    /// A key of a table, so that people can read it.
    fn key(&self, table: Table, key: &[u8]) -> String {
        let _ = table;
        readable(key)
    }
}

/// Where nobody knows names: tables have numbers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Numbered;

impl Names for Numbered {
    fn table(&self, table: Table) -> String {
        format!("(key space {})", table.ordinal())
    }
}

/// What is to be told.
#[derive(Clone, Copy)]
pub struct Report<'a> {
    /// What there is.
    pub inspection: &'a Inspection,
    /// What it is called.
    pub names: &'a dyn Names,
    /// Whose it is: a folder, a server.
    pub title: &'a str,
}

/// Characters of a key that are shown.
const KEY_SHOWN: usize = 28;

impl Report<'_> {
    /// A key, shortened.
    fn key(&self, table: Table, key: &[u8]) -> String {
        shortened(&self.names.key(table, key))
    }

    /// Where a sub-table begins and ends.
    fn bounds(&self, table: Table, start: &[u8], end: Option<&[u8]>) -> String {
        let start =
            if start.is_empty() { "the first key".to_owned() } else { self.key(table, start) };
        let end = end.map_or_else(|| "the last".to_owned(), |end| self.key(table, end));
        format!("from {start} to {end}")
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(KEY_SHOWN) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// A key of which nothing is known: text in quotes where it is text, and else its bytes.
#[must_use]
pub fn readable(key: &[u8]) -> String {
    let is_text = |byte: &u8| matches!(byte, b' '..=b'~') && *byte != b'"';
    if key.iter().all(is_text) {
        return format!("\"{}\"", String::from_utf8_lossy(key));
    }
    let mut out = String::from("0x");
    for byte in key {
        // Writing to a text does not fail.
        let _ = write!(out, "{byte:02x}");
    }
    out
}
