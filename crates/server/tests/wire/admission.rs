//! The limit of unauthenticated connections, and the admin socket.

use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;

use mysql_common::constants::CapabilityFlags as Can;
use spillway::Settings;
use spillway_server::{ServerSettings, TlsFiles};

use crate::client::{CACHING, Client, Options, TestServer, shown, until};

/// The unauthenticated connections that the server admits, even if fewer may log in.
const UNAUTHENTICATED: usize = 16;

fn server(connections_max: usize, folder: &Path) -> TestServer {
    let settings = ServerSettings {
        connections_max,
        socket: Some(folder.join("public.sock")),
        admin_socket: Some(folder.join("admin.sock")),
        tls: Some(TlsFiles::self_signed(folder).unwrap()),
        ..ServerSettings::default()
    };
    let server = TestServer::with(settings, Settings::default());
    // No connection of these tests ends by itself.
    server.instance.set_global("connect_timeout", "3600");
    server
}

fn figure(server: &TestServer, name: &str) -> f64 {
    let figures = server.server.metrics()();
    figures.into_iter().find(|figure| figure.name == name).unwrap().value
}

fn unauthenticated(server: &TestServer) -> f64 {
    figure(server, "connections_unauthenticated_now")
}

/// A client that was greeted and sends nothing.
fn silent(server: &TestServer) -> TcpStream {
    let mut stream = server.tcp();
    stream.read_exact(&mut [0; 5]).unwrap();
    stream
}

/// Whether the server closed a connection after everything that it sent.
fn is_closed(mut stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    loop {
        match stream.read(&mut [0; 256]) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() != ErrorKind::WouldBlock,
        }
    }
}

fn open_user(server: &TestServer) -> impl Fn() -> Result<Client, u16> {
    server.client().run("CREATE USER open");
    move || Options { database: None, ..server.options().user("open", "") }.log_in(server)
}

#[test]
fn silent_connections_keep_nobody_out() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(3, folder.path());
    let open = open_user(&server);
    let flood: Vec<_> = (0..5 * UNAUTHENTICATED).map(|_| silent(&server)).collect();
    let mut root = server.client();
    let clients = [open().unwrap(), open().unwrap()];
    assert_eq!(open().err(), Some(1040), "three have logged in");
    let mut extra = server.client();
    extra.run("SELECT 1");
    assert_eq!(server.options().log_in(&server).err(), Some(1040));
    // The oldest connections were closed, and the newest that fit are open.
    until(|| is_closed(&flood[0]));
    assert!(!is_closed(&flood[5 * UNAUTHENTICATED - 1]));
    assert!(figure(&server, "connections_evicted_total") >= 4.0 * UNAUTHENTICATED as f64);
    until(|| unauthenticated(&server) <= UNAUTHENTICATED as f64);
    let used = root.run("SHOW STATUS LIKE 'Max_used_connections'");
    assert_eq!(shown(&used.rows()[0][1]), "4");
    drop(flood);
    until(|| unauthenticated(&server) == 0.0);
    drop(clients);
}

#[test]
fn a_flood_from_one_address_leaves_others_alone() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(1, folder.path());
    // It has come first, over another entrance.
    let mut early = UnixStream::connect(folder.path().join("public.sock")).unwrap();
    until(|| unauthenticated(&server) == 1.0);
    let flood: Vec<_> = (0..3 * UNAUTHENTICATED).map(|_| silent(&server)).collect();
    until(|| is_closed(&flood[0]));
    let mut greeting = [0; 5];
    early.read_exact(&mut greeting).unwrap();
    assert_eq!(greeting[4], 10, "it was greeted");
    early.set_nonblocking(true).unwrap();
    while let Ok(read) = early.read(&mut [0; 64]) {
        assert!(read > 0, "it was closed");
    }
}

