//! The prose of comments and of Markdown as paragraphs, without code blocks.

use crate::lexer::{CommentLine, Marker};
use crate::repo::{RustFile, TextFile};

/// A paragraph, with the line number of each byte.
#[derive(Default, Debug)]
pub(crate) struct Paragraph {
    pub(crate) text: String,
    /// The offset at which each line begins, and its line number.
    starts: Vec<(usize, usize)>,
}

impl Paragraph {
    /// The line in the file of the byte at `offset`.
    pub(crate) fn line(&self, offset: usize) -> usize {
        self.starts.iter().rev().find(|(start, _)| *start <= offset).map_or(1, |(_, line)| *line)
    }

    fn push(&mut self, line: usize, text: &str) {
        if !self.text.is_empty() {
            self.text.push(' ');
        }
        self.starts.push((self.text.len(), line));
        self.text.push_str(text);
    }
}

/// Joins lines into paragraphs.
#[derive(Default)]
struct Gatherer {
    done: Vec<Paragraph>,
    current: Paragraph,
    fenced: bool,
}

impl Gatherer {
    fn end(&mut self) {
        if !self.current.text.is_empty() {
            self.done.push(std::mem::take(&mut self.current));
        }
    }

    fn line(&mut self, line: usize, text: &str) {
        let text = text.trim();
        if text.starts_with("```") {
            self.fenced = !self.fenced;
            self.end();
            return;
        }
        if self.fenced {
            return;
        }
        let item = ["- ", "* ", "| ", "# "].iter().find_map(|start| text.strip_prefix(start));
        if text.is_empty() || item.is_some() || text.starts_with('#') {
            self.end();
        }
        let text = item.unwrap_or(text);
        if !text.is_empty() {
            self.current.push(line, text);
        }
    }
}

/// The paragraphs of a file's comments.
pub(crate) fn of_comments(file: &RustFile) -> Vec<Paragraph> {
    let mut gatherer = Gatherer::default();
    let mut last: Option<(usize, Marker)> = None;
    for CommentLine { line, marker, text, alone } in &file.masked.comments {
        let follows = *alone && last == Some((line - 1, *marker));
        if !follows {
            gatherer.end();
            gatherer.fenced = false;
        }
        gatherer.line(*line, text);
        last = Some((*line, *marker));
    }
    gatherer.end();
    gatherer.done
}

/// The paragraphs of a page.
pub(crate) fn of_markdown(file: &TextFile) -> Vec<Paragraph> {
    let mut gatherer = Gatherer::default();
    for (index, line) in file.text.lines().enumerate() {
        gatherer.line(index + 1, line);
    }
    gatherer.end();
    gatherer.done
}
