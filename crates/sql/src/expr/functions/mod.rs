//! Scalar functions: which there are, the types of their results, and their evaluation.

mod json;
mod numbers;
mod strings;
mod times;

use spillway_types::convert::{to_i128, truth};
use spillway_types::{Collation, ColumnType, Value};

pub(super) use strings::regex;
pub(super) use times::add_interval;

use super::eval::{Context, compare, number, text, whole};
use super::{Expr, Typed};
use crate::errors::{Result, SqlError};
use json::json_of;
use numbers::number_function;
use strings::text_function;
use times::date_function;

macro_rules! scalars {
    ($($variant:ident $name:literal $min:literal $max:literal $result:ident,)*) => {
        /// A scalar function.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(crate) enum Scalar { $($variant),* }

        impl Scalar {
            /// The function of this name.
            pub(crate) fn find(name: &str) -> Option<Scalar> {
                match name { $($name => Some(Scalar::$variant),)* _ => None }
            }

            /// MySQL's name.
            pub(crate) fn name(self) -> &'static str {
                match self { $(Scalar::$variant => $name),* }
            }

            fn arity(self) -> (usize, usize) {
                match self { $(Scalar::$variant => ($min, $max)),* }
            }

            fn result(self) -> Kind {
                match self { $(Scalar::$variant => Kind::$result),* }
            }
        }
    };
}

/// The kind of a function's result.
enum Kind {
    Int,
    UInt,
    Double,
    Text,
    Bytes,
    Date,
    Time,
    DateTime,
    /// As its first argument.
    First,
    /// As all of them.
    Merge,
}

