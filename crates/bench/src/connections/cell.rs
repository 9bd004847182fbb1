//! A number of connections to one server, each with a statement in flight, for a while.

use std::path::Path;
use std::time::Duration;

use hdrhistogram::Histogram;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use spillway_base::clock;
use spillway_base::rng::Rng;

use super::client::Client;
use crate::machine::Cpu;
use crate::measure::histogram;

/// The parameters of a cell.
pub(crate) struct ConnectionsPlan<'a> {
    /// Where the server listens.
    pub(crate) socket: &'a Path,
    /// Whether the measured connections use TCP, to the port that the server reports.
    pub(crate) tcp: bool,
    pub(crate) connections: usize,
    /// The number of rows. Each statement uses a random one.
    pub(crate) rows: u64,
    /// How long the cell is measured, after a warm-up of a fifth of that.
    pub(crate) time: Duration,
    /// The number of statements, instead of a time.
    pub(crate) statements: Option<u64>,
    pub(crate) seed: u64,
    /// The statement of a connection, by its index, for this row.
    pub(crate) statement: &'a dyn Fn(usize, u64) -> String,
}

/// The results of a cell.
pub(crate) struct ConnectionsResults {
    pub(crate) latency_ns: Histogram<u64>,
    pub(crate) elapsed: Duration,
    pub(crate) server: Cpu,
    pub(crate) client: Cpu,
    /// Bytes that the server read from devices.
    pub(crate) read_bytes: u64,
    /// Answered statements, including those that were not measured.
    pub(crate) told: u64,
}

/// Runs a plan.
pub(crate) fn run(plan: &ConnectionsPlan<'_>) -> Result<ConnectionsResults, String> {
    ConnectionsCell::open(plan)?.run()
}

/// Bytes that a process has read from devices; 0 if the system does not report them.
fn read_bytes(process: u32) -> u64 {
    let io = std::fs::read_to_string(format!("/proc/{process}/io")).unwrap_or_default();
    let line = io.lines().find_map(|line| line.strip_prefix("read_bytes: "));
    line.and_then(|count| count.parse().ok()).unwrap_or(0)
}

/// Connections to one server, and their statements in flight.
struct ConnectionsCell<'a> {
    plan: &'a ConnectionsPlan<'a>,
    /// The server's process.
    server: u32,
    clients: Vec<Client>,
    /// When the statement in flight was sent.
    sent: Vec<Duration>,
    rng: Rng,
    /// Statements sent, and those that the server has answered.
    begun: u64,
    told: u64,
}

impl ConnectionsCell<'_> {
    fn open<'a>(plan: &'a ConnectionsPlan<'a>) -> Result<ConnectionsCell<'a>, String> {
        let mut first = Client::connect(plan.socket)?;
        let server = first.server().ok_or("the server's process is not known")?;
        let port = plan.tcp.then(|| first.number("SELECT @@port")).transpose()?;
        let port = port.map(|port| u16::try_from(port).map_err(|error| error.to_string()));
        let port = port.transpose()?;
        let open = |_| {
            let mut client = match port {
                Some(port) => Client::connect_tcp(port)?,
                None => Client::connect(plan.socket)?,
            };
            client.set_nonblocking().map(|()| client)
        };
        Ok(ConnectionsCell {
            plan,
            server,
            clients: (0..plan.connections).map(open).collect::<Result<_, String>>()?,
            sent: vec![Duration::ZERO; plan.connections],
            rng: Rng::new(plan.seed),
            begun: 0,
            told: 0,
        })
    }

    fn run(mut self) -> Result<ConnectionsResults, String> {
        let server = self.server;
        let queue = epoll::create(CreateFlags::CLOEXEC).map_err(|error| error.to_string())?;
        for (place, client) in self.clients.iter().enumerate() {
            let data = EventData::new_u64(place as u64);
            epoll::add(&queue, client.fd(), data, EventFlags::IN)
                .map_err(|error| error.to_string())?;
        }
        let begin = clock::now();
        let (time, statements) = (self.plan.time, self.plan.statements);
        let (measure_from, until) = match statements {
            Some(_) => (begin, Duration::MAX),
            None => (begin + time / 5, begin + time / 5 + time),
        };
        let limit = statements.unwrap_or(u64::MAX);
        let mut under_way = 0;
        for place in 0..self.clients.len() {
            under_way += usize::from(self.send(place, limit)?);
        }
        let mut latency_ns = histogram();
        let mut before = (Cpu::of(server), Cpu::own(), read_bytes(server));
        let mut measuring = statements.is_some();
        let mut ready = Vec::with_capacity(1024);
        while under_way > 0 {
            ready.clear();
            epoll::wait(&queue, rustix::buffer::spare_capacity(&mut ready), None)
                .map_err(|error| error.to_string())?;
            if !measuring && clock::now() >= measure_from {
                measuring = true;
                before = (Cpu::of(server), Cpu::own(), read_bytes(server));
            }
            for event in &ready {
                let place = event.data.u64() as usize;
                if self.clients[place].outcome()?.is_none() {
                    continue;
                }
                self.told += 1;
                let now = clock::now();
                if measuring && self.sent[place] >= measure_from {
                    latency_ns.saturating_record((now - self.sent[place]).as_nanos() as u64);
                }
                if now >= until || !self.send(place, limit)? {
                    under_way -= 1;
                }
            }
        }
        Ok(ConnectionsResults {
            latency_ns,
            elapsed: clock::now() - measure_from,
            server: Cpu::of(server).since(before.0),
            client: Cpu::own().since(before.1),
            read_bytes: read_bytes(server).saturating_sub(before.2),
            told: self.told,
        })
    }

    /// Sends the next statement, unless the limit is reached.
    fn send(&mut self, place: usize, limit: u64) -> Result<bool, String> {
        if self.begun == limit {
            return Ok(false);
        }
        self.begun += 1;
        let statement = (self.plan.statement)(place, self.rng.below(self.plan.rows));
        self.sent[place] = clock::now();
        self.clients[place].query(statement.as_bytes()).map(|()| true)
    }
}
