//! A table's index in a checkpoint: one file with the keys in order and their RIDs.
//!
//! The file is a stream (see [`crate::stream`]) of key blocks, followed by a directory. An opening
//! reads only the directory. The first use of a key reads and verifies the key's block
//! ([`crate::index_load`]).
//!
//! ```text
//! key block  of each key:
//!   shared      varint  bytes that the key has in common with the key before it; 0 in the first
//!   rest        varint  number of the key's other bytes, which follow
//!   slot        varint  the two parts of the key's RID
//!   generation  varint
//! directory  of each key block:
//!   bytes       varint  number of bytes of the key block
//!   keys        varint  number of keys
//!   first       bytes   the first key, after its length (varint)
//! ```
//!
//! A key block longer than 1 MiB, the maximum of a stream's block, spans several of the stream's
//! blocks. The checkpoint's manifest has the position of the directory.

use std::path::Path;
use std::sync::Arc;

use spillway_base::codec::{Reader, key_head, put_bytes, put_varint};
use spillway_base::{Error, Result};
use spillway_storage::{Disk, File};

use crate::rid::Rid;
use crate::stream::{Blocks, Position, Writer};

/// A key block ends once its payload has this many bytes. A block of 64 KiB takes a few
/// milliseconds to read and load. Debug builds have small blocks, so that the few rows of a test
/// fill many.
const BLOCK_BYTES: usize = if cfg!(debug_assertions) { 96 } else { 64 << 10 };

/// The file has at most half of this many bytes for each byte of the index in memory. There a key
/// takes 8 bytes or more; here, a record of at least 4 to 9 bytes, and a part of the two whole keys
/// that each block repeats. With prefixes of more than some 1,000 bytes in common, it may be more.
/// The small blocks of debug builds repeat many keys, of up to a hundred bytes or so.
pub(crate) const HALF_BYTES_PER_MEMORY_BYTE: u64 = if cfg!(debug_assertions) { 8 } else { 3 };

/// A key block also ends once its keys have this many bytes in total. A load holds them all in
/// memory, and keys with a long common prefix take little of the payload.
const BLOCK_KEY_BYTES: usize = 16 * BLOCK_BYTES;

/// The file as the checkpoint's manifest describes it.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct IndexFile {
    /// The file's number.
    pub(crate) number: u64,
    pub(crate) keys: u64,
    pub(crate) directory: Position,
}

/// Writes the file, key by key.
pub(crate) struct IndexWriter {
    number: u64,
    writer: Writer,
    block: Vec<u8>,
    block_keys: u64,
    /// The bytes of these keys in total.
    block_key_bytes: usize,
    first: Vec<u8>,
    last: Vec<u8>,
    directory: Vec<u8>,
    keys: u64,
}

impl IndexWriter {
    pub(crate) fn create(disk: &dyn Disk, path: &Path, number: u64) -> Result<IndexWriter> {
        Ok(IndexWriter {
            number,
            writer: Writer::create(disk, path, number)?,
            block: Vec::new(),
            block_keys: 0,
            block_key_bytes: 0,
            first: Vec::new(),
            last: Vec::new(),
            directory: Vec::new(),
            keys: 0,
        })
    }

    /// Adds a key. Keys come in ascending order.
    pub(crate) fn add(&mut self, key: &[u8], rid: Rid) -> Result<()> {
        if self.block.len() >= BLOCK_BYTES || self.block_key_bytes >= BLOCK_KEY_BYTES {
            self.end_block()?;
        }
        if self.block_keys == 0 {
            self.first.clear();
            self.first.extend_from_slice(key);
            self.last.clear();
        }
        let shared = self.last.iter().zip(key).take_while(|(last, byte)| last == byte).count();
        put_varint(&mut self.block, shared as u64);
        put_varint(&mut self.block, (key.len() - shared) as u64);
        self.block.extend_from_slice(&key[shared..]);
        put_varint(&mut self.block, rid.slot());
        put_varint(&mut self.block, u64::from(rid.generation()));
        self.last.truncate(shared);
        self.last.extend_from_slice(&key[shared..]);
        self.block_keys += 1;
        self.block_key_bytes += key.len();
        Ok(())
    }

