//! Rows whose values identify the write that made them.

use clap::Args;

use crate::measure::Values;
use crate::store::Store;

/// The longest key, in bytes.
const KEY_BYTES_MAX: usize = 16;
/// The bytes of a value before its filling: the row's number and the write's.
const HEAD_BYTES: usize = 16;
/// Rows of a commit of a load.
const COMMIT_ROWS: u64 = 100;

/// The sizes of a table's rows.
#[derive(Args, Clone, Copy, Debug)]
pub struct RowSizes {
    /// Bytes of each key
    #[arg(long, default_value_t = 8)]
    pub key_bytes: usize,
    /// Bytes of each value
    #[arg(long, default_value_t = 192)]
    pub value_bytes: usize,
}

impl RowSizes {
    /// # Errors
    /// As [`StampedRows::new`].
    pub(super) fn rows(self, seed: u64) -> Result<StampedRows, String> {
        StampedRows::new(self.key_bytes, self.value_bytes, seed)
    }
}

/// Keys and values of a table: row `n` of write `w` has one possible value, so that a reader can
/// recognize a wrong row, a torn row and an old row.
pub(super) struct StampedRows {
    key_bytes: usize,
    value_bytes: usize,
    fillings: Values,
}

/// A key in the order of its row's number.
pub(super) struct Key {
    bytes: [u8; KEY_BYTES_MAX],
    len: usize,
}

impl Key {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl StampedRows {
    /// Keys of 8 to 16 bytes, and values of at least 16.
    ///
    /// # Errors
    /// Other sizes, as text.
    pub(super) fn new(
        key_bytes: usize,
        value_bytes: usize,
        seed: u64,
    ) -> Result<StampedRows, String> {
        if !(8..=KEY_BYTES_MAX).contains(&key_bytes) {
            return Err(format!("a key has 8 to {KEY_BYTES_MAX} bytes"));
        }
        let Some(filling_bytes) = value_bytes.checked_sub(HEAD_BYTES) else {
            return Err(format!("a value has at least {HEAD_BYTES} bytes"));
        };
        Ok(StampedRows { key_bytes, value_bytes, fillings: Values::new(seed, filling_bytes) })
    }

    /// The bytes of a row's key and value, without a store's overhead.
    pub(super) fn row_bytes(&self) -> usize {
        self.key_bytes + self.value_bytes
    }

    pub(super) fn key(&self, number: u64) -> Key {
        let mut bytes = [b'0'; KEY_BYTES_MAX];
        bytes[self.key_bytes - 8..self.key_bytes].copy_from_slice(&number.to_be_bytes());
        Key { bytes, len: self.key_bytes }
    }

    /// Sets `value` to the one that write `write` gives the row.
    pub(super) fn value(&self, number: u64, write: u64, value: &mut Vec<u8>) {
        value.clear();
        value.extend_from_slice(&number.to_be_bytes());
        value.extend_from_slice(&write.to_be_bytes());
        value.extend_from_slice(self.filling(number, write));
    }

    fn filling(&self, number: u64, write: u64) -> &[u8] {
        self.fillings.of(number ^ write.rotate_left(32))
    }

    /// The number of the write that gave the row this value.
    ///
    /// # Errors
    /// If no write did, as text.
    pub(super) fn write_of(&self, number: u64, value: &[u8]) -> Result<u64, String> {
        let wrong = || format!("row {number} has a value that nothing wrote");
        let (row, rest) = value.split_first_chunk::<8>().ok_or_else(wrong)?;
        let (write, filling) = rest.split_first_chunk::<8>().ok_or_else(wrong)?;
        let write = u64::from_be_bytes(*write);
        if u64::from_be_bytes(*row) != number || filling != self.filling(number, write) {
            return Err(wrong());
        }
        Ok(write)
    }

    /// Puts rows `0..rows` as write 0. All of them are durable in the end.
    ///
    /// # Errors
    /// The store's, as text.
    pub(super) fn load(&self, store: &dyn Store, rows: u64) -> Result<(), String> {
        let mut values = vec![Vec::new(); COMMIT_ROWS as usize];
        for first in (0..rows).step_by(COMMIT_ROWS as usize) {
            let numbers = first..(first + COMMIT_ROWS).min(rows);
            let keys: Vec<_> = numbers.clone().map(|number| self.key(number)).collect();
            for (number, value) in numbers.clone().zip(&mut values) {
                self.value(number, 0, value);
            }
            let pairs = keys.iter().zip(&values).map(|(key, value)| (key.bytes(), &value[..]));
            let pairs: Vec<_> = pairs.collect();
            store.commit(&pairs, numbers.end == rows)?;
        }
        Ok(())
    }

    /// Reads a row. Returns the number of the write that gave it its value.
    ///
    /// # Errors
    /// If it is missing or wrong, or the store fails, as text.
    pub(super) fn read(
        &self,
        store: &dyn Store,
        number: u64,
        value: &mut Vec<u8>,
    ) -> Result<u64, String> {
        if !store.get(self.key(number).bytes(), value)? {
            return Err(format!("row {number} is missing"));
        }
        self.write_of(number, value)
    }
}

/// The rows that one of several threads updates, and the last write of each. No other thread
/// updates them, so the thread knows their values.
pub(super) struct OwnRows {
    thread: u64,
    threads: u64,
    last: Vec<u32>,
}

impl OwnRows {
    /// The thread's share of `rows` rows, which are at write 0.
    pub(super) fn new(rows: u64, thread: usize, threads: usize) -> OwnRows {
        let (thread, threads) = (thread as u64, threads as u64);
        let count = (rows + threads - 1 - thread) / threads;
        OwnRows { thread, threads, last: vec![0; count as usize] }
    }

    pub(super) fn count(&self) -> u64 {
        self.last.len() as u64
    }

    fn number(&self, place: u64) -> u64 {
        place * self.threads + self.thread
    }

    /// The row at a place below [`OwnRows::count`], and its next write.
    pub(super) fn update(&mut self, place: u64) -> (u64, u64) {
        let last = &mut self.last[place as usize];
        *last += 1;
        let write = u64::from(*last);
        (self.number(place), write)
    }

    /// Reads one row in `step` and checks that it has its last write.
    ///
    /// # Errors
    /// If a row does not, or the store fails, as text.
    pub(super) fn check(
        &self,
        rows: &StampedRows,
        store: &dyn Store,
        step: usize,
    ) -> Result<(), String> {
        let mut value = Vec::new();
        let mut places = (0..self.count()).step_by(step);
        places.try_for_each(|place| self.check_one(rows, store, place, &mut value))
    }

    /// Reads the row at a place into `value` and checks that it has its last write.
    ///
    /// # Errors
    /// If it does not, or the store fails, as text.
    pub(super) fn check_one(
        &self,
        rows: &StampedRows,
        store: &dyn Store,
        place: u64,
        value: &mut Vec<u8>,
    ) -> Result<(), String> {
        let (number, last) = (self.number(place), u64::from(self.last[place as usize]));
        let found = rows.read(store, number, value)?;
        if found != last {
            return Err(format!("row {number} is from write {found}, and not {last}"));
        }
        Ok(())
    }
}
