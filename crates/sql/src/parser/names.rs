//! Names of result columns without an alias: the text of the column's expression, as it was
//! written.

use sqlparser::ast::{self, SelectItem, SetExpr};
use sqlparser::tokenizer::Token;

use super::table_names::word;

/// The words that may stand between SELECT and its first column.
const MODIFIERS: &[&str] = &[
    "all",
    "distinct",
    "distinctrow",
    "high_priority",
    "sql_big_result",
    "sql_buffer_result",
    "sql_cache",
    "sql_calc_found_rows",
    "sql_no_cache",
    "sql_small_result",
    "straight_join",
];

/// The words that end the list of columns.
const ENDS: &[&str] = &[
    "except",
    "for",
    "from",
    "group",
    "having",
    "intersect",
    "into",
    "limit",
    "lock",
    "order",
    "procedure",
    "union",
    "where",
    "window",
];

/// Names the columns of a query that have no alias by their source text, because the parser would
/// format the text differently.
pub(super) fn name_columns(query: &mut ast::Query, texts: Vec<String>) {
    let Some(select) = first_select(&mut query.body) else { return };
    if texts.len() != select.projection.len() {
        return;
    }
    for (item, text) in select.projection.iter_mut().zip(texts) {
        use ast::Expr::{CompoundIdentifier, Identifier, Value};
        match item {
            SelectItem::UnnamedExpr(Identifier(_) | CompoundIdentifier(_) | Value(_)) => {}
            SelectItem::UnnamedExpr(expr) => {
                let expr = expr.clone();
                let alias = ast::Ident::with_quote('`', text);
                *item = SelectItem::ExprWithAlias { expr, alias };
            }
            _ => {}
        }
    }
}

/// The SELECT that determines the names of the columns.
fn first_select(body: &mut SetExpr) -> Option<&mut ast::Select> {
    match body {
        SetExpr::Select(select) => Some(select),
        SetExpr::SetOperation { left, .. } => first_select(left),
        _ => None,
    }
}

/// The source texts of the columns of the first SELECT outside parentheses.
pub(super) fn texts_of_columns(tokens: &[Token]) -> Vec<String> {
    let mut depth = 0_usize;
    let mut rest = tokens.iter();
    let select = rest.by_ref().find(|token| {
        count_parens(&mut depth, token);
        depth == 0 && word(Some(token)) == "select"
    });
    if select.is_none() {
        return Vec::new();
    }
    let mut texts = vec![String::new()];
    for token in rest {
        count_parens(&mut depth, token);
        let text = texts.last_mut().expect("it begins with one");
        match token {
            Token::Comma if depth == 0 => texts.push(String::new()),
            Token::Whitespace(_) if text.is_empty() => {}
            Token::Placeholder(_) => text.push('?'),
            Token::SingleQuotedString(string) => {
                text.extend(["'", &string.replace('\'', "''"), "'"]);
            }
            token => {
                let word = if depth == 0 { word(Some(token)) } else { String::new() };
                if ENDS.contains(&word.as_str()) || *token == Token::SemiColon {
                    break;
                }
                if !(text.is_empty() && MODIFIERS.contains(&word.as_str())) {
                    text.push_str(&token.to_string());
                }
            }
        }
    }
    for text in &mut texts {
        *text = text.trim_end().chars().take(256).collect();
    }
    texts
}

fn count_parens(depth: &mut usize, token: &Token) {
    match token {
        Token::LParen => *depth += 1,
        Token::RParen => *depth = depth.saturating_sub(1),
        _ => {}
    }
}
