//! Ways to name the table of a statement.

/// Databases with a table of each name. One of them needs quotes.
pub(crate) const DATABASES: [&str; 2] = ["d", "`odd.``d`"];
pub(crate) const TABLES: [&str; 2] = ["t", "`t.``x`"];

/// How a table is named, and its columns are.
pub(crate) struct Way {
    /// The current database.
    pub(crate) current: &'static str,
    /// `{N}`: the table by its name alone.
    pub(crate) name: &'static str,
    /// The alias behind it; empty for none.
    pub(crate) alias: &'static str,
    /// `{Q}`: what stands before the names of columns.
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
    // As a table of the other database.
    way("mine", "d.t", " AS `mine`", "`mine`"),
    way("mine", "d.t", " AS `x``y`", "`x``y`"),
    way("d", "t", " AS ```x```", "```x```"),
    way("mine", "d.t", " AS `a.b`", "`a.b`"),
    way("mine", "d.t", " AS `x y'z`", "`x y'z`"),
    way("mine", "`odd.``d`.`t.``x`", "", "`t.``x`"),
    way("`odd.``d`", "`t.``x`", "", "`t.``x`"),
    way("`odd.``d`", "`t.``x`", " AS `x``y`", "`x``y`"),
];

/// Tables that there are not, in a database that there is, and in none.
pub(crate) const MISSING: &[Way] = &[
    way("mine", "d.nothing", " AS x", "x"),
    way("mine", "nowhere.t", " AS `x``y`", "`x``y`"),
    way("mine", "d.t", " AS x", "x"),
];

impl Way {
    /// A statement with `{T}`, `{N}` and `{Q}` in it, as it is said this way; `None` where it
    /// cannot be.
    pub(crate) fn spell(&self, sql: &str) -> Option<String> {
        let named = sql.contains("{N}");
        // A statement that takes no alias calls the table by its name.
        if named && !self.alias.is_empty() {
            return None;
        }
        let table = format!("{}{}", self.name, self.alias);
        Some(sql.replace("{T}", &table).replace("{N}", self.name).replace("{Q}", self.qualifier))
    }
}
