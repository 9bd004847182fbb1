//! The tiered engine as a [`ManagedEngine`], the interface that the database uses.

use spillway_base::managed::{BackgroundThreads, ManagedEngine, TableSize};
use spillway_base::{Result, TableId};

use super::{Background, JobOutcome, TieredEngine};

impl BackgroundThreads for Background {}

impl ManagedEngine for TieredEngine {
    fn start_background_threads(&self, threads: usize) -> Result<Box<dyn BackgroundThreads>> {
        Ok(Box::new(self.start_background(threads)?))
    }

    fn run_background_job(&self) -> Result<bool> {
        Ok(TieredEngine::run_background_job(self)? == JobOutcome::Worked)
    }

    fn persist_all(&self) -> Result<()> {
        self.flush_all()
    }

    fn compact_all(&self) -> Result<()> {
        TieredEngine::compact_all(self)
    }

    fn table_size(&self, table: TableId) -> TableSize {
        self.size(table)
    }

    fn close(&self) {
        TieredEngine::close(self);
    }
}
