//! Failing disks: every operation fails in turn, in every way. Also damaged and missing files.

use super::*;

/// As [`drive`], but goes on after errors. The engine may stop, and its claims must stay true.
fn drive_on(disk: &SimDisk, commits: &[Commit], seed: u64) -> Csn {
    let mut rng = Rng::new(seed);
    let mut claimed = Csn::ZERO;
    let Ok(bench) = open(disk) else { return claimed };
    for (at, commit) in commits.iter().enumerate() {
        bench.install(commit);
        if rng.chance(1, 6) {
            bench.engine.request_persist(commit.0);
            // The disk is full only once, so the work is tried again.
            let _ = bench.work().or_else(|_| bench.work());
            assert!(bench.engine.persisted() >= claimed, "E6: the figure never falls");
            claimed = bench.engine.persisted();
        }
        if at == commits.len() - 1 {
            // Everything that is installed can be read, unless the machine is down.
            if !disk.is_crashed() {
                check(&bench, commits, commit.0, &mut rng);
            }
        }
    }
    claimed
}

pub(super) fn with_drops(seed: u64, commits: u64) -> Vec<Commit> {
    let mut all = history(seed, commits);
    let csn = Csn(commits + 1);
    let mut batch = WriteBatch::new();
    batch.push(Op::CreateTable(table(3)));
    batch.push(Op::Put { table: table(3), key: b"k", value: &[7; 5000] });
    all.push((csn, batch));
    let mut batch = WriteBatch::new();
    batch.push(Op::DropTable(table(3)));
    all.push((csn.next(), batch));
    all.extend(
        history(seed + 1, 12)
            .into_iter()
            .skip(2)
            .map(|(number, batch)| (Csn(number.0 + commits), batch)),
    );
    all
}

/// Every operation fails once, in each way in which a disk can fail; then the machine stops. All
/// commits that the engine claimed to be persistent are there, and nothing is damaged: the slots of
/// an edit with an unknown outcome were not reused.
#[test]
fn e8_any_failed_operation_then_a_crash_loses_nothing_that_was_persisted() {
    let commits = with_drops(9, 60);
    let last = commits.last().unwrap().0;
    let whole = SimDisk::new(0);
    drive_on(&whole, &commits, 3);
    let operations = whole.operations();
    assert!(operations > 150, "{operations}");
    for fault in [Fault::Io, Fault::ShortWrite, Fault::Full, Fault::Crash] {
        for number in 1..=operations {
            let disk = SimDisk::new(number);
            disk.fail_operation(number, fault);
            let claimed = drive_on(&disk, &commits, 3);
            disk.crash();
            disk.restart();
            verify_clean(&disk);
            let bench = open(&disk).unwrap();
            for commit in commits.iter().filter(|(csn, _)| *csn > claimed) {
                bench.install(commit);
            }
            bench.horizon.stable.store(last.0, Ordering::SeqCst);
            check(&bench, &commits, last, &mut Rng::new(number));
            bench.engine.compact_all().unwrap();
            check(&bench, &commits, last, &mut Rng::new(number));
            assert_eq!(bench.engine.persisted(), last, "{fault:?} at {number}");
        }
    }
}

/// A crash, an opening, and another crash: work after the opening uses slots that the first crash
/// freed.
#[test]
fn e6_crash_after_crash() {
    let commits = history(21, 150);
    for seed in 0..40 {
        let disk = SimDisk::new(seed);
        let mut rng = Rng::new(seed);
        let mut claimed = Csn::ZERO;
        let mut done = 0;
        while done < commits.len() {
            let until = (done + 20 + rng.below(40) as usize).min(commits.len());
            let bench = open(&disk).unwrap();
            disk.fail_operation(disk.operations() + 1 + rng.below(150), Fault::Crash);
            let redo = claimed;
            for commit in commits[..until].iter().filter(|(csn, _)| *csn > redo) {
                bench.install(commit);
                if rng.chance(1, 5) {
                    bench.engine.request_persist(commit.0);
                    if bench.work().is_err() {
                        break;
                    }
                    claimed = claimed.max(bench.engine.persisted());
                }
            }
            disk.crash();
            disk.restart();
            verify_clean(&disk);
            done = until;
        }
        let bench = open(&disk).unwrap();
        commits.iter().filter(|(csn, _)| *csn > claimed).for_each(|commit| bench.install(commit));
        bench.horizon.stable.store(150, Ordering::SeqCst);
        check(&bench, &commits, Csn(150), &mut rng);
    }
}

