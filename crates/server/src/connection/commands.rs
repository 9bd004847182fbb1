//! The commands of the protocol and their answers.

use std::io;

use spillway_base::thread;
use spillway_sql::{ResultColumn, Session, SqlError};
use spillway_types::{Collation, ColumnType};

use super::{AfterCommand, Connection, Statement, no_memory, tell};
use crate::auth::{self, NATIVE};
use crate::capabilities as can;
use crate::codec::Take;
use crate::columns::{Columns, put_column};
use crate::escape::escape_bytes;
use crate::login::prove;
use crate::packet::ReadError;
use crate::params::Bound;
use crate::results::{WireSink, put_end, put_eof};
use crate::transport::Transport;

/// Reading a longer command does not count as brief.
const BRIEF: usize = 4 << 10;

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
    /// Refuses a command that does not fit the memory budget; only its first bytes were kept. If
    /// the command has no response, this error is not sent either: the client would take it as the
    /// response to its next command.
    pub(super) fn does_not_fit(&mut self, first: &[u8]) -> io::Result<()> {
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

    pub(super) fn command(&mut self, payload: &[u8]) -> io::Result<AfterCommand> {
        let Some((&command, rest)) = payload.split_first() else {
            self.error(&malformed())?;
            return Ok(AfterCommand::Command);
        };
        // For statements, the session reports this itself.
        if !matches!(command, 0x01 | 0x03 | 0x0E | 0x17..=0x1A) || payload.len() > BRIEF {
            thread::long_ahead();
        }
        match command {
            // COM_QUIT
            0x01 => return Ok(AfterCommand::End),
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
            // COM_STMT_CLOSE has no response, even if it is malformed.
            0x19 => {
                if let Some(id) = Take(rest).u32() {
                    self.close_statement(id);
                }
            }
            // COM_STMT_RESET
            0x1A => self.reset_statement(Take(rest).u32())?,
            0x1B => self.set_option(rest)?,
            // COM_STMT_FETCH: cursors are never opened; rows are sent with the execution.
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
        Ok(AfterCommand::Command)
    }

    fn reset_statement(&mut self, id: Option<u32>) -> io::Result<()> {
        let reset = match id.and_then(|id| self.statements.get_mut(&id)) {
            Some(statement) => {
                statement.bound.reset();
                Ok(())
            }
            None => Err(id.map_or_else(malformed, |id| unknown_statement(id, "mysqld_stmt_reset"))),
        };
        self.answer(&reset)
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

    /// Resumes the suspended statement.
    pub(super) fn resume(&mut self) -> io::Result<()> {
        self.run(self.left, |session, sink| session.resume(sink))
    }

    /// Runs a statement, a prepared one if `prepared` has its number, and sends the result. Sends
    /// nothing if the statement is suspended.
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

    /// Whether a backslash in a text escapes the next character.
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
                        // In place of the column's default, which is not sent.
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

    /// COM_SET_OPTION: whether a query may consist of several statements.
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

    fn change_user(&mut self, rest: &[u8]) -> io::Result<AfterCommand> {
        let Some(mut hello) = auth::read_change_user(rest, self.capabilities) else {
            self.error(&malformed())?;
            return Ok(AfterCommand::End);
        };
        // The client's proof is for the nonce of the greeting, which was used already. A client
        // that can is asked again, with a new nonce.
        let able = self.capabilities & can::PLUGIN_AUTH != 0;
        hello.plugin = if able { String::new() } else { NATIVE.to_owned() };
        let host = self.peer.host(&self.shared, &hello.user);
        let (packets, nonce) = (&mut self.packets, &self.nonce);
        let mut proved = prove(packets, &self.shared, &self.peer, &host, &hello, nonce);
        if matches!(proved, Ok(Ok(_)))
            && let Err(error) = self.shared.may_become(self.peer.entrance, &self.user, &hello.user)
        {
            proved = Ok(Err(error));
        }
        // The session gives back its place among its account's connections first, so that it can
        // take one again even if the account stays the same.
        self.session.disconnect();
        let connect = |account| self.shared.instance.connect(&account, &host, self.peer.id);
        let session = match proved.map(|proved| proved.and_then(connect)) {
            Ok(Ok(session)) => session,
            Ok(Err(error)) => {
                self.error(&error)?;
                return Ok(AfterCommand::End);
            }
            Err(ReadError::Io(error)) => return Err(error),
            Err(why) => {
                tell(&mut self.packets, &why)?;
                return Ok(AfterCommand::End);
            }
        };
        self.session = session;
        self.user.clone_from(&hello.user);
        self.statements.clear();
        self.prepare_session()?;
        let welcome = self.welcome(hello.database.as_deref(), hello.collation)?;
        Ok(if welcome { AfterCommand::Command } else { AfterCommand::End })
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

    /// Ends the definitions, for a client that expects an EOF packet there.
    fn end_definitions(&mut self, any: bool) -> io::Result<()> {
        if any && self.capabilities & can::DEPRECATE_EOF == 0 {
            let status = self.session.status();
            self.packets.packet(|out| put_eof(out, 0, status))?;
        }
        Ok(())
    }

    fn execute(&mut self, rest: &[u8]) -> io::Result<()> {
        let mut take = Take(rest);
        // The statement's number, the kind of cursor (none is ever opened), and the iteration
        // count, which is always one.
        let (Some(id), Some(_cursor), Some(_times)) = (take.u32(), take.u8(), take.u32()) else {
            return self.error(&malformed());
        };
        let Some(statement) = self.statements.get_mut(&id) else {
            return self.error(&unknown_statement(id, "mysqld_stmt_execute"));
        };
        let params = match statement.bound.read(take.0, statement.params) {
            Ok(params) => params,
            Err(error) => {
                statement.bound.reset();
                return self.error(&error);
            }
        };
        let ran = self.run(Some(id), |session, sink| session.execute(id, &params, sink));
        if let Some(statement) = self.statements.get_mut(&id) {
            statement.bound.give_back(params, rest.len());
        }
        ran
    }

    /// COM_STMT_SEND_LONG_DATA has no response, even if it is malformed.
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
