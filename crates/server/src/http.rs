//! Pages over HTTP, as little of it as they take: one request without a body, one answer, and the end of the connection.
//!
//! Whoever asks is unknown and trusted with nothing. One thread serves all, and waits for none: a client has [`PLACES`] in
//! number, [`REQUEST_MAX`] bytes to ask in, and one deadline from its coming to its going, so that what it sends, or does not
//! read, costs the others nothing. Where every place is taken, who has been there longest makes way. Libraries for this
//! read requests of any length, wait for their clients without end, or bring a runtime along.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use spillway_base::{clock, thread};

use crate::listener::{ACCEPT_PAUSE, gone_again, pause};

/// Clients at once.
const PLACES: usize = 16;
/// The longest request, with its headers.
const REQUEST_MAX: usize = 8 << 10;
/// Read at once.
const PART: usize = 1 << 10;

/// A page, or why there is none.
pub(crate) struct Page {
    pub(crate) status: &'static str,
    pub(crate) content_type: &'static str,
    pub(crate) body: String,
    /// Held until whoever asked has the page, or has gone.
    pub(crate) permit: Option<Permit>,
}

/// The right to something that only so many may have at once.
pub(crate) type Permit = Arc<()>;

impl Page {
    pub(crate) fn text(status: &'static str, body: impl Into<String>) -> Page {
        Page { status, content_type: "text/plain; charset=utf-8", body: body.into(), permit: None }
    }
}

/// What is asked for, and by whom.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) path: &'a str,
    /// What follows the path, without its question mark.
    pub(crate) query: &'a str,
    /// What the client takes the server to be called, if it says so.
    pub(crate) host: Option<&'a str>,
    /// The server's address, as the client has reached it.
    pub(crate) server: SocketAddr,
    /// The client's address.
    pub(crate) client: SocketAddr,
}

/// Gives the page that somebody asks for.
pub(crate) type Pages = Box<dyn Fn(&Asked<'_>) -> Page + Send>;

/// Answers until it is dropped.
pub(crate) struct Answering {
    address: SocketAddr,
    thread: Option<JoinHandle<()>>,
    /// Closing it wakes and ends the thread.
    wake: Option<UnixStream>,
}

impl Answering {
    /// Answers at an address, each client `within` a time.
    pub(crate) fn start(
        address: SocketAddr,
        within: Duration,
        pages: Pages,
    ) -> io::Result<Answering> {
        let tcp = TcpListener::bind(address)?;
        tcp.set_nonblocking(true)?;
        let address = tcp.local_addr()?;
        let (wake, woken) = UnixStream::pair()?;
        let mut listener = Listener { tcp, woken, within, pages, resume: Duration::ZERO };
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
            // A panic in it has been reported by the panic hook.
            let _ = thread.join();
        }
    }
}

struct Listener {
    tcp: TcpListener,
    woken: UnixStream,
    within: Duration,
    pages: Pages,
    /// Until then nobody is accepted.
    resume: Duration,
}

impl Listener {
    fn answer_all(&mut self) {
        let mut clients: Vec<Client> = Vec::new();
        loop {
            let now = clock::now();
            clients.retain(|client| now < client.deadline);
            let Some(mut ready) = self.wait(&clients, now) else { return };
            // In the order of the clients; the last is for who comes.
            let comes = ready.pop().unwrap_or(false);
            let mut ready = ready.into_iter();
            clients.retain_mut(|client| {
                !ready.next().unwrap_or(false) || client.go_on(&self.pages).unwrap_or(false)
            });
            if comes {
                self.accept(&mut clients);
            }
        }
    }

    /// Waits until something can go on, and says who can. `None` for the end.
    fn wait(&self, clients: &[Client], now: Duration) -> Option<Vec<bool>> {
        let accepting = self.resume <= now;
        let mut waits = vec![PollFd::new(&self.woken, PollFlags::IN)];
        waits.extend(clients.iter().map(Client::waits_for));
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
        let mut ready: Vec<bool> = ready.collect();
        if !accepting {
            ready.push(false);
        }
        Some(ready)
    }

    fn accept(&mut self, clients: &mut Vec<Client>) {
        let now = clock::now();
        match self.tcp.accept() {
            Ok((stream, from)) => {
                let Ok(to) = stream.set_nonblocking(true).and_then(|()| stream.local_addr()) else {
                    return;
                };
                if clients.len() == PLACES {
                    clients.remove(0);
                }
                let (stage, deadline) = (Stage::Asks(Vec::new()), now + self.within);
                clients.push(Client { stream, from, to, stage, deadline });
            }
            Err(error) if gone_again(&error) => {}
            Err(_) => self.resume = now + ACCEPT_PAUSE,
        }
    }
}

enum Stage {
    /// What it has asked so far.
    Asks(Vec<u8>),
    /// Its answer, and how much of it is sent.
    IsTold(Answer, usize),
    /// It has its answer. What it still sends is read and dropped: a connection that is closed over unread bytes may
    /// take the answer along.
    Leaves,
}

struct Answer {
    bytes: Vec<u8>,
    _permit: Option<Permit>,
}

struct Client {
    stream: TcpStream,
    from: SocketAddr,
    to: SocketAddr,
    stage: Stage,
    deadline: Duration,
}

