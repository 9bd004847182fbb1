//! A stream of bytes from and to one client, which may switch to TLS: a socket, or memory in tests
//! and measurements.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::socket_incoming_cpu;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustls::{ServerConfig, ServerConnection};
use spillway_base::clock;
use spillway_base::thread::blocking;

/// The security of a client's connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Security {
    /// Unencrypted, over a network.
    Plain,
    /// Unencrypted, within this machine's kernel.
    Local,
    /// TLS, with its version and cipher.
    Tls(&'static str, &'static str),
}

/// A stream of bytes from and to a client. Reads and writes block, and report that to the thread's
/// pool.
pub(crate) trait Transport: Read + Write {
    /// Reports that bytes may have arrived that [`Transport::try_read`] has not read; with `ended`,
    /// no more come after them.
    fn stir(&mut self, _ended: bool) {}

    /// Reads the bytes that have arrived. Returns [`io::ErrorKind::WouldBlock`] if there are none;
    /// then it does so until [`Transport::stir`].
    fn try_read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.read(buf)
    }

    /// Whether [`Transport::try_read`] returns nothing until [`Transport::stir`].
    fn is_drained(&self) -> bool {
        false
    }

    /// From this time of [`clock::now`] on, reads fail, even if bytes keep arriving.
    fn set_deadline(&mut self, deadline: Option<Duration>);

    /// A read fails after the time `read` without a byte from the client. A write fails after the
    /// time `write` in which the client accepted no byte.
    fn set_timeouts(&mut self, read: Duration, write: Duration) -> io::Result<()>;

    /// Waits for this time. Returns an error if the client disconnects before.
    fn wait_for_end(&mut self, wait: Duration) -> io::Result<()> {
        blocking(|| clock::Clock::system().sleep(wait));
        Ok(())
    }

    /// Continues in TLS.
    fn start_tls(&mut self, config: &Arc<ServerConfig>) -> io::Result<()>;

    fn security(&self) -> Security;

    /// The socket to which the caller may send bytes for the client directly. The caller reports
    /// the result to [`Transport::posted`].
    fn direct(&self) -> Option<&Raw> {
        None
    }

    /// Records how many bytes were sent to [`Transport::direct`]. After an error, nothing more is
    /// sent.
    fn posted(&mut self, _sent: Result<usize, Errno>) {}
}

/// The bytes received and sent by a whole server.
#[derive(Default)]
pub(crate) struct Traffic {
    pub(crate) received: AtomicU64,
    pub(crate) sent: AtomicU64,
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// A socket that the connection's worker reads and writes, and that other threads may shut down.
pub(crate) struct Raw {
    stream: Stream,
    /// Whether the client is on this machine and connected over TCP.
    looped: bool,
    /// Whether a thread waits for the client to accept bytes.
    writing: AtomicBool,
    /// Whether no thread may begin to wait for the client any more.
    woken: AtomicBool,
}

impl AsFd for Raw {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.stream {
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Unix(stream) => stream.as_fd(),
        }
    }
}

impl From<TcpStream> for Raw {
    fn from(stream: TcpStream) -> Raw {
        let ip = |address: io::Result<SocketAddr>| address.ok().map(|address| address.ip());
        let (ours, theirs) = (ip(stream.local_addr()), ip(stream.peer_addr()));
        Raw::over(Stream::Tcp(stream), theirs.is_some() && ours == theirs)
    }
}

impl From<UnixStream> for Raw {
    fn from(stream: UnixStream) -> Raw {
        Raw::over(Stream::Unix(stream), false)
    }
}

impl Raw {
    fn over(stream: Stream, looped: bool) -> Raw {
        Raw { stream, looped, writing: AtomicBool::new(false), woken: AtomicBool::new(false) }
    }

    fn shut(&self, how: Shutdown) {
        // If the shutdown fails, the socket is shut down already.
        let _ = match &self.stream {
            Stream::Tcp(stream) => stream.shutdown(how),
            Stream::Unix(stream) => stream.shutdown(how),
        };
    }

    /// The core from which the client last sent something. Known only for a client on this machine.
    pub(crate) fn sent_from(&self) -> Option<usize> {
        // For other clients this would be the core of the network's interrupts, which may be the
        // same core for all clients.
        let core = self.looped.then(|| socket_incoming_cpu(self))?;
        core.ok()?.try_into().ok()
    }

