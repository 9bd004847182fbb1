//! MariaDB's extension to send the columns of a prepared statement only if they have changed.

use mysql_common::Value;

use crate::client::{Answer, Options, TestServer};

fn described(answer: &Answer) -> bool {
    match answer {
        Answer::Rows { described, .. } => *described,
        other => panic!("{other:?} has no rows"),
    }
}

#[test]
fn columns_are_sent_once_until_they_change() {
    let server = TestServer::start();
    for options in server.both_endings() {
        let mut client = Options { cache_metadata: true, ..options }.log_in(&server).unwrap();
        client.run("DROP TABLE IF EXISTS t");
        client.run("CREATE TABLE t (id INT PRIMARY KEY, v INT)");
        client.run("INSERT INTO t VALUES (1, 7)");
        // Queries that are not prepared are always described.
        assert!(described(&client.run("SELECT * FROM t")));
        assert!(described(&client.run("SELECT * FROM t")));
        let id = client.prepare("SELECT * FROM t WHERE id = ?").unwrap().id;
        let other = client.prepare("SELECT v FROM t").unwrap().id;
        let one = [0, 1, 3, 0, 1, 0, 0, 0];
        let first = client.execute(id, &one);
        assert!(described(&first));
        assert_eq!(first.rows(), [vec![Value::Int(1), Value::Int(7)]]);
        for _ in 0..3 {
            let again = client.execute(id, &one);
            assert!(!described(&again));
            assert_eq!(again.rows(), [vec![Value::Bytes(vec![0, 0, 1, 0, 0, 0, 7, 0, 0, 0])]]);
        }
        assert!(described(&client.execute(other, &[])), "each statement has its own");
        client.run("ALTER TABLE t MODIFY v BIGINT");
        assert!(described(&client.execute(id, &one)), "its columns have changed");
        assert!(!described(&client.execute(id, &one)));
    }
}

#[test]
fn others_are_sent_columns_each_time() {
    let server = TestServer::start();
    let mut client = server.client();
    let id = client.prepare("SELECT 1, 2").unwrap().id;
    for _ in 0..3 {
        let answer = client.execute(id, &[]);
        let Answer::Rows { columns, .. } = &answer else { panic!("{answer:?}") };
        assert_eq!(columns.len(), 2);
    }
}
