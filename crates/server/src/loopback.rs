//! A client within the process: its bytes come from memory and go to memory, without a socket or
//! another thread.
//!
//! It runs the same code as a worker does for a client, from the bytes of a packet to the bytes of
//! the response. So the benchmark of the statement path uses it to measure a statement without
//! system calls.
//!
//! # Guarantees
//!
//! - **LOOPBACK-1.** The response is, byte for byte, the one that a client over a Unix socket would
//!   get.
//! - **LOOPBACK-2.** When [`Loopback::command`] returns, the command is complete: its commit is
//!   acknowledged, and its lock waits are over.
//! - **LOOPBACK-3.** Once its buffers have grown, the loopback allocates no memory of its own for a
//!   command.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use rustls::ServerConfig;
use spillway_base::clock;
use spillway_sql::Instance;

use crate::admission::Entrance;
use crate::capabilities as can;
use crate::connection::{Client, Step};
use crate::login::Peer;
use crate::server::{ServerSettings, Shared};
use crate::transport::{Security, Transport};

/// The bytes to and from a client.
#[derive(Default)]
struct Pipe {
    input: Vec<u8>,
    /// How many bytes of the input were read.
    taken: usize,
    output: Vec<u8>,
}

impl Read for Pipe {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let left = &self.input[self.taken..];
        if left.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let len = left.len().min(buf.len());
        buf[..len].copy_from_slice(&left[..len]);
        self.taken += len;
        Ok(len)
    }
}

impl Write for Pipe {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.output.extend_from_slice(buf);
        Ok(buf.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Transport for Pipe {
    fn is_drained(&self) -> bool {
        self.taken == self.input.len()
    }

    fn set_deadline(&mut self, _deadline: Option<Duration>) {}

    fn set_timeouts(&mut self, _read: Duration, _write: Duration) -> io::Result<()> {
        Ok(())
    }

    fn start_tls(&mut self, _config: &Arc<ServerConfig>) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn security(&self) -> Security {
        Security::Local
    }
}

/// Wakes the client's thread when its suspended statement can continue.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// A client of `root`, connected to an instance from within its process. Only the thread that
/// created it may use it.
pub struct Loopback {
    client: Client<Pipe>,
}

impl Loopback {
    /// Connects as a client that receives the definitions of columns with every result.
    ///
    /// # Errors
    /// If the instance refuses `root` without a password.
    pub fn connect(instance: &Instance, id: u64) -> io::Result<Loopback> {
        let shared = Shared::new(instance.clone(), ServerSettings::default(), None);
        let peer = Peer { id, address: None, entrance: Entrance::Public };
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut client = Client::greet(Pipe::default(), Arc::new(shared), peer, waker);
        let capabilities = can::OURS & !can::CONNECT_WITH_DB & !can::PLUGIN_AUTH_LENENC;
        let mut hello = capabilities.to_le_bytes().to_vec();
        hello.extend_from_slice(&[0; 4 + 1 + 19 + 4]);
        hello.extend_from_slice(b"root\0\0mysql_native_password\0");
        let pipe = client.transport().ok_or(io::ErrorKind::ConnectionRefused)?;
        pipe.output.clear();
        put_packet(&mut pipe.input, 1, &hello);
        let mut loopback = Loopback { client };
        loopback.run()?;
        match loopback.client.transport() {
            Some(pipe) if pipe.output.get(4) == Some(&0) => Ok(loopback),
            _ => Err(io::ErrorKind::PermissionDenied.into()),
        }
    }

    /// Sends a command, given without packet heads, and returns the packets of the response.
    ///
    /// # Errors
    /// If the connection has ended.
    pub fn command(&mut self, payload: &[u8]) -> io::Result<&[u8]> {
        let pipe = self.client.transport().ok_or(io::ErrorKind::NotConnected)?;
        pipe.output.clear();
        put_packet(&mut pipe.input, 0, payload);
        self.run()?;
        Ok(self.client.transport().map_or(&[], |pipe| pipe.output.as_slice()))
    }

    /// Serves the client until all of its input is processed.
    fn run(&mut self) -> io::Result<()> {
        self.client.stir(false);
        let mut step = self.client.step();
        loop {
            step = match step {
                Step::Again | Step::Answers(_) => self.client.step(),
                Step::Commits(commit) => {
                    self.client.committed(commit.wait().map(drop).map_err(Into::into))
                }
                Step::Locked(until) => {
                    std::thread::park_timeout(until.saturating_sub(clock::now()));
                    self.client.step()
                }
                Step::Waits(_) => {
                    if let Some(pipe) = self.client.transport() {
                        pipe.input.clear();
                        pipe.taken = 0;
                    }
                    return Ok(());
                }
                Step::End => return Err(io::ErrorKind::ConnectionAborted.into()),
            };
        }
    }
}

/// Appends a packet, or several for a command that is too long for one.
fn put_packet(out: &mut Vec<u8>, mut sequence: u8, mut payload: &[u8]) {
    const MOST: usize = 0xFF_FFFF;
    loop {
        let (now, later) = payload.split_at(payload.len().min(MOST));
        let [a, b, c, ..] = (now.len() as u32).to_le_bytes();
        out.extend_from_slice(&[a, b, c, sequence]);
        out.extend_from_slice(now);
        if now.len() < MOST {
            return;
        }
        (payload, sequence) = (later, sequence.wrapping_add(1));
    }
}

#[cfg(test)]
mod tests {
    use spillway::{Database, Settings};

    use super::*;

    fn instance() -> Instance {
        Instance::open(Database::open_in_memory(Settings::default()).unwrap()).unwrap()
    }

    /// LOOPBACK-1, LOOPBACK-2.
    #[test]
    fn a_command_is_answered_to_its_end() {
        let instance = instance();
        let mut client = Loopback::connect(&instance, 1).unwrap();
        assert_eq!(client.command(b"\x0E").unwrap(), [7, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0]);
        client.command(b"\x03CREATE TABLE test.t (a INT PRIMARY KEY)").unwrap();
        let inserted = client.command(b"\x03INSERT INTO test.t VALUES (7)").unwrap();
        assert_eq!(inserted, [7, 0, 0, 1, 0, 1, 0, 2, 0, 0, 0]);
        let answer = client.command(b"\x03SELECT a FROM test.t").unwrap();
        // The number of columns, the column, the row, the end.
        assert_eq!(&answer[..5], [1, 0, 0, 1, 1]);
        let row = answer.len() - 17;
        assert_eq!(&answer[row..row + 6], [2, 0, 0, 3, 1, b'7'], "{answer:?}");
        assert!(client.command(b"\x01").is_err());
        assert!(client.command(b"\x0E").is_err());
    }

    #[test]
    fn a_row_is_waited_for() {
        let instance = instance();
        let mut first = Loopback::connect(&instance, 1).unwrap();
        for sql in [
            "CREATE TABLE test.t (a INT PRIMARY KEY, b INT)",
            "INSERT INTO test.t VALUES (1, 1)",
            "BEGIN",
            "UPDATE test.t SET b = 2",
        ] {
            let command = [b"\x03", sql.as_bytes()].concat();
            assert_eq!(first.command(&command).unwrap()[4], 0, "{sql}");
        }
        std::thread::scope(|scope| {
            let instance = &instance;
            let second = scope.spawn(move || {
                let mut second = Loopback::connect(instance, 2).unwrap();
                second.command(b"\x03UPDATE test.t SET b = b + 1").unwrap()[4]
            });
            first.command(b"\x03COMMIT").unwrap();
            assert_eq!(second.join().unwrap(), 0);
        });
    }
}
