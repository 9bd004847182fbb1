//! One client: its login, then its commands until it goes, a step at a time.

use std::io;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use rustc_hash::FxHashMap;
use spillway::CommitFuture;
use spillway_base::clock;
use spillway_sql::{Limits, Outcome, ResultColumn, Session, SqlError};
use spillway_types::{Collation, ColumnType};

use crate::auth::{self, NATIVE, Nonce};
use crate::capabilities as can;
use crate::codec::Take;
use crate::columns::{Columns, put_column};
use crate::escape::escape_bytes;
use crate::login::{LOGIN_PACKET_MAX, Login, Peer, authenticate, greet, log_in, too_many};
use crate::packet::{LARGE, Packets, ReadError, Undo};
use crate::params::Bound;
use crate::results::{WireSink, put_end, put_eof, put_error, put_ok};
use crate::server::Shared;
use crate::transport::{Security, Transport};

/// What is kept of a prepared statement.
struct Statement {
    params: usize,
    bound: Bound,
    columns: Columns,
}

/// A client whose session has begun.
struct Connection<T> {
    packets: Packets<T>,
    shared: Arc<Shared>,
    peer: Peer,
    session: Session,
    user: String,
    capabilities: u32,
    cache_metadata: bool,
    /// Of the greeting, for a client that changes its user and can be asked no other.
    nonce: Nonce,
    statements: FxHashMap<u32, Statement>,
    /// Of the last query that was not prepared.
    columns: Columns,
    /// Those of the session when its limits were read.
    assignments: u64,
    limits: Limits,
    /// The last command, for its room.
    payload: Vec<u8>,
    /// Called when the session's statement, which was left while it waits for a row, can go on.
    waker: Waker,
    /// The prepared statement that this is, if it is one.
    left: Option<u32>,
    /// Where a commit takes the end of the last response back.
    undo: Option<Undo>,
    /// When the client will have kept quiet, or the rest of its command back, for too long.
    until: Duration,
    /// Whether that is for the rest of a command.
    begun: bool,
}

/// How a client's last command left it.
#[derive(PartialEq, Eq)]
enum Next {
    Command,
    End,
}

/// What is to be done about a client next.
pub(crate) enum Step {
    /// Its next command may be here.
    Again,
    /// Nothing, before something comes from it, or until this time of [`clock::now`].
    Waits(Duration),
    /// It is to be told the outcome of its commit, before anything else: [`Client::committed`].
    Commits(CommitFuture),
    /// Its statement waits for a row: it goes on once its waker was called, or this time has come.
    Locked(Duration),
    /// It has gone.
    End,
}

/// How far a client has come.
enum Stage<T> {
    Greeted(Box<Packets<T>>, Nonce),
    Known(Box<Connection<T>>),
    Gone,
}

/// A client, served step by step: whoever calls does not wait for it between its commands.
pub(crate) struct Client<T> {
    stage: Stage<T>,
    shared: Arc<Shared>,
    peer: Peer,
    waker: Waker,
    /// When it is to have said who it is.
    deadline: Duration,
}

impl<T: Transport> Client<T> {
    /// Greets a client. `waker` is called when it need not wait for a row any more.
    pub(crate) fn greet(
        mut transport: T,
        shared: Arc<Shared>,
        peer: Peer,
        waker: Waker,
    ) -> Client<T> {
        let deadline = clock::now() + shared.connect_timeout();
        transport.set_deadline(Some(deadline));
        let budget = shared.instance.database().budget().clone();
        let mut packets = Packets::new(transport, LOGIN_PACKET_MAX, budget);
        let stage = match greet(&mut packets, &shared, &peer) {
            Ok(nonce) => Stage::Greeted(Box::new(packets), nonce),
            Err(_) => Stage::Gone,
        };
        Client { stage, shared, peer, waker, deadline }
    }

    /// When it will have kept quiet for too long after its greeting.
    pub(crate) fn deadline(&self) -> Duration {
        self.deadline
    }

    /// Something has come from it, and nothing will after that where it has `ended`.
    pub(crate) fn stir(&mut self, ended: bool) {
        match &mut self.stage {
            Stage::Greeted(packets, _) => packets.transport().stir(ended),
            Stage::Known(connection) => connection.packets.transport().stir(ended),
            Stage::Gone => {}
        }
    }

