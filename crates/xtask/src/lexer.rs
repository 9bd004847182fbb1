//! Splits Rust source into code, comments and literals, without parsing it.
//!
//! Checks only need to know whether a byte is code, a comment or a literal. They search the *masked
//! code*: the source with blanks instead of comments and literals, so its lengths and lines are
//! those of the source.

/// The marker of a comment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Marker {
    /// `//!`
    Inner,
    /// `///`
    Outer,
    /// `//`
    Plain,
    /// `/* */`
    Block,
}

/// A comment, or one line of a block comment.
#[derive(Clone, Debug)]
pub(crate) struct CommentLine {
    pub(crate) line: usize,
    pub(crate) marker: Marker,
    /// The text after the marker.
    pub(crate) text: String,
    /// Whether only space precedes the comment on its line.
    pub(crate) alone: bool,
}

/// A source file, split into code and comments.
#[derive(Default, Debug)]
pub(crate) struct Masked {
    pub(crate) code: String,
    pub(crate) comments: Vec<CommentLine>,
}

/// A word or a punctuation mark of the code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Token<'a> {
    pub(crate) text: &'a str,
    pub(crate) line: usize,
}

/// Whether a byte may be part of an identifier.
pub(crate) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

struct Lexer<'a> {
    source: &'a [u8],
    code: Vec<u8>,
    comments: Vec<CommentLine>,
    at: usize,
    line: usize,
    line_start: usize,
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> u8 {
        self.source.get(self.at + ahead).copied().unwrap_or(0)
    }

    /// Takes one byte, as code or as a blank.
    fn take(&mut self, as_code: bool) {
        let byte = self.source[self.at];
        self.code.push(if as_code || byte == b'\n' { byte } else { b' ' });
        self.at += 1;
        if byte == b'\n' {
            self.line += 1;
            self.line_start = self.at;
        }
    }

    fn blank(&mut self, bytes: usize) {
        for _ in 0..bytes {
            if self.at < self.source.len() {
                self.take(false);
            }
        }
    }

    /// Records the comment that begins at `start`. Its text begins at `text` and ends at the
    /// current byte.
    fn record(&mut self, start: usize, text: usize, marker: Marker) {
        let before = &self.source[self.line_start..start];
        self.comments.push(CommentLine {
            line: self.line,
            marker,
            text: String::from_utf8_lossy(&self.source[text..self.at]).into_owned(),
            alone: before.iter().all(|byte| byte.is_ascii_whitespace()),
        });
    }

    fn line_comment(&mut self) {
        let (marker, length) = match (self.peek(2), self.peek(3)) {
            (b'!', _) => (Marker::Inner, 3),
            (b'/', next) if next != b'/' => (Marker::Outer, 3),
            _ => (Marker::Plain, 2),
        };
        let start = self.at;
        while self.at < self.source.len() && self.peek(0) != b'\n' {
            self.take(false);
        }
        self.record(start, (start + length).min(self.at), marker);
    }

    fn block_comment(&mut self) {
        let mut depth = 0;
        let mut start = self.at;
        loop {
            match (self.peek(0), self.peek(1)) {
                (b'/', b'*') => {
                    depth += 1;
                    self.blank(2);
                }
                (b'*', b'/') => {
                    depth -= 1;
                    self.blank(2);
                    if depth == 0 {
                        break;
                    }
                }
                (b'\n', _) => {
                    self.record(start, start, Marker::Block);
                    self.take(false);
                    start = self.at;
                }
                _ if self.at >= self.source.len() => break,
                _ => self.take(false),
            }
        }
        self.record(start, start, Marker::Block);
    }

    /// Takes a literal that ends with `end` and has escapes with a backslash.
    fn escaped(&mut self, end: u8) {
        self.take(true);
        while self.at < self.source.len() && self.peek(0) != end {
            let step = if self.peek(0) == b'\\' { 2 } else { 1 };
            self.blank(step);
        }
        if self.at < self.source.len() {
            self.take(true);
        }
    }

    /// Takes a raw string, `r"…"` or `r#"…"#`. `false` if there is none here.
    fn raw_string(&mut self) -> bool {
        let before = |back: usize| self.at.checked_sub(back).map_or(b' ', |at| self.source[at]);
        let prefixed = matches!(before(1), b'b' | b'c') && !is_word(before(2));
        if is_word(before(1)) && !prefixed {
            return false;
        }
        let mut hashes = 0;
        while self.peek(1 + hashes) == b'#' {
            hashes += 1;
        }
        if self.peek(1 + hashes) != b'"' {
            return false;
        }
        self.blank(2 + hashes);
        let mut end = vec![b'"'];
        end.resize(1 + hashes, b'#');
        while self.at < self.source.len() && !self.source[self.at..].starts_with(&end) {
            self.take(false);
        }
        self.blank(end.len());
        true
    }

    fn quote(&mut self) {
        let next = self.peek(1);
        let width = match next {
            0..0x80 => 1,
            0x80..0xe0 => 2,
            0xe0..0xf0 => 3,
            _ => 4,
        };
        if next == b'\\' || self.peek(1 + width) == b'\'' {
            self.escaped(b'\'');
        } else {
            self.take(true);
        }
    }

    fn run(&mut self) {
        while self.at < self.source.len() {
            match (self.peek(0), self.peek(1)) {
                (b'/', b'/') => self.line_comment(),
                (b'/', b'*') => self.block_comment(),
                (b'"', _) => self.escaped(b'"'),
                (b'\'', _) => self.quote(),
                (b'r', b'"' | b'#') if self.raw_string() => {}
                _ => self.take(true),
            }
        }
    }
}

