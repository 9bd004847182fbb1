//! Elements of a page, written so that nothing in a name or a key becomes markup, and each is closed.

use std::fmt::{Display, Write};

/// What has been written of a page.
#[derive(Default)]
pub(crate) struct Markup(String);

impl Markup {
    /// A page.
    pub(crate) fn page(write: impl FnOnce(&mut Markup)) -> String {
        let mut page = Markup("<!DOCTYPE html>\n".to_owned());
        write(&mut page);
        page.0
    }

    /// An element with something in it.
    pub(crate) fn element(
        &mut self,
        name: &str,
        attributes: &[(&str, &dyn Display)],
        write: impl FnOnce(&mut Markup),
    ) {
        self.begin(name, attributes);
        self.0.push('>');
        write(self);
        self.0.push_str("</");
        self.0.push_str(name);
        self.0.push_str(">\n");
    }

    /// An element with text in it, and nothing else.
    pub(crate) fn line(
        &mut self,
        name: &str,
        attributes: &[(&str, &dyn Display)],
        text: impl Display,
    ) {
        self.element(name, attributes, |markup| markup.text(text));
    }

    /// An element with nothing in it.
    pub(crate) fn empty(&mut self, name: &str, attributes: &[(&str, &dyn Display)]) {
        self.begin(name, attributes);
        self.0.push_str("/>\n");
    }

    /// Text.
    pub(crate) fn text(&mut self, text: impl Display) {
        // Writing to a text does not fail.
        let _ = write!(Escaped(&mut self.0), "{text}");
    }

    /// A style sheet, which is our own.
    pub(crate) fn style(&mut self, sheet: &'static str) {
        self.0.push_str("<style>\n");
        self.0.push_str(sheet);
        self.0.push_str("</style>\n");
    }

    fn begin(&mut self, name: &str, attributes: &[(&str, &dyn Display)]) {
        self.0.push('<');
        self.0.push_str(name);
        for (attribute, value) in attributes {
            let _ = write!(self.0, " {attribute}=\"");
            let _ = write!(Escaped(&mut self.0), "{value}");
            self.0.push('"');
        }
    }
}

/// Writes text so that it means itself, in an element or in an attribute. What XML has no room for is left out.
struct Escaped<'a>(&'a mut String);

impl Write for Escaped<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        for c in text.chars() {
            match c {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\n' | '\t' => self.0.push(c),
                c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => {
                    self.0.push('\u{fffd}')
                }
                c => self.0.push(c),
            }
        }
        Ok(())
    }
}
