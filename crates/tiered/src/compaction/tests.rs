//! Merges of sources: which slices stay, which blocks are carried, and which are merged. Tests with
//! random sources check COMPACTION-1 to COMPACTION-5.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use spillway_base::budget::{Budget, Use};
use spillway_base::engine::Access;
use spillway_base::rng::Rng;
use spillway_base::{Csn, Result, TableId};
use spillway_storage::sim::SimDisk;
use spillway_storage::{Disk, OpenMode};

use super::input::{MergeInput, Origin};
use super::offload::{Accelerator, Checked, Cpu, MergeTask, Piece};
use super::plan::{Planner, Policy, Step, TASK_BYTES};
use super::rule::Sieve;
use super::split_points::SplitPoints;
use super::writer::{Coder, MergeResult, MergeWriter, Output, Tally};
use super::{DropRule, Sorts};
use crate::block::{BLOCK_BYTES, Block, BlockWriter, BuiltBlock, Entry};
use crate::bulk_io::Bulk;
use crate::coding::{Coding, Compression};
use crate::extent::{
    BlockParts, BuiltExtent, ExtentBuilder, ExtentHandle, ReadContext, ReadSettings,
};
use crate::extent_meta::ExtentId;
use crate::level::Slice;
use crate::memtable::{Accounts, Memtable};
use crate::ranges::RangeTombstones;
use crate::space::{DeviceClass, Folder, SpaceManager};

static NONE: RangeTombstones = RangeTombstones::NONE;

const TABLE: TableId = TableId(3);
const SLOT: usize = 2 << 20;

/// Files for extents, and their contents.
struct Yard {
    bulk: Bulk,
    space: Arc<SpaceManager>,
    context: Arc<ReadContext>,
    next: u64,
    slices: Vec<Arc<Slice>>,
}

impl Yard {
    fn new(slot: usize) -> Yard {
        let budget = Budget::new(usize::MAX);
        let disk = Arc::new(SimDisk::new(1));
        spillway_storage::Disk::create_dir_all(&*disk, Path::new("/data")).unwrap();
        let space = SpaceManager::open(
            disk,
            vec![Folder::only(Path::new("/data"))],
            slot as u64,
            64 << 20,
            [].into_iter(),
        );
        let context = ReadContext::new(ReadSettings::once(64 << 20), None, &budget);
        let space = Arc::new(space.unwrap());
        let bulk = space.bulk(&budget, true, false).unwrap();
        Yard { bulk, space, context, next: 1, slices: Vec::new() }
    }

    /// One extent of these blocks, as a slice.
    fn extent(&mut self, blocks: &[BuiltBlock]) -> Arc<Slice> {
        let mut builder = ExtentBuilder::new(TABLE, self.space.slot_bytes(), Coding::Stored);
        blocks.iter().for_each(|block| builder.push(&BlockParts::from(block)));
        self.write(&mut builder).unwrap();
        self.slices.pop().unwrap()
    }
}

impl Output for Yard {
    fn write(&mut self, extent: &mut ExtentBuilder) -> Result<()> {
        let BuiltExtent { mut meta, slices, bytes } = extent.finish(ExtentId(self.next));
        self.next += 1;
        meta.slots = self.space.allocate(meta.slots.count, DeviceClass::Ssd)?;
        let (file, offset) = self.space.locate(meta.slots)?;
        self.bulk.write(file.file(), offset, &bytes)?;
        self.bulk.finish_writes()?;
        let extent = ExtentHandle::new(TABLE, meta, &self.space, &self.context)?;
        for meta in slices {
            extent.change_live_bytes(meta.bytes, 0);
            self.slices.push(Slice::new(Arc::new(meta), extent.clone()));
        }
        Ok(())
    }
}

/// A block of all keys from one number up to another.
fn dense(from: u64, to: u64, csn: u64) -> BuiltBlock {
    block_of(std::slice::from_ref(&(from..to)), csn)
}

type Versions = BTreeMap<(Vec<u8>, std::cmp::Reverse<u64>), Option<Vec<u8>>>;

