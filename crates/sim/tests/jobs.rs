//! Histories of the simulation that give work to background jobs which have none in most histories.
//! Each history prints how much work these jobs did. A test fails if one of its jobs had nothing to
//! do.
#![cfg(debug_assertions)]

mod runs;

/// Runs histories with these figures, and checks that each of the named sums is above 0.
fn histories(figures: &[&str], sums: &[&str]) {
    let of_library = [&["sql=0", "clients=3"], figures].concat();
    let found = runs::histories(&of_library, 10);
    for name in sums {
        assert!(found[*name] > 0, "{figures:?}, {name}: {found:?}");
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
    let figures = ["faults=64", "value_bytes=3000", "transactions=30", "segment_kib=8"];
    histories(&[&figures[..], &["keys=96"]].concat(), &sums);
}

/// SIMULATION-15.
#[test]
fn a_table_that_fills_the_disk_is_dropped_or_emptied() {
    for sql in ["sql=0", "sql=1"] {
        let figures = ["faults=256", "beside=0", "segment_kib=128", "lanes=1", "keys=8"];
        let narrow = ["clients=1", "value_bytes=200", "lives=1", sql];
        histories(&[&figures[..], &narrow].concat(), &["emptied_on_full_disk"]);
    }
}