scalars! {
    Abs "abs" 1 1 First, Ceil "ceil" 1 1 Int, Ceiling "ceiling" 1 1 Int, Floor "floor" 1 1 Int,
    Round "round" 1 2 First, Truncate "truncate" 2 2 First, Sign "sign" 1 1 Int, Sqrt "sqrt" 1 1 Double,
    Pow "pow" 2 2 Double, Power "power" 2 2 Double, Exp "exp" 1 1 Double, Ln "ln" 1 1 Double, Log "log" 1 2 Double,
    Log2 "log2" 1 1 Double, Log10 "log10" 1 1 Double, Sin "sin" 1 1 Double, Cos "cos" 1 1 Double, Tan "tan" 1 1 Double,
    Atan "atan" 1 2 Double, Asin "asin" 1 1 Double, Acos "acos" 1 1 Double, Pi "pi" 0 0 Double, Rand "rand" 0 1 Double,
    Mod "mod" 2 2 First, Degrees "degrees" 1 1 Double, Radians "radians" 1 1 Double, Crc32 "crc32" 1 1 UInt,
    Length "length" 1 1 Int, OctetLength "octet_length" 1 1 Int, CharLength "char_length" 1 1 Int,
    CharacterLength "character_length" 1 1 Int, BitLength "bit_length" 1 1 Int, Upper "upper" 1 1 Text, Ucase "ucase" 1 1 Text,
    Lower "lower" 1 1 Text, Lcase "lcase" 1 1 Text, Concat "concat" 1 999 Text, ConcatWs "concat_ws" 2 999 Text,
    Substring "substring" 2 3 Text, Substr "substr" 2 3 Text, Mid "mid" 3 3 Text, Left "left" 2 2 Text, Right "right" 2 2 Text,
    SubstringIndex "substring_index" 3 3 Text, Trim "trim" 1 1 Text, TrimBoth "trim both" 2 2 Text, TrimLead "trim leading" 2 2 Text,
    TrimTrail "trim trailing" 2 2 Text, Ltrim "ltrim" 1 1 Text, Rtrim "rtrim" 1 1 Text, Replace "replace" 3 3 Text,
    Reverse "reverse" 1 1 Text, Repeat "repeat" 2 2 Text, Space "space" 1 1 Text, Lpad "lpad" 3 3 Text, Rpad "rpad" 3 3 Text,
    Instr "instr" 2 2 Int, Locate "locate" 2 3 Int, Position "position" 2 2 Int, Strcmp "strcmp" 2 2 Int, Ascii "ascii" 1 1 Int,
    Ord "ord" 1 1 Int, Char "char" 1 999 Bytes, Hex "hex" 1 1 Text, Unhex "unhex" 1 1 Bytes, Bin "bin" 1 1 Text, Oct "oct" 1 1 Text,
    Conv "conv" 3 3 Text, Format "format" 2 3 Text, Field "field" 2 999 Int, Elt "elt" 2 999 Text, FindInSet "find_in_set" 2 2 Int,
    Insert "insert" 4 4 Text, Quote "quote" 1 1 Text, Md5 "md5" 1 1 Text, Sha "sha" 1 1 Text, Sha1 "sha1" 1 1 Text, Sha2 "sha2" 2 2 Text,
    Uuid "uuid" 0 0 Text, ToBase64 "to_base64" 1 1 Text, RegexpLike "regexp_like" 2 3 Int, RegexpReplace "regexp_replace" 3 3 Text,
    If "if" 3 3 Merge, Ifnull "ifnull" 2 2 Merge, Nullif "nullif" 2 2 First, Coalesce "coalesce" 1 999 Merge,
    Greatest "greatest" 2 999 Merge, Least "least" 2 999 Merge, Isnull "isnull" 1 1 Int, Interval "interval" 2 999 Int,
    Now "now" 0 1 DateTime, CurrentTimestamp "current_timestamp" 0 1 DateTime, Localtime "localtime" 0 1 DateTime,
    Localtimestamp "localtimestamp" 0 1 DateTime, Sysdate "sysdate" 0 1 DateTime, UtcTimestamp "utc_timestamp" 0 1 DateTime,
    Curdate "curdate" 0 0 Date, CurrentDate "current_date" 0 0 Date, UtcDate "utc_date" 0 0 Date, Curtime "curtime" 0 1 Time,
    CurrentTime "current_time" 0 1 Time, UtcTime "utc_time" 0 1 Time, UnixTimestamp "unix_timestamp" 0 1 Int, FromUnixtime "from_unixtime" 1 1 DateTime,
    DateOf "date" 1 1 Date, TimeOf "time" 1 1 Time, Timestamp "timestamp" 1 1 DateTime, Year "year" 1 1 Int, Month "month" 1 1 Int, Day "day" 1 1 Int,
    Dayofmonth "dayofmonth" 1 1 Int, Hour "hour" 1 1 Int, Minute "minute" 1 1 Int, Second "second" 1 1 Int,
    Microsecond "microsecond" 1 1 Int, Quarter "quarter" 1 1 Int, Dayofweek "dayofweek" 1 1 Int, Weekday "weekday" 1 1 Int,
    Dayofyear "dayofyear" 1 1 Int, Week "week" 1 2 Int, LastDay "last_day" 1 1 Date, Dayname "dayname" 1 1 Text,
    Monthname "monthname" 1 1 Text, Datediff "datediff" 2 2 Int, Timediff "timediff" 2 2 Time, ToDays "to_days" 1 1 Int,
    FromDays "from_days" 1 1 Date, DateFormat "date_format" 2 2 Text, TimeToSec "time_to_sec" 1 1 Int, SecToTime "sec_to_time" 1 1 Time,
    Timestampdiff "timestampdiff" 3 3 Int, Makedate "makedate" 2 2 Date, Maketime "maketime" 3 3 Time, StrToDate "str_to_date" 2 2 DateTime,
    Database "database" 0 0 Text, Schema "schema" 0 0 Text, User "user" 0 0 Text, CurrentUser "current_user" 0 0 Text,
    SessionUser "session_user" 0 0 Text, Version "version" 0 0 Text, ConnectionId "connection_id" 0 0 UInt,
    LastInsertId "last_insert_id" 0 1 UInt, RowCount "row_count" 0 0 Int, FoundRows "found_rows" 0 0 UInt, Charset "charset" 1 1 Text,
    CollationOf "collation" 1 1 Text, Sleep "sleep" 1 1 Int, GetLock "get_lock" 2 2 Int, ReleaseLock "release_lock" 1 1 Int,
    JsonValid "json_valid" 1 1 Int, JsonExtract "json_extract" 2 2 Text, JsonUnquote "json_unquote" 1 1 Text, JsonObject "json_object" 0 999 Text,
    JsonArray "json_array" 0 999 Text, BitCount "bit_count" 1 1 Int, InetAton "inet_aton" 1 1 UInt, InetNtoa "inet_ntoa" 1 1 Text,
    Benchmark "benchmark" 2 2 Int, AnyValue "any_value" 1 1 First,
}

