//! Codings: how a block's body is encoded on a device.
//!
//! By default, blocks of Level0 and Level1 are stored uncompressed. Blocks of Level2 are compressed
//! with zstd and a dictionary that was trained on blocks of their table (X-Engine's slides,
//! "Storage cost"). The settings may choose LZ4 for blocks that are read often, because LZ4
//! decompresses about as fast as memory is copied. Every block states its own coding. So a
//! compaction can carry a block to another extent unchanged, and the blocks of one extent may have
//! different codings.
//!
//! # Guarantees
//! - **CODING-1.** Decoding the output of [`Encoder::encode`], with the dictionary that the encoder
//!   used, returns the input.
//! - **CODING-2.** Decoding any bytes, with any coding and any dictionary, returns some bytes or
//!   [`spillway_base::ErrorKind::Corruption`]. Encoded bytes begin with a claimed length of the
//!   body. [`Coded::open`] checks that this length is within the caller's bound. The decoder
//!   allocates memory only after this check, and never writes past the claimed length.
//! - **CODING-3.** An encoded body is smaller than the body by at least a sixteenth of the body. A
//!   body that shrinks less is stored as it is.
//! - **CODING-4.** A body that is encoded with a dictionary carries a number that is derived from
//!   the bytes of the dictionary. So decoding it with another dictionary returns `Corruption`.
//!
//! # Format
//! Only bodies of data blocks are encoded. A body that is not encoded is stored as it is. An
//! encoded body (little-endian):
//!
//! ```text
//! 0  length  u32  bytes of the body
//! 4  digits  number of digits that were taken out of the values (varint), then these digits
//!            (see `digits`)
//!    packed  the body without these digits, packed (see `pack`) and compressed:
//!            LZ4: one block of LZ4's block format
//!            zstd: one frame of RFC 8878; with a dictionary, it has the number of CODING-4
//! ```
//!
//! A packed body is at most as long as the body.

mod body;
mod dictionary;
mod digits;
#[cfg(all(test, not(loom)))]
mod measure;
mod names;
mod pack;
mod shelf;
#[cfg(all(test, not(loom)))]
mod tests;

use std::cell::RefCell;
use std::fmt;
use std::str::FromStr;

use lz4_flex::block as lz4;
use spillway_base::codec::{Reader, put_varint};
use spillway_base::{Error, Result};
use zstd_safe::{CCtx, CParameter, DCtx};

pub(crate) use body::{TRAILER_BYTES, csn_bytes};
pub(crate) use dictionary::{Dictionary, DictionaryId, coded_bytes, gains_enough};
pub(crate) use names::Names;
use pack::Packing;
pub(crate) use shelf::{Dictionaries, DictionaryStore};

/// The coding of a body. A frame stores the number. A larger number compresses more and decodes
/// slower.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub(crate) enum Coding {
    /// Uncompressed.
    Stored = 0,
    /// LZ4's block format.
    Lz4 = 1,
    /// A frame of zstd.
    Zstd = 2,
    /// A frame of zstd, made with a dictionary of the table.
    ZstdDictionary = 3,
}

impl Coding {
    /// The coding of this number.
    pub(crate) fn of(number: u8) -> Result<Coding> {
        match number {
            0 => Ok(Coding::Stored),
            1 => Ok(Coding::Lz4),
            2 => Ok(Coding::Zstd),
            3 => Ok(Coding::ZstdDictionary),
            other => Err(Error::corruption(format!("unknown coding {other}"))),
        }
    }
}

/// The compression of blocks. As text: `none`, `lz4`, `zstd` or `zstd:LEVEL`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Compression {
    /// None.
    None,
    /// LZ4: fast in both directions.
    Lz4,
    /// zstd, with a dictionary of the table if that pays.
    Zstd {
        /// 1 to 19: a higher level is slower and compresses more.
        level: u8,
    },
}

impl Compression {
    /// The coding of blocks that it makes smaller.
    pub(crate) fn coding(self) -> Coding {
        match self {
            Compression::None => Coding::Stored,
            Compression::Lz4 => Coding::Lz4,
            Compression::Zstd { .. } => Coding::Zstd,
        }
    }
}

/// Levels of zstd.
const LEVELS: std::ops::RangeInclusive<u8> = 1..=19;
/// The level of `zstd` without a number.
const LEVEL: u8 = 3;

impl Compression {
    /// zstd at its usual level.
    pub const ZSTD: Compression = Compression::Zstd { level: LEVEL };
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Compression::None => f.write_str("none"),
            Compression::Lz4 => f.write_str("lz4"),
            Compression::Zstd { level } => write!(f, "zstd:{level}"),
        }
    }
}

