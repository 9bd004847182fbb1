//! Conversions of the arguments of functions, and the functions' result types.

use spillway_types::{Collation, ColumnType, Value};

use super::json::nested;
use super::scalar::{ResultKind, Scalar};
use crate::errors::{Result, SqlError};
use crate::expression::shape::{collated, common_collation, comparable, merge_types, merged};
use crate::expression::{Expr, Typed};

impl Scalar {
    /// Checks the arguments and derives the type of the result.
    pub(crate) fn typed(self, args: Vec<Typed>) -> Result<Typed> {
        let (min, max) = self.arity();
        let is_odd = self == Scalar::JsonObject && !args.len().is_multiple_of(2);
        if args.len() < min || args.len() > max || is_odd {
            let name = self.name();
            return Err(SqlError::new(
                1582,
                format!("Incorrect parameter count in the call to native function '{name}'"),
            ));
        }
        let converts = matches!(self, Scalar::Bin | Scalar::Oct | Scalar::Conv);
        let take = |(at, arg): (usize, Typed)| match self.takes(at) {
            b't' if converts && at == 0 && arg.is_bits() => arg.by_member(),
            b'm' if arg.is_moment_text() => arg.moment_of_text(),
            b't' => arg.shown(),
            b'n' => arg.numbered(),
            _ if self == Scalar::Hex && !arg.ty.is_numeric() => arg.shown(),
            _ => arg,
        };
        let args: Vec<Typed> = args.into_iter().enumerate().map(take).collect();
        // The condition of IF does not affect the type of its result.
        let given = usize::from(self == Scalar::If);
        let collation = common_collation(&args.iter().skip(given).collect::<Vec<_>>())?;
        // JSON takes bytes as they are, and NULLIF gives its first argument as it is.
        let keeps = matches!(self, Scalar::JsonObject | Scalar::JsonArray | Scalar::Nullif);
        let as_text = |(at, arg): (usize, Typed)| match keeps || at < given {
            true => Ok(arg),
            false => arg.bytes_as_text(collation),
        };
        let args = args.into_iter().enumerate().map(as_text).collect::<Result<Vec<Typed>>>()?;
        let nullable = self.nullable(&args);
        let (args, ty) = self.shaped(args)?;
        let is_text = ty.is_text();
        let exprs: Vec<Expr> = args.into_iter().map(|arg| arg.expr).collect();
        let known = matches!(exprs.get(1), None | Some(Expr::Const(_)));
        let expr = Expr::Call(self, exprs, collation);
        // The number of computed digits may differ between rows, but not the number of shown
        // digits.
        let rounds = matches!(self, Scalar::Round | Scalar::Truncate) && !known;
        let expr = match &ty {
            ColumnType::Decimal { .. } if rounds => Expr::Cast(Box::new(expr), ty.clone()),
            _ => expr,
        };
        let collation = match self.result() {
            ResultKind::Text => Collation::GeneralCi,
            _ if is_text => collation,
            _ => Collation::Binary,
        };
        Ok(Typed { expr, ty, collation, nullable })
    }

    fn nullable(self, args: &[Typed]) -> bool {
        use Scalar as S;
        match self {
            S::Now | S::Pi | S::Isnull | S::ConnectionId | S::Version | S::Char => false,
            S::Coalesce | S::Ifnull => args.iter().all(|arg| arg.nullable),
            S::Length | S::CharLength | S::Upper | S::Lower | S::Abs | S::Floor | S::Concat => {
                args.iter().any(|arg| arg.nullable)
            }
            _ => true,
        }
    }

