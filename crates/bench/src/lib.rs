//! Workloads and measurements.
