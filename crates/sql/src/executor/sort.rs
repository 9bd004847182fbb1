//! Sorting and grouping of rows, and the rows that a statement buffers for both.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};

use foldhash::quality::RandomState;
use spillway::Budget;
use spillway_base::budget::{Charge, Use};
use spillway_types::convert::{to_datetime, to_decimal};
use spillway_types::value::write_text;
use spillway_types::{Collation, Value, ValueRef};

use super::row_sink::Emit;
use crate::errors::{Result, SqlError};
use crate::expression::{Context, Expr, compare};
use crate::planner::Row;

/// The order of two values. NULL comes first in ascending order.
pub(crate) fn order_of(a: &Value, b: &Value, ascending: bool, collation: Collation) -> Ordering {
    let order = match (a.is_null(), b.is_null()) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
        _ => compare(a, b, collation).unwrap_or(Ordering::Equal),
    };
    if ascending { order } else { order.reverse() }
}

/// Bytes that are equal if the values are equal, for grouping and joining.
pub(crate) fn group_key(values: &[Value], collations: &[Collation]) -> Vec<u8> {
    let mut out = Vec::new();
    group_key_into(values.iter().map(Value::as_ref), collations, &mut out);
    out
}

/// Appends the bytes of [`group_key`].
pub(crate) fn group_key_into<'v>(
    values: impl Iterator<Item = ValueRef<'v>>,
    collations: &[Collation],
    out: &mut Vec<u8>,
) {
    for (value, collation) in values.zip(collations) {
        let start = out.len();
        match value {
            ValueRef::Null => out.push(0),
            ValueRef::Text(text) => {
                out.push(1);
                collation.equal_key(text.as_bytes(), out);
            }
            ValueRef::Int(number) => number_key(number, out),
            ValueRef::UInt(number) => number_key(number, out),
            ValueRef::Decimal(_) => {
                let number = to_decimal(&value).map(|n| n.to_string()).unwrap_or_default();
                let number = if number.contains('.') {
                    number.trim_end_matches('0').trim_end_matches('.')
                } else {
                    &number
                };
                out.push(2);
                out.extend_from_slice(number.as_bytes());
            }
            ValueRef::Float(number) => double_key(f64::from(number), out),
            ValueRef::Double(number) => double_key(number, out),
            other => {
                out.push(4);
                write_text(&other, out);
            }
        }
        let len = (out.len() - start) as u32;
        out.extend_from_slice(&len.to_be_bytes());
    }
}

fn number_key(number: impl itoa::Integer, out: &mut Vec<u8>) {
    out.push(2);
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

fn double_key(number: f64, out: &mut Vec<u8>) {
    out.push(3);
    out.extend_from_slice(&(number + 0.0).to_bits().to_be_bytes());
}

/// The class of a value. Values of one class are equal exactly if their [`group_key`]s are.
pub(super) fn hash_class(value: &Value) -> u8 {
    match value {
        Value::Null => 0,
        Value::Int(_) | Value::UInt(_) | Value::Decimal(_) => 1,
        Value::Float(_) | Value::Double(_) => 2,
        Value::Text(_) => 4,
        Value::Bytes(_) => 8,
        Value::Date(_) | Value::DateTime(_) => 16,
        Value::Time(_) => 32,
    }
}

/// The bytes by which a hash table finds rows. A date has the same bytes as its midnight.
pub(super) fn hash_key(values: &[Value], collations: &[Collation]) -> Vec<u8> {
    let plain: Vec<Value> = values
        .iter()
        .map(|value| match value {
            Value::Date(_) => to_datetime(&value.as_ref()).map_or(Value::Null, Value::DateTime),
            other => other.clone(),
        })
        .collect();
    group_key(&plain, collations)
}

/// A map whose keys clients may choose. It has a random seed, so a client cannot provoke
/// collisions.
pub(crate) type KeyMap<V> = HashMap<Vec<u8>, V, RandomState>;

/// The set of rows seen so far, for removing duplicates.
pub(super) struct DistinctRows {
    collations: Vec<Collation>,
    keys: HashSet<Box<[u8]>, RandomState>,
    buffer: Vec<u8>,
    held: HeldMemory,
}

impl DistinctRows {
    pub(super) fn new(context: &Context<'_>, collations: Vec<Collation>) -> DistinctRows {
        let held = HeldMemory::new(context);
        DistinctRows { collations, keys: HashSet::default(), buffer: Vec::new(), held }
    }

    /// Adds a row. Returns `false` if it is already in the set.
    pub(super) fn insert<'v>(&mut self, row: impl Iterator<Item = ValueRef<'v>>) -> Result<bool> {
        self.buffer.clear();
        group_key_into(row, &self.collations, &mut self.buffer);
        if self.keys.contains(self.buffer.as_slice()) {
            return Ok(false);
        }
        self.held.add_bytes(self.buffer.len())?;
        Ok(self.keys.insert(self.buffer.as_slice().into()))
    }
}

/// Counts the memory in which a statement holds rows, and charges it until this is dropped.
pub(crate) struct HeldMemory {
    bytes: usize,
    charge: Option<Charge>,
    budget: Budget,
}

