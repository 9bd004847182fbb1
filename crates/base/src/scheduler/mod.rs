//! A deterministic scheduler: runs the threads of a process one at a time, in an order that a seed
//! fixes. Such a run is a *history*, and its threads are *tasks*. The scheduler exists in builds
//! with debug assertions only; [`crate::lock`], [`crate::sync`], [`crate::thread`] and
//! [`crate::clock`] call it then. Threads that are no tasks run as usual, and each call costs them
//! a check of a thread-local.
//!
//! Tasks are OS threads that hand a baton to each other: the task that has the baton runs, all
//! others sleep. Coroutines would switch faster, but would share the thread-locals that the code
//! under test relies on.
//!
//! - **SCHED-1 (one seed, one history).** The choice of the task to run is a function of the seed
//!   and of the tasks' previous steps only. It depends on no clock, no address, and no choice of
//!   the operating system.
//! - **SCHED-2 (random priorities).** The runnable task of the highest priority runs. At some
//!   scheduling points the running task draws a new priority (after Burckhardt et al., "A
//!   randomized scheduler with probabilistic guarantees of finding bugs", ASPLOS 2010). The mean
//!   number of scheduling points between two draws is the *distance*. It is drawn from the seed,
//!   and redrawn after some thousand points, because no single distance finds all faults. Points at
//!   which no other task is runnable do not count: they have a fixed distance of their own.
//!   Otherwise a background thread that polls while it is alone would use up the points of the
//!   short distances.
//! - **SCHED-3 (time).** Time advances only when no task is runnable: it then advances to the
//!   earliest deadline of a sleeping task. A task that spins counts as one that sleeps for a
//!   microsecond. A task can also wait until the other tasks have taken a number of steps
//!   ([`wait_steps`]).
//! - **SCHED-4 (no task waits for ever).** When every task waits and none has a deadline, the
//!   history fails and reports what each task waits for. A history that exceeds a number of steps
//!   or of seconds fails likewise.
//! - **SCHED-5 (panics).** A panic of any task fails the history.
//!
//! A process runs one history at a time. A failure ends the process, because most tasks could not
//! be unwound.

pub mod atomic;
pub mod lock;
#[cfg(all(test, not(loom)))]
mod tests;

use std::cell::Cell;
use std::io::Write;
use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use crate::rng::Rng;

/// The settings of a history.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The seed of all choices of the scheduler.
    pub seed: u64,
    /// The scheduling points after which a history fails as endless.
    pub steps_max: u64,
    /// The simulated time after which a history fails as endless.
    pub time_max: Duration,
    /// The longest time that an operation of a disk takes; zero if operations take no time.
    pub operation_max: Duration,
    /// Whether failures show the stack of each waiting task, which is slow.
    pub stacks: bool,
}

/// The figures of a history that ended.
#[derive(Clone, Copy, Debug)]
pub struct Ran {
    /// Scheduling points passed.
    pub steps: u64,
    /// How often another task went on to run.
    pub switches: u64,
    /// The number of tasks.
    pub tasks: usize,
    /// Simulated time.
    pub time: Duration,
    /// A hash of the whole order of tasks, equal for equal histories (SCHED-1).
    pub trace: u64,
}

/// The exit status of a process whose history failed.
pub const FAILED: i32 = 70;