    fn end_block(&mut self) -> Result<()> {
        put_varint(&mut self.directory, self.block.len() as u64);
        put_varint(&mut self.directory, self.block_keys);
        put_bytes(&mut self.directory, &self.first);
        self.writer.write_apart(&self.block)?;
        self.keys += self.block_keys;
        self.block.clear();
        (self.block_keys, self.block_key_bytes) = (0, 0);
        Ok(())
    }

    /// Writes the directory and makes the file durable. Returns the file's description for the
    /// manifest, and its length in bytes.
    pub(crate) fn finish(mut self) -> Result<(IndexFile, u64)> {
        if self.block_keys > 0 {
            self.end_block()?;
        }
        let directory = self.writer.position();
        self.writer.write_apart(&self.directory)?;
        let file = IndexFile { number: self.number, keys: self.keys, directory };
        Ok((file, self.writer.finish()?))
    }
}

/// A key block as the directory describes it.
pub(crate) struct BlockEntry {
    pub(crate) first: Box<[u8]>,
    pub(crate) keys: u64,
    position: Position,
    bytes: usize,
}

/// Reads the file.
pub(crate) struct IndexReader {
    file: Arc<dyn File>,
    path: String,
    number: u64,
    /// In the order of their keys.
    pub(crate) blocks: Vec<BlockEntry>,
    /// The [`key_head`] of each block's first key: a search rarely needs more of a key.
    heads: Vec<u64>,
}

/// The keys of a block, in order, with their RIDs.
#[derive(Default)]
pub(crate) struct BlockKeys {
    bytes: Vec<u8>,
    /// The end of each key in `bytes`, and the key's RID.
    ends: Vec<(usize, Rid)>,
}

impl BlockKeys {
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], Rid)> {
        let begins = std::iter::once(0).chain(self.ends.iter().map(|(end, _)| *end));
        begins.zip(&self.ends).map(|(begin, (end, rid))| (&self.bytes[begin..*end], *rid))
    }
}

impl IndexReader {
    /// Opens the file and reads its directory.
    ///
    /// # Errors
    /// [`spillway_base::ErrorKind::Corruption`], [`spillway_base::ErrorKind::Io`].
    pub(crate) fn open(disk: &dyn Disk, path: &Path, of: &IndexFile) -> Result<IndexReader> {
        let blocks = Blocks::open(disk, path, of.number)?;
        let mut reader = IndexReader {
            file: blocks.file(),
            path: path.display().to_string(),
            number: of.number,
            blocks: Vec::new(),
            heads: Vec::new(),
        };
        let directory = blocks.at(of.directory).rest()?;
        let (mut bytes, mut position, mut keys) = (Reader::new(&directory), Position::default(), 0);
        while !bytes.is_empty() {
            let entry = BlockEntry {
                position,
                bytes: bytes.varint()? as usize,
                keys: bytes.varint()?,
                first: bytes.bytes()?.into(),
            };
            let ordered = reader.blocks.last().is_none_or(|last| last.first < entry.first);
            position = position.past(entry.bytes);
            // A key takes at least three bytes in its block, so there are fewer keys than bytes.
            // All blocks lie before the directory.
            let fits = entry.keys <= entry.bytes as u64 && position.offset <= of.directory.offset;
            if !ordered || entry.keys == 0 || !fits {
                return Err(reader.damaged("its directory is damaged"));
            }
            keys += entry.keys;
            reader.heads.push(key_head(&entry.first));
            reader.blocks.push(entry);
        }
        if keys != of.keys || position != of.directory {
            return Err(reader.damaged("its directory does not match the checkpoint"));
        }
        Ok(reader)
    }

    /// A corruption error that names the file.
    pub(crate) fn damaged(&self, what: &str) -> Error {
        Error::corruption(format!("{}: {what}", self.path))
    }

    /// About the length of the file.
    pub(crate) fn file_bytes(&self) -> u64 {
        let entry = |block: &BlockEntry| (block.bytes + block.first.len() + 32) as u64;
        self.blocks.iter().map(entry).sum()
    }

    pub(crate) fn first_key(&self, block: usize) -> &[u8] {
        &self.blocks[block].first
    }

