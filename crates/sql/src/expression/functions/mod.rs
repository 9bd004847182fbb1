//! Scalar functions: their list, their result types, and their evaluation.

mod calendar;
mod digests;
mod format;
mod json;
mod locks;
mod numbers;
mod patterns;
mod strings;
mod times;
mod types;

use std::time::Duration;

use spillway_base::clock::Clock;
use spillway_base::thread::blocking;
use spillway_types::convert::to_i128;
use spillway_types::{Collation, Value};

use super::Expr;
use super::charset::converted;
use super::eval::{Context, number, whole};
use crate::errors::Result;
use json::{fragment, json_of};
use locks::lock_function;
use numbers::number_function;
use strings::text_function;
use times::date_function;

pub(crate) use numbers::{bits_of, bits_of_value};
pub(crate) use patterns::Patterns;
pub(crate) use times::add_interval;

macro_rules! scalars {
    ($($variant:ident $name:literal $min:literal $max:literal $result:ident $takes:literal,)*) => {
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

            /// How it takes each argument: as `t`ext, as a `n`umber, or as it is (`r`). The last
            /// letter holds for the rest.
            fn takes(self, at: usize) -> u8 {
                let letters: &[u8] = match self { $(Scalar::$variant => $takes),* };
                letters.get(at).or(letters.last()).copied().unwrap_or(b'r')
            }
        }
    };
}

/// The kind of a function's result.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Int,
    UInt,
    Double,
    Text,
    /// Text, or bytes where an argument is bytes.
    Like,
    Bytes,
    Date,
    Time,
    DateTime,
    /// What its arguments make of it.
    Own,
}

