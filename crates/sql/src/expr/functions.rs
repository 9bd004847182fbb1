//! Scalar functions.

use std::fmt::Write as _;

use regex::{Regex, RegexBuilder};
use sha1::{Digest, Sha1};
use sha2::{Sha224, Sha256, Sha384, Sha512};
use spillway_types::convert::{integer, to_datetime, to_decimal, to_i128, to_time, truth};
use spillway_types::temporal::days_in_month;
use spillway_types::{Collation, ColumnType, Date, DateTime, Decimal, Time, Value};

use super::eval::{Context, compare, number, text, whole};
use super::{Expr, Typed};
use crate::errors::{Result, SqlError};

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
    if a == b {
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

/// A regular expression, without regard to case where the collation has none.
pub(super) fn regex(pattern: &str, collation: Collation) -> Result<Regex> {
    RegexBuilder::new(pattern)
        .case_insensitive(collation == Collation::GeneralCi)
        .size_limit(1 << 20)
        .build()
        .map_err(|_| SqlError::new(3685, "Illegal argument to a regular expression."))
}

fn date_unit(at: DateTime, unit: &str) -> i64 {
    let (hour, minute, second, micros) = at.clock();
    (match unit {
        "year" => u64::from(at.date.year),
        "quarter" => u64::from(at.date.month).div_ceil(3),
        "month" => u64::from(at.date.month),
        "day" => u64::from(at.date.day),
        "hour" => hour,
        "minute" => minute,
        "second" => second,
        _ => micros,
    }) as i64
}

/// A date moved by an interval; NULL where that is no date.
pub(super) fn add_interval(date: &Value, amount: &Value, unit: &str, negative: bool) -> Value {
    if date.is_null() || amount.is_null() {
        return Value::Null;
    }
    let sign = if negative { -1 } else { 1 };
    let unit = unit.to_ascii_lowercase();
    let unit = unit.strip_suffix('s').unwrap_or(&unit);
    let parts: Vec<i64> = {
        let shown = text(amount);
        let minus = if shown.trim_start().starts_with('-') { -1 } else { 1 };
        let numbers = shown.split(|c: char| !c.is_ascii_digit()).filter(|part| !part.is_empty());
        numbers.map(|part| minus * part.parse::<i64>().unwrap_or(0)).collect()
    };
    let part = |at: usize| parts.get(at).copied().unwrap_or(0);
    let one = sign * whole(amount);
    const SECOND: i64 = 1_000_000;
    let (months, micros) = match unit {
        "year" => (12 * one, 0),
        "quarter" => (3 * one, 0),
        "month" => (one, 0),
        "week" => (0, 7 * 86_400 * SECOND * one),
        "day" => (0, 86_400 * SECOND * one),
        "hour" => (0, 3600 * SECOND * one),
        "minute" => (0, 60 * SECOND * one),
        "second" => (0, (number(amount) * SECOND as f64).round() as i64 * sign),
        "microsecond" => (0, one),
        "year_month" => (sign * (12 * part(0) + part(1)), 0),
        "day_hour" => (0, sign * SECOND * (86_400 * part(0) + 3600 * part(1))),
        "day_minute" => (0, sign * SECOND * (86_400 * part(0) + 3600 * part(1) + 60 * part(2))),
        "day_second" => {
            (0, sign * SECOND * (86_400 * part(0) + 3600 * part(1) + 60 * part(2) + part(3)))
        }
        "hour_minute" => (0, sign * SECOND * (3600 * part(0) + 60 * part(1))),
        "hour_second" => (0, sign * SECOND * (3600 * part(0) + 60 * part(1) + part(2))),
        "minute_second" => (0, sign * SECOND * (60 * part(0) + part(1))),
        _ => return Value::Null,
    };
    if let Value::Time(time) = date {
        return Value::Time(Time { micros: time.micros + micros });
    }
    let Some(at) = to_datetime(&date.as_ref()) else { return Value::Null };
    let Some(moved) = at.date.add_months(months) else { return Value::Null };
    let Some(moved) = DateTime::from_micros_of(moved, at.micros as i64 + micros) else {
        return Value::Null;
    };
    let whole_days = micros % (86_400 * SECOND) == 0
        && !unit.contains("hour")
        && !unit.contains("minute")
        && !unit.contains("second");
    match date {
        Value::Date(_) if whole_days => Value::Date(moved.date),
        Value::Text(shown) if whole_days && shown.len() <= 10 => {
            Value::Text(moved.date.to_string())
        }
        Value::Text(_) => Value::Text(moved.format(moved.digits())),
        _ => Value::DateTime(moved),
    }
}

fn format_date(at: DateTime, format: &str) -> String {
    let mut out = String::new();
    let (hour, minute, second, micros) = at.clock();
    let twelve = if hour % 12 == 0 { 12 } else { hour % 12 };
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let _ = match chars.next() {
            Some('Y') => write!(out, "{:04}", at.date.year),
            Some('y') => write!(out, "{:02}", at.date.year % 100),
            Some('m') => write!(out, "{:02}", at.date.month),
            Some('c') => write!(out, "{}", at.date.month),
            Some('d') => write!(out, "{:02}", at.date.day),
            Some('e') => write!(out, "{}", at.date.day),
            Some('H') => write!(out, "{hour:02}"),
            Some('k') => write!(out, "{hour}"),
            Some('h' | 'I') => write!(out, "{twelve:02}"),
            Some('l') => write!(out, "{twelve}"),
            Some('i') => write!(out, "{minute:02}"),
            Some('s' | 'S') => write!(out, "{second:02}"),
            Some('f') => write!(out, "{micros:06}"),
            Some('p') => write!(out, "{}", if hour < 12 { "AM" } else { "PM" }),
            Some('T') => write!(out, "{hour:02}:{minute:02}:{second:02}"),
            Some('r') => write!(
                out,
                "{twelve:02}:{minute:02}:{second:02} {}",
                if hour < 12 { "AM" } else { "PM" }
            ),
            Some('j') => write!(out, "{:03}", at.date.day_of_year()),
            Some('a') => write!(out, "{}", &DAYS[usize::from(at.date.weekday())][..3]),
            Some('W') => write!(out, "{}", DAYS[usize::from(at.date.weekday())]),
            Some('w') => write!(out, "{}", (at.date.weekday() + 1) % 7),
            Some('b') => write!(out, "{}", &MONTHS[usize::from(at.date.month.max(1)) - 1][..3]),
            Some('M') => write!(out, "{}", MONTHS[usize::from(at.date.month.max(1)) - 1]),
            Some(other) => write!(out, "{other}"),
            None => Ok(()),
        };
    }
    out
}