/// The locations of a table's extents in files.
pub(super) fn extents(bench: &Bench, ordinal: u32) -> Vec<(PathBuf, u64, u64)> {
    let slot = small().slot_bytes as u64;
    let (whole, _) = bench.part(ordinal);
    let views = whole.all_parts().into_iter().map(|part| part.view());
    let levels: Vec<_> = views.map(|view| view.levels.clone()).collect();
    let places = levels.iter().flat_map(|levels| levels.places()).map(|(_, slice)| {
        let meta = &slice.extent.meta;
        let path = dir().join(format!("{:06}.data", meta.slots.file));
        (path, u64::from(meta.slots.first) * slot, meta.len)
    });
    let mut all: Vec<_> = places.collect();
    all.sort();
    all.dedup();
    all
}

/// E8: a read that finds damage reports it with table, extent and block. Everything else reads as
/// it was written. Verification finds the same damage as reads do.
#[test]
fn e8_a_flipped_bit_anywhere_in_an_extent_is_told_and_never_read() {
    let disk = SimDisk::new(1);
    let bench = open(&disk).unwrap();
    let commits = history(6, 300);
    commits.iter().for_each(|commit| bench.install(commit));
    bench.engine.compact_all().unwrap();
    let places = extents(&bench, 1);
    drop(bench);
    let wanted = model(&commits, Csn(300));
    let mut rng = Rng::new(3);
    for round in 0..80 {
        let disk = disk.fork();
        let (path, start, len) = &places[rng.below(places.len() as u64) as usize];
        disk.rot(path, start + rng.below(*len), 1 << rng.below(8));
        let bench = open(&disk).unwrap();
        bench.horizon.stable.store(300, Ordering::SeqCst);
        let mut bad = 0;
        for id in [table(1), table(2)] {
            for number in 0..120 {
                let key = format!("key{number:03}").into_bytes();
                match bench.get(id, &key, Csn(300)) {
                    Ok(found) => assert!(found.as_ref() == wanted.get(&(id, key))),
                    Err(error) => {
                        assert_eq!((error.kind(), id), (ErrorKind::Corruption, table(1)));
                        let text = error.to_string();
                        assert!(text.contains("table 0x1") && text.contains("extent"), "{text}");
                        assert!(text.contains("data file"), "{text}");
                        bad += 1;
                    }
                }
            }
        }
        assert!(bench.engine.health().is_ok());
        assert!(bad < 120, "one bit does not hide everything");
        let rows = bench.rows(table(1), KeyRange::ALL, Direction::Forward, Csn(300));
        assert_eq!(rows.is_err(), bad > 0, "round {round}: a scan meets what the reads met");
        drop(bench);
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let report = crate::verify(&shared, &dir(), &mut |_, _| {}).unwrap();
        assert!(!report.findings.is_empty() && report.findings[0].table == Some(table(1)));
    }
}

