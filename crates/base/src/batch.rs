//! A write batch: everything one transaction writes, as the bytes the log stores.
//!
//! A transaction's worker encodes its batch once; the log copies it, recovery reads it back, and
//! the engines install from it, all without another form in between.
//!
//! # Format
//! A batch is a sequence of operations, each:
//!
//! ```text
//! kind   u8       1 put, 2 delete, 3 create table, 4 drop table, 5 delete range
//! table  varint   TableId
//! key    bytes    varint length, then the key         (put, delete, delete range: its first key)
//! value  bytes    varint length, then the value       (put)
//! upto   varint   CSN: versions up to it go           (delete range)
//! ends   u8       0 no end, 1 an end follows          (delete range)
//! end    bytes    varint length, then the first key past the range
//! ```
//!
//! Framing, length, CSN and checksum belong to the log record around it.

use crate::codec::{Reader, put_bytes, put_varint};
use crate::{Csn, EngineKind, EngineSet, Error, KeyRange, Result, TableId};

/// One operation of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op<'a> {
    /// `key` now has `value`.
    Put {
        /// Where.
        table: TableId,
        /// The key.
        key: &'a [u8],
        /// Its value from this commit on.
        value: &'a [u8],
    },
    /// `key` is gone.
    Delete {
        /// Where.
        table: TableId,
        /// The key.
        key: &'a [u8],
    },
    /// All versions up to a CSN of all keys of a range are gone. It has no say over what this very
    /// batch writes.
    DeleteRange {
        /// Where.
        table: TableId,
        /// The keys: a range that is not empty.
        range: KeyRange<'a>,
        /// The snapshot at which the range was read.
        upto: Csn,
    },
    /// The table exists from this commit on, empty.
    CreateTable(TableId),
    /// The table is gone, with all it holds.
    DropTable(TableId),
}

impl Op<'_> {
    /// The table concerned.
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

/// What an operation takes beside its key and value, at most: its kind, a table, two lengths, a
/// CSN, and whether there is an end.
const OP_OVERHEAD_MAX: usize = 1 + 5 + 10 + 10 + 10 + 1;

/// The writes of one transaction, in the order they take effect.
#[derive(Clone, Default, Debug)]
pub struct WriteBatch {
    bytes: Vec<u8>,
    len: usize,
    /// Bytes of the operations of each engine's tables, by [`EngineKind::index`].
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
        for sized in sized_ops(&bytes) {
            let (op, size) = sized?;
            if let Some(kind) = op.table().engine() {
                engine_bytes[kind.index()] += size;
            }
            len += 1;
        }
        Ok(WriteBatch { bytes, len, engine_bytes })
    }

    /// Appends an operation. A range that is deleted has room for keys.
    pub fn push(&mut self, op: Op<'_>) {
        let (kind, bytes) = match op {
            Op::Put { key, value, .. } => (PUT, key.len() + value.len()),
            Op::Delete { key, .. } => (DELETE, key.len()),
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

    /// Bytes of the operations on each engine's tables, by [`EngineKind::index`].
    #[must_use]
    pub fn engine_bytes(&self) -> [usize; EngineKind::COUNT] {
        self.engine_bytes
    }

    /// Bytes of the operations on tables of this engine.
    #[must_use]
    pub fn bytes_of(&self, kind: EngineKind) -> usize {
        self.engine_bytes[kind.index()]
    }

    /// The engines on whose tables there are operations.
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
        for (op, size) in sized_ops(&self.bytes[bytes..]).map(|op| op.expect(ACCEPTED)) {
            if let Some(kind) = op.table().engine() {
                self.engine_bytes[kind.index()] -= size;
            }
        }
        self.bytes.truncate(bytes);
        self.len = len;
    }

    /// The batch's memory with nothing in it, for another.
    #[must_use]
    pub fn cleared(mut self) -> WriteBatch {
        self.bytes.clear();
        WriteBatch { bytes: self.bytes, ..WriteBatch::new() }
    }

    /// Bytes that it has memory for.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// The operations, in order.
    pub fn iter(&self) -> impl Iterator<Item = Op<'_>> {
        ops(&self.bytes).map(|op| op.expect(ACCEPTED))
    }
}

/// Why the operations of a [`WriteBatch`] can be decoded.
const ACCEPTED: &str = "a batch holds what push or from_bytes accepted";

/// The operations of an encoded batch, where it lies. After an error there is no more.
pub fn ops(batch: &[u8]) -> impl Iterator<Item = Result<Op<'_>>> {
    sized_ops(batch).map(|op| op.map(|(op, _)| op))
}

/// The operations of an encoded batch, each with its bytes there.
fn sized_ops(batch: &[u8]) -> impl Iterator<Item = Result<(Op<'_>, usize)>> {
    let mut reader = Reader::new(batch);
    std::iter::from_fn(move || {
        if reader.is_empty() {
            return None;
        }
        let begin = reader.offset();
        let op = read_op(&mut reader);
        let size = reader.offset() - begin;
        if op.is_err() {
            reader = Reader::new(&[]);
        }
        Some(op.map(|op| (op, size)))
    })
}

fn read_op<'a>(reader: &mut Reader<'a>) -> Result<Op<'a>> {
    let at = reader.offset();
    let kind = reader.u8()?;
    let table = TableId(reader.varint_u32()?);
    match kind {
        PUT => Ok(Op::Put { table, key: reader.bytes()?, value: reader.bytes()? }),
        DELETE => Ok(Op::Delete { table, key: reader.bytes()? }),
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
        // A table of an engine that nobody knows counts for none.
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

    #[test]
    fn any_bytes_are_a_batch_or_an_error() {
        let mut rng = Rng::new(1);
        for _ in 0..20_000 {
            let mut bytes = vec![0; rng.below(24) as usize];
            rng.fill(&mut bytes);
            if let Some(first) = bytes.first_mut() {
                *first %= 6;
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
