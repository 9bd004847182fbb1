//! Conversions that depend on types: to text, from members of ENUM and SET to their numbers, and of
//! several operands to one common type.

use spillway_types::column::{LobSize, type_of};
use spillway_types::convert::{number_prefix, text_decimal, to_datetime, to_decimal, to_time};
use spillway_types::{Collation, ColumnType, DateTime, Value};

use super::functions::Scalar;
use super::operands::member;
use super::{Ask, Expr, Op, Typed};
use crate::errors::{Result, SqlError, printable_bytes};

impl Typed {
    /// The value for use as a number: as [`Typed::by_member`], and for a date or time that DATE_ADD
    /// and similar functions return as text, its number.
    pub(crate) fn counted(self) -> Typed {
        if !self.is_moment_text() {
            return self.by_member();
        }
        let number = self.moment_number();
        let ty = ColumnType::Double;
        Typed { expr: Expr::Cast(Box::new(number.expr), ty.clone()), ty, ..number }
    }

    /// Whether the value is a date or time that a function returned as text, because its argument
    /// was not a date. Only a conversion to a number treats it differently from other texts.
    pub(crate) fn is_moment_text(&self) -> bool {
        self.ty.is_text()
            && matches!(
                self.expr,
                Expr::Interval { .. } | Expr::Call(Scalar::Addtime | Scalar::Subtime, ..)
            )
    }

    /// The exact number of a date or time that a function returned as text.
    pub(crate) fn moment_number(self) -> Typed {
        let expr = Expr::Call(Scalar::MomentNumber, vec![self.expr], Collation::Binary);
        let ty = ColumnType::Decimal { precision: 20, scale: 6, unsigned: false };
        Typed { expr, ty, collation: Collation::Binary, nullable: self.nullable }
    }

    /// Parses the date or time that a function returned as text. The declared type remains text.
    pub(crate) fn moment_of_text(self) -> Typed {
        let expr = Expr::Call(Scalar::MomentOf, vec![self.expr], Collation::Binary);
        Typed { expr, ..self }
    }

    /// A date or time that is given as text, as the text of a date: a time of day is one of today.
    pub(crate) fn moment_today(self) -> Typed {
        let expr = Expr::Call(Scalar::MomentToday, vec![self.expr], Collation::Binary);
        Typed { expr, ..self }
    }

    /// Whether the value is a BIT or a hexadecimal literal.
    pub(crate) fn is_bits(&self) -> bool {
        match self.ty {
            ColumnType::Bit(_) => true,
            ColumnType::Binary(_) => matches!(self.expr, Expr::Const(Value::Bytes(_))),
            _ => false,
        }
    }

    /// The value for sorting, and for a numeric column: the member number of an ENUM, the bits of a
    /// SET, the number of a hexadecimal literal; other values unchanged.
    pub(crate) fn by_member(self) -> Typed {
        match (&self.ty, &self.expr) {
            (ColumnType::Enum(_) | ColumnType::Set(_), _) => Typed {
                expr: Expr::Member(Box::new(self.expr), self.ty),
                ty: ColumnType::UBIGINT,
                collation: Collation::Binary,
                nullable: self.nullable,
            },
            (ColumnType::Binary(_), Expr::Const(Value::Bytes(bytes))) => {
                let last = &bytes[bytes.len().saturating_sub(8)..];
                let number = last.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
                Typed { expr: Expr::Const(Value::UInt(number)), ty: ColumnType::UBIGINT, ..self }
            }
            _ => self,
        }
    }

    /// The value as an operand of arithmetic. A time with a fraction becomes a decimal with as many
    /// digits.
    pub(crate) fn numbered(self) -> Typed {
        let to = match &self.ty {
            ColumnType::Time(digits)
            | ColumnType::DateTime(digits)
            | ColumnType::Timestamp(digits) => {
                ColumnType::Decimal { precision: 14 + digits, scale: *digits, unsigned: false }
            }
            _ => return self.counted(),
        };
        let ty = if to == (ColumnType::Decimal { precision: 14, scale: 0, unsigned: false }) {
            ColumnType::BIGINT
        } else {
            to
        };
        Typed { expr: Expr::Cast(Box::new(self.expr), ty.clone()), ty, ..self }
    }

