//! A request and its answer.

use std::{fmt, path::Path, time::Duration};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{
    Method, Request, Response, StatusCode,
    body::Incoming,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, DATE, HOST, HeaderMap, HeaderValue, RETRY_AFTER, USER_AGENT},
};
use tokio::{
    sync::{Mutex, MutexGuard},
    time::{sleep, timeout},
};
use turnwise_core::{Invalid, Timestamp};

use crate::{
    Address, Error, Problem,
    connection::{Connection, Tls},
};

/// Bytes of an answer: a page has about 8 MiB of jobs, and their texts may be written longer as JSON.
const ANSWER_BYTES: usize = 256 * 1024 * 1024;
/// How long an answer may take: a server answers within 30 s, and after 60 s where it was asked to wait; then the bytes are on their way.
const ANSWER_TIME: Duration = Duration::from_secs(120);
/// Times a request is sent again while the server is busy, or because the connection broke.
const TRIES: usize = 5;
/// The pause before a request is sent again, and the longest one that a server may ask for.
const PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// What is asked for.
#[derive(Debug, Clone)]
pub struct Ask {
    method: Method,
    path: String,
    parameters: Vec<(&'static str, String)>,
    body: Option<String>,
    once: Option<String>,
    trace: Vec<(&'static str, String)>,
}

impl Ask {
    fn new(method: Method, path: impl Into<String>) -> Self {
        Self { method, path: path.into(), parameters: Vec::new(), body: None, once: None, trace: Vec::new() }
    }

    /// Reads; the path begins behind `/api/v1`.
    pub fn get(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path)
    }

    /// Does something.
    pub fn post(path: impl Into<String>) -> Self {
        Self::new(Method::POST, path)
    }

    /// Sets something.
    pub fn put(path: impl Into<String>) -> Self {
        Self::new(Method::PUT, path)
    }

    /// Changes what the body names.
    pub fn patch(path: impl Into<String>) -> Self {
        Self::new(Method::PATCH, path)
    }

    /// Takes something away.
    pub fn delete(path: impl Into<String>) -> Self {
        Self::new(Method::DELETE, path)
    }

    /// With a parameter behind the question mark.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl fmt::Display) -> Self {
        self.parameters.push((name, value.to_string()));
        self
    }

    /// With a parameter, if it has a value.
    #[must_use]
    pub fn with_some(self, name: &'static str, value: Option<impl fmt::Display>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// With a body of JSON.
    #[must_use]
    pub fn json(self, body: impl Into<String>) -> Self {
        Self { body: Some(body.into()), ..self }
    }

    /// Under a key: the server does it once, however often it is sent. So it is sent again after a connection broke.
    #[must_use]
    pub fn once(self, key: impl Into<String>) -> Self {
        Self { once: Some(key.into()), ..self }
    }

    /// As a part of this trace (W3C).
    #[must_use]
    pub fn traced(self, parent: &str, state: Option<&str>) -> Self {
        let state = state.map(|state| ("tracestate", state.to_owned()));
        Self { trace: std::iter::once(("traceparent", parent.to_owned())).chain(state).collect(), ..self }
    }

    /// Whether sending it twice does no harm.
    fn repeatable(&self) -> bool {
        self.method == Method::GET || self.once.is_some()
    }

    fn target(&self, prefix: &str) -> String {
        let mut target = format!("{prefix}/api/v1{}", self.path);
        for (at, (name, value)) in self.parameters.iter().enumerate() {
            target += &format!("{}{name}={}", if at == 0 { "?" } else { "&" }, crate::encoded(value));
        }
        target
    }
}

/// What a server answered to a request that it did.
#[derive(Debug)]
#[non_exhaustive]
pub struct Answer {
    /// JSON.
    pub text: String,
    /// The server's time of the answer, to the second.
    pub at: Option<Timestamp>,
}

/// Asks a server; one request at a time, on one connection.
pub struct Client {
    address: Address,
    tls: Option<Tls>,
    token: Option<HeaderValue>,
    connection: Mutex<Option<Connection>>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Client({})", self.address)
    }
}

/// A request that got no answer.
struct Broken {
    text: String,
    /// Nothing of it was sent.
    unsent: bool,
}

impl Client {
    /// Does not connect yet. `ca`: a PEM file with the roots to trust, instead of those of this machine.
    pub fn new(address: Address, token: Option<&str>, ca: Option<&Path>) -> Result<Self, Invalid> {
        let bearer = |token: &str| {
            let bad = |_| Invalid::new("token", "has characters that no token has");
            let mut value = HeaderValue::try_from(format!("Bearer {token}")).map_err(bad)?;
            value.set_sensitive(true);
            Ok(value)
        };
        let tls = if address.tls { Some(Tls::new(ca)?) } else { None };
        Ok(Self { address, tls, token: token.map(bearer).transpose()?, connection: Mutex::new(None) })
    }

