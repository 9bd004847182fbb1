//! A crate defines each type name once. Types inside functions do not count.

use std::collections::{BTreeMap, BTreeSet};

use crate::baseline::{Finding, Site};
use crate::repo::Repo;

pub(crate) const NAME: &str = "types";
pub(crate) const ADVICE: &str = "name the type after its owner, such as `PickerState`";

pub(crate) fn find(repo: &Repo) -> Vec<Finding> {
    let mut places: BTreeMap<String, Vec<Site>> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for file in repo.rust.iter().filter(|file| !file.test) {
        let Some((name, _)) =
            file.path.strip_prefix("crates/").and_then(|path| path.split_once("/src/"))
        else {
            continue;
        };
        for item in file.outline.types.iter().filter(|item| !item.test) {
            // Definitions of the same type for several targets or features count once.
            if seen.insert((&file.path, &item.scope, &item.name)) {
                let text = format!("{} is defined more than once in {name}", item.name);
                let site = Site { path: file.path.clone(), line: item.line, text };
                places.entry(format!("{name} {}", item.name)).or_default().push(site);
            }
        }
    }
    let several = places.into_iter().filter(|(_, sites)| sites.len() > 1);
    let finding = |(key, sites): (String, Vec<Site>)| {
        let amount = sites.len();
        Finding { check: NAME, key, amount, sites }
    };
    several.map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::found;

    #[test]
    fn a_name_in_two_modules_of_a_crate_is_found() {
        let files = [
            ("crates/c/src/a.rs", "struct State; fn f() { struct Local; }"),
            ("crates/c/src/b.rs", "enum State {} fn f() { struct Local; } trait Own {}"),
            ("crates/d/src/a.rs", "struct State; #[cfg(unix)] struct T; #[cfg(windows)] struct T;"),
            ("crates/d/src/tests.rs", "struct State;"),
        ];
        assert_eq!(found(find, &files), ["c State 2"]);
    }
}
