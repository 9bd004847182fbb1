//! Privileges: accounts with their limits, grants, and the privileges that statements need.

mod account_limits;
pub(crate) mod accounts;
pub(crate) mod grants;
mod needs;

pub(crate) use account_limits::{AccountUse, Connected};
pub(crate) use accounts::{Asker, create_user, named, shown};
pub(crate) use grants::{SYSTEM_USER, quote};
pub(crate) use needs::{May, Need, Needs, TO_LOCK, TablePath, tables_of};
