//! Recalls: gets at a CSN that is not registered as a snapshot (E13).

use spillway_base::thread;

use super::rows::{flush, flushed, key, put, warm};
use super::*;

/// The result of a recall of a key at a snapshot: a value, none, or unknown.
fn recalled(bench: &Bench, number: u64, snapshot: u64) -> Option<Option<String>> {
    let mut value = b"of before".to_vec();
    let found = {
        let (key, snapshot) = (key(number), Csn(snapshot));
        bench.engine.recall(table(1), &key, snapshot, Access::Blocking, &mut value)
    };
    let found = found.unwrap()?;
    assert!(found.csn().is_none_or(|csn| csn.0 <= snapshot));
    Some(found.is_value().then(|| String::from_utf8_lossy(&value).into_owned()))
}

fn is(value: &str) -> Option<Option<String>> {
    Some(Some(value.to_owned()))
}

const NONE: Option<Option<String>> = Some(None);
const UNKNOWN: Option<Option<String>> = None;

fn without_rows() -> TieredSettings {
    TieredSettings { row_cache_share: 0.0, ..small() }
}

/// For rows that are cached and rows that are not, through all changes that hide or replace them.
#[test]
fn e13_what_is_recalled_is_what_the_snapshot_sees() {
    for settings in [small(), without_rows()] {
        let caches = settings.row_cache_share > 0.0;
        let bench = flushed(&SimDisk::new(1), settings, 100);
        let read = |number, csn| {
            if caches {
                warm(&bench, number, Csn(csn));
            }
            recalled(&bench, number, csn)
        };
        assert_eq!(recalled(&bench, 7, 200), is("first"));
        assert_eq!(recalled(&bench, 777, 200), NONE);
        assert_eq!(read(7, 200), is("first"));
        assert_eq!(recalled(&bench, 7, 3), UNKNOWN, "later ones were flushed");
        bench.install(&(Csn(201), put(7, "second")));
        assert_eq!([200, 201].map(|csn| recalled(&bench, 7, csn)), [is("first"), is("second")]);
        bench.install(&(Csn(202), batch(&[Op::Delete { table: table(1), key: &key(7) }])));
        assert_eq!([201, 202].map(|csn| recalled(&bench, 7, csn)), [is("second"), NONE]);
        let (start, end) = (key(4), key(6));
        let range = KeyRange::new(&start, Some(&end));
        let delete = Op::DeleteRange { table: table(1), range, upto: Csn(202) };
        bench.install(&(Csn(203), batch(&[delete])));
        assert_eq!([202, 203].map(|csn| recalled(&bench, 4, csn)), [is("first"), NONE]);
        assert_eq!(read(8, 203), is("first"));
        // The table is dropped, and another table gets its number.
        bench.install(&(Csn(204), batch(&[Op::DropTable(table(1))])));
        assert_eq!(recalled(&bench, 8, 204), UNKNOWN);
        flush(&bench);
        bench.install(&(Csn(205), batch(&[Op::CreateTable(table(1))])));
        assert_eq!([203, 205].map(|csn| recalled(&bench, 8, csn)), [UNKNOWN, NONE]);
        bench.install(&(Csn(206), put(8, "another")));
        assert_eq!(read(8, 206), is("another"));
    }
}

/// A flush, a compaction or a range tombstone makes the engine drop versions. At a CSN that was
/// taken before, the result is unknown. At a CSN that was taken afterwards, the versions are known
/// to be gone.
#[test]
fn e13_what_was_forgotten_is_not_known() {
    let overwrite = |bench: &Bench| {
        bench.install(&(Csn(201), put(7, "second")));
        bench.install(&(Csn(202), batch(&[Op::Delete { table: table(1), key: &key(8) }])));
    };
    let delete = |bench: &Bench| {
        let range = KeyRange::ALL;
        let delete = Op::DeleteRange { table: table(1), range, upto: Csn(201) };
        bench.install(&(Csn(202), batch(&[delete])));
    };
    let flush_all = |bench: &Bench| flush(bench);
    let compact_all = |bench: &Bench| bench.engine.compact_all().unwrap();
    type Step<'a> = &'a dyn Fn(&Bench);
    let ways: [(Step<'_>, Step<'_>, _); 3] = [
        (&overwrite, &flush_all, [is("second"), NONE]),
        (&overwrite, &compact_all, [is("second"), NONE]),
        (&delete, &compact_all, [NONE, NONE]),
    ];
    for (at, (change, forget, seen)) in ways.into_iter().enumerate() {
        let bench = flushed(&SimDisk::new(1), without_rows(), 100);
        compact_all(&bench);
        let first = [is("first"), is("first")];
        let reads = |csn| [7, 8].map(|number| recalled(&bench, number, csn));
        assert_eq!(reads(200), first, "in way {at}");
        change(&bench);
        assert_eq!([reads(200), reads(202)], [first, seen.clone()], "in way {at}");
        forget(&bench);
        assert_eq!([reads(200), reads(202)], [[UNKNOWN; 2], seen.clone()], "in way {at}");
        // A registered snapshot keeps the versions that it sees.
        bench.install(&(Csn(203), put(7, "third")));
        bench.horizon.live.lock().push(Csn(202));
        flush(&bench);
        compact_all(&bench);
        assert_eq!(reads(202), [UNKNOWN; 2]);
        let kept = bench.get(table(1), &key(7), Csn(202)).unwrap();
        assert_eq!(Some(kept.map(|value| String::from_utf8(value).unwrap())), seen[0]);
    }
}

