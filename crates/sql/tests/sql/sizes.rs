//! Tests that the reported sizes of tables are those of their extents and memtables, and which
//! users see them.

use std::fmt::Write;

use crate::common::{in_memory, run};
use spillway_sql::Session;

const SIZES: &str = "SELECT TABLE_ROWS, AVG_ROW_LENGTH, DATA_LENGTH, INDEX_LENGTH, DATA_FREE \
                     FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'test' AND TABLE_NAME = 't'";

/// The number of rows, their average length, the bytes of rows and of indexes, and the unused
/// bytes.
fn sizes(session: &mut Session) -> [u64; 5] {
    // Compactions in the background may come between two statements.
    let (row, shown) = loop {
        let row = run(session, SIZES).unwrap().remove(0);
        let shown = run(session, "SHOW TABLE STATUS LIKE 't'").unwrap().remove(0);
        if run(session, SIZES).unwrap() == [row.as_str()] {
            break (row, shown);
        }
    };
    let shown: Vec<&str> = shown.split(' ').collect();
    let figures: Vec<&str> = row.split(' ').collect();
    // Name, engine, version and format. There is no maximum table size.
    assert_eq!(shown[4..7], figures[..3]);
    assert_eq!((shown[8], shown[9]), (figures[3], figures[4]));
    std::array::from_fn(|at| figures[at].parse().unwrap())
}

#[test]
fn sizes_are_those_of_extents_and_memtables() {
    let instance = in_memory();
    let mut session = instance.session("root", "localhost", 1);
    session.use_database("test").unwrap();
    let mut rng = spillway_base::rng::Rng::new(3);
    run(&mut session, "CREATE TABLE t (id INT PRIMARY KEY, a BIGINT, b BLOB, KEY (a))").unwrap();
    assert_eq!(sizes(&mut session), [0; 5]);
    let mut insert = String::from("INSERT INTO t VALUES ");
    for id in 0..2000 {
        let blob: String = (0..64).map(|_| format!("{:02x}", rng.next_u64() as u8)).collect();
        let comma = if id > 0 { "," } else { "" };
        write!(insert, "{comma}({id}, {}, x'{blob}')", rng.below(1 << 40)).unwrap();
    }
    run(&mut session, &insert).unwrap();
    let [rows, average, data, index, free] = sizes(&mut session);
    assert_eq!((rows, free), (2000, 0));
    // The rows are in memtables, which take more memory than the rows alone.
    assert!(data >= 2000 * 64 && index >= 2000 * 16, "{data} {index}");
    assert_eq!(average, data / rows);

    let db = instance.database();
    db.compact().unwrap();
    let [rows, average, data, index, free] = sizes(&mut session);
    let text =
        |sql: &str| run(&mut instance.session("root", "localhost", 2), sql).unwrap().concat();
    let spaces = db.space();
    let slots: u64 = spaces.iter().map(|space| space.on_devices().slot_bytes).sum();
    assert_eq!(rows, 2000);
    assert!(data >= 2000 * 64 && index > 0 && free > 0, "{data} {index} {free}");
    // One extent for the rows and one for the index, of 2 MB each. Other tables have their own
    // extents.
    assert_eq!(data + index + free, 2 * (2 << 20));
    assert!(data + index + free < slots);
    assert_eq!(average, data / rows);

    // One by one, because rows that a range deletion hides are counted until they are compacted.
    run(&mut session, "DELETE FROM t WHERE id < 1000 ORDER BY id").unwrap();
    db.flush().unwrap();
    assert_eq!(sizes(&mut session)[0], 1000);
    db.compact().unwrap();
    let [rows, _, less, ..] = sizes(&mut session);
    assert_eq!(rows, 1000);
    assert!(less < data, "{less} of {data}");

    let page = text("SHOW ENGINE TIERED STATUS");
    let space = page.split("\nSPACE\n").nth(1).unwrap();
    let of_table: Vec<&str> =
        space.lines().skip_while(|line| !line.starts_with("test.t ")).collect();
    assert!(
        of_table[1].starts_with("    on ssd") && of_table[2].starts_with("    Level2"),
        "{page}"
    );
    assert!(page.contains("tiered_level2_dead_bytes"), "{page}");
}

