//! Range filters. A range filter says in which parts of its key range a block has keys. A scan asks
//! the filter before it reads the block.
//!
//! The *head* of a key is its eight bytes behind the common prefix of the block's keys, as a
//! number. The range from the first key's head to the last key's is divided into *cells* of equal
//! width. One bit for each cell says whether the cell has a key. There are eight cells for each
//! key, so the filter takes a byte for each key.
//!
//! A scan that enters the block's range asks the filter for the next cell with a key. The scan
//! reads the block only when it reaches that cell. If a sub-level has a hundredth of a table's
//! rows, about one in four scans of twenty rows has to read the sub-level's block.
//!
//! Published range filters (SuRF, Rosetta, bloomRF) say whether a range with two known ends has a
//! key. A scan with a limit does not know the end of its range. It needs the next position that may
//! have a key, and a bitmap in key order gives this position in one step.
//!
//! A range filter saves most where keys are spread evenly. Where many keys share few cells, a scan
//! that reaches such a cell reads the block, as it would without a filter.

/// Cells for each key.
const CELLS_PER_KEY: usize = 8;

/// The head of a key. A smaller key never has a larger head.
fn head(key: &[u8], prefix_bytes: usize) -> u64 {
    let rest = key.get(prefix_bytes..).unwrap_or_default();
    let mut bytes = [0; size_of::<u64>()];
    let known = rest.len().min(bytes.len());
    bytes[..known].copy_from_slice(&rest[..known]);
    u64::from_be_bytes(bytes)
}

/// The position of a key between two others, if keys are spread evenly: 0 for a key at or below
/// `first`, 1 for a key past `last`.
pub(crate) fn place_between(first: &[u8], last: &[u8], key: &[u8]) -> f64 {
    if key <= first {
        return 0.0;
    }
    if key > last {
        return 1.0;
    }
    let prefix_bytes = first.iter().zip(last).take_while(|(a, b)| a == b).count();
    let [first, last, key] = [first, last, key].map(|key| head(key, prefix_bytes) as f64);
    // If the heads are equal, the key lies somewhere between.
    if first < last { (key - first) / (last - first) } else { 0.5 }
}

/// The span of a block, divided into cells.
#[derive(Clone, Copy)]
struct Cells {
    prefix_bytes: usize,
    /// The head of the first key.
    base: u64,
    width: u64,
}

impl Cells {
    /// Divides the range from a block's first key to its last into cells; `None` if the two keys
    /// have equal heads.
    fn of(first: &[u8], last: &[u8], cells: usize) -> Option<Cells> {
        let prefix_bytes = first.iter().zip(last).take_while(|(a, b)| a == b).count();
        let (base, end) = (head(first, prefix_bytes), head(last, prefix_bytes));
        let span = end.checked_sub(base).filter(|span| *span > 0)?;
        Some(Cells { prefix_bytes, base, width: span.checked_div(cells as u64)? + 1 })
    }

    /// The cell of a key of the span.
    fn cell(&self, key: &[u8]) -> usize {
        (head(key, self.prefix_bytes).saturating_sub(self.base) / self.width) as usize
    }

    /// The head that a cell begins with.
    fn begin(&self, cell: usize) -> Option<u64> {
        self.base.checked_add(self.width.checked_mul(cell as u64)?)
    }
}

/// The filter of a block's keys, of which `distinct` are distinct. It is empty if a filter could
/// not exclude anything.
pub(crate) fn build<'a>(
    (first, last): (&[u8], &[u8]),
    distinct: usize,
    keys: impl Iterator<Item = &'a [u8]>,
) -> Vec<u8> {
    let mut bits = vec![0; (distinct * CELLS_PER_KEY).div_ceil(8)];
    let Some(cells) = Cells::of(first, last, bits.len() * 8) else { return Vec::new() };
    for cell in keys.map(|key| cells.cell(key)) {
        bits[cell / 8] |= 1 << (cell % 8);
    }
    bits
}

/// A filter, with the first and the last key of its block.
pub(crate) struct RangeFilter<'a> {
    first: &'a [u8],
    cells: Cells,
    bits: &'a [u8],
}

impl<'a> RangeFilter<'a> {
    /// The filter that [`build`] made of the keys from `first` to `last`; `None` if it excludes
    /// nothing.
    pub(crate) fn new(bits: &'a [u8], first: &'a [u8], last: &'a [u8]) -> Option<RangeFilter<'a>> {
        let cells = Cells::of(first, last, bits.len() * 8)?;
        Some(RangeFilter { first, cells, bits })
    }

    fn write(&self, head: u64, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(&self.first[..self.cells.prefix_bytes]);
        // Keys that differ only in zeros at their ends all have this head. The shortest is the
        // smallest.
        let zeros = (head.trailing_zeros() / u8::BITS).min(size_of::<u64>() as u32) as usize;
        out.extend_from_slice(&head.to_be_bytes()[..size_of::<u64>() - zeros]);
    }

    /// Writes a lower bound of the block's keys from `key` on, where `key` is in the span. The
    /// bound is at least `key` (FILTER-6).
    pub(crate) fn least_from(&self, key: &[u8], out: &mut Vec<u8>) {
        let cell = self.cells.cell(key);
        match self.next(cell).filter(|next| *next > cell).and_then(|next| self.cells.begin(next)) {
            Some(head) => self.write(head, out),
            None => {
                out.clear();
                out.extend_from_slice(key);
            }
        }
    }

    /// Writes an upper bound, excluded, of the block's keys below `key`, where `key` is in the
    /// span. The bound is at most `key` (FILTER-6).
    pub(crate) fn past_before(&self, key: &[u8], out: &mut Vec<u8>) {
        let cell = self.cells.cell(key);
        let before = self.before(cell).filter(|before| *before < cell);
        match before.and_then(|before| self.cells.begin(before + 1)) {
            Some(head) => self.write(head, out),
            None => {
                out.clear();
                out.extend_from_slice(key);
            }
        }
    }

    /// Whether a key of the span may be in the block.
    pub(crate) fn may_contain(&self, key: &[u8]) -> bool {
        let cell = self.cells.cell(key);
        self.next(cell) == Some(cell)
    }

    /// The first cell from this one on that has a key.
    fn next(&self, cell: usize) -> Option<usize> {
        let mut mask = 0xFF << (cell % 8);
        for (at, bits) in self.bits.iter().enumerate().skip(cell / 8) {
            let left = bits & mask;
            if left != 0 {
                return Some(at * 8 + left.trailing_zeros() as usize);
            }
            mask = 0xFF;
        }
        None
    }

    /// The last cell up to this one that has a key.
    fn before(&self, cell: usize) -> Option<usize> {
        let mask = 0xFF >> (7 - cell % 8);
        for (at, bits) in self.bits.iter().enumerate().take(cell / 8 + 1).rev() {
            let left = if at == cell / 8 { bits & mask } else { *bits };
            if left != 0 {
                return Some(at * 8 + 7 - left.leading_zeros() as usize);
            }
        }
        None
    }
}
