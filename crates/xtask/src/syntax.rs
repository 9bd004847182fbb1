//! An outline of a Rust file: functions, types, modules and paths, and whether each is for tests
//! only.
//!
//! The outline is built from tokens with a stack of open brackets. Macros are not expanded.

use crate::lexer::Token;

/// A function with a body.
#[derive(Clone, Debug)]
pub(crate) struct Function {
    /// The name with the owning type: `Type::name`.
    pub(crate) name: String,
    pub(crate) line: usize,
    /// Lines between its braces.
    pub(crate) body_lines: usize,
    pub(crate) test: bool,
}

/// A struct, enum, union, trait or type alias at the level of a module.
#[derive(Clone, Debug)]
pub(crate) struct TypeItem {
    pub(crate) name: String,
    pub(crate) line: usize,
    /// The enclosing inline modules.
    pub(crate) scope: Vec<String>,
    pub(crate) test: bool,
}

/// `mod name;` or `mod name { … }`.
#[derive(Clone, Debug)]
pub(crate) struct ModuleItem {
    pub(crate) name: String,
    pub(crate) scope: Vec<String>,
    pub(crate) inline: bool,
    pub(crate) test: bool,
}

/// A path in an expression or type, or a leaf of a `use`.
#[derive(Clone, Debug)]
pub(crate) struct PathUse {
    pub(crate) segments: Vec<String>,
    /// The name that a `use` binds.
    pub(crate) binds: Option<String>,
    pub(crate) public: bool,
    pub(crate) line: usize,
    pub(crate) scope: Vec<String>,
    pub(crate) test: bool,
}

/// The outline of a file.
#[derive(Clone, Default, Debug)]
pub(crate) struct Outline {
    pub(crate) functions: Vec<Function>,
    pub(crate) types: Vec<TypeItem>,
    pub(crate) modules: Vec<ModuleItem>,
    pub(crate) paths: Vec<PathUse>,
    /// First and last line of each item that is for tests only.
    pub(crate) test_lines: Vec<(usize, usize)>,
    /// Whether the file has `#![cfg(test)]`.
    pub(crate) all_test: bool,
}

#[derive(Clone, Debug)]
enum Scope {
    Module(String),
    Function { name: String, line: usize },
    Owner(String),
    Other,
}

struct Walker<'a> {
    tokens: &'a [Token<'a>],
    at: usize,
    /// The open brackets of all kinds, with the line of each.
    open: Vec<(Scope, usize)>,
    /// The owner of the next brace at this depth.
    pending: Option<(Scope, usize)>,
    /// The end of the current item, if it is for tests only.
    test_until: usize,
    outline: Outline,
}

