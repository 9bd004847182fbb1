//! Binds comparisons of values and of rows, and IN with a list of values or of rows.
//!
//! A comparison of rows is bound as comparisons of their parts. Each of these has its own
//! conversions and collation. So indexes serve a comparison of rows in the same way as comparisons
//! of values.

use smallvec::SmallVec;
use spillway_types::{Collation, Value};
use sqlparser::ast;

use super::{Binder, boxed};
use crate::errors::{Result, SqlError};
use crate::expression::{Ask, Expr, List, Op, Typed, collated, common_collation};

/// The parts of a row value; `None` if the expression is not a row.
fn parts_of(expr: &ast::Expr) -> Option<Vec<&ast::Expr>> {
    match expr {
        ast::Expr::Nested(inner) => parts_of(inner),
        ast::Expr::Tuple(parts) => Some(parts.iter().collect()),
        ast::Expr::Function(function) if function.name.to_string().eq_ignore_ascii_case("row") => {
            let ast::FunctionArguments::List(list) = &function.args else { return None };
            let part = |arg: &'_ ast::FunctionArg| match arg {
                ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(_)) => Some(()),
                _ => None,
            };
            if list.args.len() < 2 || list.args.iter().any(|arg| part(arg).is_none()) {
                return None;
            }
            Some(
                list.args
                    .iter()
                    .filter_map(|arg| match arg {
                        ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(part)) => Some(part),
                        _ => None,
                    })
                    .collect(),
            )
        }
        _ => None,
    }
}

fn operands(wanted: usize) -> SqlError {
    SqlError::new(1241, format!("Operand should contain {wanted} column(s)"))
}

/// The query, if the expression is a subquery.
fn subquery_of(expr: &ast::Expr) -> Option<&ast::Query> {
    match expr {
        ast::Expr::Nested(inner) => subquery_of(inner),
        ast::Expr::Subquery(query) => Some(query),
        _ => None,
    }
}

