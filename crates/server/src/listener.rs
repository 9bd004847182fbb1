//! Listening for clients, and the end of it.

use std::fs;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use spillway::Metric;
use spillway_base::thread;
use spillway_sql::{Front, Instance, SqlError};

use crate::connection::serve;
use crate::login::Peer;
use crate::packet::Packets;
use crate::results::put_early_error;
use crate::server::{ServerSettings, Shared};
use crate::transport::{Raw, Socket};

/// A listening server.
pub struct Server {
    shared: Arc<Shared>,
    address: SocketAddr,
    socket: Option<SocketFile>,
    accepting: Option<JoinHandle<()>>,
    /// Closing it wakes and ends the accepting thread.
    wake: Option<UnixStream>,
}

/// How long interrupted statements and their answers may take to end when the server stops.
const STOP_WAIT: Duration = Duration::from_secs(10);
/// How long nobody is accepted after that failed, for want of descriptors or memory.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

fn refused(kind: ErrorKind, text: String) -> io::Error {
    io::Error::new(kind, text)
}

impl Server {
    /// Starts to listen.
    ///
    /// # Errors
    /// Where the address or socket cannot be had, or the certificate not be read; and for an address beyond this machine
    /// while `root` has no password.
    pub fn start(instance: Instance, settings: ServerSettings) -> io::Result<Server> {
        if !settings.bind.is_loopback() && instance.root_password_is_empty() {
            let text = format!(
                "will not listen on {} while root has an empty password; start on 127.0.0.1, run \
                 ALTER USER 'root'@'%' IDENTIFIED BY '...', then listen elsewhere",
                settings.bind
            );
            return Err(refused(ErrorKind::PermissionDenied, text));
        }
        let tls = settings.tls.as_ref().map(|files| files.config()).transpose()?;
        if settings.require_secure_transport && tls.is_none() {
            let text = "secure transport is required, and there is no certificate for it";
            return Err(refused(ErrorKind::InvalidInput, text.to_owned()));
        }
        let tcp = TcpListener::bind((settings.bind, settings.port)).map_err(|error| {
            let text = format!("cannot listen on {}:{}: {error}", settings.bind, settings.port);
            refused(error.kind(), text)
        })?;
        tcp.set_nonblocking(true)?;
        let address = tcp.local_addr()?;
        let (unix, socket) = match &settings.socket {
            None => (None, None),
            Some(path) => {
                let (unix, socket) = SocketFile::bind(path)?;
                (Some(unix), Some(socket))
            }
        };
        tell_variables(&instance, &settings, address);
        let shared = Arc::new(Shared::new(instance.clone(), settings, tls));
        let front: Weak<dyn Front> = Arc::<Shared>::downgrade(&shared);
        instance.attach(front);
        let (wake, woken) = UnixStream::pair()?;
        let listeners = Listeners { shared: shared.clone(), tcp, unix, woken };
        let accepting =
            thread::spawn("accept", move || listeners.accept()).map_err(io::Error::other)?;
        Ok(Server { shared, address, socket, accepting: Some(accepting), wake: Some(wake) })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A source of the figures of its connections.
    pub fn metrics(&self) -> impl Fn() -> Vec<Metric> + Send + Sync + 'static {
        let shared = Arc::downgrade(&self.shared);
        move || shared.upgrade().map_or_else(Vec::new, |shared| shared.metrics())
    }

    /// Stops listening, interrupts running statements, and ends the connections.
    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.wake = None;
        if let Some(accepting) = self.accepting.take() {
            // A panic in it has been reported by the panic hook.
            let _ = accepting.join();
        }
        self.shared.end_connections(STOP_WAIT);
        if let Some(socket) = self.socket.take() {
            socket.remove();
        }
    }
}

/// Says in SHOW VARIABLES what the server is.
fn tell_variables(instance: &Instance, settings: &ServerSettings, address: SocketAddr) {
    let path =
        |path: Option<&PathBuf>| path.map_or_else(String::new, |path| path.display().to_string());
    let on = |on: bool, yes: &str, no: &str| if on { yes } else { no }.to_owned();
    let tls = settings.tls.as_ref();
    instance.set_global("port", address.port().to_string());
    instance.set_global("socket", path(settings.socket.as_ref()));
    instance.set_global("max_connections", settings.connections_max.to_string());
    instance.set_global("have_ssl", on(tls.is_some(), "YES", "DISABLED"));
    instance.set_global("have_openssl", on(tls.is_some(), "YES", "DISABLED"));
    instance.set_global("ssl_cert", path(tls.map(|files| &files.cert)));
    instance.set_global("ssl_key", path(tls.map(|files| &files.key)));
    instance.set_global("tls_version", on(tls.is_some(), "TLSv1.2,TLSv1.3", ""));
    let required = on(settings.require_secure_transport, "ON", "OFF");
    instance.set_global("require_secure_transport", required);
}

/// A Unix socket's name in the file system.
struct SocketFile {
    path: PathBuf,
    /// Device and inode.
    identity: (u64, u64),
}

