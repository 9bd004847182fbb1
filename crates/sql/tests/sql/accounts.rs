//! Tests of accounts: the privileges to change them, their names, and the last administrator
//! (ACCOUNT-1 to ACCOUNT-5, NAME-5).

use crate::common::{code, in_memory, instance_of, root, run};
use spillway_sql::{Instance, Session};

/// An instance with an administrator of accounts, who has all privileges except SYSTEM_USER, and
/// another user with SYSTEM_USER.
fn instance() -> (Instance, Session) {
    let instance = in_memory();
    let mut root = root(&instance);
    for sql in [
        "CREATE USER admin; GRANT ALL ON *.* TO admin WITH GRANT OPTION",
        "REVOKE SYSTEM_USER ON *.* FROM admin",
        "CREATE USER system; GRANT SYSTEM_USER ON *.* TO system",
        "CREATE USER other; GRANT SELECT ON test.* TO other",
    ] {
        run(&mut root, sql).unwrap();
    }
    let admin = instance.session("admin", "localhost", 2);
    (instance, admin)
}

/// Statements that change an account, which is written as `{U}`.
const TOUCHES: &[&str] = &[
    "ALTER USER {U} IDENTIFIED BY 'x'",
    "ALTER USER IF EXISTS {U} IDENTIFIED BY 'x'",
    "ALTER USER other IDENTIFIED BY 'x', {U} IDENTIFIED BY 'x'",
    "SET PASSWORD FOR {U} = 'x'",
    "SET PASSWORD FOR {U} = PASSWORD('x')",
    "GRANT SELECT ON test.* TO {U}",
    "GRANT SELECT ON test.* TO other, {U}",
    "REVOKE SELECT ON test.* FROM {U}",
    "REVOKE ALL ON *.* FROM {U}",
    "REVOKE ALL PRIVILEGES, GRANT OPTION FROM {U}",
    "DROP USER {U}",
    "DROP USER IF EXISTS other, {U}",
];

#[test]
fn only_a_system_account_touches_a_system_account() {
    for account in ["root", "'root'@'%'", "system"] {
        // A denied statement changes nothing.
        let (instance, mut admin) = instance();
        for statement in TOUCHES {
            let sql = statement.replace("{U}", account);
            let before = run(&mut root(&instance), "SHOW GRANTS FOR other").unwrap();
            // Without privileges for all databases, the user could not even revoke all of them.
            let denied = if sql.contains("ALL") { [1227, 1044] } else { [1227, 1227] };
            assert!(denied.contains(&code(&mut admin, &sql)), "{sql}");
            assert_eq!(run(&mut root(&instance), "SHOW GRANTS FOR other").unwrap(), before);
            assert!(instance.user("root", "localhost").unwrap().stored.is_empty(), "{sql}");
            assert!(instance.user("system", "localhost").is_some(), "{sql}");
        }
    }
    // The administrator may change any other account.
    for statement in TOUCHES.iter().filter(|statement| !statement.contains("other")) {
        let (_instance, mut admin) = instance();
        let sql = statement.replace("{U}", "other");
        assert!([0, 1141, 1227].contains(&code(&mut admin, &sql)), "{sql}");
    }
    // SYSTEM_USER can be granted by users who have it with the GRANT OPTION.
    let (instance, mut admin) = instance();
    let mut system = instance.session("system", "localhost", 3);
    assert_eq!(code(&mut admin, "GRANT SYSTEM_USER ON *.* TO other"), 1227);
    assert_eq!(code(&mut admin, "GRANT ALL ON *.* TO other"), 1227);
    assert_eq!(code(&mut system, "GRANT SYSTEM_USER ON *.* TO other"), 1227);
    assert_eq!(code(&mut root(&instance), "GRANT SYSTEM_USER ON test.* TO other"), 1221);
    assert_eq!(code(&mut root(&instance), "GRANT SYSTEM_USER ON *.* TO other"), 0);
    assert_eq!(code(&mut admin, "DROP USER other"), 1227);
}

