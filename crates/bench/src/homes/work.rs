//! The gets, by threads.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use spillway::{Database, Durability, EngineKind, Table, TransactionOptions};
use spillway_base::clock;
use spillway_base::rng::Rng;

use crate::machine;
use crate::measure::{Values, key};
use crate::store::by_threads;

/// Rows of a commit.
const COMMIT_ROWS: u64 = 100;

/// How threads run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Way {
    /// Whether each is bound to a core.
    pub(super) bound: bool,
    /// Whether each uses only its own tables.
    pub(super) own: bool,
}

impl Way {
    /// The first is the baseline.
    pub(super) const ALL: [Way; 4] = [
        Way { bound: false, own: false },
        Way { bound: true, own: false },
        Way { bound: false, own: true },
        Way { bound: true, own: true },
    ];

    pub(super) fn name(self) -> &'static str {
        match (self.bound, self.own) {
            (false, false) => "any core, all tables",
            (true, false) => "own core, all tables",
            (false, true) => "any core, own tables",
            (true, true) => "own core, own tables",
        }
    }
}

/// The results of a turn.
pub(super) struct Turn {
    pub(super) gets_per_s: f64,
    pub(super) cpu_ns: f64,
}

/// The database and its tables.
pub(super) struct Tables {
    pub(super) db: Database,
    pub(super) tables: Vec<Table>,
    pub(super) rows: u64,
    pub(super) value_bytes: usize,
}

impl Tables {
    /// Creates tables with rows, and brings each into one run.
    pub(super) fn fill(
        db: Database,
        tables: u64,
        rows: u64,
        value_bytes: usize,
        seed: u64,
    ) -> Result<Tables, String> {
        let values = Values::new(seed, value_bytes);
        let fill = || {
            let txn = db.begin(TransactionOptions::new());
            let made = (0..tables)
                .map(|number| txn.create_table(&format!("home{number}"), EngineKind::Tiered));
            let made: Vec<Table> = made.collect::<spillway::Result<_>>()?;
            txn.commit().wait()?;
            for first in (0..rows).step_by(COMMIT_ROWS as usize) {
                let relaxed = TransactionOptions::new().durability(Durability::Relaxed);
                let txn = db.begin(relaxed);
                for &table in &made {
                    for row in first..(first + COMMIT_ROWS).min(rows) {
                        txn.put(table, &key(row), values.of(row))?;
                    }
                }
                txn.commit().wait()?;
            }
            db.compact()?;
            Ok(made)
        };
        let tables = fill().map_err(|error: spillway::Error| error.to_string())?;
        Ok(Tables { db, tables, rows, value_bytes })
    }

    /// Gets this many rows, with all threads together.
    pub(super) fn get(&self, way: Way, threads: u64, gets: u64, seed: u64) -> Result<Turn, String> {
        let cores = sched_getaffinity(None).map_err(|error| error.to_string())?;
        let cores: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&core| cores.is_set(core)).collect();
        let (cpu, begin) = (machine::own_time(), clock::now());
        let done = by_threads(threads, |thread| {
            if way.bound {
                let mut core = CpuSet::new();
                core.set(cores[thread as usize % cores.len()]);
                sched_setaffinity(None, &core).map_err(|error| error.to_string())?;
            }
            let all = self.tables.iter().enumerate();
            let mine = all.filter(|(number, _)| !way.own || *number as u64 % threads == thread);
            let mine: Vec<Table> = mine.map(|(_, table)| *table).collect();
            self.get_by_one(&mine, gets / threads, seed ^ thread << 32)
        })?;
        let (seconds, cpu) = ((clock::now() - begin).as_secs_f64(), machine::own_time() - cpu);
        Ok(Turn {
            gets_per_s: done as f64 / seconds,
            cpu_ns: cpu.as_secs_f64() * 1e9 / done.max(1) as f64,
        })
    }

    fn get_by_one(&self, tables: &[Table], gets: u64, seed: u64) -> Result<u64, String> {
        if tables.is_empty() {
            return Err("there are fewer tables than threads".to_owned());
        }
        let mut rng = Rng::new(seed);
        let mut value = Vec::new();
        for _ in 0..gets {
            let table = tables[rng.below(tables.len() as u64) as usize];
            let row = rng.below(self.rows);
            let options = TransactionOptions::new().read_only(true).durability(Durability::Relaxed);
            let txn = self.db.begin(options);
            let found = txn.get(table, &key(row), &mut value).map_err(|error| error.to_string())?;
            if !found || value.len() != self.value_bytes {
                return Err(format!("row {row} is missing"));
            }
        }
        Ok(gets)
    }
}
