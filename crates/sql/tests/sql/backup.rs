//! Tests of the statement BACKUP TO.

use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use crate::common::{code, in_memory, instance_of, run};
use spillway::backup::Repository;
use spillway::{Database, Settings};
use spillway_base::thread;

#[test]
fn a_statement_backs_up_all_that_is_committed_for_whoever_may() {
    let folder = std::env::temp_dir().join(format!("spillway-backup-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let backups = folder.join("backups").display().to_string();
    let sql = format!("BACKUP TO '{backups}'");
    let instance = in_memory();
    let mut root = instance.session("root", "localhost", 1);
    run(&mut root, "CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY)").unwrap();
    run(&mut root, "INSERT INTO d.t VALUES (1), (2); CREATE USER u").unwrap();
    let mut user = instance.session("u", "10.0.0.1", 2);
    assert_eq!(code(&mut user, &sql), 1227);
    run(&mut root, "GRANT BACKUP_ADMIN ON *.* TO u").unwrap();
    run(&mut root, "BEGIN; INSERT INTO d.t VALUES (3)").unwrap();
    let told = run(&mut user, &sql).unwrap();
    assert!(told[0].starts_with("1 "), "{told:?}");
    run(&mut root, "COMMIT").unwrap();
    let told = run(&mut root, &format!("{sql} RATE_LIMIT = 1000000000")).unwrap();
    assert!(told[0].starts_with("2 "), "{told:?}");
    for (wrong, number) in [
        ("BACKUP TO 'relative'", 1210),
        ("BACKUP", 1064),
        ("BACKUP INTO '/x'", 1064),
        ("BACKUP TO '/x' FAST", 1064),
        ("BACKUP TO '/x' RATE_LIMIT = 1 2", 1064),
    ] {
        assert_eq!(code(&mut root, wrong), number, "{wrong}");
    }
    let repository = Repository::open(&backups).unwrap();
    for (number, rows) in [(1, "2"), (2, "3")] {
        let to = folder.join(number.to_string());
        repository.restore(Some(number), &to, &mut |_, _| Ok(())).unwrap();
        let db = Database::open(&to, Settings::default()).unwrap();
        let restored = instance_of(db.clone()).unwrap();
        let mut root = restored.session("root", "localhost", 1);
        assert_eq!(run(&mut root, "SELECT COUNT(*) FROM d.t").unwrap(), [rows]);
        drop(root);
        restored.close();
        db.close().unwrap();
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Folders that cannot hold backups are refused as wrong arguments, and nothing is written there.
#[test]
fn folders_that_backups_cannot_be_in_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let mut settings = Settings::default();
    settings.log_dir = Some(at("log"));
    let db = Database::open(at("data"), settings).unwrap();
    let instance = instance_of(db.clone()).unwrap();
    let mut root = instance.session("root", "localhost", 1);
    let mut backup = |path: &Path| code(&mut root, &format!("BACKUP TO '{}'", path.display()));
    symlink(at("data"), at("link")).unwrap();
    symlink(at("data").join("new"), at("dangling")).unwrap();
    std::fs::create_dir(at("other")).unwrap();
    std::fs::write(at("other").join("file"), "kept").unwrap();
    for path in [
        "data",
        "data/new",
        "data/tiered/new",
        "log",
        "log/new",
        "link",
        "link/new",
        "dangling",
        "new/../data/new",
        "other",
        "",
    ] {
        assert_eq!(backup(&at(path)), 1210, "{path}");
        assert!(!at("data/new").exists() && !at("log/new").exists(), "{path}");
    }
    // A folder that other users can access is refused, and a link within one is not followed.
    let shared = at("shared");
    assert_eq!(backup(&shared), 0);
    std::fs::set_permissions(&shared, Permissions::from_mode(0o755)).unwrap();
    assert_eq!(backup(&shared), 1210);
    std::fs::set_permissions(&shared, Permissions::from_mode(0o700)).unwrap();
    symlink(at("other").join("file"), shared.join("000002.log")).unwrap();
    assert_eq!(backup(&shared), 1030);
    assert_eq!(std::fs::read(at("other").join("file")).unwrap(), b"kept");
    assert_eq!(backup(&shared), 0);
    // With a root, only folders within it are accepted, however they are named.
    std::fs::create_dir(at("root")).unwrap();
    symlink(at("root"), at("to_root")).unwrap();
    symlink(&shared, at("root").join("out")).unwrap();
    instance.set_global("secure_file_priv", at("root").display().to_string());
    for path in ["shared", "root/out", "root/../shared", "rooted", "new"] {
        assert_eq!(backup(&at(path)), 1290, "{path}");
    }
    for path in ["root/a", "to_root/a"] {
        assert_eq!(backup(&at(path)), 0, "{path}");
    }
    instance.close();
    db.close().unwrap();
}

/// KILL ends the backup of another session while the backup waits because of its speed limit, and
/// nothing of the backup is left.
#[test]
fn a_backup_is_ended_by_another_session() {
    let folder = std::env::temp_dir().join(format!("spillway-killed-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let db = Database::open_in_memory(Settings::default()).unwrap();
    let instance = instance_of(db.clone()).unwrap();
    let mut root = instance.session("root", "localhost", 1);
    run(&mut root, "CREATE TABLE test.t (id INT PRIMARY KEY); INSERT INTO test.t VALUES (1)")
        .unwrap();
    db.flush().unwrap();
    for (id, kill) in [(8, "KILL QUERY 8"), (9, "KILL 9")] {
        let sql = format!("BACKUP TO '{}' RATE_LIMIT = 1", folder.display());
        let mut slow = instance.session("root", "localhost", id);
        let slow = thread::spawn("backup", move || code(&mut slow, &sql)).unwrap();
        let extents = folder.join("extents");
        while std::fs::read_dir(&extents).map_or(0, Iterator::count) == 0 {
            assert!(!slow.is_finished());
            std::thread::yield_now();
        }
        run(&mut root, kill).unwrap();
        assert_eq!(slow.join().unwrap(), 1317, "{kill}");
        assert!(Repository::open(&folder).unwrap().numbers().unwrap().is_empty());
        assert_eq!(std::fs::read_dir(&extents).unwrap().count(), 0);
    }
    assert_eq!(code(&mut root, "KILL 9"), 1094);
    assert_eq!(code(&mut root, &format!("BACKUP TO '{}'", folder.display())), 0);
    std::fs::remove_dir_all(&folder).unwrap();
}
