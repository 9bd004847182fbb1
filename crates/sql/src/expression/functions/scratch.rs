//! The memory that functions take besides their result (VALUE-MEMORY-1).

use spillway_types::Value;

use super::scalar::Scalar;
use crate::expression::value_memory::length;

/// The bytes that a member of an object or an array of JSON takes while it is written again.
const JSON_MEMBER: usize = 160;

impl Scalar {
    /// The most bytes that a call takes while it runs: for copies of its arguments, which have
    /// `taken` bytes, and for a result that is not much longer than they are. The functions whose
    /// result may be much longer hold its bytes themselves (`Context::hold`).
    pub(super) fn scratch(self, args: &[Value], taken: usize) -> usize {
        use Scalar as S;
        taken.saturating_mul(match self {
            S::Length | S::OctetLength | S::BitLength | S::CharLength | S::CharacterLength => 0,
            // Each character becomes a number of four bytes. Besides, there are two copies of the
            // arguments and one of the result.
            S::Substring
            | S::Substr
            | S::Mid
            | S::Left
            | S::Right
            | S::SubstringIndex
            | S::Trim
            | S::Ltrim
            | S::Rtrim
            | S::TrimBoth
            | S::TrimLead
            | S::TrimTrail
            | S::Reverse
            | S::Lpad
            | S::Rpad => 7,
            // The same, and the characters of the result.
            S::Insert => 11,
            S::ToBase64 => 5,
            S::Hex | S::Quote | S::Upper | S::Ucase | S::Lower | S::Lcase => 4,
            // A sign may become six.
            S::JsonArray | S::JsonObject | S::JsonValue => 14,
            S::JsonExtract => {
                let commas = |text: &String| text.bytes().filter(|byte| *byte == b',').count();
                let members = match args.first() {
                    Some(Value::Text(text)) if length(&args[0]) > 1024 => commas(text),
                    _ => 0,
                };
                return 4 * taken + members * JSON_MEMBER;
            }
            _ => 3,
        })
    }
}
