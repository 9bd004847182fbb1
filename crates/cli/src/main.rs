//! The `spillway` command.

mod backup;
mod heap;
mod inspect;
mod page;
mod serve;
mod shell;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use indicatif::ProgressBar;

/// An OLTP database for load that arrives as a wave. It speaks the MySQL protocol.
#[derive(Parser)]
#[command(
    version,
    after_help = "Examples:
  spillway serve --data ./data               start a server on 127.0.0.1:3306
  mariadb -h 127.0.0.1 -u root test          connect to it
  spillway sql --data ./data -e 'SELECT 1'   run SQL on a folder that no server has open
  spillway check ./data                      verify every checksum of a folder
  spillway inspect ./data --format html -o d.html   draw its levels
  spillway backup create ./backups --data ./data
  spillway restore ./backups ./copy          restore the newest backup into a folder"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Start a server on a data folder, which is created if it does not exist
    Serve(Box<serve::ServeArgs>),
    /// Run SQL on a data folder that no server has open
    Sql(shell::SqlArgs),
    /// Verify every checksum and structure of a data folder that no server has open
    #[command(
        after_help = "The command reads everything and changes nothing. It names each damaged place with its file and \
                            offset, and then fails.

Examples:
  spillway check ./data
  spillway check ./backup && echo sound"
    )]
    Check {
        /// The data folder
        data: PathBuf,
    },
    /// Show what is in a data folder or a running server: tables, sub-tables, levels, extents,
    /// compactions
    Inspect(inspect::InspectArgs),
    /// Take, list, verify and remove backups
    Backup {
        #[command(subcommand)]
        what: backup::BackupCommand,
    },
    /// Restore a backup into a new data folder
    Restore(backup::RestoreArgs),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Serve(args) => serve::run(&args),
        Command::Sql(args) => shell::run(&args),
        Command::Check { data } => check(&data),
        Command::Inspect(args) => inspect::run(&args),
        Command::Backup { what } => backup::run(&what),
        Command::Restore(args) => backup::restore(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("spillway: {error}");
            ExitCode::FAILURE
        }
    }
}

fn check(data: &std::path::Path) -> Result<(), String> {
    let bar = ProgressBar::new(0);
    let report = spillway::check(data, &mut |done, all| {
        bar.set_length(all);
        bar.set_position(done);
    });
    bar.finish_and_clear();
    let report = report.map_err(|error| error.to_string())?;
    println!(
        "{} tables, {} extents, {} versions, {} bytes of data; {} frames, {} bytes of log",
        report.tables,
        report.extents,
        report.versions,
        report.data_bytes,
        report.log_frames,
        report.log_bytes
    );
    for finding in &report.findings {
        println!("{finding}");
    }
    match report.findings.len() {
        0 => {
            println!("no damage found");
            Ok(())
        }
        count => Err(format!("{count} damaged places in {}", data.display())),
    }
}
