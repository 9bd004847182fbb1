//! The files of the repository, read once.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::lexer::{self, Masked};
use crate::syntax::{self, Outline};

/// A Rust file, lexed.
#[derive(Debug)]
pub(crate) struct RustFile {
    /// The path from the repository's root, with slashes.
    pub(crate) path: String,
    pub(crate) text: String,
    pub(crate) masked: Masked,
    pub(crate) outline: Outline,
    /// Whether it is compiled only for tests, fuzzing, benchmarks or examples.
    pub(crate) test: bool,
}

/// A file of another kind.
#[derive(Debug)]
pub(crate) struct TextFile {
    pub(crate) path: String,
    pub(crate) text: String,
}

/// The input of the checks.
#[derive(Default, Debug)]
pub(crate) struct Repo {
    pub(crate) rust: Vec<RustFile>,
    pub(crate) markdown: Vec<TextFile>,
    /// Files whose comments begin with `#`.
    pub(crate) hashed: Vec<TextFile>,
    /// All files and their folders.
    pub(crate) paths: BTreeSet<String>,
    /// The order of each crate's modules (`layers.txt`).
    pub(crate) layers: String,
}

/// The file that states the order of modules.
pub(crate) const LAYERS: &str = "crates/xtask/layers.txt";

/// The workspace's root.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .map(Path::to_path_buf)
        .unwrap_or_default()
}

/// Reads all files that git tracks or would track.
pub(crate) fn read(root: &Path) -> Result<Repo, String> {
    let listed = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .map_err(|error| format!("git ls-files: {error}"))?;
    if !listed.status.success() {
        return Err(format!("git ls-files: {}", String::from_utf8_lossy(&listed.stderr)));
    }
    let mut files = Vec::new();
    let mut paths = BTreeSet::new();
    for path in String::from_utf8_lossy(&listed.stdout).split('\0').filter(|path| !path.is_empty())
    {
        let whole = root.join(path);
        if !whole.is_file() {
            continue;
        }
        paths.insert(path.to_owned());
        if is_read(path) {
            let text = std::fs::read(&whole).map_err(|error| format!("{path}: {error}"))?;
            files.push((path.to_owned(), String::from_utf8_lossy(&text).into_owned()));
        }
    }
    let mut repo = from_files(files);
    repo.add_paths(paths);
    Ok(repo)
}

fn is_read(path: &str) -> bool {
    is_hashed(path) || path.ends_with(".rs") || path.ends_with(".md") || path == LAYERS
}

fn is_hashed(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let script =
        !name.contains('.') && (path.starts_with("scripts/") || path.starts_with("tests/"));
    script || [".toml", ".sh", ".py"].iter().any(|end| name.ends_with(end))
}

/// A repository with these files (path, text).
pub(crate) fn from_files(files: Vec<(String, String)>) -> Repo {
    let mut repo = Repo::default();
    for (path, text) in files {
        repo.add_paths([path.clone()].into());
        if path == LAYERS {
            repo.layers = text;
        } else if path.ends_with(".rs") {
            let masked = lexer::mask(&text);
            let outline = syntax::outline(&lexer::tokens(&masked.code));
            let test = outline.all_test || is_test_path(&path);
            repo.rust.push(RustFile { path, text, masked, outline, test });
        } else if path.ends_with(".md") {
            repo.markdown.push(TextFile { path, text });
        } else if is_hashed(&path) {
            repo.hashed.push(TextFile { path, text });
        }
    }
    mark_test_modules(&mut repo.rust);
    repo
}

impl Repo {
    fn add_paths(&mut self, paths: BTreeSet<String>) {
        for path in paths {
            let mut folder = path.as_str();
            while let Some((parent, _)) = folder.rsplit_once('/') {
                self.paths.insert(parent.to_owned());
                folder = parent;
            }
            self.paths.insert(path);
        }
    }

    /// Whether a file or folder exists.
    pub(crate) fn has(&self, path: &str) -> bool {
        self.paths.contains(path)
    }
}

fn is_test_path(path: &str) -> bool {
    let stem = path.strip_suffix(".rs").unwrap_or(path);
    stem.split('/')
        .any(|part| matches!(part, "tests" | "benches" | "examples") || part.ends_with("_tests"))
}

/// The folder of a file's submodules: its path without `.rs`, and without `/mod`, `/lib` and
/// `/main`.
pub(crate) fn module_folder(path: &str) -> &str {
    let stem = path.strip_suffix(".rs").unwrap_or(path);
    ["/mod", "/lib", "/main"].iter().find_map(|end| stem.strip_suffix(end)).unwrap_or(stem)
}

/// Marks the files of modules under `#[cfg(test)]`, and of their submodules, as test files.
fn mark_test_modules(files: &mut [RustFile]) {
    let mut roots = Vec::new();
    for file in files.iter() {
        for module in file.outline.modules.iter().filter(|module| module.test && !module.inline) {
            let mut path = module_folder(&file.path).to_owned();
            for part in module.scope.iter().chain([&module.name]) {
                path.push('/');
                path.push_str(part);
            }
            roots.push(path);
        }
    }
    for file in files {
        let folder = module_folder(&file.path);
        file.test |= roots.iter().any(|root| {
            folder
                .strip_prefix(root.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        });
    }
}
