//! Random data and the inputs of transactions (clauses 2.1.6, 2.4 to 2.8 and 4.3).

use spillway_base::clock;
use spillway_base::rng::Rng;

use super::schema::{DISTRICTS, Scale};

/// Lines of an order, at most.
pub(super) const LINES_MAX: usize = 15;
/// No item has this number.
const NO_ITEM: u32 = 0;

// The constants C of clause 2.1.6. Those of last names differ between load and run by a number in
// 65..=119 that is neither 96 nor 112.
const C_LAST_LOAD: u64 = 88;
const C_LAST_RUN: u64 = 173;
const C_CUSTOMER: u64 = 259;
const C_ITEM: u64 = 7911;

const SYLLABLES: [&str; 10] =
    ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];

/// The kinds of transactions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TransactionKind {
    NewOrder,
    Payment,
    OrderStatus,
    Delivery,
    StockLevel,
}

impl TransactionKind {
    /// All of them; each at the index that it has as a number.
    pub(super) const ALL: [TransactionKind; 5] = [
        TransactionKind::NewOrder,
        TransactionKind::Payment,
        TransactionKind::OrderStatus,
        TransactionKind::Delivery,
        TransactionKind::StockLevel,
    ];

    /// The name in the report.
    pub(super) fn name(self) -> &'static str {
        match self {
            TransactionKind::NewOrder => "new-order",
            TransactionKind::Payment => "payment",
            TransactionKind::OrderStatus => "order-status",
            TransactionKind::Delivery => "delivery",
            TransactionKind::StockLevel => "stock-level",
        }
    }

    /// Whether it writes nothing.
    pub(super) fn reads_only(self) -> bool {
        matches!(self, TransactionKind::OrderStatus | TransactionKind::StockLevel)
    }
}

/// The way in which a customer is named.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CustomerBy {
    Number(u16),
    LastName([u8; 16]),
}

/// A line of a new order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(super) struct LineInput {
    /// The warehouse that supplies it.
    pub(super) supply: u16,
    pub(super) item: u32,
    pub(super) quantity: u8,
}

/// The inputs of a new-order.
#[derive(Clone, Copy, Debug)]
pub(super) struct NewOrderInput {
    pub(super) district: u8,
    pub(super) customer: u16,
    lines: [LineInput; LINES_MAX],
    count: usize,
}

impl NewOrderInput {
    /// The lines in the order of their rows of stock, so that no two transactions wait for each
    /// other's locks; a line without an item comes last.
    pub(super) fn lines(&self) -> &[LineInput] {
        &self.lines[..self.count]
    }

    /// Whether it names an item that does not exist.
    #[cfg(test)]
    pub(super) fn is_wrong(&self) -> bool {
        self.lines().iter().any(|line| line.item == NO_ITEM)
    }
}

/// The inputs of a payment.
#[derive(Clone, Copy, Debug)]
pub(super) struct PaymentInput {
    pub(super) district: u8,
    /// The warehouse and the district of the customer.
    pub(super) home: (u16, u8),
    pub(super) by: CustomerBy,
    /// In cents.
    pub(super) amount: i64,
}

/// The inputs of a transaction at a warehouse.
#[derive(Clone, Copy, Debug)]
pub(super) enum TransactionInput {
    NewOrder(NewOrderInput),
    Payment(PaymentInput),
    OrderStatus { district: u8, by: CustomerBy },
    Delivery { carrier: u8 },
    StockLevel { district: u8, threshold: i16 },
}

impl TransactionInput {
    pub(super) fn kind(&self) -> TransactionKind {
        match self {
            TransactionInput::NewOrder(_) => TransactionKind::NewOrder,
            TransactionInput::Payment(_) => TransactionKind::Payment,
            TransactionInput::OrderStatus { .. } => TransactionKind::OrderStatus,
            TransactionInput::Delivery { .. } => TransactionKind::Delivery,
            TransactionInput::StockLevel { .. } => TransactionKind::StockLevel,
        }
    }
}

/// The current date and time.
pub(super) fn date() -> u64 {
    clock::wall().as_micros() as u64
}

/// The last name of a number (clause 4.3.2.3).
pub(super) fn last_name(number: u16) -> [u8; 16] {
    let mut name = [0; 16];
    let mut at = 0;
    for digit in [number / 100, number / 10 % 10, number % 10] {
        let syllable = SYLLABLES[usize::from(digit)].as_bytes();
        name[at..at + syllable.len()].copy_from_slice(syllable);
        at += syllable.len();
    }
    name
}

/// Random data of a scale.
pub(super) struct Draws {
    pub(super) rng: Rng,
    scale: Scale,
}

impl Draws {
    pub(super) fn new(seed: u64, scale: Scale) -> Draws {
        Draws { rng: Rng::new(seed), scale }
    }

