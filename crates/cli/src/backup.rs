//! `spillway backup` and `spillway restore`.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use spillway::backup::{Backup, BackupOptions, Repository};
use spillway::{Database, Error, Settings, Tier};
use spillway_inspect::utc;

use crate::serve::bytes;

#[derive(Subcommand)]
pub(crate) enum BackupCommand {
    /// Back up a data folder that no server has open. On a running server, use BACKUP TO 'REPO'
    #[command(after_help = "Examples:
  spillway backup create ./backups --data ./data               the first copies all, later ones what is new
  spillway backup create ./backups --data ./data --verify --rate 50MiB
  mariadb -h 127.0.0.1 -u root -e \"BACKUP TO '/srv/backups'\"   on a running server

docs/backup.md says what a backup contains, and what it does not.")]
    Create(CreateArgs),
    /// List the backups of a repository, oldest first
    List {
        /// The repository
        repository: PathBuf,
    },
    /// Read backups and check every checksum
    #[command(
        after_help = "The command names each damaged file, and then fails. It reads once what several backups share.

Examples:
  spillway backup verify ./backups
  spillway backup verify ./backups --backup 12"
    )]
    Verify {
        /// The repository
        repository: PathBuf,
        /// The backup's number [default: all]
        #[arg(long, value_name = "N")]
        backup: Option<u64>,
    },
    /// Remove backups, and the data that no other backup needs
    #[command(after_help = "Examples:
  spillway backup remove ./backups 1 2 3
  spillway backup remove ./backups --keep 7                    all but the newest seven")]
    Remove {
        /// The repository
        repository: PathBuf,
        /// The backups' numbers
        #[arg(required_unless_present = "keep", conflicts_with = "keep")]
        backups: Vec<u64>,
        /// Keep this many of the newest backups and remove the others
        #[arg(long, value_name = "COUNT")]
        keep: Option<usize>,
    },
}

#[derive(Args)]
pub(crate) struct CreateArgs {
    /// The repository: a folder, which is created if it does not exist
    repository: PathBuf,
    /// The data folder
    #[arg(long, default_value = "data")]
    data: PathBuf,
    /// The log's folder, if it is not in the data folder
    #[arg(long, value_name = "FOLDER")]
    log_dir: Option<PathBuf>,
    /// A tier's folder, as for serve; repeatable [default: the tiers that the database had]
    #[arg(long, value_name = "CLASS=FOLDER")]
    tier: Vec<Tier>,
    /// The most bytes to copy in a second, for example 50MiB [default: no limit]
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    rate: Option<usize>,
    /// Read the backup again and check every checksum
    #[arg(long)]
    verify: bool,
}

#[derive(Args)]
#[command(
    after_help = "The restored folder is a separate database. It has every commit up to the \
backup's last commit, and none after it. A folder whose restore was interrupted does not open; \
remove it.

Examples:
  spillway restore ./backups ./data                            the newest backup
  spillway restore ./backups ./data --backup 12
  spillway serve --data ./data                                 then"
)]
pub(crate) struct RestoreArgs {
    /// The repository
    repository: PathBuf,
    /// The data folder to create
    to: PathBuf,
    /// The backup's number [default: the newest]
    #[arg(long, value_name = "N")]
    backup: Option<u64>,
}

fn text(error: Error) -> String {
    error.to_string()
}

/// Runs `work` and shows its progress in bytes.
fn watched<T>(
    what: &'static str,
    work: impl FnOnce(&mut dyn FnMut(u64, u64) -> spillway::Result<()>) -> spillway::Result<T>,
) -> Result<T, String> {
    let bar = ProgressBar::new(0).with_message(what);
    let style = "{msg} {bar:40} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left";
    if let Ok(style) = ProgressStyle::with_template(style) {
        bar.set_style(style);
    }
    let done = work(&mut |done, all| {
        bar.set_length(all);
        bar.set_position(done);
        Ok(())
    });
    bar.finish_and_clear();
    done.map_err(text)
}

pub(crate) fn run(command: &BackupCommand) -> Result<(), String> {
    match command {
        BackupCommand::Create(args) => create(args),
        BackupCommand::List { repository } => list(repository),
        BackupCommand::Verify { repository, backup } => {
            verify(&Repository::open(repository).map_err(text)?, *backup)
        }
        BackupCommand::Remove { repository, backups, keep } => remove(repository, backups, *keep),
    }
}

fn create(args: &CreateArgs) -> Result<(), String> {
    if !args.data.join("tiered").is_dir() {
        return Err(format!("{} is no data folder", args.data.display()));
    }
    let mut settings = Settings::default();
    settings.log_dir.clone_from(&args.log_dir);
    settings.background_threads = false;
    settings.tiers.clone_from(&args.tier);
    let db = Database::open(&args.data, settings).map_err(text)?;
    db.check_backup_folder(&args.repository).map_err(text)?;
    let repository = Repository::open_or_make(&args.repository).map_err(text)?;
    let options = BackupOptions::new().bytes_per_second(args.rate.map(|rate| rate as u64));
    let backup = watched("copying", |progress| db.backup(&repository, &options, progress))?;
    db.close().map_err(text)?;
    println!("{}", line(&backup));
    if args.verify { verify(&repository, Some(backup.number)) } else { Ok(()) }
}

/// Describes a backup in one line.
fn line(backup: &Backup) -> String {
    format!(
        "backup {}: {}, up to commit {}; {} extents, {} bytes in all ({} new extents, {} bytes); \
         {} commits in {} bytes of log",
        backup.number,
        utc(backup.taken),
        backup.through,
        backup.extents,
        backup.data_bytes,
        backup.new_extents,
        backup.new_bytes,
        backup.log_commits,
        backup.log_bytes,
    )
}

fn list(repository: &Path) -> Result<(), String> {
    let mut damaged = 0;
    for (number, backup) in Repository::open(repository).and_then(|r| r.list()).map_err(text)? {
        match backup {
            Ok(backup) => println!("{}", line(&backup)),
            Err(error) => {
                println!("backup {number}: {error}");
                damaged += 1;
            }
        }
    }
    if damaged == 0 { Ok(()) } else { Err(format!("{damaged} damaged backups")) }
}

fn verify(repository: &Repository, backup: Option<u64>) -> Result<(), String> {
    let report = watched("verifying", |progress| repository.verify(backup, progress))?;
    println!("{} backups, {} extents, {} bytes read", report.backups, report.extents, report.bytes);
    report.findings.iter().for_each(|finding| println!("{finding}"));
    match report.findings.len() {
        0 => {
            println!("no damage found");
            Ok(())
        }
        count => Err(format!("{count} damaged files")),
    }
}

fn remove(repository: &Path, backups: &[u64], keep: Option<usize>) -> Result<(), String> {
    let repository = Repository::open(repository).map_err(text)?;
    let mut backups = backups.to_vec();
    if let Some(keep) = keep {
        backups = repository.numbers().map_err(text)?;
        backups.truncate(backups.len().saturating_sub(keep));
    }
    for number in backups {
        let removed = repository.remove(number).map_err(text)?;
        println!("backup {number}: removed, and {} extents with it", removed.extents);
    }
    Ok(())
}

pub(crate) fn restore(args: &RestoreArgs) -> Result<(), String> {
    let repository = Repository::open(&args.repository).map_err(text)?;
    let restored =
        watched("restoring", |progress| repository.restore(args.backup, &args.to, progress))?;
    println!("{}", line(&restored));
    println!("restored to {}", args.to.display());
    Ok(())
}
