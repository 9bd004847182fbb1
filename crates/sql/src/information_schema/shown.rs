//! The result of a SHOW statement, as columns and rows.

use spillway_types::{ColumnType, Value};

use crate::api::TEXT;

/// The result of a SHOW statement.
pub(crate) struct Shown {
    pub(crate) columns: Vec<(String, ColumnType)>,
    pub(crate) rows: Vec<Vec<Value>>,
}

pub(super) fn shown(columns: &[&str], rows: Vec<Vec<Value>>) -> Shown {
    Shown { columns: columns.iter().map(|name| ((*name).to_owned(), TEXT)).collect(), rows }
}

pub(super) fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\'', "''").replace('\n', "\\n")
}
