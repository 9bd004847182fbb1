//! `spillway inspect`: shows the storage of a folder or of a running server.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use spillway::{ClosedFolder, ErrorKind};
use spillway_inspect::{Format, Names, Numbered, Report, keep_only};
use spillway_sql::Labels;

use crate::page::Address;

/// The text of a report if the memory engine has no checkpoint.
const NO_CHECKPOINT: &str = "\nmemory engine: no checkpoint yet; the rows of its tables, if there \
are any, are in the log alone\n";

#[derive(Args)]
#[command(
    after_help = "Of a folder, the command reads the records of tables, sub-tables, levels and \
extents, and the last checkpoint of the memory engine. It changes nothing. Data that is in the log \
alone is not shown. Read counts and recent compactions are those at the last close; after a kill, \
they may be half a minute older. In the picture keys go from left to \
right and levels from top to bottom; hover over a box to see what it is.

A running server with --metrics-addr answers over its own machine's loopback. For other servers use
SQL:
  mariadb -e 'SHOW ENGINE TIERED STATUS\\G'
  mariadb -e 'SELECT * FROM information_schema.TIERED_LEVELS'  and TIERED_SLICES, TIERED_COMPACTIONS
  mariadb -N -r -e 'SELECT PICTURE FROM information_schema.TIERED_PICTURE' > picture.html

Examples:
  spillway inspect ./data                                   levels of each table, and memory tables
  spillway inspect ./data --table shop.orders               one table and its indexes
  spillway inspect ./data --format html --output data.html  a picture, for a browser
  spillway inspect ./data --format json | jq '.tables[].levels'
  spillway inspect http://127.0.0.1:9104                    the same of a running server; a browser
                                                            shows its page /inspect"
)]
pub(crate) struct InspectArgs {
    /// A data folder that no server has open, or the address of a server's --metrics-addr,
    /// http://HOST:PORT
    #[arg(value_name = "FOLDER|ADDRESS")]
    of: PathBuf,
    /// text: tables of figures; json: all data, down to single slices; html: a picture in a web
    /// page
    #[arg(long, value_parser = formats(), default_value_t = Format::Text)]
    format: Format,
    /// Show only this table, as DATABASE.TABLE, and its indexes [default: all]
    #[arg(long, value_name = "NAME")]
    table: Option<String>,
    /// The file to write, which is replaced once the output is complete [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

fn formats() -> impl TypedValueParser<Value = Format> {
    PossibleValuesParser::new(Format::ALL.map(Format::name)).try_map(|name| name.parse::<Format>())
}

pub(crate) fn run(args: &InspectArgs) -> Result<(), String> {
    match args.of.to_str().and_then(Address::of) {
        None => {
            let told = of_folder(args)?;
            write_to(args.output.as_deref(), |out| out.write_all(told.as_bytes()))
        }
        Some(address) => of_server(&address?, args),
    }
}

fn of_folder(args: &InspectArgs) -> Result<String, String> {
    let folder = ClosedFolder::open(&args.of).map_err(|error| {
        let address = format!("http://{}", args.of.display());
        match error.kind() {
            ErrorKind::InUse => format!(
                "{error}\nInspect the server that has it open, at the address of its --metrics-addr: \
                 spillway inspect http://127.0.0.1:9104\nFor a server without --metrics-addr, see spillway inspect --help."
            ),
            ErrorKind::InvalidArgument if matches!(Address::of(&address), Some(Ok(_))) => {
                format!("{error}; write {address} for a server that runs")
            }
            _ => error.to_string(),
        }
    })?;
    let (mut inspection, mut memory) = (folder.inspect(), folder.inspect_memory());
    let has_no_checkpoint = memory.is_empty();
    let names = names_of(&folder);
    if let Some(table) = &args.table {
        keep_only(&mut inspection, &mut memory, &*names, table)?;
    }
    let memory = Some(memory).filter(|memory| !memory.is_empty());
    let title = args.of.display().to_string();
    let memory = memory.as_ref();
    let report = Report { inspection: &inspection, memory, names: &*names, title: &title };
    let mut written = report.written(args.format);
    if has_no_checkpoint && args.table.is_none() && args.format == Format::Text {
        written.push_str(NO_CHECKPOINT);
    }
    Ok(written)
}
fn of_server(address: &Address, args: &InspectArgs) -> Result<(), String> {
    let mut path = format!("/inspect?format={}", args.format);
    if let Some(table) = &args.table {
        path.push_str("&table=");
        for byte in table.bytes() {
            // Writing to a string does not fail.
            let _ = match byte {
                b'.' | b'_' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => {
                    write!(path, "{}", byte as char)
                }
                _ => write!(path, "%{byte:02x}"),
            };
        }
    }
    let answer = address.ask(&path)?;
    write_to(args.output.as_deref(), |out| answer.copy(out))
}

/// Writes to a file, or to standard output.
fn write_to(
    path: Option<&Path>,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), String> {
    match path {
        None => match write(&mut io::stdout().lock()) {
            // A closed pipe is no error: the reader needs no more.
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.to_string()),
            _ => Ok(()),
        },
        Some(path) => {
            let written = match std::fs::metadata(path) {
                // A pipe or a device is written directly.
                Ok(there) if !there.is_file() => {
                    File::options().write(true).open(path).and_then(|mut file| write(&mut file))
                }
                _ => replace(path, write),
            };
            written.map_err(|error| format!("{}: {error}", path.display()))
        }
    }
}

