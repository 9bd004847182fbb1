//! The columns of results: their definitions, kept as packets for later executions, and the wire
//! format of their values.

use spillway_sql::{PlanId, ResultColumn};
use spillway_types::column::IntWidth;
use spillway_types::{Collation, ColumnType};

use crate::codec::put_bytes;

/// The wire format of a column's values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    /// Integers of one, two, four or eight bytes.
    Int8,
    Int16,
    Int32,
    Int64,
    Float,
    Double,
    Date,
    /// With this many digits of a second's fraction.
    DateTime(u8),
    Time(u8),
    Year,
    /// This many bytes of bits.
    Bit(u8),
    /// Text, bytes, and values that are sent as text.
    Text,
}

impl Form {
    /// The length of an integer of this form; `None` for other forms.
    #[inline]
    pub(crate) fn whole_bytes(self) -> Option<usize> {
        match self {
            Form::Int8 => Some(1),
            Form::Int16 => Some(2),
            Form::Int32 => Some(4),
            Form::Int64 => Some(8),
            _ => None,
        }
    }
}

/// The protocol's number of a type.
fn type_code(ty: &ColumnType) -> u8 {
    match ty {
        ColumnType::Int { width: IntWidth::Tiny, .. } => 1,
        ColumnType::Int { width: IntWidth::Small, .. } => 2,
        ColumnType::Int { width: IntWidth::Medium, .. } => 9,
        ColumnType::Int { width: IntWidth::Normal, .. } => 3,
        ColumnType::Int { width: IntWidth::Big, .. } => 8,
        ColumnType::Decimal { .. } => 246,
        ColumnType::Float => 4,
        ColumnType::Double => 5,
        ColumnType::Bit(_) => 16,
        ColumnType::Char(_) | ColumnType::Binary(_) | ColumnType::Enum(_) | ColumnType::Set(_) => {
            254
        }
        // What the protocol calls the type of NULL.
        ColumnType::VarBinary(0) => 6,
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

fn form(ty: &ColumnType) -> Form {
    match ty {
        ColumnType::Int { width, .. } => match width {
            IntWidth::Tiny => Form::Int8,
            IntWidth::Small => Form::Int16,
            IntWidth::Medium | IntWidth::Normal => Form::Int32,
            IntWidth::Big => Form::Int64,
        },
        ColumnType::Float => Form::Float,
        ColumnType::Double => Form::Double,
        ColumnType::Date => Form::Date,
        ColumnType::DateTime(digits) | ColumnType::Timestamp(digits) => Form::DateTime(*digits),
        ColumnType::Time(digits) => Form::Time(*digits),
        ColumnType::Year => Form::Year,
        ColumnType::Bit(bits) => Form::Bit(bits.div_ceil(8).clamp(1, 8)),
        _ => Form::Text,
    }
}

fn display_len(ty: &ColumnType) -> u32 {
    let fraction = |digits: u8| if digits == 0 { 0 } else { u32::from(digits) + 1 };
    match ty {
        ColumnType::Int { boolean: true, .. } => 1,
        ColumnType::Int { width, .. } => match width {
            IntWidth::Tiny => 4,
            IntWidth::Small => 6,
            IntWidth::Medium => 9,
            IntWidth::Normal => 11,
            IntWidth::Big => 20,
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

/// Definitions longer than this are not kept, but encoded each time.
const KEPT_MAX: usize = 32 << 10;

/// The columns of a statement's last result, with their encoded definitions, which the next result
/// reuses if it has the same columns.
#[derive(Default)]
pub(crate) struct Columns {
    columns: Vec<ResultColumn>,
    forms: Vec<Form>,
    /// The definitions as packets, the first of them numbered `first`; empty if they are not kept.
    packets: Vec<u8>,
    first: u8,
    /// Whether the client has been sent these definitions for an execution.
    pub(crate) sent: bool,
    /// Whether the previous result had the same columns. Only then are definitions worth keeping.
    again: bool,
    /// The plan to which these columns belong, if it is known.
    plan: Option<PlanId>,
}

impl Columns {
    /// Sets the columns, with their plan if it is known, unless they are unchanged.
    pub(crate) fn set(&mut self, plan: Option<PlanId>, columns: &[ResultColumn]) {
        self.again = (plan.is_some() && plan == self.plan) || self.columns == columns;
        self.plan = plan;
        if !self.again {
            self.columns = columns.to_vec();
            self.forms = columns.iter().map(|column| form(&column.column_type)).collect();
            self.packets.clear();
            self.sent = false;
        }
    }

    pub(crate) fn forms(&self) -> &[Form] {
        &self.forms
    }

    /// The definitions as packets, the first numbered `first`; empty if they are not kept, because
    /// the previous result had other columns, or because they are too many or too long.
    pub(crate) fn packets(&mut self, first: u8) -> &[u8] {
        if self.first != first {
            self.packets.clear();
        }
        if self.again && self.packets.is_empty() && self.columns.len() < 200 {
            self.first = first;
            for (at, column) in self.columns.iter().enumerate() {
                let start = self.packets.len();
                self.packets.extend_from_slice(&[0; 4]);
                put_column(&mut self.packets, column);
                let [a, b, c, ..] = ((self.packets.len() - start - 4) as u32).to_le_bytes();
                let head = [a, b, c, first.wrapping_add(at as u8)];
                self.packets[start..start + 4].copy_from_slice(&head);
                if self.packets.len() > KEPT_MAX {
                    self.packets = Vec::new();
                    break;
                }
            }
        }
        &self.packets
    }
}
