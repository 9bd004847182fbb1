"""Shapes of conversions: DEFAULT() of columns, dates and times that become numbers, parts of times,
set operations of unlike columns, members and literals of bytes where numbers are wanted. Each is
made from a `Statements`."""

from expressions import NUMBER, TIME, Node, kind_of

UNITS = ["HOUR", "MINUTE", "SECOND", "MICROSECOND", "HOUR_MINUTE", "HOUR_SECOND", "HOUR_MICROSECOND", "MINUTE_SECOND", "MINUTE_MICROSECOND", "SECOND_MICROSECOND",
         "DAY_HOUR", "DAY_MINUTE", "DAY_SECOND", "DAY_MICROSECOND"]
# Spans of less than a day: MariaDB takes the days out of a longer one, MySQL does not.
SPANS = ["TIME'-01:00:00.5'", "TIME'23:59:59.999999'", "TIME'00:00:00.000001'", "TIME'-00:00:59.5'", "TIME'12:59:59.5'", "'-01:02:03.25'", "'10:11:12'", "'00:59:59.5'",
         "TIME'-23:59:59.5'", "ADDTIME(TIME'-01:00:00.5', '00:30:00.25')", "TIMEDIFF('01:00:00', '02:30:00.5')", "SEC_TO_TIME(-59.5)", "MAKETIME(-1, 2, 3.5)"]
MOMENTS = ["TIMESTAMP'2023-12-31 23:59:59.5'", "TIMESTAMP'2024-02-28 23:59:59.499999'", "TIMESTAMP'2024-02-29 00:00:59.999999'", "DATE'2024-02-29'",
           "TIMESTAMP'2024-12-31 23:59:59'", "TIMESTAMP'1999-12-31 23:59:59.500000'"]
# An integer that is made of half a second or more is rounded in MySQL 8, and cut off in MariaDB.
EVEN = ["TIMESTAMP'2024-02-28 23:59:59.499999'", "TIMESTAMP'2024-12-31 23:59:59'", "DATE'2024-02-29'", "TIME'-01:02:03.25'", "TIME'23:59:59.499999'", "TIME'12:34:56'", "MAKETIME(-1, 2, 3.25)"]
WHOLE = ["CAST({} AS SIGNED)", "({} | 0)", "BIT_COUNT({})", "LEFT('abcdef', {} & 7)", "({} << 0)", "ELT({} & 3, 'a', 'b', 'c')"]
EXACT = ["{} + 0", "{} * 1", "{} DIV 1", "CAST({} AS DECIMAL(20,0))", "CAST({} AS DECIMAL(20,2))", "CAST({} AS DOUBLE)", "{} - 0.5", "CONCAT({} + 0)"]
PARTS = ["HOUR({})", "MINUTE({})", "SECOND({})", "MICROSECOND({})", "TIME_FORMAT({}, '%H|%k|%i|%s|%f')", "TIME({})", "CAST({} AS TIME(1))", "CAST({} AS TIME)", "ADDTIME({}, '00:00:00.5')",
         "SUBTIME({}, '01:00:00.25')", "TIMEDIFF({}, TIME'00:30:00')"]
# A literal with x and quotes is a text in MariaDB, a number in MySQL 8.
BYTES = ["0x3132", "0x61", "0b1", "b'11'", "0b1100001", "0x02", "0x7879", "b'1000001'"]


def columns_of(s, table):
    return table.columns + [(f"id{table.name}", "INT")]


def whole_times(s):
    """Times as numbers, as constants and as columns."""
    rng = s.rng
    table = s.table()
    even = rng.random() < 0.5
    times = [c for c, ty in table.columns if ty.startswith(("TIME", "DATETIME")) and not (even and "(" in ty)]
    value = rng.choice((EVEN if even else MOMENTS + [span for span in SPANS if span.startswith(("TIME'", "MAKE"))]) + times)
    numbers = ["20240101000000", "20231231235959.5", "19990101000000"] if value.startswith(("TIMESTAMP", "DATE")) else ["235959.5", "-5959.5", "130000", "0"]
    test = f"{value} {rng.choice(['=', '<', '>', '<=', '<>'])} {rng.choice(numbers)}"
    made = rng.choice(WHOLE if even else EXACT).format(value)
    return rng.choice([
        lambda: Node(f"SELECT {made}"),
        lambda: Node(f"SELECT id{table.name}, {made} FROM {table.name} ORDER BY 1"),
        lambda: Node(f"SELECT id{table.name}, {test} FROM {table.name} ORDER BY 1"),
        lambda: Node(f"SELECT SUM({value}), AVG({value}), MIN({value}), MAX({made}) FROM {table.name}"),
    ])()


