//! Runs one history in this process, or thousands in child processes, and shrinks a failing
//! history.

use std::collections::BTreeMap;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use spillway_base::scheduler::{self, Plan};

use super::shape::Shape;
use super::world;

/// A history with more scheduling points counts as endless.
const STEPS_MAX: u64 = 300_000_000;
/// A history that takes more simulated time counts as endless.
const TIME_MAX: Duration = Duration::from_secs(600);
/// One history in this many runs twice (SIMULATION-1).
const REPLAY_EACH: u64 = 64;
/// The number of seeds to try with a smaller shape.
const SHRINK_SEEDS: u64 = 60;

/// The options of the command line.
#[derive(Clone, Debug)]
struct Wanted {
    seed: u64,
    one: bool,
    seeds: u64,
    seconds: u64,
    jobs: u64,
    keep_going: bool,
    shrinks: bool,
    figures: Vec<String>,
}

fn wanted() -> Result<Wanted, String> {
    let mut wanted = Wanted {
        seed: 1,
        one: false,
        seeds: u64::MAX,
        seconds: u64::MAX,
        jobs: 1,
        keep_going: false,
        shrinks: true,
        figures: Vec::new(),
    };
    for argument in std::env::args().skip(1) {
        let number = |text: &str| text.parse().map_err(|error| format!("{argument}: {error}"));
        match argument.split_once('=') {
            Some(("--seed", seed)) => (wanted.seed, wanted.one) = (number(seed)?, true),
            Some(("--from", seed)) => wanted.seed = number(seed)?,
            Some(("--seeds", count)) => wanted.seeds = number(count)?,
            Some(("--seconds", count)) => wanted.seconds = number(count)?,
            Some(("--jobs", count)) => wanted.jobs = number(count)?,
            None if argument == "--keep-going" => wanted.keep_going = true,
            None if argument == "--no-shrink" => wanted.shrinks = false,
            Some(_) => wanted.figures.push(argument),
            None => return Err(format!("{argument} is unknown")),
        }
    }
    Ok(wanted)
}

/// The entry point of `simulate`.
#[must_use]
pub fn main() -> ExitCode {
    let done = wanted().and_then(|wanted| if wanted.one { one(&wanted) } else { many(&wanted) });
    match done {
        Ok(code) => code,
        Err(reason) => {
            eprintln!("{reason}");
            ExitCode::FAILURE
        }
    }
}

fn shape_of(seed: u64, figures: &[String]) -> Result<Shape, String> {
    figures.iter().try_fold(Shape::drawn(seed), |shape, figure| shape.set(figure))
}

/// Runs one history in this process.
fn one(wanted: &Wanted) -> Result<ExitCode, String> {
    let shape = shape_of(wanted.seed, &wanted.figures)?;
    let plan = Plan {
        seed: wanted.seed,
        steps_max: STEPS_MAX,
        time_max: TIME_MAX,
        operation_max: shape.operation_max(),
        stacks: std::env::var_os("SPILLWAY_STACKS").is_some(),
    };
    let (done, ran) = scheduler::run(plan, || world::run(wanted.seed, shape));
    println!(
        "seed {}: {} commits, {} openings, {} operations, {} tasks, {} steps, {} switches, {:?}, trace {:016x}",
        wanted.seed,
        done.commits,
        done.openings,
        done.operations,
        ran.tasks,
        ran.steps,
        ran.switches,
        ran.time,
        ran.trace
    );
    let counted = world::COUNTED.iter().zip(done.counted);
    let [refused, freed] = done.on_full_disk;
    let ([lost, damaged], lies, emptied) = (done.by_lies, done.lies, done.emptied);
    let counted: String = counted.map(|(name, sum)| format!("{name}={sum} ")).collect();
    println!(
        "{counted}refused_on_full_disk={refused} freed_on_full_disk={freed} \
         emptied_on_full_disk={emptied} lying_syncs={lies} lost_by_lies={lost} \
         damaged_by_lies={damaged}"
    );
    Ok(ExitCode::SUCCESS)
}

/// The output of a history, and whether it failed.
struct Outcome {
    seed: u64,
    text: String,
    failed: bool,
}

fn child(seed: u64, figures: &[String]) -> Result<Outcome, String> {
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(this);
    command.arg(format!("--seed={seed}")).args(figures).stdin(Stdio::null());
    let output = command.output().map_err(|error| error.to_string())?;
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        text.push_str(&String::from_utf8_lossy(&output.stderr));
    }
    Ok(Outcome { seed, text, failed: !output.status.success() })
}

