//! Split points: the keys before which a flush cuts its output.

/// Keys before which a slice ends. All versions of a key lie on one side of each.
#[derive(Clone, Default, Debug)]
pub(crate) struct SplitPoints(Vec<Box<[u8]>>);

impl SplitPoints {
    /// No cuts.
    pub(crate) const NONE: &'static SplitPoints = &SplitPoints(Vec::new());

    /// A cut before each of these keys, which ascend.
    pub(crate) fn before(keys: Vec<Box<[u8]>>) -> SplitPoints {
        debug_assert!(keys.is_sorted());
        SplitPoints(keys)
    }

    /// The number of cuts before a key. Keys with the same number are not separated.
    #[inline]
    pub(crate) fn before_key(&self, key: &[u8]) -> usize {
        self.0.partition_point(|cut| **cut <= *key)
    }
}
