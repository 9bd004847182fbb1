//! Statements about accounts: CREATE, ALTER and DROP USER, SET PASSWORD, GRANT and REVOKE.
//!
//! # Guarantees
//!
//! - **ACCOUNT-1 (system accounts).** Only an account that holds SYSTEM_USER may alter or drop an
//!   account that holds SYSTEM_USER, grant to it, revoke from it, or kill its sessions. The
//!   privilege CREATE USER alone is not enough for that. `root` holds SYSTEM_USER.
//! - **ACCOUNT-2 (the last one).** No statement drops the last account that holds SYSTEM_USER,
//!   CREATE USER and GRANT OPTION on everything, and none revokes one of these privileges from that
//!   account.
//! - **ACCOUNT-3 (the owner).** A process that opens a data folder itself acts with the rights of
//!   the files' owner. It may do everything, whatever the accounts in the catalog may do.
//! - **ACCOUNT-4 (one account, one life).** A session belongs to the account with which it began.
//!   If another account of the same name is created later, the session has none of the later
//!   account's rights.
//! - **ACCOUNT-5 (keys).** Two accounts never have the same key in the catalog, whatever characters
//!   their names contain.

mod options;
mod words;

use std::collections::BTreeMap;

use sqlparser::tokenizer::Token;

use super::account_limits::Forget;
use super::grants;
use crate::catalog::{
    ALL, Catalog, Change, GRANT_OPTION, UserDef, stored_from_text, stored_password,
};
use crate::errors::{Result, SqlError};
use crate::names;
use crate::parser::word;
use options::Options;
use words::Words;

pub(crate) use options::create_user;

/// The account that runs a statement, and the session's current database.
pub(crate) struct Asker<'a> {
    pub(crate) user: &'a UserDef,
    pub(crate) database: Option<&'a str>,
}

/// A statement about accounts while it is parsed and run.
struct Accounts<'a> {
    words: Words,
    change: &'a Change<'a>,
    catalog: &'a Catalog,
    asker: &'a Asker<'a>,
    /// The accounts that the statement has changed so far; `None` for dropped ones.
    changed: BTreeMap<(String, String), Option<UserDef>>,
    /// The counts to reset once the statement has committed.
    forget: Vec<Forget>,
}

/// What other users see of a statement that may contain a password: the text before the password.
/// `None` for any other statement.
pub(crate) fn shown(tokens: &[Token]) -> Option<String> {
    if word(tokens.first()) == "prepare" {
        return shown_prepared(tokens);
    }
    let secret = |token: &Token| ["identified", "password"].contains(&word(Some(token)).as_str());
    let account = ["create", "alter", "set", "grant"].contains(&word(tokens.first()).as_str());
    let at = tokens.iter().position(secret).filter(|_| account)?;
    let start: String = tokens[..=at].iter().map(ToString::to_string).collect();
    Some(format!("{start} <secret>"))
}

/// As [`shown`], for the text of a PREPARE.
fn shown_prepared(tokens: &[Token]) -> Option<String> {
    let secret = |text: &str| {
        let text = text.to_ascii_lowercase();
        text.contains("identified") || text.contains("password")
    };
    let at = tokens.iter().position(|token| match token {
        Token::SingleQuotedString(text) | Token::DoubleQuotedString(text) => secret(text),
        _ => false,
    })?;
    let start: String = tokens[..at].iter().map(ToString::to_string).collect();
    Some(format!("{start}<secret>"))
}

fn failed(what: &str, name: &str, host: &str) -> SqlError {
    SqlError::new(1396, format!("Operation {what} failed for '{name}'@'{host}'"))
}

/// Checks the user's privileges, and runs a statement about accounts. Returns the counts to reset
/// once the statement has committed.
pub(crate) fn execute(
    change: &Change<'_>,
    catalog: &Catalog,
    tokens: &[Token],
    asker: &Asker<'_>,
) -> Result<Vec<Forget>> {
    let words = Words { tokens: crate::parser::solid(tokens), at: 0 };
    let (changed, forget) = (BTreeMap::new(), Vec::new());
    let mut accounts = Accounts { words, change, catalog, asker, changed, forget };
    let verb = accounts.words.word();
    let or_replace = accounts.words.eat("or") && accounts.words.eat("replace");
    if or_replace {
        return Err(SqlError::unsupported("CREATE OR REPLACE USER"));
    }
    match verb.as_str() {
        "create" | "alter" if accounts.words.eat("user") => accounts.define(verb == "create")?,
        "drop" if accounts.words.eat("user") => accounts.drop()?,
        "grant" => accounts.grant(true)?,
        "revoke" => accounts.grant(false)?,
        "set" if accounts.words.eat("password") => accounts.set_password()?,
        _ => return Err(SqlError::unsupported(verb.to_ascii_uppercase())),
    }
    accounts.words.end()?;
    accounts.keep_one(&verb)?;
    Ok(accounts.forget)
}

