//! A client of a server over a socket, which counts the answers that it gets.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use spillway_base::clock;

/// What a client waits for, in the order of its commands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Awaited {
    /// An answer that no other client holds up.
    Soon,
    /// An answer that may wait for a row that another client has locked.
    Row,
    /// The answer of a statement that ends once it is killed.
    Killed,
}

enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    fn set_read_timeout(&self, wait: Duration) -> io::Result<()> {
        let wait = Some(wait.max(Duration::from_micros(1)));
        match self {
            Socket::Tcp(socket) => socket.set_read_timeout(wait),
            Socket::Unix(socket) => socket.set_read_timeout(wait),
        }
    }

    fn end(&self) {
        let _ = match self {
            Socket::Tcp(socket) => socket.shutdown(Shutdown::Write),
            Socket::Unix(socket) => socket.shutdown(Shutdown::Write),
        };
    }

    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(socket) => socket.read(bytes),
            Socket::Unix(socket) => socket.read(bytes),
        }
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Socket::Tcp(socket) => socket.write_all(bytes),
            Socket::Unix(socket) => socket.write_all(bytes),
        }
    }
}

pub(crate) struct Client {
    socket: Socket,
    /// The number of the connection.
    pub(crate) id: u32,
    pub(crate) awaited: VecDeque<Awaited>,
    /// Bytes of answers that are not complete.
    input: Vec<u8>,
    /// Bytes of a command that are not sent yet.
    unsent: Vec<u8>,
    /// Whether the server has closed the connection.
    pub(crate) is_closed: bool,
    /// Whether another client may have killed the connection, or this one has ended it.
    pub(crate) may_close: bool,
}

pub(crate) fn packet(sequence: u8, payload: &[u8]) -> Vec<u8> {
    let [a, b, c, _] = (payload.len() as u32).to_le_bytes();
    [&[a, b, c, sequence], payload].concat()
}

pub(crate) fn query(sql: &str) -> Vec<u8> {
    packet(0, &[b"\x03", sql.as_bytes()].concat())
}

/// The first packet, and the bytes behind it.
fn first_packet(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (head, rest) = bytes.split_first_chunk::<4>()?;
    let len = u32::from_le_bytes([head[0], head[1], head[2], 0]) as usize;
    rest.split_at_checked(len)
}

/// The bytes behind the first answer, and whether it is no error; `None` if it is not complete.
fn first_answer(bytes: &[u8]) -> Option<(&[u8], bool)> {
    let is_end = |packet: &[u8]| packet.len() < 9 && packet.first() == Some(&0xfe);
    let (first, mut rest) = first_packet(bytes)?;
    match first.first() {
        Some(0) => return Some((rest, true)),
        Some(0xff) => return Some((rest, false)),
        _ => {}
    }
    // The definitions of the columns, and the rows.
    for _ in 0..2 {
        loop {
            let (packet, after) = first_packet(rest)?;
            rest = after;
            if packet.first() == Some(&0xff) {
                return Some((rest, false));
            }
            if is_end(packet) {
                break;
            }
        }
    }
    Some((rest, true))
}

impl Client {
    /// Connects and logs in, over TCP or over a Unix socket.
    pub(crate) fn connect(to: Result<SocketAddr, &Path>, patience: Duration) -> io::Result<Client> {
        let socket = match to {
            Ok(address) => {
                let socket = TcpStream::connect(address)?;
                socket.set_nodelay(true)?;
                Socket::Tcp(socket)
            }
            Err(path) => Socket::Unix(UnixStream::connect(path)?),
        };
        let mut client = Client {
            socket,
            id: 0,
            awaited: VecDeque::new(),
            input: Vec::new(),
            unsent: Vec::new(),
            is_closed: false,
            may_close: false,
        };
        let until = clock::now() + patience;
        while first_packet(&client.input).is_none() {
            client.read_some(until, "the greeting");
        }
        let (greeting, rest) = first_packet(&client.input).expect("it is there");
        // The protocol's number, and the server's version, which ends with a zero.
        let version = greeting.iter().position(|byte| *byte == 0).expect("a version");
        let id = greeting[version + 1..].first_chunk().expect("a connection's number");
        (client.id, client.input) = (u32::from_le_bytes(*id), rest.to_vec());
        // Protocol 4.1, transactions, secure connection, plugin.
        let mut hello = (1_u32 << 9 | 1 << 13 | 1 << 15 | 1 << 19).to_le_bytes().to_vec();
        hello.extend_from_slice(&[0; 4 + 1 + 19 + 4]);
        hello.extend_from_slice(b"root\0\0mysql_native_password\0");
        client.send(&packet(1, &hello), &[Awaited::Soon]);
        client.wait(until, "the login");
        Ok(client)
    }

