//! What several targets use.

use spillway::{Database, Settings};

/// A new database for one input. With the default memory and background threads, an input takes
/// about four times the processor time.
pub(crate) fn small_database() -> Database {
    let mut settings = Settings::default();
    settings.memory_bytes = 32 << 20;
    settings.cores = 1;
    settings.recovery_threads = 1;
    settings.log_segment_bytes = 1 << 20;
    settings.background_threads = false;
    Database::open_in_memory(settings).expect("a database in memory opens")
}
