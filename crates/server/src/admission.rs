//! Admits clients: decides how many connections of each kind there may be.
//!
//! A connection is *unauthenticated* from its accept until its login succeeds. Anyone who reaches
//! the port can open such connections and then send nothing. So unauthenticated connections must
//! not take the places of clients that have a password. A limit for each address alone is not
//! enough: several addresses together could still fill every place, and all clients behind one
//! proxy share an address.
//!
//! # Guarantees
//!
//! - **ADMISSION-1 (authenticated connections alone count).** `max_connections` bounds the
//!   authenticated connections; `root` may have one more. An unauthenticated connection never takes
//!   one of their places. A login past the limit gets error 1040.
//! - **ADMISSION-2 (the newest gets in).** At most `max_connections` connections, or
//!   [`UNAUTHENTICATED_MIN`] if that is more, are unauthenticated at once. If there are that many,
//!   a newcomer still gets in: the server closes the oldest unauthenticated connection of the
//!   source that has the most of them. A source is an IPv4 address, the first 64 bits of an IPv6
//!   address, or the Unix socket.
//! - **ADMISSION-3 (bounded).** A connection that ADMISSION-2 closes keeps its socket until a
//!   worker has released it. The number of these sockets has the same bound as the number of
//!   unauthenticated connections. If both bounds are reached, a newcomer gets error 1040.
//! - **ADMISSION-4 (the admin socket).** Connections over the admin socket are counted separately:
//!   they take no places of other connections, and other connections take none of theirs. At most
//!   [`ADMIN_MAX`] of them are authenticated, and at most [`UNAUTHENTICATED_MIN`] are not.
//! - **ADMISSION-5 (released).** A place is free again however its connection ends, including by a
//!   panic.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use spillway_base::budget::Charge;
use spillway_sql::SqlError;

use crate::transport::Raw;

/// The least bound of unauthenticated connections, for a server with a smaller `max_connections`.
pub(crate) const UNAUTHENTICATED_MIN: usize = 16;
/// The most authenticated connections over the admin socket.
pub(crate) const ADMIN_MAX: usize = 64;

/// Where a client connects.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Entrance {
    /// The TCP port or the Unix socket.
    Public,
    /// The admin socket.
    Admin,
}

/// The source of an unauthenticated connection: an IPv4 address, the first 64 bits of an IPv6
/// address, or a Unix socket. One client usually has all addresses that share these 64 bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct AdmissionSource(Option<IpAddr>);

impl From<Option<IpAddr>> for AdmissionSource {
    fn from(address: Option<IpAddr>) -> AdmissionSource {
        AdmissionSource(address.map(|address| match address {
            IpAddr::V4(_) => address,
            IpAddr::V6(address) => {
                IpAddr::V6(Ipv6Addr::from(u128::from(address) & !u128::from(u64::MAX)))
            }
        }))
    }
}

/// Unauthenticated connections by their source. Later connections have larger ids.
#[derive(Default)]
struct Unauthenticated {
    by_source: HashMap<AdmissionSource, BTreeSet<u64>>,
    /// For each source, the number of its connections and the oldest one. Of sources with equal
    /// numbers, the one with the oldest connection is last.
    by_count: BTreeSet<(usize, Reverse<u64>, AdmissionSource)>,
    count: usize,
}

impl Unauthenticated {
    fn insert(&mut self, source: AdmissionSource, id: u64) {
        self.update(source, |ids| ids.insert(id));
    }

    fn remove(&mut self, source: AdmissionSource, id: u64) {
        self.update(source, |ids| ids.remove(&id));
    }

    fn update(&mut self, source: AdmissionSource, change: impl FnOnce(&mut BTreeSet<u64>) -> bool) {
        let key = |ids: &BTreeSet<u64>| Some((ids.len(), Reverse(*ids.first()?), source));
        let ids = self.by_source.entry(source).or_default();
        let (before, old) = (ids.len(), key(ids));
        change(ids);
        let (after, new) = (ids.len(), key(ids));
        self.count = self.count + after - before;
        if after == 0 {
            self.by_source.remove(&source);
        }
        old.map(|old| self.by_count.remove(&old));
        new.map(|new| self.by_count.insert(new));
    }

