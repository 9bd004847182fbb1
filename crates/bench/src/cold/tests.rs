use spillway_base::rng::Rng;

use super::command::{ReadKind, data_files, statement, value};

#[test]
fn values_are_as_long_as_asked_for_and_can_be_quoted() {
    let mut rng = Rng::new(1);
    let (one, other) = (value(&mut rng, 400), value(&mut rng, 400));
    assert_eq!((one.len(), other.len()), (400, 400));
    assert_ne!(one, other);
    assert!(!one.contains(['\'', '\\']));
}

#[test]
fn data_files_are_found_below_their_folders() {
    let dir = tempfile::tempdir().unwrap();
    let below = dir.path().join("tiered");
    std::fs::create_dir(&below).unwrap();
    for name in ["000001.data", "000002.data", "manifest"] {
        std::fs::write(below.join(name), name).unwrap();
    }
    assert_eq!(data_files(&[dir.path().into()]).unwrap().len(), 2);
    assert!(data_files(&[dir.path().join("elsewhere")]).is_err());
}

#[test]
fn lists_and_ranges_are_of_as_many_rows_as_were_asked_for() {
    let row = statement(ReadKind::Row, 7, 50, 1000);
    assert_eq!(row, "SELECT v FROM bench.cold WHERE id = 7");
    let list = statement(ReadKind::List, 7, 50, 1000);
    let (_, ids) = list.split_once("id IN (7,").unwrap();
    let ids: Vec<u64> =
        ids.trim_end_matches(')').split(',').map(|id| id.parse().unwrap()).collect();
    assert_eq!(ids.len(), 49);
    assert!(ids.iter().all(|id| *id < 1000));
    assert_ne!(list, statement(ReadKind::List, 8, 50, 1000).replace("(8,", "(7,"));
    let range = statement(ReadKind::Range, 7, 50, 1000);
    assert_eq!(range, "SELECT v FROM bench.cold WHERE k BETWEEN 7 AND 56");
}
