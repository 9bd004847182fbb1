#![no_main]
//! Clients of a server with two workers, in any order of short and long statements, commits, waits
//! for locks, kills, and commands that are sent in pieces or left unfinished. Each answer that no
//! other client holds up comes within seconds: a wake-up that was lost would let it wait for the
//! next event of another client, or for ever.

#[path = "common/wire.rs"]
mod wire;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use spillway::{Database, Settings};
use spillway_base::clock::{self, Clock};
use spillway_server::{Server, ServerSettings};
use spillway_sql::Instance;
use wire::Awaited::{Killed, Row, Soon};
use wire::{Client, packet, query};

/// A client that waits this long for an answer, which nobody holds up, has been forgotten.
const PATIENCE: Duration = Duration::from_secs(10);
const WORKERS: usize = 2;
/// How long a statement of [`Action::Long`] takes at most, about.
const LONG: Duration = Duration::from_millis(40);
const NUMBERS: u32 = 1000;
/// The most answers for which a client waits before it sends more.
const AWAITED_MAX: usize = 4;
/// The most waits of a second for a lock of GET_LOCK.
const LOCKS_MAX: usize = 3;
const STEPS_MAX: usize = 48;

/// The server, which serves all inputs.
struct World {
    address: SocketAddr,
    socket: PathBuf,
    /// A client that kills statements.
    control: Mutex<Client>,
    /// As many rows as a long statement joins at most.
    long_rows: u32,
    _server: Server,
}

static WORLD: LazyLock<World> = LazyLock::new(World::start);

/// The steps of the input that runs.
static SCHEDULE: Mutex<String> = Mutex::new(String::new());

impl World {
    fn start() -> World {
        let mut settings = Settings::default();
        settings.memory_bytes = 64 << 20;
        settings.log_segment_bytes = 1 << 20;
        settings.log_bytes_max = 16 << 20;
        let database = Database::open_in_memory(settings).expect("a database in memory opens");
        let instance = Instance::open(database).expect("a new catalog");
        let name = format!("spillway-fuzz-{}.sock", std::process::id());
        let socket = std::env::temp_dir().join(name);
        let settings = ServerSettings {
            port: 0,
            socket: Some(socket.clone()),
            workers: WORKERS,
            ..ServerSettings::default()
        };
        let server = Server::start(instance, settings).expect("a server on any port");
        let address = server.address();
        let mut control = Client::connect(Ok(address), PATIENCE).expect("a client");
        let numbers = |from: u32, to: u32| {
            let rows: Vec<String> = (from..to).map(|id| format!("({id}, 0)")).collect();
            rows.join(",")
        };
        for (table, rows) in
            [("n", numbers(0, NUMBERS)), ("own", numbers(0, 1000)), ("r", numbers(0, 3))]
        {
            for sql in [
                format!("CREATE TABLE test.{table} (id INT PRIMARY KEY, v INT)"),
                format!("INSERT INTO test.{table} VALUES {rows}"),
            ] {
                assert!(control.run(&sql, clock::now() + PATIENCE), "{sql}");
            }
        }
        let begin = clock::now();
        assert!(control.run(&join(NUMBERS), begin + 6 * PATIENCE));
        let took = clock::now() - begin;
        let long_rows = NUMBERS.min((f64::from(NUMBERS) * LONG.div_duration_f64(took)) as u32);
        World { address, socket, control: Mutex::new(control), long_rows, _server: server }
    }

    fn control(&self) -> MutexGuard<'_, Client> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Kills a connection or its statement. Returns whether the connection exists.
    fn kill(&self, what: &str, id: u32) -> bool {
        self.control().run(&format!("KILL {what} {id}"), clock::now() + PATIENCE)
    }
}

/// A join of some rows with all.
fn join(rows: u32) -> String {
    format!("SELECT COUNT(*) FROM test.n a, test.n b WHERE a.id < {rows} AND a.id + b.id = -1")
}

/// A join that takes hours.
const ENDLESS: &str = "SELECT COUNT(*) FROM test.n a, test.n b, test.n c, test.n d \
                       WHERE a.id + b.id + c.id + d.id = -1";

