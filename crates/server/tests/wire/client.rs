//! A client that also sends invalid packets. It parses responses with `mysql_common`, so that the
//! tests do not rely on the server's own understanding of the protocol.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use mysql_common::constants::{CapabilityFlags as Can, MariadbCapabilities, StatusFlags};
use mysql_common::io::ParseBuf;
use mysql_common::packets::{
    AuthPlugin, Column, CommonOkPacket, ErrPacket, HandshakePacket, HandshakeResponse, OkPacket,
    OkPacketDeserializer, ResultSetTerminator,
};
use mysql_common::proto::{Binary, MyDeserialize, MySerialize, Text};
use mysql_common::row::RowDeserializer;
use mysql_common::value::{ServerSide, Value};
use rsa::pkcs8::DecodePublicKey;
use rsa::rand_core::{TryCryptoRng, TryRng};
use sha1::{Digest, Sha1};
use sha2::Sha256;
use spillway::{Database, Settings};
use spillway_server::{Server, ServerSettings};
use spillway_sql::Instance;

pub(crate) trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

/// A server over an empty database.
pub(crate) struct TestServer {
    pub(crate) instance: Instance,
    pub(crate) server: Server,
}

impl TestServer {
    pub(crate) fn start() -> TestServer {
        TestServer::with(ServerSettings::default(), Settings::default())
    }

    pub(crate) fn with(settings: ServerSettings, database: Settings) -> TestServer {
        TestServer::over(Database::open_in_memory(database).unwrap(), settings)
    }

    pub(crate) fn over(database: Database, settings: ServerSettings) -> TestServer {
        let instance = Instance::open(database).unwrap();
        let server =
            Server::start(instance.clone(), ServerSettings { port: 0, ..settings }).unwrap();
        TestServer { instance, server }
    }

    pub(crate) fn tcp(&self) -> TcpStream {
        let stream = TcpStream::connect(self.server.address()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    pub(crate) fn client(&self) -> Client {
        self.options().log_in(self).unwrap()
    }

    pub(crate) fn options(&self) -> Options {
        Options::default()
    }

    /// The options of a client whose results end with EOF, and of one whose results end with OK.
    pub(crate) fn both_endings(&self) -> [Options; 2] {
        [Can::empty(), Can::CLIENT_DEPRECATE_EOF]
            .map(|flags| self.options().without(Can::CLIENT_DEPRECATE_EOF).with(flags))
    }
}

/// A test that waits this long has failed.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) const NATIVE: &str = "mysql_native_password";
pub(crate) const CACHING: &str = "caching_sha2_password";

/// The proof that a client knows a password. For the plugin with passwords in clear, the password
/// itself.
pub(crate) fn proof(plugin: &[u8], password: &str, nonce: &[u8]) -> Vec<u8> {
    let xor = |a: &[u8], b: &[u8]| -> Vec<u8> { a.iter().zip(b).map(|(a, b)| a ^ b).collect() };
    if plugin == b"password" {
        [password.as_bytes(), b"\0"].concat()
    } else if password.is_empty() {
        Vec::new()
    } else if plugin == NATIVE.as_bytes() {
        let once = Sha1::digest(password);
        xor(&once, &Sha1::new().chain_update(nonce).chain_update(Sha1::digest(once)).finalize())
    } else {
        let once = Sha256::digest(password);
        xor(&once, &Sha256::new().chain_update(Sha256::digest(once)).chain_update(nonce).finalize())
    }
}

/// Waits for something that another thread does.
pub(crate) fn until(mut done: impl FnMut() -> bool) {
    let end = spillway_base::clock::now() + PATIENCE;
    while !done() {
        assert!(spillway_base::clock::now() < end, "waited in vain");
        std::thread::yield_now();
    }
}

/// The options of a client.
pub(crate) struct Options {
    pub(crate) user: &'static str,
    pub(crate) password: &'static str,
    /// Sent in place of `password` when the server requests the password itself.
    pub(crate) password_sent: Option<&'static [u8]>,
    pub(crate) database: Option<&'static str>,
    pub(crate) plugin: Option<&'static str>,
    pub(crate) flags: Can,
    pub(crate) cache_metadata: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            user: "root",
            password: "",
            password_sent: None,
            database: Some("test"),
            plugin: Some(NATIVE),
            flags: Can::CLIENT_PROTOCOL_41
                | Can::CLIENT_SECURE_CONNECTION
                | Can::CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA
                | Can::CLIENT_MULTI_STATEMENTS
                | Can::CLIENT_MULTI_RESULTS
                | Can::CLIENT_DEPRECATE_EOF,
            cache_metadata: false,
        }
    }
}

