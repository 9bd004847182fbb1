//! The interface between SQL and the server in front of it: the wakers of sessions, the connection
//! counters of SHOW STATUS, and the limits that a session's variables put on its connection.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::Session;
use super::instance::Instance;
use crate::api::Front;
use crate::errors::{Result, SqlError};

/// The limits of a connection, from the variables of its session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// `max_allowed_packet`: the longest command, in bytes.
    pub packet_max: usize,
    /// `wait_timeout`: how long a client may be idle between commands.
    pub wait: Duration,
    /// `net_read_timeout`: how long the rest of a command may take.
    pub read: Duration,
    /// `net_write_timeout`: how long a client may accept no bytes of a response.
    pub write: Duration,
}

/// The variables that limit connections, with their smallest and largest values.
const BOUNDS: &[(&str, u64, u64)] = &[
    ("connect_timeout", 2, 31_536_000),
    ("interactive_timeout", 1, 31_536_000),
    ("max_allowed_packet", 1024, 1 << 30),
    ("max_connections", 1, 100_000),
    ("max_prepared_stmt_count", 0, 4_194_304),
    ("max_user_connections", 0, 4_294_967_295),
    ("net_read_timeout", 1, 31_536_000),
    ("net_write_timeout", 1, 31_536_000),
    ("wait_timeout", 1, 31_536_000),
];

/// Checks the new value of a limit. Clamps a number that is out of range, with a warning, as in
/// MySQL.
pub(super) fn check_limit(
    name: &str,
    global: bool,
    text: &mut String,
    warnings: &mut Vec<SqlError>,
) -> Result<()> {
    let Some((_, least, most)) = BOUNDS.iter().find(|(other, ..)| *other == name) else {
        return Ok(());
    };
    if !global && matches!(name, "connect_timeout" | "max_connections" | "max_prepared_stmt_count")
    {
        let text =
            format!("Variable '{name}' is a GLOBAL variable and should be set with SET GLOBAL");
        return Err(SqlError::new(1229, text));
    }
    if !global && matches!(name, "max_allowed_packet" | "max_user_connections") {
        let text =
            format!("SESSION variable '{name}' is read-only. Use SET GLOBAL to assign the value");
        return Err(SqlError::new(1621, text));
    }
    let number: i128 = text.parse().map_err(|_| {
        SqlError::new(1232, format!("Incorrect argument type to variable '{name}'"))
    })?;
    let within = number.clamp(i128::from(*least), i128::from(*most));
    if within != number {
        warnings.push(SqlError::new(1292, format!("Truncated incorrect {name} value: '{number}'")));
    }
    *text = within.to_string();
    Ok(())
}

impl Instance {
    /// Sets the server in front. The instance does not keep the server alive.
    pub fn attach(&self, front: Weak<dyn Front>) {
        *self.0.front.lock() = Some(front);
    }

    /// Sets a global system variable, even if no client may set it.
    pub fn set_global(&self, name: &str, value: impl Into<String>) {
        Arc::make_mut(&mut self.0.globals.lock()).insert(name.to_owned(), value.into());
    }

    /// The value of a global system variable, as text.
    #[must_use]
    pub fn global(&self, name: &str) -> Option<String> {
        self.0.globals.lock().get(name).cloned()
    }

    /// The value of a global system variable that is a number.
    #[must_use]
    pub fn global_number(&self, name: &str) -> Option<u64> {
        self.0.globals.lock().get(name)?.parse().ok()
    }

    /// A line for people: the uptime, the number of sessions, and the statements since the opening.
    #[must_use]
    pub fn statistics(&self) -> String {
        let uptime = (spillway_base::clock::now() - self.0.started).as_secs();
        let (sessions, ran) = self.asked();
        let questions = ran.all.into_inner();
        let tables = self.0.catalog.load().tables.len();
        let average = questions as f64 / uptime.max(1) as f64;
        format!(
            "Uptime: {uptime}  Threads: {sessions}  Questions: {questions}  Open tables: {tables}  \
             Queries per second avg: {average:.3}"
        )
    }

    pub(super) fn wake(&self, connection_id: u64) {
        let front = self.0.front.lock().clone();
        if let Some(front) = front.and_then(|front| front.upgrade()) {
            front.wake(connection_id);
        }
    }

    /// Whether a session's client has disconnected.
    pub(super) fn is_gone(&self, connection_id: u64) -> bool {
        let front = self.0.front.lock().clone();
        front.and_then(|front| front.upgrade()).is_some_and(|front| front.is_gone(connection_id))
    }

    pub(super) fn front_status(&self) -> Vec<(String, String)> {
        let front = self.0.front.lock().clone();
        front.and_then(|front| front.upgrade()).map_or_else(Vec::new, |front| front.status())
    }
}

impl Session {
    /// The limits that the session's variables put on its connection.
    #[must_use]
    pub fn limits(&self) -> Limits {
        let variables = self.variables.borrow();
        let number = |name: &str| variables.system.get(name).and_then(|text| text.parse().ok());
        let seconds = |name: &str, or: u64| Duration::from_secs(number(name).unwrap_or(or));
        Limits {
            packet_max: number("max_allowed_packet").unwrap_or(64 << 20) as usize,
            wait: seconds("wait_timeout", 28_800),
            read: seconds("net_read_timeout", 30),
            write: seconds("net_write_timeout", 60),
        }
    }

    /// A counter that changes whenever a variable of the session is set. [`Session::limits`] may
    /// then have changed.
    #[must_use]
    pub fn assignments(&self) -> u64 {
        self.variables.borrow().assignments
    }

    /// Marks the client as interactive: `wait_timeout` becomes `interactive_timeout`.
    pub fn set_interactive(&mut self) {
        let mut variables = self.variables.borrow_mut();
        if let Some(timeout) = variables.system.get("interactive_timeout").cloned() {
            variables.system.insert("wait_timeout".to_owned(), timeout);
        }
    }

    /// Sets the lines of SHOW STATUS about this session's connection.
    pub fn set_connection_status(&mut self, lines: Vec<(String, String)>) {
        self.status_variables.set_connection(lines);
    }
}
