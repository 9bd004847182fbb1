//! Rows that are only on a device: a client that waits for such a row does not delay other clients
//! (decision 011).

use std::path::Path;
use std::sync::Arc;

use spillway::{Database, Mechanism, Settings};
use spillway_server::ServerSettings;
use spillway_storage::sim::SimDisk;

use crate::client::{Client, TestServer, until};

const ROWS: usize = 400;

/// The engines. After the database was opened again, rows of both are only on the device.
const ENGINES: [&str; 2] = ["TIERED", "MEMORY_OPTIMIZED"];

/// A server with one worker over a table `t` of which nothing is in memory, and a table `w` that is
/// in memory.
fn cold(disk: &SimDisk, overlaps: bool) -> TestServer {
    cold_with(disk, overlaps, false)
}

/// The same with a table of this engine.
fn cold_in(disk: &SimDisk, engine: &str, overlaps: bool) -> TestServer {
    cold_for(disk, engine, overlaps, false, 1, false)
}

/// The same, where reads of data files may bypass the page cache.
fn cold_with(disk: &SimDisk, overlaps: bool, direct: bool) -> TestServer {
    cold_for(disk, "TIERED", overlaps, direct, 1, false)
}

/// The same with this many workers. If `lone`, a worker may wait for its device when the others
/// have nothing to do.
fn cold_for(
    disk: &SimDisk,
    engine: &str,
    overlaps: bool,
    direct: bool,
    workers: usize,
    lone: bool,
) -> TestServer {
    let settings = ServerSettings { workers, ..ServerSettings::default() };
    // Changed rows are on the device only after a flush, although reads before may have cached
    // them.
    let mut without = vec![Mechanism::RowCache];
    // Otherwise a statement is suspended for its read even if another worker sleeps, and there may
    // be one since an earlier wait.
    without.extend((!lone).then_some(Mechanism::LoneWaits));
    without.extend((!overlaps).then_some(Mechanism::OverlappedReads));
    let open = |background_threads: bool| {
        let mut settings = Settings::default();
        settings.background_threads = background_threads;
        settings.without.clone_from(&without);
        settings.direct_reads = direct;
        Database::open_on(Arc::new(disk.clone()), "/db", settings).unwrap()
    };
    // Without background threads, tables are flushed in a fixed order, and lie at fixed places.
    let server = TestServer::over(open(false), settings.clone());
    let mut root = server.client();
    let table = "CREATE TABLE t (id INT PRIMARY KEY, n INT, v VARCHAR(300))";
    root.run(format!("{table} ENGINE={engine}"));
    root.run("CREATE TABLE w (id INT PRIMARY KEY, n INT)");
    let row = |id| format!("({id}, {id}, '{}')", "x".repeat(200 + id % 100));
    let rows: Vec<String> = (0..ROWS).map(row).collect();
    root.run(format!("INSERT INTO t VALUES {}", rows.join(", ")));
    let database = server.instance.database();
    database.flush().unwrap();
    server.server.stop();
    database.close().unwrap();
    let server = TestServer::over(open(true), settings);
    server.client().run("INSERT INTO w VALUES (1, 1)");
    server
}

fn send(client: &mut Client, sql: &str) {
    client.command(3, sql.as_bytes());
}

fn figure(server: &TestServer, name: &str) -> u64 {
    let figures = server.server.metrics()().into_iter();
    let mut figures = figures.chain(server.instance.database().metrics());
    figures.find(|figure| figure.name == name).unwrap().value as u64
}

/// The number of statements that were suspended for a read.
fn left(server: &TestServer) -> u64 {
    ["tiered_reads", "memory_engine_reads"]
        .map(|reads| {
            ["begun", "shared"].map(|what| figure(server, &format!("{reads}_{what}_total")))
        })
        .iter()
        .flatten()
        .sum()
}

/// A worker that needs an evicted row of the memory engine runs other statements meanwhile.
#[test]
fn a_read_of_an_evicted_row_that_hangs_keeps_nobody_else_waiting() {
    for overlaps in [false, true] {
        let disk = SimDisk::new(1);
        let server = cold_in(&disk, ENGINES[1], overlaps);
        let (mut one, mut other) = (server.client(), server.client());
        let held = disk.hold_reads();
        send(&mut one, "SELECT n FROM t WHERE id = 7");
        held.wait_for(1);
        for _ in 0..3 {
            assert_eq!(other.run("UPDATE w SET n = n + 1").affected(), 1);
        }
        assert_eq!(left(&server), u64::from(overlaps));
        drop(held);
        assert_eq!(one.answer().one(), "7");
        assert_eq!(left(&server), u64::from(overlaps), "it came again once");
        assert_eq!(other.run("SELECT SUM(n) FROM t WHERE id BETWEEN 1 AND 300").one(), "45150");
        assert!(figure(&server, "memory_engine_read_ahead_total") > 250);
    }
}

