//! Tests, through SQL, of snapshots that move forward to avoid error 1213
//! (`txn/transaction/refresh`).

use crate::common::{code, in_memory, run};
use spillway_sql::{Instance, Session};

fn session(instance: &Instance, number: u64) -> Session {
    let mut session = instance.session("root", "localhost", number);
    session.use_database("test").unwrap();
    session
}

fn fill(session: &mut Session) {
    for sql in [
        "DROP TABLE IF EXISTS house, part, hot",
        "CREATE TABLE house (id INT PRIMARY KEY, tax INT, ytd INT, name VARCHAR(9))",
        "CREATE TABLE part (id INT PRIMARY KEY, kind INT, stock INT, u INT UNIQUE, KEY by_kind (kind))",
        "CREATE TABLE hot (id INT PRIMARY KEY, n INT)",
        "INSERT INTO house VALUES (1, 10, 0, 'a'), (2, 20, 0, 'b')",
        "INSERT INTO part VALUES (1, 1, 5, 1), (2, 1, 6, 2), (3, 2, 7, 3), (9, 3, 8, 9)",
        "INSERT INTO hot VALUES (1, 0), (2, 0)",
    ] {
        run(session, sql).unwrap();
    }
}

/// A transaction reads, another one changes something, and the first one then locks the row `hot`.
/// REFRESH-1 to REFRESH-3.
#[test]
fn a_conflict_is_one_where_what_was_read_has_changed() {
    // The read, the other transaction's change besides `hot`, and whether the transaction is
    // refused.
    let cases = [
        // One row, by columns.
        ("SELECT tax FROM house WHERE id = 1", "UPDATE house SET ytd = ytd + 1", false),
        ("SELECT tax FROM house WHERE id = 1", "UPDATE house SET tax = 11 WHERE id = 1", true),
        ("SELECT tax FROM house WHERE id = 1", "UPDATE house SET tax = 11 WHERE id = 2", false),
        ("SELECT * FROM house WHERE id = 1", "UPDATE house SET ytd = ytd + 1", true),
        ("SELECT tax FROM house WHERE id = 1", "DELETE FROM house WHERE id = 1", true),
        ("SELECT tax FROM house WHERE id = 7", "INSERT INTO house VALUES (7, 1, 1, '')", true),
        ("SELECT tax FROM house WHERE id = 1 AND ytd = 0", "UPDATE house SET ytd = 1", true),
        ("SELECT tax, ytd FROM house WHERE id IN (1, 2)", "UPDATE house SET name = ''", false),
        ("SELECT tax, name FROM house WHERE id IN (1, 2)", "UPDATE house SET name = ''", true),
        // Joined.
        (
            "SELECT tax, stock FROM house JOIN part ON part.id = house.id",
            "UPDATE house SET ytd = 5",
            false,
        ),
        (
            "SELECT tax, stock FROM house JOIN part ON part.id = house.id",
            "UPDATE part SET stock = 5 WHERE id = 2",
            true,
        ),
        // Ranges, totals, and inserted or deleted rows.
        ("SELECT SUM(tax) FROM house", "UPDATE house SET ytd = 5", false),
        ("SELECT SUM(tax) FROM house", "UPDATE house SET tax = 5 WHERE id = 2", true),
        ("SELECT COUNT(*) FROM house", "UPDATE house SET tax = 5", false),
        ("SELECT COUNT(*) FROM house", "INSERT INTO house VALUES (7, 1, 1, '')", true),
        (
            "SELECT COUNT(*) FROM house WHERE tax > 15",
            "UPDATE house SET tax = 16 WHERE id = 1",
            true,
        ),
        ("SELECT id FROM part WHERE id BETWEEN 2 AND 5", "UPDATE part SET stock = 0", false),
        (
            "SELECT id FROM part WHERE id BETWEEN 2 AND 5",
            "INSERT INTO part VALUES (4, 9, 9, 44)",
            true,
        ),
        (
            "SELECT id FROM part WHERE id BETWEEN 2 AND 5",
            "INSERT INTO part VALUES (6, 9, 9, 44)",
            false,
        ),
        // Adjacent rows are read together and count together.
        ("SELECT id FROM part ORDER BY id LIMIT 1", "DELETE FROM part WHERE id = 9", true),
        (
            "SELECT id FROM part ORDER BY id LIMIT 1 FOR UPDATE",
            "DELETE FROM part WHERE id = 9",
            false,
        ),
        ("SELECT id FROM part ORDER BY id LIMIT 1", "INSERT INTO part VALUES (0, 9, 9, 44)", true),
        // By an index, with and without reading rows.
        ("SELECT id FROM part WHERE kind = 1", "UPDATE part SET stock = 0", false),
        ("SELECT id FROM part WHERE kind = 1", "UPDATE part SET kind = 1 WHERE id = 3", true),
        ("SELECT id FROM part WHERE kind = 1", "UPDATE part SET kind = 3 WHERE id = 3", false),
        ("SELECT stock FROM part WHERE kind = 1", "UPDATE part SET stock = 0 WHERE id = 9", false),
        ("SELECT stock FROM part WHERE kind = 1", "UPDATE part SET stock = 0 WHERE id = 1", true),
        ("SELECT MAX(kind) FROM part", "UPDATE part SET kind = 4 WHERE id = 1", true),
        ("SELECT id FROM part WHERE u = 5", "UPDATE part SET u = 5 WHERE id = 1", true),
        // Subqueries and derived tables.
        (
            "SELECT (SELECT MAX(tax) FROM house) FROM hot WHERE id = 2",
            "UPDATE house SET tax = 30 WHERE id = 1",
            true,
        ),
        (
            "SELECT * FROM (SELECT tax FROM house) AS d UNION SELECT kind FROM part",
            "UPDATE house SET ytd = 5",
            false,
        ),
        (
            "SELECT * FROM (SELECT tax FROM house) AS d UNION SELECT kind FROM part",
            "UPDATE part SET kind = 5 WHERE id = 9",
            true,
        ),
        (
            "SELECT id FROM hot WHERE EXISTS (SELECT 1 FROM part WHERE part.id = hot.id AND stock = 6)",
            "UPDATE part SET stock = 6 WHERE id = 1",
            true,
        ),
        // Changes: rows that they read and did not change, and rows that they copied.
        ("UPDATE part SET stock = 0 WHERE kind = 7", "UPDATE part SET kind = 7 WHERE id = 9", true),
        (
            "UPDATE part SET u = u + 90 WHERE stock = 8",
            "UPDATE part SET kind = 9 WHERE id = 1",
            false,
        ),
        ("DELETE FROM part WHERE stock = 100", "UPDATE part SET stock = 100 WHERE id = 1", true),
        ("DELETE FROM part WHERE stock = 100", "UPDATE part SET kind = 100 WHERE id = 1", false),
        (
            "INSERT INTO hot SELECT id + 10, tax FROM house",
            "INSERT INTO house VALUES (7, 1, 1, '')",
            true,
        ),
        ("INSERT INTO hot SELECT id + 10, tax FROM house", "UPDATE house SET ytd = 1", false),
        ("INSERT INTO hot SELECT id + 10, tax FROM house", "UPDATE house SET tax = 1", true),
        // A locked row cannot have changed.
        (
            "SELECT stock FROM part WHERE id = 1 FOR UPDATE",
            "UPDATE part SET stock = 0 WHERE id = 2",
            false,
        ),
        ("SELECT 1", "UPDATE house SET tax = 0", false),
        ("SELECT n FROM hot WHERE id = 1", "DELETE FROM part", true),
    ];
    let instance = in_memory();
    let [mut one, mut two] = [session(&instance, 1), session(&instance, 2)];
    let mut wrong = Vec::new();
    for (read, change, refused) in cases {
        fill(&mut two);
        run(&mut one, "START TRANSACTION WITH CONSISTENT SNAPSHOT").unwrap();
        run(&mut one, read).unwrap();
        for sql in ["BEGIN", change, "UPDATE hot SET n = n + 1 WHERE id = 1", "COMMIT"] {
            run(&mut two, sql).unwrap();
        }
        let locked = run(&mut one, "SELECT n FROM hot WHERE id = 1 FOR UPDATE");
        let is_refused = locked.as_ref().is_err_and(|error| error.code == 1213);
        if is_refused != refused || (!refused && locked != Ok(vec!["1".to_owned()])) {
            wrong.push(format!("{read}; {change}: {locked:?}"));
            run(&mut one, "ROLLBACK").unwrap();
            continue;
        }
        if !refused {
            assert_eq!(run(&mut one, "SELECT n FROM hot WHERE id = 1").unwrap(), ["1"]);
            assert_eq!(code(&mut one, "UPDATE hot SET n = n + 1 WHERE id = 1"), 0);
            assert_eq!(code(&mut one, "COMMIT"), 0);
            assert_eq!(run(&mut two, "SELECT n FROM hot WHERE id = 1").unwrap(), ["2"]);
        }
        run(&mut one, "ROLLBACK").unwrap();
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The statement that meets the conflict repeats its own reads at the newer snapshot, because its
/// client has seen none of them.
#[test]
fn the_statement_that_meets_a_conflict_reads_again() {
    let statements = [
        ("UPDATE part SET stock = stock + 1 WHERE kind = 1", "1 6; 2 7; 5 1"),
        ("UPDATE part SET stock = stock + 1 WHERE stock < 7", "1 6; 2 7; 5 1"),
        ("DELETE FROM part WHERE stock < 6 OR u = 2", "2 6"),
        (
            "INSERT INTO part SELECT id + 2, kind, stock, u + 50 FROM part WHERE kind = 1 FOR UPDATE",
            "1 5; 2 6; 3 5; 4 6; 5 0; 7 0",
        ),
        ("SELECT stock FROM part WHERE kind = 1 FOR UPDATE", "1 5; 2 6; 5 0"),
        (
            "INSERT INTO part VALUES (5, 1, 9, 9) ON DUPLICATE KEY UPDATE stock = stock + 1",
            "1 5; 2 6; 5 1",
        ),
        ("REPLACE INTO part VALUES (5, 1, 77, 78)", "1 5; 2 6; 5 77"),
        ("INSERT IGNORE INTO part VALUES (5, 1, 77, 78)", "1 5; 2 6; 5 0"),
    ];
    let instance = in_memory();
    let [mut one, mut two] = [session(&instance, 1), session(&instance, 2)];
    for told in [false, true] {
        for (sql, rows) in statements {
            fill(&mut two);
            run(&mut two, "DELETE FROM part WHERE id IN (3, 9)").unwrap();
            run(&mut one, "BEGIN").unwrap();
            let read = if told { "SELECT COUNT(*) FROM part" } else { "SELECT tax FROM house" };
            run(&mut one, read).unwrap();
            run(&mut two, "INSERT INTO part VALUES (5, 1, 0, 50)").unwrap();
            run(&mut two, "UPDATE part SET u = u + 100 WHERE id < 3").unwrap();
            let error = code(&mut one, sql);
            assert_eq!(error, if told { 1213 } else { 0 }, "{sql}");
            if !told {
                let query = "SELECT id, stock FROM part WHERE kind = 1 ORDER BY id";
                assert_eq!(run(&mut one, query).unwrap().join("; "), rows, "{sql}");
                assert_eq!(code(&mut one, "COMMIT"), 0);
            }
            run(&mut one, "ROLLBACK").unwrap();
        }
    }
}

/// The error of a conflict names the table, and the switch if there is one.
#[test]
fn error_1213_says_which_table_and_what_to_do() {
    let instance = in_memory();
    let [mut one, mut two] = [session(&instance, 1), session(&instance, 2)];
    for (level, switch) in [("REPEATABLE READ", true), ("SERIALIZABLE", false)] {
        fill(&mut two);
        run(&mut one, &format!("SET TRANSACTION ISOLATION LEVEL {level}")).unwrap();
        run(&mut one, "BEGIN").unwrap();
        run(&mut one, "SELECT * FROM house").unwrap();
        run(&mut two, "UPDATE house SET tax = 0").unwrap();
        let error = run(&mut one, "UPDATE house SET tax = 1").unwrap_err();
        assert_eq!((error.code, error.state), (1213, "40001"));
        assert!(error.message.contains("'test.house'"), "{error:?}");
        let named = error.message.contains("innodb_snapshot_isolation = OFF");
        assert_eq!(named, switch, "{error:?}");
        assert_eq!(run(&mut one, "SELECT COUNT(*) FROM house WHERE tax = 0").unwrap(), ["2"]);
    }
}

/// The switch is a variable of the session and a global one, as in MariaDB.
#[test]
fn the_switch_is_set_and_shown() {
    let instance = in_memory();
    let mut one = session(&instance, 1);
    let shown = |session: &mut Session| {
        let shown = run(session, "SHOW VARIABLES LIKE 'innodb_snapshot%'").unwrap();
        let selected =
            run(session, "SELECT @@innodb_snapshot_isolation, @@GLOBAL.innodb_snapshot_isolation");
        (shown, selected.unwrap())
    };
    let line = |value: &str| vec![format!("innodb_snapshot_isolation {value}")];
    assert_eq!(shown(&mut one), (line("ON"), vec!["1 1".to_owned()]));
    run(&mut one, "SET innodb_snapshot_isolation = OFF").unwrap();
    assert_eq!(shown(&mut one), (line("OFF"), vec!["0 1".to_owned()]));
    run(&mut one, "SET GLOBAL innodb_snapshot_isolation = 0").unwrap();
    assert_eq!(shown(&mut session(&instance, 2)), (line("OFF"), vec!["0 0".to_owned()]));
    run(&mut one, "SET SESSION innodb_snapshot_isolation = ON").unwrap();
    assert_eq!(shown(&mut one), (line("ON"), vec!["1 0".to_owned()]));
    run(&mut one, "SET @@GLOBAL.innodb_snapshot_isolation = DEFAULT").unwrap();
    assert_eq!(shown(&mut one), (line("ON"), vec!["1 1".to_owned()]));
    assert_eq!(code(&mut one, "SET innodb_snapshot_isolation = 'sometimes'"), 1231);
}
