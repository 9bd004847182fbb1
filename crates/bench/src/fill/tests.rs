use clap::Parser;

use super::command::{Order, empty};
use super::work::run;
use super::*;
use crate::store::{Pair, SpillwayStores, Store, Stores};

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    fill: FillArgs,
}

fn args() -> FillArgs {
    Command::parse_from("test --gib 0.02 --memory-mib 32 --gets 100".split(' ')).fill
}

#[test]
fn fills_in_both_orders_are_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let mut report = empty();
    for order in [Order::Random, Order::Sequential] {
        let plan = args().plan(order).unwrap();
        let mut ran = run(&SpillwayStores::default(), &plan, dir.path()).unwrap();
        // All of it went to the log and to extents.
        assert!(ran.written_bytes > 2.0 * 0.02 * f64::from(1 << 30), "{ran:?}");
        assert!(ran.p99_us > 0.0 && ran.cpu_seconds > 0.0);
        ran.seconds = vec![super::work::FillSecond { puts: 5, ..Default::default() }; 2];
        report.add(args().row(order, "spillway", &ran));
    }
    assert_eq!(report.median(&["random".to_owned()], "spillway", 3), 1.0);
    let mut wrong = args();
    wrong.threads = 0;
    assert!(wrong.plan(Order::Random).is_err());
}

/// Forgets every put.
struct Forgetting;

impl Stores for Forgetting {
    fn name(&self) -> String {
        "forgetting".to_owned()
    }

    fn settings(&self) -> String {
        String::new()
    }

    fn open(&self, _: &std::path::Path, _: usize) -> Result<Box<dyn Store>, String> {
        Ok(Box::new(Forgetting))
    }
}

impl Store for Forgetting {
    fn commit(&self, _: &[Pair<'_>], _: bool) -> Result<(), String> {
        Ok(())
    }

    fn get(&self, _: &[u8], _: &mut Vec<u8>) -> Result<bool, String> {
        Ok(false)
    }

    fn seek(&self, _: &[u8], _: usize, _: &mut dyn FnMut(&[u8], &[u8])) -> Result<usize, String> {
        Ok(0)
    }

    fn settle(&self) -> Result<(), String> {
        Ok(())
    }
}

#[test]
fn what_is_not_there_afterwards_fails_the_run() {
    let dir = tempfile::tempdir().unwrap();
    let plan = args().plan(Order::Random).unwrap();
    let error = run(&Forgetting, &plan, dir.path()).unwrap_err();
    assert!(error.contains("is not what was put"), "{error}");
}
