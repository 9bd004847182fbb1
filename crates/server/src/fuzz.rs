//! Entry points for fuzzers: a server without sockets, and a client that sends the fuzzer's bytes.

use std::io::{self, Cursor, Read, Write};
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use rustls::ServerConfig;
use spillway::{Database, Settings};
use spillway_sql::Instance;

use crate::admission::Entrance;
use crate::capabilities as can;
use crate::connection::{Client, Step};
use crate::login::Peer;
use crate::server::{ServerSettings, Shared};
use crate::transport::{Security, Transport};

/// A server that reads its clients' bytes from memory.
pub struct Fed(Arc<Shared>);

/// The bytes that a client sends and receives.
struct Script<'a> {
    input: Cursor<&'a [u8]>,
    output: &'a mut Vec<u8>,
}

impl Read for Script<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.input.read(buf)
    }
}

impl Write for Script<'_> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.output.write(buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Transport for Script<'_> {
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

fn put_packet(out: &mut Vec<u8>, sequence: u8, payload: &[u8]) {
    let [a, b, c, ..] = (payload.len() as u32).to_le_bytes();
    out.extend_from_slice(&[a, b, c, sequence]);
    out.extend_from_slice(payload);
}

impl Fed {
    /// A server over an empty database in memory.
    ///
    /// # Panics
    /// If there is no memory for one.
    #[must_use]
    pub fn in_memory() -> Fed {
        let database = Database::open_in_memory(Settings::default()).expect("memory opens");
        let instance = Instance::open(database).expect("a new catalog opens");
        Fed(Arc::new(Shared::new(instance, ServerSettings::default(), None)))
    }

    /// Serves a client that sends these bytes after the greeting and disconnects. Checks that it
    /// received complete, numbered packets.
    ///
    /// # Panics
    /// If it did not.
    pub fn serve(&self, bytes: &[u8]) {
        let mut output = Vec::new();
        let script = Script { input: Cursor::new(bytes), output: &mut output };
        let peer = Peer { id: 1, address: None, entrance: Entrance::Public };
        let mut client = Client::greet(script, self.0.clone(), peer, Waker::noop().clone());
        let mut step = Step::Again;
        // The client never waits: if no more bytes are available, its input has ended.
        while !matches!(step, Step::End | Step::Waits(_)) {
            step = match step {
                Step::Commits(commit) => {
                    client.committed(commit.wait().map(drop).map_err(Into::into))
                }
                _ => client.step(),
            };
        }
        drop(client);
        let mut rest = output.as_slice();
        let mut next = 0_u8;
        while let Some((head, after)) = rest.split_first_chunk::<4>() {
            let len = u32::from_le_bytes([head[0], head[1], head[2], 0]) as usize;
            assert!(len <= after.len(), "a packet of {len} bytes has {}", after.len());
            // `output` has only the server's packets, and each command restarts the packet numbers.
            let due = [0, 1, next, next.wrapping_add(1)];
            assert!(due.contains(&head[3]), "packet {} after {next}", head[3]);
            next = head[3].wrapping_add(1);
            rest = &after[len..];
        }
        assert!(rest.is_empty(), "half a head");
    }

    /// Serves `root`, which sends these bytes as commands. Each begins with two bytes for its
    /// length.
    pub fn serve_commands(&self, bytes: &[u8]) {
        let capabilities = can::OURS
            & !can::CONNECT_WITH_DB
            & !can::PLUGIN_AUTH_LENENC
            & if bytes.len().is_multiple_of(2) { !can::DEPRECATE_EOF } else { u32::MAX };
        let mut hello = capabilities.to_le_bytes().to_vec();
        hello.extend_from_slice(&[0; 4 + 1 + 19]);
        hello.extend_from_slice(&can::CACHE_METADATA.to_le_bytes());
        hello.extend_from_slice(b"root\0\0mysql_native_password\0");
        let mut stream = Vec::new();
        put_packet(&mut stream, 1, &hello);
        let mut rest = bytes;
        while let Some((len, after)) = rest.split_first_chunk::<2>() {
            let len = usize::from(u16::from_le_bytes(*len)).min(after.len());
            put_packet(&mut stream, 0, &after[..len]);
            rest = &after[len..];
        }
        // The rest is half a packet.
        stream.extend_from_slice(rest);
        self.serve(&stream);
    }
}

#[cfg(test)]
mod tests {
    use spillway_base::rng::Rng;

    use super::*;

    #[test]
    fn random_commands_are_answered_in_packets() {
        let fed = Fed::in_memory();
        let mut rng = Rng::new(8);
        let commands: [&[u8]; 6] = [
            b"\x03SELECT 1, NULL, 'x'",
            b"\x16SELECT ?, ?",
            b"\x17\x01\0\0\0\0\x01\0\0\0\0\x01\x03\0\xFD\0\x01\0\0\0\x01x",
            b"\x18\x01\0\0\0\0\0long",
            b"\x1A\x01\0\0\0",
            b"\x19\x01\0\0\0",
        ];
        for _ in 0..100 {
            let mut bytes = Vec::new();
            for _ in 0..rng.below(12) {
                let mut command = commands[rng.below(6) as usize].to_vec();
                if rng.below(4) == 0 {
                    let at = rng.below(command.len() as u64) as usize;
                    command[at] = rng.below(256) as u8;
                }
                command.truncate(command.len() - rng.below(3) as usize % command.len());
                bytes.extend_from_slice(&(command.len() as u16).to_le_bytes());
                bytes.extend_from_slice(&command);
            }
            fed.serve_commands(&bytes);
            let mut noise = vec![0; rng.below(100) as usize];
            rng.fill(&mut noise);
            fed.serve(&noise);
        }
    }
}