scalars! {
    Abs "abs" 1 1 Own b"n",
    Ceil "ceil" 1 1 Own b"n",
    Ceiling "ceiling" 1 1 Own b"n",
    Floor "floor" 1 1 Own b"n",
    Round "round" 1 2 Own b"n",
    Truncate "truncate" 2 2 Own b"n",
    Sign "sign" 1 1 Int b"n",
    Sqrt "sqrt" 1 1 Double b"n",
    Pow "pow" 2 2 Double b"n",
    Power "power" 2 2 Double b"n",
    Exp "exp" 1 1 Double b"n",
    Ln "ln" 1 1 Double b"n",
    Log "log" 1 2 Double b"n",
    Log2 "log2" 1 1 Double b"n",
    Log10 "log10" 1 1 Double b"n",
    Sin "sin" 1 1 Double b"n",
    Cos "cos" 1 1 Double b"n",
    Tan "tan" 1 1 Double b"n",
    Cot "cot" 1 1 Double b"n",
    Atan "atan" 1 2 Double b"n",
    Atan2 "atan2" 1 2 Double b"n",
    Asin "asin" 1 1 Double b"n",
    Acos "acos" 1 1 Double b"n",
    Pi "pi" 0 0 Double b"n",
    Rand "rand" 0 1 Double b"n",
    Degrees "degrees" 1 1 Double b"n",
    Radians "radians" 1 1 Double b"n",
    Crc32 "crc32" 1 1 UInt b"t",
    BitCount "bit_count" 1 1 Int b"n",
    Interval "interval" 2 999 Int b"n",
    Greatest "greatest" 2 999 Own b"r",
    Least "least" 2 999 Own b"r",
    Length "length" 1 1 Int b"t",
    OctetLength "octet_length" 1 1 Int b"t",
    CharLength "char_length" 1 1 Int b"t",
    CharacterLength "character_length" 1 1 Int b"t",
    BitLength "bit_length" 1 1 Int b"t",
    Upper "upper" 1 1 Like b"t",
    Ucase "ucase" 1 1 Like b"t",
    Lower "lower" 1 1 Like b"t",
    Lcase "lcase" 1 1 Like b"t",
    Concat "concat" 1 999 Like b"t",
    ConcatWs "concat_ws" 2 999 Like b"t",
    Substring "substring" 2 3 Like b"tn",
    Substr "substr" 2 3 Like b"tn",
    Mid "mid" 3 3 Like b"tn",
    Left "left" 2 2 Like b"tn",
    Right "right" 2 2 Like b"tn",
    SubstringIndex "substring_index" 3 3 Like b"ttn",
    Trim "trim" 1 1 Like b"t",
    TrimBoth "trim both" 2 2 Like b"t",
    TrimLead "trim leading" 2 2 Like b"t",
    TrimTrail "trim trailing" 2 2 Like b"t",
    Ltrim "ltrim" 1 1 Like b"t",
    Rtrim "rtrim" 1 1 Like b"t",
    Replace "replace" 3 3 Like b"t",
    Reverse "reverse" 1 1 Like b"t",
    Repeat "repeat" 2 2 Like b"tn",
    Space "space" 1 1 Text b"n",
    Lpad "lpad" 3 3 Like b"tnt",
    Rpad "rpad" 3 3 Like b"tnt",
    Instr "instr" 2 2 Int b"t",
    Locate "locate" 2 3 Int b"ttn",
    Position "position" 2 2 Int b"t",
    Strcmp "strcmp" 2 2 Int b"t",
    Ascii "ascii" 1 1 Int b"t",
    Ord "ord" 1 1 Int b"t",
    Char "char" 1 999 Bytes b"n",
    Hex "hex" 1 1 Text b"r",
    Unhex "unhex" 1 1 Bytes b"t",
    Bin "bin" 1 1 Text b"t",
    Oct "oct" 1 1 Text b"t",
    Conv "conv" 3 3 Text b"tnn",
    Format "format" 2 3 Text b"nnt",
    Field "field" 2 999 Int b"r",
    Elt "elt" 2 999 Like b"nt",
    FindInSet "find_in_set" 2 2 Int b"t",
    Insert "insert" 4 4 Like b"tnnt",
    Quote "quote" 1 1 Like b"t",
    Md5 "md5" 1 1 Text b"t",
    Sha "sha" 1 1 Text b"t",
    Sha1 "sha1" 1 1 Text b"t",
    Sha2 "sha2" 2 2 Text b"tn",
    Uuid "uuid" 0 0 Text b"t",
    ToBase64 "to_base64" 1 1 Text b"t",
    FromBase64 "from_base64" 1 1 Bytes b"t",
    Soundex "soundex" 1 1 Text b"t",
    ExportSet "export_set" 3 5 Like b"ntttn",
    MakeSet "make_set" 2 999 Like b"nt",
    RegexpLike "regexp_like" 2 3 Int b"t",
    RegexpReplace "regexp_replace" 3 3 Text b"t",
    Charset "charset" 1 1 Text b"r",
    CollationOf "collation" 1 1 Text b"r",
    If "if" 3 3 Own b"r",
    Ifnull "ifnull" 2 2 Own b"r",
    Nullif "nullif" 2 2 Own b"r",
    Coalesce "coalesce" 1 999 Own b"r",
    Isnull "isnull" 1 1 Int b"r",
    AnyValue "any_value" 1 1 Own b"r",
    Mod "mod" 2 2 Own b"n",
    Now "now" 0 1 DateTime b"r",
    CurrentTimestamp "current_timestamp" 0 1 DateTime b"r",
    Localtime "localtime" 0 1 DateTime b"r",
    Localtimestamp "localtimestamp" 0 1 DateTime b"r",
    Sysdate "sysdate" 0 1 DateTime b"r",
    UtcTimestamp "utc_timestamp" 0 1 DateTime b"r",
    Curdate "curdate" 0 0 Date b"r",
    CurrentDate "current_date" 0 0 Date b"r",
    UtcDate "utc_date" 0 0 Date b"r",
    Curtime "curtime" 0 1 Time b"r",
    CurrentTime "current_time" 0 1 Time b"r",
    UtcTime "utc_time" 0 1 Time b"r",
    UnixTimestamp "unix_timestamp" 0 1 Own b"r",
    FromUnixtime "from_unixtime" 1 2 Own b"n",
    DateOf "date" 1 1 Date b"r",
    TimeOf "time" 1 1 Time b"r",
    Timestamp "timestamp" 1 2 DateTime b"r",
    Year "year" 1 1 Int b"r",
    Month "month" 1 1 Int b"r",
    Day "day" 1 1 Int b"r",
    Dayofmonth "dayofmonth" 1 1 Int b"r",
    Hour "hour" 1 1 Int b"r",
    Minute "minute" 1 1 Int b"r",
    Second "second" 1 1 Int b"r",
    Microsecond "microsecond" 1 1 Int b"r",
    Quarter "quarter" 1 1 Int b"r",
    Dayofweek "dayofweek" 1 1 Int b"r",
    Weekday "weekday" 1 1 Int b"r",
    Dayofyear "dayofyear" 1 1 Int b"r",
    Week "week" 1 2 Int b"rn",
    Weekofyear "weekofyear" 1 1 Int b"r",
    Yearweek "yearweek" 1 2 Int b"rn",
    LastDay "last_day" 1 1 Date b"r",
    Dayname "dayname" 1 1 Text b"r",
    Monthname "monthname" 1 1 Text b"r",
    Datediff "datediff" 2 2 Int b"r",
    Timediff "timediff" 2 2 Time b"r",
    ToDays "to_days" 1 1 Int b"r",
    ToSeconds "to_seconds" 1 1 Int b"r",
    FromDays "from_days" 1 1 Date b"n",
    DateFormat "date_format" 2 2 Text b"rt",
    TimeFormat "time_format" 2 2 Text b"rt",
    TimeToSec "time_to_sec" 1 1 Int b"r",
    SecToTime "sec_to_time" 1 1 Time b"n",
    Timestampdiff "timestampdiff" 3 3 Int b"r",
    Makedate "makedate" 2 2 Date b"n",
    Maketime "maketime" 3 3 Time b"n",
    StrToDate "str_to_date" 2 2 Own b"t",
    Addtime "addtime" 2 2 Own b"r",
    Subtime "subtime" 2 2 Own b"r",
    PeriodAdd "period_add" 2 2 Int b"n",
    PeriodDiff "period_diff" 2 2 Int b"n",
    Extract "extract" 2 2 Int b"r",
    Database "database" 0 0 Text b"r",
    Schema "schema" 0 0 Text b"r",
    User "user" 0 0 Text b"r",
    CurrentUser "current_user" 0 0 Text b"r",
    SessionUser "session_user" 0 0 Text b"r",
    SystemUser "system_user" 0 0 Text b"r",
    Version "version" 0 0 Text b"r",
    ConnectionId "connection_id" 0 0 UInt b"r",
    LastInsertId "last_insert_id" 0 1 UInt b"n",
    RowCount "row_count" 0 0 Int b"r",
    FoundRows "found_rows" 0 0 UInt b"r",
    Sleep "sleep" 1 1 Int b"n",
    GetLock "get_lock" 2 2 Int b"r",
    ReleaseLock "release_lock" 1 1 Int b"r",
    ReleaseAllLocks "release_all_locks" 0 0 UInt b"r",
    IsFreeLock "is_free_lock" 1 1 Int b"r",
    IsUsedLock "is_used_lock" 1 1 UInt b"r",
    JsonValid "json_valid" 1 1 Int b"r",
    JsonExtract "json_extract" 2 2 Text b"r",
    JsonUnquote "json_unquote" 1 1 Text b"r",
    JsonObject "json_object" 0 999 Text b"r",
    JsonArray "json_array" 0 999 Text b"r",
    Converted "convert using" 2 2 Text b"r",
    Encoded "encoded in" 2 2 Bytes b"r",
    JsonTruth "json truth" 1 1 Text b"r",
    JsonNested "json nested" 1 1 Text b"r",
    JsonValue "json value" 1 1 Text b"r",
    InetAton "inet_aton" 1 1 UInt b"t",
    InetNtoa "inet_ntoa" 1 1 Text b"n",
    Benchmark "benchmark" 2 2 Int b"r",
}