/// The event for which a task waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wait {
    /// A lock or a condition variable at this address.
    At(&'static str, usize),
    /// The end of a task.
    Task(usize),
    /// Time.
    Time,
    /// Steps of other tasks, until the history has this many steps in all.
    Steps(u64),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Status {
    Runnable,
    Blocked { on: Wait, until: Option<Duration>, at: &'static Location<'static> },
    Done,
}

/// Wakes one thread.
#[derive(Default)]
struct Baton {
    given: Mutex<bool>,
    changed: Condvar,
}

impl Baton {
    fn give(&self) {
        *self.given.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_one();
    }

    fn take(&self) {
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        while !std::mem::take(&mut *given) {
            given = self.changed.wait(given).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

struct Task {
    name: String,
    status: Status,
    priority: u64,
    baton: Arc<Baton>,
    timed_out: bool,
    stack: Option<String>,
}

struct Scheduler {
    plan: Plan,
    rng: Rng,
    now: Duration,
    tasks: Vec<Task>,
    running: usize,
    /// A priority lower than all priorities so far.
    lowest: u64,
    /// A priority lower than all drawn priorities.
    lowest_drawn: u64,
    /// The mean distance between two changes of priority, in scheduling points.
    distance: u64,
    /// Contested points until the distance may be redrawn.
    distance_left: u64,
    /// Whether a task other than the running one is runnable.
    contested: bool,
    steps: u64,
    switches: u64,
    trace: u64,
}

/// The mean distances from which `distance` is drawn, in scheduling points.
const DISTANCES: [u64; 8] = [2, 5, 15, 50, 150, 500, 2_000, 10_000];
/// The mean distance while no other task is runnable.
const DISTANCE_ALONE: u64 = 1_000;
/// A distance holds for this many changes on average, or for this many contested points if these
/// are fewer. With changes alone, four fifths of all points would be under the longest distance.
const REDRAW_CHANGES: u64 = 40;
const REDRAW_POINTS: u64 = 5_000;
/// The simulated time of one turn of a loop that waits for another task.
const SPIN: Duration = Duration::from_micros(1);
/// Priorities of spinning tasks are below this, and drawn priorities above it.
const DRAWN_FROM: u64 = 1 << 62;
/// Priorities that are drawn as the lowest of all go down from this far above [`DRAWN_FROM`]. All
/// other drawn priorities are above that.
const DRAWN_LOW: u64 = 1 << 61;

static SCHEDULER: Mutex<Option<Scheduler>> = Mutex::new(None);
/// The scheduling points left until the next change of priority, and their number at the last
/// count.
static LEFT: AtomicU64 = AtomicU64::new(0);
static DEALT: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static TASK: Cell<Option<usize>> = const { Cell::new(None) };
    /// Ends the task. It is the first thread-local of its thread, and so is dropped after all
    /// others.
    static END: End = const { End };
}

struct End;

impl Drop for End {
    fn drop(&mut self) {
        finish();
    }
}

fn scheduler() -> MutexGuard<'static, Option<Scheduler>> {
    SCHEDULER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Calls `act` with the scheduler and the calling thread's task.
fn with<T>(act: impl FnOnce(&mut Scheduler, usize) -> T) -> Option<T> {
    let me = TASK.get()?;
    let mut guard = scheduler();
    let scheduler = guard.as_mut().expect("a task has a scheduler");
    debug_assert_eq!(scheduler.running, me, "a task runs without the baton");
    Some(act(scheduler, me))
}

/// Runs a history. Ends the process if the history fails.
pub fn run<T>(plan: Plan, body: impl FnOnce() -> T) -> (T, Ran) {
    let mut new = Scheduler {
        plan,
        rng: Rng::new(plan.seed),
        // Not zero, because some code takes a time of zero for no time.
        now: Duration::from_secs(1),
        tasks: Vec::new(),
        running: 0,
        lowest: DRAWN_FROM,
        lowest_drawn: DRAWN_FROM + DRAWN_LOW,
        distance: 0,
        distance_left: 0,
        contested: false,
        steps: 0,
        switches: 0,
        trace: 0,
    };
    new.draw_distance();
    new.add("root".to_owned());
    new.deal();
    assert!(scheduler().replace(new).is_none(), "one process runs one history");
    TASK.set(Some(0));
    let told = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        told(panic);
        if TASK.get().is_some() {
            fail(&format!("a task panicked: {panic}"));
        }
    }));
    let done = body();
    let tasks = with(|scheduler, _| scheduler.tasks.len()).unwrap_or(0);
    (1..tasks).for_each(join);
    let ran = with(|scheduler, _| {
        scheduler.count();
        Ran {
            steps: scheduler.steps,
            switches: scheduler.switches,
            tasks: scheduler.tasks.len(),
            time: scheduler.now,
            trace: scheduler.trace,
        }
    });
    TASK.set(None);
    *scheduler() = None;
    (done, ran.expect("the root is a task"))
}

/// Whether the calling thread is a task.
#[must_use]
pub fn is_task() -> bool {
    TASK.get().is_some()
}

/// A random number for the calling task, from the scheduler's seed.
#[must_use]
pub fn random() -> u64 {
    with(|scheduler, _| scheduler.rng.next_u64()).unwrap_or(0)
}

/// Simulated time, if the calling thread is a task.
#[must_use]
pub fn now() -> Option<Duration> {
    with(|scheduler, _| scheduler.now)
}

