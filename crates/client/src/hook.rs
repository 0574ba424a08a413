//! Requests to one address of another program's server, again and again: connections are kept for a moment.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::Path,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{
    Method, Request, Response, StatusCode, Uri,
    body::Incoming,
    header::{CONTENT_TYPE, HOST, HeaderMap, RETRY_AFTER, USER_AGENT},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpStream, lookup_host},
    time::timeout,
};
use turnwise_core::Invalid;

use crate::connection::{CONNECT_TIME, Connection, Tls};

/// Connections that are kept, at most.
const KEPT: usize = 32;
/// How long a connection may rest. Servers close those that rest longer, some after few seconds; a request that is sent at that moment
/// would be lost.
const RESTS: Duration = Duration::from_secs(2);
/// Most that a proxy says before it passes bytes on.
const PROXY_BYTES: usize = 8 * 1024;

/// Posts to one address. Redirects are answers like any other: they are not followed.
pub struct Hook {
    place: Place,
    tls: Option<Tls>,
    proxy: Option<Place>,
    private: bool,
    kept: Mutex<Vec<(Connection, Instant)>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    tls: bool,
    host: String,
    port: u16,
    authority: String,
    path: String,
}

/// What the server said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// The status of its answer.
    pub status: u16,
    /// How long it wants to be left alone.
    pub retry_after: Option<Duration>,
    /// Whether the body says that it is JSON.
    pub json: bool,
    /// `None`: it is longer than was wanted.
    pub body: Option<Bytes>,
}

impl std::fmt::Debug for Hook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The path may be a secret.
        write!(f, "Hook({})", self.place.authority)
    }
}

impl Place {
    fn read(setting: &'static str, text: &str) -> Result<Self, Invalid> {
        // What is wrong is said without the address: it may hold a secret.
        let refuse = |problem: &str| Err(Invalid::new(setting, problem.to_owned()));
        let Ok(uri) = text.parse::<Uri>() else {
            return refuse("is not an address like https://example.com/jobs");
        };
        let tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return refuse("must begin with https:// or http://"),
        };
        let Some(authority) = uri.authority() else { return refuse("names no host") };
        if authority.as_str().contains('@') {
            return refuse("must not have a name or a password in it");
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        if host.is_empty() {
            return refuse("names no host");
        }
        Ok(Self {
            tls,
            host,
            port: authority.port_u16().unwrap_or(if tls { 443 } else { 80 }),
            authority: authority.to_string(),
            path: uri.path_and_query().map_or_else(|| "/".to_owned(), ToString::to_string),
        })
    }
}

impl Hook {
    /// For this address. `ca`: a PEM file with the roots to trust, instead of those of this machine. `proxy`: a proxy to go through,
    /// `http://HOST:PORT`. `private`: whether the host may be on this machine or in a private network, as its name is resolved at each
    /// connection; a proxy resolves names itself.
    pub fn new(url: &str, ca: Option<&Path>, proxy: Option<&str>, private: bool) -> Result<Self, Invalid> {
        let place = Place::read("url", url)?;
        let proxy = proxy.map(|proxy| Place::read("proxy", proxy)).transpose()?;
        if proxy.as_ref().is_some_and(|proxy| proxy.tls || proxy.path != "/") {
            return Err(Invalid::new("proxy", "must be http://HOST:PORT"));
        }
        if ca.is_some() && !place.tls {
            return Err(Invalid::new("ca", "has no effect on an address that is not https"));
        }
        let tls = place.tls.then(|| Tls::trusting("ca", ca)).transpose()?;
        Ok(Self { place, tls, proxy, private, kept: Mutex::default() })
    }

    /// The host and port, for people; the rest of the address may be a secret.
    pub fn authority(&self) -> &str {
        &self.place.authority
    }

