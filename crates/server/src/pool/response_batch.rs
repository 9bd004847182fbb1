//! Responses that a worker has built and not sent yet.
//!
//! A worker that runs one brief statement after the other sends the responses of several statements
//! together ([`crate::batched_send`]). Until the worker sends a response, it keeps the response's
//! connection in its batch.
//!
//! # Guarantees
//!
//! - **RESPONSE-BATCH-1.** A worker sends its batch before it does anything that may take long,
//!   that is:
//!   - before it runs a statement that is not known to be brief, and before it continues a
//!     statement that has met more rows than a brief statement may meet
//!     ([`spillway_base::thread::long_ahead`]);
//!   - before it waits for anything ([`spillway_base::thread::blocking`]);
//!   - before it writes the log;
//!   - before it becomes spare, sleeps or ends.
//! - **RESPONSE-BATCH-2.** A batch has at most [`MOST`] responses, and is sent when it has that
//!   many. After a worker has served a connection, it sends the batch if the connection's response
//!   does not go into the batch, or if the batch's first response is at least [`AGE`] old. If
//!   batches are off, each response is sent at once.
//! - **RESPONSE-BATCH-3.** Sending a batch waits for no client. If a client's socket does not
//!   accept the whole response, its connection is queued, and the worker that serves it next waits
//!   for the client.
//! - **RESPONSE-BATCH-4.** Each connection is released or queued exactly once, after its socket has
//!   accepted as much of the response as it can.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::MutexGuard;
use smallvec::{SmallVec, smallvec};

use super::Pool;
use super::connection_slot::{ConnectionSlot, ConnectionState};
use crate::batched_send::{BatchedSend, PendingSend};
use crate::connection::Client;

/// The most responses in a batch.
pub(crate) const MOST: usize = 16;

/// How long the first response of a batch waits at most for others while none of their statements
/// is long.
const AGE: Duration = Duration::from_micros(100);

/// A connection with its response, and its next deadline once the response is sent.
type Answered = (Arc<ConnectionSlot>, Duration);

#[derive(Default)]
struct ResponseBatch {
    answered: Vec<Answered>,
    /// When the first response was added.
    since: Duration,
    post: Option<BatchedSend>,
}

thread_local! {
    static BATCH: RefCell<ResponseBatch> = RefCell::default();
}

impl Pool {
    /// Keeps a connection whose response is complete, until it is sent with others.
    pub(super) fn keep(&self, connection: Arc<ConnectionSlot>, until: Duration) {
        BATCH.with_borrow_mut(|batch| batch.answered.push((connection, until)));
        if !self.together {
            self.send_kept();
        }
    }

    /// Sends the calling worker's batch if it is full or old. Returns whether it was sent.
    pub(super) fn send_enough(&self, now: Duration) -> bool {
        let enough = BATCH.with_borrow_mut(|batch| {
            if batch.answered.len() == 1 {
                batch.since = now;
            }
            let old = !batch.answered.is_empty() && now >= batch.since + AGE;
            old || batch.answered.len() >= MOST
        });
        if enough {
            self.send_kept();
        }
        enough
    }

    /// Sends the calling worker's batch. The caller may hold any lock except the pool's. If a
    /// client has disconnected, its connection is queued, and the worker that serves it next
    /// removes it.
    pub(super) fn send_kept(&self) {
        let Some((mut answered, mut post)) = BATCH.with_borrow_mut(|batch| {
            let some = !batch.answered.is_empty();
            some.then(|| (std::mem::take(&mut batch.answered), batch.post.take()))
        }) else {
            return;
        };
        if answered.len() > 1 {
            self.shared.counters.answers_together.add_many(answered.len() as u64);
        }
        let all_sent = send_all(&answered, &mut post);
        for ((connection, until), all_sent) in answered.drain(..).zip(all_sent) {
            if all_sent && connection.rest(until) {
                self.timer.note(until);
            } else {
                self.push(connection);
            }
        }
        BATCH.with_borrow_mut(|batch| (batch.answered, batch.post) = (answered, post));
    }
}

