//! Subqueries and derived tables. A statement runs a subquery that does not depend on the outer
//! query only once, and caches the rows. From its second evaluation on, IN searches the cached rows
//! by hash if the types of the values permit that.

use std::cell::{Cell, OnceCell};
use std::collections::HashSet;
use std::rc::Rc;

use foldhash::quality::RandomState;
use spillway_types::{Collation, Value};

use super::run::collect;
use super::sort::{HeldMemory, hash_class, hash_key};
use crate::errors::{Result, SqlError};
use crate::expression::{Ask, Context, Expr, Fit, Op, Question, Subplan};
use crate::planner::{QueryPlan, Row};

/// The result rows of a subquery.
pub(crate) struct Answer {
    rows: Vec<Row>,
    /// The memory charge for the rows, if they were charged.
    _held: Option<HeldMemory>,
    asked: Cell<bool>,
    members: OnceCell<Members>,
}

/// The rows as a set.
struct Members {
    /// The keys of the rows that have no NULL.
    keys: HashSet<Vec<u8>, RandomState>,
    /// For each column, the classes of its values.
    classes: Vec<u8>,
    /// Whether any row has a NULL.
    nulls: bool,
    collations: Vec<Collation>,
}

impl Answer {
    fn new(rows: Vec<Row>, held: Option<HeldMemory>) -> Answer {
        Answer { rows, _held: held, asked: Cell::new(false), members: OnceCell::new() }
    }

    /// The result rows.
    pub(crate) fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The result of `left IN (subquery)`, if a hash set decides it. `None` if the rows must be
    /// compared one by one, as for the first call: it may be the only one, so it builds no set.
    pub(crate) fn contains(&self, left: &[Value], collations: &[Collation]) -> Option<Value> {
        if !self.asked.replace(true) {
            return None;
        }
        let members = self.members.get_or_init(|| Members::of(&self.rows, collations));
        // Values of different classes may be equal although their hash keys differ.
        let alike = |(value, classes): (&Value, &u8)| {
            !value.is_null() && hash_class(value) | classes == hash_class(value)
        };
        if members.collations != collations || !left.iter().zip(&members.classes).all(alike) {
            return None;
        }
        match members.keys.contains(&hash_key(left, collations)) {
            true => Some(Value::from(true)),
            false if !members.nulls => Some(Value::from(false)),
            // A row with a NULL may still differ in its other values, so it must be compared.
            false if left.len() == 1 => Some(Value::Null),
            false => None,
        }
    }
}

impl Members {
    fn of(rows: &[Row], collations: &[Collation]) -> Members {
        let width = rows.first().map_or(0, Vec::len);
        let mut members = Members {
            keys: HashSet::default(),
            classes: vec![0; width],
            nulls: false,
            collations: collations.to_vec(),
        };
        for row in rows {
            row.iter().zip(&mut members.classes).for_each(|(value, all)| *all |= hash_class(value));
            if row.iter().any(Value::is_null) {
                members.nulls = true;
            } else {
                members.keys.insert(hash_key(row, collations));
            }
        }
        members
    }
}

/// At most `most` rows of a subquery, for a row of the enclosing query. Texts in the columns that
/// `exact` lists become the exact numbers that they begin with.
fn rows_for(
    context: &Context<'_>,
    plan: &QueryPlan,
    row: &[Value],
    most: usize,
    exact: &[usize],
) -> Result<Rc<Answer>> {
    cached(context, plan, || {
        context.outer.borrow_mut().push(row.to_vec());
        let found = collect(context, plan, most);
        context.outer.borrow_mut().pop();
        let (mut rows, held) = found?;
        for row in &mut rows {
            for &at in exact {
                if let Some(number) = context.taken_as(&row[at], Fit::Exact)? {
                    row[at] = number;
                }
            }
        }
        Ok((rows, held))
    })
}

impl Subplan for QueryPlan {
    fn is_correlated(&self) -> bool {
        self.correlated
    }

    fn outer_reach(&self) -> usize {
        self.outer_reach
    }

    fn gives_truth(&self) -> bool {
        self.gives_truth()
    }

    fn expressions(&self, visit: &mut dyn FnMut(usize, &Expr)) {
        self.expressions(visit);
    }

