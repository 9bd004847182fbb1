//! Passwords and users.

use sha1::{Digest, Sha1};
use sha2::Sha256;
use sqlparser::tokenizer::Token;

use crate::catalog::{Catalog, Change, UserDef};
use crate::errors::{Result, SqlError};
use crate::parse::word;

pub(crate) const NATIVE: &str = "mysql_native_password";
pub(crate) const CACHING: &str = "caching_sha2_password";

/// MD5 (RFC 1321), in hexadecimal: for the function of that name, and for nothing that must be secret.
pub(crate) fn md5_hex(bytes: &[u8]) -> String {
    let mut state: [u32; 4] = [0x6745_2301, 0xEFCD_AB89, 0x98BA_DCFE, 0x1032_5476];
    let shifts: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];
    let mut message = bytes.to_vec();
    message.push(0x80);
    while message.len() % 64 != 56 {
        message.push(0);
    }
    message.extend_from_slice(&(bytes.len() as u64 * 8).to_le_bytes());
    for chunk in message.chunks(64) {
        let word =
            |at: usize| chunk[4 * at..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
        let [mut a, mut b, mut c, mut d] = state;
        for step in 0..64 {
            let (mix, at) = match step / 16 {
                0 => ((b & c) | (!b & d), step),
                1 => ((d & b) | (!d & c), (5 * step + 1) % 16),
                2 => (b ^ c ^ d, (3 * step + 5) % 16),
                _ => (c ^ (b | !d), 7 * step % 16),
            };
            let constant = ((step as f64 + 1.0).sin().abs() * 4_294_967_296.0) as u32;
            let sum = a.wrapping_add(mix).wrapping_add(constant).wrapping_add(word(at));
            (a, d, c) = (d, c, b);
            b = b.wrapping_add(sum.rotate_left(shifts[step / 16][step % 4]));
        }
        for (sum, part) in state.iter_mut().zip([a, b, c, d]) {
            *sum = sum.wrapping_add(part);
        }
    }
    state.iter().flat_map(|word| word.to_le_bytes()).map(|byte| format!("{byte:02x}")).collect()
}

/// What a plugin stores for a password.
pub(crate) fn stored_password(plugin: &str, password: &str) -> Result<Vec<u8>> {
    if password.is_empty() {
        return Ok(Vec::new());
    }
    match plugin {
        NATIVE => Ok(Sha1::digest(Sha1::digest(password)).to_vec()),
        CACHING => Ok(Sha256::digest(Sha256::digest(password)).to_vec()),
        other => Err(SqlError::new(1524, format!("Plugin '{other}' is not loaded"))),
    }
}

struct Words {
    tokens: Vec<Token>,
    at: usize,
}

impl Words {
    fn word(&mut self) -> String {
        let word = word(self.tokens.get(self.at));
        if !word.is_empty() {
            self.at += 1;
        }
        word
    }

    fn eat(&mut self, wanted: &str) -> bool {
        let is = word(self.tokens.get(self.at)) == wanted;
        self.at += usize::from(is);
        is
    }

    fn text(&mut self) -> Result<String> {
        let text = match self.tokens.get(self.at) {
            Some(Token::SingleQuotedString(text) | Token::DoubleQuotedString(text)) => text.clone(),
            Some(Token::Word(word)) => word.value.clone(),
            other => {
                let near = other.map_or(String::from("the end"), ToString::to_string);
                return Err(SqlError::syntax(format!("near '{near}'")));
            }
        };
        self.at += 1;
        Ok(text)
    }

    /// `'u'@'h'`, `u@h`, `u`.
    fn account(&mut self) -> Result<(String, String)> {
        let name = self.text()?;
        if let Some((name, host)) = name.split_once('@') {
            let host = if host.is_empty() { self.text()? } else { host.to_owned() };
            return Ok((name.to_owned(), host));
        }
        let host = match self.tokens.get(self.at) {
            Some(Token::AtSign) => {
                self.at += 1;
                self.text()?
            }
            Some(Token::Word(word)) if word.value.starts_with('@') => {
                let host = word.value[1..].to_owned();
                self.at += 1;
                if host.is_empty() { self.text()? } else { host }
            }
            _ => "%".to_owned(),
        };
        Ok((name, host))
    }
}

fn missing(name: &str, host: &str, what: &str) -> SqlError {
    SqlError::new(1396, format!("Operation {what} failed for '{name}'@'{host}'"))
}

