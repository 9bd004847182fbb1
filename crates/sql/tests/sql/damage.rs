//! Tests that the error for damaged data names the table or index by its SQL name, and says where
//! the damage is.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::common::{Rows, instance_of, run};
use spillway::{Database, Settings};
use spillway_sql::{Instance, Session};
use spillway_storage::sim::SimDisk;

fn open(disk: &SimDisk) -> Result<(Instance, Session), String> {
    let mut settings = Settings::default();
    settings.memory_bytes = 64 << 20;
    settings.background_threads = false;
    let db = Database::open_on(Arc::new(disk.clone()), "/db", settings);
    let instance = instance_of(db.map_err(|error| error.to_string())?);
    let instance = instance.map_err(|error| error.to_string())?;
    let mut session = instance.session("root", "localhost", 1);
    session.use_database("test").unwrap();
    Ok((instance, session))
}

#[test]
fn damage_is_told_with_the_name_of_its_table_and_the_rest_is_served() {
    let disk = SimDisk::new(1);
    let (instance, mut root) = open(&disk).unwrap();
    run(
        &mut root,
        "CREATE TABLE seat (id INT PRIMARY KEY, area INT, pad VARCHAR(300), KEY by_area (area))",
    )
    .unwrap();
    for from in (0..4000).step_by(500) {
        let rows: Vec<String> = (from..from + 500)
            .map(|id| format!("({id}, {}, REPEAT(MD5({id}), 8))", id % 10))
            .collect();
        run(&mut root, &format!("INSERT INTO seat VALUES {}", rows.join(", "))).unwrap();
    }
    run(&mut root, "CREATE USER changes; GRANT UPDATE, DELETE ON test.* TO changes").unwrap();
    drop(root);
    instance.database().compact().unwrap();
    instance.database().close().unwrap();
    drop(instance);
    let data = disk.files().into_iter().filter(|(path, _)| path.ends_with("000001.data"));
    let (path, len) = data.max_by_key(|(_, len)| *len).unwrap();
    let (mut told, mut hidden) = (BTreeSet::new(), 0);
    for slot in (0..len).step_by(2 << 20) {
        if told.len() == 2 {
            break;
        }
        let flip = || {
            (slot..len.min(slot + (2 << 20))).step_by(1 << 10).for_each(|at| disk.rot(&path, at, 1))
        };
        flip();
        // The damage may be in the catalog's block or in one that refers to it.
        if let Ok((instance, mut root)) = open(&disk) {
            // The place of the damage has keys, which this account may not read (SIGHT-1).
            let mut changes = instance.session("changes", "localhost", 2);
            for sql in ["UPDATE test.seat SET pad = 'x'", "DELETE FROM test.seat"] {
                run(&mut changes, "BEGIN").unwrap();
                if let Err(error) = run(&mut changes, sql) {
                    let text = "Incorrect key file for table 'test.seat'; (hidden)";
                    assert_eq!((error.code, error.message.as_str()), (1034, text));
                    assert!(run(&mut changes, "SHOW WARNINGS").unwrap()[0].ends_with("(hidden)"));
                    hidden += 1;
                }
                run(&mut changes, "ROLLBACK").unwrap();
            }
            for (sql, rows) in [
                ("SELECT COUNT(pad) FROM seat IGNORE INDEX (by_area)", "4000"),
                ("SELECT SUM(area) FROM seat FORCE INDEX (by_area) WHERE area > 2", "16800"),
            ] {
                let mut found = Rows::default();
                let Err(error) = root.query(sql, &mut found) else {
                    assert_eq!(found.0, [rows]);
                    continue;
                };
                assert_eq!(error.code, 1034, "{error:?}");
                let text = error.message;
                assert!(text.contains("extent ") && text.contains("with keys from"), "{text}");
                let (name, rest) = text.split_once("; ").unwrap();
                assert!(rest.starts_with("table 0x"), "{text}");
                told.insert(name.to_owned());
                // CHECK TABLE reports the same.
                let checked = run(&mut root, "CHECK TABLE seat").unwrap();
                assert!(checked.iter().any(|row| row.contains(name)), "{name}: {checked:?}");
                run(&mut root, "SELECT 1").unwrap();
            }
        }
        flip();
    }
    let name = |name: &str| format!("Incorrect key file for table '{name}'");
    let expected = BTreeSet::from([name("test.seat"), name("test.seat, index by_area")]);
    assert_eq!(told, expected);
    assert!(hidden > 0);
}
