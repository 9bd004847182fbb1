//! State that the connections of a server share: slots, limits and counters.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rustls::ServerConfig;
use spillway::Metric;
use spillway_base::budget::{Charge, Use};
use spillway_sql::{Front, Instance, SqlError};

use crate::affinity::{Affinity, Ran, Tally};
use crate::auth::{CACHING, NATIVE};
use crate::caching::Caching;
use crate::guard::Guard;
use crate::login::too_many;
use crate::tls::TlsFiles;
use crate::transport::{Raw, Traffic};

/// Addresses and limits of a server.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// The address.
    pub bind: IpAddr,
    /// The port; 0 for any free port.
    pub port: u16,
    /// A Unix socket to listen on as well.
    pub socket: Option<PathBuf>,
    /// Clients at once; `root` may have one more. The initial value of `max_connections`, which can
    /// be set.
    pub connections_max: usize,
    /// Threads that run statements at once. Other statements are queued, except those that wait for
    /// a lock.
    pub workers: usize,
    /// Whether workers keep to cores, and statements to the workers of their data.
    pub affinity: Affinity,
    /// The certificate and key for TLS; none for no TLS.
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
            connections_max: 512,
            workers: workers_for(std::thread::available_parallelism().map_or(2, usize::from)),
            affinity: Affinity::Off,
            tls: None,
            require_secure_transport: false,
        }
    }
}

/// How many workers so many processors keep busy. With one more, statements took a twentieth more
/// of processor time on two; and one is too few, as it may be writing the log.
#[must_use]
pub fn workers_for(cores: usize) -> usize {
    cores.max(2)
}

/// A figure that only rises.
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

/// What is counted of connections.
#[derive(Default)]
pub(crate) struct Counters {
    /// Connections accepted.
    pub(crate) connections: Counter,
    /// Clients that did not get as far as their first command.
    pub(crate) aborted_connects: Counter,
    /// Logins with a wrong name or password.
    pub(crate) denied: Counter,
    /// Clients that went without saying so.
    pub(crate) aborted_clients: Counter,
    /// Connections refused because of max_connections.
    pub(crate) refused: Counter,
    /// Connections that could not be accepted.
    pub(crate) accept_errors: Counter,
    pub(crate) tls_accepted: Counter,
    /// Answers that were sent with others.
    pub(crate) answers_together: Counter,
    /// Most connections at once.
    pub(crate) connections_most: AtomicU64,
}

/// What the connections of a server share.
pub(crate) struct Shared {
    pub(crate) instance: Instance,
    pub(crate) settings: ServerSettings,
    pub(crate) tls: Option<Arc<ServerConfig>>,
    pub(crate) counters: Counters,
    pub(crate) guard: Guard,
    pub(crate) caching: Caching,
    pub(crate) traffic: Arc<Traffic>,
    pub(crate) homes: Tally,
    clients: Arc<Clients>,
    ids: AtomicU64,
    /// Decides which plugin a name is asked for that no user has.
    strangers: RandomState,
}

/// Those who are connected.
#[derive(Default)]
struct Clients {
    sockets: Mutex<HashMap<u64, Arc<Raw>>>,
    /// One has left.
    gone: Condvar,
}

/// What a connection costs before it does anything: its buffers and its session.
const CONNECTION_BYTES: usize = 48 << 10;

/// A client's place among those connected. Dropping it frees the place, however its thread ends;
/// whoever waits for that may then count on nothing else being held by the thread, which drops it
/// last.
pub(crate) struct Slot {
    clients: Arc<Clients>,
    pub(crate) id: u64,
    _charge: Charge,
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.clients.sockets.lock().remove(&self.id);
        self.clients.gone.notify_all();
    }
}

impl Shared {
    /// Whether a connection's client has gone.
    pub(crate) fn has_vanished(&self, connection_id: u64) -> bool {
        let client = self.clients.sockets.lock().get(&connection_id).cloned();
        client.is_some_and(|client| client.is_gone())
    }

    /// How many clients are connected.
    pub(crate) fn connected(&self) -> usize {
        self.clients.sockets.lock().len()
    }

    pub(crate) fn new(
        instance: Instance,
        settings: ServerSettings,
        tls: Option<Arc<ServerConfig>>,
    ) -> Shared {
        Shared {
            homes: Tally::new(settings.workers),
            instance,
            settings,
            tls,
            counters: Counters::default(),
            guard: Guard::default(),
            caching: Caching::default(),
            traffic: Arc::default(),
            clients: Arc::default(),
            ids: AtomicU64::new(1),
            strangers: RandomState::new(),
        }
    }

