//! Compiled statements: parsed, checked for privileges and tables, and bound once.
//!
//! A prepared statement keeps its compiled form. A text statement is identified by its shape
//! (`parser/shape`): each session keeps the compiled forms of some shapes, and a shared cache keeps
//! some for all sessions (`session/plan_cache`). A compiled form is valid for one version of the
//! catalog, one current database and one set of the settings that affect parsing.

mod compiler;

use std::mem::{Discriminant, discriminant};
use std::sync::Arc;

use spillway_base::budget::Charge;
use spillway_types::Value;
use sqlparser::ast;

use super::metadata::{self, TableLock};
use crate::api::ResultColumn;
use crate::dml::{ChangePlan, InsertPlan, JoinedPlan};
use crate::errors::{Result, SqlError};
use crate::executor::Point;
use crate::expression::Fit;
use crate::parser::{Deep, Depth, RowSource, Statement, TextMode};
use crate::planner::{self, Names, QueryPlan};
use crate::privilege::Need;
use crate::variables::Variables;

/// The memory of a compiled statement with its syntax tree, measured for a point read.
pub(super) const COMPILED_BYTES: usize = 16 << 10;

/// A bound statement about rows.
#[derive(Debug)]
pub(super) enum RowStatement {
    Query(QueryPlan),
    Insert(InsertPlan),
    Change(Box<ChangePlan>),
    Joined(Box<JoinedPlan>),
}

impl RowStatement {
    /// Whether the statement locks rows. It then sends nothing to the client before it has locked
    /// all of them.
    pub(super) fn locks(&self) -> bool {
        match self {
            RowStatement::Query(plan) => plan.is_locking(),
            RowStatement::Insert(_) | RowStatement::Change(_) | RowStatement::Joined(_) => true,
        }
    }

    /// The statement as a point read, if it is one.
    fn point(&self) -> Option<Point> {
        match self {
            RowStatement::Query(plan) => Point::of(plan),
            RowStatement::Insert(_) | RowStatement::Change(_) | RowStatement::Joined(_) => None,
        }
    }

    /// Whether the statement is brief (GLOSSARY).
    pub(super) fn is_brief(&self) -> bool {
        matches!(self, RowStatement::Query(plan) if plan.is_brief())
    }

    /// Whether the statement looks up one row by its whole primary key and does nothing before, so
    /// that it may leave its thread there and start over. After the lookup it waits for devices on
    /// its thread, because some effects of the rest, such as GET_LOCK, cannot be undone.
    pub(super) fn looks_up(&self) -> bool {
        match self {
            RowStatement::Query(plan) => plan.looks_up(),
            RowStatement::Change(plan) => plan.looks_up(),
            RowStatement::Insert(_) | RowStatement::Joined(_) => false,
        }
    }
}

/// The state that a plan depends on, apart from its statement. If any of it changes, the statement
/// is compiled again.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct MadeFor {
    catalog: u64,
    pub(super) database: Option<String>,
    /// The collation of text literals.
    collation: u16,
    full_group_by: bool,
    mode: TextMode,
}

/// A statement that is ready to run.
pub(super) struct Compiled {
    depth: Depth,
    statement: Arc<Deep<Statement>>,
    pub(super) made_for: MadeFor,
    pub(super) needs: Vec<Need>,
    pub(super) tables: Vec<(Arc<TableLock>, metadata::MetadataLockMode)>,
    pub(super) body: Deep<RowStatement>,
    /// The statement as a point read, if it is one.
    pub(super) point: Option<Point>,
    /// Whether the statement is brief.
    brief: bool,
    /// The properties of parameters that the plan relies on; `None` for a parameter of which it
    /// uses nothing.
    samples: Vec<Option<Sample>>,
    /// The parameters that must be dates, and the kind of date.
    moments: Vec<(usize, Fit)>,
    /// Whether the plan may be reused: it contains no value of a variable.
    lasting: bool,
    _memory: Charge,
}

/// The properties of a parameter's value that determine its type, and so the types of expressions
/// over it.
#[derive(Debug)]
struct Sample {
    kind: Discriminant<Value>,
    /// Characters of text, bytes of bytes, digits of a decimal.
    length: usize,
    /// Digits after the point of a decimal, or of the seconds.
    scale: u8,
}

impl Sample {
    fn of(value: &Value) -> Sample {
        let (length, scale) = match value {
            Value::Text(text) => (text.chars().count(), 0),
            Value::Bytes(bytes) => (bytes.len(), 0),
            Value::Decimal(number) => (number.precision().into(), number.scale()),
            Value::Time(time) => (0, time.digits()),
            Value::DateTime(at) => (0, at.digits()),
            _ => (0, 0),
        };
        Sample { kind: discriminant(value), length, scale }
    }

