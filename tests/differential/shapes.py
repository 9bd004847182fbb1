"""Shapes of statements over both tables: common table expressions, derived tables, set operations, rows, prepared statements, values
of every type in every column, changes of joined tables and of columns' types. Each is made from a `Statements`."""

from expressions import ANY, LITERALS, NUMBER, TIME, TYPES, Expressions, Node, kind_of

# Texts of characters of one to four bytes, also ones that fold or expand.
LETTERS = ["'ÄÖÜäöüß'", "'naïve café'", "'ΑΒΓαβγς'", "'ЖЗИжзи'", "'日本語テキスト'", "'🌊🐢x🌊'", "'a\u0301bc'", "'ǅŁłøØ'", "'  é  '", "'İıſ'", "'한글'", "'\\tx\\n'"]
LETTER_FUNCTIONS = [
    "UPPER({})", "LOWER({})", "REVERSE({})", "LEFT({},2)", "RIGHT({},3)", "SUBSTRING({},-3,2)", "SUBSTRING({},2,3)", "CHAR_LENGTH({})", "LENGTH({})", "HEX({})",
    "LPAD({},9,'é🌊')", "RPAD({},9,'ß')", "LPAD({},2,'x')", "INSERT({},2,1,'ü')", "REPLACE({},'ü','ue')", "REPLACE({},'🌊','')", "INSTR({},'É')", "LOCATE('語',{})",
    "TRIM({})", "TRIM(BOTH 'ä' FROM {})", "TRIM(LEADING '🌊' FROM {})", "TRIM(TRAILING 'x🌊' FROM {})", "SUBSTRING_INDEX({},'🐢',1)", "SUBSTRING_INDEX({},'ß',-1)", "ORD({})", "ASCII({})",
    "REPEAT({},2)", "CONCAT_WS('→',{},{})", "QUOTE({})", "FIELD({},'x',{})", "ELT(2,'x',{})", "STRCMP({},{})", "{} LIKE '%é%'", "{} LIKE '_本%'", "{} LIKE 'Ä%'", "{} = {}", "{} < {}",
    "CAST({} AS CHAR(3))", "HEX(CAST({} AS BINARY(5)))", "CONVERT({} USING utf8mb3)", "CONVERT({} USING latin1)", "TO_BASE64({})", "MID({},1,2)", "POSITION('b' IN {})",
    "{} REGEXP '.本'", "GREATEST({},{})", "LEAST({},{})", "FIND_IN_SET('é',{})", "SOUNDEX({})", "MD5({})", "CRC32({})", "CHAR_LENGTH(REVERSE({}))",
]

JSON = ["'[1,2,3]'", "'{\"a\":1,\"b\":[true,null]}'", "'\"text\"'", "'null'", "'1.5'", "'[]'", "'{}'", "'[[1,[2]],{\"x\":\"é\"}]'", "'x'", "''", "'[1,]'"]
JSON_FUNCTIONS = ["JSON_VALID({})", "JSON_UNQUOTE(JSON_EXTRACT({},'$[0]'))", "JSON_UNQUOTE(JSON_EXTRACT({},'$.a'))", "JSON_EXTRACT({},'$.b[0]')", "JSON_EXTRACT({},'$[9]')",
                  "JSON_UNQUOTE({})", "JSON_EXTRACT({},'$')", "JSON_EXTRACT({},'$[1].x')"]


def letters(s):
    """Functions of texts whose characters have several bytes."""
    rng = s.rng
    parts = [Node(rng.choice(LETTERS)) for _ in range(3)]
    text = rng.choice(LETTER_FUNCTIONS)
    inner = Node(text, *parts[:text.count("{}")])
    if rng.random() < 0.3:
        outer = rng.choice([f for f in LETTER_FUNCTIONS if f.count("{}") == 1])
        inner = Node(outer, inner)
    return Node("SELECT {}", inner)


def json(s):
    rng = s.rng
    return Node(f"SELECT {rng.choice(JSON_FUNCTIONS)}", Node(rng.choice(JSON)))


