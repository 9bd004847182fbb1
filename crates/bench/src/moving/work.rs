//! The reads, and the jumps.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use indicatif::ProgressBar;
use spillway_base::clock::{self, Clock};
use spillway_base::rng::Rng;

use super::series::{Series, Window};
use super::subject::ReadTarget;
use crate::store::by_threads;

/// Where the hot rows are.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Where {
    /// Neighbours.
    Together,
    /// Random rows.
    Scattered,
}

/// The parameters of a run.
#[derive(Clone, Debug)]
pub(super) struct MovingPlan {
    pub(super) rows: u64,
    pub(super) hot_rows: u64,
    /// How many reads in a hundred are of hot rows.
    pub(super) hot_percent: u64,
    /// How long a set of rows is hot.
    pub(super) every: Duration,
    pub(super) jumps: usize,
    pub(super) window: Duration,
    pub(super) threads: u64,
    pub(super) seed: u64,
}

impl MovingPlan {
    /// A row to read while a set is hot.
    pub(super) fn draw(&self, set: u64, place: Where, rng: &mut Rng) -> u64 {
        if rng.below(100) >= self.hot_percent {
            return rng.below(self.rows);
        }
        // Sets are apart, so that none shares rows with the one before, or hardly any if they are
        // scattered.
        let first = set * (self.rows / (self.jumps as u64 + 1));
        let row = first + rng.below(self.hot_rows);
        match place {
            Where::Together => row,
            Where::Scattered => Rng::new(row ^ self.seed).below(self.rows),
        }
    }
}

/// Reads until the time of the last hot set is over; `bar` advances by one for each window.
pub(super) fn run(
    subject: &dyn ReadTarget,
    plan: &MovingPlan,
    place: Where,
    bar: &ProgressBar,
) -> Result<Series, String> {
    let (set, reads, ended) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let readers = scope.spawn(|| {
            let read = by_threads(plan.threads, |thread| {
                read(subject, plan, place, thread, (&set, &reads, &ended))
            });
            // The watching thread must not wait for reads that will not come.
            ended.store(true, Ordering::Relaxed);
            read
        });
        let series = watch(subject, plan, (&set, &reads, &ended), bar);
        ended.store(true, Ordering::Relaxed);
        let read = readers.join().unwrap_or_else(|_| Err("a reader panicked".to_owned()));
        read.and(series)
    })
}

/// The state that readers and the watching thread share: the hot set, the number of reads, and the
/// end flag.
type Shared<'a> = (&'a AtomicU64, &'a AtomicU64, &'a AtomicBool);

fn read(
    subject: &dyn ReadTarget,
    plan: &MovingPlan,
    place: Where,
    thread: u64,
    (set, reads, ended): Shared<'_>,
) -> Result<u64, String> {
    let mut reader = subject.reader()?;
    let mut rng = Rng::new(plan.seed ^ ((thread + 1) << 32));
    let mut done = 0;
    while !ended.load(Ordering::Relaxed) {
        reader(plan.draw(set.load(Ordering::Relaxed), place, &mut rng))?;
        reads.fetch_add(1, Ordering::Relaxed);
        done += 1;
    }
    Ok(done)
}

/// Measures window by window, and moves the hot set.
fn watch(
    subject: &dyn ReadTarget,
    plan: &MovingPlan,
    (set, reads, ended): Shared<'_>,
    bar: &ProgressBar,
) -> Result<Series, String> {
    let mut series = Series::default();
    let look = || Ok::<_, String>((clock::now(), reads.load(Ordering::Relaxed), subject.missed()?));
    let mut before = look()?;
    for number in 0..=plan.jumps {
        set.store(number as u64, Ordering::Relaxed);
        let begin = clock::now();
        while clock::now() - begin < plan.every && !ended.load(Ordering::Relaxed) {
            Clock::system().sleep(plan.window);
            let now = look()?;
            series.0.push(Window {
                set: number,
                since_s: (now.0 - begin).as_secs_f64(),
                seconds: (now.0 - before.0).as_secs_f64(),
                reads: (now.1 - before.1) as f64,
                missed: now.2 - before.2,
            });
            before = now;
            bar.inc(1);
        }
    }
    Ok(series)
}
