//! A cycle of imports contains at most [`FILES_MAX`] files of a crate.

use crate::baseline::{Finding, Site};
use crate::graph;
use crate::repo::Repo;

pub(crate) const NAME: &str = "cycles";
pub(crate) const ADVICE: &str =
    "move what ties the files into a lower one: cargo xtask cycles CRATE prints the imports";

const FILES_MAX: usize = 3;

pub(crate) fn find(repo: &Repo) -> Vec<Finding> {
    let crates = super::crates(repo).into_iter();
    crates.flat_map(|name| large_cycles(repo, &name)).collect()
}

fn large_cycles(repo: &Repo, name: &str) -> Vec<Finding> {
    let cycles = graph::of_crate(repo, name).file_cycles().into_iter();
    let large = cycles.filter(|cycle| cycle.len() > FILES_MAX);
    let finding = |cycle: Vec<String>| {
        let amount = cycle.len();
        let text = format!("imports tie {amount} files into a cycle: {}", cycle.join(" "));
        let path = format!("crates/{name}/src");
        let sites = vec![Site { path, line: 1, text }];
        Finding { check: NAME, key: format!("{name} {}", cycle[0]), amount, sites }
    };
    large.map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::found;

    #[test]
    fn a_cycle_of_four_files_is_found_and_one_of_three_is_not() {
        let files = |names: &[&str]| {
            let next = names.iter().cycle().skip(1);
            let file = |(name, next): (&&str, &&str)| {
                let text = format!("use crate::{next}::of_{next};\npub fn of_{name}() {{}}\n");
                (format!("crates/c/src/{name}.rs"), text)
            };
            let mut files: Vec<_> = names.iter().zip(next).map(file).collect();
            let modules: String = names.iter().map(|name| format!("mod {name};\n")).collect();
            files.push(("crates/c/src/lib.rs".to_owned(), modules));
            files
        };
        let find = |names: &[&str]| {
            let files = files(names);
            let files: Vec<_> = files.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
            found(find, &files)
        };
        assert!(find(&["a", "b", "d"]).is_empty());
        assert_eq!(find(&["a", "b", "d", "e"]).len(), 1);
        assert!(find(&["a", "b", "d", "e"])[0].ends_with(" 4"));
    }
}
