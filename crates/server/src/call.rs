//! A request that was admitted, and its answer.

use std::{
    borrow::Cow,
    fmt,
    pin::Pin,
    str::FromStr,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    body::Body,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use hyper::body::{Body as _, Frame, SizeHint};
use percent_encoding::percent_decode_str;
use serde::Serialize;
use turnwise::{Invalid, Job, JobId, OnceKey, Timestamp, Turnwise, filter::JobFilter, wire::Unreadable};
use turnwise_core::{
    access::{Action, Grant, Target},
    time::parse_span,
};

use crate::{
    access::Caller,
    limits::{SHARED_FOR, SNIPPET},
    problem::Problem,
    service::{Place, Service},
    tries::Address,
};

/// A request whose caller may do this at all; to which jobs, the handler asks the grant.
pub(crate) struct Call {
    pub(crate) service: Service,
    pub(crate) action: Option<Action>,
    pub(crate) caller: Caller,
    pub(crate) grant: Arc<Grant>,
    /// The one name in the path, decoded; empty where it has none.
    pub(crate) name: String,
    pub(crate) query: Query,
    /// Where a request may be repeated: its key.
    pub(crate) once: Option<OnceKey>,
    pub(crate) headers: HeaderMap,
    /// Whether the caller's browser came by TLS, to this server or to a proxy before it.
    pub(crate) secure: bool,
    /// Where it comes from.
    pub(crate) from: Address,
    /// Whether a page asks that is read again because it is watched.
    pub(crate) watched: bool,
    pub(crate) body: Bytes,
    /// Among the requests that are worked on; `None` while it waits for something else than the database.
    pub(crate) place: Option<Place>,
}

/// The header with a request's key, as people write it.
pub(crate) const ONCE_HEADER: &str = "Idempotency-Key";

/// The key in a request's head, with or without the quotation marks that the IETF's draft asks for.
pub(crate) fn once_key(headers: &HeaderMap) -> Result<Option<OnceKey>, Problem> {
    let mut values = headers.get_all(ONCE_HEADER).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let refuse = |problem: &str| Problem::invalid(ONCE_HEADER, format!("{ONCE_HEADER}: {problem}"));
    if values.next().is_some() {
        return Err(refuse("is given twice"));
    }
    let text = value.to_str().map_err(|_| refuse("must be visible ASCII"))?.trim();
    let bare = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text);
    OnceKey::new(bare).map(Some).map_err(|invalid| refuse(&invalid.problem))
}

impl Call {
    pub(crate) fn turnwise(&self) -> &Turnwise {
        self.service.turnwise()
    }

    /// For changes: they are the caller's, and are written down as such.
    pub(crate) fn acting(&self) -> Turnwise {
        self.service.turnwise().acting_as(self.caller.actor())
    }

    /// The time by which a filter counts; it is asked for only where that makes a difference.
    pub(crate) async fn time_for(&self, filter: &JobFilter) -> Result<Timestamp, Problem> {
        if filter.is_relative() { Ok(self.turnwise().now().await?) } else { Ok(Timestamp::MIN) }
    }

    /// Whether the caller may do this to that.
    pub(crate) fn check(&self, target: Target<'_>) -> Result<(), Problem> {
        self.action.map_or(Ok(()), |action| self.grant.check(action, target)).map_err(Problem::from)
    }

    /// Whether the caller may still ask: its token may have been revoked meanwhile.
    pub(crate) async fn again(&self) -> Result<(), Problem> {
        self.service.door().again(self.turnwise(), &self.caller).await
    }

    /// Takes a place again, after a wait.
    pub(crate) async fn go_on(&mut self) -> Result<(), Problem> {
        self.place = Some(self.service.place(&self.caller).await?);
        Ok(())
    }

    pub(crate) fn covers(&self, job: &Job) -> bool {
        self.grant.covers(&job.queue, &job.group, &job.task)
    }

    /// The id in the path.
    pub(crate) fn id(&self) -> Result<JobId, Problem> {
        self.name.parse().map_err(|_| Problem::not_found(format!("{:?} is not a job id", self.name)))
    }

    /// The job in the path; one that the caller may not see is not there.
    pub(crate) async fn job(&self) -> Result<Job, Problem> {
        let id = self.id()?;
        let job = self.turnwise().job(id).await?;
        self.check(Target::job(&job)).map_err(|_| Problem::no_such_job(id))?;
        Ok(job)
    }

    /// The name in the path, as a queue's, a group's and so on.
    pub(crate) fn named<'a, N>(&'a self, read: impl FnOnce(&'a str) -> Result<N, Invalid>) -> Result<N, Problem> {
        read(&self.name).map_err(|invalid| Problem::in_parameter("name", &invalid))
    }

    /// The body; one that is left out is an empty object.
    pub(crate) fn read<'a, T>(&'a self, read: impl FnOnce(&'a str) -> Result<T, Unreadable>) -> Result<T, Problem> {
        let text = if self.body.is_empty() { "{}" } else { text(&self.body)? };
        read(text).map_err(|unreadable| Problem::unreadable(&unreadable))
    }
}