/// Writes a temporary file beside `path`, and renames it once it is complete. The old file stays
/// until then.
fn replace(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    // If the path is a link, its target is replaced.
    let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.part", std::process::id()));
    let beside = path.with_file_name(name);
    let mut file = File::options().write(true).create_new(true).open(&beside)?;
    let written = write(&mut file).and_then(|()| {
        if let Ok(there) = std::fs::metadata(&path) {
            file.set_permissions(there.permissions())?;
        }
        std::fs::rename(&beside, &path)
    });
    if written.is_err() {
        // An error of the removal matters less than that of the write.
        let _ = std::fs::remove_file(&beside);
    }
    written
}

/// The names of tables; their numbers if the names cannot be read.
fn names_of(folder: &ClosedFolder) -> Box<dyn Names> {
    let read = || -> Result<Labels, String> {
        let names = folder.names().map_err(|error| error.to_string())?;
        let rows = match names.get(Labels::CATALOG) {
            Some(catalog) => folder.rows(*catalog).map_err(|error| error.to_string())?,
            None => Default::default(),
        };
        Labels::of_rows(&rows, &names).map_err(|error| error.to_string())
    };
    match read() {
        Ok(labels) => Box::new(labels),
        Err(error) => {
            eprintln!(
                "spillway: tables are shown by number, because their names cannot be read: {error}"
            );
            Box::new(Numbered)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_by_what_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("picture.html");
        let files = || std::fs::read_dir(folder.path()).unwrap().count();
        let fails = |out: &mut dyn Write| {
            out.write_all(b"half of")?;
            Err(io::Error::other("no more comes"))
        };
        let told = write_to(Some(&path), fails).unwrap_err();
        assert!(told.contains("picture.html: no more comes"), "{told}");
        assert_eq!(files(), 0, "nothing is left of it");
        write_to(Some(&path), |out| out.write_all(b"the first")).unwrap();
        write_to(Some(&path), fails).unwrap_err();
        assert_eq!((std::fs::read(&path).unwrap(), files()), (b"the first".to_vec(), 1));
        write_to(Some(&path), |out| out.write_all(b"second")).unwrap();
        assert_eq!((std::fs::read(&path).unwrap(), files()), (b"second".to_vec(), 1));
        // A link's target is replaced, and not the link. A device is written directly.
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        write_to(Some(&link), |out| out.write_all(b"third")).unwrap();
        assert_eq!((std::fs::read(&path).unwrap(), files()), (b"third".to_vec(), 2));
        write_to(Some(Path::new("/dev/null")), |out| out.write_all(b"gone")).unwrap();
        let told = write_to(Some(&folder.path().join("none/here")), |_| Ok(())).unwrap_err();
        assert!(told.contains("none/here: "), "{told}");
    }
}
