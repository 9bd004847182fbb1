//! Tables that a single client changes, by DDL and by statements of many rows. The acknowledged
//! statements determine the content of such a table. Only a statement that was running when its
//! life ended may or may not have taken effect (SIMULATION-10).

use std::collections::BTreeMap;

use spillway::EngineKind;
use spillway_base::rng::Rng;
use spillway_sql::{Session, SqlError};

use super::oracle::{event, fail};
use super::sql::{Ledger, engine_name};
use crate::client::ask;

/// MySQL's error for a missing table.
const NO_TABLE: u16 = 1146;
/// MySQL's errors of statements without effect: a lock that was not granted, a deadlock, rows newer
/// than the statement's definition of their table.
const NOT_DONE: [u16; 4] = [1205, 1213, 1412, 3572];
/// Ids of rows are below this.
const IDS: u64 = 200;

/// The columns, the index and the rows of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Content {
    /// Columns past the first two, `id` and `value`.
    columns: Vec<u64>,
    has_index: bool,
    /// The values of all columns except `id`, by `id`.
    rows: BTreeMap<u64, Vec<u64>>,
}

/// The model of a client's table.
#[derive(Clone, Default, Debug)]
pub(super) struct Own {
    /// The table after the last completed statement; none if it does not exist.
    now: Option<Content>,
    /// The table as the running statement would leave it.
    next: Option<Option<Content>>,
    /// Whether a life may have ended during a build of the index. A later life completes the build.
    is_building: bool,
    /// A counter for columns and values that are new.
    fresh: u64,
}

impl Own {
    /// Whether the model allows this content.
    fn allows(&self, found: &Option<Content>) -> bool {
        let same = |content: &Option<Content>| {
            let indexed = || content.clone().map(|all| Content { has_index: true, ..all });
            content == found || self.is_building && indexed() == *found
        };
        same(&self.now) || self.next.as_ref().is_some_and(same)
    }

    /// Forgets what may be lost: an earlier table, of which an index may be built still.
    fn forget(&mut self) {
        self.is_building = true;
    }

    /// Accepts `found` as the table's content.
    fn settle(&mut self, found: Option<Content>) {
        let has_index =
            |content: &Option<Content>| content.as_ref().is_some_and(|all| all.has_index);
        self.is_building |= self.next.as_ref().is_some_and(has_index);
        self.is_building &= found.is_some() && !has_index(&found);
        (self.now, self.next) = (found, None);
    }
}

/// A client as the owner of its table.
pub(super) struct Owner<'l> {
    ledger: &'l Ledger,
    number: usize,
    /// The engine in which it creates its table.
    engine: EngineKind,
}

