//! Some histories of the deterministic simulation, from a seed that follows from the commit:
//! `make simulate` runs more of them, optimized.
#![cfg(debug_assertions)]

use std::process::Command;

const HISTORIES: u64 = 100;

/// From the hash of the commit that is checked out, or 1 outside of a repository.
fn seed() -> u64 {
    let arguments = ["rev-parse", "--short=9", "HEAD"];
    let hash = Command::new("git").args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output();
    let hash = hash.ok().and_then(|output| String::from_utf8(output.stdout).ok());
    hash.and_then(|hash| u64::from_str_radix(hash.trim(), 16).ok()).unwrap_or(1)
}

#[test]
fn histories_of_a_seed_that_changes_with_the_commit_pass() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_simulate"));
    command.args(["--jobs=2", "--no-shrink", "--keep-going"]);
    command.args([format!("--from={}", seed()), format!("--seeds={HISTORIES}")]);
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.starts_with(&format!("{HISTORIES} histories in ")), "{text}");
}
