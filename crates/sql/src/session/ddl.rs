//! Changes of the catalog, each in a transaction of its own.

use std::cell::RefCell;

use spillway::{LockMode, LockWait, TransactionOptions};
use spillway_types::Collation;
use sqlparser::ast;
use sqlparser::tokenizer::Token;

use super::Session;
use super::own::{name_of, split_commas};
use super::tables::{parts_of, path, path_of, tables_of};
use crate::accounts::{self, Asker};
use crate::api::ResultSink;
use crate::catalog::{CATALOG, Change, DatabaseDef};
use crate::ddl::Ddl;
use crate::dml::Changed;
use crate::errors::{Result, SqlError};
use crate::parse::{self, word};

impl Session {
    pub(super) fn run_ddl(
        &mut self,
        statement: &ast::Statement,
        more: bool,
        sink: &mut dyn ResultSink,
    ) -> Result<()> {
        self.check_rights(statement)?;
        let mut tables = tables_of(statement, self.variables.borrow().database.as_deref());
        if let ast::Statement::Drop { object_type, names, .. } = statement
            && matches!(object_type, ast::ObjectType::Database | ast::ObjectType::Schema)
        {
            let catalog = self.instance.0.catalog.load();
            for (_, db) in names.iter().filter_map(|name| path(name, Some("")).ok()) {
                tables.extend(catalog.tables_of(&db).map(|table| (db.clone(), table.name.clone())));
            }
        }
        let run = |ddl: &mut Ddl<'_>| {
            if ddl.execute(statement)? {
                Ok(())
            } else {
                Err(SqlError::unsupported(statement_name(statement)))
            }
        };
        self.ddl(run, tables)?;
        sink.ok(&self.outcome(Changed::default(), more))
    }

    /// Runs a change of the catalog in a transaction of its own, with the tables to itself.
    pub(super) fn ddl(
        &mut self,
        body: impl FnOnce(&mut Ddl<'_>) -> Result<()>,
        mut tables: Vec<(String, String)>,
    ) -> Result<()> {
        self.commit()?;
        let wait = self.lock_wait();
        let mut alone = Vec::new();
        let mut locked = Ok(());
        // In one order, so that two changes never wait for each other.
        tables.sort();
        tables.dedup();
        for table in tables {
            locked = self.instance.0.metadata.lock(&table, true, wait, &self.killed);
            if locked.is_err() {
                break;
            }
            alone.push(table);
        }
        let outcome = locked.and_then(|()| self.change_catalog(body));
        for table in alone {
            self.instance.0.metadata.unlock(&table, true);
        }
        let gone = self.variables.borrow().database.clone();
        if let Some(database) = gone
            && !self.instance.0.catalog.load().has_database(&database)
        {
            self.variables.borrow_mut().database = None;
        }
        outcome
    }

    /// One change of the catalog at a time: read, changed, committed, and read anew for the others.
    fn change_catalog(&mut self, body: impl FnOnce(&mut Ddl<'_>) -> Result<()>) -> Result<()> {
        let instance = self.instance.clone();
        let Some(mut behind) = instance.0.changing.try_lock_for(self.lock_wait()) else {
            return Err(SqlError::new(
                1205,
                "Lock wait timeout exceeded; try restarting transaction",
            ));
        };
        if *behind {
            instance.reload()?;
            *behind = false;
        }
        let txn = instance.0.db.begin(TransactionOptions::new());
        // A transaction that locks before it reads has the newest state as its snapshot.
        let space = txn.table(CATALOG)?;
        txn.forget_snapshot();
        txn.lock_name(space, b"ddl", LockMode::Exclusive, LockWait::Wait)?;
        let catalog = instance.0.catalog.load_full();
        let (database, checks) = {
            let variables = self.variables.borrow();
            let checks = variables
                .system
                .get("foreign_key_checks")
                .is_none_or(|text| text != "OFF" && text != "0");
            (variables.database.clone(), checks)
        };
        let mut warnings = Vec::new();
        let mut ddl = Ddl {
            instance: &instance,
            txn: &txn,
            catalog: &catalog,
            database: database.as_deref(),
            warnings: &mut warnings,
            foreign_key_checks: checks,
            restarted: RefCell::default(),
            renumbered: RefCell::default(),
        };
        let done = body(&mut ddl);
        let (restarted, renumbered) = (ddl.restarted.into_inner(), ddl.renumbered.into_inner());
        self.warnings.extend(warnings);
        done?;
        txn.commit().wait()?;
        instance.forget_numbers(&restarted, &renumbered);
        *behind = true;
        instance.reload()?;
        *behind = false;
        Ok(())
    }

    /// A statement about accounts.
    pub(super) fn accounts(&mut self, tokens: &[Token]) -> Result<()> {
        let user = self.as_user(|user| Ok(user.clone()))?;
        let database = self.variables.borrow().database.clone();
        let asker = Asker { user: &user, database: database.as_deref() };
        let body = |ddl: &mut Ddl<'_>| {
            accounts::execute(&Change::new(ddl.txn)?, ddl.catalog, tokens, &asker)
        };
        self.ddl(body, Vec::new())
    }

    /// `ALTER DATABASE [name] [[DEFAULT] CHARACTER SET [=] c] [[DEFAULT] COLLATE [=] c]`.
    fn alter_database(&mut self, plain: &[Token]) -> Result<()> {
        let option = |token: &Token| {
            ["default", "character", "charset", "collate"].contains(&word(Some(token)).as_str())
        };
        let (name, mut rest) = match plain.get(2) {
            Some(token @ Token::Word(_)) if !option(token) => (Some(name_of(Some(token))), 3),
            _ => (self.variables.borrow().database.clone(), 2),
        };
        let name = name.ok_or_else(|| SqlError::new(1046, "No database selected"))?;
        self.check_table(&["ALTER"], &name, None)?;
        let mut collation = None;
        while rest < plain.len() {
            let at = |index: usize| word(plain.get(index));
            rest += usize::from(at(rest) == "default");
            let charset = match (at(rest).as_str(), at(rest + 1).as_str()) {
                ("character", "set") => {
                    rest += 1;
                    true
                }
                ("charset", _) => true,
                ("collate", _) => false,
                _ => {
                    let shown = plain.get(rest).map_or_else(String::new, ToString::to_string);
                    return Err(SqlError::unsupported(format!("ALTER DATABASE ... {shown}")));
                }
            };
            rest += 1 + usize::from(plain.get(rest + 1) == Some(&Token::Eq));
            let value = name_of(plain.get(rest));
            rest += 1;
            let code = if charset { 1115 } else { 1273 };
            let what = if charset { "character set" } else { "collation" };
            let found = Collation::from_name(&value);
            let found =
                found.ok_or_else(|| SqlError::new(code, format!("Unknown {what}: '{value}'")))?;
            // A character set says the collation only where nothing else does.
            if !charset || collation.is_none() {
                collation = Some(found);
            }
        }
        let collation = collation.ok_or_else(|| SqlError::syntax("near the end"))?;
        self.ddl(
            |ddl| {
                let def = ddl.catalog.databases.get(&name).cloned();
                let def =
                    def.ok_or_else(|| SqlError::new(1049, format!("Unknown database '{name}'")))?;
                Change::new(ddl.txn)?.put_database(&DatabaseDef { collation, ..def })
            },
            Vec::new(),
        )
    }

    /// ALTER TABLE: the clauses that the parser does not know are taken here, the rest goes to it.
    pub(super) fn alter(&mut self, tokens: &[Token], plain: &[Token]) -> Result<()> {
        let words: Vec<String> = plain.iter().map(|token| word(Some(token))).collect();
        match words.get(1).map(String::as_str) {
            Some("user") => return self.accounts(tokens),
            Some("database" | "schema") => return self.alter_database(plain),
            Some("table") => {}
            _ => return Err(SqlError::unsupported("ALTER")),
        }
        let database = self.variables.borrow().database.clone();
        let dots = plain.iter().skip(3).step_by(2).take_while(|token| **token == Token::Period);
        let end = (3 + 2 * dots.count()).min(plain.len());
        let (db, name) = path_of(&parts_of(&plain[2.min(end)..end])?, database.as_deref())?;
        if let ["disable" | "enable", "keys"] =
            words[end..].iter().map(String::as_str).collect::<Vec<_>>().as_slice()
        {
            return self.check_table(&["ALTER"], &db, Some(&name));
        }
        if let Some(options) = table_options(&plain[end..]) {
            self.check_table(&["ALTER"], &db, Some(&name))?;
            return self.ddl(
                |ddl| {
                    let mut table = (**ddl.catalog.table(&db, &name)?).clone();
                    for (option, value) in &options {
                        ddl.table_option(&mut table, option, value)?;
                    }
                    Change::new(ddl.txn)?.put_table(&table)
                },
                vec![(db.clone(), name.clone())],
            );
        }
        let mut parser = parse::parser(tokens.to_vec());
        let statement = parser.parse_statement().map_err(SqlError::syntax)?;
        if parser.peek_token().token != Token::EOF {
            return Err(SqlError::syntax(format!("near '{}'", parser.peek_token())));
        }
        self.check_rights(&statement)?;
        let tables = tables_of(&statement, self.variables.borrow().database.as_deref());
        self.ddl(|ddl| ddl.execute(&statement).map(drop), tables)
    }

    pub(super) fn rename(&mut self, plain: &[Token]) -> Result<()> {
        let database = self.variables.borrow().database.clone();
        let mut moves = Vec::new();
        for part in split_commas(plain.get(2..).unwrap_or_default()) {
            let to = part.iter().position(|token| word(Some(token)) == "to");
            let to = to.ok_or_else(|| SqlError::syntax("RENAME TABLE a TO b"))?;
            moves.push((
                path_of(&parts_of(&part[..to])?, database.as_deref())?,
                path_of(&parts_of(&part[to + 1..])?, database.as_deref())?,
            ));
        }
        for ((db, name), (to_db, to)) in &moves {
            for right in ["ALTER", "DROP"] {
                self.check_table(&[right], db, Some(name))?;
            }
            for right in ["CREATE", "INSERT"] {
                self.check_table(&[right], to_db, Some(to))?;
            }
        }
        let tables = moves.iter().map(|(from, _)| from.clone()).collect();
        self.ddl(
            |ddl| {
                for ((db, name), (to_db, to)) in &moves {
                    let mut table = (**ddl.catalog.table(db, name)?).clone();
                    ddl.rename(&mut table, to_db, to)?;
                    Change::new(ddl.txn)?.put_table(&table)?;
                }
                Ok(())
            },
            tables,
        )
    }
}

