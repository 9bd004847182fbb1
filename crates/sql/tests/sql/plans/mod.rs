//! A query returns the same rows by every access path.
//!
//! Random tables with indexes have twins with the same rows and no index. Each random query runs on
//! the tables, with and without index hints, and on the twins. It also runs on the twins in a plain
//! form: every condition is written as `(condition) IS TRUE`, so the planner can derive neither a
//! range nor a join by equality from it. All results must be equal as multisets. With ORDER BY and
//! LIMIT, the sort keys must be those of the plain form, in the same order, and the rows must be
//! among those that the plain form returns without LIMIT.
//!
//! `SPILLWAY_SEED` and `SPILLWAY_ROUNDS` select the runs, and a failure names its seed.

mod generate;
mod matrix;

use crate::common::instance_of;
use std::collections::HashMap;

use generate::{Conditions, Table, pick};
use spillway::{Database, Settings};
use spillway_base::rng::Rng;
use spillway_sql::{Outcome, ResultColumn, ResultSink, Session, SqlError};
use spillway_types::ValueRef;
use spillway_types::value::write_text;

#[derive(Default)]
struct Rows {
    rows: Vec<Vec<String>>,
    affected: u64,
}

impl ResultSink for Rows {
    fn columns(&mut self, _: &[ResultColumn]) -> Result<(), SqlError> {
        Ok(())
    }

    fn row(&mut self, values: &[ValueRef<'_>]) -> Result<(), SqlError> {
        let cell = |value: &ValueRef<'_>| {
            let mut out = Vec::new();
            write_text(value, &mut out);
            if value.is_null() { "NULL".to_owned() } else { format!("'{}'", out.escape_ascii()) }
        };
        self.rows.push(values.iter().map(cell).collect());
        Ok(())
    }

    fn end_rows(&mut self, _: &Outcome) -> Result<(), SqlError> {
        Ok(())
    }

    fn ok(&mut self, outcome: &Outcome) -> Result<(), SqlError> {
        self.affected = outcome.affected_rows;
        Ok(())
    }
}

/// A difference, and how to reproduce it.
struct Wrong(String);

struct Run {
    seed: u64,
    session: Session,
    /// The statements so far, so that a failure can be repeated.
    log: Vec<String>,
}

impl Run {
    fn query(&mut self, sql: &str) -> Result<Rows, SqlError> {
        let mut rows = Rows::default();
        self.session.query(sql, &mut rows).map(|()| rows)
    }

    /// A statement that may fail, as a duplicate key does.
    fn change(&mut self, sql: &str) -> Result<Rows, SqlError> {
        self.log.push(format!("{sql};"));
        self.query(sql)
    }

    fn must(&mut self, sql: &str) -> Result<Rows, Wrong> {
        self.change(sql).map_err(|error| self.wrong(&format!("{sql}: {error}")))
    }

    fn wrong(&self, what: &str) -> Wrong {
        Wrong(format!("seed {}: {what}\n\n{}\n", self.seed, self.log.join("\n")))
    }
}

/// A query with placeholders for its tables, and the order that its result must have.
struct Query {
    /// `{0}` and `{1}` are tables. Conditions are in doubled `<` and `>` signs: `<<a = 1>>`.
    /// `{anew}` is a condition that makes the plain form run a subquery for each row, so its rows
    /// are compared one by one.
    text: String,
    /// The number of leading columns that are keys of an ORDER BY, and the clause.
    order: usize,
    order_by: String,
    limit: String,
}

impl Query {
    fn of(&self, tables: &[&str], naive: bool, limited: bool) -> String {
        let mut text = self.text.clone();
        for (at, table) in tables.iter().enumerate() {
            text = text.replace(&format!("{{{at}}}"), table);
        }
        text = text.replace("<<", if naive { "((" } else { "(" });
        text = text.replace(">>", if naive { ") IS TRUE)" } else { ")" });
        text = text.replace("{anew}", if naive { " AND a.id IS NOT NULL" } else { "" });
        let limit = if limited { self.limit.as_str() } else { "" };
        format!("{text}{}{limit}", self.order_by)
    }
}

