//! Columns of one table's rows, buffered for ORDER BY or DISTINCT.
//!
//! Rows go from storage into one buffer, and from the buffer to the client. No row is decoded into
//! values, and no row has a memory allocation of its own. For each row, the buffer also has the
//! first bytes of the row's first sort key, as a number; most comparisons of rows need only this
//! number.
//!
//! - **ROW-BUFFER-1.** The buffer returns rows in the order of ORDER BY. Rows with equal sort keys
//!   keep the order in which they were added.
//! - **ROW-BUFFER-2.** With DISTINCT, the buffer returns only the first of the rows that are equal
//!   in all columns of the result.
//! - **ROW-BUFFER-3.** If LIMIT wants the first N rows of a query without DISTINCT, the buffer
//!   holds at most 2 N rows, or 1,024 if that is more. With DISTINCT, the buffer holds, for any
//!   LIMIT, at most twice as many rows as there are distinct rows, or 1,024 if that is more. The
//!   buffered rows are charged to the memory budget ([`HeldMemory`]).

use std::cmp::Ordering;

use spillway_types::{Collation, Decimal, Field, ValueRef};

use super::row_sink::{COLUMNS, ColumnValue, TakeColumns, TakeRow};
use super::sort::{DistinctRows, HeldMemory, order_of};
use crate::errors::Result;
use crate::expression::Context;
use crate::planner::{Gathering, OrderColumn};

/// A buffered value. Texts and bytes lie in buffers that all rows share.
#[derive(Clone, Copy)]
enum BufferedValue {
    Plain(Field<'static>),
    Text {
        at: usize,
        len: usize,
    },
    Bytes {
        at: usize,
        len: usize,
    },
    /// The value's index among the decimals.
    Decimal(usize),
}

/// A row's position, and the first bytes of its first sort key.
#[derive(Clone, Copy)]
struct OrderedRow {
    /// Rows with different heads are ordered by their heads; equal heads decide nothing.
    head: u64,
    row: usize,
}

/// The type of the first sort key's values. Heads of different types cannot be compared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum HeadKind {
    Int,
    UInt,
    Text,
    Bytes,
    Other,
}

/// How duplicate rows are removed.
enum Once {
    /// All rows are kept.
    No,
    /// The order makes duplicates adjacent, and they are dropped after the sort.
    ByOrder,
    /// A row that is in the set of previous rows is not added.
    Seen(DistinctRows),
}

/// Buffers rows in order to sort them or to remove duplicates.
pub(super) struct Gatherer<'g> {
    gathering: &'g Gathering,
    once: Once,
    most: Option<usize>,
    /// The bytes of all texts, and those of all bytes values, each in one buffer. Texts are valid
    /// UTF-8 already, and are not validated again.
    text: String,
    bytes: Vec<u8>,
    decimals: Vec<Decimal>,
    values: Vec<BufferedValue>,
    places: Vec<OrderedRow>,
    kind: Option<HeadKind>,
    /// Whether heads cannot be compared, because the first sort key had values of several types.
    headless: bool,
    /// When there are this many rows, those that will not be emitted are dropped.
    full_at: usize,
    held: HeldMemory,
}

/// How many rows the buffers have room for when the first row comes.
const ROWS_FIRST: usize = 32;

/// The buffer holds at least this many rows before it drops any.
const ROWS_LEAST: usize = 1024;

