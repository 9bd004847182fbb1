//! The types that a client of this crate sees: columns, rows, outcomes.

use std::sync::Arc;

use smallvec::SmallVec;
use spillway::CommitFuture;
use spillway_types::{Collation, ColumnType, Field, Value, ValueRef};

use crate::errors::SqlError;

/// A column of a result.
#[derive(Clone, PartialEq, Debug)]
pub struct ResultColumn {
    /// The database it comes from; empty for expressions.
    pub schema: Arc<str>,
    /// The table's alias.
    pub table: Arc<str>,
    /// The table's name.
    pub org_table: Arc<str>,
    /// The column's name in the result.
    pub name: Arc<str>,
    /// The column's name in its table.
    pub org_name: Arc<str>,
    /// The type.
    pub column_type: ColumnType,
    /// The collation of text.
    pub collation: Collation,
    /// Its flags.
    pub flags: ColumnFlags,
}

/// A column's flags.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ColumnFlags {
    /// It is never NULL.
    pub not_null: bool,
    /// It is part of the primary key.
    pub primary: bool,
    /// It is the first of a unique index.
    pub unique: bool,
    /// It is the first of an index.
    pub multiple: bool,
    /// It counts up.
    pub auto_increment: bool,
}

/// The state of a session, as the protocol reports it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Status {
    /// A transaction is open.
    pub in_transaction: bool,
    /// Statements commit by themselves.
    pub autocommit: bool,
    /// A backslash in a text is a backslash: clients escape otherwise.
    pub no_backslash_escapes: bool,
    /// Another result of the same command follows.
    pub more_results: bool,
}

/// How a statement ended.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    /// Rows changed.
    pub affected_rows: u64,
    /// The first number that AUTO_INCREMENT gave.
    pub last_insert_id: u64,
    /// Warnings.
    pub warnings: u16,
    /// The session's state after it.
    pub status: Status,
    /// A word for people.
    pub info: Info,
}

/// The message for a statement that changed rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Info {
    /// Nothing.
    #[default]
    Nothing,
    /// `Records: 3  Duplicates: 0  Warnings: 0`.
    Inserted {
        /// Rows that came.
        records: u64,
        /// Those of them in whose way others were.
        duplicates: u64,
        /// Warnings.
        warnings: u64,
    },
    /// `Rows matched: 3  Changed: 2  Warnings: 0`.
    Updated {
        /// Rows that were found.
        matched: u64,
        /// Those of them that became others.
        changed: u64,
        /// Warnings.
        warnings: u64,
    },
}

impl Info {
    /// Appends it as text, and for nothing nothing.
    pub fn append_to(&self, out: &mut Vec<u8>) {
        let parts = match *self {
            Info::Nothing => return,
            Info::Inserted { records, duplicates, warnings } => {
                [("Records: ", records), ("  Duplicates: ", duplicates), ("  Warnings: ", warnings)]
            }
            Info::Updated { matched, changed, warnings } => {
                [("Rows matched: ", matched), ("  Changed: ", changed), ("  Warnings: ", warnings)]
            }
        };
        for (text, number) in parts {
            out.extend_from_slice(text.as_bytes());
            out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
        }
    }
}

/// Tells the plans of queries apart, of all that there ever were in this process.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PlanId(pub(crate) usize);

/// Takes results as they come. The server's writes packets; the shell's prints.
pub trait ResultSink {
    /// A result set begins.
    ///
    /// # Errors
    /// When nobody takes it any more.
    fn columns(&mut self, columns: &[ResultColumn]) -> Result<(), SqlError>;

    /// The same of a plan: its columns are those that it had before.
    ///
    /// # Errors
    /// As [`ResultSink::columns`].
    fn columns_of(&mut self, plan: PlanId, columns: &[ResultColumn]) -> Result<(), SqlError> {
        let _ = plan;
        self.columns(columns)
    }

    /// A row, its values in the columns' order.
    ///
    /// # Errors
    /// As [`ResultSink::columns`].
    fn row(&mut self, values: &[ValueRef<'_>]) -> Result<(), SqlError>;

    /// A row none of whose values is a decimal, as [`ResultSink::row`] is given one: for who writes
    /// most kinds on as they are.
    ///
    /// # Errors
    /// As [`ResultSink::columns`].
    fn fields(&mut self, fields: &[Field<'_>]) -> Result<(), SqlError> {
        let values: SmallVec<[ValueRef<'_>; 8]> =
            fields.iter().map(|field| field.value()).collect();
        self.row(&values)
    }

    /// The result set ends.
    ///
    /// # Errors
    /// As [`ResultSink::columns`].
    fn end_rows(&mut self, outcome: &Outcome) -> Result<(), SqlError>;

    /// A statement without a result set is done.
    ///
    /// # Errors
    /// As [`ResultSink::columns`].
    fn ok(&mut self, outcome: &Outcome) -> Result<(), SqlError>;

    /// A statement without a result set is done once its commit is known. An implementation that
    /// can send that later need not wait here; nothing else comes before the client's next command.
    ///
    /// # Errors
    /// As [`ResultSink::columns`], and the failure of the commit where it was waited for.
    fn ok_after(&mut self, commit: CommitFuture, outcome: &Outcome) -> Result<(), SqlError> {
        commit.wait()?;
        self.ok(outcome)
    }
}

pub(crate) const TEXT: ColumnType = ColumnType::VarChar(1024);

pub(crate) fn text(value: impl Into<String>) -> Value {
    Value::Text(value.into())
}

pub(crate) fn int(value: impl TryInto<i64>) -> Value {
    Value::Int(value.try_into().unwrap_or(i64::MAX))
}

/// A server in front of an instance.
pub trait Front: Send + Sync {
    /// Its counters, as SHOW STATUS lists them.
    fn status(&self) -> Vec<(String, String)>;

    /// A connection was killed: it is not to wait for its client any longer.
    fn wake(&self, connection_id: u64);

    /// Whether a connection's client has gone: it reads no answer any more. `false` of one that is
    /// not known.
    fn is_gone(&self, connection_id: u64) -> bool;
}
