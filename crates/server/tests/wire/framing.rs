//! Packets: split, joined, numbered, pipelined, and random bytes.

use mysql_common::constants::{CapabilityFlags as Can, StatusFlags};
use spillway_base::rng::Rng;

use crate::client::{Client, TestServer};

const CHUNK: usize = 0xFF_FFFF;

#[test]
fn pipelined_commands_are_answered_in_order() {
    let server = TestServer::start();
    let mut client = server.client();
    let mut bytes = Vec::new();
    for number in 0..200_u8 {
        bytes.extend_from_slice(&[1, 0, 0, 0, 0x0E]);
        bytes.extend_from_slice(&[5, 0, 0, 0, 2]);
        bytes.extend_from_slice(if number % 2 == 0 { b"test" } else { b"none" });
        bytes.extend_from_slice(&[9, 0, 0, 0, 3]);
        bytes.extend_from_slice(format!("DO {number:05}").as_bytes());
    }
    assert!(client.raw(&bytes));
    for number in 0..200 {
        client.sequence = 1;
        assert_eq!(client.answer().affected(), 0);
        client.sequence = 1;
        let used = client.answer();
        if number % 2 == 0 {
            assert_eq!(used.affected(), 0);
        } else {
            assert_eq!(used.code(), 1049);
        }
        client.sequence = 1;
        assert_eq!(client.answer().affected(), 0);
    }
}

#[test]
fn a_command_is_answered_though_only_part_of_the_next_has_come() {
    let server = TestServer::start();
    let mut client = server.client();
    assert!(client.raw(&[1, 0, 0, 0, 0x0E, 1, 0, 0]));
    client.sequence = 1;
    assert_eq!(client.answer().affected(), 0);
    assert!(client.raw(&[0, 0x0E]));
    client.sequence = 1;
    assert_eq!(client.answer().affected(), 0);
}

#[test]
fn commands_may_come_byte_by_byte() {
    let server = TestServer::start();
    let mut client = server.client();
    for byte in b"\x09\0\0\0\x03SELECT 1" {
        assert!(client.raw(&[*byte]));
    }
    client.sequence = 1;
    assert_eq!(client.answer().one(), "1");
}

#[test]
fn packets_out_of_order_end_the_connection() {
    let server = TestServer::start();
    let mut client = server.client();
    assert!(client.raw(&[1, 0, 0, 5, 0x0E]));
    client.sequence = 0;
    assert_eq!(client.answer().code(), 1156);
    assert!(client.packet().is_none());
}

#[test]
fn payloads_of_exactly_and_about_a_packet_come_through_both_ways() {
    let server = TestServer::start();
    let mut client = server.client();
    client.run("CREATE TABLE large (id INT PRIMARY KEY, body LONGBLOB)");
    let insert = client.prepare("INSERT INTO large VALUES (?, ?)").unwrap().id;
    let select = client.prepare("SELECT body FROM large WHERE id = ?").unwrap().id;
    let body: Vec<u8> = (0..2 * CHUNK + 2).map(|at| (at % 251) as u8).collect();
    // The head of a command: its byte, ten more, the types, one INT and the body's length.
    let head = 10 + 1 + 1 + 4 + 4 + 9;
    let lens = [
        CHUNK - head - 1,
        CHUNK - head,
        CHUNK - head + 1,
        2 * CHUNK - head,
        // The heads of rows: a zero, a bitmap, nine bytes of length or four, and the body.
        CHUNK - 2 - 4,
        CHUNK - 2 - 4 - 1,
        CHUNK,
        2 * CHUNK - 2 - 9,
        2 * CHUNK,
    ];
    for (id, len) in lens.into_iter().enumerate() {
        let mut params = vec![0, 1, 3, 0, 252, 0, id as u8, 0, 0, 0, 0xFE];
        params.extend_from_slice(&(len as u64).to_le_bytes());
        params.extend_from_slice(&body[..len]);
        assert_eq!(client.execute(insert, &params).affected(), 1, "{len}");
        let back = client.execute(select, &[0, 1, 3, 0, id as u8, 0, 0, 0]);
        assert!(
            matches!(&back.rows()[0][0], mysql_common::Value::Bytes(back) if back[..] == body[..len]),
            "{len}"
        );
        let text = client.run(format!("SELECT body FROM large WHERE id = {id}"));
        assert!(
            matches!(&text.rows()[0][0], mysql_common::Value::Bytes(back) if back[..] == body[..len]),
            "{len}"
        );
        client.run(format!("DELETE FROM large WHERE id = {id}"));
    }
}

#[test]
fn a_long_result_comes_whole_and_its_packets_are_numbered_past_255() {
    let server = TestServer::start();
    let mut client = server.client();
    client.run("CREATE TABLE t (id INT PRIMARY KEY, pad CHAR(100))");
    let rows: Vec<String> = (0..2000).map(|id| format!("({id}, 'pad')")).collect();
    client.run(format!("INSERT INTO t VALUES {}", rows.join(",")));
    let answer = client.run("SELECT * FROM t ORDER BY id");
    assert_eq!(answer.rows().len(), 2000);
    assert_eq!(answer.status() & StatusFlags::SERVER_MORE_RESULTS_EXISTS, StatusFlags::empty());
}

#[test]
fn any_bytes_end_in_an_answer_or_a_closed_connection() {
    let server = TestServer::start();
    let mut rng = Rng::new(6);
    for round in 0..120 {
        let known = round % 2 == 0;
        let mut noise = vec![0; rng.below(300) as usize];
        rng.fill(&mut noise);
        // A length that the client honours, so the server need not wait.
        if round % 4 < 2 {
            let len = noise.len() as u32;
            let sequence = u8::from(!known);
            noise.splice(0..0, [len.to_le_bytes()[0], len.to_le_bytes()[1], 0, sequence]);
        }
        let stream = server.tcp();
        let writer = stream.try_clone().unwrap();
        let mut client = if known {
            server.options().log_in_over(Box::new(stream)).unwrap()
        } else {
            Client::over(stream)
        };
        client.raw(&noise);
        // It may have disconnected already.
        let _ = writer.shutdown(std::net::Shutdown::Write);
        let mut rest = Vec::new();
        let _ = std::io::Read::read_to_end(&mut &writer, &mut rest);
    }
    assert_eq!(server.client().run("DO 1").affected(), 0);
}

#[test]
fn every_command_byte_is_answered_or_needs_no_answer() {
    let server = TestServer::start();
    let mut client = server.options().with(Can::CLIENT_FOUND_ROWS).log_in(&server).unwrap();
    // The unsupported commands, with and without a payload.
    for command in (0x05..=0x08)
        .chain([0x0B, 0x0D, 0x0F, 0x10, 0x12, 0x13, 0x14, 0x15, 0x1D, 0x1E, 0x20, 0x77, 0xFA, 0xFF])
    {
        for rest in [&b""[..], b"x", &[0xFF; 40]] {
            client.command(command, rest);
            assert_eq!(client.answer().code(), 1047, "{command:#x}");
        }
    }
    client.sequence = 0;
    client.send(b"");
    assert_eq!(client.answer().code(), 1835);
    assert_eq!(client.ping().affected(), 0);
}