/// The outline of a file.
pub(crate) fn outline(tokens: &[Token<'_>]) -> Outline {
    let mut walker = Walker {
        tokens,
        at: 0,
        open: Vec::new(),
        pending: None,
        test_until: 0,
        outline: Outline::default(),
    };
    while walker.at < tokens.len() {
        walker.step();
    }
    walker.outline
}

fn is_identifier(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
}

impl<'a> Walker<'a> {
    fn text(&self, at: usize) -> &'a str {
        self.tokens.get(at).map_or("", |token| token.text)
    }

    fn line(&self) -> usize {
        self.tokens[self.at].line
    }

    fn test(&self) -> bool {
        self.outline.all_test || self.at < self.test_until
    }

    fn scope(&self) -> Vec<String> {
        let name = |(scope, _): &(Scope, usize)| match scope {
            Scope::Module(name) => Some(name.clone()),
            _ => None,
        };
        self.open.iter().filter_map(name).collect()
    }

    /// Whether all open brackets are those of modules.
    fn in_module(&self) -> bool {
        self.open.iter().all(|(scope, _)| matches!(scope, Scope::Module(_)))
    }

    /// Whether an item may begin here. Within a signature, it may not.
    fn item_may_begin(&self) -> bool {
        self.pending.is_none()
    }

    fn step(&mut self) {
        let text = self.text(self.at);
        let next = self.text(self.at + 1);
        match text {
            "#" if next == "[" || (next == "!" && self.text(self.at + 2) == "[") => {
                self.attribute();
                return;
            }
            "(" | "[" => self.open.push((Scope::Other, self.line())),
            "{" => self.open_brace(),
            ")" | "]" | "}" => self.close(),
            ";" if self.pending.as_ref().is_some_and(|(_, depth)| *depth == self.open.len()) => {
                self.pending = None;
            }
            "mod" if is_identifier(next) && self.item_may_begin() => self.module(next),
            "fn" if is_identifier(next) => {
                let scope = Scope::Function { name: self.qualified(next), line: self.line() };
                self.pending = Some((scope, self.open.len()));
            }
            "impl" if self.item_may_begin() => {
                self.pending = Some((Scope::Owner(self.implemented()), self.open.len()));
            }
            "struct" | "enum" | "trait" | "type" | "union" if is_identifier(next) => {
                self.type_item(text, next);
            }
            "use" if is_identifier(next) && self.item_may_begin() => {
                self.use_item();
                return;
            }
            _ if is_identifier(text) && next == "::" => {
                self.path();
                return;
            }
            _ => {}
        }
        self.at += 1;
    }

    fn open_brace(&mut self) {
        let line = self.line();
        let depth = self.open.len();
        let scope = match self.pending.take() {
            Some((scope, at)) if at == depth => scope,
            other => {
                self.pending = other;
                Scope::Other
            }
        };
        self.open.push((scope, line));
    }

    fn close(&mut self) {
        if let Some((Scope::Function { name, line }, opened)) = self.open.pop() {
            let body_lines = (self.line() - opened).saturating_sub(1);
            let test = self.test();
            self.outline.functions.push(Function { name, line, body_lines, test });
        }
        if self.pending.as_ref().is_some_and(|(_, depth)| *depth > self.open.len()) {
            self.pending = None;
        }
    }

    fn module(&mut self, name: &str) {
        let inline = self.text(self.at + 2) == "{";
        let (scope, test) = (self.scope(), self.test());
        self.outline.modules.push(ModuleItem { name: name.to_owned(), scope, inline, test });
        if inline {
            self.pending = Some((Scope::Module(name.to_owned()), self.open.len()));
        }
    }

    fn qualified(&self, name: &str) -> String {
        let owner = self.open.iter().rev().find_map(|(scope, _)| match scope {
            Scope::Owner(owner) => Some(owner.as_str()),
            _ => None,
        });
        owner.map_or(name.to_owned(), |owner| format!("{owner}::{name}"))
    }

    fn type_item(&mut self, keyword: &str, name: &str) {
        if keyword == "union" && !matches!(self.text(self.at + 2), "{" | "<") {
            return;
        }
        if keyword == "trait" && self.item_may_begin() {
            self.pending = Some((Scope::Owner(name.to_owned()), self.open.len()));
        }
        if self.in_module() {
            let (line, scope, test) = (self.line(), self.scope(), self.test());
            self.outline.types.push(TypeItem { name: name.to_owned(), line, scope, test });
        }
    }

    /// The type whose `impl` begins here.
    fn implemented(&self) -> String {
        let mut name = String::new();
        let mut angles = 0i32;
        for at in self.at + 1..self.tokens.len() {
            let text = self.text(at);
            match text {
                "{" | ";" | "where" if angles <= 0 => break,
                "<" => angles += 1,
                ">" => angles -= 1,
                "for" if angles <= 0 && self.text(at + 1) != "<" => name.clear(),
                "dyn" | "mut" | "const" | "unsafe" => {}
                _ if angles <= 0 && is_identifier(text) && self.text(at - 1) != "'" => {
                    text.clone_into(&mut name);
                }
                _ => {}
            }
        }
        name
    }

    /// The index of the bracket that closes the one at `at`.
    fn matching(&self, at: usize) -> usize {
        let mut depth = 0;
        for index in at..self.tokens.len() {
            match self.text(index) {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => {
                    depth -= 1;
                    if depth == 0 {
                        return index;
                    }
                }
                _ => {}
            }
        }
        self.tokens.len()
    }

    fn attribute(&mut self) {
        let inner = self.text(self.at + 1) == "!";
        let bracket = self.at + if inner { 2 } else { 1 };
        let end = self.matching(bracket);
        let words: Vec<_> = (bracket + 1..end).map(|at| self.text(at)).collect();
        if means_test(&words) {
            if inner && self.open.is_empty() {
                self.outline.all_test = true;
            } else if !inner {
                let item_end = self.item_end(end + 1);
                if self.at >= self.test_until {
                    let last =
                        self.tokens.get(item_end.saturating_sub(1)).map_or(0, |last| last.line);
                    self.outline.test_lines.push((self.line(), last));
                }
                self.test_until = self.test_until.max(item_end);
            }
        }
        self.at = end + 1;
    }

    /// One past the last token of the item, field or statement at `at`.
    fn item_end(&self, mut at: usize) -> usize {
        while self.text(at) == "#" && self.text(at + 1) == "[" {
            at = self.matching(at + 1) + 1;
        }
        let mut keyword = at;
        while matches!(self.text(keyword), "pub" | "(" | "unsafe" | "async" | "extern" | "\"") {
            keyword = if self.text(keyword) == "(" { self.matching(keyword) } else { keyword } + 1;
        }
        let is_const_item = self.text(keyword) == "const" && self.text(keyword + 1) != "fn";
        let to_semicolon =
            is_const_item || matches!(self.text(keyword), "use" | "static" | "let" | "type");
        let item = matches!(
            self.text(keyword),
            "fn" | "const" | "impl" | "struct" | "enum" | "trait" | "mod" | "macro_rules" | "union"
        );
        while at < self.tokens.len() {
            match self.text(at) {
                ";" => return at + 1,
                "," if !item && !to_semicolon => return at + 1,
                "}" | ")" | "]" => return at,
                "{" if !to_semicolon => return self.matching(at) + 1,
                "{" | "(" | "[" => at = self.matching(at),
                _ => {}
            }
            at += 1;
        }
        at
    }

    fn is_public(&self) -> bool {
        let Some(before) = self.at.checked_sub(1) else { return false };
        match self.text(before) {
            "pub" => true,
            ")" => (before.saturating_sub(6)..before).any(|at| {
                self.text(at) == "pub"
                    && self.text(at + 1) == "("
                    && self.matching(at + 1) == before
            }),
            _ => false,
        }
    }

    fn use_item(&mut self) {
        let public = self.is_public();
        let (scope, test) = (self.scope(), self.test());
        self.at += 1;
        let mut leaves = Vec::new();
        self.use_tree(&mut Vec::new(), &mut leaves);
        for (segments, binds, line) in leaves {
            let scope = scope.clone();
            self.outline.paths.push(PathUse { segments, binds, public, line, scope, test });
        }
    }

    /// Takes one tree of a `use`, up to the following `,`, `}` or `;`.
    fn use_tree(
        &mut self,
        prefix: &mut Vec<String>,
        leaves: &mut Vec<(Vec<String>, Option<String>, usize)>,
    ) {
        let kept = prefix.len();
        let mut binds = None;
        let mut group = false;
        while self.at < self.tokens.len() {
            let text = self.text(self.at);
            match text {
                ";" | "," | "}" => break,
                "{" => {
                    group = true;
                    while self.at < self.tokens.len() && self.text(self.at) != "}" {
                        self.at += 1;
                        self.use_tree(prefix, leaves);
                    }
                }
                "as" => {
                    binds = Some(self.text(self.at + 1).to_owned());
                    self.at += 1;
                }
                "::" => {}
                _ => prefix.push(text.to_owned()),
            }
            self.at += 1;
        }
        if !group && prefix.len() > kept {
            let mut segments = prefix.clone();
            if segments.len() > 1 && segments.last().is_some_and(|last| last == "self") {
                segments.pop();
            }
            let line = self.tokens.get(self.at).map_or(0, |token| token.line);
            let binds = binds.or_else(|| segments.last().cloned());
            leaves.push((segments, binds, line));
        }
        prefix.truncate(kept);
    }

    fn path(&mut self) {
        let first = self.at;
        let line = self.line();
        let mut segments = vec![self.text(first).to_owned()];
        self.at += 1;
        while self.text(self.at) == "::" && is_identifier(self.text(self.at + 1)) {
            segments.push(self.text(self.at + 1).to_owned());
            self.at += 2;
        }
        let continued = first > 0 && self.text(first - 1) == "::";
        let visibility = first > 1 && self.text(first - 1) == "in" && self.text(first - 2) == "(";
        if segments.len() > 1 && !continued && !visibility {
            let (scope, test) = (self.scope(), first < self.test_until || self.outline.all_test);
            let path = PathUse { segments, binds: None, public: false, line, scope, test };
            self.outline.paths.push(path);
        }
    }
}

