//! The baseline of known violations. `allowed.txt` has the number of violations that each check
//! allows in each place. `tidy --write` only lowers these numbers, unless `--allow-more` is given.

use std::collections::BTreeMap;
use std::fmt::Write;

/// The place of one violation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Site {
    pub(crate) path: String,
    pub(crate) line: usize,
    pub(crate) text: String,
}

/// A violation of a check: its amount and its places.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Finding {
    pub(crate) check: &'static str,
    /// Its key in the baseline. It has no line numbers, so that other changes of the file keep it.
    pub(crate) key: String,
    pub(crate) amount: usize,
    pub(crate) sites: Vec<Site>,
}

/// Adds one site to the finding with this key.
pub(crate) fn count(
    findings: &mut BTreeMap<String, Finding>,
    check: &'static str,
    key: &str,
    site: Site,
) {
    let new = || Finding { check, key: key.to_owned(), amount: 0, sites: Vec::new() };
    let finding = findings.entry(key.to_owned()).or_insert_with(new);
    finding.amount += 1;
    finding.sites.push(site);
}

/// Allowed amounts by check and key.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct Baseline {
    allowed: BTreeMap<(String, String), usize>,
    /// The line of each entry in the parsed text.
    lines: BTreeMap<(String, String), usize>,
}

/// The path of the baseline from the root.
pub(crate) const ALLOWED: &str = "crates/xtask/allowed.txt";

const HEAD: &str = "\
# What `cargo xtask tidy` allows although it is past a limit. The numbers only fall.
# `cargo xtask tidy --write` lowers them. docs/testing.md says what each section counts.
";

impl Baseline {
    /// Reads `[check]` sections of lines `amount key`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut baseline = Self::default();
        let mut check = String::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
                name.clone_into(&mut check);
                continue;
            }
            let entry = line
                .split_once(' ')
                .and_then(|(amount, key)| Some((amount.parse().ok()?, key.trim().to_owned())));
            let Some((amount, key)) = entry else {
                return Err(format!("{ALLOWED}:{}: write an amount and a key", index + 1));
            };
            baseline.lines.insert((check.clone(), key.clone()), index + 1);
            baseline.allowed.insert((check.clone(), key), amount);
        }
        Ok(baseline)
    }

    /// The text that [`Self::parse`] reads.
    pub(crate) fn render(&self) -> String {
        let mut text = HEAD.to_owned();
        let mut section = "";
        for ((check, key), amount) in &self.allowed {
            if check != section {
                section = check;
                let _ = write!(text, "\n[{check}]\n");
            }
            let _ = writeln!(text, "{amount} {key}");
        }
        text
    }

    fn get(&self, finding: &Finding) -> usize {
        let key = (finding.check.to_owned(), finding.key.clone());
        self.allowed.get(&key).copied().unwrap_or(0)
    }

    /// The line of an entry in the parsed text; 0 if it was not there.
    pub(crate) fn line(&self, check: &str, key: &str) -> usize {
        self.lines.get(&(check.to_owned(), key.to_owned())).copied().unwrap_or(0)
    }

    /// Findings above the allowed amount, with that amount.
    pub(crate) fn worse<'a>(&self, findings: &'a [Finding]) -> Vec<(&'a Finding, usize)> {
        let allowed = |finding: &'a Finding| (finding, self.get(finding));
        findings
            .iter()
            .map(allowed)
            .filter(|(finding, allowed)| finding.amount > *allowed)
            .collect()
    }

    /// Entries that allow more than was found: check, key, allowed amount, found amount.
    pub(crate) fn looser(&self, findings: &[Finding]) -> Vec<(&str, &str, usize, usize)> {
        let there: BTreeMap<_, _> = findings
            .iter()
            .map(|found| ((found.check, found.key.as_str()), found.amount))
            .collect();
        let mut looser = Vec::new();
        for ((check, key), allowed) in &self.allowed {
            let amount = there.get(&(check.as_str(), key.as_str())).copied().unwrap_or(0);
            if amount < *allowed {
                looser.push((check.as_str(), key.as_str(), *allowed, amount));
            }
        }
        looser
    }

    /// A baseline of these findings. It raises no number unless `allow_more` is set.
    pub(crate) fn rewritten(&self, findings: &[Finding], allow_more: bool) -> Self {
        let mut allowed = BTreeMap::new();
        for finding in findings {
            let amount =
                if allow_more { finding.amount } else { finding.amount.min(self.get(finding)) };
            if amount > 0 {
                allowed.insert((finding.check.to_owned(), finding.key.clone()), amount);
            }
        }
        Self { allowed, lines: BTreeMap::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(key: &str, amount: usize) -> Finding {
        Finding { check: "width", key: key.to_owned(), amount, sites: Vec::new() }
    }

    #[test]
    fn numbers_only_fall() {
        let old =
            Baseline::parse("# head\n[width]\n3 a b.rs\n2 c.rs\n1 gone.rs\n").expect("parses");
        let now = [found("a b.rs", 5), found("c.rs", 1), found("new.rs", 1)];
        let worse: Vec<_> = old.worse(&now).iter().map(|(f, _)| f.key.clone()).collect();
        assert_eq!(worse, ["a b.rs", "new.rs"]);
        assert_eq!(old.looser(&now), [("width", "c.rs", 2, 1), ("width", "gone.rs", 1, 0)]);
        let kept = old.rewritten(&now, false);
        assert!(kept.render().ends_with("\n[width]\n3 a b.rs\n1 c.rs\n"), "{}", kept.render());
        assert_eq!(Baseline::parse(&kept.render()).map(|read| read.allowed), Ok(kept.allowed));
        assert!(old.rewritten(&now, true).worse(&now).is_empty());
    }

    #[test]
    fn what_is_no_entry_is_refused() {
        assert_eq!(
            Baseline::parse("[width]\nmany a.rs"),
            Err("crates/xtask/allowed.txt:2: write an amount and a key".to_owned())
        );
    }
}