impl FromStr for Compression {
    type Err = Error;

    fn from_str(text: &str) -> Result<Compression> {
        let zstd = |level: &str| {
            let level = level.parse().ok().filter(|level| LEVELS.contains(level))?;
            Some(Compression::Zstd { level })
        };
        let found = match text.split_once(':') {
            None if text == "none" => Some(Compression::None),
            None if text == "lz4" => Some(Compression::Lz4),
            None if text == "zstd" => Some(Compression::ZSTD),
            Some(("zstd", level)) => zstd(level),
            _ => None,
        };
        found.ok_or_else(|| {
            Error::invalid(format!("{text} is no compression; write none, lz4, zstd or zstd:6"))
        })
    }
}

/// Bytes before the coded bytes.
const HEADER_BYTES: usize = 4;
/// The largest body that is coded. Larger bodies are single large values, and are stored.
const BODY_BYTES_MAX: usize = 64 << 20;

/// The most bytes that a coded body may have for a body of this length. If it would have more, the
/// body is stored uncompressed (CODING-3).
fn coded_most(body: usize) -> usize {
    body - body.div_ceil(16)
}

/// Encodes bodies. It keeps the search tables and the prepared dictionary, which are expensive to
/// make, from one body to the next.
pub(crate) struct Encoder {
    compressor: Compressor,
    packing: Packing,
    packed: Vec<u8>,
    /// Whether the last block that was tried with and without its digits was smaller without, and
    /// the number of blocks since.
    digits_pay: bool,
    untried: u32,
}

/// One in this many blocks with many digits is tried with and without them.
const TRY_EVERY: u32 = 16;

enum Compressor {
    None,
    Lz4(Box<lz4::CompressTable>),
    Zstd(Box<CCtx<'static>>, DictionaryId),
}

impl Encoder {
    /// An encoder for a compression, with this dictionary for zstd.
    pub(crate) fn new(compression: Compression, dictionary: Option<&Dictionary>) -> Encoder {
        let compressor = match compression {
            Compression::None => Compressor::None,
            Compression::Lz4 => Compressor::Lz4(Box::new(lz4::CompressTable::small())),
            Compression::Zstd { level } => {
                let mut context = CCtx::create();
                let mut set = |parameter| {
                    context.set_parameter(parameter).expect("zstd has these parameters");
                };
                set(CParameter::CompressionLevel(level.into()));
                // Rows of digits and numbers have many short matches by chance, which cost more
                // than they save.
                set(CParameter::MinMatch(6));
                set(CParameter::ContentSizeFlag(false));
                let id = dictionary.filter(|dictionary| dictionary.load(&mut context));
                let id = id.map_or(DictionaryId::NONE, Dictionary::id);
                Compressor::Zstd(Box::new(context), id)
            }
        };
        Encoder {
            compressor,
            packing: Packing::default(),
            packed: Vec::new(),
            digits_pay: false,
            untried: TRY_EVERY,
        }
    }

    /// Appends a coded or stored body to `out`. Returns its coding, and the dictionary that
    /// decoding needs.
    pub(crate) fn encode(&mut self, body: &[u8], out: &mut Vec<u8>) -> (Coding, DictionaryId) {
        let start = out.len();
        let most = coded_most(body.len());
        if let Some(coded) = self.code_either(body, most, out)
            && out.len() - start <= most
        {
            return coded;
        }
        out.truncate(start);
        out.extend_from_slice(body);
        (Coding::Stored, DictionaryId::NONE)
    }

    /// Codes a body, with its digits in place or taken out.
    fn code_either(
        &mut self,
        body: &[u8],
        most: usize,
        out: &mut Vec<u8>,
    ) -> Option<(Coding, DictionaryId)> {
        let none = matches!(self.compressor, Compressor::None);
        if none || body.len() > BODY_BYTES_MAX || most <= HEADER_BYTES {
            return None;
        }
        let start = out.len();
        let trial = self.untried >= TRY_EVERY;
        self.untried += 1;
        let take = self.digits_pay || trial;
        let many = self.pack(body, take)?;
        if take && !many {
            if trial {
                (self.digits_pay, self.untried) = (false, 0);
            }
            self.pack(body, false)?;
        }
        if !trial || !many {
            return self.code(body, most, out);
        }
        self.untried = 0;
        let without = self.code(body, most, out);
        let (middle, bytes) = (out.len(), out.len() - start);
        self.pack(body, false)?;
        let with = self.code(body, most, out);
        self.digits_pay = with.is_none() || without.is_some() && bytes < out.len() - middle;
        if self.digits_pay {
            out.truncate(middle);
            without
        } else {
            out.drain(start..middle);
            with
        }
    }

