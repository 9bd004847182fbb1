//! The `spillway` command, run as from a shell.
#![allow(missing_docs)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use clap::Args;
use spillway_bench::connections::ConnectionsArgs;

const SPILLWAY: &str = env!("CARGO_BIN_EXE_spillway");

fn spillway(args: &[&str]) -> Output {
    Command::new(SPILLWAY).args(args).output().unwrap()
}

fn text(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr].concat();
    String::from_utf8(text).unwrap()
}

/// A separate server, until it is stopped.
struct Serving {
    child: Child,
    port: u16,
    /// Its output at the start.
    said: String,
}

impl Serving {
    fn start(data: &Path, more: &[&str]) -> Serving {
        Serving::start_logging(data, more, Stdio::inherit())
    }

    /// Starts a server that writes its log to `log`.
    fn start_logging(data: &Path, more: &[&str], log: impl Into<Stdio>) -> Serving {
        let mut child = Command::new(SPILLWAY)
            .args(["serve", "--port", "0", "--data", data.to_str().unwrap()])
            .args(more)
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut said = String::new();
        let last = if more.contains(&"--metrics-addr") { "metrics:" } else { "connect with:" };
        for line in &mut lines {
            let line = line.unwrap();
            said.push_str(&line);
            said.push('\n');
            if line.starts_with(last) {
                break;
            }
        }
        let after = said.split(" -P ").nth(1).unwrap_or_else(|| panic!("no port in {said}"));
        let port = after.split(' ').next().unwrap().parse().unwrap();
        // Nothing reads its later output: it must cope with that.
        drop(lines);
        Serving { child, port, said }
    }

    /// The address of its metrics.
    fn metrics(&self) -> &str {
        let url = self.said.lines().find_map(|line| line.strip_prefix("metrics:")).unwrap();
        url.trim().strip_prefix("http://").and_then(|url| url.strip_suffix("/metrics")).unwrap()
    }

    fn client(&self) -> Client {
        let (client, answer) = self.log_in("root", b"");
        assert_eq!(answer[0], 0);
        client
    }

    /// A client that has tried to log in, and the server's answer.
    fn log_in(&self, user: &str, proof: &[u8]) -> (Client, Vec<u8>) {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let mut client = Client(stream);
        assert_eq!(client.packet().unwrap()[0], 10);
        // PROTOCOL_41, SECURE_CONNECTION and PLUGIN_AUTH.
        let mut hello = (1_u32 << 9 | 1 << 15 | 1 << 19).to_le_bytes().to_vec();
        hello.extend_from_slice(&[0; 28]);
        let plugin = b"mysql_native_password\0";
        hello.extend([user.as_bytes(), &[0, proof.len() as u8], proof, plugin].concat());
        client.send(1, &hello);
        let mut answer = client.packet().unwrap();
        if answer[0] == 0xFE {
            // The server asks for another plugin.
            client.send(3, proof);
            answer = client.packet().unwrap();
        }
        (client, answer)
    }

