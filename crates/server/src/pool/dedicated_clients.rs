//! Decides which clients get dedicated workers: those whose latest responses came without waits. No
//! client gets one while many clients are active. After the clients with dedicated workers were
//! found together on few cores, no client gets one for some time.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};
use std::time::Duration;

use parking_lot::Mutex;

/// How many consecutive responses without a wait a client must have had to get a dedicated worker:
/// initially, and at most.
const AFTER: u32 = 16;
const AFTER_MOST: u32 = 1 << 12;
/// A dedicated worker was worth it if it served at least this many responses.
const WORTH: u64 = 64;
/// At least this many clients on few cores, in `PILED_LOOKS` consecutive checks over at least
/// `PILED_AFTER`, are no coincidence. Then there are no dedicated workers for `PILED_FOR` windows.
/// If the clients are found so again within `PILED_SOON` windows after that, the pause is twice as
/// long, up to `PILED_FOR_MOST`.
const PILED_FROM: u32 = 4;
const PILED_LOOKS: u32 = 256;
const PILED_AFTER: Duration = Duration::from_millis(250);
const PILED_FOR: u64 = 20;
const PILED_FOR_MOST: u64 = 16 * PILED_FOR;
/// See [`PILED_FROM`].
const PILED_SOON: u64 = 10;
/// The window in which active clients are counted.
const WINDOW: Duration = Duration::from_millis(100);

/// The recent responses to a client. Only the worker that holds the connection changes them.
#[derive(Default)]
pub(super) struct Calm {
    /// The consecutive responses without a wait.
    answers: AtomicU32,
    /// How many responses more than [`AFTER`] the client needs for a dedicated worker.
    more: AtomicU32,
    /// The last window in which the client was counted as active, and the last in which it was
    /// counted as waiting.
    window: AtomicU64,
    waited: AtomicU64,
}

impl Calm {
    /// Records a response. Without `calm`, its statement waited or was long. Returns whether the
    /// client has had enough consecutive responses for a dedicated worker.
    pub(super) fn note(&self, calm: bool) -> bool {
        let answers = if calm { self.answers.load(Relaxed).saturating_add(1) } else { 0 };
        self.answers.store(answers, Relaxed);
        answers >= AFTER + self.more.load(Relaxed)
    }

    /// Records that the client's dedicated worker has left after this many responses.
    pub(super) fn left_after(&self, answers: u64) {
        let more = self.more.load(Relaxed);
        let more = if answers < WORTH { (2 * more + AFTER).min(AFTER_MOST) } else { more / 2 };
        self.more.store(more, Relaxed);
        self.answers.store(0, Relaxed);
    }
}

/// The core of each client with a dedicated worker, at its last check.
#[derive(Default)]
pub(super) struct Cores(Mutex<Clients>);

#[derive(Default)]
struct Clients {
    /// The number of clients on each core.
    on: Vec<u32>,
    /// How many consecutive checks found the clients on few cores, and the time of the first of
    /// them.
    piled: u32,
    piled_since: Duration,
}

impl Cores {
    /// Records that a client has moved to a core. Returns whether the clients probably are
    /// connections of fewer threads: for long enough they were on at most half of the cores that so
    /// many clients could be on, of `all` cores.
    pub(super) fn note(
        &self,
        before: Option<usize>,
        core: usize,
        all: usize,
        now: Duration,
    ) -> bool {
        let mut clients = self.0.lock();
        clients.leave(before);
        if clients.on.len() <= core {
            clients.on.resize(core + 1, 0);
        }
        clients.on[core] += 1;
        let many = clients.on.iter().sum::<u32>();
        let used = clients.on.iter().filter(|&&count| count > 0).count();
        if many < PILED_FROM || 2 * used > all.min(many as usize) {
            clients.piled = 0;
            return false;
        }
        if clients.piled == 0 {
            clients.piled_since = now;
        }
        clients.piled += 1;
        let long = now.saturating_sub(clients.piled_since) >= PILED_AFTER;
        let told = long && clients.piled >= PILED_LOOKS;
        if told {
            clients.piled = 0;
        }
        told
    }

    /// Records that a client has lost its dedicated worker.
    pub(super) fn left(&self, core: Option<usize>) {
        self.0.lock().leave(core);
    }
}

impl Clients {
    fn leave(&mut self, core: Option<usize>) {
        if let Some(count) = core.and_then(|core| self.on.get_mut(core)) {
            *count -= 1;
        }
    }
}

/// The dedicated workers, and the numbers of active clients.
#[derive(Default)]
pub(super) struct DedicatedWorkers {
    pub(super) cores: Cores,
    /// No dedicated workers until this window, because the clients have few threads.
    piled_until: AtomicU64,
    /// The length of that pause, in windows.
    piled_for: AtomicU64,
    pub(super) now: AtomicUsize,
    pub(super) total: AtomicU64,
    window: AtomicU64,
    /// The clients that sent a command in this window, and in the previous one.
    asked: AtomicUsize,
    asked_before: AtomicUsize,
    /// Of these, the clients whose command waited or was long.
    waited: AtomicUsize,
    waited_before: AtomicUsize,
}