    /// Posts JSON, and reads at most so many bytes of the answer. An error says what could not be done.
    pub async fn post(&self, headers: &[(&'static str, String)], body: Bytes, most: usize) -> Result<Said, String> {
        // One that rests may have been closed at this moment: then nothing of the request was sent, and a new one is tried.
        while let Some(mut kept) = self.take() {
            match self.send(&mut kept, headers, body.clone(), most).await {
                Err((_, true)) => {}
                Err((error, false)) => return Err(error),
                Ok(said) => return Ok(self.keep(kept, said)),
            }
        }
        let mut new = timeout(CONNECT_TIME, self.connect())
            .await
            .map_err(|_| format!("no connection within {} s", CONNECT_TIME.as_secs()))?
            .map_err(|error| error.to_string())?;
        let said = self.send(&mut new, headers, body, most).await.map_err(|(error, _)| error)?;
        Ok(self.keep(new, said))
    }

    fn take(&self) -> Option<Connection> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|(connection, since)| since.elapsed() < RESTS && !connection.requests.is_closed());
        kept.pop().map(|(connection, _)| connection)
    }

    fn keep(&self, connection: Connection, said: Said) -> Said {
        // One with an unread rest of a body is of no use.
        if said.body.is_some() {
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            if kept.len() < KEPT {
                kept.push((connection, Instant::now()));
            }
        }
        said
    }

    async fn connect(&self) -> io::Result<Connection> {
        let stream = match &self.proxy {
            Some(proxy) => {
                let mut stream = TcpStream::connect((proxy.host.as_str(), proxy.port)).await?;
                if self.place.tls {
                    tunnel(&mut stream, &self.place.host, self.place.port).await?;
                }
                stream
            }
            None => {
                let found = lookup_host((self.place.host.as_str(), self.place.port)).await?;
                let found: Vec<SocketAddr> = found.filter(|at| self.private || is_public(at.ip())).collect();
                if found.is_empty() {
                    let text = format!("{} is at no public address, and private_addresses = false", self.place.host);
                    return Err(io::Error::other(text));
                }
                TcpStream::connect(&found[..]).await?
            }
        };
        Connection::on(stream, &self.place.host, self.tls.as_ref()).await
    }

