//! A minimal MySQL client for benchmarks.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// The transport of a connection.
enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Stream {
    fn set_nonblocking(&self) -> io::Result<()> {
        match self {
            Stream::Unix(stream) => stream.set_nonblocking(true),
            Stream::Tcp(stream) => stream.set_nonblocking(true),
        }
    }

    fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Unix(stream) => stream.as_fd(),
            Stream::Tcp(stream) => stream.as_fd(),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.read(bytes),
            Stream::Tcp(stream) => stream.read(bytes),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.write(bytes),
            Stream::Tcp(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A connection with at most one statement in flight.
pub(crate) struct Client {
    stream: Stream,
    /// Received bytes that were not parsed.
    input: Vec<u8>,
    output: Vec<u8>,
    /// For a result with rows: the end markers, of columns and of rows, that are still to come.
    ends_left: Option<u8>,
}

/// Rows of one statement that fills a table.
const ROWS_TOGETHER: u64 = 250;

const PROTOCOL_41: u32 = 1 << 9;
const SECURE_CONNECTION: u32 = 1 << 15;
const QUERY: u8 = 3;
const OK: u8 = 0;
const AUTH_SWITCH: u8 = 0xfe;
const ERR: u8 = 0xff;
const END: u8 = 0xfe;

impl Client {
    /// Connects as root, which has no password.
    pub(crate) fn connect(socket: &Path) -> Result<Client, String> {
        let stream = UnixStream::connect(socket)
            .map_err(|error| format!("{}: {error}", socket.display()))?;
        Client::log_in(Stream::Unix(stream))
    }

    /// The same by TCP, to a server on this machine.
    pub(crate) fn connect_tcp(port: u16) -> Result<Client, String> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))
            .and_then(|stream| stream.set_nodelay(true).map(|()| stream))
            .map_err(|error| format!("port {port}: {error}"))?;
        Client::log_in(Stream::Tcp(stream))
    }

    fn log_in(stream: Stream) -> Result<Client, String> {
        let mut client = Client { stream, input: Vec::new(), output: Vec::new(), ends_left: None };
        let (sequence, greeting) = client.packet()?;
        check(&greeting)?;
        let mut hello = (PROTOCOL_41 | SECURE_CONNECTION).to_le_bytes().to_vec();
        // The largest packet, the character set (utf8mb4) and the reserved bytes; the name; no
        // password.
        hello.extend_from_slice(&(1_u32 << 24).to_le_bytes());
        hello.push(45);
        hello.extend_from_slice(&[0; 23]);
        hello.extend_from_slice(b"root\0\0");
        client.send(sequence + 1, &[&hello])?;
        let (sequence, answer) = client.packet()?;
        if answer.first() == Some(&AUTH_SWITCH) {
            client.send(sequence + 1, &[])?;
            check(&client.packet()?.1)?;
        } else {
            check(&answer)?;
        }
        Ok(client)
    }

    /// Makes the socket non-blocking.
    pub(crate) fn set_nonblocking(&mut self) -> Result<(), String> {
        self.stream.set_nonblocking().map_err(|error| error.to_string())
    }

    /// The server's process, for a connection by a Unix socket.
    pub(crate) fn server(&self) -> Option<u32> {
        let peer = rustix::net::sockopt::socket_peercred(self.stream.fd()).ok()?;
        u32::try_from(peer.pid.as_raw_nonzero().get()).ok()
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.stream.fd()
    }

    /// Sends a statement. The socket has room for it, since no other is in flight.
    pub(crate) fn query(&mut self, sql: &[u8]) -> Result<(), String> {
        self.send(0, &[&[QUERY], sql])
    }

    /// The outcome of a statement, if it has been received completely.
    pub(crate) fn outcome(&mut self) -> Result<Option<()>, String> {
        let mut bytes = [0; 1024];
        match self.stream.read(&mut bytes) {
            Ok(0) => return Err("the server closed a connection".to_owned()),
            Ok(length) => self.input.extend_from_slice(&bytes[..length]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.to_string()),
        }
        while let Some((_, packet)) = self.take() {
            let is_end = packet.first() == Some(&END) && packet.len() < 9;
            match self.ends_left.take() {
                // The number of columns: the ends of the columns and of the rows follow.
                None if matches!(packet[..], [1..=250]) => self.ends_left = Some(2),
                None => return check(&packet).map(Some),
                Some(_) if packet.first() == Some(&ERR) => return check(&packet).map(Some),
                Some(1) if is_end => return Ok(Some(())),
                Some(left) => self.ends_left = Some(left - u8::from(is_end)),
            }
        }
        Ok(None)
    }

    /// Runs a statement without rows.
    pub(crate) fn run(&mut self, sql: &str) -> Result<(), String> {
        self.query(sql.as_bytes())?;
        let (_, answer) = self.packet()?;
        check(&answer).map_err(|error| format!("{sql}: {error}"))
    }

    /// Creates a table with this number of rows. `row` writes the values of a row by its number,
    /// and `told` receives the number of rows added.
    pub(crate) fn make_table(
        &mut self,
        (table, columns): (&str, &str),
        rows: u64,
        mut row: impl FnMut(&mut String, u64),
        told: impl Fn(u64),
    ) -> Result<(), String> {
        self.run("CREATE DATABASE IF NOT EXISTS bench")?;
        self.run(&format!("DROP TABLE IF EXISTS bench.{table}"))?;
        self.run(&format!("CREATE TABLE bench.{table} ({columns})"))?;
        for first in (0..rows).step_by(ROWS_TOGETHER as usize) {
            let last = (first + ROWS_TOGETHER).min(rows);
            let mut insert = format!("INSERT INTO bench.{table} VALUES ");
            for number in first..last {
                insert.push_str(if number > first { ",(" } else { "(" });
                row(&mut insert, number);
                insert.push(')');
            }
            self.run(&insert)?;
            told(last - first);
        }
        Ok(())
    }

    /// Runs a statement whose answer is one number.
    pub(crate) fn number(&mut self, sql: &str) -> Result<u64, String> {
        self.query(sql.as_bytes())?;
        let (_, columns) = self.packet()?;
        if columns.first() == Some(&ERR) {
            check(&columns)?;
        }
        // The column, the end of the columns, the row, the end of the rows.
        let packets = (0..4).map(|_| self.packet()).collect::<Result<Vec<_>, _>>()?;
        // The length of a short text is one byte.
        let text = packets[2].1.get(1..).unwrap_or_default();
        let text = String::from_utf8_lossy(text);
        text.parse().map_err(|_| format!("{sql}: {text:?} is no number"))
    }

    /// A value of SHOW GLOBAL STATUS, if the server has one of this name.
    pub(crate) fn status(&mut self, name: &str) -> Result<Option<String>, String> {
        self.query(format!("SHOW GLOBAL STATUS LIKE '{name}'").as_bytes())?;
        let (_, columns) = self.packet()?;
        if columns.first() == Some(&ERR) {
            check(&columns)?;
        }
        let (mut ends, mut figure) = (0, None);
        while ends < 2 {
            let (_, packet) = self.packet()?;
            if packet.first() == Some(&END) && packet.len() < 9 {
                ends += 1;
            } else if ends == 1 {
                // Two short texts: the name and the value.
                let value = packet.get(2 + name.len()..).unwrap_or_default();
                figure = Some(String::from_utf8_lossy(value).into_owned());
            }
        }
        Ok(figure)
    }

    fn send(&mut self, sequence: u8, parts: &[&[u8]]) -> Result<(), String> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        self.output.clear();
        self.output.extend_from_slice(&(length as u32).to_le_bytes()[..3]);
        self.output.push(sequence);
        parts.iter().for_each(|part| self.output.extend_from_slice(part));
        self.stream.write_all(&self.output).map_err(|error| error.to_string())
    }

    /// The next complete packet: its number and its payload.
    fn take(&mut self) -> Option<(u8, Vec<u8>)> {
        let head = self.input.first_chunk::<4>()?;
        let length = u32::from_le_bytes([head[0], head[1], head[2], 0]) as usize;
        let sequence = head[3];
        if self.input.len() < 4 + length {
            return None;
        }
        let payload = self.input[4..4 + length].to_vec();
        self.input.drain(..4 + length);
        Some((sequence, payload))
    }

    fn packet(&mut self) -> Result<(u8, Vec<u8>), String> {
        loop {
            if let Some(packet) = self.take() {
                return Ok(packet);
            }
            let mut bytes = [0; 4096];
            match self.stream.read(&mut bytes).map_err(|error| error.to_string())? {
                0 => return Err("the server closed a connection".to_owned()),
                length => self.input.extend_from_slice(&bytes[..length]),
            }
        }
    }
}

