//! A small HTTP server: each connection has one request without a body and one response.
//!
//! Clients are unknown and not trusted. One thread serves all of them and waits for none. A client
//! has one of [`PLACES`] places, [`REQUEST_MAX`] bytes for its request, a deadline for the request,
//! and a deadline for each [`PIECE`] of the response. So a client that sends slowly or does not
//! read costs the others nothing. If every place is taken, the server closes the oldest connection
//! that does not wait for a piece of its page to be made, and the newcomer gets this connection's
//! place.
//!
//! Rejected: a library for HTTP. Such libraries read requests of any length, wait for clients
//! without limit, or need an async runtime.
//!
//! A separate thread makes a page that takes long, so that the server can answer other clients
//! meanwhile. Only one such page is made at a time. The server sends the page in pieces while it is
//! made. Only a few pieces may wait for the client (`outlet`), so the whole page is never in
//! memory.

mod outlet;

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use spillway_base::thread::JoinHandle;
use spillway_base::{clock, thread};

use crate::accept::{ACCEPT_PAUSE, gone_again, pause};
pub(crate) use outlet::{Outlet, PIECE, PIECES};

/// The most clients at once.
const PLACES: usize = 16;
/// The longest request, with its headers.
const REQUEST_MAX: usize = 8 << 10;
/// The bytes that are read at once.
const PART: usize = 1 << 10;

const BUSY: &str = "another request is being answered; try again in a few seconds\n";

/// A page, or an error in its place.
pub(crate) struct Page {
    pub(crate) status: &'static str,
    pub(crate) content_type: &'static str,
    pub(crate) body: String,
}

impl Page {
    pub(crate) fn text(status: &'static str, body: impl Into<String>) -> Page {
        Page { status, content_type: "text/plain; charset=utf-8", body: body.into() }
    }

    /// The head of the response.
    fn head(&self) -> String {
        let allow = if self.status.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
        let length = format!("Content-Length: {}\r\n{allow}", self.body.len());
        head(self.status, self.content_type, &length)
    }
}

fn head(status: &str, content_type: &str, more: &str) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\n{more}Connection: close\r\n\r\n")
}

/// What to answer to a request.
pub(crate) enum Reply {
    /// A complete page.
    Page(Page),
    /// A page that takes long to make.
    Made(Maker),
}

/// Makes a page.
pub(crate) type Maker = Box<dyn FnOnce(Outlet) + Send>;

/// The target of a request, and its client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) path: &'a str,
    /// The part of the target after the question mark.
    pub(crate) query: &'a str,
    /// The name by which the client addresses the server, if it sends one.
    pub(crate) host: Option<&'a str>,
    /// The server's address of the client's connection.
    pub(crate) server: SocketAddr,
    /// The client's address.
    pub(crate) client: SocketAddr,
}