impl Scalar {
    /// Whether two calls with equal arguments may differ.
    pub(crate) fn is_volatile(self) -> bool {
        matches!(
            self,
            Scalar::Rand
                | Scalar::Uuid
                | Scalar::Sleep
                | Scalar::Sysdate
                | Scalar::LastInsertId
                | Scalar::GetLock
                | Scalar::ReleaseLock
                | Scalar::ReleaseAllLocks
                | Scalar::IsFreeLock
                | Scalar::IsUsedLock
        )
    }
}

/// What all arguments of one call may hold.
const ARGUMENTS_MAX: usize = 128 << 20;

/// The least that `max_allowed_packet` can be: what is shorter fits.
const LENGTH_UNCHECKED: usize = 1024;

/// Calls a function.
pub(super) fn call(
    context: &Context<'_>,
    call: Scalar,
    exprs: &[Expr],
    collation: Collation,
    row: &[Value],
) -> Result<Value> {
    use Scalar as S;
    // Those that do not evaluate all of their arguments.
    match call {
        S::If => {
            let hit = context.truth(&*context.value(&exprs[0], row)?)? == Some(true);
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
        S::Elt => {
            let at = context.value(&exprs[0], row)?;
            let at = if at.is_null() { 0 } else { usize::try_from(whole(&at)).unwrap_or(0) };
            return if at == 0 {
                Ok(Value::Null)
            } else {
                exprs.get(at).map_or(Ok(Value::Null), |e| context.eval(e, row))
            };
        }
        _ => {}
    }
    let (mut args, mut taken) = (Vec::with_capacity(exprs.len()), 0);
    for expr in exprs {
        let arg = context.eval(expr, row)?;
        taken += strings::length(&arg);
        args.push(arg);
        if taken > ARGUMENTS_MAX {
            return Ok(strings::too_long(context, call));
        }
    }
    let value = call_with(context, call, &args, collation)?;
    let len = strings::length(&value);
    if len > LENGTH_UNCHECKED && len > strings::length_max(context) {
        return Ok(strings::too_long(context, call));
    }
    Ok(value)
}

/// Calls a function that takes all of its arguments as values.
fn call_with(
    context: &Context<'_>,
    call: Scalar,
    args: &[Value],
    collation: Collation,
) -> Result<Value> {
    if let Some(value) = minds_no_null(context, call, args, collation)? {
        return Ok(value);
    }
    if let Some(value) = lock_function(context, call, args)? {
        return Ok(value);
    }
    if args.iter().any(Value::is_null) {
        return Ok(Value::Null);
    }
    for (at, arg) in args.iter().enumerate() {
        if call.takes(at) == b'n' {
            context.as_number(arg, "DOUBLE")?;
        }
    }
    if let Some(value) = session_function(context, call, args) {
        return Ok(value);
    }
    if let Some(value) = date_function(context, call, args)? {
        return Ok(value);
    }
    match number_function(context, call, args, collation)? {
        Some(value) => Ok(value),
        None => text_function(context, call, args, collation),
    }
}

/// Functions that make something of NULL.
fn minds_no_null(
    context: &Context<'_>,
    call: Scalar,
    args: &[Value],
    collation: Collation,
) -> Result<Option<Value>> {
    use Scalar as S;
    let equal = |a: &Value, b: &Value| -> Result<bool> {
        Ok(context.compare(a, b, collation)? == Some(std::cmp::Ordering::Equal))
    };
    Ok(Some(match call {
        S::Nullif if equal(&args[0], &args[1])? => Value::Null,
        // Its first argument is compared in one form and given in another.
        S::Nullif => args.get(2).unwrap_or(&args[0]).clone(),
        S::Isnull => Value::from(args[0].is_null()),
        S::AnyValue => args[0].clone(),
        S::ConcatWs if !args[0].is_null() => {
            let parts: Vec<Value> =
                args[1..].iter().filter(|arg| !arg.is_null()).cloned().collect();
            strings::join(&parts, &args[0])
        }
        S::Field => {
            for (at, arg) in args[1..].iter().enumerate() {
                if equal(&args[0], arg)? {
                    return Ok(Some(Value::Int(at as i64 + 1)));
                }
            }
            Value::Int(0)
        }
        S::Interval if args[0].is_null() => Value::Int(-1),
        S::Interval => {
            let x = number(&args[0]);
            let passed = |bound: &&Value| bound.is_null() || number(bound) <= x;
            Value::Int(args[1..].iter().take_while(passed).count() as i64)
        }
        S::Quote if args[0].is_null() => Value::from("NULL"),
        S::JsonObject | S::JsonArray => Value::Text(json_of(call, args)),
        S::Converted | S::Encoded => converted(context, call, args)?,
        S::Format => format::format(context, args)?,
        S::JsonTruth | S::JsonNested | S::JsonValue => Value::Text(fragment(call, &args[0])),
        S::MakeSet if !args[0].is_null() => {
            let bits = to_i128(&args[0].as_ref()).unwrap_or(0) as u64;
            let chosen = args[1..].iter().enumerate();
            let chosen =
                chosen.filter(|(at, arg)| *at < 64 && bits >> at & 1 == 1 && !arg.is_null());
            let chosen: Vec<Value> = chosen.map(|(_, arg)| arg.clone()).collect();
            strings::join(&chosen, &Value::from(","))
        }
        S::Char => {
            let mut out = Vec::new();
            for code in args.iter().filter(|arg| !arg.is_null()) {
                let code = to_i128(&code.as_ref()).unwrap_or(0) as u32;
                let bytes = code.to_be_bytes();
                let skip = bytes.iter().position(|byte| *byte != 0).unwrap_or(3);
                out.extend_from_slice(&bytes[skip..]);
            }
            Value::Bytes(out)
        }
        _ => return Ok(None),
    }))
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
        S::Version => Value::Text(crate::variables::VERSION.to_owned()),
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
            drop(variables);
            let killed = sleep(context, number(&args[0]).clamp(0.0, 3600.0));
            return Some(Value::from(killed));
        }
        S::Benchmark => Value::Int(0),
        _ => return None,
    })
}

/// Waits; whether a KILL or `max_execution_time` ended that.
fn sleep(context: &Context<'_>, seconds: f64) -> bool {
    let clock = Clock::system();
    let end = clock.now() + Duration::from_secs_f64(seconds);
    let is_late = |now| context.deadline.is_some_and(|deadline| now >= deadline);
    loop {
        let now = clock.now();
        let left = end.saturating_sub(now);
        if left.is_zero() || context.txn.is_cancelled() || is_late(now) {
            return !left.is_zero();
        }
        blocking(|| clock.sleep(left.min(Duration::from_millis(5))));
    }
}