/// Checks that a packet is not an error.
fn check(packet: &[u8]) -> Result<(), String> {
    match packet.split_first() {
        Some((&ERR, error)) => {
            // The number, a mark and the SQLSTATE are before the text.
            let text = error.get(8..).unwrap_or(error);
            Err(String::from_utf8_lossy(text).into_owned())
        }
        // A greeting begins with the protocol's version.
        Some((&OK | &10, _)) => Ok(()),
        _ => Err("an answer that was not expected".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Client, UnixStream) {
        let (stream, server) = UnixStream::pair().unwrap();
        let stream = Stream::Unix(stream);
        (Client { stream, input: Vec::new(), output: Vec::new(), ends_left: None }, server)
    }

    #[test]
    fn an_answer_may_come_in_pieces_and_two_at_once() {
        let (mut client, mut server) = pair();
        client.set_nonblocking().unwrap();
        assert_eq!(client.outcome(), Ok(None));
        let ok = [3, 0, 0, 1, OK, 0, 0];
        for byte in &ok[..6] {
            server.write_all(&[*byte]).unwrap();
            assert_eq!(client.outcome(), Ok(None));
        }
        server.write_all(&ok[6..]).unwrap();
        assert_eq!(client.outcome(), Ok(Some(())));
        server.write_all(&[&ok[..], &ok[..]].concat()).unwrap();
        assert_eq!(client.outcome(), Ok(Some(())));
        assert_eq!(client.outcome(), Ok(Some(())));
        server.write_all(b"\x0c\0\0\x01\xff\x28\x04#42000bad").unwrap();
        assert_eq!(client.outcome(), Err("bad".to_owned()));
        drop(server);
        assert!(client.outcome().unwrap_err().contains("closed"));
    }

    #[test]
    fn rows_end_with_their_second_end() {
        let (mut client, mut server) = pair();
        client.set_nonblocking().unwrap();
        for packet in [&[1][..], b"what the column is", &[END, 0, 0, 0, 0], b"\x01x"] {
            server.write_all(&[packet.len() as u8, 0, 0, 1]).unwrap();
            server.write_all(packet).unwrap();
            assert_eq!(client.outcome(), Ok(None));
        }
        server.write_all(&[5, 0, 0, 5, END, 0, 0, 0, 0]).unwrap();
        assert_eq!(client.outcome(), Ok(Some(())));
        server.write_all(&[3, 0, 0, 1, OK, 0, 0]).unwrap();
        assert_eq!(client.outcome(), Ok(Some(())));
    }

    #[test]
    fn statements_are_framed() {
        let (mut client, mut server) = pair();
        client.query(b"COMMIT").unwrap();
        let mut bytes = [0; 11];
        server.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"\x07\0\0\0\x03COMMIT");
    }
}
