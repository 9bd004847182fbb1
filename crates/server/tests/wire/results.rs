//! Responses: OK and EOF packets, several results, and values as text and in binary.

use mysql_common::Value;
use mysql_common::constants::{CapabilityFlags as Can, ColumnType, StatusFlags};

use crate::client::{Answer, TestServer, shown};

const MORE: StatusFlags = StatusFlags::SERVER_MORE_RESULTS_EXISTS;

#[test]
fn several_statements_say_that_more_follows_until_one_fails() {
    let server = TestServer::start();
    for options in server.both_endings() {
        let mut client = options.log_in(&server).unwrap();
        let first = client.query("SELECT 1; DO 0; SELECT 2 WHERE 0 = 1; SELECT 3");
        assert!(first.status().contains(MORE));
        assert_eq!(first.one(), "1");
        assert!(client.answer().status().contains(MORE));
        assert!(client.answer().status().contains(MORE));
        let last = client.answer();
        assert_eq!((last.one().as_str(), last.status() & MORE), ("3", StatusFlags::empty()));
        assert!(client.query("SELECT 1; SELECT * FROM missing; SELECT 2").status().contains(MORE));
        let Answer::Error { code, state, text } = client.answer() else { panic!("no error") };
        assert_eq!((code, state.as_str(), text.contains("missing")), (1146, "42S02", true));
        assert_eq!(client.ping().affected(), 0);
    }
}

#[test]
fn several_statements_are_for_those_who_asked_for_them() {
    let server = TestServer::start();
    let mut client =
        server.options().without(Can::CLIENT_MULTI_STATEMENTS).log_in(&server).unwrap();
    assert_eq!(client.query("DO 1; DO 2").code(), 1064);
    client.command(0x1B, &[0, 0]);
    assert!(client.packet().is_some_and(|end| end[0] == 0xFE));
    client.run("DO 1; DO 2");
    client.answer().affected();
    client.command(0x1B, &[1, 0]);
    client.packet().unwrap();
    assert_eq!(client.query("DO 1; DO 2").code(), 1064);
    client.command(0x1B, &[7, 0]);
    assert_eq!(client.answer().code(), 1047);
}

#[test]
fn affected_rows_are_those_changed_or_those_found() {
    let server = TestServer::start();
    let mut client = server.client();
    client.run("CREATE TABLE t (id INT PRIMARY KEY, n INT)");
    let inserted = client.run("INSERT INTO t VALUES (1, 1), (2, 1), (3, 2)");
    let Answer::Ok { info, warnings, insert_id, .. } = &inserted else { panic!("{inserted:?}") };
    assert_eq!((inserted.affected(), info.as_str()), (3, "Records: 3  Duplicates: 0  Warnings: 0"));
    assert_eq!((*warnings, *insert_id), (0, 0));
    assert_eq!(client.run("UPDATE t SET n = 1").affected(), 1);
    let mut finds = server.options().with(Can::CLIENT_FOUND_ROWS).log_in(&server).unwrap();
    assert_eq!(finds.run("UPDATE t SET n = 1").affected(), 3);
    finds.command(0x1F, &[]);
    assert_eq!(finds.answer().affected(), 0);
    assert_eq!(finds.run("UPDATE t SET n = 1").affected(), 3, "a reset keeps what the client is");
}

#[test]
fn status_flags_follow_the_transaction() {
    let server = TestServer::start();
    let mut client = server.client();
    let (open, auto) = (StatusFlags::SERVER_STATUS_IN_TRANS, StatusFlags::SERVER_STATUS_AUTOCOMMIT);
    assert_eq!(client.run("DO 1").status(), auto);
    assert_eq!(client.run("BEGIN").status(), open | auto);
    assert_eq!(client.run("SELECT 1").status(), open | auto);
    assert_eq!(client.run("COMMIT").status(), auto);
    assert_eq!(client.run("SET autocommit = 0").status(), StatusFlags::empty());
    client.command(0x1F, &[]);
    assert_eq!(client.answer().status(), auto);
    client.run("BEGIN");
    client.command(0x1F, &[]);
    assert_eq!(client.answer().status(), auto, "a reset rolls back");
}

