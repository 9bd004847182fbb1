//! Planning: which tables are read in which order, through which index, and where each condition is checked.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use spillway::{LockMode, LockWait};
use spillway_types::{Collation, ColumnType, Value};
use sqlparser::ast::{
    self, Distinct, GroupByExpr, JoinConstraint, JoinOperator, LimitClause, OrderByKind,
    SelectItem, SelectItemQualifiedWildcardKind, SetExpr, SetOperator, SetQuantifier, TableFactor,
};

use super::access::available;
use super::full_group::Grouped;
use super::steps;
use super::{Access, Body, Hints, QueryPlan, SelectPlan, SetOp, Source, SourceKind, choose_access};
use crate::api::{ColumnFlags, ResultColumn};
use crate::catalog::{Catalog, TableDef};
use crate::errors::{Result, SqlError};
use crate::expr::{Binder, Expr, Op, ScopeTable, Typed};

type Vars<'a> = &'a dyn Fn(&str, &str) -> Option<Value>;
type Ctes = [(String, Arc<QueryPlan>)];

static PLANS: AtomicUsize = AtomicUsize::new(1);

/// Plans a query.
pub(crate) fn plan_query(
    catalog: &Catalog,
    database: Option<&str>,
    variables: Vars<'_>,
    query: &ast::Query,
    parent: Option<&Binder<'_>>,
    ctes: &Ctes,
) -> Result<QueryPlan> {
    let mut ctes = ctes.to_vec();
    if let Some(with) = &query.with {
        if with.recursive {
            return Err(SqlError::unsupported("WITH RECURSIVE"));
        }
        for cte in &with.cte_tables {
            let mut plan = plan_query(catalog, database, variables, &cte.query, parent, &ctes)?;
            rename_columns(&mut plan, &cte.alias.columns)?;
            ctes.push((cte.alias.name.value.clone(), Arc::new(plan)));
        }
    }
    let lock = lock_of(query)?;
    let (limit, offset) = limits(catalog, database, variables, query)?;
    let order: &[ast::OrderByExpr] = match &query.order_by {
        None => &[],
        Some(by) => match &by.kind {
            OrderByKind::Expressions(list) => list,
            OrderByKind::All(_) => return Err(SqlError::unsupported("ORDER BY ALL")),
        },
    };
    let mut plan = match &*query.body {
        SetExpr::Select(select) => {
            plan_select(catalog, database, variables, select, order, lock, parent, &ctes)?
        }
        body => {
            let mut plan = plan_body(catalog, database, variables, body, parent, &ctes)?;
            plan.order = order_by_result(&plan.columns, order)?;
            plan
        }
    };
    if limit.is_some() || offset.is_some() {
        if plan.limit.is_some() || plan.offset.is_some() {
            // A parenthesised query with a limit of its own.
            plan = QueryPlan {
                columns: plan.columns.clone(),
                outer_reach: plan.outer_reach,
                correlated: plan.correlated,
                body: Body::Set {
                    left: Box::new(plan),
                    right: Box::new(empty()),
                    op: SetOp::Union,
                    all: true,
                },
                order: Vec::new(),
                limit: None,
                offset: None,
                counted: false,
                id: PLANS.fetch_add(1, Ordering::Relaxed),
            };
        }
        plan.limit = limit;
        plan.offset = offset;
    }
    plan.counted = parent.is_none() && counts_rows(&query.body);
    Ok(plan)
}

/// Whether a query says SQL_CALC_FOUND_ROWS: its first SELECT does.
fn counts_rows(body: &SetExpr) -> bool {
    match body {
        SetExpr::Select(select) => {
            select.select_modifiers.as_ref().is_some_and(|words| words.sql_calc_found_rows)
        }
        SetExpr::SetOperation { left, .. } => counts_rows(left),
        SetExpr::Query(query) => counts_rows(&query.body),
        _ => false,
    }
}

fn empty() -> QueryPlan {
    QueryPlan {
        columns: Vec::new(),
        body: Body::Values(Vec::new()),
        order: Vec::new(),
        limit: None,
        offset: None,
        counted: false,
        outer_reach: 0,
        correlated: false,
        id: PLANS.fetch_add(1, Ordering::Relaxed),
    }
}

fn rename_columns(plan: &mut QueryPlan, names: &[ast::TableAliasColumnDef]) -> Result<()> {
    if names.is_empty() {
        return Ok(());
    }
    if names.len() != plan.columns.len() {
        return Err(SqlError::new(
            1353,
            "The number of column names differs from that of the columns",
        ));
    }
    for (column, name) in plan.columns.iter_mut().zip(names) {
        column.name = name.name.value.as_str().into();
    }
    Ok(())
}

