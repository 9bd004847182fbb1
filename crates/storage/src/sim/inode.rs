//! The content of one simulated file: its cached bytes, its bytes on the platter, and the sectors
//! in which they differ.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use spillway_base::rng::Rng;

const PAGE: u64 = 4096;
const SECTOR: usize = 512;
const SECTORS: usize = PAGE as usize / SECTOR;

type Page = Arc<[u8; PAGE as usize]>;
type Pages = BTreeMap<u64, Page>;

/// A file's content. Pages that were never written are zero and absent.
#[derive(Clone, Default)]
pub(super) struct Inode {
    len: u64,
    len_durable: u64,
    cached: Pages,
    durable: Pages,
    /// Changed sectors of each page since the last sync, one bit each.
    dirty: BTreeMap<u64, u8>,
    /// Pages that take space.
    allocated: BTreeSet<u64>,
}

fn zero() -> Page {
    Arc::new([0; PAGE as usize])
}

fn pages(offset: u64, len: u64) -> std::ops::Range<u64> {
    if len == 0 { 0..0 } else { offset / PAGE..(offset + len).div_ceil(PAGE) }
}

impl Inode {
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn space(&self) -> u64 {
        self.allocated.len() as u64 * PAGE
    }

    /// The space that writing this range would take.
    pub(super) fn growth(&self, offset: u64, len: u64) -> u64 {
        pages(offset, len).filter(|page| !self.allocated.contains(page)).count() as u64 * PAGE
    }

