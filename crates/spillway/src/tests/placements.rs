//! Tests that the engine of a table affects no result. One history of several transactions gives
//! the same answers, the same CSNs and the same kinds of errors on two tables of either engine, on
//! one table of each engine, and on tables that change their engine midway. This also holds across
//! crashes of the process.

use spillway_base::rng::Rng;

use super::*;

const CLIENTS: usize = 3;
const STEPS: usize = 250;

/// The engines of two tables before and after the middle of a history.
type Placement = [[EngineKind; 2]; 2];

const PLACEMENTS: [Placement; 5] = {
    const TIERED: EngineKind = EngineKind::Tiered;
    const MEMORY: EngineKind = EngineKind::Memory;
    [
        [[TIERED, TIERED], [TIERED, TIERED]],
        [[MEMORY, MEMORY], [MEMORY, MEMORY]],
        [[TIERED, MEMORY], [TIERED, MEMORY]],
        [[TIERED, MEMORY], [MEMORY, TIERED]],
        [[MEMORY, MEMORY], [TIERED, TIERED]],
    ]
};

struct Client {
    txn: Transaction,
    savepoint: Option<Savepoint>,
}

struct History {
    rng: Rng,
    disk: SimDisk,
    settings: Settings,
    /// `None` while it is reopened.
    db: Option<Database>,
    tables: [Table; 2],
    clients: [Option<Client>; CLIENTS],
    outcomes: Vec<String>,
}

fn settings(seed: u64) -> Settings {
    // Every fourth history has transactions that spill.
    let transaction_bytes_max = seed.is_multiple_of(4).then_some(1 << 10);
    Settings { transaction_bytes_max, ..small() }
}

fn open_with(disk: &SimDisk, settings: &Settings) -> Database {
    Database::open_on(Arc::new(disk.clone()), "/db", settings.clone()).unwrap()
}

fn shown<T: std::fmt::Debug>(result: Result<T>) -> String {
    match result {
        Ok(value) => format!("{value:?}"),
        Err(error) => format!("{:?}", error.kind()),
    }
}

impl History {
    fn new(seed: u64, engines: [EngineKind; 2]) -> History {
        let disk = SimDisk::new(seed);
        let settings = settings(seed);
        let db = open_with(&disk, &settings);
        let txn = db.begin(TransactionOptions::new());
        let tables = ["a", "b"].map(|name| (name, engines[usize::from(name == "b")]));
        let tables = tables.map(|(name, engine)| txn.create_table(name, engine).unwrap());
        txn.commit().wait().unwrap();
        History {
            rng: Rng::new(seed),
            disk,
            settings,
            db: Some(db),
            tables,
            clients: Default::default(),
            outcomes: Vec::new(),
        }
    }

    fn key(&mut self) -> Vec<u8> {
        let len = self.rng.below(3) as usize;
        (0..len).map(|_| b'a' + self.rng.below(4) as u8).collect()
    }

    fn options(&mut self) -> TransactionOptions {
        use crate::Isolation::{ReadCommitted, RepeatableRead, Serializable};
        let isolation = [ReadCommitted, RepeatableRead, Serializable][self.rng.below(3) as usize];
        let newest = isolation == RepeatableRead && self.rng.chance(1, 3);
        TransactionOptions::new()
            .isolation(isolation)
            .acts_on_newest(newest)
            .lock_wait(std::time::Duration::ZERO)
    }

    /// One operation of one client. Returns what the client sees.
    fn step(&mut self, number: usize) -> String {
        let Some(mut client) = self.clients[number].take() else {
            let options = self.options();
            let txn = self.db().begin(options);
            self.clients[number] = Some(Client { txn, savepoint: None });
            return "begin".to_owned();
        };
        client.txn.begin_statement();
        let outcome = match self.rng.below(20) {
            0 | 1 => {
                // The CSN of a transaction without writes says what its reads found. An engine may
                // have dropped a tombstone that the other engine still has.
                let has_writes = client.txn.has_writes();
                let committed = client.txn.commit().wait();
                return format!("commit {}", shown(committed.map(|csn| has_writes.then_some(csn))));
            }
            2 => {
                client.txn.rollback();
                return "rollback".to_owned();
            }
            3 => {
                match client.savepoint.take() {
                    Some(savepoint) => client.txn.rollback_to(savepoint),
                    None => client.savepoint = Some(client.txn.savepoint()),
                }
                "savepoint".to_owned()
            }
            4 => shown(client.txn.refresh()),
            choice => self.access(&client.txn, choice),
        };
        self.clients[number] = Some(client);
        outcome
    }

