//! SHOW, DESCRIBE (also as EXPLAIN of a table), and the tables of information_schema.

mod labels;
mod schema;
mod server;
mod shown;
mod status;
mod tables;
mod tiered;

use spillway::EngineKind;
use spillway_types::{Collation, ColumnType, Value};
use sqlparser::tokenizer::Token;

use crate::api::{ColumnFlags, ResultColumn, TEXT, text};
use crate::catalog::{Catalog, DEFAULT_ENGINE, SYSTEM, StorageEngine, UserDef};
use crate::errors::{Result, SqlError};
use crate::expression::Server;
use crate::parser::{name_of, path_of, word};
use crate::privilege::{grants, quote};
use crate::variables::Variables;
use server::{charset_rows, collation_rows, engine_rows, process_rows};
use shown::shown;
use status::{memory_status, tiered_status};
use tables::{columns_of, create_table, indexes_of, table_status};

pub use labels::Labels;
pub(crate) use schema::virtual_rows;
pub(crate) use shown::Shown;
pub(crate) use tiered::Readable;

pub(crate) fn result_columns(columns: &[(&str, ColumnType)]) -> Vec<ResultColumn> {
    columns
        .iter()
        .map(|(name, ty)| ResultColumn {
            schema: "".into(),
            table: "".into(),
            org_table: "".into(),
            name: (*name).into(),
            org_name: (*name).into(),
            column_type: ty.clone(),
            collation: if ty.is_text() { Collation::GeneralCi } else { Collation::Binary },
            flags: ColumnFlags::default(),
        })
        .collect()
}

/// Keeps the rows whose first column matches the pattern of a LIKE at the end of the statement.
fn keep_like(
    plain: &[Token],
    words: &[String],
    rows: &mut Vec<Vec<Value>>,
) -> Result<Option<String>> {
    let Some(at) = words.iter().position(|word| word == "like") else { return Ok(None) };
    match &plain[at + 1..] {
        [Token::SingleQuotedString(pattern) | Token::DoubleQuotedString(pattern)] => {
            rows.retain(|row| Collation::GeneralCi.like(&row[0].to_text(), pattern, Some('\\')));
            Ok(Some(pattern.clone()))
        }
        [_, near, ..] => Err(SqlError::syntax(format!("near '{near}'"))),
        _ => Err(SqlError::syntax("LIKE needs a text")),
    }
}

fn after<'t>(plain: &'t [Token], words: &[String], names: &[&str]) -> Option<(usize, &'t [Token])> {
    let at = words.iter().position(|word| names.contains(&word.as_str()))?;
    Some((at, &plain[at + 1..]))
}

/// The table that `FROM t`, `FROM d.t` or `FROM t FROM d` names.
fn named_table(plain: &[Token], words: &[String]) -> Result<Vec<String>> {
    let (place, rest) =
        after(plain, words, &["from", "in"]).ok_or_else(|| SqlError::syntax("FROM is missing"))?;
    let mut path = path_at(rest);
    let later = plain.get(place + 2..).unwrap_or_default();
    let later_words = words.get(place + 2..).unwrap_or_default();
    if let Some((_, database)) = after(later, later_words, &["from", "in"]) {
        let table = path.pop();
        path = path_at(database);
        path.extend(table);
    }
    Ok(path)
}

/// The parts of the name at the start of the tokens.
fn path_at(tokens: &[Token]) -> Vec<String> {
    let mut parts = Vec::new();
    let mut rest = tokens.iter();
    while let Some(Token::Word(word)) = rest.next() {
        parts.push(word.value.clone());
        if rest.next() != Some(&Token::Period) {
            break;
        }
    }
    parts
}

