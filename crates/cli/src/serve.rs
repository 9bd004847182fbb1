//! `spillway serve`.

use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use spillway::{CompactionKind, Compression, Database, Durability, MemoryWatch, Settings, Tier};
use spillway_server::{MetricsPage, Server, ServerSettings, TlsFiles, workers_for};
use spillway_sql::Instance;

use crate::heap;

/// The heading of the options that few people set.
const EXPERT: &str = "Expert options";

#[derive(Args)]
#[command(
    after_help = "A new folder has one user, root, without a password, and a database named test. SIGTERM \
                        interrupts running statements and stops the server; with the default durability kill -9 loses \
                        nothing that was acknowledged. docs/server.md describes users, TLS and limits.

Examples:
  spillway serve --data ./data
  spillway serve --data ./data --log-dir /nvme/log
  spillway serve --data ./data --tier hdd=/mnt/large
  spillway serve --data ./data --tier fast:lz4=/mnt/nvme --tier hdd:zstd:9=/mnt/large
  spillway serve --data ./data --memory 8GiB --socket /run/spillway.sock
  spillway serve --data ./data --bind 0.0.0.0 --require-secure-transport
  spillway serve --data ./data --tls-cert server.pem --tls-key key.pem --metrics-addr 127.0.0.1:9104

Then:
  mariadb -h 127.0.0.1 -u root test
  mariadb -h 127.0.0.1 -u root --ssl-ca=data/tls/server-cert.pem --ssl-verify-server-cert test"
)]
pub(crate) struct ServeArgs {
    /// The data folder
    #[arg(long, default_value = "data")]
    data: PathBuf,
    /// The one memory budget, for example 512MiB or 4GiB
    #[arg(long, default_value = "1GiB", value_parser = bytes)]
    memory: usize,
    /// Cores to plan for: as many workers (at least 2), and half as many compactions at a time
    /// [default: all]
    #[arg(long)]
    cores: Option<usize>,
    /// When a commit is acknowledged. `commit`: once it is durable. A delay such as `200ms` or
    /// `1s`: once it is visible; it becomes durable within that time. `none`: once it is visible.
    /// Sessions may set their own
    #[arg(long, default_value = "commit", value_parser = durability)]
    durability: Durability,
    /// The engine of tables that are created without ENGINE: tiered or memory_optimized
    /// (docs/engines.md). Sessions may set their own with default_storage_engine
    #[arg(long, value_name = "ENGINE", value_parser = engine)]
    default_engine: Option<&'static str>,
    /// The port to listen on; 0 for any free port
    #[arg(long, default_value_t = 3306)]
    port: u16,
    /// The address to listen on; for any but a loopback address, root must have a password
    #[arg(long, default_value = "127.0.0.1")]
    bind: IpAddr,
    /// A Unix socket to listen on as well
    #[arg(long)]
    socket: Option<PathBuf>,
    /// The most clients that are logged in at once; root may have one more
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    max_connections: u32,
    /// Serve metrics for Prometheus at http://ADDRESS/metrics, for example 127.0.0.1:9104, and a
    /// view of the storage at http://ADDRESS/inspect for clients on this machine's loopback
    /// [default: off]
    #[arg(long, value_name = "ADDRESS")]
    metrics_addr: Option<SocketAddr>,
    /// The log's folder, for example on a separate device; give the same folder at each start
    /// [default: log in the data folder]
    #[arg(help_heading = EXPERT, long, value_name = "FOLDER")]
    log_dir: Option<PathBuf>,
    /// A folder for data files on a device of class fast, ssd or hdd; once for each class. Without
    /// a tier of class ssd, the data folder is that tier. New data goes to the fastest class, and
    /// most of it moves to the slowest in time. hdd:zstd:9=FOLDER sets the compression of a class.
    /// If a start omits a tier, its folder is emptied in the background
    #[arg(help_heading = EXPERT, long, value_name = "CLASS=FOLDER")]
    tier: Vec<Tier>,
    /// Compression of Level0 and Level1, which hold new data: none or lz4
    #[arg(help_heading = EXPERT, long, value_name = "HOW", default_value = "none")]
    hot_compression: Compression,
    /// Compression of Level2, which holds most data: none, lz4, zstd, or zstd:1 to zstd:19
    #[arg(help_heading = EXPERT, long, value_name = "HOW", default_value = "zstd:3")]
    cold_compression: Compression,
    /// The ceiling on space amplification: bytes that a table may take for each byte of its settled
    /// rows, from 1.1 to 10. A lower ceiling saves space and writes more, because newer versions
    /// settle, and dead ones are dropped, sooner
    #[arg(help_heading = EXPERT, long, value_name = "TIMES", default_value_t = 2.0)]
    space_max: f64,
    /// After this many seconds without writes to a table, compress all of it like Level2
    #[arg(help_heading = EXPERT, long, value_name = "SECONDS", default_value_t = 10)]
    settle_after: u64,
    /// Kinds of compactions to choose first if several are due: deletion, intra-Level0, minor,
    /// major, self-major. The kinds not named follow in the order above. Compactions that prevent
    /// an imminent throttling of writers always go first
    #[arg(help_heading = EXPERT, long, value_name = "KINDS", value_delimiter = ',')]
    compaction_order: Vec<CompactionKind>,
    /// A compaction removes deleted rows where 2 MB have this many, and they are a quarter of the
    /// rows. A lower number frees space sooner and writes more
    #[arg(help_heading = EXPERT, long, value_name = "ROWS", default_value_t = 1000)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    deletions_min: u64,
    /// Do every merge a second time by a different method, and compare the results.
    /// `tiered_checked_merges_total` counts merges that agree, and `tiered_refused_merges_total`
    /// merges that differ. SHOW ENGINE TIERED STATUS shows the last that differed. Compactions take
    /// about three times the processor time
    #[arg(help_heading = EXPERT, long)]
    check_merges: bool,
    /// Read and write data files past the system's page cache. Data is then in memory once, within
    /// the budget, and reads from a device take less processor time. Without this option the system
    /// caches recently read and written data in free memory
    #[arg(help_heading = EXPERT, long)]
    direct_reads: bool,
    /// Threads that run statements at once, one of which may be writing the log [default: as many
    /// as cores, at least 2]
    #[arg(help_heading = EXPERT, long, value_parser = clap::value_parser!(u32).range(1..=1024))]
    worker_threads: Option<u32>,
    /// The server's certificate for TLS, in PEM [default: a self-signed one in the data folder]
    #[arg(help_heading = EXPERT, long, requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The certificate's private key, in PEM
    #[arg(help_heading = EXPERT, long, requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Refuse network clients without TLS
    #[arg(help_heading = EXPERT, long)]
    require_secure_transport: bool,
    /// A Unix socket for administrators. Only accounts with CONNECTION_ADMIN or
    /// SERVICE_CONNECTION_ADMIN may log in over it, and --max-connections does not bound it
    #[arg(help_heading = EXPERT, long, value_name = "PATH")]
    admin_socket: Option<PathBuf>,
    /// The only folder in or below which BACKUP TO may write [default: any that the server's user
    /// can write]
    #[arg(help_heading = EXPERT, long, value_name = "FOLDER")]
    secure_file_priv: Option<PathBuf>,
    /// Switch these mechanisms off, to measure their effect
    #[cfg(feature = "ablation")]
    #[arg(help_heading = EXPERT, long, value_delimiter = ',')]
    without: Vec<spillway::Mechanism>,
}

