//! One history over many settings: every read answers as the model does, and so the same under all of them.
//!
//! A history says what is written and what is asked, and when a table is worked on, split, joined, closed or crashed. It says nothing of
//! how: sizes, levels, reuse, codings, tiers, threads and the order of compactions are a [`Variation`], and another one after each
//! opening. `SPILLWAY_SEED` says which histories are run, `SPILLWAY_ROUNDS` how many.

mod history;
mod merges;
mod model;
mod reads;
mod run;
mod variation;

use history::steps_of;
use run::Run;

use super::*;
use crate::source::met;

/// Of each history.
const RUNS: u64 = 3;

/// What was seen to happen, over all runs.
#[derive(Default, Debug)]
struct Seen {
    compactions: [u64; Kind::ALL.len()],
    /// Merges that were done in two ways.
    compared: u64,
    flushes: u64,
    straight_flushes: u64,
    splits: u64,
    joins: u64,
    moves: u64,
    dictionaries: usize,
    reads: u64,
    openings: u64,
    restores: u64,
}

/// V1, W1, E4: whatever the settings, one history answers every read in one way.
#[test]
fn one_history_answers_the_same_under_all_settings() {
    let number = |name| std::env::var(name).ok().and_then(|value: String| value.parse().ok());
    let first: u64 = number("SPILLWAY_SEED").unwrap_or(3);
    let rounds = number("SPILLWAY_ROUNDS").unwrap_or(6);
    let mut seen = Seen::default();
    met::lent();
    for seed in first..first + rounds {
        let slot_bytes = 16 << 10 << (2 * (seed % 2));
        let steps = steps_of(seed, 700, slot_bytes as u64);
        for number in 0..RUNS {
            let mut run = Run::new(seed * 100 + number, &mut seen, slot_bytes);
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                steps.iter().for_each(|step| run.step(step));
                run.finish();
            }));
            if let Err(panic) = done {
                eprintln!("SPILLWAY_SEED={seed}, run {number}: {:?}", run.variation);
                std::panic::resume_unwind(panic);
            }
        }
    }
    let lent = met::lent();
    eprintln!("{seen:?}, lent {lent:?}");
    if std::env::var_os("SPILLWAY_SEED").is_none() {
        // Nothing was left out that does not hang on threads' turns.
        let Seen { compactions, flushes, straight_flushes, splits, joins, moves, .. } = &seen;
        let all = [*flushes, *straight_flushes, *splits, *joins, *moves, seen.dictionaries as u64];
        assert!(
            seen.restores > 0
                && seen.compared > 500
                && all.iter().chain(&compactions[..4]).all(|count| *count > 0),
            "{seen:?}"
        );
        met::check_all(&lent, 20);
    }
}
