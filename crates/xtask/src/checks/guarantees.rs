//! A guarantee's label, such as `ENGINE-3`, is defined once, and every citation has a definition.
//!
//! A definition opens an item of a doc comment (`//! - **L1 (order).** …`, `//! T1. *The run.* …`,
//! `//! - I1: …`) or is a decision's title (`# 001. D1: …`). A citation is a label in any comment,
//! or in a page.

use std::collections::{BTreeMap, BTreeSet};

use super::prose::{self, Paragraph};
use crate::baseline::{Finding, Site, count};
use crate::lexer::Marker;
use crate::repo::Repo;

pub(crate) const NAME: &str = "guarantees";
pub(crate) const ADVICE: &str = "give each contract a prefix of its own, and cite what is defined";

/// Words that look like labels but are not.
const OTHER_WORDS: &[&str] = &[
    "AVX-512", "CRC-32", "F32", "F64", "ISO-8601", "L0", "P50", "P95", "P99", "RFC-3339", "SHA-1",
    "SHA-256", "UTF-8",
];

/// The label at the start of a text: capitals, an optional hyphen, and one or two digits.
fn label_at(text: &str) -> Option<&str> {
    let letters =
        text.bytes().take_while(|byte| byte.is_ascii_uppercase() || *byte == b'-').count();
    let digits = text[letters..].bytes().take_while(u8::is_ascii_digit).count();
    let label = &text[..letters + digits];
    let prefix = text[..letters].trim_end_matches('-');
    // Without a hyphen a label has a single letter: `LZ4` and `I256` are words.
    let is_label = (1..=2).contains(&digits)
        && !prefix.is_empty()
        && !prefix.starts_with('-')
        && (letters == 1 || text[..letters].ends_with('-'))
        && !text[letters..].starts_with('0');
    let ends = text[label.len()..]
        .bytes()
        .next()
        .is_none_or(|byte| !byte.is_ascii_alphanumeric() && !matches!(byte, b'_' | b'-'));
    (is_label && ends && !OTHER_WORDS.contains(&label)).then_some(label)
}

/// The label that a line of a doc comment defines.
fn defined(text: &str) -> Option<&str> {
    let text = text.trim_start();
    let item = text.strip_prefix("- ").unwrap_or(text);
    let bold = item.strip_prefix("**");
    let label = label_at(bold.unwrap_or(item))?;
    let rest = &bold.unwrap_or(item)[label.len()..];
    let opens = match (bold, item.len() < text.len()) {
        (Some(_), _) => rest.starts_with(['.', ' ', ':', '*']),
        (None, true) => rest.starts_with(':') || rest.starts_with(". "),
        (None, false) => rest.starts_with(". *"),
    };
    opens.then_some(label)
}

/// The labels in a paragraph, with their offsets. Text in backticks does not count.
fn cited(paragraph: &Paragraph) -> Vec<(usize, &str)> {
    let text = paragraph.text.as_str();
    let mut labels = Vec::new();
    let (mut in_code, mut at) = (false, 0);
    while at < text.len() {
        let byte = text.as_bytes()[at];
        in_code ^= byte == b'`';
        let before = at.checked_sub(1).map_or(b' ', |before| text.as_bytes()[before]);
        let begins = byte.is_ascii_uppercase()
            && !before.is_ascii_alphanumeric()
            && !matches!(before, b'_' | b'-' | b'.' | b'/' | b'+' | b'\'' | b'"');
        let label = if begins && !in_code { label_at(&text[at..]) } else { None };
        if let Some(label) = label {
            labels.push((at, label));
        }
        at += label.map_or(1, str::len);
    }
    labels
}

type Definitions = BTreeMap<String, Vec<Site>>;

fn definitions(repo: &Repo) -> Definitions {
    let mut definitions = Definitions::new();
    let mut define = |label: &str, path: &str, line| {
        let text = format!("{label} is defined more than once");
        let site = Site { path: path.to_owned(), line, text };
        definitions.entry(label.to_owned()).or_default().push(site);
    };
    for file in repo.rust.iter().filter(|file| !file.test) {
        for comment in &file.masked.comments {
            let documents = matches!(comment.marker, Marker::Inner | Marker::Outer);
            if let Some(label) = defined(&comment.text).filter(|_| documents) {
                define(label, &file.path, comment.line);
            }
        }
    }
    for page in &repo.markdown {
        let title = page.text.lines().next().unwrap_or_default();
        let decision = title.strip_prefix("# ").and_then(|title| title.split_once(". "));
        let title = decision.map_or("", |(_, title)| title);
        if let Some(label) = label_at(title).filter(|label| title[label.len()..].starts_with(':')) {
            define(label, &page.path, 1);
        }
    }
    definitions
}

pub(crate) fn find(repo: &Repo) -> Vec<Finding> {
    let definitions = definitions(repo);
    let defined: BTreeSet<&str> = definitions.keys().map(String::as_str).collect();
    let mut findings = BTreeMap::new();
    for (label, sites) in definitions.iter().filter(|(_, sites)| sites.len() > 1) {
        for site in sites {
            count(&mut findings, NAME, label, site.clone());
        }
    }
    let comments = repo.rust.iter().map(|file| (&file.path, prose::of_comments(file)));
    let pages = repo.markdown.iter().map(|file| (&file.path, prose::of_markdown(file)));
    for (path, paragraphs) in comments.chain(pages) {
        for paragraph in &paragraphs {
            for (at, label) in cited(paragraph).into_iter().filter(|(_, it)| !defined.contains(it))
            {
                let text = format!("{label} is cited and defined nowhere");
                let site = Site { path: path.clone(), line: paragraph.line(at), text };
                count(&mut findings, NAME, &format!("{label} undefined in {path}"), site);
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
    fn labels_are_defined_in_three_ways() {
        for text in
            [" - **PLOG-3 (order).** x", " - **PLOG-3.** x", " - PLOG-3: x", " PLOG-3. *x.*"]
        {
            assert_eq!(defined(text), Some("PLOG-3"), "{text}");
        }
        for text in [" PLOG-3: a test", " J1 and J4 hold", " - LZ4: x", " **UTF-8.**", " - D1 is"] {
            assert_eq!(defined(text), None, "{text}");
        }
    }

    #[test]
    fn two_definitions_and_loose_citations_are_found() {
        let one = "//! - **P1 (one).** Text.\n//! - **OWN-1.** It follows P1 and LZ4, `Q1`.\n";
        let files = [
            ("crates/c/src/a.rs", one),
            ("crates/d/src/a.rs", "/// - **P1.** Text.\nfn f() { \"Z9\" } // OWN-1, OWN-2; D7\n"),
            ("docs/decisions/001-a.md", "# 001. D1: title\n\nAs D1, in (DESIGN, D7).\n"),
        ];
        let expected = [
            "D7 undefined in crates/d/src/a.rs 1",
            "D7 undefined in docs/decisions/001-a.md 1",
            "OWN-2 undefined in crates/d/src/a.rs 1",
            "P1 2",
        ];
        assert_eq!(found(find, &files), expected);
    }
}