pub(crate) fn text(body: &[u8]) -> Result<&str, Problem> {
    std::str::from_utf8(body)
        .map_err(|error| Problem::malformed(format!("the body is not UTF-8 from byte {}", error.valid_up_to() + 1)))
}

/// The parameters behind the question mark.
#[derive(Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    /// Made by a page of this server, of parameters that the route knows.
    pub(crate) fn of(pairs: Vec<(String, String)>) -> Self {
        Self(pairs)
    }

    /// Refuses parameters that the route does not know, and those that are given twice, but for `many`.
    pub(crate) fn read(text: &str, known: &[&str], many: &[&str]) -> Result<Self, Problem> {
        let mut pairs: Vec<(String, String)> = Vec::new();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (name, value) = (decoded(name)?, decoded(value)?);
            if !known.contains(&name.as_str()) {
                let list =
                    if known.is_empty() { "none are".to_owned() } else { format!("known are {}", known.join(", ")) };
                return Err(Problem::invalid(name.clone(), format!("unknown parameter {name:?}; {list}")));
            }
            if pairs.iter().any(|(other, _)| *other == name) && !many.contains(&name.as_str()) {
                return Err(Problem::invalid(name.clone(), format!("{name}: is given twice")));
            }
            pairs.push((name, value));
        }
        Ok(Self(pairs))
    }

    /// Whatever stands there, of a page or a form.
    pub(crate) fn any(text: &str) -> Result<Self, Problem> {
        let pairs = text.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Ok((decoded(name)?, decoded(value)?))
        });
        Ok(Self(pairs.collect::<Result<_, Problem>>()?))
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// Every value of a field or parameter that may come several times, such as a box that is ticked.
    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// A text to look for.
    pub(crate) fn snippet(&self, name: &'static str) -> Result<Option<String>, Problem> {
        self.parse(name, |text| {
            if text.is_empty() || text.chars().count() > SNIPPET || text.contains(|c: char| c.is_ascii_control()) {
                return Err(Invalid::new(
                    name,
                    format!("must have 1 to {SNIPPET} characters, none of them a control character"),
                ));
            }
            Ok(text.to_owned())
        })
    }

    /// Of a parameter that may be repeated, or have several values between commas.
    pub(crate) fn list<T: FromStr<Err = Invalid>>(&self, name: &str) -> Result<Vec<T>, Problem> {
        let values = self.0.iter().filter(|(other, _)| other == name).flat_map(|(_, value)| value.split(','));
        let read = |value: &str| value.parse().map_err(|invalid| Problem::in_parameter(name, &invalid));
        values.filter(|value| !value.is_empty()).map(read).collect()
    }

    pub(crate) fn time(&self, name: &str) -> Result<Option<Timestamp>, Problem> {
        self.parse(name, |text| text.parse())
    }

    pub(crate) fn span(&self, name: &'static str) -> Result<Option<Duration>, Problem> {
        self.parse(name, |text| parse_span(name, text))
    }

    /// `true`, or left out.
    pub(crate) fn truth(&self, name: &'static str) -> Result<bool, Problem> {
        let read = |text: &str| match text {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err(Invalid::new(name, format!("must be true or false, not {text:?}"))),
        };
        Ok(self.parse(name, read)?.unwrap_or_default())
    }

    /// A whole number from 1 to `most`.
    pub(crate) fn count(&self, name: &'static str, most: u32) -> Result<Option<u32>, Problem> {
        self.parse(name, |text| match text.parse() {
            Ok(count) if (1..=most).contains(&count) => Ok(count),
            _ => Err(Invalid::new(name, format!("must be 1 to {most}, not {text:?}"))),
        })
    }

    pub(crate) fn parse<T>(
        &self,
        name: &str,
        read: impl FnOnce(&str) -> Result<T, Invalid>,
    ) -> Result<Option<T>, Problem> {
        self.get(name).map(read).transpose().map_err(|invalid| Problem::in_parameter(name, &invalid))
    }
}

fn decoded(text: &str) -> Result<String, Problem> {
    let text = text.replace('+', " ");
    let decoded = percent_decode_str(&text).decode_utf8().map(Cow::into_owned);
    decoded.map_err(|_| Problem::malformed("a parameter is not UTF-8"))
}

/// What is sent as a stream.
const EVENT_STREAM: &str = "text/event-stream";

/// An answer.
#[derive(Debug)]
pub(crate) struct Reply {
    status: StatusCode,
    content_type: &'static str,
    body: Body,
    location: Option<String>,
    cookie: Option<String>,
    /// Origins whose pages may embed it, with spaces between; `None`: none may.
    framed_by: Option<String>,
    /// Whether it is the answer of an earlier request with the same key.
    repeated: bool,
    /// Whether its address will never have another answer.
    lasting: bool,
    /// Whether there may be more to see in a while.
    comes_again: bool,
}

