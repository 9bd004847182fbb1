//! A cache of the catalog in each thread that runs statements.
//!
//! Every statement needs the catalog for as long as it runs. Taking and dropping a counted
//! reference to the catalog would cost two writes to shared memory. So a thread keeps the catalog
//! that it used last and lends it to one statement after another. Before each statement the thread
//! only checks whether the catalog's version is still the newest.
//!
//! The cache belongs to the thread and not to the session. A cache in each session would keep an
//! old catalog in memory while the session sleeps, and there are many more sessions than threads.

use std::cell::Cell;
use std::ops::Deref;
use std::sync::Arc;

use super::instance::Instance;
use crate::catalog::Catalog;

thread_local! {
    /// The catalog that the thread used last, with the number of its instance.
    static LAST: Cell<Option<(u64, Arc<Catalog>)>> = const { Cell::new(None) };
}

/// A catalog for one statement; it goes back to the thread when this is dropped.
pub(super) struct AtHand {
    instance: u64,
    catalog: Option<Arc<Catalog>>,
}

impl Deref for AtHand {
    type Target = Catalog;

    fn deref(&self) -> &Catalog {
        self.catalog.as_ref().expect("it is here until it is dropped")
    }
}

impl Drop for AtHand {
    fn drop(&mut self) {
        let Some(catalog) = self.catalog.take() else { return };
        // A thread that is ending needs no cache.
        let _ = LAST.try_with(|last| last.set(Some((self.instance, catalog))));
    }
}

impl Instance {
    /// The current catalog, or, while it is being replaced, perhaps the previous one, as
    /// [`Instance::catalog_version`] says.
    pub(super) fn catalog_at_hand(&self) -> AtHand {
        let instance = self.0.number;
        let last = LAST.try_with(Cell::take).ok().flatten();
        let known = last
            .filter(|(of, catalog)| *of == instance && catalog.version == self.catalog_version());
        let catalog = known.map_or_else(|| self.0.catalog.load_full(), |(_, catalog)| catalog);
        AtHand { instance, catalog: Some(catalog) }
    }
}

#[cfg(test)]
mod tests {
    use crate::tests::in_memory;
    use crate::tests::run;

    #[test]
    fn a_thread_lends_the_catalog_that_is_the_newest() {
        let (one, other) = (in_memory(), in_memory());
        let mut session = one.session("root", "localhost", 1);
        session.use_database("test").unwrap();
        for number in 0..3 {
            run(&mut session, &format!("CREATE TABLE t{number} (id INT PRIMARY KEY)"));
            for _ in 0..2 {
                let (lent, again) = (one.catalog_at_hand(), one.catalog_at_hand());
                assert_eq!((lent.tables.len(), again.tables.len()), (number + 1, number + 1));
            }
            assert_eq!(other.catalog_at_hand().tables.len(), 0, "of another instance");
        }
    }
}
