//! FROM: which tables a query reads, and how they are joined.

use std::sync::Arc;

use spillway_types::Collation;
use sqlparser::ast::{self, JoinConstraint, JoinOperator, TableFactor};

use super::access::{Access, Hints};
use super::bind::Binder;
use super::plan::{plan_query, rename_columns};
use super::query_plan::{QueryPlan, Source, SourceKind};
use super::scope::{Names, ScopeColumn, ScopeTable};
use crate::api::{ColumnFlags, ResultColumn};
use crate::catalog::TableDef;
use crate::errors::{Result, SqlError};
use crate::expression::{Expr, Op};
use crate::parser::{part_name, path_of};
use crate::privilege::TO_LOCK;

/// The most tables of one SELECT, UPDATE or DELETE, as in MySQL. Those of its subqueries and
/// derived tables do not count. The limit bounds the time of planning, which compares the tables of
/// a join with each other.
const TABLES_MAX: usize = 61;

/// Refuses a join of too many tables.
///
/// # Errors
/// 1116.
pub(crate) fn check_count(tables: usize) -> Result<()> {
    if tables <= TABLES_MAX {
        return Ok(());
    }
    let text = format!("Too many tables; Spillway can only use {TABLES_MAX} tables in a join");
    Err(SqlError::new(1116, text))
}

/// The parts of a FROM clause while it is bound.
pub(crate) struct From<'a, 'b> {
    pub(crate) binder: &'a mut Binder<'b>,
    pub(crate) sources: Vec<Source>,
    /// The conditions of inner joins, and those of the WHERE clause.
    pub(crate) conditions: Vec<Expr>,
    pub(crate) width: usize,
    pub(crate) straight: bool,
    /// The tables and columns for which `*` stands.
    pub(crate) shown: Vec<(usize, usize)>,
    /// Whether the query locks rows of its tables, for which it needs further privileges (NEED-4).
    pub(crate) locks: bool,
}

