//! Split points: the keys before which a flush cuts its output.

/// Keys just before which a slice ends. No such cut divides the versions of a key.
#[derive(Clone, Default, Debug)]
pub(crate) struct SplitPoints(Vec<Box<[u8]>>);

impl SplitPoints {
    /// No cuts.
    pub(crate) const NONE: &'static SplitPoints = &SplitPoints(Vec::new());

    /// A cut before each of these keys, in ascending order.
    pub(crate) fn before(keys: Vec<Box<[u8]>>) -> SplitPoints {
        debug_assert!(keys.is_sorted());
        SplitPoints(keys)
    }

    /// The number of cuts at or before a key. No cut separates two keys with the same number.
    #[inline]
    pub(crate) fn before_key(&self, key: &[u8]) -> usize {
        self.0.partition_point(|cut| **cut <= *key)
    }
}