fn random_query(rng: &mut Rng, tables: &[Table]) -> Query {
    let (first, second) = (&tables[0], &tables[1]);
    let one = Conditions { tables: vec![("a", first)] };
    let both = Conditions { tables: vec![("a", first), ("b", second)] };
    let (mut order, mut order_by, mut limit) = (0, String::new(), String::new());
    let text = match rng.below(12) {
        0..=5 => {
            let condition = one.any(rng, 3);
            let mut keys = Vec::new();
            if rng.chance(1, 2) {
                let backward = rng.chance(1, 2);
                for _ in 0..1 + rng.below(3) {
                    let (column, kind) = one.column(rng);
                    let down = if rng.chance(1, 6) { !backward } else { backward };
                    let collated = kind.ty.starts_with("VARCHAR") && rng.chance(1, 3);
                    let collation = if collated { " COLLATE utf8mb4_bin" } else { "" };
                    keys.push((column, collation, if down { " DESC" } else { "" }));
                }
                let by: Vec<String> =
                    keys.iter().map(|(column, by, way)| format!("{column}{by}{way}")).collect();
                order_by = format!(" ORDER BY {}", by.join(", "));
                order = keys.len();
            }
            if order > 0 && rng.chance(2, 3) {
                limit = match rng.below(3) {
                    0 => format!(" LIMIT {}", rng.below(4)),
                    1 => format!(" LIMIT {}, {}", rng.below(5), rng.below(8)),
                    _ => format!(" LIMIT {} OFFSET {}", rng.below(8), rng.below(5)),
                };
            }
            let shown: String = keys.iter().map(|(column, ..)| format!("{column}, ")).collect();
            format!("SELECT {shown}a.id, a.c0, a.c1 FROM {{0}} a WHERE <<{condition}>>")
        }
        6 => format!(
            "SELECT COUNT(*), SUM(a.id), MIN(a.id), MAX(a.c0 IS NULL) FROM {{0}} a WHERE <<{}>>",
            one.any(rng, 2)
        ),
        7 => {
            let (column, _) = one.column(rng);
            format!(
                "SELECT COUNT(*), SUM(a.id) FROM {{0}} a WHERE <<{}>> GROUP BY {column} HAVING COUNT(*) >= {}",
                one.any(rng, 2),
                rng.below(3)
            )
        }
        8 => {
            let on = if rng.chance(2, 3) { equality(rng, &both) } else { both.any(rng, 1) };
            format!(
                "SELECT a.id, b.id, b.c0 FROM {{0}} a LEFT JOIN {{1}} b ON <<{on}>> WHERE <<{}>>",
                both.any(rng, 1)
            )
        }
        9 => {
            let (outer, _) = both.column_of(rng, 0);
            let (inner, _) = both.column_of(rng, 1);
            let second = Conditions { tables: vec![("b", second)] };
            let condition = second.any(rng, 1);
            let not = if rng.chance(1, 3) { "NOT " } else { "" };
            match rng.below(6) {
                0 => format!(
                    "SELECT a.id FROM {{0}} a WHERE <<(a.id, {outer}) {not}IN (SELECT b.id, {inner} FROM {{1}} b WHERE <<{condition}>>{{anew}})>>"
                ),
                1 => format!(
                    "SELECT a.id, (SELECT COUNT(*) FROM (SELECT b.id FROM {{1}} b WHERE <<{inner} = {outer}>> AND <<{condition}>>) d) FROM {{0}} a"
                ),
                2 => format!(
                    "SELECT a.id FROM {{0}} a WHERE <<{outer} {not}IN (SELECT {inner} FROM {{1}} b WHERE <<{condition}>>{{anew}})>>"
                ),
                3 => format!(
                    "SELECT a.id FROM {{0}} a WHERE <<{not}EXISTS (SELECT 1 FROM {{1}} b WHERE <<{outer} = {inner}>> AND <<{condition}>>)>>"
                ),
                _ => format!(
                    "SELECT a.id, (SELECT COUNT(*) FROM {{1}} b WHERE <<{inner} = {outer}>> AND <<{condition}>>) FROM {{0}} a"
                ),
            }
        }
        _ => {
            let mut conditions = vec![equality(rng, &both)];
            for _ in 0..rng.below(3) {
                conditions.push(both.any(rng, 1));
            }
            let conditions: Vec<String> =
                conditions.iter().map(|text| format!("<<{text}>>")).collect();
            format!("SELECT a.id, b.id FROM {{0}} a JOIN {{1}} b ON {}", conditions.join(" AND "))
        }
    };
    Query { text, order, order_by, limit }
}