    /// Packs a body, with its digits in place or taken out. Returns whether many digits were taken
    /// out.
    fn pack(&mut self, body: &[u8], take_digits: bool) -> Option<bool> {
        self.packed.clear();
        pack::pack(body, take_digits, &mut self.packing, &mut self.packed)?;
        Some(self.packing.has_many_digits(body))
    }

    /// Codes a packed body.
    fn code(
        &mut self,
        body: &[u8],
        most: usize,
        out: &mut Vec<u8>,
    ) -> Option<(Coding, DictionaryId)> {
        if self.packed.len() > body.len() {
            return None;
        }
        let begin = out.len();
        out.extend_from_slice(&(body.len() as u32).to_le_bytes());
        put_varint(out, self.packing.digits.len() as u64);
        digits::pack(&self.packing.digits, out);
        let start = out.len();
        let rest = most.checked_sub(start - begin)?;
        let (coding, id, bytes) = match &mut self.compressor {
            Compressor::None => return None,
            Compressor::Lz4(table) => {
                out.resize(start + lz4::get_maximum_output_size(self.packed.len()), 0);
                let bytes = lz4::compress_into_with_table(&self.packed, &mut out[start..], table);
                (Coding::Lz4, DictionaryId::NONE, bytes.ok()?)
            }
            Compressor::Zstd(context, id) => {
                // The output has no room for a result that is too long to keep, so zstd stops
                // early.
                out.resize(start + rest, 0);
                let bytes = context.compress2(&mut out[start..], &self.packed).ok()?;
                let plain = *id == DictionaryId::NONE;
                (if plain { Coding::Zstd } else { Coding::ZstdDictionary }, *id, bytes)
            }
        };
        out.truncate(start + bytes);
        Some((coding, id))
    }
}

/// The decoder of a thread.
struct Decoder {
    zstd: DCtx<'static>,
    packed: Vec<u8>,
    digits: Vec<u8>,
}

/// The largest packed body for which a thread keeps a buffer.
const KEPT_BYTES: usize = 64 << 10;

thread_local! {
    /// It takes some 160 KiB, so only threads that decode have one.
    static DECODER: RefCell<Decoder> =
        RefCell::new(Decoder {
            zstd: DCtx::create(),
            packed: Vec::new(),
            digits: Vec::new(),
        });
}

/// A coded body whose claimed length is within the caller's bound.
#[derive(Clone, Copy)]
pub(crate) struct Coded<'a> {
    coding: Coding,
    bytes: &'a [u8],
    body_bytes: usize,
}

