"""Runs the schedules of crates/sql/tests/sql/schedules on Spillway and on MariaDB's InnoDB, and compares what each client is told.

`crates/sql/tests/sql/schedules.rs` says how they are written. Usage: isolation.py [--rewrite] [--only PART_OF_A_NAME] FILE...
`--rewrite` writes what both servers tell into the files.
"""

import os
import sys
import threading
import time

import pymysql

SETUP = [
    "DROP DATABASE IF EXISTS schedules", "CREATE DATABASE schedules", "USE schedules",
    "CREATE TABLE t (id INT PRIMARY KEY, v INT, n INT)",
    "CREATE TABLE i (id INT PRIMARY KEY, v INT, n INT, KEY by_v (v))",
    "CREATE TABLE u (id INT PRIMARY KEY, v INT, n INT, UNIQUE KEY by_v (v))",
] + [f"INSERT INTO {table} VALUES (1, 21, 0), (5, 25, 0), (9, 29, 0)" for table in "tiu"]

LEVELS = {
    "rc": ["SET transaction_isolation = 'READ-COMMITTED'"],
    "on": ["SET transaction_isolation = 'REPEATABLE-READ'", "SET innodb_snapshot_isolation = ON"],
    "off": ["SET transaction_isolation = 'REPEATABLE-READ'", "SET innodb_snapshot_isolation = OFF"],
}
# Another number for the same: a changed record, and a lock that NOWAIT does not wait for.
SAME = {1020: 1213, 3572: 1205}


class Client:
    """A connection with a thread of its own, which runs one statement at a time."""

    def __init__(self, socket, settings):
        self.connection = pymysql.connect(unix_socket=socket, user="root", charset="utf8mb4", autocommit=True, conv={})
        self.cursor = self.connection.cursor()
        self.id = self.connection.thread_id()
        self.thread = None
        self.outcome = None
        self.cursor.execute("SET innodb_lock_wait_timeout = 5")
        for sql in settings:
            sql = sql.replace("transaction_isolation", "tx_isolation")
            self.cursor.execute(sql)

    def begin(self, sql):
        self.thread = threading.Thread(target=self.run, args=(sql,), daemon=True)
        self.thread.start()

    def run(self, sql):
        try:
            count = self.cursor.execute(sql)
            if self.cursor.description is None:
                self.outcome = f"ok {count}"
            else:
                rows = [" ".join("NULL" if v is None else v if isinstance(v, str) else v.decode() for v in row) for row in self.cursor]
                self.outcome = "; ".join(rows) or "none"
        except pymysql.MySQLError as error:
            self.outcome = f"error {SAME.get(error.args[0], error.args[0])}"

    def ended(self, timeout=None):
        self.thread.join(timeout)
        return not self.thread.is_alive()


class Server:
    def __init__(self, socket):
        self.socket = socket
        self.watch = Client(socket, [])

    def waits_for_row(self, client):
        self.watch.cursor.execute("SHOW PROCESSLIST")
        line = next((row for row in self.watch.cursor if int(row[0]) == client.id), None)
        if line is not None and "row lock" in str(line[6]):
            return True
        try:
            self.watch.cursor.execute("SELECT 1 FROM information_schema.innodb_trx "
                                      f"WHERE trx_mysql_thread_id = {client.id} AND trx_state = 'LOCK WAIT'")
            return self.watch.cursor.fetchone() is not None
        except pymysql.MySQLError:
            return False

    def play(self, steps, level):
        """What each step's client is told."""
        for sql in SETUP:
            self.watch.cursor.execute(sql)
        clients, outcomes, waiting = {}, [""] * len(steps), {}
        for at, (name, sql) in enumerate(steps):
            if name not in clients:
                clients[name] = Client(self.socket, ["USE schedules"] + LEVELS[level])
                if name != "c" and not sql.startswith("START"):
                    clients[name].cursor.execute("BEGIN")
            client = clients[name]
            if name in waiting:
                self.end(client, waiting.pop(name), outcomes)
            client.begin(sql)
            while not client.ended(0.02):
                if self.waits_for_row(client) and not client.ended(0.15):
                    outcomes[at] = "waits, then "
                    waiting[name] = at
                    break
            else:
                outcomes[at] = client.outcome
        for name in waiting:
            self.end(clients[name], waiting[name], outcomes)
        for client in clients.values():
            client.connection.close()
        return outcomes

    @staticmethod
    def end(client, at, outcomes):
        if not client.ended(20):
            sys.exit(f"step {at + 1} does not end")
        outcomes[at] += client.outcome


