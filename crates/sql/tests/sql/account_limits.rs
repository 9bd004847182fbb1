//! Tests of the resource limits of accounts, and of the block after failed logins (QUOTA-1 to
//! QUOTA-3, LOCKOUT-1 to LOCKOUT-3, ACCOUNT-4).

use std::time::Duration;

use crate::common::{code, root, run};
use spillway::{Database, Settings};
use spillway_base::clock::Clock;
use spillway_sql::{Instance, Session, SqlError};

const HOUR: Duration = Duration::from_secs(3_600);
const SECOND: Duration = Duration::from_secs(1);

/// An instance with a stopped clock and a table.
fn instance() -> (Instance, Clock) {
    let clock = Clock::manual();
    let db = Database::open_in_memory(Settings::default()).unwrap();
    let instance = Instance::open_with_clock(db, clock.clone()).unwrap();
    run(&mut root(&instance), "CREATE TABLE test.t (a INT); INSERT INTO test.t VALUES (1)")
        .unwrap();
    (instance, clock)
}

fn define(instance: &Instance, sql: &str) {
    run(&mut root(instance), sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
}

/// Connects as a client that is authenticated as a user.
fn connect(instance: &Instance, user: &str, id: u64) -> Result<Session, SqlError> {
    let account = instance.user(user, "10.0.0.1").unwrap().account();
    instance.connect(&account, "10.0.0.1", id)
}

fn refused(instance: &Instance, user: &str) -> u16 {
    connect(instance, user, 99).map(drop).map_or_else(|error| error.code, |()| 0)
}

/// Records a login attempt; `known` tells whether the password was correct.
fn tries(instance: &Instance, user: &str, known: bool) -> Result<(), SqlError> {
    let user = instance.user(user, "10.0.0.1").unwrap();
    instance.tried(&user, "10.0.0.1", known)
}

/// QUOTA-1.
#[test]
fn statements_of_an_hour_are_counted_over_all_sessions_of_an_account() {
    let (instance, clock) = instance();
    define(&instance, "CREATE USER u WITH MAX_QUERIES_PER_HOUR 4; GRANT ALL ON test.* TO u");
    define(&instance, "CREATE USER free; GRANT ALL ON test.* TO free");
    let mut one = connect(&instance, "u", 2).unwrap();
    let mut two = connect(&instance, "u", 3).unwrap();
    let mut free = connect(&instance, "free", 4).unwrap();
    // Every kind of statement counts, also one that fails, and each of two in one text.
    assert_eq!(code(&mut one, "SELECT a FROM test.t"), 0);
    assert_eq!(code(&mut two, "SELECT missing FROM test.t"), 1054);
    assert_eq!(code(&mut one, "SET @a = 1; INSERT INTO test.t VALUES (2)"), 0);
    for session in [&mut one, &mut two] {
        let error = run(session, "INSERT INTO test.t VALUES (3)").unwrap_err();
        let text = "User 'u' has exceeded the 'max_queries_per_hour' resource (current value: 4)";
        assert_eq!((error.code, error.state, error.message.as_str()), (1226, "42000", text));
    }
    assert_eq!(run(&mut free, "SELECT COUNT(*) FROM test.t").unwrap(), ["2"]);
    (0..9).for_each(|_| assert_eq!(code(&mut free, "DO 1"), 0));
    // A point read and a prepared statement count as well. Refused statements do not count.
    clock.advance(HOUR - SECOND);
    assert_eq!(code(&mut one, "DO 1"), 1226);
    clock.advance(SECOND);
    assert_eq!(code(&mut one, "PREPARE s FROM 'SELECT 1'"), 0);
    (0..3).for_each(|_| assert_eq!(code(&mut one, "EXECUTE s"), 0));
    assert_eq!(code(&mut one, "EXECUTE s"), 1226);
    assert_eq!(code(&mut two, "DO 1"), 1226);
}

/// QUOTA-1: changes are counted, whichever statement makes them.
#[test]
fn changes_of_an_hour_are_counted() {
    let (instance, clock) = instance();
    define(&instance, "CREATE USER u WITH MAX_UPDATES_PER_HOUR 3; GRANT ALL ON test.* TO u");
    let mut user = connect(&instance, "u", 2).unwrap();
    (0..9).for_each(|_| assert_eq!(code(&mut user, "SELECT a FROM test.t"), 0));
    assert_eq!(code(&mut user, "UPDATE test.t SET a = 2"), 0);
    assert_eq!(code(&mut user, "CREATE TABLE test.n (a INT)"), 0);
    assert_eq!(code(&mut user, "PREPARE s FROM 'INSERT INTO test.n VALUES (1)'"), 0);
    assert_eq!(code(&mut user, "EXECUTE s"), 0);
    for sql in [
        "EXECUTE s",
        "DELETE FROM test.n",
        "REPLACE INTO test.n VALUES (1)",
        "DROP TABLE test.n",
        "ALTER TABLE test.n ADD b INT",
        "TRUNCATE test.n",
    ] {
        let error = run(&mut user, sql).unwrap_err();
        assert_eq!(error.code, 1226, "{sql}: {error}");
        assert!(error.message.contains("'max_updates_per_hour'"), "{error}");
    }
    assert_eq!(run(&mut user, "SELECT COUNT(*) FROM test.n").unwrap(), ["1"]);
    clock.advance(HOUR);
    assert_eq!(code(&mut user, "EXECUTE s"), 0);
}

/// QUOTA-1 and QUOTA-2.
#[test]
fn connections_are_counted_at_once_and_by_the_hour() {
    let (instance, clock) = instance();
    define(&instance, "CREATE USER u WITH MAX_USER_CONNECTIONS 2 MAX_CONNECTIONS_PER_HOUR 3");
    let one = connect(&instance, "u", 2).unwrap();
    let mut two = connect(&instance, "u", 3).unwrap();
    assert_eq!(run(&mut two, "SELECT @@max_user_connections").unwrap(), ["2"]);
    let error = connect(&instance, "u", 4).map(drop).unwrap_err();
    let text = "User 'u' has exceeded the 'max_user_connections' resource (current value: 2)";
    assert_eq!((error.code, error.message.as_str()), (1226, text));
    // A session that is reset still counts as a connection.
    two.reset();
    assert_eq!(refused(&instance, "u"), 1226);
    drop(one);
    drop(connect(&instance, "u", 5).unwrap());
    let error = connect(&instance, "u", 6).map(drop).unwrap_err();
    assert!(error.code == 1226 && error.message.contains("'max_connections_per_hour'"), "{error}");
    clock.advance(HOUR);
    assert_eq!(refused(&instance, "u"), 0);
}

/// QUOTA-2: the variable is for accounts without a limit of their own.
#[test]
fn max_user_connections_is_for_those_without_a_limit_of_their_own() {
    let (instance, _) = instance();
    define(&instance, "CREATE USER u; CREATE USER own WITH MAX_USER_CONNECTIONS 3");
    let first = connect(&instance, "u", 2).unwrap();
    define(&instance, "SET GLOBAL max_user_connections = 1");
    let error = connect(&instance, "u", 3).map(drop).unwrap_err();
    let text = "User u already has more than 'max_user_connections' active connections";
    assert_eq!((error.code, error.state, error.message.as_str()), (1203, "42000", text));
    drop(first);
    let _again = connect(&instance, "u", 3).unwrap();
    let _own: Vec<_> = (0..3).map(|id| connect(&instance, "own", 10 + id).unwrap()).collect();
    assert_eq!(refused(&instance, "own"), 1226);
    let mut root = root(&instance);
    assert_eq!(code(&mut root, "SET SESSION max_user_connections = 5"), 1621);
    assert_eq!(code(&mut root, "SET GLOBAL max_user_connections = 0"), 0);
    assert_eq!(refused(&instance, "u"), 0);
}

/// QUOTA-3.
#[test]
fn counts_begin_anew_when_that_is_asked_for() {
    let (instance, _) = instance();
    define(&instance, "CREATE USER u; CREATE USER v WITH MAX_QUERIES_PER_HOUR 1");
    let mut user = connect(&instance, "u", 2).unwrap();
    let mut other = connect(&instance, "v", 3).unwrap();
    (0..9).for_each(|_| assert_eq!(code(&mut user, "DO 1"), 0));
    let spend = |limit: usize, user: &mut Session| {
        (0..limit).for_each(|_| assert_eq!(code(user, "DO 1"), 0));
        assert_eq!(code(user, "DO 1"), 1226);
    };
    // A limit applies to existing sessions from the time when it is set.
    define(&instance, "ALTER USER u WITH MAX_QUERIES_PER_HOUR 2");
    spend(2, &mut user);
    spend(1, &mut other);
    define(&instance, "ALTER USER u WITH MAX_QUERIES_PER_HOUR 2");
    spend(2, &mut user);
    assert_eq!(code(&mut other, "DO 1"), 1226, "it is another's");
    define(&instance, "ALTER USER u IDENTIFIED BY 'x'");
    assert_eq!(code(&mut user, "DO 1"), 1226, "no limit was set");
    assert_eq!(code(&mut root(&instance), "FLUSH USER_RESOURCES"), 0);
    spend(2, &mut user);
    spend(1, &mut other);
    define(&instance, "GRANT USAGE ON *.* TO u WITH MAX_QUERIES_PER_HOUR 0");
    (0..9).for_each(|_| assert_eq!(code(&mut user, "DO 1"), 0));
    assert_eq!(code(&mut user, "FLUSH USER_RESOURCES"), 1227);
}

/// LOCKOUT-1 and LOCKOUT-2.
#[test]
fn failures_in_a_row_block_an_account_for_days() {
    let (instance, clock) = instance();
    define(
        &instance,
        "CREATE USER u FAILED_LOGIN_ATTEMPTS 3 PASSWORD_LOCK_TIME 2; CREATE USER other",
    );
    let fail = |times: usize| {
        for _ in 0..times {
            tries(&instance, "u", false).unwrap();
        }
    };
    fail(2);
    tries(&instance, "u", true).unwrap();
    fail(2);
    let blocked = |known: bool, left: &str| {
        let error = tries(&instance, "u", known).unwrap_err();
        let text = format!(
            "Access denied for user 'u'@'10.0.0.1'. Account is blocked for 2 day(s) \
             ({left} day(s) remaining) due to 3 consecutive failed logins."
        );
        assert_eq!((error.code, error.message), (3955, text));
    };
    blocked(false, "2");
    blocked(true, "2");
    (0..9).for_each(|_| tries(&instance, "other", false).unwrap());
    clock.advance(24 * HOUR);
    blocked(true, "1");
    clock.advance(24 * HOUR - SECOND);
    blocked(false, "1");
    clock.advance(SECOND);
    // The block has ended, and the count starts at zero.
    fail(2);
    blocked(false, "2");
    for sql in [
        "ALTER USER u ACCOUNT UNLOCK",
        "ALTER USER u FAILED_LOGIN_ATTEMPTS 3",
        "ALTER USER u PASSWORD_LOCK_TIME 2",
        "FLUSH PRIVILEGES",
    ] {
        define(&instance, sql);
        fail(2);
        blocked(false, "2");
    }
    for sql in ["FLUSH USER_RESOURCES", "ALTER USER u WITH MAX_USER_CONNECTIONS 5"] {
        define(&instance, sql);
        blocked(true, "2");
    }
    // LOCKOUT-3.
    define(&instance, "DROP USER u; CREATE USER u FAILED_LOGIN_ATTEMPTS 3 PASSWORD_LOCK_TIME 2");
    tries(&instance, "u", true).unwrap();
    define(&instance, "ALTER USER u FAILED_LOGIN_ATTEMPTS 1 PASSWORD_LOCK_TIME UNBOUNDED");
    let error = tries(&instance, "u", false).unwrap_err();
    assert!(error.message.contains("for unlimited day(s) (unlimited day(s) remaining)"), "{error}");
    clock.advance(24 * HOUR * 40_000);
    assert_eq!(tries(&instance, "u", true).unwrap_err().code, 3955);
    // If either value is zero, there is no limit.
    for sql in [
        "ALTER USER u FAILED_LOGIN_ATTEMPTS 0",
        "ALTER USER u FAILED_LOGIN_ATTEMPTS 2 PASSWORD_LOCK_TIME 0",
    ] {
        define(&instance, sql);
        (0..9).for_each(|_| tries(&instance, "u", false).unwrap());
    }
}

#[test]
fn a_locked_account_lets_nobody_in() {
    let (instance, _) = instance();
    define(&instance, "CREATE USER u ACCOUNT LOCK");
    let error = connect(&instance, "u", 2).map(drop).unwrap_err();
    let text = "Access denied for user 'u'@'10.0.0.1'. Account is locked.";
    assert_eq!((error.code, error.message.as_str()), (3118, text));
    define(&instance, "ALTER USER u ACCOUNT UNLOCK");
    let mut user = connect(&instance, "u", 2).unwrap();
    define(&instance, "ALTER USER u ACCOUNT LOCK");
    assert_eq!(code(&mut user, "DO 1"), 0, "sessions go on");
    assert_eq!(refused(&instance, "u"), 3118);
}

/// ACCOUNT-4 also holds between the check of a password and the start of the session.
#[test]
fn a_session_is_of_the_account_that_was_proved() {
    let (instance, _) = instance();
    define(&instance, "CREATE USER u");
    let proved = instance.user("u", "10.0.0.1").unwrap().account();
    define(&instance, "DROP USER u; CREATE USER u; GRANT ALL ON *.* TO u");
    let refused = instance.connect(&proved, "10.0.0.1", 2).map(drop).unwrap_err();
    assert_eq!(refused.code, 1045);
    // The end of a dropped account's session does not affect sessions of the new account.
    let mut old = connect(&instance, "u", 3).unwrap();
    define(&instance, "DROP USER u; CREATE USER u");
    let _new = connect(&instance, "u", 4).unwrap();
    assert_eq!(code(&mut old, "KILL 4"), 1045);
}

/// The options of an account are stored and shown, and the shown statement creates the same account
/// again.
#[test]
fn limits_are_stored_and_shown() {
    let (instance, _) = instance();
    let mut root = root(&instance);
    let shown = |root: &mut Session, user: &str| {
        run(root, &format!("SHOW CREATE USER {user}")).unwrap().remove(0)
    };
    let tail = "PASSWORD EXPIRE DEFAULT ACCOUNT UNLOCK PASSWORD HISTORY DEFAULT \
                PASSWORD REUSE INTERVAL DEFAULT PASSWORD REQUIRE CURRENT DEFAULT";
    for (options, middle, end) in [
        ("", "", ""),
        ("REQUIRE NONE", "", ""),
        (
            "WITH MAX_QUERIES_PER_HOUR 1 MAX_UPDATES_PER_HOUR 2 MAX_CONNECTIONS_PER_HOUR 3 \
             MAX_USER_CONNECTIONS 4",
            "WITH MAX_QUERIES_PER_HOUR 1 MAX_UPDATES_PER_HOUR 2 MAX_CONNECTIONS_PER_HOUR 3 \
             MAX_USER_CONNECTIONS 4 ",
            "",
        ),
        (
            "PASSWORD_LOCK_TIME UNBOUNDED FAILED_LOGIN_ATTEMPTS 4",
            "",
            " FAILED_LOGIN_ATTEMPTS 4 PASSWORD_LOCK_TIME UNBOUNDED",
        ),
        ("FAILED_LOGIN_ATTEMPTS 4", "", " FAILED_LOGIN_ATTEMPTS 4 PASSWORD_LOCK_TIME 0"),
    ] {
        for plugin in ["mysql_native_password", "caching_sha2_password"] {
            define(&instance, &format!("CREATE USER u IDENTIFIED WITH {plugin} BY 'p' {options}"));
            let made = shown(&mut root, "u");
            let start = format!("CREATE USER `u`@`%` IDENTIFIED WITH '{plugin}' AS '");
            assert!(made.starts_with(&start), "{made}");
            assert!(made.ends_with(&format!("' REQUIRE NONE {middle}{tail}{end}")), "{made}");
            define(&instance, "DROP USER u");
            define(&instance, &made);
            assert_eq!(shown(&mut root, "u"), made);
            define(&instance, "DROP USER u");
        }
    }
    define(&instance, "CREATE USER u IDENTIFIED BY 'x' WITH MAX_USER_CONNECTIONS 4 ACCOUNT LOCK");
    let row = "SELECT max_user_connections, account_locked FROM mysql.user WHERE User = 'u'";
    assert_eq!(run(&mut root, row).unwrap(), ["4 Y"]);
    // A user without the privilege to change accounts does not see its own hash.
    define(&instance, "ALTER USER u ACCOUNT UNLOCK");
    let mut user = connect(&instance, "u", 2).unwrap();
    let own = shown(&mut user, "CURRENT_USER()");
    assert!(own.contains(" AS '<secret>' REQUIRE NONE WITH MAX_USER_CONNECTIONS 4 "), "{own}");
    assert_eq!(code(&mut user, "SHOW CREATE USER root"), 1044);
}

#[test]
fn one_does_not_change_ones_own_limits() {
    let (instance, _) = instance();
    define(&instance, "CREATE USER u WITH MAX_QUERIES_PER_HOUR 100; GRANT SELECT ON test.* TO u");
    let mut user = connect(&instance, "u", 2).unwrap();
    for options in ["WITH MAX_QUERIES_PER_HOUR 0", "ACCOUNT UNLOCK", "FAILED_LOGIN_ATTEMPTS 0"] {
        assert_eq!(code(&mut user, &format!("ALTER USER u IDENTIFIED BY 'x' {options}")), 1227);
    }
    assert!(instance.user("u", "10.0.0.1").unwrap().stored.is_empty(), "nothing of it was done");
    assert_eq!(code(&mut user, "ALTER USER CURRENT_USER() IDENTIFIED BY 'x'"), 0);
    // A GRANT to oneself is refused too.
    define(&instance, "GRANT SELECT ON test.* TO u WITH GRANT OPTION");
    let grant = "GRANT SELECT ON test.* TO u WITH MAX_QUERIES_PER_HOUR 0";
    assert_eq!(code(&mut user, grant), 1227);
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let (instance, _) = instance();
    let mut root = root(&instance);
    for (options, wanted) in [
        ("WITH", 1235),
        ("WITH MAX_STATEMENT_TIME 5", 1235),
        ("WITH MAX_QUERIES_PER_HOUR", 1064),
        ("WITH MAX_QUERIES_PER_HOUR -1", 1064),
        ("WITH MAX_QUERIES_PER_HOUR 'x'", 1064),
        ("MAX_QUERIES_PER_HOUR 5", 1235),
        ("FAILED_LOGIN_ATTEMPTS 32768", 1231),
        ("PASSWORD_LOCK_TIME 32768", 1231),
        ("FAILED_LOGIN_ATTEMPTS UNBOUNDED", 1064),
        ("ACCOUNT", 1064),
        ("ACCOUNT LOCKED", 1064),
        ("PASSWORD EXPIRE", 1235),
        ("PASSWORD HISTORY 5", 1235),
        ("REQUIRE SSL", 1235),
        ("IDENTIFIED WITH mysql_native_password AS '*12'", 1827),
        ("IDENTIFIED WITH caching_sha2_password AS '$A$005$short'", 1827),
        ("IDENTIFIED WITH other AS 'x'", 1524),
    ] {
        let sql = format!("CREATE USER u {options}");
        assert_eq!(code(&mut root, &sql), wanted, "{sql}");
        assert!(instance.user("u", "10.0.0.1").is_none(), "{sql}");
    }
}