fn lock_of(query: &ast::Query) -> Result<Option<(LockMode, LockWait)>> {
    let Some(clause) = query.locks.first() else { return Ok(None) };
    let mode = match clause.lock_type {
        ast::LockType::Share => LockMode::Shared,
        ast::LockType::Update => LockMode::Exclusive,
    };
    let wait = match clause.nonblock {
        None => LockWait::Wait,
        Some(ast::NonBlock::Nowait) => LockWait::NoWait,
        Some(ast::NonBlock::SkipLocked) => LockWait::SkipLocked,
    };
    Ok(Some((mode, wait)))
}

fn limits(
    catalog: &Catalog,
    database: Option<&str>,
    variables: Vars<'_>,
    query: &ast::Query,
) -> Result<(Option<Expr>, Option<Expr>)> {
    let mut binder = Binder::new(catalog, database, variables);
    let mut bind = |e: &ast::Expr| binder.bind(e).map(|typed| typed.expr);
    match &query.limit_clause {
        None => Ok((None, None)),
        Some(LimitClause::LimitOffset { limit, offset, .. }) => Ok((
            limit.as_ref().map(&mut bind).transpose()?,
            offset.as_ref().map(|offset| bind(&offset.value)).transpose()?,
        )),
        Some(LimitClause::OffsetCommaLimit { offset, limit }) => {
            Ok((Some(bind(limit)?), Some(bind(offset)?)))
        }
    }
}

fn plan_body(
    catalog: &Catalog,
    database: Option<&str>,
    variables: Vars<'_>,
    body: &SetExpr,
    parent: Option<&Binder<'_>>,
    ctes: &Ctes,
) -> Result<QueryPlan> {
    match body {
        SetExpr::Select(select) => {
            plan_select(catalog, database, variables, select, &[], None, parent, ctes)
        }
        SetExpr::Query(query) => plan_query(catalog, database, variables, query, parent, ctes),
        SetExpr::SetOperation { left, op, set_quantifier, right } => {
            let left = plan_body(catalog, database, variables, left, parent, ctes)?;
            let right = plan_body(catalog, database, variables, right, parent, ctes)?;
            if left.columns.len() != right.columns.len() {
                return Err(SqlError::new(
                    1222,
                    "The used SELECT statements have a different number of columns",
                ));
            }
            let op = match op {
                SetOperator::Union => SetOp::Union,
                SetOperator::Intersect => SetOp::Intersect,
                SetOperator::Except | SetOperator::Minus => SetOp::Except,
            };
            let columns = left
                .columns
                .iter()
                .zip(&right.columns)
                .map(|(a, b)| {
                    let typed = |column: &ResultColumn| Typed {
                        expr: Expr::Column(0),
                        ty: column.column_type.clone(),
                        collation: column.collation,
                        nullable: !column.flags.not_null,
                    };
                    let span =
                        |column: &ResultColumn| matches!(column.column_type, ColumnType::Time(_));
                    let ty = crate::expr::merge([&typed(a), &typed(b)].into_iter());
                    if span(a) != span(b) && matches!(ty, ColumnType::DateTime(_)) {
                        return Err(SqlError::unsupported("set operations of times and dates"));
                    }
                    let flags = ColumnFlags {
                        not_null: a.flags.not_null && b.flags.not_null,
                        ..ColumnFlags::default()
                    };
                    let text = |column: &&ResultColumn| column.column_type.is_text();
                    let collation = [a, b].into_iter().find(text).map_or(
                        if ty.is_text() { Collation::GeneralCi } else { Collation::Binary },
                        |column| column.collation,
                    );
                    let collation = if ty.is_text() { collation } else { Collation::Binary };
                    Ok(ResultColumn { column_type: ty, collation, flags, ..a.clone() })
                })
                .collect::<Result<Vec<_>>>()?;
            Ok(QueryPlan {
                columns,
                outer_reach: left.outer_reach.max(right.outer_reach),
                correlated: left.correlated || right.correlated,
                body: Body::Set {
                    left: Box::new(left),
                    right: Box::new(right),
                    op,
                    all: *set_quantifier == SetQuantifier::All,
                },
                order: Vec::new(),
                limit: None,
                offset: None,
                counted: false,
                id: PLANS.fetch_add(1, Ordering::Relaxed),
            })
        }
        SetExpr::Values(values) => {
            let mut binder = Binder::new(catalog, database, variables);
            binder.parent = parent;
            let mut rows = Vec::new();
            let mut columns = Vec::new();
            for row in &values.rows {
                let first = values.rows.first().map_or(0, |first| first.content.len());
                if row.content.is_empty() {
                    return Err(SqlError::new(
                        3942,
                        "Each row of a VALUES clause must have at least one column, unless when used as source in an INSERT statement.",
                    ));
                }
                if row.content.len() != first {
                    let text =
                        format!("Column count doesn't match value count at row {}", rows.len() + 1);
                    return Err(SqlError::new(1136, text));
                }
                let typed =
                    row.content.iter().map(|e| binder.bind(e)).collect::<Result<Vec<_>>>()?;
                if columns.is_empty() {
                    let named = typed.iter().enumerate();
                    columns = named
                        .map(|(at, typed)| expression_column(&format!("column_{at}"), typed))
                        .collect();
                }
                rows.push(typed.into_iter().map(|typed| typed.expr).collect());
            }
            let outer_reach = binder.outer_reach.get();
            let correlated = binder.correlated.get();
            Ok(QueryPlan { columns, body: Body::Values(rows), outer_reach, correlated, ..empty() })
        }
        other => Err(SqlError::unsupported(other)),
    }
}

