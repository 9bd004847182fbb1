//! Runs random histories of SERIALIZABLE sessions. For each history there must be a serial order of
//! its transactions that explains all results that the clients got: rows, duplicates of either key,
//! and numbers of affected rows (SSI-1 of `txn`).
//!
//! The sessions' statements take turns on one thread, so a seed determines a history. The test
//! skips a statement that might wait for a lock: it knows the ids and values that each session may
//! have locked.

use std::collections::{BTreeMap, BTreeSet};

use crate::common::{in_memory, run};
use spillway_base::rng::Rng;
use spillway_sql::{Outcome, ResultColumn, ResultSink, Session, SqlError};
use spillway_types::ValueRef;

/// The rows: `id`, and `value`, which is unique.
type Rows = BTreeMap<u64, u64>;

#[derive(Clone, Copy, Debug)]
enum Step {
    Select(u64),
    Holder(u64),
    Insert { id: u64, value: u64, ignore: bool },
    Update(u64, u64),
    Move(u64, u64),
    Delete(u64),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Told {
    Row(Option<u64>),
    Duplicate,
    Affected(u64),
}

/// A sink that keeps the number of rows that the last statement affected.
#[derive(Default)]
struct Affected {
    rows: u64,
    seen: Option<u64>,
}

impl ResultSink for Affected {
    fn columns(&mut self, _: &[ResultColumn]) -> Result<(), SqlError> {
        Ok(())
    }

    fn row(&mut self, values: &[ValueRef<'_>]) -> Result<(), SqlError> {
        let mut text = Vec::new();
        spillway_types::value::write_text(&values[0], &mut text);
        self.seen = String::from_utf8(text).ok().and_then(|text| text.parse().ok());
        Ok(())
    }

    fn end_rows(&mut self, _: &Outcome) -> Result<(), SqlError> {
        Ok(())
    }

    fn ok(&mut self, outcome: &Outcome) -> Result<(), SqlError> {
        self.rows = outcome.affected_rows;
        Ok(())
    }
}

const MOST: u64 = 3;

impl Step {
    fn any(rng: &mut Rng) -> Step {
        let (id, other, value) = (rng.below(MOST), rng.below(MOST), rng.below(MOST));
        match rng.below(8) {
            0 => Step::Select(id),
            1 => Step::Holder(value),
            2 | 3 => Step::Insert { id, value, ignore: rng.chance(1, 3) },
            4 => Step::Update(id, value),
            5 => Step::Move(id, other),
            _ => Step::Delete(id),
        }
    }

    /// The ids and values that the operation may lock.
    fn locks(self) -> (Vec<u64>, Vec<u64>) {
        let all = || (0..MOST).collect();
        match self {
            Step::Select(_) | Step::Holder(_) => (vec![], vec![]),
            Step::Insert { id, value, .. } => (vec![id], vec![value]),
            Step::Update(id, _) | Step::Delete(id) => (vec![id], all()),
            Step::Move(id, other) => (vec![id, other], all()),
        }
    }

    fn sql(self) -> String {
        match self {
            Step::Select(id) => format!("SELECT value FROM t WHERE id = {id}"),
            Step::Holder(value) => format!("SELECT id FROM t WHERE value = {value}"),
            Step::Insert { id, value, ignore } => {
                let ignore = if ignore { "IGNORE" } else { "" };
                format!("INSERT {ignore} INTO t VALUES ({id}, {value})")
            }
            Step::Update(id, value) => format!("UPDATE t SET value = {value} WHERE id = {id}"),
            Step::Move(id, other) => format!("UPDATE t SET id = {other} WHERE id = {id}"),
            Step::Delete(id) => format!("DELETE FROM t WHERE id = {id}"),
        }
    }

    /// The effect on rows that no other transaction changes.
    fn alone(self, rows: &mut Rows) -> Told {
        let holder =
            |rows: &Rows, of: u64| rows.iter().find(|(_, value)| **value == of).map(|(id, _)| *id);
        match self {
            Step::Select(id) => Told::Row(rows.get(&id).copied()),
            Step::Holder(value) => Told::Row(holder(rows, value)),
            Step::Insert { id, value, ignore } => {
                if rows.contains_key(&id) || holder(rows, value).is_some() {
                    return if ignore { Told::Affected(0) } else { Told::Duplicate };
                }
                rows.insert(id, value);
                Told::Affected(1)
            }
            Step::Update(id, value) => match rows.get(&id) {
                None => Told::Affected(0),
                Some(was) if *was == value => Told::Affected(0),
                Some(_) if holder(rows, value).is_some() => Told::Duplicate,
                Some(_) => {
                    rows.insert(id, value);
                    Told::Affected(1)
                }
            },
            Step::Move(id, other) => match rows.get(&id).copied() {
                None => Told::Affected(0),
                Some(_) if id == other => Told::Affected(0),
                Some(_) if rows.contains_key(&other) => Told::Duplicate,
                Some(value) => {
                    rows.remove(&id);
                    rows.insert(other, value);
                    Told::Affected(1)
                }
            },
            Step::Delete(id) => Told::Affected(u64::from(rows.remove(&id).is_some())),
        }
    }

