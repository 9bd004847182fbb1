//! What is stored in a server, over HTTP, for those on its own machine.
//!
//! Bounds of slices are keys, and keys are data; the page knows no passwords. So it is told to nobody who comes from another
//! machine, and not to a browser that was led here by a name that somebody else has given this machine. Through SQL, which
//! knows who asks, it is told everywhere.
//!
//! It is made from records in memory, of one moment for each sub-table, and keeps no statement waiting. What it takes is
//! bounded by its being told to one at a time.

use std::net::IpAddr;
use std::sync::Arc;

use spillway_inspect::{Format, Report, keep_only};
use spillway_sql::Instance;

use crate::http::{Asked, Page, Permit};

/// Tells what an instance has stored.
pub(crate) struct Inspections {
    instance: Instance,
    /// Whoever is being told has the other one.
    permit: Permit,
}

/// What somebody wants to be told.
struct Wanted {
    format: Format,
    table: Option<String>,
}

const ELSEWHERE: &str = "what is stored is told on the server's own machine alone, for keys are data. Ask there, by its \
                         address, or with SQL: information_schema.TIERED_LEVELS, TIERED_SLICES, TIERED_COMPACTIONS\n";
const BUSY: &str = "somebody else is being told just now; ask again in some seconds\n";

impl Inspections {
    pub(crate) fn of(instance: Instance) -> Inspections {
        Inspections { instance, permit: Arc::new(()) }
    }

    /// The page at `/inspect`: `?format=html`, `text` or `json`, and `table=DATABASE.TABLE`.
    pub(crate) fn page(&self, asked: &Asked<'_>) -> Page {
        if !is_near(asked) {
            return Page::text("403 Forbidden", ELSEWHERE);
        }
        let wanted = match Wanted::read(asked.query) {
            Ok(wanted) => wanted,
            Err(why) => return Page::text("400 Bad Request", why + "\n"),
        };
        // All pages are made by one thread, so that nobody takes it in between.
        if Arc::strong_count(&self.permit) > 1 {
            return Page::text("503 Service Unavailable", BUSY);
        }
        let permit = Some(self.permit.clone());
        let (mut inspection, names) = self.instance.inspect();
        if let Some(table) = &wanted.table
            && let Err(why) = keep_only(&mut inspection, &names, table)
        {
            return Page::text("404 Not Found", why + "\n");
        }
        let title = format!("the server at {}", asked.server);
        let report = Report { inspection: &inspection, names: &names, title: &title };
        let body = report.written(wanted.format);
        Page { status: "200 OK", content_type: wanted.format.content_type(), body, permit }
    }
}

/// Whether somebody on the server's machine asks, by the machine's own name for itself.
fn is_near(asked: &Asked<'_>) -> bool {
    let (client, server) = (asked.client.ip().to_canonical(), asked.server.ip().to_canonical());
    (client.is_loopback() || client == server) && asked.host.is_none_or(is_own_name)
}

/// Whether a name, with its port, is an address or `localhost`: what no name server answers for.
fn is_own_name(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let number = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    name == "localhost" || number.parse::<IpAddr>().is_ok()
}

impl Wanted {
    fn read(query: &str) -> Result<Wanted, String> {
        let mut wanted = Wanted { format: Format::Html, table: None };
        for part in query.split('&').filter(|part| !part.is_empty()) {
            match part.split_once('=') {
                Some(("format", format)) => wanted.format = format.parse()?,
                Some(("table", table)) => wanted.table = Some(decoded(table)?),
                _ => return Err(format!("{part} is not known; there are format= and table=")),
            }
        }
        Ok(wanted)
    }
}

/// A value of a query, its bytes as `%` and two digits where they had to be.
fn decoded(text: &str) -> Result<String, String> {
    let wrong = || format!("{text} is no value of a query");
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        bytes.push(match byte {
            b'%' => {
                let (digits, after) = rest.split_first_chunk::<2>().ok_or_else(wrong)?;
                rest = after;
                let digits = std::str::from_utf8(digits).map_err(|_| wrong())?;
                u8::from_str_radix(digits, 16).map_err(|_| wrong())?
            }
            b'+' => b' ',
            byte => *byte,
        });
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use spillway::{Database, Settings};

    use super::*;

    const HERE: Asked<'_> = Asked {
        path: "/inspect",
        query: "format=text",
        host: None,
        server: std::net::SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 9104),
        client: std::net::SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 50000),
    };

    fn inspections() -> Inspections {
        let database = Database::open_in_memory(Settings::default()).unwrap();
        Inspections::of(Instance::open(database).unwrap())
    }

    #[test]
    fn only_those_on_the_machine_itself_are_told() {
        let all = inspections();
        let status = |server: &str, client: &str, host| {
            let [server, client] = [server, client].map(|address| address.parse().unwrap());
            all.page(&Asked { server, client, host, ..HERE }).status
        };
        for (server, client, host) in [
            ("127.0.0.1:1", "127.0.0.1:2", None),
            ("127.0.0.1:1", "127.0.0.1:2", Some("localhost")),
            ("127.0.0.1:1", "127.0.0.1:2", Some("127.0.0.1:1")),
            ("[::1]:1", "[::1]:2", Some("[::1]:1")),
            ("[::ffff:127.0.0.1]:1", "[::ffff:127.0.0.1]:2", Some("[::ffff:127.0.0.1]")),
            ("10.0.0.1:1", "10.0.0.1:2", Some("10.0.0.1:1")),
        ] {
            assert_eq!(status(server, client, host), "200 OK", "{server} {client} {host:?}");
        }
        for (server, client, host) in [
            ("10.0.0.1:1", "10.0.0.2:2", Some("10.0.0.1:1")),
            ("[::ffff:10.0.0.1]:1", "[::ffff:10.0.0.2]:2", None),
            ("127.0.0.1:1", "127.0.0.1:2", Some("elsewhere.example:1")),
            ("127.0.0.1:1", "127.0.0.1:2", Some("localhost.elsewhere.example")),
            ("127.0.0.1:1", "127.0.0.1:2", Some("")),
        ] {
            assert_eq!(status(server, client, host), "403 Forbidden", "{server} {client} {host:?}");
        }
    }

    #[test]
    fn one_at_a_time_is_told_and_the_others_what_to_do() {
        let all = inspections();
        let first = all.page(&HERE);
        assert_eq!(first.status, "200 OK");
        let second = all.page(&HERE);
        assert!(second.status.starts_with("503") && second.body.contains("ask again"));
        drop((first, second));
        assert_eq!(all.page(&HERE).status, "200 OK");
    }

    #[test]
    fn a_query_that_makes_no_sense_is_told_why() {
        let all = inspections();
        for (query, status, told) in [
            ("", "200", "<!DOCTYPE html>"),
            ("format=json", "200", "{\""),
            ("format=xml", "400", "there are text, json and html"),
            ("format", "400", "there are format= and table="),
            ("all=1", "400", "there are format= and table="),
            ("table=%2", "400", "%2 is no value"),
            ("table=%ff", "400", "%ff is no value"),
            ("table=a%20b+c.%C3%A4", "404", "nothing of a table a b c.\u{e4} is in data files"),
        ] {
            let page = all.page(&Asked { query, ..HERE });
            assert!(page.status.starts_with(status), "{query}: {}", page.status);
            assert!(page.body.contains(told), "{query}: {}", page.body);
        }
    }
}
