//! No other user can read the files that the commands write, for any umask.
#![allow(missing_docs)]

use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The command, with a umask that hides nothing.
fn open_handed(args: &[&str]) -> Command {
    let mut command = Command::new("sh");
    let run = "umask 0; exec \"$0\" \"$@\"";
    command.args(["-c", run, env!("CARGO_BIN_EXE_spillway")]).args(args);
    command
}

fn below(path: &Path, found: &mut Vec<PathBuf>) {
    found.push(path.to_owned());
    if path.is_dir() {
        for entry in std::fs::read_dir(path).unwrap() {
            below(&entry.unwrap().path(), found);
        }
    }
}

#[test]
fn files_and_folders_are_for_their_user_alone() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (data, log, backups, copy) = (at("data"), at("log"), at("backups"), at("copy"));
    let tier = format!("hdd={}", at("tier"));
    let places = ["--data", &data, "--log-dir", &log];
    let sql =
        "CREATE TABLE test.t (id INT PRIMARY KEY); INSERT INTO test.t VALUES (1); FLUSH TABLES";
    let certificate = "tls/server-key.pem";
    for (args, last) in [
        (
            &[&["serve", "--port", "0", "--tier", &tier], &places[..]].concat()[..],
            Some("connect with:"),
        ),
        (&[&["sql"], &places[..], &["-e", sql]].concat(), None),
        (
            &["backup", "create", &backups, "--data", &data, "--log-dir", &log, "--tier", &tier],
            None,
        ),
        (&["restore", &backups, &copy], None),
    ] {
        let mut child = open_handed(args).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        if let Some(last) = last {
            assert!(lines.any(|line| line.starts_with(last)));
            let pid = child.id().to_string();
            assert!(Command::new("kill").arg(pid).status().unwrap().success());
        }
        lines.for_each(drop);
        assert!(child.wait().unwrap().success(), "{args:?}");
    }
    let mut found = Vec::new();
    for place in [&data, &log, &at("tier"), &backups, &copy] {
        below(Path::new(place), &mut found);
    }
    assert!(found.contains(&Path::new(&data).join(certificate)) && found.len() > 20, "{found:?}");
    for path in found {
        let mode = std::fs::metadata(&path).unwrap().mode() & 0o777;
        let own = if path.is_dir() { 0o700 } else { 0o600 };
        // A certificate is public, and its folder is not.
        let open = if path.ends_with("server-cert.pem") { 0o644 } else { own };
        assert!([own, open].contains(&mode), "{} has {mode:o}", path.display());
    }
    // A folder that others can use is not opened.
    std::fs::set_permissions(&log, std::fs::Permissions::from_mode(0o750)).unwrap();
    let args = [&["sql"], &places[..], &["-e", "SELECT 1"]].concat();
    let refused = open_handed(&args).output().unwrap();
    let told = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && told.contains("chmod 700"), "{told}");
}
