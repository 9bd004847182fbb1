"""More shapes of statements: long lists, set operations in subqueries, collations, tests beside keys, three tables, dates that move,
aggregates that are not allowed, and changes with expressions over several rows. Each is made from a `Statements`."""

from expressions import NUMBER, TYPES, Node, kind_of

COLLATIONS = ["utf8mb4_bin", "utf8mb4_general_ci", "utf8mb4_unicode_ci"]
TAB = "\\t"
UNITS = ["SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR", "DAY_HOUR", "YEAR_MONTH"]


def exact(table):
    return [c for c, ty in table.columns if "INT" in ty] + [f"id{table.name}"]


def words(table):
    return [c for c, ty in table.columns if ty.split("(")[0].split(" ")[0] in ("CHAR", "VARCHAR", "TEXT")]


def long_list(s):
    """A list of up to thousands of constants, with and without a key, NULL, and repeated items."""
    rng = s.rng
    table = s.table()
    count = rng.choice([20, 200, 3000])
    if words(table) and rng.random() < 0.4:
        column = rng.choice(words(table))
        items = [f"'{rng.choice(['a', 'A', 'b', 'é', 'É', 'ß', 'text', '12', ''])}{rng.choice(['', '', ' ', TAB, str(rng.randint(0, 99))])}'" for _ in range(count)]
    else:
        column = rng.choice(exact(table))
        items = [str(rng.choice([rng.randint(-200, 70000), rng.randint(0, 20), 2147483647, 18446744073709551615])) for _ in range(count)]
    if rng.random() < 0.3:
        items.append("NULL")
    no = rng.choice(["", "NOT "])
    test = f"{column} {no}IN ({', '.join(items)})"
    return rng.choice([
        lambda: Node(f"SELECT id{table.name} FROM {table.name} WHERE {test} ORDER BY 1"),
        lambda: Node(f"SELECT id{table.name}, {test} FROM {table.name} ORDER BY 1"),
        lambda: Node(f"SELECT COUNT(*) FROM {table.name} WHERE {test} OR id{table.name} IN ({', '.join(items[:9]) if items[0][0] != chr(39) else '1, 2'})"),
        lambda: Node(f"SELECT id{table.name} FROM {table.name} WHERE ({column}, id{table.name}) {no}IN ({', '.join(f'({item}, {at % 13})' for at, item in enumerate(items))}) ORDER BY 1"),
    ])()


def nested_sets(s):
    """Set operations within subqueries."""
    rng = s.rng
    a, b = s.tables
    x, y = rng.choice(exact(a)), rng.choice(exact(b))
    op = rng.choice(["UNION", "UNION ALL", "EXCEPT", "INTERSECT"])
    part = lambda: rng.choice([f"SELECT {y} FROM b", f"SELECT idb FROM b WHERE idb > {rng.randint(0, 6)}", f"SELECT {rng.randint(0, 4)}", "SELECT MAX(idb) FROM b"])
    sets = f"{part()} {op} {part()}"
    return rng.choice([
        lambda: Node(f"SELECT ida FROM a WHERE {x} {rng.choice(['', 'NOT '])}IN ({sets}) ORDER BY 1"),
        lambda: Node(f"SELECT ida FROM a WHERE {rng.choice(['', 'NOT '])}EXISTS ({sets}) ORDER BY 1"),
        lambda: Node(f"SELECT ida FROM a WHERE {x} {rng.choice(['> ALL', '<= ANY', '= ANY', '<> ALL'])} ({sets}) ORDER BY 1"),
        lambda: Node(f"SELECT ida FROM a WHERE EXISTS (SELECT 1 FROM b WHERE idb = ida {op} SELECT 1 FROM b WHERE idb = ida + 1) ORDER BY 1"),
        lambda: Node(f"SELECT ida, (SELECT COUNT(*) FROM ({sets}) u) FROM a ORDER BY 1"),
        lambda: Node(f"SELECT ida FROM a JOIN ({sets.replace('SELECT', 'SELECT ALL', 1)}) u ON 1 WHERE ida < 3 ORDER BY 1"),
        lambda: Node(f"SELECT (SELECT {rng.randint(0, 3)} {op} SELECT {rng.randint(0, 3)} LIMIT 1)"),
    ])()


