//! Relative links and anchors of Markdown, and paths in backticks, have existing targets.
//!
//! In pages, `txn/pipeline` means `crates/txn/src/pipeline`, a file or a folder.

use std::collections::{BTreeMap, BTreeSet};

use crate::baseline::{Finding, Site, count};
use crate::repo::{Repo, TextFile};

pub(crate) const NAME: &str = "links";
pub(crate) const ADVICE: &str = "correct the path, or remove it";

/// The numbered lines of a page, without code blocks.
fn prose_lines(page: &TextFile) -> Vec<(usize, &str)> {
    let mut fenced = false;
    let mut lines = Vec::new();
    for (index, line) in page.text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            lines.push((index + 1, line));
        }
    }
    lines
}

/// The anchors of a page, as GitHub derives them from headings.
fn anchors(page: &TextFile) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    let mut times = BTreeMap::new();
    for (_, line) in prose_lines(page).into_iter().filter(|(_, line)| line.starts_with('#')) {
        let heading = line.trim_start_matches('#').trim().to_lowercase();
        let keep = |c: char| match c {
            ' ' => Some('-'),
            '-' | '_' => Some(c),
            _ => c.is_alphanumeric().then_some(c),
        };
        let anchor: String = heading.chars().filter_map(keep).collect();
        let time = times.entry(anchor.clone()).or_insert(0);
        anchors.insert(if *time == 0 { anchor.clone() } else { format!("{anchor}-{time}") });
        *time += 1;
    }
    anchors
}

/// The targets of a line's links: the texts between `](` and `)`.
fn targets(line: &str) -> Vec<&str> {
    let ends = line.split("](").skip(1);
    ends.filter_map(|rest| rest.split_once(')')).map(|(target, _)| target).collect()
}

/// The texts in backticks.
fn code_words(line: &str) -> Vec<&str> {
    line.split('`').skip(1).step_by(2).collect()
}

/// `a/{b,c}` as `a/b` and `a/c`.
fn expanded(path: &str) -> Vec<String> {
    match path.split_once('{').and_then(|(head, rest)| Some((head, rest.split_once('}')?))) {
        Some((head, (middle, tail))) => middle
            .split(',')
            .flat_map(|part| expanded(&format!("{head}{}{tail}", part.trim())))
            .collect(),
        None => vec![path.to_owned()],
    }
}

/// A relative path resolved against a page's folder: `docs` and `../README.md` make `README.md`.
fn joined(folder: &str, path: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "." | "" => {}
            ".." => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

fn broken_link(repo: &Repo, page: &TextFile, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let folder = page.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let path = if path.is_empty() { page.path.clone() } else { joined(folder, path) };
    if !repo.has(&path) {
        return Some(format!("the link leads to {path}, which does not exist"));
    }
    let to = repo.markdown.iter().find(|other| other.path == path);
    let lost = !anchor.is_empty() && to.is_some_and(|page| !anchors(page).contains(anchor));
    lost.then(|| format!("{path} has no heading for #{anchor}"))
}

/// Folders of build output, which pages may name although git does not have them.
const MADE: [&str; 2] = ["target", "fuzz/target"];

/// Whether a word in backticks looks like a path of this repository, by its first part or its
/// ending.
fn is_path(repo: &Repo, word: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_./{},*-".contains(c);
    if word.is_empty() || !word.chars().all(plain) || word.starts_with(['/', '.', '-', '*']) {
        return false;
    }
    if MADE.iter().any(|made| word.starts_with(made)) {
        return false;
    }
    match word.split_once('/') {
        Some((first, _)) => repo.has(first) || repo.has(&format!("crates/{first}")),
        None => [".rs", ".md", ".py"].iter().any(|end| word.len() > 3 && word.ends_with(end)),
    }
}

/// Whether a path names a file or folder of the repository or of a crate. A file name alone may be
/// in any folder.
fn exists(repo: &Repo, path: &str) -> bool {
    // For a pattern, its folder must exist.
    let path = match path.split_once('*') {
        Some((folder, _)) => folder.rsplit_once('/').map_or("", |(folder, _)| folder),
        None => path.trim_end_matches('/'),
    };
    let in_crate = path.split_once('/').is_some_and(|(name, rest)| {
        let source = format!("crates/{name}/src/{rest}");
        repo.has(&source)
            || repo.has(&format!("{source}.rs"))
            || repo.has(&format!("crates/{name}/{rest}"))
    });
    let file_name = || {
        let end = format!("/{path}");
        repo.paths.iter().any(|file| file.ends_with(&end))
    };
    path.is_empty()
        || in_crate
        || repo.has(path)
        || repo.has(&format!("{path}.rs"))
        || (!path.contains('/') && file_name())
}

fn names_paths(page: &TextFile) -> bool {
    page.path == "ARCHITECTURE.md" || page.path.starts_with("docs/")
}

pub(crate) fn find(repo: &Repo) -> Vec<Finding> {
    let mut findings = BTreeMap::new();
    for page in &repo.markdown {
        let mut report = |target: &str, line, text| {
            let site = Site { path: page.path.clone(), line, text };
            count(&mut findings, NAME, &format!("{} {target}", page.path), site);
        };
        for (line, text) in prose_lines(page) {
            for target in targets(text) {
                if let Some(why) = broken_link(repo, page, target) {
                    report(target, line, why);
                }
            }
            if !names_paths(page) {
                continue;
            }
            let words = code_words(text).into_iter().filter(|word| is_path(repo, word));
            for path in words.flat_map(expanded).filter(|path| !exists(repo, path)) {
                report(&path, line, format!("`{path}` does not exist"));
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
    fn lost_links_anchors_and_paths_are_found() {
        let page = "# A page, of `two`\n\n[a](../README.md#start) [b](gone.md) [c](#a-page-of-two)\n\
                    [d](../README.md#end) [e](https://x.org/y) `c/part` `c/{part,lost}.rs` `own.rs`\n\
                    `c/tests/*.txt` `other.rs` `a/b` `crates/c/src`\n```\n[f](none.md) `c/none`\n```\n";
        let files = [
            ("README.md", "# Start\n`c/none`\n"),
            ("docs/a.md", page),
            ("crates/c/src/part.rs", ""),
            ("crates/c/src/deep/own.rs", ""),
        ];
        let expected = [
            "docs/a.md ../README.md#end 1",
            "docs/a.md c/lost.rs 1",
            "docs/a.md c/tests/*.txt 1",
            "docs/a.md gone.md 1",
            "docs/a.md other.rs 1",
        ];
        assert_eq!(found(find, &files), expected);
    }
}
