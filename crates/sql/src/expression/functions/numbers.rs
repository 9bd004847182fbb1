//! Functions of numbers.

use spillway_types::convert::{integer, to_decimal, to_i128};
use spillway_types::{Collation, Decimal, Value};

use super::scalar::Scalar;
use crate::errors::{Result, SqlError};
use crate::expression::arithmetic::arithmetic;
use crate::expression::context::Context;
use crate::expression::operands::{bits_of_value, number, whole};
use crate::expression::random::RandSequence;
use crate::expression::{Expr, Op};

fn finite(call: Scalar, args: &[Value], number: f64) -> Result<Value> {
    if number.is_finite() {
        return Ok(Value::Double(number));
    }
    let args: Vec<String> = args.iter().map(Value::to_text).collect();
    Err(SqlError::out_of_range("DOUBLE", &format!("{}({})", call.name(), args.join(","))))
}

/// The nearest integer as a value of SQL: a decimal if 64 bits are too few for it.
fn integral(number: Decimal) -> Value {
    match number.to_i128() {
        Some(whole) if i64::try_from(whole).is_ok() || u64::try_from(whole).is_ok() => {
            integer(whole)
        }
        _ => Value::Decimal(number),
    }
}

fn ceil_or_floor(value: &Value, up: bool) -> Value {
    match value {
        Value::Int(_) | Value::UInt(_) => value.clone(),
        Value::Decimal(number) => {
            let cut = number.truncate(0);
            if cut == *number || number.is_negative() == up {
                return integral(cut);
            }
            let one = Decimal::from(if up { 1_i64 } else { -1 });
            integral(cut.add(&one).unwrap_or(cut))
        }
        other => {
            let x = number(other);
            Value::Double(if up { x.ceil() } else { x.floor() })
        }
    }
}

fn round_integer(value: i128, digits: i64, truncate: bool) -> i128 {
    if digits >= 0 {
        return value;
    }
    let Some(unit) = u32::try_from(-digits).ok().and_then(|power| 10_i128.checked_pow(power))
    else {
        return 0;
    };
    let (cut, rest) = (value / unit * unit, value % unit);
    if !truncate && rest.abs() * 2 >= unit { cut + unit * value.signum() } else { cut }
}

fn round_double(value: f64, digits: i64, truncate: bool) -> f64 {
    let factor = 10f64.powi(digits.unsigned_abs().min(400) as i32);
    let cut = |x: f64| if truncate { x.trunc() } else { x.round_ties_even() };
    if digits >= 0 {
        let scaled = value * factor;
        if !scaled.is_finite() { value } else { cut(scaled) / factor }
    } else if factor.is_infinite() {
        0.0
    } else {
        cut(value / factor) * factor
    }
}

fn round_decimal(number: &Decimal, digits: i64, truncate: bool) -> Value {
    if digits >= 0 {
        let scale = digits.min(30) as u8;
        let cut = if truncate { number.truncate(scale) } else { *number };
        return Value::Decimal(cut.round(scale));
    }
    let Some(unit) = u32::try_from(-digits).ok().filter(|power| *power <= 38) else {
        return Value::Decimal(Decimal::ZERO);
    };
    let unit = Decimal::new(10_i128.pow(unit), 0);
    let rest = number.rem(&unit).unwrap_or(Decimal::ZERO);
    let cut = number.sub(&rest).unwrap_or(Decimal::ZERO).truncate(0);
    let size = if rest.is_negative() { rest.neg() } else { rest };
    let twice = size.add(&size).unwrap_or(Decimal::ZERO);
    let away = if number.is_negative() { unit.neg() } else { unit };
    Value::Decimal(if !truncate && twice >= unit { cut.add(&away).unwrap_or(cut) } else { cut })
}

fn round_to(value: &Value, digits: i64, truncate: bool) -> Result<Value> {
    match value {
        Value::Int(_) | Value::UInt(_) => {
            let rounded = round_integer(to_i128(&value.as_ref()).unwrap_or(0), digits, truncate);
            let unsigned = matches!(value, Value::UInt(_));
            let made = if unsigned {
                u64::try_from(rounded).ok().map(Value::UInt)
            } else {
                i64::try_from(rounded).ok().map(Value::Int)
            };
            made.ok_or_else(|| {
                let kind = if unsigned { "BIGINT UNSIGNED" } else { "BIGINT" };
                SqlError::out_of_range(kind, &format!("round({},{digits})", value.to_text()))
            })
        }
        Value::Decimal(number) => Ok(round_decimal(number, digits, truncate)),
        other => Ok(Value::Double(round_double(number(other), digits, truncate))),
    }
}

fn logarithm(context: &Context<'_>, call: Scalar, arg: &Value) -> Result<Value> {
    let x = number(arg);
    if x <= 0.0 {
        return no_logarithm(context);
    }
    Ok(Value::Double(match call {
        Scalar::Log2 => x.log2(),
        Scalar::Log10 => x.log10(),
        _ => x.ln(),
    }))
}

fn no_logarithm(context: &Context<'_>) -> Result<Value> {
    context.raise(SqlError::new(3020, "Invalid argument for logarithm"))?;
    Ok(Value::Null)
}

