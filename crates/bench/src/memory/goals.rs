//! Compares the memory engine's figures with those of other subjects, and with the goals.

use crate::measure::median;
use crate::report::Report;

/// For each case and each other subject, adds a note: the ratio of the first subject's throughput
/// to the other's, computed within each round, as the median, the lowest and the highest. The
/// second figure must be the processor time of an operation. The ratio of these times is valid even
/// if other programs use the machine.
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

/// The word for a goal's outcome.
pub(super) fn verdict(reached: bool) -> &'static str {
    if reached { "reached" } else { "missed" }
}
