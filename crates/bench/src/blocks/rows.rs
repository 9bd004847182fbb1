//! The rows of the blocks.

use clap::ValueEnum;
use spillway_base::rng::Rng;

/// The kind of keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum KeyKind {
    /// Sixteen random bytes
    Random,
    /// An eight-byte counter
    Counters,
    /// Four bytes of a table and a four-byte counter, with gaps
    Table,
    /// A long text that all share, and a number in digits
    Texts,
    /// An index's entries: four bytes of a value that some hundred rows have, and eight bytes of
    /// the row
    Index,
}

/// Rows with the same value in the index.
const TOGETHER: u64 = 100;

impl KeyKind {
    /// All of them.
    pub(super) const ALL: [KeyKind; 5] =
        [KeyKind::Random, KeyKind::Counters, KeyKind::Table, KeyKind::Texts, KeyKind::Index];

    pub(super) fn name(self) -> &'static str {
        match self {
            KeyKind::Random => "random",
            KeyKind::Counters => "counters",
            KeyKind::Table => "table",
            KeyKind::Texts => "texts",
            KeyKind::Index => "index",
        }
    }

    /// This many different keys, in order.
    pub(super) fn keys(self, count: usize, seed: u64) -> Vec<Vec<u8>> {
        let mut rng = Rng::new(seed);
        let mut number = 1_000_000;
        let mut keys: Vec<Vec<u8>> = (0..count as u64)
            .map(|at| {
                number += 1 + rng.below(3);
                match self {
                    KeyKind::Random => {
                        let mut key = vec![0; 16];
                        rng.fill(&mut key);
                        key
                    }
                    KeyKind::Counters => (1_000_000 + at).to_be_bytes().to_vec(),
                    KeyKind::Table => {
                        [260_u32.to_be_bytes(), (number as u32).to_be_bytes()].concat()
                    }
                    KeyKind::Texts => {
                        let path = "https://shop.example.com/catalogue/garden/tools/item-";
                        format!("{path}{number:012}").into_bytes()
                    }
                    KeyKind::Index => {
                        let value = (at / TOGETHER) as u32;
                        [&value.to_be_bytes()[..], &rng.next_u64().to_be_bytes()].concat()
                    }
                }
            })
            .collect();
        keys.sort();
        keys.dedup();
        keys
    }
}
