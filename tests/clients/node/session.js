// The scripted session through mysql2: `query` is the text protocol, `execute` the binary one.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import mysql from "mysql2/promise";

const cert = process.env.SPILLWAY_CERT;
const connection = await mysql.createConnection({
  host: process.env.SPILLWAY_HOST,
  port: Number(process.env.SPILLWAY_PORT),
  user: process.env.SPILLWAY_USER ?? "root",
  password: process.env.SPILLWAY_PASSWORD ?? "",
  supportBigNumbers: true,
  bigNumberStrings: true,
  dateStrings: true,
  multipleStatements: true,
  // Trusting nobody but the server's own certificate.
  ...(cert && { ssl: { ca: readFileSync(cert) } }),
});

async function run(sql, args) {
  const [rows] = await (args ? connection.execute(sql, args) : connection.query(sql));
  return rows;
}

async function values(sql, args) {
  return (await run(sql, args)).map((row) => Object.values(row));
}

async function expectError(code, sql, args) {
  await assert.rejects(run(sql, args), (error) => error.errno === code, `no ${code} from ${sql}`);
}

const [[, cipher]] = await values("SHOW STATUS LIKE 'Ssl_cipher'");
assert.equal(cipher !== "", cert !== undefined);
await run("DROP DATABASE IF EXISTS client_node; CREATE DATABASE client_node");
await connection.changeUser({ database: "client_node" });
await run(`CREATE TABLE kinds (
  id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY,
  tiny TINYINT, big BIGINT, ubig BIGINT UNSIGNED, price DECIMAL(20,4), ratio DOUBLE,
  at DATETIME(6), day DATE, span TIME, name VARCHAR(100), raw VARBINARY(100),
  KEY by_name (name))`);
const raw = Buffer.from([0, 1, 2, 255, 39, 92]);
const row = [
  -128, "-9223372036854775808", "18446744073709551615", "-1234567890123456.7891", 0.1,
  "2026-11-21 23:59:59.123456", "2024-02-29", "-838:59:59", "Grüße, 世界 🌊", raw,
];
const columns = "tiny, big, ubig, price, ratio, at, day, span, name, raw";
const inserted = await run(`INSERT INTO kinds (${columns}) VALUES (?,?,?,?,?,?,?,?,?,?)`, row);
assert.equal(inserted.insertId, 1);
assert.deepEqual(await values(`SELECT ${columns} FROM kinds WHERE id = 1`), [row]);
assert.deepEqual(await values(`SELECT ${columns} FROM kinds WHERE id = ?`, [1]), [row]);
await run("INSERT INTO kinds (tiny) VALUES (?)", [null]);
assert.deepEqual(await values("SELECT tiny, name FROM kinds WHERE id = ?", [2]), [[null, null]]);

await expectError(1062, "INSERT INTO kinds (id) VALUES (?)", [1]);
await expectError(1146, "SELECT * FROM missing");
await expectError(1064, "SELEC 1");

await run("CREATE TABLE account (id INT PRIMARY KEY, owner INT NOT NULL, cents BIGINT NOT NULL, KEY (owner))");
for (let i = 0; i < 100; i++) await run("INSERT INTO account VALUES (?, ?, 100)", [i, i % 10]);
for (const end of ["rollback", "commit"]) {
  await connection.beginTransaction();
  await run("UPDATE account SET cents = cents - ? WHERE id = ?", [50, 1]);
  await run("UPDATE account SET cents = cents + ? WHERE id = ?", [50, 2]);
  await connection[end]();
  const moved = end === "commit" ? 50 : 0;
  assert.deepEqual(
    await values("SELECT id, cents FROM account WHERE id BETWEEN ? AND ? ORDER BY id", [1, 2]),
    [[1, `${100 - moved}`], [2, `${100 + moved}`]],
  );
}
assert.deepEqual(
  (await values("SELECT COUNT(*), SUM(cents) FROM account")).map((r) => r.map(Number)),
  [[100, 10000]],
);

await run("CREATE TABLE large (id INT PRIMARY KEY, body LONGBLOB)");
const body = Buffer.alloc(17 << 20, "0123456789abcdefg");
await run("INSERT INTO large VALUES (?, ?)", [1, body]);
const [[back]] = await values("SELECT body FROM large WHERE id = ?", [1]);
assert.ok(body.equals(back));

await run("DROP DATABASE client_node");
await connection.end();
console.log("node: ok");
