"""Sends the same random statements to Spillway and to MariaDB and compares all that a client sees.

Rows (as sets, where there is no order), the names and kinds of columns, affected rows, insert ids, warnings of changes, and error
numbers. A statement that Spillway refuses with 1235 is counted, and is no difference. Each difference is made smaller while it
lasts and is shown once for each shape. `known.py` has the differences that are MariaDB's from MySQL 8.
"""

import collections
import os
import random
import re
import sys

import pymysql
from pymysql.constants import FIELD_TYPE as T

from expressions import Node, copy
from known import known
from statements import Statements, Table

MODE = "ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION"

KINDS = {}
for name, types in {
    "integer": [T.TINY, T.SHORT, T.INT24, T.LONG, T.LONGLONG], "decimal": [T.DECIMAL, T.NEWDECIMAL], "double": [T.FLOAT, T.DOUBLE],
    "text": [T.VARCHAR, T.VAR_STRING, T.STRING, T.BLOB, T.TINY_BLOB, T.MEDIUM_BLOB, T.LONG_BLOB, T.ENUM, T.SET],
    "date": [T.DATE, T.NEWDATE], "time": [T.TIME], "datetime": [T.DATETIME, T.TIMESTAMP], "year": [T.YEAR], "bit": [T.BIT], "null": [T.NULL],
    "json": [T.JSON],
}.items():
    KINDS.update((ty, name) for ty in types)

# Errors of a value that does not fit.
VALUES = {1048, 1264, 1265, 1292, 1364, 1365, 1366, 1406, 1411, 1441, 1525, 1690, 3020, 1916, 1958}

# MariaDB's number for an error of MySQL's.
SAME = {4025: 3819}

Answer = collections.namedtuple("Answer", "error names kinds rows affected insert_id warnings")


class Server:
    def __init__(self, socket, mode=""):
        self.socket, self.mode = socket, mode
        self.connect()

    def connect(self):
        mode = self.mode
        self.connection = pymysql.connect(unix_socket=self.socket, user="root", charset="utf8mb4", autocommit=True, conv={})
        self.cursor = self.connection.cursor()
        for setting in (f"sql_mode = '{MODE}{mode}'", "time_zone = '+00:00'", "NAMES utf8mb4 COLLATE utf8mb4_general_ci"):
            self.cursor.execute(f"SET {setting}")
        try:
            self.connection.select_db("differential")
        except pymysql.MySQLError:
            pass

    def run(self, sql):
        """What a statement answers, or the last of several with ` ;; ` between them."""
        *before, sql = sql.split(" ;; ")
        for first in before:
            answer = self.run(first)
            if answer.error:
                return answer
        try:
            self.cursor.execute(sql)
        except pymysql.MySQLError as error:
            if not error.args or error.args[0] in (0, 2006, 2013):
                # The server has dropped the connection; that is a difference too.
                self.connect()
                return Answer(2013, (), (), (), 0, 0, 0)
            return Answer(error.args[0], (), (), (), 0, 0, 0)
        result = self.cursor._result
        fields = getattr(result, "fields", None) or []
        kinds = []
        for field in fields:
            kind = KINDS.get(field.type_code, str(field.type_code))
            kinds.append("bytes" if kind == "text" and field.charsetnr == 63 else kind)
        rows = [tuple(plain(value, kind) for value, kind in zip(row, kinds)) for row in self.cursor.fetchall() or ()] if fields else []
        return Answer(None, tuple(field.name for field in fields), tuple(kinds), tuple(rows), result.affected_rows,
                      self.cursor.lastrowid if not fields else 0, result.warning_count)


STRING = re.compile(r"'(?:[^'\\]|\\.|'')*'")


def plain(value, kind):
    if value is None:
        return None
    if isinstance(value, bytes):
        value = value.decode("utf8", "backslashreplace")
    if kind == "double":
        # The last digits of functions differ between math libraries, and so do signs of zero.
        return f"{float(value) + 0.0:.13g}"
    return value


