"""Concurrent transfers between two tables, and changes of whole tables, with the server killed by
SIGKILL at random moments.

Every transfer takes an amount from a row of `debit`, adds it to a row of `credit`, and inserts a
marker that says what it did, all in one transaction. After each kill and restart:

- every transfer whose COMMIT was answered has its marker (nothing acknowledged is lost);
- every marker belongs to a transfer that was acknowledged or was cut off while committing;
- each row equals its first value plus the effect of exactly the markers that are there (nothing
  by halves), and so the sum over both tables is conserved.

Beside the transfers, one client updates every row of two larger tables, one in each engine, in one
transaction, and sometimes rolls it back. These transactions are larger than the server's memory for
them, so they spill, and the rows do not all stay in memory. The client also makes the server persist
its tables and compact them, so that segments leave the log. After each restart, all rows of both
tables have been updated equally often: as often as was acknowledged, or once more.
"""

import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import pymysql

ROWS = 50
PILE = 1500
PAD = 3000
THREADS = 8
ENGINES = ("MEMORY_OPTIMIZED", "TIERED")
PILES = ("pile_a", "pile_b")
START = 1000
RETRY = {1205, 1213, 1020}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    def __init__(self, binary, folder):
        self.binary, self.folder, self.port = binary, folder, free_port()
        self.process = None

    def start(self):
        log = open(os.path.join(self.folder, "log"), "ab")
        self.process = subprocess.Popen(
            [
                self.binary, "serve", "--data", os.path.join(self.folder, "data"),
                "--port", str(self.port), "--socket", os.path.join(self.folder, "sock"),
                "--memory", "64MiB",
            ],
            stdout=log,
            stderr=log,
        )
        deadline = time.monotonic() + 60
        while True:
            try:
                return self.connect()
            except pymysql.MySQLError as error:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    with open(os.path.join(self.folder, "log"), errors="replace") as text:
                        sys.exit(f"the server does not come up ({error}):\n{text.read()[-4000:]}")
                time.sleep(0.02)

    def connect(self):
        return pymysql.connect(
            host="127.0.0.1", port=self.port, user="root", database=None, autocommit=False
        )

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


class Worker(threading.Thread):
    """Transfers until the connection breaks; remembers what was acknowledged and what is in doubt."""

    def __init__(self, server, number, life, seed):
        super().__init__(daemon=True)
        self.server, self.number, self.life = server, number, life
        self.random = random.Random(seed)
        self.acknowledged, self.doubt, self.fault = set(), set(), None

    def run(self):
        try:
            connection = self.server.connect()
            cursor = connection.cursor()
            cursor.execute("USE bank")
            sequence = 0
            while True:
                sequence += 1
                self.transfer(connection, cursor, f"{self.life}.{self.number}.{sequence}")
        except (pymysql.err.OperationalError, pymysql.err.InterfaceError) as error:
            if error.args and error.args[0] not in (0, 2003, 2006, 2013, 1053):
                self.fault = error
        except Exception as error:  # noqa: BLE001: a worker reports whatever it met
            self.fault = error

    def transfer(self, connection, cursor, marker):
        source, target = self.random.randrange(ROWS), self.random.randrange(ROWS)
        cents = self.random.randrange(1, 10)
        committing = False
        try:
            cursor.execute("UPDATE debit SET cents = cents - %s WHERE id = %s", (cents, source))
            cursor.execute("UPDATE credit SET cents = cents + %s WHERE id = %s", (cents, target))
            cursor.execute(
                "INSERT INTO marker VALUES (%s, %s, %s, %s)", (marker, source, target, cents)
            )
            committing = True
            connection.commit()
            self.acknowledged.add(marker)
        except pymysql.MySQLError as error:
            if error.args and error.args[0] in RETRY:
                connection.rollback()
                return
            if committing:
                self.doubt.add(marker)
            raise


class Piler(threading.Thread):
    """Updates all rows of both piles until the connection breaks; counts what was acknowledged."""

    def __init__(self, server, seed):
        super().__init__(daemon=True)
        self.server, self.random = server, random.Random(seed)
        self.acknowledged, self.doubt, self.fault = 0, False, None

    def run(self):
        try:
            connection = self.server.connect()
            cursor = connection.cursor()
            cursor.execute("USE bank")
            while True:
                self.round(connection, cursor)
        except (pymysql.err.OperationalError, pymysql.err.InterfaceError) as error:
            if error.args and error.args[0] not in (0, 2003, 2006, 2013, 1053):
                self.fault = error
        except Exception as error:  # noqa: BLE001: as above
            self.fault = error

    def round(self, connection, cursor):
        choice = self.random.randrange(6)
        if choice == 0:
            cursor.execute("FLUSH TABLES")
            return
        if choice == 1:
            cursor.execute("OPTIMIZE TABLE pile_a")
            cursor.fetchall()
            return
        for table in PILES:
            cursor.execute(f"UPDATE {table} SET n = n + 1")
        if choice == 2:
            connection.rollback()
            return
        self.doubt = True
        connection.commit()
        self.doubt = False
        self.acknowledged += 1


