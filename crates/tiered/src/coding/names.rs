//! The dictionaries that the blocks of an extent name. The manifest's record of each extent lists
//! these dictionaries, so that a rewrite of the manifest can remove a dictionary that no extent
//! names.
//!
//! # Guarantees
//!
//! - **DICTIONARY-1.** The record of an extent names the dictionary of each of its blocks,
//!   including blocks that were carried into it undecoded. It may name more.
//! - **DICTIONARY-2.** After each of its records, the manifest has every dictionary that one of its
//!   extents names. Only the rewrite of a whole manifest removes a dictionary, and a rewrite takes
//!   effect as a whole or not at all. A compaction may encode blocks with a dictionary that a
//!   concurrent rewrite removes. Such a compaction adds the dictionary to the manifest again.
//! - **DICTIONARY-3.** A table's newest dictionary stays in the manifest, even if no extent names
//!   it. A new dictionary gets a larger number than the newest one, so no number is used twice.
//! - **DICTIONARY-4.** A dictionary that was removed from the manifest stays in memory until the
//!   database is closed, because a reader may still use extents that were replaced. A backup has
//!   the dictionaries of the moment at which the backup was taken.

use spillway_base::codec::{Reader, put_varint};
use spillway_base::{Error, Result};

use super::DictionaryId;

/// The dictionaries that blocks of an extent may name: ascending numbers.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Names(Box<[DictionaryId]>);

impl Names {
    /// The set of these dictionaries, in any order and with possible repeats.
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

    /// Writes how many there are, then the number of each.
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
