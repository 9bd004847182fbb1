//! Which clients can log in, and as which account.

use std::time::Duration;

use mysql_common::constants::CapabilityFlags as Can;
use spillway::{Database, Settings};
use spillway_base::clock;
use spillway_server::{Server, ServerSettings};
use spillway_sql::Instance;

use crate::client::{Answer, CACHING, Client, NATIVE, Options, TestServer, proof, shown, until};

fn with_users() -> TestServer {
    let server = TestServer::start();
    let mut root = server.client();
    root.run("CREATE USER native IDENTIFIED WITH mysql_native_password BY 'secret'");
    root.run("CREATE USER caching IDENTIFIED WITH caching_sha2_password BY 'secret'");
    root.run("CREATE USER open");
    root.run("GRANT ALL ON *.* TO native, caching, open");
    server
}

#[test]
fn both_plugins_let_in_those_who_know_the_password() {
    let server = with_users();
    for user in ["native", "caching"] {
        // The client may begin with any plugin.
        for plugin in [NATIVE, CACHING, "dialog"] {
            let options = |password| Options {
                plugin: Some(plugin),
                ..server.options().user(user, password)
            };
            let mut client = options("secret").log_in(&server).unwrap();
            let who = client.run("SELECT CURRENT_USER()").one();
            assert_eq!(who, format!("{user}@%"));
            assert_eq!(options("Secret").log_in(&server).err(), Some(1045), "{user} {plugin}");
            assert_eq!(options("").log_in(&server).err(), Some(1045), "{user} {plugin}");
        }
    }
    assert_eq!(server.options().user("nobody", "x").log_in(&server).err(), Some(1045));
    assert_eq!(server.options().user("open", "x").log_in(&server).err(), Some(1045));
    assert!(server.options().user("open", "").log_in(&server).is_ok());
}

#[test]
fn a_client_without_plugins_has_the_native_one() {
    let server = with_users();
    let old = |user, password| {
        Options { plugin: None, ..server.options().user(user, password) }
            .without(Can::CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA)
    };
    assert!(old("native", "secret").log_in(&server).is_ok());
    assert_eq!(old("native", "wrong").log_in(&server).err(), Some(1045));
    assert_eq!(old("caching", "secret").log_in(&server).err(), Some(1251));
    // It changes its user with the nonce of the greeting.
    let mut client = Client::over(server.tcp());
    let greeting = client.greeting().unwrap();
    let flags = Can::CLIENT_PROTOCOL_41 | Can::CLIENT_SECURE_CONNECTION;
    let mut hello = flags.bits().to_le_bytes().to_vec();
    hello.extend_from_slice(&[0; 28]);
    hello.extend_from_slice(b"root\0\0");
    client.send(&hello);
    client.answer().affected();
    let mut change = b"native\0\x14".to_vec();
    change.extend_from_slice(&proof(NATIVE.as_bytes(), "secret", &greeting.nonce()));
    change.push(0);
    client.command(0x11, &change);
    client.answer().affected();
    assert_eq!(client.run("SELECT CURRENT_USER()").one(), "native@%");
}

/// The plugin that the server requests from a user that begins with an unknown plugin.
fn asked_for(server: &TestServer, user: &str) -> Vec<u8> {
    let mut client = Client::over(server.tcp());
    client.greeting().unwrap();
    let flags = Can::CLIENT_PROTOCOL_41 | Can::CLIENT_SECURE_CONNECTION | Can::CLIENT_PLUGIN_AUTH;
    let mut hello = flags.bits().to_le_bytes().to_vec();
    hello.extend_from_slice(&[0; 28]);
    hello.extend_from_slice(user.as_bytes());
    hello.extend_from_slice(b"\0\x01xdialog\0");
    client.send(&hello);
    let asked = std::cell::RefCell::new(Vec::new());
    let denied = client.prove(|plugin, nonce| {
        if plugin != b"password" {
            asked.borrow_mut().extend_from_slice(plugin);
        }
        proof(plugin, "guess", nonce)
    });
    assert_eq!(denied, Err(1045));
    asked.into_inner()
}

#[test]
fn an_unknown_user_is_asked_as_a_known_one_is() {
    let server = with_users();
    assert_eq!(asked_for(&server, "native"), NATIVE.as_bytes());
    assert_eq!(asked_for(&server, "caching"), CACHING.as_bytes());
    // One of four accounts has the other plugin, and so have unknown names.
    let unknown = || -> Vec<Vec<u8>> {
        (0..64).map(|number| asked_for(&server, &format!("nobody{number}"))).collect()
    };
    let first = unknown();
    assert_eq!(first, unknown(), "a name is asked for one plugin");
    for plugin in [NATIVE, CACHING] {
        assert!(first.iter().any(|asked| asked == plugin.as_bytes()), "nobody has {plugin}");
    }
}