    /// Runs its next command, if that is here; before, learns who it is, for which something must have come.
    pub(crate) fn step(&mut self) -> Step {
        match std::mem::replace(&mut self.stage, Stage::Gone) {
            Stage::Greeted(packets, nonce) => match self.log_in(*packets, nonce) {
                Some(connection) => {
                    self.stage = Stage::Known(Box::new(connection));
                    Step::Again
                }
                None => {
                    self.shared.counters.aborted_connects.add();
                    Step::End
                }
            },
            Stage::Known(mut connection) => {
                let step = connection.step();
                self.stage = Stage::Known(connection);
                self.unless_lost(step)
            }
            Stage::Gone => {
                self.shared.counters.aborted_connects.add();
                Step::End
            }
        }
    }

    /// Tells it the outcome of its commit.
    pub(crate) fn committed(&mut self, outcome: Result<(), SqlError>) -> Step {
        match &mut self.stage {
            Stage::Known(connection) => {
                let step = connection.committed(outcome);
                self.unless_lost(step)
            }
            Stage::Greeted(..) | Stage::Gone => Step::End,
        }
    }

    /// Lets go of it, because the time that it waited until has come.
    pub(crate) fn expire(&mut self) -> Step {
        match &mut self.stage {
            Stage::Known(connection) => {
                let why = if connection.begun { ReadError::Stalled } else { ReadError::Silent };
                connection.packets.answer_early();
                // Whoever does not hear it finds the connection closed.
                let _ = tell(&mut connection.packets, &why);
                self.shared.counters.aborted_clients.add();
                Step::End
            }
            // Reading says that there is no time left.
            Stage::Greeted(..) | Stage::Gone => self.step(),
        }
    }

    /// Counts a client that went without saying so.
    fn unless_lost(&self, step: Result<Step, ReadError>) -> Step {
        step.unwrap_or_else(|_| {
            self.shared.counters.aborted_clients.add();
            Step::End
        })
    }

    fn log_in(&self, mut packets: Packets<T>, nonce: Nonce) -> Option<Connection<T>> {
        match log_in(&mut packets, &self.shared, &self.peer, nonce) {
            Ok(login) => {
                let (shared, peer, waker) =
                    (self.shared.clone(), self.peer.clone(), self.waker.clone());
                Connection::begin(packets, shared, peer, waker, login?).ok().flatten()
            }
            Err(error) => {
                // Whoever is there learns why, if it still listens.
                let a_little = clock::now() + Duration::from_secs(1);
                packets.transport().set_deadline(Some(a_little));
                let _ = tell(&mut packets, &error);
                None
            }
        }
    }
}

/// Tells a client why it is not read any further.
fn tell<T: Transport>(packets: &mut Packets<T>, why: &ReadError) -> io::Result<()> {
    let error = match why {
        ReadError::Io(_) => return Ok(()),
        ReadError::Silent => SqlError::new(
            4031,
            "The client was disconnected by the server because of inactivity. \
             See wait_timeout and interactive_timeout for configuring this behavior.",
        ),
        ReadError::Stalled => SqlError::new(1159, "Got timeout reading communication packets"),
        ReadError::TooLarge => {
            SqlError::new(1153, "Got a packet bigger than 'max_allowed_packet' bytes")
        }
        ReadError::NoMemory => no_memory(),
        ReadError::OutOfOrder => SqlError::new(1156, "Got packets out of order"),
    };
    packets.packet(|out| put_error(out, &error))?;
    packets.send()
}

fn no_memory() -> SqlError {
    SqlError::new(1041, "Out of memory; the packet does not fit the memory budget")
}

fn malformed() -> SqlError {
    SqlError::new(1835, "Malformed communication packet.")
}

fn unknown_command() -> SqlError {
    SqlError::new(1047, "Unknown command")
}

fn unknown_statement(id: u32, place: &str) -> SqlError {
    SqlError::new(1243, format!("Unknown prepared statement handler ({id}) given to {place}"))
}

impl<T: Transport> Connection<T> {
    /// Begins the session of a client that is known. `None` where it asks for a database that it cannot have, and was told.
    fn begin(
        packets: Packets<T>,
        shared: Arc<Shared>,
        peer: Peer,
        waker: Waker,
        login: Login,
    ) -> io::Result<Option<Connection<T>>> {
        let Login { hello, host, nonce } = login;
        let session = shared.instance.session(&hello.user, &host, peer.id);
        let mut connection = Connection {
            packets,
            shared,
            peer,
            assignments: session.assignments(),
            limits: session.limits(),
            session,
            user: hello.user,
            capabilities: hello.capabilities & can::OURS,
            cache_metadata: hello.extended & can::CACHE_METADATA != 0,
            nonce,
            statements: FxHashMap::default(),
            columns: Columns::default(),
            payload: Vec::new(),
            waker,
            left: None,
            undo: None,
            until: Duration::ZERO,
            begun: false,
        };
        connection.prepare_session()?;
        let welcome = connection.welcome(hello.database.as_deref(), hello.collation)?;
        connection.end_response()?;
        Ok(welcome.then_some(connection))
    }

