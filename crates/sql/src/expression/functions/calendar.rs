//! Week numbers, and the formatting and parsing of dates.

use std::fmt::Write as _;

use spillway_types::temporal::days_in_month;
use spillway_types::{Date, DateTime, Time, Value};

pub(super) const DAYS: [&str; 7] =
    ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
#[rustfmt::skip]
pub(super) const MONTHS: [&str; 12] = [
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
];

/// The number of days from year 0 to 1970.
pub(super) const EPOCH_DAYS: i64 = 719_528;

/// The number of the last day, 9999-12-31.
const DAY_NUMBER_MAX: i64 = 3_652_424;

/// The number of a day as MySQL counts days: year 0 has no 29 February, and its 1 January is day 1.
pub(super) fn day_number(date: Date) -> i64 {
    let early = date.year == 0 && date.month <= 2;
    date.to_days() + EPOCH_DAYS + i64::from(early)
}

/// How weeks are counted. `monday`: a week begins on Monday, else on Sunday. `own_year`: the first
/// days of a year may belong to the last week of the previous year, else they are in week 0.
/// `first_begins`: week 1 is the first week that begins in the year, else the first with four days
/// in it.
#[derive(Clone, Copy)]
pub(super) struct Weeks {
    pub(super) monday: bool,
    pub(super) own_year: bool,
    pub(super) first_begins: bool,
}

impl Weeks {
    /// A mode of WEEK(), 0 to 7.
    pub(super) fn mode(mode: i64) -> Weeks {
        let (monday, first) = (mode & 1 == 1, mode & 4 == 4);
        Weeks { monday, own_year: mode & 2 == 2, first_begins: first == monday }
    }

    /// The year to which the week of a day belongs, and the week's number.
    pub(super) fn of(self, date: Date) -> (u16, i64) {
        let length = |year: u16| if days_in_month(year, 2) == 29 { 366 } else { 365 };
        let first = |year: u16| Date { year, month: 1, day: 1 };
        let day = date.to_days();
        let mut year = date.year;
        let mut start = first(year).to_days();
        let of_first = i64::from(first(year).weekday());
        let mut weekday = if self.monday { of_first } else { (of_first + 1) % 7 };
        let mut own_year = self.own_year;
        let late = |weekday: i64| if self.first_begins { weekday != 0 } else { weekday >= 4 };
        if date.month == 1 && i64::from(date.day) <= 7 - weekday {
            if !own_year && late(weekday) {
                return (year, 0);
            }
            own_year = true;
            year = year.saturating_sub(1);
            start -= length(year);
            weekday = (weekday + 53 * 7 - length(year)) % 7;
        }
        let days =
            if late(weekday) { day - (start + 7 - weekday) } else { day - (start - weekday) };
        if own_year && days >= 52 * 7 && !late((weekday + length(year)) % 7) {
            return (year + 1, 1);
        }
        (year, days / 7 + 1)
    }
}

fn ordinal(day: u8) -> &'static str {
    match (day / 10, day % 10) {
        (1, _) => "th",
        (_, 1) => "st",
        (_, 2) => "nd",
        (_, 3) => "rd",
        _ => "th",
    }
}

