//! Dedicated workers: their clients get the usual responses, and no other client waits for a
//! dedicated worker.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use spillway::{Mechanism, Settings};
use spillway_base::clock::{self, Clock};
use spillway_base::rng::Rng;
use spillway_base::thread;
use spillway_server::{ServerSettings, TlsFiles};

use crate::client::{Client, TestServer, until};
use crate::pool::{figure, running, send};

/// The most dedicated workers at once, with one worker.
const PLACES: usize = 32;

fn server(workers: usize, without: &[Mechanism]) -> TestServer {
    let mut database = Settings::default();
    database.without.extend(without.iter().copied());
    TestServer::with(ServerSettings { workers, ..ServerSettings::default() }, database)
}

fn stays(server: &TestServer) -> usize {
    figure(server, "dedicated_workers_now")
}

/// Sends commands of a client until it has a dedicated worker. No other client has one.
fn give_it_a_worker(server: &TestServer, client: &mut Client) {
    until(|| {
        assert_eq!(client.run("SELECT 7").one(), "7");
        stays(server) == 1
    });
}

#[test]
fn dedicated_worker_2_a_busy_client_has_a_worker_until_it_is_quiet() {
    let server = server(1, &[]);
    let mut client = server.client();
    for _ in 0..3 {
        give_it_a_worker(&server, &mut client);
        until(|| stays(&server) == 0);
        assert_eq!(client.run("SELECT 8").one(), "8");
    }
    assert!(figure(&server, "dedicated_workers_total") >= 3);
}

/// Nor with a client whose commits wait.
#[test]
fn dedicated_worker_2_no_client_gets_a_worker_where_none_may() {
    let server = server(2, &[Mechanism::StickyWorkers]);
    let mut client = server.client();
    (0..200).for_each(|_| assert_eq!(client.run("SELECT 7").one(), "7"));
    assert_eq!(figure(&server, "dedicated_workers_total"), 0);
    let server = self::server(2, &[]);
    let mut client = server.client();
    client.run("CREATE TABLE t (id INT PRIMARY KEY)");
    (0..200).for_each(|id| {
        assert_eq!(client.run(format!("INSERT INTO t VALUES ({id})")).affected(), 1)
    });
    assert_eq!(figure(&server, "dedicated_workers_total"), 0);
}

/// For a client of TLS, a worker cannot wait only in its socket.
#[test]
fn dedicated_worker_2_a_client_of_tls_gets_no_worker() {
    let folder = tempfile::tempdir().unwrap();
    let tls = Some(TlsFiles::self_signed(folder.path()).unwrap());
    let cert = tls.clone().unwrap().cert;
    let settings = ServerSettings { tls, workers: 2, ..ServerSettings::default() };
    let server = TestServer::with(settings, Settings::default());
    let mut client = server.options().log_in_tls(&server, &cert).unwrap();
    (0..200).for_each(|_| assert_eq!(client.run("SELECT 7").one(), "7"));
    assert_eq!(figure(&server, "dedicated_workers_total"), 0);
}

/// DEDICATED-WORKER-1: the client disconnects, is killed, delays the rest of a command, or sends
/// several commands at once.
#[test]
fn dedicated_worker_1_bytes_of_a_client_with_a_worker_are_seen() {
    let server = server(1, &[]);
    let mut root = server.client();
    for round in 0..8 {
        let before = figure(&server, "connections_now");
        let mut client = server.client();
        let id = client.run("SELECT CONNECTION_ID()").one();
        give_it_a_worker(&server, &mut client);
        match round % 4 {
            0 => drop(client),
            1 => {
                root.run(format!("KILL {id}"));
                assert!(client.packet().is_none(), "it is still connected");
            }
            2 => {
                client.raw(&[9, 0, 0, 0, 3]);
                until(|| stays(&server) == 0);
                client.raw(b"SELECT 5");
                client.sequence = 1;
                assert_eq!(client.answer().one(), "5");
                drop(client);
            }
            _ => {
                for _ in 0..100 {
                    send(&mut client, "SELECT 3");
                }
                for _ in 0..100 {
                    client.sequence = 1;
                    assert_eq!(client.answer().one(), "3");
                }
                drop(client);
            }
        }
        until(|| figure(&server, "connections_now") == before);
    }
}

