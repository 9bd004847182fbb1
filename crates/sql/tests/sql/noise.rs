//! Runs statements that are mostly wrong: those of the scripts, with words removed, doubled,
//! swapped, and inserted from other statements. The session must respond to each of them and
//! continue. `SPILLWAY_NOISE` is the number of statements, and `SPILLWAY_SEED` selects them.

use crate::common::instance_of;
use spillway::{Database, Settings};
use spillway_base::rng::Rng;
use spillway_sql::{Outcome, ResultColumn, ResultSink, Session, SqlError};
use spillway_types::ValueRef;

/// A sink that checks the shape of results.
#[derive(Default)]
struct Checked(Option<usize>);

impl ResultSink for Checked {
    fn columns(&mut self, columns: &[ResultColumn]) -> Result<(), SqlError> {
        assert!(self.0.replace(columns.len()).is_none() && !columns.is_empty());
        Ok(())
    }

    fn row(&mut self, values: &[ValueRef<'_>]) -> Result<(), SqlError> {
        assert_eq!(self.0, Some(values.len()), "a row as wide as its columns");
        Ok(())
    }

    fn end_rows(&mut self, _: &Outcome) -> Result<(), SqlError> {
        assert!(self.0.take().is_some());
        Ok(())
    }

    fn ok(&mut self, _: &Outcome) -> Result<(), SqlError> {
        assert!(self.0.is_none());
        Ok(())
    }
}

/// The statements of the scripts, as lists of words.
fn statements() -> Vec<Vec<String>> {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sql/scripts");
    let mut paths: Vec<_> =
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let mut all = Vec::new();
    for path in paths {
        let text = std::fs::read_to_string(path).unwrap();
        let lines = text.lines().filter(|line| !line.starts_with("--") && !line.starts_with('#'));
        for statement in lines.collect::<Vec<_>>().join("\n").split_inclusive(';') {
            let mut words: Vec<String> = vec![String::new()];
            for c in statement.chars() {
                let joins = |c: char| c.is_alphanumeric() || c == '_' || c == '@';
                let last = words.last_mut().unwrap();
                if last.chars().next_back().is_none_or(|before| joins(before) && joins(c)) {
                    last.push(c);
                } else {
                    words.push(c.to_string());
                }
            }
            // These statements take long or end the session.
            let lower = statement.to_lowercase();
            if !["sleep", "benchmark", "kill", "release", "repeat", "max_execution_time"]
                .iter()
                .any(|word| lower.contains(word))
            {
                all.push(words);
            }
        }
    }
    all
}

fn changed(words: &[String], all: &[Vec<String>], rng: &mut Rng) -> String {
    let mut words = words.to_vec();
    let mut pick = |len: usize| rng.below(len.max(1) as u64) as usize;
    for _ in 0..=pick(4) {
        let at = pick(words.len());
        match pick(6) {
            0 if words.len() > 1 => drop(words.remove(at)),
            1 => words.insert(at, words[at].clone()),
            2 => {
                let other = pick(words.len());
                words.swap(at, other);
            }
            3 => words.truncate(at.max(1)),
            4 => {
                let other = &all[pick(all.len())];
                let from = pick(other.len());
                let to = (from + 1 + pick(5)).min(other.len());
                words.splice(at..at, other[from..to].iter().cloned());
            }
            _ => {
                let other = &all[pick(all.len())];
                words[at].clone_from(&other[pick(other.len())]);
            }
        }
    }
    words.concat()
}

fn number(name: &str, or: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(or)
}

fn session() -> Session {
    let instance = instance_of(Database::open_in_memory(Settings::default()).unwrap()).unwrap();
    let mut session = instance.session("root", "localhost", 1);
    let begin = "USE test; SET max_execution_time = 2000; \
                 CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, a INT, s VARCHAR(20) UNIQUE, d DATETIME, KEY (a, d)); \
                 INSERT INTO t (a, s, d) VALUES (1, 'a', NOW()), (NULL, NULL, NULL), (3, 'c', '2020-01-01')";
    session.query(begin, &mut Checked::default()).unwrap();
    session
}

#[test]
fn a_session_answers_whatever_comes() {
    let all = statements();
    let mut rng = Rng::new(number("SPILLWAY_SEED", 1));
    let mut current = session();
    for round in 0..number("SPILLWAY_NOISE", 1500) {
        if round % 500 == 499 {
            current = session();
        }
        let sql = if rng.below(4) == 0 {
            all[rng.below(all.len() as u64) as usize].concat()
        } else {
            changed(&all[rng.below(all.len() as u64) as usize], &all, &mut rng)
        };
        if std::env::var_os("SPILLWAY_SHOW").is_some() {
            println!("{sql}");
        }
        let _ = current.query(&sql, &mut Checked::default());
        if let Ok(prepared) = current.prepare(&sql) {
            let params = vec![spillway_types::Value::Int(1); prepared.params];
            let _ = current.execute(prepared.id, &params, &mut Checked::default());
            current.close_statement(prepared.id);
        }
        let _ = current.query("ROLLBACK; UNLOCK TABLES; USE test", &mut Checked::default());
        if let Err(error) = current.query("SELECT 1", &mut Checked::default()) {
            // The account may have been dropped. Then all further statements fail.
            assert_eq!(error.code, 1045, "after {sql}");
            current = session();
        }
    }
}
