//! The shape of a statement: its text without the literals that a parameter could replace, and the
//! kinds of these literals.
//!
//! Statements of one shape share one plan, so a client that sends text pays for parsing and
//! planning once. The shape is computed in one pass over the bytes, without a syntax tree. The pass
//! is conservative: a statement that it does not know has no shape and is parsed.
//!
//! The pass leaves out a literal only where a parameter would mean the same: after a comparison,
//! BETWEEN, LIKE or LIMIT, after a `+` or `-` between two values, in a list after IN, and in a row
//! of VALUES if the literal is the whole value. All other literals stay in the shape, such as those
//! of a select list, which name its columns.
//!
//! If VALUES has several rows, the shape contains only the first. The other rows must have the same
//! form. They are parsed one at a time while the statement runs ([`ValuesRows`]).

use spillway_types::{Decimal, Value};

use super::text::TextMode;
use crate::errors::{Result, SqlError};

/// A longer shape is not cached.
const TEXT_MAX: usize = 16 << 10;

/// A shape with more literals outside of rows is not cached.
const VALUES_MAX: usize = 4096;

/// The shape of a statement. Its buffers are reused.
#[derive(Default, Debug)]
pub(crate) struct Shape {
    /// The text with `?` in place of each extracted literal, followed by the kinds of these
    /// literals.
    key: String,
    text_len: usize,
    /// The extracted literals. If there are several rows, only those of the first.
    pub(crate) values: Vec<Value>,
    /// The range of the text with the rows after the first.
    pub(crate) rows: Option<std::ops::Range<usize>>,
    /// The number of bytes of the longest string literal.
    pub(crate) longest: usize,
}

/// The kind of the token before a position.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Before {
    Start,
    /// A comparison, or a word after which a value must follow.
    Wants,
    /// `(` or `,` of a list.
    Item,
    /// A value, a name, a closing parenthesis.
    Value,
    Other,
}

/// The part of the statement that contains a position.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Zone {
    /// A part in which a literal is more than a value.
    Off,
    Condition,
    /// After VALUES, outside its rows.
    Rows,
    /// In a row of VALUES.
    Row,
    Limit,
}

#[derive(Clone, Copy, Debug)]
struct BracketLevel {
    zone: Zone,
    /// Whether this is the list of an IN.
    list: bool,
}

struct Reader<'s> {
    bytes: &'s [u8],
    sql: &'s str,
    at: usize,
    mode: TextMode,
    insert: bool,
    /// Whether the position is among the columns of a query, which are named by their source text.
    names: bool,
    levels: Vec<BracketLevel>,
    before: Before,
    /// Whether the last word was IN.
    after_in: bool,
    /// The kinds of the extracted literals, where the kind matters.
    kinds: Vec<char>,
    /// The number of bytes of the longest string literal so far.
    longest: usize,
}

/// A token, as the shape's reader reads it.
enum ShapeToken {
    Word,
    /// A literal, with its value.
    Literal(Value),
    Symbol(u8),
    /// An operator after which a value must follow.
    Comparison,
    Operator,
    End,
}

fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$') || byte >= 0x80
}

impl Shape {
    /// Reads the shape of one statement. Returns `false` if it has none.
    pub(crate) fn read(&mut self, sql: &str, mode: TextMode) -> bool {
        self.key.clear();
        self.values.clear();
        self.rows = None;
        self.longest = 0;
        let Some(mut reader) = Reader::new(sql, mode) else { return false };
        if reader.shape(self).is_none() {
            return false;
        }
        self.longest = reader.longest;
        self.text_len = self.key.len();
        self.key.push('\0');
        self.key.extend(reader.kinds.iter());
        true
    }

    /// The key that identifies the shape.
    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// The statement's text, with parameters.
    pub(crate) fn text(&self) -> &str {
        &self.key[..self.text_len]
    }