def cte(s):
    """Common table expressions, used once or twice, and within each other."""
    rng = s.rng
    a, b = s.tables[0], s.tables[1]
    (x, _), (y, _) = rng.choice(a.columns), rng.choice(b.columns)
    limit = rng.choice(["", "", " ORDER BY ida LIMIT 3"])
    where = s.over([a]).condition(1)
    value = s.over([a]).any(ANY, 1)
    first = f"c AS (SELECT ida AS i, {x} AS x, {{}} AS v FROM a WHERE {{}}{limit})"
    return rng.choice([
        lambda: Node(f"WITH {first} SELECT * FROM c ORDER BY i", value, where),
        lambda: Node(f"WITH {first} SELECT p.i, q.i FROM c p JOIN c q ON p.i = q.i + 1 ORDER BY 1, 2", value, where),
        lambda: Node(f"WITH {first}, d AS (SELECT i % 3 AS k, COUNT(*) AS n, MAX(i) AS m FROM c GROUP BY i % 3) SELECT d.*, (SELECT COUNT(*) FROM c WHERE c.i > d.m) FROM d ORDER BY k", value, where),
        lambda: Node(f"WITH {first} SELECT idb, (SELECT COUNT(*) FROM c WHERE i <= idb) FROM b ORDER BY 1", value, where),
        lambda: Node(f"WITH {first}, d AS (SELECT idb AS i, {y} AS y FROM b) SELECT c.i, d.y FROM c LEFT JOIN d USING (i) ORDER BY 1", value, where),
        lambda: Node(f"WITH {first} SELECT i FROM c WHERE i IN (SELECT i FROM c WHERE i > 2) UNION ALL SELECT idb FROM b WHERE EXISTS (SELECT 1 FROM c WHERE i = idb) ORDER BY 1", value, where),
        lambda: Node(f"WITH c (i, x, v) AS (SELECT ida, {x}, {{}} FROM a WHERE {{}}) SELECT COUNT(*), MIN(i), MAX(i) FROM c", value, where),
        lambda: Node(f"SELECT ida FROM a WHERE ida IN (WITH c AS (SELECT idb AS i FROM b WHERE idb > 2) SELECT i FROM c) AND {{}} ORDER BY 1", where),
    ])()


def derived(s):
    """Derived tables in joins, and the types of their columns."""
    rng = s.rng
    a, b = s.tables[0], s.tables[1]
    (x, _), (y, _) = rng.choice(a.columns), rng.choice(b.columns)
    make = s.over([a])
    value, other = make.any(ANY, 2), make.any(ANY, 1)
    return rng.choice([
        lambda: Node("SELECT i, v, w FROM (SELECT ida AS i, {} AS v, {} AS w FROM a) d ORDER BY i", value, other),
        lambda: Node(f"SELECT d.i, d.v, b.{y} FROM (SELECT ida AS i, {{}} AS v FROM a) d LEFT JOIN b ON b.idb = d.i ORDER BY 1", value),
        lambda: Node(f"SELECT d.i, d.v FROM (SELECT ida AS i, {{}} AS v FROM a LIMIT 99) d WHERE d.v IS NOT NULL AND d.i > {rng.randint(0, 4)} ORDER BY 1", value),
        lambda: Node("SELECT e.n, e.m FROM (SELECT COUNT(v) AS n, MAX(i) AS m FROM (SELECT ida AS i, {} AS v FROM a) d GROUP BY i % 2) e ORDER BY 2", value),
        lambda: Node(f"SELECT d.i, (SELECT COUNT(*) FROM b WHERE idb < d.i) FROM (SELECT ida AS i FROM a WHERE {{}}) d ORDER BY 1", make.condition(1)),
        lambda: Node(f"SELECT COUNT(*) FROM (SELECT DISTINCT {x} FROM a) p, (SELECT DISTINCT {y} FROM b) q"),
        lambda: Node("SELECT i + 0, CONCAT(v, '') FROM (SELECT ida AS i, {} AS v FROM a) d ORDER BY 1", value),
    ])()


def set_operations(s):
    """Several set operations, with parentheses, orders and limits in their parts and behind them."""
    rng = s.rng
    part = lambda: rng.choice([f"SELECT ida % {rng.randint(2, 6)} FROM a", f"SELECT idb % {rng.randint(2, 6)} FROM b", "SELECT ida FROM a", f"SELECT {rng.randint(0, 5)}", "SELECT idb FROM b WHERE idb > 3",
                               f"(SELECT ida FROM a ORDER BY ida {rng.choice(['', 'DESC'])} LIMIT {rng.randint(1, 4)})", "(SELECT idb FROM b ORDER BY 1 LIMIT 2 OFFSET 1)", "SELECT COUNT(*) FROM b", "SELECT MAX(ida) FROM a"])
    operation = lambda: rng.choice(["UNION", "UNION ALL", "INTERSECT", "EXCEPT", "UNION", "UNION DISTINCT"])
    text = part()
    for _ in range(rng.randint(1, 3)):
        text = f"{text} {operation()} {part()}" if rng.random() < 0.75 else f"({text}) {operation()} {part()}"
    tail = rng.choice(["", " ORDER BY 1", " ORDER BY 1 DESC LIMIT 3", " ORDER BY 1 LIMIT 2, 3"])
    if rng.random() < 0.3:
        return Node(f"SELECT COUNT(*), SUM(n) FROM (SELECT 0 AS n UNION ALL {text}) u")
    return Node(text + tail)


