//! Writes elements of a page so that no name or key becomes markup, and every element is closed.

use std::fmt::{Display, Write};

/// A page that is being written. If the output fails, the rest of the page is dropped; the owner of
/// the output knows.
pub(crate) struct Markup<'o>(&'o mut dyn Write);

impl Markup<'_> {
    /// Writes a page.
    pub(crate) fn page(out: &mut dyn Write, write: impl FnOnce(&mut Markup<'_>)) {
        let mut page = Markup(out);
        page.put("<!DOCTYPE html>\n");
        write(&mut page);
    }

    fn put(&mut self, text: &str) {
        let _ = self.0.write_str(text);
    }

    /// An element with contents.
    pub(crate) fn element(
        &mut self,
        name: &str,
        attributes: &[(&str, &dyn Display)],
        write: impl FnOnce(&mut Markup<'_>),
    ) {
        self.begin(name, attributes);
        self.put(">");
        write(self);
        self.put("</");
        self.put(name);
        self.put(">\n");
    }

    /// An element that contains only text.
    pub(crate) fn line(
        &mut self,
        name: &str,
        attributes: &[(&str, &dyn Display)],
        text: impl Display,
    ) {
        self.element(name, attributes, |markup| markup.text(text));
    }

    /// An element without contents.
    pub(crate) fn empty(&mut self, name: &str, attributes: &[(&str, &dyn Display)]) {
        self.begin(name, attributes);
        self.put("/>\n");
    }

    /// Text.
    pub(crate) fn text(&mut self, text: impl Display) {
        let _ = write!(Escaped(&mut *self.0), "{text}");
    }

    /// A style sheet of this crate.
    pub(crate) fn style(&mut self, sheet: &'static str) {
        self.put("<style>\n");
        self.put(sheet);
        self.put("</style>\n");
    }

    fn begin(&mut self, name: &str, attributes: &[(&str, &dyn Display)]) {
        self.put("<");
        self.put(name);
        for (attribute, value) in attributes {
            let _ = write!(self.0, " {attribute}=\"");
            let _ = write!(Escaped(&mut *self.0), "{value}");
            self.put("\"");
        }
    }
}

/// Escapes text for an element or an attribute. Characters that XML does not allow are replaced.
struct Escaped<'a>(&'a mut dyn Write);

impl Write for Escaped<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        // Writes runs of ordinary characters at once.
        let mut rest = text;
        while let Some(at) = rest.find(is_special) {
            self.0.write_str(&rest[..at])?;
            let special = rest[at..].chars().next().unwrap_or_default();
            self.0.write_str(match special {
                '&' => "&amp;",
                '<' => "&lt;",
                '>' => "&gt;",
                '"' => "&quot;",
                _ => "\u{fffd}",
            })?;
            rest = &rest[at + special.len_utf8()..];
        }
        self.0.write_str(rest)
    }
}

fn is_special(c: char) -> bool {
    let has_no_place = c.is_control() && !matches!(c, '\n' | '\t');
    has_no_place || matches!(c, '&' | '<' | '>' | '"' | '\u{fffe}' | '\u{ffff}')
}