/// Refuses a SHOW whose end is neither `FROM name` nor `LIKE 'pattern'`. Statements whose end is
/// parsed elsewhere pass this check.
fn check_end(plain: &[Token], words: &[String]) -> Result<()> {
    let at = |index: usize| words.get(index).map_or("", String::as_str);
    let mut rest = match (at(0), at(1), at(2)) {
        ("show", "grants" | "engine", _) | ("show", "create", "user") => return Ok(()),
        ("show", "create", _) => 3,
        ("show", "table" | "procedure" | "function" | "package", "status")
        | ("show", "character", "set")
        | ("show", "storage", "engines")
        | ("show", "open", "tables")
        | ("show", "binary", "logs")
        | ("show", "master" | "replica" | "slave", "status" | "hosts") => 3,
        ("show", ..) => 2,
        _ => 1,
    };
    // DESCRIBE and SHOW CREATE take the name without FROM.
    let mut named = at(0) != "show" || at(1) == "create";
    while rest < plain.len() {
        let from = matches!(at(rest), "from" | "in");
        if named || from {
            rest += usize::from(from);
            let parts = path_at(plain.get(rest..).unwrap_or_default()).len();
            if parts == 0 {
                break;
            }
            rest += 2 * parts - 1;
            named = false;
        } else if (at(rest) == "like" && rest + 2 == plain.len())
            || (at(0) != "show" && rest + 1 == plain.len())
        {
            return Ok(());
        } else {
            break;
        }
    }
    match plain.get(rest) {
        None => Ok(()),
        Some(token) => Err(SqlError::syntax(format!("near '{token}'"))),
    }
}

/// The row of SHOW ENGINE STATUS: the engine, an empty name, and the page. For an unknown engine,
/// it is the tiered engine's page.
fn engine_status(
    server: &dyn Server,
    catalog: &Catalog,
    user: Option<&UserDef>,
    engine: Option<&Token>,
) -> Vec<Vec<Value>> {
    let engine = StorageEngine::named(&name_of(engine)).unwrap_or(DEFAULT_ENGINE);
    let page = match engine.kind {
        EngineKind::Tiered => tiered_status(server, catalog, user),
        EngineKind::Memory => memory_status(server, catalog),
    };
    vec![vec![text(engine.name), text(""), text(page)]]
}

/// Fails for a database or table that the user may not see.
fn check_seen(user: Option<&UserDef>, db: &str, table: Option<&str>) -> Result<()> {
    let Some(user) = user else { return Err(SqlError::new(1045, "Access denied")) };
    match table {
        _ if user.sees(db) => Ok(()),
        None => Err(grants::no_database(user, db)),
        Some(table) => Err(SqlError::new(
            1142,
            format!(
                "SELECT command denied to user '{}'@'{}' for table '{table}'",
                user.name, user.host
            ),
        )),
    }
}

/// The account that a SHOW names; the user's own account if it names none.
fn named_account<'c>(
    catalog: &'c Catalog,
    variables: &Variables,
    asker: Option<&UserDef>,
    named: Option<&[Token]>,
) -> Result<&'c UserDef> {
    let own = (variables.user_name.clone(), variables.user_host.clone());
    let account = match named {
        Some(named) => crate::privilege::named(named, &own)?,
        None => own.clone(),
    };
    if let Some(asker) = asker
        && account != own
        && !asker.may_everywhere("SELECT")
    {
        return Err(grants::no_database(asker, "mysql"));
    }
    catalog.users.get(&account).ok_or_else(|| {
        let (name, host) = account;
        let text = format!("There is no such grant defined for user '{name}' on host '{host}'");
        SqlError::new(1141, text)
    })
}

/// The row of SHOW CREATE USER. Only users who may change accounts see password hashes.
fn create_user_row(
    catalog: &Catalog,
    variables: &Variables,
    asker: Option<&UserDef>,
    named: &[Token],
) -> Result<Shown> {
    let named = Some(named).filter(|named| !named.is_empty());
    let user = named_account(catalog, variables, asker, named)?;
    let hidden = !asker
        .is_some_and(|asker| asker.may_everywhere("SELECT") && asker.may_everywhere("CREATE USER"));
    let title = format!("CREATE USER for {}@{}", user.name, user.host);
    let made = crate::privilege::create_user(user, hidden);
    Ok(shown(&[&title], vec![vec![text(made)]]))
}

/// The columns that a DESCRIBE shows: those that match the name or pattern after the table's name,
/// if there is one.
fn described(mut out: Shown, asked: Option<&Token>) -> Result<Shown> {
    match asked {
        Some(Token::Word(name)) => {
            out.rows.retain(|row| row[0].to_text().eq_ignore_ascii_case(&name.value));
        }
        Some(Token::SingleQuotedString(pattern) | Token::DoubleQuotedString(pattern)) => {
            let like = |text: &str| Collation::GeneralCi.like(text, pattern, Some('\\'));
            out.rows.retain(|row| like(&row[0].to_text()));
        }
        Some(token) => return Err(SqlError::syntax(format!("near '{token}'"))),
        None => {}
    }
    Ok(out)
}

