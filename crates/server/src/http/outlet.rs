//! Sends a page to its client in pieces while it is made.
//!
//! The length of a page is not known when it begins. So the body is sent in chunks, and the last
//! chunk says that the page is complete. HTTP/1.0 has no chunks: for a client of that version, the
//! end of the connection ends the page.

use std::fmt;
use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use super::{Page, head};

/// The approximate bytes of a piece.
pub(crate) const PIECE: usize = 256 << 10;
/// The most pieces that wait for a client. One more is being made, and one more is being sent.
pub(crate) const PIECES: usize = 2;

/// The bytes of a chunk's length line.
const LENGTH: usize = 10;

/// Takes a page from the code that makes it. If the outlet is dropped before the page is finished,
/// the page is truncated, which its client can detect.
pub(crate) struct Outlet {
    /// `None` once the client takes no more.
    pieces: Option<SyncSender<Vec<u8>>>,
    /// Written to when a piece is ready, or when no more follow.
    made: UnixStream,
    permit: Option<Arc<()>>,
    piece: Vec<u8>,
    with_body: bool,
    is_chunked: bool,
}

impl Outlet {
    pub(super) fn new(
        pieces: SyncSender<Vec<u8>>,
        made: UnixStream,
        permit: Arc<()>,
        with_body: bool,
        is_chunked: bool,
    ) -> Outlet {
        let (pieces, permit) = (Some(pieces), Some(permit));
        Outlet { pieces, made, permit, piece: Vec::new(), with_body, is_chunked }
    }

    /// An outlet whose pieces, at most `room` at once, go to the caller.
    #[cfg(test)]
    pub(crate) fn to_nobody(room: usize) -> (Outlet, std::sync::mpsc::Receiver<Vec<u8>>) {
        let (to, pieces) = std::sync::mpsc::sync_channel(room);
        let (made, _) = UnixStream::pair().unwrap();
        (Outlet::new(to, made, Arc::default(), true, true), pieces)
    }

    /// Sends a complete page.
    pub(crate) fn page(mut self, page: Page) {
        let mut whole = page.head();
        if self.with_body {
            whole.push_str(&page.body);
        }
        // Released first: a client that has received all of the page may request another one at
        // once.
        self.permit = None;
        self.send(whole.into_bytes());
    }

    /// Begins a page. All later writes are its body.
    pub(crate) fn begin(&mut self, status: &str, content_type: &str) {
        let more = if self.is_chunked { "Transfer-Encoding: chunked\r\n" } else { "" };
        self.send(head(status, content_type, more).into_bytes());
    }

    /// Ends a page that was begun. The caller must have released everything that it held for the
    /// page, because the client may request another one at once.
    pub(crate) fn finish(mut self) {
        self.flush();
        self.permit = None;
        if self.is_chunked && self.with_body {
            self.send(b"0\r\n\r\n".to_vec());
        }
    }

    fn flush(&mut self) {
        let mut piece = std::mem::take(&mut self.piece);
        if self.is_chunked {
            let Some(bytes) = piece.len().checked_sub(LENGTH).filter(|bytes| *bytes > 0) else {
                return;
            };
            piece[..LENGTH].copy_from_slice(format!("{bytes:08x}\r\n").as_bytes());
            piece.extend_from_slice(b"\r\n");
        }
        if !piece.is_empty() {
            self.send(piece);
        }
    }

    /// Waits until there is room for a piece.
    fn send(&mut self, piece: Vec<u8>) {
        if self.pieces.as_ref().is_some_and(|pieces| pieces.send(piece).is_err()) {
            self.pieces = None;
        }
        self.tell();
    }

    fn tell(&self) {
        // If the socket is full, the server has unread notifications already.
        let _ = (&self.made).write(&[0]);
    }
}

impl fmt::Write for Outlet {
    /// Fails if the client takes no more, or asked for the head only.
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.pieces.is_none() || !self.with_body {
            return Err(fmt::Error);
        }
        if self.piece.is_empty() {
            self.piece.reserve_exact(PIECE + (4 << 10));
            if self.is_chunked {
                self.piece.resize(LENGTH, 0);
            }
        }
        self.piece.extend_from_slice(text.as_bytes());
        if self.piece.len() >= PIECE {
            self.flush();
        }
        Ok(())
    }
}

impl Drop for Outlet {
    fn drop(&mut self) {
        // In this order: the server sees the page's end once it is notified, and a client that sees
        // the end may request another page.
        self.permit = None;
        self.pieces = None;
        self.tell();
    }
}