/// Runs a statement about users; `false` when it is none.
pub(crate) fn execute(
    change: &Change<'_>,
    catalog: &Catalog,
    tokens: &[Token],
    me: (&str, &str),
) -> Result<bool> {
    let mut words = Words { tokens: crate::parse::solid(tokens), at: 0 };
    match words.word().as_str() {
        verb @ ("create" | "alter") if words.eat("user") => {
            let create = verb == "create";
            let if_not = words.eat("if") && {
                words.eat("not");
                words.eat("exists")
            };
            let (name, host) = words.account()?;
            let known = catalog.users.get(&(name.clone(), host.clone())).cloned();
            if create && known.is_some() {
                return if if_not { Ok(true) } else { Err(missing(&name, &host, "CREATE USER")) };
            }
            if !create && known.is_none() {
                return if if_not { Ok(true) } else { Err(missing(&name, &host, "ALTER USER")) };
            }
            let mut user = known.unwrap_or(UserDef {
                name,
                host,
                plugin: NATIVE.to_owned(),
                stored: Vec::new(),
                grants: std::collections::BTreeMap::default(),
            });
            if words.eat("identified") {
                if words.eat("with") {
                    user.plugin = words.text()?.to_ascii_lowercase();
                    stored_password(&user.plugin, "x")?;
                }
                if words.eat("by") {
                    user.stored = stored_password(&user.plugin, &words.text()?)?;
                }
            }
            if let Some(token) = words.tokens.get(words.at) {
                return Err(SqlError::unsupported(format!("{token} in a user statement")));
            }
            change.put_user(&user)?;
            Ok(true)
        }
        "drop" if words.eat("user") => {
            let if_exists = words.eat("if") && words.eat("exists");
            loop {
                let (name, host) = words.account()?;
                match catalog.users.get(&(name.clone(), host.clone())) {
                    Some(user) => change.delete_user(user)?,
                    None if if_exists => {}
                    None => return Err(missing(&name, &host, "DROP USER")),
                }
                if words.tokens.get(words.at) != Some(&Token::Comma) {
                    return Ok(true);
                }
                words.at += 1;
            }
        }
        verb @ ("grant" | "revoke") => {
            let grant = verb == "grant";
            let mut rights = Vec::new();
            let mut right = String::new();
            while let Some(token) = words.tokens.get(words.at) {
                if word(Some(token)) == "on" {
                    break;
                }
                match token {
                    Token::Comma => rights.push(std::mem::take(&mut right)),
                    token => {
                        right = format!("{right} {token}").trim().to_ascii_uppercase();
                    }
                }
                words.at += 1;
            }
            rights.push(right);
            if !words.eat("on") {
                return Err(SqlError::unsupported("GRANT of roles"));
            }
            let scope = match words.tokens.get(words.at) {
                Some(Token::Mul) => "*".to_owned(),
                _ => words.text()?,
            };
            words.at += usize::from(words.tokens.get(words.at) == Some(&Token::Mul));
            if words.tokens.get(words.at) == Some(&Token::Period) {
                words.at += 1;
                if words.tokens.get(words.at) != Some(&Token::Mul) {
                    return Err(SqlError::unsupported("GRANT on a single table"));
                }
                words.at += 1;
            }
            words.eat(if grant { "to" } else { "from" });
            let (name, host) = words.account()?;
            let user = catalog.users.get(&(name.clone(), host.clone()));
            let mut user = user.cloned().ok_or_else(|| {
                SqlError::new(
                    1410,
                    format!("You are not allowed to create a user with GRANT: '{name}'@'{host}'"),
                )
            })?;
            if words.eat("with") {
                rights.push("GRANT OPTION".to_owned());
            }
            let rights = rights.into_iter().map(|right| match right.as_str() {
                "ALL" | "ALL PRIVILEGES" => "ALL".to_owned(),
                _ => right,
            });
            let held = user.grants.entry(scope.clone()).or_default();
            for right in rights {
                held.retain(|have| *have != right);
                if grant {
                    held.push(right);
                } else if right == "ALL" {
                    held.clear();
                }
            }
            if held.is_empty() {
                user.grants.remove(&scope);
            }
            change.put_user(&user)?;
            Ok(true)
        }
        "set" if words.eat("password") => {
            let (name, host) = if words.eat("for") {
                words.account()?
            } else {
                (me.0.to_owned(), me.1.to_owned())
            };
            words.at += usize::from(words.tokens.get(words.at) == Some(&Token::Eq));
            if words.eat("password") {
                words.at += usize::from(words.tokens.get(words.at) == Some(&Token::LParen));
            }
            let password = words.text()?;
            let user = catalog.users.get(&(name.clone(), host.clone()));
            let mut user = user.cloned().ok_or_else(|| missing(&name, &host, "SET PASSWORD"))?;
            user.stored = stored_password(&user.plugin, &password)?;
            change.put_user(&user)?;
            Ok(true)
        }
        _ => Ok(false),
    }
}

impl UserDef {
    /// Whether it may do this in a database.
    pub(crate) fn may(&self, right: &str, database: &str) -> bool {
        ["*", database]
            .iter()
            .filter_map(|scope| self.grants.get(*scope))
            .any(|rights| rights.iter().any(|have| have == "ALL" || have == right))
    }

    /// The lines of SHOW GRANTS.
    pub(crate) fn grant_lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if !self.grants.contains_key("*") {
            lines.push(format!("GRANT USAGE ON *.* TO `{}`@`{}`", self.name, self.host));
        }
        for (scope, rights) in &self.grants {
            let option = if rights.iter().any(|right| right == "GRANT OPTION") {
                " WITH GRANT OPTION"
            } else {
                ""
            };
            let rights: Vec<&str> = rights
                .iter()
                .filter(|right| *right != "GRANT OPTION")
                .map(|right| if right == "ALL" { "ALL PRIVILEGES" } else { right })
                .collect();
            let scope = if scope == "*" { "*".to_owned() } else { format!("`{scope}`") };
            lines.push(format!(
                "GRANT {} ON {scope}.* TO `{}`@`{}`{option}",
                rights.join(", "),
                self.name,
                self.host
            ));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn md5_is_rfc_1321() {
        assert_eq!(md5_hex(b""), "d41d8cd98f00b204e9800998ecf8427e");
        assert_eq!(md5_hex(b"message digest"), "f96b697d7cb7938d525a2f31aaf161d0");
    }
}
