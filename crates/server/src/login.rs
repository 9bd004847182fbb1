//! The login: the greeting, the client's hello, TLS if the client asks for it, and the proof of the
//! password.

use std::io;
use std::net::IpAddr;

use spillway_base::clock;
use spillway_sql::{Account, SqlError};

use crate::admission::Entrance;
use crate::auth::{self, Hello, Nonce};
use crate::caching;
use crate::capabilities as can;
use crate::packet::{Packets, ReadError};
use crate::results::put_error;
use crate::server::Shared;
use crate::transport::{Security, Transport};

/// The longest packet of an unauthenticated client: 64 KB of connection attributes, and the rest.
pub(crate) const LOGIN_PACKET_MAX: usize = 80 << 10;

/// Where a client comes from.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) id: u64,
    /// The client's address; none over a Unix socket.
    pub(crate) address: Option<IpAddr>,
    pub(crate) entrance: Entrance,
}

impl Peer {
    /// The host of the client's account. A client on this machine may match `localhost` or its
    /// address.
    pub(crate) fn host(&self, shared: &Shared, user: &str) -> String {
        const LOCAL: &str = "localhost";
        match self.address {
            None => LOCAL.to_owned(),
            Some(address) => {
                let account = shared.instance.user(user, LOCAL);
                if address.is_loopback() && account.is_some_and(|account| account.host == LOCAL) {
                    LOCAL.to_owned()
                } else {
                    address.to_string()
                }
            }
        }
    }
}

impl Peer {
    /// The client's origin as errors show it. It depends only on public facts, not on which
    /// accounts exist.
    fn shown(&self) -> String {
        self.address.map_or_else(|| "localhost".to_owned(), |address| address.to_string())
    }
}

/// An authenticated client.
pub(crate) struct Login {
    pub(crate) hello: Hello,
    pub(crate) account: Account,
    pub(crate) host: String,
    pub(crate) nonce: Nonce,
}

/// Sends the greeting.
pub(crate) fn greet<T: Transport>(
    packets: &mut Packets<T>,
    shared: &Shared,
    peer: &Peer,
) -> io::Result<Nonce> {
    let nonce = auth::nonce()?;
    let tls = if shared.tls.is_some() { can::SSL } else { 0 };
    packets.packet(|out| auth::greeting(out, peer.id, &nonce, can::OURS | tls))?;
    packets.send()?;
    Ok(nonce)
}

/// Authenticates a greeted client. Returns `None` if it was refused; then the error was sent.
pub(crate) fn log_in<T: Transport>(
    packets: &mut Packets<T>,
    shared: &Shared,
    peer: &Peer,
    nonce: Nonce,
) -> Result<Option<Login>, ReadError> {
    let mut payload = Vec::new();
    packets.read(&mut payload)?;
    if let Some(config) = &shared.tls
        && auth::asks_for_tls(&payload)
    {
        packets.transport().start_tls(config)?;
        shared.counters.tls_accepted.add();
        packets.read(&mut payload)?;
    }
    let Some(hello) = auth::read_hello(&payload) else {
        return refuse(packets, &SqlError::new(1043, "Bad handshake"));
    };
    if shared.settings.require_secure_transport && packets.transport().security() == Security::Plain
    {
        let text = "Connections using insecure transport are prohibited while \
                    --require_secure_transport=ON.";
        return refuse(packets, &SqlError::new(3159, text));
    }
    let host = peer.host(shared, &hello.user);
    let known = prove(packets, shared, peer, &host, &hello, &nonce)?;
    let account = match known {
        Ok(account) => account,
        Err(error) => return refuse(packets, &error),
    };
    if let Err(error) = shared.authenticated(peer.id, peer.entrance, &hello.user) {
        return refuse(packets, &error);
    }
    Ok(Some(Login { hello, account, host, nonce }))
}

fn refuse<T: Transport>(
    packets: &mut Packets<T>,
    error: &SqlError,
) -> Result<Option<Login>, ReadError> {
    packets.packet(|out| put_error(out, error))?;
    packets.send()?;
    Ok(None)
}

