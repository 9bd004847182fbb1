//! Binding: resolves names to columns, turns syntax into expressions, and gives each a type.

mod aggregates;
mod calls;
mod charsets;
mod operators;
mod predicates;
mod rows;

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use spillway_types::column::{LobSize, type_of};
use spillway_types::{Collation, ColumnType, Date, DateTime, Time, Value};
use sqlparser::ast;

use super::aggregate::Aggregate;
use super::literals::{fraction_digits, literal};
use super::query_plan;
use super::scope::{DAYS, LITERALS, MOMENTS, Names, PARAMETERS, Scope, ScopeTable};
use crate::errors::{Result, SqlError};
use crate::expression::{
    Ask, Expr, Fit, Op, Scalar, Typed, collated, comparable, merged, typed_value,
};
use crate::names;
use crate::parser::on_enough_stack;

/// The levels found in the argument of an aggregate: of each kind, that of the innermost query.
#[derive(Clone, Copy, Default)]
struct AggregateArgument {
    /// The level of the columns that belong to queries outside of the argument.
    column: Option<usize>,
    /// The level of the queries to which inner aggregates belong.
    aggregate: Option<usize>,
}

/// Binds the expressions of one query.
pub(crate) struct Binder<'a> {
    pub(crate) names: Names<'a>,
    pub(crate) scope: Scope,
    pub(crate) parent: Option<&'a Binder<'a>>,
    /// The visible common table expressions.
    pub(crate) ctes: Vec<(String, Arc<query_plan::QueryPlan>)>,
    /// The result columns whose names HAVING and ORDER BY may use.
    pub(crate) aliases: Vec<(String, Typed)>,
    /// The aggregates that belong to this query, also those of its subqueries. Their values are in
    /// the slots from `aggregate_base` on.
    pub(crate) aggregates: RefCell<Vec<Aggregate>>,
    pub(crate) aggregate_base: usize,
    pub(crate) aggregates_allowed: bool,
    /// The levels found so far in the argument of the aggregate that is being bound.
    argument: Cell<Option<AggregateArgument>>,
    /// The largest slot of the enclosing query that was found so far, plus one.
    pub(crate) outer_reach: Cell<usize>,
    /// Whether any column of an enclosing query was found.
    pub(crate) correlated: Cell<bool>,
    pub(crate) place: &'static str,
    /// Whether the literals TRUE and FALSE are distinct from numbers, as in the arguments of JSON
    /// functions.
    keeps_truth: bool,
    /// The table of an INSERT ... ON DUPLICATE KEY UPDATE, for which VALUES() may be used.
    pub(crate) inserting: Option<Arc<crate::catalog::TableDef>>,
    /// How many parts of expressions the plan has more often than the query.
    copied: Cell<usize>,
}

/// The most parts of expressions that the plan of one query may have in addition to those of the
/// query. For example, a BETWEEN has its operand twice in the plan, so without a limit 40 nested
/// ones would fill any memory.
const COPIED_MAX: usize = 1 << 18;

fn boxed(expr: Expr) -> Box<Expr> {
    Box::new(expr)
}

/// The number of the parameter with this name.
pub(crate) fn parameter(name: &str) -> Option<usize> {
    name.strip_prefix(':')?.parse().ok()
}

/// The comparison that an operator makes.
fn comparison(op: &ast::BinaryOperator) -> Option<Op> {
    Some(match op {
        ast::BinaryOperator::Eq => Op::Eq,
        ast::BinaryOperator::NotEq => Op::NotEq,
        ast::BinaryOperator::Lt => Op::Lt,
        ast::BinaryOperator::LtEq => Op::LtEq,
        ast::BinaryOperator::Gt => Op::Gt,
        ast::BinaryOperator::GtEq => Op::GtEq,
        ast::BinaryOperator::Spaceship => Op::NullEq,
        _ => return None,
    })
}