    pub(super) fn read(&self, offset: u64, bytes: &mut [u8]) {
        let mut done = 0;
        while done < bytes.len() {
            let at = offset + done as u64;
            let (page, within) = (at / PAGE, (at % PAGE) as usize);
            let count = (PAGE as usize - within).min(bytes.len() - done);
            let target = &mut bytes[done..done + count];
            match self.cached.get(&page) {
                Some(content) => target.copy_from_slice(&content[within..within + count]),
                None => target.fill(0),
            }
            done += count;
        }
    }

    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        let mut done = 0;
        while done < bytes.len() {
            let at = offset + done as u64;
            let (page, within) = (at / PAGE, (at % PAGE) as usize);
            let count = (PAGE as usize - within).min(bytes.len() - done);
            let source = &bytes[done..done + count];
            if count == PAGE as usize && source.iter().all(|byte| *byte == 0) {
                self.cached.remove(&page);
            } else {
                let content = Arc::make_mut(self.cached.entry(page).or_insert_with(zero));
                content[within..within + count].copy_from_slice(source);
            }
            let dirty = self.dirty.entry(page).or_default();
            for sector in within / SECTOR..=(within + count - 1) / SECTOR {
                *dirty |= 1 << sector;
            }
            self.allocated.insert(page);
            done += count;
        }
        self.len = self.len.max(offset + bytes.len() as u64);
    }

    /// Writes a seeded choice of the sectors, from an offset where one begins.
    pub(super) fn write_some(&mut self, offset: u64, bytes: &[u8], rng: &mut Rng) {
        for (sector, bytes) in (0..).zip(bytes.chunks(SECTOR)) {
            if rng.chance(1, 2) {
                self.write(offset + sector * SECTOR as u64, bytes);
            }
        }
    }

    pub(super) fn allocate(&mut self, offset: u64, len: u64) {
        self.allocated.extend(pages(offset, len));
        self.len = self.len.max(offset + len);
    }

    /// Frees whole pages.
    pub(super) fn punch(&mut self, offset: u64, len: u64) {
        assert!((offset | len).is_multiple_of(PAGE), "half a page cannot be given back");
        let end = (offset + len).min(self.len.next_multiple_of(PAGE));
        for page in pages(offset, end.saturating_sub(offset)) {
            self.allocated.remove(&page);
            if self.cached.remove(&page).is_some() {
                self.dirty.insert(page, 0xFF);
            }
        }
    }

    pub(super) fn set_len(&mut self, len: u64) {
        if len < self.len {
            let first_gone = len.div_ceil(PAGE);
            let gone: Vec<u64> = self.cached.range(first_gone..).map(|(page, _)| *page).collect();
            for page in gone {
                self.cached.remove(&page);
                self.dirty.insert(page, 0xFF);
            }
            self.allocated.retain(|page| *page < first_gone);
            let within = (len % PAGE) as usize;
            if let (true, Some(content)) = (within > 0, self.cached.get_mut(&(len / PAGE))) {
                Arc::make_mut(content)[within..].fill(0);
                *self.dirty.entry(len / PAGE).or_default() |= 0xFF << (within / SECTOR);
            }
        }
        self.len = len;
    }

    pub(super) fn sync(&mut self) {
        for (page, sectors) in std::mem::take(&mut self.dirty) {
            self.keep(page, sectors);
        }
        self.len_durable = self.len;
    }

    /// Makes the sectors of one range durable, and the length they need.
    pub(super) fn sync_range(&mut self, offset: u64, len: u64) {
        for page in pages(offset, len) {
            let first = offset.saturating_sub(page * PAGE) as usize / SECTOR;
            let end = ((offset + len - page * PAGE).min(PAGE) as usize).div_ceil(SECTOR);
            let Some(dirty) = self.dirty.get_mut(&page) else { continue };
            let wanted = (first..end).fold(0, |bits, sector| bits | 1 << sector) & *dirty;
            *dirty &= !wanted;
            self.keep(page, wanted);
        }
        let needed = self.len.min(offset + len);
        self.len_durable = self.len_durable.max(needed);
    }

    /// A failed sync: some sectors reached the platter, and all count as clean. A clean page may
    /// leave the cache at any time, and is then read from the platter.
    pub(super) fn fail_sync(&mut self, rng: &mut Rng) {
        for (page, sectors) in std::mem::take(&mut self.dirty) {
            self.keep(page, sectors & rng.next_u64() as u8);
            if rng.chance(1, 2) {
                match self.durable.get(&page) {
                    Some(content) => self.cached.insert(page, content.clone()),
                    None => self.cached.remove(&page),
                };
            }
        }
    }

    /// A sync that lies: some sectors reached the platter, and the others still differ from it.
    pub(super) fn sync_some(&mut self, rng: &mut Rng) {
        for (page, sectors) in std::mem::take(&mut self.dirty) {
            let reached = sectors & rng.next_u64() as u8;
            self.keep(page, reached);
            if sectors != reached {
                self.dirty.insert(page, sectors & !reached);
            }
        }
    }

    /// Brings these sectors of a page to the platter.
    fn keep(&mut self, page: u64, sectors: u8) {
        if sectors == u8::MAX {
            match self.cached.get(&page) {
                Some(content) => self.durable.insert(page, content.clone()),
                None => self.durable.remove(&page),
            };
            return;
        }
        if sectors == 0 {
            return;
        }
        let new = self.cached.get(&page).cloned().unwrap_or_else(zero);
        let content = Arc::make_mut(self.durable.entry(page).or_insert_with(zero));
        for sector in (0..SECTORS).filter(|sector| sectors >> sector & 1 == 1) {
            let bytes = sector * SECTOR..(sector + 1) * SECTOR;
            content[bytes.clone()].copy_from_slice(&new[bytes]);
        }
    }

    pub(super) fn crash(&mut self, rng: &mut Rng) {
        self.fail_sync(rng);
        if self.len > self.len_durable {
            let grown = self.len - self.len_durable;
            self.len_durable += match rng.below(3) {
                0 => 0,
                1 => grown,
                _ => rng.below(grown),
            };
        } else if self.len < self.len_durable && rng.chance(1, 2) {
            self.len_durable = self.len;
        }
        self.len = self.len_durable;
        let kept = self.len.div_ceil(PAGE);
        self.durable.retain(|page, _| *page < kept);
        let within = (self.len % PAGE) as usize;
        if let (true, Some(last)) = (within > 0, self.durable.get_mut(&(self.len / PAGE))) {
            Arc::make_mut(last)[within..].fill(0);
        }
        self.cached = self.durable.clone();
        self.allocated.retain(|page| *page < kept);
    }

    pub(super) fn rot(&mut self, offset: u64, mask: u8) {
        for pages in [&mut self.cached, &mut self.durable] {
            let page = pages.entry(offset / PAGE).or_insert_with(zero);
            Arc::make_mut(page)[(offset % PAGE) as usize] ^= mask;
        }
    }
}
