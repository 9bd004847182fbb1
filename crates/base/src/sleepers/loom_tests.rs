//! SLEEPERS-1 and SLEEPERS-2 over all orders of a few threads' steps. A lost wake-up is a deadlock,
//! which loom reports. If [`Sleepers::relieve`] did not ring, loom would report a deadlock in the
//! second model. No test shows this, because loom ends the process at a deadlock.

use crate::sync::{Arc, Condvar, Mutex, model, thread};

use super::Sleepers;

/// A model of the poller: it reports each event once, to one waiting thread.
#[derive(Default)]
struct Events {
    clients: usize,
    bell: bool,
    /// No more events come.
    ended: bool,
}

#[derive(PartialEq)]
enum Event {
    Client,
    Bell,
}

impl Events {
    fn take(&mut self) -> Option<Event> {
        if std::mem::take(&mut self.bell) {
            return Some(Event::Bell);
        }
        self.clients = self.clients.checked_sub(1)?;
        Some(Event::Client)
    }
}

/// Workers, their queue and their poller, as in the server's pool.
struct Pool {
    sleepers: Sleepers,
    events: Mutex<Events>,
    arrived: Condvar,
    /// The numbers of ready commands and of served commands.
    queue: Mutex<(usize, usize)>,
    commands: usize,
}

impl Pool {
    fn new(commands: usize) -> Arc<Pool> {
        Arc::new(Pool {
            sleepers: Sleepers::new(),
            events: Mutex::new(Events::default()),
            arrived: Condvar::new(),
            queue: Mutex::new((0, 0)),
            commands,
        })
    }

    /// A client sends a command, which is an event of the poller.
    fn send(&self) {
        self.events.lock().unwrap().clients += 1;
        self.arrived.notify_one();
    }

    fn ring(&self) {
        self.events.lock().unwrap().bell = true;
        self.arrived.notify_one();
    }

    /// Another thread queues work and wakes a sleeper, as a thread that releases a row lock does.
    fn push(&self) {
        self.queue.lock().unwrap().0 += 1;
        self.sleepers.wake_one(|| self.ring());
    }

    fn note(&self, event: Option<Event>) {
        match event {
            Some(Event::Client) => self.queue.lock().unwrap().0 += 1,
            Some(Event::Bell) => self.sleepers.heard(),
            None => {}
        }
    }

    fn has_work(&self) -> bool {
        self.queue.lock().unwrap().0 > 0
    }

    /// Waits for an event, as `epoll_wait` does.
    fn wait(&self) {
        let mut events = self.events.lock().unwrap();
        let event = loop {
            let event = events.take();
            if event.is_some() || events.ended {
                break event;
            }
            events = self.arrived.wait(events).unwrap();
        };
        drop(events);
        self.note(event);
    }

    /// Takes an event without waiting.
    fn collect(&self) {
        let event = self.events.lock().unwrap().take();
        self.note(event);
    }

    /// A worker: serves commands until all are served.
    fn work(&self) {
        loop {
            let mut queue = self.queue.lock().unwrap();
            if queue.0 > 0 {
                *queue = (queue.0 - 1, queue.1 + 1);
                if queue.1 == self.commands {
                    drop(queue);
                    self.events.lock().unwrap().ended = true;
                    self.arrived.notify_all();
                    return;
                }
                continue;
            }
            if queue.1 == self.commands {
                return;
            }
            drop(queue);
            self.sleepers.sleep(|| !self.has_work() && !self.is_done(), || self.wait());
        }
    }

    fn is_done(&self) -> bool {
        self.queue.lock().unwrap().1 == self.commands
    }

    /// The stall detector checks once.
    fn watch(&self) {
        self.sleepers.relieve(|| self.collect(), || self.has_work(), || self.ring());
    }
}

fn spawn(pool: &Arc<Pool>, run: fn(&Pool)) -> thread::JoinHandle<()> {
    let pool = pool.clone();
    thread::spawn(move || run(&pool))
}

/// SLEEPERS-1: a worker that goes to sleep meanwhile finds what another thread queues.
#[test]
fn loom_sleepers_1_queued_work_is_found() {
    model(3, || {
        let pool = Pool::new(2);
        let threads = [spawn(&pool, Pool::work), spawn(&pool, Pool::work)];
        pool.push();
        pool.push();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(pool.is_done());
    });
}

/// SLEEPERS-2: the stall detector takes a client's event while a worker goes to sleep.
#[test]
fn loom_sleepers_2_what_the_stall_detector_takes_is_found() {
    model(3, || {
        let pool = Pool::new(1);
        let threads = [spawn(&pool, Pool::work), spawn(&pool, Pool::watch)];
        pool.send();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(pool.is_done());
    });
}

/// SLEEPERS-1, SLEEPERS-2: the stall detector hears the bell that was rung for a sleeper.
#[test]
fn loom_sleepers_2_a_bell_that_the_stall_detector_hears_is_rung_again() {
    model(3, || {
        let pool = Pool::new(2);
        let threads = [spawn(&pool, Pool::work), spawn(&pool, Pool::watch)];
        pool.push();
        pool.send();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(pool.is_done());
    });
}