const DAYS: [&str; 7] =
    ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

fn round_to(value: &Value, digits: i64, truncate: bool) -> Value {
    match value {
        Value::Int(_) | Value::UInt(_) if digits >= 0 => value.clone(),
        Value::Double(_) | Value::Text(_) | Value::Bytes(_) => {
            let factor = 10f64.powi(digits.clamp(-300, 300) as i32);
            let scaled = number(value) * factor;
            let rounded =
                if truncate { scaled.trunc() } else { scaled.round_ties_even_half_away() };
            let result = rounded / factor;
            Value::Double(if result.is_finite() { result } else { number(value) })
        }
        _ => {
            let Some(decimal) = to_decimal(&value.as_ref()) else { return Value::Null };
            if digits >= 0 {
                let digits = digits.min(30) as u8;
                let scale = digits.min(decimal.scale());
                return Value::Decimal(if truncate {
                    decimal.truncate(scale)
                } else {
                    decimal.round(scale)
                });
            }
            let unit = Decimal::new(10i128.pow((-digits).min(30) as u32), 0);
            let quotient = decimal.div(&unit).unwrap_or(Decimal::ZERO);
            let quotient = if truncate { quotient.truncate(0) } else { quotient.round(0) };
            let result = quotient.mul(&unit).unwrap_or(Decimal::ZERO);
            match value {
                Value::Int(_) | Value::UInt(_) => integer(result.to_i128().unwrap_or(0)),
                _ => Value::Decimal(result),
            }
        }
    }
}

/// Rounding as C's `rint` does for doubles, which is what MySQL shows.
trait Rint {
    fn round_ties_even_half_away(self) -> f64;
}

impl Rint for f64 {
    fn round_ties_even_half_away(self) -> f64 {
        self.round_ties_even()
    }
}

