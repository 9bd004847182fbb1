//! Tests rewrites of the manifest with concurrent edits: MANIFEST-2 to MANIFEST-5.

use spillway_base::lock::Mutex;
use spillway_base::thread;
use spillway_storage::sim::Fault;

use super::super::read;
use super::*;

fn dir() -> &'static Path {
    Path::new("/d")
}

fn add(table_of: u32, id: u64) -> Edit {
    Edit::AddExtent {
        table: table(table_of),
        meta: ExtentMeta { names: Names::of(Vec::new()), ..meta(id) },
    }
}

/// A table with many extents and few pieces of a file, and one to be dropped.
fn begin(extents: u64) -> Vec<Edit> {
    let create = |ordinal| Edit::CreateTable { table: table(ordinal), created: Csn(2) };
    let mut edits = vec![create(1), create(2), add(2, 1)];
    edits.extend((10..10 + extents).map(|id| add(1, id)));
    edits
}

/// The edits of the `at`th turn. They refer to what earlier turns left, and every third turn is
/// long.
fn turn(at: u64) -> Vec<Edit> {
    let id = 1000 * (at + 1);
    let mut edits = vec![add(1, id), Edit::RemoveExtent { table: table(1), id: ExtentId(10 + at) }];
    let place = Place::Level0(at);
    edits.push(Edit::AddSlice { table: table(1), place, meta: slice(id, 0, 60) });
    if at > 0 {
        let id = SliceId { extent: ExtentId(id - 1000), first_block: 0 };
        edits.push(Edit::RemoveSlice { table: table(1), id });
    }
    if at == 2 {
        edits.push(Edit::DropTable { table: table(2) });
        edits.push(Edit::CreateTable { table: table(3), created: Csn(9) });
    }
    let more = if at.is_multiple_of(3) { 20 } else { 0 };
    edits.extend((0..more).map(|more| add(1, id + 1 + more)));
    edits.push(Edit::Persisted { csn: Csn(100 + at) });
    edits
}

/// A life of a manifest, and its possible contents: what was recorded, and what may have been.
struct Life {
    recorded: State,
    asked: State,
    turns: u64,
    full: bool,
    failed: bool,
    /// Whether a rewrite met a full disk.
    refused: bool,
}

impl Life {
    fn new() -> Life {
        let (recorded, asked) = (State::default(), State::default());
        Life { recorded, asked, turns: 0, full: false, failed: false, refused: false }
    }

    fn commit(&mut self, manifest: &mut Manifest, edits: Vec<Edit>) {
        if self.failed {
            manifest.commit(edits).expect_err("MANIFEST-2: nothing is recorded after a failure");
            return;
        }
        let mut after = self.recorded.clone();
        edits.iter().for_each(|edit| after.apply(edit.clone()).unwrap());
        match manifest.commit(edits) {
            Ok(()) => {
                (self.recorded, self.asked) = (after.clone(), after);
                assert_eq!(*manifest.state(), self.recorded);
            }
            Err(error) if error.kind() == ErrorKind::DiskFull => self.full = true,
            Err(_) => (self.asked, self.failed) = (after, true),
        }
    }

    fn turn(&mut self, manifest: &mut Manifest) {
        self.commit(manifest, turn(self.turns));
        // Edits that a full disk refused are recorded later.
        if self.full {
            self.full = false;
            self.commit(manifest, turn(self.turns));
        }
        self.turns += 1;
    }

    /// Records edits, rewrites the manifest while more edits are recorded, and records more.
    fn live(&mut self, disk: &SimDisk, extents: u64) {
        disk.create_dir_all(dir()).unwrap();
        let Ok(manifest) = Manifest::open(Arc::new(disk.clone()), dir(), 4096, 1) else { return };
        let manifest = Mutex::new(manifest);
        self.commit(&mut manifest.lock(), begin(extents));
        if self.recorded.tables.is_empty() {
            return;
        }
        self.turn(&mut manifest.lock());
        for _ in 0..2 {
            let rewrite = manifest.lock().begin_rewrite();
            let Some(rewrite) = rewrite else {
                assert!(self.failed, "MANIFEST-5: another rewrite begins");
                break;
            };
            assert!(!manifest.lock().is_long(), "there is one under way");
            let rewritten = rewrite.run_with(&manifest, &mut |manifest| {
                self.turn(&mut manifest.lock());
            });
            if let Err(error) = rewritten {
                let is_full = error.kind() == ErrorKind::DiskFull;
                self.failed |= !is_full;
                self.refused |= is_full;
                assert!(is_full || manifest.lock().commit(Vec::new()).is_err(), "MANIFEST-2");
                assert!(!manifest.lock().is_long(), "MANIFEST-5: not at every turn");
            }
            self.turn(&mut manifest.lock());
        }
    }

