use std::time::Duration;

use clap::Parser;

use super::command::{compare, empty, row};
use super::waits::{Account, EndedOperation, Shares, Spent, shares_of_slowest};
use super::work::run;
use super::*;
use crate::store::SpillwayStores;

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    pressure: PressureArgs,
}

fn args(more: &str) -> PressureArgs {
    let tiny =
        "test --memory-mib 32 --data-times 0.2 --seconds 0.3 --windows 2 --gets 500 --puts 200";
    Command::parse_from(tiny.split(' ').chain(more.split_whitespace())).pressure
}

#[test]
fn gets_and_puts_are_measured_in_windows_of_each_kind() {
    let dir = tempfile::tempdir().unwrap();
    let ran = run(&SpillwayStores::default(), &args("").plan().unwrap(), dir.path()).unwrap();
    assert_eq!(ran.len(), 2 * 3 * 2);
    let mut report = empty();
    ran.iter().for_each(|latency| report.add(row("spillway", latency)));
    assert_eq!(report.cases().len(), 6);
    for latency in &ran {
        assert!(latency.operations_per_s > 0.0 && latency.p50_us > 0.0, "{latency:?}");
        let compacted = latency.compacted_bytes > 0.0;
        assert!(compacted || latency.beside.name() != "compaction", "{latency:?}");
    }
    compare(&mut report);
    assert_eq!(report.notes().len(), 2);
}

#[test]
fn rates_are_more_than_nothing() {
    for wrong in ["--seconds 0", "--fill 0", "--get-threads 0"] {
        let mut words = vec!["test"];
        words.extend(wrong.split(' '));
        assert!(Command::parse_from(words).pressure.plan().is_err(), "{wrong}");
    }
}

#[test]
fn time_in_line_behind_another_operation_is_told_of_that_one_alone() {
    let millis = Duration::from_millis;
    let taken = |latency, own, queued, ran| EndedOperation {
        latency: millis(latency),
        own: millis(own),
        spent: Some(Spent { queued: millis(queued), ran: millis(ran) }),
    };
    // The first waited half of its time for a processor; the second waited only for the first.
    let all = [taken(8, 8, 4, 1), taken(8, 2, 0, 1), taken(1, 1, 1, 0)];
    let shares = |queued, ran| Some(Shares { queued, ran });
    assert_eq!(shares_of_slowest(&all, 0.5), shares(0.4, 0.2));
    assert_eq!(shares_of_slowest(&all, 0.01), shares(0.5, 0.125), "one at least");
    let untold = [EndedOperation { spent: None, ..all[0] }];
    assert_eq!((shares_of_slowest(&untold, 1.0), shares_of_slowest(&[], 1.0)), (None, None));
}

#[test]
fn a_thread_s_account_is_read_from_the_system_s_line() {
    let spent = Spent { ran: Duration::from_nanos(751_270), queued: Duration::from_nanos(3_243) };
    assert_eq!(Spent::of_line("751270 3243 2\n"), Some(spent));
    for other in ["", "7", "7 x 2", "-1 2 3"] {
        assert_eq!(Spent::of_line(other), None, "{other}");
    }
    // Time counts from the last sample: many samples together add up to no more than one over all
    // of them.
    let (mut whole, mut parts) = (Account::of_this_thread(), Account::of_this_thread());
    let (mut sum, mut looks) = (Duration::ZERO, 0);
    while let Some(spent) = parts.next() {
        (sum, looks) = (sum + spent.ran, looks + 1);
        if looks > 10 && !spent.ran.is_zero() {
            break;
        }
        std::hint::black_box((0..100_000_u64).map(std::hint::black_box).sum::<u64>());
    }
    assert!(whole.next().is_none_or(|whole| sum <= whole.ran), "{sum:?} in {looks} looks");
}
