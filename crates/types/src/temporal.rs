//! Dates and times, with MySQL's ranges and formats.

use std::fmt;

/// A calendar date. All zeros is MySQL's zero date.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Date {
    /// 0 to 9999.
    pub year: u16,
    /// 1 to 12.
    pub month: u8,
    /// 1 to 31.
    pub day: u8,
}

/// A date and a time of day.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct DateTime {
    /// The date.
    pub date: Date,
    /// Microseconds since midnight.
    pub micros: u64,
}

/// A span of time, up to 838:59:59 in either direction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Time {
    /// Microseconds, negative for a span backwards.
    pub micros: i64,
}

const SECOND: u64 = 1_000_000;
const DAY: u64 = 86_400 * SECOND;
/// The longest span.
pub const TIME_MAX_MICROS: i64 = (838 * 3600 + 59 * 60 + 59) * 1_000_000;
/// The most hours that the parser keeps from a text.
const HOURS_READ_MAX: u64 = 1_000_000;

/// Days of a month.
#[must_use]
pub fn days_in_month(year: u16, month: u8) -> u8 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => {
            29
        }
        2 => 28,
        _ => 31,
    }
}

/// Splits text into numbers and the separators between them.
fn numbers(text: &str) -> Option<Vec<(u64, usize)>> {
    let mut out = Vec::new();
    for part in text.split(|c: char| !c.is_ascii_digit()) {
        if part.is_empty() {
            return None;
        }
        out.push((part.parse().ok()?, part.len()));
    }
    Some(out)
}

impl Date {
    /// The date, if it exists or is the zero date.
    #[must_use]
    pub fn new(year: u16, month: u8, day: u8) -> Option<Date> {
        let zero = (year, month, day) == (0, 0, 0);
        let real = year <= 9999
            && (1..=12).contains(&month)
            && (1..=days_in_month(year, month)).contains(&day);
        (zero || real).then_some(Date { year, month, day })
    }

    /// Whether this is the zero date.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        *self == Date::default()
    }

    /// Days since 1970-01-01 (Hinnant, "chrono-compatible low-level date algorithms").
    #[must_use]
    pub fn to_days(&self) -> i64 {
        let year = i64::from(self.year) - i64::from(self.month <= 2);
        let era = year.div_euclid(400);
        let of_era = year.rem_euclid(400);
        let month = (i64::from(self.month) + 9) % 12;
        let of_year = (153 * month + 2) / 5 + i64::from(self.day) - 1;
        era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
    }

    /// The date this many days after 1970-01-01; `None` outside of the years 0 to 9999.
    #[must_use]
    pub fn from_days(days: i64) -> Option<Date> {
        let days = days + 719_468;
        let era = days.div_euclid(146_097);
        let of_era = days.rem_euclid(146_097);
        let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year + year / 4 - year / 100);
        let month = (5 * of_year + 2) / 153;
        let day = of_year - (153 * month + 2) / 5 + 1;
        let month = if month < 10 { month + 3 } else { month - 9 };
        let year = year + era * 400 + i64::from(month <= 2);
        Date::new(u16::try_from(year).ok()?, month as u8, day as u8)
    }

    /// Parses a date: `2024-02-29`, with any separators, or `20240229`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Date> {
        DateTime::parse(text).map(|at| at.date)
    }

    /// Monday is 0.
    #[must_use]
    pub fn weekday(&self) -> u8 {
        (self.to_days() + 3).rem_euclid(7) as u8
    }

    /// The day of the year, from 1.
    #[must_use]
    pub fn day_of_year(&self) -> u16 {
        let first = Date { year: self.year, month: 1, day: 1 };
        (self.to_days() - first.to_days() + 1) as u16
    }

    /// The date this many months later, on the last day of the month if the day does not exist.
    #[must_use]
    pub fn add_months(&self, months: i64) -> Option<Date> {
        let total = i64::from(self.year) * 12 + i64::from(self.month) - 1 + months;
        let (year, month) = (total.div_euclid(12), total.rem_euclid(12) as u8 + 1);
        let year = u16::try_from(year).ok()?;
        Date::new(year, month, self.day.min(days_in_month(year, month)))
    }
}