    /// Asks it to stop, and waits until it has; returns whether it stopped cleanly.
    fn stop(mut self) -> bool {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        self.child.wait().unwrap().success()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // Stopped already, unless a test has failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Client(TcpStream);

impl Client {
    fn send(&mut self, sequence: u8, payload: &[u8]) {
        let [a, b, c, ..] = (payload.len() as u32).to_le_bytes();
        self.0.write_all(&[&[a, b, c, sequence], payload].concat()).unwrap();
    }

    fn packet(&mut self) -> Option<Vec<u8>> {
        let mut head = [0; 4];
        self.0.read_exact(&mut head).ok()?;
        let mut payload = vec![0; u32::from_le_bytes([head[0], head[1], head[2], 0]) as usize];
        self.0.read_exact(&mut payload).ok()?;
        Some(payload)
    }

    fn query(&mut self, sql: &str) {
        self.send(0, &[&[3], sql.as_bytes()].concat());
    }

    fn run(&mut self, sql: &str) {
        self.query(sql);
        let answer = self.packet().unwrap();
        assert_eq!(answer[0], 0, "{sql}: {}", String::from_utf8_lossy(&answer));
    }
}

/// Parses the arguments of a benchmark.
fn measure<'a, A: Args>(args: impl Iterator<Item = &'a str>) -> A {
    let command = A::augment_args(clap::Command::new("measure").no_binary_name(true));
    A::from_arg_matches(&command.get_matches_from(args)).unwrap()
}

/// The log has a line for each failed login, with the name and the address that the client gave. No
/// name can forge a line or reach the terminal of an administrator, and no password is logged.
#[test]
fn the_log_has_a_line_for_each_failed_login() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let data = folder.path().join("data");
    let log = std::fs::File::create(&path).unwrap();
    let serving = Serving::start_logging(&data, &[], log);
    let mut root = serving.client();
    root.run("CREATE USER guessed IDENTIFIED BY 'secret'");
    let wild = "x\u{1b}[2J\nAccess denied for user 'forged'";
    for user in ["guessed", "nobody", wild] {
        let (_, answer) = serving.log_in(user, &[b'P'; 20]);
        assert_eq!(answer[..3], [0xFF, 0x15, 0x04], "{user:?} gets 1045");
    }
    // Nor does a login that succeeds.
    drop(serving.client());
    assert!(serving.stop());
    let log = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("Access denied")).collect();
    assert_eq!(lines.len(), 3, "{log}");
    for (line, user) in lines.iter().zip(["guessed", "nobody", "x\\x1B[2J\\nAccess denied"]) {
        let from = format!("Access denied for user '{user}");
        assert!(line.contains(&from) && line.contains("'@'127.0.0.1'"), "{line}");
        assert!(!line.contains("PPPP") && !line.contains("secret"), "{line}");
    }
}

#[test]
fn every_command_teaches_by_examples() {
    for args in [
        &["--help"][..],
        &["serve", "--help"],
        &["sql", "--help"],
        &["check", "--help"],
        &["inspect", "--help"],
    ] {
        let output = spillway(args);
        let text = text(&output);
        assert!(output.status.success() && text.contains("Examples:"), "{args:?}: {text}");
        assert!(text.contains("  spillway "), "{args:?}: {text}");
    }
}

#[test]
fn a_server_stops_when_it_is_asked_to_whatever_its_clients_do() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let socket = folder.path().join("spillway.sock");
    let server = Serving::start(&data, &["--socket", socket.to_str().unwrap()]);
    let (mut idle, mut open, mut busy) = (server.client(), server.client(), server.client());
    idle.run("CREATE TABLE test.t (id INT PRIMARY KEY)");
    idle.run("INSERT INTO test.t VALUES (1)");
    open.run("BEGIN");
    open.run("INSERT INTO test.t VALUES (2)");
    // A statement that waits for the other's lock, until it is interrupted or the other has rolled
    // back.
    busy.query("INSERT INTO test.t VALUES (2)");
    assert!(socket.exists());
    let address = ("127.0.0.1", server.port);
    assert!(server.stop());
    assert!(idle.packet().is_none() && open.packet().is_none());
    let acknowledged = busy.packet().is_some_and(|answer| answer[0] == 0);
    assert!(TcpStream::connect(address).is_err() && !socket.exists());
    let data = data.to_str().unwrap();
    let checked = spillway(&["check", data]);
    assert!(checked.status.success() && text(&checked).contains("no damage"), "{}", text(&checked));
    let rows = spillway(&["sql", "--data", data, "-e", "SELECT id FROM t"]);
    assert_eq!(text(&rows), if acknowledged { "id\n1\n2\n" } else { "id\n1\n" });
}

#[test]
fn a_server_is_told_the_engine_of_new_tables() {
    let refused = spillway(&["serve", "--default-engine", "innodb"]);
    assert!(!refused.status.success() && text(&refused).contains("innodb is no engine"));
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(&folder.path().join("data"), &["--default-engine", "hiengine"]);
    let mut client = server.client();
    client.query("SELECT @@default_storage_engine");
    // The number of columns, the column, an end of columns, the row.
    let row = std::array::from_fn::<_, 4, _>(|_| client.packet().unwrap())[3].clone();
    assert_eq!(row, [&[16], b"MEMORY_OPTIMIZED".as_slice()].concat());
    assert!(server.stop());
}

