//! Over real sockets, with a client of our own that says what no library would.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use spillway::{Database, Settings};
use spillway_base::rng::Rng;
use spillway_sql::Instance;

use crate::auth::{CAPABILITIES, DEPRECATE_EOF, MULTI_STATEMENTS, PLUGIN_AUTH_LENENC};
use crate::{Server, ServerSettings};

struct Client(TcpStream);

fn start() -> Server {
    let db = Database::open_in_memory(Settings::default()).unwrap();
    let instance = Instance::open(db).unwrap();
    Server::start(instance, ServerSettings { port: 0, ..ServerSettings::default() }).unwrap()
}

impl Client {
    fn connect(server: &Server) -> Client {
        let stream = TcpStream::connect(server.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Client(stream)
    }

    fn log_in(server: &Server) -> Client {
        let mut client = Client::connect(server);
        assert_eq!(client.packet().unwrap()[0], 10);
        let flags = (CAPABILITIES & !DEPRECATE_EOF) | MULTI_STATEMENTS | PLUGIN_AUTH_LENENC;
        let mut hello = flags.to_le_bytes().to_vec();
        hello.extend_from_slice(&[0, 0, 0, 1, 45]);
        hello.extend_from_slice(&[0; 23]);
        hello.extend_from_slice(b"root\0\0test\0mysql_native_password\0");
        client.send(1, &hello);
        assert_eq!(client.packet().unwrap()[0], 0);
        client
    }

    fn send(&mut self, sequence: u8, payload: &[u8]) {
        let [a, b, c, ..] = (payload.len() as u32).to_le_bytes();
        self.0.write_all(&[a, b, c, sequence]).unwrap();
        self.0.write_all(payload).unwrap();
    }

    fn packet(&mut self) -> Option<Vec<u8>> {
        let mut head = [0; 4];
        self.0.read_exact(&mut head).ok()?;
        let mut payload = vec![0; u32::from_le_bytes([head[0], head[1], head[2], 0]) as usize];
        self.0.read_exact(&mut payload).ok()?;
        Some(payload)
    }

    fn query(&mut self, sql: &str) -> Vec<u8> {
        self.send(0, &[&[3], sql.as_bytes()].concat());
        self.packet().unwrap()
    }

    /// The number of an error packet.
    fn error(packet: &[u8]) -> u16 {
        assert_eq!(packet[0], 0xFF, "{packet:?}");
        u16::from_le_bytes([packet[1], packet[2]])
    }
}

#[test]
fn pipelined_commands_are_answered_in_order() {
    let server = start();
    let mut client = Client::log_in(&server);
    for number in 0..200_u8 {
        client.send(0, &[0x0E]);
        client.send(0, &[&[2][..], if number % 2 == 0 { b"test" } else { b"none" }].concat());
    }
    for number in 0..200 {
        assert_eq!(client.packet().unwrap()[0], 0);
        let used = client.packet().unwrap();
        assert_eq!(used[0], if number % 2 == 0 { 0 } else { 0xFF }, "{number}");
    }
    server.stop();
}

#[test]
fn statements_with_wrong_numbers_and_parameters_are_refused_and_the_connection_goes_on() {
    let server = start();
    let mut client = Client::log_in(&server);
    assert_eq!(client.query("CREATE TABLE t (a INT PRIMARY KEY, b TEXT)")[0], 0);
    client.send(0, b"\x16INSERT INTO t VALUES (?, ?)");
    assert_eq!(client.packet().unwrap()[0], 0);
    (0..3).for_each(|_| drop(client.packet().unwrap()));
    let execute = |rest: &[u8]| [&[0x17, 1, 0, 0, 0, 0, 1, 0, 0, 0][..], rest].concat();
    // Cut short, of an unknown type, with types never given.
    for bad in [&[][..], &[0], &[0, 1, 3, 0], &[0, 1, 99, 0, 3, 0, 1, 2, 3], &[0, 0, 1, 2]] {
        client.send(0, &execute(bad));
        assert_eq!(Client::error(&client.packet().unwrap()), 1210, "{bad:?}");
    }
    client.send(0, &[0x17, 9, 0, 0, 0, 0, 1, 0, 0, 0]);
    assert_eq!(Client::error(&client.packet().unwrap()), 1243);
    // Text that is no UTF-8 does not go into a text column.
    client.send(0, &execute(&[0, 1, 3, 0, 253, 0, 1, 0, 0, 0, 2, 0xFF, 0xFE]));
    assert_eq!(Client::error(&client.packet().unwrap()), 1366);
    client.send(0, &execute(&[0, 0, 1, 0, 0, 0, 2, b'o', b'k']));
    assert_eq!(client.packet().unwrap()[0], 0);
    // Closing answers nothing; the command after it is answered.
    client.send(0, &[0x19, 1, 0, 0, 0]);
    client.send(0, &[0x0E]);
    assert_eq!(client.packet().unwrap()[0], 0);
    client.send(0, &execute(&[0, 0, 1, 0, 0, 0, 2, b'o', b'k']));
    assert_eq!(Client::error(&client.packet().unwrap()), 1243);
    client.send(0, &[0x77]);
    assert_eq!(Client::error(&client.packet().unwrap()), 1047);
    server.stop();
}

#[test]
fn wrong_passwords_and_hellos_are_refused() {
    let server = start();
    let mut client = Client::log_in(&server);
    assert_eq!(client.query("CREATE USER u IDENTIFIED BY 'secret'")[0], 0);
    let mut stranger = Client::connect(&server);
    stranger.packet().unwrap();
    let mut hello = (CAPABILITIES | PLUGIN_AUTH_LENENC).to_le_bytes().to_vec();
    hello.extend_from_slice(&[0; 28]);
    hello.extend_from_slice(b"u\0\0\0mysql_native_password\0");
    stranger.send(1, &hello);
    assert_eq!(Client::error(&stranger.packet().unwrap()), 1045);
    let mut old = Client::connect(&server);
    old.packet().unwrap();
    old.send(1, &[0; 40]);
    assert_eq!(Client::error(&old.packet().unwrap()), 1043);
    server.stop();
}

#[test]
fn any_bytes_end_in_an_answer_or_a_closed_connection() {
    let server = start();
    let mut rng = Rng::new(6);
    for round in 0..60 {
        let mut client =
            if round % 2 == 0 { Client::log_in(&server) } else { Client::connect(&server) };
        let mut noise = vec![0; rng.below(300) as usize];
        rng.fill(&mut noise);
        // A length that the client keeps, so that the server has no reason to wait.
        if round % 4 < 2 {
            client.send(0, &noise);
        } else {
            let _ = client.0.write_all(&noise);
        }
        client.0.shutdown(std::net::Shutdown::Write).unwrap();
        while client.packet().is_some() {}
    }
    assert_eq!(Client::log_in(&server).query("DO 1")[0], 0);
    server.stop();
}

#[test]
fn an_open_address_needs_a_password_for_root() {
    let instance = Instance::open(Database::open_in_memory(Settings::default()).unwrap()).unwrap();
    let bind = std::net::Ipv4Addr::UNSPECIFIED.into();
    let refused =
        Server::start(instance, ServerSettings { bind, port: 0, ..ServerSettings::default() });
    let text = refused.err().unwrap().to_string();
    assert!(text.contains("ALTER USER"), "{text}");
}