    /// The rows after the first.
    pub(crate) fn rows<'s>(&self, sql: &'s str, mode: TextMode) -> Option<ValuesRows<'s>> {
        let range = self.rows.clone()?;
        let mut reader = Reader::new(&sql[..range.end], mode)?;
        reader.at = range.start;
        Some(ValuesRows { reader, start: range.start })
    }
}

impl<'s> Reader<'s> {
    /// Returns `None` for a statement that does not read or change rows.
    fn new(sql: &'s str, mode: TextMode) -> Option<Reader<'s>> {
        let begin = sql.trim_start().as_bytes();
        let verb: [u8; 4] = begin.first_chunk::<4>()?.map(|byte| byte.to_ascii_lowercase());
        if ![*b"sele", *b"inse", *b"repl", *b"upda", *b"dele"].contains(&verb)
            || mode.pipes_as_concat
        {
            return None;
        }
        Some(Reader {
            bytes: sql.as_bytes(),
            sql,
            at: 0,
            mode,
            insert: matches!(&verb, b"inse" | b"repl"),
            names: false,
            levels: vec![BracketLevel { zone: Zone::Off, list: false }],
            before: Before::Start,
            after_in: false,
            kinds: Vec::new(),
            longest: 0,
        })
    }

    fn level(&mut self) -> &mut BracketLevel {
        let last = self.levels.len() - 1;
        &mut self.levels[last]
    }

    fn shape(&mut self, out: &mut Shape) -> Option<()> {
        loop {
            if self.skip_space()? && !out.key.is_empty() {
                out.key.push(' ');
            }
            let start = self.at;
            let takes = self.takes_value();
            match self.piece(takes)? {
                ShapeToken::End => return (self.levels.len() == 1).then_some(()),
                ShapeToken::Literal(value) if takes && self.stands_alone()? => {
                    self.take(out, value)?;
                }
                ShapeToken::Literal(_) => {
                    out.key.push_str(&self.sql[start..self.at]);
                    self.before = Before::Value;
                }
                ShapeToken::Word => {
                    let end = self.at;
                    let null = self.word(start)?;
                    if null && takes && self.zone() == Zone::Row && self.stands_alone()? {
                        self.take(out, Value::Null)?;
                    } else {
                        out.key.push_str(&self.sql[start..end]);
                    }
                }
                ShapeToken::Symbol(b'(') => {
                    out.key.push('(');
                    self.open()?;
                    if self.zone() == Zone::Row && self.levels.len() == 2 {
                        self.first_row(out)?;
                    }
                }
                ShapeToken::Symbol(b')') => {
                    out.key.push(')');
                    self.close()?;
                }
                ShapeToken::Symbol(byte) => {
                    out.key.push(char::from(byte));
                    self.before = match (byte, self.before) {
                        (b',', _) => Before::Item,
                        (b'+', Before::Value) => Before::Wants,
                        _ => Before::Other,
                    };
                }
                ShapeToken::Comparison => {
                    out.key.push_str(&self.sql[start..self.at]);
                    self.before = Before::Wants;
                }
                ShapeToken::Operator => {
                    let operator = &self.sql[start..self.at];
                    out.key.push_str(operator);
                    self.before = match (operator, self.before) {
                        ("-", Before::Value) => Before::Wants,
                        _ => Before::Other,
                    };
                }
            }
            if out.key.len() > TEXT_MAX {
                return None;
            }
        }
    }

    fn take(&mut self, out: &mut Shape, value: Value) -> Option<()> {
        out.key.push('?');
        self.kinds.push(match (self.zone(), &value) {
            (Zone::Limit, _) | (_, Value::Null) => 'v',
            (_, Value::Text(_)) => 't',
            (_, Value::Int(_) | Value::UInt(_)) => 'i',
            (_, Value::Double(_)) => 'f',
            // A kind of its own for each number of digits after the point.
            (_, Value::Decimal(number)) => char::from(b'A' + number.scale()),
            _ => 'd',
        });
        out.values.push(value);
        self.before = Before::Value;
        (out.values.len() <= VALUES_MAX).then_some(())
    }

    fn zone(&self) -> Zone {
        self.levels[self.levels.len() - 1].zone
    }

    /// Whether a literal at this place may be extracted.
    fn takes_value(&self) -> bool {
        let level = self.levels[self.levels.len() - 1];
        match (level.zone, self.before) {
            _ if self.names => false,
            (Zone::Condition, Before::Wants) => true,
            (Zone::Condition, Before::Item) => level.list,
            (Zone::Row, Before::Item) => self.levels.len() == 2,
            (Zone::Limit, Before::Wants | Before::Item) => true,
            _ => false,
        }
    }

    /// Whether a literal is complete, judging by the next token: no further string literal may
    /// follow, which would be concatenated with it. In a row, the row's end or the next value must
    /// follow.
    fn stands_alone(&mut self) -> Option<bool> {
        let here = self.at;
        self.skip_space()?;
        let next = self.bytes.get(self.at).copied();
        self.at = here;
        Some(match self.zone() {
            Zone::Row => matches!(next, Some(b',' | b')')),
            Zone::Limit => {
                next.is_none_or(|byte| matches!(byte, b',' | b')' | b';') || is_word_byte(byte))
            }
            _ => !matches!(next, Some(b'\'' | b'"')),
        })
    }

    fn open(&mut self) -> Option<()> {
        let outer = *self.level();
        let list = self.after_in && self.before == Before::Other;
        let zone = match outer.zone {
            Zone::Rows => Zone::Row,
            // Literals in calls within a row are not extracted.
            Zone::Row => Zone::Off,
            zone => zone,
        };
        self.levels.push(BracketLevel { zone, list });
        self.before = Before::Item;
        (self.levels.len() < 64).then_some(())
    }

    fn close(&mut self) -> Option<()> {
        self.levels.pop();
        self.before = Before::Value;
        (!self.levels.is_empty()).then_some(())
    }

    /// Reads the first row of VALUES, then skips all following rows.
    fn first_row(&mut self, out: &mut Shape) -> Option<()> {
        let begin = out.key.len();
        self.row(&mut out.key, Some(&mut out.values))?;
        let shape = out.key[begin..].to_owned();
        let mut other = String::new();
        self.close()?;
        let mut rows = None;
        loop {
            let end = self.at;
            self.skip_space()?;
            if self.bytes.get(self.at) != Some(&b',') {
                self.at = end;
                break;
            }
            self.at += 1;
            self.skip_space()?;
            if self.bytes.get(self.at) != Some(&b'(') {
                return None;
            }
            let start = self.at;
            self.at += 1;
            self.open()?;
            other.clear();
            self.row(&mut other, None)?;
            self.close()?;
            if other != shape {
                return None;
            }
            rows = Some(rows.map_or(start, |(first, _)| first)).map(|first| (first, self.at));
        }
        out.rows = rows.map(|(start, end)| start..end);
        self.before = Before::Value;
        Some(())
    }

    /// Reads a row, from after its `(` to after its `)`.
    fn row(&mut self, text: &mut String, mut values: Option<&mut Vec<Value>>) -> Option<()> {
        let depth = self.levels.len();
        loop {
            if self.skip_space()? {
                text.push(' ');
            }
            let start = self.at;
            let takes = self.takes_value();
            let value = match self.piece(takes && values.is_some())? {
                ShapeToken::End => return None,
                ShapeToken::Literal(value) if takes && self.stands_alone()? => Some(value),
                ShapeToken::Literal(_) => {
                    self.before = Before::Value;
                    None
                }
                ShapeToken::Word => {
                    let null = self.word(start)?;
                    (null && takes && self.stands_alone()?).then_some(Value::Null)
                }
                ShapeToken::Symbol(b')') if self.levels.len() == depth => {
                    text.push(')');
                    return Some(());
                }
                ShapeToken::Symbol(b'(') => self.open().map(|()| None)?,
                ShapeToken::Symbol(b')') => self.close().map(|()| None)?,
                ShapeToken::Symbol(b',') => {
                    self.before = Before::Item;
                    None
                }
                _ => {
                    self.before = Before::Other;
                    None
                }
            };
            match value {
                Some(value) => {
                    text.push('?');
                    self.before = Before::Value;
                    if let Some(values) = &mut values {
                        values.push(value);
                    }
                }
                None => text.push_str(&self.sql[start..self.at]),
            }
        }
    }

    /// Processes the word from `start` to the current position. Returns `true` for NULL, and `None`
    /// if the statement can have no shape.
    fn word(&mut self, start: usize) -> Option<bool> {
        let word = &self.sql[start..self.at];
        // After a period, and in quotes, words are names.
        let name =
            matches!(word.as_bytes()[0], b'`' | b'"') || start > 0 && self.bytes[start - 1] == b'.';
        let mut lower = [0; 12];
        let lower = match lower.get_mut(..word.len()) {
            Some(lower) if !name => {
                lower.copy_from_slice(word.as_bytes());
                lower.make_ascii_lowercase();
                &*lower
            }
            _ => b"",
        };
        (self.before, self.after_in) = (Before::Value, false);
        let zone = match lower {
            b"and" | b"between" | b"like" | b"or" => {
                self.before = Before::Wants;
                return Some(false);
            }
            b"in" => {
                (self.after_in, self.before) = (true, Before::Other);
                return Some(false);
            }
            b"null" => return Some(true),
            // Elsewhere it is an ordinary name.
            b"offset" if self.zone() != Zone::Limit => return Some(false),
            b"limit" | b"offset" => {
                self.names &= self.levels.len() > 1;
                self.level().zone = Zone::Limit;
                self.before = Before::Wants;
                return Some(false);
            }
            b"values" | b"value"
                if self.insert && self.levels.len() == 1 && self.zone() == Zone::Off =>
            {
                Zone::Rows
            }
            b"as" if self.zone() != Zone::Rows => return Some(false),
            b"where" | b"on" | b"set" => Zone::Condition,
            b"select" | b"from" | b"group" | b"order" | b"having" | b"union" | b"intersect"
            | b"except" | b"join" | b"for" | b"lock" | b"window" | b"with" | b"partition"
            | b"procedure" | b"into" | b"as" => Zone::Off,
            // Words after which operands are more than values.
            b"match" | b"against" | b"interval" | b"returning" => return None,
            _ => return Some(false),
        };
        if self.levels.len() == 1 {
            self.names = lower == b"select";
        }
        self.level().zone = zone;
        self.before = Before::Other;
        Some(false)
    }

    /// Skips white space and comments. Returns whether there were any; `None` for a comment that
    /// has a meaning.
    fn skip_space(&mut self) -> Option<bool> {
        let start = self.at;
        loop {
            let rest = &self.bytes[self.at..];
            let len = match rest {
                [b' ' | b'\t' | b'\n' | b'\r' | 0x0B | 0x0C, ..] => 1,
                [b'/', b'*', b'!' | b'+', ..] | [b'/', b'*', b'M', b'!', ..] => return None,
                [b'/', b'*', body @ ..] => {
                    body.windows(2).position(|pair| pair == b"*/").map(|end| end + 4)?
                }
                [b'#', ..] | [b'-', b'-', b' ' | b'\t' | b'\n' | b'\r', ..] => {
                    rest.iter().position(|byte| *byte == b'\n').map_or(rest.len(), |end| end + 1)
                }
                [b'-', b'-'] => return None,
                _ => return Some(self.at > start),
            };
            self.at += len;
        }
    }

    /// Reads a token. A minus before a number may be part of the number. The value of a string
    /// literal is built only if it is `wanted`.
    fn piece(&mut self, wanted: bool) -> Option<ShapeToken> {
        let Some(byte) = self.bytes.get(self.at).copied() else { return Some(ShapeToken::End) };
        let next = self.bytes.get(self.at + 1).copied().unwrap_or(0);
        match byte {
            b'\'' => self.text(b'\'', wanted),
            b'"' if !self.mode.ansi_quotes => self.text(b'"', wanted),
            b'"' | b'`' => self.quoted_name(byte),
            b'0'..=b'9' => self.number(false),
            b'.' if next.is_ascii_digit() && self.before != Before::Value => self.number(false),
            b'-' if next.is_ascii_digit() && self.takes_value() => self.number(true),
            byte if is_word_byte(byte) => {
                let len = self.bytes[self.at..].iter().take_while(|b| is_word_byte(**b)).count();
                self.at += len;
                // In x'..', n'..' and _utf8'..', the string literal belongs to the word.
                (!matches!(self.bytes.get(self.at), Some(b'\'' | b'"'))).then_some(ShapeToken::Word)
            }
            b'(' | b')' | b',' | b'.' | b'*' | b'+' | b'/' | b'%' | b'~' | b'^' => {
                self.at += 1;
                Some(ShapeToken::Symbol(byte))
            }
            b';' => {
                self.at += 1;
                self.skip_space()?;
                (self.at == self.bytes.len()).then_some(ShapeToken::End)
            }
            b'=' | b'<' | b'>' | b'!' | b'-' | b'|' | b'&' => self.operator(),
            // `@`, `?`, `:` and unknown characters.
            _ => None,
        }
    }

    fn operator(&mut self) -> Option<ShapeToken> {
        let rest = &self.bytes[self.at..];
        let len = rest.iter().take_while(|byte| b"=<>!-|&".contains(byte)).count();
        self.at += len;
        let text = &rest[..len];
        // A sign after the comparison belongs to the operand.
        for comparison in [&b"<=>"[..], b"<=", b">=", b"<>", b"!=", b"=", b"<", b">"] {
            if text == comparison {
                return Some(ShapeToken::Comparison);
            }
            if text.strip_prefix(comparison) == Some(b"-") {
                self.at -= 1;
                return Some(ShapeToken::Comparison);
            }
        }
        Some(ShapeToken::Operator)
    }

    fn quoted_name(&mut self, quote: u8) -> Option<ShapeToken> {
        let mut at = self.at + 1;
        loop {
            at += self.bytes.get(at..)?.iter().position(|byte| *byte == quote)? + 1;
            if self.bytes.get(at) != Some(&quote) {
                break;
            }
            at += 1;
        }
        self.at = at;
        Some(ShapeToken::Word)
    }

    fn text(&mut self, quote: u8, wanted: bool) -> Option<ShapeToken> {
        let begin = self.at + 1;
        let mut at = begin;
        let mut plain = true;
        loop {
            let byte = *self.bytes.get(at)?;
            if byte == b'\\' && !self.mode.no_backslash_escapes {
                plain = false;
                at += 2;
            } else if byte == quote {
                if self.bytes.get(at + 1) != Some(&quote) {
                    break;
                }
                plain = false;
                at += 2;
            } else {
                at += 1;
            }
        }
        self.at = at + 1;
        self.longest = self.longest.max(at - begin);
        if !wanted {
            return Some(ShapeToken::Literal(Value::Null));
        }
        let raw = self.sql.get(begin..at)?;
        let text = if plain { raw.to_owned() } else { self.unescape(raw, quote) };
        Some(ShapeToken::Literal(Value::Text(text)))
    }

    fn unescape(&self, raw: &str, quote: u8) -> String {
        let quote = char::from(quote);
        let mut out = String::with_capacity(raw.len());
        let mut chars = raw.chars();
        while let Some(c) = chars.next() {
            if c == quote {
                chars.next();
                out.push(quote);
            } else if c == '\\' && !self.mode.no_backslash_escapes {
                match chars.next() {
                    Some('0') => out.push('\0'),
                    Some('b') => out.push('\u{8}'),
                    Some('n') => out.push('\n'),
                    Some('r') => out.push('\r'),
                    Some('t') => out.push('\t'),
                    Some('Z') => out.push('\u{1A}'),
                    // These keep their backslash, for LIKE.
                    Some(other @ ('%' | '_')) => out.extend(['\\', other]),
                    Some(other) => out.push(other),
                    None => {}
                }
            } else {
                out.push(c);
            }
        }
        out
    }

    fn number(&mut self, negative: bool) -> Option<ShapeToken> {
        let begin = self.at + usize::from(negative);
        let mut at = begin;
        let digits = |at: &mut usize| {
            while self.bytes.get(*at).is_some_and(u8::is_ascii_digit) {
                *at += 1;
            }
        };
        digits(&mut at);
        let mut whole = true;
        if self.bytes.get(at) == Some(&b'.') {
            whole = false;
            at += 1;
            digits(&mut at);
        }
        let mut exponent = false;
        if matches!(self.bytes.get(at), Some(b'e' | b'E')) {
            let mut end = at + 1;
            if matches!(self.bytes.get(end), Some(b'+' | b'-')) {
                end += 1;
            }
            if self.bytes.get(end).is_some_and(u8::is_ascii_digit) {
                digits(&mut end);
                (at, exponent) = (end, true);
            }
        }
        // 0x1F, 1abc, 1.x
        if self.bytes.get(at).is_some_and(|byte| is_word_byte(*byte) || *byte == b'.') {
            return None;
        }
        self.at = at;
        let text = &self.sql[begin..at];
        let value = if exponent {
            let number: f64 = text.parse().ok().filter(|number: &f64| number.is_finite())?;
            Value::Double(if negative { -number } else { number })
        } else if let (true, Ok(number)) = (whole, text.parse::<i64>()) {
            Value::Int(if negative { -number } else { number })
        } else if let (true, false, Ok(number)) = (whole, negative, text.parse::<u64>()) {
            Value::UInt(number)
        } else if whole && negative && text == "9223372036854775808" {
            Value::Int(i64::MIN)
        } else {
            let number = Decimal::parse(text)?;
            Value::Decimal(if negative { number.neg() } else { number })
        };
        Some(ShapeToken::Literal(value))
    }
}

/// The rows of VALUES after the first, read one at a time.
pub(crate) struct ValuesRows<'s> {
    reader: Reader<'s>,
    start: usize,
}