    /// The value as text, with as many fractional digits of the seconds as its type has. Bytes stay
    /// bytes.
    pub(crate) fn shown(self) -> Typed {
        let ty = match &self.ty {
            ColumnType::Enum(_) | ColumnType::Set(_) | ColumnType::Json => {
                return Typed { ty: ColumnType::VarChar(16_383), ..self };
            }
            ty if ty.is_text() || ty.is_binary() => return self,
            ColumnType::Bit(bits) => ColumnType::VarBinary(u32::from(bits.div_ceil(8))),
            ColumnType::Int { .. } | ColumnType::Year => ColumnType::VarChar(20),
            ColumnType::Decimal { precision, .. } => ColumnType::VarChar(u32::from(*precision) + 2),
            ColumnType::Float | ColumnType::Double => ColumnType::VarChar(23),
            _ => ColumnType::VarChar(29),
        };
        if self.is_null() {
            return self;
        }
        let this = self.settled();
        let collation = if ty.is_text() { Collation::GeneralCi } else { Collation::Binary };
        Typed { expr: Expr::Shown(Box::new(this.expr), this.ty), ty, collation, ..this }
    }

    /// The value rounded to the digits of its type. A quotient is computed with more digits.
    pub(crate) fn settled(self) -> Typed {
        let ColumnType::Decimal { scale, .. } = self.ty else { return self };
        let mut divides = false;
        self.expr.walk(&mut |e| divides |= matches!(e, Expr::Binary(Op::Div, ..)));
        if !divides {
            return self;
        }
        let scale = Expr::Const(Value::Int(scale.into()));
        let expr = Expr::Call(Scalar::Round, vec![self.expr, scale], Collation::Binary);
        Typed { expr, ..self }
    }

    /// The value in the form needed to store it in a column of this type.
    pub(crate) fn handed(self, to: &ColumnType) -> Typed {
        match to {
            _ if to.is_numeric() => self.by_member(),
            _ if is_handed_as_number(&self.ty, to) => self,
            _ if (to.is_text() || to.is_binary()) && self.ty != *to => self.shown(),
            _ => self,
        }
    }

    pub(crate) fn is_null(&self) -> bool {
        matches!(self.expr, Expr::Const(Value::Null))
    }

    pub(crate) fn is_temporal(&self) -> bool {
        is_temporal(&self.ty)
    }

    /// The value as if it came from a column of this type.
    pub(crate) fn shaped(self, ty: &ColumnType) -> Typed {
        if self.ty == *ty || self.is_null() {
            return self;
        }
        let expr = match ty {
            _ if ty.is_text() || ty.is_binary() => {
                let shown = self.shown();
                let expr = match shown.ty.is_text() && ty.is_binary() {
                    true => Expr::Cast(Box::new(shown.expr), ColumnType::Blob(LobSize::Long)),
                    false => shown.expr,
                };
                return Typed { expr, ty: ty.clone(), ..shown };
            }
            ColumnType::Double
            | ColumnType::Decimal { .. }
            | ColumnType::DateTime(_)
            | ColumnType::Time(_) => Expr::Cast(Box::new(self.expr), ty.clone()),
            _ => self.expr,
        };
        Typed { expr, ty: ty.clone(), ..self }
    }
}

fn is_temporal(ty: &ColumnType) -> bool {
    use ColumnType as T;
    matches!(ty, T::Date | T::Time(_) | T::DateTime(_) | T::Timestamp(_))
}

/// A value of one type in the form needed to store it in a column of another type.
pub(crate) fn handed(value: &Value, from: &ColumnType, to: &ColumnType) -> Value {
    match from {
        ColumnType::Enum(_) | ColumnType::Set(_) if to.is_numeric() => member(value, from),
        _ if is_handed_as_number(from, to) => value.clone(),
        _ if from != to && (to.is_text() || to.is_binary()) => show(value, from),
        _ => value.clone(),
    }
}