#[test]
fn a_server_is_measured_with_many_connections() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("spillway.sock");
    let socket = socket.to_str().unwrap();
    let server = Serving::start(&folder.path().join("data"), &["--socket", socket]);
    let csv = folder.path().join("rows.csv");
    let named = format!("spillway={socket}");
    let size = "--connections 3,40 --rows 1500 --statements 300 --rounds 1";
    let args = ["--server", &named, "--csv", csv.to_str().unwrap()];
    measure::<ConnectionsArgs>(args.into_iter().chain(size.split(' '))).run().unwrap();
    let rows = std::fs::read_to_string(csv).unwrap();
    assert!(rows.contains("\n3,spillway,") && rows.contains("\n40,spillway,"), "{rows}");
    assert!(server.stop());
}

#[test]
fn figures_are_shown_to_those_who_ask_and_only_if_wanted() {
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(&folder.path().join("data"), &["--metrics-addr", "127.0.0.1:0"]);
    let _client = server.client();
    let page = ask(server.metrics());
    for line in [
        "spillway_connections_total 1",
        "spillway_connections_now 1",
        "spillway_memory_budget_bytes ",
    ] {
        assert!(page.contains(line), "{line} is not in {page}");
    }
    assert!(server.stop());
}

/// Requests the metrics; empty if there is no answer.
fn ask(address: &str) -> String {
    let mut page = String::new();
    if let Ok(mut stream) = TcpStream::connect(address) {
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let asked = stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n");
        let _ = asked.and_then(|()| stream.read_to_string(&mut page).map(drop));
    }
    page
}

#[test]
fn who_asks_and_does_not_listen_stops_neither_the_figures_nor_the_stop() {
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(&folder.path().join("data"), &["--metrics-addr", "127.0.0.1:0"]);
    let address = server.metrics();
    let mut deaf = TcpStream::connect(address).unwrap();
    // Answers to all of these exceed a socket's buffer.
    deaf.write_all(&b"GET /metrics HTTP/1.1\r\n\r\n".repeat(4000)).unwrap();
    for _ in 0..3 {
        assert!(ask(address).contains("spillway_connections_total"), "nobody answers");
    }
    assert!(server.stop());
}

#[test]
fn figures_are_there_again_when_descriptors_are() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let server = Serving::start(&data, &["--metrics-addr", "127.0.0.1:0"]);
    let address = server.metrics();
    // It would not have started with so few.
    let pid = server.child.id().to_string();
    let few = Command::new("prlimit").args(["--pid", &pid, "--nofile=64:64"]).status().unwrap();
    assert!(few.success());
    let greeted = |stream: &mut TcpStream| stream.read_exact(&mut [0]).is_ok();
    let mut clients = Vec::new();
    loop {
        let mut client = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        let served = greeted(&mut client);
        clients.push(client);
        if !served {
            break;
        }
    }
    // Accepted only by the kernel.
    let waiting = TcpStream::connect(address).unwrap();
    waiting.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    assert!((&waiting).read(&mut [0]).is_err());
    drop((clients, waiting));
    assert!(ask(address).contains("spillway_connections_total"), "nobody answers");
    assert!(server.stop());
}

#[test]
fn what_cannot_be_served_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let data = data.to_str().unwrap();
    let refused = |more: &[&str], why: &str| {
        let output = spillway(&[&["serve", "--data", data, "--port", "0"], more].concat());
        let text = text(&output);
        assert!(!output.status.success() && text.contains(why), "{more:?}: {text}");
    };
    let few = Command::new("sh")
        .args(["-c", "ulimit -n 64; exec \"$0\" \"$@\"", SPILLWAY])
        .args(["serve", "--data", data, "--port", "0"])
        .output()
        .unwrap();
    // 513 that have logged in and 64 over the admin socket; twice 512 and 16 that have not; and 128
    // other files.
    assert!(!few.status.success() && text(&few).contains("need 1761 open files"), "{}", text(&few));
    refused(&["--bind", "0.0.0.0"], "root has an empty password");
    refused(&["--tls-cert", "cert.pem"], "--tls-key");
    refused(&["--tls-cert", "missing.pem", "--tls-key", "missing.pem"], "missing.pem");
    refused(&["--memory", "much"], "512MiB");
    for none in ["0", "100001", "-1"] {
        let none = format!("--max-connections={none}");
        refused(&[&none], "1..=100000");
    }
    for socket in ["--socket", "--admin-socket"] {
        refused(&[socket, "/proc/none/spillway.sock"], "/proc/none/spillway.sock");
    }
    let server = Serving::start(Path::new(data), &[]);
    refused(&[], "open in another process");
    assert!(server.stop());
}

