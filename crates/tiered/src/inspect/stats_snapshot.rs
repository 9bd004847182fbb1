//! The recent statistics of an engine, stored in a file: how often extents were read, and the
//! latest compactions. Only an inspection of a folder that no database has open uses the file; no
//! engine reads it.
//!
//! An engine writes the file when it closes, and periodically (`engine/stats_snapshot`). It writes
//! under another name and then renames the file. It does not sync the file, because the system
//! reports a lost write to only one sync (DISK-5 of `storage::disk`). If a sync of this file got
//! the report that an edit or extent was lost, the writer of this file would ignore the report, and
//! the writer of the edit or extent would not learn of the loss.
//!
//! A crash leaves the previous file, the new one, or bytes that fail the checksum. A missing, torn
//! or damaged file, and a file of another version, all count as no statistics.
//!
//! # Format
//! Integers are little-endian. Times are nanoseconds, and points in time count from the Unix epoch.
//! The file `recent` in the data folder:
//!
//! | bytes | |
//! |--:|---|
//! | 4 | `SWRC` |
//! | 2 | version: 1 |
//! | 8 | when it was written |
//! | 8 | the number of the next new extent at that time; the file has only extents before it |
//! | 8 | number of extents that were read lately; then of each, by ascending number: |
//! | 8 | its number |
//! | 8 | read counts of its eight regions (`temperature`), a byte each: 0 to 63, not all 0 |
//! | 2 | number of compactions; then of each, the newest last: |
//! | 8 | its number |
//! | 4 | its table |
//! | 1 | its kind: 0 deletion, 1 intra-Level0, 2 minor, 3 major, 4 self-major, 5 full, 6 recode |
//! | 1 | the level of its output: 0, 1 or 2 |
//! | 8 + 8 | input slices; bytes of their blocks |
//! | 8 + 8 | extents written; their bytes |
//! | 8 + 8 | slices that were re-linked; bytes of their blocks |
//! | 8 + 8 | blocks that were carried; their bytes |
//! | 8 + 8 | blocks that merges made; their bytes |
//! | 8 | when it ended |
//! | 8 | how long it took |
//! | 4 + n | length of the first key of its inputs, and the key |
//! | 4 + n | length of the last key of its inputs, and the key |
//! | 4 | CRC32C of all preceding bytes |
//!
//! A file with more bytes than its counts account for is damaged.

use std::path::Path;
use std::time::Duration;

use spillway_base::codec::Reader;
use spillway_base::{Error, Result, TableId};
use spillway_storage::record::RecordKind;
use spillway_storage::{Disk, OpenMode};

use super::CompactionRecord;
use crate::extent_meta::{ExtentId, ExtentMeta, SliceMeta};
use crate::picker::Kind;
use crate::temperature::{self, COUNT_MOST, REGIONS, Temperature};

/// Its name in the data folder.
pub(crate) const NAME: &str = "recent";
/// Enough for 16 million recently read extents, which are 32 TB. More are left out.
const BYTES_MAX: u64 = 1 << 28;
const RECORD: RecordKind = RecordKind { magic: b"SWRC", version: 1, bytes_max: BYTES_MAX };

/// The counts of an extent's regions.
pub(crate) type RegionCounts = [u8; REGIONS];

/// The statistics of one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct StatsSnapshot {
    /// The time, since the Unix epoch.
    pub(crate) at: Duration,
    /// Extents from this one on are newer.
    pub(crate) next_extent: ExtentId,
    /// The counts of recently read extents, by number.
    pub(crate) counts: Vec<(ExtentId, RegionCounts)>,
    /// The newest compactions, newest last.
    pub(crate) compactions: Vec<CompactionRecord>,
}

impl StatsSnapshot {
    /// An upper bound of the memory to make and write a snapshot of this many slices: the counts in
    /// a grown list, their encoded bytes, and these again with the header and the trailer.
    pub(crate) fn bytes_to_make(slices: usize) -> usize {
        const EACH: usize = size_of::<(ExtentId, RegionCounts)>();
        4 * EACH * slices
    }

    /// Whether there is nothing to remember.
    pub(crate) fn is_empty(&self) -> bool {
        self.counts.is_empty() && self.compactions.is_empty()
    }

    /// The temperature of a slice, if it existed then.
    pub(crate) fn temperature(
        &self,
        slice: &SliceMeta,
        extent: &ExtentMeta,
    ) -> Option<Temperature> {
        if extent.id >= self.next_extent {
            return None;
        }
        let found = self.counts.binary_search_by_key(&extent.id, |(id, _)| *id);
        let counts = found.map_or([0; REGIONS], |at| self.counts[at].1.map(u64::from));
        Some(temperature::of_blocks(&counts, slice.block_range(), extent.blocks as usize))
    }

    fn encode(&self) -> Vec<u8> {
        let mut body = Vec::new();
        put(&mut body, &[nanoseconds(self.at), self.next_extent.0, self.counts.len() as u64]);
        for (id, counts) in &self.counts {
            put(&mut body, &[id.0]);
            body.extend_from_slice(counts);
        }
        body.extend_from_slice(&(self.compactions.len() as u16).to_le_bytes());
        self.compactions.iter().for_each(|record| encode_compaction(record, &mut body));
        body
    }