macro_rules! actions {
    ($($action:ident)*) => {
        #[derive(Clone, Copy, Debug)]
        enum Action {
            $($action),*
        }
        const ACTIONS: &[Action] = &[$(Action::$action),*];
    };
}

actions! {
    Short Ping Point Pipelined Part Long Sleep Endless Commit Begin End Row Lock Unlock KillQuery
    Kill Quit HalfClose Drop Pause Await AwaitAll
}

use Action::*;

#[derive(Debug)]
struct Step {
    action: Action,
    client: usize,
    arg: u8,
}

struct Run {
    clients: Vec<Option<Client>>,
    /// Clients whose sending side has ended.
    ending: Vec<Client>,
    /// Connections whose clients are gone.
    gone: Vec<u32>,
    /// Waits for locks of GET_LOCK so far.
    locks: usize,
}

impl Run {
    /// The client of a number. It connects, if it has not or was killed.
    fn client(&mut self, number: usize) -> &mut Client {
        let client = &mut self.clients[number];
        if client.as_ref().is_none_or(|client| client.is_closed) {
            let world = &*WORLD;
            let tcp = number % 2 == 0;
            let to = if tcp { Ok(world.address) } else { Err(world.socket.as_path()) };
            // Ports may be short after many inputs.
            let connected = Client::connect(to, PATIENCE)
                .or_else(|_| Client::connect(Err(world.socket.as_path()), PATIENCE));
            *client = Some(connected.expect("a connection"));
        }
        client.as_mut().expect("it is connected")
    }

    fn all(&mut self) -> impl Iterator<Item = &mut Client> {
        self.clients.iter_mut().flatten().chain(&mut self.ending)
    }

    fn endless(&mut self) -> usize {
        self.all().map(|client| client.awaited.iter().filter(|one| **one == Killed).count()).sum()
    }

    fn step(&mut self, step: &Step) {
        let Step { action, client: number, arg } = *step;
        let target = usize::from(arg) % self.clients.len();
        let target = self.clients[target].as_mut().filter(|_| target != number).map(|client| {
            client.may_close |= matches!(action, Kill);
            client.id
        });
        let (endless, locks) = (self.endless(), self.locks);
        let client = self.client(number);
        let has_room = client.awaited.len() < AWAITED_MAX;
        match action {
            Await => look_or_wait(client),
            AwaitAll => self.clients.iter_mut().flatten().for_each(look_or_wait),
            Pause => Clock::system().sleep(Duration::from_millis(u64::from(arg % 8))),
            Quit | HalfClose | Drop => self.leave(number, action),
            _ if !has_room => look_or_wait(client),
            Ping => client.send(&packet(0, &[0x0e]), &[Soon]),
            Pipelined => {
                let count = usize::from(2 + arg % 4);
                client.send(&query("SELECT 1").repeat(count), &vec![Soon; count]);
            }
            Part => client.send_part(&query("SELECT 'sent in two parts'"), arg.into(), Soon),
            Endless if endless < WORKERS => client.send(&query(ENDLESS), &[Killed]),
            Action::Row => client.send(&query(&row_statement(arg)), &[Row]),
            _ => {
                let sql = statement(action, arg, client.id, target, locks);
                client.send(&query(&sql), &[Soon]);
                self.locks += usize::from(matches!(action, Lock));
            }
        }
    }

    /// A client goes.
    fn leave(&mut self, number: usize, how: Action) {
        let Some(mut client) = self.clients[number].take() else { return };
        match how {
            Quit => {
                client.send(&packet(0, &[1]), &[]);
                client.may_close = true;
                self.ending.push(client);
            }
            HalfClose => {
                client.end();
                self.ending.push(client);
            }
            _ => {
                if client.awaited.contains(&Killed) {
                    WORLD.kill("", client.id);
                }
                self.gone.push(client.id);
            }
        }
    }

