//! The comparison of text.
//!
//! | collation | compares | trailing spaces |
//! |---|---|---|
//! | `utf8mb4_general_ci` | one weight for each character (`general`) | PAD SPACE |
//! | `utf8mb4_unicode_ci`, `utf8mb4_unicode_520_ci` | letters, by the Unicode Collation Algorithm (`unicode`) | PAD SPACE |
//! | `utf8mb4_0900_ai_ci`, `_as_ci`, `_as_cs` | letters; letters and accents; letters, accents and case: by the same algorithm | NO PAD |
//! | `utf8mb4_bin` | code points | PAD SPACE |
//! | `utf8mb4_0900_bin` | code points | NO PAD |
//! | `binary` | bytes | NO PAD |
//!
//! A collation with PAD SPACE compares each text as if infinitely many spaces followed it. So
//! trailing spaces make no difference, and a control character sorts before the end of a text:
//! `'a\t' < 'a' = 'a ' < 'a!'`.
//!
//! MySQL takes the weights of the Unicode Collation Algorithm from versions 4.0, 5.2 and 9.0 of
//! Unicode's table; here all weights come from one newer version of that table. Letters compare the
//! same under all these versions. The order of symbols, and of letters that Unicode added later,
//! may differ from MySQL's.

mod general;
#[cfg(test)]
mod tests;
mod unicode;

use std::cmp::Ordering;
use std::str::Chars;

use serde::{Deserialize, Serialize};

use crate::text::{NOT_ASCII, capitals};
use unicode::Level;

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
    /// `utf8mb4_unicode_ci`: the Unicode Collation Algorithm; characters past the basic plane are
    /// equal.
    UnicodeCi,
    /// `utf8mb4_unicode_520_ci`: the Unicode Collation Algorithm.
    Unicode520Ci,
    /// `utf8mb4_0900_ai_ci`: as [`Collation::Unicode520Ci`], but trailing spaces count.
    Unicode0900AiCi,
    /// `utf8mb4_0900_as_ci`: accents count.
    Unicode0900AsCi,
    /// `utf8mb4_0900_as_cs`: accents and case count.
    Unicode0900AsCs,
    /// `utf8mb4_0900_bin`: by code point; trailing spaces count.
    Bin0900,
}

use Collation::{
    Bin, Bin0900, Binary, GeneralCi, Unicode520Ci, Unicode0900AiCi, Unicode0900AsCi,
    Unicode0900AsCs, UnicodeCi,
};

/// Each collation's name and number in MySQL.
const NAMES: [(Collation, &str, u16); 9] = [
    (GeneralCi, "utf8mb4_general_ci", 45),
    (Bin, "utf8mb4_bin", 46),
    (Binary, "binary", 63),
    (UnicodeCi, "utf8mb4_unicode_ci", 224),
    (Unicode520Ci, "utf8mb4_unicode_520_ci", 246),
    (Unicode0900AiCi, "utf8mb4_0900_ai_ci", 255),
    (Unicode0900AsCi, "utf8mb4_0900_as_ci", 305),
    (Unicode0900AsCs, "utf8mb4_0900_as_cs", 278),
    (Bin0900, "utf8mb4_0900_bin", 309),
];

impl Collation {
    /// All collations.
    pub const ALL: [Collation; NAMES.len()] = {
        let mut all = [GeneralCi; NAMES.len()];
        let mut at = 0;
        while at < all.len() {
            all[at] = NAMES[at].0;
            at += 1;
        }
        all
    };

