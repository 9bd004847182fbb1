//! Which reads and writes of a flush or compaction are in flight while it merges.

use spillway_storage::OpenMode;

use super::watched::{Given, Watched};
use super::*;
use crate::block::BuiltBlock;
use crate::compaction::{Accelerator, Cpu, DropRule, MergeTask};

const ROWS: u64 = 4000;

/// Merges, and records how many operations the queues had been given by then.
struct Watching(Arc<Given>);

impl Accelerator for Watching {
    fn batch(&self) -> usize {
        1
    }

    fn merge(&self, tasks: &[MergeTask], rule: &DropRule<'_>) -> Result<Vec<Vec<BuiltBlock>>> {
        let now = [&self.0.reads, &self.0.in_flight].map(|count| count.load(Ordering::SeqCst));
        self.0.at_merges.lock().push(now.into());
        Cpu.merge(tasks, rule)
    }
}

/// The results of a history of flushes and compactions: the files with their bytes, and the
/// operations that its queues were given.
fn outcome(overlapped: bool, data_reuse: bool) -> (BTreeMap<String, Vec<u8>>, Vec<(u64, u64)>) {
    let given = Arc::new(Given::default());
    let disk = SimDisk::new(1);
    let watched = Watched(disk.clone(), given.clone());
    let settings = TieredSettings {
        overlapped_compactions: overlapped,
        data_reuse,
        slot_bytes: 256 << 10,
        file_bytes: 4 << 20,
        cold_compression: Compression::None,
        ..small()
    };
    let bench = open_with(Arc::new(watched), settings).unwrap();
    bench.engine.offload_to(Box::new(Watching(given.clone())));
    for csn in 1..=6 {
        let mut commit = batch(&[]);
        if csn == 1 {
            commit.push(Op::CreateTable(table(1)));
        }
        for number in (0..ROWS).filter(|number| csn == 1 || number % 31 < csn) {
            let (key, value) = (format!("row{number:06}"), noise(csn << 32 | number, 300));
            commit.push(Op::Put { table: table(1), key: key.as_bytes(), value: &value });
        }
        bench.install(&(Csn(csn), commit));
        bench.engine.flush_all().unwrap();
        bench.work().unwrap();
    }
    let (found, part) = bench.part(1);
    bench.engine.0.compact_fully(&found, &part).unwrap();
    drop((found, part, bench));
    let names = disk.list(&dir()).unwrap().into_iter();
    let files = names.map(|name| {
        let file = disk.open(&dir().join(&name), OpenMode::Read).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_at(0, &mut bytes).unwrap();
        (name, bytes)
    });
    (files.collect(), std::mem::take(&mut given.at_merges.lock()))
}

/// Without overlap, no operation is in flight while blocks are merged, and nothing was read before
/// it was needed. With overlap, some operations are in flight. The stored bytes are the same.
#[test]
fn without_overlap_nothing_is_under_way_at_a_merge() {
    for data_reuse in [true, false] {
        let [(with, given_with), (without, given_without)] =
            [true, false].map(|overlapped| outcome(overlapped, data_reuse));
        let merges = || given_with.iter().zip(&given_without);
        assert!(given_with.len() == given_without.len() && merges().count() > 10);
        assert!(given_with.iter().any(|(_, in_flight)| *in_flight > 1), "{given_with:?}");
        assert!(given_without.iter().all(|(_, in_flight)| *in_flight == 0), "{given_without:?}");
        assert!(merges().all(|((ahead, _), (reads, _))| reads <= ahead));
        assert!(merges().any(|((ahead, _), (reads, _))| reads < ahead), "{given_with:?}");
        assert!(with.values().map(Vec::len).sum::<usize>() > ROWS as usize * 300);
        assert!(with == without, "the same bytes in the same places");
    }
}
