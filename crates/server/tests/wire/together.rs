//! Batched responses: each reaches its own client, complete, and does not wait for a long
//! statement.

use spillway::{Mechanism, Settings};
use spillway_server::ServerSettings;

use crate::client::{Client, TestServer, until};
use crate::pool::{figure, running, send};

const ROWS: usize = 300;

/// With one worker, and rows of `n` = 7 times `id`.
fn server(together: bool) -> TestServer {
    let settings = ServerSettings { workers: 1, ..ServerSettings::default() };
    let mut database = Settings::default();
    database.without.extend((!together).then_some(Mechanism::AnswerBatches));
    // A dedicated worker sends each response alone, so there must be none here.
    database.without.push(Mechanism::StickyWorkers);
    let server = TestServer::with(settings, database);
    let mut client = server.client();
    client.run("CREATE TABLE t (id INT PRIMARY KEY, n INT, pad LONGTEXT)");
    let rows: Vec<String> = (0..ROWS).map(|id| format!("({id}, {}, '')", 7 * id)).collect();
    client.run(format!("INSERT INTO t VALUES {}", rows.join(",")));
    server
}

fn ask(client: &mut Client, id: usize) {
    send(client, &format!("SELECT n FROM t WHERE id = {id}"));
}

/// RESPONSE-BATCH-4: for any number of concurrent commands.
#[test]
fn response_batch_4_each_is_sent_the_answer_that_is_its_own_once() {
    for together in [true, false] {
        let server = server(together);
        let mut clients: Vec<Client> = (0..40).map(|_| server.client()).collect();
        let mut round = 0;
        let mut ask_all = || {
            for (at, client) in clients.iter_mut().enumerate() {
                ask(client, (at * 13 + round) % ROWS);
            }
            for (at, client) in clients.iter_mut().enumerate() {
                let expected = 7 * ((at * 13 + round) % ROWS);
                assert_eq!(client.answer().one(), expected.to_string());
            }
            round += 1;
            figure(&server, "answers_together_total")
        };
        if together {
            until(|| ask_all() >= 500);
        } else {
            (0..20).for_each(|_| assert_eq!(ask_all(), 0));
        }
    }
}

/// RESPONSE-BATCH-1: a statement that computes forever comes between short ones.
#[test]
fn response_batch_1_no_answer_waits_for_a_statement_that_is_long() {
    let server = server(true);
    let mut clients: Vec<Client> = (0..20).map(|_| server.client()).collect();
    let (mut busy, mut root) = (server.client(), server.client());
    let id = busy.run("SELECT CONNECTION_ID()").one();
    // More pairs than any machine can process.
    let long =
        "SELECT COUNT(*) FROM t a, t b, t c, t d, t e WHERE a.id + b.id + c.id + d.id + e.id = -1";
    let mut before = 0;
    until(|| {
        for at in 0..clients.len() {
            if at == clients.len() / 2 {
                send(&mut busy, long);
            }
            ask(&mut clients[at], at);
        }
        for (at, client) in clients.iter_mut().enumerate() {
            assert_eq!(client.answer().one(), (7 * at).to_string());
        }
        until(|| running(&mut root, long) == 1);
        root.run(format!("KILL QUERY {id}"));
        assert_eq!(busy.answer().code(), 1317);
        before += 1;
        before >= 10 && figure(&server, "answers_together_total") >= 50
    });
}

/// RESPONSE-BATCH-3: a client that reads nothing until no more can be sent to it, and then reads
/// everything.
#[test]
fn response_batch_3_who_does_not_take_its_answers_keeps_nobody_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sock");
    let settings =
        ServerSettings { workers: 1, socket: Some(path.clone()), ..ServerSettings::default() };
    let mut database = Settings::default();
    database.without.push(Mechanism::StickyWorkers);
    let server = TestServer::with(settings, database);
    let mut root = server.client();
    root.run("CREATE TABLE t (id INT PRIMARY KEY, n INT, pad LONGTEXT)");
    root.run("INSERT INTO t VALUES (1, 7, REPEAT('long', 2000))");
    let mut slow = server.options().log_in_unix(&path).unwrap();
    let asked = 200;
    for _ in 0..asked {
        send(&mut slow, "SELECT pad FROM t WHERE id = 1");
        // Usually the only worker had already met the slow client when it sent this response.
        assert_eq!(root.run("SELECT n FROM t WHERE id = 1").one(), "7");
    }
    let sent = || figure(&server, "sent_bytes_total");
    assert!(sent() < asked * 8000, "all of it fitted");
    for _ in 0..asked {
        slow.sequence = 1;
        assert_eq!(slow.answer().one(), "long".repeat(2000));
    }
    send(&mut slow, "SELECT n FROM t WHERE id = 1");
    assert_eq!(slow.answer().one(), "7");
}

/// The server closes the connection of a client that disconnects before its response, whatever the
/// response is.
#[test]
fn who_has_gone_is_let_go_of() {
    let server = server(true);
    for round in 0..20 {
        let mut clients: Vec<Client> = (0..20).map(|_| server.client()).collect();
        clients.iter_mut().for_each(|client| assert_eq!(client.run("BEGIN").affected(), 0));
        for client in &mut clients {
            ask(client, round);
        }
        // Some clients read their response, and some do not.
        for (at, mut client) in clients.into_iter().enumerate() {
            if at % 2 == 0 {
                assert_eq!(client.answer().one(), (7 * round).to_string());
            }
        }
    }
    until(|| figure(&server, "connections_now") == 0);
    assert_eq!(server.client().run("SELECT 1").one(), "1");
}
