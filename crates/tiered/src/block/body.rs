//! The body of a block: consecutive entries, then a trailer with the number of entries and the size
//! of their CSNs.

use std::cmp::Ordering;

use spillway_base::codec::{Reader, put_varint, varint_len};
use spillway_base::{Csn, Error, Result};

use super::Entry;
use crate::coding::TRAILER_BYTES;

/// Bytes of an entry.
pub(super) fn entry_bytes(entry: &Entry<'_>, csn_bytes: u8) -> usize {
    let value = entry.value.map_or(0, |value| value.len() as u64 + 1);
    let lengths = varint_len(entry.key.len() as u64) + varint_len(value);
    lengths + usize::from(csn_bytes) + entry.payload()
}

/// Appends an entry, whose CSN needs at most `csn_bytes` bytes.
pub(super) fn put_entry(out: &mut Vec<u8>, entry: &Entry<'_>, csn_bytes: u8) {
    put_varint(out, entry.key.len() as u64);
    put_varint(out, entry.value.map_or(0, |value| value.len() as u64 + 1));
    out.extend_from_slice(&entry.csn.0.to_le_bytes()[..usize::from(csn_bytes)]);
    out.extend_from_slice(entry.key);
    out.extend_from_slice(entry.value.unwrap_or_default());
}

/// Ends a body.
pub(super) fn put_trailer(out: &mut Vec<u8>, entries: usize, csn_bytes: u8) {
    out.extend_from_slice(&(entries as u32).to_le_bytes());
    out.push(csn_bytes);
}

/// The trailer at the end of a body.
#[derive(Clone, Copy, Debug)]
pub(super) struct BodyTrailer {
    pub(super) entries: usize,
    /// Bytes of all entries.
    pub(super) entries_bytes: usize,
    pub(super) csn_bytes: u8,
}

/// Properties of checked entries.
pub(super) struct CheckedBody<'a> {
    /// The first key, and the last.
    pub(super) first: &'a [u8],
    pub(super) last: &'a [u8],
    /// Whether no two entries have the same key.
    pub(super) distinct: bool,
    /// Whether no entry is a tombstone.
    pub(super) all_values: bool,
    pub(super) csn_max: Csn,
    /// Bytes of the shortest key, and of the longest.
    pub(super) key_bytes: (usize, usize),
}

fn bad(what: &str) -> Error {
    Error::corruption(format!("its {what} make no sense"))
}

impl BodyTrailer {
    /// Reads the trailer of a body. The number of entries is at least one, and fits the body.
    pub(super) fn of(body: &[u8]) -> Result<BodyTrailer> {
        let split = body.len().checked_sub(TRAILER_BYTES).ok_or_else(|| bad("lengths"))?;
        let mut trailer = Reader::new(&body[split..]);
        let (entries, csn_bytes) = (trailer.u32()? as usize, trailer.u8()?);
        let trailer = BodyTrailer { entries, entries_bytes: split, csn_bytes };
        trailer.checked()
    }

    fn checked(self) -> Result<BodyTrailer> {
        // Each entry has at least two lengths and a CSN.
        let least = 2 + usize::from(self.csn_bytes);
        if self.csn_bytes > 8 || self.entries == 0 || self.entries > self.entries_bytes / least {
            return Err(bad("entry counts"));
        }
        Ok(self)
    }

    /// Checks that all entries lie inside the body and in order. `note` receives the number of each
    /// entry, the offset of the entry, and the offset of its key. A read that misses the cache
    /// spends much of its time here.
    pub(super) fn check<'a>(
        &self,
        entries: &'a [u8],
        mut note: impl FnMut(usize, usize, usize) -> Result<()>,
    ) -> Result<CheckedBody<'a>> {
        let mut rest = entries;
        let mut first: &[u8] = &[];
        let (mut distinct, mut all_values, mut csn_max) = (true, true, Csn::ZERO);
        let (mut key_min, mut key_max) = (usize::MAX, 0);
        let mut last: Option<Entry<'_>> = None;
        for index in 0..self.entries {
            let at = entries.len() - rest.len();
            let (entry, behind) = next_entry(rest, self.csn_bytes)?;
            note(index, at, entries.len() - behind.len() - entry.payload())?;
            rest = behind;
            let ordered = last.is_none_or(|last| match compare(last.key, entry.key) {
                Ordering::Less => true,
                Ordering::Equal => {
                    distinct = false;
                    entry.csn < last.csn
                }
                Ordering::Greater => false,
            });
            all_values &= entry.value.is_some();
            csn_max = csn_max.max(entry.csn);
            key_min = key_min.min(entry.key.len());
            key_max = key_max.max(entry.key.len());
            if !ordered {
                return Err(bad("keys' order"));
            }
            if index == 0 {
                first = entry.key;
            }
            last = Some(entry);
        }
        match last.filter(|_| rest.is_empty()) {
            Some(last) => {
                let key_bytes = (key_min, key_max);
                Ok(CheckedBody { first, last: last.key, distinct, all_values, csn_max, key_bytes })
            }
            None => Err(bad("lengths")),
        }
    }
}

