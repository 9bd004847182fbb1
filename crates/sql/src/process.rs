//! The state of a session that other sessions use: the statement that the session runs, requests to
//! kill it, and the number of statements that it has run.
//!
//! # Beginning a statement
//!
//! Every statement records its beginning for other sessions, although they rarely look at the
//! record. So recording must be cheap. For a prepared statement, the session locks no mutex: it
//! only stores the statement's id and the session's phase (see below) in atomics. The process list
//! looks the id up in a map to which [`Process::keep`] has added the statement's text.
//!
//! A session that kills a statement (the killer) cannot know whether that statement has ended
//! meanwhile, and must not stop the next one. So each session counts its phases: odd phases are
//! statements, even phases are the times between them. The killer reads the phase, and its request
//! is for this phase only. No request is lost, because both sessions access the shared values in a
//! fixed order:
//!
//! - The killer first sets [`Process::was_asked`] of the session whose statement it kills, and then
//!   reads that session's phase.
//! - A session that begins a statement first stores its new phase, and then reads its `was_asked`.
//!
//! These accesses are sequentially consistent. So the killer sees the new phase, or the beginning
//! session sees the request, or both.
//!
//! If the killer saw an earlier phase, its request was not meant for the beginning statement. The
//! session that begins the statement sees the request, waits until the killer is done, and discards
//! the request.
//!
//! Rejected: a mutex in each session, which its statements and the killers lock. Locking and
//! unlocking the mutex would cost each statement two more writes to shared memory.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use rustc_hash::FxHashMap;
use spillway::CancelHandle;
use spillway_base::lock::Mutex;
use spillway_base::stall::{Cause, Ledger};

/// The requests of other sessions to stop a session or its statement.
#[derive(Default)]
pub(crate) struct Stop {
    /// Whether the session must end.
    pub(crate) killed: AtomicBool,
    /// Whether the session's statement must end.
    pub(crate) interrupted: AtomicBool,
}

impl Stop {
    /// Whether the running statement must end.
    pub(crate) fn is_asked(&self) -> bool {
        self.killed.load(Ordering::Acquire) || self.interrupted.load(Ordering::Acquire)
    }
}

/// Counts the statements that were run.
#[derive(Default)]
pub(crate) struct Ran {
    pub(crate) all: AtomicU64,
    /// The number of statements that were point reads.
    pub(crate) points: AtomicU64,
}

