//! The weights of `utf8mb4_general_ci`.
//!
//! Each character has one weight of 16 bits: its upper case, and for letters of the Latin, Greek or
//! Cyrillic script the upper case without accents. Characters past the Basic Multilingual Plane all
//! have the weight U+FFFD. MySQL made its table from the case mappings and compositions of Unicode
//! 3.0, so a letter whose capital was added to Unicode later has itself as its weight.

use std::ops::RangeInclusive;
use std::sync::LazyLock;

use icu_normalizer::{ComposingNormalizerBorrowed, DecomposingNormalizerBorrowed};

/// The weight of every character past the basic plane.
const SUPPLEMENTARY: u16 = 0xFFFD;

/// Characters below this one have their weights in a table.
const TABLED: u32 = 0x2000;

/// The weights of the first [`TABLED`] characters: 16 KiB, computed when first needed.
static WEIGHTS: LazyLock<Box<[u16]>> = LazyLock::new(|| (0..TABLED).map(tabled).collect());

/// Characters whose capitals Unicode added after version 3.0, or has in other blocks.
const WITHOUT_CAPITAL: &[RangeInclusive<u32>] = &[
    0x180..=0x180,
    0x19A..=0x19B,
    0x19E..=0x19E,
    0x23C..=0x252,
    0x25C..=0x25C,
    0x261..=0x261,
    0x264..=0x266,
    0x26A..=0x26C,
    0x271..=0x271,
    0x27D..=0x27D,
    0x282..=0x282,
    0x287..=0x287,
    0x289..=0x289,
    0x28C..=0x28C,
    0x29D..=0x29E,
    0x371..=0x37D,
    0x3D7..=0x3D9,
    0x3F3..=0x3FB,
    0x48B..=0x48B,
    0x4C6..=0x4C6,
    0x4CA..=0x4CA,
    0x4CE..=0x4CF,
    0x4F7..=0x4F7,
    0x4FA..=0x52F,
    0x1000..=0x1DFF,
    0x1EFA..=0x1EFF,
];

/// Blocks whose letters have the weight of the letter without accents.
const WITHOUT_ACCENT: &[RangeInclusive<u32>] =
    &[0xC0..=0x24F, 0x386..=0x3FF, 0x400..=0x4FF, 0x1E00..=0x1FFF];

/// The weight of a character.
#[inline]
pub(super) fn weight(c: char) -> u16 {
    let point = c as u32;
    match point {
        0..TABLED => WEIGHTS[point as usize],
        // Roman numerals, circled letters and fullwidth letters.
        0x2170..=0x217F => point as u16 - 16,
        0x24D0..=0x24E9 => point as u16 - 26,
        0xFF41..=0xFF5A => point as u16 - 32,
        TABLED..=0xFFFF => point as u16,
        _ => SUPPLEMENTARY,
    }
}

fn tabled(point: u32) -> u16 {
    // Most compared text is ASCII. Its weights must equal the result of `make_ascii_uppercase`.
    let Some(c) = char::from_u32(point) else { return point as u16 };
    let base = if holds(WITHOUT_ACCENT, point) { base(c) } else { c };
    // 16 bits suffice: no character below U+2000 has a base or a capital past the basic plane.
    match base {
        'ß' => u16::from(b'S'),
        'ϲ' => 'Σ' as u16,
        base if holds(WITHOUT_CAPITAL, base as u32) => base as u16,
        base => capital(base) as u16,
    }
}

fn holds(ranges: &[RangeInclusive<u32>], point: u32) -> bool {
    ranges.iter().any(|range| range.contains(&point))
}

/// A letter without its accents. The Cyrillic short I is a separate letter, and Unicode's
/// compatibility characters stay as they are.
fn base(c: char) -> char {
    if matches!(c, 'Й' | 'й') {
        return c;
    }
    let text = c.to_string();
    let base = DecomposingNormalizerBorrowed::new_nfd().normalize(&text).chars().next();
    let composed = ComposingNormalizerBorrowed::new_nfc().normalize(&text) == text;
    base.filter(|base| composed && base.is_alphabetic()).unwrap_or(c)
}

/// The capital of a letter, if it is one character.
fn capital(c: char) -> char {
    let mut capital = c.to_uppercase();
    match (capital.next(), capital.next()) {
        (Some(capital), None) => capital,
        _ => c,
    }
}
