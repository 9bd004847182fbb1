//! Functions of dates and times.

use spillway_types::convert::{time_prefix, to_datetime, to_decimal, to_i128, to_time};
use spillway_types::temporal::days_in_month;
use spillway_types::{Date, DateTime, Decimal, Time, Value};

use super::calendar::{
    DAYS, EPOCH_DAYS, MONTHS, Weeks, day_number, extract, format_moment, parse_moment,
};
use super::scalar::Scalar;
use crate::errors::{Result, SqlError};
use crate::expression::context::{Context, wrong_value};
use crate::expression::operands::{text, whole};
use crate::variables::time_offset;

const SECOND: i64 = 1_000_000;
const DAY: i64 = 86_400 * SECOND;
/// 838:59:59.
const TIME_MAX: i64 = (838 * 3600 + 59 * 60 + 59) * SECOND;
/// The largest time of UNIX_TIMESTAMP and FROM_UNIXTIME: 3001-01-18 23:59:59.
const UNIX_MAX: i64 = 32_536_771_199 * SECOND;

/// A value as a date and time. A time of day gets today's date.
fn moment(context: &Context<'_>, value: &Value) -> Result<Option<DateTime>> {
    if let Value::Time(time) = value {
        return Ok(DateTime::from_micros_of(context.now().date, time.micros));
    }
    let at = to_datetime(&value.as_ref());
    if at.is_none() {
        wrong(context, "datetime", value)?;
    }
    Ok(at)
}

fn wrong(context: &Context<'_>, kind: &str, value: &Value) -> Result<()> {
    context.raise(wrong_value(&format!("Incorrect {kind}"), &value.to_text()))
}

/// A value as a span. One that is too long is the longest, with a warning.
fn span(context: &Context<'_>, value: &Value) -> Result<Option<Time>> {
    let time = to_time(&value.as_ref());
    if time.is_some_and(|time| time.in_range()) {
        return Ok(time);
    }
    let shown = value.to_text();
    context.raise(wrong_value("Truncated incorrect time", &shown))?;
    Ok(time.or_else(|| time_prefix(&shown)).map(|time| time.held()))
}

/// A value, or the content of a text: a date and time, or a span.
enum MomentOrSpan {
    At(DateTime),
    Span(Time),
}

fn either(value: &Value) -> Option<MomentOrSpan> {
    match value {
        Value::Time(time) => Some(MomentOrSpan::Span(*time)),
        Value::Date(_) | Value::DateTime(_) => to_datetime(&value.as_ref()).map(MomentOrSpan::At),
        other => {
            let shown = other.to_text();
            // A date without a time is parsed as a time.
            let shown = shown.trim();
            let dashes = shown.bytes().filter(|byte| *byte == b'-').count();
            let dated = (dashes >= 2 && shown.len() >= 12)
                || shown.bytes().take_while(u8::is_ascii_digit).count() >= 12;
            if dated {
                to_datetime(&other.as_ref()).map(MomentOrSpan::At)
            } else {
                let time = to_time(&other.as_ref()).or_else(|| time_prefix(shown));
                time.map(|time| MomentOrSpan::Span(time.held()))
            }
        }
    }
}

fn held(micros: i64) -> Value {
    Value::Time(Time { micros: micros.clamp(-TIME_MAX, TIME_MAX) })
}

/// The numbers of an interval of several units. If some are missing, the first ones are zero.
fn interval_parts(amount: &Value, count: usize, micros_last: bool) -> Option<Vec<i64>> {
    let shown = text(amount);
    let minus = if shown.trim_start().starts_with('-') { -1 } else { 1 };
    let mut parts: Vec<String> = shown
        .split(|c: char| !c.is_ascii_digit())
        .filter(|part| !part.is_empty())
        .map(str::to_owned)
        .collect();
    if parts.len() > count {
        return None;
    }
    if micros_last && let Some(last) = parts.last_mut() {
        *last = format!("{last:0<6}")[..6].to_owned();
    }
    let mut numbers = vec![0; count - parts.len()];
    for part in parts {
        numbers.push(minus * part.parse::<i64>().ok()?);
    }
    Some(numbers)
}