    /// Ends all transactions and endless statements. Then every answer comes, and every connection
    /// ends.
    fn end(mut self) {
        for client in self.clients.iter_mut().flatten().filter(|client| !client.is_closed) {
            client.send(&query("COMMIT"), &[Soon]);
            client.send(&query("SELECT RELEASE_ALL_LOCKS()"), &[Soon]);
        }
        let until = clock::now() + PATIENCE;
        loop {
            let mut left = Vec::new();
            for client in self.all() {
                // The statement may begin only after an earlier one of its client was killed.
                if client.awaited.contains(&Killed) {
                    WORLD.kill("QUERY", client.id);
                }
                client.look(Duration::from_millis(1));
                if !client.awaited.is_empty() {
                    left.push((client.id, client.awaited.clone()));
                }
            }
            if left.is_empty() {
                break;
            }
            assert!(clock::now() < until, "all locks are free, and answers are missing: {left:?}");
        }
        let left: Vec<u32> = self.all().map(|client| client.id).collect();
        self.gone.extend(left);
        drop((self.clients, self.ending));
        for id in self.gone {
            while WORLD.kill("", id) {
                assert!(clock::now() < until + PATIENCE, "connection {id} does not end");
                Clock::system().sleep(Duration::from_micros(100));
            }
        }
    }
}

/// A statement that locks a row of a few.
fn row_statement(arg: u8) -> String {
    let id = arg / 2 % 3;
    if arg % 2 == 0 {
        format!("SELECT v FROM test.r WHERE id = {id} FOR UPDATE")
    } else {
        format!("UPDATE test.r SET v = v + 1 WHERE id = {id}")
    }
}

/// A statement that no other client holds up for more than a second.
fn statement(action: Action, arg: u8, own_id: u32, target: Option<u32>, locks: usize) -> String {
    match (action, target) {
        (Point, _) => format!("SELECT v FROM test.r WHERE id = {}", arg % 3),
        (Long, _) => join(WORLD.long_rows * u32::from(arg) / 255),
        (Sleep, _) => "SELECT SLEEP(0.02)".to_owned(),
        // No two connections of an input have the same row.
        (Commit, _) => format!("UPDATE test.own SET v = v + 1 WHERE id = {}", own_id % 1000),
        (Begin, _) => "BEGIN".to_owned(),
        (End, _) => if arg % 2 == 0 { "COMMIT" } else { "ROLLBACK" }.to_owned(),
        (Lock, _) => {
            format!("SELECT GET_LOCK('k{}', {})", arg % 3, u8::from(locks < LOCKS_MAX))
        }
        (Unlock, _) => "SELECT RELEASE_ALL_LOCKS()".to_owned(),
        (KillQuery, Some(id)) => format!("KILL QUERY {id}"),
        (Kill, Some(id)) => format!("KILL {id}"),
        _ => "SELECT 1".to_owned(),
    }
}

fn look_or_wait(client: &mut Client) {
    client.send(&[], &[]);
    if client.is_free() {
        client.wait(clock::now() + PATIENCE, "answers that nobody holds up");
    } else {
        client.look(Duration::from_millis(1));
    }
}

libfuzzer_sys::fuzz_target!(init: {
    let abort = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let schedule = SCHEDULE.lock().unwrap_or_else(PoisonError::into_inner);
        eprintln!("schedule: {schedule}");
        abort(info);
    }));
}, |bytes: &[u8]| {
    let Some((first, bytes)) = bytes.split_first() else { return };
    let count = usize::from(2 + first % 5);
    let steps: Vec<Step> = bytes
        .chunks_exact(2)
        .take(STEPS_MAX)
        .map(|step| Step {
            action: ACTIONS[usize::from(step[0]) % ACTIONS.len()],
            client: usize::from(step[0]) / ACTIONS.len() % count,
            arg: step[1],
        })
        .collect();
    *SCHEDULE.lock().unwrap_or_else(PoisonError::into_inner) = format!("{steps:?}");
    let clients = (0..count).map(|_| None).collect();
    let mut run = Run { clients, ending: Vec::new(), gone: Vec::new(), locks: 0 };
    steps.iter().for_each(|step| run.step(step));
    run.end();
});
