//! Sends responses to several clients with one system call.
//!
//! A send to a local client takes about 4 us in the kernel. A fifth of that is the call itself and
//! the work at its end, such as scheduling the thread that it woke. A worker that runs one brief
//! statement after the other ([`crate::pool`]) need not pay this fifth for each: it submits several
//! responses together, through its own `io_uring`.
//!
//! # Guarantees
//!
//! - **BATCHED-SEND-1.** A send waits for no client: each client gets as many bytes as its socket
//!   accepts at once.
//! - **BATCHED-SEND-2.** When [`BatchedSend::send`] returns, the kernel no longer uses any memory
//!   that was passed to it.
//! - **BATCHED-SEND-3.** The result for each client is what a separate `send` would have returned.
//! - **BATCHED-SEND-4.** If the kernel does not support rings, has no free ring, or refuses a
//!   submission, each response is sent with a separate call.
#![allow(unsafe_code)] // A leaf: the system reads memory whose address it gets.

use std::os::fd::{AsFd, AsRawFd};

use io_uring::types::Fd;
use io_uring::{IoUring, opcode};
use rustix::io::Errno;
use rustix::net::{SendFlags, send};

use crate::transport::Raw;

const FLAGS: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);

/// Bytes for a client, and the number of them that its socket accepted.
pub(crate) struct PendingSend<'a> {
    raw: &'a Raw,
    bytes: &'a [u8],
    sent: Option<Result<usize, Errno>>,
}

impl<'a> PendingSend<'a> {
    pub(crate) fn new(raw: &'a Raw, bytes: &'a [u8]) -> PendingSend<'a> {
        PendingSend { raw, bytes, sent: None }
    }

    /// The number of bytes that the socket accepted; zero before the send.
    pub(crate) fn sent(&self) -> Result<usize, Errno> {
        self.sent.unwrap_or(Ok(0))
    }

    /// Sends the bytes with a system call of their own.
    pub(crate) fn send(&mut self) {
        self.sent = Some(send(self.raw, self.bytes, FLAGS));
    }
}

/// Sends to several clients with one system call, for one thread.
pub(crate) struct BatchedSend {
    most: u32,
    ring: Option<IoUring>,
}

impl BatchedSend {
    /// A sender of at most `most` responses at once.
    pub(crate) fn new(most: u32) -> BatchedSend {
        BatchedSend { most, ring: ring(most) }
    }

    /// Sends to each client as much as its socket accepts.
    pub(crate) fn send(&mut self, sends: &mut [PendingSend<'_>]) {
        if sends.len() > 1
            && let Some(ring) = &mut self.ring
            && !send_together(ring, sends)
        {
            self.ring = self::ring(self.most);
        }
        sends
            .iter_mut()
            .filter(|pending_send| pending_send.sent.is_none())
            .for_each(PendingSend::send);
    }
}

/// A ring, or `None` if the kernel provides none.
fn ring(most: u32) -> Option<IoUring> {
    // This thread submits and completes all sends within its calls, so the kernel need not
    // interrupt it for completions.
    let quiet = IoUring::builder().setup_single_issuer().setup_defer_taskrun().build(most);
    quiet.or_else(|_| IoUring::new(most)).ok()
}

/// Submits as many sends as the ring has entries. Returns whether the ring can be used again: not
/// if the kernel left some of them in it.
fn send_together(ring: &mut IoUring, sends: &mut [PendingSend<'_>]) -> bool {
    let mut pushed = 0;
    for pending_send in sends.iter() {
        let fd = Fd(pending_send.raw.as_fd().as_raw_fd());
        let len = u32::try_from(pending_send.bytes.len()).unwrap_or(u32::MAX);
        let send =
            opcode::Send::new(fd, pending_send.bytes.as_ptr(), len).flags(FLAGS.bits() as i32);
        // SAFETY: the bytes and the socket are borrowed until this function returns, and it returns
        // only once every send that the kernel took is completed.
        if unsafe { ring.submission().push(&send.build().user_data(pushed as u64)) }.is_err() {
            break;
        }
        pushed += 1;
    }
    let mut completed = 0;
    // A send that must not wait is complete when the call returns. The loop waits only for a kernel
    // that behaves differently.
    let mut wait_for = 0;
    loop {
        // The completion queue says what was done, even if the call fails.
        let _ = ring.submit_and_wait(wait_for);
        for completion in ring.completion() {
            let sent = completion.result();
            sends[completion.user_data() as usize].sent = match usize::try_from(sent) {
                Ok(sent) => Some(Ok(sent)),
                Err(_) if sent == -Errno::AGAIN.raw_os_error() => Some(Err(Errno::AGAIN)),
                // Nothing was sent. A separate call shows whether the client or the ring is the
                // cause.
                Err(_) => None,
            };
            completed += 1;
        }
        let left = ring.submission().len();
        if completed + left == pushed {
            return left == 0;
        }
        wait_for = 1;
    }
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read};
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;

    use super::*;

    /// Senders with each kind of ring that the kernel has, the newer and the older kind, and one
    /// without a ring.
    fn senders() -> [BatchedSend; 3] {
        let older = IoUring::new(4).ok();
        [
            BatchedSend::new(4),
            BatchedSend { most: 4, ring: older },
            BatchedSend { most: 4, ring: None },
        ]
    }

    fn tcp() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let theirs = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (listener.accept().unwrap().0, theirs)
    }