impl DedicatedWorkers {
    /// Records that a client has sent a command.
    pub(super) fn note_asked(&self, calm: &Calm, now: Duration) {
        let window = now.as_nanos() as u64 / WINDOW.as_nanos() as u64;
        if calm.window.load(Relaxed) == window {
            return;
        }
        calm.window.store(window, Relaxed);
        let last = self.window.load(Relaxed);
        if last < window && self.window.compare_exchange(last, window, SeqCst, Relaxed).is_ok() {
            let follows = last + 1 == window;
            for (now, before) in
                [(&self.asked, &self.asked_before), (&self.waited, &self.waited_before)]
            {
                let now = now.swap(0, Relaxed);
                before.store(if follows { now } else { 0 }, Relaxed);
            }
        }
        self.asked.fetch_add(1, Relaxed);
    }

    /// Records that a client's command waits or is long.
    pub(super) fn note_waited(&self, calm: &Calm) {
        let window = calm.window.load(Relaxed);
        if calm.waited.swap(window, Relaxed) != window {
            self.waited.fetch_add(1, Relaxed);
        }
    }

    /// Records that the clients were found to have few threads.
    pub(super) fn note_piled(&self) {
        let (window, until) = (self.window.load(Relaxed), self.piled_until.load(Relaxed));
        let again = until > 0 && window <= until + PILED_SOON;
        let twice = if again { 2 * self.piled_for.load(Relaxed) } else { 0 };
        let windows = twice.clamp(PILED_FOR, PILED_FOR_MOST);
        self.piled_for.store(windows, Relaxed);
        self.piled_until.store(window + windows, Relaxed);
    }

    /// Whether more clients are active than there are places, or more clients wait or run something
    /// long than there are workers; also during the pause after the clients were found on few
    /// cores.
    pub(super) fn is_crowded(&self, places: usize, workers: usize) -> bool {
        if self.window.load(Relaxed) < self.piled_until.load(Relaxed) {
            return true;
        }
        let most =
            |now: &AtomicUsize, before: &AtomicUsize| now.load(Relaxed).max(before.load(Relaxed));
        most(&self.asked, &self.asked_before) > places
            || most(&self.waited, &self.waited_before) > workers
    }

    pub(super) fn begin(&self, places: usize, workers: usize) -> bool {
        let place = |now: usize| (now < places).then_some(now + 1);
        !self.is_crowded(places, workers) && self.now.fetch_update(SeqCst, SeqCst, place).is_ok()
    }

