//! Eviction frees versions. The entry of an evicted row holds the row's log place instead
//! (MEMORY-2).
//!
//! Eviction visits the pages of versions in a circle, as the CLOCK algorithm does. It frees a page
//! in which few rows are hot: it evicts the rows that were not read since the last visit, and moves
//! the hot rows to another page. It leaves a page with many hot rows as it is. Rows that were
//! written together are in the same page, so pages become free if such rows are cold together.
//! Versions that are too large for a page are visited one by one in a circle of their own.

use std::ptr::NonNull;
use std::sync::{Arc, Weak};

use spillway_base::budget::{Budget, GiveWay, Worth};
use spillway_base::{Csn, EngineKind, TableId, thread};
use spillway_reclaim::epochs::Pin;

use super::evictor::Evictor;
use super::inner::Inner;
use super::table_set::{TableSet, Tables};
use crate::pins::Pins;
use crate::rows::LockedRow;
use crate::slab::PAGE_BYTES;
use crate::store::{Retired, Store};
use crate::version::{Content, Fields, Version};
use crate::version::{Target, Word};

/// A page's hot rows move if they are at most one in this many of its rows; otherwise the page
/// stays.
const MOVED_SHARE: usize = 4;
/// Rounds over all pages in search of memory: one to clear the marks of reads, one to evict.
const ROUNDS: usize = 2;
/// The most large versions that are looked up at a time.
const LARGE_AT_ONCE: usize = 64;
/// How often `keep_pledge` tries to free retired versions.
const PLEDGE_TRIES: usize = 50;
/// Rows from the log are loaded only while the budget divided by this stays free.
const ROOM_SHARE: usize = 32;

/// Evicts rows when the budget asks for memory.
pub(super) struct Giver(pub(super) Weak<Inner>);

impl GiveWay for Giver {
    fn worth(&self) -> Worth {
        Worth::Evicted
    }

    fn give_way(&self, bytes: usize) -> usize {
        self.0.upgrade().map_or(0, |inner| inner.eviction().evict(bytes))
    }

    fn keep_pledge(&self) {
        let Some(inner) = self.0.upgrade() else { return };
        for _ in 0..PLEDGE_TRIES {
            inner.store.release();
            if inner.store.waiting_bytes() == 0 {
                return;
            }
            thread::blocking(std::thread::yield_now);
        }
    }
}

/// A version that can be evicted or moved, and its locked entry.
struct Candidate<'t> {
    entry: LockedRow<'t>,
    version: NonNull<Version>,
}

/// Whether there is room to load a row from the log into memory.
pub(super) fn has_room_for(budget: &Budget, bytes: usize) -> bool {
    let limit = budget.limit();
    budget.used() + bytes + PAGE_BYTES < limit - limit / ROOM_SHARE
}

/// The parts of the engine that eviction needs.
pub(super) struct Eviction<'e> {
    pub(super) store: &'e Store,
    pub(super) pins: &'e Pins,
    pub(super) tables: &'e TableSet,
    pub(super) evictor: &'e Evictor,
}