/// E8: a compaction that finds damage avoids those keys from then on. The rest of the table, and
/// other tables, are still compacted.
#[test]
fn e8_damage_keeps_compaction_from_the_keys_beside_it_only() {
    let disk = SimDisk::new(1);
    let commits = history(6, 400);
    let bench = open(&disk).unwrap();
    commits[..100].iter().for_each(|commit| bench.install(commit));
    bench.engine.flush_all().unwrap();
    let (path, start, _) = extents(&bench, 1)[0].clone();
    drop(bench);
    disk.rot(&path, start + 100, 4);

    let bench = open(&disk).unwrap();
    bench.horizon.stable.store(100, Ordering::SeqCst);
    for (at, commit) in commits[100..].iter().enumerate() {
        bench.install(commit);
        if at % 30 == 29 {
            bench.engine.flush_all().unwrap();
            bench.work().unwrap();
        }
    }
    bench.engine.flush_all().unwrap();
    assert!(bench.engine.health().is_ok());
    assert_eq!(bench.engine.persisted(), Csn(400));
    let status = bench.engine.status();
    assert!(status[0].quarantine.is_some() && status[1].quarantine.is_none(), "{status:?}");
    assert!(status[1].sublevels < 4, "{status:?}");
    assert!(bench.engine.debt().level0 < 1.0);
    let wanted = model(&commits, Csn(400));
    let mut read = 0;
    for number in 0..120 {
        let key = format!("key{number:03}").into_bytes();
        if let Ok(found) = bench.get(table(1), &key, Csn(400)) {
            assert!(found.as_ref() == wanted.get(&(table(1), key)));
            read += 1;
        }
    }
    assert!(read > 60, "{read}");
    bench.rows(table(2), KeyRange::ALL, Direction::Forward, Csn(400)).unwrap();
}

/// E8: the same for several slices of one extent, if the damage affects all of them.
#[test]
fn e8_an_extent_of_several_slices_is_left_alone_whole() {
    let disk = SimDisk::new(1);
    let key = |number: u64| format!("key{number:05}").into_bytes();
    let put = |bench: &Bench, csn: u64, rows: &mut dyn Iterator<Item = u64>| {
        let rows: Vec<_> = rows.map(|number| (key(number), noise(number, 100))).collect();
        let put = |(key, value)| Op::Put { table: table(1), key, value };
        let ops: Vec<_> = rows.iter().map(|(key, value)| put((&key[..], &value[..]))).collect();
        bench.install(&(Csn(csn), batch(&ops)));
        bench.engine.flush_all().unwrap();
    };
    let bench = open(&disk).unwrap();
    bench.install(&(Csn(1), batch(&[Op::CreateTable(table(1))])));
    put(&bench, 2, &mut (0..4000));
    bench.engine.compact_all().unwrap();
    // The slices in the middle are rewritten, and those on both sides stay.
    put(&bench, 3, &mut (1000..1010).chain(3000..3010));
    bench.engine.compact_all().unwrap();
    let (_, part) = bench.part(1);
    let levels = part.view().levels.clone();
    let mut slices: Vec<_> = levels.places().map(|(_, slice)| slice.clone()).collect();
    slices.sort_by_key(|slice| slice.meta.extent);
    let pair = slices.windows(2).find(|pair| pair[0].meta.extent == pair[1].meta.extent);
    let [one, two] = pair.expect("an extent has two slices") else { unreachable!() };
    let meta = one.extent.meta.clone();
    let two = two.meta.id();
    drop((slices, levels, part, bench));
    let path = dir().join(format!("{:06}.data", meta.slots.file));
    let start = u64::from(meta.slots.first) * small().slot_bytes as u64;
    disk.rot(&path, start + meta.len - 20, 8);

    let bench = open(&disk).unwrap();
    bench.horizon.stable.store(3, Ordering::SeqCst);
    let (_, part) = bench.part(1);
    let levels = part.view().levels.clone();
    let both: Vec<_> = levels.places().map(|(_, slice)| slice.clone()).collect();
    let both: Vec<_> = both.into_iter().filter(|slice| slice.meta.extent == meta.id).collect();
    // Compactions find the damage in one slice first, and in the other later.
    for slice in &both {
        let barred = || {
            let mut barred = false;
            part.take_keys(|bars| {
                barred = bars.touch(&slice.meta);
                None::<((Box<[u8]>, Box<[u8]>), ())>
            });
            barred
        };
        assert!(!barred());
        let error = slice.extent.resident(Access::Blocking).err().unwrap();
        bench.engine.0.quarantine(&part, std::slice::from_ref(slice), &error);
        assert!(barred(), "it would be picked again and again");
    }
    assert!(both.len() > 1 && both.iter().any(|slice| slice.meta.id() == two));
    assert!(bench.work().is_ok() && bench.engine.health().is_ok());
    assert_eq!(bench.get(table(1), &key(3999), Csn(3)).unwrap(), Some(noise(3999, 100)));
}