/// DATE_FORMAT and TIME_FORMAT. The hours of a span may exceed a day. NULL if the format contains
/// the name of the month and the month is zero.
pub(super) fn format_moment(date: Date, span: Time, format: &str) -> Value {
    let mut out = String::new();
    let total = span.micros.unsigned_abs();
    let (hour, minute, second, micros) =
        (total / 3_600_000_000, total / 60_000_000 % 60, total / 1_000_000 % 60, total % 1_000_000);
    let twelve = if hour % 12 == 0 { 12 } else { hour % 12 };
    let half = if hour % 24 < 12 { "AM" } else { "PM" };
    let week = |mode| Weeks::mode(mode).of(date);
    let weekday = usize::from(date.weekday());
    if span.micros < 0 {
        out.push('-');
    }
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let Some(mark) = chars.next() else {
            out.push('%');
            break;
        };
        if matches!(mark, 'b' | 'M') && date.month == 0 {
            return Value::Null;
        }
        let _ = match mark {
            'Y' => write!(out, "{:04}", date.year),
            'y' => write!(out, "{:02}", date.year % 100),
            'm' => write!(out, "{:02}", date.month),
            'c' => write!(out, "{}", date.month),
            'd' => write!(out, "{:02}", date.day),
            'e' => write!(out, "{}", date.day),
            'D' => write!(out, "{}{}", date.day, ordinal(date.day)),
            'H' => write!(out, "{hour:02}"),
            'k' => write!(out, "{hour}"),
            'h' | 'I' => write!(out, "{twelve:02}"),
            'l' => write!(out, "{twelve}"),
            'i' => write!(out, "{minute:02}"),
            's' | 'S' => write!(out, "{second:02}"),
            'f' => write!(out, "{micros:06}"),
            'p' => write!(out, "{half}"),
            'T' => write!(out, "{hour:02}:{minute:02}:{second:02}"),
            'r' => write!(out, "{twelve:02}:{minute:02}:{second:02} {half}"),
            'j' => write!(out, "{:03}", date.day_of_year()),
            'a' => write!(out, "{}", &DAYS[weekday][..3]),
            'W' => write!(out, "{}", DAYS[weekday]),
            'w' => write!(out, "{}", (weekday + 1) % 7),
            'b' => write!(out, "{}", &MONTHS[usize::from(date.month) - 1][..3]),
            'M' => write!(out, "{}", MONTHS[usize::from(date.month) - 1]),
            'U' => write!(out, "{:02}", week(0).1),
            'u' => write!(out, "{:02}", week(1).1),
            'V' => write!(out, "{:02}", week(2).1),
            'v' => write!(out, "{:02}", week(3).1),
            'X' => write!(out, "{:04}", week(2).0),
            'x' => write!(out, "{:04}", week(3).0),
            other => write!(out, "{other}"),
        };
    }
    Value::Text(out)
}

/// The fields that STR_TO_DATE has parsed.
#[derive(Default)]
struct DateParts {
    year: u64,
    month: u64,
    day: u64,
    year_day: Option<u64>,
    week: Option<Week>,
    /// The year of `%X` or `%x`, and whether its weeks begin on Sunday.
    week_year: Option<(u64, bool)>,
    /// Monday is 1, Sunday is 7; 0 if the format has no weekday.
    weekday: u64,
    hour: u64,
    minute: u64,
    second: u64,
    micros: u64,
    half: Option<bool>,
    twelve: bool,
}

/// A week of a year.
struct Week {
    number: u64,
    sunday: bool,
    /// Whether the year is the week's, `%X` or `%x`.
    own_year: bool,
}

impl DateParts {
    /// The date of a weekday in a week; `Some(None)` unless the format has both, `None` if they are
    /// invalid.
    fn day_of_week(&self) -> Option<Option<Date>> {
        let Some(week) = self.week.as_ref().filter(|_| self.weekday > 0) else { return Some(None) };
        let year = match (week.own_year, self.week_year) {
            (true, Some((year, sunday))) if sunday == week.sunday => year,
            (false, None) => self.year,
            _ => return None,
        };
        let first = day_number(Date { year: year as u16, month: 1, day: 1 });
        let of_first = (first + 5 + i64::from(week.sunday)) % 7;
        // Week 1 is the first week that begins in the year, or the first with four days in it.
        let late = if week.sunday { of_first != 0 } else { of_first > 3 };
        let day = if week.sunday { self.weekday % 7 } else { self.weekday - 1 };
        let number =
            first + if late { 7 } else { 0 } - of_first + (week.number as i64 - 1) * 7 + day as i64;
        if !(1..=DAY_NUMBER_MAX).contains(&number) {
            return None;
        }
        Some(Some(Date::from_days(number - EPOCH_DAYS)?))
    }
}