def rows(s):
    """Comparisons of rows."""
    rng = s.rng
    a = s.tables[0]
    exact = [c for c, ty in a.columns if "INT" in ty] or ["ida"]
    words = [c for c, ty in a.columns if ty.startswith(("CHAR", "VARCHAR(20)", "TEXT"))] or ["'a'"]
    number = lambda: rng.choice(exact + ["0", "1", "2", "-1", "NULL", "ida", "127"])
    word = lambda: rng.choice(words + ["''", "'a'", "'A'", "'12'", "'é'", "NULL"])
    row = lambda: f"({number()}, {word()}, {number()})"
    condition = rng.choice([
        lambda: f"{row()} {rng.choice(['=', '<', '>', '<=', '>=', '<>', '<=>'])} {row()}",
        lambda: f"{row()} {rng.choice(['', 'NOT '])}IN ({row()}, {row()})",
        lambda: f"ROW({number()}, ({number()}, {word()})) = ROW({number()}, ({number()}, {word()}))",
        lambda: f"({number()}, {number()}) {rng.choice(['', 'NOT '])}IN (SELECT idb, idb % 3 FROM b)",
        lambda: f"({number()}, {number()}) {rng.choice(['=', '<>', '<=>'])} (SELECT idb, 1 FROM b WHERE idb = {rng.randint(1, 5)})",
        lambda: f"({number()}, {number()}) {rng.choice(['= ANY', '<> ALL'])} (SELECT idb, {number()} FROM b)",
    ])()
    return Node(f"SELECT ida, {condition} FROM a ORDER BY 1" if rng.random() < 0.5 else f"SELECT ida FROM a WHERE {condition} ORDER BY 1")


def ordered(s):
    """Orders and groups by expressions, positions and aliases."""
    rng = s.rng
    table = s.table()
    name = table.name
    (x, _) = rng.choice(table.columns)
    make = s.over([table])
    value = make.any(ANY, 1)
    return rng.choice([
        lambda: Node(f"SELECT id{name} AS k, {{}} AS v FROM {name} ORDER BY v IS NULL, k DESC", value),
        lambda: Node(f"SELECT id{name} % 3 AS k, COUNT(*) AS n FROM {name} GROUP BY k HAVING n > 1 OR k = 0 ORDER BY 2 DESC, 1"),
        lambda: Node(f"SELECT id{name} % 3, COUNT(DISTINCT {x}, id{name} % 2) FROM {name} GROUP BY 1 ORDER BY 1"),
        lambda: Node(f"SELECT DISTINCT id{name} % 2 FROM {name} ORDER BY id{name} % 2 DESC"),
        lambda: Node(f"SELECT id{name} FROM {name} ORDER BY (SELECT COUNT(*) FROM b WHERE idb < id{name}) DESC, {{}} IS NULL, 1", value),
        lambda: Node(f"SELECT COUNT(*), COUNT({x}) FROM {name} GROUP BY {{}} IS NULL ORDER BY 1, 2", value),
        lambda: Node(f"SELECT MIN(id{name}), {{}} AS g FROM {name} GROUP BY g ORDER BY 1", make.condition(1)),
        lambda: Node(f"SELECT GROUP_CONCAT(DISTINCT id{name} % 4 ORDER BY 1 DESC SEPARATOR '') FROM {name} GROUP BY id{name} % 2 ORDER BY 1"),
        lambda: Node(f"SELECT GROUP_CONCAT(id{name}, ':', {{}} IS NULL ORDER BY id{name} DESC) FROM {name}", value),
        lambda: Node(f"SELECT id{name} FROM {name} ORDER BY {{}}, id{name} LIMIT 4", make.condition(1)),
    ])()


# Values of user variables, which are typed as integers, decimals, doubles, texts and bytes.
PARAMETERS = ["0", "1", "-7", "2", "2.50", "-0.05", "1e0", "1.75e0", "'a'", "'12'", "''", "'é'", "NULL", "0x3132", "18446744073709551615", "'2024-02-29'"]


