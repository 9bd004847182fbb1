//! Multi-gets read missing data ahead of the gets that need it.

use super::scans::long;
use super::watched::{Given, Watched};
use super::*;

/// PREFETCH-1, and E9 for multi-gets.
#[test]
fn prefetch_1_what_gets_lack_is_read_at_once_and_failures_are_the_gets() {
    for read_ahead in [true, false] {
        let disk = SimDisk::new(5);
        let settings = TieredSettings { cache_bytes: 8 << 20, read_ahead, ..small() };
        let (bench, rows) = long(&disk, settings.clone());
        drop(bench);
        let bench = open_with(Arc::new(disk.clone()), settings).unwrap();
        bench.horizon.stable.store(5000, Ordering::SeqCst);
        let keys: Vec<&[u8]> = rows.iter().step_by(17).map(|(key, _)| &key[..]).collect();
        let absent: &[u8] = b"k0017x";
        let keys: Vec<&[u8]> = keys.into_iter().chain([absent]).collect();
        let data: Vec<PathBuf> = disk.files().into_iter().map(|(path, _)| path).collect();
        data.iter().for_each(|path| disk.fail_reads(path));
        bench.engine.prefetch(table(1), &keys, Csn(5000));
        disk.heal();
        let mut value = Vec::new();
        let mut get = |key: &[u8], access| {
            let found = bench.engine.get(table(1), key, Csn(5000), access, &mut value)?;
            Ok::<_, Error>(found.is_value().then(|| value.clone()))
        };
        assert_eq!(get(keys[0], Access::MemoryOnly).unwrap_err().kind(), ErrorKind::WouldBlock);
        bench.engine.prefetch(table(1), &keys, Csn(5000));
        let (_, fetched) = bench.engine.0.context.queues.taken_and_fetched();
        assert_eq!(fetched > 50, read_ahead, "{fetched}");
        let access = if read_ahead { Access::MemoryOnly } else { Access::Blocking };
        for key in keys {
            let wanted =
                rows.iter().find(|(known, _)| known == key).map(|(_, value)| value.clone());
            assert_eq!(get(key, access).unwrap(), wanted);
        }
        bench.engine.prefetch(table(7), &[b"k"], Csn(5000));
    }
}

/// READAHEAD-4: however many gets miss data, the reads in flight take only a part of the memory.
#[test]
fn readahead_4_what_gets_lack_is_read_in_a_part_of_the_memory() {
    let disk = SimDisk::new(5);
    let settings = TieredSettings { cache_bytes: 8 << 20, ..small() };
    let (bench, rows) = long(&disk, settings.clone());
    drop(bench);
    let keys: Vec<&[u8]> = rows.iter().step_by(17).map(|(key, _)| &key[..]).collect();
    for memory in [16 << 20, 64 << 20] {
        let given = Arc::new(Given::default());
        let watched = Arc::new(Watched(disk.clone(), given.clone()));
        let budget = Budget::new(memory);
        let bench = open_within(watched, settings.clone(), budget.clone()).unwrap();
        bench.horizon.stable.store(5000, Ordering::SeqCst);
        bench.engine.prefetch(table(1), &keys, Csn(5000));
        let most = given.reading_most.load(Ordering::SeqCst);
        assert!(most > memory as u64 / 512 && most <= memory as u64 / 128, "{most} of {memory}");
        assert!(bench.engine.0.context.queues.taken_and_fetched().1 > 50);
        // This includes the keys for which there was no room at first.
        for key in &keys {
            let (access, value) = (Access::MemoryOnly, &mut Vec::new());
            let found = bench.engine.get(table(1), key, Csn(5000), access, value);
            assert!(found.unwrap().is_value());
        }
        assert_eq!(given.in_flight.load(Ordering::SeqCst), 0);
    }
}

/// The table of [`super::scans::long`], opened again on a disk that records the operations of its
/// queues.
fn reopened(budget: &Budget) -> (Bench, Vec<(Vec<u8>, Vec<u8>)>, Arc<Given>) {
    let disk = SimDisk::new(5);
    let settings = TieredSettings { cache_bytes: 8 << 20, ..small() };
    let (bench, rows) = long(&disk, settings.clone());
    drop(bench);
    let given = Arc::new(Given::default());
    let watched = Arc::new(Watched(disk, given.clone()));
    let bench = open_within(watched, settings, budget.clone()).unwrap();
    bench.horizon.stable.store(5000, Ordering::SeqCst);
    (bench, rows, given)
}

/// PREFETCH-1, PREFETCH-2: each get finds its data in memory, and while it runs, the missing data
/// of later gets is being read. A caller that stops early leaves a queue that others can use.
#[test]
fn prefetch_2_what_later_gets_lack_is_under_way() {
    let (bench, rows, given) = reopened(&Budget::new(64 << 20));
    // Not in key order, some keys twice, and some keys that do not exist.
    let wanted: Vec<Vec<u8>> = (0..300_u64)
        .map(|number| format!("k{:04}", number * 7919 % 2100).into_bytes())
        .flat_map(|key| if key.ends_with(b"3") { vec![key.clone(), key] } else { vec![key] })
        .collect();
    let keys: Vec<&[u8]> = wanted.iter().map(Vec::as_slice).collect();
    let (half, whole) = (keys.len() / 2, keys.len());
    let (mut value, mut busy) = (Vec::new(), 0);
    for upto in [half, whole] {
        let mut ahead = bench.engine.gets_ahead(table(1), &keys[..upto], Csn(5000)).unwrap();
        let stops = if upto == half { half / 2 } else { whole };
        for (at, key) in keys[..stops].iter().enumerate() {
            ahead.wait_for(at);
            assert_eq!(given.kept.load(Ordering::SeqCst), 0, "the device has it");
            busy += usize::from(given.in_flight.load(Ordering::SeqCst) > 0);
            let access = Access::MemoryOnly;
            let found = bench.engine.get(table(1), key, Csn(5000), access, &mut value).unwrap();
            let row = rows.iter().find(|(known, _)| known == key).map(|(_, value)| value);
            assert_eq!(found.is_value().then_some(&value), row);
        }
        drop(ahead);
    }
    assert!(busy > whole / 3, "{busy} of {whole}");
    assert!(bench.engine.gets_ahead(table(7), &keys, Csn(5000)).is_none());
}

/// PREFETCH-3: if only one get misses data, it may need only a part of its block, and reads it
/// itself.
#[test]
fn prefetch_3_what_one_get_lacks_is_left_to_it() {
    let (bench, rows, given) = reopened(&Budget::new(64 << 20));
    let keys: Vec<&[u8]> = rows.iter().step_by(40).map(|(key, _)| &key[..]).collect();
    let lone = keys[keys.len() / 2];
    let others: Vec<&[u8]> = keys.iter().copied().filter(|key| *key != lone).collect();
    assert!(bench.engine.prefetch(table(1), &others, Csn(5000)) > 0);
    let before = given.reads.load(Ordering::SeqCst);
    assert_eq!(bench.engine.prefetch(table(1), &keys, Csn(5000)), 1);
    assert_eq!(given.reads.load(Ordering::SeqCst), before);
    // If another get misses data too, both are read ahead.
    let (another, _) = &rows[20];
    assert_eq!(bench.engine.prefetch(table(1), &[lone, another], Csn(5000)), 2);
    assert!(given.reads.load(Ordering::SeqCst) > before + 1);
}
