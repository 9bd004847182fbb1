//! A write batch: everything one transaction writes, as the bytes the log stores.
//!
//! A transaction's worker encodes its batch once. The log copies these bytes, recovery reads them
//! back, and the engines install from them, without another representation in between.
//!
//! # Format
//! A batch is a sequence of operations, each:
//!
//! ```text
//! kind   u8       1 put, 2 delete, 3 create table, 4 drop table, 5 delete range,
//!                 6 row put, 7 row delete
//! table  varint   TableId
//! key    bytes    varint length, then the key         (put, delete, delete range: its first key)
//! value  bytes    varint length, then the value       (put)
//! upto   varint   CSN: versions up to it are deleted  (delete range)
//! ends   u8       0 no end, 1 an end follows          (delete range)
//! end    bytes    varint length, then the first key past the range
//! csn    u64      the commit's CSN, little-endian     (row put, row delete)
//! crc    u32      CRC32C from the kind through csn    (row put, row delete)
//! ```
//!
//! The log record around a batch adds framing, length, CSN and checksum. A row record also has a
//! CSN and a checksum of its own, so that it can be read alone (LOG-READ-1 of
//! [`crate::log_place`]). The puts and deletes on tables of [`EngineKind::Memory`] are row records,
//! and no others are.
//!
//! A batch is encoded before its commit has a CSN. Until then `csn` is 0, and `crc` covers the
//! bytes before `csn`. [`seal_rows`] writes the CSN and extends the checksum by it. No length
//! changes.

use crate::checksum::{crc32c, crc32c_append};
use crate::codec::{Reader, put_bytes, put_varint};
use crate::{Csn, EngineKind, EngineSet, Error, KeyRange, Result, TableId};

/// One operation of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op<'a> {
    /// `key` has `value` from this commit on.
    Put {
        /// The table.
        table: TableId,
        /// The key.
        key: &'a [u8],
        /// The value.
        value: &'a [u8],
    },
    /// `key` is deleted.
    Delete {
        /// The table.
        table: TableId,
        /// The key.
        key: &'a [u8],
    },
    /// Deletes all versions up to a CSN of all keys of a range. What the same batch writes is newer
    /// than that CSN, and stays.
    DeleteRange {
        /// The table.
        table: TableId,
        /// The keys: a range that is not empty.
        range: KeyRange<'a>,
        /// The snapshot at which the range was read.
        upto: Csn,
    },
    /// The table exists from this commit on, empty.
    CreateTable(TableId),
    /// The table and its rows are deleted.
    DropTable(TableId),
}

impl Op<'_> {
    /// The table of the operation.
    #[must_use]
    pub fn table(&self) -> TableId {
        match *self {
            Op::Put { table, .. } | Op::Delete { table, .. } | Op::DeleteRange { table, .. } => {
                table
            }
            Op::CreateTable(table) | Op::DropTable(table) => table,
        }
    }
}

const PUT: u8 = 1;
const DELETE: u8 = 2;
const CREATE: u8 = 3;
const DROP: u8 = 4;
const DELETE_RANGE: u8 = 5;
const ROW_PUT: u8 = 6;
const ROW_DELETE: u8 = 7;

/// The bytes of a row record after its key and value.
const ROW_END_BYTES: usize = 8 + 4;

/// The most bytes that an operation takes in addition to its key and value: its kind, a table, two
/// lengths, and either a CSN with a mark for an open end, or the end of a row record.
const OP_OVERHEAD_MAX: usize = 1 + 5 + 10 + 10 + ROW_END_BYTES;

/// Whether puts and deletes on a table are row records.
fn has_row_records(table: TableId) -> bool {
    table.engine() == Some(EngineKind::Memory)
}

/// Whether an operation has a row record.
#[must_use]
pub fn is_row_record(op: &Op<'_>) -> bool {
    matches!(op, Op::Put { .. } | Op::Delete { .. }) && has_row_records(op.table())
}

/// The number of bytes that follow the key and the value of a put or a delete on this table.
#[must_use]
pub fn bytes_after_row(table: TableId) -> usize {
    if has_row_records(table) { ROW_END_BYTES } else { 0 }
}

/// The writes of one transaction, in the order they take effect.
#[derive(Clone, Default, Debug)]
pub struct WriteBatch {
    bytes: Vec<u8>,
    len: usize,
    /// For each engine, the bytes of the operations on its tables, by [`EngineKind::index`].
    engine_bytes: [usize; EngineKind::COUNT],
}

impl WriteBatch {
    /// An empty batch.
    #[must_use]
    pub const fn new() -> WriteBatch {
        WriteBatch { bytes: Vec::new(), len: 0, engine_bytes: [0; EngineKind::COUNT] }
    }

