//! SQL over Spillway: parse, catalog, plan, compiled statements.
