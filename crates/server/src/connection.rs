//! One client: its handshake, then its commands until it goes.

use std::collections::HashMap;
use std::io::{self, Read, Write};

use spillway_sql::{Instance, Outcome, Session, SqlError};
use spillway_types::{Collation, ColumnType};

use crate::auth::{self, Hello};
use crate::packet::{Packets, ReadError, Take};
use crate::params::{Bound, read_params};
use crate::results::{WireSink, put_column, put_eof, put_error, put_ok};

/// The longest command that a client may send, in bytes.
pub(crate) const PACKET_MAX: usize = 64 << 20;

struct Connection<S> {
    packets: Packets<S>,
    instance: Instance,
    session: Session,
    capabilities: u32,
    host: String,
    id: u64,
    bound: HashMap<u32, Bound>,
}

fn too_large() -> SqlError {
    SqlError::new(1153, "Got a packet bigger than 'max_allowed_packet' bytes")
}

/// Serves a client until it goes. Failures of its stream end it, and are nobody else's business.
pub(crate) fn serve<S: Read + Write>(
    stream: S,
    instance: &Instance,
    host: &str,
    id: u64,
    ready: impl FnOnce(&S),
) -> io::Result<()> {
    let mut packets = Packets::new(stream, PACKET_MAX);
    let nonce = auth::scramble()?;
    packets.packet(|out| auth::greeting(out, id, &nonce))?;
    packets.send()?;
    let mut payload = Vec::new();
    if packets.read(&mut payload).is_err() {
        return Ok(());
    }
    let Some(hello) = auth::read_hello(&payload) else {
        let error = SqlError::new(1043, "Bad handshake");
        packets.packet(|out| put_error(out, &error))?;
        return packets.send();
    };
    if let Err(error) = authenticate(&mut packets, instance, host, &hello, &nonce)? {
        packets.packet(|out| put_error(out, &error))?;
        return packets.send();
    }
    ready(packets.stream());
    let mut session = instance.session(&hello.user, host, id);
    session.set_flags(
        hello.capabilities & auth::FOUND_ROWS != 0,
        hello.capabilities & auth::MULTI_STATEMENTS != 0,
    );
    let mut connection = Connection {
        packets,
        instance: instance.clone(),
        session,
        capabilities: hello.capabilities & auth::CAPABILITIES,
        host: host.to_owned(),
        id,
        bound: HashMap::new(),
    };
    let used = hello.database.map_or(Ok(()), |name| connection.session.use_database(&name));
    match used {
        Ok(()) => connection.ok()?,
        Err(error) => {
            connection.error(&error)?;
            return connection.packets.send();
        }
    }
    connection.packets.send()?;
    connection.commands(&mut payload)
}