/// The account that tokens name; `own` for CURRENT_USER.
pub(crate) fn named(tokens: &[Token], own: &(String, String)) -> Result<(String, String)> {
    let mut words = Words { tokens: crate::parser::solid(tokens), at: 0 };
    let account = if words.own()? { own.clone() } else { words.account()? };
    words.end()?;
    Ok(account)
}

impl Accounts<'_> {
    fn may_define(&self) -> Result<()> {
        if self.asker.user.may_everywhere("CREATE USER") {
            return Ok(());
        }
        Err(grants::missing(&["CREATE USER"]))
    }

    fn is_asker(&self, name: &str, host: &str) -> bool {
        self.asker.user.name == name && self.asker.user.host == host
    }

    fn account(&mut self) -> Result<(String, String)> {
        if self.words.own()? {
            return Ok((self.asker.user.name.clone(), self.asker.user.host.clone()));
        }
        let (name, host) = self.words.account()?;
        if self.known(&name, &host).is_none() {
            names::check_account(&name, &host)?;
        }
        Ok((name, host))
    }

    fn known(&self, name: &str, host: &str) -> Option<UserDef> {
        let account = (name.to_owned(), host.to_owned());
        match self.changed.get(&account) {
            Some(changed) => changed.clone(),
            None => self.catalog.users.get(&account).cloned(),
        }
    }

    /// Fails if the account to be changed holds SYSTEM_USER and the user does not (ACCOUNT-1).
    fn may_touch(&self, user: &UserDef) -> Result<()> {
        let held = |user: &UserDef| user.may_everywhere(grants::SYSTEM_USER);
        if held(user) && !held(self.asker.user) {
            return Err(grants::missing(&[grants::SYSTEM_USER]));
        }
        Ok(())
    }

    fn put(&mut self, user: UserDef) -> Result<()> {
        self.change.put_user(&user)?;
        self.changed.insert((user.name.clone(), user.host.clone()), Some(user));
        Ok(())
    }

    fn delete(&mut self, user: &UserDef) -> Result<()> {
        self.change.delete_user(user)?;
        self.forget.extend([Forget::Hour(user.id), Forget::Failures(user.id)]);
        self.changed.insert((user.name.clone(), user.host.clone()), None);
        Ok(())
    }

    /// Fails if no account is left that can administrate all accounts (ACCOUNT-2).
    fn keep_one(&self, verb: &str) -> Result<()> {
        let mut before = self.catalog.users.values().filter(|user| user.administrates());
        let others = before
            .clone()
            .any(|user| !self.changed.contains_key(&(user.name.clone(), user.host.clone())));
        let made = self.changed.values().flatten().any(UserDef::administrates);
        let Some(last) = before.next_back().filter(|_| !others && !made) else { return Ok(()) };
        let text = format!(
            "Operation {} failed for '{}'@'{}': it is the last account with SYSTEM_USER, CREATE USER and GRANT OPTION",
            verb.to_ascii_uppercase(),
            last.name,
            last.host
        );
        Err(SqlError::new(1396, text))
    }

    /// CREATE USER and ALTER USER.
    fn define(&mut self, create: bool) -> Result<()> {
        let lenient = self.words.eat("if") && {
            let not = self.words.eat("not");
            if !self.words.eat("exists") || not != create {
                return Err(self.words.near());
            }
            true
        };
        let what = if create { "CREATE USER" } else { "ALTER USER" };
        let mut defined = Vec::new();
        loop {
            let (name, host) = self.account()?;
            if create || !self.is_asker(&name, &host) {
                self.may_define()?;
            }
            let known = self.known(&name, &host);
            let skip = known.is_some() == create;
            if skip && !lenient {
                return Err(failed(what, &name, &host));
            }
            let mut user = match known {
                Some(user) => {
                    self.may_touch(&user)?;
                    user
                }
                None => self.new_account(name, host)?,
            };
            self.identified(&mut user)?;
            if !skip {
                self.put(user.clone())?;
                defined.push((user.name, user.host));
            }
            if !self.words.take(&Token::Comma) {
                break;
            }
        }
        let options = Options::read(&mut self.words, what)?;
        self.with_options(&defined, &options)
    }

    /// Applies options to accounts. Without further rights, users may change their own password but
    /// not their own limits.
    fn with_options(&mut self, accounts: &[(String, String)], options: &Options) -> Result<()> {
        if !options.any() {
            return Ok(());
        }
        self.may_define()?;
        for (name, host) in accounts {
            let Some(mut user) = self.known(name, host) else { continue };
            self.forget.extend(options.apply(&mut user));
            self.put(user)?;
        }
        Ok(())
    }

    fn new_account(&self, name: String, host: String) -> Result<UserDef> {
        Ok(UserDef::new(self.change.next_account_id()?, name, host))
    }

    /// `IDENTIFIED [WITH plugin] [BY 'password' | AS 'hash']`.
    fn identified(&mut self, user: &mut UserDef) -> Result<()> {
        if !self.words.eat("identified") {
            return Ok(());
        }
        let with = self.words.eat("with");
        if with {
            user.plugin = self.words.text()?.to_ascii_lowercase();
            // What another plugin stored for a password does not serve this one.
            user.stored = stored_password(&user.plugin, "")?;
        }
        if self.words.eat("by") {
            if self.words.peek("password") || self.words.peek("random") {
                return Err(SqlError::unsupported("IDENTIFIED BY PASSWORD"));
            }
            user.stored = stored_password(&user.plugin, &self.words.text()?)?;
            return Ok(());
        }
        if with && self.words.eat("as") {
            user.stored = stored_from_text(&user.plugin, &self.words.bytes()?)?;
            return Ok(());
        }
        if with { Ok(()) } else { Err(self.words.near()) }
    }

    fn drop(&mut self) -> Result<()> {
        self.may_define()?;
        let if_exists = self.words.eat("if") && self.words.eat("exists");
        loop {
            let (name, host) = self.account()?;
            match self.known(&name, &host) {
                Some(user) => {
                    self.may_touch(&user)?;
                    self.delete(&user)?;
                }
                None if if_exists => {}
                None => return Err(failed("DROP USER", &name, &host)),
            }
            if !self.words.take(&Token::Comma) {
                return Ok(());
            }
        }
    }

    fn set_password(&mut self) -> Result<()> {
        let (name, host) = if self.words.eat("for") {
            self.account()?
        } else {
            (self.asker.user.name.clone(), self.asker.user.host.clone())
        };
        if !self.is_asker(&name, &host) {
            self.may_define()?;
        }
        if !self.words.take(&Token::Eq) {
            return Err(self.words.near());
        }
        let call = self.words.eat("password") && self.words.take(&Token::LParen);
        let password = self.words.text()?;
        if call && !self.words.take(&Token::RParen) {
            return Err(self.words.near());
        }
        let user = self.known(&name, &host);
        let mut user = user.ok_or_else(|| failed("SET PASSWORD", &name, &host))?;
        self.may_touch(&user)?;
        user.stored = stored_password(&user.plugin, &password)?;
        self.put(user)
    }

    /// Parses the names of privileges, up to ON or FROM.
    fn right_names(&mut self) -> Result<Vec<String>> {
        let (mut names, mut name) = (Vec::new(), String::new());
        loop {
            let token = self.words.tokens.get(self.words.at).cloned();
            match token {
                None => return Err(self.words.near()),
                Some(token) if ["on", "from", "to"].contains(&word(Some(&token)).as_str()) => {
                    names.push(name);
                    return Ok(names);
                }
                Some(Token::Comma) => names.push(std::mem::take(&mut name)),
                Some(Token::LParen) => return Err(SqlError::unsupported("GRANT on columns")),
                Some(token @ Token::Word(_)) => {
                    name = format!("{name} {token}").trim().to_ascii_uppercase();
                }
                Some(_) => return Err(self.words.near()),
            }
            self.words.at += 1;
        }
    }

    /// Parses `*.*`, `db.*` or `*`, which means the current database.
    fn scope(&mut self) -> Result<String> {
        if self.words.peek("function") || self.words.peek("procedure") {
            return Err(SqlError::unsupported("GRANT on routines"));
        }
        self.words.eat("table");
        let scope = if self.words.take(&Token::Mul) {
            if !self.words.take(&Token::Period) {
                let current = self.asker.database;
                let current = current.ok_or_else(|| SqlError::new(1046, "No database selected"))?;
                return Ok(current.to_owned());
            }
            "*".to_owned()
        } else {
            let name = self.words.text()?;
            names::check_length(&name)?;
            if !self.words.take(&Token::Period) {
                return Err(SqlError::unsupported("GRANT on a single table"));
            }
            name
        };
        if self.words.take(&Token::Mul) {
            return Ok(scope);
        }
        if scope == "*" {
            Err(self.words.near())
        } else {
            Err(SqlError::unsupported("GRANT on a single table"))
        }
    }

    /// GRANT and REVOKE.
    fn grant(&mut self, grant: bool) -> Result<()> {
        let names = self.right_names()?;
        if !self.words.eat("on") {
            let all = names.iter().map(String::as_str).collect::<Vec<_>>();
            let everything = matches!(all.as_slice(), ["ALL" | "ALL PRIVILEGES", GRANT_OPTION]);
            if grant || !everything {
                return Err(SqlError::unsupported(if grant {
                    "GRANT of roles"
                } else {
                    "REVOKE of roles"
                }));
            }
            return self.revoke_everything();
        }
        let scope = self.scope()?;
        let mut rights = Vec::new();
        for name in &names {
            rights.extend(grants::right(name, &scope)?);
        }
        if !self.words.eat(if grant { "to" } else { "from" }) {
            return Err(self.words.near());
        }
        let accounts = self.account_list()?;
        let mut options = Options::default();
        if grant && self.words.eat("with") {
            let start = self.words.at;
            loop {
                if self.words.eat("grant") {
                    if !self.words.eat("option") {
                        return Err(self.words.near());
                    }
                    rights.push(GRANT_OPTION);
                } else if !options.limit(&mut self.words)? {
                    break;
                }
            }
            if self.words.at == start {
                let token = self.words.near_text();
                return Err(SqlError::unsupported(format!("GRANT ... WITH {token}")));
            }
        }
        self.may_give(&scope, &rights)?;
        for (name, host) in accounts.clone() {
            let mut user = self.known(&name, &host).ok_or_else(|| {
                let text =
                    format!("You are not allowed to create a user with GRANT: '{name}'@'{host}'");
                SqlError::new(1410, text)
            })?;
            self.may_touch(&user)?;
            if grant {
                user.give(&scope, &rights);
            } else if !user.take(&scope, &rights) {
                return Err(SqlError::new(
                    1141,
                    format!("There is no such grant defined for user '{name}' on host '{host}'"),
                ));
            }
            self.put(user)?;
        }
        self.with_options(&accounts, &options)
    }

    /// `REVOKE ALL PRIVILEGES, GRANT OPTION FROM u`.
    fn revoke_everything(&mut self) -> Result<()> {
        if !self.words.eat("from") {
            return Err(self.words.near());
        }
        self.may_define()?;
        self.may_give("*", &[ALL])?;
        for (name, host) in self.account_list()? {
            let user = self.known(&name, &host);
            let mut user = user.ok_or_else(|| failed("REVOKE", &name, &host))?;
            self.may_touch(&user)?;
            user.grants.clear();
            self.put(user)?;
        }
        Ok(())
    }

    fn account_list(&mut self) -> Result<Vec<(String, String)>> {
        let mut accounts = vec![self.account()?];
        while self.words.take(&Token::Comma) {
            accounts.push(self.account()?);
        }
        Ok(accounts)
    }

    /// Fails unless the user of a GRANT or REVOKE holds these privileges and the GRANT OPTION.
    fn may_give(&self, scope: &str, rights: &[&str]) -> Result<()> {
        let user = self.asker.user;
        let holds = |right: &str| match (scope, right) {
            ("*", right) => user.may_everywhere(right),
            // A user holds a privilege for a pattern if it is granted for this very pattern or for
            // all databases.
            (scope, right) if scope.contains(['%', '_']) && !user.grants.contains_key(scope) => {
                user.may_everywhere(right)
            }
            (scope, right) => user.may(right, scope),
        };
        let all = !rights.contains(&ALL) || holds(ALL);
        if holds(GRANT_OPTION) && all && rights.iter().all(|right| holds(right)) {
            return Ok(());
        }
        if scope == "*" {
            return Err(grants::missing(&[GRANT_OPTION]));
        }
        Err(grants::no_database(user, scope))
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_password_is_not_shown() {
        let shown = |sql: &str| {
            let budget = spillway::Budget::new(usize::MAX);
            let mut memory = crate::parser::TextMemory::of(sql, &budget);
            let mode = crate::parser::TextMode::default();
            let tokens = crate::parser::split(sql, mode, &mut memory).unwrap().remove(0);
            super::shown(&tokens)
        };
        for sql in [
            "SET PASSWORD = 'hidden'",
            "SET PASSWORD FOR root = 'hidden'",
            "CREATE USER u IDENTIFIED BY 'hidden'",
            "ALTER USER u IDENTIFIED WITH x BY 'hidden'",
        ] {
            let shown = shown(sql).unwrap();
            assert!(shown.ends_with(" <secret>") && !shown.contains("hidden"), "{shown}");
        }
        let prepared = shown("PREPARE s FROM 'ALTER USER u IDENTIFIED BY \"hidden\"'").unwrap();
        assert_eq!(prepared, "PREPARE s FROM <secret>");
        assert_eq!(shown("PREPARE s FROM 'SELECT 1'"), None);
        assert_eq!(shown("SET autocommit = 0"), None);
        assert_eq!(shown("SELECT password FROM t"), None);
    }
}
