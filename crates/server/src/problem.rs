//! What went wrong, as `application/problem+json` (RFC 9457): a status, a word for programs, a sentence for people, and which values of
//! the request it is about.

use std::time::Duration;

use axum::{
    body::Body,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;
use turnwise::{Error, Invalid, JobId, StoreError, wire::Unreadable};
use turnwise_core::access::Refusal;

use crate::{
    limits::RETRY_AFTER_SECONDS,
    logs::{self, Kind},
    workers,
};

/// An answer that says why the request was not done.
#[derive(Debug, Serialize)]
pub(crate) struct Problem {
    /// `urn:turnwise:` and a word, by which programs distinguish problems.
    #[serde(rename = "type")]
    kind: String,
    title: &'static str,
    status: u16,
    /// For a person: what is wrong, and what to do.
    detail: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<Wrong>,
    /// The job that is in the way.
    #[serde(skip_serializing_if = "Option::is_none")]
    job: Option<JobId>,
    #[serde(skip)]
    retry_after: Option<u32>,
}

/// One value of the request that is wrong.
#[derive(Debug, Serialize)]
struct Wrong {
    /// A JSON pointer into the body such as `/priority`, or the name of a parameter.
    path: String,
    message: String,
}

impl Problem {
    fn new(status: StatusCode, word: &str, title: &'static str, detail: impl Into<String>) -> Self {
        Self {
            kind: format!("urn:turnwise:{word}"),
            title,
            status: status.as_u16(),
            detail: detail.into(),
            errors: Vec::new(),
            job: None,
            retry_after: None,
        }
    }

    pub(crate) fn status(&self) -> u16 {
        self.status
    }

    pub(crate) fn status_code(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// What is wrong, in a word or two.
    pub(crate) fn title(&self) -> &'static str {
        self.title
    }

    /// What is wrong, and what to do.
    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }

    pub(crate) fn about(mut self, path: impl Into<String>, message: impl Into<String>) -> Self {
        self.errors.push(Wrong { path: path.into(), message: message.into() });
        self
    }

    pub(crate) fn try_again(mut self) -> Self {
        self.retry_after = Some(RETRY_AFTER_SECONDS);
        self
    }

    /// As [`Problem::try_again`], not before this long.
    pub(crate) fn try_after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(workers::seconds(wait));
        self
    }

    pub(crate) fn malformed(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "malformed", "The request cannot be read", detail)
    }

    pub(crate) fn unauthorized(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", "A token is needed", detail)
    }

    /// Why the caller's token does not hold, if that is the problem.
    pub(crate) fn unauthorized_because(&self) -> Option<&str> {
        (self.status == StatusCode::UNAUTHORIZED.as_u16()).then_some(self.detail.as_str())
    }

    pub(crate) fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", "This is not allowed", detail)
    }

    pub(crate) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not-found", "There is no such thing", detail)
    }

    pub(crate) fn no_such_job(id: JobId) -> Self {
        Self::not_found(Error::NoSuchJob(id).to_string())
    }

    /// A job, or a schedule's job, that the caller may not make.
    pub(crate) fn not_to_submit() -> Self {
        Self::not_found(
            "this token may not submit jobs of this queue, group or task, or that go on as a task which is not its own",
        )
    }

    pub(crate) fn wrong_method(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "method", "This method is not served here", detail)
    }

    pub(crate) fn conflict(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "conflict", "The request conflicts with what is there", detail)
    }

    pub(crate) fn too_large(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", "The request is too large", detail)
    }

    pub(crate) fn too_slow(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::REQUEST_TIMEOUT, "too-slow", "The request took too long to arrive", detail)
    }

    pub(crate) fn not_json(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "media-type", "The body must be JSON", detail)
    }

    /// A value is wrong: in the body (`path` is a JSON pointer) or a parameter (`path` is its name).
    pub(crate) fn invalid(path: impl Into<String>, message: impl Into<String>) -> Self {
        let message = message.into();
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", "A value is not allowed", message.clone())
            .about(path, message)
    }

    /// A value of the body.
    pub(crate) fn in_body(invalid: &Invalid) -> Self {
        Self::invalid(format!("/{}", invalid.field), invalid.to_string())
    }

    /// A parameter.
    pub(crate) fn in_parameter(name: &str, invalid: &Invalid) -> Self {
        Self::invalid(name, format!("{name}: {}", invalid.problem))
    }

    pub(crate) fn unreadable(unreadable: &Unreadable) -> Self {
        if unreadable.is_malformed() {
            return Self::malformed(unreadable.to_string()).about(unreadable.pointer(), unreadable.to_string());
        }
        Self::invalid(unreadable.pointer(), unreadable.to_string())
    }

    pub(crate) fn busy(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, "busy", "Too much is asked at a time", detail).try_again()
    }

    pub(crate) fn away(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", "The service cannot answer now", detail).try_again()
    }

    /// The whole text is for the log: it is no caller's business, and may name what a caller may not see.
    fn broken(error: &Error) -> Self {
        if logs::may(Kind::Broken) {
            tracing::error!(%error, "a request could not be answered");
        }
        let detail = "something is broken inside; the server's log says what";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "broken", "The server failed", detail)
    }

    /// As [`From<Error>`], of a submit: what the store refuses then is about a value of the jobs, and `path` says where that is.
    pub(crate) fn of_submit(error: Error, path: impl FnOnce(&str) -> String) -> Self {
        match error {
            // Both stores say it in the same words, which begin with the name of the value.
            Error::Store(StoreError::Refused(text)) if text.starts_with("after: ") => {
                Self::invalid(path("after"), text)
            }
            Error::Store(StoreError::Refused(text)) if text.starts_with("id: ") => Self::invalid(path("id"), text),
            Error::Store(StoreError::Refused(text)) => Self::conflict(text),
            Error::Store(StoreError::Duplicate { holder, text }) => {
                Self { job: Some(holder), ..Self::conflict(text.clone()).about(path("unique"), text) }
            }
            other => other.into(),
        }
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        match error {
            Error::Invalid(invalid) => Self::in_body(&invalid),
            Error::Illegal(illegal) => Self::conflict(illegal.to_string()),
            Error::NoSuchJob(id) => Self::no_such_job(id),
            Error::NoJobBegins(_) => Self::not_found(error.to_string()),
            Error::Conflict(_) | Error::Contested(_) => Self::conflict(error.to_string()).try_again(),
            Error::Store(ref store) if store.is_transient() => {
                logs::no_answer(&error);
                Self::away("the database does not answer; try again")
            }
            Error::Store(StoreError::Refused(ref text)) => {
                if logs::may(Kind::Refused) {
                    tracing::error!(%error, "the database refused a request");
                }
                Self::away(text)
            }
            other => Self::broken(&other),
        }
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::NotFound => Self::not_found("there is no such thing, or this token may not see it"),
            other => Self::forbidden(other.to_string()),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let json = serde_json::to_vec(&self).unwrap_or_default();
        let mut response = Response::new(Body::from(json));
        *response.status_mut() = self.status_code();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if self.status == StatusCode::UNAUTHORIZED.as_u16() {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}
