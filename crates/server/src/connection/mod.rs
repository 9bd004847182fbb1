//! One client: its login, then its commands until it disconnects, one step at a time.

mod commands;

use std::io;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use rustc_hash::FxHashMap;
use rustix::io::Errno;
use spillway::CommitFuture;
use spillway_base::clock;
use spillway_sql::{Limits, Outcome, Session, SqlError};

use crate::auth::{self, Nonce};
use crate::batched_send::PendingSend;
use crate::capabilities as can;
use crate::columns::Columns;
use crate::login::{LOGIN_PACKET_MAX, Login, Peer, greet, log_in};
use crate::packet::{KEPT_BYTES, Packets, ReadError, Undo};
use crate::params::Bound;
use crate::results::{put_error, put_ok};
use crate::server::Shared;
use crate::transport::{Security, Transport};

/// The state of a prepared statement.
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
    /// The nonce of the greeting, for a COM_CHANGE_USER of a client to which no new nonce can be
    /// sent.
    nonce: Nonce,
    statements: FxHashMap<u32, Statement>,
    /// The columns of the last result of COM_QUERY.
    columns: Columns,
    /// The session's count of variable assignments when this connection last read its limits.
    assignments: u64,
    limits: Limits,
    /// The buffer of the last command, to reuse its memory.
    payload: Vec<u8>,
    /// Called when the suspended statement can continue.
    waker: Waker,
    /// The number of the suspended statement, if it is a prepared one.
    left: Option<u32>,
    /// How to withdraw the end of the last response, if its commit fails.
    undo: Option<Undo>,
    /// The deadline for the client's next command, or for the rest of a command that has begun.
    until: Duration,
    /// Whether the deadline is for the rest of a command.
    begun: bool,
    /// Whether a complete response was not sent yet, or only in part.
    answered: bool,
}

/// The state of a client after a command.
#[derive(PartialEq, Eq)]
enum AfterCommand {
    Command,
    End,
}

/// What a client needs next.
pub(crate) enum Step {
    /// The client's next command may have arrived.
    Again,
    /// The client waits until it sends something, or until this time of [`clock::now`].
    Waits(Duration),
    /// The client waits for its commit. The worker then passes the outcome to
    /// [`Client::committed`].
    Commits(CommitFuture),
    /// The statement is suspended. It continues once its waker was called, or at this time.
    Locked(Duration),
    /// The response can be sent ([`Client::pending_send`]). Then the client waits as for `Waits`.
    Answers(Duration),
    /// The client has disconnected.
    End,
}

/// The stage of a client.
enum ClientStage<T> {
    Greeted(Box<Packets<T>>, Nonce),
    Known(Box<Connection<T>>),
    Gone,
}

/// A client that is served step by step, so that the caller does not wait for it between its
/// commands.
pub(crate) struct Client<T> {
    stage: ClientStage<T>,
    shared: Arc<Shared>,
    peer: Peer,
    waker: Waker,
    /// The deadline of the login.
    deadline: Duration,
}

impl<T: Transport> Client<T> {
    /// Greets a client. `waker` is called when a suspended statement of the client can continue.
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
            Ok(nonce) => ClientStage::Greeted(Box::new(packets), nonce),
            Err(_) => ClientStage::Gone,
        };
        Client { stage, shared, peer, waker, deadline }
    }

    /// The deadline for the client's answer to the greeting.
    pub(crate) fn deadline(&self) -> Duration {
        self.deadline
    }

    /// The client's transport; `None` once it has disconnected.
    pub(crate) fn transport(&mut self) -> Option<&mut T> {
        match &mut self.stage {
            ClientStage::Greeted(packets, _) => Some(packets.transport()),
            ClientStage::Known(connection) => Some(connection.packets.transport()),
            ClientStage::Gone => None,
        }
    }

    /// Whether a command has arrived in part.
    pub(crate) fn is_in_command(&self) -> bool {
        matches!(&self.stage, ClientStage::Known(connection) if connection.packets.has_begun())
    }

    /// Reports that bytes have arrived from the client; with `ended`, no more come after them.
    pub(crate) fn stir(&mut self, ended: bool) {
        if let Some(transport) = self.transport() {
            transport.stir(ended);
        }
    }

    /// Runs the client's next command, if it has arrived. Before the login, it authenticates the
    /// client, for which bytes must have arrived.
    pub(crate) fn step(&mut self) -> Step {
        match std::mem::replace(&mut self.stage, ClientStage::Gone) {
            ClientStage::Greeted(packets, nonce) => match self.log_in(*packets, nonce) {
                Some(connection) => {
                    self.stage = ClientStage::Known(Box::new(connection));
                    Step::Again
                }
                None => {
                    self.shared.counters.aborted_connects.add();
                    Step::End
                }
            },
            ClientStage::Known(mut connection) => {
                let step = connection.step();
                self.stage = ClientStage::Known(connection);
                self.unless_lost(step)
            }
            ClientStage::Gone => {
                self.shared.counters.aborted_connects.add();
                Step::End
            }
        }
    }

    /// Passes on the outcome of the client's commit.
    pub(crate) fn committed(&mut self, outcome: Result<(), SqlError>) -> Step {
        match &mut self.stage {
            ClientStage::Known(connection) => {
                let step = connection.committed(outcome);
                self.unless_lost(step)
            }
            ClientStage::Greeted(..) | ClientStage::Gone => Step::End,
        }
    }

    /// The client's response, after [`Step::Answers`].
    pub(crate) fn pending_send(&self) -> Option<PendingSend<'_>> {
        match &self.stage {
            ClientStage::Known(connection) => connection.packets.pending_send(),
            ClientStage::Greeted(..) | ClientStage::Gone => None,
        }
    }

    /// Records how much of [`Client::pending_send`] was sent. Returns whether that was all. If not,
    /// the next step sends the rest or returns the error.
    pub(crate) fn posted(&mut self, sent: Result<usize, Errno>) -> bool {
        match &mut self.stage {
            ClientStage::Known(connection) => {
                connection.answered = !connection.packets.posted(sent);
                !connection.answered
            }
            ClientStage::Greeted(..) | ClientStage::Gone => false,
        }
    }

    /// Ends the client's wait or its connection, because the deadline has passed.
    pub(crate) fn expire(&mut self) -> Step {
        match &mut self.stage {
            ClientStage::Known(connection) => {
                let why = if connection.begun { ReadError::Stalled } else { ReadError::Silent };
                connection.packets.answer_early();
                // A client that does not receive it finds the connection closed.
                let _ = tell(&mut connection.packets, &why);
                self.shared.counters.aborted_clients.add();
                Step::End
            }
            // A read reports the timeout.
            ClientStage::Greeted(..) | ClientStage::Gone => self.step(),
        }
    }

    /// Ends the client after a read error, and counts it as aborted if it did not quit.
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
                // A client that still listens gets the reason.
                let a_little = clock::now() + Duration::from_secs(1);
                packets.transport().set_deadline(Some(a_little));
                let _ = tell(&mut packets, &error);
                None
            }
        }
    }
}