/// Called when an operation of a disk begins: the operation takes a random simulated time.
pub fn operation() {
    point();
    let most = with(|scheduler, _| scheduler.plan.operation_max.as_nanos() as u64).unwrap_or(0);
    if most > 0 && random() & 1 == 0 {
        sleep(Duration::from_nanos(random() % most));
    }
}

/// Fails the history, and ends the process.
pub fn fail(reason: &str) -> ! {
    static FAILING: OnceLock<()> = OnceLock::new();
    // A panic within this function.
    if FAILING.set(()).is_err() {
        exit();
    }
    let told = match SCHEDULER.try_lock() {
        Ok(guard) => guard.as_ref().map(Scheduler::told).unwrap_or_default(),
        Err(_) => String::new(),
    };
    let _ = writeln!(std::io::stdout(), "FAILED: {reason}\n{told}");
    exit();
}

/// Ends the process. The calling thread stops being a task without passing the baton on, so that no
/// other task runs meanwhile.
fn exit() -> ! {
    TASK.set(None);
    std::process::exit(FAILED);
}

/// A point where the scheduler may run another task (SCHED-2).
#[inline]
pub fn point() {
    if TASK.get().is_none() {
        return;
    }
    let left = LEFT.load(Ordering::Relaxed);
    if left > 0 {
        LEFT.store(left - 1, Ordering::Relaxed);
    } else {
        change();
    }
}

#[cold]
fn change() {
    switch(|scheduler, me| {
        scheduler.count();
        scheduler.tasks[me].priority = scheduler.draw_again();
        scheduler.ring();
        if scheduler.distance_left == 0 {
            scheduler.draw_distance();
        }
        scheduler.deal();
        scheduler.check();
    });
}

/// A scheduling point of a task that made another task runnable.
pub(crate) fn reschedule() {
    switch(|_, _| ());
}

/// The calling task waits for another task without naming it (SCHED-3). Returns whether the calling
/// thread is a task.
#[track_caller]
pub fn spin() -> bool {
    let at = Location::caller();
    if !is_task() {
        return false;
    }
    switch(|scheduler, me| {
        scheduler.lowest -= 1;
        scheduler.tasks[me].priority = scheduler.lowest;
        let until = Some(scheduler.now + SPIN);
        scheduler.tasks[me].status = Status::Blocked { on: Wait::Time, until, at };
        scheduler.check();
    });
    true
}

/// The calling task sleeps.
#[track_caller]
pub fn sleep(duration: Duration) {
    block(Wait::Time, Some(duration));
}

/// The calling task waits until the tasks have taken `steps` more steps. If no other task can run
/// before time passes, it may wake earlier.
#[track_caller]
pub fn wait_steps(steps: u64) {
    let at = Location::caller();
    switch(|scheduler, me| {
        scheduler.count();
        let on = Wait::Steps(scheduler.steps + steps);
        scheduler.tasks[me].status = Status::Blocked { on, until: None, at };
        scheduler.deal();
    });
}

/// The calling task waits until it is woken or `timeout` has passed. Returns whether it was woken.
#[track_caller]
pub(crate) fn block(on: Wait, timeout: Option<Duration>) -> bool {
    let at = Location::caller();
    switch(|scheduler, me| {
        let until = timeout.map(|timeout| scheduler.now + timeout);
        let stack = scheduler.plan.stacks && timeout.is_none();
        let task = &mut scheduler.tasks[me];
        task.status = Status::Blocked { on, until, at };
        task.timed_out = false;
        task.stack = stack.then(|| std::backtrace::Backtrace::force_capture().to_string());
        // A task that spun before gets a normal priority again.
        if task.priority < DRAWN_FROM {
            scheduler.tasks[me].priority = scheduler.draw();
        }
    });
    with(|scheduler, me| !std::mem::take(&mut scheduler.tasks[me].timed_out)).unwrap_or(true)
}

/// Makes the tasks runnable that wait for `on`; with `one`, a single task that the seed selects.
/// The caller continues. Returns whether any task waited.
pub(crate) fn wake(on: Wait, one: bool) -> bool {
    with(|scheduler, _| scheduler.wake(on, one)).unwrap_or(false)
}

