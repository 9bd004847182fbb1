//! Tests of instant changes of columns, which leave the stored rows as they are: guarantees
//! STORED-ROW-1 to STORED-ROW-6 of `catalog/stored_rows`.

use crate::common::{code, in_memory, instance_of, run};
use spillway::{Database, Mechanism, Settings, TransactionOptions};
use spillway_base::rng::Rng;
use spillway_sql::{Instance, Session};

fn session(instance: &Instance, id: u64) -> Session {
    let mut session = instance.session("root", "localhost", id);
    session.use_database("test").unwrap();
    session
}

/// A column of the twin tables, with the types through which it is widened.
struct Column {
    name: String,
    family: usize,
    width: usize,
}

/// Types, each wider than the previous one, and values that the narrowest one can hold.
const FAMILIES: [(&[&str], [&str; 3]); 9] = [
    (&["TINYINT", "INT", "BIGINT"], ["-7", "100", "NULL"]),
    (&["TINYINT UNSIGNED", "INT UNSIGNED", "BIGINT"], ["7", "200", "NULL"]),
    (&["FLOAT", "DOUBLE"], ["0.1", "-2.5", "NULL"]),
    (&["DECIMAL(5,2)", "DECIMAL(7,2)", "DECIMAL(12,4)"], ["-1.25", "333.33", "NULL"]),
    (&["CHAR(4)", "VARCHAR(6)", "VARCHAR(60)"], ["'ab'", "'Grü'", "NULL"]),
    (&["BINARY(3)", "VARBINARY(4)", "VARBINARY(40)"], ["'x'", "'yyy'", "NULL"]),
    (&["ENUM('a','b')", "ENUM('a','b','c')"], ["'b'", "'a'", "NULL"]),
    (&["SET('a','b')", "SET('a','b','c')"], ["'a,b'", "'b'", "NULL"]),
    (
        &["DATETIME", "DATETIME(3)", "DATETIME(6)"],
        ["'2024-02-29 12:00:01'", "'1999-01-01'", "NULL"],
    ),
];

impl Column {
    fn ty(&self) -> &'static str {
        FAMILIES[self.family].0[self.width]
    }

    fn value(&self, rng: &mut Rng) -> &'static str {
        FAMILIES[self.family].1[rng.below(3) as usize]
    }
}

fn place(rng: &mut Rng, columns: &[Column], but: &str) -> String {
    match rng.below(3) {
        0 => " FIRST".to_owned(),
        1 => {
            let others: Vec<_> = columns.iter().filter(|column| column.name != but).collect();
            match others.is_empty() {
                true => " AFTER id".to_owned(),
                false => format!(" AFTER {}", others[rng.below(others.len() as u64) as usize].name),
            }
        }
        _ => String::new(),
    }
}

/// One clause of an ALTER TABLE. Updates the columns accordingly.
fn clause(rng: &mut Rng, columns: &mut Vec<Column>, made: &mut u64) -> String {
    let some = (!columns.is_empty()).then(|| rng.below(columns.len() as u64) as usize);
    match (rng.below(7), some) {
        (0, Some(at)) if columns.len() > 2 => {
            format!("DROP COLUMN {}", columns.remove(at).name)
        }
        (1, Some(at)) => {
            *made += 1;
            let old = std::mem::replace(&mut columns[at].name, format!("c{made}"));
            format!("RENAME COLUMN {old} TO c{made}")
        }
        (2 | 3, Some(at)) => {
            let most = FAMILIES[columns[at].family].0.len() - 1;
            columns[at].width = most.min(columns[at].width + rng.below(2) as usize);
            let default = columns[at].value(rng);
            let to = place(rng, columns, &columns[at].name);
            format!("MODIFY {} {} DEFAULT {default}{to}", columns[at].name, columns[at].ty())
        }
        (4, Some(at)) => {
            format!("ALTER COLUMN {} SET DEFAULT {}", columns[at].name, columns[at].value(rng))
        }
        _ => {
            *made += 1;
            let family = rng.below(FAMILIES.len() as u64) as usize;
            let column = Column { name: format!("c{made}"), family, width: 0 };
            let default = column.value(rng);
            let to = place(rng, columns, "");
            let clause =
                format!("ADD COLUMN {} {} DEFAULT {default}{to}", column.name, column.ty());
            columns.push(column);
            clause
        }
    }
}

