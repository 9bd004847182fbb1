//! A plain block of prefixes and restarts, as LevelDB and RocksDB use by default: the baseline for
//! Spillway's layout.
//!
//! ```text
//! body     entries
//!          offset of each restart in the body (u32)
//!          number of restarts (u32)
//! entry    length of the prefix that the key shares with the key of the previous entry (varint)
//!          length of the rest of the key (varint)
//!          length of the value (varint)
//!          rest of the key, value
//! restart  an entry that shares no prefix: the first of every sixteen
//! frame    coding (u8)
//!          length of the body (u32)
//!          CRC32C of the coded body (u32)
//!          the coded body
//! ```
//!
//! A key ends with the CSN of its write. The CSN has eight bytes, as in those databases, or as few
//! bytes as possible, to compare the layouts alone. A search bisects the restarts, and then
//! compares entry by entry from a restart on. A step forward builds the key from the previous key.
//! A step backward decodes all entries from the previous restart on and keeps them, as RocksDB
//! does. So the next steps backward need not decode them again.

use std::ops::Range;

use spillway_base::checksum::crc32c;
use spillway_base::codec::put_varint;
use spillway_tiered::blocks::RowOf;
use zstd_safe::DCtx;

/// Entries between two restarts.
const RESTART_EVERY: usize = 16;
const WORD: usize = 4;
const FRAME_BYTES: usize = 1 + 2 * WORD;
/// Bytes of the largest body.
const BODY_BYTES_MAX: usize = 16 << 20;

/// The coding of a body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Coding {
    Stored,
    Lz4,
    /// zstd of level 3.
    Zstd,
}

/// The body of these rows, with CSNs of this many bytes.
pub(super) fn body<'a>(rows: impl IntoIterator<Item = RowOf<'a>>, csn_bytes: usize) -> Vec<u8> {
    let (mut body, mut restarts) = (Vec::new(), Vec::new());
    let (mut last, mut key): (Vec<u8>, Vec<u8>) = (Vec::new(), Vec::new());
    for (number, (user_key, csn, value)) in rows.into_iter().enumerate() {
        key.clear();
        key.extend_from_slice(user_key);
        key.extend_from_slice(&csn.to_le_bytes()[..csn_bytes]);
        let shared = if number % RESTART_EVERY == 0 {
            restarts.push(body.len() as u32);
            0
        } else {
            last.iter().zip(&key).take_while(|(a, b)| a == b).count()
        };
        put_varint(&mut body, shared as u64);
        put_varint(&mut body, (key.len() - shared) as u64);
        put_varint(&mut body, value.len() as u64);
        body.extend_from_slice(&key[shared..]);
        body.extend_from_slice(value);
        std::mem::swap(&mut last, &mut key);
    }
    restarts.iter().for_each(|restart| body.extend_from_slice(&restart.to_le_bytes()));
    body.extend_from_slice(&(restarts.len() as u32).to_le_bytes());
    body
}

/// The frame of a body.
pub(super) fn frame(body: &[u8], coding: Coding) -> Vec<u8> {
    let coded = match coding {
        Coding::Stored => body.to_vec(),
        Coding::Lz4 => lz4_flex::block::compress(body),
        Coding::Zstd => {
            let mut coded = Vec::with_capacity(zstd_safe::compress_bound(body.len()));
            zstd_safe::compress(&mut coded, body, 3).expect("there is room for what zstd makes");
            coded
        }
    };
    let (coding, coded) =
        if coded.len() < body.len() { (coding, coded) } else { (Coding::Stored, body.to_vec()) };
    let mut frame = vec![coding as u8];
    frame.extend_from_slice(&(body.len() as u32).to_le_bytes());
    frame.extend_from_slice(&crc32c(&coded).to_le_bytes());
    frame.extend_from_slice(&coded);
    frame
}

fn word(bytes: &[u8], at: usize) -> Option<usize> {
    bytes.get(at..)?.first_chunk().map(|word| u32::from_le_bytes(*word) as usize)
}

