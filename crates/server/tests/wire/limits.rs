//! Limits in number, size and time, and the end of connections and servers.

use std::os::unix::net::UnixListener;

use mysql_common::constants::CapabilityFlags as Can;
use spillway::{Database, Settings};
use spillway_base::budget::Use;
use spillway_server::{Server, ServerSettings};
use spillway_sql::Instance;

use crate::client::{Client, Options, TestServer, shown, until};

fn status(client: &mut Client, name: &str) -> u64 {
    let answer = client.run(format!("SHOW STATUS LIKE '{name}'"));
    shown(&answer.rows()[0][1]).parse().unwrap()
}

#[test]
fn there_is_one_place_more_for_root() {
    let settings = ServerSettings { connections_max: 2, ..ServerSettings::default() };
    let server = TestServer::with(settings, Settings::default());
    let mut root = server.client();
    root.run("CREATE USER open");
    let open = || Options { database: None, ..server.options().user("open", "") }.log_in(&server);
    let second = open().unwrap();
    assert_eq!(open().err(), Some(1040));
    let mut third = server.client();
    assert_eq!(server.options().log_in(&server).err(), Some(1040), "two more than the limit");
    assert!(status(&mut root, "Connection_errors_max_connections") >= 2);
    assert_eq!(status(&mut root, "Max_used_connections"), 3);
    third.run("SET GLOBAL max_connections = 10");
    assert!(open().is_ok());
    drop(second);
}

#[test]
fn the_place_for_root_is_nobody_elses_by_a_change_of_user() {
    let settings = ServerSettings { connections_max: 2, ..ServerSettings::default() };
    let server = TestServer::with(settings, Settings::default());
    let mut root = server.client();
    root.run("CREATE USER open");
    let mut open =
        Options { database: None, ..server.options().user("open", "") }.log_in(&server).unwrap();
    let mut extra = server.client();
    let change = |client: &mut Client| {
        client.command(0x11, b"open\0\0\0\x2D\0mysql_native_password\0");
        client.prove(|_, _| Vec::new())
    };
    assert_eq!(change(&mut open), Ok(()), "it has a place of its own");
    assert_eq!(change(&mut extra), Err(1040));
    assert!(extra.packet().is_none());
    let figures = server.server.metrics();
    let connected = || figures().into_iter().find(|figure| figure.name == "connections_now");
    until(|| connected().is_some_and(|figure| figure.value == 2.0));
    assert_eq!(change(&mut root), Ok(()), "there is a place for everybody");
}

#[test]
fn commands_have_a_longest_length_and_logins_a_shorter_one() {
    let server = TestServer::start();
    let mut client = server.client();
    client.run("SET GLOBAL max_allowed_packet = 20971520");
    assert_eq!(client.run("SELECT @@max_allowed_packet").one(), (64 << 20).to_string());
    let mut client = server.client();
    // The longest packet, then one byte more: it is read to its end, so that the client reads the
    // response.
    for (len, code) in [((20 << 20) - 1, None), (20 << 20, Some(1153)), (50 << 20, Some(1153))] {
        let mut client = server.client();
        client.command(0x0E, &vec![b' '; len]);
        match code {
            None => assert_eq!(client.answer().affected(), 0),
            Some(code) => {
                assert_eq!(client.answer().code(), code);
                assert!(client.packet().is_none());
            }
        }
    }
    assert_eq!(client.ping().affected(), 0);
    let mut stranger = Client::over(server.tcp());
    stranger.greeting().unwrap();
    // Announcing the length is enough.
    assert!(stranger.raw(&[0, 0, 2, 1]));
    stranger.sequence = 2;
    assert_eq!(stranger.answer().code(), 1153);
}

#[test]
fn a_command_that_does_not_fit_the_memory_budget_fails_alone() {
    let mut database = Settings::default();
    database.memory_bytes = 64 << 20;
    let server = TestServer::with(ServerSettings::default(), database);
    let budget = server.instance.database().budget().clone();
    let mut client = server.client();
    let held = budget.used_for(Use::Connections);
    assert!(held > 0, "a connection is charged");
    let rest = budget.limit() - budget.used();
    let hog = budget.charge(Use::Connections, rest - (2 << 20));
    client.command(0x0E, &vec![b' '; 10 << 20]);
    assert_eq!(client.answer().code(), 1041);
    assert_eq!(client.ping().affected(), 0);
    drop(hog);
    client.command(0x0E, &vec![b' '; 10 << 20]);
    assert_eq!(client.answer().affected(), 0);
    assert_eq!(client.ping().affected(), 0);
    assert_eq!(budget.used_for(Use::Connections), held, "and given back");
}