fn digits<'t>(text: &mut &'t str, most: usize) -> Option<(u64, usize)> {
    let len = text.bytes().take(most).take_while(u8::is_ascii_digit).count();
    let (number, rest): (&'t str, &'t str) = text.split_at(len);
    *text = rest;
    Some((number.parse().ok()?, len))
}

/// Takes a word from the front of `text`, and returns the number of the name that it equals, or of
/// the only name that begins with it. Names are cut to `len` characters.
fn name(text: &mut &str, names: &[&str], len: usize) -> Option<u64> {
    let end = text.bytes().take_while(u8::is_ascii_alphabetic).count();
    let (word, rest): (&str, &str) = text.split_at(end);
    let begins = |name: &&str| {
        let name = name.get(..len).unwrap_or(name);
        name.get(..end).is_some_and(|head| head.eq_ignore_ascii_case(word))
    };
    let at = names.iter().position(begins)?;
    // A word that is a whole name takes precedence over longer names that begin with it.
    let whole = names[at].len().min(len) == end;
    if !whole && names[at + 1..].iter().any(begins) {
        return None;
    }
    *text = rest;
    Some(at as u64 + 1)
}

fn read_mark(parts: &mut DateParts, text: &mut &str, mark: char) -> Option<()> {
    match mark {
        'Y' => {
            let (year, len) = digits(text, 4)?;
            parts.year = if len <= 2 { of_century(year) } else { year };
        }
        'y' => parts.year = of_century(digits(text, 2)?.0),
        'm' | 'c' => parts.month = digits(text, 2)?.0,
        'd' | 'e' => parts.day = digits(text, 2)?.0,
        'D' => {
            parts.day = digits(text, 2)?.0;
            *text = text.get(2..)?;
        }
        'j' => parts.year_day = Some(digits(text, 3)?.0),
        'H' | 'k' => parts.hour = digits(text, 2)?.0,
        'h' | 'I' | 'l' => {
            parts.hour = digits(text, 2)?.0;
            parts.twelve = true;
        }
        'i' => parts.minute = digits(text, 2)?.0,
        's' | 'S' => parts.second = digits(text, 2)?.0,
        'f' => {
            let (number, len) = digits(text, 6)?;
            parts.micros = number * 10u64.pow(6 - len as u32);
        }
        'p' => {
            let head = text.get(..2)?.to_ascii_uppercase();
            parts.half = Some(match head.as_str() {
                "AM" => false,
                "PM" => true,
                _ => return None,
            });
            *text = &text[2..];
        }
        'b' => parts.month = name(text, &MONTHS, 3)?,
        'M' => parts.month = name(text, &MONTHS, usize::MAX)?,
        'a' => parts.weekday = name(text, &DAYS, 3)?,
        'W' => parts.weekday = name(text, &DAYS, usize::MAX)?,
        'w' => {
            let day = digits(text, 1)?.0;
            parts.weekday = match day {
                0 => 7,
                1..=6 => day,
                _ => return None,
            };
        }
        'U' | 'u' | 'V' | 'v' => {
            let number = digits(text, 2)?.0;
            let own_year = matches!(mark, 'V' | 'v');
            if number > 53 || (own_year && number == 0) {
                return None;
            }
            parts.week = Some(Week { number, sunday: matches!(mark, 'U' | 'V'), own_year });
        }
        'X' | 'x' => parts.week_year = Some((digits(text, 4)?.0, mark == 'X')),
        'T' => read(parts, text, "%H:%i:%S")?,
        'r' => read(parts, text, "%I:%i:%S %p")?,
        '.' => *text = text.trim_start_matches(|c: char| c.is_ascii_punctuation()),
        '@' => *text = text.trim_start_matches(char::is_alphabetic),
        '#' => *text = text.trim_start_matches(|c: char| c.is_ascii_digit()),
        _ => return None,
    }
    Some(())
}

