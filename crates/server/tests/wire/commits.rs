//! Commits that a worker runs and another thread acknowledges.

use std::io::Write;
use std::sync::Arc;

use spillway::{Database, Settings};
use spillway_base::thread;
use spillway_server::ServerSettings;
use spillway_storage::sim::SimDisk;

use crate::client::{Client, TestServer};

fn packet(sql: &str) -> Vec<u8> {
    let mut packet = ((sql.len() + 1) as u32).to_le_bytes().to_vec();
    packet.push(3);
    packet.extend_from_slice(sql.as_bytes());
    packet
}

fn next(client: &mut Client) -> crate::client::Answer {
    client.sequence = 1;
    client.answer()
}

#[test]
fn a_command_sees_what_the_one_before_it_committed() {
    let server = TestServer::start();
    let mut client = server.client();
    client.run("CREATE TABLE t (id INT PRIMARY KEY, n INT)");
    let rounds = 100;
    let mut bytes = Vec::new();
    for round in 0..rounds {
        bytes.extend(packet(&format!("INSERT INTO t VALUES ({round}, 0)")));
        bytes.extend(packet("SELECT COUNT(*) FROM t"));
        bytes.extend(packet("BEGIN"));
        bytes.extend(packet(&format!("UPDATE t SET n = 1 WHERE id = {round}")));
        bytes.extend(packet("COMMIT"));
        bytes.extend(packet("SELECT SUM(n) FROM t"));
    }
    assert!(client.raw(&bytes));
    for round in 1..=rounds {
        assert_eq!(next(&mut client).affected(), 1);
        assert_eq!(next(&mut client).one(), round.to_string());
        assert_eq!(next(&mut client).affected(), 0);
        assert_eq!(next(&mut client).affected(), 1);
        assert_eq!(next(&mut client).affected(), 0);
        assert_eq!(next(&mut client).one(), round.to_string());
    }
}

/// Its responses fill the socket and stay there. The same threads still acknowledge the commits of
/// other clients.
#[test]
fn a_client_that_reads_no_answers_holds_up_nobody_elses() {
    let server = TestServer::start();
    let stream = server.tcp();
    let mut writer = stream.try_clone().unwrap();
    let mut idle = server.options().log_in_over(Box::new(stream)).unwrap();
    idle.run("CREATE TABLE t (id INT PRIMARY KEY, n INT)");
    idle.run("INSERT INTO t VALUES (1, 0), (2, 0)");
    let count = 3000;
    let long = "x".repeat(300);
    let mut both = packet("UPDATE t SET n = n + 1 WHERE id = 1");
    both.extend(packet(&format!("SELECT '{long}'")));
    let sending =
        thread::spawn("sends", move || (0..count).try_for_each(|_| writer.write_all(&both)));
    let mut client = server.client();
    for number in 1..=200 {
        assert_eq!(client.run("UPDATE t SET n = n + 1 WHERE id = 2").affected(), 1);
        assert_eq!(client.run("SELECT n FROM t WHERE id = 2").one(), number.to_string());
    }
    for _ in 0..count {
        assert_eq!(next(&mut idle).affected(), 1);
        assert_eq!(next(&mut idle).one(), long);
    }
    sending.unwrap().join().unwrap().unwrap();
    assert_eq!(idle.run("SELECT n FROM t WHERE id = 1").one(), count.to_string());
}

#[test]
fn a_commit_whose_log_fails_is_told_in_the_place_of_its_ok() {
    let disk = SimDisk::new(1);
    let database = Database::open_on(Arc::new(disk.clone()), "/db", Settings::default()).unwrap();
    let server = TestServer::over(database, ServerSettings::default());
    let mut clients: Vec<Client> = (0..4).map(|_| server.client()).collect();
    clients[0].run("CREATE TABLE t (id INT PRIMARY KEY)");
    clients[0].run("INSERT INTO t VALUES (100)");
    disk.fail_syncs();
    let clients: Vec<_> = (0..)
        .zip(clients)
        .map(|(number, mut client)| {
            thread::spawn("client", move || {
                assert_eq!(client.query(format!("INSERT INTO t VALUES ({number})")).code(), 1290);
                assert_eq!(client.run("SELECT GROUP_CONCAT(id) FROM t").one(), "100");
            })
        })
        .collect();
    for client in clients {
        client.unwrap().join().unwrap();
    }
}
