//! The notes under the table. A note divides the rate of asynchronous commits by that of
//! synchronous ones. It also computes two rates from the processor time and the sync time of the
//! run: the rate if commits and syncs did not overlap, and the rate if only the processors limited
//! it.

use super::{Style, Subject};
use crate::report::Report;

/// Indexes of figures in a row.
const COMMITS: usize = 0;
const P50_US: usize = 1;
const CPU_US: usize = 5;
const SYNC_US: usize = 7;

/// The rate if `in_flight` commits are made by `threads` threads at once, at `cpu_us` each, then
/// synced, and so on in turn. A higher rate needs commits that are made while others are synced.
pub(super) fn in_turn(in_flight: f64, threads: f64, cpu_us: f64, sync_us: f64) -> f64 {
    in_flight * 1e6 / (sync_us + in_flight * cpu_us / threads)
}

/// Adds a note for each case of every asynchronous subject.
pub(super) fn add(report: &mut Report, subjects: &[&Subject<'_>]) {
    let mut cases = Vec::new();
    for row in report.rows() {
        if !cases.contains(&row.case) {
            cases.push(row.case.clone());
        }
    }
    for case in &cases {
        for subject in subjects {
            if let Style::Asynchronous(threads) = subject.style {
                let note = note(report, case, subject, threads);
                report.note(note);
            }
        }
    }
}

fn note(report: &Report, case: &[String], subject: &Subject<'_>, threads: usize) -> String {
    let name = subject.name();
    let own = |figure| report.median(case, &name, figure);
    let over = |style, of: &str| {
        let other = Subject { stores: subject.stores, style }.name();
        let ratio = own(COMMITS) / report.median(case, &other, COMMITS);
        // Subjects that were not selected have no median.
        ratio.is_finite().then(|| format!("{ratio:.1} times {of}"))
    };
    let ratios: Vec<String> = [
        over(Style::Few(threads), "the same number of threads that wait"),
        over(Style::Waiting, "a thread for each that waits"),
    ]
    .into_iter()
    .flatten()
    .collect();
    let (rows, in_flight) = (&case[0], &case[1]);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let (cpu_us, sync_us) = (own(CPU_US), own(SYNC_US));
    format!(
        "{name}, {rows} rows, {in_flight} in flight: {} A sync of {sync_us:.0} us and {cpu_us:.2} us of processor for each \
         come to {:.0}/s in turn, the processors alone to {:.0}/s. A commit is on its way for {:.1} syncs.",
        if ratios.is_empty() { String::new() } else { ratios.join(", ") + "." },
        in_turn(in_flight.parse().unwrap_or(f64::NAN), threads.min(cores) as f64, cpu_us, sync_us),
        cores as f64 * 1e6 / cpu_us,
        own(P50_US) / sync_us,
    )
}
