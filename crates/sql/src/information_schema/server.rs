//! SHOW statements about the server.

use spillway_types::{Collation, Value};

use crate::api::{int, text};
use crate::catalog::{STORAGE_ENGINES, UserDef};
use crate::expression::Server;
use crate::variables::Variables;

/// The engines, for a session with these variables.
pub(super) fn engine_rows(variables: &Variables) -> Vec<Vec<Value>> {
    let row = |name: &str, support: &str, comment: &str| {
        vec![text(name), text(support), text(comment), text("YES"), text("NO"), text("YES")]
    };
    let default = variables.default_engine().kind;
    let support = |kind| if kind == default { "DEFAULT" } else { "YES" };
    let engines = STORAGE_ENGINES.iter();
    engines.map(|engine| row(engine.name, support(engine.kind), engine.comment)).collect()
}

pub(super) fn collation_rows() -> Vec<Vec<Value>> {
    Collation::ALL
        .iter()
        .map(|collation| {
            let default = if collation.is_default() { "Yes" } else { "" };
            let pad = if collation.pads() { "PAD SPACE" } else { "NO PAD" };
            vec![
                text(collation.name()),
                text(collation.charset()),
                int(i64::from(collation.id())),
                text(default),
                text("Yes"),
                int(1),
                text(pad),
            ]
        })
        .collect()
}

pub(super) fn charset_rows() -> Vec<Vec<Value>> {
    vec![
        vec![text("binary"), text("Binary pseudo charset"), text("binary"), int(1)],
        vec![text("utf8mb4"), text("UTF-8 Unicode"), text("utf8mb4_general_ci"), int(4)],
    ]
}

pub(super) fn process_rows(server: &dyn Server, user: Option<&UserDef>) -> Vec<Vec<Value>> {
    // Statements of other users may contain secrets, so only some users see them.
    let seen =
        |name: &str| user.is_some_and(|user| user.name == name || user.may_everywhere("PROCESS"));
    let lines = server.process_lines().into_iter().filter(|line| seen(&line.user));
    let rows = lines.map(|line| {
        let command = if line.statement.is_some() { "Query" } else { "Sleep" };
        vec![
            int(line.id as i64),
            text(line.user),
            text(line.host),
            line.database.map_or(Value::Null, Value::Text),
            text(command),
            int(0),
            Value::Text(line.state.into_owned()),
            line.statement.map_or(Value::Null, Value::Text),
        ]
    });
    rows.collect()
}