    /// Checks bytes from a log record and takes them as a batch.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Corruption`] when they are not a batch.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<WriteBatch> {
        let (mut len, mut engine_bytes) = (0, [0; EngineKind::COUNT]);
        for placed in placed_ops(&bytes) {
            let placed = placed?;
            if let Some(kind) = placed.op.table().engine() {
                engine_bytes[kind.index()] += placed.bytes;
            }
            len += 1;
        }
        Ok(WriteBatch { bytes, len, engine_bytes })
    }

    /// Appends an operation. The range of a [`Op::DeleteRange`] must not be empty.
    pub fn push(&mut self, op: Op<'_>) {
        let alone = has_row_records(op.table());
        let (kind, bytes) = match op {
            Op::Put { key, value, .. } => {
                (if alone { ROW_PUT } else { PUT }, key.len() + value.len())
            }
            Op::Delete { key, .. } => (if alone { ROW_DELETE } else { DELETE }, key.len()),
            Op::DeleteRange { range, .. } => {
                (DELETE_RANGE, range.start.len() + range.end.map_or(0, <[u8]>::len))
            }
            Op::CreateTable(_) => (CREATE, 0),
            Op::DropTable(_) => (DROP, 0),
        };
        let begin = self.bytes.len();
        self.bytes.reserve(OP_OVERHEAD_MAX + bytes);
        self.bytes.push(kind);
        put_varint(&mut self.bytes, u64::from(op.table().0));
        match op {
            Op::Put { key, value, .. } => {
                put_bytes(&mut self.bytes, key);
                put_bytes(&mut self.bytes, value);
            }
            Op::Delete { key, .. } => put_bytes(&mut self.bytes, key),
            Op::DeleteRange { range, upto, .. } => {
                put_bytes(&mut self.bytes, range.start);
                put_varint(&mut self.bytes, upto.0);
                self.bytes.push(u8::from(range.end.is_some()));
                if let Some(end) = range.end {
                    put_bytes(&mut self.bytes, end);
                }
            }
            Op::CreateTable(_) | Op::DropTable(_) => {}
        }
        if matches!(kind, ROW_PUT | ROW_DELETE) {
            let crc = crc32c(&self.bytes[begin..]);
            self.bytes.extend_from_slice(&Csn::ZERO.0.to_le_bytes());
            self.bytes.extend_from_slice(&crc.to_le_bytes());
        }
        self.len += 1;
        if let Some(kind) = op.table().engine() {
            self.engine_bytes[kind.index()] += self.bytes.len() - begin;
        }
    }

    /// The number of operations.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no operation.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The encoded form.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// For each engine, the bytes of the operations on its tables, by [`EngineKind::index`].
    #[must_use]
    pub fn engine_bytes(&self) -> [usize; EngineKind::COUNT] {
        self.engine_bytes
    }

    /// Bytes of the operations on tables of this engine.
    #[must_use]
    pub fn bytes_of(&self, kind: EngineKind) -> usize {
        self.engine_bytes[kind.index()]
    }

    /// The engines whose tables the operations concern.
    #[must_use]
    pub fn engines(&self) -> EngineSet {
        let mut engines = EngineSet::EMPTY;
        EngineKind::ALL
            .into_iter()
            .filter(|kind| self.bytes_of(*kind) > 0)
            .for_each(|kind| engines.insert(kind));
        engines
    }

    /// Removes the operations that were pushed since the batch had `len` operations in `bytes`
    /// bytes.
    pub fn truncate(&mut self, len: usize, bytes: usize) {
        for placed in placed_ops(&self.bytes[bytes..]).map(|placed| placed.expect(ACCEPTED)) {
            if let Some(kind) = placed.op.table().engine() {
                self.engine_bytes[kind.index()] -= placed.bytes;
            }
        }
        self.bytes.truncate(bytes);
        self.len = len;
    }

    /// Returns an empty batch that reuses this batch's memory.
    #[must_use]
    pub fn cleared(mut self) -> WriteBatch {
        self.bytes.clear();
        WriteBatch { bytes: self.bytes, ..WriteBatch::new() }
    }

    /// The bytes of memory that the batch has allocated.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// The operations, in order.
    pub fn iter(&self) -> impl Iterator<Item = Op<'_>> {
        ops(&self.bytes).map(|op| op.expect(ACCEPTED))
    }

    /// The operations, in order, each with the position of its record in the batch.
    pub fn iter_placed(&self) -> impl Iterator<Item = PlacedOp<'_>> {
        placed_ops(&self.bytes).map(|op| op.expect(ACCEPTED))
    }
}

