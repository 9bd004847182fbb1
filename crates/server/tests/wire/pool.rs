//! Few workers for many clients: the pool serves other clients while one waits.

use std::io::Write;
use std::net::Shutdown;
use std::sync::Arc;
use std::time::Duration;

use spillway::{Database, Settings};
use spillway_base::clock::Clock;
use spillway_server::{ServerSettings, TlsFiles};
use spillway_storage::sim::SimDisk;

use crate::client::{Client, TestServer, shown, until};

/// A server with the least number of workers.
fn one_worker() -> TestServer {
    let settings = ServerSettings { workers: 1, ..ServerSettings::default() };
    TestServer::with(settings, Settings::default())
}

pub(crate) fn send(client: &mut Client, sql: &str) {
    client.command(3, sql.as_bytes());
}

pub(crate) fn packet(sql: &str) -> Vec<u8> {
    let mut packet = ((sql.len() + 1) as u32).to_le_bytes().to_vec();
    packet.push(3);
    packet.extend_from_slice(sql.as_bytes());
    packet
}

pub(crate) fn figure(server: &TestServer, name: &str) -> usize {
    let figures = server.server.metrics()();
    figures.into_iter().find(|figure| figure.name == name).unwrap().value as usize
}

/// The number of sessions that run a statement with this beginning.
pub(crate) fn running(root: &mut Client, sql: &str) -> usize {
    let list = root.run("SHOW FULL PROCESSLIST");
    let begins = |row: &&Vec<_>| row.last().is_some_and(|info| shown(info).starts_with(sql));
    list.rows().iter().filter(begins).count()
}

#[test]
fn two_thousand_clients_have_commits_on_their_way_at_once() {
    let disk = SimDisk::new(1);
    let database = Database::open_on(Arc::new(disk.clone()), "/db", Settings::default()).unwrap();
    let settings =
        ServerSettings { connections_max: 2_100, workers: 2, ..ServerSettings::default() };
    let server = TestServer::over(database, settings);
    let mut root = server.client();
    root.run("CREATE TABLE t (id INT PRIMARY KEY)");
    let mut clients: Vec<Client> = (0..2_000).map(|_| server.client()).collect();
    let held = disk.hold_syncs();
    for (id, client) in clients.iter_mut().enumerate() {
        send(client, &format!("INSERT INTO t VALUES ({id})"));
    }
    until(|| figure(&server, "commits_waiting_now") == clients.len());
    assert_eq!(root.run("SELECT COUNT(*) FROM t").one(), "0");
    let workers = figure(&server, "workers_now");
    assert!(workers < 20, "{workers} threads");
    drop(held);
    for client in &mut clients {
        assert_eq!(client.answer().affected(), 1);
    }
    assert_eq!(root.run("SELECT COUNT(*) FROM t").one(), "2000");
}

#[test]
fn a_commit_is_read_though_everybody_waits_for_it() {
    let server = one_worker();
    let mut holder = server.client();
    holder.run("CREATE TABLE t (id INT PRIMARY KEY, n INT)");
    holder.run("INSERT INTO t VALUES (1, 0)");
    let mut clients: Vec<Client> = (0..20).map(|_| server.client()).collect();
    let mut root = server.client();
    for round in 1..=3 {
        holder.run("BEGIN");
        holder.run("UPDATE t SET n = n + 1 WHERE id = 1");
        for client in &mut clients {
            send(client, "UPDATE t SET n = n + 1 WHERE id = 1");
        }
        until(|| running(&mut root, "UPDATE") == clients.len());
        holder.run("COMMIT");
        for client in &mut clients {
            assert_eq!(client.answer().affected(), 1);
        }
        assert_eq!(root.run("SELECT n FROM t").one(), (21 * round).to_string());
    }
}

