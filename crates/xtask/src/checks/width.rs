//! Comments and prose of Markdown are at most [`COLUMNS_MAX`] columns wide.
//!
//! Exceptions are tables, code blocks, links, and words that are too long for a line.

use std::collections::BTreeMap;

use crate::baseline::{Finding, Site, count};
use crate::repo::{Repo, RustFile, TextFile};

pub(crate) const NAME: &str = "width";
pub(crate) const ADVICE: &str = "wrap it";

const COLUMNS_MAX: usize = 100;

/// A word longer than this is a literal or an address, which cannot be wrapped.
const WORD_MAX: usize = 60;

fn is_too_wide(line: &str) -> bool {
    line.len() > COLUMNS_MAX && line.chars().count() > COLUMNS_MAX
}

/// Whether the text cannot be wrapped: tables and long words.
fn is_excepted(text: &str) -> bool {
    text.trim_start().starts_with('|') || text.split_whitespace().any(|word| word.len() > WORD_MAX)
}

fn comment_lines(file: &RustFile, mut report: impl FnMut(usize, &str)) {
    let lines: Vec<&str> = file.text.lines().collect();
    let mut fenced = false;
    let mut last = 0;
    for comment in &file.masked.comments {
        if comment.line != last + 1 {
            fenced = false;
        }
        last = comment.line;
        if comment.text.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        let line = lines.get(comment.line - 1).copied().unwrap_or_default();
        if !fenced && is_too_wide(line) && !is_excepted(&comment.text) {
            report(comment.line, line);
        }
    }
}

fn page_lines(file: &TextFile, mut report: impl FnMut(usize, &str)) {
    let mut fenced = false;
    for (index, line) in file.text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if !fenced && is_too_wide(line) && !is_excepted(line) && !line.contains("](") {
            report(index + 1, line);
        }
    }
}

pub(crate) fn find(repo: &Repo) -> Vec<Finding> {
    let mut findings = BTreeMap::new();
    let mut report = |path: &String, line, text: &str| {
        let text = format!("{} columns, more than {COLUMNS_MAX}", text.chars().count());
        count(&mut findings, NAME, path, Site { path: path.clone(), line, text });
    };
    for file in &repo.rust {
        comment_lines(file, |line, text| report(&file.path, line, text));
    }
    for file in &repo.markdown {
        page_lines(file, |line, text| report(&file.path, line, text));
    }
    for file in &repo.hashed {
        for (index, line) in file.text.lines().enumerate() {
            if line.trim_start().starts_with('#') && is_too_wide(line) && !is_excepted(line) {
                report(&file.path, index + 1, line);
            }
        }
    }
    findings.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::found;

    #[test]
    fn wide_comments_and_prose_are_found() {
        let wide = "words of prose ".repeat(8);
        let table = format!("| {wide}|");
        let code = format!("let text = \"{wide}\";");
        let rust =
            format!("/// {wide}\n/// {table}\n{code}\n// short\n/// ```\n/// {wide}\n/// ```\n");
        let page = format!("{wide}\n\n```\n{wide}\n```\n{table}\n[{wide}](x.md)\n");
        let files = [
            ("crates/c/src/a.rs", rust.as_str()),
            ("docs/a.md", page.as_str()),
            ("scripts/a", &format!("# {wide}\n{wide}\n")),
        ];
        assert_eq!(found(find, &files), ["crates/c/src/a.rs 1", "docs/a.md 1", "scripts/a 1"]);
    }
}
