//! A run on one store: load, quiet time, step.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use spillway_base::clock::{self, Clock};
use spillway_base::rng::Rng;

use super::recorder::Recorder;
use super::series::Run;
use crate::keys::Keys;
use crate::machine::resident_bytes;
use crate::measure::{Values, fresh_folder, key, median, progress, remove_folder};
use crate::store::{Completions, Done, Pressure, Store, Stores, load};

/// The parameters of a run.
#[derive(Clone, Debug)]
pub(super) struct WavePlan {
    pub(super) rows: u64,
    pub(super) value_bytes: usize,
    pub(super) memory_bytes: usize,
    pub(super) skew: f64,
    pub(super) reads_percent: u64,
    pub(super) before_s: usize,
    pub(super) step_s: usize,
    /// The rate of the step, as a multiple of the quiet rate.
    pub(super) times: f64,
    pub(super) rate: Rate,
    /// Threads of stores whose commits do not block their thread, and of others.
    pub(super) threads: usize,
    pub(super) waiting_threads: usize,
    /// Threads of the closed loop before the step.
    pub(super) quiet_threads: usize,
    pub(super) seed: u64,
}

/// The rate of the step.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rate {
    /// Operations a second.
    Fixed(f64),
    /// A share of the rate that the store sustains, measured for this long.
    Share(f64, Duration),
}

/// The most commits in flight on one store; further operations wait.
const IN_FLIGHT_MAX: usize = 1 << 16;
/// How long a leader of flushes sleeps when there is nothing to flush.
const IDLE: Duration = Duration::from_micros(100);

/// Runs the plan on a store in a fresh folder, which is removed.
pub(super) fn run(stores: &dyn Stores, plan: &WavePlan, dir: &Path) -> Result<Run, String> {
    let folder = dir.join(stores.name());
    fresh_folder(&folder)?;
    let store = stores.open(&folder, plan.memory_bytes)?;
    let wave = Wave {
        store: &*store,
        asynchronous: stores.asynchronous(),
        plan,
        keys: Keys::new(plan.rows, plan.skew),
        values: Values::new(plan.seed, plan.value_bytes),
    };
    wave.load(&stores.name())?;
    let step = match plan.rate {
        Rate::Fixed(rate) => rate,
        Rate::Share(share, time) => share * wave.capacity(time)?,
    };
    let mut run = wave.measure(step / plan.times, step)?;
    (run.store, run.settings) = (stores.name(), stores.settings());
    drop(store);
    remove_folder(&folder)?;
    Ok(run)
}

struct Wave<'a> {
    store: &'a dyn Store,
    asynchronous: bool,
    plan: &'a WavePlan,
    keys: Keys,
    values: Values,
}

/// One operation of the mix.
enum Operation {
    Read(u64),
    Write(u64),
}