fn denied(user: &str, host: &str, using_password: bool) -> SqlError {
    let using = if using_password { "YES" } else { "NO" };
    SqlError::new(
        1045,
        format!("Access denied for user '{user}'@'{host}' (using password: {using})"),
    )
}

/// The account of a client that sent `hello`. Failed guesses are slowed, logged and counted.
pub(crate) fn prove<T: Transport>(
    packets: &mut Packets<T>,
    shared: &Shared,
    peer: &Peer,
    host: &str,
    hello: &Hello,
    nonce: &Nonce,
) -> Result<Result<Account, SqlError>, ReadError> {
    let proved = match shared.guard.begin((peer.entrance, peer.address), &hello.user, clock::now())
    {
        None => Err(denied(&hello.user, &peer.shown(), true)),
        Some(attempt) => {
            if !attempt.wait.is_zero() {
                packets.transport().wait_for_end(attempt.wait)?;
            }
            let proved = authenticate(packets, shared, peer, host, hello, nonce)?;
            attempt.ended(proved.is_ok(), clock::now());
            // Outside of the attempt: a right password does not count as a failed guess, even if
            // the account may not log in.
            proved.and_then(|account| {
                if peer.entrance == Entrance::Admin {
                    shared.instance.check_connection_admin(&account)?;
                }
                Ok(account)
            })
        }
    };
    if let Err(error) = &proved {
        shared.counters.denied.add();
        // Strangers choose these names, and an administrator may read the log in a terminal. The
        // message has no control characters (NAME-5).
        tracing::warn!("{}", error.message);
    }
    Ok(proved)
}

/// Used in place of a stored hash if there is no such user.
const STRANGER: [u8; 32] = [0; 32];

/// Authenticates a client. If its user has another plugin than `hello` names, or `hello` names
/// none, asks the client to use the user's plugin.
fn authenticate<T: Transport>(
    packets: &mut Packets<T>,
    shared: &Shared,
    peer: &Peer,
    host: &str,
    hello: &Hello,
    nonce: &Nonce,
) -> Result<Result<Account, SqlError>, ReadError> {
    let user = shared.instance.user(&hello.user, host);
    // For a name without an account, the server goes through the same steps and refuses in the end,
    // so that user names cannot be guessed.
    let plugin = user
        .as_ref()
        .map_or_else(|| shared.plugin_of_stranger(&hello.user), |user| user.plugin.as_str());
    let stored = user.as_ref().map_or(&STRANGER[..], |user| user.stored.as_slice());
    let (mut answer, mut nonce) = (hello.answer.clone(), *nonce);
    let no_password = user.as_ref().is_some_and(|user| user.stored.is_empty());
    if hello.plugin != plugin && !(no_password && answer.is_empty()) {
        if hello.capabilities & can::PLUGIN_AUTH == 0 {
            let text = "Client does not support authentication protocol requested by server; \
                        consider upgrading MySQL client";
            return Ok(Err(SqlError::new(1251, text)));
        }
        nonce = auth::nonce()?;
        packets.packet(|out| {
            out.push(0xFE);
            out.extend_from_slice(plugin.as_bytes());
            out.push(0);
            out.extend_from_slice(&nonce);
            out.push(0);
        })?;
        packets.send()?;
        packets.read(&mut answer)?;
    }
    let known = match plugin {
        auth::CACHING if !no_password => caching::prove(
            packets,
            (&shared.caching, &shared.instance),
            user.as_ref(),
            &nonce,
            &answer,
        )?,
        _ => auth::verify(plugin, stored, &nonce, &answer),
    };
    let known = known && !(no_password && hello.user == "root" && !near(peer));
    let using = !answer.is_empty() && answer != [0];
    let Some(user) = user else { return Ok(Err(denied(&hello.user, &peer.shown(), using))) };
    if let Err(blocked) = shared.instance.tried(&user, &peer.shown(), known) {
        return Ok(Err(blocked));
    }
    if !known {
        return Ok(Err(denied(&hello.user, &peer.shown(), using)));
    }
    Ok(Ok(user.account()))
}

/// Whether the client is on this machine. From elsewhere `root` needs a password, even if it had
/// none when the server started.
fn near(peer: &Peer) -> bool {
    peer.address.is_none_or(|address| address.is_loopback())
}