fn tables_in(catalog: &Catalog, db: &str, full: bool) -> Result<Shown> {
    if !catalog.has_database(db) {
        return Err(SqlError::unknown_database(db));
    }
    let name = format!("Tables_in_{db}");
    let rows = catalog.tables_of(db).map(|table| {
        let mut row = vec![text(table.name.clone())];
        if full {
            row.push(text("BASE TABLE"));
        }
        row
    });
    let columns: Vec<&str> = if full { vec![&name, "Table_type"] } else { vec![&name] };
    Ok(shown(&columns, rows.collect()))
}

fn create_database_row(catalog: &Catalog, name: &str) -> Result<Shown> {
    if !catalog.has_database(name) {
        return Err(SqlError::unknown_database(name));
    }
    let made = format!(
        "CREATE DATABASE {} /*!40100 DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci */",
        quote(name)
    );
    Ok(shown(&["Database", "Create Database"], vec![vec![text(name), text(made)]]))
}

/// The columns of a SHOW whose result is always empty; `None` for any other SHOW.
fn always_empty(what: &str) -> Option<&'static [&'static str]> {
    Some(match what {
        "plugins" => &["Name", "Status", "Type", "Library", "License"],
        "triggers" => &[
            "Trigger",
            "Event",
            "Table",
            "Statement",
            "Timing",
            "Created",
            "sql_mode",
            "Definer",
            "character_set_client",
            "collation_connection",
            "Database Collation",
        ],
        "procedure" | "function" | "package" => &[
            "Db",
            "Name",
            "Type",
            "Definer",
            "Modified",
            "Created",
            "Security_type",
            "Comment",
            "character_set_client",
            "collation_connection",
            "Database Collation",
        ],
        "events" => &[
            "Db",
            "Name",
            "Definer",
            "Time zone",
            "Type",
            "Execute at",
            "Interval value",
            "Interval field",
            "Starts",
            "Ends",
            "Status",
            "Originator",
            "character_set_client",
            "collation_connection",
            "Database Collation",
        ],
        "open" => &["Database", "Table", "In_use", "Name_locked"],
        "privileges" => &["Privilege", "Context", "Comment"],
        "master" | "binary" | "replica" | "slave" => {
            &["File", "Position", "Binlog_Do_DB", "Binlog_Ignore_DB"]
        }
        "profiles" => &["Query_ID", "Duration", "Query"],
        _ => return None,
    })
}

