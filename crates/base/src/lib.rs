//! Identifiers, errors, codecs, the engine contract, and the seams to clock, randomness and threads.