def prepared(s):
    """A prepared statement whose parameters stand in conditions, values, lists and limits; executed twice."""
    rng = s.rng
    table = s.table()
    name = table.name
    # A text beside a column of times is compared otherwise in MariaDB.
    (x, ty) = rng.choice([c for c in table.columns if kind_of(c[1]) != TIME] or [(f"id{name}", "INT")])
    kind = kind_of(ty)
    fitting = [p for p in PARAMETERS if p == "NULL" or (p.startswith("'") if kind != NUMBER else not p.startswith(("'", "0x")))]
    text, count = rng.choice([
        (f"SELECT id{name} FROM {name} WHERE {x} = ? ORDER BY 1", 1), (f"SELECT id{name} FROM {name} WHERE {x} IN (?, ?) ORDER BY 1", 2),
        (f"SELECT id{name} FROM {name} WHERE id{name} BETWEEN ? AND ? ORDER BY 1", 2), (f"SELECT id{name} FROM {name} WHERE {x} <=> ? OR id{name} = ? ORDER BY 1", 2),
        (f"SELECT COUNT(*), ? FROM {name} WHERE id{name} > ?", 2), (f"SELECT CONCAT(?, id{name}) FROM {name} WHERE {x} > ? ORDER BY id{name}", 2),
        (f"SELECT id{name} % 3 + ?, COUNT(*) FROM {name} GROUP BY id{name} % 3 ORDER BY 1", 1), ("SELECT ? + ?, IFNULL(?, 0)", 3),
        (f"SELECT id{name} FROM {name} WHERE EXISTS (SELECT 1 FROM b WHERE idb = ?) ORDER BY 1", 1), ("SELECT COALESCE(?, ?)", 2),
    ])
    values = lambda: [rng.choice(fitting if "SELECT ?" not in text else PARAMETERS) for _ in range(count)]
    names = [f"@p{at}" for at in range(count)]
    execute = lambda: [f"SET {', '.join(f'{n} = {v}' for n, v in zip(names, values()))}", f"EXECUTE s USING {', '.join(names)}"]
    return Node(" ;; ".join([f"PREPARE s FROM '{text}'"] + execute() + execute()))


def every_value(s):
    """A value of any type, as a literal, into a column."""
    rng = s.rng
    table = s.table()
    column, _ = rng.choice(table.columns)
    wild = [v for values in TYPES.values() for v in values] + LITERALS["number"] + LITERALS["text"] + LITERALS["bytes"] + LITERALS["time"]
    value = rng.choice(wild + ["1.5e0", "123456.789e0", "0.00001234e0", "-1.5e10", "99.5", "TRUE", "'  7  '", "' 1.5e1 '", "'0x10'", "'-'", "'.'", "'1e'", "b'101'", "1e-300", "12345678901234567890123"])
    ignore = rng.choice(["", " IGNORE"])
    name = table.name
    return name, rng.choice([
        lambda: Node(f"INSERT{ignore} INTO {name} ({column}) VALUES ({{}})", Node(value)),
        lambda: Node(f"UPDATE{ignore} {name} SET {column} = {{}} WHERE id{name} < 4", Node(value)),
        lambda: Node(f"REPLACE INTO {name} (id{name}, {column}) VALUES (2, {{}})", Node(value)),
        lambda: Node(f"INSERT{ignore} INTO {name} ({column}) SELECT {{}}", Node(value)),
        lambda: Node(f"SET @v = {value} ;; INSERT{ignore} INTO {name} ({column}) VALUES (@v)"),
    ])()


def every_column(s):
    """A column of any type into a column of another."""
    rng = s.rng
    table, other = s.tables if rng.random() < 0.5 else reversed(s.tables)
    name = table.name
    (x, _), (y, _), (z, _) = rng.choice(table.columns), rng.choice(table.columns), rng.choice(other.columns)
    ignore = rng.choice(["", " IGNORE"])
    return name, rng.choice([
        lambda: Node(f"UPDATE{ignore} {name} SET {x} = {y}"),
        lambda: Node(f"INSERT{ignore} INTO {name} ({x}) SELECT {z} FROM {other.name} WHERE id{other.name} = {rng.randint(1, 8)}"),
        lambda: Node(f"INSERT{ignore} INTO {name} ({x}) SELECT MAX({z}) FROM {other.name}"),
        lambda: Node(f"UPDATE{ignore} {name} SET {x} = (SELECT {z} FROM {other.name} WHERE id{other.name} = id{name})"),
        lambda: Node(f"INSERT{ignore} INTO {name} ({x}) SELECT {z} FROM (SELECT {z} FROM {other.name} ORDER BY id{other.name} LIMIT 2) d"),
    ])()