/// Blocks of these versions, each of at most `most` versions.
fn blocks(versions: &Versions, most: usize) -> Vec<BuiltBlock> {
    let mut all = Vec::new();
    let entries: Vec<_> = versions.iter().collect();
    for part in entries.chunks(most) {
        let mut writer = BlockWriter::default();
        for ((key, csn), value) in part {
            writer.push(&Entry { key, csn: Csn(csn.0), value: value.as_deref() });
        }
        all.extend(writer.finish());
    }
    all
}

fn read(slice: &Slice) -> Versions {
    let resident = slice.extent.resident(Access::Blocking).unwrap();
    let mut versions = Versions::new();
    for index in slice.meta.block_range() {
        let block = slice.extent.read_block(&resident, index).unwrap();
        for entry in (0..block.len()).map(|at| block.entry(at)) {
            assert!(resident.may_contain(index, crate::filter::hash(entry.key)));
            let at = (entry.key.to_vec(), std::cmp::Reverse(entry.csn.0));
            assert!(versions.insert(at, entry.value.map(<[u8]>::to_vec)).is_none());
        }
    }
    assert_eq!(*slice.meta, resident.slice(slice.meta.extent, slice.meta.block_range()));
    versions
}

fn policy(slot: usize) -> Policy {
    let extent = slot as u64;
    Policy {
        reuse: true,
        others_from: Csn::ZERO,
        slice_bytes_min: extent / 8,
        used_bytes_min: extent / 2,
        coding_min: Coding::Stored,
        block_bytes: BLOCK_BYTES,
    }
}

fn key(number: u64) -> Vec<u8> {
    format!("{number:06}").into_bytes()
}

/// A block of the keys of these ranges, with values large enough that it is not small.
fn block_of(ranges: &[Range<u64>], csn: u64) -> BuiltBlock {
    let count: u64 = ranges.iter().map(|range| range.end - range.start).sum();
    let value = vec![7; 9000 / count as usize];
    let mut writer = BlockWriter::default();
    for number in ranges.iter().cloned().flatten() {
        writer.push(&Entry { key: &key(number), csn: Csn(csn), value: Some(&value) });
    }
    let mut blocks = writer.finish();
    assert_eq!(blocks.len(), 1);
    blocks.remove(0)
}

fn show(range: (&[u8], &[u8])) -> String {
    let number = |key: &[u8]| String::from_utf8(key.to_vec()).unwrap().parse::<u64>().unwrap();
    format!("{}-{}", number(range.0), number(range.1))
}

/// The paper's example, section 3.3.2, figure 8.
#[test]
fn compaction_3_the_example_of_the_paper() {
    // In this test, extents of a few small blocks count as full.
    let policy = Policy { slice_bytes_min: 15_000, used_bytes_min: 0, ..policy(SLOT) };
    let mut yard = Yard::new(SLOT);
    let upper = vec![
        yard.extent(&[dense(1, 26, 2), dense(32, 36, 2)]),
        yard.extent(&[dense(80, 90, 2), block_of(&[106..136, 180..201], 2)]),
        yard.extent(&[dense(210, 230, 2), dense(240, 281, 2)]),
    ];
    let lower = vec![
        yard.extent(&[dense(1, 31, 1)]),
        yard.extent(&[dense(50, 60, 1), dense(60, 71, 1)]),
        yard.extent(&[dense(100, 131, 1)]),
        yard.extent(&[dense(150, 160, 1), dense(160, 171, 1)]),
        yard.extent(&[dense(190, 206, 1)]),
    ];
    let sources = [upper, lower].map(|slices| MergeInput::of_slices(slices, &yard.bulk)).into();
    let mut planner = Planner::new(sources, policy, &NONE);
    let mut steps = Vec::new();
    while let Some(step) = planner.next().unwrap() {
        steps.push(match step {
            Step::Relink(slice) => {
                format!("reuse extent {}", show((&slice.meta.smallest, &slice.meta.largest)))
            }
            Step::Pass(Origin::Extent(open, block)) => {
                let resident = &open.resident;
                format!("reuse block {}", show((resident.first(block), resident.last(block))))
            }
            Step::Pass(Origin::Memory(..)) => unreachable!("there is no memtable"),
            Step::Merge(task) => {
                let sources = task.sources.iter().flatten().map(|piece| {
                    let (first, last) = (piece.entries.start, piece.entries.end - 1);
                    show((piece.block.entry(first).key, piece.block.entry(last).key))
                });
                format!("merge {}", sources.collect::<Vec<_>>().join(" and "))
            }
        });
    }
    assert_eq!(
        steps,
        [
            "merge 1-25 and 1-30",
            "reuse block 32-35",
            "reuse extent 50-70",
            "reuse block 80-89",
            // The second block of [80, 200] has no key between 135 and 180, and is split there.
            "merge 106-135 and 100-130",
            "reuse extent 150-170",
            "merge 180-200 and 190-205",
            "reuse extent 210-280",
        ]
    );
}

