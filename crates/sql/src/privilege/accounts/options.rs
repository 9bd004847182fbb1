//! The options of an account in CREATE USER, ALTER USER and GRANT, apart from its name, password
//! and rights.

use sqlparser::tokenizer::Token;

use super::words::Words;
use crate::catalog::{AccountLimits, LockTime, Lockout, UserDef, stored_as_text};
use crate::errors::{Result, SqlError};
use crate::privilege::account_limits::Forget;
use crate::privilege::grants::quote;

/// The options of a statement, which apply to all accounts that it names.
#[derive(Default)]
pub(super) struct Options {
    /// The limits, in the order of [`AccountLimits::named`].
    limits: [Option<u32>; 4],
    attempts: Option<u16>,
    time: Option<LockTime>,
    locked: Option<bool>,
}

impl Options {
    /// Parses the options up to the end of the statement: `[REQUIRE NONE] [WITH limit ...]
    /// [PASSWORD ... | FAILED_LOGIN_ATTEMPTS n | PASSWORD_LOCK_TIME n | ACCOUNT LOCK | ACCOUNT
    /// UNLOCK] ...`.
    pub(super) fn read(words: &mut Words, what: &str) -> Result<Options> {
        let mut options = Options::default();
        let unsupported =
            |words: &Words| Err(SqlError::unsupported(format!("{} in {what}", words.near_text())));
        if words.eat("require") && !words.eat("none") {
            return unsupported(words);
        }
        if words.eat("with") {
            let mut any = false;
            while options.limit(words)? {
                any = true;
            }
            if !any {
                return unsupported(words);
            }
        }
        while words.at < words.tokens.len() {
            if !options.lock_option(words)? && !password_option(words)? {
                return unsupported(words);
            }
        }
        Ok(options)
    }

    /// Parses one limit, if the next words are one.
    pub(super) fn limit(&mut self, words: &mut Words) -> Result<bool> {
        let names = AccountLimits::default().named().map(|(name, _)| name);
        let Some(at) = names.iter().position(|name| words.eat(&name.to_ascii_lowercase())) else {
            return Ok(false);
        };
        let number = words.number()?;
        // As in MySQL, a number that is too large becomes the largest possible one.
        self.limits[at] = Some(u32::try_from(number).unwrap_or(u32::MAX));
        Ok(true)
    }

    fn lock_option(&mut self, words: &mut Words) -> Result<bool> {
        const MOST: u64 = 32_767;
        let bounded = |name: &str, number: u64| match number {
            0..=MOST => Ok(number as u16),
            _ => Err(SqlError::new(
                1231,
                format!("Variable '{name}' can't be set to the value of '{number}'"),
            )),
        };
        if words.eat("failed_login_attempts") {
            self.attempts = Some(bounded("FAILED_LOGIN_ATTEMPTS", words.number()?)?);
        } else if words.eat("password_lock_time") {
            self.time = Some(match words.eat("unbounded") {
                true => LockTime::Unbounded,
                false => LockTime::Days(bounded("PASSWORD_LOCK_TIME", words.number()?)?),
            });
        } else if words.eat("account") {
            self.locked = Some(words.eat("lock"));
            if self.locked == Some(false) && !words.eat("unlock") {
                return Err(words.near());
            }
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// Whether any option was given.
    pub(super) fn any(&self) -> bool {
        self.limits.iter().any(Option::is_some)
            || self.attempts.is_some()
            || self.time.is_some()
            || self.locked.is_some()
    }

    /// Applies the options to an account. Returns the account's counts to reset.
    pub(super) fn apply(&self, user: &mut UserDef) -> Vec<Forget> {
        let mut forget = Vec::new();
        for ((_, limit), asked) in user.limits.named().into_iter().zip(self.limits) {
            *limit = asked.unwrap_or(*limit);
        }
        if self.limits.iter().any(Option::is_some) {
            forget.push(Forget::Hour(user.id));
        }
        if self.attempts.is_some() || self.time.is_some() || self.locked == Some(false) {
            forget.push(Forget::Failures(user.id));
        }
        let Lockout { attempts, time } = user.lockout;
        user.lockout = Lockout {
            attempts: self.attempts.unwrap_or(attempts),
            time: self.time.unwrap_or(time),
        };
        user.locked = self.locked.unwrap_or(user.locked);
        forget
    }
}

/// Parses the options of passwords that dumps contain, if they describe what this server does
/// anyway: passwords do not expire, there is no history of passwords, and changing a password does
/// not require the current one.
fn password_option(words: &mut Words) -> Result<bool> {
    if !words.eat("password") {
        return Ok(false);
    }
    let known: [&[&str]; 6] = [
        &["expire", "default"],
        &["expire", "never"],
        &["history", "default"],
        &["reuse", "interval", "default"],
        &["require", "current", "default"],
        &["require", "current", "optional"],
    ];
    let start = words.at;
    for phrase in known {
        if phrase.iter().all(|word| words.eat(word)) {
            return Ok(true);
        }
        words.at = start;
    }
    words.at = start - 1;
    Ok(false)
}

/// The statement that creates an account, as SHOW CREATE USER shows it: without the account's
/// privileges, and without the hash of its password if that is `hidden`.
pub(crate) fn create_user(user: &UserDef, hidden: bool) -> String {
    let mut line = format!(
        "CREATE USER {}@{} IDENTIFIED WITH '{}'",
        quote(&user.name),
        quote(&user.host),
        user.plugin
    );
    if !user.stored.is_empty() {
        let stored = match hidden {
            true => "'<secret>'".to_owned(),
            false => stored_as_text(&user.plugin, &user.stored),
        };
        line += &format!(" AS {stored}");
    }
    line += " REQUIRE NONE";
    let mut limits = user.limits;
    let limits = limits.named().into_iter().filter(|(_, limit)| **limit > 0);
    for (at, (name, limit)) in limits.enumerate() {
        line += &format!("{} {name} {limit}", if at == 0 { " WITH" } else { "" });
    }
    let lock = if user.locked { "LOCK" } else { "UNLOCK" };
    line += &format!(
        " PASSWORD EXPIRE DEFAULT ACCOUNT {lock} PASSWORD HISTORY DEFAULT \
         PASSWORD REUSE INTERVAL DEFAULT PASSWORD REQUIRE CURRENT DEFAULT"
    );
    let Lockout { attempts, time } = user.lockout;
    if attempts > 0 || time != LockTime::Days(0) {
        line += &format!(" FAILED_LOGIN_ATTEMPTS {attempts}");
        line += &match time {
            LockTime::Days(days) => format!(" PASSWORD_LOCK_TIME {days}"),
            LockTime::Unbounded => " PASSWORD_LOCK_TIME UNBOUNDED".to_owned(),
        };
    }
    line
}

impl Words {
    /// Parses a non-negative integer.
    fn number(&mut self) -> Result<u64> {
        let number = match self.tokens.get(self.at) {
            Some(Token::Number(text, _)) => text.parse().ok(),
            _ => None,
        };
        self.at += usize::from(number.is_some());
        number.ok_or_else(|| self.near())
    }
}
