//! The tests of the workspace, as `cargo test` runs them, but several test programs at a time.
//!
//! `cargo test` runs one test program after the other. Many test programs wait for clocks and
//! disks, or end with one long test. Meanwhile they leave cores idle.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

/// A program that `cargo test` would run.
#[derive(Debug, PartialEq, Eq)]
struct TestProgram {
    /// The package's folder and the target's name.
    name: String,
    path: PathBuf,
    /// The package's folder, in which the program runs.
    folder: PathBuf,
}

/// Builds all test programs, runs as many at a time as there are cores, and then runs the tests of
/// documentation. Prints a line for each program that passes, and all output of one that fails.
///
/// # Errors
/// The names of the programs that failed, or why they could not be built.
pub(crate) fn run(root: &Path) -> Result<String, String> {
    let programs = built(root)?;
    let failed = run_all(&programs);
    if !failed.is_empty() {
        return Err(format!("failed: {}", failed.join(", ")));
    }
    let status = cargo(root).args(["test", "--workspace", "--doc", "--quiet"]).status();
    match status.map_err(|error| format!("cargo test: {error}"))?.success() {
        true => {
            Ok(format!("{} test programs and the documentation's tests pass\n", programs.len()))
        }
        false => Err("tests of the documentation failed".to_owned()),
    }
}

fn cargo(root: &Path) -> Command {
    let mut command = Command::new(env!("CARGO"));
    command.current_dir(root);
    command
}

/// Builds the test programs, and not the examples, which clippy checks.
fn built(root: &Path) -> Result<Vec<TestProgram>, String> {
    let output = cargo(root)
        .args(["test", "--workspace", "--tests", "--no-run", "--quiet"])
        .arg("--message-format=json-render-diagnostics")
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cargo test: {error}"))?;
    if !output.status.success() {
        return Err("the tests could not be built".to_owned());
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    let programs: Vec<TestProgram> = messages.lines().filter_map(program).collect();
    if programs.is_empty() {
        return Err("cargo named no test program".to_owned());
    }
    Ok(programs)
}

/// The test program of a message of cargo, if it is about one.
fn program(message: &str) -> Option<TestProgram> {
    let message: Value = serde_json::from_str(message).ok()?;
    if !message["profile"]["test"].as_bool()? {
        return None;
    }
    let path = PathBuf::from(message["executable"].as_str()?);
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?.to_path_buf();
    let package = folder.file_name()?.to_string_lossy().into_owned();
    let name = format!("{package}/{}", message["target"]["name"].as_str()?);
    Some(TestProgram { name, path, folder })
}

/// Runs the programs, each with twice as many threads as there are cores unless
/// `RUST_TEST_THREADS` says otherwise. Returns the names of those that failed.
#[allow(clippy::disallowed_methods)] // This program is never simulated.
fn run_all(programs: &[TestProgram]) -> Vec<String> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = std::env::var("RUST_TEST_THREADS").unwrap_or_else(|_| (2 * cores).to_string());
    let next = AtomicUsize::new(0);
    let failed = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                while let Some(program) = programs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let began = Instant::now();
                    let output = Command::new(&program.path)
                        .current_dir(&program.folder)
                        .env("CARGO_MANIFEST_DIR", &program.folder)
                        .env("RUST_TEST_THREADS", &threads)
                        .stdin(Stdio::null())
                        .output();
                    let mut failed = failed.lock().unwrap_or_else(|error| error.into_inner());
                    let (passed, text) = report(program, output, began.elapsed());
                    print!("{text}");
                    if !passed {
                        failed.push(program.name.clone());
                    }
                }
            });
        }
    });
    failed.into_inner().unwrap_or_else(|error| error.into_inner())
}

/// Whether a program passed, and what is printed about it.
fn report(
    program: &TestProgram,
    output: std::io::Result<Output>,
    took: Duration,
) -> (bool, String) {
    let name = &program.name;
    let output = match output {
        Ok(output) => output,
        Err(error) => return (false, format!("{name}: {}: {error}\n", program.path.display())),
    };
    let stdout = String::from_utf8_lossy(&output.stdout);
    if output.status.success() {
        let result = stdout.lines().rfind(|line| line.starts_with("test result: "));
        let tests = result.and_then(|line| line.split_once(". ")?.1.split(';').next());
        let tests = tests.unwrap_or("passed");
        return (true, format!("{name:<28} {tests:<12} {:6.1} s\n", took.as_secs_f64()));
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    (false, format!("{stdout}{stderr}{name}: {}\n", output.status))
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    use super::*;

    fn message(test: bool, executable: &str) -> String {
        format!(
            r#"{{"reason":"compiler-artifact","manifest_path":"/w/crates/sql/Cargo.toml",
            "target":{{"name":"plans"}},"profile":{{"test":{test}}},"executable":{executable}}}"#
        )
    }

    #[test]
    fn programs_are_those_that_have_tests() {
        let found = program(&message(true, r#""/w/target/plans-1""#)).unwrap();
        assert_eq!(found.name, "sql/plans");
        assert_eq!(found.path, Path::new("/w/target/plans-1"));
        assert_eq!(found.folder, Path::new("/w/crates/sql"));
        assert_eq!(program(&message(false, r#""/w/target/spillway""#)), None);
        assert_eq!(program(&message(true, "null")), None);
        assert_eq!(program(r#"{"reason":"build-finished","success":true}"#), None);
        assert_eq!(program("no JSON"), None);
    }

    #[test]
    fn a_failed_program_is_named_with_its_output() {
        let it = program(&message(true, r#""/w/target/plans-1""#)).unwrap();
        let done = |status, stdout: &str| {
            let (stdout, stderr) = (stdout.into(), b"killed\n".to_vec());
            let output = Output { status: ExitStatus::from_raw(status), stdout, stderr };
            report(&it, Ok(output), Duration::from_secs(2))
        };
        let passed = done(0, "\ntest result: ok. 7 passed; 0 failed; finished in 1.9s\n\n");
        assert_eq!(passed, (true, format!("{:<28} {:<12}    2.0 s\n", "sql/plans", "7 passed")));
        let (passed, text) = done(9, "running 7 tests\n");
        assert!(!passed && text.starts_with("running 7 tests\nkilled\nsql/plans: "), "{text}");
        let missing = std::io::Error::from(std::io::ErrorKind::NotFound);
        let (passed, text) = report(&it, Err(missing), Duration::ZERO);
        assert!(!passed && text.contains("/w/target/plans-1"), "{text}");
    }

    #[test]
    fn programs_that_fail_fail_the_run() {
        let of = |path: &str| TestProgram {
            name: path.to_owned(),
            path: PathBuf::from(path),
            folder: std::env::temp_dir(),
        };
        assert_eq!(run_all(&[of("/bin/true"), of("/bin/false"), of("/bin/true")]), ["/bin/false"]);
    }
}