impl Ran {
    /// Counts a statement. Only the session itself calls this, so no atomic read-modify-write is
    /// needed.
    pub(crate) fn begun(&self) {
        self.all.store(self.all.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Counts a statement that was a point read.
    pub(crate) fn was_point(&self) {
        self.points.store(self.points.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Adds the counts of a session that ends.
    pub(crate) fn add(&self, other: &Ran) {
        self.all.fetch_add(other.all.load(Ordering::Relaxed), Ordering::Relaxed);
        self.points.fetch_add(other.points.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// A session as other sessions see it.
pub(crate) struct Process {
    pub(crate) user: String,
    /// The host of the session's account.
    pub(crate) user_host: String,
    host: String,
    pub(crate) stop: Stop,
    pub(crate) ran: Ran,
    pub(crate) doing: Mutex<Doing>,
    /// Odd while a statement runs. Only the session itself changes it.
    phase: AtomicU64,
    /// The id of the running or last prepared statement. Zero if the statement was not prepared;
    /// then `doing` has its text.
    called: AtomicU32,
    /// Whether a stop was requested that may have been meant for an earlier statement.
    was_asked: AtomicBool,
    /// Cancels waits of the session's own transactions.
    pub(crate) cancel: CancelHandle,
    /// The number of the session's open or last transaction.
    pub(crate) transaction: AtomicU64,
    /// The waits of the session's statements.
    pub(crate) stalls: Arc<Ledger>,
}

/// A session in the list of processes.
pub(crate) struct ProcessLine {
    pub(crate) id: u64,
    pub(crate) user: String,
    pub(crate) host: String,
    pub(crate) database: Option<String>,
    /// The number of the session's open or last transaction.
    pub(crate) transaction: u64,
    /// The running statement.
    pub(crate) statement: Option<String>,
    /// What the session is doing, or for what it waits.
    pub(crate) state: Cow<'static, str>,
}

/// The activity of a session. The session writes it, and other sessions read it.
#[derive(Default)]
pub(crate) struct Doing {
    pub(crate) database: Option<String>,
    /// The running or last statement, unless it was prepared.
    statement: String,
    /// The texts of prepared statements, by their ids.
    prepared: FxHashMap<u32, Arc<str>>,
    /// The progress of the statement, if it reports one.
    pub(crate) state: Option<String>,
    /// Cancels waits of a transaction other than the session's own.
    pub(crate) cancel: Option<CancelHandle>,
    /// The phase that a killer has last asked to end.
    killed: u64,
}

/// How the list of processes finds a statement's text.
#[derive(Clone, Copy)]
pub(crate) enum Called<'a> {
    Text(&'a str),
    /// The id of a prepared statement ([`Process::keep`]).
    Prepared(u32),
}

/// Keeps the text of a prepared statement in the list of processes, until this is dropped.
pub(crate) struct PreparedText {
    process: Arc<Process>,
    id: u32,
}

impl Drop for PreparedText {
    fn drop(&mut self) {
        self.process.doing.lock().prepared.remove(&self.id);
    }
}

/// How many bytes of a statement are shown.
const SHOWN: usize = 1024;

fn shown(statement: &str) -> &str {
    &statement[..statement.floor_char_boundary(SHOWN)]
}

impl Process {
    pub(crate) fn new(user: &str, host: &str, user_host: &str) -> Process {
        Process {
            user: user.to_owned(),
            user_host: user_host.to_owned(),
            host: host.to_owned(),
            stop: Stop::default(),
            ran: Ran::default(),
            doing: Mutex::default(),
            phase: AtomicU64::new(0),
            called: AtomicU32::new(0),
            was_asked: AtomicBool::new(false),
            cancel: CancelHandle::default(),
            transaction: AtomicU64::new(0),
            stalls: Arc::default(),
        }
    }

    /// Adds the text of a prepared statement to those that the list of processes finds. Its id must
    /// not be zero.
    pub(crate) fn keep(self: &Arc<Process>, id: u32, text: Arc<str>) -> PreparedText {
        self.doing.lock().prepared.insert(id, text);
        PreparedText { process: self.clone(), id }
    }

    /// Called when a statement begins. A KILL QUERY for an earlier statement does not stop it. A
    /// KILL QUERY for an enclosing statement, such as EXECUTE, does.
    pub(crate) fn begin(&self, called: Called<'_>) {
        match called {
            Called::Prepared(id) => self.called.store(id, Ordering::Relaxed),
            Called::Text(text) => {
                let mut doing = self.doing.lock();
                doing.statement.clear();
                doing.statement.push_str(shown(text));
                self.called.store(0, Ordering::Relaxed);
            }
        }
        let phase = self.phase.load(Ordering::Relaxed);
        if !is_statement(phase) {
            self.phase.store(phase + 1, SeqCst);
            if self.was_asked.load(SeqCst) {
                self.take_back(phase + 1);
            }
        }
    }

    /// Withdraws a stop that was requested in an earlier phase than this one.
    #[cold]
    fn take_back(&self, phase: u64) {
        // No other thread is in [`Process::interrupt`] while this one holds the lock.
        let doing = self.doing.lock();
        if doing.killed == phase || self.stop.killed.load(Ordering::Acquire) {
            // The stop is meant for this phase, or the whole session must end. In the first case,
            // the next phase withdraws the stop.
            return;
        }
        self.was_asked.store(false, SeqCst);
        if self.stop.interrupted.load(Ordering::Acquire) {
            self.stop.interrupted.store(false, Ordering::Release);
            self.cancel.clear();
        }
    }

    /// Called when the statement has ended.
    pub(crate) fn end(&self) {
        let phase = self.phase.load(Ordering::Relaxed);
        if is_statement(phase) {
            self.phase.store(phase + 1, Ordering::Release);
        }
    }

    /// The phase of the running statement, if there is one.
    pub(crate) fn running(&self) -> Option<u64> {
        Some(self.phase.load(Ordering::Acquire)).filter(|phase| is_statement(*phase))
    }

    /// Makes the running statement end, if there is one. With `anything`, the session must end, and
    /// whatever it does is stopped.
    pub(crate) fn interrupt(&self, anything: bool) {
        let mut doing = self.doing.lock();
        self.was_asked.store(true, SeqCst);
        let phase = self.phase.load(SeqCst);
        if is_statement(phase) || anything {
            doing.killed = phase;
            self.stop.interrupted.store(true, Ordering::Release);
            self.cancel_waits(&doing);
        }
    }

    /// Cancels waits of the session's transactions.
    pub(crate) fn cancel(&self) {
        self.cancel_waits(&self.doing.lock());
    }

    fn cancel_waits(&self, doing: &Doing) {
        self.cancel.cancel();
        if let Some(cancel) = &doing.cancel {
            cancel.cancel();
        }
    }

    /// The session's line in the list of processes.
    pub(crate) fn line(&self, id: u64) -> ProcessLine {
        let doing = self.doing.lock();
        // The statement's text or id was stored before its phase.
        let is_running = is_statement(self.phase.load(Ordering::Acquire));
        let statement = || match self.called.load(Ordering::Relaxed) {
            0 => doing.statement.clone(),
            id => doing.prepared.get(&id).map_or_else(String::new, |text| shown(text).to_owned()),
        };
        ProcessLine {
            id,
            user: self.user.clone(),
            host: self.host.clone(),
            database: doing.database.clone(),
            transaction: self.transaction.load(Ordering::Relaxed),
            statement: is_running.then(statement),
            state: match (&doing.state, self.stalls.waiting()) {
                (Some(state), _) => state.clone().into(),
                (None, waiting) => waiting.map_or("", Cause::state).into(),
            },
        }
    }
}

fn is_statement(phase: u64) -> bool {
    !phase.is_multiple_of(2)
}

#[cfg(test)]
mod tests {
    use spillway_base::thread;

    use super::*;

    /// Whether the running statement and its waits must end.
    fn is_interrupted(process: &Process) -> bool {
        let interrupted = process.stop.interrupted.load(SeqCst);
        assert_eq!(interrupted, process.cancel.is_cancelled());
        interrupted
    }

    #[test]
    fn what_is_asked_of_a_statement_meets_its_parts_and_not_the_next() {
        let process = Process::new("root", "localhost", "%");
        process.interrupt(false);
        assert!(!is_interrupted(&process), "nothing runs");
        for called in [Called::Text("EXECUTE s"), Called::Prepared(1)] {
            process.begin(called);
            assert!(!is_interrupted(&process));
            process.interrupt(false);
            assert!(is_interrupted(&process));
            process.begin(Called::Prepared(2));
            assert!(is_interrupted(&process), "of one that runs it");
            process.end();
            process.interrupt(false);
        }
        process.interrupt(true);
        process.begin(Called::Prepared(1));
        assert!(!is_interrupted(&process));
    }

    #[test]
    fn who_kills_one_statement_meets_no_later_one() {
        let (process, over) = (Process::new("root", "localhost", "%"), AtomicBool::new(false));
        let (kept, missed, wrong) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
        thread::together(2, |thread| {
            if thread == 0 {
                while !over.load(SeqCst) {
                    process.interrupt(false);
                    std::thread::yield_now();
                }
                return;
            }
            let counted = |of: &AtomicU64| of.load(SeqCst);
            while counted(&kept) < 100 || counted(&missed) < 100 {
                process.begin(Called::Prepared(1));
                std::thread::yield_now();
                // A concurrent KILL is not blocked.
                if process.stop.interrupted.load(SeqCst) {
                    let killed = process.doing.lock().killed;
                    wrong.fetch_add(u64::from(killed != process.phase.load(SeqCst)), SeqCst);
                    kept.fetch_add(1, SeqCst);
                } else {
                    missed.fetch_add(1, SeqCst);
                }
                process.end();
            }
            over.store(true, SeqCst);
        });
        assert_eq!(wrong.into_inner(), 0, "of {kept:?} that were killed");
    }

    /// A statement that was killed while it began stays killed, and the next one is not.
    #[test]
    fn a_kill_that_comes_while_a_statement_begins_is_kept() {
        let process = Process::new("root", "localhost", "%");
        let is_asked = || (process.stop.is_asked(), process.cancel.is_cancelled());
        process.begin(Called::Prepared(1));
        process.interrupt(false);
        // Continue as if the KILL had come between two steps of `begin`.
        process.take_back(process.phase.load(SeqCst));
        assert_eq!(is_asked(), (true, true));
        process.end();
        process.begin(Called::Prepared(1));
        assert_eq!(is_asked(), (false, false));
        process.end();
        // The session is killed while its next statement is about to begin.
        process.stop.killed.store(true, SeqCst);
        process.interrupt(true);
        process.begin(Called::Prepared(1));
        assert_eq!(is_asked(), (true, true));
    }

    #[test]
    fn a_prepared_statement_is_listed_by_its_text() {
        let process = Arc::new(Process::new("root", "localhost", "%"));
        let listed = || process.line(7).statement;
        let kept = process.keep(3, "SELECT ?".into());
        process.begin(Called::Prepared(3));
        assert_eq!(listed().as_deref(), Some("SELECT ?"));
        process.end();
        assert_eq!(listed(), None);
        process.begin(Called::Text(&"x".repeat(2 * SHOWN)));
        assert_eq!(listed().map(|text| text.len()), Some(SHOWN));
        drop(kept);
        assert!(process.doing.lock().prepared.is_empty());
    }
}
