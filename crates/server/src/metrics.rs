//! Serves the server's metrics for Prometheus, and a view of the storage, over HTTP.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, text};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use spillway::Metric;
use spillway_sql::Instance;

use crate::http::{Answering, Asked, Page, Reply};
use crate::inspection::Inspections;

/// A source of metrics, called for each request.
type Source = Box<dyn Fn() -> Vec<Metric> + Send + Sync>;

/// Serves metrics at `/metrics`, and a view of the storage at `/inspect`.
pub struct MetricsPage(Answering);

/// The time limit for a request, and for each piece of the answer.
const WITHIN: Duration = Duration::from_secs(10);

struct Figures(Source);

impl fmt::Debug for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Figures")
    }
}

impl Collector for Figures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for Metric { name, help, counter, value } in (self.0)() {
            // The encoder appends `_total` to a counter's name.
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
    /// Starts to serve at an address: the metrics of the source, each name with the prefix
    /// `spillway_`, and a view of the instance's storage.
    ///
    /// # Errors
    /// If the address cannot be bound.
    pub fn start(
        address: SocketAddr,
        instance: Instance,
        source: impl Fn() -> Vec<Metric> + Send + Sync + 'static,
    ) -> io::Result<MetricsPage> {
        let mut registry = Registry::with_prefix("spillway");
        registry.register_collector(Box::new(Figures(Box::new(source))));
        let inspections = Inspections::of(instance);
        let pages = Box::new(move |asked: &Asked<'_>| page(asked, &registry, &inspections));
        let answering = Answering::start(address, WITHIN, pages).map_err(|error| {
            io::Error::new(error.kind(), format!("cannot show metrics on {address}: {error}"))
        })?;
        Ok(MetricsPage(answering))
    }

    /// The address at which it serves.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.0.address()
    }
}

const WHERE: &str = "metrics are at /metrics, and a view of the storage at /inspect\n";

fn page(asked: &Asked<'_>, registry: &Registry, inspections: &Inspections) -> Reply {
    Reply::Page(match asked.path {
        "/metrics" => {
            let mut body = String::new();
            match text::encode(&mut body, registry) {
                Ok(()) => Page { content_type: CONTENT_TYPE, ..Page::text("200 OK", body) },
                Err(error) => Page::text("500 Internal Server Error", format!("{error}\n")),
            }
        }
        "/inspect" => return inspections.reply(asked),
        "/" => Page::text("200 OK", WHERE),
        _ => Page::text("404 Not Found", WHERE),
    })
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use spillway::{Database, Settings};

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
        let database = Database::open_in_memory(Settings::default()).unwrap();
        let instance = Instance::open(database).unwrap();
        let page = MetricsPage::start("127.0.0.1:0".parse().unwrap(), instance, source).unwrap();
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
        assert!(get(&page, "/").starts_with("HTTP/1.1 200"));
        assert!(get(&page, "/metric").starts_with("HTTP/1.1 404"));
    }
}