/// An operation of a batch, and the position of its record in the batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlacedOp<'a> {
    /// The operation.
    pub op: Op<'a>,
    /// Bytes from the start of the batch to the operation's record.
    pub offset: usize,
    /// Bytes of the operation's record.
    pub bytes: usize,
}

/// A row record that was read alone, and verified.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RowRecord<'a> {
    /// The table.
    pub table: TableId,
    /// The key.
    pub key: &'a [u8],
    /// The value, or `None` if the commit deleted the row.
    pub value: Option<&'a [u8]>,
    /// The commit.
    pub csn: Csn,
    /// Bytes of the record.
    pub bytes: usize,
}

/// Why decoding the operations of a [`WriteBatch`] cannot fail.
const ACCEPTED: &str = "a batch holds what push or from_bytes accepted";

/// The operations of an encoded batch, decoded in place. The iterator ends after an error.
pub fn ops(batch: &[u8]) -> impl Iterator<Item = Result<Op<'_>>> {
    placed_ops(batch).map(|placed| placed.map(|placed| placed.op))
}

/// As [`ops`], with the positions of the records in the batch.
pub fn placed_ops(batch: &[u8]) -> impl Iterator<Item = Result<PlacedOp<'_>>> {
    let mut reader = Reader::new(batch);
    std::iter::from_fn(move || {
        if reader.is_empty() {
            return None;
        }
        let offset = reader.offset();
        let op = read_op(&mut reader);
        let bytes = reader.offset() - offset;
        if op.is_err() {
            reader = Reader::new(&[]);
        }
        Some(op.map(|op| PlacedOp { op, offset, bytes }))
    })
}

/// Writes the commit's CSN into the row records of a batch that [`WriteBatch::push`] encoded, and
/// extends their checksums by it. Call it once for each batch.
///
/// # Panics
/// If the bytes are not such a batch.
pub fn seal_rows(batch: &mut [u8], csn: Csn) {
    let mut begin = 0;
    while begin < batch.len() {
        let mut reader = Reader::new(&batch[begin..]);
        let op = read_op(&mut reader).expect(ACCEPTED);
        let end = begin + reader.offset();
        if is_row_record(&op) {
            let (csn_bytes, crc_bytes) = batch[end - ROW_END_BYTES..end].split_at_mut(8);
            csn_bytes.copy_from_slice(&csn.0.to_le_bytes());
            let before = Reader::new(crc_bytes).u32().expect("four bytes");
            let crc = crc32c_append(before, csn_bytes);
            crc_bytes.copy_from_slice(&crc.to_le_bytes());
        }
        begin = end;
    }
}

/// Reads the row record at the start of these bytes, which may be longer, and verifies it
/// (LOG-READ-1 of [`crate::log_place`]).
///
/// # Errors
/// [`crate::ErrorKind::Corruption`] if the bytes do not begin with a sealed row record. No input
/// makes it panic.
pub fn read_row_record(bytes: &[u8]) -> Result<RowRecord<'_>> {
    let mut reader = Reader::new(bytes);
    let op = match bytes.first() {
        Some(&(ROW_PUT | ROW_DELETE)) => read_op(&mut reader)?,
        _ => return Err(Error::corruption("no record of a row begins here")),
    };
    let record = &bytes[..reader.offset()];
    let (covered, mut end) = (&record[..record.len() - 4], Reader::new(record));
    end.take(record.len() - ROW_END_BYTES)?;
    let (csn, crc) = (Csn(end.u64()?), end.u32()?);
    if crc != crc32c(covered) {
        return Err(Error::corruption("the record of a row does not match its checksum"));
    }
    let (table, key, value) = match op {
        Op::Put { table, key, value } => (table, key, Some(value)),
        Op::Delete { table, key } => (table, key, None),
        Op::DeleteRange { .. } | Op::CreateTable(_) | Op::DropTable(_) => {
            return Err(Error::corruption("no record of a row begins here"));
        }
    };
    Ok(RowRecord { table, key, value, csn, bytes: record.len() })
}

