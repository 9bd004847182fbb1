//! The whole stream of a client, from its answer to the greeting on.
#![no_main]

use std::sync::OnceLock;

use spillway::{Database, Settings};
use spillway_server::fuzz::Fed;
use spillway_sql::Instance;

static FED: OnceLock<Fed> = OnceLock::new();

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let fed = FED.get_or_init(|| {
        let database = Database::open_in_memory(Settings::default()).expect("memory opens");
        Fed::new(Instance::open(database).expect("a new catalog opens"))
    });
    fed.serve(bytes);
});
