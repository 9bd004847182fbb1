//! Functions of numbers.

use spillway_types::convert::{integer, to_decimal, to_i128};
use spillway_types::{Collation, Decimal, Value};

use super::Scalar;
use crate::expr::compare;
use crate::expr::eval::{number, whole};

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

pub(super) fn number_function(call: Scalar, args: &[Value]) -> Option<Value> {
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
