//! Answers that a worker has made up and not sent yet.
//!
//! A worker that has more to do than one brief statement sends what it answered together
//! ([`crate::post`]). Until then it has the seats of those clients in hand, on its tray.
//!
//! # Guarantees
//!
//! - **Y1.** What is on a tray is sent before its worker does anything that may take long: a
//!   statement that is not known to be brief, or has met more rows than it can be brief with
//!   ([`spillway_base::thread::long_ahead`]); a wait of any kind
//!   ([`spillway_base::thread::blocking`]); a write of the log; and before it rests, sleeps or
//!   ends.
//! - **Y2.** No more lie there than [`MOST`], and none stays when its worker has served anything
//!   that it kept no answer of, or serves another
//!   [`AGE`] after the first. Where answers are not to be sent together, none stays.
//! - **Y3.** Emptying it waits for nothing. A client that does not take all of its answer is
//!   queued, and whoever has it next waits for it.
//! - **Y4.** Each seat is rested or queued, once, after as much of its answer was sent as its
//!   client took.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::MutexGuard;
use smallvec::{SmallVec, smallvec};

use super::Pool;
use super::seat::{Seat, Sitting};
use crate::connection::Client;
use crate::post::{Parcel, Post};

/// Answers on one tray.
pub(crate) const MOST: usize = 16;

/// How long the first waits for others, at most, while none of their statements is long.
const AGE: Duration = Duration::from_micros(100);

/// Who is answered, and until when it is waited for then.
type Answered = (Arc<Seat>, Duration);

#[derive(Default)]
struct Tray {
    answered: Vec<Answered>,
    /// When the first of them was put there.
    since: Duration,
    post: Option<Post>,
}

thread_local! {
    static TRAY: RefCell<Tray> = RefCell::default();
}

impl Pool {
    /// Keeps a seat whose answer is made up, until it is sent with others.
    pub(super) fn keep(&self, seat: Arc<Seat>, until: Duration) {
        TRAY.with_borrow_mut(|tray| tray.answered.push((seat, until)));
        if !self.together {
            self.send_kept();
        }
    }

    /// Sends what is on the calling worker's tray where that is enough, or old enough. Whether
    /// there was anything to be sent.
    pub(super) fn send_enough(&self, now: Duration) -> bool {
        let enough = TRAY.with_borrow_mut(|tray| {
            if tray.answered.len() == 1 {
                tray.since = now;
            }
            let old = !tray.answered.is_empty() && now >= tray.since + AGE;
            old || tray.answered.len() >= MOST
        });
        if enough {
            self.send_kept();
        }
        enough
    }

    /// Sends what is on the calling worker's tray. Its caller may hold any lock but those of the
    /// pool: what a client that has gone leaves behind is for whoever has its seat next to see to.
    pub(super) fn send_kept(&self) {
        let Some((mut answered, mut post)) = TRAY.with_borrow_mut(|tray| {
            let some = !tray.answered.is_empty();
            some.then(|| (std::mem::take(&mut tray.answered), tray.post.take()))
        }) else {
            return;
        };
        if answered.len() > 1 {
            self.shared.counters.answers_together.add_many(answered.len() as u64);
        }
        let all_sent = post_all(&answered, &mut post);
        for ((seat, until), all_sent) in answered.drain(..).zip(all_sent) {
            if all_sent && seat.rest(until) {
                self.timer.note(until);
            } else {
                self.push(seat);
            }
        }
        TRAY.with_borrow_mut(|tray| (tray.answered, tray.post) = (answered, post));
    }
}

