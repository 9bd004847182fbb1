//! The main pages of the repository stay short.

use crate::baseline::{Finding, Site};
use crate::repo::{Repo, TextFile};

pub(crate) const NAME: &str = "pages";
pub(crate) const ADVICE: &str = "shorten the page, or move details to docs/";

/// Measures the size of a page.
type Measure = fn(&TextFile) -> usize;

fn lines(page: &TextFile) -> usize {
    page.text.lines().count()
}

/// The number of rows of the page's table, without the header.
fn terms(page: &TextFile) -> usize {
    page.text.lines().filter(|line| line.starts_with("| ")).count().saturating_sub(1)
}

const LIMITS: [(&str, Measure, &str, usize); 4] = [
    ("README.md", lines, "lines", 120),
    ("ARCHITECTURE.md", lines, "lines", 250),
    ("GLOSSARY.md", terms, "terms", 60),
    ("CHANGELOG.md", lines, "lines", 100),
];

pub(crate) fn find(repo: &Repo) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, measure, unit, limit) in LIMITS {
        let page = repo.markdown.iter().find(|page| page.path == path);
        let amount = page.map_or(0, measure);
        if amount > limit {
            let text = format!("{amount} {unit}, more than {limit}");
            let sites = vec![Site { path: path.to_owned(), line: 1, text }];
            findings.push(Finding { check: NAME, key: path.to_owned(), amount, sites });
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::found;

    #[test]
    fn long_pages_are_found() {
        let long = "line\n".repeat(121);
        let glossary = format!("| term | meaning |\n|---|---|\n{}", "| a | b |\n".repeat(61));
        let files = [
            ("README.md", long.as_str()),
            ("ARCHITECTURE.md", long.as_str()),
            ("GLOSSARY.md", glossary.as_str()),
            ("CHANGELOG.md", long.as_str()),
        ];
        assert_eq!(found(find, &files), ["README.md 121", "GLOSSARY.md 61", "CHANGELOG.md 121"]);
    }
}