    /// Whether the plan is also right for this value.
    fn stands_for(&self, value: &Value) -> bool {
        if value.is_null() {
            return true;
        }
        self.kind == discriminant(value)
            && match value {
                // A character has at least one byte.
                Value::Text(text) if text.len() <= self.length => true,
                Value::Text(_) | Value::Bytes(_) | Value::Decimal(_) => {
                    let other = Sample::of(value);
                    other.length <= self.length && other.scale == self.scale
                }
                Value::Time(_) | Value::DateTime(_) => Sample::of(value).scale == self.scale,
                _ => true,
            }
    }
}

/// Whether a statement is about rows, and so can be compiled.
pub(super) fn is_rows(statement: &ast::Statement) -> bool {
    use ast::Statement as S;
    matches!(statement, S::Query(_) | S::Insert(_) | S::Update(_) | S::Delete(_))
}

/// Binds a statement about rows.
fn bind(names: Names<'_>, sql: &ast::Statement) -> Result<RowStatement> {
    use ast::Statement as S;
    Ok(match sql {
        S::Query(query) => RowStatement::Query(planner::plan_query(names, query, None, &[])?),
        S::Insert(insert) => RowStatement::Insert(InsertPlan::new(names, insert)?),
        S::Update(update) if !update.table.joins.is_empty() => {
            RowStatement::Joined(Box::new(JoinedPlan::update(names, update)?))
        }
        S::Delete(delete) if !delete.tables.is_empty() || delete.using.is_some() => {
            RowStatement::Joined(Box::new(JoinedPlan::delete(names, delete)?))
        }
        S::Update(update) => RowStatement::Change(Box::new(ChangePlan::update(names, update)?)),
        S::Delete(delete) => RowStatement::Change(Box::new(ChangePlan::delete(names, delete)?)),
        other => return Err(SqlError::unsupported(other)),
    })
}

/// A statement, and its compiled form from the last run.
pub(super) struct Slot {
    pub(super) depth: Depth,
    pub(super) statement: Arc<Deep<Statement>>,
    pub(super) compiled: Option<Arc<Compiled>>,
}

impl Slot {
    pub(super) fn new(statement: Statement, depth: Depth) -> Slot {
        Slot { depth, statement: Arc::new(Deep::new(depth, statement)), compiled: None }
    }

    /// Moves the compiled form out for a run, without counting a reference.
    pub(super) fn take(&mut self) -> Slot {
        Slot { compiled: self.compiled.take(), ..self.without_plan() }
    }

    pub(super) fn copy(&self) -> Slot {
        Slot { compiled: self.compiled.clone(), ..self.without_plan() }
    }

    /// A copy without the compiled form.
    pub(super) fn without_plan(&self) -> Slot {
        Slot { depth: self.depth, statement: self.statement.clone(), compiled: None }
    }

    /// Whether the compiled form was reusable, but the state that it depends on has changed.
    pub(super) fn is_outdated(&self, variables: &Variables, catalog: u64) -> bool {
        self.compiled
            .as_ref()
            .is_some_and(|compiled| compiled.lasting && !compiled.made_for.is(variables, catalog))
    }

    /// Whether the statement is known to be brief. It is unknown before the first compilation.
    pub(super) fn is_brief(&self) -> bool {
        self.compiled.as_ref().is_some_and(|compiled| compiled.brief)
    }

    /// Whether the statement begins or ends a transaction.
    pub(super) fn is_control(&self) -> bool {
        let Statement::Own(first, _) = &**self.statement else { return false };
        matches!(first.as_str(), "begin" | "start" | "commit" | "rollback")
    }

    pub(super) fn sql(&self) -> Option<&ast::Statement> {
        match &**self.statement {
            Statement::Sql(statement) => Some(statement),
            Statement::Own(..) => None,
        }
    }
}

impl MadeFor {
    fn of(variables: &Variables, catalog: u64) -> MadeFor {
        MadeFor {
            catalog,
            database: variables.database.clone(),
            collation: variables.collation.id(),
            full_group_by: variables.often.full_group_by,
            mode: variables.mode,
        }
    }

    /// Whether it belongs to this version of the catalog.
    pub(super) fn is_of(&self, catalog: u64) -> bool {
        self.catalog == catalog
    }