#[test]
fn scripts_stop_at_their_first_error() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut shell = Command::new(SPILLWAY)
        .args(["sql", "--data", data.to_str().unwrap()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let script = "CREATE TABLE t (id INT PRIMARY KEY,\n word TEXT);\nINSERT INTO t VALUES (1, 'a');\nSELECT * FROM t;\n\
                  SELECT * FROM missing;\nSELECT 'not reached';\n";
    shell.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    let output = shell.wait_with_output().unwrap();
    assert!(!output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stdout), "id\tword\n1\ta\n");
    assert!(String::from_utf8_lossy(&output.stderr).contains("1146"), "{}", text(&output));
}

#[test]
fn a_log_in_another_folder_is_never_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    let (data, log) = (folder.path().join("data"), folder.path().join("log"));
    let (data_text, log_text) = (data.to_str().unwrap(), log.to_str().unwrap());
    let server = Serving::start(&data, &["--log-dir", log_text]);
    server.client().run("CREATE TABLE test.t (a INT)");
    assert!(server.stop());
    let without = spillway(&["sql", "--data", data_text, "-e", "SHOW TABLES"]);
    assert!(!without.status.success() && text(&without).contains(log_text), "{without:?}");
    let with = spillway(&["sql", "--data", data_text, "--log-dir", log_text, "-e", "SHOW TABLES"]);
    assert!(with.status.success() && text(&with).contains('t'), "{with:?}");
    assert!(spillway(&["check", data_text]).status.success());
}

#[test]
fn a_folder_is_inspected_without_opening_it() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let data = data.to_str().unwrap();
    let inspect = |more: &[&str]| spillway(&[&["inspect", data], more].concat());
    let missing = inspect(&[]);
    assert!(!missing.status.success() && text(&missing).contains("is no database folder"));

    let server = Serving::start(Path::new(data), &[]);
    let locked = inspect(&[]);
    assert!(!locked.status.success(), "{}", text(&locked));
    for part in ["open in another process", "spillway inspect http://", "inspect --help"] {
        assert!(text(&locked).contains(part), "{part}: {}", text(&locked));
    }
    assert!(server.stop());

    // Nothing is in data files yet; only the log has the names.
    let sql = "CREATE TABLE t (id INT PRIMARY KEY, word TEXT, KEY (word(9)));
               CREATE TABLE u (id INT); INSERT INTO t VALUES (1, 'one'), (2, 'two');";
    assert!(spillway(&["sql", "--data", data, "-e", sql]).status.success());
    // The list of tables is recorded in the background, perhaps only by the next process that opens
    // the folder.
    let is_told = || text(&inspect(&[])).contains("test.u");
    let wait = ["sql", "--data", data, "-e", "SELECT SLEEP(0.1)"];
    assert!((0..100).any(|_| is_told() || !spillway(&wait).status.success()) && is_told());
    let before = files_of(Path::new(data));
    let fresh = text(&inspect(&[]));
    for part in [
        "0 extents",
        "nothing in data files yet",
        "test.t, index word",
        "none since the database was opened last",
    ] {
        assert!(fresh.contains(part), "{part}: {fresh}");
    }
    let one = text(&inspect(&["--table", "test.t"]));
    assert!(one.contains("test.t, index word") && !one.contains("test.u"), "{one}");
    let none = inspect(&["--table", "test.x"]);
    assert!(!none.status.success() && text(&none).contains("test.u"), "{}", text(&none));

    let page = folder.path().join("page.html");
    let drawn = inspect(&["--format", "html", "--output", page.to_str().unwrap()]);
    assert!(drawn.status.success() && text(&drawn).is_empty(), "{}", text(&drawn));
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("test.u"), "{page}");
    let json = text(&inspect(&["--format", "json"]));
    assert!(
        json.starts_with('{') && json.ends_with("}\n") && json.contains("\"test.t\""),
        "{json}"
    );
    assert!(files_of(Path::new(data)) == before, "something was changed");
}

