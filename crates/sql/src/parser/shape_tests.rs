use super::*;
use crate::parser::parse_expr;

fn read(sql: &str) -> Option<(String, String)> {
    let mut shape = Shape::default();
    shape.read(sql, TextMode::default()).then(|| {
        let values: Vec<String> = shape.values.iter().map(|value| format!("{value:?}")).collect();
        (shape.text().to_owned(), values.join(" "))
    })
}

#[test]
fn literals_that_say_which_rows_are_taken_out() {
    let cases = [
        ("SELECT c FROM t WHERE id=5", "SELECT c FROM t WHERE id=?", "Int(5)"),
        (
            "select 1, 'x' from `a b` where (k > -3 and k<=0.5) or n = 'it''s' order by 1 limit 2, 10",
            "select 1, 'x' from `a b` where (k > ? and k<=?) or n = ? order by 1 limit ?, ?",
            "Int(-3) Decimal(Decimal { digits: 5, scale: 1 }) Text(\"it's\") Int(2) Int(10)",
        ),
        (
            "SELECT * FROM t WHERE a BETWEEN 1 AND 2e3 AND b IN (1, 'b', NULL) AND f(1, 2) = 3",
            "SELECT * FROM t WHERE a BETWEEN ? AND ? AND b IN (?, ?, NULL) AND f(1, 2) = ?",
            "Int(1) Double(2000.0) Int(1) Text(\"b\") Int(3)",
        ),
        (
            "SELECT a FROM t WHERE d = DATE '2020-01-01' AND e = 'a' 'b' AND x LIKE 'q%' ESCAPE '|'",
            "SELECT a FROM t WHERE d = DATE '2020-01-01' AND e = 'a' 'b' AND x LIKE ? ESCAPE '|'",
            "Text(\"q%\")",
        ),
        (
            "SELECT a FROM t WHERE id IN (SELECT 7 FROM u WHERE b = 8) AND c = 9 GROUP BY a, 1 HAVING a = 2",
            "SELECT a FROM t WHERE id IN (SELECT 7 FROM u WHERE b = ?) AND c = ? GROUP BY a, 1 HAVING a = 2",
            "Int(8) Int(9)",
        ),
        (
            "UPDATE t SET k=k+1, c='\\n\\%' /* why */ WHERE t.limit = 4 -- end",
            "UPDATE t SET k=k+?, c=? WHERE t.limit = ? ",
            "Int(1) Text(\"\\n\\\\%\") Int(4)",
        ),
        (
            "UPDATE t SET a=a-7, b = b - -1.5, c = -2 + c, d = +3, e = e*2 + 4, f = - 5 WHERE g -8>9",
            "UPDATE t SET a=a-?, b = b - ?, c = ? + c, d = +3, e = e*2 + ?, f = - 5 WHERE g -?>?",
            "Int(7) Decimal(Decimal { digits: -15, scale: 1 }) Int(-2) Int(4) Int(8) Int(9)",
        ),
        (
            "SELECT a + 1 FROM t WHERE b IN (c + 2, 3) GROUP BY a + 4 HAVING a + 5 > 6",
            "SELECT a + 1 FROM t WHERE b IN (c + ?, ?) GROUP BY a + 4 HAVING a + 5 > 6",
            "Int(2) Int(3)",
        ),
        (
            "DELETE FROM t WHERE id=-9223372036854775808;",
            "DELETE FROM t WHERE id=?",
            "Int(-9223372036854775808)",
        ),
        (
            "INSERT INTO t (a, b) VALUES (1, NULL), (-2, 'x') ON DUPLICATE KEY UPDATE b = VALUES(b), a = 3",
            "INSERT INTO t (a, b) VALUES (?, ?) ON DUPLICATE KEY UPDATE b = VALUES(b), a = ?",
            "Int(1) Null Int(3)",
        ),
        (
            "SELECT a FROM t WHERE offset = 1 GROUP BY offset, 2 ORDER BY offset, 2 LIMIT 3 OFFSET 4",
            "SELECT a FROM t WHERE offset = ? GROUP BY offset, 2 ORDER BY offset, 2 LIMIT ? OFFSET ?",
            "Int(1) Int(3) Int(4)",
        ),
        (
            "INSERT INTO t VALUES (1+1,NOW(),DEFAULT,3)",
            "INSERT INTO t VALUES (1+1,NOW(),DEFAULT,?)",
            "Int(3)",
        ),
    ];
    for (sql, text, values) in cases {
        assert_eq!(read(sql), Some((text.to_owned(), values.to_owned())), "{sql}");
    }
}

#[test]
fn what_it_does_not_know_has_no_shape() {
    let cases = [
        "SELECT @a",
        "SELECT c FROM t WHERE id = ?",
        "SELECT 1; SELECT 2",
        "SELECT /*!40001 SQL_NO_CACHE */ 1",
        "SELECT x'AB' FROM t",
        "SELECT 0x1F",
        "SELECT 'open",
        "SELECT (1",
        "SELECT 1)",
        "INSERT INTO t VALUES (1, 2), (3, NOW())",
        "SHOW TABLES",
        "SELECT 1e999",
        "INSERT INTO t VALUES (1), (1e999)",
        "SELECT d + INTERVAL 1 DAY FROM t WHERE a = 1",
        "",
        "SEL",
    ];
    for sql in cases {
        assert_eq!(read(sql), None, "{sql}");
    }
}

#[test]
fn rows_are_read_one_at_a_time() {
    let sql = "INSERT INTO t VALUES (1,'a'), (2,'b,)('),(3,NULL) ON DUPLICATE KEY UPDATE a = 5";
    let mut shape = Shape::default();
    assert!(shape.read(sql, TextMode::default()));
    let mut rows = shape.rows(sql, TextMode::default()).unwrap();
    let (mut params, mut seen) = (Vec::new(), Vec::new());
    while rows.next(&mut params).unwrap() {
        seen.push(format!("{params:?}"));
    }
    assert_eq!(seen, ["[Int(2), Text(\"b,)(\")]", "[Int(3), Null]"]);
    assert!(shape.read("INSERT INTO t VALUES (1)", TextMode::default()));
    assert!(shape.rows("INSERT INTO t VALUES (1)", TextMode::default()).is_none());
}

/// An extracted literal has the same value as a parsed one.
#[test]
fn literals_mean_what_the_parser_says() {
    let texts = [
        r"'plain'",
        r"'it''s'",
        r"'a\'b'",
        r"'\0\b\n\r\t\Z\\\q\%\_'",
        "'ünï\u{1F600}'",
        r"'\ü'",
        "''",
        "\"dq\"",
        "\"a\"\"b\"",
        "'a\"b'",
        "0",
        "00012",
        "18446744073709551615",
        "18446744073709551616",
        "1.50",
        ".5",
        "1.",
        "1e3",
        "1.5E-3",
        "123456789012345678901234567890.123456789",
    ];
    for text in texts {
        let (_, values) = read(&format!("SELECT a FROM t WHERE a = {text}")).unwrap();
        let sqlparser::ast::Expr::Value(parsed) = parse_expr(text).unwrap() else {
            panic!("{text} is no literal")
        };
        let parsed = crate::planner::literal(&parsed.value).unwrap();
        assert_eq!(values, format!("{parsed:?}"), "{text}");
    }
}
