//! Listens for clients, and stops gracefully.

use std::fs;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use spillway::Metric;
use spillway_base::thread::JoinHandle;
use spillway_base::{clock, thread};
use spillway_sql::{Front, Instance, SqlError};

use crate::accept::{gone_again, pause};
use crate::admission::{ADMIN_MAX, Entrance, unauthenticated_max};
use crate::packet::Packets;
use crate::pool::Pool;
use crate::results::put_early_error;
use crate::server::{ServerSettings, Shared};
use crate::transport::{Raw, Socket};

/// A server that listens for clients.
pub struct Server {
    shared: Arc<Shared>,
    pool: Arc<Pool>,
    address: SocketAddr,
    /// The Unix socket and the admin socket.
    sockets: Vec<SocketFile>,
    accepting: Option<JoinHandle<()>>,
    /// Closing this end wakes and ends the accepting thread.
    wake: Option<UnixStream>,
}

/// How long interrupted statements and their answers may take to end when the server stops.
const STOP_WAIT: Duration = Duration::from_secs(10);
fn refused(kind: ErrorKind, text: String) -> io::Error {
    io::Error::new(kind, text)
}

impl Server {
    /// Starts to listen.
    ///
    /// # Errors
    /// If the address or socket cannot be bound, or the certificate cannot be read; and for an
    /// address beyond this machine while `root` has no password.
    pub fn start(instance: Instance, settings: ServerSettings) -> io::Result<Server> {
        if !settings.bind.is_loopback() && instance.root_password_is_empty() {
            let text = format!(
                "will not listen on {} while root has an empty password; start on 127.0.0.1, run \
                 ALTER USER 'root'@'%' IDENTIFIED BY '...', then listen elsewhere",
                settings.bind
            );
            return Err(refused(ErrorKind::PermissionDenied, text));
        }
        allow_sockets(settings.connections_max)?;
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
        let paths = [
            (Entrance::Public, settings.socket.as_ref()),
            (Entrance::Admin, settings.admin_socket.as_ref()),
        ];
        let (mut unix, mut sockets) = (Vec::new(), Vec::new());
        for (entrance, path) in paths {
            let Some(path) = path else { continue };
            match SocketFile::bind(path) {
                Ok((listener, socket)) => {
                    unix.push((entrance, listener));
                    sockets.push(socket);
                }
                Err(error) => {
                    sockets.into_iter().for_each(SocketFile::remove);
                    return Err(error);
                }
            }
        }
        let workers = settings.workers.max(1);
        tell_variables(&instance, &settings, address);
        let shared = Arc::new(Shared::new(instance.clone(), settings, tls));
        let front: Weak<dyn Front> = Arc::<Shared>::downgrade(&shared);
        instance.attach(front);
        let (wake, woken) = UnixStream::pair()?;
        let pool = Pool::start(shared.clone(), workers)?;
        let listeners = Listeners { shared: shared.clone(), pool: pool.clone(), tcp, unix, woken };
        let accepting =
            thread::spawn("accept", move || listeners.accept()).map_err(io::Error::other)?;
        Ok(Server { shared, pool, address, sockets, accepting: Some(accepting), wake: Some(wake) })
    }

    /// The address on which the server listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A source of metrics about its connections.
    pub fn metrics(&self) -> impl Fn() -> Vec<Metric> + Send + Sync + 'static {
        let (shared, pool) = (Arc::downgrade(&self.shared), Arc::downgrade(&self.pool));
        move || {
            let Some((shared, pool)) = shared.upgrade().zip(pool.upgrade()) else {
                return Vec::new();
            };
            let mut figures = shared.metrics();
            figures.extend(pool.metrics());
            figures
        }
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
        let all_gone = self.shared.end_connections(STOP_WAIT);
        self.pool.stop(all_gone);
        self.sockets.drain(..).for_each(SocketFile::remove);
    }
}

/// The other open files of the process: data files, the log, listening sockets.
const OTHER_FILES: usize = 128;

/// Raises the limit of open files for `connections_max` connections, and for those that have not
/// logged in.
fn allow_sockets(connections_max: usize) -> io::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    let most = |entrance| unauthenticated_max(entrance, connections_max);
    let authenticated = connections_max + 1 + ADMIN_MAX;
    // As many more connections may be closed and not yet released (ADMISSION-3).
    let unauthenticated = 2 * (most(Entrance::Public) + most(Entrance::Admin));
    let need = (authenticated + unauthenticated + OTHER_FILES) as u64;
    let hard = limit.maximum.unwrap_or(u64::MAX);
    if need > hard {
        let text = format!(
            "{connections_max} connections need {need} open files, and this process may have \
             {hard}; raise that (ulimit -Hn, LimitNOFILE), or start with fewer connections"
        );
        return Err(refused(ErrorKind::InvalidInput, text));
    }
    if limit.current.is_some_and(|current| current < hard) {
        // The maximum, because `max_connections` can be raised later.
        setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })?;
    }
    Ok(())
}

