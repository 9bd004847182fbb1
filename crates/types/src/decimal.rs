//! Exact decimal numbers of up to 65 digits, after MySQL's DECIMAL.

use std::cmp::Ordering;
use std::fmt;

use ethnum::I256;

/// The most digits of a DECIMAL.
pub const DIGITS_MAX: u8 = 65;
/// The most digits after the point.
pub const SCALE_MAX: u8 = 30;
/// Digits that a division adds to the scale of its dividend (`div_precision_increment`).
pub const DIVISION_SCALE: u8 = 4;

/// An exact decimal number: `digits` divided by ten to the `scale`.
#[derive(Clone, Copy, Debug)]
pub struct Decimal {
    digits: I256,
    scale: u8,
}

fn power(scale: u8) -> I256 {
    I256::from(10).pow(u32::from(scale))
}

/// Divides, rounding halves away from zero.
fn divide(numerator: I256, denominator: I256) -> I256 {
    let quotient = numerator / denominator;
    let rest = numerator % denominator;
    if rest.unsigned_abs() * 2 >= denominator.unsigned_abs() {
        let away = if (numerator < 0) == (denominator < 0) { 1 } else { -1 };
        quotient + I256::from(away)
    } else {
        quotient
    }
}

impl Decimal {
    /// Zero.
    pub const ZERO: Decimal = Decimal { digits: I256::ZERO, scale: 0 };

    /// `digits / 10^scale`.
    #[must_use]
    pub fn new(digits: i128, scale: u8) -> Decimal {
        Decimal { digits: I256::from(digits), scale: scale.min(SCALE_MAX) }
    }

    /// Digits after the point.
    #[must_use]
    pub fn scale(&self) -> u8 {
        self.scale
    }

