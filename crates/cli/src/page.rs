//! Fetches pages of a running server over HTTP: one request and one response per connection.
//!
//! The module uses no HTTP library, because it needs neither TLS nor redirects, proxies or
//! connection pools.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

/// Timeout of a connection attempt, and of each read and write.
const PATIENCE: Duration = Duration::from_secs(30);
/// The most bytes of a response's head, and of an error text that is shown.
const HEAD_MAX: u64 = 8 << 10;

/// The address of a server's pages: `http://HOST:PORT`.
pub(crate) struct Address(String);

impl Address {
    /// Parses the address at the start of a text; `None` if the text is not a URL.
    pub(crate) fn of(text: &str) -> Option<Result<Address, String>> {
        let (scheme, rest) = text.split_once("://")?;
        let named = rest.split(['/', '?']).next().unwrap_or_default();
        let has_port = named.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        Some(match (scheme, has_port) {
            ("http", true) => Ok(Address(named.to_owned())),
            _ => Err(format!("{text} is not the address of a server; write http://HOST:PORT")),
        })
    }

    /// Requests a page.
    pub(crate) fn ask(&self, path: &str) -> Result<Answer, String> {
        let answer = self.begin(path).map_err(|error| {
            format!(
                "{}: {error}\nThe server must be running and started with --metrics-addr: \
                 spillway serve --metrics-addr 127.0.0.1:9104",
                self.0
            )
        })?;
        let answer = match answer {
            Begun::Answer(answer) => answer,
            Begun::Nothing => {
                return Err(format!(
                    "{} closed the connection without an answer: it may be stopping or have too many requests; \
                     try again",
                    self.0
                ));
            }
            Begun::Other => {
                return Err(format!(
                    "the answer from {} is not a page of a Spillway server; use the address of --metrics-addr, not the one for \
                 SQL clients",
                    self.0
                ));
            }
        };
        if answer.status != "200 OK" {
            let status = answer.status.clone();
            let mut told = [0; HEAD_MAX as usize];
            let mut room = &mut told[..];
            // The part that fits is shown, even if the rest cannot be read.
            let _ = answer.copy(&mut room);
            let left = room.len();
            let told = String::from_utf8_lossy(&told[..told.len() - left]).into_owned();
            return Err(format!("{} answers {status}: {}", self.0, told.trim_end()));
        }
        Ok(answer)
    }

    /// Sends a request, and reads the head of the answer.
    fn begin(&self, path: &str) -> io::Result<Begun> {
        let mut stream = connect(&self.0)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        // A write error is ignored: a server that does not speak HTTP may have closed the
        // connection, and the bytes that it sent before are more informative.
        let host = &self.0;
        let _ = write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        Answer::begin(BufReader::new(stream))
    }
}