    /// Ends a thread's wait for the client. The connection then reads nothing more. It still writes
    /// its output, unless a write waits for the client.
    pub(crate) fn wake(&self) {
        // A thread that is about to wait checks this, and so does not begin to.
        self.woken.store(true, Ordering::SeqCst);
        self.shut(if self.writing.load(Ordering::SeqCst) {
            Shutdown::Both
        } else {
            Shutdown::Read
        });
    }

    /// Whether the client has closed its side, or the connection has failed. This checks the socket
    /// itself, and takes no event from epoll.
    pub(crate) fn is_gone(&self) -> bool {
        let flags = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
        let mut looked = [PollFd::new(self, flags)];
        poll(&mut looked, Some(&Timespec::default())).is_ok()
            && looked[0].revents().intersects(flags)
    }

    /// Waits for the connection's end, or for this time. Returns whether the connection has ended.
    fn ends_within(&self, wait: Duration) -> io::Result<bool> {
        let until = clock::now() + wait;
        let flags = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
        loop {
            let left = until.saturating_sub(clock::now());
            if left.is_zero() {
                return Ok(false);
            }
            let left = Timespec::try_from(left).map_err(io::Error::other)?;
            let mut end = [PollFd::new(self, flags)];
            match poll(&mut end, Some(&left)) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => return Ok(true),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Shuts the socket down in both directions.
    pub(crate) fn close(&self) {
        self.shut(Shutdown::Both);
    }

    fn set_read_timeout(&self, read: Duration) -> io::Result<()> {
        match &self.stream {
            Stream::Tcp(stream) => stream.set_read_timeout(Some(read)),
            Stream::Unix(stream) => stream.set_read_timeout(Some(read)),
        }
    }

    fn set_timeouts(&self, read: Duration, write: Duration) -> io::Result<()> {
        match &self.stream {
            Stream::Tcp(stream) => {
                stream.set_read_timeout(Some(read))?;
                stream.set_write_timeout(Some(write))
            }
            Stream::Unix(stream) => {
                stream.set_read_timeout(Some(read))?;
                stream.set_write_timeout(Some(write))
            }
        }
    }
}

/// A client's socket.
pub(crate) struct Socket {
    raw: Arc<Raw>,
    tls: Option<Box<ServerConnection>>,
    deadline: Option<Duration>,
    /// Whether a write failed. The stream to the client is then incomplete, so nothing more is
    /// written, not even TLS's closing message. So ending the connection does not wait for a client
    /// that accepts nothing.
    cut: bool,
    /// Whether all bytes that had arrived were read.
    drained: bool,
    /// Whether the end of the client's stream was reported: no later event will report more to
    /// read.
    ended: bool,
    traffic: Arc<Traffic>,
    /// The read timeout, as it was set.
    read_timeout: Duration,
    lingers: Linger,
    /// Received bytes that are not yet added to `traffic`, which all connections share.
    received: u64,
    sent: u64,
}

/// Whether [`Transport::try_read`] waits for bytes, with the timeout that is set on the socket.
#[derive(Clone, Copy)]
enum Linger {
    Never,
    /// The next call waits; later ones do not.
    Next(Duration),
    /// The last call waited, and bytes came.
    Heard(Duration),
    /// The last call waited, and nothing came.
    InVain(Duration),
}

impl Linger {
    fn most(self) -> Option<Duration> {
        match self {
            Linger::Never => None,
            Linger::Next(most) | Linger::Heard(most) | Linger::InVain(most) => Some(most),
        }
    }
}

/// Bytes are added to the shared counters when this many have come together.
const TELL_AT: u64 = 16 << 10;

impl Socket {
    pub(crate) fn new(raw: Arc<Raw>, traffic: Arc<Traffic>) -> Socket {
        Socket {
            raw,
            tls: None,
            deadline: None,
            cut: false,
            drained: false,
            ended: false,
            read_timeout: Duration::MAX,
            lingers: Linger::Never,
            traffic,
            received: 0,
            sent: 0,
        }
    }

    /// The socket itself.
    pub(crate) fn raw(&self) -> Arc<Raw> {
        self.raw.clone()
    }

    /// Makes the next [`Transport::try_read`] wait until bytes come, for at most `most`: one system
    /// call that waits and reads costs less than two. Not for TLS. Other reads keep their timeout.
    pub(crate) fn linger(&mut self, most: Duration) -> io::Result<()> {
        if self.lingers.most() != Some(most) {
            self.raw.set_read_timeout(most)?;
        }
        self.lingers = Linger::Next(most);
        self.drained = false;
        Ok(())
    }

    /// Whether the last read that waited in this way ended without bytes.
    pub(crate) fn lingered_in_vain(&self) -> bool {
        matches!(self.lingers, Linger::InVain(_))
    }

    /// Restores the read timeout from before [`Socket::linger`].
    pub(crate) fn end_linger(&mut self) -> io::Result<()> {
        match std::mem::replace(&mut self.lingers, Linger::Never) {
            Linger::Never => Ok(()),
            _ => self.raw.set_read_timeout(self.read_timeout),
        }
    }

    fn tell(&mut self, at: u64) {
        if self.received + self.sent >= at {
            self.traffic.received.fetch_add(std::mem::take(&mut self.received), Ordering::Relaxed);
            self.traffic.sent.fetch_add(std::mem::take(&mut self.sent), Ordering::Relaxed);
        }
    }

    /// The TLS layer, if there is one, over the socket.
    fn split(&mut self) -> (Option<&mut ServerConnection>, Plain<'_>) {
        let Socket { raw, tls, deadline, cut, received, sent, read_timeout, lingers, .. } = self;
        let patience = lingers.most().map(|_| *read_timeout);
        (tls.as_deref_mut(), Plain { raw, deadline: *deadline, patience, cut, received, sent })
    }
}

/// The socket below TLS.
struct Plain<'a> {
    raw: &'a Raw,
    deadline: Option<Duration>,
    /// How long a read waits in all, if the socket's own timeout is shorter.
    patience: Option<Duration>,
    cut: &'a mut bool,
    received: &'a mut u64,
    sent: &'a mut u64,
}

impl Plain<'_> {
    fn meet_deadline(&self) -> io::Result<()> {
        let Some(deadline) = self.deadline else { return Ok(()) };
        let left = deadline.saturating_sub(clock::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.raw.set_timeouts(left, left)
    }
}

impl Read for Plain<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.meet_deadline()?;
        let began = self.patience.map(|_| clock::now());
        let is_over = || began.is_none_or(|at| Some(clock::now() - at) >= self.patience);
        let read = blocking(|| {
            loop {
                match recv(self.raw, &mut *buf, RecvFlags::empty()) {
                    Err(Errno::AGAIN) if !is_over() => {}
                    read => return read,
                }
            }
        });
        let read = read.map(|(read, _)| read).map_err(io::Error::from);
        *self.received += *read.as_ref().unwrap_or(&0) as u64;
        read
    }
}

