//! The privileges that statements about definitions need.
//!
//! The binder collects the needs of statements about rows (`privilege/needs`), and those of DEFAULT
//! and CHECK expressions. Statements that define tables name the tables by path, without aliases;
//! this module collects their needs before the statement does anything.
//!
//! `parser::path` makes the paths for this check and for the change itself, from the same name and
//! the same current database, so the check and the change refer to the same table. Privileges are
//! held on databases, and a database cannot be renamed, so the checked privilege still covers the
//! table when the change runs.

use std::collections::HashSet;

use sqlparser::ast::{self, AlterTableOperation, ObjectType, Statement as S};

use crate::ddl::parent_of;
use crate::parser::path;
use crate::privilege::{Need, TablePath};

/// The privileges that a statement needs in a session with this current database.
pub(super) fn needs_of(statement: &ast::Statement, database: Option<&str>) -> Vec<Need> {
    let mut needs = DdlNeeds { database, list: Vec::new(), known: HashSet::new() };
    needs.statement(statement);
    needs.list
}

/// Collects the needs of a statement.
struct DdlNeeds<'a> {
    database: Option<&'a str>,
    list: Vec<Need>,
    /// The needs for tables among them.
    known: HashSet<Need>,
}

impl DdlNeeds<'_> {
    fn table(&mut self, any: &'static [&'static str], table: TablePath) {
        let need = Need::of_table(any, table);
        if self.known.insert(need.clone()) {
            self.list.push(need);
        }
    }

    fn name(&mut self, any: &'static [&'static str], name: &ast::ObjectName) {
        if let Ok(path) = path(name, self.database) {
            self.table(any, path);
        }
    }

    fn database(&mut self, right: &'static [&'static str], name: &ast::ObjectName) {
        if let Ok((_, db)) = path(name, Some("")) {
            self.list.push(Need { any: right, db, table: None });
        }
    }

    /// Foreign keys are not kept, but they still need the privilege on the table that they name.
    fn references(&mut self, create: &ast::CreateTable) {
        for constraint in &create.constraints {
            if let ast::TableConstraint::ForeignKey(key) = constraint {
                self.name(&["REFERENCES"], &key.foreign_table);
            }
        }
        let options = create.columns.iter().flat_map(|column| &column.options);
        for parent in options.filter_map(|option| parent_of(&option.option)) {
            self.name(&["REFERENCES"], parent);
        }
    }

    fn alter(&mut self, alter: &ast::AlterTable) {
        self.name(&["ALTER"], &alter.name);
        for operation in &alter.operations {
            if let AlterTableOperation::RenameTable { table_name } = operation {
                let (ast::RenameTableNameKind::As(to) | ast::RenameTableNameKind::To(to)) =
                    table_name;
                self.name(&["DROP"], &alter.name);
                self.name(&["CREATE"], to);
                self.name(&["INSERT"], to);
            }
        }
    }

    fn statement(&mut self, statement: &ast::Statement) {
        match statement {
            S::CreateTable(create) => {
                self.name(&["CREATE"], &create.name);
                if let Some(
                    ast::CreateTableLikeKind::Plain(like)
                    | ast::CreateTableLikeKind::Parenthesized(like),
                ) = &create.like
                {
                    self.name(&["SELECT"], &like.name);
                }
                self.references(create);
            }
            S::AlterTable(alter) => self.alter(alter),
            S::CreateIndex(create) => self.name(&["INDEX"], &create.table_name),
            S::Truncate(truncate) => {
                truncate.table_names.iter().for_each(|target| self.name(&["DROP"], &target.name));
            }
            S::CreateDatabase { db_name, .. } => self.database(&["CREATE"], db_name),
            S::CreateSchema { schema_name: ast::SchemaName::Simple(name), .. } => {
                self.database(&["CREATE"], name);
            }
            S::Drop { object_type, names, table, .. } => match object_type {
                ObjectType::Database | ObjectType::Schema => {
                    names.iter().for_each(|name| self.database(&["DROP"], name));
                }
                ObjectType::Index => table.iter().for_each(|name| self.name(&["INDEX"], name)),
                _ => names.iter().for_each(|name| self.name(&["DROP"], name)),
            },
            // The statement is refused later, for every account.
            _ => {}
        }
    }
}
