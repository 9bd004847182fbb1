//! The rows of the tables (clause 1.3). The columns of a key are stored only in the key
//! ([`super::keys`]), not in the row.
//!
//! Amounts are in cents, rates in hundredths of a percent, dates in microseconds since 1970. A
//! carrier or a date of 0 is NULL. Texts are padded with zeros.

use super::layout::{Column, ColumnType, layout};

layout! {
    /// WAREHOUSE.
    Warehouse {
        YTD: i64,
        TAX: u16,
        NAME: [u8; 10],
        STREET_1: [u8; 20],
        STREET_2: [u8; 20],
        CITY: [u8; 20],
        STATE: [u8; 2],
        ZIP: [u8; 9],
    }
}

layout! {
    /// DISTRICT.
    District {
        YTD: i64,
        NEXT_ORDER: u32,
        TAX: u16,
        NAME: [u8; 10],
        STREET_1: [u8; 20],
        STREET_2: [u8; 20],
        CITY: [u8; 20],
        STATE: [u8; 2],
        ZIP: [u8; 9],
    }
}

layout! {
    /// CUSTOMER.
    Customer {
        BALANCE: i64,
        YTD_PAYMENT: i64,
        PAYMENTS: u32,
        DELIVERIES: u32,
        CREDIT: [u8; 2],
        DISCOUNT: u16,
        CREDIT_LIMIT: i64,
        SINCE: u64,
        FIRST: [u8; 16],
        MIDDLE: [u8; 2],
        LAST: [u8; 16],
        STREET_1: [u8; 20],
        STREET_2: [u8; 20],
        CITY: [u8; 20],
        STATE: [u8; 2],
        ZIP: [u8; 9],
        PHONE: [u8; 16],
        DATA: [u8; 500],
    }
}

layout! {
    /// HISTORY: a payment of the customer in its key, received by a district.
    History {
        WAREHOUSE: u16,
        DISTRICT: u8,
        DATE: u64,
        AMOUNT: i64,
        DATA: [u8; 24],
    }
}

layout! {
    /// ORDER.
    Order {
        CUSTOMER: u16,
        ENTERED: u64,
        CARRIER: u8,
        LINES: u8,
        ALL_LOCAL: u8,
    }
}

layout! {
    /// ORDER-LINE.
    OrderLine {
        ITEM: u32,
        SUPPLY: u16,
        DELIVERED: u64,
        QUANTITY: u8,
        AMOUNT: u32,
        DISTRICT_TEXT: [u8; 24],
    }
}

layout! {
    /// ITEM.
    Item {
        IMAGE: u32,
        PRICE: u32,
        NAME: [u8; 24],
        DATA: [u8; 50],
    }
}

layout! {
    /// The columns of STOCK that change.
    Stock {
        QUANTITY: i16,
        YTD: u32,
        ORDERS: u16,
        REMOTES: u16,
    }
}

layout! {
    /// The columns of STOCK that do not change.
    StockTexts {
        DISTRICTS: [u8; 240],
        DATA: [u8; 50],
    }
}

/// The text of a district in a row of [`StockTexts`].
pub(super) fn district_text(row: &[u8], district: u8) -> [u8; 24] {
    Column::at(usize::from(district - 1) * 24).get(row)
}