    /// An error says what, and whether nothing of the request was sent.
    async fn send(
        &self,
        connection: &mut Connection,
        headers: &[(&'static str, String)],
        body: Bytes,
        most: usize,
    ) -> Result<Said, (String, bool)> {
        let request = self.request(headers, body).map_err(|error| (error.to_string(), false))?;
        let response: Response<Incoming> = connection
            .requests
            .send_request(request)
            .await
            .map_err(|error| (crate::client::cause(&error), error.is_canceled()))?;
        let (head, body) = response.into_parts();
        let body = match Limited::new(body, most).collect().await {
            Ok(whole) => Some(whole.to_bytes()),
            Err(error) if error.is::<http_body_util::LengthLimitError>() => None,
            Err(error) => return Err((error.to_string(), false)),
        };
        let json = head.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).is_some_and(is_json);
        Ok(Said { status: head.status.as_u16(), retry_after: retry_after(&head.headers), json, body })
    }

    fn request(&self, headers: &[(&'static str, String)], body: Bytes) -> hyper::http::Result<Request<Full<Bytes>>> {
        let Place { authority, path, tls, .. } = &self.place;
        // A proxy passes a plain request on by its whole address.
        let target = if self.proxy.is_some() && !tls { format!("http://{authority}{path}") } else { path.clone() };
        let mut request = Request::builder().method(Method::POST).uri(target).header(HOST, authority);
        request = request.header(CONTENT_TYPE, "application/json").header(USER_AGENT, "turnwise");
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        request.body(Full::new(body))
    }
}

/// Asks a proxy to pass everything on to that host.
async fn tunnel(stream: &mut TcpStream, host: &str, port: u16) -> io::Result<()> {
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    stream.write_all(format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n").as_bytes()).await?;
    let mut said = Vec::new();
    while !said.ends_with(b"\r\n\r\n") {
        if said.len() == PROXY_BYTES {
            return Err(io::Error::other("the proxy says more than it should"));
        }
        said.push(stream.read_u8().await?);
    }
    let text = String::from_utf8_lossy(&said);
    let line = text.lines().next().unwrap_or_default();
    match line.split(' ').nth(1) {
        Some(status) if status.starts_with('2') => Ok(()),
        _ => Err(io::Error::other(format!("the proxy answers {line:?}"))),
    }
}

fn is_json(kind: &str) -> bool {
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    kind == "application/json" || (kind.starts_with("application/") && kind.ends_with("+json"))
}

/// In seconds, or as a date.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    match text.parse() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        Err(_) => {
            let at = httpdate::parse_http_date(text).ok()?;
            Some(at.duration_since(SystemTime::now()).unwrap_or_default())
        }
    }
}

/// Whether an address is neither this machine's nor a private network's.
fn is_public(ip: IpAddr) -> bool {
    fn v4(ip: Ipv4Addr) -> bool {
        let [first, second, ..] = ip.octets();
        let shared = first == 100 && (64..128).contains(&second);
        let none = ip.is_unspecified() || ip.is_broadcast() || ip.is_multicast() || first == 0 || first >= 240;
        !(none || shared || ip.is_loopback() || ip.is_private() || ip.is_link_local())
    }
    fn v6(ip: Ipv6Addr) -> bool {
        let own = ip.is_loopback() || ip.is_unique_local() || ip.is_unicast_link_local();
        !(own || ip.is_unspecified() || ip.is_multicast())
    }
    match ip {
        IpAddr::V4(ip) => v4(ip),
        IpAddr::V6(ip) => ip.to_ipv4().map_or_else(|| v6(ip), v4),
    }
}

impl Said {
    /// Whether the answer is a redirect.
    pub fn is_redirect(&self) -> bool {
        StatusCode::from_u16(self.status).is_ok_and(|status| status.is_redirection())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_whole_and_never_repeated_when_it_is_refused() {
        let place = Place::read("url", "https://hooks.example.com:444/a/b?key=c").unwrap();
        assert_eq!((place.port, place.path.as_str(), place.tls), (444, "/a/b?key=c", true));
        assert_eq!(Place::read("url", "http://[::1]/x").unwrap().host, "::1");
        for text in ["", "hooks", "ftp://hooks/s3cret", "https://s3cret@hooks/x", "https:///s3cret"] {
            let refusal = Place::read("url", text).unwrap_err().to_string();
            assert!(refusal.starts_with("url: ") && !refusal.contains("s3cret"), "{text}: {refusal}");
        }
        for proxy in ["https://proxy", "http://proxy/path"] {
            let refusal = Hook::new("http://hooks", None, Some(proxy), true).unwrap_err().to_string();
            assert_eq!(refusal, "proxy: must be http://HOST:PORT");
        }
    }

    #[test]
    fn addresses_of_private_networks_are_not_public_however_they_are_written() {
        for ip in ["127.0.0.1", "10.1.2.3", "192.168.0.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "::1", "fd00::1"]
        {
            assert!(!is_public(ip.parse().unwrap()), "{ip}");
        }
        assert!(!is_public("::ffff:169.254.169.254".parse().unwrap()));
        for ip in ["93.184.215.14", "2606:2800:21f::1", "::ffff:93.184.215.14"] {
            assert!(is_public(ip.parse().unwrap()), "{ip}");
        }
    }

    #[test]
    fn what_retry_after_says_is_read_in_both_forms() {
        let said = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, text.parse().unwrap());
            retry_after(&headers)
        };
        assert_eq!(said("120"), Some(Duration::from_secs(120)));
        assert_eq!(said("Wed, 21 Oct 2015 07:28:00 GMT"), Some(Duration::ZERO), "it is over");
        let later = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(100));
        assert!(said(&later).is_some_and(|wait| (90..=100).contains(&wait.as_secs())));
        assert_eq!(said("soon"), None);
    }
}