    /// BATCHED-SEND-3, BATCHED-SEND-4: more sends than a ring has entries, some of which fail.
    #[test]
    fn batched_send_3_each_is_sent_its_own_or_told_why_not() {
        for mut post in senders() {
            let pairs: Vec<_> = (0..9).map(|_| tcp()).collect();
            let (ours, theirs): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
            let raws: Vec<Raw> = ours.into_iter().map(Raw::from).collect();
            raws[2].close();
            raws[7].close();
            let texts: Vec<String> = (0..9).map(|at| format!("for {at}").repeat(at + 1)).collect();
            let mut sends: Vec<_> = raws
                .iter()
                .zip(&texts)
                .map(|(raw, text)| PendingSend::new(raw, text.as_bytes()))
                .collect();
            post.send(&mut sends);
            for (at, (pending_send, text)) in sends.iter().zip(&texts).enumerate() {
                let expected = if [2, 7].contains(&at) { Err(Errno::PIPE) } else { Ok(text.len()) };
                assert_eq!(pending_send.sent(), expected, "{at}");
            }
            drop(sends);
            drop(raws);
            for (at, (mut theirs, text)) in theirs.into_iter().zip(texts).enumerate() {
                let mut got = String::new();
                theirs.read_to_string(&mut got).unwrap();
                assert_eq!(got, if [2, 7].contains(&at) { String::new() } else { text });
            }
        }
    }

    /// BATCHED-SEND-4: a ring from which the kernel takes nothing is not used again. The sends in
    /// it are made once, with separate calls.
    #[test]
    fn batched_send_4_what_a_ring_keeps_is_sent_without_it() {
        let Ok(closed) = IoUring::builder().setup_r_disabled().build(4) else { return };
        let mut post = BatchedSend { most: 4, ring: Some(closed) };
        for text in ["first", "second"] {
            let (one, mut reads_one) = tcp();
            let (other, mut reads_other) = tcp();
            let (one, other) = (Raw::from(one), Raw::from(other));
            let mut sends = [&one, &other].map(|raw| PendingSend::new(raw, text.as_bytes()));
            post.send(&mut sends);
            assert!(sends.iter().all(|pending_send| pending_send.sent() == Ok(text.len())));
            drop((one, other));
            for reader in [&mut reads_one, &mut reads_other] {
                let mut got = String::new();
                reader.read_to_string(&mut got).unwrap();
                assert_eq!(got, text);
            }
        }
    }