/// Compares two keys. Keys usually differ late and within a few bytes. For such keys, a call of the
/// general comparison takes longer than this loop.
#[inline]
fn compare(a: &[u8], b: &[u8]) -> Ordering {
    let (words, _) = a.as_chunks();
    let (others, _) = b.as_chunks();
    for (word, other) in words.iter().zip(others) {
        let (word, other) = (u64::from_be_bytes(*word), u64::from_be_bytes(*other));
        if word != other {
            return word.cmp(&other);
        }
    }
    let alike = words.len().min(others.len()) * size_of::<u64>();
    a[alike..].cmp(&b[alike..])
}

/// The entry that begins here, and the bytes after it.
#[inline]
fn next_entry(bytes: &[u8], csn_bytes: u8) -> Result<(Entry<'_>, &[u8])> {
    if let Some((key_len, rest)) = short_varint(bytes)
        && let Some((value_len, rest)) = short_varint(rest)
        && let Some(eight) = rest.first_chunk()
        && let Some((key, rest)) = rest[usize::from(csn_bytes)..].split_at_checked(key_len)
        && let Some((value, rest)) = rest.split_at_checked(value_len.saturating_sub(1))
    {
        let csn = Csn(u64::from_le_bytes(*eight) & mask(csn_bytes));
        return Ok((Entry { key, csn, value: (value_len > 0).then_some(value) }, rest));
    }
    let mut reader = Reader::new(bytes);
    let entry = read_entry(&mut reader, csn_bytes)?;
    Ok((entry, reader.rest()))
}

/// The result of a lookup in a part of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PartMatch<'a> {
    /// The visible version; `None` is a tombstone.
    Version(Csn, Option<&'a [u8]>),
    /// No version is visible.
    Nothing,
}

/// Looks up the version of a key that a snapshot sees in a part of a block. The part has all of the
/// block's versions of each of its keys. Returns `None` if the answer needs more of the block, or
/// if the bytes are not entries. The key may be before the first entry of a part that is not the
/// block's first, and after the last entry of any part.
pub(crate) fn search_part<'a>(
    mut entries: &'a [u8],
    csn_bytes: u8,
    is_first: bool,
    key: &[u8],
    snapshot: Csn,
) -> Option<PartMatch<'a>> {
    let mut passed = is_first;
    while !entries.is_empty() {
        let (entry, rest) = next_entry(entries, csn_bytes).ok()?;
        match compare(entry.key, key) {
            Ordering::Less => passed = true,
            Ordering::Equal if entry.csn > snapshot => passed = true,
            Ordering::Equal => return Some(PartMatch::Version(entry.csn, entry.value)),
            Ordering::Greater => return passed.then_some(PartMatch::Nothing),
        }
        entries = rest;
    }
    None
}

/// The entry that begins here. Gets and scans spend most of their time here. Most lengths take one
/// or two bytes, so these are read without a general varint reader.
#[inline]
pub(super) fn entry(bytes: &[u8], csn_bytes: u8) -> Entry<'_> {
    if let Some((key_len, rest)) = short_varint(bytes)
        && let Some((value_len, rest)) = short_varint(rest)
        && let Some(eight) = rest.first_chunk()
        && let Some((key, rest)) = rest[usize::from(csn_bytes)..].split_at_checked(key_len)
    {
        let csn = Csn(u64::from_le_bytes(*eight) & mask(csn_bytes));
        let value = value_len.checked_sub(1).map(|len| &rest[..len]);
        return Entry { key, csn, value };
    }
    read_entry(&mut Reader::new(bytes), csn_bytes)
        .expect("a block's entries are checked when it is opened")
}

/// As [`entry`], with the bytes after it.
#[inline]
pub(super) fn entry_and_rest(bytes: &[u8], csn_bytes: u8) -> (Entry<'_>, &[u8]) {
    next_entry(bytes, csn_bytes).expect("a block's entries are checked when it is opened")
}

/// Reads the entry that begins here. Returns the offset and length of its key, its CSN, and the
/// length of its value plus one (0 for a tombstone).
#[inline(always)] // Most of a scan's step. A call would return the result in memory.
pub(super) fn row(bytes: &[u8], csn_bytes: u8) -> (u32, u32, Csn, u32) {
    // Usually each length has one byte.
    if let Some([key_len @ ..0x80, value @ ..0x80, csn @ ..]) = bytes.first_chunk::<10>()
        && let Some(csn) = csn.first_chunk()
    {
        let csn = Csn(u64::from_le_bytes(*csn) & mask(csn_bytes));
        return (2 + u32::from(csn_bytes), (*key_len).into(), csn, (*value).into());
    }
    long_row(bytes, csn_bytes)
}