#[test]
fn the_memory_engine_of_a_folder_is_inspected() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let path = data.to_str().unwrap();
    let inspect = |more: &[&str]| spillway(&[&["inspect", path], more].concat());
    let sql = "CREATE TABLE m (id INT PRIMARY KEY, word TEXT) ENGINE=MEMORY_OPTIMIZED;
               CREATE TABLE t (id INT); INSERT INTO m VALUES (1, 'one'), (2, 'two');";
    assert!(spillway(&["sql", "--data", path, "-e", sql]).status.success());
    let none = text(&inspect(&[]));
    assert!(none.contains("memory engine: no checkpoint yet"), "{none}");
    let db = spillway::Database::open(&data, spillway::Settings::default()).unwrap();
    db.persist().unwrap();
    db.close().unwrap();
    drop(db);
    let before = files_of(&data);
    let all = text(&inspect(&[]));
    for part in
        ["memory engine: 1 table with 2 keys in the last checkpoint", "test.m", "checkpoint 1"]
    {
        assert!(all.contains(part), "{part}: {all}");
    }
    let one = text(&inspect(&["--table", "test.m"]));
    assert!(one.contains("memory engine: 1 table") && !one.contains("test.t"), "{one}");
    let other = text(&inspect(&["--table", "test.t"]));
    assert!(!other.contains("memory engine") && !other.contains("test.m"), "{other}");
    let json = text(&inspect(&["--format", "json"]));
    assert!(json.contains("\"memory_engine\":{") && json.contains("\"test.m\""), "{json}");
    assert!(text(&inspect(&["--format", "html"])).contains("Memory engine"));
    assert!(files_of(&data) == before, "something was changed");

    let checkpoint = data.join("memory/checkpoint");
    let mut bytes = std::fs::read(&checkpoint).unwrap();
    bytes[40] ^= 1;
    std::fs::write(&checkpoint, bytes).unwrap();
    let damaged = inspect(&[]);
    let told = text(&damaged);
    assert!(damaged.status.success() && told.contains("test.t"), "{told}");
    assert!(told.contains("damage: ") && told.contains("does not match its checksum"), "{told}");
}

#[test]
fn a_server_is_inspected_while_it_runs() {
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(&folder.path().join("data"), &["--metrics-addr", "127.0.0.1:0"]);
    let mut client = server.client();
    client.run("CREATE TABLE test.t (id INT PRIMARY KEY, word TEXT, KEY (word(9)))");
    client.run("CREATE TABLE test.u (id INT)");
    client.run("CREATE TABLE test.m (id INT PRIMARY KEY) ENGINE=MEMORY_OPTIMIZED");
    client.run("INSERT INTO test.m VALUES (7)");
    let address = format!("http://{}", server.metrics());
    assert!(server.said.contains(&format!("inspect with: spillway inspect {address}\n")));
    let inspect = |more: &[&str]| spillway(&[&["inspect", &address], more].concat());
    let all = text(&inspect(&[]));
    for part in [
        "the server at 127.0.0.1:",
        "test.t, index word",
        "recent compactions",
        "none since",
        "memory engine: 1 table with 1 key; in memory",
        "test.m",
    ] {
        assert!(all.contains(part), "{part}: {all}");
    }
    let one = text(&inspect(&["--table", "test.t"]));
    assert!(one.contains("test.t, index word") && !one.contains("test.u"), "{one}");
    let json = text(&inspect(&["--format", "json"]));
    assert!(
        json.starts_with('{') && json.ends_with("}\n") && json.contains("\"test.u\""),
        "{json}"
    );
    let page = folder.path().join("page.html");
    let to_page = ["--output", page.to_str().unwrap(), "--format", "html"];
    let none = inspect(&[&to_page[..], &["--table", "t \u{e4}&"]].concat());
    let told = text(&none);
    assert!(
        !none.status.success() && told.contains("404") && told.contains("no table t \u{e4}& in"),
        "{told}"
    );
    assert!(!page.exists(), "nothing was told");
    let drawn = inspect(&to_page);
    assert!(drawn.status.success() && text(&drawn).is_empty(), "{}", text(&drawn));
    assert!(std::fs::read_to_string(page).unwrap().contains("test.u"));
    assert!(server.stop());
}

