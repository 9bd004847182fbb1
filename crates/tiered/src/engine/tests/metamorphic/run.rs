//! One run of a history under random settings.

use std::collections::VecDeque;

use super::super::*;
use super::Seen;
use super::history::Step;
use super::merges::Merges;
use super::model::History;
use super::reads::Begun;
use super::variation::{Variation, variation};
use crate::picker::Chooser;

pub(super) struct Run<'a> {
    disk: SimDisk,
    rng: Rng,
    slot_bytes: usize,
    pub(super) variation: Variation,
    merges: Merges,
    pub(super) bench: Bench,
    background: Option<Background>,
    pub(super) history: History,
    pub(super) held: VecDeque<Csn>,
    pub(super) begun: VecDeque<Begun>,
    /// The pins, each with the newest commit when it was taken.
    pins: VecDeque<(Pin, Csn)>,
    pub(super) seen: &'a mut Seen,
}

fn open_as(disk: &SimDisk, variation: &Variation, merges: &Merges) -> (Bench, Option<Background>) {
    let bench = open_with(Arc::new(disk.clone()), variation.settings.clone()).unwrap();
    if variation.checked {
        bench.engine.offload_to(Box::new(merges.clone()));
    }
    if variation.short {
        bench.engine.0.compaction_shapes.seek_space(Duration::from_secs(1 << 30));
    }
    bench.engine.overlap_reads();
    let background = variation.threads.then(|| bench.engine.start_background(2).unwrap());
    (bench, background)
}

