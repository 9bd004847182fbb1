//! Checks the names that a definition creates.

use sqlparser::ast::{self, AlterTableOperation, ColumnOption, Statement, TableConstraint};

use super::operations::{Alter, Operation};
use crate::errors::Result;
use crate::names::{check, check_database, check_length};

fn check_column(name: &ast::Ident) -> Result<()> {
    check(&name.value, 1166, "column")
}

/// Refuses an invalid name of an index: 1280, 1059.
fn check_index(name: &str) -> Result<()> {
    check(name, 1280, "index")
}

/// Refuses an invalid name of a foreign key, a unique key or another index. For MySQL all of these
/// are names of indexes.
fn check_key(name: Option<&ast::Ident>) -> Result<()> {
    name.map_or(Ok(()), |name| check_index(&name.value))
}

fn check_constraint(constraint: &TableConstraint) -> Result<()> {
    match constraint {
        TableConstraint::Unique(key) => {
            check_key(key.name.as_ref())?;
            check_key(key.index_name.as_ref())
        }
        TableConstraint::Index(key) => check_key(key.name.as_ref()),
        TableConstraint::ForeignKey(key) => {
            check_key(key.name.as_ref())?;
            check_key(key.index_name.as_ref())
        }
        TableConstraint::FulltextOrSpatial(key) => check_key(key.opt_index_name.as_ref()),
        TableConstraint::PrimaryKey(key) => {
            let mut names = [&key.name, &key.index_name].into_iter().flatten();
            names.try_for_each(|name| check_length(&name.value))
        }
        TableConstraint::Check(key) => {
            key.name.as_ref().map_or(Ok(()), |name| check_length(&name.value))
        }
        _ => Ok(()),
    }
}

fn check_options<'a>(options: impl IntoIterator<Item = &'a ColumnOption>) -> Result<()> {
    for option in options {
        if let ColumnOption::Check(ast::CheckConstraint { name: Some(name), .. }) = option {
            check_length(&name.value)?;
        }
    }
    Ok(())
}

fn check_definition(column: &ast::ColumnDef) -> Result<()> {
    check_column(&column.name)?;
    for option in &column.options {
        option.name.as_ref().map_or(Ok(()), |name| check_length(&name.value))?;
    }
    check_options(column.options.iter().map(|option| &option.option))
}

/// Refuses invalid names of databases, columns, indexes and constraints that a statement creates.
///
/// # Errors
/// 1102, 1166, 1280, 1059.
pub(crate) fn check_statement(statement: &Statement) -> Result<()> {
    let last = |name: &ast::ObjectName| crate::parser::last_name(name);
    match statement {
        Statement::CreateDatabase { db_name, .. } => check_database(&last(db_name)),
        Statement::CreateSchema { schema_name: ast::SchemaName::Simple(name), .. } => {
            check_database(&last(name))
        }
        Statement::CreateTable(create) => {
            create.columns.iter().try_for_each(check_definition)?;
            create.constraints.iter().try_for_each(check_constraint)
        }
        _ => Ok(()),
    }
}

/// Refuses invalid names of columns, indexes and constraints that an ALTER TABLE creates.
///
/// # Errors
/// 1166, 1280, 1059.
pub(crate) fn check_alter(alter: &Alter) -> Result<()> {
    use AlterTableOperation as A;
    alter.operations.iter().try_for_each(|operation| match operation {
        Operation::AddIndex { name: Some(name), .. } | Operation::RenameIndex(_, name) => {
            check_index(name)
        }
        Operation::Sql(operation) => match &**operation {
            A::AddColumn { column_def, .. } => check_definition(column_def),
            A::ChangeColumn { old_name, new_name, options, .. } => {
                // The column keeps a name that it may have got before names were checked (NAME-3).
                if old_name.value != new_name.value {
                    check_column(new_name)?;
                }
                check_options(options)
            }
            A::ModifyColumn { options, .. } => check_options(options),
            A::RenameColumn { new_column_name, .. } => check_column(new_column_name),
            A::AddConstraint { constraint, .. } => check_constraint(constraint),
            _ => Ok(()),
        },
        _ => Ok(()),
    })
}
