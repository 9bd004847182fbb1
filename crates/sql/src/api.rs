//! The types that a client of this crate uses: columns, rows and the outcomes of statements.

use std::sync::Arc;

use smallvec::SmallVec;
use spillway::CommitFuture;
use spillway_types::{Collation, ColumnType, Field, Value, ValueRef};

use crate::errors::SqlError;

/// A column of a result.
#[derive(Clone, PartialEq, Debug)]
pub struct ResultColumn {
    /// The database that it comes from; empty for an expression.
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
    /// The column's flags.
    pub flags: ColumnFlags,
}

/// The flags of a result column.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ColumnFlags {
    /// The column is NOT NULL.
    pub not_null: bool,
    /// The column is part of the primary key.
    pub primary: bool,
    /// The column is the first one of a unique index.
    pub unique: bool,
    /// The column is the first one of an index.
    pub multiple: bool,
    /// The column is AUTO_INCREMENT.
    pub auto_increment: bool,
}

/// The state of a session, as the protocol reports it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Status {
    /// A transaction is open.
    pub in_transaction: bool,
    /// Each statement commits its own transaction.
    pub autocommit: bool,
    /// A backslash in a string literal stands for itself, so clients must escape in another way.
    pub no_backslash_escapes: bool,
    /// Another result of the same command follows.
    pub more_results: bool,
}

/// How a statement ended.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    /// The number of changed rows.
    pub affected_rows: u64,
    /// The first number that AUTO_INCREMENT generated.
    pub last_insert_id: u64,
    /// The number of warnings.
    pub warnings: u16,
    /// The session's state after the statement.
    pub status: Status,
    /// The message of the protocol's OK packet.
    pub info: Info,
}

/// The message for a statement that changed rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Info {
    /// No message.
    #[default]
    Nothing,
    /// `Records: 3  Duplicates: 0  Warnings: 0`.
    Inserted {
        /// The number of rows given to the statement.
        records: u64,
        /// How many of these rows met a duplicate.
        duplicates: u64,
        /// The number of warnings.
        warnings: u64,
    },
    /// `Rows matched: 3  Changed: 2  Warnings: 0`.
    Updated {
        /// The number of rows found.
        matched: u64,
        /// How many of these rows changed.
        changed: u64,
        /// The number of warnings.
        warnings: u64,
    },
}

impl Info {
    /// Appends the message as text; appends nothing for [`Info::Nothing`].
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

/// Identifies the plan of a query. It is unique in the process's lifetime.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PlanId(pub(crate) usize);

/// Receives results while a statement produces them. The server's sink writes packets, the shell's
/// sink prints.
pub trait ResultSink {
    /// A result set begins.
    ///
    /// # Errors
    /// If the client no longer accepts results.
    fn columns(&mut self, columns: &[ResultColumn]) -> Result<(), SqlError>;

    /// A result set of a plan begins. Every run of one plan has the same columns.
    ///
    /// # Errors
    /// As [`ResultSink::columns`].
    fn columns_of(&mut self, plan: PlanId, columns: &[ResultColumn]) -> Result<(), SqlError> {
        let _ = plan;
        self.columns(columns)
    }

    /// A row, with its values in the order of the columns.
    ///
    /// # Errors
    /// As [`ResultSink::columns`].
    fn row(&mut self, values: &[ValueRef<'_>]) -> Result<(), SqlError>;

    /// A row without decimal values, otherwise as [`ResultSink::row`]. For sinks that write most
    /// kinds of values without converting them.
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

    /// A statement without a result set is done once the outcome of its commit is known. A sink
    /// that can send the reply later need not wait here: it gets no other call before the client's
    /// next command.
    ///
    /// # Errors
    /// As [`ResultSink::columns`], and the failure of the commit if the implementation waited for
    /// it.
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

/// The server in front of an instance.
pub trait Front: Send + Sync {
    /// The server's counters, as SHOW STATUS lists them.
    fn status(&self) -> Vec<(String, String)>;

    /// Called when a connection was killed. The server must end any wait for the connection's
    /// client.
    fn wake(&self, connection_id: u64);

    /// Whether the client of a connection has disconnected and reads no more replies. `false` for
    /// an unknown connection.
    fn is_gone(&self, connection_id: u64) -> bool;
}