    /// Checks that a restart reads what was recorded, possibly with what may have been.
    fn check(&self, disk: &SimDisk, when: &str) {
        let found = read(disk, dir()).unwrap().map(|(state, _)| state).unwrap_or_default();
        assert!(found == self.recorded || found == self.asked, "{when}: {found:?}");
    }
}

/// MANIFEST-1 to MANIFEST-5: every operation fails once, in each way a disk can fail, with edits
/// before, between and after the steps of two rewrites; then the machine stops, or the process
/// does. The manifest in force has all recorded edits.
#[test]
fn a_rewrite_that_fails_anywhere_loses_no_edit() {
    let whole = SimDisk::new(0);
    let mut life = Life::new();
    life.live(&whole, 30);
    life.check(&whole, "whole");
    assert!(life.turns > 9 && life.recorded == life.asked, "{}", life.turns);
    assert_eq!(whole.list(dir()).unwrap(), ["CURRENT", "MANIFEST-000003"]);
    let operations = whole.operations();
    assert!(operations > 80, "{operations}");
    let (mut failed, mut refused) = (0, 0);
    for fault in [Fault::Io, Fault::ShortWrite, Fault::Full, Fault::Crash] {
        for number in 1..=operations {
            for seed in 0..4 {
                let disk = SimDisk::new(1000 * number + seed);
                disk.fail_operation(number, fault);
                let mut life = Life::new();
                life.live(&disk, 30);
                failed += u64::from(life.failed);
                refused += u64::from(life.refused && !life.failed);
                if seed == 0 {
                    disk.kill();
                } else {
                    disk.crash();
                }
                disk.restart();
                let when = format!("{fault:?} at {number}, seed {seed}");
                life.check(&disk, &when);
                let mut manifest = open(&disk);
                let found = manifest.state().clone();
                assert!(found == life.recorded || found == life.asked, "{when}");
                manifest.commit(vec![Edit::Known { csn: Csn(7) }]).unwrap();
                manifest.rewrite().unwrap();
                assert_eq!(*open(&disk).state(), *manifest.state(), "{when}");
            }
        }
    }
    assert!(failed > operations && refused > 4 * 20, "{failed} {refused}");
}

/// MANIFEST-5: on a full disk the manifest continues, and retries the rewrite once it has grown by
/// half.
#[test]
fn a_rewrite_waits_for_room() {
    let disk = SimDisk::new(1);
    disk.create_dir_all(dir()).unwrap();
    let manifest = Manifest::open(Arc::new(disk.clone()), dir(), 4096, 1 << 10).unwrap();
    let manifest = Mutex::new(manifest);
    manifest.lock().commit(begin(100)).unwrap();
    assert!(manifest.lock().is_long());
    disk.set_capacity(Some(disk.used() + 1000));
    let bytes = manifest.lock().bytes();
    let rewrite = manifest.lock().begin_rewrite().unwrap();
    assert_eq!(rewrite.run(&manifest).unwrap_err().kind(), ErrorKind::DiskFull);
    assert!(disk.available(dir()).unwrap() >= 1000, "what was written is given back");
    disk.set_capacity(None);
    for at in 0.. {
        let mut manifest = manifest.lock();
        assert_eq!(manifest.is_long(), manifest.bytes() > bytes + bytes / 2);
        if manifest.is_long() {
            break;
        }
        manifest.commit(turn(at)).unwrap();
    }
    let before = manifest.lock().state().clone();
    let rewrite = manifest.lock().begin_rewrite().unwrap();
    rewrite.run(&manifest).unwrap();
    assert!(!manifest.lock().is_long());
    assert_eq!(read(&disk, dir()).unwrap().unwrap().0, before);
}