impl SocketFile {
    /// Listens under a path. A socket that nobody answers on any more makes way; nothing else does.
    fn bind(path: &Path) -> io::Result<(UnixListener, SocketFile)> {
        let cannot = |error: io::Error| {
            refused(error.kind(), format!("cannot listen on {}: {error}", path.display()))
        };
        match fs::symlink_metadata(path) {
            Err(_) => {}
            Ok(file) if !file.file_type().is_socket() => {
                let text = format!("{} is there already, and is no socket", path.display());
                return Err(refused(ErrorKind::AlreadyExists, text));
            }
            Ok(_) => match UnixStream::connect(path) {
                Ok(_) => {
                    let text = format!("another server answers on {}", path.display());
                    return Err(refused(ErrorKind::AddrInUse, text));
                }
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                    fs::remove_file(path).map_err(cannot)?;
                }
                Err(error) => return Err(cannot(error)),
            },
        }
        let unix = UnixListener::bind(path).map_err(cannot)?;
        unix.set_nonblocking(true)?;
        let file = fs::symlink_metadata(path).map_err(cannot)?;
        Ok((unix, SocketFile { path: path.to_owned(), identity: (file.dev(), file.ino()) }))
    }

    /// Removes it, unless another has taken its place.
    fn remove(self) {
        if let Ok(file) = fs::symlink_metadata(&self.path)
            && (file.dev(), file.ino()) == self.identity
        {
            // Whoever starts next finds a socket that nobody answers on, and removes that.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// What the accepting thread waits for.
struct Listeners {
    shared: Arc<Shared>,
    tcp: TcpListener,
    unix: Option<UnixListener>,
    woken: UnixStream,
}

impl Listeners {
    /// Accepts clients until the other end of `woken` is closed.
    fn accept(self) {
        loop {
            let mut waits = vec![
                PollFd::new(&self.woken, PollFlags::IN),
                PollFd::new(&self.tcp, PollFlags::IN),
            ];
            if let Some(unix) = &self.unix {
                waits.push(PollFd::from_borrowed_fd(unix.as_fd(), PollFlags::IN));
            }
            match poll(&mut waits, None) {
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => continue,
                // Without memory for it there is nobody to be accepted either.
                Err(_) => {
                    if pause(&self.woken) {
                        return;
                    }
                    continue;
                }
            }
            let ready: Vec<bool> = waits.iter().map(|wait| !wait.revents().is_empty()).collect();
            if ready[0] {
                return;
            }
            let tcp = !ready[1] || self.accept_tcp();
            let unix = !ready.get(2).is_some_and(|ready| *ready) || self.accept_unix();
            if !(tcp && unix) {
                self.shared.counters.accept_errors.add();
                if pause(&self.woken) {
                    return;
                }
            }
        }
    }

    fn accept_tcp(&self) -> bool {
        match self.tcp.accept() {
            Ok((stream, from)) => {
                // Clients that have gone without a word are found out; short answers are not held back.
                let ready = rustix::net::sockopt::set_socket_keepalive(&stream, true)
                    .map_err(io::Error::from)
                    .and_then(|()| stream.set_nodelay(true));
                if ready.is_ok() {
                    self.admit(stream.into(), Some(from.ip().to_canonical()));
                }
                true
            }
            Err(error) => gone_again(&error),
        }
    }

    fn accept_unix(&self) -> bool {
        match self.unix.as_ref().map(UnixListener::accept) {
            None => true,
            Some(Ok((stream, _))) => {
                self.admit(stream.into(), None);
                true
            }
            Some(Err(error)) => gone_again(&error),
        }
    }

    /// Starts a client's thread, or tells it why there is no place for it.
    fn admit(&self, raw: Raw, address: Option<std::net::IpAddr>) {
        let raw = Arc::new(raw);
        let socket = Socket::new(raw.clone(), self.shared.traffic.clone());
        let slot = match self.shared.admit(raw) {
            Ok(slot) => slot,
            Err(error) => return self.refuse(socket, &error),
        };
        let shared = self.shared.clone();
        let id = slot.id;
        let started = thread::spawn(format!("client-{id}"), move || {
            // Dropped in the opposite order, also where the thread ends with a panic.
            let _slot = slot;
            let shared = shared;
            serve(socket, &shared, &Peer { id, address });
        });
        if started.is_err() {
            self.shared.counters.aborted_connects.add();
        }
    }

    /// Tells a client that was not asked anything yet why it is not served. The few bytes fit an empty socket's buffer.
    fn refuse(&self, socket: Socket, error: &SqlError) {
        let budget = self.shared.instance.database().budget().clone();
        let mut packets = Packets::new(socket, 0, budget);
        // Whoever does not hear it finds the connection closed.
        let _ = packets.packet(|out| put_early_error(out, error)).and_then(|()| packets.send());
    }
}

/// Waits a while; whether the other end of `woken` is closed by then.
pub(crate) fn pause(woken: &UnixStream) -> bool {
    let mut wait = [PollFd::new(woken, PollFlags::IN)];
    let a_while = Timespec::try_from(ACCEPT_PAUSE).ok();
    matches!(poll(&mut wait, a_while.as_ref()), Ok(ready) if ready > 0)
}

/// Whether an accept failed only because the client has gone again.
pub(crate) fn gone_again(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::ConnectionAborted
    )
}
