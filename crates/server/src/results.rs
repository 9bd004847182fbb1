//! Results as packets.

use std::io::{Read, Write};

use spillway_sql::{Outcome, ResultColumn, ResultSink, SqlError, Status};
use spillway_types::value::write_text;
use spillway_types::{Collation, ColumnType, Date, ValueRef};

use crate::auth::DEPRECATE_EOF;
use crate::packet::{Packets, put_bytes, put_len};

/// The protocol's number of a type.
fn type_code(ty: &ColumnType) -> u8 {
    use spillway_types::column::IntWidth as W;
    match ty {
        ColumnType::Int { width: W::Tiny, .. } => 1,
        ColumnType::Int { width: W::Small, .. } => 2,
        ColumnType::Int { width: W::Medium, .. } => 9,
        ColumnType::Int { width: W::Normal, .. } => 3,
        ColumnType::Int { width: W::Big, .. } => 8,
        ColumnType::Decimal { .. } => 246,
        ColumnType::Float => 4,
        ColumnType::Double => 5,
        ColumnType::Bit(_) => 16,
        ColumnType::Char(_) | ColumnType::Binary(_) | ColumnType::Enum(_) | ColumnType::Set(_) => {
            254
        }
        ColumnType::VarChar(_) | ColumnType::VarBinary(_) => 253,
        ColumnType::Text(_) | ColumnType::Blob(_) => 252,
        ColumnType::Json => 245,
        ColumnType::Date => 10,
        ColumnType::Time(_) => 11,
        ColumnType::DateTime(_) => 12,
        ColumnType::Timestamp(_) => 7,
        ColumnType::Year => 13,
    }
}

fn display_len(ty: &ColumnType) -> u32 {
    use spillway_types::column::IntWidth as W;
    let fraction = |digits: u8| if digits == 0 { 0 } else { u32::from(digits) + 1 };
    match ty {
        ColumnType::Int { boolean: true, .. } => 1,
        ColumnType::Int { width, .. } => match width {
            W::Tiny => 4,
            W::Small => 6,
            W::Medium => 9,
            W::Normal => 11,
            W::Big => 20,
        },
        ColumnType::Decimal { precision, scale, .. } => {
            u32::from(*precision) + 1 + u32::from(*scale > 0)
        }
        ColumnType::Float => 12,
        ColumnType::Double => 22,
        ColumnType::Bit(bits) => u32::from(*bits),
        ColumnType::Char(n) | ColumnType::VarChar(n) => n.saturating_mul(4),
        ColumnType::Binary(n) | ColumnType::VarBinary(n) => *n,
        ColumnType::Text(size) | ColumnType::Blob(size) => {
            u32::try_from(size.bytes_max()).unwrap_or(u32::MAX)
        }
        ColumnType::Date => 10,
        ColumnType::Time(digits) => 10 + fraction(*digits),
        ColumnType::DateTime(digits) | ColumnType::Timestamp(digits) => 19 + fraction(*digits),
        ColumnType::Year => 4,
        ColumnType::Enum(names) => {
            names.iter().map(|name| 4 * name.len() as u32).max().unwrap_or(0)
        }
        ColumnType::Set(names) => names.iter().map(|name| 4 * name.len() as u32 + 1).sum(),
        ColumnType::Json => u32::MAX,
    }
}

/// Appends a column's definition.
pub(crate) fn put_column(out: &mut Vec<u8>, column: &ResultColumn) {
    put_bytes(out, b"def");
    for text in [&column.schema, &column.table, &column.org_table, &column.name, &column.org_name] {
        put_bytes(out, text.as_bytes());
    }
    out.push(0x0C);
    let ty = &column.column_type;
    let collation = if ty.is_text() { column.collation } else { Collation::Binary };
    out.extend_from_slice(&collation.id().to_le_bytes());
    out.extend_from_slice(&display_len(ty).to_le_bytes());
    out.push(type_code(ty));
    let flags = &column.flags;
    let lob = matches!(ty, ColumnType::Text(_) | ColumnType::Blob(_) | ColumnType::Json);
    let bits = u16::from(flags.not_null)
        | u16::from(flags.primary) << 1
        | u16::from(flags.unique) << 2
        | u16::from(flags.multiple) << 3
        | u16::from(lob) << 4
        | u16::from(ty.is_unsigned()) << 5
        | u16::from(collation == Collation::Binary) << 7
        | u16::from(matches!(ty, ColumnType::Enum(_))) << 8
        | u16::from(flags.auto_increment) << 9
        | u16::from(matches!(ty, ColumnType::Timestamp(_))) << 10
        | u16::from(matches!(ty, ColumnType::Set(_))) << 11;
    out.extend_from_slice(&bits.to_le_bytes());
    out.push(match ty {
        ColumnType::Decimal { scale, .. } => *scale,
        ColumnType::Float | ColumnType::Double => 31,
        ColumnType::Time(digits) | ColumnType::DateTime(digits) | ColumnType::Timestamp(digits) => {
            *digits
        }
        _ => 0,
    });
    out.extend_from_slice(&[0, 0]);
}