    /// Answers a client that is known: whether it has the database that it asks for, and with a warning where its text will
    /// be taken for what it is not.
    fn welcome(&mut self, database: Option<&str>, collation: u16) -> io::Result<bool> {
        if let Some(name) = database
            && let Err(error) = self.session.use_database(name)
        {
            self.error(&error)?;
            return Ok(false);
        }
        let mut outcome = self.outcome();
        if !auth::is_utf8(collation) {
            let text = format!(
                "Character sets are not converted: text of collation {collation} is taken for utf8mb4"
            );
            self.session.warn(SqlError::new(1115, text));
            outcome.warnings = 1;
        }
        self.packets.packet(|out| put_ok(out, &outcome))?;
        Ok(true)
    }

    /// Tells a new session, or one that was reset, what is known of its connection.
    fn prepare_session(&mut self) -> io::Result<()> {
        self.session.set_waker(self.waker.clone());
        let has = |capability| self.capabilities & capability != 0;
        self.session.set_flags(has(can::FOUND_ROWS), has(can::MULTI_STATEMENTS));
        if has(can::INTERACTIVE) {
            self.session.set_interactive();
        }
        let (version, cipher) = match self.packets.transport().security() {
            Security::Tls(version, cipher) => (version, cipher),
            Security::Plain | Security::Local => ("", ""),
        };
        self.session.set_connection_status(vec![
            ("Ssl_cipher".to_owned(), cipher.to_owned()),
            ("Ssl_version".to_owned(), version.to_owned()),
        ]);
        self.read_limits()
    }

    fn read_limits(&mut self) -> io::Result<()> {
        self.assignments = self.session.assignments();
        self.limits = self.session.limits();
        self.packets.set_limits(self.limits)
    }

    fn outcome(&self) -> Outcome {
        Outcome { status: self.session.status(), ..Outcome::default() }
    }

    fn ok(&mut self) -> io::Result<()> {
        let outcome = self.outcome();
        self.packets.packet(|out| put_ok(out, &outcome))
    }

    fn error(&mut self, error: &SqlError) -> io::Result<()> {
        self.packets.packet(|out| put_error(out, error))
    }

    fn answer(&mut self, outcome: &Result<(), SqlError>) -> io::Result<()> {
        match outcome {
            Ok(()) => self.ok(),
            Err(error) => self.error(error),
        }
    }

    /// Runs the client's next command, if it is here, or goes on with the one that waits. An error where the client went without
    /// saying so.
    fn step(&mut self) -> Result<Step, ReadError> {
        if self.session.waits_until().is_some() {
            self.resume()?;
            return self.ran();
        }
        match self.packets.arrived() {
            Ok(true) => {}
            Ok(false) => return Ok(Step::Waits(self.waits())),
            // Woken, because there is nothing more to come.
            Err(ReadError::Io(_)) if self.session.is_killed() => return Ok(Step::End),
            Err(why) => return Err(self.lost(why)),
        }
        let mut payload = std::mem::take(&mut self.payload);
        match self.packets.read(&mut payload) {
            Ok(()) => {
                if self.command(&payload)? == Next::End {
                    self.packets.send()?;
                    return Ok(Step::End);
                }
            }
            // The command was read to its end: only it fails.
            Err(ReadError::NoMemory) => self.does_not_fit(&payload)?,
            Err(ReadError::Io(_)) if self.session.is_killed() => return Ok(Step::End),
            Err(why) => return Err(self.lost(why)),
        }
        if payload.capacity() <= LARGE {
            self.payload = payload;
        } else {
            drop(payload);
        }
        self.ran()
    }

    /// What is to be done after a command has run.
    fn ran(&mut self) -> Result<Step, ReadError> {
        if let Some(until) = self.session.waits_until() {
            return Ok(Step::Locked(until));
        }
        match self.packets.take_unsure() {
            None => self.done(),
            Some((commit, undo)) => {
                self.undo = Some(undo);
                Ok(Step::Commits(commit))
            }
        }
    }

