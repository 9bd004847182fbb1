//! Devices, data files and persistent logs, with a fault-injecting twin in memory.