    /// Where the server is.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Asks, and again while the server is too busy, or where the connection broke and it does no harm.
    pub async fn ask(&self, ask: &Ask) -> Result<Answer, Error> {
        let mut connection = self.connection.lock().await;
        let mut tries = 1;
        loop {
            let sent = self.send(&mut connection, ask).await;
            let pause = match &sent {
                Ok((head, _)) if head.status == StatusCode::TOO_MANY_REQUESTS => retry_after(&head.headers),
                Err(broken) if broken.unsent || ask.repeatable() => PAUSE,
                _ => Duration::ZERO,
            };
            if pause.is_zero() || tries == TRIES {
                let broken = |Broken { text, unsent }| {
                    let address = &self.address;
                    Error::Unreachable(if unsent {
                        format!("the server {address} cannot be reached: {text}")
                    } else if ask.repeatable() {
                        format!("the server {address} gave no answer: {text}")
                    } else {
                        format!("the server {address} gave no answer: {text}; look whether it was done")
                    })
                };
                let (head, text) = sent.map_err(broken)?;
                return self.judge(&head, text);
            }
            tries += 1;
            sleep(pause).await;
        }
    }

    async fn send(
        &self,
        connection: &mut MutexGuard<'_, Option<Connection>>,
        ask: &Ask,
    ) -> Result<(hyper::http::response::Parts, String), Broken> {
        let unsent = |error: std::io::Error| Broken { text: error.to_string(), unsent: true };
        let mut open = match connection.take().filter(|open| !open.requests.is_closed()) {
            Some(open) => open,
            None => Connection::open(&self.address, self.tls.as_ref()).await.map_err(unsent)?,
        };
        let answered = timeout(ANSWER_TIME, async {
            let sent = open.requests.send_request(self.request(ask)?).await;
            let response: Response<Incoming> =
                sent.map_err(|error| Broken { text: cause(&error), unsent: error.is_canceled() })?;
            let (head, body) = response.into_parts();
            let whole = Limited::new(body, ANSWER_BYTES).collect().await;
            let whole = whole.map_err(|error| Broken { text: error.to_string(), unsent: false })?;
            let text = String::from_utf8(whole.to_bytes().into());
            Ok((head, text.map_err(|_| Broken { text: "its answer is not UTF-8".to_owned(), unsent: false })?))
        });
        let late = |_| Broken { text: format!("no answer within {} s", ANSWER_TIME.as_secs()), unsent: false };
        let answer = answered.await.map_err(late)??;
        **connection = Some(open);
        Ok(answer)
    }

    fn request(&self, ask: &Ask) -> Result<Request<Full<Bytes>>, Broken> {
        let bad = |error: hyper::http::Error| Broken { text: error.to_string(), unsent: false };
        let mut request = Request::builder().method(&ask.method).uri(ask.target(&self.address.prefix));
        request = request.header(HOST, &self.address.authority);
        request = request.header(ACCEPT, "application/json").header(USER_AGENT, "turnwise");
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, token);
        }
        if let Some(key) = &ask.once {
            request = request.header("idempotency-key", key);
        }
        for (name, value) in &ask.trace {
            request = request.header(*name, value);
        }
        let body = match &ask.body {
            Some(body) => {
                request = request.header(CONTENT_TYPE, "application/json");
                Bytes::from(body.clone())
            }
            None => Bytes::new(),
        };
        request.body(Full::new(body)).map_err(bad)
    }

    fn judge(&self, head: &hyper::http::response::Parts, text: String) -> Result<Answer, Error> {
        let is = |kind: &str| {
            head.headers.get(CONTENT_TYPE).is_some_and(|value| value.as_bytes().starts_with(kind.as_bytes()))
        };
        if head.status.is_success() && is("application/json") {
            return Ok(Answer { text, at: date(&head.headers) });
        }
        let problem = is("application/problem+json").then(|| serde_json::from_str::<Problem>(&text).ok()).flatten();
        Err(match problem {
            Some(problem) => Error::Problem(problem),
            None => Error::Foreign(format!(
                "{} answers with {}, but not as a turnwise server does; is the address right?",
                self.address, head.status
            )),
        })
    }
}

/// The innermost reason: the outer ones only say that a request failed.
pub(crate) fn cause(error: &hyper::Error) -> String {
    let mut inner: &dyn std::error::Error = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}

fn retry_after(headers: &HeaderMap) -> Duration {
    let seconds = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()).and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(1)).clamp(PAUSE, LONGEST_PAUSE)
}

fn date(headers: &HeaderMap) -> Option<Timestamp> {
    let at = httpdate::parse_http_date(headers.get(DATE)?.to_str().ok()?).ok()?;
    let micros = at.duration_since(std::time::UNIX_EPOCH).ok()?.as_micros();
    Some(Timestamp::from_micros(i64::try_from(micros).ok()?))
}
