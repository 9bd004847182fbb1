"""Concurrent transfers between two tables, with the server killed by SIGKILL at random moments.

Every transfer takes an amount from a row of `debit`, adds it to a row of `credit`, and inserts a
marker that says what it did, all in one transaction. After each kill and restart:

- every transfer whose COMMIT was answered has its marker (nothing acknowledged is lost);
- every marker belongs to a transfer that was acknowledged or was cut off while committing;
- each row equals its first value plus the effect of exactly the markers that are there (nothing
  by halves), and so the sum over both tables is conserved.
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
THREADS = 8
ENGINES = ("MEMORY_OPTIMIZED", "TIERED")
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
        connection.commit()
        for life in range(kills):
            workers = [Worker(server, n, life, seed * 1000 + life * 100 + n) for n in range(THREADS)]
            for worker in workers:
                worker.start()
            time.sleep(choose.uniform(0.05, 0.8))
            server.kill()
            for worker in workers:
                worker.join()
                if worker.fault is not None:
                    sys.exit(f"a worker met what it should not: {worker.fault!r}")
                acknowledged |= worker.acknowledged
                doubt |= worker.doubt
            connection = server.start()
            there = check(connection, acknowledged, doubt)
            # What was in doubt is settled now: it is there for good, or gone for good.
            acknowledged |= doubt & there
            doubt.clear()
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(60) == 0, "the server did not stop cleanly"
        check(server.start(), acknowledged, doubt)
        server.kill()
    assert acknowledged, "nothing was committed: the test proves nothing"
    print(f"crash: {kills} kills, {len(acknowledged)} transfers, none lost, none by halves")


main()