/// A value of a column whose type changes, in the form needed to store it again. As in MySQL, and
/// unlike a value that a statement assigns, a number goes into any text as its text, a BIT as its
/// number, and a date into a YEAR as its number, which is out of range. A time of day becomes one
/// of today.
pub(crate) fn retyped(value: &Value, from: &ColumnType, to: &ColumnType, now: DateTime) -> Value {
    use ColumnType as T;
    match (value, to) {
        _ if from == to => value.clone(),
        (Value::Time(time), T::Date | T::DateTime(_) | T::Timestamp(_)) => {
            let at = DateTime::from_micros_of(now.date, time.micros);
            at.map_or_else(|| value.clone(), Value::DateTime)
        }
        (Value::Date(_) | Value::DateTime(_) | Value::Time(_), T::Year) => {
            to_decimal(&value.as_ref()).map_or_else(|| value.clone(), Value::Decimal)
        }
        _ if to.is_text() || to.is_binary() => match (from, to) {
            (T::Bit(_), T::Text(_) | T::Blob(_)) => show(value, from),
            (T::Bit(_), _) if !value.is_null() => Value::Text(value.to_text()),
            _ => show(value, from),
        },
        _ => handed(value, from, to),
    }
}

/// Whether a column of texts takes a number as a number: the members of an ENUM or a SET have
/// numbers, and a short text rounds a double to what it has room for, and holds the digits of a BIT
/// and of a YEAR.
fn is_handed_as_number(from: &ColumnType, to: &ColumnType) -> bool {
    use ColumnType as T;
    match to {
        T::Enum(_) | T::Set(_) => from.is_numeric(),
        T::Char(_) | T::VarChar(_) | T::Binary(_) | T::VarBinary(_) => {
            matches!(from, T::Float | T::Double | T::Bit(_) | T::Year)
        }
        _ => false,
    }
}

/// Converts a value of a column of a set operation's side to the type of the result's column. As in
/// MySQL, a BIT beside texts is its number as text.
pub(crate) fn reshape(value: &Value, from: &ColumnType, to: &ColumnType) -> Value {
    if value.is_null() || from == to {
        return value.clone();
    }
    let text = to.is_text() || to.is_binary();
    let shown = match from {
        ColumnType::Bit(_) if text => Value::Text(value.to_text()),
        _ if text => show(value, from),
        _ => value.clone(),
    };
    match to {
        ColumnType::Enum(_) | ColumnType::Set(_) => shown,
        _ => to.store(&shown).unwrap_or_else(|(_, nearest)| nearest),
    }
}

/// Converts all arguments to one type.
pub(crate) fn merged(args: Vec<Typed>) -> (Vec<Typed>, ColumnType) {
    let ty = merge_types(args.iter());
    (args.into_iter().map(|arg| arg.shaped(&ty)).collect(), ty)
}

/// The type that can hold values of all these types.
pub(crate) fn merge_types<'a>(args: impl Iterator<Item = &'a Typed>) -> ColumnType {
    let mut merged: Option<ColumnType> = None;
    for arg in args.filter(|arg| !arg.is_null() && arg.ty != ColumnType::VarBinary(0)) {
        merged = Some(match merged {
            None => arg.ty.clone(),
            Some(ty) => merge_two(&ty, &arg.ty),
        });
    }
    merged.unwrap_or(ColumnType::VarBinary(0))
}

