//! Comments and pages contain no phrase of `phrases.txt`.
//!
//! A line `phrase => advice` forbids the phrase anywhere. A line `^phrase => advice` forbids it
//! only at the beginning of a sentence that is not a question.

use std::collections::BTreeMap;

use super::prose::{self, Paragraph};
use crate::baseline::{Finding, Site, count};
use crate::lexer::is_word;
use crate::repo::Repo;

pub(crate) const NAME: &str = "phrases";
pub(crate) const ADVICE: &str = "write subject, verb, object, with the component as the subject";

/// The list of forbidden phrases.
const PHRASES: &str = include_str!("../../phrases.txt");

struct Phrase {
    text: String,
    advice: String,
    starts_sentence: bool,
}

fn phrases(list: &str) -> Vec<Phrase> {
    let lines = list.lines().filter(|line| !line.starts_with('#'));
    let entries = lines.filter_map(|line| line.split_once("=>"));
    let phrase = |(text, advice): (&str, &str)| {
        let starts_sentence = text.starts_with('^');
        let text = text.trim().trim_start_matches('^');
        let text = if starts_sentence { text.to_owned() } else { text.to_lowercase() };
        Phrase { text, advice: advice.trim().to_owned(), starts_sentence }
    };
    entries.map(phrase).collect()
}

/// Whether a sentence begins at `at` and is not a question.
fn begins_statement(text: &str, at: usize) -> bool {
    let before = text[..at].trim_end_matches(['*', '`', '(', ' ']);
    let begins = before.is_empty() || before.ends_with(['.', '?', '!']);
    let end = text[at..].find(['.', '?', '!']).map_or("", |end| &text[at + end..]);
    begins && !end.starts_with('?')
}

/// The offsets at which a paragraph has a phrase, as whole words.
fn occurrences(paragraph: &Paragraph, lower: &str, phrase: &Phrase) -> Vec<usize> {
    let text = if phrase.starts_sentence { paragraph.text.as_str() } else { lower };
    let bytes = text.as_bytes();
    let whole = |at: &usize| {
        let end = at + phrase.text.len();
        (*at == 0 || !is_word(bytes[at - 1])) && bytes.get(end).is_none_or(|byte| !is_word(*byte))
    };
    text.match_indices(&phrase.text)
        .map(|(at, _)| at)
        .filter(whole)
        .filter(|at| !phrase.starts_sentence || begins_statement(text, *at))
        .collect()
}

fn find_listed(repo: &Repo, list: &str) -> Vec<Finding> {
    let phrases = phrases(list);
    let mut findings = BTreeMap::new();
    let comments = repo.rust.iter().map(|file| (&file.path, prose::of_comments(file)));
    let pages = repo.markdown.iter().map(|file| (&file.path, prose::of_markdown(file)));
    for (path, paragraphs) in comments.chain(pages) {
        for paragraph in &paragraphs {
            let lower = paragraph.text.to_ascii_lowercase();
            for phrase in &phrases {
                for at in occurrences(paragraph, &lower, phrase) {
                    let text = format!("\"{}\": {}", phrase.text, phrase.advice);
                    let site = Site { path: path.clone(), line: paragraph.line(at), text };
                    count(&mut findings, NAME, path, site);
                }
            }
        }
    }
    findings.into_values().collect()
}

pub(crate) fn find(repo: &Repo) -> Vec<Finding> {
    find_listed(repo, PHRASES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::found;

    #[test]
    fn phrases_are_found_across_lines_and_as_whole_words() {
        let text = "/// A client is\n/// told of it. Who asks, waits.\nfn f() {}\n// Whose? Who asks?\n\
                    let text = \"is told of\"; // he is told often\n";
        let list = "# none => none\nis told of => name who tells whom\n^Who => name the subject\n";
        let repo = crate::repo::from_files(vec![("crates/c/src/a.rs".into(), text.into())]);
        let findings = find_listed(&repo, list);
        let lines: Vec<_> = findings[0].sites.iter().map(|site| site.line).collect();
        assert_eq!((findings[0].amount, lines), (2, vec![1, 2]));
    }

    #[test]
    fn the_list_finds_what_it_is_for() {
        let page =
            "Whoever asks stays with it.\n\n```\nWhoever\n```\n\n- What is read is gone on with.\n";
        assert_eq!(found(find, &[("docs/a.md", page)]), ["docs/a.md 4"]);
    }
}
