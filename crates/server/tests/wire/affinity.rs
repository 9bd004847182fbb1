//! Workers that keep to cores, and clients that are served where their rows are at home: S1 to S5
//! of `pool/homes`, from without.

use spillway::Settings;
use spillway_base::thread;
use spillway_server::{Affinity, ServerSettings};

use crate::client::{Client, TestServer, shown, until};
use crate::pool::{figure, running, send};

fn server(affinity: Affinity, workers: usize) -> TestServer {
    let settings = ServerSettings { workers, affinity, ..ServerSettings::default() };
    TestServer::with(settings, Settings::default())
}

fn statements(server: &TestServer) -> [usize; 3] {
    ["statements_at_home_total", "statements_away_total", "statements_spread_total"]
        .map(|name| figure(server, name))
}

/// S1: whatever is preferred, everything is answered once, and what is taken from one table comes
/// to another.
#[test]
fn s1_statements_and_transactions_over_tables_stay_correct() {
    for affinity in Affinity::ALL {
        let server = server(affinity, 3);
        let mut root = server.client();
        for table in 0..4 {
            root.run(format!("CREATE TABLE t{table} (id INT PRIMARY KEY, n INT, KEY (n))"));
            root.run(format!("INSERT INTO t{table} VALUES (1, 0), (2, 0), (3, 0)"));
        }
        thread::together(6, |thread| {
            let mut client = server.client();
            // Nobody is refused for what others did since its first statement.
            client.run("SET transaction_isolation = 'READ-COMMITTED'");
            let table = thread % 4;
            for turn in 0..60 {
                let id = turn % 3 + 1;
                client.run(format!("UPDATE t{table} SET n = n + 1 WHERE id = {id}"));
                client.run(format!("SELECT n FROM t{table} WHERE id = {id}"));
                if turn % 10 == 9 {
                    client.run("BEGIN");
                    // In one order, so that none waits for another in a circle.
                    client.run(format!("UPDATE t0 SET n = n - 1 WHERE id = {id}"));
                    client.run(format!("UPDATE t3 SET n = n + 1 WHERE id = {id}"));
                    client.run("COMMIT");
                }
            }
        });
        let mut sum = |table| root.run(format!("SELECT SUM(n) FROM t{table}")).one();
        // Two threads each have the first two tables; six transactions of each thread have gone
        // from the first to the last.
        assert_eq!([0, 1, 2, 3].map(&mut sum), ["84", "120", "60", "96"], "{affinity}");
        let ran: usize = statements(&server).iter().sum();
        let listed = root.run("SHOW GLOBAL STATUS LIKE 'Spillway_statements%'");
        let listed: usize =
            listed.rows().iter().map(|row| shown(&row[1]).parse::<usize>().unwrap()).sum();
        let variable = root.run("SHOW VARIABLES LIKE 'thread_pool_affinity'");
        assert_eq!(shown(&variable.rows()[0][1]), affinity.name());
        if affinity == Affinity::Homes {
            assert!(ran >= 6 * 60 * 2 && listed >= ran, "{ran} ran, {listed} listed");
        } else {
            assert_eq!((ran, listed), (0, 0));
        }
    }
}

fn at_home_in(client: &mut Client, table: &str) {
    for _ in 0..20 {
        client.run(format!("SELECT n FROM {table} WHERE id = 1"));
    }
}

/// S5: by what they ask for, without being told; and back.
#[test]
fn s5_connections_move_to_where_their_rows_are_at_home() {
    let server = server(Affinity::Homes, 2);
    let mut root = server.client();
    for table in ["t", "u", "v", "w"] {
        root.run(format!("CREATE TABLE {table} (id INT PRIMARY KEY, n INT)"));
        root.run(format!("INSERT INTO {table} VALUES (1, 0)"));
    }
    let moved = || figure(&server, "connections_moved_total");
    let mut client = server.client();
    let before = moved();
    for table in ["t", "u", "v", "w", "t"] {
        at_home_in(&mut client, table);
    }
    // Of four tables in a row not all have the same home among two. A statement is counted after
    // its answer.
    until(|| moved() >= before + 3);
    // A table after another is none.
    let before = moved();
    for turn in 0..40 {
        let table = ["t", "u", "v", "w"][turn % 4];
        client.run(format!("SELECT n FROM {table} WHERE id = 1"));
    }
    assert!(moved() <= before + 2, "moved {} times", moved() - before);
}

/// S2: all clients are at home on one core, and its worker is long at a statement: others answer.
#[test]
fn s2_a_home_whose_worker_is_busy_is_served_by_others() {
    let server = server(Affinity::Homes, 2);
    let (mut busy, mut root) = (server.client(), server.client());
    busy.run("CREATE TABLE t (id INT PRIMARY KEY, n INT)");
    let rows: Vec<String> = (0..300).map(|id| format!("({id}, 0)")).collect();
    busy.run(format!("INSERT INTO t VALUES {}", rows.join(",")));
    let mut clients: Vec<Client> = (0..10).map(|_| server.client()).collect();
    at_home_in(&mut busy, "t");
    clients.iter_mut().for_each(|client| at_home_in(client, "t"));
    let id = busy.run("SELECT CONNECTION_ID()").one();
    // More pairs than any machine gets through.
    let long =
        "SELECT COUNT(*) FROM t a, t b, t c, t d, t e WHERE a.id + b.id + c.id + d.id + e.id = -1";
    send(&mut busy, long);
    until(|| running(&mut root, long) == 1);
    for round in 1..=20 {
        for client in &mut clients {
            send(client, "UPDATE t SET n = n + 1 WHERE id = 1");
        }
        for client in &mut clients {
            assert_eq!(client.answer().affected(), 1);
        }
        assert_eq!(root.run("SELECT n FROM t WHERE id = 1").one(), (10 * round).to_string());
    }
    root.run(format!("KILL QUERY {id}"));
    assert_eq!(busy.answer().code(), 1317);
    let [at_home, away, _] = statements(&server);
    assert!(at_home + away >= 20 * 10, "{at_home} at home, {away} away");
}

/// S4: workers that wait within their statements give their homes up, and others have them
/// meanwhile.
#[test]
fn s4_homes_are_had_by_those_who_run() {
    let server = server(Affinity::Homes, 2);
    let mut root = server.client();
    root.run("CREATE TABLE t (id INT PRIMARY KEY, n INT)");
    root.run("INSERT INTO t VALUES (1, 0)");
    let mut sleepers: Vec<(Client, String)> = Vec::new();
    for _ in 0..6 {
        let mut client = server.client();
        let id = client.run("SELECT CONNECTION_ID()").one();
        send(&mut client, "SELECT SLEEP(600)");
        sleepers.push((client, id));
    }
    until(|| running(&mut root, "SELECT SLEEP(600)") == 6);
    // Whoever runs now has a home: of two tables' rows some are at each, so some are met by whoever
    // it is.
    root.run("CREATE TABLE u (id INT PRIMARY KEY, n INT)");
    root.run("CREATE TABLE v (id INT PRIMARY KEY, n INT)");
    let [before, ..] = statements(&server);
    until(|| {
        for table in ["t", "u", "v"] {
            root.run(format!("SELECT n FROM {table} WHERE id = 1"));
        }
        statements(&server)[0] > before
    });
    for (client, id) in &mut sleepers {
        root.run(format!("KILL QUERY {id}"));
        client.answer();
        assert_eq!(client.run("SELECT n FROM t WHERE id = 1").one(), "0");
    }
}