    /// Returns `None` if the transaction was refused.
    fn run(self, session: &mut Session, seed: u64) -> Option<Told> {
        let mut affected = Affected::default();
        match session.query(&self.sql(), &mut affected) {
            Ok(()) if matches!(self, Step::Select(_) | Step::Holder(_)) => {
                Some(Told::Row(affected.seen))
            }
            Ok(()) => Some(Told::Affected(affected.rows)),
            Err(error) if error.code == 1062 => Some(Told::Duplicate),
            Err(error) => {
                assert_eq!(error.code, 1213, "seed {seed}: {self:?}: {error:?}");
                None
            }
        }
    }
}

type Seen = Vec<(Step, Told)>;

fn has_an_order(rows: &Rows, left: &[Seen], end: &Rows) -> bool {
    if left.is_empty() {
        return rows == end;
    }
    (0..left.len()).any(|next| {
        let (mut rows, mut left) = (rows.clone(), left.to_vec());
        let seen = left.remove(next);
        seen.iter().all(|(step, told)| step.alone(&mut rows) == *told)
            && has_an_order(&rows, &left, end)
    })
}

struct Client {
    session: Session,
    seen: Seen,
    left: u64,
    ids: BTreeSet<u64>,
    values: BTreeSet<u64>,
}

fn history(sessions: &mut Vec<Session>, seed: u64) -> Vec<Seen> {
    let mut rng = Rng::new(seed);
    let mut rows = Rows::new();
    let first = &mut sessions[0];
    run(first, "DELETE FROM t").unwrap();
    for id in 0..MOST {
        if rng.chance(1, 2) {
            run(first, &format!("INSERT INTO t VALUES ({id}, {id})")).unwrap();
            rows.insert(id, id);
        }
    }
    let mut open: Vec<Client> = Vec::new();
    for mut session in sessions.drain(1..) {
        run(&mut session, "BEGIN").unwrap();
        let (ids, values, left) = (BTreeSet::new(), BTreeSet::new(), 1 + rng.below(4));
        open.push(Client { session, seen: Seen::new(), left, ids, values });
    }
    let mut committed = Vec::new();
    while !open.is_empty() {
        let at = rng.below(open.len() as u64) as usize;
        let mut client = open.swap_remove(at);
        if client.left == 0 {
            match run(&mut client.session, "COMMIT") {
                Ok(_) => committed.push(client.seen),
                Err(error) => assert_eq!(error.code, 1213, "seed {seed}: {error:?}"),
            }
            sessions.push(client.session);
            continue;
        }
        client.left -= 1;
        let step = Step::any(&mut rng);
        let (ids, values) = step.locks();
        let waits = open.iter().any(|other| {
            ids.iter().any(|id| other.ids.contains(id))
                || values.iter().any(|value| other.values.contains(value))
        });
        if !waits {
            client.ids.extend(ids);
            client.values.extend(values);
            match step.run(&mut client.session, seed) {
                Some(told) => client.seen.push((step, told)),
                None => {
                    sessions.push(client.session);
                    continue;
                }
            }
        }
        open.push(client);
    }
    let all = run(&mut sessions[0], "SELECT id, value FROM t").unwrap();
    let pairs = all.iter().map(|row| {
        let (id, value) = row.split_once(' ').unwrap();
        (id.parse().unwrap(), value.parse().unwrap())
    });
    let end: Rows = pairs.collect();
    assert!(has_an_order(&rows, &committed, &end), "seed {seed}: {rows:?} {committed:?} {end:?}");
    committed
}

#[test]
fn whatever_sessions_are_told_has_a_serial_order() {
    let instance = in_memory();
    let mut sessions: Vec<Session> = (1..=4)
        .map(|number| {
            let mut session = instance.session("root", "localhost", number);
            session.use_database("test").unwrap();
            let level = "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE";
            run(&mut session, level).unwrap();
            session
        })
        .collect();
    let table = "CREATE TABLE t (id BIGINT PRIMARY KEY, value BIGINT NOT NULL UNIQUE)";
    run(&mut sessions[0], table).unwrap();
    let (mut together, mut duplicates) = (0, 0);
    for seed in 0..1_500 {
        let committed = history(&mut sessions, seed);
        together += usize::from(committed.len() > 1);
        let told = committed.iter().flatten().filter(|(_, told)| *told == Told::Duplicate);
        duplicates += told.count();
    }
    assert!(together > 150 && duplicates > 75, "{together} histories, {duplicates} duplicates");
}