/// LOG of a base and a number. If the base is NULL, zero or negative, the result is NULL, and the
/// number is not evaluated.
pub(super) fn log_of_base(context: &Context<'_>, exprs: &[Expr], row: &[Value]) -> Result<Value> {
    let evaluate = |expr: &Expr| -> Result<Option<f64>> {
        let value = context.value(expr, row)?;
        context.as_number(&value, "DOUBLE")?;
        Ok((!value.is_null()).then(|| number(&value)))
    };
    let Some(base) = evaluate(&exprs[0])? else { return Ok(Value::Null) };
    if base <= 0.0 {
        return no_logarithm(context);
    }
    let Some(x) = evaluate(&exprs[1])? else { return Ok(Value::Null) };
    if x <= 0.0 || base == 1.0 {
        return no_logarithm(context);
    }
    Ok(Value::Double(x.ln() / base.ln()))
}

/// INTERVAL: how many bounds, from the first on, are at most `x`. A NULL bound is. Exact numbers
/// are compared exactly.
pub(super) fn interval(x: &Value, bounds: &[Value]) -> Value {
    let exact = match x {
        Value::Int(_) | Value::UInt(_) | Value::Decimal(_) => to_decimal(&x.as_ref()),
        _ => None,
    };
    let passed = |bound: &&Value| match (exact, to_decimal(&bound.as_ref())) {
        _ if bound.is_null() => true,
        (Some(x), Some(bound)) => bound <= x,
        _ => number(bound) <= number(x),
    };
    Value::Int(bounds.iter().take_while(passed).count() as i64)
}

/// RAND(N). If N is constant, each call in a statement's text begins one sequence, which goes on
/// from row to row. NULL counts as 0.
pub(super) fn rand_of_seed(context: &Context<'_>, exprs: &[Expr], row: &[Value]) -> Result<Value> {
    let seeded = || -> Result<RandSequence> {
        let seed = context.value(&exprs[0], row)?;
        context.as_number(&seed, "DOUBLE")?;
        Ok(RandSequence::new(if seed.is_null() { 0 } else { whole(&seed) }))
    };
    if !exprs[0].is_constant() {
        return Ok(Value::Double(seeded()?.next()));
    }
    let call = exprs.as_ptr() as usize;
    let known = context.random.borrow().get(&call).copied();
    let mut sequence = known.map_or_else(seeded, Ok)?;
    let number = sequence.next();
    context.random.borrow_mut().insert(call, sequence);
    Ok(Value::Double(number))
}

fn absolute(value: &Value) -> Result<Value> {
    Ok(match value {
        Value::Int(number) => Value::Int(
            number
                .checked_abs()
                .ok_or_else(|| SqlError::out_of_range("BIGINT", &format!("abs({number})")))?,
        ),
        Value::UInt(_) => value.clone(),
        Value::Decimal(number) => {
            Value::Decimal(if number.is_negative() { number.neg() } else { *number })
        }
        other => Value::Double(number(other).abs()),
    })
}

pub(super) fn number_function(
    context: &Context<'_>,
    call: Scalar,
    args: &[Value],
    collation: Collation,
) -> Result<Option<Value>> {
    use Scalar as S;
    let x = || number(&args[0]);
    let double = |number: f64| finite(call, args, number);
    let within = |is: bool, number: f64| if is { Value::Double(number) } else { Value::Null };
    Ok(Some(match call {
        S::Abs => absolute(&args[0])?,
        S::Ceil | S::Ceiling => ceil_or_floor(&args[0], true),
        S::Floor => ceil_or_floor(&args[0], false),
        S::Round => round_to(&args[0], args.get(1).map_or(0, whole), false)?,
        S::Truncate => round_to(&args[0], whole(&args[1]), true)?,
        S::Sign => {
            let x = x();
            Value::Int(if x > 0.0 { 1 } else { -i64::from(x < 0.0) })
        }
        S::Sqrt => within(x() >= 0.0, x().sqrt()),
        S::Pow | S::Power => double(x().powf(number(&args[1])))?,
        S::Exp => double(x().exp())?,
        S::Ln | S::Log | S::Log2 | S::Log10 => logarithm(context, call, &args[0])?,
        S::Sin => Value::Double(x().sin()),
        S::Cos => Value::Double(x().cos()),
        S::Tan => double(x().tan())?,
        S::Cot => double(1.0 / x().tan())?,
        S::Atan | S::Atan2 => {
            Value::Double(args.get(1).map_or_else(|| x().atan(), |other| x().atan2(number(other))))
        }
        S::Asin => within(x().abs() <= 1.0, x().asin()),
        S::Acos => within(x().abs() <= 1.0, x().acos()),
        S::Degrees => double(x() * (180.0 / std::f64::consts::PI))?,
        S::Radians => double(x() * (std::f64::consts::PI / 180.0))?,
        S::Pi => Value::Double(std::f64::consts::PI),
        S::Rand => {
            let seed = spillway_base::clock::now().as_nanos() as u64;
            Value::Double(spillway_base::rng::Rng::new(seed).unit())
        }
        S::Mod => arithmetic(context, Op::Mod, &args[0], &args[1])?,
        S::BitCount => Value::Int(i64::from(bits_of_value(&args[0]).count_ones())),
        S::Greatest | S::Least => {
            let mut best = &args[0];
            for arg in &args[1..] {
                let order = context.compare(arg, best, collation)?;
                let better = if call == S::Greatest {
                    std::cmp::Ordering::Greater
                } else {
                    std::cmp::Ordering::Less
                };
                if order == Some(better) {
                    best = arg;
                }
            }
            best.clone()
        }
        _ => return Ok(None),
    }))
}