/// The error of a failed login is the same with and without such an account.
#[test]
fn a_denial_is_the_same_whether_there_is_such_an_account_or_not() {
    let server = TestServer::start();
    server.client().run("CREATE USER 'here'@'localhost' IDENTIFIED BY 'x'");
    let denied = |user: &str| {
        let mut client = Client::over(server.tcp());
        client.greeting().unwrap();
        let flags = Can::CLIENT_PROTOCOL_41 | Can::CLIENT_SECURE_CONNECTION;
        let mut hello = flags.bits().to_le_bytes().to_vec();
        hello.extend_from_slice(&[0; 28]);
        hello.extend_from_slice(user.as_bytes());
        hello.extend_from_slice(b"\0\x14aaaaaaaaaaaaaaaaaaaa");
        client.send(&hello);
        match client.answer() {
            Answer::Error { code, text, .. } => (code, text.replace(user, "USER")),
            other => panic!("{other:?}"),
        }
    };
    let here = denied("here");
    assert_eq!(here.0, 1045);
    for number in 0..8 {
        assert_eq!(denied(&format!("gone{number}")), here, "no account has another plugin");
    }
}

#[test]
fn who_names_a_character_set_that_is_not_converted_is_warned() {
    let server = with_users();
    let flags = Can::CLIENT_PROTOCOL_41 | Can::CLIENT_SECURE_CONNECTION;
    let warnings = |collation: u16| {
        let mut client = Client::over(server.tcp());
        client.greeting().unwrap();
        let mut hello = flags.bits().to_le_bytes().to_vec();
        hello.extend_from_slice(&[0, 0, 0, 1, collation as u8]);
        hello.extend_from_slice(&[0; 23]);
        hello.extend_from_slice(b"root\0\0");
        client.send(&hello);
        let Answer::Ok { warnings, .. } = client.answer() else { panic!("not let in") };
        let told = client.run("SHOW WARNINGS");
        assert_eq!(told.rows().len(), usize::from(warnings));
        assert!(told.rows().iter().all(|row| shown(&row[2]).contains("utf8mb4")));
        assert_eq!(client.run("SELECT @@character_set_client").one(), "utf8mb4");
        // Also for a change of user, which has the collation in two bytes.
        let change = [b"root\0\0\0", &collation.to_le_bytes()[..]].concat();
        client.command(0x11, &change);
        let Answer::Ok { warnings: changed, .. } = client.answer() else { panic!("not let in") };
        assert_eq!(changed, warnings, "{collation}");
        warnings
    };
    // No collation, ASCII, three bytes, four, four of MySQL 8, and binary.
    for collation in [0, 11, 65, 33, 83, 192, 45, 46, 224, 255, 63] {
        assert_eq!(warnings(collation), 0, "{collation}");
    }
    // latin1, latin2, cp1251, gbk, and one that does not exist.
    for collation in [8, 9, 51, 28, 254] {
        assert_eq!(warnings(collation), 1, "{collation}");
    }
}

#[test]
fn hellos_that_make_no_sense_are_refused() {
    let server = TestServer::start();
    let hello = |bytes: &[u8]| {
        let mut client = Client::over(server.tcp());
        client.greeting().unwrap();
        client.send(bytes);
        let answer = client.answer().code();
        assert!(client.packet().is_none());
        answer
    };
    // The protocol before 4.1, nothing, TLS that is not offered, and a hello truncated at every
    // length.
    assert_eq!(hello(&[0; 40]), 1043);
    assert_eq!(hello(&[]), 1043);
    let ssl = (Can::CLIENT_PROTOCOL_41 | Can::CLIENT_SSL).bits().to_le_bytes();
    assert_eq!(hello(&[&ssl[..], &[0; 28]].concat()), 1043);
    let mut whole =
        (Can::CLIENT_PROTOCOL_41 | Can::CLIENT_SECURE_CONNECTION).bits().to_le_bytes().to_vec();
    whole.extend_from_slice(&[0; 28]);
    whole.extend_from_slice(b"root\0\x02ab");
    for len in 0..whole.len() {
        assert_eq!(hello(&whole[..len]), 1043, "{len}");
    }
    assert_eq!(hello(&whole), 1045);
}

#[test]
fn a_database_that_there_is_not_ends_the_login() {
    let server = TestServer::start();
    let options = Options { database: Some("missing"), ..server.options() };
    assert_eq!(options.log_in(&server).err(), Some(1049));
    let options = Options { database: None, ..server.options() };
    let mut client = options.log_in(&server).unwrap();
    assert_eq!(client.run("SELECT DATABASE()").one(), "NULL");
}

