//! The statements that are measured. For each execution, the benchmark builds the statement's
//! command anew, without an allocation.

use std::io::Write;

use spillway::{Database, Mechanism, Settings};
use spillway_server::Loopback;
use spillway_sql::Instance;

/// A statement, prepared or as text.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// The prepared statement; empty if the command has none.
    sql: &'static str,
    /// Writes the command for a key, given how many times the key was used before; for a prepared
    /// statement, what follows its number.
    command: fn(u32, u32, &mut Vec<u8>),
}

const SELECT: &str = "SELECT c FROM sbtest1 WHERE id=?";
const UPDATE: &str = "UPDATE sbtest1 SET c=? WHERE id=?";
const UPDATE_INDEX: &str = "UPDATE sbtest1 SET k=k+1 WHERE id=?";
const INSERT: &str = "INSERT INTO sbtest1 (id, k, c, pad) VALUES (?, ?, ?, ?)";

/// Protocol types: INT and VARCHAR.
const INT: [u8; 2] = [3, 0];
const TEXT: [u8; 2] = [253, 0];

/// Parameters of these types, none of which is NULL.
fn put_types(out: &mut Vec<u8>, types: &[[u8; 2]]) {
    let nulls = types.len().div_ceil(8);
    out.extend_from_slice(&[0; 2][..nulls]);
    out.push(1);
    types.iter().for_each(|ty| out.extend_from_slice(ty));
}

/// Appends `len` digits that depend on `seed`, like sysbench's texts.
fn put_digits(out: &mut Vec<u8>, mut seed: u32, len: usize) {
    for at in 0..len {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        out.push(if at % 12 == 11 { b'-' } else { b'0' + (seed >> 28) as u8 % 10 });
    }
}

fn put_text(out: &mut Vec<u8>, seed: u32, len: u8) {
    out.push(len);
    put_digits(out, seed, len.into());
}

/// The first key of inserted rows. It is above all loaded keys, and differs from that of the other
/// case.
const FRESH: u32 = 1_000_000;
const FRESH_TEXT: u32 = 1_000_000_000;

/// The characters of a row's code, as many as a UUID has.
const CODE: u8 = 36;

/// The rows of the ranges that are read, and of short ranges.
const RANGE: u32 = 100;
const SHORT: u32 = 10;

fn put_rows(key: u32, rows: u32, out: &mut Vec<u8>) {
    put_types(out, &[INT, INT]);
    out.extend_from_slice(&key.to_le_bytes());
    out.extend_from_slice(&(key + rows - 1).to_le_bytes());
}

/// A range of rows, or of entries of the index.
fn put_range(key: u32, _: u32, out: &mut Vec<u8>) {
    put_rows(key, RANGE, out);
}

fn put_short(key: u32, _: u32, out: &mut Vec<u8>) {
    put_rows(key, SHORT, out);
}

/// As many rows, no two of which are adjacent.
fn put_list(key: u32, _: u32, out: &mut Vec<u8>) {
    put_types(out, &[INT; SHORT as usize]);
    (0..SHORT).for_each(|at| out.extend_from_slice(&(key + 7 * at).to_le_bytes()));
}

/// Five ranges of a tenth of that, which do not touch.
fn put_ranges(key: u32, _: u32, out: &mut Vec<u8>) {
    put_types(out, &[INT; 10]);
    for at in 0..5 {
        let from = key + at * 2 * RANGE / 10;
        out.extend_from_slice(&from.to_le_bytes());
        out.extend_from_slice(&(from + RANGE / 10 - 1).to_le_bytes());
    }
}