impl Owner<'_> {
    pub(super) fn new(ledger: &Ledger, number: usize, engine: EngineKind) -> Owner<'_> {
        let mut all = ledger.own();
        let count = all.len().max(number + 1);
        all.resize(count, Own::default());
        Owner { ledger, number, engine }
    }

    /// Changes its table, or reads any client's table.
    pub(super) fn act(&mut self, session: &mut Session, rng: &mut Rng) -> Result<(), SqlError> {
        if rng.chance(1, 4) {
            return self.read_any(session, rng);
        }
        let (sql, next) = {
            let mut all = self.ledger.own();
            let own = &mut all[self.number];
            own.fresh += 1;
            let (sql, next) = statement(own.now.clone(), self.number, self.engine, own.fresh, rng);
            own.next = Some(next.clone());
            (sql, next)
        };
        let done = ask(session, &sql);
        event(|| match &done {
            Ok(_) => format!("done: {sql}"),
            Err(error) => format!("{} {}: {sql}", error.code, error.message),
        });
        let mut all = self.ledger.own();
        let own = &mut all[self.number];
        match done {
            Ok(_) => (own.now, own.next) = (next, None),
            Err(error) if NOT_DONE.contains(&error.code) => own.next = None,
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Reads a table that its owner may be changing.
    fn read_any(&self, session: &mut Session, rng: &mut Rng) -> Result<(), SqlError> {
        let number = rng.below(self.ledger.own().len() as u64);
        match ask(session, &format!("SELECT COUNT(*), SUM(value) FROM own{number}")) {
            Err(error) if error.code == NO_TABLE || NOT_DONE.contains(&error.code) => Ok(()),
            done => done.map(drop),
        }
    }
}

/// A random statement for a table with this content, and the content after it.
fn statement(
    now: Option<Content>,
    number: usize,
    engine: EngineKind,
    fresh: u64,
    rng: &mut Rng,
) -> (String, Option<Content>) {
    let table = format!("own{number}");
    let Some(mut now) = now else {
        let new = Content { columns: Vec::new(), has_index: false, rows: BTreeMap::new() };
        let columns = "(id INT PRIMARY KEY, value BIGINT NOT NULL)";
        let sql = format!("CREATE TABLE {table} {columns} ENGINE={}", engine_name(engine));
        return (sql, Some(new));
    };
    let (from, count) = (rng.below(IDS), 1 + rng.below(IDS));
    let sql = match rng.below(12) {
        0 => return (format!("DROP TABLE {table}"), None),
        1 => {
            now.rows.clear();
            format!("TRUNCATE TABLE {table}")
        }
        2 => {
            now.columns.push(fresh);
            now.rows.values_mut().for_each(|row| row.push(fresh));
            format!("ALTER TABLE {table} ADD COLUMN c{fresh} INT NOT NULL DEFAULT {fresh}")
        }
        3 if !now.columns.is_empty() => {
            let at = rng.below(now.columns.len() as u64) as usize;
            let column = now.columns.remove(at);
            for row in now.rows.values_mut() {
                row.remove(1 + at);
            }
            format!("ALTER TABLE {table} DROP COLUMN c{column}")
        }
        4 => {
            now.has_index = !now.has_index;
            match now.has_index {
                true => format!("CREATE INDEX by_value ON {table} (value)"),
                false => format!("DROP INDEX by_value ON {table}"),
            }
        }
        5 => {
            let kind = ["INT", "BIGINT", "DECIMAL(20, 0)"][rng.below(3) as usize];
            format!("ALTER TABLE {table} MODIFY value {kind} NOT NULL")
        }
        6 => {
            now.rows.retain(|id, _| !(from..from + count).contains(id));
            format!("DELETE FROM {table} WHERE id >= {from} AND id < {}", from + count)
        }
        7 => {
            let changed = now.rows.range_mut(from..from + count);
            changed.for_each(|(_, row)| row[0] = fresh);
            let until = from + count;
            format!("UPDATE {table} SET value = {fresh} WHERE id >= {from} AND id < {until}")
        }
        8 => {
            let to = [EngineKind::Tiered, EngineKind::Memory][rng.below(2) as usize];
            format!("ALTER TABLE {table} ENGINE={}", engine_name(to))
        }
        _ => {
            let rest = now.columns.clone();
            let mut rows = Vec::new();
            for id in from..from + count {
                let mut row = vec![fresh];
                row.extend(&rest);
                now.rows.insert(id, row);
                rows.push(format!("({id}, {fresh})"));
            }
            format!("REPLACE INTO {table} (id, value) VALUES {}", rows.join(", "))
        }
    };
    (sql, Some(now))
}

/// Reads a table and compares its index with its rows.
fn look(session: &mut Session, number: usize) -> Result<Option<Content>, SqlError> {
    let table = format!("own{number}");
    let lines = match ask(session, &format!("SELECT * FROM {table} ORDER BY id")) {
        Err(error) if error.code == NO_TABLE => return Ok(None),
        lines => lines?,
    };
    let text = "SELECT column_name FROM information_schema.columns WHERE table_name = ";
    let names = ask(session, &format!("{text}'{table}' ORDER BY ordinal_position"))?;
    let column = |name: &String| name.trim().strip_prefix('c').and_then(|name| name.parse().ok());
    let columns = names.iter().filter_map(column).collect();
    let text = "SELECT index_name FROM information_schema.statistics WHERE table_name = ";
    let indexes = ask(session, &format!("{text}'{table}'"))?;
    let has_index = indexes.iter().any(|name| name.trim() == "by_value");
    let number = |word: &str| word.parse::<u64>().unwrap_or_else(|_| fail(&format!("{lines:?}")));
    let mut rows = BTreeMap::new();
    for line in &lines {
        let mut words = line.split_whitespace().map(number);
        rows.insert(words.next().unwrap_or_else(|| fail(line)), words.collect::<Vec<u64>>());
    }
    if has_index {
        let by = format!("SELECT id, value FROM {table} FORCE INDEX (by_value) WHERE value >= 0");
        // A list and not a map, to detect two entries of one row.
        let mut found: Vec<(u64, u64)> = ask(session, &by)?
            .iter()
            .map(|line| line.split_whitespace().map(number).collect::<Vec<u64>>())
            .map(|words| (words[0], words[1]))
            .collect();
        found.sort_unstable();
        let by_rows = rows.iter().map(|(id, row)| (*id, row[0]));
        if !found.iter().copied().eq(by_rows) {
            fail(&format!("SIMULATION-10: {table} has {rows:?}, and its index {found:?}"));
        }
    }
    Ok(Some(Content { columns, has_index, rows }))
}

/// Checks that each table is as the acknowledged statements left it, with or without the effect of
/// the statement that was running. With losses, only its index must match the rows.
pub(super) fn judge(
    session: &mut Session,
    ledger: &Ledger,
    has_losses: bool,
) -> Result<(), SqlError> {
    let all = ledger.own().clone();
    for (number, own) in all.iter().enumerate() {
        let found = look(session, number)?;
        if has_losses {
            ledger.own()[number].forget();
        } else if !own.allows(&found) {
            fail(&format!("SIMULATION-10: own{number} is {found:?}, of {own:?}"));
        }
        ledger.own()[number].settle(found);
    }
    Ok(())
}
