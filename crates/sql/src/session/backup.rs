//! `BACKUP TO 'FOLDER' [RATE_LIMIT = BYTES]`: a backup of the whole instance, while all other work
//! continues.
//!
//! The folder is on the server's machine. A backup copies everything, so the user must hold
//! BACKUP_ADMIN or SUPER; SELECT on all tables is not enough. The backup belongs to no transaction:
//! an open transaction of the session continues, and its uncommitted changes are not in the backup.
//!
//! The backup folder is private: locking it fails if other users can read or write it (PRIVATE-2).
//! So nobody else can put a file or a link in the place of a file that the backup writes. Creating
//! files without O_EXCL is therefore safe, and a backup can overwrite the files that an unfinished
//! backup has left. The folders above the backup folder may belong to other users. A user who may
//! rename these folders can exchange them after the path was checked. The backup is then written to
//! a private folder elsewhere, or refused.

use std::path::Path;

use spillway::backup::{BackupOptions, Repository, resolved};
use spillway::{Error, ErrorKind};
use spillway_base::thread::blocking;
use spillway_types::{ColumnType, Value};
use sqlparser::tokenizer::Token;

use super::diagnostics::ShownRows;
use super::instance::Instance;
use super::security_context::SecurityContext;
use crate::errors::{Result, SqlError};
use crate::parser::word;
use crate::process::Stop;

/// Runs BACKUP, until it is finished or stopped. Returns the figures of the backup.
pub(super) fn back_up(
    instance: &Instance,
    security: &SecurityContext,
    stop: &Stop,
    plain: &[Token],
) -> Result<ShownRows> {
    let [_, to, Token::SingleQuotedString(folder), options @ ..] = plain else {
        return Err(SqlError::syntax("near 'BACKUP'; write BACKUP TO 'folder'"));
    };
    let rate = match options {
        [] => None,
        [name, Token::Eq, Token::Number(rate, _)] if word(Some(name)) == "rate_limit" => {
            let bad = |_| SqlError::syntax(format!("near '{rate}'"));
            Some(rate.parse::<u64>().map_err(bad)?)
        }
        [other, ..] => return Err(SqlError::syntax(format!("near '{other}'"))),
    };
    if word(Some(to)) != "to" {
        return Err(SqlError::syntax(format!("near '{to}'")));
    }
    security.check_everywhere(&["BACKUP_ADMIN", "SUPER"])?;
    let wrong = |why: String| SqlError::new(1210, format!("Incorrect arguments to BACKUP: {why}"));
    if !Path::new(folder).is_absolute() {
        return Err(wrong(format!("{folder} is no absolute path")));
    }
    // The check and the backup use the resolved path, so that a link in the given path that changes
    // meanwhile has no effect.
    let folder = resolved(Path::new(folder));
    let root = instance.global("secure_file_priv");
    if root
        .as_ref()
        .is_some_and(|root| !root.is_empty() && !folder.starts_with(resolved(Path::new(root))))
    {
        return Err(SqlError::new(
            1290,
            "The MySQL server is running with the --secure-file-priv option so it cannot \
             execute this statement",
        ));
    }
    let db = &instance.0.db;
    db.check_backup_folder(&folder).map_err(|error| wrong(error.to_string()))?;
    let mut goes_on = |_, _| match stop.is_asked() {
        true => Err(Error::new(ErrorKind::Interrupted, "the backup was interrupted")),
        false => Ok(()),
    };
    // The pool can serve clients on another thread meanwhile.
    let backup = blocking(|| {
        let repository = Repository::open_or_make(&folder).map_err(|error| match error.kind() {
            ErrorKind::NotFound | ErrorKind::InvalidArgument => wrong(error.to_string()),
            _ => error.into(),
        })?;
        let options = BackupOptions::new().bytes_per_second(rate);
        db.backup(&repository, &options, &mut goes_on).map_err(SqlError::from)
    })?;
    let figures = [
        backup.number,
        backup.through.0,
        backup.extents,
        backup.data_bytes,
        backup.new_extents,
        backup.new_bytes,
        backup.log_bytes,
    ];
    let figures = figures.map(|figure| Value::Int(i64::try_from(figure).unwrap_or(i64::MAX)));
    let names = ["Backup", "Commit", "Extents", "Bytes", "New_extents", "New_bytes", "Log_bytes"];
    Ok((names.map(|name| (name, ColumnType::BIGINT)).to_vec(), vec![figures.to_vec()]))
}
