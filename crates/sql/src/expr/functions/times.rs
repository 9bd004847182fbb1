//! Functions of dates and times.

use std::fmt::Write as _;

use spillway_types::convert::{to_datetime, to_decimal, to_time};
use spillway_types::temporal::days_in_month;
use spillway_types::{Date, DateTime, Decimal, Time, Value};

use super::Scalar;
use crate::expr::Context;
use crate::expr::eval::{number, text, whole};

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
pub(in crate::expr) fn add_interval(
    date: &Value,
    amount: &Value,
    unit: &str,
    negative: bool,
) -> Value {
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

pub(super) fn date_function(context: &Context<'_>, call: Scalar, args: &[Value]) -> Option<Value> {
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