/// Whether a name is that of a variable: `@a` or `@@a`.
pub(crate) fn is_variable(ident: &ast::Ident) -> bool {
    ident.quote_style.is_none() && ident.value.starts_with('@')
}

/// A literal of a date or a time, as in `DATE '2020-01-01'`.
fn typed_literal(typed: &ast::TypedString) -> Result<Typed> {
    let text = literal(&typed.value.value)?;
    let wrong =
        |kind: &str| SqlError::new(1525, format!("Incorrect {kind} value: '{}'", text.to_text()));
    let value = match typed.data_type.to_string().to_ascii_uppercase().as_str() {
        "DATE" => Date::parse(&text.to_text()).map(Value::Date).ok_or_else(|| wrong("DATE"))?,
        "TIME" => Time::parse(&text.to_text()).map(Value::Time).ok_or_else(|| wrong("TIME"))?,
        "TIMESTAMP" | "DATETIME" => DateTime::parse(&text.to_text())
            .map(Value::DateTime)
            .ok_or_else(|| wrong("DATETIME"))?,
        other => return Err(SqlError::unsupported(other)),
    };
    let digits = fraction_digits(&text.to_text());
    let ty = match &value {
        Value::Time(_) => ColumnType::Time(digits),
        Value::DateTime(_) => ColumnType::DateTime(digits),
        _ => ColumnType::Date,
    };
    Ok(Typed { ty, ..typed_value(value) })
}

impl<'a> Binder<'a> {
    pub(crate) fn new(names: Names<'a>) -> Binder<'a> {
        Binder {
            names,
            scope: Scope::default(),
            parent: None,
            ctes: Vec::new(),
            aliases: Vec::new(),
            aggregates: RefCell::default(),
            aggregate_base: 0,
            aggregates_allowed: false,
            argument: Cell::new(None),
            outer_reach: Cell::new(0),
            correlated: Cell::new(false),
            place: "field list",
            keeps_truth: false,
            inserting: None,
            copied: Cell::new(0),
        }
    }

    fn resolve(&self, path: &[String]) -> Result<Typed> {
        if let Some((slot, table, column)) = self.scope.find(path)? {
            self.ask_to_read(table)?;
            self.note_column(0);
            return Ok(Typed {
                expr: Expr::Column(slot),
                ty: column.ty.clone(),
                collation: column.collation,
                nullable: column.nullable,
            });
        }
        if let [name] = path
            && let Some((_, typed)) =
                self.aliases.iter().find(|(alias, _)| alias.eq_ignore_ascii_case(name))
        {
            self.note_copies(&typed.expr, 1)?;
            return Ok(typed.clone());
        }
        let (mut depth, mut outer) = (1, self.parent);
        while let Some(binder) = outer {
            if let Some((slot, table, column)) = binder.scope.find(path)? {
                self.ask_to_read(table)?;
                self.note_outer(depth, slot);
                self.note_column(depth);
                return Ok(Typed {
                    expr: Expr::Outer(depth, slot),
                    ty: column.ty.clone(),
                    collation: column.collation,
                    nullable: column.nullable,
                });
            }
            (depth, outer) = (depth + 1, binder.parent);
        }
        Err(SqlError::unknown_column(&path.join("."), self.place))
    }

    /// Checks the SELECT privilege for a table that the statement changes, because a column of it
    /// is read (NEED-3).
    fn ask_to_read(&self, table: &ScopeTable) -> Result<()> {
        if !table.changed {
            return Ok(());
        }
        self.names.needs.ask(&["SELECT"], (table.db.clone(), table.name.clone()))
    }

    /// Counts that the plan has an expression `times` more often than the query.
    ///
    /// # Errors
    /// 3170 if there are too many.
    fn note_copies(&self, expr: &Expr, times: usize) -> Result<()> {
        let mut parts = 0;
        expr.walk(&mut |_| parts += 1);
        self.copied.set(self.copied.get().saturating_add(times.saturating_mul(parts)));
        if self.copied.get() <= COPIED_MAX {
            return Ok(());
        }
        let text = format!("Memory capacity of {COPIED_MAX} parts for 'expressions' exceeded.");
        Err(SqlError::new(3170, text))
    }

    /// Records that this query and the ones up to the query `depth` levels out read a slot of that
    /// query. So they run again for each of its rows.
    fn note_outer(&self, depth: usize, slot: usize) {
        for (up, binder) in Binder::chain(Some(self)).take(depth).enumerate() {
            binder.correlated.set(true);
            let reach = if up + 1 == depth { slot + 1 } else { usize::MAX / 2 };
            binder.outer_reach.set(binder.outer_reach.get().max(reach));
        }
    }

    /// The binders of this query and of the enclosing ones, from the inside out.
    pub(crate) fn chain<'b>(first: Option<&'b Binder<'b>>) -> impl Iterator<Item = &'b Binder<'b>> {
        std::iter::successors(first, |binder| binder.parent)
    }