impl Write for Plain<'_> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        if *self.cut {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let sent = self.meet_deadline().and_then(|()| self.write_once(buf));
        *self.cut = sent.as_ref().is_err_and(|error| error.kind() != io::ErrorKind::Interrupted);
        *self.sent += *sent.as_ref().unwrap_or(&0) as u64;
        sent
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Plain<'_> {
    fn write_once(&self, buf: &[u8]) -> io::Result<usize> {
        match send(self.raw, buf, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Err(Errno::AGAIN) => {}
            sent => return Ok(sent?),
        }
        self.raw.writing.store(true, Ordering::SeqCst);
        let sent = if self.raw.woken.load(Ordering::SeqCst) {
            Err(Errno::PIPE)
        } else {
            blocking(|| send(self.raw, buf, SendFlags::NOSIGNAL))
        };
        self.raw.writing.store(false, Ordering::SeqCst);
        Ok(sent?)
    }

    /// Reads the available bytes without waiting.
    fn read_now(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.read_with(buf, RecvFlags::DONTWAIT)
    }

    fn read_with(&mut self, buf: &mut [u8], flags: RecvFlags) -> io::Result<usize> {
        let (read, _) = recv(self.raw, buf, flags)?;
        *self.received += read as u64;
        Ok(read)
    }
}

/// The socket below TLS, for reads that do not wait.
struct Now<'a, 'b>(&'a mut Plain<'b>);

impl Read for Now<'_, '_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.read_now(buf)
    }
}

/// Reads bytes that TLS has decrypted, or can decrypt from the bytes that have arrived.
fn read_tls_now(
    tls: &mut ServerConnection,
    plain: &mut Plain<'_>,
    buf: &mut [u8],
) -> io::Result<usize> {
    loop {
        match tls.reader().read(buf) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            read => return read,
        }
        tls.read_tls(&mut Now(plain))?;
        let outcome = tls.process_new_packets().map_err(io::Error::other);
        while tls.wants_write() {
            tls.write_tls(plain)?;
        }
        outcome?;
    }
}

impl Read for Socket {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = match self.split() {
            (None, mut plain) => plain.read(buf),
            (Some(tls), mut plain) => rustls::Stream::new(tls, &mut plain).read(buf),
        };
        self.drained = false;
        self.tell(TELL_AT);
        read
    }
}