/// MANIFEST-3: an edit reaches its own sync while a rewrite is held up in one of its syncs. The
/// work under the manifest's lock is the same for few extents as for many.
#[test]
fn an_edit_does_not_wait_for_a_rewrite() {
    let disk = SimDisk::new(1);
    let manifest = Arc::new(Mutex::new(open(&disk)));
    manifest.lock().commit(begin(500)).unwrap();
    let hold = disk.hold_syncs();
    let rewrite = manifest.lock().begin_rewrite().unwrap();
    let shared = manifest.clone();
    let rewriter = thread::spawn("rewriter", move || rewrite.run(&shared)).unwrap();
    hold.wait_for(1);
    let shared = manifest.clone();
    let editor = thread::spawn("editor", move || shared.lock().commit(turn(0))).unwrap();
    hold.wait_for(2);
    drop(hold);
    editor.join().unwrap().unwrap();
    rewriter.join().unwrap().unwrap();
    assert_eq!(*open(&disk).state(), *manifest.lock().state());

    let locked = [5, 500].map(|extents| {
        let disk = SimDisk::new(1);
        let manifest = Mutex::new(open(&disk));
        manifest.lock().commit(begin(extents)).unwrap();
        let rewrite = manifest.lock().begin_rewrite().unwrap();
        let mut at = Vec::new();
        rewrite.run_with(&manifest, &mut |_| at.push(disk.operations())).unwrap();
        let [begun, told, switched] = at[..] else { panic!("{at:?}") };
        assert!(extents < 500 || told - begun > 30, "{at:?}");
        switched - told
    });
    assert_eq!(locked, [2, 2], "a rename, and a sync of the folder");
}

/// MANIFEST-1, MANIFEST-4: another thread records edits during one rewrite after another, until the
/// machine stops.
#[test]
fn edits_and_rewrites_race() {
    for seed in 0..60 {
        let disk = SimDisk::new(seed);
        let manifest = Arc::new(Mutex::new(open(&disk)));
        let mut life = Life::new();
        life.commit(&mut manifest.lock(), begin(200));
        if seed % 3 != 0 {
            disk.fail_operation(disk.operations() + 1 + Rng::new(seed).below(400), Fault::Crash);
        }
        let shared = manifest.clone();
        let editor = thread::spawn("editor", move || {
            for _ in 0..100 {
                life.turn(&mut shared.lock());
            }
            life
        });
        let editor = editor.unwrap();
        let mut rewrites = 0;
        loop {
            let rewrite = manifest.lock().begin_rewrite();
            let Some(rewrite) = rewrite else { break };
            rewrites += u64::from(rewrite.run(&manifest).is_ok());
            if editor.is_finished() {
                break;
            }
        }
        let life = editor.join().unwrap();
        assert!(rewrites > 0 || seed % 3 != 0);
        disk.crash();
        disk.restart();
        life.check(&disk, &format!("seed {seed}"));
    }
}

/// DICTIONARY-2, MANIFEST-4: a dictionary that was left out of a picture is there again with an
/// extent that names it. A dictionary that no extent names is removed.
#[test]
fn what_is_named_in_the_middle_of_a_rewrite_stays() {
    let named = |names| Edit::AddExtent { table: table(1), meta: ExtentMeta { names, ..meta(90) } };
    let four = named(Names::of(vec![DictionaryId(4)]));
    let cases = [(None, vec![2, 3, 5]), (Some(four), vec![2, 3, 4, 5])];
    for (edit, wanted) in cases {
        for long in [false, true] {
            let disk = SimDisk::new(1);
            let manifest = Mutex::new(open(&disk));
            manifest.lock().commit(naming()).unwrap();
            let rewrite = manifest.lock().begin_rewrite().unwrap();
            let mut edit = edit.clone();
            let between = &mut |manifest: &Mutex<Manifest>| {
                let mut edits: Vec<_> = edit.take().into_iter().collect();
                if long && !edits.is_empty() {
                    edits.extend((200..230).map(|id| add(1, id)));
                }
                manifest.lock().commit(edits).unwrap();
            };
            rewrite.run_with(&manifest, between).unwrap();
            assert_eq!(dictionaries(manifest.lock().state()), wanted);
            assert_eq!(dictionaries(&read(&disk, dir()).unwrap().unwrap().0), wanted);
            assert_eq!(*open(&disk).state(), *manifest.lock().state());
        }
    }
}