/// Random sources. Returns them with all their versions, the newest source first.
fn random_sources(yard: &mut Yard, rng: &mut Rng) -> (Vec<Vec<Arc<Slice>>>, Versions) {
    let mut all = Versions::new();
    let count = 1 + rng.below(4);
    let mut sources = Vec::new();
    for source in 0..count {
        let csns = (count - source) * 100;
        let mut versions = Versions::new();
        let mut at = rng.below(200);
        while at < 20_000 {
            // A cluster of keys, and a gap.
            let step = 1 + rng.below(3);
            for _ in 0..rng.below(1200) {
                for version in 0..if rng.chance(1, 300) { 1 + rng.below(4) } else { 1 } {
                    let value = rng.chance(199, 200).then(|| vec![1; rng.below(300) as usize]);
                    versions.insert((key(at), std::cmp::Reverse(csns + version)), value);
                }
                at += step;
            }
            at += rng.below(4000);
        }
        let most = 20 + rng.below(200) as usize;
        let blocks = blocks(&versions, most);
        let mut slices = Vec::new();
        let mut builder = ExtentBuilder::new(TABLE, yard.space.slot_bytes(), Coding::Stored);
        for block in &blocks {
            let parts = BlockParts::from(block);
            if builder.is_full_for(&parts) {
                yard.write(&mut builder).unwrap();
            }
            builder.push(&parts);
        }
        if !blocks.is_empty() {
            yard.write(&mut builder).unwrap();
        }
        slices.append(&mut yard.slices);
        all.extend(versions);
        sources.push(slices);
    }
    (sources, all)
}

fn run_merge(
    yard: &mut Yard,
    sources: &[Vec<Arc<Slice>>],
    rule: &DropRule<'_>,
    policy: Policy,
    accelerator: &dyn Accelerator,
) -> (Vec<Arc<Slice>>, Tally) {
    run_merge_coded(yard, sources, rule, policy, accelerator, Compression::None)
}

fn run_merge_coded(
    yard: &mut Yard,
    sources: &[Vec<Arc<Slice>>],
    rule: &DropRule<'_>,
    policy: Policy,
    accelerator: &dyn Accelerator,
    compression: Compression,
) -> (Vec<Arc<Slice>>, Tally) {
    let bulk = yard.bulk.clone();
    let supplies = sources.iter().cloned().map(|s| MergeInput::of_slices(s, &bulk)).collect();
    let mut planner = Planner::new(supplies, policy, &NONE);
    let coder = Coder::new(compression, None);
    let builder = ExtentBuilder::new(TABLE, yard.space.slot_bytes(), coder.coding());
    let mut weaver = MergeWriter::new(builder, rule, policy, accelerator, coder, yard);
    let mut longest = 0;
    while let Some(step) = planner.next().unwrap() {
        if let Step::Merge(task) = &step {
            longest = longest.max(task.bytes());
        }
        weaver.take(step).unwrap();
    }
    let most = TASK_BYTES + (sources.len() as u64 + 1) * (24 << 10);
    assert!(longest <= most, "COMPACTION-5: a task of {longest} bytes");
    let MergeResult { stays: mut slices, tally, refusal } = weaver.finish().unwrap();
    assert_eq!(refusal.is_some(), tally.refused_tasks > 0);
    slices.append(&mut yard.slices);
    slices.sort_by(|a, b| a.meta.smallest.cmp(&b.meta.smallest));
    (slices, tally)
}