fn read_op<'a>(reader: &mut Reader<'a>) -> Result<Op<'a>> {
    let at = reader.offset();
    let kind = reader.u8()?;
    let table = TableId(reader.varint_u32()?);
    let alone = matches!(kind, ROW_PUT | ROW_DELETE);
    match kind {
        PUT | DELETE | ROW_PUT | ROW_DELETE if alone != has_row_records(table) => {
            Err(Error::corruption(format!("operation {kind} on {table:?} at byte {at}")))
        }
        PUT | ROW_PUT => {
            let op = Op::Put { table, key: reader.bytes()?, value: reader.bytes()? };
            reader.take(bytes_after_row(table))?;
            Ok(op)
        }
        DELETE | ROW_DELETE => {
            let op = Op::Delete { table, key: reader.bytes()? };
            reader.take(bytes_after_row(table))?;
            Ok(op)
        }
        CREATE => Ok(Op::CreateTable(table)),
        DROP => Ok(Op::DropTable(table)),
        DELETE_RANGE => {
            let (start, upto) = (reader.bytes()?, Csn(reader.varint()?));
            let end = match reader.u8()? {
                0 => None,
                1 => Some(reader.bytes()?),
                _ => return Err(Error::corruption(format!("no range of keys at byte {at}"))),
            };
            let range = KeyRange::new(start, end);
            if range.is_empty() {
                return Err(Error::corruption(format!("a range without keys at byte {at}")));
            }
            Ok(Op::DeleteRange { table, range, upto })
        }
        other => Err(Error::corruption(format!("unknown operation {other} at byte {at}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EngineKind;
    use crate::rng::Rng;

    #[test]
    fn operations_come_back_in_order() {
        let table = TableId::new(EngineKind::Memory, 7);
        let ops = [
            Op::CreateTable(table),
            Op::Put { table, key: b"k", value: &[9; 300] },
            Op::Delete { table, key: b"" },
            Op::DeleteRange { table, range: KeyRange::new(b"a", Some(b"b")), upto: Csn(700) },
            Op::DeleteRange { table, range: KeyRange::ALL, upto: Csn::ZERO },
            Op::DropTable(table),
        ];
        let mut batch = WriteBatch::new();
        ops.iter().for_each(|&op| batch.push(op));
        let again = WriteBatch::from_bytes(batch.as_bytes().to_vec()).unwrap();
        assert_eq!((again.len(), again.iter().collect::<Vec<_>>()), (6, ops.to_vec()));
        let (len, bytes) = (batch.len(), batch.as_bytes().len());
        batch.push(ops[1]);
        batch.truncate(len, bytes);
        assert_eq!((batch.len(), batch.as_bytes()), (again.len(), again.as_bytes()));
        for batch in [&batch, &again] {
            assert_eq!(batch.engines(), EngineSet::one(EngineKind::Memory));
            let of = EngineKind::ALL.map(|kind| batch.bytes_of(kind));
            assert_eq!(of, [0, batch.as_bytes().len()]);
        }
        let memory = batch.capacity();
        let cleared = batch.cleared();
        assert!(
            cleared.is_empty() && cleared.as_bytes().is_empty() && cleared.capacity() == memory
        );
    }

    #[test]
    fn bytes_are_counted_by_engine() {
        let tables = EngineKind::ALL.map(|kind| TableId::new(kind, 3));
        // If the engine of a table is unknown, its bytes count for no engine.
        let unknown = TableId(7 << 28);
        let mut rng = Rng::new(2);
        for _ in 0..200 {
            let (mut batch, mut alone) = (WriteBatch::new(), EngineKind::ALL.map(|_| 0));
            let mut marks = vec![(0, 0, alone)];
            for _ in 0..rng.below(20) {
                let key = vec![7; rng.below(300) as usize];
                let at = rng.below(3) as usize;
                let before = batch.as_bytes().len();
                batch.push(Op::Delete { table: *tables.get(at).unwrap_or(&unknown), key: &key });
                if let Some(bytes) = alone.get_mut(at) {
                    *bytes += batch.as_bytes().len() - before;
                }
                marks.push((batch.len(), batch.as_bytes().len(), alone));
            }
            let (len, bytes, counted) = marks[rng.below(marks.len() as u64) as usize];
            batch.truncate(len, bytes);
            let again = WriteBatch::from_bytes(batch.as_bytes().to_vec()).unwrap();
            for batch in [&batch, &again] {
                assert_eq!(EngineKind::ALL.map(|kind| batch.bytes_of(kind)), counted);
                let touched = EngineKind::ALL.map(|kind| batch.engines().contains(kind));
                assert_eq!(touched, counted.map(|bytes| bytes > 0));
            }
            assert_eq!(batch.cleared().engines(), EngineSet::EMPTY);
        }
    }

    fn sample(rng: &mut Rng) -> (WriteBatch, Vec<(TableId, Vec<u8>, Option<Vec<u8>>)>) {
        let (mut batch, mut rows) = (WriteBatch::new(), Vec::new());
        for _ in 0..rng.below(12) {
            let table = TableId::new(EngineKind::ALL[rng.below(2) as usize], rng.below(300) as u32);
            let mut key = vec![0; rng.below(20) as usize];
            rng.fill(&mut key);
            let value = rng.chance(2, 3).then(|| vec![7; rng.below(300) as usize]);
            batch.push(match &value {
                Some(value) => Op::Put { table, key: &key, value },
                None => Op::Delete { table, key: &key },
            });
            rows.push((table, key, value));
            if rng.chance(1, 5) {
                batch.push(Op::DeleteRange { table, range: KeyRange::ALL, upto: Csn(5) });
            }
        }
        (batch, rows)
    }

    /// Each record is at the offset that the batch reports. Once the batch is sealed, each can be
    /// read alone.
    #[test]
    fn log_read_1_a_row_record_is_read_alone() {
        let mut rng = Rng::new(3);
        for _ in 0..300 {
            let (batch, rows) = sample(&mut rng);
            let csn = Csn(1 + rng.below(1 << 40));
            let mut sealed = batch.as_bytes().to_vec();
            seal_rows(&mut sealed, csn);
            let again = WriteBatch::from_bytes(sealed.clone()).unwrap();
            assert!(again.iter_placed().eq(batch.iter_placed()), "sealing changes no operation");
            let ops: Vec<_> = batch.iter_placed().collect();
            let ends = ops.iter().map(|placed| placed.offset + placed.bytes);
            let begins = ops.iter().skip(1).map(|placed| placed.offset).chain([sealed.len()]);
            assert!(ends.eq(begins.take(ops.len())));
            let is_row = |placed: &&PlacedOp<'_>| !matches!(placed.op, Op::DeleteRange { .. });
            let mut found = 0;
            for (placed, row) in ops.iter().filter(is_row).zip(&rows) {
                let (from, unsealed) =
                    (&sealed[placed.offset..], &batch.as_bytes()[placed.offset..]);
                if row.0.engine() == Some(EngineKind::Tiered) {
                    assert!(read_row_record(from).is_err());
                    continue;
                }
                found += 1;
                let wanted = RowRecord {
                    table: row.0,
                    key: &row.1,
                    value: row.2.as_deref(),
                    csn,
                    bytes: placed.bytes,
                };
                // From a slice that ends with the record, and from a longer one.
                assert_eq!(read_row_record(from).unwrap(), wanted);
                assert_eq!(read_row_record(&from[..placed.bytes]).unwrap(), wanted);
                assert!(read_row_record(&from[..placed.bytes - 1]).is_err());
                assert!(read_row_record(unsealed).is_err(), "it has no CSN yet");
                let end = placed.bytes - bytes_after_row(row.0);
                assert!(from[..end].ends_with(row.2.as_ref().unwrap_or(&row.1)));
            }
            let of_memory = rows.iter().filter(|row| row.0.engine() == Some(EngineKind::Memory));
            assert_eq!(found, of_memory.count());
        }
    }

    /// A changed byte is detected, and arbitrary bytes cause no panic.
    #[test]
    fn log_read_1_no_bytes_but_a_record_pass() {
        let mut rng = Rng::new(4);
        let table = TableId::new(EngineKind::Memory, 1);
        for _ in 0..20_000 {
            let mut batch = WriteBatch::new();
            batch.push(Op::Put { table, key: &[1; 9], value: &[2; 30] });
            let mut bytes = batch.as_bytes().to_vec();
            seal_rows(&mut bytes, Csn(9));
            let at = rng.below(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << rng.below(8);
            assert!(read_row_record(&bytes).is_err(), "byte {at}");
            if at > 0 {
                rng.fill(&mut bytes[..at]);
                bytes[0] = 6 + rng.below(2) as u8;
                assert!(read_row_record(&bytes).is_err());
            }
            let mut bytes = vec![0; rng.below(40) as usize];
            rng.fill(&mut bytes);
            if let Some(first) = bytes.first_mut() {
                *first = *first % 2 + 6;
            }
            assert!(read_row_record(&bytes).is_err());
        }
    }

    #[test]
    fn any_bytes_are_a_batch_or_an_error() {
        let mut rng = Rng::new(1);
        for _ in 0..20_000 {
            let mut bytes = vec![0; rng.below(24) as usize];
            rng.fill(&mut bytes);
            if let Some(first) = bytes.first_mut() {
                *first %= 8;
            }
            let good = ops(&bytes).take_while(Result::is_ok).count();
            let all = ops(&bytes).count();
            match WriteBatch::from_bytes(bytes) {
                Ok(batch) => {
                    assert_eq!((batch.iter().count(), good, all), (batch.len(), all, good));
                }
                Err(_) => assert_eq!(all, good + 1),
            }
        }
    }
}
