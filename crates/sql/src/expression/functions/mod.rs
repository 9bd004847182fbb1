//! The evaluation of scalar functions.

mod calendar;
mod digests;
mod format;
mod json;
mod locks;
mod numbers;
mod patterns;
mod scalar;
mod scratch;
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
use super::context::Context;
use super::operands::{number, whole};
use super::value_memory::length;
use crate::errors::Result;
use json::{fragment, json_of};
use locks::lock_function;
use numbers::{log_of_base, number_function};
use strings::text_function;
use times::date_function;

pub(crate) use json::is_document;
pub(in crate::expression) use patterns::MatchOptions;
pub(crate) use patterns::Patterns;
pub(crate) use scalar::Scalar;
pub(crate) use times::add_interval;

/// The most bytes that all arguments of one call may have.
const ARGUMENTS_MAX: usize = 128 << 20;

/// The smallest possible `max_allowed_packet`. A shorter value always fits.
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
    // The functions that do not evaluate all their arguments.
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
        S::Log if exprs.len() == 2 => return log_of_base(context, exprs, row),
        S::Rand if !exprs.is_empty() => return numbers::rand_of_seed(context, exprs, row),
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
        taken += length(&arg);
        args.push(arg);
        if taken > ARGUMENTS_MAX {
            return Ok(strings::too_long(context, call));
        }
    }
    context.hold_if_large(call.scratch(&args, taken))?;
    let value = call_with(context, call, &args, collation)?;
    let len = length(&value);
    if len > LENGTH_UNCHECKED && len > strings::length_max(context) {
        return Ok(strings::too_long(context, call));
    }
    Ok(value)
}

/// Calls a function with the values of all its arguments.
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

/// The functions that accept NULL arguments.
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
        // The first argument is compared in one form and returned in another.
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
        S::Interval => numbers::interval(&args[0], &args[1..]),
        S::Quote if args[0].is_null() => Value::from("NULL"),
        S::JsonObject | S::JsonArray => Value::Text(json_of(call, args)?),
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
                let mut variables = context.variables.borrow_mut();
                (variables.last_insert_id, variables.given_id) = (id, Some(id));
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

/// Waits. Returns whether a KILL or `max_execution_time` ended the wait.
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
