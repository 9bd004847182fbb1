//! Prepared statements, with valid and with invalid commands.

use mysql_common::Value;
use spillway_base::budget::Use;

use crate::client::{TestServer, shown, until};

#[test]
fn wrong_numbers_and_parameters_are_refused_and_the_connection_goes_on() {
    let server = TestServer::start();
    let mut client = server.client();
    client.run("CREATE TABLE t (a INT PRIMARY KEY, b TEXT)");
    let insert = client.prepare("INSERT INTO t VALUES (?, ?)").unwrap();
    assert_eq!((insert.params.len(), insert.columns.len()), (2, 0));
    // Truncated, with an unknown type, and without types.
    for bad in [&[][..], &[0], &[0, 1, 3, 0], &[0, 1, 99, 0, 3, 0, 1, 2, 3], &[0, 0, 1, 2]] {
        assert_eq!(client.execute(insert.id, bad).code(), 1210, "{bad:?}");
    }
    assert_eq!(client.execute(99, &[]).code(), 1243);
    for len in 0..9 {
        client.command(0x17, &[1, 0, 0, 0, 0, 1, 0, 0, 0][..len]);
        assert_eq!(client.answer().code(), 1835, "{len}");
    }
    // Text that is not UTF-8 is refused for a text column.
    let wrong = client.execute(insert.id, &[0, 1, 3, 0, 253, 0, 1, 0, 0, 0, 2, 0xFF, 0xFE]);
    assert_eq!(wrong.code(), 1366);
    assert_eq!(client.execute(insert.id, &[0, 0, 1, 0, 0, 0, 2, b'o', b'k']).affected(), 1);
    // An invalid time.
    let time = [2, 1, 12, 0, 6, 0, 7, 0xE8, 7, 2, 29, 25, 0, 0];
    assert_eq!(client.execute(insert.id, &time).code(), 1292);
    assert_eq!(client.ping().affected(), 0);
}

#[test]
fn closing_answers_nothing_and_the_next_command_is_answered() {
    let server = TestServer::start();
    let mut client = server.client();
    let id = client.prepare("SELECT 1").unwrap().id;
    // Both in one write, as drivers send them.
    let mut bytes = vec![5, 0, 0, 0, 0x19];
    bytes.extend_from_slice(&id.to_le_bytes());
    bytes.extend_from_slice(&[1, 0, 0, 0, 0x0E]);
    assert!(client.raw(&bytes));
    client.sequence = 1;
    assert_eq!(client.answer().affected(), 0);
    assert_eq!(client.execute(id, &[]).code(), 1243);
    // A statement that does not exist, and a truncated command.
    client.command(0x19, &[9, 9, 9, 9]);
    client.command(0x19, &[9]);
    assert_eq!(client.ping().affected(), 0);
    client.command(0x1A, &id.to_le_bytes());
    assert_eq!(client.answer().code(), 1243);
    client.command(0x1C, &[1, 0, 0, 0, 1, 0, 0, 0]);
    assert_eq!(client.answer().code(), 1421);
}

#[test]
fn parameters_come_in_pieces_until_they_are_reset() {
    let server = TestServer::start();
    let mut client = server.client();
    let id = client.prepare("SELECT ?, ?").unwrap().id;
    let piece = |at: u16, text: &[u8]| [&id.to_le_bytes()[..], &at.to_le_bytes(), text].concat();
    client.command(0x18, &piece(0, b"over "));
    client.command(0x18, &piece(0, b"the wire"));
    let both = [0, 1, 252, 0, 3, 0, 7, 0, 0, 0];
    let row = |client: &mut crate::client::Client, params: &[u8]| -> Vec<String> {
        client.execute(id, params).rows()[0].iter().map(shown).collect()
    };
    assert_eq!(row(&mut client, &both), ["over the wire", "7"]);
    // They serve one execution, and a reset forgets them.
    let plain = [0, 1, 3, 0, 3, 0, 6, 0, 0, 0, 7, 0, 0, 0];
    assert_eq!(row(&mut client, &plain), ["6", "7"]);
    client.command(0x18, &piece(0, b"forgotten"));
    client.command(0x1A, &id.to_le_bytes());
    client.answer().affected();
    assert_eq!(row(&mut client, &plain), ["6", "7"]);
    // A parameter that does not exist fails the next execution, and only that one.
    client.command(0x18, &piece(2, b"x"));
    assert_eq!(client.execute(id, &plain).code(), 1210);
    assert_eq!(row(&mut client, &plain), ["6", "7"]);
    // To a statement that does not exist, and truncated: there is no response.
    client.command(0x18, &[9, 9, 9, 9, 0, 0, 1]);
    client.command(0x18, &[1]);
    assert_eq!(client.ping().affected(), 0);
}

