//! TLS: the server offers it if it has a certificate, and can require it.

use spillway::Settings;
use spillway_server::{ServerSettings, TlsFiles};

use crate::client::{CACHING, Options, TestServer, shown};

fn settings(folder: &tempfile::TempDir, require_secure_transport: bool) -> ServerSettings {
    ServerSettings {
        tls: Some(TlsFiles::self_signed(folder.path()).unwrap()),
        socket: Some(folder.path().join("spillway.sock")),
        require_secure_transport,
        ..ServerSettings::default()
    }
}

#[test]
fn clients_go_on_in_tls_if_they_ask() {
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(&folder, false);
    let (cert, socket) = (settings.tls.clone().unwrap().cert, settings.socket.clone().unwrap());
    let server = TestServer::with(settings, Settings::default());
    let mut client = server.options().log_in_tls(&server, &cert).unwrap();
    let cipher = client.run("SHOW STATUS LIKE 'Ssl_cipher'");
    assert!(shown(&cipher.rows()[0][1]).starts_with("TLS_"), "{cipher:?}");
    assert_eq!(shown(&client.run("SHOW STATUS LIKE 'Ssl_version'").rows()[0][1]), "TLSv1.3");
    assert_eq!(shown(&client.run("SHOW VARIABLES LIKE 'have_ssl'").rows()[0][1]), "YES");
    // A result of several records, there and back.
    let long = "x".repeat(3 << 20);
    assert_eq!(client.run(format!("SELECT '{long}'")).one(), long);
    client.run("CREATE USER caching IDENTIFIED WITH caching_sha2_password BY 'secret'");
    let caching = |password| Options {
        plugin: Some(CACHING),
        database: None,
        ..server.options().user("caching", password)
    };
    assert!(caching("secret").log_in_tls(&server, &cert).is_ok());
    assert_eq!(caching("guess").log_in_tls(&server, &cert).err(), Some(1045));
    // A wrong fast answer has a second chance.
    let second =
        |sent: &'static [u8]| Options { password_sent: Some(sent), ..caching("misreckoned") };
    assert!(second(b"secret\0").log_in_tls(&server, &cert).is_ok());
    assert_eq!(second(b"guess\0").log_in_tls(&server, &cert).err(), Some(1045));
    assert!(second(b"secret\0").log_in_unix(&socket).is_ok());
    assert!(second(b"secret\0").log_in(&server).is_ok(), "by the public key");
    assert_eq!(second(b"guess\0").log_in(&server).err(), Some(1045));
    let mut plain = server.client();
    assert_eq!(shown(&plain.run("SHOW STATUS LIKE 'Ssl_cipher'").rows()[0][1]), "");
    // A killed connection is also woken in TLS, and a silent one is disconnected.
    let id = client.run("SELECT CONNECTION_ID()").one();
    plain.run(format!("KILL {id}"));
    assert!(client.packet().is_none());
    let mut client = server.options().log_in_tls(&server, &cert).unwrap();
    client.run("SET wait_timeout = 1");
    client.sequence = 0;
    assert_eq!(client.answer().code(), 4031);
}

#[test]
fn secure_transport_can_be_required() {
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(&folder, true);
    let (cert, socket) = (settings.tls.clone().unwrap().cert, settings.socket.clone().unwrap());
    let server = TestServer::with(settings, Settings::default());
    assert_eq!(server.options().log_in(&server).err(), Some(3159));
    assert!(server.options().log_in_unix(&socket).is_ok());
    let mut client = server.options().log_in_tls(&server, &cert).unwrap();
    assert_eq!(client.run("SELECT @@require_secure_transport").one(), "1");
    let none = ServerSettings { require_secure_transport: true, ..ServerSettings::default() };
    let refused =
        spillway_server::Server::start(server.instance.clone(), ServerSettings { port: 0, ..none });
    assert!(refused.err().unwrap().to_string().contains("certificate"));
}

#[test]
fn without_a_certificate_tls_is_not_offered() {
    let server = TestServer::start();
    assert_eq!(
        shown(&server.client().run("SHOW VARIABLES LIKE 'have_ssl'").rows()[0][1]),
        "DISABLED"
    );
}
