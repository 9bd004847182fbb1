//! Pages about the stored data, over HTTP, while the server serves clients.

use std::io::{Read, Write};
use std::net::TcpStream;

use spillway_server::MetricsPage;

use crate::client::TestServer;

/// The body of an existing page.
fn get(page: &MetricsPage, path: &str) -> String {
    let mut stream = TcpStream::connect(page.address()).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", page.address()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
    body.to_owned()
}

/// The numbers behind a name in JSON.
fn figures(json: &str, name: &str) -> Vec<u64> {
    let name = format!("\"{name}\":");
    let values = json.split(&name).skip(1);
    values.map_while(|value| value.split([',', '}', ']']).next()?.parse().ok()).collect()
}

#[test]
fn temperatures_and_compactions_are_told_while_statements_run() {
    let server = TestServer::start();
    let page = MetricsPage::start(
        "127.0.0.1:0".parse().unwrap(),
        server.instance.clone(),
        server.server.metrics(),
    );
    let page = page.unwrap();
    assert!(get(&page, "/inspect?format=text").contains("none since the database was opened"));
    let mut client = server.client();
    client.run("CREATE TABLE seats (id INT PRIMARY KEY, holder VARCHAR(100))");
    client.run("CREATE TABLE others (id INT PRIMARY KEY)");
    for half in 0..2 {
        let rows = (0..200).map(|id| format!("({}, REPEAT('x', 90))", 2 * id + half));
        client.run(format!("INSERT INTO seats VALUES {}", rows.collect::<Vec<_>>().join(",")));
        server.instance.database().compact().unwrap();
    }
    for from in 0..400 {
        client.run(format!("SELECT COUNT(*) FROM seats WHERE id BETWEEN {from} AND {}", from + 9));
    }
    // An open transaction does not block an inspection, and an inspection does not block the
    // transaction.
    client.run("BEGIN");
    client.run("UPDATE seats SET holder = 'y' WHERE id = 7");

    let text = get(&page, "/inspect?format=text&table=test.seats");
    for part in
        ["the server at 127.0.0.1:", "test.seats: 1 sub-table", "  full         Level2 ", " UTC "]
    {
        assert!(text.contains(part), "{part}\n{text}");
    }
    assert!(!text.contains("not known") && !text.contains("test.others"), "{text}");
    let json = get(&page, "/inspect?format=json&table=test.seats");
    assert!(json.contains("\"kind\":\"full\"") && json.contains("\"table\":\"test.seats\""));
    let temperatures = figures(&json, "temperature");
    assert_eq!(temperatures.len(), json.matches("\"first_block\":").count());
    assert!(temperatures.iter().any(|temperature| *temperature > 0), "{json}");
    let merged = figures(&json, "merged_bytes");
    assert!(merged.last().is_some_and(|bytes| *bytes > 200 * 90), "{json}");
    let html = get(&page, "/inspect");
    for part in
        ["<h2>test.seats</h2>", "<h2>Recent compactions</h2>", "<title>full ", "temperature "]
    {
        assert!(html.contains(part), "{part}\n{html}");
    }
    client.run("COMMIT");
}
