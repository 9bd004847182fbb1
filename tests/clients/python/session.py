"""The scripted session through PyMySQL."""

import datetime
import decimal
import os

import pymysql

connection = pymysql.connect(
    host=os.environ["SPILLWAY_HOST"],
    port=int(os.environ["SPILLWAY_PORT"]),
    user=os.environ.get("SPILLWAY_USER", "root"),
    password=os.environ.get("SPILLWAY_PASSWORD", ""),
    charset="utf8mb4",
    autocommit=True,
    # Trusting nobody but the server's own certificate.
    ssl_ca=os.environ.get("SPILLWAY_CERT"),
    max_allowed_packet=64 << 20,
)
cursor = connection.cursor()


def run(sql, *args):
    cursor.execute(sql, args or None)
    return cursor.fetchall()


def expect(got, wanted):
    assert got == wanted, f"got {got!r}, wanted {wanted!r}"


def expect_error(code, sql, *args):
    try:
        run(sql, *args)
    except pymysql.MySQLError as error:
        expect(error.args[0], code)
    else:
        raise AssertionError(f"no error {code} from {sql}")


cipher = run("SHOW STATUS LIKE 'Ssl_cipher'")[0][1]
expect(cipher != "", "SPILLWAY_CERT" in os.environ)
run("DROP DATABASE IF EXISTS client_python")
run("CREATE DATABASE client_python")
connection.select_db("client_python")

run(
    """CREATE TABLE kinds (
        id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY,
        tiny TINYINT, big BIGINT, ubig BIGINT UNSIGNED, price DECIMAL(20,4), ratio DOUBLE,
        at DATETIME(6), day DATE, span TIME, name VARCHAR(100), raw VARBINARY(100),
        KEY by_name (name))"""
)
row = (
    -128,
    -(2**63),
    2**64 - 1,
    decimal.Decimal("-1234567890123456.7891"),
    0.1,
    datetime.datetime(2026, 11, 21, 23, 59, 59, 123456),
    datetime.date(2024, 2, 29),
    datetime.timedelta(hours=838, minutes=59, seconds=59),
    "Grüße, 世界 🌊",
    bytes(range(100)),
)
run(
    "INSERT INTO kinds (tiny, big, ubig, price, ratio, at, day, span, name, raw)"
    " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
    *row,
)
expect(cursor.lastrowid, 1)
expect(run("SELECT tiny, big, ubig, price, ratio, at, day, span, name, raw FROM kinds"), (row,))
run("INSERT INTO kinds (tiny) VALUES (NULL)")
expect(run("SELECT tiny, name FROM kinds WHERE id = 2"), ((None, None),))

expect_error(1062, "INSERT INTO kinds (id) VALUES (1)")
expect_error(1146, "SELECT * FROM missing")
expect_error(1064, "SELEC 1")
expect_error(1054, "SELECT nothing FROM kinds")

run("CREATE TABLE account (id INT PRIMARY KEY, owner INT NOT NULL, cents BIGINT NOT NULL, KEY (owner))")
cursor.executemany(
    "INSERT INTO account VALUES (%s, %s, %s)", [(i, i % 10, 100) for i in range(1000)]
)
expect(cursor.rowcount, 1000)
connection.begin()
run("UPDATE account SET cents = cents - 50 WHERE id = 1")
connection.rollback()
expect(run("SELECT cents FROM account WHERE id = 1"), ((100,),))
connection.begin()
run("UPDATE account SET cents = cents - 50 WHERE id = 1")
run("UPDATE account SET cents = cents + 50 WHERE id = 2")
connection.commit()
expect(run("SELECT id, cents FROM account WHERE id BETWEEN 1 AND 2 ORDER BY id"), ((1, 50), (2, 150)))
expect(run("SELECT COUNT(*), SUM(cents) FROM account"), ((1000, decimal.Decimal(100000)),))
expect(
    run(
        "SELECT a.owner, COUNT(*) FROM account a JOIN account b ON b.id = a.owner"
        " WHERE a.owner IN (3, 4) GROUP BY a.owner ORDER BY a.owner"
    ),
    ((3, 100), (4, 100)),
)

run("CREATE TABLE large (id INT PRIMARY KEY, body LONGBLOB)")
body = bytes(i % 251 for i in range(17 << 20))
run("INSERT INTO large VALUES (1, _binary %s)", body)
expect(run("SELECT LENGTH(body) FROM large"), ((len(body),),))
expect(run("SELECT body FROM large"), ((body,),))

run("DROP DATABASE client_python")
connection.close()
print("python: ok")