#[test]
fn what_is_never_answered_is_not_when_it_does_not_fit_either() {
    let mut database = Settings::default();
    database.memory_bytes = 64 << 20;
    let server = TestServer::with(ServerSettings::default(), database);
    let budget = server.instance.database().budget().clone();
    let mut client = server.client();
    let [first, second] = [(); 2].map(|()| client.prepare("SELECT ?").unwrap().id);
    let hog = budget.charge(Use::Connections, budget.limit() - budget.used() - (2 << 20));
    // A piece of a parameter, after one that did fit: the next execution reports the error, and the
    // one after it does not.
    let piece = |len: usize| [&first.to_le_bytes()[..], &[0, 0], &vec![b'x'; len]].concat();
    client.command(0x18, &piece(10));
    client.command(0x18, &piece(5 << 20));
    assert_eq!(client.ping().affected(), 0);
    assert_eq!(client.execute(first, &[0, 1, 253, 0]).code(), 1041);
    assert_eq!(client.execute(first, &[0, 1, 253, 0, 1, b'y']).one(), "y");
    // A command that closes a statement, with extra bytes after its number.
    client.command(0x19, &[&second.to_le_bytes()[..], &vec![0; 5 << 20]].concat());
    assert_eq!(client.ping().affected(), 0);
    assert_eq!(client.execute(second, &[0, 1, 253, 0, 1, b'y']).code(), 1243);
    drop(hog);
    client.command(0x18, &piece(5 << 20));
    assert_eq!(client.execute(first, &[0, 1, 253, 0]).one().len(), 5 << 20);
}

#[test]
fn a_command_is_charged_as_it_comes_and_not_as_it_is_announced() {
    let server = TestServer::start();
    let budget = server.instance.database().budget().clone();
    let mut client = server.client();
    let used = || budget.used_for(Use::Connections);
    let held = used();
    assert!(client.raw(&[0xFE, 0xFF, 0xFF, 0, 0x0E]));
    assert!(client.raw(&vec![b' '; 3 << 20]));
    until(|| used() > held + (2 << 20));
    assert!(used() < held + (8 << 20), "{} bytes for 3 MB that came", used() - held);
    assert!(client.raw(&vec![b' '; 0xFF_FFFE - 1 - (3 << 20)]));
    client.sequence = 1;
    assert_eq!(client.answer().affected(), 0);
    until(|| used() == held);
}

#[test]
fn who_says_nothing_is_let_go() {
    let server = TestServer::start();
    let mut client = server.client();
    client.run("SET wait_timeout = 1");
    client.sequence = 0;
    assert_eq!(client.answer().code(), 4031);
    assert!(client.packet().is_none());
    let mut root = server.client();
    root.run("SET GLOBAL interactive_timeout = 1");
    let mut typed = server.options().with(Can::CLIENT_INTERACTIVE).log_in(&server).unwrap();
    assert_eq!(typed.run("SELECT @@wait_timeout").one(), "1");
    typed.sequence = 0;
    assert_eq!(typed.answer().code(), 4031);
    assert!(typed.packet().is_none());
    let mut program = server.client();
    assert_eq!(program.run("SELECT @@wait_timeout").one(), "28800");
    assert!(status(&mut root, "Aborted_clients") >= 2);
}

#[test]
fn who_begins_a_command_has_to_end_it() {
    let server = TestServer::start();
    let mut client = server.client();
    client.run("SET net_read_timeout = 1");
    assert!(client.raw(&[9, 0, 0, 0, 3, b'S']));
    client.sequence = 1;
    assert_eq!(client.answer().code(), 1159);
    assert!(client.packet().is_none());
}

/// Requests more than fits between server and client, and reads none of it. Returns the
/// connection's number.
fn takes_nothing(client: &mut Client) -> String {
    let id = client.run("SELECT CONNECTION_ID()").one();
    client.command(3, b"SELECT REPEAT('x', 40000000), REPEAT('y', 40000000)");
    id
}

fn is_connected(root: &mut Client, id: &str) -> bool {
    root.run("SHOW PROCESSLIST").rows().iter().any(|row| shown(&row[0]) == id)
}

