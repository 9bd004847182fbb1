//! Extents are compressed as the settings say, and reads return the same rows.

use super::*;
use crate::coding::{Coding, Dictionary, DictionaryId, Names};
use crate::extent::check_extent;
use crate::extent_meta::ExtentMeta;
use crate::level::Slice;

/// Commits of similar rows, in key order.
fn orders(from: u64, count: u64) -> Vec<Commit> {
    let row = |number: u64| {
        let mut batch = WriteBatch::new();
        if number == 0 {
            batch.push(Op::CreateTable(table(1)));
        } else {
            let key = format!("order{number:08}");
            let value = format!("{{\"buyer\":{},\"state\":\"shipped\"}}", number * 7919 % 65_536);
            let value = value.repeat(4);
            let (key, value) = (key.as_bytes(), value.as_bytes());
            batch.push(Op::Put { table: table(1), key, value });
        }
        (Csn(number + 1), batch)
    };
    (from..from + count).map(row).collect()
}

fn with(hot: Compression, cold: Compression) -> TieredSettings {
    TieredSettings { hot_compression: hot, cold_compression: cold, ..small() }
}

fn slices(bench: &Bench, level: usize) -> Vec<Arc<Slice>> {
    let levels = bench.part(1).1.view().levels.clone();
    match level {
        1 => levels.level1.slices().to_vec(),
        2 => levels.level2.slices().to_vec(),
        _ => levels.level0.iter().flat_map(|sub| sub.run.slices().to_vec()).collect(),
    }
}

fn bytes_and_payload(slices: &[Arc<Slice>]) -> (u64, u64) {
    slices.iter().fold((0, 0), |(bytes, payload), slice| {
        (bytes + slice.meta.bytes, payload + slice.meta.counts.payload_bytes)
    })
}

fn persist(bench: &Bench, commits: &[Commit]) {
    commits.iter().for_each(|commit| bench.install(commit));
    bench.engine.request_persist(bench.horizon.stable());
    bench.work().unwrap();
}

/// Each level has its compression, and a dictionary is trained. After an opening, all rows can be
/// decoded.
#[test]
fn levels_are_compressed_as_the_settings_say() {
    let disk = SimDisk::new(1);
    // No compaction to Level2 is due.
    let settings =
        TieredSettings { level0_bytes: 16 << 20, ..with(Compression::Lz4, Compression::ZSTD) };
    let bench = open_with(Arc::new(disk.clone()), settings.clone()).unwrap();
    let commits = orders(0, 12_000);
    persist(&bench, &commits);
    let hot: Vec<_> = [slices(&bench, 0), slices(&bench, 1)].concat();
    assert!(hot.iter().all(|slice| slice.extent.meta.coding == Coding::Lz4));
    let (bytes, payload) = bytes_and_payload(&hot);
    assert!(bytes * 10 < payload * 7, "{bytes} of {payload}");
    bench.engine.compact_all().unwrap();
    let cold = slices(&bench, 2);
    let dictionary = bench.engine.0.context.dictionaries.of(table(1)).newest();
    assert_eq!(dictionary.map(|dictionary| dictionary.id()), Some(DictionaryId(1)));
    let (less, all) = bytes_and_payload(&cold);
    assert!(all == payload && less * 10 < all * 4, "{less} of {all}");
    check_rows(&bench, &commits);
    drop(bench);
    verify_clean(&disk);
    let bench = open_with(Arc::new(disk.clone()), settings).unwrap();
    bench.horizon.stable.store(commits.len() as u64, Ordering::SeqCst);
    check_rows(&bench, &commits);
}

/// Data above Level2 for which no compaction is due is merged and compressed once no client has
/// written to its table for a while, even if some of the table's data is still in memory. Until
/// then it is unchanged.
#[test]
fn what_has_come_to_rest_is_compressed_where_it_is() {
    for (settle_after, rests) in [(Duration::from_secs(1 << 20), false), (Duration::ZERO, true)] {
        let disk = SimDisk::new(1);
        let hot = with(Compression::None, Compression::ZSTD);
        let settings = TieredSettings { level0_bytes: 16 << 20, settle_after, ..hot };
        let bench = open_with(Arc::new(disk.clone()), settings).unwrap();
        let commits = orders(0, 12_000);
        let (first, more) = commits.split_at(10_000);
        first.iter().for_each(|commit| bench.install(commit));
        let (_, part) = bench.part(1);
        let active = part.view().active.clone();
        assert!(part.switch(&active, bench.engine.0.write_buffer.accounts(), || Csn(10_000)));
        more.iter().for_each(|commit| bench.install(commit));
        // The first check for rest only records the memtable's size.
        (0..2).for_each(|_| bench.work().unwrap());
        assert!(slices(&bench, 2).is_empty() && !part.view().active.is_empty());
        let above = [slices(&bench, 0), slices(&bench, 1)].concat();
        let (less, all) = bytes_and_payload(&above);
        assert!(!above.is_empty());
        assert_eq!(less * 10 < all * 4, rests, "{less} of {all}");
        assert_eq!(slices(&bench, 0).is_empty(), rests);
        check_rows(&bench, &commits);
        drop(bench);
        verify_clean(&disk);
    }
}