/// The months and microseconds of an interval.
fn interval(amount: &Value, unit: &str) -> Option<(i64, i64)> {
    let one = || i64::try_from(to_i128(&amount.as_ref())?).ok();
    let time = |unit: i64, one: Option<i64>| Some((0, one?.checked_mul(unit)?));
    match unit {
        "year" => return Some((one()?.checked_mul(12)?, 0)),
        "quarter" => return Some((one()?.checked_mul(3)?, 0)),
        "month" => return Some((one()?, 0)),
        "week" => return time(7 * DAY, one()),
        "day" => return time(DAY, one()),
        "hour" => return time(3600 * SECOND, one()),
        "minute" => return time(60 * SECOND, one()),
        "microsecond" => return time(1, one()),
        "second" => {
            let seconds = to_decimal(&amount.as_ref())?.mul(&Decimal::new(SECOND.into(), 0))?;
            return Some((0, i64::try_from(seconds.truncate(0).to_i128()?).ok()?));
        }
        "year_month" => {
            let parts = interval_parts(amount, 2, false)?;
            return Some((parts[0].checked_mul(12)?.checked_add(parts[1])?, 0));
        }
        _ => {}
    }
    const UNITS: [(&str, i64); 5] = [
        ("day", DAY),
        ("hour", 3600 * SECOND),
        ("minute", 60 * SECOND),
        ("second", SECOND),
        ("microsecond", 1),
    ];
    let (from, to) = unit.split_once('_')?;
    let from = UNITS.iter().position(|(name, _)| *name == from)?;
    let to = UNITS.iter().position(|(name, _)| *name == to)?;
    let parts = interval_parts(amount, (to + 1).checked_sub(from)?, to == 4)?;
    let mut micros = 0_i64;
    for (part, (_, unit)) in parts.iter().zip(&UNITS[from..]) {
        micros = micros.checked_add(part.checked_mul(*unit)?)?;
    }
    Some((0, micros))
}

/// A date plus or minus an interval. NULL, with a warning, if the result is out of range.
pub(crate) fn add_interval(
    context: &Context<'_>,
    date: &Value,
    amount: &Value,
    unit: &str,
    negative: bool,
) -> Result<Value> {
    if date.is_null() || amount.is_null() {
        return Ok(Value::Null);
    }
    let unit = unit.to_ascii_lowercase();
    let unit = unit.strip_suffix('s').unwrap_or(&unit);
    if !unit.contains('_') {
        context.as_number(amount, if unit == "second" { "DECIMAL" } else { "INTEGER" })?;
    }
    let overflow = || {
        let kind = if matches!(date, Value::Time(_)) { "time" } else { "datetime" };
        context.raise(SqlError::new(1441, format!("Datetime function: {kind} field overflow")))
    };
    let Some((months, micros)) = interval(amount, unit) else {
        if unit.contains('_') {
            return Ok(Value::Null);
        }
        overflow()?;
        return Ok(Value::Null);
    };
    let (months, micros) = if negative { (-months, -micros) } else { (months, micros) };
    let dated = matches!(unit, "year" | "quarter" | "month" | "week" | "year_month");
    if let (Value::Time(time), false) = (date, dated) {
        let moved = time.micros.checked_add(micros).map(|micros| Time { micros });
        return match moved.filter(Time::in_range) {
            Some(time) => Ok(Value::Time(time)),
            None => overflow().map(|()| Value::Null),
        };
    }
    let Some(at) = moment(context, date)? else { return Ok(Value::Null) };
    let moved = (at.date.year > 0 || at.date.month > 0)
        .then(|| at.date.add_months(months))
        .flatten()
        .and_then(|date| DateTime::from_micros_of(date, (at.micros as i64).checked_add(micros)?));
    let Some(moved) = moved else {
        overflow()?;
        return Ok(Value::Null);
    };
    let whole_days = dated || unit == "day";
    Ok(match date {
        Value::Date(_) if whole_days => Value::Date(moved.date),
        Value::Int(_) | Value::UInt(_) | Value::Text(_) | Value::Decimal(_) | Value::Bytes(_) => {
            let shown = date.to_text();
            let timed = shown.contains(':') || shown.bytes().filter(u8::is_ascii_digit).count() > 8;
            Value::Text(if whole_days && !timed {
                moved.date.to_string()
            } else {
                moved.format(moved.digits())
            })
        }
        _ => Value::DateTime(moved),
    })
}

pub(super) fn date_function(
    context: &Context<'_>,
    call: Scalar,
    args: &[Value],
) -> Result<Option<Value>> {
    if let Some(value) = current(context, call, args) {
        return Ok(Some(value));
    }
    if let Some(value) = part_of_date(context, call, args)? {
        return Ok(Some(value));
    }
    if let Some(value) = made(context, call, args)? {
        return Ok(Some(value));
    }
    computed(context, call, args)
}