/// STORED-ROW-1 to STORED-ROW-4: a table whose rows stay always gives the same results as a twin
/// that is copied at each change.
#[test]
fn rows_that_stay_read_as_rows_that_are_copied() {
    for seed in 0..12 {
        let mut rng = Rng::new(seed);
        let instance = in_memory();
        let mut one = session(&instance, 1);
        for twin in ["stays", "copied"] {
            run(&mut one, &format!("CREATE TABLE {twin} (id INT PRIMARY KEY, c0 INT, KEY (c0))"))
                .unwrap();
        }
        let mut columns = vec![Column { name: "c0".to_owned(), family: 0, width: 1 }];
        let (mut made, mut indexed) = (0, 0);
        for round in 0..40_u64 {
            let values: Vec<_> = columns.iter().map(|column| column.value(&mut rng)).collect();
            let names: Vec<_> = columns.iter().map(|column| column.name.as_str()).collect();
            let changed = rng.below(columns.len() as u64) as usize;
            let mut statements = vec![
                format!(
                    "INSERT INTO @ (id, {}) VALUES ({round}, {})",
                    names.join(", "),
                    values.join(", ")
                ),
                format!("INSERT INTO @ (id) VALUES ({})", 1000 + round),
                format!(
                    "UPDATE @ SET {} = {} WHERE id = {}",
                    names[changed],
                    values[changed],
                    rng.below(round + 1)
                ),
                format!("DELETE FROM @ WHERE id = {}", rng.below(round + 1)),
            ];
            if rng.chance(1, 6) {
                indexed += 1;
                statements.push(format!("CREATE INDEX i{indexed} ON @ ({})", names[changed]));
            }
            for statement in statements {
                for twin in ["stays", "copied"] {
                    let sql = statement.replace('@', twin);
                    run(&mut one, &sql).unwrap_or_else(|error| panic!("{seed}: {sql}: {error:?}"));
                }
            }
            let clause = clause(&mut rng, &mut columns, &mut made);
            for (twin, how) in [("stays", "DEFAULT"), ("copied", "COPY")] {
                let sql = format!("ALTER TABLE {twin} {clause}, ALGORITHM={how}");
                run(&mut one, &sql).unwrap_or_else(|error| panic!("{seed}: {sql}: {error:?}"));
            }
            let column = &columns[rng.below(columns.len() as u64) as usize];
            let (name, value) = (&column.name, column.value(&mut rng));
            for query in [
                "SELECT * FROM @ ORDER BY id".to_owned(),
                format!("SELECT {name}, COUNT(*), SUM(id) FROM @ GROUP BY {name} ORDER BY {name}"),
                format!("SELECT id FROM @ WHERE {name} = {value} ORDER BY id"),
                format!("SELECT id FROM @ WHERE {name} > {value} ORDER BY id"),
                format!("SELECT id, {name} FROM @ WHERE {name} IS NULL ORDER BY id FOR UPDATE"),
            ] {
                let answers = ["stays", "copied"]
                    .map(|twin| run(&mut one, &query.replace('@', twin)).unwrap());
                assert_eq!(answers[0], answers[1], "{seed}: {clause}: {query}");
            }
        }
    }
}