/// Returns the response to a request.
pub(crate) type Pages = Box<dyn Fn(&Asked<'_>) -> Reply + Send>;

/// A running HTTP server; dropping it stops the server.
pub(crate) struct Answering {
    address: SocketAddr,
    thread: Option<JoinHandle<()>>,
    /// Closing it wakes and ends the thread.
    wake: Option<UnixStream>,
}

impl Answering {
    /// Starts to serve at an address. Each client has a time limit `within`.
    pub(crate) fn start(
        address: SocketAddr,
        within: Duration,
        pages: Pages,
    ) -> io::Result<Answering> {
        let tcp = TcpListener::bind(address)?;
        tcp.set_nonblocking(true)?;
        let address = tcp.local_addr()?;
        let (wake, woken) = UnixStream::pair()?;
        let (made, news) = UnixStream::pair()?;
        made.set_nonblocking(true)?;
        news.set_nonblocking(true)?;
        let desk = Desk { pages, made, permit: Arc::default(), maker: None };
        let mut listener = Listener { tcp, woken, news, within, desk, resume: Duration::ZERO };
        let answer_all = move || listener.answer_all();
        let thread = thread::spawn("metrics", answer_all).map_err(io::Error::other)?;
        Ok(Answering { address, thread: Some(thread), wake: Some(wake) })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.wake = None;
        if let Some(thread) = self.thread.take() {
            // The panic hook has reported a panic in it.
            let _ = thread.join();
        }
    }
}

struct Listener {
    tcp: TcpListener,
    woken: UnixStream,
    /// Readable when a piece of a page has been made.
    news: UnixStream,
    within: Duration,
    desk: Desk,
    /// No client is accepted until this time.
    resume: Duration,
}

impl Listener {
    fn answer_all(&mut self) {
        let mut clients: Vec<HttpClient> = Vec::new();
        loop {
            let now = clock::now();
            clients.retain(|client| now < client.deadline);
            let Some(mut ready) = self.wait(&clients, now) else { return };
            // The results are in the order of the clients; the last one is for the listener.
            let comes = ready.pop().unwrap_or(false);
            let mut ready = ready.into_iter();
            let within = self.within;
            clients.retain_mut(|client| {
                let goes_on =
                    !ready.next().unwrap_or(false) || client.go_on(&mut self.desk).unwrap_or(false);
                goes_on && client.turn(within).is_ok()
            });
            if comes {
                self.accept(&mut clients);
            }
        }
    }

    /// Waits until some client can continue, and returns for each whether it can. `None` when the
    /// server ends.
    fn wait(&self, clients: &[HttpClient], now: Duration) -> Option<Vec<bool>> {
        let accepting = self.resume <= now;
        let mut waits =
            vec![PollFd::new(&self.woken, PollFlags::IN), PollFd::new(&self.news, PollFlags::IN)];
        waits.extend(clients.iter().map(HttpClient::waits_for));
        if accepting {
            waits.push(PollFd::new(&self.tcp, PollFlags::IN));
        }
        let ends = clients.iter().map(|client| client.deadline);
        let next = ends.chain((!accepting).then_some(self.resume)).min();
        let next = next.and_then(|next| Timespec::try_from(next.saturating_sub(now)).ok());
        match poll(&mut waits, next.as_ref()) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Some(Vec::new()),
            Err(_) => return (!pause(&self.woken)).then(Vec::new),
        }
        let mut ready = waits.iter().map(|wait| !wait.revents().is_empty());
        if ready.next() == Some(true) {
            return None;
        }
        if ready.next() == Some(true) {
            // Read this before checking for pieces, so that a piece that is made later makes it
            // readable again.
            let _ = (&self.news).read(&mut [0; PART]);
        }
        let mut ready: Vec<bool> = ready.collect();
        if !accepting {
            ready.push(false);
        }
        Some(ready)
    }

    fn accept(&mut self, clients: &mut Vec<HttpClient>) {
        let now = clock::now();
        match self.tcp.accept() {
            Ok((stream, from)) => {
                let Ok(to) = stream.set_nonblocking(true).and_then(|()| stream.local_addr()) else {
                    return;
                };
                // Head and body are separate writes. Without this option the kernel may hold the
                // body back until the client has acknowledged the head.
                let _ = stream.set_nodelay(true);
                if clients.len() == PLACES {
                    let oldest = clients.iter().position(|client| !client.is_kept_waiting());
                    clients.remove(oldest.unwrap_or(0));
                }
                let (stage, deadline) = (RequestStage::Asks(Vec::new()), now + self.within);
                clients.push(HttpClient { stream, from, to, stage, deadline });
            }
            Err(error) if gone_again(&error) => {}
            Err(_) => self.resume = now + ACCEPT_PAUSE,
        }
    }
}

/// Answers requests.
struct Desk {
    pages: Pages,
    /// Written to when a piece of a page has been made.
    made: UnixStream,
    /// One more reference exists while a page is being made; then no other page is begun.
    permit: Arc<()>,
    /// The thread that made the last page.
    maker: Option<JoinHandle<()>>,
}