fn check_rows(bench: &Bench, commits: &[Commit]) {
    let newest = Csn(commits.len() as u64);
    let rows = bench.rows(table(1), KeyRange::ALL, Direction::Forward, newest).unwrap();
    let wanted = model(commits, newest);
    let wanted: Vec<_> = wanted.into_iter().map(|((_, key), value)| (key, value)).collect();
    assert!(rows == wanted, "{} rows of {}", rows.len(), wanted.len());
}

/// Data that was re-linked to Level2 is compressed when no other work is due, and then takes less
/// space. Data that cannot be made smaller is not tried again.
#[test]
fn what_was_relinked_is_compressed_later() {
    for noise in [false, true] {
        let disk = SimDisk::new(2);
        let plain = with(Compression::None, Compression::None);
        let bench = open_with(Arc::new(disk.clone()), plain).unwrap();
        let mut commits = orders(0, if noise { 1 } else { 12_000 });
        let mut rng = Rng::new(5);
        for number in 1..if noise { 1500 } else { 0 } {
            let mut value = vec![0; 1000];
            rng.fill(&mut value);
            let mut batch = WriteBatch::new();
            let key = format!("key{number:05}");
            batch.push(Op::Put { table: table(1), key: key.as_bytes(), value: &value });
            commits.push((Csn(number + 1), batch));
        }
        persist(&bench, &commits);
        bench.engine.compact_all().unwrap();
        let (before, payload) = bytes_and_payload(&slices(&bench, 2));
        assert!(before >= payload, "nothing is compressed yet");
        drop(bench);
        let cold = with(Compression::None, Compression::ZSTD);
        let bench = open_with(Arc::new(disk.clone()), cold).unwrap();
        bench.horizon.stable.store(commits.len() as u64, Ordering::SeqCst);
        bench.work().unwrap();
        let recodings = || bench.engine.0.statistics.figures().compactions[Kind::Recode as usize];
        assert!(recodings() > 0);
        let after = bytes_and_payload(&slices(&bench, 2));
        assert_eq!(after.1, payload);
        if noise {
            assert_eq!(after.0, before);
        } else {
            assert!(after.0 * 10 < before * 4, "{} of {before}", after.0);
        }
        let done = recodings();
        bench.work().unwrap();
        assert_eq!(recodings(), done);
        check_rows(&bench, &commits);
        drop(bench);
        verify_clean(&disk);
    }
}

/// A block whose dictionary is not recorded counts as damage. The error names its table and keys,
/// and the rest can be read.
#[test]
fn a_missing_dictionary_is_told_of() {
    let disk = SimDisk::new(3);
    let bench = open_with(Arc::new(disk.clone()), with(Compression::None, Compression::ZSTD));
    let bench = bench.unwrap();
    let commits = orders(0, 12_000);
    persist(&bench, &commits);
    bench.engine.compact_all().unwrap();
    let key = b"order00000001";
    assert!(bench.get(table(1), key, Csn(12_000)).unwrap().is_some());
    // The handles read as those of a table without dictionaries.
    let inner = &bench.engine.0;
    inner.context.dictionaries.forget(table(1));
    let errors = slices(&bench, 2).into_iter().filter_map(|slice| {
        let meta = slice.extent.meta.clone();
        let again = ExtentHandle::new(table(1), meta, &inner.space, &inner.context).unwrap();
        let resident = again.resident(Access::Blocking).unwrap();
        let last = resident.blocks() - 1;
        Some((again.read_block(&resident, last).err()?, resident.first(last).to_vec()))
    });
    let errors: Vec<_> = errors.collect();
    assert!(!errors.is_empty());
    for (error, key) in errors {
        assert_eq!(error.kind(), ErrorKind::Corruption);
        let told = error.to_string();
        let key = String::from_utf8(key).unwrap();
        assert!(told.contains("dictionary") && told.contains(&key), "{told}");
    }
}

/// Writes all rows again in later commits, with the values of other rows.
fn again(commits: &mut Vec<Commit>, rows: u64) {
    let from = commits.len() as u64;
    for number in 1..rows {
        let mut batch = WriteBatch::new();
        let key = format!("order{number:08}");
        let value = format!("buyer {} has paid in round {from};", number * 7919 % 65_536).repeat(4);
        batch.push(Op::Put { table: table(1), key: key.as_bytes(), value: value.as_bytes() });
        commits.push((Csn(from + number), batch));
    }
}