    /// The arguments in the form in which they are compared and returned, and the type of the
    /// result.
    fn shaped(self, args: Vec<Typed>) -> Result<(Vec<Typed>, ColumnType)> {
        let ty = match self.result() {
            ResultKind::Int => ColumnType::BIGINT,
            ResultKind::UInt => ColumnType::UBIGINT,
            ResultKind::Double => ColumnType::Double,
            ResultKind::Text => ColumnType::VarChar(16_383),
            ResultKind::Like => {
                let first = usize::from(self.takes(0) == b'n');
                let binary = |arg: &Typed| arg.ty.is_binary() && !arg.is_null();
                let nothing = self == Scalar::MakeSet && args[first..].iter().all(Typed::is_null);
                if nothing || args[first..].iter().any(binary) {
                    ColumnType::VarBinary(65_535)
                } else {
                    ColumnType::VarChar(16_383)
                }
            }
            ResultKind::Bytes => ColumnType::VarBinary(65_535),
            ResultKind::Date => ColumnType::Date,
            ResultKind::Time => ColumnType::Time(self.digits(&args)),
            ResultKind::DateTime => ColumnType::DateTime(self.digits(&args)),
            ResultKind::Own => return self.own(args),
        };
        match self {
            Scalar::Field => return Ok((alike(args), ty)),
            Scalar::JsonObject | Scalar::JsonArray => return Ok((nested(self, args), ty)),
            _ => {}
        }
        Ok((args, ty))
    }

    fn own(self, mut args: Vec<Typed>) -> Result<(Vec<Typed>, ColumnType)> {
        use Scalar as S;
        let ty = match self {
            S::If => {
                let (rest, ty) = merged(args.split_off(1));
                args = args.into_iter().map(Typed::counted).chain(rest).collect();
                ty
            }
            S::Ifnull | S::Coalesce | S::Greatest | S::Least => return Ok(merged(args)),
            S::Nullif => {
                let first = args[0].clone();
                let ty = match &first.ty {
                    ColumnType::Enum(_) | ColumnType::Set(_) => ColumnType::VarChar(255),
                    ty => ty.clone(),
                };
                args = collated(comparable(args)?)?.0;
                args.push(first);
                ty
            }
            S::AnyValue => args[0].ty.clone(),
            S::Mod => crate::expression::shape::arithmetic_type(
                crate::expression::Op::Mod,
                &args[0].ty,
                &args[1].ty,
            ),
            S::UnixTimestamp => match args.first().map_or(0, fraction) {
                0 => ColumnType::BIGINT,
                scale => ColumnType::Decimal { precision: 12 + scale, scale, unsigned: false },
            },
            S::FromUnixtime if args.len() == 2 => {
                let format = args.pop().map(Typed::shown);
                args.extend(format);
                ColumnType::VarChar(255)
            }
            S::FromUnixtime => ColumnType::DateTime(fraction(&args[0])),
            S::StrToDate => parsed_type(&args[1]),
            S::Addtime | S::Subtime => {
                let digits = fraction(&args[0]).max(fraction(&args[1]));
                match &args[0].ty {
                    ColumnType::Time(_) => ColumnType::Time(digits),
                    ColumnType::DateTime(_) | ColumnType::Timestamp(_) => {
                        ColumnType::DateTime(digits)
                    }
                    _ => ColumnType::VarChar(29),
                }
            }
            _ => self.rounded(&args),
        };
        Ok((args, ty))
    }

    /// The type of a number that is truncated, rounded or made absolute.
    fn rounded(self, args: &[Typed]) -> ColumnType {
        use Scalar as S;
        let digits = match args.get(1).map(|arg| &arg.expr) {
            None => Some(0),
            Some(Expr::Const(value)) => Some(crate::expression::operands::whole(value)),
            Some(_) => None,
        };
        match (&args[0].ty, self) {
            (ty @ ColumnType::Int { .. }, S::Abs | S::Round | S::Truncate) => {
                if ty.is_unsigned() {
                    ColumnType::UBIGINT
                } else {
                    ColumnType::BIGINT
                }
            }
            (ty @ (ColumnType::Int { .. } | ColumnType::Year | ColumnType::Bit(_)), _) => {
                if ty.is_unsigned() { ColumnType::UBIGINT } else { ColumnType::BIGINT }
            }
            (ty @ ColumnType::Decimal { .. }, S::Abs) => ty.clone(),
            (ColumnType::Decimal { precision, scale, .. }, S::Round | S::Truncate) => {
                let kept = digits.map_or(*scale, |digits| digits.clamp(0, 30) as u8);
                let precision = (precision - scale).saturating_add(kept + 1).min(65);
                ColumnType::Decimal { precision, scale: kept, unsigned: false }
            }
            (ColumnType::Decimal { precision, scale, .. }, _) => {
                if precision - scale < 18 {
                    ColumnType::BIGINT
                } else {
                    ColumnType::Decimal {
                        precision: precision - scale + 1,
                        scale: 0,
                        unsigned: false,
                    }
                }
            }
            _ => ColumnType::Double,
        }
    }

