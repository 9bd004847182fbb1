//! The tested statements, and the privileges that each one needs on its table. A statement has
//! `{T}` in place of its table, or `{N}` where no alias is allowed.

/// A statement and its needs. Each need lists the letters of privileges of which one is enough
/// (`model`).
pub(crate) struct Statement {
    pub(crate) sql: &'static str,
    pub(crate) needs: &'static [&'static str],
    /// Whether EXPLAIN accepts the statement.
    pub(crate) explained: bool,
}

const fn rows(sql: &'static str, needs: &'static [&'static str]) -> Statement {
    Statement { sql, needs, explained: true }
}

const fn other(sql: &'static str, needs: &'static [&'static str]) -> Statement {
    Statement { sql, needs, explained: false }
}

const READ: &[&str] = &["S"];

pub(crate) const STATEMENTS: &[Statement] = &[
    // Queries: tables of FROM, joins and derived tables.
    rows("SELECT * FROM {T}", READ),
    rows("SELECT 1 FROM {T} LIMIT 0", READ),
    rows("SELECT COUNT(*) FROM {T}", READ),
    rows("SELECT {Q}.a FROM {T} WHERE {Q}.id = 1", READ),
    rows("SELECT m.a FROM mine.t AS m, {T}", READ),
    rows("SELECT m.a FROM mine.t AS m JOIN {T} ON {Q}.id = m.id", READ),
    rows("SELECT m.a FROM mine.t AS m LEFT JOIN {T} ON {Q}.id = m.id", READ),
    rows("SELECT m.a FROM {T} RIGHT JOIN mine.t AS m ON {Q}.id = m.id", READ),
    rows("SELECT m.id FROM mine.t AS m JOIN {T} USING (id)", READ),
    rows("SELECT m.id FROM mine.t AS m NATURAL JOIN {T}", READ),
    rows("SELECT * FROM (SELECT * FROM {T}) AS z", READ),
    rows("WITH z AS (SELECT * FROM {T}) SELECT * FROM z", READ),
    rows("WITH z AS (SELECT * FROM {T}) SELECT 1", READ),
    rows("WITH y AS (SELECT 1 AS a), z AS (SELECT {Q}.a FROM {T}) SELECT * FROM y, z", READ),
    rows("SELECT a FROM mine.t UNION SELECT {Q}.a FROM {T}", READ),
    rows("(SELECT {Q}.a FROM {T}) UNION ALL (SELECT 1) LIMIT 1", READ),
    rows("SELECT a FROM mine.t EXCEPT SELECT {Q}.a FROM {T}", READ),
    // Subqueries in each clause.
    rows("SELECT (SELECT MAX({Q}.a) FROM {T})", READ),
    rows("SELECT IF(1, 2, (SELECT MAX({Q}.a) FROM {T}))", READ),
    rows("SELECT a FROM mine.t WHERE id IN (SELECT {Q}.id FROM {T})", READ),
    rows("SELECT a FROM mine.t WHERE EXISTS (SELECT 1 FROM {T})", READ),
    rows("SELECT a FROM mine.t WHERE id = ANY (SELECT {Q}.id FROM {T})", READ),
    rows("SELECT a FROM mine.t WHERE id >= ALL (SELECT {Q}.id FROM {T})", READ),
    rows("SELECT m.a FROM mine.t AS m WHERE (SELECT {Q}.a FROM {T} WHERE {Q}.id = m.id) = 1", READ),
    rows("SELECT MAX(a) FROM mine.t GROUP BY (SELECT MAX({Q}.a) FROM {T})", READ),
    rows("SELECT COUNT(*) FROM mine.t HAVING COUNT(*) > (SELECT 0 FROM {T} LIMIT 1)", READ),
    rows("SELECT a FROM mine.t ORDER BY (SELECT MAX({Q}.a) FROM {T})", READ),
    rows("SELECT m.a FROM mine.t m JOIN mine.t n ON m.id = (SELECT MAX({Q}.a) FROM {T})", READ),
    rows("SELECT * FROM (SELECT (SELECT MAX({Q}.a) FROM {T}) AS v) AS z", READ),
    // Locking reads.
    rows("SELECT * FROM {T} FOR UPDATE", &["S", "UDL"]),
    rows("SELECT * FROM {T} LOCK IN SHARE MODE", &["S", "UDL"]),
    rows("SELECT m.a FROM mine.t AS m JOIN {T} ON {Q}.id = m.id FOR SHARE", &["S", "UDL"]),
    rows("SELECT * FROM (SELECT * FROM {T} FOR UPDATE) AS z", &["S", "UDL"]),
    rows("SELECT a FROM mine.t WHERE id IN (SELECT {Q}.id FROM {T}) FOR UPDATE", READ),
    // Expressions outside queries.
    other("SET @v = (SELECT MAX({Q}.a) FROM {T})", READ),
    other("DO (SELECT MAX({Q}.a) FROM {T})", READ),
    other("SHOW TABLES FROM mine WHERE (SELECT COUNT(*) FROM {T}) > 100", READ),
    // INSERT.
    rows("INSERT INTO {N} (id, a) VALUES (90, 1)", &["I"]),
    rows("INSERT INTO {N} SET id = 90, a = DEFAULT", &["I"]),
    rows("INSERT IGNORE INTO {N} (id, a) VALUES (1, 1)", &["I"]),
    rows("INSERT INTO {N} (id, a) SELECT 90, 1", &["I"]),
    rows("INSERT INTO {N} (id, a) SELECT id + 90, a FROM mine.t", &["I"]),
    rows("INSERT INTO {N} (id, a) SELECT id + 90, a FROM {N}", &["I", "S"]),
    rows("INSERT INTO {N} (id, a) VALUES (90, (SELECT 1 FROM {N} LIMIT 1))", &["I", "S"]),
    rows("INSERT INTO mine.t (id, a) SELECT {Q}.id + 90, 1 FROM {T}", READ),
    rows("INSERT INTO mine.t (id, a) VALUES (90, (SELECT MAX({Q}.a) FROM {T}))", READ),
    rows("INSERT INTO mine.t SET id = 90, a = (SELECT MAX({Q}.a) FROM {T})", READ),
    rows(
        "INSERT INTO mine.t (id) VALUES (1) ON DUPLICATE KEY UPDATE a = (SELECT MAX({Q}.a) FROM {T})",
        READ,
    ),
    // ON DUPLICATE KEY UPDATE: the given values are not read, but those of the existing row are.
    rows("INSERT INTO {N} (id) VALUES (1) ON DUPLICATE KEY UPDATE a = 5", &["I", "U"]),
    rows("INSERT INTO {N} (id) VALUES (1) ON DUPLICATE KEY UPDATE a = DEFAULT", &["I", "U"]),
    rows("INSERT INTO {N} (id) VALUES (1) ON DUPLICATE KEY UPDATE a = VALUES(id)", &["I", "U"]),
    rows("INSERT INTO {N} (id) VALUES (1) AS n ON DUPLICATE KEY UPDATE a = n.id", &["I", "U"]),
    rows("INSERT INTO {N} (id) VALUES (1) ON DUPLICATE KEY UPDATE a = a + 1", &["I", "U", "S"]),
    rows("INSERT INTO {N} (id) VALUES (1) ON DUPLICATE KEY UPDATE a = {Q}.od", &["I", "U", "S"]),
    rows(
        "INSERT INTO {N} (id) VALUES (1) ON DUPLICATE KEY UPDATE a = IF(@v := a, a, a)",
        &["I", "U", "S"],
    ),
    rows(
        "INSERT INTO {N} (id) VALUES (1) ON DUPLICATE KEY UPDATE a = (SELECT MAX(id) FROM mine.t)",
        &["I", "U"],
    ),
    rows(
        "INSERT INTO {N} (id) VALUES (1) ON DUPLICATE KEY UPDATE a = (SELECT MAX(od + id) FROM mine.t)",
        &["I", "U", "S"],
    ),
    // REPLACE.
    rows("REPLACE INTO {N} (id, a) VALUES (1, 1)", &["I", "D"]),
    rows("REPLACE INTO {N} SET id = 1", &["I", "D"]),
    rows("REPLACE INTO {N} (id, a) SELECT id, a FROM mine.t", &["I", "D"]),
    rows("REPLACE INTO {N} (id, a) SELECT id, a FROM {N}", &["I", "D", "S"]),
    rows("REPLACE INTO mine.t (id, a) SELECT {Q}.id, {Q}.a FROM {T}", READ),
    // UPDATE of one table.
    rows("UPDATE {T} SET a = 9", &["U"]),
    rows("UPDATE {T} SET {Q}.a = 9", &["U"]),
    rows("UPDATE {T} SET a = DEFAULT", &["U"]),
    rows("UPDATE {T} SET a = 9 LIMIT 1", &["U"]),
    rows("UPDATE {T} SET a = (SELECT MAX(id) FROM mine.t)", &["U"]),
    rows("UPDATE {T} SET a = a + 1", &["U", "S"]),
    rows("UPDATE {T} SET a = {Q}.od", &["U", "S"]),
    rows("UPDATE {T} SET a = IF(@v := od, 1, 2)", &["U", "S"]),
    rows("UPDATE {T} SET a = 9 WHERE {Q}.id = 1", &["U", "S"]),
    rows("UPDATE {T} SET a = 9 WHERE id = 1", &["U", "S"]),
    rows("UPDATE {T} SET a = 9 ORDER BY {Q}.a LIMIT 1", &["U", "S"]),
    rows("UPDATE {T} SET a = (SELECT MAX(m.id) FROM mine.t AS m WHERE m.id = {Q}.od)", &["U", "S"]),
    rows(
        "UPDATE {T} SET a = 9 WHERE EXISTS (SELECT 1 FROM mine.t AS m WHERE m.id = od)",
        &["U", "S"],
    ),
    rows("UPDATE mine.t SET a = (SELECT MAX({Q}.a) FROM {T})", READ),
    rows("UPDATE mine.t SET a = 9 WHERE id IN (SELECT {Q}.id FROM {T})", READ),
    rows("UPDATE mine.t SET a = 9 ORDER BY (SELECT MAX({Q}.a) FROM {T}) LIMIT 1", READ),
    // UPDATE of several tables. EXPLAIN does not accept a comma between the tables.
    other("UPDATE mine.t AS m, {T} SET {Q}.a = 9", &["S", "U"]),
    other("UPDATE {T}, mine.t AS m SET {Q}.a = m.a WHERE {Q}.id = m.id", &["S", "U"]),
    rows("UPDATE mine.t AS m JOIN {T} ON {Q}.id = m.id SET od = 9", &["S", "U"]),
    rows("UPDATE mine.t AS m JOIN {T} ON {Q}.id = m.id SET m.a = 9, {Q}.a = 9", &["S", "U"]),
    rows("UPDATE mine.t AS m JOIN {T} ON {Q}.id = m.id SET m.a = {Q}.a", READ),
    other("UPDATE mine.t AS m, {T} SET om = 9", READ),
    rows("UPDATE mine.t AS m JOIN (SELECT {Q}.id FROM {T}) AS z ON z.id = m.id SET m.a = 9", READ),
    // DELETE of one table, and of several.
    rows("DELETE FROM {N}", &["D"]),
    rows("DELETE FROM {N} LIMIT 1", &["D"]),
    rows("DELETE FROM {N} WHERE {Q}.id = 1", &["D", "S"]),
    rows("DELETE FROM {N} WHERE id = 1", &["D", "S"]),
    rows("DELETE FROM {N} ORDER BY a LIMIT 1", &["D", "S"]),
    rows("DELETE FROM mine.t WHERE id IN (SELECT {Q}.id FROM {T})", READ),
    rows("DELETE {Q} FROM {T}, mine.t AS m", &["S", "D"]),
    rows("DELETE {Q}, m FROM {T} JOIN mine.t AS m ON m.id = {Q}.id", &["S", "D"]),
    rows("DELETE FROM {Q} USING mine.t AS m JOIN {T} ON m.id = {Q}.id", &["S", "D"]),
    rows("DELETE m FROM {T}, mine.t AS m", READ),
    rows("DELETE FROM m USING mine.t AS m JOIN {T} ON m.id = {Q}.id", READ),
];
