//! Plays schedules of several clients and compares the results. Each file `schedules/*.txt` holds
//! some schedules.
//!
//! A schedule begins with `schedule` and its name, and then `levels` with the isolation levels at
//! which it is played, once at each: `rc` (READ COMMITTED), and `on` and `off` (REPEATABLE READ
//! with that value of `innodb_snapshot_isolation`). The tables `t`, `i` with an index of `v`, and
//! `u` with a unique index have the rows (1, 21, 0), (5, 25, 0), (9, 29, 0).
//!
//! A step is the name of a client and its statement. A client's first step begins a transaction;
//! only the client `c` runs in autocommit mode. If a step waits for a row, the other clients
//! continue. The next step of the waiting client begins when the waiting step has ended.
//!
//! Below a step, `all= ` states the client's result at all levels, or `LEVEL= ` the result at one
//! level. The result is the rows, `none` for no rows, `ok` with the number of affected rows, or
//! `error` with the number. It begins with `waits, then` if the step waited. `innodb= ` and
//! `innodb.LEVEL= ` state InnoDB's result if it differs. `tests/differential/isolation.py` with
//! `--rewrite` plays the same files on Spillway and on MariaDB, and writes these lines.

use std::collections::HashMap;
use std::sync::mpsc;

use crate::common::{instance_of, run};
use spillway::{Database, Settings};
use spillway_base::thread;
use spillway_sql::{Instance, Outcome, ResultColumn, ResultSink, Session, SqlError};
use spillway_types::ValueRef;
use spillway_types::value::write_text;

/// The result that a client gets for a statement.
#[derive(Default)]
struct Told(Option<Vec<String>>, u64);

impl ResultSink for Told {
    fn columns(&mut self, _: &[ResultColumn]) -> Result<(), SqlError> {
        self.0 = Some(Vec::new());
        Ok(())
    }

    fn row(&mut self, values: &[ValueRef<'_>]) -> Result<(), SqlError> {
        let cells = values.iter().map(|value| {
            let mut out = Vec::new();
            write_text(value, &mut out);
            if value.is_null() { "NULL".into() } else { String::from_utf8_lossy(&out).into_owned() }
        });
        let row = cells.collect::<Vec<_>>().join(" ");
        self.0.get_or_insert_default().push(row);
        Ok(())
    }

    fn end_rows(&mut self, _: &Outcome) -> Result<(), SqlError> {
        Ok(())
    }

    fn ok(&mut self, outcome: &Outcome) -> Result<(), SqlError> {
        self.1 = outcome.affected_rows;
        Ok(())
    }
}

fn told(session: &mut Session, sql: &str) -> String {
    let mut told = Told::default();
    match session.query(sql, &mut told) {
        // InnoDB has the same number for both.
        Err(error) if error.code == 3572 => "error 1205".into(),
        Err(error) => format!("error {}", error.code),
        Ok(()) => match told.0 {
            Some(rows) if rows.is_empty() => "none".into(),
            Some(rows) => rows.join("; "),
            None => format!("ok {}", told.1),
        },
    }
}

/// A client with its own thread, which ends when its channel of statements is closed.
struct Client {
    id: u64,
    statements: mpsc::Sender<String>,
    outcomes: mpsc::Receiver<String>,
    /// The step that waits.
    waiting: Option<usize>,
}

impl Client {
    fn new(instance: &Instance, id: u64, level: &str, begins: bool) -> Client {
        let mut session = instance.session("root", "localhost", id);
        session.use_database("test").unwrap();
        let isolation = if level == "rc" { "READ-COMMITTED" } else { "REPEATABLE-READ" };
        run(&mut session, &format!("SET transaction_isolation = '{isolation}'")).unwrap();
        let switch = if level == "off" { "OFF" } else { "ON" };
        run(&mut session, &format!("SET innodb_snapshot_isolation = {switch}")).unwrap();
        if begins {
            run(&mut session, "BEGIN").unwrap();
        }
        let (statements, asked) = mpsc::channel::<String>();
        let (tell, outcomes) = mpsc::channel();
        thread::spawn("client", move || {
            while let Ok(sql) = asked.recv() {
                tell.send(told(&mut session, &sql)).unwrap();
            }
        })
        .unwrap();
        Client { id, statements, outcomes, waiting: None }
    }