/// Whether an attribute with these words limits its item to tests or fuzzing.
fn means_test(words: &[&str]) -> bool {
    if words == ["test"] {
        return true;
    }
    words.first() == Some(&"cfg")
        && words.iter().enumerate().any(|(at, word)| {
            matches!(*word, "test" | "fuzzing")
                && !(at >= 2 && words[at - 2] == "not" && words[at - 1] == "(")
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lexer;

    fn outline_of(source: &str) -> Outline {
        outline(&lexer::tokens(&lexer::mask(source).code))
    }

    #[test]
    fn functions_know_their_owner_and_lines() {
        let seen = outline_of(
            "impl<T: Fn(u8) -> [u8; 3]> fmt::Display for Owner<T> {\n fn f(a: [u8; 2]) -> impl Copy {\n 1\n }\n}\n\
             fn g() { let h = || { 1 }; }\n#[cfg(test)]\nmod tests {\n fn t() {\n }\n}\n",
        );
        let names: Vec<_> =
            seen.functions.iter().map(|f| (f.name.as_str(), f.body_lines, f.test)).collect();
        assert_eq!(names, [("Owner::f", 1, false), ("g", 0, false), ("t", 0, true)]);
        assert_eq!(seen.test_lines, [(7, 11)]);
    }

    #[test]
    fn types_of_functions_and_impls_are_left_out() {
        let seen = outline_of(
            "struct A; mod m { pub(crate) enum B { X } } fn f() { struct C; }\n\
             impl T for A { type D = u8; } #[cfg(test)] use x::{y, z}; trait E { type F; }",
        );
        let names: Vec<_> = seen.types.iter().map(|item| item.name.as_str()).collect();
        assert_eq!(names, ["A", "B", "E"]);
        assert!(seen.types.iter().all(|item| !item.test));
    }

    #[test]
    fn use_trees_become_paths() {
        let seen =
            outline_of("pub(crate) use crate::{a::{self, B as C}, d}; fn f() { super::e::g(); }");
        let paths: Vec<_> = seen
            .paths
            .iter()
            .map(|path| (path.segments.join("::"), path.binds.clone(), path.public))
            .collect();
        assert_eq!(
            paths,
            [
                ("crate::a".to_owned(), Some("a".to_owned()), true),
                ("crate::a::B".to_owned(), Some("C".to_owned()), true),
                ("crate::d".to_owned(), Some("d".to_owned()), true),
                ("super::e::g".to_owned(), None, false),
            ]
        );
    }
}
