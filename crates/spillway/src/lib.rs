//! An embeddable, transactional, ordered key-value database for load that arrives as a wave.
