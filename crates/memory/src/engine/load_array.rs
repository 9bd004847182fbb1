//! Loads a table's array from the page files of a checkpoint.
//!
//! The files are read from the newest to the oldest. A page that a newer file has is skipped, so
//! each page is set once. The blocks of a file are divided among several threads.

use spillway_base::lock::Mutex;
use spillway_base::sync::atomic::{AtomicUsize, Ordering};
use spillway_base::{Result, thread};
use spillway_storage::OpenMode;

use super::opening::Opening;
use crate::manifest::{PAGES, TableFiles};
use crate::rows::{EmptySlots, PAGE_ENTRIES, PageEntries, PageLoad};
use crate::stream::{Blocks, Position};
use crate::table::Table;
use crate::version::{Word, class_bytes};

/// A page in its file: its number, then its entries.
const PAGE_BYTES: usize = 8 + PAGE_ENTRIES as usize * 8;

/// The result of a load.
pub(super) struct LoadedArray {
    pub(super) empty: EmptySlots,
    /// The slots of rows that were deleted.
    pub(super) deletions: Vec<u64>,
}

/// The pages that one thread loaded from one file.
struct LoadedPages {
    /// Each page's number, and its empty slots as bits.
    pages: Vec<(u64, [u64; PageLoad::PAGE_WORDS])>,
    /// Bytes of records that the pages name, for each segment by its handle.
    live: Vec<u64>,
    deletions: Vec<u64>,
}

impl LoadedPages {
    /// Loads a page, unless a newer file has it.
    fn load(&mut self, array: &PageLoad<'_>, page: &[u8; PAGE_BYTES]) -> Result<(), &'static str> {
        let (words, _) = page.as_chunks::<8>();
        let mut words = words.iter().map(|word| u64::from_le_bytes(*word));
        let number = words.next().expect("a page begins with its number");
        // The array would take memory for all pages before it.
        if !array.may_have(number) {
            return Err("a page lies far past the others");
        }
        if array.is_loaded(number) {
            return Ok(());
        }
        let mut entries: PageEntries = [Word::EMPTY; PAGE_ENTRIES as usize];
        for (slot, word) in (number * PAGE_ENTRIES..).zip(words) {
            let word = Word(word);
            if word == Word::EMPTY {
                continue;
            }
            // An address would be followed.
            let place = word.as_place().ok_or("an entry is not a place")?;
            // No record is empty. Live bytes would not show whether the segment is known.
            if place.class == 0 {
                return Err("an entry's record has no bytes");
            }
            let live = self.live.get_mut(place.handle as usize);
            *live.ok_or("an entry names no known segment")? += class_bytes(place.class);
            if word.is_locked() {
                self.deletions.push(slot);
            }
            entries[(slot % PAGE_ENTRIES) as usize] = word.unlocked();
        }
        self.pages.push((number, array.load(number, &entries)));
        Ok(())
    }
}

impl Opening<'_> {
    /// Loads the pages of all files of a table, and counts the live bytes of their segments.
    ///
    /// # Errors
    /// [`spillway_base::ErrorKind::Corruption`], [`spillway_base::ErrorKind::Io`].
    pub(super) fn load_array(
        &self,
        table: &Table,
        files: &TableFiles,
        threads: usize,
    ) -> Result<LoadedArray> {
        let mut array = table.rows.begin_load(self.pages_in(files)?);
        let mut live = vec![0; self.keys.rows.segments.handles_end()];
        let mut deletions = Vec::new();
        for file in files.pages.iter().rev() {
            for part in self.load_pages(&array, file.number, threads)? {
                for (page, empty) in part.pages {
                    if !array.note_loaded(page, empty) {
                        return Err(self.damaged(files, "a file has a page twice"));
                    }
                }
                live.iter_mut().zip(part.live).for_each(|(live, bytes)| *live += bytes);
                deletions.extend(part.deletions);
            }
        }
        for (handle, bytes) in live.into_iter().enumerate().filter(|(_, bytes)| *bytes > 0) {
            if !self.keys.rows.segments.add_live_bytes(handle, bytes) {
                return Err(self.damaged(files, "an entry names no known segment"));
            }
        }
        Ok(LoadedArray { empty: array.end(), deletions })
    }

    /// The most pages that the files of a table can have, by their lengths.
    fn pages_in(&self, files: &TableFiles) -> Result<u64> {
        let mut pages = 0;
        for file in &files.pages {
            let file = self.disk.open(&self.path_of(file.number, PAGES), OpenMode::Read)?;
            pages += file.len()? / PAGE_BYTES as u64;
        }
        Ok(pages)
    }