    /// The block that must have the key if the file has it.
    pub(crate) fn block_of(&self, key: &[u8]) -> usize {
        let head = key_head(key);
        let begin = self.heads.partition_point(|first| *first < head);
        let same = self.heads[begin..].partition_point(|first| *first == head);
        let same = &self.blocks[begin..begin + same];
        (begin + same.partition_point(|block| *block.first <= *key)).saturating_sub(1)
    }

    /// Reads the keys of a block.
    ///
    /// # Errors
    /// [`spillway_base::ErrorKind::Corruption`], [`spillway_base::ErrorKind::Io`].
    pub(crate) fn read(&self, number: usize) -> Result<BlockKeys> {
        let entry = &self.blocks[number];
        let file = Blocks::of_file(self.file.clone(), self.path.clone(), self.number)?;
        let (mut blocks, mut payload) = (file.at(entry.position), Vec::new());
        while payload.len() < entry.bytes {
            if !blocks.next(&mut payload)? {
                return Err(self.damaged("it ends within a block"));
            }
        }
        let next = self.blocks.get(number + 1).map(|next| &*next.first);
        decode(&payload, entry, next).map_err(|_| self.damaged("the keys of a block are damaged"))
    }
}

/// Decodes a key block. Checks that it has as many keys as the directory says, in order, and that
/// all are below the next block's first key.
fn decode(payload: &[u8], entry: &BlockEntry, next: Option<&[u8]>) -> Result<BlockKeys> {
    let wrong = || Error::corruption("a key");
    let (mut reader, mut keys, mut begin) = (Reader::new(payload), BlockKeys::default(), 0);
    for _ in 0..entry.keys {
        let (shared, rest) = (reader.varint()? as usize, reader.varint()? as usize);
        let end = keys.bytes.len();
        if shared > end - begin {
            return Err(wrong());
        }
        keys.bytes.extend_from_within(begin..begin + shared);
        keys.bytes.extend_from_slice(reader.take(rest)?);
        let (last, key) = (&keys.bytes[begin..end], &keys.bytes[end..]);
        let is_first = keys.ends.is_empty();
        let ordered = if is_first { key == &*entry.first } else { last < key };
        let slot = reader.varint()?;
        if !ordered || slot >= Rid::SLOTS_MAX {
            return Err(wrong());
        }
        keys.ends.push((keys.bytes.len(), Rid::new(slot, reader.varint_u32()?)));
        begin = end;
    }
    let is_below = next.is_none_or(|next| &keys.bytes[begin..] < next);
    if is_below && reader.is_empty() { Ok(keys) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spillway_base::ErrorKind;
    use spillway_base::rng::Rng;
    use spillway_storage::OpenMode;
    use spillway_storage::sim::SimDisk;

    const PATH: &str = "/index";

    fn write(disk: &SimDisk, keys: &[(Vec<u8>, Rid)]) -> (IndexFile, u64) {
        let mut writer = IndexWriter::create(disk, Path::new(PATH), 7).unwrap();
        keys.iter().for_each(|(key, rid)| writer.add(key, *rid).unwrap());
        writer.finish().unwrap()
    }

    fn read(disk: &SimDisk, of: &IndexFile) -> Result<Vec<(Vec<u8>, Rid)>> {
        let reader = IndexReader::open(disk, Path::new(PATH), of)?;
        let mut keys = Vec::new();
        for block in 0..reader.blocks.len() {
            for (key, rid) in reader.read(block)?.iter() {
                assert_eq!(reader.block_of(key), block);
                keys.push((key.to_vec(), rid));
            }
        }
        Ok(keys)
    }

    fn random_keys(rng: &mut Rng, count: u64) -> Vec<(Vec<u8>, Rid)> {
        let mut keys: Vec<Vec<u8>> = (0..count)
            .map(|_| {
                let len = if rng.below(50) == 0 { 3000 } else { rng.below(12) };
                (0..len).map(|_| b'a' + rng.below(3) as u8).collect()
            })
            .collect();
        keys.sort();
        keys.dedup();
        let rid = |rng: &mut Rng| Rid::new(rng.below(Rid::SLOTS_MAX), rng.next_u64() as u32);
        keys.into_iter().map(|key| (key, rid(rng))).collect()
    }

    #[test]
    fn keys_come_back_block_by_block() {
        let mut rng = Rng::new(3);
        for count in [0, 1, 10, 500, 3000] {
            let (disk, keys) = (SimDisk::new(0), random_keys(&mut rng, count));
            let (of, _) = write(&disk, &keys);
            assert_eq!(of.keys, keys.len() as u64);
            assert_eq!(read(&disk, &of).unwrap(), keys);
        }
    }

    #[test]
    fn a_key_longer_than_a_block_of_a_stream_comes_back() {
        let (disk, long) = (SimDisk::new(0), vec![7; 3 << 20]);
        let keys = [(vec![1], Rid::new(1, 0)), (long, Rid::new(2, 0)), (vec![8], Rid::new(3, 0))];
        let (of, _) = write(&disk, &keys);
        assert_eq!(read(&disk, &of).unwrap(), keys);
    }

    #[test]
    fn a_block_has_few_keys_if_they_are_long() {
        let disk = SimDisk::new(0);
        let key = |number: u64| [&[b'a'; 3000][..], &number.to_be_bytes()].concat();
        let keys: Vec<_> = (0..100).map(|number| (key(number), Rid::new(number, 0))).collect();
        let (of, _) = write(&disk, &keys);
        assert_eq!(read(&disk, &of).unwrap(), keys);
        let reader = IndexReader::open(&disk, Path::new(PATH), &of).unwrap();
        for block in 0..reader.blocks.len() {
            let bytes: usize = reader.read(block).unwrap().iter().map(|(key, _)| key.len()).sum();
            assert!(bytes < BLOCK_KEY_BYTES + 3008, "{bytes}");
        }
    }

    #[test]
    fn every_flipped_bit_is_found() {
        let (disk, keys) = (SimDisk::new(0), random_keys(&mut Rng::new(4), 200));
        let (of, len) = write(&disk, &keys);
        let file = disk.open(Path::new(PATH), OpenMode::Write).unwrap();
        for at in 0..len {
            let mut byte = [0];
            file.read_at(at, &mut byte).unwrap();
            file.write_at(at, &[byte[0] ^ 1 << (at % 8)]).unwrap();
            assert_eq!(read(&disk, &of).unwrap_err().kind(), ErrorKind::Corruption, "{at}");
            file.write_at(at, &byte).unwrap();
        }
        let other = IndexFile { keys: of.keys + 1, ..of };
        assert_eq!(read(&disk, &other).unwrap_err().kind(), ErrorKind::Corruption);
    }

    #[test]
    fn a_directory_of_more_bytes_than_the_file_has_is_refused() {
        for (blocks, bytes) in [(1, u64::MAX), (2, u64::MAX / 2 + 1), (3, 1 << 40)] {
            let disk = SimDisk::new(0);
            let mut writer = Writer::create(&disk, Path::new(PATH), 7).unwrap();
            let mut directory = Vec::new();
            for block in 0..blocks {
                put_varint(&mut directory, bytes);
                put_varint(&mut directory, bytes);
                put_bytes(&mut directory, &[block]);
            }
            writer.write_apart(&[1; 9]).unwrap();
            let position = writer.position();
            writer.write_apart(&directory).unwrap();
            writer.finish().unwrap();
            let keys = bytes.wrapping_mul(blocks.into());
            let of = IndexFile { number: 7, keys, directory: position };
            assert_eq!(read(&disk, &of).unwrap_err().kind(), ErrorKind::Corruption);
        }
    }

    #[test]
    fn a_decoder_of_keys_survives_any_bytes() {
        let mut rng = Rng::new(5);
        for _ in 0..5000 {
            let mut payload = vec![0; rng.below(40) as usize];
            rng.fill(&mut payload);
            payload.iter_mut().for_each(|byte| *byte &= 15);
            let entry = BlockEntry {
                first: payload.get(2..3).unwrap_or_default().into(),
                keys: 1 + rng.below(6),
                position: Position::default(),
                bytes: payload.len(),
            };
            let _ = decode(&payload, &entry, None);
        }
    }
}