impl Binder<'_> {
    /// Binds the parts of a row value, with nested rows flattened; `None` if the expression is not
    /// a row.
    pub(super) fn row(&mut self, expr: &ast::Expr) -> Result<Option<Vec<Typed>>> {
        let Some(parts) = parts_of(expr) else { return Ok(None) };
        let mut row = Vec::new();
        for part in parts {
            match self.row(part)? {
                Some(parts) => row.extend(parts),
                None => row.push(self.bind(part)?),
            }
        }
        Ok(Some(row))
    }

    /// Binds a comparison.
    pub(super) fn compared(
        &mut self,
        left: &ast::Expr,
        op: Op,
        right: &ast::Expr,
    ) -> Result<Typed> {
        if let (Some(row), Some(query)) = (parts_of(left), subquery_of(right)) {
            return self.row_and_query(row.len(), left, op, query);
        }
        if let (Some(query), Some(row)) = (subquery_of(left), parts_of(right)) {
            return self.row_and_query(row.len(), right, op.mirrored(), query);
        }
        let mut pairs = Vec::new();
        self.pairs(left, right, &mut pairs)?;
        let found = match pairs.as_slice() {
            [(a, b, collation)] => binary(op, a, b, *collation),
            pairs => {
                if !matches!(op, Op::Eq | Op::NullEq | Op::NotEq) {
                    for (a, b, _) in pairs {
                        self.note_copies(a, 1)?;
                        self.note_copies(b, 1)?;
                    }
                }
                compare_rows(op, pairs)
            }
        };
        Ok(self.truth(found))
    }

    /// Compares a row with the single row of a query.
    fn row_and_query(
        &mut self,
        width: usize,
        row: &ast::Expr,
        op: Op,
        query: &ast::Query,
    ) -> Result<Typed> {
        let parts = self.row(row)?.unwrap_or_default();
        if parts.len() != width {
            return Err(operands(1));
        }
        self.subquery(query, Ask::Row(op), parts, width)
    }

    /// Pairs the parts of two rows, or two values, each converted to the form in which it is
    /// compared.
    fn pairs(
        &mut self,
        left: &ast::Expr,
        right: &ast::Expr,
        out: &mut Vec<(Expr, Expr, Collation)>,
    ) -> Result<()> {
        match (parts_of(left), parts_of(right)) {
            (Some(left), Some(right)) => {
                if left.len() != right.len() {
                    return Err(operands(left.len()));
                }
                left.into_iter().zip(right).try_for_each(|(a, b)| self.pairs(a, b, out))
            }
            (Some(row), None) => Err(operands(row.len())),
            (None, Some(_)) => Err(operands(1)),
            (None, None) => {
                let both = self.sides(left, right)?.into();
                let (both, collation) = collated(self.comparable(both)?)?;
                let Ok([a, b]) = <[Typed; 2]>::try_from(both) else {
                    return Err(SqlError::syntax("a comparison has two sides"));
                };
                out.push((a.expr, b.expr, collation));
                Ok(())
            }
        }
    }

    /// Whether a value, or a row, is in a list. Each item is compared with the left side
    /// separately, and the left side may need another form for it, as an ENUM does for texts and
    /// for numbers. Items for which the left side has the same form are in one list.
    pub(super) fn in_list(
        &mut self,
        expr: &ast::Expr,
        list: &[ast::Expr],
        negated: bool,
    ) -> Result<Typed> {
        let row = self.row(expr)?;
        let is_row = row.is_some();
        let mut left = match row {
            Some(row) => row,
            None => vec![self.bind(expr)?],
        };
        let width = left.len();
        let mut items = Vec::with_capacity(list.len() * width);
        for item in list {
            let item = match self.row(item)? {
                Some(row) if is_row => row,
                None if !is_row => vec![self.bind(item)?],
                _ => return Err(operands(width)),
            };
            if item.len() != width {
                return Err(operands(width));
            }
            items.extend(item);
        }
        let collations = (0..width).map(|at| {
            let column = items.iter().skip(at).step_by(width);
            common_collation(&std::iter::once(&left[at]).chain(column).collect::<Vec<_>>())
        });
        let collations: SmallVec<[Collation; 2]> = collations.collect::<Result<_>>()?;
        left = texts_of(left, &collations)?;
        let items = texts_of(items, &collations)?;
        let tuple = |mut parts: Vec<Expr>| match is_row {
            true => Expr::Tuple(parts),
            false => parts.pop().unwrap_or(Expr::Const(Value::Null)),
        };
        let mut forms: Vec<(Vec<Expr>, Vec<Expr>)> = Vec::new();
        let mut items = items.into_iter();
        for _ in list {
            let (mut form, mut item) = (Vec::with_capacity(width), Vec::with_capacity(width));
            for (part, other) in left.iter().zip(items.by_ref()) {
                let both = self.comparable(vec![part.clone(), other])?;
                let mut both = both.into_iter().map(|part| part.expr);
                form.extend(both.next());
                item.extend(both.next());
            }
            let same = |known: &&mut (Vec<Expr>, Vec<Expr>)| {
                known.0.iter().zip(&form).all(|(a, b)| is_same_form(a, b))
            };
            match forms.iter_mut().find(same) {
                Some((_, items)) => items.push(tuple(item)),
                None => {
                    if !forms.is_empty() {
                        form.iter().try_for_each(|part| self.note_copies(part, 1))?;
                    }
                    forms.push((form, vec![tuple(item)]));
                }
            }
        }
        let of_form =
            |(form, items)| Expr::In(boxed(tuple(form)), List::new(items, collations.clone()));
        let found = any_of(forms.into_iter().map(of_form).collect());
        Ok(self.truth(if negated { Expr::Not(boxed(found)) } else { found }))
    }
}