def difference(sql, ours, theirs, ordered):
    """What differs first; `None` when nothing does."""
    if ours.error == 1235:
        return None
    if ours.error in VALUES and theirs.error in VALUES:
        # Which of several wrong values is met first is nobody's promise.
        return None
    if ours.error != SAME.get(theirs.error, theirs.error):
        return f"error {ours.error} instead of {theirs.error}"
    if ours.error:
        return None
    if len(ours.kinds) != len(theirs.kinds) or any(
        a != b and any(row[at] is not None for row in theirs.rows) for at, (a, b) in enumerate(zip(ours.kinds, theirs.kinds))
    ):
        return f"kinds {ours.kinds} instead of {theirs.kinds}"
    if ordered:
        same = ours.rows == theirs.rows
    else:
        same = collections.Counter(ours.rows) == collections.Counter(theirs.rows)
    if not same:
        return "rows"
    # An ALTER TABLE tells of rows that were copied, which is each server's own affair.
    if not ours.names and ours.affected != theirs.affected and not sql.startswith("ALTER"):
        return f"affected {ours.affected} instead of {theirs.affected}"
    if not ours.names and ours.insert_id != theirs.insert_id:
        return f"insert id {ours.insert_id} instead of {theirs.insert_id}"
    # How often a row of a table is asked, and so warned of, is nobody's promise.
    if sql.startswith(("INSERT", "REPLACE")) and " SELECT " not in sql and bool(ours.warnings) != bool(theirs.warnings):
        return f"warnings {ours.warnings} instead of {theirs.warnings}"
    return None


def is_ordered(sql):
    """Whether a statement has an ORDER BY outside of all parentheses."""
    sql = STRING.sub("S", sql)
    while (inner := re.sub(r"\([^()]*\)", "P", sql)) != sql:
        sql = inner
    return " ORDER BY " in sql.split(" ;; ")[-1]


def kind_of(what):
    return what.split(" ")[0] if what else None


def shape(sql):
    sql = STRING.sub("S", sql)
    sql = re.sub(r"\b[ab]\d+\b", "C", sql)
    return re.sub(r"-?\b\d+(\.\d+)?(e-?\d+)?\b", "N", sql)