#[test]
fn a_client_that_leaves_before_its_login_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(1, folder.path());
    server.client().run("CREATE USER caching IDENTIFIED WITH caching_sha2_password BY 'secret'");
    let flags = Can::CLIENT_PROTOCOL_41 | Can::CLIENT_SECURE_CONNECTION | Can::CLIENT_PLUGIN_AUTH;
    let hello = |flags: Can, rest: &[u8]| {
        let mut hello = flags.bits().to_le_bytes().to_vec();
        hello.extend_from_slice(&[0; 28]);
        hello.extend_from_slice(rest);
        hello
    };
    for round in 0..3 * UNAUTHENTICATED {
        let stream = server.tcp();
        let mut client = Client::over(stream);
        match round % 4 {
            0 => {}
            1 => drop(client.greeting().unwrap()),
            // The server switches it to another plugin.
            2 => {
                client.greeting().unwrap();
                client.send(&hello(flags, b"caching\0\x01xdialog\0"));
                client.packet().unwrap();
            }
            // It requests TLS, and does not begin the handshake.
            _ => {
                client.greeting().unwrap();
                client.send(&hello(flags | Can::CLIENT_SSL, b""));
            }
        }
    }
    until(|| unauthenticated(&server) == 0.0);
    let mut caching = Options { plugin: Some(CACHING), ..server.options() };
    caching = Options { database: None, ..caching.user("caching", "secret") };
    assert!(caching.log_in_unix(&folder.path().join("public.sock")).is_ok());
}

#[test]
fn logins_that_stop_halfway_make_way_too() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(1, folder.path());
    // Each occupies a thread, which waits for the rest of the handshake.
    let mut halfway: Vec<_> = (0..UNAUTHENTICATED)
        .map(|_| {
            let mut client = Client::over(server.tcp());
            client.greeting().unwrap();
            let flags = Can::CLIENT_PROTOCOL_41 | Can::CLIENT_SSL;
            client.send(&[&flags.bits().to_le_bytes()[..], &[0; 28]].concat());
            client
        })
        .collect();
    let flood: Vec<_> = (0..2 * UNAUTHENTICATED).map(|_| silent(&server)).collect();
    for client in &mut halfway {
        assert!(client.packet().is_none());
    }
    server.client().run("SELECT 1");
    drop(flood);
    until(|| unauthenticated(&server) == 0.0);
}

#[test]
fn the_admin_socket_is_for_administrators_however_many_are_connected() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("admin.sock");
    let server = server(1, folder.path());
    let open = open_user(&server);
    let mut root = server.client();
    root.run("CREATE USER service");
    root.run("GRANT SERVICE_CONNECTION_ADMIN ON *.* TO service");
    // The client that created a user may not have left completely.
    let mut extra = None;
    until(|| {
        extra = server.options().log_in(&server).ok();
        extra.is_some()
    });
    let flood: Vec<_> = (0..3 * UNAUTHENTICATED).map(|_| silent(&server)).collect();
    assert_eq!(server.options().log_in(&server).err(), Some(1040));
    let log_in =
        |user| Options { database: None, ..server.options().user(user, "") }.log_in_unix(&path);
    let admins: Vec<_> = (0..8).map(|_| log_in("root").unwrap()).collect();
    assert_eq!(figure(&server, "admin_connections_now"), 8.0);
    let most = root.run("SHOW STATUS LIKE 'Max_used_connections'");
    // Root, the extra one, and perhaps the client that created a user and had not left completely.
    let most = shown(&most.rows()[0][1]);
    assert!(["2", "3"].contains(&most.as_str()), "{most}: they do not count there");
    let mut service = log_in("service").unwrap();
    assert_eq!(service.run("SELECT CURRENT_USER()").one(), "service@%");
    // No privilege, and a wrong password, which reveals nothing about privileges.
    assert_eq!(log_in("open").err(), Some(1227));
    let wrong = Options { database: None, ..server.options().user("open", "x") };
    assert_eq!(wrong.log_in_unix(&path).err(), Some(1045));
    let change = |client: &mut Client, to: &[u8]| {
        client.command(0x11, &[to, b"\0\0\0\x2D\0mysql_native_password\0"].concat());
        client.prove(|_, _| Vec::new())
    };
    assert_eq!(change(&mut service, b"root"), Ok(()));
    assert_eq!(change(&mut service, b"open"), Err(1227));
    assert!(service.packet().is_none());
    // They take no place of other connections.
    drop((root, extra, flood));
    until(|| open().is_ok());
    let shows = log_in("root").unwrap().run("SHOW VARIABLES LIKE 'admin_socket'");
    assert_eq!(shown(&shows.rows()[0][1]), path.display().to_string());
    drop((admins, open));
    server.server.stop();
    assert!(!path.exists());
}