impl Options {
    pub(crate) fn with(self, flags: Can) -> Options {
        Options { flags: self.flags | flags, ..self }
    }

    pub(crate) fn without(self, flags: Can) -> Options {
        Options { flags: self.flags - flags, ..self }
    }

    pub(crate) fn user(self, user: &'static str, password: &'static str) -> Options {
        Options { user, password, ..self }
    }

    /// Logs in over TCP. Returns the number of the error if it is refused.
    pub(crate) fn log_in(&self, server: &TestServer) -> Result<Client, u16> {
        self.log_in_over(Box::new(server.tcp()))
    }

    pub(crate) fn log_in_unix(&self, path: &std::path::Path) -> Result<Client, u16> {
        let stream = UnixStream::connect(path).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        self.log_in_as(Client { secure: true, ..self.client(Box::new(stream)) })
    }

    pub(crate) fn log_in_over(&self, stream: Box<dyn Stream>) -> Result<Client, u16> {
        self.log_in_as(self.client(stream))
    }

    fn client(&self, stream: Box<dyn Stream>) -> Client {
        Client { flags: self.flags, ..Client::new(stream) }
    }

    fn log_in_as(&self, mut client: Client) -> Result<Client, u16> {
        let greeting = client.greeting()?;
        if let Err(code) = client.say_hello(self, &greeting) {
            // Once the stream has ended, its place is free again.
            while client.packet().is_some() {}
            return Err(code);
        }
        Ok(client)
    }

    /// Logs in over TLS, trusting only the certificate.
    pub(crate) fn log_in_tls(
        &self,
        server: &TestServer,
        cert: &std::path::Path,
    ) -> Result<Client, u16> {
        use rustls::pki_types::CertificateDer;
        use rustls::pki_types::pem::PemObject;
        let mut tcp = server.tcp();
        let mut plain = self.client(Box::new(tcp.try_clone().unwrap()));
        plain.flags |= Can::CLIENT_SSL;
        let greeting = plain.greeting()?;
        let mut request = plain.flags.bits().to_le_bytes().to_vec();
        request.extend_from_slice(&[0, 0, 0, 1, 45]);
        request.extend_from_slice(&[0; 23]);
        plain.send(&request);
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(cert).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = "localhost".try_into().unwrap();
        let mut tls = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
        while tls.is_handshaking() {
            tls.complete_io(&mut tcp).unwrap();
        }
        let stream = Box::new(rustls::StreamOwned::new(tls, tcp));
        let mut client = Client { stream, secure: true, ..plain };
        client.say_hello(self, &greeting)?;
        Ok(client)
    }
}

/// Random bytes, as the RSA crate asks for them.
struct Random;

impl TryRng for Random {
    type Error = getrandom::Error;

    fn try_next_u32(&mut self) -> Result<u32, getrandom::Error> {
        getrandom::u32()
    }

    fn try_next_u64(&mut self) -> Result<u64, getrandom::Error> {
        getrandom::u64()
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), getrandom::Error> {
        getrandom::fill(bytes)
    }
}

impl TryCryptoRng for Random {}

/// Bytes encrypted for the server with its public key.
fn encrypted(key: &[u8], bytes: &[u8]) -> Vec<u8> {
    let pem = std::str::from_utf8(key.strip_prefix(&[1]).unwrap()).unwrap();
    let key = rsa::PublicKey::from_public_key_pem(pem).unwrap();
    key.oaep_encrypt_with_rng::<Sha1, _>(&mut Random, bytes).unwrap()
}

/// The response to a command.
#[derive(Debug)]
pub(crate) enum Answer {
    Ok { affected: u64, insert_id: u64, warnings: u16, status: StatusFlags, info: String },
    Error { code: u16, state: String, text: String },
    Rows { columns: Vec<Column>, rows: Vec<Vec<Value>>, status: StatusFlags, described: bool },
}

impl Answer {
    pub(crate) fn code(&self) -> u16 {
        match self {
            Answer::Error { code, .. } => *code,
            other => panic!("{other:?} is no error"),
        }
    }

