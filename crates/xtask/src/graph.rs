//! The graph of imports between the files and between the top-level modules of a crate.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write;

use crate::repo::{self, Repo, RustFile};
use crate::syntax::PathUse;

/// An import of an item of another file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Import {
    pub(crate) from_file: String,
    pub(crate) to_file: String,
    /// The top-level modules; empty for the crate's root.
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) line: usize,
    /// The imported item's path from the crate's root, with re-exports resolved.
    pub(crate) item: String,
}

/// The imports of a crate, without its tests.
#[derive(Default, Debug)]
pub(crate) struct CrateGraph {
    /// The folder below `crates/`.
    pub(crate) name: String,
    /// Top-level modules.
    pub(crate) modules: BTreeSet<String>,
    pub(crate) imports: Vec<Import>,
}

type ModulePath = Vec<String>;

/// The names of a crate, to resolve its paths.
#[derive(Default)]
struct Names {
    /// The file of each module, inline ones included.
    files: HashMap<ModulePath, String>,
    /// The target of each name that a `use` binds in a module.
    bound: HashMap<(ModulePath, String), ModulePath>,
}

impl Names {
    /// A path from the crate's root; `None` for a path into another crate.
    fn absolute(&self, module: &[String], segments: &[String]) -> Option<ModulePath> {
        let mut path = module.to_vec();
        let mut rest = segments;
        match segments[0].as_str() {
            "crate" => {
                path.clear();
                rest = &rest[1..];
            }
            "self" => rest = &rest[1..],
            "super" => {
                while rest.first().is_some_and(|segment| segment == "super") {
                    path.pop()?;
                    rest = &rest[1..];
                }
            }
            child => {
                path.push(child.to_owned());
                if !self.files.contains_key(&path) {
                    return None;
                }
                path.pop();
            }
        }
        path.extend_from_slice(rest);
        Some(path)
    }

    /// Resolves re-exports: the module that defines the path's item, and the item's name.
    fn resolve(&self, mut path: ModulePath) -> (ModulePath, String) {
        for _ in 0..16 {
            let mut length = path.len();
            while length > 0 && !self.files.contains_key(&path[..length]) {
                length -= 1;
            }
            let module = path[..length].to_vec();
            let Some(name) = path.get(length).cloned() else { return (module, String::new()) };
            match self.bound.get(&(module.clone(), name.clone())) {
                Some(target) if *target != path[..=length] => {
                    let mut next = target.clone();
                    next.extend_from_slice(&path[length + 1..]);
                    path = next;
                }
                _ => return (module, name),
            }
        }
        (Vec::new(), String::new())
    }
}

