//! Tests TEXT-1 and TEXT-2 with an allocator that counts bytes.
#![allow(unsafe_code)] // An allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use spillway_base::rng::Rng;

use super::*;
use crate::parser::split;

thread_local! {
    /// The bytes that this thread holds of those that it has allocated since it began to count.
    static NOW: Cell<isize> = const { Cell::new(0) };
    static MOST: Cell<isize> = const { Cell::new(0) };
}

/// Counts the allocated bytes of each thread. An allocation that grows is counted twice while it
/// may move.
struct Counting;

impl Counting {
    fn count(bytes: isize) {
        // A thread that is ending may have lost these variables.
        let _ = NOW.try_with(|now| {
            now.set(now.get() + bytes);
            MOST.set(MOST.get().max(now.get()));
        });
    }
}

// SAFETY: the system's allocator does everything; this one only counts.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Counting::count(layout.size() as isize);
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        Counting::count(-(layout.size() as isize));
        // SAFETY: the caller keeps the contract.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        Counting::count(bytes as isize);
        Counting::count(-(layout.size() as isize));
        // SAFETY: the caller keeps the contract.
        unsafe { System.realloc(memory, layout, bytes) }
    }
}

#[global_allocator]
static HEAP: Counting = Counting;

/// The most bytes that parsing a text took, and the bytes charged for it; `None` if the text is not
/// a statement.
fn taken_and_charged(sql: &str) -> Option<(usize, usize)> {
    let budget = Budget::new(usize::MAX);
    let mut memory = TextMemory::of(sql, &budget);
    NOW.set(0);
    MOST.set(0);
    let mut statements = split(sql, TextMode::default(), &mut memory).ok()?;
    memory.charge.as_ref()?;
    let (tokens, charged) = (MOST.get(), memory.tokens);
    assert!(tokens as usize <= charged, "{:.60}: {tokens} for tokens, {charged} charged", sql);
    // The trees of set operations, and of chains of operators, are as deep as the texts are long.
    let parsed = stacker::grow(64 << 20, || {
        let parsed = crate::parser::parse(statements.remove(0), &mut memory);
        parsed.map(drop).inspect_err(|error| assert!(error.code != 1064, "{error}"))
    });
    let charged = memory.charge.as_ref().map_or(0, Charge::bytes);
    parsed.ok().map(|()| (MOST.get() as usize, charged))
}