impl HeldMemory {
    /// The bytes by which the charge grows.
    const STEP: usize = 1 << 20;

    /// The overhead of the allocation of one row.
    const APART: usize = 64;

    /// Memory up to this size is not charged.
    pub(super) const FREE: usize = 64 << 10;

    pub(crate) fn new(context: &Context<'_>) -> HeldMemory {
        let budget = context.server.database().budget().clone();
        HeldMemory { bytes: 0, charge: None, budget }
    }

    /// The number of bytes held.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds one row.
    pub(crate) fn add(&mut self, row: &[Value]) -> Result<()> {
        self.add_bytes(HeldMemory::size_of(row))
    }

    /// Adds the bytes of one row, and the overhead of its allocation.
    pub(crate) fn add_bytes(&mut self, bytes: usize) -> Result<()> {
        self.set_bytes(self.bytes + bytes + HeldMemory::APART)
    }

    /// Sets the number of bytes that are held.
    pub(super) fn set_bytes(&mut self, bytes: usize) -> Result<()> {
        self.bytes = bytes;
        let charged = self.charge.as_ref().map_or(0, Charge::bytes);
        if self.bytes <= charged.max(HeldMemory::FREE) {
            return Ok(());
        }
        let full = |_| {
            SqlError::new(
                1038,
                "Out of sort memory: the rows that the statement sorts, groups or joins do not fit the \
                 memory budget; read fewer rows, add an index, or raise --memory",
            )
        };
        let more = self.bytes - charged + HeldMemory::STEP;
        let charge = self.budget.try_charge(Use::Connections, more).map_err(full)?;
        match &mut self.charge {
            None => self.charge = Some(charge),
            Some(all) => {
                drop(charge);
                all.resize(charged + more);
            }
        }
        Ok(())
    }

    /// Records that rows were dropped and `bytes` are left. The charge stays for later rows.
    fn shrink(&mut self, bytes: usize) {
        self.bytes = bytes;
    }

    pub(super) fn size_of(row: &[Value]) -> usize {
        let heap = row.iter().map(|value| match value {
            Value::Text(text) => text.len(),
            Value::Bytes(bytes) => bytes.len(),
            _ => 0,
        });
        heap.sum::<usize>() + size_of_val(row)
    }
}

/// Sorts rows. With a limit, it keeps only the first rows.
pub(super) struct Sorter<'c> {
    order: &'c [(Expr, bool, Collation)],
    /// If all sort keys are among the values: their positions there. Then no separate keys are
    /// kept.
    among: Option<Vec<usize>>,
    most: Option<usize>,
    rows: Vec<(Row, Row)>,
    held: HeldMemory,
}

impl<'c> Sorter<'c> {
    pub(super) fn new(
        context: &Context<'_>,
        order: &'c [(Expr, bool, Collation)],
        projections: &[Expr],
        most: Option<u64>,
    ) -> Sorter<'c> {
        let most = most.and_then(|most| usize::try_from(most).ok());
        let place = |expr: &Expr| {
            let Expr::Column(slot) = expr else { return None };
            projections.iter().position(|e| matches!(e, Expr::Column(other) if other == slot))
        };
        let among = order.iter().map(|(expr, ..)| place(expr)).collect();
        Sorter { order, among, most, rows: Vec::new(), held: HeldMemory::new(context) }
    }

    /// Takes a row. Its sort keys are evaluated from `row` unless they are among its values.
    pub(super) fn take(&mut self, context: &Context<'_>, row: &[Value], values: Row) -> Result<()> {
        let keys = match &self.among {
            Some(_) => Row::new(),
            None => {
                self.order.iter().map(|(e, ..)| context.eval(e, row)).collect::<Result<Row>>()?
            }
        };
        self.add(keys, values)
    }

    fn add(&mut self, keys: Row, values: Row) -> Result<()> {
        self.held.add(&keys)?;
        self.held.add(&values)?;
        self.rows.push((keys, values));
        if let Some(most) = self.most
            && self.rows.len() >= most.saturating_mul(2).max(1024)
        {
            self.sort();
            self.rows.truncate(most);
            let rows = self.rows.iter().flat_map(|(keys, values)| [keys, values]);
            self.held.shrink(rows.map(|row| HeldMemory::size_of(row) + HeldMemory::APART).sum());
        }
        Ok(())
    }

    fn sort(&mut self) {
        let (order, among) = (self.order, &self.among);
        self.rows.sort_by(|(a, a_values), (b, b_values)| {
            for (at, (_, asc, collation)) in order.iter().enumerate() {
                let (a, b) = match among {
                    Some(places) => (&a_values[places[at]], &b_values[places[at]]),
                    None => (&a[at], &b[at]),
                };
                let order = order_of(a, b, *asc, *collation);
                if order.is_ne() {
                    return order;
                }
            }
            Ordering::Equal
        });
    }

    pub(super) fn finish(mut self, emit: &mut Emit<'_>) -> Result<()> {
        self.sort();
        for (_, values) in self.rows {
            if !emit(&values)? {
                break;
            }
        }
        Ok(())
    }
}