impl DateTime {
    /// Parses a date and time: `2024-02-29 12:34:56.789`, `2024-02-29T12:34`, `20240229123456`, or
    /// a date alone.
    #[must_use]
    pub fn parse(text: &str) -> Option<DateTime> {
        let text = text.trim();
        let text = text.strip_suffix('Z').unwrap_or(text);
        let (main, fraction) = match text.rsplit_once('.') {
            Some((main, fraction)) if main.len() > 8 => (main, fraction),
            _ => (text, ""),
        };
        // `1 10:20:30` is a day and a time.
        let spaced = main.find(['T', ' ']).map(|at| numbers(&main[..at]));
        if spaced.is_some_and(|date| date.is_none_or(|date| date.len() != 3)) {
            return None;
        }
        let parts = numbers(&main.replace(['T', ' '], ":"))?;
        let (date, clock) = match parts.as_slice() {
            [(all, 14)] => (all / 1_000_000, split_clock(all % 1_000_000)),
            [(all, 12)] => (long_year(all / 1_000_000), split_clock(all % 1_000_000)),
            [(all, 8)] => (*all, (0, 0, 0)),
            [(all, 6)] => (long_year(*all), (0, 0, 0)),
            [(year, digits), (month, _), (day, _), rest @ ..] if rest.len() <= 3 => {
                let year = if *digits <= 2 { long_year(year * 10_000) / 10_000 } else { *year };
                if *month > 99 || *day > 99 {
                    return None;
                }
                let at = |index: usize| rest.get(index).map_or(0, |(number, _)| *number);
                (year * 10_000 + month * 100 + day, (at(0), at(1), at(2)))
            }
            _ => return None,
        };
        let date = Date::new(
            u16::try_from(date / 10_000).ok()?,
            (date / 100 % 100) as u8,
            (date % 100) as u8,
        )?;
        let (hour, minute, second) = clock;
        if hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        let micros = (hour * 3600 + minute * 60 + second) * SECOND + parse_fraction(fraction)?;
        DateTime::from_micros_of(date, micros as i64)
    }

    /// The date and time this many microseconds after midnight of a date; they may be more than a
    /// day, or negative.
    #[must_use]
    pub fn from_micros_of(date: Date, micros: i64) -> Option<DateTime> {
        let days = micros.div_euclid(DAY as i64);
        let date = if days == 0 { date } else { Date::from_days(date.to_days() + days)? };
        Some(DateTime { date, micros: micros.rem_euclid(DAY as i64) as u64 })
    }

    /// Microseconds since 1970-01-01 00:00:00.
    #[must_use]
    pub fn to_unix_micros(&self) -> i64 {
        self.date.to_days() * DAY as i64 + self.micros as i64
    }

    /// From microseconds since 1970-01-01 00:00:00.
    #[must_use]
    pub fn from_unix_micros(micros: i64) -> Option<DateTime> {
        let date = Date::from_days(micros.div_euclid(DAY as i64))?;
        Some(DateTime { date, micros: micros.rem_euclid(DAY as i64) as u64 })
    }

    /// Rounds to this many fractional digits of a second.
    #[must_use]
    pub fn round(&self, digits: u8) -> Option<DateTime> {
        DateTime::from_micros_of(self.date, round_micros(self.micros as i64, digits))
    }

    /// The time of day.
    #[must_use]
    pub fn time(&self) -> Time {
        Time { micros: self.micros as i64 }
    }

    /// Hour, minute, second and microsecond.
    #[must_use]
    pub fn clock(&self) -> (u64, u64, u64, u64) {
        clock(self.micros)
    }

    /// The text with this many fractional digits of a second.
    #[must_use]
    pub fn format(&self, digits: u8) -> String {
        let (hour, minute, second, micros) = self.clock();
        format!("{} {hour:02}:{minute:02}:{second:02}{}", self.date, fraction(micros, digits))
    }

    /// The fewest fractional digits that show the time exactly: 0 or 6.
    #[must_use]
    pub fn digits(&self) -> u8 {
        if self.micros.is_multiple_of(SECOND) { 0 } else { 6 }
    }
}

fn split_clock(number: u64) -> (u64, u64, u64) {
    (number / 10_000, number / 100 % 100, number % 100)
}

/// Expands a two-digit year: 70 and later belong to the last century.
fn long_year(date: u64) -> u64 {
    if date >= 700_000 { date + 19_000_000 } else { date + 20_000_000 }
}

fn clock(micros: u64) -> (u64, u64, u64, u64) {
    let seconds = micros / SECOND;
    (seconds / 3600, seconds / 60 % 60, seconds % 60, micros % SECOND)
}

fn parse_fraction(text: &str) -> Option<u64> {
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let digits = format!("{text:0<7}");
    let micros: u64 = digits.get(..6)?.parse().ok()?;
    Some(micros + u64::from(digits.as_bytes()[6] >= b'5'))
}

fn fraction(micros: u64, digits: u8) -> String {
    if digits == 0 {
        return String::new();
    }
    let text = format!("{micros:06}");
    format!(".{}", &text[..usize::from(digits.min(6))])
}