#[test]
fn a_server_that_cannot_be_inspected_is_told_why_and_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(&folder.path().join("data"), &[]);
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for (address, told) in [
        (format!("http://{nobody}"), "--metrics-addr 127.0.0.1:9104"),
        (format!("http://127.0.0.1:{}", server.port), "is not a page of a Spillway server"),
        ("https://127.0.0.1:9104".to_owned(), "write http://HOST:PORT"),
        ("http://localhost".to_owned(), "write http://HOST:PORT"),
        ("127.0.0.1:9104".to_owned(), "write http://127.0.0.1:9104 for a server that runs"),
    ] {
        let refused = spillway(&["inspect", &address]);
        let text = text(&refused);
        assert!(!refused.status.success() && text.contains(told), "{address}: {text}");
    }
    assert!(server.stop());
}

#[test]
fn settings_of_compactions_that_make_no_sense_are_told_of() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    for (option, value, told) in [
        ("--space-max", "1", "space_max is 1; it must be between 1.1 and 10"),
        ("--space-max", "much", "invalid value 'much' for '--space-max <TIMES>'"),
        (
            "--compaction-order",
            "minor,fast",
            "fast is no kind of compaction that is chosen; there are deletion,",
        ),
        ("--compaction-order", "minor,Minor", "compaction_order names minor twice"),
    ] {
        let output = spillway(&["serve", "--data", data.to_str().unwrap(), option, value]);
        let text = text(&output);
        assert!(!output.status.success() && text.contains(told), "{text}");
        assert!(!data.exists(), "nothing was made");
    }
}

/// All files of a folder and their contents, except the lock file.
fn files_of(folder: &Path) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => all.extend(files_of(&path)),
            false if path.ends_with("LOCK") => {}
            false => all.push((path.clone(), std::fs::read(&path).unwrap())),
        }
    }
    all.sort();
    all
}

/// A database with tiers is backed up without a server, with its tiers in place and after they were
/// moved.
#[test]
fn a_backup_is_told_of_tiers_that_were_moved() {
    use spillway::{Database, DeviceClass, EngineKind, Settings, Tier, TransactionOptions};

    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let (data, slow, moved) = (path("data"), path("slow"), path("moved"));
    let mut settings = Settings::default();
    settings.background_threads = false;
    let tier = Tier { class: DeviceClass::Hdd, dir: slow.clone().into(), compression: None };
    settings.tiers = vec![tier];
    let db = Database::open(&data, settings).unwrap();
    let txn = db.begin(TransactionOptions::new());
    let table = txn.create_table("t", EngineKind::Tiered).unwrap();
    txn.put(table, b"key", b"value").unwrap();
    txn.commit().wait().unwrap();
    db.compact().unwrap();
    db.close().unwrap();
    drop(db);
    let create = |more: &[&str]| {
        let backups = path("backups");
        let args = [&["backup", "create", &backups, "--data", &data], more].concat();
        let output = spillway(&args);
        (output.status.success(), text(&output))
    };
    let (done, told) = create(&[]);
    assert!(done && told.contains("backup 1: "), "{told}");
    std::fs::rename(&slow, &moved).unwrap();
    let (done, told) = create(&[]);
    assert!(!done && told.contains("--tier hdd="), "{told}");
    let (done, told) = create(&["--tier", &format!("hdd={moved}"), "--verify"]);
    assert!(done && told.contains("backup 2: ") && told.contains("(0 new extents"), "{told}");
}
