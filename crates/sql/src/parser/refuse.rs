//! Refuses constructs that the parser accepts but Spillway does not implement, so that none is
//! silently ignored. The error names the construct.

use std::ops::ControlFlow;

use sqlparser::ast::{self, FunctionArguments, Visit, Visitor};

use crate::errors::SqlError;
use crate::names;

struct Refuse;

type Flow = ControlFlow<SqlError>;

fn refuse(found: &[(bool, &'static str)]) -> Flow {
    match found.iter().find(|(is, _)| *is) {
        Some((_, what)) => ControlFlow::Break(SqlError::unsupported(what)),
        None => ControlFlow::Continue(()),
    }
}

/// Refuses aliases that are too long.
fn aliases<'a>(mut names: impl Iterator<Item = &'a ast::Ident>) -> Flow {
    match names.try_for_each(|name| names::check_alias(&name.value)) {
        Err(error) => ControlFlow::Break(error),
        Ok(()) => ControlFlow::Continue(()),
    }
}

fn names_of(alias: &ast::TableAlias) -> impl Iterator<Item = &ast::Ident> {
    std::iter::once(&alias.name).chain(alias.columns.iter().map(|column| &column.name))
}

impl Visitor for Refuse {
    type Break = SqlError;

    fn pre_visit_query(&mut self, query: &ast::Query) -> Flow {
        let ctes = query.with.iter().flat_map(|with| &with.cte_tables);
        aliases(ctes.flat_map(|cte| names_of(&cte.alias)))?;
        refuse(&[
            (query.fetch.is_some(), "FETCH"),
            (query.for_clause.is_some(), "FOR XML"),
            (query.settings.is_some(), "SETTINGS"),
            (query.format_clause.is_some(), "FORMAT"),
            (!query.pipe_operators.is_empty(), "|>"),
            (query.locks.len() > 1, "several locking clauses"),
            (query.locks.iter().any(|lock| lock.of.is_some()), "FOR UPDATE OF"),
        ])
    }

    fn pre_visit_select(&mut self, select: &ast::Select) -> Flow {
        aliases(select.projection.iter().filter_map(|item| match item {
            ast::SelectItem::ExprWithAlias { alias, .. } => Some(alias),
            _ => None,
        }))?;
        let odd_distinct =
            !matches!(select.distinct, None | Some(ast::Distinct::Distinct | ast::Distinct::All));
        refuse(&[
            (odd_distinct, "DISTINCT ON"),
            (select.top.is_some(), "TOP"),
            (select.exclude.is_some(), "EXCLUDE"),
            (select.into.is_some(), "SELECT ... INTO"),
            (!select.lateral_views.is_empty(), "LATERAL VIEW"),
            (select.prewhere.is_some(), "PREWHERE"),
            (!select.connect_by.is_empty(), "CONNECT BY"),
            (!select.cluster_by.is_empty(), "CLUSTER BY"),
            (!select.distribute_by.is_empty(), "DISTRIBUTE BY"),
            (!select.sort_by.is_empty(), "SORT BY"),
            (!select.named_window.is_empty(), "WINDOW"),
            (select.qualify.is_some(), "QUALIFY"),
            (select.value_table_mode.is_some(), "SELECT AS"),
            (!matches!(select.flavor, ast::SelectFlavor::Standard), "FROM before SELECT"),
        ])
    }

    fn pre_visit_table_factor(&mut self, factor: &ast::TableFactor) -> Flow {
        if let ast::TableFactor::Table { alias: Some(alias), .. }
        | ast::TableFactor::Derived { alias: Some(alias), .. } = factor
        {
            aliases(names_of(alias))?;
        }
        match factor {
            ast::TableFactor::Table {
                args,
                with_hints,
                version,
                with_ordinality,
                partitions,
                json_path,
                sample,
                ..
            } => refuse(&[
                (args.is_some(), "a table function"),
                (!with_hints.is_empty(), "WITH (hints)"),
                (version.is_some(), "FOR SYSTEM_TIME"),
                (*with_ordinality, "WITH ORDINALITY"),
                (!partitions.is_empty(), "PARTITION"),
                (json_path.is_some(), "a path into a table"),
                (sample.is_some(), "TABLESAMPLE"),
            ]),
            ast::TableFactor::Derived { sample, .. } => {
                refuse(&[(sample.is_some(), "TABLESAMPLE")])
            }
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_expr(&mut self, expr: &ast::Expr) -> Flow {
        let ast::Expr::Function(call) = expr else { return ControlFlow::Continue(()) };
        refuse(&[
            (call.over.is_some(), "window functions"),
            (call.filter.is_some(), "FILTER"),
            (call.null_treatment.is_some(), "IGNORE NULLS"),
            (!call.within_group.is_empty(), "WITHIN GROUP"),
            (!matches!(call.parameters, FunctionArguments::None), "parameters of a function"),
        ])
    }

    fn pre_visit_statement(&mut self, statement: &ast::Statement) -> Flow {
        match statement {
            ast::Statement::Insert(insert) => refuse(&[
                (insert.or.is_some(), "INSERT OR"),
                (insert.overwrite, "INSERT OVERWRITE"),
                (insert.partitioned.is_some() || !insert.after_columns.is_empty(), "PARTITION"),
                (insert.has_table_keyword, "INSERT INTO TABLE"),
                (matches!(insert.on, Some(ast::OnInsert::OnConflict(_))), "ON CONFLICT"),
                (insert.returning.is_some(), "RETURNING"),
                (insert.output.is_some(), "OUTPUT"),
                (insert.settings.is_some(), "SETTINGS"),
                (insert.format_clause.is_some(), "FORMAT"),
            ]),
            ast::Statement::Update(update) => refuse(&[
                (update.from.is_some(), "UPDATE ... FROM"),
                (update.returning.is_some(), "RETURNING"),
                (update.output.is_some(), "OUTPUT"),
            ]),
            ast::Statement::Delete(delete) => refuse(&[
                (delete.returning.is_some(), "RETURNING"),
                (delete.output.is_some(), "OUTPUT"),
            ]),
            _ => ControlFlow::Continue(()),
        }
    }
}

/// Refuses with 1235 the clauses that Spillway does not implement.
pub(super) fn check(part: &impl Visit) -> Result<(), SqlError> {
    match part.visit(&mut Refuse) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}
