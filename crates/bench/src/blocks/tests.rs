use clap::Parser;
use spillway_base::rng::Rng;
use zstd_safe::DCtx;

use super::heads::compared;
use super::restarts::{Coding, RestartBlock, RestartCursor, Room, body, frame};
use super::rows::KeyKind;
use super::*;

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    blocks: BlocksArgs,
}

fn parsed(line: &str) -> BlocksArgs {
    Command::parse_from(line.split(' ')).blocks
}

/// A run fails if subjects read different rows.
#[test]
fn a_tiny_run_has_all_read_the_same() {
    let tiny = "test --near 2 --far 4 --seeks 200 --rounds 1 --value-bytes 8,500";
    let report = parsed(tiny).compare().unwrap();
    let tasks = 4 + 6 + 3;
    assert_eq!(report.cases().len(), tasks * 5 * 2);
    assert_eq!(report.rows().len(), tasks * 5 * 2 * 5);
    let bytes = |task: &str, keys: &str, subject| {
        let case = [task, keys, "8"].map(str::to_owned);
        report.median(&case, subject, 1)
    };
    // The common prefix of all keys is stored once, and CSNs are short.
    assert!(bytes("stored", "texts", "restarts") < bytes("stored", "texts", "spillway"));
    assert!(
        bytes("stored", "random", "spillway") < bytes("stored", "random", "restarts, 8-byte CSNs")
    );
    assert!(bytes("zstd", "texts", "spillway") < bytes("stored", "texts", "restarts"));
    assert!(parsed("test --near 9 --far 4").compare().is_err());
}

/// The plain block returns the rows that went in, in both directions, from any key, and where a
/// walk turns.
#[test]
fn restarts_give_what_went_in() {
    let mut rng = Rng::new(3);
    for keys in KeyKind::ALL {
        for count in [1, 2, 15, 16, 17, 33, 100] {
            let keys = keys.keys(count, 7);
            let value = |number: usize| vec![number as u8; number * 3 % 200];
            let values: Vec<Vec<u8>> = (0..keys.len()).map(value).collect();
            let rows = || keys.iter().zip(&values).map(|(key, value)| (&key[..], 77, &value[..]));
            for (coding, csn_bytes) in [(Coding::Stored, 1), (Coding::Lz4, 8), (Coding::Zstd, 8)] {
                let whole = frame(&body(rows(), csn_bytes), coding);
                let mut zstd = DCtx::create();
                let block = RestartBlock::open(&whole, csn_bytes, &mut zstd).unwrap();
                let mut room = Room::default();
                let mut cursor = RestartCursor::new(&block, &mut room);
                assert!(cursor.first());
                let mut at = 0_usize;
                for _ in 0..400 {
                    assert_eq!(cursor.row(), (&keys[at][..], &values[at][..]));
                    at = match rng.below(8) {
                        0 => {
                            let to = rng.below(keys.len() as u64) as usize;
                            assert!(cursor.seek(&keys[to]));
                            to
                        }
                        1 if at + 1 < keys.len() => {
                            assert!(cursor.seek(&[&keys[at][..], &[0]].concat()));
                            at + 1
                        }
                        2..5 if at + 1 < keys.len() => {
                            assert!(cursor.forward());
                            at + 1
                        }
                        _ if at > 0 => {
                            assert!(cursor.backward());
                            at - 1
                        }
                        _ => at,
                    };
                }
                let past = [&keys[keys.len() - 1][..], &[0]].concat();
                assert!(!cursor.seek(&past));
                assert!(cursor.last());
                assert_eq!(cursor.row().0, &keys[keys.len() - 1][..]);
                assert!(!cursor.forward());
                let mut bad = whole.clone();
                *bad.last_mut().unwrap() ^= 1;
                assert!(RestartBlock::open(&bad, csn_bytes, &mut zstd).is_none());
            }
        }
    }
}

#[test]
fn heads_that_differ_leave_one_key_to_compare() {
    let distinct: Vec<[u8; 4]> = (0..100_u32).map(u32::to_be_bytes).collect();
    let distinct: Vec<&[u8]> = distinct.iter().map(|key| &key[..]).collect();
    // Each key is compared with itself; the first one of a leaf only as that.
    assert_eq!(compared(&distinct, 4), 100);
    let alike: Vec<[u8; 12]> = (0..100_u32)
        .map(|number| {
            let mut key = [0; 12];
            key[0] = u8::from(number >= 50);
            key[8..].copy_from_slice(&number.to_be_bytes());
            key
        })
        .collect();
    let alike: Vec<&[u8]> = alike.iter().map(|key| &key[..]).collect();
    assert!(compared(&alike, 4) > 300);
    assert_eq!(compared(&alike, 8), compared(&alike, 4));
    assert_eq!(compared(&alike, 12), 100);
}
