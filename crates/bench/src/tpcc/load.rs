//! The initial database (clause 4.3.3).

use spillway::{Database, Durability, Result, Table, Transaction, TransactionOptions};

use super::inputs::{Draws, date};
use super::keys;
use super::rows::{
    Customer, District, History, Item, Order, OrderLine, Stock, StockTexts, Warehouse,
};
use super::schema::{Scale, Tables};

/// Rows of one transaction of the load.
const ROWS_TOGETHER: usize = 500;

/// The amount of each customer's payment when it is loaded, in cents.
pub(super) const FIRST_PAYMENT: i64 = 1000;

/// Fills the tables. Commits are durable when it returns.
///
/// # Errors
/// As `put` of a transaction, [`Database::flush`] and [`Database::compact`].
pub(super) fn load(db: &Database, tables: &Tables, scale: Scale, seed: u64) -> Result<()> {
    let mut loader = Loader {
        db,
        tables,
        scale,
        draws: Draws::new(seed, scale),
        txn: begin(db),
        rows: 0,
        date: date(),
    };
    (1..=scale.items).try_for_each(|item| loader.item(item))?;
    for warehouse in scale.all_warehouses() {
        loader.warehouse(warehouse)?;
        (1..=scale.items).try_for_each(|item| loader.stock(warehouse, item))?;
    }
    for at in scale.all_districts() {
        loader.district(at)?;
        (1..=scale.customers).try_for_each(|customer| loader.customer(at, customer))?;
        let buyers = loader.draws.permutation(scale.customers);
        (1_u32..)
            .zip(buyers)
            .try_for_each(|(order, customer)| loader.order(at, order, customer))?;
    }
    loader.txn.commit().wait()?;
    // The run must not include flushes and compactions of the load.
    db.flush()?;
    db.compact()
}

fn begin(db: &Database) -> Transaction {
    db.begin(TransactionOptions::new().durability(Durability::Relaxed))
}

struct Loader<'a> {
    db: &'a Database,
    tables: &'a Tables,
    scale: Scale,
    draws: Draws,
    txn: Transaction,
    /// The rows that the transaction has.
    rows: usize,
    date: u64,
}