impl Desk {
    /// The answer to a request; `None` until its head is complete or too long.
    fn answer(&mut self, request: &[u8], server: SocketAddr, client: SocketAddr) -> Option<Answer> {
        let whole = request.windows(4).any(|end| end == b"\r\n\r\n")
            || request.windows(2).any(|end| end == b"\n\n");
        let page = if whole {
            match asked(request, server, client) {
                Some(Request { method: method @ ("GET" | "HEAD"), asked, takes_chunks }) => {
                    let with_body = method == "GET";
                    match (self.pages)(&asked) {
                        Reply::Page(page) => return Some(Answer::page(page, with_body)),
                        Reply::Made(maker) => match self.make(maker, with_body, takes_chunks) {
                            Ok(answer) => return Some(answer),
                            Err(page) => page,
                        },
                    }
                }
                Some(_) => Page::text("405 Method Not Allowed", "GET and HEAD are answered\n"),
                None => Page::text("400 Bad Request", "this is no request of HTTP/1\n"),
            }
        } else if request.len() >= REQUEST_MAX {
            Page::text("431 Request Header Fields Too Large", "the request is too long\n")
        } else {
            return None;
        };
        Some(Answer::page(page, true))
    }

    /// Starts to make a page.
    ///
    /// # Errors
    /// The response if the page cannot be made.
    fn make(&mut self, maker: Maker, with_body: bool, is_chunked: bool) -> Result<Answer, Page> {
        let busy = |why: &str| Page::text("503 Service Unavailable", why);
        // Only this thread creates such a reference, so none appears in between.
        if Arc::strong_count(&self.permit) > 1 {
            return Err(busy(BUSY));
        }
        self.join();
        let made = self.made.try_clone().map_err(|error| busy(&format!("{error}\n")))?;
        let (to, pieces) = sync_channel(PIECES);
        let outlet = Outlet::new(to, made, self.permit.clone(), with_body, is_chunked);
        let maker = thread::spawn("inspect", move || maker(outlet));
        self.maker = Some(maker.map_err(|error| busy(&format!("{error}\n")))?);
        Ok(Answer { coming: Some(pieces), ..Answer::default() })
    }

    /// Joins the thread that made the last page and has nothing more to do.
    fn join(&mut self) {
        if let Some(maker) = self.maker.take() {
            // The panic hook has reported a panic in it.
            let _ = maker.join();
        }
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.join();
    }
}

enum RequestStage {
    /// The client has sent these bytes of its request.
    Asks(Vec<u8>),
    IsTold(Answer),
    /// The client has its answer. The server reads and drops what else the client sends, because
    /// closing a connection with unread bytes may discard the answer.
    Leaves,
}

/// An answer, while it is sent.
#[derive(Default)]
struct Answer {
    piece: Vec<u8>,
    /// How many bytes of the current piece were sent.
    sent: usize,
    /// The following pieces that are made.
    next: VecDeque<Vec<u8>>,
    /// Delivers the pieces that are still being made.
    coming: Option<Receiver<Vec<u8>>>,
}

enum NextPiece {
    /// A piece is ready to be sent.
    Piece,
    /// The next piece is being made.
    Waits,
    End,
}

impl Answer {
    /// The answer with a complete page. The page is not copied, because it may be long.
    fn page(page: Page, with_body: bool) -> Answer {
        let mut next = VecDeque::from([page.head().into_bytes()]);
        if with_body && !page.body.is_empty() {
            next.push_back(page.body.into_bytes());
        }
        Answer { next, ..Answer::default() }
    }

    fn is_sent(&self) -> bool {
        self.sent == self.piece.len()
    }

    /// Moves to the next piece, once the current one is sent.
    fn turn(&mut self) -> NextPiece {
        let next = match (self.next.pop_front(), &self.coming) {
            (Some(next), _) => next,
            (None, None) => return NextPiece::End,
            (None, Some(coming)) => match coming.try_recv() {
                Ok(piece) => piece,
                Err(TryRecvError::Empty) => return NextPiece::Waits,
                Err(TryRecvError::Disconnected) => return NextPiece::End,
            },
        };
        (self.piece, self.sent) = (next, 0);
        NextPiece::Piece
    }
}

struct HttpClient {
    stream: TcpStream,
    from: SocketAddr,
    to: SocketAddr,
    stage: RequestStage,
    deadline: Duration,
}

