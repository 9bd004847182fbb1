use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use spillway::{Database, Settings, Table, TransactionOptions};
use spillway_storage::sim::SimDisk;

use super::check::{Changes, Violations, check};
use super::driver::{Acknowledgement, IsolationLevel, TerminalPlan, TerminalResults, drive};
use super::inputs::{CustomerBy, Draws, TransactionInput, TransactionKind, last_name};
use super::layout::{Column, ColumnType};
use super::load::load;
use super::rows::{Customer, District, History, Order, OrderLine, Warehouse};
use super::schema::{DISTRICTS, Placement, Scale, Tables};
use super::*;
use crate::commits::Extent;

const PLACEMENTS: [Placement; 3] = [Placement::Memory, Placement::Tiered, Placement::Mixed];
const SMALL: Scale = Scale { warehouses: 2, items: 200, customers: 40 };

fn open(disk: &SimDisk) -> Database {
    let mut settings = Settings::default();
    settings.memory_bytes = 64 << 20;
    settings.log_segment_bytes = 1 << 20;
    settings.log_lanes = Some(2);
    Database::open_on(Arc::new(disk.clone()), "/db", settings).unwrap()
}

fn loaded(disk: &SimDisk, placement: Placement) -> (Database, Tables) {
    let db = open(disk);
    let tables = Tables::create(&db, placement).unwrap();
    load(&db, &tables, SMALL, 7).unwrap();
    (db, tables)
}

fn plan(transactions: u64) -> TerminalPlan {
    TerminalPlan {
        scale: SMALL,
        isolation: IsolationLevel::Snapshot,
        acknowledgement: Acknowledgement::Flight,
        in_flight: 8,
        threads: 2,
        extent: Extent::Commits(transactions),
        seed: 11,
    }
}

fn checked(db: &Database, tables: &Tables) -> (Violations, Changes) {
    check(db, tables, SMALL).unwrap()
}

/// TPCC-1, TPCC-2, TPCC-4, TPCC-5: every engine, isolation and way to acknowledge.
#[test]
fn every_engine_stays_consistent_and_counts_what_it_did() {
    for placement in PLACEMENTS {
        let (db, tables) = loaded(&SimDisk::new(1), placement);
        let mut done = Changes::default();
        for (isolation, acknowledgement) in [
            (IsolationLevel::Snapshot, Acknowledgement::Flight),
            (IsolationLevel::Serializable, Acknowledgement::Flight),
            (IsolationLevel::Snapshot, Acknowledgement::Wait),
            (IsolationLevel::Newest, Acknowledgement::Relaxed),
        ] {
            let plan = TerminalPlan { isolation, acknowledgement, ..plan(400) };
            let results = drive(&db, &tables, &plan).unwrap();
            assert_eq!(results.all().len() + results.rollbacks, 400);
            assert!(TransactionKind::ALL.iter().all(|kind| results.count(*kind) > 0));
            done.new_orders += results.acknowledged.new_orders;
            done.payments += results.acknowledged.payments;
            let (violations, changes) = checked(&db, &tables);
            assert_eq!(violations, Violations::new(), "{placement:?}, {isolation:?}");
            assert_eq!(changes, done, "{placement:?}, {isolation:?}");
        }
    }
}

/// TPCC-4, TPCC-5: the conditions hold after a crash, and no acknowledged transaction is lost.
#[test]
fn the_conditions_hold_after_a_crash() {
    for placement in PLACEMENTS {
        let disk = SimDisk::new(2);
        let (db, tables) = loaded(&disk, placement);
        let results = drive(&db, &tables, &plan(1000)).unwrap();
        drop(db);
        disk.crash();
        disk.restart();
        let db = open(&disk);
        let tables = Tables::find(&db).unwrap();
        assert_eq!(checked(&db, &tables), (Violations::new(), results.acknowledged));
        // The run continues where the previous one ended.
        let more = drive(&db, &tables, &plan(200)).unwrap();
        let (violations, changes) = checked(&db, &tables);
        assert_eq!(violations, Violations::new(), "{placement:?}");
        let sum = results.acknowledged.payments + more.acknowledged.payments;
        assert_eq!(changes.payments, sum, "{placement:?}");
    }
}