impl RowSource for ValuesRows<'_> {
    fn rewind(&mut self) {
        self.reader.at = self.start;
    }

    fn next(&mut self, params: &mut Vec<Value>) -> Result<bool> {
        params.clear();
        let reader = &mut self.reader;
        if reader.at == reader.bytes.len() {
            return Ok(false);
        }
        let mut text = String::new();
        let row = reader.next_row(&mut text, params);
        row.map(|()| true)
            .ok_or_else(|| SqlError::syntax("a row of VALUES changed while it was read"))
    }
}

impl Reader<'_> {
    fn next_row(&mut self, text: &mut String, params: &mut Vec<Value>) -> Option<()> {
        self.skip_space()?;
        if self.bytes.get(self.at) == Some(&b',') {
            self.at += 1;
            self.skip_space()?;
        }
        if self.bytes.get(self.at) != Some(&b'(') {
            return None;
        }
        self.at += 1;
        self.levels.truncate(1);
        self.levels[0].zone = Zone::Rows;
        self.open()?;
        self.row(text, Some(params))
    }
}

#[cfg(test)]
#[path = "shape_tests.rs"]
mod tests;

/// Gives the parameters of one row after another, for a statement that was bound for a single row.
pub(crate) trait RowSource {
    /// Reads the next row's parameters into `params`. Returns `false` after the last row.
    fn next(&mut self, params: &mut Vec<Value>) -> Result<bool>;

    /// Starts again with the first row.
    fn rewind(&mut self);
}