/// Runs a history again. It fails if the second run differs (SIMULATION-1).
fn replayed(first: Outcome, figures: &[String]) -> Result<Outcome, String> {
    let again = child(first.seed, figures)?;
    if again.text == first.text {
        return Ok(first);
    }
    let text = format!("FAILED: SIMULATION-1: not the same\n{}{}", first.text, again.text);
    Ok(Outcome { text, failed: true, ..first })
}

/// The reason of a failure without its figures: the first words of the first line that has one.
fn reason(text: &str) -> String {
    let line = text.lines().find(|line| line.starts_with("FAILED: ")).unwrap_or("it crashed");
    let words = line.split(' ').take(4).map(|word| word.trim_matches(|c: char| c.is_ascii_digit()));
    words.collect::<Vec<_>>().join(" ")
}

/// Adds up the figures of a history's output: `name=figure`.
fn add_figures(sums: &mut BTreeMap<String, u64>, text: &str) {
    for (name, figure) in text.split_whitespace().filter_map(|word| word.split_once('=')) {
        *sums.entry(name.to_owned()).or_default() += figure.parse::<u64>().unwrap_or(0);
    }
}

/// Runs histories until all seeds have run, the time is over, or one fails.
fn many(wanted: &Wanted) -> Result<ExitCode, String> {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    let began = spillway_base::clock::now();
    let took = || spillway_base::clock::now() - began;
    let (next, ran) = (AtomicU64::new(0), AtomicU64::new(0));
    let stop = AtomicBool::new(false);
    let failures: Mutex<Vec<Outcome>> = Mutex::default();
    let sums: Mutex<BTreeMap<String, u64>> = Mutex::default();
    let work = || -> Result<(), String> {
        while !stop.load(Ordering::Relaxed) && took().as_secs() < wanted.seconds {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= wanted.seeds {
                break;
            }
            let seed = wanted.seed.wrapping_add(number);
            let mut outcome = child(seed, &wanted.figures)?;
            if !outcome.failed && number % REPLAY_EACH == 0 {
                outcome = replayed(outcome, &wanted.figures)?;
            }
            ran.fetch_add(1, Ordering::Relaxed);
            add_figures(&mut *sums.lock().map_err(|error| error.to_string())?, &outcome.text);
            if outcome.failed {
                let first = outcome.text.lines().find(|line| line.starts_with("FAILED"));
                let line: String = first.unwrap_or("it crashed").chars().take(160).collect();
                println!("seed {} after {:?}: {line}", outcome.seed, took());
                failures.lock().map_err(|error| error.to_string())?.push(outcome);
                stop.fetch_or(!wanted.keep_going, Ordering::Relaxed);
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let jobs: Vec<_> = (0..wanted.jobs).map(|_| scope.spawn(work)).collect();
        jobs.into_iter().try_for_each(|job| job.join().map_err(|_| "a job panicked".to_owned())?)
    })?;
    let (ran, took) = (ran.into_inner(), took());
    let rate = ran as f64 / took.as_secs_f64() * 3600.0;
    println!("{ran} histories in {took:?}: {rate:.0} in an hour");
    let sums = sums.into_inner().map_err(|error| error.to_string())?;
    sums.iter().for_each(|(name, sum)| println!("  {name}={sum}"));
    let failures = failures.into_inner().map_err(|error| error.to_string())?;
    let Some(first) = failures.into_iter().min_by_key(|outcome| outcome.seed) else {
        return Ok(ExitCode::SUCCESS);
    };
    println!("{}", first.text);
    if wanted.shrinks {
        shrink(first, wanted)?;
    }
    Ok(ExitCode::FAILURE)
}

/// Looks for a smaller history that fails for the same reason.
fn shrink(first: Outcome, wanted: &Wanted) -> Result<(), String> {
    let why = reason(&first.text);
    let mut shape = shape_of(first.seed, &wanted.figures)?;
    let mut best = first;
    'again: loop {
        for smaller in shape.smaller() {
            let figures: Vec<String> = smaller.to_string().split(' ').map(str::to_owned).collect();
            for offset in 0..SHRINK_SEEDS {
                let seed = if offset == 0 { best.seed } else { wanted.seed + offset };
                let outcome = child(seed, &figures)?;
                if outcome.failed && reason(&outcome.text) == why {
                    println!("smaller: --seed={seed} {smaller}");
                    (shape, best) = (smaller, outcome);
                    continue 'again;
                }
            }
        }
        break;
    }
    println!("replay: --seed={} {shape}\n{}", best.seed, best.text);
    Ok(())
}