fn substring(value: &Value, from: i64, count: Option<i64>) -> Value {
    fn cut<T: Copy>(items: &[T], from: i64, count: Option<i64>) -> Vec<T> {
        let len = items.len() as i64;
        let start = if from > 0 { from - 1 } else { len + from };
        if from == 0 || start < 0 || start >= len {
            return Vec::new();
        }
        let count = count.unwrap_or(len).max(0).min(len - start);
        items[start as usize..(start + count) as usize].to_vec()
    }
    match value {
        Value::Bytes(bytes) => Value::Bytes(cut(bytes, from, count)),
        other => {
            let chars: Vec<char> = text(other).chars().collect();
            Value::Text(cut(&chars, from, count).into_iter().collect())
        }
    }
}

fn bytes_of(value: &Value) -> Vec<u8> {
    match value {
        Value::Bytes(bytes) => bytes.clone(),
        other => text(other).into_bytes(),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, byte| {
        let _ = write!(out, "{byte:02X}");
        out
    })
}

fn pad(value: &str, len: i64, with: &str, left: bool) -> Value {
    let chars: Vec<char> = value.chars().collect();
    let Ok(len) = usize::try_from(len) else { return Value::Null };
    if len <= chars.len() {
        return Value::Text(chars[..len].iter().collect());
    }
    if with.is_empty() || len > 16 << 20 {
        return Value::Null;
    }
    let filling: String = with.chars().cycle().take(len - chars.len()).collect();
    Value::Text(if left { format!("{filling}{value}") } else { format!("{value}{filling}") })
}

