//! Character sets, as introducers (`_latin1 x'e4'`) and CONVERT(... USING ...) name them.
//!
//! All text in memory is UTF-8, even the result of a CONVERT to another character set. The binder
//! recognises such a result by its expression ([`charset_of`]). Functions of bytes, such as LENGTH
//! and HEX, first encode the result in its character set. Such a result can be an argument of these
//! functions and of casts, and it can be stored in a column or sent to the client. The binder
//! refuses it in all other places (1235): other functions would lose the character set, and
//! comparisons would need collations of that set.

use spillway_types::{Collation, ColumnType, Value};

use super::context::Context;
use super::functions::Scalar;
use super::{Expr, Typed};
use crate::errors::{Result, SqlError};

/// A character set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Charset {
    Ascii,
    /// Windows code page 1252, as in MySQL.
    Latin1,
    Utf8mb3,
    Utf8mb4,
    Binary,
    Ucs2,
    Utf16,
    Utf16le,
    Utf32,
}

/// Each supported character set, with its name and the name of its default collation.
const KEPT: [(Charset, &str, &str); 9] = [
    (Charset::Ascii, "ascii", "ascii_general_ci"),
    (Charset::Latin1, "latin1", "latin1_swedish_ci"),
    (Charset::Utf8mb3, "utf8mb3", "utf8mb3_general_ci"),
    (Charset::Utf8mb4, "utf8mb4", "utf8mb4_general_ci"),
    (Charset::Binary, "binary", "binary"),
    (Charset::Ucs2, "ucs2", "ucs2_general_ci"),
    (Charset::Utf16, "utf16", "utf16_general_ci"),
    (Charset::Utf16le, "utf16le", "utf16le_general_ci"),
    (Charset::Utf32, "utf32", "utf32_general_ci"),
];

/// MySQL's other character sets. They are not supported.
const OTHERS: &str = "armscii8 big5 cp1250 cp1251 cp1256 cp1257 cp850 cp852 cp866 cp932 dec8 eucjpms euckr gb18030 gb2312 \
                      gbk geostd8 greek hebrew hp8 keybcs2 koi8r koi8u latin2 latin5 latin7 macce macroman sjis swe7 \
                      tis620 ujis";

/// The characters of latin1 from 0x80 to 0x9f.
const LATIN1: &str = "€\u{81}‚ƒ„…†‡ˆ‰Š‹Œ\u{8d}Ž\u{8f}\u{90}‘’“”•–—˜™š›œ\u{9d}žŸ";

impl Charset {
    /// The character set with this name.
    ///
    /// # Errors
    /// 1115 if there is none, 1235 if it is not supported.
    pub(crate) fn find(name: &str) -> Result<Charset> {
        let name = name.trim_matches(['\'', '"', '`']).to_ascii_lowercase();
        let known = if name == "utf8" { "utf8mb3" } else { &name };
        if let Some((set, ..)) = KEPT.iter().find(|(_, kept, _)| *kept == known) {
            return Ok(*set);
        }
        if OTHERS.split_ascii_whitespace().any(|other| other == name) {
            return Err(SqlError::unsupported(format!("the character set {name}")));
        }
        Err(SqlError::new(1115, format!("Unknown character set: '{name}'")))
    }

    fn number(self) -> usize {
        KEPT.iter().position(|(set, ..)| *set == self).unwrap_or_default()
    }

    fn of_number(number: &Value) -> Option<Charset> {
        let Value::Int(number) = number else { return None };
        Some(KEPT.get(usize::try_from(*number).ok()?)?.0)
    }

    /// The name of the character set, and that of its default collation.
    pub(crate) fn names(self) -> (&'static str, &'static str) {
        let (_, name, collation) = KEPT[self.number()];
        (name, collation)
    }

    /// Whether text in this character set has the same bytes as in UTF-8.
    fn is_utf8(self) -> bool {
        matches!(self, Charset::Ascii | Charset::Utf8mb3 | Charset::Utf8mb4 | Charset::Binary)
    }