#[test]
fn who_takes_no_answer_is_let_go_in_time_or_when_killed() {
    let server = TestServer::start();
    let mut root = server.client();
    let mut stuck = server.client();
    stuck.run("SET net_write_timeout = 1");
    let id = takes_nothing(&mut stuck);
    until(|| !is_connected(&mut root, &id));
    // The wait for this one would be longer than the test.
    let mut killed = server.client();
    let id = takes_nothing(&mut killed);
    assert_eq!(killed.packet().unwrap(), [2], "its answer has begun");
    root.run(format!("KILL {id}"));
    until(|| !is_connected(&mut root, &id));
}

#[test]
fn who_does_not_say_who_it_is_is_let_go_however_slowly_it_speaks() {
    let server = TestServer::start();
    server.instance.set_global("connect_timeout", "1");
    let mut silent = Client::over(server.tcp());
    silent.greeting().unwrap();
    let mut slow = Client::over(server.tcp());
    slow.greeting().unwrap();
    // One byte at a time, as long as it is taken.
    let mut sent = 0;
    while slow.raw(if sent < 3 { &[80, 0, 0, 1][sent..=sent] } else { &[1] }) {
        sent += 1;
        std::thread::yield_now();
    }
    assert_eq!(silent.answer().code(), 1159);
    assert!(silent.packet().is_none());
    let mut root = server.client();
    assert!(status(&mut root, "Aborted_connects") >= 2);
}

#[test]
fn a_killed_connection_ends_though_it_is_idle() {
    let server = TestServer::start();
    let mut idle = server.client();
    let id = idle.run("SELECT CONNECTION_ID()").one();
    let mut root = server.client();
    root.run(format!("KILL {id}"));
    assert!(idle.packet().is_none());
    assert_eq!(root.query(format!("KILL {id}0")).code(), 1094);
    // A killed query leaves its connection open. A killed connection rolls its transaction back.
    let mut writer = server.client();
    writer.run("CREATE TABLE t (id INT PRIMARY KEY)");
    writer.run("BEGIN");
    writer.run("INSERT INTO t VALUES (1)");
    let id = writer.run("SELECT CONNECTION_ID()").one();
    root.run(format!("KILL QUERY {id}"));
    assert_eq!(writer.ping().affected(), 0);
    root.run(format!("KILL {id}"));
    assert!(writer.packet().is_none());
    root.run("INSERT INTO t VALUES (1)");
}

#[test]
fn a_socket_makes_way_only_if_it_is_one_and_nobody_answers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("spillway.sock");
    let instance = Instance::open(Database::open_in_memory(Settings::default()).unwrap()).unwrap();
    let start = || {
        let settings =
            ServerSettings { port: 0, socket: Some(path.clone()), ..ServerSettings::default() };
        Server::start(instance.clone(), settings)
    };
    std::fs::write(&path, "mine").unwrap();
    let text = start().err().unwrap().to_string();
    assert!(text.contains("no socket"), "{text}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
    std::fs::remove_file(&path).unwrap();
    // A socket that a killed server left.
    drop(UnixListener::bind(&path).unwrap());
    let server = start().unwrap();
    let mut client = Options::default().log_in_unix(&path).unwrap();
    assert_eq!(client.run("SELECT CURRENT_USER()").one(), "root@%");
    let text = start().err().unwrap().to_string();
    assert!(text.contains("another server"), "{text}");
    server.stop();
    assert!(!path.exists());
    // Another server's socket in its place is not removed.
    let server = start().unwrap();
    std::fs::remove_file(&path).unwrap();
    let other = UnixListener::bind(&path).unwrap();
    server.stop();
    assert!(path.exists());
    drop(other);
}

#[test]
fn a_server_that_stops_ends_its_connections_and_lets_go_of_its_database() {
    let folder = tempfile::tempdir().unwrap();
    let open = || Database::open(folder.path(), Settings::default());
    let instance = Instance::open(open().unwrap()).unwrap();
    let server = TestServer {
        server: Server::start(
            instance.clone(),
            ServerSettings { port: 0, ..ServerSettings::default() },
        )
        .unwrap(),
        instance,
    };
    let (mut idle, mut busy) = (server.client(), server.client());
    busy.run("BEGIN");
    let stranger = server.tcp();
    let address = server.server.address();
    server.server.stop();
    assert!(idle.packet().is_none() && busy.packet().is_none());
    assert!(std::net::TcpStream::connect(address).is_err());
    drop((stranger, server.instance));
    assert!(open().is_ok(), "nothing holds the folder");
}