impl<'g> Gatherer<'g> {
    /// A buffer for `gathering`. At most `most` rows are needed.
    pub(super) fn new(
        context: &Context<'_>,
        gathering: &'g Gathering,
        most: Option<u64>,
    ) -> Gatherer<'g> {
        let once = match &gathering.once {
            None => Once::No,
            Some(collations) if gathering.sorts_equals_together(collations) => Once::ByOrder,
            Some(collations) => Once::Seen(DistinctRows::new(context, collations.clone())),
        };
        let most = most.and_then(|most| usize::try_from(most).ok());
        let most = most.filter(|_| gathering.once.is_none());
        let full_at = match (&once, most) {
            (Once::ByOrder, _) => ROWS_LEAST,
            (_, Some(most)) => most.saturating_mul(2).max(ROWS_LEAST),
            _ => usize::MAX,
        };
        Gatherer {
            gathering,
            once,
            most,
            text: String::new(),
            bytes: Vec::new(),
            decimals: Vec::new(),
            values: Vec::new(),
            places: Vec::new(),
            kind: None,
            headless: false,
            full_at,
            held: HeldMemory::new(context),
        }
    }

    /// Adds a row, or passes it on at once if the rows need no order. Returns `false` if no more
    /// rows are needed.
    fn take<'v, V: ColumnValue<'v>>(
        &mut self,
        values: &[V],
        emit: &mut dyn TakeRow,
    ) -> Result<bool> {
        let shown = &values[..self.gathering.shown];
        if let Once::Seen(keys) = &mut self.once
            && !keys.insert(shown.iter().map(|value| (*value).into()))?
        {
            return Ok(true);
        }
        let Some(first) = self.gathering.order.first() else { return V::give(shown, emit) };
        let head = self.head(values[first.place].into(), *first);
        if self.places.is_empty() {
            self.values.reserve(ROWS_FIRST * values.len());
            self.places.reserve(ROWS_FIRST);
        }
        for value in values {
            let kept = self.keep((*value).into());
            self.values.push(kept);
        }
        let row = self.places.len();
        self.places.push(OrderedRow { head, row });
        self.held.set_bytes(self.memory_bytes())?;
        if self.places.len() >= self.full_at {
            self.let_go()?;
        }
        Ok(true)
    }

    /// Emits the rows in order.
    pub(super) fn finish(mut self, emit: &mut dyn TakeRow) -> Result<()> {
        self.settle();
        let fields = self.decimals.is_empty() && self.gathering.shown <= COLUMNS;
        let mut room = [Field::Null; COLUMNS];
        for place in &self.places {
            let shown = &self.row(place.row)[..self.gathering.shown];
            let more = if fields {
                for (field, kept) in room.iter_mut().zip(shown) {
                    *field = self.field(kept).unwrap_or(Field::Null);
                }
                emit.fields(&room[..shown.len()])?
            } else {
                let values: Vec<_> = shown.iter().map(|kept| self.value(kept)).collect();
                emit.values(&values)?
            };
            if !more {
                break;
            }
        }
        Ok(())
    }

    /// The bytes of allocated memory, whether used or not.
    fn memory_bytes(&self) -> usize {
        self.text.capacity()
            + self.bytes.capacity()
            + self.decimals.capacity() * size_of::<Decimal>()
            + self.values.capacity() * size_of::<BufferedValue>()
            + self.places.capacity() * size_of::<OrderedRow>()
    }

    fn keep(&mut self, value: ValueRef<'_>) -> BufferedValue {
        match value {
            ValueRef::Text(text) => {
                let at = self.text.len();
                self.text.push_str(text);
                BufferedValue::Text { at, len: text.len() }
            }
            ValueRef::Bytes(bytes) => {
                let at = self.bytes.len();
                self.bytes.extend_from_slice(bytes);
                BufferedValue::Bytes { at, len: bytes.len() }
            }
            ValueRef::Decimal(value) => {
                self.decimals.push(value);
                BufferedValue::Decimal(self.decimals.len() - 1)
            }
            ValueRef::Null => BufferedValue::Plain(Field::Null),
            ValueRef::Int(value) => BufferedValue::Plain(Field::Int(value)),
            ValueRef::UInt(value) => BufferedValue::Plain(Field::UInt(value)),
            ValueRef::Float(value) => BufferedValue::Plain(Field::Float(value)),
            ValueRef::Double(value) => BufferedValue::Plain(Field::Double(value)),
            ValueRef::Date(value) => BufferedValue::Plain(Field::Date(value)),
            ValueRef::Time(value) => BufferedValue::Plain(Field::Time(value)),
            ValueRef::DateTime(value) => BufferedValue::Plain(Field::DateTime(value)),
        }
    }

    fn row(&self, row: usize) -> &[BufferedValue] {
        let columns = self.gathering.columns.len();
        &self.values[row * columns..(row + 1) * columns]
    }

    /// A value as a field; `None` for a decimal.
    #[inline]
    fn field(&self, kept: &BufferedValue) -> Option<Field<'_>> {
        Some(match *kept {
            BufferedValue::Plain(field) => field,
            BufferedValue::Bytes { at, len } => Field::Bytes(&self.bytes[at..at + len]),
            BufferedValue::Text { at, len } => Field::Text(&self.text[at..at + len]),
            BufferedValue::Decimal(_) => return None,
        })
    }

    #[inline]
    fn value(&self, kept: &BufferedValue) -> ValueRef<'_> {
        match (self.field(kept), kept) {
            (Some(field), _) => field.value(),
            (None, BufferedValue::Decimal(at)) => ValueRef::Decimal(self.decimals[*at]),
            (None, _) => ValueRef::Null,
        }
    }

    /// The head of a row, from the value of its first sort key.
    fn head(&mut self, value: ValueRef<'_>, key: OrderColumn) -> u64 {
        let (kind, head) = match value {
            // NULL sorts before all values. Its head equals that of the least value, so the values
            // decide.
            ValueRef::Null => return if key.ascending { 0 } else { u64::MAX },
            ValueRef::Int(value) => (HeadKind::Int, value as u64 ^ 1 << 63),
            ValueRef::UInt(value) => (HeadKind::UInt, value),
            ValueRef::Text(text) => (HeadKind::Text, key.collation.head(text.as_bytes())),
            ValueRef::Bytes(bytes) => (HeadKind::Bytes, Collation::Binary.head(bytes)),
            _ => (HeadKind::Other, 0),
        };
        if *self.kind.get_or_insert(kind) != kind {
            self.headless = true;
        }
        if key.ascending { head } else { !head }
    }

    /// Compares two rows by their sort keys, without the heads.
    fn compare(&self, a: usize, b: usize) -> Ordering {
        let (a, b) = (self.row(a), self.row(b));
        for OrderColumn { place, ascending, collation } in &self.gathering.order {
            let (a, b) = (self.value(&a[*place]), self.value(&b[*place]));
            let order = match (a, b) {
                (ValueRef::Int(a), ValueRef::Int(b)) => a.cmp(&b),
                (ValueRef::Text(a), ValueRef::Text(b)) => {
                    collation.compare(a.as_bytes(), b.as_bytes())
                }
                (a, b) => order_of(&a.to_owned(), &b.to_owned(), true, *collation),
            };
            if order.is_ne() {
                return if *ascending { order } else { order.reverse() };
            }
        }
        Ordering::Equal
    }

    /// Sorts the rows and drops those that will not be emitted.
    fn settle(&mut self) {
        let mut places = std::mem::take(&mut self.places);
        if self.headless {
            places.iter_mut().for_each(|place| place.head = 0);
        }
        places.sort_unstable_by(|a, b| {
            let by_head = a.head.cmp(&b.head);
            by_head.then_with(|| self.compare(a.row, b.row)).then(a.row.cmp(&b.row))
        });
        if matches!(self.once, Once::ByOrder) {
            places.dedup_by(|b, a| a.head == b.head && self.compare(a.row, b.row).is_eq());
        }
        places.truncate(self.most.unwrap_or(usize::MAX));
        self.places = places;
    }

    /// Drops the rows that will not be emitted, and frees their memory.
    fn let_go(&mut self) -> Result<()> {
        self.settle();
        // Old and new buffers exist together for a moment. The new ones are at most as long as the
        // old ones.
        let copied = self.text.len()
            + self.bytes.len()
            + self.decimals.len() * size_of::<Decimal>()
            + self.values.len() * size_of::<BufferedValue>();
        self.held.set_bytes(self.memory_bytes() + copied)?;
        let (text, bytes) = (std::mem::take(&mut self.text), std::mem::take(&mut self.bytes));
        let decimals = std::mem::take(&mut self.decimals);
        let values = std::mem::take(&mut self.values);
        let columns = self.gathering.columns.len();
        for at in 0..self.places.len() {
            let row = self.places[at].row;
            for kept in &values[row * columns..(row + 1) * columns] {
                let kept = match *kept {
                    BufferedValue::Plain(field) => BufferedValue::Plain(field),
                    BufferedValue::Decimal(at) => self.keep(ValueRef::Decimal(decimals[at])),
                    BufferedValue::Text { at, len } => {
                        self.keep(ValueRef::Text(&text[at..at + len]))
                    }
                    BufferedValue::Bytes { at, len } => {
                        self.keep(ValueRef::Bytes(&bytes[at..at + len]))
                    }
                };
                self.values.push(kept);
            }
            self.places[at].row = at;
        }
        drop((text, bytes, decimals, values));
        self.held.set_bytes(self.memory_bytes())?;
        if matches!(self.once, Once::ByOrder) {
            self.full_at = (2 * self.places.len()).max(ROWS_LEAST);
        }
        Ok(())
    }
}

/// A buffer, and the receiver of rows that need not be buffered.
impl TakeColumns for &mut (Gatherer<'_>, &mut dyn TakeRow) {
    #[inline]
    fn columns<'v, V: ColumnValue<'v>>(&mut self, row: &[V]) -> Result<bool> {
        let (gatherer, emit) = &mut **self;
        gatherer.take(row, &mut **emit)
    }
}