/// ORDER BY over the columns of a result: by number or by name.
fn order_by_result(
    columns: &[ResultColumn],
    order: &[ast::OrderByExpr],
) -> Result<Vec<(Expr, bool, Collation)>> {
    order
        .iter()
        .map(|by| {
            let shown = by.expr.to_string().replace('`', "");
            let at = match shown.parse::<usize>() {
                Ok(number) => number.checked_sub(1).filter(|at| *at < columns.len()),
                Err(_) => {
                    columns.iter().position(|column| column.name.eq_ignore_ascii_case(&shown))
                }
            };
            let at = at.ok_or_else(|| SqlError::unknown_column(&shown, "order clause"))?;
            Ok((Expr::Column(at), by.options.asc.unwrap_or(true), columns[at].collation))
        })
        .collect()
}

fn expression_column(name: &str, typed: &Typed) -> ResultColumn {
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

/// The parts of a FROM clause while it is bound.
struct From<'a, 'b> {
    binder: &'a mut Binder<'b>,
    sources: Vec<Source>,
    /// Conditions of inner joins, and those of the WHERE clause.
    conditions: Vec<Expr>,
    width: usize,
    straight: bool,
    /// What `*` stands for: tables and their columns.
    shown: Vec<(usize, usize)>,
}

impl From<'_, '_> {
    fn add(&mut self, mut table: ScopeTable, kind: SourceKind) -> Result<()> {
        let duplicate = self.binder.scope.tables.iter().any(|other| {
            other.alias.eq_ignore_ascii_case(&table.alias)
                && other.db.eq_ignore_ascii_case(&table.db)
        });
        if duplicate {
            return Err(SqlError::new(1066, format!("Not unique table/alias: '{}'", table.alias)));
        }
        table.offset = self.width;
        let width = table.columns.len() + 1;
        self.sources.push(Source {
            kind,
            alias: table.alias.clone(),
            offset: self.width,
            width,
            access: Access::default(),
            others: Vec::new(),
            hints: Hints::default(),
            outer: None,
            filters: Vec::new(),
            tests: Vec::new(),
            rest: Vec::new(),
            initial: Vec::new(),
            needed: None,
            hash: Vec::new(),
        });
        self.width += width;
        let number = self.binder.scope.tables.len();
        self.shown.extend((0..table.columns.len()).map(|column| (number, column)));
        self.binder.scope.tables.push(table);
        Ok(())
    }

    fn factor(&mut self, factor: &TableFactor, variables: Vars<'_>) -> Result<()> {
        match factor {
            TableFactor::Table { name, alias, args: None, index_hints, .. } => {
                let path: Vec<String> = name.0.iter().map(part_name).collect();
                let alias_name = alias.as_ref().map(|alias| alias.name.value.clone());
                if let [single] = path.as_slice()
                    && let Some((_, plan)) = self
                        .binder
                        .ctes
                        .iter()
                        .rev()
                        .find(|(cte, _)| cte.eq_ignore_ascii_case(single))
                {
                    let plan = plan.clone();
                    let table = derived_scope(alias_name.unwrap_or_else(|| single.clone()), &plan);
                    return self.add(table, SourceKind::Derived(plan));
                }
                if let [single] = path.as_slice()
                    && single.eq_ignore_ascii_case("dual")
                {
                    return Ok(());
                }
                let (table, kind) =
                    named_table(self.binder.catalog, self.binder.database, &path, alias_name)?;
                let hints = match &kind {
                    SourceKind::Table(table) => Hints::new(table, index_hints)?,
                    _ => Hints::default(),
                };
                self.add(table, kind)?;
                if let Some(source) = self.sources.last_mut() {
                    source.hints = hints;
                }
                Ok(())
            }
            TableFactor::Derived { lateral, subquery, alias, .. } => {
                if *lateral {
                    return Err(SqlError::unsupported("LATERAL"));
                }
                let Some(alias) = alias else {
                    return Err(SqlError::new(1248, "Every derived table must have its own alias"));
                };
                let mut plan = plan_query(
                    self.binder.catalog,
                    self.binder.database,
                    variables,
                    subquery,
                    self.binder.parent,
                    &self.binder.ctes,
                )?;
                rename_columns(&mut plan, &alias.columns)?;
                let table = derived_scope(alias.name.value.clone(), &plan);
                self.add(table, SourceKind::Derived(Arc::new(plan)))
            }
            TableFactor::NestedJoin { table_with_joins, .. } => {
                self.joins(table_with_joins, variables)
            }
            other => Err(SqlError::unsupported(other)),
        }
    }

    fn joins(&mut self, tables: &ast::TableWithJoins, variables: Vars<'_>) -> Result<()> {
        let first = self.sources.len();
        let others = std::mem::take(&mut self.shown);
        self.factor(&tables.relation, variables)?;
        for join in &tables.joins {
            let left_shown = std::mem::take(&mut self.shown);
            let left_tables = self.binder.scope.tables.len();
            let before = self.sources.len();
            self.factor(&join.relation, variables)?;
            let (constraint, outer) = match &join.join_operator {
                JoinOperator::Join(c) | JoinOperator::Inner(c) | JoinOperator::CrossJoin(c) => {
                    (c, None)
                }
                JoinOperator::StraightJoin(c) => (c, None),
                JoinOperator::Left(c) | JoinOperator::LeftOuter(c) => (c, Some(false)),
                JoinOperator::Right(c) | JoinOperator::RightOuter(c) => (c, Some(true)),
                other => return Err(SqlError::unsupported(format!("{other:?}"))),
            };
            let mut on = Vec::new();
            let names = self.constraint(constraint, left_tables, outer == Some(true), &mut on)?;
            let right_shown = std::mem::take(&mut self.shown);
            let (one, other) = if outer == Some(true) {
                (right_shown, left_shown)
            } else {
                (left_shown, right_shown)
            };
            self.shown = self.joined(&names, one, other, outer == Some(true));
            match outer {
                None => self.conditions.extend(on),
                Some(right) => {
                    self.straight = true;
                    if self.sources.len() != before + 1 {
                        return Err(SqlError::unsupported("an outer join with a nested join"));
                    }
                    if right {
                        if before != first + 1 {
                            return Err(SqlError::unsupported("RIGHT JOIN after another join"));
                        }
                        self.sources.swap(first, before);
                    }
                    let joined = self.sources.len() - 1;
                    self.sources[joined].outer = Some(on);
                    // Its columns may be NULL now.
                    let alias = self.sources[joined].alias.clone();
                    for table in &mut self.binder.scope.tables {
                        if table.alias == alias {
                            table.columns.iter_mut().for_each(|column| column.nullable = true);
                        }
                    }
                }
            }
        }
        let all = others.into_iter().chain(std::mem::take(&mut self.shown)).collect();
        self.shown = all;
        Ok(())
    }

    /// What `*` shows of a join: the columns that it joins by, once, then the rest of each side.
    fn joined(
        &self,
        names: &[String],
        one: Vec<(usize, usize)>,
        other: Vec<(usize, usize)>,
        right: bool,
    ) -> Vec<(usize, usize)> {
        if names.is_empty() {
            return if right { [other, one].concat() } else { [one, other].concat() };
        }
        let tables = &self.binder.scope.tables;
        let common = |(table, column): &(usize, usize)| {
            let name = &tables[*table].columns[*column].name;
            names.iter().any(|other| other.eq_ignore_ascii_case(name))
        };
        let (first, rest): (Vec<_>, Vec<_>) = one.into_iter().partition(common);
        let other = other.into_iter().filter(|place| !common(place));
        first.into_iter().chain(rest).chain(other).collect()
    }

    fn constraint(
        &mut self,
        constraint: &JoinConstraint,
        left_tables: usize,
        right_join: bool,
        on: &mut Vec<Expr>,
    ) -> Result<Vec<String>> {
        let names: Vec<String> = match constraint {
            JoinConstraint::None => return Ok(Vec::new()),
            JoinConstraint::On(expr) => {
                self.binder.place = "on clause";
                let bound = self.binder.condition(expr)?;
                self.binder.place = "field list";
                bound.conjuncts(on);
                return Ok(Vec::new());
            }
            JoinConstraint::Using(columns) => {
                columns.iter().map(|name| name.0.last().map_or(String::new(), part_name)).collect()
            }
            JoinConstraint::Natural => {
                let tables = &self.binder.scope.tables;
                let (left, right) = tables.split_at(left_tables);
                let right = right.iter().flat_map(|table| &table.columns);
                let in_left = |name: &str| {
                    left.iter().flat_map(|t| &t.columns).any(|c| c.name.eq_ignore_ascii_case(name))
                };
                right
                    .filter(|column| in_left(&column.name))
                    .map(|column| column.name.clone())
                    .collect()
            }
        };
        for name in &names {
            let tables = &mut self.binder.scope.tables;
            let (left, right) = tables.split_at_mut(left_tables);
            let find = |tables: &[ScopeTable]| {
                tables.iter().find_map(|table| {
                    let at = table
                        .columns
                        .iter()
                        .position(|c| !c.merged && c.name.eq_ignore_ascii_case(name))?;
                    Some((table.offset + at, table.columns[at].collation))
                })
            };
            let (Some((a, collation)), Some((b, _))) = (find(left), find(right)) else {
                return Err(SqlError::unknown_column(name, "from clause"));
            };
            let hidden = if right_join { left } else { right };
            let column = hidden
                .iter_mut()
                .flat_map(|t| &mut t.columns)
                .find(|c| c.name.eq_ignore_ascii_case(name));
            if let Some(column) = column {
                column.merged = true;
            }
            on.push(Expr::Binary(
                Op::Eq,
                Box::new(Expr::Column(a)),
                Box::new(Expr::Column(b)),
                collation,
            ));
        }
        Ok(names)
    }
}

fn part_name(part: &ast::ObjectNamePart) -> String {
    match part {
        ast::ObjectNamePart::Identifier(ident) => ident.value.clone(),
        other => other.to_string(),
    }
}

/// The columns of a stored or virtual table.
pub(crate) fn named_table(
    catalog: &Catalog,
    database: Option<&str>,
    path: &[String],
    alias: Option<String>,
) -> Result<(ScopeTable, SourceKind)> {
    let (db, name) = match path {
        [name] => {
            let db = database.ok_or_else(|| SqlError::new(1046, "No database selected"))?;
            (db.to_owned(), name.clone())
        }
        [db, name] => (db.clone(), name.clone()),
        _ => return Err(SqlError::syntax(format!("near '{}'", path.join(".")))),
    };
    let alias = alias.unwrap_or_else(|| name.clone());
    let lower = db.to_ascii_lowercase();
    if crate::catalog::SYSTEM.contains(&lower.as_str()) {
        let full = format!("{lower}.{}", name.to_ascii_lowercase());
        let columns =
            crate::show::virtual_table(&full).ok_or_else(|| SqlError::unknown_table(&db, &name))?;
        let columns = columns
            .into_iter()
            .map(|(name, ty)| crate::expr::ScopeColumn {
                name,
                ty,
                collation: Collation::GeneralCi,
                nullable: true,
                merged: false,
                flags: ColumnFlags::default(),
            })
            .collect();
        return Ok((
            ScopeTable { db: lower, alias, name, columns, offset: 0 },
            SourceKind::Virtual(full),
        ));
    }
    if !catalog.has_database(&db) {
        return Err(SqlError::new(1049, format!("Unknown database '{db}'")));
    }
    let table = catalog.table(&db, &name)?.clone();
    let mut scope = table_scope(&table);
    scope.alias = alias;
    Ok((scope, SourceKind::Table(table)))
}

pub(crate) fn table_scope(table: &TableDef) -> ScopeTable {
    let columns = table
        .columns
        .iter()
        .enumerate()
        .map(|(at, column)| crate::expr::ScopeColumn {
            name: column.name.clone(),
            ty: column.ty.clone(),
            collation: column.collation,
            nullable: column.nullable,
            merged: false,
            flags: ColumnFlags {
                not_null: !column.nullable,
                primary: table.primary.iter().any(|part| part.column == at),
                unique: table
                    .indexes
                    .iter()
                    .any(|i| i.unique && i.parts.first().is_some_and(|p| p.column == at)),
                multiple: table
                    .indexes
                    .iter()
                    .any(|i| !i.unique && i.parts.first().is_some_and(|p| p.column == at)),
                auto_increment: column.auto_increment,
            },
        })
        .collect();
    ScopeTable {
        db: table.db.clone(),
        alias: table.name.clone(),
        name: table.name.clone(),
        columns,
        offset: 0,
    }
}

fn derived_scope(alias: String, plan: &QueryPlan) -> ScopeTable {
    let columns = plan
        .columns
        .iter()
        .map(|column| crate::expr::ScopeColumn {
            name: column.name.to_string(),
            ty: column.column_type.clone(),
            collation: column.collation,
            nullable: !column.flags.not_null,
            merged: false,
            flags: ColumnFlags::default(),
        })
        .collect();
    ScopeTable { db: String::new(), name: alias.clone(), alias, columns, offset: 0 }
}

#[allow(clippy::too_many_arguments)] // The context of a query, and its clauses.
fn plan_select(
    catalog: &Catalog,
    database: Option<&str>,
    variables: Vars<'_>,
    select: &ast::Select,
    order: &[ast::OrderByExpr],
    lock: Option<(LockMode, LockWait)>,
    parent: Option<&Binder<'_>>,
    ctes: &Ctes,
) -> Result<QueryPlan> {
    if select.into.is_some() {
        return Err(SqlError::unsupported("SELECT ... INTO"));
    }
    let mut binder = Binder::new(catalog, database, variables);
    binder.parent = parent;
    binder.ctes = ctes.to_vec();
    let mut from = From {
        binder: &mut binder,
        sources: Vec::new(),
        conditions: Vec::new(),
        width: 0,
        straight: false,
        shown: Vec::new(),
    };
    for tables in &select.from {
        from.joins(tables, variables)?;
    }
    let From { sources, mut conditions, width, straight, shown, .. } = from;
    binder.scope.star = shown;
    if let Some(selection) = &select.selection {
        binder.place = "where clause";
        binder.condition(selection)?.conjuncts(&mut conditions);
    }
    binder.aggregate_base = width;
    binder.aggregates_allowed = true;
    binder.place = "field list";
    let (columns, projections) = project(&mut binder, select)?;
    for (column, typed) in columns.iter().zip(&projections) {
        binder.aliases.push((column.name.to_string(), typed.clone()));
    }
    let group = group_by(&mut binder, select, &projections)?;
    binder.place = "having clause";
    let having = select.having.as_ref().map(|e| binder.condition(e)).transpose()?;
    binder.place = "order clause";
    let order = order_by(&mut binder, order, &columns, &projections)?;
    let grouped = !group.is_empty() || !binder.aggregates.is_empty();
    let full = || {
        let mode = variables("session", "sql_mode").map(|mode| mode.to_text()).unwrap_or_default();
        mode.split(',').any(|name| name == "ONLY_FULL_GROUP_BY")
    };
    if grouped && full() {
        let group: Vec<Expr> = group.iter().map(|(expr, _)| expr.clone()).collect();
        let check = Grouped {
            tables: &binder.scope.tables,
            sources: &sources,
            conditions: &conditions,
            group: &group,
            width,
        };
        check.check("SELECT list", projections.iter().map(|typed| &typed.expr))?;
        check.check("HAVING clause", having.iter())?;
        check.check("ORDER BY clause", order.iter().map(|(expr, ..)| expr))?;
    }
    let mut constant = Vec::new();
    conditions.retain(|expr| {
        let is = expr.reach() == 0 && available(expr, &|_| false);
        if is {
            constant.push(expr.clone());
        }
        !is
    });
    let mut plan = SelectPlan {
        sources: arrange(sources, conditions, straight),
        width,
        constant,
        grouped,
        group,
        aggregates: std::mem::take(&mut binder.aggregates),
        having,
        collations: projections.iter().map(|typed| typed.collation).collect(),
        projections: projections.into_iter().map(|typed| typed.expr).collect(),
        distinct: matches!(select.distinct, Some(Distinct::Distinct)),
        order,
        ordered: false,
        lock,
        direct: None,
    };
    use_index_order(&mut plan);
    find_needed(&mut plan);
    plan.sources.iter_mut().for_each(steps::split);
    plan.direct = steps::direct(&plan);
    Ok(QueryPlan {
        columns,
        body: Body::Select(Box::new(plan)),
        outer_reach: binder.outer_reach.get(),
        correlated: binder.correlated.get(),
        ..empty()
    })
}

fn project(
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
                let typed = binder.bind(expr)?.settled();
                let name = match expr {
                    ast::Expr::Identifier(ident) => ident.value.clone(),
                    ast::Expr::CompoundIdentifier(parts) if !parts[0].value.starts_with("@@") => {
                        parts.last().map(|part| part.value.clone()).unwrap_or_default()
                    }
                    ast::Expr::Value(value) => match &value.value {
                        ast::Value::SingleQuotedString(text)
                        | ast::Value::DoubleQuotedString(text) => text.clone(),
                        other => other.to_string(),
                    },
                    other => shown(other),
                };
                columns.push(result_column(binder, &name, &typed));
                projections.push(typed);
            }
            SelectItem::ExprWithAlias { expr, alias } => {
                let typed = binder.bind(expr)?.settled();
                columns.push(result_column(binder, &alias.value, &typed));
                projections.push(typed);
            }
            other => return Err(SqlError::unsupported(other)),
        }
    }
    Ok((columns, projections))
}