impl Write for Socket {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        match self.split() {
            (None, mut plain) => plain.write(buf),
            (Some(tls), mut plain) => rustls::Stream::new(tls, &mut plain).write(buf),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.split() {
            (None, _) => Ok(()),
            (Some(tls), mut plain) => rustls::Stream::new(tls, &mut plain).flush(),
        }
    }
}

impl Transport for Socket {
    fn stir(&mut self, ended: bool) {
        self.drained = false;
        self.ended |= ended;
    }

    fn is_drained(&self) -> bool {
        self.drained
    }

    fn try_read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.drained {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let lingers = self.lingers;
        let read = match (self.split(), lingers) {
            ((None, mut plain), Linger::Next(_)) => plain.read_with(buf, RecvFlags::empty()),
            ((None, mut plain), _) => plain.read_now(buf),
            ((Some(tls), mut plain), _) => read_tls_now(tls, &mut plain, buf),
        };
        if let Linger::Next(most) = lingers {
            let heard = read.is_ok();
            self.lingers = if heard { Linger::Heard(most) } else { Linger::InVain(most) };
        }
        // Fewer bytes than requested mean that the socket has no more. TLS may have more.
        let all = match &read {
            Ok(read) => self.tls.is_none() && *read < buf.len(),
            Err(error) => error.kind() == io::ErrorKind::WouldBlock,
        };
        self.drained = all && !self.ended;
        self.tell(TELL_AT);
        read
    }

    fn set_deadline(&mut self, deadline: Option<Duration>) {
        self.deadline = deadline;
    }

    fn set_timeouts(&mut self, read: Duration, write: Duration) -> io::Result<()> {
        self.read_timeout = read;
        self.raw.set_timeouts(self.lingers.most().unwrap_or(read), write)
    }

    fn wait_for_end(&mut self, wait: Duration) -> io::Result<()> {
        let ended = blocking(|| self.raw.ends_within(wait))?;
        if ended { Err(io::ErrorKind::ConnectionAborted.into()) } else { Ok(()) }
    }

    fn start_tls(&mut self, config: &Arc<ServerConfig>) -> io::Result<()> {
        let tls = ServerConnection::new(config.clone()).map_err(io::Error::other)?;
        self.tls = Some(Box::new(tls));
        if let (Some(tls), mut plain) = self.split() {
            while tls.is_handshaking() {
                tls.complete_io(&mut plain)?;
            }
        }
        Ok(())
    }

    fn direct(&self) -> Option<&Raw> {
        let direct = self.tls.is_none() && !self.cut && self.deadline.is_none();
        direct.then_some(&self.raw)
    }

    fn posted(&mut self, sent: Result<usize, Errno>) {
        self.cut = sent.is_err();
        self.sent += sent.unwrap_or(0) as u64;
        self.tell(TELL_AT);
    }

    fn security(&self) -> Security {
        let version = |tls: &ServerConnection| {
            let old = tls.protocol_version() == Some(rustls::ProtocolVersion::TLSv1_2);
            if old { "TLSv1.2" } else { "TLSv1.3" }
        };
        match (&self.tls, &self.raw.stream) {
            (Some(tls), _) => Security::Tls(version(tls), cipher(tls)),
            (None, Stream::Unix(_)) => Security::Local,
            (None, Stream::Tcp(_)) => Security::Plain,
        }
    }
}