/// Functions of the time when the statement began.
fn current(context: &Context<'_>, call: Scalar, args: &[Value]) -> Option<Value> {
    use Scalar as S;
    let now = || {
        let digits = args.first().map_or(0, |arg| whole(arg).clamp(0, 6) as u8);
        let unit = 10u64.pow(6 - u32::from(digits));
        let now = context.now();
        DateTime { date: now.date, micros: now.micros / unit * unit }
    };
    let unix_micros =
        |at: DateTime| at.to_unix_micros() - context.variables.borrow().time_offset_micros;
    let utc = |at: DateTime| DateTime::from_unix_micros(unix_micros(at)).unwrap_or(at);
    Some(match call {
        S::Now | S::CurrentTimestamp | S::Localtime | S::Localtimestamp | S::Sysdate => {
            Value::DateTime(now())
        }
        S::UtcTimestamp => Value::DateTime(utc(now())),
        S::Curdate | S::CurrentDate => Value::Date(context.now().date),
        S::UtcDate => Value::Date(utc(context.now()).date),
        S::Curtime | S::CurrentTime => Value::Time(now().time()),
        S::UtcTime => Value::Time(utc(now()).time()),
        S::UnixTimestamp if args.is_empty() => Value::Int(unix_micros(context.now()) / SECOND),
        _ => return None,
    })
}

fn part_of_date(context: &Context<'_>, call: Scalar, args: &[Value]) -> Result<Option<Value>> {
    use Scalar as S;
    let of_span = |part: fn(i64) -> i64| -> Result<Option<Value>> {
        let time = span(context, &args[0])?;
        Ok(Some(time.map_or(Value::Null, |time| Value::Int(part(time.micros.abs())))))
    };
    match call {
        S::Hour => return of_span(|micros| micros / (3600 * SECOND)),
        S::Minute => return of_span(|micros| micros / (60 * SECOND) % 60),
        S::Second => return of_span(|micros| micros / SECOND % 60),
        S::Microsecond => return of_span(|micros| micros % SECOND),
        S::Year
        | S::Quarter
        | S::Month
        | S::Day
        | S::Dayofmonth
        | S::Dayofweek
        | S::Weekday
        | S::Dayofyear
        | S::Week
        | S::Weekofyear
        | S::Yearweek
        | S::LastDay
        | S::Dayname
        | S::Monthname
        | S::ToDays
        | S::ToSeconds
        | S::DateOf => {}
        _ => return Ok(None),
    }
    let Some(at) = moment(context, &args[0])? else { return Ok(Some(Value::Null)) };
    let date = at.date;
    let number = match call {
        S::Year => i64::from(date.year),
        S::Quarter => (i64::from(date.month) + 2) / 3,
        S::Month => i64::from(date.month),
        S::Day | S::Dayofmonth => i64::from(date.day),
        _ if date.is_zero() => {
            return Ok(Some(if call == S::DateOf { Value::Date(date) } else { Value::Null }));
        }
        S::Dayofweek => i64::from((date.weekday() + 1) % 7 + 1),
        S::Weekday => i64::from(date.weekday()),
        S::Dayofyear => i64::from(date.day_of_year()),
        S::Week => Weeks::mode(args.get(1).map_or(0, whole)).of(date).1,
        S::Weekofyear => Weeks::mode(3).of(date).1,
        S::Yearweek => {
            let (year, week) = Weeks::mode(args.get(1).map_or(0, whole) | 2).of(date);
            i64::from(year) * 100 + week
        }
        S::ToDays => day_number(date),
        S::ToSeconds => day_number(date) * 86_400 + at.micros as i64 / SECOND,
        other => {
            return Ok(Some(match other {
                S::LastDay => {
                    Value::Date(Date { day: days_in_month(date.year, date.month), ..date })
                }
                S::Dayname => Value::from(DAYS[usize::from(date.weekday())]),
                S::Monthname => Value::from(MONTHS[usize::from(date.month) - 1]),
                _ => Value::Date(date),
            }));
        }
    };
    Ok(Some(Value::Int(number)))
}

fn from_unixtime(args: &[Value], offset: i64) -> Value {
    let micros = to_decimal(&args[0].as_ref())
        .and_then(|n| n.mul(&Decimal::new(SECOND.into(), 0))?.to_i128())
        .and_then(|micros| i64::try_from(micros).ok())
        .filter(|micros| (0..=UNIX_MAX).contains(micros));
    let at = micros.and_then(|micros| DateTime::from_unix_micros(micros + offset));
    match (at, args.get(1)) {
        (Some(at), Some(format)) => format_moment(at.date, at.time(), &text(format)),
        (at, _) => at.map_or(Value::Null, Value::DateTime),
    }
}