/// An expression's text, as the name of its column: the parser writes function names as they were given.
fn shown(expr: &ast::Expr) -> String {
    let text = expr.to_string();
    let text = text.replace("spillway_assign(", "(");
    text.chars().take(256).collect()
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

fn group_by(
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
            if typed.expr.reach() > binder.aggregate_base {
                return Err(SqlError::new(1056, format!("Can't group on '{e}'")));
            }
            Ok((typed.expr, typed.collation))
        })
        .collect();
    binder.aggregates_allowed = allowed;
    group
}

/// A number in GROUP BY and ORDER BY means a column of the result.
fn position(expr: &ast::Expr, columns: usize) -> Result<Option<usize>> {
    let ast::Expr::Value(value) = expr else { return Ok(None) };
    let ast::Value::Number(text, _) = &value.value else { return Ok(None) };
    match text.parse::<usize>() {
        // A number with a fraction is no position but a constant.
        Err(_) if !text.bytes().all(|byte| byte.is_ascii_digit()) => Ok(None),
        Ok(at) if (1..=columns).contains(&at) => Ok(Some(at - 1)),
        _ => Err(SqlError::unknown_column(text, "order clause")),
    }
}

fn order_by(
    binder: &mut Binder<'_>,
    order: &[ast::OrderByExpr],
    columns: &[ResultColumn],
    projections: &[Typed],
) -> Result<Vec<(Expr, bool, Collation)>> {
    order
        .iter()
        .map(|by| {
            // An alias of the result goes before a column of the tables.
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
            let typed = typed.counted();
            Ok((typed.expr, by.options.asc.unwrap_or(true), typed.collation))
        })
        .collect()
}