#[test]
fn how_tables_are_stored_is_told_to_who_may_know() {
    let instance = in_memory();
    let mut root = instance.session("root", "localhost", 1);
    root.use_database("test").unwrap();
    let setup = "CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(20), KEY (name)); \
                 CREATE DATABASE other; CREATE TABLE other.u (a INT); \
                 INSERT INTO t VALUES (1, '<one>'), (-2, 'two'), (30, 'three'); INSERT INTO other.u VALUES (5); \
                 CREATE USER guest; GRANT SELECT ON test.* TO guest";
    run(&mut root, setup).unwrap();
    let db = instance.database();
    db.compact().unwrap();
    let slices = "SELECT TABLE_NAME, INDEX_NAME, LEVEL, SMALLEST_KEY, LARGEST_KEY, VERSIONS, TIER \
                  FROM information_schema.TIERED_SLICES WHERE TABLE_SCHEMA IS NOT NULL ORDER BY 1, 2";
    let [rows, names] = ["t PRIMARY 2 -2 30 3 ssd", "t name 2 '<ONE>', 1 'TWO', -2 3 ssd"];
    assert_eq!(run(&mut root, slices).unwrap(), [names, rows, "u PRIMARY 2 row 1 row 1 1 ssd"]);
    let sums =
        "SELECT SUM(SLICES), SUM(VERSIONS), SUM(SLOT_BYTES) FROM information_schema.TIERED_LEVELS";
    let levels = db.space().into_iter().flat_map(|table| table.levels);
    let (many, versions, slots) = levels.fold((0, 0, 0), |sum, level| {
        (sum.0 + level.slices, sum.1 + level.versions, sum.2 + level.slot_bytes)
    });
    assert_eq!(run(&mut root, sums).unwrap(), [format!("{many} {versions} {slots}")]);
    let kinds = "SELECT KIND, TABLE_NAME, SMALLEST_KEY, INPUT_SLICES > 0, ENDED_UTC > '2024-01-01' \
                 FROM information_schema.TIERED_COMPACTIONS WHERE TABLE_NAME = 't' AND INDEX_NAME = 'PRIMARY'";
    assert_eq!(run(&mut root, kinds).unwrap(), ["full t -2 1 1"]);
    let picture = "SELECT PICTURE FROM information_schema.TIERED_PICTURE";
    let page = run(&mut root, picture).unwrap().concat();
    assert!(page.starts_with("<!DOCTYPE html>") && page.trim_end().ends_with("</html>"));
    assert!(page.contains("test.t, index name") && page.contains("&lt;ONE&gt;"), "{page}");
    assert!(page.contains("other.u") && page.contains("(names of key spaces)"));

    let mut guest = instance.session("guest", "%", 2);
    assert_eq!(run(&mut guest, slices).unwrap(), [names, rows]);
    let all = "SELECT COUNT(*) FROM information_schema.TIERED_SLICES";
    assert_eq!(run(&mut guest, all).unwrap(), ["2"]);
    let page = run(&mut guest, picture).unwrap().concat();
    assert!(page.contains("test.t") && !page.contains("other.u") && !page.contains("key spaces"));
    let compactions = "SELECT DISTINCT TABLE_NAME FROM information_schema.TIERED_COMPACTIONS";
    assert_eq!(run(&mut guest, compactions).unwrap(), ["t"]);
}

#[test]
fn flush_tables_writes_out_what_is_in_memory() {
    const STORED: &str =
        "SELECT SUM(VERSIONS) FROM information_schema.TIERED_LEVELS WHERE TABLE_NAME = 't'";
    let instance = in_memory();
    let mut session = instance.session("root", "localhost", 1);
    session.use_database("test").unwrap();
    run(&mut session, "CREATE TABLE t (id INT PRIMARY KEY)").unwrap();
    run(&mut session, "INSERT INTO t VALUES (1), (2), (3)").unwrap();
    assert_eq!(run(&mut session, STORED).unwrap(), ["0"]);
    run(&mut session, "FLUSH STATUS").unwrap();
    assert_eq!(run(&mut session, STORED).unwrap(), ["0"]);
    run(&mut session, "FLUSH TABLES").unwrap();
    assert_eq!(run(&mut session, STORED).unwrap(), ["3"]);
}

/// Keys are shown only to users who may read the table's rows, because they contain values of these
/// (SIGHT-1 to SIGHT-3).
#[test]
fn how_tables_are_stored_tells_keys_to_those_who_may_read_them() {
    let instance = in_memory();
    let mut root = instance.session("root", "localhost", 1);
    for sql in [
        "CREATE DATABASE shop; CREATE TABLE shop.t (name VARCHAR(20) PRIMARY KEY)",
        "INSERT INTO shop.t VALUES ('hidden-a'), ('hidden-b')",
        "FLUSH TABLES",
        "CREATE USER u; GRANT INSERT, UPDATE, DELETE, ALTER ON shop.* TO u",
    ] {
        run(&mut root, sql).unwrap();
    }
    const TABLES: [&str; 4] = ["LEVELS", "SLICES", "COMPACTIONS", "PICTURE"];
    let seen = |user: &str, table: &str| {
        let mut session = instance.session(user, "localhost", 8);
        let sql = format!("SELECT * FROM information_schema.TIERED_{table}");
        run(&mut session, &sql).unwrap().join("\n").to_lowercase()
    };
    assert!(seen("root", "SLICES").contains("hidden-a"), "the test would show nothing");
    assert!(seen("root", "PICTURE").contains("hidden-a"), "the test would show nothing");
    for table in TABLES {
        let told = seen("u", table);
        assert!(!told.contains("hidden"), "{table}: {told}");
        assert!(table == "PICTURE" || !told.contains("shop"), "{table}: {told}");
    }
    run(&mut root, "GRANT PROCESS ON *.* TO u").unwrap();
    for table in TABLES {
        assert!(!seen("u", table).contains("hidden"), "{table}");
        assert!(!seen("u", table).contains("u/root"), "{table}: of the catalog");
    }
    assert!(seen("u", "SLICES").contains("shop t primary"), "with PROCESS figures are told");
    run(&mut root, "REVOKE PROCESS ON *.* FROM u; GRANT SELECT ON shop.* TO u").unwrap();
    assert!(seen("u", "SLICES").contains("hidden-a"));
    assert!(seen("u", "PICTURE").contains("hidden-a"));
}
