//! SQL sessions: clients that move amounts between accounts and record each transfer in a ledger,
//! change tables of their own (`own`), and run transactions that the oracle judges (`outcomes`).
//!
//! The ledger alone determines the balances of the accounts. So comparing the balances with the
//! ledger finds a transfer that took effect only in part, and checking the ledger finds a lost
//! transfer (SIMULATION-10).

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use spillway::{Database, EngineKind};
use spillway_base::rng::Rng;
use spillway_sql::{Instance, Session, SqlError};

use super::client::Life;
use super::oracle::{Refusal, fail};
use super::outcomes;
use super::own::{self, Own};
use super::shape::Shape;
use crate::client::{DUPLICATE, ask, session};

/// MySQL's errors after which a client continues with another transaction: a lock that was not
/// granted, a deadlock.
const RETRIED: [u16; 3] = [1205, 1213, 3572];

/// Transfers of all lives so far, and the clients' own tables.
#[derive(Default)]
pub struct Ledger(Mutex<Transfers>, Mutex<Vec<Own>>);

#[derive(Default)]
struct Transfers {
    acknowledged: BTreeSet<u64>,
    /// Transfers whose COMMIT was sent.
    asked: BTreeSet<u64>,
}

impl Ledger {
    fn transfers(&self) -> MutexGuard<'_, Transfers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The clients' own tables, by the clients' numbers. No client holds the lock across a
    /// scheduling point.
    pub(super) fn own(&self) -> MutexGuard<'_, Vec<Own>> {
        self.1.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Opens SQL over a database and creates its tables.
///
/// # Errors
/// Those of the statements.
pub fn open(db: &Database, shape: &Shape) -> Result<Instance, SqlError> {
    let instance = Instance::open(db.clone())?;
    let mut session = session(&instance)?;
    let run = |session: &mut Session, sql: &str| ask(session, sql).map(drop);
    let tables = [
        "account (id INT PRIMARY KEY, held INT NOT NULL)",
        "ledger (id BIGINT PRIMARY KEY, payer INT, payee INT, amount INT, KEY payer (payer))",
    ];
    for (number, table) in tables.into_iter().enumerate() {
        let engine = engine_name(shape.engine(number));
        run(&mut session, &format!("CREATE TABLE IF NOT EXISTS {table} ENGINE={engine}"))?;
    }
    for (number, table) in outcomes::definitions().enumerate() {
        let engine = engine_name(shape.engine(number));
        run(&mut session, &format!("CREATE TABLE IF NOT EXISTS {table} ENGINE={engine}"))?;
    }
    for id in 0..shape.accounts() {
        run(&mut session, &format!("INSERT IGNORE INTO account VALUES ({id}, 0)"))?;
    }
    Ok(instance)
}

/// The name of an engine in SQL.
pub(super) fn engine_name(engine: EngineKind) -> &'static str {
    match engine {
        EngineKind::Memory => "MEMORY_OPTIMIZED",
        EngineKind::Tiered => "TIERED",
    }
}

fn numbers(line: &str) -> Vec<i64> {
    let number = |word: &str| word.parse().unwrap_or_else(|_| fail(&format!("not a row: {line}")));
    line.split_whitespace().map(number).collect()
}

/// SIMULATION-10: the accounts match the ledger. The ledger has all acknowledged transfers, and
/// only transfers whose COMMIT was sent. The clients' own tables are as the clients left them.
///
/// After lies of the disk (`has_losses`) transfers may be lost, and the clients' tables may be as
/// they were earlier (SIMULATION-13).
///
/// # Errors
/// The tables cannot be read.
pub fn judge(instance: &Instance, ledger: &Ledger, has_losses: bool) -> Result<(), Refusal> {
    let found = check_accounts(instance)?;
    let mut transfers = ledger.transfers();
    if has_losses {
        transfers.acknowledged.retain(|id| found.contains(id));
    }
    if let Some(lost) = transfers.acknowledged.difference(&found).next() {
        fail(&format!("SIMULATION-10: transfer {lost:x} was acknowledged and is lost"));
    }
    if let Some(extra) = found.difference(&transfers.asked).next() {
        fail(&format!("SIMULATION-10: transfer {extra:x} is there, and was not asked for"));
    }
    drop(transfers);
    Ok(own::judge(&mut session(instance)?, ledger, has_losses)?)
}