#[test]
fn values_are_the_same_in_both_forms_and_what_mysql_would_say() {
    let server = TestServer::start();
    let mut client = server.client();
    client.run(
        "CREATE TABLE kinds (id INT PRIMARY KEY, tiny TINYINT, utiny TINYINT UNSIGNED, small SMALLINT, \
         medium MEDIUMINT, big BIGINT, ubig BIGINT UNSIGNED, price DECIMAL(10,3), f FLOAT, d DOUBLE, \
         y YEAR, day DATE, at DATETIME, at6 DATETIME(6), span TIME, span3 TIME(3), ts TIMESTAMP(2) NULL, \
         word VARCHAR(20), raw VARBINARY(20), bits BIT(12), one ENUM('a','b'), some SET('x','y','z'), doc JSON)",
    );
    client.run(
        "INSERT INTO kinds VALUES \
         (1, -128, 255, -32768, -8388608, -9223372036854775808, 18446744073709551615, -1234567.891, 0.1, -1e100, \
          2155, '2024-02-29', '2026-11-21 23:59:58', '2026-11-21 23:59:58.000001', '-838:59:59', '-00:00:00.500', \
          '2026-01-02 03:04:05.67', 'Grüße', X'00FF27', b'101010101010', 'b', 'x,z', '{\"a\": 1}'), \
         (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, \
          NULL, NULL, NULL, NULL, NULL), \
         (3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1901, '1000-01-01', '2026-11-21', '2026-11-21', '00:00:00', '34:22:33', \
          NULL, '', '', 0, 'a', '', '[]')",
    );
    let wanted = [
        "1|-128|255|-32768|-8388608|-9223372036854775808|18446744073709551615|-1234567.891|0.1|-1e100|2155|\
         2024-02-29|2026-11-21 23:59:58|2026-11-21 23:59:58.000001|-838:59:59|-00:00:00.500|2026-01-02 03:04:05.67|\
         Grüße|\0\u{FFFD}'|\n\u{FFFD}|b|x,z|{\"a\": 1}",
        "2|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL",
        "3|0|0|0|0|0|0|0.000|0|0|1901|1000-01-01|2026-11-21 00:00:00|2026-11-21 00:00:00.000000|00:00:00|34:22:33.000|\
         NULL|||\0\0|a||[]",
    ];
    for options in server.both_endings() {
        let mut client = options.log_in(&server).unwrap();
        let text = client.run("SELECT * FROM kinds ORDER BY id");
        for (row, wanted) in text.rows().iter().zip(wanted) {
            let row: Vec<String> = row.iter().map(shown).collect();
            assert_eq!(row.join("|"), wanted);
        }
        let id = client.prepare("SELECT * FROM kinds ORDER BY id").unwrap().id;
        // The second time, the kept columns of the first time are sent.
        for _ in 0..3 {
            let binary = client.execute(id, &[]);
            let Answer::Rows { columns, rows, .. } = &binary else { panic!("{binary:?}") };
            assert_eq!(columns.len(), 23);
            assert_eq!(columns[6].column_type(), ColumnType::MYSQL_TYPE_LONGLONG);
            assert_eq!(&*columns[6].name_str(), "ubig");
            check_binary(rows);
        }
    }
}

fn check_binary(rows: &[Vec<Value>]) {
    let bytes = |text: &[u8]| Value::Bytes(text.to_vec());
    let first = vec![
        Value::Int(1),
        Value::Int(-128),
        Value::Int(255),
        Value::Int(-32_768),
        Value::Int(-8_388_608),
        Value::Int(i64::MIN),
        Value::UInt(u64::MAX),
        bytes(b"-1234567.891"),
        Value::Float(0.1),
        Value::Double(-1e100),
        Value::Int(2155),
        Value::Date(2024, 2, 29, 0, 0, 0, 0),
        Value::Date(2026, 11, 21, 23, 59, 58, 0),
        Value::Date(2026, 11, 21, 23, 59, 58, 1),
        Value::Time(true, 34, 22, 59, 59, 0),
        Value::Time(true, 0, 0, 0, 0, 500_000),
        Value::Date(2026, 1, 2, 3, 4, 5, 670_000),
        bytes("Grüße".as_bytes()),
        bytes(&[0, 0xFF, b'\'']),
        bytes(&[0x0A, 0xAA]),
        bytes(b"b"),
        bytes(b"x,z"),
        bytes(b"{\"a\": 1}"),
    ];
    assert_eq!(rows[0], first);
    assert!(rows[1][1..].iter().all(|value| *value == Value::NULL), "{:?}", rows[1]);
    assert_eq!(rows[1].len(), 23);
    assert_eq!(rows[2][15], Value::Time(false, 1, 10, 22, 33, 0));
    assert_eq!(rows[2][14], Value::Time(false, 0, 0, 0, 0, 0));
    assert_eq!(rows[2][12], Value::Date(2026, 11, 21, 0, 0, 0, 0));
}