#[test]
fn users_are_changed_by_a_new_proof_and_take_nothing_along() {
    let server = with_users();
    let mut client = server.client();
    let id = client.prepare("SELECT 1").unwrap().id;
    client.run("SET @mine = 1");
    client.run("BEGIN");
    for user in ["native", "caching"] {
        // A proof for the greeting's nonce is not accepted: the client is asked again.
        let change = [user.as_bytes(), b"\0\x01xtest\0\x2D\0mysql_native_password\0"].concat();
        client.command(0x11, &change);
        client.prove(|plugin, nonce| proof(plugin, "secret", nonce)).unwrap();
        assert_eq!(client.run("SELECT CURRENT_USER()").one(), format!("{user}@%"));
        assert_eq!(client.run("SELECT DATABASE()").one(), "test");
    }
    assert_eq!(client.execute(id, &[]).code(), 1243);
    assert_eq!(client.run("SELECT @mine").one(), "NULL");
    client.command(0x11, b"native\0\0missing\0\x2D\0mysql_native_password\0");
    assert_eq!(client.prove(|plugin, nonce| proof(plugin, "secret", nonce)), Err(1049));
    let mut client = server.client();
    client.command(0x11, b"native\0\0test\0\x2D\0mysql_native_password\0");
    assert_eq!(client.prove(|plugin, nonce| proof(plugin, "guess", nonce)), Err(1045));
    assert!(client.packet().is_none(), "who fails is let go");
    let mut client = server.client();
    client.command(0x11, b"native");
    assert_eq!(client.answer().code(), 1835);
}

#[test]
fn hosts_of_this_machine_have_two_names() {
    let server = TestServer::start();
    let mut root = server.client();
    root.run("CREATE USER 'by_name'@'localhost' IDENTIFIED BY 'a'");
    root.run("CREATE USER 'by_address'@'127.0.0.1' IDENTIFIED BY 'b'");
    let mut client = Options { database: None, ..server.options().user("by_name", "a") }
        .log_in(&server)
        .unwrap();
    assert_eq!(client.run("SELECT CURRENT_USER()").one(), "by_name@localhost");
    let mut client = Options { database: None, ..server.options().user("by_address", "b") }
        .log_in(&server)
        .unwrap();
    assert_eq!(client.run("SELECT CURRENT_USER()").one(), "by_address@127.0.0.1");
}

#[test]
fn an_open_address_needs_a_password_for_root() {
    let instance = Instance::open(Database::open_in_memory(Settings::default()).unwrap()).unwrap();
    let bind = std::net::Ipv4Addr::UNSPECIFIED.into();
    let settings = ServerSettings { bind, port: 0, ..ServerSettings::default() };
    let refused = Server::start(instance.clone(), settings.clone());
    let text = refused.err().unwrap().to_string();
    assert!(text.contains("ALTER USER"), "{text}");
    let server = TestServer {
        server: Server::start(
            instance.clone(),
            ServerSettings { port: 0, ..ServerSettings::default() },
        )
        .unwrap(),
        instance,
    };
    server.client().run("ALTER USER 'root'@'%' IDENTIFIED BY 'now'");
    let instance = server.instance.clone();
    assert!(Server::start(instance, settings).is_ok());
}

/// Passwords cannot be guessed quickly: a fourth failure in a row waits, and a right password ends
/// that.
#[test]
fn failed_logins_are_counted_and_slowed() {
    let server = TestServer::start();
    let mut root = server.client();
    root.run("CREATE USER guessed IDENTIFIED BY 'secret'");
    root.run("GRANT ALL ON *.* TO guessed");
    let denied = |root: &mut Client| {
        let rows = root.run("SHOW STATUS LIKE 'Access_denied_errors'");
        shown(&rows.rows()[0][1]).parse::<u64>().unwrap()
    };
    let before = denied(&mut root);
    let guess = || server.options().user("guessed", "wrong").log_in(&server).err().unwrap();
    (0..3).for_each(|_| assert_eq!(guess(), 1045));
    let start = clock::now();
    assert_eq!(guess(), 1045);
    // At least this long: the delay is guaranteed.
    assert!(clock::now() - start >= Duration::from_millis(50));
    assert_eq!(denied(&mut root), before + 4);
    assert!(server.options().user("guessed", "secret").log_in(&server).is_ok());
    // A name that no user has is treated the same.
    let stranger = || server.options().user("nobody", "wrong").log_in(&server).err().unwrap();
    (0..4).for_each(|_| assert_eq!(stranger(), 1045));
    assert_eq!(denied(&mut root), before + 8);
}

