//! The scope of a query: the columns of tables, the variables and the parameters to which its names
//! may refer.

use spillway_types::{Collation, ColumnType, Value};

use crate::api::ColumnFlags;
use crate::catalog::Catalog;
use crate::errors::{Result, SqlError};
use crate::privilege::Needs;

/// The scope name with which a binder asks its [`VariableLookup`] for an example value of a
/// parameter, by its number. How the parameter is compared depends on the value's type.
pub(crate) const PARAMETERS: &str = "?";

/// The scope name with which a binder tells its [`VariableLookup`] that a parameter, given by its
/// number, is compared with a date and time. The statement is then refused before it runs if the
/// parameter's value is none.
pub(crate) const MOMENTS: &str = "moments";

/// As [`MOMENTS`], if the parameter is compared only with dates.
pub(crate) const DAYS: &str = "days";

/// The scope name with which planning asks how string literals are treated differently from usual:
/// by which collation they are compared, and, under the name `escape`, whether LIKE has no default
/// escape character.
pub(crate) const LITERALS: &str = "literals";

/// The scope name with which planning asks whether grouped queries must obey ONLY_FULL_GROUP_BY.
pub(crate) const FULL_GROUP_BY: &str = "full group by";

/// The scope name with which planning asks whether covering indexes may be read instead of the
/// rows.
pub(crate) const INDEX_ONLY: &str = "index only";

/// Gives a binder the value of a variable or parameter, by a scope and a name.
pub(crate) type VariableLookup<'a> = &'a dyn Fn(&str, &str) -> Option<Value>;

/// The catalog in which a binder resolves names, and the list to which it adds the privileges that
/// the statement needs.
#[derive(Clone, Copy)]
pub(crate) struct Names<'a> {
    pub(crate) catalog: &'a Catalog,
    pub(crate) database: Option<&'a str>,
    pub(crate) variables: VariableLookup<'a>,
    pub(crate) needs: &'a Needs<'a>,
}

/// A column in scope.
#[derive(Clone, Debug)]
pub(crate) struct ScopeColumn {
    pub(crate) name: String,
    pub(crate) ty: ColumnType,
    pub(crate) collation: Collation,
    pub(crate) nullable: bool,
    /// Whether a USING or NATURAL join hides the column from unqualified names.
    pub(crate) merged: bool,
    pub(crate) flags: ColumnFlags,
}

/// A table in scope.
#[derive(Clone, Debug)]
pub(crate) struct ScopeTable {
    pub(crate) db: String,
    pub(crate) alias: String,
    pub(crate) name: String,
    pub(crate) columns: Vec<ScopeColumn>,
    /// The slot of the table's first column.
    pub(crate) offset: usize,
    /// Whether the statement changes this table. Then it needs SELECT only if it reads a column of
    /// it.
    pub(crate) changed: bool,
}

/// The tables of a query.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scope {
    pub(crate) tables: Vec<ScopeTable>,
    /// The tables and columns for which `*` stands.
    pub(crate) star: Vec<(usize, usize)>,
}

impl Scope {
    pub(super) fn find(
        &self,
        path: &[String],
    ) -> Result<Option<(usize, &ScopeTable, &ScopeColumn)>> {
        let Some((column, qualifiers)) = path.split_last() else { return Ok(None) };
        let mut found = None;
        for table in &self.tables {
            let fits = match qualifiers {
                [] => true,
                [alias] => table.alias.eq_ignore_ascii_case(alias),
                [db, alias] => {
                    table.db.eq_ignore_ascii_case(db) && table.alias.eq_ignore_ascii_case(alias)
                }
                _ => false,
            };
            if !fits {
                continue;
            }
            for (at, candidate) in table.columns.iter().enumerate() {
                if candidate.name.eq_ignore_ascii_case(column)
                    && !(qualifiers.is_empty() && candidate.merged)
                {
                    if found.is_some() {
                        return Err(SqlError::new(
                            1052,
                            format!("Column '{}' in field list is ambiguous", path.join(".")),
                        ));
                    }
                    found = Some((table.offset + at, table, candidate));
                }
            }
        }
        Ok(found)
    }
}