#[test]
fn compaction_1_2_5_outputs_are_what_a_plain_merge_gives_with_and_without_reuse() {
    let mut rng = Rng::new(11);
    let mut total = Tally::default();
    for round in 0..40 {
        let slot = 128 << 10;
        let mut yard = Yard::new(slot);
        let (sources, all) = random_sources(&mut yard, &mut rng);
        let live = [Csn(rng.below(500)), Csn(1000)];
        let others_from = if round % 2 == 0 { Csn::MAX } else { Csn::ZERO };
        let rule = DropRule { live: &live, others_from, ranges: &NONE, rewrite: None };
        let mut wanted = Versions::new();
        let mut sieve = Sieve::new(&rule);
        for ((key, csn), value) in &all {
            if sieve.keeps(&Entry { key, csn: Csn(csn.0), value: value.as_deref() }) {
                wanted.insert((key.clone(), *csn), value.clone());
            }
        }
        let compression = [Compression::None, Compression::Lz4, Compression::ZSTD][round % 3];
        for reuse in [true, false] {
            let coding_min = if round % 4 == 3 { compression.coding() } else { Coding::Stored };
            let policy = Policy { reuse, others_from, coding_min, ..policy(slot) };
            let by = Checked(Cpu, Sorts);
            let (slices, tally) =
                run_merge_coded(&mut yard, &sources, &rule, policy, &by, compression);
            let stronger = slices.iter().all(|slice| slice.extent.meta.coding >= coding_min);
            assert!(stronger, "what is coded less than it should be did not stay");
            let coded = compression != Compression::None && tally.merged_blocks > 0;
            assert_eq!(tally.coded_bytes < tally.coded_from_bytes, coded);
            let disjoint =
                slices.windows(2).all(|pair| pair[0].meta.largest < pair[1].meta.smallest);
            assert!(disjoint, "COMPACTION-2");
            let mut found = Versions::new();
            slices.iter().for_each(|slice| found.extend(read(slice)));
            assert!(found == wanted, "COMPACTION-1, round {round}, reuse {reuse}");
            let alone = sources.iter().flatten().map(|slice| slice.meta.id());
            let stays = alone.filter(|id| slices.iter().any(|slice| slice.meta.id() == *id));
            if reuse {
                total.relinked_slices += tally.relinked_slices;
                total.carried_blocks += tally.carried_blocks;
                total.merged_blocks += tally.merged_blocks;
            } else {
                assert_eq!((tally.relinked_slices, tally.carried_blocks, stays.count()), (0, 0, 0));
            }
        }
    }
    assert!(total.relinked_slices > 20 && total.carried_blocks > 200, "{total:?}");
}

#[test]
fn compaction_4_small_blocks_and_thin_extents_are_put_together() {
    let mut yard = Yard::new(SLOT);
    // Eight hundred blocks of 40 bytes each, in a source of their own.
    let tiny: Vec<BuiltBlock> = (0..800)
        .map(|number| {
            let mut writer = BlockWriter::default();
            writer.push(&Entry { key: &key(number), csn: Csn(1), value: Some(&[1; 20]) });
            writer.finish().remove(0)
        })
        .collect();
    let thin = yard.extent(&tiny);
    let rule = DropRule { live: &[Csn(9)], others_from: Csn::MAX, ranges: &NONE, rewrite: None };
    let (slices, tally) = run_merge(&mut yard, &[vec![thin.clone()]], &rule, policy(SLOT), &Cpu);
    assert_eq!((tally.relinked_slices, tally.carried_blocks), (0, 0));
    let resident = slices[0].extent.resident(Access::Blocking).unwrap();
    assert_eq!((slices.len(), resident.blocks()), (1, 2));
    assert_eq!(read(&slices[0]), read(&thin));
}

