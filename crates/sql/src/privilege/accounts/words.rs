//! Parses statements about accounts: keywords, and names of accounts.

use sqlparser::tokenizer::Token;

use crate::errors::{Result, SqlError};
use crate::parser::{unhex, word};

/// The tokens of a statement, read one after another.
pub(super) struct Words {
    pub(super) tokens: Vec<Token>,
    pub(super) at: usize,
}

impl Words {
    pub(super) fn word(&mut self) -> String {
        let word = word(self.tokens.get(self.at));
        if !word.is_empty() {
            self.at += 1;
        }
        word
    }

    pub(super) fn eat(&mut self, wanted: &str) -> bool {
        let is = word(self.tokens.get(self.at)) == wanted;
        self.at += usize::from(is);
        is
    }

    pub(super) fn peek(&self, wanted: &str) -> bool {
        word(self.tokens.get(self.at)) == wanted
    }

    pub(super) fn take(&mut self, wanted: &Token) -> bool {
        let is = self.tokens.get(self.at) == Some(wanted);
        self.at += usize::from(is);
        is
    }

    /// Where a syntax error is. A string literal may be a password, so it is not shown.
    pub(super) fn near_text(&self) -> String {
        match self.tokens.get(self.at) {
            None => "the end".to_owned(),
            Some(Token::SingleQuotedString(_) | Token::DoubleQuotedString(_)) => {
                "a text".to_owned()
            }
            Some(token) => token.to_string(),
        }
    }

    pub(super) fn near(&self) -> SqlError {
        SqlError::syntax(format!("near '{}'", self.near_text()))
    }

    pub(super) fn end(&self) -> Result<()> {
        if self.at < self.tokens.len() { Err(self.near()) } else { Ok(()) }
    }

    pub(super) fn text(&mut self) -> Result<String> {
        let text = match self.tokens.get(self.at) {
            Some(Token::SingleQuotedString(text) | Token::DoubleQuotedString(text)) => text.clone(),
            Some(Token::Word(word)) => word.value.clone(),
            _ => return Err(self.near()),
        };
        self.at += 1;
        Ok(text)
    }

    /// Parses a string literal, or bytes as a hexadecimal number.
    pub(super) fn bytes(&mut self) -> Result<Vec<u8>> {
        let hex = match self.tokens.get(self.at) {
            Some(Token::HexStringLiteral(hex)) => hex.clone(),
            _ => return Ok(self.text()?.into_bytes()),
        };
        self.at += 1;
        Ok(unhex(&hex))
    }

    /// Consumes CURRENT_USER, with or without parentheses. Returns whether it was there.
    pub(super) fn own(&mut self) -> Result<bool> {
        if !(self.eat("current_user") || self.eat("user")) {
            return Ok(false);
        }
        if self.take(&Token::LParen) && !self.take(&Token::RParen) {
            return Err(self.near());
        }
        Ok(true)
    }

    /// Parses `'u'@'h'`, `u@h` or `u`.
    pub(super) fn account(&mut self) -> Result<(String, String)> {
        let unquoted =
            matches!(self.tokens.get(self.at), Some(Token::Word(w)) if w.quote_style.is_none());
        let name = self.text()?;
        if let (true, Some((name, host))) = (unquoted, name.split_once('@')) {
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
