//! The state of an aggregate while its input rows arrive.

use std::collections::HashSet;

use foldhash::quality::RandomState;
use spillway_types::convert::{to_decimal, to_double};
use spillway_types::value::write_text;
use spillway_types::{ColumnType, Decimal, Value, ValueRef};

use super::sort::{HeldMemory, group_key, order_of};
use crate::errors::{Result, SqlError};
use crate::expression::{Context, bits_of_value, compare, length};
use crate::planner::{Aggregate, AggregateKind, Row};

/// The state of an aggregate while its rows are read.
#[derive(Default)]
pub(crate) struct AggregateState {
    count: u64,
    exact: Option<Decimal>,
    /// The sum of the integers, as a part of the exact sum.
    whole: i128,
    double: f64,
    squares: f64,
    best: Value,
    bits: Option<u64>,
    /// The texts to concatenate, each after its sort keys.
    parts: Vec<(Row, Vec<u8>)>,
    seen: HashSet<Vec<u8>, RandomState>,
}

impl AggregateState {
    pub(crate) fn add(
        &mut self,
        aggregate: &Aggregate,
        context: &Context<'_>,
        row: &[Value],
        held: &mut HeldMemory,
    ) -> Result<()> {
        let mut values = Vec::with_capacity(aggregate.args.len());
        for arg in &aggregate.args {
            let value = context.value(arg, row)?;
            if value.is_null() {
                return Ok(());
            }
            values.push(value.into_owned());
        }
        if aggregate.distinct {
            let key = group_key(&values, &vec![aggregate.collation; values.len()]);
            if self.seen.contains(&key) {
                return Ok(());
            }
            held.add_bytes(key.len())?;
            self.seen.insert(key);
        }
        self.count += 1;
        let Some(value) = values.first() else { return Ok(()) };
        match aggregate.kind {
            AggregateKind::Count => {}
            AggregateKind::Sum | AggregateKind::Avg => {
                if matches!(aggregate.ty, ColumnType::Double) {
                    self.double += to_double(&value.as_ref()).unwrap_or(0.0);
                } else {
                    let number = to_decimal(&value.as_ref()).unwrap_or(Decimal::ZERO);
                    let sum = self.exact.unwrap_or(Decimal::ZERO).add(&number);
                    self.exact = Some(sum.ok_or_else(|| SqlError::out_of_range("DECIMAL", "sum"))?);
                }
            }
            AggregateKind::Min | AggregateKind::Max => {
                let before = length(&self.best);
                self.offer(aggregate, value);
                let more = length(&self.best).saturating_sub(before);
                if more > 0 {
                    held.add_bytes(more)?;
                }
            }
            AggregateKind::GroupConcat => {
                let mut text = Vec::new();
                values.iter().for_each(|value| write_text(&value.as_ref(), &mut text));
                let keys = aggregate.order.iter().map(|(expr, ..)| context.eval(expr, row));
                let keys = keys.collect::<Result<Row>>()?;
                held.add(&keys)?;
                // The text, and its copy in the result.
                held.add_bytes(2 * text.len())?;
                self.parts.push((keys, text));
            }
            AggregateKind::BitAnd | AggregateKind::BitOr | AggregateKind::BitXor => {
                self.add_bits(aggregate.kind, bits_of_value(value));
            }
            _ => {
                // Welford's method: the mean, and the sum of squared differences from it.
                let number = to_double(&value.as_ref()).unwrap_or(0.0);
                let delta = number - self.double;
                self.double += delta / self.count as f64;
                self.squares += delta * (number - self.double);
            }
        }
        Ok(())
    }

    /// Keeps a value if it is less than all before it, or greater, depending on the aggregate.
    fn offer(&mut self, aggregate: &Aggregate, value: &Value) {
        let order = compare(value, &self.best, aggregate.collation);
        let better = match order {
            None => true,
            Some(order) if aggregate.kind == AggregateKind::Min => order.is_lt(),
            Some(order) => order.is_gt(),
        };
        if better {
            self.best = value.clone();
        }
    }