    /// Loads a file's pages with several threads. Returns what each found.
    fn load_pages(
        &self,
        array: &PageLoad<'_>,
        number: u64,
        threads: usize,
    ) -> Result<Vec<LoadedPages>> {
        let blocks = Blocks::open(self.disk, &self.path_of(number, PAGES), number)?;
        let positions = blocks.positions()?;
        let next = AtomicUsize::new(0);
        let parts: Mutex<Result<Vec<LoadedPages>>> = Mutex::new(Ok(Vec::new()));
        let work = |_: usize| {
            let part = self.load_blocks(array, &blocks, &positions, &next);
            let parts = &mut *parts.lock();
            match (parts, part) {
                (Ok(parts), Ok(part)) => parts.push(part),
                (parts @ Ok(_), Err(error)) => *parts = Err(error),
                (Err(_), _) => {}
            }
        };
        match threads.min(positions.len()) {
            0 | 1 => work(0),
            threads => thread::together(threads, work),
        }
        parts.into_inner()
    }

    /// Loads blocks that no other thread has taken, until none is left.
    fn load_blocks(
        &self,
        array: &PageLoad<'_>,
        blocks: &Blocks,
        positions: &[Position],
        next: &AtomicUsize,
    ) -> Result<LoadedPages> {
        let live = vec![0; self.keys.rows.segments.handles_end()];
        let mut part = LoadedPages { pages: Vec::new(), live, deletions: Vec::new() };
        let mut bytes = Vec::new();
        while let Some(position) = positions.get(next.fetch_add(1, Ordering::Relaxed)) {
            bytes.clear();
            blocks.read(*position, &mut bytes)?;
            let (pages, rest) = bytes.as_chunks::<PAGE_BYTES>();
            let loaded = pages.iter().try_for_each(|page| part.load(array, page));
            let loaded = if rest.is_empty() { loaded } else { Err("a block ends within a page") };
            loaded.map_err(|what| blocks.damaged(what))?;
        }
        Ok(part)
    }
}

#[cfg(test)]
mod tests {
    use spillway_base::budget::Budget;

    use super::*;
    use crate::rows::Rows;
    use crate::version::Place;

    fn page(number: u64, words: &[u64]) -> [u8; PAGE_BYTES] {
        let mut page = [0; PAGE_BYTES];
        for (bytes, word) in page.chunks_exact_mut(8).zip([number].iter().chain(words)) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        page
    }

    fn part(segments: usize) -> LoadedPages {
        LoadedPages { pages: Vec::new(), live: vec![0; segments], deletions: Vec::new() }
    }

    #[test]
    fn a_page_of_a_newer_file_is_kept_and_live_bytes_are_counted_once() {
        let rows = Rows::new(&Budget::new(1 << 20));
        let mut array = rows.begin_load(1);
        let row = Word::place(Place { handle: 1, offset: 64, class: 9 });
        let deleted = Word::place(Place { handle: 0, offset: 8, class: 5 }).locked();
        let mut newer = part(2);
        newer.load(&array, &page(3, &[row.0, 0, deleted.0])).unwrap();
        assert_eq!((&newer.live[..], &newer.deletions[..]), (&[5, 9][..], &[3 * 512 + 2][..]));
        for (number, empty) in newer.pages {
            assert!(array.note_loaded(number, empty));
        }
        let mut older = part(2);
        older.load(&array, &page(3, &[row.0; 4])).unwrap();
        assert!(older.pages.is_empty() && older.live == [0, 0]);
        assert_eq!(array.end().rows(), 2);
        assert_eq!(rows.entry(3 * 512 + 2).unwrap().load(), deleted.unlocked());
        assert_eq!(rows.entry(3 * 512 + 1).unwrap().load(), Word::EMPTY);
    }

    #[test]
    fn a_page_with_anything_but_places_of_known_segments_is_refused() {
        let rows = Rows::new(&Budget::new(1 << 20));
        let array = rows.begin_load(1);
        let unknown = Word::place(Place { handle: 2, offset: 0, class: 9 });
        let empty = Word::place(Place { handle: 1, offset: 0, class: 0 });
        // An address, a locked empty entry, a segment without a name, a record without bytes, and
        // pages past the end: of any array, and of this one by far.
        for (number, word) in
            [(0, 4096), (0, 2), (0, unknown.0), (0, empty.0), (u64::MAX, 0), (10_000, 0)]
        {
            assert!(part(2).load(&array, &page(number, &[word])).is_err(), "{number} {word}");
        }
    }
}
