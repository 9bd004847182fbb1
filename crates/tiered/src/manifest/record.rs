//! The bytes of a manifest file.
//!
//! # Format
//! Little-endian. A header of 32 bytes, then records without gaps:
//!
//! ```text
//! header  0  magic      8 bytes  "SPWYMNFT"
//!         8  version    u16      3
//!        10  zero       u16
//!        12  slot bytes u32      the size of a slot in the data files
//!        16  number     u64      the manifest's number, as in its file name
//!        24  zero       u32
//!        28  checksum   u32      CRC32C of bytes 0..28
//!
//! record  0  magic      u32      0x52_46_4E_4D
//!         4  length     u32      bytes of payload
//!         8  sequence   u64      1 for the first record of the file, then ascending by one
//!        16  checksum   u32      CRC32C of bytes 0..16 and the payload
//!        20  payload             edits (see `edit`); none in a seal
//! ```
//!
//! # Torn tail or damage
//! The manifest writes and syncs a record with edits, and then writes and syncs a *seal*, a record
//! without edits. Only then does the engine act on the edits. So a bad record is one of two things:
//!
//! - A bad record with a valid record anywhere after it is damage. The bad record was once durable,
//!   because the manifest writes a record only after it has synced the record before it. The
//!   opening fails, and names file and offset.
//! - A bad record without a valid record after it is the torn tail of an append that a crash cut
//!   short. The engine never acted on the edits of this append, because their seal is not durable.
//!   The opening discards the bad record.

use spillway_base::checksum::{crc32c, crc32c_append};
use spillway_base::codec::Reader;
use spillway_base::{Error, ErrorKind, Result};

use super::edit::Edit;

const FILE_MAGIC: &[u8; 8] = b"SPWYMNFT";
const VERSION: u16 = 3;
const RECORD_MAGIC: u32 = 0x5246_4E4D;
pub(super) const HEADER_LEN: usize = 32;
pub(super) const RECORD_HEADER_LEN: usize = 20;

/// Writes a manifest's header.
pub(super) fn encode_header(slot_bytes: u32, number: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER_LEN);
    out.extend_from_slice(FILE_MAGIC);
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&[0; 2]);
    out.extend_from_slice(&slot_bytes.to_le_bytes());
    out.extend_from_slice(&number.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&crc32c(&out).to_le_bytes());
    out
}

/// Appends a record; without edits it is a seal.
pub(super) fn encode_record(out: &mut Vec<u8>, sequence: u64, edits: &[Edit]) {
    encode_record_of(out, sequence, |out| edits.iter().for_each(|edit| edit.encode(out)));
}

/// Appends a record whose payload `encode` writes.
pub(super) fn encode_record_of(
    out: &mut Vec<u8>,
    sequence: u64,
    encode: impl FnOnce(&mut Vec<u8>),
) {
    let start = out.len();
    out.resize(start + RECORD_HEADER_LEN, 0);
    encode(out);
    let len = out.len() - start - RECORD_HEADER_LEN;
    let len = u32::try_from(len).expect("a record's edits stay far below 4 GiB");
    let (header, payload) = out[start..].split_at_mut(RECORD_HEADER_LEN);
    header[..4].copy_from_slice(&RECORD_MAGIC.to_le_bytes());
    header[4..8].copy_from_slice(&len.to_le_bytes());
    header[8..16].copy_from_slice(&sequence.to_le_bytes());
    let crc = crc32c_append(crc32c(&header[..16]), payload);
    header[16..].copy_from_slice(&crc.to_le_bytes());
}

/// The contents of a manifest file other than its edits.
#[derive(Debug)]
pub(super) struct Contents {
    pub(super) slot_bytes: u32,
    /// The offset of the next record. The bytes from here on are a torn tail.
    pub(super) end: usize,
    /// The next record's sequence number.
    pub(super) next_sequence: u64,
}

/// Reads a manifest file with `number` in its name, and passes the edits of all records to `give`,
/// in order. It returns no list of them, because they are too many to hold beside the resulting
/// state. Errors name the offset; the caller adds the file.
pub(super) fn read_edits(
    bytes: &[u8],
    number: u64,
    give: &mut dyn FnMut(Edit) -> Result<()>,
) -> Result<Contents> {
    let slot_bytes = decode_header(bytes, number)?;
    let mut contents = Contents { slot_bytes, end: HEADER_LEN, next_sequence: 1 };
    while contents.end < bytes.len() {
        let at = contents.end;
        let Some((sequence, payload)) = record_at(bytes, at) else {
            if let Some(valid) = (at + 1..bytes.len()).find(|&at| record_at(bytes, at).is_some()) {
                return Err(Error::corruption(format!(
                    "the record at byte {at} is damaged (a valid one follows at byte {valid})"
                )));
            }
            break;
        };
        if sequence != contents.next_sequence {
            let expected = contents.next_sequence;
            return Err(Error::corruption(format!(
                "the record at byte {at} is number {sequence}, where {expected} belongs"
            )));
        }
        Edit::decode_each(payload, give)
            .map_err(|error| error.context(format_args!("in the record at byte {at}")))?;
        contents.end += RECORD_HEADER_LEN + payload.len();
        contents.next_sequence += 1;
    }
    Ok(contents)
}

/// As [`read_edits`], and returns all edits.
#[cfg(any(fuzzing, all(test, not(loom))))]
pub(super) fn decode(bytes: &[u8], number: u64) -> Result<(Contents, Vec<Edit>)> {
    let mut edits = Vec::new();
    let contents = read_edits(bytes, number, &mut |edit| {
        edits.push(edit);
        Ok(())
    })?;
    Ok((contents, edits))
}

fn decode_header(bytes: &[u8], number: u64) -> Result<u32> {
    let mut reader = Reader::new(bytes);
    let damaged = || Error::corruption("the header is damaged");
    let magic = reader.take(FILE_MAGIC.len())?;
    let version = reader.u16()?;
    reader.u16()?;
    let slot_bytes = reader.u32()?;
    let found = reader.u64()?;
    reader.u32()?;
    if magic != FILE_MAGIC || reader.u32()? != crc32c(&bytes[..HEADER_LEN - 4]) {
        return Err(damaged());
    }
    if version != VERSION {
        return Err(Error::new(
            ErrorKind::UnsupportedFormat,
            format!("its format is version {version}; this build reads version {VERSION}"),
        ));
    }
    if found != number || slot_bytes == 0 {
        return Err(damaged());
    }
    Ok(slot_bytes)
}

/// The sequence number and payload of the valid record at `at`, if there is one.
fn record_at(bytes: &[u8], at: usize) -> Option<(u64, &[u8])> {
    let mut reader = Reader::new(&bytes[at..]);
    if reader.u32().ok()? != RECORD_MAGIC {
        return None;
    }
    let len = usize::try_from(reader.u32().ok()?).ok()?;
    let sequence = reader.u64().ok()?;
    let crc = reader.u32().ok()?;
    let payload = reader.take(len).ok()?;
    let header = &bytes[at..at + 16];
    (crc == crc32c_append(crc32c(header), payload)).then_some((sequence, payload))
}
