//! Whom a request comes from, and what that caller may do: the one place where a request gets its grant.
//!
//! While no token has ever been created, the server answers on loopback only, and every program of this machine may do everything. A
//! web page of elsewhere must not become such a program: a browser sends its requests for it. So a request is refused that names
//! another host (a name that was made to point here), that comes from a page of another origin, or that a proxy has passed on (it
//! would open the server to the world).

use std::{net::IpAddr, sync::Arc};

use axum::http::{HeaderMap, HeaderName, header};
use turnwise_core::access::Grant;

use crate::problem::Problem;

/// What this request may do.
pub(crate) fn admit(headers: &HeaderMap) -> Result<Arc<Grant>, Problem> {
    from_this_machine(headers)?;
    Ok(Arc::new(Grant::unlimited()))
}

fn from_this_machine(headers: &HeaderMap) -> Result<(), Problem> {
    let says = "no token has been created yet, so only programs of this machine are served";
    if let Some(name) = headers.keys().find(|name| passed_on(name)) {
        return Err(Problem::forbidden(format!("{says}; the header {name} shows that a proxy passed the request on")));
    }
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = match (hosts.next().map(|host| host.to_str()), hosts.next()) {
        (Some(Ok(host)), None) if names_loopback(host) => host,
        _ => {
            return Err(Problem::forbidden(format!("{says}; the header Host must be localhost or a loopback address")));
        }
    };
    let same = |origin: &str| origin.eq_ignore_ascii_case(&format!("http://{host}"));
    if headers.get_all(header::ORIGIN).iter().any(|origin| !origin.to_str().is_ok_and(same)) {
        return Err(Problem::forbidden(format!("{says}; a web page of another origin sent this request")));
    }
    let site = headers.get_all("sec-fetch-site").iter();
    if site.into_iter().any(|site| site != "same-origin" && site != "none") {
        return Err(Problem::forbidden(format!("{says}; a web page of another site sent this request")));
    }
    Ok(())
}

/// Whether only a proxy sends this header.
fn passed_on(name: &HeaderName) -> bool {
    let name = name.as_str();
    name == "forwarded" || name == "via" || name == "x-real-ip" || name.starts_with("x-forwarded-")
}

/// `localhost`, `127.0.0.1:8080`, `[::1]:8080`.
fn names_loopback(host: &str) -> bool {
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').unwrap_or((rest, "")),
        None => host.find(':').map_or((host, ""), |at| host.split_at(at)),
    };
    let port = port.strip_prefix(':').unwrap_or(port);
    let loopback = name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    loopback && (port.is_empty() || port.parse::<u16>().is_ok())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn admitted(pairs: &[(&'static str, &'static str)]) -> bool {
        let pairs = pairs.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        admit(&pairs.collect()).is_ok()
    }

    #[test]
    fn programs_of_this_machine_are_served() {
        for host in ["localhost", "LOCALHOST:8080", "127.0.0.1:8080", "127.0.0.2", "[::1]:8080", "[::1]"] {
            assert!(admitted(&[("host", host)]), "{host}");
        }
        let same = [("host", "127.0.0.1:8080"), ("origin", "http://127.0.0.1:8080"), ("sec-fetch-site", "same-origin")];
        assert!(admitted(&same));
    }

    #[test]
    fn a_foreign_host_origin_or_proxy_is_refused() {
        for host in ["example.com", "localhost.example.com", "10.0.0.1", "127.0.0.1.nip.io", "", "localhost:x", "[::2]"]
        {
            assert!(!admitted(&[("host", host)]), "{host}");
        }
        assert!(!admitted(&[]), "a request without a host");
        let here = ("host", "127.0.0.1:8080");
        for other in [
            ("origin", "http://example.com"),
            ("origin", "http://127.0.0.1:3000"),
            ("origin", "https://127.0.0.1:8080"),
            ("origin", "null"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
            ("forwarded", "for=10.0.0.1"),
            ("x-forwarded-for", "10.0.0.1"),
            ("x-forwarded-host", "localhost"),
            ("x-real-ip", "10.0.0.1"),
            ("via", "1.1 proxy"),
        ] {
            assert!(!admitted(&[here, other]), "{other:?}");
        }
    }
}
