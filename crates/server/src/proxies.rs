//! Proxies in front of the server: what they say about a request counts if they were named as trusted, and not otherwise, for every
//! caller can write the same headers.

use std::net::{IpAddr, SocketAddr};

use axum::http::{HeaderMap, HeaderValue, header};
use turnwise::Invalid;

use crate::tries::Address;

/// Where a connection comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub(crate) IpAddr);

/// Networks whose proxies are trusted; none unless given.
#[derive(Debug, Clone, Default)]
pub struct Proxies(Vec<(IpAddr, u8)>);

impl Proxies {
    /// Adds a network such as `10.0.0.0/8`, or one address.
    pub fn trust(&mut self, text: &str) -> Result<(), Invalid> {
        let bad = || {
            Invalid::new("trust_proxy", format!("{text:?} is not a network; write it like 10.0.0.0/8, or an address"))
        };
        let (address, length) = text.split_once('/').map_or((text, None), |(address, length)| (address, Some(length)));
        let address: IpAddr = address.parse().map_err(|_| bad())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let length = length.map_or(Ok(most), str::parse).map_err(|_| bad())?;
        if length > most {
            return Err(bad());
        }
        self.0.push((address, length));
        Ok(())
    }

    fn trusts(&self, peer: IpAddr) -> bool {
        // On a socket for both, IPv4 addresses are written as IPv6.
        let peer = peer.to_canonical();
        self.0.iter().any(|(network, length)| match (network, peer) {
            (IpAddr::V4(network), IpAddr::V4(peer)) => {
                same(network.to_bits().into(), peer.to_bits().into(), 32 - length)
            }
            (IpAddr::V6(network), IpAddr::V6(peer)) => same(network.to_bits(), peer.to_bits(), 128 - length),
            _ => false,
        })
    }

    /// What a trusted proxy says about a request: where it comes from, that the caller reached it by TLS, the host that was asked for, which
    /// takes its place in the headers, and the path that it has taken away from the front.
    pub(crate) fn read(&self, peer: Option<&Peer>, headers: &mut HeaderMap) -> Forwarded {
        let Some(peer) = peer.map(|peer| peer.0) else { return Forwarded::default() };
        if !self.trusts(peer) {
            return Forwarded { from: peer.into(), ..Forwarded::default() };
        }
        let from = self.from(peer, headers).into();
        let one = |name: &str| {
            let mut values = headers.get_all(name).iter();
            values.next().filter(|_| values.next().is_none()).and_then(|value| value.to_str().ok()).map(str::trim)
        };
        let secure = one("x-forwarded-proto").map(|scheme| scheme.eq_ignore_ascii_case("https"));
        let plain = |path: &&str| {
            let good = |c: char| c.is_ascii_alphanumeric() || "/-._~".contains(c);
            path.starts_with('/') && !path.starts_with("//") && !path.ends_with('/') && path.chars().all(good)
        };
        let prefix = one("x-forwarded-prefix").filter(plain).unwrap_or_default().to_owned();
        let host = one("x-forwarded-host").and_then(|host| HeaderValue::from_str(host).ok());
        if let Some(host) = host {
            headers.insert(header::HOST, host);
        }
        Forwarded { secure, prefix, from }
    }

    /// Where a request comes from that a trusted proxy passes on. Each proxy adds at the end who asked it; what stands further to the front
    /// than the last proxy that is trusted, any caller may have made up.
    fn from(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let lines = headers.get_all("x-forwarded-for").iter().map(|line| line.to_str().unwrap_or_default());
        let lines: Vec<_> = lines.flat_map(|line| line.split(',')).map(str::trim).collect();
        let mut from = peer;
        for hop in lines.into_iter().rev() {
            // Some write the port, too.
            let hop = hop.parse().or_else(|_| hop.parse::<SocketAddr>().map(|address| address.ip()));
            let Ok(hop) = hop else { break };
            from = hop;
            if !self.trusts(from) {
                break;
            }
        }
        from
    }
}

/// Whether two addresses are the same but for so many last bits.
fn same(one: u128, other: u128, rest: u8) -> bool {
    one.checked_shr(rest.into()).unwrap_or(0) == other.checked_shr(rest.into()).unwrap_or(0)
}