fn equality(rng: &mut Rng, both: &Conditions<'_>) -> String {
    let ((a, _), (b, _)) = (both.column_of(rng, 0), both.column_of(rng, 1));
    let op = if rng.chance(1, 8) { "<=>" } else { "=" };
    if rng.chance(1, 2) { format!("{a} {op} {b}") } else { format!("{b} {op} {a}") }
}

/// Compares a result with the expected rows. Returns a description of the difference, if any.
fn difference(query: &Query, wanted: &Rows, whole: &Rows, got: &Rows) -> Option<String> {
    let shown = |rows: &[Vec<String>]| {
        rows.iter().map(|row| row.join(" | ")).collect::<Vec<_>>().join("\n")
    };
    let keys =
        |rows: &Rows| rows.rows.iter().map(|row| row[..query.order].to_vec()).collect::<Vec<_>>();
    let mut left: HashMap<&Vec<String>, usize> = HashMap::new();
    whole.rows.iter().for_each(|row| *left.entry(row).or_default() += 1);
    let mut known = true;
    for row in &got.rows {
        match left.get_mut(row) {
            Some(count) if *count > 0 => *count -= 1,
            _ => known = false,
        }
    }
    // Of values that are equal but not identical, either may be in the keys.
    let fold = |keys: Vec<Vec<String>>| {
        let fold = |cell: String| {
            let plain = cell.to_lowercase().replace("\\xc3\\xa9", "e").replace("'-0'", "'0'");
            plain.trim_end_matches('\'').trim_end().to_owned()
        };
        keys.into_iter().map(|row| row.into_iter().map(fold).collect()).collect::<Vec<Vec<_>>>()
    };
    let same =
        known && got.rows.len() == wanted.rows.len() && fold(keys(got)) == fold(keys(wanted));
    (!same).then(|| format!("got\n{}\nwanted\n{}", shown(&got.rows), shown(&wanted.rows)))
}

fn compare(run: &mut Run, rng: &mut Rng, tables: &[Table]) -> Result<(), Wrong> {
    let query = random_query(rng, tables);
    let twins: Vec<String> = tables.iter().map(|table| format!("{}_twin", table.name)).collect();
    let twins: Vec<&str> = twins.iter().map(String::as_str).collect();
    let names: Vec<&str> = tables.iter().map(|table| table.name.as_str()).collect();
    let naive = query.of(&twins, true, true);
    let wanted = run.query(&naive);
    let whole = run.query(&query.of(&twins, true, false));
    let mut asked = vec![query.of(&names, false, true), query.of(&twins, false, true)];
    let indexes = tables[0].indexes();
    if !indexes.is_empty() {
        for hint in ["FORCE", "IGNORE"] {
            let hinted = format!("{} {hint} INDEX ({})", "a", pick(rng, &indexes));
            asked.push(query.of(&names, false, true).replacen(
                &format!("{} a", names[0]),
                &format!("{} {hinted}", names[0]),
                1,
            ));
        }
    }
    for sql in asked {
        let got = run.query(&sql);
        let wrong = match (&wanted, &whole, &got) {
            (Ok(wanted), Ok(whole), Ok(got)) => difference(&query, wanted, whole, got),
            (Err(a), _, Err(b)) if a.code == b.code => None,
            _ => Some(format!("got {:?}, wanted {:?}", got.as_ref().err(), wanted.as_ref().err())),
        };
        if let Some(wrong) = wrong {
            return Err(run.wrong(&format!("{sql}\ndiffers from\n{naive}\n{wrong}")));
        }
    }
    Ok(())
}

