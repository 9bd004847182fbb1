//! ALTER TABLE: derives the table's new definition from the operations, and determines whether the
//! table's rows must be rewritten or checked.

use std::sync::Arc;

use spillway_types::ColumnType;
use sqlparser::ast::{self, AlterTableOperation, MySQLColumnPosition, TableConstraint};

use super::Ddl;
use super::checks::{
    NewCheck, check_no_column_is_missed, find_check, rename_check, rename_in_checks,
};
use super::columns::{
    Extras, Spelling, cannot_drop, charset_named, check_names, drop_column, find_column,
    insert_column, move_column, place,
};
use super::instant::{Demands, is_same_for_all, kept};
use super::keys::{add_index, check_keys, parts, set_primary};
use super::operations::Operation;
use super::terms::{Terms, exists};
use crate::catalog::{DefaultValue, IndexPart, TableDef, collation_named};
use crate::errors::{Result, SqlError};
use crate::planner::literal;

/// The definitions of a table before and after an ALTER TABLE, and the work that its rows need.
pub(crate) struct Alteration {
    pub(super) before: Arc<TableDef>,
    pub(super) after: TableDef,
    /// For each column of the new table, the old column that it comes from.
    pub(super) origin: Vec<Option<usize>>,
    /// Whether every row is rewritten. Otherwise, indexes that have no key space yet are built over
    /// the existing rows.
    pub(super) rewrite: bool,
    /// Whether rows get new row numbers.
    pub(super) renumber: bool,
    /// The constraints that existing rows must satisfy.
    pub(super) validate: Vec<String>,
    /// Whether the statement sets the next AUTO_INCREMENT number.
    pub(super) restart: bool,
    renames: Vec<(String, String)>,
    checks: Vec<NewCheck>,
    /// Whether rows hold values of columns whose type gets a wider representation.
    pub(super) widens: bool,
    /// The statement's ALGORITHM and LOCK clauses.
    pub(super) demands: Demands,
}

impl Alteration {
    /// Applies operations to a table's definition.
    pub(crate) fn plan(
        terms: &Terms<'_>,
        before: &Arc<TableDef>,
        operations: &[Operation],
    ) -> Result<Alteration> {
        let mut plan = Alteration {
            before: before.clone(),
            after: (**before).clone(),
            origin: (0..before.columns.len()).map(Some).collect(),
            rewrite: false,
            renumber: false,
            validate: Vec::new(),
            restart: false,
            renames: Vec::new(),
            checks: Vec::new(),
            widens: false,
            demands: Demands::default(),
        };
        // No index build is left: it would hold a lock on the table's definition.
        plan.after.becoming = None;
        plan.after.building.clear();
        operations.iter().try_for_each(|operation| plan.apply(terms, operation))?;
        plan.finish(terms)?;
        Ok(plan)
    }

    /// Checks and completes the definition once every operation is applied.
    fn finish(&mut self, terms: &Terms<'_>) -> Result<()> {
        let (before, after) = (&self.before, &mut self.after);
        check_names(after)?;
        rename_in_checks(&mut after.checks, &self.renames)?;
        check_no_column_is_missed(after)?;
        // Clauses name constraints as they were named before the statement, wherever among the
        // clauses the table gets its new name.
        let names = after.checks.iter_mut().map(|check| &mut check.name);
        for name in names.chain(&mut self.validate) {
            rename_check(name, &before.name, &after.name);
        }
        for check in std::mem::take(&mut self.checks) {
            self.validate.push(terms.add_check(after, check)?);
        }
        check_keys(after)?;
        let enforced =
            |name: &String| find_check(after, name).is_some_and(|at| after.checks[at].enforced);
        self.validate.retain(enforced);
        Ok(())
    }

    /// Makes the statement rewrite all rows and check all of them against the new constraints.
    pub(super) fn hold_to_all(&mut self) {
        let (before, after) = (&self.before, &mut self.after);
        let all = after.checks.iter().filter(|check| check.enforced);
        self.validate = all.map(|check| check.name.clone()).collect();
        self.renumber = after.primary.is_empty() && !before.primary.is_empty();
    }

    /// Makes a column that becomes the AUTO_INCREMENT column continue after its largest value. The
    /// existing counter, if any, belongs to the former AUTO_INCREMENT column, and does not know
    /// values that rows got since.
    pub(super) fn restart_if_new(&mut self) {
        let Some(at) = self.after.auto_column() else { return };
        if self.origin[at].is_none() || self.origin[at] != self.before.auto_column() {
            self.after.auto_increment = self.after.auto_increment.max(1);
            self.restart = true;
        }
    }