/// Four extents of a hundred small blocks each. Above each of them is another extent with one key,
/// [`middle_of`] the extent below.
fn one_in_the_middle_of_each(yard: &mut Yard) -> (Vec<Arc<Slice>>, Vec<Arc<Slice>>) {
    let lower = (0..4).map(|extent| {
        let begins = (0..100).map(|block| extent * 100_000 + block * 1000);
        let blocks: Vec<_> = begins.map(|from| dense(from, from + 9, 1)).collect();
        yard.extent(&blocks)
    });
    let lower = lower.collect();
    let one = |extent| dense(middle_of(extent), middle_of(extent) + 1, 2);
    let upper = (0..4).map(|extent| yard.extent(&[one(extent)])).collect();
    (upper, lower)
}

fn middle_of(extent: u64) -> u64 {
    extent * 100_000 + 50_004
}

#[test]
fn compaction_4_what_lies_between_two_slices_that_stay_is_put_into_one_extent() {
    let mut yard = Yard::new(SLOT);
    let (upper, lower) = one_in_the_middle_of_each(&mut yard);
    let rule = DropRule { live: &[Csn(9)], others_from: Csn::MAX, ranges: &NONE, rewrite: None };
    let policy = Policy { used_bytes_min: 0, ..policy(SLOT) };
    let (slices, tally) = run_merge(&mut yard, &[upper, lower], &rule, policy, &Cpu);
    assert_eq!((tally.relinked_slices, tally.merged_blocks), (8, 4));
    let mut new: Vec<ExtentId> = slices.iter().map(|slice| slice.meta.extent).collect();
    new.sort_unstable();
    new.dedup();
    assert_eq!((slices.len(), new.len()), (12, 5), "four old extents and a new one");
}

#[test]
fn an_accelerator_that_fails_or_lies_is_noticed() {
    struct Lies;
    impl Accelerator for Lies {
        fn batch(&self) -> usize {
            1
        }

        fn merge(&self, tasks: &[MergeTask], rule: &DropRule<'_>) -> Result<Vec<Vec<BuiltBlock>>> {
            let mut merged = Cpu.merge(tasks, rule)?;
            merged.iter_mut().flatten().for_each(|block| block.counts.versions += 1);
            Ok(merged)
        }
    }
    let mut yard = Yard::new(SLOT);
    let one = yard.extent(&[dense(1, 20, 1)]);
    let two = yard.extent(&[dense(5, 25, 2)]);
    let rule = DropRule { live: &[Csn(9)], others_from: Csn::MAX, ranges: &NONE, rewrite: None };
    let supplies =
        || [&two, &one].map(|slice| MergeInput::of_slices(vec![slice.clone()], &yard.bulk)).into();
    let mut planner = Planner::new(supplies(), policy(SLOT), &NONE);
    let Some(Step::Merge(task)) = planner.next().unwrap() else { unreachable!("they overlap") };
    let error = Checked(Cpu, Lies).merge(&[task], &rule).unwrap_err();
    assert!(error.to_string().contains("different blocks of task 0"), "{error}");
    // OFFLOAD-3: the CPU does the work.
    let sources = [vec![two.clone()], vec![one.clone()]];
    let (slices, tally) = run_merge(&mut yard, &sources, &rule, policy(SLOT), &Checked(Cpu, Lies));
    assert_eq!(read(&slices[0]).len(), 24);
    assert!(tally.refused_tasks > 0, "and somebody is told");
    assert_eq!(tally.checked_tasks, 0);
    let (_, tally) = run_merge(&mut yard, &sources, &rule, policy(SLOT), &Checked(Cpu, Sorts));
    assert_eq!((tally.checked_tasks, tally.refused_tasks), (1, 0));
    let (_, tally) = run_merge(&mut yard, &sources, &rule, policy(SLOT), &Cpu);
    assert_eq!((tally.checked_tasks, tally.refused_tasks), (0, 0), "nobody compares");
}