    /// The collation of this name, or the default collation of the character set of this name. Text
    /// is always stored as UTF-8, so names of the general and binary collations of other character
    /// sets give those of `utf8mb4`. MariaDB's names for the same orders are known, too. `None` for
    /// collations that are tailored to one language.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Collation> {
        let name = name.to_ascii_lowercase();
        if name == "binary" {
            return Some(Binary);
        }
        let (charset, rest) = name.split_once('_').unwrap_or((&name, ""));
        match charset {
            "utf8mb4" | "utf8mb3" | "utf8" | "uca1400" => {}
            "latin1" | "ascii" | "latin2" | "cp1252" => {
                return match rest {
                    "" | "general_ci" | "swedish_ci" => Some(GeneralCi),
                    "bin" | "general_cs" => Some(Bin),
                    _ => None,
                };
            }
            _ => return None,
        }
        let rest = if charset == "uca1400" { &*name } else { rest };
        Some(match rest {
            "" | "general_ci" => GeneralCi,
            "bin" => Bin,
            "unicode_ci" => UnicodeCi,
            "unicode_520_ci" | "uca1400_ai_ci" => Unicode520Ci,
            "0900_ai_ci" | "uca1400_nopad_ai_ci" => Unicode0900AiCi,
            "0900_as_ci" | "uca1400_nopad_as_ci" => Unicode0900AsCi,
            "0900_as_cs" | "uca1400_nopad_as_cs" => Unicode0900AsCs,
            "0900_bin" | "nopad_bin" => Bin0900,
            _ => return None,
        })
    }

    /// MySQL's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.named().1
    }

    /// MySQL's number, as the protocol uses it.
    #[must_use]
    pub fn id(self) -> u16 {
        self.named().2
    }

    fn named(self) -> &'static (Collation, &'static str, u16) {
        NAMES.iter().find(|(collation, ..)| *collation == self).expect("each collation has a name")
    }

    /// The name of the collation's character set.
    #[must_use]
    pub fn charset(self) -> &'static str {
        match self {
            Binary => "binary",
            _ => "utf8mb4",
        }
    }

    /// Whether this is the default collation of its character set.
    #[must_use]
    pub fn is_default(self) -> bool {
        matches!(self, GeneralCi | Binary)
    }

    /// Whether texts compare as if spaces without end followed them (PAD SPACE).
    #[must_use]
    pub fn pads(self) -> bool {
        self.padding().is_some()
    }

    /// With PAD SPACE, the weights of spaces as [`Collation::sort_key`] writes them, for eight
    /// bytes.
    #[must_use]
    #[inline]
    pub fn padding(self) -> Option<[u8; 8]> {
        match self {
            GeneralCi => Some([0, b' ', 0, b' ', 0, b' ', 0, b' ']),
            Bin => Some([b' '; 8]),
            UnicodeCi | Unicode520Ci => Some([unicode::SPACE; 8]),
            Binary | Unicode0900AiCi | Unicode0900AsCi | Unicode0900AsCs | Bin0900 => None,
        }
    }

    /// Whether texts that differ only in case are equal.
    #[must_use]
    pub fn ignores_case(self) -> bool {
        matches!(self, GeneralCi | UnicodeCi | Unicode520Ci | Unicode0900AiCi | Unicode0900AsCi)
    }

    /// Whether texts are equal only if their bytes are, except for ignored trailing spaces.
    #[must_use]
    pub fn is_bytewise(self) -> bool {
        matches!(self, Bin | Binary | Bin0900)
    }

    /// Whether all texts that are equal by `finer` are equal by this collation too.
    #[must_use]
    pub fn is_coarser_than(self, finer: Collation) -> bool {
        self == finer || finer.is_bytewise() && (self.pads() || !finer.pads())
    }

    /// Which differences count, for a collation by the Unicode Collation Algorithm.
    fn level(self) -> Option<Level> {
        match self {
            UnicodeCi | Unicode520Ci | Unicode0900AiCi => Some(Level::Primary),
            Unicode0900AsCi => Some(Level::Secondary),
            Unicode0900AsCs => Some(Level::Tertiary),
            GeneralCi | Bin | Binary | Bin0900 => None,
        }
    }

    /// The text without the trailing spaces that PAD SPACE ignores.
    fn compared(self, text: &[u8]) -> &[u8] {
        if self.pads() { trim(text) } else { text }
    }

    /// A text for the Unicode Collation Algorithm with PAD SPACE, with this many spaces behind it.
    fn with_spaces(self, text: &[u8], spaces: usize) -> Vec<u8> {
        let mut padded = Vec::with_capacity(text.len() + spaces);
        // Characters of four bytes in UTF-8 begin with 0xF0 or more.
        if self == UnicodeCi && text.iter().any(|byte| *byte >= 0xF0) {
            let plain = |c| if c > '\u{FFFF}' { '\u{FFFD}' } else { c };
            let text: String = String::from_utf8_lossy(text).chars().map(plain).collect();
            padded.extend_from_slice(text.as_bytes());
        } else {
            padded.extend_from_slice(text);
        }
        padded.resize(padded.len() + spaces, b' ');
        padded
    }

    /// Compares two texts.
    #[must_use]
    pub fn compare(self, a: &[u8], b: &[u8]) -> Ordering {
        match self {
            Binary | Bin0900 => a.cmp(b),
            Bin => {
                let (common_a, common_b, rests) = common(a, b);
                common_a.cmp(common_b).then(rests)
            }
            _ if a == b => Ordering::Equal,
            GeneralCi => compare_weights(a, b),
            UnicodeCi | Unicode520Ci => self.compare_padded(trim(a), trim(b)),
            Unicode0900AiCi => unicode::compare(Level::Primary, a, b),
            Unicode0900AsCi => unicode::compare(Level::Secondary, a, b),
            Unicode0900AsCs => unicode::compare(Level::Tertiary, a, b),
        }
    }

    /// Compares two texts, without their trailing spaces, by the Unicode Collation Algorithm with
    /// PAD SPACE.
    fn compare_padded(self, a: &[u8], b: &[u8]) -> Ordering {
        // These characters weigh as much as a space or more, and only the space weighs as much.
        let is_simple = |text: &[u8]| text.iter().all(|byte| matches!(byte, b' '..=b'~'));
        if is_simple(a) && is_simple(b) {
            return unicode::compare(Level::Primary, a, b);
        }
        // Either text itself has fewer spaces than one of them gets here. So a weight of one text
        // that follows the end of the other is compared with a space, unless it is one. If the
        // texts differ only in spaces at their ends, the one that gets more is the greater.
        let spaces = unicode::spaces_max(a).max(unicode::spaces_max(b)) + 1;
        let [a, b] = [a, b].map(|text| self.with_spaces(text, 2 * spaces));
        let fewer = |text: &Vec<u8>| text.len() - spaces;
        if unicode::compare(Level::Primary, &a[..fewer(&a)], &b).is_gt() {
            return Ordering::Greater;
        }
        match unicode::compare(Level::Primary, &a, &b[..fewer(&b)]) {
            Ordering::Less => Ordering::Less,
            _ => Ordering::Equal,
        }
    }

    /// Appends bytes whose order is that of the texts. With PAD SPACE, they have this order if
    /// [`Collation::padding`] follows them without end. They do not end with padding.
    pub fn sort_key(self, text: &[u8], out: &mut Vec<u8>) {
        match self.level() {
            Some(level) if self.pads() => {
                let start = out.len();
                // The algorithm may write a byte between a character and a space (it compresses
                // sequences of letters of one script), so it must see a space.
                unicode::sort_key(level, &self.with_spaces(trim(text), 1), out);
                let end = out[start..].iter().rposition(|byte| *byte != unicode::SPACE);
                out.truncate(start + end.map_or(0, |last| last + 1));
            }
            Some(level) => unicode::sort_key(level, text, out),
            None if self == GeneralCi => {
                let text = trim(text);
                let ascii = text.iter().position(|byte| !byte.is_ascii()).unwrap_or(text.len());
                let start = out.len();
                out.resize(start + 2 * ascii, 0);
                for (weight, byte) in out[start..].as_chunks_mut::<2>().0.iter_mut().zip(text) {
                    weight[1] = byte.to_ascii_uppercase();
                }
                for weight in weights(&text[ascii..]) {
                    out.extend_from_slice(&weight.to_be_bytes());
                }
            }
            None => out.extend_from_slice(self.compared(text)),
        }
    }

    /// Appends bytes that are equal exactly if the texts compare equal. They are about as many as
    /// those of the text.
    pub fn equal_key(self, text: &[u8], out: &mut Vec<u8>) {
        if self != GeneralCi {
            return self.sort_key(text, out);
        }
        let text = trim(text);
        let ascii = text.iter().position(|byte| !byte.is_ascii()).unwrap_or(text.len());
        let start = out.len();
        out.extend_from_slice(&text[..ascii]);
        out[start..].make_ascii_uppercase();
        for weight in weights(&text[ascii..]) {
            match u8::try_from(weight) {
                Ok(byte) if byte.is_ascii() => out.push(byte),
                // No single-byte weight is 0xFF.
                _ => {
                    out.push(0xFF);
                    out.extend_from_slice(&weight.to_be_bytes());
                }
            }
        }
    }

    /// The beginning of a text as a number that never falls as texts rise. So a smaller number
    /// means a lesser text; equal numbers decide nothing.
    #[must_use]
    #[inline]
    pub fn head(self, text: &[u8]) -> u64 {
        let text = self.compared(text);
        match (self, text.first_chunk().map(|first| u64::from_be_bytes(*first))) {
            (Binary | Bin | Bin0900, Some(first)) => first,
            (GeneralCi, Some(first)) if first & NOT_ASCII == 0 => capitals(first),
            // The algorithm compares more than one character at a time.
            _ if self.level().is_some() => 0,
            _ => self.head_of_any(text),
        }
    }

    /// As [`Collation::head`], for a text without ignored trailing spaces.
    fn head_of_any(self, text: &[u8]) -> u64 {
        let mut head = if self.pads() { [b' '; 8] } else { [0; 8] };
        let len = text.len().min(8);
        let ascii = match self {
            GeneralCi => text[..len].iter().position(|byte| !byte.is_ascii()).unwrap_or(len),
            _ => len,
        };
        head[..ascii].copy_from_slice(&text[..ascii]);
        if self == GeneralCi {
            head[..ascii].make_ascii_uppercase();
            for (at, weight) in (ascii..8).zip(weights(&text[ascii..])) {
                head[at] = weight.min(0xFF) as u8;
                if head[at] == 0xFF {
                    // A weight that was clipped ends the number: later characters must not
                    // distinguish texts whose clipped weights are equal.
                    head[at + 1..].fill(0);
                    break;
                }
            }
        }
        u64::from_be_bytes(head)
    }

    /// A number that two characters have in common if they compare equal on their own.
    #[must_use]
    pub fn weight(self, c: char) -> u64 {
        match self.level() {
            Some(_) if self == UnicodeCi && c > '\u{FFFF}' => self.weight('\u{FFFD}'),
            Some(level) => unicode::weight(level, c),
            None if self == GeneralCi => general::weight(c).into(),
            None => c.into(),
        }
    }

    /// Whether a text matches a LIKE pattern: `%` is any text, `_` any character, and `escape`
    /// makes the next character literal. Characters are compared one by one, as in MySQL: `ß` does
    /// not match `ss`.
    #[must_use]
    pub fn like(self, text: &str, pattern: &str, escape: Option<char>) -> bool {
        let fold = |c: char| self.weight(c);
        let next_part = |pattern: &mut Chars<'_>| {
            Some(match pattern.next()? {
                c if Some(c) == escape => PatternPart::Char(pattern.next().map_or(fold(c), fold)),
                '%' => PatternPart::Any,
                '_' => PatternPart::One,
                c => PatternPart::Char(fold(c)),
            })
        };
        // Greedy matching that can go back to the last `%`, which is enough. It takes no memory,
        // because texts and patterns may have many megabytes.
        let (mut text, mut pattern) = (text.chars(), pattern.chars());
        let mut back: Option<(Chars<'_>, Chars<'_>)> = None;
        loop {
            let part = next_part(&mut pattern);
            if part == Some(PatternPart::Any) {
                back = Some((text.clone(), pattern.clone()));
                continue;
            }
            let matches = match (text.next(), part) {
                (None, part) => return part.is_none(),
                (Some(_), Some(PatternPart::One)) => true,
                (Some(c), Some(PatternPart::Char(weight))) => weight == fold(c),
                (Some(_), _) => false,
            };
            if !matches {
                let Some((from, after)) = &mut back else { return false };
                from.next();
                (text, pattern) = (from.clone(), after.clone());
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum PatternPart {
    Any,
    One,
    Char(u64),
}

fn trim(text: &[u8]) -> &[u8] {
    let end = text.iter().rposition(|byte| *byte != b' ').map_or(0, |last| last + 1);
    &text[..end]
}

/// The parts of two texts that have the same length, and the order of the rests: one is empty, and
/// the other is compared with spaces. All bytes of characters past ASCII are above the space, as
/// the characters are.
fn common<'t>(a: &'t [u8], b: &'t [u8]) -> (&'t [u8], &'t [u8], Ordering) {
    let with_spaces = |rest: &[u8]| {
        let first = rest.iter().find(|byte| **byte != b' ');
        first.map_or(Ordering::Equal, |byte| byte.cmp(&b' '))
    };
    let len = a.len().min(b.len());
    let ((a, rest_a), (b, rest_b)) = (a.split_at(len), b.split_at(len));
    (a, b, with_spaces(rest_a).then(with_spaces(rest_b).reverse()))
}

/// Compares by weights, with PAD SPACE. ASCII, which most text is, needs no decoding: its weights
/// are its capitals.
fn compare_weights(a: &[u8], b: &[u8]) -> Ordering {
    for (at, (x, y)) in a.iter().zip(b).enumerate() {
        if !x.is_ascii() || !y.is_ascii() {
            return compare_decoded(&a[at..], &b[at..]);
        }
        let order = x.to_ascii_uppercase().cmp(&y.to_ascii_uppercase());
        if order.is_ne() {
            return order;
        }
    }
    common(a, b).2
}

fn compare_decoded(a: &[u8], b: &[u8]) -> Ordering {
    let (mut a, mut b) = (weights(a), weights(b));
    loop {
        let (x, y) = (a.next(), b.next());
        if x.is_none() && y.is_none() {
            return Ordering::Equal;
        }
        let order = x.unwrap_or(b' '.into()).cmp(&y.unwrap_or(b' '.into()));
        if order.is_ne() {
            return order;
        }
    }
}

/// The weights of a text's characters. Bytes that are not UTF-8 weigh U+FFFD.
fn weights(text: &[u8]) -> impl Iterator<Item = u16> + '_ {
    text.utf8_chunks().flat_map(|chunk| {
        let invalid = (!chunk.invalid().is_empty()).then_some('\u{FFFD}');
        chunk.valid().chars().chain(invalid).map(general::weight)
    })
}