    /// Sends a part of a command; [`Client::send`] sends the rest first.
    pub(crate) fn send_part(&mut self, command: &[u8], at: usize, awaited: Awaited) {
        let (now, later) = command.split_at(at % command.len());
        self.send(now, &[]);
        self.unsent = later.to_vec();
        self.awaited.push_back(awaited);
    }

    /// Sends commands, which have these answers.
    pub(crate) fn send(&mut self, commands: &[u8], awaited: &[Awaited]) {
        let mut bytes = std::mem::take(&mut self.unsent);
        bytes.extend_from_slice(commands);
        self.awaited.extend(awaited);
        // Of a connection that was closed, reading says so.
        let _ = self.socket.write_all(&bytes);
    }

    /// Ends the sending side.
    pub(crate) fn end(&mut self) {
        self.send(&[], &[]);
        self.may_close = true;
        self.socket.end();
    }

    /// Whether all its answers come whatever other clients do.
    pub(crate) fn is_free(&self) -> bool {
        self.unsent.is_empty() && self.awaited.iter().all(|awaited| *awaited == Awaited::Soon)
    }

    /// Reads what comes, until an instant at most. Returns whether anything came.
    fn read_some(&mut self, until: Duration, what: &str) -> bool {
        let left = until.saturating_sub(clock::now());
        assert!(!left.is_zero(), "connection {} waits for {what}: {:?}", self.id, self.awaited);
        self.read_within(left)
    }

    fn read_within(&mut self, left: Duration) -> bool {
        self.socket.set_read_timeout(left).expect("a socket");
        let mut bytes = [0; 4096];
        match self.socket.read(&mut bytes) {
            Ok(len @ 1..) => self.input.extend_from_slice(&bytes[..len]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return false;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => return false,
            Ok(0) | Err(_) => self.is_closed = true,
        }
        true
    }

    /// Takes complete answers. A connection that was closed awaits none.
    fn take_answers(&mut self) {
        while let Some((rest, _)) = first_answer(&self.input) {
            self.input = rest.to_vec();
            let awaited = self.awaited.pop_front();
            // A killed connection may get an error that answers no command.
            assert!(awaited.is_some() || self.may_close, "an answer to nothing");
        }
        if self.is_closed {
            assert!(self.may_close, "the server closed connection {}", self.id);
            self.awaited.clear();
        }
    }

    /// Reads answers that are there or come within this time.
    pub(crate) fn look(&mut self, within: Duration) {
        if !self.awaited.is_empty() && !self.is_closed {
            self.read_within(within);
            self.take_answers();
        }
    }

    /// Waits for all answers.
    ///
    /// # Panics
    /// If one is missing at this instant.
    pub(crate) fn wait(&mut self, until: Duration, what: &str) {
        while !self.awaited.is_empty() {
            self.read_some(until, what);
            self.take_answers();
        }
    }

    /// Runs a statement. Returns whether it succeeded.
    pub(crate) fn run(&mut self, sql: &str, until: Duration) -> bool {
        self.wait(until, sql);
        self.send(&query(sql), &[]);
        loop {
            if let Some((rest, succeeded)) = first_answer(&self.input) {
                self.input = rest.to_vec();
                return succeeded;
            }
            self.read_some(until, sql);
        }
    }
}