def collated(s):
    """Comparisons, orders and groups by an explicit collation."""
    rng = s.rng
    a = s.table()
    if not words(a):
        return nested_sets(s)
    x, y, c = rng.choice(words(a)), rng.choice(words(a)), rng.choice(COLLATIONS)
    pattern = rng.choice(["'A%'", "'%é%'", "'_'"])
    word = rng.choice(["'a'", "'A'", "'É'", "'ss'", "'text '", "''", "'a\\t'", "'A \\t'"])
    return rng.choice([
        lambda: Node(f"SELECT id{a.name} FROM {a.name} WHERE {x} {rng.choice(['=', '=', '<', '>='])} {word} COLLATE {c} ORDER BY 1"),
        lambda: Node(f"SELECT id{a.name} FROM {a.name} WHERE {x} COLLATE {c} {rng.choice(['<', '>=', '<>', '<=>'])} {y} ORDER BY 1"),
        lambda: Node(f"SELECT id{a.name} FROM {a.name} WHERE {x} COLLATE {c} LIKE {pattern} ORDER BY 1"),
        lambda: Node(f"SELECT COUNT(*), COUNT(DISTINCT {x} COLLATE {c}) FROM {a.name} GROUP BY {x} COLLATE {c} ORDER BY 1, 2"),
        lambda: Node(f"SELECT id{a.name} FROM {a.name} ORDER BY {x} COLLATE {c} {rng.choice(['', 'DESC'])}, id{a.name}"),
        lambda: Node(f"SELECT id{a.name} FROM {a.name} WHERE {x} COLLATE {c} IN ('a', 'É', 'TEXT', {y}) ORDER BY 1"),
        lambda: Node(f"SELECT HEX(MIN({x} COLLATE utf8mb4_bin)), HEX(MAX({x} COLLATE utf8mb4_bin)) FROM {a.name}"),
    ])()


def beside_key(s):
    """Tests of a column, which may be a key's, beside constants of its own kind and others, and their conjunctions."""
    rng = s.rng
    table = s.table()
    name = table.name
    column, ty = rng.choice(table.columns + [(f"id{name}", "INT")])
    kind = kind_of(ty)
    own = [v for v in TYPES.get(ty, ["0", "1", "5"]) if not v.startswith("x'")]
    value = lambda: rng.choice(own)
    test = lambda: rng.choice([
        lambda: f"{column} {rng.choice(['=', '<', '<=', '>', '>=', '<>', '<=>'])} {value()}",
        lambda: f"{value()} {rng.choice(['=', '<', '>='])} {column}",
        lambda: f"{column} {rng.choice(['', 'NOT '])}BETWEEN {value()} AND {value()}",
        lambda: f"{column} {rng.choice(['', 'NOT '])}IN ({value()}, {value()}, {value()})",
        lambda: f"{column} IS {rng.choice(['', 'NOT '])}NULL",
        lambda: f"NOT ({column} > {value()})",
    ])()
    if kind == NUMBER and ("INT" in ty or ty.startswith("DECIMAL")) and rng.random() < 0.4:
        whole = rng.choice(["1.5", "-0.5", "0.0", "'1'", "2.0000", "99999999999", "-1e0", "127.5", "'1.50'"])
        return Node(f"SELECT id{name} FROM {name} WHERE {column} {rng.choice(['=', '<', '<=', '>', '>=', '<>'])} {whole} ORDER BY 1")
    joined = f"{test()} {rng.choice(['AND', 'OR'])} {test()}" if rng.random() < 0.6 else f"({test()} OR {test()}) AND {test()}"
    order = rng.choice(["ORDER BY 1", f"ORDER BY {column}, id{name}", f"ORDER BY {column} DESC, id{name} DESC LIMIT 3"])
    return Node(f"SELECT id{name} FROM {name} WHERE {joined} {order}")