#[test]
fn null_bitmaps_of_every_width_name_the_right_columns() {
    let server = TestServer::start();
    let mut client = server.client();
    for width in [1, 5, 6, 7, 8, 13, 14, 15, 62, 200, 300] {
        let columns: Vec<String> = (0..width)
            .map(|at| if at % 3 == 1 { "NULL".to_owned() } else { at.to_string() })
            .collect();
        let id = client.prepare(format!("SELECT {}", columns.join(", "))).unwrap().id;
        for _ in 0..2 {
            let answer = client.execute(id, &[]);
            let row: Vec<String> = answer.rows()[0].iter().map(shown).collect();
            assert_eq!(row, columns);
        }
    }
}

#[test]
fn files_of_the_client_are_never_asked_for() {
    let server = TestServer::start();
    let mut client = server.options().with(Can::CLIENT_LOCAL_FILES).log_in(&server).unwrap();
    client.run("CREATE TABLE t (a INT)");
    client.command(3, b"LOAD DATA LOCAL INFILE '/etc/passwd' INTO TABLE t");
    let packet = client.packet().unwrap();
    assert_eq!(packet[0], 0xFF, "{packet:?}");
    assert_eq!(client.ping().affected(), 0);
}

#[test]
fn session_tracking_is_not_offered_and_not_sent() {
    let server = TestServer::start();
    let mut client = server.options().with(Can::CLIENT_SESSION_TRACK).log_in(&server).unwrap();
    client.command(3, b"USE test");
    // OK, no affected rows, no insert id, autocommit, no warnings, and nothing more.
    assert_eq!(client.packet().unwrap(), [0, 0, 0, 2, 0, 0, 0]);
    assert_eq!(client.run("SELECT @@session_track_schema").one(), "0");
}

#[test]
fn bytes_that_are_no_text_are_for_literals() {
    let server = TestServer::start();
    let mut client = server.client();
    client.run("CREATE TABLE t (id INT PRIMARY KEY, raw VARBINARY(20), word VARCHAR(20))");
    client.run(b"INSERT INTO t (id, raw) VALUES (1, '\xFF\\0\\'\xFE')".as_slice());
    assert_eq!(client.run("SELECT HEX(raw) FROM t").one(), "FF0027FE");
    assert_eq!(
        client.query(b"INSERT INTO t (id, word) VALUES (2, '\xFF')".as_slice()).code(),
        1366
    );
    assert_eq!(client.query(b"SELECT \xFF FROM t".as_slice()).code(), 1300);
    let prepared = client.prepare(b"SELECT HEX('\xC0\x80')".as_slice()).unwrap().id;
    assert_eq!(shown(&client.execute(prepared, &[]).rows()[0][0]), "C080");
    assert_eq!(client.prepare(b"SELECT \xFF".as_slice()).unwrap_err().code(), 1300);
}

#[test]
fn columns_of_a_table_are_listed_by_pattern() {
    let server = TestServer::start();
    for (options, length) in server.both_endings().into_iter().zip([5, 7]) {
        let mut client = options.log_in(&server).unwrap();
        client.run("DROP TABLE IF EXISTS t");
        client.run("CREATE TABLE t (alpha INT, beta INT, alphabet INT)");
        for (pattern, count) in [("", 3), ("%", 3), ("alpha%", 2), ("beta", 1), ("x", 0)] {
            client.command(4, format!("t\0{pattern}").as_bytes());
            for _ in 0..count {
                let column = client.packet().unwrap();
                assert_eq!((column[0], column.last()), (3, Some(&0xFB)), "{pattern}");
            }
            let end = client.packet().unwrap();
            assert_eq!(end[0], 0xFE);
            assert_eq!(end.len(), length);
        }
        client.command(4, b"missing\0");
        assert_eq!(client.answer().code(), 1146);
    }
}