fn merge_two(a: &ColumnType, b: &ColumnType) -> ColumnType {
    use ColumnType as T;
    if a == b && !matches!(a, T::Enum(_) | T::Set(_)) {
        return a.clone();
    }
    let digits = |ty: &T| match ty {
        T::Decimal { precision, scale, .. } => Some((*precision, *scale)),
        T::Int { .. } | T::Year | T::Bit(_) => Some((20, 0)),
        _ => None,
    };
    let fraction = |ty: &T| match ty {
        T::Time(digits) | T::DateTime(digits) | T::Timestamp(digits) => *digits,
        _ => 0,
    };
    match (a, b) {
        (T::Int { .. } | T::Year | T::Bit(_), T::Int { .. } | T::Year | T::Bit(_)) => {
            match (a.is_unsigned(), b.is_unsigned()) {
                (true, true) => T::UBIGINT,
                (false, false) => T::BIGINT,
                _ => T::Decimal { precision: 20, scale: 0, unsigned: false },
            }
        }
        _ if digits(a).is_some() && digits(b).is_some() => {
            let ((p, s), (q, t)) = (digits(a).unwrap_or_default(), digits(b).unwrap_or_default());
            let scale = s.max(t);
            let precision = ((p - s).max(q - t) + scale).min(65);
            T::Decimal { precision, scale, unsigned: false }
        }
        _ if a.is_numeric() && b.is_numeric() => T::Double,
        (T::Time(_), T::Time(_)) => T::Time(fraction(a).max(fraction(b))),
        _ if is_temporal(a) && is_temporal(b) => T::DateTime(fraction(a).max(fraction(b))),
        // The bytes of a BIT have no character set.
        _ if [a, b].iter().any(|ty| ty.is_binary() || matches!(ty, T::Bit(_))) => {
            T::Blob(LobSize::Long)
        }
        (T::Text(_), _) | (_, T::Text(_)) => T::Text(LobSize::Long),
        (T::VarChar(x) | T::Char(x), T::VarChar(y) | T::Char(y)) => T::VarChar(*x.max(y)),
        _ => T::VarChar(16_383),
    }
}

/// Converts the sides of a comparison, so comparing their values gives MySQL's result.
pub(crate) fn comparable(mut parts: Vec<Typed>) -> Result<Vec<Typed>> {
    let any = |parts: &[Typed], is: fn(&Typed) -> bool| parts.iter().any(is);
    let numeric = |part: &Typed| part.ty.is_numeric();
    let text = |part: &Typed| part.ty.is_text() || part.ty.is_binary();
    if any(&parts, numeric) {
        parts = parts.into_iter().map(Typed::counted).collect();
    }
    let temporal = any(&parts, Typed::is_temporal);
    if temporal {
        // A constant that is compared with a date or time is converted to one.
        let dated = |part: &Typed| part.is_temporal() && !matches!(part.ty, ColumnType::Time(_));
        let timed =
            |part: &Typed| matches!(part.ty, ColumnType::DateTime(_) | ColumnType::Timestamp(_));
        let fit = match any(&parts, dated) {
            true if any(&parts, timed) => Fit::Moment,
            true => Fit::Day,
            false => Fit::Time,
        };
        parts.iter_mut().try_for_each(|part| temporal_constant(part, fit))?;
    } else if any(&parts, is_exact) && !any(&parts, is_approximate) {
        parts.iter_mut().for_each(exact_constant);
    }
    if parts.len() > 2 && !temporal && any(&parts, numeric) && any(&parts, text) {
        parts = parts.into_iter().map(|part| part.shaped(&ColumnType::Double)).collect();
    }
    Ok(parts)
}

/// Removes the explicit collation of a value that is not compared as text.
fn uncollated(part: &mut Typed) {
    if let Expr::Collated(text) = &mut part.expr {
        part.expr = std::mem::replace(text, Expr::Const(Value::Null));
    }
}

fn temporal_constant(part: &mut Typed, fit: Fit) -> Result<()> {
    if part.is_temporal() {
        return Ok(());
    }
    uncollated(part);
    match &part.expr {
        Expr::Const(value) => {
            let Some(made) = fit.of(value)? else { return Ok(()) };
            part.expr = Expr::Const(made);
        }
        Expr::Param(_) => part.fit(fit),
        _ => return Ok(()),
    }
    part.ty = if fit == Fit::Time { ColumnType::Time(6) } else { ColumnType::DateTime(6) };
    Ok(())
}