impl Client {
    fn waits_for(&self) -> PollFd<'_> {
        let told = matches!(self.stage, Stage::IsTold(..));
        PollFd::new(&self.stream, if told { PollFlags::OUT } else { PollFlags::IN })
    }

    /// Reads or writes once; whether there is more to do.
    fn go_on(&mut self, pages: &Pages) -> io::Result<bool> {
        let mut part = [0; PART];
        let done = match &mut self.stage {
            Stage::IsTold(answer, sent) => self.stream.write(&answer.bytes[*sent..]),
            Stage::Asks(_) | Stage::Leaves => self.stream.read(&mut part),
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
            Stage::Asks(request) => {
                request.extend_from_slice(&part[..done]);
                let asked = |head| asked(head, self.to, self.from);
                if let Some(answer) = answer(request, asked, pages) {
                    self.stage = Stage::IsTold(answer, 0);
                }
            }
            Stage::IsTold(answer, sent) => {
                *sent += done;
                if *sent == answer.bytes.len() {
                    self.stream.shutdown(Shutdown::Write)?;
                    self.stage = Stage::Leaves;
                }
            }
            Stage::Leaves => {}
        }
        Ok(true)
    }
}

/// The answer to a request; none before its head is whole, or longer than it may be.
fn answer<'a>(
    request: &'a [u8],
    asked: impl Fn(&'a [u8]) -> Option<(&'a str, Asked<'a>)>,
    pages: &Pages,
) -> Option<Answer> {
    let whole = request.windows(4).any(|end| end == b"\r\n\r\n")
        || request.windows(2).any(|end| end == b"\n\n");
    let mut with_body = true;
    let page = if whole {
        match asked(request) {
            Some(("GET", asked)) => pages(&asked),
            Some(("HEAD", asked)) => {
                with_body = false;
                pages(&asked)
            }
            Some(_) => Page::text("405 Method Not Allowed", "GET and HEAD are answered\n"),
            None => Page::text("400 Bad Request", "this is no request of HTTP/1\n"),
        }
    } else if request.len() >= REQUEST_MAX {
        Page::text("431 Request Header Fields Too Large", "the request is too long\n")
    } else {
        return None;
    };
    let Page { status, content_type, mut body, permit } = page;
    let allow = if status.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n{allow}Connection: close\r\n\r\n",
        body.len()
    );
    if !with_body {
        body.clear();
    }
    // No copy beside it: a page may be long.
    body.insert_str(0, &head);
    Some(Answer { bytes: body.into_bytes(), _permit: permit })
}

/// The method of a request, and what is asked for.
fn asked(request: &[u8], server: SocketAddr, client: SocketAddr) -> Option<(&str, Asked<'_>)> {
    let mut lines = request.split(|byte| *byte == b'\n').map(|line| {
        let text = std::str::from_utf8(line).ok()?;
        Some(text.trim_end_matches('\r'))
    });
    let mut words = lines.next()??.split(' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    let whole = version.starts_with("HTTP/1.") && words.next().is_none();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let headers = lines.take_while(|line| *line != Some(""));
    let host = headers.flatten().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("host").then(|| value.trim())
    });
    whole.then_some((method, Asked { path, query, host, server, client }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);

    fn start(within: Duration, body: usize) -> Answering {
        let held = Arc::new(());
        let pages = move |asked: &Asked<'_>| match asked.path {
            "/long" => Page::text("200 OK", "x".repeat(body)),
            "/held" => {
                let others = Arc::strong_count(&held) - 1;
                let permit = Some(held.clone());
                Page { permit, ..Page::text("200 OK", others.to_string()) }
            }
            "/asked" => Page::text("200 OK", format!("{} {:?}", asked.query, asked.host)),
            path => Page::text("200 OK", path),
        };
        Answering::start("127.0.0.1:0".parse().unwrap(), within, Box::new(pages)).unwrap()
    }

    fn connect(to: &Answering) -> TcpStream {
        let stream = TcpStream::connect(to.address()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// What is answered until the end, which has to come.
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
        // A permit is given back with the end of the answer, and what is read before that end is not all of it.
        for _ in 0..3 {
            assert!(ask(&page, b"GET /held HTTP/1.1\r\n\r\n").ends_with("\r\n\r\n0"));
        }
        // A byte at a time is a request as well.
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
            // Its answer has begun.
            deaf.read_exact(&mut [0]).unwrap();
            others.push(deaf);
            assert!(ask(&page, b"GET /a HTTP/1.1\r\n\r\n").ends_with("/a"));
        }
        for _ in 0..2 * PLACES {
            others.push(connect(&page));
            assert!(ask(&page, b"GET /a HTTP/1.1\r\n\r\n").ends_with("/a"));
        }
        // It ends with them there.
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
        // It reads nothing, so that a write finds out that it has been let go.
        deaf.set_nonblocking(true).unwrap();
        let end = clock::now() + PATIENCE;
        let gone = |error: io::Error| error.kind() != ErrorKind::WouldBlock;
        while !deaf.write(b"x").is_err_and(gone) {
            assert!(clock::now() < end, "it is not let go");
            std::thread::yield_now();
        }
    }
}