    /// The plugin of a name that no user has: the same each time, and each plugin as often among
    /// such names as among accounts, so that the plugin tells nothing of whether there is an
    /// account.
    pub(crate) fn plugin_of_stranger(&self, name: &str) -> &'static str {
        let (caching, all) = self.instance.accounts_with(CACHING);
        let place = self.strangers.hash_one(name) % all.max(1);
        if place < caching { CACHING } else { NATIVE }
    }

    fn connections_max(&self) -> usize {
        self.instance.global_number("max_connections").map_or(usize::MAX, |most| most as usize)
    }

    /// How long a client may take to say who it is.
    pub(crate) fn connect_timeout(&self) -> Duration {
        Duration::from_secs(self.instance.global_number("connect_timeout").unwrap_or(10))
    }

    /// Whether one more than the limit are connected.
    pub(crate) fn over_limit(&self) -> bool {
        self.clients.sockets.lock().len() > self.connections_max()
    }

    /// Gives a client its place, if there is one.
    pub(crate) fn admit(&self, raw: Arc<Raw>) -> Result<Slot, SqlError> {
        self.counters.connections.add();
        let most = self.connections_max();
        let mut clients = self.clients.sockets.lock();
        if clients.len() > most {
            self.counters.refused.add();
            return Err(too_many());
        }
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        clients.insert(id, raw);
        self.counters.connections_most.fetch_max(clients.len() as u64, Ordering::Relaxed);
        let charge = self.instance.database().budget().charge(Use::Connections, CONNECTION_BYTES);
        Ok(Slot { clients: self.clients.clone(), id, _charge: charge })
    }

    /// Interrupts what clients run, and ends the connections once they are answered; cuts those off
    /// that take longer than `wait`. Whether all have gone.
    pub(crate) fn end_connections(&self, wait: Duration) -> bool {
        self.instance.shut_down();
        let mut clients = self.clients.sockets.lock();
        clients.values().for_each(|client| client.wake());
        let some_left = |clients: &mut HashMap<_, _>| !clients.is_empty();
        let timeout = self.clients.gone.wait_while_for(&mut clients, some_left, wait);
        if timeout.timed_out() {
            clients.values().for_each(|client| client.close());
            self.clients.gone.wait_while_for(&mut clients, some_left, Duration::from_secs(1));
        }
        clients.is_empty()
    }

    /// The server's metrics, by the names of the metrics page.
    pub(crate) fn metrics(&self) -> Vec<Metric> {
        let traffic = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
        let connected = self.clients.sockets.lock().len() as u64;
        let figures = [
            ("connections_total", "Connections accepted.", true, self.counters.connections.get()),
            ("connections_now", "Connections now.", false, connected),
            (
                "connections_most",
                "Most connections at once.",
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
                "Clients that disconnected before their first command.",
                true,
                self.counters.aborted_connects.get(),
            ),
            (
                "logins_denied_total",
                "Logins with a wrong name or password.",
                true,
                self.counters.denied.get(),
            ),
            (
                "connections_aborted_total",
                "Clients that disconnected without COM_QUIT.",
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
            (
                "statements_at_home_total",
                "Statements that ran on the home core of their rows.",
                true,
                self.homes.statements(Ran::AtHome),
            ),
            (
                "statements_away_total",
                "Statements that ran on another core than the home core of their rows.",
                true,
                self.homes.statements(Ran::Away),
            ),
            (
                "statements_spread_total",
                "Statements whose rows have several home cores.",
                true,
                self.homes.statements(Ran::Spread),
            ),
            (
                "connections_moved_total",
                "Times that a connection got a new home core.",
                true,
                self.homes.moves(),
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
            ("Spillway_connections_moved", self.homes.moves()),
            ("Spillway_statements_at_home", self.homes.statements(Ran::AtHome)),
            ("Spillway_statements_away", self.homes.statements(Ran::Away)),
            ("Spillway_statements_spread", self.homes.statements(Ran::Spread)),
            ("Ssl_finished_accepts", counters.tls_accepted.get()),
        ];
        figures.into_iter().map(|(name, value)| (name.to_owned(), value.to_string())).collect()
    }

    fn is_gone(&self, connection_id: u64) -> bool {
        self.has_vanished(connection_id)
    }

    fn wake(&self, connection_id: u64) {
        if let Some(client) = self.clients.sockets.lock().get(&connection_id) {
            client.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

    use spillway::{Database, Settings};

    use super::*;

    #[test]
    fn a_place_is_free_again_however_its_thread_ends() {
        let instance = Instance::open(Database::open_in_memory(Settings::default()).unwrap());
        let instance = instance.unwrap();
        instance.set_global("max_connections", "1");
        let shared = Shared::new(instance, ServerSettings::default(), None);
        let admit = || shared.admit(Arc::new(UnixStream::pair().unwrap().0.into()));
        let used = || shared.instance.database().budget().used_for(Use::Connections);
        for _ in 0..3 {
            let (first, extra) = (admit().unwrap(), admit().unwrap());
            assert_eq!(admit().map(drop).unwrap_err().code, 1040);
            assert!(used() >= 2 * CONNECTION_BYTES);
            drop(first);
            let panicked = catch_unwind(AssertUnwindSafe(move || {
                let _slot = extra;
                // Not a panic that the hook reports: this one is meant.
                resume_unwind(Box::new(()));
            }));
            assert!(panicked.is_err());
            assert_eq!((used(), shared.clients.sockets.lock().len()), (0, 0));
        }
    }
}