    /// Whether the number is zero.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.digits == 0
    }

    /// Whether the number is below zero.
    #[must_use]
    pub fn is_negative(&self) -> bool {
        self.digits < 0
    }

    /// The number of all digits, including those after the point.
    #[must_use]
    pub fn precision(&self) -> u8 {
        let mut rest = self.digits.unsigned_abs();
        let mut count = 0;
        while rest > 0 {
            rest /= 10;
            count += 1;
        }
        count.max(self.scale).max(1)
    }

    /// Parses the number at the front of a text, and returns it with its length; `None` if there is
    /// none, or it has too many digits. Accepts an exponent.
    #[must_use]
    pub fn parse_prefix(text: &[u8]) -> Option<(Decimal, usize)> {
        let mut at = 0;
        let negative = match text.first() {
            Some(b'-') => {
                at += 1;
                true
            }
            Some(b'+') => {
                at += 1;
                false
            }
            _ => false,
        };
        let (mut digits, mut scale, mut seen, mut point) = (I256::ZERO, 0_i32, 0, false);
        let mut significant = 0;
        while let Some(&byte) = text.get(at) {
            match byte {
                b'0'..=b'9' => {
                    seen += 1;
                    if point && scale >= i32::from(SCALE_MAX) {
                        // Digits past the largest scale are dropped.
                    } else {
                        digits = digits * 10 + I256::from(byte - b'0');
                        significant += i32::from(digits != 0);
                        scale += i32::from(point);
                        if significant > i32::from(DIGITS_MAX) + 5 {
                            return None;
                        }
                    }
                }
                b'.' if !point => point = true,
                _ => break,
            }
            at += 1;
        }
        if seen == 0 {
            return None;
        }
        if let Some(b'e' | b'E') = text.get(at) {
            let (sign, from) = match text.get(at + 1) {
                Some(b'-') => (-1, at + 2),
                Some(b'+') => (1, at + 2),
                _ => (1, at + 1),
            };
            let len = text[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
            if len > 0 {
                let exponent: i32 =
                    std::str::from_utf8(&text[from..from + len]).ok()?.parse().ok()?;
                scale -= sign * exponent.min(1000);
                at = from + len;
            }
        }
        if negative {
            digits = -digits;
        }
        let mut number = Decimal { digits, scale: 0 };
        if scale < 0 {
            if significant - scale > i32::from(DIGITS_MAX) + 5 {
                return None;
            }
            number.digits *= power(scale.unsigned_abs() as u8);
        } else if scale > i32::from(SCALE_MAX) {
            let cut = (scale - i32::from(SCALE_MAX)).min(75) as u8;
            number = Decimal { digits: divide(number.digits, power(cut)), scale: SCALE_MAX };
        } else {
            number.scale = scale as u8;
        }
        Some((number, at))
    }

    /// Parses a text that is a number.
    #[must_use]
    pub fn parse(text: &str) -> Option<Decimal> {
        let (number, len) = Decimal::parse_prefix(text.as_bytes())?;
        (len == text.len()).then_some(number)
    }

    /// The nearest decimal to a float; `None` if it is too large or not a number.
    #[must_use]
    pub fn from_f64(number: f64) -> Option<Decimal> {
        if !number.is_finite() || number.abs() > 1e65 {
            return None;
        }
        Decimal::parse(&format!("{number:e}"))
    }

    /// The nearest float.
    #[must_use]
    pub fn to_f64(&self) -> f64 {
        self.to_string().parse().unwrap_or(f64::NAN)
    }

    /// Rounds to a scale, halves away from zero.
    #[must_use]
    pub fn round(&self, scale: u8) -> Decimal {
        let scale = scale.min(SCALE_MAX);
        let digits = match scale.cmp(&self.scale) {
            Ordering::Less => divide(self.digits, power(self.scale - scale)),
            Ordering::Equal => self.digits,
            Ordering::Greater => self.digits.saturating_mul(power(scale - self.scale)),
        };
        Decimal { digits, scale }
    }

    /// The same number without trailing zeros, so that equal numbers have equal digits and scales.
    #[must_use]
    pub fn normalized(&self) -> Decimal {
        let mut number = *self;
        while number.scale > 0 && number.digits % 10 == 0 {
            number = Decimal { digits: number.digits / 10, scale: number.scale - 1 };
        }
        number
    }

    /// Truncates to a scale.
    #[must_use]
    pub fn truncate(&self, scale: u8) -> Decimal {
        if scale >= self.scale {
            return *self;
        }
        Decimal { digits: self.digits / power(self.scale - scale), scale }
    }

    /// The nearest integer, if it fits.
    #[must_use]
    pub fn to_i128(&self) -> Option<i128> {
        i128::try_from(self.round(0).digits).ok()
    }

    fn checked(digits: Option<I256>, scale: u8) -> Option<Decimal> {
        let number = Decimal { digits: digits?, scale };
        (number.precision() <= DIGITS_MAX + 5).then_some(number)
    }

    fn aligned(&self, other: &Decimal) -> (I256, I256, u8) {
        let scale = self.scale.max(other.scale);
        (self.round(scale).digits, other.round(scale).digits, scale)
    }

    /// The sum; `None` if it has too many digits.
    #[must_use]
    pub fn add(&self, other: &Decimal) -> Option<Decimal> {
        let (a, b, scale) = self.aligned(other);
        Decimal::checked(a.checked_add(b), scale)
    }

    /// The difference; `None` if it has too many digits.
    #[must_use]
    pub fn sub(&self, other: &Decimal) -> Option<Decimal> {
        self.add(&other.neg())
    }

    /// The product; `None` if it has too many digits.
    #[must_use]
    pub fn mul(&self, other: &Decimal) -> Option<Decimal> {
        let product = Decimal {
            digits: self.digits.checked_mul(other.digits)?,
            scale: self.scale + other.scale,
        };
        let scale = product.scale.min(SCALE_MAX);
        let digits = divide(product.digits, power(product.scale - scale));
        Decimal::checked(Some(digits), scale)
    }

    /// The quotient, with [`DIVISION_SCALE`] more digits than this number; `None` for a division by
    /// zero.
    #[must_use]
    pub fn div(&self, other: &Decimal) -> Option<Decimal> {
        if other.is_zero() {
            return None;
        }
        let scale = (self.scale + DIVISION_SCALE).min(SCALE_MAX);
        let shift = scale + other.scale - self.scale;
        let digits = self.digits.checked_mul(power(shift))?;
        Some(Decimal { digits: divide(digits, other.digits), scale })
    }

    /// The quotient with more digits than are shown, truncated and not rounded, as MySQL uses it in
    /// further arithmetic. The digits after the point come in groups of nine. `None` for a division
    /// by zero.
    #[must_use]
    pub fn quotient(&self, other: &Decimal) -> Option<Decimal> {
        if other.is_zero() {
            return None;
        }
        let nines = |digits: u8| digits.div_ceil(9) * 9;
        let (a, b) = (nines(self.scale), nines(other.scale));
        let more = DIVISION_SCALE.saturating_sub(a - self.scale + b - other.scale);
        let scale = nines(a + b + more).min(SCALE_MAX);
        let shift = scale + other.scale - self.scale;
        match self.digits.checked_mul(power(shift)) {
            Some(digits) => Decimal::checked(Some(digits / other.digits), scale),
            None => self.div(other),
        }
    }

    /// The remainder of a division; `None` for a division by zero.
    #[must_use]
    pub fn rem(&self, other: &Decimal) -> Option<Decimal> {
        let (a, b, scale) = self.aligned(other);
        (b != 0).then(|| Decimal { digits: a % b, scale })
    }

    /// The negated number.
    #[must_use]
    pub fn neg(&self) -> Decimal {
        Decimal { digits: -self.digits, scale: self.scale }
    }

    /// The scale, then the digits as 32 little-endian bytes.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; 33] {
        let mut bytes = [0; 33];
        bytes[0] = self.scale;
        bytes[1..].copy_from_slice(&self.digits.to_le_bytes());
        bytes
    }

    /// Reads the bytes of [`Decimal::to_bytes`].
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Decimal> {
        let scale = *bytes.first()?;
        let digits = I256::from_le_bytes(*bytes.get(1..)?.first_chunk::<32>()?);
        (scale <= SCALE_MAX).then_some(Decimal { digits, scale })
    }

    /// Bytes whose order is that of the numbers, for numbers of one scale.
    #[must_use]
    pub fn to_ordered_bytes(&self) -> [u8; 32] {
        let mut bytes = self.digits.to_be_bytes();
        bytes[0] ^= 0x80;
        bytes
    }

    /// Reads the bytes of [`Decimal::to_ordered_bytes`] for a number of this scale.
    #[must_use]
    pub fn from_ordered_bytes(bytes: &[u8; 32], scale: u8) -> Decimal {
        let mut bytes = *bytes;
        bytes[0] ^= 0x80;
        Decimal { digits: I256::from_be_bytes(bytes), scale: scale.min(SCALE_MAX) }
    }
}

impl PartialEq for Decimal {
    fn eq(&self, other: &Decimal) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Decimal {}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Decimal) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Decimal) -> Ordering {
        let (a, b, _) = self.aligned(other);
        a.cmp(&b)
    }
}

impl From<i64> for Decimal {
    fn from(number: i64) -> Decimal {
        Decimal::new(number.into(), 0)
    }
}

impl From<u64> for Decimal {
    fn from(number: u64) -> Decimal {
        Decimal::new(number.into(), 0)
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.digits.unsigned_abs().to_string();
        let sign = if self.is_negative() { "-" } else { "" };
        let scale = usize::from(self.scale);
        if scale == 0 {
            return write!(f, "{sign}{digits}");
        }
        let digits = format!("{digits:0>width$}", width = scale + 1);
        let (whole, part) = digits.split_at(digits.len() - scale);
        write!(f, "{sign}{whole}.{part}")
    }
}
