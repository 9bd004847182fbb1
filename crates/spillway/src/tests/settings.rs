//! Tests that settings take effect, and that an opening refuses values out of bounds.

use super::*;

/// A database whose background work runs only on request.
fn with(settings: Settings) -> Database {
    Database::open_in_memory(settings).unwrap()
}

fn commit(db: &Database, table: Table, rows: impl Iterator<Item = u64>, rng: &mut Rng) {
    let txn = db.begin(TransactionOptions::new());
    let mut value = [0; 300];
    for row in rows {
        rng.fill(&mut value);
        txn.put(table, &row.to_be_bytes(), &value).unwrap();
    }
    txn.commit().wait().unwrap();
}

fn new_table(db: &Database) -> Table {
    let txn = db.begin(TransactionOptions::new());
    let table = txn.create_table("t", EngineKind::Tiered).unwrap();
    txn.commit().wait().unwrap();
    table
}

fn refused(settings: Settings) -> String {
    let error = Database::open_in_memory(settings).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    error.to_string()
}

#[test]
fn a_ceiling_or_an_order_that_makes_no_sense_is_refused() {
    for space_max in [0.0, 1.0, 1.09, 10.1, f64::NAN, f64::INFINITY, -2.0] {
        let told = refused(Settings { space_max, ..small() });
        assert!(told.contains("must be between 1.1 and 10"), "{told}");
    }
    assert!(refused(Settings { deletions_min: 0, ..small() }).contains("must be at least 1"));
    use CompactionKind::{Full, Major, Minor};
    let order = |kinds: &[CompactionKind]| Settings { compaction_order: kinds.into(), ..small() };
    assert!(refused(order(&[Full])).contains("names full, which no order is for"));
    assert!(refused(order(&[Minor, Major, Minor])).contains("names minor twice"));
}

/// An order names the first kinds: it leaves no kind out.
#[test]
fn kinds_that_an_order_does_not_name_follow() {
    use CompactionKind::{Deletion, IntraLevel0, Major, Minor, SelfMajor};
    let order = |kinds: &[CompactionKind]| {
        Settings { compaction_order: kinds.into(), ..small() }.all_in_order()
    };
    assert_eq!(order(&[]), CompactionKind::ORDER);
    assert_eq!(order(&[SelfMajor, Minor]), [SelfMajor, Minor, Deletion, IntraLevel0, Major]);
    assert_eq!("Intra-level0".parse::<CompactionKind>().unwrap(), IntraLevel0);
    for kind in CompactionKind::ORDER {
        assert_eq!(kind.to_string().parse::<CompactionKind>().unwrap(), kind);
    }
    let told = "fastest".parse::<CompactionKind>().unwrap_err().to_string();
    assert!(told.contains("deletion, intra-Level0, minor, major, self-major"), "{told}");
    assert!("full".parse::<CompactionKind>().is_err());
}

/// A quarter of each extent's blocks is rewritten elsewhere. Returns how many bytes extents take
/// for each byte in use at the end, and how many compactions merged them.
fn after_updates(space_max: f64) -> (f64, f64) {
    let db = with(Settings { space_max, slot_bytes: 256 << 10, ..small() });
    let table = new_table(&db);
    let mut rng = Rng::new(5);
    for first in (0..24_000).step_by(2000) {
        commit(&db, table, first..first + 2000, &mut rng);
        while db.run_background_job().unwrap() {}
    }
    db.compact().unwrap();
    for first in (0..24_000_u64).step_by(440) {
        commit(&db, table, first..first + 110, &mut rng);
    }
    db.compact().unwrap();
    while db.run_background_job().unwrap() {}
    let space = db.space().into_iter().find(|space| space.table == table).unwrap().on_devices();
    let name = "tiered_compactions_self_major_total";
    let ordered = db.metrics().into_iter().find(|metric| metric.name == name).unwrap().value;
    let used = space.slot_bytes - space.dead_bytes - space.slack_bytes;
    (space.slot_bytes as f64 / used as f64, ordered)
}

