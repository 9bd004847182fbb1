//! The checks. Each check finds violations of one rule; the baseline lists the known violations.

mod cycles;
mod files;
mod functions;
mod guarantees;
mod layers;
mod links;
mod pages;
mod phrases;
mod prose;
mod types;
mod width;

use crate::baseline::Finding;
use crate::repo::Repo;

pub(crate) use layers::crates;

/// A check: its name, the advice for its findings, and its function.
pub(crate) struct Check {
    pub(crate) name: &'static str,
    pub(crate) advice: &'static str,
    pub(crate) find: fn(&Repo) -> Vec<Finding>,
}

/// All checks.
pub(crate) const CHECKS: [Check; 10] = [
    Check { name: cycles::NAME, advice: cycles::ADVICE, find: cycles::find },
    Check { name: files::NAME, advice: files::ADVICE, find: files::find },
    Check { name: functions::NAME, advice: functions::ADVICE, find: functions::find },
    Check { name: guarantees::NAME, advice: guarantees::ADVICE, find: guarantees::find },
    Check { name: layers::NAME, advice: layers::ADVICE, find: layers::find },
    Check { name: links::NAME, advice: links::ADVICE, find: links::find },
    Check { name: pages::NAME, advice: pages::ADVICE, find: pages::find },
    Check { name: phrases::NAME, advice: phrases::ADVICE, find: phrases::find },
    Check { name: types::NAME, advice: types::ADVICE, find: types::find },
    Check { name: width::NAME, advice: width::ADVICE, find: width::find },
];

/// The findings of a check in these files, as `key amount`, for the checks' tests.
#[cfg(test)]
fn found(find: fn(&Repo) -> Vec<Finding>, files: &[(&str, &str)]) -> Vec<String> {
    let own = |(path, text): &(&str, &str)| ((*path).to_owned(), (*text).to_owned());
    let repo = crate::repo::from_files(files.iter().map(own).collect());
    find(&repo).iter().map(|finding| format!("{} {}", finding.key, finding.amount)).collect()
}