fn status_bits(status: Status) -> u16 {
    u16::from(status.in_transaction)
        | u16::from(status.autocommit) << 1
        | u16::from(status.more_results) << 3
}

/// Appends an OK packet; `head` is 0xFE where it ends rows.
pub(crate) fn put_ok(out: &mut Vec<u8>, head: u8, outcome: &Outcome) {
    out.push(head);
    put_len(out, outcome.affected_rows);
    put_len(out, outcome.last_insert_id);
    out.extend_from_slice(&status_bits(outcome.status).to_le_bytes());
    out.extend_from_slice(&outcome.warnings.to_le_bytes());
    if !outcome.info.is_empty() {
        put_bytes(out, outcome.info.as_bytes());
    }
}

/// Appends an EOF packet.
pub(crate) fn put_eof(out: &mut Vec<u8>, warnings: u16, status: Status) {
    out.push(0xFE);
    out.extend_from_slice(&warnings.to_le_bytes());
    out.extend_from_slice(&status_bits(status).to_le_bytes());
}

/// Appends an error packet.
pub(crate) fn put_error(out: &mut Vec<u8>, error: &SqlError) {
    out.push(0xFF);
    out.extend_from_slice(&error.code.to_le_bytes());
    out.push(b'#');
    out.extend_from_slice(error.state.as_bytes());
    let text: String = error.message.chars().take(480).collect();
    out.extend_from_slice(text.as_bytes());
}

/// Writes results to a connection.
pub(crate) struct WireSink<'a, S> {
    pub(crate) packets: &'a mut Packets<S>,
    pub(crate) capabilities: u32,
    /// Whether rows go in the form of prepared statements.
    pub(crate) binary: bool,
    pub(crate) columns: Vec<ColumnType>,
    pub(crate) status: Status,
}

fn gone(error: std::io::Error) -> SqlError {
    SqlError::new(1160, format!("Got an error writing communication packets: {error}"))
}

impl<S: Read + Write> ResultSink for WireSink<'_, S> {
    fn columns(&mut self, columns: &[ResultColumn]) -> Result<(), SqlError> {
        self.columns.clear();
        self.columns.extend(columns.iter().map(|column| column.column_type.clone()));
        self.packets.packet(|out| put_len(out, columns.len() as u64)).map_err(gone)?;
        for column in columns {
            self.packets.packet(|out| put_column(out, column)).map_err(gone)?;
        }
        if self.capabilities & DEPRECATE_EOF == 0 {
            let status = self.status;
            self.packets.packet(|out| put_eof(out, 0, status)).map_err(gone)?;
        }
        Ok(())
    }

    fn row(&mut self, values: &[ValueRef<'_>]) -> Result<(), SqlError> {
        let (columns, binary) = (&self.columns, self.binary);
        let write = |out: &mut Vec<u8>| {
            if binary {
                put_binary_row(out, values, columns);
            } else {
                values.iter().zip(columns).for_each(|(value, ty)| put_text(out, value, ty));
            }
        };
        self.packets.packet(write).map_err(gone)
    }

    fn end_rows(&mut self, outcome: &Outcome) -> Result<(), SqlError> {
        let old = self.capabilities & DEPRECATE_EOF == 0;
        let end = |out: &mut Vec<u8>| {
            if old {
                put_eof(out, outcome.warnings, outcome.status)
            } else {
                put_ok(out, 0xFE, outcome)
            }
        };
        self.packets.packet(end).map_err(gone)
    }

    fn ok(&mut self, outcome: &Outcome) -> Result<(), SqlError> {
        self.packets.packet(|out| put_ok(out, 0, outcome)).map_err(gone)
    }
}

fn bit_bytes(number: u64, bits: u8) -> Vec<u8> {
    let len = usize::from(bits.div_ceil(8));
    number.to_be_bytes()[8 - len.min(8)..].to_vec()
}

