//! Floats and doubles as text, as MySQL writes them.
//!
//! MySQL's rules are those of `my_gcvt`: the shortest digits that identify the number (David Gay,
//! "Correctly Rounded Binary-Decimal and Decimal-Binary Conversions"), and an exponent for whole
//! numbers whose magnitude is at least 1e15 and for all numbers whose magnitude is below 1e-15. If
//! the text has room for fewer characters, the number is rounded to the digits that fit. It is then
//! written with or without an exponent, whichever keeps more digits.

/// Digits before the point up to which a whole number has no exponent.
const PLAIN_MAX: i32 = 15;

/// A float as MySQL shows it: six digits.
#[must_use]
pub fn format_float(number: f32) -> String {
    format_double(format!("{number:.5e}").parse().unwrap_or_else(|_| f64::from(number)))
}

/// A double as MySQL shows it: the shortest digits that identify it.
#[must_use]
pub fn format_double(number: f64) -> String {
    if number == 0.0 {
        return if number.is_sign_negative() { "-0".to_owned() } else { "0".to_owned() };
    }
    let size = number.abs();
    if (1e-15..1e15).contains(&size) || size > 1.0 && size.fract() != 0.0 {
        return format!("{number}");
    }
    let text = ryu::Buffer::new().format(number).to_owned();
    match text.split_once('e') {
        Some((mantissa, exponent)) => {
            let mantissa = mantissa.strip_suffix(".0").unwrap_or(mantissa);
            format!("{mantissa}e{exponent}")
        }
        None => format!("{number:e}"),
    }
}

/// A double in at most `width` characters, and whether that loses more than digits after the point:
/// its text then stands for another number.
#[must_use]
pub fn format_double_within(number: f64, width: usize) -> (String, bool) {
    if width == 0 {
        return (String::new(), true);
    }
    let size = number.abs();
    let room = i32::try_from(width).unwrap_or(i32::MAX) - i32::from(number < 0.0);
    let digits = Digits::significant(size, room);
    let (text, lost) = match digits.is_plain_within(room) {
        true => digits.plain(size, room),
        false => digits.scientific(size, room),
    };
    let signed = number.is_sign_negative() && (number == 0.0 || text != "0");
    let mut text = format!("{}{text}", if signed { "-" } else { "" });
    text.truncate(width);
    (text, lost)
}

/// The number `0.DIGITS * 10^point`. Its digits do not end with zeros; only zero itself begins
/// with one. A number that is rounded to nothing has no digits.
struct Digits {
    digits: String,
    point: i32,
}

impl Digits {
    /// From a text such as `1.25e-7`.
    fn read(text: &str) -> Digits {
        let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
        let all = mantissa.replace('.', "");
        let kept = all.trim_end_matches('0').len().max(1);
        Digits { digits: all[..kept].to_owned(), point: exponent.parse().unwrap_or(0) + 1 }
    }

    /// The shortest digits, or `count` digits if those are fewer, but one at least.
    fn significant(size: f64, count: i32) -> Digits {
        let shortest = Digits::read(&format!("{size:e}"));
        let count = usize::try_from(count).unwrap_or(0).max(1);
        if shortest.digits.len() <= count {
            return shortest;
        }
        Digits::read(&format!("{size:.*e}", count - 1))
    }

    /// Rounded to `count` digits after the point.
    fn rounded(size: f64, count: i32) -> Digits {
        let text = format!("{size:.*}", usize::try_from(count).unwrap_or(0));
        let whole = text.find('.').unwrap_or(text.len()) as i32;
        let all = text.replace('.', "");
        let digits = all.trim_start_matches('0');
        let point = whole - (all.len() - digits.len()) as i32;
        Digits { digits: digits.trim_end_matches('0').to_owned(), point }
    }

    fn len(&self) -> i32 {
        self.digits.len() as i32
    }

    /// Digits of the exponent, where there is one.
    fn exponent_len(&self) -> i32 {
        let reaches = |power: i32| i32::from(self.point > power || self.point <= 1 - power);
        1 + reaches(10) + reaches(100)
    }

    /// Whether the number is written without an exponent: if it fits whole, unless it is very large
    /// or very small; otherwise if that keeps more digits.
    fn is_plain_within(&self, room: i32) -> bool {
        let (len, point) = (self.len(), self.point);
        let plain_len = match point {
            _ if point <= 0 => len - point + 2,
            _ if point < len => len + 1,
            _ => point,
        };
        if plain_len <= room {
            return point > -PLAIN_MAX && (point <= PLAIN_MAX || len > point);
        }
        let only_exponent = point <= 0 && room <= 2 - point && room >= 3 + self.exponent_len();
        !only_exponent && point <= room && point >= -2
    }

    /// The number without an exponent, and whether digits before the point are lost.
    fn plain(mut self, size: f64, room: i32) -> (String, bool) {
        let before = if self.point <= 0 { 1 - self.point } else { 0 };
        let mut room = room - i32::from(self.point < self.len()) - before;
        let mut lost = false;
        if room < self.len() {
            lost = room < self.point;
            room = room.max(self.point);
            self = Digits::rounded(size, room - self.point);
        }
        if self.digits.is_empty() {
            return ("0".to_owned(), lost);
        }
        let zeros = |count: i32| "0".repeat(usize::try_from(count).unwrap_or(0));
        let text = if self.point <= 0 {
            format!("0.{}{}", zeros(-self.point), self.digits)
        } else if self.point < self.len() {
            let (whole, part) = self.digits.split_at(self.point as usize);
            format!("{whole}.{part}")
        } else {
            format!("{}{}", self.digits, zeros(self.point - self.len()))
        };
        (text, lost)
    }

    /// The number with an exponent, and whether there was no room for one digit before it.
    fn scientific(mut self, size: f64, room: i32) -> (String, bool) {
        let signs = i32::from(self.point < 1) + i32::from(self.len() > 1);
        let room = room - signs - 1 - self.exponent_len();
        if room < self.len() {
            self = Digits::significant(size, room);
        }
        let (first, rest) = self.digits.split_at(1);
        let point = if rest.is_empty() { "" } else { "." };
        (format!("{first}{point}{rest}e{}", self.point - 1), room <= 0)
    }
}