/// DEDICATED-WORKER-1: a command that comes byte by byte occupies no worker, however long it takes.
#[test]
fn dedicated_worker_1_who_sends_a_command_piece_by_piece_is_left() {
    const BYTES: usize = 5_000;
    let server = server(2, &[]);
    // Each byte is sent alone.
    let stream = server.tcp();
    stream.set_nodelay(true).unwrap();
    let mut client = server.options().log_in_over(Box::new(stream)).unwrap();
    give_it_a_worker(&server, &mut client);
    let (left, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let drips = {
        let (left, sent) = (left.clone(), sent.clone());
        move || {
            let text = format!("SELECT 5{}", " ".repeat(BYTES));
            let head = (text.len() as u32 + 1).to_le_bytes();
            client.raw(&[head[0], head[1], head[2], 0, 3]);
            for byte in text.as_bytes() {
                client.raw(&[*byte]);
                sent.fetch_add(1, Ordering::SeqCst);
                if !left.load(Ordering::SeqCst) {
                    Clock::system().sleep(Duration::from_millis(1));
                }
            }
            client.sequence = 1;
            client.answer().one()
        }
    };
    let drips = thread::spawn("drips", drips).unwrap();
    until(|| stays(&server) == 0);
    let seen = sent.load(Ordering::SeqCst);
    left.store(true, Ordering::SeqCst);
    assert!(seen < BYTES as u64, "it was stayed with to the end");
    assert_eq!(drips.join().unwrap(), "5");
}

/// DEDICATED-WORKER-1: its time limit passes.
#[test]
fn dedicated_worker_1_who_is_quiet_for_too_long_is_let_go_of() {
    let server = server(1, &[]);
    let mut client = server.client();
    client.run("SET wait_timeout = 1");
    give_it_a_worker(&server, &mut client);
    client.sequence = 0;
    let told = client.packet().expect("it is not told why");
    assert_eq!((told[0], u16::from_le_bytes([told[1], told[2]])), (0xFF, 4031));
}

#[test]
fn dedicated_worker_3_none_stays_where_more_ask_than_there_are_places() {
    let server = server(1, &[]);
    let mut clients: Vec<Client> = (0..PLACES + 8).map(|_| server.client()).collect();
    let ask = |clients: &mut [Client]| {
        clients.iter_mut().for_each(|client| send(client, "SELECT 7"));
        clients.iter_mut().for_each(|client| assert_eq!(client.answer().one(), "7"));
        stays(&server)
    };
    for _ in 0..3 {
        until(|| ask(&mut clients[..PLACES / 2]) >= PLACES / 4);
        assert!(stays(&server) <= PLACES);
        until(|| ask(&mut clients) == 0);
    }
}

/// DEDICATED-WORKER-4: with one worker, and other clients that send commands meanwhile.
#[test]
fn dedicated_worker_4_a_long_statement_of_a_client_with_a_worker_blocks_no_other() {
    let server = server(1, &[]);
    let (mut client, mut root) = (server.client(), server.client());
    client.run("CREATE TABLE t (id INT PRIMARY KEY)");
    let rows: Vec<String> = (0..300).map(|id| format!("({id})")).collect();
    client.run(format!("INSERT INTO t VALUES {}", rows.join(",")));
    let id = client.run("SELECT CONNECTION_ID()").one();
    let long =
        "SELECT COUNT(*) FROM t a, t b, t c, t d, t e WHERE a.id + b.id + c.id + d.id + e.id = -1";
    for _ in 0..3 {
        give_it_a_worker(&server, &mut client);
        send(&mut client, long);
        // Long enough that the stall detector has stopped checking.
        Clock::system().sleep(Duration::from_millis(100));
        until(|| running(&mut root, long) == 1);
        (0..50).for_each(|_| assert_eq!(root.run("SELECT 1").one(), "1"));
        root.run(format!("KILL QUERY {id}"));
        assert_eq!(client.answer().code(), 1317);
        // The dedicated worker leaves it after a long statement.
        give_it_a_worker(&server, &mut client);
        let before = figure(&server, "dedicated_workers_total");
        assert_eq!(client.run("SELECT COUNT(*) FROM t a, t b").one(), "90000");
        assert_eq!(client.run("SELECT 1").one(), "1");
        assert_eq!((figure(&server, "dedicated_workers_total"), stays(&server)), (before, 0));
    }
}

/// A wait for a row that a client with a dedicated worker holds ends when that client releases it,
/// and vice versa.
#[test]
fn rows_go_to_and_from_clients_with_workers() {
    let server = server(1, &[]);
    let (mut one, mut two) = (server.client(), server.client());
    one.run("CREATE TABLE t (id INT PRIMARY KEY, n INT)");
    one.run("INSERT INTO t VALUES (1, 0)");
    let lock = "SELECT n FROM t WHERE id = 1 FOR UPDATE";
    for _ in 0..5 {
        give_it_a_worker(&server, &mut one);
        one.run("BEGIN");
        one.run(lock);
        until(|| stays(&server) == 0);
        give_it_a_worker(&server, &mut two);
        send(&mut two, lock);
        give_it_a_worker(&server, &mut one);
        one.run("ROLLBACK");
        assert_eq!(two.answer().one(), "0");
    }
}

/// DEDICATED-WORKER-1 to DEDICATED-WORKER-4, under a load of many clients: all responses are right.
#[test]
fn whatever_clients_do_they_are_answered() {
    const CLIENTS: usize = 12;
    const STEPS: usize = 400;
    const READS: Duration = Duration::from_millis(400);
    for workers in [1, 2] {
        let server = server(workers, &[]);
        let mut root = server.client();
        root.run("CREATE TABLE t (id INT PRIMARY KEY, n INT, pad LONGTEXT)");
        (0..=CLIENTS).for_each(|id| {
            root.run(format!("INSERT INTO t VALUES ({id}, 0, REPEAT('long', 5000))"));
        });
        let shared = AtomicU64::new(0);
        thread::together(CLIENTS, |number| {
            let mut rng = Rng::new(number as u64);
            let mut client = server.client();
            let mut own = 0;
            for step in 0..STEPS {
                // Occasionally they only read, long enough for a dedicated worker.
                let reads_until = clock::now() + READS;
                let mut reads_on = step % 100 == 99;
                loop {
                    match if reads_on { u64::MAX } else { rng.below(40) } {
                        0 => {
                            client.run(format!("UPDATE t SET n = n + 1 WHERE id = {number}"));
                            own += 1;
                        }
                        1 => {
                            client.run(format!("UPDATE t SET n = n + 1 WHERE id = {CLIENTS}"));
                            shared.fetch_add(1, Ordering::Relaxed);
                        }
                        2 => {
                            client.run("BEGIN");
                            client.run(format!("UPDATE t SET n = 0 WHERE id = {CLIENTS}"));
                            client.run("ROLLBACK");
                        }
                        3 => {
                            let pad = client.run(format!("SELECT pad FROM t WHERE id = {number}"));
                            assert_eq!(pad.one().len(), 20_000);
                        }
                        4 => Clock::system().sleep(Duration::from_millis(12)),
                        5 => client = server.client(),
                        6 => assert_eq!(client.run("SELECT SLEEP(0.001)").one(), "0"),
                        _ => {
                            let n = client.run(format!("SELECT n FROM t WHERE id = {number}"));
                            assert_eq!(n.one(), own.to_string());
                        }
                    }
                    reads_on &= clock::now() < reads_until;
                    if !reads_on {
                        break;
                    }
                }
            }
        });
        let sum = root.run(format!("SELECT n FROM t WHERE id = {CLIENTS}")).one();
        assert_eq!(sum, shared.load(Ordering::Relaxed).to_string());
        assert!(figure(&server, "dedicated_workers_total") > 0);
        until(|| stays(&server) == 0);
    }
}