    /// BATCHED-SEND-2: the memory of the sends is overwritten after the call, whether all, some or
    /// nothing was sent. The kernel must not send the new bytes, even when a socket has room and
    /// the ring is entered again.
    #[test]
    fn batched_send_2_nothing_is_looked_at_once_it_returns() {
        for mut post in senders() {
            let pairs: Vec<_> = (0..4).map(|_| UnixStream::pair().unwrap()).collect();
            let (ours, mut theirs): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
            let raws: Vec<Raw> = ours.into_iter().map(Raw::from).collect();
            let mut told = [0; 2];
            let mut bytes = vec![0; 64 << 10];
            let mut are_full = false;
            while !are_full {
                bytes.fill(7);
                let mut sends = [&raws[0], &raws[1]].map(|raw| PendingSend::new(raw, &bytes));
                post.send(&mut sends);
                let sent = sends.map(|pending_send| pending_send.sent());
                for (told, sent) in told.iter_mut().zip(sent) {
                    *told += sent.unwrap_or(0);
                }
                are_full = sent == [Err(Errno::AGAIN); 2];
                bytes.fill(8);
            }
            for (theirs, told) in theirs.iter_mut().zip(told) {
                let mut got = vec![0; told];
                theirs.read_exact(&mut got).unwrap();
                assert!(got.iter().all(|byte| *byte == 7), "it was looked at later");
            }
            post.send(&mut [&raws[2], &raws[3]].map(|raw| PendingSend::new(raw, b"more")));
            for theirs in &mut theirs[..2] {
                theirs.set_nonblocking(true).unwrap();
                let more = theirs.read(&mut [0]).map_err(|error| error.kind());
                assert_eq!(more, Err(ErrorKind::WouldBlock));
            }
        }
    }

    /// BATCHED-SEND-2: entries that the kernel did not take are no longer in the ring when it takes
    /// entries again.
    #[test]
    fn batched_send_2_what_a_ring_keeps_is_forgotten() {
        let Ok(closed) = IoUring::builder().setup_r_disabled().build(4) else { return };
        let mut post = BatchedSend { most: 4, ring: Some(closed) };
        let pairs: Vec<_> = (0..4).map(|_| UnixStream::pair().unwrap()).collect();
        let (ours, theirs): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
        let raws: Vec<Raw> = ours.into_iter().map(Raw::from).collect();
        let mut bytes = *b"first";
        let mut send = |raws: &[Raw], bytes: &[u8]| {
            let mut sends: Vec<_> = raws.iter().map(|raw| PendingSend::new(raw, bytes)).collect();
            post.send(&mut sends);
            assert!(sends.iter().all(|pending_send| pending_send.sent() == Ok(bytes.len())));
            drop(sends);
            if let Some(ring) = &mut post.ring {
                assert!(ring.submission().is_empty(), "the system would look at what it was given");
                // The earlier ring is enabled by this; a new ring is enabled already.
                let _ = ring.submitter().register_enable_rings();
            }
        };
        send(&raws[..2], &bytes);
        bytes.fill(b'!');
        send(&raws[2..], b"second");
        drop(raws);
        for (at, mut theirs) in theirs.into_iter().enumerate() {
            let mut got = String::new();
            theirs.read_to_string(&mut got).unwrap();
            assert_eq!(got, if at < 2 { "first" } else { "second" });
        }
    }

    /// BATCHED-SEND-1: the sender does not wait for a client whose socket is full, and sends as
    /// much as a socket has room for.
    #[test]
    fn batched_send_1_each_is_sent_what_it_takes_at_once() {
        for mut post in senders() {
            let (slow, mut reader) = UnixStream::pair().unwrap();
            let (quick, mut other) = UnixStream::pair().unwrap();
            let (slow, quick) = (Raw::from(slow), Raw::from(quick));
            let bytes: Vec<u8> = (0..4 << 20).map(|at: u32| (at % 251) as u8).collect();
            let mut sent = 0;
            loop {
                let mut sends =
                    [PendingSend::new(&slow, &bytes[sent..]), PendingSend::new(&quick, b"short")];
                post.send(&mut sends);
                assert_eq!(sends[1].sent(), Ok(5));
                match sends[0].sent() {
                    Ok(more) => sent += more,
                    Err(error) => {
                        assert_eq!(error, Errno::AGAIN);
                        break;
                    }
                }
            }
            assert!(sent > 0 && sent < bytes.len(), "{sent}");
            drop((slow, quick));
            let (mut got, mut short) = (Vec::new(), String::new());
            reader.read_to_end(&mut got).unwrap();
            other.read_to_string(&mut short).unwrap();
            assert!(got == bytes[..sent], "not what was sent");
            assert!(short.len() >= 10 && short.replace("short", "").is_empty());
        }
    }
}