/// The module path of a file, from the crate's root.
fn module_path(file: &RustFile, source: &str) -> ModulePath {
    let folder = repo::module_folder(&file.path);
    let inside = folder.strip_prefix(source).unwrap_or("");
    inside.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

fn joined(module: &[String], scope: &[String]) -> ModulePath {
    module.iter().chain(scope).cloned().collect()
}

/// The graph of one crate.
pub(crate) fn of_crate(repo: &Repo, name: &str) -> CrateGraph {
    let source = format!("crates/{name}/src");
    let inside = format!("{source}/");
    let files: Vec<_> = repo
        .rust
        .iter()
        .filter(|file| file.path.starts_with(&inside) && !file.test)
        .map(|file| (module_path(file, &source), file))
        .collect();
    let mut names = Names::default();
    for (module, file) in &files {
        names.files.insert(module.clone(), file.path.clone());
        for item in file.outline.modules.iter().filter(|item| item.inline && !item.test) {
            let mut inline = joined(module, &item.scope);
            inline.push(item.name.clone());
            names.files.insert(inline, file.path.clone());
        }
    }
    for (module, file) in &files {
        for path in file.outline.paths.iter().filter(|path| !path.test) {
            let scope = joined(module, &path.scope);
            let Some(bind) = &path.binds else { continue };
            if let Some(target) = names.absolute(&scope, &path.segments) {
                names.bound.insert((scope, bind.clone()), target);
            }
        }
    }
    let mut graph = CrateGraph { name: name.to_owned(), ..CrateGraph::default() };
    graph.modules = files.iter().filter_map(|(module, _)| module.first().cloned()).collect();
    for (module, file) in &files {
        let production = file.outline.paths.iter().filter(|path| !path.test);
        graph.imports.extend(production.filter_map(|path| import(&names, module, file, path)));
    }
    graph
}

fn import(names: &Names, module: &[String], file: &RustFile, path: &PathUse) -> Option<Import> {
    let scope = joined(module, &path.scope);
    let absolute = names.absolute(&scope, &path.segments)?;
    // A module that re-exports an item of its own submodule does not depend on it.
    if path.public && absolute.starts_with(&scope) {
        return None;
    }
    let (target, item) = names.resolve(absolute);
    let to_file = names.files.get(&target)?.clone();
    if to_file == file.path {
        return None;
    }
    let first = |module: &[String]| module.first().cloned().unwrap_or_default();
    let (from, to) = (first(module), first(&target));
    let mut item_path = target;
    item_path.push(item);
    item_path.retain(|part| !part.is_empty());
    let item = item_path.join("::");
    Some(Import { from_file: file.path.clone(), to_file, from, to, line: path.line, item })
}

impl CrateGraph {
    /// The number of imports from one top-level module to another, without the root, which names
    /// all modules.
    pub(crate) fn module_edges(&self) -> BTreeMap<(String, String), usize> {
        let mut edges = BTreeMap::new();
        for import in &self.imports {
            if import.from != import.to && !import.from.is_empty() && !import.to.is_empty() {
                *edges.entry((import.from.clone(), import.to.clone())).or_insert(0) += 1;
            }
        }
        edges
    }

    /// The files of each cycle of imports, the largest cycle first.
    pub(crate) fn file_cycles(&self) -> Vec<Vec<String>> {
        let edges: BTreeSet<(String, String)> = self
            .imports
            .iter()
            .map(|import| (import.from_file.clone(), import.to_file.clone()))
            .collect();
        let mut cycles = components(&edges);
        for cycle in &mut cycles {
            cycle.sort_unstable();
        }
        cycles.sort_unstable_by(|left, right| right.len().cmp(&left.len()).then(left.cmp(right)));
        cycles
    }

    /// The cycles between files as text: each import within a cycle, and the imported items.
    pub(crate) fn cycles(&self) -> String {
        let source = format!("crates/{}/src/", self.name);
        let short = |file: &str| file.strip_prefix(&source).unwrap_or(file).to_owned();
        let mut text = String::new();
        for cycle in self.file_cycles() {
            let mut items: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
            for import in &self.imports {
                if cycle.contains(&import.from_file) && cycle.contains(&import.to_file) {
                    let edge = (import.from_file.as_str(), import.to_file.as_str());
                    items.entry(edge).or_default().insert(&import.item);
                }
            }
            let _ = writeln!(text, "a cycle of {} files", cycle.len());
            for ((from, to), items) in items {
                let items: Vec<_> = items.into_iter().collect();
                let _ = writeln!(text, "  {} -> {}: {}", short(from), short(to), items.join(", "));
            }
        }
        text
    }

    /// The graph of top-level modules as DOT. Modules of one cycle share a colour.
    pub(crate) fn dot(&self) -> String {
        let edges = self.module_edges();
        let cycles = components(&edges.keys().cloned().collect());
        let mut text = format!("digraph \"{}\" {{\n  node [shape=box];\n", self.name);
        for module in &self.modules {
            let knot = cycles.iter().any(|cycle| cycle.contains(module));
            let style = if knot { " [style=filled, fillcolor=mistyrose]" } else { "" };
            let _ = writeln!(text, "  \"{module}\"{style};");
        }
        for ((from, to), count) in &edges {
            let _ = writeln!(text, "  \"{from}\" -> \"{to}\" [label={count}];");
        }
        text.push_str("}\n");
        text
    }

    /// An order of the modules with few imports against it, as layers, the lowest first. No module
    /// imports another of its layer.
    pub(crate) fn order(&self) -> Vec<Vec<String>> {
        let edges = self.module_edges();
        let mut order: Vec<String> = self.modules.iter().cloned().collect();
        let cost = |order: &[String]| -> usize {
            let rank: HashMap<_, _> =
                order.iter().enumerate().map(|(at, name)| (name, at)).collect();
            let against = |((from, to), _): &(&(String, String), &usize)| rank[from] < rank[to];
            edges.iter().filter(against).map(|(_, count)| 1000 + count).sum()
        };
        let mut best = cost(&order);
        let mut improved = true;
        while improved {
            improved = false;
            for from in 0..order.len() {
                for to in 0..order.len() {
                    let mut other = order.clone();
                    let moved = other.remove(from);
                    other.insert(to, moved);
                    let new = cost(&other);
                    if new < best {
                        (order, best, improved) = (other, new, true);
                    }
                }
            }
        }
        let mut layers: Vec<Vec<String>> = Vec::new();
        for (at, module) in order.iter().enumerate() {
            let below = |name: &String| edges.contains_key(&(module.clone(), name.clone()));
            let used = order[..at].iter().filter(|name| below(name));
            let layer = used
                .filter_map(|name| layers.iter().position(|layer| layer.contains(name)))
                .max()
                .map_or(0, |highest| highest + 1);
            // A lower module that imports this one against the order must be in a lower layer.
            let knotted = order[..at]
                .iter()
                .filter(|name| edges.contains_key(&((*name).clone(), module.clone())))
                .filter_map(|name| layers.iter().position(|layer| layer.contains(name)))
                .max()
                .map_or(0, |highest| highest + 1);
            let layer = layer.max(knotted);
            if layer == layers.len() {
                layers.push(Vec::new());
            }
            layers[layer].push(module.clone());
        }
        for layer in &mut layers {
            layer.sort();
        }
        layers
    }
}

/// The cycles of a graph: its strongly connected components of two nodes and more.
pub(crate) fn components(edges: &BTreeSet<(String, String)>) -> Vec<Vec<String>> {
    let mut next: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut back: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (from, to) in edges {
        next.entry(from).or_default().push(to);
        back.entry(to).or_default().push(from);
    }
    // Kosaraju's algorithm: searches in post-order, then backward searches in the reverse order.
    let mut seen = BTreeSet::new();
    let mut ended = Vec::new();
    for start in next.keys() {
        search(start, &next, &mut seen, &mut ended);
    }
    seen.clear();
    let mut cycles = Vec::new();
    for start in ended.iter().rev() {
        let mut cycle = Vec::new();
        search(start, &back, &mut seen, &mut cycle);
        if cycle.len() > 1 {
            cycles.push(cycle.iter().map(|name| (*name).to_owned()).collect());
        }
    }
    cycles
}

/// Visits the reachable nodes that were not seen, in post-order.
fn search<'a>(
    start: &'a str,
    next: &BTreeMap<&'a str, Vec<&'a str>>,
    seen: &mut BTreeSet<&'a str>,
    ended: &mut Vec<&'a str>,
) {
    let mut stack = vec![(start, 0)];
    if !seen.insert(start) {
        return;
    }
    while let Some((node, child)) = stack.last_mut() {
        let children = next.get(*node).map_or(&[][..], Vec::as_slice);
        if let Some(to) = children.get(*child) {
            *child += 1;
            if seen.insert(to) {
                stack.push((to, 0));
            }
        } else {
            ended.push(*node);
            stack.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(files: &[(&str, &str)]) -> CrateGraph {
        let own =
            |(path, text): &(&str, &str)| (format!("crates/c/src/{path}"), (*text).to_owned());
        of_crate(&repo::from_files(files.iter().map(own).collect()), "c")
    }

    #[test]
    fn re_exports_and_supers_are_followed() {
        let graph = graph(&[
            ("lib.rs", "mod a; mod b; mod c; pub use c::inner::Thing;"),
            ("a.rs", "use crate::Thing; #[cfg(test)] mod tests { use crate::b::X; }"),
            ("b/mod.rs", "mod part; pub use part::P;"),
            ("b/part.rs", "fn f() { super::super::a::g(); } pub struct P;"),
            ("c/mod.rs", "pub mod inner; fn f() { inner::g() }"),
            ("c/inner.rs", "use crate::b::P;"),
        ]);
        let edges: Vec<_> = graph.module_edges().into_keys().collect();
        let pair = |from: &str, to: &str| (from.to_owned(), to.to_owned());
        assert_eq!(edges, [pair("a", "c"), pair("b", "a"), pair("c", "b")]);
        assert_eq!(graph.imports.iter().filter(|import| import.item == "b::part::P").count(), 1);
        let cycle = ["a.rs", "b/part.rs", "c/inner.rs"].map(|file| format!("crates/c/src/{file}"));
        assert_eq!(graph.file_cycles(), [cycle]);
        let lines = [
            "a cycle of 3 files",
            "  a.rs -> c/inner.rs: c::inner::Thing",
            "  b/part.rs -> a.rs: a::g",
            "  c/inner.rs -> b/part.rs: b::part::P",
        ];
        assert_eq!(graph.cycles().lines().collect::<Vec<_>>(), lines);
        assert!(graph.dot().contains("\"a\" -> \"c\" [label=1];"));
    }

    #[test]
    fn an_order_puts_what_is_imported_below() {
        let graph = graph(&[
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "use crate::b::X; use crate::c::Y;"),
            ("b.rs", "use crate::c::Z;"),
            ("c.rs", ""),
        ]);
        assert_eq!(graph.order(), [["c"], ["b"], ["a"]]);
        assert!(graph.file_cycles().is_empty());
    }
}