/// The text of a value, in the form of its column.
fn text_of(value: &ValueRef<'_>, ty: &ColumnType, out: &mut Vec<u8>) {
    match (value, ty) {
        (ValueRef::DateTime(at), ColumnType::DateTime(digits) | ColumnType::Timestamp(digits)) => {
            out.extend_from_slice(at.format(*digits).as_bytes());
        }
        (ValueRef::Time(time), ColumnType::Time(digits)) => {
            out.extend_from_slice(time.format(*digits).as_bytes())
        }
        (ValueRef::Int(year), ColumnType::Year) => {
            out.extend_from_slice(format!("{year:04}").as_bytes())
        }
        (ValueRef::UInt(number), ColumnType::Bit(bits)) => {
            out.extend_from_slice(&bit_bytes(*number, *bits))
        }
        _ => write_text(value, out),
    }
}

fn put_text(out: &mut Vec<u8>, value: &ValueRef<'_>, ty: &ColumnType) {
    match value {
        ValueRef::Null => out.push(0xFB),
        ValueRef::Text(text) => put_bytes(out, text.as_bytes()),
        ValueRef::Bytes(bytes) => put_bytes(out, bytes),
        _ => {
            // Short: one byte of length is enough for what is not text.
            let at = out.len();
            out.push(0);
            text_of(value, ty, out);
            out[at] = (out.len() - at - 1) as u8;
        }
    }
}

fn put_binary_row(out: &mut Vec<u8>, values: &[ValueRef<'_>], columns: &[ColumnType]) {
    out.push(0);
    let nulls = out.len();
    out.resize(nulls + (values.len() + 9) / 8, 0);
    for (at, (value, ty)) in values.iter().zip(columns).enumerate() {
        if value.is_null() {
            out[nulls + (at + 2) / 8] |= 1 << ((at + 2) % 8);
        } else {
            put_binary(out, value, ty);
        }
    }
}

fn put_binary(out: &mut Vec<u8>, value: &ValueRef<'_>, ty: &ColumnType) {
    let whole = |value: &ValueRef<'_>| match *value {
        ValueRef::Int(number) => number as u64,
        ValueRef::UInt(number) => number,
        ref other => spillway_types::convert::to_i128(other).unwrap_or(0) as u64,
    };
    match type_code(ty) {
        1 => out.push(whole(value) as u8),
        2 | 13 => out.extend_from_slice(&(whole(value) as u16).to_le_bytes()),
        3 | 9 => out.extend_from_slice(&(whole(value) as u32).to_le_bytes()),
        8 => out.extend_from_slice(&whole(value).to_le_bytes()),
        4 => {
            let number = spillway_types::convert::to_double(value).unwrap_or(0.0);
            out.extend_from_slice(&(number as f32).to_le_bytes());
        }
        5 => out.extend_from_slice(
            &spillway_types::convert::to_double(value).unwrap_or(0.0).to_le_bytes(),
        ),
        7 | 10 | 12 => put_date(out, value),
        11 => match value {
            ValueRef::Time(time) => put_time(out, time.micros),
            other => {
                put_time(out, spillway_types::convert::to_time(other).map_or(0, |time| time.micros))
            }
        },
        _ => {
            let mut text = Vec::new();
            text_of(value, ty, &mut text);
            put_bytes(out, &text);
        }
    }
}

fn put_date(out: &mut Vec<u8>, value: &ValueRef<'_>) {
    let at = spillway_types::convert::to_datetime(value).unwrap_or_default();
    let (hour, minute, second, micros) = at.clock();
    let len = match (at.date == Date::default(), at.micros == 0, micros == 0) {
        (true, true, _) => 0,
        (_, true, _) => 4,
        (_, _, true) => 7,
        _ => 11,
    };
    out.push(len);
    if len >= 4 {
        out.extend_from_slice(&at.date.year.to_le_bytes());
        out.extend_from_slice(&[at.date.month, at.date.day]);
    }
    if len >= 7 {
        out.extend_from_slice(&[hour as u8, minute as u8, second as u8]);
    }
    if len == 11 {
        out.extend_from_slice(&(micros as u32).to_le_bytes());
    }
}

fn put_time(out: &mut Vec<u8>, span: i64) {
    let micros = span.unsigned_abs();
    let seconds = micros / 1_000_000;
    let len = match (micros, micros % 1_000_000) {
        (0, _) => 0,
        (_, 0) => 8,
        _ => 12,
    };
    out.push(len);
    if len >= 8 {
        out.push(u8::from(span < 0));
        out.extend_from_slice(&((seconds / 86_400) as u32).to_le_bytes());
        out.extend_from_slice(&[
            (seconds / 3600 % 24) as u8,
            (seconds / 60 % 60) as u8,
            (seconds % 60) as u8,
        ]);
    }
    if len == 12 {
        out.extend_from_slice(&((micros % 1_000_000) as u32).to_le_bytes());
    }
}