    fn decode(reader: &mut Reader<'_>) -> Result<StatsSnapshot> {
        let at = Duration::from_nanos(reader.u64()?);
        let next_extent = ExtentId(reader.u64()?);
        let mut all: Vec<(ExtentId, RegionCounts)> = Vec::new();
        for _ in 0..reader.u64()? {
            let id = ExtentId(reader.u64()?);
            let counts: RegionCounts =
                reader.take(REGIONS)?.try_into().expect("so many were asked for");
            let is_next = all.last().is_none_or(|(last, _)| *last < id);
            let is_read = counts != [0; REGIONS];
            if !is_next || !is_read || counts.iter().any(|count| u64::from(*count) > COUNT_MOST) {
                return Err(Error::corruption(format!("the counts of {id} cannot be")));
            }
            all.push((id, counts));
        }
        let compactions = 0..reader.u16()?;
        let compactions = compactions.map(|_| decode_compaction(reader)).collect::<Result<_>>();
        Ok(StatsSnapshot { at, next_extent, counts: all, compactions: compactions? })
    }

    /// Writes it into a data folder, and replaces an earlier one. Nothing is synced.
    ///
    /// # Errors
    /// As [`Disk::open`]; the earlier file then still exists.
    pub(crate) fn write(&self, disk: &dyn Disk, dir: &Path) -> Result<()> {
        if (self.counts.len() * size_of::<(ExtentId, RegionCounts)>()) as u64 > BYTES_MAX {
            return Ok(());
        }
        let bytes = RECORD.encode(&self.encode());
        if bytes.len() as u64 > BYTES_MAX {
            return Ok(());
        }
        let beside = dir.join(format!("{NAME}.new"));
        let written = disk
            .open(&beside, OpenMode::Create)
            .and_then(|file| file.write_at(0, &bytes))
            .and_then(|()| disk.rename(&beside, &dir.join(NAME)));
        written.inspect_err(|_| {
            // A remaining file is overwritten by the next one.
            let _ = disk.remove(&beside);
        })
    }

    /// The snapshot of a data folder; `None` if it cannot be read for any reason.
    pub(crate) fn read(disk: &dyn Disk, dir: &Path) -> Option<StatsSnapshot> {
        RECORD.read(disk, &dir.join(NAME), StatsSnapshot::decode).ok().flatten()
    }
}