fn round_micros(micros: i64, digits: u8) -> i64 {
    let unit = 10_i64.pow(6 - u32::from(digits.min(6)));
    let half = if micros < 0 { -(unit / 2) } else { unit / 2 };
    (micros + half) / unit * unit
}

/// Takes the digits at the front of a text, and returns their number, zero if there are none;
/// `None` for a number that is too large.
fn leading_number(rest: &mut &str) -> Option<u64> {
    let (digits, after) = rest.split_at(rest.bytes().take_while(u8::is_ascii_digit).count());
    *rest = after;
    if digits.is_empty() { Some(0) } else { digits.parse().ok() }
}

/// Takes `:` and a number from the front of a text, for the minutes and for the seconds. Returns
/// whether there was any.
fn clock_parts(rest: &mut &str, clock: &mut [u64; 3]) -> Option<bool> {
    let mut any = false;
    for part in &mut clock[1..] {
        let Some(after) = rest.strip_prefix(':') else { break };
        if !after.starts_with(|c: char| c.is_ascii_digit()) {
            break;
        }
        *rest = after;
        *part = leading_number(rest)?;
        any = true;
    }
    Some(any)
}

impl Time {
    /// Parses a span: `-12:34:56.7`, `12:34`, `1 02:03:04`, `1 02` (a day and two hours), `123456`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Time> {
        Time::parse_prefix(text).filter(|(_, whole)| *whole).map(|(time, _)| time)
    }

    /// Parses the span at the front of a text, and returns whether it is the whole text:
    /// `2024-12-31` begins with `2024`, which is 00:20:24. `None` if the text does not begin with a
    /// number, if minutes or seconds are out of range, or if there are too many hours.
    #[must_use]
    pub fn parse_prefix(text: &str) -> Option<(Time, bool)> {
        let text = text.trim();
        let (negative, mut rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let all = rest;
        let first = leading_number(&mut rest).filter(|first| *first <= u32::MAX.into())?;
        let spaced = rest.trim_start();
        let mut clock = [0_u64; 3];
        let mut days = 0;
        // A single digit after the days is not an hour.
        let has_days = spaced.len() < rest.len() && spaced.len() > 1;
        if has_days && spaced.starts_with(|c: char| c.is_ascii_digit()) {
            (days, rest) = (first, spaced);
            clock[0] = leading_number(&mut rest)?;
            clock_parts(&mut rest, &mut clock)?;
        } else {
            clock[0] = first;
            if !clock_parts(&mut rest, &mut clock)? {
                let (hour, minute, second) = split_clock(first);
                clock = [hour, minute, second];
            }
        }
        let mut fraction = "";
        if let Some(part) = rest.strip_prefix('.') {
            let digits = part.bytes().take_while(u8::is_ascii_digit).count();
            if digits > 0 || part.is_empty() {
                (fraction, rest) = part.split_at(digits);
            }
        }
        if rest.len() == all.len() {
            return None;
        }
        let [hours, minutes, seconds] = clock;
        if minutes > 59 || seconds > 59 || hours > u32::MAX.into() {
            return None;
        }
        // Hours beyond MySQL's range need not be exact.
        let hours = (days * 24 + hours).min(HOURS_READ_MAX);
        let micros = (hours * 3600 + minutes * 60 + seconds) * SECOND + parse_fraction(fraction)?;
        let micros = if negative { -(micros as i64) } else { micros as i64 };
        Some((Time { micros }, rest.trim().is_empty()))
    }

    /// Rounds to this many fractional digits of a second.
    #[must_use]
    pub fn round(&self, digits: u8) -> Time {
        Time { micros: round_micros(self.micros, digits) }
    }

    /// Whether the span is within MySQL's range.
    #[must_use]
    pub fn in_range(&self) -> bool {
        self.micros.abs() <= TIME_MAX_MICROS
    }

    /// The nearest span within MySQL's range.
    #[must_use]
    pub fn held(&self) -> Time {
        Time { micros: self.micros.clamp(-TIME_MAX_MICROS, TIME_MAX_MICROS) }
    }

    /// The text with this many fractional digits of a second.
    #[must_use]
    pub fn format(&self, digits: u8) -> String {
        let sign = if self.micros < 0 { "-" } else { "" };
        let (hours, minutes, seconds, micros) = clock(self.micros.unsigned_abs());
        format!("{sign}{hours:02}:{minutes:02}:{seconds:02}{}", fraction(micros, digits))
    }

    /// The fewest fractional digits that show the span exactly: 0 or 6.
    #[must_use]
    pub fn digits(&self) -> u8 {
        if self.micros % SECOND as i64 == 0 { 0 } else { 6 }
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}
