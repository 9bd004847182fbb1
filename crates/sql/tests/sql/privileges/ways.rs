//! The ways in which a statement can name its table and the table's columns.

/// Databases with a table of each name. One of them needs quotes.
pub(crate) const DATABASES: [&str; 2] = ["d", "`odd.``d`"];
pub(crate) const TABLES: [&str; 2] = ["t", "`t.``x`"];

/// A way to name a table and its columns.
pub(crate) struct Way {
    /// The current database.
    pub(crate) current: &'static str,
    /// `{N}`: the table without an alias.
    pub(crate) name: &'static str,
    /// The alias after the name; empty for none.
    pub(crate) alias: &'static str,
    /// `{Q}`: the qualifier of column names.
    pub(crate) qualifier: &'static str,
}

const fn way(
    current: &'static str,
    name: &'static str,
    alias: &'static str,
    qualifier: &'static str,
) -> Way {
    Way { current, name, alias, qualifier }
}

pub(crate) const WAYS: &[Way] = &[
    way("mine", "d.t", "", "t"),
    way("d", "t", "", "t"),
    way("mine", "d.t", "", "d.t"),
    way("mine", "`d`.`t`", "", "`t`"),
    way("mine", "d.t", " AS x", "x"),
    way("d", "t", " x", "X"),
    // With the alias being the name of the other database.
    way("mine", "d.t", " AS `mine`", "`mine`"),
    way("mine", "d.t", " AS `x``y`", "`x``y`"),
    way("d", "t", " AS ```x```", "```x```"),
    way("mine", "d.t", " AS `a.b`", "`a.b`"),
    way("mine", "d.t", " AS `x y'z`", "`x y'z`"),
    way("mine", "`odd.``d`.`t.``x`", "", "`t.``x`"),
    way("`odd.``d`", "`t.``x`", "", "`t.``x`"),
    way("`odd.``d`", "`t.``x`", " AS `x``y`", "`x``y`"),
];

/// Tables that do not exist, in an existing database and in one that does not exist.
pub(crate) const MISSING: &[Way] = &[
    way("mine", "d.nothing", " AS x", "x"),
    way("mine", "nowhere.t", " AS `x``y`", "`x``y`"),
    way("mine", "d.t", " AS x", "x"),
];

impl Way {
    /// Writes a statement with `{T}`, `{N}` and `{Q}` in this way; `None` if that is impossible.
    pub(crate) fn spell(&self, sql: &str) -> Option<String> {
        let named = sql.contains("{N}");
        // A statement that accepts no alias uses the table's name.
        if named && !self.alias.is_empty() {
            return None;
        }
        let table = format!("{}{}", self.name, self.alias);
        Some(sql.replace("{T}", &table).replace("{N}", self.name).replace("{Q}", self.qualifier))
    }
}