/// A block in memory.
pub(super) struct RestartBlock {
    /// The body.
    bytes: Vec<u8>,
    restarts_at: usize,
    restarts: usize,
    csn_bytes: usize,
}

impl RestartBlock {
    /// Checks a frame as a whole, without its entries, and decodes it. `None` if it is damaged.
    pub(super) fn open(
        frame: &[u8],
        csn_bytes: usize,
        zstd: &mut DCtx<'_>,
    ) -> Option<RestartBlock> {
        let (len, crc) = (word(frame, 1)?, word(frame, 1 + WORD)?);
        let coded = frame.get(FRAME_BYTES..)?;
        if crc32c(coded) as usize != crc || len > BODY_BYTES_MAX {
            return None;
        }
        let bytes = match frame[0] {
            1 => lz4_flex::block::decompress(coded, len).ok()?,
            2 => {
                let mut bytes = Vec::with_capacity(len);
                zstd.decompress(&mut bytes, coded).ok()?;
                bytes
            }
            _ => coded.to_vec(),
        };
        let restarts = word(&bytes, bytes.len().checked_sub(WORD)?)?;
        let restarts_at = bytes.len().checked_sub(WORD * (restarts + 1))?;
        (bytes.len() == len).then_some(RestartBlock { bytes, restarts_at, restarts, csn_bytes })
    }

    /// Bytes in memory.
    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes.len() + size_of::<RestartBlock>()
    }

    fn restart(&self, index: usize) -> usize {
        let at = self.restarts_at + index * WORD;
        let bytes = self.bytes[at..at + WORD].first_chunk().copied().unwrap_or_default();
        u32::from_le_bytes(bytes) as usize
    }

    /// The lengths of the entry at this offset, and where its key begins.
    #[inline]
    fn lengths(&self, at: usize) -> ([usize; 3], usize) {
        let bytes = &self.bytes[at..self.restarts_at];
        if let [shared, rest, value, ..] = *bytes
            && shared | rest | value < 0x80
        {
            return ([shared, rest, value].map(usize::from), at + 3);
        }
        let mut passed = 0;
        let lengths = [(); 3].map(|()| {
            let (mut length, mut shift) = (0, 0);
            loop {
                let byte = bytes[passed];
                passed += 1;
                length |= usize::from(byte & 0x7F) << shift;
                if byte < 0x80 {
                    break length;
                }
                shift += 7;
            }
        });
        (lengths, at + passed)
    }
}

/// Buffers that cursors reuse.
#[derive(Default)]
pub(super) struct Room {
    key: Vec<u8>,
    kept_keys: Vec<u8>,
    kept: Vec<Kept>,
}

/// An entry that was passed on the way from a restart.
struct Kept {
    at: usize,
    key: Range<usize>,
    value: Range<usize>,
}

/// A cursor over a block.
pub(super) struct RestartCursor<'a> {
    block: &'a RestartBlock,
    room: &'a mut Room,
    /// The offsets of the entry and of the one behind it.
    at: usize,
    next: usize,
    /// Where the key is in the block, if it is there as a whole; otherwise it is in the buffer.
    key_at: Option<Range<usize>>,
    value: Range<usize>,
    /// The index of the current entry among the kept ones.
    kept: Option<usize>,
}