    pub(crate) fn affected(&self) -> u64 {
        match self {
            Answer::Ok { affected, .. } => *affected,
            other => panic!("{other:?} is not OK"),
        }
    }

    pub(crate) fn rows(&self) -> &[Vec<Value>] {
        match self {
            Answer::Rows { rows, .. } => rows,
            other => panic!("{other:?} has no rows"),
        }
    }

    pub(crate) fn status(&self) -> StatusFlags {
        match self {
            Answer::Rows { status, .. } | Answer::Ok { status, .. } => *status,
            other => panic!("{other:?} has no status"),
        }
    }

    /// The only value.
    pub(crate) fn one(&self) -> String {
        match self.rows() {
            [row] => shown(&row[0]),
            rows => panic!("{rows:?} is not one row"),
        }
    }
}

pub(crate) fn shown(value: &Value) -> String {
    match value {
        Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::NULL => "NULL".to_owned(),
        other => other.as_sql(true).trim_matches('\'').to_owned(),
    }
}

/// The response to COM_STMT_PREPARE.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) id: u32,
    pub(crate) params: Vec<Column>,
    pub(crate) columns: Vec<Column>,
}

pub(crate) struct Client {
    stream: Box<dyn Stream>,
    /// The number of the next packet, in either direction.
    pub(crate) sequence: u8,
    flags: Can,
    cache_metadata: bool,
    /// Whether the connection is encrypted or local.
    secure: bool,
    /// The nonce of the last request for a proof.
    nonce: Vec<u8>,
}

fn parse<'a, T: MyDeserialize<'a>>(bytes: &'a [u8], context: T::Ctx) -> T {
    let mut rest = ParseBuf(bytes);
    let parsed = rest.parse(context).unwrap_or_else(|error| panic!("{error}: {bytes:?}"));
    assert!(rest.is_empty(), "{} bytes too many: {bytes:?}", rest.len());
    parsed
}

impl Client {
    pub(crate) fn over(stream: TcpStream) -> Client {
        Client::new(Box::new(stream))
    }

    fn new(stream: Box<dyn Stream>) -> Client {
        Client {
            stream,
            sequence: 0,
            flags: Can::CLIENT_PROTOCOL_41,
            cache_metadata: false,
            secure: false,
            nonce: Vec::new(),
        }
    }

