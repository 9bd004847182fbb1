//! Hosts of accounts, and which of them match a client's address.

use std::net::Ipv4Addr;

use spillway_types::Collation;

/// Names of this machine. An account with one of them as its host matches a client with any of
/// them.
const LOCAL: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// How specifically an account's host matches a client. Greater is more specific.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct HostMatch {
    kind: HostKind,
    /// The number of characters before the first wildcard, or of bits in a network's mask.
    length: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum HostKind {
    Pattern,
    Network,
    /// The account has another name of this machine.
    SameMachine,
    Exact,
}

/// How an account's host matches a client's host, if it does: as the same name or address, as a
/// network (`10.0.0.0/255.0.0.0`, `10.0.0.0/8`) or as a LIKE pattern (`10.%`).
pub(super) fn fit(account: &str, client: &str) -> Option<HostMatch> {
    let is_local = LOCAL.contains(&client);
    if account.eq_ignore_ascii_case(client) {
        return Some(HostMatch { kind: HostKind::Exact, length: 0 });
    }
    if is_local && let Some(at) = LOCAL.iter().position(|name| name.eq_ignore_ascii_case(account)) {
        return Some(HostMatch { kind: HostKind::SameMachine, length: LOCAL.len() - at });
    }
    if let Some((network, mask)) = account.split_once('/') {
        let (network, mask) = (bits(network)?, mask_of(mask)?);
        let inside = bits(client)? & mask == network;
        return inside
            .then_some(HostMatch { kind: HostKind::Network, length: mask.count_ones() as usize });
    }
    let length = account.find(['%', '_'])?;
    let like = |name: &str| Collation::GeneralCi.like(name, account, Some('\\'));
    let fits = like(client) || (is_local && LOCAL.iter().any(|name| like(name)));
    fits.then_some(HostMatch { kind: HostKind::Pattern, length })
}

fn bits(address: &str) -> Option<u32> {
    address.parse::<Ipv4Addr>().ok().map(u32::from)
}

/// Parses a mask, which is an address or a number of bits.
fn mask_of(text: &str) -> Option<u32> {
    match text.parse::<u32>() {
        Ok(length @ 0..=32) => Some(u32::MAX.checked_shl(32 - length).unwrap_or(0)),
        Ok(_) => None,
        Err(_) => bits(text),
    }
}

#[cfg(test)]
mod tests {
    use super::fit;

    #[test]
    fn a_host_means_those_that_it_names() {
        for (account, client, fits) in [
            ("%", "10.0.0.1", true),
            ("10.%", "10.0.0.1", true),
            ("10.%", "110.0.0.1", false),
            ("10.0.0._", "10.0.0.1", true),
            ("10.0.0._", "10.0.0.11", false),
            ("%.example.com", "a.EXAMPLE.com", true),
            ("10.0.0.0/255.0.0.0", "10.9.9.9", true),
            ("10.0.0.0/255.0.0.0", "11.0.0.1", false),
            ("10.0.0.0/8", "10.9.9.9", true),
            ("10.1.0.0/16", "10.9.9.9", false),
            ("0.0.0.0/0", "10.9.9.9", true),
            ("10.0.0.0/33", "10.0.0.0", false),
            ("localhost", "127.0.0.1", true),
            ("127.0.0.1", "localhost", true),
            ("127.%", "localhost", true),
            ("127.0.0.1", "127.0.0.2", false),
            ("", "10.0.0.1", false),
        ] {
            assert_eq!(fit(account, client).is_some(), fits, "{account} and {client}");
        }
    }

    #[test]
    fn the_most_exact_host_goes_first() {
        let order =
            ["%", "1%", "10.%", "10.0.0._", "10.0.0.0/8", "10.0.0.0/255.255.0.0", "10.0.0.1"];
        for pair in order.windows(2) {
            assert!(fit(pair[0], "10.0.0.1") < fit(pair[1], "10.0.0.1"), "{pair:?}");
        }
        let order = ["%", "::1", "127.0.0.1", "localhost"];
        for pair in order.windows(2) {
            assert!(fit(pair[0], "localhost") < fit(pair[1], "localhost"), "{pair:?}");
        }
    }
}
