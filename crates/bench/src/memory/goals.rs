//! Ratios of the memory engine's figures to others', beside what they must reach.

use crate::measure::median;
use crate::report::Report;

/// Notes for each case and each other subject the first subject's throughput over the other's,
/// computed within each round: the median, the lowest and the highest. The second figure must be
/// processor time for each operation: its ratio holds on a machine that others use too.
pub(super) fn note_ratios(report: &mut Report, goal: f64) {
    let subjects = report.subjects();
    let Some((first, others)) = subjects.split_first() else { return };
    for case in report.cases() {
        for other in others {
            let ratios = |figure: usize| -> Vec<f64> {
                let of = |subject: &str| {
                    let rows = report.rows().iter();
                    let rows = rows.filter(|row| row.case == case && row.subject == subject);
                    rows.map(|row| row.figures[figure]).collect::<Vec<_>>()
                };
                of(first).into_iter().zip(of(other)).map(|(first, other)| first / other).collect()
            };
            let throughput = ratios(0);
            let low = throughput.iter().copied().fold(f64::INFINITY, f64::min);
            let high = throughput.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let (middle, cpu) = (median(throughput), median(ratios(1)));
            let verdict = verdict(middle >= goal);
            report.note(format!(
                "{}: {first} has {middle:.2} times the throughput of {other} ({low:.2} to \
                 {high:.2} by round) for {cpu:.2} times its processor time; goal {goal}: \
                 {verdict}",
                case.join(", ")
            ));
        }
    }
}

/// A goal's outcome in a word.
pub(super) fn verdict(reached: bool) -> &'static str {
    if reached { "reached" } else { "missed" }
}