fn statement_name(statement: &ast::Statement) -> String {
    let text = statement.to_string();
    text.split_whitespace().take(3).collect::<Vec<_>>().join(" ")
}

/// `ALTER TABLE t` followed by options alone, each `name [=] value`: the parser knows none of them.
fn table_options(rest: &[Token]) -> Option<Vec<(String, String)>> {
    let mut options = Vec::new();
    for part in split_commas(rest) {
        let words: Vec<String> = part.iter().map(|token| word(Some(token))).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let (name, rest) = match words.as_slice() {
            ["default", "character", "set", ..] => ("CHARSET", 3),
            ["default", "charset", ..] => ("CHARSET", 2),
            ["default", "collate", ..] => ("COLLATE", 2),
            ["character", "set", ..] => ("CHARSET", 2),
            ["charset", ..] => ("CHARSET", 1),
            ["collate", ..] => ("COLLATE", 1),
            ["engine", ..] => ("ENGINE", 1),
            ["comment", ..] => ("COMMENT", 1),
            ["row_format", ..] => ("ROW_FORMAT", 1),
            ["auto_increment", ..] => ("AUTO_INCREMENT", 1),
            _ => return None,
        };
        let value = match &part[rest..] {
            [Token::Eq, value] | [value] => value,
            _ => return None,
        };
        let value = match value {
            Token::Number(digits, _) => digits.clone(),
            value => name_of(Some(value)),
        };
        options.push((name.to_owned(), value));
    }
    (!options.is_empty()).then_some(options)
}