    /// Records that this query reads a derived table, which may be that of an enclosing query. All
    /// queries in between then depend on the outer columns on which the table depends.
    pub(crate) fn depends(&self, plan: &query_plan::QueryPlan) {
        if !plan.correlated {
            return;
        }
        let depths = (plan.depth..Binder::chain(Some(self)).count()).rev();
        for (binder, depth) in Binder::chain(Some(self)).zip(depths) {
            binder.correlated.set(true);
            let reach = if depth == plan.depth { plan.outer_reach } else { usize::MAX / 2 };
            binder.outer_reach.set(binder.outer_reach.get().max(reach));
        }
    }

    /// Converts the parts of a comparison to the forms in which they are compared.
    fn comparable(&self, parts: Vec<Typed>) -> Result<Vec<Typed>> {
        let parts = comparable(parts)?;
        for part in &parts {
            if let Expr::Fitted(param, fit @ (Fit::Moment | Fit::Day)) = &part.expr
                && let Expr::Param(number) = &**param
            {
                let scope = if *fit == Fit::Day { DAYS } else { MOMENTS };
                (self.names.variables)(scope, &number.to_string());
            }
        }
        Ok(parts)
    }

    /// Binds an expression whose text may be in another character set.
    pub(crate) fn bind_any(&mut self, expr: &ast::Expr) -> Result<Typed> {
        on_enough_stack(|| self.bind_here(expr))
    }

