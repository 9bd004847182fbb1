//! Binds calls of functions, and subqueries.

use std::sync::Arc;

use spillway_types::{Collation, ColumnType, Value};
use sqlparser::ast::{self, DuplicateTreatment, FunctionArg, FunctionArgExpr, FunctionArguments};

use super::aggregates::WrittenAggregate;
use super::{Binder, boxed, is_variable};
use crate::catalog::{DefaultValue, TableDef};
use crate::errors::{Result, SqlError};
use crate::expression::{
    Ask, Expr, Op, Scalar, Typed, beside_column, common_collation, typed_value,
};
use crate::parser::unit_named;
use crate::planner::aggregate::AggregateKind;
use crate::planner::plan;
use crate::planner::query_plan::{QueryBody, QueryPlan};
use crate::planner::stored_expressions::bind_default;

/// Whether a column of a subquery counts as constant in a comparison. A row subquery has one row,
/// so all its columns do. Otherwise only a column of constants does, and for a set operation only
/// with = and <>, because other operators first find the least or the greatest row.
fn is_fixed(plan: &QueryPlan, ask: Ask, at: usize) -> bool {
    let is_set = matches!(plan.body, QueryBody::Set { .. });
    match ask {
        Ask::Row(_) => true,
        Ask::Any(op) | Ask::All(op) if is_set && !matches!(op, Op::Eq | Op::NotEq) => false,
        _ => plan.is_fixed(at),
    }
}

