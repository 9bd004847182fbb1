//! Rights: their list, the accounts that hold them, and how they are granted and revoked.
//!
//! A user holds rights everywhere (`*`) or in databases. As in MySQL, a grant may name the
//! databases by a pattern of LIKE. `ALL` stands for every right of its scope, including rights that
//! later versions add. If one right is revoked from a user with `ALL`, a list of all other rights
//! replaces `ALL`.

use std::borrow::Cow;
use std::sync::LazyLock;

use spillway_types::Collation;

use crate::catalog::{ALL, Catalog, GRANT_OPTION, SYSTEM, UserDef, everything};
use crate::errors::SqlError;

/// The privileges that can be granted for a database or for all.
const IN_DATABASES: &[&str] = &[
    "ALTER",
    "ALTER ROUTINE",
    "CREATE",
    "CREATE ROUTINE",
    "CREATE TEMPORARY TABLES",
    "CREATE VIEW",
    "DELETE",
    "DROP",
    "EVENT",
    "EXECUTE",
    "INDEX",
    "INSERT",
    "LOCK TABLES",
    "REFERENCES",
    "SELECT",
    "SHOW VIEW",
    "TRIGGER",
    "UPDATE",
];

/// The privileges that can only be granted for all databases.
const EVERYWHERE: &[&str] = &[
    "BACKUP_ADMIN",
    "CONNECTION_ADMIN",
    "CREATE ROLE",
    "CREATE TABLESPACE",
    "CREATE USER",
    "DROP ROLE",
    "FILE",
    "PROCESS",
    "RELOAD",
    "REPLICATION CLIENT",
    "REPLICATION SLAVE",
    "SERVICE_CONNECTION_ADMIN",
    "SHOW DATABASES",
    "SHUTDOWN",
    "SUPER",
    SYSTEM_USER,
    "SYSTEM_VARIABLES_ADMIN",
];

/// The SYSTEM_USER privilege. Only accounts that hold it can change or drop an account that holds
/// it, or kill its sessions (ACCOUNT-1).
pub(crate) const SYSTEM_USER: &str = "SYSTEM_USER";

/// The privilege with this name, as stored; `None` for USAGE, which is no privilege.
pub(crate) fn right(name: &str, scope: &str) -> Result<Option<&'static str>, SqlError> {
    let in_databases = IN_DATABASES.iter().find(|known| **known == name);
    match name {
        "ALL" | "ALL PRIVILEGES" => Ok(Some(ALL)),
        "GRANT OPTION" => Ok(Some(GRANT_OPTION)),
        "USAGE" => Ok(None),
        "PROXY" => Err(SqlError::unsupported("GRANT PROXY")),
        _ if in_databases.is_some() => Ok(in_databases.copied()),
        _ => match EVERYWHERE.iter().find(|known| **known == name) {
            Some(_) if scope != "*" => {
                Err(SqlError::new(1221, "Incorrect usage of DB GRANT and GLOBAL PRIVILEGES"))
            }
            Some(known) => Ok(Some(known)),
            None => Err(SqlError::syntax(format!("near '{name}'"))),
        },
    }
}

/// The privileges for which ALL stands in a scope.
fn all_of(scope: &str) -> impl Iterator<Item = &'static str> {
    let more = if scope == "*" { EVERYWHERE } else { &[] };
    IN_DATABASES.iter().chain(more).copied()
}

/// 1044: the user has no privilege for the database.
#[cold]
pub(crate) fn no_database(user: &UserDef, database: &str) -> SqlError {
    SqlError::new(
        1044,
        format!("Access denied for user '{}'@'{}' to database '{database}'", user.name, user.host),
    )
}

/// 1227: one of these privileges is needed for all databases.
#[cold]
pub(crate) fn missing(rights: &[&str]) -> SqlError {
    SqlError::new(
        1227,
        format!(
            "Access denied; you need (at least one of) the {} privilege(s) for this operation",
            rights.join(", ")
        ),
    )
}

/// A name quoted with backticks.
pub(crate) fn quote(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// The owner of a data folder, who opens it without a server. The owner holds all privileges,
/// whatever accounts exist (ACCOUNT-3).
pub(crate) fn owner() -> &'static UserDef {
    static OWNER: LazyLock<UserDef> =
        LazyLock::new(|| UserDef { grants: everything(), ..UserDef::new(0, "root", "%") });
    &OWNER
}