/// E8: after a failure with an unknown outcome, slots that the manifest may refer to are not
/// reused.
#[test]
fn a_manifest_that_failed_keeps_its_slots() {
    let commits = history(6, 60);
    let whole = SimDisk::new(1);
    let prepare = |disk: &SimDisk| {
        let bench = open(disk).unwrap();
        commits.iter().for_each(|commit| bench.install(commit));
        bench.engine.request_persist(Csn(60));
        bench
    };
    let bench = prepare(&whole);
    let before = whole.operations();
    bench.work().unwrap();
    let mut unknown = 0;
    for number in before + 1..=whole.operations() {
        let disk = SimDisk::new(1);
        let bench = prepare(&disk);
        disk.fail_operation(number, Fault::Io);
        if bench.work().is_ok() || !format!("{:?}", bench.engine.health()).contains("manifest") {
            continue;
        }
        unknown += 1;
        disk.heal();
        let (all, free) = bench.engine.0.space.bytes();
        let state = crate::manifest::read(&disk, &dir()).unwrap().unwrap().0;
        let referred: u64 = state
            .tables
            .values()
            .flat_map(|table| table.extents.values())
            .map(|extent| u64::from(extent.meta.slots.count) * small().slot_bytes as u64)
            .sum();
        assert!(all - free >= referred, "operation {number}: {all} {free} {referred}");
        check(&bench, &commits, Csn(60), &mut Rng::new(1));
    }
    assert!(unknown > 3, "{unknown}");
}

#[test]
fn a_full_disk_during_compaction_loses_nothing_and_ends_when_space_returns() {
    let disk = SimDisk::new(1);
    let bench = open(&disk).unwrap();
    let commits = history(6, 400);
    for (at, commit) in commits.iter().enumerate() {
        bench.install(commit);
        if at % 20 == 19 {
            bench.engine.flush_all().unwrap();
        }
    }
    let used = disk.used();
    disk.set_capacity(Some(used));
    let full = bench.work().unwrap_err();
    assert_eq!(full.kind(), ErrorKind::DiskFull);
    assert!(bench.engine.health().is_ok());
    check(&bench, &commits, Csn(400), &mut Rng::new(1));
    // Dropping the other table makes room, although the disk is still full.
    let mut batch = WriteBatch::new();
    batch.push(Op::DropTable(table(2)));
    bench.install(&(Csn(401), batch));
    disk.set_capacity(Some(used + 4096));
    while bench.work().is_err() {
        disk.set_capacity(Some(used.max(disk.used()) + (64 << 10)));
    }
    assert!(disk.used() < used);
    let rows = bench.rows(table(1), KeyRange::ALL, Direction::Forward, Csn(401)).unwrap();
    let wanted = model(&commits, Csn(400));
    assert_eq!(rows.len(), wanted.keys().filter(|(of, _)| *of == table(1)).count());
    drop(bench);
    verify_clean(&disk);
}

#[test]
fn missing_and_foreign_files_are_named() {
    let disk = SimDisk::new(1);
    let bench = open(&disk).unwrap();
    let commits = history(6, 100);
    commits.iter().for_each(|commit| bench.install(commit));
    bench.engine.flush_all().unwrap();
    drop(bench);
    for (path, _) in disk.files() {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let disk = disk.fork();
        disk.remove(&path).unwrap();
        let error = open(&disk).err().expect("a file is missing");
        assert!(matches!(error.kind(), ErrorKind::Corruption | ErrorKind::NotFound), "{error:?}");
        let number = name.trim_end_matches(".data").trim_start_matches('0');
        assert!(error.to_string().contains(number), "{name}: {error}");
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let findings = crate::verify(&shared, &dir(), &mut |_, _| {});
        assert!(findings.is_err() || !findings.unwrap().findings.is_empty(), "{name}");
    }
}