/// A client that waits for a row takes no thread, for every kind of statement. The clients get the
/// row in the order of arrival.
#[test]
fn a_row_that_everybody_wants_takes_no_threads() {
    let server = one_worker();
    let mut holder = server.client();
    holder.run("CREATE TABLE t (id INT PRIMARY KEY, n INT, u INT UNIQUE)");
    holder.run("CREATE TABLE order_of (at INT PRIMARY KEY AUTO_INCREMENT, who INT)");
    holder.run("INSERT INTO t VALUES (1, 0, 7)");
    let mut root = server.client();
    let kinds = [
        "UPDATE t SET n = n + 1 WHERE id = 1",
        "UPDATE t SET n = n + 1 WHERE u = 7",
        "INSERT INTO t VALUES (1, 0, 0) ON DUPLICATE KEY UPDATE n = n + 1",
        "SELECT n FROM t WHERE id = 1 FOR UPDATE",
        "UPDATE t SET n = n + ? WHERE id = 1",
    ];
    let mut clients: Vec<Client> = (0..200).map(|_| server.client()).collect();
    let mut prepared = Vec::new();
    for client in &mut clients {
        client.run("BEGIN");
        let id = client.prepare(kinds[4]).unwrap().id;
        // Its parameter comes in one separate piece.
        client.command(0x18, &[&id.to_le_bytes()[..], &[0, 0], b"1"].concat());
        prepared.push(id);
    }
    holder.run("BEGIN");
    holder.run("UPDATE t SET n = 0 WHERE id = 1");
    for (at, client) in clients.iter_mut().enumerate() {
        match kinds[at % kinds.len()] {
            sql if sql == kinds[4] => {
                let head = [0, 1, 0, 0, 0, 0, 1, 253, 0];
                client.command(0x17, &[&prepared[at].to_le_bytes()[..], &head].concat());
            }
            sql => send(client, sql),
        }
        // One after the other.
        until(|| {
            let list = root.run("SHOW FULL PROCESSLIST");
            let waits =
                |row: &&Vec<_>| row.iter().any(|cell| shown(cell) == "Waiting for row lock");
            list.rows().iter().filter(waits).count() == at + 1
        });
    }
    let workers = figure(&server, "workers_now");
    assert!(workers < 10, "{workers} threads");
    holder.run("COMMIT");
    for (at, client) in clients.iter_mut().enumerate() {
        let answer = client.answer();
        if at % kinds.len() != 3 {
            assert!(answer.affected() > 0);
        }
        client.run(format!("INSERT INTO order_of (who) VALUES ({at})"));
        client.run("COMMIT");
    }
    assert_eq!(root.run("SELECT n FROM t").one(), "160");
    assert_eq!(root.run("SELECT COUNT(*) FROM order_of WHERE at <> who + 1").one(), "0");
}

/// A client that disconnects while it waits for a row delays no other client, and waiting clients
/// do not delay the server's end.
#[test]
fn a_line_for_a_row_is_left_by_those_who_go_and_by_all_at_the_end() {
    let server = one_worker();
    let (mut holder, mut root) = (server.client(), server.client());
    holder.run("CREATE TABLE t (id INT PRIMARY KEY, n INT)");
    holder.run("INSERT INTO t VALUES (1, 0)");
    let update = "UPDATE t SET n = n + 1 WHERE id = 1";
    let wait = |root: &mut Client| {
        let mut waiting: Vec<Client> = (0..3).map(|_| server.client()).collect();
        for (at, client) in waiting.iter_mut().enumerate() {
            send(client, update);
            until(|| running(root, update) == at + 1);
        }
        waiting
    };
    holder.run("BEGIN");
    holder.run(update);
    let mut waiting = wait(&mut root);
    let gone = waiting.remove(1);
    drop(gone);
    holder.run("COMMIT");
    for client in &mut waiting {
        assert_eq!(client.answer().affected(), 1);
    }
    // The server ran the statement of the client that disconnected, because its command had
    // arrived.
    until(|| root.run("SELECT n FROM t").one() == "4");
    holder.run("BEGIN");
    holder.run(update);
    let waiting = wait(&mut root);
    drop(server);
    drop(waiting);
}

/// The client that releases a row runs a long statement next. The client that got the row does not
/// wait for that.
#[test]
fn a_row_is_not_kept_by_what_follows_its_release() {
    let server = one_worker();
    let (mut holder, mut waiting) = (server.client(), server.client());
    holder.run("CREATE TABLE t (id INT PRIMARY KEY, n INT)");
    holder.run("INSERT INTO t VALUES (1, 0)");
    let mut root = server.client();
    holder.run("BEGIN");
    holder.run("UPDATE t SET n = 1 WHERE id = 1");
    let update = "UPDATE t SET n = n + 1 WHERE id = 1";
    send(&mut waiting, update);
    until(|| running(&mut root, update) == 1);
    let id = holder.run("SELECT CONNECTION_ID()").one();
    send(&mut holder, "COMMIT; SELECT SLEEP(600)");
    assert_eq!(waiting.answer().affected(), 1);
    root.run(format!("KILL {id}"));
}

