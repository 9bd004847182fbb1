use clap::Parser;
use spillway::Mechanism;

use super::run::run;
use super::series::{Run, WaveSecond};
use super::{WaveArgs, plot};
use crate::store::{Done, Pair, SpillwayStores, Store, Stores};

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    wave: WaveArgs,
}

fn args(more: &str) -> WaveArgs {
    let tiny = "test --memory-mib 32 --rows 900 --before 1 --seconds 1 --capacity-seconds 2";
    Command::parse_from(tiny.split(' ').chain(more.split_whitespace())).wave
}

/// Spillway, as a store whose commits block their thread.
struct Waiting;

impl Stores for Waiting {
    fn name(&self) -> String {
        "waiting".to_owned()
    }

    fn settings(&self) -> String {
        String::new()
    }

    fn open(&self, dir: &std::path::Path, memory_bytes: usize) -> Result<Box<dyn Store>, String> {
        SpillwayStores::default().open(dir, memory_bytes)
    }
}

#[test]
fn a_wave_at_a_rate_is_recorded_second_by_second() {
    let dir = tempfile::tempdir().unwrap();
    let args = args("--rate 610 --threads 2 --waiting-threads 3 --quiet-threads 2");
    let plan = args.plan().unwrap();
    let stores: [&dyn Stores; 2] = [&SpillwayStores::default(), &Waiting];
    let runs = stores.map(|stores| run(stores, &plan, dir.path()).unwrap());
    for run in &runs {
        assert_eq!(run.rates, (5.0, 610.0));
        assert_eq!(run.seconds.len(), 2);
        assert!(run.before.operations_per_s > 0.0 && run.step.p99_us > 0.0, "{run:?}");
        assert!(run.seconds.iter().all(|second| second.resident_bytes > 0));
        assert!(run.verdict()[0].starts_with("p99 of the step over before"));
    }
    let report = args.phases(&runs).to_string();
    assert!(report.contains("waiting") && report.contains("| step"), "{report}");
    let picture = dir.path().join("wave.svg");
    plot::draw(&runs, &picture).unwrap();
    let picture = std::fs::read_to_string(picture).unwrap();
    assert!(picture.starts_with("<svg") && picture.contains("waiting"));
}

#[test]
fn without_a_rate_the_store_says_what_it_bears() {
    let dir = tempfile::tempdir().unwrap();
    let plan = args("--share 0.001 --skew 0 --threads 2").plan().unwrap();
    let run = run(&SpillwayStores::default(), &plan, dir.path()).unwrap();
    assert!(run.rates.1 > 0.0 && run.rates.0 * 122.0 - run.rates.1 < 1.0, "{:?}", run.rates);
}

/// Accepts commits and reports their failure only when asked to lead.
struct Failing(parking_lot::Mutex<Vec<Done>>);

impl Stores for Failing {
    fn name(&self) -> String {
        "failing".to_owned()
    }

    fn settings(&self) -> String {
        String::new()
    }

    fn asynchronous(&self) -> bool {
        true
    }

    fn open(&self, _: &std::path::Path, _: usize) -> Result<Box<dyn Store>, String> {
        Ok(Box::new(Failing(parking_lot::Mutex::default())))
    }
}

impl Store for Failing {
    fn commit(&self, _: &[Pair<'_>], _: bool) -> Result<(), String> {
        Ok(())
    }

    fn begin(&self, _: &[Pair<'_>], done: Done) -> Result<(), String> {
        self.0.lock().push(done);
        Ok(())
    }

    fn lead(&self) -> bool {
        let begun = std::mem::take(&mut *self.0.lock());
        let led = !begun.is_empty();
        begun.into_iter().for_each(|done| done.tell(Err("the disk is gone".to_owned())));
        led
    }

    fn get(&self, _: &[u8], _: &mut Vec<u8>) -> Result<bool, String> {
        Ok(false)
    }

    fn seek(&self, _: &[u8], _: usize, _: &mut dyn FnMut(&[u8], &[u8])) -> Result<usize, String> {
        Ok(0)
    }
}

#[test]
fn mechanisms_are_left_out_one_by_one() {
    let args = args("--without throttle,large-level0,pacing");
    let of = |mechanism: &_| SpillwayStores::without(*mechanism).database_settings(0).without;
    let without: Vec<_> = args.without.iter().map(of).collect();
    let [throttle, level0] = [Mechanism::Throttle, Mechanism::LargeLevel0];
    assert_eq!(without, [[throttle], [level0], [Mechanism::Pacing]]);
    assert_eq!(SpillwayStores::default().database_settings(0).without, []);
}

#[test]
fn a_failure_ends_the_run() {
    let dir = tempfile::tempdir().unwrap();
    let of = |reads: &str| {
        let plan = args(&format!("--rate 500 --reads-percent {reads}")).plan().unwrap();
        run(&Failing(parking_lot::Mutex::default()), &plan, dir.path()).unwrap_err()
    };
    assert!(of("0").contains("the disk is gone"));
    assert!(of("100").contains("is missing"));
}

#[test]
fn the_verdict_is_about_the_step() {
    let second = |ended| WaveSecond { ended, memory_bytes: ended, ..WaveSecond::default() };
    let run = Run {
        budget_bytes: 100,
        before_s: 1,
        seconds: [1, 50, 100, 110, 40].map(second).to_vec(),
        ..Run::default()
    };
    assert_eq!(run.lowest_over_median(), 0.4);
    assert!(run.verdict()[2].contains(" 1.10 as it counts"), "{:?}", run.verdict());
}
