//! Where a server is, and whether it may be asked that way.

use std::net::IpAddr;

use hyper::Uri;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use turnwise_core::Invalid;

/// What stays as it is in a part of a path or in a parameter (RFC 3986, unreserved).
const KEPT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A name as it stands in a path or behind a question mark.
pub fn encoded(text: &str) -> String {
    utf8_percent_encode(text, KEPT).to_string()
}

/// A server's address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// Without the brackets of an IPv6 address.
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) tls: bool,
    /// As the header `Host` names it.
    pub(crate) authority: String,
    /// What stands before `/api/v1`, for a server behind a proxy: empty, or `/jobs`.
    pub(crate) prefix: String,
}

impl Address {
    /// Reads `https://HOST:PORT`, a path after it or none. Plain `http://` sends tokens and jobs unencrypted: to other machines only if
    /// `plain_http` says so.
    pub fn read(text: &str, plain_http: bool) -> Result<Self, Invalid> {
        let refuse = |problem: String| Err(Invalid::new("server", problem));
        let form = "write it like https://jobs.example.com or http://127.0.0.1:8080";
        // What may be a secret is not repeated.
        if text.contains('@') {
            return refuse(
                "must not have a name or a token in it; give the token by --token or TURNWISE_TOKEN".to_owned(),
            );
        }
        if text.contains(['?', '#']) {
            return refuse(
                "must not have a question mark or anything after it; give a token by --token or TURNWISE_TOKEN"
                    .to_owned(),
            );
        }
        let uri: Uri = match text.parse() {
            Ok(uri) => uri,
            Err(_) => return refuse(format!("{text:?} is not an address; {form}")),
        };
        let tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return refuse(format!("{text:?} begins with neither https:// nor http://; {form}")),
        };
        let Some(authority) = uri.authority() else { return refuse(format!("{text:?} names no host; {form}")) };
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        if host.is_empty() {
            return refuse(format!("{text:?} names no host; {form}"));
        }
        if !tls && !plain_http && !is_loopback(&host) {
            let problem = format!(
                "{text} is not encrypted, and {host} is another machine: use https://, or --server-plain-http if the network protects \
                 what is sent"
            );
            return refuse(problem);
        }
        let prefix = uri.path().trim_end_matches('/').to_owned();
        let port = authority.port_u16().unwrap_or(if tls { 443 } else { 80 });
        Ok(Self { host, port, tls, authority: authority.to_string(), prefix })
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}://{}{}", if self.tls { "https" } else { "http" }, self.authority, self.prefix)
    }
}

fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_with_its_port_and_the_path_of_a_proxy() {
        let read = |text| Address::read(text, false).unwrap();
        let plain = read("http://127.0.0.1:8080");
        assert_eq!((plain.host.as_str(), plain.port, plain.tls, plain.prefix.as_str()), ("127.0.0.1", 8080, false, ""));
        let behind = read("https://jobs.example.com/turnwise/");
        assert_eq!((behind.port, behind.tls, behind.prefix.as_str()), (443, true, "/turnwise"));
        assert_eq!(behind.to_string(), "https://jobs.example.com/turnwise");
        assert_eq!((read("http://[::1]:9/").host.as_str(), read("http://LOCALHOST").port), ("::1", 80));
    }

    #[test]
    fn what_is_no_address_is_refused_and_a_secret_in_it_is_not_repeated() {
        for text in ["", "jobs", "ftp://jobs", "https://", "http:///x", "127.0.0.1:8080", "https://a b"] {
            let refusal = Address::read(text, false).unwrap_err().to_string();
            assert!(
                refusal.starts_with("server: ") && refusal.contains("https://jobs.example.com"),
                "{text}: {refusal}"
            );
        }
        for text in [
            "https://tw_secret@jobs",
            "https://:tw_secret@jobs/x",
            "https://jobs/?token=tw_secret",
            "https://jobs#tw_secret",
        ] {
            let refusal = Address::read(text, true).unwrap_err().to_string();
            assert!(refusal.contains("--token") && !refusal.contains("tw_secret"), "{refusal}");
        }
    }

    #[test]
    fn plain_http_to_another_machine_is_refused_unless_it_was_asked_for() {
        for text in ["http://jobs.example.com", "http://10.0.0.1:8080", "http://localhost.example.com"] {
            let refusal = Address::read(text, false).unwrap_err().to_string();
            assert!(refusal.contains("--server-plain-http"), "{refusal}");
            assert!(!Address::read(text, true).unwrap().tls);
        }
        assert!(Address::read("http://127.8.8.8", false).is_ok());
    }

    #[test]
    fn a_name_in_a_path_is_one_part_of_it() {
        assert_eq!(encoded("a/b c?d=é%"), "a%2Fb%20c%3Fd%3D%C3%A9%25");
        assert_eq!(encoded("A-z_0.~"), "A-z_0.~");
    }
}