    fn is(&self, variables: &Variables, catalog: u64) -> bool {
        self.catalog == catalog
            && self.mode == variables.mode
            && self.collation == variables.collation.id()
            && self.database == variables.database
            && self.full_group_by == variables.often.full_group_by
    }
}

impl Compiled {
    /// Whether compiling the statement again, with these parameters and this version of the
    /// catalog, would give the same result.
    pub(super) fn holds(&self, variables: &Variables, params: &[Value], catalog: u64) -> bool {
        self.lasting
            && self.samples.len() == params.len()
            && self.samples.iter().zip(params).all(|(sample, value)| {
                sample.as_ref().is_none_or(|sample| sample.stands_for(value))
            })
            && self.made_for.is(variables, catalog)
    }

    /// The columns of the result; none for a change.
    pub(super) fn columns(&self) -> &[ResultColumn] {
        match &*self.body {
            RowStatement::Query(plan) => &plan.columns,
            RowStatement::Insert(_) | RowStatement::Change(_) | RowStatement::Joined(_) => &[],
        }
    }

    /// Checks parameters that must be dates, before any row is read.
    ///
    /// # Errors
    /// 1525 for a text that should be a date.
    pub(super) fn check(&self, params: &[Value]) -> Result<()> {
        let mut moments = self.moments.iter().filter_map(|(at, fit)| Some((params.get(*at)?, fit)));
        moments.try_for_each(|(value, fit)| fit.of(value).map(drop))
    }
}

/// The parameters of a statement, and the rows of an INSERT after the first, if it has several.
pub(super) struct StatementInput<'a, 'r> {
    pub(super) params: &'a [Value],
    pub(super) rows: Option<&'r mut (dyn RowSource + 'r)>,
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use spillway_base::thread;

    use crate::tests::in_memory;
    use crate::tests::run;

    #[derive(Default)]
    struct Told(AtomicUsize);

    impl thread::Pool for Told {
        fn leave(&self) {}

        fn come_back(&self) {}

        fn long_ahead(&self) {
            self.0.fetch_add(1, SeqCst);
        }
    }

    /// A statement that may take long reports that before it runs, and a brief one does not.
    #[test]
    fn statements_that_are_not_brief_say_so() {
        thread::together(1, |_| {
            let told = Arc::new(Told::default());
            thread::join_pool(told.clone());
            let instance = in_memory();
            let mut session = instance.session("root", "localhost", 1);
            session.use_database("test").unwrap();
            run(&mut session, "CREATE TABLE t (id INT PRIMARY KEY, n INT, v TEXT, KEY n_1 (n))");
            let rows: Vec<String> = (0..2000).map(|id| format!("({id}, {id}, 'text')")).collect();
            run(&mut session, &format!("INSERT INTO t VALUES {}", rows.join(", ")));
            let mut told_of = |sql: &str| {
                // The session knows from the second run on whether the statement is brief.
                run(&mut session, sql);
                let before = told.0.load(SeqCst);
                run(&mut session, sql);
                told.0.load(SeqCst) - before
            };
            for brief in [
                "SELECT v FROM t WHERE id = 7",
                "SELECT 'value', 2",
                "SELECT n FROM t WHERE id BETWEEN 10 AND 60",
                "SELECT SUM(n) FROM t WHERE id BETWEEN 10 AND 60",
                "BEGIN",
                "COMMIT",
            ] {
                assert_eq!(told_of(brief), 0, "{brief}");
            }
            for long in [
                "SELECT SUM(n) FROM t",
                "SELECT v FROM t WHERE id BETWEEN 10 AND 600",
                "SELECT v FROM t WHERE id = 7 AND v LIKE 't%'",
                "SELECT v FROM t WHERE id = 7 AND v REGEXP 't+'",
                "SELECT v FROM t WHERE id = 7 AND n = BENCHMARK(1, 1)",
                "SELECT BENCHMARK(1, 1)",
                "SELECT (SELECT COUNT(*) FROM t)",
                "SELECT v FROM t WHERE id = 7 FOR UPDATE",
                "SELECT a.v FROM t a, t b WHERE a.id = 7 AND b.id = 8",
                "UPDATE t SET n = 7 WHERE id = 7",
                "SHOW TABLES",
            ] {
                assert!(told_of(long) > 0, "{long}");
            }
            run(&mut session, "BEGIN");
            run(&mut session, "UPDATE t SET n = 8 WHERE id = 7");
            let before = told.0.load(SeqCst);
            run(&mut session, "ROLLBACK");
            assert!(told.0.load(SeqCst) > before, "it has much to undo, perhaps");
        });
    }
}