/// Connects to the first address of a name that accepts.
fn connect(named: &str) -> io::Result<TcpStream> {
    let addresses: Vec<SocketAddr> = named.to_socket_addrs()?.collect();
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in addresses {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// The start of a response.
enum Begun {
    Answer(Answer),
    /// The connection was closed.
    Nothing,
    /// Bytes that are not HTTP.
    Other,
}

/// Where a body ends.
#[derive(Clone, Copy)]
enum Ends {
    /// After this many bytes.
    After(u64),
    /// With its last chunk.
    WithChunks,
    /// With the connection.
    WithAll,
}

/// A response whose head was read.
pub(crate) struct Answer {
    status: String,
    ends: Ends,
    body: BufReader<TcpStream>,
}

impl Answer {
    fn begin(mut stream: BufReader<TcpStream>) -> io::Result<Begun> {
        let begun = match stream.fill_buf() {
            // The server closed the connection without reading the whole request.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                return Ok(Begun::Nothing);
            }
            begun => begun?,
        };
        if begun.is_empty() {
            return Ok(Begun::Nothing);
        }
        if !begun.starts_with(b"HTTP/1.") {
            return Ok(Begun::Other);
        }
        let mut head = stream.by_ref().take(HEAD_MAX).lines();
        let first = head.next().unwrap_or_else(|| Ok(String::new()))?;
        let status = first.split_once(' ').map_or("", |(_, status)| status).to_owned();
        let mut ends = Ends::WithAll;
        for line in head {
            let line = line?;
            if line.is_empty() {
                return Ok(Begun::Answer(Answer { status, ends, body: stream }));
            }
            let Some((name, value)) = line.split_once(':') else { continue };
            if name.eq_ignore_ascii_case("transfer-encoding") {
                if !value.trim().eq_ignore_ascii_case("chunked") {
                    return Ok(Begun::Other);
                }
                ends = Ends::WithChunks;
            } else if name.eq_ignore_ascii_case("content-length")
                && let (Ends::WithAll, Ok(length)) = (ends, value.trim().parse())
            {
                ends = Ends::After(length);
            }
        }
        Ok(Begun::Other)
    }

    /// Writes the body to `out`.
    pub(crate) fn copy(mut self, out: &mut dyn Write) -> io::Result<()> {
        let cut = |told: String| Err(io::Error::new(io::ErrorKind::UnexpectedEof, told));
        match self.ends {
            Ends::WithAll => io::copy(&mut self.body, out).map(drop),
            Ends::After(length) => {
                let copied = io::copy(&mut self.body.by_ref().take(length), out)?;
                if copied < length {
                    return cut(format!("the answer ended after {copied} of {length} bytes"));
                }
                Ok(())
            }
            Ends::WithChunks => {
                let mut all = 0;
                while let Some(length) = self.chunk()? {
                    let copied = io::copy(&mut self.body.by_ref().take(length), out)?;
                    all += copied;
                    if length == 0 {
                        return Ok(());
                    }
                    if copied < length || !self.line()?.is_empty() {
                        break;
                    }
                }
                cut(format!("the answer ended after {all} bytes, before it was complete"))
            }
        }
    }

    /// The length of the next chunk; `None` if there is none.
    fn chunk(&mut self) -> io::Result<Option<u64>> {
        let line = self.line()?;
        let digits = line.split(';').next().unwrap_or_default().trim_end();
        let is_number = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        Ok(u64::from_str_radix(digits, 16).ok().filter(|_| is_number))
    }

    /// A line between chunks.
    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.body.by_ref().take(HEAD_MAX).read_line(&mut line)?;
        line.truncate(line.trim_end_matches(['\r', '\n']).len());
        Ok(line)
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// Requests a page from a server that sends `answer`. Returns the page or the error.
    fn made_of(answer: &'static [u8]) -> Result<String, String> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let named = listener.local_addr().unwrap().to_string();
        let serve = || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(answer).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            let mut asked = String::new();
            stream.read_to_string(&mut asked).unwrap();
            let host = format!("Host: {named}\r\nConnection: close\r\n\r\n");
            assert_eq!(asked, format!("GET /page?a HTTP/1.1\r\n{host}"));
        };
        let ask = || {
            let mut out = Vec::new();
            let answer = Address(named.clone()).ask("/page?a")?;
            answer.copy(&mut out).map_err(|why| why.to_string())?;
            Ok(String::from_utf8(out).unwrap())
        };
        std::thread::scope(|scope| {
            scope.spawn(serve);
            ask()
        })
    }

    #[test]
    fn an_answer_is_taken_whole_or_told_why_not() {
        let whole = b"HTTP/1.1 200 OK\r\nA: b\r\ncontent-LENGTH: 3\r\n\r\nabcd";
        assert_eq!(made_of(whole).as_deref(), Ok("abc"));
        assert_eq!(made_of(b"HTTP/1.0 200 OK\n\nabc\n").as_deref(), Ok("abc\n"));
        let chunks = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0003\r\nabc\r\nA;x\r\n0123456789\r\n0\r\n\r\n";
        assert_eq!(made_of(chunks).as_deref(), Ok("abc0123456789"));
        for (answer, told) in [
            (&b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabc"[..], "ended after 3 of 4 bytes"),
            (b"HTTP/1.1 403 Forbidden\r\n\r\nnot here\n", "answers 403 Forbidden: not here"),
            (b"HTTP/1.1 200 OK\r\nA: b", "is not a page of a Spillway server"),
            (b"J\0\0\0\x0a8.4.0", "is not a page of a Spillway server"),
            (b"", "without an answer"),
            (b"HTTP/1.1 503 Busy\r\nContent-Length: 5\r\n\r\nagain, and more", "503 Busy: again"),
            (
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
                "ended after 3 bytes",
            ),
            (
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nabc",
                "ended after 3 bytes",
            ),
            (
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n+3\r\nabc\r\n0\r\n\r\n",
                "ended after 0",
            ),
            (
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
                "is not a page of a Spillway server",
            ),
        ] {
            let made = made_of(answer).unwrap_err();
            assert!(made.contains(told), "{made}");
        }
    }

    #[test]
    fn addresses_are_told_from_folders() {
        let of = |text| Address::of(text).map(|address| address.map(|Address(named)| named));
        assert_eq!(of("./data"), None);
        assert_eq!(of("127.0.0.1:9104"), None);
        for text in ["http://db:9104", "http://db:9104/", "http://db:9104/metrics?a"] {
            assert_eq!(of(text), Some(Ok("db:9104".to_owned())));
        }
        assert_eq!(of("http://[::1]:9104"), Some(Ok("[::1]:9104".to_owned())));
        for text in ["https://db:9104", "http://db", "http://", "http://db:x"] {
            assert!(of(text).unwrap().unwrap_err().contains("write http://HOST:PORT"));
        }
    }
}
