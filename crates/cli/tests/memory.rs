//! The server's process keeps its memory within the bound of `docs/operations.md` (Memory).
#![allow(missing_docs)]

use spillway_base::thread::JoinHandle;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const MIB: u64 = 1 << 20;
const BUDGET: u64 = 128 * MIB;
/// The memory that the process takes in addition to its budget, for any budget.
const FIXED: u64 = 64 * MIB;
/// As many clients are connected at a time; 512 may be (`max_connections`).
const CONNECTIONS: usize = 500;
const BOUND: u64 = BUDGET + BUDGET / 20 + FIXED;

/// Bytes of a process that no file backs.
fn anonymous(process: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? << 10)
}

/// Samples a process all the time, and keeps the maximum.
struct Watch {
    most: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    fn start(process: u32) -> Watch {
        let (most, stop) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let (seen, ends) = (most.clone(), stop.clone());
        let thread = spillway_base::thread::spawn("looks", move || {
            let clock = spillway_base::clock::Clock::system();
            while !ends.load(Ordering::Relaxed) {
                seen.fetch_max(anonymous(process).unwrap_or(0), Ordering::Relaxed);
                clock.sleep(Duration::from_millis(5));
            }
        });
        Watch { most, stop, thread: Some(thread.unwrap()) }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().unwrap().join();
    }
}

struct Server {
    child: Child,
    port: u16,
    metrics: String,
    watch: Watch,
    _folder: tempfile::TempDir,
}