/// Parses a durability, as the variable `durability` does.
fn durability(text: &str) -> Result<Durability, String> {
    spillway_sql::parse_durability(text)
        .ok_or_else(|| format!("{text} is no durability; write commit, none, 200ms or 1s"))
}

/// Parses an engine, as the variable `default_storage_engine` does.
fn engine(text: &str) -> Result<&'static str, String> {
    spillway_sql::parse_engine(text)
        .ok_or_else(|| format!("{text} is no engine; write tiered or memory_optimized"))
}

/// Parses a number of bytes with its unit.
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

fn database_settings(args: &ServeArgs) -> Settings {
    let mut settings = Settings::default();
    settings.memory_bytes = args.memory;
    settings.log_dir.clone_from(&args.log_dir);
    settings.tiers.clone_from(&args.tier);
    settings.hot_compression = args.hot_compression;
    settings.cold_compression = args.cold_compression;
    settings.space_max = args.space_max;
    settings.compaction_order.clone_from(&args.compaction_order);
    settings.deletions_min = args.deletions_min;
    settings.check_merges = args.check_merges;
    settings.settle_after = Duration::from_secs(args.settle_after);
    settings.cores = args.cores.unwrap_or(settings.cores);
    settings.durability = args.durability;
    settings.direct_reads = args.direct_reads;
    #[cfg(feature = "ablation")]
    settings.without.clone_from(&args.without);
    settings
}