impl Loader<'_> {
    fn put(&mut self, table: Table, key: &[u8], row: &[u8]) -> Result<()> {
        self.txn.put(table, key, row)?;
        self.rows += 1;
        if self.rows.is_multiple_of(ROWS_TOGETHER) {
            let full = std::mem::replace(&mut self.txn, begin(self.db));
            full.commit().wait()?;
        }
        Ok(())
    }

    fn item(&mut self, item: u32) -> Result<()> {
        let mut row = [0; Item::BYTES];
        Item::IMAGE.set(&mut row, self.draws.between(1, 10_000) as u32);
        Item::PRICE.set(&mut row, self.draws.between(100, 10_000) as u32);
        self.draws.letters(Item::NAME.bytes(&mut row), 14);
        self.draws.data(Item::DATA.bytes(&mut row));
        self.put(self.tables.item, &keys::item(item), &row)
    }

    fn warehouse(&mut self, warehouse: u16) -> Result<()> {
        let mut row = [0; Warehouse::BYTES];
        let paid = 10 * i64::from(self.scale.customers) * FIRST_PAYMENT;
        Warehouse::YTD.set(&mut row, paid);
        Warehouse::TAX.set(&mut row, self.draws.between(0, 2000) as u16);
        self.draws.letters(Warehouse::NAME.bytes(&mut row), 6);
        self.draws.letters(Warehouse::STREET_1.bytes(&mut row), 10);
        self.draws.letters(Warehouse::STREET_2.bytes(&mut row), 10);
        self.draws.letters(Warehouse::CITY.bytes(&mut row), 10);
        self.draws.letters(Warehouse::STATE.bytes(&mut row), 2);
        Warehouse::ZIP.set(&mut row, self.draws.zip());
        self.put(self.tables.warehouse, &keys::warehouse(warehouse), &row)
    }

    fn stock(&mut self, warehouse: u16, item: u32) -> Result<()> {
        let key = keys::stock(warehouse, item);
        let mut row = [0; Stock::BYTES];
        Stock::QUANTITY.set(&mut row, self.draws.between(10, 100) as i16);
        self.put(self.tables.stock, &key, &row)?;
        let mut texts = [0; StockTexts::BYTES];
        self.draws.letters(StockTexts::DISTRICTS.bytes(&mut texts), 240);
        self.draws.data(StockTexts::DATA.bytes(&mut texts));
        self.put(self.tables.stock_texts, &key, &texts)
    }

    fn district(&mut self, at: (u16, u8)) -> Result<()> {
        let mut row = [0; District::BYTES];
        District::YTD.set(&mut row, i64::from(self.scale.customers) * FIRST_PAYMENT);
        District::NEXT_ORDER.set(&mut row, u32::from(self.scale.customers) + 1);
        District::TAX.set(&mut row, self.draws.between(0, 2000) as u16);
        self.draws.letters(District::NAME.bytes(&mut row), 6);
        self.draws.letters(District::STREET_1.bytes(&mut row), 10);
        self.draws.letters(District::STREET_2.bytes(&mut row), 10);
        self.draws.letters(District::CITY.bytes(&mut row), 10);
        self.draws.letters(District::STATE.bytes(&mut row), 2);
        District::ZIP.set(&mut row, self.draws.zip());
        self.put(self.tables.district, &keys::district(at.0, at.1), &row)
    }

    fn customer(&mut self, at: (u16, u8), customer: u16) -> Result<()> {
        let mut row = [0; Customer::BYTES];
        Customer::BALANCE.set(&mut row, -FIRST_PAYMENT);
        Customer::YTD_PAYMENT.set(&mut row, FIRST_PAYMENT);
        Customer::PAYMENTS.set(&mut row, 1);
        let credit = if self.draws.rng.chance(1, 10) { b"BC" } else { b"GC" };
        Customer::CREDIT.set(&mut row, *credit);
        Customer::DISCOUNT.set(&mut row, self.draws.between(0, 5000) as u16);
        Customer::CREDIT_LIMIT.set(&mut row, 5_000_000);
        Customer::SINCE.set(&mut row, self.date);
        let last = self.draws.loaded_last_name(customer);
        let mut first = [0; 16];
        self.draws.letters(&mut first, 8);
        Customer::FIRST.set(&mut row, first);
        Customer::MIDDLE.set(&mut row, *b"OE");
        Customer::LAST.set(&mut row, last);
        self.draws.letters(Customer::STREET_1.bytes(&mut row), 10);
        self.draws.letters(Customer::STREET_2.bytes(&mut row), 10);
        self.draws.letters(Customer::CITY.bytes(&mut row), 10);
        self.draws.letters(Customer::STATE.bytes(&mut row), 2);
        Customer::ZIP.set(&mut row, self.draws.zip());
        self.draws.digits(Customer::PHONE.bytes(&mut row));
        self.draws.letters(Customer::DATA.bytes(&mut row), 300);
        self.put(self.tables.customer, &keys::customer(at.0, at.1, customer), &row)?;
        let name = keys::customer_name(at, &last, &first, customer);
        self.put(self.tables.customer_name, &name, &[])?;

        let mut history = [0; History::BYTES];
        History::WAREHOUSE.set(&mut history, at.0);
        History::DISTRICT.set(&mut history, at.1);
        History::DATE.set(&mut history, self.date);
        History::AMOUNT.set(&mut history, FIRST_PAYMENT);
        self.draws.letters(History::DATA.bytes(&mut history), 12);
        self.put(self.tables.history, &keys::history(at, customer, 1), &history)
    }

    fn order(&mut self, at: (u16, u8), order: u32, customer: u16) -> Result<()> {
        let key = keys::order(at.0, at.1, order);
        let delivered = order <= self.scale.delivered();
        let lines = self.draws.between(5, 15) as u8;
        let mut row = [0; Order::BYTES];
        Order::CUSTOMER.set(&mut row, customer);
        Order::ENTERED.set(&mut row, self.date);
        if delivered {
            Order::CARRIER.set(&mut row, self.draws.between(1, 10) as u8);
        }
        Order::LINES.set(&mut row, lines);
        Order::ALL_LOCAL.set(&mut row, 1);
        self.put(self.tables.order, &key, &row)?;
        self.put(self.tables.order_customer, &keys::order_customer(at, customer, order), &[])?;
        if !delivered {
            self.put(self.tables.new_order, &key, &[])?;
        }
        for number in 1..=lines {
            let mut line = [0; OrderLine::BYTES];
            let item = self.draws.between(1, u64::from(self.scale.items)) as u32;
            OrderLine::ITEM.set(&mut line, item);
            OrderLine::SUPPLY.set(&mut line, at.0);
            OrderLine::QUANTITY.set(&mut line, 5);
            if delivered {
                OrderLine::DELIVERED.set(&mut line, self.date);
            } else {
                OrderLine::AMOUNT.set(&mut line, self.draws.between(1, 999_999) as u32);
            }
            self.draws.letters(OrderLine::DISTRICT_TEXT.bytes(&mut line), 24);
            self.put(self.tables.order_line, &keys::order_line(&key, number), &line)?;
        }
        Ok(())
    }
}
