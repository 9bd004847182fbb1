//! The consistency conditions of clause 3.3.2, over all rows.

use std::collections::BTreeMap;

use spillway::{
    Database, Direction, Durability, Error, KeyRange, Result, Scan, Table, Transaction,
    TransactionOptions,
};

use super::keys;
use super::rows::{Customer, District, History, Order, OrderLine, Warehouse};
use super::schema::{DISTRICTS, Scale, Tables};

/// Condition 13 (TPCC-4).
const INDEXES: u8 = 13;

/// The violated conditions: for each the number of its violations and the first of them.
pub(super) type Violations = BTreeMap<u8, (u64, String)>;

/// The changes since the load, for TPCC-5.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Changes {
    pub(super) new_orders: u64,
    pub(super) payments: u64,
}

/// Checks all conditions at one snapshot, and counts the changes since the load.
///
/// # Errors
/// As the reads of [`Transaction`]; [`spillway::ErrorKind::Corruption`] for a row of a warehouse, a
/// district or a customer that the scale does not have.
pub(super) fn check(db: &Database, tables: &Tables, scale: Scale) -> Result<(Violations, Changes)> {
    // Such a transaction also reads commits that were acknowledged and are not durable yet.
    let options = TransactionOptions::new().read_only(true).durability(Durability::Relaxed);
    let txn = db.begin(options);
    let mut check = Check {
        txn: &txn,
        tables,
        scale,
        districts: vec![Sums::default(); usize::from(scale.warehouses) * usize::from(DISTRICTS)],
        customers: vec![
            CustomerSums::default();
            usize::from(scale.warehouses)
                * usize::from(DISTRICTS)
                * usize::from(scale.customers)
        ],
        violations: Violations::new(),
    };
    let payments = check.add_history()?;
    check.add_new_orders()?;
    check.add_orders()?;
    check.customers()?;
    let new_orders = check.districts()?;
    check.warehouses()?;
    let loaded = u64::from(scale.warehouses) * u64::from(DISTRICTS) * u64::from(scale.customers);
    let changes = Changes {
        new_orders: new_orders.saturating_sub(loaded),
        payments: payments.saturating_sub(loaded),
    };
    Ok((check.violations, changes))
}

/// Sums over the rows of a district.
#[derive(Clone, Default)]
struct Sums {
    /// Of history, by the district that received the payment.
    paid: i64,
    /// The queue of new orders, ascending.
    queue: Vec<u32>,
    /// Of orders.
    orders: u64,
    last_order: u32,
    lines_of_orders: u64,
    /// Of order lines.
    lines: u64,
    /// Of customers.
    deliveries: u64,
}

/// Sums over the rows of a customer.
#[derive(Clone, Copy, Default)]
struct CustomerSums {
    /// Of history.
    paid: i64,
    /// Of the lines that were delivered.
    delivered: i64,
}

struct Check<'a> {
    txn: &'a Transaction,
    tables: &'a Tables,
    scale: Scale,
    /// By warehouse, then by number.
    districts: Vec<Sums>,
    /// By district, then by number.
    customers: Vec<CustomerSums>,
    violations: Violations,
}

