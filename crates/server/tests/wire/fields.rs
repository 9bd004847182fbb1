//! The server sends some columns without decoding them. These columns have the same bytes as
//! decoded values (ROW-SINK-1), for all types, and for rows of every version of their table's
//! schema.

use spillway::{Database, Mechanism, Settings};
use spillway_server::Loopback;
use spillway_sql::Instance;

/// Columns, and a value of each that is not NULL; more values follow if one is not enough.
const COLUMNS: [(&str, &str, &[&str]); 31] = [
    ("ti", "TINYINT", &["-128", "127", "0"]),
    ("tu", "TINYINT UNSIGNED", &["255"]),
    ("bo", "BOOL", &["TRUE", "FALSE"]),
    ("si", "SMALLINT", &["-32768", "1"]),
    ("su", "SMALLINT UNSIGNED", &["65535"]),
    ("mi", "MEDIUMINT", &["-8388608"]),
    ("i", "INT", &["-2147483648", "2147483647", "7"]),
    ("iu", "INT UNSIGNED", &["4294967295"]),
    ("bi", "BIGINT", &["-9223372036854775808", "9223372036854775807"]),
    ("bu", "BIGINT UNSIGNED", &["18446744073709551615", "1"]),
    ("d", "DECIMAL(10,2)", &["-12345678.90", "0.05", "0"]),
    ("du", "DECIMAL(65,30) UNSIGNED", &["12345678901234567890123456789012345.5"]),
    ("f", "FLOAT", &["1.5", "-0.1", "1e30"]),
    ("db", "DOUBLE", &["-2.5e-300", "0.1", "1e15", "123456789"]),
    ("b1", "BIT(1)", &["1", "0"]),
    ("b40", "BIT(40)", &["1099511627775", "3"]),
    ("ch", "CHAR(10)", &["'a'", "'\u{fc}ber '"]),
    ("vc", "VARCHAR(400)", &["''", "'text'", "REPEAT('ab', 126)", "'\u{1F600}\u{e9}'"]),
    ("la", "VARCHAR(10) CHARACTER SET latin1", &["'caf\u{e9}'"]),
    ("tx", "TEXT", &["REPEAT('x', 65535)", "'short'"]),
    ("bn", "BINARY(4)", &["x'00FF'", "'abcd'"]),
    ("vb", "VARBINARY(300)", &["x'FF00FE'", "REPEAT(x'FB', 251)", "''"]),
    ("bl", "BLOB", &["x'C328'"]),
    ("da", "DATE", &["'2026-11-23'", "'1000-01-01'"]),
    ("t0", "TIME", &["'-838:59:59'", "'00:00:00'", "'12:34:56'"]),
    ("t6", "TIME(6)", &["'-01:02:03.000004'"]),
    ("dt", "DATETIME", &["'2026-11-23 00:00:00'", "'9999-12-31 23:59:59'"]),
    ("d3", "DATETIME(3)", &["'2026-11-23 04:05:06.789'", "'2026-11-23 04:05:06'"]),
    ("ts", "TIMESTAMP(6) NULL", &["'2026-11-23 04:05:06.000001'"]),
    ("ye", "YEAR", &["2026", "1901"]),
    ("js", "JSON", &["'{\"a\": [1, null, \"\u{e9}\"]}'", "'[]'"]),
];

/// A client of a database with fields, and one of a database without.
struct Both(Loopback, Loopback);

impl Both {
    fn new() -> Both {
        let client = |without| {
            let mut settings = Settings::default();
            settings.without = without;
            let database = Database::open_in_memory(settings).unwrap();
            Loopback::connect(&Instance::open(database).unwrap(), 1).unwrap()
        };
        Both(client(vec![]), client(vec![Mechanism::RowFields]))
    }

    /// The response to a command, which both must give.
    fn command(&mut self, command: &[u8], of: &str) -> Vec<u8> {
        let with = self.0.command(command).unwrap().to_vec();
        let without = self.1.command(command).unwrap();
        let of = of.get(..200).unwrap_or(of);
        assert_ne!(with[4], 0xFF, "{of}: {}", String::from_utf8_lossy(&with));
        let first = with.iter().zip(without).position(|(a, b)| a != b);
        let [a, b] = [&with[..], without].map(|answer| {
            let from = first.unwrap_or(0).saturating_sub(16);
            &answer[from..answer.len().min(from + 48)]
        });
        assert!(with == without, "{of}: differs at {first:?}\n{a:02x?}\n{b:02x?}");
        with
    }

    fn change(&mut self, sql: &str) {
        self.command(&[b"\x03", sql.as_bytes()].concat(), sql);
    }

    /// Runs a statement as text and as a prepared statement.
    fn ask(&mut self, sql: &str) {
        self.change(sql);
        let prepared = self.command(&[b"\x16", sql.as_bytes()].concat(), sql);
        let id = &prepared[5..9];
        self.command(&[b"\x17", id, &[0, 1, 0, 0, 0]].concat(), sql);
        // Run it again, now that its columns are known.
        self.command(&[b"\x17", id, &[0, 1, 0, 0, 0]].concat(), sql);
        self.close(id);
    }

    /// Closing a statement has no response.
    fn close(&mut self, id: &[u8]) {
        for client in [&mut self.0, &mut self.1] {
            assert!(client.command(&[b"\x19", id].concat()).unwrap().is_empty());
        }
    }

