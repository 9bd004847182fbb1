//! Tests that variables show the settings with which the database was opened, and that no statement
//! changes these settings.

use crate::common::{code, instance_of, run};
use spillway::{CompactionKind, Compression, Database, Durability, Settings};

#[test]
fn settings_of_a_database_are_variables_that_nobody_sets() {
    let mut settings = Settings::default();
    settings.memory_bytes = 96 << 20;
    settings.cores = 3;
    settings.durability = Durability::Within(std::time::Duration::from_millis(1500));
    settings.log_lanes = Some(2);
    settings.cold_compression = Compression::Lz4;
    settings.space_max = 1.1;
    settings.deletions_min = 300;
    settings.settle_after = std::time::Duration::from_secs(25);
    settings.compaction_order = vec![CompactionKind::SelfMajor];
    settings.background_threads = false;
    settings.log_segment_bytes = 2 << 20;
    let shown = settings.shown();
    let instance = instance_of(Database::open_in_memory(settings).unwrap()).unwrap();
    let mut root = instance.session("root", "localhost", 1);
    for (name, value) in &shown {
        let line = format!("spillway_{name} {value}");
        let found = run(&mut root, &format!("SHOW VARIABLES LIKE 'spillway_{name}'")).unwrap();
        assert_eq!(found, [line]);
        let selected = run(&mut root, &format!("SELECT @@GLOBAL.spillway_{name}")).unwrap();
        let number = match value.as_str() {
            "ON" => "1",
            "OFF" => "0",
            other => other,
        };
        assert_eq!(selected, [number]);
        let set = format!("SET GLOBAL spillway_{name} = 1");
        assert_eq!(code(&mut root, &set), 1238, "{name} is read only");
    }
    let all = run(&mut root, "SHOW VARIABLES LIKE 'spillway\\_%'").unwrap();
    assert_eq!(all.len(), shown.len(), "none without a value of its own: {all:?}");
    let of = |name: &str| shown.iter().find(|(other, _)| *other == name).unwrap().1.as_str();
    let known = [
        ("memory_bytes", "100663296"),
        ("cores", "3"),
        ("durability", "1500ms"),
        ("log_lanes", "2"),
        ("cold_compression", "lz4"),
        ("space_max", "1.1"),
        ("deletions_min", "300"),
        ("settle_after", "25"),
        ("background_threads", "OFF"),
        ("log_dir", ""),
    ];
    known.iter().for_each(|(name, value)| assert_eq!(of(name), *value, "{name}"));
    assert!(of("compaction_order").starts_with("self-major,"), "{}", of("compaction_order"));
}