/// Adds a number to a column of a row, or deletes the row; returns the violated conditions; then
/// restores the row.
fn violated_by(
    db: &Database,
    tables: &Tables,
    (table, key): (Table, &[u8]),
    corrupt: impl FnOnce(&mut Vec<u8>) -> bool,
) -> Vec<u8> {
    let put = |row: Option<&[u8]>| {
        let txn = db.begin(TransactionOptions::new());
        match row {
            Some(row) => txn.put(table, key, row).unwrap(),
            None => txn.delete(table, key).unwrap(),
        }
        txn.commit().wait().unwrap();
    };
    let mut row = Vec::new();
    let txn = db.begin(TransactionOptions::new().read_only(true));
    assert!(txn.get(table, key, &mut row).unwrap());
    drop(txn);
    let good = row.clone();
    let keeps = corrupt(&mut row);
    put(keeps.then_some(&row));
    let (violations, _) = checked(db, tables);
    put(Some(&good));
    violations.into_keys().collect()
}

/// Adds 1 to a number.
fn adding<T: ColumnType + From<u8> + std::ops::Add<Output = T>>(
    column: Column<T>,
) -> impl FnOnce(&mut Vec<u8>) -> bool {
    move |row| {
        column.add(row, T::from(1));
        true
    }
}

/// Makes a number NULL.
fn clearing<T: ColumnType + From<u8>>(column: Column<T>) -> impl FnOnce(&mut Vec<u8>) -> bool {
    move |row| {
        column.set(row, T::from(0));
        true
    }
}

/// TPCC-4: each condition notices a wrong row.
#[test]
fn each_condition_notices_a_wrong_row() {
    let (db, tables) = loaded(&SimDisk::new(3), Placement::Mixed);
    drive(&db, &tables, &plan(300)).unwrap();
    let delivered = keys::order(1, 1, 2);
    let delivered_line = keys::order_line(&delivered, 1);
    let queued = keys::order(1, 10, u32::from(SMALL.customers) - 1);
    let buyer = {
        let txn = db.begin(TransactionOptions::new().read_only(true));
        let mut row = Vec::new();
        assert!(txn.get(tables.order, &delivered, &mut row).unwrap());
        Order::CUSTOMER.get(&row)
    };
    let (warehouse, district) = (keys::warehouse(2), keys::district(2, 3));
    let customer = keys::customer(2, 3, 4);
    let history = keys::history((1, 1), 1, 1);
    let entry = keys::order_customer((1, 1), buyer, 2);
    let of = |row: (Table, &[u8]), corrupt: &dyn Fn() -> Box<dyn FnOnce(&mut Vec<u8>) -> bool>| {
        violated_by(&db, &tables, row, corrupt())
    };
    let deleting = || -> Box<dyn FnOnce(&mut Vec<u8>) -> bool> { Box::new(|_| false) };
    let cases: [((Table, &[u8]), &dyn Fn() -> Box<dyn FnOnce(&mut Vec<u8>) -> bool>, &[u8]); 14] = [
        ((tables.warehouse, &warehouse), &|| Box::new(adding(Warehouse::YTD)), &[1, 8]),
        ((tables.district, &district), &|| Box::new(adding(District::YTD)), &[1, 9]),
        ((tables.district, &district), &|| Box::new(adding(District::NEXT_ORDER)), &[2]),
        ((tables.new_order, &queued), &deleting, &[3, 5, 11]),
        ((tables.order, &delivered), &|| Box::new(adding(Order::LINES)), &[4, 6]),
        ((tables.order, &delivered), &|| Box::new(clearing(Order::CARRIER)), &[5, 7]),
        ((tables.order_line, &delivered_line), &deleting, &[4, 6]),
        ((tables.order_line, &delivered_line), &|| Box::new(clearing(OrderLine::DELIVERED)), &[7]),
        ((tables.order_line, &delivered_line), &|| Box::new(adding(OrderLine::AMOUNT)), &[10, 12]),
        ((tables.history, &history), &|| Box::new(adding(History::AMOUNT)), &[8, 9, 10]),
        ((tables.customer, &customer), &|| Box::new(adding(Customer::BALANCE)), &[10, 12]),
        ((tables.customer, &customer), &|| Box::new(adding(Customer::YTD_PAYMENT)), &[12]),
        ((tables.customer, &customer), &|| Box::new(adding(Customer::DELIVERIES)), &[11]),
        ((tables.order_customer, &entry), &deleting, &[13]),
    ];
    for (number, (row, corrupt, wanted)) in cases.into_iter().enumerate() {
        assert_eq!(of(row, corrupt), wanted, "case {number}");
    }
    assert_eq!(checked(&db, &tables).0, Violations::new());
}

