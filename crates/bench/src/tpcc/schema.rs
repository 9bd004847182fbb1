//! The tables, the engine of each, and their sizes.

use clap::ValueEnum;
use spillway::{Database, EngineKind, Result, Table, TransactionOptions};

/// Districts of a warehouse.
pub(super) const DISTRICTS: u8 = 10;

/// The engines of the tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(super) enum Placement {
    /// All tables in the memory engine.
    Memory,
    /// All tables in the tiered engine.
    Tiered,
    /// History, orders and order lines in the tiered engine, all others in the memory engine.
    Mixed,
}

impl Placement {
    /// The name in the report.
    pub(super) fn name(self) -> &'static str {
        match self {
            Placement::Memory => "memory",
            Placement::Tiered => "tiered",
            Placement::Mixed => "mixed",
        }
    }

    /// The engine of a table. `grows` says whether the table only grows.
    fn of(self, grows: bool) -> EngineKind {
        match self {
            Placement::Memory => EngineKind::Memory,
            Placement::Mixed if !grows => EngineKind::Memory,
            Placement::Tiered | Placement::Mixed => EngineKind::Tiered,
        }
    }
}

/// The sizes of the tables.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    /// Warehouses.
    pub(super) warehouses: u16,
    /// Items, and rows of stock of each warehouse; 100,000 in the specification.
    pub(super) items: u32,
    /// Customers of each district, and orders that it begins with; 3,000 in the specification.
    pub(super) customers: u16,
}

impl Scale {
    /// The orders of each district that are delivered when it begins: 2,100 in the specification.
    pub(super) fn delivered(&self) -> u32 {
        u32::from(self.customers) * 7 / 10
    }

    /// The number of last names.
    pub(super) fn names(&self) -> u16 {
        self.customers.min(1000)
    }

    /// All warehouses.
    pub(super) fn all_warehouses(&self) -> impl Iterator<Item = u16> + use<> {
        1..=self.warehouses
    }

    /// All districts of all warehouses.
    pub(super) fn all_districts(&self) -> impl Iterator<Item = (u16, u8)> + use<> {
        self.all_warehouses()
            .flat_map(|warehouse| (1..=DISTRICTS).map(move |district| (warehouse, district)))
    }
}

/// The tables' numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tables {
    pub(super) warehouse: Table,
    pub(super) district: Table,
    pub(super) customer: Table,
    /// The index of customers by names; its values are empty.
    pub(super) customer_name: Table,
    pub(super) history: Table,
    /// The queue of orders that were not delivered; its values are empty.
    pub(super) new_order: Table,
    pub(super) order: Table,
    /// The index of orders by customers; its values are empty.
    pub(super) order_customer: Table,
    pub(super) order_line: Table,
    pub(super) item: Table,
    pub(super) stock: Table,
    pub(super) stock_texts: Table,
}

impl Tables {
    /// Gets each table from a function, which receives the table's name and whether it only grows.
    fn each(mut table: impl FnMut(&str, bool) -> Result<Table>) -> Result<Tables> {
        Ok(Tables {
            warehouse: table("warehouse", false)?,
            district: table("district", false)?,
            customer: table("customer", false)?,
            customer_name: table("customer_name", false)?,
            history: table("history", true)?,
            new_order: table("new_order", false)?,
            order: table("order", true)?,
            order_customer: table("order_customer", false)?,
            order_line: table("order_line", true)?,
            item: table("item", false)?,
            stock: table("stock", false)?,
            stock_texts: table("stock_texts", false)?,
        })
    }

    /// Creates the tables.
    ///
    /// # Errors
    /// As [`spillway::Transaction::create_table`].
    pub(super) fn create(db: &Database, placement: Placement) -> Result<Tables> {
        let txn = db.begin(TransactionOptions::new());
        let tables = Tables::each(|name, grows| txn.create_table(name, placement.of(grows)))?;
        txn.commit().wait()?;
        Ok(tables)
    }

    /// Finds the tables.
    ///
    /// # Errors
    /// As [`spillway::Transaction::table`].
    #[cfg(test)]
    pub(super) fn find(db: &Database) -> Result<Tables> {
        let txn = db.begin(TransactionOptions::new().read_only(true));
        Tables::each(|name, _| txn.table(name))
    }
}