    fn answer(
        &self,
        context: &Context<'_>,
        &Question { ask, left, collations, exact }: &Question<'_>,
        row: &[Value],
    ) -> Result<Value> {
        // More rows than these cannot change the result.
        let most = match ask {
            Ask::Exists => 1,
            Ask::Scalar | Ask::Row(_) => 2,
            _ => usize::MAX,
        };
        let answer = rows_for(context, self, row, most, exact)?;
        let rows = answer.rows();
        match ask {
            Ask::Exists => return Ok(Value::from(!rows.is_empty())),
            Ask::Scalar | Ask::Row(_) if rows.len() > 1 => {
                return Err(SqlError::new(1242, "Subquery returns more than 1 row"));
            }
            Ask::Scalar => {
                return Ok(rows.first().and_then(|row| row.first()).cloned().unwrap_or_default());
            }
            _ => {}
        }
        let Some(left) = left else { return Ok(Value::Null) };
        let left: Vec<Value> = match left {
            Expr::Tuple(parts) => {
                parts.iter().map(|e| context.eval(e, row)).collect::<Result<_>>()?
            }
            single => vec![context.eval(single, row)?],
        };
        if let Ask::Row(op) = ask {
            let nulls = vec![Value::Null; left.len()];
            let right = rows.first().unwrap_or(&nulls);
            let is = context.compare_rows(op, &left, right, collations)?;
            return Ok(is.map_or(Value::Null, Value::from));
        }
        if matches!(ask, Ask::In | Ask::Any(Op::Eq))
            && let Some(is) = answer.contains(&left, collations)
        {
            return Ok(is);
        }
        let (mut unknown, all) = (false, matches!(ask, Ask::All(_)));
        for candidate in rows {
            let op = match ask {
                Ask::Any(op) | Ask::All(op) => op,
                _ => Op::Eq,
            };
            let mut holds = Some(true);
            for ((a, b), collation) in left.iter().zip(candidate).zip(collations) {
                match context.compare(a, b, *collation)?.map(|order| op.accepts(order)) {
                    Some(true) => {}
                    Some(false) => {
                        holds = Some(false);
                        break;
                    }
                    None => holds = None,
                }
            }
            match holds {
                Some(true) if !all => return Ok(Value::from(true)),
                Some(false) if all => return Ok(Value::from(false)),
                None => unknown = true,
                _ => {}
            }
        }
        Ok(if unknown { Value::Null } else { Value::from(all) })
    }
}

/// The rows of a derived table in FROM, or of a common table expression. They may depend on the
/// rows of the queries that enclose the query which defines the table, but on no row of that query
/// itself, or of inner queries that read the table.
pub(super) fn derived(context: &Context<'_>, plan: &QueryPlan) -> Result<Rc<Answer>> {
    cached(context, plan, || {
        let unseen = {
            let mut outer = context.outer.borrow_mut();
            let seen = plan.depth.min(outer.len());
            outer.split_off(seen)
        };
        let rows = collect(context, plan, usize::MAX);
        context.outer.borrow_mut().extend(unseen);
        rows
    })
}

fn cached(
    context: &Context<'_>,
    plan: &QueryPlan,
    read: impl FnOnce() -> Result<(Vec<Row>, HeldMemory)>,
) -> Result<Rc<Answer>> {
    if !plan.correlated
        && let Some(kept) = context.cached.borrow().get(&plan.id)
        && let Ok(answer) = kept.clone().downcast::<Answer>()
    {
        return Ok(answer);
    }
    let (rows, held) = read()?;
    let answer = Rc::new(Answer::new(rows, Some(held)));
    if !plan.correlated {
        context.cached.borrow_mut().insert(plan.id, answer.clone());
    }
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(rows: &[&[Value]], left: &[Value]) -> Option<String> {
        let answer = Answer::new(rows.iter().map(|row| row.to_vec()).collect(), None);
        let collations = vec![Collation::GeneralCi; left.len()];
        assert!(answer.contains(left, &collations).is_none(), "the first compares");
        let found = answer.contains(left, &collations)?;
        Some(if found.is_null() { "unknown".to_owned() } else { found.to_text() })
    }

    #[test]
    fn a_set_tells_what_in_is_where_bytes_do() {
        let text = |text: &str| Value::Text(text.to_owned());
        let decimal = |text| Value::Decimal(spillway_types::Decimal::parse(text).unwrap());
        let said = |said: &str| Some(said.to_owned());
        let numbers: &[&[Value]] = &[&[Value::Int(1)], &[decimal("2.50")], &[Value::UInt(3)]];
        assert_eq!(asked(numbers, &[decimal("3.0")]), said("1"));
        assert_eq!(asked(numbers, &[decimal("2.5")]), said("1"));
        assert_eq!(asked(numbers, &[Value::Int(4)]), said("0"));
        assert_eq!(asked(numbers, &[text("1")]), None);
        assert_eq!(asked(numbers, &[Value::Double(1.0)]), None);
        assert_eq!(asked(numbers, &[Value::Null]), None);
        assert_eq!(asked(&[], &[Value::Int(1)]), said("0"));
        let words: &[&[Value]] = &[&[text("a")], &[Value::Null]];
        assert_eq!(asked(words, &[text("A")]), said("1"));
        assert_eq!(asked(words, &[text("b")]), said("unknown"));
        assert_eq!(asked(&[&[Value::Null]], &[Value::Int(1)]), said("unknown"));
        let mixed: &[&[Value]] = &[&[text("a")], &[Value::Int(1)]];
        assert_eq!(asked(mixed, &[text("a")]), None);
        let pairs: &[&[Value]] = &[&[Value::Int(1), text("a")], &[Value::Int(2), Value::Null]];
        assert_eq!(asked(pairs, &[Value::Int(1), text("A")]), said("1"));
        assert_eq!(asked(pairs, &[Value::Int(3), text("b")]), None);
    }

    #[test]
    fn a_set_is_of_one_collation() {
        let answer = Answer::new(vec![vec![Value::Text("a".to_owned())]], None);
        let left = [Value::Text("A".to_owned())];
        let found = || answer.contains(&left, &[Collation::GeneralCi]).map(|value| value.to_text());
        assert_eq!((found(), found()), (None, Some("1".to_owned())));
        assert!(answer.contains(&left, &[Collation::Bin]).is_none());
    }
}
