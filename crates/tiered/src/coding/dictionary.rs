//! Dictionaries: byte sequences that the blocks of a table have in common. A block that is encoded
//! with a dictionary does not store these sequences again.
//!
//! A compressor finds few repetitions within one block of 16 KB: most byte sequences repeat only
//! from block to block. A dictionary is trained on blocks of one table, and belongs to this table.
//! A block that was encoded with a dictionary stores the dictionary's number. A dictionary is kept
//! as long as an extent may have a block that was encoded with it ([`super::Names`]).

use std::num::NonZeroU32;

use spillway_base::{Error, Result};
use zstd_safe::{CCtx, DCtx, DDict, SafeResult};

use super::Encoder;
use super::pack::{Packing, pack};

/// A dictionary of one table. No number is used twice for a table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct DictionaryId(pub(crate) u16);

impl DictionaryId {
    /// No dictionary.
    pub(crate) const NONE: DictionaryId = DictionaryId(0);
}

/// The smallest and the largest dictionary, in bytes.
const BYTES: std::ops::RangeInclusive<usize> = 256..=(128 << 10);

/// A dictionary, ready to decode with.
pub(crate) struct Dictionary {
    id: DictionaryId,
    bytes: Box<[u8]>,
    ready: DDict<'static>,
}

impl std::fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "dictionary {} of {} bytes", self.id.0, self.bytes.len())
    }
}

impl Dictionary {
    /// The dictionary of these bytes.
    ///
    /// # Errors
    /// [`spillway_base::ErrorKind::Corruption`] when they are not a dictionary. zstd would also
    /// accept bytes without a dictionary number. These are refused, because a decoder could not
    /// tell that a block was encoded with another dictionary (CODING-4).
    pub(crate) fn open(id: DictionaryId, bytes: &[u8]) -> Result<Dictionary> {
        let wrong = || Error::corruption(format!("dictionary {} makes no sense", id.0));
        if id == DictionaryId::NONE || !BYTES.contains(&bytes.len()) {
            return Err(wrong());
        }
        let ready = DDict::try_create(bytes).ok_or_else(wrong)?;
        ready.get_dict_id().map(NonZeroU32::get).ok_or_else(wrong)?;
        Ok(Dictionary { id, bytes: bytes.into(), ready })
    }

    /// A dictionary of at most `bytes` bytes, trained on bodies of data blocks; `None` if the
    /// bodies have too little in common.
    pub(crate) fn train(id: DictionaryId, bodies: &[&[u8]], bytes: usize) -> Option<Dictionary> {
        let mut packing = Packing::default();
        let (mut samples, mut sizes) = (Vec::new(), Vec::new());
        for body in bodies {
            let start = samples.len();
            // Packed as blocks are when they are coded with a dictionary.
            let mut packed = pack(body, true, &mut packing, &mut samples);
            if packed.is_some() && !packing.has_many_digits(body) {
                samples.truncate(start);
                packed = pack(body, false, &mut packing, &mut samples);
            }
            if packed.is_none() {
                samples.truncate(start);
            }
            // The training learns how similar pieces continue, so many small samples teach more
            // than a few large ones.
            sizes.extend(samples[start..].chunks(SAMPLE_BYTES).map(<[u8]>::len));
        }
        let mut trained = vec![0; bytes.clamp(*BYTES.start(), *BYTES.end())];
        let len = zstd_safe::train_from_buffer(&mut trained[..], &samples, &sizes).ok()?;
        Dictionary::open(id, trained.get(..len)?).ok()
    }

    /// Its number.
    pub(crate) fn id(&self) -> DictionaryId {
        self.id
    }

    /// Its bytes, as recorded.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Bytes of memory that it takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes.len() + self.ready.sizeof()
    }

    /// Loads it into an encoding context. Returns whether that succeeded. It can fail although the
    /// dictionary was opened, because that has only checked that zstd can decode with it.
    pub(super) fn load(&self, context: &mut CCtx<'static>) -> bool {
        let loaded = context.load_dictionary(&self.bytes);
        // The context parses it only at its first use.
        let tried = loaded.and_then(|_| context.compress2(&mut [0_u8; 64][..], b"tried"));
        if tried.is_err() {
            context.disable_dictionary().expect("a context can always do without");
        }
        tried.is_ok()
    }

    pub(super) fn decode(
        &self,
        context: &mut DCtx<'static>,
        coded: &[u8],
        body: &mut [u8],
    ) -> SafeResult {
        context.decompress_using_ddict(body, coded, &self.ready)
    }
}

/// The bytes of a sample for training.
const SAMPLE_BYTES: usize = 1 << 10;

/// The total bytes of bodies when this encoder codes them.
pub(crate) fn coded_bytes(encoder: &mut Encoder, bodies: &[&[u8]]) -> u64 {
    let mut out = Vec::new();
    let bytes = bodies.iter().map(|body| {
        out.clear();
        encoder.encode(body, &mut out);
        out.len() as u64
    });
    bytes.sum()
}

/// Whether a fresh dictionary is worth recording, and keeping as long as blocks need it. The
/// arguments are the coded bytes of bodies on which it was not trained: with the present
/// dictionary, and with the fresh one.
///
/// The first dictionary of a table must save a fiftieth. A later one must save a twentieth, because
/// the dictionary before it must be kept as well.
pub(crate) fn gains_enough(today_bytes: u64, fresh_bytes: u64, has_one: bool) -> bool {
    let share = if has_one { 20 } else { 50 };
    let spared = today_bytes.saturating_sub(fresh_bytes);
    spared > today_bytes / share
}
