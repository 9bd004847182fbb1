//! Top-level modules of a crate follow the order that `layers.txt` states.
//!
//! A module imports only modules of lower layers. An import from the same layer or a higher one can
//! form a cycle, so each such import is a violation. The baseline lists the known violations.

use std::collections::{BTreeMap, BTreeSet};

use crate::baseline::{Finding, Site, count};
use crate::graph;
use crate::repo::{LAYERS, Repo};

pub(crate) const NAME: &str = "layers";
pub(crate) const ADVICE: &str = "move what is imported down to the lowest module that it belongs to, \
    or pass it in; `cargo xtask order CRATE` shows an order that fits today's imports";

/// The names of all crates, from the paths of their files.
pub(crate) fn crates(repo: &Repo) -> BTreeSet<String> {
    let name = |path: &str| Some(path.strip_prefix("crates/")?.split_once("/src/")?.0.to_owned());
    repo.rust.iter().filter_map(|file| name(&file.path)).collect()
}

/// For each crate, the layer of each module and its line in `layers.txt`.
type Stated = BTreeMap<String, BTreeMap<String, (usize, usize)>>;

/// Reads `[crate]` sections. Each line of a section is one layer, the lowest first.
fn stated(text: &str) -> Stated {
    let mut stated = Stated::new();
    let mut current = String::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            name.clone_into(&mut current);
            stated.entry(current.clone()).or_default();
            continue;
        }
        for module in line.split_whitespace() {
            let layers = stated.entry(current.clone()).or_default();
            layers.insert(module.to_owned(), (index, index + 1));
        }
    }
    stated
}

pub(crate) fn find(repo: &Repo) -> Vec<Finding> {
    let stated = stated(&repo.layers);
    let mut findings = BTreeMap::new();
    for name in crates(repo) {
        let graph = graph::of_crate(repo, &name);
        let layers = stated.get(&name).cloned().unwrap_or_default();
        for module in graph.modules.iter().filter(|module| !layers.contains_key(*module)) {
            let text = format!("module {module} of {name} has no layer: add it to this file");
            let site = Site { path: LAYERS.to_owned(), line: 1, text };
            count(&mut findings, NAME, &format!("{name} {module} has no layer"), site);
        }
        for (module, (_, line)) in layers.iter().filter(|(name, _)| !graph.modules.contains(*name))
        {
            let text = format!("{name} has no module {module}: remove it from this file");
            let site = Site { path: LAYERS.to_owned(), line: *line, text };
            count(&mut findings, NAME, &format!("{name} {module} is no module"), site);
        }
        let mut seen = BTreeSet::new();
        for import in &graph.imports {
            let (Some((from, _)), Some((to, _))) =
                (layers.get(&import.from), layers.get(&import.to))
            else {
                continue;
            };
            let key = format!("{} -> {}", import.from_file, import.item);
            if import.from == import.to || to < from || !seen.insert(key.clone()) {
                continue;
            }
            let text = format!(
                "{} may not import `{}`: {} is not in a layer below it",
                import.from, import.item, import.to
            );
            let site = Site { path: import.from_file.clone(), line: import.line, text };
            count(&mut findings, NAME, &key, site);
        }
    }
    findings.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::found;

    const FILES: [(&str, &str); 4] = [
        ("crates/c/src/lib.rs", "mod a; mod b; mod d;"),
        ("crates/c/src/a.rs", "use crate::b::X;"),
        ("crates/c/src/b.rs", "fn f() { crate::a::g(); crate::d::h(); }"),
        ("crates/c/src/d.rs", ""),
    ];

    #[test]
    fn imports_against_the_order_are_found() {
        let mut files = FILES.to_vec();
        files.push((LAYERS, "[c]\na d # lowest\nb\n"));
        assert_eq!(found(find, &files), ["crates/c/src/a.rs -> b::X 1"]);
        files[4].1 = "[c]\nd\na b\n";
        let both = ["crates/c/src/a.rs -> b::X 1", "crates/c/src/b.rs -> a::g 1"];
        assert_eq!(found(find, &files), both);
    }

    #[test]
    fn the_order_names_each_module_and_no_other() {
        let mut files = FILES.to_vec();
        files.push((LAYERS, "[c]\na gone\nb\n"));
        let seen = found(find, &files);
        assert!(seen.contains(&"c d has no layer 1".to_owned()), "{seen:?}");
        assert!(seen.contains(&"c gone is no module 1".to_owned()), "{seen:?}");
    }
}
