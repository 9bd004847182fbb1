use spillway_base::rng::Rng;

use super::command::{data_files, value};

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