/// The number of versions is limited. One more makes the statement rewrite the rows, unless it
/// excludes that.
#[test]
fn rows_are_copied_when_they_have_too_many_versions() {
    // No background thread rewrites them meanwhile.
    let mut settings = Settings::default();
    settings.without.push(Mechanism::RowRefresh);
    let instance = instance_of(Database::open_in_memory(settings).unwrap()).unwrap();
    let mut one = session(&instance, 1);
    run(&mut one, "CREATE TABLE t (id INT PRIMARY KEY)").unwrap();
    for version in 0..64 {
        run(&mut one, &format!("INSERT INTO t (id) VALUES ({version})")).unwrap();
        let alter = format!(
            "ALTER TABLE t ADD COLUMN c{version} INT DEFAULT {version} FIRST, ALGORITHM=INSTANT"
        );
        run(&mut one, &alter).unwrap();
    }
    let all = "SELECT SUM(c0), SUM(c63), SUM(c0 + c63), SUM(id), COUNT(*) FROM t";
    let before = run(&mut one, all).unwrap();
    assert_eq!(before, ["0 4032 4032 2016 64"]);
    assert_eq!(code(&mut one, "ALTER TABLE t ADD COLUMN more INT FIRST, ALGORITHM=INSTANT"), 4092);
    // A column can always be added at the end, because rows of the same version then have fewer
    // columns.
    run(&mut one, "ALTER TABLE t ADD COLUMN last INT DEFAULT 3, ALGORITHM=INSTANT").unwrap();
    run(&mut one, "ALTER TABLE t ADD COLUMN more INT FIRST").unwrap();
    assert_eq!(run(&mut one, all).unwrap(), before);
    assert_eq!(run(&mut one, "SELECT SUM(last) FROM t").unwrap(), ["192"]);
    for again in 0..64 {
        let alter = format!("ALTER TABLE t ADD COLUMN again{again} INT FIRST, ALGORITHM=INSTANT");
        run(&mut one, &alter).unwrap();
    }
    assert_eq!(code(&mut one, "ALTER TABLE t ADD COLUMN once INT FIRST, ALGORITHM=INSTANT"), 4092);
    assert_eq!(run(&mut one, "OPTIMIZE TABLE t").unwrap(), ["test.t optimize status OK"]);
    run(&mut one, "ALTER TABLE t ADD COLUMN once INT FIRST, ALGORITHM=INSTANT").unwrap();
    assert_eq!(run(&mut one, all).unwrap(), before);
}

/// A transaction with a snapshot from before a change reads the old rows under the new definition.
#[test]
fn an_older_snapshot_reads_through_a_change() {
    let instance = in_memory();
    let (mut one, mut two) = (session(&instance, 1), session(&instance, 2));
    run(&mut one, "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT); CREATE TABLE other (id INT)")
        .unwrap();
    run(&mut one, "INSERT INTO t VALUES (1, 10, 100), (2, 20, 200)").unwrap();
    run(&mut one, "BEGIN; SELECT * FROM other").unwrap();
    run(
        &mut two,
        "ALTER TABLE t DROP COLUMN a, ADD COLUMN c INT DEFAULT 5 FIRST, ALGORITHM=INSTANT",
    )
    .unwrap();
    run(&mut two, "UPDATE t SET b = 0 WHERE id = 1; INSERT INTO t VALUES (1, 3, 1)").unwrap();
    assert_eq!(run(&mut one, "SELECT * FROM t").unwrap(), ["5 1 100", "5 2 200"]);
    run(&mut one, "UPDATE t SET c = 6 WHERE id = 2; COMMIT").unwrap();
    assert_eq!(run(&mut two, "SELECT * FROM t").unwrap(), ["5 1 0", "6 2 200", "1 3 1"]);
}

