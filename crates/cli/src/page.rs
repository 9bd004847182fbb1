//! Pages of a server that runs, over HTTP: one request, one answer, and the end of the connection.
//!
//! Libraries for this bring TLS, redirects, proxies and pools, of which this page has none.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

/// A server is given so long to be reached, and for each piece of its answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// The longest head of an answer, and what is shown of one that is no page.
const HEAD_MAX: u64 = 8 << 10;

/// Where a server shows its pages: `http://HOST:PORT`.
pub(crate) struct Address(String);

impl Address {
    /// The address that a text begins as; `None` for one that begins as none.
    pub(crate) fn of(text: &str) -> Option<Result<Address, String>> {
        let (scheme, rest) = text.split_once("://")?;
        let named = rest.split(['/', '?']).next().unwrap_or_default();
        let has_port = named.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        Some(match (scheme, has_port) {
            ("http", true) => Ok(Address(named.to_owned())),
            _ => Err(format!("{text} is no address of a server; write http://HOST:PORT")),
        })
    }

    /// Asks for a page.
    pub(crate) fn ask(&self, path: &str) -> Result<Answer, String> {
        let answer = self.begin(path).map_err(|error| {
            format!(
                "{}: {error}\nA server answers there if it runs, and was started with --metrics-addr: \
                 spillway serve --metrics-addr 127.0.0.1:9104",
                self.0
            )
        })?;
        let Some(mut answer) = answer else {
            return Err(format!(
                "what answers at {} is no page of a server's; its address is the one of --metrics-addr, not the one that \
                 clients connect to",
                self.0
            ));
        };
        if answer.status != "200 OK" {
            let mut told = String::new();
            // What can be read of it is told.
            let _ = answer.body.by_ref().take(HEAD_MAX).read_to_string(&mut told);
            return Err(format!("{} answers {}: {}", self.0, answer.status, told.trim_end()));
        }
        Ok(answer)
    }

    /// The beginning of an answer; `None` where it is not one of HTTP.
    fn begin(&self, path: &str) -> io::Result<Option<Answer>> {
        let mut stream = connect(&self.0)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        // A server that is none of HTTP may have closed already; what it has said before tells more.
        let _ = write!(stream, "GET {path} HTTP/1.0\r\nHost: {}\r\n\r\n", self.0);
        Answer::begin(BufReader::new(stream))
    }
}

/// Connects to the first address of a name that answers.
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

/// An answer of which the head is read.
pub(crate) struct Answer {
    status: String,
    /// Bytes of the body, if it is said how many.
    length: Option<u64>,
    body: BufReader<TcpStream>,
}

impl Answer {
    fn begin(mut stream: BufReader<TcpStream>) -> io::Result<Option<Answer>> {
        if !stream.fill_buf()?.starts_with(b"HTTP/1.") {
            return Ok(None);
        }
        let mut head = stream.by_ref().take(HEAD_MAX).lines();
        let first = head.next().unwrap_or_else(|| Ok(String::new()))?;
        let status = first.split_once(' ').map_or("", |(_, status)| status).to_owned();
        let mut length = None;
        for line in head {
            let line = line?;
            if line.is_empty() {
                return Ok(Some(Answer { status, length, body: stream }));
            }
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().ok();
            }
        }
        Ok(None)
    }

    /// Writes its body somewhere.
    pub(crate) fn copy(mut self, out: &mut dyn Write) -> io::Result<()> {
        let most = self.length.unwrap_or(u64::MAX);
        let copied = io::copy(&mut self.body.by_ref().take(most), out)?;
        match self.length {
            Some(length) if copied < length => {
                let told = format!("the answer ended after {copied} of {length} bytes");
                Err(io::Error::new(io::ErrorKind::UnexpectedEof, told))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// What is made of an answer.
    fn made_of(answer: &'static [u8]) -> Result<String, String> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let named = listener.local_addr().unwrap().to_string();
        let serve = || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(answer).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            let mut asked = String::new();
            stream.read_to_string(&mut asked).unwrap();
            assert_eq!(asked, format!("GET /page?a HTTP/1.0\r\nHost: {named}\r\n\r\n"));
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
        for (answer, told) in [
            (&b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabc"[..], "ended after 3 of 4 bytes"),
            (b"HTTP/1.1 403 Forbidden\r\n\r\nnot here\n", "answers 403 Forbidden: not here"),
            (b"HTTP/1.1 200 OK\r\nA: b", "is no page of a server's"),
            (b"J\0\0\0\x0a8.4.0", "is no page of a server's"),
            (b"", "is no page of a server's"),
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
