//! Determines the depth of a statement's syntax trees, and chooses a stack that is large enough to
//! process them.
//!
//! The parser limits its recursive rules, but reads chains of operators in loops: `1 + 1 + 1 ...`
//! becomes a tree as deep as the chain is long. All code that processes a tree recurses, even the
//! code that frees it, so a deep tree needs a large stack. This module determines the depth twice:
//!
//! - Before parsing, a scan of the tokens gives an upper bound of the depth. The bound decides on
//!   which stack the statement is parsed.
//! - After parsing, a visitor measures the tree, including levels that binding will add. A
//!   statement that is kept, such as a prepared one, records this depth.
//!
//! The bound counts signs, such as `+`, and keywords, because each operator of the tree begins with
//! one. An operator above a leaf of the tree is in the leaf's pair of brackets, or in a pair around
//! that pair. No comma of the operator's pair is between the operator and the leaf. So the scan
//! divides each pair of brackets into parts at its commas, and computes the bound from the inside
//! out:
//!
//! - The bound of a part is the number of its signs and keywords, plus the largest bound of the
//!   pairs within the part.
//! - The bound of a pair is the largest bound of its parts, plus the number of its set operations,
//!   such as UNION, plus one. Set operations count for the whole pair because one may be above
//!   leaves on both sides of a comma.
//!
//! What must hold:
//! - **DEPTH-1**: on every thread, a tree is parsed, bound to its names, run and freed on a stack
//!   that is large enough for its depth ([`Deep`] for trees that are kept). Binding and nested
//!   queries need very different amounts of stack for one level, so they check at each level how
//!   much of the stack is left ([`on_enough_stack`]).
//! - **DEPTH-2**: a statement whose tree is deeper than [`DEPTH_MAX`] fails with 1436, and its
//!   session continues.
//! - **DEPTH-3**: an expression that the catalog keeps is at most [`DEPTH_USUAL`] deep, so that
//!   every statement on its table can bind it on the usual stack.

use std::ops::{ControlFlow, Deref};

use sqlparser::ast::{self, Expr, Visit, Visitor};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::Token;

use crate::errors::{Result, SqlError};

/// The deepest statement that is accepted, in levels of its tree.
const DEPTH_MAX: usize = 3000;

/// The largest upper bound for which a statement is parsed at all. It is larger than the limit of
/// the depth because the bound counts the branches of a CASE, although they are not nested.
const BOUND_MAX: usize = 50_000;

/// The depth for which the usual stack of a thread is large enough.
const DEPTH_USUAL: usize = 100;

/// The bytes of the stack for deep statements. Only the used part takes memory.
const STACK_BYTES: usize = 256 << 20;

/// If a stack has fewer bytes left than this, the recursion continues on another stack.
const STACK_LEFT: usize = 256 << 10;

/// The bytes of that other stack.
const STACK_MORE: usize = 8 << 20;

/// Calls a step of a recursion over a tree, on another stack if this one is nearly full.
pub(crate) fn on_enough_stack<T>(step: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(STACK_LEFT, STACK_MORE, step)
}

/// The counts within one pair of brackets.
#[derive(Clone, Copy, Default)]
struct BracketCounts {
    /// The number of set operations. In the tree, everything else in the brackets may be below
    /// them.
    sets: usize,
    /// The number of signs and keywords since the last comma.
    run: usize,
    /// The depth of the deepest brackets since the last comma.
    inner: usize,
    /// The largest depth that any part before the last comma has.
    before: usize,
}

impl BracketCounts {
    fn comma(&mut self) {
        self.before = self.depth_without_sets();
        (self.run, self.inner) = (0, 0);
    }

    fn depth_without_sets(self) -> usize {
        self.before.max(self.run + self.inner)
    }

    fn depth(self) -> usize {
        self.sets + self.depth_without_sets()
    }
}

/// An upper bound of the depth of any tree parsed from the tokens.
fn bound(tokens: &[Token]) -> usize {
    let mut outer: Vec<BracketCounts> = Vec::new();
    let mut level = BracketCounts::default();
    let close = |level: &mut BracketCounts, around: BracketCounts| {
        let depth = level.depth() + 1;
        *level = BracketCounts { inner: around.inner.max(depth), ..around };
    };
    for token in tokens {
        match token {
            Token::LParen | Token::LBracket | Token::LBrace => {
                outer.push(std::mem::take(&mut level));
            }
            // The parser refuses an unmatched closing bracket.
            Token::RParen | Token::RBracket | Token::RBrace => {
                close(&mut level, outer.pop().unwrap_or_default());
            }
            Token::Comma => level.comma(),
            Token::Word(word) => match word.keyword {
                Keyword::NoKeyword => {}
                Keyword::UNION | Keyword::EXCEPT | Keyword::INTERSECT | Keyword::MINUS => {
                    level.sets += 1;
                }
                _ => level.run += 1,
            },
            Token::Number(..)
            | Token::SingleQuotedString(_)
            | Token::DoubleQuotedString(_)
            | Token::HexStringLiteral(_)
            | Token::Placeholder(_)
            | Token::Period
            | Token::Whitespace(_) => {}
            // Any other sign may be an operator.
            _ => level.run += 1,
        }
    }
    while let Some(around) = outer.pop() {
        close(&mut level, around);
    }
    level.depth()
}