impl HttpClient {
    /// Whether the client waits for a piece of its answer that is not made yet.
    fn is_kept_waiting(&self) -> bool {
        matches!(&self.stage, RequestStage::IsTold(answer) if answer.is_sent())
    }

    fn waits_for(&self) -> PollFd<'_> {
        let flags = match self.stage {
            // Ask for no events: poll still reports that the client has disconnected.
            RequestStage::IsTold(_) if self.is_kept_waiting() => PollFlags::empty(),
            RequestStage::IsTold(_) => PollFlags::OUT,
            RequestStage::Asks(_) | RequestStage::Leaves => PollFlags::IN,
        };
        PollFd::new(&self.stream, flags)
    }

    /// Reads or writes once. Returns whether there is more to do.
    fn go_on(&mut self, desk: &mut Desk) -> io::Result<bool> {
        let mut part = [0; PART];
        let done = match &mut self.stage {
            RequestStage::IsTold(answer) => self.stream.write(&answer.piece[answer.sent..]),
            RequestStage::Asks(_) | RequestStage::Leaves => self.stream.read(&mut part),
        };
        let done = match done {
            Ok(0) => return Ok(false),
            Ok(done) => done,
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
            {
                return Ok(true);
            }
            Err(error) => return Err(error),
        };
        match &mut self.stage {
            RequestStage::Asks(request) => {
                request.extend_from_slice(&part[..done]);
                if let Some(answer) = desk.answer(request, self.to, self.from) {
                    self.stage = RequestStage::IsTold(answer);
                }
            }
            RequestStage::IsTold(answer) => answer.sent += done,
            RequestStage::Leaves => {}
        }
        Ok(true)
    }

    /// Moves to the next piece. The client has the time `within` for each piece; the time in which
    /// a piece is made does not count.
    fn turn(&mut self, within: Duration) -> io::Result<()> {
        let RequestStage::IsTold(answer) = &mut self.stage else { return Ok(()) };
        if !answer.is_sent() {
            return Ok(());
        }
        self.deadline = match answer.turn() {
            NextPiece::Waits => Duration::MAX,
            NextPiece::Piece => clock::now() + within,
            NextPiece::End => {
                self.stream.shutdown(Shutdown::Write)?;
                self.stage = RequestStage::Leaves;
                clock::now() + within
            }
        };
        Ok(())
    }
}

/// The relevant parts of a request.
struct Request<'a> {
    method: &'a str,
    asked: Asked<'a>,
    /// Whether the client accepts chunked bodies.
    takes_chunks: bool,
}

/// Parses a request; `None` if it is malformed.
fn asked(request: &[u8], server: SocketAddr, client: SocketAddr) -> Option<Request<'_>> {
    let mut lines = request.split(|byte| *byte == b'\n').map(|line| {
        let text = std::str::from_utf8(line).ok()?;
        Some(text.strip_suffix('\r').unwrap_or(text))
    });
    let mut words = lines.next()??.split(' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    if !version.starts_with("HTTP/1.") || words.next().is_some() {
        return None;
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut host = None;
    for line in lines.take_while(|line| *line != Some("")) {
        let (name, value) = header(line?)?;
        // Two Host headers: refuse the request, because another reader might take the other one.
        if name.eq_ignore_ascii_case("host") && host.replace(value).is_some() {
            return None;
        }
    }
    let asked = Asked { path, query, host, server, client };
    Some(Request { method, asked, takes_chunks: version != "HTTP/1.0" })
}

