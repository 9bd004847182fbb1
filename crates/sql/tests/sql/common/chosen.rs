//! Chooses the cases that a test runs. A test runs only a part of its cases, which the hash of the
//! checked-out commit selects. With several rounds (`SPILLWAY_ROUNDS`), it runs all cases.

use std::process::Command;

/// One in `stride` of the cases, or all if there are several rounds.
pub(crate) fn some_of<T>(cases: impl IntoIterator<Item = T>, stride: usize) -> Vec<T> {
    let stride = if rounds() > 1 { 1 } else { stride };
    cases.into_iter().skip(commit_seed() as usize % stride).step_by(stride).collect()
}

/// How many random cases a test runs: one in `stride`, or all if there are several rounds.
pub(crate) fn some_random(cases: u64, stride: u64) -> u64 {
    if rounds() > 1 { cases } else { cases / stride }
}

pub(crate) fn rounds() -> u64 {
    let rounds = std::env::var("SPILLWAY_ROUNDS").ok();
    rounds.and_then(|rounds| rounds.parse().ok()).unwrap_or(1)
}

/// A number from the hash of the checked-out commit; 1 outside a repository.
pub(crate) fn commit_seed() -> u64 {
    let arguments = ["rev-parse", "--short=9", "HEAD"];
    let hash = Command::new("git").args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output();
    let hash = hash.ok().and_then(|output| String::from_utf8(output.stdout).ok());
    hash.and_then(|hash| u64::from_str_radix(hash.trim(), 16).ok()).unwrap_or(1)
}