impl Binder<'_> {
    /// Converts the operand and the values of a CASE to the forms in which they are compared.
    /// Returns the operand and the collation. If the operand needs several forms, each branch
    /// becomes a comparison, and the returned operand is `None`.
    pub(super) fn cases(
        &self,
        operand: Typed,
        whens: &mut [Typed],
    ) -> Result<(Option<Expr>, Collation)> {
        let collation =
            common_collation(&std::iter::once(&operand).chain(&*whens).collect::<Vec<_>>())?;
        let operand = operand.bytes_as_text(collation)?;
        let mut pairs = Vec::with_capacity(whens.len());
        for when in &*whens {
            let when = when.clone().bytes_as_text(collation)?;
            let both = self.comparable(vec![operand.clone(), when])?;
            let Ok([form, when]) = <[Typed; 2]>::try_from(both) else {
                return Err(SqlError::syntax("a comparison has two sides"));
            };
            pairs.push((form, when));
        }
        let is_one = pairs.iter().all(|(form, _)| is_same_form(&form.expr, &operand.expr));
        if !is_one {
            self.note_copies(&operand.expr, pairs.len())?;
        }
        for (when, (form, value)) in whens.iter_mut().zip(pairs) {
            *when = match is_one {
                true => value,
                false => self.truth(binary(Op::Eq, &form.expr, &value.expr, collation)),
            };
        }
        Ok((is_one.then_some(operand.expr), collation))
    }
}

/// The parts of rows, one row after another. Each is converted to the form that its collation
/// compares.
fn texts_of(parts: Vec<Typed>, collations: &[Collation]) -> Result<Vec<Typed>> {
    let parts = parts.into_iter().zip(collations.iter().cycle());
    parts.map(|(part, collation)| part.bytes_as_text(*collation)).collect()
}

/// A condition that holds if any of these does, as a tree of the least depth.
fn any_of(mut conditions: Vec<Expr>) -> Expr {
    match conditions.len() {
        0 => Expr::Const(Value::from(false)),
        1 => conditions.remove(0),
        count => {
            let rest = conditions.split_off(count / 2);
            let (first, rest) = (any_of(conditions), any_of(rest));
            Expr::Binary(Op::Or, boxed(first), boxed(rest), Collation::Binary)
        }
    }
}

/// Whether two forms of one expression have the same values.
fn is_same_form(a: &Expr, b: &Expr) -> bool {
    match (a, b) {
        (Expr::Const(a), Expr::Const(b)) => std::mem::discriminant(a) == std::mem::discriminant(b),
        (Expr::Fitted(_, a), Expr::Fitted(_, b)) => a == b,
        _ => std::mem::discriminant(a) == std::mem::discriminant(b),
    }
}

fn binary(op: Op, a: &Expr, b: &Expr, collation: Collation) -> Expr {
    Expr::Binary(op, boxed(a.clone()), boxed(b.clone()), collation)
}

/// A comparison of rows. For = and <>, all parts are compared. For the other operators, the first
/// parts that differ decide.
fn compare_rows(op: Op, pairs: &[(Expr, Expr, Collation)]) -> Expr {
    let both = |op, a, b| Expr::Binary(op, boxed(a), boxed(b), Collation::Binary);
    let part = |op, (a, b, collation): &(Expr, Expr, Collation)| binary(op, a, b, *collation);
    match op {
        Op::NotEq => Expr::Not(boxed(compare_rows(Op::Eq, pairs))),
        Op::Eq | Op::NullEq => {
            let parts = pairs.iter().map(|pair| part(op, pair));
            parts.reduce(|a, b| both(Op::And, a, b)).unwrap_or(Expr::Const(Value::from(true)))
        }
        _ => match pairs {
            [] => Expr::Const(Value::from(op == Op::LtEq || op == Op::GtEq)),
            [last] => part(op, last),
            [first, rest @ ..] => {
                let strict = if matches!(op, Op::Lt | Op::LtEq) { Op::Lt } else { Op::Gt };
                let rest = both(Op::And, part(Op::Eq, first), compare_rows(op, rest));
                both(Op::Or, part(strict, first), rest)
            }
        },
    }
}