impl Binder<'_> {
    /// Binds a subquery with `width` columns, or with any number of columns if that is 0, and the
    /// value or row that is compared with it, if any.
    pub(super) fn subquery(
        &mut self,
        subquery: &ast::Query,
        ask: Ask,
        mut left: Vec<Typed>,
        width: usize,
    ) -> Result<Typed> {
        let mut plan = plan::plan_query(self.names, subquery, Some(self), &self.ctes)?;
        plan.refuse_charsets()?;
        if width > 0 && plan.columns.len() != width {
            return Err(SqlError::new(1241, format!("Operand should contain {width} column(s)")));
        }
        let mut collations: Vec<Collation> =
            plan.columns.iter().map(|column| column.collation).collect();
        let (ty, collation) =
            plan.columns.first().map_or((ColumnType::BIGINT, Collation::Binary), |column| {
                (column.column_type.clone(), column.collation)
            });
        let mut exact = Vec::new();
        for (at, part) in left.iter_mut().enumerate() {
            if plan.columns[at].column_type.is_numeric() {
                // Members that are compared with numbers become numbers.
                *part = part.clone().counted();
            } else if part.ty.is_numeric() {
                plan.count_members(at);
            }
            let column = Typed {
                // A subquery's column may be of any make, so it is not told as a column.
                expr: match plan.literal_bytes(at) {
                    Some(literal) => literal.clone(),
                    None => {
                        Expr::Cast(boxed(Expr::Column(0)), plan.columns[at].column_type.clone())
                    }
                },
                ty: plan.columns[at].column_type.clone(),
                collation: plan.columns[at].collation,
                nullable: true,
            };
            collations[at] = common_collation(&[part, &column])?;
            *part = part.clone().bytes_as_text(collations[at])?;
            let column = column.bytes_as_text(collations[at])?;
            plan.replace_literal_bytes(at, &column);
            if beside_column(part, &column, is_fixed(&plan, ask, at)) {
                exact.push(at);
            }
        }
        let mut left: Vec<Expr> = left.into_iter().map(|part| part.expr).collect();
        let left = if left.len() > 1 { Some(Expr::Tuple(left)) } else { left.pop() };
        let expr =
            Expr::Subquery { plan: Arc::new(plan), ask, left: left.map(boxed), collations, exact };
        Ok(match ask {
            // As in MySQL, a subquery gives the text of a member and not its number.
            Ask::Scalar if matches!(ty, ColumnType::Enum(_) | ColumnType::Set(_)) => {
                Typed { expr, ty, collation, nullable: true }.shown()
            }
            Ask::Scalar => Typed { expr, ty, collation, nullable: true },
            _ => self.truth(expr),
        })
    }

    pub(super) fn function(&mut self, function: &ast::Function) -> Result<Typed> {
        let name = function.name.to_string().replace('`', "").to_ascii_lowercase();
        if function.over.is_some() {
            return Err(SqlError::unsupported("window functions"));
        }
        let list = match &function.args {
            FunctionArguments::List(list) => list,
            FunctionArguments::None => {
                let call = Scalar::find(&name).ok_or_else(|| unknown_function(&name))?;
                return call.typed(Vec::new());
            }
            FunctionArguments::Subquery(_) => return Err(SqlError::unsupported(function)),
        };
        let mut args: Vec<&ast::Expr> = Vec::new();
        let mut star = false;
        for arg in &list.args {
            match arg {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(e)) => args.push(e),
                FunctionArg::Unnamed(FunctionArgExpr::Wildcard) => star = true,
                other => return Err(SqlError::unsupported(other)),
            }
        }
        if let Some(kind) = AggregateKind::find(&name) {
            let distinct = list.duplicate_treatment == Some(DuplicateTreatment::Distinct);
            if args.is_empty() && !star {
                return Err(SqlError::syntax("an aggregate needs an argument"));
            }
            return self.aggregate(WrittenAggregate {
                kind,
                args: &args,
                distinct,
                clauses: &list.clauses,
            });
        }
        match (name.as_str(), args.as_slice()) {
            ("date_add" | "adddate" | "date_sub" | "subdate", [date, second]) => {
                return self.shifted_date(date, second, name.contains("sub"));
            }
            ("timestampadd", [unit, amount, date]) => {
                let unit = single_unit(unit)?.to_owned();
                let (amount, date) = (self.bind(amount)?, self.bind(date)?);
                return Ok(interval_expr(date, amount, unit, false));
            }
            ("timestampdiff", [unit, from, to]) => {
                let unit = typed_value(Value::from(single_unit(unit)?));
                let args = vec![unit, self.bind(from)?, self.bind(to)?];
                return Scalar::Timestampdiff.typed(args);
            }
            ("values", [column]) if self.inserting.is_some() => {
                return self.inserted_value(column);
            }
            ("default", [column]) => return self.default_of(column),
            ("default", _) => return Err(SqlError::syntax("DEFAULT() takes one column name")),
            ("charset" | "collation", [one]) => {
                if let Some(named) = self.charset_named(&name, one)? {
                    return Ok(named);
                }
            }
            ("log" | "ln", [one]) => return self.call(Scalar::Ln, &[one]),
            _ => {}
        }
        if star {
            return Err(SqlError::syntax(format!("near '{name}(*)'")));
        }
        let call = Scalar::find(&name).ok_or_else(|| unknown_function(&name))?;
        let json = matches!(call, Scalar::JsonObject | Scalar::JsonArray);
        let around = self.keeps_truth;
        self.keeps_truth |= json;
        let made = self.call(call, &args);
        self.keeps_truth = around;
        made
    }

    /// DEFAULT(): the default of a stored table's column. As in MariaDB, and unlike MySQL, it may
    /// be an expression.
    fn default_of(&self, column: &ast::Expr) -> Result<Typed> {
        let path: Vec<String> = match column {
            ast::Expr::Identifier(ident) if !is_variable(ident) => vec![ident.value.clone()],
            ast::Expr::CompoundIdentifier(parts) if !is_variable(&parts[0]) => {
                parts.iter().map(|part| part.value.clone()).collect()
            }
            other => return Err(SqlError::syntax(format!("near '{other}'"))),
        };
        let (table, at) = self.stored_column(&path)?;
        let def = &table.columns[at];
        let made = match &def.default {
            DefaultValue::None if !def.nullable && !def.auto_increment => {
                return Err(SqlError::no_default(&def.name));
            }
            DefaultValue::CurrentTimestamp => {
                let digits = match def.ty {
                    ColumnType::DateTime(digits) | ColumnType::Timestamp(digits) => digits,
                    _ => 0,
                };
                Scalar::Now.typed(vec![typed_value(Value::Int(digits.into()))])?.expr
            }
            DefaultValue::Expr(text) => bind_default(self.names.catalog, &def.name, text)?,
            _ => Expr::Const(def.constant_default()),
        };
        // Bytes that are a constant would be a hexadecimal literal.
        let is_cast = matches!(def.default, DefaultValue::Expr(_)) || def.ty.is_binary();
        let expr = if is_cast { Expr::Cast(boxed(made), def.ty.clone()) } else { made };
        let (ty, collation) = (def.ty.clone(), def.collation);
        Ok(Typed { expr, ty, collation, nullable: def.nullable })
    }

    /// The stored table, and the position of its column, to which a name refers in this query or in
    /// an enclosing one.
    ///
    /// # Errors
    /// 1235 for a column of another table.
    fn stored_column(&self, path: &[String]) -> Result<(Arc<TableDef>, usize)> {
        for binder in Binder::chain(Some(self)) {
            let Some((slot, table, _)) = binder.scope.find(path)? else { continue };
            let Ok(def) = self.names.catalog.table(&table.db, &table.name) else {
                return Err(SqlError::unsupported("DEFAULT() of a column of no stored table"));
            };
            return Ok((def.clone(), slot - table.offset));
        }
        Err(SqlError::unknown_column(&path.join("."), self.place))
    }

    /// DATE_ADD and similar functions: a date, and an interval or a number of days.
    fn shifted_date(
        &mut self,
        date: &ast::Expr,
        shift: &ast::Expr,
        negative: bool,
    ) -> Result<Typed> {
        let date = self.bind(date)?;
        if let ast::Expr::Interval(interval) = shift {
            let amount = self.bind(&interval.value)?;
            let unit = interval.leading_field.as_ref().map(ToString::to_string).unwrap_or_default();
            return Ok(interval_expr(date, amount, unit, negative));
        }
        let amount = self.bind(shift)?;
        Ok(interval_expr(date, amount, "DAY".to_owned(), negative))
    }

    /// VALUES(): the value that the INSERT would have assigned to a column.
    fn inserted_value(&self, column: &ast::Expr) -> Result<Typed> {
        let name = match column {
            ast::Expr::Identifier(ident) => ident.value.as_str(),
            ast::Expr::CompoundIdentifier(parts) => {
                parts.last().map_or("", |part| part.value.as_str())
            }
            other => return Err(SqlError::syntax(format!("near '{other}'"))),
        };
        let table = self.inserting.clone();
        let found = table.as_ref().and_then(|table| Some((table.column(name)?, table)));
        let (at, table) = found.ok_or_else(|| SqlError::unknown_column(name, self.place))?;
        let def = &table.columns[at];
        Ok(Typed {
            expr: Expr::Inserted(at),
            ty: def.ty.clone(),
            collation: def.collation,
            nullable: true,
        })
    }
}