    fn access(&mut self, txn: &Transaction, choice: u64) -> String {
        let table = self.tables[self.rng.below(2) as usize];
        let (key, end) = (self.key(), self.key());
        let value = vec![self.rng.below(256) as u8; self.rng.below(400) as usize];
        let direction =
            if self.rng.chance(1, 2) { Direction::Forward } else { Direction::Backward };
        let range = KeyRange::new(&key, (end > key).then_some(&end[..]));
        match choice {
            5..=8 => shown(txn.put(table, &key, &value)),
            9 | 10 => shown(txn.delete(table, &key)),
            11 | 12 => shown(txn.insert(table, &key, &value)),
            13 => shown(txn.delete_range(table, range)),
            14 => shown(txn.multi_get(table, &[&key, &end])),
            15 => shown(txn.lock(table, &key, LockMode::Shared, LockWait::NoWait)),
            16 => shown(txn.lock(table, &key, LockMode::Exclusive, LockWait::SkipLocked)),
            17 | 18 => {
                let rows = txn.scan(table, range, direction);
                shown(rows.and_then(|rows| rows.collect::<Result<Vec<_>>>()))
            }
            _ => {
                let mut value = Vec::new();
                shown(txn.get(table, &key, &mut value).map(|found| (found, value)))
            }
        }
    }

    /// Ends all transactions, and writes all rows into new tables of these engines.
    fn move_to(&mut self, engines: [EngineKind; 2]) {
        self.clients = Default::default();
        let txn = self.db().begin(TransactionOptions::new());
        for (number, name) in ["a", "b"].into_iter().enumerate() {
            let rows = read(&txn, self.tables[number]);
            txn.drop_table(name).unwrap();
            let table = txn.create_table(name, engines[number]).unwrap();
            rows.iter().try_for_each(|(key, value)| txn.put(table, key, value)).unwrap();
            self.tables[number] = table;
        }
        self.outcomes.push(shown(txn.commit().wait()));
    }

    /// Work that clients do not see, or a kill of the process.
    fn work(&mut self) {
        match self.rng.below(5) {
            0 => self.db().flush().unwrap(),
            1 => self.db().persist().unwrap(),
            2 => self.db().compact().unwrap(),
            3 => while self.db().run_background_job().unwrap() {},
            _ => {
                self.clients = Default::default();
                self.db = None;
                self.disk.kill();
                self.db = Some(open_with(&self.disk, &self.settings));
            }
        }
    }

    fn db(&self) -> &Database {
        self.db.as_ref().expect("it is open")
    }
}

/// The outcomes of a history, and the final rows.
fn outcomes(seed: u64, placement: Placement) -> Vec<String> {
    let mut history = History::new(seed, placement[0]);
    for step in 0..STEPS {
        if step == STEPS / 2 {
            history.move_to(placement[1]);
        }
        let number = history.rng.below(CLIENTS as u64) as usize;
        let outcome = history.step(number);
        history.outcomes.push(format!("{number}: {outcome}"));
        if history.rng.chance(1, 30) {
            history.work();
        }
    }
    history.clients = Default::default();
    let txn = history.db().begin(TransactionOptions::new());
    for table in history.tables {
        history.outcomes.push(format!("{:?}", read(&txn, table)));
    }
    drop(txn);
    history.outcomes
}

#[test]
fn a_history_has_the_same_outcomes_on_tables_of_any_engines() {
    for seed in 0..40 {
        let [first, others @ ..] = PLACEMENTS;
        let wanted = outcomes(seed, first);
        for placement in others {
            let found = outcomes(seed, placement);
            let differs = wanted.iter().zip(&found).position(|(wanted, found)| wanted != found);
            if let Some(at) = differs {
                panic!("seed {seed}, {placement:?}, step {at}: {} and {}", wanted[at], found[at]);
            }
            assert_eq!(wanted.len(), found.len());
        }
    }
}
