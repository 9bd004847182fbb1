//! The protocol over real sockets, as a client sees it that knows no mercy.
#![allow(missing_docs)]

mod admission;
mod client;
mod cold;
mod commits;
mod dedicated_worker;
mod fields;
mod framing;
mod inspection;
mod limits;
mod login;
mod metadata;
mod pool;
mod results;
mod statements;
mod tls;
mod together;
mod vanished;