def parse(text):
    """Lines of a file; of each schedule its name, its levels, and its steps with what is said of them."""
    schedules, said = [], None
    for number, line in enumerate(text.splitlines()):
        if line.startswith("schedule "):
            schedules.append({"name": line[9:], "steps": [], "said": [], "lines": []})
        elif line.startswith("levels "):
            schedules[-1]["levels"] = line.split()[1:]
        elif line.startswith("  "):
            who, outcome = line.strip().split("= ", 1)
            schedules[-1]["said"][-1][who] = outcome
        elif line[1:3] == ": ":
            schedules[-1]["steps"].append((line[0], line[3:]))
            schedules[-1]["said"].append({})
            schedules[-1]["lines"].append(number)
    return schedules


def told(said, server, level):
    """What a step's lines say that a server tells at a level."""
    for key in ([f"innodb.{level}", "innodb"] if server == "innodb" else []) + [level, "all"]:
        if key in said:
            return said[key]
    return None


def lines_of(levels, ours, theirs):
    """The lines that say what both tell at each level."""
    out = {}
    if len(set(ours.values())) == 1:
        out["all"] = next(iter(ours.values()))
    else:
        out.update(ours)
    other = {level: theirs[level] for level in levels if theirs[level] != ours[level]}
    if len(other) == len(levels) and len(set(other.values())) == 1:
        out["innodb"] = next(iter(other.values()))
    else:
        out.update((f"innodb.{level}", outcome) for level, outcome in other.items())
    return [f"  {who}= {outcome}" for who, outcome in out.items()]


def main():
    arguments = sys.argv[1:]
    rewrite = "--rewrite" in arguments
    only = arguments[arguments.index("--only") + 1] if "--only" in arguments else ""
    files = [argument for argument in arguments if argument.endswith(".txt")]
    servers = {"spillway": Server(os.environ["SPILLWAY_SOCKET"]), "innodb": Server(os.environ["MARIADB_SOCKET"])}
    count, wrong = 0, 0
    for path in files:
        text = open(path).read()
        new = {}
        for schedule in parse(text):
            if only not in schedule["name"]:
                continue
            told_by = {}
            for name, server in servers.items():
                try:
                    told_by[name] = {level: server.play(schedule["steps"], level) for level in schedule["levels"]}
                except SystemExit as error:
                    sys.exit(f"{schedule['name']} ({name}): {error}")
            for at, said in enumerate(schedule["said"]):
                at_step = {name: {level: told_by[name][level][at] for level in schedule["levels"]} for name in servers}
                new[schedule["lines"][at]] = lines_of(schedule["levels"], at_step["spillway"], at_step["innodb"])
                for name in servers:
                    for level in schedule["levels"]:
                        count += 1
                        expected, got = told(said, name, level), at_step[name][level]
                        if expected != got and not rewrite:
                            wrong += 1
                            client, sql = schedule["steps"][at]
                            print(f"{schedule['name']} ({name}, {level}): {client}: {sql}\n  said {expected}\n  told {got}")
        if rewrite:
            lines = []
            for number, line in enumerate(text.splitlines()):
                if line.startswith("  ") and not only:
                    continue
                lines.append(line)
                lines.extend(new.get(number, []))
            open(path, "w").write("\n".join(lines) + "\n")
    print(f"{count} outcomes, {wrong} of them not as said")
    sys.exit(1 if wrong else 0)


main()