/// The unit in the first argument of TIMESTAMPADD and TIMESTAMPDIFF.
fn single_unit(unit: &ast::Expr) -> Result<&'static str> {
    let found = match unit {
        ast::Expr::Identifier(ident) if ident.quote_style.is_none() => unit_named(&ident.value),
        _ => None,
    };
    let single = found.filter(|unit| !unit.contains('_'));
    single.ok_or_else(|| SqlError::syntax(format!("near '{unit}'")))
}

fn unknown_function(name: &str) -> SqlError {
    SqlError::new(1305, format!("FUNCTION {name} does not exist"))
}

pub(super) fn interval_expr(date: Typed, amount: Typed, unit: String, negative: bool) -> Typed {
    let unit = unit.to_ascii_lowercase();
    let date = if date.is_moment_text() { date.moment_today() } else { date };
    let timed = ["hour", "minute", "second"].iter().any(|part| unit.contains(part));
    let micros = unit.contains("micro");
    let fraction = match &amount.ty {
        _ if micros => 6,
        _ if unit != "second" => 0,
        ColumnType::Decimal { scale, .. } => (*scale).min(6),
        ty if ty.is_numeric() && !matches!(ty, ColumnType::Float | ColumnType::Double) => 0,
        _ => 6,
    };
    let dated = !timed && !micros && !unit.starts_with("day");
    let ty = match &date.ty {
        ColumnType::Date if timed || micros => ColumnType::DateTime(fraction),
        ColumnType::Date => ColumnType::Date,
        ColumnType::Time(digits) if dated => ColumnType::DateTime(*digits),
        ColumnType::Time(digits) => ColumnType::Time(fraction.max(*digits)),
        ColumnType::DateTime(digits) | ColumnType::Timestamp(digits) => {
            ColumnType::DateTime(fraction.max(*digits))
        }
        _ => ColumnType::VarChar(29),
    };
    let expr =
        Expr::Interval { date: boxed(date.expr), amount: boxed(amount.expr), unit, negative };
    Typed { expr, ty, collation: Collation::GeneralCi, nullable: true }
}