/// Adds a task for a thread that is being started.
pub(crate) fn add(name: &str) -> Option<usize> {
    with(|scheduler, _| scheduler.add(name.to_owned()))
}

/// Begins a task on its own thread.
pub(crate) fn begin(task: usize) {
    END.with(|_| ());
    let baton = {
        let guard = scheduler();
        guard.as_ref().expect("a task has a scheduler").tasks[task].baton.clone()
    };
    baton.take();
    TASK.set(Some(task));
}

/// Waits for the end of a task.
#[track_caller]
pub(crate) fn join(task: usize) {
    let ended = || with(|scheduler, _| scheduler.tasks[task].status == Status::Done);
    while ended() == Some(false) {
        block(Wait::Task(task), None);
    }
}

/// Whether a task has ended.
pub(crate) fn is_done(task: usize) -> bool {
    with(|scheduler, _| scheduler.tasks[task].status == Status::Done).unwrap_or(true)
}

/// Ends the calling thread's task, after its thread-locals were dropped.
fn finish() {
    let next = with(|scheduler, me| {
        scheduler.tasks[me].status = Status::Done;
        scheduler.wake(Wait::Task(me), false);
        scheduler.next()
    });
    TASK.set(None);
    if let Some(next) = next {
        hand(next);
    }
}

/// Applies a change to the calling task, then lets the task run that is next.
fn switch(change: impl FnOnce(&mut Scheduler, usize)) {
    let Some(me) = TASK.get() else { return };
    let mut guard = scheduler();
    let scheduler = guard.as_mut().expect("a task has a scheduler");
    debug_assert_eq!(scheduler.running, me, "a task runs without the baton");
    change(scheduler, me);
    let next = scheduler.next();
    let next = match next {
        Ok((next, _)) if next == me => return,
        next => next,
    };
    let mine = scheduler.tasks[me].baton.clone();
    drop(guard);
    hand(next);
    mine.take();
}

fn hand(next: Result<(usize, Arc<Baton>), String>) {
    match next {
        Ok((_, baton)) => baton.give(),
        Err(reason) => fail(&reason),
    }
}

impl Scheduler {
    fn add(&mut self, name: String) -> usize {
        let priority = self.draw();
        self.tasks.push(Task {
            name,
            status: Status::Runnable,
            priority,
            baton: Arc::default(),
            timed_out: false,
            stack: None,
        });
        let number = self.tasks.len() - 1;
        if number != self.running {
            self.contest();
        }
        number
    }

    /// Records that another task is runnable.
    fn contest(&mut self) {
        if !self.contested {
            self.count();
            self.contested = true;
            self.deal();
        }
    }

    fn draw_distance(&mut self) {
        self.distance = DISTANCES[self.rng.below(DISTANCES.len() as u64) as usize];
        self.distance_left = (REDRAW_CHANGES * self.distance).min(REDRAW_POINTS);
    }

    fn draw(&mut self) -> u64 {
        DRAWN_FROM + DRAWN_LOW + self.rng.below(DRAWN_LOW)
    }

    /// Draws a new priority for a task that has run, often the lowest of all.
    fn draw_again(&mut self) -> u64 {
        if self.rng.chance(1, 2) {
            return self.draw();
        }
        self.lowest_drawn -= 1;
        self.lowest_drawn
    }