/// Sends each what it takes of its answer; whether that was all of it.
fn post_all(answered: &[Answered], post: &mut Option<Post>) -> SmallVec<[bool; MOST]> {
    // Nobody else has them: each lock is free.
    let mut sittings: SmallVec<[_; MOST]> =
        answered.iter().map(|(seat, _)| seat.sitting.lock()).collect();
    let mut sent: SmallVec<[_; MOST]> = smallvec![Ok(0); answered.len()];
    let served = sittings.iter().map(|sitting| sitting.served().and_then(Client::parcel));
    let served = served.enumerate().filter_map(|(at, parcel)| Some((at, parcel?)));
    let (places, mut parcels): (SmallVec<[_; MOST]>, SmallVec<[_; MOST]>) = served.unzip();
    match &mut parcels[..] {
        [one] => Parcel::send(one),
        several => post.get_or_insert_with(|| Post::new(MOST as u32)).send(several),
    }
    for (at, parcel) in places.into_iter().zip(parcels) {
        sent[at] = parcel.sent();
    }
    let tell = |(sitting, sent): (&mut MutexGuard<'_, Sitting>, _)| {
        sitting.served_mut().is_some_and(|client| client.posted(sent))
    };
    sittings.iter_mut().zip(sent).map(tell).collect()
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

    /// Of a seat whose client has gone: the pool is done with it once it is queued.
    const NOBODY: u64 = 1 << 32;
    /// As much later as makes a difference.
    const A_BIT: Duration = Duration::from_nanos(1);

    fn pool(together: bool) -> Arc<Pool> {
        let mut settings = Settings::default();
        settings.without.extend((!together).then_some(Mechanism::AnswerBatches));
        let instance = Instance::open(Database::open_in_memory(settings).unwrap()).unwrap();
        let shared = Shared::new(instance, ServerSettings::default(), None);
        Pool::start(Arc::new(shared), 1).unwrap()
    }

    /// What a worker does that has served something and kept its answer: whether anything is sent
    /// for it. This thread has the tray of a worker.
    fn kept(pool: &Pool, now: Duration) -> bool {
        pool.keep(Arc::new(Seat::new(NOBODY, Sitting::Gone)), Duration::MAX);
        pool.send_enough(now)
    }

    fn on_tray() -> usize {
        TRAY.with_borrow(|tray| tray.answered.len())
    }

    fn sent_together(pool: &Pool) -> usize {
        let figures = pool.shared.metrics();
        let name = |figure: &&Metric| figure.name == "answers_together_total";
        figures.iter().find(name).unwrap().value as usize
    }

    /// Y2: what counts is when the first was put there, and of the first of the next ones again.
    #[test]
    fn y2_none_stays_when_another_is_served_that_much_later() {
        let pool = pool(true);
        let mut now = Duration::from_secs(1);
        for _ in 0..3 {
            assert!(!kept(&pool, now) && !kept(&pool, now + AGE / 2));
            assert!(!kept(&pool, now + AGE - A_BIT));
            assert_eq!(on_tray(), 3);
            assert!(kept(&pool, now + AGE));
            assert_eq!(on_tray(), 0);
            // Not long after the ones that have gone: it waits as long as they did.
            now += AGE + A_BIT;
        }
        assert!(!pool.send_enough(now + 2 * AGE), "there is nothing to be sent");
        pool.stop(true);
    }

    /// Y2: however short a time it was.
    #[test]
    fn y2_no_more_stay_than_so_many() {
        let pool = pool(true);
        let now = Duration::from_secs(1);
        for _ in 0..2 {
            assert!((1..MOST).all(|_| !kept(&pool, now)));
            assert_eq!(on_tray(), MOST - 1);
            assert!(kept(&pool, now));
            assert_eq!(on_tray(), 0);
        }
        assert_eq!(sent_together(&pool), 2 * MOST);
        pool.stop(true);
    }

    /// Y2: where they are not to be sent together.
    #[test]
    fn y2_none_stays_where_none_is_to() {
        let pool = pool(false);
        let now = Duration::from_secs(1);
        for _ in 0..2 * MOST {
            pool.keep(Arc::new(Seat::new(NOBODY, Sitting::Gone)), Duration::MAX);
            assert_eq!(on_tray(), 0);
            assert!(!pool.send_enough(now));
        }
        assert_eq!(sent_together(&pool), 0);
        pool.stop(true);
    }

    /// The pool's seat of a client who is to come over a socket, which this thread has, and hears
    /// of as a worker would.
    fn seat(pool: &Pool, ours: UnixStream) -> Arc<Seat> {
        let raw = Arc::new(Raw::from(ours));
        let slot = pool.shared.admit(raw.clone(), Entrance::Public, None).unwrap();
        let id = slot.id;
        let socket = Socket::new(raw.clone(), pool.shared.traffic.clone());
        let seat = Arc::new(Seat::new(id, Sitting::Came { socket, address: None, slot }));
        pool.seats.write().insert(id, seat.clone());
        let flags = EventFlags::IN | EventFlags::RDHUP | EventFlags::ET;
        epoll::add(&pool.epoll, &*raw, EventData::new_u64(id), flags).unwrap();
        seat.stir(false);
        seat
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

    /// Y2: one of a client whose commands do not end before it is sent, and who takes all answers
    /// to them.
    #[test]
    fn y2_none_stays_while_another_is_served_on_and_on() {
        const BURSTS: usize = 10_000;
        let pool = pool(true);
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (mut reader, mut writer) = (theirs.try_clone().unwrap(), theirs);
        let kept = Arc::new(Seat::new(NOBODY, Sitting::Gone));
        let waits = kept.clone();
        writer.write_all(&login()).unwrap();
        let pings = packet(0, &[0x0E]).repeat(100);
        writer.write_all(&pings).unwrap();
        let sends = thread::spawn("sends", move || {
            // Once it is sent the pool lets go of it.
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
        let served = seat(&pool, ours);
        pool.keep(kept, Duration::MAX);
        pool.serve(served, None);
        let stayed =
            TRAY.with_borrow(|tray| tray.answered.iter().any(|(seat, _)| seat.id == NOBODY));
        pool.send_kept();
        let sent_meanwhile = sends.unwrap().join().unwrap();
        assert!(takes.unwrap().join().unwrap() > 0);
        assert!(sent_meanwhile && !stayed, "it was not sent as long as the other went on");
        pool.stop(true);
    }
}
