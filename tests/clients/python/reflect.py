"""What SQLAlchemy reads back of a table: types, keys, defaults, comments, checks."""

import os

import sqlalchemy as sa


def connect(database=None):
    """As the other session: through TLS where there is a certificate."""
    address = sa.URL.create(
        "mysql+pymysql",
        os.environ.get("SPILLWAY_USER", "root"),
        os.environ.get("SPILLWAY_PASSWORD", ""),
        os.environ["SPILLWAY_HOST"],
        int(os.environ["SPILLWAY_PORT"]),
        database,
    )
    certificate = os.environ.get("SPILLWAY_CERT")
    return sa.create_engine(address, connect_args={"ssl_ca": certificate} if certificate else {})


with connect().connect() as connection:
    connection.execute(sa.text("DROP DATABASE IF EXISTS client_reflect"))
    connection.execute(sa.text("CREATE DATABASE client_reflect"))
engine = connect("client_reflect")
with engine.connect() as connection:
    connection.execute(
        sa.text(
            """CREATE TABLE item (
            id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, name VARCHAR(40) NOT NULL DEFAULT 'x' COMMENT 'its name',
            price DECIMAL(10,2), made DATETIME(3) DEFAULT CURRENT_TIMESTAMP(3), size ENUM('s','l'), body LONGTEXT, raw VARBINARY(16),
            ready BOOL, span TIME(2), ratio DOUBLE, notes JSON, UNIQUE KEY by_name (name), KEY by_price (price, made),
            KEY by_body (body(10)), CONSTRAINT positive CHECK (price > 0)) COMMENT='things'"""
        )
    )


def expect(got, wanted):
    assert got == wanted, f"got {got!r}, wanted {wanted!r}"


seen = sa.inspect(engine)
expect(seen.get_table_names(), ["item"])
expect(seen.get_view_names(), [])
columns = {column["name"]: column for column in seen.get_columns("item")}
expect(
    [str(column["type"]) for column in columns.values()],
    ["INTEGER", "VARCHAR(40)", "DECIMAL(10, 2)", "DATETIME", "ENUM", "LONGTEXT", "VARBINARY(16)", "TINYINT", "TIME", "DOUBLE", "JSON"],
)
expect(columns["size"]["type"].enums, ["s", "l"])
expect((columns["made"]["type"].fsp, columns["span"]["type"].fsp), (3, 2))
expect((columns["id"]["autoincrement"], columns["id"]["nullable"], columns["price"]["nullable"]), (True, False, True))
expect((columns["name"]["default"], columns["name"]["comment"]), ("'x'", "its name"))
expect(seen.get_pk_constraint("item")["constrained_columns"], ["id"])
expect(
    {index["name"]: (index["column_names"], bool(index["unique"])) for index in seen.get_indexes("item")},
    {"by_name": (["name"], True), "by_price": (["price", "made"], False), "by_body": (["body"], False)},
)
expect([check["name"] for check in seen.get_check_constraints("item")], ["positive"])
expect(seen.get_foreign_keys("item"), [])
expect(seen.get_table_comment("item"), {"text": "things"})

metadata = sa.MetaData()
metadata.reflect(engine)
item = metadata.tables["item"]
with engine.begin() as connection:
    made = connection.execute(item.insert().values(name="first", price=1))
    expect(made.inserted_primary_key, (1,))
    connection.execute(item.insert(), [{"name": "second", "price": 2}, {"name": "third", "price": 3}])
    query = sa.select(item.c.name).where(item.c.price > 1).order_by(item.c.id.desc())
    expect([row.name for row in connection.execute(query)], ["third", "second"])
metadata.drop_all(engine)
expect(sa.inspect(engine).get_table_names(), [])
print("python, reflected: ok")