#[test]
fn waits_of_every_kind_leave_their_place_and_end_when_they_are_to() {
    let server = one_worker();
    let (mut holder, mut root) = (server.client(), server.client());
    holder.run("CREATE TABLE t (id INT PRIMARY KEY, n INT)");
    holder.run("INSERT INTO t VALUES (1, 0)");
    holder.run("BEGIN");
    holder.run("UPDATE t SET n = 1 WHERE id = 1");
    assert_eq!(holder.run("SELECT GET_LOCK('name', 0)").one(), "1");
    let waits = [
        "UPDATE t SET n = 2 WHERE id = 1",
        "ALTER TABLE t ADD COLUMN m INT",
        "SELECT GET_LOCK('name', 600)",
        "SELECT SLEEP(600)",
    ];
    let mut waiting: Vec<(Client, String)> = Vec::new();
    for sql in waits {
        let mut client = server.client();
        let id = client.run("SELECT CONNECTION_ID()").one();
        send(&mut client, sql);
        until(|| running(&mut root, sql) == 1);
        waiting.push((client, id));
    }
    for (client, id) in &mut waiting {
        root.run(format!("KILL QUERY {id}"));
        // An interrupted SLEEP is not an error.
        let answer = client.answer();
        assert!(matches!(&answer, crate::client::Answer::Rows { .. }) || answer.code() == 1317);
    }
    let (mut late, id) = waiting.pop().unwrap();
    late.run("SET innodb_lock_wait_timeout = 1");
    assert_eq!(late.query(waits[0]).code(), 1205);
    send(&mut late, waits[0]);
    until(|| running(&mut root, waits[0]) == 1);
    root.run(format!("KILL {id}"));
    // The client gets the error that it was interrupted, or finds the connection closed.
    while late.packet().is_some() {}
    holder.run("COMMIT");
    assert_eq!(root.run("SELECT n FROM t").one(), "1");
}

#[test]
fn half_a_command_holds_nobody_up() {
    let server = one_worker();
    let mut root = server.client();
    let mut clients: Vec<Client> = (0..30).map(|_| server.client()).collect();
    let whole = packet("SELECT 'the whole of it'");
    let long = "y".repeat(100_000);
    let long = packet(&format!("SELECT '{long}'"));
    for (at, client) in clients.iter_mut().enumerate() {
        // From within the head up to all but the last byte; and a command that is longer than what
        // is read at once.
        let bytes = if at == 0 { &long } else { &whole };
        assert!(client.raw(&bytes[..(at % whole.len()).max(1)]));
    }
    assert_eq!(root.ping().affected(), 0);
    let workers = figure(&server, "workers_now");
    assert!(workers < 20, "{workers} threads");
    for (at, client) in clients.iter_mut().enumerate() {
        let bytes = if at == 0 { &long } else { &whole };
        assert!(client.raw(&bytes[(at % whole.len()).max(1)..]));
        client.sequence = 1;
        let expected = if at == 0 { 100_000 } else { "the whole of it".len() };
        assert_eq!(client.answer().one().len(), expected);
    }
}

#[test]
fn what_was_sent_before_the_end_is_answered() {
    let server = one_worker();
    for commands in [1, 2, 300] {
        let stream = server.tcp();
        let mut client =
            server.options().log_in_over(Box::new(stream.try_clone().unwrap())).unwrap();
        let mut bytes = Vec::new();
        (0..commands).for_each(|number| bytes.extend(packet(&format!("SELECT {number}"))));
        (&stream).write_all(&bytes).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        for number in 0..commands {
            client.sequence = 1;
            assert_eq!(client.answer().one(), number.to_string());
        }
        assert!(client.packet().is_none());
    }
    until(|| figure(&server, "connections_now") == 0);
}