/// Of several tasks, only those that are refused are counted and reported.
#[test]
fn who_refuses_one_of_several_tasks_does_the_others() {
    /// Refuses the tasks that have a key, this many times.
    struct Refuses(Vec<u8>, AtomicU64);
    impl Accelerator for Refuses {
        fn batch(&self) -> usize {
            3
        }

        fn compares(&self) -> bool {
            true
        }

        fn merge(&self, tasks: &[MergeTask], rule: &DropRule<'_>) -> Result<Vec<Vec<BuiltBlock>>> {
            let has = |task: &MergeTask| task.keys().0 <= &*self.0 && task.keys().1 >= &*self.0;
            let less = |left: u64| left.checked_sub(1);
            if tasks.iter().any(has)
                && self.1.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
            {
                return Err(spillway_base::Error::invalid("not this one"));
            }
            Cpu.merge(tasks, rule)
        }
    }
    let mut yard = Yard::new(SLOT);
    let (upper, lower) = one_in_the_middle_of_each(&mut yard);
    let sources = [upper, lower];
    let rule = DropRule { live: &[Csn(9)], others_from: Csn::MAX, ranges: &NONE, rewrite: None };
    let (wanted, tally) = run_merge(&mut yard, &sources, &rule, policy(SLOT), &Cpu);
    assert_eq!(tally.merged_blocks, 4);
    let rows =
        |slices: &[Arc<Slice>]| slices.iter().flat_map(|slice| read(slice)).collect::<Versions>();
    // Refused with two others and then alone; or only the first time, with the others.
    for (times, checked) in [(2, 3), (1, 4)] {
        let refuses = Refuses(key(middle_of(1)), AtomicU64::new(times));
        let (slices, tally) = run_merge(&mut yard, &sources, &rule, policy(SLOT), &refuses);
        assert_eq!((tally.checked_tasks, tally.refused_tasks), (checked, 1), "{times}");
        assert_eq!(rows(&slices), rows(&wanted));
    }
}

/// If the versions of a memtable's key fill several blocks, they stay together. The key is counted
/// once, whichever entries the later blocks are merged with.
#[test]
fn compaction_2_a_key_that_fills_blocks_of_a_memtable_is_counted_once() {
    let mut yard = Yard::new(SLOT);
    let lower = yard.extent(&[dense(10, 20, 1)]);
    let accounts = Accounts::new(Budget::new(usize::MAX), 0);
    let memtable = Memtable::new(&accounts);
    let inside = memtable.enter().unwrap();
    for csn in 2..10 {
        memtable.insert(&inside, &key(5), Csn(csn), Some(&[csn as u8; 6000]));
    }
    memtable.insert(&inside, &key(15), Csn(10), Some(b"of the same block as the last of those"));
    drop(inside);
    let live: Vec<Csn> = (1..=10).map(Csn).collect();
    let rule = DropRule { live: &live, others_from: Csn::MAX, ranges: &NONE, rewrite: None };
    let range = spillway_base::KeyRange::ALL;
    let supplies = vec![
        MergeInput::of_memtable(&memtable, range, &rule, SplitPoints::NONE, BLOCK_BYTES),
        MergeInput::of_slices(vec![lower.clone()], &yard.bulk),
    ];
    let mut planner = Planner::new(supplies, policy(SLOT), &NONE);
    let coder = Coder::new(Compression::None, None);
    let builder = ExtentBuilder::new(TABLE, SLOT, coder.coding());
    let mut weaver = MergeWriter::new(builder, &rule, policy(SLOT), &Cpu, coder, &mut yard);
    while let Some(step) = planner.next().unwrap() {
        weaver.take(step).unwrap();
    }
    assert!(weaver.finish().unwrap().stays.is_empty());
    let [slice] = &yard.slices[..] else { panic!("one slice") };
    assert_eq!(read(slice).len(), 8 + 11);
    assert_eq!((slice.meta.counts.versions, slice.meta.counts.keys), (19, 11));
}

