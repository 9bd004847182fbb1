//! Generates random tables, rows and conditions. Values come from small sets, so that many are
//! equal, and from the limits of their types.

use spillway_base::rng::Rng;

/// A column type, the values stored in it, and other values with which it is compared.
pub(crate) struct Kind {
    pub(crate) ty: &'static str,
    pub(crate) values: &'static [&'static str],
    /// Whether the column is text or bytes and may be indexed by a prefix.
    pub(crate) prefix: bool,
    /// Whether the column is text, which is compared with text. Other columns are compared with
    /// numbers or dates.
    pub(crate) text: bool,
}

const KINDS: &[Kind] = &[
    Kind {
        ty: "INT",
        values: &["0", "1", "2", "3", "7", "-1", "-2147483648", "2147483647"],
        prefix: false,
        text: false,
    },
    Kind { ty: "TINYINT", values: &["0", "1", "2", "-128", "127"], prefix: false, text: false },
    Kind {
        ty: "BIGINT UNSIGNED",
        values: &["0", "1", "2", "3", "9223372036854775808", "18446744073709551615"],
        prefix: false,
        text: false,
    },
    Kind {
        ty: "BIGINT",
        values: &["0", "1", "2", "-9223372036854775808", "9223372036854775807"],
        prefix: false,
        text: false,
    },
    Kind {
        ty: "DECIMAL(8,2)",
        values: &["0", "1", "1.5", "2", "-1.25", "999999.99", "-0.01"],
        prefix: false,
        text: false,
    },
    Kind {
        ty: "DECIMAL(24,6)",
        values: &[
            "1.5",
            "9007199254740992",
            "9007199254740992.000001",
            "'9007199254740992.000001'",
            "'9007199254740993'",
            "-9007199254740993",
        ],
        prefix: false,
        text: false,
    },
    Kind {
        ty: "DOUBLE",
        values: &["0", "-0e0", "1", "1.5", "2", "-1.25", "1e300", "0.1"],
        prefix: false,
        text: false,
    },
    Kind { ty: "FLOAT", values: &["0", "1", "1.5", "2", "-1.25"], prefix: false, text: false },
    Kind {
        ty: "VARCHAR(12)",
        values: &["''", "'a'", "'A'", "'a '", "'ab'", "'b'", "'2'", "'é'", "'E'", "'abcdefghij'"],
        prefix: true,
        text: true,
    },
    Kind {
        ty: "VARCHAR(12) COLLATE utf8mb4_bin",
        values: &["''", "'a'", "'A'", "'a '", "'ab'", "'b'", "'2'", "'é'", "'E'", "'abcdefghij'"],
        prefix: true,
        text: true,
    },
    Kind {
        ty: "CHAR(6)",
        values: &["''", "'a'", "'A'", "'ab'", "'b'", "'2'", "'abcdef'"],
        prefix: true,
        text: true,
    },
    Kind {
        ty: "VARBINARY(12)",
        values: &["''", "'a'", "'A'", "'a '", "'ab'", "x'00'", "x'ff'", "'abcdefghij'"],
        prefix: true,
        text: true,
    },
    Kind {
        ty: "BINARY(3)",
        values: &["''", "'a'", "'A'", "'ab'", "x'0000'", "x'ff'"],
        prefix: true,
        text: true,
    },
    Kind {
        ty: "DATE",
        values: &["'2024-02-29'", "'2024-03-01'", "'1000-01-01'", "'9999-12-31'"],
        prefix: false,
        text: false,
    },
    Kind {
        ty: "DATETIME(3)",
        values: &["'2024-02-29'", "'2024-02-29 12:00:00.5'", "'2024-03-01 00:00:00'"],
        prefix: false,
        text: false,
    },
    Kind {
        ty: "TIMESTAMP NULL",
        values: &["'2024-02-29'", "'2024-02-29 12:00:00'", "'2024-03-01 00:00:00'"],
        prefix: false,
        text: false,
    },
    Kind {
        ty: "TIME",
        values: &["'00:00:00'", "'-01:00:00'", "'12:30:00'", "'838:59:59'"],
        prefix: false,
        text: false,
    },
    Kind { ty: "YEAR", values: &["1901", "1999", "2024", "2155"], prefix: false, text: false },
    Kind { ty: "BIT(5)", values: &["0", "1", "2", "31"], prefix: false, text: false },
    Kind { ty: "ENUM('b','a','c')", values: &["'a'", "'b'", "'c'"], prefix: false, text: true },
    Kind {
        ty: "SET('x','y','z')",
        values: &["''", "'x'", "'y'", "'x,z'", "'x,y,z'"],
        prefix: false,
        text: true,
    },
];