/// Splits a source file into code and comments.
pub(crate) fn mask(source: &str) -> Masked {
    let mut lexer = Lexer {
        source: source.as_bytes(),
        code: Vec::with_capacity(source.len()),
        comments: Vec::new(),
        at: 0,
        line: 1,
        line_start: 0,
    };
    lexer.run();
    Masked { code: String::from_utf8_lossy(&lexer.code).into_owned(), comments: lexer.comments }
}

/// The words and punctuation marks of masked code. `::`, `->` and `=>` are one mark each.
pub(crate) fn tokens(code: &str) -> Vec<Token<'_>> {
    let bytes = code.as_bytes();
    let mut tokens = Vec::with_capacity(code.len() / 4);
    let (mut at, mut line) = (0, 1);
    while at < bytes.len() {
        let start = at;
        let byte = bytes[at];
        if byte == b'\n' {
            line += 1;
        }
        if byte.is_ascii_whitespace() {
            at += 1;
            continue;
        }
        if is_word(byte) {
            while at < bytes.len() && is_word(bytes[at]) {
                at += 1;
            }
        } else {
            let pair = bytes.get(at..at + 2);
            at += if matches!(pair, Some(b"::" | b"->" | b"=>")) { 2 } else { 1 };
        }
        tokens.push(Token { text: &code[start..at], line });
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(source: &str) -> Vec<String> {
        tokens(&mask(source).code).iter().map(|token| token.text.to_owned()).collect()
    }

    #[test]
    fn literals_and_comments_are_no_code() {
        let source =
            "a(\"x // \\\" y\"); // tail\nlet c = '\"'; let l: &'a u8; r#\"z \" z\"#; b'\\''; d";
        let words = words(source);
        assert!(words.contains(&"d".to_owned()), "{words:?}");
        for gone in ["x", "y", "z", "tail"] {
            assert!(!words.contains(&gone.to_owned()), "{gone} in {words:?}");
        }
    }

    #[test]
    fn comments_keep_their_lines() {
        let masked = mask("/// one\nfn f() {} // two\n/* three\n four */ x\n//! five");
        let seen: Vec<_> = masked
            .comments
            .iter()
            .map(|comment| (comment.line, comment.text.trim(), comment.alone))
            .collect();
        assert_eq!(seen[0], (1, "one", true));
        assert_eq!(seen[1], (2, "two", false));
        assert_eq!((seen[3].0, seen[4]), (4, (5, "five", true)));
        assert_eq!(masked.code.lines().count(), 5);
    }
}
