// The scripted session through go-sql-driver/mysql.
package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"math"
	"os"

	"github.com/go-sql-driver/mysql"
)

var db *sql.Conn
var ctx = context.Background()

func must(err error) {
	if err != nil {
		log.Output(2, err.Error())
		os.Exit(1)
	}
}

func run(query string, args ...any) sql.Result {
	result, err := db.ExecContext(ctx, query, args...)
	if err != nil {
		log.Fatalf("%v in %s", err, query)
	}
	return result
}

func expect(got, wanted any) {
	if fmt.Sprint(got) != fmt.Sprint(wanted) {
		log.Output(2, fmt.Sprintf("got %v, wanted %v", got, wanted))
		os.Exit(1)
	}
}

func expectError(code uint16, query string, args ...any) {
	_, err := db.ExecContext(ctx, query, args...)
	var answer *mysql.MySQLError
	if !errors.As(err, &answer) || answer.Number != code {
		log.Fatalf("%v instead of error %d from %s", err, code, query)
	}
}

func main() {
	user := os.Getenv("SPILLWAY_USER")
	if user == "" {
		user = "root"
	}
	dsn := fmt.Sprintf("%s:%s@tcp(%s:%s)/?parseTime=false&maxAllowedPacket=0",
		user, os.Getenv("SPILLWAY_PASSWORD"), os.Getenv("SPILLWAY_HOST"), os.Getenv("SPILLWAY_PORT"))
	cert := os.Getenv("SPILLWAY_CERT")
	if cert != "" {
		// Trusting nobody but the server's own certificate.
		pem, err := os.ReadFile(cert)
		must(err)
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(pem)
		must(mysql.RegisterTLSConfig("own", &tls.Config{RootCAs: roots}))
		dsn += "&tls=own"
	}
	pool, err := sql.Open("mysql", dsn)
	must(err)
	db, err = pool.Conn(ctx)
	must(err)

	var variable, cipher string
	must(db.QueryRowContext(ctx, "SHOW STATUS LIKE 'Ssl_cipher'").Scan(&variable, &cipher))
	expect(cipher != "", cert != "")

	run("DROP DATABASE IF EXISTS client_go")
	run("CREATE DATABASE client_go")
	run("USE client_go")
	run(`CREATE TABLE kinds (
		id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY,
		tiny TINYINT, big BIGINT, ubig BIGINT UNSIGNED, price DECIMAL(20,4), ratio DOUBLE,
		at DATETIME(6), day DATE, span TIME, name VARCHAR(100), raw VARBINARY(100),
		KEY by_name (name))`)
	// Arguments make the driver prepare the statement: these go through the binary protocol.
	raw := []byte{0, 1, 2, 0xFF, '\'', '\\'}
	insert := run("INSERT INTO kinds (tiny, big, ubig, price, ratio, at, day, span, name, raw) VALUES (?,?,?,?,?,?,?,?,?,?)",
		-128, int64(math.MinInt64), uint64(math.MaxUint64), "-1234567890123456.7891", 0.1,
		"2026-11-21 23:59:59.123456", "2024-02-29", "-838:59:59", "Grüße, 世界 🌊", raw)
	id, err := insert.LastInsertId()
	must(err)
	expect(id, 1)
	var (
		tiny, big              int64
		ubig                   uint64
		price, at, day, span   string
		ratio                  float64
		name                   string
		rawBack                []byte
		none                   sql.NullInt64
	)
	must(db.QueryRowContext(ctx, "SELECT tiny, big, ubig, price, ratio, at, day, span, name, raw FROM kinds WHERE id = ?", 1).
		Scan(&tiny, &big, &ubig, &price, &ratio, &at, &day, &span, &name, &rawBack))
	expect([]any{tiny, big, ubig, price, ratio, at, day, span, name},
		[]any{-128, int64(math.MinInt64), uint64(math.MaxUint64), "-1234567890123456.7891", 0.1,
			"2026-11-21 23:59:59.123456", "2024-02-29", "-838:59:59", "Grüße, 世界 🌊"})
	expect(bytes.Equal(raw, rawBack), true)
	run("INSERT INTO kinds (tiny) VALUES (?)", nil)
	must(db.QueryRowContext(ctx, "SELECT tiny FROM kinds WHERE id = ?", 2).Scan(&none))
	expect(none.Valid, false)

	expectError(1062, "INSERT INTO kinds (id) VALUES (?)", 1)
	expectError(1146, "SELECT * FROM missing WHERE id = ?", 1)
	expectError(1064, "SELEC 1")

	run("CREATE TABLE account (id INT PRIMARY KEY, owner INT NOT NULL, cents BIGINT NOT NULL, KEY (owner))")
	statement, err := db.PrepareContext(ctx, "INSERT INTO account VALUES (?, ?, 100)")
	must(err)
	for i := 0; i < 100; i++ {
		_, err = statement.ExecContext(ctx, i, i%10)
		must(err)
	}
	must(statement.Close())

	transfer := func(commit bool) {
		transaction, err := db.BeginTx(ctx, nil)
		must(err)
		_, err = transaction.ExecContext(ctx, "UPDATE account SET cents = cents - ? WHERE id = ?", 50, 1)
		must(err)
		_, err = transaction.ExecContext(ctx, "UPDATE account SET cents = cents + ? WHERE id = ?", 50, 2)
		must(err)
		if commit {
			must(transaction.Commit())
		} else {
			must(transaction.Rollback())
		}
	}
	cents := func(id int) (cents int64) {
		must(db.QueryRowContext(ctx, "SELECT cents FROM account WHERE id = ?", id).Scan(&cents))
		return
	}
	transfer(false)
	expect(cents(1), 100)
	transfer(true)
	expect([]any{cents(1), cents(2)}, []any{50, 150})
	var count, sum int64
	must(db.QueryRowContext(ctx, "SELECT COUNT(*), SUM(cents) FROM account").Scan(&count, &sum))
	expect([]any{count, sum}, []any{100, 10000})
	must(db.QueryRowContext(ctx,
		"SELECT COUNT(*) FROM account a JOIN account b ON b.id = a.owner WHERE a.owner = ?", 3).Scan(&count))
	expect(count, 10)

	run("CREATE TABLE large (id INT PRIMARY KEY, body LONGBLOB)")
	body := make([]byte, 17<<20)
	for i := range body {
		body[i] = byte(i % 251)
	}
	run("INSERT INTO large VALUES (?, ?)", 1, body)
	must(db.QueryRowContext(ctx, "SELECT body FROM large WHERE id = ?", 1).Scan(&rawBack))
	expect(bytes.Equal(body, rawBack), true)

	run("DROP DATABASE client_go")
	must(db.Close())
	must(pool.Close())
	fmt.Println("go: ok")
}