impl<'a> RestartCursor<'a> {
    pub(super) fn new(block: &'a RestartBlock, room: &'a mut Room) -> RestartCursor<'a> {
        RestartCursor { block, room, at: 0, next: 0, key_at: None, value: 0..0, kept: None }
    }

    /// The key, without its CSN, and the value.
    #[inline]
    pub(super) fn row(&self) -> (&[u8], &[u8]) {
        (self.key(), &self.block.bytes[self.value.clone()])
    }

    #[inline]
    fn key(&self) -> &[u8] {
        let whole = match (&self.key_at, self.kept) {
            (_, Some(kept)) => &self.room.kept_keys[self.room.kept[kept].key.clone()],
            (Some(place), None) => &self.block.bytes[place.clone()],
            (None, None) => &self.room.key,
        };
        &whole[..whole.len() - self.block.csn_bytes]
    }

    /// Moves to the next entry in the block.
    #[inline]
    fn parse(&mut self) -> bool {
        if self.next >= self.block.restarts_at {
            return false;
        }
        let ([shared, rest, value], key_at) = self.block.lengths(self.next);
        let value_at = key_at + rest;
        if shared == 0 {
            self.key_at = Some(key_at..value_at);
        } else {
            if let Some(place) = self.key_at.take() {
                self.room.key.clear();
                self.room.key.extend_from_slice(&self.block.bytes[place.start..][..shared]);
            } else {
                self.room.key.truncate(shared);
            }
            self.room.key.extend_from_slice(&self.block.bytes[key_at..value_at]);
        }
        (self.at, self.next) = (self.next, value_at + value);
        self.value = value_at..self.next;
        true
    }

    fn go_to(&mut self, restart: usize) {
        self.next = self.block.restart(restart);
        (self.key_at, self.kept) = (None, None);
        self.room.key.clear();
    }

    /// Moves to the first entry at or past a key; `false` if there is none.
    pub(super) fn seek(&mut self, key: &[u8]) -> bool {
        let (mut low, mut high) = (0, self.block.restarts);
        while low < high {
            let middle = low + (high - low) / 2;
            let ([_, rest, _], at) = self.block.lengths(self.block.restart(middle));
            match self.block.bytes[at..at + rest - self.block.csn_bytes].cmp(key) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => {
                    self.go_to(middle);
                    return self.parse();
                }
            }
        }
        self.go_to(low.saturating_sub(1));
        while self.parse() {
            if self.key() >= key {
                return true;
            }
        }
        false
    }

    /// Moves to the first entry.
    pub(super) fn first(&mut self) -> bool {
        self.go_to(0);
        self.parse()
    }

    /// Moves to the last entry.
    pub(super) fn last(&mut self) -> bool {
        self.at = self.block.restarts_at;
        self.kept = None;
        self.backward()
    }

    /// Moves to the next entry; `false` if there is none.
    #[inline]
    pub(super) fn forward(&mut self) -> bool {
        if self.kept.take().is_some() {
            // When the direction turns, the next key is built from the current one.
            let place = self.at;
            self.seek_place(place);
        }
        self.parse()
    }

    fn seek_place(&mut self, place: usize) {
        let restart = (0..self.block.restarts).rev();
        let restart = restart.into_iter().find(|index| self.block.restart(*index) <= place);
        self.go_to(restart.unwrap_or(0));
        while self.parse() && self.at < place {}
    }

    /// Moves to the previous entry; `false` if there is none.
    #[inline]
    pub(super) fn backward(&mut self) -> bool {
        if let Some(before) = self.kept.and_then(|kept| kept.checked_sub(1)) {
            self.stand_on(before);
            return true;
        }
        let place = self.at;
        let (mut low, mut high) = (0, self.block.restarts);
        // The last restart before it.
        while low < high {
            let middle = low + (high - low) / 2;
            if self.block.restart(middle) < place { low = middle + 1 } else { high = middle }
        }
        let Some(restart) = low.checked_sub(1) else { return false };
        self.go_to(restart);
        self.room.kept.clear();
        self.room.kept_keys.clear();
        while self.next < place && self.parse() {
            let key = match &self.key_at {
                Some(place) => &self.block.bytes[place.clone()],
                None => &self.room.key,
            };
            let begin = self.room.kept_keys.len();
            self.room.kept_keys.extend_from_slice(key);
            let key = begin..self.room.kept_keys.len();
            self.room.kept.push(Kept { at: self.at, key, value: self.value.clone() });
        }
        match self.room.kept.len().checked_sub(1) {
            Some(last) => self.stand_on(last),
            None => return false,
        }
        true
    }

    #[inline]
    fn stand_on(&mut self, kept: usize) {
        let Kept { at, value, .. } = &self.room.kept[kept];
        (self.at, self.value, self.kept) = (*at, value.clone(), Some(kept));
    }
}