/// Sets the server's values in SHOW VARIABLES.
fn tell_variables(instance: &Instance, settings: &ServerSettings, address: SocketAddr) {
    let path =
        |path: Option<&PathBuf>| path.map_or_else(String::new, |path| path.display().to_string());
    let on = |on: bool, yes: &str, no: &str| if on { yes } else { no }.to_owned();
    let tls = settings.tls.as_ref();
    instance.set_global("port", address.port().to_string());
    instance.set_global("socket", path(settings.socket.as_ref()));
    instance.set_global("admin_socket", path(settings.admin_socket.as_ref()));
    instance.set_global("max_connections", settings.connections_max.to_string());
    instance.set_global("thread_pool_size", settings.workers.to_string());
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
    /// Listens at a path. Replaces a socket there on which no process listens, and no other file.
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

    /// Removes the socket's file, unless another file has taken its path.
    fn remove(self) {
        if let Ok(file) = fs::symlink_metadata(&self.path)
            && (file.dev(), file.ino()) == self.identity
        {
            // If this fails, the next start removes it, as a socket on which no process listens.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The sockets that the accepting thread waits for.
struct Listeners {
    shared: Arc<Shared>,
    pool: Arc<Pool>,
    tcp: TcpListener,
    unix: Vec<(Entrance, UnixListener)>,
    woken: UnixStream,
}

impl Listeners {
    /// Accepts clients until the other end of `woken` is closed, and disconnects clients that are
    /// silent for too long.
    fn accept(self) {
        loop {
            let due = self.pool.sweep();
            let mut waits = vec![
                PollFd::new(&self.woken, PollFlags::IN),
                PollFd::new(&self.tcp, PollFlags::IN),
                PollFd::from_borrowed_fd(self.pool.alarm(), PollFlags::IN),
            ];
            let first_unix = waits.len();
            for (_, unix) in &self.unix {
                waits.push(PollFd::from_borrowed_fd(unix.as_fd(), PollFlags::IN));
            }
            // Rounded up, so that the thread does not wake just before that time.
            let left = due.map(|due| due.saturating_sub(clock::now()) + Duration::from_millis(1));
            let left = left.and_then(|left| Timespec::try_from(left).ok());
            match poll(&mut waits, left.as_ref()) {
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => continue,
                // If there is no memory for the list, no client can be accepted either.
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
            let unix = self.unix.iter().zip(&ready[first_unix..]).filter(|(_, ready)| **ready);
            let refused = unix.filter(|(unix, _)| !self.accept_unix(unix)).count();
            if !tcp || refused > 0 {
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
                // Detect clients that disappeared silently, and do not delay short responses.
                let ready = rustix::net::sockopt::set_socket_keepalive(&stream, true)
                    .map_err(io::Error::from)
                    .and_then(|()| stream.set_nodelay(true));
                if ready.is_ok() {
                    let address = Some(from.ip().to_canonical());
                    self.admit(stream.into(), Entrance::Public, address);
                }
                true
            }
            Err(error) => gone_again(&error),
        }
    }

    fn accept_unix(&self, (entrance, unix): &(Entrance, UnixListener)) -> bool {
        match unix.accept() {
            Ok((stream, _)) => {
                self.admit(stream.into(), *entrance, None);
                true
            }
            Err(error) => gone_again(&error),
        }
    }

    /// Hands a client to the pool, or sends it the reason why there is no place for it.
    fn admit(&self, raw: Raw, entrance: Entrance, address: Option<IpAddr>) {
        let raw = Arc::new(raw);
        let socket = Socket::new(raw.clone(), self.shared.traffic.clone());
        match self.shared.admit(raw, entrance, address) {
            Ok(slot) => {
                if self.pool.add(socket, slot, address).is_err() {
                    self.shared.counters.aborted_connects.add();
                }
            }
            Err(error) => self.refuse(socket, &error),
        }
    }

    /// Sends a client that was not greeted yet the reason why it is refused. The few bytes fit into
    /// the socket's empty buffer, so the thread does not wait.
    fn refuse(&self, socket: Socket, error: &SqlError) {
        let budget = self.shared.instance.database().budget().clone();
        let mut packets = Packets::new(socket, 0, budget);
        // A client that does not receive it finds the connection closed.
        let _ = packets.packet(|out| put_early_error(out, error)).and_then(|()| packets.send());
    }
}