/// TPCC-1: the shares of the mix, of rollbacks, of remote payments and lines, and of last names.
#[test]
fn inputs_have_the_shares_of_the_specification() {
    const COUNT: u32 = 100_000;
    let scale = Scale { warehouses: 4, items: 100_000, customers: 3000 };
    let mut draws = Draws::new(5, scale);
    let mut kinds = [0_u32; 5];
    let (mut wrong, mut lines, mut remote_lines, mut remote_payments) = (0, 0, 0, 0);
    let (mut customers, mut by_name) = (0, 0);
    for _ in 0..COUNT {
        let input = draws.transaction(3);
        kinds[input.kind() as usize] += 1;
        match input {
            TransactionInput::NewOrder(input) => {
                wrong += u32::from(input.is_wrong());
                assert!((5..=15).contains(&input.lines().len()) && input.customer <= 3000);
                lines += input.lines().len();
                remote_lines += input.lines().iter().filter(|line| line.supply != 3).count();
                assert!(input.lines().iter().all(|line| (1..=4).contains(&line.supply)));
            }
            TransactionInput::Payment(input) => {
                remote_payments += u32::from(input.home.0 != 3);
                assert!((100..=500_000).contains(&input.amount) && input.district <= DISTRICTS);
                customers += 1;
                by_name += u32::from(matches!(input.by, CustomerBy::LastName(_)));
            }
            _ => {}
        }
    }
    let near = |share: f64, wanted: f64| (share - wanted).abs() < 0.1 * wanted;
    for (count, wanted) in kinds.iter().zip([0.45, 0.43, 0.04, 0.04, 0.04]) {
        assert!(near(f64::from(*count) / f64::from(COUNT), wanted), "{kinds:?}");
    }
    assert!(near(f64::from(wrong) / f64::from(kinds[0]), 0.01), "{wrong}");
    assert!(near(remote_lines as f64 / lines as f64, 0.01), "{remote_lines} of {lines}");
    assert!(near(f64::from(remote_payments) / f64::from(kinds[1]), 0.15), "{remote_payments}");
    assert!(near(f64::from(by_name) / f64::from(customers), 0.60), "{by_name} of {customers}");
    assert_eq!(&last_name(371)[..13], b"PRICALLYOUGHT");
}

/// TPCC-3: terminals that meet at the same rows run their transactions again until they commit.
#[test]
fn conflicts_are_run_again_and_counted() {
    let (db, tables) = loaded(&SimDisk::new(4), Placement::Memory);
    // A snapshot of the stable state is older than commits in flight, so that other terminals' read
    // transactions and writes interleave.
    let plan = TerminalPlan {
        isolation: IsolationLevel::Serializable,
        threads: 4,
        in_flight: 16,
        ..plan(3000)
    };
    let results = drive(&db, &tables, &plan).unwrap();
    assert_eq!(results.all().len() + results.rollbacks, 3000);
    assert!(conflicts(&results) > 0);
    assert_eq!(checked(&db, &tables), (Violations::new(), results.acknowledged));
}

fn conflicts(results: &TerminalResults) -> u64 {
    results.conflicts.iter().sum()
}

#[derive(Parser)]
struct TpccCommand {
    #[command(flatten)]
    tpcc: TpccArgs,
}

#[test]
fn the_command_reports_each_cell() {
    let dir = tempfile::tempdir().unwrap();
    let line = "test --warehouses 1,2 --threads 1,2 --engine memory,mixed --transactions 200 --rounds 2 --items 100 \
                --customers 30 --memory-mib 64 --in-flight 4 --dir";
    let words = line.split_whitespace().chain([dir.path().to_str().unwrap()]);
    let args = TpccCommand::parse_from(words).tpcc;
    let report = args.measure().unwrap();
    assert_eq!(report.rows().len(), 2 * 2 * 2 * 2);
    assert!(report.rows().iter().all(|row| row.figures[..7].iter().all(|figure| *figure > 0.0)));
    assert_eq!(report.notes().len(), 8);
    assert!(report.notes()[0].starts_with("memory of 1 warehouses with 1 threads: "));
    assert_eq!(args.seconds, Duration::from_secs(10).as_secs_f64());
    let mut wrong = args;
    wrong.threads = vec![0];
    assert!(wrong.measure().is_err());
}