/// Makes the same change in a table and its twin, and checks that they are equal.
fn change(run: &mut Run, rng: &mut Rng, table: &Table) -> Result<(), Wrong> {
    let conditions = Conditions { tables: vec![("a", table)] };
    let condition = conditions.any(rng, 2);
    let statement = if rng.chance(1, 4) {
        format!("DELETE FROM {{0}} a WHERE <<{condition} AND a.id % 3 = {}>>", rng.below(3))
    } else {
        let at = rng.below(table.columns.len() as u64) as usize;
        let value = *pick(rng, table.columns[at].values);
        format!("UPDATE {{0}} a SET a.c{at} = {value} WHERE <<{condition}>>")
    };
    let statement =
        Query { text: statement, order: 0, order_by: String::new(), limit: String::new() };
    let twin = format!("{}_twin", table.name);
    match run.change(&statement.of(&[&table.name], false, true)) {
        // The statement did nothing. The twin cannot find the duplicate, and the date is invalid
        // there too.
        Err(error) if [1062, 1048, 1525].contains(&error.code) => return Ok(()),
        Err(error) => return Err(run.wrong(&format!("{}: {error}", statement.text))),
        Ok(ours) => {
            let theirs = run.must(&statement.of(&[&twin], true, true))?;
            if ours.affected != theirs.affected {
                return Err(
                    run.wrong(&format!("{} rows changed, not {}", ours.affected, theirs.affected))
                );
            }
        }
    }
    let mut shown = Vec::new();
    for name in [&table.name, &twin] {
        let mut rows = run.must(&format!("SELECT * FROM {name}"))?.rows;
        rows.sort();
        shown.push(rows);
    }
    if shown[0] != shown[1] {
        return Err(run.wrong(&format!("{} and its twin differ: {shown:?}", table.name)));
    }
    Ok(())
}

fn round(seed: u64) -> Result<(), Wrong> {
    let instance = instance_of(Database::open_in_memory(Settings::default()).unwrap()).unwrap();
    let mut session = instance.session("root", "localhost", 1);
    session.use_database("test").unwrap();
    let mut run = Run { seed, session, log: Vec::new() };
    let mut rng = Rng::new(seed);
    let zone = pick(&mut rng, &["+00:00", "+02:00", "-11:30"]);
    run.must(&format!("SET time_zone = '{zone}'"))?;
    let tables = [Table::random(&mut rng, "t", 40), Table::random(&mut rng, "u", 12)];
    for table in &tables {
        let twin = format!("{}_twin", table.name);
        run.must(&table.create(&table.name, true))?;
        run.must(&table.create(&twin, false))?;
        for row in &table.rows {
            // Rows that a key refuses must not be in the twin either.
            match run.change(&format!("INSERT INTO {} VALUES {row}", table.name)) {
                Ok(_) => drop(run.must(&format!("INSERT INTO {twin} VALUES {row}"))?),
                Err(error) if error.code == 1062 || error.code == 1048 => drop(run.log.pop()),
                Err(error) => return Err(run.wrong(&format!("{row}: {error}"))),
            }
        }
    }
    // In strict mode, text that is not a number is an error, but only for rows for which the
    // condition is evaluated.
    run.must("SET sql_mode = ''")?;
    for step in 0..40 {
        compare(&mut run, &mut rng, &tables)?;
        if step % 8 == 7 {
            let table = pick(&mut rng, &tables);
            change(&mut run, &mut rng, table)?;
        }
    }
    Ok(())
}

#[test]
fn indexes_change_no_answer() {
    let number = |name: &str, default: u64| {
        std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let seed = number("SPILLWAY_SEED", 1);
    let rounds = number("SPILLWAY_ROUNDS", 20);
    let wrong: Vec<String> = (seed..seed + rounds)
        .filter_map(|seed| round(seed).err().map(|Wrong(what)| what))
        .collect();
    // The first one completely, and the differences of the others.
    let others: Vec<&str> =
        wrong.iter().skip(1).filter_map(|what| what.split("\n\n").next()).collect();
    assert!(
        wrong.is_empty(),
        "{} of {rounds} rounds fail.\n{}\n{}",
        wrong.len(),
        others.join("\n"),
        wrong[0]
    );
}
