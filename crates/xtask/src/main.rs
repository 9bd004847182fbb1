//! Tasks of the workspace: `cargo xtask tidy` checks the form of the code and the pages, `cargo
//! xtask test` runs the tests.
//!
//! - `tidy` runs the checks and compares the number of violations with `allowed.txt`. With
//!   `--write` it lowers the numbers in `allowed.txt` to those that the checks find; with
//!   `--allow-more` it may also raise them.
//! - `test` builds the workspace's tests and runs several test programs at a time.
//! - `graph CRATE` prints the import graph of a crate's top-level modules as DOT.
//! - `order CRATE` prints the crate's modules in an order for `layers.txt`.
//! - `cycles CRATE` prints the imports that tie files of a crate into cycles.

mod baseline;
mod checks;
mod graph;
mod lexer;
mod repo;
mod syntax;
mod test_programs;

use std::process::ExitCode;

use baseline::{ALLOWED, Baseline, Finding};
use checks::CHECKS;
use repo::Repo;

const USAGE: &str = "\
usage: cargo xtask tidy [--write [--allow-more]]   check how code and pages are written
       cargo xtask test                            the workspace's tests, several programs at a time
       cargo xtask graph CRATE                     the imports between its modules, as DOT
       cargo xtask order CRATE                     an order of its modules, for layers.txt
       cargo xtask cycles CRATE                    the imports that tie its files into cycles";

/// The most sites of a finding that are shown.
const SITES_SHOWN: usize = 8;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["tidy"] => tidy(None),
        ["tidy", "--write"] => tidy(Some(false)),
        ["tidy", "--write", "--allow-more"] => tidy(Some(true)),
        ["test"] => test_programs::run(&repo::root()),
        ["graph", name] => show(name, |graph| graph.dot()),
        ["order", name] => show(name, order),
        ["cycles", name] => show(name, |graph| graph.cycles()),
        _ => Err(USAGE.to_owned()),
    };
    match done {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(text) => {
            eprintln!("{}", text.trim_end());
            ExitCode::FAILURE
        }
    }
}

fn show(name: &str, text: impl Fn(&graph::CrateGraph) -> String) -> Result<String, String> {
    let repo = repo::read(&repo::root())?;
    let graph = graph::of_crate(&repo, name);
    if graph.modules.is_empty() {
        return Err(format!("crates/{name}/src has no modules"));
    }
    Ok(text(&graph))
}

fn order(graph: &graph::CrateGraph) -> String {
    let layers: Vec<String> = graph.order().iter().map(|layer| layer.join(" ")).collect();
    format!("[{}]\n{}\n", graph.name, layers.join("\n"))
}

/// Runs all checks. If `write` is set, writes the baseline; `Some(true)` also allows larger
/// numbers.
fn tidy(write: Option<bool>) -> Result<String, String> {
    let root = repo::root();
    let repo = repo::read(&root)?;
    let path = root.join(ALLOWED);
    let text = match std::fs::read_to_string(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        read => read.map_err(|error| format!("{ALLOWED}: {error}"))?,
    };
    let mut baseline = Baseline::parse(&text)?;
    let findings: Vec<Finding> = CHECKS.iter().flat_map(|check| (check.find)(&repo)).collect();
    if let Some(allow_more) = write {
        baseline = baseline.rewritten(&findings, allow_more);
        std::fs::write(&path, baseline.render()).map_err(|error| format!("{ALLOWED}: {error}"))?;
    }
    let mut complaints = complaints(&baseline, &findings);
    if write == Some(false) && !complaints.is_empty() {
        complaints += "numbers were lowered, and none was raised: put these right, or, if a file was \
            renamed, run `cargo xtask tidy --write --allow-more`\n";
    }
    if complaints.is_empty() { Ok(summary(&repo, &findings)) } else { Err(complaints) }
}

/// Describes findings above the baseline, and entries of the baseline that allow too much.
fn complaints(baseline: &Baseline, findings: &[Finding]) -> String {
    let mut text = String::new();
    for (finding, allowed) in baseline.worse(findings) {
        let advice =
            CHECKS.iter().find(|check| check.name == finding.check).map_or("", |it| it.advice);
        for site in finding.sites.iter().take(SITES_SHOWN) {
            text += &format!("{}:{}: {} [{}]\n", site.path, site.line, site.text, finding.check);
        }
        let more = finding.sites.len().saturating_sub(SITES_SHOWN);
        if more > 0 {
            text += &format!("  and {more} more of {}\n", finding.key);
        }
        if allowed > 0 {
            text +=
                &format!("  {}: {}, where {allowed} are allowed\n", finding.key, finding.amount);
        }
        text += &format!("  to do: {advice}\n");
    }
    let looser = baseline.looser(findings);
    for (check, key, allowed, amount) in looser.iter().take(SITES_SHOWN) {
        let line = baseline.line(check, key);
        text +=
            &format!("{ALLOWED}:{line}: {key} allows {allowed}, there are {amount} [{check}]\n");
    }
    if looser.len() > SITES_SHOWN {
        text += &format!("  and {} more\n", looser.len() - SITES_SHOWN);
    }
    if !looser.is_empty() {
        text += "  to do: lower it: cargo xtask tidy --write\n";
    }
    text
}

/// The number of known violations by check, and the cycles between files.
fn summary(repo: &Repo, findings: &[Finding]) -> String {
    let mut text = String::new();
    for check in &CHECKS {
        let known = findings.iter().filter(|finding| finding.check == check.name);
        text += &format!("tidy: {:<10} {:>5} known\n", check.name, known.count());
    }
    for name in checks::crates(repo) {
        let cycles = graph::of_crate(repo, &name).file_cycles();
        if !cycles.is_empty() {
            let sizes: Vec<String> = cycles.iter().map(|cycle| cycle.len().to_string()).collect();
            text += &format!("tidy: cycles between files of {name}: {}\n", sizes.join(" "));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use baseline::Site;

    #[test]
    fn complaints_say_where_what_and_what_to_do() {
        let site = Site { path: "a.rs".into(), line: 7, text: "too wide".into() };
        let finding = Finding { check: "width", key: "a.rs".into(), amount: 2, sites: vec![site] };
        let baseline = Baseline::parse("[width]\n1 a.rs\n3 b.rs\n").expect("parses");
        let text = complaints(&baseline, &[finding]);
        let lines = [
            "a.rs:7: too wide [width]",
            "  a.rs: 2, where 1 are allowed",
            "  to do: wrap it",
            "crates/xtask/allowed.txt:3: b.rs allows 3, there are 0 [width]",
            "  to do: lower it: cargo xtask tidy --write",
        ];
        assert_eq!(text.lines().collect::<Vec<_>>(), lines);
    }
}