    /// Tells the client the outcome of the commit that its last command was to be answered after.
    fn committed(&mut self, outcome: Result<(), SqlError>) -> Result<Step, ReadError> {
        if let (Some(undo), Err(error)) = (self.undo.take(), outcome) {
            self.packets.undo(&undo);
            self.error(&error)?;
        }
        self.done()
    }

    /// Answers a command.
    fn done(&mut self) -> Result<Step, ReadError> {
        if self.session.is_killed() {
            self.packets.send()?;
            return Ok(Step::End);
        }
        self.end_response()?;
        if self.session.assignments() != self.assignments {
            self.read_limits()?;
            self.until = clock::now() + self.limits.wait;
        }
        Ok(if self.packets.is_quiet() { Step::Waits(self.until) } else { Step::Again })
    }

    /// Sends the response; what comes next is a command.
    fn end_response(&mut self) -> io::Result<()> {
        self.packets.send()?;
        self.packets.restart_sequence();
        self.begun = false;
        self.until = clock::now() + self.limits.wait;
        Ok(())
    }

    /// How long it is waited for what the client sends next.
    fn waits(&mut self) -> Duration {
        if self.packets.has_begun() && !self.begun {
            self.begun = true;
            self.until = clock::now() + self.limits.read;
        }
        self.until
    }

    /// Tells a client whose commands cannot be read why.
    fn lost(&mut self, why: ReadError) -> ReadError {
        tell(&mut self.packets, &why).map_or_else(ReadError::from, |()| why)
    }

    /// Refuses a command of which only the first bytes are there. What is never answered must not be now: the client would
    /// take that for the answer to its next command.
    fn does_not_fit(&mut self, first: &[u8]) -> io::Result<()> {
        let id = Take(first.get(1..).unwrap_or_default()).u32();
        match (first.first(), id) {
            (Some(0x18), Some(id)) => {
                if let Some(statement) = self.statements.get_mut(&id) {
                    statement.bound.refuse(no_memory());
                }
            }
            (Some(0x19), Some(id)) => self.close_statement(id),
            _ => self.error(&no_memory())?,
        }
        Ok(())
    }

    fn command(&mut self, payload: &[u8]) -> io::Result<Next> {
        let Some((&command, rest)) = payload.split_first() else {
            self.error(&malformed())?;
            return Ok(Next::Command);
        };
        match command {
            // COM_QUIT
            0x01 => return Ok(Next::End),
            // COM_INIT_DB
            0x02 => {
                let used = self.session.use_database(&String::from_utf8_lossy(rest));
                self.answer(&used)?;
            }
            // COM_QUERY
            0x03 => self.query(rest)?,
            0x04 => self.field_list(rest)?,
            // COM_STATISTICS
            0x09 => {
                let text = self.shared.instance.statistics();
                self.packets.packet(|out| out.extend_from_slice(text.as_bytes()))?;
            }
            // COM_PROCESS_INFO
            0x0A => self.query(b"SHOW FULL PROCESSLIST")?,
            // COM_PROCESS_KILL
            0x0C => match Take(rest).u32() {
                Some(id) => {
                    let killed = self.session.kill(u64::from(id), true);
                    self.answer(&killed)?;
                }
                None => self.error(&malformed())?,
            },
            // COM_PING
            0x0E => self.ok()?,
            0x11 => return self.change_user(rest),
            0x16 => self.prepare(rest)?,
            0x17 => self.execute(rest)?,
            0x18 => self.send_long_data(rest),
            // COM_STMT_CLOSE: answers nothing, also when it makes no sense.
            0x19 => {
                if let Some(id) = Take(rest).u32() {
                    self.close_statement(id);
                }
            }
            // COM_STMT_RESET
            0x1A => {
                let id = Take(rest).u32();
                let reset =
                    match id.and_then(|id| self.statements.get_mut(&id)) {
                        Some(statement) => {
                            statement.bound.reset();
                            Ok(())
                        }
                        None => Err(id.map_or_else(malformed, |id| {
                            unknown_statement(id, "mysqld_stmt_reset")
                        })),
                    };
                self.answer(&reset)?;
            }
            0x1B => self.set_option(rest)?,
            // COM_STMT_FETCH: cursors are never opened, rows follow their execution.
            0x1C => {
                let id = Take(rest).u32().unwrap_or(0);
                let text = format!("The statement ({id}) has no open cursor.");
                self.error(&SqlError::new(1421, text))?;
            }
            // COM_RESET_CONNECTION
            0x1F => {
                self.session.reset();
                self.statements.clear();
                self.prepare_session()?;
                self.ok()?;
            }
            _ => self.error(&unknown_command())?,
        }
        Ok(Next::Command)
    }