/// Puts the sources in the order they are read, chooses their access, and gives each condition to the first source at
/// which it can be checked.
fn arrange(sources: Vec<Source>, mut conditions: Vec<Expr>, straight: bool) -> Vec<Source> {
    let mut rest = sources;
    let mut placed: Vec<Source> = Vec::new();
    let mut known: Vec<std::ops::Range<usize>> = Vec::new();
    while !rest.is_empty() {
        let mut best: Option<(usize, usize, (Access, Vec<Access>))> = None;
        for (at, source) in rest.iter().enumerate() {
            let filled = |slot: usize| known.iter().any(|range| range.contains(&slot));
            let usable: Vec<Expr> = match &source.outer {
                Some(on) => on.clone(),
                None => conditions.clone(),
            };
            let access = match &source.kind {
                SourceKind::Table(table) => {
                    choose_access(table, source.offset, &usable, &source.hints, &filled)
                }
                _ => Default::default(),
            };
            let joined = usize::from(usable.iter().any(|expr| joins(expr, source, &filled)));
            let score =
                10 * usize::from(!access.0.is_full()) + 5 * usize::from(access.0.point) + joined;
            if best.as_ref().is_none_or(|(_, most, _)| score > *most) {
                best = Some((at, score, access));
            }
            if straight {
                break;
            }
        }
        let Some((at, _, access)) = best else { break };
        let mut source = rest.remove(at);
        (source.access, source.others) = access;
        if !placed.is_empty() {
            // For each row of those before, the rules must do.
            source.others.clear();
        }
        known.push(source.offset..source.offset + source.width);
        let filled = |slot: usize| known.iter().any(|range| range.contains(&slot));
        let last = rest.is_empty();
        let (now, later) =
            conditions.into_iter().partition(|expr| last || checkable(expr, &filled));
        source.filters = now;
        conditions = later;
        if source.access.is_full() && !placed.is_empty() {
            let own = source.offset..source.offset + source.width;
            let before = |slot: usize| filled(slot) && !own.contains(&slot);
            let from = source.outer.as_ref().unwrap_or(&source.filters);
            source.hash = from.iter().filter_map(|expr| hash_pair(expr, &own, &before)).collect();
        }
        placed.push(source);
    }
    placed
}