/// Texts that repeat one construct: what is before the repetitions, the construct, and what is
/// after.
const LISTS: &[(&str, &str, &str)] = &[
    ("SELECT 1 FROM ", "a", ""),
    ("SELECT 1 FROM ", "b.a AS c", ""),
    ("SELECT 1 FROM ", "(SELECT 1) a", ""),
    ("SELECT 1 FROM ", "a JOIN a", ""),
    ("SELECT 1 FROM ", "a JOIN a ON 1", ""),
    ("SELECT 1 FROM ", "a LEFT JOIN a USING (a)", ""),
    ("SELECT 1 FROM t WHERE a IN (", "1", ")"),
    ("SELECT 1 FROM t WHERE a IN (", "123456", ")"),
    ("SELECT 1 FROM t WHERE a IN (", "-1", ")"),
    ("SELECT 1 FROM t WHERE a IN (", "'x'", ")"),
    ("SELECT 1 FROM t WHERE a IN (", "a", ")"),
    ("SELECT 1 FROM t WHERE a IN (", "a.b", ")"),
    ("SELECT 1 FROM t WHERE a IN (", "@a", ")"),
    ("SELECT 1 FROM t WHERE a IN (", "f()", ")"),
    ("SELECT 1 FROM t WHERE a IN (", "f(1)", ")"),
    ("SELECT 1 FROM t WHERE a IN (", "NOW()", ")"),
    ("SELECT 1 FROM t WHERE a IN (", "LEFT(1, 1)", ")"),
    ("SELECT 1 FROM t WHERE a IN (", "COUNT(*)", ")"),
    ("SELECT 1 FROM t WHERE a IN (", "SUM(1) OVER (ORDER BY 1)", ")"),
    ("SELECT 1 FROM t WHERE a IN (", "(1)", ")"),
    ("SELECT 1 FROM t WHERE a IN (", "((1))", ")"),
    ("SELECT 1 FROM t WHERE (a, b) IN (", "(1, 1)", ")"),
    ("SELECT 1 FROM t WHERE a IN (", "a + 1", ")"),
    ("SELECT 1 FROM t WHERE a IN (", "1 + 1 + 1 + 1", ")"),
    ("SELECT 1 FROM t WHERE a IN (", "NOT a", ")"),
    ("SELECT 1 FROM t WHERE a IN (", "a IS NULL", ")"),
    ("SELECT 1 FROM t WHERE a IN (", "a LIKE 'x'", ")"),
    ("SELECT 1 FROM t WHERE a IN (", "a BETWEEN 1 AND 1", ")"),
    ("SELECT 1 FROM t WHERE a IN (", "a IN (1)", ")"),
    ("SELECT 1 FROM t WHERE a IN (", "a IN (SELECT 1)", ")"),
    ("SELECT 1 FROM t WHERE a IN (", "EXISTS (SELECT 1)", ")"),
    ("SELECT 1 FROM t WHERE a IN (", "CASE WHEN 1 THEN 1 END", ")"),
    ("SELECT 1 FROM t WHERE a IN (", "CASE 1 WHEN 1 THEN 1 WHEN 1 THEN 1 ELSE 1 END", ")"),
    ("SELECT 1 FROM t WHERE a IN (", "CAST(1 AS CHAR)", ")"),
    ("SELECT 1 FROM t WHERE a IN (", "a + INTERVAL 1 DAY", ")"),
    ("SELECT 1 FROM t WHERE a IN (", "x'1F'", ")"),
    ("SELECT ", "1", ""),
    ("SELECT ", "a b", ""),
    ("SELECT ", "a.*", " FROM a"),
    ("SELECT f(", "1", ")"),
    ("SELECT 1 FROM t GROUP BY ", "1", ""),
    ("SELECT 1 FROM t ORDER BY ", "1", ""),
    ("SELECT 1 FROM t ORDER BY ", "a DESC", ""),
    ("INSERT INTO t VALUES ", "(1)", ""),
    ("INSERT INTO t VALUES ", "()", ""),
    ("INSERT INTO t VALUES ", "(1, NOW())", ""),
    ("INSERT INTO t (", "a", ") VALUES (1)"),
    ("INSERT INTO t VALUES (1) ON DUPLICATE KEY UPDATE ", "a = VALUES(a)", ""),
    ("UPDATE t SET ", "a = 1", ""),
    ("UPDATE ", "a", " SET a = 1"),
    ("DELETE ", "a", " FROM a"),
    ("WITH ", "a AS (SELECT 1)", " SELECT 1"),
    ("CREATE TABLE t (", "a INT", ")"),
    ("CREATE TABLE t (", "a INT NOT NULL DEFAULT 1 COMMENT 'x'", ")"),
    ("CREATE TABLE t (a INT, ", "KEY (a)", ")"),
    ("CREATE TABLE t (a INT, ", "KEY a (a)", ")"),
    ("CREATE TABLE t (a INT, KEY (", "a", "))"),
    ("CREATE TABLE t (a ENUM(", "'a'", "))"),
    ("DROP TABLE ", "a", ""),
    ("SET ", "@a = 1", ""),
];

const CHAINS: &[(&str, &str)] = &[
    ("SELECT 1", " UNION SELECT 1"),
    ("SELECT 1", " + 1"),
    ("SELECT 1 FROM t WHERE 1", " AND a = 1"),
    ("SELECT 1 FROM a", " JOIN a"),
    ("SELECT 1 FROM a", " STRAIGHT_JOIN a"),
    ("SELECT 1 FROM a", " LEFT JOIN a ON a.a = a.a"),
    ("SELECT 1 FROM a", " USE INDEX (a)"),
    ("SELECT CASE", " WHEN 1 THEN 1"),
    ("SELECT 'a'", " 'a'"),
    ("SELECT 1", " "),
];

