//! Bodies of production functions are at most [`LINES_MAX`] lines long.

use std::collections::BTreeMap;

use crate::baseline::{Finding, Site};
use crate::repo::Repo;

pub(crate) const NAME: &str = "functions";
pub(crate) const ADVICE: &str = "split the function by its steps";

const LINES_MAX: usize = 70;

pub(crate) fn find(repo: &Repo) -> Vec<Finding> {
    let mut findings: BTreeMap<String, Finding> = BTreeMap::new();
    for file in repo.rust.iter().filter(|file| !file.test) {
        let long = |lines: usize| lines > LINES_MAX;
        for function in file.outline.functions.iter().filter(|f| !f.test && long(f.body_lines)) {
            let amount = function.body_lines;
            let text = format!("{} has {amount} lines, more than {LINES_MAX}", function.name);
            let site = Site { path: file.path.clone(), line: function.line, text };
            let key = format!("{} {}", file.path, function.name);
            let finding = findings.entry(key.clone()).or_insert_with(|| Finding {
                check: NAME,
                key,
                amount: 0,
                sites: Vec::new(),
            });
            // Functions of a file with the same name share a key; the longest counts.
            finding.amount = finding.amount.max(amount);
            finding.sites.push(site);
        }
    }
    findings.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::found;

    #[test]
    fn long_bodies_are_found_by_their_owner() {
        let body = "    step();\n".repeat(71);
        let text = format!(
            "impl A {{\nfn long() {{\n{body}}}\nfn short() {{\n}}\n}}\n#[test]\nfn t() {{\n{body}}}\n"
        );
        let files = [("crates/c/src/a.rs", text.as_str())];
        assert_eq!(found(find, &files), ["crates/c/src/a.rs A::long 71"]);
    }
}