/// The year of a two-digit year.
fn of_century(year: u64) -> u64 {
    if year >= 70 { 1900 + year } else { 2000 + year }
}

fn read(parts: &mut DateParts, text: &mut &str, format: &str) -> Option<()> {
    let mut marks = format.chars();
    while let Some(c) = marks.next() {
        *text = text.trim_start();
        if text.is_empty() {
            // Fields of the format beyond the end of the text remain zero.
            return Some(());
        }
        match c {
            '%' => read_mark(parts, text, marks.next()?)?,
            c if c.is_whitespace() => {}
            c => *text = text.strip_prefix(c)?,
        }
    }
    Some(())
}

/// STR_TO_DATE: a date, a span, and whether the format used all of the text. `None` if the text
/// does not match the format.
pub(super) fn parse_moment(text: &str, format: &str) -> Option<(Date, Time, bool)> {
    let (mut parts, mut rest) = (DateParts::default(), text);
    read(&mut parts, &mut rest, format)?;
    if parts.twelve {
        if !(1..=12).contains(&parts.hour) {
            return None;
        }
        parts.hour = parts.hour % 12 + if parts.half == Some(true) { 12 } else { 0 };
    } else if parts.half.is_some() {
        return None;
    }
    if parts.hour > 23 || parts.minute > 59 || parts.second > 59 {
        return None;
    }
    let mut date = Date { year: parts.year as u16, month: parts.month as u8, day: parts.day as u8 };
    if let Some(day) = parts.year_day.filter(|day| *day > 0) {
        let first = Date::new(date.year, 1, 1)?;
        date = Date::from_days(first.to_days() + i64::try_from(day).ok()? - 1)?;
    }
    let date = parts.day_of_week()?.unwrap_or(date);
    let date = Date::new(date.year, date.month, date.day)?;
    let seconds = parts.hour * 3600 + parts.minute * 60 + parts.second;
    let span = Time { micros: (seconds * 1_000_000 + parts.micros) as i64 };
    Some((date, span, rest.trim_end().is_empty()))
}

/// The unit of a date and a span as the number that EXTRACT returns.
pub(super) fn extract(unit: &str, at: DateTime, span: Time) -> Option<i64> {
    let (year, month, day) =
        (i64::from(at.date.year), i64::from(at.date.month), i64::from(at.date.day));
    let total = span.micros.abs();
    let (hour, minute, second, micros) =
        (total / 3_600_000_000, total / 60_000_000 % 60, total / 1_000_000 % 60, total % 1_000_000);
    let clock = hour * 10_000 + minute * 100 + second;
    let sign = if span.micros < 0 { -1 } else { 1 };
    Some(match unit {
        "year" => year,
        "quarter" => (month + 2) / 3,
        "month" => month,
        "week" => Weeks::mode(0).of(at.date).1,
        "day" => day,
        "year_month" => year * 100 + month,
        "hour" => sign * hour,
        "minute" => sign * minute,
        "second" => sign * second,
        "microsecond" => sign * micros,
        "day_hour" => sign * (day * 100 + hour),
        "day_minute" => sign * (day * 10_000 + hour * 100 + minute),
        "day_second" => sign * (day * 1_000_000 + clock),
        "day_microsecond" => sign * ((day * 1_000_000 + clock) * 1_000_000 + micros),
        "hour_minute" => sign * (hour * 100 + minute),
        "hour_second" => sign * clock,
        "hour_microsecond" => sign * (clock * 1_000_000 + micros),
        "minute_second" => sign * (minute * 100 + second),
        "minute_microsecond" => sign * ((minute * 100 + second) * 1_000_000 + micros),
        "second_microsecond" => sign * (second * 1_000_000 + micros),
        _ => return None,
    })
}
