//! Serves the contents of a server's storage over HTTP, for clients on the server's machine.
//!
//! The page shows the bounds of slices. These bounds are keys and so reveal data, but the page asks
//! for no password. So the server refuses clients on other machines. It also refuses a browser's
//! request to a foreign host name that resolves to this machine (DNS rebinding). Clients on other
//! machines get the same contents through SQL, which checks the user's rights.
//!
//! The page is made from descriptions of files that the engines have in memory, and from the
//! lengths of a checkpoint's files. The descriptions are consistent within each sub-table. A
//! separate thread makes the page, so that the page delays no statement and no other page. The
//! thread needs memory for a copy of the descriptions and for a few pieces of output. It charges
//! this memory to the budget before it allocates the memory (decision 007). If the budget has no
//! room, the server refuses the page.

use std::net::IpAddr;

use spillway::Inspection;
use spillway_base::budget::Use;
use spillway_inspect::{DRAWN_BYTES, Format, Report, keep_only};
use spillway_sql::Instance;

use crate::http::{Asked, Outlet, PIECE, PIECES, Page, Reply};

/// Reports the storage of an instance.
pub(crate) struct Inspections {
    instance: Instance,
}

/// A parsed request.
struct Wanted {
    format: Format,
    table: Option<String>,
}

const ELSEWHERE: &str = "this page shows keys, so the server sends it only to clients on its own \
                         machine (127.0.0.1, ::1). Request it there, or use SQL: \
                         information_schema.TIERED_LEVELS, TIERED_SLICES, TIERED_COMPACTIONS\n";
/// Bytes of the pieces of a page that are made and not yet sent.
const ON_THEIR_WAY: usize = (PIECES + 2) * PIECE;

impl Inspections {
    pub(crate) fn of(instance: Instance) -> Inspections {
        Inspections { instance }
    }

    /// The page at `/inspect`: `?format=html`, `text` or `json`, and `table=DATABASE.TABLE`.
    pub(crate) fn reply(&self, asked: &Asked<'_>) -> Reply {
        if !is_near(asked) {
            return Reply::Page(Page::text("403 Forbidden", ELSEWHERE));
        }
        let wanted = match Wanted::read(asked.query) {
            Ok(wanted) => wanted,
            Err(why) => return Reply::Page(Page::text("400 Bad Request", why + "\n")),
        };
        let (instance, title) = (self.instance.clone(), format!("the server at {}", asked.server));
        Reply::Made(Box::new(move |outlet| tell(&instance, &wanted, &title, outlet)))
    }
}

/// Makes the page and sends it to `outlet`.
fn tell(instance: &Instance, wanted: &Wanted, title: &str, mut outlet: Outlet) {
    let database = instance.database();
    let bytes = database.inspection_bytes() + ON_THEIR_WAY;
    let mut charge = match database.budget().try_charge(Use::Connections, bytes) {
        Ok(charge) => charge,
        Err(error) => {
            let told = format!(
                "not enough memory to make this page: {error}. Try again later, or query \
                 information_schema.TIERED_LEVELS\n"
            );
            return outlet.page(Page::text("503 Service Unavailable", told));
        }
    };
    let (mut inspection, names) = instance.inspect();
    let mut memory = database.inspect_memory();
    if let Some(table) = &wanted.table
        && let Err(why) = keep_only(&mut inspection, &mut memory, &names, table)
    {
        drop((inspection, memory, charge));
        return outlet.page(Page::text("404 Not Found", why + "\n"));
    }
    charge.resize(ON_THEIR_WAY + memory.bytes() + bytes_of(&inspection, wanted.format));
    outlet.begin("200 OK", wanted.format.content_type());
    let memory = Some(memory).filter(|memory| !memory.is_empty());
    let report = Report { inspection: &inspection, memory: memory.as_ref(), names: &names, title };
    // A write fails if the client takes no more. That is no error of the page.
    let _ = report.write(wanted.format, &mut outlet);
    drop((inspection, memory, names, charge));
    outlet.finish();
}

/// The memory that an inspection uses while its page is made, in bytes.
fn bytes_of(inspection: &Inspection, format: Format) -> usize {
    let drawn = match format {
        Format::Html => inspection.slices_of_largest() * DRAWN_BYTES,
        Format::Text | Format::Json => 0,
    };
    inspection.bytes() + drawn
}

/// Whether the request comes from the server's machine and addresses the server by an address or as
/// `localhost`. The connection must use the loopback address: any other address that is equal on
/// both sides may result from address translation.
fn is_near(asked: &Asked<'_>) -> bool {
    let [client, server] = [asked.client, asked.server].map(|of| of.ip().to_canonical());
    client.is_loopback() && server.is_loopback() && asked.host.is_none_or(is_own_name)
}

/// Whether a host name, perhaps with a port, is an address or `localhost`. No name server resolves
/// these, so no foreign name passes.
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
                _ => return Err(format!("unknown parameter {part}; use format= or table=")),
            }
        }
        Ok(wanted)
    }
}