impl Reply {
    pub(crate) fn json(value: &impl Serialize) -> Result<Self, Problem> {
        let body = serde_json::to_vec(value).map_err(|error| {
            tracing::error!(%error, "an answer could not be written as JSON");
            Problem::away("the answer could not be written")
        })?;
        Ok(Self::of("application/json", body))
    }

    pub(crate) fn of(content_type: &'static str, body: impl Into<Body>) -> Self {
        Self {
            status: StatusCode::OK,
            content_type,
            body: body.into(),
            location: None,
            cookie: None,
            framed_by: None,
            repeated: false,
            lasting: false,
            comes_again: false,
        }
    }

    /// Server-sent events, which come as long as the body goes on.
    pub(crate) fn stream(body: Body) -> Self {
        Self::of(EVENT_STREAM, body)
    }

    pub(crate) fn status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    /// With a cookie for the caller's browser.
    pub(crate) fn cookie(self, cookie: String) -> Self {
        Self { cookie: Some(cookie), ..self }
    }

    /// Pages of these origins may embed it; no other answer may be embedded at all.
    pub(crate) fn framed_by(self, origins: &[&str]) -> Self {
        Self { framed_by: (!origins.is_empty()).then(|| origins.join(" ")), ..self }
    }

    pub(crate) fn take_framed_by(&mut self) -> Option<String> {
        self.framed_by.take()
    }

    /// Says so if it is the answer of an earlier request with the same key.
    pub(crate) fn repeated(self, repeated: bool) -> Self {
        Self { repeated, ..self }
    }

    /// The browser is to read that page now; its way there is relative, or has the proxy's prefix.
    pub(crate) fn see_other(location: String) -> Self {
        Self { location: Some(location), ..Self::of("text/plain; charset=utf-8", "").status(StatusCode::SEE_OTHER) }
    }

    /// Its address will never have another answer.
    pub(crate) fn lasting(self) -> Self {
        Self { lasting: true, ..self }
    }

    /// A page that is watched is to be read once more in a while: it shows what was read before.
    pub(crate) fn come_again(self) -> Self {
        Self { comes_again: true, ..self }
    }

    pub(crate) fn into_body(self) -> Body {
        self.body
    }

    /// The cookie that it sets, for the answer of a page that asked for it.
    pub(crate) fn take_cookie(&mut self) -> Option<String> {
        self.cookie.take()
    }

    /// How many bytes it has, if that is known.
    pub(crate) fn length(&self) -> Option<u64> {
        self.body.size_hint().exact()
    }

    /// Holds this until its bytes are with the system, or its caller has gone.
    pub(crate) fn holding(self, room: impl Send + Sync + Unpin + 'static) -> Self {
        Self { body: Body::new(Holding { body: self.body, room: Some(room) }), ..self }
    }

    /// For a caller that reaches this server below a path.
    pub(crate) fn below(mut self, prefix: &str) -> Self {
        if let Some(location) = self.location.as_mut().filter(|_| !prefix.is_empty()) {
            location.insert_str(0, prefix);
        }
        self
    }

    /// It was made, and can be read there.
    pub(crate) fn created(self, location: impl fmt::Display) -> Self {
        Self { location: Some(location.to_string()), ..self.status(StatusCode::CREATED) }
    }
}

/// A body of one part, which holds something as long as it is in memory.
struct Holding<T> {
    body: Body,
    room: Option<T>,
}

struct Part<T> {
    bytes: Bytes,
    _room: T,
}

impl<T> AsRef<[u8]> for Part<T> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl<T: Send + Sync + Unpin + 'static> hyper::body::Body for Holding<T> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let frame = std::task::ready!(Pin::new(&mut self.body).poll_frame(cx));
        // The body is dropped before its part is sent.
        let hold = |bytes| match self.room.take() {
            Some(room) => Bytes::from_owner(Part { bytes, _room: room }),
            None => bytes,
        };
        Poll::Ready(frame.map(|frame| frame.map(|frame| frame.map_data(hold))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl IntoResponse for Reply {
    fn into_response(self) -> Response {
        let mut response = Response::new(self.body);
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        if self.content_type == EVENT_STREAM {
            // A proxy that collects an answer before it passes it on would pass on none of this one.
            headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
        }
        if let Some(cookie) = self.cookie.and_then(|cookie| HeaderValue::try_from(cookie).ok()) {
            headers.insert(header::SET_COOKIE, cookie);
        }
        if self.lasting {
            headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=31536000, immutable"));
        }
        if self.comes_again {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(SHARED_FOR.as_secs()));
        }
        if self.repeated {
            headers.insert("idempotent-replayed", HeaderValue::from_static("true"));
        }
        if let Some(location) = self.location.and_then(|location| HeaderValue::try_from(location).ok()) {
            headers.insert(header::LOCATION, location);
        }
        response
    }
}
