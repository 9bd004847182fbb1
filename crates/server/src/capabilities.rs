//! Capability flags of clients and servers. The names are MySQL's without `CLIENT_`.

/// Set by every MySQL server. A server that clears it declares that its extended capabilities are
/// MariaDB's.
pub(crate) const MYSQL: u32 = 1;
pub(crate) const FOUND_ROWS: u32 = 1 << 1;
pub(crate) const LONG_FLAG: u32 = 1 << 2;
pub(crate) const CONNECT_WITH_DB: u32 = 1 << 3;
pub(crate) const PROTOCOL_41: u32 = 1 << 9;
pub(crate) const INTERACTIVE: u32 = 1 << 10;
pub(crate) const SSL: u32 = 1 << 11;
pub(crate) const TRANSACTIONS: u32 = 1 << 13;
pub(crate) const SECURE_CONNECTION: u32 = 1 << 15;
pub(crate) const MULTI_STATEMENTS: u32 = 1 << 16;
pub(crate) const MULTI_RESULTS: u32 = 1 << 17;
pub(crate) const PS_MULTI_RESULTS: u32 = 1 << 18;
pub(crate) const PLUGIN_AUTH: u32 = 1 << 19;
pub(crate) const CONNECT_ATTRS: u32 = 1 << 20;
pub(crate) const PLUGIN_AUTH_LENENC: u32 = 1 << 21;
pub(crate) const DEPRECATE_EOF: u32 = 1 << 24;

/// The capabilities of this server, without TLS.
pub(crate) const OURS: u32 = FOUND_ROWS
    | LONG_FLAG
    | CONNECT_WITH_DB
    | PROTOCOL_41
    | INTERACTIVE
    | TRANSACTIONS
    | SECURE_CONNECTION
    | MULTI_STATEMENTS
    | MULTI_RESULTS
    | PS_MULTI_RESULTS
    | PLUGIN_AUTH
    | CONNECT_ATTRS
    | PLUGIN_AUTH_LENENC
    | DEPRECATE_EOF;

/// MariaDB's extended capability `MARIADB_CLIENT_CACHE_METADATA`: a repeated execution of a
/// prepared statement sends the column definitions only if they have changed.
pub(crate) const CACHE_METADATA: u32 = 1 << 4;
