//! Renders the contents of a database as text, as JSON, or as a picture.
//!
//! A [`Report`] has the contents of an open database (`Database::inspect`) or of a closed folder,
//! with names for tables and keys. A [`Format`] selects how it is rendered: as text, as JSON, or as
//! a picture on a self-contained page.

mod format;
mod json;
mod markup;
mod picture;
#[cfg(test)]
mod tests;
mod text;
mod words;

use std::fmt::{self, Write};

use spillway::{Inspection, MemoryInspection, Table, TableInspection};

pub use format::Format;
pub use words::utc;

/// Names of tables and keys.
pub trait Names {
    /// The name of a table.
    fn table(&self, table: Table) -> String;

    /// A key of a table in readable form.
    fn key(&self, table: Table, key: &[u8]) -> String {
        let _ = table;
        readable(key)
    }
}

/// Names for a database whose names are unknown: tables are shown by number.
#[derive(Clone, Copy, Debug, Default)]
pub struct Numbered;

impl Names for Numbered {
    fn table(&self, table: Table) -> String {
        format!("(key space {})", table.ordinal())
    }
}

/// A report to render.
#[derive(Clone, Copy)]
pub struct Report<'a> {
    /// The contents of the tiered engine.
    pub inspection: &'a Inspection,
    /// The contents of the memory engine; `None` if they are not shown.
    pub memory: Option<&'a MemoryInspection>,
    /// The names of its tables and keys.
    pub names: &'a dyn Names,
    /// The source: a folder or a server.
    pub title: &'a str,
}

/// Keeps only one table, `DATABASE.TABLE`, with its indexes. Of the memory engine, it keeps the
/// parts that belong to this table, and the checkpoint.
///
/// # Errors
/// The list of existing tables, if nothing of that table is in data files or in memory.
pub fn keep_only(
    inspection: &mut Inspection,
    memory: &mut MemoryInspection,
    names: &dyn Names,
    wanted: &str,
) -> Result<(), String> {
    let index_of = format!("{wanted}, index ");
    let is_wanted = |table: Table| {
        let name = names.table(table);
        name == wanted || name.starts_with(&index_of)
    };
    let name = |table: &TableInspection| names.table(table.space.table);
    let tiered = inspection.tables.iter().map(name);
    let all: Vec<String> =
        tiered.chain(memory.tables.iter().map(|table| names.table(table.table))).collect();
    inspection.tables.retain(|table| is_wanted(table.space.table));
    memory.tables.retain(|table| is_wanted(table.table));
    memory.segments.clear();
    memory.figures = None;
    if let Some(compactions) = &mut inspection.compactions {
        compactions.retain(|record| is_wanted(record.table));
    }
    if inspection.tables.is_empty() && memory.tables.is_empty() {
        let there = if all.is_empty() { "none".to_owned() } else { all.join("; ") };
        return Err(format!("no table {wanted} in data files or in memory. Tables found: {there}"));
    }
    Ok(())
}

/// The most bytes of memory that drawing takes for each slice of a table.
pub const DRAWN_BYTES: usize = 128;

/// The most characters of a key that are shown.
const KEY_SHOWN: usize = 28;

impl Report<'_> {
    /// A key, shortened.
    fn key(&self, table: Table, key: &[u8]) -> String {
        shortened(&self.names.key(table, key))
    }

    /// Renders everything in a format.
    #[must_use]
    pub fn written(&self, format: Format) -> String {
        let mut out = String::new();
        // Writing to a string does not fail.
        let _ = self.write(format, &mut out);
        out
    }

    /// Writes everything in a format, in pieces whose size does not grow with the number of slices.
    /// Drawing a table takes [`DRAWN_BYTES`] of memory for each of its slices.
    ///
    /// # Errors
    /// If `out` fails. Formats other than JSON may not report it, and discard the rest of their
    /// output.
    pub fn write(&self, format: Format, out: &mut dyn Write) -> fmt::Result {
        match format {
            Format::Text => self.text(out),
            Format::Json => {
                self.json(out)?;
                out.write_char('\n')?;
            }
            Format::Html => self.html(out),
        }
        Ok(())
    }

    /// The bounds of a sub-table, as text.
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

/// A key of unknown format: quoted if it is printable text, otherwise its bytes.
#[must_use]
pub fn readable(key: &[u8]) -> String {
    let is_text = |byte: &u8| matches!(byte, b' '..=b'~') && *byte != b'"';
    if key.iter().all(is_text) {
        return format!("\"{}\"", String::from_utf8_lossy(key));
    }
    let mut out = String::from("0x");
    for byte in key {
        // Writing to a string does not fail.
        let _ = write!(out, "{byte:02x}");
    }
    out
}