#[test]
fn commands_beside_queries_answer() {
    let server = TestServer::start();
    let mut client = server.client();
    client.command(0x09, &[]);
    let line = String::from_utf8(client.packet().unwrap()).unwrap();
    assert!(line.starts_with("Uptime: ") && line.contains("Questions: "), "{line}");
    client.command(0x02, b"missing");
    assert_eq!(client.answer().code(), 1049);
    client.command(0x0A, &[]);
    assert!(!client.answer().rows().is_empty());
    client.command(0x0C, &[9, 9, 9, 0]);
    assert_eq!(client.answer().code(), 1094);
    client.command(0x0C, &[9]);
    assert_eq!(client.answer().code(), 1835);
    client.command(0x01, &[]);
    assert!(client.packet().is_none());
}

#[test]
fn what_changes_reports_its_numbers_and_warnings() {
    let server = TestServer::start();
    let mut client = server.client();
    client.run("CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, n TINYINT UNIQUE)");
    let told = |answer: Answer| match answer {
        Answer::Ok { affected, insert_id, warnings, .. } => (affected, insert_id, warnings),
        other => panic!("{other:?}"),
    };
    assert_eq!(told(client.run("INSERT INTO t (n) VALUES (1), (2)")), (2, 1, 0));
    assert_eq!(told(client.run("INSERT INTO t (n) VALUES (3)")), (1, 3, 0));
    let (affected, _, warnings) = told(client.run("INSERT IGNORE INTO t (n) VALUES (3), (4)"));
    assert_eq!((affected, warnings), (1, 1));
    let id = client.prepare("INSERT INTO t (n) VALUES (?)").unwrap().id;
    let (affected, insert_id, _) = told(client.execute(id, &[0, 1, 1, 0, 9]));
    assert_eq!((affected, insert_id.to_string()), (1, client.run("SELECT LAST_INSERT_ID()").one()));
    assert_eq!(told(client.run("DELETE FROM t")).0, 5);
}

#[test]
fn errors_have_the_numbers_and_states_of_mysql() {
    let server = TestServer::start();
    let mut client = server.client();
    client.run("CREATE TABLE t (id INT PRIMARY KEY, w VARCHAR(3) NOT NULL, u BIGINT UNSIGNED)");
    client.run("INSERT INTO t VALUES (1, 'a', 0), (2, 'b', 0)");
    let wanted = [
        ("INSERT INTO t VALUES (1, 'x', 0)", 1062, "23000"),
        ("INSERT INTO t VALUES (3, NULL, 0)", 1048, "23000"),
        ("SELECT nothing FROM t", 1054, "42S22"),
        ("SELEC 1", 1064, "42000"),
        ("SELECT * FROM missing", 1146, "42S02"),
        ("INSERT INTO t (id) VALUES (3)", 1364, "HY000"),
        ("INSERT INTO t VALUES (3, 'long', 0)", 1406, "22001"),
        ("SELECT u - 1 FROM t", 1690, "22003"),
        ("USE missing", 1049, "42000"),
        ("CREATE TABLE t (id INT)", 1050, "42S01"),
    ];
    let told = |answer: Answer| match answer {
        Answer::Error { code, state, .. } => (code, state),
        other => panic!("{other:?} is no error"),
    };
    for (sql, code, state) in wanted {
        assert_eq!(told(client.query(sql)), (code, state.to_owned()), "{sql}");
    }
    // Two clients that wait for each other, and one that waits too long.
    let mut other = server.client();
    other.run("SET innodb_lock_wait_timeout = 1");
    client.run("BEGIN");
    other.run("BEGIN");
    client.run("UPDATE t SET u = 1 WHERE id = 1");
    assert_eq!(told(other.query("UPDATE t SET u = 2 WHERE id = 1")), (1205, "HY000".to_owned()));
    other.run("SET innodb_lock_wait_timeout = 50");
    other.run("UPDATE t SET u = 2 WHERE id = 2");
    client.command(3, b"UPDATE t SET u = 1 WHERE id = 2");
    let second = other.query("UPDATE t SET u = 2 WHERE id = 1");
    let first = client.answer();
    let lost: Vec<_> = [first, second]
        .into_iter()
        .filter(|answer| matches!(answer, Answer::Error { .. }))
        .collect();
    assert_eq!(lost.len(), 1, "{lost:?}");
    for answer in lost {
        assert_eq!(told(answer), (1213, "40001".to_owned()));
    }
}