    /// Reads the greeting. Returns the number of the error if there is one in its place.
    pub(crate) fn greeting(&mut self) -> Result<HandshakePacket<'static>, u16> {
        let greeting = self.packet().expect("a greeting");
        if greeting[0] == 0xFF {
            return Err(u16::from_le_bytes([greeting[1], greeting[2]]));
        }
        let packet: HandshakePacket<'_> = parse(&greeting, ());
        let ours = packet.capabilities();
        assert!(!ours.intersects(
            Can::CLIENT_LOCAL_FILES | Can::CLIENT_COMPRESS | Can::CLIENT_SESSION_TRACK
        ));
        Ok(packet.into_owned())
    }

    fn say_hello(&mut self, options: &Options, greeting: &HandshakePacket<'_>) -> Result<(), u16> {
        let nonce = greeting.nonce();
        let plugin = options.plugin.unwrap_or(NATIVE);
        let mut hello = HandshakeResponse::new(
            Some(proof(plugin.as_bytes(), options.password, &nonce)),
            greeting.server_version_parsed().unwrap(),
            Some(options.user.as_bytes()),
            options.database.map(str::as_bytes),
            options.plugin.map(|plugin| AuthPlugin::from_bytes(plugin.as_bytes())),
            self.flags,
            None,
            64 << 20,
        );
        if options.cache_metadata {
            assert!(!greeting.capabilities().contains(Can::CLIENT_LONG_PASSWORD));
            let extended = greeting.mariadb_ext_capabilities();
            assert!(extended.contains(MariadbCapabilities::MARIADB_CLIENT_CACHE_METADATA));
            hello = hello
                .with_mariadb_ext_capabilities(MariadbCapabilities::MARIADB_CLIENT_CACHE_METADATA);
            self.cache_metadata = true;
        }
        let mut bytes = Vec::new();
        hello.serialize(&mut bytes);
        self.send(&bytes);
        self.nonce = nonce;
        self.prove(|plugin, nonce| match plugin {
            b"password" if let Some(sent) = options.password_sent => sent.to_vec(),
            plugin => proof(plugin, options.password, nonce),
        })
    }

    /// Answers the server's requests until it sends OK or an error.
    pub(crate) fn prove(&mut self, proof: impl Fn(&[u8], &[u8]) -> Vec<u8>) -> Result<(), u16> {
        loop {
            let packet = self.packet().expect("an answer to the hello");
            match packet[0] {
                0 => return Ok(()),
                0xFF => return Err(u16::from_le_bytes([packet[1], packet[2]])),
                // The fast exchange succeeded.
                1 if packet == [1, 3] => {}
                // It failed, and the server requests the password itself.
                1 if packet == [1, 4] && self.secure => self.send(&proof(b"password", b"")),
                1 if packet == [1, 4] => {
                    self.send(&[2]);
                    let key = self.packet().expect("a public key");
                    let masked: Vec<u8> = proof(b"password", b"")
                        .iter()
                        .zip(self.nonce.iter().cycle())
                        .map(|(byte, mask)| byte ^ mask)
                        .collect();
                    self.send(&encrypted(&key, &masked));
                }
                0xFE => {
                    let zero = packet.iter().position(|byte| *byte == 0).unwrap();
                    let nonce = &packet[zero + 1..packet.len() - 1];
                    assert_eq!(nonce.len(), 20);
                    self.nonce = nonce.to_vec();
                    self.send(&proof(&packet[1..zero], nonce));
                }
                other => panic!("{other:#x} in the login"),
            }
        }
    }

    /// Sends bytes that need not be packets. Returns whether that succeeded.
    pub(crate) fn raw(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).and_then(|()| self.stream.flush()).is_ok()
    }

    /// Sends a payload in as many packets as it takes.
    pub(crate) fn send(&mut self, payload: &[u8]) {
        let mut bytes = Vec::with_capacity(payload.len() + 8);
        self.write(payload, &mut bytes);
        // If the server has disconnected, the next read shows it.
        self.raw(&bytes);
    }

    fn write(&mut self, mut payload: &[u8], bytes: &mut Vec<u8>) {
        loop {
            let (now, later) = payload.split_at(payload.len().min(0xFF_FFFF));
            let [a, b, c, ..] = (now.len() as u32).to_le_bytes();
            bytes.extend_from_slice(&[a, b, c, self.sequence]);
            bytes.extend_from_slice(now);
            self.sequence = self.sequence.wrapping_add(1);
            payload = later;
            if now.len() < 0xFF_FFFF {
                return;
            }
        }
    }

    pub(crate) fn command(&mut self, command: u8, rest: &[u8]) {
        self.sequence = 0;
        self.send(&[&[command], rest].concat());
    }

    /// Reads a payload, whose packet numbers must follow the last one; `None` at the end of the
    /// stream.
    pub(crate) fn packet(&mut self) -> Option<Vec<u8>> {
        let mut payload = Vec::new();
        loop {
            let mut head = [0; 4];
            self.stream.read_exact(&mut head).ok()?;
            assert_eq!(head[3], self.sequence, "packets are numbered");
            self.sequence = self.sequence.wrapping_add(1);
            let len = u32::from_le_bytes([head[0], head[1], head[2], 0]) as usize;
            let start = payload.len();
            payload.resize(start + len, 0);
            self.stream.read_exact(&mut payload[start..]).ok()?;
            if len < 0xFF_FFFF {
                return Some(payload);
            }
        }
    }

    fn end(&self, packet: &[u8]) -> Option<StatusFlags> {
        if packet[0] != 0xFE || packet.len() >= 0xFF_FFFF {
            return None;
        }
        if self.flags.contains(Can::CLIENT_DEPRECATE_EOF) {
            let end: OkPacketDeserializer<'_, ResultSetTerminator> = parse(packet, self.flags);
            Some(end.into_inner().status_flags())
        } else {
            assert_eq!(packet.len(), 5, "an EOF packet");
            Some(StatusFlags::from_bits_truncate(u16::from_le_bytes([packet[3], packet[4]])))
        }
    }

    fn error(&self, packet: &[u8]) -> Answer {
        match parse::<ErrPacket<'_>>(packet, self.flags) {
            ErrPacket::Error(error) => Answer::Error {
                code: error.error_code(),
                state: error
                    .sql_state_ref()
                    .map(|state| state.as_str().into_owned())
                    .unwrap_or_default(),
                text: error.message_str().into_owned(),
            },
            ErrPacket::Progress(_) => panic!("progress was not asked for"),
        }
    }

    pub(crate) fn answer(&mut self) -> Answer {
        self.answer_in(false)
    }

    /// Reads a response: OK, an error, or a result set with rows of either format.
    fn answer_in(&mut self, binary: bool) -> Answer {
        let packet = self.packet().expect("an answer");
        match packet[0] {
            0 if packet.len() >= 7 => {
                let ok: OkPacketDeserializer<'_, CommonOkPacket> = parse(&packet, self.flags);
                let ok: OkPacket<'_> = ok.into_inner();
                return Answer::Ok {
                    affected: ok.affected_rows(),
                    insert_id: ok.last_insert_id().unwrap_or(0),
                    warnings: ok.warnings(),
                    status: ok.status_flags(),
                    info: ok.info_str().map(std::borrow::Cow::into_owned).unwrap_or_default(),
                };
            }
            0xFF => return self.error(&packet),
            _ => {}
        }
        let mut head = ParseBuf(&packet);
        let count = head.eat_lenenc_int() as usize;
        let described = !self.cache_metadata || head.eat_u8() == 1;
        assert!(head.is_empty(), "{packet:?} counts columns");
        let columns = if described { self.columns(count) } else { self.no_columns() };
        self.rows(columns, described, binary)
    }

    fn no_columns(&mut self) -> Vec<Column> {
        if !self.flags.contains(Can::CLIENT_DEPRECATE_EOF) {
            let packet = self.packet().unwrap();
            assert!(self.end(&packet).is_some());
        }
        Vec::new()
    }

    pub(crate) fn columns(&mut self, count: usize) -> Vec<Column> {
        let columns = (0..count).map(|_| parse(&self.packet().unwrap(), ())).collect();
        if count > 0 {
            self.no_columns();
        }
        columns
    }

    fn rows(&mut self, columns: Vec<Column>, described: bool, binary: bool) -> Answer {
        let shape: Arc<[Column]> = columns.clone().into();
        let mut rows = Vec::new();
        loop {
            let packet = self.packet().unwrap();
            if packet[0] == 0xFF {
                return self.error(&packet);
            }
            if let Some(status) = self.end(&packet) {
                return Answer::Rows { columns, rows, status, described };
            }
            let row = if !described {
                vec![Value::Bytes(packet)]
            } else if binary {
                let row: RowDeserializer<ServerSide, Binary> = parse(&packet, shape.clone());
                row.into_inner().unwrap()
            } else {
                let row: RowDeserializer<ServerSide, Text> = parse(&packet, shape.clone());
                row.into_inner().unwrap()
            };
            rows.push(row);
        }
    }

    pub(crate) fn query(&mut self, sql: impl AsRef<[u8]>) -> Answer {
        self.command(0x03, sql.as_ref());
        self.answer()
    }

    /// Runs a statement that must succeed.
    pub(crate) fn run(&mut self, sql: impl AsRef<[u8]>) -> Answer {
        let answer = self.query(sql);
        assert!(!matches!(answer, Answer::Error { .. }), "{answer:?}");
        answer
    }

    pub(crate) fn ping(&mut self) -> Answer {
        self.command(0x0E, &[]);
        self.answer()
    }

    pub(crate) fn prepare(&mut self, sql: impl AsRef<[u8]>) -> Result<Prepared, Answer> {
        self.command(0x16, sql.as_ref());
        let packet = self.packet().unwrap();
        if packet[0] == 0xFF {
            return Err(self.error(&packet));
        }
        let mut head = ParseBuf(&packet);
        assert_eq!(head.eat_u8(), 0);
        let (id, columns, params) = (head.eat_u32_le(), head.eat_u16_le(), head.eat_u16_le());
        assert_eq!(head.len(), 3);
        let params = self.columns(usize::from(params));
        let columns = self.columns(usize::from(columns));
        Ok(Prepared { id, params, columns })
    }

    /// Sends COM_STMT_EXECUTE with these bytes for its parameters.
    pub(crate) fn execute(&mut self, id: u32, params: &[u8]) -> Answer {
        self.command(0x17, &[&id.to_le_bytes()[..], &[0, 1, 0, 0, 0], params].concat());
        self.answer_in(true)
    }
}