impl<'a> Check<'a> {
    fn scan(&self, table: Table) -> Result<Scan<'a>> {
        self.txn.scan(table, KeyRange::ALL, Direction::Forward)
    }

    fn district_index(&self, (warehouse, district): (u16, u8)) -> Result<usize> {
        let there =
            (1..=self.scale.warehouses).contains(&warehouse) && (1..=DISTRICTS).contains(&district);
        if !there {
            let text = format!("there is no district {district} of warehouse {warehouse}");
            return Err(Error::corruption(text));
        }
        Ok(usize::from(warehouse - 1) * usize::from(DISTRICTS) + usize::from(district - 1))
    }

    fn customer_index(&self, at: (u16, u8), customer: u16) -> Result<usize> {
        if !(1..=self.scale.customers).contains(&customer) {
            return Err(Error::corruption(format!("there is no customer {customer}")));
        }
        let district = self.district_index(at)?;
        Ok(district * usize::from(self.scale.customers) + usize::from(customer - 1))
    }

    /// Records a violation unless a condition holds.
    fn expect(&mut self, condition: u8, holds: bool, text: impl FnOnce() -> String) {
        if !holds {
            self.violations.entry(condition).or_insert_with(|| (0, text())).0 += 1;
        }
    }

    /// Returns the number of payments.
    fn add_history(&mut self) -> Result<u64> {
        let mut count = 0;
        let mut scan = self.scan(self.tables.history)?;
        while scan.advance()? {
            let (key, row) = (scan.key(), scan.value());
            let at = (History::WAREHOUSE.get(row), History::DISTRICT.get(row));
            let amount = History::AMOUNT.get(row);
            let receiver = self.district_index(at)?;
            self.districts[receiver].paid += amount;
            let customer = self.customer_index(keys::district_of(key), keys::customer_of(key))?;
            self.customers[customer].paid += amount;
            count += 1;
        }
        Ok(count)
    }

    fn add_new_orders(&mut self) -> Result<()> {
        let mut scan = self.scan(self.tables.new_order)?;
        while scan.advance()? {
            let district = self.district_index(keys::district_of(scan.key()))?;
            self.districts[district].queue.push(keys::order_of(scan.key()));
        }
        Ok(())
    }

    /// Conditions 5, 6 and 7, and the index of orders.
    fn add_orders(&mut self) -> Result<()> {
        let mut scan = self.scan(self.tables.order)?;
        let mut lines = self.scan(self.tables.order_line)?;
        let (mut more, mut orders) = (lines.advance()?, 0);
        while scan.advance()? {
            let (key, row) = (scan.key(), scan.value());
            let (at, number) = (keys::district_of(key), keys::order_of(key));
            let index = self.district_index(at)?;
            let of = || format!("order {number} of district {at:?}");
            let (customer, carrier) = (Order::CUSTOMER.get(row), Order::CARRIER.get(row));
            let buyer = self.customer_index(at, customer)?;
            let queued = self.districts[index].queue.binary_search(&number).is_ok();
            self.expect(5, queued == (carrier == 0), || {
                format!("{} has carrier {carrier}; queued: {queued}", of())
            });
            let mut own = 0;
            while more && lines.key()[..key.len()] <= *key {
                if lines.key().starts_with(key) {
                    own += 1;
                    let delivered = OrderLine::DELIVERED.get(lines.value());
                    self.expect(7, (delivered == 0) == (carrier == 0), || {
                        format!("{} has carrier {carrier}, a line is of {delivered}", of())
                    });
                    if delivered != 0 {
                        self.customers[buyer].delivered +=
                            i64::from(OrderLine::AMOUNT.get(lines.value()));
                    }
                }
                self.add_line(lines.key())?;
                more = lines.advance()?;
            }
            let wanted = u64::from(Order::LINES.get(row));
            self.expect(6, own == wanted, || format!("{} has {own} lines of {wanted}", of()));
            let entry = keys::order_customer(at, customer, number);
            let indexed = self.txn.get(self.tables.order_customer, &entry, &mut Vec::new())?;
            self.expect(INDEXES, indexed, || format!("{} has no index entry", of()));
            let sums = &mut self.districts[index];
            sums.orders += 1;
            sums.lines_of_orders += wanted;
            sums.last_order = sums.last_order.max(number);
            orders += 1;
        }
        while more {
            self.add_line(lines.key())?;
            more = lines.advance()?;
        }
        self.expect_entries(self.tables.order_customer, orders)
    }

    fn add_line(&mut self, key: &[u8]) -> Result<()> {
        let district = self.district_index(keys::district_of(key))?;
        self.districts[district].lines += 1;
        Ok(())
    }

    /// Condition 13: an index has this many entries.
    fn expect_entries(&mut self, index: Table, rows: u64) -> Result<()> {
        let (mut scan, mut entries) = (self.scan(index)?, 0);
        while scan.advance()? {
            entries += 1;
        }
        self.expect(INDEXES, entries == rows, || {
            format!("an index has {entries} entries of {rows} rows")
        });
        Ok(())
    }

    /// Conditions 10 and 12, and the index of customers.
    fn customers(&mut self) -> Result<()> {
        let (mut scan, mut customers) = (self.scan(self.tables.customer)?, 0);
        while scan.advance()? {
            let (key, row) = (scan.key(), scan.value());
            let (at, number) = (keys::district_of(key), keys::customer_of(key));
            let CustomerSums { paid, delivered } =
                self.customers[self.customer_index(at, number)?];
            let (balance, ytd) = (Customer::BALANCE.get(row), Customer::YTD_PAYMENT.get(row));
            let of = || format!("customer {number} of district {at:?} has balance {balance}");
            self.expect(10, balance == delivered - paid, || {
                format!("{}, {delivered} delivered, {paid} paid", of())
            });
            self.expect(12, balance + ytd == delivered, || {
                format!("{}, {delivered} delivered, {ytd} paid by its own count", of())
            });
            let (last, first) = (Customer::LAST.get(row), Customer::FIRST.get(row));
            let entry = keys::customer_name(at, &last, &first, number);
            let indexed = self.txn.get(self.tables.customer_name, &entry, &mut Vec::new())?;
            self.expect(INDEXES, indexed, || format!("{}, and no index entry", of()));
            let district = self.district_index(at)?;
            self.districts[district].deliveries += u64::from(Customer::DELIVERIES.get(row));
            customers += 1;
        }
        self.expect_entries(self.tables.customer_name, customers)
    }

    /// Conditions 2, 3, 4, 9 and 11. Returns the number of orders that districts have given out.
    fn districts(&mut self) -> Result<u64> {
        let mut given = 0;
        for (index, at) in self.scale.all_districts().enumerate() {
            let row = self.row(self.tables.district, &keys::district(at.0, at.1))?;
            let sums = std::mem::take(&mut self.districts[index]);
            let of = |text: String| format!("district {at:?}: {text}");
            let (next, ytd) = (District::NEXT_ORDER.get(&row), District::YTD.get(&row));
            let (first, last) = (sums.queue.first(), sums.queue.last());
            let newest = sums.last_order;
            self.expect(2, next == newest + 1 && last.is_none_or(|last| *last == newest), || {
                of(format!("the next order is {next}, the last {newest}, the last queued {last:?}"))
            });
            let queued = sums.queue.len() as u64;
            let span = first.zip(last).map_or(0, |(first, last)| u64::from(last - first) + 1);
            self.expect(3, span == queued, || {
                of(format!("{queued} orders are queued, from {first:?} to {last:?}"))
            });
            self.expect(4, sums.lines == sums.lines_of_orders, || {
                of(format!("{} lines, and {} by the orders", sums.lines, sums.lines_of_orders))
            });
            self.expect(9, ytd == sums.paid, || of(format!("{ytd} of {} paid", sums.paid)));
            let delivered = u64::from(self.scale.delivered()) + sums.deliveries;
            self.expect(11, sums.orders == queued + delivered, || {
                of(format!("{} orders, {queued} queued, {delivered} delivered", sums.orders))
            });
            given += u64::from(next) - 1;
            // Left for the warehouse's sums.
            self.districts[index].paid = sums.paid;
        }
        Ok(given)
    }

    /// Conditions 1 and 8.
    fn warehouses(&mut self) -> Result<()> {
        for warehouse in self.scale.all_warehouses() {
            let row = self.row(self.tables.warehouse, &keys::warehouse(warehouse))?;
            let ytd = Warehouse::YTD.get(&row);
            let (mut of_districts, mut paid) = (0, 0);
            for district in 1..=DISTRICTS {
                let key = keys::district(warehouse, district);
                of_districts += District::YTD.get(&self.row(self.tables.district, &key)?);
                paid += self.districts[self.district_index((warehouse, district))?].paid;
            }
            self.expect(1, ytd == of_districts, || {
                format!("warehouse {warehouse} has {ytd}, its districts {of_districts}")
            });
            self.expect(8, ytd == paid, || {
                format!("warehouse {warehouse} has {ytd}, of {paid} paid")
            });
        }
        Ok(())
    }

    fn row(&self, table: Table, key: &[u8]) -> Result<Vec<u8>> {
        let mut row = Vec::new();
        match self.txn.get(table, key, &mut row)? {
            true => Ok(row),
            false => Err(Error::corruption("a row is missing").of_table(table)),
        }
    }
}