/// A cipher's name as MySQL and its clients write it.
fn cipher(tls: &ServerConnection) -> &'static str {
    use rustls::CipherSuite as C;
    match tls.negotiated_cipher_suite().map(|suite| suite.suite()) {
        Some(C::TLS13_AES_256_GCM_SHA384) => "TLS_AES_256_GCM_SHA384",
        Some(C::TLS13_AES_128_GCM_SHA256) => "TLS_AES_128_GCM_SHA256",
        Some(C::TLS13_CHACHA20_POLY1305_SHA256) => "TLS_CHACHA20_POLY1305_SHA256",
        Some(C::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384) => "ECDHE-ECDSA-AES256-GCM-SHA384",
        Some(C::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256) => "ECDHE-ECDSA-AES128-GCM-SHA256",
        Some(C::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256) => "ECDHE-ECDSA-CHACHA20-POLY1305",
        Some(C::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384) => "ECDHE-RSA-AES256-GCM-SHA384",
        Some(C::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256) => "ECDHE-RSA-AES128-GCM-SHA256",
        Some(C::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256) => "ECDHE-RSA-CHACHA20-POLY1305",
        other => other.and_then(|suite| suite.as_str()).unwrap_or("unknown"),
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if let (Some(tls), mut plain) = self.split() {
            // This fails if the client has disconnected.
            tls.send_close_notify();
            let _ = tls.write_tls(&mut plain);
        }
        self.tell(0);
    }
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;
    use rustls::{ClientConfig, ClientConnection, RootCertStore};
    use spillway_base::thread;

    use super::*;
    use crate::tls::TlsFiles;

    #[test]
    fn after_a_write_that_failed_nothing_more_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let files = TlsFiles::self_signed(folder.path()).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(&files.cert).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = "localhost".try_into().unwrap();
        let mut tls = ClientConnection::new(Arc::new(config), name).unwrap();
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let client = thread::spawn("client", move || {
            while tls.is_handshaking() {
                tls.complete_io(&mut theirs).unwrap();
            }
            theirs
        });
        let mut socket = Socket::new(Arc::new(ours.into()), Arc::default());
        socket.start_tls(&files.config().unwrap()).unwrap();
        let mut theirs = client.unwrap().join().unwrap();
        socket.set_timeouts(Duration::from_secs(30), Duration::from_millis(50)).unwrap();
        while socket.write_all(&[0; 1 << 16]).and_then(|()| socket.flush()).is_ok() {}
        // The socket has room again, but the client could not decode what would follow.
        theirs.set_nonblocking(true).unwrap();
        while theirs.read(&mut [0; 1 << 16]).is_ok() {}
        drop(socket);
        let mut more = Vec::new();
        theirs.read_to_end(&mut more).unwrap();
        assert_eq!(more.len(), 0);
    }

    #[test]
    fn a_wait_ends_early_with_the_client_or_when_the_socket_is_closed() {
        const LONG: Duration = Duration::from_secs(60);
        let socket = || {
            let (ours, theirs) = UnixStream::pair().unwrap();
            (Socket::new(Arc::new(ours.into()), Arc::default()), theirs)
        };
        let (mut waits, _theirs) = socket();
        waits.wait_for_end(Duration::from_millis(1)).unwrap();
        let (mut left, theirs) = socket();
        drop(theirs);
        assert!(left.wait_for_end(LONG).is_err());
        let (mut closed, _theirs) = socket();
        let raw = closed.raw();
        let waits = thread::spawn("waits", move || closed.wait_for_end(LONG)).unwrap();
        raw.close();
        assert!(waits.join().unwrap().is_err());
    }

    #[test]
    fn a_read_that_lingers_waits_once_and_others_as_long_as_always() {
        // A multiple of the tick at any of the system's timer rates.
        const SHORT: Duration = Duration::from_millis(20);
        const LONG: Duration = Duration::from_secs(30);
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let view = ours.try_clone().unwrap();
        let mut socket = Socket::new(Arc::new(ours.into()), Arc::default());
        socket.set_timeouts(LONG, LONG).unwrap();
        let mut buf = [0; 8];
        let kind = |read: io::Result<usize>| read.map_err(|error| error.kind());

        socket.linger(SHORT).unwrap();
        assert_eq!(kind(socket.try_read(&mut buf)), Err(io::ErrorKind::WouldBlock));
        assert!(socket.lingered_in_vain() && socket.is_drained());

        socket.linger(SHORT).unwrap();
        theirs.write_all(&[1; 8]).unwrap();
        assert_eq!(kind(socket.try_read(&mut buf)), Ok(8));
        assert!(!socket.lingered_in_vain() && !socket.is_drained());
        assert_eq!(kind(socket.try_read(&mut buf)), Err(io::ErrorKind::WouldBlock));
        assert!(!socket.lingered_in_vain(), "that one did not linger");

        // The end of the stream also ends the wait.
        let late = thread::spawn("client", move || {
            clock::Clock::system().sleep(3 * SHORT);
            theirs.write_all(&[2; 3]).unwrap();
            theirs
        });
        assert_eq!(kind(socket.read(&mut buf)), Ok(3), "a read that blocks is not cut short");
        drop(late.unwrap().join().unwrap());
        socket.linger(SHORT).unwrap();
        assert_eq!(kind(socket.try_read(&mut buf)), Ok(0));
        assert!(!socket.lingered_in_vain());

        socket.set_timeouts(2 * LONG, LONG).unwrap();
        assert_eq!(view.read_timeout().unwrap(), Some(SHORT));
        socket.end_linger().unwrap();
        assert_eq!(view.read_timeout().unwrap(), Some(2 * LONG));
    }
}
