//! Runs histories of the simulation in the tests' own build.

use std::collections::BTreeMap;
use std::process::Command;

/// Runs histories with these figures. Returns the sums that they print.
pub(crate) fn histories(figures: &[&str], seeds: u64) -> BTreeMap<String, u64> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_simulate"));
    command.args(["--jobs=2", "--no-shrink", "--from=1", &format!("--seeds={seeds}")]);
    let output = command.args(figures).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let sums = text.lines().filter_map(|line| line.trim().split_once('='));
    sums.filter_map(|(name, sum)| Some((name.to_owned(), sum.parse().ok()?))).collect()
}
