//! State that the connections of a server share: slots, limits and counters.

use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustls::ServerConfig;
use spillway::Metric;
use spillway_base::budget::Use;
use spillway_sql::{Front, Instance, SqlError};

use crate::admission::{Admission, Admitted, Entrance, Slot, too_many};
use crate::auth::{CACHING, NATIVE};
use crate::caching::Caching;
use crate::guard::Guard;
use crate::tls::TlsFiles;
use crate::transport::{Raw, Traffic};

/// Addresses and limits of a server.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// The address to listen on.
    pub bind: IpAddr,
    /// The port to listen on; 0 for any free port.
    pub port: u16,
    /// A Unix socket to listen on as well.
    pub socket: Option<PathBuf>,
    /// A Unix socket for administrators. `connections_max` does not bound its connections, and only
    /// accounts with CONNECTION_ADMIN or SERVICE_CONNECTION_ADMIN may log in over it.
    pub admin_socket: Option<PathBuf>,
    /// The most authenticated clients at once; `root` may have one more. This is the initial value
    /// of the variable `max_connections`.
    pub connections_max: usize,
    /// The threads that run statements at once. Other statements are queued, except those that wait
    /// for a lock.
    pub workers: usize,
    /// The certificate and key for TLS; `None` for no TLS.
    pub tls: Option<TlsFiles>,
    /// Whether network clients must use TLS.
    pub require_secure_transport: bool,
}

impl Default for ServerSettings {
    fn default() -> ServerSettings {
        ServerSettings {
            bind: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: 3306,
            socket: None,
            admin_socket: None,
            connections_max: 512,
            workers: workers_for(std::thread::available_parallelism().map_or(2, usize::from)),
            tls: None,
            require_secure_transport: false,
        }
    }
}

/// The number of workers for this many processors. With one worker more, statements took a
/// twentieth more processor time on two processors. One worker is too few, because it may be
/// writing the log.
#[must_use]
pub fn workers_for(cores: usize) -> usize {
    cores.max(2)
}