fn locate(needle: &str, hay: &str, from: i64) -> i64 {
    let fold = |text: &str| text.to_lowercase().chars().collect::<Vec<_>>();
    let (needle, hay) = (fold(needle), fold(hay));
    let Ok(start) = usize::try_from(from - 1) else { return 0 };
    if needle.is_empty() {
        return if start <= hay.len() { from } else { 0 };
    }
    let found = hay
        .get(start..)
        .and_then(|rest| rest.windows(needle.len()).position(|part| part == needle));
    found.map_or(0, |at| (start + at + 1) as i64)
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

fn json_of(call: Scalar, args: &[Value]) -> String {
    let json = |value: &Value| match value {
        Value::Null => "null".to_owned(),
        Value::Int(_) | Value::UInt(_) | Value::Double(_) | Value::Decimal(_) => text(value),
        other => serde_json::to_string(&text(other)).unwrap_or_default(),
    };
    if call == Scalar::JsonArray {
        let parts: Vec<String> = args.iter().map(json).collect();
        return format!("[{}]", parts.join(", "));
    }
    let parts: Vec<String> = args
        .chunks(2)
        .map(|pair| {
            let key = serde_json::to_string(&text(&pair[0])).unwrap_or_default();
            format!("{key}: {}", pair.get(1).map_or("null".to_owned(), json))
        })
        .collect();
    format!("{{{}}}", parts.join(", "))
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

fn date_function(context: &Context<'_>, call: Scalar, args: &[Value]) -> Option<Value> {
    use Scalar as S;
    let digits = || args.first().map_or(0, |arg| whole(arg).clamp(0, 6) as u8);
    let now = |digits: u8| {
        let unit = 10u64.pow(6 - u32::from(digits));
        DateTime { date: context.now.date, micros: context.now.micros / unit * unit }
    };
    let at = || args.first().and_then(|arg| to_datetime(&arg.as_ref()));
    let of = |value: Option<i64>| value.map_or(Value::Null, Value::Int);
    let offset = context.variables.borrow().time_offset_micros;
    let utc = |at: DateTime| DateTime::from_unix_micros(at.to_unix_micros() - offset).unwrap_or(at);
    Some(match call {
        S::Now | S::CurrentTimestamp | S::Localtime | S::Localtimestamp | S::Sysdate => {
            Value::DateTime(now(digits()))
        }
        S::UtcTimestamp => Value::DateTime(utc(now(digits()))),
        S::Curdate | S::CurrentDate => Value::Date(context.now.date),
        S::UtcDate => Value::Date(utc(context.now).date),
        S::Curtime | S::CurrentTime => Value::Time(now(digits()).time()),
        S::UtcTime => Value::Time(utc(now(digits())).time()),
        S::UnixTimestamp => match args.first() {
            None => Value::Int((context.now.to_unix_micros() - offset) / 1_000_000),
            Some(_) => match at() {
                Some(at) => {
                    let micros = at.to_unix_micros() - offset;
                    if micros % 1_000_000 == 0 {
                        Value::Int(micros / 1_000_000)
                    } else {
                        Value::Decimal(Decimal::new(micros.into(), 6))
                    }
                }
                None => Value::Null,
            },
        },
        S::FromUnixtime => {
            let micros = to_decimal(&args[0].as_ref())
                .and_then(|n| n.mul(&Decimal::new(1_000_000, 0))?.to_i128());
            let at = micros.and_then(|micros| {
                DateTime::from_unix_micros(i64::try_from(micros).ok()? + offset)
            });
            at.map_or(Value::Null, Value::DateTime)
        }
        S::DateOf => at().map_or(Value::Null, |at| Value::Date(at.date)),
        S::Timestamp => at().map_or(Value::Null, Value::DateTime),
        S::TimeOf => to_time(&args[0].as_ref()).map_or(Value::Null, Value::Time),
        S::Year => of(at().map(|at| date_unit(at, "year"))),
        S::Quarter => of(at().map(|at| date_unit(at, "quarter"))),
        S::Month => of(at().map(|at| date_unit(at, "month"))),
        S::Day | S::Dayofmonth => of(at().map(|at| date_unit(at, "day"))),
        S::Hour => of(to_time(&args[0].as_ref()).map(|time| time.micros.abs() / 3_600_000_000)),
        S::Minute => of(to_time(&args[0].as_ref()).map(|time| time.micros.abs() / 60_000_000 % 60)),
        S::Second => of(to_time(&args[0].as_ref()).map(|time| time.micros.abs() / 1_000_000 % 60)),
        S::Microsecond => of(to_time(&args[0].as_ref()).map(|time| time.micros.abs() % 1_000_000)),
        S::Dayofweek => of(at().map(|at| i64::from((at.date.weekday() + 1) % 7 + 1))),
        S::Weekday => of(at().map(|at| i64::from(at.date.weekday()))),
        S::Dayofyear => of(at().map(|at| i64::from(at.date.day_of_year()))),
        S::Week => of(at().map(|at| {
            let monday = args.get(1).is_some_and(|mode| whole(mode) % 2 == 1);
            let first = Date { year: at.date.year, month: 1, day: 1 };
            let shift = if monday {
                i64::from(first.weekday())
            } else {
                i64::from((first.weekday() + 1) % 7)
            };
            let day = i64::from(at.date.day_of_year()) - 1;
            (day + shift) / 7 + i64::from(shift == 0)
        })),
        S::LastDay => at().map_or(Value::Null, |at| {
            Value::Date(Date { day: days_in_month(at.date.year, at.date.month), ..at.date })
        }),
        S::Dayname => {
            at().map_or(Value::Null, |at| Value::from(DAYS[usize::from(at.date.weekday())]))
        }
        S::Monthname => at()
            .map_or(Value::Null, |at| Value::from(MONTHS[usize::from(at.date.month.max(1)) - 1])),
        S::Datediff => match (at(), to_datetime(&args[1].as_ref())) {
            (Some(a), Some(b)) => Value::Int(a.date.to_days() - b.date.to_days()),
            _ => Value::Null,
        },
        S::Timediff => match (to_datetime(&args[0].as_ref()), to_datetime(&args[1].as_ref())) {
            (Some(a), Some(b)) => {
                Value::Time(Time { micros: a.to_unix_micros() - b.to_unix_micros() })
            }
            _ => match (to_time(&args[0].as_ref()), to_time(&args[1].as_ref())) {
                (Some(a), Some(b)) => Value::Time(Time { micros: a.micros - b.micros }),
                _ => Value::Null,
            },
        },
        S::ToDays => of(at().map(|at| at.date.to_days() + 719_528)),
        S::FromDays => Date::from_days(whole(&args[0]) - 719_528).map_or(Value::Null, Value::Date),
        S::DateFormat => {
            at().map_or(Value::Null, |at| Value::Text(format_date(at, &text(&args[1]))))
        }
        S::TimeToSec => of(to_time(&args[0].as_ref()).map(|time| time.micros / 1_000_000)),
        S::SecToTime => Value::Time(Time { micros: (number(&args[0]) * 1e6) as i64 }),
        S::Makedate => Date::from_days(
            Date { year: whole(&args[0]) as u16, month: 1, day: 1 }.to_days() + whole(&args[1]) - 1,
        )
        .map_or(Value::Null, Value::Date),
        S::Maketime => Value::Time(Time {
            micros: (whole(&args[0]) * 3600 + whole(&args[1]) * 60) * 1_000_000
                + (number(&args[2]) * 1e6) as i64,
        }),
        S::StrToDate => to_datetime(&args[0].as_ref()).map_or(Value::Null, Value::DateTime),
        S::Timestampdiff => {
            let (Some(a), Some(b)) =
                (to_datetime(&args[1].as_ref()), to_datetime(&args[2].as_ref()))
            else {
                return Some(Value::Null);
            };
            let micros = b.to_unix_micros() - a.to_unix_micros();
            let months = || {
                let index = |at: DateTime| i64::from(at.date.year) * 12 + i64::from(at.date.month);
                let rest = |at: DateTime| (at.date.day, at.micros);
                let mut months = index(b) - index(a);
                if months > 0 && rest(b) < rest(a) {
                    months -= 1;
                } else if months < 0 && rest(b) > rest(a) {
                    months += 1;
                }
                months
            };
            Value::Int(match text(&args[0]).to_ascii_lowercase().trim_start_matches("sql_tsi_") {
                "microsecond" => micros,
                "second" => micros / 1_000_000,
                "minute" => micros / 60_000_000,
                "hour" => micros / 3_600_000_000,
                "day" => micros / 86_400_000_000,
                "week" => micros / 604_800_000_000,
                "month" => months(),
                "quarter" => months() / 3,
                "year" => months() / 12,
                _ => return Some(Value::Null),
            })
        }
        _ => return None,
    })
}

fn number_function(call: Scalar, args: &[Value]) -> Option<Value> {
    use Scalar as S;
    let x = || number(&args[0]);
    let double = |number: f64| if number.is_finite() { Value::Double(number) } else { Value::Null };
    Some(match call {
        S::Abs => match &args[0] {
            Value::Int(number) => integer(i128::from(*number).abs()),
            Value::UInt(_) => args[0].clone(),
            Value::Decimal(number) => {
                Value::Decimal(if number.is_negative() { number.neg() } else { *number })
            }
            _ => Value::Double(x().abs()),
        },
        S::Ceil | S::Ceiling | S::Floor => {
            let up = call != S::Floor;
            match &args[0] {
                Value::Int(_) | Value::UInt(_) => args[0].clone(),
                Value::Decimal(number) => {
                    let cut = number.truncate(0);
                    let more = cut != *number && (number.is_negative() != up);
                    let step = if !more {
                        0
                    } else if up {
                        1
                    } else {
                        -1
                    };
                    integer(cut.to_i128().unwrap_or(0) + step)
                }
                _ => Value::Double(if up { x().ceil() } else { x().floor() }),
            }
        }
        S::Round => round_to(&args[0], args.get(1).map_or(0, whole), false),
        S::Truncate => round_to(&args[0], whole(&args[1]), true),
        S::Sign => Value::Int(if x() > 0.0 {
            1
        } else if x() < 0.0 {
            -1
        } else {
            0
        }),
        S::Sqrt => double(x().sqrt()),
        S::Pow | S::Power => double(x().powf(number(&args[1]))),
        S::Exp => double(x().exp()),
        S::Ln => double(x().ln()),
        S::Log => double(match args.get(1) {
            None => x().ln(),
            Some(of) => number(of).ln() / x().ln(),
        }),
        S::Log2 => double(x().log2()),
        S::Log10 => double(x().log10()),
        S::Sin => double(x().sin()),
        S::Cos => double(x().cos()),
        S::Tan => double(x().tan()),
        S::Atan => double(args.get(1).map_or_else(|| x().atan(), |other| x().atan2(number(other)))),
        S::Asin => double(x().asin()),
        S::Acos => double(x().acos()),
        S::Degrees => double(x().to_degrees()),
        S::Radians => double(x().to_radians()),
        S::Pi => Value::Double(std::f64::consts::PI),
        S::Rand => {
            let seed = args.first().map_or_else(
                || spillway_base::clock::now().as_nanos() as u64,
                |seed| whole(seed) as u64,
            );
            Value::Double(spillway_base::rng::Rng::new(seed).unit())
        }
        S::Mod => match (&args[0], &args[1]) {
            (Value::Int(_) | Value::UInt(_), Value::Int(_) | Value::UInt(_)) => {
                let (a, b) = (to_i128(&args[0].as_ref())?, to_i128(&args[1].as_ref())?);
                if b == 0 { Value::Null } else { integer(a % b) }
            }
            (Value::Double(_) | Value::Text(_), _) | (_, Value::Double(_) | Value::Text(_)) => {
                double(x() % number(&args[1]))
            }
            _ => to_decimal(&args[0].as_ref())?
                .rem(&to_decimal(&args[1].as_ref())?)
                .map_or(Value::Null, Value::Decimal),
        },
        S::BitCount => Value::Int(i64::from((to_i128(&args[0].as_ref())? as u64).count_ones())),
        S::Interval => {
            let count = args[1..].iter().take_while(|bound| number(bound) <= x()).count();
            Value::Int(count as i64)
        }
        S::Greatest | S::Least => {
            let mut best = args[0].clone();
            for arg in &args[1..] {
                let order = compare(arg, &best, Collation::GeneralCi)?;
                if (call == S::Greatest && order.is_gt()) || (call == S::Least && order.is_lt()) {
                    best = arg.clone();
                }
            }
            best
        }
        _ => return None,
    })
}

fn text_function(context: &Context<'_>, call: Scalar, args: &[Value]) -> Result<Value> {
    use Scalar as S;
    let first = || text(&args[0]);
    Ok(match call {
        S::Length | S::OctetLength => Value::Int(bytes_of(&args[0]).len() as i64),
        S::BitLength => Value::Int(8 * bytes_of(&args[0]).len() as i64),
        S::CharLength | S::CharacterLength => Value::Int(match &args[0] {
            Value::Bytes(bytes) => bytes.len() as i64,
            other => text(other).chars().count() as i64,
        }),
        S::Upper | S::Ucase => Value::Text(first().to_uppercase()),
        S::Lower | S::Lcase => Value::Text(first().to_lowercase()),
        S::Concat => {
            if args.iter().any(|arg| matches!(arg, Value::Bytes(_))) {
                Value::Bytes(args.iter().flat_map(bytes_of).collect())
            } else {
                Value::Text(args.iter().map(text).collect())
            }
        }
        S::Substring | S::Substr | S::Mid => {
            substring(&args[0], whole(&args[1]), args.get(2).map(whole))
        }
        S::Left => substring(&args[0], 1, Some(whole(&args[1]))),
        S::Right => {
            let count = whole(&args[1]);
            let len = match &args[0] {
                Value::Bytes(bytes) => bytes.len() as i64,
                other => text(other).chars().count() as i64,
            };
            if count <= 0 { Value::from("") } else { substring(&args[0], -count.min(len), None) }
        }
        S::SubstringIndex => {
            let (hay, needle, count) = (first(), text(&args[1]), whole(&args[2]));
            if needle.is_empty() || count == 0 {
                return Ok(Value::from(""));
            }
            let parts: Vec<&str> = hay.split(needle.as_str()).collect();
            let keep = (count.unsigned_abs() as usize).min(parts.len());
            let kept = if count > 0 { &parts[..keep] } else { &parts[parts.len() - keep..] };
            Value::Text(kept.join(&needle))
        }
        S::Trim => Value::from(first().trim_matches(' ')),
        S::Ltrim => Value::from(first().trim_start_matches(' ')),
        S::Rtrim => Value::from(first().trim_end_matches(' ')),
        S::TrimBoth | S::TrimLead | S::TrimTrail => {
            let (hay, what) = (first(), text(&args[1]));
            let mut rest = hay.as_str();
            if !what.is_empty() {
                while call != S::TrimTrail
                    && let Some(cut) = rest.strip_prefix(what.as_str())
                {
                    rest = cut;
                }
                while call != S::TrimLead
                    && let Some(cut) = rest.strip_suffix(what.as_str())
                {
                    rest = cut;
                }
            }
            Value::from(rest)
        }
        S::Replace => {
            let from = text(&args[1]);
            if from.is_empty() {
                Value::Text(first())
            } else {
                Value::Text(first().replace(&from, &text(&args[2])))
            }
        }
        S::Reverse => Value::Text(first().chars().rev().collect()),
        S::Repeat => {
            let count = whole(&args[1]).max(0) as usize;
            if first().len().saturating_mul(count) > 64 << 20 {
                context.warn(SqlError::new(
                    1301,
                    "Result of repeat() was larger than max_allowed_packet - truncated",
                ));
                return Ok(Value::Null);
            }
            match &args[0] {
                Value::Bytes(bytes) => Value::Bytes(bytes.repeat(count)),
                other => Value::Text(text(other).repeat(count)),
            }
        }
        S::Space => Value::Text(" ".repeat(whole(&args[0]).clamp(0, 16 << 20) as usize)),
        S::Lpad | S::Rpad => pad(&first(), whole(&args[1]), &text(&args[2]), call == S::Lpad),
        S::Instr => Value::Int(locate(&text(&args[1]), &first(), 1)),
        S::Locate | S::Position => {
            Value::Int(locate(&first(), &text(&args[1]), args.get(2).map_or(1, whole)))
        }
        S::Strcmp => Value::Int(match compare(&args[0], &args[1], Collation::GeneralCi) {
            Some(std::cmp::Ordering::Less) => -1,
            Some(std::cmp::Ordering::Greater) => 1,
            _ => 0,
        }),
        S::Ascii => Value::Int(bytes_of(&args[0]).first().map_or(0, |byte| i64::from(*byte))),
        S::Ord => Value::Int(first().chars().next().map_or(0, |c| {
            let mut buffer = [0; 4];
            c.encode_utf8(&mut buffer).bytes().fold(0, |code, byte| code << 8 | i64::from(byte))
        })),
        S::Hex => Value::Text(match &args[0] {
            Value::Int(_) | Value::UInt(_) | Value::Double(_) | Value::Decimal(_) => {
                format!("{:X}", to_i128(&args[0].as_ref()).unwrap_or(0) as u64)
            }
            other => hex(&bytes_of(other)),
        }),
        S::Unhex => {
            let digits = first();
            if digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                Value::Bytes(crate::catalog::unhex(&digits))
            } else {
                Value::Null
            }
        }
        S::Bin => Value::Text(format!("{:b}", whole(&args[0]))),
        S::Oct => Value::Text(format!("{:o}", whole(&args[0]))),
        S::Conv => {
            let (from, to) =
                (whole(&args[1]).unsigned_abs() as u32, whole(&args[2]).unsigned_abs());
            if !(2..=36).contains(&from) || !(2..=36).contains(&to) {
                return Ok(Value::Null);
            }
            let mut number = u64::from_str_radix(first().trim(), from).unwrap_or(0);
            let mut digits = Vec::new();
            loop {
                digits.push(
                    char::from_digit((number % to) as u32, to as u32)
                        .unwrap_or('0')
                        .to_ascii_uppercase(),
                );
                number /= to;
                if number == 0 {
                    break;
                }
            }
            Value::Text(digits.into_iter().rev().collect())
        }
        S::Format => {
            let digits = whole(&args[1]).clamp(0, 30) as u8;
            let number =
                to_decimal(&args[0].as_ref()).unwrap_or(Decimal::ZERO).round(digits).to_string();
            let (sign, number) =
                number.strip_prefix('-').map_or(("", number.as_str()), |rest| ("-", rest));
            let (whole, part) = number.split_once('.').unwrap_or((number, ""));
            let mut grouped = String::new();
            for (at, digit) in whole.chars().enumerate() {
                if at > 0 && (whole.len() - at) % 3 == 0 {
                    grouped.push(',');
                }
                grouped.push(digit);
            }
            let dot = if part.is_empty() { "" } else { "." };
            Value::Text(format!("{sign}{grouped}{dot}{part}"))
        }
        S::FindInSet => {
            let needle = first();
            let list = text(&args[1]);
            let at = list.split(',').position(|part| {
                Collation::GeneralCi.compare(part.as_bytes(), needle.as_bytes()).is_eq()
            });
            Value::Int(at.map_or(0, |at| at as i64 + 1))
        }
        S::Insert => {
            let chars: Vec<char> = first().chars().collect();
            let (at, len) = (whole(&args[1]), whole(&args[2]));
            if at < 1 || at as usize > chars.len() {
                return Ok(Value::Text(first()));
            }
            let at = at as usize - 1;
            let end = if len < 0 { chars.len() } else { (at + len as usize).min(chars.len()) };
            let head: String = chars[..at].iter().collect();
            let tail: String = chars[end..].iter().collect();
            Value::Text(format!("{head}{}{tail}", text(&args[3])))
        }
        S::Quote => {
            Value::Text(format!("'{}'", first().replace('\\', "\\\\").replace('\'', "\\'")))
        }
        S::Md5 => Value::Text(crate::users::md5_hex(&bytes_of(&args[0]))),
        S::Sha | S::Sha1 => Value::Text(hex(&Sha1::digest(bytes_of(&args[0]))).to_lowercase()),
        S::Sha2 => {
            let bytes = bytes_of(&args[0]);
            let digest = match whole(&args[1]) {
                224 => hex(&Sha224::digest(&bytes)),
                0 | 256 => hex(&Sha256::digest(&bytes)),
                384 => hex(&Sha384::digest(&bytes)),
                512 => hex(&Sha512::digest(&bytes)),
                _ => return Ok(Value::Null),
            };
            Value::Text(digest.to_lowercase())
        }
        S::Uuid => {
            let seed =
                spillway_base::clock::wall().as_nanos() as u64 ^ context.instance.next_number();
            let mut rng = spillway_base::rng::Rng::new(seed);
            let (a, b) = (rng.next_u64(), rng.next_u64());
            Value::Text(format!(
                "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
                a >> 32,
                (a >> 16) & 0xFFFF,
                a & 0xFFF,
                (b >> 48) & 0x3FFF | 0x8000,
                b & 0xFFFF_FFFF_FFFF
            ))
        }
        S::ToBase64 => Value::Text(base64(&bytes_of(&args[0]))),
        S::RegexpLike => {
            Value::from(regex(&text(&args[1]), Collation::GeneralCi)?.is_match(&first()))
        }
        S::RegexpReplace => {
            let regex = regex(&text(&args[1]), Collation::GeneralCi)?;
            Value::Text(regex.replace_all(&first(), text(&args[2]).as_str()).into_owned())
        }
        S::Charset => Value::from(match &args[0] {
            Value::Text(_) => "utf8mb4",
            _ => "binary",
        }),
        S::CollationOf => Value::from(match &args[0] {
            Value::Text(_) => Collation::GeneralCi.name(),
            _ => "binary",
        }),
        S::Crc32 => Value::UInt(u64::from(crc32(&bytes_of(&args[0])))),
        S::JsonValid => Value::from(serde_json::from_str::<serde_json::Value>(&first()).is_ok()),
        S::JsonUnquote => {
            let shown = first();
            Value::Text(serde_json::from_str::<String>(&shown).unwrap_or(shown))
        }
        S::JsonExtract => {
            let document: serde_json::Value = serde_json::from_str(&first()).map_err(|_| {
                SqlError::new(3141, "Invalid JSON text in argument 1 to function json_extract")
            })?;
            let path = text(&args[1]);
            let mut at = Some(&document);
            for step in
                path.trim_start_matches('$').split(['.', '[']).filter(|step| !step.is_empty())
            {
                let step = step.trim_end_matches(']').trim_matches('"');
                at = at.and_then(|at| match step.parse::<usize>() {
                    Ok(index) if at.is_array() => at.get(index),
                    _ => at.get(step),
                });
            }
            at.map_or(Value::Null, |at| Value::Text(at.to_string()))
        }
        S::InetAton => match first().parse::<std::net::Ipv4Addr>() {
            Ok(address) => Value::UInt(u64::from(u32::from(address))),
            Err(_) => Value::Null,
        },
        S::InetNtoa => match u32::try_from(whole(&args[0])) {
            Ok(number) => Value::Text(std::net::Ipv4Addr::from(number).to_string()),
            Err(_) => Value::Null,
        },
        other => return Err(SqlError::unsupported(other.name())),
    })
}

/// CRC-32 (IEEE), bit by bit.
fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = !0u32;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0xEDB8_8320 } else { crc >> 1 };
        }
    }
    !crc
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for group in bytes.chunks(3) {
        let bits = group.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte))
            << (8 * (3 - group.len()));
        for at in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * at) & 63) as usize] as char;
            out.push(if at <= group.len() { digit } else { '=' });
        }
    }
    out
}
