//! Proxies in front of the server: what they say about a request counts if they were named as trusted, and not otherwise, for every
//! caller can write the same headers.

use std::net::IpAddr;

use axum::http::{HeaderMap, HeaderValue, header};
use turnwise::Invalid;

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

    /// What a trusted proxy says about a request: that the caller reached it by TLS, the host that was asked for, which takes its place in
    /// the headers, and the path that it has taken away from the front.
    pub(crate) fn read(&self, peer: Option<&Peer>, headers: &mut HeaderMap) -> Forwarded {
        if !peer.is_some_and(|peer| self.trusts(peer.0)) {
            return Forwarded::default();
        }
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
        Forwarded { secure, prefix }
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
        assert_eq!(proxies.read(peer("192.0.2.1").as_ref(), &mut headers), Forwarded::default());
        assert_eq!(proxies.read(None, &mut headers), Forwarded::default());
        assert_eq!(headers["host"], "internal:8080");
        let forwarded = proxies.read(peer("10.0.0.1").as_ref(), &mut headers);
        assert_eq!(forwarded, Forwarded { secure: Some(true), prefix: "/turnwise".to_owned() });
        assert_eq!(headers["host"], "jobs.example.com");
        for bad in ["turnwise", "//evil.example", "/a/", "/a?b", "/a\"b", ""] {
            let mut headers = said();
            headers.insert("x-forwarded-prefix", HeaderValue::from_str(bad).unwrap());
            assert_eq!(proxies.read(peer("10.0.0.1").as_ref(), &mut headers).prefix, "", "{bad}");
        }
    }
}
