//! How text compares.
//!
//! Three collations are kept; the names of others are mapped to the nearest of them (see [`Collation::from_name`]). All but
//! `binary` ignore trailing spaces (PAD SPACE), as MySQL's `utf8mb4_bin` and `utf8mb4_general_ci` do.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use crate::text::{NOT_ASCII, capitals};

/// A collation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub enum Collation {
    /// `utf8mb4_general_ci`: letters compare without regard to case or accent.
    #[default]
    GeneralCi,
    /// `utf8mb4_bin`: by code point.
    Bin,
    /// `binary`: by byte; trailing spaces count.
    Binary,
}

impl Collation {
    /// All of them.
    pub const ALL: [Collation; 3] = [Collation::GeneralCi, Collation::Bin, Collation::Binary];

    /// The collation of this name, or the nearest that is kept: names that end in `_bin` or `_cs` are `utf8mb4_bin`,
    /// other names of known character sets are `utf8mb4_general_ci`.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Collation> {
        let name = name.to_ascii_lowercase();
        if name == "binary" {
            return Some(Collation::Binary);
        }
        let (charset, rest) = name.split_once('_').unwrap_or((&name, ""));
        let known =
            ["utf8mb4", "utf8mb3", "utf8", "latin1", "ascii", "latin2", "cp1252", "uca1400"];
        if !known.contains(&charset) {
            return None;
        }
        Some(if rest.ends_with("bin") || rest.ends_with("_cs") {
            Collation::Bin
        } else {
            Collation::GeneralCi
        })
    }

    /// MySQL's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Collation::GeneralCi => "utf8mb4_general_ci",
            Collation::Bin => "utf8mb4_bin",
            Collation::Binary => "binary",
        }
    }

    /// MySQL's number, as the protocol uses it.
    #[must_use]
    pub fn id(self) -> u16 {
        match self {
            Collation::GeneralCi => 45,
            Collation::Bin => 46,
            Collation::Binary => 63,
        }
    }

    /// The name of its character set.
    #[must_use]
    pub fn charset(self) -> &'static str {
        match self {
            Collation::Binary => "binary",
            _ => "utf8mb4",
        }
    }

    /// Compares two texts.
    #[must_use]
    pub fn compare(self, a: &[u8], b: &[u8]) -> Ordering {
        match self {
            Collation::Binary => a.cmp(b),
            Collation::Bin => trim(a).cmp(trim(b)),
            Collation::GeneralCi if a == b => Ordering::Equal,
            Collation::GeneralCi => compare_weights(trim(a), trim(b)),
        }
    }

    /// Appends bytes that compare as the texts do.
    pub fn sort_key(self, text: &[u8], out: &mut Vec<u8>) {
        match self {
            Collation::Binary => out.extend_from_slice(text),
            Collation::Bin => out.extend_from_slice(trim(text)),
            Collation::GeneralCi => {
                let text = trim(text);
                out.reserve(3 * text.len());
                let ascii = text.iter().take_while(|byte| byte.is_ascii()).count();
                for byte in &text[..ascii] {
                    out.extend_from_slice(&[0, 0, byte.to_ascii_uppercase()]);
                }
                for weight in weights(&text[ascii..]) {
                    out.extend_from_slice(&weight.to_be_bytes()[1..]);
                }
            }
        }
    }

    /// Appends bytes that are the same for texts that compare equal, and for no others: about as many as the text has.
    pub fn equal_key(self, text: &[u8], out: &mut Vec<u8>) {
        match self {
            Collation::Binary => out.extend_from_slice(text),
            Collation::Bin => out.extend_from_slice(trim(text)),
            Collation::GeneralCi => {
                let text = trim(text);
                let ascii = text.iter().position(|byte| !byte.is_ascii()).unwrap_or(text.len());
                let start = out.len();
                out.extend_from_slice(&text[..ascii]);
                out[start..].make_ascii_uppercase();
                for weight in weights(&text[ascii..]) {
                    match u8::try_from(weight) {
                        Ok(byte) if byte.is_ascii() => out.push(byte),
                        // No byte of the others is this one.
                        _ => {
                            out.push(0xFF);
                            out.extend_from_slice(&weight.to_be_bytes()[1..]);
                        }
                    }
                }
            }
        }
    }

    /// The beginning of a text as a number: of two texts, that of the lesser is not greater. Equal heads say nothing.
    #[must_use]
    #[inline]
    pub fn head(self, text: &[u8]) -> u64 {
        let text = if self == Collation::Binary { text } else { trim(text) };
        match (self, text.first_chunk().map(|first| u64::from_be_bytes(*first))) {
            (Collation::Binary | Collation::Bin, Some(first)) => first,
            (Collation::GeneralCi, Some(first)) if first & NOT_ASCII == 0 => capitals(first),
            _ => self.head_of_any(text),
        }
    }

    /// As [`Collation::head`], of a text without trailing spaces that count for nothing.
    fn head_of_any(self, text: &[u8]) -> u64 {
        let mut head = [0; 8];
        let len = text.len().min(8);
        head[..len].copy_from_slice(&text[..len]);
        if self == Collation::GeneralCi {
            let ascii = head[..len].iter().position(|byte| !byte.is_ascii()).unwrap_or(len);
            head[..ascii].make_ascii_uppercase();
            head[ascii..].fill(0);
            if ascii < len {
                for (byte, weight) in head[ascii..].iter_mut().zip(weights(&text[ascii..])) {
                    *byte = weight.min(0xFF) as u8;
                    if *byte == 0xFF {
                        // What weighs more than fits is told apart by nobody behind it.
                        break;
                    }
                }
            }
        }
        u64::from_be_bytes(head)
    }

    /// What a character counts for in comparisons.
    #[must_use]
    pub fn weight(self, c: char) -> u32 {
        if self == Collation::GeneralCi { weight(c) } else { c as u32 }
    }

    /// Whether a text is like a pattern: `%` is any text, `_` any character, and `escape` makes the next one
    /// literal.
    #[must_use]
    pub fn like(self, text: &str, pattern: &str, escape: Option<char>) -> bool {
        let fold = |c: char| self.weight(c);
        let text: Vec<u32> = text.chars().map(fold).collect();
        let mut parts = Vec::new();
        let mut chars = pattern.chars();
        while let Some(c) = chars.next() {
            parts.push(match c {
                c if Some(c) == escape => Part::Char(chars.next().map_or(fold(c), fold)),
                '%' => Part::Any,
                '_' => Part::One,
                c => Part::Char(fold(c)),
            });
        }
        like(&text, &parts)
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Part {
    Any,
    One,
    Char(u32),
}

/// Greedy matching with one place to go back to, which is enough for `%`.
fn like(text: &[u32], parts: &[Part]) -> bool {
    let (mut at, mut part) = (0, 0);
    let mut back: Option<(usize, usize)> = None;
    while at < text.len() {
        match parts.get(part) {
            Some(Part::Any) => {
                back = Some((part, at));
                part += 1;
                continue;
            }
            Some(Part::One) => {
                (at, part) = (at + 1, part + 1);
                continue;
            }
            Some(Part::Char(c)) if *c == text[at] => {
                (at, part) = (at + 1, part + 1);
                continue;
            }
            _ => {}
        }
        let Some((any, from)) = back else { return false };
        back = Some((any, from + 1));
        (at, part) = (from + 1, any + 1);
    }
    parts[part..].iter().all(|part| *part == Part::Any)
}

fn trim(text: &[u8]) -> &[u8] {
    let end = text.iter().rposition(|byte| *byte != b' ').map_or(0, |last| last + 1);
    &text[..end]
}

/// Compares by weights. ASCII, which most text is, needs no decoding: its weights are its capitals.
fn compare_weights(a: &[u8], b: &[u8]) -> Ordering {
    for (at, (x, y)) in a.iter().zip(b).enumerate() {
        if !x.is_ascii() || !y.is_ascii() {
            return weights(&a[at..]).cmp(weights(&b[at..]));
        }
        let order = x.to_ascii_uppercase().cmp(&y.to_ascii_uppercase());
        if order.is_ne() {
            return order;
        }
    }
    a.len().cmp(&b.len())
}

fn weights(text: &[u8]) -> impl Iterator<Item = u32> + '_ {
    text.utf8_chunks().flat_map(|chunk| {
        chunk
            .valid()
            .chars()
            .map(weight)
            .chain(chunk.invalid().iter().map(|byte| 0x11_0000 + u32::from(*byte)))
    })
}

