//! Listening for clients, and the end of it.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use spillway_base::clock::Clock;
use spillway_base::thread;
use spillway_sql::{Instance, SqlError};

use crate::connection::serve;
use crate::packet::Packets;
use crate::results::put_error;

/// Where to listen, and for how many.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// The address.
    pub bind: IpAddr,
    /// The port; 0 for any that is free.
    pub port: u16,
    /// A Unix socket beside it.
    pub socket: Option<PathBuf>,
    /// Clients at once.
    pub connections_max: usize,
    /// How long a client may be silent.
    pub idle: Duration,
}

impl Default for ServerSettings {
    fn default() -> ServerSettings {
        ServerSettings {
            bind: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: 3306,
            socket: None,
            connections_max: 512,
            idle: Duration::from_secs(28_800),
        }
    }
}

struct Shared {
    instance: Instance,
    settings: ServerSettings,
    connections: AtomicUsize,
    ids: AtomicU64,
    stop: AtomicBool,
    /// Closes the streams of those connected.
    streams: Mutex<Vec<(u64, Box<dyn Fn() + Send>)>>,
}

/// A listening server.
pub struct Server {
    shared: Arc<Shared>,
    address: SocketAddr,
    threads: Vec<std::thread::JoinHandle<()>>,
}

/// How long running statements may take to end when the server stops.
const STOP_WAIT: Duration = Duration::from_secs(10);
/// How often a listener looks whether it should stop.
const POLL: Duration = Duration::from_millis(20);

impl Server {
    /// Starts to listen.
    ///
    /// # Errors
    /// Where the address or socket cannot be had; and for an address beyond this machine while `root` has no
    /// password.
    pub fn start(instance: Instance, settings: ServerSettings) -> io::Result<Server> {
        if !settings.bind.is_loopback() && instance.root_password_is_empty() {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                format!(
                    "will not listen on {} while root has an empty password; start on 127.0.0.1, run \
                     ALTER USER 'root'@'%' IDENTIFIED BY '...', then listen elsewhere",
                    settings.bind
                ),
            ));
        }
        let tcp = TcpListener::bind((settings.bind, settings.port)).map_err(|error| {
            io::Error::new(
                error.kind(),
                format!("cannot listen on {}:{}: {error}", settings.bind, settings.port),
            )
        })?;
        tcp.set_nonblocking(true)?;
        let address = tcp.local_addr()?;
        let unix = match &settings.socket {
            None => None,
            Some(path) => {
                // A socket that a killed server left is nobody's.
                if UnixStream::connect(path).is_err() {
                    let _ = std::fs::remove_file(path);
                }
                let unix = UnixListener::bind(path).map_err(|error| {
                    io::Error::new(
                        error.kind(),
                        format!("cannot listen on {}: {error}", path.display()),
                    )
                })?;
                unix.set_nonblocking(true)?;
                Some(unix)
            }
        };
        let shared = Arc::new(Shared {
            instance,
            settings,
            connections: AtomicUsize::new(0),
            ids: AtomicU64::new(1),
            stop: AtomicBool::new(false),
            streams: Mutex::default(),
        });
        let mut server = Server { shared: shared.clone(), address, threads: Vec::new() };
        let start = |name: &str, body: Box<dyn FnOnce() + Send>| {
            thread::spawn(name, body).map_err(io::Error::other)
        };
        let of_tcp = shared.clone();
        server.threads.push(start("accept-tcp", Box::new(move || of_tcp.accept_tcp(&tcp)))?);
        if let Some(unix) = unix {
            server.threads.push(start("accept-unix", Box::new(move || shared.accept_unix(&unix)))?);
        }
        Ok(server)
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops listening, ends the connections, and waits for their statements to end.
    pub fn stop(mut self) {
        let shared = &self.shared;
        shared.stop.store(true, Ordering::Release);
        for thread in self.threads.drain(..) {
            // A panic in it has been reported by the panic hook.
            let _ = thread.join();
        }
        shared.instance.shut_down();
        shared.streams.lock().iter().for_each(|(_, close)| close());
        let clock = Clock::system();
        let end = clock.now() + STOP_WAIT;
        while shared.connections.load(Ordering::Acquire) > 0 && clock.now() < end {
            clock.sleep(POLL);
        }
        if let Some(path) = &shared.settings.socket {
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Shared {
    fn accept_tcp(self: &Arc<Self>, listener: &TcpListener) {
        self.accept(
            || listener.accept().map(|(stream, from)| (stream, from.ip().to_string())),
            |stream: &TcpStream| {
                stream.set_nonblocking(false)?;
                stream.set_nodelay(true)
            },
        );
    }

    fn accept_unix(self: &Arc<Self>, listener: &UnixListener) {
        self.accept(
            || listener.accept().map(|(stream, _)| (stream, "localhost".to_owned())),
            |stream: &UnixStream| stream.set_nonblocking(false),
        );
    }

    fn accept<S: Stream>(
        self: &Arc<Self>,
        accept: impl Fn() -> io::Result<(S, String)>,
        prepare: impl Fn(&S) -> io::Result<()>,
    ) {
        let clock = Clock::system();
        while !self.stop.load(Ordering::Acquire) {
            let (stream, host) = match accept() {
                Ok(accepted) => accepted,
                // Nobody came, or the one who came has gone, or there are no more descriptors for now.
                Err(_) => {
                    clock.sleep(POLL);
                    continue;
                }
            };
            if prepare(&stream).is_ok() {
                self.admit(stream, host);
            }
        }
    }

    fn admit<S: Stream>(self: &Arc<Self>, stream: S, host: String) {
        let refuse = |stream: S, error: &SqlError| {
            let mut packets = Packets::new(stream, 0);
            let _ = packets.packet(|out| put_error(out, error)).and_then(|()| packets.send());
        };
        let before = self.connections.fetch_add(1, Ordering::AcqRel);
        if before >= self.settings.connections_max {
            self.connections.fetch_sub(1, Ordering::AcqRel);
            return refuse(stream, &SqlError::new(1040, "Too many connections"));
        }
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        let shared = self.clone();
        let idle = self.settings.idle;
        let started = thread::spawn(format!("client-{id}"), move || {
            if let Some(close) = stream.closer() {
                shared.streams.lock().push((id, close));
            }
            // A stream that fails is a client that has gone.
            let _ = serve(stream, &shared.instance, &host, id, |stream| {
                let _ = stream.set_idle(idle);
            });
            shared.streams.lock().retain(|(other, _)| *other != id);
            shared.connections.fetch_sub(1, Ordering::AcqRel);
        });
        if started.is_err() {
            self.connections.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// What a server needs of a client's stream.
trait Stream: io::Read + io::Write + Send + 'static {
    fn closer(&self) -> Option<Box<dyn Fn() + Send>>;
    fn set_idle(&self, idle: Duration) -> io::Result<()>;
}

impl Stream for TcpStream {
    fn closer(&self) -> Option<Box<dyn Fn() + Send>> {
        let stream = self.try_clone().ok()?;
        Some(Box::new(move || drop(stream.shutdown(Shutdown::Read))))
    }

    fn set_idle(&self, idle: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(idle))
    }
}

impl Stream for UnixStream {
    fn closer(&self) -> Option<Box<dyn Fn() + Send>> {
        let stream = self.try_clone().ok()?;
        Some(Box::new(move || drop(stream.shutdown(Shutdown::Read))))
    }

    fn set_idle(&self, idle: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(idle))
    }
}