#[test]
fn only_a_system_account_kills_its_sessions() {
    let (instance, mut admin) = instance();
    let mut root = root(&instance);
    let _other = instance.session("other", "localhost", 9);
    assert_eq!(code(&mut admin, "KILL 1"), 1095);
    assert_eq!(code(&mut admin, "KILL QUERY 1"), 1095);
    assert_eq!(code(&mut admin, "KILL 9"), 0);
    let mut system = instance.session("system", "localhost", 3);
    assert_eq!(code(&mut system, "KILL 1"), 1095, "it may not kill others' at all");
    run(&mut root, "GRANT CONNECTION_ADMIN ON *.* TO system").unwrap();
    assert_eq!(code(&mut system, "KILL 1"), 0);
}

#[test]
fn the_last_administrator_stays() {
    let (instance, _admin) = instance();
    let mut root = root(&instance);
    for sql in [
        "DROP USER root",
        "DROP USER other, root",
        "REVOKE ALL ON *.* FROM root",
        "REVOKE SYSTEM_USER ON *.* FROM root",
        "REVOKE CREATE USER ON *.* FROM root",
        "REVOKE GRANT OPTION ON *.* FROM root",
        "REVOKE ALL PRIVILEGES, GRANT OPTION FROM root, system",
    ] {
        let error = run(&mut root, sql).unwrap_err();
        assert_eq!(error.code, 1396, "{sql}: {error}");
        assert!(error.message.contains("the last account"), "{error}");
    }
    assert_eq!(code(&mut root, "SHOW GRANTS FOR other"), 0, "nothing of it was done");
    // If there is another administrator, root may be dropped.
    run(&mut root, "CREATE USER boss; GRANT ALL ON *.* TO boss WITH GRANT OPTION").unwrap();
    run(&mut root, "DROP USER root").unwrap();
    let mut boss = instance.session("boss", "localhost", 5);
    assert_eq!(code(&mut boss, "DROP USER boss"), 1396);
    // The owner of the folder may do everything, whatever accounts exist.
    let mut owner = instance.session_of_owner(6);
    run(
        &mut owner,
        "CREATE USER root IDENTIFIED BY 'x'; GRANT ALL ON *.* TO root WITH GRANT OPTION",
    )
    .unwrap();
    assert_eq!(code(&mut boss, "DROP USER boss"), 0);
}

#[test]
fn accounts_have_keys_of_their_own() {
    let (instance, _admin) = instance();
    let mut root = root(&instance);
    let accounts = ["'x'@'y@z'", "'x@y'@'z'", "'x%40y'@'z'", "'x@y@z'@'%'", "'x'@'y'"];
    for (at, account) in accounts.iter().enumerate() {
        run(&mut root, &format!("CREATE USER {account}")).unwrap();
        run(&mut root, &format!("CREATE DATABASE d{at}; GRANT SELECT ON d{at}.* TO {account}"))
            .unwrap();
    }
    let granted = |instance: &Instance, account: &str| {
        let mut root = instance.session("root", "localhost", 7);
        run(&mut root, &format!("SHOW GRANTS FOR {account}")).map(|lines| lines[1].clone())
    };
    let again = instance_of(instance.database().clone()).unwrap();
    for (at, account) in accounts.iter().enumerate() {
        for instance in [&instance, &again] {
            let line = granted(instance, account).unwrap();
            assert!(line.contains(&format!("`d{at}`")), "{account}: {line}");
        }
    }
    run(&mut root, "DROP USER 'x@y'@'z'").unwrap();
    assert_eq!(granted(&instance, "'x@y'@'z'").unwrap_err().code, 1141);
    assert!(granted(&instance, "'x'@'y@z'").is_ok());
}

