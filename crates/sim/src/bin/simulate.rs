//! Runs the deterministic simulation: `make simulate`.

#[cfg(spillway_sim)]
fn main() -> std::process::ExitCode {
    spillway_sim::simulation::runner::main()
}

#[cfg(not(spillway_sim))]
fn main() {
    eprintln!("simulate is built with --cfg spillway_sim only: `make simulate` does that");
}
