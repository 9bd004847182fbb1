//! Packing: rearranges a data block's body so that similar bytes lie together, for a compressor.
//!
//! In a body, each entry begins with its lengths and its CSN. These few bytes have little entropy,
//! but a compressor cannot use that, because they are shorter than the shortest repetition that the
//! compressor looks for. Packing stores the lengths of all entries together, and all CSNs together.
//! It stores each CSN as the difference from the CSN before it. Of each key it stores only the part
//! that differs from the key before it.
//!
//! Compressed blocks of the rows in `coding/measure.rs` (sysbench's rows and orders) are a
//! twentieth to a tenth smaller with packing than without. Packing and compression together take no
//! longer than compression of the unpacked body.
//!
//! # Format
//! Integers are LEB128 varints.
//!
//! ```text
//! number of entries
//! bytes of lengths, bytes of CSNs, bytes of keys, bytes of runs
//! lengths   of each entry: key length, value length + 1 or 0 for a tombstone
//! CSNs      of each entry: the difference from the CSN before (from 0 for the first), zigzag
//! keys      of each entry: number of bytes shared with the key before, then the other bytes
//! runs      the places of digits that were taken out of values (`digits`); of each run: number of
//!           bytes of values since the run before, and number of digits
//! values    of each entry, without these digits
//! ```
//!
//! The encoder takes digits out of the values of a block only if two conditions hold. First, the
//! digits are more than a quarter of the block's bytes. Second, when the encoder last tried a block
//! in both ways, with the digits in place and with the digits taken out, the block without its
//! digits was smaller.

use spillway_base::codec::{Reader, put_varint, varint_len};
use spillway_base::{Csn, Error, Result};

use super::body::{TRAILER_BYTES, csn_bytes};
use super::digits::next_run;

/// Appends the packed body of a data block to `out`. Returns `None` for bytes that [`unpack`] would
/// not restore exactly; the content of `out` is unspecified in this case.
pub(super) fn pack(
    body: &[u8],
    take_digits: bool,
    packing: &mut Packing,
    out: &mut Vec<u8>,
) -> Option<()> {
    let (rest, trailer) = body.split_at(body.len().checked_sub(TRAILER_BYTES)?);
    let mut trailer = Reader::new(trailer);
    let (entries, width) = (trailer.u32().ok()? as usize, trailer.u8().ok()?);
    let mut reader = Reader::new(rest);
    packing.clear();
    let mut key_before: &[u8] = &[];
    let (mut csn_before, mut csn_max) = (0, 0);
    for _ in 0..entries {
        let start = reader.offset();
        let (key_len, value_len) = (reader.varint().ok()?, reader.varint().ok()?);
        if reader.offset() - start != varint_len(key_len) + varint_len(value_len) {
            return None;
        }
        let mut csn = [0; 8];
        csn.get_mut(..usize::from(width))?.copy_from_slice(reader.take(width.into()).ok()?);
        let csn = u64::from_le_bytes(csn);
        csn_max = csn_max.max(csn);
        let key = reader.take(usize::try_from(key_len).ok()?).ok()?;
        let value = reader.take(usize::try_from(value_len.saturating_sub(1)).ok()?).ok()?;
        put_varint(&mut packing.lengths, key_len);
        put_varint(&mut packing.lengths, value_len);
        put_varint(&mut packing.csns, zigzag(csn.wrapping_sub(csn_before) as i64));
        let shared = key.iter().zip(key_before).take_while(|(a, b)| a == b).count();
        put_varint(&mut packing.keys, shared as u64);
        packing.keys.extend_from_slice(&key[shared..]);
        if take_digits {
            packing.put_without_digits(value);
        } else {
            packing.values.extend_from_slice(value);
        }
        (key_before, csn_before) = (key, csn);
    }
    if !reader.is_empty() || csn_bytes(Csn(csn_max)) != width {
        return None;
    }
    put_varint(out, entries as u64);
    let parts = [&packing.lengths, &packing.csns, &packing.keys, &packing.runs];
    parts.iter().for_each(|part| put_varint(out, part.len() as u64));
    parts.iter().for_each(|part| out.extend_from_slice(part));
    out.extend_from_slice(&packing.values);
    Some(())
}

/// The parts of a body that is being packed. They are kept between bodies to reuse their memory.
#[derive(Default)]
pub(super) struct Packing {
    lengths: Vec<u8>,
    csns: Vec<u8>,
    keys: Vec<u8>,
    runs: Vec<u8>,
    values: Vec<u8>,
    /// The bytes of values since the last run.
    gap: u64,
    /// The digits that were taken out.
    pub(super) digits: Vec<u8>,
}

impl Packing {
    fn clear(&mut self) {
        let Packing { lengths, csns, keys, runs, values, gap, digits } = self;
        [lengths, csns, keys, runs, values, digits].into_iter().for_each(Vec::clear);
        *gap = 0;
    }

    /// Whether enough digits were taken out of a body for this to be worth it.
    pub(super) fn has_many_digits(&self, body: &[u8]) -> bool {
        self.digits.len() * 4 > body.len()
    }

    fn put_without_digits(&mut self, mut value: &[u8]) {
        while let Some(run) = next_run(value) {
            put_varint(&mut self.runs, self.gap + run.start as u64);
            put_varint(&mut self.runs, run.len() as u64);
            self.gap = 0;
            self.values.extend_from_slice(&value[..run.start]);
            self.digits.extend_from_slice(&value[run.clone()]);
            value = &value[run.end..];
        }
        self.gap += value.len() as u64;
        self.values.extend_from_slice(value);
    }
}

fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}

fn zagzig(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Writes into existing bytes, and not past their end.
struct Writer<'a> {
    bytes: &'a mut [u8],
    at: usize,
}

impl Writer<'_> {
    #[inline]
    fn room(&mut self, len: usize) -> Result<&mut [u8]> {
        let end = self.at.checked_add(len);
        let room = end.and_then(|end| self.bytes.get_mut(self.at..end));
        let room = room.ok_or_else(|| Error::corruption("there is more in it than it says"))?;
        self.at += len;
        Ok(room)
    }

    #[inline]
    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.room(bytes.len())?.copy_from_slice(bytes);
        Ok(())
    }

    #[inline]
    fn varint(&mut self, mut value: u64) -> Result<()> {
        let room = self.room(varint_len(value))?;
        let (last, before) = room.split_last_mut().expect("a varint has a byte at least");
        for byte in before {
            *byte = value as u8 | 0x80;
            value >>= 7;
        }
        *last = value as u8;
        Ok(())
    }
}

/// Values with their digits put back.
struct PackedValues<'a> {
    rest: Reader<'a>,
    runs: Reader<'a>,
    digits: Reader<'a>,
    /// The bytes before the next run of digits, and the number of digits in this run.
    gap: u64,
    run: u64,
}

impl PackedValues<'_> {
    /// Fills a value.
    fn fill(&mut self, mut value: &mut [u8]) -> Result<()> {
        loop {
            let plain = value.len().min(usize::try_from(self.gap).unwrap_or(usize::MAX));
            let (now, later) = value.split_at_mut(plain);
            now.copy_from_slice(self.rest.take(plain)?);
            self.gap -= plain as u64;
            if later.is_empty() {
                return Ok(());
            }
            let digits = later.len().min(usize::try_from(self.run).unwrap_or(usize::MAX));
            let (now, later) = later.split_at_mut(digits);
            now.copy_from_slice(self.digits.take(digits)?);
            self.run -= digits as u64;
            if self.run == 0 {
                self.next()?;
            }
            value = later;
        }
    }

    fn next(&mut self) -> Result<()> {
        if self.runs.is_empty() {
            (self.gap, self.run) = (u64::MAX, 0);
            return Ok(());
        }
        (self.gap, self.run) = (self.runs.varint()?, self.runs.varint()?);
        if self.run == 0 { Err(Error::corruption("a run of no digits")) } else { Ok(()) }
    }
}

/// The bytes that the largest of these CSNs needs.
fn csn_bytes_most(mut csns: Reader<'_>) -> Result<u8> {
    let (mut csn, mut most) = (0_u64, 0);
    while !csns.is_empty() {
        csn = csn.wrapping_add(zagzig(csns.varint()?) as u64);
        most = most.max(csn);
    }
    Ok(csn_bytes(Csn(most)))
}

/// Restores the body, with the digits that were taken out. The result must fill `body` exactly.
///
/// # Errors
/// [`spillway_base::ErrorKind::Corruption`].
pub(super) fn unpack(packed: &[u8], digits: &[u8], body: &mut [u8]) -> Result<()> {
    let len =
        |len: u64| usize::try_from(len).map_err(|_| Error::corruption("a length makes no sense"));
    let mut reader = Reader::new(packed);
    let entries = len(reader.varint()?)?;
    let mut sizes = [0; 4];
    for size in &mut sizes {
        *size = len(reader.varint()?)?;
    }
    let [lengths, csns, keys, runs] = sizes.map(|size| reader.take(size));
    let (mut lengths, mut csns, mut keys) =
        (Reader::new(lengths?), Reader::new(csns?), Reader::new(keys?));
    let width = csn_bytes_most(csns.clone())?;
    let split = body.len().checked_sub(TRAILER_BYTES);
    let split = split.ok_or_else(|| Error::corruption("it is too short for a body"))?;
    let (parts, trailer) = body.split_at_mut(split);
    let mut trailer = Writer { bytes: trailer, at: 0 };
    let mut out = Writer { bytes: parts, at: 0 };
    let (runs, rest, digits) =
        (Reader::new(runs?), Reader::new(reader.rest()), Reader::new(digits));
    let mut values = PackedValues { rest, runs, digits, gap: 0, run: 0 };
    values.next()?;
    let mut csn = 0_u64;
    let mut key_before = 0..0;
    for _ in 0..entries {
        let (key_len, value_len) = (lengths.varint()?, lengths.varint()?);
        csn = csn.wrapping_add(zagzig(csns.varint()?) as u64);
        out.varint(key_len)?;
        out.varint(value_len)?;
        out.put(&csn.to_le_bytes()[..usize::from(width)])?;
        let (key_len, shared) = (len(key_len)?, len(keys.varint()?)?);
        if shared > key_len.min(key_before.len()) {
            return Err(Error::corruption("a key begins with more than there is before it"));
        }
        let at = out.at;
        out.room(shared)?;
        out.bytes.copy_within(key_before.start..key_before.start + shared, at);
        out.put(keys.take(key_len - shared)?)?;
        key_before = at..out.at;
        values.fill(out.room(len(value_len.saturating_sub(1))?)?)?;
    }
    trailer.put(&(entries as u32).to_le_bytes())?;
    trailer.put(&[width])?;
    let PackedValues { rest, runs, digits, .. } = &values;
    let rests = [rest, runs, digits, &lengths, &csns, &keys];
    if out.at != out.bytes.len() || rests.iter().any(|rest| !rest.is_empty()) {
        return Err(Error::corruption("its parts are not as long as it says"));
    }
    Ok(())
}