    fn add_bits(&mut self, kind: AggregateKind, bits: u64) {
        let old = self.bits.unwrap_or(if kind == AggregateKind::BitAnd { u64::MAX } else { 0 });
        self.bits = Some(match kind {
            AggregateKind::BitAnd => old & bits,
            AggregateKind::BitOr => old | bits,
            _ => old ^ bits,
        });
    }

    /// Adds an integer to a count or a sum. NULL is ignored.
    pub(super) fn add_whole(&mut self, value: ValueRef<'_>) {
        match value {
            ValueRef::Null => return,
            ValueRef::Int(number) => self.whole += i128::from(number),
            ValueRef::UInt(number) => self.whole += i128::from(number),
            _ => {}
        }
        self.count += 1;
    }

    /// Adds `rows` to the count.
    pub(super) fn add_rows(&mut self, rows: u64) {
        self.whole += i128::from(rows);
        self.count += rows;
    }

    /// The state for a MIN or MAX whose value was found in an index.
    pub(super) fn of_end(value: Value) -> AggregateState {
        AggregateState { count: 1, best: value, ..AggregateState::default() }
    }

    pub(crate) fn finish(mut self, aggregate: &Aggregate, context: &Context<'_>) -> Value {
        let spread = |sample: bool| {
            let divisor = self.count as f64 - f64::from(u8::from(sample));
            (divisor > 0.0).then(|| self.squares / divisor)
        };
        match aggregate.kind {
            AggregateKind::Count => Value::Int(self.count as i64),
            AggregateKind::BitAnd => Value::UInt(self.bits.unwrap_or(u64::MAX)),
            AggregateKind::BitOr | AggregateKind::BitXor => Value::UInt(self.bits.unwrap_or(0)),
            _ if self.count == 0 => Value::Null,
            AggregateKind::Sum => match (self.exact, &aggregate.ty) {
                (Some(sum), ColumnType::Decimal { scale, .. }) => Value::Decimal(sum.round(*scale)),
                (None, ColumnType::Decimal { .. }) => Value::Decimal(Decimal::new(self.whole, 0)),
                _ => Value::Double(self.double),
            },
            AggregateKind::Avg => match self.exact {
                Some(sum) => {
                    sum.div(&Decimal::from(self.count)).map_or(Value::Null, Value::Decimal)
                }
                None => Value::Double(self.double / self.count as f64),
            },
            AggregateKind::Min | AggregateKind::Max => self.best,
            AggregateKind::GroupConcat => {
                self.parts.sort_by(|(a, _), (b, _)| {
                    let keys = aggregate.order.iter().zip(a.iter().zip(b));
                    keys.map(|((_, asc, collation), (x, y))| order_of(x, y, *asc, *collation))
                        .find(|order| order.is_ne())
                        .unwrap_or(std::cmp::Ordering::Equal)
                });
                let parts: Vec<Vec<u8>> = self.parts.into_iter().map(|(_, text)| text).collect();
                let mut bytes = parts.join(aggregate.separator.as_bytes());
                let most = context.variables.borrow().number("group_concat_max_len");
                let most =
                    most.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX));
                if bytes.len() > most {
                    let text = String::from_utf8_lossy(&bytes);
                    let cut =
                        if aggregate.ty.is_text() { text.floor_char_boundary(most) } else { most };
                    bytes.truncate(cut);
                    context.warn(SqlError::new(1260, "Row was cut by GROUP_CONCAT()"));
                }
                if aggregate.ty.is_binary() {
                    Value::Bytes(bytes)
                } else {
                    let text = String::from_utf8(bytes);
                    Value::Text(text.unwrap_or_else(|error| {
                        String::from_utf8_lossy(error.as_bytes()).into_owned()
                    }))
                }
            }
            AggregateKind::Variance => spread(false).map_or(Value::Null, Value::Double),
            AggregateKind::VarianceSample => spread(true).map_or(Value::Null, Value::Double),
            AggregateKind::StdDev => spread(false).map_or(Value::Null, |v| Value::Double(v.sqrt())),
            AggregateKind::StdDevSample => {
                spread(true).map_or(Value::Null, |v| Value::Double(v.sqrt()))
            }
        }
    }
}
