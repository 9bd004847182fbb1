//! The coding of a compaction's blocks, and the choice of its dictionary.

use std::sync::Arc;

use spillway_base::Result;
use spillway_base::engine::Access;

use crate::block::BLOCK_BYTES;
use crate::coding::{
    Compression, Dictionaries, Dictionary, DictionaryStore, Encoder, coded_bytes, gains_enough,
};
use crate::compaction::Coder;
use crate::level::Slice;
use crate::manifest::{Edit, State};
use crate::picker::Pick;
use crate::table::Table;

/// Bytes of bodies that a dictionary is trained on, for each of its bytes.
const SAMPLE_SHARE: usize = 64;

/// The dictionary of a compaction, until it is recorded and published.
pub(super) struct Codes {
    /// The dictionary with which zstd encodes.
    used: Option<Arc<Dictionary>>,
}

impl Codes {
    /// The edit that records the dictionary, if the manifest does not have it: it is fresh, or was
    /// removed because no extent named it (DICTIONARY-2).
    pub(super) fn edit(&self, table: &Table, state: &State) -> Option<Edit> {
        let (used, stored) = (self.used.as_ref()?, state.tables.get(&table.id)?);
        let (id, bytes) = (used.id(), used.bytes().into());
        let is_there = stored.dictionaries.contains_key(&id);
        (!is_there).then_some(Edit::AddDictionary { table: table.id, id, bytes })
    }

    /// The coder of a compaction's blocks. It uses the table's newest dictionary, or a fresh one of
    /// `dictionary_bytes` if that saves enough.
    pub(super) fn choose(
        dictionaries: &DictionaryStore,
        (table, pick): (&Table, &Pick),
        compression: Compression,
        dictionary_bytes: usize,
    ) -> Result<(Coder, Codes)> {
        if !matches!(compression, Compression::Zstd { .. }) {
            return Ok((Coder::new(compression, None), Codes { used: None }));
        }
        let dictionaries = dictionaries.of(table.id);
        let newest = dictionaries.newest();
        let current = newest.as_deref();
        let fresh = fresh_dictionary(&dictionaries, pick, compression, current, dictionary_bytes)?;
        let fresh = fresh.map(Arc::new);
        let used = fresh.or(newest);
        let coder = Coder::new(compression, used.as_deref());
        Ok((coder, Codes { used }))
    }

    /// Makes a dictionary that was just recorded available for decoding.
    pub(super) fn publish(self, table: &Table, dictionaries: &DictionaryStore) {
        let dictionaries = dictionaries.of(table.id);
        if let Some(used) = self.used
            && dictionaries.get(used.id()).is_none()
        {
            dictionaries.add(used);
        }
    }
}

/// A dictionary trained on some of the inputs' blocks, if one is due and it makes other blocks
/// of the inputs smaller.
fn fresh_dictionary(
    dictionaries: &Dictionaries,
    pick: &Pick,
    compression: Compression,
    newest: Option<&Dictionary>,
    dictionary_bytes: usize,
) -> Result<Option<Dictionary>> {
    let sample_bytes = dictionary_bytes * SAMPLE_SHARE;
    let bytes: u64 = pick.inputs().map(|slice| slice.meta.counts.payload_bytes).sum();
    let Some(id) = dictionaries.to_try(bytes, 2 * sample_bytes as u64) else { return Ok(None) };
    let slices: Vec<_> = pick.inputs().collect();
    // As many bodies to test the dictionary as to train it, spread over all inputs.
    let bodies = sample(&slices, 2 * sample_bytes.div_ceil(BLOCK_BYTES))?;
    let every_other = |from| bodies.iter().skip(from).step_by(2).map(|body| &body[..]);
    let (learned, others): (Vec<_>, Vec<_>) = (every_other(0).collect(), every_other(1).collect());
    let Some(fresh) = Dictionary::train(id, &learned, dictionary_bytes) else {
        return Ok(None);
    };
    let bytes_by = |dictionary| coded_bytes(&mut Encoder::new(compression, dictionary), &others);
    let (today, then) = (bytes_by(newest), bytes_by(Some(&fresh)));
    Ok(gains_enough(today, then, newest.is_some()).then_some(fresh))
}

/// The bodies of this many blocks of slices, spread evenly over them.
fn sample(slices: &[&Arc<Slice>], count: usize) -> Result<Vec<Vec<u8>>> {
    let blocks: usize = slices.iter().map(|slice| slice.meta.blocks as usize).sum();
    let step = blocks.div_ceil(count.max(1)).max(1);
    let mut bodies = Vec::new();
    let mut skip = 0;
    for slice in slices {
        let range = slice.meta.block_range();
        if skip < range.len() {
            let resident = slice.extent.resident(Access::Blocking)?;
            for block in range.clone().skip(skip).step_by(step) {
                bodies.push(slice.extent.read_block(&resident, block)?.body().to_vec());
            }
        }
        // The offset of the next block in the following slice.
        let taken = range.len().saturating_sub(skip).div_ceil(step);
        skip = skip + taken * step - range.len();
    }
    Ok(bodies)
}
