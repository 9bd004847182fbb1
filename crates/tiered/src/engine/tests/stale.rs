//! Versions that were kept only for a snapshot are dropped soon after the snapshot has ended,
//! although nothing else is written.

use super::*;

const ROWS: u64 = 4000;
const BYTES: usize = 400;

fn self_majors(bench: &Bench) -> u64 {
    bench.engine.0.statistics.figures().compactions[Kind::SelfMajor as usize]
}

fn value(csn: u64, row: u64) -> Vec<u8> {
    noise(csn << 32 | row, BYTES)
}

/// Writes rows in one commit, and compacts them into Level2.
fn write(bench: &Bench, csn: u64, rows: impl Iterator<Item = u64>) {
    let rows: Vec<_> = rows.map(|row| (row.to_be_bytes(), value(csn, row))).collect();
    let put = |(key, value)| Op::Put { table: table(1), key, value };
    let ops: Vec<_> = rows.iter().map(|(key, value)| put((&key[..], &value[..]))).collect();
    bench.install(&(Csn(csn), batch(&ops)));
    bench.engine.compact_all().unwrap();
}

fn used_bytes(bench: &Bench) -> f64 {
    let (all, free) = bench.engine.0.space.bytes();
    (all - free) as f64
}

fn versions(bench: &Bench) -> u64 {
    bench.engine.status()[0].levels.iter().map(|level| level.versions).sum()
}

/// In each table, all or some rows were rewritten while a snapshot was live. While the snapshot
/// lives, it can read its versions, and no compaction tries in vain to save space. Afterwards,
/// extents shrink to the ceiling, even if versions are scattered over the levels above.
#[test]
fn what_a_snapshot_kept_goes_after_it_although_nothing_is_written() {
    // One row in `every` is written, `times` times.
    for (every, times, above) in [(1, 1, false), (1, 3, true), (3, 1, false), (4, 2, true)] {
        let settings = TieredSettings {
            slot_bytes: 128 << 10,
            file_bytes: 4 << 20,
            level0_bytes: 256 << 10,
            subtable_bytes: 64 << 20,
            cold_compression: Compression::None,
            ..small()
        };
        let disk = SimDisk::new(1);
        let bench = open_with(Arc::new(disk.clone()), settings).unwrap();
        bench.install(&(Csn(1), batch(&[Op::CreateTable(table(1))])));
        write(&bench, 2, 0..ROWS);
        bench.work().unwrap();
        let before = used_bytes(&bench);
        let held: Vec<u64> = (2..2 + times).collect();
        for csn in &held {
            bench.horizon.live.lock().push(Csn(*csn));
            write(&bench, csn + 1, (0..ROWS).step_by(every));
        }
        let updated = ROWS.div_ceil(every as u64);
        assert_eq!(versions(&bench), ROWS + times * updated);
        if above {
            let last = 10 + times;
            let rows: Vec<_> = (0..ROWS).step_by(500).map(|row| row.to_be_bytes()).collect();
            let put = |key| Op::Put { table: table(1), key, value: b"above" };
            bench.install(&(
                Csn(last),
                batch(&rows.iter().map(|row| put(&row[..])).collect::<Vec<_>>()),
            ));
            bench.engine.flush_all().unwrap();
        }
        let level0 = bench.engine.status()[0].sublevels;
        assert_eq!(level0, u64::from(above));
        // At most once for each extent, a compaction finds that it can drop nothing.
        bench.work().unwrap();
        let full = used_bytes(&bench);
        assert!(full > 1.25 * before, "{full} bytes, {before} before");
        let read = |csn: u64, row: u64| {
            bench.get(table(1), &row.to_be_bytes(), Csn(csn)).unwrap().unwrap()
        };
        assert!((0..ROWS).step_by(97).all(|row| read(2, row) == value(2, row)));
        let tried = self_majors(&bench);

        bench.horizon.live.lock().clear();
        bench.work().unwrap();
        let after = used_bytes(&bench);
        let told = format!("every {every}, {times} times: {before}, {full}, then {after} bytes");
        println!("{told}, after {} self-majors", self_majors(&bench) - tried);
        // A few extents more are allowed.
        assert!(after < 1.25 * before + 5.0 * f64::from(128 << 10), "{told}");
        assert!(versions(&bench) < ROWS + updated / 2 + 8, "{told}");
        assert!(self_majors(&bench) > tried);
        let newest = 2 + times;
        for row in (0..ROWS).filter(|row| !above || row % 500 > 0).step_by(7) {
            let csn = if row % every as u64 == 0 { newest } else { 2 };
            assert!(read(100, row) == value(csn, row), "row {row}, {told}");
        }
        // After that, no work is left.
        let ended = self_majors(&bench);
        bench.work().unwrap();
        assert_eq!(self_majors(&bench), ended);
        drop(bench);
        verify_clean(&disk);
    }
}