def three_tables(s):
    """Joins of three, with a table twice, and a condition in ON or in WHERE."""
    rng = s.rng
    a, b = s.tables
    x, y = rng.choice(exact(a)), rng.choice(exact(b))
    kind = lambda: rng.choice(["JOIN", "LEFT JOIN", "INNER JOIN", "STRAIGHT_JOIN"])
    on = lambda p, q: rng.choice([f"{p} = {q}", f"{p} = {q} + 1", f"{p} < {q} AND {q} < 4", f"{p} = {q} AND {p} IS NOT NULL"])
    first, second = kind(), kind()
    return rng.choice([
        lambda: Node(f"SELECT p.ida, q.idb, r.ida FROM a p {first} b q ON {on('p.ida', 'q.idb')} {second} a r ON {on('r.ida', 'q.idb')} ORDER BY 1, 2, 3"),
        lambda: Node(f"SELECT COUNT(*), COUNT(r.{x}), SUM(q.idb) FROM a p {first} b q ON p.{x} = q.{y} {second} a r ON {on('r.ida', 'p.ida')}"),
        lambda: Node(f"SELECT p.ida, COUNT(q.idb) n FROM a p LEFT JOIN (b q JOIN a r ON {on('q.idb', 'r.ida')}) ON {on('p.ida', 'q.idb')} GROUP BY p.ida ORDER BY n, 1"),
        lambda: Node(f"SELECT p.ida FROM a p LEFT JOIN b q ON {on('p.ida', 'q.idb')} WHERE q.idb IS NULL OR EXISTS (SELECT 1 FROM a r WHERE r.{x} = q.{y}) ORDER BY 1"),
        lambda: Node(f"SELECT p.ida, q.idb FROM a p RIGHT JOIN b q ON {on('p.ida', 'q.idb')} WHERE p.{x} IS NULL OR p.ida > 2 ORDER BY 2, 1"),
    ])()


def dates(s):
    """Dates that move by intervals, in conditions and values."""
    rng = s.rng
    table = s.table()
    times = [c for c, ty in table.columns if ty.startswith(("DATE", "TIMESTAMP"))]
    at = rng.choice(times + ["'2024-02-29'", "'2024-12-31 23:59:59'", "DATE'2023-01-31'", "TIMESTAMP'2024-03-31 00:00:00.5'"])
    other = rng.choice(times + ["'2024-01-01'", "DATE'2024-02-28'"])
    amount = rng.choice(["1", "-1", "13", "-25", "'1 2'", "'-1:30'", "0", "1.5", "id" + table.name])
    unit = rng.choice(UNITS)
    moved = rng.choice([f"{at} + INTERVAL {amount} {unit}", f"{at} - INTERVAL {amount} {unit}", f"DATE_ADD({at}, INTERVAL {amount} {unit})", f"INTERVAL {amount} {unit} + {at}"])
    return rng.choice([
        lambda: Node(f"SELECT id{table.name}, {moved} FROM {table.name} ORDER BY 1"),
        lambda: Node(f"SELECT id{table.name} FROM {table.name} WHERE {moved} > {other} ORDER BY 1"),
        lambda: Node(f"SELECT id{table.name}, DATEDIFF({moved}, {other}), LAST_DAY({moved}) FROM {table.name} ORDER BY 1"),
        lambda: Node(f"SELECT YEAR({at}) y, COUNT(*) FROM {table.name} GROUP BY y ORDER BY y"),
        lambda: Node(f"SELECT id{table.name}, TIMESTAMPDIFF({rng.choice(['DAY', 'MONTH', 'HOUR'])}, {other}, {at}) FROM {table.name} ORDER BY 1"),
    ])()


def refused(s):
    """Names and aggregates where they are not allowed, or where they barely are."""
    rng = s.rng
    table = s.table()
    name = table.name
    x, y = rng.choice(table.columns)[0], rng.choice(table.columns)[0]
    return Node(rng.choice([
        f"SELECT {x}, COUNT(*) FROM {name} GROUP BY {y} ORDER BY 2, 1",
        f"SELECT id{name} + 1, COUNT(*) FROM {name} GROUP BY id{name} ORDER BY 1",
        f"SELECT id{name} % 3 + 1, COUNT(*) FROM {name} GROUP BY id{name} % 3 ORDER BY 1",
        f"SELECT MAX(COUNT(*)) FROM {name} GROUP BY {x}",
        f"SELECT id{name} FROM {name} WHERE COUNT(*) > 1",
        f"SELECT id{name} FROM {name} GROUP BY COUNT(*)",
        f"SELECT {x} AS v FROM {name} WHERE v IS NULL",
        f"SELECT DISTINCT id{name} % 2 AS k FROM {name} ORDER BY {x}",
        f"SELECT id{name} FROM {name} ORDER BY 3",
        f"SELECT id{name}, id{name} FROM {name} UNION SELECT 1",
        "SELECT (SELECT 1, 2)",
        f"SELECT (SELECT id{name} FROM {name})",
        f"SELECT {name}.nope FROM {name}", f"SELECT nope.{x} FROM {name}", f"SELECT id{name} FROM {name}, {name}", f"SELECT id{name} FROM {name} p, {name} q",
        f"SELECT * FROM {name} p JOIN {name} q USING (nope)", f"SELECT COUNT(*) AS n FROM {name} GROUP BY n",
        f"SELECT COUNT(*), {x} FROM {name} WHERE id{name} = 1", f"SELECT MIN({x}) IS NULL, id{name} FROM {name} WHERE id{name} = 2 GROUP BY id{name}",
    ]))


