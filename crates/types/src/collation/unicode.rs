//! Collations by the Unicode Collation Algorithm, through ICU4X: its root collation (CLDR), without
//! tailoring for a language.

use std::cmp::Ordering;
use std::sync::LazyLock;

use icu_collator::options::{CollatorOptions, Strength};
use icu_collator::{CollatorBorrowed, CollatorPreferences};

/// The weight of a space at the first level, in sort keys. Only tabs, the ends of lines and U+FFFE
/// weigh less; the weights of all other characters begin with a greater byte.
pub(super) const SPACE: u8 = 4;

/// The levels of differences that count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Level {
    /// Letters (`_ai_ci`).
    Primary,
    /// Letters and accents (`_as_ci`).
    Secondary,
    /// Letters, accents and case (`_as_cs`).
    Tertiary,
}

static COLLATORS: LazyLock<[CollatorBorrowed<'static>; 3]> = LazyLock::new(|| {
    [Strength::Primary, Strength::Secondary, Strength::Tertiary].map(|strength| {
        let mut options = CollatorOptions::default();
        options.strength = Some(strength);
        CollatorBorrowed::try_new(CollatorPreferences::default(), options)
            .expect("the root collation is compiled in")
    })
});

fn collator(level: Level) -> &'static CollatorBorrowed<'static> {
    &COLLATORS[level as usize]
}

pub(super) fn compare(level: Level, a: &[u8], b: &[u8]) -> Ordering {
    collator(level).compare_utf8(a, b)
}

/// Appends bytes whose order is that of the texts at this level.
pub(super) fn sort_key(level: Level, text: &[u8], out: &mut Vec<u8>) {
    let Ok(()) = collator(level).write_sort_key_utf8_to(text, out);
}

/// At most this many characters of a text weigh as much as a space at the first level: these begin
/// with one of these bytes (U+00A0, U+1680, those of U+2000 to U+205F, U+3000).
pub(super) fn spaces_max(text: &[u8]) -> usize {
    text.iter().filter(|byte| matches!(byte, b' ' | 0xC2 | 0xE1..=0xE3)).count()
}

/// The weights of the ASCII characters at each level.
static ASCII: LazyLock<[[u64; 128]; 3]> = LazyLock::new(|| {
    [Level::Primary, Level::Secondary, Level::Tertiary]
        .map(|level| std::array::from_fn(|byte| of_key(level, char::from(byte as u8))))
});

/// A number that two characters have in common exactly if they compare equal on their own.
pub(super) fn weight(level: Level, c: char) -> u64 {
    match c.is_ascii() {
        true => ASCII[level as usize][c as usize],
        false => of_key(level, c),
    }
}

fn of_key(level: Level, c: char) -> u64 {
    let mut key = Vec::with_capacity(16);
    sort_key(level, c.encode_utf8(&mut [0; 4]).as_bytes(), &mut key);
    // A character with a longer key, such as a ligature of many letters, equals only itself.
    match key.len() {
        0..=7 => key.iter().fold(1, |number, byte| number << 8 | u64::from(*byte)),
        _ => 1 << 63 | u64::from(c),
    }
}
