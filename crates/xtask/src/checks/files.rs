//! Production files are at most [`LINES_MAX`] lines long, without test code.

use crate::baseline::{Finding, Site};
use crate::repo::{Repo, RustFile};

pub(crate) const NAME: &str = "files";
pub(crate) const ADVICE: &str = "split the file by what it owns";

const LINES_MAX: usize = 800;

fn production_lines(file: &RustFile) -> usize {
    let tests: usize = file.outline.test_lines.iter().map(|(first, last)| last + 1 - first).sum();
    file.text.lines().count().saturating_sub(tests)
}

pub(crate) fn find(repo: &Repo) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in repo.rust.iter().filter(|file| !file.test) {
        let amount = production_lines(file);
        if amount > LINES_MAX {
            let text = format!("{amount} lines of production code, more than {LINES_MAX}");
            let sites = vec![Site { path: file.path.clone(), line: 1, text }];
            findings.push(Finding { check: NAME, key: file.path.clone(), amount, sites });
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::found;

    #[test]
    fn long_files_are_found_and_tests_do_not_count() {
        let long = "fn f() {}\n".repeat(801);
        let tested = format!("fn f() {{}}\n#[cfg(test)]\nmod tests {{\n{long}}}\n");
        let files = [
            ("crates/c/src/a.rs", long.as_str()),
            ("crates/c/src/b.rs", tested.as_str()),
            ("crates/c/src/b/tests.rs", long.as_str()),
        ];
        assert_eq!(found(find, &files), ["crates/c/src/a.rs 801"]);
    }
}
