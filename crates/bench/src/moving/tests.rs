use clap::Parser;
use spillway_base::rng::Rng;

use super::series::{Series, Window};
use super::work::{MovingPlan, Where};
use super::*;
use crate::store::SpillwayStores;

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    moving: MovingArgs,
}

fn window(set: usize, since_s: f64, missed: f64) -> Window {
    Window { set, since_s, seconds: 0.5, reads: 100.0, missed }
}

#[test]
fn a_jump_is_recovered_from_once_hits_are_as_usual_before_it() {
    let set = |set, missed: [f64; 8]| {
        let windows = missed.into_iter().enumerate();
        windows.map(move |(at, missed)| window(set, (at + 1) as f64 * 0.5, missed))
    };
    let first = set(0, [90.0, 50.0, 9.0, 9.0, 9.0, 9.0, 10.0, 10.0]);
    let second = set(1, [95.0, 60.0, 16.0, 14.0, 10.0, 10.0, 10.0, 12.0]);
    let third = set(2, [95.0, 94.0, 93.0, 92.0, 91.0, 90.0, 89.0, 88.0]);
    let series = Series(first.chain(second).chain(third).collect());
    assert_eq!(series.recovered(5.0), [2.0, f64::INFINITY]);
    // 90, 88 and 11 percent in the last quarters: the upper median of two is the better one.
    assert_eq!(series.usual_hits(), 90.0);
    assert_eq!(series.hits_after_jump(), 5.0);
    assert_eq!(series.reads_per_s(), 200.0);
    assert_eq!(series.lowest_reads_per_s(), 200.0);
    // Two blocks may be read for one read.
    assert_eq!(window(0, 1.0, 150.0).hits(), 0.0);
}

#[test]
fn hot_rows_are_others_after_a_jump_and_lie_where_they_should() {
    let plan = MovingPlan {
        rows: 10_000,
        hot_rows: 100,
        hot_percent: 100,
        every: std::time::Duration::from_secs(1),
        jumps: 3,
        window: std::time::Duration::from_millis(100),
        threads: 1,
        seed: 5,
    };
    let mut rng = Rng::new(1);
    for place in [Where::Together, Where::Scattered] {
        let mut sets = Vec::new();
        for set in 0..4 {
            let rows: std::collections::BTreeSet<u64> =
                (0..3000).map(|_| plan.draw(set, place, &mut rng)).collect();
            assert!(rows.len() > 90 && rows.len() <= 100, "{}", rows.len());
            assert!(rows.iter().all(|row| *row < plan.rows));
            let (first, last) = (rows.first().unwrap(), rows.last().unwrap());
            assert_eq!(last - first < 100, place == Where::Together);
            sets.push(rows);
        }
        assert!(sets[0].intersection(&sets[1]).count() < 10);
    }
    let cold = MovingPlan { hot_percent: 0, ..plan };
    let most = (0..1000).map(|_| cold.draw(0, Where::Together, &mut rng)).max();
    assert!(most.unwrap() > 5000);
}

#[test]
fn a_run_gives_a_row_for_each_store_and_place() {
    let dir = tempfile::tempdir().unwrap();
    let tiny = "test --memory-mib 16 --data-times 2 --every 0.3 --jumps 1 --window-ms 50";
    let mut args = Command::parse_from(tiny.split(' ')).moving;
    args.common.dir = dir.path().to_owned();
    args.windows.svg = Some(dir.path().join("moving.svg"));
    let (report, runs) = args.measure(&[&SpillwayStores::default()]).unwrap();
    assert_eq!((report.rows().len(), runs.len()), (4, 4));
    assert!(runs.iter().all(|(round, _, _, series)| *round == 0 && series.0.len() >= 2));
    let read = |series: &Series| series.0.iter().map(|window| window.reads).sum::<f64>();
    assert!(runs.iter().all(|(.., series)| read(series) > 0.0));
    args.windows.series = Some(dir.path().join("moving.csv"));
    args.write(&runs).unwrap();
    let windows: usize = runs.iter().map(|(.., series)| series.0.len()).sum();
    let text = std::fs::read_to_string(args.windows.series.as_ref().unwrap()).unwrap();
    assert_eq!(text.lines().count(), 1 + windows);
    assert!(std::fs::metadata(args.windows.svg.as_ref().unwrap()).unwrap().len() > 1000);
    args.jumps = 0;
    assert!(args.measure(&[&SpillwayStores::default()]).is_err(), "nothing moves");
    (args.jumps, args.hot_permille) = (1, 600);
    assert!(args.measure(&[&SpillwayStores::default()]).is_err(), "two sets are more than all");
}
