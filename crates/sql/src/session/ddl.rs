//! Changes of the catalog, each in a transaction of its own.

use std::cell::RefCell;

use spillway::{LockMode, LockWait, TransactionOptions};
use sqlparser::ast;
use sqlparser::tokenizer::Token;

use super::Session;
use super::own::{name_of, split_commas};
use super::rights::{path_of, tables_of};
use crate::api::ResultSink;
use crate::catalog::{CATALOG, Change};
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
        let tables = tables_of(statement, self.variables.borrow().database.as_deref());
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
        tables: Vec<(String, String)>,
    ) -> Result<()> {
        self.commit()?;
        let wait = self.lock_wait();
        let mut alone = Vec::new();
        let mut locked = Ok(());
        for table in tables {
            if alone.contains(&table) {
                continue;
            }
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

    pub(super) fn users(&mut self, tokens: &[Token]) -> Result<()> {
        let (name, host, user_host) = {
            let variables = self.variables.borrow();
            (variables.user_name.clone(), variables.host.clone(), variables.user_host.clone())
        };
        let own_password = word(tokens.first()) == "set";
        let catalog = self.instance.0.catalog.load_full();
        let may = catalog
            .user(&name, &host)
            .is_some_and(|user| user.may("CREATE USER", "*") || user.may("GRANT OPTION", "*"));
        if !may && !own_password {
            return Err(SqlError::new(
                1227,
                "Access denied; you need (at least one of) the CREATE USER privilege(s) for this operation",
            ));
        }
        self.ddl(
            |ddl| {
                let change = Change::new(ddl.txn)?;
                if crate::users::execute(&change, ddl.catalog, tokens, (&name, &user_host))? {
                    Ok(())
                } else {
                    let shown: String = tokens.iter().map(ToString::to_string).collect();
                    Err(SqlError::unsupported(shown))
                }
            },
            Vec::new(),
        )
    }

    /// ALTER TABLE: the clauses that the parser does not know are taken here, the rest goes to it.
    pub(super) fn alter(&mut self, tokens: &[Token], plain: &[Token]) -> Result<()> {
        let words: Vec<String> = plain.iter().map(|token| word(Some(token))).collect();
        match words.get(1).map(String::as_str) {
            Some("user") => return self.users(tokens),
            Some("database" | "schema") => return Ok(()),
            Some("table") => {}
            _ => return Err(SqlError::unsupported("ALTER")),
        }
        if matches!(words.last().map(String::as_str), Some("keys"))
            && words.iter().any(|word| word == "disable" || word == "enable")
        {
            return Ok(());
        }
        // `ENGINE = x` alone says what the table is already, or is told that it is not.
        let engine = words.iter().position(|word| word == "engine");
        if let Some(engine) = engine {
            let value = name_of(plain.last());
            let path: String = plain[2..engine].iter().map(ToString::to_string).collect();
            let database = self.variables.borrow().database.clone();
            let (db, name) = path_of(&path, database.as_deref())?;
            let table = (**self.instance.0.catalog.load().table(&db, &name)?).clone();
            return self.ddl(
                |ddl| {
                    let mut table = table;
                    ddl.table_option(&mut table, "ENGINE", &value)
                },
                vec![(db, name)],
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
            let text =
                |tokens: &[Token]| tokens.iter().map(ToString::to_string).collect::<String>();
            moves.push((
                path_of(&text(&part[..to]), database.as_deref())?,
                path_of(&text(&part[to + 1..]), database.as_deref())?,
            ));
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