/// A header's name and value; `None` for a line that is none.
fn header(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once(':')?;
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic());
    let is_value = !value.contains(|c: char| c.is_control() && c != '\t');
    (is_name && is_value).then(|| (name, value.trim()))
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::panic::{catch_unwind, resume_unwind};
    use std::sync::mpsc::SyncSender;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);

    fn start(within: Duration, body: usize) -> Answering {
        start_with(within, body).0
    }

    /// A server, and the sender that lets its page `/later` continue. The page's thread waits for
    /// the sender, and dropping the server waits for that thread. A pattern's last variable is
    /// dropped first, so the sender goes before the server, and a failing test ends.
    fn start_with(within: Duration, body: usize) -> (Answering, SyncSender<()>) {
        let (sender, goes_on) = sync_channel(0);
        let goes_on = Arc::new(std::sync::Mutex::new(goes_on));
        let pages = move |asked: &Asked<'_>| {
            Reply::Page(match asked.path {
                "/long" => Page::text("200 OK", "x".repeat(body)),
                "/asked" => Page::text("200 OK", format!("{} {:?}", asked.query, asked.host)),
                "/made" => return made(|out| out.write_str("made").unwrap()),
                "/pieces" => {
                    let pieces = body / 100;
                    return made(move |out| {
                        let _ = (0..pieces).try_for_each(|at| write!(out, "{at:0100}"));
                    });
                }
                "/endless" => return made(|out| while out.write_str("more and more").is_ok() {}),
                "/cut" => return Reply::Made(Box::new(|mut out| out.begin("200 OK", "a/b"))),
                "/none" => {
                    let none = |out: Outlet| out.page(Page::text("404 Not Found", "none"));
                    return Reply::Made(Box::new(none));
                }
                "/later" => {
                    let goes_on = goes_on.clone();
                    return made(move |out| {
                        if goes_on.lock().unwrap().recv().is_ok() {
                            out.write_str("slow").unwrap();
                        }
                    });
                }
                path => Page::text("200 OK", path),
            })
        };
        let address = "127.0.0.1:0".parse().unwrap();
        (Answering::start(address, within, Box::new(pages)).unwrap(), sender)
    }

    /// A page that is made piece by piece.
    fn made(write: impl FnOnce(&mut Outlet) + Send + 'static) -> Reply {
        Reply::Made(Box::new(|mut outlet| {
            outlet.begin("200 OK", "text/plain");
            write(&mut outlet);
            outlet.finish();
        }))
    }

    /// The content of chunks. Checks that they end as they should.
    fn joined(chunks: &str) -> String {
        let mut rest = chunks;
        let mut whole = String::new();
        loop {
            let (length, after) = rest.split_once("\r\n").unwrap();
            let length = usize::from_str_radix(length, 16).unwrap();
            let (chunk, after) = after.split_at(length);
            whole.push_str(chunk);
            rest = after.strip_prefix("\r\n").unwrap();
            if length == 0 {
                assert_eq!(rest, "");
                return whole;
            }
        }
    }

    fn connect(to: &Answering) -> TcpStream {
        let stream = TcpStream::connect(to.address()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// The response, up to its end, which must come.
    fn ask(to: &Answering, request: &[u8]) -> String {
        let mut stream = connect(to);
        stream.write_all(request).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn requests_are_answered_once_and_the_connection_ends() {
        let page = start(PATIENCE, 0);
        let whole = ask(&page, b"GET /a?b HTTP/1.1\r\nHost: here\r\n\r\nGET /c HTTP/1.1\r\n\r\n");
        assert!(whole.starts_with("HTTP/1.1 200 OK\r\n"), "{whole}");
        assert!(whole.contains("\r\nContent-Length: 2\r\n"), "{whole}");
        assert!(whole.ends_with("\r\nConnection: close\r\n\r\n/a"), "{whole}");
        assert!(ask(&page, b"GET /a HTTP/1.0\n\n").ends_with("\r\n\r\n/a"));
        let head = ask(&page, b"HEAD /abc HTTP/1.1\r\n\r\n");
        assert!(head.contains("Content-Length: 4\r\n") && head.ends_with("\r\n\r\n"), "{head}");
        let post = ask(&page, b"POST /a HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc");
        assert!(post.starts_with("HTTP/1.1 405") && post.contains("Allow: GET, HEAD"), "{post}");
        for bad in ["\r\n\r\n", "GET\r\n\r\n", "GET /\r\n\r\n", "GET / HTTP/2 x\r\n\r\n", "\n\n"] {
            assert!(ask(&page, bad.as_bytes()).starts_with("HTTP/1.1 400"), "{bad:?}");
        }
        assert!(ask(&page, b"GET \xFF HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 400"));
        let whole = b"GET /asked?b=c?d HTTP/1.1\r\nA: b\r\nhOST:  here:1 \r\n\r\nHost: there";
        assert!(ask(&page, whole).ends_with("\r\n\r\nb=c?d Some(\"here:1\")"));
        assert!(ask(&page, b"GET /asked HTTP/1.0\n\nHost: there").ends_with(" None"));
        // A request may come byte by byte.
        let mut slow = connect(&page);
        slow.set_nodelay(true).unwrap();
        for byte in b"GET /slow HTTP/1.1\r\n\r\n" {
            slow.write_all(&[*byte]).unwrap();
        }
        let mut answer = String::new();
        slow.read_to_string(&mut answer).unwrap();
        assert!(answer.ends_with("/slow"), "{answer}");
    }

    #[test]
    fn a_header_that_is_none_is_not_overlooked() {
        let page = start(PATIENCE, 0);
        let with = |header: &[u8]| {
            let request = [b"GET /asked HTTP/1.1\r\n", header, b"\r\nA: b\r\n\r\n"].concat();
            ask(&page, &request)
        };
        for fine in ["Host: here", "Host:here", "B:", "B: c:d\te", "B: \u{e4}"] {
            assert!(with(fine.as_bytes()).starts_with("HTTP/1.1 200"), "{fine:?}");
        }
        for bad in [
            &b"Host: \xFF"[..],
            b"Host : there",
            b"Host\t: there",
            b" Host: there",
            b"Host",
            b": there",
            b"Host: here\r\nHost: there",
            b"B: c\rHost: there",
            b"B: c\0",
        ] {
            let bad = (with(bad), String::from_utf8_lossy(bad));
            assert!(bad.0.starts_with("HTTP/1.1 400"), "{bad:?}");
        }
    }

    #[test]
    fn a_page_is_told_as_it_is_made_and_one_can_tell_that_it_is_whole() {
        let page = start(PATIENCE, 3 << 20);
        // A client that has received everything may request the next page at once.
        for _ in 0..20 {
            let whole = ask(&page, b"GET /made HTTP/1.1\r\n\r\n");
            let (head, body) = whole.split_once("\r\n\r\n").unwrap();
            assert!(head.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"), "{head}");
            assert!(head.contains("\r\nTransfer-Encoding: chunked\r\n"), "{head}");
            assert_eq!(joined(body), "made");
            let old = ask(&page, b"GET /made HTTP/1.0\r\n\r\n");
            assert!(old.ends_with("\r\n\r\nmade") && !old.contains("chunked"), "{old}");
            let none = ask(&page, b"GET /none HTTP/1.1\r\n\r\n");
            assert!(none.starts_with("HTTP/1.1 404 Not Found") && none.ends_with("\r\n\r\nnone"));
            let head = ask(&page, b"HEAD /pieces HTTP/1.1\r\n\r\n");
            assert!(head.starts_with("HTTP/1.1 200") && head.ends_with("\r\n\r\n"), "{head}");
        }
        let long = ask(&page, b"GET /pieces HTTP/1.1\r\n\r\n");
        let body = joined(long.split_once("\r\n\r\n").unwrap().1);
        let wanted: String = (0..(3 << 20) / 100).map(|at| format!("{at:0100}")).collect();
        assert!(body == wanted && long.len() > wanted.len() + wanted.len() / PIECE * 10);
        let cut = ask(&page, b"GET /cut HTTP/1.1\r\n\r\n");
        assert!(cut.contains("chunked") && cut.ends_with("\r\n\r\n"), "no last chunk: {cut}");
        // Making a page ends once its client has disconnected.
        for _ in 0..3 {
            let mut gone = connect(&page);
            gone.write_all(b"GET /endless HTTP/1.1\r\n\r\n").unwrap();
            gone.read_exact(&mut [0; 1000]).unwrap();
            assert!(ask(&page, b"GET /made HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 503"));
            drop(gone);
            let end = clock::now() + PATIENCE;
            while ask(&page, b"GET /made HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 503") {
                assert!(clock::now() < end, "it goes on for nobody");
            }
        }
    }

    #[test]
    fn others_are_answered_while_a_page_is_made_and_its_client_waits_for_it() {
        let within = Duration::from_millis(100);
        let (page, goes_on) = start_with(within, 0);
        let mut first = connect(&page);
        first.write_all(b"GET /later HTTP/1.1\r\n\r\n").unwrap();
        // The page's head comes before its body is made.
        first.read_exact(&mut [0; 10]).unwrap();
        let begun = clock::now();
        while clock::now() < begun + 4 * within {
            assert!(ask(&page, b"GET /a HTTP/1.1\r\n\r\n").ends_with("/a"));
            let second = ask(&page, b"GET /later HTTP/1.1\r\n\r\n");
            assert!(second.starts_with("HTTP/1.1 503") && second.contains("try again"), "{second}");
        }
        // Nor do newcomers take its place.
        let others: Vec<TcpStream> = (0..2 * PLACES).map(|_| connect(&page)).collect();
        assert!(ask(&page, b"GET /a HTTP/1.1\r\n\r\n").ends_with("/a"));
        goes_on.send(()).unwrap();
        let mut told = String::new();
        first.read_to_string(&mut told).unwrap();
        assert_eq!(joined(told.split_once("\r\n\r\n").unwrap().1), "slow");
        drop(others);
    }

    #[test]
    fn a_test_that_fails_ends_though_a_page_is_being_made() {
        let failed = catch_unwind(|| {
            let (page, _goes_on) = start_with(PATIENCE, 0);
            let mut client = connect(&page);
            client.write_all(b"GET /later HTTP/1.1\r\n\r\n").unwrap();
            client.read_exact(&mut [0; 10]).unwrap();
            // This panic is intended, so the hook must not report it.
            resume_unwind(Box::new(()));
        });
        assert!(failed.is_err());
    }

    #[test]
    fn a_request_has_a_longest_length() {
        let page = start(PATIENCE, 0);
        for part in ["x", "\r\nx: y"] {
            let request = ["GET / HTTP/1.1", &part.repeat(REQUEST_MAX)].concat();
            assert!(ask(&page, request.as_bytes()).starts_with("HTTP/1.1 431"), "{part:?}");
        }
    }

    #[test]
    fn who_does_not_read_or_ask_takes_nothing_from_the_others() {
        // More than a socket holds, for clients that would wait longer than the test does.
        let page = start(Duration::from_secs(3600), 64 << 20);
        let mut others = Vec::new();
        for _ in 0..3 {
            let mut deaf = connect(&page);
            deaf.write_all(&b"GET /long HTTP/1.1\r\n\r\n".repeat(20)).unwrap();
            // The client's answer has begun.
            deaf.read_exact(&mut [0]).unwrap();
            others.push(deaf);
            assert!(ask(&page, b"GET /a HTTP/1.1\r\n\r\n").ends_with("/a"));
        }
        for _ in 0..2 * PLACES {
            others.push(connect(&page));
            assert!(ask(&page, b"GET /a HTTP/1.1\r\n\r\n").ends_with("/a"));
        }
        // The server ends although they are connected.
        drop(page);
        let last = others.last_mut().unwrap();
        assert!(last.read(&mut [0]).is_ok_and(|read| read == 0));
    }

    #[test]
    fn who_takes_too_long_is_let_go() {
        let page = start(Duration::from_millis(200), 64 << 20);
        let mut silent = connect(&page);
        assert_eq!(silent.read(&mut [0]).unwrap(), 0);
        let mut deaf = connect(&page);
        deaf.write_all(b"GET /long HTTP/1.1\r\n\r\n").unwrap();
        // The client reads nothing, so only a write finds out that it was disconnected.
        deaf.set_nonblocking(true).unwrap();
        let end = clock::now() + PATIENCE;
        let gone = |error: io::Error| error.kind() != ErrorKind::WouldBlock;
        while !deaf.write(b"x").is_err_and(gone) {
            assert!(clock::now() < end, "it is not let go");
            std::thread::yield_now();
        }
    }
}