/// E8: every operation that finds damage reports it with table, extent, location and keys. The
/// engine goes on, and everything else can be read.
#[test]
fn e8_damage_is_told_with_its_keys_by_whoever_meets_it() {
    let cold = |compression| TieredSettings { cold_compression: compression, ..small() };
    let disk = SimDisk::new(5);
    let bench = open_with(Arc::new(disk.clone()), cold(Compression::None)).unwrap();
    let mut commits = vec![(Csn(1), batch(&[Op::CreateTable(table(1))]))];
    for number in 0..400 {
        let (key, value) = (format!("key{number:03}"), noise(number, 1000));
        let op = Op::Put { table: table(1), key: key.as_bytes(), value: &value };
        commits.push((Csn(number + 2), batch(&[op])));
    }
    commits.iter().for_each(|commit| bench.install(commit));
    bench.engine.compact_all().unwrap();
    let (path, start, _) = extents(&bench, 1)[1].clone();
    drop(bench);
    disk.rot(&path, start + 100, 4);

    let told = |what: &str, text: String| {
        let parts = ["table 0x1", "extent ", "data file", "with keys from \"key", "\" to \"key"];
        let missing = parts.iter().find(|part| !text.contains(**part));
        assert!(missing.is_none(), "{what} does not tell {missing:?}: {text}");
        text
    };
    let open = |disk: &SimDisk, settings| {
        let bench = open_with(Arc::new(disk.clone()), settings).unwrap();
        bench.horizon.stable.store(401, Ordering::SeqCst);
        bench
    };
    let newest = Csn(401);
    let bench = open(&disk, cold(Compression::None));
    let get = |key: u64| bench.get(table(1), format!("key{key:03}").as_bytes(), newest);
    let bad: Vec<u64> = (0..400).filter(|key| get(*key).is_err()).collect();
    assert!((1..30).contains(&bad.len()), "{bad:?}");
    let by_get = told("a look-up", get(bad[0]).unwrap_err().to_string());
    assert!(by_get.contains(&format!("keys from \"key{:03}\" to", bad[0])), "{by_get}");
    for direction in [Direction::Forward, Direction::Backward] {
        let scanned = bench.rows(table(1), KeyRange::ALL, direction, newest);
        told("a scan", scanned.unwrap_err().to_string());
    }
    let pin = bench.engine.pin();
    let copied: Vec<_> =
        (0..pin.extents().len()).map(|index| pin.read(index, &mut Vec::new())).collect();
    let failed: Vec<_> = copied.into_iter().filter_map(Result::err).collect();
    assert_eq!(failed.len(), 1);
    told("a backup", failed[0].to_string());
    drop((pin, bench));
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let report = crate::verify(&shared, &dir(), &mut |_, _| {}).unwrap();
    told("a verification", report.findings[0].error.to_string());

    let tiers = vec![crate::space::Tier {
        class: crate::space::DeviceClass::Hdd,
        dir: "/hdd".into(),
        compression: None,
    }];
    let moving = TieredSettings { tiers, ..cold(Compression::None) };
    let recoding = cold(Compression::ZSTD);
    for (what, settings, rewrites) in [
        ("a move", moving, false),
        ("a recompression", recoding, false),
        ("a compaction", cold(Compression::None), true),
    ] {
        let disk = disk.fork();
        let bench = open(&disk, settings);
        if rewrites {
            for number in 0..400 {
                let (key, csn) = (format!("key{number:03}"), Csn(402 + number));
                let op = Op::Put { table: table(1), key: key.as_bytes(), value: b"new" };
                bench.install(&(csn, batch(&[op])));
            }
            bench.engine.flush_all().unwrap();
            told(what, bench.engine.compact_all().unwrap_err().to_string());
        } else {
            bench.work().unwrap();
            told(
                what,
                bench.engine.status()[0]
                    .quarantine
                    .clone()
                    .unwrap_or_else(|| panic!("nothing of {what}")),
            );
        }
        assert!(bench.engine.health().is_ok());
        let met = (0..400)
            .filter(|key| bench.get(table(1), format!("key{key:03}").as_bytes(), newest).is_err());
        assert_eq!(met.count(), bad.len(), "after {what} as before");
    }
}