fn make_time(context: &Context<'_>, args: &[Value]) -> Result<Value> {
    let (hour, minute) = (whole(&args[0]), whole(&args[1]));
    let seconds = to_decimal(&args[2].as_ref())
        .and_then(|n| n.mul(&Decimal::new(SECOND.into(), 0))?.to_i128());
    let seconds = seconds.and_then(|micros| i64::try_from(micros).ok());
    Ok(match seconds {
        Some(seconds) if (0..60).contains(&minute) && (0..60 * SECOND).contains(&seconds) => {
            if hour.unsigned_abs() > 838 {
                wrong(
                    context,
                    "time",
                    &Value::Text(format!("{hour}:{minute:02}:{:02}", seconds / SECOND)),
                )?;
                return Ok(Value::Time(Time { micros: hour.signum() * TIME_MAX }));
            }
            let micros = (hour.abs() * 3600 + minute * 60) * SECOND + seconds;
            Value::Time(Time { micros: if hour < 0 { -micros } else { micros } })
        }
        _ => Value::Null,
    })
}

fn str_to_date(context: &Context<'_>, args: &[Value]) -> Result<Value> {
    let (shown, format) = (text(&args[0]), text(&args[1]));
    let wrong = || {
        let (before, after) = ("Incorrect datetime value: '", "' for function str_to_date");
        context.raise(SqlError::quoting(1411, before, &shown, after)).map(|()| Value::Null)
    };
    let Some((date, span, all)) = parse_moment(&shown, &format) else { return wrong() };
    if !all {
        context.raise(wrong_value("Truncated incorrect datetime", &shown))?;
    }
    let has = |letters: &str| {
        format
            .as_bytes()
            .windows(2)
            .any(|pair| pair[0] == b'%' && letters.as_bytes().contains(&pair[1]))
    };
    Ok(match (has("abcDdejMmUuVvWwXxYy"), has("fHhIiklprSsT")) {
        (false, true) => Value::Time(span),
        _ if date.is_zero() && context.variables.borrow().often.no_zero_date => return wrong(),
        (_, true) => Value::DateTime(DateTime { date, micros: span.micros as u64 }),
        (_, false) => Value::Date(date),
    })
}

/// CONVERT_TZ. A time whose UTC is outside of the range of UNIX_TIMESTAMP stays as it is.
fn convert_tz(context: &Context<'_>, args: &[Value]) -> Result<Value> {
    let (Some(from), Some(to)) = (zone(&args[1])?, zone(&args[2])?) else {
        return Ok(Value::Null);
    };
    let Some(at) = moment(context, &args[0])?.filter(|at| at.date.month > 0 && at.date.day > 0)
    else {
        return Ok(Value::Null);
    };
    let unix = at.to_unix_micros() - from;
    if !(SECOND..=UNIX_MAX).contains(&unix) {
        return Ok(Value::DateTime(at));
    }
    Ok(DateTime::from_unix_micros(unix + to).map_or(Value::Null, Value::DateTime))
}

/// The offset of a time zone from UTC, in microseconds; `None` for an offset that is not valid.
///
/// # Errors
/// 1235 for a named zone, except UTC and SYSTEM.
fn zone(value: &Value) -> Result<Option<i64>> {
    let name = text(value);
    match time_offset(&name) {
        None if !name.starts_with(['+', '-']) && !name.is_empty() => {
            Err(SqlError::unsupported("CONVERT_TZ() with a named time zone"))
        }
        offset => Ok(offset),
    }
}

/// PERIOD_ADD and PERIOD_DIFF, which write months as YYYYMM.
fn period(call: Scalar, args: &[Value]) -> Result<Value> {
    let months = |period: i64| -> Result<i64> {
        let (year, month) = (period / 100, period % 100);
        if period <= 0 || !(1..=12).contains(&month) {
            return Err(SqlError::new(1210, format!("Incorrect arguments to {}", call.name())));
        }
        let year = match year {
            0..70 => 2000 + year,
            70..100 => 1900 + year,
            _ => year,
        };
        Ok(year * 12 + month - 1)
    };
    let first = months(whole(&args[0]))?;
    Ok(if call == Scalar::PeriodDiff {
        Value::Int(first - months(whole(&args[1]))?)
    } else {
        let moved = first + whole(&args[1]);
        Value::Int(moved / 12 * 100 + moved % 12 + 1)
    })
}