/// Whether a constant text that is compared with this is used as the exact number with which it
/// begins.
fn is_exact(part: &Typed) -> bool {
    match part.ty {
        ColumnType::Int { .. } | ColumnType::Bit(_) => true,
        // Two constants are compared as doubles.
        ColumnType::Decimal { .. } => !part.expr.is_constant(),
        _ => false,
    }
}

fn is_approximate(part: &Typed) -> bool {
    matches!(part.ty, ColumnType::Float | ColumnType::Double)
}

/// Whether an expression has the same value for all rows with which it is compared.
pub(crate) fn is_fixed(expr: &Expr) -> bool {
    match expr {
        Expr::Subquery { plan, ask: Ask::Scalar, .. } => !plan.is_correlated(),
        expr => expr.is_constant(),
    }
}

fn is_words(part: &Typed) -> bool {
    (part.ty.is_text() || part.ty.is_binary()) && !part.is_null()
}

/// Converts a value and the column of a subquery for their comparison, as [`comparable`] does for
/// the sides of a comparison. `fixed` tells whether the column is constant. Returns whether the
/// column's texts are compared as exact numbers.
pub(crate) fn beside_column(left: &mut Typed, column: &Typed, fixed: bool) -> bool {
    if matches!(column.ty, ColumnType::Int { .. } | ColumnType::Bit(_))
        || (matches!(column.ty, ColumnType::Decimal { .. }) && !fixed)
    {
        exact_constant(left);
    }
    fixed && is_exact(left) && is_words(column)
}

/// Converts a constant text to the exact number with which it begins, because a double might not
/// represent it.
fn exact_constant(part: &mut Typed) {
    if !is_fixed(&part.expr) || !is_words(part) {
        return;
    }
    uncollated(part);
    match &part.expr {
        Expr::Const(value) if is_clean(value) => {
            let Ok(Some(number)) = Fit::Exact.of(value) else { return };
            part.expr = Expr::Const(number);
        }
        // The comparison with each row warns if the text is not a number.
        _ => part.fit(Fit::Exact),
    }
    let scale = spillway_types::decimal::SCALE_MAX;
    part.ty = ColumnType::Decimal { precision: 65, scale, unsigned: false };
    part.collation = Collation::Binary;
}

/// Whether a text is a number and nothing else.
pub(crate) fn is_clean(value: &Value) -> bool {
    match value {
        Value::Text(text) => number_prefix(text.as_bytes()).1,
        Value::Bytes(bytes) => number_prefix(bytes).1,
        _ => true,
    }
}

impl Typed {
    /// Makes a parameter's value be converted when it is bound. A constant is converted at once.
    fn fit(&mut self, fit: Fit) {
        let param = std::mem::replace(&mut self.expr, Expr::Const(Value::Null));
        self.expr = Expr::Fitted(Box::new(param), fit);
    }
}

/// The type to which a constant is converted, depending on the value with which it is compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fit {
    /// A date, or a date and time, if it is compared with a date and time.
    Moment,
    /// The same, if it is compared with dates only.
    Day,
    /// A time, if it is compared with a time.
    Time,
    /// The number with which a text begins, if it is compared with an exact number.
    Exact,
}

impl Fit {
    /// The converted value; `None` if it stays unchanged.
    ///
    /// # Errors
    /// 1525 for a text that is not a date.
    pub(crate) fn of(self, value: &Value) -> Result<Option<Value>> {
        if value.is_null() {
            return Ok(None);
        }
        Ok(match self {
            Fit::Moment | Fit::Day => {
                let made = to_datetime(&value.as_ref()).map(|at| match at.micros {
                    0 => Value::Date(at.date),
                    _ => Value::DateTime(at),
                });
                if made.is_none() && matches!(value, Value::Text(_)) {
                    let kind = if self == Fit::Day { "DATE" } else { "DATETIME" };
                    let before = format!("Incorrect {kind} value: '");
                    return Err(SqlError::quoting(1525, &before, &value.to_text(), "'"));
                }
                made
            }
            Fit::Time => to_time(&value.as_ref()).map(Value::Time),
            Fit::Exact => match value {
                Value::Text(text) => text_decimal(text.as_bytes()).map(Value::Decimal),
                Value::Bytes(bytes) => text_decimal(bytes).map(Value::Decimal),
                _ => None,
            },
        })
    }
}

