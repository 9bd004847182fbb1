//! When a client disconnects, its statement ends, whether it is computing or waiting.

use spillway::Settings;
use spillway_server::ServerSettings;

use crate::client::{TestServer, until};
use crate::pool::{running, send};

#[test]
fn statements_of_clients_that_have_gone_end() {
    for workers in [1, 4] {
        let settings = ServerSettings { workers, ..ServerSettings::default() };
        let server = TestServer::with(settings, Settings::default());
        let mut root = server.client();
        root.run("CREATE TABLE t (id INT PRIMARY KEY, v INT)");
        root.run("INSERT INTO t VALUES (1, 0), (2, 0), (3, 0), (4, 0), (5, 0), (6, 0)");
        root.run("BEGIN");
        root.run("UPDATE t SET v = 1 WHERE id = 1");
        root.run("SELECT GET_LOCK('held', 0)");
        for sql in [
            "SELECT SLEEP(1000)",
            "SELECT GET_LOCK('held', 1000)",
            "UPDATE t SET v = 2 WHERE id = 1",
            "SELECT v FROM t WHERE id = 1 FOR UPDATE",
            "INSERT INTO t VALUES (1, 0), (7, 0)",
            "DELETE FROM t",
            "BEGIN; UPDATE t SET v = 3 WHERE id = 2; SELECT SLEEP(1000)",
            "SELECT SUM(a.v * SLEEP(0.001)) FROM t a, t b, t c, t d, t e, t f, t g",
        ] {
            let mut client = server.client();
            client.run("SET SESSION innodb_lock_wait_timeout = 1000");
            send(&mut client, sql);
            // One is the session of the process list itself.
            until(|| running(&mut root, "") == 2);
            drop(client);
            until(|| running(&mut root, "") == 1);
        }
        // Their locks are free again, and none of their changes were made.
        root.run("UPDATE t SET v = 4 WHERE id = 2");
        root.run("COMMIT");
        assert_eq!(root.run("SELECT COUNT(*) FROM t").one(), "6");
        assert_eq!(root.run("SELECT SUM(v) FROM t").one(), "5");
    }
}

#[test]
fn a_statement_that_ends_soon_is_carried_out_for_a_client_that_did_not_wait() {
    let server = TestServer::start();
    let mut root = server.client();
    root.run("CREATE TABLE t (id INT PRIMARY KEY)");
    for id in 0..20 {
        let mut client = server.client();
        send(&mut client, &format!("INSERT INTO t VALUES ({id})"));
    }
    until(|| root.run("SELECT COUNT(*) FROM t").one() == "20");
}