/// Literals of other types, for comparisons that must not be wrong if an index is used.
const STRANGERS: &[&str] = &[
    "0",
    "1",
    "2",
    "-1",
    "1.5",
    "1.50",
    "2.0",
    "1e0",
    "1.5e0",
    "-0.0",
    "'1'",
    "'1.5'",
    "'2abc'",
    "''",
    "'a'",
    "'A '",
    "'b'",
    "CAST(2024 AS UNSIGNED)",
    "3000000000",
    "99999999999999999999",
    "-99999999999999999999",
    "1e308",
    "'9007199254740992.000001'",
    "'1e400'",
    "'2024-02-29'",
    "'2024-02-29 12:00:00.5'",
    "20240229",
    "DATE'2024-02-29'",
    "TIMESTAMP'2024-03-01 00:00:00'",
    "TIME'12:30:00'",
    "x'61'",
    "'é'",
    "TRUE",
];

pub(crate) fn pick<'a, T>(rng: &mut Rng, list: &'a [T]) -> &'a T {
    &list[rng.below(list.len() as u64) as usize]
}

/// A table: `id` is unique in it, `c0` and so on are of random kinds.
pub(crate) struct Table {
    pub(crate) name: String,
    pub(crate) columns: Vec<&'static Kind>,
    /// The definitions of its keys, as in CREATE TABLE.
    pub(crate) keys: Vec<String>,
    pub(crate) rows: Vec<String>,
}

impl Table {
    pub(crate) fn random(rng: &mut Rng, name: &str, rows: u64) -> Table {
        let columns: Vec<&Kind> = (0..2 + rng.below(3)).map(|_| pick(rng, KINDS)).collect();
        let parts = |rng: &mut Rng, most: u64| {
            let mut left: Vec<usize> = (0..columns.len()).collect();
            let mut parts = Vec::new();
            for _ in 0..1 + rng.below(most) {
                if left.is_empty() {
                    break;
                }
                let column = left.remove(rng.below(left.len() as u64) as usize);
                let prefix = if columns[column].prefix && rng.chance(1, 4) { "(2)" } else { "" };
                parts.push(format!("c{column}{prefix}"));
            }
            parts.join(", ")
        };
        let mut keys = Vec::new();
        match rng.below(4) {
            0 => {}
            1 => keys.push(format!("PRIMARY KEY ({}, id)", parts(rng, 2).replace("(2)", ""))),
            2 => keys.push(format!("PRIMARY KEY (id, {})", parts(rng, 1).replace("(2)", ""))),
            _ => keys.push("PRIMARY KEY (id)".to_owned()),
        }
        for at in 0..1 + rng.below(4) {
            keys.push(match rng.below(6) {
                0 => format!("UNIQUE KEY k{at} ({}, id)", parts(rng, 2)),
                1 => format!("UNIQUE KEY k{at} ({})", parts(rng, 3)),
                _ => format!("KEY k{at} ({})", parts(rng, 3)),
            });
        }
        let rows = (0..rng.below(rows + 1))
            .map(|id| {
                let values = columns.iter().map(|kind| {
                    if rng.chance(1, 8) {
                        "NULL".to_owned()
                    } else {
                        (*pick(rng, kind.values)).to_owned()
                    }
                });
                let values: Vec<String> = values.collect();
                format!("({id}, {})", values.join(", "))
            })
            .collect();
        Table { name: name.to_owned(), columns, keys, rows }
    }

    pub(crate) fn create(&self, name: &str, keys: bool) -> String {
        let columns =
            self.columns.iter().enumerate().map(|(at, kind)| format!(", c{at} {}", kind.ty));
        let columns: String = columns.collect();
        let keys: String = if keys {
            self.keys.iter().map(|key| format!(", {key}")).collect()
        } else {
            String::new()
        };
        format!("CREATE TABLE {name} (id INT NOT NULL{columns}{keys})")
    }

