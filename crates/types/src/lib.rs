//! MySQL's value system: types, conversions, collations, arithmetic, functions, and the row and key codecs.