/// Checks that the accounts match the ledger. Returns the ledger's transfers.
///
/// # Errors
/// The tables cannot be read.
pub fn check_accounts(instance: &Instance) -> Result<BTreeSet<u64>, Refusal> {
    let mut session = session(instance)?;
    let lines = ask(&mut session, "SELECT id, payer, payee, amount FROM ledger")?;
    let accounts = ask(&mut session, "SELECT id, held FROM account ORDER BY id")?;
    let mut held: Vec<i64> = vec![0; accounts.len()];
    let mut found = BTreeSet::new();
    for line in &lines {
        let [id, payer, payee, amount] = numbers(line)[..] else { fail(line) };
        found.insert(id as u64);
        held[payer as usize] -= amount;
        held[payee as usize] += amount;
    }
    let told: Vec<i64> = accounts.iter().map(|line| numbers(line)[1]).collect();
    if told != held {
        fail(&format!("SIMULATION-10: accounts hold {told:?}, by the ledger {held:?}"));
    }
    Ok(found)
}

/// Runs a client's transactions until they are done or the database fails.
pub fn run(instance: &Instance, life: &Life, number: u64, seed: u64) {
    let (ledger, shape) = (&*life.ledger, &life.shape);
    let Ok(mut session) = session(instance) else { return };
    let mut rng = Rng::new(seed);
    // A client takes over the table of the earlier client with the same number modulo 16.
    let owned = (number % 16) as usize;
    let mut outcomes = outcomes::Outcomes::new(number);
    let mut own = own::Owner::new(ledger, owned, shape.engine(owned));
    for next in 1..=shape.transactions {
        let id = (number << 32) + next;
        if rng.chance(1, 8) {
            let levels = ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"];
            let level = levels[rng.below(3) as usize];
            let set = format!("SET SESSION TRANSACTION ISOLATION LEVEL {level}");
            if ask(&mut session, &set).is_err() {
                return;
            }
        }
        let done = match rng.below(12) {
            6.. => outcomes.transaction((&life.seen, shape), &mut session, &mut rng),
            0 => look(&mut session),
            1 => insert_again(&mut session, ledger, &mut rng),
            2 | 3 => own.act(&mut session, &mut rng),
            _ => transfer(&mut session, ledger, id, shape.accounts(), &mut rng),
        };
        match done {
            Ok(()) => {}
            Err(error) if RETRIED.contains(&error.code) => drop(ask(&mut session, "ROLLBACK")),
            Err(_) => return,
        }
    }
}

/// Checks that the sum of all accounts is 0.
fn look(session: &mut Session) -> Result<(), SqlError> {
    let sum = ask(session, "SELECT SUM(held) FROM account")?;
    if numbers(&sum[0]) != [0] {
        fail(&format!("SIMULATION-10: accounts together hold {sum:?}"));
    }
    Ok(())
}

/// Checks that an acknowledged transfer is in the ledger: inserting it again fails.
fn insert_again(session: &mut Session, ledger: &Ledger, rng: &mut Rng) -> Result<(), SqlError> {
    let known = {
        let transfers = ledger.transfers();
        let count = transfers.acknowledged.len() as u64;
        if count == 0 {
            return Ok(());
        }
        transfers.acknowledged.iter().nth(rng.below(count) as usize).copied()
    };
    let Some(id) = known else { return Ok(()) };
    match ask(session, &format!("INSERT INTO ledger VALUES ({id}, 0, 0, 0)")) {
        Ok(_) => fail(&format!("SIMULATION-10: transfer {id:x} was not there")),
        Err(error) if error.code == DUPLICATE => Ok(()),
        Err(error) => Err(error),
    }
}

fn transfer(
    session: &mut Session,
    ledger: &Ledger,
    id: u64,
    accounts: u64,
    rng: &mut Rng,
) -> Result<(), SqlError> {
    let (payer, payee, amount) = (rng.below(accounts), rng.below(accounts), 1 + rng.below(9));
    ask(session, "BEGIN")?;
    ask(session, &format!("UPDATE account SET held = held - {amount} WHERE id = {payer}"))?;
    if rng.chance(1, 3) {
        ask(session, "SELECT id FROM ledger WHERE payer = 1")?;
    }
    ask(session, &format!("UPDATE account SET held = held + {amount} WHERE id = {payee}"))?;
    ask(session, &format!("INSERT INTO ledger VALUES ({id}, {payer}, {payee}, {amount})"))?;
    if rng.chance(1, 10) {
        return ask(session, "ROLLBACK").map(drop);
    }
    ledger.transfers().asked.insert(id);
    ask(session, "COMMIT")?;
    ledger.transfers().acknowledged.insert(id);
    Ok(())
}
