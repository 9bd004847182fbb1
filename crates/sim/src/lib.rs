//! Simulation: crash sweeps, fault injection and model checks over the whole database.