/// COMPACTION-6: the slices of a flushed memtable end at each cut. No slice has keys on both sides
/// of a cut, even if a key fills many blocks. Every entry is there once (COMPACTION-1,
/// COMPACTION-2).
#[test]
fn compaction_6_what_comes_from_a_memtable_is_cut_where_it_is_to_be() {
    let mut rng = Rng::new(5);
    let (mut parts, mut in_blocks) = (0, 0);
    for _ in 0..60 {
        let slot = 128 << 10;
        let mut yard = Yard::new(slot);
        let memtable = Memtable::new(&Accounts::new(Budget::new(usize::MAX), 0));
        let inside = memtable.enter().unwrap();
        let mut wanted = Versions::new();
        let mut csn = 1;
        for _ in 0..1 + rng.below(80) {
            let key = key(rng.below(100));
            let (versions, most) = if rng.chance(1, 8) { (8, 9000) } else { (1, 600) };
            for _ in 0..versions {
                csn += 1;
                let value = vec![csn as u8; 1 + rng.below(most) as usize];
                memtable.insert(&inside, &key, Csn(csn), Some(&value));
                wanted.insert((key.clone(), std::cmp::Reverse(csn)), Some(value));
            }
        }
        drop(inside);
        let mut cuts: Vec<Box<[u8]>> =
            (0..rng.below(8)).map(|_| key(rng.below(102)).into()).collect();
        cuts.sort_unstable();
        cuts.dedup();
        let cuts = SplitPoints::before(cuts);
        let live: Vec<Csn> = (1..=csn).map(Csn).collect();
        let rule = DropRule { live: &live, others_from: Csn::MAX, ranges: &NONE, rewrite: None };
        let range = spillway_base::KeyRange::ALL;
        let supplies = vec![MergeInput::of_memtable(&memtable, range, &rule, &cuts, BLOCK_BYTES)];
        let mut planner = Planner::new(supplies, policy(slot), &NONE).cut_at(&cuts);
        let coder = Coder::new(Compression::None, None);
        let builder = ExtentBuilder::new(TABLE, slot, coder.coding());
        let weaver = MergeWriter::new(builder, &rule, policy(slot), &Cpu, coder, &mut yard);
        let mut weaver = weaver.cut_at(&cuts);
        while let Some(step) = planner.next().unwrap() {
            weaver.take(step).unwrap();
        }
        assert!(weaver.finish().unwrap().stays.is_empty());
        let mut found = Versions::new();
        for slice in &yard.slices {
            let side = |key: &[u8]| cuts.before_key(key);
            let (smallest, largest) = (&slice.meta.smallest, &slice.meta.largest);
            assert_eq!(side(smallest), side(largest), "{smallest:?} to {largest:?}, {cuts:?}");
            in_blocks += usize::from(smallest == largest && slice.meta.blocks > 1);
            found.extend(read(slice));
        }
        let mut pairs = yard.slices.windows(2);
        assert!(pairs.all(|pair| pair[0].meta.largest < pair[1].meta.smallest), "COMPACTION-2");
        assert!(found == wanted, "COMPACTION-1");
        parts += yard.slices.len();
    }
    assert!(parts > 200 && in_blocks > 5, "{parts} slices, {in_blocks} of one key");
}

/// E1: of two versions of one commit, that of the newer source is kept, whichever levels the two
/// sources are in when they are merged.
#[test]
fn e1_of_versions_of_one_commit_the_newest_sources_is_kept() {
    let entry = |number, csn, value| (key(number), Csn(csn), value);
    let piece = |entries: &[(Vec<u8>, Csn, Option<&'static [u8]>)]| {
        let mut writer = BlockWriter::default();
        for (key, csn, value) in entries {
            writer.push(&Entry { key, csn: *csn, value: *value });
        }
        let block = Arc::new(Block::of_built(&writer.finish()[0].frame).unwrap());
        vec![Piece { entries: 0..block.len(), block }]
    };
    let old = Some(&b"old"[..]);
    for newer in [vec![entry(2, 7, None)], vec![entry(1, 3, old), entry(2, 7, None)]] {
        for older in [vec![entry(2, 7, old)], vec![entry(1, 2, old), entry(2, 7, old)]] {
            let sources = vec![piece(&newer), piece(&older)];
            let task = MergeTask { sources, block_bytes: BLOCK_BYTES };
            let rule =
                DropRule { live: &[Csn(9)], others_from: Csn::ZERO, ranges: &NONE, rewrite: None };
            let blocks = Cpu.merge(&[task], &rule).unwrap().concat();
            let block = Block::of_built(&blocks[0].frame).unwrap();
            let all: Vec<_> = (0..block.len()).map(|at| block.entry(at)).collect();
            let of_two: Vec<_> = all.iter().filter(|entry| entry.key == key(2)).collect();
            assert!(of_two.len() == 1 && of_two[0].value.is_none());
        }
    }
}

/// Decision 007: any number of reads may be begun and cancelled, before or after they complete.
#[test]
fn reads_that_are_given_up_leave_their_buffers() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new(1));
    let budget = Budget::new(16 << 20);
    let file = disk.open(Path::new("/data"), OpenMode::Create).unwrap();
    let bulk = Bulk::new(&*disk, &budget, true, true).unwrap();
    let mut bytes = vec![0; SLOT];
    Rng::new(1).fill(&mut bytes);
    bulk.write(&file, 0, &bytes).unwrap();
    bulk.finish_writes().unwrap();
    let used = || budget.used_for(Use::Compactions);
    for round in 0..200 {
        let [one, other] = [0, 16 << 10].map(|at| bulk.begin_read(&file, at, 16 << 10));
        // The other read may have completed by now.
        let frames = bulk.take(other).unwrap();
        assert_eq!(&frames[..16 << 10], &bytes[16 << 10..32 << 10]);
        bulk.give_back(frames);
        bulk.give_up(one);
        // The buffers of the writes, and those of some reads.
        assert!(used() <= SLOT + 16 * (16 << 10), "{} in round {round}", used());
    }
    // A read past the end of the file fails, but no caller sees the failure.
    bulk.give_up(bulk.begin_read(&file, 1 << 30, 16 << 10));
    bulk.finish_writes().unwrap();
}

