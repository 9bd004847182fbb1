//! Some histories of the deterministic simulation, from a seed that depends on the commit.
//! `make simulate` runs more of them, in an optimized build.
#![cfg(debug_assertions)]

use std::process::Command;

use spillway_sim::sweep::commit_seed;

const HISTORIES: u64 = 100;

#[test]
fn histories_of_a_seed_that_changes_with_the_commit_pass() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_simulate"));
    command.args(["--jobs=2", "--no-shrink", "--keep-going"]);
    command.args([format!("--from={}", commit_seed()), format!("--seeds={HISTORIES}")]);
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.starts_with(&format!("{HISTORIES} histories in ")), "{text}");
}
