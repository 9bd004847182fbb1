//! Writes responses as packets: OK, EOF, errors, and result sets, whose rows are written as they
//! arrive.

use std::io;

use spillway::CommitFuture;
use spillway_sql::{Info, Outcome, PlanId, ResultColumn, ResultSink, SqlError, Status};
use spillway_types::{Field, ValueRef};

use crate::capabilities::DEPRECATE_EOF;
use crate::codec::put_len;
use crate::columns::{Columns, put_column};
use crate::packet::Packets;
use crate::rows::{put_binary_fields, put_binary_row, put_text_fields, put_text_row, short_row};
use crate::transport::Transport;

fn status_bits(status: Status) -> u16 {
    u16::from(status.in_transaction)
        | u16::from(status.autocommit) << 1
        | u16::from(status.more_results) << 3
        | u16::from(status.no_backslash_escapes) << 9
}

fn put_done(out: &mut Vec<u8>, head: u8, outcome: &Outcome) {
    out.push(head);
    put_len(out, outcome.affected_rows);
    put_len(out, outcome.last_insert_id);
    out.extend_from_slice(&status_bits(outcome.status).to_le_bytes());
    out.extend_from_slice(&outcome.warnings.to_le_bytes());
    if outcome.info != Info::Nothing {
        // The text is shorter than the lengths that need more than one byte.
        let at = out.len();
        out.push(0);
        outcome.info.append_to(out);
        out[at] = (out.len() - at - 1) as u8;
    }
}

/// Appends an OK packet.
pub(crate) fn put_ok(out: &mut Vec<u8>, outcome: &Outcome) {
    put_done(out, 0, outcome);
}

/// Appends an EOF packet.
pub(crate) fn put_eof(out: &mut Vec<u8>, warnings: u16, status: Status) {
    out.push(0xFE);
    out.extend_from_slice(&warnings.to_le_bytes());
    out.extend_from_slice(&status_bits(status).to_le_bytes());
}

/// Appends the end of rows: an EOF packet, or the OK packet in its place for a client that supports
/// that.
pub(crate) fn put_end(out: &mut Vec<u8>, capabilities: u32, outcome: &Outcome) {
    if capabilities & DEPRECATE_EOF == 0 {
        put_eof(out, outcome.warnings, outcome.status);
    } else {
        put_done(out, 0xFE, outcome);
    }
}

/// The longest text of an error, in characters.
const ERROR_TEXT_MAX: usize = 480;

fn put_error_text(out: &mut Vec<u8>, error: &SqlError) {
    let end = error.message.char_indices().nth(ERROR_TEXT_MAX).map(|(at, _)| at);
    out.extend_from_slice(&error.message.as_bytes()[..end.unwrap_or(error.message.len())]);
}

/// Appends an error packet.
pub(crate) fn put_error(out: &mut Vec<u8>, error: &SqlError) {
    out.push(0xFF);
    out.extend_from_slice(&error.code.to_le_bytes());
    out.push(b'#');
    out.extend_from_slice(error.state.as_bytes());
    put_error_text(out, error);
}

/// Appends an error packet in place of the greeting. It has no SQLSTATE, because a client does not
/// expect one before it knows the server's protocol.
pub(crate) fn put_early_error(out: &mut Vec<u8>, error: &SqlError) {
    out.push(0xFF);
    out.extend_from_slice(&error.code.to_le_bytes());
    put_error_text(out, error);
}

/// Writes results to a connection.
pub(crate) struct WireSink<'a, T> {
    pub(crate) packets: &'a mut Packets<T>,
    pub(crate) capabilities: u32,
    /// Whether rows are sent in the binary format of prepared statements.
    pub(crate) binary: bool,
    /// The columns of the previous result, and then those of this one.
    pub(crate) columns: &'a mut Columns,
    /// Whether the client caches column definitions, so that they are not sent again.
    pub(crate) cache_metadata: bool,
    pub(crate) status: Status,
    /// The error that ended the sending of the response.
    pub(crate) gone: Option<io::Error>,
}

impl<T: Transport> WireSink<'_, T> {
    fn put(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Result<(), SqlError> {
        let sent = self.packets.packet(write);
        self.sent(sent)
    }

    fn sent(&mut self, sent: io::Result<()>) -> Result<(), SqlError> {
        sent.map_err(|error| {
            self.gone = Some(error);
            SqlError::new(1160, "Got an error writing communication packets")
        })
    }

    fn definitions(&mut self, columns: &[ResultColumn]) -> Result<(), SqlError> {
        let made = self.columns.packets(self.packets.sequence());
        if !made.is_empty() {
            let sent = self.packets.made(made, columns.len() as u8);
            return self.sent(sent);
        }
        columns.iter().try_for_each(|column| self.put(|out| put_column(out, column)))
    }

    fn begin_rows(
        &mut self,
        plan: Option<PlanId>,
        columns: &[ResultColumn],
    ) -> Result<(), SqlError> {
        self.columns.set(plan, columns);
        let known = self.cache_metadata && self.binary && self.columns.sent;
        let cache_metadata = self.cache_metadata;
        self.put(|out| {
            put_len(out, columns.len() as u64);
            if cache_metadata {
                out.push(u8::from(!known));
            }
        })?;
        if !known {
            self.definitions(columns)?;
            self.columns.sent = true;
        }
        if self.capabilities & DEPRECATE_EOF == 0 {
            let status = self.status;
            self.put(|out| put_eof(out, 0, status))?;
        }
        Ok(())
    }
}

impl<T: Transport> ResultSink for WireSink<'_, T> {
    fn columns(&mut self, columns: &[ResultColumn]) -> Result<(), SqlError> {
        self.begin_rows(None, columns)
    }

    fn columns_of(&mut self, plan: PlanId, columns: &[ResultColumn]) -> Result<(), SqlError> {
        self.begin_rows(Some(plan), columns)
    }

    fn row(&mut self, values: &[ValueRef<'_>]) -> Result<(), SqlError> {
        let (forms, binary) = (self.columns.forms(), self.binary);
        let sent = self.packets.packet(|out| {
            if binary {
                put_binary_row(out, values, forms);
            } else {
                put_text_row(out, values, forms);
            }
        });
        self.sent(sent)
    }

    fn fields(&mut self, fields: &[Field<'_>]) -> Result<(), SqlError> {
        let (forms, binary) = (self.columns.forms(), self.binary);
        if binary && let Some(short) = short_row(fields, forms) {
            let sent = self.packets.short(&short);
            return self.sent(sent);
        }
        let sent = self.packets.packet(|out| {
            if binary {
                put_binary_fields(out, fields, forms);
            } else {
                put_text_fields(out, fields, forms);
            }
        });
        self.sent(sent)
    }

    fn end_rows(&mut self, outcome: &Outcome) -> Result<(), SqlError> {
        let capabilities = self.capabilities;
        self.put(|out| put_end(out, capabilities, outcome))
    }

    fn ok(&mut self, outcome: &Outcome) -> Result<(), SqlError> {
        self.put(|out| put_ok(out, outcome))
    }

    fn ok_after(&mut self, commit: CommitFuture, outcome: &Outcome) -> Result<(), SqlError> {
        let now = match commit.known() {
            Some(_) => Some(commit),
            None => self.packets.unless_lost(commit),
        };
        now.map(CommitFuture::wait).transpose()?;
        self.ok(outcome)
    }
}
