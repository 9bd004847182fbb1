//! The tiered engine: an LSM-tree of 2 MB extents after X-Engine.
