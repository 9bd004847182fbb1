//! Tests of the protocol over real sockets, with a client that also breaks the rules of the
//! protocol.
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