def time_parts(s):
    """Parts of times of day, and what functions make of them."""
    rng = s.rng
    at = rng.choice(SPANS)
    part = lambda: rng.choice([f"EXTRACT({rng.choice(UNITS)} FROM {{}})", f"EXTRACT({rng.choice(UNITS)} FROM {{}})", rng.choice(PARTS)]).format(at)
    moment = rng.choice(MOMENTS + ["'2024-02-29 10:11:12.5'"])
    return rng.choice([
        lambda: Node(f"SELECT {part()}"),
        lambda: Node(f"SELECT {part()}, {part()}"),
        lambda: Node(f"SELECT EXTRACT({rng.choice(UNITS + ['DAY', 'YEAR_MONTH'])} FROM {moment})"),
        lambda: Node(f"SELECT TIMESTAMPDIFF({rng.choice(['MICROSECOND', 'SECOND', 'MINUTE', 'DAY', 'MONTH', 'YEAR'])}, {rng.choice(MOMENTS)}, {moment})"),
        lambda: Node(f"SELECT {moment} {rng.choice(['+', '-'])} INTERVAL {rng.choice(['1.5', '-0.5', chr(39) + '-1.25' + chr(39), '1'])} SECOND"),
    ])()


def unlike_union(s):
    """Set operations of columns of unlike types, as they are and in derived tables."""
    rng = s.rng
    a, b = s.tables
    # MariaDB writes a FLOAT beside a text with the digits of a double, a BIT as text, and a YEAR as
    # a byte.
    own = lambda table: rng.choice([c for c, ty in columns_of(s, table) if not ty.startswith(("FLOAT", "BIT", "YEAR"))])
    constant = lambda: rng.choice(["10", "1.5", "'a'", "'65'", "NULL", "1e300", "1234567890.12345678e0", "0x41"])
    sides = [f"{own(a)} AS c FROM a", f"{own(b)} FROM b"] if rng.random() < 0.6 else [f"{own(a)} AS c FROM a", constant()]
    op = rng.choice(["UNION", "UNION ALL"])
    return rng.choice([
        lambda: Node(f"SELECT {sides[0]} {op} SELECT {sides[1]}"),
        lambda: Node(f"SELECT HEX(c) FROM (SELECT {sides[0]} {op} SELECT {sides[1]}) u"),
        lambda: Node(f"SELECT c FROM (SELECT {sides[0]} {op} SELECT {sides[1]}) u WHERE c IS NOT NULL"),
        lambda: Node(f"SELECT {constant()} AS c {op} SELECT {constant()}"),
        lambda: Node(f"SELECT ida, IF(ida % 2, {own(a)}, {own(a)}), COALESCE({own(a)}, {own(a)}) FROM a ORDER BY 1"),
    ])()


def members(s):
    """Members of an ENUM and a SET by a subquery, and literals of bytes, beside columns."""
    rng = s.rng
    table = s.table()
    name = table.name
    sets = [c for c, ty in table.columns if ty.startswith(("ENUM", "SET"))]
    column = rng.choice([c for c, ty in columns_of(s, table) if not ty.startswith("BIT")])
    item = rng.choice(BYTES)
    inner = f"(SELECT {rng.choice(sets or [column])} FROM {name} ORDER BY id{name} LIMIT 1)"
    return rng.choice([
        lambda: Node(f"SELECT {inner}"),
        lambda: Node(f"SELECT id{name}, {column} {rng.choice(['=', '<', '<=>'])} {item} FROM {name} ORDER BY 1"),
        lambda: Node(f"SELECT id{name}, {column} IN ({item}, {rng.choice(BYTES)}) FROM {name} ORDER BY 1"),
        lambda: Node(f"SELECT {item}, {item} + 0, HEX({item}), LENGTH({item}), {item} = {rng.choice(BYTES)}, CONCAT({item}, 1)"),
        lambda: Node(f"SELECT id{name}, {rng.choice(sets or [column])} + 0 FROM {name} GROUP BY 1, 2 ORDER BY 1"),
    ])()


def defaults(s):
    """DEFAULT() of columns in queries."""
    rng = s.rng
    a, b = s.tables
    table = s.table()
    x, y = (rng.choice([c for c, ty in columns_of(s, table) if not ty.startswith(("BIT", "YEAR"))]) for _ in range(2))
    z = rng.choice(columns_of(s, b))[0]
    return rng.choice([
        lambda: Node(f"SELECT id{table.name}, DEFAULT({x}), DEFAULT({table.name}.{y}) FROM {table.name} ORDER BY 1"),
        lambda: Node(f"SELECT id{table.name} FROM {table.name} WHERE {x} <=> DEFAULT({x}) OR DEFAULT({y}) IS NULL ORDER BY 1"),
        lambda: Node(f"SELECT COUNT(*), MAX(DEFAULT({x})) FROM {table.name}"),
        lambda: Node(f"SELECT ida, DEFAULT(b.{z}) FROM a JOIN b ON ida = idb ORDER BY 1"),
        lambda: Node(f"SELECT ida, (SELECT COUNT(*) FROM b WHERE {z} <=> DEFAULT(b.{z})) FROM a ORDER BY 1"),
        lambda: Node(f"SELECT HEX(DEFAULT({x})), CONCAT(DEFAULT({y}), '') FROM {table.name}"),
    ])()