impl UserDef {
    /// Whether the account can administrate all accounts: change any of them and grant any
    /// privilege.
    pub(crate) fn administrates(&self) -> bool {
        [SYSTEM_USER, "CREATE USER", GRANT_OPTION].iter().all(|right| self.may_everywhere(right))
    }

    fn scopes<'a>(&'a self, database: &'a str) -> impl Iterator<Item = &'a Vec<String>> {
        let fits = move |scope: &str| {
            scope == "*"
                || scope == database
                || (scope.contains(['%', '_']) && Collation::Bin.like(database, scope, Some('\\')))
        };
        self.grants.iter().filter(move |(scope, _)| fits(scope)).map(|(_, rights)| rights)
    }

    /// Whether the account has this privilege for a database.
    pub(crate) fn may(&self, right: &str, database: &str) -> bool {
        let all = right != GRANT_OPTION;
        self.scopes(database)
            .any(|rights| rights.iter().any(|have| (all && have == ALL) || have == right))
    }

    /// Whether the account has this privilege for all databases.
    pub(crate) fn may_everywhere(&self, right: &str) -> bool {
        let all = right != GRANT_OPTION;
        let rights = self.grants.get("*");
        rights.is_some_and(|rights| rights.iter().any(|have| (all && have == ALL) || have == right))
    }

    /// Whether the account has any privilege for a database.
    pub(crate) fn sees(&self, database: &str) -> bool {
        self.scopes(database).any(|rights| {
            rights.iter().any(|have| {
                have == ALL || have == GRANT_OPTION || IN_DATABASES.contains(&have.as_str())
            })
        }) || SYSTEM.contains(&database.to_ascii_lowercase().as_str())
    }

    /// Grants the account privileges of a scope.
    pub(crate) fn give(&mut self, scope: &str, rights: &[&'static str]) {
        if rights.is_empty() {
            return;
        }
        let held = self.grants.entry(scope.to_owned()).or_default();
        for right in rights {
            if *right == ALL {
                held.retain(|have| have == GRANT_OPTION);
            }
            if !held.iter().any(|have| have == right || (have == ALL && *right != GRANT_OPTION)) {
                held.push((*right).to_owned());
            }
        }
    }

    /// Revokes privileges in a scope from the account. Returns `false` if it holds none in that
    /// scope.
    pub(crate) fn take(&mut self, scope: &str, rights: &[&'static str]) -> bool {
        let Some(held) = self.grants.get_mut(scope) else { return false };
        for right in rights {
            if *right == ALL {
                held.retain(|have| have == GRANT_OPTION);
                continue;
            }
            if *right != GRANT_OPTION && held.iter().any(|have| have == ALL) {
                held.retain(|have| have != ALL);
                held.extend(all_of(scope).map(str::to_owned));
            }
            held.retain(|have| have != right);
        }
        if held.is_empty() {
            self.grants.remove(scope);
        }
        true
    }

    /// The lines of SHOW GRANTS.
    pub(crate) fn grant_lines(&self) -> Vec<String> {
        let account = format!("{}@{}", quote(&self.name), quote(&self.host));
        let mut lines = Vec::new();
        if !self.grants.contains_key("*") {
            lines.push(format!("GRANT USAGE ON *.* TO {account}"));
        }
        for (scope, rights) in &self.grants {
            let option = rights.iter().any(|right| right == GRANT_OPTION);
            let option = if option { " WITH GRANT OPTION" } else { "" };
            let mut rights: Vec<&str> = rights
                .iter()
                .filter(|right| *right != GRANT_OPTION)
                .map(|right| if right == ALL { "ALL PRIVILEGES" } else { right })
                .collect();
            rights.sort_unstable();
            let rights = if rights.is_empty() { "USAGE".to_owned() } else { rights.join(", ") };
            let scope = if scope == "*" { "*".to_owned() } else { quote(scope) };
            lines.push(format!("GRANT {rights} ON {scope}.* TO {account}{option}"));
        }
        lines
    }
}

impl Catalog {
    /// The part of the catalog that a user may see: the databases for which it has any privilege,
    /// their tables, and its own account.
    pub(crate) fn seen_by(&self, user: &UserDef) -> Cow<'_, Catalog> {
        if user.may_everywhere("SELECT") {
            return Cow::Borrowed(self);
        }
        let mut seen = self.clone();
        let all_names = user.may_everywhere("SHOW DATABASES");
        seen.databases.retain(|name, _| all_names || user.sees(name));
        seen.tables.retain(|(db, _), _| user.sees(db));
        seen.users.retain(|account, _| *account == (user.name.clone(), user.host.clone()));
        Cow::Owned(seen)
    }
}
