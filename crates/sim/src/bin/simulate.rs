//! Runs the deterministic simulation: `make simulate`.

#[cfg(debug_assertions)]
fn main() -> std::process::ExitCode {
    spillway_sim::simulation::runner::main()
}

#[cfg(not(debug_assertions))]
fn main() {
    eprintln!("simulate needs a build with debug assertions: `make simulate` does that");
}