def check_piles(connection, least, most):
    """Returns how often the rows of the piles were updated."""
    cursor = connection.cursor()
    cursor.execute("USE bank")
    found = set()
    for table in PILES:
        cursor.execute(f"SELECT COUNT(*), MIN(n), MAX(n), MIN(LENGTH(pad)) FROM {table}")
        count, low, high, pad = cursor.fetchone()
        assert (count, pad) == (PILE, PAD), f"{table} has {count} rows, the shortest of {pad}"
        assert low == high, f"{table} holds half of an update: {low} to {high}"
        found.add(low)
    connection.rollback()
    assert len(found) == 1, f"an update of one pile, and not of the other: {found}"
    updates = found.pop()
    assert least <= updates <= most, f"{updates} updates of {least} to {most}"
    return updates


def check(connection, acknowledged, doubt):
    cursor = connection.cursor()
    cursor.execute("USE bank")
    cursor.execute("SELECT id, source, target, cents FROM marker")
    markers = cursor.fetchall()
    there = {row[0] for row in markers}
    lost = acknowledged - there
    assert not lost, f"acknowledged but lost: {sorted(lost)[:5]} and {len(lost)} in all"
    strange = there - acknowledged - doubt
    assert not strange, f"never committed but there: {sorted(strange)[:5]}"
    wanted = {"debit": [START] * ROWS, "credit": [START] * ROWS}
    for _, source, target, cents in markers:
        wanted["debit"][source] -= cents
        wanted["credit"][target] += cents
    for table, values in wanted.items():
        cursor.execute(f"SELECT id, cents FROM {table} ORDER BY id")
        got = list(cursor.fetchall())
        assert got == list(enumerate(values)), f"{table} holds halves of transfers: {got}"
    cursor.execute(
        "SELECT (SELECT SUM(cents) FROM debit) + (SELECT SUM(cents) FROM credit), (SELECT COUNT(*) FROM marker)"
    )
    total, count = cursor.fetchone()
    assert (total, count) == (2 * ROWS * START, len(markers)), (total, count)
    connection.rollback()
    return there


def main():
    binary, kills, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    choose = random.Random(seed)
    acknowledged, doubt = set(), set()
    with tempfile.TemporaryDirectory() as folder:
        server = Server(binary, folder)
        connection = server.start()
        cursor = connection.cursor()
        cursor.execute("CREATE DATABASE bank")
        cursor.execute("USE bank")
        # One table in each engine: a transfer is one transaction over both.
        for table, engine in (("debit", "MEMORY_OPTIMIZED"), ("credit", "TIERED")):
            cursor.execute(
                f"CREATE TABLE {table} (id INT PRIMARY KEY, cents BIGINT NOT NULL) ENGINE={engine}"
            )
            cursor.executemany(
                f"INSERT INTO {table} VALUES (%s, %s)", [(i, START) for i in range(ROWS)]
            )
        cursor.execute(
            "CREATE TABLE marker (id VARCHAR(40) PRIMARY KEY, source INT NOT NULL, target INT NOT NULL,"
            f" cents INT NOT NULL, KEY (source)) ENGINE={choose.choice(ENGINES)}"
        )
        for table, engine in zip(PILES, ENGINES):
            cursor.execute(
                f"CREATE TABLE {table} (id INT PRIMARY KEY, n INT NOT NULL, pad VARCHAR({PAD}) NOT NULL)"
                f" ENGINE={engine}"
            )
            for begin in range(0, PILE, 500):
                rows = ",".join(f"({id}, 0, REPEAT('{id % 10}', {PAD}))" for id in range(begin, begin + 500))
                cursor.execute(f"INSERT INTO {table} VALUES {rows}")
                connection.commit()
        connection.commit()
        updates = 0
        for life in range(kills):
            piler = Piler(server, seed * 1000 + life)
            piler.start()
            workers = [Worker(server, n, life, seed * 1000 + life * 100 + n) for n in range(THREADS)]
            for worker in workers:
                worker.start()
            # In some lives, an update of all rows ends before the kill; in most, the kill ends it.
            while life % 3 == 0 and piler.acknowledged == 0 and piler.is_alive():
                time.sleep(0.02)
            time.sleep(choose.uniform(0.05, 1.5))
            server.kill()
            for worker in workers:
                worker.join()
                if worker.fault is not None:
                    sys.exit(f"a worker met what it should not: {worker.fault!r}")
                acknowledged |= worker.acknowledged
                doubt |= worker.doubt
            piler.join()
            if piler.fault is not None:
                sys.exit(f"an update of all rows met what it should not: {piler.fault!r}")
            updates += piler.acknowledged
            connection = server.start()
            updates = check_piles(connection, updates, updates + piler.doubt)
            there = check(connection, acknowledged, doubt)
            # What was in doubt is settled now: it is there for good, or gone for good.
            acknowledged |= doubt & there
            doubt.clear()
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(60) == 0, "the server did not stop cleanly"
        connection = server.start()
        check(connection, acknowledged, doubt)
        check_piles(connection, updates, updates)
        server.kill()
    assert acknowledged and updates, "nothing was committed: the test proves nothing"
    print(
        f"crash: {kills} kills, {len(acknowledged)} transfers and {updates} updates of all rows of two"
        " tables, none lost, none by halves"
    )


main()