#[test]
fn an_account_that_is_made_again_is_another() {
    let (instance, _admin) = instance();
    let mut root = root(&instance);
    let mut old = instance.session("other", "localhost", 4);
    assert_eq!(code(&mut old, "USE test"), 0);
    run(&mut root, "ALTER USER other IDENTIFIED BY 'x'").unwrap();
    assert_eq!(code(&mut old, "USE test"), 0);
    run(&mut root, "DROP USER other; CREATE USER other; GRANT ALL ON *.* TO other").unwrap();
    assert_eq!(code(&mut old, "USE test"), 1045);
    assert_eq!(code(&mut old, "SET PASSWORD = 'x'"), 1045);
    assert_eq!(code(&mut old, "CREATE USER more"), 1045);
    old.reset();
    assert_eq!(code(&mut old, "USE test"), 1045);
    let mut new = instance.session("other", "localhost", 5);
    assert_eq!(code(&mut new, "USE test"), 0);
    // An existing session does not get the privileges of an account that is created later.
    let mut nobody = instance.session("later", "localhost", 6);
    run(&mut root, "CREATE USER later; GRANT ALL ON *.* TO later").unwrap();
    assert_eq!(code(&mut nobody, "USE test"), 1045);
}

#[test]
fn names_are_quoted_where_they_are_shown_and_read() {
    let (instance, _admin) = instance();
    let mut root = root(&instance);
    run(&mut root, "CREATE USER 'a`b'@'c`d'; GRANT SELECT ON `e``f`.* TO 'a`b'@'c`d'").unwrap();
    let lines = run(&mut root, "SHOW GRANTS FOR 'a`b'@'c`d'").unwrap();
    assert_eq!(lines[0], "GRANT USAGE ON *.* TO `a``b`@`c``d`");
    assert_eq!(lines[1], "GRANT SELECT ON `e``f`.* TO `a``b`@`c``d`");
    // The shown statements can be run.
    assert_eq!(code(&mut root, &lines[1]), 0);
    assert_eq!(run(&mut root, "SHOW GRANTS FOR `a``b`@`c``d`").unwrap(), lines);
    let own = run(&mut root, "SHOW GRANTS").unwrap();
    for sql in
        ["SHOW GRANTS FOR CURRENT_USER", "SHOW GRANTS FOR CURRENT_USER()", "SHOW GRANTS FOR root"]
    {
        assert_eq!(run(&mut root, sql).unwrap(), own, "{sql}");
    }
    // An error does not show a string literal that may be a password.
    for sql in
        ["CREATE USER v IDENTIFIED 'hidden'", "SET PASSWORD 'hidden'", "DROP USER v 'hidden'"]
    {
        let error = run(&mut root, sql).unwrap_err();
        assert!(!error.message.contains("hidden"), "{error}");
    }
}

#[test]
fn a_host_may_be_a_pattern() {
    let (instance, _admin) = instance();
    let mut root = root(&instance);
    for host in ["%", "10.%", "10.0.0.0/255.255.0.0", "10.0.0.7"] {
        run(&mut root, &format!("CREATE USER 'p'@'{host}'")).unwrap();
    }
    for (client, account) in [
        ("10.0.0.7", "10.0.0.7"),
        ("10.0.0.8", "10.0.0.0/255.255.0.0"),
        ("10.1.0.7", "10.%"),
        ("11.0.0.7", "%"),
        ("localhost", "%"),
    ] {
        assert_eq!(instance.user("p", client).unwrap().host, account, "{client}");
    }
    run(&mut root, "DROP USER 'p'@'%'").unwrap();
    assert!(instance.user("p", "11.0.0.7").is_none());
}

/// Names in errors have no characters that a terminal would obey (NAME-5).
#[test]
fn errors_have_no_control_characters() {
    let (instance, _admin) = instance();
    let mut root = root(&instance);
    for sql in [
        "SELECT * FROM `a\u{1b}[2Jb`.`c\nd`",
        "SELECT `x\u{7}y`",
        "DROP USER 'a\u{1b}b'@'c\nd'",
        "USE `a\rb`",
        "SELECT \u{1b} FROM",
    ] {
        let error = run(&mut root, sql).unwrap_err();
        assert!(!error.message.contains(char::is_control), "{error:?}");
    }
}
