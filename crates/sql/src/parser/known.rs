//! MySQL's constructs that `sqlparser` does not know. If a statement cannot be parsed, this module
//! searches the statement for these constructs. The error then names the construct, and only real
//! syntax errors are reported as syntax errors.

use sqlparser::tokenizer::Token;

use super::table_names::word;
use crate::errors::SqlError;

/// For each construct: the first word of the statements that may contain it, empty for any
/// statement; its consecutive words, with `*` for any one token; and its name.
const KNOWN: &[(&str, &str, &str)] = &[
    ("", "into outfile", "SELECT ... INTO OUTFILE"),
    ("", "into dumpfile", "SELECT ... INTO DUMPFILE"),
    ("select", "into *", "SELECT ... INTO"),
    ("select", "procedure analyse", "PROCEDURE ANALYSE"),
    ("", "sounds like", "SOUNDS LIKE"),
    ("", "zerofill", "ZEROFILL"),
    ("create", "partition by", "PARTITION BY"),
    ("alter", "partition", "ALTER TABLE ... PARTITION"),
    ("alter", "partitions", "ALTER TABLE ... PARTITION"),
    ("alter", "partitioning", "ALTER TABLE ... PARTITION"),
    ("alter", "order by", "ALTER TABLE ... ORDER BY"),
    ("alter", "discard tablespace", "DISCARD TABLESPACE"),
    ("alter", "import tablespace", "IMPORT TABLESPACE"),
    ("alter", "with validation", "WITH VALIDATION"),
    ("alter", "without validation", "WITHOUT VALIDATION"),
    ("", "group by * asc", "GROUP BY ... ASC"),
    ("", "group by * desc", "GROUP BY ... DESC"),
    ("", "with rollup", "WITH ROLLUP"),
    ("", "json_table", "JSON_TABLE"),
    ("", "generated always", "generated columns"),
    ("", "fulltext", "FULLTEXT"),
    ("", "spatial", "SPATIAL"),
    ("", "srid", "SRID"),
    ("select", "char * * * character set", "CHAR(n) CHARACTER SET in a cast"),
    ("select", "char * * * charset", "CHAR(n) CHARACTER SET in a cast"),
    ("select", "procedure", "PROCEDURE"),
    ("", "member of", "MEMBER OF"),
    ("", "lateral", "LATERAL"),
    ("", "natural left", "NATURAL LEFT JOIN"),
    ("", "natural right", "NATURAL RIGHT JOIN"),
];

/// The error for a statement that the parser refuses.
pub(super) fn refused(tokens: &[Token], error: impl std::fmt::Display) -> SqlError {
    let solid: Vec<&Token> =
        tokens.iter().filter(|token| !matches!(token, Token::Whitespace(_))).collect();
    let words: Vec<String> = solid.iter().map(|token| word(Some(token))).collect();
    let verb = words.first().map_or("", String::as_str);
    for (of, sequence, name) in KNOWN {
        let sequence: Vec<&str> = sequence.split(' ').collect();
        let found = (of.is_empty() || *of == verb)
            && words.windows(sequence.len()).any(|window| {
                window.iter().zip(&sequence).all(|(word, wanted)| *wanted == "*" || word == wanted)
            });
        if found {
            return SqlError::unsupported(name);
        }
    }
    SqlError::syntax(error)
}
