//! Histories of the simulation in which background jobs have work that they lack in most histories.
//! The histories print what was done. Each test fails if a job had nothing to do.
#![cfg(debug_assertions)]

use std::process::Command;

/// Runs histories with these figures, and checks that each of the named sums is above 0.
fn histories(figures: &[&str], sums: &[&str]) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_simulate"));
    command.args(["--jobs=2", "--no-shrink", "--from=1", "--seeds=10", "sql=0", "clients=3"]);
    let output = command.args(figures).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    for name in sums {
        let sum = text.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix('='));
        let sum: u64 = sum.unwrap_or_else(|| panic!("no {name}: {text}")).parse().unwrap();
        assert!(sum > 0, "{figures:?}, {name}: {text}");
    }
}

#[test]
fn rows_are_evicted_and_read_back() {
    let sums = ["memory_engine_evicted_total", "memory_engine_log_reads_total"];
    histories(&["beside=9", "engines=3", "transactions=30"], &sums);
}

#[test]
fn segments_are_compacted_and_released() {
    let sums = ["memory_engine_compacted_bytes_total", "memory_engine_released_segments_total"];
    histories(&["beside=3", "engines=3", "segment_kib=8", "value_bytes=3000", "keys=96"], &sums);
}

#[test]
fn transactions_spill_and_their_writes_are_folded() {
    let sums = ["spilled_commits_total", "spilled_commits_folded_total"];
    histories(&["spill_bytes=100", "value_bytes=200", "engines=1"], &sums);
}

#[test]
fn extents_move_between_devices() {
    let figures = ["tiers=7", "lives=3", "beside=3", "engines=0"];
    histories(&figures, &["tiered_moved_bytes_total"]);
}

#[test]
fn commits_are_refused_on_a_full_disk_and_space_is_freed() {
    let sums = ["refused_on_full_disk", "freed_on_full_disk"];
    histories(&["faults=64", "value_bytes=3000", "transactions=30", "segment_kib=8"], &sums);
}
