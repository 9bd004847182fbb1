import java.math.BigDecimal;
import java.math.BigInteger;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Arrays;
import java.util.Objects;

/** The scripted session through MySQL Connector/J, with statements prepared on the server. */
public final class Session {
    private static Connection connection;

    private static void run(String sql) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.execute(sql);
        }
    }

    private static PreparedStatement prepare(String sql, Object... values) throws SQLException {
        PreparedStatement statement =
                connection.prepareStatement(sql, Statement.RETURN_GENERATED_KEYS);
        for (int i = 0; i < values.length; i++) {
            statement.setObject(i + 1, values[i]);
        }
        return statement;
    }

    private static int update(String sql, Object... values) throws SQLException {
        try (PreparedStatement statement = prepare(sql, values)) {
            return statement.executeUpdate();
        }
    }

    private static Object single(String sql, Object... values) throws SQLException {
        try (PreparedStatement statement = prepare(sql, values);
                ResultSet rows = statement.executeQuery()) {
            rows.next();
            return rows.getObject(1);
        }
    }

    private static void expect(Object got, Object wanted) {
        if (!Objects.equals(got, wanted)) {
            throw new AssertionError("got " + got + ", wanted " + wanted);
        }
    }

    private static void expectError(int code, String sql, Object... values) {
        try {
            update(sql, values);
        } catch (SQLException error) {
            expect(error.getErrorCode(), code);
            return;
        }
        throw new AssertionError("no error " + code + " from " + sql);
    }

    public static void main(String[] args) throws SQLException {
        String url = "jdbc:mysql://" + System.getenv("SPILLWAY_HOST") + ":"
                + System.getenv("SPILLWAY_PORT")
                + "/?useServerPrepStmts=true&allowPublicKeyRetrieval=true";
        String store = System.getenv("SPILLWAY_STORE");
        if (store != null) {
            // Trusting nobody but the server's own certificate.
            url += "&sslMode=VERIFY_IDENTITY&trustCertificateKeyStoreType=PKCS12"
                    + "&trustCertificateKeyStoreUrl=file:" + store
                    + "&trustCertificateKeyStorePassword=trusted";
        } else {
            url += "&sslMode=DISABLED";
        }
        connection = DriverManager.getConnection(
                url,
                System.getenv().getOrDefault("SPILLWAY_USER", "root"),
                System.getenv().getOrDefault("SPILLWAY_PASSWORD", ""));
        try (Statement statement = connection.createStatement();
                ResultSet cipher = statement.executeQuery("SHOW STATUS LIKE 'Ssl_cipher'")) {
            cipher.next();
            expect(!cipher.getString(2).isEmpty(), store != null);
        }
        run("DROP DATABASE IF EXISTS client_java");
        run("CREATE DATABASE client_java");
        connection.setCatalog("client_java");
        run("CREATE TABLE kinds (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY,"
                + " tiny TINYINT, big BIGINT, ubig BIGINT UNSIGNED, price DECIMAL(20,4),"
                + " ratio DOUBLE, at DATETIME(6), day DATE, span TIME, name VARCHAR(100),"
                + " raw VARBINARY(100), KEY by_name (name))");
        byte[] raw = {0, 1, 2, -1, '\'', '\\'};
        try (PreparedStatement insert = prepare(
                "INSERT INTO kinds (tiny, big, ubig, price, ratio, at, day, span, name, raw)"
                        + " VALUES (?,?,?,?,?,?,?,?,?,?)",
                -128, Long.MIN_VALUE, "18446744073709551615",
                new BigDecimal("-1234567890123456.7891"), 0.1, "2026-11-21 23:59:59.123456",
                "2024-02-29", "-838:59:59", "Grüße, 世界 🌊", raw)) {
            expect(insert.executeUpdate(), 1);
            try (ResultSet keys = insert.getGeneratedKeys()) {
                keys.next();
                expect(keys.getLong(1), 1L);
            }
        }
        try (PreparedStatement select = prepare("SELECT * FROM kinds WHERE id = ?", 1);
                ResultSet row = select.executeQuery()) {
            row.next();
            expect(row.getInt("tiny"), -128);
            expect(row.getLong("big"), Long.MIN_VALUE);
            expect(row.getObject("ubig"), new BigInteger("18446744073709551615"));
            expect(row.getBigDecimal("price"), new BigDecimal("-1234567890123456.7891"));
            expect(row.getDouble("ratio"), 0.1);
            expect(row.getString("at"), "2026-11-21 23:59:59.123456");
            expect(row.getString("day"), "2024-02-29");
            expect(row.getString("name"), "Grüße, 世界 🌊");
            expect(Arrays.equals(row.getBytes("raw"), raw), true);
        }
        expect(update("INSERT INTO kinds (tiny) VALUES (?)", (Object) null), 1);
        expect(single("SELECT tiny FROM kinds WHERE id = ?", 2), null);

        expectError(1062, "INSERT INTO kinds (id) VALUES (?)", 1);
        expectError(1146, "INSERT INTO missing VALUES (?)", 1);
        expectError(1064, "SELEC 1");

        run("CREATE TABLE account (id INT PRIMARY KEY, owner INT NOT NULL,"
                + " cents BIGINT NOT NULL, KEY (owner))");
        try (PreparedStatement insert = connection.prepareStatement(
                "INSERT INTO account VALUES (?, ?, 100)")) {
            for (int i = 0; i < 100; i++) {
                insert.setInt(1, i);
                insert.setInt(2, i % 10);
                insert.addBatch();
            }
            insert.executeBatch();
        }
        connection.setAutoCommit(false);
        connection.setTransactionIsolation(Connection.TRANSACTION_SERIALIZABLE);
        for (boolean commit : new boolean[] {false, true}) {
            expect(update("UPDATE account SET cents = cents - ? WHERE id = ?", 50, 1), 1);
            expect(update("UPDATE account SET cents = cents + ? WHERE id = ?", 50, 2), 1);
            if (commit) {
                connection.commit();
            } else {
                connection.rollback();
            }
            expect(single("SELECT cents FROM account WHERE id = ?", 1), commit ? 50L : 100L);
        }
        connection.commit();
        connection.setAutoCommit(true);
        expect(single("SELECT SUM(cents) FROM account"), new BigDecimal(10000));
        expect(single("SELECT COUNT(*) FROM account a JOIN account b ON b.id = a.owner"
                + " WHERE a.owner = ?", 3), 10L);

        int columns = 0;
        try (ResultSet meta = connection.getMetaData()
                .getColumns("client_java", null, "kinds", "%")) {
            while (meta.next()) {
                columns++;
            }
        }
        expect(columns, 11);

        run("CREATE TABLE large (id INT PRIMARY KEY, body LONGBLOB)");
        byte[] body = new byte[17 << 20];
        for (int i = 0; i < body.length; i++) {
            body[i] = (byte) (i % 251);
        }
        expect(update("INSERT INTO large VALUES (?, ?)", 1, body), 1);
        expect(Arrays.equals((byte[]) single("SELECT body FROM large"), body), true);

        run("DROP DATABASE client_java");
        connection.close();
        System.out.println("java: ok");
    }
}
