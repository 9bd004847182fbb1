//! `spillway serve`.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use spillway::{Database, Durability, Settings};
use spillway_server::{Server, ServerSettings, TlsFiles};
use spillway_sql::Instance;

#[derive(Args)]
pub(crate) struct ServeArgs {
    /// The data folder
    #[arg(long, default_value = "data")]
    data: PathBuf,
    /// The port to listen on; 0 for any that is free
    #[arg(long, default_value_t = 3306)]
    port: u16,
    /// The address to listen on; another than loopback needs a password for root
    #[arg(long, default_value = "127.0.0.1")]
    bind: IpAddr,
    /// A Unix socket to listen on as well
    #[arg(long)]
    socket: Option<PathBuf>,
    /// The server's certificate for TLS, in PEM [default: one that it signs itself, in the data folder]
    #[arg(long, requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The certificate's private key, in PEM
    #[arg(long, requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Refuse clients over a network that do not use TLS
    #[arg(long)]
    require_secure_transport: bool,
    /// The one memory budget, as 512MiB or 4GiB
    #[arg(long, default_value = "1GiB", value_parser = bytes)]
    memory: usize,
    /// Cores for background work [default: all]
    #[arg(long)]
    cores: Option<usize>,
    /// When a commit is acknowledged
    #[arg(long, value_enum, default_value = "commit")]
    durability: DurabilityArg,
    /// Clients at once; root may be one more
    #[arg(long, default_value_t = 512)]
    max_connections: usize,
}

#[derive(Clone, Copy, ValueEnum)]
enum DurabilityArg {
    /// Once it is durable
    Commit,
    /// Once it is visible; it becomes durable within a second
    Relaxed,
}

/// A number of bytes with its unit.
pub(crate) fn bytes(text: &str) -> Result<usize, String> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: usize =
        text[..end].parse().map_err(|_| format!("{text} is no size; write 512MiB or 4GiB"))?;
    let unit = match text[end..].to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" | "kb" => 1 << 10,
        "m" | "mib" | "mb" => 1 << 20,
        "g" | "gib" | "gb" => 1 << 30,
        other => return Err(format!("{other} is no unit; write KiB, MiB or GiB")),
    };
    number.checked_mul(unit).ok_or_else(|| format!("{text} is too large"))
}

pub(crate) fn run(args: &ServeArgs) -> Result<(), String> {
    let mut settings = Settings::default();
    settings.memory_bytes = args.memory;
    settings.cores = args.cores.unwrap_or(settings.cores);
    settings.durability = match args.durability {
        DurabilityArg::Commit => Durability::Commit,
        DurabilityArg::Relaxed => Durability::Within(std::time::Duration::from_secs(1)),
    };
    let mut signals = Signals::new([SIGTERM, SIGINT]).map_err(|error| error.to_string())?;
    let db = Database::open(&args.data, settings).map_err(|error| error.to_string())?;
    let recovered = db.recovered();
    let instance = Instance::open(db.clone()).map_err(|error| error.to_string())?;
    let tls = match (&args.tls_cert, &args.tls_key) {
        (Some(cert), Some(key)) => TlsFiles { cert: cert.clone(), key: key.clone() },
        _ => TlsFiles::self_signed(&args.data.join("tls")).map_err(|error| error.to_string())?,
    };
    let server = Server::start(
        instance.clone(),
        ServerSettings {
            bind: args.bind,
            port: args.port,
            socket: args.socket.clone(),
            connections_max: args.max_connections,
            tls: Some(tls),
            require_secure_transport: args.require_secure_transport,
        },
    )
    .map_err(|error| error.to_string())?;
    let address = server.address();
    println!(
        "Spillway {} on {}, {} commits read from the log",
        env!("CARGO_PKG_VERSION"),
        args.data.display(),
        recovered.commits
    );
    println!("connect with: mariadb -h {} -P {} -u root test", address.ip(), address.port());
    if let Some(socket) = &args.socket {
        println!("or with:      mariadb -S {} -u root test", socket.display());
    }
    let _ = signals.forever().next();
    println!("stopping");
    server.stop();
    instance.close();
    db.close().map_err(|error| error.to_string())
}