    fn query(&mut self, sql: &[u8]) -> io::Result<()> {
        let escaped;
        let sql = match std::str::from_utf8(sql) {
            Ok(sql) => sql,
            Err(_) => match escape_bytes(sql, self.backslash()) {
                Ok(sql) => {
                    escaped = sql;
                    &escaped
                }
                Err(error) => return self.error(&error),
            },
        };
        self.run(None, |session, sink| session.query(sql, sink))
    }

    /// Goes on with the statement that was left.
    fn resume(&mut self) -> io::Result<()> {
        self.run(self.left, |session, sink| session.resume(sink))
    }

    /// Runs a statement, a prepared one if it has a number, and tells the client what came of it; nothing where it waits.
    fn run(
        &mut self,
        prepared: Option<u32>,
        statement: impl FnOnce(&mut Session, &mut WireSink<'_, T>) -> Result<(), SqlError>,
    ) -> io::Result<()> {
        let of_prepared = prepared.and_then(|id| self.statements.get_mut(&id));
        let mut sink = WireSink {
            packets: &mut self.packets,
            capabilities: self.capabilities,
            binary: prepared.is_some(),
            columns: of_prepared.map_or(&mut self.columns, |statement| &mut statement.columns),
            cache_metadata: self.cache_metadata,
            status: self.session.status(),
            gone: None,
        };
        let outcome = statement(&mut self.session, &mut sink);
        if let Some(gone) = sink.gone.take() {
            return Err(gone);
        }
        match outcome {
            Err(_) if self.session.waits_until().is_some() => self.left = prepared,
            Err(error) => self.error(&error)?,
            Ok(()) => {}
        }
        Ok(())
    }

    /// Whether a backslash in a text escapes what follows it.
    fn backslash(&self) -> bool {
        !self.session.status().no_backslash_escapes
    }

    /// COM_FIELD_LIST: a table, and a pattern of columns' names.
    fn field_list(&mut self, rest: &[u8]) -> io::Result<()> {
        let mut take = Take(rest);
        let table = String::from_utf8_lossy(take.until_zero_or_end());
        let pattern = String::from_utf8_lossy(take.0);
        match self.session.field_list(&table) {
            Ok(columns) => {
                let wanted = |column: &&ResultColumn| {
                    pattern.is_empty()
                        || Collation::GeneralCi.like(&column.name, &pattern, Some('\\'))
                };
                for column in columns.iter().filter(wanted) {
                    self.packets.packet(|out| {
                        put_column(out, column);
                        // Its default, which is not told.
                        out.push(0xFB);
                    })?;
                }
                self.end()
            }
            Err(error) => self.error(&error),
        }
    }

    fn end(&mut self) -> io::Result<()> {
        let (capabilities, outcome) = (self.capabilities, self.outcome());
        self.packets.packet(|out| put_end(out, capabilities, &outcome))
    }

    /// COM_SET_OPTION: whether a query may be several.
    fn set_option(&mut self, rest: &[u8]) -> io::Result<()> {
        let several = match Take(rest).u16() {
            Some(0) => can::MULTI_STATEMENTS,
            Some(1) => 0,
            _ => return self.error(&unknown_command()),
        };
        self.capabilities = self.capabilities & !can::MULTI_STATEMENTS | several;
        self.session.set_flags(self.capabilities & can::FOUND_ROWS != 0, several != 0);
        self.end()
    }

    fn change_user(&mut self, rest: &[u8]) -> io::Result<Next> {
        let Some(mut hello) = auth::read_change_user(rest, self.capabilities) else {
            self.error(&malformed())?;
            return Ok(Next::End);
        };
        // It answers the greeting's nonce, which is long known: where it can be asked anew it is.
        let able = self.capabilities & can::PLUGIN_AUTH != 0;
        hello.plugin = if able { String::new() } else { NATIVE.to_owned() };
        let host = self.peer.host(&self.shared, &hello.user);
        let (packets, nonce) = (&mut self.packets, &self.nonce);
        let mut proved = authenticate(packets, &self.shared, &self.peer, &host, &hello, nonce);
        // Root may be here in the place that there is for it alone.
        let from_root = self.user == "root" && hello.user != "root";
        if matches!(proved, Ok(Ok(()))) && from_root && self.shared.over_limit() {
            self.shared.counters.refused.add();
            proved = Ok(Err(too_many()));
        }
        match proved {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                self.error(&error)?;
                return Ok(Next::End);
            }
            Err(ReadError::Io(error)) => return Err(error),
            Err(why) => {
                tell(&mut self.packets, &why)?;
                return Ok(Next::End);
            }
        }
        self.session = self.shared.instance.session(&hello.user, &host, self.peer.id);
        self.user.clone_from(&hello.user);
        self.statements.clear();
        self.prepare_session()?;
        let welcome = self.welcome(hello.database.as_deref(), hello.collation)?;
        Ok(if welcome { Next::Command } else { Next::End })
    }
}