impl Scalar {
    /// Whether two calls with equal arguments may differ.
    pub(crate) fn is_volatile(self) -> bool {
        matches!(
            self,
            Scalar::Rand | Scalar::Uuid | Scalar::Sleep | Scalar::Sysdate | Scalar::LastInsertId
        )
    }

    /// Whether all of its arguments are taken as numbers.
    fn takes_numbers(self) -> bool {
        use Scalar as S;
        matches!(
            self,
            S::Abs
                | S::Ceil
                | S::Ceiling
                | S::Floor
                | S::Round
                | S::Truncate
                | S::Sign
                | S::Sqrt
                | S::Pow
                | S::Power
                | S::Exp
                | S::Ln
                | S::Log
                | S::Log2
                | S::Log10
                | S::Sin
                | S::Cos
                | S::Tan
                | S::Atan
                | S::Asin
                | S::Acos
                | S::Mod
                | S::Degrees
                | S::Radians
                | S::Bin
                | S::Oct
                | S::Char
                | S::BitCount
                | S::Interval
                | S::InetNtoa
                | S::FromDays
                | S::SecToTime
                | S::Makedate
                | S::Maketime
                | S::Space
        )
    }

    /// Checks the arguments and derives the type of the result.
    pub(crate) fn typed(self, args: Vec<Typed>) -> Result<Typed> {
        let (min, max) = self.arity();
        if args.len() < min || args.len() > max {
            return Err(SqlError::new(
                1582,
                format!(
                    "Incorrect parameter count in the call to native function '{}'",
                    self.name()
                ),
            ));
        }
        let numeric = match self {
            Scalar::If => 1,
            _ if self.takes_numbers() => args.len(),
            _ => 0,
        };
        let counted = |(at, arg): (usize, Typed)| if at < numeric { arg.counted() } else { arg };
        let args: Vec<Typed> = args.into_iter().enumerate().map(counted).collect();
        let text = args
            .iter()
            .find(|arg| arg.ty.is_text())
            .map_or(Collation::GeneralCi, |arg| arg.collation);
        let binary = args
            .iter()
            .any(|arg| arg.ty.is_binary() && !matches!(arg.expr, Expr::Const(Value::Null)));
        let digits = match args.first().map(|arg| &arg.expr) {
            Some(Expr::Const(Value::Int(digits)))
                if self.name().ends_with("stamp")
                    || matches!(
                        self,
                        Scalar::Now
                            | Scalar::Curtime
                            | Scalar::CurrentTime
                            | Scalar::Localtime
                            | Scalar::Sysdate
                    ) =>
            {
                (*digits).clamp(0, 6) as u8
            }
            _ => 0,
        };
        let ty = match self.result() {
            Kind::Int => ColumnType::BIGINT,
            Kind::UInt => ColumnType::UBIGINT,
            Kind::Double => ColumnType::Double,
            Kind::Text
                if binary
                    && !matches!(
                        self,
                        Scalar::Hex | Scalar::Md5 | Scalar::Sha1 | Scalar::Sha2 | Scalar::Quote
                    ) =>
            {
                ColumnType::VarBinary(65_535)
            }
            Kind::Text => ColumnType::VarChar(16_383),
            Kind::Bytes => ColumnType::VarBinary(65_535),
            Kind::Date => ColumnType::Date,
            Kind::Time => ColumnType::Time(digits),
            Kind::DateTime => ColumnType::DateTime(digits),
            Kind::First => match args.first().map(|arg| &arg.ty) {
                Some(ty)
                    if ty.is_numeric() || self == Scalar::Nullif || self == Scalar::AnyValue =>
                {
                    ty.clone()
                }
                _ => ColumnType::Double,
            },
            Kind::Merge => merge_types(args.iter().skip(usize::from(self == Scalar::If))),
        };
        let nullable = !matches!(
            self,
            Scalar::Now | Scalar::Pi | Scalar::Isnull | Scalar::ConnectionId | Scalar::Version
        ) && (args.is_empty()
            || args.iter().any(|arg| arg.nullable)
            || !matches!(
                self,
                Scalar::Length | Scalar::Upper | Scalar::Lower | Scalar::Abs | Scalar::Floor
            ));
        let exprs = args.into_iter().map(|arg| arg.expr).collect();
        Ok(Typed { expr: Expr::Call(self, exprs), ty, collation: text, nullable })
    }
}

