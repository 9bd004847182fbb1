//! Runs a store in a process of its own, so that one store's use of the machine is not counted for
//! the next.

use std::path::Path;
use std::process::Command;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Runs this program again, with its own arguments and `--child WORDS.. FILE`, and returns what the
/// child wrote to the file.
pub(crate) fn run<T: DeserializeOwned>(dir: &Path, words: &[&str]) -> Result<T, String> {
    std::fs::create_dir_all(dir).map_err(|error| error.to_string())?;
    let file = dir.join("child.json");
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut child = Command::new(program);
    child.args(std::env::args_os().skip(1)).arg("--child").args(words).arg(&file);
    let status = child.status().map_err(|error| error.to_string())?;
    if !status.success() {
        return Err(format!("its process ended with {status}"));
    }
    let text = std::fs::read_to_string(&file).map_err(|error| error.to_string())?;
    let _ = std::fs::remove_file(&file);
    serde_json::from_str(&text).map_err(|error| error.to_string())
}

/// Writes the result for the caller of [`run`].
pub(crate) fn give<T: Serialize>(file: &str, outcome: &T) -> Result<(), String> {
    let text = serde_json::to_string(outcome).map_err(|error| error.to_string())?;
    std::fs::write(file, text).map_err(|error| format!("{file}: {error}"))
}