/// As [`row`], for lengths of any number of bytes.
#[inline(never)]
fn long_row(bytes: &[u8], csn_bytes: u8) -> (u32, u32, Csn, u32) {
    if let Some((key_len, rest)) = short_varint(bytes)
        && let Some((value, rest)) = short_varint(rest)
        && let Some(eight) = rest.first_chunk()
    {
        let csn = Csn(u64::from_le_bytes(*eight) & mask(csn_bytes));
        let key_at = bytes.len() - rest.len() + usize::from(csn_bytes);
        return (key_at as u32, key_len as u32, csn, value as u32);
    }
    let Entry { key, csn, value } = entry(bytes, csn_bytes);
    let key_at = key.as_ptr().addr() - bytes.as_ptr().addr();
    (key_at as u32, key.len() as u32, csn, value.map_or(0, |value| value.len() as u32 + 1))
}

/// The bits of a number of this many bytes, at most eight.
#[inline]
fn mask(csn_bytes: u8) -> u64 {
    // Shifts twice by half the bits, because a shift by all bits is not allowed.
    let half = 4 * csn_bytes;
    !(u64::MAX << half << half)
}

/// A varint of one or two bytes, and what follows it.
#[inline]
fn short_varint(bytes: &[u8]) -> Option<(usize, &[u8])> {
    match bytes {
        [low @ ..0x80, rest @ ..] => Some((usize::from(*low), rest)),
        [low, high @ ..0x80, rest @ ..] => {
            Some((usize::from(*low & 0x7F) | usize::from(*high) << 7, rest))
        }
        _ => None,
    }
}

fn read_entry<'a>(reader: &mut Reader<'a>, csn_bytes: u8) -> Result<Entry<'a>> {
    let key_len = reader.varint()?;
    let value_len = reader.varint()?;
    let mut csn = [0; 8];
    let stored = reader.take(usize::from(csn_bytes))?;
    csn[..stored.len()].copy_from_slice(stored);
    let len = |len: u64| {
        usize::try_from(len).map_err(|_| Error::corruption("an entry's length makes no sense"))
    };
    let key = reader.take(len(key_len)?)?;
    let value = match value_len.checked_sub(1) {
        Some(bytes) => Some(reader.take(len(bytes)?)?),
        None => None,
    };
    Ok(Entry { key, csn: Csn(u64::from_le_bytes(csn)), value })
}

/// All entries of a body that was checked or just written.
pub(super) fn read_all(entries: &[u8], csn_bytes: u8) -> impl Iterator<Item = Entry<'_>> {
    let mut rest = entries;
    std::iter::from_fn(move || {
        let mut reader = Reader::new((!rest.is_empty()).then_some(rest)?);
        let entry = read_entry(&mut reader, csn_bytes).expect("the entries are whole");
        rest = reader.rest();
        Some(entry)
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use spillway_base::rng::Rng;

    use super::*;

    #[test]
    fn keys_compare_as_their_bytes_do() {
        let mut rng = Rng::new(1);
        for _ in 0..20_000 {
            let mut key = vec![0; rng.below(20) as usize];
            key.iter_mut().for_each(|byte| *byte = [0, 1, 0x7F, 0x80, 0xFF][rng.below(5) as usize]);
            let mut other = key.clone();
            other.truncate(rng.below(20) as usize);
            if rng.chance(1, 2) && !other.is_empty() {
                let at = rng.below(other.len() as u64) as usize;
                other[at] = rng.next_u64() as u8;
            }
            other.resize(other.len() + rng.below(3) as usize, 0);
            assert_eq!(compare(&key, &other), key.cmp(&other), "{key:x?} and {other:x?}");
        }
    }

    /// All ways to read an entry, with arbitrary bytes.
    #[test]
    fn the_next_entry_is_what_the_reader_makes_of_it() {
        let mut rng = Rng::new(2);
        let mut whole = 0;
        for _ in 0..20_000 {
            let mut bytes = vec![0; rng.below(60) as usize];
            rng.fill(&mut bytes);
            bytes.iter_mut().take(4).for_each(|byte| *byte &= [0x0F, 0x83][rng.below(2) as usize]);
            let csn_bytes = rng.below(9) as u8;
            let mut reader = Reader::new(&bytes);
            let expected = read_entry(&mut reader, csn_bytes).ok();
            let expected = expected.map(|entry| (entry, reader.rest()));
            assert_eq!(next_entry(&bytes, csn_bytes).ok(), expected, "{bytes:x?}");
            if let Some((entry, _)) = expected {
                let (at, key_len, csn, value) = row(&bytes, csn_bytes);
                assert_eq!(&bytes[at as usize..(at + key_len) as usize], entry.key);
                assert_eq!(csn, entry.csn);
                assert_eq!(value as usize, entry.value.map_or(0, |value| value.len() + 1));
            }
            whole += u32::from(expected.is_some());
        }
        assert!(whole > 5000, "{whole}");
    }
}