impl Wave<'_> {
    fn load(&self, name: &str) -> Result<(), String> {
        load(self.store, name, self.plan.rows, &self.values)
    }

    fn draw(&self, rng: &mut Rng) -> Operation {
        let row = self.keys.draw(rng);
        if rng.chance(self.plan.reads_percent, 100) {
            Operation::Read(row)
        } else {
            Operation::Write(row)
        }
    }

    fn read(&self, row: u64, value: &mut Vec<u8>) -> Result<(), String> {
        if self.store.get(&key(row), value)? && value.len() == self.plan.value_bytes {
            return Ok(());
        }
        Err(format!("row {row} is missing"))
    }

    fn threads(&self) -> usize {
        if self.asynchronous { self.plan.threads } else { self.plan.waiting_threads }
    }

    /// Operations a second in a closed loop with all threads: the median second of its later half.
    fn capacity(&self, time: Duration) -> Result<f64, String> {
        let until = clock::now() + time;
        let ended = AtomicU64::new(0);
        let mut seconds = Vec::new();
        let bar = progress(time.as_secs());
        bar.set_message("seconds of as much as it bears");
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..self.threads() as u64)
                .map(|thread| {
                    let ended = &ended;
                    scope.spawn(move || {
                        self.closed_loop(thread, until, None, &mut |_| {
                            ended.fetch_add(1, Ordering::Relaxed);
                        })
                    })
                })
                .collect();
            let mut before = 0;
            while clock::now() < until {
                Clock::system().sleep(Duration::from_secs(1));
                let now = ended.load(Ordering::Relaxed);
                seconds.push((now - before) as f64);
                before = now;
                bar.inc(1);
            }
            workers.into_iter().try_for_each(|worker| {
                worker.join().unwrap_or_else(|_| Err("a worker panicked".to_owned()))
            })
        })?;
        bar.finish_and_clear();
        Ok(median(seconds.split_off(seconds.len() / 2)))
    }

    /// One operation after another, each ended before the next begins. With a pace, each begins at
    /// least that long after the one before began; without one, an asynchronous store keeps many
    /// commits in flight.
    fn closed_loop(
        &self,
        thread: u64,
        until: Duration,
        pace: Option<Duration>,
        ended: &mut dyn FnMut(Duration),
    ) -> Result<(), String> {
        let mut rng = Rng::new(self.plan.seed ^ ((thread + 1) << 32));
        let (completions, mut value) = (Completions::new(Duration::ZERO), Vec::new());
        let in_flight = if pace.is_none() { IN_FLIGHT_OF_A_THREAD } else { 1 };
        let mut next = clock::now();
        loop {
            if let Some(pace) = pace {
                Clock::system().sleep(next.saturating_sub(clock::now()));
                next = clock::now().max(next + pace);
            }
            let begun = clock::now();
            if begun >= until {
                break;
            }
            match self.draw(&mut rng) {
                Operation::Read(row) => self.read(row, &mut value)?,
                Operation::Write(row) if self.asynchronous => {
                    let done = completions.one_more(begun);
                    self.store.begin(&[(&key(row), self.values.of(row))], done)?;
                    completions.wait_below(in_flight, || self.store.lead());
                }
                Operation::Write(row) => {
                    self.store.commit(&[(&key(row), self.values.of(row))], true)?;
                }
            }
            ended(begun);
        }
        completions.wait_below(1, || self.store.lead());
        completions.take().map(drop)
    }

    fn measure(&self, quiet_rate: f64, step_rate: f64) -> Result<Run, String> {
        let plan = self.plan;
        let (start, seconds) = (clock::now(), plan.before_s + plan.step_s);
        let recorder = Arc::new(Recorder::new(start, seconds));
        let step = start + Duration::from_secs(plan.before_s as u64);
        let over = AtomicBool::new(false);
        let (samples, left) = std::thread::scope(|scope| {
            let monitor = scope.spawn(|| self.monitor(start, seconds));
            let leader = self.asynchronous.then(|| scope.spawn(|| self.lead_until(&over)));
            let quiet = self.quiet(&recorder, quiet_rate, step);
            let left = quiet.and_then(|()| self.step(&recorder, step, step_rate));
            over.store(true, Ordering::Relaxed);
            if let Some(leader) = leader {
                leader.join().map_err(|_| "the leader of flushes panicked")?;
            }
            let samples = monitor.join().map_err(|_| "the monitor panicked")?;
            Ok::<_, String>((samples, left?))
        })?;
        if let Some(failure) = recorder.failure() {
            return Err(failure);
        }
        let mut waited = 0.0;
        let series = samples.iter().enumerate().map(|(second, (pressure, resident))| {
            let mut figures = recorder.second(second);
            figures.memory_bytes = pressure.memory_bytes;
            figures.resident_bytes = *resident;
            figures.waited_s = pressure.waited_s - waited;
            waited = pressure.waited_s;
            figures
        });
        let mut series: Vec<_> = series.collect();
        if let Some(first) = series.first_mut() {
            // It includes the waits during the load.
            first.waited_s = 0.0;
        }
        Ok(Run {
            rates: (quiet_rate, step_rate),
            budget_bytes: plan.memory_bytes as u64,
            data_bytes: plan.rows * (plan.value_bytes + key(0).len()) as u64,
            before_s: plan.before_s,
            before: recorder.phase(0..plan.before_s),
            step: recorder.phase(plan.before_s..seconds),
            left,
            seconds: series,
            ..Run::default()
        })
    }

    /// Samples the store at the end of each second.
    fn monitor(&self, start: Duration, seconds: usize) -> Vec<(Pressure, u64)> {
        let bar = progress(seconds as u64);
        bar.set_message("seconds of quiet and wave");
        let samples = (1..=seconds as u64).map(|second| {
            let moment = start + Duration::from_secs(second);
            Clock::system().sleep(moment.saturating_sub(clock::now()));
            bar.inc(1);
            (self.store.pressure(), resident_bytes())
        });
        let samples = samples.collect();
        bar.finish_and_clear();
        samples
    }

    fn lead_until(&self, over: &AtomicBool) {
        while !over.load(Ordering::Relaxed) {
            if !self.store.lead() {
                Clock::system().sleep(IDLE);
            }
        }
    }

    fn quiet(&self, recorder: &Recorder, rate: f64, until: Duration) -> Result<(), String> {
        let threads = self.plan.quiet_threads;
        let pace = Duration::from_secs_f64(threads as f64 / rate);
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..threads as u64)
                .map(|thread| {
                    scope.spawn(move || {
                        let mut ended = |begun| recorder.ended(begun);
                        self.closed_loop(thread, until, Some(pace), &mut ended)
                    })
                })
                .collect();
            workers.into_iter().try_for_each(|worker| {
                worker.join().unwrap_or_else(|_| Err("a worker panicked".to_owned()))
            })
        })
    }

    /// The open loop; returns how many operations were due before its end and had not begun.
    fn step(&self, recorder: &Arc<Recorder>, start: Duration, rate: f64) -> Result<u64, String> {
        let threads = self.threads();
        let until = start + Duration::from_secs(self.plan.step_s as u64);
        let left = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..threads as u64)
                .map(|thread| {
                    let rate = rate / threads as f64;
                    scope.spawn(move || self.open_loop(recorder, thread, start, until, rate))
                })
                .collect();
            workers
                .into_iter()
                .map(|worker| worker.join().unwrap_or_else(|_| Err("a worker panicked".to_owned())))
                .sum::<Result<u64, String>>()
        })?;
        while recorder.in_flight() > 0 {
            Clock::system().sleep(IDLE);
        }
        Ok(left)
    }

    fn open_loop(
        &self,
        recorder: &Arc<Recorder>,
        thread: u64,
        start: Duration,
        until: Duration,
        rate: f64,
    ) -> Result<u64, String> {
        let mut rng = Rng::new(self.plan.seed ^ ((thread + 1) << 40));
        let mut value = Vec::new();
        let mut left = 0;
        let mut due = start;
        loop {
            // The times between events of a Poisson process are exponential.
            due += Duration::from_secs_f64(-(1.0 - rng.unit()).ln() / rate);
            if due >= until {
                return Ok(left);
            }
            let mut now = clock::now();
            if now < due {
                Clock::system().sleep(due - now);
            }
            while recorder.in_flight() >= IN_FLIGHT_MAX && now < until {
                Clock::system().sleep(IDLE);
                now = clock::now();
            }
            if now >= until {
                left += 1;
                recorder.waited(due, now);
                continue;
            }
            match self.draw(&mut rng) {
                Operation::Read(row) => {
                    self.read(row, &mut value)?;
                    recorder.ended(due);
                }
                Operation::Write(row) if self.asynchronous => {
                    recorder.begin();
                    let done = Done::new(due, recorder.clone());
                    self.store.begin(&[(&key(row), self.values.of(row))], done)?;
                }
                Operation::Write(row) => {
                    self.store.commit(&[(&key(row), self.values.of(row))], true)?;
                    recorder.ended(due);
                }
            }
        }
    }
}

/// Commits that a thread keeps in flight if there is no limit.
const IN_FLIGHT_OF_A_THREAD: usize = 64;
