//! Prepared statements of the protocol and of PREPARE.

mod statements;

use spillway_types::Value;
use sqlparser::tokenizer::Token;

use super::Session;
use super::compiled::{Slot, is_rows};
use crate::api::{ResultColumn, ResultSink};
use crate::errors::{Result, SqlError};
use crate::parser::{Statement, name_of, split_commas, word};
use crate::process::Called;
use crate::{names, parser};
use statements::PreparedStatement;

pub(super) use statements::PreparedStatements;

/// A statement that was prepared.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// The number by which the client executes it.
    pub id: u32,
    /// The number of parameters.
    pub params: usize,
    /// The columns of the result; none for a statement without a result set.
    pub columns: Vec<ResultColumn>,
}

impl Session {
    /// Prepares a statement.
    ///
    /// # Errors
    /// A syntax error, or an unknown table or column; 1461 beyond `max_prepared_stmt_count`, 1041
    /// for lack of memory.
    pub fn prepare(&mut self, sql: &str) -> Result<Prepared> {
        let mut memory = parser::TextMemory::of(sql, self.instance.database().budget());
        let mut statements = parser::split(sql, self.variables.borrow().mode, &mut memory)?;
        let (Some(tokens), true) = (statements.pop(), statements.is_empty()) else {
            return Err(SqlError::syntax("prepare exactly one statement"));
        };
        let place = self.instance.place_for(sql)?;
        parser::Depth::of_tokens(&tokens)?.run(|| {
            let parser::Parsed { statement, params, depth } = parser::parse(tokens, &mut memory)
                .inspect_err(|error| self.diagnostics.note_parse_error(error))?;
            if let Statement::Own(first, _) = &statement
                && ["prepare", "execute", "deallocate"].contains(&first.as_str())
            {
                let text = "This command is not supported in the prepared statement protocol yet";
                return Err(SqlError::new(1295, text));
            }
            let mut slot = Slot::new(statement, depth);
            let mut columns = Vec::new();
            if slot.sql().is_some_and(is_rows) {
                let catalog = self.instance.0.catalog.load_full();
                let compiled = self.compiler().compile(&slot, &[], &catalog)?;
                columns = compiled.columns().to_vec();
                slot.compiled = Some(compiled);
            }
            let id = self.prepared.take_id();
            let account = match &**slot.statement {
                Statement::Own(_, tokens) => crate::privilege::shown(tokens),
                Statement::Sql(_) => None,
            };
            let kept = self.process.keep(id, account.as_deref().unwrap_or(sql).into());
            let memory = memory.kept();
            let stored = PreparedStatement {
                params,
                slot: Some(slot),
                _place: place,
                _memory: memory,
                _kept: kept,
            };
            self.prepared.insert(id, stored);
            Ok(Prepared { id, params, columns })
        })
    }

    /// Runs a prepared statement.
    ///
    /// # Errors
    /// 1243 for an unknown number, 1210 for too few parameters, and those of [`Session::query`].
    pub fn execute(&mut self, id: u32, params: &[Value], sink: &mut dyn ResultSink) -> Result<()> {
        let budget = self.instance.0.db.budget();
        let (mut slot, _copies) = self.prepared.take(id, params, budget)?;
        let (depth, called) = (slot.depth, Called::Prepared(id));
        let outcome = depth.run(|| self.run_slot(&mut slot, params, None, called, false, sink));
        self.prepared.put_back(id, slot);
        outcome
    }

    /// Forgets a prepared statement.
    pub fn close_statement(&mut self, id: u32) {
        self.prepared.close(id);
    }

    /// `PREPARE name FROM text`.
    pub(super) fn prepare_named(&mut self, plain: &[Token]) -> Result<()> {
        let text = match plain {
            [_, _, from, text] if word(Some(from)) == "from" => {
                self.evaluate(std::slice::from_ref(text), &[])?.to_text()
            }
            _ => return Err(SqlError::syntax("write PREPARE name FROM 'text' or @variable")),
        };
        let name = name_of(plain.get(1)).to_lowercase();
        names::check_length(&name)?;
        // The earlier statement of that name is closed even if the new text is invalid.
        self.prepared.close_named(&name);
        let prepared = self.prepare(&text)?;
        self.prepared.bind_name(name, prepared.id);
        Ok(())
    }

    /// `EXECUTE name USING @a, @b`.
    pub(super) fn execute_named(
        &mut self,
        plain: &[Token],
        sink: &mut dyn ResultSink,
    ) -> Result<()> {
        let id = self.prepared.named(plain.get(1), "EXECUTE")?;
        let mut values = Vec::new();
        match plain.get(2) {
            None => {}
            Some(using) if word(Some(using)) == "using" => {
                for part in split_commas(&plain[3..]) {
                    values.push(self.evaluate(&part, &[])?);
                }
            }
            Some(other) => return Err(SqlError::syntax(format!("near '{other}'"))),
        }
        self.execute(id, &values, sink)
    }
}