class Run:
    def __init__(self, ours, theirs, seed):
        self.ours, self.theirs = Server(ours), Server(theirs, ",TIME_ROUND_FRACTIONAL")
        self.seed = seed
        self.count = 0
        self.refused = collections.Counter()
        self.found = {}
        self.passed_over = collections.Counter()

    def ask(self, sql):
        ours, theirs = self.ours.run(sql), self.theirs.run(sql)
        return difference(sql.split(" ;; ")[-1], ours, theirs, is_ordered(sql)), ours, theirs

    def smaller(self, tree, what):
        """The smallest tree found that differs in the same way."""
        best = copy(tree)
        tries = 0
        while tries < 150:
            for parent, at in sorted(best.places(), key=lambda place: -place[0].parts[place[1]].size()):
                part = parent.parts[at]
                candidates = list(part.parts)
                if part.parts:
                    candidates += [Node("NULL"), Node("1"), Node("'a'")]
                for candidate in candidates:
                    parent.parts[at] = candidate
                    tries += 1
                    if kind_of(self.ask(str(best))[0]) == what:
                        break
                    parent.parts[at] = part
                else:
                    continue
                break
            else:
                return best
        return best

    def known(self, sql, what, ours, theirs):
        types = dict(column for table in self.tables for column in table.columns)
        return known(sql, what, ours, theirs, {"ida": "INT", "idb": "INT", **types})

    def report(self, sql, what, ours, theirs, extra=""):
        reason = self.known(sql, what, ours, theirs)
        if reason:
            self.passed_over[reason] += 1
            return
        key = shape(sql) + kind_of(what)
        if key not in self.found:
            show = lambda a: f"ERROR {a.error}" if a.error else f"{list(zip(a.names, a.kinds))} {list(a.rows)[:12]} affected {a.affected} warnings {a.warnings}"
            self.found[key] = f"seed {self.seed}: {what}\n  {sql}\n  ours   {show(ours)}\n  theirs {show(theirs)}{extra}"

    def query(self, tree):
        self.count += 1
        what, ours, theirs = self.ask(str(tree))
        if ours.error == 1235:
            self.refused[str(tree)] += 1
        if what is None:
            return
        reason = self.known(str(tree), what, ours, theirs)
        if reason:
            self.passed_over[reason] += 1
            return
        tree = self.smaller(tree, kind_of(what))
        sql = str(tree)
        what, ours, theirs = self.ask(sql)
        self.report(sql, what or "nothing", ours, theirs, self.columns(sql))

    def columns(self, sql):
        """What the columns that a statement names are."""
        out = []
        for name in sorted(set(re.findall(r"\b[ab]\d+\b", sql))):
            table = next((t for t in self.tables if t.name == name[0]), None)
            ty = dict(table.columns).get(name) if table else None
            rows = self.theirs.run(f"SELECT id{name[0]}, {name} FROM {name[0]} ORDER BY 1").rows[:12]
            out.append(f"\n  {name} {ty}: {rows}")
        return "".join(out)

    def change(self, names, tree):
        """Changes the tables of these names, which have one letter each."""
        self.count += 1
        sql = str(tree)
        what, ours, theirs = self.ask(sql)
        if ours.error == 1235:
            self.refused[sql] += 1
        extra = ""
        for name in names:
            left, our_rows, their_rows = self.ask(f"SELECT * FROM {name} ORDER BY 1")
            if left:
                gone = [row for row in our_rows.rows if row not in their_rows.rows][:3]
                come = [row for row in their_rows.rows if row not in our_rows.rows][:3]
                extra += f"\n  left   {gone}\n  wanted {come}\n  {[t.create() for t in self.tables if t.name == name]}"
                what = what or "left rows"
        year = any("YEAR" in t.create() for t in self.tables if t.name in names) and theirs.error == 1292
        if what and not year:
            # MySQL takes the year of a date that goes into a YEAR, MariaDB does not.
            self.report(sql, what, ours, theirs, extra)
        # Statements that fail, or leave rows out or change them instead, use up numbers of AUTO_INCREMENT as each server likes.
        if extra or ours.error or theirs.error or sql.startswith("ALTER") or " IGNORE " in sql or " ON DUPLICATE " in sql:
            for name in names:
                self.again(name)

    def both(self, sql):
        what, ours, theirs = self.ask(sql)
        if what:
            self.report(sql, what, ours, theirs)
        return what is None

    def again(self, name):
        """Makes a table's rows equal again: those that both take."""
        table = next(t for t in self.tables if t.name == name)
        self.both(f"DROP TABLE IF EXISTS {name}")
        self.both(table.create())
        for number in range(1, table.rows + 1):
            if not self.both(table.insert(self.rng, number)):
                for server in (self.ours, self.theirs):
                    server.run(f"DELETE FROM {name} WHERE id{name} = {number}")

    def round(self, seed, statements):
        self.seed = seed
        self.rng = random.Random(seed)
        self.tables = [Table(self.rng, "a"), Table(self.rng, "b")]
        for table in self.tables:
            self.again(table.name)
        make = Statements(self.rng, self.tables)
        for _ in range(statements):
            if self.rng.random() < 0.25:
                self.change(*make.change())
            else:
                self.query(make.query())


def main():
    seed, statements = int(os.environ.get("SEED", "1")), int(os.environ.get("STATEMENTS", "2000"))
    run = Run(os.environ["SPILLWAY_SOCKET"], os.environ["MARIADB_SOCKET"], seed)
    for server in (run.ours, run.theirs):
        server.run("DROP DATABASE IF EXISTS differential")
        server.run("CREATE DATABASE differential DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci")
        server.connection.select_db("differential")
    each = 100
    for at in range(0, statements, each):
        run.round(seed + at // each, min(each, statements - at))
    for what in run.found.values():
        print(what)
    if run.passed_over:
        print("known differences of MariaDB from MySQL 8:", dict(run.passed_over), file=sys.stderr)
    if run.refused:
        print(f"refused with 1235: {sum(run.refused.values())}, for example: {list(run.refused)[:3]}", file=sys.stderr)
    print(f"differential: {run.count} statements from seed {seed}, {len(run.found)} differences", file=sys.stderr)
    return 1 if run.found else 0


if __name__ == "__main__":
    sys.exit(main())