/// The type that holds values of all of these.
pub(crate) fn merge_types<'a>(args: impl Iterator<Item = &'a Typed>) -> ColumnType {
    let mut merged: Option<ColumnType> = None;
    for arg in args.filter(|arg| !matches!(arg.expr, Expr::Const(Value::Null))) {
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
    match (a, b) {
        (T::Int { unsigned: x, .. }, T::Int { unsigned: y, .. }) => {
            if x == y {
                if *x { T::UBIGINT } else { T::BIGINT }
            } else {
                T::Decimal { precision: 20, scale: 0, unsigned: false }
            }
        }
        (T::Decimal { precision: p, scale: s, .. }, T::Decimal { precision: q, scale: t, .. }) => {
            let scale = *s.max(t);
            T::Decimal { precision: ((p - s).max(q - t) + scale).min(65), scale, unsigned: false }
        }
        (T::Decimal { scale, precision, .. }, T::Int { .. })
        | (T::Int { .. }, T::Decimal { scale, precision, .. }) => T::Decimal {
            precision: (20 + scale).max(*precision).min(65),
            scale: *scale,
            unsigned: false,
        },
        _ if a.is_numeric() && b.is_numeric() => T::Double,
        (
            T::Date | T::DateTime(_) | T::Timestamp(_),
            T::Date | T::DateTime(_) | T::Timestamp(_),
        ) => T::DateTime(6),
        _ if a.is_binary() || b.is_binary() => T::Blob(spillway_types::column::LobSize::Long),
        (T::Text(_), _) | (_, T::Text(_)) => T::Text(spillway_types::column::LobSize::Long),
        (T::VarChar(x) | T::Char(x), T::VarChar(y) | T::Char(y)) => T::VarChar(*x.max(y)),
        _ => T::VarChar(16_383),
    }
}

/// Calls a function.
pub(super) fn call(
    context: &Context<'_>,
    call: Scalar,
    exprs: &[Expr],
    row: &[Value],
) -> Result<Value> {
    use Scalar as S;
    // Those that do not evaluate all of their arguments, or do not mind NULL.
    match call {
        S::If => {
            let hit = truth(&context.value(&exprs[0], row)?.as_ref().as_ref()) == Some(true);
            return context.eval(&exprs[if hit { 1 } else { 2 }], row);
        }
        S::Ifnull | S::Coalesce => {
            for expr in exprs {
                let value = context.value(expr, row)?;
                if !value.is_null() {
                    return Ok(value.into_owned());
                }
            }
            return Ok(Value::Null);
        }
        _ => {}
    }
    let args: Vec<Value> =
        exprs.iter().map(|expr| context.eval(expr, row)).collect::<Result<_>>()?;
    match call {
        S::Nullif => {
            let same = compare(&args[0], &args[1], Collation::GeneralCi)
                == Some(std::cmp::Ordering::Equal);
            return Ok(if same { Value::Null } else { args[0].clone() });
        }
        S::Isnull => return Ok(Value::from(args[0].is_null())),
        S::AnyValue => return Ok(args[0].clone()),
        S::ConcatWs => {
            if args[0].is_null() {
                return Ok(Value::Null);
            }
            let parts: Vec<String> =
                args[1..].iter().filter(|arg| !arg.is_null()).map(text).collect();
            return Ok(Value::Text(parts.join(&text(&args[0]))));
        }
        S::Field => {
            let at = args[1..].iter().position(|arg| {
                compare(&args[0], arg, Collation::GeneralCi) == Some(std::cmp::Ordering::Equal)
            });
            return Ok(Value::Int(at.map_or(0, |at| at as i64 + 1)));
        }
        S::Elt => {
            let at = usize::try_from(whole(&args[0])).unwrap_or(0);
            return Ok(if at == 0 {
                Value::Null
            } else {
                args.get(at).cloned().unwrap_or_default()
            });
        }
        S::Quote if args[0].is_null() => return Ok(Value::from("NULL")),
        S::JsonObject | S::JsonArray => return Ok(Value::Text(json_of(call, &args))),
        S::Char => {
            let mut out = Vec::new();
            for code in args.iter().filter(|arg| !arg.is_null()).map(whole) {
                let bytes = (code as u32).to_be_bytes();
                let skip = bytes.iter().position(|byte| *byte != 0).unwrap_or(3);
                out.extend_from_slice(&bytes[skip..]);
            }
            return Ok(Value::Bytes(out));
        }
        _ => {}
    }
    if args.iter().any(Value::is_null) {
        return Ok(Value::Null);
    }
    session_function(context, call, &args)
        .or_else(|| date_function(context, call, &args))
        .or_else(|| number_function(call, &args))
        .map_or_else(|| text_function(context, call, &args), Ok)
}

fn session_function(context: &Context<'_>, call: Scalar, args: &[Value]) -> Option<Value> {
    use Scalar as S;
    let variables = context.variables.borrow();
    Some(match call {
        S::Database | S::Schema => variables.database.clone().map_or(Value::Null, Value::Text),
        S::User | S::SessionUser => {
            Value::Text(format!("{}@{}", variables.user_name, variables.host))
        }
        S::CurrentUser => Value::Text(format!("{}@{}", variables.user_name, variables.user_host)),
        S::Version => Value::Text(crate::session::VERSION.to_owned()),
        S::ConnectionId => Value::UInt(variables.connection_id),
        S::LastInsertId => match args.first() {
            None => Value::UInt(variables.last_insert_id),
            Some(value) => {
                let id = to_i128(&value.as_ref()).unwrap_or(0) as u64;
                drop(variables);
                context.variables.borrow_mut().last_insert_id = id;
                return Some(Value::UInt(id));
            }
        },
        S::RowCount => Value::Int(variables.row_count),
        S::FoundRows => Value::UInt(variables.found_rows),
        S::Sleep => {
            let seconds = number(&args[0]).clamp(0.0, 3600.0);
            drop(variables);
            let clock = spillway_base::clock::Clock::system();
            let end = clock.now() + std::time::Duration::from_secs_f64(seconds);
            while clock.now() < end {
                if context.txn.cancel_handle().is_cancelled() {
                    return Some(Value::Int(1));
                }
                clock.sleep(std::time::Duration::from_millis(5).min(end - clock.now()));
            }
            return Some(Value::Int(0));
        }
        S::GetLock | S::ReleaseLock => Value::Int(1),
        S::Benchmark => Value::Int(0),
        _ => return None,
    })
}