def several_rows(s):
    """INSERT of several rows, some of them there, with values of functions, DEFAULT and columns to their left."""
    rng = s.rng
    table = s.table()
    name = table.name
    column, ty = rng.choice(table.columns)
    free = [(c, t) for c, t in table.columns if "INT" in t and "UNSIGNED" not in t and c not in table.not_null] or [(f"id{name}", "INT")]
    number = free[0][0]
    value = lambda: rng.choice([table.value(rng, column, ty), table.value(rng, column, ty), "DEFAULT"])
    row = lambda: f"({rng.randint(1, 16)}, {value()})"
    rows = ", ".join(row() for _ in range(rng.randint(2, 4)))
    more = rng.choice([f"{column} = VALUES({column})", f"{column} = DEFAULT", f"id{name} = id{name} + 100", f"{column} = IF(id{name} % 2, VALUES({column}), {column})",
                       f"{column} = {name}.{column}, {number} = id{name} % 7", f"{column} = (SELECT {table.value(rng, column, ty)})"])
    return name, rng.choice([
        lambda: Node(f"INSERT INTO {name} (id{name}, {column}) VALUES {rows}"),
        lambda: Node(f"INSERT IGNORE INTO {name} (id{name}, {column}) VALUES {rows}"),
        lambda: Node(f"REPLACE INTO {name} (id{name}, {column}) VALUES {rows}"),
        lambda: Node(f"INSERT INTO {name} (id{name}, {column}) VALUES {rows} ON DUPLICATE KEY UPDATE {more}"),
        lambda: Node(f"UPDATE {name} SET {number} = id{name} % 5, {column} = {value()} WHERE id{name} BETWEEN {rng.randint(0, 4)} AND {rng.randint(3, 9)}"),
        lambda: Node(f"UPDATE {name} SET id{name} = id{name} + 50 ORDER BY id{name} DESC"),
        lambda: Node(f"DELETE FROM {name} WHERE id{name} IN ({', '.join(str(rng.randint(1, 99)) for _ in range(40))})"),
        lambda: Node(f"DELETE FROM {name} ORDER BY {column} IS NULL DESC, id{name} LIMIT {rng.randint(0, 3)}"),
    ])()


def self_change(s):
    """Changes of a table joined with itself, and with derived tables of it."""
    rng = s.rng
    a = s.tables[0]
    number = ([c for c, t in a.columns if "INT" in t and c not in a.not_null] or ["ida"])[0]
    if number == "ida":
        return "ab", Node("DELETE p FROM a p JOIN (SELECT MAX(ida) AS m FROM a) d ON p.ida = d.m")
    return "ab", rng.choice([
        lambda: Node(f"UPDATE a p JOIN a q ON q.ida = p.ida + 1 SET p.{number} = q.ida"),
        lambda: Node(f"UPDATE a p LEFT JOIN a q ON q.ida = p.ida + 1 SET p.{number} = IFNULL(q.ida, -1)"),
        lambda: Node(f"UPDATE a JOIN (SELECT MIN(ida) AS m FROM a) d ON ida > d.m SET {number} = d.m WHERE ida % 2"),
        lambda: Node(f"UPDATE a p, b q SET p.{number} = 1, q.idb = q.idb + 200 WHERE p.ida = q.idb AND q.idb < 4"),
        lambda: Node("DELETE p, q FROM a p JOIN a q ON q.ida = p.ida + 2 WHERE p.ida % 5 = 1"),
        lambda: Node("DELETE FROM a WHERE ida IN (SELECT m FROM (SELECT MAX(ida) AS m FROM a) d)"),
        lambda: Node("DELETE a FROM a JOIN (SELECT idb FROM b UNION SELECT 3) u ON u.idb = ida WHERE ida < 6"),
    ])()


QUERIES = [long_list, long_list, nested_sets, nested_sets, collated, collated, beside_key, beside_key, beside_key, three_tables, three_tables, dates, refused, refused]
CHANGES = [several_rows, several_rows, self_change]