    /// The steps that tasks wait for, ascending.
    fn awaited(&self) -> impl Iterator<Item = (u64, usize)> + '_ {
        let tasks = self.tasks.iter().enumerate();
        tasks.filter_map(|(number, task)| match task.status {
            Status::Blocked { on: Wait::Steps(until), .. } => Some((until, number)),
            _ => None,
        })
    }

    /// Wakes the tasks whose awaited steps have been taken, with priorities above all others.
    fn ring(&mut self) {
        let due: Vec<usize> = self
            .awaited()
            .filter(|(until, _)| *until <= self.steps)
            .map(|(_, task)| task)
            .collect();
        for task in due {
            self.tasks[task].status = Status::Runnable;
            self.tasks[task].priority = u64::MAX - self.rng.below(1 << 20);
        }
    }

    /// Counts the points passed since the last call, and sets the number until the next change.
    fn deal(&mut self) {
        self.count();
        let awaited = self.awaited().map(|(until, _)| until.saturating_sub(self.steps)).min();
        let distance = if self.contested { self.distance } else { DISTANCE_ALONE };
        let left = self.rng.below(2 * distance).min(awaited.unwrap_or(u64::MAX));
        DEALT.store(left + 1, Ordering::Relaxed);
        LEFT.store(left, Ordering::Relaxed);
    }

    fn count(&mut self) {
        let left = LEFT.load(Ordering::Relaxed);
        let passed = DEALT.load(Ordering::Relaxed).saturating_sub(left);
        self.steps += passed;
        if self.contested {
            self.distance_left = self.distance_left.saturating_sub(passed);
        }
        DEALT.store(left, Ordering::Relaxed);
    }

    /// Fails a history that has too many steps (SCHED-4).
    fn check(&self) {
        if self.steps > self.plan.steps_max {
            println!("FAILED: no end after {} steps\n{}", self.steps, self.told());
            exit();
        }
    }

    fn wake(&mut self, on: Wait, one: bool) -> bool {
        let waits = |task: &Task| matches!(task.status, Status::Blocked { on: of, .. } if of == on);
        if !one {
            let all = self.tasks.iter_mut().filter(|task| waits(task));
            let any = all.map(|task| task.status = Status::Runnable).count() > 0;
            if any {
                self.contest();
            }
            return any;
        }
        let count = self.tasks.iter().filter(|task| waits(task)).count() as u64;
        if count == 0 {
            return false;
        }
        let chosen = self.rng.below(count) as usize;
        let task = self.tasks.iter_mut().filter(|task| waits(task)).nth(chosen);
        task.expect("it was counted").status = Status::Runnable;
        self.contest();
        true
    }

    /// Returns the task that runs next, with its baton. Advances the time if no task is runnable.
    fn next(&mut self) -> Result<(usize, Arc<Baton>), String> {
        loop {
            let runnable = (0..self.tasks.len())
                .filter(|task| self.tasks[*task].status == Status::Runnable)
                .max_by_key(|task| self.tasks[*task].priority);
            if let Some(next) = runnable {
                if next != self.running {
                    self.running = next;
                    self.switches += 1;
                    let left = LEFT.load(Ordering::Relaxed);
                    let word = (next as u64) << 48 ^ left << 24 ^ self.now.as_nanos() as u64;
                    self.trace =
                        (self.trace.rotate_left(5) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                }
                let runs = |task: &Task| task.status == Status::Runnable;
                match self.tasks.iter().filter(|task| runs(task)).count() {
                    1 => {
                        self.count();
                        self.contested = false;
                    }
                    _ => self.contest(),
                }
                return Ok((next, self.tasks[next].baton.clone()));
            }
            self.pass_time()?;
        }
    }

    /// Advances the time to the earliest deadline.
    fn pass_time(&mut self) -> Result<(), String> {
        let until = |task: &Task| match task.status {
            Status::Blocked { until, .. } => until,
            _ => None,
        };
        // Sometimes, when no other task can run, a task wakes before the steps that it waits for.
        if let Some((_, first)) = self.awaited().min()
            && (self.rng.chance(1, 16) || !self.tasks.iter().any(|task| until(task).is_some()))
        {
            self.tasks[first].status = Status::Runnable;
            return Ok(());
        }
        let Some(next) = self.tasks.iter().filter_map(until).min() else {
            return Err("every task waits for ever".to_owned());
        };
        self.now = self.now.max(next);
        if self.now > self.plan.time_max {
            return Err(format!("no end after {:?}", self.now));
        }
        for task in &mut self.tasks {
            if until(task).is_some_and(|until| until <= self.now) {
                task.status = Status::Runnable;
                task.timed_out = true;
            }
        }
        Ok(())
    }

    fn told(&self) -> String {
        let mut text = format!("after {:?}, {} switches:\n", self.now, self.switches);
        for (number, task) in self.tasks.iter().enumerate() {
            let what = match &task.status {
                Status::Runnable if number == self.running => "runs".to_owned(),
                Status::Runnable => "is runnable".to_owned(),
                Status::Done => continue,
                Status::Blocked { on, until, at } => {
                    let until =
                        until.map_or("for ever".to_owned(), |until| format!("until {until:?}"));
                    format!("waits {until} at {at} for {on:?}")
                }
            };
            text.push_str(&format!("  {number} {}: {what}\n", task.name));
            text.push_str(task.stack.as_deref().unwrap_or_default());
        }
        text
    }
}