/// A counter that only rises.
#[derive(Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self) {
        self.add_many(1);
    }

    pub(crate) fn add_many(&self, many: u64) {
        self.0.fetch_add(many, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counters of connections.
#[derive(Default)]
pub(crate) struct Counters {
    /// Connections accepted.
    pub(crate) connections: Counter,
    /// Connections that ended before their login succeeded.
    pub(crate) aborted_connects: Counter,
    /// Logins that were refused.
    pub(crate) denied: Counter,
    /// Clients that disconnected without a command to quit.
    pub(crate) aborted_clients: Counter,
    /// Connections refused because of max_connections.
    pub(crate) refused: Counter,
    /// Connections that could not be accepted.
    pub(crate) accept_errors: Counter,
    pub(crate) tls_accepted: Counter,
    /// Responses that were sent together with others.
    pub(crate) answers_together: Counter,
    /// Connections closed before their login in favour of newer ones.
    pub(crate) evicted: Counter,
    /// Most authenticated connections at once.
    pub(crate) connections_most: AtomicU64,
}

/// The state that the connections of a server share.
pub(crate) struct Shared {
    pub(crate) instance: Instance,
    pub(crate) settings: ServerSettings,
    pub(crate) tls: Option<Arc<ServerConfig>>,
    pub(crate) counters: Counters,
    pub(crate) guard: Guard,
    pub(crate) caching: Caching,
    pub(crate) traffic: Arc<Traffic>,
    admission: Arc<Admission>,
    /// Chooses the plugin for a name that no user has.
    strangers: RandomState,
}

/// The user for whom one connection beyond the limit is reserved.
const ROOT: &str = "root";

/// The bytes that a new connection takes, for its buffers and its session.
const CONNECTION_BYTES: usize = 48 << 10;

impl Shared {
    /// Whether a connection's client has disconnected.
    pub(crate) fn has_vanished(&self, connection_id: u64) -> bool {
        self.admission.socket(connection_id).is_some_and(|client| client.is_gone())
    }

    /// The number of connected clients.
    pub(crate) fn connected(&self) -> usize {
        self.admission.figures().open
    }

    pub(crate) fn new(
        instance: Instance,
        settings: ServerSettings,
        tls: Option<Arc<ServerConfig>>,
    ) -> Shared {
        Shared {
            instance,
            settings,
            tls,
            counters: Counters::default(),
            guard: Guard::default(),
            caching: Caching::default(),
            traffic: Arc::default(),
            admission: Arc::default(),
            strangers: RandomState::new(),
        }
    }

    /// The plugin for a name that no user has. A name always gets the same plugin, and each plugin
    /// is as frequent among these names as among the accounts. So the plugin does not reveal
    /// whether an account exists.
    pub(crate) fn plugin_of_stranger(&self, name: &str) -> &'static str {
        let (caching, all) = self.instance.accounts_with(CACHING);
        let place = self.strangers.hash_one(name) % all.max(1);
        if place < caching { CACHING } else { NATIVE }
    }

    fn connections_max(&self) -> usize {
        self.instance.global_number("max_connections").map_or(usize::MAX, |most| most as usize)
    }

    /// The time limit for a client's login.
    pub(crate) fn connect_timeout(&self) -> Duration {
        Duration::from_secs(self.instance.global_number("connect_timeout").unwrap_or(10))
    }

    /// Admits a client that has just connected.
    pub(crate) fn admit(
        &self,
        raw: Arc<Raw>,
        entrance: Entrance,
        address: Option<IpAddr>,
    ) -> Result<Slot, SqlError> {
        self.counters.connections.add();
        let charge =
            || self.instance.database().budget().charge(Use::Connections, CONNECTION_BYTES);
        let admitted = self.admission.admit(raw, entrance, address, self.connections_max(), charge);
        let Admitted { slot, evicted } = admitted.inspect_err(|_| self.counters.refused.add())?;
        self.counters.evicted.add_many(evicted as u64);
        Ok(slot)
    }

    /// Counts a client that has logged in as authenticated.
    pub(crate) fn authenticated(
        &self,
        id: u64,
        entrance: Entrance,
        user: &str,
    ) -> Result<(), SqlError> {
        let count = self.admission.authenticate(id, user == ROOT, self.connections_max());
        let count = count.inspect_err(|_| self.counters.refused.add())?;
        if entrance == Entrance::Public {
            self.counters.connections_most.fetch_max(count as u64, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Whether a client may change to another user. A client in the place reserved for `root` may
    /// change only to `root`.
    pub(crate) fn may_become(
        &self,
        entrance: Entrance,
        from: &str,
        to: &str,
    ) -> Result<(), SqlError> {
        let leaves_root = entrance == Entrance::Public && from == ROOT && to != ROOT;
        if leaves_root && self.admission.is_over(self.connections_max()) {
            self.counters.refused.add();
            return Err(too_many());
        }
        Ok(())
    }

    /// Interrupts statements, ends each connection once its response is sent, and closes those that
    /// take longer than `wait`. Returns whether all have ended.
    pub(crate) fn end_connections(&self, wait: Duration) -> bool {
        self.instance.shut_down();
        self.admission.end(wait)
    }

    /// The server's metrics, under the names of the metrics page.
    pub(crate) fn metrics(&self) -> Vec<Metric> {
        let traffic = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
        let admission = self.admission.figures();
        let figures = [
            ("connections_total", "Connections accepted.", true, self.counters.connections.get()),
            ("connections_now", "Connections now.", false, admission.open as u64),
            (
                "connections_unauthenticated_now",
                "Connections whose clients have not logged in.",
                false,
                admission.unauthenticated as u64,
            ),
            (
                "connections_evicted_total",
                "Connections closed before their login in favour of newer ones.",
                true,
                self.counters.evicted.get(),
            ),
            (
                "admin_connections_now",
                "Connections over the admin socket.",
                false,
                admission.admin as u64,
            ),
            (
                "connections_most",
                "Most authenticated connections at once.",
                false,
                traffic(&self.counters.connections_most),
            ),
            (
                "connections_refused_total",
                "Connections refused because of max_connections.",
                true,
                self.counters.refused.get(),
            ),
            (
                "connections_failed_total",
                "Connections that ended before their login succeeded.",
                true,
                self.counters.aborted_connects.get(),
            ),
            ("logins_denied_total", "Logins that were refused.", true, self.counters.denied.get()),
            (
                "connections_aborted_total",
                "Connections that ended after login without COM_QUIT, also by a timeout.",
                true,
                self.counters.aborted_clients.get(),
            ),
            (
                "tls_connections_total",
                "Connections that use TLS.",
                true,
                self.counters.tls_accepted.get(),
            ),
            (
                "prepared_statements_now",
                "Prepared statements now.",
                false,
                self.instance.prepared_statements() as u64,
            ),
            (
                "received_bytes_total",
                "Bytes received from clients.",
                true,
                traffic(&self.traffic.received),
            ),
            ("sent_bytes_total", "Bytes sent to clients.", true, traffic(&self.traffic.sent)),
            (
                "answers_together_total",
                "Responses sent in a batch with those to other clients, by one call if io_uring is available.",
                true,
                self.counters.answers_together.get(),
            ),
            (
                "point_reads_total",
                "Lookups of one row in memory that took the shorter path.",
                true,
                self.instance.point_reads(),
            ),
        ];
        figures
            .into_iter()
            .map(|(name, help, counter, value)| Metric { name, help, counter, value: value as f64 })
            .collect()
    }
}

impl Front for Shared {
    fn status(&self) -> Vec<(String, String)> {
        let counters = &self.counters;
        let figures = [
            ("Aborted_clients", counters.aborted_clients.get()),
            ("Aborted_connects", counters.aborted_connects.get()),
            ("Access_denied_errors", counters.denied.get()),
            ("Bytes_received", self.traffic.received.load(Ordering::Relaxed)),
            ("Bytes_sent", self.traffic.sent.load(Ordering::Relaxed)),
            ("Connection_errors_accept", counters.accept_errors.get()),
            ("Connection_errors_max_connections", counters.refused.get()),
            ("Connections", counters.connections.get()),
            ("Max_used_connections", counters.connections_most.load(Ordering::Relaxed)),
            ("Prepared_stmt_count", self.instance.prepared_statements() as u64),
            ("Ssl_finished_accepts", counters.tls_accepted.get()),
        ];
        figures.into_iter().map(|(name, value)| (name.to_owned(), value.to_string())).collect()
    }

    fn is_gone(&self, connection_id: u64) -> bool {
        self.has_vanished(connection_id)
    }

    fn wake(&self, connection_id: u64) {
        if let Some(client) = self.admission.socket(connection_id) {
            client.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use spillway::{Database, Settings};

    use super::*;

    /// ADMISSION-5, and decision 007: the memory of a connection is charged as long as it has a
    /// place.
    #[test]
    fn a_connection_is_charged_until_its_slot_is_dropped() {
        let instance = Database::open_in_memory(Settings::default()).unwrap();
        let instance = Instance::open(instance).unwrap();
        let budget = instance.database().budget().clone();
        let shared = Shared::new(instance, ServerSettings::default(), None);
        let unused = budget.used_for(Use::Connections);
        let admit = || {
            let raw = Arc::new(UnixStream::pair().unwrap().0.into());
            shared.admit(raw, Entrance::Public, None).unwrap()
        };
        let (first, second) = (admit(), admit());
        assert!(budget.used_for(Use::Connections) >= unused + 2 * CONNECTION_BYTES);
        drop((first, second));
        assert_eq!(budget.used_for(Use::Connections), unused);
    }
}
