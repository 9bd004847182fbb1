use clap::Parser;

use super::policies::{Clock, Lru, Policy, S3Fifo, Sieve};
use super::*;

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    eviction: EvictionArgs,
}

fn hits(policy: &mut dyn Policy, reads: &[u64]) -> Vec<u64> {
    reads.iter().copied().filter(|block| policy.read(*block)).collect()
}

/// The papers describe the policies; this is the smallest trace that distinguishes each from the
/// others.
#[test]
fn each_policy_evicts_what_it_should() {
    assert_eq!(hits(&mut Lru::new(2), &[1, 2, 1, 3, 1, 2]), [1, 1]);
    // Block 1 was read: the hand passes it, once.
    assert_eq!(hits(&mut Clock::new(2), &[1, 2, 1, 3, 4, 1]), [1]);
    assert_eq!(hits(&mut Clock::new(2), &[1, 2, 1, 3, 1]), [1, 1]);
    // In SIEVE the hand stays where it was: 3 goes before 2, which is older and was read.
    assert_eq!(hits(&mut Sieve::new(3), &[1, 2, 1, 2, 3, 4, 1, 2]), [1, 2, 1, 2]);
    // A block that returns soon goes into the main queue.
    let mut s3 = S3Fifo::new(10);
    assert_eq!(hits(&mut s3, &(0..11).collect::<Vec<u64>>()), [0_u64; 0]);
    assert_eq!(hits(&mut s3, &[0]), [0_u64; 0]);
    assert_eq!(hits(&mut s3, &(20..40).chain([0]).collect::<Vec<u64>>()), [0]);
}

#[test]
fn all_run_over_all_traces() {
    let tiny = "test --blocks 2000 --reads 20000 --fit-percent 10 --skew 0,0.99";
    let args = Command::parse_from(tiny.split(' ')).eviction;
    let report = args.compare().unwrap();
    assert_eq!((report.cases().len(), report.subjects().len()), (5, 5));
    for case in report.cases() {
        for subject in report.subjects() {
            let hits = report.median(&case, &subject, 0);
            let (least, most) = match case[1].as_str() {
                // About the share of the blocks that fits into the cache, for any policy.
                "uniform" => (7.0, 11.0),
                "uniform, scan" => (5.0, 11.0),
                _ => (30.0, 99.0),
            };
            assert!((least..most).contains(&hits), "{case:?}: {subject} {hits}");
        }
    }
}