/// Whether a client of `caching_sha2_password` was admitted by its fast answer alone; an error if
/// it was refused.
fn lets_in_by_fast_answer(server: &TestServer, user: &str, password: &str) -> Result<bool, u16> {
    let mut client = Client::over(server.tcp());
    client.greeting().unwrap();
    let flags = Can::CLIENT_PROTOCOL_41 | Can::CLIENT_SECURE_CONNECTION | Can::CLIENT_PLUGIN_AUTH;
    let mut hello = flags.bits().to_le_bytes().to_vec();
    hello.extend_from_slice(&[0; 28]);
    hello.extend_from_slice(user.as_bytes());
    hello.extend_from_slice(b"\0\x01xdialog\0");
    client.send(&hello);
    let fast = std::cell::Cell::new(true);
    client.prove(|plugin, nonce| {
        fast.set(fast.get() && plugin != b"password");
        proof(plugin, password, nonce)
    })?;
    Ok(fast.get())
}

/// CACHING-2: once for each password and each account.
#[test]
fn a_fast_answer_is_enough_once_the_password_was_seen() {
    let server = with_users();
    let mut root = server.client();
    let login = |password| lets_in_by_fast_answer(&server, "caching", password);
    assert_eq!(login("guess"), Err(1045));
    assert_eq!(login("secret"), Ok(false));
    assert_eq!(login("secret"), Ok(true));
    assert_eq!(login("guess"), Err(1045));
    assert_eq!(login("secret"), Ok(true));
    root.run("ALTER USER caching IDENTIFIED BY 'other'");
    assert_eq!(login("secret"), Err(1045));
    assert_eq!(login("other"), Ok(false));
    assert_eq!(login("other"), Ok(true));
    // The same password set again, and an account created again.
    root.run("ALTER USER caching IDENTIFIED BY 'other'");
    assert_eq!(login("other"), Ok(false));
    root.run("DROP USER caching");
    assert_eq!(login("other"), Err(1045));
    root.run("CREATE USER caching IDENTIFIED WITH caching_sha2_password BY 'other'");
    assert_eq!(login("other"), Ok(false));
}

/// CACHING-1: over an open network the server takes a password encrypted by its public key, and not
/// in clear.
#[test]
fn a_password_in_clear_is_refused_over_an_open_network() {
    let server = with_users();
    for key_is_told in [false, true] {
        let mut client = Client::over(server.tcp());
        client.greeting().unwrap();
        let flags =
            Can::CLIENT_PROTOCOL_41 | Can::CLIENT_SECURE_CONNECTION | Can::CLIENT_PLUGIN_AUTH;
        let mut hello = flags.bits().to_le_bytes().to_vec();
        hello.extend_from_slice(&[0; 28]);
        hello.extend_from_slice(b"caching\0\x01xdialog\0");
        client.send(&hello);
        assert_eq!(client.packet().unwrap()[0], 0xFE);
        client.send(&[7; 32]);
        assert_eq!(client.packet().unwrap(), [1, 4]);
        if key_is_told {
            client.send(&[2]);
            assert!(client.packet().unwrap().starts_with(b"\x01-----BEGIN PUBLIC KEY-----\n"));
        }
        client.send(b"secret\0");
        assert_eq!(client.answer().code(), 1045);
    }
}

/// The limits of accounts, as clients meet them (QUOTA-2, LOCKOUT-1).
#[test]
fn an_account_has_as_many_connections_and_guesses_as_it_may() {
    let server = with_users();
    let mut root = server.client();
    let options = |password| server.options().user("native", password);
    root.run("ALTER USER native WITH MAX_USER_CONNECTIONS 1");
    let mut only = options("secret").log_in(&server).unwrap();
    assert_eq!(options("secret").log_in(&server).err(), Some(1226));
    // A change of user releases the place, also for the same account.
    for (user, place) in [("native", Some(1226)), ("open", None)] {
        only.command(0x11, &[user.as_bytes(), b"\0\0test\0\x2D\0dialog\0"].concat());
        only.prove(|plugin, nonce| match user {
            "open" => Vec::new(),
            _ => proof(plugin, "secret", nonce),
        })
        .unwrap();
        assert_eq!(options("secret").log_in(&server).err(), place, "{user}");
    }
    root.run("ALTER USER native FAILED_LOGIN_ATTEMPTS 2 PASSWORD_LOCK_TIME 1");
    assert_eq!(options("guess").log_in(&server).err(), Some(1045));
    assert_eq!(options("guess").log_in(&server).err(), Some(3955));
    assert_eq!(options("secret").log_in(&server).err(), Some(3955));
    root.run("ALTER USER native ACCOUNT UNLOCK");
    until(|| options("secret").log_in(&server).is_ok());
    root.run("ALTER USER native ACCOUNT LOCK");
    assert_eq!(options("guess").log_in(&server).err(), Some(1045), "it tells nothing");
    assert_eq!(options("secret").log_in(&server).err(), Some(3118));
}