impl<'a> Coded<'a> {
    /// Opens a coded body, which may have at most `bytes_max` decoded bytes.
    pub(crate) fn open(coding: Coding, bytes: &'a [u8], bytes_max: usize) -> Result<Coded<'a>> {
        let (bytes, body_bytes, most) = match coding {
            Coding::Stored => (bytes, bytes.len(), bytes_max),
            Coding::Lz4 | Coding::Zstd | Coding::ZstdDictionary => {
                let mut reader = Reader::new(bytes);
                let body_bytes = reader.u32()? as usize;
                (reader.rest(), body_bytes, bytes_max.min(BODY_BYTES_MAX))
            }
        };
        if body_bytes > most {
            let message =
                format!("a body of {body_bytes} bytes is more than the {most} there can be");
            return Err(Error::corruption(message));
        }
        Ok(Coded { coding, bytes, body_bytes })
    }

    /// The bytes of the body.
    pub(crate) fn body_bytes(&self) -> usize {
        self.body_bytes
    }

    /// Decodes the body into `body`, which has the body's length.
    pub(crate) fn decode(&self, dictionary: Option<&Dictionary>, body: &mut [u8]) -> Result<()> {
        assert_eq!(body.len(), self.body_bytes, "a body is decoded into its own length");
        if self.coding == Coding::Stored {
            body.copy_from_slice(self.bytes);
            return Ok(());
        }
        DECODER.with_borrow_mut(|decoder| {
            let (packed, digits) = decoder.unpress(self, dictionary)?;
            let wrong = |error: Error| error.context("it cannot be decoded");
            pack::unpack(packed, digits, body).map_err(wrong)?;
            for kept in [&mut decoder.packed, &mut decoder.digits] {
                kept.truncate(KEPT_BYTES);
                kept.shrink_to(KEPT_BYTES);
            }
            Ok(())
        })
    }
}

impl Decoder {
    /// Decompresses a coded body to its packed form and its digits.
    fn unpress(
        &mut self,
        coded: &Coded<'_>,
        dictionary: Option<&Dictionary>,
    ) -> Result<(&[u8], &[u8])> {
        let damaged =
            |what: &dyn fmt::Display| Error::corruption(format!("it cannot be decoded: {what}"));
        let zstd = |code: usize| damaged(&zstd_safe::get_error_name(code));
        if self.packed.len() < coded.body_bytes {
            self.packed.resize(coded.body_bytes, 0);
        }
        let packed = &mut self.packed[..coded.body_bytes];
        let mut reader = Reader::new(coded.bytes);
        let count = usize::try_from(reader.varint()?).unwrap_or(usize::MAX);
        if count > coded.body_bytes {
            return Err(damaged(&"it has more digits than bytes"));
        }
        self.digits.clear();
        digits::unpack(reader.take(digits::packed_bytes(count))?, count, &mut self.digits)?;
        let bytes = reader.rest();
        let bytes = match coded.coding {
            Coding::Stored => return Err(damaged(&"it is not coded")),
            Coding::Lz4 => lz4::decompress_into(bytes, packed).map_err(|error| damaged(&error))?,
            Coding::Zstd => self.zstd.decompress(packed, bytes).map_err(zstd)?,
            Coding::ZstdDictionary => {
                let dictionary = dictionary.ok_or_else(|| damaged(&"its dictionary is missing"))?;
                dictionary.decode(&mut self.zstd, bytes, packed).map_err(zstd)?
            }
        };
        Ok((&self.packed[..bytes], &self.digits))
    }
}

#[cfg(fuzzing)]
pub(crate) mod fuzz {
    use std::sync::LazyLock;

    use super::*;

    const BYTES_MAX: usize = 1 << 20;

    /// Trained on similar samples that are not equal.
    static DICTIONARY: LazyLock<Dictionary> = LazyLock::new(|| {
        let mut writer = crate::block::BlockWriter::default();
        for number in 0..2000_u64 {
            let value = format!("number {} and so on", number * number);
            let key = number.to_be_bytes();
            let (csn, value) = (spillway_base::Csn(number), Some(value.as_bytes()));
            writer.push(&crate::block::Entry { key: &key, csn, value });
        }
        let blocks = writer.finish();
        let bodies = blocks.iter().map(|block| &block.frame[crate::block::FRAME_BYTES..]);
        Dictionary::train(DictionaryId(1), &bodies.collect::<Vec<_>>(), 4096)
            .expect("there is something to learn")
    });

    /// Decodes the bytes, which may fail, and codes and decodes them, which must return them.
    pub(crate) fn coded(bytes: &[u8]) {
        let Some((kind, bytes)) = bytes.split_first() else { return };
        let coding = Coding::of(kind % 4).expect("there are four");
        if let Ok(coded) = Coded::open(coding, bytes, BYTES_MAX) {
            let mut body = vec![0; coded.body_bytes()];
            let _ = coded.decode(Some(&DICTIONARY), &mut body);
        }
        let length = bytes.len().min(1000);
        let mut body = vec![0; length + usize::from(*kind)];
        let (digits, packed) = bytes.split_at(usize::from(*kind).min(bytes.len()));
        if pack::unpack(packed, digits, &mut body).is_ok() {
            again(*kind, &body);
        }
        again(*kind, bytes);
        let _ = Dictionary::open(DictionaryId(1), bytes);
    }

    fn again(kind: u8, body: &[u8]) {
        let compression = match kind / 4 % 4 {
            0 => Compression::None,
            1 => Compression::Lz4,
            2 => Compression::Zstd { level: 1 },
            _ => Compression::Zstd { level: 6 },
        };
        let dictionary = (kind / 16 % 2 == 1).then_some(&*DICTIONARY);
        let mut out = Vec::new();
        let (coding, _) = Encoder::new(compression, dictionary).encode(body, &mut out);
        assert!(out.len() <= body.len());
        let coded = Coded::open(coding, &out, body.len()).expect("it is within its length");
        let mut back = vec![0; coded.body_bytes()];
        coded.decode(dictionary, &mut back).expect("it was just encoded");
        assert_eq!(back, body);
    }
}