/// A value of this type as text.
pub(super) fn show(value: &Value, ty: &ColumnType) -> Value {
    match (value, ty) {
        (Value::Null, _) => Value::Null,
        (Value::Bytes(_), _) => value.clone(),
        (Value::DateTime(at), ColumnType::DateTime(digits) | ColumnType::Timestamp(digits)) => {
            Value::Text(at.format(*digits))
        }
        (Value::Time(time), ColumnType::Time(digits)) => Value::Text(time.format(*digits)),
        (Value::Int(year), ColumnType::Year) => Value::Text(format!("{year:04}")),
        (Value::UInt(number), ColumnType::Bit(bits)) => {
            let len = usize::from(bits.div_ceil(8)).min(8);
            Value::Bytes(number.to_be_bytes()[8 - len..].to_vec())
        }
        _ => Value::Text(value.to_text()),
    }
}

pub(crate) fn typed_value(value: Value) -> Typed {
    let ty = type_of(&value.as_ref());
    let nullable = value.is_null();
    Typed { expr: Expr::Const(value), ty, collation: Collation::GeneralCi, nullable }
}

impl Typed {
    /// Whether the value is bytes. VARBINARY(0) is the type of NULL.
    fn is_bytes(&self) -> bool {
        self.ty.is_binary() && self.ty != ColumnType::VarBinary(0)
    }

    /// Converts bytes to text, for a comparison or a function with a collation of text.
    ///
    /// # Errors
    /// 3854 for a constant that is not valid text. For other values, evaluation returns the same
    /// error.
    pub(crate) fn bytes_as_text(self, collation: Collation) -> Result<Typed> {
        if collation == Collation::Binary || !self.is_bytes() {
            return Ok(self);
        }
        let ty = ColumnType::Text(LobSize::Long);
        let expr = match self.expr {
            Expr::Const(value) => Expr::Const(text_of_bytes(value)?),
            expr => Expr::Call(Scalar::BytesText, vec![expr], Collation::Binary),
        };
        Ok(Typed { expr, ty, collation, ..self })
    }

    /// The rank of the value's collation in a comparison. 0: COLLATE. 1: a column, a cast, or an
    /// expression over them. 2: a literal, or text that a function makes from any argument. 3: the
    /// text of a number.
    fn collation_rank(&self) -> u8 {
        match &self.expr {
            Expr::Collated(_) => 0,
            Expr::Shown(_, ColumnType::Bit(_)) | Expr::Cast(..) => 1,
            Expr::Call(Scalar::Converted, ..) => 1,
            Expr::Shown(..) => 3,
            Expr::Call(call, ..) if call.makes_literals() => 2,
            expr if expr.is_constant() => 2,
            _ => 1,
        }
    }
}

/// Decodes bytes as UTF-8 text.
///
/// # Errors
/// 3854 for bytes that are not valid text.
pub(super) fn text_of_bytes(value: Value) -> Result<Value> {
    let Value::Bytes(bytes) = value else { return Ok(value) };
    String::from_utf8(bytes).map(Value::Text).map_err(|error| {
        let shown = printable_bytes(error.as_bytes());
        SqlError::quoting(3854, "Cannot convert string '", &shown, "' from binary to utf8mb4")
    })
}

