//! Answers that a worker has made up and not sent yet.
//!
//! A worker that has more to do than one brief statement sends what it answered together ([`crate::post`]). Until then it has the seats of
//! those clients in hand, on its tray.
//!
//! # Guarantees
//!
//! - **Y1.** What is on a tray is sent before its worker does anything that may take long: a statement that is not known to be brief, or has
//!   met more rows than it can be brief with ([`spillway_base::thread::long_ahead`]); a wait of any kind
//!   ([`spillway_base::thread::blocking`]); a write of the log; and before it rests, sleeps or ends.
//! - **Y2.** No more lie there than [`MOST`], and none stays when its worker has served anything that it kept no answer of, or serves another
//!   [`AGE`] after the first. Where answers are not to be sent together, none stays.
//! - **Y3.** Emptying it waits for nothing. A client that does not take all of its answer is queued, and whoever has it next waits for it.
//! - **Y4.** Each seat is rested or queued, once, after as much of its answer was sent as its client took.

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

    /// Sends what is on the calling worker's tray where that is enough, or old enough. Whether there was anything to be sent.
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

    /// Sends what is on the calling worker's tray. Its caller may hold any lock but those of the pool: what a client that has gone leaves
    /// behind is for whoever has its seat next to see to.
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
