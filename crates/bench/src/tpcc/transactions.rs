//! The five transactions (clauses 2.4 to 2.8).

use std::io::Write;

use spillway::{
    Direction, Error, KeyRange, LockMode, LockWait, Result, Table, Transaction, prefix_end,
};

use super::inputs::{CustomerBy, NewOrderInput, PaymentInput, TransactionInput, date, is_original};
use super::keys;
use super::rows::{
    Customer, District, History, Item, Order, OrderLine, Stock, StockTexts, Warehouse,
    district_text,
};
use super::schema::{DISTRICTS, Tables};

/// The number of orders whose lines a stock-level reads.
const RECENT_ORDERS: u32 = 20;
/// Lines that a stock-level takes from a scan at once, at most.
const LINES_TOGETHER: usize = 256;

/// How a transaction is to end after its operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wish {
    Commit,
    /// The user named an item that does not exist.
    Rollback,
}

/// Runs transactions of one thread, and reuses its buffers.
pub(super) struct Executor<'a> {
    tables: &'a Tables,
    row: Vec<u8>,
    texts: Vec<u8>,
    lines: Vec<u8>,
    items: Vec<u32>,
    customers: Vec<u16>,
    /// The figures that terminals would show, added up.
    shown: i64,
}

impl<'a> Executor<'a> {
    pub(super) fn new(tables: &'a Tables) -> Executor<'a> {
        Executor {
            tables,
            row: Vec::new(),
            texts: Vec::new(),
            lines: Vec::new(),
            items: Vec::new(),
            customers: Vec::new(),
            shown: 0,
        }
    }

    /// Runs the operations of a transaction at a warehouse.
    ///
    /// # Errors
    /// As the operations of [`Transaction`]. A row that must exist and does not is
    /// [`spillway::ErrorKind::Corruption`].
    pub(super) fn run(
        &mut self,
        txn: &Transaction,
        warehouse: u16,
        input: &TransactionInput,
    ) -> Result<Wish> {
        match input {
            TransactionInput::NewOrder(input) => return self.new_order(txn, warehouse, input),
            TransactionInput::Payment(input) => self.payment(txn, warehouse, input)?,
            TransactionInput::OrderStatus { district, by } => {
                self.order_status(txn, (warehouse, *district), by)?;
            }
            TransactionInput::Delivery { carrier } => self.delivery(txn, warehouse, *carrier)?,
            TransactionInput::StockLevel { district, threshold } => {
                self.stock_level(txn, (warehouse, *district), *threshold)?;
            }
        }
        Ok(Wish::Commit)
    }

    fn new_order(
        &mut self,
        txn: &Transaction,
        warehouse: u16,
        input: &NewOrderInput,
    ) -> Result<Wish> {
        let (tables, row) = (self.tables, &mut self.row);
        let at = (warehouse, input.district);
        let district = keys::district(at.0, at.1);
        lock(txn, tables.district, &district, row)?;
        let order = District::NEXT_ORDER.get(row);
        let mut tax = i64::from(District::TAX.get(row));
        District::NEXT_ORDER.set(row, order + 1);
        update(txn, tables.district, &district, row)?;
        read(txn, tables.warehouse, &keys::warehouse(at.0), row)?;
        tax += i64::from(Warehouse::TAX.get(row));
        read(txn, tables.customer, &keys::customer(at.0, at.1, input.customer), row)?;
        let discount = i64::from(Customer::DISCOUNT.get(row));

        let key = keys::order(at.0, at.1, order);
        let mut new = [0; Order::BYTES];
        Order::CUSTOMER.set(&mut new, input.customer);
        Order::ENTERED.set(&mut new, date());
        Order::LINES.set(&mut new, input.lines().len() as u8);
        let local = input.lines().iter().all(|line| line.supply == warehouse);
        Order::ALL_LOCAL.set(&mut new, u8::from(local));
        // Its number follows from the district's row, which is locked.
        txn.put_following(tables.order, &key, Some(&new))?;
        let guard = (tables.order, &key[..]);
        let entry = keys::order_customer(at, input.customer, order);
        txn.put_guarded(tables.order_customer, &entry, Some(&[]), guard)?;
        txn.put_guarded(tables.new_order, &key, Some(&[]), guard)?;

        let mut total = 0;
        for (number, line) in (1..).zip(input.lines()) {
            if !txn.get(tables.item, &keys::item(line.item), row)? {
                return Ok(Wish::Rollback);
            }
            let amount = Item::PRICE.get(row) * u32::from(line.quantity);
            let mut original = is_original(&Item::DATA.get(row));
            let stock = keys::stock(line.supply, line.item);
            lock(txn, tables.stock, &stock, row)?;
            take_from_stock(row, line.quantity, line.supply != warehouse);
            update(txn, tables.stock, &stock, row)?;
            read(txn, tables.stock_texts, &stock, &mut self.texts)?;
            original &= is_original(&StockTexts::DATA.get(&self.texts));

            let mut new = [0; OrderLine::BYTES];
            OrderLine::ITEM.set(&mut new, line.item);
            OrderLine::SUPPLY.set(&mut new, line.supply);
            OrderLine::QUANTITY.set(&mut new, line.quantity);
            OrderLine::AMOUNT.set(&mut new, amount);
            OrderLine::DISTRICT_TEXT.set(&mut new, district_text(&self.texts, at.1));
            let line = keys::order_line(&key, number);
            txn.put_guarded(tables.order_line, &line, Some(&new), guard)?;
            total += i64::from(amount);
            // The brand.
            self.shown = self.shown.wrapping_add(i64::from(original));
        }
        total = total * (10_000 - discount) / 10_000 * (10_000 + tax) / 10_000;
        self.shown = self.shown.wrapping_add(total);
        Ok(Wish::Commit)
    }

    fn payment(&mut self, txn: &Transaction, warehouse: u16, input: &PaymentInput) -> Result<()> {
        let tables = self.tables;
        let key = keys::warehouse(warehouse);
        let row = &mut self.row;
        lock(txn, tables.warehouse, &key, row)?;
        Warehouse::YTD.add(row, input.amount);
        update(txn, tables.warehouse, &key, row)?;
        let mut data = [0; 24];
        data[..10].copy_from_slice(&Warehouse::NAME.get(row));
        let key = keys::district(warehouse, input.district);
        lock(txn, tables.district, &key, row)?;
        District::YTD.add(row, input.amount);
        update(txn, tables.district, &key, row)?;
        data[14..].copy_from_slice(&District::NAME.get(row));

        let customer = self.customer(txn, input.home, &input.by)?;
        let row = &mut self.row;
        let key = keys::customer(input.home.0, input.home.1, customer);
        lock(txn, tables.customer, &key, row)?;
        let balance = Customer::BALANCE.add(row, -input.amount);
        Customer::YTD_PAYMENT.add(row, input.amount);
        let payment = Customer::PAYMENTS.add(row, 1);
        if Customer::CREDIT.get(row) == *b"BC" {
            note_payment(row, customer, warehouse, input);
        }
        update(txn, tables.customer, &key, row)?;
        self.shown = self.shown.wrapping_add(balance);

        let mut new = [0; History::BYTES];
        History::WAREHOUSE.set(&mut new, warehouse);
        History::DISTRICT.set(&mut new, input.district);
        History::DATE.set(&mut new, date());
        History::AMOUNT.set(&mut new, input.amount);
        History::DATA.set(&mut new, data);
        // The customer's row guards the payments: it has their count.
        let guard = (tables.customer, &key[..]);
        let key = keys::history(input.home, customer, payment);
        txn.put_guarded(tables.history, &key, Some(&new), guard)
    }

    fn order_status(&mut self, txn: &Transaction, at: (u16, u8), by: &CustomerBy) -> Result<()> {
        let tables = self.tables;
        let customer = self.customer(txn, at, by)?;
        let key = keys::customer(at.0, at.1, customer);
        read(txn, tables.customer, &key, &mut self.row)?;
        let mut shown = Customer::BALANCE.get(&self.row);
        // The customer's orders have its key as their prefix.
        let end = prefix_end(&key);
        let range = KeyRange::new(&key, end.as_deref());
        let mut orders = txn.scan(tables.order_customer, range, Direction::Backward)?;
        if !orders.advance()? {
            return Err(missing(tables.order_customer));
        }
        let key = keys::order(at.0, at.1, keys::last_u32(orders.key()));
        drop(orders);
        read(txn, tables.order, &key, &mut self.row)?;
        shown += i64::from(Order::CARRIER.get(&self.row));
        let end = prefix_end(&key);
        let range = KeyRange::new(&key, end.as_deref());
        let mut lines = txn.scan(tables.order_line, range, Direction::Forward)?;
        while lines.advance()? {
            shown += i64::from(OrderLine::AMOUNT.get(lines.value()));
        }
        self.shown = self.shown.wrapping_add(shown);
        Ok(())
    }

    fn delivery(&mut self, txn: &Transaction, warehouse: u16, carrier: u8) -> Result<()> {
        let now = date();
        // No entry has this key: it stands for the warehouse's deliveries, which take turns.
        let turn = keys::warehouse(warehouse);
        txn.lock(self.tables.new_order, &turn, LockMode::Exclusive, LockWait::Wait)?;
        for district in 1..=DISTRICTS {
            let prefix = keys::district(warehouse, district);
            let end = prefix_end(&prefix);
            let range = KeyRange::new(&prefix, end.as_deref());
            let mut queue = txn.scan(self.tables.new_order, range, Direction::Forward)?;
            if queue.advance()? {
                let order = keys::order_of(queue.key());
                drop(queue);
                self.deliver(txn, (warehouse, district), order, (carrier, now))?;
            }
        }
        Ok(())
    }

    /// Delivers an order that is in the queue.
    fn deliver(
        &mut self,
        txn: &Transaction,
        at: (u16, u8),
        order: u32,
        (carrier, now): (u8, u64),
    ) -> Result<()> {
        let (tables, row) = (self.tables, &mut self.row);
        let order = keys::order(at.0, at.1, order);
        lock(txn, tables.order, &order, row)?;
        let customer = Order::CUSTOMER.get(row);
        Order::CARRIER.set(row, carrier);
        update(txn, tables.order, &order, row)?;
        let guard = (tables.order, &order[..]);
        txn.put_guarded(tables.new_order, &order, None, guard)?;

        self.lines.clear();
        let end = prefix_end(&order);
        let range = KeyRange::new(&order, end.as_deref());
        let mut scan = txn.scan(tables.order_line, range, Direction::Forward)?;
        while scan.advance()? {
            self.lines.extend_from_slice(scan.value());
        }
        drop(scan);
        let mut amount = 0;
        for (number, line) in (1..).zip(self.lines.chunks_exact_mut(OrderLine::BYTES)) {
            amount += i64::from(OrderLine::AMOUNT.get(line));
            OrderLine::DELIVERED.set(line, now);
            let key = keys::order_line(&order, number);
            txn.put_guarded(tables.order_line, &key, Some(line), guard)?;
        }

        let key = keys::customer(at.0, at.1, customer);
        lock(txn, tables.customer, &key, row)?;
        Customer::BALANCE.add(row, amount);
        Customer::DELIVERIES.add(row, 1);
        update(txn, tables.customer, &key, row)
    }

    fn stock_level(&mut self, txn: &Transaction, at: (u16, u8), threshold: i16) -> Result<()> {
        let (tables, row) = (self.tables, &mut self.row);
        read(txn, tables.district, &keys::district(at.0, at.1), row)?;
        let next = District::NEXT_ORDER.get(row);
        let first = keys::order(at.0, at.1, next.saturating_sub(RECENT_ORDERS));
        let end = keys::order(at.0, at.1, next);
        let items = &mut self.items;
        items.clear();
        let range = KeyRange::new(&first, Some(&end));
        let mut lines = txn.scan(tables.order_line, range, Direction::Forward)?;
        while lines.advance_rows(LINES_TOGETHER)? > 0 {
            lines.rows(&mut |_, line| {
                items.push(OrderLine::ITEM.get(line));
                true
            });
        }
        drop(lines);
        items.sort_unstable();
        items.dedup();
        let mut low = 0;
        for item in items {
            read(txn, tables.stock, &keys::stock(at.0, *item), row)?;
            low += i64::from(Stock::QUANTITY.get(row) < threshold);
        }
        self.shown = self.shown.wrapping_add(low);
        Ok(())
    }

    /// The number of a customer: of several with a last name, the one in the middle by first names
    /// (clause 2.5.2.2).
    fn customer(&mut self, txn: &Transaction, at: (u16, u8), by: &CustomerBy) -> Result<u16> {
        let last = match by {
            CustomerBy::Number(number) => return Ok(*number),
            CustomerBy::LastName(last) => last,
        };
        let prefix = keys::last_name(at.0, at.1, last);
        let end = prefix_end(&prefix);
        let range = KeyRange::new(&prefix, end.as_deref());
        let mut scan = txn.scan(self.tables.customer_name, range, Direction::Forward)?;
        self.customers.clear();
        while scan.advance()? {
            self.customers.push(keys::last_u16(scan.key()));
        }
        let middle = self.customers.len().saturating_sub(1) / 2;
        self.customers.get(middle).copied().ok_or_else(|| missing(self.tables.customer_name))
    }
}

fn missing(table: Table) -> Error {
    Error::corruption("a row that must exist is missing").of_table(table)
}

/// Reads a row that exists.
fn read(txn: &Transaction, table: Table, key: &[u8], row: &mut Vec<u8>) -> Result<()> {
    match txn.get(table, key, row)? {
        true => Ok(()),
        false => Err(missing(table)),
    }
}

/// Locks a row that exists, to change it, and reads its newest version.
fn lock(txn: &Transaction, table: Table, key: &[u8], row: &mut Vec<u8>) -> Result<()> {
    match txn.get_locked(table, key, LockMode::Exclusive, LockWait::Wait, row)? {
        true => Ok(()),
        false => Err(missing(table)),
    }
}

/// Changes a row that this transaction has locked; its own lock guards it.
fn update(txn: &Transaction, table: Table, key: &[u8], row: &[u8]) -> Result<()> {
    txn.put_guarded(table, key, Some(row), (table, key))
}

/// Takes a line's quantity from a row of stock (clause 2.4.2.2).
fn take_from_stock(row: &mut [u8], quantity: u8, remote: bool) {
    let left = Stock::QUANTITY.get(row) - i16::from(quantity);
    Stock::QUANTITY.set(row, if left >= 10 { left } else { left + 91 });
    Stock::YTD.add(row, u32::from(quantity));
    Stock::ORDERS.set(row, Stock::ORDERS.get(row).wrapping_add(1));
    let remotes = Stock::REMOTES.get(row);
    Stock::REMOTES.set(row, remotes.wrapping_add(u16::from(remote)));
}

/// Prepends a payment to the data of a customer with bad credit, and truncates the data (clause
/// 2.5.2.2).
fn note_payment(row: &mut [u8], customer: u16, warehouse: u16, input: &PaymentInput) {
    let mut note = [0; 64];
    let mut left = &mut note[..];
    let written = write!(
        left,
        "{customer} {} {} {} {warehouse} {}.{:02} ",
        input.home.1,
        input.home.0,
        input.district,
        input.amount / 100,
        input.amount % 100
    );
    debug_assert!(written.is_ok(), "a note is shorter");
    let count = 64 - left.len();
    let data = Customer::DATA.bytes(row);
    data.copy_within(..data.len() - count, count);
    data[..count].copy_from_slice(&note[..count]);
}