    fn has(self, c: char) -> bool {
        match self {
            Charset::Ascii => c.is_ascii(),
            Charset::Latin1 => latin1(c).is_some(),
            Charset::Utf8mb3 | Charset::Ucs2 => u32::from(c) <= 0xffff,
            _ => true,
        }
    }

    /// A text with `?` in place of the characters that the set lacks.
    fn held(self, text: &str) -> String {
        text.chars().map(|c| if self.has(c) { c } else { '?' }).collect()
    }

    /// Encodes a text whose characters are all in the set.
    fn encode(self, text: &str) -> Vec<u8> {
        let pairs = || text.encode_utf16();
        match self {
            Charset::Latin1 => text.chars().map(|c| latin1(c).unwrap_or(b'?')).collect(),
            Charset::Ucs2 | Charset::Utf16 => pairs().flat_map(u16::to_be_bytes).collect(),
            Charset::Utf16le => pairs().flat_map(u16::to_le_bytes).collect(),
            Charset::Utf32 => text.chars().flat_map(|c| u32::from(c).to_be_bytes()).collect(),
            _ => text.as_bytes().to_vec(),
        }
    }

    /// Decodes bytes; `None` if they are not valid in this set.
    fn decode(self, bytes: &[u8]) -> Option<String> {
        let width = match self {
            Charset::Ucs2 | Charset::Utf16 | Charset::Utf16le => 2,
            Charset::Utf32 => 4,
            Charset::Latin1 => return Some(bytes.iter().copied().map(of_latin1).collect()),
            _ => {
                let text = String::from_utf8(bytes.to_vec()).ok()?;
                return text.chars().all(|c| self.has(c)).then_some(text);
            }
        };
        // If bytes are missing for a whole character, zeros are put in front.
        let mut all = vec![0; bytes.len().next_multiple_of(width) - bytes.len()];
        all.extend_from_slice(bytes);
        let text = match self {
            Charset::Utf32 => all
                .chunks_exact(4)
                .map(|four| char::from_u32(u32::from_be_bytes(four.try_into().ok()?)))
                .collect::<Option<String>>()?,
            _ => {
                let unit = |two: &[u8]| match self {
                    Charset::Utf16le => u16::from_le_bytes([two[0], two[1]]),
                    _ => u16::from_be_bytes([two[0], two[1]]),
                };
                String::from_utf16(&all.chunks_exact(2).map(unit).collect::<Vec<_>>()).ok()?
            }
        };
        text.chars().all(|c| self.has(c)).then_some(text)
    }

    /// The value of a literal after an introducer: its bytes are in this character set.
    ///
    /// # Errors
    /// 1300 for bytes that are not valid in this character set.
    pub(crate) fn introduced(self, bytes: &[u8]) -> Result<Typed> {
        if self == Charset::Binary {
            return Ok(super::shape::typed_value(Value::Bytes(bytes.to_vec())));
        }
        let text = self.decode(bytes).ok_or_else(|| self.invalid(bytes))?;
        let same = self.is_utf8() || (self == Charset::Latin1 && text.is_ascii());
        let literal = super::shape::typed_value(Value::Text(text));
        Ok(if same { literal } else { self.convert(literal) })
    }

    #[cold]
    fn invalid(self, bytes: &[u8]) -> SqlError {
        let shown: String = bytes.iter().take(6).map(|byte| format!("{byte:02X}")).collect();
        let before = format!("Invalid {} character string: '", self.names().0);
        SqlError::quoting(1300, &before, &shown, "'")
    }

    /// CONVERT(... USING) of text or bytes.
    pub(crate) fn convert(self, text: Typed) -> Typed {
        let number = Expr::Const(Value::Int(self.number() as i64));
        let text = text.shown();
        Typed {
            expr: Expr::Call(Scalar::Converted, vec![text.expr, number], Collation::Binary),
            ty: if text.ty.is_text() { text.ty } else { ColumnType::VarChar(16_383) },
            collation: Collation::GeneralCi,
            nullable: true,
        }
    }
}