#[test]
fn a_read_that_hangs_keeps_nobody_else_waiting() {
    for (overlaps, direct) in [(false, false), (false, true), (true, false), (true, true)] {
        a_read_hangs(overlaps, direct);
    }
}

fn a_read_hangs(overlaps: bool, direct: bool) {
    let disk = SimDisk::new(1);
    let server = cold_with(&disk, overlaps, direct);
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

/// A statement that waits for the first of several rows, or for the blocks of the others, which it
/// reads together, keeps no other client waiting.
#[test]
fn a_statement_that_reads_many_rows_at_once_keeps_nobody_else_waiting() {
    for (engine, direct) in [("TIERED", false), ("TIERED", true), ("MEMORY_OPTIMIZED", false)] {
        let disk = SimDisk::new(1);
        let server = cold_for(&disk, engine, true, direct, 1, false);
        let (mut one, mut other) = (server.client(), server.client());
        let ids: Vec<String> = (0..7).map(|at| (57 * at).to_string()).collect();
        let together = || match engine {
            "TIERED" => figure(&server, "tiered_prefetched_total"),
            _ => figure(&server, "memory_engine_prefetched_total"),
        };
        let held = disk.hold_reads();
        send(&mut one, &format!("SELECT SUM(n) FROM t WHERE id IN ({})", ids.join(", ")));
        for _ in 0..3 {
            assert_eq!(other.run("UPDATE w SET n = n + 1").affected(), 1);
        }
        held.wait_for(1);
        assert_eq!(other.run("UPDATE w SET n = n + 1").affected(), 1);
        drop(held);
        assert_eq!(one.answer().one(), (57 * 21).to_string());
        assert!(together() > 1, "{}", together());
    }
}

/// Statements of every kind that look rows up.
#[test]
fn who_waits_for_a_device_costs_no_thread() {
    for engine in ENGINES {
        let disk = SimDisk::new(1);
        let server = cold_in(&disk, engine, true);
        let mut root = server.client();
        let kinds = [
            "SELECT n FROM t WHERE id = {}",
            "UPDATE t SET n = n + 1000 WHERE id = {}",
            "SELECT n FROM t WHERE id = {} FOR UPDATE",
            "DELETE FROM t WHERE id = {}",
        ];
        let mut clients: Vec<Client> = (0..80).map(|_| server.client()).collect();
        let held = disk.hold_reads();
        for (at, client) in clients.iter_mut().enumerate() {
            client.command(3, kinds[at % 4].replace("{}", &(5 * at).to_string()).as_bytes());
        }
        until(|| left(&server) == 80);
        assert!(figure(&server, "workers_now") < 5);
        // In the tiered engine, all of them miss the same block index.
        let begun = ["tiered", "memory_engine"]
            .map(|of| figure(&server, &format!("{of}_reads_begun_total")));
        assert_eq!(begun, if engine == "TIERED" { [1, 0] } else { [0, 80] });
        assert_eq!(root.run("SELECT n FROM w").one(), "1");
        drop(held);
        for (at, client) in clients.iter_mut().enumerate() {
            let answer = client.answer();
            match at % 4 {
                0 | 2 => assert_eq!(answer.one(), (5 * at).to_string()),
                _ => assert_eq!(answer.affected(), 1),
            }
        }
        let changed: usize = (0..20).map(|at| 1000 - 5 * (4 * at + 3)).sum();
        let all = ROWS * (ROWS - 1) / 2;
        assert_eq!(root.run("SELECT SUM(n) FROM t").one(), (all + changed).to_string());
    }
}

/// A client gets the same error from a failed read whether or not the worker left the statement.
#[test]
fn a_read_that_fails_is_told_as_if_it_had_been_waited_for() {
    for (engine, extensions) in ENGINES.into_iter().zip([&["data"][..], &["plog", "kept"]]) {
        let ways = [(false, false), (true, false), (false, true), (true, true)];
        let told = ways.map(|(overlaps, direct)| {
            let disk = SimDisk::new(1);
            let server = cold_for(&disk, engine, overlaps, direct, 1, false);
            let mut client = server.client();
            let has_rows = |path: &Path| {
                let extension = path.extension().and_then(|extension| extension.to_str());
                extension.is_some_and(|extension| extensions.contains(&extension))
            };
            let files = disk.files().into_iter().filter(|(path, _)| has_rows(path));
            let files: Vec<_> = files.collect();
            files.iter().for_each(|(path, _)| disk.fail_reads(path));
            let unreadable = client.query("SELECT n FROM t WHERE id = 7");
            disk.heal();
            assert_eq!(client.run("SELECT n FROM t WHERE id = 7").one(), "7");
            for (path, len) in &files {
                (0..(*len).min(200_000)).for_each(|at| disk.rot(path, at, 0x10));
            }
            let damaged = client.query("SELECT n FROM t WHERE id = 399");
            assert_eq!(left(&server) > 0, overlaps);
            assert!(unreadable.code() > 0 && damaged.code() > 0);
            format!("{unreadable:?} {damaged:?}")
        });
        assert!(told.iter().all(|other| *other == told[0]), "{told:?}");
    }
}

/// ASYNC-READ-7: the server serves other clients while the first client's read is on the device,
/// whether or not the read blocks its worker.
#[test]
fn who_is_alone_with_a_device_keeps_nobody_else_waiting() {
    for engine in ENGINES {
        let disk = SimDisk::new(1);
        let server = cold_for(&disk, engine, true, true, 3, true);
        let (mut one, mut other) = (server.client(), server.client());
        let held = disk.hold_reads();
        send(&mut one, "SELECT n FROM t WHERE id = 399");
        held.wait_for(1);
        for _ in 0..3 {
            assert_eq!(other.run("UPDATE w SET n = n + 1").affected(), 1);
        }
        send(&mut other, "SELECT n FROM t WHERE id = 1");
        assert_eq!(server.client().run("SELECT n FROM w").one(), "4");
        drop(held);
        assert_eq!((one.answer().one(), other.answer().one()), ("399".into(), "1".into()));
    }
}

/// A worker that came back from a wait and is surplus rests after its statement. The read that the
/// statement began is still submitted, although all other workers sleep.
#[test]
fn a_read_that_was_begun_by_one_too_many_is_handed_over() {
    let disk = SimDisk::new(1);
    let server = cold_for(&disk, "TIERED", true, true, 2, true);
    let (mut holder, mut waiting) = (server.client(), server.client());
    let (mut one, mut other) = (server.client(), server.client());
    assert_eq!(holder.run("SELECT GET_LOCK('x', 0)").one(), "1");
    send(&mut waiting, "SELECT GET_LOCK('x', 60)");
    let held = disk.hold_reads();
    // Both of its statements come together, so one worker runs both.
    let scan = "SELECT SUM(n) FROM t WHERE id BETWEEN 1 AND 20";
    let both = [scan, "SELECT n FROM t WHERE id = 399"]
        .map(|sql| [&[sql.len() as u8 + 1, 0, 0, 0, 3], sql.as_bytes()].concat());
    one.raw(&both.concat());
    one.sequence = 1;
    held.wait_for(1);
    // Two workers wait, and two have taken their places.
    until(|| other.run("SELECT 1").one() == "1" && figure(&server, "workers_now") == 4);
    assert_eq!(left(&server), 0);
    drop(held);
    assert_eq!(one.answer().one(), "210");
    one.sequence = 1;
    assert_eq!(one.answer().one(), "399");
    // A resting worker submits reads when it ends, at the latest. This one still rests.
    assert_eq!(figure(&server, "workers_now"), 4, "nobody saw to it before");
    assert!(left(&server) > 0);
    holder.run("SELECT RELEASE_LOCK('x')");
    assert_eq!(waiting.answer().one(), "1");
}

/// A read that the system refuses is submitted again, without another statement.
#[test]
fn a_read_that_the_system_refuses_is_handed_over_later() {
    for engine in ENGINES {
        let disk = SimDisk::new(1);
        let server = cold_in(&disk, engine, true);
        let (mut one, mut other) = (server.client(), server.client());
        disk.refuse_submissions(true);
        let before = left(&server);
        send(&mut one, "SELECT n FROM t WHERE id = 7");
        until(|| left(&server) > before);
        for _ in 0..3 {
            assert_eq!(other.run("UPDATE w SET n = n + 1").affected(), 1);
        }
        disk.refuse_submissions(false);
        assert_eq!(one.answer().one(), "7");
    }
}

#[test]
fn a_statement_that_is_killed_does_not_wait_for_its_device() {
    for engine in ENGINES {
        let disk = SimDisk::new(1);
        let server = cold_in(&disk, engine, true);
        let (mut root, mut one) = (server.client(), server.client());
        let id = one.run("SELECT CONNECTION_ID()").one();
        for (kill, sql) in [
            ("KILL QUERY", "UPDATE t SET n = 0 WHERE id = 7"),
            ("KILL QUERY", "SELECT n FROM t WHERE id = 150"),
            ("KILL", "SELECT n FROM t WHERE id = 300"),
        ] {
            let held = disk.hold_reads();
            let before = left(&server);
            send(&mut one, sql);
            until(|| left(&server) > before);
            root.run(format!("{kill} {id}"));
            assert_eq!(one.answer().code(), 1317);
            drop(held);
        }
        assert_eq!(root.run("SELECT SUM(n) FROM t").one(), (ROWS * (ROWS - 1) / 2).to_string());
    }
}

/// A client that disconnects during a read: its row is locked no longer than its read takes, and
/// its transaction is rolled back.
#[test]
fn who_goes_while_a_device_reads_leaves_nothing_behind() {
    for engine in ENGINES {
        let disk = SimDisk::new(1);
        let server = cold_in(&disk, engine, true);
        let mut root = server.client();
        let held = disk.hold_reads();
        for id in 0..10 {
            let mut one = server.client();
            one.run("BEGIN");
            one.run(format!("INSERT INTO w VALUES (2 + {id}, 2)"));
            let before = left(&server);
            send(&mut one, &format!("UPDATE t SET n = 0 WHERE id = {id}"));
            until(|| left(&server) > before);
            drop(one);
        }
        drop(held);
        assert_eq!(root.run("UPDATE t SET n = n + 1 WHERE id < 10").affected(), 10);
        assert_eq!(root.run("SELECT COUNT(*) FROM w").one(), "1");
        // The server's end does not wait for the device. The end of the database completes the
        // read.
        let held = disk.hold_reads();
        let mut one = server.client();
        let before = left(&server);
        send(&mut one, "SELECT n FROM t WHERE id = 250");
        let database = server.instance.database().clone();
        until(|| left(&server) > before);
        server.server.stop();
        drop(held);
        database.close().unwrap();
    }
}

/// Effects that cannot be undone happen once, whatever the statement reads after them: only the
/// lookup of its row is repeated.
#[test]
fn what_a_statement_does_is_not_done_again() {
    let lock = "GET_LOCK('mine', 1)";
    let far = "(SELECT n FROM t WHERE id = 390)";
    for sql in [
        format!("UPDATE t SET n = {lock}, v = {far} WHERE id = 7"),
        format!("UPDATE t SET id = 1000 + {lock} WHERE id = 7"),
        format!("DELETE FROM t WHERE id = 7 AND {lock} AND {far} > 0"),
        format!("SELECT {lock}, {far} FROM w WHERE id = 1 FOR UPDATE"),
        format!("SELECT COUNT(*), {lock}, {far} FROM w WHERE id = 99999999999 FOR UPDATE"),
    ] {
        let server = cold(&SimDisk::new(1), true);
        let mut one = server.client();
        one.run(&sql);
        assert_eq!(one.run("SELECT RELEASE_ALL_LOCKS()").one(), "1", "{sql}");
    }
}

/// A row that was locked but not read, because the statement was suspended, is read when the
/// statement continues.
#[test]
fn no_update_is_lost_to_a_read_that_was_left() {
    let told = [false, true].map(|overlaps| {
        let disk = SimDisk::new(1);
        let server = cold(&disk, overlaps);
        let (mut one, mut other) = (server.client(), server.client());
        one.run("BEGIN");
        assert_eq!(one.run("SELECT n FROM w").one(), "1");
        assert_eq!(one.run("SELECT n FROM t WHERE id = 7").one(), "7");
        other.run("UPDATE t SET n = n + 1 WHERE id = 7");
        server.instance.database().compact().unwrap();
        let before = left(&server);
        // The block of the row is read, and the row is newer than the snapshot.
        let refused = one.query("UPDATE t SET n = n + 1 WHERE id = 7");
        assert_eq!(refused.code(), 1213);
        assert_eq!(left(&server) > before, overlaps);
        one.run("ROLLBACK");
        assert_eq!(other.run("SELECT n FROM t WHERE id = 7").one(), "8");
        format!("{refused:?}")
    });
    assert_eq!(told[0], told[1]);
}
