//! Rights: their list, the accounts that hold them, and how they are granted and revoked.
//!
//! A user holds rights everywhere (`*`) or in databases, whose names may be patterns of LIKE, as in
//! MySQL. `ALL` stands for every right of its scope, including rights that later versions add. To
//! revoke one of these rights replaces `ALL` by a list of all others.

use std::borrow::Cow;
use std::sync::LazyLock;

use spillway_types::Collation;

use crate::catalog::{ALL, Catalog, GRANT_OPTION, SYSTEM, UserDef, everything};
use crate::errors::SqlError;

/// Rights that can be held in a database or everywhere.
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

/// Rights that can be held everywhere only.
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

/// Only accounts that have it can change, drop and kill an account that has it (ACCOUNT-1).
pub(crate) const SYSTEM_USER: &str = "SYSTEM_USER";

/// The right of this name, as it is kept; USAGE is none at all.
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

/// The rights that ALL stands for in a scope.
fn all_of(scope: &str) -> impl Iterator<Item = &'static str> {
    let more = if scope == "*" { EVERYWHERE } else { &[] };
    IN_DATABASES.iter().chain(more).copied()
}

/// 1044: nothing at all may be done there.
#[cold]
pub(crate) fn no_database(user: &UserDef, database: &str) -> SqlError {
    SqlError::new(
        1044,
        format!("Access denied for user '{}'@'{}' to database '{database}'", user.name, user.host),
    )
}

/// 1227: one of some rights is needed everywhere.
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

/// A name between backticks.
pub(crate) fn quote(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// The owner of a data folder, who opens it without a server: it may do everything, whatever
/// accounts there are (ACCOUNT-3).
pub(crate) fn owner() -> &'static UserDef {
    static OWNER: LazyLock<UserDef> =
        LazyLock::new(|| UserDef { grants: everything(), ..UserDef::new(0, "root", "%") });
    &OWNER
}

impl UserDef {
    /// Whether it can put all accounts right: change any of them, and give any right.
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

    /// Whether it may do this in a database.
    pub(crate) fn may(&self, right: &str, database: &str) -> bool {
        let all = right != GRANT_OPTION;
        self.scopes(database)
            .any(|rights| rights.iter().any(|have| (all && have == ALL) || have == right))
    }

    /// Whether it may do this everywhere.
    pub(crate) fn may_everywhere(&self, right: &str) -> bool {
        let all = right != GRANT_OPTION;
        let rights = self.grants.get("*");
        rights.is_some_and(|rights| rights.iter().any(|have| (all && have == ALL) || have == right))
    }

    /// Whether it may do anything in a database.
    pub(crate) fn sees(&self, database: &str) -> bool {
        self.scopes(database).any(|rights| {
            rights.iter().any(|have| {
                have == ALL || have == GRANT_OPTION || IN_DATABASES.contains(&have.as_str())
            })
        }) || SYSTEM.contains(&database.to_ascii_lowercase().as_str())
    }

    /// Gives it rights of a scope.
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

    /// Takes rights of a scope from it; `false` where it holds nothing of that scope.
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
    /// What a user may know of: the databases it has any right in, their tables, and itself.
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