/// The weight of a character: its upper case, without accent for the Latin letters that have one.
fn weight(c: char) -> u32 {
    if c.is_ascii() {
        return u32::from(c.to_ascii_uppercase());
    }
    let base = match c {
        'À'..='Å' | 'à'..='å' | 'Ā'..='ą' => 'A',
        'Ç' | 'ç' | 'Ć'..='č' => 'C',
        'Ď'..='ď' => 'D',
        'È'..='Ë' | 'è'..='ë' | 'Ē'..='ě' => 'E',
        'Ĝ'..='ģ' => 'G',
        'Ì'..='Ï' | 'ì'..='ï' | 'Ĩ'..='İ' => 'I',
        'Ñ' | 'ñ' | 'Ń'..='ň' => 'N',
        'Ò'..='Ö' | 'ò'..='ö' | 'Ō'..='ő' => 'O',
        'Ŕ'..='ř' => 'R',
        'Ś'..='š' | 'ß' => 'S',
        'Ţ'..='ť' => 'T',
        'Ù'..='Ü' | 'ù'..='ü' | 'Ũ'..='ų' => 'U',
        'Ý' | 'ý' | 'ÿ' | 'Ŷ'..='Ÿ' => 'Y',
        'Ź'..='ž' => 'Z',
        other => {
            let mut upper = other.to_uppercase();
            return match (upper.next(), upper.next()) {
                // Characters past the basic plane weigh the same, as in MySQL.
                (Some(upper), None) if (upper as u32) < 0x1_0000 => upper as u32,
                (Some(_), None) => 0xFFFD,
                _ => other as u32,
            };
        }
    };
    base as u32
}