pub(crate) const CASES: [Case; 24] = [
    Case { name: "ping", sql: "", command: |_, _, out| out.push(0x0E) },
    Case {
        name: "constant",
        sql: "SELECT ?",
        command: |key, _, out| {
            put_types(out, &[TEXT]);
            put_text(out, key, 119);
        },
    },
    Case {
        name: "select",
        sql: SELECT,
        command: |key, _, out| {
            put_types(out, &[INT]);
            out.extend_from_slice(&key.to_le_bytes());
        },
    },
    Case {
        name: "update",
        sql: UPDATE,
        command: |key, turn, out| {
            put_types(out, &[TEXT, INT]);
            put_text(out, key ^ 0x55AA ^ turn << 20, 119);
            out.extend_from_slice(&key.to_le_bytes());
        },
    },
    Case {
        name: "update index",
        sql: UPDATE_INDEX,
        command: |key, _, out| {
            put_types(out, &[INT]);
            out.extend_from_slice(&key.to_le_bytes());
        },
    },
    Case {
        name: "select code",
        sql: "SELECT c FROM codes WHERE code=?",
        command: |key, _, out| {
            put_types(out, &[TEXT]);
            put_text(out, key, CODE);
        },
    },
    Case {
        name: "update code",
        sql: "UPDATE codes SET c=? WHERE code=?",
        command: |key, turn, out| {
            put_types(out, &[TEXT, TEXT]);
            put_text(out, key ^ 0x55AA ^ turn << 20, 119);
            put_text(out, key, CODE);
        },
    },
    Case {
        name: "insert",
        sql: INSERT,
        command: |key, _, out| {
            put_types(out, &[INT, INT, TEXT, TEXT]);
            out.extend_from_slice(&(FRESH + key).to_le_bytes());
            out.extend_from_slice(&key.to_le_bytes());
            put_text(out, key, 119);
            put_text(out, key, 59);
        },
    },
    Case {
        name: "select text",
        sql: "",
        command: |key, _, out| {
            // A vector takes whatever is written to it.
            let _ = write!(out, "\x03SELECT c FROM sbtest1 WHERE id={key}");
        },
    },
    Case {
        name: "update text",
        sql: "",
        command: |key, turn, out| {
            out.extend_from_slice(b"\x03UPDATE sbtest1 SET c='");
            put_digits(out, key ^ 0xAA55 ^ turn << 20, 119);
            let _ = write!(out, "' WHERE id={key}");
        },
    },
    Case {
        name: "update index text",
        sql: "",
        command: |key, _, out| {
            let _ = write!(out, "\x03UPDATE sbtest1 SET k=k+1 WHERE id={key}");
        },
    },
    Case {
        name: "insert text",
        sql: "",
        command: |key, _, out| {
            let id = FRESH_TEXT + key;
            let _ = write!(out, "\x03INSERT INTO sbtest1 (id, k, c, pad) VALUES ({id}, {key}, '");
            put_digits(out, key, 119);
            out.extend_from_slice(b"', '");
            put_digits(out, key, 59);
            out.extend_from_slice(b"')");
        },
    },
    Case {
        name: "range columns",
        sql: "SELECT c FROM ranges WHERE id BETWEEN ? AND ?",
        command: put_range,
    },
    Case {
        name: "range order",
        sql: "SELECT c FROM ranges WHERE id BETWEEN ? AND ? ORDER BY c",
        command: put_range,
    },
    Case {
        name: "range distinct",
        sql: "SELECT DISTINCT c FROM ranges WHERE id BETWEEN ? AND ? ORDER BY c",
        command: put_range,
    },
    Case {
        name: "short columns",
        sql: "SELECT c FROM ranges WHERE id BETWEEN ? AND ?",
        command: put_short,
    },
    Case {
        name: "short sum",
        sql: "SELECT SUM(k) FROM ranges WHERE id BETWEEN ? AND ?",
        command: put_short,
    },
    Case {
        name: "short columns text",
        sql: "",
        command: |key, _, out| {
            let to = key + SHORT - 1;
            let _ = write!(out, "\x03SELECT c FROM ranges WHERE id BETWEEN {key} AND {to}");
        },
    },
    Case {
        name: "range sum",
        sql: "SELECT SUM(k) FROM ranges WHERE id BETWEEN ? AND ?",
        command: put_range,
    },
    Case {
        name: "range covered",
        sql: "SELECT k, id FROM ranges WHERE k BETWEEN ? AND ?",
        command: put_range,
    },
    Case {
        name: "range looked up",
        sql: "SELECT c FROM ranges WHERE k BETWEEN ? AND ?",
        command: put_range,
    },
    Case {
        name: "list",
        sql: "SELECT c FROM ranges WHERE id IN (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        command: put_list,
    },
    Case {
        name: "range count",
        sql: "SELECT COUNT(k) FROM ranges WHERE k BETWEEN ? AND ?",
        command: put_range,
    },
    Case {
        name: "ranges count",
        sql: "SELECT COUNT(k) FROM ranges WHERE k BETWEEN ? AND ? OR k BETWEEN ? AND ? OR k BETWEEN ? AND ? \
              OR k BETWEEN ? AND ? OR k BETWEEN ? AND ?",
        command: put_ranges,
    },
];

/// A client over a table that was loaded, with one case's statement ready.
pub(crate) struct Prepared<'a> {
    client: Loopback,
    case: &'a Case,
    /// The head of an execution's command.
    head: Vec<u8>,
    /// The commands to run, one after the other, and the end of each.
    commands: Vec<u8>,
    ends: Vec<usize>,
    rows: u32,
    next: u32,
    /// A checksum of all responses, so that a run with other responses is noticed.
    pub(crate) checksum: u64,
}

/// The distance in the index between adjacent rows.
const STRIDE: u64 = 7919;