/// Decision 007: the limits hold for any size of writes and any number of writers.
#[test]
fn buffers_keep_to_their_share_of_the_memory() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new(1));
    let budget = Budget::new(16 << 20);
    let file = disk.open(Path::new("/data"), OpenMode::Create).unwrap();
    let mut bytes = vec![0; SLOT - 100];
    Rng::new(1).fill(&mut bytes);
    let used = || budget.used_for(Use::Compactions);
    let all: Vec<Bulk> = (0..6).map(|_| Bulk::new(&*disk, &budget, true, false).unwrap()).collect();
    for (number, bulk) in all.iter().enumerate() {
        bulk.write(&file, (number * SLOT) as u64, &bytes).unwrap();
        assert!(used() <= budget.limit() / 8 + number * (128 << 10), "{number}: {}", used());
    }
    all.iter().for_each(|bulk| bulk.finish_writes().unwrap());
    let mut found = vec![1; SLOT];
    for number in 0..all.len() {
        file.read_at((number * SLOT) as u64, &mut found).unwrap();
        assert!(
            found[..bytes.len()] == bytes && found[bytes.len()..].iter().all(|byte| *byte == 0)
        );
    }
    drop(all);
    assert_eq!(used(), 0);
}

/// Decision 007: sources keep the buffers of the little that they have read. They get no buffer
/// that was made for a write, because these are larger, and are reused for the next write.
#[test]
fn what_is_read_keeps_no_memory_of_writes() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new(1));
    let budget = Budget::new(64 << 20);
    let file = disk.open(Path::new("/data"), OpenMode::Create).unwrap();
    let bulk = Bulk::new(&*disk, &budget, true, true).unwrap();
    let used = || budget.used_for(Use::Compactions);
    let bytes = vec![7; 2 << 20];
    let mut held = Vec::new();
    let mut after_one = 0;
    for round in 0..10 {
        bulk.write(&file, 0, &bytes).unwrap();
        bulk.finish_writes().unwrap();
        held.push(bulk.take(bulk.begin_read(&file, 0, 16 << 10)).unwrap());
        if round == 0 {
            after_one = used();
        }
    }
    assert!(used() <= after_one + 9 * (32 << 10), "{} after {after_one}", used());
}

/// Decision 007: the more sources there are, the less each reads ahead.
#[test]
fn sources_share_the_memory_for_reads() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new(1));
    let budget = Budget::new(64 << 20);
    let bulk = Bulk::new(&*disk, &budget, true, false).unwrap();
    for sources in 1..=32 {
        bulk.add_source();
        let all = 3 * sources * bulk.read_bytes_most();
        assert!(all <= budget.limit() / 64 && bulk.read_bytes_most() > 0, "{sources}: {all}");
    }
}
