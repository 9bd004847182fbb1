//! The figures of a server for Prometheus and its kin, as text over HTTP.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, text};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use spillway::Metric;
use spillway_base::thread;
use tiny_http::{Header, Method, Request, Response};

/// A source of figures, asked each time that somebody wants to see them.
type Source = Box<dyn Fn() -> Vec<Metric> + Send + Sync>;

/// A page of figures at `/metrics`.
pub struct MetricsPage {
    http: Arc<tiny_http::Server>,
    address: SocketAddr,
    answering: Option<JoinHandle<()>>,
}

struct Figures(Source);

impl fmt::Debug for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Figures")
    }
}

impl Collector for Figures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for Metric { name, help, counter, value } in (self.0)() {
            // The encoder ends a counter's name by itself.
            let name = name.trim_end_matches("_total");
            if counter {
                let metric = ConstCounter::new(value);
                let named = encoder.encode_descriptor(name, help, None, metric.metric_type())?;
                metric.encode(named)?;
            } else {
                let metric = ConstGauge::new(value);
                let named = encoder.encode_descriptor(name, help, None, metric.metric_type())?;
                metric.encode(named)?;
            }
        }
        Ok(())
    }
}

const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

impl MetricsPage {
    /// Answers at an address with what the source gives, each name with `spillway_` before it.
    ///
    /// # Errors
    /// Where the address cannot be had.
    pub fn start(
        address: SocketAddr,
        source: impl Fn() -> Vec<Metric> + Send + Sync + 'static,
    ) -> io::Result<MetricsPage> {
        let http = tiny_http::Server::http(address).map_err(|error| {
            io::Error::other(format!("cannot show metrics on {address}: {error}"))
        })?;
        let bound = http.server_addr().to_ip().unwrap_or(address);
        let http = Arc::new(http);
        let mut registry = Registry::with_prefix("spillway");
        registry.register_collector(Box::new(Figures(Box::new(source))));
        let asked = http.clone();
        let answer_all = move || {
            // Unblocked, it is an error, and the end.
            while let Ok(request) = asked.recv() {
                answer(request, &registry);
            }
        };
        let answering = thread::spawn("metrics", answer_all).map_err(io::Error::other)?;
        Ok(MetricsPage { http, address: bound, answering: Some(answering) })
    }

    /// Where it answers.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

fn answer(request: Request, registry: &Registry) {
    let path = request.url().split('?').next().unwrap_or_default();
    let (status, body) = match (request.method(), path) {
        (Method::Get | Method::Head, "/metrics") => {
            let mut body = String::new();
            match text::encode(&mut body, registry) {
                Ok(()) => (200, body),
                Err(error) => (500, format!("{error}\n")),
            }
        }
        _ => (404, "GET /metrics\n".to_owned()),
    };
    let mut response = Response::from_string(body).with_status_code(status);
    if status == 200
        && let Ok(header) = Header::from_bytes("Content-Type", CONTENT_TYPE)
    {
        response = response.with_header(header);
    }
    // Whoever has gone does not want it any more.
    let _ = request.respond(response);
}

impl Drop for MetricsPage {
    fn drop(&mut self) {
        self.http.unblock();
        if let Some(answering) = self.answering.take() {
            // A panic in it has been reported by the panic hook.
            let _ = answering.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use super::*;

    fn get(page: &MetricsPage, path: &str) -> String {
        let mut stream = TcpStream::connect(page.address()).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn figures_are_shown_as_they_are_when_asked_for() {
        use std::sync::atomic::{AtomicU64, Ordering};
        static COMMITS: AtomicU64 = AtomicU64::new(3);
        let source = || {
            let value = COMMITS.load(Ordering::SeqCst) as f64;
            vec![
                Metric { name: "commits_total", help: "Commits.", counter: true, value },
                Metric { name: "memory_bytes", help: "Memory.", counter: false, value: 0.5 },
            ]
        };
        let page = MetricsPage::start("127.0.0.1:0".parse().unwrap(), source).unwrap();
        let text = get(&page, "/metrics");
        assert!(text.starts_with("HTTP/1.1 200") && text.contains(CONTENT_TYPE), "{text}");
        for line in [
            "# HELP spillway_commits Commits.",
            "# TYPE spillway_commits counter",
            "spillway_commits_total 3",
            "# TYPE spillway_memory_bytes gauge",
            "spillway_memory_bytes 0.5",
            "# EOF",
        ] {
            assert!(text.contains(line), "{line} is not in {text}");
        }
        COMMITS.store(4, Ordering::SeqCst);
        assert!(get(&page, "/metrics?now").contains("spillway_commits_total 4"));
        assert!(get(&page, "/").starts_with("HTTP/1.1 404"));
    }
}