/// The parts of a comparison, and its collation. If that is a collation of text, bytes become text.
///
/// # Errors
/// Those of [`common_collation`], and 3854 for a constant that is not valid text.
pub(crate) fn collated(parts: Vec<Typed>) -> Result<(Vec<Typed>, Collation)> {
    let collation = common_collation(&parts.iter().collect::<Vec<_>>())?;
    let parts = parts.into_iter().map(|part| part.bytes_as_text(collation));
    Ok((parts.collect::<Result<_>>()?, collation))
}

/// The collation of a comparison: that of the part with the lowest rank. COLLATE precedes a column
/// or an expression over columns, these precede a literal, and all precede the text of a number.
/// Bytes are compared as bytes, except a literal or decoded bytes beside text of a higher rank.
///
/// # Errors
/// 1267 if two parts of the same rank have different collations: two COLLATE clauses, or two
/// columns of which neither is `_bin`.
pub(crate) fn common_collation(parts: &[&Typed]) -> Result<Collation> {
    let rank = |part: &&&Typed| part.collation_rank();
    let bytes = parts.iter().filter(|part| part.is_bytes()).map(|part| part.collation_rank()).min();
    let texts = || parts.iter().filter(|part| part.ty.is_text());
    let Some(first) = texts().min_by_key(rank) else {
        return Ok(if bytes.is_some() { Collation::Binary } else { Collation::GeneralCi });
    };
    let rank_of_first = rank(&first);
    if bytes.is_some_and(|bytes| bytes <= rank_of_first) {
        return Ok(Collation::Binary);
    }
    let mut alike = texts().filter(|part| rank(part) == rank_of_first);
    if rank_of_first > 0 && alike.clone().any(|part| part.collation == Collation::Bin) {
        return Ok(Collation::Bin);
    }
    // An expression over columns may contain literals too, and the collation of a literal does not
    // count.
    let is_sure = |part: &Typed| rank_of_first == 0 || matches!(part.expr, Expr::Column(_));
    let other = alike.find(|part| is_sure(part) && part.collation != first.collation);
    match other {
        Some(other) if is_sure(first) => {
            let how = if rank_of_first == 0 { "EXPLICIT" } else { "IMPLICIT" };
            let (a, b) = (first.collation.name(), other.collation.name());
            let text = format!("Illegal mix of collations ({a},{how}) and ({b},{how})");
            Err(SqlError::new(1267, text))
        }
        Some(other) => Ok(other.collation),
        None => Ok(first.collation),
    }
}

pub(crate) fn arithmetic_type(op: Op, a: &ColumnType, b: &ColumnType) -> ColumnType {
    use ColumnType as T;
    let whole = |ty: &T| match ty {
        T::Int { .. } | T::Year | T::Bit(_) | T::Date => true,
        T::Time(digits) | T::DateTime(digits) | T::Timestamp(digits) => *digits == 0,
        _ => false,
    };
    let digits = |ty: &T| match ty {
        T::Decimal { precision, scale, .. } => Some((*precision, *scale)),
        ty if whole(ty) => Some((20, 0)),
        T::Time(digits) | T::DateTime(digits) | T::Timestamp(digits) => {
            Some((14 + digits, *digits))
        }
        _ => None,
    };
    if matches!(op, Op::BitAnd | Op::BitOr | Op::BitXor | Op::ShiftLeft | Op::ShiftRight) {
        return T::UBIGINT;
    }
    let unsigned = a.is_unsigned() || b.is_unsigned();
    if op == Op::IntDiv || (whole(a) && whole(b) && op != Op::Div) {
        let unsigned = if op == Op::Mod { a.is_unsigned() } else { unsigned };
        return if unsigned { T::UBIGINT } else { T::BIGINT };
    }
    let (Some((p, s)), Some((q, t))) = (digits(a), digits(b)) else { return T::Double };
    let (precision, scale) = match op {
        Op::Mul => (p + q, s + t),
        Op::Div => (p + t + 4, s + 4),
        Op::Mod => (p.max(q), s.max(t)),
        _ => ((p - s).max(q - t) + s.max(t) + 1, s.max(t)),
    };
    T::Decimal { precision: precision.min(65), scale: scale.min(30), unsigned: false }
}
