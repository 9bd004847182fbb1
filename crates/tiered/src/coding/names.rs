//! Which dictionaries blocks name: what an extent says of itself, so that a dictionary which none
//! names can go.
//!
//! # Guarantees
//!
//! - **DICTIONARY-1.** What an extent says that it names has the dictionary of each of its blocks,
//!   those that were carried into it undecoded included, and may have more.
//! - **DICTIONARY-2.** A manifest that tells of an extent which names a dictionary tells of that
//!   dictionary, too, at every record's end: one that goes, goes with the writing of a whole
//!   manifest, which is in force or is not. A compaction that codes by one which went meanwhile
//!   records it again.
//! - **DICTIONARY-3.** A table's newest dictionary stays, named or not, so that none of its numbers
//!   is used twice.
//! - **DICTIONARY-4.** A dictionary that went from the manifest stays in memory until the database
//!   is closed: who still reads extents that were replaced has it. A backup has those of its
//!   moment.

use spillway_base::codec::{Reader, put_varint};
use spillway_base::{Error, Result};

use super::DictionaryId;

/// The dictionaries that blocks of an extent may name: ascending numbers.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Names(Box<[DictionaryId]>);

impl Names {
    /// These, in any order, with repeats or without.
    pub(crate) fn of(mut ids: Vec<DictionaryId>) -> Names {
        ids.sort_unstable();
        ids.dedup();
        Names(ids.into())
    }

    /// Whether a block may name this one, or [`DictionaryId::NONE`].
    pub(crate) fn may_have(&self, id: DictionaryId) -> bool {
        id == DictionaryId::NONE || self.0.binary_search(&id).is_ok()
    }

    /// Their numbers, ascending.
    pub(crate) fn ids(&self) -> &[DictionaryId] {
        &self.0
    }

    /// Writes them: how many, then each.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.0.len() as u64);
        self.0.iter().for_each(|id| put_varint(out, id.0.into()));
    }

    /// Reads what [`Names::encode`] wrote.
    ///
    /// # Errors
    /// [`spillway_base::ErrorKind::Corruption`].
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Names> {
        let mut ids = Vec::new();
        for _ in 0..reader.varint()? {
            let last = ids.last().map_or(0, |last: &DictionaryId| u64::from(last.0));
            let id = u16::try_from(reader.varint()?).ok().filter(|id| u64::from(*id) > last);
            ids.push(DictionaryId(id.ok_or_else(|| {
                Error::corruption("the dictionaries that an extent names make no sense")
            })?));
        }
        Ok(Names(ids.into()))
    }
}