fn checkable(expr: &Expr, filled: &dyn Fn(usize) -> bool) -> bool {
    let mut all = true;
    expr.walk(&mut |e| match e {
        Expr::Column(slot) => all &= filled(*slot),
        Expr::Subquery { plan, .. } => all &= !plan.correlated,
        _ => {}
    });
    all
}

fn joins(expr: &Expr, source: &Source, filled: &dyn Fn(usize) -> bool) -> bool {
    let own = source.offset..source.offset + source.width;
    hash_pair(expr, &own, filled).is_some()
}

/// The sides of an equality between a source and those before it: its own side first.
fn hash_pair(
    expr: &Expr,
    own: &std::ops::Range<usize>,
    before: &dyn Fn(usize) -> bool,
) -> Option<(Expr, Expr, Collation)> {
    let Expr::Binary(Op::Eq, a, b, collation) = expr else { return None };
    if matches!((&**a, &**b), (Expr::Tuple(_), _) | (_, Expr::Tuple(_))) {
        return None;
    }
    let inside = |e: &Expr| e.reach() > 0 && available(e, &|slot| own.contains(&slot));
    let outside = |e: &Expr| e.reach() > 0 && available(e, before);
    if inside(a) && outside(b) {
        Some(((**a).clone(), (**b).clone(), *collation))
    } else if inside(b) && outside(a) {
        Some(((**b).clone(), (**a).clone(), *collation))
    } else {
        None
    }
}