/// What a trusted proxy says; nothing without one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Forwarded {
    /// Whether the caller reached the proxy by TLS; `None`: it does not say.
    pub(crate) secure: Option<bool>,
    /// Stands before every path that callers see, such as `/turnwise`; mostly empty.
    pub(crate) prefix: String,
    /// Where the request comes from.
    pub(crate) from: Address,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxies(networks: &[&str]) -> Proxies {
        let mut proxies = Proxies::default();
        networks.iter().for_each(|network| proxies.trust(network).unwrap());
        proxies
    }

    #[test]
    fn a_network_has_the_addresses_that_begin_like_it() {
        let proxies = proxies(&["10.1.0.0/16", "192.0.2.7", "fd00::/8", "2001:db8::1"]);
        for good in ["10.1.0.0", "10.1.255.255", "::ffff:10.1.2.3", "192.0.2.7", "fd12::1", "2001:db8::1"] {
            assert!(proxies.trusts(good.parse().unwrap()), "{good}");
        }
        for bad in ["10.2.0.0", "192.0.2.8", "127.0.0.1", "fe80::1", "2001:db8::2", "::1"] {
            assert!(!proxies.trusts(bad.parse().unwrap()), "{bad}");
        }
        let everybody = self::proxies(&["0.0.0.0/0", "::/0"]);
        assert!(everybody.trusts("8.8.8.8".parse().unwrap()) && everybody.trusts("::2".parse().unwrap()));
        for bad in ["", "10.0.0.0/33", "10.0.0.0/x", "example.com", "::/129", "10.0.0/8"] {
            let refused = Proxies::default().trust(bad).unwrap_err().to_string();
            assert!(refused.starts_with("trust_proxy: "), "{refused}");
        }
    }

    #[test]
    fn what_others_forward_does_not_count() {
        let said = || {
            let pairs =
                [("host", "internal:8080"), ("x-forwarded-host", "jobs.example.com"), ("x-forwarded-proto", "https")];
            let mut headers: HeaderMap = pairs
                .into_iter()
                .map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)))
                .collect();
            headers.insert("x-forwarded-prefix", HeaderValue::from_static("/turnwise"));
            headers
        };
        let (proxies, mut headers) = (proxies(&["10.0.0.0/8"]), said());
        let peer = |text: &str| Some(Peer(text.parse().unwrap()));
        let address = |text: &str| Address::from(text.parse::<IpAddr>().unwrap());
        let nothing = Forwarded { from: address("192.0.2.1"), ..Forwarded::default() };
        assert_eq!(proxies.read(peer("192.0.2.1").as_ref(), &mut headers), nothing);
        assert_eq!(proxies.read(None, &mut headers), Forwarded::default());
        assert_eq!(headers["host"], "internal:8080");
        let forwarded = proxies.read(peer("10.0.0.1").as_ref(), &mut headers);
        let from = address("10.0.0.1");
        assert_eq!(forwarded, Forwarded { secure: Some(true), prefix: "/turnwise".to_owned(), from });
        assert_eq!(headers["host"], "jobs.example.com");
        for bad in ["turnwise", "//evil.example", "/a/", "/a?b", "/a\"b", ""] {
            let mut headers = said();
            headers.insert("x-forwarded-prefix", HeaderValue::from_str(bad).unwrap());
            assert_eq!(proxies.read(peer("10.0.0.1").as_ref(), &mut headers).prefix, "", "{bad}");
        }
    }

    #[test]
    fn a_request_comes_from_the_last_address_that_is_no_trusted_proxy() {
        let proxies = proxies(&["10.0.0.0/8"]);
        let from = |peer: &str, lines: &[&str]| {
            let lines = lines.iter().map(|line| ("x-forwarded-for".parse().unwrap(), line.parse().unwrap()));
            proxies.read(Some(&Peer(peer.parse().unwrap())), &mut lines.collect()).from
        };
        let is = |text: &str| Address::from(text.parse::<IpAddr>().unwrap());
        assert_eq!(from("10.0.0.1", &["198.51.100.7"]), is("198.51.100.7"));
        assert_eq!(from("10.0.0.1", &["198.51.100.7, 10.0.0.2"]), is("198.51.100.7"));
        assert_eq!(from("10.0.0.1", &["203.0.113.9, 198.51.100.7", "10.0.0.2"]), is("198.51.100.7"), "made up");
        assert_eq!(from("10.0.0.1", &["[2001:db8::7]:4711"]), is("2001:db8::7"));
        for nonsense in [&[][..], &[""], &["unknown"], &["198.51.100.7, unknown"]] {
            assert_eq!(from("10.0.0.1", nonsense), is("10.0.0.1"), "{nonsense:?}");
        }
        assert_eq!(from("192.0.2.1", &["198.51.100.7"]), is("192.0.2.1"), "it is not trusted");
    }
}
