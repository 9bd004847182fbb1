//! Rows that are on the device only: who waits for one keeps nobody else waiting (DESIGN, D11).

use std::sync::Arc;

use spillway::{Database, Settings};
use spillway_server::ServerSettings;
use spillway_storage::sim::SimDisk;

use crate::client::{Client, TestServer};

const ROWS: usize = 400;

/// A server with one worker over a table `t` of which nothing is in memory, and another, `w`, that is there.
fn cold(disk: &SimDisk) -> TestServer {
    let settings = ServerSettings { workers: 1, ..ServerSettings::default() };
    let open = || Database::open_on(Arc::new(disk.clone()), "/db", Settings::default()).unwrap();
    let server = TestServer::over(open(), settings.clone());
    let mut root = server.client();
    root.run("CREATE TABLE t (id INT PRIMARY KEY, n INT, v VARCHAR(300))");
    root.run("CREATE TABLE w (id INT PRIMARY KEY, n INT)");
    let row = |id| format!("({id}, {id}, '{}')", "x".repeat(200 + id % 100));
    let rows: Vec<String> = (0..ROWS).map(row).collect();
    root.run(format!("INSERT INTO t VALUES {}", rows.join(", ")));
    let database = server.instance.database();
    database.flush().unwrap();
    server.server.stop();
    database.close().unwrap();
    let server = TestServer::over(open(), settings);
    server.client().run("INSERT INTO w VALUES (1, 1)");
    server
}

fn send(client: &mut Client, sql: &str) {
    client.command(3, sql.as_bytes());
}

#[test]
fn a_read_that_hangs_keeps_nobody_else_waiting() {
    let disk = SimDisk::new(1);
    let server = cold(&disk);
    let (mut one, mut other) = (server.client(), server.client());
    for (sql, answer) in [
        ("SELECT n FROM t WHERE id = 7", "7"),
        ("SELECT SUM(n) FROM t WHERE id BETWEEN 1 AND 300", "45150"),
    ] {
        let held = disk.hold_reads();
        send(&mut one, sql);
        held.wait_for(1);
        for _ in 0..3 {
            assert_eq!(other.run("UPDATE w SET n = n + 1").affected(), 1);
        }
        drop(held);
        assert_eq!(one.answer().one(), answer);
    }
    assert_eq!(other.run("SELECT n FROM w").one(), "7");
}