pub(crate) fn run(args: &ServeArgs) -> Result<(), String> {
    let log = tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false);
    log.with_target(false).init();
    let settings = database_settings(args);
    let workers = args.worker_threads.map_or_else(|| workers_for(settings.cores), |n| n as usize);
    let mut signals = Signals::new([SIGTERM, SIGINT]).map_err(|error| error.to_string())?;
    let db = Database::open(&args.data, settings).map_err(|error| error.to_string())?;
    let recovered = db.recovered();
    let watch = MemoryWatch::start(&db, heap::release).map_err(|error| error.to_string())?;
    let instance = Instance::open(db.clone()).map_err(|error| error.to_string())?;
    if let Some(engine) = args.default_engine {
        instance.set_global("default_storage_engine", engine);
    }
    if let Some(folder) = &args.secure_file_priv {
        let folder = std::fs::canonicalize(folder)
            .map_err(|error| format!("--secure-file-priv {}: {error}", folder.display()))?;
        instance.set_global("secure_file_priv", folder.display().to_string());
    }
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
            admin_socket: args.admin_socket.clone(),
            connections_max: args.max_connections as usize,
            workers,
            tls: Some(tls),
            require_secure_transport: args.require_secure_transport,
        },
    )
    .map_err(|error| error.to_string())?;
    let address = server.address();
    say(format_args!(
        "Spillway {} on {}, {} commits read from the log",
        env!("CARGO_PKG_VERSION"),
        args.data.display(),
        recovered.commits
    ));
    say(format_args!(
        "connect with: mariadb -h {} -P {} -u root test",
        address.ip(),
        address.port()
    ));
    if let Some(socket) = &args.socket {
        say(format_args!("or with:      mariadb -S {} -u root test", socket.display()));
    }
    if let Some(folder) = db.refuses_direct_reads() {
        let folder = folder.display();
        eprintln!(
            "spillway: the file system of {folder} does not support direct I/O; reads go through the page cache"
        );
    }
    let page =
        args.metrics_addr.map(|address| show_metrics(address, &server, &instance)).transpose()?;
    let _ = signals.forever().next();
    say(format_args!("stopping"));
    drop(page);
    server.stop();
    instance.close();
    drop(watch);
    db.close().map_err(|error| error.to_string())
}

fn show_metrics(
    address: SocketAddr,
    server: &Server,
    instance: &Instance,
) -> Result<MetricsPage, String> {
    let (of_server, of_database) = (server.metrics(), instance.database().clone());
    let figures = move || {
        let mut figures = of_server();
        figures.extend(of_database.metrics());
        figures
    };
    let page = MetricsPage::start(address, instance.clone(), figures);
    let page = page.map_err(|error| error.to_string())?;
    say(format_args!("inspect with: spillway inspect http://{}", page.address()));
    say(format_args!("metrics:      http://{}/metrics", page.address()));
    Ok(page)
}

/// Prints a line to standard output. Ignores errors, so that a closed output does not stop the
/// server.
fn say(line: std::fmt::Arguments<'_>) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