    /// Selects columns of `t` in the ways that read stored rows in place.
    fn ask_for(&mut self, columns: &str) {
        self.ask(&format!("SELECT {columns} FROM t WHERE id BETWEEN 2 AND 300"));
        self.ask(&format!("SELECT {columns} FROM t WHERE id > 1 AND u <> 3 LIMIT 3, 9"));
        self.ask(&format!("SELECT {columns} FROM t WHERE id > 1 ORDER BY u, id DESC"));
        self.ask(&format!("SELECT {columns} FROM t WHERE id > 1 ORDER BY id DESC LIMIT 5"));
        self.ask(&format!("SELECT {columns} FROM t WHERE id IN (1, 5, 7)"));
    }

    /// Selects columns singly, in pairs, many and all.
    fn ask_for_all(&mut self, columns: &[&str]) {
        for column in columns {
            self.ask_for(column);
            self.ask_for(&format!("id, {column}"));
            self.ask(&format!("SELECT DISTINCT {column} FROM t WHERE id > 1"));
            self.ask(&format!("SELECT DISTINCT {column} FROM t ORDER BY {column}"));
            self.ask(&format!("SELECT COUNT({column}), COUNT(*), SUM(u) FROM t WHERE id > 1"));
        }
        for some in columns.windows(3).chain(columns.windows(16)).chain(columns.windows(17)) {
            self.ask(&format!("SELECT {} FROM t WHERE id > 1", some.join(", ")));
        }
        self.ask_for("*");
    }
}

/// A row of `t`: its columns' values, some of them NULL.
fn row(id: usize) -> String {
    let values = COLUMNS.iter().enumerate().map(|(at, (_, _, values))| {
        if (id + at).is_multiple_of(7) { "NULL" } else { values[(id + at) % values.len()] }
    });
    format!("({id}, {}, {})", id % 5, values.collect::<Vec<_>>().join(", "))
}

fn create(both: &mut Both) {
    let columns: Vec<_> = COLUMNS.iter().map(|(name, ty, _)| format!("{name} {ty}")).collect();
    both.change("USE test");
    both.change(&format!(
        "CREATE TABLE t (id INT PRIMARY KEY, u INT UNSIGNED, {}, en ENUM('a', '\u{e9}') DEFAULT 'a', se SET('x', 'y') DEFAULT 'x,y')",
        columns.join(", ")
    ));
    let names: Vec<_> = COLUMNS.iter().map(|(name, ..)| *name).collect();
    let rows: Vec<_> = (0..40).map(row).collect();
    both.change(&format!("INSERT INTO t (id, u, {}) VALUES {}", names.join(", "), rows.join(", ")));
    both.change("UPDATE t SET en = '\u{e9}', se = '' WHERE id % 3 = 1");
    both.change("UPDATE t SET en = NULL, se = NULL WHERE id % 9 = 2");
}

#[test]
fn fields_are_told_as_values_are() {
    let mut both = Both::new();
    create(&mut both);
    let names: Vec<_> = COLUMNS.iter().map(|(name, ..)| *name).chain(["en", "se"]).collect();
    both.ask_for_all(&names);
}

#[test]
fn fields_of_rows_from_before_a_change_are_told_as_values_are() {
    let mut both = Both::new();
    create(&mut both);
    let changes = [
        "ADD COLUMN a1 INT NOT NULL DEFAULT 5",
        "ADD COLUMN a2 VARCHAR(20) DEFAULT '\u{fc}'",
        "ADD COLUMN a3 DECIMAL(6,3) DEFAULT 1.25",
        "ADD COLUMN a4 DATETIME(2) DEFAULT '2026-01-02 03:04:05.67'",
        "ADD COLUMN a5 BIT(9) DEFAULT 257 FIRST",
        "ADD COLUMN a6 JSON",
        "MODIFY i BIGINT",
        "MODIFY vc VARCHAR(500)",
        "MODIFY d DECIMAL(20,2)",
        "DROP COLUMN su",
    ];
    for (id, change) in (40..).zip(changes) {
        both.change(&format!("ALTER TABLE t {change}"));
        both.change(&format!("INSERT INTO t (id, u, i) VALUES ({id}, {}, {id})", id % 5));
    }
    let names = ["a1", "a2", "a3", "a4", "a5", "a6", "i", "vc", "d", "si", "mi"];
    both.ask_for_all(&names);
}

#[test]
fn fields_of_entries_are_told_as_values_are() {
    let mut both = Both::new();
    create(&mut both);
    // More integers than the fast path reads, among other columns, also with NULLs.
    both.change("CREATE INDEX wholes ON t (u, ti, iu, bi, bu, si, mi)");
    both.change("CREATE INDEX mixed ON t (i, vb, bo, da)");
    for sql in [
        "SELECT u FROM t FORCE INDEX (wholes) WHERE u > 0",
        "SELECT bu, u FROM t FORCE INDEX (wholes) WHERE u > 0",
        "SELECT mi, si, bu, bi, iu, ti, u, id FROM t FORCE INDEX (wholes) WHERE u BETWEEN 1 AND 3",
        "SELECT si, id FROM t FORCE INDEX (wholes) WHERE u > 0 AND ti <> 3",
        "SELECT vb FROM t FORCE INDEX (mixed) WHERE i > 0",
        "SELECT da, bo, i FROM t FORCE INDEX (mixed) WHERE i > -5 OR i IS NULL",
        "SELECT bo, vb, id FROM t FORCE INDEX (mixed) WHERE i > 0 ORDER BY vb, id DESC",
        "SELECT SUM(bi), COUNT(si), SUM(mi) FROM t FORCE INDEX (wholes) WHERE u > 0",
    ] {
        both.ask(sql);
    }
}