/// If a sub-table dropped versions, the result is also unknown in its halves, and in a sub-table
/// that it is joined into.
#[test]
fn e13_sub_tables_that_take_anothers_place_forgot_as_much() {
    let bench =
        flushed(&SimDisk::new(1), TieredSettings { row_cache_share: 0.0, ..small_parts() }, 0);
    for csn in 2..400 {
        let value = noise(csn, 3000);
        let op = Op::Put { table: table(1), key: &key(csn % 100), value: &value };
        bench.install(&(Csn(csn), batch(&[op])));
    }
    flush(&bench);
    let all = || bench.part(1).0.all_parts();
    assert!(all().len() > 1, "it was split");
    let unknown = || (0..100).all(|number| recalled(&bench, number, 398) == UNKNOWN);
    let known = || (0..100).all(|number| recalled(&bench, number, 399).is_some());
    assert!(unknown() && known());
    while let [first, second, ..] = &all()[..] {
        let found = bench.part(1).0;
        assert!(bench.engine.0.join(&found, first, second).unwrap());
        assert!(unknown() && known());
    }
}

/// A recall counts as a lookup in the row cache, whether it finds its row there or below.
#[test]
fn e13_what_is_recalled_is_a_hit_or_a_miss() {
    let bench = flushed(&SimDisk::new(1), small(), 100);
    assert!(warm(&bench, 7, Csn(200)).is_some());
    let count = 100;
    let looks = || bench.engine.0.context.rows.as_ref().unwrap().hits_and_misses();
    let (hits, misses) = looks();
    (0..count).for_each(|_| assert!(recalled(&bench, 7, 200).is_some()));
    assert_eq!(looks(), (hits + count, misses));
    assert_eq!(recalled(&bench, 8, 200), is("first"));
    assert_eq!(looks(), (hits + count, misses + 1));
    (0..2).for_each(|_| assert!(recalled(&bench, 8, 200).is_some()));
    assert_eq!(looks(), (hits + count + 1, misses + 2), "the second look brought it in");
    let without = TieredSettings { recall: false, ..small() };
    let bench = flushed(&SimDisk::new(1), without, 100);
    assert!(warm(&bench, 7, Csn(200)).is_some());
    assert_eq!(recalled(&bench, 7, 200), UNKNOWN);
}

/// Readers at unregistered CSNs run beside commits, flushes and compactions that drop what no
/// registered snapshot sees.
#[test]
fn e13_readers_beside_commits_find_the_newest_of_their_number() {
    const KEYS: u64 = 8;
    for settings in [small(), without_rows()] {
        let bench = flushed(&SimDisk::new(1), settings, KEYS);
        let first = 2 + KEYS;
        let last = first + 4000;
        let newest_of = |number: u64, csn: u64| csn - (csn - first - number) % KEYS;
        let known = AtomicU64::new(0);
        thread::together(3, |thread| {
            if thread == 0 {
                for csn in first..=last {
                    bench.install(&(Csn(csn), put((csn - first) % KEYS, &csn.to_string())));
                    if csn % 100 == 0 {
                        flush(&bench);
                    }
                }
                return;
            }
            let mut rng = Rng::new(thread as u64);
            loop {
                let number = rng.below(KEYS);
                let csn = bench.horizon.stable().0;
                if csn >= first + KEYS
                    && let Some(value) = recalled(&bench, number, csn)
                {
                    let newest = newest_of(number, csn).to_string();
                    assert_eq!(value, Some(newest), "{number} at {csn}");
                    known.fetch_add(1, Ordering::Relaxed);
                }
                if csn == last {
                    return;
                }
            }
        });
        let found = (0..KEYS).filter(|number| recalled(&bench, *number, last).is_some());
        assert_eq!(found.count() as u64, KEYS);
        assert!(known.into_inner() > 0);
    }
}