/// Functions that make dates and times from numbers and text, and format them.
fn made(context: &Context<'_>, call: Scalar, args: &[Value]) -> Result<Option<Value>> {
    use Scalar as S;
    let offset = context.variables.borrow().time_offset_micros;
    Ok(Some(match call {
        S::FromUnixtime => from_unixtime(args, offset),
        S::FromDays => match whole(&args[0]) {
            days if days <= 365 || days > 3_652_424 => Value::Date(Date::default()),
            days => Date::from_days(days - EPOCH_DAYS).map_or(Value::Null, Value::Date),
        },
        S::Makedate => {
            let (year, day) = (whole(&args[0]), whole(&args[1]));
            let year = match year {
                0..70 => 2000 + year,
                70..100 => 1900 + year,
                _ => year,
            };
            let first = u16::try_from(year).ok().and_then(|year| Date::new(year, 1, 1));
            let date = first
                .filter(|_| day > 0)
                .and_then(|first| Date::from_days(first.to_days().checked_add(day - 1)?));
            date.map_or(Value::Null, Value::Date)
        }
        S::Maketime => make_time(context, args)?,
        S::SecToTime => {
            let micros = to_decimal(&args[0].as_ref())
                .and_then(|n| n.mul(&Decimal::new(SECOND.into(), 0))?.to_i128())
                .map_or(i64::MAX, |micros| micros.clamp(i64::MIN.into(), i64::MAX.into()) as i64);
            if micros.unsigned_abs() > TIME_MAX.unsigned_abs() {
                context.raise(wrong_value("Truncated incorrect time", &args[0].to_text()))?;
            }
            held(micros)
        }
        S::StrToDate => str_to_date(context, args)?,
        S::ConvertTz => convert_tz(context, args)?,
        S::DateFormat => match moment(context, &args[0])? {
            Some(at) => format_moment(at.date, at.time(), &text(&args[1])),
            None => Value::Null,
        },
        S::TimeFormat => match span(context, &args[0])? {
            Some(time) => format_moment(Date::default(), time, &text(&args[1])),
            None => Value::Null,
        },
        S::PeriodAdd | S::PeriodDiff => period(call, args)?,
        _ => return Ok(None),
    }))
}

/// Functions that compute with dates and times.
fn computed(context: &Context<'_>, call: Scalar, args: &[Value]) -> Result<Option<Value>> {
    use Scalar as S;
    let offset = context.variables.borrow().time_offset_micros;
    Ok(Some(match call {
        S::UnixTimestamp => match moment(context, &args[0])? {
            Some(at) => {
                let micros = at.to_unix_micros() - offset;
                match micros {
                    _ if !(SECOND..=UNIX_MAX).contains(&micros) => Value::Int(0),
                    _ if micros % SECOND == 0 => Value::Int(micros / SECOND),
                    _ => Value::Decimal(Decimal::new(micros.into(), 6)),
                }
            }
            None => Value::Int(0),
        },
        S::TimeOf => match either(&args[0]) {
            Some(MomentOrSpan::At(at)) => Value::Time(at.time()),
            _ => span(context, &args[0])?.map_or(Value::Null, |time| held(time.micros)),
        },
        S::Timestamp => {
            let Some(at) = moment(context, &args[0])? else { return Ok(Some(Value::Null)) };
            let Some(more) = args.get(1) else { return Ok(Some(Value::DateTime(at))) };
            let more = match more {
                // Of a date, or of a date and time, only the time of day is added.
                Value::Date(_) | Value::DateTime(_) => to_time(&more.as_ref()),
                other => match either(other) {
                    Some(MomentOrSpan::Span(more)) => Some(more),
                    _ => None,
                },
            };
            let Some(more) = more else { return Ok(Some(Value::Null)) };
            DateTime::from_micros_of(at.date, at.micros as i64 + more.micros)
                .map_or(Value::Null, Value::DateTime)
        }
        S::Addtime | S::Subtime => add_time(call, args),
        S::Datediff => match (moment(context, &args[0])?, moment(context, &args[1])?) {
            (Some(a), Some(b)) => Value::Int(day_number(a.date) - day_number(b.date)),
            _ => Value::Null,
        },
        S::Timediff => match (either(&args[0]), either(&args[1])) {
            (Some(MomentOrSpan::At(a)), Some(MomentOrSpan::At(b))) => {
                held(a.to_unix_micros() - b.to_unix_micros())
            }
            (Some(MomentOrSpan::Span(a)), Some(MomentOrSpan::Span(b))) => held(a.micros - b.micros),
            _ => Value::Null,
        },
        S::TimeToSec => {
            span(context, &args[0])?.map_or(Value::Null, |time| Value::Int(time.micros / SECOND))
        }
        S::Extract => extract_part(context, args)?,
        S::MomentNumber => {
            let number = to_decimal(&moment_of(&args[0].to_text()).as_ref());
            number.map_or(Value::Null, Value::Decimal)
        }
        S::MomentOf => moment_of(&args[0].to_text()),
        S::MomentToday => moment_today(context, &args[0])?,
        S::Timestampdiff => {
            let (Some(a), Some(b)) = (moment(context, &args[1])?, moment(context, &args[2])?)
            else {
                return Ok(Some(Value::Null));
            };
            let unit = text(&args[0]).to_ascii_lowercase();
            between(&unit, a, b).map_or(Value::Null, Value::Int)
        }
        _ => return Ok(None),
    }))
}