/// Sends to each client as much of its response as its socket accepts. Returns for each whether
/// that was all.
fn send_all(answered: &[Answered], post: &mut Option<BatchedSend>) -> SmallVec<[bool; MOST]> {
    // No other thread holds these connections, so each lock is free.
    let mut states: SmallVec<[_; MOST]> =
        answered.iter().map(|(connection, _)| connection.state.lock()).collect();
    let mut sent: SmallVec<[_; MOST]> = smallvec![Ok(0); answered.len()];
    let served = states.iter().map(|state| state.served().and_then(Client::pending_send));
    let served = served.enumerate().filter_map(|(at, pending_send)| Some((at, pending_send?)));
    let (places, mut sends): (SmallVec<[_; MOST]>, SmallVec<[_; MOST]>) = served.unzip();
    match &mut sends[..] {
        [one] => PendingSend::send(one),
        several => post.get_or_insert_with(|| BatchedSend::new(MOST as u32)).send(several),
    }
    for (at, pending_send) in places.into_iter().zip(sends) {
        sent[at] = pending_send.sent();
    }
    let tell = |(state, sent): (&mut MutexGuard<'_, ConnectionState>, _)| {
        state.served_mut().is_some_and(|client| client.posted(sent))
    };
    states.iter_mut().zip(sent).map(tell).collect()
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write, copy, sink};
    use std::net::Shutdown;
    use std::os::unix::net::UnixStream;

    use rustix::event::epoll::{self, EventData, EventFlags};
    use spillway::{Database, Mechanism, Metric, Settings};
    use spillway_base::thread;
    use spillway_sql::Instance;

    use super::*;
    use crate::admission::Entrance;
    use crate::capabilities as can;
    use crate::server::{ServerSettings, Shared};
    use crate::transport::{Raw, Socket};

    /// The id of a connection whose client has disconnected. The pool does nothing more with it
    /// once it is queued.
    const NOBODY: u64 = 1 << 32;
    /// The least delay that makes a difference.
    const A_BIT: Duration = Duration::from_nanos(1);

    fn pool(together: bool) -> Arc<Pool> {
        let mut settings = Settings::default();
        settings.without.extend((!together).then_some(Mechanism::AnswerBatches));
        let instance = Instance::open(Database::open_in_memory(settings).unwrap()).unwrap();
        let shared = Shared::new(instance, ServerSettings::default(), None);
        Pool::start(Arc::new(shared), 1).unwrap()
    }

    /// Acts as a worker that has served a command and kept its response. Returns whether the batch
    /// was sent. This thread has the batch of a worker.
    fn kept(pool: &Pool, now: Duration) -> bool {
        pool.keep(Arc::new(ConnectionSlot::new(NOBODY, ConnectionState::Gone)), Duration::MAX);
        pool.send_enough(now)
    }

    fn in_batch() -> usize {
        BATCH.with_borrow(|batch| batch.answered.len())
    }

    fn sent_together(pool: &Pool) -> usize {
        let figures = pool.shared.metrics();
        let name = |figure: &&Metric| figure.name == "answers_together_total";
        figures.iter().find(name).unwrap().value as usize
    }

    /// RESPONSE-BATCH-2: the age of a batch counts from its first response, and begins anew with
    /// each batch.
    #[test]
    fn response_batch_2_none_stays_when_another_is_served_that_much_later() {
        let pool = pool(true);
        let mut now = Duration::from_secs(1);
        for _ in 0..3 {
            assert!(!kept(&pool, now) && !kept(&pool, now + AGE / 2));
            assert!(!kept(&pool, now + AGE - A_BIT));
            assert_eq!(in_batch(), 3);
            assert!(kept(&pool, now + AGE));
            assert_eq!(in_batch(), 0);
            // Soon after the previous batch was sent: the next batch gets as much time as the
            // previous one.
            now += AGE + A_BIT;
        }
        assert!(!pool.send_enough(now + 2 * AGE), "there is nothing to be sent");
        pool.stop(true);
    }

    /// RESPONSE-BATCH-2: the bound of responses also holds if all come within a very short time.
    #[test]
    fn response_batch_2_no_more_stay_than_so_many() {
        let pool = pool(true);
        let now = Duration::from_secs(1);
        for _ in 0..2 {
            assert!((1..MOST).all(|_| !kept(&pool, now)));
            assert_eq!(in_batch(), MOST - 1);
            assert!(kept(&pool, now));
            assert_eq!(in_batch(), 0);
        }
        assert_eq!(sent_together(&pool), 2 * MOST);
        pool.stop(true);
    }

    /// RESPONSE-BATCH-2: if batches are off.
    #[test]
    fn response_batch_2_none_stays_where_none_is_to() {
        let pool = pool(false);
        let now = Duration::from_secs(1);
        for _ in 0..2 * MOST {
            pool.keep(Arc::new(ConnectionSlot::new(NOBODY, ConnectionState::Gone)), Duration::MAX);
            assert_eq!(in_batch(), 0);
            assert!(!pool.send_enough(now));
        }
        assert_eq!(sent_together(&pool), 0);
        pool.stop(true);
    }

    /// The pool's connection of a client over a socket. This thread holds the connection and acts
    /// as a worker for it.
    fn connection(pool: &Pool, ours: UnixStream) -> Arc<ConnectionSlot> {
        let raw = Arc::new(Raw::from(ours));
        let slot = pool.shared.admit(raw.clone(), Entrance::Public, None).unwrap();
        let id = slot.id;
        let socket = Socket::new(raw.clone(), pool.shared.traffic.clone());
        let connection = Arc::new(ConnectionSlot::new(
            id,
            ConnectionState::Came { socket, address: None, slot },
        ));
        pool.connections.write().insert(id, connection.clone());
        let flags = EventFlags::IN | EventFlags::RDHUP | EventFlags::ET;
        epoll::add(&pool.epoll, &*raw, EventData::new_u64(id), flags).unwrap();
        connection.stir(false);
        connection
    }

    fn packet(sequence: u8, payload: &[u8]) -> Vec<u8> {
        [&[payload.len() as u8, 0, 0, sequence], payload].concat()
    }

    fn login() -> Vec<u8> {
        let mut hello =
            (can::OURS & !can::CONNECT_WITH_DB & !can::PLUGIN_AUTH_LENENC).to_le_bytes().to_vec();
        hello.extend_from_slice(&[0; 4 + 1 + 23]);
        hello.extend_from_slice(b"root\0\0mysql_native_password\0");
        packet(1, &hello)
    }

    /// RESPONSE-BATCH-2: a response is sent in time although another client sends command after
    /// command and takes all its responses.
    #[test]
    fn response_batch_2_none_stays_while_another_is_served_on_and_on() {
        const BURSTS: usize = 10_000;
        let pool = pool(true);
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (mut reader, mut writer) = (theirs.try_clone().unwrap(), theirs);
        let kept = Arc::new(ConnectionSlot::new(NOBODY, ConnectionState::Gone));
        let waits = kept.clone();
        writer.write_all(&login()).unwrap();
        let pings = packet(0, &[0x0E]).repeat(100);
        writer.write_all(&pings).unwrap();
        let sends = thread::spawn("sends", move || {
            // Once it is sent, the pool releases the connection.
            let sent_meanwhile = (0..BURSTS).any(|_| {
                writer.write_all(&pings).unwrap();
                Arc::strong_count(&waits) == 1
            });
            writer.shutdown(Shutdown::Write).unwrap();
            sent_meanwhile
        });
        let takes = thread::spawn("takes", move || {
            reader.read_exact(&mut [0; 4]).unwrap();
            copy(&mut reader, &mut sink()).unwrap()
        });
        let served = connection(&pool, ours);
        pool.keep(kept, Duration::MAX);
        pool.serve(served, None);
        let stayed = BATCH.with_borrow(|batch| {
            batch.answered.iter().any(|(connection, _)| connection.id == NOBODY)
        });
        pool.send_kept();
        let sent_meanwhile = sends.unwrap().join().unwrap();
        assert!(takes.unwrap().join().unwrap() > 0);
        assert!(sent_meanwhile && !stayed, "it was not sent as long as the other went on");
        pool.stop(true);
    }
}