    /// The names of its secondary indexes.
    pub(crate) fn indexes(&self) -> Vec<String> {
        let named = self.keys.iter().filter_map(|key| key.split("KEY k").nth(1));
        named.filter_map(|rest| rest.split(' ').next()).map(|number| format!("k{number}")).collect()
    }
}

/// Generates conditions on the columns of tables, each qualified by an alias.
pub(crate) struct Conditions<'t> {
    pub(crate) tables: Vec<(&'static str, &'t Table)>,
}

impl Conditions<'_> {
    pub(crate) fn column(&self, rng: &mut Rng) -> (String, &'static Kind) {
        let (alias, table) = pick(rng, &self.tables);
        let at = rng.below(table.columns.len() as u64) as usize;
        (format!("{alias}.c{at}"), table.columns[at])
    }

    /// A column of one table only.
    pub(crate) fn column_of(&self, rng: &mut Rng, table: usize) -> (String, &'static Kind) {
        Conditions { tables: vec![self.tables[table]] }.column(rng)
    }

    pub(crate) fn value(&self, rng: &mut Rng, kind: &Kind) -> String {
        match rng.below(16) {
            0 => "NULL".to_owned(),
            1..=3 => (*pick(rng, STRANGERS)).to_owned(),
            _ => (*pick(rng, kind.values)).to_owned(),
        }
    }

    pub(crate) fn simple(&self, rng: &mut Rng) -> String {
        let (column, kind) = self.column(rng);
        let not = if rng.chance(1, 5) { "NOT " } else { "" };
        match rng.below(12) {
            0..=3 => {
                let op = *pick(rng, &["=", "=", "<", "<=", ">", ">=", "<>", "<=>"]);
                let value = self.value(rng, kind);
                if rng.chance(1, 4) {
                    format!("{value} {op} {column}")
                } else {
                    format!("{column} {op} {value}")
                }
            }
            4 | 5 => {
                let (low, high) = (self.value(rng, kind), self.value(rng, kind));
                format!("{column} {not}BETWEEN {low} AND {high}")
            }
            6 | 7 => {
                // Long lists are searched by hash.
                let most = if rng.chance(1, 3) { 16 } else { 4 };
                let list: Vec<String> =
                    (0..1 + rng.below(most)).map(|_| self.value(rng, kind)).collect();
                format!("{column} {not}IN ({})", list.join(", "))
            }
            8 => format!("{column} IS {not}NULL"),
            9 if kind.text => {
                let pattern =
                    *pick(rng, &["a%", "A%", "%", "a", "ab_", "_", "é%", "", "a b%", "%b"]);
                format!("{column} {not}LIKE '{pattern}'")
            }
            10 => {
                let table = rng.below(self.tables.len() as u64) as usize;
                let ((a, of_a), (b, of_b)) =
                    (self.column_of(rng, table), self.column_of(rng, table));
                let pair = |rng: &mut Rng| {
                    format!("({}, {})", self.value(rng, of_a), self.value(rng, of_b))
                };
                if rng.chance(1, 2) {
                    let op = *pick(rng, &["=", "<", ">=", "<=>", "<>"]);
                    format!("({a}, {b}) {op} {}", pair(rng))
                } else {
                    let most = if rng.chance(1, 3) { 12 } else { 2 };
                    let pairs: Vec<String> = (0..1 + rng.below(most)).map(|_| pair(rng)).collect();
                    format!("({a}, {b}) {not}IN ({})", pairs.join(", "))
                }
            }
            _ => {
                let (other, _) = self.column(rng);
                let op = *pick(rng, &["=", "<", ">=", "<=>", "<>"]);
                format!("{column} {op} {other}")
            }
        }
    }

    pub(crate) fn any(&self, rng: &mut Rng, depth: u32) -> String {
        if depth == 0 || rng.chance(1, 3) {
            return self.simple(rng);
        }
        let (a, b) = (self.any(rng, depth - 1), self.any(rng, depth - 1));
        match rng.below(8) {
            0 => format!("NOT ({a})"),
            1..=3 => format!("({a} OR {b})"),
            _ => format!("({a} AND {b})"),
        }
    }
}