/// A database in memory with sysbench's table, and a table for reads of ranges. Rows are in blocks
/// if `settled`, and otherwise in memtables.
pub(crate) fn load(rows: u32, settled: bool, without: &[Mechanism]) -> Instance {
    let mut settings = Settings::default();
    settings.without = without.to_vec();
    let database = Database::open_in_memory(settings).expect("memory opens");
    let instance = Instance::open(database).expect("a new catalog opens");
    let mut client = Loopback::connect(&instance, 1).expect("root comes in");
    let mut run = |sql: &[u8]| {
        let answer = client.command(&[b"\x03", sql].concat()).expect("it stays");
        assert_eq!(answer[4], 0, "{}: {}", sql.escape_ascii(), answer.escape_ascii());
    };
    run(b"CREATE DATABASE sbtest");
    run(b"USE sbtest");
    run(b"CREATE TABLE sbtest1 (id INT NOT NULL, k INT NOT NULL DEFAULT 0, \
          c CHAR(120) NOT NULL DEFAULT '', pad CHAR(60) NOT NULL DEFAULT '', PRIMARY KEY (id), KEY k_1 (k))");
    // The `k` of each row, by the row's number.
    let number = |id: u32| u64::from(id);
    fill(&mut run, "sbtest1", rows, number);
    run(b"CREATE TABLE ranges (id INT NOT NULL, k INT NOT NULL, c CHAR(120) NOT NULL, pad CHAR(60) NOT NULL, \
          PRIMARY KEY (id), KEY k_1 (k))");
    fill(&mut run, "ranges", rows, |id| number(id) * STRIDE % u64::from(rows));
    run(b"CREATE TABLE codes (code VARCHAR(36) PRIMARY KEY, c CHAR(120) NOT NULL)");
    for code in 0..rows {
        let mut sql = b"INSERT INTO codes VALUES ('".to_vec();
        put_digits(&mut sql, code, CODE.into());
        sql.extend_from_slice(b"', '");
        put_digits(&mut sql, code, 119);
        sql.extend_from_slice(b"')");
        run(&sql);
    }
    if settled {
        run(b"FLUSH TABLES");
    }
    instance
}

/// Fills a table with sysbench's columns; `k` returns the value of the indexed column of a row.
fn fill(run: &mut dyn FnMut(&[u8]), table: &str, rows: u32, k: impl Fn(u32) -> u64) {
    for from in (0..rows).step_by(500) {
        let mut sql = format!("INSERT INTO {table} VALUES ").into_bytes();
        for id in from..rows.min(from + 500) {
            let comma = if id > from { "," } else { "" };
            let _ = write!(sql, "{comma}({id},{},'", k(id));
            put_digits(&mut sql, id, 119);
            sql.extend_from_slice(b"','");
            put_digits(&mut sql, id, 59);
            sql.extend_from_slice(b"')");
        }
        run(&sql);
    }
}

/// Sends one command. callgrind finds the beginning of a statement by this function's name.
#[inline(never)]
fn command<'c>(client: &'c mut Loopback, payload: &[u8]) -> &'c [u8] {
    client.command(payload).expect("it stays")
}

impl<'a> Prepared<'a> {
    /// A new client. Commits are acknowledged once they are in the queue of their lane, where the
    /// measurement ends.
    pub(crate) fn new(instance: &Instance, case: &'a Case, rows: u32) -> Prepared<'a> {
        let mut client = Loopback::connect(instance, 2).expect("root comes in");
        for sql in ["USE sbtest", "SET SESSION durability = 'none'"] {
            let answer = client.command(&[b"\x03", sql.as_bytes()].concat()).expect("it stays");
            assert_eq!(answer[4], 0, "{sql}");
        }
        let mut head = Vec::new();
        if !case.sql.is_empty() {
            let prepare = [b"\x16", case.sql.as_bytes()].concat();
            let answer = client.command(&prepare).expect("it stays");
            assert_eq!(answer[4], 0, "{}", case.sql);
            head.push(0x17);
            head.extend_from_slice(&answer[5..9]);
            // No cursor, and one iteration.
            head.extend_from_slice(&[0, 1, 0, 0, 0]);
        }
        Prepared {
            client,
            case,
            head,
            commands: Vec::new(),
            ends: Vec::new(),
            rows,
            next: 0,
            checksum: 0,
        }
    }

    /// Builds the commands of `count` runs, each for another key.
    pub(crate) fn make(&mut self, count: u32) {
        self.commands.clear();
        self.ends.clear();
        for _ in 0..count {
            // A step without a common divisor with the number of rows visits all rows.
            let key = if self.case.name.starts_with("insert") {
                self.next
            } else {
                (u64::from(self.next) * 7919 % u64::from(self.rows)) as u32
            };
            self.commands.extend_from_slice(&self.head);
            // A row gets another value than at its previous turn.
            (self.case.command)(key, self.next / self.rows, &mut self.commands);
            self.ends.push(self.commands.len());
            self.next += 1;
        }
    }

    /// Runs each of the commands that were built.
    pub(crate) fn run(&mut self) {
        let mut from = 0;
        for end in &self.ends {
            let answer = command(&mut self.client, &self.commands[from..*end]);
            assert_ne!(answer[4], 0xFF, "{}: {}", self.case.name, answer.escape_ascii());
            let ends = u64::from(answer[answer.len() / 2]) << 8 | answer.len() as u64;
            self.checksum = (self.checksum ^ ends).wrapping_mul(0x100_0000_01B3);
            from = *end;
        }
    }
}