/// ROW-REWRITE-1 to ROW-REWRITE-3 of `ddl/refresh`: rewritten rows read as before, also by older
/// snapshots. No row of an earlier version is left, because after the next opening there are no
/// layouts to read them.
#[test]
fn rows_are_written_anew_beside_their_table() {
    let db = Database::open_in_memory(Settings::default()).unwrap();
    let instance = instance_of(db.clone()).unwrap();
    let (mut one, mut two) = (session(&instance, 1), session(&instance, 2));
    run(&mut one, "CREATE TABLE other (id INT)").unwrap();
    run(&mut one, "CREATE TABLE t (id INT PRIMARY KEY, a INT UNSIGNED, f FLOAT, KEY (f))").unwrap();
    for version in 0..5 {
        let rows: Vec<_> =
            (0..300).map(|id| format!("({}, {id}, 0.1)", version * 300 + id)).collect();
        run(&mut one, &format!("INSERT INTO t (id, a, f) VALUES {}", rows.join(","))).unwrap();
        let alter = ["DROP COLUMN x, MODIFY a BIGINT", "MODIFY f DOUBLE"];
        let alter = match version {
            0 => "ADD COLUMN x INT DEFAULT 3 FIRST",
            2 | 3 => alter[version - 2],
            _ => "MODIFY id INT FIRST",
        };
        run(&mut one, &format!("ALTER TABLE t {alter}, ALGORITHM=INSTANT")).unwrap();
    }
    let all = "SELECT * FROM t ORDER BY id";
    let before = run(&mut one, all).unwrap();
    run(&mut two, "BEGIN; SELECT * FROM other").unwrap();
    run(&mut one, "UPDATE t SET a = 7 WHERE id < 10").unwrap();
    assert_eq!(run(&mut one, "OPTIMIZE TABLE t").unwrap(), ["test.t optimize status OK"]);
    assert_eq!(run(&mut two, all).unwrap(), before);
    let after = run(&mut one, all).unwrap();
    assert_eq!(run(&mut one, "CHECK TABLE t").unwrap(), ["test.t check status OK"]);
    drop((one, two, instance));
    let mut one = session(&instance_of(db.clone()).unwrap(), 1);
    edit_entry(&db, |entry| {
        assert!(entry.contains(r#""layouts":[],"fresh_from":4"#), "{entry}");
        entry
    });
    assert_eq!(run(&mut one, all).unwrap(), after);
    run(&mut one, "ALTER TABLE t DROP COLUMN a, ALGORITHM=INSTANT").unwrap();
    assert_eq!(run(&mut one, "SELECT COUNT(*), SUM(f = 0.1) FROM t").unwrap(), ["1500 300"]);
}

/// Changes the entry of table `t` in the stored catalog.
fn edit_entry(db: &Database, edit: impl FnOnce(String) -> String) {
    let txn = db.begin(TransactionOptions::new());
    let catalog = txn.table("sys.catalog").unwrap();
    let mut entry = Vec::new();
    assert!(txn.get(catalog, b"t/test/t", &mut entry).unwrap());
    let edited = edit(String::from_utf8(entry).unwrap());
    txn.put(catalog, b"t/test/t", edited.as_bytes()).unwrap();
    txn.commit().wait().unwrap();
}

/// STORED-ROW-5.
#[test]
fn a_row_of_an_unknown_version_is_damage() {
    let db = Database::open_in_memory(Settings::default()).unwrap();
    let instance = instance_of(db.clone()).unwrap();
    let mut one = session(&instance, 1);
    run(&mut one, "CREATE TABLE t (id INT PRIMARY KEY, a INT); INSERT INTO t VALUES (1, 2)")
        .unwrap();
    run(&mut one, "ALTER TABLE t ADD COLUMN b INT FIRST, ALGORITHM=INSTANT").unwrap();
    drop((one, instance));
    edit_entry(&db, |entry| {
        let known = r#""layouts":[{"schema":0,"columns":[1,2]}]"#;
        assert!(entry.contains(known), "{entry}");
        entry.replace(known, r#""layouts":[]"#)
    });
    let mut one = session(&instance_of(db).unwrap(), 1);
    assert_eq!(code(&mut one, "SELECT * FROM t"), 1034);
    assert_eq!(code(&mut one, "UPDATE t SET a = 3 WHERE id = 1"), 1034);
}