/// Parsing a text takes no more memory than is charged, for every kind of element that it may
/// repeat.
#[test]
fn text2_parsing_takes_no_more_than_is_charged() {
    let (mut parsed, mut wrong) = (0, Vec::new());
    let mut check = |sql: &str| {
        let Some((taken, charged)) = taken_and_charged(sql) else { return };
        parsed += 1;
        if taken > charged {
            wrong.push(format!("{sql:.70}: {taken} bytes taken, {charged} charged"));
        }
        // The charge must not be much larger than the need either: texts that fit would be refused.
        if charged > 8 * taken {
            wrong.push(format!("{sql:.70}: {taken} bytes taken, as much as {charged} charged"));
        }
    };
    // With one element more than a power of two, a list has just grown.
    for count in [513, 700, 4097] {
        for (start, item, end) in LISTS {
            for comma in [",", " , "] {
                check(&format!("{start}{}{end}", vec![*item; count].join(comma)));
            }
        }
    }
    for (start, more) in CHAINS {
        for count in [513, 1500] {
            check(&format!(
                "{start}{}{}",
                more.repeat(count),
                if start.ends_with("CASE") { " END" } else { "" }
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(parsed > 6 * LISTS.len() - 20, "{parsed} of the texts are statements");
}

/// The scan counts no fewer tokens than the tokenizer makes.
#[test]
fn text1_the_scan_gives_an_upper_bound_of_the_tokens() {
    const PIECES: &[&str] = &[
        "a",
        "1",
        "1.5",
        ".5",
        "1e5",
        "1a",
        " ",
        "  ",
        "\n",
        "\t",
        ",",
        "(",
        ")",
        "'a b'",
        "'a''b'",
        "'a\\'b'",
        "\"a b\"",
        "`a b`",
        "x'1F'",
        "n'a'",
        "-- a b\n",
        "--1",
        "# a b\n",
        "/* a b */",
        "/*! a b */",
        "/*!40101 a b */",
        "/*M! a b */",
        "@a",
        "@@a",
        ":=",
        "<=>",
        "->>",
        "||",
        "?",
        "|",
        "<",
        ">",
        "-",
        "#",
        "@",
        "&",
        "/",
        "*",
        "\u{e4}",
        "\u{3042}",
        "\u{a0}",
        "\u{3000}",
        "\u{2003}\u{2003}",
        "$1",
        "%",
        "!",
        "~",
        "0x1F",
    ];
    let mut rng = Rng::new(7);
    let budget = Budget::new(usize::MAX);
    let mut read = 0;
    for _ in 0..20_000 {
        let count = 1 + rng.below(12) as usize;
        let sql: String =
            (0..count).map(|_| PIECES[rng.below(PIECES.len() as u64) as usize]).collect();
        let flags = rng.below(8);
        let mode = TextMode {
            ansi_quotes: flags & 1 != 0,
            no_backslash_escapes: flags & 2 != 0,
            ..TextMode::default()
        };
        let Ok(statements) = split(&sql, mode, &mut TextMemory::of(&sql, &budget)) else {
            continue;
        };
        let tokens: usize = statements.iter().map(Vec::len).sum();
        let opened = crate::parser::text::open_version_comments(&sql, mode);
        assert!(tokens <= tokens_in(&opened, mode), "{sql:?}: {tokens}");
        read += 1;
    }
    assert!(read > 5000, "{read} of the texts are any");
}

#[test]
fn text1_texts_that_do_not_fit_are_refused_before_they_are_read() {
    let budget = Budget::new(8 << 20);
    let refused = |sql: &str| {
        let mut memory = TextMemory::of(sql, &budget);
        let outcome = split(sql, TextMode::default(), &mut memory).and_then(|mut statements| {
            crate::parser::parse(statements.remove(0), &mut memory).map(drop)
        });
        outcome.err().map(|error| error.code)
    };
    let tables = |count| format!("SELECT 1 FROM {}a", "a,".repeat(count));
    assert_eq!(refused(&tables(1000)), None);
    assert_eq!(refused(&tables(10_000)), Some(1041), "the tree");
    assert_eq!(refused(&tables(1_000_000)), Some(1041), "the tokens");
    // A text with one large literal does not have many tokens.
    assert_eq!(refused(&format!("SELECT '{}'", "a, ".repeat(500_000))), None);
    assert_eq!(refused(&format!("SELECT 1 /* {} */", "a, ".repeat(500_000))), None);
    assert_eq!(budget.used(), 0, "TEXT-3");
}