/// Prepared statements.
impl<T: Transport> Connection<T> {
    fn prepare(&mut self, sql: &[u8]) -> io::Result<()> {
        let prepared = match std::str::from_utf8(sql) {
            Ok(sql) => self.session.prepare(sql),
            Err(_) => {
                escape_bytes(sql, self.backslash()).and_then(|sql| self.session.prepare(&sql))
            }
        };
        let prepared = match prepared {
            Ok(prepared) => prepared,
            Err(error) => return self.error(&error),
        };
        let id = prepared.id;
        let (Ok(params), Ok(columns)) =
            (u16::try_from(prepared.params), u16::try_from(prepared.columns.len()))
        else {
            self.session.close_statement(id);
            let text = "Prepared statement contains too many placeholders";
            return self.error(&SqlError::new(1390, text));
        };
        let (bound, kept) = (Bound::default(), Columns::default());
        let statement = Statement { params: prepared.params, bound, columns: kept };
        self.statements.insert(id, statement);
        self.packets.packet(|out| {
            out.push(0);
            out.extend_from_slice(&id.to_le_bytes());
            out.extend_from_slice(&columns.to_le_bytes());
            out.extend_from_slice(&params.to_le_bytes());
            out.extend_from_slice(&[0, 0, 0]);
        })?;
        let param = param_column();
        for _ in 0..params {
            self.packets.packet(|out| put_column(out, &param))?;
        }
        self.end_definitions(params > 0)?;
        for column in &prepared.columns {
            self.packets.packet(|out| put_column(out, column))?;
        }
        self.end_definitions(columns > 0)
    }

    /// After definitions, for a client that looks for their end.
    fn end_definitions(&mut self, any: bool) -> io::Result<()> {
        if any && self.capabilities & can::DEPRECATE_EOF == 0 {
            let status = self.session.status();
            self.packets.packet(|out| put_eof(out, 0, status))?;
        }
        Ok(())
    }

    fn execute(&mut self, rest: &[u8]) -> io::Result<()> {
        let mut take = Take(rest);
        // The number, the cursor that is asked for and never given, and how often, which is once.
        let (Some(id), Some(_cursor), Some(_times)) = (take.u32(), take.u8(), take.u32()) else {
            return self.error(&malformed());
        };
        let Some(statement) = self.statements.get_mut(&id) else {
            return self.error(&unknown_statement(id, "mysqld_stmt_execute"));
        };
        let params = match statement.bound.read(take.0, statement.params) {
            Ok(params) => params,
            Err(error) => return self.error(&error),
        };
        self.run(Some(id), |session, sink| session.execute(id, params, sink))
    }

    /// COM_STMT_SEND_LONG_DATA: answers nothing, also when it makes no sense.
    fn send_long_data(&mut self, rest: &[u8]) {
        let mut take = Take(rest);
        let (Some(id), Some(at)) = (take.u32(), take.u16()) else { return };
        if let Some(statement) = self.statements.get_mut(&id) {
            let max = self.session.limits().packet_max;
            let budget = self.shared.instance.database().budget();
            statement.bound.append(at, statement.params, take.0, max, budget);
        }
    }

    fn close_statement(&mut self, id: u32) {
        if self.statements.remove(&id).is_some() {
            self.session.close_statement(id);
        }
    }
}

fn param_column() -> ResultColumn {
    ResultColumn {
        schema: "".into(),
        table: "".into(),
        org_table: "".into(),
        name: "?".into(),
        org_name: "".into(),
        column_type: ColumnType::VarChar(255),
        collation: Collation::GeneralCi,
        flags: spillway_sql::ColumnFlags::default(),
    }
}