/// Checks who a client is, asking it for another plugin's answer where its user has another.
fn authenticate<S: Read + Write>(
    packets: &mut Packets<S>,
    instance: &Instance,
    host: &str,
    hello: &Hello,
    nonce: &[u8; 20],
) -> io::Result<Result<(), SqlError>> {
    let user = instance.user(&hello.user, host);
    let plugin = user.as_ref().map_or(auth::NATIVE, |user| user.plugin.as_str());
    let mut answer = hello.answer.clone();
    let empty = user.as_ref().is_some_and(|user| user.stored.is_empty()) && answer.is_empty();
    if hello.plugin != plugin && !empty {
        packets.packet(|out| {
            out.push(0xFE);
            out.extend_from_slice(plugin.as_bytes());
            out.push(0);
            out.extend_from_slice(nonce);
            out.push(0);
        })?;
        packets.send()?;
        if packets.read(&mut answer).is_err() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    let known =
        user.as_ref().is_some_and(|user| auth::verify(plugin, &user.stored, nonce, &answer));
    if !known {
        let using = if answer.is_empty() { "NO" } else { "YES" };
        let text =
            format!("Access denied for user '{}'@'{host}' (using password: {using})", hello.user);
        return Ok(Err(SqlError::new(1045, text)));
    }
    if plugin == auth::CACHING && !answer.is_empty() && answer != [0] {
        // The fast exchange went well.
        packets.packet(|out| out.extend_from_slice(&[1, 3]))?;
    }
    Ok(Ok(()))
}

impl<S: Read + Write> Connection<S> {
    fn ok(&mut self) -> io::Result<()> {
        let outcome = Outcome { status: self.session.status(), ..Outcome::default() };
        self.packets.packet(|out| put_ok(out, 0, &outcome))
    }

    fn error(&mut self, error: &SqlError) -> io::Result<()> {
        self.packets.packet(|out| put_error(out, error))
    }

    fn answer(&mut self, outcome: Result<(), SqlError>) -> io::Result<()> {
        match outcome {
            Ok(()) => self.ok(),
            Err(error) => self.error(&error),
        }
    }

    fn commands(&mut self, payload: &mut Vec<u8>) -> io::Result<()> {
        loop {
            match self.packets.read(payload) {
                Ok(()) => {}
                Err(ReadError::Io(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return Ok(());
                }
                Err(ReadError::Io(error)) => return Err(error),
                Err(ReadError::TooLarge) => {
                    self.error(&too_large())?;
                    return self.packets.send();
                }
            }
            if !self.command(payload)? {
                return self.packets.send();
            }
            if self.session.is_killed() {
                return self.packets.send();
            }
            // Commands that were sent together are answered together.
            if !self.packets.has_input() {
                self.packets.send()?;
            }
            if payload.capacity() > 1 << 20 {
                *payload = Vec::new();
            }
            self.packets_ready();
        }
    }

    fn packets_ready(&mut self) {
        self.packets.restart_sequence();
    }

    /// Runs one command; `false` when the client is done.
    fn command(&mut self, payload: &[u8]) -> io::Result<bool> {
        let Some((&command, rest)) = payload.split_first() else {
            self.error(&SqlError::new(1047, "Unknown command"))?;
            return Ok(true);
        };
        match command {
            0x01 => return Ok(false),
            0x02 => {
                let used = self.session.use_database(&String::from_utf8_lossy(rest));
                self.answer(used)?;
            }
            0x03 => self.query(rest)?,
            0x04 => self.field_list(rest)?,
            0x09 => {
                let text = format!("Uptime: {}", spillway_base::clock::now().as_secs());
                self.packets.packet(|out| out.extend_from_slice(text.as_bytes()))?;
            }
            0x0C => {
                let id = Take(rest).u32().unwrap_or(0);
                let killed = self.session.kill(u64::from(id), true);
                self.answer(killed)?;
            }
            0x0E => self.ok()?,
            0x11 => return self.change_user(rest),
            0x16 => self.prepare(rest)?,
            0x17 => self.execute(rest)?,
            0x18 => {
                // Answers nothing, also when it makes no sense.
                let mut take = Take(rest);
                if let (Some(id), Some(at)) = (take.u32(), take.array().map(u16::from_le_bytes)) {
                    let held = self
                        .bound
                        .get(&id)
                        .map_or(0, |bound| bound.long.values().map(Vec::len).sum());
                    if self.session.param_count(id).is_some() && held + take.0.len() <= PACKET_MAX {
                        self.bound
                            .entry(id)
                            .or_default()
                            .long
                            .entry(at)
                            .or_default()
                            .extend_from_slice(take.0);
                    }
                }
            }
            0x19 => {
                if let Some(id) = Take(rest).u32() {
                    self.session.close_statement(id);
                    self.bound.remove(&id);
                }
            }
            0x1A => {
                let id = Take(rest).u32().unwrap_or(0);
                let known = self.session.param_count(id).is_some();
                if let Some(bound) = self.bound.get_mut(&id) {
                    bound.long.clear();
                }
                self.answer(if known { Ok(()) } else { Err(unknown_statement(id)) })?;
            }
            0x1B => {
                let on = rest.first() == Some(&0);
                self.session.set_flags(self.capabilities & auth::FOUND_ROWS != 0, on);
                let status = self.session.status();
                self.packets.packet(|out| put_eof(out, 0, status))?;
            }
            0x1F => {
                self.session.reset();
                self.bound.clear();
                self.ok()?;
            }
            _ => self.error(&SqlError::new(1047, "Unknown command"))?,
        }
        Ok(true)
    }

    fn run(
        &mut self,
        binary: bool,
        body: impl FnOnce(&mut Session, &mut WireSink<'_, S>) -> Result<(), SqlError>,
    ) -> io::Result<()> {
        let status = self.session.status();
        let mut sink = WireSink {
            packets: &mut self.packets,
            capabilities: self.capabilities,
            binary,
            columns: Vec::new(),
            status,
        };
        match body(&mut self.session, &mut sink) {
            Ok(()) => Ok(()),
            Err(error) if error.code == 1160 => Err(io::ErrorKind::BrokenPipe.into()),
            Err(error) => self.error(&error),
        }
    }

    fn query(&mut self, sql: &[u8]) -> io::Result<()> {
        match std::str::from_utf8(sql) {
            Ok(sql) => self.run(false, |session, sink| session.query(sql, sink)),
            // Bytes in a text literal: each that is no text becomes an escape of its own.
            Err(_) => {
                let sql = escape_bytes(sql);
                self.run(false, |session, sink| session.query(&sql, sink))
            }
        }
    }

    fn field_list(&mut self, rest: &[u8]) -> io::Result<()> {
        let table = Take(rest).until_zero().unwrap_or(rest);
        match self.session.field_list(&String::from_utf8_lossy(table)) {
            Ok(columns) => {
                for column in &columns {
                    self.packets.packet(|out| {
                        put_column(out, column);
                        out.push(0xFB);
                    })?;
                }
                let status = self.session.status();
                self.packets.packet(|out| put_eof(out, 0, status))
            }
            Err(error) => self.error(&error),
        }
    }

    fn change_user(&mut self, rest: &[u8]) -> io::Result<bool> {
        let Some(hello) = auth::read_change_user(rest, self.capabilities) else {
            self.error(&SqlError::new(1047, "Malformed COM_CHANGE_USER"))?;
            return Ok(false);
        };
        // The client answers a nonce of its own exchange, so that it is always asked anew.
        let nonce = auth::scramble()?;
        let asked = Hello { plugin: String::new(), ..hello };
        match authenticate(&mut self.packets, &self.instance, &self.host, &asked, &nonce)? {
            Err(error) => {
                self.error(&error)?;
                return Ok(false);
            }
            Ok(()) => {
                self.session = self.instance.session(&asked.user, &self.host, self.id);
                self.session.set_flags(
                    self.capabilities & auth::FOUND_ROWS != 0,
                    self.capabilities & auth::MULTI_STATEMENTS != 0,
                );
                self.bound.clear();
            }
        }
        let used = asked.database.map_or(Ok(()), |name| self.session.use_database(&name));
        self.answer(used)?;
        Ok(true)
    }

    fn prepare(&mut self, sql: &[u8]) -> io::Result<()> {
        let prepared = match std::str::from_utf8(sql) {
            Ok(sql) => self.session.prepare(sql),
            Err(_) => self.session.prepare(&escape_bytes(sql)),
        };
        let prepared = match prepared {
            Ok(prepared) => prepared,
            Err(error) => return self.error(&error),
        };
        let columns = prepared.columns.len() as u16;
        self.packets.packet(|out| {
            out.push(0);
            out.extend_from_slice(&prepared.id.to_le_bytes());
            out.extend_from_slice(&columns.to_le_bytes());
            out.extend_from_slice(&(prepared.params as u16).to_le_bytes());
            out.extend_from_slice(&[0, 0, 0]);
        })?;
        let status = self.session.status();
        let eof = self.capabilities & auth::DEPRECATE_EOF == 0;
        let param = param_column();
        for _ in 0..prepared.params {
            self.packets.packet(|out| put_column(out, &param))?;
        }
        if prepared.params > 0 && eof {
            self.packets.packet(|out| put_eof(out, 0, status))?;
        }
        for column in &prepared.columns {
            self.packets.packet(|out| put_column(out, column))?;
        }
        if columns > 0 && eof {
            self.packets.packet(|out| put_eof(out, 0, status))?;
        }
        Ok(())
    }

    fn execute(&mut self, rest: &[u8]) -> io::Result<()> {
        let mut take = Take(rest);
        let (id, _flags, _once) = (take.u32(), take.u8(), take.u32());
        let Some(id) = id else {
            return self.error(&SqlError::new(1210, "Incorrect arguments to EXECUTE"));
        };
        let Some(count) = self.session.param_count(id) else {
            return self.error(&unknown_statement(id));
        };
        let bound = self.bound.entry(id).or_default();
        let Some(params) = read_params(take.0, count, bound) else {
            return self.error(&SqlError::new(1210, "Incorrect arguments to EXECUTE"));
        };
        self.run(true, |session, sink| session.execute(id, params, sink))
    }
}

fn unknown_statement(id: u32) -> SqlError {
    SqlError::new(1243, format!("Unknown prepared statement handler ({id}) given to EXECUTE"))
}

fn param_column() -> spillway_sql::ResultColumn {
    spillway_sql::ResultColumn {
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

/// Literals with bytes that are no UTF-8 become hexadecimal ones, which mean the same bytes.
fn escape_bytes(sql: &[u8]) -> String {
    let mut out = String::with_capacity(sql.len() * 2);
    let mut at = 0;
    let mut plain = 0;
    while at < sql.len() {
        let quote = sql[at];
        if quote != b'\'' && quote != b'"' {
            at += 1;
            continue;
        }
        let start = at;
        let mut content = Vec::new();
        at += 1;
        while at < sql.len() {
            match sql[at] {
                b'\\' if at + 1 < sql.len() => {
                    content.push(match sql[at + 1] {
                        b'0' => 0,
                        b'n' => b'\n',
                        b'r' => b'\r',
                        b't' => b'\t',
                        b'b' => 8,
                        b'Z' => 26,
                        other => other,
                    });
                    at += 2;
                }
                byte if byte == quote && sql.get(at + 1) == Some(&quote) => {
                    content.push(quote);
                    at += 2;
                }
                byte if byte == quote => break,
                byte => {
                    content.push(byte);
                    at += 1;
                }
            }
        }
        at = (at + 1).min(sql.len());
        if std::str::from_utf8(&content).is_err() {
            let mut before = &sql[plain..start];
            // The introducer says what the literal is by itself.
            let trimmed = before.trim_ascii_end();
            if trimmed.len() >= 7 && trimmed[trimmed.len() - 7..].eq_ignore_ascii_case(b"_binary") {
                before = &trimmed[..trimmed.len() - 7];
            }
            out.push_str(&String::from_utf8_lossy(before));
            out.push_str("X'");
            content.iter().for_each(|byte| out.push_str(&format!("{byte:02X}")));
            out.push('\'');
            plain = at;
        }
    }
    out.push_str(&String::from_utf8_lossy(&sql[plain..]));
    out
}