    /// The result of the statement that was sent; `None` if it waits for a row.
    fn outcome(&self, watch: &mut Session) -> Option<String> {
        loop {
            if let Ok(outcome) = self.outcomes.try_recv() {
                return Some(outcome);
            }
            let own = format!("{} ", self.id);
            let waits = |line: &String| line.starts_with(&own) && line.contains("row lock");
            if run(watch, "SHOW PROCESSLIST").unwrap().iter().any(waits) {
                return None;
            }
            std::thread::yield_now();
        }
    }
}

#[derive(Default)]
struct Schedule {
    name: String,
    levels: Vec<String>,
    /// The client, its statement, and the lines that state the answer.
    steps: Vec<(String, String, HashMap<String, String>)>,
}

fn parse(text: &str) -> Vec<Schedule> {
    let mut schedules: Vec<Schedule> = Vec::new();
    for line in text.lines() {
        let last = schedules.last_mut();
        if let Some(name) = line.strip_prefix("schedule ") {
            schedules.push(Schedule { name: name.into(), ..Schedule::default() });
        } else if let (Some(levels), Some(last)) = (line.strip_prefix("levels "), last) {
            last.levels = levels.split(' ').map(str::to_owned).collect();
        } else if let (Some(said), Some(last)) = (line.strip_prefix("  "), schedules.last_mut()) {
            let (who, outcome) = said.split_once("= ").expect("what is said of a step");
            let (.., all) = last.steps.last_mut().expect("a step");
            all.insert(who.into(), outcome.into());
        } else if let (Some((who, sql)), Some(last)) = (line.split_once(": "), schedules.last_mut())
        {
            last.steps.push((who.into(), sql.into(), HashMap::new()));
        }
    }
    schedules
}

/// Plays a schedule, and returns the answer of each step.
fn play(instance: &Instance, schedule: &Schedule, level: &str) -> Vec<String> {
    let mut watch = instance.session("root", "localhost", 1);
    watch.use_database("test").unwrap();
    for (table, key) in [("t", ""), ("i", ", KEY by_v (v)"), ("u", ", UNIQUE KEY by_v (v)")] {
        run(&mut watch, &format!("DROP TABLE IF EXISTS {table}")).unwrap();
        let create = format!("CREATE TABLE {table} (id INT PRIMARY KEY, v INT, n INT{key})");
        run(&mut watch, &create).unwrap();
        let fill = format!("INSERT INTO {table} VALUES (1, 21, 0), (5, 25, 0), (9, 29, 0)");
        run(&mut watch, &fill).unwrap();
    }
    let mut clients: HashMap<&str, Client> = HashMap::new();
    let mut outcomes = vec![String::new(); schedule.steps.len()];
    for (at, (name, sql, _)) in schedule.steps.iter().enumerate() {
        let id = clients.len() as u64 + 10;
        let begins = name != "c" && !sql.starts_with("START");
        let client =
            clients.entry(name).or_insert_with(|| Client::new(instance, id, level, begins));
        if let Some(waiting) = client.waiting.take() {
            outcomes[waiting].push_str(&client.outcomes.recv().unwrap());
        }
        client.statements.send(sql.clone()).unwrap();
        match client.outcome(&mut watch) {
            Some(outcome) => outcomes[at] = outcome,
            None => {
                outcomes[at].push_str("waits, then ");
                client.waiting = Some(at);
            }
        }
    }
    for client in clients.into_values() {
        if let Some(waiting) = client.waiting {
            outcomes[waiting].push_str(&client.outcomes.recv().unwrap());
        }
    }
    outcomes
}

/// NEWEST-1 to NEWEST-6: the outcomes are the recorded ones, which were compared with InnoDB's.
#[test]
fn clients_are_told_what_schedules_say() {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sql/schedules");
    let database = Database::open_in_memory(Settings::default()).unwrap();
    let instance = instance_of(database).unwrap();
    let mut played = 0;
    let mut wrong = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        for schedule in parse(&text) {
            for level in &schedule.levels {
                let outcomes = play(&instance, &schedule, level);
                for ((who, sql, said), outcome) in schedule.steps.iter().zip(outcomes) {
                    let said = said.get(level).or_else(|| said.get("all"));
                    if said != Some(&outcome) {
                        let name = &schedule.name;
                        wrong.push(format!(
                            "{name} ({level}): {who}: {sql}: {outcome}, not {said:?}"
                        ));
                    }
                }
                played += 1;
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(played > 100, "{played}");
}
