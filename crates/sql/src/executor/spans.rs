//! The ranges of keys that an access reads.

use smallvec::SmallVec;
use spillway_base::range::raise_prefix;

use crate::expression::Buffer;

/// A key. A short one needs no allocation.
pub(super) type SpanKey = SmallVec<[u8; 24]>;

/// A range of an index's keys.
#[derive(PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Span {
    pub(super) start: SpanKey,
    pub(super) end: Option<SpanKey>,
}

/// The places that an access reads.
pub(super) enum Places<'c> {
    /// The single row with this whole primary key, if it exists.
    Row(Buffer<'c>),
    /// The rows, or entries, in these ranges.
    Spans(Spans),
}

/// The ranges that an access reads, in order and disjoint.
pub(crate) struct Spans {
    pub(super) all: SmallVec<[Span; 1]>,
    /// Whether the ranges contain exactly the rows that satisfy the access's equalities and
    /// intervals. That may be so only if all of these are over integers.
    pub(super) exact: bool,
}

impl Spans {
    pub(super) fn wide(span: Span) -> Spans {
        Spans { exact: false, ..Spans::exactly(span) }
    }

    pub(super) fn exactly(span: Span) -> Spans {
        let mut all = SmallVec::new();
        all.push(span);
        Spans { all, exact: true }
    }

    pub(super) fn none() -> Spans {
        Spans { all: SmallVec::new(), exact: true }
    }
}

impl Span {
    pub(super) fn of(prefix: &[u8]) -> Span {
        Span { end: end_of(SpanKey::from_slice(prefix)), start: SpanKey::from_slice(prefix) }
    }

    /// Whether the span consists of exactly the keys that begin with its start.
    pub(super) fn is_of_start(&self) -> bool {
        match &self.end {
            Some(end) => end_of(self.start.clone()).as_ref() == Some(end),
            None => false,
        }
    }
}

/// The end of the range of keys that begin with a prefix.
pub(super) fn end_of(mut prefix: SpanKey) -> Option<SpanKey> {
    let left = raise_prefix(&mut prefix)?;
    prefix.truncate(left);
    Some(prefix)
}