def joined_change(s):
    """UPDATE and DELETE of joined tables, each row of which has one partner."""
    rng = s.rng
    a, b = s.tables
    (x, tx), (y, ty) = rng.choice(a.columns), rng.choice(b.columns)
    make = s.over([a, b])
    where = Node(f"ida {rng.choice(['>', '<=', '<>'])} {rng.randint(0, 6)}")
    value = make.any(kind_of(tx), 1)
    join = rng.choice(["JOIN b ON ida = idb", "LEFT JOIN b ON idb = ida", "JOIN b ON ida = idb + 1"])
    return "ab", rng.choice([
        lambda: Node(f"UPDATE a {join} SET {x} = {{}} WHERE {{}}", value, where),
        lambda: Node(f"UPDATE a {join} SET a.{x} = {{}}, b.{y} = {{}} WHERE {{}}", value, Expressions(rng, b.columns).leaf(kind_of(ty)), where),
        lambda: Node(f"UPDATE a JOIN (SELECT idb AS i, COUNT(*) AS n FROM b GROUP BY idb) d ON d.i = ida SET {x} = d.n WHERE {{}}", where),
        lambda: Node(f"UPDATE a, b SET {y} = {{}} WHERE ida = idb AND {{}}", Expressions(rng, a.columns).leaf(kind_of(ty)), where),
        lambda: Node(f"UPDATE a SET {x} = {{}} WHERE ida IN (SELECT idb FROM b WHERE idb > 2)", value if "b" not in str(value) else Node("NULL")),
        lambda: Node(f"DELETE a FROM a {join} WHERE idb % 3 = 1"),
        lambda: Node(f"DELETE a, b FROM a {join} WHERE ida % 4 = 1"),
        lambda: Node("DELETE FROM b USING a JOIN b ON ida < idb WHERE ida % 5 = 2"),
        lambda: Node(f"DELETE FROM a WHERE ida IN (SELECT idb FROM b WHERE idb % 4 = 0)"),
        lambda: Node("DELETE p FROM a p LEFT JOIN a q ON q.ida = p.ida + 1 WHERE q.ida IS NULL"),
    ])()


def duplicate_change(s):
    """INSERT ... SELECT ... ON DUPLICATE KEY UPDATE, whose values name columns of both."""
    rng = s.rng
    a, b = s.tables
    (x, tx), (y, ty) = rng.choice(a.columns), rng.choice(b.columns)
    same = [(c, t) for c, t in b.columns if kind_of(t) == kind_of(tx)] or [("idb", "INT")]
    z = rng.choice(same)[0]
    limit = f"WHERE idb {rng.choice(['<', '>='])} {rng.randint(1, 6)} ORDER BY idb"
    value = rng.choice([f"VALUES({x})", f"b.{z}", f"a.{x}", z, f"IFNULL(a.{x}, VALUES({x}))", "NULL"])
    more = rng.choice(["", f", ida = ida", f", ida = VALUES(ida)"])
    return "a", rng.choice([
        lambda: Node(f"INSERT INTO a (ida, {x}) SELECT idb, {z} FROM b {limit} ON DUPLICATE KEY UPDATE a.{x} = {value}{more}"),
        lambda: Node(f"INSERT INTO a (ida, {x}) SELECT idb + {rng.randint(0, 3)}, {z} FROM b {limit} ON DUPLICATE KEY UPDATE {x} = {value}"),
        lambda: Node(f"INSERT INTO a (ida, {x}) SELECT * FROM (SELECT idb AS i, {z} AS z FROM b {limit} LIMIT 9) d ON DUPLICATE KEY UPDATE a.{x} = {rng.choice(['d.z', 'z', 'NULL'])}"),
        lambda: Node(f"INSERT IGNORE INTO a (ida, {x}) SELECT idb, {z} FROM b {limit}"),
        lambda: Node(f"REPLACE INTO a (ida, {x}) SELECT idb, {z} FROM b {limit}"),
    ])()


def altered(s):
    """A change of a column's type."""
    rng = s.rng
    table = s.table()
    column, _ = rng.choice(table.columns)
    return table.name, Node(f"ALTER TABLE {table.name} MODIFY {column} {rng.choice(sorted(TYPES))}")


QUERIES = [letters, letters, json, cte, cte, derived, derived, set_operations, set_operations, rows, rows, ordered, ordered, prepared, prepared]
CHANGES = [every_value, every_value, every_value, every_column, every_column, joined_change, joined_change, duplicate_change, duplicate_change]