impl<'a> Run<'a> {
    pub(super) fn new(seed: u64, seen: &'a mut Seen, slot_bytes: usize) -> Run<'a> {
        let mut rng = Rng::new(seed);
        let disk = SimDisk::new(seed);
        let variation = variation(&mut rng, slot_bytes);
        let merges = Merges::default();
        let (bench, background) = open_as(&disk, &variation, &merges);
        let history = History::default();
        let (held, begun, pins) = Default::default();
        Run {
            disk,
            rng,
            slot_bytes,
            variation,
            merges,
            bench,
            background,
            history,
            held,
            begun,
            pins,
            seen,
        }
    }

    pub(super) fn step(&mut self, step: &Step) {
        match step {
            Step::Commit(batch) => self.commit(batch),
            Step::Hold => {
                self.held.push_back(self.history.newest());
                self.tell();
            }
            Step::Release => {
                self.held.pop_front();
                self.tell();
            }
            Step::Read { held, seed } => {
                let newest = self.history.newest();
                let snapshot = held.map_or(newest, |held| self.held[held as usize]);
                self.read(snapshot, *seed);
            }
            Step::Favour(first) => self.favour(*first),
            Step::Begin { seed } => self.begin(*seed),
            Step::Resume => self.resume(),
            Step::Persist => {
                let newest = self.history.newest();
                self.bench.engine.request_persist(Csn(self.rng.below(newest.0 + 1)));
            }
            Step::Flush => self.bench.engine.flush_all().unwrap(),
            Step::Work => self.bench.work().unwrap(),
            Step::CompactAll => self.bench.engine.compact_all().unwrap(),
            Step::Compact(number) => self.compact(*number),
            Step::Split(number) => {
                let (table, part) = self.some_part(*number);
                self.bench.engine.0.split(&table, &part).unwrap();
            }
            Step::Join(number) => self.join(*number),
            Step::Pin => self.pins.push_back((self.bench.engine.pin(), self.history.newest())),
            Step::Restore => self.restore(),
            Step::Open { crash } => self.open_again(*crash),
        }
    }

    fn some_part(&self, number: u64) -> (Arc<Table>, Arc<SubTable>) {
        let mut parts = self.bench.engine.0.tables.all_parts();
        parts.swap_remove((number % parts.len() as u64) as usize)
    }

    fn compact(&self, number: u64) {
        let (table, part) = self.some_part(number);
        let kind = Kind::ORDER[(number >> 32) as usize % Kind::ORDER.len()];
        self.compact_part(&table, &part, kind);
    }

    fn compact_part(&self, table: &Arc<Table>, part: &Arc<SubTable>, kind: Kind) {
        let inner = &self.bench.engine.0;
        let mut live = Vec::new();
        inner.horizon.live_snapshots(&mut live);
        let picked = part.take(|bars| {
            let (shape, levels) = (inner.compaction_shapes.current(), &part.view().levels);
            let memtables_from = Csn::ZERO;
            Chooser { shape, levels, bars, oldest: live[0], memtables_from }.pick(kind)
        });
        if let Some((_compacting, pick)) = picked {
            inner.compact(table, part, &pick).unwrap();
        }
    }

    /// Reads rows often, so that they stay in Level1 while the rows around them go to Level2.
    fn favour(&self, first: u64) {
        self.read_again_and_again(first);
        let table = self.bench.part(1).0;
        for part in table.all_parts() {
            self.compact_part(&table, &part, Kind::Major);
        }
    }

    /// Joins two sub-tables of each table.
    fn join(&self, number: u64) {
        let inner = &self.bench.engine.0;
        for table in inner.tables.load_full().values() {
            let parts = table.all_parts();
            if parts.len() > 1 {
                let at = (number % (parts.len() as u64 - 1)) as usize;
                inner.join(table, &parts[at], &parts[at + 1]).unwrap();
            }
        }
    }

    fn commit(&mut self, batch: &WriteBatch) {
        self.history.push(batch);
        let newest = self.history.newest();
        self.bench.engine.install(newest, batch);
        self.bench.horizon.installed.fetch_max(newest.0, Ordering::SeqCst);
        let lag = self.rng.below(self.variation.lag + 1);
        self.bench.horizon.stable.fetch_max(newest.0.saturating_sub(lag), Ordering::SeqCst);
        if self.rng.chance(1, self.variation.lazy) && !self.variation.threads {
            self.bench.work().unwrap();
        }
    }

    /// Registers the snapshots of all readers as live. Some of them read before their snapshot is
    /// stable.
    fn tell(&self) {
        *self.bench.horizon.live.lock() = self.held.iter().copied().collect();
    }

    /// The files of a pin have the state of some commit, not above the newest one when the pin was
    /// taken. After the later commits up to that one were installed, the state must equal the
    /// model's.
    fn restore(&mut self) {
        let (pin, newest) = self.pins.pop_front().unwrap();
        let copied = Copied::decode(&pin.manifest()).unwrap();
        let checker = Copied::decode(&pin.manifest()).unwrap();
        let disk = SimDisk::new(1);
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let mut fetch = |index, bytes: &mut Vec<u8>| {
            pin.read(index, bytes)?;
            checker.check(index, bytes)
        };
        copied.restore(&shared, &dir(), &mut fetch).unwrap();
        verify_clean(&disk);
        let settings = TieredSettings { tiers: Vec::new(), ..self.variation.settings.clone() };
        let bench = open_with(shared, settings).unwrap();
        let after = self.history.commits.iter();
        let after = after.filter(|(csn, _)| *csn > pin.persisted() && *csn <= newest);
        after.for_each(|commit| bench.install(commit));
        bench.horizon.stable.store(newest.0, Ordering::SeqCst);
        let own = std::mem::replace(&mut self.bench, bench);
        self.read(newest, newest.0);
        self.bench.engine.compact_all().unwrap();
        self.read(newest, newest.0 + 1);
        self.bench = own;
        self.seen.restores += 1;
    }

    fn open_again(&mut self, crash: bool) {
        while !self.pins.is_empty() {
            self.restore();
        }
        while !self.begun.is_empty() {
            self.resume();
        }
        self.held.clear();
        self.tell();
        let persisted = self.end(crash);
        self.variation = variation(&mut self.rng, self.slot_bytes);
        // A folder that is no longer a tier is still read while extents in it are recorded.
        (self.bench, self.background) = open_as(&self.disk, &self.variation, &self.merges);
        let from = Csn(persisted.0.saturating_sub(self.variation.again));
        let after = self.history.commits.iter().filter(|(csn, _)| *csn > from);
        after.for_each(|(csn, batch)| self.bench.engine.install(*csn, batch));
        let newest = self.history.newest();
        self.bench.horizon.stable.store(newest.0, Ordering::SeqCst);
        self.read(newest, newest.0);
        self.seen.openings += 1;
    }

    /// Ends the engine. Returns the CSN up to which it claimed to be persistent.
    fn end(&mut self, crash: bool) -> Csn {
        let persisted = self.bench.engine.persisted();
        if crash {
            self.disk.crash();
        }
        drop(self.background.take());
        self.seen.compared += self.merges.compared();
        self.seen.add(&self.bench.engine);
        // As long as an engine exists, its folders are locked.
        self.bench = open_with(Arc::new(SimDisk::new(0)), small()).unwrap();
        if crash {
            self.disk.restart();
        }
        verify_clean(&self.disk);
        persisted
    }

    /// At the end, checks that the engine has exactly the model's newest state.
    pub(super) fn finish(&mut self) {
        while !self.pins.is_empty() {
            self.restore();
        }
        while !self.begun.is_empty() {
            self.resume();
        }
        let newest = self.history.newest();
        self.read(newest, 1);
        self.held.clear();
        self.tell();
        self.bench.horizon.stable.store(newest.0, Ordering::SeqCst);
        drop(self.background.take());
        self.bench.work().unwrap();
        self.bench.engine.compact_all().unwrap();
        self.bench.work().unwrap();
        self.read(newest, 2);
        assert_eq!(self.bench.engine.persisted(), newest);
        let tables = self.history.tables(newest);
        assert_eq!(self.bench.engine.tables(), tables);
        for status in self.bench.engine.status() {
            let all = (status.table, KeyRange::ALL, Direction::Forward);
            let rows = self.history.rows(all.0, all.1, all.2, newest).len() as u64;
            let versions = status.levels.map(|level| level.versions);
            assert_eq!(versions, [0, 0, rows], "one version of each row is left");
        }
        tiers::nothing_is_lost(&self.bench);
        self.end(false);
    }
}