    fn bind_here(&mut self, expr: &ast::Expr) -> Result<Typed> {
        use ast::Expr as E;
        match expr {
            E::Identifier(ident) => self.identifier(std::slice::from_ref(ident)),
            E::CompoundIdentifier(parts) => self.identifier(parts),
            E::Value(value) => self.value(&value.value),
            E::Prefixed { prefix, value } => self.introduced(prefix, value),
            E::Nested(inner) => self.bind_any(inner),
            E::Tuple(list) => {
                let parts =
                    list.iter().map(|e| Ok(self.bind(e)?.expr)).collect::<Result<Vec<_>>>()?;
                Ok(self.truth(Expr::Tuple(parts)))
            }
            E::UnaryOp { op, expr } => self.unary(*op, expr),
            E::BinaryOp { left, op, right } => self.binary(left, op, right),
            E::IsNull(e) => {
                let e = self.bind_any(e)?.expr;
                Ok(self.certain(Expr::IsNull(boxed(e))))
            }
            E::IsNotNull(e) => {
                let e = self.bind_any(e)?.expr;
                Ok(self.certain(Expr::Not(boxed(Expr::IsNull(boxed(e))))))
            }
            E::IsTrue(e) | E::IsFalse(e) | E::IsNotTrue(e) | E::IsNotFalse(e) => {
                let wanted = matches!(expr, E::IsTrue(_) | E::IsNotTrue(_));
                let is = Expr::IsTruth(boxed(self.condition(e)?), wanted);
                let negated = matches!(expr, E::IsNotTrue(_) | E::IsNotFalse(_));
                Ok(self.certain(if negated { Expr::Not(boxed(is)) } else { is }))
            }
            E::IsUnknown(e) => {
                let e = self.bind(e)?.expr;
                Ok(self.certain(Expr::IsNull(boxed(e))))
            }
            E::IsNotUnknown(e) => {
                let e = self.bind(e)?.expr;
                Ok(self.certain(Expr::Not(boxed(Expr::IsNull(boxed(e))))))
            }
            E::InList { expr, list, negated } => self.in_list(expr, list, *negated),
            E::InSubquery { expr, subquery, negated } => {
                let left = match self.row(expr)? {
                    Some(parts) => parts,
                    None => vec![self.bind(expr)?],
                };
                let width = left.len();
                let asked = self.subquery(subquery, Ask::In, left, width)?;
                Ok(self.truth(if *negated { Expr::Not(boxed(asked.expr)) } else { asked.expr }))
            }
            E::Exists { subquery, negated } => {
                let asked = self.subquery(subquery, Ask::Exists, Vec::new(), 0)?;
                Ok(self.truth(if *negated { Expr::Not(boxed(asked.expr)) } else { asked.expr }))
            }
            E::Subquery(subquery) => self.subquery(subquery, Ask::Scalar, Vec::new(), 1),
            E::AnyOp { left, compare_op, right, .. } | E::AllOp { left, compare_op, right } => {
                let ask = if matches!(expr, E::AnyOp { .. }) { Ask::Any } else { Ask::All };
                self.quantified(left, compare_op, right, ask)
            }
            E::Between { expr, negated, low, high } => self.between(expr, (low, high), *negated),
            E::Like { negated, expr, pattern, escape_char, .. } => {
                self.like(expr, pattern, escape_char.as_ref(), *negated)
            }
            E::RLike { negated, expr, pattern, .. } => self.rlike(expr, pattern, *negated),
            E::Case { operand, conditions, else_result, .. } => {
                self.case(operand.as_deref(), conditions, else_result.as_deref())
            }
            E::Cast { expr, data_type, .. } => {
                let inner = self.bind_any(expr)?;
                self.cast(inner, &data_type.to_string())
            }
            E::Convert { expr, data_type, charset, .. } => {
                let inner = self.bind_any(expr)?;
                match (data_type, charset) {
                    (Some(ty), _) => self.cast(inner, &ty.to_string()),
                    (None, Some(charset)) => self.convert_using(inner, &charset.to_string()),
                    (None, None) => self.cast(inner, "CHAR"),
                }
            }
            E::Collate { expr, collation } => {
                let name = collation.to_string().replace(['`', '\'', '"'], "");
                let collation = Collation::from_name(&name)
                    .ok_or_else(|| SqlError::new(1273, format!("Unknown collation: '{name}'")))?;
                let mut text = self.bind(expr)?.shown();
                if !text.is_null() {
                    text.expr = Expr::Collated(boxed(text.expr));
                }
                Ok(Typed { collation, ..text })
            }
            E::TypedString(typed) => typed_literal(typed),
            E::Extract { field, expr, .. } => {
                let inner = self.bind(expr)?;
                let name = field.to_string().to_ascii_lowercase();
                Scalar::Extract.typed(vec![typed_value(Value::Text(name)), inner])
            }
            E::Ceil { expr, .. } => self.call(Scalar::Ceil, &[expr]),
            E::Floor { expr, .. } => self.call(Scalar::Floor, &[expr]),
            E::Position { expr, r#in } => self.call(Scalar::Locate, &[expr, r#in]),
            E::Substring { expr, substring_from, substring_for, .. } => {
                let mut args: Vec<&ast::Expr> = vec![expr];
                args.extend(substring_from.as_deref());
                args.extend(substring_for.as_deref());
                self.call(Scalar::Substring, &args)
            }
            E::Trim { trim_where, trim_what, expr, .. } => {
                self.trim(expr, trim_where.as_ref(), trim_what.as_deref())
            }
            E::Function(function) => self.function(function),
            E::Interval(_) => Err(SqlError::syntax("INTERVAL stands beside + or - only")),
            other => Err(SqlError::unsupported(other)),
        }
    }

    /// A literal, a parameter or a variable.
    fn value(&mut self, value: &ast::Value) -> Result<Typed> {
        match value {
            ast::Value::Placeholder(name) if name == "?" => {
                Err(SqlError::syntax("a parameter has no number"))
            }
            ast::Value::Placeholder(name) => self.placeholder(name),
            value @ (ast::Value::HexStringLiteral(_)
            | ast::Value::SingleQuotedByteStringLiteral(_)
            | ast::Value::DoubleQuotedByteStringLiteral(_)) => {
                let made = typed_value(literal(value)?);
                let ColumnType::VarBinary(len) = made.ty else { return Ok(made) };
                Ok(Typed { ty: ColumnType::Binary(len), ..made })
            }
            ast::Value::Boolean(truth) if self.keeps_truth => {
                let number = Expr::Const(Value::from(*truth));
                Ok(self.certain(Expr::IsTruth(boxed(number), true)))
            }
            value => {
                let mut typed = typed_value(literal(value)?);
                if let (Expr::Const(Value::Text(_)), Some(name)) =
                    (&typed.expr, (self.names.variables)(LITERALS, ""))
                {
                    typed.collation = Collation::from_name(&name.to_text()).unwrap_or_default();
                }
                Ok(typed)
            }
        }
    }

    fn case(
        &mut self,
        operand: Option<&ast::Expr>,
        conditions: &[ast::CaseWhen],
        otherwise: Option<&ast::Expr>,
    ) -> Result<Typed> {
        let operand = operand.map(|e| self.bind(e)).transpose()?;
        let mut whens = Vec::new();
        let mut results = Vec::new();
        for branch in conditions {
            let (mut when, then) = (self.bind(&branch.condition)?, self.bind(&branch.result)?);
            if operand.is_none() {
                when = when.counted();
            }
            whens.push(when);
            results.push(then);
        }
        let compared = operand.map(|operand| self.cases(operand, &mut whens)).transpose()?;
        let otherwise = otherwise.map(|e| self.bind(e)).transpose()?;
        let nullable =
            otherwise.as_ref().is_none_or(|e| e.nullable) || results.iter().any(|e| e.nullable);
        let last = otherwise.is_some();
        results.extend(otherwise);
        let (results, collation) = collated(results)?;
        let (mut results, ty) = merged(results);
        let otherwise = if last { results.pop() } else { None };
        let whens = whens.into_iter().map(|when| when.expr);
        let branches = whens.zip(results.into_iter().map(|e| e.expr)).collect();
        let (operand, compared) = compared.unwrap_or_default();
        let expr = Expr::Case {
            collation: compared,
            operand: operand.map(boxed),
            branches,
            otherwise: otherwise.map(|e| boxed(e.expr)),
        };
        Ok(Typed { expr, ty, collation, nullable })
    }

    fn trim(
        &mut self,
        expr: &ast::Expr,
        side: Option<&ast::TrimWhereField>,
        what: Option<&ast::Expr>,
    ) -> Result<Typed> {
        let Some(what) = what else {
            let call = match side {
                Some(ast::TrimWhereField::Leading) => Scalar::Ltrim,
                Some(ast::TrimWhereField::Trailing) => Scalar::Rtrim,
                _ => Scalar::Trim,
            };
            return self.call(call, &[expr]);
        };
        let call = match side {
            Some(ast::TrimWhereField::Leading) => Scalar::TrimLead,
            Some(ast::TrimWhereField::Trailing) => Scalar::TrimTrail,
            _ => Scalar::TrimBoth,
        };
        self.call(call, &[expr, what])
    }

    /// Binds a parameter or a variable. The parser numbers parameters: `:0`, `:1`. Other names are
    /// system variables or user variables.
    fn placeholder(&mut self, name: &str) -> Result<Typed> {
        if let Some(number) = parameter(name) {
            let sample = (self.names.variables)(PARAMETERS, &number.to_string());
            return Ok(Typed {
                expr: Expr::Param(number),
                ty: sample.map_or(ColumnType::VarChar(255), |value| type_of(&value.as_ref())),
                collation: (self.names.variables)(LITERALS, "")
                    .and_then(|name| Collation::from_name(&name.to_text()))
                    .unwrap_or_default(),
                nullable: true,
            });
        }
        self.variable(name)
    }

    fn variable(&mut self, name: &str) -> Result<Typed> {
        if let Some(system) = name.strip_prefix("@@") {
            let (scope, bare) = match system.split_once('.') {
                Some((scope, bare))
                    if ["session", "global", "local"]
                        .contains(&scope.to_ascii_lowercase().as_str()) =>
                {
                    (scope.to_ascii_lowercase(), bare)
                }
                _ => ("session".to_owned(), system),
            };
            let bare = bare.replace('`', "").to_ascii_lowercase();
            let value = (self.names.variables)(&scope, &bare)
                .ok_or_else(|| SqlError::new(1193, format!("Unknown system variable '{bare}'")))?;
            return Ok(typed_value(value));
        }
        let name = name.trim_start_matches('@').replace(['`', '\'', '"'], "").to_ascii_lowercase();
        names::check_variable(&name)?;
        Ok(Typed {
            expr: Expr::UserVariable(name),
            ty: ColumnType::Text(LobSize::Long),
            collation: Collation::GeneralCi,
            nullable: true,
        })
    }

    fn identifier(&mut self, parts: &[ast::Ident]) -> Result<Typed> {
        if is_variable(&parts[0]) {
            let name: Vec<&str> = parts.iter().map(|part| part.value.as_str()).collect();
            return self.variable(&name.join("."));
        }
        if let [only] = parts
            && only.quote_style == Some('"')
        {
            return Ok(typed_value(Value::Text(only.value.clone())));
        }
        let path: Vec<String> = parts.iter().map(|part| part.value.clone()).collect();
        match self.resolve(&path) {
            Err(error)
                if error.code == 1054 && parts.len() == 1 && parts[0].quote_style.is_none() =>
            {
                // The functions that need no parentheses.
                match path[0].to_ascii_lowercase().as_str() {
                    "current_timestamp" | "localtime" | "localtimestamp" => {
                        Scalar::Now.typed(Vec::new())
                    }
                    "current_date" => Scalar::Curdate.typed(Vec::new()),
                    "current_time" => Scalar::Curtime.typed(Vec::new()),
                    "current_user" => Scalar::CurrentUser.typed(Vec::new()),
                    "utc_timestamp" => Scalar::UtcTimestamp.typed(Vec::new()),
                    "utc_date" => Scalar::UtcDate.typed(Vec::new()),
                    _ => Err(error),
                }
            }
            other => other,
        }
    }

    fn truth(&self, expr: Expr) -> Typed {
        Typed { expr, ty: ColumnType::BIGINT, collation: Collation::Binary, nullable: true }
    }

    fn certain(&self, expr: Expr) -> Typed {
        Typed { nullable: false, ..self.truth(expr) }
    }

    /// Binds an expression of which only the truth value is needed.
    pub(crate) fn condition(&mut self, expr: &ast::Expr) -> Result<Expr> {
        Ok(self.bind(expr)?.counted().expr)
    }

    fn call(&mut self, call: Scalar, args: &[&ast::Expr]) -> Result<Typed> {
        let args = args.iter().map(|e| self.argument(call, e)).collect::<Result<Vec<_>>>()?;
        call.typed(args)
    }
}
