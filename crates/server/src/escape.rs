//! Converts statements that are not UTF-8. Clients put binary data into quoted literals; such a
//! literal becomes a hexadecimal literal.

use spillway_sql::SqlError;

/// Converts a statement to text: a literal with bytes that are not UTF-8 becomes a hexadecimal
/// literal of the same bytes. `backslash` is whether a backslash escapes the next character.
///
/// # Errors
/// 1300 if such bytes are outside of literals and comments.
pub(crate) fn escape_bytes(sql: &[u8], backslash: bool) -> Result<String, SqlError> {
    let mut out = String::with_capacity(sql.len() * 2);
    let mut at = 0;
    while at < sql.len() {
        let start = at;
        match sql[at] {
            quote @ (b'\'' | b'"') => {
                let (content, end) = read_literal(sql, at, quote, backslash);
                at = end;
                if std::str::from_utf8(&content).is_ok() {
                    put_text(&mut out, &sql[start..at])?;
                } else {
                    put_hexadecimal(&mut out, &content);
                }
            }
            b'`' => {
                at += 1 + sql[at + 1..].iter().position(|byte| *byte == b'`').unwrap_or(sql.len());
                at = (at + 1).min(sql.len());
                put_text(&mut out, &sql[start..at])?;
            }
            _ => match comment_end(sql, at) {
                Some(end) => {
                    at = end;
                    out.push_str(&String::from_utf8_lossy(&sql[start..at]));
                }
                None => {
                    at += 1;
                    while at < sql.len()
                        && !matches!(sql[at], b'\'' | b'"' | b'`' | b'#' | b'-' | b'/')
                    {
                        at += 1;
                    }
                    put_text(&mut out, &sql[start..at])?;
                }
            },
        }
    }
    Ok(out)
}

fn put_text(out: &mut String, bytes: &[u8]) -> Result<(), SqlError> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let wrong = &bytes[error.valid_up_to()..];
        let shown: String = wrong.iter().take(6).map(|byte| format!("\\x{byte:02X}")).collect();
        SqlError::new(1300, format!("Invalid utf8mb4 character string: '{shown}'"))
    })?;
    out.push_str(text);
    Ok(())
}

fn put_hexadecimal(out: &mut String, content: &[u8]) {
    // A hexadecimal literal is a binary string already, so the introducer is dropped.
    const INTRODUCER: &str = "_binary";
    let before = out.trim_end();
    let cut = before.len().saturating_sub(INTRODUCER.len());
    if before.as_bytes()[cut..].eq_ignore_ascii_case(INTRODUCER.as_bytes()) {
        out.truncate(cut);
    }
    out.push_str("X'");
    for byte in content {
        for digit in [byte >> 4, byte & 15] {
            out.push(char::from(b"0123456789ABCDEF"[usize::from(digit)]));
        }
    }
    out.push('\'');
}

/// The bytes of a literal, and its end. A literal without an end extends to the end of the
/// statement.
fn read_literal(sql: &[u8], start: usize, quote: u8, backslash: bool) -> (Vec<u8>, usize) {
    let mut content = Vec::new();
    let mut at = start + 1;
    while at < sql.len() {
        match sql[at] {
            b'\\' if backslash && at + 1 < sql.len() => {
                match sql[at + 1] {
                    b'0' => content.push(0),
                    b'n' => content.push(b'\n'),
                    b'r' => content.push(b'\r'),
                    b't' => content.push(b'\t'),
                    b'b' => content.push(8),
                    b'Z' => content.push(26),
                    // These keep their backslash, for patterns.
                    wild @ (b'%' | b'_') => content.extend_from_slice(&[b'\\', wild]),
                    other => content.push(other),
                }
                at += 2;
            }
            byte if byte == quote && sql.get(at + 1) == Some(&quote) => {
                content.push(quote);
                at += 2;
            }
            byte if byte == quote => return (content, at + 1),
            byte => {
                content.push(byte);
                at += 1;
            }
        }
    }
    (content, at)
}

/// The end of the comment that begins here, if one does.
fn comment_end(sql: &[u8], at: usize) -> Option<usize> {
    let rest = &sql[at..];
    let dashes = rest.starts_with(b"--") && rest.get(2).is_none_or(u8::is_ascii_whitespace);
    if rest.starts_with(b"#") || dashes {
        Some(rest.iter().position(|byte| *byte == b'\n').map_or(sql.len(), |end| at + end + 1))
    } else if rest.starts_with(b"/*") && rest.get(2) != Some(&b'!') {
        let end = rest[2..].windows(2).position(|pair| pair == b"*/");
        Some(end.map_or(sql.len(), |end| at + end + 4))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn escaped(sql: &[u8]) -> String {
        escape_bytes(sql, true).unwrap()
    }

    #[test]
    fn only_literals_that_are_no_text_change() {
        assert_eq!(escaped(b"SELECT 'a', '\xFF\\0\\%'''"), "SELECT 'a', X'FF005C2527'");
        assert_eq!(escaped(b"VALUES (_binary '\xFF', _BINARY\"\xFE\")"), "VALUES (X'FF', X'FE')");
        assert_eq!(
            escaped(b"SELECT '\xC3\xBC\\'' -- it's \xFF\n, '\xFF'"),
            "SELECT 'ü\\'' -- it's \u{FFFD}\n, X'FF'"
        );
        assert_eq!(
            escaped(b"SELECT `it's`, /* it's */ 5 - 3 / 1 # it's\n, '\xFF"),
            "SELECT `it's`, /* it's */ 5 - 3 / 1 # it's\n, X'FF'"
        );
    }

    #[test]
    fn other_places_have_no_such_bytes() {
        for sql in [&b"SELECT \xFF"[..], b"SELECT `\xFF`", b"SELECT '' AS \xC3(", b"/*! \xFF */"] {
            assert_eq!(escape_bytes(sql, true).unwrap_err().code, 1300, "{sql:?}");
        }
        let mut rng = spillway_base::rng::Rng::new(3);
        for _ in 0..20_000 {
            let alphabet = b"'\"`\\-#/*! \n\xFFa%";
            let sql: Vec<u8> = (0..rng.below(30))
                .map(|_| alphabet[rng.below(alphabet.len() as u64) as usize])
                .collect();
            let _ = escape_bytes(&sql, true);
        }
    }
}