impl Eviction<'_> {
    /// Evicts rows of about this many bytes. Returns the number of bytes that become free once
    /// their readers have left.
    pub(super) fn evict(&self, bytes: usize) -> usize {
        let Some(mut hands) = self.evictor.hands.try_lock() else { return 0 };
        // Updates the watermark: the cheaper figure of `refresh` lags by many commits.
        self.pins.live(&mut Vec::new());
        let stable = self.pins.stable();
        let pages = self.store.slabs.pages();
        let mut found = self.evict_large(&mut hands.large, bytes, stable);
        let mut objects = Vec::new();
        for _ in 0..ROUNDS * pages {
            if found >= bytes {
                break;
            }
            let page = hands.page % pages;
            hands.page = page + 1;
            if self.store.slabs.pin_page(page, &mut objects) {
                found += self.evict_page(&objects, stable);
                self.store.slabs.unpin_page(page);
            }
        }
        self.store.release();
        found
    }

    /// Evicts rows that are too large for pages, from the hand on: those that were not read since
    /// its last visit.
    fn evict_large(&self, hand: &mut usize, bytes: usize, stable: Csn) -> usize {
        let large = &self.store.slabs.large;
        let mut left = ROUNDS * large.len();
        if left == 0 {
            return 0;
        }
        let tables = self.tables.load();
        let pin = self.store.pin();
        let (mut found, mut retired, mut objects) = (0, Vec::new(), Vec::new());
        while found < bytes && left > 0 {
            objects.clear();
            large.visit(*hand, LARGE_AT_ONCE.min(left), &mut |object| {
                objects.push((self.store.owner(object), object));
            });
            for ((table, slot), object) in &objects {
                if found >= bytes {
                    break;
                }
                *hand = object.as_ptr() as usize + 1;
                // If the address has another object by now, `candidate` checks that it is this
                // slot's version.
                let candidate = self.candidate(&tables, *table, *slot, object.cast(), stable, &pin);
                let Some(Candidate { mut entry, version: at }) = candidate else { continue };
                let version = self.store.version(at, &pin);
                let Ok(place) = version.place() else { continue };
                if version.take_use() {
                    continue;
                }
                entry.set_as_it_was(Word::place(place));
                found += version.bytes();
                retired.push(Retired::Version(at));
            }
            // Other threads may have freed all objects.
            left -= objects.len().max(1);
        }
        self.evictor.count(retired.len());
        self.store.retire(retired);
        found
    }

    /// Evicts the cold rows of a page. Returns the bytes that it frees.
    pub(super) fn evict_page(&self, objects: &[NonNull<u8>], stable: Csn) -> usize {
        let tables = self.tables.load();
        let pin = self.store.pin();
        let candidate = |object: NonNull<u8>| {
            let (table, slot) = self.store.owner(object);
            self.candidate(&tables, table, slot, object.cast(), stable, &pin)
        };
        let is_hot = |object: &NonNull<u8>| {
            let found = candidate(*object);
            found.is_some_and(|found| self.store.version(found.version, &pin).take_use())
        };
        let hot: Vec<bool> = objects.iter().map(is_hot).collect();
        if hot.iter().filter(|hot| **hot).count() > objects.len() / MOVED_SHARE {
            // The page stays for this round. `take_use` has cleared the marks, so rows that are not
            // read until the next round are cold then.
            return 0;
        }
        let (mut found, mut retired) = (0, Vec::new());
        for (object, hot) in objects.iter().zip(hot) {
            let Some(Candidate { mut entry, version: at }) = candidate(*object) else { continue };
            let version = self.store.version(at, &pin);
            let Ok(place) = version.place() else { continue };
            let word = match hot {
                true => Word::version(self.store.make(&Fields {
                    csn: version.csn(),
                    table: self.store.owner(*object).0,
                    slot: entry.slot(),
                    place: Ok(place),
                    content: version.content(),
                    next: Word::EMPTY,
                })),
                false => Word::place(place),
            };
            entry.set_as_it_was(word);
            found += version.bytes();
            retired.push(Retired::Version(at));
        }
        self.evictor.count(retired.len());
        self.store.retire(retired);
        found
    }

    /// The version at an address, with its entry locked, if it can be evicted (MEMORY-2).
    fn candidate<'t>(
        &self,
        tables: &'t Tables,
        table: u32,
        slot: u64,
        version: NonNull<Version>,
        stable: Csn,
        pin: &Pin<'_>,
    ) -> Option<Candidate<'t>> {
        let ordinal = table.min(TableId::ORDINAL_MAX);
        let table: &'t Arc<_> = tables.get(&TableId::new(EngineKind::Memory, ordinal))?;
        let entry = table.rows.try_lock(slot)?;
        // This check proves that it is a version in a chain.
        if entry.word().target() != Target::Version(version) {
            return None;
        }
        let found = self.store.version(version, pin);
        let goes = found.next() == Word::EMPTY
            && found.csn() <= stable
            && found.place().is_ok()
            && matches!(found.content(), Content::Value(_) | Content::Absent);
        goes.then_some(Candidate { entry, version })
    }
}
