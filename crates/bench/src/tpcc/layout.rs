//! Rows of fixed layouts: each column is at a constant offset, numbers are little-endian.

use std::marker::PhantomData;
use std::ops::Add;

/// A type that a column can have.
pub(super) trait ColumnType: Copy {
    /// The bytes that it takes in a row.
    const BYTES: usize;

    /// Reads a value from the beginning of `bytes`.
    fn read(bytes: &[u8]) -> Self;

    /// Writes the value to the beginning of `bytes`.
    fn write(self, bytes: &mut [u8]);
}

macro_rules! number {
    ($($type:ty),*) => {$(
        impl ColumnType for $type {
            const BYTES: usize = size_of::<$type>();

            #[inline]
            fn read(bytes: &[u8]) -> $type {
                let (bytes, _) = bytes.split_first_chunk().expect("a row has all its columns");
                <$type>::from_le_bytes(*bytes)
            }

            #[inline]
            fn write(self, bytes: &mut [u8]) {
                bytes[..Self::BYTES].copy_from_slice(&self.to_le_bytes());
            }
        }
    )*};
}

number!(u8, u16, i16, u32, u64, i64);

impl<const N: usize> ColumnType for [u8; N] {
    const BYTES: usize = N;

    #[inline]
    fn read(bytes: &[u8]) -> [u8; N] {
        let (bytes, _) = bytes.split_first_chunk().expect("a row has all its columns");
        *bytes
    }

    #[inline]
    fn write(self, bytes: &mut [u8]) {
        bytes[..N].copy_from_slice(&self);
    }
}

/// A column: its type and its offset.
pub(super) struct Column<T> {
    at: usize,
    of: PhantomData<T>,
}

impl<T: ColumnType> Column<T> {
    pub(super) const fn at(at: usize) -> Column<T> {
        Column { at, of: PhantomData }
    }

    /// Its value in a row.
    ///
    /// # Panics
    /// When the row is too short for it.
    #[inline]
    pub(super) fn get(&self, row: &[u8]) -> T {
        T::read(&row[self.at..])
    }

    /// Changes its value in a row.
    ///
    /// # Panics
    /// When the row is too short for it.
    #[inline]
    pub(super) fn set(&self, row: &mut [u8], value: T) {
        value.write(&mut row[self.at..]);
    }

    /// Adds to its value in a row, and returns the sum.
    ///
    /// # Panics
    /// When the row is too short for it.
    #[inline]
    pub(super) fn add(&self, row: &mut [u8], more: T) -> T
    where
        T: Add<Output = T>,
    {
        let sum = self.get(row) + more;
        self.set(row, sum);
        sum
    }

    /// Its bytes in a row.
    #[inline]
    pub(super) fn bytes<'r>(&self, row: &'r mut [u8]) -> &'r mut [u8] {
        &mut row[self.at..self.at + T::BYTES]
    }
}

/// Declares a table's columns, one after the other, as constants of a type, and `BYTES`, the size
/// of a row.
macro_rules! layout {
    ($(#[$doc:meta])* $row:ident { $($columns:tt)* }) => {
        $(#[$doc])*
        pub(super) struct $row;

        impl $row {
            layout!(@column 0; $($columns)*);
        }
    };
    (@column $at:expr; $(#[$doc:meta])* $column:ident: $type:ty, $($columns:tt)*) => {
        $(#[$doc])*
        pub(super) const $column: Column<$type> = Column::at($at);
        layout!(@column $at + <$type as ColumnType>::BYTES; $($columns)*);
    };
    (@column $at:expr;) => {
        /// The size of a row, in bytes.
        pub(super) const BYTES: usize = $at;
    };
}

pub(super) use layout;