    /// The number of fractional digits of the seconds in a date or time result.
    fn digits(self, args: &[Typed]) -> u8 {
        use Scalar as S;
        match (self, args) {
            (S::TimeOf | S::Timestamp | S::Timediff | S::SecToTime, _) => {
                args.iter().map(fraction).max().unwrap_or(0)
            }
            (S::Maketime, [.., seconds]) => fraction(seconds),
            (S::ConvertTz, [at, ..]) => fraction(at),
            (_, [arg, ..]) => match &arg.expr {
                Expr::Const(Value::Int(digits)) => (*digits).clamp(0, 6) as u8,
                _ => 0,
            },
            _ => 0,
        }
    }
}

/// The number of fractional digits of the seconds in a value.
fn fraction(arg: &Typed) -> u8 {
    match (&arg.ty, &arg.expr) {
        (
            ColumnType::Time(digits) | ColumnType::DateTime(digits) | ColumnType::Timestamp(digits),
            _,
        ) => *digits,
        (ColumnType::Decimal { scale, .. }, _) => (*scale).min(6),
        (ColumnType::Int { .. } | ColumnType::Year | ColumnType::Bit(_) | ColumnType::Date, _) => 0,
        (_, Expr::Const(Value::Null)) => 0,
        (_, Expr::Const(Value::Text(text))) => text_fraction(text),
        (_, Expr::Call(Scalar::MomentOf, args, _)) => match &args[..] {
            [Expr::Interval { date, amount, unit, .. }] => moved_fraction(date, amount, unit),
            _ => 6,
        },
        _ => 6,
    }
}

fn text_fraction(text: &str) -> u8 {
    text.rsplit_once('.').map_or(0, |(_, digits)| digits.trim_end().len().min(6) as u8)
}

/// The number of fractional digits of the seconds in the text of a constant date plus a constant
/// interval; 6 if it is unknown.
fn moved_fraction(date: &Expr, amount: &Expr, unit: &str) -> u8 {
    let whole = |value: &Expr| match value {
        Expr::Const(Value::Text(text)) => text_fraction(text) == 0,
        Expr::Const(Value::Int(_)) => true,
        _ => false,
    };
    if whole(date) && whole(amount) && !unit.contains("micro") { 0 } else { 6 }
}

/// The type that STR_TO_DATE returns for a format: a date, a time, or both.
fn parsed_type(format: &Typed) -> ColumnType {
    let Expr::Const(Value::Text(format)) = &format.expr else { return ColumnType::DateTime(6) };
    let has = |letters: &str| {
        let marks = format.as_bytes().windows(2).filter(|pair| pair[0] == b'%');
        marks.into_iter().any(|pair| letters.as_bytes().contains(&pair[1]))
    };
    let (date, time) = (has("abcDdejMmUuVvWwXxYy"), has("fHhIiklprSsT"));
    let digits = if has("f") { 6 } else { 0 };
    match (date, time) {
        (true, true) => ColumnType::DateTime(digits),
        (false, true) => ColumnType::Time(digits),
        _ => ColumnType::Date,
    }
}

/// Converts the arguments of FIELD: to text if all are texts, dates or times, else to doubles
/// unless all are numbers.
fn alike(args: Vec<Typed>) -> Vec<Typed> {
    let text = |arg: &Typed| arg.ty.is_text() || arg.ty.is_binary() || arg.is_temporal();
    if args.iter().all(|arg| text(arg) || arg.is_null()) {
        return args.into_iter().map(Typed::shown).collect();
    }
    let args: Vec<Typed> = args.into_iter().map(Typed::counted).collect();
    let exact = |arg: &Typed| arg.ty.is_numeric() || arg.is_null();
    if args.iter().all(exact) || !merge_types(args.iter()).is_text() {
        return args;
    }
    args.into_iter().map(|arg| arg.shaped(&ColumnType::Double)).collect()
}