fn put(out: &mut Vec<u8>, numbers: &[u64]) {
    numbers.iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn encode_compaction(record: &CompactionRecord, out: &mut Vec<u8>) {
    put(out, &[record.number]);
    out.extend_from_slice(&record.table.0.to_le_bytes());
    out.extend_from_slice(&[record.kind as u8, record.level]);
    put(out, &[record.input_slices, record.input_bytes]);
    put(out, &[record.written_extents, record.written_bytes]);
    put(out, &[record.relinked_slices, record.relinked_bytes]);
    put(out, &[record.carried_blocks, record.carried_bytes]);
    put(out, &[record.merged_blocks, record.merged_bytes]);
    put(out, &[nanoseconds(record.ended), nanoseconds(record.took)]);
    for key in [&record.smallest, &record.largest] {
        out.extend_from_slice(&(key.len() as u32).to_le_bytes());
        out.extend_from_slice(key);
    }
}

fn decode_compaction(reader: &mut Reader<'_>) -> Result<CompactionRecord> {
    let (number, table) = (reader.u64()?, TableId(reader.u32()?));
    let (kind, level) = (reader.u8()?, reader.u8()?);
    let kind = Kind::ALL.get(usize::from(kind)).filter(|_| level <= 2);
    let kind = *kind.ok_or_else(|| Error::corruption("a compaction that cannot be"))?;
    Ok(CompactionRecord {
        number,
        table,
        kind,
        level,
        input_slices: reader.u64()?,
        input_bytes: reader.u64()?,
        written_extents: reader.u64()?,
        written_bytes: reader.u64()?,
        relinked_slices: reader.u64()?,
        relinked_bytes: reader.u64()?,
        carried_blocks: reader.u64()?,
        carried_bytes: reader.u64()?,
        merged_blocks: reader.u64()?,
        merged_bytes: reader.u64()?,
        ended: Duration::from_nanos(reader.u64()?),
        took: Duration::from_nanos(reader.u64()?),
        smallest: key(reader)?,
        largest: key(reader)?,
    })
}

fn key(reader: &mut Reader<'_>) -> Result<Box<[u8]>> {
    let len = reader.u32()? as usize;
    Ok(reader.take(len)?.into())
}

#[cfg(fuzzing)]
pub(crate) mod fuzz {
    use super::*;

    pub(crate) fn record(bytes: &[u8]) {
        let sealed = RECORD.encode(bytes);
        let Ok(recent) = RECORD.decode(&sealed, StatsSnapshot::decode) else { return };
        assert_eq!(recent.encode(), bytes);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use spillway_base::EngineKind;
    use spillway_storage::sim::SimDisk;

    use super::*;

    fn compaction(number: u64, kind: Kind) -> CompactionRecord {
        let figures: [u64; 12] = std::array::from_fn(|at| number << 40 | at as u64);
        CompactionRecord {
            number,
            table: TableId::new(EngineKind::Tiered, 7),
            kind,
            smallest: b"first".as_slice().into(),
            largest: vec![number as u8; number as usize].into(),
            input_slices: figures[0],
            input_bytes: figures[1],
            level: number as u8 % 3,
            written_extents: figures[2],
            written_bytes: figures[3],
            relinked_slices: figures[4],
            relinked_bytes: figures[5],
            carried_blocks: figures[6],
            carried_bytes: figures[7],
            merged_blocks: figures[8],
            merged_bytes: figures[9],
            ended: Duration::from_nanos(figures[10]),
            took: Duration::from_nanos(figures[11]),
        }
    }

    fn some() -> StatsSnapshot {
        let kinds = Kind::ALL.into_iter().enumerate();
        StatsSnapshot {
            at: Duration::new(1_700_000_000, 123_456_789),
            next_extent: ExtentId(900),
            counts: vec![
                (ExtentId(3), [0, 0, 0, 0, 0, 0, 0, 1]),
                (ExtentId(4), [63; REGIONS]),
                (ExtentId(899), [1, 2, 3, 4, 5, 6, 7, 8]),
            ],
            compactions: kinds.map(|(at, kind)| compaction(at as u64, kind)).collect(),
        }
    }

    fn decoded(bytes: &[u8]) -> Option<StatsSnapshot> {
        RECORD.decode(bytes, StatsSnapshot::decode).ok()
    }

    #[test]
    fn what_is_put_down_is_read_back() {
        let (disk, dir) = (SimDisk::new(1), Path::new("/data"));
        disk.create_dir_all(dir).unwrap();
        assert_eq!(StatsSnapshot::read(&disk, dir), None);
        let nothing = StatsSnapshot { counts: Vec::new(), compactions: Vec::new(), ..some() };
        for recent in [nothing, some()] {
            recent.write(&disk, dir).unwrap();
            assert_eq!(StatsSnapshot::read(&disk, dir).as_ref(), Some(&recent));
            assert_eq!(disk.list(dir).unwrap(), [NAME]);
        }
        // As the module's page states: without compactions there are 48 bytes and the extents.
        let recent = StatsSnapshot { compactions: Vec::new(), ..some() };
        let bytes = RECORD.encode(&recent.encode());
        assert_eq!(bytes.len(), 4 + 2 + 3 * 8 + 3 * 16 + 2 + 4);
        assert_eq!(
            (&bytes[..6], &bytes[30..38]),
            (&b"SWRC\x01\x00"[..], &[3, 0, 0, 0, 0, 0, 0, 0][..])
        );
        assert_eq!(bytes[38..46], [0, 0, 0, 0, 0, 0, 0, 1]);
        let kinds = Kind::ALL.map(|kind| kind as u8);
        assert_eq!(kinds, [0, 1, 2, 3, 4, 5, 6], "kinds keep their numbers");
    }

    /// A file that is truncated, longer, or has any other byte changed gives no statistics, and
    /// neither does one with a right checksum and impossible contents.
    #[test]
    fn a_file_that_is_damaged_tells_nothing() {
        let bytes = RECORD.encode(&some().encode());
        assert_eq!(decoded(&bytes), Some(some()));
        for len in 0..bytes.len() {
            assert_eq!(decoded(&bytes[..len]), None, "cut off at {len}");
        }
        assert_eq!(decoded(&[&bytes[..], &[0]].concat()), None);
        for at in 0..bytes.len() {
            for change in 1..=u8::MAX {
                let mut bytes = bytes.clone();
                bytes[at] ^= change;
                assert_eq!(decoded(&bytes), None, "byte {at} changed by {change}");
            }
        }
        // Even after a correct checksum, no length is trusted, and written contents are read back.
        let body = some().encode();
        for at in 0..body.len() {
            for byte in [0, 1, 0x7f, 0x80, 0xff] {
                let mut body = body.clone();
                body[at] = byte;
                let read = decoded(&RECORD.encode(&body));
                assert!(read.is_none_or(|read| read.encode() == body), "byte {at} is {byte}");
            }
            assert_eq!(decoded(&RECORD.encode(&body[..at])), None);
        }
        let of = |counts: &[(u64, RegionCounts)]| {
            let counts = counts.iter().map(|(id, counts)| (ExtentId(*id), *counts)).collect();
            decoded(&RECORD.encode(&StatsSnapshot { counts, ..some() }.encode())).is_some()
        };
        let (one, most) = ([1; REGIONS], [63; REGIONS]);
        assert!(of(&[(1, one), (2, most)]));
        for cannot_be in [
            [(2, one), (1, one)],
            [(1, one), (1, one)],
            [(1, one), (2, [0; 8])],
            [(1, one), (2, [64; 8])],
        ] {
            assert!(!of(&cannot_be), "{cannot_be:?}");
        }
        let version = RecordKind { version: 2, ..RECORD }.encode(&body);
        assert_eq!(decoded(&version), None);
    }
}