#[test]
fn commands_in_one_record_of_tls_are_all_answered() {
    let folder = tempfile::tempdir().unwrap();
    let tls = Some(TlsFiles::self_signed(folder.path()).unwrap());
    let cert = tls.clone().unwrap().cert;
    let settings = ServerSettings { tls, workers: 1, ..ServerSettings::default() };
    let server = TestServer::with(settings, Settings::default());
    let mut client = server.options().log_in_tls(&server, &cert).unwrap();
    client.run("CREATE TABLE t (id INT PRIMARY KEY, n INT)");
    // More than the input holds, and commits among them.
    let rounds = 500;
    let mut bytes = Vec::new();
    for round in 0..rounds {
        bytes.extend(packet(&format!("INSERT INTO t VALUES ({round}, 0)")));
        bytes.extend(packet("SELECT COUNT(*) FROM t"));
    }
    // A command whose first half ends the record.
    let last = packet("SELECT 'the end'");
    bytes.extend(&last[..7]);
    assert!(client.raw(&bytes));
    for round in 1..=rounds {
        client.sequence = 1;
        assert_eq!(client.answer().affected(), 1);
        client.sequence = 1;
        assert_eq!(client.answer().one(), round.to_string());
    }
    assert!(client.raw(&last[7..]));
    client.sequence = 1;
    assert_eq!(client.answer().one(), "the end");
}

#[test]
fn clients_come_and_go_by_the_hundred() {
    let server = one_worker();
    spillway_base::thread::together(4, |thread| {
        for number in 0..100 {
            let mut client = server.client();
            match (thread + number) % 3 {
                0 => assert_eq!(client.run(format!("SELECT {number}")).one(), number.to_string()),
                1 => client.command(1, &[]),
                _ => assert!(client.raw(&[9, 0, 0, 0, 3])),
            }
        }
    });
    until(|| figure(&server, "connections_now") == 0);
    assert_eq!(server.client().run("SELECT 1").one(), "1");
}

/// Unlike one that waits, a statement that computes keeps its worker.
#[test]
fn a_statement_that_is_long_at_work_keeps_nobody_waiting() {
    let server = one_worker();
    let (mut busy, mut root) = (server.client(), server.client());
    let id = busy.run("SELECT CONNECTION_ID()").one();
    busy.run("CREATE TABLE t (id INT PRIMARY KEY)");
    let rows: Vec<String> = (0..300).map(|id| format!("({id})")).collect();
    busy.run(format!("INSERT INTO t VALUES {}", rows.join(",")));
    // More pairs than any machine can process.
    let long =
        "SELECT COUNT(*) FROM t a, t b, t c, t d, t e WHERE a.id + b.id + c.id + d.id + e.id = -1";
    send(&mut busy, long);
    until(|| running(&mut root, long) == 1);
    assert_eq!(root.run("SELECT COUNT(*) FROM t").one(), "300");
    root.run(format!("KILL QUERY {id}"));
    assert_eq!(busy.answer().code(), 1317);
    assert_eq!(busy.run("SELECT 1").one(), "1");
}

/// As many long statements as there are workers: one more worker serves all other clients, and
/// events that the stall detector takes from epoll are not lost.
#[test]
fn statements_that_are_long_on_all_workers_keep_nobody_waiting() {
    let workers = std::thread::available_parallelism().map_or(2, usize::from);
    let settings = ServerSettings { workers, ..ServerSettings::default() };
    let server = TestServer::with(settings, Settings::default());
    let mut root = server.client();
    root.run("CREATE TABLE t (id INT PRIMARY KEY)");
    let rows: Vec<String> = (0..300).map(|id| format!("({id})")).collect();
    root.run(format!("INSERT INTO t VALUES {}", rows.join(",")));
    let long =
        "SELECT COUNT(*) FROM t a, t b, t c, t d, t e WHERE a.id + b.id + c.id + d.id + e.id = -1";
    let mut busy: Vec<Client> = (0..workers).map(|_| server.client()).collect();
    let ids: Vec<String> =
        busy.iter_mut().map(|busy| busy.run("SELECT CONNECTION_ID()").one()).collect();
    busy.iter_mut().for_each(|busy| send(busy, long));
    until(|| running(&mut root, long) == workers);
    let mut others: Vec<Client> = (0..4).map(|_| server.client()).collect();
    for round in 0..300u64 {
        Clock::system().sleep(Duration::from_micros(round * 997 % 25_000));
        for other in &mut others {
            assert_eq!(other.run("SELECT 1").one(), "1");
        }
    }
    ids.iter().for_each(|id| drop(root.run(format!("KILL QUERY {id}"))));
    busy.iter_mut().for_each(|busy| assert_eq!(busy.answer().code(), 1317));
}