    /// Removes and returns the oldest connection of the source that has the most.
    fn take_oldest_of_busiest(&mut self) -> Option<u64> {
        let (_, Reverse(id), source) = *self.by_count.last()?;
        self.remove(source, id);
        Some(id)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum AdmissionStage {
    Unauthenticated,
    /// Closed in favour of a newcomer, and not released yet.
    Evicted,
    Authenticated,
}

/// An open connection.
struct Open {
    raw: Arc<Raw>,
    entrance: Entrance,
    source: AdmissionSource,
    stage: AdmissionStage,
}

/// The connections over one entrance.
#[derive(Default)]
struct Counted {
    unauthenticated: Unauthenticated,
    evicted: usize,
    authenticated: usize,
}

#[derive(Default)]
struct Connections {
    open: HashMap<u64, Open>,
    public: Counted,
    admin: Counted,
    last_id: u64,
}

impl Connections {
    fn of(&mut self, entrance: Entrance) -> &mut Counted {
        match entrance {
            Entrance::Public => &mut self.public,
            Entrance::Admin => &mut self.admin,
        }
    }
}

/// The numbers of connections.
pub(crate) struct AdmissionFigures {
    pub(crate) open: usize,
    pub(crate) unauthenticated: usize,
    /// The authenticated connections over the admin socket.
    pub(crate) admin: usize,
}

/// The open connections of a server.
#[derive(Default)]
pub(crate) struct Admission {
    connections: Mutex<Connections>,
    /// Signals that a connection was released.
    released: Condvar,
}

/// A connection's place. Dropping it frees the place (ADMISSION-5). The worker drops it last, so
/// when the place is free the connection holds nothing else.
pub(crate) struct Slot {
    admission: Arc<Admission>,
    pub(crate) id: u64,
    pub(crate) entrance: Entrance,
    _charge: Charge,
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut connections = self.admission.connections.lock();
        if let Some(open) = connections.open.remove(&self.id) {
            let counted = connections.of(open.entrance);
            match open.stage {
                AdmissionStage::Unauthenticated => {
                    counted.unauthenticated.remove(open.source, self.id)
                }
                AdmissionStage::Evicted => counted.evicted -= 1,
                AdmissionStage::Authenticated => counted.authenticated -= 1,
            }
        }
        drop(connections);
        self.admission.released.notify_all();
    }
}

/// An admitted connection, and the number of connections that were closed for it.
pub(crate) struct Admitted {
    pub(crate) slot: Slot,
    pub(crate) evicted: usize,
}

pub(crate) fn too_many() -> SqlError {
    SqlError::new(1040, "Too many connections")
}

/// The bound of unauthenticated connections over an entrance.
pub(crate) fn unauthenticated_max(entrance: Entrance, connections_max: usize) -> usize {
    match entrance {
        Entrance::Public => connections_max.max(UNAUTHENTICATED_MIN),
        Entrance::Admin => UNAUTHENTICATED_MIN,
    }
}

impl Admission {
    /// Admits a client that has just connected (ADMISSION-2, ADMISSION-3).
    pub(crate) fn admit(
        self: &Arc<Self>,
        raw: Arc<Raw>,
        entrance: Entrance,
        address: Option<IpAddr>,
        connections_max: usize,
        charge: impl FnOnce() -> Charge,
    ) -> Result<Admitted, SqlError> {
        let most = unauthenticated_max(entrance, connections_max);
        let source = AdmissionSource::from(address);
        let mut connections = self.connections.lock();
        let counted = connections.of(entrance);
        let room = most.saturating_sub(counted.evicted);
        if counted.unauthenticated.count >= most && room == 0 {
            return Err(too_many());
        }
        connections.last_id += 1;
        let id = connections.last_id;
        let counted = connections.of(entrance);
        counted.unauthenticated.insert(source, id);
        let mut evicted = Vec::new();
        while counted.unauthenticated.count > most && evicted.len() < room {
            evicted.extend(counted.unauthenticated.take_oldest_of_busiest());
        }
        counted.evicted += evicted.len();
        let stage = AdmissionStage::Unauthenticated;
        connections.open.insert(id, Open { raw, entrance, source, stage });
        let mut closed = Vec::new();
        for id in &evicted {
            if let Some(open) = connections.open.get_mut(id) {
                open.stage = AdmissionStage::Evicted;
                closed.push(open.raw.clone());
            }
        }
        drop(connections);
        // The connection's worker then finds the end of the stream, whatever it waits for.
        closed.iter().for_each(|raw| raw.close());
        let slot = Slot { admission: self.clone(), id, entrance, _charge: charge() };
        Ok(Admitted { slot, evicted: evicted.len() })
    }

    /// Counts a client that has logged in as authenticated (ADMISSION-1), and returns the number of
    /// authenticated connections. A client without a slot, such as one within this process, is not
    /// counted.
    pub(crate) fn authenticate(
        &self,
        id: u64,
        is_root: bool,
        connections_max: usize,
    ) -> Result<usize, SqlError> {
        let mut connections = self.connections.lock();
        let Some(open) = connections.open.get_mut(&id) else { return Ok(0) };
        let (entrance, source) = (open.entrance, open.source);
        if open.stage == AdmissionStage::Evicted {
            return Err(too_many());
        }
        let was = std::mem::replace(&mut open.stage, AdmissionStage::Authenticated);
        let counted = connections.of(entrance);
        if was == AdmissionStage::Authenticated {
            return Ok(counted.authenticated);
        }
        let most = match entrance {
            Entrance::Public => connections_max.saturating_add(usize::from(is_root)),
            Entrance::Admin => ADMIN_MAX,
        };
        if counted.authenticated >= most {
            if let Some(open) = connections.open.get_mut(&id) {
                open.stage = was;
            }
            return Err(too_many());
        }
        counted.unauthenticated.remove(source, id);
        counted.authenticated += 1;
        Ok(counted.authenticated)
    }

    /// Whether more than `max_connections` connections are authenticated, so that one of them has
    /// the place reserved for `root`.
    pub(crate) fn is_over(&self, connections_max: usize) -> bool {
        self.connections.lock().public.authenticated > connections_max
    }

    pub(crate) fn figures(&self) -> AdmissionFigures {
        let connections = self.connections.lock();
        AdmissionFigures {
            open: connections.open.len(),
            unauthenticated: connections.public.unauthenticated.count
                + connections.admin.unauthenticated.count,
            admin: connections.admin.authenticated,
        }
    }

    /// The socket of an open connection.
    pub(crate) fn socket(&self, id: u64) -> Option<Arc<Raw>> {
        self.connections.lock().open.get(&id).map(|open| open.raw.clone())
    }

    /// Ends all connections: each once its response is sent, or after `wait`. Returns whether all
    /// were released.
    pub(crate) fn end(&self, wait: Duration) -> bool {
        let mut connections = self.connections.lock();
        connections.open.values().for_each(|open| open.raw.wake());
        let some_left = |connections: &mut Connections| !connections.open.is_empty();
        let timeout = self.released.wait_while_for(&mut connections, some_left, wait);
        if timeout.timed_out() {
            connections.open.values().for_each(|open| open.raw.close());
            self.released.wait_while_for(&mut connections, some_left, Duration::from_secs(1));
        }
        connections.open.is_empty()
    }
}

#[cfg(test)]
mod tests;