/// Measures the depth of a tree.
#[derive(Default)]
struct Measure {
    depth: usize,
    deepest: usize,
}

impl Measure {
    fn enter(&mut self, levels: usize) -> ControlFlow<()> {
        self.depth += levels;
        self.deepest = self.deepest.max(self.depth);
        ControlFlow::Continue(())
    }

    fn leave(&mut self, levels: usize) -> ControlFlow<()> {
        self.depth -= levels;
        ControlFlow::Continue(())
    }
}

/// The levels that an expression adds above its operands. A comparison of rows is bound as a chain
/// over their parts, with an AND and an OR for each.
fn levels_of(expr: &Expr) -> usize {
    match expr {
        Expr::Tuple(parts) => 1 + 2 * parts.len(),
        Expr::Function(call) => match &call.args {
            ast::FunctionArguments::List(list)
                if matches!(call.name.0.as_slice(), [ast::ObjectNamePart::Identifier(name)]
                    if name.value.eq_ignore_ascii_case("row")) =>
            {
                1 + 2 * list.args.len()
            }
            _ => 1,
        },
        _ => 1,
    }
}

/// The levels that a query adds: its set operations, and its common table expressions, each of
/// which may read the previous one.
fn levels_of_query(query: &ast::Query) -> usize {
    let mut sets = 0;
    let mut bodies = vec![&*query.body];
    while let Some(body) = bodies.pop() {
        if let ast::SetExpr::SetOperation { left, right, .. } = body {
            sets += 1;
            bodies.extend([&**left, &**right]);
        }
    }
    1 + sets + query.with.as_ref().map_or(0, |with| with.cte_tables.len())
}

impl Visitor for Measure {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        self.enter(levels_of(expr))
    }

    fn post_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        self.leave(levels_of(expr))
    }

    fn pre_visit_query(&mut self, query: &ast::Query) -> ControlFlow<()> {
        self.enter(levels_of_query(query))
    }

    fn post_visit_query(&mut self, query: &ast::Query) -> ControlFlow<()> {
        self.leave(levels_of_query(query))
    }

    fn pre_visit_table_factor(&mut self, _: &ast::TableFactor) -> ControlFlow<()> {
        self.enter(1)
    }

    fn post_visit_table_factor(&mut self, _: &ast::TableFactor) -> ControlFlow<()> {
        self.leave(1)
    }

    fn pre_visit_statement(&mut self, _: &ast::Statement) -> ControlFlow<()> {
        self.enter(1)
    }

    fn post_visit_statement(&mut self, _: &ast::Statement) -> ControlFlow<()> {
        self.leave(1)
    }
}

/// The depth of a statement or of a part of one.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Depth(usize);

/// 1436: ER_STACK_OVERRUN_NEED_MORE.
#[cold]
pub(super) fn too_deep(most: usize) -> SqlError {
    let text = format!("Thread stack overrun: expressions are nested more than {most} deep");
    SqlError::new(1436, text)
}

impl Depth {
    /// An upper bound of the depth of the tree that the parser builds from tokens.
    ///
    /// # Errors
    /// 1436 if it is too deep.
    pub(crate) fn of_tokens(tokens: &[Token]) -> Result<Depth> {
        match bound(tokens) {
            bound @ 0..=BOUND_MAX => Ok(Depth(bound)),
            _ => Err(too_deep(DEPTH_MAX)),
        }
    }

    /// The depth of a tree. The caller must have enough stack for it.
    ///
    /// # Errors
    /// 1436 if it is too deep.
    pub(super) fn of(tree: &impl Visit) -> Result<Depth> {
        let mut measure = Measure::default();
        let _ = tree.visit(&mut measure);
        match measure.deepest {
            depth @ 0..=DEPTH_MAX => Ok(Depth(depth)),
            _ => Err(too_deep(DEPTH_MAX)),
        }
    }

    /// Whether the statement needs a separate stack.
    pub(crate) fn is_deep(self) -> bool {
        self.0 > DEPTH_USUAL
    }

    /// Refuses an expression that is too deep to be stored in the catalog (DEPTH-3).
    ///
    /// # Errors
    /// 1436 for such an expression.
    pub(crate) fn check_kept(self) -> Result<()> {
        if self.is_deep() { Err(too_deep(DEPTH_USUAL)) } else { Ok(()) }
    }

    /// Runs a part of a statement on a stack that is large enough for it.
    pub(crate) fn run<T>(self, body: impl FnOnce() -> T) -> T {
        if self.is_deep() { stacker::grow(STACK_BYTES, body) } else { body() }
    }
}

/// A tree that is kept. Any thread may drop it: it is then freed on a stack that is large enough
/// (DEPTH-1).
#[derive(Debug)]
pub(crate) struct Deep<T> {
    depth: Depth,
    /// Always there, except while it is dropped.
    tree: Option<T>,
}

impl<T> Deep<T> {
    pub(crate) fn new(depth: Depth, tree: T) -> Deep<T> {
        Deep { depth, tree: Some(tree) }
    }
}

impl<T> Deref for Deep<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.tree.as_ref().expect("a tree that is not freed")
    }
}

impl<T> Drop for Deep<T> {
    fn drop(&mut self) {
        if self.depth.is_deep() {
            self.depth.run(|| self.tree = None);
        }
    }
}