impl From<'_, '_> {
    pub(crate) fn add(&mut self, mut table: ScopeTable, kind: SourceKind) -> Result<()> {
        check_count(self.sources.len() + 1)?;
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
            versions: Arc::default(),
            needed: None,
            index_only: false,
            shared: false,
            hash: Vec::new(),
        });
        self.width += width;
        let number = self.binder.scope.tables.len();
        self.shown.extend((0..table.columns.len()).map(|column| (number, column)));
        self.binder.scope.tables.push(table);
        Ok(())
    }

    fn factor(&mut self, factor: &TableFactor) -> Result<()> {
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
                    let table = derived_scope(alias_name.unwrap_or_else(|| single.clone()), &plan)?;
                    self.binder.depends(&plan);
                    return self.add(table, SourceKind::Derived(plan));
                }
                if is_dual(name) {
                    return match alias {
                        None => Ok(()),
                        Some(alias) => Err(SqlError::syntax(format!("near '{}'", alias.name))),
                    };
                }
                let (table, kind) = named_table(self.binder.names, &path, alias_name, self.locks)?;
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
                let Binder { names, parent, ctes, .. } = &*self.binder;
                let mut plan = plan_query(*names, subquery, *parent, ctes)?;
                plan.refuse_charsets()?;
                rename_columns(&mut plan, &alias.columns)?;
                let table = derived_scope(alias.name.value.clone(), &plan)?;
                self.binder.depends(&plan);
                self.add(table, SourceKind::Derived(Arc::new(plan)))
            }
            TableFactor::NestedJoin { table_with_joins, .. } => self.joins(table_with_joins),
            other => Err(SqlError::unsupported(other)),
        }
    }

    pub(crate) fn joins(&mut self, tables: &ast::TableWithJoins) -> Result<()> {
        let first = self.sources.len();
        let others = std::mem::take(&mut self.shown);
        self.factor(&tables.relation)?;
        for join in &tables.joins {
            let left_shown = std::mem::take(&mut self.shown);
            let left_tables = self.binder.scope.tables.len();
            let before = self.sources.len();
            self.factor(&join.relation)?;
            let (constraint, outer) = match &join.join_operator {
                JoinOperator::Join(c) | JoinOperator::Inner(c) | JoinOperator::CrossJoin(c) => {
                    (c, None)
                }
                JoinOperator::StraightJoin(c) => (c, None),
                JoinOperator::Left(c) | JoinOperator::LeftOuter(c) => (c, Some(false)),
                JoinOperator::Right(c) | JoinOperator::RightOuter(c) => (c, Some(true)),
                JoinOperator::FullOuter(_) => return Err(SqlError::unsupported("FULL OUTER JOIN")),
                _ => return Err(SqlError::unsupported("this kind of join")),
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
                    // After an outer join, the columns of this table may be NULL.
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

    /// The columns that `*` shows for a join: the columns of USING once, then the other columns of
    /// each side.
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

/// Whether a name is an unquoted DUAL, which stands for no table.
fn is_dual(name: &ast::ObjectName) -> bool {
    match name.0.as_slice() {
        [ast::ObjectNamePart::Identifier(ident)] => {
            ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("dual")
        }
        _ => false,
    }
}

/// Refuses DUAL together with tables.
pub(crate) fn check_dual(from: &[ast::TableWithJoins]) -> Result<()> {
    let factors = from.iter().flat_map(|tables| {
        std::iter::once(&tables.relation).chain(tables.joins.iter().map(|join| &join.relation))
    });
    let (mut count, mut dual) = (0, false);
    for factor in factors {
        count += 1;
        dual |= matches!(factor, TableFactor::Table { name, .. } if is_dual(name));
    }
    if dual && count > 1 { Err(SqlError::syntax("near 'DUAL'")) } else { Ok(()) }
}

/// The columns of a stored or virtual table that a query reads and possibly locks.
fn named_table(
    names: Names<'_>,
    path: &[String],
    alias: Option<String>,
    locks: bool,
) -> Result<(ScopeTable, SourceKind)> {
    let (db, name) = path_of(path, names.database)?;
    names.needs.ask(&["SELECT"], (db.clone(), name.clone()))?;
    if locks {
        names.needs.ask(TO_LOCK, (db.clone(), name.clone()))?;
    }
    let alias = alias.unwrap_or_else(|| name.clone());
    let lower = db.to_ascii_lowercase();
    if crate::catalog::SYSTEM.contains(&lower.as_str()) {
        let full = format!("{lower}.{}", name.to_ascii_lowercase());
        let columns = crate::catalog::virtual_table(&full)
            .ok_or_else(|| SqlError::unknown_table(&db, &name))?;
        let columns = columns
            .into_iter()
            .map(|(name, ty)| ScopeColumn {
                name,
                ty,
                collation: Collation::GeneralCi,
                nullable: true,
                merged: false,
                flags: ColumnFlags::default(),
            })
            .collect();
        return Ok((
            ScopeTable { db: lower, alias, name, columns, offset: 0, changed: false },
            SourceKind::Virtual(full),
        ));
    }
    if !names.catalog.has_database(&db) {
        return Err(SqlError::unknown_database(&db));
    }
    let table = names.catalog.table(&db, &name)?.clone();
    let mut scope = table_scope(&table);
    scope.alias = alias;
    Ok((scope, SourceKind::Table(table)))
}

pub(crate) fn table_scope(table: &TableDef) -> ScopeTable {
    let columns = table
        .columns
        .iter()
        .enumerate()
        .map(|(at, column)| ScopeColumn {
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
        changed: false,
    }
}

fn derived_scope(alias: String, plan: &QueryPlan) -> Result<ScopeTable> {
    for (at, column) in plan.columns.iter().enumerate() {
        let twice = |other: &ResultColumn| other.name.eq_ignore_ascii_case(&column.name);
        if plan.columns[..at].iter().any(twice) {
            let text = format!("Duplicate column name '{}'", column.name);
            return Err(SqlError::new(1060, text));
        }
    }
    let columns = plan
        .columns
        .iter()
        .map(|column| ScopeColumn {
            name: column.name.to_string(),
            ty: column.column_type.clone(),
            collation: column.collation,
            nullable: !column.flags.not_null,
            merged: false,
            flags: ColumnFlags::default(),
        })
        .collect();
    let db = String::new();
    Ok(ScopeTable { db, name: alias.clone(), alias, columns, offset: 0, changed: false })
}