/// The character set of a text, if its bytes are not UTF-8.
pub(crate) fn charset_of(expr: &Expr) -> Option<Charset> {
    match expr {
        Expr::Call(Scalar::Converted, args, _) => match args.get(1) {
            Some(Expr::Const(number)) => Charset::of_number(number).filter(|set| !set.is_utf8()),
            _ => None,
        },
        _ => None,
    }
}

/// Refuses text in another character set where the set would be lost.
pub(crate) fn refuse_charset(expr: &Expr) -> Result<()> {
    match charset_of(expr) {
        None => Ok(()),
        Some(set) => {
            let name = set.names().0;
            Err(SqlError::unsupported(format!("text in the character set {name} here")))
        }
    }
}

/// Text in another character set as the bytes of that set; other values unchanged.
pub(crate) fn in_bytes(text: Typed) -> Typed {
    let Some(set) = charset_of(&text.expr) else { return text };
    let number = Expr::Const(Value::Int(set.number() as i64));
    Typed {
        expr: Expr::Call(Scalar::Encoded, vec![text.expr, number], Collation::Binary),
        ty: ColumnType::VarBinary(65_535),
        collation: Collation::Binary,
        nullable: text.nullable,
    }
}

/// Evaluates CONVERT(... USING), and the call that encodes its text. For bytes that are not valid
/// text, the result is NULL with warning 1300.
pub(super) fn converted(context: &Context<'_>, call: Scalar, args: &[Value]) -> Result<Value> {
    let Some(set) = Charset::of_number(&args[1]) else { return Ok(Value::Null) };
    Ok(match (&args[0], call) {
        (Value::Null, _) => Value::Null,
        (value, Scalar::Encoded) => Value::Bytes(set.encode(&value.to_text())),
        (Value::Bytes(bytes), _) => match set.decode(bytes) {
            Some(text) => Value::Text(text),
            None => {
                context.raise(set.invalid(bytes))?;
                Value::Null
            }
        },
        (value, _) => Value::Text(set.held(&value.to_text())),
    })
}

/// The byte that encodes a character in latin1.
fn latin1(c: char) -> Option<u8> {
    match u32::from(c) {
        0x80..0xa0 | 0x100.. => {
            let at = LATIN1.chars().position(|other| other == c)?;
            Some(0x80 + at as u8)
        }
        code => u8::try_from(code).ok(),
    }
}

fn of_latin1(byte: u8) -> char {
    match byte {
        0x80..0xa0 => LATIN1.chars().nth(usize::from(byte) - 0x80).unwrap_or('?'),
        _ => char::from(byte),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_of_latin1_is_one_character_and_back() {
        let bytes: Vec<u8> = (0..=255).collect();
        let text = Charset::Latin1.decode(&bytes).unwrap();
        assert_eq!(text.chars().count(), 256);
        assert_eq!(Charset::Latin1.encode(&text), bytes);
        assert_eq!(Charset::Latin1.held("ä€世"), "ä€?");
    }

    #[test]
    fn texts_come_back_from_every_set_that_has_them() {
        for set in [Charset::Utf8mb4, Charset::Utf16, Charset::Utf16le, Charset::Utf32] {
            assert_eq!(set.decode(&set.encode("aä世🍣")).as_deref(), Some("aä世🍣"));
        }
        assert_eq!(Charset::Ucs2.decode(&Charset::Ucs2.encode("aä世")).as_deref(), Some("aä世"));
        assert_eq!(Charset::Utf16.decode(b"\xd8\x3c"), None);
        assert_eq!(Charset::Ascii.decode(b"\xe4"), None);
        assert_eq!(Charset::Utf8mb3.held("a🍣"), "a?");
    }
}