#[test]
fn the_ceiling_on_space_is_what_compactions_keep() {
    // Left alone, extents of Level2 take some 1.4 times their bytes in use, and those above a
    // little more.
    for (space_max, does) in [(1.1, true), (2.0, true), (2.4, false), (10.0, false)] {
        let (found, ordered) = after_updates(space_max);
        assert_eq!(ordered > 0.0, does, "{found:.3} after {ordered}, at most {space_max}");
        assert!(if does { found < 1.1 } else { found > 1.3 }, "{found:.3} with {space_max}");
    }
}

/// Deleted rows are compacted from the configured number of tombstones on, unless that mechanism is
/// left out.
#[test]
fn deletions_are_compacted_from_as_many_on_as_was_asked_for() {
    for (deletions_min, without, goes) in [
        (50, vec![], true),
        (100_000, vec![], false),
        (50, vec![Mechanism::DeletionCompactions], false),
    ] {
        let slot_bytes = Settings::default().slot_bytes;
        let db = with(Settings { deletions_min, without, slot_bytes, ..small() });
        let (table, mut rng) = (new_table(&db), Rng::new(1));
        commit(&db, table, 0..4000, &mut rng);
        db.compact().unwrap();
        let txn = db.begin(TransactionOptions::new());
        (0..3000_u64).for_each(|row| txn.delete(table, &row.to_be_bytes()).unwrap());
        txn.commit().wait().unwrap();
        db.flush().unwrap();
        while db.run_background_job().unwrap() {}
        let done = db.inspect().compactions.unwrap();
        let gone = done.iter().any(|one| one.kind == CompactionKind::Deletion);
        assert_eq!(gone, goes, "{deletions_min}");
    }
}

/// If deletions are due and Level0 is over its size, the order determines which is done first.
#[test]
fn compactions_are_chosen_in_the_order_that_was_asked_for() {
    use CompactionKind::{Deletion, Minor};
    for (order, wanted) in [(&[][..], Deletion), (&[Minor], Minor), (&[Deletion, Minor], Deletion)]
    {
        let slot_bytes = Settings::default().slot_bytes;
        let db = with(Settings { compaction_order: order.into(), slot_bytes, ..small() });
        let (table, mut rng) = (new_table(&db), Rng::new(1));
        for first in [0, 4000, 8000] {
            commit(&db, table, first..first + 4000, &mut rng);
            db.flush().unwrap();
        }
        let txn = db.begin(TransactionOptions::new());
        (0..3000_u64).for_each(|row| txn.delete(table, &row.to_be_bytes()).unwrap());
        txn.commit().wait().unwrap();
        db.flush().unwrap();
        let done = || db.inspect().compactions.unwrap();
        assert!(done().is_empty());
        while done().is_empty() {
            assert!(db.run_background_job().unwrap());
        }
        assert_eq!(done()[0].kind, wanted, "{order:?}");
    }
}

/// A merge that is done a second time has equal results, and is counted as checked.
#[test]
fn merges_are_checked_where_that_was_asked_for() {
    let written = [false, true].map(|check_merges| {
        let db = with(Settings { check_merges, ..small() });
        let (table, mut rng) = (new_table(&db), Rng::new(1));
        for _ in 0..3 {
            commit(&db, table, 0..4000, &mut rng);
            db.flush().unwrap();
        }
        db.compact().unwrap();
        let metrics = db.metrics();
        let of = |name: &str| metrics.iter().find(|metric| metric.name == name).unwrap().value;
        assert_eq!(of("tiered_refused_merges_total"), 0.0);
        let checked = of("tiered_checked_merges_total");
        assert_eq!(checked > 0.0, check_merges, "{checked}");
        of("tiered_merged_bytes_total")
    });
    assert!(written[0] > 0.0);
    assert_eq!(written[0], written[1]);
}