/// Sends a client the reason why its commands are not read any more.
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

impl<T: Transport> Connection<T> {
    /// Begins the session of an authenticated client. Returns `None` if its account has too many
    /// connections, or if it may not use the requested database; the client has the error then.
    fn begin(
        mut packets: Packets<T>,
        shared: Arc<Shared>,
        peer: Peer,
        waker: Waker,
        login: Login,
    ) -> io::Result<Option<Connection<T>>> {
        let Login { hello, account, host, nonce } = login;
        let session = match shared.instance.connect(&account, &host, peer.id) {
            Ok(session) => session,
            Err(error) => {
                packets.packet(|out| put_error(out, &error))?;
                packets.send()?;
                return Ok(None);
            }
        };
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
            answered: false,
        };
        connection.prepare_session()?;
        let welcome = connection.welcome(hello.database.as_deref(), hello.collation)?;
        connection.packets.send()?;
        connection.end_response();
        Ok(welcome.then_some(connection))
    }

    /// Answers the login: whether the client may use the database that it asked for, and a warning
    /// if the server would misread its text.
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

    /// Sets the connection's properties in a new session, or in one that was reset.
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

    /// Runs the client's next command, if it has arrived, or resumes the suspended statement.
    /// Returns an error if the client disconnected without COM_QUIT.
    fn step(&mut self) -> Result<Step, ReadError> {
        if self.session.waits_until().is_some() {
            self.resume()?;
            return self.ran();
        }
        if self.answered {
            // An earlier attempt sent only a part, or failed; in that case this one fails as well.
            self.answered = false;
            self.packets.send()?;
        }
        match self.packets.arrived() {
            Ok(true) => {}
            Ok(false) => return Ok(Step::Waits(self.waits())),
            // The read failed because the server stops reading commands of this session.
            Err(ReadError::Io(_)) if self.session.is_killed() => return Ok(Step::End),
            Err(why) => return Err(self.lost(why)),
        }
        let mut payload = std::mem::take(&mut self.payload);
        match self.packets.read(&mut payload) {
            Ok(()) => {
                if self.command(&payload)? == AfterCommand::End {
                    self.packets.send()?;
                    return Ok(Step::End);
                }
            }
            // The rest of the command was read and dropped, so the connection can go on.
            Err(ReadError::NoMemory) => self.does_not_fit(&payload)?,
            Err(ReadError::Io(_)) if self.session.is_killed() => return Ok(Step::End),
            Err(why) => return Err(self.lost(why)),
        }
        if payload.capacity() <= KEPT_BYTES {
            self.payload = payload;
        } else {
            drop(payload);
        }
        self.ran()
    }

    /// The step after a command has run.
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

    /// Reports the outcome of the commit on which the response to the last command depends.
    fn committed(&mut self, outcome: Result<(), SqlError>) -> Result<Step, ReadError> {
        if let (Some(undo), Err(error)) = (self.undo.take(), outcome) {
            self.packets.undo(&undo);
            self.error(&error)?;
        }
        self.done()
    }

    /// Completes the response to a command.
    fn done(&mut self) -> Result<Step, ReadError> {
        if self.session.is_killed() {
            self.packets.send()?;
            return Ok(Step::End);
        }
        let quiet = self.packets.is_quiet();
        self.answered = quiet && self.packets.pending_send().is_some();
        if !self.answered {
            self.packets.send()?;
        }
        self.end_response();
        if self.session.assignments() != self.assignments {
            self.read_limits()?;
            self.until = clock::now() + self.limits.wait;
        }
        Ok(match (self.answered, quiet) {
            (true, _) => Step::Answers(self.until),
            (_, true) => Step::Waits(self.until),
            _ => Step::Again,
        })
    }

    /// Called when the response is complete: the next packet is a command.
    fn end_response(&mut self) {
        self.packets.restart_sequence();
        self.begun = false;
        self.until = clock::now() + self.limits.wait;
    }

    /// The deadline for the client's next bytes.
    fn waits(&mut self) -> Duration {
        if self.packets.has_begun() && !self.begun {
            self.begun = true;
            self.until = clock::now() + self.limits.read;
        }
        self.until
    }

    /// Sends a client the reason why its commands cannot be read.
    fn lost(&mut self, why: ReadError) -> ReadError {
        tell(&mut self.packets, &why).map_or_else(ReadError::from, |()| why)
    }
}
