//! Web pages of other origins that may ask (CORS). Their requests carry tokens, as those of programs do; cookies of this server are
//! never sent with them.

use axum::{
    body::Body,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::Response,
};
use turnwise::Invalid;

/// What a page may send, beside what every page may.
const HEADERS: &str = "authorization, content-type, idempotency-key, last-event-id, traceparent, tracestate";
/// What a page may read, beside what every page may.
const EXPOSED: &str = "location, retry-after, idempotent-replayed";
const METHODS: &str = "GET, POST, PUT, PATCH, DELETE";
/// How long a browser may remember it, in seconds.
const REMEMBERED: &str = "600";

/// Origins whose pages may ask; none unless given.
#[derive(Debug, Clone, Default)]
pub struct Origins(Vec<HeaderValue>);

impl Origins {
    /// Adds one, as browsers write it: `https://app.example.com`, with its port if it is not the usual one.
    pub fn allow(&mut self, text: &str) -> Result<(), Invalid> {
        self.add("allow_origin", text)
    }

    /// The same, of a list of those whose pages may embed a page of this server.
    pub fn embed(&mut self, text: &str) -> Result<(), Invalid> {
        self.add("embed_origin", text)
    }

    fn add(&mut self, field: &'static str, text: &str) -> Result<(), Invalid> {
        let place = text.strip_prefix("https://").or(text.strip_prefix("http://")).unwrap_or_default();
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.:[]".contains(c);
        let value = HeaderValue::try_from(text).ok().filter(|_| !place.is_empty() && place.chars().all(plain));
        let form = "write it as browsers do: https://app.example.com, in lower case, without a path";
        self.0.push(value.ok_or_else(|| Invalid::new(field, format!("{text:?} is not an origin; {form}")))?);
        Ok(())
    }

    /// As browsers write them.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|origin| origin.to_str().ok())
    }

    /// Headers for a page's browser, with each answer.
    pub(crate) fn answer(&self, asked: Option<&HeaderValue>, headers: &mut HeaderMap) {
        if self.0.is_empty() {
            return;
        }
        headers.insert(header::VARY, HeaderValue::from_static("origin"));
        if let Some(origin) = self.of(asked) {
            headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
            headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
        }
    }

    /// The answer to a browser that asks whether a page may ask.
    pub(crate) fn preflight(&self, asked: Option<&HeaderValue>) -> Option<Response> {
        self.of(asked)?;
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NO_CONTENT;
        let headers = response.headers_mut();
        self.answer(asked, headers);
        let mut put = |name: HeaderName, value| drop(headers.insert(name, HeaderValue::from_static(value)));
        put(header::ACCESS_CONTROL_ALLOW_METHODS, METHODS);
        put(header::ACCESS_CONTROL_ALLOW_HEADERS, HEADERS);
        put(header::ACCESS_CONTROL_MAX_AGE, REMEMBERED);
        Some(response)
    }

    fn of(&self, asked: Option<&HeaderValue>) -> Option<&HeaderValue> {
        self.0.iter().find(|allowed| Some(*allowed) == asked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_taken_as_a_browser_writes_it() {
        let mut origins = Origins::default();
        for good in ["https://app.example.com", "http://localhost:3000", "https://[::1]:8443"] {
            origins.allow(good).unwrap();
        }
        for bad in ["*", "null", "app.example.com", "https://", "https://app.example.com/", "https://App.example.com"] {
            let refused = origins.allow(bad).unwrap_err().to_string();
            assert!(refused.starts_with("allow_origin: "), "{refused}");
        }
        assert_eq!(
            origins.names().collect::<Vec<_>>(),
            ["https://app.example.com", "http://localhost:3000", "https://[::1]:8443"]
        );
        let refused = origins.embed("https://a.example; script-src *").unwrap_err().to_string();
        assert!(refused.starts_with("embed_origin: "), "{refused}");
    }
}