    fn apply(&mut self, terms: &Terms<'_>, operation: &Operation) -> Result<()> {
        let after = &mut self.after;
        match operation {
            Operation::Sql(operation) => return self.apply_parsed(terms, operation),
            Operation::Options(options) => {
                let next = std::mem::replace(&mut after.auto_increment, 0);
                terms.table_options(after, options)?;
                self.restart |= after.auto_increment > 0;
                if after.auto_increment == 0 {
                    after.auto_increment = next;
                }
            }
            Operation::Convert(charset, collation) => {
                self.convert(charset.as_deref(), collation.as_deref())?;
            }
            Operation::AddIndex { name, columns, unique } => {
                let parts = parts(after, columns)?;
                add_index(after, name.clone(), parts, *unique)?;
            }
            Operation::DropIndex(name) => self.drop_index(name)?,
            Operation::RenameIndex(from, to) => {
                let missing = || {
                    let text = format!("Key '{from}' doesn't exist in table '{}'", after.name);
                    SqlError::new(1176, text)
                };
                let at = after.index(from).ok_or_else(missing)?;
                if after.index(to).is_some_and(|other| other != at) {
                    return Err(SqlError::new(1061, format!("Duplicate key name '{to}'")));
                }
                after.indexes[at].name.clone_from(to);
            }
            Operation::DropCheck(name) => match find_check(after, name) {
                Some(at) => drop(after.checks.remove(at)),
                None if after.index(name).is_some() => self.drop_index(name)?,
                None => {
                    let text = format!("Check constraint '{name}' is not found in the table.");
                    return Err(SqlError::new(3821, text));
                }
            },
            Operation::EnforceCheck(name, enforced) => {
                let missing = || {
                    let text = format!("Check constraint '{name}' is not found in the table.");
                    SqlError::new(3821, text)
                };
                let at = find_check(after, name).ok_or_else(missing)?;
                after.checks[at].enforced = *enforced;
                self.validate.push(after.checks[at].name.clone());
            }
            Operation::RenameTable(name) => {
                (after.db, after.name) = terms.path(name)?;
            }
            Operation::Rewrite => self.rewrite = true,
            Operation::Nothing => {}
        }
        Ok(())
    }

    fn apply_parsed(&mut self, terms: &Terms<'_>, operation: &AlterTableOperation) -> Result<()> {
        use AlterTableOperation as A;
        match operation {
            A::AddConstraint { constraint, .. } => {
                self.rewrite |= matches!(constraint, TableConstraint::PrimaryKey(_));
                terms.constraint(&mut self.after, constraint, &mut self.checks)?;
            }
            A::AddColumn { column_def, column_position, .. } => {
                self.add_column(terms, &Spelling::from(column_def), column_position.as_ref())?;
            }
            A::DropColumn { column_names, .. } => {
                for name in column_names {
                    let at = drop_column(&mut self.after, &name.value)?;
                    self.origin.remove(at);
                }
            }
            A::RenameColumn { old_column_name, new_column_name } => {
                let at = self.find(&old_column_name.value)?;
                self.rename_column(at, &new_column_name.value);
            }
            A::ChangeColumn { old_name, new_name, data_type, options, column_position } => {
                let spelling = Spelling {
                    name: &new_name.value,
                    ty: data_type,
                    options: options.iter().collect(),
                };
                self.change_column(terms, &old_name.value, &spelling, column_position.as_ref())?;
            }
            A::ModifyColumn { col_name, data_type, options, column_position } => {
                let spelling = Spelling {
                    name: &col_name.value,
                    ty: data_type,
                    options: options.iter().collect(),
                };
                self.change_column(terms, &col_name.value, &spelling, column_position.as_ref())?;
            }
            A::AlterColumn { column_name, op } => {
                let at = find_column(&self.after, &column_name.value)?;
                let column = &mut self.after.columns[at];
                column.default = match op {
                    ast::AlterColumnOperation::SetDefault { value } => {
                        terms.default_value(value, column)?
                    }
                    ast::AlterColumnOperation::DropDefault => DefaultValue::None,
                    other => return Err(SqlError::unsupported(other)),
                };
            }
            A::DropPrimaryKey { .. } => self.drop_index("PRIMARY")?,
            A::DropForeignKey { name, .. } => return Err(cannot_drop(&name.value)),
            A::AutoIncrement { value, .. } => {
                let next = literal(&value.value)?.to_text().parse::<u64>();
                self.after.auto_increment = next.map_err(SqlError::syntax)?.max(1);
                self.restart = true;
            }
            A::Algorithm { algorithm, .. } => self.demands.algorithm(*algorithm),
            A::Lock { lock, .. } => self.demands.lock(*lock),
            other => return Err(SqlError::unsupported(other)),
        }
        Ok(())
    }