    /// The number of dedicated workers now, and how many there have been.
    pub(super) fn figures(&self) -> (usize, u64) {
        (self.now.load(SeqCst), self.total.load(SeqCst))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn connections(count: usize) -> Vec<Calm> {
        (0..count).map(|_| Calm::default()).collect()
    }

    /// DEDICATED-WORKER-2: more responses are needed after a worker was not worth it, and fewer
    /// again after one was.
    #[test]
    fn dedicated_worker_2_a_client_gets_a_worker_after_enough_answers_in_a_row() {
        let calm = Calm::default();
        let answers = || (1..=2 * AFTER_MOST).find(|_| calm.note(true)).unwrap();
        assert!((1..AFTER).all(|_| !calm.note(true)) && !calm.note(false));
        assert_eq!(answers(), AFTER);
        let mut asked = Vec::new();
        for _ in 0..10 {
            calm.left_after(WORTH - 1);
            asked.push(answers());
        }
        assert_eq!(asked[..4], [2 * AFTER, 4 * AFTER, 8 * AFTER, 16 * AFTER]);
        assert_eq!(asked[8..], [AFTER + AFTER_MOST; 2]);
        for _ in 0..20 {
            calm.left_after(WORTH);
        }
        assert_eq!(answers(), AFTER);
    }

    /// DEDICATED-WORKER-3: a client counts once in a window, and the clients of the previous window
    /// count, too.
    #[test]
    fn dedicated_worker_3_clients_are_counted_that_ask_lately() {
        let (dedicated, connections) = (DedicatedWorkers::default(), connections(10));
        let ask = |window: u32, connections: &[Calm]| {
            for part in 1..4 {
                connections.iter().for_each(|connection| {
                    dedicated.note_asked(connection, WINDOW * window + WINDOW * part / 4)
                });
            }
        };
        let counts =
            |most: usize| !dedicated.is_crowded(most, 9) && dedicated.is_crowded(most - 1, 9);
        ask(5, &connections[..4]);
        assert!(counts(4));
        ask(6, &connections);
        assert!(counts(10));
        ask(7, &connections[..2]);
        assert!(counts(10));
        ask(8, &connections[..2]);
        assert!(counts(2));
        ask(9, &connections);
        ask(11, &connections[..1]);
        assert!(counts(1), "that was before a pause");
        // This client's clock was read in an earlier window.
        ask(10, &connections[1..2]);
        assert!(counts(2));
    }

    #[test]
    fn dedicated_worker_3_clients_of_few_threads_are_on_few_cores() {
        // Checks each client in turn, this many times a second. Returns the time until few threads
        // are reported.
        let told = |on: &[usize], all: usize, looks_a_second: u32| {
            let cores = Cores::default();
            let at = |look: u32| Duration::from_secs(1) * look / looks_a_second;
            on.iter().for_each(|&core| assert!(!cores.note(None, core, all, at(0))));
            let turns = (1..=4 * looks_a_second).zip(on.iter().cycle());
            let mut told =
                turns.filter(|(look, core)| cores.note(Some(**core), **core, all, at(*look)));
            told.next().map(|(look, _)| at(look))
        };
        // For any number of clients.
        for clients in [4, 32, 200] {
            assert_eq!(told(&vec![1; clients], 2, 4000), Some(PILED_AFTER));
        }
        let few = told(&[1; 4], 2, 200).unwrap();
        assert!(few > Duration::from_secs(1), "that were few looks: {few:?}");
        assert_eq!(told(&[1; 3], 2, 4000), None, "they may be there by chance");
        assert_eq!(told(&[0, 1, 1, 1, 1, 1], 2, 4000), None);
        assert_eq!(told(&[0; 9], 1, 4000), None, "there is no other");
        // With sixteen cores, eight clients can be on eight cores.
        assert_eq!(told(&[0, 1, 2, 3, 4, 5, 6, 7], 16, 4000), None);
        assert!(told(&[0, 1, 2, 3, 0, 1, 2, 3], 16, 4000).is_some());
    }

    #[test]
    fn dedicated_worker_3_one_client_elsewhere_for_a_moment_begins_it_anew() {
        let cores = Cores::default();
        let now = Cell::new(Duration::from_secs(5));
        let look = |before, core| {
            now.set(now.get() + PILED_AFTER / PILED_LOOKS + Duration::from_nanos(1));
            cores.note(before, core, 2, now.get())
        };
        let looks = |many| (0..many).filter(|_| look(Some(1), 1)).count();
        (0..4).for_each(|_| assert!(!look(None, 1)));
        assert_eq!(looks(PILED_LOOKS - 1), 0);
        assert!(!look(Some(1), 0));
        assert_eq!(looks(PILED_LOOKS), 0);
        assert!(!look(Some(0), 1));
        assert_eq!((looks(PILED_LOOKS - 1), looks(1)), (0, 1));
        assert_eq!((looks(PILED_LOOKS), looks(1)), (0, 1), "and after as long again");
        // One client has disconnected.
        cores.left(Some(1));
        assert_eq!(looks(4 * PILED_LOOKS), 0);
    }

    #[test]
    fn dedicated_worker_3_who_is_found_again_is_left_alone_for_longer() {
        let (dedicated, connections) = (DedicatedWorkers::default(), connections(1));
        let mut window = 100;
        let mut left_for = || {
            dedicated.note_piled();
            let from = window;
            while dedicated.is_crowded(9, 9) {
                window += 1;
                dedicated.note_asked(&connections[0], WINDOW * window as u32);
            }
            window - from
        };
        dedicated.note_asked(&connections[0], WINDOW * 100);
        let found: Vec<u64> = (0..6).map(|_| left_for()).collect();
        assert_eq!(found, [1, 2, 4, 8, 16, 16].map(|times| times * PILED_FOR));
        window += PILED_SOON + 1;
        dedicated.note_asked(&connections[0], WINDOW * window as u32);
        let left_for = || {
            dedicated.note_piled();
            dedicated.piled_until.load(Relaxed) - dedicated.window.load(Relaxed)
        };
        assert_eq!((left_for(), left_for()), (PILED_FOR, 2 * PILED_FOR));
    }

    /// DEDICATED-WORKER-3: each waiting client counts once in a window.
    #[test]
    fn dedicated_worker_3_none_stays_where_more_wait_than_there_are_workers() {
        let (dedicated, connections) = (DedicatedWorkers::default(), connections(4));
        let wait = |window: u32, connections: &[Calm]| {
            for connection in connections.iter().chain(connections) {
                dedicated.note_asked(connection, WINDOW * window);
                dedicated.note_waited(connection);
            }
        };
        wait(5, &connections[..2]);
        assert!(dedicated.begin(9, 2) && !dedicated.begin(9, 1));
        wait(6, &connections[1..]);
        assert!(dedicated.begin(9, 3) && !dedicated.begin(9, 2));
        dedicated.note_asked(&connections[0], WINDOW * 7);
        assert!(!dedicated.begin(9, 2));
        dedicated.note_asked(&connections[0], WINDOW * 8);
        assert!(dedicated.begin(9, 0));
    }

    #[test]
    fn dedicated_worker_3_no_more_begin_than_there_are_places() {
        let (dedicated, connections) = (DedicatedWorkers::default(), connections(4));
        assert!((0..3).all(|_| dedicated.begin(3, 1)) && !dedicated.begin(3, 1));
        dedicated.now.fetch_sub(1, SeqCst);
        assert!(dedicated.begin(3, 1));
        dedicated.now.store(0, SeqCst);
        connections.iter().for_each(|connection| dedicated.note_asked(connection, WINDOW));
        assert!(!dedicated.begin(3, 1));
    }
}
