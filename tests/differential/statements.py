"""Random tables, rows and statements over them."""

import conversion_shapes
import more_shapes
import shapes
from expressions import ANY, NUMBER, TYPES, Expressions, Node, kind_of


class Table:
    def __init__(self, rng, name):
        self.name = name
        types = rng.sample(sorted(TYPES), rng.randint(3, 8))
        self.columns = [(f"{name}{at}", ty) for at, ty in enumerate(types)]
        self.rows = rng.randint(0, 12)
        self.not_null = {column for column, _ in self.columns if rng.random() < 0.15}
        # Of columns that may be NULL, the defaults that are not.
        given = {c: ty for c, ty in self.columns if c not in self.not_null and ty not in ("TEXT", "BLOB") and rng.random() < 0.3}
        self.defaults = {c: "(3 + 4)" if "INT" in ty and rng.random() < 0.3 else TYPES[ty][-1] for c, ty in given.items()}
        keys = []
        for at in range(rng.randint(0, 2)):
            parts = []
            for column, ty in rng.sample(self.columns, rng.randint(1, 2)):
                parts.append(column + ("(3)" if ty in ("TEXT", "BLOB") else ""))
            unique = "UNIQUE " if rng.random() < 0.4 else ""
            keys.append(f"{unique}KEY k{at} ({', '.join(parts)})")
        numbers = [c for c, ty in self.columns if "INT" in ty or ty.startswith(("DECIMAL", "DOUBLE"))]
        if numbers and rng.random() < 0.2:
            keys.append(f"CHECK ({rng.choice(numbers)} {rng.choice(['< 100', '<> 1', 'IS NOT NULL', 'BETWEEN -5 AND 255'])})")
        self.keys = keys

    def create(self):
        lines = [f"id{self.name} INT NOT NULL AUTO_INCREMENT PRIMARY KEY"]
        for column, ty in self.columns:
            null = " NOT NULL" if column in self.not_null else ""
            ty = ty.replace(" NULL", "") if null else ty
            default = " DEFAULT " + TYPES[ty if ty in TYPES else ty + " NULL"][0] if null and ty not in ("TEXT", "BLOB") else ""
            default = f" DEFAULT {self.defaults[column]}" if column in self.defaults else default
            lines.append(f"{column} {ty}{null}{default}")
        return f"CREATE TABLE {self.name} ({', '.join(lines + self.keys)})"

    def value(self, rng, column, ty):
        if column not in self.not_null and rng.random() < 0.12:
            return "NULL"
        return rng.choice(TYPES[ty])

    def insert(self, rng, number):
        values = ", ".join([str(number)] + [self.value(rng, column, ty) for column, ty in self.columns])
        return f"INSERT IGNORE INTO {self.name} VALUES ({values})"