/// Drops the sort where the only table's index gives the order.
fn use_index_order(plan: &mut SelectPlan) {
    let [source] = plan.sources.as_mut_slice() else { return };
    let SourceKind::Table(table) = &source.kind else { return };
    if plan.grouped || plan.order.is_empty() || plan.distinct {
        return;
    }
    if source.access.point && source.access.index.is_none() {
        plan.ordered = true;
        return;
    }
    let ascending = plan.order[0].1;
    let slots: Option<Vec<usize>> = plan
        .order
        .iter()
        .map(|(expr, asc, _)| match expr {
            Expr::Column(slot) if *asc == ascending => slot.checked_sub(source.offset),
            // An index has the members of an ENUM by number, and the values of a SET as text.
            Expr::Member(e, ColumnType::Enum(_)) if *asc == ascending => match &**e {
                Expr::Column(slot) => slot.checked_sub(source.offset),
                _ => None,
            },
            _ => None,
        })
        .collect();
    let Some(slots) = slots else { return };
    let fits = |access: &Access| {
        let mut parts = access.parts(table).iter().skip(access.equal.len());
        let in_parts = slots.iter().all(|slot| {
            parts.next().is_some_and(|part| part.column == *slot && part.prefix.is_none())
        });
        in_parts && !slots.is_empty()
    };
    let mut access = source.access.clone();
    if !fits(&access) && access.is_full() {
        let indexes = (0..table.indexes.len())
            .filter(|index| source.hints.allow(Some(*index)))
            .map(|index| Access { index: Some(index), ..Access::default() });
        match indexes.into_iter().find(|access| fits(access)) {
            Some(found) => access = found,
            None => return,
        }
    }
    if fits(&access) {
        access.backward = !ascending;
        source.access = access;
        source.others.clear();
        plan.ordered = true;
    }
}

