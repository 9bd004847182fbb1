//! Functions of user-level locks, such as GET_LOCK.

use std::time::Duration;

use spillway_types::Value;

use super::scalar::Scalar;
use crate::errors::{Result, SqlError};
use crate::expression::context::Context;
use crate::expression::operands::{bytes_of, whole};
use crate::variables::UserLockWaitLimits;

/// The longest name of a lock, in characters.
const NAME_MAX: usize = 64;

pub(super) fn lock_function(
    context: &Context<'_>,
    call: Scalar,
    args: &[Value],
) -> Result<Option<Value>> {
    use Scalar as S;
    if !matches!(
        call,
        S::GetLock | S::ReleaseLock | S::ReleaseAllLocks | S::IsFreeLock | S::IsUsedLock
    ) {
        return Ok(None);
    }
    let name = args.first().map(name_of).transpose()?.unwrap_or_default();
    let variables = context.variables.borrow();
    let locks = &variables.locks;
    Ok(Some(match call {
        S::GetLock => {
            // Without a timeout, GET_LOCK does not wait.
            let seconds = args.get(1).filter(|arg| !arg.is_null());
            if let Some(arg) = seconds {
                context.as_number(arg, "INTEGER")?;
            }
            let wait = u64::try_from(seconds.map_or(0, whole)).ok().map(Duration::from_secs);
            Value::from(
                locks.acquire(&name, &UserLockWaitLimits { wait, deadline: context.deadline })?,
            )
        }
        S::ReleaseLock => locks.release(&name).map_or(Value::Null, Value::from),
        S::ReleaseAllLocks => Value::UInt(locks.release_all()),
        S::IsFreeLock => Value::from(locks.holder(&name).is_none()),
        _ => locks.holder(&name).map_or(Value::Null, Value::UInt),
    }))
}

/// The name of a lock, in lower case: names ignore case.
fn name_of(value: &Value) -> Result<String> {
    let wrong = |shown: &str| {
        let shown: String = shown.chars().take(192).collect();
        SqlError::quoting(3057, "Incorrect user-level lock name '", &shown, "'.")
    };
    if value.is_null() {
        return Err(wrong("NULL"));
    }
    let name = String::from_utf8(bytes_of(value))
        .map_err(|error| wrong(&String::from_utf8_lossy(error.as_bytes())))?;
    if name.is_empty() || name.chars().count() > NAME_MAX {
        return Err(wrong(&name));
    }
    Ok(name.to_lowercase())
}