class Statements:
    def __init__(self, rng, tables):
        self.rng = rng
        self.tables = tables

    def over(self, tables):
        columns = [column for table in tables for column in table.columns]
        columns += [(f"id{table.name}", "INT") for table in tables]
        return Expressions(self.rng, columns)

    def table(self):
        return self.rng.choice(self.tables)

    def scalar(self):
        """Expressions of literals alone."""
        make = Expressions(self.rng)
        return Node("SELECT {}", make.any(ANY, self.rng.choice([1, 1, 2, 3])))

    def rows(self):
        """Expressions over a table's rows, in order."""
        table = self.table()
        make = self.over([table])
        return Node(f"SELECT id{table.name}, {{}} FROM {table.name} WHERE {{}} ORDER BY 1",
                    make.any(ANY, 2), make.condition(2) if self.rng.random() < 0.7 else "1")

    def joined(self):
        rng = self.rng
        a, b = self.tables[0], self.tables[1]
        make = self.over([a, b])
        join = rng.choice(["JOIN", "LEFT JOIN", "RIGHT JOIN", "INNER JOIN"])
        if rng.random() < 0.2:
            return Node(f"SELECT ida, idb, {{}} FROM a CROSS JOIN b WHERE {{}} ORDER BY 1, 2", make.any(ANY, 1), make.condition(1))
        if rng.random() < 0.6:
            on = Node("({} = {})", rng.choice(a.columns)[0], rng.choice(b.columns)[0])
        else:
            on = make.condition(1)
        return Node(f"SELECT ida, idb, {{}} FROM a {join} b ON {{}} WHERE {{}} ORDER BY 1, 2",
                    make.any(ANY, 1), on, make.condition(1) if rng.random() < 0.5 else "1")

    def using(self):
        rng = self.rng
        join = rng.choice(["JOIN", "LEFT JOIN", "NATURAL JOIN", "RIGHT JOIN"])
        using = "" if join.startswith("NATURAL") else " USING (k)"
        (a, _), (b, _) = rng.choice(self.tables[0].columns), rng.choice(self.tables[1].columns)
        return Node(f"SELECT * FROM (SELECT ida % 4 AS k, {a} AS x FROM a) p {join} (SELECT idb % 5 AS k, {b} AS y FROM b) q{using}")

    def grouped(self):
        rng = self.rng
        table = self.table()
        make = self.over([table])
        column, ty = rng.choice(table.columns)
        aggregates = ["COUNT(*)", "COUNT({})", "COUNT(DISTINCT {})", "SUM({})", "AVG({})", "MIN({})", "MAX({})", "BIT_AND({})",
                      "BIT_OR({})", "BIT_XOR({})", "STD({})", "VAR_SAMP({})", "SUM(DISTINCT {})"]
        chosen = [Node(rng.choice(aggregates)) for _ in range(2)]
        for node in chosen:
            if "{}" in node.text:
                node.parts = [make.any(NUMBER if "BIT" in node.text else ANY, rng.choice([0, 1]))]
        if rng.random() < 0.4:
            return Node(f"SELECT {{}}, {{}} FROM {table.name} WHERE {{}}", *chosen, make.condition(1))
        if rng.random() < 0.5:
            having = rng.choice(["COUNT(*) > 1", f"SUM(id{table.name}) > 5", f"MIN(id{table.name}) < 4"])
            return Node(f"SELECT COUNT(*), SUM(id{table.name}), {{}} FROM {table.name} GROUP BY {{}} HAVING {having}",
                        chosen[0], make.any(ANY, rng.choice([0, 0, 1])))
        return Node(f"SELECT SUM(id{table.name}) s, {{}} FROM {table.name} GROUP BY {column}, {rng.choice(table.columns)[0]} ORDER BY s DESC, 2", chosen[0])

    def concatenated(self):
        table = self.table()
        # MariaDB writes a BIT as a number there.
        column = self.rng.choice([c for c, ty in table.columns if not ty.startswith("BIT")] or [f"id{table.name}"])
        return Node(f"SELECT GROUP_CONCAT({{}} ORDER BY {column} DESC, id{table.name} SEPARATOR '|') FROM {table.name}", column)

    def distinct(self):
        table = self.table()
        columns = self.rng.sample(table.columns, self.rng.randint(1, 2))
        # A binary form of text, so that it does not matter which of equals stands for all.
        shown = ", ".join(f"LOWER({c})" if kind_of(ty) == "text" and "BIN" not in ty and "BLOB" not in ty else c for c, ty in columns)
        return Node(f"SELECT DISTINCT {shown} FROM {table.name}")

    def limited(self):
        rng = self.rng
        table = self.table()
        by = ", ".join(f"{c}{rng.choice([' DESC', '', ' ASC'])}" for c, _ in rng.sample(table.columns, rng.randint(1, 2)))
        limit = rng.choice(["LIMIT 3", "LIMIT 2, 4", "LIMIT 5 OFFSET 1", "LIMIT 0", ""])
        return Node(f"SELECT * FROM {table.name} ORDER BY {by}, id{table.name} {limit}")

    def subquery(self):
        rng = self.rng
        a, b = self.tables[0], self.tables[1]
        (x, _), (y, _) = rng.choice(a.columns), rng.choice(b.columns)
        within = self.over([b]).condition(1)
        both = self.over([a, b])
        return rng.choice([
            lambda: Node(f"SELECT ida FROM a WHERE {x} {rng.choice(['', 'NOT '])}IN (SELECT {y} FROM b WHERE {{}}) ORDER BY 1", within),
            lambda: Node(f"SELECT ida FROM a WHERE {rng.choice(['', 'NOT '])}EXISTS (SELECT 1 FROM b WHERE {{}}) ORDER BY 1", both.condition(1)),
            lambda: Node(f"SELECT ida, (SELECT MAX({y}) FROM b WHERE {{}}) FROM a ORDER BY 1", both.condition(1)),
            lambda: Node(f"SELECT ida FROM a WHERE {x} {rng.choice(['>', '<=', '='])} {rng.choice(['ANY', 'ALL'])} (SELECT {y} FROM b WHERE {{}}) ORDER BY 1", within),
            lambda: Node(f"SELECT ida FROM a WHERE (ida, {rng.choice([x, 'ida'])}) {rng.choice(['', 'NOT '])}IN (SELECT idb, {rng.choice(['idb', 'NULL'])} FROM b) ORDER BY 1"),
            lambda: Node(f"SELECT * FROM (SELECT {x} AS x, COUNT(*) AS n FROM a GROUP BY {x}) d WHERE n > 1"),
            lambda: Node(f"SELECT (SELECT {y} FROM b ORDER BY idb LIMIT 1), ida FROM a ORDER BY ida"),
        ])()

    def asked(self, outer=(), over=None, numbers=False):
        """A condition that is a subquery over a table, which may name columns of queries around it. One of numbers alone
        compares nothing that a strict change would refuse."""
        rng = self.rng
        b = over or self.tables[1]
        if numbers:
            y, value = f"id{b.name}", str(rng.randint(1, 12))
            limit = rng.choice([value] + [f"id{table.name}" for table in outer])
            within = Node(f"{y} {rng.choice(['>', '<=', '='])} {limit}")
        else:
            (y, _) = rng.choice(b.columns)
            within = self.over([b, *outer]).condition(1)
            value = Expressions(rng, outer[0].columns if outer else ()).leaf(kind_of(dict(b.columns)[y]))
        return rng.choice([
            lambda: Node(f"{rng.choice(['', 'NOT '])}EXISTS (SELECT 1 FROM {b.name} WHERE {{}})", within),
            lambda: Node(f"{{}} {rng.choice(['', 'NOT '])}IN (SELECT {y} FROM {b.name} WHERE {{}})", value, within),
            lambda: Node(f"(SELECT COUNT(*) FROM {b.name} WHERE {{}}) {rng.choice(['> 0', '= 0', '< 3'])}", within),
            lambda: Node(f"{rng.randint(1, 9)} > {rng.choice(['ANY', 'ALL'])} (SELECT id{b.name} FROM {b.name} WHERE {{}})", within),
            lambda: Node(f"({rng.randint(1, 12)}, 1) IN (SELECT id{b.name}, 1 FROM {b.name} WHERE {{}})", within),
        ])()

    def no_table(self):
        """A SELECT without a table whose WHERE clause asks one, alone and within others."""
        rng = self.rng
        a = self.tables[0]
        dual = rng.choice([" FROM DUAL", "", " FROM dual"])
        alone = Node(f"SELECT {rng.choice(['7', 'COUNT(*), MAX(4)', 'DISTINCT 3'])}{dual} WHERE {{}}", self.asked())
        inner = Node(f"SELECT 1{dual} WHERE {{}} AND {{}}", self.asked([a]), self.over([a]).condition(1))
        return rng.choice([
            lambda: alone,
            lambda: Node("{}" + rng.choice([" HAVING 1", " ORDER BY 1", " LIMIT 1", " FOR UPDATE"]), alone),
            lambda: Node(f"SELECT 1{dual} WHERE {{}} UNION ALL SELECT 2{dual} WHERE {{}}", self.asked(), self.asked()),
            lambda: Node(f"SELECT COUNT(*) FROM (SELECT 1{dual} WHERE {{}}) d", self.asked()),
            lambda: Node(f"WITH c AS (SELECT 5 AS x{dual} WHERE {{}}) SELECT 6 WHERE EXISTS (SELECT * FROM c)", self.asked()),
            lambda: Node("SELECT ida FROM a WHERE EXISTS ({}) ORDER BY 1", inner),
            lambda: Node("SELECT ida, ({}) FROM a ORDER BY 1", inner),
            lambda: Node("SELECT ida FROM a WHERE 1 = ANY ({}) ORDER BY 1", inner),
        ])()

    def outer_aggregate(self):
        """Aggregates in subqueries over `b` whose arguments name columns of `a`, or of both."""
        rng = self.rng
        # What a group gives must not depend on which of its rows is first.
        exact = lambda table: [c for c, ty in table.columns if "INT" in ty or ty.startswith("DECIMAL")] or [f"id{table.name}"]
        x, y = rng.choice(exact(self.tables[0])), rng.choice(exact(self.tables[1]))
        arg = rng.choice([x, "ida", f"a.{x}", f"ida % 3"])
        outer = rng.choice(["MAX({})", "MIN({})", "SUM({})", "COUNT({})", "COUNT(DISTINCT {})", "SUM(DISTINCT {})"]).format(arg)
        inner = rng.choice(["MAX({})", "COUNT({})", "SUM({})"]).format(rng.choice([y, "idb", f"{y} + 0 * {arg}"]))
        group = rng.choice(["", f" GROUP BY {x}", " GROUP BY ida % 4"])
        query = rng.choice([
            f"SELECT (SELECT {outer}) FROM a{group}",
            f"SELECT (SELECT {outer} FROM b WHERE idb = 1) FROM a{group}",
            f"SELECT (SELECT {outer} + {inner} FROM b) FROM a{group}",
            f"SELECT (SELECT (SELECT {outer} FROM b LIMIT 1) FROM b b2 LIMIT 1) FROM a{group}",
            f"SELECT (SELECT MAX((SELECT {outer})) FROM b) FROM a{group}",
            f"SELECT COUNT(*), (SELECT COUNT(*) FROM b WHERE idb < {outer}) FROM a{group}",
            f"SELECT COUNT(*) FROM a{group} HAVING EXISTS (SELECT 1 FROM b WHERE idb >= {outer})",
            # MariaDB finds nothing by IN here.
            f"SELECT COUNT(*) FROM a{group} HAVING (SELECT {outer} FROM b LIMIT 1) < {rng.randint(0, 9)}",
            f"SELECT COUNT(*) FROM a{group} HAVING EXISTS (SELECT {inner} FROM b HAVING {outer} > {inner})",
            f"SELECT MIN(ida) m, COUNT(*) FROM a{group} ORDER BY (SELECT {outer}), m",
            f"SELECT MIN(ida), (SELECT {outer} UNION SELECT {outer}) FROM a{group}",
            f"SELECT ida FROM a WHERE EXISTS (SELECT 1 FROM b WHERE {outer} > 1)",
            f"SELECT ida FROM a WHERE ida = (SELECT {outer}) ORDER BY 1",
            f"SELECT (SELECT {outer} + ida) FROM a{group}",
            f"SELECT (SELECT {inner} FROM b WHERE idb > ida) FROM a{group}",
            f"SELECT (SELECT COUNT(*) FROM b WHERE COUNT(*) > 2) FROM a{group}",
        ])
        return Node(query.replace("{", "{{").replace("}", "}}"))

    def union(self):
        rng = self.rng
        plain = [[c for c in table.columns if not c[1].startswith(("BIT", "FLOAT"))] or [(f"id{table.name}", "INT")] for table in self.tables]
        (x, _), (y, _) = rng.choice(plain[0]), rng.choice(plain[1])
        op = rng.choice(["UNION", "UNION ALL", "UNION", "INTERSECT", "EXCEPT"])
        wrap = rng.random() < 0.3
        tail = rng.choice([" ORDER BY 1 LIMIT 3", "", ""]) if op == "UNION ALL" and not wrap else ""
        if wrap:
            return Node(f"SELECT COUNT(*) FROM (SELECT {x} FROM a {op} SELECT {y} FROM b) u")
        return Node(f"SELECT HEX({x}) FROM a {op} SELECT {{}} FROM b{tail}", self.over([self.tables[1]]).any(ANY, 1)) if rng.random() < 0.4 else Node(
            f"SELECT {x} FROM a {op} SELECT {y} FROM b{tail}")

    def query(self):
        chosen = self.rng.random()
        if chosen < 0.6:
            of = shapes if chosen < 0.25 else more_shapes if chosen < 0.45 else conversion_shapes
            return self.rng.choice(of.QUERIES)(self)
        return self.rng.choice([self.scalar] * 6 + [self.rows] * 5 + [self.joined] * 2 + [self.using, self.grouped, self.grouped,
                               self.concatenated, self.distinct, self.limited, self.subquery, self.subquery, self.union,
                               self.no_table, self.no_table, self.outer_aggregate, self.outer_aggregate])()

    def change(self):
        """A statement that changes a table; what it left is compared after it."""
        rng = self.rng
        if rng.random() < 0.5:
            return rng.choice(shapes.CHANGES + more_shapes.CHANGES + conversion_shapes.CHANGES)(self)
        table = self.table()
        name, columns = table.name, table.columns
        make = self.over([table])
        chosen = rng.sample(columns, rng.randint(1, len(columns)))
        names = ", ".join(c for c, _ in chosen)
        values = ", ".join(table.value(rng, c, ty) if rng.random() < 0.6 else str(Expressions(rng).any(kind_of(ty), 1)) for c, ty in chosen)
        column, ty = rng.choice(columns)
        ignore = rng.choice(["", "", " IGNORE"])
        wild = lambda depth: make.any(kind_of(ty) if rng.random() < 0.7 else ANY, depth)
        other = self.table()
        copies = ", ".join(self.over([other]).leaf(kind_of(t)).text for _, t in chosen)
        keyed = f"id{name}, {names}"
        number = rng.randint(1, 14)
        absent = rng.choice([
            Node(f"NOT EXISTS (SELECT * FROM {name} WHERE id{name} = {number})"),
            Node(f"{number} NOT IN (SELECT id{name} FROM {name})"),
            self.asked(numbers=True),
        ])
        source = f"SELECT {number}, {{}}{rng.choice([' FROM DUAL', ''])} WHERE {{}}"
        # What the types hold, as a literal of bytes is no number in a SELECT; and a value for each column that has no default.
        given = [(c, ty) for c, ty in columns if (c, ty) in chosen or (c in table.not_null and ty in ("TEXT", "BLOB"))]
        absent_names = ", ".join([f"id{name}"] + [c for c, _ in given])
        plain = ", ".join(table.value(rng, c, ty) for c, ty in given)
        # MariaDB refuses a DELETE whose subqueries read its table.
        nested = Node("SELECT 1 FROM DUAL WHERE {}", self.asked([table], next(t for t in self.tables if t is not table), numbers=True))
        return name, rng.choice([
            lambda: Node(f"INSERT{ignore} INTO {name} ({names}) VALUES ({{}})", values),
            lambda: Node(f"INSERT{ignore} INTO {name} ({keyed}) VALUES ({rng.randint(1, 14)}, {{}})", values),
            lambda: Node(f"INSERT{ignore} INTO {name} SET {column} = {{}}", Expressions(rng).any(kind_of(ty), 1)),
            lambda: Node(f"INSERT{ignore} INTO {name} ({names}) SELECT {copies} FROM {other.name} ORDER BY id{other.name} LIMIT 3"),
            lambda: Node(f"REPLACE INTO {name} ({keyed}) VALUES ({rng.randint(1, 14)}, {{}})", values),
            lambda: Node(f"INSERT INTO {name} ({keyed}) VALUES ({rng.randint(1, 14)}, {{}}) ON DUPLICATE KEY UPDATE {column} = {{}}",
                         values, rng.choice([lambda: Node(f"VALUES({column})"), lambda: wild(1)])()),
            lambda: Node(f"INSERT{ignore} INTO {name} ({absent_names}) {source}", plain, absent),
            lambda: Node(f"INSERT{ignore} INTO {name} ({absent_names}) {source}", plain, absent),
            lambda: Node(f"REPLACE INTO {name} ({absent_names}) {source}", plain, absent),
            lambda: Node(f"INSERT INTO {name} ({absent_names}) {source} ON DUPLICATE KEY UPDATE {column} = VALUES({column})", plain, absent),
            lambda: Node(f"DELETE FROM {name} WHERE EXISTS ({{}}) AND id{name} % 3 = 0", nested),
            lambda: Node(f"UPDATE {name} SET {column} = {{}} WHERE EXISTS ({{}})", wild(0), nested),
            lambda: Node(f"UPDATE{ignore} {name} SET {column} = {{}} WHERE {{}}", wild(1), make.condition(1)),
            lambda: Node(f"UPDATE {name} SET {column} = {{}}, {columns[0][0]} = {column} ORDER BY id{name} DESC LIMIT 2", wild(1)),
            lambda: Node(f"UPDATE {name} SET {column} = {{}} ORDER BY {columns[-1][0]}, id{name} LIMIT 3", wild(0)),
            lambda: Node(f"DELETE FROM {name} WHERE {{}} ORDER BY id{name} LIMIT 1", make.condition(1)),
            lambda: Node(f"DELETE FROM {name} WHERE {{}} AND id{name} % 3 = 0", make.condition(1)),
        ])()
