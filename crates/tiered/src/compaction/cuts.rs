//! Where what is flushed is cut.

/// Keys before which a slice ends. All versions of a key lie on one side of each.
#[derive(Clone, Default, Debug)]
pub(crate) struct Cuts(Vec<Box<[u8]>>);

impl Cuts {
    /// None.
    pub(crate) const NONE: &'static Cuts = &Cuts(Vec::new());

    /// Cuts before these keys, which ascend.
    pub(crate) fn before(keys: Vec<Box<[u8]>>) -> Cuts {
        debug_assert!(keys.is_sorted());
        Cuts(keys)
    }

    /// How many cuts come before a key: keys with as many are not parted.
    #[inline]
    pub(crate) fn before_key(&self, key: &[u8]) -> usize {
        self.0.partition_point(|cut| **cut <= *key)
    }
}
