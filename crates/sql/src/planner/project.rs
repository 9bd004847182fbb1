//! The output of a SELECT: its columns, its groups and its order.

use spillway_types::Collation;
use sqlparser::ast::{self, GroupByExpr, SelectItem, SelectItemQualifiedWildcardKind};

use super::bind::Binder;
use super::scope::ScopeTable;
use crate::api::{ColumnFlags, ResultColumn};
use crate::errors::{Result, SqlError};
use crate::expression::{Expr, Typed, refuse_charset};
use crate::parser::part_name;

pub(crate) fn project(
    binder: &mut Binder<'_>,
    select: &ast::Select,
) -> Result<(Vec<ResultColumn>, Vec<Typed>)> {
    let (mut columns, mut projections) = (Vec::new(), Vec::new());
    for item in &select.projection {
        match item {
            SelectItem::Wildcard(_) => {
                if binder.scope.tables.is_empty() {
                    return Err(SqlError::new(1096, "No tables used"));
                }
                for (table, column) in &binder.scope.star {
                    let table = &binder.scope.tables[*table];
                    star_column(table, *column, &mut columns, &mut projections);
                }
            }
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                let alias = name.0.last().map_or(String::new(), part_name);
                let tables = binder.scope.tables.clone();
                let table = tables.iter().find(|table| table.alias.eq_ignore_ascii_case(&alias));
                let table =
                    table.ok_or_else(|| SqlError::new(1051, format!("Unknown table '{alias}'")))?;
                for column in 0..table.columns.len() {
                    star_column(table, column, &mut columns, &mut projections);
                }
            }
            SelectItem::UnnamedExpr(expr) => {
                let typed = binder.bind_any(expr)?.settled();
                let name = match expr {
                    ast::Expr::Identifier(ident) => ident.value.clone(),
                    ast::Expr::CompoundIdentifier(parts) if !parts[0].value.starts_with("@@") => {
                        parts.last().map(|part| part.value.clone()).unwrap_or_default()
                    }
                    ast::Expr::Value(value) => match &value.value {
                        ast::Value::SingleQuotedString(text)
                        | ast::Value::DoubleQuotedString(text) => text.clone(),
                        ast::Value::Placeholder(_) => "?".to_owned(),
                        other => other.to_string(),
                    },
                    other => shown(other),
                };
                columns.push(result_column(binder, &name, &typed));
                projections.push(typed);
            }
            SelectItem::ExprWithAlias { expr, alias } => {
                let typed = binder.bind_any(expr)?.settled();
                columns.push(result_column(binder, &alias.value, &typed));
                projections.push(typed);
            }
            other => return Err(SqlError::unsupported(other)),
        }
    }
    Ok((columns, projections))
}

/// An expression's text, which names its column if the column has no alias and is not named by its
/// source text (`parser/names`).
fn shown(expr: &ast::Expr) -> String {
    expr.to_string().chars().take(256).collect()
}

fn result_column(binder: &Binder<'_>, name: &str, typed: &Typed) -> ResultColumn {
    let mut column = expression_column(name, typed);
    if let Expr::Column(slot) = typed.expr {
        for table in &binder.scope.tables {
            if let Some(at) = slot.checked_sub(table.offset)
                && let Some(origin) = table.columns.get(at)
            {
                column.schema = table.db.as_str().into();
                column.table = table.alias.as_str().into();
                column.org_table = table.name.as_str().into();
                column.org_name = origin.name.as_str().into();
                column.flags = ColumnFlags { not_null: !origin.nullable, ..origin.flags };
            }
        }
    }
    column
}

fn star_column(
    table: &ScopeTable,
    at: usize,
    columns: &mut Vec<ResultColumn>,
    projections: &mut Vec<Typed>,
) {
    let column = &table.columns[at];
    columns.push(ResultColumn {
        schema: table.db.as_str().into(),
        table: table.alias.as_str().into(),
        org_table: table.name.as_str().into(),
        name: column.name.as_str().into(),
        org_name: column.name.as_str().into(),
        column_type: column.ty.clone(),
        collation: if column.ty.is_text() { column.collation } else { Collation::Binary },
        flags: ColumnFlags { not_null: !column.nullable, ..column.flags },
    });
    projections.push(Typed {
        expr: Expr::Column(table.offset + at),
        ty: column.ty.clone(),
        collation: column.collation,
        nullable: column.nullable,
    });
}

pub(crate) fn group_by(
    binder: &mut Binder<'_>,
    select: &ast::Select,
    projections: &[Typed],
) -> Result<Vec<(Expr, Collation)>> {
    let (list, modifiers) = match &select.group_by {
        GroupByExpr::Expressions(list, modifiers) => (list, modifiers),
        GroupByExpr::All(_) => return Err(SqlError::unsupported("GROUP BY ALL")),
    };
    if !modifiers.is_empty() {
        return Err(SqlError::unsupported("GROUP BY ... WITH ROLLUP"));
    }
    binder.place = "group statement";
    let allowed = std::mem::replace(&mut binder.aggregates_allowed, false);
    let group = list
        .iter()
        .map(|e| {
            let typed = match position(e, projections.len())? {
                Some(at) => projections[at].clone(),
                None => binder.bind(e)?,
            };
            refuse_charset(&typed.expr)?;
            if typed.expr.reach() > binder.aggregate_base {
                return Err(SqlError::new(1056, format!("Can't group on '{e}'")));
            }
            Ok((typed.expr, typed.collation))
        })
        .collect();
    binder.aggregates_allowed = allowed;
    group
}

/// The position of a result column, if an expression in GROUP BY or ORDER BY is a number.
fn position(expr: &ast::Expr, columns: usize) -> Result<Option<usize>> {
    let ast::Expr::Value(value) = expr else { return Ok(None) };
    let ast::Value::Number(text, _) = &value.value else { return Ok(None) };
    match text.parse::<usize>() {
        // A number with a fraction is a constant and no position.
        Err(_) if !text.bytes().all(|byte| byte.is_ascii_digit()) => Ok(None),
        Ok(at) if (1..=columns).contains(&at) => Ok(Some(at - 1)),
        _ => Err(SqlError::unknown_column(text, "order clause")),
    }
}

pub(crate) fn order_by(
    binder: &mut Binder<'_>,
    order: &[ast::OrderByExpr],
    columns: &[ResultColumn],
    projections: &[Typed],
) -> Result<Vec<(Expr, bool, Collation)>> {
    order
        .iter()
        .map(|by| {
            // An alias of a result column takes precedence over a column of the tables.
            let alias = match &by.expr {
                ast::Expr::Identifier(ident) => {
                    columns.iter().position(|column| column.name.eq_ignore_ascii_case(&ident.value))
                }
                other => position(other, projections.len())?,
            };
            let typed = match alias {
                Some(at) => projections[at].clone(),
                None => binder.bind(&by.expr)?,
            };
            refuse_charset(&typed.expr)?;
            let typed = typed.by_member();
            Ok((typed.expr, by.options.asc.unwrap_or(true), typed.collation))
        })
        .collect()
}

/// A result column that is not a column of a table.
pub(crate) fn expression_column(name: &str, typed: &Typed) -> ResultColumn {
    ResultColumn {
        schema: "".into(),
        table: "".into(),
        org_table: "".into(),
        name: name.into(),
        org_name: "".into(),
        column_type: typed.ty.clone(),
        collation: if typed.ty.is_text() { typed.collation } else { Collation::Binary },
        flags: ColumnFlags { not_null: !typed.nullable, ..ColumnFlags::default() },
    }
}
