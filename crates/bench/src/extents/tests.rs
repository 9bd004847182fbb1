use clap::Parser;

use super::movers::{EXTENT_BYTES, ExtentTask, Movers, Way};
use super::*;

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    extents: ExtentsArgs,
}

#[test]
fn all_ways_take_turns_at_all_tasks() {
    let dir = tempfile::tempdir().unwrap();
    let args = "test --extents 3 --rounds 2 --depths 1,3 --passes 1 --dir";
    let args = args.split(' ').chain([dir.path().to_str().unwrap()]);
    let report = Command::parse_from(args).extents.compare().unwrap();
    let ways = Way::all(&[1, 3]);
    assert_eq!(report.rows().len(), 2 * 3 * ways.len());
    let subjects = report.rows().iter().map(|row| row.subject.as_str());
    let first: Vec<_> = subjects.take(ways.len()).collect();
    assert_eq!(first, ways.iter().map(|way| way.name()).collect::<Vec<_>>());
    assert!(report.rows().iter().all(|row| row.figures.iter().all(|figure| *figure > 0.0)));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn every_way_does_what_it_is_asked() {
    let dir = tempfile::tempdir().unwrap();
    let movers = Movers::new(dir.path(), 5, 1, 7).unwrap();
    let content = |name| std::fs::read(dir.path().join(name)).unwrap();
    let source = content("source");
    assert_eq!(source.len(), 5 * EXTENT_BYTES);
    for way in Way::all(&[1, 2, 8]) {
        movers.run(ExtentTask::Write, way).unwrap();
        assert_eq!(content("target"), vec![1; 5 * EXTENT_BYTES], "{}", way.name());
        movers.run(ExtentTask::Read, way).unwrap();
        movers.run(ExtentTask::Copy, way).unwrap();
        assert!(content("target") == source, "{}", way.name());
    }
}