def default_change(s):
    """DEFAULT() of columns in changes: of the column itself, or of one of the same type in the other table."""
    rng = s.rng
    a, b = s.tables
    table = s.table()
    name = table.name
    column, ty = rng.choice(table.columns)
    alike = [c for c, t in table.columns if kind_of(t) == kind_of(ty)]
    other = rng.choice(alike)
    number = rng.randint(1, 14)
    value = rng.choice([f"DEFAULT({column})", f"DEFAULT({name}.{column})", f"DEFAULT({other})", f"COALESCE(DEFAULT({column}), {table.value(rng, column, ty)})"])
    (x, tx) = rng.choice(a.columns)
    theirs = [c for c, t in b.columns if t == tx] or ["idb"]
    if rng.random() < 0.25:
        return "ab", rng.choice([
            lambda: Node(f"UPDATE a JOIN b ON ida = idb SET a.{x} = DEFAULT(a.{x}) WHERE ida % 2"),
            lambda: Node(f"INSERT INTO a (ida, {x}) SELECT idb, {theirs[0]} FROM b WHERE idb < 5 ON DUPLICATE KEY UPDATE a.{x} = DEFAULT({rng.choice(['b.' + theirs[0], 'a.' + x])})"),
        ])()
    return name, rng.choice([
        lambda: Node(f"INSERT INTO {name} (id{name}, {column}) VALUES ({number}, {value})"),
        lambda: Node(f"INSERT IGNORE INTO {name} (id{name}, {column}) VALUES ({number}, {value})"),
        lambda: Node(f"INSERT INTO {name} SET id{name} = {number}, {column} = {value}"),
        lambda: Node(f"REPLACE INTO {name} (id{name}, {column}) VALUES ({number}, {value}), ({number + 1}, DEFAULT)"),
        lambda: Node(f"INSERT INTO {name} (id{name}, {column}) VALUES ({number}, DEFAULT) ON DUPLICATE KEY UPDATE {column} = {value}"),
        lambda: Node(f"UPDATE {name} SET {column} = {value} WHERE id{name} < {number}"),
        lambda: Node(f"DELETE FROM {name} WHERE {column} <=> DEFAULT({column}) AND id{name} % 3 = 1"),
        lambda: Node(f"INSERT INTO {name} (id{name}, {column}) VALUES ({number}, {column}), ({number + 1}, {other})"),
        lambda: Node(f"INSERT INTO {name} SET id{name} = {number}, {column} = {table.value(rng, column, ty)}" + (f", {other} = {column}" if other != column else "")),
    ])()


def converted_change(s):
    """Times, members and literals of bytes into columns of other types."""
    rng = s.rng
    table = s.table()
    name = table.name
    numbers = [c for c, ty in columns_of(s, table) if kind_of(ty) == NUMBER and not ty.startswith("YEAR")]
    column = rng.choice(numbers)
    any_column = rng.choice(table.columns)[0]
    time = rng.choice([c for c, ty in table.columns if kind_of(ty) == TIME and "(" not in ty] or ["TIME'00:00:59.25'"])
    sets = [c for c, ty in table.columns if ty.startswith(("ENUM", "SET"))] or ["'1'"]
    number = rng.randint(1, 14)
    item = rng.choice(BYTES)
    return name, rng.choice([
        lambda: Node(f"INSERT INTO {name} (id{name}, {column}) VALUES ({number}, {rng.choice(EVEN)})" if column[:2] != "id" else f"INSERT INTO {name} (id{name}) VALUES (TIME'00:00:59.25')"),
        lambda: Node(f"UPDATE IGNORE {name} SET {column} = {rng.choice(EVEN)} WHERE id{name} = {number}"),
        lambda: Node(f"UPDATE {name} SET {column} = {time} WHERE id{name} = {number}"),
        lambda: Node(f"INSERT INTO {name} ({any_column}) VALUES ({item})"),
        lambda: Node(f"INSERT INTO {name} ({any_column}) SELECT {item}"),
        lambda: Node(f"INSERT IGNORE INTO {name} ({any_column}) SELECT {item} FROM {name} WHERE id{name} < 3"),
        lambda: Node(f"INSERT INTO {name} ({any_column}) SELECT {item} UNION ALL SELECT {rng.choice(BYTES)}"),
        lambda: Node(f"UPDATE {name} SET {any_column} = {item} WHERE id{name} = {number}"),
        lambda: Node(f"INSERT INTO {name} ({column}) SELECT {sets[0]} FROM {name} WHERE id{name} = {number}" if column[:2] != "id" else f"DELETE FROM {name} WHERE id{name} = 0"),
    ])()


QUERIES = [whole_times, whole_times, time_parts, time_parts, unlike_union, unlike_union, members, defaults, defaults]
CHANGES = [default_change, default_change, converted_change, converted_change]
