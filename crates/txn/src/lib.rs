//! Snapshots, locks, transactions, the commit pipeline and the redo log.