/// Decodes a value of a query, in which `%` and two hexadecimal digits stand for a byte.
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
                let [high, low] = digits.map(|digit| (digit as char).to_digit(16));
                let number = high.zip(low).map(|(high, low)| (high << 4 | low) as u8);
                number.ok_or_else(wrong)?
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

    /// The response: head and body.
    fn told(reply: Reply) -> String {
        match reply {
            Reply::Page(page) => format!("HTTP/1.1 {}\r\n\r\n{}", page.status, page.body),
            Reply::Made(maker) => {
                let (outlet, pieces) = Outlet::to_nobody(100);
                maker(outlet);
                String::from_utf8(pieces.into_iter().flatten().collect()).unwrap()
            }
        }
    }

    #[test]
    fn only_those_on_the_machine_itself_are_told() {
        let all = inspections();
        let status = |server: &str, client: &str, host| {
            let [server, client] = [server, client].map(|address| address.parse().unwrap());
            told(all.reply(&Asked { server, client, host, ..HERE }))
        };
        for (server, client, host) in [
            ("127.0.0.1:1", "127.0.0.1:2", None),
            ("127.0.0.1:1", "127.0.0.1:2", Some("localhost")),
            ("127.0.0.1:1", "127.0.0.1:2", Some("127.0.0.1:1")),
            ("[::1]:1", "[::1]:2", Some("[::1]:1")),
            ("[::ffff:127.0.0.1]:1", "[::ffff:127.0.0.1]:2", Some("[::ffff:127.0.0.1]")),
            ("127.0.0.1:1", "127.9.9.9:2", None),
        ] {
            let told = status(server, client, host);
            assert!(told.starts_with("HTTP/1.1 200 OK"), "{server} {client} {host:?}: {told}");
        }
        for (server, client, host) in [
            ("10.0.0.1:1", "10.0.0.2:2", Some("10.0.0.1:1")),
            // An equal address may result from address translation.
            ("10.0.0.1:1", "10.0.0.1:2", Some("10.0.0.1:1")),
            ("[::ffff:10.0.0.1]:1", "[::ffff:10.0.0.1]:2", None),
            ("127.0.0.1:1", "10.0.0.1:2", None),
            ("10.0.0.1:1", "127.0.0.1:2", None),
            ("[::ffff:10.0.0.1]:1", "[::ffff:10.0.0.2]:2", None),
            ("127.0.0.1:1", "127.0.0.1:2", Some("elsewhere.example:1")),
            ("127.0.0.1:1", "127.0.0.1:2", Some("localhost.elsewhere.example")),
            ("127.0.0.1:1", "127.0.0.1:2", Some("")),
        ] {
            let told = status(server, client, host);
            assert!(told.starts_with("HTTP/1.1 403"), "{server} {client} {host:?}: {told}");
        }
    }

    /// Decision 007.
    #[test]
    fn what_is_told_is_charged_and_not_made_where_there_is_no_room() {
        let all = inspections();
        let budget = all.instance.database().budget();
        let used = || budget.used_for(Use::Connections);
        let Reply::Made(maker) = all.reply(&HERE) else { panic!("it is made") };
        let (outlet, pieces) = Outlet::to_nobody(0);
        let maker = spillway_base::thread::spawn("inspect", move || maker(outlet)).unwrap();
        // The page's thread waits until its first piece is taken.
        let end = spillway_base::clock::now() + std::time::Duration::from_secs(30);
        while used() < ON_THEIR_WAY {
            assert!(spillway_base::clock::now() < end, "nothing is charged");
            std::thread::yield_now();
        }
        drop(pieces);
        maker.join().unwrap();
        assert_eq!(used(), 0);
        let others = budget.charge(Use::Transactions, budget.limit() - ON_THEIR_WAY / 2);
        let page = told(all.reply(&HERE));
        assert!(page.starts_with("HTTP/1.1 503") && page.contains("memory budget"), "{page}");
        drop(others);
        assert!(told(all.reply(&HERE)).starts_with("HTTP/1.1 200"));
    }

    #[test]
    fn a_query_that_makes_no_sense_is_told_why() {
        let all = inspections();
        for (query, status, wanted) in [
            ("", "200", "<!DOCTYPE html>"),
            ("format=json", "200", "{\""),
            ("format=xml", "400", "xml is not a format; use text, json or html"),
            ("format", "400", "use format= or table="),
            ("all=1", "400", "use format= or table="),
            ("table=%2", "400", "%2 is no value"),
            ("table=%ff", "400", "%ff is no value"),
            ("table=%+f", "400", "%+f is no value"),
            ("table=%-1", "400", "%-1 is no value"),
            ("table=a%20b+c.%C3%A4", "404", "no table a b c.\u{e4} in data files"),
        ] {
            let page = told(all.reply(&Asked { query, ..HERE }));
            assert!(page.starts_with(&format!("HTTP/1.1 {status}")), "{query}: {page}");
            assert!(page.contains(wanted), "{query}: {page}");
        }
    }
}