#[test]
fn what_cannot_be_prepared_says_why() {
    let server = TestServer::start();
    let mut client = server.client();
    for (sql, code) in [
        ("", 1065),
        ("SELEC 1", 1064),
        ("SELECT 1; SELECT 2", 1064),
        ("SELECT * FROM missing", 1146),
    ] {
        let error = client.prepare(sql).unwrap_err();
        assert!([code, 1064].contains(&error.code()), "{sql}: {error:?}");
    }
    let many = vec!["?"; 65_536].join(",");
    assert_eq!(client.prepare(format!("DO ({many})")).unwrap_err().code(), 1390);
    assert_eq!(client.ping().affected(), 0);
}

#[test]
fn there_are_only_so_many_prepared_statements() {
    let server = TestServer::start();
    let mut client = server.client();
    client.run("SET GLOBAL max_prepared_stmt_count = 3");
    let count = |client: &mut crate::client::Client| {
        shown(&client.run("SHOW STATUS LIKE 'Prepared_stmt_count'").rows()[0][1])
    };
    let ids: Vec<u32> = (0..3).map(|_| client.prepare("SELECT 1").unwrap().id).collect();
    assert_eq!(client.prepare("SELECT 1").unwrap_err().code(), 1461);
    client.command(0x19, &ids[0].to_le_bytes());
    client.prepare("SELECT 1").unwrap();
    assert_eq!(count(&mut client), "3");
    let mut other = server.client();
    assert_eq!(other.prepare("SELECT 1").unwrap_err().code(), 1461);
    client.command(0x1F, &[]);
    client.answer().affected();
    assert_eq!(count(&mut client), "0", "a reset forgets them");
    assert_eq!(client.execute(ids[1], &[]).code(), 1243);
    other.prepare("SELECT 1").unwrap();
    drop(other);
    // They end with their connection, which ends when the server sees that its client has
    // disconnected.
    until(|| count(&mut client) == "0");
    // Statements of PREPARE are counted with them; a new one replaces an earlier one of the same
    // name.
    for name in ["a", "b", "c", "a"] {
        client.run(format!("PREPARE {name} FROM 'SELECT 1'"));
    }
    assert_eq!(count(&mut client), "3");
    assert_eq!(client.query("PREPARE d FROM 'SELECT 1'").code(), 1461);
    assert_eq!(client.prepare("SELECT 1").unwrap_err().code(), 1461);
    client.run("DEALLOCATE PREPARE b");
    client.prepare("SELECT 1").unwrap();
    assert_eq!(client.query("PREPARE b FROM 'SELECT 1'").code(), 1461);
    client.command(0x11, b"root\0\0test\0\x2D\0mysql_native_password\0");
    client.prove(|_, _| Vec::new()).unwrap();
    assert_eq!(count(&mut client), "0", "another user begins without");
}

#[test]
fn prepared_statements_are_charged_to_the_memory_budget() {
    let server = TestServer::start();
    let budget = server.instance.database().budget().clone();
    let mut client = server.client();
    let used = || budget.used_for(Use::Connections);
    let held = used();
    let long = format!("SELECT '{}'", "x".repeat(100_000));
    let id = client.prepare(&long).unwrap().id;
    client.run(format!("SET @long = \"{long}\""));
    client.run("PREPARE named FROM @long");
    let two = used() - held;
    assert!(two >= 4 * long.len(), "{two} bytes for two of {}", long.len());
    // Even a short parameter is a node of the syntax tree.
    let many = client.prepare(format!("DO ({}?)", "?,".repeat(9999))).unwrap().id;
    let more = used() - held - two;
    assert!(more >= 100 * 10_000, "{more} bytes for 10,000 parameters");
    client.command(0x19, &many.to_le_bytes());
    assert_eq!(client.ping().affected(), 0);
    let hog = budget.charge(Use::Connections, budget.limit() - budget.used() - long.len());
    assert_eq!(client.prepare(&long).unwrap_err().code(), 1041);
    // The earlier statement of that name is gone nevertheless, as in MySQL.
    let filler = budget.charge(Use::Connections, two / 2);
    assert_eq!(client.query("PREPARE named FROM @long").code(), 1041);
    assert_eq!(client.query("EXECUTE named").code(), 1243);
    assert_eq!(client.execute(id, &[]).one().len(), 100_000);
    drop((hog, filler));
    client.run("SET @long = NULL");
    client.command(0x19, &id.to_le_bytes());
    assert_eq!(client.ping().affected(), 0);
    assert_eq!(used(), held);
}

#[test]
fn definitions_end_as_the_client_expects() {
    let server = TestServer::start();
    for options in server.both_endings() {
        let mut client = options.log_in(&server).unwrap();
        let prepared = client.prepare("SELECT ? AS a, 2 AS b").unwrap();
        assert_eq!((prepared.params.len(), prepared.columns.len()), (1, 2));
        assert_eq!(&*prepared.columns[1].name_str(), "b");
        let answer =
            client.execute(prepared.id, &[0, 1, 8, 0x80, 255, 255, 255, 255, 255, 255, 255, 255]);
        assert_eq!(answer.rows()[0].len(), 2);
        assert!(matches!(answer.rows()[0][1], Value::Int(2)), "{answer:?}");
        let none = client.prepare("DO 1").unwrap();
        assert_eq!(none.params.len() + none.columns.len(), 0);
    }
}