/// Finds which columns of each table anybody asks for.
fn find_needed(plan: &mut SelectPlan) {
    let mut used: Vec<usize> = Vec::new();
    let mut all = false;
    {
        let mut note = |expr: &Expr| {
            expr.walk(&mut |e| match e {
                Expr::Column(slot) => used.push(*slot),
                Expr::Subquery { plan, .. } => all |= plan.correlated,
                _ => {}
            });
        };
        plan.projections.iter().for_each(&mut note);
        plan.having.iter().for_each(&mut note);
        plan.group.iter().for_each(|(expr, _)| note(expr));
        plan.order.iter().for_each(|(expr, ..)| note(expr));
        for aggregate in &plan.aggregates {
            aggregate.args.iter().for_each(&mut note);
            aggregate.order.iter().for_each(|(expr, ..)| note(expr));
        }
        for source in &plan.sources {
            source.filters.iter().for_each(&mut note);
            source.outer.iter().flatten().for_each(&mut note);
        }
    }
    if all {
        return;
    }
    for source in &mut plan.sources {
        let own = source.offset..source.offset + source.width - 1;
        let mut needed: Vec<usize> = used
            .iter()
            .filter(|slot| own.contains(slot))
            .map(|slot| slot - source.offset)
            .collect();
        needed.sort_unstable();
        needed.dedup();
        source.needed = Some(needed);
    }
}

/// A source over one table for UPDATE and DELETE, with the conditions its rows must meet.
pub(crate) fn plan_table(
    table: &Arc<TableDef>,
    alias: &str,
    conditions: Vec<Expr>,
    hints: Hints,
) -> Source {
    let (access, others) = choose_access(table, 0, &conditions, &hints, &|_| false);
    Source {
        kind: SourceKind::Table(table.clone()),
        alias: alias.to_owned(),
        offset: 0,
        width: table.columns.len() + 1,
        access,
        others,
        hints,
        outer: None,
        rest: conditions.clone(),
        filters: conditions,
        tests: Vec::new(),
        initial: steps::initial_of(table),
        needed: None,
        hash: Vec::new(),
    }
}
