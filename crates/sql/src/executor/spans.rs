//! Ranges of keys that accesses read.

use smallvec::SmallVec;
use spillway_base::range::raise_prefix;

use crate::expression::Buffer;

/// A key; one that is not long takes no memory of its own.
pub(super) type SpanKey = SmallVec<[u8; 24]>;

/// A range of an index's keys.
#[derive(PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Span {
    pub(super) start: SpanKey,
    pub(super) end: Option<SpanKey>,
}

/// Where an access reads.
pub(super) enum Places<'c> {
    /// At the one row with this primary key, all of it, if that is there.
    Row(Buffer<'c>),
    /// In these ranges.
    Spans(Spans),
}

/// The ranges that an access reads: in order, and apart from each other.
pub(crate) struct Spans {
    pub(super) all: SmallVec<[Span; 1]>,
    /// Whether they have exactly what the access's equalities and intervals say, as far as those
    /// are about whole numbers.
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

    /// Whether it is the keys that begin with its first one.
    pub(super) fn is_of_start(&self) -> bool {
        match &self.end {
            Some(end) => end_of(self.start.clone()).as_ref() == Some(end),
            None => false,
        }
    }
}

/// The end of the keys that begin with a prefix, for a range.
pub(super) fn end_of(mut prefix: SpanKey) -> Option<SpanKey> {
    let left = raise_prefix(&mut prefix)?;
    prefix.truncate(left);
    Some(prefix)
}