    /// A number in this range, including both bounds.
    pub(super) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.rng.below(high - low + 1)
    }

    /// NURand (clause 2.1.6).
    fn skewed(&mut self, spread: u64, c: u64, (low, high): (u64, u64)) -> u64 {
        let number = self.between(0, spread) | self.between(low, high);
        (number + c) % (high - low + 1) + low
    }

    /// The last name of a loaded customer: first each name once, then random ones.
    pub(super) fn loaded_last_name(&mut self, customer: u16) -> [u8; 16] {
        let names = self.scale.names();
        let number = match customer {
            1.. if customer <= names => customer - 1,
            _ => self.skewed(255, C_LAST_LOAD, (0, u64::from(names) - 1)) as u16,
        };
        last_name(number)
    }

    fn customer(&mut self) -> u16 {
        self.skewed(1023, C_CUSTOMER, (1, u64::from(self.scale.customers))) as u16
    }

    fn customer_by(&mut self) -> CustomerBy {
        if self.rng.chance(60, 100) {
            let names = u64::from(self.scale.names());
            CustomerBy::LastName(last_name(self.skewed(255, C_LAST_RUN, (0, names - 1)) as u16))
        } else {
            CustomerBy::Number(self.customer())
        }
    }

    /// A district.
    fn district(&mut self) -> u8 {
        self.between(1, u64::from(DISTRICTS)) as u8
    }

    /// A warehouse other than this one; this one if there is no other.
    fn other_than(&mut self, warehouse: u16) -> u16 {
        if self.scale.warehouses == 1 {
            return warehouse;
        }
        let other = self.between(1, u64::from(self.scale.warehouses) - 1) as u16;
        other + u16::from(other >= warehouse)
    }

    /// The inputs of the next transaction of a terminal at a warehouse (TPCC-1).
    pub(super) fn transaction(&mut self, warehouse: u16) -> TransactionInput {
        match self.rng.below(100) {
            0..45 => TransactionInput::NewOrder(self.new_order(warehouse)),
            45..88 => TransactionInput::Payment(self.payment(warehouse)),
            88..92 => {
                TransactionInput::OrderStatus { district: self.district(), by: self.customer_by() }
            }
            92..96 => TransactionInput::Delivery { carrier: self.between(1, 10) as u8 },
            _ => TransactionInput::StockLevel {
                district: self.district(),
                threshold: self.between(10, 20) as i16,
            },
        }
    }

    fn new_order(&mut self, warehouse: u16) -> NewOrderInput {
        let (district, customer) = (self.district(), self.customer());
        let count = self.between(5, LINES_MAX as u64) as usize;
        let mut lines = [LineInput::default(); LINES_MAX];
        for line in &mut lines[..count] {
            let item = self.skewed(8191, C_ITEM, (1, u64::from(self.scale.items))) as u32;
            let remote = self.rng.chance(1, 100);
            let supply = if remote { self.other_than(warehouse) } else { warehouse };
            *line = LineInput { supply, item, quantity: self.between(1, 10) as u8 };
        }
        lines[..count].sort_unstable();
        if self.rng.chance(1, 100) {
            lines[count - 1].item = NO_ITEM;
        }
        NewOrderInput { district, customer, lines, count }
    }

    fn payment(&mut self, warehouse: u16) -> PaymentInput {
        let district = self.district();
        let remote = self.scale.warehouses > 1 && self.rng.chance(15, 100);
        let home = match remote {
            true => (self.other_than(warehouse), self.district()),
            false => (warehouse, district),
        };
        let amount = self.between(100, 500_000) as i64;
        PaymentInput { district, home, by: self.customer_by(), amount }
    }

    /// Fills the beginning of a column with at least `least` random letters.
    pub(super) fn letters(&mut self, column: &mut [u8], least: usize) {
        let count = self.between(least as u64, column.len() as u64) as usize;
        for letter in &mut column[..count] {
            *letter = b'a' + self.rng.below(26) as u8;
        }
    }

    /// Fills a column with random digits.
    pub(super) fn digits(&mut self, column: &mut [u8]) {
        for digit in column {
            *digit = b'0' + self.rng.below(10) as u8;
        }
    }

    /// A zip code.
    pub(super) fn zip(&mut self) -> [u8; 9] {
        let mut zip = *b"000011111";
        self.digits(&mut zip[..4]);
        zip
    }

    /// Fills the data of an item or of its stock. One in ten has the mark of original items.
    pub(super) fn data(&mut self, column: &mut [u8]) {
        self.letters(column, 26);
        if self.rng.chance(1, 10) {
            let at = self.between(0, 26 - ORIGINAL.len() as u64) as usize;
            column[at..at + ORIGINAL.len()].copy_from_slice(ORIGINAL);
        }
    }

    /// The numbers from 1 on in random order.
    pub(super) fn permutation(&mut self, count: u16) -> Vec<u16> {
        let mut numbers: Vec<u16> = (1..=count).collect();
        for at in (1..numbers.len()).rev() {
            numbers.swap(at, self.rng.below(at as u64 + 1) as usize);
        }
        numbers
    }
}

/// The mark of original items.
const ORIGINAL: &[u8] = b"ORIGINAL";

/// Whether data has the mark of original items. All other letters are small.
pub(super) fn is_original(data: &[u8]) -> bool {
    let first = data.iter().position(|letter| *letter == ORIGINAL[0]);
    first.is_some_and(|at| data[at..].starts_with(ORIGINAL))
}