/// ADDTIME and SUBTIME. Unless the first argument is a DATETIME or a TIME, the result is text.
fn add_time(call: Scalar, args: &[Value]) -> Value {
    let Some(MomentOrSpan::Span(more)) = either(&args[1]) else {
        return Value::Null;
    };
    let more = if call == Scalar::Addtime { more.micros } else { -more.micros };
    let shown = matches!(
        args[0],
        Value::Text(_)
            | Value::Bytes(_)
            | Value::Int(_)
            | Value::UInt(_)
            | Value::Date(_)
            | Value::Decimal(_)
            | Value::Double(_)
    );
    match either(&args[0]) {
        Some(MomentOrSpan::At(at)) => {
            match DateTime::from_micros_of(at.date, at.micros as i64 + more) {
                Some(at) if shown => Value::Text(at.format(at.digits())),
                at => at.map_or(Value::Null, Value::DateTime),
            }
        }
        Some(MomentOrSpan::Span(time)) => match held(time.micros.saturating_add(more)) {
            Value::Time(time) if shown => Value::Text(time.format(time.digits())),
            time => time,
        },
        None => Value::Null,
    }
}

/// Parses the date, the date and time, or the span that a function has written as text.
fn moment_of(written: &str) -> Value {
    let value = match written.as_bytes().get(4) {
        Some(b'-') => DateTime::parse(written).map(|at| match written.contains(':') {
            true => Value::DateTime(at),
            false => Value::Date(at.date),
        }),
        _ => Time::parse(written).map(Value::Time),
    };
    value.unwrap_or_default()
}

/// The text of the date, or of the date and time, that a function has written; a span as one of
/// today.
fn moment_today(context: &Context<'_>, written: &Value) -> Result<Value> {
    let time @ Value::Time(_) = moment_of(&written.to_text()) else { return Ok(written.clone()) };
    let at = moment(context, &time)?;
    Ok(at.map_or(Value::Null, |at| Value::Text(at.format(at.digits()))))
}

/// EXTRACT of a date and time, or of a span.
fn extract_part(context: &Context<'_>, args: &[Value]) -> Result<Value> {
    let unit = text(&args[0]).to_ascii_lowercase();
    let dated = match unit.as_str() {
        "year" | "quarter" | "month" | "week" | "day" | "year_month" => true,
        // A span has no days: its hours may be more than 24.
        unit if unit.starts_with("day_") => match &args[1] {
            Value::Time(_) => false,
            Value::Text(text) => text.bytes().filter(|byte| *byte == b'-').count() > 1,
            other => matches!(either(other), Some(MomentOrSpan::At(_))),
        },
        _ => false,
    };
    let part = if dated {
        let at = moment(context, &args[1])?;
        at.and_then(|at| extract(&unit, at, at.time()))
    } else {
        let time = span(context, &args[1])?;
        time.and_then(|time| extract(&unit, DateTime::default(), time))
    };
    Ok(part.map_or(Value::Null, Value::Int))
}

/// The number of whole units from one time to another.
fn between(unit: &str, a: DateTime, b: DateTime) -> Option<i64> {
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
    Some(match unit {
        "microsecond" => micros,
        "second" => micros / SECOND,
        "minute" => micros / (60 * SECOND),
        "hour" => micros / (3600 * SECOND),
        "day" => micros / DAY,
        "week" => micros / (7 * DAY),
        "month" => months(),
        "quarter" => months() / 3,
        "year" => months() / 12,
        _ => return None,
    })
}
