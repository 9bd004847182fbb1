//! Tests texts that continue with control characters or spaces. Indexes, sorts, groups and
//! comparisons must agree on their order, in every collation.

use crate::common::{in_memory, root, run};
use spillway_base::rng::Rng;
use spillway_sql::Session;
use spillway_types::Collation;

/// Random texts, most of them with spaces. Some are longer than a group of a key.
fn texts(rng: &mut Rng) -> Vec<String> {
    let some: Vec<char> = "     \0\u{1}\t\n\u{1F}!aAbäя\u{3000}".chars().collect();
    let starts = ["", "", "a", "abcd", "яяяя", "abcdefg", "abcdefgh"];
    let character = |rng: &mut Rng| some[rng.below(some.len() as u64) as usize];
    let text = |_| {
        let start = starts[rng.below(starts.len() as u64) as usize];
        let count = rng.below(6);
        start.chars().chain((0..count).map(|_| character(rng)).collect::<Vec<_>>()).collect()
    };
    (0..80).map(text).collect()
}

fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\0', "\\0"))
}

/// Creates a table with the same texts in a column without an index, in one with an index, and in
/// a CHAR whose index has the exact values if the collation compares bytes.
fn fill(session: &mut Session, collation: Collation, texts: &[String]) {
    let name = collation.name();
    run(session, "DROP TABLE IF EXISTS t, u").unwrap();
    let sql = format!(
        "CREATE TABLE t (id INT PRIMARY KEY, plain VARCHAR(40) COLLATE {name}, \
         indexed VARCHAR(40) COLLATE {name}, fixed CHAR(40) COLLATE {name}, n INT, \
         KEY indexed (indexed), KEY fixed (fixed, n))"
    );
    run(session, &sql).unwrap();
    let sql = format!(
        "CREATE TABLE u (id INT AUTO_INCREMENT PRIMARY KEY, word VARCHAR(40) COLLATE {name}, \
         UNIQUE (word))"
    );
    run(session, &sql).unwrap();
    for (id, text) in texts.iter().map(|text| literal(text)).enumerate() {
        let sql = format!("INSERT INTO t VALUES ({id}, {text}, {text}, {text}, {})", id % 3);
        run(session, &sql).unwrap();
        run(session, &format!("INSERT IGNORE INTO u (word) VALUES ({text})")).unwrap();
    }
}

/// Sorts by a column give the order of the collation, with and without an index.
fn check_order(session: &mut Session, collation: Collation, texts: &[String]) {
    let mut sorted: Vec<usize> = (0..texts.len()).collect();
    sorted.sort_by(|a, b| collation.compare(texts[*a].as_bytes(), texts[*b].as_bytes()));
    let sorted: Vec<String> = sorted.iter().map(usize::to_string).collect();
    for sql in [
        "SELECT id FROM t ORDER BY plain, id",
        "SELECT id FROM t ORDER BY indexed, id",
        "SELECT id FROM t FORCE INDEX (indexed) ORDER BY indexed, id",
    ] {
        assert_eq!(run(session, sql).unwrap(), sorted, "{collation:?} {sql}");
    }
    let mut fixed = |hint: &str| {
        let sql = format!("SELECT HEX(fixed), n FROM t {hint} ORDER BY fixed, n, HEX(fixed)");
        run(session, &sql).unwrap()
    };
    assert_eq!(fixed("FORCE INDEX (fixed)"), fixed("IGNORE INDEX (fixed)"), "{collation:?}");
}

/// An index finds the rows that a scan finds.
fn check_ranges(session: &mut Session, collation: Collation, texts: &[String], rng: &mut Rng) {
    // In a CHAR, trailing spaces are lost.
    let columns: &[&str] = if collation.pads() { &["indexed", "fixed"] } else { &["indexed"] };
    for _ in 0..30 {
        let mut bound = || {
            let text = &texts[rng.below(texts.len() as u64) as usize];
            literal(if rng.chance(1, 3) { text.trim_end_matches(['\t', ' ', '\0']) } else { text })
        };
        let (low, high) = (bound(), bound());
        for condition in [
            format!("= {low}"),
            format!("< {low}"),
            format!("<= {low}"),
            format!("> {low}"),
            format!(">= {low}"),
            format!("BETWEEN {low} AND {high}"),
            format!("IN ({low}, {high})"),
        ] {
            let mut found = |column: &str, hint: &str| {
                let sql = format!("SELECT id FROM t {hint} WHERE {column} {condition} ORDER BY id");
                run(session, &sql).unwrap()
            };
            let wanted = found("plain", "");
            for column in columns {
                let hint = format!("FORCE INDEX ({column})");
                assert_eq!(found(column, &hint), wanted, "{collation:?} {column} {condition:?}");
            }
        }
    }
}

/// Groups, distinct values, unique values and joins take the same texts as equal.
fn check_equality(session: &mut Session, collation: Collation, texts: &[String]) {
    let mut different: Vec<&String> = Vec::new();
    for text in texts {
        let is = |other: &&String| collation.compare(other.as_bytes(), text.as_bytes()).is_eq();
        if !different.iter().any(is) {
            different.push(text);
        }
    }
    let wanted = vec![different.len().to_string()];
    for sql in [
        "SELECT COUNT(*) FROM u",
        "SELECT COUNT(DISTINCT plain) FROM t",
        "SELECT COUNT(DISTINCT indexed) FROM t",
        "SELECT COUNT(*) FROM (SELECT 1 FROM t GROUP BY plain) g",
        "SELECT COUNT(*) FROM (SELECT 1 FROM t GROUP BY indexed) g",
    ] {
        assert_eq!(run(session, sql).unwrap(), wanted, "{collation:?} {sql}");
    }
    let joined = "SELECT COUNT(*) FROM t a JOIN t b ON a.";
    let by_scan = run(session, &format!("{joined}plain = b.plain")).unwrap();
    let by_index = run(session, &format!("{joined}plain = b.indexed")).unwrap();
    assert_eq!(by_scan, by_index, "{collation:?}");
    let ends = "SELECT (SELECT MIN(indexed) FROM t) = MIN(plain), \
                (SELECT MAX(indexed) FROM t) = MAX(plain) FROM t";
    assert_eq!(run(session, ends).unwrap(), ["1 1"], "{collation:?}");
    if collation.pads() {
        let ends = ends.replace("indexed", "fixed");
        assert_eq!(run(session, &ends).unwrap(), ["1 1"], "{collation:?}");
    }
}

#[test]
fn texts_with_control_characters_sort_alike_by_any_access() {
    let instance = in_memory();
    let mut session = root(&instance);
    session.use_database("test").unwrap();
    let mut rng = Rng::new(35);
    let texts = texts(&mut rng);
    for collation in Collation::ALL {
        if collation == Collation::Binary {
            continue;
        }
        fill(&mut session, collation, &texts);
        check_order(&mut session, collation, &texts);
        check_ranges(&mut session, collation, &texts, &mut rng);
        check_equality(&mut session, collation, &texts);
    }
}