/// Runs a SHOW, DESCRIBE or EXPLAIN of a table.
pub(crate) fn show(
    server: &dyn Server,
    catalog: &Catalog,
    variables: &Variables,
    lines: Vec<(String, String)>,
    plain: &[Token],
    words: &[String],
) -> Result<Shown> {
    let database = variables.database.as_deref();
    let mut words: Vec<String> = words.to_vec();
    let mut plain: Vec<Token> = plain.to_vec();
    let mut full = false;
    if word(plain.first()) == "show" {
        while ["full", "extended", "global", "session", "local"]
            .contains(&words.get(1).map_or("", String::as_str))
        {
            full |= words[1] == "full";
            words.remove(1);
            plain.remove(1);
        }
    }
    let at = |index: usize| words.get(index).map_or("", String::as_str);
    check_end(&plain, &words)?;
    let user = variables.account(catalog);
    let table_at = |parts: &[String]| {
        let (db, name) = path_of(parts, database)?;
        check_seen(user, &db, Some(&name)).map(|()| (db, name))
    };
    if at(0) != "show" {
        let path = path_at(&plain[1..]);
        return described(
            columns_of(catalog, &table_at(&path)?, false)?,
            plain.get(2 * path.len()),
        );
    }
    let in_database = |place: usize| -> Result<String> {
        let rest: &[String] = words.get(place..).unwrap_or_default();
        match rest.iter().position(|word| word == "from" || word == "in") {
            Some(found) => match plain.get(place + found + 1) {
                Some(Token::Word(word)) => Ok(word.value.clone()),
                _ => Err(SqlError::syntax("FROM needs a name")),
            },
            None => {
                Ok(database.ok_or_else(|| SqlError::new(1046, "No database selected"))?.to_owned())
            }
        }
    };
    let mut out = match at(1) {
        "databases" | "schemas" => {
            let mut names: Vec<String> = catalog.databases.keys().cloned().collect();
            names.extend(SYSTEM.iter().map(|name| (*name).to_owned()));
            names.sort();
            shown(&["Database"], names.into_iter().map(|name| vec![text(name)]).collect())
        }
        "tables" => {
            let db = in_database(2)?;
            check_seen(user, &db, None)?;
            tables_in(catalog, &db, full)?
        }
        "columns" | "fields" => {
            let path = named_table(&plain, &words)?;
            columns_of(catalog, &table_at(&path)?, full)?
        }
        "index" | "indexes" | "keys" => {
            let path = named_table(&plain, &words)?;
            let (db, name) = table_at(&path)?;
            indexes_of(server, catalog.table(&db, &name)?)
        }
        "create" if at(2) == "table" => {
            let (db, name) = table_at(&path_at(&plain[3..]))?;
            let table = catalog.table(&db, &name)?;
            let row = vec![text(table.name.clone()), text(create_table(server, table))];
            Shown {
                columns: vec![
                    ("Table".into(), TEXT),
                    (
                        "Create Table".into(),
                        ColumnType::Text(spillway_types::column::LobSize::Long),
                    ),
                ],
                rows: vec![row],
            }
        }
        "create" if at(2) == "database" || at(2) == "schema" => {
            let name = path_at(&plain[3..]).pop().unwrap_or_default();
            check_seen(user, &name, None)?;
            create_database_row(catalog, &name)?
        }
        "create" if at(2) == "user" => create_user_row(catalog, variables, user, &plain[3..])?,
        "create" => {
            return Err(SqlError::unsupported(format!("SHOW CREATE {}", at(2).to_uppercase())));
        }
        "table" if at(2) == "status" => {
            let db = in_database(3)?;
            check_seen(user, &db, None)?;
            table_status(server, catalog, &db)
        }
        "variables" | "status" => {
            let rows = lines.into_iter().map(|(name, value)| vec![text(name), text(value)]);
            shown(&["Variable_name", "Value"], rows.collect())
        }
        "processlist" => {
            let names = ["Id", "User", "Host", "db", "Command", "Time", "State", "Info"];
            let mut out = shown(&names, process_rows(server, user));
            for at in [0, 5] {
                out.columns[at].1 = ColumnType::BIGINT;
            }
            out
        }
        "engines" | "storage" => shown(
            &["Engine", "Support", "Comment", "Transactions", "XA", "Savepoints"],
            engine_rows(variables),
        ),
        "engine" if !user.is_some_and(|user| user.may_everywhere("PROCESS")) => {
            return Err(grants::missing(&["PROCESS"]));
        }
        "engine" => {
            shown(&["Type", "Name", "Status"], engine_status(server, catalog, user, plain.get(2)))
        }
        "collation" => {
            let mut out = shown(
                &["Collation", "Charset", "Id", "Default", "Compiled", "Sortlen", "Pad_attribute"],
                collation_rows(),
            );
            for at in [2, 5] {
                out.columns[at].1 = ColumnType::BIGINT;
            }
            out
        }
        "character" | "charset" => {
            shown(&["Charset", "Description", "Default collation", "Maxlen"], charset_rows())
        }
        "grants" => {
            let rest = after(&plain, &words, &["for"]).map(|(_, rest)| rest);
            let user = named_account(catalog, variables, user, rest)?;
            let title = format!("Grants for {}@{}", user.name, user.host);
            shown(&[&title], user.grant_lines().into_iter().map(|line| vec![text(line)]).collect())
        }
        other => match always_empty(other) {
            Some(columns) => shown(columns, Vec::new()),
            None => return Err(SqlError::unsupported(format!("SHOW {}", other.to_uppercase()))),
        },
    };
    let pattern = keep_like(&plain, &words, &mut out.rows)?;
    // SHOW of a list of names shows the pattern in the name of its column.
    if let (Some(pattern), "tables" | "databases" | "schemas") = (pattern, at(1)) {
        out.columns[0].0 += &format!(" ({pattern})");
    }
    Ok(out)
}