    /// The column that had this name before the statement, or has it now.
    fn find(&self, name: &str) -> Result<usize> {
        let old = self.before.column(name);
        let kept = old.and_then(|old| self.origin.iter().position(|from| *from == Some(old)));
        kept.map_or_else(|| find_column(&self.after, name), Ok)
    }

    fn rename_column(&mut self, at: usize, name: &str) {
        let old = std::mem::replace(&mut self.after.columns[at].name, name.to_owned());
        if old != name {
            self.renames.push((old, name.to_owned()));
        }
    }

    /// Adds the keys and checks that a column's definition contains.
    fn add_extras(&mut self, at: usize, extras: Extras) -> Result<()> {
        let part = vec![IndexPart { column: at, prefix: None }];
        if extras.primary {
            set_primary(&mut self.after, part)?;
            self.rewrite = true;
        } else if extras.unique {
            add_index(&mut self.after, None, part, true)?;
        }
        self.checks.extend(extras.checks);
        Ok(())
    }

    fn add_column(
        &mut self,
        terms: &Terms<'_>,
        spelling: &Spelling<'_>,
        position: Option<&MySQLColumnPosition>,
    ) -> Result<()> {
        let (mut column, extras) = terms.column(spelling, self.after.collation)?;
        column.initial_in_utc(terms.time_offset_micros);
        self.rewrite |= column.auto_increment || !is_same_for_all(&column.default)?;
        let at = place(&self.after, position)?;
        insert_column(&mut self.after, at, column);
        self.origin.insert(at, None);
        self.add_extras(at, extras)
    }

    fn change_column(
        &mut self,
        terms: &Terms<'_>,
        old: &str,
        spelling: &Spelling<'_>,
        position: Option<&MySQLColumnPosition>,
    ) -> Result<()> {
        let at = self.find(old)?;
        let (mut column, extras) = terms.column(spelling, self.after.collation)?;
        let was = self.after.columns[at].clone();
        if self.after.primary.iter().any(|part| part.column == at) {
            column.nullable = false;
            if column.default == DefaultValue::Null {
                column.default = DefaultValue::None;
            }
        }
        match kept(&was, &column) {
            Some(kept) => {
                self.widens |= kept.widens;
                self.keep_initial(&was, &mut column);
            }
            None => self.rewrite = true,
        }
        column.id = was.id;
        self.after.columns[at] = column;
        if was.name != spelling.name {
            self.renames.push((was.name, spelling.name.to_owned()));
        }
        let mut to = at;
        if let Some(position) = position {
            to = place(&self.after, Some(position))?;
            to -= usize::from(to > at);
            move_column(&mut self.after, at, to);
            let from = self.origin.remove(at);
            self.origin.insert(to, from);
        }
        self.add_extras(to, extras)
    }

    /// CONVERT TO CHARACTER SET: every text column gets the new collation.
    fn convert(&mut self, charset: Option<&str>, collation: Option<&str>) -> Result<()> {
        let to = match (charset, collation) {
            (_, Some(collation)) => collation_named(collation)?,
            (Some(charset), None) => charset_named(charset)?,
            (None, None) => self.after.collation,
        };
        self.after.collation = to;
        let texts = self.after.columns.iter_mut();
        for column in texts.filter(|column| column.ty.is_text() && column.ty != ColumnType::Json) {
            self.rewrite |= column.collation != to;
            column.collation = to;
        }
        Ok(())
    }

    fn drop_index(&mut self, name: &str) -> Result<()> {
        if name.eq_ignore_ascii_case("PRIMARY") {
            if self.after.primary.is_empty() {
                return Err(cannot_drop("PRIMARY"));
            }
            self.after.primary.clear();
            self.rewrite = true;
            return Ok(());
        }
        let at = self.after.index(name).ok_or_else(|| cannot_drop(name))?;
        self.after.indexes.remove(at);
        Ok(())
    }
}

impl Ddl<'_> {
    /// Replaces a table's definition in the catalog by the new one, whose key spaces are built.
    pub(crate) fn switch(&self, alteration: &mut Alteration) -> Result<()> {
        let (before, after) = (alteration.before.clone(), &mut alteration.after);
        let change = self.change()?;
        if (&before.db, &before.name) != (&after.db, &after.name) {
            if self.terms.catalog.table(&after.db, &after.name).is_ok() {
                return Err(exists(&after.name));
            }
            self.terms.check_database(&after.db)?;
            change.delete_table(&before)?;
        }
        for space in before.spaces().filter(|old| after.spaces().all(|new| new != *old)) {
            change.drop_space(before.id, space)?;
        }
        if before.becoming.is_some() {
            change.delete_progress(before.id)?;
        }
        if alteration.restart {
            self.restart_numbers(after, after.auto_increment)?;
        }
        if alteration.rewrite {
            self.renumbered.borrow_mut().push(after.id);
        }
        change.put_table(after)
    }
}