/// DICTIONARY-1 to DICTIONARY-4 of `coding/names`: extents record which dictionaries their blocks
/// name. A dictionary that no extent names is removed from the manifest, but readers of replaced
/// extents can still decode them. A compaction that still encodes with a removed dictionary records
/// it again.
#[test]
fn dictionaries_go_with_the_last_extent_that_names_them() {
    const ROWS: u64 = 8000;
    let disk = SimDisk::new(4);
    let settings = with(Compression::None, Compression::ZSTD);
    let bench = open_with(Arc::new(disk.clone()), settings.clone()).unwrap();
    let mut commits = orders(0, ROWS);
    persist(&bench, &commits);
    bench.engine.compact_all().unwrap();
    let inner = &bench.engine.0;
    let named = |bench: &Bench| -> Vec<u16> {
        let mut ids: Vec<_> = slices(bench, 2)
            .iter()
            .flat_map(|slice| slice.extent.meta.names.ids().to_vec())
            .map(|id| id.0)
            .collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    };
    let stored = || -> Vec<u16> {
        let manifest = inner.persistence.manifest();
        manifest.state().tables[&table(1)].dictionaries.keys().map(|id| id.0).collect()
    };
    assert_eq!((named(&bench), stored()), (vec![1], vec![1]));

    // The record of an extent is checked when its blocks are read.
    let slice = slices(&bench, 2)[0].clone();
    let mut bytes = Vec::new();
    slice.extent.read_all(&mut bytes).unwrap();
    let by = |names| {
        let meta = ExtentMeta { names, ..slice.extent.meta.clone() };
        check_extent(&bytes, table(1), &meta).map_err(|error| error.to_string())
    };
    by(Names::of(vec![DictionaryId(1), DictionaryId(7)])).unwrap();
    for narrow in [Names::of(vec![]), Names::of(vec![DictionaryId(7)])] {
        assert!(by(narrow).unwrap_err().contains("names a dictionary"));
    }

    // Another dictionary is added, and the data that the first one encoded is rewritten.
    let shelf = inner.context.dictionaries.of(table(1));
    let resident = slice.extent.resident(Access::Blocking).unwrap();
    let block = |block| slice.extent.read_block(&resident, block).unwrap().body().to_vec();
    let bodies: Vec<_> = (0..resident.blocks()).map(block).collect();
    let bodies: Vec<_> = bodies.iter().map(|body| &body[..]).collect();
    // The engine itself trains no more dictionaries here.
    let id = shelf.to_try(1 << 40, 0).unwrap();
    let second = Dictionary::train(id, &bodies, 1024).unwrap();
    let bytes = second.bytes().into();
    let add = Edit::AddDictionary { table: table(1), id, bytes };
    inner.persistence.manifest().commit(vec![add]).unwrap();
    shelf.add(Arc::new(second));
    let before = Csn(commits.len() as u64);
    let all = KeyRange::ALL;
    let scan = bench.engine.scan(table(1), all, Direction::Forward, before, Access::Blocking);
    let mut scan = scan.unwrap();
    let write = |bench: &Bench, commits: &mut Vec<Commit>| {
        let before = commits.len();
        again(commits, ROWS);
        persist(bench, &commits[before..]);
        bench.engine.compact_all().unwrap();
    };
    write(&bench, &mut commits);
    // After some rounds, the extents that name the first dictionary only in unused blocks are
    // removed, too.
    let mut rounds = 0;
    while named(&bench).contains(&1) {
        rounds += 1;
        assert!(rounds < 9, "{:?}", named(&bench));
        write(&bench, &mut commits);
    }
    assert_eq!((named(&bench), stored()), (vec![id.0], vec![1, id.0]));
    inner.persistence.manifest().rewrite().unwrap();
    assert_eq!(stored(), [id.0]);
    let mut rows = 0;
    while scan.next(Access::Blocking).unwrap() {
        assert!(scan.value().starts_with(b"{\"buyer\":"));
        rows += 1;
    }
    assert_eq!(rows, ROWS - 1);
    check_rows(&bench, &commits);

    // A compaction encodes with a dictionary that is no longer recorded.
    let third = DictionaryId(id.0 + 1);
    shelf.add(Arc::new(Dictionary::train(third, &bodies, 2048).unwrap()));
    write(&bench, &mut commits);
    assert!(named(&bench).contains(&third.0));
    assert_eq!(stored(), [id.0, third.0]);
    drop((scan, slice, bench));
    verify_clean(&disk);
    let bench = open_with(Arc::new(disk.clone()), settings).unwrap();
    bench.horizon.stable.store(commits.len() as u64, Ordering::SeqCst);
    check_rows(&bench, &commits);
}
