//! The help of the `spillway-bench` command.

use std::process::Command;

#[test]
fn every_benchmark_teaches_by_examples() {
    let help = |args: &[&str]| {
        let output =
            Command::new(env!("CARGO_BIN_EXE_spillway-bench")).args(args).output().unwrap();
        assert!(output.status.success(), "{args:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let all = help(&["--help"]);
    for name in
        ["kv", "commits", "lone", "connections", "wave", "recovery", "metadata", "memory", "tpcc"]
    {
        assert!(all.contains(&format!("\n  {name} ")), "{all}");
        let text = help(&[name, "--help"]);
        let example = format!("  spillway-bench {name} ");
        assert!(text.contains("Examples:") && text.contains(&example), "{name}: {text}");
    }
}