impl Server {
    fn start() -> Server {
        let folder = tempfile::tempdir().unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_spillway"))
            .args(["serve", "--port", "0", "--memory", "128MiB", "--durability", "none"])
            .args(["--metrics-addr", "127.0.0.1:0", "--data"])
            .arg(folder.path().join("data"))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (mut port, mut metrics) = (0, String::new());
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            let line = line.unwrap();
            if let Some((_, rest)) = line.split_once(" -P ") {
                port = rest.split(' ').next().unwrap().parse().unwrap();
            }
            if let Some((_, rest)) = line.split_once("metrics:") {
                metrics = rest.trim().replace("http://", "").replace("/metrics", "");
                break;
            }
        }
        let watch = Watch::start(child.id());
        Server { child, port, metrics, watch, _folder: folder }
    }

    fn client(&self) -> Client {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
        stream.set_nodelay(true).unwrap();
        let mut client = Client(stream);
        client.packet();
        // PROTOCOL_41, CONNECT_WITH_DB, SECURE_CONNECTION and DEPRECATE_EOF.
        let mut hello = (1_u32 << 9 | 1 << 3 | 1 << 15 | 1 << 24).to_le_bytes().to_vec();
        hello.extend_from_slice(&[0; 28]);
        hello.extend_from_slice(b"root\0\0test\0");
        client.send(1, &hello);
        assert_eq!(client.packet()[0], 0);
        client
    }

    /// A value of the metrics page.
    fn figure(&self, name: &str) -> u64 {
        let mut stream = TcpStream::connect(&self.metrics).unwrap();
        write!(stream, "GET /metrics HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n").unwrap();
        let mut page = String::new();
        stream.read_to_string(&mut page).unwrap();
        let line = page.lines().find_map(|line| line.strip_prefix(&format!("spillway_{name} ")));
        line.unwrap_or_else(|| panic!("no {name}")).parse::<f64>().unwrap() as u64
    }

    /// Waits until the server has freed the memory of closed connections. Closing a socket does not
    /// wait for the server to notice.
    fn await_release(&self) {
        while self.figure("memory_connections_bytes") > 8 * MIB {
            spillway_base::clock::Clock::system().sleep(Duration::from_millis(5));
        }
    }

    /// Waits until the process has no more memory than is charged, and the fixed amount: until what
    /// was freed has gone back to the system.
    fn await_idle_memory(&self) {
        let clock = spillway_base::clock::Clock::system();
        let end = clock.now() + Duration::from_secs(100);
        loop {
            let resident = anonymous(self.child.id()).unwrap();
            // The budget charges resident memory that nothing else charges as `other`.
            let charged = self.figure("memory_used_bytes") - self.figure("memory_other_bytes");
            if resident <= charged + FIXED {
                return;
            }
            assert!(clock.now() < end, "{} MiB, {} charged", resident / MIB, charged / MIB);
            clock.sleep(Duration::from_millis(50));
        }
    }

    /// Asserts that the process's peak since the last call is within the bound.
    fn check(&self, what: &str) {
        let most = self.watch.most.swap(0, Ordering::Relaxed);
        assert!(most <= BOUND, "{what}: {} MiB, {} allowed", most / MIB, BOUND / MIB);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Client(TcpStream);

impl Client {
    fn send(&mut self, mut sequence: u8, payload: &[u8]) {
        let mut rest = payload;
        loop {
            let (now, later) = rest.split_at(rest.len().min(0xFF_FFFF));
            let [a, b, c, _] = (now.len() as u32).to_le_bytes();
            self.0.write_all(&[a, b, c, sequence]).unwrap();
            self.0.write_all(now).unwrap();
            (sequence, rest) = (sequence.wrapping_add(1), later);
            if now.len() < 0xFF_FFFF {
                return;
            }
        }
    }

    fn packet(&mut self) -> Vec<u8> {
        let mut payload = Vec::new();
        loop {
            let mut head = [0; 4];
            self.0.read_exact(&mut head).unwrap();
            let len = u32::from_le_bytes([head[0], head[1], head[2], 0]) as usize;
            let start = payload.len();
            payload.resize(start + len, 0);
            self.0.read_exact(&mut payload[start..]).unwrap();
            if len < 0xFF_FFFF {
                return payload;
            }
        }
    }

    /// Runs a statement and reads its rows. Returns its error, or zero.
    fn run(&mut self, sql: &str) -> u16 {
        self.send(0, &[&[3], sql.as_bytes()].concat());
        let error = |packet: &[u8]| u16::from_le_bytes([packet[1], packet[2]]);
        let first = self.packet();
        match first[0] {
            0 => return 0,
            0xFF => return error(&first),
            columns => (0..columns).for_each(|_| drop(self.packet())),
        }
        loop {
            let row = self.packet();
            match row[0] {
                0xFF => return error(&row),
                0xFE if row.len() < 0xFF_FFFF => return 0,
                _ => {}
            }
        }
    }
}

impl Client {
    /// As [`Client::run`], but repeats a statement that is refused for lack of memory: a compaction
    /// may need much of the budget for a while.
    fn run_once_it_fits(&mut self, sql: &str) -> u16 {
        for _ in 0..2000 {
            match self.run(sql) {
                1041 => spillway_base::clock::Clock::system().sleep(Duration::from_millis(5)),
                code => return code,
            }
        }
        1041
    }
}

fn load(client: &mut Client, table: &str, rows: usize) {
    let columns = "id INT PRIMARY KEY, k INT, pad VARCHAR(200), KEY k_1 (k)";
    assert_eq!(client.run(&format!("CREATE TABLE {table} ({columns})")), 0);
    let pad = "some text that a row has ".repeat(7);
    for from in (0..rows).step_by(2000) {
        let rows: Vec<String> =
            (from..from + 2000).map(|id| format!("({id}, {}, '{pad}')", id % 1000)).collect();
        assert_eq!(client.run(&format!("INSERT INTO {table} VALUES {}", rows.join(","))), 0);
    }
}

/// Values that functions make, and their copies, are charged (VALUE-MEMORY-1).
fn large_results_of_functions(server: &Server, client: &mut Client) {
    let value = "REPEAT('x', 30000000)";
    for sql in [
        format!("SELECT LENGTH(REVERSE({value}))"),
        "SELECT LENGTH(REGEXP_REPLACE(REPEAT('x', 4000000), 'x', 'xxxxxxxxxxxxxxx'))".to_owned(),
        format!("SELECT LENGTH(CONCAT({value})), LENGTH(UPPER({value})), {value}, {value}"),
        format!("SELECT LENGTH(JSON_EXTRACT(CONCAT('[1', {}, ']'), '$'))", "REPEAT(',1', 9000000)"),
        format!("SELECT pad FROM t WHERE id < 3 AND LOCATE('y', {value}) = 0"),
        "SELECT LENGTH(GROUP_CONCAT(DISTINCT REPEAT(id, 500000))) FROM t".to_owned(),
        format!("INSERT INTO b VALUES (100, HEX({value}))"),
    ] {
        let code = client.run(&sql);
        assert!([0, 1038, 1041].contains(&code), "{sql:.80}: {code}");
        server.check(&sql);
    }
    assert_eq!(client.run("SELECT LENGTH(REVERSE(REPEAT('x', 1000000)))"), 0);
}

/// Rows in memory with values of 64 KiB to 4 MiB, for which the budget has no room together.
#[test]
fn large_rows_in_memory_keep_to_the_bound() {
    let server = Server::start();
    let mut client = server.client();
    let columns = "id INT PRIMARY KEY, v LONGBLOB";
    assert_eq!(client.run(&format!("CREATE TABLE m ({columns}) ENGINE=MEMORY_OPTIMIZED")), 0);
    let value = |id: u64| format!("REPEAT('{}', {})", id % 10, 65_536_u64 << (id % 7));
    let ids = 0..130;
    for id in ids.clone() {
        let sql = format!("INSERT INTO m VALUES ({id}, {})", value(id));
        assert_eq!(client.run_once_it_fits(&sql), 0, "{id}");
    }
    server.check("a load of large rows");
    for id in ids {
        let (old, new) = (value(id), value(id + 1));
        let sql = format!("UPDATE m SET v = {new} WHERE id = {id} AND v = {old}");
        assert_eq!(client.run_once_it_fits(&sql), 0, "{id}");
    }
    server.check("reads and updates of large rows");
    assert!(server.figure("memory_engine_evicted_total") > 60);
    assert!(server.figure("memory_engine_version_bytes") > 10 * MIB);
    assert_eq!(client.run("DROP TABLE m"), 0);
    while server.figure("memory_engine_version_bytes") > MIB {
        spillway_base::clock::Clock::system().sleep(Duration::from_millis(5));
    }
    server.await_idle_memory();
}

/// Each kind of use alone, then the metrics.
#[test]
fn a_server_keeps_to_its_memory() {
    let server = Server::start();
    let mut client = server.client();
    load(&mut client, "t", 40_000);
    server.check("a load");
    assert_eq!(client.run("SELECT COUNT(*) FROM t a JOIN t b ON a.id = b.id"), 0);
    assert_eq!(client.run("SELECT pad, id FROM t ORDER BY pad, k, id LIMIT 39999, 1"), 0);
    assert_eq!(client.run("SELECT id, COUNT(*) FROM t GROUP BY id, pad ORDER BY NULL LIMIT 1"), 0);
    server.check("sorts, groups and joins");

    let tables = format!("SELECT 1 FROM {}a", "a,".repeat(1_000_000));
    let list = format!("SELECT COUNT(*) FROM t WHERE id IN ({}1)", "1,".repeat(2_000_000));
    let columns = format!("SELECT {}1", "1,".repeat(500_000));
    for sql in [&tables, &list, &columns] {
        assert_eq!(client.run(sql), 1041, "{sql:.40}");
    }
    let list = format!("SELECT COUNT(*) FROM t WHERE id IN ({}1)", "123456,".repeat(40_000));
    assert_eq!(client.run_once_it_fits(&list), 0);
    server.check("long statements");

    assert_eq!(client.run("CREATE TABLE b (id INT PRIMARY KEY, v LONGBLOB)"), 0);
    for (id, mib) in [1, 2, 4, 8, 16, 24].into_iter().enumerate() {
        let value: String = "0123456789abcdef".repeat(mib << 16);
        // The largest need not fit.
        let code = client.run(&format!("INSERT INTO b VALUES ({id}, '{value}')"));
        assert!(code == 0 || code == 1041 && mib > 4, "{mib} MiB: {code}");
        let code = client.run(&format!("SELECT v FROM b WHERE id = {id}"));
        assert!(code == 0 || code == 1041 && mib > 4, "{mib} MiB: {code}");
    }
    assert_eq!(client.run_once_it_fits("SELECT id, v FROM b ORDER BY id DESC"), 0);
    server.check("large values");

    large_results_of_functions(&server, &mut client);
    let mut clients: Vec<Client> = (0..CONNECTIONS).map(|_| server.client()).collect();
    let mut keeping = 0;
    for client in &mut clients {
        assert_eq!(client.run("SELECT pad FROM t WHERE id = 7"), 0);
        assert_eq!(client.run("SELECT * FROM t ORDER BY id LIMIT 20"), 0);
        keeping += u64::from(client.run("SET @v = REPEAT('x', 98304)") == 0);
    }
    server.check("connections");
    assert!(server.figure("memory_connections_bytes") > keeping * 98_304 && keeping > 200);
    drop(clients);
    server.await_release();
    server.await_idle_memory();

    let mut keeps = server.client();
    let refused = (0..200)
        .find(|at| keeps.run(&format!("SET @v{at} = REPEAT('x', 1048576)")) == 1041)
        .expect("a variable that does not fit");
    assert!(refused > 30, "{refused} variables");
    server.check("user variables");
    drop(keeps);
    server.await_release();
    let mut keeps = server.client();
    let locks: Vec<String> = (0..2000).map(|at| format!("GET_LOCK('{at}', 0)")).collect();
    for from in 0..20 {
        let locks = locks.join(",").replace("('", &format!("('{from}-"));
        assert_eq!(keeps.run_once_it_fits(&format!("SELECT {locks}")), 0);
    }
    server.check("named locks");
    assert!(server.figure("memory_connections_bytes") > 40_000 * 100, "locks are charged");
    drop(keeps);

    assert_eq!(client.run("BEGIN"), 0);
    assert_eq!(client.run_once_it_fits("UPDATE t SET k = k + 1"), 0);
    assert_eq!(client.run_once_it_fits("INSERT INTO t SELECT id + 1000000, k, pad FROM t"), 0);
    assert_eq!(client.run("ROLLBACK"), 0);
    server.check("a long transaction");

    let (resident, used) =
        (server.figure("process_resident_anonymous_bytes"), server.figure("memory_used_bytes"));
    assert!(resident > 10 * MIB && used <= BUDGET, "{resident} resident, {used} charged");
}
